//! Devices that are killed again and again, at any step.

use proptest::prelude::*;

use super::super::card::{Agreed, Card};
use super::super::inbox::Inbox;
use super::super::model::{BEFORE, Model, PIECES, killed_after};
use super::super::ring::Ring;
use port::{FrameView, Slot, Taken};

const AGREED: Agreed = Agreed { mergeable: false, offloads: false };

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The guest makes a frame available in so many pieces.
    Post(u16),
    /// The guest takes back what was used.
    Collect,
    /// The device takes so many.
    Take(usize),
    /// The device gives one of those back that it holds.
    GiveBack(usize),
    Publish,
    /// The front-end stops the ring, and starts it again.
    Pause,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let next = prop_oneof![
        8 => (1..=PIECES).prop_map(Move::Post),
        3 => Just(Move::Collect),
        4 => (1..5_usize).prop_map(Move::Take),
        6 => any::<usize>().prop_map(Move::GiveBack),
        3 => Just(Move::Publish),
        1 => Just(Move::Pause),
    ];
    prop::collection::vec(next, 1..120)
}

/// One switch, from its start to its being killed.
struct Life {
    card: Card,
    held: Vec<Slot>,
    /// The frames that were delivered, in their order.
    delivered: Vec<u32>,
}

impl Life {
    fn begin(model: &Model) -> Self {
        let mut card = Card::new(1, 64);
        card.set_memory(model.memory());
        card.start(1, model.ring().recorded(model.record, false), AGREED);
        Self { card, held: Vec::new(), delivered: Vec::new() }
    }

    fn go(&mut self, model: &Model, next: Move) {
        match next {
            Move::Take(most) => {
                let arrived = |slot, frame: &FrameView<'_>| {
                    let mut bytes = [0; BEFORE - 12 + 4];
                    assert_eq!(frame.read(&mut bytes), bytes.len());
                    let number = u32::from_le_bytes(*bytes.last_chunk().unwrap());
                    self.held.push(slot);
                    self.delivered.push(number);
                };
                self.card.receive(most, arrived).unwrap();
            }
            Move::GiveBack(which) if !self.held.is_empty() => {
                let slot = self.held.swap_remove(which % self.held.len());
                self.card.release(slot);
            }
            Move::Publish => self.card.publish(&mut (), |_| {}),
            Move::Pause => {
                let base = self.card.stop(1, &mut ()).unwrap();
                let ring = Ring::new(model.parts, model.size, model.events, base);
                self.card.start(1, ring.recorded(model.record, false), AGREED);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 1_500 }))]

    /// Whenever a switch is killed: every frame is delivered, none twice by one switch, each switch
    /// delivers in order, and every chain goes back once.
    #[test]
    fn a_switch_that_is_killed_loses_nothing(
        packed: bool,
        events: bool,
        size in prop_oneof![Just(4_u16), Just(8), Just(16)],
        moves in moves(),
        kills in prop::collection::vec(0..300_u32, 0..12),
    ) {
        let mut model = Model::new(if packed { size + 1 } else { size }, packed, events, false);
        let mut kills = kills.into_iter();
        let (mut left, mut sent) = (kills.next().unwrap_or(u32::MAX), 0);
        let mut life: Option<Life> = None;
        let mut seen = std::collections::BTreeSet::new();
        let last = (0..sent.max(1_000)).flat_map(|_| {
            [Move::Take(64), Move::GiveBack(1), Move::GiveBack(0), Move::Publish, Move::Collect]
        });
        for (round, next) in moves.iter().copied().chain(last).enumerate() {
            match next {
                Move::Post(pieces) => sent += u32::from(model.post(pieces, sent)),
                Move::Collect => while model.collect().is_some() {},
                _ => {}
            }
            if round == moves.len() {
                left = u32::MAX;
            }
            let mut now = match life.take().or_else(|| killed_after(&mut left, || Life::begin(&model))) {
                Some(life) => life,
                None => { left = kills.next().unwrap_or(u32::MAX); continue }
            };
            let lives = killed_after(&mut left, || now.go(&model, next)).is_some();
            prop_assert!(now.delivered.is_sorted_by(|a, b| a < b), "{:?}", now.delivered);
            seen.extend(now.delivered.iter().copied());
            if lives { life = Some(now) } else { left = kills.next().unwrap_or(u32::MAX) }
            if round > moves.len() && model.posted.is_empty() {
                break;
            }
        }
        prop_assert!(model.posted.is_empty(), "{:?} did not come back", model.posted);
        prop_assert!(seen.into_iter().eq(0..sent), "some of {sent} were not delivered");
    }

    /// A packed ring by which a guest receives goes on where it was, with all its buffers as they
    /// were.
    #[test]
    fn a_switch_that_is_killed_goes_on_delivering(
        pieces in prop::collection::vec(1..=PIECES, 1..20),
        moves in prop::collection::vec((0..4_u8, 1..120_usize), 1..120),
        kills in prop::collection::vec(0..300_u32, 0..12),
    ) {
        let mut model = Model::new(9, true, false, true);
        let mut pieces = pieces.iter().copied().cycle();
        let mut kills = kills.into_iter();
        let mut left = kills.next().unwrap_or(u32::MAX);
        let mut inbox: Option<Inbox> = None;
        // What is to come, as long as nobody is killed in between.
        let (mut put, mut came) = (0, 0);
        let ends = std::iter::repeat_n((3, 20), 40);
        for (round, (next, len)) in moves.iter().copied().chain(ends).enumerate() {
            if round == moves.len() {
                left = u32::MAX;
            }
            while model.post(pieces.next().unwrap(), 0) {}
            let memory = model.memory();
            let begin = || Inbox::new(model.ring().recorded(model.record, true), true);
            let Some(mut now) = inbox.take().or_else(|| killed_after(&mut left, begin)) else {
                left = kills.next().unwrap_or(u32::MAX);
                continue;
            };
            inbox = killed_after(&mut left, || match next {
                0 => {
                    let mut ring = now.close();
                    ring.publish(&mut ());
                    let marked = |entry| super::is_marked(model.record, true, entry);
                    assert!(!(0..model.size).any(marked), "nothing is taken any more");
                    let ring = Ring::new(model.parts, model.size, model.events, ring.base());
                    Inbox::new(ring.recorded(model.record, true), true)
                }
                _ => {
                    let frame = vec![7; len];
                    let taken = now.put(&memory, &FrameView::plain(&frame), &mut ()).unwrap();
                    put += u32::from(taken == Taken::Yes);
                    if next == 3 {
                        now.publish(&mut ());
                    }
                    now
                }
            });
            if inbox.is_none() {
                left = kills.next().unwrap_or(u32::MAX);
            }
            while let Some((_, len)) = model.collect() {
                prop_assert!(len > 0, "no buffer is bad");
                came += 1;
            }
            if round == moves.len() {
                (put, came) = (0, 0);
            }
        }
        prop_assert_eq!((put, came), (39, 39));
    }
}

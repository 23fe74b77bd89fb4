//! An egress that owners share.

use lossless::{LinkConfig, Load, Owner};
use shares::{Bound, Terms};

use super::*;

const OWNERS: usize = 3;

/// The port that all flows are behind: each owner has two others.
const FAR: usize = 2 * OWNERS;

/// What the link spends on a frame besides its bytes.
const AROUND: u32 = 100;

fn rate() -> Rate {
    Rate::from_gbit(1)
}

const NOW: Instant = Instant::ZERO;

/// A switch with a port that owners share, or one that they do not.
fn world(is_shared: bool) -> (Switch<Frame>, Vec<PortId>) {
    let (mut switch, ids) = switch(Settings::default(), &[PortConfig::default(); FAR + 1]);
    for (port, id) in ids.iter().enumerate().take(FAR) {
        switch.set_owner(*id, owner_of(port));
    }
    if is_shared {
        let link = LinkConfig { rate: rate(), frame: 1514 + AROUND, around: AROUND };
        switch.share(ids[FAR], link);
    }
    (switch, ids)
}

fn owner_of(port: usize) -> Owner {
    Owner((port / 2) as u16)
}

/// A flow of an owner, and its class.
fn flow_of(owner: usize, flow: u64) -> (Flow, Class) {
    (Flow(owner as u64 * 4 + flow), Class::from_low_bits((flow % 2) as u8))
}

/// Each frame's length: short, full, or a large segment.
fn bytes_of(frame: Frame) -> u32 {
    [100, 1514, 900, 65_000, 60][(frame.number % 5) as usize]
}

fn offer(switch: &mut Switch<Frame>, now: Instant, ids: &[PortId], frame: Frame, class: Class) {
    let to = Destination::Flow(ids[FAR], Flow(frame.flow));
    let size = Size { bytes: bytes_of(frame), frames: 1 };
    let offered = switch.arrivals(now, ids[frame.from]).offer(to, class, frame, size);
    assert_eq!(offered, Offered::Held);
}

/// Hands out the next frame; what becomes of it says `fate`.
fn serve(switch: &mut Switch<Frame>, now: Instant, ids: &[PortId], fate: u8) -> Option<Frame> {
    let mut visit = switch.departures(now, ids[FAR]);
    let head = visit.flow_head()?;
    let frame = head.frame();
    match fate {
        0..=5 => drop(head.delivered()),
        6 => head.depart(Flow(frame.flow)),
        7 => head.block(),
        8 => drop(head.refuse(Refusal::WITHDRAWN)),
        _ => {}
    }
    Some(frame)
}

#[derive(Clone, Debug)]
enum Step {
    Offer { port: usize, flow: u64 },
    Serve { fate: u8 },
    Unblock { owner: usize, flow: u64 },
    Terms { owner: usize, terms: Terms },
    Wait { us: u64 },
    Abandon { owner: usize },
    Withdraw { port: usize },
}

/// Any terms: a maximum is 1 Mb/s at least.
pub fn terms() -> impl Strategy<Value = Terms> {
    let bound = |least: u64| {
        let bits = (least..900, 0..20_000_u32);
        let bits = bits.prop_map(|(mbit, burst)| {
            let rate = Rate::from_bits_per_sec(mbit * 1_000_000)?;
            Some(Bound::bits(rate, burst))
        });
        prop::option::of(bits).prop_map(|bound| bound.flatten().unwrap_or_default())
    };
    (bound(0), bound(1), 1..9_u16).prop_map(|(min, max, weight)| Terms {
        min,
        max,
        weight: weight.try_into().unwrap(),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let (owner, port, flow) = (0..OWNERS, 0..FAR, 0..4_u64);
    prop_oneof![
        8 => (port.clone(), flow.clone()).prop_map(|(port, flow)| Step::Offer { port, flow }),
        8 => (0..10_u8).prop_map(|fate| Step::Serve { fate }),
        3 => (owner.clone(), flow).prop_map(|(owner, flow)| Step::Unblock { owner, flow }),
        1 => (owner.clone(), terms()).prop_map(|(owner, terms)| Step::Terms { owner, terms }),
        4 => (0..200_u64).prop_map(|us| Step::Wait { us }),
        1 => owner.prop_map(|owner| Step::Abandon { owner }),
        1 => port.prop_map(|port| Step::Withdraw { port }),
    ]
}

proptest! {
    #[test]
    fn an_owners_frames_leave_as_if_it_had_the_egress_to_itself(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let (mut shared, ids) = world(true);
        let mut alone: [_; OWNERS] = std::array::from_fn(|_| world(false).0);
        let mut now = NOW;
        let mut is_bounded = [false; OWNERS];
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Offer { port, flow } => {
                    let owner = port / 2;
                    let (flow, class) = flow_of(owner, flow);
                    let frame = Frame { number, from: port, flow: flow.0 };
                    offer(&mut shared, now, &ids, frame, class);
                    offer(&mut alone[owner], now, &ids, frame, class);
                }
                Step::Serve { fate } => match serve(&mut shared, now, &ids, fate) {
                    Some(frame) => {
                        let owner = frame.from / 2;
                        prop_assert_eq!(serve(&mut alone[owner], now, &ids, fate), Some(frame));
                    }
                    // Nobody is held who has no maximum.
                    None => {
                        for (owner, is_bounded) in is_bounded.into_iter().enumerate() {
                            let next = serve(&mut alone[owner], now, &ids, 9);
                            prop_assert!(next.is_none() || is_bounded, "{owner} has {next:?}");
                            if let (Some(_), Some(at)) = (next, shared.deadline(now)) {
                                prop_assert!(at > now);
                            }
                        }
                    }
                },
                Step::Unblock { owner, flow } => {
                    let (flow, _) = flow_of(owner, flow);
                    shared.unblock(now, ids[FAR], flow);
                    alone[owner].unblock(now, ids[FAR], flow);
                }
                Step::Terms { owner, terms } => {
                    is_bounded[owner] |= terms.max != Bound::default();
                    shared.set_terms(now, ids[FAR], Owner(owner as u16), terms);
                }
                Step::Wait { us } => now += Span::from_micros(us),
                Step::Abandon { owner } => {
                    let flows = flow_of(owner, 0).0..=flow_of(owner, 3).0;
                    for switch in [&mut shared, &mut alone[owner]] {
                        let refusal = Refusal::STALLED;
                        switch.abandon_flows(now, ids[FAR], flows.clone(), refusal, |_| {});
                    }
                }
                Step::Withdraw { port } => {
                    for switch in [&mut shared, &mut alone[port / 2]] {
                        switch.withdraw_all(now, ids[port], |_| {});
                    }
                }
            }
            prop_assert_eq!(shared.audit(), Ok(()));
        }
        // All that is not blocked leaves, as fast as maxima let it.
        let mut left = 0;
        while left < 10_000 {
            let Some(frame) = serve(&mut shared, now, &ids, 0) else {
                let Some(at) = shared.deadline(now).filter(|at| at.since(now) < Span::from_secs(5))
                else {
                    break;
                };
                now = at.max(now + Span::from_nanos(1));
                left += 1;
                continue;
            };
            prop_assert_eq!(serve(&mut alone[frame.from / 2], now, &ids, 0), Some(frame));
        }
        for (owner, alone) in alone.iter_mut().enumerate() {
            prop_assert_eq!(serve(alone, now, &ids, 9), None, "{}", owner);
        }
    }
}

/// A link that sends what it is given: its time goes on by that.
struct Wire {
    switch: Switch<Frame>,
    ids: Vec<PortId>,
    now: Instant,
    number: u64,
    /// What each owner has sent, as the link counts.
    sent: [u64; OWNERS],
}

impl Wire {
    fn new(terms: &[Terms]) -> Self {
        let (mut switch, ids) = world(true);
        for (owner, terms) in (0..).zip(terms) {
            switch.set_terms(NOW, ids[FAR], Owner(owner), *terms);
        }
        Self { switch, ids, now: NOW, number: 0, sent: [0; OWNERS] }
    }

    /// A full frame waits, or so many do.
    fn offer(&mut self, port: usize, flow: u64, frames: usize) {
        let (flow, class) = flow_of(port / 2, flow);
        for _ in 0..frames {
            let frame = Frame { number: self.number * 5 + 1, from: port, flow: flow.0 };
            self.number += 1;
            offer(&mut self.switch, self.now, &self.ids, frame, class);
        }
    }

    /// Sends a frame. Whose it was.
    fn send(&mut self) -> Option<usize> {
        let frame = serve(&mut self.switch, self.now, &self.ids, 0)?;
        let bytes = u64::from(bytes_of(frame) + AROUND);
        self.now += rate().time_for(bytes);
        self.sent[frame.from / 2] += bytes;
        Some(frame.from / 2)
    }
}

fn guaranteed(mbit: u64) -> Terms {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000).unwrap();
    Terms { min: Bound::bits(rate, 1514 + AROUND), ..Terms::default() }
}

#[test]
fn who_keeps_to_a_guarantee_waits_for_a_frame_and_not_for_all_who_send_more() {
    let mut wire = Wire::new(&[guaranteed(100), Terms::default(), Terms::default()]);
    // A frame each 200 µs is 65 Mb/s, and what the others send in that time is less than comes.
    for round in 0..500 {
        for port in [2, 3, 4, 5] {
            for flow in 0..4 {
                wire.offer(port, flow, if round == 0 { 8 } else { 1 });
            }
        }
        wire.offer(0, 0, 1);
        let before = wire.now;
        while wire.send() != Some(0) {}
        assert!(wire.now.since(before) <= rate().time_for(2 * 1614), "{}", wire.number);
        while wire.now.since(before) < Span::from_micros(200) {
            assert_ne!(wire.send().expect("the others have many"), 0);
        }
    }
}

#[test]
fn what_guarantees_leave_is_shared_by_owner_whatever_number_of_flows_and_ports_each_has() {
    let mut wire = Wire::new(&[Terms::default(), Terms::default(), guaranteed(200)]);
    wire.offer(0, 0, 400);
    for (port, flow) in [2, 3].into_iter().flat_map(|port| (0..4).map(move |flow| (port, flow))) {
        wire.offer(port, flow, 60);
    }
    wire.offer(4, 0, 400);
    for _ in 0..600 {
        wire.send().expect("all have many");
    }
    let [few, many, guaranteed] =
        wire.sent.map(|bytes| bytes as f64 / wire.sent.iter().sum::<u64>() as f64);
    assert!((few - many).abs() < 0.01, "{:?}", wire.sent);
    // It has its fifth, and a third of what is left.
    assert!((guaranteed - (0.2 + 0.8 / 3.0)).abs() < 0.02, "{:?}", wire.sent);
}

#[test]
fn the_highest_class_of_one_owner_does_not_go_before_the_lowest_of_another() {
    let mut wire = Wire::new(&[Terms::default(); OWNERS]);
    // Flow 1 is of the higher class.
    wire.offer(0, 1, 200);
    wire.offer(2, 0, 100);
    wire.offer(2, 1, 100);
    let order: Vec<_> = std::iter::from_fn(|| wire.send()).collect();
    let first = order[..200].iter().filter(|owner| **owner == 0).count();
    assert!((95..=105).contains(&first), "{first}");
}

#[test]
fn a_maximum_holds_its_owner_alone_and_the_switch_says_until_when() {
    let slow = Terms { max: Bound::bits("10mbit".parse().unwrap(), 1614), ..Terms::default() };
    let mut wire = Wire::new(&[slow, Terms::default()]);
    wire.offer(0, 0, 100);
    wire.offer(2, 0, 100);
    let quick = (0..102).filter(|_| wire.send() == Some(1)).count();
    assert_eq!(quick, 100);
    assert_eq!(wire.send(), None);
    let at = wire.switch.deadline(wire.now).expect("it says when");
    assert!(at > wire.now && at.since(wire.now) < Span::from_millis(2));
    wire.now = at;
    assert_eq!(wire.send(), Some(0));
}

#[test]
fn the_time_that_an_owner_waits_is_its_own_frames_and_others() {
    let mut wire = Wire::new(&[Terms::default(); OWNERS]);
    wire.offer(0, 0, 50);
    wire.offer(2, 0, 200);
    let had = |wire: &Wire, owner| {
        wire.switch.link_use(wire.now, wire.ids[FAR], Owner(owner)).expect("it has something")
    };
    let time = |frames: u64| rate().time_for(frames * u64::from(1514 + AROUND));
    // While both have some, each is sent half.
    while wire.sent[0] < 50 * u64::from(1514 + AROUND) {
        wire.send().expect("both have some");
    }
    let about = |span: Span, frames: u64| {
        let differs = span.as_nanos().abs_diff(time(frames).as_nanos());
        assert!(differs <= time(3).as_nanos(), "{span}, not {}", time(frames));
    };
    let few = had(&wire, 0);
    about(few.waited, 50);
    about(few.backlogged, 100);
    about(had(&wire, 1).waited, 50);
    // The other one goes on alone, and waits for nobody.
    while wire.send().is_some() {}
    assert_eq!(had(&wire, 0), few);
    about(had(&wire, 1).waited, 50);
    about(had(&wire, 1).backlogged, 250);
    // Nobody has anything: nobody waits.
    let [before, now] = [wire.now, wire.now + Span::from_secs(1)];
    let later = wire.switch.link_use(now, wire.ids[FAR], Owner(1));
    assert_eq!(later, wire.switch.link_use(before, wire.ids[FAR], Owner(1)));
}

#[test]
fn an_owners_books_are_its_ports_those_that_are_gone_too_until_it_is_forgotten() {
    let mut wire = Wire::new(&[Terms::default(), guaranteed(100)]);
    wire.offer(2, 0, 3);
    wire.offer(3, 0, 4);
    wire.offer(4, 0, 5);
    while wire.send().is_some() {}
    wire.offer(3, 0, 2);
    let books = |wire: &Wire| wire.switch.books(wire.now, Some(wire.ids[FAR]));
    let of = |wire: &Wire, owner| books(wire).get(&Owner(owner)).copied();
    let all = of(&wire, 1).expect("it has two ports");
    assert_eq!((all.ports, all.ingress.accepted, all.ingress.held), (2, 9, 2));
    let sum = |wire: &Wire| {
        let ledgers = books(wire).into_values();
        ledgers.fold(Account::default(), |mut sum, books| {
            sum.merge(&books.ingress);
            sum
        })
    };
    assert_eq!(sum(&wire), wire.switch.total());
    // What its port still held is refused, and stays in the books.
    let Wire { switch, ids, now, .. } = &mut wire;
    switch.detach(*now, ids[3], |_| {});
    let left = of(&wire, 1).expect("it has a port");
    assert_eq!((left.ports, left.ingress.accepted, left.ingress.refused_total()), (1, 9, 2));
    assert!(left.ingress.balances());
    let Wire { switch, ids, now, .. } = &mut wire;
    switch.detach(*now, ids[2], |_| {});
    let total = switch.total();
    switch.forget_owner(Owner(1));
    assert_eq!(of(&wire, 1), None);
    assert_eq!(wire.switch.link_use(wire.now, wire.ids[FAR], Owner(1)), None);
    assert_eq!(wire.switch.total(), total, "what came in stays in the books of the whole");
}

#[test]
fn what_is_sent_again_of_an_owner_its_own_frames_wait_for() {
    let mut wire = Wire::new(&[Terms::default(); OWNERS]);
    wire.offer(0, 0, 200);
    wire.offer(2, 0, 200);
    let again = Load { frames: 1, bytes: 1514 };
    for _ in 0..100 {
        wire.switch.charge(wire.now, wire.ids[FAR], wire.ids[0], again);
        wire.send().expect("both have some");
        wire.send().expect("both have some");
    }
    // Of 300 frames' time each has half.
    let frames = |owner: usize| wire.sent[owner] / u64::from(1514 + AROUND);
    assert!((48..=52).contains(&frames(0)) && (148..=152).contains(&frames(1)), "{:?}", wire.sent);
    let had = wire.switch.link_use(wire.now, wire.ids[FAR], Owner(0)).expect("it has something");
    assert_eq!(had.resent_bytes, 100 * u64::from(1514 + AROUND));
}

#[test]
fn what_is_sent_again_counts_against_a_guarantee_and_a_maximum() {
    let bounded = |mbit: u64| Terms {
        max: Bound::bits(Rate::from_bits_per_sec(mbit * 1_000_000).unwrap(), 1614),
        ..Terms::default()
    };
    let mut wire = Wire::new(&[guaranteed(500), bounded(100)]);
    for port in [0, 2, 4] {
        wire.offer(port, 0, 900);
    }
    // Each frame of the first two is sent twice.
    let again = Load { frames: 1, bytes: 1514 };
    for _ in 0..800 {
        let owner = wire.send().expect("all have some");
        if owner < 2 {
            wire.switch.charge(wire.now, wire.ids[FAR], wire.ids[2 * owner], again);
            wire.now += rate().time_for(u64::from(1514 + AROUND));
        }
    }
    let time = wire.now.as_nanos() as f64 / 1e9;
    let mbits = wire.sent.map(|bytes| bytes as f64 * 8.0 / 1e6 / time);
    // Half of what the second may, half of the first's guarantee and of its part of the rest.
    assert!((40.0..55.0).contains(&mbits[1]), "{mbits:?}");
    assert!((250.0..370.0).contains(&mbits[0]), "{mbits:?}");
    assert!(mbits[2] > 150.0, "{mbits:?}");
}

//! Two TCPs that lose, repeat and reorder segments: no table between them may stand in their way.

use conntrack::{Denied, Phase, Segment, Table, Tuple, Verdict, Zone};
use proptest::prelude::*;
use units::{Instant, Rng};
use wire::tcp::Flags;

use crate::common::{ACK, FIN_ACK, RST, SYN, SYN_ACK, one_zone, pass, segment, tcp, tuple};

/// A side: what it has sent, what it may, and what it has got.
#[derive(Clone, Debug)]
struct Side {
    unacknowledged: u32,
    next: u32,
    /// Up to where it may send.
    edge: u32,
    expects: u32,
    /// Up to where it has allowed the other to send.
    allowed: u32,
    scale: u8,
    /// The number of its FIN, once it has sent one.
    fin: Option<u32>,
}

const fn at_most(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) >= 0
}

struct World {
    sides: [Side; 2],
    /// What is on its way to each side.
    wires: [Vec<Segment>; 2],
    /// One at each side.
    tables: [(Table, Zone); 2],
    rng: Rng,
    /// Windows are small enough to be met.
    most: u64,
}

fn tuple_of(side: usize) -> Tuple {
    let asker = tuple(6, (1, 4000), (2, 80));
    if side == 0 { asker } else { asker.reversed() }
}

impl World {
    fn new(seed: u64, first: [u32; 2], scales: [Option<u8>; 2], most: u16) -> Self {
        let tables = [(); 2].map(|()| one_zone(4));
        let agreed = match scales {
            [Some(a), Some(b)] => [a, b],
            _ => [0; 2],
        };
        let side = |own: usize| Side {
            unacknowledged: first[own].wrapping_add(1),
            next: first[own].wrapping_add(1),
            edge: first[own].wrapping_add(1).wrapping_add(u32::from(most)),
            expects: first[1 - own].wrapping_add(1),
            allowed: first[1 - own].wrapping_add(1).wrapping_add(u32::from(most)),
            scale: agreed[own],
            fin: None,
        };
        let (sides, wires) = ([side(0), side(1)], [vec![], vec![]]);
        let mut world = Self { sides, wires, tables, rng: Rng::new(seed), most: most.into() };
        let window = most;
        let syn = Segment { scale: scales[0], window, ..segment(SYN, first[0], 0) };
        let back = Segment {
            scale: scales[1],
            window,
            ..segment(SYN_ACK, first[1], first[0].wrapping_add(1))
        };
        for (from, it) in [(0, syn), (1, back)] {
            world.cross(from, from, it).unwrap();
            world.cross(1 - from, from, it).unwrap();
        }
        let ack = world.make(0, ACK, world.sides[0].next, 0);
        world.cross(0, 0, ack).unwrap();
        world.cross(1, 0, ack).unwrap();
        world.take(1, &ack);
        world
    }

    /// A segment passes the table at a side.
    fn cross(&mut self, at: usize, from: usize, segment: Segment) -> Result<(), Denied> {
        let (table, zone) = &mut self.tables[at];
        pass(table, *zone, &tcp(tuple_of(from), segment), Instant::ZERO).map(|_| ())
    }

    fn phase(&self, at: usize) -> Phase {
        let (table, zone) = &self.tables[at];
        table.connections(*zone, None, Instant::ZERO).next().expect("it is there").phase
    }

    /// A segment of a side, with a window that takes back nothing.
    fn make(&mut self, side: usize, flags: Flags, sequence: u32, len: u32) -> Segment {
        let window = self.rng.below(self.most + 1) as u32;
        let own = &mut self.sides[side];
        let unit = 1 << own.scale;
        let promised = own.allowed.wrapping_sub(own.expects);
        let window = window.max(promised.div_ceil(unit)).min(65_535);
        let edge = own.expects.wrapping_add(window << own.scale);
        if at_most(own.allowed, edge) {
            own.allowed = edge;
        }
        let acknowledgment = own.expects;
        Segment { len, window: window as u16, ..segment(flags, sequence, acknowledgment) }
    }

    /// A side sends: it conforms, so its table lets it.
    fn send(&mut self, side: usize, segment: Segment) {
        let it = self.cross(side, side, segment);
        assert_eq!(it, Ok(()), "{segment:?} of {side}: {:?}", self.sides);
        self.wires[1 - side].push(segment);
    }

    fn send_new(&mut self, side: usize) {
        let own = self.sides[side].clone();
        let room = own.edge.wrapping_sub(own.next) as i32;
        if own.fin.is_some() || room <= 0 {
            return;
        }
        let len = 1 + self.rng.below((room as u64).min(1460)) as u32;
        let it = self.make(side, ACK, own.next, len);
        self.sides[side].next = own.next.wrapping_add(len);
        self.send(side, it);
    }

    fn send_again(&mut self, side: usize) {
        let own = self.sides[side].clone();
        let all = own.next.wrapping_sub(own.unacknowledged);
        if all == 0 {
            return;
        }
        let sent = own.fin.map_or(all, |_| all - 1);
        let len = if sent == 0 { 0 } else { 1 + self.rng.below(sent.min(1460).into()) as u32 };
        let ends = own.fin.is_some() && len == sent;
        let it = self.make(side, if ends { FIN_ACK } else { ACK }, own.unacknowledged, len);
        self.send(side, it);
    }

    fn finish(&mut self, side: usize) {
        let own = &mut self.sides[side];
        if own.fin.is_none() {
            let sequence = own.next;
            own.fin = Some(sequence);
            own.next = sequence.wrapping_add(1);
            let it = self.make(side, FIN_ACK, sequence, 0);
            self.send(side, it);
        }
    }

    fn acknowledge(&mut self, side: usize) {
        let it = self.make(side, ACK, self.sides[side].next, 0);
        self.send(side, it);
    }

    /// What a side makes of a segment; whether that is anything.
    fn take(&mut self, side: usize, it: &Segment) -> bool {
        let own = &mut self.sides[side];
        let mut is_news = false;
        let ends = it.flags.contains(Flags::FIN);
        let end = it.sequence.wrapping_add(it.len + u32::from(ends));
        if at_most(it.sequence, own.expects) && !at_most(end, own.expects) {
            own.expects = end;
            is_news = true;
        }
        if at_most(it.acknowledgment, own.next) {
            if !at_most(it.acknowledgment, own.unacknowledged) {
                own.unacknowledged = it.acknowledgment;
                is_news = true;
            }
            let scale = self.sides[1 - side].scale;
            let edge = it.acknowledgment.wrapping_add(u32::from(it.window) << scale);
            let own = &mut self.sides[side];
            if !at_most(edge, own.edge) {
                own.edge = edge;
                is_news = true;
            }
        }
        is_news
    }

    /// The segment at a place of a side's wire arrives there.
    fn arrive(&mut self, side: usize, at: usize) {
        if at >= self.wires[side].len() {
            return;
        }
        let it = self.wires[side].remove(at);
        match self.cross(side, 1 - side, it) {
            Ok(()) => {
                self.take(side, &it);
            }
            // What is long past may be refused: it would have changed nothing.
            Err(_) => assert!(!self.take(side, &it), "{it:?} to {side}: {:?}", self.sides),
        }
    }

    /// Somebody who sees nothing guesses a number.
    fn attack(&mut self, at: usize) {
        let before = self.phase(at);
        if !matches!(before, Phase::Established | Phase::Closing) {
            return;
        }
        let way = self.rng.below(2) as usize;
        let flags = if self.rng.below(2) == 0 { RST } else { SYN };
        let near = self.sides[way].next;
        let by = match self.rng.below(2) {
            0 => self.rng.next_u64() as u32,
            _ => 1 + self.rng.below(self.most) as u32,
        };
        let it = segment(flags, near.wrapping_add(by), 0);
        // One who guesses what is awaited succeeds: a side may be further than its table.
        let (table, zone) = &mut self.tables[at];
        let packet = tcp(tuple_of(way), it);
        assert!(!matches!(table.lookup(*zone, &packet, Instant::ZERO), Verdict::New));
        let is_awaited = it.sequence == self.sides[1 - way].expects;
        if !is_awaited {
            let _ = pass(table, *zone, &packet, Instant::ZERO);
        }
        assert_eq!(self.phase(at), before, "{it:?}");
    }

    fn step(&mut self) {
        let side = self.rng.below(2) as usize;
        let place = self.rng.below(4) as usize;
        match self.rng.below(20) {
            0..6 => self.send_new(side),
            6..8 => self.send_again(side),
            8..10 => self.acknowledge(side),
            10..17 => self.arrive(side, place.min(self.wires[side].len().saturating_sub(1))),
            17 => {
                if place < self.wires[side].len() {
                    self.wires[side].remove(place);
                }
            }
            18 => {
                if let Some(first) = self.wires[side].first().copied() {
                    self.wires[side].insert(0, first);
                }
            }
            _ => self.attack(side),
        }
    }

    fn is_done(&self) -> bool {
        self.sides.iter().all(|it| it.fin.is_some() && it.unacknowledged == it.next)
    }
}

proptest! {
    #[test]
    fn no_table_stands_in_the_way_of_two_tcps(
        seed: u64, first: [u32; 2], wraps: bool,
        scales in [proptest::option::of(0..15_u8), proptest::option::of(0..15_u8)],
        most in prop_oneof![1..2000_u16, any::<u16>()], steps in 0..400_u32,
    ) {
        let first = if wraps { first.map(|it| u32::MAX - it % 2000) } else { first };
        let mut world = World::new(seed, first, scales, most.max(1));
        for _ in 0..steps {
            world.step();
        }
        // Then nothing is lost any more, and all comes to its end.
        for _ in 0..10_000 {
            for side in 0..2 {
                world.finish(side);
                world.send_again(side);
                world.acknowledge(side);
                while !world.wires[1 - side].is_empty() {
                    world.arrive(1 - side, 0);
                }
            }
            if world.is_done() {
                break;
            }
        }
        prop_assert!(world.is_done());
        prop_assert_eq!([world.phase(0), world.phase(1)], [Phase::TimeWait; 2]);
    }
}

//! A TCP connection's life, segment by segment.

use conntrack::{Change, Denied, Flags, Id, Phase, Segment, Table, Verdict, Way, Why, Zone};
use units::{Instant, Span};
use wire::tcp;

use crate::common::{
    ACK, FIN_ACK, RST, RST_ACK, STAMP, SYN, SYN_ACK, one_zone, pass, seconds, segment, tcp, tuple,
};

/// One connection, and time that stands still unless it is told to go on.
struct World {
    table: Table,
    zone: Zone,
    now: Instant,
}

const ASKER: Way = Way::Original;
const ASKED: Way = Way::Reply;

impl World {
    fn new() -> Self {
        let (table, zone) = one_zone(16);
        Self { table, zone, now: Instant::ZERO }
    }

    /// A connection of which both have sent a SYN: 100 and 500 are the numbers of the next bytes.
    fn open() -> Self {
        let mut world = Self::new();
        world.send(ASKER, segment(SYN, 99, 0)).unwrap();
        world.send(ASKED, segment(SYN_ACK, 499, 100)).unwrap();
        world.send(ASKER, segment(ACK, 100, 500)).unwrap();
        assert_eq!(world.phase(), Phase::Established);
        world
    }

    fn packet(way: Way, segment: Segment) -> conntrack::Packet {
        let to = tuple(6, (1, 4000), (2, 80));
        tcp(if way == ASKER { to } else { to.reversed() }, segment)
    }

    fn send(&mut self, way: Way, segment: Segment) -> Result<Id, Denied> {
        pass(&mut self.table, self.zone, &Self::packet(way, segment), self.now)
    }

    /// What becomes of a segment, and that it changes nothing.
    fn passes_unnoticed(&mut self, way: Way, segment: Segment) {
        let all = |world: &Self| -> Vec<_> {
            let all = world.table.connections(world.zone, None, world.now);
            all.map(|it| (it, world.table.export(it.id, world.now))).collect()
        };
        let before = all(self);
        assert!(!before.is_empty());
        self.now += Span::from_secs(1);
        self.send(way, segment).unwrap();
        self.now = self.now - Span::from_secs(1);
        assert_eq!(all(self), before);
    }

    fn is_invalid(&self, way: Way, segment: Segment) -> Why {
        match self.table.lookup(self.zone, &Self::packet(way, segment), self.now) {
            Verdict::Invalid { why, .. } => why,
            verdict => panic!("{verdict:?}"),
        }
    }

    fn id(&self) -> Id {
        self.table.connections(self.zone, None, self.now).next().expect("there is one").id
    }

    fn phase(&self) -> Phase {
        self.table.get(self.id(), self.now).unwrap().phase
    }

    fn left(&self) -> u64 {
        self.table.get(self.id(), self.now).unwrap().left.as_nanos() / 1_000_000_000
    }
}

/// A segment with so much data.
fn data(sequence: u32, acknowledgment: u32, len: u32) -> Segment {
    Segment { len, ..segment(ACK, sequence, acknowledgment) }
}

#[test]
fn a_connection_lives_and_ends() {
    let mut world = World::new();
    world.send(ASKER, segment(SYN, 99, 0)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Opening, 120));
    world.send(ASKED, segment(SYN_ACK, 499, 100)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Accepting, 60));
    world.send(ASKER, segment(ACK, 100, 500)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Established, 432_000));
    world.send(ASKER, data(100, 500, 50)).unwrap();
    world.send(ASKED, segment(FIN_ACK, 500, 150)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Closing, 240));
    // Half of it is closed; the other half goes on.
    world.send(ASKER, data(150, 501, 70)).unwrap();
    world.send(ASKED, segment(ACK, 501, 220)).unwrap();
    world.send(ASKER, segment(FIN_ACK, 220, 501)).unwrap();
    assert_eq!(world.phase(), Phase::Closing);
    world.send(ASKED, segment(ACK, 501, 221)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::TimeWait, 120));
    world.now = seconds(121);
    assert_eq!(world.table.expire(world.now, 10).forgotten, 1);
}

#[test]
fn only_a_syn_begins_one() {
    let world = World::new();
    for flags in [ACK, SYN_ACK, FIN_ACK, RST, RST_ACK] {
        assert_eq!(world.is_invalid(ASKER, segment(flags, 1, 1)), Why::NoConnection);
    }
}

#[test]
fn bits_that_exclude_each_other_are_of_no_connection() {
    let world = World::open();
    for bits in [0x00, 0x01, 0x03, 0x06, 0x05, 0x29, 0x17, 0x20] {
        let odd = segment(tcp::Flags(bits), 100, 500);
        assert_eq!(world.is_invalid(ASKER, odd), Why::Flags, "{bits:#x}");
    }
}

#[test]
fn a_syn_that_is_sent_again_counts_once_and_grants_nothing() {
    let mut world = World::new();
    let first = world.send(ASKER, segment(SYN, 99, 0)).unwrap();
    assert_eq!(world.send(ASKER, segment(SYN, 99, 0)), Ok(first));
    assert_eq!((world.table.len(), world.phase()), (1, Phase::Opening));
    assert!(!world.table.get(first, world.now).unwrap().flags.is_answered());
    // Nothing but an answer to it comes back.
    assert_eq!(world.is_invalid(ASKED, data(499, 100, 1)), Why::Early);
    assert_eq!(world.is_invalid(ASKER, data(100, 500, 1)), Why::Early);
    assert_eq!(world.is_invalid(ASKED, segment(RST, 0, 0)), Why::Reset);
    assert_eq!(world.is_invalid(ASKED, segment(RST_ACK, 0, 99)), Why::Reset);
    world.send(ASKED, segment(RST_ACK, 0, 100)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Closed, 10));
}

#[test]
fn a_syn_that_was_decided_twice_before_it_left_counts_once() {
    let mut world = World::new();
    let packet = World::packet(ASKER, segment(SYN, 99, 0));
    assert_eq!(world.table.lookup(world.zone, &packet, world.now), Verdict::New);
    let begin = conntrack::Begin::new(world.zone, packet, STAMP);
    let ids = [(); 2].map(|()| world.table.commit(&Change::Begin(begin), world.now).unwrap());
    assert_eq!((ids[0], world.table.len()), (ids[1], 1));
}

#[test]
fn the_second_attempt_with_another_number_is_answered() {
    let mut world = World::new();
    world.send(ASKER, segment(SYN, 99, 0)).unwrap();
    world.send(ASKER, segment(SYN, 7099, 0)).unwrap();
    // What the first attempt is answered with is the receiver's to refuse.
    world.passes_unnoticed(ASKED, segment(SYN_ACK, 499, 100));
    world.passes_unnoticed(ASKER, segment(RST, 100, 0));
    world.send(ASKED, segment(SYN_ACK, 499, 7100)).unwrap();
    assert_eq!(world.phase(), Phase::Accepting);
}

#[test]
fn both_may_begin_at_once() {
    // RFC 9293 §3.5, figure 8.
    let mut world = World::new();
    world.send(ASKER, segment(SYN, 99, 0)).unwrap();
    world.send(ASKED, segment(SYN, 299, 0)).unwrap();
    assert_eq!(world.phase(), Phase::Crossing);
    assert_eq!(world.is_invalid(ASKED, segment(ACK, 300, 4000)), Why::Early);
    world.send(ASKER, segment(SYN_ACK, 99, 300)).unwrap();
    world.send(ASKED, segment(SYN_ACK, 299, 100)).unwrap();
    assert_eq!(world.phase(), Phase::Established);
    world.send(ASKER, data(100, 300, 10)).unwrap();
    world.send(ASKED, data(300, 110, 10)).unwrap();
    assert_eq!((world.phase(), world.table.len()), (Phase::Established, 1));
}

#[test]
fn windows_are_kept_to() {
    let mut world = World::open();
    // 1,000 bytes are allowed and a FIN, and no more; of what was sent before, as much.
    assert_eq!(world.is_invalid(ASKER, data(100, 500, 1002)), Why::Window);
    world.send(ASKER, data(100, 500, 1000)).unwrap();
    assert_eq!(world.is_invalid(ASKER, data(1100, 500, 2)), Why::Window);
    world.send(ASKED, segment(ACK, 500, 1100)).unwrap();
    world.send(ASKER, data(1100, 500, 1000)).unwrap();
    world.send(ASKER, data(1099, 500, 1)).unwrap();
    assert_eq!(world.is_invalid(ASKER, data(1000, 500, 1)), Why::Window);
    // What was not sent is not acknowledged, nor what is long past.
    assert_eq!(world.is_invalid(ASKED, segment(ACK, 500, 2101)), Why::Window);
    assert_eq!(
        world.is_invalid(ASKED, segment(ACK, 500, 1100_u32.wrapping_sub(66_001))),
        Why::Window
    );
    world.send(ASKED, segment(ACK, 500, 100)).unwrap();
    // A closed window is asked by a byte.
    world.send(ASKED, Segment { window: 0, ..segment(ACK, 500, 2100) }).unwrap();
    world.send(ASKER, data(2100, 500, 1)).unwrap();
    assert_eq!(world.is_invalid(ASKER, data(2101, 500, 1)), Why::Window);
}

#[test]
fn windows_are_scaled_if_both_have_offered_it() {
    for (answered, allowed) in [(None, 1000), (Some(3), 8000), (Some(200), 1000 << 14)] {
        let mut world = World::new();
        let scaled = |scale, segment| Segment { scale, ..segment };
        world.send(ASKER, scaled(Some(2), segment(SYN, 99, 0))).unwrap();
        world.send(ASKED, scaled(answered, segment(SYN_ACK, 499, 100))).unwrap();
        // A SYN's own window is not scaled.
        assert_eq!(world.is_invalid(ASKER, data(100, 500, 1002)), Why::Window);
        world.send(ASKER, data(100, 500, 1000)).unwrap();
        world.send(ASKED, segment(ACK, 500, 1100)).unwrap();
        assert_eq!(world.is_invalid(ASKER, data(1100, 500, allowed + 2)), Why::Window);
        world.send(ASKER, data(1100, 500, allowed)).unwrap();
    }
}

#[test]
fn only_the_exact_reset_ends_it() {
    let mut world = World::open();
    world.send(ASKER, data(100, 500, 300)).unwrap();
    world.send(ASKED, segment(ACK, 500, 200)).unwrap();
    // RFC 5961 §3.2: in the window, the receiver asks; outside, nobody does.
    world.passes_unnoticed(ASKER, segment(RST, 300, 0));
    for sequence in [199, 1201, 0x8000_0000] {
        assert_eq!(world.is_invalid(ASKER, segment(RST, sequence, 0)), Why::Reset);
    }
    let mut next = World { table: world.table.clone(), ..world };
    next.send(ASKER, segment(RST, 200, 0)).unwrap();
    assert_eq!(next.phase(), Phase::Closed, "what its receiver expects");
    world.send(ASKER, segment(RST, 400, 0)).unwrap();
    assert_eq!((world.phase(), world.left()), (Phase::Closed, 10), "behind what was sent");
}

#[test]
fn a_syn_in_an_established_connection_is_for_its_receiver_to_question() {
    let mut world = World::open();
    world.passes_unnoticed(ASKER, segment(SYN, 70_000, 0));
    world.passes_unnoticed(ASKED, segment(SYN_ACK, 499, 100));
    // Who has lost its memory is told so, resets, and begins anew (RFC 9293 §3.5.1, figure 9).
    world.send(ASKED, segment(ACK, 500, 100)).unwrap();
    world.send(ASKER, segment(RST, 100, 0)).unwrap();
    assert_eq!(world.phase(), Phase::Closed);
    world.send(ASKER, segment(SYN, 70_000, 0)).unwrap();
    assert_eq!((world.phase(), world.table.len()), (Phase::Opening, 1));
}

#[test]
fn a_new_connection_takes_the_place_of_one_that_waits() {
    // RFC 6191, RFC 9293 §3.6.1; from either side.
    for way in [ASKER, ASKED] {
        let mut world = World::open();
        world.send(ASKED, segment(FIN_ACK, 500, 100)).unwrap();
        world.send(ASKER, segment(FIN_ACK, 100, 501)).unwrap();
        world.send(ASKED, segment(ACK, 501, 101)).unwrap();
        assert_eq!(world.phase(), Phase::TimeWait);
        let old = world.id();
        let packet = World::packet(way, segment(SYN, 9000, 0));
        assert_eq!(world.table.lookup(world.zone, &packet, world.now), Verdict::New);
        let new = world.send(way, segment(SYN, 9000, 0)).unwrap();
        assert!(new != old && world.table.get(old, world.now).is_none());
        assert_eq!(world.table.get(new, world.now).unwrap().original, packet.tuple);
        // If its receiver is still waiting, it says so.
        world.passes_unnoticed(way.opposite(), segment(ACK, 501, 101));
    }
}

#[test]
fn fragments_of_a_segment_loosen_it() {
    let mut world = World::open();
    world.send(ASKER, Segment { is_part: true, ..data(100, 500, 400) }).unwrap();
    let id = world.id();
    assert!(world.table.get(id, world.now).unwrap().flags.is_loose());
    // How much of it the other fragments had, nobody knows.
    world.send(ASKED, segment(ACK, 500, 900)).unwrap();
    let to = tuple(6, (1, 4000), (2, 80));
    let part = conntrack::Packet::part_of(to);
    assert!(matches!(
        world.table.lookup(world.zone, &part, world.now),
        Verdict::Request(hit) if hit.id == id && hit.flags != Flags::NONE
    ));
}

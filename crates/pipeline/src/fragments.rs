//! The ends of packets that come in fragments: a later one has its first's.
//!
//! ```text
//! first ──▶ room at its place? ──▶ remembered for 5 s, with the pieces that have come
//!                 no │
//!                    ▼
//!       the eldest packet of that place that is whole makes room; if none is: `fragments_full`
//! ```
//!
//! Who sends first fragments and nothing more fills the room of its own port, and of ports that it
//! sends to. A packet that is not whole never makes room. If it did, fragments that contradict it
//! could pass as those of another packet.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use logical::objects::{Identity, Kind};
use packet::fragments::{MOST_PACKETS, Pieces};
use packet::{Ip, Tuple};
use units::{Instant, Span};
use wire::ip::Fragment;

use crate::change::{Change, FragmentOf, Passing};
use crate::outcome::Reason;

/// How long a packet's ends are remembered for its later fragments.
const FRAGMENTS: Span = Span::from_secs(5);

/// How many packets a host remembers, at all places: some 30 MB, if each consists of as many pieces
/// as it may.
const MOST: usize = 8192;

/// What is known of packets that come in fragments.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    places: BTreeMap<Passing, Packets>,
    /// At all places.
    count: usize,
}

/// The packets that pass a place a way.
#[derive(Clone, Debug, Default)]
struct Packets {
    all: BTreeMap<FragmentOf, (Pieces, Instant)>,
    /// The same by when they are forgotten.
    ends: BTreeSet<(Instant, FragmentOf)>,
    /// Those of them that are whole.
    whole: BTreeSet<(Instant, FragmentOf)>,
}

impl Packets {
    /// What goes if there is to be one more.
    fn spare(&self, now: Instant) -> Option<FragmentOf> {
        let over = self.ends.first().filter(|(until, _)| *until <= now);
        over.or_else(|| self.whole.first()).map(|(_, of)| *of)
    }

    fn remove(&mut self, of: &FragmentOf) -> bool {
        let Some((_, until)) = self.all.remove(of) else { return false };
        self.ends.remove(&(until, *of));
        self.whole.remove(&(until, *of));
        true
    }

    fn insert(&mut self, of: FragmentOf, pieces: Pieces, until: Instant) {
        self.ends.insert((until, of));
        if pieces.are_whole() {
            self.whole.insert((until, of));
        }
        self.all.insert(of, (pieces, until));
    }
}

impl Fragments {
    /// The ends of a packet at a place. Of a packet whose fragments contradict each other there are
    /// none. And what is to be remembered of a fragment.
    pub fn ends(
        &self,
        now: Instant,
        place: &Passing,
        ip: &Ip,
    ) -> (Result<Tuple, Reason>, Option<Change>) {
        let ends = ip.tuple;
        let Some(piece) = ip.piece else { return (Ok(ends), None) };
        let of = (ip.identification, ends.source.0, ends.destination.0, ends.protocol);
        let first = (ip.layout.fragment == Fragment::First).then_some(ends);
        let known = self.places.get(place).and_then(|it| it.all.get(&of));
        let known = known.filter(|(_, until)| *until > now);
        let (pieces, until) = match (known, first) {
            (Some((known, until)), None) => (known.with(piece, None), *until),
            (Some((known, _)), first) => (known.with(piece, first), now + FRAGMENTS),
            (None, Some(_)) if !self.has_room(place, now) => {
                return (Err(Reason::FragmentsFull), None);
            }
            (None, Some(ends)) => (Pieces::first(ends, piece), now + FRAGMENTS),
            (None, None) => return (Err(Reason::Fragment), None),
        };
        let ends = if pieces.are_sound { Ok(pieces.ends) } else { Err(Reason::Fragment) };
        (ends, Some(Change::Fragment(place.clone(), of, pieces, until)))
    }

    /// How many packets a place may have. That is no more than are left for all others: places that
    /// take what they can leave as much as each of them has. A router's packets are many ports',
    /// and each of those has its own bound.
    fn most(&self, (place, _): &Passing) -> usize {
        let left = MOST - self.count;
        if place.kind == Kind::LogicalRouter { left } else { MOST_PACKETS.min(left) }
    }

    /// Whether a place may have one packet more, if need be for one that it spares.
    fn has_room(&self, place: &Passing, now: Instant) -> bool {
        let packets = self.places.get(place);
        packets.map_or(0, |it| it.all.len()) < self.most(place)
            || packets.is_some_and(|it| it.spare(now).is_some())
    }

    /// So much is known of a packet. Where there is no room since it was decided, nothing is.
    pub fn note(
        &mut self,
        place: Passing,
        of: FragmentOf,
        (pieces, until): (Pieces, Instant),
        now: Instant,
    ) {
        let most = self.most(&place);
        let packets = self.places.entry(place).or_default();
        let mut has_room = packets.remove(&of);
        self.count -= usize::from(has_room);
        has_room |= packets.all.len() < most;
        if !has_room && let Some(spare) = packets.spare(now) {
            has_room = packets.remove(&spare);
            self.count -= usize::from(has_room);
        }
        if has_room {
            packets.insert(of, pieces, until);
            self.count += 1;
        }
    }

    /// Forgets packets that are over.
    pub fn expire(&mut self, now: Instant) {
        for packets in self.places.values_mut() {
            while let Some((_, of)) = packets.ends.first().filter(|(until, _)| *until <= now) {
                let of = *of;
                self.count -= usize::from(packets.remove(&of));
            }
        }
        self.places.retain(|_, packets| !packets.all.is_empty());
    }

    /// Forgets the packets of places that are here no longer.
    pub fn retain(&mut self, mut is_here: impl FnMut(&Passing) -> bool) {
        let Self { places, count } = self;
        places.retain(|place, packets| {
            let is_here = is_here(place);
            *count -= if is_here { 0 } else { packets.all.len() };
            is_here
        });
    }

    /// The packets of a port or a router, each with what is known of it and until when.
    pub fn of(&self, place: &Identity) -> Vec<(Passing, FragmentOf, (Pieces, Instant))> {
        let own = self.places.iter().filter(|((name, _), _)| name == place);
        own.flat_map(|(passing, packets)| {
            packets.all.iter().map(|(of, known)| (passing.clone(), *of, known.clone()))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use logical::objects::Direction;
    use packet::Piece;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn place(kind: Kind, name: &str) -> Passing {
        (Identity { kind, tenant: None, name: name.parse().unwrap() }, Direction::FromPort)
    }

    fn port(number: usize) -> Passing {
        place(Kind::LogicalPort, &alloc::format!("p{number}"))
    }

    fn of(number: usize) -> FragmentOf {
        (number as u32, IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST), 17)
    }

    fn pieces(is_whole: bool) -> Pieces {
        let end = (IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        let ends = Tuple { protocol: 17, source: end, destination: end };
        Pieces::first(ends, Piece { from: 0, end: 8, is_last: is_whole })
    }

    impl Fragments {
        fn begin(&mut self, place: &Passing, number: usize, is_whole: bool, now: Instant) -> bool {
            let has_room = self.has_room(place, now);
            let known = (pieces(is_whole), now + FRAGMENTS);
            self.note(place.clone(), of(number), known, now);
            has_room
        }

        fn audit(&self) {
            let all = || self.places.values();
            assert_eq!(self.count, all().map(|it| it.all.len()).sum::<usize>());
            assert!(all().all(|it| it.all.len() == it.ends.len()));
            assert!(self.count <= MOST);
        }

        fn has(&self, place: &Passing, number: usize) -> bool {
            self.places.get(place).is_some_and(|it| it.all.contains_key(&of(number)))
        }
    }

    #[test]
    fn whole_packets_make_room_and_others_do_when_they_are_over() {
        let (mut it, a) = (Fragments::default(), port(0));
        assert!((0..MOST_PACKETS).all(|number| it.begin(&a, number, number == 5, NOW)));
        assert!(it.begin(&a, 1000, false, NOW) && !it.has(&a, 5) && it.has(&a, 1000));
        assert!(!it.begin(&a, 1001, false, NOW) && !it.has(&a, 1001));
        it.audit();
        let later = NOW + FRAGMENTS;
        assert!(it.begin(&a, 1002, false, later) && it.has(&a, 1002));
        it.expire(later);
        assert_eq!(it.count, 1);
        it.retain(|place| *place != a);
        assert_eq!(it.count, 0);
    }

    #[test]
    fn greedy_places_leave_room_for_another() {
        let mut it = Fragments::default();
        let router = place(Kind::LogicalRouter, "r");
        for number in 0..MOST {
            it.begin(&router, number, false, NOW);
        }
        assert_eq!(it.count, MOST / 2);
        for round in 0..MOST_PACKETS {
            for number in 0..1000 {
                it.begin(&port(number), round, false, NOW);
            }
        }
        assert!(it.begin(&port(1000), 0, false, NOW));
        // What a port has is not another's to take.
        assert!((0..1000).all(|number| it.has(&port(number), 0)));
        it.audit();
    }
}

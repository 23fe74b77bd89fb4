//! Where each address was seen: the filtering database (802.1Q §8.8), learned and static.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use units::{Instant, Mac, Span};
use wire::ethernet::{Peek, Tag};

use crate::port::NOBODY;

/// An address in a VLAN, and the port it is reached by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MacEntry {
    /// The address.
    pub mac: Mac,
    /// Its VLAN; 0 for untagged frames.
    pub vlan: u16,
    /// The port's number.
    pub port: u16,
    /// When a frame from it was last seen; `None` if an operator set it.
    pub seen: Option<Instant>,
}

/// An address and its VLAN in one number: 48 and 12 bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key(u64);

impl Key {
    /// No address: its VLAN has no number that fits 12 bits.
    pub(crate) const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(crate) fn new(mac: Mac, vlan: u16) -> Self {
        Self(mac.as_u64() << 12 | u64::from(vlan & 0xfff))
    }

    fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = (self.0 >> 12).to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

/// A frame's addresses and tag in two numbers, which are quick to make and to compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Heading {
    /// In the low 48 bits the address, first octet lowest; above it the tag's control information.
    source_and_tag: u64,
    destination: u64,
}

/// In place of a tag: the drop eligible bit, which is not kept of a tag.
const UNTAGGED: u16 = 1 << 12;

impl Heading {
    /// No frame's: its destination is longer than 48 bits.
    pub(crate) const NONE: Self = Self { source_and_tag: 0, destination: u64::MAX };

    #[inline]
    pub(crate) fn of(header: &Peek) -> Self {
        let number = |Mac([a, b, c, d, e, f])| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let tag = header.tag.map_or(UNTAGGED, Tag::tci);
        Self {
            source_and_tag: number(header.source) | u64::from(tag) << 48,
            destination: number(header.destination),
        }
    }

    pub(crate) fn source(self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.source_and_tag.to_le_bytes();
        Mac([a, b, c, d, e, f])
    }

    pub(crate) fn destination(self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.destination.to_le_bytes();
        Mac([a, b, c, d, e, f])
    }

    pub(crate) fn tag(self) -> Option<Tag> {
        let tci = (self.source_and_tag >> 48) as u16;
        (tci != UNTAGGED).then(|| Tag::from_tci(tci))
    }
}

/// From whom a frame is, to whom, and by which port it came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Question {
    pub source: Key,
    pub destination: Key,
    /// The port's number.
    pub port: u16,
}

/// Where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The port's number, or [`NOBODY`] for everybody.
    pub egress: u16,
    /// When the table wants to hear of the source again.
    pub refresh_at: Instant,
}

/// What was answered to whom, while the table has this generation.
#[derive(Clone, Copy, Debug)]
struct Answered {
    question: Question,
    generation: u64,
    answer: Answer,
}

/// The most answers at hand: 200 KiB of them.
const MOST_RECENT: usize = 4096;

impl Question {
    const NONE: Self = Self { source: Key::NONE, destination: Key::NONE, port: NOBODY };

    /// A place for it.
    #[inline]
    fn hash(self) -> u64 {
        let mixed = self.source.0 ^ self.destination.0.rotate_left(23) ^ u64::from(self.port) << 48;
        // The golden ratio's bits, as in Fibonacci hashing (Knuth, volume 3, §6.4); the upper ones have seen most.
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }
}

impl Answered {
    /// No table has this generation.
    const NOTHING: Self = Self {
        question: Question::NONE,
        generation: 0,
        answer: Answer { egress: NOBODY, refresh_at: Instant::ZERO },
    };
}

#[derive(Clone, Copy, Debug)]
struct Place {
    port: u16,
    /// `None` for a static entry, which never ages and never moves.
    seen: Option<Instant>,
}

/// The table behind the ports' own one-entry memories: a port asks only when the addresses are not the ones it asked for last,
/// or when the table has changed since. What was asked of late is at hand. The rest is in a tree, which no choice of addresses
/// makes slow.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MacTable {
    /// Grows with every change of any address's port. It is all that most frames ask.
    generation: u64,
    places: BTreeMap<Key, Place>,
    /// What was asked of late, each at the place that its [`hash`](Question::hash) says: none, or a power of two.
    recent: Vec<Answered>,
    /// How many addresses each port may have, and has, besides static ones. So no sender can fill the table for others.
    limit: u32,
    learned: Vec<u32>,
    age: Span,
    sweep_at: Instant,
}

impl MacTable {
    pub(crate) fn new(limit: u32, age: Span) -> Self {
        let places = BTreeMap::new();
        let (recent, learned) = (Vec::new(), Vec::new());
        Self { places, recent, limit, learned, age, generation: 1, sweep_at: Instant::ZERO }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Where a frame goes that came in by `port`, and until when that need not be asked again; the table learns where it
    /// came from.
    pub(crate) fn ask(&mut self, now: Instant, question: Question) -> Answer {
        let place = question.hash() as usize & self.recent.len().wrapping_sub(1);
        if let Some(recent) = self.recent.get(place)
            && recent.question == question
            && recent.generation == self.generation
            && now < recent.answer.refresh_at
        {
            return recent.answer;
        }
        self.look_up(now, question)
    }

    #[inline(never)]
    fn look_up(&mut self, now: Instant, question: Question) -> Answer {
        let Question { source, destination, port } = question;
        if !source.mac().is_multicast() {
            self.learn(now, source, port);
        }
        let known = if destination.mac().is_multicast() { None } else { self.places.get(&destination) };
        let answer =
            Answer { egress: known.map_or(NOBODY, |place| place.port), refresh_at: now + self.refresh() };
        // As many flows as addresses, and as much room again so that they do not meet.
        let room = (2 * self.places.len()).next_power_of_two().min(MOST_RECENT);
        if self.recent.len() < room {
            self.recent = vec![Answered::NOTHING; room];
        }
        let place = question.hash() as usize & (self.recent.len() - 1);
        self.recent[place] = Answered { question, generation: self.generation, answer };
        answer
    }

    /// A frame from `key` came in by `port`.
    pub(crate) fn learn(&mut self, now: Instant, key: Key, port: u16) {
        let (index, seen) = (usize::from(port), Some(now));
        if self.learned.len() <= index {
            self.learned.resize(index + 1, 0);
        }
        match self.places.get_mut(&key) {
            Some(Place { seen: None, .. }) => return,
            Some(place) if place.port == port => {
                place.seen = seen;
                return;
            }
            _ if self.learned[index] >= self.limit => return,
            Some(place) => self.learned[usize::from(place.port)] -= 1,
            None => {}
        }
        self.learned[index] += 1;
        self.places.insert(key, Place { port, seen });
        self.generation += 1;
    }

    /// An operator says that `key` is at `port`, for good.
    pub(crate) fn pin(&mut self, key: Key, port: u16) {
        self.places.insert(key, Place { port, seen: None });
        self.changed();
    }

    /// Forgets every address at `port`.
    pub(crate) fn forget_port(&mut self, port: u16) {
        self.places.retain(|_, place| place.port != port);
        self.changed();
    }

    /// More than one address is another's, or nobody's, now.
    fn changed(&mut self) {
        self.generation += 1;
        self.learned.fill(0);
        for place in self.places.values().filter(|place| place.seen.is_some()) {
            self.learned[usize::from(place.port)] += 1;
        }
    }

    /// When something may be too old.
    pub(crate) fn sweep_at(&self) -> Instant {
        self.sweep_at
    }

    /// Forgets what has not been seen for the ageing time. Ports tell of an address they keep seeing once in an
    /// eighth of it, so an address lives for at least seven eighths after its last frame.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + self.refresh();
        let age = self.age;
        let before = self.places.len();
        self.places.retain(|_, place| place.seen.is_none_or(|seen| now.since(seen) < age));
        if self.places.len() != before {
            self.changed();
        }
    }

    /// How long a port may keep quiet about an address that it keeps seeing.
    #[inline]
    pub(crate) fn refresh(&self) -> Span {
        Span::from_nanos(self.age.as_nanos() / 8)
    }

    pub(crate) fn entries(&self) -> Vec<MacEntry> {
        let entry = |(key, place): (&Key, &Place)| MacEntry {
            mac: key.mac(),
            vlan: (key.0 & 0xfff) as u16,
            port: place.port,
            seen: place.seen,
        };
        self.places.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Key {
        // Every seventh is a group's.
        let group = u8::from(number.is_multiple_of(7));
        Key::new(Mac([2 | group, 0, 0, 0, 0, number]), 0)
    }

    proptest! {
        #[test]
        fn what_is_at_hand_is_what_the_table_says(
            steps in prop::collection::vec((0u8..12, 0u8..24, 0u8..24, 0u16..4), 1..200),
        ) {
            let table = || MacTable::new(8, Span::from_secs(300));
            let (mut table, mut forgetful) = (table(), table());
            for (step, from, to, port) in steps {
                let (source, destination) = (key(from), key(to));
                match step {
                    0 => [&mut table, &mut forgetful].map(|table| table.pin(source, port)),
                    1 => [&mut table, &mut forgetful].map(|table| table.forget_port(port)),
                    _ => {
                        let question = Question { source, destination, port };
                        forgetful.recent.clear();
                        let answers = [&mut table, &mut forgetful].map(|table| table.ask(Instant::ZERO, question));
                        prop_assert_eq!(answers[0].egress, answers[1].egress);
                        [(); 2]
                    }
                };
                prop_assert_eq!(table.generation(), forgetful.generation());
            }
        }
    }
}

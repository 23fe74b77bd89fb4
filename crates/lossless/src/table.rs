//! Where each address was seen: the filtering database (802.1Q §8.8), learned and static.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use units::{Instant, Mac, Span};
use wire::ethernet::{Peek, Tag};

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

#[derive(Clone, Copy, Debug)]
struct Place {
    port: u16,
    /// `None` for a static entry, which never ages and never moves.
    seen: Option<Instant>,
}

/// The table behind the ports' own one-entry memories, so a tree is quick enough: a port asks only when the address
/// is not the one it asked for last, or when the table has changed since.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MacTable {
    /// Grows with every change of any address's port. It is all that most frames ask.
    generation: u64,
    places: BTreeMap<Key, Place>,
    /// How many addresses each port may have, and has, besides static ones. So no sender can fill the table for others.
    limit: u32,
    learned: Vec<u32>,
    age: Span,
    sweep_at: Instant,
}

impl MacTable {
    pub(crate) fn new(limit: u32, age: Span) -> Self {
        let places = BTreeMap::new();
        Self { places, limit, learned: Vec::new(), age, generation: 1, sweep_at: Instant::ZERO }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn find(&self, key: Key) -> Option<u16> {
        self.places.get(&key).map(|place| place.port)
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

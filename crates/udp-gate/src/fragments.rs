//! Datagrams whose fragments are on their way.
//!
//! The kernel queues a fragmented datagram at its socket when the last fragment has come, so its
//! place must be set aside when the first one goes: only that names the port and the length.
//!
//! ```text
//! first ─▶ place set aside ─▶ later ─▶ later ─▶ last: the datagram is queued, the place is free again
//! ```
//!
//! First fragments wait for room with everybody else who sends to their socket. The later ones wait
//! for their own first one only: behind another datagram, that waits until this one is whole, they
//! would wait for ever.
//!
//! A datagram whose last fragment does not come keeps its place for [`PATIENCE`] only, since
//! everybody else who sends to the socket waits meanwhile. The kernel keeps the rest for 30 s (RFC
//! 8200 §4.5: 60 s at most; `net.ipv4.ipfrag_time`), and for so long its source is set no further
//! place aside: what it sends in fragments goes, but may find no room.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use super::sockets::Mixer;

/// How long a place waits for the last fragment: much less than a held flow waits for its socket,
/// and enough for 64 KiB at a megabit a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the kernel waits for the last fragment.
const REASSEMBLY: Duration = Duration::from_secs(30);

/// How many of the latest datagrams are remembered; each takes some 150 bytes.
const MOST: usize = 8192;

/// Which datagram a fragment is of (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Whole {
    pub namespace: u32,
    pub source: u128,
    pub destination: u128,
    pub identification: u32,
}

#[derive(Clone, Copy, Debug)]
struct Underway {
    /// Tells a datagram from an earlier one with the same identification.
    serial: u64,
    place: Option<Place>,
}

/// Set aside since the first fragment went.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    bytes: u32,
    since: Instant,
}

/// What is set aside.
#[derive(Debug)]
struct Aside {
    places: usize,
    /// Bytes, by slot.
    bytes: Vec<u32>,
}

/// The datagrams under way.
#[derive(Debug)]
pub struct Fragments {
    underway: HashMap<Whole, Underway, BuildHasherDefault<Mixer>>,
    /// The latest, oldest first; some have ended.
    latest: VecDeque<(Whole, u64)>,
    serial: u64,
    aside: Aside,
    /// Sources, each in its namespace, that left a place unused, and since when.
    lapsed: HashMap<(u32, u128), Instant, BuildHasherDefault<Mixer>>,
}

impl Fragments {
    /// For so many slots.
    pub fn new(slots: usize) -> Self {
        Self {
            underway: HashMap::default(),
            latest: VecDeque::new(),
            serial: 0,
            aside: Aside { places: 0, bytes: vec![0; slots] },
            lapsed: HashMap::default(),
        }
    }

    /// Whether nothing is set aside.
    pub fn is_empty(&self) -> bool {
        self.aside.places == 0
    }

    /// Whether a place may be set aside for a datagram: its source has left none unused lately.
    pub fn may_begin(&self, whole: Whole) -> bool {
        self.lapsed.is_empty() || !self.lapsed.contains_key(&(whole.namespace, whole.source))
    }

    /// Takes note of a datagram by its first fragment, which may still be held.
    pub fn note(&mut self, whole: Whole) {
        if self.underway.contains_key(&whole) {
            return;
        }
        if self.latest.len() == MOST {
            let (oldest, serial) = self.latest.pop_front().expect("it is full");
            if self.underway.get(&oldest).is_some_and(|underway| underway.serial == serial) {
                self.end(oldest);
            }
        }
        self.serial += 1;
        self.latest.push_back((whole, self.serial));
        self.underway.insert(whole, Underway { serial: self.serial, place: None });
    }

    /// The number of a datagram whose first fragment was seen, and whether that has gone. Of two
    /// datagrams, the later has the higher number.
    pub fn find(&self, whole: Whole) -> Option<(u64, bool)> {
        self.underway.get(&whole).map(|underway| (underway.serial, underway.place.is_some()))
    }

    /// A first fragment has gone: sets `bytes` aside at its socket.
    pub fn begin(&mut self, now: Instant, whole: Whole, slot: u32, bytes: u32) {
        if let Some(underway) = self.underway.get_mut(&whole) {
            let place = Place { slot, bytes, since: now };
            self.aside.free(underway.place.replace(place));
            self.aside.take(place);
        }
    }

    /// A last fragment has gone: the datagram is queued. Its slot, and the bytes that were set
    /// aside there until now.
    pub fn end(&mut self, whole: Whole) -> Option<(u32, u32)> {
        let place = self.underway.remove(&whole)?.place?;
        self.aside.free(Some(place));
        Some((place.slot, place.bytes))
    }

    /// Bytes set aside at a socket.
    #[inline]
    pub fn set_aside(&self, slot: u32) -> u32 {
        self.aside.bytes[slot as usize]
    }

    /// Frees the places that have waited too long, and pardons the sources that have.
    pub fn expire(&mut self, now: Instant) {
        let Self { underway, aside, lapsed, .. } = self;
        lapsed.retain(|_, since| now.saturating_duration_since(*since) < REASSEMBLY);
        underway.retain(|whole, underway| {
            let late = underway
                .place
                .filter(|place| now.saturating_duration_since(place.since) >= PATIENCE);
            aside.free(late);
            if late.is_some() && lapsed.len() < MOST {
                lapsed.insert((whole.namespace, whole.source), now);
            }
            late.is_none()
        });
    }
}

impl Aside {
    fn take(&mut self, place: Place) {
        self.places += 1;
        let bytes = &mut self.bytes[place.slot as usize];
        *bytes = bytes.saturating_add(place.bytes);
    }

    fn free(&mut self, place: Option<Place>) {
        if let Some(place) = place {
            self.places -= 1;
            let bytes = &mut self.bytes[place.slot as usize];
            *bytes = bytes.saturating_sub(place.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(identification: u32) -> Whole {
        Whole { namespace: 1, source: 2, destination: 3, identification }
    }

    #[test]
    fn a_place_is_set_aside_from_the_first_fragment_to_the_last() {
        let (mut fragments, now) = (Fragments::new(8), Instant::now());
        fragments.note(whole(1));
        assert_eq!((fragments.find(whole(1)), fragments.find(whole(2))), (Some((1, false)), None));
        assert_eq!(fragments.set_aside(5), 0, "nothing has gone yet");
        fragments.begin(now, whole(1), 5, 3000);
        assert_eq!(fragments.find(whole(1)), Some((1, true)));
        fragments.note(whole(2));
        fragments.begin(now, whole(2), 5, 4000);
        assert_eq!((fragments.set_aside(5), fragments.set_aside(6)), (7000, 0));
        assert_eq!(fragments.end(whole(1)), Some((5, 3000)));
        assert_eq!(fragments.set_aside(5), 4000);
    }

    #[test]
    fn a_place_that_is_not_used_in_time_lapses_and_its_source_gets_no_other_for_a_while() {
        let (mut fragments, now) = (Fragments::new(8), Instant::now());
        fragments.note(whole(1));
        fragments.begin(now, whole(1), 5, 3000);
        fragments.expire(now + PATIENCE / 2);
        assert_eq!(fragments.set_aside(5), 3000);
        fragments.expire(now + PATIENCE);
        assert_eq!((fragments.set_aside(5), fragments.may_begin(whole(2))), (0, false));
        assert!(fragments.may_begin(Whole { source: 9, ..whole(2) }), "another source");
        fragments.expire(now + PATIENCE + REASSEMBLY);
        assert!(fragments.may_begin(whole(2)) && fragments.is_empty());
    }

    #[test]
    fn the_oldest_makes_room_for_the_next() {
        let mut fragments = Fragments::new(8);
        (0..=MOST as u32).for_each(|identification| fragments.note(whole(identification)));
        assert_eq!((fragments.find(whole(0)), fragments.find(whole(1))), (None, Some((2, false))));
    }
}

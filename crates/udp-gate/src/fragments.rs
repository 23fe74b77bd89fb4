//! Reservations for datagrams that arrive in fragments.
//!
//! The kernel queues a fragmented datagram at its socket when its last fragment has arrived. Only
//! the first fragment names the port and the length, so room must be reserved when the first one is
//! sent.
//!
//! ```text
//! first ─▶ place set aside ─▶ later ─▶ later ─▶ last: the datagram is queued, the place is free again
//! ```
//!
//! First fragments wait for room like all datagrams for their socket. Later fragments wait only for
//! their own first one. If they waited behind another datagram, and that for this one's
//! reservation, neither would ever be sent.
//!
//! If the last fragment does not arrive, the reservation ends after [`PATIENCE`], because all other
//! senders to the socket wait for it. The kernel keeps the fragments for 30 s (RFC 8200 §4.5: at
//! most 60 s; `net.ipv4.ipfrag_time`). During that time no room is reserved for other fragmented
//! datagrams of that source: they are sent, but may find the socket full.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use super::sockets::Mixer;

/// How long a reservation waits for the last fragment: much less than a held flow waits for its
/// socket, and enough for 64 KiB at 1 Mbit/s.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the kernel waits for the last fragment.
const REASSEMBLY: Duration = Duration::from_secs(30);

/// The number of datagrams that are remembered, about 150 bytes each.
const MOST: usize = 8192;

/// Identifies the datagram of a fragment (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Whole {
    pub namespace: u32,
    pub source: u128,
    pub destination: u128,
    pub identification: u32,
}

#[derive(Clone, Copy, Debug)]
struct Underway {
    /// Distinguishes a datagram from an earlier one with the same identification.
    serial: u64,
    place: Option<Place>,
}

/// When the first fragment was sent.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    bytes: u32,
    since: Instant,
}

/// The reservations of all slots.
#[derive(Debug)]
struct Aside {
    places: usize,
    /// Reserved bytes, by slot.
    bytes: Vec<u32>,
}

/// The fragmented datagrams in progress.
#[derive(Debug)]
pub struct Fragments {
    underway: HashMap<Whole, Underway, BuildHasherDefault<Mixer>>,
    /// The latest datagrams, oldest first. Some are complete.
    latest: VecDeque<(Whole, u64)>,
    serial: u64,
    aside: Aside,
    /// Sources, each in its namespace, with an expired reservation, and since when.
    lapsed: HashMap<(u32, u128), Instant, BuildHasherDefault<Mixer>>,
}

impl Fragments {
    /// For this many slots.
    pub fn new(slots: usize) -> Self {
        Self {
            underway: HashMap::default(),
            latest: VecDeque::new(),
            serial: 0,
            aside: Aside { places: 0, bytes: vec![0; slots] },
            lapsed: HashMap::default(),
        }
    }

    /// Whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.aside.places == 0
    }

    /// Whether room may be reserved for a datagram: its source has no recently expired reservation.
    pub fn may_begin(&self, whole: Whole) -> bool {
        self.lapsed.is_empty() || !self.lapsed.contains_key(&(whole.namespace, whole.source))
    }

    /// Records a datagram by its first fragment, which may still be held.
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

    /// The number of a datagram whose first fragment was seen, and whether that was sent. Later
    /// datagrams have higher numbers.
    pub fn find(&self, whole: Whole) -> Option<(u64, bool)> {
        self.underway.get(&whole).map(|underway| (underway.serial, underway.place.is_some()))
    }

    /// The first fragment was sent: reserves `bytes` at its socket.
    pub fn begin(&mut self, now: Instant, whole: Whole, slot: u32, bytes: u32) {
        if let Some(underway) = self.underway.get_mut(&whole) {
            let place = Place { slot, bytes, since: now };
            self.aside.free(underway.place.replace(place));
            self.aside.take(place);
        }
    }

    /// The last fragment was sent, so the datagram is queued. Returns its slot and the bytes that
    /// were reserved there.
    pub fn end(&mut self, whole: Whole) -> Option<(u32, u32)> {
        let place = self.underway.remove(&whole)?.place?;
        self.aside.free(Some(place));
        Some((place.slot, place.bytes))
    }

    /// The bytes reserved at a socket.
    #[inline]
    pub fn set_aside(&self, slot: u32) -> u32 {
        self.aside.bytes[slot as usize]
    }

    /// Ends reservations and exclusions of sources whose time has passed.
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
    fn room_is_reserved_from_the_first_fragment_to_the_last() {
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
    fn an_unused_reservation_expires_and_excludes_its_source_for_a_while() {
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
    fn the_oldest_datagram_is_evicted_for_the_next() {
        let mut fragments = Fragments::new(8);
        (0..=MOST as u32).for_each(|identification| fragments.note(whole(identification)));
        assert_eq!((fragments.find(whole(0)), fragments.find(whole(1))), (None, Some((2, false))));
    }
}

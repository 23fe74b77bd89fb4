//! Datagrams whose fragments are on their way.
//!
//! The kernel queues a fragmented datagram at its socket when the last fragment has come, so its place must
//! be set aside when the first one goes: only that names the port and the length.
//!
//! ```text
//! first ─▶ place set aside ─▶ later ─▶ later ─▶ last: the datagram is queued, the place is free again
//! ```
//!
//! Of a datagram whose last fragment never comes, the kernel keeps the rest for 30 s (RFC 8200 §4.5: 60 s at
//! most; `net.ipv4.ipfrag_time`), and we its place.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use super::kernel::SLOTS;
use super::sockets::Mixer;

/// How long the kernel waits for the last fragment.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many of the latest datagrams are remembered; each takes some 150 bytes.
const MOST: usize = 8192;

/// How many places there are for sockets without a slot. Those that share one wait for each other.
const NOBODYS: usize = 4096;

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
    flow: u64,
    place: Option<Place>,
}

/// Set aside since the first fragment went.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    bytes: u32,
    since: Instant,
}

/// The datagrams under way.
#[derive(Debug)]
pub struct Fragments {
    underway: HashMap<Whole, Underway, BuildHasherDefault<Mixer>>,
    /// The latest, oldest first; some have ended.
    latest: VecDeque<(Whole, u64)>,
    serial: u64,
    /// Bytes set aside, by slot; behind the slots, for sockets without one.
    aside: Vec<u32>,
}

impl Fragments {
    pub fn new() -> Self {
        Self {
            underway: HashMap::default(),
            latest: VecDeque::new(),
            serial: 0,
            aside: vec![0; SLOTS + NOBODYS],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.underway.is_empty()
    }

    /// Takes note of a datagram by its first fragment, which may still be held.
    pub fn note(&mut self, whole: Whole, flow: u64) {
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
        self.underway.insert(whole, Underway { serial: self.serial, flow, place: None });
    }

    /// The flow of the datagram that a fragment is of, if its first fragment was seen.
    pub fn flow(&self, whole: Whole) -> Option<u64> {
        self.underway.get(&whole).map(|underway| underway.flow)
    }

    /// A first fragment has gone: sets `bytes` aside at its socket.
    pub fn begin(&mut self, now: Instant, whole: Whole, slot: u32, bytes: u32) {
        if let Some(underway) = self.underway.get_mut(&whole) {
            let before = underway.place.replace(Place { slot, bytes, since: now });
            free(&mut self.aside, before);
            self.aside[slot as usize] = self.aside[slot as usize].saturating_add(bytes);
        }
    }

    /// A last fragment has gone: the datagram is queued.
    pub fn end(&mut self, whole: Whole) {
        if let Some(ended) = self.underway.remove(&whole) {
            free(&mut self.aside, ended.place);
        }
    }

    /// Bytes set aside at a socket.
    #[inline]
    pub fn set_aside(&self, slot: u32) -> u32 {
        self.aside[slot as usize]
    }

    /// Forgets what the kernel has given up; tells when there will be more to forget.
    pub fn expire(&mut self, now: Instant) -> Option<Duration> {
        let age = |place: Place| now.saturating_duration_since(place.since);
        let aside = &mut self.aside;
        self.underway.retain(|_, underway| {
            let young = underway.place.is_none_or(|place| age(place) < PATIENCE);
            if !young {
                free(aside, underway.place);
            }
            young
        });
        self.underway.values().filter_map(|underway| underway.place).map(|place| PATIENCE - age(place)).min()
    }
}

/// In place of a slot's number for a flow whose socket has none.
pub fn nobodys(flow: u64) -> u32 {
    (SLOTS + flow as usize % NOBODYS) as u32
}

fn free(aside: &mut [u32], place: Option<Place>) {
    if let Some(place) = place {
        let aside = &mut aside[place.slot as usize];
        *aside = aside.saturating_sub(place.bytes);
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
        let (mut fragments, now) = (Fragments::new(), Instant::now());
        fragments.note(whole(1), 99);
        assert_eq!((fragments.flow(whole(1)), fragments.flow(whole(2))), (Some(99), None));
        assert_eq!(fragments.set_aside(5), 0, "nothing has gone yet");
        fragments.begin(now, whole(1), 5, 3000);
        fragments.note(whole(2), 99);
        fragments.begin(now, whole(2), 5, 4000);
        assert_eq!((fragments.set_aside(5), fragments.set_aside(6)), (7000, 0));
        fragments.end(whole(1));
        assert_eq!(fragments.set_aside(5), 4000);
    }

    #[test]
    fn a_datagram_that_is_never_whole_is_forgotten_when_the_kernel_forgets_it() {
        let (mut fragments, now) = (Fragments::new(), Instant::now());
        fragments.note(whole(1), 99);
        fragments.begin(now, whole(1), 5, 3000);
        assert_eq!(fragments.expire(now + Duration::from_secs(1)), Some(PATIENCE - Duration::from_secs(1)));
        assert_eq!(fragments.expire(now + PATIENCE), None);
        assert_eq!(fragments.set_aside(5), 0);
    }

    #[test]
    fn the_oldest_makes_room_for_the_next() {
        let mut fragments = Fragments::new();
        (0..=MOST as u32).for_each(|identification| fragments.note(whole(identification), 0));
        assert_eq!((fragments.flow(whole(0)), fragments.flow(whole(1))), (None, Some(0)));
    }
}

//! Neighbours of routers that nobody declares: what is known of them, and what is held for them
//! meanwhile (RFC 826, RFC 1122 §2.3.2.1, RFC 4861 §7.3).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use logical::objects::Identity;
use packet::Tuple;
use packet::neighbours::{
    ASK_AGAIN, MOST_ASKED, MOST_ASKED_EACH, MOST_HELD, MOST_HELD_OF_ONE, MOST_QUESTIONS, MOST_SEEN,
    REACHABLE, SILENT, STALE,
};
use units::{Instant, Mac};

/// A neighbour: of which router, behind which port of it, with which address.
pub type Neighbour = (Identity, Identity, IpAddr);

/// A packet that waits for a neighbour, as it came to the router.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// The router's port that it came to.
    pub port: Identity,
    pub frame: Vec<u8>,
    /// The port that it came from, if that is known.
    pub origin: Option<Identity>,
    /// Its ends: a later fragment has its first's.
    pub tuple: Option<Tuple>,
    pub routers: usize,
    pub is_networks: bool,
}

/// What a frame changes about a neighbour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum About {
    /// A packet of this port is for it.
    Needed(Option<Identity>, Option<Held>),
    /// The port that it was behind is gone.
    Lost,
    /// It was heard, at that address, behind that port; whether it may have been elsewhere.
    Heard((Mac, Identity), bool),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    Asked(u8),
    Reachable,
    Probed(u8),
    Silent,
}

/// What is known of a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub phase: Phase,
    pub seen: Option<(Mac, Identity)>,
    /// The port of the first packet that it was asked for.
    by: Option<Identity>,
    /// Whether a packet was ever for it.
    pub is_needed: bool,
    heard_at: Instant,
    pub until: Instant,
    pub held: Vec<Held>,
}

impl Entry {
    fn due(&self) -> Instant {
        if self.phase == Phase::Reachable { self.until + STALE } else { self.until }
    }

    const fn was_heard(&self) -> bool {
        matches!(self.phase, Phase::Reachable | Phase::Probed(_))
    }
}

/// What is to be done about a neighbour.
pub enum Due {
    /// It is to be asked where it is; where it was, if that is known.
    Ask(Neighbour, Option<Mac>),
    /// What was held goes on.
    GoOn(Held),
}

/// The neighbours of all routers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    all: BTreeMap<Neighbour, Entry>,
    /// What is held no longer, and its router.
    going: Vec<(Identity, Held)>,
}

impl Neighbours {
    pub fn get(&self, neighbour: &Neighbour) -> Option<&Entry> {
        self.all.get(neighbour)
    }

    fn of_router(&self, router: &Identity) -> impl Iterator<Item = (&Neighbour, &Entry)> {
        let router = router.clone();
        self.all.iter().filter(move |(it, _)| it.0 == router)
    }

    /// Whether a router may ask one more for packets of a port.
    fn may_ask(&self, router: &Identity, by: &Option<Identity>) -> bool {
        let asked = || self.of_router(router).filter(|(_, it)| matches!(it.phase, Phase::Asked(_)));
        asked().count() < MOST_ASKED
            && asked().filter(|(_, it)| it.by == *by).count() < MOST_ASKED_EACH
    }

    /// Whether a router holds one more packet of a port.
    pub fn may_hold(&self, router: &Identity, by: &Option<Identity>) -> bool {
        let going = self.going.iter().filter(|(it, _)| it == router).map(|(_, held)| held);
        let held: Vec<_> =
            going.chain(self.of_router(router).flat_map(|(_, it)| &it.held)).collect();
        let own = held.iter().filter(|it| it.origin == *by).count();
        own < MOST_HELD_OF_ONE && held.len() < MOST_HELD
    }

    /// Whether a router asks for one more for a packet of a port, and holds that.
    pub fn has_room(&self, router: &Identity, by: &Option<Identity>) -> bool {
        self.may_ask(router, by) && self.may_hold(router, by)
    }

    pub fn note(&mut self, neighbour: Neighbour, about: About, now: Instant) {
        match about {
            About::Needed(by, held) => self.need(neighbour, by, held, now),
            About::Heard(seen, overrides) => self.hear(neighbour, seen, overrides, now),
            About::Lost => self.lose(&neighbour),
        }
    }

    fn lose(&mut self, neighbour: &Neighbour) {
        let held = self.all.remove(neighbour).map(|it| it.held);
        self.going.extend(held.into_iter().flatten().map(|it| (neighbour.0.clone(), it)));
    }

    fn need(
        &mut self,
        neighbour: Neighbour,
        by: Option<Identity>,
        held: Option<Held>,
        now: Instant,
    ) {
        if !self.all.contains_key(&neighbour) {
            if !self.may_ask(&neighbour.0, &by) {
                return;
            }
            let unheard = || self.of_router(&neighbour.0).filter(|(_, it)| !it.was_heard());
            if unheard().count() >= MOST_ASKED {
                let silent = unheard().filter(|(_, it)| it.phase == Phase::Silent);
                let first = silent.min_by_key(|(place, it)| (it.until, *place));
                let first = first.map(|(place, _)| place.clone());
                first.into_iter().for_each(|it| self.lose(&it));
            }
            let (phase, seen) = (Phase::Asked(0), None);
            let (is_needed, heard_at, until, held) = (true, now, now, Vec::new());
            let new = Entry { phase, seen, by, is_needed, heard_at, until, held };
            self.all.insert(neighbour.clone(), new);
        }
        let Some(entry) = self.all.get_mut(&neighbour) else { return };
        if entry.phase == Phase::Reachable && entry.until <= now {
            (entry.phase, entry.until) = (Phase::Probed(0), now);
        }
        entry.is_needed = true;
        entry.held.extend(held);
    }

    fn hear(&mut self, neighbour: Neighbour, seen: (Mac, Identity), overrides: bool, now: Instant) {
        let is_needed = self.all.get(&neighbour).is_some_and(|it| it.is_needed);
        if let Some(entry) = self.all.get_mut(&neighbour) {
            let held = mem::take(&mut entry.held);
            self.going.extend(held.into_iter().map(|it| (neighbour.0.clone(), it)));
            if !overrides && entry.seen.as_ref().is_some_and(|it| *it != seen) {
                return;
            }
            self.all.remove(&neighbour);
        }
        let heard = || self.of_router(&neighbour.0).filter(|(_, it)| it.was_heard());
        let first = heard().min_by_key(|(place, it)| (it.is_needed, it.heard_at, *place));
        if heard().count() >= MOST_SEEN
            && let Some((first, entry)) = first
        {
            if entry.is_needed && !is_needed {
                return;
            }
            let first = first.clone();
            self.lose(&first);
        }
        let (phase, seen, until) = (Phase::Reachable, Some(seen), now + REACHABLE);
        let (by, heard_at, held) = (None, now, Vec::new());
        let entry = Entry { phase, seen, by, is_needed, heard_at, until, held };
        self.all.insert(neighbour, entry);
    }

    /// When something is due next.
    pub fn due(&self) -> Option<Instant> {
        let next = self.all.values().map(Entry::due).min();
        if self.going.is_empty() { next } else { Some(Instant::ZERO) }
    }

    /// Takes what is due, router by router.
    pub fn take_due(&mut self, now: Instant) -> Vec<Due> {
        let going = self.going.iter().map(|(router, _)| router.clone());
        let mut routers: Vec<_> = self.all.keys().map(|it| it.0.clone()).chain(going).collect();
        routers.sort();
        routers.dedup();
        let mut all = Vec::new();
        for router in routers {
            while let Some((neighbour, _)) = self
                .of_router(&router)
                .filter(|(_, it)| it.due() <= now)
                .min_by_key(|(place, it)| (it.due(), *place))
                && let neighbour = neighbour.clone()
                && let Some(mut entry) = self.all.remove(&neighbour)
            {
                let to = entry.seen.as_ref().map(|(mac, _)| *mac);
                match entry.phase {
                    Phase::Asked(times) if times < MOST_QUESTIONS => {
                        entry.phase = Phase::Asked(times + 1);
                        entry.until = now + ASK_AGAIN;
                        all.push(Due::Ask(neighbour.clone(), None));
                    }
                    Phase::Asked(_) => {
                        let held = mem::take(&mut entry.held).into_iter();
                        self.going.extend(held.map(|it| (router.clone(), it)));
                        entry.phase = Phase::Silent;
                        entry.until = now + SILENT;
                    }
                    Phase::Probed(times) if times < MOST_QUESTIONS => {
                        entry.phase = Phase::Probed(times + 1);
                        entry.until = now + ASK_AGAIN;
                        all.push(Due::Ask(neighbour.clone(), to));
                    }
                    _ => continue,
                }
                self.all.insert(neighbour, entry);
            }
            let own = self.going.extract_if(.., |(it, _)| *it == router);
            all.extend(own.map(|(_, held)| Due::GoOn(held)));
        }
        all
    }
}

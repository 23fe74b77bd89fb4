//! Neighbours of routers that nobody declares: they are asked where they are, and what is for them
//! is held meanwhile (RFC 826, RFC 1122 §2.3.2.1, RFC 4861 §7.3).
//!
//! ```text
//!           a packet           heard                 30 s              a packet
//! (unknown) ───────▶ asked ─────────────▶ reachable ──────▶ stale ─────────────▶ probed
//!     ▲              │ three times          ▲  ▲              │ 60 s           │  │ three times
//!     │ 5 s          ▼ in vain              │  └───── heard ──┼────────────────┘  │ in vain
//!     └─────────── silent ───── heard ──────┘                 ▼                   ▼
//!                                                         (unknown)           (unknown)
//! ```
//!
//! A packet for one that is asked is held, and goes on when the neighbour is heard, in order. Once
//! it is silent, what was held for it goes on too, and is refused then like all that comes.

mod table;
#[cfg(test)]
mod tests;
mod via;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use logical::objects::Identity;
use packet::neighbours::MOST_HELD_EACH;
use units::{Instant, Mac, Span};

pub use table::{Due, Held, Neighbour, Room};
use table::{Entry, Phase, Table};
use via::Moved;
pub use via::Via;

/// What a frame changes about a neighbour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum About {
    /// A packet is for it, which came from this port, if that is known. It is held if there is
    /// room.
    Needed(Option<Identity>, Option<Held>),
    /// The port that it was behind is gone.
    Lost,
    /// It was heard: its Ethernet address, and the port that it is behind.
    Heard {
        /// Where it is.
        seen: (Mac, Identity),
        /// Whether it may be elsewhere now than before.
        overrides: bool,
    },
}

/// What is known of a neighbour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Known<'a> {
    /// It is there, behind that port.
    At(Mac, &'a Identity),
    /// It has not answered.
    Silent,
    /// Nothing yet. Whether one more packet for it is held.
    Nothing { has_room: bool },
}

/// What is known of a neighbour, in the states that the figure above has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// It is being asked, and has not answered yet.
    Asked,
    /// It was heard a short time ago.
    Reachable,
    /// It was heard, and is asked again once a packet is for it.
    Stale,
    /// It was heard, and is being asked whether it is still there.
    Probed,
    /// It was asked in vain.
    Silent,
}

/// A neighbour of a router, as operators see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NeighbourState<'a> {
    /// The router's port that it is behind.
    pub port: &'a Identity,
    /// Its address.
    pub address: IpAddr,
    /// Where it is, if it was heard.
    pub mac: Option<Mac>,
    /// What is known of it.
    pub state: Heard,
    /// How many packets wait for it.
    pub held: usize,
}

/// A router's neighbours as another host gets them: with how much time has passed, or is left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HandedNeighbours(Vec<(Neighbour, Entry, Times)>);

/// How long ago an entry was heard, since when its phase could have gone on, and how long it lasts.
type Times = [Span; 3];

/// The neighbours of all routers.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    tables: BTreeMap<Identity, Table>,
    /// When something is due at each router.
    due: BTreeSet<(Instant, Identity)>,
    /// The router at which there was no more room: those behind it are first.
    last: Option<Identity>,
    /// What was held by routers that are here no longer: it goes on to where they are.
    left: VecDeque<Held>,
    moved: Moved,
}

impl Neighbours {
    /// What is known of a neighbour of a router, for which a packet of a port is.
    pub fn get(
        &self,
        router: &Identity,
        neighbour: &Neighbour,
        by: Option<&Identity>,
    ) -> Known<'_> {
        let entry = self.tables.get(router).and_then(|it| it.all.get(neighbour));
        match entry.map(|it| (&it.seen, it.phase, it.held.len())) {
            None => Known::Nothing { has_room: self.has_room(router, by) },
            Some((Some((mac, behind)), ..)) => Known::At(*mac, behind),
            Some((None, Phase::Silent, _)) => Known::Silent,
            Some((None, _, held)) => {
                let has_room = held < MOST_HELD_EACH && self.may_hold(router, by);
                Known::Nothing { has_room }
            }
        }
    }

    /// Whether a router holds one more packet of a port.
    fn may_hold(&self, router: &Identity, by: Option<&Identity>) -> bool {
        self.tables.get(router).is_none_or(|it| it.may_hold(&by.cloned()))
    }

    /// Whether a router asks for one more for a packet of a port, and holds that.
    pub fn has_room(&self, router: &Identity, by: Option<&Identity>) -> bool {
        let by = by.cloned();
        self.tables.get(router).is_none_or(|it| it.may_ask(&by) && it.may_hold(&by))
    }

    /// Whether anything is known of a neighbour, or it is being asked.
    pub fn has(&self, router: &Identity, neighbour: &Neighbour) -> bool {
        self.tables.get(router).is_some_and(|it| it.all.contains_key(neighbour))
    }

    /// Whether it changes something that a packet is for a neighbour that was heard: it was not
    /// heard for long, or no packet was for it before.
    pub fn is_news(&self, router: &Identity, neighbour: &Neighbour, now: Instant) -> bool {
        let entry = self.tables.get(router).and_then(|it| it.all.get(neighbour));
        let is_stale = |it: &Entry| it.phase == Phase::Reachable && it.until <= now;
        entry.is_some_and(|it| !it.is_needed || is_stale(it))
    }

    /// Notes something about a neighbour.
    pub fn note(&mut self, router: &Identity, neighbour: &Neighbour, about: About, now: Instant) {
        if !self.tables.contains_key(router) {
            self.tables.insert(router.clone(), Table::default());
        }
        self.change(router, |table| match about {
            About::Needed(by, held) => table.need(neighbour, by, held, now),
            About::Lost => table.lose(neighbour),
            About::Heard { seen, overrides } => table.hear(neighbour, seen, overrides, now),
        });
    }

    /// Changes a router's table. One that has nothing left is no more.
    fn change(&mut self, router: &Identity, change: impl FnOnce(&mut Table)) {
        let Some(table) = self.tables.get_mut(router) else { return };
        let before = table.next();
        change(table);
        let after = table.next();
        self.moved.extend(mem::take(&mut table.moved));
        if table.is_empty() {
            self.tables.remove(router);
        }
        if before != after {
            before.into_iter().for_each(|at| _ = self.due.remove(&(at, router.clone())));
            self.due.extend(after.map(|at| (at, router.clone())));
        }
    }

    /// The neighbours of which packets are to be decided anew since this was asked last.
    pub fn take_moved(&mut self) -> impl Iterator<Item = Via> + use<> {
        mem::take(&mut self.moved).into_iter()
    }

    /// When something is due next: not as long as there is no `room` for a frame.
    pub fn next(&self, room: usize) -> Option<Instant> {
        if room == 0 {
            return None;
        }
        match self.left.is_empty() {
            true => self.due.first().map(|(at, _)| *at),
            false => Some(Instant::ZERO),
        }
    }

    /// Takes what is due: packets that go on, and behind them questions, as far as there is room.
    /// What there is none for is due still. The next time, those routers are first that were behind
    /// the one at which the room ended. `copies`: of how many ports a question goes out.
    pub fn take_due(
        &mut self,
        now: Instant,
        mut room: Room,
        copies: impl Fn(&Neighbour) -> usize,
    ) -> Vec<Due> {
        let left = self.left.len().min(room.frames);
        room.take(left, 0);
        let mut all: Vec<Due> = self.left.drain(..left).map(Due::GoOn).collect();
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<Identity> = due.map(|(_, router)| router.clone()).collect();
        due.sort_unstable();
        let first = self.last.as_ref().map_or(0, |last| due.partition_point(|it| it <= last));
        due.rotate_left(first);
        let mut last = None;
        for router in &due {
            self.change(router, |table| table.go_on(&mut room, &mut all));
            last = last.or((room.frames == 0).then_some(router));
        }
        for router in &due {
            self.change(router, |table| {
                table.ask(now, &mut room, &copies, &mut all);
                table.go_on(&mut room, &mut all);
            });
            last = last.or((room.copies() == 0).then_some(router));
        }
        self.last = last.cloned().or(self.last.take());
        all
    }

    /// A router's neighbours, and what is held for them, for another host.
    pub fn hand_over(&self, router: &Identity, now: Instant) -> HandedNeighbours {
        let all = self.tables.get(router).into_iter().flat_map(|it| &it.all);
        let handed = |(neighbour, entry): (&Neighbour, &Entry)| {
            let Entry { heard_at, until, .. } = *entry;
            let times = [now.since(heard_at), now.since(until), until.since(now)];
            (neighbour.clone(), entry.clone(), times)
        };
        HandedNeighbours(all.map(handed).collect())
    }

    /// Goes on with a router's neighbours as another host had them, in place of what was known.
    pub fn take_over(&mut self, router: &Identity, from: &HandedNeighbours, now: Instant) {
        let going = self.remove(router).map(|it| it.going).unwrap_or_default();
        let mut table = Table::default();
        going.iter().for_each(|it| table.hold(it));
        table.going = going;
        for (neighbour, entry, [heard, passed, left]) in &from.0 {
            entry.held.iter().for_each(|it| table.hold(it));
            let (heard_at, until) = (now - *heard, now + *left - *passed);
            table.put(neighbour.clone(), Entry { heard_at, until, copied: 0, ..entry.clone() });
        }
        if let Some(at) = table.next() {
            self.due.insert((at, router.clone()));
            self.tables.insert(router.clone(), table);
        }
    }

    fn remove(&mut self, router: &Identity) -> Option<Table> {
        let table = self.tables.remove(router)?;
        table.all.keys().for_each(|it| self.moved.insert(Via::of(it)));
        table.next().into_iter().for_each(|at| _ = self.due.remove(&(at, router.clone())));
        Some(table)
    }

    /// Forgets the neighbours of routers that are here no longer. What was held for them goes on to
    /// where their routers are.
    pub fn retain(&mut self, mut is_here: impl FnMut(&Identity) -> bool) {
        let gone: Vec<_> = self.tables.keys().filter(|it| !is_here(it)).cloned().collect();
        for table in gone.iter().filter_map(|router| self.remove(router)).collect::<Vec<_>>() {
            self.left.extend(table.going);
            self.left.extend(table.all.into_values().flat_map(|it| it.held));
        }
    }

    /// All neighbours of all routers.
    pub fn all(&self, now: Instant) -> impl Iterator<Item = NeighbourState<'_>> {
        let all = self.tables.values().flat_map(|it| &it.all);
        all.map(move |((port, address), entry)| NeighbourState {
            port,
            address: *address,
            mac: entry.seen.as_ref().map(|(mac, _)| *mac),
            state: match entry.phase {
                Phase::Asked(_) => Heard::Asked,
                Phase::Reachable if entry.until <= now => Heard::Stale,
                Phase::Reachable => Heard::Reachable,
                Phase::Probed(_) => Heard::Probed,
                Phase::Silent => Heard::Silent,
            },
            held: entry.held.len(),
        })
    }
}

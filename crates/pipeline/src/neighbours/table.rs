//! One router's neighbours.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;
use core::ops::Range;

use logical::objects::Identity;
use packet::neighbours::{
    ASK_AGAIN, MOST_ASKED, MOST_ASKED_EACH, MOST_HELD, MOST_HELD_OF_ONE, MOST_QUESTIONS, MOST_SEEN,
    REACHABLE, SILENT, STALE,
};
use units::{Class, Instant, Mac};

use super::via::{Moved, Via};
use crate::onward::Onward;

/// A neighbour: the router's port that it is behind, and its address.
pub type Neighbour = (Identity, IpAddr);

/// A packet that waits for a neighbour, as it came to the router.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// The packet, for the router.
    pub onward: Onward,
    /// The class that it goes on with.
    pub class: Class,
}

/// What is to be done about neighbours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Due {
    /// A neighbour is to be asked where it is.
    Ask {
        /// The neighbour.
        neighbour: Neighbour,
        /// Where it was, if that is known.
        to: Option<Mac>,
        /// Out of which ports, by their places among those that it may be behind.
        ports: Range<usize>,
    },
    /// What was held goes on.
    GoOn(Held),
}

/// How much may go by the turn now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Frames.
    pub frames: usize,
    /// Those of them that may be copies of questions.
    pub copies: usize,
}

impl Room {
    /// As much as there is.
    pub const ALL: Self = Self { frames: usize::MAX, copies: usize::MAX };

    pub(super) fn copies(self) -> usize {
        self.copies.min(self.frames)
    }

    pub(super) const fn take(&mut self, frames: usize, copies: usize) {
        self.frames -= frames;
        self.copies -= copies;
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// It was asked so often, and has not answered yet.
    Asked(u8),
    /// It was heard.
    Reachable,
    /// It was heard, and asked so often since whether it is still there.
    Probed(u8),
    /// It was asked in vain.
    Silent,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) phase: Phase,
    pub(super) seen: Option<(Mac, Identity)>,
    /// Of one that was not heard: the port of the packet that it is asked for.
    pub(super) by: Option<Identity>,
    /// Whether a packet was ever for it.
    pub(super) is_needed: bool,
    /// When it was heard last.
    pub(super) heard_at: Instant,
    /// Of a reachable one: until when it is. Of others: when the phase goes on.
    pub(super) until: Instant,
    /// Of a reachable one that packets are for: whether it was noted that it is no longer.
    pub(super) is_over: bool,
    /// Out of how many ports the question of now has gone.
    pub(super) copied: usize,
    pub(super) held: Vec<Held>,
}

impl Entry {
    /// When something is to be done.
    fn due(&self) -> Instant {
        match self.phase {
            Phase::Reachable if self.is_over || !self.is_needed => self.until + STALE,
            _ => self.until,
        }
    }

    const fn was_heard(&self) -> bool {
        matches!(self.phase, Phase::Reachable | Phase::Probed(_))
    }
}

/// Numbers by the ports that they are of, and their sum.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    each: BTreeMap<Option<Identity>, usize>,
    all: usize,
}

impl Counts {
    fn of(&self, port: &Option<Identity>) -> usize {
        self.each.get(port).copied().unwrap_or(0)
    }

    fn add(&mut self, port: &Option<Identity>) {
        *self.each.entry(port.clone()).or_default() += 1;
        self.all += 1;
    }

    fn remove(&mut self, port: &Option<Identity>) {
        if let Some(count) = self.each.get_mut(port) {
            self.all -= 1;
            *count -= 1;
            if *count == 0 {
                self.each.remove(port);
            }
        }
    }
}

/// A router's neighbours.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) all: BTreeMap<Neighbour, Entry>,
    due: BTreeSet<(Instant, Neighbour)>,
    /// Those that were heard, in the order in which they are forgotten: first those that no packet
    /// was for, and of each kind the one that was heard longest ago.
    heard: BTreeSet<(bool, Instant, Neighbour)>,
    /// Those that are being asked, by the port of the packet that was the first for each.
    asking: Counts,
    /// Packets that are held, those that are about to go on among them, by their ports.
    held: Counts,
    /// What goes on as soon as there is room.
    pub(super) going: VecDeque<Held>,
    /// Those that packets are for, and that are elsewhere now, gone, or to be asked.
    pub(super) moved: Moved,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.going.is_empty()
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.going.is_empty() {
            true => self.due.first().map(|(at, _)| *at),
            false => Some(Instant::ZERO),
        }
    }

    /// How many were not heard.
    fn unheard(&self) -> usize {
        self.all.len() - self.heard.len()
    }

    /// A packet is held from now on.
    pub(super) fn hold(&mut self, held: &Held) {
        self.held.add(&held.onward.origin);
    }

    /// Whether one more packet of a port is held.
    pub(super) fn may_hold(&self, by: &Option<Identity>) -> bool {
        self.held.of(by) < MOST_HELD_OF_ONE && self.held.all < MOST_HELD
    }

    /// Whether one more may be asked for packets of a port.
    pub(super) fn may_ask(&self, by: &Option<Identity>) -> bool {
        self.asking.of(by) < MOST_ASKED_EACH && self.asking.all < MOST_ASKED
    }

    pub(super) fn need(
        &mut self,
        neighbour: &Neighbour,
        by: Option<Identity>,
        held: Option<Held>,
        now: Instant,
    ) {
        let Some(mut entry) = self.take(neighbour) else {
            if self.may_ask(&by) {
                if self.unheard() >= MOST_ASKED {
                    self.forget_silent();
                }
                let held: Vec<_> = held.into_iter().collect();
                held.iter().for_each(|it| self.hold(it));
                let (phase, seen, until) = (Phase::Asked(0), None, now);
                let (is_needed, heard_at, is_over, copied) = (true, now, false, 0);
                let entry =
                    Entry { phase, seen, by, is_needed, heard_at, until, is_over, copied, held };
                self.put(neighbour.clone(), entry);
            }
            return;
        };
        if entry.phase == Phase::Reachable && entry.until <= now {
            (entry.phase, entry.until) = (Phase::Probed(0), now);
        }
        entry.is_needed = true;
        held.iter().for_each(|it| self.hold(it));
        entry.held.extend(held);
        self.put(neighbour.clone(), entry);
    }

    pub(super) fn hear(
        &mut self,
        neighbour: &Neighbour,
        seen: (Mac, Identity),
        overrides: bool,
        now: Instant,
    ) {
        let before = self.take(neighbour);
        let known = before.as_ref().and_then(|it| it.seen.as_ref());
        let stays = !overrides && known.is_some_and(|it| *it != seen);
        let is_needed = before.as_ref().is_some_and(|it| it.is_needed);
        let is_elsewhere = !stays && known.is_some_and(|it| *it != seen);
        if is_needed && is_elsewhere {
            self.moved.insert(Via::of(neighbour));
        }
        if let Some(mut entry) = before {
            self.going.extend(mem::take(&mut entry.held));
            if stays {
                return self.put(neighbour.clone(), entry);
            }
        }
        if self.heard.len() >= MOST_SEEN
            && let Some((first_is_needed, _, first)) = self.heard.first().cloned()
        {
            // Whoever just tells of itself takes nobody's place whom packets are for: it is asked
            // once one is for it.
            if first_is_needed && !is_needed {
                return;
            }
            self.lose(&first);
        }
        let (phase, seen, until) = (Phase::Reachable, Some(seen), now + REACHABLE);
        let (by, heard_at, is_over, copied, held) = (None, now, false, 0, Vec::new());
        let entry = Entry { phase, seen, by, is_needed, heard_at, until, is_over, copied, held };
        self.put(neighbour.clone(), entry);
    }

    /// Nothing is known of a neighbour any more.
    pub(super) fn lose(&mut self, neighbour: &Neighbour) {
        let Some(entry) = self.take(neighbour) else { return };
        if entry.is_needed {
            self.moved.insert(Via::of(neighbour));
        }
        self.going.extend(entry.held);
    }

    /// Forgets who was asked in vain first.
    fn forget_silent(&mut self) {
        let is_silent = |(_, it): &&(Instant, Neighbour)| self.all[it].phase == Phase::Silent;
        if let Some((_, first)) = self.due.iter().find(is_silent).cloned() {
            self.lose(&first);
        }
    }

    fn take(&mut self, neighbour: &Neighbour) -> Option<Entry> {
        let entry = self.all.remove(neighbour)?;
        self.due.remove(&(entry.due(), neighbour.clone()));
        if entry.was_heard() {
            self.heard.remove(&(entry.is_needed, entry.heard_at, neighbour.clone()));
        }
        if let Phase::Asked(_) = entry.phase {
            self.asking.remove(&entry.by);
        }
        Some(entry)
    }

    pub(super) fn put(&mut self, neighbour: Neighbour, entry: Entry) {
        self.due.insert((entry.due(), neighbour.clone()));
        if entry.was_heard() {
            self.heard.insert((entry.is_needed, entry.heard_at, neighbour.clone()));
        }
        if let Phase::Asked(_) = entry.phase {
            self.asking.add(&entry.by);
        }
        self.all.insert(neighbour, entry);
    }

    /// Moves on the phases that are over, as long as there is room for questions. `copies`: of how
    /// many ports a question goes out.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        room: &mut Room,
        copies: &impl Fn(&Neighbour) -> usize,
        all: &mut Vec<Due>,
    ) {
        while room.copies() > 0
            && let Some((at, neighbour)) = self.due.first().cloned()
            && at <= now
            && let Some(mut entry) = self.take(&neighbour)
        {
            let next = match entry.phase {
                Phase::Asked(MOST_QUESTIONS) => {
                    self.going.extend(mem::take(&mut entry.held));
                    (entry.phase, entry.until) = (Phase::Silent, now + SILENT);
                    self.put(neighbour, entry);
                    continue;
                }
                Phase::Asked(times) => Phase::Asked(times + 1),
                Phase::Probed(times) if times < MOST_QUESTIONS => Phase::Probed(times + 1),
                Phase::Reachable if entry.is_needed && !entry.is_over => {
                    self.moved.insert(Via::of(&neighbour));
                    entry.is_over = true;
                    self.put(neighbour, entry);
                    continue;
                }
                Phase::Probed(_) | Phase::Reachable | Phase::Silent => {
                    if entry.is_needed {
                        self.moved.insert(Via::of(&neighbour));
                    }
                    continue;
                }
            };
            let to = entry.seen.as_ref().map(|(mac, _)| *mac);
            let most = copies(&neighbour).max(1);
            let from = entry.copied.min(most - 1);
            let end = most.min(from.saturating_add(room.copies()));
            all.push(Due::Ask { neighbour: neighbour.clone(), to, ports: from..end });
            room.take(end - from, end - from);
            match end < most {
                true => entry.copied = end,
                false => (entry.copied, entry.phase, entry.until) = (0, next, now + ASK_AGAIN),
            }
            self.put(neighbour, entry);
        }
    }

    pub(super) fn go_on(&mut self, room: &mut Room, all: &mut Vec<Due>) {
        let go = self.going.len().min(room.frames);
        room.take(go, 0);
        for held in self.going.drain(..go) {
            self.held.remove(&held.onward.origin);
            all.push(Due::GoOn(held));
        }
    }
}

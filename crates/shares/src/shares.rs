//! Whose turn it is.

use alloc::vec::Vec;

use units::{Instant, Span};

use crate::calendar::Calendar;
use crate::clock::Clock;
use crate::meter::Meter;
use crate::rounds::Rounds;
use crate::settings::{Scale, Settings};
use crate::terms::{Cost, Terms};

/// One of those who share: a network, or a port within one. The number is given out again when it
/// has [left](Shares::remove).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Holder(u32);

impl Holder {
    /// Its number, counted from zero: an index for what the caller knows of it.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// By what right a holder has its turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// It is within its guarantee.
    Guarantee,
    /// By its weight.
    Weight,
}

/// A turn: leave to send. Asking again gives the same turn, unless an earlier deadline has come up;
/// [`Shares::took`] ends it.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a turn ends when what was taken is told"]
pub struct Turn {
    holder: Holder,
    right: Right,
    most: Cost,
}

impl Turn {
    /// Whose it is.
    #[inline]
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// By what right.
    #[inline]
    pub fn right(&self) -> Right {
        self.right
    }

    /// What it may send: its first frame, and further ones as long as all together are within this.
    /// Whoever sends more is charged for it, but others wait longer than they are promised.
    #[inline]
    pub fn most(&self) -> Cost {
        self.most
    }
}

/// Those who share one link.
///
/// See the [crate](crate) for what it promises.
#[derive(Clone, Debug)]
pub struct Shares {
    places: Vec<Place>,
    /// Places whose holder has left.
    vacant: Vec<u32>,
    /// Who is within its guarantee, by deadline on the link's clock.
    due: Calendar,
    /// Who waits for time to pass: until its maximum lets it go, or until it is within its
    /// guarantee again.
    sleepers: Calendar,
    /// Nobody sleeps until a slot before this one.
    wakes: u64,
    /// Who may be served by weight.
    rounds: Rounds,
    clock: Clock,
    scale: Scale,
    settings: Settings,
    /// Sleepers that were woken and are still to be filed; empty between calls.
    roused: Vec<u32>,
}

/// What is known of a holder.
#[derive(Clone, Debug)]
struct Place {
    state: State,
    /// What is to go first, unless it is at rest.
    head: Cost,
    /// When it last began to wait without a pause, on the link's clock: no frame of its is due
    /// earlier, however much of a burst it has saved.
    since: Instant,
    /// Runs on the link's clock, and is used up by guaranteed turns alone.
    min: Meter,
    max: Meter,
}

const _: () = assert!(size_of::<Place>() <= 120, "there are thousands of them");

/// ```text
///            wake              its maximum lets its head go
///   Resting ─────▶ Held ──────────────────────────────────▶ Waiting
///      ▲ ▲          │ ▲                                      │  │
///      │ └── rest ──┘ └────────── it does not any more ──────┘  │
///      └────────────────────────── rest ────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Nobody's.
    Vacant,
    /// Has nothing to send, or nothing that could go now.
    Resting,
    /// Would exceed its maximum, or is held from outside. Among the sleepers.
    Held,
    /// May be served by weight; and if it has a guarantee it is due, or among the sleepers.
    Waiting,
}

impl Shares {
    /// Nobody yet.
    pub fn new(settings: Settings) -> Self {
        let scale = settings.scale();
        let calendar = Calendar::new(scale.slots);
        Self {
            places: Vec::new(),
            vacant: Vec::new(),
            due: calendar.clone(),
            sleepers: calendar.clone(),
            wakes: u64::MAX,
            rounds: Rounds::new(scale.slots),
            clock: Clock::new(scale.length(scale.slots / 2)),
            scale,
            settings,
            roused: Vec::new(),
        }
    }

    /// One more holder, which is at rest.
    pub fn add(&mut self, terms: Terms) -> Holder {
        let place = Place {
            state: State::Resting,
            head: Cost::default(),
            since: Instant::ZERO,
            min: Meter::new(terms.min),
            max: Meter::new(terms.max),
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                let number = u32::try_from(self.places.len()).expect("memory for fewer holders");
                self.places.push(place);
                for calendar in [&mut self.due, &mut self.sleepers] {
                    calendar.reach(self.places.len());
                }
                self.rounds.reach(self.places.len());
                self.roused.reserve(self.places.len());
                number
            }
        };
        self.rounds.open(number, terms.weight);
        Holder(number)
    }

    /// The holder leaves.
    ///
    /// # Panics
    ///
    /// If it has left already, as all others do.
    pub fn remove(&mut self, holder: Holder) {
        self.rest(holder);
        self.place(holder).state = State::Vacant;
        self.vacant.push(holder.0);
    }

    /// The holder has other terms from now on. What it has used up of the former ones is not
    /// forgiven: it has no burst anew.
    pub fn set(&mut self, now: Instant, holder: Holder, terms: Terms) {
        let time = self.time(now);
        let place = self.place(holder);
        place.min.rebind(time, terms.min);
        place.max.rebind(now, terms.max);
        let state = place.state;
        self.rounds.weigh(holder.0, terms.weight);
        if state != State::Resting {
            self.refile(now, time, holder.0);
        }
    }

    /// The holder has something that could go now: `head` first. Where it waits already, this is
    /// what goes first now.
    #[inline]
    pub fn wake(&mut self, now: Instant, holder: Holder, head: Cost) {
        let place = self.place(holder);
        if place.state == State::Waiting && place.head == head {
            return;
        }
        place.head = head;
        let time = self.time(now);
        self.refile(now, time, holder.0);
    }

    /// The holder has nothing that could go now: it is empty, or blocked below.
    #[inline]
    pub fn rest(&mut self, holder: Holder) {
        self.place(holder).state = State::Resting;
        self.due.remove(holder.0);
        self.sleepers.remove(holder.0);
        self.rounds.leave(holder.0);
    }

    /// What the holder has cannot go before `until`, unless it is woken earlier. It may have a turn
    /// too early all the same. One that is at rest stays at rest.
    ///
    /// So two of these are stacked, of networks and of a network's ports: a network whose ports are
    /// all held by their maxima is held until the first of them is [ready](Self::ready_at).
    pub fn hold(&mut self, now: Instant, holder: Holder, until: Instant) {
        if self.place(holder).state == State::Resting {
            return;
        }
        self.rest(holder);
        let time = self.time(now);
        if until <= now {
            self.file(now, time, holder.0);
            return;
        }
        self.place(holder).state = State::Held;
        self.sleep(holder.0, self.scale.slot_after(until));
    }

    /// Whose turn it is; `None` if nobody waits whose maximum lets it go. `now` never decreases
    /// from call to call.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Option<Turn> {
        let (time, due) = self.time_and_due(now);
        let (number, right) = match due {
            Some(number) => (number, Right::Guarantee),
            None => (self.rounds.first()?, Right::Weight),
        };
        let Place { head, min, max, .. } = &self.places[number as usize];
        let mut most = *head;
        if !self.settings.batch.is_within(most) {
            let mut batch = self.settings.batch.min(max.holds(now));
            if right == Right::Guarantee {
                batch = batch.min(min.holds(time));
            }
            most = most.max(batch);
        }
        Some(Turn { holder: Holder(number), right, most })
    }

    /// So much was sent in this turn, and `next` is what the holder has to send first now; `None`
    /// if it is at rest now.
    #[inline]
    pub fn took(&mut self, now: Instant, turn: Turn, cost: Cost, next: Option<Cost>) {
        let Turn { holder, right, .. } = turn;
        let place = self.place(holder);
        let is_bounded = !place.max.is_unbounded();
        if is_bounded {
            place.max.overflow(now);
            place.max.spend(cost);
        }
        match right {
            // Its bucket does not overflow meanwhile: what comes late is made good.
            Right::Guarantee => place.min.spend(cost),
            Right::Weight => {
                let frames = u64::from(cost.frames) * u64::from(self.settings.frame_bytes);
                self.rounds.spend(holder.0, frames + u64::from(cost.bytes));
            }
        }
        let Some(head) = next else {
            self.rest(holder);
            return;
        };
        let place = &mut self.places[holder.index()];
        place.head = head;
        // Who has no maximum waits as before after a turn by weight, unless it was put to rest, or
        // became due, in the meantime.
        let waits = place.state == State::Waiting && !is_bounded;
        if !waits || self.due.contains(holder.0) {
            self.refile(now, self.clock.at(now), holder.0);
        }
    }

    /// So much of the holder went besides its turns: what was sent again, as a rule. It counts as
    /// what went in turns does, against its guarantee while it is within that.
    pub fn charge(&mut self, now: Instant, holder: Holder, cost: Cost) {
        let time = self.time(now);
        let frames = u64::from(cost.frames) * u64::from(self.settings.frame_bytes);
        let place = self.place(holder);
        let is_resting = place.state == State::Resting;
        if !place.max.is_unbounded() {
            place.max.overflow(now);
            place.max.spend(cost);
        }
        if is_resting {
            place.min.overflow(time);
        }
        if !place.min.is_unbounded() && place.min.ready_at() <= time {
            place.min.spend(cost);
        } else {
            self.rounds.spend(holder.0, frames + u64::from(cost.bytes));
        }
        if !is_resting {
            self.refile(now, time, holder.0);
        }
    }

    /// When [`next`](Self::next) may have a turn: in the past if it may now, `None` if all are at
    /// rest.
    pub fn ready_at(&self) -> Option<Instant> {
        if !self.rounds.is_empty() {
            return Some(Instant::ZERO);
        }
        // The calendar may not have moved on for so long that it has them all too early.
        self.sleepers.first().map(|(slot, _)| self.scale.begin(slot.max(self.wakes)))
    }

    /// A holder that waits has turns by its guarantee alone from now on, and none if it has none:
    /// what it has to send is not to go before. Until it [claims](Self::claim) its part of the
    /// rest, or has rested.
    pub fn renounce(&mut self, holder: Holder) {
        self.rounds.leave(holder.0);
    }

    /// A holder that waits has turns by weight, too.
    pub fn claim(&mut self, holder: Holder) {
        if self.place(holder).state == State::Waiting {
            self.rounds.enter(holder.0);
        }
    }

    /// When [`next`](Self::next) may have a turn by guarantee, or of a holder that its maximum
    /// holds: in the past if it may now, `None` if nobody waits for either.
    pub fn due_at(&self) -> Option<Instant> {
        if !self.due.is_empty() {
            return Some(Instant::ZERO);
        }
        self.sleepers.first().map(|(slot, _)| self.scale.begin(slot.max(self.wakes)))
    }

    /// How long guarantees did not hold altogether, because the link stood still or sent less than
    /// they add up to. A short stop that was made good does not count.
    pub fn lost(&self) -> Span {
        self.clock.lost()
    }

    /// How late guaranteed frames may be before time is [lost](Self::lost).
    pub fn patience(&self) -> Span {
        self.clock.patience()
    }

    /// What time it is on the link, once everybody who slept until now is awake.
    #[inline]
    fn time(&mut self, now: Instant) -> Instant {
        self.time_and_due(now).0
    }

    /// The same, and who has the first deadline.
    #[inline]
    fn time_and_due(&mut self, now: Instant) -> (Instant, Option<u32>) {
        let slot = self.scale.slot(now);
        if self.wakes <= slot {
            self.rouse(now, slot);
        }
        self.lag(now)
    }

    /// Wakes who slept until this slot.
    #[inline(never)]
    fn rouse(&mut self, now: Instant, slot: u64) {
        // Those that are within their guarantees again first: what they are late by tells what time
        // it is for the others.
        self.wakes = loop {
            let Some((first, number)) = self.sleepers.first() else { break u64::MAX };
            if first > slot {
                break first;
            }
            self.sleepers.remove(number);
            let place = &self.places[number as usize];
            if place.state == State::Waiting && place.min.ready_at() <= self.clock.at(now) {
                let deadline = place.deadline();
                self.due.insert(number, self.scale.slot(deadline));
            } else {
                self.roused.push(number);
            }
        };
        self.sleepers.advance(slot);
        let (time, _) = self.lag(now);
        let mut roused = core::mem::take(&mut self.roused);
        for number in roused.drain(..) {
            self.file(now, time, number);
        }
        self.roused = roused;
    }

    /// Has the link's clock lag if the first deadline is too long past, and the calendar of
    /// deadlines move on with it. Returns what time it is, and whose deadline is first.
    #[inline]
    fn lag(&mut self, now: Instant) -> (Instant, Option<u32>) {
        let first = self.due.first();
        if let Some((slot, _)) = first {
            self.clock.lag(now, self.scale.begin(slot));
        }
        let time = self.clock.at(now);
        let past = self.scale.slot(time).saturating_sub(self.scale.slots / 2);
        // Not past the first, which lies in a slot that begins when patience ends, if it is late.
        self.due.advance(first.map_or(past, |(slot, _)| past.min(slot)));
        (time, first.map(|(_, number)| number))
    }

    /// Has it sleep until a slot begins.
    #[inline]
    fn sleep(&mut self, number: u32, slot: u64) {
        self.sleepers.insert(number, slot);
        self.wakes = self.wakes.min(slot);
    }

    /// Files a holder anew, wherever it is.
    #[inline]
    fn refile(&mut self, now: Instant, time: Instant, number: u32) {
        self.due.remove(number);
        self.sleepers.remove(number);
        self.file(now, time, number);
    }

    /// Puts a holder that has something to send where it belongs. It is neither due nor asleep.
    #[inline]
    fn file(&mut self, now: Instant, time: Instant, number: u32) {
        let place = &mut self.places[number as usize];
        let ready = place.max.ready_for(place.head);
        if ready > now {
            place.state = State::Held;
            self.rounds.leave(number);
            self.sleep(number, self.scale.slot_after(ready));
            return;
        }
        if place.state != State::Waiting {
            place.state = State::Waiting;
            place.since = time;
            place.min.overflow(time);
            self.rounds.enter(number);
        }
        if place.min.is_unbounded() {
            return;
        }
        let within = place.min.ready_at();
        if within > time {
            self.sleep(number, self.scale.slot_after(self.clock.when(within)));
        } else {
            let deadline = place.deadline();
            self.due.insert(number, self.scale.slot(deadline));
        }
    }

    fn place(&mut self, holder: Holder) -> &mut Place {
        let place = &mut self.places[holder.index()];
        assert!(place.state != State::Vacant, "holder {} has left", holder.0);
        place
    }
}

impl Place {
    /// By when its head is to be sent, on the link's clock.
    #[inline]
    fn deadline(&self) -> Instant {
        self.min.ready_for(self.head).max(self.since)
    }
}

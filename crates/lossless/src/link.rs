//! An egress that owners share: whose turn it is comes before which class, and which flow.
//!
//! An owner is whoever frames are booked to: of an uplink, a virtual network. Below an owner,
//! flows take turns as they do where nobody shares: the highest class that has a ready flow, in it
//! the flow whose turn it is, in that its senders by deficit round robin. So an owner's classes are
//! its own: the highest of one does not go before the lowest of another.
//!
//! ```text
//!   shares ─▶ owner ─▶ its highest class ─▶ flow ─▶ sender
//!                └─▶ shares of its ports ─▶ port ─▶ its highest class ─▶ flow
//! ```
//!
//! Where ports of an owner have [terms of their own](crate::Switch::set_port_terms), its turn is
//! one of theirs first ([`within`](crate::within)), and then of a class of that port's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use shares::{Cost, Holder, Right, Settings, Shares, Terms, Turn};
use units::{Instant, Rate, Span};

use crate::account::Load;
use crate::id::PortId;
use crate::within::{PortUse, Within};

/// Whose the frames are that a port offers. The number is the caller's.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(pub u16);

/// Who has turns at an egress: an owner; or a port of it, which has terms within the owner's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sharer {
    pub owner: Owner,
    /// [`PortId::NONE`] if it is all those of its ports that have no turns of their own.
    pub port: PortId,
}

impl Sharer {
    /// Of an egress that nobody shares.
    pub(crate) const NOBODY: Self = Self::of(Owner(0));

    /// An owner, but for ports that have turns of their own.
    pub(crate) const fn of(owner: Owner) -> Self {
        Self { owner, port: PortId::NONE }
    }
}

/// What a link takes for frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkConfig {
    /// Its rate, less what is not scheduled.
    pub rate: Rate,
    /// Its longest frame, in bytes.
    pub frame: u32,
    /// What it spends on each frame besides the bytes that the switch counts: what is put around
    /// frames, and what is between them.
    pub around: u32,
}

/// What an owner was sent by a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkUse {
    /// Bytes, with what the link spends on frames besides.
    pub bytes: u64,
    /// The part of them that was sent within the owner's guarantee.
    pub guaranteed_bytes: u64,
    /// What went besides: sent again.
    pub resent_bytes: u64,
    /// How long the owner had frames that the link could have sent.
    pub backlogged: Span,
    /// The part of that in which the link sent other owners' frames instead.
    pub waited: Span,
}

/// Those who share an egress.
#[derive(Debug)]
pub(crate) struct Link {
    shares: Shares,
    settings: Settings,
    around: u32,
    /// By owner.
    holders: Vec<Option<Holder>>,
    /// By holder.
    owners: Vec<Owner>,
    /// By holder: what it has had.
    had: Vec<Had>,
    /// By owner: its ports, if they have terms of their own.
    within: Vec<Option<Box<Within>>>,
    /// What all were sent, in bytes.
    sent: u64,
    rate: Rate,
    /// Whose turn it is.
    run: Option<Run>,
    /// What the frame that was handed out takes of the link, once the receiver has it.
    taken: Option<Cost>,
}

/// What a holder has had of the link.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    /// Bytes that it was sent.
    bytes: u64,
    guaranteed_bytes: u64,
    /// Bytes that were sent again.
    resent: u64,
    /// The last time that it began to have something that could go, if it still has.
    backlog: Option<Backlog>,
    /// How long it had something before.
    backlogged: Span,
    /// Others' bytes that the link sent in that time.
    others: u64,
}

/// A time in which a holder has something that could go.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    /// When it began.
    since: Instant,
    /// What others had been sent by then, in bytes.
    others: u64,
}

impl Had {
    /// Where the link has sent so many bytes by now: what others were sent.
    fn others(&self, sent: u64) -> u64 {
        sent - self.bytes
    }

    /// The holder has something that could go from now on, or nothing any more.
    fn note(&mut self, now: Instant, has_some: bool, sent: u64) {
        match (self.backlog, has_some) {
            (None, true) => {
                self.backlog = Some(Backlog { since: now, others: self.others(sent) });
            }
            (Some(Backlog { since, others }), false) => {
                self.backlog = None;
                self.backlogged += now.since(since);
                self.others += self.others(sent) - others;
            }
            _ => {}
        }
    }
}

/// A turn, in which frames of one owner leave one after the other.
#[derive(Debug)]
struct Run {
    turn: Turn,
    /// Of its port, if that has turns of its own.
    port_turn: Option<Turn>,
    sharer: Sharer,
    /// When it began: it ends with the visit.
    at: Instant,
    spent: Cost,
    /// What the sharer has to send first now.
    next: Option<Cost>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig) -> Self {
        let settings = Settings::of_link(config.rate, config.frame);
        Self {
            shares: Shares::new(settings),
            settings,
            within: Vec::new(),
            around: config.around,
            holders: Vec::new(),
            owners: Vec::new(),
            had: Vec::new(),
            sent: 0,
            rate: config.rate,
            run: None,
            taken: None,
        }
    }

    /// The owner's place among those who share; without terms of its own if it is new.
    fn holder(&mut self, owner: Owner) -> Holder {
        let number = usize::from(owner.0);
        if self.holders.len() <= number {
            self.holders.resize(number + 1, None);
        }
        if let Some(holder) = self.holders[number] {
            return holder;
        }
        let holder = self.shares.add(Terms::default());
        self.holders[number] = Some(holder);
        if self.owners.len() <= holder.index() {
            self.owners.resize(holder.index() + 1, Owner::default());
            self.had.resize(holder.index() + 1, Had::default());
        }
        self.owners[holder.index()] = owner;
        self.had[holder.index()] = Had::default();
        holder
    }

    /// An owner that has nothing to send is known no more, nor what it has had.
    pub(crate) fn forget(&mut self, owner: Owner) {
        let number = usize::from(owner.0);
        let holder = self.holders.get_mut(number).and_then(Option::take);
        if let Some(holder) = holder {
            self.shares.remove(holder);
        }
        if let Some(within) = self.within.get_mut(number) {
            *within = None;
        }
    }

    pub(crate) fn set_terms(&mut self, now: Instant, owner: Owner, terms: Terms) {
        let holder = self.holder(owner);
        self.shares.set(now, holder, terms);
    }

    /// Gives a port terms of its own, within its owner's.
    pub(crate) fn set_port_terms(&mut self, now: Instant, sharer: Sharer, terms: Terms) {
        self.end_of(now, sharer.owner);
        let number = usize::from(sharer.owner.0);
        if self.within.len() <= number {
            self.within.resize_with(number + 1, || None);
        }
        let settings = self.settings;
        let within = self.within[number].get_or_insert_with(|| Within::new(settings).into());
        within.set_terms(now, sharer.port, terms);
    }

    /// A port that has nothing to send has no terms of its own any more. Whether it had some.
    pub(crate) fn forget_port(&mut self, now: Instant, owner: Owner, port: PortId) -> bool {
        self.end_of(now, owner);
        let Some(place) = self.within.get_mut(usize::from(owner.0)) else { return false };
        let had = place.as_mut().is_some_and(|within| within.forget(port));
        if place.as_ref().is_some_and(|within| within.is_empty()) {
            *place = None;
        }
        had
    }

    /// The ports of an owner, if they have terms of their own.
    fn within(&mut self, owner: Owner) -> Option<&mut Within> {
        self.within.get_mut(usize::from(owner.0))?.as_deref_mut()
    }

    fn cost(&self, load: Load) -> Cost {
        let around = load.frames.saturating_mul(self.around);
        let bytes = u32::try_from(load.bytes).unwrap_or(u32::MAX).saturating_add(around);
        Cost { bytes, frames: load.frames }
    }

    /// The first frame of a sharer that could go now, if there is one, is this.
    pub(crate) fn note(&mut self, now: Instant, sharer: Sharer, first: Option<Load>) {
        let mut first = first.map(|load| self.cost(load));
        if let Some(run) = self.run.as_mut().filter(|run| run.sharer.owner == sharer.owner) {
            if run.sharer == sharer {
                run.next = first;
            }
            self.end(now);
        }
        let holder = self.holder(sharer.owner);
        if let Some(within) = self.within(sharer.owner) {
            within.note(now, sharer.port, first);
            first = within.first();
        }
        self.had[holder.index()].note(now, first.is_some(), self.sent);
        match first {
            Some(cost) => self.shares.wake(now, holder, cost),
            None => self.shares.rest(holder),
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Sharer> {
        if let Some(run) = &self.run {
            if run.at == now {
                return Some(run.sharer);
            }
            self.end(now);
        }
        loop {
            let turn = self.shares.next(now)?;
            let owner = self.owners[turn.holder().index()];
            let (mut sharer, mut port_turn) = (Sharer::of(owner), None);
            if let Some(within) = self.within(owner) {
                match within.next(now) {
                    Ok(next) if next.is_told => {
                        (sharer.port, port_turn) = (next.port, Some(next.turn));
                    }
                    // Another frame than the link was told of: maybe it has to wait.
                    Ok(next) => {
                        self.shares.wake(now, turn.holder(), next.head);
                        continue;
                    }
                    Err(until) => {
                        self.shares.hold(now, turn.holder(), until);
                        continue;
                    }
                }
            }
            let spent = Cost::default();
            self.run = Some(Run { turn, port_turn, sharer, at: now, spent, next: None });
            return Some(sharer);
        }
    }

    /// Ends an owner's turn, if it is one's.
    fn end_of(&mut self, now: Instant, owner: Owner) {
        if self.run.as_ref().is_some_and(|run| run.sharer.owner == owner) {
            self.end(now);
        }
    }

    /// Books what went in a turn that is over.
    fn end(&mut self, now: Instant) {
        let Some(Run { turn, port_turn, sharer, spent, mut next, .. }) = self.run.take() else {
            return;
        };
        if spent == Cost::default() {
            return;
        }
        if let (Some(within), Some(port_turn)) = (self.within(sharer.owner), port_turn) {
            within.took(now, port_turn, spent, next);
            next = within.first();
        }
        let had = &mut self.had[turn.holder().index()];
        had.bytes += u64::from(spent.bytes);
        if turn.right() == Right::Guarantee {
            had.guaranteed_bytes += u64::from(spent.bytes);
        }
        self.sent += u64::from(spent.bytes);
        had.note(now, next.is_some(), self.sent);
        self.shares.took(now, turn, spent, next);
    }

    /// The link has the frame that was handed out last.
    pub(crate) fn take(&mut self, load: Load) {
        self.taken = Some(self.cost(load));
    }

    /// The frame that was handed out has left its queue: the link has it, or it was refused. The
    /// sharer's first is `next` now.
    pub(crate) fn leave(&mut self, now: Instant, sharer: Sharer, next: Option<Load>) {
        let (taken, first) = (self.taken.take(), next.map(|load| self.cost(load)));
        match (self.run.as_mut().filter(|run| run.sharer == sharer), taken) {
            (Some(run), Some(cost)) => {
                run.spent = run.spent.plus(cost);
                run.next = first;
                let most = run.port_turn.as_ref().unwrap_or(&run.turn).most();
                let fits = |all: Cost| all.is_within(run.turn.most()) && all.is_within(most);
                if !first.is_some_and(|first| fits(run.spent.plus(first))) {
                    self.end(now);
                }
            }
            _ => self.note(now, sharer, next),
        }
    }

    /// So much of a sharer went besides its turns.
    pub(crate) fn charge(&mut self, now: Instant, sharer: Sharer, load: Load) {
        let (holder, cost) = (self.holder(sharer.owner), self.cost(load));
        self.end_of(now, sharer.owner);
        self.shares.charge(now, holder, cost);
        if let Some(within) = self.within(sharer.owner) {
            within.charge(now, sharer.port, cost);
        }
        self.had[holder.index()].resent += u64::from(cost.bytes);
    }

    /// What a port has had by now. `None` if it has no terms of its own.
    pub(crate) fn used_by_port(&self, sharer: Sharer) -> Option<PortUse> {
        self.within.get(usize::from(sharer.owner.0))?.as_ref()?.used(sharer.port)
    }

    /// What an owner has had by now. `None` if that is nothing, and it has no terms.
    pub(crate) fn used(&self, now: Instant, owner: Owner) -> Option<LinkUse> {
        let holder = (*self.holders.get(usize::from(owner.0))?)?;
        let mut had = self.had[holder.index()];
        had.note(now, false, self.sent);
        let Had { bytes, guaranteed_bytes, resent, backlogged, others, .. } = had;
        Some(LinkUse {
            bytes,
            guaranteed_bytes,
            resent_bytes: resent,
            backlogged,
            waited: self.rate.time_for(others),
        })
    }

    /// All that it knows: its owners, and ports that have turns of their own.
    pub(crate) fn sharers(&self) -> Vec<Sharer> {
        let numbers = (0..).map(Owner).zip(&self.holders);
        let owners = numbers.filter(|(_, holder)| holder.is_some()).map(|(owner, _)| owner);
        let within = (0..).map(Owner).zip(&self.within);
        let ports = within.filter_map(|(owner, within)| Some((owner, within.as_deref()?)));
        let ports = ports
            .flat_map(|(owner, within)| within.ports().map(move |port| Sharer { owner, port }));
        owners.map(Sharer::of).chain(ports).collect()
    }

    /// How long guarantees did not hold, because it was sent less than they add up to.
    pub(crate) fn short(&self) -> Span {
        self.shares.lost()
    }

    /// When somebody may have a turn, who has something to send: in the past if somebody may now.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        self.shares.ready_at()
    }
}

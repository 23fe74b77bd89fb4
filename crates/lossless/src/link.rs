//! An egress that owners share: whose turn it is comes before which class, and which flow.
//!
//! An owner is whoever frames are booked to: of an uplink, a virtual network. Below an owner,
//! flows take turns as they do where nobody shares: the highest class that has a ready flow, in it
//! the flow whose turn it is, in that its senders by deficit round robin. So an owner's classes are
//! its own: the highest of one does not go before the lowest of another.
//!
//! ```text
//!   shares ─▶ owner ─▶ its highest class ─▶ flow ─▶ sender
//! ```

use alloc::vec::Vec;

use shares::{Cost, Holder, Right, Settings, Shares, Terms, Turn};
use units::{Instant, Rate, Span};

use crate::account::Load;

/// Whose the frames are that a port offers. The number is the caller's.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(pub u16);

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
}

/// Those who share an egress.
#[derive(Debug)]
pub(crate) struct Link {
    shares: Shares,
    around: u32,
    /// By owner.
    holders: Vec<Option<Holder>>,
    /// By holder.
    owners: Vec<Owner>,
    /// By holder: what it was sent.
    sent: Vec<LinkUse>,
    /// Whose turn it is.
    run: Option<Run>,
    /// What the frame that was handed out takes of the link, once the receiver has it.
    taken: Option<Cost>,
}

/// A turn, in which frames of one owner leave one after the other.
#[derive(Debug)]
struct Run {
    turn: Turn,
    owner: Owner,
    /// When it began: it ends with the visit.
    at: Instant,
    spent: Cost,
    /// What the owner has to send first now.
    next: Option<Cost>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig) -> Self {
        Self {
            shares: Shares::new(Settings::of_link(config.rate, config.frame)),
            around: config.around,
            holders: Vec::new(),
            owners: Vec::new(),
            sent: Vec::new(),
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
            self.sent.resize(holder.index() + 1, LinkUse::default());
        }
        self.owners[holder.index()] = owner;
        holder
    }

    pub(crate) fn set_terms(&mut self, now: Instant, owner: Owner, terms: Terms) {
        let holder = self.holder(owner);
        self.shares.set(now, holder, terms);
    }

    fn cost(&self, load: Load) -> Cost {
        let around = load.frames.saturating_mul(self.around);
        let bytes = u32::try_from(load.bytes).unwrap_or(u32::MAX).saturating_add(around);
        Cost { bytes, frames: load.frames }
    }

    /// The first frame of an owner that could go now, if there is one, is this.
    pub(crate) fn note(&mut self, now: Instant, owner: Owner, first: Option<Load>) {
        let first = first.map(|load| self.cost(load));
        if let Some(run) = self.run.as_mut().filter(|run| run.owner == owner) {
            run.next = first;
            self.end(now);
        }
        let holder = self.holder(owner);
        match first {
            Some(cost) => self.shares.wake(now, holder, cost),
            None => self.shares.rest(holder),
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Owner> {
        if let Some(run) = &self.run {
            if run.at == now {
                return Some(run.owner);
            }
            self.end(now);
        }
        let turn = self.shares.next(now)?;
        let owner = self.owners[turn.holder().index()];
        self.run = Some(Run { turn, owner, at: now, spent: Cost::default(), next: None });
        Some(owner)
    }

    /// Books what went in a turn that is over.
    fn end(&mut self, now: Instant) {
        let Some(Run { turn, spent, next, .. }) = self.run.take() else { return };
        if spent == Cost::default() {
            return;
        }
        let sent = &mut self.sent[turn.holder().index()];
        sent.bytes += u64::from(spent.bytes);
        if turn.right() == Right::Guarantee {
            sent.guaranteed_bytes += u64::from(spent.bytes);
        }
        self.shares.took(now, turn, spent, next);
    }

    /// The link has the frame that was handed out last.
    pub(crate) fn take(&mut self, load: Load) {
        self.taken = Some(self.cost(load));
    }

    /// The frame that was handed out has left its queue: the link has it, or it was refused. The
    /// owner's first is `next` now.
    pub(crate) fn leave(&mut self, now: Instant, owner: Owner, next: Option<Load>) {
        let (taken, first) = (self.taken.take(), next.map(|load| self.cost(load)));
        match (self.run.as_mut().filter(|run| run.owner == owner), taken) {
            (Some(run), Some(cost)) => {
                run.spent = run.spent.plus(cost);
                run.next = first;
                let goes_on =
                    first.is_some_and(|first| run.spent.plus(first).is_within(run.turn.most()));
                if !goes_on {
                    self.end(now);
                }
            }
            _ => self.note(now, owner, next),
        }
    }

    /// What an owner was sent. `None` if it has had nothing, and no terms.
    pub(crate) fn sent(&self, owner: Owner) -> Option<LinkUse> {
        let holder = (*self.holders.get(usize::from(owner.0))?)?;
        Some(self.sent[holder.index()])
    }

    /// The owners that it knows.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.owners.iter().copied()
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

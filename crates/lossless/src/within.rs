//! The second level of an egress that is shared: ports take turns for what is their owner's.
//!
//! An owner's turn at the [link](crate::link) is given to one of its ports, by the ports' own
//! terms: guarantees first, by deadline, and the rest by weight, never above a maximum. What the
//! owner may send, all its ports together, is decided before and not here.
//!
//! The link knows an owner by one frame, its first. Here that is a guess until the owner has its
//! turn: which port is first depends on the time. So it is told anew if it was another's.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use shares::{Cost, Holder, Right, Settings, Shares, Terms, Turn};
use units::Instant;

use crate::id::PortId;

/// What a port that has terms of its own was sent by a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortUse {
    /// Bytes, with what the link spends on frames besides.
    pub bytes: u64,
    /// The part of them that was sent within the port's guarantee.
    pub guaranteed_bytes: u64,
}

/// An owner's ports.
#[derive(Debug)]
pub(crate) struct Within {
    shares: Shares,
    /// By port; [`PortId::NONE`] is all that have no turns of their own.
    holders: BTreeMap<PortId, Holder>,
    /// By holder.
    members: Vec<Member>,
    /// What the link was told that the owner has first.
    told: Cost,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    port: PortId,
    /// What it has first, if it has something.
    head: Cost,
    had: PortUse,
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Next {
    pub port: PortId,
    pub turn: Turn,
    pub head: Cost,
    /// The link was told of this head.
    pub is_told: bool,
}

impl Within {
    /// Nobody yet, on a link of these settings.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            shares: Shares::new(settings),
            holders: BTreeMap::new(),
            members: Vec::new(),
            told: Cost::default(),
        }
    }

    /// A port's place; without terms of its own if it is new.
    fn holder(&mut self, port: PortId) -> Holder {
        if let Some(holder) = self.holders.get(&port) {
            return *holder;
        }
        let holder = self.shares.add(Terms::default());
        self.holders.insert(port, holder);
        let member = Member { port, head: Cost::default(), had: PortUse::default() };
        if self.members.len() <= holder.index() {
            self.members.resize(holder.index() + 1, member);
        }
        self.members[holder.index()] = member;
        holder
    }

    pub(crate) fn set_terms(&mut self, now: Instant, port: PortId, terms: Terms) {
        let holder = self.holder(port);
        self.shares.set(now, holder, terms);
    }

    /// A port that has nothing to send is known no more. Whether it was.
    pub(crate) fn forget(&mut self, port: PortId) -> bool {
        let holder = self.holders.remove(&port);
        holder.into_iter().for_each(|holder| self.shares.remove(holder));
        holder.is_some()
    }

    /// Whether no port has terms of its own.
    pub(crate) fn is_empty(&self) -> bool {
        self.ports().next().is_none()
    }

    /// The ports that have.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> {
        self.holders.keys().copied().filter(|port| *port != PortId::NONE)
    }

    /// A port's first frame that could go now, if there is one, is this.
    pub(crate) fn note(&mut self, now: Instant, port: PortId, first: Option<Cost>) {
        let holder = self.holder(port);
        match first {
            Some(head) => {
                (self.members[holder.index()].head, self.told) = (head, head);
                self.shares.wake(now, holder, head);
            }
            None => self.shares.rest(holder),
        }
    }

    /// What the link is told that the owner has first, if it has something.
    pub(crate) fn first(&self) -> Option<Cost> {
        self.shares.ready_at().map(|_| self.told)
    }

    /// Which port's turn it is of those that have something. If all are held by their maxima: until
    /// when.
    pub(crate) fn next(&mut self, now: Instant) -> Result<Next, Instant> {
        match self.shares.next(now) {
            Some(turn) => {
                let Member { port, head, .. } = self.members[turn.holder().index()];
                let is_told = self.told == head;
                self.told = head;
                Ok(Next { port, turn, head, is_told })
            }
            None => {
                let until = self.shares.ready_at();
                Err(until.expect("an owner that has its turn has something"))
            }
        }
    }

    /// So much was sent in this turn, and `next` is what the port has first now.
    pub(crate) fn took(&mut self, now: Instant, turn: Turn, cost: Cost, next: Option<Cost>) {
        let member = &mut self.members[turn.holder().index()];
        member.had.bytes += u64::from(cost.bytes);
        if turn.right() == Right::Guarantee {
            member.had.guaranteed_bytes += u64::from(cost.bytes);
        }
        if let Some(head) = next {
            (member.head, self.told) = (head, head);
        }
        self.shares.took(now, turn, cost, next);
    }

    /// So much of a port went besides its turns.
    pub(crate) fn charge(&mut self, now: Instant, port: PortId, cost: Cost) {
        let holder = self.holder(port);
        self.shares.charge(now, holder, cost);
    }

    /// What a port has had by now.
    pub(crate) fn used(&self, port: PortId) -> Option<PortUse> {
        self.holders.get(&port).map(|holder| self.members[holder.index()].had)
    }
}

//! Decisions for the frames of one port, one after the other.

use lossless::PortId;
use units::{Class, Instant};
use wire::ethernet::Peek;

use super::{Datapath, Decision};
use crate::Network;
use crate::cache::{Action, Entry};
use crate::key::FlowKey;
use crate::l2::Segment;

/// A visit to the frames that came by one port, one after the other. Those with one key ask once.
#[derive(Debug)]
pub struct Visit<'a> {
    datapath: &'a mut Datapath,
    now: Instant,
    from: PortId,
    /// The last frame's, and what was decided of it.
    key: FlowKey,
    action: Action,
}

impl Datapath {
    /// Begins a visit to the frames that came by a port.
    #[inline]
    pub fn visit(&mut self, now: Instant, from: PortId) -> Visit<'_> {
        let Entry { key, action, .. } = Entry::NONE;
        Visit { datapath: self, now, from, key, action }
    }
}

impl Visit<'_> {
    /// What is to become of a frame of `network` with this header. Its source's address is learned.
    #[inline]
    pub fn decide(&mut self, header: &Peek, network: Network) -> Decision<'_> {
        let key = FlowKey::of(header, network);
        if key != self.key {
            self.action = self.datapath.action(self.now, self.from, key);
            self.key = key;
        }
        self.datapath.decision(self.now, self.from, key, self.action)
    }

    /// Notes what a frame for a group says of who is in which ([`wire::membership`]). A copy for
    /// who has not said so holds nobody.
    pub fn overhear(&mut self, header: &Peek, network: Network, frame: &[u8]) {
        let key = FlowKey::of(header, network);
        self.datapath.overhear(self.now, self.from, key, frame);
    }

    /// Whether all that decides of a frame is as of the one before, so that what was decided of
    /// that holds for it.
    #[inline(always)]
    pub fn repeats(&self, header: &Peek, network: Network) -> bool {
        FlowKey::of(header, network) == self.key
    }

    /// The class of a frame with this header.
    pub fn class_of(&self, header: &Peek) -> Class {
        self.datapath.class(self.from, self.datapath.config(self.from).network, header.tag())
    }

    /// The class of a frame without a tag.
    pub fn untagged_class(&self) -> Class {
        self.datapath.class(self.from, self.datapath.config(self.from).network, None)
    }

    /// Whether a frame's tag chooses a class that its network may use, on this host.
    pub fn may_choose(&self, header: &Peek, network: Network) -> bool {
        let chosen = header.tag().map(|tag| self.datapath.settings.priorities[tag.class]);
        let classes = self.datapath.segment(network).and_then(Segment::classes);
        chosen.is_some_and(|class| classes.is_none_or(|classes| classes.contains(class)))
    }

    /// The class of what is no Ethernet frame.
    pub fn default_class(&self) -> Class {
        self.datapath.config(self.from).class
    }
}

//! The exact-match cache: what the stages have decided of late, by ingress and flow key.
//!
//! Each network has one. An entry holds a whole [`Action`], so a hit asks no stage. It holds while
//! the frame's network and VLAN have the generation that the entry was made in, and until the table
//! wants to hear of the source again.

use alloc::vec;
use alloc::vec::Vec;

use lossless::{PortId, Refusal};
use units::{Class, Instant};

use crate::Remote;
use crate::key::FlowKey;

/// What is done with the frames of one flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Action {
    pub class: Class,
    pub verdict: Cached,
}

/// A verdict, as small as it can be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cached {
    /// It goes to this port.
    To(PortId),
    /// It goes to a port of a far host.
    Far(Remote),
    /// A copy goes to each member of its network that is to have it.
    Flood,
    /// It goes nowhere.
    Refuse(Refusal),
}

/// An action, and of what it is true.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub key: FlowKey,
    /// That of the frame's VLAN in its network.
    pub generation: u64,
    /// When the table wants to hear of the source again.
    pub refresh_at: Instant,
    pub from: u16,
    /// The frame's VLAN.
    pub vlan: u16,
    pub action: Action,
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is a cache line");

impl Entry {
    /// No frame's.
    pub(crate) const NONE: Self = Self {
        key: FlowKey::NONE,
        generation: 0,
        refresh_at: Instant::ZERO,
        from: u16::MAX,
        vlan: 0,
        action: Action { class: Class::from_low_bits(0), verdict: Cached::Flood },
    };

    /// Whether it is true now of frames with this key that come by its port, if the VLANs of its
    /// network have these generations.
    #[inline]
    pub(crate) fn holds(
        &self,
        now: Instant,
        generation: impl Fn(u16) -> u64,
        key: FlowKey,
    ) -> bool {
        self.key == key && self.generation == generation(self.vlan) && now < self.refresh_at
    }
}

/// Two entries for one place, so that a few flows of a thousand that meet there do not drive each
/// other out.
type Pair = [Entry; 2];

/// The most places of a network: 512 KiB of them.
const MOST_PAIRS: usize = 4096;

/// Entries at the places that their [hash](FlowKey::hash) says.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// None, or a power of two.
    pairs: Vec<Pair>,
}

impl Cache {
    /// What was decided of frames with this key that came by `from`, if that still holds.
    #[inline]
    pub(crate) fn find(
        &self,
        now: Instant,
        generation: impl Fn(u16) -> u64,
        key: FlowKey,
        from: PortId,
    ) -> Option<&Entry> {
        let pair = self.pairs.get(self.place(key, from))?;
        pair.iter().find(|entry| {
            usize::from(entry.from) == from.index() && entry.holds(now, &generation, key)
        })
    }

    /// Keeps an entry, in a cache that has places for `flows` flows, and as many again so that few
    /// meet.
    pub(crate) fn insert(&mut self, entry: Entry, from: PortId, flows: usize) {
        let room = (2 * flows).next_power_of_two().min(MOST_PAIRS);
        if self.pairs.len() < room {
            self.pairs = vec![[Entry::NONE; 2]; room];
        }
        let place = self.place(entry.key, from);
        let pair = &mut self.pairs[place];
        let is_same = |old: &Entry| (old.key, old.from) == (entry.key, entry.from);
        // What is no longer true of the same flow makes room first.
        match pair.iter().position(is_same) {
            Some(old) => pair[old] = entry,
            None => *pair = [entry, pair[0]],
        }
    }

    #[inline]
    fn place(&self, key: FlowKey, from: PortId) -> usize {
        key.hash(from.index()) as usize & self.pairs.len().wrapping_sub(1)
    }
}

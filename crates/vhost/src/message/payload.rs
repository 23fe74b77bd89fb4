//! The parts of payloads: types for their values, and their layout in messages.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The longest payload in bytes: a full memory table.
pub const MAX_PAYLOAD: usize = 8 + MAX_TABLE * size_of::<Region>();

/// The most regions of a memory table ("Memory regions description").
pub const MAX_TABLE: usize = 8;

/// The most descriptors with one message: one for each region of a table.
pub const MAX_FDS: usize = MAX_TABLE;

/// The largest ring (VIRTIO 1.2 §2.7, §2.8.10.1).
pub const MAX_RING: u16 = 32_768;

/// A region of guest memory ("Memory regions description").
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Region {
    /// The first guest-physical address.
    pub guest: u64,
    /// The length in bytes.
    pub size: u64,
    /// The first address in the front-end's own address space.
    pub user: u64,
    /// The region's offset in the file of its descriptor.
    pub offset: u64,
}

/// A memory table: at most [`MAX_TABLE`] regions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Table {
    len: usize,
    regions: [Region; MAX_TABLE],
}

impl Table {
    /// `None` if there are too many.
    pub fn new(regions: &[Region]) -> Option<Self> {
        let mut all = [Region { guest: 0, size: 0, user: 0, offset: 0 }; MAX_TABLE];
        all.get_mut(..regions.len())?.copy_from_slice(regions);
        Some(Self { len: regions.len(), regions: all })
    }

    /// The regions, in the order of their descriptors.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.len]
    }
}

/// The addresses of a ring's three parts, as the front-end sees them ("A vring address
/// description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// The descriptor table, or the descriptor ring.
    pub descriptors: u64,
    /// The used ring, or the device's event suppression.
    pub used: u64,
    /// The available ring, or the driver's event suppression.
    pub available: u64,
    /// The guest address of the used part for the dirty log; `None` if writes to it are not logged.
    pub log: Option<u64>,
}

/// The region that tracks descriptors in flight ("Inflight description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inflight {
    /// The length of the region in bytes.
    pub size: u64,
    /// Its offset in the file of its descriptor.
    pub offset: u64,
    /// The number of tracked rings.
    pub queues: u16,
    /// The number of descriptors of each ring.
    pub queue_size: u16,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct State {
    pub index: u32,
    pub num: u32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct RawAddresses {
    pub index: u32,
    pub flags: u32,
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
    pub log: u64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct RawInflight {
    size: u64,
    offset: u64,
    queues: u16,
    queue_size: u16,
    // Not in the specification's figure, but C compilers add it.
    padding: u32,
}

impl From<Inflight> for RawInflight {
    fn from(Inflight { size, offset, queues, queue_size }: Inflight) -> Self {
        Self { size, offset, queues, queue_size, padding: 0 }
    }
}

impl From<RawInflight> for Inflight {
    fn from(RawInflight { size, offset, queues, queue_size, padding: _ }: RawInflight) -> Self {
        Self { size, offset, queues, queue_size }
    }
}

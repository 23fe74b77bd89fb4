//! What messages carry, as Rust has it and as it lies in a payload.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// How many bytes a payload has at most: those of a full memory table, the longest that a network
/// device needs.
pub const MAX_PAYLOAD: usize = 8 + MAX_TABLE * size_of::<Region>();

/// How many regions a memory table has at most ("Memory regions description").
pub const MAX_TABLE: usize = 8;

/// How many descriptors come with a message at most: one for each region of a table.
pub const MAX_FDS: usize = MAX_TABLE;

/// How many descriptors a ring has at most (VIRTIO 1.2 §2.7, §2.8.10.1).
pub const MAX_RING: u16 = 32_768;

/// A piece of guest memory: where the guest and the front-end see it, and where it begins in its
/// descriptor ("Memory regions description").
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Region {
    /// The first guest-physical address.
    pub guest: u64,
    /// How many bytes.
    pub size: u64,
    /// The first address in the front-end's own address space.
    pub user: u64,
    /// Where the region begins in what its descriptor maps.
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

/// Where a ring's three parts lie, as the front-end sees them ("A vring address description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// The descriptor table, or the descriptor ring.
    pub descriptors: u64,
    /// The used ring, or the device's event suppression.
    pub used: u64,
    /// The available ring, or the driver's event suppression.
    pub available: u64,
    /// Where in the log a write to the first byte of the used part is marked, if it is to be marked
    /// at all.
    pub log: Option<u64>,
}

/// What tracks descriptors in flight ("Inflight description").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inflight {
    /// How many bytes are tracked in.
    pub size: u64,
    /// Where in the descriptor they begin.
    pub offset: u64,
    /// How many rings are tracked.
    pub queues: u16,
    /// How many descriptors each has.
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
    // Not drawn in the specification, but there as soon as a C compiler lays the struct out.
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

//! The in-flight region: which descriptors we have taken and not given back, so that a switch that comes after us
//! knows ("Inflight I/O tracking").
//!
//! ```text
//!   │ header │ state of descriptor 0 │ 1 │ … │ up to 64 bytes │ header of the next ring │ …
//! ```
//!
//! We make it, the front-end keeps it and gives it back when it connects again. Meanwhile it, or the switch before us,
//! may have written anything there: what is read is checked, and each field is an atomic, since both sides have it.
//! What a ring does with its part is the ring's business; the order of its writes is the specification's.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::{MemfdFlags, SealFlags};

use super::mapping::Mapping;
use super::memory::MemoryError;
use super::message::{Inflight, MAX_RING};

/// The layout's version; 0 is a region that nobody has used yet.
const VERSION: u16 = 1;

/// Each ring's part begins at a multiple of this, as in other back-ends.
const ALIGN: usize = 64;

/// `DescStateSplit`: one descriptor of a split ring.
#[derive(Debug)]
#[repr(C)]
pub struct SplitState {
    /// 1 while the chain that begins here is ours.
    pub inflight: AtomicU8,
    padding: [AtomicU8; 5],
    /// The one used before in the same batch.
    pub next: AtomicU16,
    /// Tells in which order chains were taken.
    pub counter: AtomicU64,
}

/// What `QueueRegionSplit` has before its descriptors.
#[derive(Debug)]
#[repr(C)]
pub struct SplitHeader {
    features: AtomicU64,
    version: AtomicU16,
    desc_num: AtomicU16,
    /// The last one used in the last batch.
    pub last_batch_head: AtomicU16,
    /// The used ring's index, as of the last batch that was finished.
    pub used_idx: AtomicU16,
}

/// `DescStatePacked`: one descriptor of a packed ring.
#[derive(Debug)]
#[repr(C)]
pub struct PackedState {
    /// 1 while the chain that begins here is ours.
    pub inflight: AtomicU8,
    padding: AtomicU8,
    /// The next free entry.
    pub next: AtomicU16,
    /// The chain's last entry.
    pub last: AtomicU16,
    /// How many descriptors the chain has.
    pub num: AtomicU16,
    /// Tells in which order chains were taken.
    pub counter: AtomicU64,
    /// The buffer's id.
    pub id: AtomicU16,
    /// The descriptor's flags.
    pub flags: AtomicU16,
    /// The buffer's length.
    pub len: AtomicU32,
    /// The buffer's address.
    pub addr: AtomicU64,
}

/// What `QueueRegionPacked` has before its descriptors.
#[derive(Debug)]
#[repr(C)]
pub struct PackedHeader {
    features: AtomicU64,
    version: AtomicU16,
    desc_num: AtomicU16,
    /// The first free entry.
    pub free_head: AtomicU16,
    /// The first free entry, as of the last batch that was finished.
    pub old_free_head: AtomicU16,
    /// The place of the next used descriptor.
    pub used_idx: AtomicU16,
    /// The same, as of the last batch that was finished.
    pub old_used_idx: AtomicU16,
    /// The ring's wrap counter there.
    pub used_wrap_counter: AtomicU8,
    /// The same, as of the last batch that was finished.
    pub old_used_wrap_counter: AtomicU8,
    padding: [AtomicU8; 7],
}

/// One ring's part of the region.
#[derive(Clone, Copy, Debug)]
pub enum Tracked<'a> {
    /// A split ring's header and a state for each descriptor.
    Split(&'a SplitHeader, &'a [SplitState]),
    /// A packed ring's.
    Packed(&'a PackedHeader, &'a [PackedState]),
}

/// Which kind of ring, and how many of how many descriptors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    packed: bool,
    queues: usize,
    queue_size: usize,
}

impl Shape {
    fn new(inflight: Inflight, most: usize, packed: bool) -> Result<Self, MemoryError> {
        let Inflight { queues, queue_size, .. } = inflight;
        let sizes = 1..=MAX_RING;
        if !(1..=most).contains(&usize::from(queues)) || !sizes.contains(&queue_size) {
            return Err(MemoryError::Inflight(
                "it is for more rings than there are, or for rings of no size",
            ));
        }
        Ok(Self { packed, queues: queues.into(), queue_size: queue_size.into() })
    }

    /// How many bytes a header has, and a descriptor's state.
    fn parts(self) -> (usize, usize) {
        if self.packed {
            (size_of::<PackedHeader>(), size_of::<PackedState>())
        } else {
            (size_of::<SplitHeader>(), size_of::<SplitState>())
        }
    }

    /// How many bytes there are from one ring's part to the next.
    fn stride(self) -> usize {
        let (header, state) = self.parts();
        (header + state * self.queue_size).next_multiple_of(ALIGN)
    }
}

/// Makes a region for at most `most` rings, all free, and tells what to answer to GET_INFLIGHT_FD.
///
/// # Errors
///
/// [`MemoryError`]: more rings are asked for, or the kernel has no memory for it.
pub fn create(wanted: Inflight, most: usize, packed: bool) -> Result<(Inflight, OwnedFd), MemoryError> {
    let shape = Shape::new(wanted, most, packed)?;
    let size = (shape.stride() * shape.queues) as u64;
    let made = Inflight { size, offset: 0, ..wanted };
    let file = memfd(size).map_err(because)?;
    let region = InflightRegion::map(&file, made, shape)?;
    (0..shape.queues).for_each(|queue| region.format(queue));
    Ok((made, file))
}

fn memfd(size: u64) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("zovn-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, size)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

fn because(source: io::Error) -> MemoryError {
    MemoryError::Map { object: "the in-flight region".into(), source }
}

/// A region that the front-end gave back, mapped and checked.
#[derive(Debug)]
pub struct InflightRegion {
    mapping: Mapping,
    shape: Shape,
}

impl InflightRegion {
    /// Maps what came with SET_INFLIGHT_FD, for at most `most` rings.
    ///
    /// A part that nobody has used is made ready.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]: it contradicts itself, or cannot be mapped.
    pub fn open(file: OwnedFd, given: Inflight, most: usize, packed: bool) -> Result<Self, MemoryError> {
        let region = Self::map(&file, given, Shape::new(given, most, packed)?)?;
        for queue in 0..region.shape.queues {
            let (version, desc_num) = match region.queue(queue) {
                Some(Tracked::Split(header, _)) => (&header.version, &header.desc_num),
                Some(Tracked::Packed(header, _)) => (&header.version, &header.desc_num),
                None => continue,
            };
            match version.load(Relaxed) {
                0 => region.format(queue),
                VERSION if usize::from(desc_num.load(Relaxed)) == region.shape.queue_size => {}
                VERSION => return Err(MemoryError::Inflight("a ring's part is for a ring of another size")),
                _ => return Err(MemoryError::Inflight("it is of a version that we do not know")),
            }
        }
        Ok(region)
    }

    fn map(file: &OwnedFd, given: Inflight, shape: Shape) -> Result<Self, MemoryError> {
        if given.size < (shape.stride() * shape.queues) as u64 {
            return Err(MemoryError::Inflight("it is too short for its rings"));
        }
        if !given.offset.is_multiple_of(ALIGN as u64) {
            return Err(MemoryError::Inflight("its offset is no multiple of 64"));
        }
        let mapping = Mapping::new(file, given.offset, given.size).map_err(because)?;
        Ok(Self { mapping, shape })
    }

    /// A ring's part. Anything may stand in it.
    pub fn queue(&self, index: usize) -> Option<Tracked<'_>> {
        if index >= self.shape.queues {
            return None;
        }
        let (header_len, _) = self.shape.parts();
        // SAFETY: the part lies in the mapping, which is as long as all of them and lives as long as `self`. It is
        // aligned: mapping and offset are to 64 bytes, the strides too, and each header's length is a multiple of 8.
        // All fields are atomics, valid whatever the other side writes.
        #[expect(unsafe_code, reason = "the region is shared with another process")]
        unsafe {
            let part = self.mapping.start().add(index * self.shape.stride());
            let states = part.add(header_len);
            Some(if self.shape.packed {
                let states = std::slice::from_raw_parts(states.cast().as_ptr(), self.shape.queue_size);
                Tracked::Packed(part.cast().as_ref(), states)
            } else {
                let states = std::slice::from_raw_parts(states.cast().as_ptr(), self.shape.queue_size);
                Tracked::Split(part.cast().as_ref(), states)
            })
        }
    }

    /// Whether it can track this ring, or does not track it at all.
    pub fn fits(&self, index: usize, size: u16, packed: bool) -> bool {
        let Shape { queues, queue_size, .. } = self.shape;
        index >= queues || (packed == self.shape.packed && usize::from(size) <= queue_size)
    }

    /// Whether it was taken away under us.
    pub fn is_lost(&self) -> bool {
        self.mapping.is_lost()
    }

    /// Writes a part as it is before its ring begins. Its version comes last: until then nobody relies on it.
    fn format(&self, queue: usize) {
        let size = self.shape.queue_size as u16;
        let version = match self.queue(queue) {
            Some(Tracked::Split(header, _)) => {
                header.desc_num.store(size, Relaxed);
                &header.version
            }
            Some(Tracked::Packed(header, states)) => {
                header.desc_num.store(size, Relaxed);
                // A new packed ring's wrap counter is 1 (VIRTIO 1.2 §2.8.1), and all entries are on the free list.
                header.used_wrap_counter.store(1, Relaxed);
                header.old_used_wrap_counter.store(1, Relaxed);
                for (next, state) in (1..).zip(states) {
                    state.next.store(next, Relaxed);
                }
                &header.version
            }
            None => return,
        };
        version.store(VERSION, std::sync::atomic::Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Inflight = Inflight { size: 0, offset: 0, queues: 2, queue_size: 256 };

    #[test]
    fn the_layout_is_the_specifications() {
        assert_eq!((size_of::<SplitHeader>(), size_of::<SplitState>()), (16, 16));
        assert_eq!((size_of::<PackedHeader>(), size_of::<PackedState>()), (32, 32));
        assert_eq!(std::mem::offset_of!(SplitState, counter), 8);
        assert_eq!(std::mem::offset_of!(PackedHeader, used_wrap_counter), 20);
        assert_eq!(std::mem::offset_of!(PackedState, addr), 24);
    }

    #[test]
    fn what_is_tracked_outlives_whoever_tracks_it() {
        let (made, file) = create(WANTED, 2, false).unwrap();
        assert_eq!(made.size, 2 * (16 + 256 * 16_u64).next_multiple_of(64));
        let region = InflightRegion::open(file.try_clone().unwrap(), made, 2, false).unwrap();
        let Some(Tracked::Split(header, states)) = region.queue(1) else { panic!() };
        assert_eq!(states.len(), 256);
        states[255].inflight.store(1, Relaxed);
        header.used_idx.store(77, Relaxed);
        drop(region);

        let region = InflightRegion::open(file, made, 2, false).unwrap();
        let Some(Tracked::Split(header, states)) = region.queue(1) else { panic!() };
        assert_eq!((states[255].inflight.load(Relaxed), header.used_idx.load(Relaxed)), (1, 77));
        let Some(Tracked::Split(header, _)) = region.queue(0) else { panic!() };
        assert_eq!(header.used_idx.load(Relaxed), 0);
        assert!(region.queue(2).is_none());
    }

    #[test]
    fn a_packed_ring_begins_with_all_entries_free() {
        let (made, file) = create(Inflight { queue_size: 3, ..WANTED }, 2, true).unwrap();
        let region = InflightRegion::open(file, made, 2, true).unwrap();
        let Some(Tracked::Packed(header, states)) = region.queue(0) else { panic!() };
        assert_eq!(header.used_wrap_counter.load(Relaxed), 1);
        assert_eq!(states.iter().map(|state| state.next.load(Relaxed)).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_region_that_nobody_formatted_is_made_ready() {
        let size = 2 * 4160;
        let region =
            InflightRegion::open(memfd(size).unwrap(), Inflight { size, ..WANTED }, 2, false).unwrap();
        let Some(Tracked::Split(header, _)) = region.queue(1) else { panic!() };
        assert_eq!((header.version.load(Relaxed), header.desc_num.load(Relaxed)), (1, 256));
    }

    #[test]
    fn what_does_not_fit_its_rings_is_refused() {
        let (made, file) = create(WANTED, 2, false).unwrap();
        let open = |given, most, packed| {
            InflightRegion::open(file.try_clone().unwrap(), given, most, packed).unwrap_err().to_string()
        };
        assert!(open(made, 1, false).contains("more rings"));
        assert!(open(Inflight { queue_size: 0, ..made }, 2, false).contains("no size"));
        assert!(open(Inflight { queue_size: 128, ..made }, 2, false).contains("another size"));
        assert!(open(made, 2, true).contains("too short"));
        assert!(open(Inflight { offset: 1, ..made }, 2, false).contains("offset"));
        assert!(open(Inflight { size: made.size + 1, ..made }, 2, false).contains("cannot map"));
        rustix::io::pwrite(&file, &[9], 8).unwrap();
        assert!(open(made, 2, false).contains("version"));
        assert!(create(WANTED, 1, false).is_err());
    }
}

//! The in-flight region: where rings' [records](crate::virtio::record) are kept, so that a switch
//! that comes after us knows what we had taken ("Inflight I/O tracking").
//!
//! ```text
//!   │ record of ring 0 │ up to 64 bytes │ record of ring 1 │ …
//! ```
//!
//! We make it, the front-end keeps it and gives it back when it connects again. QEMU does so for
//! disks only; for a card whose front-end does not, the port keeps a file of its own
//! ([`OwnRecords`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};

use super::mapping::Mapping;
use super::memory::{MAX_SLOTS, Memory, MemoryError, Span as Bytes};
use super::message::{Inflight, MAX_RING};
use super::vring::Vring;
use crate::virtio::numbers::Numbers;
use crate::virtio::record::{COUNT_AT, VERSION, VERSION_AT};
use crate::virtio::ring::Ring;
use port::Span;

/// Each ring's part begins at a multiple of this, as in other back-ends.
const ALIGN: usize = 64;

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

    /// How many bytes a record has.
    fn len(self) -> usize {
        Ring::record_len(self.queue_size as u16, self.packed)
    }

    /// How many bytes there are from one ring's part to the next.
    fn stride(self) -> usize {
        self.len().next_multiple_of(ALIGN)
    }
}

/// Makes a region for at most `most` rings, none of which was used, and tells what to answer to
/// GET_INFLIGHT_FD.
///
/// # Errors
///
/// [`MemoryError`]: more rings are asked for, or the kernel has no memory for it.
pub fn create(
    wanted: Inflight,
    most: usize,
    packed: bool,
) -> Result<(Inflight, OwnedFd), MemoryError> {
    let shape = Shape::new(wanted, most, packed)?;
    let size = (shape.stride() * shape.queues) as u64;
    let made = Inflight { size, offset: 0, ..wanted };
    Ok((made, memfd(size).map_err(because)?))
}

fn memfd(size: u64) -> io::Result<OwnedFd> {
    let file =
        rustix::fs::memfd_create("zovn-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
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
    given: Inflight,
    file: Arc<OwnedFd>,
}

impl InflightRegion {
    /// Maps what came with SET_INFLIGHT_FD, for at most `most` rings.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]: it contradicts itself, or cannot be mapped.
    pub fn open(
        file: OwnedFd,
        given: Inflight,
        most: usize,
        packed: bool,
    ) -> Result<Self, MemoryError> {
        let region = Self::map(Arc::new(file), given, Shape::new(given, most, packed)?)?;
        for queue in 0..region.shape.queues {
            let record = words(region.part(queue).expect("it has as many parts"));
            let [version, count] = [VERSION_AT, COUNT_AT].map(|at| record.u16(at).load(Relaxed));
            match version {
                0 => {}
                VERSION if usize::from(count) == region.shape.queue_size => {}
                VERSION => {
                    return Err(MemoryError::Inflight(
                        "a ring's part is for a ring of another size",
                    ));
                }
                _ => return Err(MemoryError::Inflight("it is of a version that we do not know")),
            }
        }
        Ok(region)
    }

    fn map(file: Arc<OwnedFd>, given: Inflight, shape: Shape) -> Result<Self, MemoryError> {
        if given.size < (shape.stride() * shape.queues) as u64 {
            return Err(MemoryError::Inflight("it is too short for its rings"));
        }
        if !given.offset.is_multiple_of(ALIGN as u64) {
            return Err(MemoryError::Inflight("its offset is no multiple of 64"));
        }
        let mapping = Mapping::new(&file, given.offset, given.size).map_err(because)?;
        Ok(Self { mapping, shape, given, file })
    }

    /// Where a ring's record is, as long as the region is there. Anything may stand in it.
    pub fn part(&self, index: usize) -> Option<Bytes> {
        let Shape { queues, .. } = self.shape;
        // SAFETY: the part lies in the mapping, which is as long as all of them.
        #[expect(unsafe_code, reason = "a ring has its place in the mapping")]
        let start = || unsafe { self.mapping.start().add(index * self.shape.stride()) };
        (index < queues).then(|| Bytes { start: start(), len: self.shape.len() })
    }

    /// The region as it was given, and the file that it lies in.
    pub fn file(&self) -> (Inflight, BorrowedFd<'_>) {
        (self.given, self.file.as_fd())
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
}

/// The records of a port's rings in a file of its own, for front-ends that keep none.
///
/// ```text
///   │ whose ring 0 was │ whose ring 1 was │ … │ in-flight region, with room for the largest rings │
/// ```
///
/// One switch at a time has it: it is locked. What is written of it is set aside first, so that a
/// tmpfs that is full says so when a ring starts, and not by a signal when a chain is marked.
///
/// The file outlives its guest, and the port may have another one next. So each record has an
/// identity: the guest's memory, where the ring lies in it, and how many rings the file is for, by
/// which its place changes. With another one, a record is begun anew.
#[derive(Debug)]
pub struct OwnRecords {
    /// Locked as long as it is open.
    file: Arc<OwnedFd>,
    identities: Mapping,
    region: InflightRegion,
    rings: u16,
}

/// How many words an identity has, with how many they are before them.
const IDENTITY: usize = 256;

const _: () = assert!(1 + 6 + Memory::IDENTITY * MAX_SLOTS <= IDENTITY);

/// Why a port keeps no records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// Another switch keeps its own there.
    #[error("another switch has {} open: give each agent a directory of its own", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made.
    #[error("cannot open {} for ourselves: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file's filesystem has no memory for them.
    #[error("cannot set memory aside for records of rings: {0}; make room on their tmpfs")]
    Room(io::Error),
    /// The file cannot be mapped.
    #[error(transparent)]
    Map(#[from] MemoryError),
}

impl Drop for OwnRecords {
    /// Lets the next port have the file at once: what is mapped of it is unmapped later, and would
    /// keep the lock until then.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl OwnRecords {
    /// Opens the file at `path`, which is on tmpfs, for so many rings; makes it if there is none.
    ///
    /// # Errors
    ///
    /// [`RecordsError`].
    pub fn open(path: &Path, rings: u16) -> Result<Self, RecordsError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let because = |error: Errno| RecordsError::Open { path: path.into(), source: error.into() };
        loop {
            let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(because)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(RecordsError::Taken { path: path.into() }),
                Err(error) => return Err(because(error)),
            }
            // Whoever had it before may have removed it just now: then nobody would find it again.
            let ours = rustix::fs::fstat(&file).map_err(because)?;
            if rustix::fs::stat(path)
                .is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino))
            {
                return Self::of(file, rings);
            }
        }
    }

    /// Keeps the records in this file.
    fn of(file: OwnedFd, rings: u16) -> Result<Self, RecordsError> {
        // Entries of packed rings are the larger ones; what no ring uses takes no memory.
        let shape = Shape { packed: true, queues: rings.into(), queue_size: MAX_RING.into() };
        let identities = (8 * IDENTITY * shape.queues).next_multiple_of(4096) as u64;
        let size = (shape.stride() * shape.queues) as u64;
        rustix::fs::ftruncate(&file, identities + size).map_err(|error| because(error.into()))?;
        let given = Inflight { size, offset: identities, queues: rings, queue_size: MAX_RING };
        let file = Arc::new(file);
        let region = InflightRegion::map(file.clone(), given, shape)?;
        set_aside(&file, 0, identities)?;
        let identities = Mapping::new(&file, 0, identities).map_err(because)?;
        Ok(Self { file, identities, region, rings })
    }

    /// Where this ring's record is, as long as the file is open; that of any other one that was
    /// there is forgotten. `None` if there are not so many rings.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Room`]
    pub fn part(
        &self,
        vring: &Vring,
        packed: bool,
        memory: &Memory,
    ) -> Result<Option<Bytes>, RecordsError> {
        let Some(part) = self.region.part(vring.index) else { return Ok(None) };
        let part = Bytes { len: Ring::record_len(vring.size, packed), ..part };
        let at = self.identities.len() + vring.index * self.region.shape.stride();
        set_aside(&self.file, at as u64, part.len as u64)?;
        let len = 8 * IDENTITY;
        // SAFETY: the mapping has as many identities as there are parts.
        #[expect(unsafe_code, reason = "an identity has its place in the mapping")]
        let start = unsafe { self.identities.start().add(len * vring.index) };
        let place = words(Bytes { start, len });
        let addresses = &vring.addresses;
        let ring = [addresses.descriptors, addresses.available, addresses.used];
        let kind = [vring.size.into(), packed.into(), self.rings.into()];
        let identity = ring.into_iter().chain(kind).chain(memory.identity());
        let mut identity: Vec<u64> = std::iter::once(0).chain(identity).collect();
        identity[0] = identity.len() as u64;
        let is_same =
            (0..).zip(&identity).all(|(at, word)| place.u64(8 * at).load(Relaxed) == *word);
        if !is_same {
            // First: whoever is killed between the two leaves a record that nobody has begun.
            words(part).u16(VERSION_AT).store(0, Relaxed);
            compiler_fence(SeqCst);
            (0..).zip(&identity).for_each(|(at, word)| place.u64(8 * at).store(*word, Relaxed));
        }
        Ok(Some(part))
    }
}

/// Has the kernel set memory aside for this part of a file, which is as long already. What is there
/// stays.
fn set_aside(file: &OwnedFd, at: u64, len: u64) -> Result<(), RecordsError> {
    let done = retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len));
    done.map_err(|error| RecordsError::Room(error.into()))
}

/// Bytes of a mapping that the caller has, and keeps while it looks at them.
fn words(Bytes { start, len }: Bytes) -> Span {
    // SAFETY: they are mapped meanwhile, and nobody makes references to them but as atomics.
    #[expect(unsafe_code, reason = "the region is shared with other processes")]
    unsafe {
        Span::new(start, len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::features::Features;
    use super::super::memory::MemoryChange;
    use super::super::message::{Addresses, Region};
    use super::super::vring::{Base, Kick};
    use super::*;

    const WANTED: Inflight = Inflight { size: 0, offset: 0, queues: 2, queue_size: 256 };

    #[test]
    fn the_layout_is_the_specifications() {
        let part = |packed| {
            let (made, file) = create(WANTED, 2, packed).unwrap();
            let region = InflightRegion::open(file, made, 2, packed).unwrap();
            (made.size, region.part(1).unwrap().len, region.part(2).is_none())
        };
        assert_eq!(
            part(false),
            (2 * (16 + 256 * 16_u64).next_multiple_of(64), 16 + 256 * 16, true)
        );
        assert_eq!(part(true), (2 * (32 + 256 * 32_u64).next_multiple_of(64), 32 + 256 * 32, true));
    }

    #[test]
    fn what_is_tracked_outlives_whoever_tracks_it() {
        let (made, file) = create(WANTED, 2, false).unwrap();
        let open = || InflightRegion::open(file.try_clone().unwrap(), made, 2, false).unwrap();
        let last = |region: &InflightRegion, ring| {
            words(region.part(ring).unwrap()).u64(4104).load(Relaxed)
        };
        let region = open();
        words(region.part(1).unwrap()).u64(4104).store(77, Relaxed);
        drop(region);
        let region = open();
        assert_eq!([0, 1].map(|ring| last(&region, ring)), [0, 77]);
    }

    fn memory() -> (Memory, OwnedFd) {
        let file = memfd(1 << 20).unwrap();
        (remembered(&file, 0), file)
    }

    fn remembered(file: &OwnedFd, guest: u64) -> Memory {
        let mut memory = Memory::default();
        let region = Region { guest, size: 1 << 20, user: 1 << 32, offset: 0 };
        memory.apply(MemoryChange::Add(region, file.try_clone().unwrap())).unwrap();
        memory
    }

    #[test]
    fn a_record_of_ours_is_of_one_ring_in_one_memory() {
        let (memory, guest) = memory();
        let file = rustix::fs::memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
        let records = || OwnRecords::of(file.try_clone().unwrap(), 4).unwrap();
        let addresses =
            Addresses { descriptors: 1 << 32, used: 2 << 32, available: 3 << 32, log: None };
        let vring = Vring {
            index: 3,
            size: 256,
            addresses,
            base: Base::new(false),
            kick: Kick::Polled,
            call: None,
            error: None,
            enabled: true,
            features: Features::default(),
        };
        let known = |vring: &Vring, packed, memory: &Memory| {
            let records = records();
            let part = words(records.part(vring, packed, memory).unwrap().unwrap());
            let known = part.u16(VERSION_AT).load(Relaxed) == VERSION;
            part.u16(VERSION_AT).store(VERSION, Relaxed);
            known
        };
        assert!(!known(&vring, false, &memory));
        assert!(known(&vring, false, &memory));
        assert!(known(&vring, false, &remembered(&guest, 0)), "mapped once more");
        assert!(!known(&vring, false, &remembered(&guest, 4096)));
        assert!(!known(&vring, false, &self::memory().0), "another file");
        assert!(!known(&vring, false, &memory));
        assert!(!known(&vring, true, &memory));
        assert!(!known(&Vring { size: 128, ..vring.clone() }, true, &memory));
        let addresses = Addresses { descriptors: 9 << 32, ..addresses };
        assert!(!known(&Vring { addresses, ..vring.clone() }, false, &memory));
        assert!(!known(&Vring { index: 2, ..vring.clone() }, false, &memory));
        assert!(records().part(&Vring { index: 4, ..vring }, false, &memory).unwrap().is_none());
    }

    #[test]
    fn what_does_not_fit_its_rings_is_refused() {
        let (made, file) = create(WANTED, 2, false).unwrap();
        rustix::io::pwrite(&file, &[1, 0, 0, 1], 8).unwrap();
        let open = |given, most, packed| {
            InflightRegion::open(file.try_clone().unwrap(), given, most, packed)
                .unwrap_err()
                .to_string()
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

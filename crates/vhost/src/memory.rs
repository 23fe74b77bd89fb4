//! The guest's memory, as its front-end lets us see it ("Memory access").
//!
//! ```text
//!   guest-physical address ─┐
//!                           ├─▶ region ─▶ pointer, and how many bytes are contiguous from there
//!   front-end's address   ──┘
//! ```
//!
//! Descriptors hold guest-physical addresses; the rings' own addresses are the front-end's. A
//! region's bytes are contiguous here, two regions' are not, whatever their addresses say.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::mapping::Mapping;
use super::message::Region;

/// How many regions a port's memory has at most.
pub const MAX_SLOTS: usize = 32;

/// How often a region is added at most before it is removed: once for each of a card's queue pairs.
const MAX_HOLDS: usize = 128;

/// How many bytes a port's memory has at most.
pub const MAX_BYTES: u64 = 1 << 40;

/// Why memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// More regions than there are slots.
    #[error("cannot add a memory region: all {MAX_SLOTS} slots are taken; remove one first")]
    Slots,
    /// More bytes than a port may map.
    #[error("cannot add {region}: the memory would exceed {MAX_BYTES} bytes; give the guest less")]
    TooMuch {
        /// The region.
        region: Region,
    },
    /// It is empty, or runs over the end of an address space.
    #[error("cannot add {region}: it is empty or wraps; use another front-end")]
    Wraps {
        /// The region.
        region: Region,
    },
    /// It has addresses of another one.
    #[error("cannot add {region}: it overlaps {other}; remove that first")]
    Overlaps {
        /// The region.
        region: Region,
        /// The one that is there.
        other: Region,
    },
    /// No region is the one to be removed.
    #[error("cannot remove {region}: there is none like it; use another front-end")]
    Missing {
        /// The region.
        region: Region,
    },
    /// It cannot be mapped.
    #[error(
        "cannot map {object}: {source}; share the guest's memory as memfd, or as a file on tmpfs or hugetlbfs"
    )]
    Map {
        /// What it was for.
        object: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// An in-flight region that contradicts itself.
    #[error("cannot use the in-flight region: {0}; start the guest's card anew")]
    Inflight(&'static str),
}

/// What a front-end changes of the memory.
#[derive(Debug)]
pub enum MemoryChange {
    /// Forget all regions; from now on there are these.
    Replace(Vec<(Region, OwnedFd)>),
    /// One more.
    Add(Region, OwnedFd),
    /// One less: that of the same addresses and size.
    Remove(Region),
}

/// Bytes of the guest, contiguous in our memory.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first one.
    pub start: NonNull<u8>,
    /// How many can be touched from there.
    pub len: usize,
}

/// All regions of a port, mapped. A clone keeps those mapped that it was made with, until it is
/// dropped.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    region: Region,
    mapping: Arc<Mapping>,
    file: Arc<OwnedFd>,
    /// How often it was added: see [`Memory::hold`].
    holds: usize,
}

impl Memory {
    /// Does as it is told. Pointers into regions that go are dangling afterwards, unless a clone
    /// keeps them.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]. After a failed replacement there may be no regions.
    pub fn apply(&mut self, change: MemoryChange) -> Result<(), MemoryError> {
        match change {
            MemoryChange::Replace(regions) => {
                self.slots.clear();
                regions.into_iter().try_for_each(|(region, file)| self.add(region, file))
            }
            MemoryChange::Add(region, file) => self.add(region, file),
            MemoryChange::Remove(region) => self.remove(region),
        }
    }

    fn add(&mut self, region: Region, file: OwnedFd) -> Result<(), MemoryError> {
        if self.slots.len() == MAX_SLOTS {
            return Err(MemoryError::Slots);
        }
        let end = |start: u64| start.checked_add(region.size);
        if region.size == 0 || end(region.guest).and(end(region.user)).is_none() {
            return Err(MemoryError::Wraps { region });
        }
        if let Some(other) = self.regions().find(|other| other.overlaps(&region)) {
            return Err(MemoryError::Overlaps { region, other });
        }
        let held: u64 = self.regions().map(|region| region.size).sum();
        if region.size > MAX_BYTES - held {
            return Err(MemoryError::TooMuch { region });
        }
        let mapping = Mapping::new(&file, region.offset, region.size)
            .map_err(|source| MemoryError::Map { object: region.to_string(), source })?;
        self.slots.push(Slot {
            region,
            mapping: Arc::new(mapping),
            file: Arc::new(file),
            holds: 1,
        });
        Ok(())
    }

    /// Adds a region that is there already once more. `false` if it is not, or was added too often.
    ///
    /// QEMU 7.2 adds, and later removes, each region once for each queue pair: what was added twice
    /// goes when it was removed twice.
    pub fn hold(&mut self, region: &Region) -> bool {
        let slot =
            self.slots.iter_mut().find(|slot| slot.region == *region && slot.holds < MAX_HOLDS);
        slot.map(|slot| slot.holds += 1).is_some()
    }

    /// Removes a region once, if it was added more often than that.
    pub fn let_go(&mut self, region: &Region) -> bool {
        let slot = self.slots.iter_mut().find(|slot| slot.region.is(region) && slot.holds > 1);
        slot.map(|slot| slot.holds -= 1).is_some()
    }

    /// "The memory region to be removed is identified by its guest address, user address and size."
    fn remove(&mut self, region: Region) -> Result<(), MemoryError> {
        let at = self.regions().position(|other| other.is(&region));
        let at = at.ok_or(MemoryError::Missing { region })?;
        self.slots.remove(at);
        Ok(())
    }

    /// The regions, in the order in which they came.
    pub fn regions(&self) -> impl Iterator<Item = Region> {
        self.slots.iter().map(|slot| slot.region)
    }

    /// Each region with its file, as often as it was added.
    pub fn files(&self) -> impl Iterator<Item = (Region, BorrowedFd<'_>)> {
        self.slots
            .iter()
            .flat_map(|slot| std::iter::repeat_n((slot.region, slot.file.as_fd()), slot.holds))
    }

    /// How many words of its identity there are for each region.
    pub const IDENTITY: usize = 6;

    /// What tells this memory from any other that there is.
    pub fn identity(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().flat_map(|Slot { region, mapping, .. }| {
            let [device, inode] = mapping.file();
            [region.guest, region.user, region.size, region.offset, device, inode]
        })
    }

    /// What lies at a guest-physical address, up to the end of its region.
    #[inline]
    pub fn guest(&self, address: u64) -> Option<Span> {
        self.slots.iter().find_map(|slot| slot.at(address.wrapping_sub(slot.region.guest)))
    }

    /// What lies at an address of the front-end's, up to the end of its region.
    #[inline]
    pub fn user(&self, address: u64) -> Option<Span> {
        self.slots.iter().find_map(|slot| slot.at(address.wrapping_sub(slot.region.user)))
    }

    /// Whether a region was taken away under us.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.slots.iter().any(|slot| slot.mapping.is_lost())
    }

    /// What tells of each region whether it was taken away under us, as long as it is there.
    pub fn losses(&self) -> impl Iterator<Item = &'static AtomicBool> {
        self.slots.iter().map(|slot| slot.mapping.lost())
    }

    /// A region that was taken away under us: its port is to be detached.
    pub fn lost(&self) -> Option<Region> {
        self.slots.iter().find(|slot| slot.mapping.is_lost()).map(|slot| slot.region)
    }
}

impl Slot {
    /// What lies so far into the region.
    #[inline]
    fn at(&self, offset: u64) -> Option<Span> {
        if offset >= self.region.size {
            return None;
        }
        // SAFETY: the mapping has as many bytes as its region, and the offset is less.
        #[expect(unsafe_code, reason = "an address is a place in the mapping")]
        let start = unsafe { self.mapping.start().add(offset as usize) };
        Some(Span { start, len: (self.region.size - offset) as usize })
    }
}

impl Region {
    /// Whether a ring's part, or any other run of the front-end's addresses, lies in it.
    pub fn has_user(&self, address: u64, len: u64) -> bool {
        let offset = address.wrapping_sub(self.user);
        offset < self.size && len <= self.size - offset
    }

    /// Whether both name the same guest memory, wherever it is mapped from.
    pub fn is(&self, other: &Self) -> bool {
        (self.guest, self.user, self.size) == (other.guest, other.user, other.size)
    }

    /// Whether it shares an address with another one. Neither wraps.
    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: u64, b: u64| a < b + other.size && b < a + self.size;
        meet(self.guest, other.guest) || meet(self.user, other.user)
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the memory region of {:#x} bytes at {:#x}", self.size, self.guest)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(len: u64) -> OwnedFd {
        let file = memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        file
    }

    fn region(guest: u64, size: u64) -> Region {
        Region { guest, size, user: guest + (1 << 32), offset: 0 }
    }

    fn memory(regions: &[Region]) -> Memory {
        let mut memory = Memory::default();
        for region in regions {
            memory.apply(MemoryChange::Add(*region, file(region.offset + region.size))).unwrap();
        }
        memory
    }

    #[test]
    fn both_kinds_of_address_lead_to_the_same_byte() {
        let memory = memory(&[region(0, MIB), Region { offset: 5 * 4096, ..region(MIB, 4096) }]);
        for address in [0, 77, MIB - 1, MIB, MIB + 4095] {
            let (guest, user) =
                (memory.guest(address).unwrap(), memory.user(address + (1 << 32)).unwrap());
            assert_eq!((guest.start, guest.len), (user.start, user.len));
            assert_eq!(guest.len as u64, if address < MIB { MIB } else { MIB + 4096 } - address);
        }
        assert!(memory.guest(MIB + 4096).is_none() && memory.user(0).is_none());
        assert!(memory.guest(u64::MAX).is_none());
    }

    #[test]
    fn regions_that_contradict_one_another_are_refused() {
        let mut memory = memory(&[region(MIB, MIB)]);
        let mut add =
            |region: Region| memory.apply(MemoryChange::Add(region, file(2 * MIB))).unwrap_err();
        assert!(matches!(add(region(2 * MIB - 1, MIB)), MemoryError::Overlaps { .. }));
        assert!(matches!(add(region(1, MIB)), MemoryError::Overlaps { .. }));
        let user = region(MIB, 0).user;
        assert!(matches!(
            add(Region { user, ..region(8 * MIB, MIB) }),
            MemoryError::Overlaps { .. }
        ));
        assert!(matches!(add(region(8 * MIB, 0)), MemoryError::Wraps { .. }));
        assert!(matches!(
            add(Region { guest: u64::MAX - 5, ..region(0, 6) }),
            MemoryError::Wraps { .. }
        ));
        assert!(matches!(
            add(Region { user: u64::MAX, ..region(8 * MIB, 1) }),
            MemoryError::Wraps { .. }
        ));
        assert!(matches!(add(region(8 * MIB, MAX_BYTES)), MemoryError::TooMuch { .. }));
        assert!(
            matches!(add(region(8 * MIB, 4 * MIB)), MemoryError::Map { .. }),
            "its file is too short"
        );
    }

    #[test]
    fn a_region_goes_by_its_addresses_and_a_slot_is_free_again() {
        let all: Vec<_> = (0..MAX_SLOTS as u64).map(|n| region(n * MIB, 4096)).collect();
        let mut memory = memory(&all);
        let one_more = region(99 * MIB, 4096);
        assert!(matches!(
            memory.apply(MemoryChange::Add(one_more, file(MIB))),
            Err(MemoryError::Slots)
        ));
        let removed = Region { offset: 77, ..all[3] };
        memory.apply(MemoryChange::Remove(removed)).unwrap();
        assert!(memory.guest(3 * MIB).is_none());
        assert!(matches!(
            memory.apply(MemoryChange::Remove(removed)),
            Err(MemoryError::Missing { .. })
        ));
        memory.apply(MemoryChange::Add(one_more, file(MIB))).unwrap();

        memory.apply(MemoryChange::Replace(vec![(region(0, MIB), file(MIB))])).unwrap();
        assert_eq!(memory.regions().collect::<Vec<_>>(), [region(0, MIB)]);
    }

    #[test]
    fn what_was_added_twice_is_there_until_it_was_removed_twice() {
        let region = region(0, MIB);
        let mut memory = memory(&[region]);
        assert!(memory.hold(&region) && !memory.hold(&Region { offset: 4096, ..region }));
        assert!(memory.let_go(&region) && !memory.let_go(&region));
        assert!(memory.guest(0).is_some());
        memory.apply(MemoryChange::Remove(region)).unwrap();
        assert!(memory.guest(0).is_none());
        memory.apply(MemoryChange::Add(region, file(MIB))).unwrap();
        assert_eq!(
            (0..1000).filter(|_| memory.hold(&region)).count(),
            MAX_HOLDS - 1,
            "and it is counted"
        );
        assert_eq!(memory.files().count(), MAX_HOLDS);
    }

    #[test]
    fn the_region_that_was_taken_away_is_named() {
        let (kept, cut) = (region(0, MIB), region(MIB, MIB));
        let mut memory = memory(&[kept]);
        let file = file(MIB);
        memory.apply(MemoryChange::Add(cut, file.try_clone().unwrap())).unwrap();
        ftruncate(&file, 0).unwrap();
        assert_eq!(memory.lost(), None, "nobody has touched it");
        // SAFETY: inside a mapping that lives.
        #[expect(unsafe_code, reason = "mapped bytes are read by pointer")]
        let byte = unsafe { memory.guest(MIB).unwrap().start.read_volatile() };
        assert_eq!((byte, memory.lost()), (0, Some(cut)));
    }
}

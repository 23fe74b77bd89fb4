//! The dirty log: which pages of the guest's memory were written, for live migration ("Migration").
//!
//! It has one bit for each page of 4 KiB, from guest address 0. The front-end reads and clears bits
//! concurrently.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Release};

use super::mapping::Mapping;
use super::memory::MemoryError;

/// VHOST_LOG_PAGE.
pub const PAGE: u64 = 0x1000;

/// The minimum length in bytes of a log of all addresses below `end`.
pub const fn len(end: u64) -> u64 {
    end.div_ceil(PAGE).div_ceil(8)
}

/// A mapped log.
#[derive(Debug)]
pub struct DirtyLog {
    bits: Mapping,
    file: OwnedFd,
    offset: u64,
}

impl DirtyLog {
    /// Maps a log of `size` bytes from `offset`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Map`].
    pub fn new(file: OwnedFd, size: u64, offset: u64) -> Result<Self, MemoryError> {
        let bits = Mapping::new(&file, offset, size)
            .map_err(|source| MemoryError::Map { object: "the dirty log".into(), source })?;
        Ok(Self { bits, file, offset })
    }

    /// Its file, length and offset.
    pub fn file(&self) -> (BorrowedFd<'_>, u64, u64) {
        (self.file.as_fd(), self.bits.len() as u64, self.offset)
    }

    /// Whether it has a bit for every address below `end`.
    pub fn covers(&self, end: u64) -> bool {
        len(end) <= self.bits.len() as u64
    }

    /// Marks every page of `len` bytes at a guest address as written. To be called after writing,
    /// so that the front-end never finds a mark before the bytes.
    ///
    /// Returns whether the log covers all of them. If not, the guest cannot be migrated: refuse its
    /// front-end.
    #[must_use = "a page that the log does not cover would be lost"]
    pub fn mark(&self, address: u64, len: u64) -> bool {
        let Some(last) = len.checked_sub(1) else { return true };
        let Some(last) = address.checked_add(last) else { return false };
        let (first, last) = (address / PAGE, last / PAGE);
        if last / 8 >= self.bits.len() as u64 {
            return false;
        }
        for page in first..=last {
            // SAFETY: the byte lies in the mapping, since the last one does, and whatever lies
            // there is a valid AtomicU8. The front-end changes it by atomic operations as well.
            #[expect(unsafe_code, reason = "the bits are shared with another process")]
            let byte =
                unsafe { self.bits.start().add((page / 8) as usize).cast::<AtomicU8>().as_ref() };
            byte.fetch_or(1 << (page % 8), Release);
        }
        true
    }

    /// Whether its file was truncated.
    pub fn is_lost(&self) -> bool {
        self.bits.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn each_page_that_was_touched_is_marked_and_no_other() {
        let file = memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4100).unwrap();
        let log = DirtyLog::new(file.try_clone().unwrap(), 4, 4096).unwrap();
        assert!(log.mark(0x1fff, 2), "the last byte of page 1 and the first of page 2");
        assert!(log.mark(31 * PAGE, PAGE));
        assert!(log.mark(u64::MAX, 0), "nothing is nowhere");
        assert!(!log.mark(31 * PAGE, PAGE + 1) && !log.mark(u64::MAX, 2) && !log.mark(u64::MAX, 1));
        let mut bits = [0; 4];
        rustix::io::pread(&file, &mut bits, 4096).unwrap();
        assert_eq!(bits, [0b110, 0, 0, 1 << 7]);
        assert_eq!((len(32 * PAGE), len(32 * PAGE + 1), len(0)), (4, 5, 0));
    }
}

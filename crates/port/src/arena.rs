//! Memory straight from the kernel.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags};

/// Bytes that are zero at first, and cost nothing until they are touched: each page is taken from
/// the kernel when it is, and all are given back when this is dropped.
///
/// An allocator promises neither. It may hand out memory that it had back before, and then has to
/// write zeroes to all of it.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the pointer is to memory that this value alone owns, and a mapping belongs to the
// process: any thread may use it, and unmap it.
#[expect(unsafe_code, reason = "the pointer in it is owned")]
unsafe impl Send for Arena {}
// SAFETY: what a shared reference allows is to read.
#[expect(unsafe_code, reason = "the pointer in it is owned")]
unsafe impl Sync for Arena {}

impl Arena {
    /// So many bytes, rounded up to whole pages. They begin at a page.
    ///
    /// # Panics
    ///
    /// If the kernel has no address space for them.
    pub fn new(len: usize) -> Self {
        let len = len.max(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        #[expect(unsafe_code, reason = "a mapping may replace another; this does not")]
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let start = start.unwrap_or_else(|error| panic!("memory for {len} bytes: {error}"));
        let start = NonNull::new(start).expect("the kernel maps nothing at address 0 by itself");
        // Of a huge page 2 MiB are taken when one byte is touched. SAFETY: the advice does not
        // change what is in memory.
        #[cfg(not(miri))]
        #[expect(unsafe_code, reason = "some advice destroys memory; this does not")]
        let _ = unsafe {
            rustix::mm::madvise(start.as_ptr(), len, rustix::mm::Advice::LinuxNoHugepage)
        };
        Self { start, len }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: all of them are mapped and initialized as long as this value lives, and whoever
        // writes to them has a unique reference to it.
        #[expect(unsafe_code, reason = "a mapping is a pointer and a length")]
        unsafe {
            slice::from_raw_parts(self.start.as_ptr().cast(), self.len)
        }
    }

    /// The bytes, to fill.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is unique.
        #[expect(unsafe_code, reason = "a mapping is a pointer and a length")]
        unsafe {
            slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len)
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, whole as it was made, and no reference to it is
        // left.
        #[expect(unsafe_code, reason = "a mapping is undone by munmap")]
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

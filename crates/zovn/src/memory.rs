//! Huge pages for what is large.
//!
//! A simulation goes back and forth in a few arrays of tens of megabytes: more small pages than a processor can keep the
//! places of. Linux gives them huge pages if it is asked to. The C library could be told to ask, but only before a program
//! begins, and glibc 2.36 sometimes misreads Linux's answer (docs/decisions/0022-profiles-and-huge-pages.md). So we ask.

#![allow(unsafe_code, reason = "an allocator is made of it; each block says why it holds")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{self, Advice};
use rustix::param::page_size;

/// From how many bytes on we ask: less has no whole huge page in it (2 MiB, with small ones of 4 KiB).
const LARGE: usize = 2 << 20;

/// Whether we ask.
static ASKING: AtomicBool = AtomicBool::new(false);

/// From now on Linux is asked for huge pages for what is large. It grants them unless it was told never to (`never` in
/// `/sys/kernel/mm/transparent_hugepage/enabled`).
pub fn ask_for_huge_pages() {
    ASKING.store(true, Ordering::Relaxed);
}

/// The program's allocator: the system's, of which all memory is; we only ask, once we are to.
pub struct Memory;

/// Whether we ask for what is so large.
fn asks_for(size: usize) -> bool {
    size >= LARGE && ASKING.load(Ordering::Relaxed)
}

/// A new block, once its whole pages were asked for.
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    if !block.is_null() && asks_for(size) {
        let page = page_size();
        let skipped = block.addr().next_multiple_of(page) - block.addr();
        let whole = (size - skipped) / page * page;
        // Small pages do as well.
        // SAFETY: the pages lie in a block of so many bytes, and the advice changes nothing of what is in them.
        let _refused = unsafe { mm::madvise(block.add(skipped).cast(), whole, Advice::LinuxHugepage) };
    }
    block
}

// SAFETY: every block is the system's, under the layout that the caller knows it by.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size <= layout.size() || !asks_for(size) {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.realloc(block, layout, size) };
        }
        // Pages that Linux moves for the system's allocator stay small, or become so.
        // SAFETY: the caller promises that the size is neither zero nor too large with this alignment.
        let grown = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !grown.is_null() {
            // SAFETY: both blocks hold what the old one does, and a new one overlaps no other; the caller gives the old one up.
            unsafe {
                ptr::copy_nonoverlapping(block, grown, layout.size());
                self.dealloc(block, layout);
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether Linux was asked for huge pages somewhere in this memory.
    fn asked(memory: &[u64]) -> bool {
        let place = memory.as_ptr_range();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        smaps.lines().any(|line| {
            let bounds = line.split(' ').next().and_then(|it| it.split_once('-'));
            let bound = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) = bounds.map(|(from, to)| (bound(from), bound(to))) {
                inside = from < place.end.addr() && place.start.addr() < to;
            }
            inside && line.starts_with("VmFlags:") && line.contains(" hg")
        })
    }

    #[test]
    fn what_is_large_is_asked_for_once_it_is_to_be_and_keeps_what_it_has() {
        /// Eight mebibytes of them.
        const MANY: u64 = 1 << 20;
        let can = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        let grown = || {
            let mut numbers = Vec::new();
            for number in 0..MANY {
                numbers.push(number);
            }
            numbers
        };
        assert!(!asked(&grown()));
        ask_for_huge_pages();
        let mut numbers = grown();
        assert_eq!(asked(&numbers), can);
        assert!(numbers.iter().copied().eq(0..MANY));
        for left in [MANY - 1, MANY / 2, MANY / 16, 3] {
            numbers.truncate(left as usize);
            numbers.shrink_to_fit();
            assert!(numbers.iter().copied().eq(0..left), "{left}");
        }
        assert!(vec![0_u64; MANY as usize].iter().all(|it| *it == 0));
        ASKING.store(false, Ordering::Relaxed);
    }
}

//! Huge pages for what is large.
//!
//! A simulation goes back and forth in a few arrays of tens of megabytes: more small pages than a
//! processor can keep the places of. Linux gives them huge pages if it is asked to. The C library
//! could be told to ask, but only before a program begins, and glibc 2.36 sometimes misreads
//! Linux's answer (docs/decisions/0020-profiles-and-huge-pages.md). So we ask.

#![allow(unsafe_code, reason = "an allocator is made of it; each block says why it holds")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{self, Advice};
use rustix::param::page_size;

/// From how many bytes on we ask: less has no whole huge page in it (2 MiB, with small ones of 4
/// KiB).
const LARGE: usize = 2 << 20;

/// How long a small page is, once we ask; 0 before. An allocator may neither allocate nor panic, as
/// finding it out might.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// From now on Linux is asked for huge pages for what is large. It grants them where it has some,
/// unless it was told never to (`never` in `/sys/kernel/mm/transparent_hugepage/enabled`).
pub fn ask_for_huge_pages() {
    PAGE.store(page_size(), Ordering::Relaxed);
}

/// The program's allocator: the system's, of which all memory is; we only ask, once we are to.
pub struct Memory;

/// How long a small page is, if huge ones are asked for what is so large.
fn page_for(size: usize) -> Option<usize> {
    let page = if size < LARGE { 0 } else { PAGE.load(Ordering::Relaxed) };
    (page > 0).then_some(page)
}

/// Asks for huge pages for a new block, if it is large.
fn advise(block: *mut u8, size: usize) -> *mut u8 {
    if let Some(page) = page_for(size)
        && !block.is_null()
    {
        // The system's blocks begin within a page, which is not to stay apart from the others.
        let before = block.addr() % page;
        // Small pages do as well. SAFETY: pages of which the block has a part are mapped, and the
        // advice changes nothing of what is in them.
        let _refused = unsafe {
            mm::madvise(block.wrapping_sub(before).cast(), before + size, Advice::LinuxHugepage)
        };
    }
    block
}

// SAFETY: every block is the system's, under the layout that the caller knows it by.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        advise(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Its pages are Linux's zeros, not yet touched, unless it is to be aligned to more than the
        // system does by itself. SAFETY: the caller's promise is the same.
        advise(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size <= layout.size() || page_for(size).is_none() {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.realloc(block, layout, size) };
        }
        // Pages that Linux moves for the system's allocator stay small, or become so. SAFETY: the
        // caller promises that the size is neither zero nor too large with this alignment.
        let grown = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if grown.is_null() {
            // There may be room for one of them, if not for both.
            // SAFETY: the caller's promise is the same.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: both blocks hold what the old one does, and a new one overlaps no other; the
        // caller gives the old one up.
        unsafe {
            ptr::copy_nonoverlapping(block, grown, layout.size());
            self.dealloc(block, layout);
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many bytes of this memory Linux was asked for huge pages.
    fn asked(memory: &[u64]) -> usize {
        let place = memory.as_ptr_range();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut inside, mut sum) = (0, 0);
        for line in smaps.lines() {
            let bounds = line.split(' ').next().and_then(|it| it.split_once('-'));
            let bound = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) = bounds.map(|(from, to)| (bound(from), bound(to)))
            {
                inside = to.min(place.end.addr()).saturating_sub(from.max(place.start.addr()));
            }
            if line.starts_with("VmFlags:") && line.contains(" hg") {
                sum += inside;
            }
        }
        sum
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
        assert_eq!(asked(&grown()), 0);
        ask_for_huge_pages();
        let mut numbers = grown();
        let all = if can { size_of_val(&numbers[..]) } else { 0 };
        assert_eq!(asked(&numbers), all);
        assert!(numbers.iter().copied().eq(0..MANY));
        for left in [MANY - 1, MANY / 2, MANY / 16, 3] {
            numbers.truncate(left as usize);
            numbers.shrink_to_fit();
            assert!(numbers.iter().copied().eq(0..left), "{left}");
        }
        let zeros = vec![0_u64; MANY as usize];
        assert_eq!(asked(&zeros), all);
        assert!(zeros.iter().all(|it| *it == 0));
        PAGE.store(0, Ordering::Relaxed);
    }
}

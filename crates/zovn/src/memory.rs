//! Huge pages for what is large.
//!
//! A simulation goes back and forth in a few arrays of tens of megabytes: more small pages than a processor can keep the
//! places of. Linux gives them huge pages if it is asked to. The C library can be told to ask, but before a program begins or
//! not at all, and glibc 2.36 mistakes what Linux answers, or not, as the stack will have it.
//!
//! ```text
//!   below LARGE ────▶ the C library's allocator
//!   from there on ──▶ a mapping of its own ──ask_for_huge_pages()──▶ in huge pages, where Linux grants them
//! ```

#![allow(unsafe_code, reason = "an allocator is made of it; each block says why it holds")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// Of x86-64, and of Arm with small pages of 4 KiB. Where they are larger, this is only what lengths are rounded to.
const HUGE_PAGE: usize = 2 << 20;

/// What gets a mapping of its own, in bytes: a huge page is at least half full then.
const LARGE: usize = HUGE_PAGE / 2;

/// What every page is aligned to.
const PAGE: usize = 4096;

static HUGE: AtomicBool = AtomicBool::new(false);

/// From now on Linux is asked for huge pages for what is large. It grants them unless it was told never to (`never` in
/// `/sys/kernel/mm/transparent_hugepage/enabled`).
pub fn ask_for_huge_pages() {
    HUGE.store(true, Ordering::Relaxed);
}

/// The program's allocator.
pub struct Memory;

/// How long a mapping for this is; `None` if it gets none.
fn mapped(layout: Layout) -> Option<usize> {
    (layout.size() >= LARGE && layout.align() <= PAGE).then(|| layout.size().next_multiple_of(HUGE_PAGE))
}

// SAFETY: what is at least `LARGE` has a mapping to itself, aligned to a page, from here until `dealloc`; the rest is the C
// library's. Which of both it is follows from the layout alone, which is the same in all calls about a block.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(len) = mapped(layout) else {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: at an address that Linux chooses, nothing else is mapped.
        let place = unsafe {
            mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let Ok(place) = place else { return ptr::null_mut() };
        if HUGE.load(Ordering::Relaxed) {
            // Small pages do as well.
            // SAFETY: the mapping was made just now; this advice changes nothing of what is in it.
            let _refused = unsafe { mm::madvise(place, len, Advice::LinuxHugepage) };
        }
        place.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match mapped(layout) {
            // New mappings are zero.
            // SAFETY: the caller's promise is the same.
            Some(_) => unsafe { self.alloc(layout) },
            // SAFETY: as above.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        match mapped(layout) {
            Some(len) => {
                // Linux refuses to make a hole in a mapping if there are too many already: then it stays.
                // SAFETY: the whole of what `alloc` has mapped for this layout, and nobody uses it any more.
                let _refused = unsafe { mm::munmap(place.cast(), len) };
            }
            // SAFETY: the caller's promise is the same, and `System` has allocated it.
            None => unsafe { System.dealloc(place, layout) },
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that it is not too large with this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (mapped(layout), mapped(new)) {
            // SAFETY: the caller's promise is the same, and `System` has allocated it.
            (None, None) => unsafe { System.realloc(place, layout, size) },
            (Some(before), Some(after)) if before == after => place,
            // A mapping that moves would seldom be aligned to huge pages.
            _ => {
                // SAFETY: the new size is not zero, by the caller's promise.
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    // SAFETY: both are at least as large as the smaller one, and one of them is new.
                    unsafe { ptr::copy_nonoverlapping(place, moved, layout.size().min(size)) };
                    // SAFETY: the caller gives it up.
                    unsafe { self.dealloc(place, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers up to here fill several huge pages.
    const MANY: u64 = 1 << 20;

    #[test]
    fn what_grows_and_shrinks_across_every_bound_keeps_what_it_has() {
        for huge in [false, true] {
            HUGE.store(huge, Ordering::Relaxed);
            let mut numbers = Vec::new();
            numbers.extend((0..MANY).map(std::hint::black_box));
            for left in [MANY, MANY / 2 + 1, MANY / 8, MANY / 16 + 1, 3] {
                numbers.truncate(left as usize);
                numbers.shrink_to_fit();
                assert!((0..left).eq(numbers.iter().copied()), "{left}");
            }
        }
    }

    #[test]
    fn what_is_to_be_zero_is_zero() {
        for bytes in [LARGE - 1, LARGE, LARGE + 1, 3 * HUGE_PAGE] {
            std::hint::black_box(vec![0xff_u8; bytes]);
            assert!(std::hint::black_box(vec![0_u8; bytes]).iter().all(|it| *it == 0), "{bytes}");
        }
    }

    #[test]
    fn what_is_aligned_to_more_than_a_page_is() {
        #[repr(align(65536))]
        struct Wide([u8; HUGE_PAGE]);
        // SAFETY: zero is a value of bytes.
        let wide = unsafe { Box::<Wide>::new_zeroed().assume_init() };
        assert_eq!(ptr::from_ref(&*wide).addr() % 65536, 0);
        assert!(wide.0.iter().all(|it| *it == 0));
    }
}

//! Memory as two processes would share it.

use std::ptr::NonNull;

/// Zeroed memory on lines of its own, known by its address alone.
pub struct Shared {
    region: NonNull<[u8]>,
    lines: usize,
}

#[derive(Clone)]
#[repr(C, align(128))]
struct Line([u8; 128]);

impl Shared {
    /// At least `len` bytes.
    pub fn new(len: usize) -> Self {
        let lines = len.div_ceil(128);
        let memory = Box::leak(vec![Line([0; 128]); lines].into_boxed_slice());
        let base = NonNull::from(memory).cast();
        Self { region: NonNull::slice_from_raw_parts(base, lines * size_of::<Line>()), lines }
    }

    /// All of it.
    pub fn region(&self) -> NonNull<[u8]> {
        self.region
    }

    /// `len` bytes of it, from `first` on.
    pub fn part(&self, first: usize, len: usize) -> NonNull<[u8]> {
        assert!(first + len <= self.region.len());
        // SAFETY: in bounds, as asserted.
        NonNull::slice_from_raw_parts(unsafe { self.region.cast::<u8>().add(first) }, len)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let lines = NonNull::slice_from_raw_parts(self.region.cast::<Line>(), self.lines);
        // SAFETY: what was leaked in `new`.
        drop(unsafe { Box::from_raw(lines.as_ptr()) });
    }
}

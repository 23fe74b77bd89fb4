//! Numbers that a guest and we both change: single ones at an offset of a [`Span`], and a ring's
//! entries by index.

#![expect(
    unsafe_code,
    reason = "numbers in memory that is shared with a guest are reached by pointer"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use port::Span;

/// A span's bytes as numbers: each at an offset that is a multiple of its size.
///
/// # Panics
///
/// Each method, if the number does not lie in the span; in debug builds also if the place is not
/// aligned.
pub(crate) trait Numbers {
    fn u8(&self, offset: usize) -> &AtomicU8;
    fn u16(&self, offset: usize) -> &AtomicU16;
    fn u32(&self, offset: usize) -> &AtomicU32;
    fn u64(&self, offset: usize) -> &AtomicU64;
}

impl Numbers for Span {
    #[inline(always)]
    fn u8(&self, offset: usize) -> &AtomicU8 {
        number(self, offset)
    }

    #[inline(always)]
    fn u16(&self, offset: usize) -> &AtomicU16 {
        number(self, offset)
    }

    #[inline(always)]
    fn u32(&self, offset: usize) -> &AtomicU32 {
        number(self, offset)
    }

    #[inline(always)]
    fn u64(&self, offset: usize) -> &AtomicU64 {
        number(self, offset)
    }
}

/// An atomic, which any bytes are, at an offset.
#[inline(always)]
fn number<T: Number>(span: &Span, offset: usize) -> &T {
    #[cfg(test)]
    super::model::step();
    assert!(offset + size_of::<T>() <= span.len());
    // SAFETY: it lies in the span, which is mapped.
    let place = unsafe { span.start().add(offset).cast::<T>() };
    debug_assert!(place.is_aligned());
    // SAFETY: the ring's parts are aligned, and so are numbers in them; other processes, too,
    // change them as a whole.
    unsafe { place.as_ref() }
}

/// What every bit pattern is a value of, and two sides may change at once.
pub(super) trait Number {}
impl Number for AtomicU8 {}
impl Number for AtomicU16 {}
impl Number for AtomicU32 {}
impl Number for AtomicU64 {}
impl<T: Number> Number for [T; 2] {}

/// Entries of a ring, a power of two of them, by an index that runs on without end: so each is
/// there, and looking it up checks nothing.
#[derive(Debug)]
pub(super) struct Entries<T> {
    start: NonNull<T>,
    /// Their number less one.
    mask: u16,
}

// SAFETY: as for a span.
unsafe impl<T: Number> Send for Entries<T> {}

impl<T: Number> Entries<T> {
    /// So many entries from an offset of `span` on.
    ///
    /// # Panics
    ///
    /// If they do not lie in the span, are not aligned, or their number is not a power of two.
    pub fn new(span: Span, offset: usize, count: u16) -> Self {
        assert!(
            count.is_power_of_two() && offset + size_of::<T>() * usize::from(count) <= span.len()
        );
        let (_, span) = span.split(offset);
        assert!(span.is_aligned_to(align_of::<T>()));
        Self { start: span.start().cast(), mask: count - 1 }
    }

    /// How many lie in a line.
    const A_LINE: u16 = {
        assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= 64);
        64 / size_of::<T>() as u16
    };

    /// Has the processor fetch the lines of so many entries from an index on, to be read soon.
    pub fn fetch(&self, index: u16, count: u16) {
        for ahead in (0..count).step_by(Self::A_LINE.into()).chain(count.checked_sub(1)) {
            prefetch::to_read(self.place(index.wrapping_add(ahead)).as_ptr());
        }
    }

    #[inline(always)]
    fn place(&self, index: u16) -> NonNull<T> {
        // SAFETY: it is one of those that lie in the span, which is mapped.
        unsafe { self.start.add(usize::from(index & self.mask)) }
    }

    /// The entry at an index.
    #[inline(always)]
    pub fn at(&self, index: u16) -> &T {
        #[cfg(test)]
        super::model::step();
        // SAFETY: it is mapped and aligned, and other processes, too, change the numbers in it as a
        // whole.
        unsafe { self.place(index).as_ref() }
    }
}

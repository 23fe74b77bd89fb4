//! A guest's bytes, which may change while we look at them.
//!
//! Nothing here is ever a `&[u8]`: a guest's other processor may be writing. Bytes are copied out, in or across, and
//! what was copied out is looked at; what it says is then as true as it will ever be.

#![expect(unsafe_code, reason = "memory that is shared with a guest is touched by pointer")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use super::chain::MAX_BUFFERS;

/// Bytes that a guest shares with us, contiguous in our memory.
///
/// Its makers promise that the memory stays mapped for as long as it is used; see [`Span::new`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a span is an address. What lies there belongs to no thread, and is touched by copying only.
unsafe impl Send for Span {}

impl Span {
    /// No bytes.
    pub const EMPTY: Self = Self { start: NonNull::dangling(), len: 0 };

    /// `len` bytes from `start`.
    ///
    /// # Safety
    ///
    /// They are mapped for reading and writing as long as the span, or any part of it, is used; and whoever else uses
    /// them may do as it likes, except that in this process nobody has a reference to them.
    #[inline]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// How many bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes, or all if there are fewer, and the rest.
    #[inline]
    pub fn split(self, len: usize) -> (Self, Self) {
        let len = len.min(self.len);
        // SAFETY: the place lies in the span, or at its end.
        let rest = unsafe { self.start.add(len) };
        (Self { len, ..self }, Self { start: rest, len: self.len - len })
    }

    /// Copies bytes out: as many as both have.
    #[inline(always)]
    pub fn read(self, to: &mut [u8]) -> usize {
        let len = self.len().min(to.len());
        // SAFETY: as many bytes are mapped, and nobody has a reference to them, so the two do not overlap.
        unsafe { copy(self.start.as_ptr(), to.as_mut_ptr(), len) };
        len
    }

    /// Copies bytes in: as many as both have.
    #[inline(always)]
    pub fn write(self, from: &[u8]) -> usize {
        let len = self.len().min(from.len());
        // SAFETY: as for `read`.
        unsafe { copy(from.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Copies another span's bytes in: as many as both have. Where the two overlap, what becomes of the bytes is the
    /// guests' concern, whose memory that is.
    #[inline(always)]
    pub fn write_span(self, from: Self) -> usize {
        let len = self.len().min(from.len());
        // SAFETY: as many bytes are mapped on both sides. Two ports may share a page, so the two may overlap: bytes are
        // copied in some order then, which `copy` allows.
        unsafe { copy(from.start.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Has the processor fetch the first line, to be read soon.
    #[inline(always)]
    pub fn fetch(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch touches nothing and faults nowhere.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().cast());
        }
    }

    /// Has the processor fetch the first line, to be written soon.
    #[inline(always)]
    pub fn fetch_to_write(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch touches nothing and faults nowhere.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(self.start.as_ptr().cast());
        }
    }

    /// A number of the ring's, at an offset that is a multiple of its size.
    ///
    /// # Panics
    ///
    /// If it does not lie in the span, or the place is not aligned.
    #[inline(always)]
    pub(crate) fn u16(&self, offset: usize) -> &AtomicU16 {
        self.number(offset)
    }

    #[inline(always)]
    pub(super) fn u8(&self, offset: usize) -> &AtomicU8 {
        self.number(offset)
    }

    #[inline(always)]
    pub(super) fn u32(&self, offset: usize) -> &AtomicU32 {
        self.number(offset)
    }

    #[inline(always)]
    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        self.number(offset)
    }

    /// An atomic, which any bytes are, at an offset.
    #[inline(always)]
    fn number<T: Number>(&self, offset: usize) -> &T {
        #[cfg(test)]
        super::model::step();
        assert!(offset + size_of::<T>() <= self.len());
        // SAFETY: it lies in the span, which is mapped.
        let place = unsafe { self.start.add(offset).cast::<T>() };
        debug_assert!(place.is_aligned());
        // SAFETY: the ring's parts are aligned, and so are numbers in them; other processes, too, change them as a whole.
        unsafe { place.as_ref() }
    }

    /// Whether it begins at a multiple of `align`.
    pub fn is_aligned_to(self, align: usize) -> bool {
        self.start.addr().get().is_multiple_of(align)
    }

    /// Where it begins, for the kernel to read or write (`readv`, `writev`).
    pub fn start(self) -> NonNull<u8> {
        self.start
    }
}

/// What every bit pattern is a value of, and two sides may change at once.
trait Number {}
impl Number for AtomicU8 {}
impl Number for AtomicU16 {}
impl Number for AtomicU32 {}
impl Number for AtomicU64 {}

/// Copies `len` bytes that may change meanwhile, and may overlap.
///
/// Small frames are what a switch has least time for: up to 64 bytes go in pieces that may overlap, without a loop or a
/// call. All of a piece is read before any of it is written.
///
/// # Safety
///
/// Both places are valid for `len` bytes.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    /// As large a piece as one register takes.
    type Piece = [u64; 2];

    // SAFETY: the caller's; each piece lies inside of `len` bytes.
    unsafe {
        let piece = |at: usize| from.add(at).cast::<Piece>().read_unaligned();
        let put = |at: usize, piece: Piece| to.add(at).cast::<Piece>().write_unaligned(piece);
        match len {
            16..=32 => {
                let (a, b) = (piece(0), piece(len - 16));
                put(0, a);
                put(len - 16, b);
            }
            33..=64 => {
                let (a, b, c, d) = (piece(0), piece(16), piece(len - 32), piece(len - 16));
                put(0, a);
                put(16, b);
                put(len - 32, c);
                put(len - 16, d);
            }
            _ => std::ptr::copy(from, to, len),
        }
    }
}

/// What is behind a frame's first bytes: spans, one behind the other.
#[derive(Clone, Debug)]
pub enum Rest {
    /// One, as most often.
    One(Span),
    /// Several.
    Many(Box<Run>),
}

/// Up to as many spans as a chain has buffers.
#[derive(Clone, Debug)]
pub struct Run {
    spans: [Span; MAX_BUFFERS],
    count: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { spans: [Span::EMPTY; MAX_BUFFERS], count: 0 }
    }
}

impl Rest {
    /// Its spans.
    #[inline]
    pub fn spans(&self) -> &[Span] {
        match self {
            Self::One(span) => std::slice::from_ref(span),
            Self::Many(run) => &run.spans[..run.count],
        }
    }

    /// How many bytes they have together.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.spans().iter().map(|span| span.len()).sum()
    }
}

impl Run {
    /// These spans, and no others; as many as there is room for.
    pub fn set(&mut self, spans: impl Iterator<Item = Span>) {
        self.count = self.spans.iter_mut().zip(spans).map(|(place, span)| *place = span).count();
    }

    /// Copies its first bytes out, which then belong to it no more.
    pub fn consume(&mut self, to: &mut [u8]) -> usize {
        let mut done = 0;
        for span in &mut self.spans[..self.count] {
            let (part, rest) = span.split(to.len() - done);
            done += part.read(&mut to[done..]);
            *span = rest;
        }
        done
    }
}

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

    /// `len` bytes from an offset on; `None` if it does not have them.
    #[inline(always)]
    pub fn part(self, offset: u64, len: u32) -> Option<Self> {
        let (all, len) = (self.len as u64, u64::from(len));
        let has = offset <= all && len <= all - offset;
        has.then(|| self.split(offset as usize).1.split(len as usize).0)
    }

    /// The first `N` bytes, copied out, and the rest; `None` if there are fewer.
    #[inline(always)]
    pub fn first<const N: usize>(self) -> Option<([u8; N], Self)> {
        if self.len < N {
            return None;
        }
        // SAFETY: as many bytes are mapped, and any bytes are an array of them.
        let bytes = unsafe { self.start.cast::<[u8; N]>().read_unaligned() };
        Some((bytes, self.split(N).1))
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

    /// Copies bytes in, and returns what is behind them.
    ///
    /// # Panics
    ///
    /// If there are more than it has room for.
    #[inline(always)]
    #[must_use]
    pub fn append(self, from: &[u8]) -> Self {
        assert!(from.len() <= self.len);
        self.write(from);
        self.split(from.len()).1
    }

    /// Copies another span's bytes in, as [`write_span`](Self::write_span), and returns what is behind them.
    ///
    /// # Panics
    ///
    /// If there are more than it has room for.
    #[inline(always)]
    #[must_use]
    pub fn append_span(self, from: Self) -> Self {
        assert!(from.len <= self.len);
        self.write_span(from);
        self.split(from.len).1
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
        prefetch::to_read(self.start.as_ptr());
    }

    /// Has the processor fetch the first lines, to be written soon.
    #[inline(always)]
    pub fn fetch_to_write(self, lines: usize) {
        (0..lines).for_each(|line| prefetch::to_write(self.start.as_ptr().wrapping_add(64 * line)));
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
pub(super) trait Number {}
impl Number for AtomicU8 {}
impl Number for AtomicU16 {}
impl Number for AtomicU32 {}
impl Number for AtomicU64 {}
impl<T: Number> Number for [T; 2] {}

/// Entries of a ring, a power of two of them, by an index that runs on without end: so each is there, and looking it up
/// checks nothing.
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
        assert!(count.is_power_of_two() && offset + size_of::<T>() * usize::from(count) <= span.len());
        let (_, span) = span.split(offset);
        assert!(span.is_aligned_to(align_of::<T>()));
        Self { start: span.start.cast(), mask: count - 1 }
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

    /// Once for as many entries as a line has, has the processor fetch the next but one, to be written soon.
    #[inline(always)]
    pub fn fetch_beyond_to_write(&self, index: u16) {
        if index.is_multiple_of(Self::A_LINE) {
            prefetch::to_write(self.place(index.wrapping_add(2 * Self::A_LINE)).as_ptr());
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
        // SAFETY: it is mapped and aligned, and other processes, too, change the numbers in it as a whole.
        unsafe { self.place(index).as_ref() }
    }
}

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
            8..16 => {
                let word = |at: usize| from.add(at).cast::<u64>().read_unaligned();
                let put = |at: usize, word: u64| to.add(at).cast::<u64>().write_unaligned(word);
                let (a, b) = (word(0), word(len - 8));
                put(0, a);
                put(len - 8, b);
            }
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

/// Up to as many spans as a chain has buffers, one behind the other.
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

impl Run {
    /// Its spans.
    #[inline]
    pub fn spans(&self) -> &[Span] {
        &self.spans[..self.count]
    }

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

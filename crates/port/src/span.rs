//! A guest's bytes, which may change while we look at them.
//!
//! Nothing here is ever a `&[u8]`: a guest's other processor may be writing. Bytes are copied out,
//! in or across, and what was copied out is looked at; what it says is then as true as it will ever
//! be.

#![expect(unsafe_code, reason = "memory that is shared with a guest is touched by pointer")]

use std::ptr::NonNull;

use zerocopy::transmute;

use crate::stream::{LINE, write_line};

/// Bytes that a guest shares with us, contiguous in our memory.
///
/// Its makers promise that the memory stays mapped for as long as it is used; see [`Span::new`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a span is an address. What lies there belongs to no thread, and is touched by copying
// only.
unsafe impl Send for Span {}

impl Span {
    /// No bytes.
    pub const EMPTY: Self = Self { start: NonNull::dangling(), len: 0 };

    /// `len` bytes from `start`.
    ///
    /// # Safety
    ///
    /// They are mapped for reading and writing as long as the span, or any part of it, is used; and
    /// whoever else uses them may do as it likes, except that in this process nobody has a
    /// reference to them.
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
        // SAFETY: as many bytes are mapped, and nobody has a reference to them, so the two do not
        // overlap.
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

    /// Copies another span's bytes in, as [`write_span`](Self::write_span), and returns what is
    /// behind them.
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

    /// Copies another span's bytes in: as many as both have. Where the two overlap, what becomes of
    /// the bytes is the guests' concern, whose memory that is.
    #[inline(always)]
    pub fn write_span(self, from: Self) -> usize {
        let len = self.len().min(from.len());
        // SAFETY: as many bytes are mapped on both sides. Two ports may share a page, so the two
        // may overlap: bytes are copied in some order then, which `copy` allows.
        unsafe { copy(from.start.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Copies `head` and then another span's bytes in, whole lines past the caches: others see them
    /// only after a [`settle`](crate::stream::settle).
    ///
    /// # Panics
    ///
    /// If they are more than it has room for.
    #[inline(always)]
    pub fn stream(self, head: &[u8; 32], rest: Self) {
        let Some((begin, behind)) = rest.first::<32>().filter(|_| self.is_aligned_to(LINE)) else {
            return self.append(head).stream_rest(rest);
        };
        assert!(LINE <= self.len);
        let [[a, b], [c, d]]: [[u128; 2]; 2] = [transmute!(*head), transmute!(begin)];
        // SAFETY: it begins with a line, and has all of it.
        unsafe { write_line(self.start.as_ptr(), [a, b, c, d]) };
        let to = self.split(LINE).1;
        if !behind.is_empty() {
            to.stream_rest(behind);
        }
    }

    /// Copies a line in, past the caches if it lies as one, and returns what is behind it.
    ///
    /// # Panics
    ///
    /// If it has no room for it.
    #[inline(always)]
    #[must_use]
    pub fn stream_line(self, line: &[u8; LINE]) -> Self {
        if !self.is_aligned_to(LINE) {
            return self.append(line);
        }
        assert!(LINE <= self.len);
        // SAFETY: it begins with a line, and has all of it.
        unsafe { write_line(self.start.as_ptr(), transmute!(*line)) };
        self.split(LINE).1
    }

    /// Copies another span's bytes in, whole lines past the caches.
    ///
    /// # Panics
    ///
    /// If they are more than it has room for.
    #[inline]
    fn stream_rest(self, from: Self) {
        let place = self.start.addr().get();
        let before = (place.next_multiple_of(LINE) - place).min(from.len);
        let (first, mut from) = from.split(before);
        let mut to = self.append_span(first);
        assert!(from.len <= to.len);
        while let Some((line, behind)) = from.first::<LINE>() {
            // SAFETY: any bytes are a line's; it is aligned and has room for all of `from`.
            unsafe { write_line(to.start.as_ptr(), transmute!(line)) };
            (to, from) = (to.split(LINE).1, behind);
        }
        to.write_span(from);
    }

    /// Overwrites bytes from a place on, and with them, past the caches, the lines in which they
    /// lie, if it has them as a whole. Nobody else may write there meanwhile.
    ///
    /// # Panics
    ///
    /// If it does not have the place.
    #[inline]
    pub fn rewrite<const N: usize>(self, at: usize, bytes: &[u8; N]) {
        let first = at - at % LINE;
        let whole = self.split(first).1.first::<LINE>();
        match whole {
            Some((mut line, _)) if at - first + N <= LINE && self.is_aligned_to(LINE) => {
                line[at - first..][..N].copy_from_slice(bytes);
                // SAFETY: it has the line, which begins at a multiple of one.
                unsafe { write_line(self.start.as_ptr().add(first), transmute!(line)) };
            }
            _ => {
                self.split(at).1.write(bytes);
            }
        }
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

    /// Whether it begins at a multiple of `align`.
    #[inline]
    pub fn is_aligned_to(self, align: usize) -> bool {
        self.start.addr().get().is_multiple_of(align)
    }

    /// Where it begins, for the kernel to read or write (`readv`, `writev`).
    #[inline]
    pub fn start(self) -> NonNull<u8> {
        self.start
    }
}

/// Copies `len` bytes that may change meanwhile, and may overlap.
///
/// Small frames are what a switch has least time for: up to 64 bytes go in pieces that may overlap,
/// without a loop or a call. All of a piece is read before any of it is written.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::settle;

    /// Memory that begins with a line.
    #[repr(align(64))]
    struct Lines([u8; 512]);

    fn span(memory: &mut Lines) -> Span {
        // SAFETY: the memory outlives the span in each test, and is looked at only afterwards.
        unsafe { Span::new(NonNull::from(&mut memory.0).cast(), memory.0.len()) }
    }

    fn numbers() -> Lines {
        Lines(std::array::from_fn(|at| at as u8 ^ 0x5a))
    }

    #[test]
    fn what_is_streamed_is_what_is_appended() {
        let (mut from, head) = (numbers(), [7; 32]);
        for place in [0, 1, 12, 32, 52, 63, 64] {
            for len in [0, 1, 31, 32, 33, 95, 96, 97, 160, 300, 415] {
                let [mut streamed, mut appended] = [0xee; 2].map(|byte| Lines([byte; 512]));
                let rest = span(&mut from).split(1).1.split(len).0;
                span(&mut streamed).split(place).1.stream(&head, rest);
                settle();
                let behind = span(&mut appended).split(place).1.append(&head).append_span(rest);
                assert_eq!(behind.len(), 512 - place - 32 - len);
                assert_eq!(streamed.0, appended.0, "{len} bytes from {place} on");
            }
            let [mut streamed, mut appended] = [0xee; 2].map(|byte| Lines([byte; 512]));
            let behind = span(&mut streamed).split(place).1.stream_line(&[7; 64]);
            settle();
            assert_eq!(behind.len(), 512 - place - 64);
            let _ = span(&mut appended).split(place).1.append(&[7; 64]);
            assert_eq!(streamed.0, appended.0, "a line from {place} on");
        }
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn what_is_streamed_has_to_fit() {
        let [mut from, mut to] = [numbers(), numbers()];
        let rest = span(&mut from).split(100).0;
        span(&mut to).split(131).0.stream(&[0; 32], rest);
    }

    #[test]
    fn what_is_rewritten_is_all_that_changes() {
        for (begin, at) in [(0, 0), (0, 46), (0, 58), (64, 127), (1, 46), (0, 490)] {
            let [mut rewritten, mut written] = [numbers(), numbers()];
            span(&mut rewritten).split(begin).1.rewrite(at, &[1; 16]);
            settle();
            span(&mut written).split(begin).1.split(at).1.write(&[1; 16]);
            assert_eq!(rewritten.0, written.0, "16 bytes at {at} of what begins at {begin}");
        }
    }
}

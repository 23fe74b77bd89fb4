//! A guest's bytes, which may change while we look at them.
//!
//! Nothing here is ever a `&[u8]`: a guest's other processor may be writing. Bytes are copied out,
//! in or across, and what was copied out is looked at; what it says is then as true as it will ever
//! be.

#![expect(unsafe_code, reason = "memory that is shared with a guest is touched by pointer")]

use std::ptr::NonNull;

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

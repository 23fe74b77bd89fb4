//! Whole lines of memory written past the caches (non-temporal stores).
//!
//! A line that another core has read lately stays in its cache and in ours, and an ordinary store
//! waits until the other core has given it up: 30 ns a line where the cores share no cache, one
//! line after the other, whether it was fetched before or not. A line that is written as a whole
//! and past the caches is taken from both without being waited for.
//!
//! Such stores may be seen later than stores that come after them. So [`settle`] comes before
//! whatever shows others that the lines were written.

#![expect(unsafe_code, reason = "the instructions are only to be had so")]

/// Bytes of a line.
pub const LINE: usize = 64;

/// A line's bytes, in as large pieces as every x86-64 processor has registers for.
pub type Line = [u128; 4];

/// Writes a line past the caches; where there are no such stores, like anything else.
///
/// # Safety
///
/// `to` is aligned to a [`LINE`] and valid for writing one.
#[inline(always)]
pub unsafe fn write_line(to: *mut u8, line: Line) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for (at, piece) in line.iter().enumerate() {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let piece: *const u128 = piece;
        // SAFETY: any 16 bytes are a register's; the piece lies in the line, which is the caller's
        // to write, at a multiple of 16.
        unsafe { _mm_stream_si128(to.cast::<__m128i>().add(at), _mm_loadu_si128(piece.cast())) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's.
    unsafe {
        to.cast::<Line>().write_unaligned(line);
    }
}

/// Whatever is stored from now on is seen only after the lines that were written past the caches.
#[inline(always)]
pub fn settle() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a fence touches nothing, and every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

//! Has the processor fetch a line of memory ahead of its use.
//!
//! A fetch changes nothing that a program can see but its pace, and faults nowhere: any address
//! will do. Where there is no instruction for it, nothing happens.

#![no_std]
#![allow(
    unsafe_code,
    reason = "the instructions are only to be had so; each block says why it holds"
)]

/// Has the processor fetch the line that `place` lies in, to be read soon.
#[inline(always)]
pub fn to_read<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing and faults nowhere.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has the processor fetch the line that `place` lies in, to be written soon.
///
/// By the instruction itself: the compiler makes a fetch for reading of `_mm_prefetch` where it
/// cannot take for granted that there is one for writing. Then the write waits for the line after
/// all, and all writes behind it. Where there is none, as on processors of before 2014, it is one
/// that does nothing.
#[inline(always)]
pub fn to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch touches nothing and faults nowhere.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use core::ptr;

    #[test]
    fn any_address_will_do() {
        for place in [ptr::null(), ptr::without_provenance(usize::MAX), "in reach".as_ptr()] {
            super::to_read(place);
            super::to_write(place);
        }
    }
}

//! The processor's own clock.

/// The time stamp counter: it counts at one rate whatever the core's frequency, and reading it
/// costs some 20 of its cycles. `None` where the processor has none that we know of.
#[inline]
pub fn now() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        #[expect(unsafe_code, reason = "the counter is an intrinsic")]
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

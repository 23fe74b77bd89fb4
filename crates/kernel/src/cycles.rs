//! The processor's own clock.

use units::{Span, Ticks};

use crate::clock;

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

/// Whether the counter counts at one rate whatever the core's frequency and sleep (invariant TSC:
/// CPUID 8000_0007h, EDX bit 8).
fn is_steady() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        const POWER: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// For how long the counter is held against the clock: both are read within a fraction of a
/// microsecond, so the rate is right to a few parts in ten thousand.
const WATCHED: Span = Span::from_millis(2);

/// What counts a thread's ticks: the time stamp counter where that is steady, or else the monotonic
/// clock, which costs some 50 cycles a look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter {
    is_processors: bool,
    per_second: u64,
}

impl Default for Counter {
    /// Takes two milliseconds to see how fast the processor's counter is.
    fn default() -> Self {
        let clock = Self { is_processors: false, per_second: 1_000_000_000 };
        if !is_steady() {
            return clock;
        }
        let read = || (clock::now(), now());
        let (begun, first) = read();
        let (mut ended, mut last) = read();
        while ended.since(begun) < WATCHED {
            (ended, last) = read();
        }
        let (Some(first), Some(last)) = (first, last) else { return clock };
        let ticks = u128::from(last.wrapping_sub(first)) * 1_000_000_000;
        match u64::try_from(ticks / u128::from(ended.since(begun).as_nanos())) {
            Ok(per_second @ 1..) => Self { is_processors: true, per_second },
            _ => clock,
        }
    }
}

impl Ticks for Counter {
    #[inline]
    fn now(&self) -> u64 {
        if self.is_processors
            && let Some(ticks) = now()
        {
            return ticks;
        }
        clock::now().as_nanos()
    }

    fn per_second(&self) -> u64 {
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_as_long_as_the_clock_says() {
        let counter = Counter::default();
        let (begun, first) = (clock::now(), counter.now());
        while clock::now().since(begun) < Span::from_millis(5) {}
        let (passed, ticks) = (clock::now().since(begun), counter.now() - first);
        let told = ticks as f64 / counter.per_second() as f64;
        // Whoever waits for a processor between the two looks widens it.
        assert!(told > 0.9 * passed.as_secs_f64() && told < 10.0, "{told} s in {passed}");
    }
}

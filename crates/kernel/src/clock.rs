//! The clocks that threads read (clock_gettime(2)), and time as the kernel takes it.

use rustix::time::{ClockId, Timespec, clock_gettime};
use units::{Instant, Span};

/// The monotonic clock: the time since boot, from which every [`Instant`] on this host counts.
pub fn now() -> Instant {
    Instant::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// The wall clock, in nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// The processor time that the calling thread has used.
pub fn thread_time() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

/// A length of time, for the kernel.
pub fn timespec(span: Span) -> Timespec {
    let ns = span.as_nanos();
    // Both parts fit: a u64 of nanoseconds is less than 2^35 seconds.
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Of clocks that count up from 0: both parts are positive.
fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

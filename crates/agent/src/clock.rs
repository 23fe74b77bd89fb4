//! The clocks that threads read, and time as the kernel takes it.

use std::num::NonZeroU32;

use rustix::time::{ClockId, Timespec, clock_gettime};
use tunnel::Incarnation;
use units::{Instant, Span};

/// The time since boot: what every [`Instant`] that the agent tells counts from.
pub fn now() -> Instant {
    Instant::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// How long a processor has worked for the calling thread.
pub(crate) fn thread_time() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

/// A length of time, for the kernel.
pub(crate) fn timespec(span: Span) -> Timespec {
    let ns = span.as_nanos();
    // Both parts fit: a u64 of nanoseconds is less than 2^35 seconds.
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Of clocks that count up from 0: both parts are positive.
fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A life of this host's end of sessions, after all those before: by the wall clock, in units of 2^26 ns, about 67 ms, in less than
/// which no agent ends and begins. Numbers come again after nine years.
pub(crate) fn life() -> Incarnation {
    let time = clock_gettime(ClockId::Realtime);
    let units = nanos(time) >> 26;
    Incarnation(NonZeroU32::new(units as u32).unwrap_or(NonZeroU32::MIN))
}

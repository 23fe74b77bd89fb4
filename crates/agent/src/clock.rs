//! The monotonic clock, as the pump and its thread read it.

use std::num::NonZeroU32;

use rustix::time::{ClockId, clock_gettime};
use tunnel::Life;
use units::Instant;

/// The time since boot.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // The clock starts at boot and counts up: both parts are positive.
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A life of this host's end of sessions, after all those before: by the wall clock, in units of 2^26 ns, about 67 ms, in less than
/// which no agent ends and begins. Numbers come again after nine years.
pub(crate) fn life() -> Life {
    let time = clock_gettime(ClockId::Realtime);
    let units = (i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)) >> 26;
    Life(NonZeroU32::new(units as u32).unwrap_or(NonZeroU32::MIN))
}

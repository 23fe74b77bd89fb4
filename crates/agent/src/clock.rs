//! The monotonic clock, as the pump and its thread read it.

use rustix::time::{ClockId, clock_gettime};
use units::Instant;

/// The time since boot.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // The clock starts at boot and counts up: both parts are positive.
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

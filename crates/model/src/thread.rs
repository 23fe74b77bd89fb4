//! What is told of the switch's thread: what it is promised for, and who has had it.

use serde::{Deserialize, Serialize};
use units::Span;

/// The switch's thread: what networks are promised of it, and what was no network's.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadStatus {
    /// Whether networks take turns by their terms: one with a port here has a `min_packets`.
    pub shared: bool,
    /// What is promised to all networks together, of each second.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "300ms"))]
    pub promised: Span,
    /// What a frame is taken to cost: the dearest kind of port's, as it was seen here, or as it is
    /// taken to be until then.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "3us"))]
    pub frame: Span,
    /// How long guarantees did not hold, because the thread was given less time than they add up
    /// to.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "0s"))]
    pub short: Span,
    /// Orders, reports to other hosts and whatever else is no network's.
    pub control: ThreadUse,
    /// Ports of no network.
    pub others: ThreadUse,
}

/// What somebody has had of the switch's thread. Counters start at 0, a network's when it is first
/// here, and never decrease.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadUse {
    /// The frames a second that it is promised. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_packets: Option<u32>,
    /// Nanoseconds of the thread.
    pub used_ns: u64,
    /// Nanoseconds of each of the last seconds: of one at least.
    pub used_ns_per_second: u64,
    /// Frames that its machines here sent and that were delivered, and frames that came for it from
    /// other hosts.
    pub frames: u64,
    /// Frames in each of the last seconds.
    pub frames_per_second: u64,
    /// Microseconds of the longest visit in the last ten to twenty seconds, rounded up: so long
    /// others waited for it at the most.
    pub longest_visit_us: u64,
}

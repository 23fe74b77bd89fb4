//! Explicit congestion notification (RFC 3168).

use wire::Layout;
use wire::ecn::Ecn;

/// Whether a frame's transport reacts to marks (RFC 3168 §5), of a frame of `len` bytes whose
/// headers are in `head`.
pub(crate) fn is_ecn_capable(head: &[u8], len: usize) -> bool {
    let class = Layout::of_head(head, len).and_then(|layout| layout.traffic_class(head));
    class.is_some_and(|class| Ecn::of(class) != Ecn::NotEct)
}

/// Marks a frame that is a packet: congestion experienced. IPv4's checksum stays right.
pub fn mark(frame: &mut [u8]) {
    if let Some(layout) = Layout::of(frame)
        && let Some(class) = layout.traffic_class(frame)
    {
        // What has a traffic class has a place for one.
        let _ = layout.set_traffic_class(frame, Ecn::Ce.within(class));
    }
}

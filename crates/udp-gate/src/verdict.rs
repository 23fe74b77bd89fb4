//! What the gates answer.

/// The gate's answer for one frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// No UDP: the gate has no say.
    Free,
    /// It belongs to a flow that may go: transmit it before asking again, or not at all.
    Go(FlowKey),
    /// It belongs to a flow that must wait until its receiver reads.
    Hold(FlowKey),
}

/// Frames that share a fate: those for one socket. Those of one sender among them must stay in
/// order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey(pub u64);

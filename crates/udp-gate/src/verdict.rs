//! The answers of the gates.

/// The gate's answer for one frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Not UDP: the gate does not decide.
    Free,
    /// It may go: transmit it before the next question, or not at all.
    Go(FlowKey),
    /// Its flow must wait until the receiver reads. How often the socket that it waits for was read
    /// so far, if that is seen: who reads is there, however full its buffer looks.
    Hold(FlowKey, Option<u32>),
}

/// The frames for one socket. Those of one sender must stay in order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey(pub u64);

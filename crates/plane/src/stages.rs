//! The two stages that a host adds to the path of a frame.
//!
//! ```text
//! device ─▶ Responder ─▶ datapath ─▶ queues ─▶ Gate ─▶ device
//!            a question?                        room at the last receiver?
//! ```

use lossless::{Flow, PortId, Refusal};
use port::FrameView;

/// Answers frames at their ingress, in place of machines that may be on other hosts, and refuses
/// those that contradict what is known of their sender.
pub trait Responder {
    /// Whether a frame from behind `port`, which is a member of a virtual network, may be a
    /// question, or contradict what is known. May say yes of a frame that is and does not; never
    /// says no of one that is or does.
    fn may_answer(&self, port: PortId, frame: &FrameView<'_>) -> bool;

    /// Looks at a frame of which [`may_answer`](Self::may_answer) said yes.
    fn intercept(&mut self, port: PortId, frame: &FrameView<'_>) -> Intercepted;

    /// Transmits pending replies, each by the port that asked. `transmit` returns whether a reply
    /// is done with; if not, it stays pending.
    fn poll_transmit(&mut self, transmit: impl FnMut(PortId, FrameView<'_>) -> bool);
}

/// What becomes of a frame that a responder has looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Intercepted {
    /// It goes on to where it is for.
    Passes,
    /// It was a question: it is forwarded to nobody, and counted in no ledger.
    Taken,
    /// It is refused, for this reason.
    Refused(Refusal),
}

/// Asks, at a frame's egress, whether its last receiver behind the device has room for it.
pub trait Gate {
    /// Whether `frame` may go to the receiver behind `port` now, and with which others it shares
    /// its fate.
    fn ask(&mut self, port: PortId, frame: &FrameView<'_>) -> Clearance;

    /// The device has taken the frame that was asked about last.
    fn passed(&mut self);

    /// Takes a frame that is for the gate itself: what a guest reports of its sockets. `true`: it
    /// was such a report, and is forwarded to nobody and counted in no ledger. Asked only of frames
    /// whose [destination](wire::room::may_be) allows it.
    fn intercept(&mut self, port: PortId, frame: &FrameView<'_>) -> bool;

    /// Transmits the gate's own pending requests to guests, after the frames that went to them
    /// before. `transmit` returns whether a request is done with; if not, it stays pending.
    fn poll_transmit(&mut self, transmit: impl FnMut(PortId, FrameView<'_>) -> bool);

    /// Calls `late` for each port whose guest owes an answer. Its transmit ring may be full of
    /// frames that wait for receivers which themselves wait for that answer.
    fn each_late(&mut self, late: impl FnMut(PortId));
}

/// A gate's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clearance {
    /// The gate has no say in this frame.
    Free,
    /// It belongs to a flow that may go.
    Go(Flow),
    /// It belongs to a flow that must wait, for a socket that was read so often, if that is seen.
    Hold(Flow, Option<u32>),
}

/// No responder: every frame passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoResponder;

impl Responder for NoResponder {
    #[inline]
    fn may_answer(&self, _: PortId, _: &FrameView<'_>) -> bool {
        false
    }

    #[inline]
    fn intercept(&mut self, _: PortId, _: &FrameView<'_>) -> Intercepted {
        Intercepted::Passes
    }

    #[inline]
    fn poll_transmit(&mut self, _: impl FnMut(PortId, FrameView<'_>) -> bool) {}
}

/// No gate: every frame may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGate;

impl Gate for NoGate {
    #[inline]
    fn ask(&mut self, _: PortId, _: &FrameView<'_>) -> Clearance {
        Clearance::Free
    }

    #[inline]
    fn passed(&mut self) {}

    #[inline]
    fn intercept(&mut self, _: PortId, _: &FrameView<'_>) -> bool {
        false
    }

    #[inline]
    fn poll_transmit(&mut self, _: impl FnMut(PortId, FrameView<'_>) -> bool) {}

    #[inline]
    fn each_late(&mut self, _: impl FnMut(PortId)) {}
}

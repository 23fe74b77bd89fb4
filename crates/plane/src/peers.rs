//! What a plane needs of far hosts: frames that arrive from them, and frames that leave for them.
//!
//! All far hosts are behind one port of the switch, the uplink. Each of their ports is a
//! [flow](lossless::Destination::Flow) there, in each class.
//!
//! A frame that leaves stays in its sender's slot until the far receiver has consumed it, so that
//! it can be retransmitted from there. A frame that arrives lies in memory of the peers' until its
//! last receiver here has it.

use std::ops::RangeInclusive;

use datapath::{Network, Origin, Peer};
use lossless::{Flow, Load, PortId, Reason, Refusal};
use port::{FrameView, Slot};
use units::{Class, Instant};

/// A frame that is to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The port that it came by.
    pub port: PortId,
    /// Where it lies there.
    pub slot: Slot,
    /// The network that it belongs to.
    pub network: Network,
    /// Its class.
    pub class: Class,
    /// The frame.
    pub view: FrameView<'a>,
    /// Where it came from, if it is a logical network's.
    pub origin: Option<Origin>,
}

/// What became of a frame that was to leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// It is sent, and nothing more will be known of it.
    Gone,
    /// It is in flight, with others of its flow: see [`Event::Completed`].
    Underway,
    /// Its flow has to wait for an [`Event::Unblocked`]; other flows may go.
    Blocked,
    /// It will never be sent.
    Refused(Refusal),
}

/// What is known of a frame that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// The network that it belongs to; `None` if that is gone.
    pub network: Option<Network>,
    /// Its class, if the far switch says it.
    pub class: Option<Class>,
    /// The label of the port that it is for, and where it came from, if it is a logical network's.
    pub logical: Option<(u32, Origin)>,
}

/// What has happened to frames that leave.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The next frame of this flow is no longer in flight: consumed by its far receiver, or given
    /// up for this reason. In the order in which the flow's frames were sent.
    Completed(Flow, Option<Refusal>),
    /// The next frame of this flow is its sender's again: its receiver is at another host by now.
    /// In the same order.
    Returned(Flow),
    /// So much of what came by this port was sent again.
    Resent(PortId, Load),
    /// The flow may go on.
    Unblocked(Flow),
    /// What is held for these flows is refused for this reason. None of it is in flight any more.
    Abandoned(RangeInclusive<Flow>, Refusal),
    /// The far host with this number is known no more, and nothing is held for it. Another may get
    /// the number.
    Forgotten(Peer),
}

/// The memory of the ports that frames leave from.
pub trait Senders {
    /// The network of a port.
    fn network(&self, port: PortId) -> Network;

    /// The frame in a slot of a port.
    fn frame(&self, port: PortId, slot: Slot) -> FrameView<'_>;
}

/// All far hosts.
pub trait Peers {
    /// The next frame that has arrived: the slot that holds it until [`release`](Self::release).
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)>;

    /// Whether a frame has arrived that was not polled.
    fn has_arrivals(&self) -> bool;

    /// A frame that has arrived.
    fn frame(&self, slot: Slot) -> FrameView<'_>;

    /// What [`Arrival::logical`] said of it.
    fn logical(&self, _slot: Slot) -> Option<(u32, Origin)> {
        None
    }

    /// Frees the slot of a frame that its last receiver has, or that was refused for this reason.
    fn release(&mut self, slot: Slot, refused: Option<Reason>);

    /// Sends a frame of this flow, or as much of it as may go now; [`maintain`](Self::maintain)
    /// sends the rest.
    fn send(&mut self, now: Instant, flow: Flow, leaving: &Leaving<'_>) -> Sent;

    /// Visits the far hosts that need it: retransmits what was lost, sends more of large segments
    /// that were sent in part, and sends pending control messages, as far as windows and the kernel
    /// allow. If frames were `delivered` to a local receiver this turn, reports wait one turn,
    /// because a reply may carry them. Returns whether a frame was sent.
    fn maintain(&mut self, now: Instant, delivered: bool, senders: &impl Senders) -> bool;

    /// Whether a far host needs [maintenance](Self::maintain).
    fn needs_maintenance(&self) -> bool;

    /// Until when the link below takes no further frame, as far as its rate is declared. `None` if
    /// it takes one now.
    fn busy_until(&self) -> Option<Instant> {
        None
    }

    /// Whether something waits for room in the kernel, which makes no event when it has some.
    fn is_tx_blocked(&self) -> bool;

    /// The next event. To be polled after each call that may make one.
    fn poll_event(&mut self) -> Option<Event>;

    /// A port is about to be detached: its frames in flight are not retransmitted. All events must
    /// have been polled before.
    fn forget_sender(&mut self, port: PortId);

    /// When [`handle_timeouts`](Self::handle_timeouts) is to be called next, although nothing
    /// arrives.
    fn deadline(&self) -> Option<Instant>;

    /// Does what is due by now: delivers frames that waited in vain for earlier ones, marks frames
    /// as lost, grants credit, gives up hosts that do not answer.
    fn handle_timeouts(&mut self, now: Instant);
}

/// The far hosts of a plane that has none.
#[derive(Clone, Copy, Debug)]
pub enum NoPeers {}

impl Peers for NoPeers {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        match *self {}
    }

    fn has_arrivals(&self) -> bool {
        match *self {}
    }

    fn frame(&self, _: Slot) -> FrameView<'_> {
        match *self {}
    }

    fn release(&mut self, _: Slot, _: Option<Reason>) {
        match *self {}
    }

    fn send(&mut self, _: Instant, _: Flow, _: &Leaving<'_>) -> Sent {
        match *self {}
    }

    fn maintain(&mut self, _: Instant, _: bool, _: &impl Senders) -> bool {
        match *self {}
    }

    fn needs_maintenance(&self) -> bool {
        match *self {}
    }

    fn is_tx_blocked(&self) -> bool {
        match *self {}
    }

    fn poll_event(&mut self) -> Option<Event> {
        match *self {}
    }

    fn forget_sender(&mut self, _: PortId) {
        match *self {}
    }

    fn deadline(&self) -> Option<Instant> {
        match *self {}
    }

    fn handle_timeouts(&mut self, _: Instant) {
        match *self {}
    }
}

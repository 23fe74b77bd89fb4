//! What a plane needs of a far host: frames that arrive from there, and frames that leave for it.
//!
//! A frame that leaves stays in its sender's slot until the far receiver has consumed it, so that
//! it can be retransmitted from there. A frame that arrives lies in the peer's own memory until its
//! last receiver here has it.

use datapath::Network;
use lossless::{Flow, PortId, Refusal};
use port::{FrameView, Slot};
use units::{Class, Instant, Span};

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
}

/// What became of a frame that was to leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// It is sent, and nothing more will be known of it.
    Gone,
    /// It is in flight, with others of its flow: see [`Peer::poll_completed`].
    Underway,
    /// Its flow has to wait; other flows may go.
    Hold,
    /// All flows have to wait.
    Wait,
    /// The kernel has no room, and reports nothing when it has.
    Busy,
    /// It cannot be sent: it is too long for the underlay, or no machine there has its address.
    Unfit,
}

/// What is known of a frame that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// The network that it belongs to.
    pub network: Network,
    /// Its class, if the far switch says it.
    pub class: Option<Class>,
}

/// A far host.
pub trait Peer {
    /// The next frame that has arrived: the slot that holds it until [`release`](Self::release).
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)>;

    /// Whether a frame has arrived that was not polled.
    fn has_arrivals(&self) -> bool;

    /// A frame that has arrived.
    fn frame(&self, slot: Slot) -> FrameView<'_>;

    /// Frees the slot of a frame that its last receiver has, or that was refused.
    fn release(&mut self, slot: Slot);

    /// The flow of a frame: frames of one flow have the same far egress and class. `None` if the
    /// peer keeps no sessions. [`Unfit`] if no machine there has the frame's address.
    ///
    /// # Errors
    ///
    /// [`Unfit`]
    fn flow(&self, leaving: &Leaving<'_>) -> Result<Option<Flow>, Unfit>;

    /// Sends a frame of this flow, or as much of it as may go now; [`resume`](Self::resume) sends
    /// the rest.
    fn send(&mut self, now: Instant, flow: Option<Flow>, leaving: &Leaving<'_>) -> Sent;

    /// Retransmits what was lost, as far as the window allows. `network_of` and `frame_of` give the
    /// network of a port and the frame in a slot of it. Returns whether anything was sent.
    fn retransmit<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool;

    /// Sends more of large segments that were sent in part. Arguments and result are those of
    /// [`retransmit`](Self::retransmit).
    fn resume<'f>(
        &mut self,
        now: Instant,
        network_of: impl Fn(PortId) -> Network,
        frame_of: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool;

    /// The flow of the next frame that is no longer in flight: consumed by its far receiver, or
    /// given up for this reason. In the order in which the flow's frames were sent.
    fn poll_completed(&mut self) -> Option<(Flow, Option<Refusal>)>;

    /// Sends pending control messages, as far as the kernel has room. If frames were `delivered` to
    /// a local receiver this turn, a report waits one turn, because the reply may carry it. Returns
    /// whether one waits.
    fn transmit_control(&mut self, now: Instant, delivered: bool) -> bool;

    /// Whether the kernel has room for a datagram to the peer.
    fn can_transmit(&self) -> bool;

    /// Sets the bit mask of classes of which nothing is sent (802.1Qbb). Replaces the previous
    /// mask.
    fn pause(&mut self, classes: u8);

    /// Whether the class of a flow is paused.
    fn is_paused(&self, flow: Flow) -> bool;

    /// Whether memory for frames that arrive runs low.
    fn is_memory_low(&self) -> bool;

    /// Gives up what is in flight if the peer owes an answer and was silent for `patience`. Returns
    /// whether it [is given up](Self::is_given_up) now.
    fn give_up_after(&mut self, now: Instant, patience: Span) -> bool;

    /// Whether the peer is silent, and what was in flight to it is given up.
    fn is_given_up(&self) -> bool;

    /// A port is about to be detached: its frames in flight are not retransmitted. All
    /// [completed](Self::poll_completed) frames must have been polled before.
    fn forget_sender(&mut self, port: PortId);

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next, although nothing
    /// arrives.
    fn deadline(&self) -> Option<Instant>;

    /// Does what is due by now: delivers frames that waited in vain for earlier ones, marks frames
    /// as lost, grants credit.
    fn handle_timeout(&mut self, now: Instant);
}

/// No machine at a peer has a frame's address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unfit;

/// The peer of a plane that has none.
#[derive(Clone, Copy, Debug)]
pub enum NoPeer {}

impl Peer for NoPeer {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        match *self {}
    }

    fn has_arrivals(&self) -> bool {
        match *self {}
    }

    fn frame(&self, _: Slot) -> FrameView<'_> {
        match *self {}
    }

    fn release(&mut self, _: Slot) {
        match *self {}
    }

    fn flow(&self, _: &Leaving<'_>) -> Result<Option<Flow>, Unfit> {
        match *self {}
    }

    fn send(&mut self, _: Instant, _: Option<Flow>, _: &Leaving<'_>) -> Sent {
        match *self {}
    }

    fn retransmit<'f>(
        &mut self,
        _: Instant,
        _: impl Fn(PortId) -> Network,
        _: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        match *self {}
    }

    fn resume<'f>(
        &mut self,
        _: Instant,
        _: impl Fn(PortId) -> Network,
        _: impl Fn(PortId, Slot) -> FrameView<'f>,
    ) -> bool {
        match *self {}
    }

    fn poll_completed(&mut self) -> Option<(Flow, Option<Refusal>)> {
        match *self {}
    }

    fn transmit_control(&mut self, _: Instant, _: bool) -> bool {
        match *self {}
    }

    fn can_transmit(&self) -> bool {
        match *self {}
    }

    fn pause(&mut self, _: u8) {
        match *self {}
    }

    fn is_paused(&self, _: Flow) -> bool {
        match *self {}
    }

    fn is_memory_low(&self) -> bool {
        match *self {}
    }

    fn give_up_after(&mut self, _: Instant, _: Span) -> bool {
        match *self {}
    }

    fn is_given_up(&self) -> bool {
        match *self {}
    }

    fn forget_sender(&mut self, _: PortId) {
        match *self {}
    }

    fn deadline(&self) -> Option<Instant> {
        match *self {}
    }

    fn handle_timeout(&mut self, _: Instant) {
        match *self {}
    }
}

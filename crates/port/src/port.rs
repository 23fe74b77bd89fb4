//! What a switch asks of its ports.

use std::fmt;
use std::io;

use crate::view::FrameView;

/// How many frames of a port are lifted, or handed to it, before another's turn: few enough that
/// they stay in cache and others do not wait long, and enough that what each turn costs is little a
/// frame.
pub const BURST: usize = 128;

/// A place for one frame in a port's memory. It means nothing to any other port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Slot(pub u32);

/// Whether a receiver took a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a frame that was not taken is still held by its sender"]
pub enum Taken {
    /// It has its own copy now.
    Yes,
    /// It has no room at the moment, or not for all of the frame: offer it again later.
    Busy,
    /// It will never take this frame: one this long or of this kind.
    Unfit,
    /// It drops this frame, although it has room: what is behind it drops it.
    Dropped,
}

/// What a device was left with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Left {
    /// It was seen empty, and its next event is worth waiting for.
    Nothing,
    /// It was seen empty, and has been [armed](Port::arm_ingress).
    Armed,
    /// It was seen empty, but makes no events: look again, or [arm](Port::arm_ingress) it.
    Silence,
    /// It may hold more.
    More,
    /// Nothing was looked for: every slot is taken.
    Full,
}

/// How far frames are alike.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Like {
    /// They are for the same UDP socket.
    Socket,
    /// They are for the same Ethernet address.
    Receiver,
}

/// Where frames enter and leave: from the switch's ingress (`receive`) to its egress (`transmit`).
pub trait Port {
    /// Lifts at most `most` frames from the device into this port's slots, telling `arrived` of
    /// each, in order. What contradicts its own offload header is told of as a frame without bytes:
    /// in those lies no Ethernet header, so whoever looks for one refuses it as malformed.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken. Frames told of before remain in their slots.
    fn receive(
        &mut self,
        most: usize,
        arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError>;

    /// The frame in one of this port's slots, there until it is released. It is empty if its sender
    /// has taken away the memory that it lay in.
    ///
    /// # Panics
    ///
    /// If the slot is none of this port's.
    fn frame(&self, slot: Slot) -> FrameView<'_>;

    /// Writes over some of a frame's first bytes, which a network changes, from an offset on.
    /// Whether that can be done: if not, the frame is as it was. What is behind a frame's headers
    /// need not be in reach.
    ///
    /// # Panics
    ///
    /// If the slot is none of this port's.
    fn rewrite(&mut self, _slot: Slot, _at: usize, _bytes: &[u8]) -> bool {
        false
    }

    /// From now on the views of frames show all headers that a network decides by, not only the
    /// Ethernet header, where a frame does not lie in memory that its sender cannot write to. A
    /// port whose views show whole frames has nothing to do.
    fn show_headers(&mut self) {}

    /// The last receiver has it: the slot is free again.
    fn release(&mut self, slot: Slot);

    /// Copies at most `most` frames that are in slots to where they no longer take up what the
    /// sender has for its frames, so that it can send others. A port whose slots are no sender's
    /// memory has nothing to do.
    fn keep(&mut self, _most: usize) {}

    /// How much of a burst a frame takes that is handed to this device: as much as one frame, and
    /// one more for each so many bytes, of which this is the binary logarithm. So a visit ends when
    /// it has moved as many bytes as others may wait for.
    #[inline]
    fn burst_shift(&self) -> u32 {
        u32::BITS - 1
    }

    /// After how many frames a visit that may take only so long looks at its time again: fewer
    /// where one of them costs much.
    #[inline]
    fn frames_a_look(&self) -> u32 {
        16
    }

    /// Whether so much of this port's memory is used up that its sender may soon be held back.
    fn is_crowded(&self) -> bool {
        false
    }

    /// While something is [diverted](Self::divert): for how many frames more than usual this port's
    /// memory may be used now, because those that were sent before may still come. Then the port is
    /// to be [flushed](Self::flush) now and then, even if nothing comes by it.
    fn lent(&self) -> Option<u32> {
        None
    }

    /// Whether it is worth asking this port to [divert](Self::divert) something now.
    fn may_divert(&self) -> bool {
        false
    }

    /// What is like the frame in a slot goes to a receiver that takes it more slowly than it is
    /// sent: from a [flush](Self::flush) on its sender is held back apart from all else, if the
    /// device can do that. Whether it can, and did not do so already.
    fn divert(&mut self, _slot: Slot, _like: Like) -> bool {
        false
    }

    /// Hands one frame, from anybody's memory, to this port's receiver: one copy.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken. The receiver did not get the frame.
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError>;

    /// Whether nobody is there to take frames, as far as is known: the interface is down, the guest
    /// is off. What is for it alone waits; of what is for many it gets no copy.
    fn is_absent(&self) -> bool {
        false
    }

    /// Has the receiver see what it took. Before any sender has the memory of those frames back by
    /// a [`flush`](Self::flush): a switch that is killed between the two would lose them. A port
    /// whose receiver sees a frame at once has nothing to do.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn deliver(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Ends a burst of `receive`, `release` and `transmit`: delivers, publishes indices, grants
    /// credit, rings doorbells. Whether all of that is done; if not, nothing tells when it can be,
    /// and it is worth another try soon.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn flush(&mut self) -> Result<bool, PortError>;

    /// Before its owner sleeps, after [`Left::Silence`]: has the device make an event of the next
    /// frame. Whether there is one already, of which it may make none.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Before its owner sleeps, after [`Taken::Busy`]: has the device make an event of room for a
    /// frame. Whether there is some already, of which it may make none; `None` if it makes no such
    /// events: then offer it the frame again soon.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn arm_egress(&mut self) -> Result<Option<bool>, PortError> {
        Ok(None)
    }
}

/// Why a port's device cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{device}: cannot {operation}: {source}; detach the port and attach it again")]
pub struct PortError {
    /// The device, as its user knows it.
    pub device: String,
    /// What was tried, as a verb phrase.
    pub operation: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

//! Where frames enter and leave a switch.
//!
//! A port owns its memory. A frame that its device hands over lies in one of the port's slots and stays there
//! until its last receiver has taken it: the sender's own memory is the queue. The switch between the ports
//! moves slot numbers only, and a frame is copied once, from the sender's slot to the receiver's device.
//!
//! ```text
//!    sender ─▶ device ─receive─▶ slot ─frame─▶ transmit ─▶ device ─▶ receiver
//!                                 ▲                │
//!                                 └────release─────┘
//! ```
//!
//! A port that is not asked to [`receive`](Port::receive) lifts nothing, so its sender fills up and waits. That
//! is all the flow control there is, and it is why nothing is lost.

mod cut;
pub mod cycles;
pub mod ethtool;
pub mod hop;
pub mod inherited;
pub mod joined;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod packet;
mod sockopt;
pub mod spawn;
pub mod tap;
pub mod tcp;
pub mod thread;
pub mod udp;
pub mod underlay;
pub mod vhost;
pub mod virtio;

use std::fmt;
use std::io;

use virtio::span::Span;
use wire::Offload;

/// How many frames of a port are lifted, or handed to it, before another's turn: few enough that they stay in cache and others do
/// not wait long, and enough that what each turn costs is little a frame.
pub const BURST: usize = 128;

/// A place for one frame in a port's memory. It means nothing to any other port.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Slot(pub u32);

/// A frame as it lies in its sender's memory: from the first octet of the destination address to the last of the payload,
/// without the check sequence.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// What can be looked at: the whole frame, or at least its Ethernet header, and all its headers if there is a note.
    pub bytes: &'a [u8],
    /// What is behind that, one behind the other: a guest's own, which can only be copied.
    pub rest: &'a [Span],
    /// What its receiver still has to do to it, where its sender said so: see [`offload`](Self::offload).
    pub note: Option<&'a Offload>,
}

impl<'a> FrameView<'a> {
    /// A frame that needs nothing done to it.
    #[inline]
    pub const fn plain(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: &[], note: None }
    }

    /// A frame of which its sender has said something.
    #[inline]
    pub const fn noted(bytes: &'a [u8], note: &'a Offload) -> Self {
        Self { bytes, rest: &[], note: Some(note) }
    }

    /// Its length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a frame has a header")]
    pub fn len(&self) -> usize {
        let rest = match self.rest {
            [] => 0,
            [one] => one.len(),
            many => many.iter().map(|span| span.len()).sum(),
        };
        self.bytes.len() + rest
    }

    /// Copies its first bytes out: as many as it has and `to` has room for.
    #[inline(never)]
    pub fn read(&self, to: &mut [u8]) -> usize {
        let mut done = self.bytes.len().min(to.len());
        to[..done].copy_from_slice(&self.bytes[..done]);
        for span in self.rest {
            done += span.read(&mut to[done..]);
        }
        done
    }

    /// Its first bytes, at most as many as `scratch` has: copied there if they cannot be looked at where they are.
    pub fn first<'b>(&self, scratch: &'b mut [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.rest.is_empty() {
            return self.bytes;
        }
        let len = self.read(scratch);
        &scratch[..len]
    }

    /// What its receiver still has to do to it.
    pub fn offload(&self) -> Offload {
        self.note.copied().unwrap_or_default()
    }

    /// How many bytes, and how many frames, it stands for on a wire.
    #[inline]
    pub fn on_wire(&self) -> (usize, usize) {
        let len = self.len();
        match self.note {
            None => (len, 1),
            Some(offload) => (wire::wire_bytes(len, *offload), wire::wire_frames(len, *offload)),
        }
    }
}

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

/// Where frames enter and leave: from the switch's ingress (`receive`) to its egress (`transmit`).
pub trait Port {
    /// Lifts at most `most` frames from the device into this port's slots, telling `arrived` of each, in order. What
    /// contradicts its own offload header is told of as a frame without bytes: in those lies no Ethernet header, so
    /// whoever looks for one refuses it as malformed.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken. Frames told of before remain in their slots.
    fn receive(&mut self, most: usize, arrived: impl FnMut(Slot, &FrameView<'_>)) -> Result<Left, PortError>;

    /// The frame in one of this port's slots, there until it is released. It is empty if its sender has taken away the memory
    /// that it lay in.
    ///
    /// # Panics
    ///
    /// If the slot is none of this port's.
    fn frame(&self, slot: Slot) -> FrameView<'_>;

    /// The last receiver has it: the slot is free again.
    fn release(&mut self, slot: Slot);

    /// Copies at most `most` frames that are in slots to where they no longer take up what the sender has for its frames, so
    /// that it can send others. A port whose slots are no sender's memory has nothing to do.
    fn keep(&mut self, _most: usize) {}

    /// Hands one frame, from anybody's memory, to this port's receiver: one copy.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken. The receiver did not get the frame.
    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError>;

    /// Has the receiver see what it took. Before any sender has the memory of those frames back by a [`flush`](Self::flush): a
    /// switch that is killed between the two would lose them. A port whose receiver sees a frame at once has nothing to do.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn deliver(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Ends a burst of `receive`, `release` and `transmit`: delivers, publishes indices, grants credit, rings doorbells. Whether
    /// all of that is done; if not, nothing tells when it can be, and it is worth another try soon.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn flush(&mut self) -> Result<bool, PortError>;

    /// Before its owner sleeps, after [`Left::Silence`]: has the device make an event of the next frame. Whether there is
    /// one already, of which it may make none.
    ///
    /// # Errors
    ///
    /// [`PortError`]: the device is gone or broken.
    fn arm_ingress(&mut self) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Before its owner sleeps, after [`Taken::Busy`]: has the device make an event of room for a frame. Whether there is some
    /// already, of which it may make none; `None` if it makes no such events: then offer it the frame again soon.
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

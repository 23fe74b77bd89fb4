//! What a plane keeps of each port.

use datapath::Network;
use lossless::{PortId, PortSet};
use port::{FrameView, Port, PortError, Slot};

use crate::peer::Peer;

/// A port of the switch, and what is behind it.
pub struct Line<P, F> {
    pub id: PortId,
    pub end: End<P, F>,
    /// The network of the frames that come by it.
    pub network: Network,
    /// Nothing is received from it any more.
    pub muted: bool,
    /// Why its device no longer works.
    pub failed: Option<PortError>,
}

/// What is behind a port of the switch.
pub enum End<P, F> {
    /// A device of this host.
    Device(P),
    /// A far host.
    Peer(F),
}

impl<P: Port, F: Peer> End<P, F> {
    #[inline(always)]
    pub fn frame(&self, slot: Slot) -> FrameView<'_> {
        match self {
            Self::Device(device) => device.frame(slot),
            Self::Peer(peer) => peer.frame(slot),
        }
    }

    #[inline(always)]
    pub fn release(&mut self, slot: Slot) {
        match self {
            Self::Device(device) => device.release(slot),
            Self::Peer(peer) => peer.release(slot),
        }
    }
}

impl<P, F> Line<P, F> {
    /// Its device.
    ///
    /// # Panics
    ///
    /// If a far host is behind the port.
    #[inline(always)]
    pub fn device(&mut self) -> &mut P {
        match &mut self.end {
            End::Device(device) => device,
            End::Peer(_) => panic!("behind port {} is a far host", self.id.index()),
        }
    }

    /// The far host behind it.
    ///
    /// # Panics
    ///
    /// If a device is behind the port.
    #[inline(always)]
    pub fn peer(&mut self) -> &mut F {
        match &mut self.end {
            End::Device(_) => panic!("behind port {} is a device", self.id.index()),
            End::Peer(peer) => peer,
        }
    }
}

/// The lines of a plane, by port number.
pub type Lines<P, F> = Vec<Option<Box<Line<P, F>>>>;

/// Gives a frame's memory back to its sender, which has to be flushed.
pub fn release<P: Port, F: Peer>(
    lines: &mut [Option<Box<Line<P, F>>>],
    needs_flush: &mut PortSet,
    port: PortId,
    frame: Slot,
) {
    let line = lines[port.index()].as_mut().expect("frames of detached ports were released before");
    line.end.release(frame);
    needs_flush.insert(port);
}

//! What a plane keeps of each port.

use std::collections::BTreeMap;

use datapath::{Network, Origin};
use lossless::{Flow, Owner, PortId, PortSet, Reason, Released};
use port::{FrameView, Like, Port, PortError, Slot};
use units::Gcra;
use wire::Offload;

use crate::peers::{Peers, Senders};

/// A port of the switch, and what is behind it.
pub struct Line<P, F> {
    pub id: PortId,
    pub end: End<P, F>,
    /// The network of the frames that come by it, if it is a device's.
    pub network: Network,
    /// Nothing is received from it any more.
    pub muted: bool,
    /// The token bucket of what is received from it, if its sender has a rate.
    pub pace: Option<Gcra>,
    /// Why its device no longer works.
    pub failed: Option<PortError>,
    /// How far the flows that are set aside for its receiver were asked about.
    pub round: Round,
    /// What is other of frames that are underway to far hosts than their sender wrote it, by slot.
    /// What is in no slot any more may still be here, until the slot's next frame departs.
    pub departed: BTreeMap<u32, Departed>,
}

/// What is other of a frame that is underway to a far host than its sender wrote it.
pub enum Departed {
    /// In its slot, the bytes from an offset on. These they were.
    Changed(usize, Vec<u8>),
    /// It is of another length: this, of which this is left to do.
    Made(Vec<u8>, Option<Offload>),
}

/// A round of questions about flows that are set aside for one receiver.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Its number, the same for all receivers.
    pub number: u64,
    /// How many flows are left.
    pub left: usize,
    /// The next one, or whichever follows.
    pub next: Flow,
}

impl Default for Round {
    fn default() -> Self {
        Self { number: 0, left: 0, next: Flow(0) }
    }
}

/// Whose frames those of a network are, where networks share a link.
pub fn owner_of(network: Network) -> Owner {
    Owner(network.number())
}

/// What is behind a port of the switch.
pub enum End<P, F> {
    /// A device of this host.
    Device(P),
    /// All far hosts.
    Uplink(F),
}

impl<P: Port, F: Peers> End<P, F> {
    #[inline(always)]
    pub fn frame(&self, slot: Slot) -> FrameView<'_> {
        match self {
            Self::Device(device) => device.frame(slot),
            Self::Uplink(peers) => peers.frame(slot),
        }
    }

    /// The port that a frame of a logical network is for, if it has come from a far host, and where
    /// it came from.
    pub fn logical(&self, slot: Slot) -> Option<(u32, Origin)> {
        match self {
            Self::Device(_) => None,
            Self::Uplink(peers) => peers.logical(slot),
        }
    }

    /// Has what is like a frame wait apart from all else of its sender: see [`Port::divert`].
    pub fn divert(&mut self, slot: Slot, like: Like) -> bool {
        match self {
            Self::Device(device) => device.divert(slot, like),
            Self::Uplink(_) => false,
        }
    }

    /// Frees the slot of a frame that its last receiver has, or that was refused for this reason.
    #[inline(always)]
    pub fn release(&mut self, slot: Slot, refused: Option<Reason>) {
        match self {
            Self::Device(device) => device.release(slot),
            Self::Uplink(peers) => peers.release(slot, refused),
        }
    }
}

impl<P: Port, F> Line<P, F> {
    /// Whether no device is there that works, or nobody behind it to take frames.
    #[inline]
    pub fn is_absent(&self) -> bool {
        let absent = match &self.end {
            End::Device(device) => device.is_absent(),
            End::Uplink(_) => false,
        };
        absent || self.failed.is_some()
    }
}

impl<P: Port, F: Peers> Line<P, F> {
    /// A frame of its slots as it departs.
    pub fn departing(&self, slot: Slot) -> FrameView<'_> {
        match self.departed.get(&slot.0) {
            Some(Departed::Made(bytes, note)) => {
                FrameView { bytes, rest: &[], note: note.as_ref() }
            }
            Some(Departed::Changed(..)) | None => self.end.frame(slot),
        }
    }
}

impl<P, F> Line<P, F> {
    /// Its device.
    ///
    /// # Panics
    ///
    /// If it is the uplink.
    #[inline(always)]
    pub fn device(&mut self) -> &mut P {
        match &mut self.end {
            End::Device(device) => device,
            End::Uplink(_) => panic!("port {} is the uplink", self.id.index()),
        }
    }

    /// The far hosts behind it.
    ///
    /// # Panics
    ///
    /// If it is a device's.
    #[inline(always)]
    pub fn peers(&mut self) -> &mut F {
        match &mut self.end {
            End::Device(_) => panic!("behind port {} is a device", self.id.index()),
            End::Uplink(peers) => peers,
        }
    }
}

/// The lines of a plane, by port number.
pub type Lines<P, F> = Vec<Option<Box<Line<P, F>>>>;

/// The lines, but for the uplink's, which has left its place.
pub struct Others<'a, P, F>(pub &'a Lines<P, F>);

impl<P: Port, F: Peers> Senders for Others<'_, P, F> {
    fn network(&self, port: PortId) -> Network {
        self.line(port).network
    }

    fn frame(&self, port: PortId, slot: Slot) -> FrameView<'_> {
        self.line(port).departing(slot)
    }
}

impl<P, F> Others<'_, P, F> {
    fn line(&self, port: PortId) -> &Line<P, F> {
        let line = self.0[port.index()].as_deref();
        line.expect("frames in flight from a detached port are forgotten")
    }
}

/// Gives a frame's memory back to its sender, which has to be flushed.
pub fn release<P: Port, F: Peers>(
    lines: &mut [Option<Box<Line<P, F>>>],
    needs_flush: &mut PortSet,
    Released { port, frame, refused }: Released<Slot>,
) {
    let line = lines[port.index()].as_mut().expect("frames of detached ports were released before");
    line.end.release(frame, refused);
    needs_flush.insert(port);
}

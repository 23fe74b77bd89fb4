//! Ports of logical networks: what their networks decide, in place of the datapath.
//!
//! ```text
//! receive ─▶ Networks::send ─▶ queues ─▶ Networks::leave ─▶ Gate ─▶ transmit ─▶ Networks::left
//! ```

use binding::{Leaves, MachineFrame, Networks, Place, Verdict};
use lossless::{Arrivals, Offered, PortId, Refusal, Size};
use port::{FrameView, Port, Slot};
use units::{Class, Instant, Ticks};
use wire::Offload;

use crate::line::{Departed, End, Line};
use crate::peers::Peers;
use crate::plane::{HAS_ROOM, Plane};
use crate::stages::{Gate, Responder};

/// Ports of names, DHCP and DHCPv6.
const SERVED: [u16; 3] = [53, 67, 547];

/// Room for a frame that does not lie in one piece.
const LARGE: usize = 66 << 10;

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Has the host's logical networks decide for the ports that are [bound](Self::bind).
    pub fn set_logical(&mut self, mut networks: Networks) {
        self.uplink.into_iter().for_each(|uplink| networks.set_uplink(uplink));
        self.logical = Some(Box::new(networks));
    }

    /// The host's logical networks, if it has any.
    pub fn logical(&self) -> Option<&Networks> {
        self.logical.as_deref()
    }

    /// The host's logical networks, to be changed.
    pub fn logical_mut(&mut self) -> Option<&mut Networks> {
        self.logical.as_deref_mut()
    }

    /// What another host needs to go on with a logical port that is attached here, as
    /// [`Networks::hand_over`] has it. Frames of its machine that wait here are judged when they
    /// leave, and move TCP's windows then: while there are any, these are not told.
    pub fn hand_over(&self, port: &logical::objects::Identity, now: Instant) -> Option<Vec<Place>> {
        let networks = self.logical.as_deref()?;
        let handed = networks.hand_over(port, now)?;
        let is_its = |id: &PortId| networks.name(*id).is_some_and(|(name, _)| name == port);
        let waits = |id| Class::all().any(|class| self.switch.ingress_account(id, class).held > 0);
        Some(match self.logical_ports.iter().find(is_its).is_some_and(waits) {
            true => handed.into_iter().map(|(name, it)| (name, it.loosened())).collect(),
            false => handed,
        })
    }

    /// A port is one of a logical network from now on: that decides about its frames, and the
    /// datapath no more.
    ///
    /// # Panics
    ///
    /// If the host has no [logical networks](Self::set_logical).
    pub fn bind(&mut self, id: PortId, name: logical::objects::Identity) {
        let logical = self.logical.as_deref_mut().expect("the host has logical networks");
        logical.bind(id, name);
        self.logical_ports.insert(id);
        if let Some(line) = self.lines[id.index()].as_mut() {
            line.device().show_headers();
        }
    }

    /// What far hosts hand to routers here leaves by this port and comes back by it, and goes on
    /// then like frames of any port: it hands back what it is given, in order.
    ///
    /// # Panics
    ///
    /// If the host has no [logical networks](Self::set_logical).
    pub fn bind_turn(&mut self, id: PortId) {
        let logical = self.logical.as_deref_mut().expect("the host has logical networks");
        logical.set_turn(id);
        self.logical_ports.insert(id);
        self.turned = Some(id);
    }

    /// Whether there is a [port](Self::bind_turn) by which frames for routers come back.
    pub fn turns(&self) -> bool {
        self.turned.is_some()
    }

    /// A port is no longer one of a logical network.
    pub(crate) fn unbind(&mut self, id: PortId) {
        if let Some(logical) = self.logical.as_deref_mut().filter(|it| it.has(id)) {
            logical.unbind(id);
        }
        self.logical_ports.remove(id);
    }
}

/// Places a frame that a port has sent into the queue that it is to wait in. If it is in none, it
/// is to be released: refused for a reason, or `None` if its network itself has answered it.
#[inline(always)]
pub fn place(
    now: Instant,
    id: PortId,
    logical: &mut Networks,
    visit: &mut Arrivals<'_, Slot>,
    class: Class,
    (slot, size, view): (Slot, Size, &FrameView<'_>),
    gathered: &mut Vec<u8>,
) -> Option<Option<Refusal>> {
    let frame = machine_frame(id, slot, view);
    let class = logical.class(id, frame.bytes).unwrap_or(class);
    let Some(to) = logical.known_destination(now, class, &frame) else {
        return place_anew(now, logical, visit, class, (slot, size, view), (&frame, gathered));
    };
    match visit.offer(to, class, slot, size) {
        Offered::Held => None,
        // The switch lists it for the captures.
        Offered::Refused(..) => Some(None),
        Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
    }
}

/// The same of a frame whose destination is not known.
#[cold]
#[inline(never)]
fn place_anew(
    now: Instant,
    logical: &mut Networks,
    visit: &mut Arrivals<'_, Slot>,
    class: Class,
    (slot, size, view): (Slot, Size, &FrameView<'_>),
    (frame, gathered): (&MachineFrame<'_>, &mut Vec<u8>),
) -> Option<Option<Refusal>> {
    let whole = gather(view, gathered);
    let question = completed(view, whole);
    let partial = frame.partial.filter(|_| question.is_none());
    let frame = MachineFrame { bytes: question.as_deref().unwrap_or(whole), partial, ..*frame };
    match logical.send_anew(now, class, &frame) {
        Verdict::Forward(to) => match visit.offer(to, class, slot, size) {
            Offered::Held => None,
            // The switch lists it for the captures.
            Offered::Refused(..) => Some(None),
            Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
        },
        Verdict::Taken => Some(None),
        Verdict::Refuse(refusal) => {
            visit.refuse(class, size.bytes, refusal);
            Some(Some(refusal))
        }
    }
}

impl Departed {
    /// What is other of a frame if it departs as these bytes.
    pub fn new(view: &FrameView<'_>, bytes: &[u8]) -> Self {
        // What a guest can write to departs as it was decided about.
        if view.len() != bytes.len() || !view.rest.is_empty() {
            let mut note = view.note.copied();
            note.iter_mut().for_each(|note| moved(note, view.len(), bytes.len()));
            return Self::Made(bytes.to_vec(), note);
        }
        Self::changed(view.bytes, bytes)
    }

    /// What is other of a frame if its first bytes depart as these, which are as many.
    pub fn changed(sent: &[u8], bytes: &[u8]) -> Self {
        let differs = |at: &usize| sent[*at] != bytes[*at];
        let at = (0..bytes.len()).find(differs).unwrap_or(0);
        let end = (at..bytes.len()).rev().find(differs).map_or(at, |last| last + 1);
        Self::Changed(at, sent[at..end].to_vec())
    }
}

impl<P: Port, F: Peers> Line<P, F> {
    /// Makes a frame in a slot what it is as it departs. Whether its port can.
    pub fn depart(&mut self, slot: Slot, departed: Departed, bytes: &[u8]) -> bool {
        self.departed.remove(&slot.0);
        if let Departed::Changed(at, before) = &departed {
            let now = &bytes[*at..at + before.len()];
            if now.is_empty() {
                return true;
            }
            if !self.device().rewrite(slot, *at, now) {
                return false;
            }
        }
        self.departed.insert(slot.0, departed);
        true
    }

    /// Makes a frame in a slot what its sender wrote.
    pub fn restore(&mut self, slot: Slot) {
        if let Some(Departed::Changed(at, before)) = self.departed.remove(&slot.0) {
            self.device().rewrite(slot, at, &before);
        }
    }
}

/// A frame of a port's machine, as it is shown.
#[inline(always)]
pub fn machine_frame<'a>(from: PortId, slot: Slot, view: &FrameView<'a>) -> MachineFrame<'a> {
    let (excess, partial) = match view.note {
        None => (0, None),
        Some(note) => (excess(view), note.checksum),
    };
    let (slot, bytes, len) = (Some(slot.0), view.bytes, view.len());
    MachineFrame { from, slot, bytes, len, excess, partial }
}

/// A frame in one piece.
#[inline]
pub fn gather<'a>(frame: &FrameView<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if frame.rest.is_empty() {
        return frame.bytes;
    }
    scratch.resize(frame.len().min(LARGE), 0);
    frame.first(scratch)
}

/// A datagram that its network itself may answer, with its checksum, if that is left to its
/// receiver: it is read here, and checksums are verified.
fn completed(view: &FrameView<'_>, frame: &[u8]) -> Option<Vec<u8>> {
    let partial = view.note.filter(|note| note.segment.is_none())?.checksum?;
    let port = frame.get(usize::from(partial.start) + 2..)?.first_chunk()?;
    SERVED.contains(&u16::from_be_bytes(*port)).then(|| {
        let mut frame = frame.to_vec();
        partial.complete(&mut frame);
        frame
    })
}

/// How much longer a frame is than the longest packet that it is cut into by its receiver.
pub fn excess(frame: &FrameView<'_>) -> usize {
    frame.note.and_then(|note| note.segment).map_or(0, |segment| {
        let longest = usize::from(segment.header_len) + usize::from(segment.size);
        frame.len().saturating_sub(longest)
    })
}

/// A frame's turn at a port.
pub struct Turn {
    pub now: Instant,
    /// Whose memory it lies in, and where.
    pub ingress: PortId,
    pub slot: Slot,
    pub egress: PortId,
    pub class: Class,
}

impl Turn {
    /// The frame as it leaves, or why its receiver does not get it.
    #[inline(never)]
    pub fn leave<'a, P: Port, F: Peers>(
        &self,
        logical: &'a mut Networks,
        source: &End<P, F>,
        frame: &FrameView<'a>,
        gathered: &'a mut Vec<u8>,
        offload: &'a mut Offload,
    ) -> Result<FrameView<'a>, Refusal> {
        let (now, to) = (self.now, self.egress);
        let leaves = match source.logical(self.slot) {
            None => {
                let sent = machine_frame(self.ingress, self.slot, frame);
                logical.leave(now, to, &sent, || gather(frame, gathered))
            }
            Some(came) => {
                let partial = frame.note.and_then(|note| note.checksum);
                let bytes = gather(frame, gathered);
                logical.leave_from_far(now, came, to, self.class, bytes, partial)
            }
        };
        match leaves {
            Leaves::AsItIs => Ok(*frame),
            Leaves::Begins(bytes) => Ok(FrameView { bytes, ..*frame }),
            Leaves::As(bytes) if frame.note.is_none() => Ok(FrameView::plain(bytes)),
            Leaves::As(bytes) => {
                *offload = frame.offload();
                moved(offload, frame.len(), bytes.len());
                Ok(FrameView::noted(bytes, offload))
            }
            Leaves::Refused(refusal) => Err(refusal),
        }
    }
}

/// Has what is left to do with a frame's headers move with them, where the frame grows or shrinks
/// before them.
fn moved(offload: &mut Offload, old: usize, new: usize) {
    offload.shift(|at| at.wrapping_add(new as u16).wrapping_sub(old as u16));
}

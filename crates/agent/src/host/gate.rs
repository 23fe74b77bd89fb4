//! The UDP gates of this host, by port: one for all namespaces, whose sockets we see ourselves, and
//! one for each guest that tells of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::time;

use kernel::netns::Namespace;
use lossless::{Flow, PortId};
use model::{GateStatus, SocketsStatus};
use plane::{Clearance, Gate};
use port::FrameView;
use udp_gate::{GuestGate, Share, UdpGate, UnseenStatus};
use units::{Instant, Span};
use wire::udp::Packet;

/// Holds UDP flows whose socket is full, where the kernel lets us see that or a guest says so; lets
/// everything go where they do not.
#[derive(Debug)]
pub(super) struct HostGate {
    /// The gate, or why there is none.
    gate: Result<UdpGate, String>,
    /// The namespace behind each port, by the port's number; `None` where it is not watched.
    namespaces: Vec<Option<u64>>,
    /// By port number: the gate before each guest that has spoken.
    guests: Vec<Option<Box<Guest>>>,
    /// Which gate the last frame passes.
    asked: Asked,
    /// The sockets of flows that were held: their addresses and ports.
    names: HashMap<(PortId, Flow), SocketAddr>,
    /// How much time was missed.
    missed: time::Duration,
}

/// How many sockets' names are kept. Beyond it all are forgotten: a flow that is still held tells
/// its socket's again with its next frame.
const MOST_NAMES: usize = 8192;

/// The most bytes of a frame's headers up to UDP's: Ethernet with a tag, IPv6 with extensions.
const HEADERS: usize = 256;

/// A guest that tells of its sockets, or has told.
#[derive(Debug)]
struct Guest {
    port: PortId,
    gate: GuestGate,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Nobody,
    Host,
    Guest(usize),
}

impl HostGate {
    /// A gate, if it is wanted and the kernel has what it takes; says once why not.
    pub(super) fn new(wanted: bool) -> Self {
        let gate = match wanted.then(UdpGate::load) {
            Some(Ok(gate)) => Ok(gate),
            Some(Err(error)) => {
                tracing::warn!(%error, "UDP sockets that are full will lose what they are sent");
                Err(error.to_string())
            }
            None => Err("`udp_gate = false` is declared".into()),
        };
        Self {
            gate,
            namespaces: Vec::new(),
            guests: Vec::new(),
            asked: Asked::Nobody,
            names: HashMap::new(),
            missed: time::Duration::ZERO,
        }
    }

    /// The socket of a flow that was held behind a port, if its frames told.
    pub(super) fn socket(&self, port: PortId, flow: Flow) -> Option<SocketAddr> {
        self.names.get(&(port, flow)).copied()
    }

    /// Keeps the name of the socket that a frame is held for.
    #[cold]
    fn note_name(&mut self, port: PortId, flow: Flow, frame: &FrameView<'_>) {
        if self.names.contains_key(&(port, flow)) {
            return;
        }
        let mut head = [0; HEADERS];
        let head = frame.first(&mut head);
        let Some(packet) = Packet::parse_head(head, frame.len(), frame.offload()) else { return };
        // A later fragment does not name its port.
        let Some(datagram) = packet.datagram else { return };
        if self.names.len() == MOST_NAMES {
            self.names.clear();
        }
        let address = packet.destination.to_canonical();
        self.names.insert((port, flow), SocketAddr::new(address, datagram.destination_port));
    }

    /// Whether there is a gate, or why not.
    pub(super) fn status(&self) -> GateStatus {
        match &self.gate {
            Ok(_) => GateStatus::On,
            Err(why) => GateStatus::Off(why.clone()),
        }
    }

    /// The bell that rings when a held flow may go.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().ok().map(AsFd::as_fd)
    }

    /// Watches the sockets behind a port. Returns what its operator ought to know.
    pub(super) fn serve(&mut self, port: PortId, netns: &str) -> Option<String> {
        let gate = self.gate.as_mut().ok()?;
        let served = Namespace::open(netns)
            .map_err(|error| error.to_string())
            .and_then(|namespace| gate.serve(namespace).map_err(|error| error.to_string()));
        if self.namespaces.len() <= port.index() {
            self.namespaces.resize(port.index() + 1, None);
        }
        match served {
            Ok(inode) => {
                self.namespaces[port.index()] = Some(inode);
                None
            }
            Err(error) => Some(format!(
                "its UDP sockets are not watched, and lose what they are sent when full: {error}"
            )),
        }
    }

    /// Forgets a port; its namespace too, unless another port leads there.
    pub(super) fn unserve(&mut self, port: PortId) {
        self.names.retain(|(named, _), _| *named != port);
        if let Some(guest) = self.guests.get_mut(port.index()) {
            *guest = None;
        }
        let inode = self.namespaces.get_mut(port.index()).and_then(Option::take);
        if let (Ok(gate), Some(inode)) = (self.gate.as_mut(), inode)
            && !self.namespaces.contains(&Some(inode))
        {
            gate.unserve(inode);
        }
    }

    /// The UDP sockets behind a port; `None` if they are not watched.
    pub(super) fn sockets(&self, port: PortId) -> Option<SocketsStatus> {
        let (gate, namespace) = (self.gate.as_ref().ok()?, self.namespace(port)?);
        let Share { watched, untracked, lost } = gate.share(namespace)?;
        let UnseenStatus { datagrams: unseen, last } = gate.unseen(namespace);
        Some(SocketsStatus { watched, untracked, lost, unseen, last_unseen: last })
    }

    /// What a port's operator ought to know, in sentences; nothing if all is well.
    pub(super) fn notes(&self, port: PortId) -> Vec<String> {
        let mut notes = self.guest(port).map(GuestGate::notes).unwrap_or_default();
        let Some(sockets) = self.sockets(port) else { return notes };
        let SocketsStatus { untracked, lost, unseen, last_unseen, .. } = sockets;
        if let Some(last) = last_unseen {
            notes.push(format!(
                "{unseen} datagrams were for no UDP socket that is seen, the last for {last}: nobody listens there, or address translation, a macvlan or a namespace in the container leads on, and who is there loses what finds no room"
            ));
        }
        if untracked > 0 {
            notes.push(
                "some of its UDP sockets are not watched, as there are too many, and lose what they are sent when full"
                    .into(),
            );
        }
        if lost > 0 {
            notes.push(format!("its UDP sockets had no room for {lost} datagrams, which are lost"));
        }
        notes
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self) {
        if let Ok(gate) = &mut self.gate {
            gate.tick();
        }
        if !self.guests.is_empty() {
            let now = self.now();
            self.guests.iter_mut().flatten().for_each(|guest| guest.gate.tick(now));
        }
    }

    /// To be called before sleeping: when to ask again although the bell does not ring. A time that
    /// has come says that some flow may go already.
    pub(super) fn arm(&mut self, now: Instant) -> Option<Instant> {
        let wait = self.gate.as_mut().ok().and_then(UdpGate::arm);
        let guests = self.guests.iter_mut().flatten().filter_map(|guest| guest.gate.wait());
        let wait = guests.chain(wait).min()?;
        Some(now + Span::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Silences the bell.
    pub(super) fn silence(&mut self) {
        if let Ok(gate) = &mut self.gate {
            gate.drain();
        }
    }

    /// So much time was missed in all, in which no guest could be heard.
    pub(super) fn set_missed(&mut self, missed: Span) {
        self.missed = missed.into();
        if let Ok(gate) = &mut self.gate {
            gate.set_missed(self.missed);
        }
    }

    /// The time by which guests are judged.
    fn now(&self) -> time::Instant {
        time::Instant::now() - self.missed
    }

    #[inline]
    fn namespace(&self, port: PortId) -> Option<u64> {
        self.namespaces.get(port.index()).copied().flatten()
    }

    fn guest(&self, port: PortId) -> Option<&GuestGate> {
        self.guests.get(port.index())?.as_ref().map(|guest| &guest.gate)
    }
}

impl Gate for HostGate {
    #[inline]
    fn ask(&mut self, port: PortId, frame: &FrameView<'_>) -> Clearance {
        self.asked = Asked::Nobody;
        let verdict = match (self.namespace(port), &mut self.gate) {
            (Some(namespace), Ok(gate)) => {
                self.asked = Asked::Host;
                gate.verdict(namespace, frame)
            }
            _ => match self.guests.get_mut(port.index()) {
                Some(Some(guest)) => {
                    self.asked = Asked::Guest(port.index());
                    guest.gate.verdict(frame)
                }
                _ => return Clearance::Free,
            },
        };
        match verdict {
            udp_gate::Verdict::Free => Clearance::Free,
            udp_gate::Verdict::Go(flow) => Clearance::Go(Flow(flow.0)),
            udp_gate::Verdict::Hold(flow, reads) => {
                self.note_name(port, Flow(flow.0), frame);
                Clearance::Hold(Flow(flow.0), reads)
            }
        }
    }

    #[inline]
    fn passed(&mut self) {
        match (self.asked, &mut self.gate) {
            (Asked::Host, Ok(gate)) => gate.passed(),
            (Asked::Guest(place), _) => {
                if let Some(guest) = &mut self.guests[place] {
                    guest.gate.passed();
                }
            }
            _ => {}
        }
    }

    #[cold]
    fn intercept(&mut self, port: PortId, frame: &FrameView<'_>) -> bool {
        if !wire::room::is_ours(frame.bytes) {
            return false;
        }
        // Of sockets that the host sees itself no guest needs to report. A guest's report counts
        // for its own port only.
        if self.namespace(port).is_none() {
            let now = self.now();
            if self.guests.len() <= port.index() {
                self.guests.resize_with(port.index() + 1, || None);
            }
            let new = || {
                let number = RandomState::new().hash_one(port.index()) as u32;
                let life = NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
                Box::new(Guest { port, gate: GuestGate::new(now, life) })
            };
            let guest = self.guests[port.index()].get_or_insert_with(new);
            guest.gate.hear(now, frame.first(&mut [0; wire::room::LONGEST]));
        }
        true
    }

    fn poll_transmit(&mut self, mut transmit: impl FnMut(PortId, FrameView<'_>) -> bool) {
        let missed = self.missed;
        for Guest { port, gate } in self.guests.iter_mut().flatten().map(Box::as_mut) {
            if let Some(words) = gate.ask()
                && transmit(*port, FrameView::plain(words.frame()))
            {
                gate.asked(time::Instant::now() - missed);
            }
        }
    }

    fn each_late(&mut self, late: impl FnMut(PortId)) {
        let guests = self.guests.iter_mut().flatten();
        guests.filter_map(|guest| guest.gate.is_late().then_some(guest.port)).for_each(late);
    }
}

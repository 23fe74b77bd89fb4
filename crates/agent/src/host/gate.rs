//! The UDP gates of this host, by port: one for all namespaces, whose sockets we see ourselves, and
//! one for each guest that tells of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::time;

use super::growth::{Growth, WINDOW};
use kernel::netns::Namespace;
use lossless::{Flow, PortId};
use model::{GateStatus, SocketsStatus};
use plane::{Clearance, Gate};
use port::FrameView;
use udp_gate::{FullSocket, GuestGate, Share, UdpGate, UnseenStatus, Verdict};
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
    /// The sockets of flows that were held.
    names: HashMap<(PortId, Flow), Named>,
    /// By port number: what its sockets lose, and what is for none that is seen.
    troubles: Vec<Troubles>,
    /// When the next window of those begins.
    window_at: time::Instant,
    /// How much time was missed.
    missed: time::Duration,
}

/// The socket of a flow that was held.
#[derive(Debug)]
struct Named {
    /// Its address and port.
    socket: SocketAddr,
    /// How it was when the flow was held last, if we see it ourselves.
    full: Option<FullSocket>,
}

/// What a port's notes tell of for as long as it happens.
#[derive(Debug, Default)]
struct Troubles {
    lost: Growth,
    unseen: Growth,
}

/// What is counted of a port's sockets since it was attached.
#[derive(Clone, Copy, Debug)]
struct Counts {
    lost: u64,
    unseen: u64,
}

/// How many datagrams of late must be for no socket that is seen before a note tells of it: fewer
/// fill no socket, and are for one that nobody listens at.
const UNSEEN_WORTH_A_NOTE: u64 = 100;

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
            troubles: Vec::new(),
            window_at: time::Instant::now() + WINDOW,
            missed: time::Duration::ZERO,
        }
    }

    /// The socket of a flow that was held behind a port, if its frames told.
    pub(super) fn socket(&self, port: PortId, flow: Flow) -> Option<SocketAddr> {
        self.names.get(&(port, flow)).map(|named| named.socket)
    }

    /// The same, if the socket is still there, and was not read since a frame was held for it last.
    pub(super) fn full_socket(&self, port: PortId, flow: Flow) -> Option<SocketAddr> {
        let (named, gate) = (self.names.get(&(port, flow))?, self.gate.as_ref().ok()?);
        named.full.is_some_and(|full| gate.is_full(&full)).then_some(named.socket)
    }

    /// What the gate would say of a frame for a port, as far as we see its sockets ourselves.
    /// Nothing changes.
    pub(super) fn outlook(&self, port: PortId, frame: &FrameView<'_>) -> Clearance {
        match (self.namespace(port), &self.gate) {
            (Some(namespace), Ok(gate)) => clearance(gate.outlook(namespace, frame)),
            _ => Clearance::Free,
        }
    }

    /// Keeps the name of the socket that a frame is held for, and how it is.
    #[cold]
    fn note_name(&mut self, port: PortId, flow: Flow, reads: Option<u32>, frame: &FrameView<'_>) {
        let gate = self.gate.as_ref().ok().filter(|_| matches!(self.asked, Asked::Host));
        let full = gate.zip(reads).and_then(|(gate, reads)| gate.full_socket(reads));
        if let Some(named) = self.names.get_mut(&(port, flow)) {
            named.full = full;
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
        let socket = SocketAddr::new(address, datagram.destination_port);
        self.names.insert((port, flow), Named { socket, full });
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
        if let Some(troubles) = self.troubles.get_mut(port.index()) {
            *troubles = Troubles::default();
        }
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
        self.sockets_of(port.index())
    }

    /// The same by the port's number.
    fn sockets_of(&self, number: usize) -> Option<SocketsStatus> {
        let namespace = self.namespaces.get(number).copied().flatten()?;
        let gate = self.gate.as_ref().ok()?;
        let Share { watched, untracked, lost } = gate.share(namespace)?;
        let UnseenStatus { datagrams: unseen, last } = gate.unseen(namespace);
        Some(SocketsStatus { watched, untracked, lost, unseen, last_unseen: last })
    }

    /// What a port's operator ought to know, in sentences; nothing if all is well.
    pub(super) fn notes(&self, port: PortId) -> Vec<String> {
        let mut notes = self.guest(port).map(GuestGate::notes).unwrap_or_default();
        let sockets = self.sockets(port);
        let counts = self.counts(port.index());
        let late = self.troubles.get(port.index()).map_or(counts, |troubles| Counts {
            lost: troubles.lost.of_late(counts.lost),
            unseen: troubles.unseen.of_late(counts.unseen),
        });
        if let Some(last) = sockets.and_then(|sockets| sockets.last_unseen)
            && late.unseen >= UNSEEN_WORTH_A_NOTE
        {
            notes.push(format!(
                "{} datagrams of the last minutes were for no UDP socket that is seen, the last for {last}: nobody listens there, or address translation, a macvlan or a namespace in the container leads on, and who is there loses what finds no room",
                late.unseen
            ));
        }
        if sockets.is_some_and(|sockets| sockets.untracked > 0) {
            notes.push(
                "some of its UDP sockets are not watched, as there are too many, and lose what they are sent when full"
                    .into(),
            );
        }
        if late.lost > 0 {
            notes.push(format!(
                "its UDP sockets had no room for {} datagrams in the last minutes, which are lost",
                late.lost
            ));
        }
        notes
    }

    /// What is counted of the sockets behind the port with this number, in a container or in a
    /// guest.
    fn counts(&self, number: usize) -> Counts {
        let guest = self.guests.get(number).and_then(Option::as_ref);
        let guest = guest.map_or(0, |guest| guest.gate.lost());
        let (lost, unseen) =
            self.sockets_of(number).map_or((0, 0), |sockets| (sockets.lost, sockets.unseen));
        Counts { lost: lost + guest, unseen }
    }

    /// A window of what notes tell of is over.
    #[cold]
    fn begin_window(&mut self) {
        let ports = self.namespaces.len().max(self.guests.len());
        self.troubles.resize_with(ports, Troubles::default);
        for number in 0..ports {
            let Counts { lost, unseen } = self.counts(number);
            let troubles = &mut self.troubles[number];
            troubles.lost.turn(lost);
            troubles.unseen.turn(unseen);
        }
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self) {
        if let Ok(gate) = &mut self.gate {
            gate.tick();
        }
        // Who slept through some windows has no news of them.
        let now = time::Instant::now();
        for _ in 0..2 {
            if now >= self.window_at {
                self.window_at += WINDOW;
                self.begin_window();
            }
        }
        self.window_at = self.window_at.max(now);
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

/// A verdict, as the plane has it.
#[inline]
fn clearance(verdict: Verdict) -> Clearance {
    match verdict {
        Verdict::Free => Clearance::Free,
        Verdict::Go(flow) => Clearance::Go(Flow(flow.0)),
        Verdict::Hold(flow, reads) => Clearance::Hold(Flow(flow.0), reads),
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
        let clearance = clearance(verdict);
        if let Clearance::Hold(flow, reads) = clearance {
            self.note_name(port, flow, reads, frame);
        }
        clearance
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

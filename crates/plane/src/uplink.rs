//! Far hosts, behind one port: the uplink.
//!
//! ```text
//!           flow_head             send              far receiver
//!  switch ─────────────▶ depart ────────▶ Peers ══▶ …
//!         ◀── arrived, unblock, abandon ──┘ events
//! ```

use core::ops::RangeInclusive;

use binding::Departs;
use datapath::{Decision, Remote, Verdict};
use lossless::{
    Destination, Flow, LinkConfig, LinkUse, Offered, PortConfig, PortId, PortUse, Reason, Refusal,
    Released, Size, TooManyPorts,
};
use port::{Port, Slot};
use shares::Terms;
use units::{Class, Instant, Ticks};
use wire::ethernet::Tag;

use crate::bound::{gather, machine_frame};
use crate::captures::show_refused;
use crate::line::{Departed, End, Line, Others, owner_of};
use crate::peers::{Event, Leaving, Peers, Sent};
use crate::plane::{BURST, HAS_ROOM, Plane};
use crate::receive::overhear;
use crate::stages::{Gate, Responder};
use crate::taps::Taps;

/// The most frames from far hosts, and for them, in one visit: there may be many.
const AT_ONCE: u32 = 4 * BURST;

/// After how many of those a visit that may take only so long looks at its time again.
const A_LOOK: u32 = 8;

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Attaches the far hosts. They are members of every network that is
    /// [declared](datapath::Datapath::declare).
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`]; the far hosts are dropped.
    ///
    /// # Panics
    ///
    /// If there are some already.
    pub fn attach_uplink(
        &mut self,
        now: Instant,
        peers: F,
        config: PortConfig,
    ) -> Result<PortId, TooManyPorts> {
        assert!(self.uplink.is_none(), "a plane has one uplink");
        let id = self.switch.attach(now, config)?;
        self.datapath.set_uplink(id, Class::default());
        self.put_line(id, End::Uplink(peers), datapath::Network::default());
        self.logical.iter_mut().for_each(|logical| logical.set_uplink(id));
        self.uplink = Some(id);
        Ok(id)
    }

    /// Has networks share the uplink, each on [terms](Self::set_terms) of its own, before anything
    /// is sent.
    ///
    /// # Panics
    ///
    /// If there is no uplink.
    pub fn share_uplink(&mut self, link: LinkConfig) {
        let id = self.uplink.expect("there is an uplink");
        self.switch.share(id, link);
    }

    /// Gives a network terms at the uplink, if networks [share](Self::share_uplink) it.
    pub fn set_terms(&mut self, now: Instant, network: datapath::Network, terms: Terms) {
        if let Some(id) = self.uplink {
            self.switch.set_terms(now, id, owner_of(network), terms);
        }
    }

    /// Gives a port's sender terms at the uplink of its own, within its network's, if networks
    /// [share](Self::share_uplink) it; or none.
    pub fn set_port_terms(&mut self, now: Instant, port: PortId, terms: Option<Terms>) {
        if let Some(id) = self.uplink {
            self.switch.set_port_terms(now, id, port, terms);
        }
    }

    /// What a port's sender has had by now of an uplink that networks [share](Self::share_uplink),
    /// if it has [terms of its own](Self::set_port_terms).
    pub fn port_link_use(&self, port: PortId) -> Option<PortUse> {
        self.switch.port_link_use(self.uplink?, port)
    }

    /// What a network has had by now of an uplink that networks [share](Self::share_uplink). `None`
    /// if that is nothing, and it has no terms.
    pub fn link_use(&self, now: Instant, network: datapath::Network) -> Option<LinkUse> {
        self.switch.link_use(now, self.uplink?, owner_of(network))
    }

    /// The port that far hosts are behind, if there is one.
    pub fn uplink(&self) -> Option<PortId> {
        self.uplink
    }

    /// The far hosts, if there is an uplink.
    pub fn peers(&self) -> Option<&F> {
        match &self.line(self.uplink?).end {
            End::Uplink(peers) => Some(peers),
            End::Device(_) => None,
        }
    }

    /// The far hosts, for whoever changes their state, and the captures: the next turn receives
    /// from them and maintains them.
    pub fn peers_mut(&mut self) -> Option<(&mut F, Option<&mut Taps>)> {
        let Self { uplink, lines, rx_ready, needs_flush, taps, .. } = self;
        let id = (*uplink)?;
        rx_ready.insert(id);
        needs_flush.insert(id);
        let line = lines[id.index()].as_mut().expect("the uplink is attached");
        Some((line.peers(), taps.as_deref_mut()))
    }

    /// Receives what has arrived from far hosts, as far as the switch has room.
    pub(crate) fn receive_uplink(&mut self, now: Instant, id: PortId) -> bool {
        let Self {
            datapath,
            switch,
            lines,
            rx_ready,
            needs_flush,
            turned_away,
            taps,
            booking,
            logical,
            ..
        } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        if line.muted {
            // Far hosts keep what is not received, and send it to the next switch.
            rx_ready.remove(id);
            return false;
        }
        let peers = line.peers();
        let most = switch.room(now, id).min(AT_ONCE);
        let priorities = datapath.settings().priorities;
        let mut decisions = datapath.visit(now, id);
        let mut visit = switch.arrivals(now, id);
        let mut received = 0;
        while received < most
            && !(received.is_multiple_of(A_LOOK) && received > 0 && booking.is_over())
            && let Some((slot, arrival)) = peers.poll_arrival()
        {
            received += 1;
            if let Some(network) = arrival.network {
                booking.arrivals.note(network);
            }
            let view = peers.frame(slot);
            let Some(mut header) = wire::ethernet::peek(view.bytes) else {
                let class = decisions.default_class();
                visit.refuse(class, view.len() as u32, Refusal::MALFORMED);
                turned_away.push((slot, Reason::Malformed));
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, Reason::Malformed, &view);
                }
                continue;
            };
            // A frame keeps the class that it had at the far switch, unless its tag chooses one.
            let is_chosen =
                arrival.network.is_none_or(|network| decisions.may_choose(&header, network));
            let of = |class| Class::all().find(|priority| priorities[*priority] == class);
            if !is_chosen && let Some(class) = arrival.class.and_then(of) {
                let vlan = header.tag().map_or(0, |tag| tag.vlan);
                header = header.with_tag(Some(Tag { class, vlan }));
            }
            let (bytes, frames) = view.on_wire();
            let size = Size { bytes: bytes as u32, frames: frames as u16 };
            let decision = match (arrival.logical, arrival.network) {
                (Some((label, _)), _) => {
                    let port = logical.as_deref().and_then(|it| it.arrive(label));
                    let moved = logical.as_deref().is_some_and(|it| it.is_elsewhere(label));
                    let refused = match moved {
                        true => Verdict::Refuse(Refusal::MOVED),
                        false => Verdict::Refuse(Refusal::LOGICAL_NETWORK),
                    };
                    let one = |port| Verdict::Forward(Destination::One(port));
                    let class = arrival.class.unwrap_or(decisions.default_class());
                    Decision { class, verdict: port.map_or(refused, one) }
                }
                (None, Some(network)) => decisions.decide(&header, network),
                (None, None) => {
                    let class = arrival.class.unwrap_or(decisions.default_class());
                    Decision { class, verdict: Verdict::Refuse(Refusal::NOT_MEMBER) }
                }
            };
            match decision {
                Decision { class, verdict: Verdict::Forward(to) } => {
                    let is_for_many = matches!(to, Destination::Many(_));
                    let offered = visit.offer(to, class, slot, size);
                    if is_for_many && let Some(network) = arrival.network {
                        overhear(&mut decisions, &header, network, &view);
                    }
                    match offered {
                        Offered::Held => {}
                        // The switch lists it for the captures.
                        Offered::Refused(slot, reason) => turned_away.push((slot, reason)),
                        Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
                    }
                }
                Decision { class, verdict: Verdict::Refuse(refusal) } => {
                    visit.refuse(class, size.bytes, refusal);
                    turned_away.push((slot, refusal.reason()));
                    if let Some(taps) = taps {
                        taps.refuse(now, id, None, refusal.reason(), &view);
                    }
                }
            }
        }
        drop(visit);
        if let Some(taps) = taps {
            show_refused(now, switch, taps, |_, slot| peers.frame(slot));
        }
        turned_away.drain(..).for_each(|(slot, reason)| peers.release(slot, Some(reason)));
        if !peers.has_arrivals() {
            rx_ready.remove(id);
        }
        if received > 0 {
            needs_flush.insert(id);
        }
        received > 0
    }

    /// Sends frames to far hosts: those of the flows whose turn it is.
    pub(crate) fn send_to_peers(&mut self, now: Instant, id: PortId) -> bool {
        // For the visit, the uplink's line leaves its place, so that every sender's can be
        // borrowed beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        let sent = self.send_flows(now, id, &mut line);
        self.lines[id.index()] = Some(line);
        // Also if all had to wait: what they wait for may take maintenance.
        self.needs_flush.insert(id);
        sent
    }

    fn send_flows(&mut self, now: Instant, id: PortId, line: &mut Line<P, F>) -> bool {
        let Self {
            switch,
            lines,
            needs_flush,
            taps,
            booking,
            logical,
            logical_ports,
            gathered,
            ..
        } = self;
        let peers = line.peers();
        let mut visit = switch.departures(now, id);
        let mut has_sent = false;
        // Those that have to wait count as well: each costs a look.
        for number in 1..=AT_ONCE {
            if peers.busy_until().is_some() || number.is_multiple_of(A_LOOK) && booking.is_over() {
                break;
            }
            let Some(head) = visit.flow_head() else { break };
            let flow = head.flow().expect("it is a flow's");
            let (port, slot, class) = (head.ingress(), head.frame(), head.class());
            let source = lines[port.index()].as_deref_mut();
            let source = source.expect("what came from far hosts goes to none");
            let view = source.end.frame(slot);
            let network = source.network;
            let outcome = match logical.as_deref_mut() {
                _ if view.bytes.is_empty() => Sent::Refused(Refusal::WITHDRAWN),
                Some(logical) if logical_ports.contains(port) => {
                    let (sent, to) = (machine_frame(port, slot, &view), Remote::of_flow(flow).0);
                    let departs = logical.depart(now, to, &sent, || gather(&view, gathered));
                    let made = match departs {
                        Departs::AsItIs(origin) => {
                            source.departed.remove(&slot.0);
                            Ok(origin)
                        }
                        Departs::Begins(bytes, origin) => {
                            let departed = Departed::changed(view.bytes, bytes);
                            let is_made = source.depart(slot, departed, bytes);
                            if is_made { Ok(origin) } else { Err(Refusal::UNFIT) }
                        }
                        Departs::As(bytes, origin) => {
                            let departed = Departed::new(&view, bytes);
                            let is_made = source.depart(slot, departed, bytes);
                            if is_made { Ok(origin) } else { Err(Refusal::UNFIT) }
                        }
                        Departs::Refused(refusal) => {
                            if let Some(taps) = taps.as_deref_mut() {
                                taps.explain(logical.why().map(ToString::to_string));
                            }
                            Err(refusal)
                        }
                    };
                    match made {
                        Ok(origin) => {
                            let (origin, view) = (Some(origin), source.departing(slot));
                            let leaving = Leaving { port, slot, network, class, view, origin };
                            let outcome = peers.send(now, flow, &leaving);
                            match outcome {
                                Sent::Gone => logical.left(now),
                                Sent::Underway => logical.departed(now, port, slot.0),
                                Sent::Blocked | Sent::Refused(_) => source.restore(slot),
                            }
                            outcome
                        }
                        Err(refusal) => Sent::Refused(refusal),
                    }
                }
                _ => {
                    let leaving = Leaving { port, slot, network, class, view, origin: None };
                    peers.send(now, flow, &leaving)
                }
            };
            let released = match outcome {
                Sent::Gone => head.delivered().map(|frame| (frame, None)),
                Sent::Underway => {
                    head.depart(flow);
                    None
                }
                Sent::Blocked => {
                    head.block();
                    continue;
                }
                Sent::Refused(refusal) => {
                    if let Some(taps) = taps {
                        let view = source.end.frame(slot);
                        taps.refuse(now, port, Some(id), refusal.reason(), &view);
                    }
                    head.refuse(refusal).map(|released| (released.frame, released.refused))
                }
            };
            has_sent = true;
            booking.departures.note(network);
            if let Some((frame, refused)) = released {
                source.end.release(frame, refused);
                needs_flush.insert(port);
            }
        }
        has_sent
    }

    /// Maintains far hosts: [`Peers::maintain`]. Returns whether a frame moved.
    pub(crate) fn maintain_peers(&mut self, now: Instant, id: PortId, delivered: bool) -> bool {
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        let peers = line.peers();
        let moved = peers.maintain(now, delivered, &Others(&self.lines));
        if peers.needs_maintenance() {
            self.needs_flush.insert(id);
        } else {
            self.needs_flush.remove(id);
        }
        if peers.is_tx_blocked() {
            self.tx_blocked.insert(id);
        }
        self.lines[id.index()] = Some(line);
        self.handle_peer_events(now) | moved
    }

    /// Does what the far hosts' events say. Returns whether there was one.
    pub fn handle_peer_events(&mut self, now: Instant) -> bool {
        let Some(id) = self.uplink else { return false };
        let mut moved = false;
        while let Some(event) = self.line_mut(id).peers().poll_event() {
            moved = true;
            match event {
                Event::Completed(flow, missed) => {
                    let released = match missed {
                        None => self.switch.arrived(now, id, flow),
                        Some(refusal) => self.switch.missed(now, id, flow, refusal),
                    };
                    if missed == Some(Refusal::REJECTED) {
                        released.iter().for_each(|released| self.tell_rejected(now, released));
                    }
                    self.note_ended(now, released.as_slice());
                    self.release_all(now, released);
                    self.go_on(now, flow);
                }
                Event::Returned(flow) => self.take_back(now, flow),
                Event::Resent(sender, load) => self.switch.charge(now, id, sender, load),
                Event::Unblocked(flow) => self.switch.unblock(now, id, flow),
                Event::Abandoned(flows, refusal) => self.abandon(now, id, flows, refusal),
                Event::Forgotten(peer) => self.switch.forget_group(id, peer.index() as u32),
            }
        }
        moved
    }

    /// Nothing is heard of a far host: what is for its ports is refused, but for frames that have
    /// not been sent, and whose ports are elsewhere by now.
    fn abandon(&mut self, now: Instant, id: PortId, flows: RangeInclusive<Flow>, refusal: Refusal) {
        let mut gone = Vec::new();
        let released = |released: Released<_>| gone.push(released);
        self.switch.abandon_underway(now, id, flows.clone(), refusal, released);
        self.leave(now, &flows);
        self.end_waits(&flows);
        let released = |released: Released<_>| gone.push(released);
        self.switch.abandon_flows(now, id, flows, refusal, released);
        self.note_ended(now, &gone);
        self.release_all(now, gone);
    }

    /// Logical networks know of frames that are no longer underway.
    fn note_ended(&mut self, now: Instant, ended: &[Released<Slot>]) {
        let Some(logical) = &mut self.logical else { return };
        for Released { port, frame, refused } in ended {
            logical.ended(now, *port, frame.0, refused.is_some());
        }
    }

    /// The sender of a frame that a far host has rejected is told.
    fn tell_rejected(&mut self, now: Instant, released: &Released<Slot>) {
        let Self { lines, logical, gathered, .. } = self;
        let (Some(line), Some(logical)) = (&mut lines[released.port.index()], logical) else {
            return;
        };
        line.restore(released.frame);
        logical.rejected(now, released.port, gather(&line.end.frame(released.frame), gathered));
    }

    /// A port is about to be detached: its frames in flight are not to be retransmitted.
    pub(crate) fn forget_sender(&mut self, now: Instant, gone: PortId) {
        self.handle_peer_events(now);
        if let Some((peers, _)) = self.peers_mut() {
            peers.forget_sender(gone);
        }
    }

    /// When something falls due at a far host, although nothing arrives.
    pub fn peer_deadline(&self) -> Option<Instant> {
        let (id, peers) = (self.uplink?, self.peers()?);
        let link = peers.busy_until().filter(|_| self.switch.pending().contains(id));
        peers.deadline().into_iter().chain(link).chain(self.moves.due()).min()
    }

    /// Has far hosts do what is due by now; the next turn receives and sends what follows from it.
    pub fn handle_peer_timeouts(&mut self, now: Instant) {
        if self.peer_deadline().is_some_and(|at| at <= now)
            && let Some((peers, _)) = self.peers_mut()
        {
            peers.handle_timeouts(now);
        }
        self.send_again(now);
    }
}

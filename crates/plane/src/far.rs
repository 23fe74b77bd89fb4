//! Far hosts: a frame that leaves stays its sender's until the far receiver has consumed it.
//!
//! ```text
//!            head             send              far receiver
//!  switch ─────────▶ depart ────────▶ Peer ══▶ …
//!         ◀──────── arrived ◀─completed─┘
//! ```

use datapath::{Decision, Verdict};
use lossless::{Flow, Offered, PortConfig, PortId, Reason, Refusal, Released, Size, TooManyPorts};
use port::Port;
use units::{Class, Instant};
use wire::ethernet::Tag;

use crate::line::{End, Line, release};
use crate::peer::{Leaving, Peer, Sent};
use crate::plane::{BURST, HAS_ROOM, Plane, show_refused};
use crate::stages::{Gate, Responder};

impl<P: Port, F: Peer, R: Responder, G: Gate> Plane<P, F, R, G> {
    /// Attaches a far host.
    ///
    /// # Errors
    ///
    /// [`TooManyPorts`]; the peer is dropped.
    pub fn attach_peer(
        &mut self,
        now: Instant,
        peer: F,
        config: PortConfig,
    ) -> Result<PortId, TooManyPorts> {
        let forwarding = datapath::PortConfig { trunk: true, ..datapath::PortConfig::default() };
        let id = self.attach_end(now, End::Peer(peer), config, forwarding)?;
        self.peers.insert(id);
        Ok(id)
    }

    /// Detaches a far host. What is still held from it or for it is refused.
    ///
    /// # Panics
    ///
    /// If no far host is attached there.
    pub fn detach_peer(&mut self, now: Instant, id: PortId) -> F {
        assert!(self.is_peer(id), "behind port {} is a device", id.index());
        match self.detach_end(now, id) {
            End::Peer(peer) => peer,
            End::Device(_) => unreachable!("far hosts are known"),
        }
    }

    /// Whether a far host is behind a port.
    pub fn is_peer(&self, id: PortId) -> bool {
        self.peers.contains(id)
    }

    /// The far host behind a port.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn peer(&self, id: PortId) -> &F {
        match &self.line(id).end {
            End::Peer(peer) => peer,
            End::Device(_) => panic!("behind port {} is a device", id.index()),
        }
    }

    /// The far host behind a port, for whoever changes its state: the next turn receives from it
    /// and flushes it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn peer_mut(&mut self, id: PortId) -> &mut F {
        self.rx_ready.insert(id);
        self.needs_flush.insert(id);
        self.line_mut(id).peer()
    }

    /// Sets the bit mask of classes of which nothing is sent to a far host (802.1Qbb). Replaces the
    /// previous mask.
    pub fn pause_peer(&mut self, id: PortId, classes: u8) {
        self.switch.pause_classes(id, classes);
        self.peer_mut(id).pause(classes);
    }

    /// Receives what has arrived from a far host, as far as the switch has room.
    pub(crate) fn receive_peer(&mut self, now: Instant, id: PortId) -> bool {
        let Self { datapath, switch, lines, rx_ready, needs_flush, refused, taps, .. } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        if line.muted {
            // The far host keeps what is not received, and sends it to the next switch.
            rx_ready.remove(id);
            return false;
        }
        let peer = line.peer();
        let most = switch.room(now, id).min(BURST);
        let priorities = datapath.settings().priorities;
        let mut decisions = datapath.visit(now, id);
        let mut visit = switch.arrivals(now, id);
        let mut received = 0;
        while received < most
            && let Some((slot, arrival)) = peer.poll_arrival()
        {
            received += 1;
            let view = peer.frame(slot);
            let Some(mut header) = wire::ethernet::peek(view.bytes) else {
                visit.refuse(decisions.default_class(), view.len() as u32, Refusal::MALFORMED);
                refused.push(slot);
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, Reason::Malformed, &view);
                }
                continue;
            };
            // A frame without a tag keeps the class that it had at the far switch.
            let of = |class| Class::all().find(|priority| priorities[*priority] == class);
            header.tag =
                header.tag.or(arrival.class.and_then(of).map(|class| Tag { class, vlan: 0 }));
            let (bytes, frames) = view.on_wire();
            let size = Size { bytes: bytes as u32, frames: frames as u16 };
            match decisions.decide(&header, arrival.network) {
                Decision { class, verdict: Verdict::Forward(to) } => {
                    match visit.offer(to, class, slot, size) {
                        Offered::Held => continue,
                        Offered::Refused(..) => {}
                        Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
                    }
                }
                Decision { class, verdict: Verdict::Refuse(refusal) } => {
                    visit.refuse(class, size.bytes, refusal);
                    if let Some(taps) = taps {
                        taps.refuse(now, id, None, refusal.reason(), &view);
                    }
                }
            }
            refused.push(slot);
        }
        drop(visit);
        if let Some(taps) = taps {
            show_refused(now, switch, taps, |_, slot| peer.frame(slot));
        }
        refused.drain(..).for_each(|slot| peer.release(slot));
        if !peer.has_arrivals() {
            rx_ready.remove(id);
        }
        if received > 0 {
            needs_flush.insert(id);
        }
        received > 0
    }

    /// Sends the frames of one parked flow, or those of the queue, to a far host.
    pub(crate) fn send_to_peer(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P, F>,
        parked: Option<Flow>,
    ) -> bool {
        let Self { switch, lines, needs_flush, tx_blocked, taps, .. } = self;
        let peer = line.peer();
        if parked.is_some_and(|flow| peer.is_paused(flow)) {
            return false;
        }
        let mut visit = switch.departures(now, id);
        let mut sent = 0;
        while sent < BURST {
            let head = match parked {
                None => visit.head(),
                Some(flow) => visit.parked_head(flow),
            };
            let Some(head) = head else { break };
            let (port, slot, class) = (head.ingress(), head.frame(), head.class());
            let source = lines[port.index()].as_deref_mut();
            let source =
                source.expect("a frame leaves by another port than it came, which is attached");
            let view = source.end.frame(slot);
            let leaving = Leaving { port, slot, network: source.network, class, view };
            let flow = peer.flow(&leaving);
            let outcome = match flow {
                _ if leaving.view.bytes.is_empty() => Err(Refusal::WITHDRAWN),
                Err(_) => Err(Refusal::UNFIT),
                Ok(Some(flow)) if parked.is_none() && head.is_parked(flow) => Ok(Sent::Hold),
                Ok(flow) => match peer.send(now, flow, &leaving) {
                    Sent::Unfit => Err(Refusal::UNFIT),
                    sent => Ok(sent),
                },
            };
            if let (Err(refusal), Some(taps)) = (&outcome, taps.as_deref_mut()) {
                taps.refuse(now, port, Some(id), refusal.reason(), &leaving.view);
            }
            let flow = flow.ok().flatten();
            let released = match (outcome, flow) {
                (Err(refusal), _) => head.refuse(refusal),
                (Ok(Sent::Hold), Some(flow)) if parked.is_none() => {
                    head.park(flow);
                    None
                }
                (Ok(Sent::Underway), Some(flow)) => {
                    head.depart(flow);
                    None
                }
                (Ok(Sent::Gone), _) => head.delivered(),
                (Ok(Sent::Busy), _) => {
                    tx_blocked.insert(id);
                    break;
                }
                (Ok(_), _) => break,
            };
            if let Some(frame) = released {
                release(lines, needs_flush, port, frame);
            }
            sent += 1;
        }
        if sent > 0 {
            needs_flush.insert(id);
        }
        sent > 0
    }

    /// Services one far host: completes consumed frames, retransmits lost ones, sends pending
    /// control messages. Reports wait one turn if frames were `delivered` to a local receiver this
    /// turn, because its reply may carry them. Returns whether a frame moved.
    pub(crate) fn maintain_peer(&mut self, now: Instant, id: PortId, delivered: bool) -> bool {
        // For the visit, the peer's line leaves its place, so that every sender's can be borrowed
        // beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        self.needs_flush.remove(id);
        let Self { switch, lines, needs_flush, tx_blocked, taps, .. } = self;
        let peer = line.peer();
        let mut moved = false;
        let line_of = |port: PortId| {
            lines[port.index()]
                .as_deref()
                .expect("frames in flight from a detached port are forgotten")
        };
        let network_of = |port| line_of(port).network;
        let frame_of = |port, slot| line_of(port).end.frame(slot);
        moved |= peer.retransmit(now, network_of, frame_of);
        moved |= peer.resume(now, network_of, frame_of);
        while let Some((flow, missed)) = peer.poll_completed() {
            moved = true;
            let released = match missed {
                None => switch.arrived(now, id, flow),
                Some(refusal) => switch.missed(now, id, flow, refusal),
            };
            if let (Some(_), Some(taps)) = (missed, taps.as_deref_mut()) {
                show_refused(now, switch, taps, |port, slot| {
                    lines[port.index()].as_deref().expect("its sender is attached").end.frame(slot)
                });
            }
            if let Some(Released { port, frame, .. }) = released {
                release(lines, needs_flush, port, frame);
            }
        }
        if peer.transmit_control(now, delivered) {
            needs_flush.insert(id);
        }
        if !peer.can_transmit() {
            needs_flush.insert(id);
            tx_blocked.insert(id);
        }
        self.lines[id.index()] = Some(line);
        moved
    }

    /// Gives up what is in flight to peers that were silent for the stall time, and lets frames go
    /// to those that answer again.
    pub(crate) fn check_peers(&mut self, now: Instant) {
        let peers = self.peers;
        let patience = self.switch.settings().stall_after;
        for id in peers.iter() {
            let peer = self.line_mut(id).peer();
            let was_given_up = peer.is_given_up();
            match (was_given_up, peer.give_up_after(now, patience)) {
                (false, true) => {
                    let mut gone = Vec::new();
                    self.switch.abandon(now, id, |released| gone.push(released));
                    self.release_all(now, gone);
                }
                (true, false) => self.switch.heard(id),
                _ => {}
            }
        }
    }

    /// A port is about to be detached: its frames in flight are not to be retransmitted.
    pub(crate) fn forget_sender(&mut self, gone: PortId) {
        let peers = self.peers;
        for id in peers.iter() {
            self.needs_flush.insert(id);
            self.line_mut(id).peer().forget_sender(gone);
        }
    }

    /// When something falls due at a far host, although nothing arrives.
    pub fn peer_deadline(&mut self) -> Option<Instant> {
        let peers = self.peers;
        // Without room for a control message there is nothing to wake up for: the owner tries again
        // soon.
        let due = |peer: &mut F| peer.deadline().filter(|_| peer.can_transmit());
        peers.iter().filter_map(|id| due(self.line_mut(id).peer())).min()
    }

    /// Has far hosts do what is due by now; the next turn receives and sends what follows from it.
    pub fn handle_peer_timeouts(&mut self, now: Instant) {
        let peers = self.peers;
        for id in peers.iter() {
            if self.line_mut(id).peer().deadline().is_some_and(|at| at <= now) {
                self.peer_mut(id).handle_timeout(now);
            }
        }
    }
}

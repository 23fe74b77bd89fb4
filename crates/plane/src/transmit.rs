//! Transmitting to a device: what waits for it, as far as it takes it.

use datapath::Datapath;
use lossless::{Flow, Head, PortId, Reason, Refusal, Released};
use port::{FrameView, Like, Port, Slot, Taken};
use units::{Instant, Ticks};
use wire::Offload;

use crate::bound::Turn;
use crate::line::{End, Line, release};
use crate::peers::Peers;
use crate::plane::{BURST, Plane};
use crate::retag::Retagged;
use crate::stages::{Clearance, Gate, Responder};
use crate::taps::Direction;

/// How many slots a guest gets back at once that owes an answer: enough for a few messages.
const KEPT: usize = 8;

/// The most flows that are set aside which a visit asks about.
const MOST_ASKED: usize = 16;

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Transmits what waits for a receiver, as far as it takes it: first parked flows that may go
    /// now.
    #[inline(always)]
    pub(crate) fn transmit<const WATCHED: bool>(&mut self, now: Instant, id: PortId) -> bool {
        match self.logical_ports.contains(id) || self.datapath.retags() {
            false => self.transmit_by::<WATCHED, false>(now, id),
            true => self.transmit_by::<true, true>(now, id),
        }
    }

    /// The same: to a device that gets frames as their senders wrote them, or one for which they
    /// may be rewritten.
    #[inline(never)]
    fn transmit_by<const WATCHED: bool, const REWRITES: bool>(
        &mut self,
        now: Instant,
        id: PortId,
    ) -> bool {
        // For the visit, the receiver's line leaves its place: so every sender's can be borrowed
        // beside it.
        let mut line = self.lines[id.index()].take().expect("the port is attached");
        let mut moved = false;
        if self.switch.flows(id).len() > 0 {
            moved |= self.transmit_aside::<WATCHED, REWRITES>(now, id, &mut line);
        }
        moved |= self.transmit_to_device::<WATCHED, REWRITES>(now, id, &mut line, None);
        // Before anybody's flush, and before a peer acknowledges: the sender of a frame may forget
        // it then.
        if moved
            && let End::Device(device) = &mut line.end
            && let Err(error) = device.deliver()
        {
            line.failed.get_or_insert(error);
        }
        self.switch.set_absent(id, line.is_absent());
        self.lines[id.index()] = Some(line);
        moved
    }

    /// Transmits frames of flows that are set aside. A visit asks about some, and the next goes on
    /// behind them: thousands of sockets that nobody reads are not to cost each visit as many
    /// questions.
    #[inline(never)]
    fn transmit_aside<const WATCHED: bool, const REWRITES: bool>(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P, F>,
    ) -> bool {
        let count = self.switch.flows(id).len();
        if line.round.number != self.round {
            (line.round.number, line.round.left) = (self.round, count);
        }
        let mut flows = [Flow(0); MOST_ASKED];
        let next = self.switch.flows_from(id, line.round.next);
        flows.iter_mut().zip(next).for_each(|(place, flow)| *place = flow);
        let mut moved = false;
        for flow in &flows[..count.min(MOST_ASKED)] {
            moved |= self.transmit_to_device::<WATCHED, REWRITES>(now, id, line, Some(*flow));
            line.round.next = Flow(flow.0.wrapping_add(1));
            line.round.left = line.round.left.saturating_sub(1);
            if WATCHED && self.booking.is_over() {
                break;
            }
        }
        self.is_asking |= line.round.left > 0;
        moved
    }

    /// Transmits the frames of one parked flow, or those of the queue.
    #[inline(always)]
    fn transmit_to_device<const WATCHED: bool, const REWRITES: bool>(
        &mut self,
        now: Instant,
        id: PortId,
        line: &mut Line<P, F>,
        parked: Option<Flow>,
    ) -> bool {
        let Self {
            datapath,
            switch,
            lines,
            needs_flush,
            tx_blocked,
            gate,
            diversions,
            taps,
            retagged,
            booking,
            logical,
            logical_ports,
            gathered,
            ..
        } = self;
        let is_logical = REWRITES && logical_ports.contains(id);
        if line.failed.is_some() {
            return false;
        }
        let mut visit = switch.departures(now, id);
        // Copies for bystanders do not count: they hold no sender back, so what many senders bring
        // in one turn is to go in it.
        let (mut done, mut copies) = (0, 0);
        let shift = line.device().burst_shift();
        let look = if WATCHED { line.device().frames_a_look() } else { 0 };
        let mut last = id;
        while done < BURST {
            let head = match parked {
                None => visit.head(),
                Some(flow) => visit.parked_head(flow),
            };
            let Some(mut head) = head else { break };
            let is_copy = head.is_spare();
            let cost = 1 + (head.bytes() >> shift);
            let ingress = head.ingress();
            let source = lines[ingress.index()].as_deref_mut();
            let source =
                source.expect("a frame leaves by another port than it came, which is attached");
            let mut frame = source.end.frame(head.frame());
            let taps = if WATCHED { taps.as_deref_mut() } else { None };
            if frame.bytes.is_empty() {
                if let Some(taps) = taps {
                    taps.refuse(now, ingress, Some(id), Reason::Withdrawn, &frame);
                }
                if let Some(released) = head.refuse(Refusal::WITHDRAWN) {
                    release(lines, needs_flush, released);
                }
                *if is_copy { &mut copies } else { &mut done } += cost;
                continue;
            }
            let mut offload = Offload::NONE;
            if is_logical {
                let logical = logical.as_deref_mut().expect("a port of theirs is attached");
                let slot = head.frame();
                let leaves = match logical.leaves_at_once(ingress, slot.0, id, frame.len()) {
                    true => Ok(()),
                    false => {
                        let turn = Turn { now, ingress, slot, egress: id, class: head.class() };
                        turn.leave(logical, &source.end, &frame, gathered, &mut offload)
                            .map(|as_it_leaves| frame = as_it_leaves)
                    }
                };
                match leaves {
                    Ok(()) => {}
                    Err(refusal) => {
                        if let Some(taps) = taps {
                            let frame = source.end.frame(head.frame());
                            taps.explain(logical.why().map(ToString::to_string));
                            taps.refuse(now, ingress, Some(id), refusal.reason(), &frame);
                        }
                        if let Some(released) = head.refuse(refusal) {
                            release(lines, needs_flush, released);
                        }
                        *if is_copy { &mut copies } else { &mut done } += cost;
                        continue;
                    }
                }
            }
            let clearance = gate.ask(id, &frame);
            note(&mut head, clearance);
            match clearance {
                Clearance::Hold(..) if parked.is_some() => break,
                Clearance::Hold(flow, _) if head.is_stalled(flow) => {
                    if let Some(taps) = taps {
                        taps.refuse(now, ingress, Some(id), Reason::SocketStalled, &frame);
                    }
                    if let Some(released) = head.refuse(Refusal::SOCKET_STALLED) {
                        release(lines, needs_flush, released);
                    }
                }
                Clearance::Hold(flow, _) => {
                    let slot = head.frame();
                    head.park(flow);
                    if source.end.divert(slot, Like::Socket) {
                        needs_flush.insert(ingress);
                        diversions.note_diverting(ingress);
                    }
                }
                Clearance::Go(flow) if parked.is_none() && head.is_parked(flow) => head.park(flow),
                Clearance::Go(_) | Clearance::Free => {
                    if REWRITES && !is_logical {
                        frame = retag(datapath, ingress, id, frame, retagged);
                    }
                    let released = match line.device().transmit(&frame) {
                        Ok(Taken::Yes) => {
                            gate.passed();
                            if let Some(taps) = taps {
                                taps.pass(now, id, Direction::Out, &frame);
                            }
                            if is_logical {
                                logical.iter_mut().for_each(|logical| logical.left(now));
                            }
                            head.delivered()
                        }
                        Ok(taken @ (Taken::Unfit | Taken::Dropped)) => {
                            let refusal = match taken {
                                Taken::Dropped => Refusal::INTERFACE_DROPPED,
                                _ => Refusal::UNFIT,
                            };
                            if let Some(taps) = taps {
                                taps.refuse(now, ingress, Some(id), refusal.reason(), &frame);
                            }
                            if let Some(Released { frame, refused, .. }) = head.refuse(refusal) {
                                source.end.release(frame, refused);
                                needs_flush.insert(ingress);
                            }
                            None
                        }
                        Ok(Taken::Busy) => {
                            tx_blocked.insert(id);
                            // A flush returns the buffers that the device found unusable.
                            needs_flush.insert(id);
                            break;
                        }
                        Err(error) => {
                            line.failed = Some(error);
                            break;
                        }
                    };
                    if let Some(slot) = released {
                        source.end.release(slot, None);
                        if ingress != last {
                            needs_flush.insert(ingress);
                            last = ingress;
                        }
                    }
                }
            }
            *if is_copy { &mut copies } else { &mut done } += cost;
            if WATCHED && (done + copies) % look == 0 && booking.is_over() {
                break;
            }
        }
        let moved = done + copies > 0;
        if moved {
            needs_flush.insert(id);
        }
        moved
    }

    /// Transmits what the responder, the gate and logical networks have pending. Returns whether
    /// any of it comes back in the next turn.
    pub(crate) fn transmit_own(&mut self, now: Instant) -> bool {
        let Self { lines, needs_flush, tx_blocked, responder, gate, taps, logical, turned, .. } =
            self;
        let mut comes_back = false;
        let mut transmit = |id: PortId, frame: FrameView<'_>| {
            let line = lines[id.index()].as_mut().expect("the port is attached");
            if line.failed.is_some() {
                return true;
            }
            match line.device().transmit(&frame) {
                Ok(taken @ (Taken::Yes | Taken::Unfit | Taken::Dropped)) => {
                    needs_flush.insert(id);
                    comes_back |= *turned == Some(id);
                    if let (Taken::Yes, Some(taps)) = (taken, taps.as_deref_mut()) {
                        taps.pass(now, id, Direction::Out, &frame);
                    }
                }
                Ok(Taken::Busy) => {
                    tx_blocked.insert(id);
                    return false;
                }
                Err(error) => line.failed = Some(error),
            }
            true
        };
        gate.poll_transmit(&mut transmit);
        responder.poll_transmit(&mut transmit);
        if let Some(logical) = logical {
            logical.poll_transmit(|id, answer| transmit(id, FrameView::plain(answer)));
        }
        gate.each_late(|id| {
            lines[id.index()].as_mut().expect("the port is attached").device().keep(KEPT);
            needs_flush.insert(id);
        });
        comes_back
    }

    /// Flushes a device.
    pub(crate) fn flush(&mut self, id: PortId) {
        let line = self.lines[id.index()].as_mut().expect("the port is attached");
        self.needs_flush.remove(id);
        if line.failed.is_some() {
            return;
        }
        match line.device().flush() {
            Ok(true) => {}
            Ok(false) => {
                self.needs_flush.insert(id);
                self.tx_blocked.insert(id);
            }
            Err(error) => line.failed = Some(error),
        }
    }

    /// Asks about flows that are about to be refused: their sockets may have been read and still
    /// have no room.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        let Self { switch, lines, gate, uplink, logical, logical_ports, gathered, .. } = self;
        for id in switch.pending().iter().filter(|id| Some(*id) != *uplink) {
            if switch.flows(id).len() == 0 {
                continue;
            }
            for flow in switch.due(now, id).collect::<Vec<_>>() {
                let mut visit = switch.departures(now, id);
                let Some(mut head) = visit.parked_head(flow) else { continue };
                let source = lines[head.ingress().index()].as_deref();
                let source = source.expect("a port with held frames is attached");
                let mut frame = source.end.frame(head.frame());
                let mut offload = Offload::NONE;
                if logical_ports.contains(id)
                    && let Some(logical) = logical
                {
                    let (ingress, slot, class) = (head.ingress(), head.frame(), head.class());
                    let turn = Turn { now, ingress, slot, egress: id, class };
                    match turn.leave(logical, &source.end, &frame, gathered, &mut offload) {
                        Ok(as_it_leaves) => frame = as_it_leaves,
                        // Its own turn will tell.
                        Err(_) => continue,
                    }
                }
                let clearance = gate.ask(id, &frame);
                note(&mut head, clearance);
            }
        }
    }
}

/// Has the switch know what the gate has said of the next frame's flow.
#[inline]
fn note(head: &mut Head<'_, '_, Slot>, clearance: Clearance) {
    match clearance {
        Clearance::Hold(flow, reads) => head.note_full(flow, reads),
        Clearance::Go(flow) => head.note_room(flow),
        Clearance::Free => {}
    }
}

/// A frame as it leaves: with the tag that its receiver's VLANs want of its sender's.
#[cold]
fn retag<'a>(
    datapath: &Datapath,
    ingress: PortId,
    egress: PortId,
    frame: FrameView<'a>,
    retagged: &'a mut Retagged,
) -> FrameView<'a> {
    match wire::ethernet::peek(frame.bytes) {
        Some(header) => retagged.view(frame, datapath.retag(ingress, egress, &header)),
        None => frame,
    }
}

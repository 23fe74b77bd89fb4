//! Receiving from a device: from its frame's arrival to the queue that it waits in.

use std::cell::Cell;

use datapath::{Decision, Network, Verdict, Visit};
use lossless::{Destination, Offered, PortId, Reason, Refusal, Size};
use port::{FrameView, Left, Port, Slot};
use units::{Instant, Ticks};
use wire::ethernet::Peek;

use crate::bound::place;
use crate::captures::show_refused;
use crate::line::{End, Line};
use crate::peers::Peers;
use crate::plane::{BURST, HAS_ROOM, Plane};
use crate::stages::{Gate, Intercepted, Responder};
use crate::taps::Direction;

/// The most bytes that are looked at of what hosts say of groups: a full frame's, two tags with it.
const LONGEST_REPORT: usize = 1522;

/// From so many held copies on, a guest's frames are copied out of its memory, so that it can send
/// others.
const MOST_COPIES: u32 = 64;

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// Receives what a device has, as far as the switch has room for it.
    #[inline(always)]
    pub(crate) fn receive<const WATCHED: bool>(&mut self, now: Instant, id: PortId) -> bool {
        match self.logical_ports.contains(id) {
            false => self.receive_by::<WATCHED, false>(now, id),
            true => self.receive_by::<true, true>(now, id),
        }
    }

    /// The same: of a device whose frames the datapath decides about, or a logical network.
    // A visit each for `receive` and `transmit`: as parts of a turn, their loops would not fit the
    // processor's registers.
    #[inline(never)]
    fn receive_by<const WATCHED: bool, const LOGICAL: bool>(
        &mut self,
        now: Instant,
        id: PortId,
    ) -> bool {
        let Self {
            datapath,
            switch,
            lines,
            rx_ready,
            unarmed,
            armed,
            needs_flush,
            paced,
            responder,
            gate,
            refused,
            diversions,
            taps,
            booking,
            logical,
            gathered,
            ..
        } = self;
        let line = lines[id.index()].as_mut().expect("the port is attached");
        unarmed.remove(id);
        paced.remove(id);
        if line.muted || line.failed.is_some() {
            rx_ready.remove(id);
            switch.set_absent(id, line.is_absent());
            return false;
        }
        if line.pace.as_ref().is_some_and(|pace| pace.ready_at() > now) {
            paced.insert(id);
            return false;
        }
        let room = switch.room(now, id);
        let is_crowded = room < switch.config(id).ingress.frames / 2 || line.device().is_crowded();
        if is_crowded && line.device().may_divert() {
            diversions.note_crowded(id);
        }
        let mut most = room.min(BURST);
        if most == 0 {
            return false;
        }
        let mut moved = false;
        let mut decisions = datapath.visit(now, id);
        let untagged = decisions.untagged_class();
        let mut visit = switch.arrivals(now, id);
        let Line { network, end, pace, .. } = &mut **line;
        let network = *network;
        let taken = Cell::new(0);
        let mut arrived = |slot: Slot, view: &FrameView<'_>| {
            moved = true;
            let (bytes, frames) = view.on_wire();
            taken.set(bytes);
            let mut taps = if WATCHED { taps.as_deref_mut() } else { None };
            let Some(header) = wire::ethernet::peek(view.bytes) else {
                visit.refuse(decisions.default_class(), bytes as u32, Refusal::MALFORMED);
                refused.push(slot);
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, Reason::Malformed, view);
                }
                return;
            };
            if let Some(taps) = &mut taps {
                taps.pass(now, id, Direction::In, view);
            }
            let is_report = wire::room::may_be(header.destination()) && gate.intercept(id, view);
            if LOGICAL && !is_report {
                let sent = (slot, Size { bytes: bytes as u32, frames: frames as u16 }, view);
                let class = match header.tag() {
                    None => untagged,
                    Some(_) => decisions.class_of(&header),
                };
                let logical = logical.as_deref_mut().expect("a port of theirs is attached");
                if let Some(refusal) = place(now, id, logical, &mut visit, class, sent, gathered) {
                    refused.push(slot);
                    if let (Some(refusal), Some(taps)) = (refusal, taps) {
                        taps.explain(logical.why().map(ToString::to_string));
                        taps.refuse(now, id, None, refusal.reason(), view);
                    }
                }
                return;
            }
            let is_question = network != Network::default() && responder.may_answer(id, view);
            let intercepted = match is_question {
                true => responder.intercept(id, view),
                false => Intercepted::Passes,
            };
            if is_report || intercepted == Intercepted::Taken {
                refused.push(slot);
                return;
            }
            let size = Size { bytes: bytes as u32, frames: frames as u16 };
            if let Intercepted::Refused(refusal) = intercepted {
                visit.refuse(decisions.class_of(&header), size.bytes, refusal);
                refused.push(slot);
                if let Some(taps) = taps {
                    taps.refuse(now, id, None, refusal.reason(), view);
                }
                return;
            }
            if decisions.repeats(&header, network) && visit.repeat(slot, size) {
                return;
            }
            match decisions.decide(&header, network) {
                Decision { class, verdict: Verdict::Forward(to) } => {
                    let is_for_many = matches!(to, Destination::Many(_));
                    let offered = visit.offer(to, class, slot, size);
                    if is_for_many {
                        overhear(&mut decisions, &header, network, view);
                    }
                    match offered {
                        Offered::Held => return,
                        Offered::Refused(..) => {}
                        Offered::Full(_) | Offered::Through(_) => unreachable!("{HAS_ROOM}"),
                    }
                }
                Decision { class, verdict: Verdict::Refuse(refusal) } => {
                    // Who sends too much for groups that nobody has joined may say that it leaves.
                    if refusal.reason() == Reason::MulticastLimit {
                        overhear(&mut decisions, &header, network, view);
                    }
                    visit.refuse(class, size.bytes, refusal);
                    if let Some(taps) = taps {
                        taps.refuse(now, id, None, refusal.reason(), view);
                    }
                }
            }
            refused.push(slot);
        };
        let End::Device(device) = end else { unreachable!("the uplink is known") };
        let received = loop {
            // One at a time, as long as their sender's token bucket is not in debt. Where a visit
            // may take only so long, a few at a time.
            let burst = match pace {
                Some(_) => 1,
                None if WATCHED && booking.is_bounded() => most.min(device.frames_a_look()),
                None => most,
            };
            taken.set(0);
            let left = device.receive(burst as usize, &mut arrived);
            most -= burst;
            let is_held = pace.as_mut().is_some_and(|pace| {
                pace.take(now, taken.get() as u64);
                pace.ready_at() > now
            });
            if most == 0
                || is_held
                || !matches!(left, Ok(Left::More))
                || WATCHED && booking.is_over()
            {
                break left;
            }
        };
        drop(visit);
        match received {
            Ok(Left::Full) if !moved => switch.pause(now, id),
            Ok(Left::Full | Left::More) => {}
            Ok(Left::Silence) => unarmed.insert(id),
            Ok(Left::Nothing) => rx_ready.remove(id),
            Ok(Left::Armed) => {
                rx_ready.remove(id);
                armed.ingress.insert(id);
            }
            Err(error) => line.failed = Some(error),
        }
        if WATCHED && let Some(taps) = taps {
            show_refused(now, switch, taps, |_, slot| line.end.frame(slot));
        }
        for slot in refused.drain(..) {
            line.end.release(slot, None);
        }
        if switch.copies_held(id) >= MOST_COPIES {
            line.device().keep(BURST as usize);
        }
        switch.set_absent(id, line.is_absent());
        // Even if it received nothing: that the ring was seen empty may be what a grant was waiting
        // for.
        needs_flush.insert(id);
        moved
    }
}

/// Has the datapath hear what a frame for many says of who is in which group.
#[cold]
pub fn overhear(decisions: &mut Visit<'_>, header: &Peek, network: Network, view: &FrameView<'_>) {
    if header.destination().is_multicast() {
        let mut scratch = [0; LONGEST_REPORT];
        decisions.overhear(header, network, view.first(&mut scratch));
    }
}

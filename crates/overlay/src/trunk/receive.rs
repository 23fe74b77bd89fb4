//! Datagrams from a far host, and their frames until the plane polls them.

use std::collections::VecDeque;

use datapath::Network;
use lossless::Refusal;
use plane::Event;
use port::Slot;
use tunnel::message::{Cut, Message, OPTION_CLASS};
use tunnel::outer::{Encapsulation, Received};
use tunnel::quota::Claim;
use tunnel::{Answer, Arrival, Data, Epoch, Part, Payload, Report, Session, Stream};
use units::Instant;
use wire::Layout;
use wire::ecn::Ecn;

use super::assembly::{Assembly, Kept};
use super::config::flow_of;
use super::cut::piece_of;
use super::state::{Piece, Trunk};
use crate::downlinks::Place;
use crate::shared::{Networks, Shared};
use crate::slots::Slots;

/// The shortest part that is not the last, in bytes: a packet of 576 bytes, which every network
/// carries, has room for it.
pub(super) const LEAST_PART: usize = 256;

/// The code of a frame that a rule rejects: its sender is to be told.
pub(super) const REJECTED: u16 = 1;
/// That of one that a rule drops: its sender is told nothing, its sender's host has to know.
pub(super) const DROPPED: u16 = 2;

impl Trunk {
    /// Handles a datagram from the far host. Returns whether that host has restarted: then its
    /// paths are to be settled ([`Self::settle`]).
    pub fn handle(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        received: &Received<'_>,
        payload: &[u8],
    ) -> bool {
        let message = match received.encapsulation {
            Encapsulation::Geneve => Message::parse(received.options),
            _ => None,
        };
        let Self { session, assembly, paths, held, has_changed, .. } = self;
        match (message, session) {
            (Some(Message::Hello(hello)), Some(session)) => {
                let (resets, epoch) = (session.counters().resets, session.epoch());
                let slots = &mut shared.slots;
                session.handle_hello(now, &hello, |kept| assembly.forget(slots, kept));
                end_epoch(assembly, slots, session, epoch);
                if session.epoch() != epoch {
                    shared.downlinks.forget(assembly.owner());
                }
                // Each stream may have other credit now.
                *has_changed = true;
                shared.events.extend(std::mem::take(held).into_iter().map(Event::Unblocked));
                if session.counters().resets > resets {
                    paths.begin_anew();
                    return true;
                }
            }
            (Some(Message::Report(report)), Some(_)) => self.handle_report(now, shared, &report),
            (Some(Message::Data(data, report)), Some(session)) => {
                // A packet of an earlier incarnation is counted as stale once.
                let report = report.filter(|report| session.is_between(report.ends));
                // It may complete the handshake.
                *has_changed |= !session.is_established();
                report.iter().for_each(|report| self.handle_report(now, shared, report));
                self.handle_data(now, shared, received, &data, payload);
            }
            (None, _) if !received.is_control && !received.is_part && !is_of_session(received) => {
                if let Ok(slot) = self.keep(shared, received, payload) {
                    self.ready.push_back(slot);
                }
            }
            // The far end uses a session where none is declared here.
            _ => self.refused.malformed += 1,
        }
        false
    }

    fn handle_report(&mut self, now: Instant, shared: &mut Shared, report: &Report) {
        let peer = self.owner().peer;
        let Self {
            session: Some(session),
            path,
            assembly,
            spoiled,
            carried,
            anew,
            held,
            has_changed,
            ..
        } = self
        else {
            return;
        };
        let Shared { slots, events, downlinks, .. } = shared;
        session.handle_report(now, report, |Piece { flow, from, is_last, .. }, answer| {
            if is_last {
                // There is seldom any, and to look for one costs a hash.
                let missed =
                    from.filter(|_| !spoiled.is_empty()).and_then(|from| spoiled.remove(&from));
                let carried = from
                    .filter(|_| !carried.is_empty())
                    .and_then(|(port, slot)| carried.remove(&(flow.0, port, slot)));
                // Only logical ports move: their frames have a context.
                let is_moved = missed.is_none()
                    && carried.is_some()
                    && matches!(answer, Some(Answer::Moved { .. }));
                let missed = missed.or(answer.map(refusal_of));
                if is_moved {
                    anew.insert(flow);
                    events.push_back(Event::Returned(flow));
                } else {
                    events.push_back(Event::Completed(flow, missed));
                }
            }
        });
        *has_changed = true;
        let granted = report.grants.iter().map(|grant| flow_of(peer, grant.stream));
        let granted = granted.filter(|flow| held.remove(flow));
        events.extend(granted.map(Event::Unblocked));
        for ask in &report.window_probes {
            // The answer to a window probe may open the window.
            invite(assembly, slots, session, ask.stream);
            if let Some(progress) = session.progress(ask.stream) {
                let at = Place { link: *path, owner: assembly.owner(), stream: ask.stream };
                downlinks.asked(now, at, progress);
            }
        }
    }

    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        received: &Received<'_>,
        data: &Data,
        payload: &[u8],
    ) {
        if let Some(cut) = piece_of(received, data) {
            return self.handle_piece(now, shared, received, data, cut, payload);
        }
        self.handle_all(now, shared, received, data, payload, None);
    }

    /// Handles a whole frame or part: that of a packet, or what a card has `cut`.
    pub(super) fn handle_all(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        received: &Received<'_>,
        data: &Data,
        payload: &[u8],
        cut: Option<Cut>,
    ) {
        let brought = match received.is_control {
            true => Payload::Placeholder,
            false if !is_as_said(received, data) => {
                self.refused.malformed += 1;
                return;
            }
            false if is_early(shared, data) => Payload::NotYet,
            false => match self.keep_data(shared, received, payload, data, cut) {
                Ok(kept) => Payload::Frame(kept),
                // The frame is refused and its position consumed: otherwise it would be
                // retransmitted forever.
                Err(NoPlace::Network) => Payload::Unwanted,
                Err(NoPlace::Memory) => Payload::NoMemory,
            },
        };
        let Self { session: Some(session), path, assembly, ready, .. } = self else { return };
        let Shared { slots, networks, downlinks, .. } = shared;
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let is_unkept = matches!(brought, Payload::NoMemory);
        session.handle_data(now, data, is_marked, brought, |arrival| {
            settle(assembly, slots, ready, arrival);
        });
        if is_unkept
            && session.is_nacking(data.stream)
            && let Some(network) = networks.of_session(received.vni.number()).0
        {
            assembly.wait(data, network);
        }
        if let Some(progress) = session.progress(data.stream)
            && let Some(network) = networks.of_session(received.vni.number()).0
        {
            let at = Place { link: *path, owner: assembly.owner(), stream: data.stream };
            let len = payload.len().max(data.len.get().into());
            downlinks.received(now, at, network, progress, len);
        }
        bury(assembly, session);
    }

    /// Stores an arrived frame.
    fn keep(
        &mut self,
        shared: &mut Shared,
        received: &Received<'_>,
        payload: &[u8],
    ) -> Result<Slot, NoPlace> {
        let network = self.network(&shared.networks, received)?;
        let slots = &mut shared.slots;
        let (frame, class) = (&payload[received.frame.clone()], received.tag.map(|tag| tag.class));
        let kept = self.assembly.keep(slots, frame, network, class, received.offload);
        let Some(slot) = kept else {
            self.refused.no_memory += 1;
            return Err(NoPlace::Memory);
        };
        remark(slots, received, slot);
        Ok(slot)
    }

    /// Stores an arrived frame or part of a session.
    fn keep_data(
        &mut self,
        shared: &mut Shared,
        received: &Received<'_>,
        payload: &[u8],
        data: &Data,
        cut: Option<Cut>,
    ) -> Result<Kept, NoPlace> {
        let (network, is_declared) = shared.networks.of_session(received.vni.number());
        let network = network.ok_or_else(|| {
            self.refused.unknown_network += 1;
            NoPlace::Network
        })?;
        let slots = &mut shared.slots;
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let claim = self.session.as_ref().map_or(Claim::Unreliable, |session| session.claim(data));
        let bytes = &payload[received.frame.start..][..data.len.get().into()];
        let told = data.cut.and_then(|cut| wire::cut::offload(bytes, cut.size.get()));
        let with_told;
        let data = match told {
            Some(told) if data.offload.is_none() => {
                with_told = Data { offload: Some(told.emit()), ..*data };
                &with_told
            }
            _ => data,
        };
        let kept = self.assembly.keep_data(slots, data, is_marked, claim, bytes, network);
        let kept = kept.ok_or(NoPlace::Memory)?;
        if let Some(slot) = kept.slot {
            slots.get_mut(slot).is_orphan |= !is_declared;
            remark(slots, received, slot);
            // A card cuts nothing but TCP.
            let _ = cut.and_then(|cut| wire::cut::restore(slots.bytes_mut(slot), cut.flags));
        }
        Ok(kept)
    }

    /// The network of an arrived frame.
    fn network(
        &mut self,
        networks: &Networks,
        received: &Received<'_>,
    ) -> Result<Network, NoPlace> {
        networks.of_vni(received.vni.number()).ok_or_else(|| {
            self.refused.unknown_network += 1;
            NoPlace::Network
        })
    }

    /// Does what is due by now, before frames are polled or sent: delivers frames that waited in
    /// vain for earlier ones, marks frames as lost, and offers memory to streams that wait for it.
    pub fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let Self { session: Some(session), assembly, ready, held, has_changed, .. } = self else {
            return;
        };
        let (config, contradictions) = (&self.config, &mut self.contradictions);
        let Shared { slots, events, downlinks, .. } = shared;
        let epoch = session.epoch();
        session.handle_timeout(now, |arrival| settle(assembly, slots, ready, arrival));
        bury(assembly, session);
        end_epoch(assembly, slots, session, epoch);
        // Packets that count as lost are in flight no more.
        *has_changed = true;
        if session.epoch() == epoch {
            return;
        }
        downlinks.forget(assembly.owner());
        events.extend(std::mem::take(held).into_iter().map(Event::Unblocked));
        let found = session.counters().contradictions;
        if std::mem::replace(contradictions, found) < found {
            tracing::warn!(
                peer = %config.host,
                "a stream contradicted itself and begins anew: somebody in the underlay forges packets; `key` of [uplink] keeps them out"
            );
        }
    }
}

/// Copies the fabric's congestion mark into a frame's packet.
fn remark(slots: &mut Slots, received: &Received<'_>, slot: Slot) {
    let frame = slots.bytes_mut(slot);
    if let Some(class) = received.remark
        && let Some(layout) = Layout::of(frame)
    {
        // The layout was read from this header.
        let _ = layout.set_traffic_class(frame, class);
    }
}

/// Whether a frame is for a port of a logical network that this host may learn of soon.
fn is_early(shared: &Shared, data: &Data) -> bool {
    let Some(context) = &data.context else { return false };
    shared.known.as_ref().is_some_and(|known| known.is_early(data.stream.label, context))
}

/// Why a frame is refused that is given back.
fn refusal_of(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(REJECTED) => Refusal::REJECTED,
        Answer::Refused(_) => Refusal::LOGICAL_NETWORK,
        Answer::Unsupported => Refusal::UNFIT,
        Answer::Gone | Answer::Moved { .. } => Refusal::DETACHED,
    }
}

/// Whether a packet has an option of the session protocol.
fn is_of_session(received: &Received<'_>) -> bool {
    received.options.clone().any(|option| option.class == OPTION_CLASS)
}

/// Whether a packet agrees with its data message. More bytes may follow. A part that is not the
/// last fills a datagram, so that it is never tiny.
fn is_as_said(received: &Received<'_>, data: &Data) -> bool {
    let len = usize::from(data.len.get());
    len <= received.frame.len()
        && received.is_part == (data.part != Part::WHOLE)
        && (!data.part.more || len >= LEAST_PART)
}

/// Why an arrived frame is not stored.
enum NoPlace {
    /// This host has no such network.
    Network,
    /// There is no memory.
    Memory,
}

/// Lets a stream continue that waits for memory, if there is some for it.
pub(super) fn invite(
    assembly: &mut Assembly,
    slots: &Slots,
    session: &mut Session<Piece, Kept>,
    stream: Stream,
) {
    if session.is_nacking(stream) && assembly.welcomes(slots, stream) {
        session.memory_available(stream);
        assembly.go_on(stream);
    }
}

/// Does with an arrived frame what the session decided.
fn settle(
    assembly: &mut Assembly,
    slots: &mut Slots,
    ready: &mut VecDeque<Slot>,
    arrival: Arrival<Kept>,
) {
    match arrival {
        Arrival::Deliver { stream, from, offset, frame } => {
            ready.extend(assembly.advance(slots, frame, (stream, from, offset)));
        }
        Arrival::Release(frame) => assembly.forget(slots, frame),
        Arrival::Gap { stream } => assembly.tear(slots, stream),
    }
}

/// Drops incomplete frames of an earlier epoch, if a new one has begun.
fn end_epoch(
    assembly: &mut Assembly,
    slots: &mut Slots,
    session: &mut Session<Piece, Kept>,
    epoch: Epoch,
) {
    if session.epoch() != epoch {
        assembly.begin_epoch(slots, session.epoch());
        bury(assembly, session);
    }
}

/// Tells the session of frames that were dropped before they were whole.
fn bury(assembly: &mut Assembly, session: &mut Session<Piece, Kept>) {
    while let Some((stream, from, offset)) = assembly.torn() {
        session.consumed(stream, from, offset);
    }
}

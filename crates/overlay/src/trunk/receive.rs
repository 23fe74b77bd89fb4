//! Datagrams from a far host, and their frames until the plane polls them.

use std::collections::VecDeque;

use datapath::Network;
use port::Slot;
use tunnel::message::{Cut, Message, OPTION_CLASS};
use tunnel::outer::{Encapsulation, Received};
use tunnel::quota::Claim;
use tunnel::{Arrival, Data, Epoch, Part, Payload, Report, Session, Stream};
use units::Instant;
use wire::ecn::Ecn;
use wire::{Layout, Offload};

use super::cut::piece_of;
use super::frames::{Frames, Kept};
use super::state::{Piece, Trunk};

/// The shortest part that is not the last, in bytes: a packet of 576 bytes, which every network
/// carries, has room for it.
pub(super) const LEAST_PART: usize = 256;

impl Trunk {
    /// Handles a datagram from the far host. Returns whether something was learned of paths, which
    /// [`Self::settle`] puts into effect.
    pub fn handle(&mut self, now: Instant, received: &Received<'_>, payload: &[u8]) -> bool {
        let message = match received.encapsulation {
            Encapsulation::Geneve => Message::parse(received.options),
            _ => None,
        };
        let Self { session, frames, paths, .. } = self;
        match (message, session) {
            (Some(Message::Hello(hello)), Some(session)) => {
                let (resets, epoch) = (session.counters().resets, session.epoch());
                session.handle_hello(now, &hello, |kept| frames.forget(kept));
                end_epoch(frames, session, epoch);
                if session.counters().resets > resets {
                    paths.begin_anew();
                    return true;
                }
            }
            (Some(Message::Report(report)), Some(_)) => self.handle_report(now, &report),
            (Some(Message::Data(data, report)), Some(session)) => {
                // A packet of an earlier incarnation is counted as stale once.
                let report = report.filter(|report| session.is_between(report.ends));
                report.iter().for_each(|report| self.handle_report(now, report));
                self.handle_data(now, received, &data, payload);
            }
            (None, _) if !received.is_control && !received.is_part && !is_of_session(received) => {
                if let Ok(slot) = self.keep(received, payload) {
                    self.ready.push_back(slot);
                }
            }
            // The far end uses a session where none is declared here.
            _ => self.refused.malformed += 1,
        }
        false
    }

    fn handle_report(&mut self, now: Instant, report: &Report) {
        let Self { session: Some(session), frames, completed, spoiled, .. } = self else { return };
        session.handle_report(now, report, |Piece { flow, from, is_last, .. }| {
            if is_last {
                completed.push_back((flow, from.and_then(|from| spoiled.remove(&from))));
            }
        });
        // The answer to a window probe may open the window.
        report.window_probes.iter().for_each(|ask| invite(frames, session, ask.stream));
    }

    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        received: &Received<'_>,
        data: &Data,
        payload: &[u8],
    ) {
        if let Some(cut) = piece_of(received, data) {
            return self.handle_piece(now, received, data, cut, payload);
        }
        self.handle_all(now, received, data, payload, None);
    }

    /// Handles a whole frame or part: that of a packet, or what a card has `cut`.
    pub(super) fn handle_all(
        &mut self,
        now: Instant,
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
            false => match self.keep_data(received, payload, data, cut) {
                Ok(kept) => Payload::Frame(kept),
                // The frame is refused and its position consumed: otherwise it would be
                // retransmitted forever.
                Err(NoPlace::Network) => Payload::Placeholder,
                Err(NoPlace::Memory) => Payload::NoMemory,
            },
        };
        let Self { session: Some(session), frames, ready, .. } = self else { return };
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let is_unkept = matches!(brought, Payload::NoMemory);
        session
            .handle_data(now, data, is_marked, brought, |arrival| settle(frames, ready, arrival));
        if is_unkept && session.is_nacking(data.stream) {
            frames.wait(data);
        }
        bury(frames, session);
    }

    /// Stores an arrived frame.
    fn keep(&mut self, received: &Received<'_>, payload: &[u8]) -> Result<Slot, NoPlace> {
        let network = self.network(received)?;
        let (frame, class) = (&payload[received.frame.clone()], received.tag.map(|tag| tag.class));
        let Some(slot) = self.frames.keep(frame, network, class, received.offload) else {
            self.refused.no_memory += 1;
            return Err(NoPlace::Memory);
        };
        self.remark(received, slot);
        Ok(slot)
    }

    /// Stores an arrived frame or part of a session.
    fn keep_data(
        &mut self,
        received: &Received<'_>,
        payload: &[u8],
        data: &Data,
        cut: Option<Cut>,
    ) -> Result<Kept, NoPlace> {
        let network = self.network(received)?;
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let claim = self.session.as_ref().map_or(Claim::Unreliable, |session| session.claim(data));
        let bytes = &payload[received.frame.start..][..data.len.get().into()];
        let told = data.cut.and_then(|cut| wire::cut::offload(bytes, cut.size.get()));
        let offload = data.offload.or_else(|| told.map(Offload::emit));
        let data = &Data { offload, ..*data };
        let kept =
            self.frames.keep_data(data, is_marked, claim, bytes, network).ok_or(NoPlace::Memory)?;
        if let Some(slot) = kept.slot {
            self.remark(received, slot);
            // A card cuts nothing but TCP.
            let _ = cut.and_then(|cut| wire::cut::restore(self.frames.bytes_mut(slot), cut.flags));
        }
        Ok(kept)
    }

    /// The network of an arrived frame.
    fn network(&mut self, received: &Received<'_>) -> Result<Network, NoPlace> {
        let network = self.networks.by_vni.get(&received.vni.number()).copied();
        network.ok_or_else(|| {
            self.refused.unknown_network += 1;
            NoPlace::Network
        })
    }

    /// Copies the fabric's congestion mark into a frame's packet.
    fn remark(&mut self, received: &Received<'_>, slot: Slot) {
        let frame = self.frames.bytes_mut(slot);
        if let Some(class) = received.remark
            && let Some(layout) = Layout::of(frame)
        {
            // The layout was read from this header.
            let _ = layout.set_traffic_class(frame, class);
        }
    }

    /// Does what is due by now, before frames are polled or sent: delivers frames that waited in
    /// vain for earlier ones, marks frames as lost, and offers memory to streams that wait for it.
    pub(super) fn handle_due(&mut self, now: Instant) {
        let Self { session: Some(session), frames, ready, .. } = self else { return };
        let epoch = session.epoch();
        session.handle_timeout(now, |arrival| settle(frames, ready, arrival));
        bury(frames, session);
        end_epoch(frames, session, epoch);
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
pub(super) fn invite(frames: &mut Frames, session: &mut Session<Piece, Kept>, stream: Stream) {
    if session.is_nacking(stream) && frames.welcomes(stream) {
        session.memory_available(stream);
        frames.go_on(stream);
    }
}

/// Does with an arrived frame what the session decided.
fn settle(frames: &mut Frames, ready: &mut VecDeque<Slot>, arrival: Arrival<Kept>) {
    match arrival {
        Arrival::Deliver { stream, from, offset, frame } => {
            ready.extend(frames.turn(frame, (stream, from, offset)));
        }
        Arrival::Release(frame) => frames.forget(frame),
        Arrival::Gap { stream } => frames.tear(stream),
    }
}

/// Drops incomplete frames of an earlier epoch, if a new one has begun.
fn end_epoch(frames: &mut Frames, session: &mut Session<Piece, Kept>, epoch: Epoch) {
    if session.epoch() != epoch {
        frames.begin_epoch(session.epoch());
        bury(frames, session);
    }
}

/// Tells the session of frames that were dropped before they were whole.
fn bury(frames: &mut Frames, session: &mut Session<Piece, Kept>) {
    while let Some((stream, from, offset)) = frames.torn() {
        session.consumed(stream, from, offset);
    }
}

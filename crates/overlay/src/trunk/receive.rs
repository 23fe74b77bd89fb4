//! What comes by a trunk, until the switch lifts it.

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

/// The least of a part that others follow, in bytes: packets of 576 bytes, which all carry, have room for it.
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
                let (resets, era) = (session.counters().resets, session.epoch());
                session.handle_hello(now, &hello, |kept| frames.forget(kept));
                end_era(frames, session, era);
                if session.counters().resets > resets {
                    paths.begin_anew();
                    return true;
                }
            }
            (Some(Message::Report(report)), Some(_)) => self.handle_report(now, &report),
            (Some(Message::Data(data, report)), Some(session)) => {
                // Of another life, the packet is stale once.
                let report = report.filter(|report| session.is_between(report.ends));
                report.iter().for_each(|report| self.handle_report(now, report));
                self.handle_data(now, received, &data, payload);
            }
            (None, _) if !received.is_control && !received.is_part && !is_of_session(received) => {
                if let Ok(slot) = self.keep(received, payload) {
                    self.ready.push_back(slot);
                }
            }
            // A far end that speaks of sessions where none was declared.
            _ => self.refused.malformed += 1,
        }
        false
    }

    fn handle_report(&mut self, now: Instant, report: &Report) {
        let Self { session: Some(session), frames, completed, spoilt, .. } = self else { return };
        session.handle_report(now, report, |Piece { flow, from, is_last, .. }| {
            if is_last {
                completed.push_back((flow, from.and_then(|from| spoilt.remove(&from))));
            }
        });
        // Who asks may go on.
        report.window_probes.iter().for_each(|ask| invite(frames, session, ask.stream));
    }

    pub(super) fn handle_data(&mut self, now: Instant, received: &Received<'_>, data: &Data, payload: &[u8]) {
        if let Some(cut) = piece_of(received, data) {
            return self.handle_piece(now, received, data, cut, payload);
        }
        self.handle_all(now, received, data, payload, None);
    }

    /// All of what a packet speaks of has come, or of what a card has `cut`.
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
                // It is refused, and its place taken: it would come again and again otherwise.
                Err(NoPlace::Network) => Payload::Placeholder,
                Err(NoPlace::Memory) => Payload::NoMemory,
            },
        };
        let Self { session: Some(session), frames, ready, .. } = self else { return };
        let is_marked = Ecn::of(received.traffic_class) == Ecn::Ce;
        let is_unkept = matches!(brought, Payload::NoMemory);
        session.handle_data(now, data, is_marked, brought, |arrival| settle(frames, ready, arrival));
        if is_unkept && session.is_nacking(data.stream) {
            frames.wait(data);
        }
        bury(frames, session);
    }

    /// Puts a frame that has come into memory.
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

    /// Puts what a session has brought into memory.
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
        let kept = self.frames.keep_data(data, is_marked, claim, bytes, network).ok_or(NoPlace::Memory)?;
        if let Some(slot) = kept.slot {
            self.remark(received, slot);
            // What carries no TCP was not cut.
            let _ = cut.and_then(|cut| wire::cut::restore(self.frames.bytes_mut(slot), cut.flags));
        }
        Ok(kept)
    }

    /// The network of what has come.
    fn network(&mut self, received: &Received<'_>) -> Result<Network, NoPlace> {
        let network = self.networks.by_vni.get(&received.vni.number()).copied();
        network.ok_or_else(|| {
            self.refused.unknown_network += 1;
            NoPlace::Network
        })
    }

    /// Has a frame's packet say what the fabric has marked.
    fn remark(&mut self, received: &Received<'_>, slot: Slot) {
        let frame = self.frames.bytes_mut(slot);
        if let Some(class) = received.remark
            && let Some(layout) = Layout::of(frame)
        {
            // It was read from this very header.
            let _ = layout.set_traffic_class(frame, class);
        }
    }

    /// Does what time asks for, before anything is lifted or sent: what was waited for in vain is ready, what is lost is to be sent again,
    /// and there may be room for more.
    pub(super) fn handle_due(&mut self, now: Instant) {
        let Self { session: Some(session), frames, ready, .. } = self else { return };
        let era = session.epoch();
        session.handle_timeout(now, |arrival| settle(frames, ready, arrival));
        bury(frames, session);
        end_era(frames, session, era);
    }
}

/// Whether a packet says that it belongs to a session, whatever else it says.
fn is_of_session(received: &Received<'_>) -> bool {
    received.options.clone().any(|option| option.class == OPTION_CLASS)
}

/// Whether what has come is what is said of it; there may be more bytes behind it. A part that others follow fills a datagram, so that it
/// is never tiny.
fn is_as_said(received: &Received<'_>, data: &Data) -> bool {
    let len = usize::from(data.len.get());
    len <= received.frame.len()
        && received.is_part == (data.part != Part::WHOLE)
        && (!data.part.more || len >= LEAST_PART)
}

/// Why a frame that has come is not put into memory.
enum NoPlace {
    /// Its network is not here.
    Network,
    /// There is no memory.
    Memory,
}

/// Has a stream go on that waits for memory, if there is some for it.
pub(super) fn invite(frames: &mut Frames, session: &mut Session<Piece, Kept>, stream: Stream) {
    if session.is_nacking(stream) && frames.welcomes(stream) {
        session.memory_available(stream);
        frames.go_on(stream);
    }
}

/// Does with a frame that has come what the session says.
fn settle(frames: &mut Frames, ready: &mut VecDeque<Slot>, arrival: Arrival<Kept>) {
    match arrival {
        Arrival::Deliver { stream, from, offset, frame } => {
            ready.extend(frames.turn(frame, (stream, from, offset)));
        }
        Arrival::Release(frame) => frames.forget(frame),
        Arrival::Gap { stream } => frames.tear(stream),
    }
}

/// If streams are counted anew since that era, what came in it is no part of what will come.
fn end_era(frames: &mut Frames, session: &mut Session<Piece, Kept>, era: Epoch) {
    if session.epoch() != era {
        frames.begin_era(session.epoch());
        bury(frames, session);
    }
}

/// Nobody will take what was not put together.
fn bury(frames: &mut Frames, session: &mut Session<Piece, Kept>) {
    while let Some((stream, from, offset)) = frames.torn() {
        session.consumed(stream, from, offset);
    }
}

//! Frames that are sent to a far host, and those that are retransmitted.

use std::num::NonZeroU16;

use datapath::Origin;
use lossless::{Flow, Load, PortId, Refusal};
use plane::{Event, Leaving, Senders, Sent};
use port::{FrameView, Slot};
use tunnel::{Admission, Data, Lane, MAX_FRAME_LEN, Session, Stream};
use underlay::Turn;
use units::Instant;
use wire::Layout;

use super::assembly::Kept;
use super::channel::Sealer;
use super::config::{host_hash, lane_of, stream_of};
use super::liveness::Liveness;
use super::out::{CONTEXT_LEN, Going, Out, is_large, part_len};
use super::paths::Path;
use super::receive::LEAST_PART;
use super::state::{Begun, Halt, Piece, Trunk, origin_in};
use super::stt;
use crate::shared::{LOGICAL, Shared, context_of};

impl Trunk {
    /// Sends a frame of this flow, or as much of it as may go now: then it is in flight, and
    /// [`Self::resume_begun`] sends the rest.
    pub(super) fn send_frame(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        flow: Flow,
        leaving: &Leaving<'_>,
    ) -> Result<Sent, Halt> {
        if self.is_paused(flow) {
            return Err(Halt::Paused);
        }
        if self.liveness == Liveness::Down || !self.want_channel(now) {
            return Err(Halt::Window);
        }
        let Some(session) = &self.session else {
            return self.send_plain(now, shared, leaving);
        };
        if leaving.origin.is_some() {
            match session.carries_contexts() {
                Some(true) => {}
                Some(false) => return Err(Halt::Unfit),
                None => return Err(Halt::Window),
            }
        }
        let lane = lane_of(leaving.network);
        if let Some(waits) = self.waits_for_rest(lane) {
            return Err(waits);
        }
        if self.begun.contains_key(&flow) {
            return Err(Halt::Credit);
        }
        let Leaving { port, slot, .. } = *leaving;
        // Whoever sends it knows that all before it has ended: some came back.
        let is_anew = !self.anew.is_empty() && self.anew.contains(&flow);
        let origin = leaving.origin.map(|origin| Origin { is_anew, ..origin });
        let sent = self.send_from(now, shared, flow, &Leaving { origin, ..*leaving }, 0);
        if let Some(origin) = origin
            && !matches!(sent, Err((0, _)))
        {
            self.carried.insert((flow.0, port, slot), origin);
            if is_anew {
                self.anew.remove(&flow);
            }
        }
        match sent {
            Ok(()) if self.config.is_reliable(stream_of(flow).class) => Ok(Sent::Underway),
            Ok(()) => {
                self.carried.remove(&(flow.0, port, slot));
                Ok(Sent::Gone)
            }
            Err((0, waits)) => Err(waits),
            Err((sent, waits)) => {
                self.rest_waits_for_link |= waits == Halt::Link;
                self.begun.insert(flow, Begun { from: Some((port, slot)), sent, waits, lane });
                Ok(Sent::Underway)
            }
        }
    }

    /// What the rest of a frame that was sent in part waits for, if all others of a lane have to
    /// wait as well: it goes first.
    pub(super) fn waits_for_rest(&self, lane: Lane) -> Option<Halt> {
        let going = self.begun.iter().filter(|(flow, _)| !self.is_paused(**flow));
        let is_first = |begun: &&Begun| match begun.waits {
            Halt::Window => begun.lane == lane,
            waits => matches!(waits, Halt::Link | Halt::Kernel),
        };
        going.map(|(_, begun)| begun).find(is_first).map(|begun| begun.waits)
    }

    /// Sends a frame without a session.
    fn send_plain(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        leaving: &Leaving<'_>,
    ) -> Result<Sent, Halt> {
        let Self { config, paths, channel, .. } = self;
        let Shared { networks, scratch, cut, .. } = shared;
        // No other encapsulation has room for what goes with a frame of a logical network.
        let is_plain = leaving.origin.is_none();
        let vni = networks.vni(leaving.network).filter(|_| is_plain).ok_or(Halt::Unfit)?;
        let bytes = whole(&leaving.view, scratch);
        let (stt, left) = stt::begin(config, vni, bytes, leaving.view.offload());
        let pieces = wire::segments(bytes, left).map_err(|_| Halt::Unfit)?;
        let flow = wire::flow::hash(bytes, bytes.len());
        let Path { underlay, far } = paths.get(paths.of(flow));
        let mut underlay = underlay.borrow_mut();
        let inner = networks.shown(leaving.network, traffic_class(bytes));
        let marking = config.marking(leaving.class, inner);
        let sealer = Sealer::of(channel, now);
        let mut out = Out { config, underlay: &mut underlay, vni, marking, sealer };
        if !out.underlay.has_room(flow) {
            return Err(Halt::Kernel);
        }
        if !out.underlay.is_ready(Turn::New) {
            return Err(Halt::Link);
        }
        let longest = out.longest_plain();
        for piece in pieces {
            if piece.len() <= longest {
                out.put_plain(*far, flow, &stt, piece.len(), |to| put(piece.write(to)));
                continue;
            }
            // A router would do the same: the far end knows no parts.
            cut.resize(piece.len(), 0);
            let piece = piece.write(cut).ok_or(Halt::Unfit)?;
            for fragment in wire::fragments(piece, longest).ok_or(Halt::Unfit)? {
                out.put_plain(*far, flow, &stt, fragment.len(), |to| put(fragment.write(to)));
            }
        }
        Ok(Sent::Gone)
    }

    /// Sends a frame of a session from the offset `first` on. If not all of it may go now, returns
    /// the offset of the next part, and what it waits for.
    fn send_from(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        flow: Flow,
        leaving: &Leaving<'_>,
        first: usize,
    ) -> Result<(), (usize, Halt)> {
        let Self { config, underlay, session: Some(session), channel, report_waits, .. } = self
        else {
            return Err((first, Halt::Unfit));
        };
        let Shared { networks, scratch, .. } = shared;
        let Leaving { port, slot, network, view, .. } = *leaving;
        let bytes = whole(&view, scratch);
        let context = leaving.origin.map(context_of);
        let most = config.most - if context.is_some() { CONTEXT_LEN } else { 0 };
        let going = match first {
            0 => Going::new(bytes, view.offload(), most),
            _ => Going::in_parts(bytes, view.offload(), most),
        };
        let vni = if context.is_some() { Some(LOGICAL) } else { networks.vni(network) };
        let (Some(vni), Some(going)) = (vni, going) else { return Err((first, Halt::Unfit)) };
        let mut underlay = underlay.borrow_mut();
        let (lane, stream) = (lane_of(network), stream_of(flow));
        let marking = config.marking(stream.class, networks.shown(network, traffic_class(bytes)));
        // A card would change what is sealed.
        let may_be_cut = first == 0 && !config.obeys_pauses && channel.is_none();
        let sealer = Sealer::of(channel, now);
        let mut out = Out { config, underlay: &mut underlay, vni, marking, sealer };
        // Asked once per frame: a large segment must not be split where the socket's queue is full.
        if !out.underlay.has_room(host_hash(config.far)) {
            return Err((first, Halt::Kernel));
        }
        if !out.underlay.is_ready(if first == 0 { Turn::New } else { Turn::Rest }) {
            return Err((first, Halt::Link));
        }
        let handle =
            |begin, is_last| Piece { flow, from: Some((port, slot)), begin: Some(begin), is_last };
        let large = going
            .large(context.is_some())
            .filter(|_| may_be_cut && config.is_reliable(stream.class));
        if let Some(large) = large
            && session.may_send_large(now, lane, large.len)
            && out.underlay.carries_large(config.far)
        {
            match may_send(session, lane, stream, large.len, false) {
                Ok(()) => {
                    let data = session.send_large(now, stream, large.len, handle(0, true));
                    let data = Data { context, ..data };
                    out.put_large(&data, bytes, large);
                    return Ok(());
                }
                // Of credit that comes in pieces, there may never be so much at once.
                Err(Halt::Credit) if !session.is_granted_in_pieces(stream.class) => {
                    return Err((0, Halt::Credit));
                }
                // To wait for so much room at once would be to wait forever, because other frames
                // take it.
                Err(_) => {}
            }
        }
        let mut begin = first;
        while let Some((len, is_last)) = going.part(begin) {
            if begin > first && !out.underlay.is_ready(Turn::Rest) {
                return Err((begin, Halt::Link));
            }
            may_send(session, lane, stream, len, begin > 0).map_err(|waits| (begin, waits))?;
            let data = session.send(now, stream, len, handle(begin as u32, is_last));
            let data = Data { context: context.filter(|_| begin == 0), ..data };
            let report =
                out.may_piggyback(&data).then(|| session.piggyback(stream.class)).flatten();
            // What the report did not tell has waited its turn.
            *report_waits &= report.is_none() || session.may_piggyback();
            out.put(&data, report.as_ref(), &going, begin);
            begin += usize::from(len.get());
        }
        if first < begin { Ok(()) } else { Err((first, Halt::Unfit)) }
    }

    /// Sends more of large segments that were sent in part, as far as they may go now. Returns
    /// whether anything was sent.
    pub(super) fn resume_begun(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        senders: &impl Senders,
    ) -> bool {
        let mut moved = false;
        if self.liveness == Liveness::Down || !self.is_channel_open() {
            return false;
        }
        let flows: Vec<_> =
            self.begun.keys().copied().filter(|flow| !self.is_paused(*flow)).collect();
        for flow in flows {
            let Begun { from, sent, lane, .. } = self.begun[&flow];
            let outcome = match from {
                None => Err((sent, Halt::Unfit)),
                Some((port, slot)) => {
                    let (network, view) = (senders.network(port), senders.frame(port, slot));
                    let class = stream_of(flow).class;
                    let origin = origin_in(&self.carried, flow, from);
                    let leaving = Leaving { port, slot, network, class, view, origin };
                    self.send_from(now, shared, flow, &leaving, sent)
                }
            };
            let outcome = match outcome {
                // The guest has withdrawn the memory of the rest, or its network or port is gone.
                Err((sent, Halt::Unfit)) => {
                    let ended = self.end(now, flow, from, lane);
                    if let (Ok(()), Some((port, slot))) = (ended, from) {
                        let view = senders.frame(port, slot);
                        self.spoiled.insert((port, slot), why_unfit(&view));
                    }
                    ended.map_err(|waits| (sent, waits))
                }
                outcome => outcome,
            };
            match outcome {
                Ok(()) => {
                    (moved, self.has_changed) = (true, true);
                    self.begun.remove(&flow);
                    if self.held.remove(&flow) {
                        shared.events.push_back(Event::Unblocked(flow));
                    }
                    if let Some(from) = from
                        && !self.config.is_reliable(stream_of(flow).class)
                    {
                        let missed = self.spoiled.remove(&from);
                        self.carried.remove(&(flow.0, from.0, from.1));
                        shared.events.push_back(Event::Completed(flow, missed));
                    }
                }
                Err((now_sent, waits)) => {
                    moved |= now_sent > sent;
                    self.rest_waits_for_link |= waits == Halt::Link;
                    self.begun.insert(flow, Begun { from, sent: now_sent, waits, lane });
                }
            }
        }
        moved
    }

    /// Ends a large segment early with a part that has no bytes. When that is acknowledged, the
    /// sender gets its frame back if it is still attached.
    fn end(
        &mut self,
        now: Instant,
        flow: Flow,
        from: Option<(PortId, Slot)>,
        lane: Lane,
    ) -> Result<(), Halt> {
        let Self { config, underlay, session: Some(session), channel, .. } = self else {
            return Ok(());
        };
        let stream = stream_of(flow);
        let mut underlay = underlay.borrow_mut();
        if !underlay.has_room(host_hash(config.far)) {
            return Err(Halt::Kernel);
        }
        may_send(session, lane, stream, NonZeroU16::MIN, true)?;
        let handle = Piece { flow, from, begin: None, is_last: from.is_some() };
        let data = session.send(now, stream, NonZeroU16::MIN, handle);
        let marking = config.marking(stream.class, 0);
        let sealer = Sealer::of(channel, now);
        Out { config, underlay: &mut underlay, vni: 0, marking, sealer }.put_place(&data);
        Ok(())
    }

    /// Retransmits what was lost, as far as it may go now. Returns whether anything was sent.
    pub(super) fn retransmit_lost(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        senders: &impl Senders,
    ) -> bool {
        // A pause of one class delays retransmissions of all: links that pause lose little.
        if self.paused != 0 || self.liveness == Liveness::Down || !self.is_channel_open() {
            return false;
        }
        let Self { config, underlay, session: Some(session), channel, spoiled, carried, .. } = self
        else {
            return false;
        };
        let Shared { networks, scratch, events, .. } = shared;
        let most_of = |piece: &Piece| {
            let origin = origin_in(carried, piece.flow, piece.from);
            config.most - if origin.is_some() { CONTEXT_LEN } else { 0 }
        };
        let mut underlay = underlay.borrow_mut();
        let mut moved = false;
        while underlay.has_room(host_hash(config.far)) {
            if !underlay.is_ready(Turn::Rest) {
                self.rest_waits_for_link = true;
                break;
            }
            let divide = |piece: Piece, len| in_two(piece, len, most_of(&piece));
            let Some((handle, data)) = session.retransmit_divided(now, divide) else { break };
            moved = true;
            let marking = config.marking(data.stream.class, 0);
            let sealer = Sealer::of(channel, now);
            let mut out = Out { config, underlay: &mut underlay, vni: 0, marking, sealer };
            let Some(piece @ Piece { from: Some((port, slot)), begin: Some(begin), .. }) = handle
            else {
                out.put_place(&data);
                continue;
            };
            let most = most_of(&piece);
            let origin = origin_in(carried, piece.flow, piece.from);
            let context = origin.map(context_of);
            // The far host's next incarnation may be of an earlier version.
            let is_known = context.is_none() || session.carries_contexts() == Some(true);
            let data = Data { context: context.filter(|_| begin == 0), ..data };
            let view = senders.frame(port, slot);
            let bytes = whole(&view, scratch);
            let network = senders.network(port);
            out.vni = match context {
                Some(_) => LOGICAL,
                None => networks.vni(network).unwrap_or(0),
            };
            let inner = networks.shown(network, traffic_class(bytes));
            out.marking = config.marking(data.stream.class, inner);
            let going = match usize::from(data.len.get()) == bytes.len() {
                true => Going::new(bytes, view.offload(), most),
                false => Going::in_parts(bytes, view.offload(), most),
            };
            let going = going.filter(|going| is_known && going.has(begin as usize, data.len));
            let load = Load { frames: 1, bytes: data.len.get().into() };
            events.push_back(Event::Resent(port, load));
            // Of a frame whose guest has withdrawn its memory only the position is sent.
            if going.is_none() {
                spoiled.insert((port, slot), why_unfit(&view));
            }
            match &going {
                Some(going) => out.put(&data, None, going, begin as usize),
                None => out.put_place(&Data { context: None, ..data }),
            }
        }
        moved
    }
}

/// Whether a frame may be sent on a stream. If not, what it waits for.
fn may_send(
    session: &mut Session<Piece, Kept>,
    lane: Lane,
    stream: Stream,
    len: NonZeroU16,
    continues: bool,
) -> Result<(), Halt> {
    match session.admit(lane, stream, len, continues) {
        Admission::Go => Ok(()),
        Admission::NoCredit if session.waits_for_grant(stream, len) => Err(Halt::Credit),
        // As many frames are in flight as may be, or as many streams: others' progress ends that.
        Admission::NoCredit => Err(Halt::Window),
        Admission::NoSession | Admission::NoWindow => Err(Halt::Window),
    }
}

/// Divides what was lost for retransmission if it exceeds a datagram, because a card has cut it or
/// datagrams have become shorter: a first part that fits, and the rest.
fn in_two(piece: Piece, len: NonZeroU16, most: usize) -> Option<[(Piece, NonZeroU16); 2]> {
    let begin = piece.begin.filter(|_| is_large(len, most))?;
    let first =
        part_len(begin as usize, most).min(usize::from(len.get()).saturating_sub(LEAST_PART));
    let first = NonZeroU16::new(first as u16)?;
    let rest = NonZeroU16::new(len.get() - first.get())?;
    let next = begin + u32::from(first.get());
    Some([(Piece { is_last: false, ..piece }, first), (Piece { begin: Some(next), ..piece }, rest)])
}

/// Ends the writing of a frame for which room was made.
fn put(written: Option<&mut [u8]>) {
    written.expect("there is room for as many bytes as it has");
}

/// Why a frame cannot be sent any further.
fn why_unfit(view: &FrameView<'_>) -> Refusal {
    if view.bytes.is_empty() { Refusal::WITHDRAWN } else { Refusal::UNFIT }
}

/// All of a frame's bytes, where they are or copied to `scratch`.
fn whole<'a>(view: &FrameView<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !view.rest.is_empty() {
        scratch.resize(MAX_FRAME_LEN as usize, 0);
    }
    view.first(scratch)
}

/// The traffic class of the packet in a frame; 0 if there is none.
fn traffic_class(frame: &[u8]) -> u8 {
    Layout::of(frame).and_then(|layout| layout.traffic_class(frame)).unwrap_or(0)
}

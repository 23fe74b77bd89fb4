//! The sending half of a session: all streams, the lanes' congestion windows, the limit of
//! outstanding frames.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU16;

use units::{Class, Instant};

use crate::answer::Answer;
use crate::config::SessionConfig;
use crate::exchange::{Admission, Lane, PathMetrics};
use crate::lanes::Lanes;
use crate::large::LargeBackoff;
use crate::message::{CreditGrant, Data, Ends, Report, Return, Stream, Unsolicited, WindowProbe};
use crate::number::expand;
use crate::recovery::{Packet, Recovery};
use crate::send_stream::SendStream;
use crate::window_probe::WindowProbes;

/// The outstanding frames that each stream may have, however many others wait.
const MIN_OUTSTANDING: usize = 4;

/// The probes of a class without any acknowledgement after which the window collapses (RFC 9002
/// §7.6.1).
const PERSISTENT: u32 = 3;

/// The probes of a class that carry no frame, since its last acknowledgement. A peer that is only
/// late has then received nothing twice; and of more of them than this, each would take memory.
const BARE: u32 = 6;

/// What asks the peer which packets it has received.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// A position of a stream that was consumed.
    Bare(Stream, u64),
    /// A frame that is retransmitted.
    Frame(Stream, u64),
}

/// A packet that is sent again, or that probes.
#[derive(Clone, Copy, Debug)]
pub enum Again<F> {
    /// A frame: its handle, which is `None` if it was withdrawn, and the header of its packet.
    Frame(Option<F>, Data),
    /// The header of a packet without a frame.
    Probe(Data),
}

/// All streams to one incarnation of the peer. Our owner knows a frame by its handle `F`.
#[derive(Clone, Debug)]
pub struct Sender<F> {
    config: SessionConfig,
    streams: BTreeMap<Stream, SendStream<F>>,
    /// What the peer accepts of each stream before the first grant.
    unsolicited: Unsolicited,
    recovery: Recovery,
    lanes: Lanes,
    large: LargeBackoff,
    /// Outstanding frames: kept until they are consumed.
    outstanding: usize,
    /// To be retransmitted when their lane's window allows; their streams have credit.
    due: BTreeSet<(Lane, Stream, u64)>,
    /// To be sent now, whatever the windows.
    probes: VecDeque<Probe>,
    window_probes: WindowProbes,
    /// The marked packets that the peer has reported, its low 32 bits.
    marked: u32,
    /// The same, of all incarnations of the peer.
    marks: u64,
}

impl<F: Copy> Sender<F> {
    /// Nothing was sent.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            streams: BTreeMap::new(),
            unsolicited: Unsolicited::default(),
            recovery: Recovery::new(),
            lanes: Lanes::new(config.datagram, config.max_in_flight.into()),
            large: LargeBackoff::default(),
            outstanding: 0,
            due: BTreeSet::new(),
            probes: VecDeque::new(),
            window_probes: WindowProbes::new(),
            marked: 0,
            marks: 0,
        }
    }

    /// A new incarnation of the peer: what an earlier one has not consumed is to be sent from
    /// offset 0.
    pub fn restart(&mut self, unsolicited: Unsolicited) {
        self.unsolicited = unsolicited;
        self.recovery = Recovery::new();
        self.lanes.restart();
        (self.marked, self.large) = (0, LargeBackoff::default());
        self.due.clear();
        self.probes.clear();
        self.window_probes.hurry();
        for (stream, out) in &mut self.streams {
            out.reset(unsolicited.of(stream.class).into());
            let lane = out.lane();
            self.due.extend(out.retransmittable_above(0).map(|offset| (lane, *stream, offset)));
        }
    }

    /// The path has changed: packets in flight count as lost, and nothing is known of the new path
    /// (RFC 9000 §9.4). Returns the number of packets.
    pub fn change_path(&mut self) -> u64 {
        let Self { recovery, lanes, large, streams, due, probes, window_probes, .. } = self;
        let mut count = 0;
        recovery.abandon_all(|number, Packet { stream, lane, offset, .. }| {
            count += 1;
            if streams.get_mut(&stream).is_some_and(|out| out.lost(offset, number)) {
                due.insert((lane, stream, offset));
            }
        });
        let frame = |probe| match probe {
            Probe::Frame(stream, offset) => Some((streams.get(&stream)?.lane(), stream, offset)),
            Probe::Bare(..) => None,
        };
        due.extend(probes.drain(..).filter_map(frame));
        lanes.restart();
        *large = LargeBackoff::default();
        window_probes.hurry();
        count
    }

    /// The path to the peer.
    pub fn path(&self) -> PathMetrics {
        let Self { recovery, lanes, .. } = self;
        PathMetrics {
            rtt: recovery.smoothed_rtt(),
            in_flight: lanes.in_flight(),
            congestion_window: lanes.all_windows(),
        }
    }

    /// Packets that the fabric marked, of all incarnations of the peer.
    pub fn marks(&self) -> u64 {
        self.marks
    }

    /// Frames that are outstanding, of all streams.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether the peer owes an answer: frames are outstanding, or streams wait for credit.
    pub fn is_owed(&self) -> bool {
        self.outstanding > 0 || !self.window_probes.is_empty()
    }

    /// What the peer accepts of each stream of this class before the first grant.
    pub fn unsolicited(&self, class: Class) -> u32 {
        self.unsolicited.of(class)
    }

    /// Whether the stream is known, or there may be one more.
    pub fn has_place(&self, stream: Stream) -> bool {
        self.streams.len() < self.config.max_streams || self.streams.contains_key(&stream)
    }

    /// Whether any stream is idle.
    pub fn is_any_idle(&self) -> bool {
        self.streams.values().any(|out| !out.window_probes())
    }

    /// Forgets idle streams, before the peer does.
    pub fn forget_idle(&mut self) {
        self.streams.retain(|_, out| out.window_probes());
    }

    /// Whether a frame of `len` bytes, or a part that continues one, may be sent on a stream, which
    /// is of this lane if it is new.
    pub fn admit(
        &mut self,
        lane: Lane,
        stream: Stream,
        len: NonZeroU16,
        continues: bool,
    ) -> Admission {
        let out = self
            .streams
            .entry(stream)
            .or_insert_with(|| SendStream::new(lane, self.unsolicited.of(stream.class).into()));
        if !out.ask_credit(len) {
            self.window_probes.begin(stream);
            return Admission::NoCredit;
        }
        let (lane, kept) = (out.lane(), if continues { 0 } else { out.len() });
        self.admit_with_credit(lane, stream, kept, len)
    }

    /// The result of [`admit`](Self::admit), without its effects, and how many bytes the stream may
    /// still send.
    pub fn outlook(&self, lane: Lane, stream: Stream, len: NonZeroU16) -> (Admission, u64) {
        let out = self.streams.get(&stream);
        let unsolicited = || u64::from(self.unsolicited.of(stream.class));
        let credit = out.map_or_else(unsolicited, |out| out.limit().saturating_sub(out.sent()));
        let admission = match credit < u64::from(len.get()) {
            true => Admission::NoCredit,
            false => self.admit_with_credit(lane, stream, out.map_or(0, SendStream::len), len),
        };
        (admission, credit)
    }

    /// Whether a stream may not send `len` bytes before it is granted more credit.
    pub fn waits_for_grant(&self, stream: Stream, len: NonZeroU16) -> bool {
        self.streams.get(&stream).is_some_and(|out| !out.has_credit(len))
    }

    /// Whether nothing of a lane is to be retransmitted first, and its window is open.
    pub fn is_open(&self, lane: Lane) -> bool {
        self.first_due(lane).is_none() && self.lanes.allows(lane, 1)
    }

    /// What of a lane is to be retransmitted first.
    fn first_due(&self, lane: Lane) -> Option<(Stream, u64)> {
        if self.due.is_empty() {
            return None;
        }
        let (of, stream, offset) = *self.due.range((lane, Stream::FIRST, 0)..).next()?;
        (of == lane).then_some((stream, offset))
    }

    /// Whether a stream with credit and `kept` outstanding frames may send.
    fn admit_with_credit(
        &self,
        lane: Lane,
        stream: Stream,
        kept: usize,
        len: NonZeroU16,
    ) -> Admission {
        if !self.config.reliable.contains(stream.class) {
            return Admission::Go;
        }
        // A stream that waits does not stop others, nor do many.
        if kept >= self.config.max_frames.saturating_sub(self.outstanding).max(MIN_OUTSTANDING) {
            return Admission::NoCredit;
        }
        if self.first_due(lane).is_some() || !self.lanes.allows(lane, len.get()) {
            return Admission::NoWindow;
        }
        Admission::Go
    }

    /// Sends a frame that was admitted. In a reliable class its handle is kept until it is
    /// consumed.
    ///
    /// # Panics
    ///
    /// If the frame was not admitted.
    pub fn send(
        &mut self,
        now: Instant,
        ends: Ends,
        stream: Stream,
        len: NonZeroU16,
        is_large: bool,
        frame: F,
    ) -> Data {
        let out = self.streams.get_mut(&stream).expect("a frame is sent after it was admitted");
        if !self.config.reliable.contains(stream.class) {
            let (number, offset) = (self.recovery.skip_number() as u32, out.skip(len) as u32);
            return Data::whole(ends, number, stream, offset, len);
        }
        let offset = out.send(self.recovery.next(), len, frame);
        self.outstanding += 1;
        self.window_probes.begin(stream);
        let lane = out.lane();
        let packet = Packet { sent_at: now, stream, lane, offset, len: len.get(), is_large };
        let number = self.put(packet);
        Data::whole(ends, number as u32, stream, offset as u32, len)
    }

    /// A packet is in flight from now on. Its number.
    fn put(&mut self, packet: Packet) -> u64 {
        self.lanes.sent(packet.lane, packet.len);
        self.recovery.sent(packet)
    }

    /// Retransmits a frame, or probes. `divide` may split the frame.
    pub fn retransmit(
        &mut self,
        now: Instant,
        ends: Ends,
        mut divide: impl FnMut(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) -> Option<Again<F>> {
        while let Some(probe) = self.probes.pop_front() {
            let (stream, offset) = match probe {
                Probe::Frame(stream, offset) => (stream, offset),
                Probe::Bare(stream, offset) => {
                    return Some(Again::Probe(self.probe(now, ends, stream, offset)));
                }
            };
            if let Some(out) = self.streams.get(&stream) {
                self.due.remove(&(out.lane(), stream, offset));
            }
            self.divide(stream, offset, &mut divide);
            if let Some(again) = self.retransmit_one(now, ends, stream, offset) {
                return Some(again);
            }
        }
        // The first of each lane whose window allows it.
        let mut from = (Lane::default(), Stream::FIRST, 0);
        while let Some((lane, stream, offset)) = self.due.range(from..).next().copied() {
            self.divide(stream, offset, &mut divide);
            let len = self
                .streams
                .get_mut(&stream)
                .and_then(|out| out.due(offset))
                .map_or(0, |(_, len)| len.get());
            if !self.lanes.allows(lane, len) {
                from = (Lane(lane.0.checked_add(1)?), Stream::FIRST, 0);
                continue;
            }
            self.due.remove(&(lane, stream, offset));
            if let Some(again) = self.retransmit_one(now, ends, stream, offset) {
                return Some(again);
            }
        }
        None
    }

    /// Splits a frame that is to be retransmitted, if `divide` says how.
    fn divide(
        &mut self,
        stream: Stream,
        offset: u64,
        divide: impl FnOnce(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) {
        let Some(out) = self.streams.get_mut(&stream) else { return };
        if let Some(second) = out.divide(offset, divide) {
            self.outstanding += 1;
            self.due.insert((out.lane(), stream, second));
        }
    }

    /// Whether a large datagram of `len` bytes may be sent: large ones are not paused, and it takes
    /// no more than a quarter of the lane's window.
    pub fn may_send_large(&self, now: Instant, lane: Lane, len: NonZeroU16) -> bool {
        self.large.may_go(now) && 4 * u64::from(len.get()) <= self.lanes.window(lane)
    }

    /// Whether large datagrams are paused.
    pub fn is_large_paused(&self, now: Instant) -> bool {
        !self.large.may_go(now)
    }

    /// Sends a position without a frame.
    fn probe(&mut self, now: Instant, ends: Ends, stream: Stream, offset: u64) -> Data {
        let len = NonZeroU16::MIN;
        let lane = self.streams.get(&stream).map_or(Lane::default(), SendStream::lane);
        let packet = Packet { sent_at: now, stream, lane, offset, len: len.get(), is_large: false };
        let number = self.put(packet);
        Data::whole(ends, number as u32, stream, offset as u32, len)
    }

    fn retransmit_one(
        &mut self,
        now: Instant,
        ends: Ends,
        stream: Stream,
        offset: u64,
    ) -> Option<Again<F>> {
        let Self { streams, lanes, recovery, .. } = self;
        let out = streams.get_mut(&stream)?;
        let (frame, len) = out.due(offset)?;
        let lane = out.lane();
        let packet = Packet { sent_at: now, stream, lane, offset, len: len.get(), is_large: false };
        lanes.sent(lane, packet.len);
        let number = recovery.sent(packet);
        out.retransmitted(offset, number);
        let data = Data::whole(ends, number as u32, stream, offset as u32, len);
        Some(Again::Frame(frame, data))
    }

    /// Forgets frames, of one stream or of all. Their positions are kept.
    pub fn withdraw(&mut self, only: Option<Stream>, mut is_gone: impl FnMut(F) -> bool) {
        let streams =
            self.streams.iter_mut().filter(|(stream, _)| only.is_none_or(|only| only == **stream));
        streams.for_each(|(_, out)| out.withdraw(&mut is_gone));
    }

    /// Handles a report. `ended` has each frame that is consumed, or given back for a reason: those
    /// of a stream in order. Returns the number of packets found lost.
    pub fn reported(
        &mut self,
        now: Instant,
        report: &Report,
        mut ended: impl FnMut(F, Option<Answer>),
    ) -> u64 {
        let lost = self.acknowledge(now, report);
        let next = self.recovery.next();
        for CreditGrant { stream, consumed, limit } in &report.grants {
            let Some(out) = self.streams.get_mut(stream) else { continue };
            let (consumed, before, known) = (expand(*consumed, out.sent()), out.len(), out.limit());
            let mut lowered = known;
            if let Some(again) = report.nacks.iter().find(|again| again.stream == *stream) {
                let from = expand(again.from, known);
                out.nacked(consumed, from, expand(again.number, next));
                lowered = known.min(from);
            }
            let limit = expand(*limit, known);
            if out.granted(consumed, limit, known, |frame| ended(frame, None)) {
                self.window_probes.hurry();
            }
            let lane = out.lane();
            let again = out.retransmittable_above(lowered);
            self.due.extend(again.map(|offset| (lane, *stream, offset)));
            self.outstanding -= before - out.len();
            if !out.window_probes() {
                self.window_probes.end(*stream);
            }
        }
        for Return { stream, from, until, answer } in &report.returns {
            let Some(out) = self.streams.get_mut(stream) else { continue };
            let (lane, consumed) = (out.lane(), out.consumed());
            let [from, until] = [*from, *until].map(|offset| expand(offset, consumed));
            let again = out.returned(from, until, |frame| ended(frame, Some(*answer)));
            self.due.extend(again.into_iter().map(|offset| (lane, *stream, offset)));
        }
        lost
    }

    fn acknowledge(&mut self, now: Instant, report: &Report) -> u64 {
        let Self { recovery, streams, lanes, large, .. } = self;
        let next = recovery.next();
        let ranges = report.came.iter().map(|[first, last]| {
            let last = expand(*last, next);
            last.saturating_sub(u64::from((last as u32).wrapping_sub(*first)))..=last
        });
        ranges.clone().for_each(|numbers| lanes.came(&numbers));
        let mut packets = 0;
        let names_any = !report.marks.is_empty();
        let has_news = recovery.acknowledged(now, ranges, |number, packet| {
            packets += 1;
            lanes.acknowledge(number, &packet, names_any && report.names_marked(number));
            if let Some(out) = streams.get_mut(&packet.stream) {
                out.acknowledged(packet.offset, packet.len, number);
            }
            if packet.is_large {
                large.came();
            }
        });
        if !has_news {
            return 0;
        }
        // An older report, with a lower count, may arrive later.
        let more = report.marked.wrapping_sub(self.marked).cast_signed().max(0).cast_unsigned();
        self.marked = self.marked.wrapping_add(more);
        let marked = more.min(packets);
        self.marks += u64::from(marked);
        lanes.settle(now, marked, next);
        self.find_lost(now)
    }

    fn find_lost(&mut self, now: Instant) -> u64 {
        let Self { recovery, streams, lanes, large, due, .. } = self;
        let mut count = 0;
        recovery.find_lost(now, |number, packet| {
            let Packet { sent_at, stream, lane, offset, is_large, .. } = packet;
            count += 1;
            lanes.lost(now, &packet);
            if is_large {
                large.lost(now, sent_at);
            }
            if streams.get_mut(&stream).is_some_and(|out| out.lost(offset, number)) {
                due.insert((lane, stream, offset));
            }
        });
        count
    }

    /// When packets count as lost, or probes are due (of packets or of windows).
    pub fn deadline(&self) -> Option<Instant> {
        [self.recovery.deadline(), self.window_probes.deadline()].into_iter().flatten().min()
    }

    /// Does what is due. Returns the number of packets found lost.
    pub fn handle_timeout(&mut self, now: Instant) -> u64 {
        if self.recovery.deadline().is_none_or(|at| at > now) {
            return 0;
        }
        let lost = if self.recovery.is_loss_due(now) { self.find_lost(now) } else { 0 };
        let Self { recovery, streams, probes, lanes, large, .. } = self;
        let unanswered = recovery.probe(now, |count, number, packet| {
            let Packet { sent_at, stream, offset, is_large, .. } = packet;
            let out = streams.get_mut(&stream);
            let Some(out) = out.and_then(|out| out.is_in_flight(offset, number).then_some(out))
            else {
                lanes.forget(&packet);
                return false;
            };
            if let Some(before) = out.consumed().checked_sub(1).filter(|_| count <= BARE) {
                probes.push_back(Probe::Bare(stream, before));
                return true;
            }
            out.lost(offset, number);
            probes.push_back(Probe::Frame(stream, offset));
            if is_large {
                large.unheard(now, sent_at);
            }
            true
        });
        if unanswered == PERSISTENT {
            lanes.collapse(now, &recovery.unacknowledged());
        }
        lost
    }

    /// The window probes to send now.
    pub fn window_probes(&mut self, now: Instant) -> Vec<WindowProbe> {
        let Self { window_probes, streams, .. } = self;
        window_probes.due(now, |stream| {
            let out = streams.get_mut(&stream)?;
            (!out.was_heard()).then_some(out.sent())
        })
    }
}

//! One stream to the peer: its limit, and its outstanding frames.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU16;

use crate::exchange::Lane;

/// A stream to the peer. Our owner knows a frame by its handle `F`.
#[derive(Clone, Debug)]
pub struct SendStream<F> {
    /// Whose window its packets are in.
    lane: Lane,
    /// Frames sent and not consumed, in order.
    frames: VecDeque<SentFrame<F>>,
    /// The next offset.
    sent: u64,
    /// The limit that the peer has granted.
    limit: u64,
    /// A frame waits for credit.
    blocked: bool,
    /// A grant has arrived since [`Self::was_heard`].
    heard: bool,
    /// The last NACK: its packet number and offset.
    nacked: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct SentFrame<F> {
    offset: u64,
    len: NonZeroU16,
    /// `None` if it was withdrawn.
    frame: Option<F>,
    /// The peer has given it back: it is its owner's again, and its position is sent without it.
    is_returned: bool,
    state: State,
}

impl<F> SentFrame<F> {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.len.get())
    }
}

/// The state of a frame that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// To be retransmitted.
    Retransmit,
    /// In flight, last in the packet of this number.
    InFlight(u64),
    /// Acknowledged, last in the packet of this number; not known to be consumed.
    Acknowledged(u64),
}

impl<F: Copy> SendStream<F> {
    /// Nothing was sent.
    pub fn new(lane: Lane, unsolicited: u64) -> Self {
        Self {
            lane,
            frames: VecDeque::new(),
            sent: 0,
            limit: unsolicited,
            blocked: false,
            heard: false,
            nacked: None,
        }
    }

    /// Whose window its packets are in.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// The next offset.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// All before this offset is known to be consumed.
    pub fn consumed(&self) -> u64 {
        self.frames.front().map_or(self.sent, |flight| flight.offset)
    }

    /// Whether there is credit for `len` bytes. If not, the stream waits for it.
    pub fn ask_credit(&mut self, len: NonZeroU16) -> bool {
        let has = self.has_credit(len);
        self.blocked = !has;
        has
    }

    /// Whether there is credit for `len` bytes.
    pub fn has_credit(&self, len: NonZeroU16) -> bool {
        self.sent + u64::from(len.get()) <= self.limit
    }

    /// Whether the stream needs window probes: it waits for credit, or has outstanding frames.
    pub fn window_probes(&self) -> bool {
        self.blocked || !self.frames.is_empty()
    }

    /// The number of outstanding frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Sends a frame in packet `number` and keeps it until it is consumed. Returns its offset.
    pub fn send(&mut self, number: u64, len: NonZeroU16, frame: F) -> u64 {
        let offset = self.skip(len);
        self.frames.push_back(SentFrame {
            offset,
            len,
            frame: Some(frame),
            is_returned: false,
            state: State::InFlight(number),
        });
        offset
    }

    /// Sends a frame without keeping it. Returns its offset.
    pub fn skip(&mut self, len: NonZeroU16) -> u64 {
        let offset = self.sent;
        self.sent += u64::from(len.get());
        offset
    }

    /// The frame at `offset` was received in packet `number`. A different length means that it was
    /// split since: the peer may not have used that packet. Of a frame that was returned, packets
    /// before that do not count.
    pub fn acknowledged(&mut self, offset: u64, len: u16, number: u64) {
        let counts = |flight: &&mut SentFrame<F>| {
            let is_last = || flight.state == State::InFlight(number);
            flight.len.get() == len && (!flight.is_returned || is_last())
        };
        if let Some(flight) = self.find(offset).filter(counts) {
            flight.state = State::Acknowledged(number);
        }
    }

    /// The peer gives back what is between these offsets. `ended` has each frame that is its
    /// owner's again, in order. Nothing happens while the peer may have an earlier one: it tells
    /// again. Returns the offsets whose positions are to be sent without frames.
    pub fn returned(&mut self, from: u64, until: u64, mut ended: impl FnMut(F)) -> Vec<u64> {
        let Some(first) = self.frames.iter().position(|flight| !flight.is_returned) else {
            return Vec::new();
        };
        if !(from..until).contains(&self.frames[first].offset) {
            return Vec::new();
        }
        let those = self.frames.range_mut(first..).take_while(|flight| flight.end() <= until);
        let end = |flight: &mut SentFrame<F>| {
            flight.frame.take().into_iter().for_each(&mut ended);
            (flight.is_returned, flight.state) = (true, State::Retransmit);
            flight.offset
        };
        those.map(end).collect()
    }

    /// Whether the frame at `offset` is in flight, last in packet `number`.
    pub fn is_in_flight(&mut self, offset: u64, number: u64) -> bool {
        self.find(offset).is_some_and(|flight| flight.state == State::InFlight(number))
    }

    /// Packet `number` with the frame at `offset` is lost, or overdue. Returns whether the frame is
    /// to be retransmitted: not if another packet of it was acknowledged, or is in flight.
    pub fn lost(&mut self, offset: u64, number: u64) -> bool {
        let flight = self.find(offset).filter(|flight| flight.state == State::InFlight(number));
        flight.map(|flight| flight.state = State::Retransmit).is_some()
    }

    /// Handles a NACK: the peer, which has consumed all before `consumed`, had no memory for frames
    /// from offset `from` on in packets up to number `newest`. They are to be retransmitted once
    /// there is credit.
    pub fn nacked(&mut self, consumed: u64, from: u64, newest: u64) {
        let known = self.consumed();
        // An outdated NACK is ignored.
        if !(known..=self.sent).contains(&consumed) {
            return;
        }
        // A NACK is repeated until all of that has arrived; a later grant is not to be undone by
        // it.
        let is_news =
            self.nacked.is_none_or(|(last, at)| last < newest || last == newest && from < at);
        if is_news {
            self.limit = self.limit.min(from);
            self.nacked = Some((newest, from));
        }
        let first = self.frames.partition_point(|flight| flight.offset < from);
        for flight in self.frames.range_mut(first..) {
            if matches!(flight.state, State::Acknowledged(number) if number <= newest) {
                flight.state = State::Retransmit;
            }
        }
    }

    /// The frame at `offset` and its length, if it is to be retransmitted and has credit. The
    /// position of one that was returned needs none: it was delivered, and fills the peer's window
    /// until the position arrives.
    pub fn due(&mut self, offset: u64) -> Option<(Option<F>, NonZeroU16)> {
        let limit = self.limit;
        let has_credit = |flight: &SentFrame<F>| flight.is_returned || flight.end() <= limit;
        let flight = self
            .find(offset)
            .filter(|flight| flight.state == State::Retransmit && has_credit(flight))?;
        Some((flight.frame, flight.len))
    }

    /// Splits the frame at `offset`, which is to be retransmitted, if `divide` says how. Returns
    /// the offset of the second half.
    pub fn divide(
        &mut self,
        offset: u64,
        divide: impl FnOnce(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) -> Option<u64> {
        let place = self.frames.binary_search_by_key(&offset, |flight| flight.offset).ok()?;
        let flight = self.frames[place];
        let frame = flight.frame.filter(|_| flight.state == State::Retransmit)?;
        let [first, second] = divide(frame, flight.len)?;
        debug_assert_eq!(first.1.get() + second.1.get(), flight.len.get(), "both are all of it");
        let part = |offset, (frame, len)| SentFrame { offset, len, frame: Some(frame), ..flight };
        let next = offset + u64::from(first.1.get());
        self.frames[place] = part(offset, first);
        self.frames.insert(place + 1, part(next, second));
        Some(next)
    }

    /// The frame at `offset` was retransmitted in packet `number`.
    pub fn retransmitted(&mut self, offset: u64, number: u64) {
        if let Some(flight) = self.find(offset) {
            flight.state = State::InFlight(number);
        }
    }

    /// Handles a grant: all before `consumed` is consumed, and the stream may be sent up to
    /// `limit`, which was `known` before. `completed` has each consumed frame. Returns whether any
    /// of that is new.
    pub fn granted(
        &mut self,
        consumed: u64,
        limit: u64,
        known: u64,
        mut completed: impl FnMut(F),
    ) -> bool {
        // A grant of what was never sent is ignored.
        if consumed > self.sent {
            return false;
        }
        let before = self.frames.len();
        while let Some(flight) = self.frames.pop_front_if(|flight| flight.end() <= consumed) {
            flight.frame.into_iter().for_each(&mut completed);
        }
        if limit > self.limit {
            self.limit = limit;
            self.blocked = false;
        }
        let is_new = self.frames.len() < before || self.limit > known;
        self.heard |= is_new;
        is_new
    }

    /// Whether a grant has arrived since this was called last.
    pub fn was_heard(&mut self) -> bool {
        core::mem::take(&mut self.heard)
    }

    /// The peer has a new incarnation: all outstanding frames are to be sent again from offset 0.
    pub fn reset(&mut self, unsolicited: u64) {
        (self.sent, self.limit, self.nacked) = (0, unsolicited, None);
        for flight in &mut self.frames {
            flight.offset = self.sent;
            (flight.state, flight.is_returned) = (State::Retransmit, false);
            self.sent += u64::from(flight.len.get());
        }
    }

    /// The offsets of frames that are to be retransmitted, and have credit now but had none at
    /// `limit`.
    pub fn retransmittable_above(&self, limit: u64) -> impl Iterator<Item = u64> {
        let first = self.frames.partition_point(|flight| flight.end() <= limit);
        let credited = self.frames.range(first..).take_while(|flight| flight.end() <= self.limit);
        credited.filter(|flight| flight.state == State::Retransmit).map(|flight| flight.offset)
    }

    /// Forgets frames. Their positions are kept.
    pub fn withdraw(&mut self, mut is_gone: impl FnMut(F) -> bool) {
        for flight in &mut self.frames {
            flight.frame = flight.frame.filter(|frame| !is_gone(*frame));
        }
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn find(&mut self, offset: u64) -> Option<&mut SentFrame<F>> {
        let place = self.frames.binary_search_by_key(&offset, |flight| flight.offset).ok()?;
        self.frames.get_mut(place)
    }
}

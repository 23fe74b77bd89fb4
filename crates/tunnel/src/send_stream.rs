//! One stream as it goes out: how far it may go, and what the far receiver has not taken yet.

use alloc::collections::VecDeque;
use core::num::NonZeroU16;

/// Frames of one stream, each known by a handle `F` of our owner's.
#[derive(Clone, Debug)]
pub struct SendStream<F> {
    /// Sent and not taken, in order.
    frames: VecDeque<SentFrame<F>>,
    /// Where the next frame begins.
    sent: u64,
    /// As far as the far end lets us.
    limit: u64,
    /// Somebody wanted to send more than that.
    blocked: bool,
    /// The far end has told something new since [`Self::was_heard`].
    heard: bool,
    /// What it turned away last: up to which packet, and from where on.
    nacked: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct SentFrame<F> {
    offset: u64,
    len: NonZeroU16,
    /// None if its sender has taken it back.
    frame: Option<F>,
    state: State,
}

impl<F> SentFrame<F> {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.len.get())
    }
}

/// Where a frame that was sent is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// To be sent again.
    Retransmit,
    /// In the fabric, last in the packet of this number.
    InFlight(u64),
    /// At the far end, last by the packet of this number. That it was taken was not told.
    Acknowledged(u64),
}

impl<F: Copy> SendStream<F> {
    /// Nothing was sent; so many bytes may be, unasked.
    pub fn new(unsolicited: u64) -> Self {
        Self {
            frames: VecDeque::new(),
            sent: 0,
            limit: unsolicited,
            blocked: false,
            heard: false,
            nacked: None,
        }
    }

    /// Where the next frame begins.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether there is credit for so many bytes. If not, that is remembered.
    pub fn has_credit(&mut self, len: NonZeroU16) -> bool {
        let has = self.sent + u64::from(len.get()) <= self.limit;
        self.blocked = !has;
        has
    }

    /// Whether the far end is to be asked: for credit, or what became of what was sent.
    pub fn window_probes(&self) -> bool {
        self.blocked || !self.frames.is_empty()
    }

    /// How many frames are not known to be taken.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// A frame is sent in packet `number`, and kept until it is taken. Where it begins.
    pub fn send(&mut self, number: u64, len: NonZeroU16, frame: F) -> u64 {
        let offset = self.skip(len);
        self.frames.push_back(SentFrame { offset, len, frame: Some(frame), state: State::InFlight(number) });
        offset
    }

    /// A frame is sent and not kept. Where it begins.
    pub fn skip(&mut self, len: NonZeroU16) -> u64 {
        let offset = self.sent;
        self.sent += u64::from(len.get());
        offset
    }

    /// The frame that begins there and has so many bytes has come to the far end, in packet `number`. One that was divided since may be
    /// of no use there: its first part came before.
    pub fn acknowledged(&mut self, offset: u64, len: u16, number: u64) {
        if let Some(flight) = self.find(offset).filter(|flight| flight.len.get() == len) {
            flight.state = State::Acknowledged(number);
        }
    }

    /// Packet `number`, with the frame that begins there, is lost, or nothing is heard of it for long. Whether that is to be
    /// sent nacks: not if it came by another packet, or a later one is underway.
    pub fn lost(&mut self, offset: u64, number: u64) -> bool {
        let flight = self.find(offset).filter(|flight| flight.state == State::InFlight(number));
        flight.map(|flight| flight.state = State::Retransmit).is_some()
    }

    /// The far end, which has taken all before `taken`, had no memory for what begins at `from` or further on, and came in packets up
    /// to number `newest`: that is to be sent again, once there is credit.
    pub fn nacked(&mut self, consumed: u64, from: u64, newest: u64) {
        let known = self.frames.front().map_or(self.sent, |flight| flight.offset);
        // What is overtaken by other news tells nothing.
        if !(known..=self.sent).contains(&consumed) {
            return;
        }
        // It is told of until all of that has come. By then there may be credit again.
        let is_news = self.nacked.is_none_or(|(last, at)| last < newest || last == newest && from < at);
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

    /// The frame that begins there, if there is one still, and its length, if it is to be sent again and has credit.
    pub fn due(&mut self, offset: u64) -> Option<(Option<F>, NonZeroU16)> {
        let limit = self.limit;
        let flight =
            self.find(offset).filter(|flight| flight.state == State::Retransmit && flight.end() <= limit)?;
        Some((flight.frame, flight.len))
    }

    /// Has the frame that begins there, and is to be sent again, go as two, if `divide` says how. Where the second one begins.
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

    /// It is sent again, in packet `number`.
    pub fn retransmitted(&mut self, offset: u64, number: u64) {
        if let Some(flight) = self.find(offset) {
            flight.state = State::InFlight(number);
        }
    }

    /// What the far end told: it has taken all before `taken`, and we may send up to `limit`, where it was `known` before. `completed`
    /// has each frame that is done with. Whether any of that is new.
    pub fn granted(&mut self, consumed: u64, limit: u64, known: u64, mut completed: impl FnMut(F)) -> bool {
        // Who tells of what was never sent tells nothing.
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

    /// Whether the far end has told something new since this was called last: more frames taken, or more credit.
    pub fn was_heard(&mut self) -> bool {
        core::mem::take(&mut self.heard)
    }

    /// The far end remembers nothing: all that was not taken is to be sent again, counted from 0.
    pub fn reset(&mut self, unsolicited: u64) {
        (self.sent, self.limit, self.nacked) = (0, unsolicited, None);
        for flight in &mut self.frames {
            flight.offset = self.sent;
            flight.state = State::Retransmit;
            self.sent += u64::from(flight.len.get());
        }
    }

    /// Where each frame begins that is to be sent again, and has credit, but had none below `limit`.
    pub fn retransmittable_above(&self, limit: u64) -> impl Iterator<Item = u64> {
        let first = self.frames.partition_point(|flight| flight.end() <= limit);
        let credited = self.frames.range(first..).take_while(|flight| flight.end() <= self.limit);
        credited.filter(|flight| flight.state == State::Retransmit).map(|flight| flight.offset)
    }

    /// Forgets frames that their senders take back. Their places in the stream remain.
    pub fn withdraw(&mut self, mut is_gone: impl FnMut(F) -> bool) {
        for flight in &mut self.frames {
            flight.frame = flight.frame.filter(|frame| !is_gone(*frame));
        }
    }

    /// How far it may go.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn find(&mut self, offset: u64) -> Option<&mut SentFrame<F>> {
        let place = self.frames.binary_search_by_key(&offset, |flight| flight.offset).ok()?;
        self.frames.get_mut(place)
    }
}

//! Lanes: who has a congestion window of its own in a session.
//!
//! ```text
//!             ┌ lane 1: window, in flight ┐
//!   streams ──┼ lane 2: window, in flight ┼──▶ one sequence of packet numbers ──▶ far host
//!             └ …                         ┘    all lanes together: `max_in_flight`
//! ```
//!
//! Losses and marks make the window of the lane smaller whose packets they were. So who fills a
//! link or a queue of the fabric slows itself down, and nobody else who sends to the same host.
//! Where all of them together have in flight what they may, each may still have an equal part of
//! that.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use units::Instant;

use crate::congestion::{Acknowledged, CongestionWindow};
use crate::exchange::Lane;
use crate::recovery::Packet;

/// The lanes of a session.
#[derive(Clone, Debug)]
pub struct Lanes {
    datagram: u32,
    most: u64,
    /// By number; of those that nothing was sent by, `None`.
    states: Vec<Option<Box<State>>>,
    /// Bytes in flight, of all lanes.
    in_flight: u64,
    /// How many lanes have something in flight.
    active: u64,
    /// The lanes of which a report acknowledges something, until its end.
    touched: Vec<Lane>,
    /// A window may have collapsed for nothing.
    has_collapsed: bool,
}

/// One lane.
#[derive(Clone, Debug)]
struct State {
    window: CongestionWindow,
    in_flight: u64,
    /// What the report at hand acknowledges.
    news: News,
}

/// What a report acknowledges of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    packets: u32,
    /// Of these, the packets that the report names as marked.
    named: u32,
    bytes: u64,
    /// The highest number, and when that packet was sent.
    largest: u64,
    largest_sent_at: Instant,
    /// Bytes in flight before.
    in_flight: u64,
}

impl Lanes {
    /// No lane has sent anything. `datagram` is the payload of a full one, and `most` bounds each
    /// window, and what all lanes together have in flight; both in bytes. Lanes that begin while
    /// others fill that may have as much again.
    pub fn new(datagram: u32, most: u64) -> Self {
        Self {
            datagram,
            most,
            states: Vec::new(),
            in_flight: 0,
            active: 0,
            touched: Vec::new(),
            has_collapsed: false,
        }
    }

    /// Nothing was sent, and nothing is known of the path.
    pub fn restart(&mut self) {
        *self = Self::new(self.datagram, self.most);
    }

    fn get(&self, lane: Lane) -> Option<&State> {
        self.states.get(usize::from(lane.0))?.as_deref()
    }

    #[inline]
    fn reach(&mut self, lane: Lane) -> &mut State {
        let place = usize::from(lane.0);
        if place >= self.states.len() {
            self.states.resize_with(place + 1, || None);
        }
        let (datagram, most) = (self.datagram, self.most);
        self.states[place].get_or_insert_with(|| {
            let window = CongestionWindow::new(datagram, most);
            Box::new(State { window, in_flight: 0, news: News::default() })
        })
    }

    /// The window of a lane, in bytes.
    pub fn window(&self, lane: Lane) -> u64 {
        let state = self.get(lane);
        state.map_or_else(
            || CongestionWindow::new(self.datagram, self.most).bytes(),
            |state| state.window.bytes(),
        )
    }

    /// The windows of all lanes that have sent something, in bytes: of the first lane's, if none
    /// has.
    pub fn all_windows(&self) -> u64 {
        let states = self.states.iter().flatten();
        let sum: u64 = states.map(|state| state.window.bytes()).sum();
        if sum == 0 { self.window(Lane::default()) } else { sum.min(self.most) }
    }

    /// Bytes in flight, of all lanes.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether a lane's window allows `len` more bytes. It always allows one frame.
    #[inline]
    pub fn allows(&self, lane: Lane, len: u16) -> bool {
        let len = u64::from(len);
        let Some(State { window, in_flight, .. }) = self.get(lane) else { return true };
        *in_flight == 0
            || in_flight + len <= window.bytes()
                && (self.in_flight + len <= self.most || in_flight + len <= self.most / self.active)
    }

    /// A packet is sent.
    #[inline]
    pub fn sent(&mut self, lane: Lane, len: u16) {
        let state = self.reach(lane);
        let was_idle = state.in_flight == 0;
        state.in_flight += u64::from(len);
        self.active += u64::from(was_idle);
        self.in_flight += u64::from(len);
    }

    /// So many bytes of a lane are in flight no longer. Its state.
    #[inline]
    fn take(&mut self, lane: Lane, len: u16) -> &mut State {
        let state = self.states[usize::from(lane.0)].as_deref_mut().expect("it has sent something");
        state.in_flight -= u64::from(len);
        self.active -= u64::from(state.in_flight == 0);
        self.in_flight -= u64::from(len);
        state
    }

    /// A packet is in flight no longer, and nothing follows from that.
    pub fn forget(&mut self, packet: &Packet) {
        self.take(packet.lane, packet.len);
    }

    /// A report acknowledges a packet, and may name it as marked. [`settle`](Self::settle) ends the
    /// report.
    #[inline]
    pub fn acknowledge(&mut self, number: u64, packet: &Packet, is_marked: bool) {
        let len = u64::from(packet.len);
        let State { in_flight, news, .. } = self.take(packet.lane, packet.len);
        if news.packets == 0 {
            *news = News { in_flight: *in_flight + len, ..News::default() };
        }
        news.packets += 1;
        news.named += u32::from(is_marked);
        news.bytes += len;
        if news.packets == 1 || number > news.largest {
            (news.largest, news.largest_sent_at) = (number, packet.sent_at);
        }
        if news.packets == 1 {
            self.touched.push(packet.lane);
        }
    }

    /// A report is over: so many packets more were marked than before, of those that it
    /// acknowledges; `next` is the number of the next packet. Marked packets that it does not name
    /// are shared by lanes as what it acknowledges.
    pub fn settle(&mut self, now: Instant, marked: u32, next: u64) {
        let touched = core::mem::take(&mut self.touched);
        let all = touched.iter().map(|lane| self.reach(*lane).news);
        let [mut packets, mut named] = [0, 0];
        for News { packets: count, named: marked, .. } in all {
            packets += count;
            named += marked;
        }
        let mut unnamed = marked.saturating_sub(named);
        let mut left = packets - named.min(packets);
        for lane in &touched {
            let State { window, news, .. } = self.reach(*lane);
            let News { packets, named, bytes, largest, largest_sent_at, in_flight } =
                core::mem::take(news);
            let open = packets - named;
            let part = u64::from(unnamed) * u64::from(open) / u64::from(left.max(1));
            let part = (part as u32).min(open);
            (unnamed, left) = (unnamed - part, left - open);
            let marked = named + part;
            let ack =
                Acknowledged { packets, marked, bytes, in_flight, largest, largest_sent_at, next };
            window.acknowledged(now, ack);
        }
        self.touched = touched;
        self.touched.clear();
    }

    /// A packet was lost.
    pub fn lost(&mut self, now: Instant, packet: &Packet) {
        self.take(packet.lane, packet.len).window.lost(now, packet.sent_at);
    }

    /// All windows of lanes with something in flight collapse: see [`CongestionWindow::collapse`].
    pub fn collapse(&mut self, now: Instant, unacknowledged: &Range<u64>) {
        self.has_collapsed = true;
        let states = self.states.iter_mut().flatten().filter(|state| state.in_flight > 0);
        states.for_each(|state| state.window.collapse(now, unacknowledged.clone()));
    }

    /// All packets of these numbers were received: see [`CongestionWindow::came`].
    pub fn came(&mut self, numbers: &RangeInclusive<u64>) {
        if self.has_collapsed {
            self.has_collapsed = false;
            for State { window, .. } in self.states.iter_mut().flatten().map(|state| &mut **state) {
                window.came(numbers);
                self.has_collapsed |= window.may_be_undone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Class, Span};

    use super::*;
    use crate::message::Stream;

    const DATAGRAM: u32 = 1000;

    fn packet(lane: u16, sent_at: u64) -> Packet {
        let stream = Stream { label: lane.into(), class: Class::default() };
        let sent_at = Instant::ZERO + Span::from_micros(sent_at);
        Packet { sent_at, stream, lane: Lane(lane), offset: 0, len: 1000, is_large: false }
    }

    /// Lanes that each have so many packets in flight.
    fn flying(lanes: &[u16], each: u64) -> Lanes {
        let mut all = Lanes::new(DATAGRAM, 1 << 20);
        for _ in 0..each {
            lanes.iter().for_each(|lane| all.sent(Lane(*lane), 1000));
        }
        all
    }

    #[test]
    fn marks_and_losses_are_their_own_lanes() {
        let mut lanes = flying(&[1, 2, 3], 10);
        for number in 0..10 {
            lanes.acknowledge(number, &packet(1, 1), false);
            lanes.acknowledge(100 + number, &packet(2, 1), true);
        }
        lanes.settle(Instant::ZERO + Span::from_micros(50), 10, 300);
        lanes.lost(Instant::ZERO + Span::from_micros(60), &packet(3, 1));
        assert_eq!(lanes.window(Lane(1)), 20_000, "it doubles");
        assert!(lanes.window(Lane(2)) < 10_000, "{}", lanes.window(Lane(2)));
        assert_eq!(lanes.window(Lane(3)), 5_000);
        assert_eq!((lanes.window(Lane(4)), lanes.in_flight()), (10_000, 9_000));
    }

    #[test]
    fn marks_that_nobody_names_are_shared_by_what_came() {
        let mut lanes = flying(&[1, 2], 10);
        for number in 0..10 {
            lanes.acknowledge(number, &packet(1, 1), false);
        }
        (0..10).for_each(|number| lanes.acknowledge(100 + number, &packet(2, 1), false));
        lanes.settle(Instant::ZERO + Span::from_micros(50), 8, 300);
        assert_eq!(lanes.window(Lane(1)), lanes.window(Lane(2)));
        assert!(lanes.window(Lane(1)) < 10_000);
    }

    #[test]
    fn where_all_is_in_flight_that_may_be_each_lane_may_have_an_equal_part() {
        let mut lanes = Lanes::new(DATAGRAM, 12_000);
        let fill = |lanes: &mut Lanes, lane| {
            let mut count = 0;
            while lanes.allows(Lane(lane), 1000) {
                lanes.sent(Lane(lane), 1000);
                count += 1;
            }
            count
        };
        assert_eq!([1, 2, 3].map(|lane| fill(&mut lanes, lane)), [10, 6, 4]);
        assert_eq!(lanes.in_flight(), 20_000);
        (0..10).for_each(|_| lanes.forget(&packet(1, 1)));
        assert_eq!([1, 2, 3].map(|lane| fill(&mut lanes, lane)), [4, 0, 0]);
    }

    #[test]
    fn what_collapsed_for_nothing_is_undone_in_each_lane() {
        let mut lanes = flying(&[1, 2], 4);
        let at = |us| Instant::ZERO + Span::from_micros(us);
        for number in 0..2 {
            lanes.acknowledge(number, &packet(1 + number as u16, 1), false);
        }
        lanes.settle(at(5), 0, 8);
        let before = [1, 2].map(|lane| lanes.window(Lane(lane)));
        lanes.collapse(at(10), &(2..8));
        assert_eq!([1, 2].map(|lane| lanes.window(Lane(lane))), [2_000; 2]);
        lanes.came(&(0..=7));
        assert_eq!([1, 2].map(|lane| lanes.window(Lane(lane))), before);
    }
}

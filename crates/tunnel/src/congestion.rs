//! The congestion window of a lane: RFC 9002 §7, and RFC 8257 (DCTCP) where the fabric marks.
//!
//! A loss halves the window; marks reduce it by their share. An acknowledgement does not increase
//! it while less than half of it is used.

use core::ops::{Range, RangeInclusive};

use units::{Instant, MarkShare};

/// The congestion window of a lane.
#[derive(Clone, Debug)]
pub struct CongestionWindow {
    bytes: u64,
    /// The slow start threshold.
    threshold: u64,
    least: u64,
    most: u64,
    /// Packets sent before this have been answered by a reduction.
    recovering_since: Option<Instant>,
    share: MarkShare,
    /// The round trip ends when this packet number is acknowledged.
    round_end: u64,
    /// Bytes acknowledged towards one more datagram.
    towards: u64,
    datagram: u64,
    /// The state before a collapse, as long as the collapse may prove wrong.
    before: Option<Undo>,
}

/// The state of a window before it collapsed.
#[derive(Clone, Debug)]
struct Undo {
    bytes: u64,
    threshold: u64,
    recovering_since: Option<Instant>,
    /// The packets sent by then, from the oldest unacknowledged one on.
    unacknowledged: Range<u64>,
}

impl CongestionWindow {
    /// An initial window of ten datagrams (RFC 9002 §7.2), and its upper limit.
    pub fn new(datagram: u32, most: u64) -> Self {
        let datagram = u64::from(datagram);
        let least = 2 * datagram;
        let most = most.max(least);
        Self {
            bytes: Self::initial(datagram, most),
            threshold: u64::MAX,
            least,
            most,
            recovering_since: None,
            share: MarkShare::default(),
            round_end: 0,
            towards: 0,
            datagram,
            before: None,
        }
    }

    fn initial(datagram: u64, most: u64) -> u64 {
        most.min(10 * datagram)
    }

    /// The window in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Handles an acknowledgement.
    pub fn acknowledged(&mut self, now: Instant, ack: Acknowledged) {
        // A later packet has arrived and not all of the earlier ones: those may be only reordered,
        // but the collapse stays.
        self.before.take_if(|before| before.unacknowledged.end <= ack.largest);
        self.share.count(ack.packets, ack.marked);
        if ack.largest >= self.round_end {
            self.end_round(now, ack.next);
        }
        let is_recovering = self.recovering_since.is_some_and(|since| ack.largest_sent_at <= since);
        if is_recovering || ack.in_flight < self.bytes / 2 {
            return;
        }
        if self.bytes < self.threshold {
            self.bytes += ack.bytes;
        } else {
            // §7.3.3: one datagram for each window.
            self.towards += ack.bytes;
            if self.towards >= self.bytes {
                self.towards -= self.bytes;
                self.bytes += self.datagram;
            }
        }
        self.bytes = self.bytes.min(self.most);
    }

    /// RFC 8257 §3.3, steps 4 to 8.
    fn end_round(&mut self, now: Instant, next: u64) {
        self.round_end = next;
        if self.share.end_window().is_some_and(|share| share > 0.0) {
            self.bytes = (self.share.reduced(self.bytes as f64) as u64).max(self.least);
            self.threshold = self.bytes;
            self.recovering_since = Some(now);
            self.before = None;
        }
    }

    /// All packets of these numbers were received. If those that were unacknowledged at a collapse
    /// are among them, nothing was lost, only delayed: the collapse is undone.
    pub fn came(&mut self, numbers: &RangeInclusive<u64>) {
        let is_all = |Undo { unacknowledged, .. }: &mut Undo| {
            !unacknowledged.is_empty()
                && *numbers.start() <= unacknowledged.start
                && unacknowledged.end - 1 <= *numbers.end()
        };
        if let Some(Undo { bytes, threshold, recovering_since, .. }) = self.before.take_if(is_all) {
            (self.bytes, self.threshold, self.recovering_since) =
                (bytes, threshold, recovering_since);
        }
    }

    /// Whether the last collapse may prove wrong.
    pub fn may_be_undone(&self) -> bool {
        self.before.is_some()
    }

    /// A packet sent at `sent_at` was lost.
    pub fn lost(&mut self, now: Instant, sent_at: Instant) {
        self.before = None;
        if self.recovering_since.is_some_and(|since| sent_at <= since) {
            return;
        }
        self.recovering_since = Some(now);
        self.bytes = (self.bytes / 2).max(self.least);
        self.threshold = self.bytes;
    }

    /// Collapses the window after several unanswered probes (persistent congestion, RFC 9002 §7.6).
    /// [`came`](Self::came) undoes it if all `unacknowledged` packets arrive. After the next
    /// acknowledgement the window grows to half of its former size in slow start.
    pub fn collapse(&mut self, now: Instant, unacknowledged: Range<u64>) {
        let Self { bytes, threshold, recovering_since, .. } = *self;
        let end = unacknowledged.end;
        let before =
            self.before.get_or_insert(Undo { bytes, threshold, recovering_since, unacknowledged });
        before.unacknowledged.end = end;
        // An initial or minimum window says nothing of the fabric.
        let is_first = threshold == u64::MAX && bytes == Self::initial(self.datagram, self.most);
        if !is_first && bytes > self.least {
            self.threshold = (bytes / 2).max(self.least);
        }
        self.bytes = self.least;
        self.recovering_since = Some(now);
    }
}

/// What an acknowledgement says that is new.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// Packets.
    pub packets: u32,
    /// Packets of those that were marked.
    pub marked: u32,
    /// Bytes.
    pub bytes: u64,
    /// Bytes in flight before.
    pub in_flight: u64,
    /// The highest number.
    pub largest: u64,
    /// When that packet was sent.
    pub largest_sent_at: Instant,
    /// The next number to be sent.
    pub next: u64,
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use units::Span;

    use super::*;

    const MTU: u32 = 1000;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_micros(us)
    }

    /// A round trip in which a whole window is acknowledged at once, so many packets of it marked.
    fn round(window: &mut CongestionWindow, number: &mut u64, marked: u32) {
        let packets = (window.bytes() / u64::from(MTU)) as u32;
        *number += u64::from(packets);
        let bytes = window.bytes();
        window.acknowledged(
            at(*number),
            Acknowledged {
                packets,
                marked,
                bytes,
                in_flight: bytes,
                largest: *number - 1,
                largest_sent_at: at(*number - 1),
                next: *number,
            },
        );
    }

    /// What it has at the beginning of each of six round trips.
    fn grow(window: &mut CongestionWindow, number: &mut u64) -> [u64; 6] {
        [(); 6].map(|()| {
            let bytes = window.bytes();
            round(window, number, 0);
            bytes
        })
    }

    #[test]
    fn it_doubles_until_a_loss_halves_it_and_then_grows_by_a_datagram() {
        let (mut window, mut number) = (CongestionWindow::new(MTU, 1 << 30), 0);
        assert_eq!(window.bytes(), 10_000);
        round(&mut window, &mut number, 0);
        round(&mut window, &mut number, 0);
        assert_eq!(window.bytes(), 40_000);
        // Two packets of one window count as one loss.
        window.lost(at(number), at(number));
        window.lost(at(number), at(number - 1));
        assert_eq!(window.bytes(), 20_000);
        number += 1;
        round(&mut window, &mut number, 0);
        assert_eq!(window.bytes(), 21_000);
    }

    #[test]
    fn marks_shrink_it_by_their_share() {
        let (mut window, mut number) = (CongestionWindow::new(MTU, 40_000), 0);
        for _ in 0..200 {
            round(&mut window, &mut number, 0);
        }
        assert_eq!(window.bytes(), 40_000, "the most it may have");
        let before = window.bytes();
        round(&mut window, &mut number, 1);
        let small = before - window.bytes();
        assert!((1..before / 100).contains(&small), "one mark in forty takes little: {small}");
        for _ in 0..200 {
            let all = (window.bytes() / u64::from(MTU)) as u32;
            round(&mut window, &mut number, all);
        }
        assert_eq!(
            window.bytes(),
            2 * u64::from(MTU),
            "where everything is marked, it is as small as can be"
        );
    }

    #[test]
    fn after_a_collapse_it_doubles_up_to_half_of_what_it_was() {
        let (mut window, mut number) = (CongestionWindow::new(MTU, 1 << 30), 0);
        round(&mut window, &mut number, 0);
        round(&mut window, &mut number, 0);
        assert_eq!(window.bytes(), 40_000);
        window.collapse(at(number), number - 1..number);
        window.collapse(at(number), number - 1..number);
        // What was sent before is found lost only then.
        window.lost(at(number), at(number - 1));
        number += 1;
        assert_eq!(grow(&mut window, &mut number), [2000, 4000, 8000, 16_000, 32_000, 33_000]);
    }

    #[test]
    fn after_a_collapse_at_the_beginning_it_grows_as_if_there_had_been_none() {
        let (mut window, mut number) = (CongestionWindow::new(MTU, 1 << 30), 1);
        window.collapse(at(0), 0..1);
        number += 1;
        assert_eq!(grow(&mut window, &mut number), [2000, 4000, 8000, 16_000, 32_000, 64_000]);
    }

    #[test]
    fn if_all_that_was_unheard_comes_late_there_was_no_collapse() {
        let collapsed = || {
            let (mut window, mut number) = (CongestionWindow::new(MTU, 1 << 30), 1);
            round(&mut window, &mut number, 0);
            round(&mut window, &mut number, 0);
            window.lost(at(number), at(number));
            let before = window.clone();
            window.collapse(at(number + 10), number..number + 11);
            // A little comes, and its next probes are not answered either.
            window.came(&(0..=number + 2));
            window.collapse(at(number + 20), number + 3..number + 21);
            assert_eq!(window.bytes(), 2000);
            (window, before, number)
        };
        let (mut window, before, number) = collapsed();
        window.came(&(0..=number + 19));
        window.came(&(number + 1..=u64::MAX));
        assert_eq!(window.bytes(), 2000);
        window.came(&(number..=number + 20));
        assert_eq!(format!("{window:?}"), format!("{before:?}"));

        // It is no more once something was found lost, or marked, or something came that was sent
        // later.
        let lost = |window: &mut CongestionWindow, number: u64| {
            window.lost(at(number + 21), at(number + 3))
        };
        let marked = |window: &mut CongestionWindow, mut number: u64| round(window, &mut number, 1);
        let overtaken =
            |window: &mut CongestionWindow, number: u64| round(window, &mut (number + 20), 0);
        for what in [lost as fn(&mut CongestionWindow, u64), marked, overtaken] {
            let (mut window, _, number) = collapsed();
            what(&mut window, number);
            let bytes = window.bytes();
            window.came(&(0..=number + 20));
            assert_eq!(window.bytes(), bytes);
        }
    }

    #[test]
    fn who_has_nothing_to_send_gets_no_larger_window() {
        let mut window = CongestionWindow::new(MTU, 1 << 30);
        let few = Acknowledged {
            packets: 1,
            marked: 0,
            bytes: 1000,
            in_flight: 1000,
            largest: 0,
            largest_sent_at: at(0),
            next: 1,
        };
        window.acknowledged(at(9), few);
        assert_eq!(window.bytes(), 10_000);
    }
}

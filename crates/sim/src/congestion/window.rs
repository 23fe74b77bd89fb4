//! How many bytes of one lane may be under way: a window that marks make smaller.
//!
//! ```text
//!            sent                     in flight                   reported
//!  may leave ────▶ │ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ │ ────▶ acknowledged, of them marked
//!                  └── no more than the window ──┘
//! ```
//!
//! Once a round trip, the window shrinks by half of the share of bytes that came marked, as a
//! moving average has it (DCTCP, RFC 8257), or grows if it held something back and nothing came
//! marked: by a datagram, and after five such rounds in a row by ever more. A window of less than a
//! datagram lets one go in several round trips.
//!
//! Nothing here knows of packets, events or hosts.

use crate::time::Time;

/// A window that begins, in datagrams. So does one that was idle for [`IDLE`].
const FIRST: u64 = 10;

/// The largest window, in datagrams: 256 kB.
const MOST: u64 = 170;

/// The smallest window is a datagram by so many.
const SMALLEST: u64 = 4;

/// Windows of less datagrams are paced. Larger ones need not: what is acknowledged is what spaces
/// them, and a round trip that has an incast's own queue in it would hold its last frames back.
const PACED: u64 = 1;

/// How long a window is kept of which nothing is under way: some ten round trips. What marks said
/// before is no longer true of queues that drain in less, and a message that begins now is not to
/// pay for the one before.
const IDLE: Time = Time::from_picos(500_000_000);

/// All bytes marked, as `alpha` counts.
const ALL: u64 = 1 << 16;

/// What is taken for marked of a window that begins. Such windows are messages', mostly, and an
/// incast's are marked in their first round trip: halved there, as where all were marked before,
/// they would hold the rest of the message for several. Whoever goes on sending is halved after
/// some rounds.
const FIRST_SHARE: u64 = ALL / 4;

/// How much of a round's share goes into the average: one by so many.
const GAIN: u64 = 16;

/// Rounds without a mark until a window grows faster.
const CALM: u32 = 5;

/// The most datagrams by which a window grows in a round.
const FASTEST: u64 = 8;

/// A lane's window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The longest frame.
    datagram: u64,
    bytes: u64,
    in_flight: u64,
    /// The share of bytes that come marked, a moving average.
    alpha: u64,
    /// Rounds without a mark, in a row.
    calm: u32,
    /// Whether it held something back in this round.
    was_short: bool,
    /// Smoothed; zero before the first sample.
    round_trip: Time,
    /// Bytes sent and acknowledged so far.
    sent: u64,
    acked: u64,
    /// The round: when its first frame was sent, and what was sent with it.
    round: Option<(Time, u64)>,
    /// Of what was acknowledged since the last round was over: all bytes, and marked ones.
    seen: u64,
    marked: u64,
    /// Pacing: when the next frame may leave.
    next_at: Time,
    /// When something last was sent or acknowledged.
    busy_at: Time,
}

/// When a frame may leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Leave {
    /// At once.
    Now,
    /// Then, by the clock.
    At(Time),
    /// Once something is acknowledged.
    Later,
}

impl Window {
    /// A window of which nothing is under way, for frames of up to `datagram` bytes.
    pub(crate) fn new(datagram: u64) -> Self {
        Self {
            datagram,
            bytes: FIRST * datagram,
            in_flight: 0,
            alpha: FIRST_SHARE,
            calm: 0,
            was_short: false,
            round_trip: Time::ZERO,
            sent: 0,
            acked: 0,
            round: None,
            seen: 0,
            marked: 0,
            next_at: Time::ZERO,
            busy_at: Time::ZERO,
        }
    }

    /// When a frame of `len` bytes may leave that is next now.
    pub(crate) fn leave(&mut self, now: Time, len: u32) -> Leave {
        if self.in_flight == 0 && now > self.busy_at + IDLE {
            (self.bytes, self.alpha, self.calm) = (FIRST * self.datagram, FIRST_SHARE, 0);
        }
        let has_room = if self.is_paced() {
            self.in_flight < self.bytes.max(self.datagram)
        } else {
            self.in_flight + u64::from(len) <= self.bytes
        };
        let leave = match has_room {
            false => Leave::Later,
            true if self.is_paced() && now < self.next_at => Leave::At(self.next_at),
            true => return Leave::Now,
        };
        self.was_short = true;
        leave
    }

    fn is_paced(&self) -> bool {
        self.bytes < PACED * self.datagram
    }

    /// A frame leaves.
    pub(crate) fn send(&mut self, now: Time, len: u32) {
        let len = u64::from(len);
        self.in_flight += len;
        self.sent += len;
        self.busy_at = now;
        if self.round.is_none() {
            self.round = Some((now, self.sent));
        }
        if self.is_paced() {
            let gap =
                u128::from(self.round_trip.as_picos()) * u128::from(len) / u128::from(self.bytes);
            self.next_at = self.next_at.max(now) + Time::from_picos(gap as u64);
        }
    }

    /// So many bytes have arrived, of them so many marked.
    ///
    /// # Panics
    ///
    /// If that is more than was under way.
    pub(crate) fn report(&mut self, now: Time, acked: u64, marked: u64) {
        assert!(
            marked <= acked && acked <= self.in_flight,
            "{acked} bytes acknowledged, {marked} marked, of {}",
            self.in_flight
        );
        self.in_flight -= acked;
        self.acked += acked;
        self.seen += acked;
        self.marked += marked;
        self.busy_at = now;
        if let Some((began, end)) = self.round
            && self.acked >= end
        {
            self.close_round(now - began);
        }
    }

    /// A round that took so long is over.
    fn close_round(&mut self, took: Time) {
        let [took, smoothed] = [took, self.round_trip].map(Time::as_picos);
        let smoothed = if smoothed == 0 { took } else { smoothed - smoothed / 8 + took / 8 };
        self.round_trip = Time::from_picos(smoothed);
        let share = self.marked * ALL / self.seen;
        self.alpha = self.alpha - self.alpha / GAIN + share / GAIN;
        if self.marked > 0 {
            self.bytes -= self.bytes * self.alpha / (2 * ALL);
            self.calm = 0;
        } else {
            self.calm += 1;
            if self.was_short {
                let faster = 1 << self.calm.saturating_sub(CALM).min(FASTEST.ilog2());
                self.bytes += self.datagram * faster;
            }
        }
        self.bytes = self.bytes.clamp(self.datagram / SMALLEST, MOST * self.datagram);
        (self.round, self.seen, self.marked, self.was_short) = (None, 0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const DATAGRAM: u64 = 1500;

    fn at(us: u64) -> Time {
        Time::from_picos(us * 1_000_000)
    }

    /// Sends what may leave now. How many frames that was.
    fn fill(window: &mut Window, now: Time) -> u64 {
        let mut count = 0;
        while window.leave(now, DATAGRAM as u32) == Leave::Now {
            window.send(now, DATAGRAM as u32);
            count += 1;
        }
        count
    }

    /// A round trip of 20 µs of everything that may leave, all of it marked or nothing.
    fn round(window: &mut Window, number: u64, marked: bool) -> u64 {
        let count = fill(window, at(20 * number));
        let bytes = window.in_flight;
        window.report(at(20 * number + 20), bytes, if marked { bytes } else { 0 });
        count
    }

    #[test]
    fn it_begins_with_ten_datagrams_and_grows_faster_after_five_calm_rounds() {
        let mut window = Window::new(DATAGRAM);
        let counts: Vec<u64> = (0..11).map(|it| round(&mut window, it, false)).collect();
        assert_eq!(counts, [10, 11, 12, 13, 14, 15, 17, 21, 29, 37, 45]);
    }

    #[test]
    fn it_shrinks_ever_faster_where_everything_comes_marked() {
        let mut window = Window::new(DATAGRAM);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|it| round(&mut window, it, true)), [10, 8, 7, 5, 4, 3]);
        (6..60).for_each(|it| {
            window.bytes = 10 * DATAGRAM;
            round(&mut window, it, true);
        });
        // In the end by half.
        assert!(window.bytes < 51 * DATAGRAM / 10, "{}", window.bytes);
    }

    #[test]
    fn marks_that_are_few_make_it_little_smaller() {
        let mut window = Window::new(DATAGRAM);
        // The average forgets that it began with all.
        for number in 0..100 {
            round(&mut window, number, false);
        }
        let before = window.bytes;
        fill(&mut window, at(2000));
        window.report(at(2020), window.in_flight, DATAGRAM);
        assert!(window.bytes < before && window.bytes > before * 99 / 100, "{}", window.bytes);
    }

    #[test]
    fn what_needs_no_more_does_not_get_more() {
        let mut window = Window::new(DATAGRAM);
        for number in 0..20 {
            window.send(at(20 * number), 1500);
            window.report(at(20 * number + 20), 1500, 0);
        }
        assert_eq!(window.bytes, FIRST * DATAGRAM);
    }

    #[test]
    fn a_window_of_half_a_datagram_sends_one_in_two_round_trips() {
        let mut window = Window::new(DATAGRAM);
        round(&mut window, 0, false);
        window.bytes = DATAGRAM / 2;
        assert_eq!(fill(&mut window, at(100)), 1);
        window.report(at(110), DATAGRAM, DATAGRAM);
        window.bytes = DATAGRAM / 2;
        assert_eq!(window.leave(at(110), 1500), Leave::At(at(140)));
        assert_eq!(window.leave(at(140), 1500), Leave::Now);
    }

    #[test]
    fn one_that_was_idle_begins_anew() {
        let mut window = Window::new(DATAGRAM);
        for number in 0..20 {
            round(&mut window, number, true);
        }
        assert!(window.bytes < DATAGRAM);
        assert_eq!(fill(&mut window, at(200_000)), FIRST);
    }

    proptest! {
        /// A way that takes a random time, and marks at random.
        #[test]
        fn everything_is_sent_within_bounds(
            steps in prop::collection::vec((64..=1500_u32, 1..200_u64, any::<bool>()), 1..300),
        ) {
            let mut window = Window::new(DATAGRAM);
            let mut under_way: VecDeque<(Time, u32, bool)> = VecDeque::new();
            let mut now = Time::ZERO;
            let mut waiting = VecDeque::from(steps);
            while !waiting.is_empty() || !under_way.is_empty() {
                let wake = match waiting.front().copied() {
                    Some((len, delay, marked)) => match window.leave(now, len) {
                        Leave::Now => {
                            waiting.pop_front();
                            window.send(now, len);
                            under_way.push_back((now + at(delay), len, marked));
                            continue;
                        }
                        Leave::At(time) => {
                            prop_assert!(time > now);
                            Some(time)
                        }
                        Leave::Later => {
                            prop_assert!(window.in_flight > 0, "who would wake it?");
                            None
                        }
                    },
                    None => None,
                };
                let arrives = under_way.front().map(|it| it.0.max(now));
                now = [wake, arrives].into_iter().flatten().min().expect("something is to come");
                if arrives == Some(now) {
                    let (_, len, marked) = under_way.pop_front().expect("it arrives");
                    let len = u64::from(len);
                    window.report(now, len, if marked { len } else { 0 });
                }
                let flying: u64 = under_way.iter().map(|it| u64::from(it.1)).sum();
                prop_assert_eq!(window.in_flight, flying);
                prop_assert!((DATAGRAM / SMALLEST..=MOST * DATAGRAM).contains(&window.bytes));
                prop_assert!(window.in_flight <= (MOST + 1) * DATAGRAM);
                prop_assert!(window.alpha <= ALL);
            }
            prop_assert_eq!(window.sent, window.acked);
        }
    }
}

//! The scoreboard: what is in flight, and what has become of it (RFC 6675 §3).
//!
//! Records lie in the order of the stream and cover it without gaps from the first unacknowledged
//! byte to the next one to be sent. A segment that is sent again keeps its record, and its bounds.
//! Up to four [`Bursts`] without a FIN, of which nothing was heard but how far they are
//! acknowledged, need none: they lie in the endpoint. Anything else makes records, until all is
//! acknowledged.
//!
//! ```text
//!   acknowledged │ Lost │ Sacked │ InFlight, twice │ Sacked │ InFlight │ not sent yet
//!               una                                                   next
//! ```

use alloc::collections::VecDeque;

use units::{Instant, Span};

use crate::NEVER;
use crate::bursts::{Burst, Bursts};
use crate::rtt::ticks;
use crate::sent::{Fate, Sent};

/// What one acknowledgement says has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    now: Instant,
    min_rtt: Span,
    /// The timestamp that is echoed, and its clock's tick.
    echo: Option<(u32, Span)>,
    /// Segments that had not been known to be delivered.
    pub segments: u32,
    /// Segments that left the scoreboard.
    pub acked: u32,
    /// When the earliest of the newly delivered that were sent once was sent; never if there is
    /// none.
    pub oldest: Instant,
    /// When the latest was sent, and its end; zero if there is none. A copy that came back sooner
    /// than any round trip is its original.
    pub latest: Instant,
    pub latest_end: u64,
    /// Whether one of the newly acknowledged was sent more than once: no sample can be taken from
    /// its time (Karn).
    pub ambiguous: bool,
    /// The lowest and highest end among the newly delivered; the lowest only of those sent once.
    pub lowest_end: u64,
    pub highest_end: u64,
}

impl Delivery {
    #[inline]
    pub(crate) fn new(now: Instant, min_rtt: Span, echo: Option<(u32, Span)>) -> Self {
        Self {
            now,
            min_rtt,
            echo,
            segments: 0,
            acked: 0,
            oldest: NEVER,
            latest: Instant::ZERO,
            latest_end: 0,
            ambiguous: false,
            lowest_end: u64::MAX,
            highest_end: 0,
        }
    }

    /// A burst that begins at `start` is delivered, all of it.
    #[inline]
    fn note_burst(&mut self, start: u64, burst: &Burst) {
        let (len, count) = (u64::from(burst.len), u64::from(burst.segments));
        let end = start + len * count;
        self.segments += u32::from(burst.segments);
        self.highest_end = self.highest_end.max(end);
        self.lowest_end = self.lowest_end.min(start + len);
        self.oldest = self.oldest.min(burst.sent_at);
        self.note_latest(burst.sent_at, end);
    }

    /// A segment is delivered. Of one that was acknowledged in its turn, the echo tells which
    /// transmission it was.
    #[inline]
    fn note(&mut self, sent: &Sent, in_turn: bool) {
        self.segments += 1;
        let end = sent.end();
        self.highest_end = self.highest_end.max(end);
        if sent.again {
            self.ambiguous = true;
            // RFC 8985 §6.2, step 2
            let is_before =
                |(echo, tick)| (ticks(sent.sent_at, tick).wrapping_sub(echo) as i32) > 0;
            if self.now.since(sent.sent_at) < self.min_rtt
                || in_turn && self.echo.is_some_and(is_before)
            {
                return;
            }
        } else {
            self.lowest_end = self.lowest_end.min(end);
            self.oldest = self.oldest.min(sent.sent_at);
        }
        self.note_latest(sent.sent_at, end);
    }

    #[inline]
    fn note_latest(&mut self, sent_at: Instant, end: u64) {
        if (sent_at, end) > (self.latest, self.latest_end) {
            (self.latest, self.latest_end) = (sent_at, end);
        }
    }
}

/// The records. What every segment looks at comes last, and lies with what the sender has behind
/// it.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// The end of the highest that was sacked.
    highest_sacked: u64,
    /// Everything below was judged by the rule of three (`mark_by_count`).
    judged: u64,
    /// No lost record begins below.
    lost_from: u64,
    /// What is in flight, if there are no records. Then nothing was sacked, lost or sent again, nor
    /// has anything arrived that was sent later: who looks for those finds none, and need not
    /// spread.
    pub(crate) bursts: Bursts,
    len: u32,
    in_flight: u32,
    lost: u32,
}

impl Scoreboard {
    /// Segments from the first unacknowledged one on.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Segments believed to be in the network.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Segments to be sent again.
    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// Segments that arrived beyond a gap.
    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.len - self.in_flight - self.lost
    }

    /// Segments in flight that were sent more than once.
    pub(crate) fn copies(&self) -> u32 {
        let is_copy = |sent: &&Sent| sent.again && sent.fate == Fate::InFlight;
        self.sent.iter().filter(is_copy).count() as u32
    }

    /// A segment's record, if it has one.
    pub(crate) fn get(&self, index: usize) -> Option<&Sent> {
        self.sent.get(index)
    }

    /// Whether there are records.
    #[inline]
    fn is_spread(&self) -> bool {
        self.len > 0 && self.bursts.is_empty()
    }

    /// Has a record for each segment, from now on until all is acknowledged.
    #[inline]
    fn spread(&mut self) {
        if !self.bursts.is_empty() {
            self.make_records();
        }
    }

    #[cold]
    fn make_records(&mut self) {
        self.sent.extend(self.bursts.drain());
    }

    /// A new segment leaves.
    #[inline]
    pub(crate) fn push(&mut self, sent: Sent) {
        let is_in_burst = !self.is_spread() && self.bursts.push(&sent);
        self.len += 1;
        self.in_flight += 1;
        if !is_in_burst {
            self.spread();
            self.sent.push_back(sent);
        }
    }

    /// Everything below `una` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, una: u64, news: &mut Delivery) {
        while let Some((start, burst)) = self.bursts.take(una) {
            let count = u32::from(burst.segments);
            self.len -= count;
            self.in_flight -= count;
            news.acked += count;
            news.note_burst(start, &burst);
        }
        if self.is_spread() || self.bursts.is_cut(una) {
            self.acknowledge_records(una, news);
        }
    }

    /// The same, of records.
    #[inline(never)]
    fn acknowledge_records(&mut self, una: u64, news: &mut Delivery) {
        self.spread();
        while let Some(first) = self.sent.front_mut() {
            if first.end() > una {
                if first.seq < una {
                    // Its front was taken, its rest not.
                    first.len -= (una - first.seq) as u16;
                    first.seq = una;
                }
                break;
            }
            match first.fate {
                Fate::InFlight => self.in_flight -= 1,
                Fate::Lost => self.lost -= 1,
                Fate::Sacked => {}
            }
            if first.fate != Fate::Sacked {
                news.note(first, true);
            }
            news.acked += 1;
            self.len -= 1;
            self.sent.pop_front();
        }
    }

    /// The segments within `start..end` have arrived (RFC 2018 §4). What is covered in part has
    /// not.
    pub(crate) fn sack(&mut self, start: u64, end: u64, news: &mut Delivery) {
        self.spread();
        let from = self.sent.partition_point(|sent| sent.seq < start);
        for sent in self.sent.range_mut(from..) {
            if sent.end() > end {
                break;
            }
            match sent.fate {
                Fate::InFlight => self.in_flight -= 1,
                Fate::Lost => self.lost -= 1,
                Fate::Sacked => continue,
            }
            sent.fate = Fate::Sacked;
            news.note(sent, false);
            self.highest_sacked = self.highest_sacked.max(sent.end());
        }
    }

    /// Gives a segment up, if it is in flight.
    pub(crate) fn mark_lost(&mut self, index: usize) -> bool {
        self.spread();
        let sent = &mut self.sent[index];
        if sent.fate != Fate::InFlight {
            return false;
        }
        sent.fate = Fate::Lost;
        self.in_flight -= 1;
        self.lost += 1;
        self.lost_from = self.lost_from.min(sent.seq);
        true
    }

    /// Gives up every segment above which three have arrived (RFC 6675 §4, IsLost), unless it was
    /// sent again already. Returns how many.
    pub(crate) fn mark_by_count(&mut self) -> u32 {
        let mut index = self.sent.partition_point(|sent| sent.seq < self.highest_sacked);
        let mut above = 0;
        while above < 3 {
            if index == 0 {
                return 0;
            }
            index -= 1;
            above += u32::from(self.sent[index].fate == Fate::Sacked);
        }
        let judged = self.sent[index].seq;
        let mut newly = 0;
        while index > 0 && self.sent[index - 1].seq >= self.judged {
            index -= 1;
            newly += u32::from(!self.sent[index].again && self.mark_lost(index));
        }
        self.judged = self.judged.max(judged);
        newly
    }

    /// Gives up every segment that was sent before `latest`, which has arrived, and at least
    /// `patience` ago (RFC 8985 §6.2, step 5). Returns how many, and when the patience with all
    /// others ends.
    pub(crate) fn mark_by_time(
        &mut self,
        latest: (Instant, u64),
        patience: Span,
        now: Instant,
    ) -> (u32, Option<Instant>) {
        let (mut newly, mut wake) = (0, None);
        for index in 0..self.sent.len() {
            let sent = &self.sent[index];
            if sent.fate != Fate::InFlight {
                continue;
            }
            if (sent.sent_at, sent.end()) >= latest {
                if sent.again {
                    continue;
                }
                // Nor was anything behind it sent earlier.
                break;
            }
            let due = sent.sent_at + patience;
            if due <= now {
                newly += u32::from(self.mark_lost(index));
            } else {
                wake = wake.max(Some(due));
            }
        }
        (newly, wake)
    }

    /// Gives up everything that `holds` of, after a timeout.
    pub(crate) fn mark_where(&mut self, mut holds: impl FnMut(usize, &Sent) -> bool) {
        self.spread();
        for index in 0..self.sent.len() {
            if holds(index, &self.sent[index]) {
                self.mark_lost(index);
            }
        }
    }

    /// Nothing was lost after all.
    pub(crate) fn unmark_lost(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Lost {
                sent.fate = Fate::InFlight;
            }
        }
        self.in_flight += self.lost;
        self.lost = 0;
    }

    /// The other side has thrown away what it had out of order (RFC 2018 §8).
    pub(crate) fn forget_sacks(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Sacked {
                sent.fate = Fate::InFlight;
                self.in_flight += 1;
            }
        }
    }

    /// The first lost segment.
    #[inline]
    pub(crate) fn first_lost(&mut self) -> Option<usize> {
        if self.lost == 0 { None } else { Some(self.find_lost()) }
    }

    fn find_lost(&mut self) -> usize {
        let from = self.sent.partition_point(|sent| sent.seq < self.lost_from);
        let ahead = self.sent.range(from..).position(|sent| sent.fate == Fate::Lost);
        let index =
            from + ahead.expect("lost segments are counted, and none begins below `lost_from`");
        self.lost_from = self.sent[index].seq;
        index
    }

    /// The first segment that has not arrived, was sent once, and begins below the highest that has
    /// arrived (RFC 6675 §4, NextSeg, rule 3).
    pub(crate) fn first_doubtful(&self) -> Option<usize> {
        let from = self.sent.partition_point(|sent| sent.seq < self.judged);
        let doubtful = |sent: &Sent| sent.fate == Fate::InFlight && !sent.again;
        let index = from + self.sent.range(from..).position(doubtful)?;
        (self.sent[index].seq < self.highest_sacked).then_some(index)
    }

    /// The last segment that has not arrived.
    pub(crate) fn last_missing(&self) -> Option<usize> {
        self.sent.iter().rposition(|sent| sent.fate != Fate::Sacked)
    }

    /// A segment leaves once more.
    pub(crate) fn resend(&mut self, index: usize, now: Instant) -> Sent {
        self.spread();
        let sent = &mut self.sent[index];
        if sent.fate == Fate::Lost {
            self.lost -= 1;
            self.in_flight += 1;
            sent.fate = Fate::InFlight;
        }
        sent.sent_at = now;
        sent.again = true;
        *sent
    }

    /// Recounts, and compares with what is kept.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        assert!(self.bursts.is_empty() || self.sent.is_empty());
        let mut all = self.clone();
        all.spread();
        let count = |fate| all.sent.iter().filter(|sent| sent.fate == fate).count() as u32;
        assert_eq!((count(Fate::InFlight), count(Fate::Lost)), (self.in_flight, self.lost));
        assert_eq!(all.sent.len(), self.len as usize);
        assert!(all.sent.iter().zip(all.sent.iter().skip(1)).all(|(a, b)| a.end() == b.seq));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::format;

    use super::*;

    /// Ten segments of 100 bytes, sent a nanosecond apart.
    fn ten() -> Scoreboard {
        let mut scoreboard = Scoreboard::default();
        for n in 0..10 {
            scoreboard.push(Sent::new(1000 + 100 * n, Instant::from_nanos(n), 100, false));
        }
        scoreboard
    }

    fn news() -> Delivery {
        Delivery::new(Instant::from_nanos(1000), Span::from_nanos(500), None)
    }

    #[test]
    fn three_above_make_a_segment_lost() {
        let mut scoreboard = ten();
        let mut news = news();
        scoreboard.sack(1200, 1300, &mut news);
        scoreboard.sack(1400, 1500, &mut news);
        assert_eq!(scoreboard.mark_by_count(), 0);
        scoreboard.sack(1700, 1800, &mut news);
        assert_eq!(scoreboard.mark_by_count(), 2);
        scoreboard.audit();
        assert_eq!((news.segments, scoreboard.sacked(), scoreboard.lost()), (3, 3, 2));
        // What was sent again is not judged again; what lies between is, once there are three above
        // it.
        assert_eq!(scoreboard.first_lost(), Some(0));
        scoreboard.resend(0, Instant::from_nanos(50));
        scoreboard.sack(1800, 2000, &mut news);
        assert_eq!(scoreboard.mark_by_count(), 3);
        assert_eq!(scoreboard.first_lost(), Some(1));
        scoreboard.audit();
    }

    #[test]
    fn an_acknowledgement_tells_only_what_is_new() {
        let mut scoreboard = ten();
        scoreboard.sack(1300, 1500, &mut news());
        scoreboard.resend(1, Instant::from_nanos(900));
        let mut told = news();
        scoreboard.acknowledge(1650, &mut told);
        scoreboard.audit();
        // Of 1000, 1100 (twice), 1200, 1300 and 1400 (known) and 1500; the first half of 1600.
        assert_eq!((told.acked, told.segments, told.ambiguous), (6, 4, true));
        assert_eq!(told.oldest, Instant::ZERO);
        // The copy came back after 100 ns, and no round trip is below 500.
        assert_eq!((told.latest, told.latest_end), (Instant::from_nanos(5), 1600));
        assert_eq!(scoreboard.get(0).map(|it| (it.seq, it.len)), Some((1650, 50)));
    }

    #[test]
    fn what_was_given_up_can_be_taken_back() {
        let mut scoreboard = ten();
        scoreboard.sack(1800, 2000, &mut news());
        scoreboard.mark_where(|index, _| index < 5);
        assert_eq!((scoreboard.lost(), scoreboard.in_flight(), scoreboard.sacked()), (5, 3, 2));
        assert_eq!(scoreboard.last_missing(), Some(7));
        scoreboard.unmark_lost();
        scoreboard.audit();
        assert_eq!((scoreboard.lost(), scoreboard.in_flight()), (0, 8));
        scoreboard.forget_sacks();
        scoreboard.audit();
        assert_eq!(scoreboard.in_flight(), 10);
    }

    /// What happens to a scoreboard.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Segments of this length leave, all at once.
        Send { count: u64, len: u16 },
        /// The stream ends.
        Finish,
        /// So much more is acknowledged, in thousandths of what is in flight.
        Acknowledge(u64),
        /// So much is reported beyond a gap.
        Sack(u64, u64),
        /// All is given up, and the first of it sent again.
        GiveUp,
        /// What was sent so many nanoseconds before something that has arrived is given up, and
        /// what three are above.
        Judge(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (1..20_u64, prop_oneof![4 => Just(1448), 1 => 1..1448_u16])
                .prop_map(|(count, len)| Step::Send { count, len }),
            1 => Just(Step::Finish),
            6 => prop_oneof![Just(1000), 0..=1000_u64].prop_map(Step::Acknowledge),
            1 => (0..900_u64, 1..600_u64).prop_map(|(from, len)| Step::Sack(from, from + len)),
            1 => Just(Step::GiveUp),
            2 => (0..20_u64).prop_map(Step::Judge),
        ]
    }

    proptest! {
        #[test]
        fn bursts_tell_what_records_tell(steps in prop::collection::vec(step(), 1..60)) {
            let (mut una, mut next) = (1 << 32, 1 << 32);
            let mut latest = (Instant::ZERO, 0);
            let (mut bursts, mut records) = (Scoreboard::default(), Scoreboard::default());
            for (time, step) in (0..).zip(steps) {
                let now = Instant::from_nanos(time);
                let place = |thousandths: u64| una + (next - una) * thousandths.min(1000) / 1000;
                let take = |scoreboard: &mut Scoreboard, has_records: bool| {
                    let mut news = Delivery::new(now, Span::from_nanos(2), None);
                    let mut judged = None;
                    let push = |scoreboard: &mut Scoreboard, seq, len, fin| {
                        scoreboard.push(Sent::new(seq, now, len, fin));
                        if has_records {
                            scoreboard.spread();
                        }
                    };
                    match step {
                        Step::Send { count, len } => {
                            (0..count).for_each(|n| push(scoreboard, next + n * u64::from(len), len, false));
                        }
                        Step::Finish => push(scoreboard, next, 0, true),
                        Step::Acknowledge(part) => scoreboard.acknowledge(place(part), &mut news),
                        Step::Sack(from, to) => scoreboard.sack(place(from), place(to), &mut news),
                        Step::GiveUp => {
                            scoreboard.mark_where(|_, _| true);
                            if let Some(first) = scoreboard.first_lost() {
                                scoreboard.resend(first, now);
                            }
                        }
                        Step::Judge(patience) => {
                            let by_time = scoreboard.mark_by_time(latest, Span::from_nanos(patience), now);
                            judged = Some((by_time, scoreboard.mark_by_count()));
                        }
                    }
                    scoreboard.audit();
                    let counts = [scoreboard.len(), scoreboard.in_flight(), scoreboard.lost(), scoreboard.copies()];
                    (news, judged, counts, scoreboard.first_doubtful())
                };
                let (one, other) = (take(&mut bursts, false), take(&mut records, true));
                prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
                latest = latest.max((one.0.latest, one.0.latest_end));
                match step {
                    Step::Send { count, len } => next += count * u64::from(len),
                    Step::Finish => next += 1,
                    Step::Acknowledge(part) => una = place(part),
                    Step::Sack(..) | Step::GiveUp | Step::Judge(_) => {}
                }
            }
            bursts.spread();
            prop_assert_eq!(format!("{:?}", bursts.sent), format!("{:?}", records.sent));
        }
    }
}

//! What is seen of a connection from the middle of its path.

use std::collections::BTreeMap;

use units::{Instant, Span};

use crate::path::Passed;

/// A segment with payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    /// The position of its first byte in the stream.
    pub start: u64,
    pub len: u16,
    /// Whether all of it was sent before.
    pub again: bool,
}

/// One connection.
pub struct Trace {
    log: Vec<Passed>,
    isn: u32,
    /// By how much the path was late at worst.
    pub late: Span,
}

impl Trace {
    pub fn new(log: Vec<Passed>, late: Span) -> Self {
        let isn =
            log.iter().find(|passed| passed.syn).expect("a connection begins with a SYN").number;
        Self { log, isn, late }
    }

    fn data(&self) -> impl Iterator<Item = (u64, &Passed)> {
        let first = self.isn.wrapping_add(1);
        let data = self.log.iter().filter(|passed| passed.len > 0);
        data.map(move |passed| (passed.number.wrapping_sub(first).into(), passed))
    }

    /// The segments with payload, with the time at which each was sent.
    pub fn sent(&self) -> Vec<(Instant, Sent)> {
        let mut highest = 0;
        let mut sent = Vec::new();
        for (start, passed) in self.data() {
            let end = start + u64::from(passed.len);
            sent.push((passed.at, Sent { start, len: passed.len, again: end <= highest }));
            highest = highest.max(end);
        }
        sent
    }

    /// The first SYN's time.
    pub fn opened(&self) -> Instant {
        self.log[0].at
    }

    /// When the first payload was sent.
    pub fn begun(&self) -> Instant {
        self.data().next().expect("something was sent").1.at
    }

    /// Without what was sent later.
    pub fn until(mut self, end: Instant) -> Self {
        self.log.retain(|passed| passed.at < end);
        self
    }

    /// How many segments were sent again.
    pub fn again(&self) -> usize {
        self.sent().iter().filter(|(_, sent)| sent.again).count()
    }

    /// How many segments with payload were dropped.
    pub fn dropped(&self) -> usize {
        self.data().filter(|(_, passed)| passed.arrives.is_none()).count()
    }

    /// When the first `bytes` of the stream were all there, if they ever were.
    pub fn complete(&self, bytes: u64) -> Option<Instant> {
        let (mut whole, mut at) = (0, Instant::ZERO);
        let mut beyond = BTreeMap::new();
        for (start, passed) in self.data() {
            // The path keeps their order, so what was sent first arrives first.
            let Some(arrives) = passed.arrives else { continue };
            let end = beyond.entry(start).or_insert(0);
            *end = start.saturating_add(passed.len.into()).max(*end);
            while let Some(entry) = beyond.first_entry().filter(|entry| *entry.key() <= whole) {
                whole = whole.max(entry.remove());
                at = arrives;
            }
            if whole >= bytes {
                return Some(at);
            }
        }
        None
    }

    /// How much of the stream was there, without a gap, so long after it began: in bit/s.
    pub fn goodput(&self, over: Span) -> f64 {
        let end = self.begun() + over;
        let mut whole = 0;
        let mut beyond = BTreeMap::new();
        for (start, passed) in self.data() {
            if passed.arrives.is_none_or(|arrives| arrives > end) {
                continue;
            }
            beyond.insert(start, start + u64::from(passed.len));
            while let Some(entry) = beyond.first_entry().filter(|entry| *entry.key() <= whole) {
                whole = whole.max(entry.remove());
            }
        }
        8.0 * whole as f64 / over.as_secs_f64()
    }

    /// The segments with payload as `<ms since the first>:<number>`, `+` behind those sent again,
    /// `!` behind those dropped.
    pub fn told(&self) -> String {
        let words = self.data().zip(self.sent()).map(|((_, passed), (at, sent))| {
            let ms = at.since(self.begun()).as_secs_f64() * 1e3;
            let again = if sent.again { "+" } else { "" };
            let dropped = if passed.arrives.is_none() { "!" } else { "" };
            format!("{ms:.1}:{}{again}{dropped}", sent.start / 1448)
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Where drops cluster: `<s since the beginning>x<how many>` for those that follow within 100
    /// ms.
    pub fn losses(&self) -> String {
        let mut clusters: Vec<(f64, f64, u32)> = Vec::new();
        for (_, passed) in self.data().filter(|(_, passed)| passed.arrives.is_none()) {
            let at = passed.at.since(self.begun()).as_secs_f64();
            match clusters.last_mut() {
                Some((_, last, count)) if at - *last < 0.1 => (*last, *count) = (at, *count + 1),
                _ => clusters.push((at, at, 1)),
            }
        }
        clusters.iter().map(|(at, _, count)| format!("{at:.2}x{count} ")).collect()
    }
}

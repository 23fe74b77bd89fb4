//! How much a link could have carried that it was not given.

use units::{Instant, Rate};

/// A bit, in the unit of levels: bits times nanoseconds a second.
const BIT: i128 = 1_000_000_000;

/// A token bucket whose depth may change, and whose debt is bounded: what arrives unasked may be
/// more than the link's rate for any time.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    level: i128,
    filled_at: Instant,
}

impl Bucket {
    /// An empty one.
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, level: 0, filled_at: Instant::ZERO }
    }

    /// It is `now`, and the bucket holds so many bytes at most, and owes no more than `debt`.
    pub(super) fn fill(&mut self, now: Instant, depth: u64, debt: u64) {
        let time = i128::from(now.since(self.filled_at).as_nanos());
        let [depth, debt] = [depth, debt].map(|bytes| i128::from(bytes) * 8 * BIT);
        let added = i128::from(self.rate.bits_per_sec()).saturating_mul(time);
        self.level = self.level.max(-debt).saturating_add(added).min(depth);
        self.filled_at = self.filled_at.max(now);
    }

    /// Takes so many bytes, into debt if need be.
    pub(super) fn take(&mut self, bytes: u64) {
        self.level -= i128::from(bytes) * 8 * BIT;
    }

    /// Whether it owes more than so many bytes.
    pub(super) fn owes(&self, bytes: u64) -> bool {
        self.level < -(i128::from(bytes) * 8 * BIT)
    }

    /// Whether there is anything in it.
    pub(super) fn has_some(&self) -> bool {
        self.level > 0
    }

    /// When there will be.
    pub(super) fn ready_at(&self) -> Instant {
        let missing = (1 - self.level).max(0).cast_unsigned();
        let ns = missing.div_ceil(u128::from(self.rate.bits_per_sec()));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Instant::from_nanos(self.filled_at.as_nanos().saturating_add(ns))
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    #[test]
    fn it_fills_with_time_and_neither_holds_nor_owes_more_than_its_depth() {
        let at = |us| Instant::ZERO + Span::from_micros(us);
        // A gigabit: 125 bytes in a microsecond.
        let mut bucket = Bucket::new(Rate::from_gbit(1));
        bucket.fill(at(0), 1000, 1000);
        assert!(!bucket.has_some());
        bucket.fill(at(1000), 1000, 1000);
        bucket.take(1000);
        assert!(!bucket.has_some());
        assert_eq!(bucket.ready_at(), at(1000) + Span::from_nanos(1));
        bucket.take(250);
        assert_eq!(bucket.ready_at(), at(1002) + Span::from_nanos(1));
        bucket.take(1_000_000);
        bucket.fill(at(1000), 1000, 1000);
        assert_eq!(bucket.ready_at(), at(1008) + Span::from_nanos(1));
    }
}

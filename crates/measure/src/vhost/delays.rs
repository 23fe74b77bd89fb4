//! How long frames were on their way: many numbers in little room.

/// Each power of two has so many parts: a delay is known to 1/32 of itself.
const PARTS: u64 = 32;

/// Delays by ticks, counted in parts of powers of two.
#[derive(Clone, Debug)]
pub struct Delays {
    counts: Box<[u64]>,
    count: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { counts: vec![0; place(u64::MAX) + 1].into(), count: 0 }
    }
}

impl Delays {
    /// Books one.
    #[inline]
    pub fn book(&mut self, ticks: u64) {
        self.counts[place(ticks)] += 1;
        self.count += 1;
    }

    /// Books what others have booked.
    pub fn add(&mut self, others: &Self) {
        self.counts.iter_mut().zip(&others.counts).for_each(|(count, other)| *count += other);
        self.count += others.count;
    }

    /// The mean, to a part of itself; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let sum = self.counts.iter().enumerate();
        let sum: f64 = sum.map(|(place, count)| longest(place) as f64 * *count as f64).sum();
        (self.count > 0).then(|| sum / self.count as f64)
    }

    /// The delay that a share of them does not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let mut left = (share * self.count as f64).ceil().max(1.0) as u64;
        let found = self.counts.iter().position(|count| {
            let here = left <= *count;
            left = left.saturating_sub(*count);
            here
        });
        found.map(longest)
    }
}

/// Where a delay is counted.
#[inline]
fn place(ticks: u64) -> usize {
    // Below PARTS each has its own place; above, PARTS to each power of two.
    let shift =
        (u64::BITS - PARTS.trailing_zeros()).saturating_sub((ticks | 1).leading_zeros() + 1);
    (u64::from(shift) * PARTS + (ticks >> shift)) as usize
}

/// The longest delay that is counted there.
fn longest(place: usize) -> u64 {
    let place = place as u64;
    let shift = (place / PARTS).saturating_sub(1);
    let part = place - shift * PARTS;
    (part << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_known_to_a_part_of_itself() {
        let mut last = 0;
        for ticks in (0..2000)
            .chain((11..64).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            let upper = longest(place(ticks));
            assert!(upper >= ticks && upper - ticks <= ticks / PARTS, "{ticks}: {upper}");
            assert!(place(ticks) >= last);
            last = place(ticks);
        }
        assert_eq!(longest(place(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_of_what_was_booked() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile(0.5), None);
        (1..=1000).for_each(|ticks| delays.book(ticks));
        let told = [0.001, 0.01, 0.5, 0.999, 1.0].map(|share| delays.quantile(share).unwrap());
        assert_eq!(told[..2], [1, 10]);
        let mut twice = delays.clone();
        twice.add(&delays);
        assert_eq!(twice.quantile(0.5), delays.quantile(0.5));
        assert!((500.0..516.0).contains(&twice.mean().unwrap()), "{:?}", twice.mean());
        for (told, exact) in told[2..].iter().zip([500, 999, 1000]) {
            assert!((exact..=exact + exact / PARTS).contains(told), "{told} for {exact}");
        }
    }
}

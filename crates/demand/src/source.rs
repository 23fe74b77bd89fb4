//! What a machine asks for at a random time.

use alloc::vec::Vec;

/// A rate, and the share of time that has it.
pub type Share = (u64, f64);

/// The distribution of what a machine, or a group that moves together, asks for at a random time:
/// equation 1 of the paper, with any number of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// By rising rate; each rate once, each share above 0, all shares together 1.
    shares: Vec<Share>,
}

/// Why shares are no distribution.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SourceError {
    /// No share is above 0.
    #[error("a source needs a rate that it has at some time")]
    Nothing,
    /// A share is below 0 or not a number.
    #[error("{share} is not a share of time: it has to be 0 or more")]
    Share {
        /// The share.
        share: f64,
    },
    /// The shares are not shares of one time.
    #[error("shares of time have to sum to 1, and these sum to {sum}")]
    Sum {
        /// Their sum.
        sum: f64,
    },
}

impl Source {
    /// A source that has each rate for a share of time.
    ///
    /// Shares have to sum to 1; a millionth more or less, as decimals make it, is divided out.
    ///
    /// # Errors
    ///
    /// [`SourceError`] says what is wrong with the shares.
    pub fn new(shares: impl IntoIterator<Item = Share>) -> Result<Self, SourceError> {
        let shares: Vec<Share> = shares.into_iter().collect();
        if let Some(&(_, share)) = shares.iter().find(|(_, it)| it.is_nan() || *it < 0.0) {
            return Err(SourceError::Share { share });
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum == 0.0 {
            return Err(SourceError::Nothing);
        }
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(SourceError::Sum { sum });
        }
        Ok(Self::gathered(shares))
    }

    /// Equation 1: `rate` with probability `on`, and nothing otherwise.
    ///
    /// # Panics
    ///
    /// If `on` is no probability.
    pub fn on_off(rate: u64, on: f64) -> Self {
        assert!((0.0..=1.0).contains(&on), "{on} is no probability");
        Self::gathered([(0, 1.0 - on), (rate, on)].into())
    }

    /// The same rate at all times.
    pub fn constant(rate: u64) -> Self {
        Self { shares: [(rate, 1.0)].into() }
    }

    /// What machines ask for together that always move together: whenever one is at a rate that it
    /// exceeds for some share of time, each other is at the rate that it exceeds for the same share
    /// (the comonotone sum). Machines of one model then share its state, and this is the worst that
    /// may happen: no other dependence has a larger excess over any capacity.
    ///
    /// Each source counts as often as its number says.
    pub fn together<'a>(members: impl IntoIterator<Item = (&'a Source, u32)>) -> Self {
        let mut members: Vec<_> = members
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(source, count)| (source.shares.iter(), u64::from(count), (0, 0.0)))
            .collect();
        // From the lowest quantile upwards: all keep their rates until the first share is used up.
        let mut sums = Vec::new();
        for member in &mut members {
            member.2 = *member.0.next().expect("a source has a share");
        }
        loop {
            let least = members.iter().map(|(_, _, (_, share))| *share).fold(1.0, f64::min);
            let rate = members.iter().fold(0u64, |sum, (_, count, (rate, _))| {
                sum.saturating_add(rate.saturating_mul(*count))
            });
            sums.push((rate, least));
            for (rest, _, current) in &mut members {
                current.1 -= least;
                if current.1 <= ROUNDING {
                    match rest.next() {
                        Some(next) => *current = *next,
                        // What is left of the others now is rounding.
                        None => return Self::gathered(sums),
                    }
                }
            }
            if members.is_empty() {
                return Self::gathered(sums);
            }
        }
    }

    /// The source with each rate changed by `to`, for instance from bits a second to a core's
    /// nanoseconds.
    pub fn map(&self, to: impl Fn(u64) -> u64) -> Self {
        Self::gathered(self.shares.iter().map(|(rate, share)| (to(*rate), *share)).collect())
    }

    /// Rates and their shares of time, by rising rate.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The mean rate.
    pub fn mean(&self) -> f64 {
        self.shares.iter().map(|(rate, share)| *rate as f64 * share).sum()
    }

    /// The variance of the rate.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let square = |rate: u64| (rate as f64 - mean) * (rate as f64 - mean);
        self.shares.iter().map(|(rate, share)| square(*rate) * share).sum()
    }

    /// The highest rate.
    pub fn peak(&self) -> u64 {
        self.shares.last().expect("a source has a share").0
    }

    /// The share of time in which more than `rate` is asked for.
    pub fn above(&self, rate: u64) -> f64 {
        self.shares.iter().filter(|(it, _)| *it > rate).map(|(_, share)| share).sum()
    }

    /// The rate that is exceeded in no more than `share` of the time.
    pub fn quantile_above(&self, share: f64) -> u64 {
        let mut above = 0.0;
        for (rate, part) in self.shares.iter().rev() {
            above += part;
            if above > share {
                return *rate;
            }
        }
        self.shares[0].0
    }

    /// Sorts, joins what has one rate, leaves out what never is, and makes the sum 1.
    fn gathered(mut shares: Vec<Share>) -> Self {
        shares.sort_by_key(|(rate, _)| *rate);
        shares.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
        shares.retain(|(_, share)| *share > 0.0);
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        for (_, share) in &mut shares {
            *share /= sum;
        }
        Self { shares }
    }
}

/// How far from 1 the sum of shares, written as decimals, may be.
pub(crate) const SUM_TOLERANCE: f64 = 1e-6;

/// Shares that differ by less are equal, but for rounding.
const ROUNDING: f64 = 1e-15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sorted_and_joined_and_shares_sum_to_one() {
        let source = Source::new([(5, 0.25), (0, 0.5), (5, 0.25), (9, 0.0)]).unwrap();
        assert_eq!(source.shares(), [(0, 0.5), (5, 0.5)]);
        assert_eq!((source.mean(), source.variance(), source.peak()), (2.5, 6.25, 5));
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_a_sentence() {
        assert_eq!(Source::new([]), Err(SourceError::Nothing));
        assert_eq!(Source::new([(1, -0.5)]), Err(SourceError::Share { share: -0.5 }));
        assert!(Source::new([(1, f64::NAN)]).is_err());
        let error = Source::new([(1, 0.5), (2, 0.25)]).unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "shares of time have to sum to 1, and these sum to 0.75"
        );
    }

    #[test]
    fn machines_of_one_model_that_move_together_share_its_state() {
        let source = Source::new([(0, 0.5), (10, 0.3), (40, 0.2)]).unwrap();
        let together = Source::together([(&source, 3)]);
        for ((rate, share), (tripled, same)) in source.shares().iter().zip(together.shares()) {
            assert_eq!(3 * rate, *tripled);
            assert!((share - same).abs() < 1e-15);
        }
    }

    #[test]
    fn machines_of_two_models_that_move_together_peak_together() {
        let backup = Source::on_off(100, 0.25);
        let copy = Source::on_off(30, 0.5);
        let together = Source::together([(&backup, 1), (&copy, 2)]);
        assert_eq!(together.shares(), [(0, 0.5), (60, 0.25), (160, 0.25)]);
        assert_eq!(together.mean(), 25.0 + 30.0);
    }

    #[test]
    fn nobody_together_asks_for_nothing() {
        assert_eq!(Source::together([]), Source::constant(0));
        assert_eq!(Source::together([(&Source::constant(7), 0)]), Source::constant(0));
    }

    #[test]
    fn a_quantile_is_exceeded_no_longer_than_is_said() {
        let source = Source::new([(0, 0.5), (10, 0.3), (40, 0.2)]).unwrap();
        assert_eq!(source.quantile_above(0.1), 40);
        assert_eq!(source.quantile_above(0.25), 10);
        assert_eq!(source.quantile_above(0.9), 0);
        assert_eq!(source.above(10), 0.2);
    }
}

//! Counters that were read now and then, as rates in equal steps.

use core::fmt;

use alloc::vec::Vec;

use units::{Instant, Span};

/// What was sent in each step of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    step: Span,
    /// When each sample began, and its rate.
    samples: Vec<(Instant, u64)>,
    faults: Vec<Fault>,
    /// The share of the trace that gaps are.
    missing: f64,
}

/// Something in a trace that was left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Readings further apart than one and a half steps. What was sent in between is known in sum
    /// only, so it is left out.
    Gaps {
        /// How many there are.
        count: u64,
        /// How long all of them are.
        missing: Span,
    },
    /// A counter that went back: its machine was restarted, or it wrapped around.
    Resets {
        /// How often.
        count: u64,
    },
    /// Readings at the time of the reading before.
    Duplicates {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gaps { count: 1, missing } => {
                write!(f, "1 gap of {:.0} s is left out", missing.as_secs_f64())
            }
            Self::Gaps { count, missing } => {
                write!(f, "{count} gaps, {:.0} s in all, are left out", missing.as_secs_f64())
            }
            Self::Resets { count: 1 } => {
                f.write_str("the counter goes back once; that sample is left out")
            }
            Self::Resets { count } => {
                write!(f, "the counter goes back {count} times; those samples are left out")
            }
            Self::Duplicates { count: 1 } => {
                f.write_str("1 reading has the time of the reading before and is left out")
            }
            Self::Duplicates { count } => {
                write!(f, "{count} readings have the time of the reading before and are left out")
            }
        }
    }
}

/// Why readings are no trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SeriesError {
    /// There are not as many times as readings.
    #[error("there are {times} times for {readings} readings")]
    Lengths {
        /// Times.
        times: usize,
        /// Readings.
        readings: usize,
    },
    /// Nothing is left from which a rate could be had.
    #[error("a trace needs at least {LEAST} samples, and this has {samples}")]
    Short {
        /// How many there are.
        samples: usize,
    },
    /// Time goes backwards.
    #[error("row {row} is earlier than the row before: sort the trace by time")]
    Backwards {
        /// The row, counted from 1.
        row: usize,
    },
    /// The step of a trace is zero.
    #[error("samples need a time between them")]
    Step,
}

/// The fewest samples of a trace.
const LEAST: usize = 2;

impl Series {
    /// The rates between readings of counters that are added up, each unit of which counts
    /// `per_unit`: 8 if bytes were counted and bits are asked for.
    ///
    /// Each reading has the same counters. The step is the median time between readings. What
    /// cannot be a rate is left out and told by [`Series::faults`]: a counter that goes back is
    /// seen even if the others make up for it.
    ///
    /// # Errors
    ///
    /// [`SeriesError`] says why there is no trace.
    pub fn from_counters(
        times: &[Instant],
        counters: &[impl AsRef<[u64]>],
        per_unit: u64,
    ) -> Result<Self, SeriesError> {
        if times.len() != counters.len() {
            return Err(SeriesError::Lengths { times: times.len(), readings: counters.len() });
        }
        if let Some(place) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(SeriesError::Backwards { row: place + 2 });
        }
        let mut apart: Vec<u64> =
            times.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos()).collect();
        apart.retain(|ns| *ns > 0);
        if apart.len() < LEAST {
            return Err(SeriesError::Short { samples: apart.len() });
        }
        let middle = apart.len() / 2;
        let step = *apart.select_nth_unstable(middle).1;

        let (mut gaps, mut missing, mut resets, mut duplicates) = (0, Span::ZERO, 0, 0);
        let mut samples = Vec::with_capacity(apart.len());
        let mut last = (times[0], &counters[0]);
        for (&at, counts) in times.iter().zip(counters).skip(1) {
            let took = at.since(last.0);
            if took == Span::ZERO {
                duplicates += 1;
                continue;
            }
            if took.as_nanos() > step.saturating_add(step / 2) {
                gaps += 1;
                missing += took;
            } else if let Some(count) = growth(last.1.as_ref(), counts.as_ref()) {
                let amount = count.saturating_mul(u128::from(per_unit) * 1_000_000_000);
                let rate = amount.div_ceil(u128::from(took.as_nanos()));
                samples.push((last.0, u64::try_from(rate).unwrap_or(u64::MAX)));
            } else {
                resets += 1;
            }
            last = (at, counts);
        }
        if samples.len() < LEAST {
            return Err(SeriesError::Short { samples: samples.len() });
        }
        let faults = [
            (gaps > 0).then_some(Fault::Gaps { count: gaps, missing }),
            (resets > 0).then_some(Fault::Resets { count: resets }),
            (duplicates > 0).then_some(Fault::Duplicates { count: duplicates }),
        ];
        let faults = faults.into_iter().flatten().collect();
        let step = Span::from_nanos(step);
        let traced = step.as_secs_f64() * samples.len() as f64;
        let missing = missing.as_secs_f64() / (traced + missing.as_secs_f64());
        Ok(Self { step, samples, faults, missing })
    }

    /// Rates that somebody else has computed, one for each step from `start` on.
    ///
    /// # Errors
    ///
    /// [`SeriesError`] says why there is no trace.
    pub fn from_rates(start: Instant, step: Span, rates: &[u64]) -> Result<Self, SeriesError> {
        if step == Span::ZERO {
            return Err(SeriesError::Step);
        }
        if rates.len() < LEAST {
            return Err(SeriesError::Short { samples: rates.len() });
        }
        let at =
            |place: usize| start + Span::from_nanos(step.as_nanos().saturating_mul(place as u64));
        let samples = rates.iter().enumerate().map(|(place, rate)| (at(place), *rate)).collect();
        Ok(Self { step, samples, faults: Vec::new(), missing: 0.0 })
    }

    /// The samples that `keep` keeps by their time, for instance those of a class of hours. What is
    /// left out and missing stays that of the whole trace.
    ///
    /// # Errors
    ///
    /// [`SeriesError::Short`] if too few are left.
    pub fn filtered(&self, keep: impl Fn(Instant) -> bool) -> Result<Self, SeriesError> {
        let samples: Vec<_> = self.samples.iter().filter(|(at, _)| keep(*at)).copied().collect();
        if samples.len() < LEAST {
            return Err(SeriesError::Short { samples: samples.len() });
        }
        let Self { step, missing, .. } = *self;
        Ok(Self { step, samples, faults: self.faults.clone(), missing })
    }

    /// The time between samples.
    pub fn step(&self) -> Span {
        self.step
    }

    /// When each sample began, and its rate.
    pub fn samples(&self) -> &[(Instant, u64)] {
        &self.samples
    }

    /// The rates alone.
    pub fn rates(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        self.samples.iter().map(|(_, rate)| *rate)
    }

    /// The mean rate.
    pub fn mean(&self) -> f64 {
        self.rates().map(|rate| rate as f64).sum::<f64>() / self.samples.len() as f64
    }

    /// What was left out.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The share of the trace that gaps are.
    pub fn missing(&self) -> f64 {
        self.missing
    }
}

/// How much counters have grown together; `None` if one went back.
fn growth(before: &[u64], now: &[u64]) -> Option<u128> {
    let each = before.iter().zip(now).map(|(before, now)| now.checked_sub(*before));
    each.map(|it| it.map(u128::from)).sum()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn at(seconds: &[u64]) -> Vec<Instant> {
        seconds.iter().map(|s| Instant::from_nanos(s * 1_000_000_000)).collect()
    }

    fn one(counts: &[u64]) -> Vec<[u64; 1]> {
        counts.iter().map(|it| [*it]).collect()
    }

    #[test]
    fn a_counter_becomes_rates() {
        let counts = one(&[5, 15, 15, 95]);
        let series = Series::from_counters(&at(&[0, 10, 20, 30]), &counts, 8).unwrap();
        assert_eq!(series.rates().collect::<Vec<_>>(), [8, 0, 64]);
        assert_eq!((series.step(), series.faults()), (Span::from_secs(10), &[][..]));
        assert_eq!(series.mean(), 24.0);
    }

    #[test]
    fn gaps_resets_and_duplicates_are_left_out_and_told() {
        let times = at(&[0, 10, 10, 20, 30, 90, 100]);
        let counts = one(&[0, 10, 10, 20, 3, 500, 510]);
        let series = Series::from_counters(&times, &counts, 1).unwrap();
        assert_eq!(series.rates().collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(series.missing(), 60.0 / 90.0);
        let faults = [
            Fault::Gaps { count: 1, missing: Span::from_secs(60) },
            Fault::Resets { count: 1 },
            Fault::Duplicates { count: 1 },
        ];
        assert_eq!(series.faults(), faults);
    }

    #[test]
    fn a_counter_that_goes_back_is_seen_beside_one_that_grows() {
        let counts = [[0, 900], [50, 910], [1050, 5], [1150, 15]];
        let series = Series::from_counters(&at(&[0, 10, 20, 30]), &counts, 1).unwrap();
        assert_eq!(series.rates().collect::<Vec<_>>(), [6, 11]);
        assert_eq!(series.faults(), [Fault::Resets { count: 1 }]);
        // Neither sums nor what they count for overflow.
        let most = [[0, 0], [u64::MAX; 2], [u64::MAX; 2]];
        let series = Series::from_counters(&at(&[0, 1, 2]), &most, u64::MAX).unwrap();
        assert_eq!(series.rates().collect::<Vec<_>>(), [u64::MAX, 0]);
    }

    #[test]
    fn what_is_filtered_has_the_faults_of_the_whole() {
        let times = at(&[0, 10, 20, 30, 90, 100]);
        let series = Series::from_counters(&times, &one(&[0; 6]), 1).unwrap();
        let early = series.filtered(|it| it < times[2]).unwrap();
        assert_eq!((early.samples().len(), early.faults()), (2, series.faults()));
        assert_eq!((early.missing(), early.step()), (0.6, Span::from_secs(10)));
        let none = series.filtered(|_| false);
        assert_eq!(none, Err(SeriesError::Short { samples: 0 }));
    }

    #[test]
    fn one_fault_is_told_as_one() {
        let gaps = |count| Fault::Gaps { count, missing: Span::from_secs(130) }.to_string();
        assert_eq!(gaps(1), "1 gap of 130 s is left out");
        assert_eq!(gaps(2), "2 gaps, 130 s in all, are left out");
        let resets = |count| Fault::Resets { count }.to_string();
        assert_eq!(resets(1), "the counter goes back once; that sample is left out");
        assert_eq!(resets(3), "the counter goes back 3 times; those samples are left out");
        let twice = |count| Fault::Duplicates { count }.to_string();
        assert!(twice(1).starts_with("1 reading has ") && twice(1).ends_with(" and is left out"));
        assert!(twice(2).starts_with("2 readings have ") && twice(2).ends_with("are left out"));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let new = |times: &[u64], counts: &[u64]| {
            Series::from_counters(&at(times), &one(counts), 1).unwrap_err()
        };
        assert_eq!(new(&[0, 1], &[0]), SeriesError::Lengths { times: 2, readings: 1 });
        assert_eq!(new(&[], &[]), SeriesError::Short { samples: 0 });
        assert_eq!(new(&[3, 3, 3, 3], &[0, 1, 2, 3]), SeriesError::Short { samples: 0 });
        assert_eq!(new(&[0, 2, 1], &[0, 1, 2]), SeriesError::Backwards { row: 3 });
        assert_eq!(new(&[0, 1, 2, 3], &[9, 8, 7, 6]), SeriesError::Short { samples: 0 });
        let step = Series::from_rates(Instant::ZERO, Span::ZERO, &[1, 2, 3]);
        assert_eq!(step, Err(SeriesError::Step));
    }
}

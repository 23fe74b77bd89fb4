//! Reasons not to trust what was fitted to a trace, a sentence each.

use core::fmt;

use alloc::vec;
use alloc::vec::Vec;

use units::Span;

use crate::chain::Chain;

/// A reason not to trust a fit, or a part of what is concluded from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The trace is too short for overload as rare as the goal's.
    Short {
        /// How many independent samples it is worth.
        effective: f64,
        /// How many there should be.
        needed: f64,
    },
    /// Visits to the highest state hardly last a sample.
    Step {
        /// The time between samples.
        step: Span,
    },
    /// Times of traffic have a heavy tail: their mean hardly settles.
    Tail {
        /// Hill's index; below 2 there is no variance.
        index: f64,
    },
    /// One burst is a large part of the traffic.
    Burst {
        /// Which part.
        share: f64,
    },
    /// The halves of the trace differ more than chance allows.
    Trend {
        /// The mean rate of the first half.
        first: f64,
        /// The mean rate of the second.
        second: f64,
    },
    /// Where the machine goes depends on more than where it is.
    Memory {
        /// What part of the uncertainty of the next state the state before this one takes away.
        share: f64,
    },
    /// Visits to a state differ in length more, or less, than exponential ones.
    Shape {
        /// The state.
        state: usize,
        /// Standard deviation through mean; 1 if exponential.
        variation: f64,
    },
    /// Rates within states differ much.
    Within {
        /// What part of the variance the states do not have.
        share: f64,
    },
    /// Much of the trace is missing.
    Missing {
        /// Which part.
        share: f64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        match *self {
            Self::Short { effective, needed } => write!(
                f,
                "the trace is worth {effective:.0} independent samples, and a goal this strict \
                 needs {needed:.0}: a longer trace, or a plan by peaks"
            ),
            Self::Step { step } => write!(
                f,
                "bursts are shorter than the {step} between samples: their rates are higher than \
                 the trace tells"
            ),
            Self::Tail { index } => write!(
                f,
                "times of traffic have a heavy tail (index {index:.1}): however long a trace, a \
                 longer burst is to be expected"
            ),
            Self::Burst { share } => write!(
                f,
                "one burst is {:.0} % of all traffic: another trace may have none, or two",
                percent(share)
            ),
            Self::Trend { first, second } => write!(
                f,
                "the mean changes from {first:.3e} in the first half to {second:.3e} in the \
                 second: the trace is not of one time"
            ),
            Self::Memory { share } => write!(
                f,
                "the state before the present one tells {:.0} % of what comes next: episodes are \
                 not as the model has them, the share of time is",
                percent(share)
            ),
            Self::Shape { state, variation } => write!(
                f,
                "visits to state {state} vary {variation:.1} times as much as exponential ones: \
                 lengths of episodes spread otherwise, their mean does not change"
            ),
            Self::Within { share } => write!(
                f,
                "{:.0} % of the variance is within states: the model is smoother than the machine",
                percent(share)
            ),
            Self::Missing { share } => {
                write!(
                    f,
                    "{:.0} % of the trace is missing, and may be what matters",
                    percent(share)
                )
            }
        }
    }
}

/// What is asked of a trace once its states are known.
pub(crate) struct Evidence<'a> {
    pub rates: &'a [f64],
    /// The state of each sample.
    pub sequence: &'a [u8],
    pub chain: &'a Chain,
    pub step: Span,
    /// The share of the trace that was left out.
    pub missing: f64,
    /// How many samples one that is independent counts for.
    pub correlation: f64,
    pub epsilon: f64,
    /// The variance that the states have.
    pub explained: f64,
}

impl Evidence<'_> {
    /// Every reason for doubt there is.
    pub fn doubts(&self) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        doubts.extend(self.short());
        doubts.extend(self.step_is_long());
        doubts.extend(self.bursts());
        doubts.extend(self.trend());
        doubts.extend(self.memory());
        doubts.extend(self.shapes());
        doubts.extend(self.within());
        let share = self.missing;
        doubts.extend((share > 0.1).then_some(Doubt::Missing { share }));
        doubts
    }

    fn short(&self) -> Option<Doubt> {
        let effective = self.rates.len() as f64 / self.correlation;
        // With three expected occurrences, one sees none in a trace of twenty.
        let needed = 3.0 / self.epsilon;
        (effective < needed).then_some(Doubt::Short { effective, needed })
    }

    fn step_is_long(&self) -> Option<Doubt> {
        let mut lengths: Vec<u32> = self.chain.lengths(self.chain.count - 1).collect();
        lengths.sort_unstable();
        let is_short = self.chain.count > 1 && lengths[lengths.len() / 2] <= 2;
        is_short.then_some(Doubt::Step { step: self.step })
    }

    /// Bursts are what is between visits to the lowest state.
    fn bursts(&self) -> Vec<Doubt> {
        let first = self.chain.visits.iter().position(|it| it.0 == 0).expect("a lowest state");
        let (mut lengths, mut length) = (Vec::new(), 0u32);
        let visits = self.chain.visits[first..].iter().chain(&self.chain.visits[..first]);
        for (state, samples) in visits {
            if *state > 0 {
                length += samples;
            } else if length > 0 {
                lengths.push(core::mem::take(&mut length));
            }
        }
        lengths.extend((length > 0).then_some(length));
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let mut doubts = Vec::new();
        doubts
            .extend(hill_index(&lengths).filter(|it| *it < 2.0).map(|index| Doubt::Tail { index }));
        let share = self.largest_burst();
        doubts.extend((share > 0.1 && lengths.len() > 1).then_some(Doubt::Burst { share }));
        doubts
    }

    /// The largest burst's part of all traffic.
    fn largest_burst(&self) -> f64 {
        let all: f64 = self.rates.iter().sum();
        let (mut largest, mut burst) = (0.0f64, 0.0);
        for (state, rate) in self.sequence.iter().zip(self.rates) {
            burst = if *state > 0 { burst + rate } else { 0.0 };
            largest = largest.max(burst);
        }
        if all > 0.0 { largest / all } else { 0.0 }
    }

    fn trend(&self) -> Option<Doubt> {
        let (early, late) = self.rates.split_at(self.rates.len() / 2);
        let of = |half: &[f64]| {
            let count = half.len() as f64;
            let mean = half.iter().sum::<f64>() / count;
            let square = half.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / count;
            (mean, square * self.correlation / count)
        };
        let ((first, error), (second, other)) = (of(early), of(late));
        let is_trend = (first - second).abs() > 3.0 * libm::sqrt(error + other);
        is_trend.then_some(Doubt::Trend { first, second })
    }

    /// Tests the jumps for a memory of two: the likelihood ratio against a memory of one, and how
    /// much it is.
    fn memory(&self) -> Option<Doubt> {
        let count = self.chain.count;
        if count < 3 {
            return None;
        }
        let stays = self.chain.stays();
        let (next, last) = (stays.clone().cycle().skip(1), stays.clone().cycle().skip(2));
        let mut triples = vec![0.0; count * count * count];
        let (mut before, mut after, mut middle) =
            (vec![0.0; count * count], vec![0.0; count * count], vec![0.0; count]);
        for ((from, at), to) in stays.zip(next).zip(last) {
            triples[(from * count + at) * count + to] += 1.0;
            before[from * count + at] += 1.0;
            after[at * count + to] += 1.0;
            middle[at] += 1.0;
        }
        let (mut ratio, mut uncertain, mut freedom) = (0.0, 0.0, 0.0);
        for (place, seen) in triples.iter().enumerate() {
            let (from, at, to) = (place / count / count, place / count % count, place % count);
            let pair = (before[from * count + at], after[at * count + to]);
            if pair.0 > 0.0 && pair.1 > 0.0 {
                freedom += 1.0;
                if *seen > 0.0 {
                    ratio += 2.0 * seen * libm::log(seen * middle[at] / (pair.0 * pair.1));
                    uncertain -= 2.0 * seen * libm::log(pair.1 / middle[at]);
                }
            }
        }
        let is_sure = ratio > freedom + 3.0 * libm::sqrt(2.0 * freedom);
        let share = if uncertain > 0.0 { ratio / uncertain } else { 0.0 };
        (is_sure && share > 0.05).then_some(Doubt::Memory { share })
    }

    /// Visits of exponential length, seen at samples, are geometric: variance m (m − 1).
    fn shapes(&self) -> Vec<Doubt> {
        let shape = |state: usize| {
            let lengths: Vec<f64> = self.chain.lengths(state).map(f64::from).collect();
            let count = lengths.len() as f64;
            let mean = lengths.iter().sum::<f64>() / count;
            // Too few visits, or too short ones, have no shape.
            if count < 30.0 || mean < 3.0 {
                return None;
            }
            let square = lengths.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / count;
            let variation = libm::sqrt(square / (mean * (mean - 1.0)));
            (!(0.6..=1.6).contains(&variation)).then_some(Doubt::Shape { state, variation })
        };
        (0..self.chain.count).filter_map(shape).collect()
    }

    fn within(&self) -> Option<Doubt> {
        let count = self.rates.len() as f64;
        let mean = self.rates.iter().sum::<f64>() / count;
        let all = self.rates.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / count;
        let share = 1.0 - self.explained / all;
        (all > 0.0 && share > 0.15).then_some(Doubt::Within { share })
    }
}

/// Hill's estimate of the tail's index from the longest twentieth; `None` if that is too little, or
/// too short for samples to tell.
fn hill_index(falling: &[u32]) -> Option<f64> {
    let tail = falling.len() / 20;
    if tail < 20 || falling[tail] < 5 {
        return None;
    }
    let least = f64::from(falling[tail]);
    let sum: f64 = falling[..tail].iter().map(|it| libm::log(f64::from(*it) / least)).sum();
    (sum > 0.0).then(|| tail as f64 / sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn hills_index_is_that_of_the_tail() {
        let mut rng = Rng::new(1);
        let mut pareto: Vec<u32> =
            (0..20_000).map(|_| (10.0 * libm::pow(rng.unit_f64(), -1.0 / 1.5)) as u32).collect();
        pareto.sort_unstable_by(|a, b| b.cmp(a));
        let index = hill_index(&pareto).unwrap();
        assert!((index - 1.5).abs() < 0.1, "{index}");
        let mut exponential: Vec<u32> =
            (0..20_000).map(|_| (-100.0 * libm::log(rng.unit_f64())) as u32).collect();
        exponential.sort_unstable_by(|a, b| b.cmp(a));
        assert!(hill_index(&exponential).unwrap() > 2.5);
        assert_eq!(hill_index(&[9; 100]), None);
    }
}

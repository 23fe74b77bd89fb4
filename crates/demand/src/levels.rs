//! How many states a trace has, and which rates belong to which.

use alloc::vec;
use alloc::vec::Vec;

use crate::clusters::partitions;

/// The highest rate of each state, by rising rate.
pub(crate) struct Levels(Vec<u64>);

impl Levels {
    /// The states that tell most of a trace: of the best partitions into 1 to `most` levels, the
    /// one whose chain makes the half of the trace that it was not fitted to likeliest, less what
    /// its parameters cost (the Bayesian information criterion).
    pub fn find(rates: &[u64], sorted: &[u64], most: usize) -> Self {
        let candidates = partitions(sorted, most).into_iter().map(Self);
        let resolution = ((sorted[sorted.len() - 1] - sorted[0]) as f64 / 1024.0).max(1.0);
        let mut best: Option<(f64, Self)> = None;
        for levels in candidates {
            let score = levels.score(rates, resolution);
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, levels));
            }
        }
        best.expect("a trace has a rate").1
    }

    /// How many states there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The state of each rate.
    pub fn sequence(&self, rates: &[u64]) -> Vec<u8> {
        rates.iter().map(|rate| self.of(*rate)).collect()
    }

    fn of(&self, rate: u64) -> u8 {
        self.0.iter().take_while(|end| rate > **end).count() as u8
    }

    /// The logarithm of the likelihood of the odd blocks under the chain of the even ones, less the
    /// cost of parameters.
    fn score(&self, rates: &[u64], resolution: f64) -> f64 {
        const BLOCKS: usize = 20;
        let count = self.count();
        let mut halves = [Half::new(count), Half::new(count)];
        let block = rates.len().div_ceil(BLOCKS);
        for (place, block) in rates.chunks(block).enumerate() {
            let half = &mut halves[place % 2];
            let mut before = None;
            for &rate in block {
                let state = usize::from(self.of(rate));
                half.observe(before, state, rate as f64);
                before = Some(state);
            }
        }
        let [known, asked] = &halves;
        let parameters = (count * (count - 1) + 2 * count) as f64;
        asked.likelihood(known, resolution) - 0.5 * parameters * libm::log(asked.all())
    }
}

/// What is counted of half a trace.
struct Half {
    count: usize,
    samples: Vec<f64>,
    sum: Vec<f64>,
    square: Vec<f64>,
    jumps: Vec<f64>,
}

impl Half {
    fn new(count: usize) -> Self {
        let zeros = || vec![0.0; count];
        Self {
            count,
            samples: zeros(),
            sum: zeros(),
            square: zeros(),
            jumps: vec![0.0; count * count],
        }
    }

    fn observe(&mut self, before: Option<usize>, state: usize, rate: f64) {
        self.samples[state] += 1.0;
        self.sum[state] += rate;
        self.square[state] += rate * rate;
        if let Some(before) = before {
            self.jumps[before * self.count + state] += 1.0;
        }
    }

    fn all(&self) -> f64 {
        self.samples.iter().sum::<f64>().max(1.0)
    }

    /// The logarithm of the likelihood of this half, if the chain and the spread of rates within
    /// each state are those of the other. Rates within a state count as normal; what is closer than
    /// the resolution is not told apart.
    fn likelihood(&self, other: &Half, resolution: f64) -> f64 {
        let mut sum = 0.0;
        for state in 0..self.count {
            let row = state * self.count..(state + 1) * self.count;
            // Half an observation for each jump, so that one that was not seen is not impossible.
            let seen: f64 = other.jumps[row.clone()].iter().map(|it| it + 0.5).sum();
            for place in row {
                let chance = (other.jumps[place] + 0.5) / seen;
                sum += self.jumps[place] * libm::log(chance);
            }
            let known = other.samples[state].max(1.0);
            let mean = other.sum[state] / known;
            let variance =
                (other.square[state] / known - mean * mean).max(resolution * resolution / 12.0);
            let distance = self.square[state] - 2.0 * mean * self.sum[state]
                + mean * mean * self.samples[state];
            let density =
                libm::log(2.0 * core::f64::consts::PI * variance / (resolution * resolution));
            sum -= 0.5 * (self.samples[state] * density + distance.max(0.0) / variance);
        }
        sum
    }
}

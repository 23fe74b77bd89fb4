//! How many states a trace has, and which rates belong to which.

use alloc::vec;
use alloc::vec::Vec;

use crate::clusters::Points;

/// The highest rate of each state, by rising rate.
pub(crate) struct Levels(Vec<u64>);

impl Levels {
    /// The states that tell most of a trace: of the best partitions into 1 to `most` levels, the
    /// one whose chain makes the half of the trace that it was not fitted to likeliest, less what
    /// its parameters cost (the Bayesian information criterion).
    pub fn find(rates: &[u64], sorted: &[u64], most: usize) -> Self {
        let points = Points::new(sorted);
        let halves = Halves::new(rates, &points);
        let resolution = ((sorted[sorted.len() - 1] - sorted[0]) as f64 / 1024.0).max(1.0);
        let mut best: Option<(f64, Vec<usize>)> = None;
        for ends in points.partitions(most) {
            let score = halves.score(&ends, resolution);
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, ends));
            }
        }
        let (_, ends) = best.expect("one state is always possible");
        Self(ends.into_iter().map(|it| points.last(it)).collect())
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
}

/// A trace in blocks, of which every other one belongs to the same half.
struct Halves {
    block: usize,
    /// The point of each sample.
    trace: Vec<u16>,
    /// Of each half, by point: samples, their sum, and the sum of their squares.
    moments: [Vec<(f64, f64, f64)>; 2],
}

impl Halves {
    fn new(rates: &[u64], points: &Points) -> Self {
        const BLOCKS: usize = 20;
        let block = rates.len().div_ceil(BLOCKS);
        let mut trace = Vec::with_capacity(rates.len());
        let mut moments = [0, 1].map(|_| vec![(0.0, 0.0, 0.0); points.count()]);
        for (place, block) in rates.chunks(block).enumerate() {
            for &rate in block {
                let point = points.of(rate);
                let (samples, sum, square) = &mut moments[place % 2][point];
                let value = rate as f64;
                (*samples, *sum, *square) = (*samples + 1.0, *sum + value, *square + value * value);
                trace.push(u16::try_from(point).expect("there are some thousand points"));
            }
        }
        Self { block, trace, moments }
    }

    /// The logarithm of the likelihood of the odd blocks under the chain of the even ones, less the
    /// cost of parameters, if states end at these points.
    fn score(&self, ends: &[usize], resolution: f64) -> f64 {
        let count = ends.len();
        let points = self.moments[0].len();
        let state_of = |point: usize| ends.partition_point(|end| *end < point);
        let states: Vec<u8> = (0..points).map(|point| state_of(point) as u8).collect();
        let mut halves = [Half::new(count), Half::new(count)];
        for (half, moments) in halves.iter_mut().zip(&self.moments) {
            for (state, (samples, sum, square)) in states.iter().zip(moments) {
                let state = usize::from(*state);
                half.samples[state] += samples;
                half.sum[state] += sum;
                half.square[state] += square;
            }
        }
        for (place, block) in self.trace.chunks(self.block).enumerate() {
            let mut jumps = vec![0u32; count * count];
            let mut before = usize::from(states[usize::from(block[0])]);
            for point in &block[1..] {
                let state = usize::from(states[usize::from(*point)]);
                jumps[before * count + state] += 1;
                before = state;
            }
            let all = halves[place % 2].jumps.iter_mut();
            all.zip(jumps).for_each(|(it, more)| *it += f64::from(more));
        }
        let [known, asked] = &halves;
        let parameters = (count * (count - 1) + 2 * count) as f64;
        asked.likelihood(known, resolution) - 0.5 * parameters * libm::log(asked.all())
    }
}

/// What is counted of half a trace, by state.
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

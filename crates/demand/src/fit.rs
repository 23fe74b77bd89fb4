//! A model of a trace, and how far it may be trusted.

use alloc::vec;
use alloc::vec::Vec;

use units::{Rng, Span};

use crate::chain::Chain;
use crate::doubt::{Doubt, Evidence};
use crate::levels::Levels;
use crate::model::{Model, State};
use crate::resample::{self, Estimate};
use crate::series::Series;

/// How to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitSettings {
    /// The most states, at most 16.
    pub most_states: usize,
    /// The overload that is to be planned for, as a share of time. The highest state is no lower
    /// than what the trace exceeds for this share.
    pub epsilon: f64,
    /// How sure [`Estimate`]s are on either side.
    pub confidence: f64,
    /// What the resampling draws from.
    pub seed: u64,
}

impl Default for FitSettings {
    fn default() -> Self {
        Self { most_states: 8, epsilon: 1e-3, confidence: 0.95, seed: 1 }
    }
}

/// A model of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The model, with the shares of time that the trace has.
    pub model: Model,
    /// The mean rate of the trace.
    pub mean: Estimate,
    /// The share of time in each state.
    pub shares: Vec<Estimate>,
    /// How many independent samples the trace is worth.
    pub effective_samples: f64,
    /// Why not to trust it.
    pub doubts: Vec<Doubt>,
}

impl Fit {
    /// The model to plan with: its mean is the upper end of what the trace's may be.
    pub fn careful(&self) -> Model {
        self.model.raised_to(self.mean.high)
    }

    /// The model of what a trace leaves no doubt of: its mean is the lower end of what the trace's
    /// may be.
    pub fn sure(&self) -> Model {
        self.model.lowered_to(self.mean.low)
    }
}

/// Fits states to a trace: levels of its rates, how long each is kept, and what follows it.
///
/// A state's rate is the mean of its samples, so that the mean of the trace stays, but for the
/// highest state, which is no lower than the trace's 1 − ε quantile.
///
/// # Panics
///
/// If the settings are out of their range.
pub fn fit(series: &Series, settings: &FitSettings) -> Fit {
    assert!((1..=16).contains(&settings.most_states), "{} states", settings.most_states);
    assert!(settings.epsilon > 0.0 && settings.epsilon < 1.0, "epsilon {}", settings.epsilon);
    assert!((0.5..1.0).contains(&settings.confidence), "confidence {}", settings.confidence);
    let rates: Vec<u64> = series.rates().collect();
    let mut sorted = rates.clone();
    sorted.sort_unstable();
    let levels = Levels::find(&rates, &sorted, settings.most_states);
    let sequence = levels.sequence(&rates);
    let chain = Chain::of(&sequence, levels.count());

    let real: Vec<f64> = rates.iter().map(|rate| *rate as f64).collect();
    let means = means(&real, &sequence, &chain);
    let above = libm::floor(settings.epsilon * sorted.len() as f64) as usize;
    let quantile = sorted[sorted.len() - 1 - above.min(sorted.len() - 1)];
    let model = model(&chain, &means, quantile, series.step());

    let correlation = resample::correlation_samples(&real);
    let mut columns: Vec<Vec<f64>> = (0..chain.count)
        .map(|state| {
            sequence.iter().map(|it| f64::from(u8::from(usize::from(*it) == state))).collect()
        })
        .collect();
    columns.push(real);
    let mut rng = Rng::new(settings.seed);
    let mut shares = resample::estimates(&columns, correlation, settings.confidence, &mut rng);
    let mean = shares.pop().expect("the last column is the rates");
    let real = columns.pop().expect("the last column is the rates");

    let explained = |sum: f64, state: usize| {
        let distance = means[state] - mean.value;
        sum + chain.samples[state] as f64 / real.len() as f64 * distance * distance
    };
    let evidence = Evidence {
        rates: &real,
        sequence: &sequence,
        chain: &chain,
        step: series.step(),
        missing: series.missing(),
        correlation,
        epsilon: settings.epsilon,
        explained: (0..chain.count).fold(0.0, explained),
    };
    let doubts = evidence.doubts();
    Fit { model, mean, shares, effective_samples: real.len() as f64 / correlation, doubts }
}

/// The mean rate of each state.
fn means(rates: &[f64], sequence: &[u8], chain: &Chain) -> Vec<f64> {
    let mut means = vec![0.0; chain.count];
    for (rate, state) in rates.iter().zip(sequence) {
        means[usize::from(*state)] += rate;
    }
    means.iter_mut().zip(&chain.samples).for_each(|(it, samples)| *it /= *samples as f64);
    means
}

fn model(chain: &Chain, means: &[f64], quantile: u64, step: Span) -> Model {
    let mut rates: Vec<u64> = means.iter().map(|it| libm::round(*it) as u64).collect();
    let highest = rates.last_mut().expect("a chain has a state");
    *highest = quantile.max(*highest);
    if chain.count == 1 {
        return Model::constant(rates[0]);
    }
    let mut visits = vec![0.0; chain.count];
    let mut jump = vec![vec![0.0; chain.count]; chain.count];
    for (from, to) in chain.jumps() {
        visits[from] += 1.0;
        jump[from][to] += 1.0;
    }
    let states = (0..chain.count).map(|state| {
        jump[state].iter_mut().for_each(|it| *it /= visits[state]);
        let ns = step.as_nanos() as f64 * chain.samples[state] as f64 / visits[state];
        State { rate: rates[state], hold: Span::from_nanos(libm::round(ns) as u64) }
    });
    let states = states.collect();
    Model::new(states, &jump).expect("a circle of visits leads from each state to each other")
}

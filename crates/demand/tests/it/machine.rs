//! Machines as random processes: what models describe, drawn.

use demand::{Model, Source, State};
use units::{Rng, Span};

/// A rate, drawn from a source.
pub fn draw(source: &Source, rng: &mut Rng) -> u64 {
    let mut left = rng.unit_f64();
    for (rate, share) in source.shares() {
        if left < *share {
            return *rate;
        }
        left -= share;
    }
    source.peak()
}

/// How visits to a state differ in length, at the same mean.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    Exponential,
    Fixed,
    /// Pareto's, with this index.
    Heavy(f64),
}

/// A machine that moves between its states.
pub struct Machine<'a> {
    model: &'a Model,
    lengths: Lengths,
    state: usize,
    /// Seconds until it leaves the state.
    left: f64,
    rng: Rng,
}

impl<'a> Machine<'a> {
    pub fn new(model: &'a Model, lengths: Lengths, seed: u64) -> Self {
        let mut machine = Self { model, lengths, state: 0, left: 0.0, rng: Rng::new(seed) };
        machine.left = machine.length();
        machine
    }

    fn length(&mut self) -> f64 {
        let State { hold, .. } = self.model.states()[self.state];
        let chance = 1.0 - self.rng.unit_f64();
        hold.as_secs_f64()
            * match self.lengths {
                Lengths::Exponential => -chance.ln(),
                Lengths::Fixed => 1.0,
                Lengths::Heavy(index) => (index - 1.0) / index * chance.powf(-1.0 / index),
            }
    }

    fn rate(&self) -> u64 {
        self.model.states()[self.state].rate
    }

    fn jump(&mut self) {
        let mut left = self.rng.unit_f64();
        let next = (0..self.model.states().len()).find(|to| {
            left -= self.model.jump(self.state, *to);
            left < 0.0
        });
        self.state = next.unwrap_or(0);
        self.left = self.length();
    }

    /// What it sends on average in each of so many steps.
    pub fn trace(&mut self, step: Span, samples: usize) -> Vec<u64> {
        let step = step.as_secs_f64();
        (0..samples).map(|_| (self.pass(step) / step).round() as u64).collect()
    }

    /// Its rate at the beginning of each of so many steps.
    pub fn glances(&mut self, step: Span, samples: usize) -> Vec<u64> {
        let glance = |_| {
            let rate = self.rate();
            self.pass(step.as_secs_f64());
            rate
        };
        (0..samples).map(glance).collect()
    }

    /// What it sends in so many seconds.
    fn pass(&mut self, secs: f64) -> f64 {
        let (mut sent, mut left) = (0.0, secs);
        while self.left < left {
            sent += self.left * self.rate() as f64;
            left -= self.left;
            self.jump();
        }
        self.left -= left;
        sent + left * self.rate() as f64
    }

    /// Its jumps until `end` seconds: when, and to which rate. The first is at 0.
    pub fn jumps(&mut self, end: f64) -> Vec<(f64, u64)> {
        let mut jumps = vec![(0.0, self.rate())];
        let mut now = self.left;
        while now < end {
            self.jump();
            jumps.push((now, self.rate()));
            now += self.left;
        }
        jumps
    }
}

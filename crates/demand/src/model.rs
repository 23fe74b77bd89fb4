//! A machine's traffic as states: how fast it sends in each, how long it stays, where it goes then.

use alloc::vec;
use alloc::vec::Vec;

use units::Span;

use crate::source::{SUM_TOLERANCE, Source};

/// One state of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// What it asks for in this state, a second.
    pub rate: u64,
    /// How long it stays on average.
    pub hold: Span,
}

/// A semi-Markov chain: equation 2 of the paper, whose matrix says where a machine goes from each
/// state, together with the mean time that it stays there.
///
/// The share of time in a state is proportional to visits × time of a visit. The jump matrix alone
/// gives visits only: a state that is entered as often as another, for a hundredth of the time, has
/// a hundredth of its share.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    states: Vec<State>,
    /// Row by row: the chance of each state to be the next.
    jump: Vec<f64>,
    /// The share of time in each state.
    shares: Vec<f64>,
}

/// Why states and jumps are no model.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// There is no state, or there are more than a machine is modelled by.
    #[error("a model has 1 to {MOST_STATES} states, not {states}")]
    States {
        /// How many there are.
        states: usize,
    },
    /// The matrix does not have a row and a column for each state.
    #[error("{states} states need a jump matrix of {states} × {states}")]
    Shape {
        /// How many states there are.
        states: usize,
    },
    /// An entry is not a probability.
    #[error("the jump from state {from} to state {to} has probability {probability}")]
    Probability {
        /// The row.
        from: usize,
        /// The column.
        to: usize,
        /// The entry.
        probability: f64,
    },
    /// An entry of the diagonal is not zero.
    #[error("state {state} jumps to itself: staying is said by its holding time")]
    Diagonal {
        /// The state.
        state: usize,
    },
    /// A row does not sum to 1.
    #[error("the jumps from state {state} have to sum to 1, and sum to {sum}")]
    Row {
        /// The row.
        state: usize,
        /// Its sum.
        sum: f64,
    },
    /// A state takes no time.
    #[error("state {state} needs a holding time above zero")]
    Hold {
        /// The state.
        state: usize,
    },
    /// A state cannot be reached from another, so shares of time depend on the start.
    #[error("state {to} cannot be reached from state {from}")]
    Unreachable {
        /// Where one is.
        from: usize,
        /// Where one cannot get.
        to: usize,
    },
}

/// The most states of a model.
pub const MOST_STATES: usize = 64;

impl Model {
    /// A model of these states, in which row `a`, column `b` of `jump` is the chance that `b`
    /// follows `a`.
    ///
    /// Rows have to sum to 1; a millionth more or less, as decimals make it, is divided out.
    ///
    /// # Errors
    ///
    /// [`ModelError`] says which state is wrong, counted from 0.
    pub fn new(states: Vec<State>, jump: &[Vec<f64>]) -> Result<Self, ModelError> {
        let count = states.len();
        if count == 0 || count > MOST_STATES {
            return Err(ModelError::States { states: count });
        }
        if jump.len() != count || jump.iter().any(|row| row.len() != count) {
            return Err(ModelError::Shape { states: count });
        }
        if let Some(state) = states.iter().position(|it| it.hold == Span::ZERO) {
            return Err(ModelError::Hold { state });
        }
        let mut flat = Vec::with_capacity(count * count);
        for (from, row) in jump.iter().enumerate() {
            let sum = checked_sum(from, row, count)?;
            flat.extend(row.iter().map(|it| it / sum));
        }
        if let Some((from, to)) = unreachable(&flat, count) {
            return Err(ModelError::Unreachable { from, to });
        }
        Ok(Self::of(states, flat))
    }

    /// Equation 1 with mean times: `rate` for `on_for`, then nothing for `off_for`.
    ///
    /// # Errors
    ///
    /// [`ModelError::Hold`] if one of the times is zero.
    pub fn on_off(rate: u64, on_for: Span, off_for: Span) -> Result<Self, ModelError> {
        let off = State { rate: 0, hold: off_for };
        let on = State { rate, hold: on_for };
        Self::new([off, on].into(), &[[0.0, 1.0].into(), [1.0, 0.0].into()])
    }

    /// The same rate at all times.
    pub fn constant(rate: u64) -> Self {
        let hold = Span::from_secs(1);
        Self { states: [State { rate, hold }].into(), jump: [0.0].into(), shares: [1.0].into() }
    }

    fn of(states: Vec<State>, jump: Vec<f64>) -> Self {
        let visits = visits(&jump, states.len());
        let mut shares: Vec<f64> =
            states.iter().zip(&visits).map(|(it, visits)| visits * it.hold.as_secs_f64()).collect();
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|it| *it /= sum);
        Self { states, jump, shares }
    }

    /// The states.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The chance that `to` follows `from`.
    pub fn jump(&self, from: usize, to: usize) -> f64 {
        self.jump[from * self.states.len() + to]
    }

    /// The share of time in each state.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// What the machine asks for at a random time.
    pub fn source(&self) -> Source {
        let rates = self.states.iter().map(|it| it.rate);
        Source::new(rates.zip(self.shares.iter().copied())).expect("shares of time sum to 1")
    }

    /// How often the machine goes from each rate to each other: from, to, times a second.
    pub fn moves(&self) -> impl Iterator<Item = (u64, u64, f64)> + '_ {
        let count = self.states.len();
        (0..count * count).filter_map(move |place| {
            let (from, to) = (place / count, place % count);
            let state = self.states[from];
            let often = self.shares[from] / state.hold.as_secs_f64() * self.jump[place];
            (often > 0.0).then_some((state.rate, self.states[to].rate, often))
        })
    }

    /// The model with each rate changed by `to`, for instance from bits a second to a core's
    /// nanoseconds, or by the number of machines that share its state.
    pub fn map(&self, to: impl Fn(u64) -> u64) -> Self {
        let mut mapped = self.clone();
        mapped.states.iter_mut().for_each(|state| state.rate = to(state.rate));
        mapped
    }

    /// The model with so much more time at higher rates that its mean rate is `mean`. Jumps stay;
    /// holding times are multiplied by e^(θ · rate), so that every rate is exceeded for at least as
    /// long as before.
    ///
    /// What lies below the mean that there is changes nothing, and what lies above the peak is cut
    /// to 99.9 % of it.
    #[must_use]
    pub fn raised_to(&self, mean: f64) -> Self {
        if mean > self.source().mean() { self.tilted_to(mean) } else { self.clone() }
    }

    /// The model with so much less time at higher rates that its mean rate is `mean`: the same with
    /// θ below zero, so that no rate is exceeded for longer than before.
    ///
    /// What lies above the mean that there is changes nothing, and the mean stays above the lowest
    /// rate by a thousandth of what the peak is above it.
    #[must_use]
    pub fn lowered_to(&self, mean: f64) -> Self {
        if mean < self.source().mean() { self.tilted_to(mean) } else { self.clone() }
    }

    fn tilted_to(&self, mean: f64) -> Self {
        let source = self.source();
        let (least, peak) = (source.shares()[0].0 as f64, source.peak() as f64);
        if source.shares().len() == 1 {
            return self.clone();
        }
        let is_raised = mean > source.mean();
        let mean = mean.min(0.999 * peak).max(least + 0.001 * (peak - least));
        // Rates count as parts of the peak, and the longest holding time stays: nothing overflows.
        let longest = if is_raised { 1.0 } else { least / peak };
        let factor = |rate: u64, theta: f64| libm::exp(theta * (rate as f64 / peak - longest));
        let reached = |theta: f64| {
            let weights =
                source.shares().iter().map(|(rate, share)| (rate, share * factor(*rate, theta)));
            let (sum, all) = weights.fold((0.0, 0.0), |(sum, all), (rate, weight)| {
                (sum + *rate as f64 * weight, all + weight)
            });
            sum / all
        };
        let is_short = |theta: f64| {
            let reached = reached(theta);
            if is_raised { reached < mean } else { reached > mean }
        };
        let (mut low, mut high) = (0.0, if is_raised { 1.0 } else { -1.0 });
        while is_short(high) && high.abs() < 1e6 {
            high *= 2.0;
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if is_short(middle) { low = middle } else { high = middle }
        }
        // Among the holding times of one shape, those are taken in which the lowest rate is kept
        // for as long as before; or for less, where no number would tell how long others are.
        let lowest = factor(source.shares()[0].0, high).max(1e-4);
        let stretched = |state: &State| {
            let ns = state.hold.as_nanos() as f64 * (factor(state.rate, high) / lowest);
            State { hold: Span::from_nanos(libm::round(ns).max(1.0) as u64), ..*state }
        };
        Self::of(self.states.iter().map(stretched).collect(), self.jump.clone())
    }
}

/// The sum of a row, which is 1 or nearly so.
fn checked_sum(from: usize, row: &[f64], count: usize) -> Result<f64, ModelError> {
    let wrong = |probability: &f64| !(0.0..=1.0).contains(probability);
    if let Some(to) = row.iter().position(wrong) {
        return Err(ModelError::Probability { from, to, probability: row[to] });
    }
    if row[from] != 0.0 {
        return Err(ModelError::Diagonal { state: from });
    }
    if count == 1 {
        return Ok(1.0);
    }
    let sum: f64 = row.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(ModelError::Row { state: from, sum });
    }
    Ok(sum)
}

/// Two states of which the second cannot be reached from the first.
fn unreachable(jump: &[f64], count: usize) -> Option<(usize, usize)> {
    let reached_from = |start: usize| {
        let mut seen = vec![false; count];
        let mut next = vec![start];
        seen[start] = true;
        while let Some(from) = next.pop() {
            for to in 0..count {
                if jump[from * count + to] > 0.0 && !seen[to] {
                    seen[to] = true;
                    next.push(to);
                }
            }
        }
        seen
    };
    (0..count).find_map(|from| {
        let to = reached_from(from).iter().position(|seen| !seen)?;
        Some((from, to))
    })
}

/// How often each state is visited, in proportion: the stationary vector of the jump matrix, by
/// the elimination of Grassmann, Taksar and Heyman (1985), which never subtracts and so loses no
/// digits.
fn visits(jump: &[f64], count: usize) -> Vec<f64> {
    let mut matrix = jump.to_vec();
    let at = |row: usize, column: usize| row * count + column;
    // Takes states out one by one from the last; their visits go to where they lead.
    for last in (1..count).rev() {
        let leave: f64 = (0..last).map(|to| matrix[at(last, to)]).sum();
        for from in 0..last {
            let share = matrix[at(from, last)] / leave;
            matrix[at(from, last)] = share;
            for to in 0..last {
                matrix[at(from, to)] += share * matrix[at(last, to)];
            }
        }
    }
    let mut visits = vec![0.0; count];
    visits[0] = 1.0;
    for state in 1..count {
        visits[state] = (0..state).map(|from| visits[from] * matrix[at(from, state)]).sum();
    }
    visits
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn states(holds: &[u64]) -> Vec<State> {
        let state = |(place, hold): (usize, &u64)| State {
            rate: 10 * place as u64,
            hold: Span::from_secs(*hold),
        };
        holds.iter().enumerate().map(state).collect()
    }

    #[test]
    fn the_share_of_time_counts_how_long_a_visit_is() {
        let model = Model::on_off(100, Span::from_secs(30), Span::from_secs(60)).unwrap();
        assert_eq!(model.shares(), [2.0 / 3.0, 1.0 / 3.0]);
        // Both states are visited alike, one for a hundredth of the other's time.
        let model = Model::on_off(100, Span::from_millis(10), Span::from_secs(1)).unwrap();
        assert!((model.shares()[1] - 0.01 / 1.01).abs() < 1e-15);
    }

    #[test]
    fn shares_of_three_states_solve_the_balance_of_visits() {
        let jump = [vec![0.0, 0.7, 0.3], vec![0.6, 0.0, 0.4], vec![0.3, 0.7, 0.0]];
        let model = Model::new(states(&[20, 8, 5]), &jump).unwrap();
        let flow = |state: usize| model.shares()[state] / model.states()[state].hold.as_secs_f64();
        for to in 0..3 {
            let comes: f64 = (0..3).map(|from| flow(from) * model.jump(from, to)).sum();
            assert!((comes - flow(to)).abs() < 1e-15, "state {to}");
        }
        assert!((model.shares().iter().sum::<f64>() - 1.0).abs() < 1e-15);
        assert_eq!(model.moves().count(), 6);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_state() {
        let new = |holds: &[u64], jump: &[Vec<f64>]| Model::new(states(holds), jump).unwrap_err();
        let swap = [vec![0.0, 1.0], vec![1.0, 0.0]];
        assert_eq!(new(&[], &[]), ModelError::States { states: 0 });
        assert_eq!(new(&[1, 1, 1], &swap), ModelError::Shape { states: 3 });
        assert_eq!(new(&[1, 0], &swap), ModelError::Hold { state: 1 });
        assert_eq!(
            new(&[1, 1], &[vec![0.5, 0.5], vec![1.0, 0.0]]),
            ModelError::Diagonal { state: 0 }
        );
        assert_eq!(
            new(&[1, 1], &[vec![0.0, 0.9], vec![1.0, 0.0]]).to_string(),
            "the jumps from state 0 have to sum to 1, and sum to 0.9"
        );
        let probability = new(&[1, 1], &[vec![0.0, f64::NAN], vec![1.0, 0.0]]);
        assert!(matches!(probability, ModelError::Probability { from: 0, to: 1, .. }));
        let apart = [vec![0.0, 1.0, 0.0], vec![1.0, 0.0, 0.0], vec![1.0, 0.0, 0.0]];
        assert_eq!(new(&[1, 1, 1], &apart), ModelError::Unreachable { from: 0, to: 2 });
    }

    #[test]
    fn a_raised_model_has_the_mean_that_was_asked_for_and_exceeds_every_rate_longer() {
        let jump = [vec![0.0, 0.7, 0.3], vec![0.6, 0.0, 0.4], vec![0.3, 0.7, 0.0]];
        let model = Model::new(states(&[20, 8, 5]), &jump).unwrap();
        let (before, mean) = (model.source(), model.source().mean());
        let raised = model.raised_to(1.2 * mean);
        let after = raised.source();
        assert!((after.mean() / (1.2 * mean) - 1.0).abs() < 1e-6);
        for (rate, _) in before.shares() {
            assert!(after.above(*rate) >= before.above(*rate));
        }
        assert_eq!(model.raised_to(0.5 * mean), model);
        assert!(model.raised_to(1e9).source().mean() <= 0.9991 * 20.0);
    }

    #[test]
    fn a_rate_that_a_raised_model_hardly_has_does_not_count() {
        let secs = Span::from_secs;
        let states = [(0, 2), (998_500, 1800), (1_000_000, 222)];
        let states = states.map(|(rate, hold)| State { rate, hold: secs(hold) });
        let jump = [vec![0.0, 1.0, 0.0], vec![0.1, 0.0, 0.9], vec![0.0, 1.0, 0.0]];
        let model = Model::new(states.into(), &jump).unwrap();
        let mean = model.raised_to(999_000.0).source().mean();
        assert!((mean / 999_000.0 - 1.0).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn a_lowered_model_has_the_mean_that_was_asked_for_and_exceeds_no_rate_longer() {
        let jump = [vec![0.0, 0.7, 0.3], vec![0.6, 0.0, 0.4], vec![0.3, 0.7, 0.0]];
        let model = Model::new(states(&[20, 8, 5]), &jump).unwrap();
        let (before, mean) = (model.source(), model.source().mean());
        let after = model.lowered_to(0.8 * mean).source();
        assert!((after.mean() / (0.8 * mean) - 1.0).abs() < 1e-6);
        for (rate, _) in before.shares() {
            assert!(after.above(*rate) <= before.above(*rate));
        }
        assert_eq!(model.lowered_to(1.5 * mean), model);
        let least = model.lowered_to(-1.0).source().mean();
        assert!((0.0..0.03).contains(&least), "{least}");
        assert_eq!(Model::constant(7).lowered_to(3.0), Model::constant(7));
    }
}

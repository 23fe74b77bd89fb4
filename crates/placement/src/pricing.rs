//! The most valuable pattern of a host, at given prices of machines.

use alloc::vec;
use alloc::vec::Vec;

use demand::Verdict;

use crate::judge::Judge;
use crate::pattern::Pattern;
use crate::problem::{Limit, Periods};
use crate::room::Room;

/// A pattern and what it is worth.
pub(crate) type Valued = (f64, Pattern);

/// The best of a few patterns that are filled one machine after another, by price for what a
/// machine takes: of one dimension, of all, and of what is left.
pub(crate) fn greedy(judge: &mut Judge<'_>, kind: usize, prices: &[f64]) -> Valued {
    let dimensions = judge.tables.kinds[kind].dimensions;
    let mut best = (0.0, Pattern::default());
    for rule in 0..dimensions + 2 {
        let mut room = Room::new(judge.tables, kind);
        let mut left: Vec<u32> = judge.tables.problem.classes.iter().map(|it| it.count).collect();
        let mut value = 0.0;
        loop {
            let rest = room.left();
            let worth = |class: usize| {
                let sizes = &judge.tables.kinds[kind].sizes[class];
                let takes = match rule.checked_sub(dimensions) {
                    None => sizes[rule],
                    Some(0) => sizes.iter().sum(),
                    Some(_) => sizes.iter().zip(&rest).map(|(it, rest)| it / rest.max(0.01)).sum(),
                };
                prices[class] / takes.max(f64::MIN_POSITIVE)
            };
            let open = (0..left.len()).filter(|it| left[*it] > 0 && prices[*it] > 0.0);
            let best = open
                .map(|class| (worth(class), class))
                .reduce(|best, it| if it.0 > best.0 { it } else { best });
            let Some((_, class)) = best else { break };
            if judge.accepts(&mut room, class) {
                room.put(class);
                value += prices[class];
                left[class] -= 1;
            } else {
                left[class] = 0;
            }
        }
        if value > best.0 {
            best = (value, room.pattern().clone());
        }
    }
    best
}

/// The most valuable pattern that `Search` finds, and what no pattern is worth more than. A pattern
/// counts as fitting unless it certainly does not, so that this bounds what fits.
///
/// Stops at `enough` if nothing is worth more, and after so many steps: then the bound is that of
/// what is left. A step puts one machine into a pattern.
pub(crate) fn search(
    judge: &mut Judge<'_>,
    kind: usize,
    prices: &[f64],
    enough: f64,
    steps: u64,
) -> (Valued, f64) {
    let problem = judge.tables.problem;
    let burst = |class: usize| -> f64 {
        let limits = problem.classes[class].loads[kind].iter().zip(&problem.types[kind].limits);
        let bursts = limits
            .map(|(load, it)| load.variance() / load.mean().max(1.0) / it.capacity.max(1) as f64);
        bursts.fold(0.0, f64::max)
    };
    // Bursts first: what is left for others is then known early.
    let mut order: Vec<usize> = (0..prices.len()).filter(|class| prices[*class] > 0.0).collect();
    order.sort_by(|a, b| burst(*b).total_cmp(&burst(*a)).then(a.cmp(b)));
    let mut room = Room::new(judge.tables, kind);
    let best = (0.0, Pattern::default());
    let mut search = Search { judge, kind, prices, steps_left: steps, enough, best };
    let order = search.fitting(&mut room, &order);
    let at_most = search.explore(&mut room, &order, 0.0);
    (search.best, at_most)
}

/// Branch and bound: machines class by class, as many as may fit.
struct Search<'j, 'a> {
    judge: &'j mut Judge<'a>,
    kind: usize,
    prices: &'j [f64],
    steps_left: u64,
    enough: f64,
    best: Valued,
}

impl<'a> Search<'_, 'a> {
    /// The classes of which one more machine may fit.
    fn fitting(&mut self, room: &mut Room<'a>, classes: &[usize]) -> Vec<usize> {
        let fits = |class: &usize| {
            room.refuses(*class).is_none()
                && self.judge.judged_with(room, *class).0 != Verdict::Beyond
        };
        classes.iter().copied().filter(fits).collect()
    }

    /// Looks at every pattern that has more of these classes, each of which may fit. Returns what
    /// none of them exceeds.
    fn explore(&mut self, room: &mut Room<'a>, classes: &[usize], value: f64) -> f64 {
        if value > self.best.0 {
            self.best = (value, room.pattern().clone());
        }
        let Some((&class, others)) = classes.split_first() else { return value };
        let bound = value + self.rest(room, classes);
        if bound <= self.enough.max(self.best.0) || self.steps_left == 0 {
            return bound;
        }
        let count = self.judge.tables.problem.classes[class].count as usize;
        let mut rooms = vec![room.clone()];
        while rooms.len() <= count
            && let Some(fullest) = rooms.last_mut()
            && !self.fitting(fullest, &[class]).is_empty()
        {
            let mut next = fullest.clone();
            next.put(class);
            self.steps_left = self.steps_left.saturating_sub(1);
            rooms.push(next);
        }
        // The last class is taken as often as it fits; of others, fewer may make room for more.
        let mut at_most = value;
        while let Some(mut room) = rooms.pop() {
            let value = value + self.prices[class] * rooms.len() as f64;
            let others = self.fitting(&mut room, others);
            at_most = at_most.max(self.explore(&mut room, &others, value));
            if classes.len() == 1 {
                break;
            }
        }
        at_most
    }

    /// What machines of these classes can add at most to what is on the host.
    fn rest(&self, room: &mut Room<'_>, classes: &[usize]) -> f64 {
        let problem = self.judge.tables.problem;
        let host = &problem.types[self.kind];
        let (mut cores, mut memory) = (u64::from(host.cores), host.memory);
        for (class, count) in room.pattern().iter() {
            let it = &problem.classes[class];
            cores -= u64::from(it.cores) * u64::from(count);
            memory -= it.memory * u64::from(count);
        }
        // Each dimension: what one machine of a class weighs in it, and what all may weigh.
        let mut dimensions: Vec<(Vec<f64>, f64)> = Vec::with_capacity(host.limits.len() + 2);
        let weights = |of: &dyn Fn(usize) -> f64| classes.iter().map(|class| of(*class)).collect();
        dimensions.push((weights(&|class| problem.classes[class].cores.into()), cores as f64));
        dimensions.push((weights(&|class| problem.classes[class].memory as f64), memory as f64));
        for limit in 0..host.limits.len() {
            let means = weights(&|class| problem.classes[class].loads[self.kind][limit].mean());
            dimensions.push((means, self.mean_left(room, limit, classes)));
        }
        let mut bound = f64::INFINITY;
        let mut alone: Vec<f64> =
            classes.iter().map(|class| problem.classes[*class].count.into()).collect();
        for (weights, most) in &dimensions {
            let mut ratio = 0.0f64;
            for ((class, weight), alone) in classes.iter().zip(weights).zip(&mut alone) {
                if *weight > 0.0 {
                    *alone = alone.min(libm::floor(most / weight * (1.0 + 1e-12) + 1e-9));
                    ratio = ratio.max(self.prices[*class] / weight);
                } else {
                    ratio = f64::INFINITY;
                }
            }
            bound = bound.min(ratio * most.max(f64::MIN_POSITIVE) * (1.0 + 1e-12));
        }
        let each: f64 =
            classes.iter().zip(&alone).map(|(class, count)| self.prices[*class] * count).sum();
        bound.min(each)
    }

    /// What machines of these classes may ask for on average, beside what is on the host.
    ///
    /// Let Y be their sum, with mean μ and variance σ². By Cantelli's inequality, Y ≥ μ − kσ has a
    /// chance of at least k²/(1 + k²), whatever the others, S, do. So where P(S + Y > C) ≤ ε, the
    /// chance that S > C − (μ − kσ) is at most ε (1 + k²)/k², which bounds μ − kσ by what S
    /// reaches. And σ² is no more than μ times the largest ratio of variance and mean.
    fn mean_left(&self, room: &mut Room<'_>, limit: usize, classes: &[usize]) -> f64 {
        let problem = self.judge.tables.problem;
        let Limit { capacity, period } = problem.types[self.kind].limits[limit];
        let epsilon = match &problem.goal.periods {
            Periods::Worst => problem.goal.epsilon,
            // All that is allowed may be in this period.
            Periods::Mean(shares) => problem.goal.epsilon / shares[period],
        };
        let mut ratio = 0.0f64;
        for class in classes {
            let it = &problem.classes[*class];
            let load = &it.loads[self.kind][limit];
            if it.together.is_some() {
                return f64::INFINITY;
            }
            if load.mean() > 0.0 {
                ratio = ratio.max(load.variance() / load.mean());
            }
        }
        let load = room.load(limit);
        let most = |k: f64| {
            let share = epsilon * (1.0 + k * k) / (k * k);
            if share >= 1.0 {
                // Of any chance it is known that it is no more.
                return f64::INFINITY;
            }
            let left = capacity.saturating_sub(load.reached_for(share)) as f64;
            let spread = k * libm::sqrt(ratio);
            let root = (spread + libm::sqrt(spread * spread + 4.0 * left)) / 2.0;
            root * root * (1.0 + 1e-12)
        };
        [0.25, 0.5, 1.0, 2.0, 3.0].into_iter().map(most).fold(f64::INFINITY, f64::min)
    }
}

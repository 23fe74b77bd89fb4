//! What one machine costs of a limit: its effective bandwidth, between its mean and its peak.

use demand::Source;
use demand::deviations::{effective_bandwidth, filling_tilt};
use placement::Problem;

/// What effective bandwidths of a problem are compared at: for each limit of each type of host,
/// what suits hosts that are filled with all of its machines in proportion.
pub(crate) struct Tilts<'a> {
    problem: &'a Problem,
    of_kind: Vec<Vec<f64>>,
}

impl<'a> Tilts<'a> {
    pub fn of(problem: &'a Problem) -> Self {
        let of_limit = |kind: usize, limit: usize| {
            let load = |it: &'a placement::Class| (&it.loads[kind][limit], it.count);
            let mix: Vec<(&Source, u32)> = problem.classes.iter().map(load).collect();
            let capacity = problem.types[kind].limits[limit].capacity;
            filling_tilt(capacity, &mix, problem.goal.epsilon).unwrap_or(0.0)
        };
        let of_kind = |(kind, it): (usize, &placement::HostType)| {
            (0..it.limits.len()).map(|limit| of_limit(kind, limit)).collect()
        };
        Self { problem, of_kind: problem.types.iter().enumerate().map(of_kind).collect() }
    }

    /// What a machine of a class costs of a limit, in the limit's unit, on a host that has so many
    /// of the class. Those that move together cost more the more there are.
    pub fn cost(&self, kind: usize, limit: usize, class: usize, count: u32) -> f64 {
        let it = &self.problem.classes[class];
        let load = &it.loads[kind][limit];
        let tilt = self.of_kind[kind][limit];
        match it.together {
            None => effective_bandwidth(load, tilt),
            Some(_) => {
                let count = u64::from(count.max(1));
                effective_bandwidth(&load.map(|rate| rate * count), tilt) / count as f64
            }
        }
    }
}

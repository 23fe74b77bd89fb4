//! The risk of a placement once more, by drawing: each machine in a random state, again and again.
//!
//! Nothing of this is how the risk is computed: no grid, no sum of distributions, and all limits of
//! a host at once. Where both agree, neither is likely wrong.

use std::collections::BTreeMap;

use demand::Source;
use placement::{Pattern, risks};
use serde::Serialize;
use units::Rng;

use crate::plan::{Kind, Plan};
use crate::share::Share;

/// What was drawn of hosts that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// Their names.
    pub hosts: Vec<String>,
    /// The share of time in which each is asked for too much, as it is computed.
    pub computed: Share,
    /// The share of draws in which it is.
    pub drawn: f64,
    /// Between what the share of time lies by the draws, with 99.9 %.
    pub interval: Share,
    /// Whether that meets what was computed.
    pub agrees: bool,
}

/// Draws the states of each host's machines so often, and compares.
///
/// # Panics
///
/// If the plan has several classes of hours: take it [of one](Plan::of_period).
pub fn by_monte_carlo(plan: &Plan, draws: u64, seed: u64) -> Vec<Drawn> {
    let problem = plan.problem();
    let risks = risks(&problem, &plan.placement);
    assert_eq!(plan.periods.len(), 1, "machines are in one class of hours at a time");
    let sources: Vec<Source> = plan.models.iter().map(|it| it.it.models[0].source()).collect();
    let mut rng = Rng::new(seed);
    let alike = plan.alike(&plan.placement);
    alike
        .into_iter()
        .map(|alike| {
            let host = alike.hosts[0];
            let sampler = Sampler::new(plan, plan.kind_of(host), &alike.pattern, &sources);
            let above = (0..draws).filter(|_| sampler.is_above(&mut rng)).count() as u64;
            let computed = Share::from(risks[host].overload);
            let interval = wilson(above, draws);
            Drawn {
                hosts: plan.names(&alike.hosts),
                computed,
                drawn: above as f64 / draws as f64,
                interval,
                agrees: interval.low <= computed.high && computed.low <= interval.high,
            }
        })
        .collect()
}

/// What is drawn of one host.
struct Sampler {
    capacities: Vec<u64>,
    /// Models that have one draw each time: how often they are drawn, and what each state is to
    /// each limit.
    machines: Vec<(u32, States)>,
    /// Models that move together: one draw for all.
    groups: Vec<Vec<States>>,
}

/// Shares of time from the lowest rate upwards, and what the state is to each limit.
type States = Vec<(f64, Vec<u64>)>;

impl Sampler {
    fn new(plan: &Plan, kind: &Kind, pattern: &Pattern, sources: &[Source]) -> Self {
        let mut machines = Vec::new();
        let mut groups: BTreeMap<usize, Vec<States>> = BTreeMap::new();
        for (class, count) in pattern.iter() {
            let model = plan.vms[class].it.model;
            let load = &plan.models[model].it;
            let states = |times: u64| -> States {
                let of = |rate| {
                    kind.limits.iter().map(move |it| load.on(kind, it.carried, rate) * times)
                };
                let shares = sources[model].shares().iter();
                shares.map(|(rate, share)| (*share, of(*rate).collect())).collect()
            };
            match load.together {
                None => machines.push((count, states(1))),
                Some(group) => groups.entry(group).or_default().push(states(count.into())),
            }
        }
        Self {
            capacities: kind.limits.iter().map(|it| it.amount).collect(),
            machines,
            groups: groups.into_values().collect(),
        }
    }

    /// Whether, at a random time, some limit is exceeded.
    fn is_above(&self, rng: &mut Rng) -> bool {
        let mut sums = vec![0u64; self.capacities.len()];
        let mut add = |states: &States, quantile: f64| {
            let mut below = 0.0;
            let state = states.iter().find(|(share, _)| {
                below += share;
                quantile < below
            });
            // What rounding leaves of the shares is the last state's.
            let (_, loads) = state.or(states.last()).expect("a model has a state");
            sums.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load);
        };
        for (count, states) in &self.machines {
            (0..*count).for_each(|_| add(states, rng.unit_f64()));
        }
        for group in &self.groups {
            let quantile = rng.unit_f64();
            group.iter().for_each(|states| add(states, quantile));
        }
        sums.iter().zip(&self.capacities).any(|(sum, capacity)| sum > capacity)
    }
}

/// Wilson's interval of a share, with 99.9 %.
fn wilson(hits: u64, draws: u64) -> Share {
    const Z: f64 = 3.2905;
    let (n, share) = (draws as f64, hits as f64 / draws as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    // With none of them, and with all, an end is exact but for rounding.
    let low = if hits == 0 { 0.0 } else { middle - half };
    let high = if hits == draws { 1.0 } else { middle + half };
    Share { low, high }
}

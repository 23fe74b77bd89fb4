//! What workloads draw from: the distributions that a scenario gives their sizes and gaps.

use traffic::Distribution;

use super::{Flows, PartitionAggregate, Scenario};

impl PartitionAggregate {
    /// The gaps between queries, in nanoseconds; `None` only in a scenario that was not checked.
    pub fn gaps(&self, scenario: &Scenario) -> Option<Distribution> {
        let mean_ns = self.gap.map(|gap| gap.as_nanos() as f64);
        self.arrivals.distribution(mean_ns, |name| scenario.cdf(name))
    }
}

impl Flows {
    /// How large flows are, in bytes; `None` only in a scenario that was not checked.
    pub fn sizes(&self, scenario: &Scenario) -> Option<Distribution> {
        self.sizes.distribution(|name| scenario.cdf(name))
    }

    /// The gaps between the flows of one source, in nanoseconds; `None` if there are no flows.
    pub fn gaps(&self, scenario: &Scenario) -> Option<Distribution> {
        let mean_ns = match self.load {
            None => self.gap.map(|gap| gap.as_nanos() as f64),
            Some(load) => {
                let slots = self.sources.slots(&scenario.virtual_network)?;
                let rate = scenario.topology.access(scenario.link).rate.bits_per_sec() as f64;
                let bits = 8.0 * self.sizes(scenario)?.mean() * f64::from(slots.end - slots.start);
                Some(bits / (load * rate) * 1e9)
            }
        };
        let gaps = self.arrivals.distribution(mean_ns, |name| scenario.cdf(name))?;
        gaps.mean().is_finite().then_some(gaps)
    }
}

//! What phases should take, and what they take others: for 3,000 hosts with the networks of
//! [`plan`](super::plan).
//!
//! NVP's figures are those of Koponen et al., NSDI 2014, §6.1: three controllers of 12 cores each,
//! of which one was looked at. OVN's are of version 26.03, whose databases stand alone and are
//! reached by Unix sockets.

use super::Phase;

/// How many hosts the figures are for.
pub const HOSTS: u32 = 3_000;

/// What stands beside a figure of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// What it should be at most.
    pub goal: Option<f64>,
    pub nvp: Option<f64>,
    pub ovn: Option<f64>,
}

/// How long a phase takes, in seconds.
///
/// NVP: figure 11 has rules evaluated for about 20 minutes, and figure 8 nearly an hour until all
/// pings go as they should. OVN: until the southbound database is complete (`compute`, `restart`,
/// `delete`), ports are up (`add`), or the other hosts have executed it (`move`).
pub fn seconds(phase: &str) -> Beside {
    let (goal, nvp, ovn) = match phase {
        "compute" => (Some(10.0), Some(1_200.0), Some(55.1)),
        "cold" => (Some(60.0), Some(3_600.0), None),
        "restart" => (None, None, Some(17.6)),
        "reconnect" => (Some(10.0), None, None),
        "add" => (Some(0.050), None, Some(0.107)),
        "delete" => (None, None, Some(0.044)),
        "move" => (Some(0.020), None, Some(0.095)),
        "member" => (Some(0.005), None, None),
        _ => (None, None, None),
    };
    Beside { goal, nvp, ovn }
}

/// The most memory while all is computed, in bytes. NVP: figure 10. OVN: the databases and northd.
pub const MEMORY: Beside = Beside { goal: Some(1e9), nvp: Some(27e9), ovn: Some(5.55e9) };

/// Tuples for each row. NVP: figure 9 has 37 million for 1.8 million flows.
pub const TUPLES: Beside = Beside { goal: Some(4.0), nvp: Some(20.0), ovn: None };

impl Phase {
    /// Tuples for each row, if there are rows.
    pub fn tuples_a_row(&self) -> Option<f64> {
        (self.flows > 0).then(|| self.tuples as f64 / self.flows as f64)
    }

    /// The same, with its goals and which of them it misses. More hosts than the figures are for
    /// have no goals.
    pub(crate) fn judged(self, hosts: u32) -> Self {
        if hosts > HOSTS {
            return self;
        }
        let goal_s = seconds(&self.phase).goal;
        let mut figures = vec![("seconds", Some(self.seconds), goal_s)];
        // All is computed then, and nothing else is done.
        if self.phase == "compute" {
            figures.push(("rss_bytes", Some(self.rss_bytes as f64), MEMORY.goal));
            figures.push(("tuples", self.tuples_a_row(), TUPLES.goal));
        }
        let is_missed = |value: Option<f64>, goal: Option<f64>| {
            value.zip(goal).is_some_and(|(value, goal)| value > goal)
        };
        let missed = figures.into_iter().filter(|(_, value, goal)| is_missed(*value, *goal));
        let missed = missed.map(|(name, ..)| name.to_owned()).collect();
        Self { goal_s, missed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_goal_is_missed_by_as_many_hosts_as_goals_are_for() {
        let phase =
            |phase: &str, seconds| Phase { phase: phase.into(), seconds, ..Phase::default() };
        let kept = phase("member", 0.004).judged(HOSTS);
        assert_eq!((kept.goal_s, kept.missed), (Some(0.005), Vec::new()));
        assert_eq!(phase("member", 0.006).judged(HOSTS).missed, ["seconds"]);
        assert_eq!(phase("group", 9.0).judged(HOSTS).missed, [""; 0]);
        let more = phase("member", 0.006).judged(HOSTS + 1);
        assert_eq!((more.goal_s, more.missed), (None, Vec::new()));
    }

    #[test]
    fn memory_and_tuples_have_goals_while_all_is_computed() {
        let large = |phase: &str| {
            let (rss_bytes, tuples, flows) = (1_000_000_001, 401, 100);
            let phase = Phase { phase: phase.into(), rss_bytes, tuples, flows, ..Phase::default() };
            phase.judged(HOSTS).missed
        };
        assert_eq!(large("compute"), ["rss_bytes", "tuples"]);
        assert_eq!(large("cold"), [""; 0]);
    }
}

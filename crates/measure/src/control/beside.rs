//! What phases should take, and what they take others: for 3,000 hosts with the networks of
//! [`plan`](super::plan).
//!
//! NVP's figures are those of Koponen et al., NSDI 2014, §6.1: three controllers of 12 cores each,
//! of which one was looked at. OVN's are of version 26.03, whose databases stand alone and are
//! reached by Unix sockets.

use super::Phase;

/// How many hosts the figures are for.
pub const HOSTS: u32 = 3_000;

/// What figures of a phase should be at most, by their names in [`Phase`].
fn goals(phase: &str) -> &'static [(&'static str, f64)] {
    match phase {
        // All is computed then, and nothing else is done.
        "compute" => &[
            ("seconds", 10.0),
            ("rss_bytes", 1e9),
            ("tuples_a_flow", 4.0),
            ("bytes_a_tuple", 48.0),
        ],
        "cold" => &[("seconds", 60.0)],
        "restart" => &[("served_s", 5.0)],
        "reconnect" => &[("seconds", 10.0)],
        "add" => &[("seconds", 0.050), ("computed_s", 0.010)],
        "move" => &[("seconds", 0.020)],
        "member" => &[("seconds", 0.005), ("rows_a_host", 1.0)],
        _ => &[],
    }
}

/// What others took for a figure of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    pub nvp: Option<f64>,
    pub ovn: Option<f64>,
}

/// How long a phase takes others, in seconds.
///
/// NVP: figure 11 has rules evaluated for about 20 minutes, and figure 8 nearly an hour until all
/// pings go as they should. OVN: until the southbound database is complete (`compute`, `restart`,
/// `delete`), ports are up (`add`), or the other hosts have executed it (`move`).
pub fn seconds(phase: &str) -> Beside {
    let (nvp, ovn) = match phase {
        "compute" => (Some(1_200.0), Some(55.1)),
        "cold" => (Some(3_600.0), None),
        "restart" => (None, Some(17.6)),
        "add" => (None, Some(0.107)),
        "delete" => (None, Some(0.044)),
        "move" => (None, Some(0.095)),
        _ => (None, None),
    };
    Beside { nvp, ovn }
}

/// The most memory while all is computed, in bytes. NVP: figure 10. OVN: the databases and northd.
pub const MEMORY: Beside = Beside { nvp: Some(27e9), ovn: Some(5.55e9) };

/// Tuples for each row. NVP: figure 9 has 37 million for 1.8 million flows.
pub const TUPLES: Beside = Beside { nvp: Some(20.0), ovn: None };

impl Phase {
    /// A figure that may have a goal, by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "seconds" => Some(self.seconds),
            "served_s" => self.served_s,
            "computed_s" => self.computed_s,
            "rss_bytes" => Some(self.rss_bytes as f64),
            "tuples_a_flow" => self.tuples_a_flow,
            "bytes_a_tuple" => self.bytes_a_tuple,
            "wakes" => Some(self.wakes),
            "rows_a_host" => self.rows_a_host,
            _ => None,
        }
    }

    /// The same, with its goals and which of them it misses. More hosts than the figures are for
    /// have no goals but that nobody else is woken.
    pub(crate) fn judged(mut self, hosts: u32) -> Self {
        let all: &[_] = if hosts > HOSTS { &[] } else { goals(&self.phase) };
        self.goals.extend(all.iter().map(|(name, goal)| ((*name).to_owned(), *goal)));
        let is_above = |(name, goal): &(&String, &f64)| self.figure(name) > Some(**goal);
        let missed = self.goals.iter().filter(is_above).map(|(name, _)| name.clone());
        self.missed = missed.collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(phase: &str, seconds: f64) -> Phase {
        Phase { phase: phase.into(), seconds, ..Phase::default() }
    }

    #[test]
    fn a_figure_above_its_goal_is_missed_by_as_many_hosts_as_goals_are_for() {
        let kept = phase("member", 0.004).judged(HOSTS);
        assert_eq!((kept.goals["seconds"], kept.missed), (0.005, Vec::new()));
        assert_eq!(phase("member", 0.006).judged(HOSTS).missed, ["seconds"]);
        assert_eq!(phase("group", 9.0).judged(HOSTS).missed, [""; 0]);
        let more = phase("member", 0.006).judged(HOSTS + 1);
        assert!(more.goals.is_empty() && more.missed.is_empty(), "{more:?}");
    }

    #[test]
    fn memory_and_tuples_have_goals_while_all_is_computed() {
        let large = |name: &str| {
            let (tuples_a_flow, bytes_a_tuple) = (Some(4.01), Some(48.1));
            let rss_bytes = 1_000_000_001;
            let large = Phase { rss_bytes, tuples_a_flow, bytes_a_tuple, ..phase(name, 1.0) };
            large.judged(HOSTS).missed
        };
        assert_eq!(large("compute"), ["bytes_a_tuple", "rss_bytes", "tuples_a_flow"]);
        assert_eq!(large("cold"), [""; 0]);
    }

    #[test]
    fn a_restart_is_to_serve_soon_and_ports_that_come_are_to_be_computed_soon() {
        let restart = Phase { served_s: Some(5.1), ..phase("restart", 90.0) };
        assert_eq!(restart.judged(HOSTS).missed, ["served_s"]);
        let add = Phase { computed_s: Some(0.011), ..phase("add", 0.049) };
        assert_eq!(add.judged(HOSTS).missed, ["computed_s"]);
    }

    #[test]
    fn a_member_is_to_be_one_row_at_each_host() {
        let member = |rows| Phase { rows_a_host: Some(rows), ..phase("member", 0.001) };
        assert_eq!(member(1.0).judged(HOSTS).missed, [""; 0]);
        assert_eq!(member(1.1).judged(HOSTS).missed, ["rows_a_host"]);
    }

    #[test]
    fn nobody_is_woken_whom_a_change_does_not_concern_of_however_many_hosts() {
        let woken = |wakes| {
            let goals = [("wakes".to_owned(), 17.5)].into();
            Phase { wakes, goals, ..phase("group", 0.001) }.judged(HOSTS + 1).missed
        };
        assert_eq!((woken(17.5), woken(17.6)), (Vec::new(), vec!["wakes".to_owned()]));
    }
}

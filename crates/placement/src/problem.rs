//! What is to be placed, where it may go, and what has to hold.

use alloc::vec::Vec;

use demand::Source;

/// Machines, hosts, and the goal. Everything is named by its place in these lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What has to hold on each host.
    pub goal: Goal,
    /// Kinds of hosts.
    pub types: Vec<HostType>,
    /// The hosts there are.
    pub hosts: Vec<Host>,
    /// Machines, those that are alike together.
    pub classes: Vec<Class>,
    /// Machines that talk to each other.
    pub clusters: Vec<Cluster>,
}

/// How much overload is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The share of time in which a host may be asked for more than it carries.
    pub epsilon: f64,
    /// What counts of several periods.
    pub periods: Periods,
}

/// How the overload of periods, for instance of classes of hours, is made one figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Periods {
    /// The worst period counts.
    Worst,
    /// The mean counts, each period weighing its share of time.
    Mean(Vec<f64>),
}

/// A kind of host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostType {
    /// Cores for machines; those that the switch has are taken off.
    pub cores: u32,
    /// Memory for machines, in bytes.
    pub memory: u64,
    /// What its switch and its network card carry.
    pub limits: Vec<Limit>,
    /// What one host costs, which is made as little as possible: 1 each for the fewest hosts, or a
    /// price. Not zero.
    pub cost: u64,
}

/// Something that demand may exceed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limit {
    /// How much is carried, in the unit of the machines' loads on it.
    pub capacity: u64,
    /// The period whose demand this limit is held against, from 0.
    pub period: usize,
}

/// A host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Host {
    /// Its type.
    pub kind: usize,
    /// The rack that it is in.
    pub rack: usize,
}

/// Machines that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// How many there are.
    pub count: u32,
    /// Cores of one.
    pub cores: u32,
    /// Memory of one, in bytes.
    pub memory: u64,
    /// The load of one on each limit of each host type: `loads[kind][limit]`.
    pub loads: Vec<Vec<Source>>,
    /// The group of classes whose machines move together, if there is one.
    pub together: Option<usize>,
    /// What its machines are to keep apart from.
    pub apart: Option<Apart>,
    /// The cluster that its machines belong to.
    pub cluster: Option<usize>,
}

/// Machines of a group that share nothing: at most one of them in each host, or in each rack.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Apart {
    /// The group. Several classes may be of one.
    pub group: usize,
    /// What they do not share.
    pub domain: Domain,
}

/// What machines that are kept apart do not share.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Domain {
    /// A host.
    Host,
    /// A rack, and so a host.
    Rack,
}

/// A cluster in the hose model (Oktopus, Ballani et al., SIGCOMM 2011): each of its machines may
/// send to the others at one rate, so that a link between m of N machines and the rest carries
/// min(m, N − m) times that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// The rate of one machine, in bits a second.
    pub hose: u64,
}

/// Why a problem cannot be solved as it is written.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// The goal is no share of time.
    #[error("a share of time lies between 0 and 1, and the goal is {epsilon}")]
    Epsilon {
        /// The goal.
        epsilon: f64,
    },
    /// A host is of a type that is not listed.
    #[error("host {host} is of type {kind}, and there are {types} types")]
    Kind {
        /// The host.
        host: usize,
        /// Its type.
        kind: usize,
        /// How many types there are.
        types: usize,
    },
    /// A host type costs nothing, so that any number of hosts would be as good.
    #[error("host type {kind} needs a cost above zero: 1 if hosts are counted")]
    Cost {
        /// The type.
        kind: usize,
    },
    /// A class does not say its load on each limit of each type.
    #[error("class {class} needs a load for each limit of host type {kind}")]
    Loads {
        /// The class.
        class: usize,
        /// The type.
        kind: usize,
    },
    /// A class is of a cluster that is not listed.
    #[error("class {class} is of cluster {cluster}, and there are {clusters} clusters")]
    Cluster {
        /// The class.
        class: usize,
        /// Its cluster.
        cluster: usize,
        /// How many clusters there are.
        clusters: usize,
    },
    /// The periods are not all of the time.
    #[error("periods have shares of time above zero that sum to 1, and these sum to {sum}")]
    Shares {
        /// The sum of their shares of time.
        sum: f64,
    },
    /// A limit is of a period that has no share of time.
    #[error(
        "host type {kind} has a limit of period {period}, which the goal gives no share of time"
    )]
    Period {
        /// The type.
        kind: usize,
        /// The period.
        period: usize,
    },
}

impl Problem {
    /// Whether what is named exists, and the goal is one.
    ///
    /// # Errors
    ///
    /// [`ProblemError`] says what is wrong.
    pub fn check(&self) -> Result<(), ProblemError> {
        let epsilon = self.goal.epsilon;
        if !(epsilon > 0.0 && epsilon < 1.0) {
            return Err(ProblemError::Epsilon { epsilon });
        }
        if let Periods::Mean(shares) = &self.goal.periods {
            let sum: f64 = shares.iter().sum();
            let is_whole = (1.0 - 1e-9..1.0 + 1e-9).contains(&sum);
            if !is_whole || shares.iter().any(|it| *it <= 0.0) {
                return Err(ProblemError::Shares { sum });
            }
        }
        let types = self.types.len();
        for (host, Host { kind, .. }) in self.hosts.iter().enumerate() {
            if *kind >= types {
                return Err(ProblemError::Kind { host, kind: *kind, types });
            }
        }
        if let Some(kind) = self.types.iter().position(|it| it.cost == 0) {
            return Err(ProblemError::Cost { kind });
        }
        for (kind, it) in self.types.iter().enumerate() {
            if let Periods::Mean(shares) = &self.goal.periods
                && let Some(limit) = it.limits.iter().find(|it| it.period >= shares.len())
            {
                return Err(ProblemError::Period { kind, period: limit.period });
            }
        }
        for (class, it) in self.classes.iter().enumerate() {
            let clusters = self.clusters.len();
            if let Some(cluster) = it.cluster.filter(|it| *it >= clusters) {
                return Err(ProblemError::Cluster { class, cluster, clusters });
            }
            let is_complete = |kind: usize| {
                it.loads.get(kind).is_some_and(|loads| loads.len() == self.types[kind].limits.len())
            };
            if let Some(kind) = (0..types).find(|kind| !is_complete(*kind)) {
                return Err(ProblemError::Loads { class, kind });
            }
        }
        Ok(())
    }

    /// How many machines there are.
    pub fn machines(&self) -> u64 {
        self.classes.iter().map(|it| u64::from(it.count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn periods_are_all_of_the_time() {
        let of = |shares: &[f64], period: usize| {
            let limits = vec![Limit { capacity: 1, period }];
            let problem = Problem {
                goal: Goal { epsilon: 0.1, periods: Periods::Mean(shares.to_vec()) },
                types: vec![HostType { cores: 1, memory: 1, limits, cost: 1 }],
                hosts: vec![],
                classes: vec![],
                clusters: vec![],
            };
            problem.check()
        };
        assert_eq!(of(&[0.25, 0.75], 1), Ok(()));
        assert_eq!(of(&[0.25, 0.75], 2), Err(ProblemError::Period { kind: 0, period: 2 }));
        for (shares, sum) in [(&[0.25, 0.5][..], 0.75), (&[0.0, 1.0], 1.0), (&[], 0.0)] {
            assert_eq!(of(shares, 0), Err(ProblemError::Shares { sum }));
        }
    }
}

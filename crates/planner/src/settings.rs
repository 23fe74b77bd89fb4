//! How a plan is served, as its file says.

use units::Span;

use crate::web::Address;

/// How schedulers are answered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The models that machines may name, by place.
    pub models: Vec<usize>,
    /// The model of those that name none of these.
    pub default: Option<usize>,
    /// How long an answer counts as a placement.
    pub assume: Span,
    /// Which hosts are preferred.
    pub prefer: Prefer,
    /// What becomes of hosts that the plan does not have.
    pub unknown_hosts: UnknownHosts,
    /// Where agents of hosts show their metrics: host and address.
    pub agents: Vec<(usize, Address)>,
    /// How often they are read.
    pub every: Span,
    /// Which of their ports are which machines: a pattern of names, and the place among the plan's
    /// machines. The first that a name has counts. Empty: the files say where machines are.
    pub ports: Vec<(String, usize)>,
}

/// Which hosts are preferred.
#[derive(serde::Deserialize, Clone, Copy, Debug, Default, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// Those that have most left.
    #[default]
    Spread,
    /// Those that have least left.
    Pack,
}

/// What becomes of hosts that the plan does not have.
#[derive(serde::Deserialize, Clone, Copy, Debug, Default, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownHosts {
    /// They are refused.
    #[default]
    Refuse,
    /// They pass, with the least score.
    Pass,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            default: None,
            assume: Span::from_secs(60),
            prefer: Prefer::default(),
            unknown_hosts: UnknownHosts::default(),
            agents: Vec::new(),
            every: Span::from_secs(15),
            ports: Vec::new(),
        }
    }
}

//! The name of a rule, as decisions and connections have it.

use core::fmt;

use logical::objects::{Identity, Name};

/// A rule, by its policy.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RuleId {
    /// The policy.
    pub policy: Identity,
    /// The rule's name in it.
    pub rule: Name,
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.policy, self.rule)
    }
}

//! Where a logical port is, and which nodes may have it.

use std::collections::BTreeSet;

use replica::Name;

/// Where a logical port is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The domain that it is in.
    pub domain: Name,
    /// The nodes that may have it.
    pub nodes: Nodes,
    /// Whether all of these may have it at a time, as what is the same on every host. Of any other
    /// port, one of them has it.
    pub is_everywhere: bool,
}

/// Which nodes may have a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Nodes {
    /// Any.
    Any,
    /// One of these.
    Among(BTreeSet<Name>),
    /// The one that it is bound to, which is waited for.
    Bound(Name),
}

impl Nodes {
    /// Whether a node may have the port.
    pub fn admit(&self, node: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Among(all) => all.contains(node),
            Self::Bound(only) => **only == *node,
        }
    }

    /// The node that the port is bound to.
    pub(super) fn bound(&self) -> Option<&Name> {
        match self {
            Self::Bound(only) => Some(only),
            Self::Any | Self::Among(_) => None,
        }
    }
}

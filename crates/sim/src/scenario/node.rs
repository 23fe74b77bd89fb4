//! What servers, switches and links are called: a tier and a number, `server0`, `tor3`; and two of
//! these, `server0-leaf0`.

use std::fmt;
use std::str::FromStr;

use super::words::ParseWordError;

/// The tiers of nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Tier {
    /// A server.
    Server,
    /// An external client.
    Client,
    /// A chassis' switch of a fat tree.
    Chassis,
    /// A top-of-rack switch of a fat tree.
    Tor,
    /// A leaf.
    Leaf,
    /// A spine.
    Spine,
    /// An edge switch of a k-ary tree.
    Edge,
    /// An aggregation switch of a k-ary tree.
    Aggregation,
    /// A core switch of a fat tree or a k-ary tree.
    Core,
    /// A switch of a dumbbell, a star or a ring.
    Switch,
}

/// A node: `server0`, `tor3`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Node {
    /// Its tier.
    pub tier: Tier,
    /// Its number in the tier, from 0.
    pub index: u32,
}

/// A link by the names of its ends, in either order: `server0-leaf0`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LinkName(pub Node, pub Node);

impl Tier {
    const ALL: [Self; 10] = [
        Self::Server,
        Self::Client,
        Self::Chassis,
        Self::Tor,
        Self::Leaf,
        Self::Spine,
        Self::Edge,
        Self::Aggregation,
        Self::Core,
        Self::Switch,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Chassis => "chassis",
            Self::Tor => "tor",
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Edge => "edge",
            Self::Aggregation => "aggregation",
            Self::Core => "core",
            Self::Switch => "switch",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Node {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        let split = word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len());
        let (tier, number) = word.split_at(split);
        let tier = Tier::ALL.into_iter().find(|known| known.name() == tier);
        match (tier, number.parse()) {
            (Some(tier), Ok(index)) => Ok(Self { tier, index }),
            _ => Err(ParseWordError::new(word, "a node", "server0, leaf3 or core1")),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.tier, self.index)
    }
}

impl FromStr for LinkName {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        let wrong = || ParseWordError::new(word, "a link", "server0-leaf0: the names of its ends");
        let (a, b) = word.split_once('-').ok_or_else(wrong)?;
        Ok(Self(a.parse().map_err(|_| wrong())?, b.parse().map_err(|_| wrong())?))
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

units::serde_as_word!(LinkName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_named_by_its_ends() {
        let name: LinkName = "server12-chassis0".parse().unwrap();
        assert_eq!(name.to_string(), "server12-chassis0");
        for word in
            ["server", "server1", "server1-", "host1-leaf0", "server1-leaf", "server-1-leaf0"]
        {
            assert!(word.parse::<LinkName>().is_err(), "{word}");
        }
    }
}

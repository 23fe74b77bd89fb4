//! What a frame changes at a host.

use core::net::IpAddr;

use logical::objects::{Direction, Identity};
use packet::Tuple;
use packet::fragments::Pieces;
use packet::groups::Told;
use units::{Instant, Mac};

use crate::neighbours::{About, Neighbour};
use crate::rules::RuleName;

/// Where packets pass: a port or a router, and which way.
pub type Passing = (Identity, Direction);

/// Which packet a fragment is of, of those that pass a place: its number, its two ends' addresses,
/// and what it carries.
pub type FragmentOf = (u32, IpAddr, IpAddr, u8);

/// What a frame changes once it has left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// A connection of a port begins.
    Begin {
        /// The port's zone.
        zone: conntrack::Zone,
        /// The packet that begins it.
        packet: conntrack::Packet,
        /// Which way that goes.
        opened: Direction,
        /// Where it came from, if it is about to get to the port.
        origin: Option<Identity>,
        /// The rule that admits it.
        rule: Option<RuleName>,
    },
    /// A router, or a load balancer for a port, translates a flow.
    Translate(conntrack::Begin),
    /// A connection goes on.
    Advance(conntrack::Change),
    /// A connection is no more.
    End(conntrack::Id),
    /// So much of a packet has come in fragments, which is remembered until then.
    Fragment(Passing, FragmentOf, Pieces, Instant),
    /// An Ethernet address of a switch is behind a port.
    Learned(Identity, Mac, Identity),
    /// A flow came into a router by this port of it, from this neighbour.
    Path(Identity, Tuple, (Identity, IpAddr)),
    /// A port's machine tells of the groups that it listens to.
    Overheard(Identity, Told),
    /// Something about a neighbour of a router.
    Neighbour(Identity, Neighbour, About),
}

impl Change {
    /// Whether it opens a connection.
    pub const fn opens(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::Translate(_))
    }

    /// Whether it is made once, when the frame comes: what is decided again when its turn has come
    /// changes no neighbour.
    pub const fn is_of_neighbours(&self) -> bool {
        matches!(self, Self::Neighbour(..))
    }

    /// Whether somebody may come in by it who may not without. Of a frame that is refused in the
    /// end no such change is made.
    pub const fn grants(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::Translate(_) | Self::Advance(_))
    }
}

//! How a trunk is configured, and the numbers by which tunnels know networks, receivers and flows.

use std::collections::HashMap;
use std::net::IpAddr;

use datapath::Network;
use lossless::Flow;
use tunnel::outer::Encapsulation;
use tunnel::{Incarnation, SessionConfig, Stream};
use units::{Class, ClassMap, Dscp};

/// A frame for all members of a network at a host has this label, combined with the network's VNI.
pub const FLOOD: u32 = 1 << 31;

/// The configuration of a trunk.
#[derive(Clone, Debug)]
pub struct TrunkConfig {
    /// The far host, by the first of its tunnel addresses.
    pub host: IpAddr,
    /// Its address at the end of the path that the session uses.
    pub far: IpAddr,
    /// The number that chooses that path: [`pair`](super::pair).
    pub pair: u32,
    /// The encapsulation of frames.
    pub encapsulation: Encapsulation,
    /// The session's configuration. `None`: frames are sent and neither acknowledged nor
    /// retransmitted.
    pub session: Option<SessionConfig>,
    /// The incarnation of our end.
    pub incarnation: Incarnation,
    /// The longest payload of a datagram that the underlay carries, in bytes.
    pub most: usize,
    /// The outer DSCP of each class. `None`: each frame's inner DSCP is copied.
    pub dscp: Option<ClassMap<Dscp>>,
    /// The link may pause classes. Then cards cut no large segments, because the kernel does not
    /// see the class of what it hands them; and frames carry no reports, because a report would be
    /// paused with them.
    pub obeys_pauses: bool,
}

impl TrunkConfig {
    /// Whether lost frames of this class are retransmitted.
    pub fn is_reliable(&self, class: Class) -> bool {
        self.session.is_some_and(|session| session.reliable.contains(class))
    }
}

/// The networks of this host, and their VNIs.
#[derive(Debug, Default)]
pub struct Networks {
    /// The network of each VNI.
    pub by_vni: HashMap<u32, Network>,
    /// The VNI of each network.
    pub vnis: HashMap<Network, u32>,
}

/// A hash of a host's address, which spreads hosts over sockets and paths.
pub fn way_to(far: IpAddr) -> u32 {
    match far {
        IpAddr::V4(far) => far.to_bits().wrapping_mul(0x9e37_79b9),
        IpAddr::V6(far) => {
            ((far.to_bits() >> 64) as u32 ^ far.to_bits() as u32).wrapping_mul(0x9e37_79b9)
        }
    }
}

pub fn flow_of(stream: Stream) -> Flow {
    Flow(u64::from(stream.label) | u64::from(stream.class.pcp()) << 32)
}

pub fn stream_of(Flow(number): Flow) -> Stream {
    Stream { label: number as u32, class: Class::from_low_bits((number >> 32) as u8) }
}

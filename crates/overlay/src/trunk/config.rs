//! How a trunk is configured, and the numbers of its streams.

use std::net::IpAddr;

use datapath::{Network, Peer, Remote};
use lossless::Flow;
use tunnel::outer::Encapsulation;
use tunnel::{Lane, SessionConfig, Stream};
use units::{Class, ClassMap, Dscp};

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
    /// Draws the incarnations of our end: a number that nobody guesses.
    pub seed: u64,
    /// The longest packet that a datagram carries, sealed or as its payload, in bytes.
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

/// A hash of a host's address, which spreads hosts over sockets and paths.
pub fn host_hash(far: IpAddr) -> u32 {
    match far {
        IpAddr::V4(far) => far.to_bits().wrapping_mul(0x9e37_79b9),
        IpAddr::V6(far) => {
            ((far.to_bits() >> 64) as u32 ^ far.to_bits() as u32).wrapping_mul(0x9e37_79b9)
        }
    }
}

/// Whose window what a network sends to a far host is in.
pub fn lane_of(network: Network) -> Lane {
    Lane(network.number())
}

/// The flow of a stream to a far host.
pub fn flow_of(peer: Peer, Stream { label, class }: Stream) -> Flow {
    Remote { peer, label }.flow(class)
}

/// The stream of a flow to a far host.
pub fn stream_of(flow: Flow) -> Stream {
    let (Remote { label, .. }, class) = Remote::of_flow(flow);
    Stream { label, class }
}

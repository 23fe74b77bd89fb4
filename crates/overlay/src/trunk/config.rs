//! How a trunk is configured, and the numbers by which tunnels know networks, receivers and flows.

use std::collections::HashMap;
use std::net::IpAddr;

use datapath::Network;
use lossless::Flow;
use tunnel::outer::Encapsulation;
use tunnel::{Incarnation, SessionConfig, Stream};
use units::{Class, ClassMap, Dscp};

/// The label of what is for all of a network's machines at a host is this and the network's number.
pub const FLOOD: u32 = 1 << 31;

/// How a trunk is.
#[derive(Clone, Debug)]
pub struct TrunkConfig {
    /// The far host, by the first of its tunnel addresses.
    pub host: IpAddr,
    /// Its address at the end of the way that the session goes by.
    pub far: IpAddr,
    /// What chooses that way: [`pair`].
    pub pair: u32,
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// How the session is; none: frames are sent, and nothing more is heard of them.
    pub session: Option<SessionConfig>,
    /// This life of ours.
    pub life: Incarnation,
    /// The longest payload of a datagram that the underlay carries, in bytes.
    pub most: usize,
    /// The code point of each class outside, unless it is that of the packet in a frame.
    pub dscp: Option<ClassMap<Dscp>>,
    /// The link may have a class be silent. So cards cut no large segments, as what they are handed for that has not its class for the
    /// kernel; and reports do not ride, as they would wait with frames that they do not tell of.
    pub obeys_pauses: bool,
}

impl TrunkConfig {
    /// Whether what is lost of this class is sent again.
    pub fn is_reliable(&self, class: Class) -> bool {
        self.session.is_some_and(|session| session.reliable.contains(class))
    }
}

/// Which networks there are here, by the numbers that tunnels give them.
#[derive(Debug, Default)]
pub struct Networks {
    /// By the number in tunnels.
    pub by_vni: HashMap<u32, Network>,
    /// The number in tunnels.
    pub vnis: HashMap<Network, u32>,
}

/// A number for the way to a host.
pub fn way_to(far: IpAddr) -> u32 {
    match far {
        IpAddr::V4(far) => far.to_bits().wrapping_mul(0x9e37_79b9),
        IpAddr::V6(far) => ((far.to_bits() >> 64) as u32 ^ far.to_bits() as u32).wrapping_mul(0x9e37_79b9),
    }
}

pub fn flow_of(stream: Stream) -> Flow {
    Flow(u64::from(stream.label) | u64::from(stream.class.pcp()) << 32)
}

pub fn stream_of(Flow(number): Flow) -> Stream {
    Stream { label: number as u32, class: Class::from_low_bits((number >> 32) as u8) }
}

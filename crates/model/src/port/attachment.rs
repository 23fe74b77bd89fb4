//! What a port is attached to.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use units::{Mac, Prefix};

/// Where a port's frames come from and go to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    deny_unknown_fields,
    expecting = "what a port is attached to, as { kind = \"container\", netns = \"web\", interface = \"eth0\" }"
)]
pub enum Attachment {
    /// An interface in a container's network namespace, made by the agent.
    Container {
        /// The namespace: a name under /run/netns, or a path such as /proc/1234/ns/net.
        netns: String,
        /// What the interface is called inside.
        interface: String,
        /// The interface's Ethernet address; one is made from the port's name if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "02:00:00:00:00:01"))]
        mac: Option<Mac>,
        /// The interface's addresses with their prefixes, `10.0.0.1/24` or `fd00::1/64`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>, example = json!(["10.0.0.1/24"])))]
        addresses: Vec<Prefix>,
        /// Where else packets go by it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        routes: Vec<RouteSpec>,
        /// The largest packet, in bytes. Absent: 1500, or what tunnels carry if the port is in a
        /// virtual network and that is less.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(minimum = 68, maximum = 65_521))]
        mtu: Option<u32>,
        /// Let the kernel hand over and take large segments and unfinished checksums.
        #[serde(default = "yes")]
        offload: bool,
    },
    /// A virtual machine's network card, by vhost-user.
    #[serde(rename = "vhost-user")]
    VhostUser {
        /// The path of the socket at which the agent and the virtual machine's monitor (QEMU, say)
        /// meet.
        socket: String,
        /// Which of the two makes it.
        #[serde(default)]
        mode: SocketMode,
        /// The card's Ethernet address, if it is to be reached from the start and by nobody else's
        /// frames; it is learned if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "02:00:00:00:00:01"))]
        mac: Option<Mac>,
        /// How many pairs of rings the card may have.
        #[serde(default = "one")]
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 128))]
        queues: u8,
        /// The largest packet that the guest is told of, in bytes. Absent: as a container's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(minimum = 68, maximum = 65_521))]
        mtu: Option<u32>,
    },
    /// An interface that the host has, as a card to a physical network. It has no address there,
    /// and stays when the port goes.
    Interface {
        /// What it is called.
        interface: String,
        /// The VLAN that the port is of the interface: frames have its tag there, and none here; 0
        /// has those without a tag. So ports share an interface. Absent: all frames of the
        /// interface are this port's, with their tags.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(maximum = 4094))]
        vlan: Option<u16>,
        /// The largest packet, in bytes. The interface's own is not changed, and has to be as
        /// large. Absent: as a container's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(minimum = 68, maximum = 65_521))]
        mtu: Option<u32>,
    },
}

/// A route of a container by its interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a route, as { to = \"0.0.0.0/0\", via = \"10.0.0.254\" }"
)]
pub struct RouteSpec {
    /// The network that it leads to; `0.0.0.0/0` or `::/0` is the default route.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "0.0.0.0/0"))]
    pub to: Prefix,
    /// The router on the way; the network is on the link if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::address::read"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "10.0.0.254"))]
    pub via: Option<IpAddr>,
}

/// Who makes a socket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SocketMode {
    /// The virtual machine's monitor. The agent connects, and tries again every second.
    #[default]
    Connect,
    /// The agent, for its user and group.
    Listen,
}

/// The least of an interface with IPv6 (RFC 8200 §5), in bytes.
pub(super) const IPV6_MTU: u32 = 1280;

/// The largest packet where nothing else is said, in bytes: Ethernet's.
const USUAL_MTU: u32 = 1500;

/// What may be a port's largest packet, in bytes. Every host takes 68 (RFC 791 §3.2); a TAP device
/// takes no more than 65,521.
pub(super) const MTUS: RangeInclusive<u32> = 68..=65_521;

impl Attachment {
    /// The most frames of its sender that its memory may be made for. That is 128 MiB of memory,
    /// taken as it is used; with [large frames](Self::has_large_frames) 272 MiB.
    pub const fn most_frames(&self) -> u32 {
        if self.has_large_frames() { 4096 } else { 65_536 }
    }

    /// Whether a full frame takes 68 KiB of its port's memory; otherwise it takes 2.
    pub const fn has_large_frames(&self) -> bool {
        match self {
            Self::Container { mtu, .. } => matches!(mtu, Some(mtu) if *mtu > 2000),
            Self::VhostUser { .. } => false,
            Self::Interface { .. } => true,
        }
    }

    /// The largest packet, in bytes, where tunnels carry packets of up to `carried` bytes.
    pub fn mtu(&self, carried: Option<u16>) -> u32 {
        let (Self::Container { mtu, .. }
        | Self::VhostUser { mtu, .. }
        | Self::Interface { mtu, .. }) = self;
        // Linux has no IPv6 on an interface with less.
        let has_ipv6 = self.addresses().iter().any(|prefix| prefix.address.is_ipv6());
        let least = if has_ipv6 { IPV6_MTU } else { *MTUS.start() };
        let least = |carried| u32::from(carried).clamp(least, USUAL_MTU);
        mtu.unwrap_or_else(|| carried.map_or(USUAL_MTU, least))
    }

    /// The same with this as its largest packet.
    pub fn with_mtu(mut self, bytes: u32) -> Self {
        *self.declared_mtu() = Some(bytes);
        self
    }

    /// The largest packet in bytes, if it is declared.
    pub fn declared_mtu(&mut self) -> &mut Option<u32> {
        match self {
            Self::Container { mtu, .. }
            | Self::VhostUser { mtu, .. }
            | Self::Interface { mtu, .. } => mtu,
        }
    }

    /// Its Ethernet address, if it may have a declared one.
    pub fn declared_mac(&mut self) -> Option<&mut Option<Mac>> {
        match self {
            Self::Container { mac, .. } | Self::VhostUser { mac, .. } => Some(mac),
            Self::Interface { .. } => None,
        }
    }

    /// The IP addresses that the agent gives to the interface.
    pub fn addresses(&self) -> &[Prefix] {
        match self {
            Self::Container { addresses, .. } => addresses,
            Self::VhostUser { .. } | Self::Interface { .. } => &[],
        }
    }
}

fn one() -> u8 {
    1
}

fn yes() -> bool {
    true
}

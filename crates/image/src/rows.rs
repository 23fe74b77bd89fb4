//! What rows say.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use logical::objects::{
    AddressRange, Affinity, Broadcast, DefaultAction, DhcpRelay, Direction, Ecmp, HealthCheck,
    Identity, Log, Multicast, Name, NatKind, NatPlace, PortRange, Protocol, ProviderVlan, Ra6,
    SecurityMode, Start, Tier, UnknownUnicast,
};
use logical::topology::{Allowed, Verdict};
use serde::{Deserialize, Serialize};
use units::{Class, Mac, Prefix};

use crate::condition::Condition;

/// A broadcast domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Whether it forwards anything.
    pub enabled: bool,
    /// The addresses of its machines.
    pub subnets: Vec<Prefix>,
    /// The longest IP packet, if it is declared.
    pub mtu: Option<u16>,
    /// What becomes of unicast frames for addresses that nobody declared.
    pub unknown_unicast: UnknownUnicast,
    /// Whether addresses are learned.
    pub mac_learning: bool,
    /// Who gets frames for a group.
    pub multicast: Multicast,
    /// Who gets broadcasts.
    pub broadcast: Broadcast,
    /// What becomes of packets that no rule speaks of.
    pub default_action: DefaultAction,
    /// The VLAN that it is the same broadcast domain as.
    pub provider: Option<ProviderVlan>,
    /// The zones that it answers from, the first that has a name first.
    pub zones: Vec<Identity>,
}

/// Who is at a port.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum StationRole {
    /// A machine.
    Machine,
    /// A service that is the same on every host.
    Local,
    /// A router's port.
    Router(Identity),
    /// The switch's provider network.
    Provider,
    /// A gateway's VLAN.
    Gateway {
        /// The gateway.
        gateway: Name,
        /// The VLAN there.
        vlan: u16,
    },
}

impl StationRole {
    /// Whether a machine can be there, a service of each host, or a provider's network.
    pub fn is_had(&self) -> bool {
        matches!(self, Self::Machine | Self::Local | Self::Provider)
    }
}

/// What everybody in a switch has to know of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// Who is there.
    pub role: StationRole,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it takes frames for addresses that nobody declared.
    pub unknown: bool,
    /// Whether it sends and receives.
    pub enabled: bool,
}

/// What only the host of a port has to know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its switch.
    pub switch: Identity,
    /// Of a child: the port whose machine sends the tags, and the tag.
    pub parent: Option<(Identity, u16)>,
    /// How much of what its machine names as its own is checked.
    pub security: SecurityMode,
    /// What its machine may name as its own.
    pub allowed: Vec<Allowed>,
    /// The profile of what it is told by DHCP.
    pub dhcp4: Option<Identity>,
    /// The profile of what it is told by DHCPv6.
    pub dhcp6: Option<Identity>,
    /// The class of its frames, if it says one: its profile may.
    pub class: Option<Class>,
    /// The profile of its rates and marks.
    pub qos: Option<Identity>,
    /// When its machine may begin.
    pub start: Start,
    /// The connections that it may have at a time.
    pub connections: Option<u32>,
    /// The policies that hold for it.
    pub policies: BTreeSet<Identity>,
}

/// Decides about packets of a direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name in the policy.
    pub name: Name,
    /// Which way the packets go.
    pub direction: Direction,
    /// What becomes of them.
    pub verdict: Verdict,
    /// The highest that matches decides, among the policies of a level and order.
    pub priority: u16,
    /// All of these have to hold.
    pub conditions: Vec<Condition>,
    /// How its packets are logged.
    pub log: Option<Log>,
    /// Of a thousand of its packets, how many are sampled.
    pub sample: u16,
}

/// Rules, kept once for all policies that have the same.
pub type Rules = Arc<[Rule]>;

/// Rules, and when they decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Who decides before whom.
    pub tier: Tier,
    /// Of a tier's policies those of the least level decide first.
    pub level: u8,
    /// Of a level's policies the least decides first; of equal ones by name.
    pub order: u16,
    /// Whether connections that it admitted stay.
    pub persist: bool,
    /// The directions in which what no rule of the level speaks of is refused.
    pub isolates: BTreeSet<Direction>,
    /// Its rules, of equal priority the first declared first.
    pub rules: Rules,
}

/// What joins switches by IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Whether it forwards anything.
    pub enabled: bool,
    /// The gateway on whose nodes it runs. `None`: on every host.
    pub gateway: Option<Name>,
    /// How packets are spread over equal paths.
    pub ecmp: Ecmp,
    /// The meter of what it sends itself.
    pub copp: Option<Identity>,
}

/// What a router's port leads to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Link {
    /// A switch, by a port of it.
    Switch {
        /// The switch.
        switch: Identity,
        /// The port there that stands for the router's.
        port: Identity,
    },
    /// Another router's port.
    Peer(Identity),
    /// Nothing yet.
    Nowhere,
}

/// A router's interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterPort {
    /// Its router.
    pub router: Identity,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, each with its network's prefix.
    pub addresses: Vec<Prefix>,
    /// What it leads to.
    pub link: Link,
    /// The longest IP packet that leaves by it.
    pub mtu: Option<u16>,
    /// Whether it sends and receives.
    pub enabled: bool,
    /// Its advertisements.
    pub ra6: Ra6,
    /// Servers that it hands machines' DHCP to.
    pub dhcp_relay: Option<DhcpRelay>,
    /// The nodes that it is on, the preferred first. None: on every host.
    pub gateway: Vec<Identity>,
}

/// What becomes of packets that take a route. Of equal routes, one that discards comes before those
/// that lead somewhere.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Target {
    /// They are refused.
    Discard {
        /// Whether their senders are told.
        reject: bool,
    },
    /// They are for a neighbour on a port's own network.
    Connected {
        /// The router's port.
        out: Identity,
    },
    /// They go to a neighbour.
    Hop {
        /// Its address.
        address: IpAddr,
        /// The router's port towards it.
        out: Identity,
    },
}

/// A route, or one of the neighbours of a route.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteKey {
    /// The router.
    pub router: Identity,
    /// The destinations, by the first of them.
    pub prefix: Prefix,
    /// Only of these sources.
    pub source: Option<Prefix>,
    /// Among routes to one prefix the least is used. A port's own networks have 0.
    pub distance: u8,
    /// Where packets go.
    pub target: Target,
}

/// How a route is used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutesAs {
    /// Whether replies leave by the neighbour that the first packet came from.
    pub symmetric: bool,
    /// Whether it is used only while its next hop answers.
    pub monitored: bool,
}

/// A route policy's place in its router: the least decides first.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutePolicyKey {
    /// The router.
    pub router: Identity,
    /// The highest decides.
    pub priority: Reverse<u16>,
    /// Its place among those of its priority, as they are declared.
    pub place: u16,
    /// Its name in the router.
    pub name: Name,
}

/// Decides before routes do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutePolicy {
    /// Which packets.
    pub condition: Condition,
    /// What becomes of them.
    pub decision: RouteDecision,
}

/// What a route policy decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum RouteDecision {
    /// Routes decide.
    Allow,
    /// They are refused.
    Drop,
    /// They go to one of these neighbours: addresses, and the router's ports towards them.
    Reroute(BTreeSet<(IpAddr, Identity)>),
}

/// An address that a router translates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// The router.
    pub router: Identity,
    /// What is translated.
    pub kind: NatKind,
    /// The highest that matches translates.
    pub priority: u16,
    /// The addresses outside.
    pub external: AddressRange,
    /// The addresses inside.
    pub logical: AddressRange,
    /// Of `dnat`: the port inside.
    pub port: Option<u16>,
    /// Of `dnat`: the ports outside; of `snat`: the ports that it takes.
    pub external_ports: Option<PortRange>,
    /// Only packets of this protocol.
    pub protocol: Option<Protocol>,
    /// Of `floating` at its port: the Ethernet address that answers for it outside.
    pub external_mac: Option<Mac>,
    /// Where it is translated.
    pub at: NatPlace,
    /// Sets of addresses with which packets go untranslated.
    pub exempt: BTreeSet<Identity>,
    /// Sets of addresses with which alone packets are translated. None: all.
    pub only_for: BTreeSet<Identity>,
    /// Only packets that match.
    pub condition: Option<Condition>,
    /// Each packet by itself.
    pub stateless: bool,
}

/// Who serves behind an address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// The port, if it is known.
    pub logical_port: Option<Identity>,
    /// The address.
    pub address: IpAddr,
    /// The port there. `None`: the one that was asked for.
    pub port: Option<u16>,
    /// Its part of the connections.
    pub weight: u16,
}

/// An address behind which several serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balancer {
    /// The address.
    pub vip: IpAddr,
    /// The port. `None`: every one.
    pub port: Option<u16>,
    /// The protocol.
    pub protocol: Protocol,
    /// Who serves.
    pub backends: Vec<Backend>,
    /// Which connections stay at one backend.
    pub affinity: Affinity,
    /// Whether clients are told when nobody serves.
    pub reject: bool,
    /// How backends are asked whether they serve.
    pub health_check: Option<HealthCheck>,
    /// Whether a backend that asks for itself sees the address as its client.
    pub hairpin_snat: bool,
    /// The switches of the domain where it is.
    pub switches: BTreeSet<Identity>,
    /// The routers of the domain where it is.
    pub routers: BTreeSet<Identity>,
}

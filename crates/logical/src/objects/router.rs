//! Routers, their ports, routes, and what they translate.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Mac, Prefix, Span};

use super::{
    AddressRange, Match, Name, PortRange, Protocol, Reference, is_default, is_no, is_yes, yes,
};

/// By what packets are spread over equal paths.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum EcmpHash {
    /// Addresses and the protocol.
    L3,
    /// Ports, too.
    #[default]
    L4,
}

/// How packets are spread over equal paths.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default, expecting = "how paths share, as { max: 4, hash: l4 }")]
pub struct Ecmp {
    /// The most paths that share.
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1, maximum = 16))]
    pub max: u8,
    /// By what.
    pub hash: EcmpHash,
}

impl Default for Ecmp {
    fn default() -> Self {
        Self { max: 16, hash: EcmpHash::L4 }
    }
}

/// What joins switches by IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a router, as { routes: [{ prefix: 0.0.0.0/0, nextHop: 10.0.0.254 }] }")]
pub struct LogicalRouter {
    /// Whether it forwards anything.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// The Gateway on whose nodes it runs. Absent: on every host. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub gateway: Option<Name>,
    /// Routes besides those to its ports' own prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(max_items = 1000))]
    pub routes: Vec<Route>,
    /// What is decided before routes are looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(max_items = 1000))]
    pub policies: Vec<RoutePolicy>,
    /// How packets are spread over equal paths.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ecmp: Ecmp,
    /// The Meter of what the router itself sends. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub copp: Option<Name>,
}

/// A neighbour that packets are handed to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a next hop, as { nextHop: 10.0.0.254 }")]
pub struct NextHop {
    /// Its address.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub next_hop: IpAddr,
    /// The RouterPort towards it. Absent: the one whose prefix has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub via: Option<Reference>,
}

/// Whether a route is used only while its next hop answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a monitor, as { bfd: true }")]
pub struct Monitor {
    /// By BFD.
    #[serde(default, skip_serializing_if = "is_no")]
    pub bfd: bool,
}

/// Where packets for a prefix go. Exactly one of `nextHop`, `ecmp` and `discard`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a route, as { prefix: 0.0.0.0/0, nextHop: 10.0.0.254 }")]
pub struct Route {
    /// The destinations.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub prefix: Prefix,
    /// The neighbour that leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub next_hop: Option<IpAddr>,
    /// The RouterPort towards it. Absent: the one whose prefix has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub via: Option<Reference>,
    /// Neighbours that share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(max_items = 16))]
    pub ecmp: Vec<NextHop>,
    /// Whether replies leave by the neighbour that the first packet came from.
    #[serde(default, skip_serializing_if = "is_no")]
    pub symmetric: bool,
    /// Refuses the packets.
    #[serde(default, skip_serializing_if = "is_no")]
    pub discard: bool,
    /// Tells the senders of discarded packets.
    #[serde(default, skip_serializing_if = "is_no")]
    pub reject: bool,
    /// Only of these sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub source: Option<Prefix>,
    /// Among routes to one prefix the least is used. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub distance: Option<u8>,
    /// Whether it is used only while its next hop answers. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitor>,
    /// Whether the next hop may lie outside the ports' prefixes; `via` says where it is.
    #[serde(default, skip_serializing_if = "is_no")]
    pub onlink: bool,
}

/// Neighbours that packets are handed to instead.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "next hops, as { nextHops: [{ nextHop: 10.0.0.254 }] }")]
pub struct Reroute {
    /// They share.
    #[cfg_attr(any(test, feature = "schema"), schema(min_items = 1, max_items = 16))]
    pub next_hops: Vec<NextHop>,
}

/// What becomes of packets before routes are looked at.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum RoutePolicyAction {
    /// Routes decide.
    Allow,
    /// They are refused.
    Drop,
    /// They go to other neighbours.
    Reroute(Reroute),
}

/// Decides before routes do: of those that match, the one with the highest priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a route policy, as { name: scrub, priority: 10, match: {}, action: drop }")]
pub struct RoutePolicy {
    /// Its name, one of its own in the router.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub name: Name,
    /// The highest decides; of equal ones the first.
    pub priority: u16,
    /// Which packets.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// What becomes of them.
    pub action: RoutePolicyAction,
}

/// A node and how much it is preferred.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a node, as { node: gw1, priority: 10 }")]
pub struct GatewayNode {
    /// The TransportNode.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub node: Name,
    /// The highest that is alive is used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u16,
}

/// Nodes that a router's port is on, the one with the highest priority first.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "nodes, as { nodes: [{ node: gw1, priority: 10 }] }")]
pub struct PortGateway {
    /// The nodes.
    #[cfg_attr(any(test, feature = "schema"), schema(min_items = 1))]
    pub nodes: Vec<GatewayNode>,
    /// Whether BFD says which of them are alive. Not executed yet.
    #[serde(default, skip_serializing_if = "is_no")]
    pub bfd: bool,
}

/// What machines are told of how they get IPv6 addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RaMode {
    /// Nothing is advertised.
    #[default]
    Off,
    /// They make them of the prefixes (RFC 4862).
    Slaac,
    /// By DHCPv6.
    Stateful,
    /// They make them, and learn the rest by DHCPv6.
    Stateless,
}

/// How much a router is preferred (RFC 4191 §2.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Preference {
    /// Less than others.
    Low,
    /// As others.
    #[default]
    Medium,
    /// More than others.
    High,
}

/// A router's advertisements (RFC 4861 §6.2.1).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[serde(expecting = "router advertisements, as { mode: slaac }")]
pub struct Ra6 {
    /// How machines get addresses.
    pub mode: RaMode,
    /// The prefixes of which they make them. None: those of the port's addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub prefixes: Vec<Prefix>,
    /// Resolvers (RFC 8106).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub rdnss: Vec<IpAddr>,
    /// Domains that are searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dnssl: Vec<String>,
    /// The MTU that is told. Absent: the port's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1280, maximum = 9216))]
    pub mtu: Option<u16>,
    /// How much the router is preferred.
    pub preference: Preference,
    /// The least time between two unasked ones. Absent: a third of the most. Not executed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "200s"))]
    pub min_interval: Option<Span>,
    /// The most time between two unasked ones. Absent: 600s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "600s"))]
    pub max_interval: Option<Span>,
}

/// Servers that a router hands machines' DHCP to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "DHCP servers, as { servers: [10.0.0.53] }")]
pub struct DhcpRelay {
    /// Their addresses.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub servers: Vec<IpAddr>,
}

/// A router's interface.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a router's port, as { router: edge, mac: …, addresses: [10.0.0.254/24] }")]
pub struct RouterPort {
    /// The LogicalRouter.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub router: Reference,
    /// Its Ethernet address.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, example = "02:00:00:00:00:fe"))]
    pub mac: Mac,
    /// Its addresses, each with its network's prefix.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>, min_items = 1))]
    pub addresses: Vec<Prefix>,
    /// The RouterPort at the other end, if that is no switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub peer: Option<Reference>,
    /// The longest IP packet that leaves by it. Absent: the switch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1280, maximum = 9216))]
    pub mtu: Option<u16>,
    /// Whether it sends and receives.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// Its advertisements.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ra6: Ra6,
    /// Servers that it hands machines' DHCP to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp_relay: Option<DhcpRelay>,
    /// The nodes that it is on. Absent: on every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<PortGateway>,
}

/// What a router translates.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NatKind {
    /// Sources of new connections: many share an external address.
    Snat,
    /// Destinations of new connections: an external address, or ports of it, lead inside.
    Dnat,
    /// Both ways, one to one.
    Floating,
}

/// Where a floating address is translated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NatPlace {
    /// At the router's gateway.
    #[default]
    Gateway,
    /// At the host of the machine that has it.
    Port,
}

/// An address that a router translates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a translation, as { router: edge, kind: snat, external: …, logical: … }")]
pub struct Nat {
    /// The LogicalRouter.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub router: Reference,
    /// What is translated.
    pub kind: NatKind,
    /// The address outside, or a prefix.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub external: AddressRange,
    /// The address inside, or a prefix.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub logical: AddressRange,
    /// Of `dnat`: the port inside. Absent: the one that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub port: Option<u16>,
    /// Of `dnat`: the ports outside; of `snat`: the ports that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub external_ports: Option<PortRange>,
    /// Only packets of this protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub protocol: Option<Protocol>,
    /// Of `floating` at its port: the Ethernet address that answers for it outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub external_mac: Option<Mac>,
    /// Of `floating`: where it is translated. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: NatPlace,
    /// AddressSets with which packets go untranslated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub exempt: Vec<Reference>,
    /// AddressSets with which alone packets are translated. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub only_for: Vec<Reference>,
    /// Only packets that match.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Box<Match>>,
    /// Of several that match, the highest translates; of equal ones, that of fewer addresses
    /// inside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u16,
    /// Of `floating`: each packet by itself, without a connection. Not executed yet.
    #[serde(default, skip_serializing_if = "is_no")]
    pub stateless: bool,
}

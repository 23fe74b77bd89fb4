//! What operators declare: tenants, nodes, the outside, and where ports are.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Bytes, Class, Dscp, Prefix, Rate};

use super::{AddressRange, GatewayNode, Name, Reference, Route, is_default, is_no};

/// How much a tenant may have. Absent: no bound of the tenant's own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[serde(expecting = "a quota, as { ports: 1000 }")]
pub struct Quota {
    /// LogicalPorts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
    /// LogicalSwitches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switches: Option<u32>,
    /// LogicalRouters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routers: Option<u32>,
    /// Rules of all policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<u32>,
    /// Addresses of all sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_members: Option<u32>,
    /// Nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nat_entries: Option<u32>,
    /// Connections of a port at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_port: Option<u32>,
    /// Its LogicalPorts in one domain: in switches and routers that are connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_ports: Option<u32>,
    /// Hosts to which its ports in one domain are bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_hosts: Option<u32>,
}

/// Who networks belong to, and what they may have.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[serde(expecting = "a tenant, as { quota: { ports: 1000 } }")]
pub struct Tenant {
    /// How much it may have.
    #[serde(skip_serializing_if = "is_default")]
    pub quota: Quota,
    /// The least rate that its ports have of each uplink, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "500mbit"))]
    pub guarantee: Option<Rate>,
    /// The highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "2gbit"))]
    pub limit: Option<Rate>,
    /// ProviderNetworks that its switches may join.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub allow_provider: Vec<Name>,
    /// Tenants whose objects may refer to this one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub shared_with: Vec<Name>,
}

/// Addresses of the outside, and who may use them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a pool, as { prefixes: [198.51.100.0/24], tenants: [shop] }")]
pub struct ExternalPool {
    /// The addresses.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub prefixes: Vec<AddressRange>,
    /// Tenants that may use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub tenants: Vec<Name>,
    /// The ProviderNetwork where they are. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub provider: Option<Name>,
    /// The Gateway that leads there. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub gateway: Option<Name>,
}

/// Rates and marks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default, expecting = "rates, as { limit: 1gbit }")]
pub struct QosProfile {
    /// The least rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "500mbit"))]
    pub guarantee: Option<Rate>,
    /// The highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "2gbit"))]
    pub limit: Option<Rate>,
    /// How much may go at once after a rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "64kib"))]
    pub burst: Option<Bytes>,
    /// The DSCP that packets leave with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<u8>, maximum = 63))]
    pub dscp: Option<Dscp>,
    /// The class of frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<u8>, maximum = 7))]
    pub class: Option<Class>,
}

/// What a meter counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum MeterUnit {
    /// Packets a second.
    Pps,
    /// Bits a second.
    Bps,
}

/// How many there may be in a second.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a meter, as { rate: 100, unit: pps }")]
pub struct Meter {
    /// How many in a second.
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub rate: u64,
    /// How many at once after a rest. Absent: those of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub burst: Option<u64>,
    /// What is counted.
    pub unit: MeterUnit,
    /// Whether all who use it share one, or each has its own.
    #[serde(default, skip_serializing_if = "is_no")]
    pub shared: bool,
}

/// A tunnel's encapsulation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// RFC 8926.
    Geneve,
    /// RFC 7348.
    Vxlan,
}

/// What a node is there for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It has machines.
    Host,
    /// It leads outside.
    Gateway,
    /// It copies frames for many.
    Service,
}

/// A host, a gateway or a service node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a node, as { vteps: [192.0.2.1], roles: [host] }")]
pub struct TransportNode {
    /// Its tunnel addresses, at most 8.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>, min_items = 1, max_items = 8))]
    pub vteps: Vec<IpAddr>,
    /// The encapsulations that it takes. None: Geneve. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encap: Vec<Encapsulation>,
    /// The longest packet of its uplink. Absent: 1500. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1280))]
    pub uplink_mtu: Option<u16>,
    /// What it is there for. None: a host. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<NodeRole>,
    /// Its uplinks to ProviderNetworks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = BTreeMap<String, String>))]
    pub providers: BTreeMap<Name, String>,
    /// The name in its certificate. Absent: its own. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Whether machines are to leave it. Not executed yet.
    #[serde(default, skip_serializing_if = "is_no")]
    pub maintenance: bool,
}

/// A physical network that switches may join.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a provider network, as { vlanRanges: [[100, 199]] }")]
pub struct ProviderNetwork {
    /// The VLANs that may be used, from and to. None: only frames without a tag. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlan_ranges: Vec<[u16; 2]>,
    /// The longest packet. Absent: 1500. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1280, maximum = 9216))]
    pub mtu: Option<u16>,
    /// Tenants that may use it. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub shared_with: Vec<Name>,
}

/// How gateways agree on the active one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Election {
    /// Hosts follow BFD (RFC 5880).
    #[default]
    Bfd,
    /// They hear each other's CFM (IEEE 802.1ag) in the network outside.
    Cfm,
}

/// Nodes that lead outside.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a gateway, as { nodes: [{ node: gw1, priority: 10 }] }")]
pub struct Gateway {
    /// The nodes. Not executed yet.
    #[cfg_attr(any(test, feature = "schema"), schema(min_items = 1))]
    pub nodes: Vec<GatewayNode>,
    /// How they agree on the active one. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub election: Election,
    /// Whether one that comes back takes over again. Not executed yet.
    #[serde(default, skip_serializing_if = "is_no")]
    pub preempt: bool,
    /// Its addresses outside. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub addresses: Vec<Prefix>,
    /// Its routes outside. Not executed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// Who says where a port is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum BindingSource {
    /// Whoever manages machines.
    #[default]
    Declared,
    /// The host that found it.
    Discovered,
}

/// When a machine that moves is taken to be at its new host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// When it announces itself there.
    #[default]
    Announce,
    /// When it is said so.
    Api,
}

/// A move to another host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a move, as { to: h2 }")]
pub struct Migration {
    /// The TransportNode, which is told the port's networks before the port is bound there.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub to: Name,
    /// When the machine is taken to be there. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub activation: Activation,
    /// Until when (RFC 3339). Absent: for ever. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
}

/// Where a port is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a binding, as { port: shop/web-1, node: h1 }")]
pub struct Binding {
    /// The LogicalPort, as `tenant/name`.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub port: Reference,
    /// The TransportNode.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub node: Name,
    /// How often it has been bound. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: u32,
    /// Who says so. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: BindingSource,
    /// Where it is going.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
}

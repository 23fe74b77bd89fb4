//! Switches and their ports.

use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Prefix};

use super::{MacChoice, Name, Reference, is_default, is_no, is_yes, yes};

/// What becomes of a packet that no rule speaks of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AllowDrop {
    /// It goes on.
    #[default]
    Allow,
    /// It is refused in silence.
    Drop,
}

/// What becomes of unicast frames for addresses that nobody declared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum UnknownUnicast {
    /// They are refused.
    #[default]
    Drop,
    /// They go to every port that takes unknown addresses.
    Flood,
}

/// Who gets frames for a group.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Multicast {
    /// Everybody.
    #[default]
    Flood,
    /// Who has joined (IGMP, MLD).
    Snoop,
}

/// Who gets broadcasts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Broadcast {
    /// Everybody.
    #[default]
    Flood,
    /// Nobody: what the network itself does not answer is refused.
    Suppressed,
}

/// What becomes of packets that no rule speaks of, by direction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "default actions, as { fromPort: allow, toPort: drop }")]
pub struct DefaultAction {
    /// Of what ports send.
    #[serde(default)]
    pub from_port: AllowDrop,
    /// Of what ports are about to receive.
    #[serde(default)]
    pub to_port: AllowDrop,
}

/// A VLAN of a physical network.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a VLAN, as { network: campus, vlan: 7 }")]
pub struct ProviderVlan {
    /// The ProviderNetwork.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub network: Name,
    /// The VLAN, 0 for frames without a tag.
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 4094))]
    pub vlan: u16,
}

/// A broadcast domain.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a switch, as { subnets: [10.0.0.0/24] }")]
pub struct LogicalSwitch {
    /// The addresses of its machines, at most 16 prefixes that do not overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>, max_items = 16))]
    pub subnets: Vec<Prefix>,
    /// The longest IP packet. Absent: what the underlay carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1280, maximum = 9216))]
    pub mtu: Option<u16>,
    /// What becomes of unicast frames for addresses that nobody declared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown_unicast: UnknownUnicast,
    /// Whether addresses are learned behind ports that take unknown ones.
    #[serde(default, skip_serializing_if = "is_no")]
    pub mac_learning: bool,
    /// Who gets frames for a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub multicast: Multicast,
    /// Who gets broadcasts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub broadcast: Broadcast,
    /// What becomes of packets that no rule speaks of.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_action: DefaultAction,
    /// The DnsZones that the switch answers from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub dns: Vec<Reference>,
    /// The VLAN that it is the same broadcast domain as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderVlan>,
    /// The QosProfile of all its ports that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub qos: Option<Reference>,
    /// Whether it forwards anything.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
}

/// An attachment that says nothing more.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "{}")]
pub struct Nothing {}

/// A router's interface that a port stands for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a router's port, as { routerPort: edge-lan }")]
pub struct RouterAttachment {
    /// The RouterPort.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub router_port: Reference,
}

/// A VLAN of another port that a port stands for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a VLAN of a port, as { parent: vm, vlan: 7 }")]
pub struct Child {
    /// The LogicalPort whose machine sends the tags.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub parent: Reference,
    /// The tag.
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1, maximum = 4094))]
    pub vlan: u16,
}

/// A gateway's VLAN that a port stands for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a gateway's VLAN, as { gateway: rack, vlan: 7 }")]
pub struct L2Gateway {
    /// The Gateway.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub gateway: Name,
    /// The VLAN there.
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 4094))]
    pub vlan: u16,
}

/// Addresses that a port is given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "families, as { v4: true }")]
pub struct DynamicAddresses {
    /// One of the switch's IPv4 subnets.
    #[serde(default, skip_serializing_if = "is_no")]
    pub v4: bool,
    /// One of its IPv6 subnets.
    #[serde(default, skip_serializing_if = "is_no")]
    pub v6: bool,
}

/// What a port's machine may name as its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SecurityMode {
    /// Its Ethernet and IP addresses, and what is allowed besides.
    #[default]
    Strict,
    /// Its Ethernet address, and those allowed besides; any IP address.
    Mac,
    /// Anything.
    Off,
}

/// What a port's machine may name as its own besides its addresses.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(
    expecting = "allowed addresses, as { mac: \"02:00:00:00:00:01\", prefixes: [10.0.9.0/24] }"
)]
pub struct AllowedSource {
    /// An Ethernet address. Absent: the port's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub mac: Option<Mac>,
    /// IP addresses with it. A prefix with host bits is that address alone. None: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub prefixes: Vec<Prefix>,
}

/// What a port's machine may name as its own.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "security, as { mode: strict }")]
pub struct PortSecurity {
    /// How much is checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: SecurityMode,
    /// Whether the port's own addresses are allowed.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub own: bool,
    /// What may be named besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<AllowedSource>,
}

impl Default for PortSecurity {
    fn default() -> Self {
        Self { mode: SecurityMode::Strict, own: true, allowed: Vec::new() }
    }
}

/// When a port's machine may begin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// When its own host knows its policies.
    #[default]
    Local,
    /// When every host that may talk with it does.
    Realized,
}

/// Where a machine, a router or the outside meets a switch. Exactly one of `vif`, `router`,
/// `provider`, `local`, `child` and `l2gateway` says what is there.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a port, as { switch: web, vif: {}, addresses: [10.0.0.1] }")]
pub struct LogicalPort {
    /// The LogicalSwitch.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub switch: Reference,
    /// A virtual machine's or container's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vif: Option<Nothing>,
    /// A router's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterAttachment>,
    /// The switch's provider network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Nothing>,
    /// The same on every host, for its own machines alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Nothing>,
    /// A VLAN of another port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Child>,
    /// A gateway's VLAN. Not executed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2gateway: Option<L2Gateway>,
    /// Its Ethernet address, one of its own in the switch. A router's port has its RouterPort's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub mac: MacChoice,
    /// Its IP addresses, each one of its own in the switch and inside a subnet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>, max_items = 64))]
    pub addresses: Vec<IpAddr>,
    /// Whether addresses may lie outside the subnets.
    #[serde(default, skip_serializing_if = "is_no")]
    pub allow_outside: bool,
    /// Addresses that it is given. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dynamic_addresses: DynamicAddresses,
    /// Whether it takes frames for addresses that nobody declared.
    #[serde(default, skip_serializing_if = "is_no")]
    pub unknown: bool,
    /// What its machine may name as its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security: PortSecurity,
    /// The DhcpProfile for IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub dhcp4: Option<Reference>,
    /// The DhcpProfile for IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub dhcp6: Option<Reference>,
    /// The class of its frames. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<u8>, maximum = 7))]
    pub class: Option<Class>,
    /// Its QosProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub qos: Option<Reference>,
    /// When its machine may begin. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Start,
    /// Whether it sends and receives.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// The TransportNodes where it may be. None: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub node: Vec<Name>,
}

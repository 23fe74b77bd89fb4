//! What the network itself answers: DHCP, DNS, and addresses behind which several serve.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use units::{Mac, Prefix, Span, serde_as_word};

use super::{Protocol, Reference, is_default, is_no, is_yes, yes};

/// A route that machines are told by DHCP (RFC 3442).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a route, as { prefix: 10.1.0.0/16, router: 10.0.0.254 }")]
pub struct ClasslessRoute {
    /// The destinations.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub prefix: Prefix,
    /// The router; 0.0.0.0: none, they are on the link.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub router: Ipv4Addr,
}

/// An option's bytes, in hexadecimal digits: `0a0b`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RawOption(pub Vec<u8>);

serde_as_word!(RawOption);

impl FromStr for RawOption {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let wanted = "not an option's bytes: write 1 to 255 bytes as hexadecimal digits, as 0a0b";
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let pairs = word.as_bytes().chunks(2);
        let byte = |pair: &[u8]| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.filter(|it| (1..=255).contains(&it.len())).map(Self).ok_or(wanted)
    }
}

impl fmt::Display for RawOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What machines are told by DHCP (RFC 2131).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "DHCP, as { serverId: 10.0.0.254, serverMac: …, lease: 3600s }")]
pub struct Dhcp4 {
    /// The server's address, as machines see it.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub server_id: Ipv4Addr,
    /// The server's Ethernet address.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub server_mac: Mac,
    /// The default router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub router: Option<Ipv4Addr>,
    /// How long an address is lent, at least 60s.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, example = "3600s"))]
    pub lease: Span,
    /// Resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub dns: Vec<Ipv4Addr>,
    /// The domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Domains that are searched (RFC 3397).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// The MTU. Absent: the switch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Routes (RFC 3442).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classless_routes: Vec<ClasslessRoute>,
    /// Time servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ntp: Vec<Ipv4Addr>,
    /// The server of boot files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tftp: Option<String>,
    /// The boot file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootfile: Option<String>,
    /// Other options, by their codes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = BTreeMap<String, String>))]
    pub raw: BTreeMap<u8, RawOption>,
}

/// How machines get IPv6 addresses by DHCP.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dhcp6Mode {
    /// Their ports' addresses are lent.
    #[default]
    Stateful,
    /// Only the rest is told.
    Stateless,
}

/// What machines are told by DHCPv6 (RFC 8415).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "DHCPv6, as { serverDuidMac: \"02:00:00:00:00:fe\" }")]
pub struct Dhcp6 {
    /// The Ethernet address of which the server's identifier is made (RFC 8415 §11.4).
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub server_duid_mac: Mac,
    /// Resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub dns: Vec<Ipv6Addr>,
    /// Domains that are searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// How machines get addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Dhcp6Mode,
    /// How long an address is lent, at least 60s. Absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>, example = "3600s"))]
    pub lease: Option<Span>,
    /// Whether machines that ask for it have their addresses by two messages instead of four.
    #[serde(default, skip_serializing_if = "is_no")]
    pub rapid_commit: bool,
}

/// What machines are told by DHCP.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default, expecting = "a profile, as { v4: { … } }")]
pub struct DhcpProfile {
    /// By DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v4: Option<Dhcp4>,
    /// By DHCPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v6: Option<Dhcp6>,
}

/// Names that the switch itself answers for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a zone, as { records: { web.shop.internal: [10.0.0.1] }, ttl: 60 }")]
pub struct DnsZone {
    /// What each name stands for: addresses (A, AAAA), or a name (PTR).
    pub records: BTreeMap<String, Vec<String>>,
    /// How long answers may be kept, in seconds. Absent: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 604_800))]
    pub ttl: Option<u32>,
    /// Whether questions for other names go on to where they were sent.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub forward: bool,
}

/// Who serves behind an address: a port, or an address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a backend, as { ip: 10.0.0.1, port: 8080 }")]
pub struct Backend {
    /// The LogicalPort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub logical_port: Option<Reference>,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub ip: Option<IpAddr>,
    /// The port there. Absent: the one that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub port: Option<u16>,
    /// Its part of the connections, in proportion to others'. Absent: 1; 0: no new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
}

/// Which connections stay at one backend.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Affinity {
    /// Each by itself.
    #[default]
    None,
    /// Those of one client.
    ClientIp,
}

/// How backends are asked whether they serve.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
#[serde(expecting = "a health check, as { interval: 5s, timeout: 2s }")]
pub struct HealthCheck {
    /// How often.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, example = "5s"))]
    pub interval: Span,
    /// How long an answer may take.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String, example = "2s"))]
    pub timeout: Span,
    /// How many failures make one down.
    pub failures: u8,
    /// How many successes make one up.
    pub successes: u8,
}

impl Default for HealthCheck {
    fn default() -> Self {
        let [interval, timeout] = [5, 2].map(Span::from_secs);
        Self { interval, timeout, failures: 3, successes: 2 }
    }
}

/// What a load balancer is at: exactly one of `switch` and `router`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a switch or a router, as { switch: web }")]
pub struct Attachment {
    /// The LogicalSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub switch: Option<Reference>,
    /// The LogicalRouter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub router: Option<Reference>,
}

/// An address behind which several serve.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a load balancer, as { vip: 10.0.0.100, port: 80, protocol: tcp, … }")]
pub struct LoadBalancer {
    /// The address.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub vip: IpAddr,
    /// The port. Absent: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(minimum = 1))]
    pub port: Option<u16>,
    /// The protocol.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub protocol: Protocol,
    /// Who serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
    /// Which connections stay at one backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub affinity: Affinity,
    /// Whether clients are told when nobody serves.
    #[serde(default, skip_serializing_if = "is_no")]
    pub reject: bool,
    /// How backends are asked whether they serve. Absent: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// Where it is.
    pub attach: Vec<Attachment>,
    /// Whether a backend that asks for itself sees the address as its client.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub hairpin_snat: bool,
}

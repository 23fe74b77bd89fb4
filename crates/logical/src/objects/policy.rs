//! Rules about packets, and what they speak of.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use units::{Mac, Prefix};

use super::{AddressRange, AllowDrop, Ethertype, Name, PortRange, Protocol, Reference, is_default};

/// Who decides first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Tier {
    /// The operator, before tenants.
    OperatorFirst,
    /// The tenant.
    #[default]
    Tenant,
    /// The operator, where the tenant says nothing.
    OperatorLast,
}

/// Which way packets go, seen from the port that a rule holds for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// What the port sends.
    FromPort,
    /// What the port is about to receive.
    ToPort,
}

/// What becomes of established connections that no rule allows any longer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Established {
    /// They end, both ways.
    #[default]
    Revalidate,
    /// Those that this policy admitted stay.
    Persist,
}

/// What becomes of packets that a rule matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They go on.
    Allow,
    /// They are refused in silence.
    Drop,
    /// They are refused, and the sender is told.
    Reject,
    /// The next level decides, or the next tier.
    Pass,
}

/// How a label is asked for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
pub enum Operator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
}

/// What a label has to be.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a requirement, as { key: app, operator: In, values: [web] }")]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How it is asked for.
    pub operator: Operator,
    /// The values. `Exists` has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Ports by their labels: all that is said has to hold. A selector that says nothing is every port
/// of the tenant.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a selector, as { matchLabels: { app: web } }")]
pub struct Selector {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Labels and what they have to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

impl Selector {
    /// Whether an object with such labels is meant.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |it: &Requirement| {
            let value = labels.get(&it.key);
            let listed = value.is_some_and(|value| it.values.contains(value));
            match it.operator {
                Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => value.is_some(),
            }
        };
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(holds)
    }
}

/// The ports that a policy holds for: all that are named in any way.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
#[serde(expecting = "who it holds for, as { groups: [web] }")]
pub struct AppliesTo {
    /// LogicalPorts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ports: Vec<Reference>,
    /// PortGroups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub groups: Vec<Reference>,
    /// All machines' ports of LogicalSwitches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub switches: Vec<Reference>,
    /// Machines' ports by their labels. An operator's policy selects among all tenants' ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// The other end of packets: whoever is named in any way, but for `except`. One that names nobody
/// matches nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
#[serde(expecting = "the other end, as { groups: [web] } or { prefixes: [10.0.0.0/8] }")]
pub struct Peer {
    /// LogicalPorts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ports: Vec<Reference>,
    /// PortGroups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub groups: Vec<Reference>,
    /// AddressSets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub sets: Vec<Reference>,
    /// Addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub prefixes: Vec<Prefix>,
    /// Ports by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Addresses that are left out of `prefixes` and `sets`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub except: Vec<Prefix>,
}

/// A protocol and its ports, as a rule writes them down.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a service, as { protocol: tcp, ports: [443] }")]
pub struct InlineService {
    /// The protocol.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub protocol: Protocol,
    /// Destination ports. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ports: Vec<PortRange>,
    /// Source ports. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub source_ports: Vec<PortRange>,
    /// Of ICMP: the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// Of ICMP: the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u8>,
}

/// A Service by name, or written down.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ServiceChoice {
    /// By name.
    Named(Reference),
    /// Written down.
    Inline(InlineService),
}

impl<'de> Deserialize<'de> for ServiceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = ServiceChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Service's name, or a service as { protocol: tcp, ports: [443] }")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ServiceChoice, E> {
                word.parse().map(ServiceChoice::Named).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServiceChoice, A::Error> {
                let inline = InlineService::deserialize(MapAccessDeserializer::new(map));
                inline.map(ServiceChoice::Inline)
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

/// Which packets: all that is said has to hold.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[serde(expecting = "which packets, as { destination: { prefixes: [10.0.0.0/8] } }")]
pub struct Match {
    /// What the frame carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub ethertype: Option<Ethertype>,
    /// Source Ethernet addresses. None: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub source_macs: Vec<Mac>,
    /// Destination Ethernet addresses. None: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub destination_macs: Vec<Mac>,
    /// Where they come from. Absent: anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Peer>,
    /// Where they go. Absent: anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Peer>,
    /// What they ask for. None: anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceChoice>,
}

/// How loud a log line is (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Action must be taken at once.
    Alert,
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Worth noting.
    Notice,
    /// News.
    #[default]
    Info,
    /// Details.
    Debug,
}

/// How a rule's packets are logged.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default, expecting = "a log, as { severity: info }")]
pub struct Log {
    /// How loud.
    pub severity: Severity,
    /// The Meter of its lines. Absent: the host's own bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub meter: Option<Name>,
}

/// Decides about packets of a direction.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a rule, as { name: https, direction: toPort, action: allow }")]
pub struct Rule {
    /// Its name, one of its own in the policy.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub name: Name,
    /// Which way the packets go.
    pub direction: Direction,
    /// What becomes of them.
    pub action: Action,
    /// Of `allow`: whether replies and related errors are allowed, too. Absent: where the packets
    /// are IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stateful: Option<bool>,
    /// The highest that matches decides. Absent, for all rules of a policy: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// The other end. Absent: anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// What is asked for. None: anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceChoice>,
    /// What the frame carries. Such a rule keeps no connections but of `ip4` and `ip6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Option<String>))]
    pub ethertype: Option<Ethertype>,
    /// What has to hold besides: of both ends, and of Ethernet addresses.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Box<Match>>,
    /// How its packets are logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    /// Of a thousand of its packets, how many are sampled. Not executed yet.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 1000))]
    pub sample: u16,
}

/// Rules, and the ports that they hold for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a policy, as { appliesTo: { groups: [web] }, rules: […] }")]
pub struct Policy {
    /// Who decides before whom.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier: Tier,
    /// Of a tier's policies those of the least level decide first. `pass` goes on to the next.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 3))]
    pub level: u8,
    /// Of a level's policies the least decides first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(any(test, feature = "schema"), schema(maximum = 1000))]
    pub order: u16,
    /// The ports that it holds for: machines', never routers'.
    pub applies_to: AppliesTo,
    /// What becomes of established connections that no rule allows any longer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub established: Established,
    /// `drop`: what no rule of the level speaks of is refused, in the directions below. What the
    /// other direction allows by default has its answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_action: Option<AllowDrop>,
    /// The directions of `defaultAction`. None: both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<Direction>,
    /// The rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(max_items = 1000))]
    pub rules: Vec<Rule>,
}

/// Ports by name, by label, and by other groups.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default, expecting = "a group of ports, as { ports: [web-1] }")]
pub struct PortGroup {
    /// LogicalPorts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ports: Vec<Reference>,
    /// The tenant's machines' ports by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// PortGroups whose ports are in this one, too; at most 8 deep, and none within itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub include: Vec<Reference>,
}

/// Addresses that rules speak of, in no order.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a set of addresses, as { addresses: [10.0.0.1, 10.1.0.0/16] }")]
pub struct AddressSet {
    /// The addresses, prefixes and ranges.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>, max_items = 100_000))]
    pub addresses: Vec<AddressRange>,
}

/// A protocol and its ports.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(expecting = "a service, as { protocol: tcp, ports: [443] }")]
pub struct Service {
    /// The protocol.
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = String))]
    pub protocol: Protocol,
    /// Destination ports. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub ports: Vec<PortRange>,
    /// Source ports. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(any(test, feature = "schema"), schema(value_type = Vec<String>))]
    pub source_ports: Vec<PortRange>,
}

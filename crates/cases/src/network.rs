//! A topology as cases tell it, field by field.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use units::{Mac, Prefix};

/// Switches, ports, routers, and rules about their packets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a topology, as { hosts: [h1], switches: { s1: {} } }"
)]
pub struct Network {
    pub hosts: Vec<String>,
    pub switches: BTreeMap<String, Switch>,
    pub ports: BTreeMap<String, Port>,
    pub routers: BTreeMap<String, Router>,
    pub groups: BTreeMap<String, Vec<String>>,
    pub sets: BTreeMap<String, Vec<String>>,
    pub acls: Vec<Acl>,
    pub policies: Vec<RoutePolicy>,
    pub netpols: Vec<Netpol>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub dhcp: BTreeMap<String, Dhcp>,
    pub dns: BTreeMap<String, Zone>,
    /// How many connections each port may have.
    pub connections: Option<u32>,
    pub lbs: Vec<Balancer>,
    /// What people note about it.
    pub note: Option<String>,
}

impl Network {
    /// What executing it takes that not everything can, whether its cases say so or not.
    pub fn needs(&self) -> impl Iterator<Item = &'static str> {
        let has = [
            (self.routers.values().any(|it| !it.nat.is_empty()), "nat"),
            (!self.lbs.is_empty(), "lb"),
            (self.lbs.iter().any(|it| it.down.is_some()), "health"),
            (self.routers.values().any(|it| it.routes.iter().any(|it| it.symmetric)), "symmetric"),
        ];
        has.into_iter().filter(|(is_so, _)| *is_so).map(|(_, need)| need)
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum AllowDrop {
    #[default]
    Allow,
    Drop,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "what becomes of the rest, as { from: allow, to: drop }"
)]
pub struct Defaults {
    pub from: AllowDrop,
    pub to: AllowDrop,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    #[default]
    Drop,
    Flood,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a switch, as { unknown: drop }")]
pub struct Switch {
    #[serde(default)]
    pub unknown: Unknown,
    #[serde(default)]
    pub default: Defaults,
    #[serde(default)]
    pub learn: bool,
    #[serde(default, alias = "subnet", deserialize_with = "one_or_many")]
    pub subnets: Vec<Prefix>,
    pub mtu: Option<u16>,
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(default)]
    pub snoop: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a port, as { switch: s1, at: h1, ips: [10.0.0.1] }")]
pub struct Port {
    pub switch: String,
    pub at: Option<String>,
    pub mac: Option<Mac>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub ips: Vec<IpAddr>,
    #[serde(default)]
    pub security: Security,
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(default)]
    pub unknown: bool,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub namespace: Option<String>,
    #[serde(default)]
    pub local: bool,
    pub child_of: Option<String>,
    #[serde(alias = "vlan")]
    pub tag: Option<u16>,
    pub dhcp: Option<String>,
    pub dhcp6: Option<String>,
    /// How its packets are marked.
    pub dscp: Option<u8>,
}

/// What a port may name as its own.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Anything.
    #[default]
    Off,
    /// These.
    Only(Vec<Own>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an allowed sender, as { mac: \"02:00:00:00:00:01\", ips: [10.0.0.1] }"
)]
pub struct Own {
    pub mac: Option<Mac>,
    #[serde(default)]
    pub ips: Vec<String>,
}

impl<'de> Deserialize<'de> for Security {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = Security;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("`none`, or a list of { mac, ips }")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Security, E> {
                match word {
                    "none" => Ok(Security::Off),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_unit<E: Error>(self) -> Result<Security, E> {
                Ok(Security::Off)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Security, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(match all.is_empty() {
                    true => Security::Off,
                    false => Security::Only(all),
                })
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a router, as { ports: { lan: { switch: s1, ips: [10.0.0.254/24] } } }"
)]
pub struct Router {
    pub ports: BTreeMap<String, Leg>,
    pub routes: Vec<Route>,
    pub nat: Vec<Nat>,
    pub policies: Vec<RoutePolicy>,
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a router's port, as { switch: s1, mac: …, ips: [10.0.0.254/24] }"
)]
pub struct Leg {
    pub switch: Option<String>,
    /// Another router's port, as `r2.up`.
    pub peer: Option<String>,
    pub mac: Option<Mac>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub ips: Vec<Prefix>,
    pub gateway: Option<String>,
    pub mtu: Option<u16>,
    #[serde(default = "yes")]
    pub enabled: bool,
    pub ra: Option<String>,
    pub dhcp_relay: Option<Vec<IpAddr>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a route, as { to: 0.0.0.0/0, via: 10.0.0.254 }")]
pub struct Route {
    pub to: Prefix,
    pub via: Option<IpAddr>,
    pub out: Option<String>,
    #[serde(default)]
    pub discard: bool,
    #[serde(default)]
    pub reject: bool,
    #[serde(default)]
    pub ecmp: Vec<Hop>,
    #[serde(default)]
    pub symmetric: bool,
    pub distance: Option<u8>,
    #[serde(alias = "src")]
    pub from: Option<Prefix>,
}

/// A next hop: an address, or one and the port towards it.
#[derive(Clone, Debug)]
pub struct Hop {
    pub via: IpAddr,
    pub out: Option<String>,
}

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Choice {
            Address(IpAddr),
            Full { via: IpAddr, out: Option<String> },
        }
        Ok(match Choice::deserialize(deserializer)? {
            Choice::Address(via) => Self { via, out: None },
            Choice::Full { via, out } => Self { via, out },
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum NatKind {
    Floating,
    Snat,
    Dnat,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a translation, as { name: out, kind: snat, external: 192.0.2.1, internal: 10.0.0.0/24 }"
)]
pub struct Nat {
    pub name: String,
    pub kind: NatKind,
    pub external: String,
    pub internal: String,
    pub at: Option<String>,
    pub mac: Option<Mac>,
    #[serde(default)]
    pub stateless: bool,
    pub proto: Option<Word>,
    pub external_port: Option<Word>,
    pub internal_port: Option<u16>,
    #[serde(default)]
    pub exempt: Vec<String>,
    #[serde(default)]
    pub only_for: Vec<String>,
    pub ports: Option<Word>,
}

/// A word or a number.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum Word {
    Number(u64),
    Text(String),
}

impl core::fmt::Display for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    From,
    To,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Do {
    Allow,
    Track,
    Drop,
    Reject,
    Pass,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a rule, as { name: a, for: s1, dir: to, prio: 100, match: { any: true }, do: drop }"
)]
pub struct Acl {
    pub name: String,
    #[serde(rename = "for")]
    pub holds_for: String,
    pub dir: Way,
    #[serde(default)]
    pub tier: u8,
    #[serde(default)]
    pub prio: u16,
    #[serde(rename = "match", default)]
    pub matches: Match,
    #[serde(rename = "do")]
    pub action: Do,
    #[serde(default)]
    pub keep: bool,
}

/// Which packets: all that is said has to hold.
#[derive(Clone, Debug, Default)]
pub struct Match {
    pub eth: Option<Word>,
    pub proto: Option<Word>,
    pub src: Option<Vec<End>>,
    pub dst: Option<Vec<End>>,
    pub sport: Vec<Word>,
    pub dport: Vec<Word>,
    pub smac: Vec<End>,
    pub dmac: Vec<End>,
    pub icmp_type: Option<u8>,
    pub icmp_code: Option<u8>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(
            deny_unknown_fields,
            default,
            expecting = "a match, as { eth: ip4, proto: tcp, dport: [80] }"
        )]
        struct Fields {
            #[allow(dead_code, reason = "it says that nothing is asked")]
            any: Option<Word>,
            eth: Option<Word>,
            proto: Option<Word>,
            #[serde(deserialize_with = "some_one_or_many")]
            src: Option<Vec<End>>,
            #[serde(deserialize_with = "some_one_or_many")]
            dst: Option<Vec<End>>,
            #[serde(deserialize_with = "one_or_many")]
            sport: Vec<Word>,
            #[serde(deserialize_with = "one_or_many")]
            dport: Vec<Word>,
            #[serde(deserialize_with = "one_or_many")]
            smac: Vec<End>,
            #[serde(deserialize_with = "one_or_many")]
            dmac: Vec<End>,
            #[serde(alias = "type")]
            icmp_type: Option<u8>,
            #[serde(alias = "code")]
            icmp_code: Option<u8>,
        }

        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = Match;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("`any`, or a match as { eth: ip4, proto: tcp, dport: [80] }")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Match, E> {
                match word {
                    "any" => Ok(Match::default()),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Match, A::Error> {
                let it = Fields::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Match {
                    eth: it.eth,
                    proto: it.proto,
                    src: it.src,
                    dst: it.dst,
                    sport: it.sport,
                    dport: it.dport,
                    smac: it.smac,
                    dmac: it.dmac,
                    icmp_type: it.icmp_type,
                    icmp_code: it.icmp_code,
                })
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

/// Who is at an end of packets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum End {
    /// An address, a prefix, or an Ethernet address.
    Address(String),
    Set {
        set: String,
    },
    Group {
        group: String,
    },
    Port {
        port: String,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a route policy, as { router: r1, prio: 10, match: { any: true }, do: drop }"
)]
pub struct RoutePolicy {
    pub name: Option<String>,
    pub router: Option<String>,
    #[serde(default)]
    pub prio: u16,
    #[serde(rename = "match", default)]
    pub matches: Match,
    #[serde(rename = "do")]
    pub action: RouteDo,
    #[serde(default, deserialize_with = "one_or_many")]
    pub via: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum RouteDo {
    Allow,
    Drop,
    Reroute,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a policy, as { name: a, namespace: n, select: {}, types: [in] }"
)]
pub struct Netpol {
    pub name: String,
    pub namespace: Option<String>,
    #[serde(default)]
    pub select: Select,
    #[serde(default)]
    pub types: Vec<InOut>,
    #[serde(rename = "in", default)]
    pub ingress: Vec<NetRule>,
    #[serde(rename = "out", default)]
    pub egress: Vec<NetRule>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum InOut {
    In,
    Out,
}

/// Labels that something has: all of them.
#[derive(Clone, Debug, Default)]
pub struct Select {
    pub labels: BTreeMap<String, String>,
    pub expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a requirement, as { key: app, operator: In, values: [web] }"
)]
pub struct Expression {
    pub key: String,
    #[serde(alias = "op")]
    pub operator: String,
    #[serde(default)]
    pub values: Vec<String>,
}

impl<'de> Deserialize<'de> for Select {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Choice {
            Full {
                #[serde(alias = "matchLabels")]
                labels: BTreeMap<String, String>,
                #[serde(default, alias = "matchExpressions")]
                expressions: Vec<Expression>,
            },
            Expressions {
                #[serde(alias = "matchExpressions")]
                expressions: Vec<Expression>,
            },
            Bare(BTreeMap<String, String>),
        }
        Ok(match Choice::deserialize(deserializer)? {
            Choice::Full { labels, expressions } => Self { labels, expressions },
            Choice::Expressions { expressions } => Self { labels: BTreeMap::new(), expressions },
            Choice::Bare(labels) => Self { labels, expressions: Vec::new() },
        })
    }
}

impl Select {
    /// Whether something with such labels is meant.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |it: &Expression| {
            let value = labels.get(&it.key);
            let is_listed = value.is_some_and(|value| it.values.contains(value));
            match it.operator.as_str() {
                "In" | "in" => is_listed,
                "NotIn" | "notin" => !is_listed,
                "Exists" | "exists" => value.is_some(),
                _ => value.is_none(),
            }
        };
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(holds)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a rule, as { from: [{ pods: {} }], ports: [] }")]
pub struct NetRule {
    pub from: Option<Vec<NetPeer>>,
    pub to: Option<Vec<NetPeer>>,
    pub ports: Option<Vec<NetPort>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a peer, as { pods: { app: web } } or { cidr: 10.0.0.0/8 }"
)]
pub struct NetPeer {
    pub pods: Option<Select>,
    pub namespaces: Option<Select>,
    pub cidr: Option<Prefix>,
    pub except: Vec<Prefix>,
}

/// A protocol and ports of it.
#[derive(Clone, Debug)]
pub struct NetPort {
    pub proto: Word,
    pub port: Option<Word>,
    pub end: Option<u16>,
}

impl<'de> Deserialize<'de> for NetPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Choice {
            Bare(Word),
            Full {
                #[serde(alias = "protocol")]
                proto: Option<Word>,
                #[serde(alias = "dport")]
                port: Option<Word>,
                #[serde(alias = "endPort", alias = "end_port")]
                end: Option<u16>,
            },
        }
        let tcp = || Word::Text("tcp".into());
        Ok(match Choice::deserialize(deserializer)? {
            Choice::Bare(Word::Text(text)) if text.contains('/') => {
                let (proto, port) = text.split_once('/').unwrap_or(("tcp", &text));
                let (proto, port) = if proto.starts_with(|it: char| it.is_ascii_digit()) {
                    (port, proto)
                } else {
                    (proto, port)
                };
                Self {
                    proto: Word::Text(proto.into()),
                    port: Some(Word::Text(port.into())),
                    end: None,
                }
            }
            Choice::Bare(port) => Self { proto: tcp(), port: Some(port), end: None },
            Choice::Full { proto, port, end } => {
                Self { proto: proto.unwrap_or_else(tcp), port, end }
            }
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "DHCP, as { server: 10.0.0.254, mac: …, lease: 3600 }")]
pub struct Dhcp {
    #[serde(alias = "server_id", alias = "server_ip")]
    pub server: Option<IpAddr>,
    #[serde(alias = "server_mac")]
    pub mac: Option<Mac>,
    pub router: Option<IpAddr>,
    #[serde(alias = "lease_time")]
    pub lease: Option<u32>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub dns: Vec<IpAddr>,
    pub mtu: Option<u16>,
    pub domain: Option<String>,
    #[serde(default, alias = "stateless")]
    pub is_stateless: bool,
    pub cidr: Option<Prefix>,
}

/// Names that switches answer for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "names, as { at: s1, records: { web.shop: 10.0.0.1 } }")]
pub struct Zone {
    #[serde(default, deserialize_with = "one_or_many")]
    pub at: Vec<String>,
    #[serde(default)]
    pub records: BTreeMap<String, Words>,
    pub ttl: Option<u32>,
    pub forward: Option<bool>,
}

/// A word, or several.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Words(#[serde(deserialize_with = "one_or_many")] pub Vec<String>);

#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a load balancer, as { name: web, vip: 10.0.0.100, port: 80, backends: [10.0.0.1:8080] }"
)]
pub struct Balancer {
    pub name: String,
    pub vip: String,
    pub port: Option<u16>,
    #[serde(alias = "protocol")]
    pub proto: Option<Word>,
    #[serde(default)]
    pub backends: Vec<Backend>,
    #[serde(default, alias = "for", alias = "on", deserialize_with = "one_or_many")]
    pub at: Vec<String>,
    #[serde(default, alias = "switch", deserialize_with = "one_or_many")]
    pub switches: Vec<String>,
    #[serde(default, alias = "router", deserialize_with = "one_or_many")]
    pub routers: Vec<String>,
    pub affinity: Option<Word>,
    #[serde(default)]
    pub reject: bool,
    pub hairpin: Option<bool>,
    /// Backends where nobody answers, as health checks find out. `None`: there are none.
    #[serde(default, deserialize_with = "some_one_or_many")]
    pub down: Option<Vec<String>>,
}

/// Who serves: an address and a port in a word, or by fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Backend {
    Word(String),
    Full {
        #[serde(alias = "address")]
        ip: Option<IpAddr>,
        /// A machine's port, or a port's number.
        port: Option<Word>,
        #[serde(alias = "at", alias = "to")]
        lport: Option<String>,
        #[serde(alias = "target_port")]
        dport: Option<u16>,
        weight: Option<u16>,
    },
}

const fn yes() -> bool {
    true
}

/// A list, or the one item of it.
pub fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Choice<T> {
        Many(Vec<T>),
        One(T),
    }
    Ok(match Choice::deserialize(deserializer)? {
        Choice::Many(items) => items,
        Choice::One(item) => alloc::vec![item],
    })
}

fn some_one_or_many<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    one_or_many(deserializer).map(Some)
}

//! Logical networks, resolved: what refers to something has its index, and it is there.
//!
//! Only [`resolve`] makes a [`Topology`] and the indexes in it. Groups are sets of ports, sets are
//! ranges of addresses, selectors have been asked, and what has an order is in that order:
//! policies and their rules, translations, route policies.
//!
//! [`resolve`]: crate::resolve()

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::Index;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Prefix, Rate};

use crate::objects::{
    AddressRange, Affinity, Broadcast, DefaultAction, Dhcp4, Dhcp6, DhcpRelay, Direction, Ecmp,
    Ethertype, HealthCheck, Identity, Log, Meter, Multicast, Name, NatKind, NatPlace, PortRange,
    Protocol, ProviderVlan, QosProfile, Ra6, SecurityMode, Selector, Start, Tenant, Tier,
    TransportNode, UnknownUnicast,
};

/// Says once which indexes there are, and what they lead to.
macro_rules! indexes {
    ($($index:ident $field:ident $item:ident $doc:literal,)*) => {
        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
            pub struct $index(pub(crate) u32);

            impl $index {
                /// Its place among those of its kind, from 0.
                pub const fn place(self) -> usize {
                    self.0 as usize
                }
            }

            impl Index<$index> for Topology {
                type Output = $item;

                fn index(&self, index: $index) -> &$item {
                    &self.$field[index.0 as usize]
                }
            }
        )*

        impl Topology {
            $(
                #[doc = concat!("Every one of `", stringify!($field), "`, with its index.")]
                pub fn $field(&self) -> impl Iterator<Item = ($index, &$item)> {
                    (0..).zip(&self.$field).map(|(i, item)| ($index(i), item))
                }
            )*
        }
    };
}

indexes! {
    SwitchIndex switches Switch "A switch of a topology.",
    PortIndex ports Port "A port of a topology.",
    RouterIndex routers Router "A router of a topology.",
    RouterPortIndex router_ports RouterPort "A router's port of a topology.",
    NatIndex nats Nat "A translation of a topology.",
    GroupIndex groups Group "A group of ports of a topology.",
    SetIndex sets Set "A set of addresses of a topology.",
    PolicyIndex policies Policy "A policy of a topology. They are in the order in which they decide.",
    ProfileIndex profiles Profile "A DHCP profile of a topology.",
    ZoneIndex zones Zone "A zone of names of a topology.",
    BalancerIndex balancers Balancer "A load balancer of a topology.",
    QosIndex qos_profiles Qos "A QoS profile of a topology.",
    MeterIndex meters NamedMeter "A meter of a topology.",
    NodeIndex nodes Node "A node of a topology.",
}

/// Logical networks, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    pub(crate) switches: Vec<Switch>,
    pub(crate) ports: Vec<Port>,
    pub(crate) routers: Vec<Router>,
    pub(crate) router_ports: Vec<RouterPort>,
    pub(crate) nats: Vec<Nat>,
    pub(crate) groups: Vec<Group>,
    pub(crate) sets: Vec<Set>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) balancers: Vec<Balancer>,
    pub(crate) qos_profiles: Vec<Qos>,
    pub(crate) meters: Vec<NamedMeter>,
    pub(crate) nodes: Vec<Node>,
    /// Those of tenants that have any.
    pub(crate) terms: BTreeMap<Name, TenantTerms>,
}

impl Topology {
    /// The port of a name.
    pub fn port(&self, tenant: &str, name: &str) -> Option<PortIndex> {
        let is = |id: &Identity| {
            id.name.as_str() == name && id.tenant.as_ref().is_some_and(|it| it.as_str() == tenant)
        };
        self.ports().find(|(_, port)| is(&port.id)).map(|(index, _)| index)
    }

    /// What a tenant's ports have of each uplink, together, if that is declared.
    pub fn terms_of(&self, tenant: &Name) -> Option<TenantTerms> {
        self.terms.get(tenant).copied()
    }

    /// Every port that a peer names, by itself or by groups. One may come twice.
    pub fn ports_of<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = PortIndex> + 'a {
        let of_groups = peer.groups.iter().flat_map(|group| &self[*group].ports);
        peer.ports.iter().chain(of_groups).copied()
    }

    /// Every address that a peer names, by itself or by sets, before what it leaves out.
    pub fn addresses_of<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = AddressRange> + 'a {
        peer.prefixes.iter().copied().chain(self.addresses_in(&peer.sets))
    }

    /// The addresses of sets.
    pub fn addresses_in<'a>(
        &'a self,
        sets: &'a BTreeSet<SetIndex>,
    ) -> impl Iterator<Item = AddressRange> + 'a {
        sets.iter().flat_map(|set| &self[*set].addresses).copied()
    }
}

/// What a tenant's ports have of each uplink, together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTerms {
    /// The least rate.
    pub guarantee: Option<Rate>,
    /// The highest.
    pub limit: Option<Rate>,
}

impl TenantTerms {
    /// Those that a tenant declares, if it declares any.
    pub fn declared(tenant: &Tenant) -> Option<Self> {
        let Tenant { guarantee, limit, .. } = *tenant;
        guarantee.or(limit).map(|_| Self { guarantee, limit })
    }
}

/// A broadcast domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Who it is.
    pub id: Identity,
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
    /// The zones that it answers from.
    pub dns: Vec<ZoneIndex>,
    /// The VLAN that it is the same broadcast domain as.
    pub provider: Option<ProviderVlan>,
    /// Whether it forwards anything.
    pub enabled: bool,
    /// Its ports.
    pub ports: Vec<PortIndex>,
}

/// What a port stands for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Attachment {
    /// A machine's interface.
    Vif,
    /// A router's interface.
    Router(RouterPortIndex),
    /// The switch's provider network.
    Provider,
    /// The same on every host.
    Local,
    /// A VLAN of another port.
    Child {
        /// The port whose machine sends the tags.
        parent: PortIndex,
        /// The tag.
        vlan: u16,
    },
    /// A gateway's VLAN.
    L2Gateway {
        /// The gateway.
        gateway: Name,
        /// The VLAN there.
        vlan: u16,
    },
}

/// IP addresses that a port's machine may name as its own with an Ethernet address.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// The Ethernet address.
    pub mac: Mac,
    /// The addresses. `None`: any.
    pub addresses: Option<Vec<AddressRange>>,
    /// Broadcast addresses of their subnets, as destinations.
    pub broadcasts: Vec<Ipv4Addr>,
}

/// Where a machine, a router or the outside meets a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Who it is.
    pub id: Identity,
    /// What selectors choose by.
    pub labels: BTreeMap<String, String>,
    /// Its switch.
    pub switch: SwitchIndex,
    /// What it stands for.
    pub attachment: Attachment,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it takes frames for addresses that nobody declared.
    pub unknown: bool,
    /// How much of what its machine names as its own is checked.
    pub security: SecurityMode,
    /// What its machine may name as its own.
    pub allowed: Vec<Allowed>,
    /// What it is told by DHCP.
    pub dhcp4: Option<ProfileIndex>,
    /// What it is told by DHCPv6.
    pub dhcp6: Option<ProfileIndex>,
    /// The class of its frames, if it says one.
    pub class: Option<Class>,
    /// Its rates, or its switch's.
    pub qos: Option<QosIndex>,
    /// When its machine may begin.
    pub start: Start,
    /// Whether it sends and receives.
    pub enabled: bool,
    /// The nodes where it may be. None: any.
    pub nodes: Vec<NodeIndex>,
    /// Where it is, if that is declared.
    pub node: Option<NodeIndex>,
    /// The connections that it may have at a time.
    pub connections: Option<u32>,
}

impl Port {
    /// Whether it is a machine's: policies hold for such ports only.
    pub const fn is_machine(&self) -> bool {
        matches!(self.attachment, Attachment::Vif | Attachment::Local | Attachment::Child { .. })
    }
}

/// A neighbour that packets are handed to, and the port towards it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Hop {
    /// Its address.
    pub address: IpAddr,
    /// The port.
    pub out: RouterPortIndex,
}

/// What becomes of packets that take a route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// They go to one of these neighbours.
    Hops {
        /// At least one.
        hops: Vec<Hop>,
        /// Whether replies leave by the neighbour that the first packet came from.
        symmetric: bool,
    },
    /// They are refused.
    Discard {
        /// Whether their senders are told.
        reject: bool,
    },
}

/// Where packets for a prefix go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// The destinations.
    pub prefix: Prefix,
    /// Only of these sources.
    pub source: Option<Prefix>,
    /// Among routes to one prefix the least is used.
    pub distance: u8,
    /// What becomes of packets.
    pub target: Target,
    /// Whether it is used only while its next hop answers.
    pub monitored: bool,
}

/// What is decided before routes are looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteDecision {
    /// Routes decide.
    Allow,
    /// They are refused.
    Drop,
    /// They go to one of these neighbours.
    Reroute(Vec<Hop>),
}

/// Decides before routes do.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutePolicy {
    /// Its name in the router.
    pub name: Name,
    /// The highest that matches decides.
    pub priority: u16,
    /// Which packets.
    pub matches: Match,
    /// What becomes of them.
    pub decision: RouteDecision,
}

/// What joins switches by IP.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Who it is.
    pub id: Identity,
    /// Whether it forwards anything.
    pub enabled: bool,
    /// The gateway on whose nodes it runs. `None`: on every host.
    pub gateway: Option<Name>,
    /// Routes besides those to its ports' own prefixes, as they were declared.
    pub routes: Vec<Route>,
    /// What is decided before routes are looked at: the first that matches decides.
    pub policies: Vec<RoutePolicy>,
    /// How packets are spread over equal paths.
    pub ecmp: Ecmp,
    /// The meter of what it sends itself.
    pub copp: Option<MeterIndex>,
    /// Its ports.
    pub ports: Vec<RouterPortIndex>,
    /// What it translates: the first that matches translates. Of equal priorities, that of fewer
    /// addresses inside is first, and then that of named ports ([`Nat::rank`]).
    pub nats: Vec<NatIndex>,
}

/// What a router's port leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Link {
    /// A switch, by a port of it.
    Switch(PortIndex),
    /// Another router's port.
    Peer(RouterPortIndex),
    /// Nothing yet.
    Nowhere,
}

/// A router's interface.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterPort {
    /// Who it is.
    pub id: Identity,
    /// Its router.
    pub router: RouterIndex,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, each with its network's prefix.
    pub addresses: Vec<Prefix>,
    /// What it leads to.
    pub link: Link,
    /// The longest IP packet that leaves by it: its own bound, or its switch's.
    pub mtu: Option<u16>,
    /// Whether it sends and receives.
    pub enabled: bool,
    /// Its advertisements.
    pub ra6: Ra6,
    /// Servers that it hands machines' DHCP to.
    pub dhcp_relay: Option<DhcpRelay>,
    /// The nodes that it is on, the preferred first. None: on every host.
    pub gateway: Vec<NodeIndex>,
}

impl RouterPort {
    /// Whether an address is its own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|it| it.address == address)
    }

    /// Whether an address is in one of its prefixes.
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|it| AddressRange::from(*it).contains(address))
    }
}

/// An address that a router translates.
#[derive(Clone, Debug, PartialEq)]
pub struct Nat {
    /// Who it is.
    pub id: Identity,
    /// Its router.
    pub router: RouterIndex,
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
    pub exempt: BTreeSet<SetIndex>,
    /// Sets of addresses with which alone packets are translated. None: all.
    pub only_for: BTreeSet<SetIndex>,
    /// Only packets that match.
    pub matches: Option<Match>,
    /// Each packet by itself.
    pub stateless: bool,
}

impl Nat {
    /// Its place among a router's translations, the least first; of equal ones by name.
    pub fn rank(&self) -> (Reverse<u16>, u128, bool) {
        let inside = self.logical.place(self.logical.last());
        (Reverse(self.priority), inside, self.external_ports.is_none())
    }
}

/// What becomes of packets that a rule matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Verdict {
    /// They go on.
    Allow {
        /// Replies and related errors, too.
        stateful: bool,
    },
    /// They are refused in silence.
    Drop,
    /// They are refused, and the sender is told.
    Reject,
    /// The next level decides, or the next tier.
    Pass,
}

/// Who a group of ports is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum GroupName {
    /// A PortGroup.
    Named(Identity),
    /// Machines' ports by their labels.
    Selected {
        /// Whose ports. `None`: all tenants'.
        tenant: Option<Name>,
        /// Their labels.
        selector: Selector,
    },
}

/// Ports that rules speak of together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// Who it is.
    pub name: GroupName,
    /// The ports, those of the groups in it among them.
    pub ports: BTreeSet<PortIndex>,
}

/// Addresses that rules speak of together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Set {
    /// Who it is.
    pub id: Identity,
    /// The addresses.
    pub addresses: Vec<AddressRange>,
}

/// Whoever is at the other end of packets. [`Topology::ports_of`] and [`Topology::addresses_of`]
/// tell who that is in the end.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Peer {
    /// These ports.
    pub ports: BTreeSet<PortIndex>,
    /// The ports of these groups.
    pub groups: BTreeSet<GroupIndex>,
    /// These addresses.
    pub prefixes: Vec<AddressRange>,
    /// The addresses of these sets.
    pub sets: BTreeSet<SetIndex>,
    /// But for these addresses.
    pub except: Vec<AddressRange>,
}

/// A protocol and its ports.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The protocol.
    pub protocol: Protocol,
    /// Destination ports. None: all.
    pub ports: Vec<PortRange>,
    /// Source ports. None: all.
    pub source_ports: Vec<PortRange>,
    /// Of ICMP: the type.
    pub icmp_type: Option<u8>,
    /// Of ICMP: the code.
    pub icmp_code: Option<u8>,
}

/// Which packets: all that is said has to hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Match {
    /// What the frame carries.
    pub ethertype: Option<Ethertype>,
    /// Source Ethernet addresses. None: all.
    pub source_macs: Vec<Mac>,
    /// Destination Ethernet addresses. None: all.
    pub destination_macs: Vec<Mac>,
    /// Where they come from. `None`: anywhere.
    pub source: Option<Peer>,
    /// Where they go. `None`: anywhere.
    pub destination: Option<Peer>,
    /// What they ask for. None: anything.
    pub services: Vec<Service>,
}

/// Decides about packets of a direction.
#[derive(Clone, Debug, PartialEq)]
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
    pub conditions: Vec<Match>,
    /// How its packets are logged.
    pub log: Option<Log>,
    /// Of a thousand of its packets, how many are sampled.
    pub sample: u16,
}

/// Rules, and the ports that they hold for.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Who it is.
    pub id: Identity,
    /// Who decides before whom.
    pub tier: Tier,
    /// Of a tier's policies those of the least level decide first.
    pub level: u8,
    /// Of a level's policies the least decides first.
    pub order: u16,
    /// The ports that it holds for.
    pub ports: BTreeSet<PortIndex>,
    /// Whether connections that it admitted stay.
    pub persist: bool,
    /// The directions in which what no rule of the level speaks of is refused.
    pub isolates: BTreeSet<Direction>,
    /// Its rules, of equal priority the first declared first.
    pub rules: Vec<Rule>,
}

/// What machines are told by DHCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Who it is.
    pub id: Identity,
    /// By DHCP.
    pub v4: Option<Dhcp4>,
    /// By DHCPv6.
    pub v6: Option<Dhcp6>,
}

/// What a name stands for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Record {
    /// An address: A or AAAA.
    Address(IpAddr),
    /// A name: PTR.
    Name(String),
}

/// Names that the switch itself answers for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Who it is.
    pub id: Identity,
    /// The names, in lower case, and what they stand for.
    pub records: BTreeMap<String, Vec<Record>>,
    /// How long answers may be kept, in seconds.
    pub ttl: u32,
    /// Whether questions for other names go on.
    pub forward: bool,
}

/// Who serves behind an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backend {
    /// The port, if it is known.
    pub logical_port: Option<PortIndex>,
    /// The address.
    pub address: IpAddr,
    /// The port there. `None`: the one that was asked for.
    pub port: Option<u16>,
    /// Its part of the connections.
    pub weight: u16,
}

/// An address behind which several serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Balancer {
    /// Who it is.
    pub id: Identity,
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
    /// The switches where it is.
    pub switches: Vec<SwitchIndex>,
    /// The routers where it is.
    pub routers: Vec<RouterIndex>,
    /// Whether a backend that asks for itself sees the address as its client.
    pub hairpin_snat: bool,
}

/// Rates and marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Qos {
    /// Who it is.
    pub id: Identity,
    /// What they are.
    pub profile: QosProfile,
}

/// How many there may be in a second.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedMeter {
    /// Who it is.
    pub id: Identity,
    /// What it is.
    pub meter: Meter,
}

/// A host, a gateway or a service node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Who it is.
    pub id: Identity,
    /// What it is.
    pub node: TransportNode,
}

//! A topology, compiled for questions about classes of packets: what rules at a port say of a
//! class.
//!
//! A class of packets is a class of source addresses, one of destination addresses, and a set of
//! [atoms](crate::atoms). Rules are asked once for each, and answer with a partition of the atoms:
//! which of them go on and which do not, by which rule. Ports with the same policies share answers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use interpreter::{Reason, RuleId};
use logical::objects::{
    AddressRange, AllowDrop, Direction, Ethertype, NatKind, PortRange, Protocol, Tier,
};
use logical::topology::{
    BalancerIndex, Match, NatIndex, Peer, PortIndex, Service, Topology, Verdict,
};
use units::Mac;

use crate::addresses::{Addresses, Family, Partition};
use crate::area::{Area, PORTS, joined, of_service};
use crate::atoms::Atoms;
use crate::bits::Bits;
use crate::hash::{Interned, Table};
use crate::security::{groups, prefix};

/// What becomes of packets at one port's rules.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Gate {
    /// They go on; by a rule or by default.
    Pass(Option<u32>),
    /// They are refused.
    Refuse(Reason, Option<u32>),
}

/// A partition of atoms by what becomes of them.
pub type Ruled = Vec<(Gate, Bits)>;

/// An end of packets, as rules see it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct End {
    /// The class of its address.
    pub class: u32,
    /// Which peers the port is among, if the port is known.
    pub who: Option<u32>,
}

/// What rules ask of packets besides atoms.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Subject {
    /// The family; `None`: no IP.
    pub family: Option<Family>,
    /// The class of the source's Ethernet address.
    pub mac: u32,
    /// The class of the destination's.
    pub to_mac: u32,
    /// Who sends them.
    pub source: End,
    /// Who gets them.
    pub destination: End,
}

/// A condition as rules have it.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The atoms for which it can hold.
    pub atoms: Bits,
    /// Peers that the source has to be among.
    pub sources: Vec<u32>,
    /// Peers that the destination has to be among.
    pub destinations: Vec<u32>,
    /// Lists that the source's Ethernet address has to be in.
    macs: Vec<u32>,
    /// Lists that the destination's has to be in.
    to_macs: Vec<u32>,
}

#[derive(Debug)]
struct Rule {
    verdict: Verdict,
    condition: Condition,
}

/// A level's rules for a port, in the order in which they decide, and whether it isolates.
#[derive(Debug, Default)]
struct Level {
    rules: Vec<u32>,
    isolates: bool,
}

/// All that decides at ports of the same policies, one way.
#[derive(Debug)]
struct Bundle {
    levels: Vec<Level>,
    default: AllowDrop,
    /// Whether connections are kept of what the default allows: the other way is isolated.
    keeps: bool,
    /// The peers that its rules name of either end.
    peers: [BTreeSet<u32>; 2],
}

/// A question: the bundle, of what, whether a connection would be kept, and whether the port has
/// room for none.
type Question = (u32, Subject, bool, bool);

/// A compiled topology.
#[derive(Debug)]
pub struct Space<'a> {
    pub topology: &'a Topology,
    pub atoms: Atoms,
    /// Classes of addresses, as rules tell them apart.
    pub classes: Partition,
    /// Of each port, the number of the set of peers that it is among.
    pub who: Vec<u32>,
    whos: Vec<BTreeSet<u32>>,
    peers: Vec<Peer>,
    /// Lists of Ethernet addresses that rules have.
    pub macs: Vec<Vec<Mac>>,
    mac_classes: Interned<Vec<u32>>,
    rules: Vec<Rule>,
    /// The names of rules.
    pub names: Vec<RuleId>,
    bundles: Vec<Bundle>,
    /// Of each port, its bundles of both ways.
    bundle_of: Vec<[u32; 2]>,
    answers: Table<Question, u32>,
    /// What rules said.
    pub ruled: Interned<Ruled>,
    coarse: Table<(u32, usize, u32), u32>,
    coarse_sets: Interned<(u32, usize, Vec<u32>)>,
    coarse_first: BTreeMap<u32, u32>,
    /// The conditions of each router's route policies.
    pub policies: Vec<Vec<Condition>>,
    /// Of each translation, what it asks for.
    nats: Vec<Asked>,
    /// Of each load balancer, the atoms that it is meant for.
    balancers: Vec<Bits>,
    /// What translations make of atoms: for each atom, another. The first changes none.
    images: Interned<Vec<u32>>,
    composed: BTreeMap<(u32, PortMap), u32>,
}

/// What a translation asks of packets.
#[derive(Debug)]
struct Asked {
    /// The atoms of its protocol. None: any.
    protocol: Option<Bits>,
    /// The atoms for its ports outside.
    external: Bits,
    /// What else it asks for.
    condition: Option<Condition>,
}

/// The number of the map of atoms that changes none.
pub const SAME_PORTS: u32 = 0;

/// How a translation changes ports.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PortMap {
    /// The destination's becomes this.
    Destination(u16),
    /// The source's becomes the nearest of these, unless it is none.
    Source(PortRange),
}

impl PortMap {
    /// What is made of two ports.
    fn of(self, [from, to]: [u16; 2]) -> [u16; 2] {
        match self {
            Self::Destination(port) => [from, port],
            Self::Source(PortRange { first, last }) if from != 0 => [from.clamp(first, last), to],
            Self::Source(_) => [from, to],
        }
    }

    /// The packets that are in a box of a protocol with ports once they are changed.
    fn before(self, area: &Area) -> Vec<Area> {
        let [.., a, b] = area.0;
        match self {
            Self::Destination(port) if b.0 <= port && port <= b.1 => {
                alloc::vec![area.with(a, PORTS)]
            }
            Self::Destination(_) => Vec::new(),
            Self::Source(PortRange { first, last }) => {
                let mut all = Vec::new();
                if a.0 == 0 {
                    all.push((0, 0));
                }
                let inside = (a.0.max(first), a.1.min(last));
                if inside.0 <= inside.1 {
                    let begin = if inside.0 == first { 1.min(first) } else { inside.0 };
                    let end = if inside.1 == last { u16::MAX } else { inside.1 };
                    all.push((begin.max(1), end));
                }
                joined(all.into_iter().map(|span| area.with(span, b)).collect())
            }
        }
    }
}

/// How the translations of a topology change ports.
fn port_maps(topology: &Topology) -> BTreeSet<PortMap> {
    let dynamic = PortRange { first: 1024, last: u16::MAX };
    let mut all = BTreeSet::new();
    for (_, nat) in topology.nats() {
        all.insert(PortMap::Source(dynamic));
        all.extend(nat.port.map(PortMap::Destination));
        if nat.kind == NatKind::Snat {
            all.extend(nat.external_ports.map(PortMap::Source));
        }
    }
    for (_, balancer) in topology.balancers() {
        all.insert(PortMap::Source(dynamic));
        all.extend(balancer.backends.iter().filter_map(|it| it.port).map(PortMap::Destination));
    }
    all
}

/// A protocol's packets for some ports, of both families.
fn asked(protocol: Protocol, ports: Option<PortRange>) -> Vec<Area> {
    let area = |family| {
        let whole = Area::protocol(family, protocol.0);
        match ports {
            Some(PortRange { first, last }) if protocol.has_ports() => {
                whole.with(PORTS, (first, last))
            }
            _ => whole,
        }
    };
    Family::BOTH.map(area).to_vec()
}

/// What translations and balancers ask for, as boxes: of balancers, of translations' protocols and
/// of their ports outside.
fn asked_for(topology: &Topology) -> Vec<Vec<Area>> {
    let mut all = Vec::new();
    for (_, it) in topology.balancers() {
        all.push(asked(it.protocol, it.port.map(|port| PortRange { first: port, last: port })));
    }
    for (_, it) in topology.nats() {
        if let Some(protocol) = it.protocol {
            all.push(asked(protocol, None));
            all.push(asked(protocol, it.external_ports));
        }
    }
    all
}

/// Through how many translations of ports packets are followed.
const MOST_TRANSLATIONS: usize = 4;

/// Adds to boxes those that they are once translations have changed ports, as often as may be.
fn closed(mut areas: BTreeSet<Vec<Area>>, maps: &BTreeSet<PortMap>) -> BTreeSet<Vec<Area>> {
    let has_ports = |it: &&Area| {
        let carried = it.0[1];
        carried.0 == carried.1 && Protocol(carried.0.to_be_bytes()[1]).has_ports()
    };
    let mut new: Vec<Vec<Area>> = areas.iter().cloned().collect();
    for _ in 0..MOST_TRANSLATIONS {
        let mut next = Vec::new();
        for (own, map) in new.iter().flat_map(|own| maps.iter().map(move |map| (own, map))) {
            let before: Vec<Area> =
                own.iter().filter(has_ports).flat_map(|it| map.before(it)).collect();
            let before = joined(before);
            if !before.is_empty() && !areas.contains(&before) {
                areas.insert(before.clone());
                next.push(before);
            }
        }
        new = next;
    }
    areas
}

/// Which end of packets.
pub const SOURCE: usize = 0;
pub const DESTINATION: usize = 1;

/// The addresses that one machine can have: of others there are no connections.
fn of_one(family: Family) -> Addresses {
    let nobodys = match family {
        Family::V4 => alloc::vec![
            prefix(Ipv4Addr::UNSPECIFIED.into(), 8),
            IpAddr::from(Ipv4Addr::BROADCAST).into(),
        ],
        Family::V6 => alloc::vec![
            IpAddr::from(Ipv6Addr::UNSPECIFIED).into(),
            prefix(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into(), 96),
        ],
    };
    Addresses::all(family)
        .minus(&Addresses::of(family, nobodys.into_iter().chain([groups(family)])))
}

/// The addresses that make a peer's ports part of it where the port is not known, and its own.
fn predicates(topology: &Topology, peer: &Peer) -> [Vec<AddressRange>; 2] {
    let of_ports = topology.ports_of(peer).flat_map(|it| &topology[it].addresses);
    let mut own = Vec::new();
    for family in Family::BOTH {
        let all = Addresses::of(family, topology.addresses_of(peer));
        let left_out = Addresses::of(family, peer.except.iter().copied());
        own.extend(all.minus(&left_out).ranges());
    }
    [of_ports.map(|it| AddressRange::from(*it)).collect(), own]
}

/// Every condition of a topology: of rules and of route policies.
fn matches(topology: &Topology) -> impl Iterator<Item = &Match> {
    let rules = topology.policies().flat_map(|(_, it)| &it.rules).flat_map(|it| &it.conditions);
    let routes = topology.routers().flat_map(|(_, it)| &it.policies).map(|it| &it.matches);
    let translations = topology.nats().filter_map(|(_, it)| it.matches.as_ref());
    rules.chain(routes).chain(translations)
}

impl<'a> Space<'a> {
    /// Compiles a topology.
    pub fn new(topology: &'a Topology) -> Self {
        let mut services: Vec<&Service> = Vec::new();
        let mut peers: Vec<&Peer> = Vec::new();
        let mut macs: Vec<&Vec<Mac>> = Vec::new();
        let mut named = BTreeSet::new();
        for it in matches(topology) {
            services.extend(&it.services);
            peers.extend(it.source.iter().chain(&it.destination));
            macs.extend(
                [&it.source_macs, &it.destination_macs].into_iter().filter(|it| !it.is_empty()),
            );
            named.extend(it.ethertype.map(|Ethertype(number)| number));
        }
        let mut areas: BTreeSet<_> = services.into_iter().map(of_service).collect();
        areas.extend(asked_for(topology));
        let areas: Vec<_> = closed(areas, &port_maps(topology)).into_iter().collect();
        let atoms = Atoms::new(&areas, &named);
        let peer_numbers: BTreeMap<_, _> = {
            let all: BTreeSet<_> = peers.iter().map(|it| (*it).clone()).collect();
            (0u32..).zip(all).map(|(i, key)| (key, i)).collect()
        };
        let peers: Vec<Peer> = peer_numbers.keys().cloned().collect();
        let mac_numbers: BTreeMap<Vec<Mac>, u32> = {
            let all: BTreeSet<_> = macs.into_iter().cloned().collect();
            (0u32..).zip(all).map(|(i, key)| (key, i)).collect()
        };
        let mut cuts: Vec<_> = peers.iter().flat_map(|it| predicates(topology, it)).collect();
        cuts.push(
            Family::BOTH
                .into_iter()
                .flat_map(|it| of_one(it).ranges().collect::<Vec<_>>())
                .collect(),
        );
        let mut whos: Interned<BTreeSet<u32>> = Interned::default();
        let mut among: BTreeMap<PortIndex, BTreeSet<u32>> = BTreeMap::new();
        for (number, peer) in (0u32..).zip(&peers) {
            for port in topology.ports_of(peer) {
                among.entry(port).or_default().insert(number);
            }
        }
        let who = topology
            .ports()
            .map(|(index, _)| whos.number(among.get(&index).cloned().unwrap_or_default()));
        let who = who.collect();
        let condition = |all: &[Match]| {
            let mut made = Condition {
                atoms: atoms
                    .family(None)
                    .or(atoms.family(Some(Family::V4)))
                    .or(atoms.family(Some(Family::V6))),
                sources: Vec::new(),
                destinations: Vec::new(),
                macs: Vec::new(),
                to_macs: Vec::new(),
            };
            for it in all {
                if let Some(Ethertype(number)) = it.ethertype {
                    made.atoms = made.atoms.and(&atoms.kind(number));
                }
                let number = |peer: &Peer| peer_numbers.get(peer).copied();
                made.sources.extend(it.source.as_ref().and_then(number));
                made.destinations.extend(it.destination.as_ref().and_then(number));
                if it.source.is_some() || it.destination.is_some() {
                    made.atoms = made.atoms.minus(atoms.family(None));
                }
                made.macs.extend(mac_numbers.get(&it.source_macs));
                made.to_macs.extend(mac_numbers.get(&it.destination_macs));
                if !it.services.is_empty() {
                    let mut any = Bits::none(atoms.len());
                    for service in &it.services {
                        let place = areas.binary_search(&of_service(service));
                        any = any.or(atoms.of(place.unwrap_or_default()));
                    }
                    made.atoms = made.atoms.and(&any);
                }
            }
            made
        };
        let (mut rules, mut names, mut first_rule) = (Vec::new(), Vec::new(), Vec::new());
        for (_, policy) in topology.policies() {
            first_rule.push(rules.len() as u32);
            for rule in &policy.rules {
                rules.push(Rule { verdict: rule.verdict, condition: condition(&rule.conditions) });
                names.push(RuleId { policy: policy.id.clone(), rule: rule.name.clone() });
            }
        }
        let one = |it: &Match| condition(core::slice::from_ref(it));
        let policies = topology
            .routers()
            .map(|(_, router)| router.policies.iter().map(|it| one(&it.matches)).collect());
        let policies = policies.collect();
        let atoms_of = |boxes: &Vec<Area>| {
            let place = areas.binary_search(boxes);
            place.map_or_else(|_| Bits::none(atoms.len()), |it| atoms.of(it).clone())
        };
        let balancers = topology.balancers().map(|(_, it)| {
            let ports = it.port.map(|port| PortRange { first: port, last: port });
            atoms_of(&asked(it.protocol, ports))
        });
        let balancers = balancers.collect();
        let nats = topology.nats().map(|(_, it)| Asked {
            protocol: it.protocol.map(|protocol| atoms_of(&asked(protocol, None))),
            external: match it.protocol {
                Some(protocol) => atoms_of(&asked(protocol, it.external_ports)),
                None => Family::BOTH
                    .map(|it| atoms.family(Some(it)).clone())
                    .iter()
                    .fold(Bits::none(atoms.len()), |all, own| all.or(own)),
            },
            condition: it.matches.as_ref().map(&one),
        });
        let nats = nats.collect();
        let mut images = Interned::default();
        images.number((0..atoms.len() as u32).collect());
        let mut made = Self {
            classes: Partition::new(&cuts),
            who,
            whos: whos.all,
            peers,
            macs: mac_numbers.into_keys().collect(),
            mac_classes: Interned::default(),
            rules,
            names,
            bundles: Vec::new(),
            bundle_of: Vec::new(),
            answers: Table::default(),
            ruled: Interned::default(),
            coarse: Table::default(),
            coarse_sets: Interned::default(),
            coarse_first: BTreeMap::new(),
            policies,
            nats,
            balancers,
            images,
            composed: BTreeMap::new(),
            atoms,
            topology,
        };
        made.bundle(&first_rule);
        made
    }

    /// The atoms that a balancer is meant for.
    pub fn of_balancer(&self, balancer: BalancerIndex) -> &Bits {
        &self.balancers[balancer.place()]
    }

    /// The atoms of a translation's protocol. None: any.
    pub fn of_protocol(&self, nat: NatIndex) -> Option<&Bits> {
        self.nats[nat.place()].protocol.as_ref()
    }

    /// The atoms for a translation's ports outside.
    pub fn of_external(&self, nat: NatIndex) -> &Bits {
        &self.nats[nat.place()].external
    }

    /// What else a translation asks for.
    pub fn of_nat(&self, nat: NatIndex) -> Option<&Condition> {
        self.nats[nat.place()].condition.as_ref()
    }

    /// The number of the map that changes atoms by another, and then by a translation.
    pub fn with_ports(&mut self, first: u32, then: PortMap) -> u32 {
        if let Some(found) = self.composed.get(&(first, then)) {
            return *found;
        }
        let image = |atom: &u32| self.image(*atom, then);
        let image: Vec<u32> = self.images.all[first as usize].iter().map(image).collect();
        let number = self.images.number(image);
        self.composed.insert((first, then), number);
        number
    }

    /// The atom of an atom's packets once their ports have changed.
    fn image(&self, atom: u32, map: PortMap) -> u32 {
        let number = |area: &Area| area.0[1].0.to_be_bytes()[1];
        let mut areas = self.atoms.areas_of(atom as usize).iter();
        let area = areas.find(|it| Protocol(number(it)).has_ports() && it.0[1].0 == it.0[1].1);
        let Some(Area([kind, carried, a, b])) = area else { return atom };
        let [from, to] = map.of([a.0, b.0]);
        self.atoms.find([kind.0, carried.0, from, to]).map_or(atom, |it| it as u32)
    }

    /// Those of some atoms that are among others once a map has changed them.
    pub fn before(&self, map: u32, others: &Bits, some: &Bits) -> Bits {
        if map == SAME_PORTS {
            return some.and(others);
        }
        let image = &self.images.all[map as usize];
        let mut found = Bits::none(self.atoms.len());
        for atom in some.iter().filter(|it| others.has(image[*it] as usize)) {
            found.insert(atom);
        }
        found
    }

    /// Puts together what decides at each port.
    fn bundle(&mut self, first_rule: &[u32]) {
        let topology = self.topology;
        let mut of_port: BTreeMap<PortIndex, Vec<usize>> = BTreeMap::new();
        let policies: Vec<_> = topology.policies().map(|(_, it)| it).collect();
        for (number, policy) in policies.iter().enumerate() {
            for port in &policy.ports {
                of_port.entry(*port).or_default().push(number);
            }
        }
        let mut numbers: BTreeMap<(Vec<usize>, bool, bool), u32> = BTreeMap::new();
        for (index, port) in topology.ports() {
            let own = match port.is_machine() {
                true => of_port.remove(&index).unwrap_or_default(),
                false => Vec::new(),
            };
            let default = topology[port.switch].default_action;
            let ways = [Direction::FromPort, Direction::ToPort].map(|way| {
                let default = match way {
                    Direction::FromPort => default.from_port,
                    Direction::ToPort => default.to_port,
                };
                let default = if port.is_machine() { default } else { AllowDrop::Allow };
                let key = (own.clone(), way == Direction::ToPort, default == AllowDrop::Drop);
                *numbers.entry(key).or_insert_with(|| {
                    // A place in order, and the rule.
                    type Ordered = Vec<(u16, core::cmp::Reverse<u16>, u32)>;
                    let mut all: BTreeMap<(Tier, u8), (Level, Ordered)> = BTreeMap::new();
                    let other = match way {
                        Direction::FromPort => Direction::ToPort,
                        Direction::ToPort => Direction::FromPort,
                    };
                    let keeps = own.iter().any(|it| policies[*it].isolates.contains(&other));
                    for number in &own {
                        let policy = policies[*number];
                        let (level, order) = all.entry((policy.tier, policy.level)).or_default();
                        level.isolates |= policy.isolates.contains(&way);
                        for (i, rule) in (first_rule[*number]..).zip(&policy.rules) {
                            if rule.direction == way {
                                order.push((policy.order, core::cmp::Reverse(rule.priority), i));
                            }
                        }
                    }
                    let mut peers: [BTreeSet<u32>; 2] = Default::default();
                    let mut levels = Vec::with_capacity(all.len());
                    for (mut level, mut order) in all.into_values() {
                        order.sort_by_key(|it| (it.0, it.1));
                        level.rules = order.into_iter().map(|it| it.2).collect();
                        for rule in &level.rules {
                            let condition = &self.rules[*rule as usize].condition;
                            peers[SOURCE].extend(&condition.sources);
                            peers[DESTINATION].extend(&condition.destinations);
                        }
                        levels.push(level);
                    }
                    self.bundles.push(Bundle { levels, default, keeps, peers });
                    self.bundles.len() as u32 - 1
                })
            });
            self.bundle_of.push(ways);
        }
    }

    /// What decides at a port, both ways, as a number: equal ones decide alike.
    pub fn bundles_of(&self, port: PortIndex) -> [u32; 2] {
        self.bundle_of[port.place()]
    }

    /// The class of an Ethernet address: the lists of rules that it is in.
    pub fn mac(&mut self, mac: Mac) -> u32 {
        let lists = (0u32..).zip(&self.macs).filter(|(_, list)| list.contains(&mac));
        let lists = lists.map(|(i, _)| i).collect();
        self.mac_classes.number(lists)
    }

    /// An Ethernet address for each class that rules tell apart, besides those in no list.
    pub fn listed_macs(&self) -> BTreeSet<Mac> {
        self.macs.iter().flatten().copied().collect()
    }

    /// Whether an end is among a peer.
    pub fn is_among(&self, peer: u32, end: End) -> bool {
        let signature = self.classes.signature(end.class);
        let holds = |predicate: u32| signature.binary_search(&predicate).is_ok();
        let by_port = match end.who {
            Some(who) => self.whos[who as usize].contains(&peer),
            None => holds(2 * peer),
        };
        by_port || holds(2 * peer + 1)
    }

    /// The addresses that are among a peer, whoever has them.
    pub fn addresses_of(&self, peer: u32, family: Family) -> Addresses {
        let [ports, own] = predicates(self.topology, &self.peers[peer as usize]);
        Addresses::of(family, ports.into_iter().chain(own))
    }

    fn has_macs(&self, condition: &Condition, subject: &Subject) -> bool {
        let within = |all: &[u32], mac: u32| {
            let lists = &self.mac_classes.all[mac as usize];
            all.iter().all(|list| lists.contains(list))
        };
        within(&condition.macs, subject.mac) && within(&condition.to_macs, subject.to_mac)
    }

    /// Whether all that a condition says of the source and of Ethernet addresses holds.
    pub fn has_source(&self, condition: &Condition, subject: &Subject) -> bool {
        self.has_macs(condition, subject)
            && condition.sources.iter().all(|peer| self.is_among(*peer, subject.source))
    }

    fn holds(&self, condition: &Condition, subject: &Subject) -> bool {
        self.has_source(condition, subject)
            && condition.destinations.iter().all(|it| self.is_among(*it, subject.destination))
    }

    /// A class that stands for all which a port's rules treat as this one.
    pub fn coarse(&mut self, port: PortIndex, way: Direction, end: usize, class: u32) -> u32 {
        let bundle = self.bundle_of[port.place()][way as usize];
        self.coarse_of(bundle, end, class)
    }

    fn coarse_of(&mut self, bundle: u32, end: usize, class: u32) -> u32 {
        if let Some(found) = self.coarse.get(&(bundle, end, class)) {
            return *found;
        }
        let peers = &self.bundles[bundle as usize].peers[end];
        let signature = self.classes.signature(class).iter();
        let is_told = |it: &u32| peers.contains(&(it / 2)) || *it == self.one();
        let told = signature.copied().filter(is_told).collect();
        let set = self.coarse_sets.number((bundle, end, told));
        let first = *self.coarse_first.entry(set).or_insert(class);
        self.coarse.insert((bundle, end, class), first);
        first
    }

    /// The predicate of addresses that one machine can have.
    const fn one(&self) -> u32 {
        2 * self.peers.len() as u32
    }

    fn is_one(&self, class: u32) -> bool {
        self.classes.signature(class).binary_search(&self.one()).is_ok()
    }

    /// Asks a port's rules of a class of packets. `is_one`: they are for one receiver, and not from
    /// the address that they are for, so a connection is kept. The number of an entry of
    /// [`ruled`](Self::ruled).
    pub fn ask(
        &mut self,
        port: PortIndex,
        way: Direction,
        mut subject: Subject,
        is_one: bool,
    ) -> u32 {
        let own = &self.topology[port];
        let bundle = self.bundle_of[port.place()][way as usize];
        if subject.family.is_some() {
            subject.source.class = self.coarse_of(bundle, SOURCE, subject.source.class);
            subject.destination.class =
                self.coarse_of(bundle, DESTINATION, subject.destination.class);
        }
        let are_two =
            |it: &Subject| [it.source, it.destination].iter().all(|it| self.is_one(it.class));
        let is_tracked =
            is_one && own.is_machine() && subject.family.is_some() && are_two(&subject);
        let question = (bundle, subject, is_tracked, own.connections == Some(0));
        if let Some(answer) = self.answers.get(&question) {
            return *answer;
        }
        let ruled = self.rule(&question);
        let number = self.ruled.number(ruled);
        self.answers.insert(question, number);
        number
    }

    fn rule(&self, (bundle, subject, is_tracked, is_full): &Question) -> Ruled {
        let bundle = &self.bundles[*bundle as usize];
        let mut left = self.atoms.family(subject.family).clone();
        let mut ruled: BTreeMap<Gate, Bits> = BTreeMap::new();
        let mut say = |gate: Gate, atoms: &Bits| {
            if !atoms.is_empty() {
                let all = ruled.entry(gate).or_insert_with(|| Bits::none(self.atoms.len()));
                *all = all.or(atoms);
            }
        };
        for level in &bundle.levels {
            let mut next = Bits::none(self.atoms.len());
            for number in &level.rules {
                let rule = &self.rules[*number as usize];
                if !rule.condition.atoms.meets(&left) || !self.holds(&rule.condition, subject) {
                    continue;
                }
                let hit = left.and(&rule.condition.atoms);
                left = left.minus(&hit);
                let by = Some(*number);
                match rule.verdict {
                    Verdict::Allow { stateful: true } if *is_tracked => {
                        let first = hit.and(self.atoms.first());
                        say(Gate::Refuse(Reason::Untracked, by), &hit.minus(&first));
                        match is_full {
                            true => say(Gate::Refuse(Reason::ConnectionsFull, by), &first),
                            false => say(Gate::Pass(by), &first),
                        }
                    }
                    Verdict::Allow { .. } => say(Gate::Pass(by), &hit),
                    Verdict::Drop => say(Gate::Refuse(Reason::Policy, by), &hit),
                    Verdict::Reject => say(Gate::Refuse(Reason::Rejected, by), &hit),
                    Verdict::Pass => next = next.or(&hit),
                }
                if left.is_empty() {
                    break;
                }
            }
            if level.isolates {
                say(Gate::Refuse(Reason::Policy, None), &left);
                left = next;
            } else {
                left = left.or(&next);
            }
        }
        match bundle.default {
            AllowDrop::Drop => say(Gate::Refuse(Reason::Policy, None), &left),
            // What begins nothing passes by a default, whatever is kept.
            AllowDrop::Allow if bundle.keeps && *is_tracked && *is_full => {
                let first = left.and(self.atoms.first());
                say(Gate::Refuse(Reason::ConnectionsFull, None), &first);
                say(Gate::Pass(None), &left.minus(&first));
            }
            AllowDrop::Allow => say(Gate::Pass(None), &left),
        }
        ruled.into_iter().collect()
    }
}

//! Whether a sentence about a network holds, for all packets; or a packet that shows that it does
//! not.
//!
//! Classes of packets decide. The interpreter is asked of the packet that refutes, so a
//! counterexample is always one that it confirms.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::{Arrival, State, decide};
use logical::objects::AddressRange;
use logical::topology::{Attachment, PortIndex, SwitchIndex, Topology};
use units::{Instant, Mac};
use wire::ip::protocol;

use crate::addresses::{Addresses, Family, Partition};
use crate::area::{Area, is_icmp};
use crate::bits::Bits;
use crate::field::{Fate, Line, Way, is_for_many, mac_of, stranger};
use crate::frame::{Content, Packet};
use crate::hop::next_hop;
use crate::matrix::Matrix;
use crate::region::pair;
use crate::security::is_open;
use crate::sentence::{Sentence, Who};

/// How many packets of a class are tried where their hash decides.
const TRIES: u16 = 64;

/// The port that packets come from if it may be any; of echoes, their number.
const FROM: u16 = 40000;

/// The port that packets are for if it may be any.
const TO: u16 = 80;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Looked {
    /// Pairs of classes of ports.
    pub pairs: usize,
    /// Classes of packets.
    pub classes: usize,
}

/// A packet that does what a sentence excludes, or does not do what it promises.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counterexample {
    /// Who sends it.
    pub from: PortIndex,
    /// Who gets it, or ought to. `None`: whoever has its destination.
    pub to: Option<PortIndex>,
    /// The packet.
    pub packet: Packet,
}

impl Counterexample {
    /// The packet as its machine sends it.
    pub fn frame(&self) -> Vec<u8> {
        self.packet.frame_of(FROM, 0).unwrap_or_default()
    }

    /// Whether the interpreter has it delivered.
    pub fn arrives(&self, topology: &Topology) -> bool {
        let (port, frame) = (self.from, self.frame());
        let arrival = Arrival { port, node: topology[port].node, frame: &frame };
        let decision = decide(topology, &State::default(), Instant::ZERO, arrival);
        let is_it = |port| self.to.is_none_or(|it| it == port);
        decision.delivered.iter().any(|it| is_it(it.port))
    }
}

/// Whether a sentence holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Proof {
    /// It holds for all packets.
    Proven(Looked),
    /// It does not: this packet shows it.
    Refuted(Counterexample),
    /// It does not: no packet can be sent, because the two ports have no addresses of one family,
    /// or nobody on the sender's switch answers for the address.
    Unanswered(PortIndex, Option<IpAddr>),
    /// The hash of packets decides: of those that were tried, this among them, none shows either.
    Undecided(Counterexample),
}

impl Matrix {
    /// Whether a sentence about the topology that this is of holds.
    pub fn prove(&self, topology: &Topology, sentence: &Sentence) -> Proof {
        let mut prover = Prover {
            matrix: self,
            topology,
            sentence,
            looked: Looked::default(),
            doubtful: None,
            hops: BTreeMap::new(),
        };
        let found = match sentence.is_never {
            true => prover.never(),
            false => prover.always(),
        };
        match (found, prover.doubtful) {
            (Some(proof), _) => proof,
            (None, Some(found)) => Proof::Undecided(found),
            (None, None) => Proof::Proven(prover.looked),
        }
    }
}

struct Prover<'a> {
    matrix: &'a Matrix,
    topology: &'a Topology,
    sentence: &'a Sentence,
    looked: Looked,
    /// What a class has, and no packet of it that was tried shows.
    doubtful: Option<Counterexample>,
    hops: BTreeMap<(SwitchIndex, IpAddr), Option<Mac>>,
}

/// Ports of a class that are meant.
type Meant = (usize, Vec<PortIndex>);

impl Prover<'_> {
    /// The classes of the ports that are meant, and their ports. Of addresses, these are all.
    fn meant(&self, who: &Who) -> Vec<Meant> {
        let classes = self.matrix.field.classes.iter().enumerate();
        let meant = classes.map(|(class, it)| {
            let is_meant = |port: &PortIndex| match who {
                Who::Ports(ports) => ports.contains(port),
                Who::Addresses(_) => true,
            };
            (class, it.ports.iter().copied().filter(is_meant).collect::<Vec<_>>())
        });
        meant.filter(|(_, ports)| !ports.is_empty()).collect()
    }

    /// The addresses of a family that are meant. `None`: all.
    fn addresses(who: &Who, family: Family) -> Option<Addresses> {
        match who {
            Who::Ports(_) => None,
            Who::Addresses(range) => Some(Addresses::of(family, [*range])),
        }
    }

    /// What a set has of the addresses that are meant.
    fn narrowed(who: &Who, all: &Addresses) -> Addresses {
        Self::addresses(who, all.family()).map_or_else(|| all.clone(), |it| all.and(&it))
    }

    /// The atoms that are meant, but for those that can be ruled out.
    fn atoms(&self, family: Option<Family>) -> Bits {
        let all = self.matrix.field.atoms.family(family);
        match &self.sentence.by {
            None => all.clone(),
            Some(areas) => all.and(&self.matrix.field.atoms.meeting(areas)),
        }
    }

    /// A packet of a class that arrives though none must.
    fn never(&mut self) -> Option<Proof> {
        let [from, to] = [&self.sentence.from, &self.sentence.to].map(|it| self.meant(it));
        let [v4, v6] = Family::BOTH.map(|it| self.atoms(Some(it)));
        let others = match self.sentence.by {
            None => self.atoms(None),
            Some(_) => Bits::none(self.matrix.field.atoms.len()),
        };
        // Packets between own addresses are looked at first: they are the plainest examples.
        for is_ordinary in [true, false] {
            for (a, senders) in &from {
                for (b, receivers) in &to {
                    self.looked.pairs += usize::from(is_ordinary);
                    for line in self.matrix.field.cell(*a, *b) {
                        if self.is_ordinary(senders[0], line) != is_ordinary {
                            continue;
                        }
                        let meant = match line.family {
                            Some(Family::V4) => &v4,
                            Some(Family::V6) => &v6,
                            None => &others,
                        };
                        for (fate, atoms) in &self.matrix.field.fates[line.fates as usize] {
                            let atoms = atoms.and(meant);
                            if atoms.is_empty() {
                                continue;
                            }
                            self.looked.classes += atoms.iter().count();
                            let is_reached = matches!(fate, Fate::Arrive(..));
                            let found = is_reached
                                .then(|| self.shown(senders, receivers, line, &atoms))
                                .flatten();
                            if let Some(found) = found {
                                return Some(Proof::Refuted(found));
                            }
                        }
                    }
                }
            }
        }
        None
    }

    /// Whether a line is of packets as machines send them by themselves.
    fn is_ordinary(&self, sender: PortIndex, line: &Line) -> bool {
        let own = self.topology[sender].mac;
        let is_own = mac_of(&self.topology[sender], self.matrix.field.macs[line.mac as usize]);
        let is_plain =
            matches!(self.matrix.field.ways[line.way as usize], Way::Direct | Way::Routed(..));
        let has_own = |it| matches!(it, crate::field::Place::Own(_));
        is_own == own && is_plain && has_own(line.from) && has_own(line.to)
    }

    /// A packet of a line that arrives, from one of some ports to one of others.
    fn shown(
        &mut self,
        senders: &[PortIndex],
        receivers: &[PortIndex],
        line: &Line,
        atoms: &Bits,
    ) -> Option<Counterexample> {
        let field = &self.matrix.field;
        let places = [line.from, line.to];
        let who = [&self.sentence.from, &self.sentence.to];
        if line.family.is_none() && who.iter().any(|it| matches!(it, Who::Addresses(_))) {
            return None;
        }
        // Of ports that are alike two are enough, unless one's own addresses are asked for.
        let [senders, receivers] = [0, 1].map(|end| {
            let all = [senders, receivers][end];
            let has = |port: &&PortIndex| match field.addresses(**port, places[end]) {
                Some(all) => !Self::narrowed(who[end], all).is_empty(),
                None => true,
            };
            all.iter().filter(has).take(2).copied().collect::<Vec<_>>()
        });
        for from in senders {
            for to in receivers.iter().copied().filter(|it| *it != from) {
                let ends = match (field.addresses(from, line.from), field.addresses(to, line.to)) {
                    (Some(one), Some(other)) => {
                        let one = Self::narrowed(who[0], one);
                        let other = Self::narrowed(who[1], other);
                        let kinds = [false, true].into_iter();
                        let kinds = kinds.filter(|it| line.is_same.is_none_or(|is| is == *it));
                        let found = kinds.filter_map(|it| pair(&one, &other, it)).next();
                        let Some(found) = found else { continue };
                        Some(found)
                    }
                    _ => None,
                };
                let macs = self.macs(from, to, line);
                let found = self.tried((from, Some(to)), macs, line.family, ends, atoms, true);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// The Ethernet addresses of a packet of a line.
    fn macs(&self, from: PortIndex, to: PortIndex, line: &Line) -> (Mac, Mac) {
        let (topology, field) = (self.topology, &self.matrix.field);
        let switch = &topology[topology[from].switch];
        let listed: BTreeSet<Mac> = field.lists.iter().flatten().copied().collect();
        let to_mac = match &field.ways[line.way as usize] {
            Way::Direct | Way::None => topology[to].mac,
            Way::Routed(at, _) => topology[*at].mac,
            Way::Group(Some(mac)) | Way::Unknown(Some(mac)) => *mac,
            Way::Group(None) => {
                let others = (0..=u8::MAX).map(|it| Mac([0x33, 0x33, 0, 0, 1, it]));
                let mut all = [Mac::BROADCAST].into_iter().chain(others);
                let is_free = |it: &Mac| !listed.contains(it) && is_for_many(switch, *it);
                all.find(is_free).unwrap_or(Mac::BROADCAST)
            }
            Way::Unknown(None) => {
                let owners = switch.ports.iter().map(|it| &topology[*it].mac);
                stranger(listed.iter().chain(owners))
            }
        };
        (mac_of(&topology[from], field.macs[line.mac as usize]), to_mac)
    }

    /// The first packet of some atoms that the interpreter delivers, or does not.
    fn tried(
        &mut self,
        (from, to): (PortIndex, Option<PortIndex>),
        (from_mac, to_mac): (Mac, Mac),
        family: Option<Family>,
        ends: Option<(IpAddr, IpAddr)>,
        atoms: &Bits,
        arrives: bool,
    ) -> Option<Counterexample> {
        let mut areas = Vec::new();
        for atom in atoms.iter() {
            let own = self.matrix.field.atoms.areas_of(atom).iter();
            match &self.sentence.by {
                None => areas.extend(own),
                Some(some) => {
                    areas.extend(own.flat_map(|it| some.iter().filter_map(|by| it.and(by))))
                }
            }
        }
        areas.sort_by_key(|it| plainness(family, it));
        for area in areas.iter().take(4) {
            for number in 0..TRIES {
                let content = content(area, ends, number);
                let packet = Packet { from_mac, to_mac, content };
                let found = Counterexample { from, to, packet };
                if found.arrives(self.topology) == arrives {
                    return Some(found);
                }
                self.doubtful.get_or_insert(found);
            }
        }
        None
    }

    /// A packet of a class that does not arrive though all must.
    fn always(&mut self) -> Option<Proof> {
        let [from, to] = [&self.sentence.from, &self.sentence.to].map(|it| self.meant(it));
        for (_, senders) in &from {
            // What one of a class reaches the others do, unless its own addresses are asked for.
            let few = match self.sentence.from {
                Who::Ports(_) => 2,
                Who::Addresses(_) => usize::MAX,
            };
            for sender in senders.iter().copied().take(few) {
                let all = self.topology[sender].addresses.iter().copied();
                let meant = |it: &IpAddr| {
                    Self::addresses(&self.sentence.from, Family::of(*it))
                        .is_none_or(|all| all.contains(*it))
                };
                let sources: Vec<IpAddr> = all.filter(meant).collect();
                if sources.is_empty() && matches!(self.sentence.from, Who::Addresses(_)) {
                    continue;
                }
                if let Who::Addresses(range) = self.sentence.to {
                    self.looked.pairs += 1;
                    if let Some(found) = self.all_there(sender, &sources, range) {
                        return Some(found);
                    }
                    continue;
                }
                for (_, receivers) in &to {
                    self.looked.pairs += 1;
                    for receiver in receivers.iter().copied().filter(|it| *it != sender) {
                        if let Some(found) = self.each_of(sender, &sources, receiver) {
                            return Some(found);
                        }
                    }
                }
            }
        }
        None
    }

    /// Packets to each address of a port.
    fn each_of(
        &mut self,
        sender: PortIndex,
        sources: &[IpAddr],
        receiver: PortIndex,
    ) -> Option<Proof> {
        let mut has_pair = false;
        for destination in self.topology[receiver].addresses.clone() {
            for source in sources {
                if source.is_ipv4() == destination.is_ipv4() {
                    has_pair = true;
                    let ends = (*source, destination);
                    if let Some(found) = self.one(sender, Some(receiver), ends) {
                        return Some(found);
                    }
                }
            }
        }
        (!has_pair).then_some(Proof::Unanswered(sender, None))
    }

    /// Packets to each of some addresses, whoever has it.
    fn all_there(
        &mut self,
        sender: PortIndex,
        sources: &[IpAddr],
        range: AddressRange,
    ) -> Option<Proof> {
        let topology = self.topology;
        let switch = &topology[topology[sender].switch];
        let mut cuts: Vec<Vec<AddressRange>> = Vec::new();
        let own = topology.ports().flat_map(|(_, it)| &it.addresses);
        cuts.extend(own.map(|it| alloc::vec![AddressRange::from(*it)]));
        cuts.extend(switch.subnets.iter().map(|it| alloc::vec![AddressRange::from(*it)]));
        for (_, leg) in topology.router_ports() {
            let own = leg.addresses.iter();
            cuts.extend(own.clone().map(|it| alloc::vec![AddressRange::from(*it)]));
            cuts.extend(own.map(|it| alloc::vec![AddressRange::from(it.address)]));
        }
        cuts.extend(self.matrix.field.sets.iter().map(|it| it.ranges().collect()));
        let partition = Partition::new(&cuts);
        let family = Family::of(range.first());
        let all = Addresses::of(family, [range]);
        for part in partition.split(&all).into_values() {
            let Some(destination) = part.first() else { continue };
            let mut has_pair = false;
            for source in sources.iter().filter(|it| Family::of(**it) == family) {
                has_pair = true;
                if let Some(found) = self.one(sender, None, (*source, destination)) {
                    return Some(found);
                }
            }
            if !has_pair {
                return Some(Proof::Unanswered(sender, Some(destination)));
            }
        }
        None
    }

    /// Packets from one address to another, as a machine sends them.
    fn one(
        &mut self,
        sender: PortIndex,
        receiver: Option<PortIndex>,
        ends: (IpAddr, IpAddr),
    ) -> Option<Proof> {
        let (topology, field) = (self.topology, &self.matrix.field);
        let own = &topology[sender];
        let hop = self.hops.entry((own.switch, ends.1));
        let hop = *hop.or_insert_with(|| next_hop(topology, &topology[own.switch], ends.1));
        let Some(to_mac) = hop else { return Some(Proof::Unanswered(sender, Some(ends.1))) };
        let family = Family::of(ends.0);
        let mut left = self.atoms(Some(family)).and(field.atoms.first());
        if !is_open(own) {
            left = left.minus(field.atoms.servers());
        }
        self.looked.classes += left.iter().count();
        let (protocol, numbers) = (protocol::TCP, [FROM, 1]);
        let content = Content::Ip { from: ends.0, to: ends.1, protocol, numbers };
        let packet = Packet { from_mac: own.mac, to_mac, content };
        let ports: Vec<PortIndex> = match receiver {
            Some(one) => alloc::vec![one],
            None => {
                let machines = topology.ports();
                let is_end = |at: &Attachment| !matches!(at, Attachment::Router(_));
                machines.filter(|(_, it)| is_end(&it.attachment)).map(|it| it.0).collect()
            }
        };
        for port in ports.into_iter().filter(|it| *it != sender) {
            for line in field.lines(sender, port) {
                if line.is_chosen || !field.speaks_of(topology, [sender, port], line, &packet) {
                    continue;
                }
                for (fate, atoms) in &field.fates[line.fates as usize] {
                    if matches!(fate, Fate::Arrive(..)) {
                        left = left.minus(atoms);
                    }
                }
            }
        }
        if left.is_empty() {
            return None;
        }
        let macs = (own.mac, to_mac);
        let found = self.tried((sender, receiver), macs, Some(family), Some(ends), &left, false);
        found.map(Proof::Refuted)
    }
}

/// Which boxes make the plainest packets: the least first.
fn plainness(family: Option<Family>, area: &Area) -> (u8, bool, Area) {
    let carried = area.0[1].0.to_be_bytes()[1];
    let rank = match carried {
        protocol::TCP => 0,
        protocol::UDP => 1,
        _ if family.is_some_and(|it| is_icmp(it, carried)) => 2,
        _ => 3,
    };
    let has_usual = (area.0[2].0..=area.0[2].1).contains(&FROM);
    (rank, !has_usual, *area)
}

/// The packet of a number that is in a box.
fn content(area: &Area, ends: Option<(IpAddr, IpAddr)>, number: u16) -> Content {
    let Area([kind, carried, a, b]) = *area;
    let Some((from, to)) = ends else {
        return Content::Other(kind.0.saturating_add(number).min(kind.1));
    };
    let carried = carried.0.to_be_bytes()[1];
    let has_ports = logical::objects::Protocol(carried).has_ports();
    let own = FROM.saturating_add(number).clamp(a.0, a.1);
    let first = if has_ports { own } else { a.0 };
    let second = if has_ports { TO.clamp(b.0, b.1) } else { b.0 };
    Content::Ip { from, to, protocol: carried, numbers: [first, second] }
}

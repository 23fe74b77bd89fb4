//! For each ordered pair of classes of ports: which packets get from one to the other, and by whom
//! the others are refused.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::{Reason, RuleId};
use logical::objects::{AddressRange, Broadcast, Direction, UnknownUnicast};
use logical::topology::{Attachment, Port, PortIndex, Switch, Topology};
use units::Mac;

use crate::addresses::{Addresses, Family};
use crate::atoms::Atoms;
use crate::bits::Bits;
use crate::ends::{Class, Ends};
use crate::frame::Packet;
use crate::security::{destinations, has_mac, is_open, is_plain, sources, takes_own};
use crate::space::{DESTINATION, End, Gate, Interned, Space, Subject};
use crate::walk::{Flow, Routers, Walked};

/// How packets get to a port.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// In their switch, by the port's Ethernet address.
    Direct,
    /// In their switch, by the Ethernet address of a group: this, or one that no rule names.
    Group(Option<Mac>),
    /// In their switch, by an Ethernet address that nobody has: this, or one that no rule names.
    Unknown(Option<Mac>),
    /// Through a router of their switch: its port there, and the routes that are taken.
    Routed(PortIndex, Vec<String>),
    /// Not at all.
    None,
}

/// What becomes of packets between two ports. Rules are numbers of [`Field::names`].
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// They arrive. The rules at the sender's port and at the receiver's; `None`: a default.
    Arrive(Option<u32>, Option<u32>),
    /// The sender's port refuses them.
    AtSender(Reason, Option<u32>),
    /// The receiver's port refuses them.
    AtReceiver(Reason, Option<u32>),
    /// Something between refuses them: why, where, by which route. Without a reason: nothing leads
    /// there.
    Between(Option<Reason>, String, Option<String>),
}

/// Addresses at one end of packets.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// The port's own, of one group of its class.
    Own(u32),
    /// A set, by its number.
    Set(u32),
    /// None: they are no IP.
    None,
}

/// A set of packets between two classes of ports.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Line {
    /// Which way, by its number.
    pub way: u32,
    /// Which IP; `None`: none.
    pub family: Option<Family>,
    /// The destination, as the sender wrote it.
    pub to: Place,
    /// Of what atoms becomes what: the number of an entry of [`Field::fates`].
    pub fates: u32,
    /// Whether a hash chooses who gets them.
    pub is_chosen: bool,
    /// The Ethernet address that the sender has, by its number.
    pub mac: u32,
    /// The source.
    pub from: Place,
    /// Whether source and destination are the same address; `None`: either.
    pub is_same: Option<bool>,
}

/// What becomes of which atoms.
pub type Fates = Vec<(Fate, Bits)>;

/// All packets between all ports.
#[derive(Debug)]
pub struct Field {
    pub atoms: Atoms,
    pub names: Vec<RuleId>,
    pub classes: Vec<Class>,
    /// Of each port, its class; `None`: a router's.
    pub of: Vec<Option<u32>>,
    /// Of each port, its own addresses by group.
    pub own: Vec<Vec<Addresses>>,
    pub ways: Vec<Way>,
    pub sets: Vec<Addresses>,
    /// Ethernet addresses that senders have; `None`: the port's own.
    pub macs: Vec<Option<Mac>>,
    /// Lists of Ethernet addresses that rules have.
    pub lists: Vec<Vec<Mac>>,
    pub fates: Vec<Fates>,
    pub cells: Vec<Vec<Line>>,
    /// Of each pair of classes, its cell, by row.
    pub table: Vec<u32>,
}

impl Field {
    /// Looks at a topology.
    pub fn new(topology: &Topology) -> Self {
        let mut space = Space::new(topology);
        let ends = Ends::new(&mut space);
        let routers = Routers::new(&mut space, &ends);
        let mut made = Maker {
            space,
            ends,
            routers,
            ways: Interned::default(),
            sets: Interned::default(),
            macs: Interned::default(),
            fates: Interned::default(),
            both: BTreeMap::new(),
            masks: Interned::default(),
            parts: BTreeMap::new(),
            walks: BTreeMap::new(),
        };
        let (cells, table) = made.rows();
        let own = topology.ports().map(|(index, _)| {
            let groups =
                made.ends.of[index.place()].map(|it| made.ends.classes[it as usize].own.len());
            (0..groups.unwrap_or(0) as u32)
                .map(|group| made.ends.addresses(&made.space, index, group))
                .collect()
        });
        let own = own.collect();
        Self {
            atoms: made.space.atoms,
            names: made.space.names,
            classes: made.ends.classes,
            of: made.ends.of,
            own,
            ways: made.ways.all,
            sets: made.sets.all,
            macs: made.macs.all,
            lists: made.space.macs,
            fates: made.fates.all,
            cells,
            table,
        }
    }

    /// What is known of packets from a class to another.
    pub fn cell(&self, from: usize, to: usize) -> &[Line] {
        &self.cells[self.table[from * self.classes.len() + to] as usize]
    }

    /// What is known of packets from a port to another. Nothing, if one of them is a router's.
    pub fn lines(&self, from: PortIndex, to: PortIndex) -> &[Line] {
        let class = |port: PortIndex| self.of[port.place()].map(|it| it as usize);
        class(from).zip(class(to)).map_or(&[], |(from, to)| self.cell(from, to))
    }

    /// Whether every rule treats an Ethernet address as this one; `None`: as one that none names.
    fn is_like(&self, mac: Mac, other: Option<Mac>) -> bool {
        let mut lists = self.lists.iter();
        lists.all(|it| it.contains(&mac) == other.is_some_and(|other| it.contains(&other)))
    }

    /// What becomes of a packet on its way from a port to another, by the lines that speak of it.
    /// None: it does not get there.
    pub fn fares(
        &self,
        topology: &Topology,
        [from, to]: [PortIndex; 2],
        packet: &Packet,
    ) -> Vec<(&Line, &Fate)> {
        let Some(atom) = self.atoms.find(packet.asks()) else { return Vec::new() };
        let lines = self.lines(from, to).iter();
        let lines = lines.filter(|it| self.speaks_of(topology, [from, to], it, packet));
        let fated = lines.filter_map(|line| {
            let mut fates = self.fates[line.fates as usize].iter();
            let (fate, _) = fates.find(|(_, atoms)| atoms.has(atom))?;
            Some((line, fate))
        });
        fated.collect()
    }

    /// Whether a line is of a packet, but for what it asks for.
    pub fn speaks_of(
        &self,
        topology: &Topology,
        [from, to]: [PortIndex; 2],
        line: &Line,
        packet: &Packet,
    ) -> bool {
        let (sender, switch) = (&topology[from], &topology[topology[from].switch]);
        let mac = packet.to_mac;
        let has_owner = || switch.ports.iter().any(|it| topology[*it].mac == mac);
        let is_way = match &self.ways[line.way as usize] {
            Way::Direct => mac == topology[to].mac,
            Way::Group(like) => {
                mac.is_multicast() && is_for_many(switch, mac) && self.is_like(mac, *like)
            }
            Way::Unknown(like) => !mac.is_multicast() && !has_owner() && self.is_like(mac, *like),
            Way::Routed(at, _) => topology[*at].mac == mac,
            Way::None => false,
        };
        let own = mac_of(sender, self.macs[line.mac as usize]);
        // Of an open port's Ethernet addresses one stands for all that rules treat alike.
        // Where addresses are learned, none that is declared is learned anew.
        let is_anothers = || {
            let mut others = switch.ports.iter().map(|it| topology[*it].mac);
            switch.mac_learning && sender.unknown && others.any(|it| it == packet.from_mac)
        };
        let is_mac = own == packet.from_mac
            || is_open(sender) && self.is_like(packet.from_mac, Some(own)) && !is_anothers();
        let has =
            |port, place, address: Option<IpAddr>| match (self.addresses(port, place), address) {
                (Some(all), Some(address)) => all.contains(address),
                (None, None) => true,
                _ => false,
            };
        let ends = packet.ends();
        is_way
            && is_mac
            && line.is_same.is_none_or(|it| ends.is_some_and(|(one, other)| it == (one == other)))
            && has(from, line.from, ends.map(|it| it.0))
            && has(to, line.to, ends.map(|it| it.1))
    }

    /// The addresses of a place at a port.
    pub fn addresses(&self, port: PortIndex, place: Place) -> Option<&Addresses> {
        match place {
            Place::Own(group) => self.own[port.place()].get(group as usize),
            Place::Set(number) => self.sets.get(number as usize),
            Place::None => None,
        }
    }
}

/// Packets of one source, as a port's machine may send them.
struct Sent {
    family: Option<Family>,
    /// The Ethernet address, by its number, and its class.
    mac: (u32, u32),
    place: Place,
    source: End,
    /// The addresses. None if they are no IP.
    from: Option<Addresses>,
    atoms: Bits,
}

/// Packets as a port's rules see them.
#[derive(Clone, Copy)]
struct Seen {
    /// The class of the source's Ethernet address.
    mac: u32,
    /// The class of the destination's.
    to_mac: u32,
    /// Who sends them.
    source: End,
    /// The class of the destination.
    to: u32,
}

/// Of what a walk was: from where, the family, the Ethernet address's class, the source, its
/// addresses or how they are told apart, and the atoms.
type WalkKey = (PortIndex, Family, u32, End, Vec<AddressRange>, u32, u32);

/// What parts of destinations rules at two ports tell apart: by sets of rules, and the set.
type Parts = BTreeMap<([u32; 2], u32), Rc<Vec<(u32, u32, u32)>>>;

struct Maker<'a> {
    space: Space<'a>,
    ends: Ends,
    routers: Routers,
    ways: Interned<Way>,
    sets: Interned<Addresses>,
    macs: Interned<Option<Mac>>,
    fates: Interned<Fates>,
    both: BTreeMap<(u32, u32, u32), u32>,
    masks: Interned<Bits>,
    parts: Parts,
    walks: BTreeMap<WalkKey, Rc<Walked>>,
}

impl Maker<'_> {
    /// Every distinct cell, and the number of each pair's.
    fn rows(&mut self) -> (Vec<Vec<Line>>, Vec<u32>) {
        let mut cells: Interned<Vec<Line>> = Interned::default();
        let count = self.ends.classes.len();
        let mut table = Vec::with_capacity(count * count);
        for from in 0..count {
            let rows = self.row(from);
            table.extend(rows.into_iter().map(|lines| cells.number(lines)));
        }
        (cells.all, table)
    }

    /// The port that stands for a class: another than `but`. `None` if there is none.
    fn stands_for(&self, class: usize, but: PortIndex) -> Option<PortIndex> {
        self.ends.classes[class].ports.iter().copied().take(2).find(|it| *it != but)
    }

    /// The cells of one class's packets, to each class.
    fn row(&mut self, from: usize) -> Vec<Vec<Line>> {
        let topology = self.space.topology;
        let sender = self.ends.classes[from].ports[0];
        let own = &topology[sender];
        let switch = &topology[own.switch];
        let to: Vec<_> =
            (0..self.ends.classes.len()).map(|it| self.stands_for(it, sender)).collect();
        let mut rows: Vec<Vec<Line>> = alloc::vec![Vec::new(); to.len()];
        if !own.enabled || !switch.enabled {
            return self.ended(sender, &to, rows, &[], true);
        }
        let near: Vec<(usize, PortIndex)> = to
            .iter()
            .enumerate()
            .filter_map(|(i, port)| Some((i, (*port)?)))
            .filter(|(_, port)| topology[*port].switch == own.switch && topology[*port].enabled)
            .collect();
        let routers = switch.ports.iter().copied();
        let routers =
            routers.filter(|it| matches!(topology[*it].attachment, Attachment::Router(_)));
        let routers: Vec<PortIndex> = routers.collect();
        let mut stops = Vec::new();
        for sent in self.sent(sender) {
            for (class, port) in &near {
                self.near(sender, &sent, *port, &mut rows[*class]);
            }
            if sent.family.is_some() {
                for at in &routers {
                    let walked = self.walked(*at, &sent);
                    for arrival in &walked.arrivals {
                        let class = self.ends.of[arrival.port.place()].unwrap_or_default() as usize;
                        if to[class] == Some(arrival.port) {
                            self.arrived(sender, &sent, *at, arrival, &mut rows[class]);
                        }
                    }
                    stops.push(walked);
                }
            }
        }
        self.ended(sender, &to, rows, &stops, false)
    }

    /// All that a port's machine may send, in parts that rules treat alike.
    fn sent(&mut self, sender: PortIndex) -> Vec<Sent> {
        let topology = self.space.topology;
        let own = &topology[sender];
        let who = match own.attachment {
            Attachment::Provider | Attachment::L2Gateway { .. } => None,
            _ => Some(self.space.who[sender.place()]),
        };
        let mut macs: Vec<(Option<Mac>, Mac)> = alloc::vec![(None, own.mac)];
        let owners: Vec<Mac> =
            topology[own.switch].ports.iter().map(|it| topology[*it].mac).collect();
        let others: BTreeSet<Mac> = match is_open(own) {
            true => {
                let listed = self.space.listed_macs();
                let strange = stranger(listed.iter().chain(&owners));
                listed.into_iter().chain([strange]).collect()
            }
            false => own.allowed.iter().map(|it| it.mac).collect(),
        };
        let is_learned = topology[own.switch].mac_learning && own.unknown;
        let others = others.into_iter().filter(|it| {
            let is_anothers = is_learned && owners.contains(it);
            *it != own.mac && !it.is_multicast() && *it != Mac([0; 6]) && !is_anothers
        });
        macs.extend(others.map(|it| (Some(it), it)));
        let mut all = Vec::new();
        for (i, (name, mac)) in macs.into_iter().enumerate() {
            let class = self.space.mac(mac);
            // An open port's machine may have any: one of each class is enough.
            if is_open(own) && i > 0 && all.iter().any(|it: &Sent| it.mac.1 == class) {
                continue;
            }
            let mac = (self.macs.number(name), class);
            let end = |class| End { class, who };
            let whole = self.space.atoms.family(None).clone();
            // Without one of its own Ethernet addresses it sends nothing.
            if !has_mac(own, mac_of(own, name)) {
                continue;
            }
            all.push(Sent {
                family: None,
                mac,
                place: Place::None,
                source: end(0),
                from: None,
                atoms: whole,
            });
            for family in Family::BOTH {
                let mut atoms = self.space.atoms.family(Some(family)).clone();
                if !is_open(own) {
                    atoms = atoms.minus(self.space.atoms.servers());
                }
                let may = sources(own, mac_of(own, name), family);
                let mut push = |place, class, from: Addresses| {
                    let (source, atoms) = (end(class), atoms.clone());
                    all.push(Sent {
                        family: Some(family),
                        mac,
                        place,
                        source,
                        from: Some(from),
                        atoms,
                    });
                };
                if name.is_none() {
                    let class = &self.ends.classes
                        [self.ends.of[sender.place()].unwrap_or_default() as usize];
                    for (group, it) in (0..).zip(&class.own).filter(|(_, it)| it.family == family) {
                        let from = self.ends.addresses(&self.space, sender, group).and(&may);
                        if !from.is_empty() {
                            push(Place::Own(group), it.class, from);
                        }
                    }
                }
                if name.is_some() || !is_plain(own) || is_open(own) {
                    for (class, from) in self.space.classes.split(&may) {
                        push(Place::Set(self.sets.number(from.clone())), class, from);
                    }
                }
            }
        }
        all
    }

    /// What gets from a port to another of the same switch.
    fn near(&mut self, sender: PortIndex, sent: &Sent, port: PortIndex, row: &mut Vec<Line>) {
        let topology = self.space.topology;
        let own = &topology[port];
        let direct = self.space.mac(own.mac);
        let mut ways = alloc::vec![(Way::Direct, direct, true)];
        for (mac, class) in self.named(own, true) {
            ways.push((Way::Group(mac), class, false));
        }
        let is_flooded = topology[own.switch].unknown_unicast == UnknownUnicast::Flood
            && (own.unknown || own.attachment == Attachment::Provider);
        if is_flooded {
            for (mac, class) in self.named(own, false) {
                ways.push((Way::Unknown(mac), class, true));
            }
        }
        for (way, to_mac, is_one) in ways {
            if way == Way::Direct && !takes_own(own) {
                continue;
            }
            let number = self.ways.number(way.clone());
            let Some(family) = sent.family else {
                let seen = Seen { mac: sent.mac.1, to_mac, source: sent.source, to: 0 };
                let fates = self.fates([sender, port], None, [seen; 2], &sent.atoms, is_one);
                row.push(Line {
                    way: number,
                    family: None,
                    to: Place::None,
                    fates,
                    is_chosen: false,
                    mac: sent.mac.0,
                    from: Place::None,
                    is_same: None,
                });
                continue;
            };
            let takes = match way {
                Way::Direct => destinations(own, family),
                _ => Addresses::all(family),
            };
            if way == Way::Direct {
                let class = self.ends.of[port.place()].unwrap_or_default() as usize;
                let groups: Vec<_> = (0..)
                    .zip(&self.ends.classes[class].own)
                    .filter(|(_, it)| it.family == family && !it.is_link_local)
                    .filter(|(group, _)| {
                        !self.ends.addresses(&self.space, port, *group).and(&takes).is_empty()
                    })
                    .map(|(group, it)| (group, it.class))
                    .collect();
                for (group, class) in groups {
                    let seen = Seen { mac: sent.mac.1, to_mac, source: sent.source, to: class };
                    let line = self.line(number, sent, Place::Own(group));
                    self.push(row, line, [sender, port], [seen; 2], &sent.atoms, is_one);
                }
            }
            // Those that are not its own: of plain ports, what is for many.
            let rest = match way == Way::Direct && is_plain(own) && !is_open(own) {
                true => {
                    let ranges = own.addresses.iter().map(|it| AddressRange::from(*it));
                    takes.minus(&Addresses::of(family, ranges))
                }
                false => takes,
            };
            for (at_sender, at_receiver, set) in self.parts(sender, port, &rest).iter() {
                let seen = |to| Seen { mac: sent.mac.1, to_mac, source: sent.source, to };
                let seen = [seen(*at_sender), seen(*at_receiver)];
                let line = self.line(number, sent, Place::Set(*set));
                self.push(row, line, [sender, port], seen, &sent.atoms, is_one);
            }
        }
    }

    /// A line, before it is known what becomes of its packets.
    fn line(&self, way: u32, sent: &Sent, to: Place) -> Line {
        Line {
            way,
            family: sent.family,
            to,
            fates: 0,
            is_chosen: false,
            mac: sent.mac.0,
            from: sent.place,
            is_same: None,
        }
    }

    /// Adds a line, or two: no connection is kept of packets from the address that they are for.
    fn push(
        &mut self,
        row: &mut Vec<Line>,
        line: Line,
        ends: [PortIndex; 2],
        seen: [Seen; 2],
        atoms: &Bits,
        is_one: bool,
    ) {
        let fates = self.fates(ends, line.family, seen, atoms, is_one);
        let same = match is_one && self.can_be_same(ends, &line) {
            true => self.fates(ends, line.family, seen, atoms, false),
            false => fates,
        };
        if same == fates {
            return row.push(Line { fates, ..line });
        }
        row.push(Line { fates, is_same: Some(false), ..line });
        row.push(Line { fates: same, is_same: Some(true), ..line });
    }

    /// Whether a line's sources may be among its destinations, at some ports of the two classes.
    fn can_be_same(&self, [sender, port]: [PortIndex; 2], line: &Line) -> bool {
        let class = |port: PortIndex, group: u32| {
            let class = self.ends.of[port.place()].unwrap_or_default();
            self.ends.classes[class as usize].own[group as usize].class
        };
        let set = |number: u32| &self.sets.all[number as usize];
        match (line.from, line.to) {
            (Place::Own(a), Place::Own(b)) => class(sender, a) == class(port, b),
            (Place::Own(a), Place::Set(b)) => self.space.classes.meets(set(b), class(sender, a)),
            (Place::Set(a), Place::Own(b)) => self.space.classes.meets(set(a), class(port, b)),
            (Place::Set(a), Place::Set(b)) => !set(a).and(set(b)).is_empty(),
            _ => false,
        }
    }

    /// Parts of destinations that rules at two ports tell apart: a class for each port's rules, and
    /// the set.
    fn parts(
        &mut self,
        sender: PortIndex,
        port: PortIndex,
        all: &Addresses,
    ) -> Rc<Vec<(u32, u32, u32)>> {
        let bundles = [self.space.bundles_of(sender)[0], self.space.bundles_of(port)[1]];
        let set = self.sets.number(all.clone());
        if let Some(found) = self.parts.get(&(bundles, set)) {
            return found.clone();
        }
        let mut parts: BTreeMap<(u32, u32), Vec<AddressRange>> = BTreeMap::new();
        for (class, part) in self.space.classes.split(all) {
            let at_sender = self.space.coarse(sender, Direction::FromPort, DESTINATION, class);
            let at_receiver = self.space.coarse(port, Direction::ToPort, DESTINATION, class);
            parts.entry((at_sender, at_receiver)).or_default().extend(part.ranges());
        }
        let family = all.family();
        let parts = parts.into_iter().map(|((at_sender, at_receiver), ranges)| {
            (at_sender, at_receiver, self.sets.number(Addresses::of(family, ranges)))
        });
        let parts = Rc::new(parts.collect::<Vec<_>>());
        self.parts.insert((bundles, set), parts.clone());
        parts
    }

    /// Follows packets from a router's port; those that were followed before are known.
    fn walked(&mut self, at: PortIndex, sent: &Sent) -> Rc<Walked> {
        let (Some(family), Some(from)) = (sent.family, &sent.from) else { return Rc::default() };
        // Of own addresses it only matters how they are told apart.
        let place = match from.first() {
            Some(first) if matches!(sent.place, Place::Own(_)) => {
                (Vec::new(), self.ends.places.class(first))
            }
            _ => (from.ranges().collect(), 0),
        };
        let mask = self.masks.number(sent.atoms.clone());
        let key = (at, family, sent.mac.1, sent.source, place.0, place.1, mask);
        if let Some(found) = self.walks.get(&key) {
            return found.clone();
        }
        let flow = Flow::new(
            family,
            sent.mac.1,
            sent.source,
            from.clone(),
            Addresses::all(family),
            sent.atoms.clone(),
        );
        let walked = Rc::new(self.routers.walk(&mut self.space, at, flow));
        self.walks.insert(key, walked.clone());
        walked
    }

    /// What came to a port through routers.
    fn arrived(
        &mut self,
        sender: PortIndex,
        sent: &Sent,
        at: PortIndex,
        arrival: &crate::walk::Arrival,
        row: &mut Vec<Line>,
    ) {
        let flow = &arrival.flow;
        let way = self.ways.number(Way::Routed(at, flow.path.clone()));
        let port = arrival.port;
        let from = match (&sent.from, sent.place) {
            (_, Place::Own(_)) => sent.place,
            (Some(all), _) if *all == flow.from => sent.place,
            _ => Place::Set(self.sets.number(flow.from.clone())),
        };
        let topology = self.space.topology;
        let to_macs = [at, port].map(|it| self.space.mac(topology[it].mac));
        let mut push = |maker: &mut Self, to: Place, at_sender: u32, at_receiver: u32| {
            let (mac, source) = (sent.mac.1, sent.source);
            let before = Seen { mac, to_mac: to_macs[0], source, to: at_sender };
            let (mac, source) = (flow.mac, flow.source);
            let after = Seen { mac, to_mac: to_macs[1], source, to: at_receiver };
            let (ends, seen) = ([sender, port], [before, after]);
            let line = Line { is_chosen: flow.is_chosen, from, ..maker.line(way, sent, to) };
            maker.push(row, line, ends, seen, &flow.atoms, true);
        };
        if let Some(group) = arrival.own {
            let class = self.ends.classes[self.ends.of[port.place()].unwrap_or_default() as usize]
                .own[group as usize]
                .class;
            return push(self, Place::Own(group), class, class);
        }
        for (before, now, set) in self.parts(sender, port, &flow.to).iter() {
            push(self, Place::Set(*set), *before, *now);
        }
    }

    /// Ethernet addresses that nobody on a port's switch has, groups' or not: those that rules
    /// name, one of each class, and `None`, which stands for all others.
    fn named(&mut self, port: &Port, of_group: bool) -> Vec<(Option<Mac>, u32)> {
        let topology = self.space.topology;
        let owners: BTreeSet<Mac> =
            topology[port.switch].ports.iter().map(|it| topology[*it].mac).collect();
        let listed = self.space.listed_macs().into_iter();
        let switch = &topology[port.switch];
        let listed = listed.filter(|it| it.is_multicast() == of_group && !owners.contains(it));
        let listed = listed.filter(|it| !of_group || is_for_many(switch, *it));
        let mut all = BTreeMap::from([(self.space.mac(stranger(core::iter::empty())), None)]);
        for mac in listed {
            all.entry(self.space.mac(mac)).or_insert(Some(mac));
        }
        all.into_iter().map(|(class, mac)| (mac, class)).collect()
    }

    /// What becomes of packets by the rules at both ports, as each sees them.
    fn fates(
        &mut self,
        [sender, port]: [PortIndex; 2],
        family: Option<Family>,
        seen: [Seen; 2],
        atoms: &Bits,
        is_one: bool,
    ) -> u32 {
        let receiver = Some(self.space.who[port.place()]);
        let [before, after] = [(seen[0], None), (seen[1], receiver)].map(|(seen, who)| {
            let Seen { mac, to_mac, source, to: class } = seen;
            Subject { family, mac, to_mac, source, destination: End { class, who } }
        });
        let first = self.space.ask(sender, Direction::FromPort, before, is_one);
        let second = self.space.ask(port, Direction::ToPort, after, is_one);
        let mask = self.masks.number(atoms.clone());
        if let Some(found) = self.both.get(&(first, second, mask)) {
            return *found;
        }
        let mut fates: BTreeMap<Fate, Bits> = BTreeMap::new();
        let mut say = |fate: Fate, atoms: Bits| {
            if !atoms.is_empty() {
                let all = fates.entry(fate).or_insert_with(|| Bits::none(self.space.atoms.len()));
                *all = all.or(&atoms);
            }
        };
        for (gate, own) in &self.space.ruled.all[first as usize] {
            let own = own.and(atoms);
            match gate {
                Gate::Refuse(reason, by) => say(Fate::AtSender(*reason, *by), own),
                Gate::Pass(_) if own.is_empty() => {}
                Gate::Pass(by) => {
                    for (gate, other) in &self.space.ruled.all[second as usize] {
                        let both = own.and(other);
                        match gate {
                            Gate::Refuse(reason, by) => say(Fate::AtReceiver(*reason, *by), both),
                            Gate::Pass(other) => say(Fate::Arrive(*by, *other), both),
                        }
                    }
                }
            }
        }
        let number = self.fates.number(fates.into_iter().collect());
        self.both.insert((first, second, mask), number);
        number
    }

    /// The lines of each cell, in order and joined; and where nothing leads to a port's own
    /// addresses, why.
    fn ended(
        &mut self,
        sender: PortIndex,
        to: &[Option<PortIndex>],
        rows: Vec<Vec<Line>>,
        walks: &[Rc<Walked>],
        is_off: bool,
    ) -> Vec<Vec<Line>> {
        let topology = self.space.topology;
        let mut done = Vec::with_capacity(rows.len());
        for (row, port) in rows.into_iter().zip(to) {
            let mut row = self.joined(row);
            let has_own = row.iter().any(|it| matches!(it.to, Place::Own(_)));
            let Some(port) = port.filter(|_| !has_own) else {
                done.push(row);
                continue;
            };
            let own = &topology[port];
            let fate = match (is_off, own.enabled) {
                (true, _) => {
                    Fate::Between(Some(Reason::Disabled), topology[sender].id.to_string(), None)
                }
                (_, false) => Fate::Between(Some(Reason::Disabled), own.id.to_string(), None),
                _ => self.why_not(own, walks),
            };
            let family = own.addresses.first().map(|it| Family::of(*it));
            let atoms = self.space.atoms.family(family).clone();
            row.push(Line {
                way: self.ways.number(Way::None),
                family,
                to: Place::None,
                fates: self.fates.number(alloc::vec![(fate, atoms)]),
                is_chosen: false,
                mac: self.macs.number(None),
                from: Place::None,
                is_same: None,
            });
            done.push(row);
        }
        done
    }

    fn why_not(&self, port: &Port, walks: &[Rc<Walked>]) -> Fate {
        let has = |address: &IpAddr| {
            let mut stops = walks.iter().flat_map(|it| &it.stops);
            stops.find(|it| it.flow.to.contains(*address))
        };
        match port.addresses.iter().find_map(has) {
            Some(stop) => Fate::Between(Some(stop.reason), stop.at.clone(), stop.by.clone()),
            None => Fate::Between(None, topology_name(self.space.topology, port), None),
        }
    }

    /// Lines that differ only in the set of sources, or only in that of destinations, as one.
    fn joined(&mut self, mut row: Vec<Line>) -> Vec<Line> {
        row.sort_unstable();
        row.dedup();
        let row = self.merged(row, |it| &mut it.from);
        self.merged(row, |it| &mut it.to)
    }

    fn merged(&mut self, row: Vec<Line>, place: fn(&mut Line) -> &mut Place) -> Vec<Line> {
        if row.len() < 2 {
            return row;
        }
        let mut sets: BTreeMap<Line, Vec<u32>> = BTreeMap::new();
        let mut rest = Vec::with_capacity(row.len());
        for mut line in row {
            match *place(&mut line) {
                Place::Set(number) => {
                    *place(&mut line) = Place::None;
                    sets.entry(line).or_default().push(number);
                }
                _ => rest.push(line),
            }
        }
        for (mut line, numbers) in sets {
            let number = match numbers.as_slice() {
                [one] => *one,
                some => {
                    let all = some.iter().map(|it| &self.sets.all[*it as usize]);
                    let family = all.clone().next().map_or(Family::V4, Addresses::family);
                    let all = Addresses::of(family, all.flat_map(Addresses::ranges));
                    self.sets.number(all)
                }
            };
            *place(&mut line) = Place::Set(number);
            rest.push(line);
        }
        rest.sort_unstable();
        rest
    }
}

fn topology_name(topology: &Topology, port: &Port) -> String {
    topology[port.switch].id.to_string()
}

/// Whether what is for a group's Ethernet address goes to everybody on a switch.
pub fn is_for_many(switch: &Switch, mac: Mac) -> bool {
    let is_reserved = mac.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && mac.0[5] <= 0x0f;
    let is_suppressed = mac == Mac::BROADCAST && switch.broadcast == Broadcast::Suppressed;
    !is_reserved && !is_suppressed
}

/// The Ethernet address that a sender has by a name.
pub const fn mac_of(port: &Port, name: Option<Mac>) -> Mac {
    match name {
        Some(mac) => mac,
        None => port.mac,
    }
}

/// An Ethernet address that none of others is.
pub fn stranger<'a>(others: impl Iterator<Item = &'a Mac>) -> Mac {
    let taken: BTreeSet<Mac> = others.copied().collect();
    let make = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Mac([0x06, 0x7a, 0x6f, 0x76, high, low])
    };
    (0..=u16::MAX).map(make).find(|it| !taken.contains(it)).unwrap_or(make(0))
}

//! Makes the field: for each class of ports that sends, the lines to each that receives.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::Reason;
use logical::objects::{AddressRange, Direction, UnknownUnicast};
use logical::topology::{Attachment, Port, PortIndex, SwitchIndex, Topology};
use units::Mac;

use crate::addresses::{Addresses, Family};
use crate::bits::Bits;
use crate::ends::Ends;
use crate::security::{destinations, has_mac, is_open, is_plain, sources, takes_own};
use crate::side::{Map, Side};
use crate::space::{DESTINATION, End, Gate, SAME_PORTS, Space, Subject};
use crate::walk::{Routers, Walked};

use crate::field::{Fate, Fates, Field, Line, Place, Way, is_for_many, mac_of, stranger};
use crate::flow::Flow;
use crate::hash::{Interned, Table};

/// Looks at a topology.
pub fn field(topology: &Topology) -> Field {
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
        both: Table::default(),
        masks: Interned::default(),
        parts: Table::default(),
        walks: Table::default(),
    };
    let (cells, table) = made.rows();
    let own = topology.ports().map(|(index, _)| {
        let groups = made.ends.of[index.place()].map(|it| made.ends.classes[it as usize].own.len());
        (0..groups.unwrap_or(0) as u32)
            .map(|group| made.ends.addresses(&made.space, index, group))
            .collect()
    });
    let own = own.collect();
    Field {
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

/// Of what a walk was: from where, the Ethernet address's class, the source, its addresses or how
/// they are told apart, what translations made of the packets before, and the atoms.
type WalkKey = (PortIndex, u32, End, (Vec<AddressRange>, u32), (Map, Side, u32), u32);

/// What parts of destinations rules at two ports tell apart: by sets of rules, and destinations.
type Parts = Table<([u32; 2], Side), Rc<Vec<([u32; 2], u32)>>>;

struct Maker<'a> {
    space: Space<'a>,
    ends: Ends,
    routers: Routers,
    ways: Interned<Way>,
    sets: Interned<Addresses>,
    macs: Interned<Option<Mac>>,
    fates: Interned<Fates>,
    both: Table<(u32, u32, u32, u32), u32>,
    masks: Interned<Bits>,
    parts: Parts,
    walks: Table<WalkKey, Rc<Walked>>,
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
            let flows = self.flows(own.switch, &sent);
            for (class, port) in &near {
                self.near(sender, &sent, &flows, *port, &mut rows[*class]);
            }
            for (at, flow) in routers.iter().flat_map(|at| flows.iter().map(move |it| (at, it))) {
                let walked = self.walked(*at, &sent, flow);
                for arrival in &walked.arrivals {
                    let class = self.ends.of[arrival.port.place()].unwrap_or_default() as usize;
                    if to[class] == Some(arrival.port) {
                        self.arrived(sender, &sent, *at, arrival, &mut rows[class]);
                    }
                }
                stops.push(walked);
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

    /// What comes into a switch of packets, past its load balancers. None, if they are no IP.
    fn flows(&mut self, switch: SwitchIndex, sent: &Sent) -> Vec<Flow> {
        let (Some(family), Some(from)) = (sent.family, &sent.from) else { return Vec::new() };
        let (from, to) = (from.clone(), Addresses::all(family));
        let flow = Flow::new(family, sent.mac.1, sent.source, from, to, sent.atoms.clone());
        self.routers.balance(&mut self.space, switch, flow)
    }

    /// What gets from a port to another of the same switch.
    fn near(
        &mut self,
        sender: PortIndex,
        sent: &Sent,
        flows: &[Flow],
        port: PortIndex,
        row: &mut Vec<Line>,
    ) {
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
                let (ports, one) = (SAME_PORTS, [is_one; 2]);
                let fates = self.fates([sender, port], None, [seen; 2], (&sent.atoms, ports), one);
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
            for flow in flows {
                let flow = flow.to(&takes);
                if flow.is_empty() {
                    continue;
                }
                let ends = ([sender, port], [to_mac, to_mac]);
                let is_plain = way == Way::Direct && is_plain(own) && !is_open(own);
                if way == Way::Direct && flow.to.map == Map::SAME {
                    self.near_own(number, sent, &flow, ends, row);
                }
                // Those that are not its own: of plain ports, what is for many.
                let rest = match is_plain && flow.to.map == Map::SAME {
                    true => {
                        let ranges = own.addresses.iter().map(|it| AddressRange::from(*it));
                        flow.not_to(&Addresses::of(family, ranges))
                    }
                    false => flow,
                };
                self.lines(number, sent, &rest, ends, is_one, row);
            }
        }
    }

    /// What gets from a port to another's own addresses, in their switch.
    fn near_own(
        &mut self,
        way: u32,
        sent: &Sent,
        flow: &Flow,
        (ends, to_macs): ([PortIndex; 2], [u32; 2]),
        row: &mut Vec<Line>,
    ) {
        let class = self.ends.of[ends[1].place()].unwrap_or_default() as usize;
        let groups = (0u32..).zip(self.ends.classes[class].own.clone());
        for (group, it) in groups.filter(|(_, it)| it.family == flow.family && !it.is_link_local) {
            let own = self.ends.addresses(&self.space, ends[1], group);
            let is_meant = !flow.to(&own).is_empty();
            if is_meant {
                let line =
                    Line { is_chosen: flow.is_chosen, ..self.line(way, sent, Place::Own(group)) };
                self.push(row, line, ends, to_macs, sent, flow, [it.class; 2], true);
            }
        }
    }

    /// What gets from a port to another's addresses, whoever has them, by what rules tell apart.
    fn lines(
        &mut self,
        way: u32,
        sent: &Sent,
        flow: &Flow,
        (ends, to_macs): ([PortIndex; 2], [u32; 2]),
        is_one: bool,
        row: &mut Vec<Line>,
    ) {
        if flow.is_empty() {
            return;
        }
        let from = match (&sent.from, sent.place) {
            (_, Place::Own(_)) => sent.place,
            (Some(all), _) if *all == flow.from.was => sent.place,
            _ => Place::Set(self.sets.number(flow.from.was.clone())),
        };
        for (classes, set) in self.parts(ends, &flow.to).iter() {
            let to = Place::Set(*set);
            let line = Line { is_chosen: flow.is_chosen, from, ..self.line(way, sent, to) };
            self.push(row, line, ends, to_macs, sent, flow, *classes, is_one);
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

    /// Adds a line, or more: no connection is kept of packets from the address that they are for.
    /// `to`: the class of their destination before and behind translations.
    #[expect(clippy::too_many_arguments, reason = "a line has so many parts")]
    fn push(
        &mut self,
        row: &mut Vec<Line>,
        line: Line,
        ends: [PortIndex; 2],
        to_macs: [u32; 2],
        sent: &Sent,
        flow: &Flow,
        to: [u32; 2],
        is_one: bool,
    ) {
        let seen =
            |mac, end: usize, source| Seen { mac, to_mac: to_macs[end], source, to: to[end] };
        let seen = [seen(sent.mac.1, 0, sent.source), seen(flow.mac, 1, flow.source)];
        let atoms = (&flow.atoms, flow.ports);
        let ask = |maker: &mut Self, same: [bool; 2]| {
            let one = same.map(|same| is_one && !same);
            maker.fates(ends, line.family, seen, atoms, one)
        };
        let can_be = is_one && self.can_be_same(ends, &line);
        if flow.from.map == Map::SAME && flow.to.map == Map::SAME {
            let fates = ask(self, [false; 2]);
            let same = if can_be { ask(self, [true; 2]) } else { fates };
            if same == fates {
                return row.push(Line { fates, ..line });
            }
            row.push(Line { fates, is_same: Some(false), ..line });
            return row.push(Line { fates: same, is_same: Some(true), ..line });
        }
        // Behind a translation both ends may be one address, too.
        let (from, behind) = (flow.from.now(), flow.to.now());
        let set = match line.to {
            Place::Set(number) => self.sets.all[number as usize].clone(),
            _ => flow.to.was.clone(),
        };
        let behind = Side { was: set, map: flow.to.map.clone() }.now().and(&behind);
        let both = from.and(&behind);
        let is_alone = from == behind && from.ranges().all(|it| it.first() == it.last());
        let is_certain = both.is_empty() || is_alone && from.ranges().count() == 1;
        let behind: &[bool] = match (both.is_empty(), is_certain) {
            (true, _) => &[false],
            (false, true) => &[true],
            (false, false) => &[false, true],
        };
        let before: &[bool] = if can_be { &[false, true] } else { &[false] };
        for first in before {
            for second in behind {
                let fates = ask(self, [*first, *second]);
                let is_chosen = line.is_chosen || !is_certain;
                row.push(Line { fates, is_chosen, is_same: can_be.then_some(*first), ..line });
            }
        }
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

    /// Parts of destinations that rules at two ports tell apart: a class for each port's rules,
    /// before and behind translations, and the set as it was written.
    fn parts(&mut self, [sender, port]: [PortIndex; 2], all: &Side) -> Rc<Vec<([u32; 2], u32)>> {
        let bundles = [self.space.bundles_of(sender)[0], self.space.bundles_of(port)[1]];
        let key = (bundles, all.clone());
        if let Some(found) = self.parts.get(&key) {
            return found.clone();
        }
        let mut parts: BTreeMap<[u32; 2], Vec<AddressRange>> = BTreeMap::new();
        for (class, was) in self.space.classes.split(&all.was) {
            let at_sender = self.space.coarse(sender, Direction::FromPort, DESTINATION, class);
            let part = Side { was, map: all.map.clone() };
            for (class, now) in self.space.classes.split(&part.now()) {
                let at_receiver = self.space.coarse(port, Direction::ToPort, DESTINATION, class);
                let ranges = part.and(&now).was;
                parts.entry([at_sender, at_receiver]).or_default().extend(ranges.ranges());
            }
        }
        let family = all.family();
        let parts = parts
            .into_iter()
            .map(|(classes, ranges)| (classes, self.sets.number(Addresses::of(family, ranges))));
        let parts = Rc::new(parts.collect::<Vec<_>>());
        self.parts.insert(key, parts.clone());
        parts
    }

    /// Follows packets from a router's port; those that were followed before are known.
    fn walked(&mut self, at: PortIndex, sent: &Sent, flow: &Flow) -> Rc<Walked> {
        // Of own addresses it only matters how they are told apart.
        let place = match flow.from.was.first() {
            Some(first) if matches!(sent.place, Place::Own(_)) => {
                (Vec::new(), self.ends.places.class(first))
            }
            _ => (flow.from.was.ranges().collect(), 0),
        };
        let mask = self.masks.number(flow.atoms.clone());
        let maps = (flow.from.map.clone(), flow.to.clone(), flow.ports);
        let key = (at, flow.mac, flow.source, place, maps, mask);
        if let Some(found) = self.walks.get(&key) {
            return found.clone();
        }
        let walked = Rc::new(self.routers.walk(&mut self.space, at, flow.clone()));
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
        let topology = self.space.topology;
        let to_macs = [at, port].map(|it| self.space.mac(topology[it].mac));
        let own = arrival.own.filter(|_| flow.to.map == Map::SAME);
        let Some(group) = own else {
            return self.lines(way, sent, flow, ([sender, port], to_macs), true, row);
        };
        let from = match (&sent.from, sent.place) {
            (_, Place::Own(_)) => sent.place,
            (Some(all), _) if *all == flow.from.was => sent.place,
            _ => Place::Set(self.sets.number(flow.from.was.clone())),
        };
        let class = self.ends.of[port.place()].unwrap_or_default() as usize;
        let class = self.ends.classes[class].own[group as usize].class;
        let line =
            Line { is_chosen: flow.is_chosen, from, ..self.line(way, sent, Place::Own(group)) };
        self.push(row, line, [sender, port], to_macs, sent, flow, [class; 2], true);
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
        (atoms, ports): (&Bits, u32),
        is_one: [bool; 2],
    ) -> u32 {
        let receiver = Some(self.space.who[port.place()]);
        let [before, after] = [(seen[0], None), (seen[1], receiver)].map(|(seen, who)| {
            let Seen { mac, to_mac, source, to: class } = seen;
            Subject { family, mac, to_mac, source, destination: End { class, who } }
        });
        let first = self.space.ask(sender, Direction::FromPort, before, is_one[0]);
        let second = self.space.ask(port, Direction::ToPort, after, is_one[1]);
        let mask = self.masks.number(atoms.clone());
        if let Some(found) = self.both.get(&(first, second, mask, ports)) {
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
                        let both = self.space.before(ports, other, &own);
                        match gate {
                            Gate::Refuse(reason, by) => say(Fate::AtReceiver(*reason, *by), both),
                            Gate::Pass(other) => say(Fate::Arrive(*by, *other), both),
                        }
                    }
                }
            }
        }
        let number = self.fates.number(fates.into_iter().collect());
        self.both.insert((first, second, mask, ports), number);
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
            stops.find(|it| it.flow.to.was.contains(*address))
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

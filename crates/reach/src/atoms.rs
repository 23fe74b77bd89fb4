//! Cuts all that packets may ask for into atoms: two packets are of one atom if the same services
//! are theirs.
//!
//! ```text
//!  source ports ▲   ┊   ┊          a protocol's plane, cut where services cut it:
//!               │┄┄┄┼┄┄┄┼┄┄┄       only rows that differ, and in each row only
//!               │   ┊ x ┊          columns that differ. Cells with the same services
//!               └───┴───┴──▶       are one atom, wherever they lie.
//!                destination ports
//! ```
//!
//! So there are as many atoms as services make differences: a hundred services are a few hundred
//! atoms, not their product.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use wire::ethernet::ethertype as kinds;
use wire::ip::protocol;

use crate::addresses::Family;
use crate::area::{Area, Services, Span, ethertype, joined, minus, spans};
use crate::bits::Bits;

/// Header numbers of IPv6 that are extensions, never what a packet carries.
const EXTENSIONS: [u8; 6] = [0, 43, 44, 51, 60, 135];

/// What makes networks work and rules' defaults do not speak of: it is not looked at.
fn control(family: Family) -> Vec<Area> {
    let whole = |carried| Area::protocol(family, carried);
    let group = whole(protocol::IGMP);
    match family {
        Family::V4 => alloc::vec![group, whole(protocol::UDP).with((68, 68), (67, 67))],
        Family::V6 => {
            let message = |kinds: Span| whole(protocol::ICMPV6).with(kinds, (0, 255));
            let client = whole(protocol::UDP).with((546, 546), (547, 547));
            alloc::vec![group, client, message((130, 137)), message((143, 143))]
        }
    }
}

/// What only servers of addresses send.
fn server(family: Family) -> Area {
    let (from, to) = match family {
        Family::V4 => (67, 68),
        Family::V6 => (547, 546),
    };
    Area::protocol(family, protocol::UDP).with((from, from), (to, to))
}

/// What cannot be the first packet of a connection.
fn never_first(family: Family) -> [Area; 2] {
    let (carried, echo) = match family {
        Family::V4 => (protocol::ICMP, 8),
        Family::V6 => (protocol::ICMPV6, 128),
    };
    let whole = Area::protocol(family, carried);
    [whole.with((0, echo - 1), (0, 255)), whole.with((echo + 1, 255), (0, 255))]
}

/// All that packets may ask for, cut.
#[derive(Clone, Debug)]
pub struct Atoms {
    /// The boxes of each.
    areas: Vec<Vec<Area>>,
    /// The atoms of each predicate that was cut by.
    of: Vec<Bits>,
    /// The atoms of each family.
    families: [Bits; 2],
    /// The atoms that are no IP.
    others: Bits,
    /// Those of each ethertype that is named, or is IP.
    kinds: BTreeMap<u16, Bits>,
    /// Those that begin connections.
    first: Bits,
    /// Those that only servers of addresses send.
    servers: Bits,
    /// The boxes of everything of each family, and of what is no IP.
    everything: [Vec<Area>; 3],
}

/// One predicate's boxes within a protocol: the predicate, and two spans.
type Entry = (u32, Span, Span);

impl Atoms {
    /// Cuts by predicates, each a list of boxes, and by named ethertypes that are not IP.
    pub fn new(predicates: &[Vec<Area>], named: &BTreeSet<u16>) -> Self {
        let own = predicates.len() as u32;
        let [never, servers] = [own, own + 1];
        let mut cells: BTreeMap<(u16, Vec<u32>), Vec<Area>> = BTreeMap::new();
        let mut everything = [Vec::new(), Vec::new(), Vec::new()];
        for family in Family::BOTH {
            let kind = ethertype(family);
            let built_in =
                [(never, never_first(family).to_vec()), (servers, alloc::vec![server(family)])];
            let all = (0u32..).zip(predicates.iter().cloned()).chain(built_in);
            let mut planes: BTreeMap<u16, Vec<Entry>> = BTreeMap::new();
            for (predicate, Area([kinds, carried, a, b])) in
                all.flat_map(|(i, areas)| areas.into_iter().map(move |area| (i, area)))
            {
                if kinds.0 <= kind && kind <= kinds.1 && carried.0 == carried.1 {
                    planes.entry(carried.0).or_default().push((predicate, a, b));
                }
            }
            for carried in [protocol::TCP, protocol::UDP, 132, protocol::ICMP, protocol::ICMPV6] {
                planes.entry(carried.into()).or_default();
            }
            let forbidden = control(family);
            let mut unnamed: Option<Span> = None;
            for carried in 0..=255u16 {
                let number = carried.to_be_bytes()[1];
                let is_none = family == Family::V6 && EXTENSIONS.contains(&number);
                let whole = Area::protocol(family, number);
                let is_plain =
                    !is_none && !forbidden.contains(&whole) && !planes.contains_key(&carried);
                if is_plain {
                    unnamed = Some((unnamed.map_or(carried, |it| it.0), carried));
                }
                if let Some(span) = unnamed.filter(|_| !is_plain || carried == 255) {
                    let mut area = whole;
                    area.0[1] = span;
                    area = area.with((0, 0), (0, 0));
                    cells.entry((kind, Vec::new())).or_default().push(area);
                    unnamed = None;
                }
                let Some(entries) = planes.get(&carried).filter(|_| !is_none) else { continue };
                if forbidden.contains(&whole) {
                    continue;
                }
                let mut cuts: Vec<Area> = forbidden.clone();
                cuts.retain(|it| it.0[1] == whole.0[1]);
                for (area, signature) in plane(whole, entries, spans(family, number)) {
                    cells.entry((kind, signature)).or_default().extend(minus(&[area], &cuts));
                }
            }
        }
        let mut from = 0u16;
        let special = [kinds::IPV4, kinds::IPV6, kinds::ARP, kinds::VLAN, kinds::SERVICE_VLAN];
        let mut unnamed = Vec::new();
        let none = [(0, 0), (0, 0), (0, 0)];
        let area = |first, last| Area([(first, last), none[0], none[1], none[2]]);
        let mut borders: BTreeSet<u16> = special.into_iter().collect();
        borders.extend(named);
        for kind in &borders {
            if from < *kind {
                unnamed.push(area(from, kind - 1));
            }
            from = kind.saturating_add(1);
            if !special.contains(kind) {
                // Each of these is an atom of its own: no service speaks of it.
                cells.insert((*kind, Vec::new()), alloc::vec![area(*kind, *kind)]);
            }
        }
        unnamed.push(area(from, u16::MAX));
        cells.insert((0, Vec::new()), unnamed);
        cells.retain(|_, areas| !areas.is_empty());

        let len = cells.len();
        let none = || Bits::none(len);
        let mut made = Self {
            areas: Vec::with_capacity(len),
            of: (0..predicates.len()).map(|_| none()).collect(),
            families: [none(), none()],
            others: none(),
            kinds: named.iter().map(|it| (*it, none())).collect(),
            first: none(),
            servers: none(),
            everything: [Vec::new(), Vec::new(), Vec::new()],
        };
        for (atom, ((kind, signature), areas)) in cells.into_iter().enumerate() {
            let areas = joined(areas);
            let family = Family::BOTH.into_iter().find(|it| ethertype(*it) == kind);
            everything[family.map_or(2, |it| it as usize)].extend(&areas);
            match family {
                Some(family) => made.families[family as usize].insert(atom),
                None => made.others.insert(atom),
            }
            made.kinds.entry(kind).or_insert_with(none).insert(atom);
            if !signature.contains(&never) {
                made.first.insert(atom);
            }
            if signature.contains(&servers) {
                made.servers.insert(atom);
            }
            for predicate in signature.iter().filter(|it| **it < own) {
                made.of[*predicate as usize].insert(atom);
            }
            made.areas.push(areas);
        }
        made.everything = everything.map(joined);
        made
    }

    /// How many atoms there are.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// The atoms of a predicate.
    pub fn of(&self, predicate: usize) -> &Bits {
        &self.of[predicate]
    }

    /// The atoms of a family; `None`: of frames that carry no IP.
    pub fn family(&self, family: Option<Family>) -> &Bits {
        match family {
            Some(family) => &self.families[family as usize],
            None => &self.others,
        }
    }

    /// The atoms of an ethertype that is named, or IP's.
    pub fn kind(&self, ethertype: u16) -> Bits {
        self.kinds.get(&ethertype).cloned().unwrap_or_else(|| Bits::none(self.len()))
    }

    /// Those that begin connections.
    pub const fn first(&self) -> &Bits {
        &self.first
    }

    /// Those that only servers of addresses send.
    pub const fn servers(&self) -> &Bits {
        &self.servers
    }

    /// The boxes of some atoms.
    pub fn areas(&self, atoms: &Bits) -> Vec<Area> {
        joined(atoms.iter().flat_map(|it| self.areas[it].iter().copied()).collect())
    }

    /// The boxes of one.
    pub fn areas_of(&self, atom: usize) -> &[Area] {
        &self.areas[atom]
    }

    /// The atoms that have something of some boxes.
    pub fn meeting(&self, areas: &[Area]) -> Bits {
        let mut found = Bits::none(self.len());
        for (atom, own) in self.areas.iter().enumerate() {
            if own.iter().any(|it| areas.iter().any(|other| it.and(other).is_some())) {
                found.insert(atom);
            }
        }
        found
    }

    /// Some atoms of a family as people read them.
    pub fn services(&self, family: Option<Family>, atoms: &Bits) -> Services {
        self.told(self.family(family), atoms)
    }

    /// Boxes of a family as people read them.
    pub fn of_areas(&self, family: Option<Family>, areas: Vec<Area>) -> Services {
        let areas = joined(areas);
        let all = &self.everything[family.map_or(2, |it| it as usize)];
        let others = minus(all, &areas);
        Services { but: Some(others).filter(|it| it.len() < areas.len()), areas }
    }

    /// What machines ask for, in words: that they may not answer as servers of addresses goes
    /// without saying.
    pub fn words(&self, family: Family, atoms: &Bits) -> String {
        let all = self.families[family as usize].minus(&self.servers);
        self.told(&all, &atoms.minus(&self.servers)).to_string()
    }

    /// Some of the atoms that there are. Those that are left out are told only if they are fewer:
    /// to put boxes together takes long.
    fn told(&self, all: &Bits, atoms: &Bits) -> Services {
        let areas = self.areas(atoms);
        let rest = all.minus(atoms);
        let others = (rest.count() < atoms.count()).then(|| self.areas(&rest));
        Services { but: others.filter(|it| it.len() < areas.len()), areas }
    }

    /// The atom of a packet: ethertype, protocol, and two numbers. `None` if it is not looked at.
    pub fn find(&self, packet: [u16; 4]) -> Option<usize> {
        let point = Area(packet.map(|it| (it, it)));
        self.areas.iter().position(|areas| areas.iter().any(|it| it.and(&point).is_some()))
    }
}

/// Cuts a protocol's plane into cells, each with the predicates that hold there.
fn plane(whole: Area, entries: &[Entry], [all_a, all_b]: [Span; 2]) -> Vec<(Area, Vec<u32>)> {
    let mut rows: BTreeMap<Vec<usize>, Vec<Span>> = BTreeMap::new();
    for row in intervals(all_a, entries.iter().map(|(_, a, _)| *a)) {
        let holds = |(_, (_, a, _)): &(usize, &Entry)| a.0 <= row.0 && row.1 <= a.1;
        let holding = entries.iter().enumerate().filter(holds).map(|(i, _)| i).collect();
        rows.entry(holding).or_default().push(row);
    }
    let mut cells = Vec::new();
    for (holding, rows) in rows {
        let holding: Vec<&Entry> = holding.iter().map(|it| &entries[*it]).collect();
        for column in intervals(all_b, holding.iter().map(|(_, _, b)| *b)) {
            let holds = |(_, _, b): &&&Entry| b.0 <= column.0 && column.1 <= b.1;
            let signature: BTreeSet<u32> = holding.iter().filter(holds).map(|it| it.0).collect();
            let signature: Vec<u32> = signature.into_iter().collect();
            cells.extend(rows.iter().map(|row| (whole.with(*row, column), signature.clone())));
        }
    }
    cells
}

/// A span, cut where others begin and end.
fn intervals(all: Span, spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut begins = BTreeSet::from([all.0]);
    for (first, last) in spans {
        begins.insert(first.max(all.0));
        begins.extend(last.checked_add(1).filter(|it| *it <= all.1));
    }
    let mut cut = Vec::with_capacity(begins.len());
    let mut begins = begins.into_iter().peekable();
    while let Some(begin) = begins.next() {
        cut.push((begin, begins.peek().map_or(all.1, |next| next - 1)));
    }
    cut
}

//! What is reached in one network and not in another.
//!
//! Ports are the same by their names. A packet is its addresses and what it asks for: it is reached
//! if some frame that carries it arrives, whichever way, so a port that moves to another switch
//! behind a router changes nothing by that alone.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use logical::topology::PortIndex;

use crate::addresses::{Addresses, Family};
use crate::area::Services;
use crate::field::{Fate, Line, Place};
use crate::matrix::{Matrix, Outcome, Ports, Whose};
use crate::region::Region;

/// What became of packets between some ports, and what becomes of them now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Change {
    /// Whether they are reached now and were not; otherwise they were and are not.
    pub now: bool,
    /// Who sends them: ports as `tenant/name`.
    pub from: Vec<String>,
    /// Whom they are for.
    pub to: Vec<String>,
    /// Which IP; `None`: none.
    pub family: Option<Family>,
    /// Their sources.
    pub source: Whose,
    /// Their destinations, as their senders write them.
    pub destination: Whose,
    /// What they ask for.
    pub services: Services,
    /// By which rules they are reached, where they are.
    pub by: Outcome,
}

impl Change {
    /// Whether they are ordinary packets: between own addresses.
    pub fn is_ordinary(&self) -> bool {
        self.source == Whose::Own && self.destination == Whose::Own
    }
}

/// A port in both networks.
type Both = [Option<PortIndex>; 2];

/// What tells ports apart in either network: their classes, and how their addresses are told apart.
type Key = ([Option<u32>; 2], Vec<([Option<u32>; 2], Option<Addresses>)>);

impl Matrix {
    /// What is reached here and is not in another, and the reverse.
    pub fn changes(&self, base: &Self) -> Vec<Change> {
        let sides = [base, self];
        let mut named: BTreeMap<&str, Both> = BTreeMap::new();
        for (side, matrix) in sides.into_iter().enumerate() {
            for (ports, class) in matrix.ports().iter().zip(&matrix.field.classes) {
                for (name, index) in ports.ports.iter().zip(&class.ports) {
                    named.entry(name).or_default()[side] = Some(*index);
                }
            }
        }
        let mut alike: BTreeMap<Key, Vec<(&str, Both)>> = BTreeMap::new();
        for (name, both) in named {
            alike.entry(key(sides, both)).or_default().push((name, both));
        }
        let groups: Vec<_> = alike.into_values().collect();
        let mut all = Vec::new();
        for from in &groups {
            for to in &groups {
                let sender = from[0];
                let Some(port) = to.iter().find(|it| it.0 != sender.0) else { continue };
                let [before, now] = [0, 1].map(|side| {
                    let ends = sender.1[side].zip(port.1[side]);
                    ends.map(|(a, b)| sides[side].reached(a, b)).unwrap_or_default()
                });
                let names = |group: &[(&str, Both)]| -> Vec<String> {
                    group.iter().map(|it| it.0.into()).collect()
                };
                let mut add = |some: &[(Region, Outcome)], others: &[(Region, Outcome)], is_now| {
                    let side = usize::from(is_now);
                    let ends = sender.1[side].zip(port.1[side]);
                    let Some((sender, port)) = ends else { return };
                    for (region, by) in some {
                        for rest in region.minus_all(others.iter().map(|it| &it.0)) {
                            for (source, destination) in sides[side].told(sender, port, &rest) {
                                let atoms = &sides[side].field.atoms;
                                all.push(Change {
                                    now: is_now,
                                    from: names(from),
                                    to: names(to),
                                    family: rest.family(),
                                    source,
                                    destination,
                                    services: atoms.of_areas(rest.family(), rest.areas.clone()),
                                    by: by.clone(),
                                });
                            }
                        }
                    }
                };
                add(&now, &before, true);
                add(&before, &now, false);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The packets that arrive from a port at another, and by which rules.
    fn reached(&self, from: PortIndex, to: PortIndex) -> Vec<(Region, Outcome)> {
        let mut all = BTreeSet::new();
        for line in self.field.lines(from, to) {
            for (fate, atoms) in &self.field.fates[line.fates as usize] {
                if matches!(fate, Fate::Arrive(..)) {
                    let areas = self.field.atoms.areas(atoms);
                    let ends = self.ends(from, to, line);
                    let regions = Region::both(ends, line.is_same, &areas);
                    all.extend(regions.map(|it| (it, self.outcome(fate))));
                }
            }
        }
        all.into_iter().collect()
    }

    fn ends(&self, from: PortIndex, to: PortIndex, line: &Line) -> Option<[Addresses; 2]> {
        let own = |port, place: Place| self.field.addresses(port, place).cloned();
        Some([own(from, line.from)?, own(to, line.to)?])
    }

    /// Whose addresses a region is of: the ports' own are apart from others.
    fn told(&self, from: PortIndex, to: PortIndex, region: &Region) -> Vec<(Whose, Whose)> {
        let Some([sources, destinations]) = &region.ends else {
            return alloc::vec![(Whose::None, Whose::None)];
        };
        let parts = |port: PortIndex, all: &Addresses| {
            let own = self.field.own[port.place()].iter();
            let own = own.filter(|it| it.family() == all.family());
            let own = own.fold(Addresses::none(all.family()), |sum, it| sum.or(it));
            let others = all.minus(&own);
            let is_own = !all.and(&own).is_empty();
            let others = (!others.is_empty()).then(|| Whose::Listed(alloc::format!("{others}")));
            is_own.then_some(Whose::Own).into_iter().chain(others).collect::<Vec<_>>()
        };
        let [sources, destinations] = [parts(from, sources), parts(to, destinations)];
        let pairs = sources.iter().flat_map(|one| destinations.iter().map(move |it| (one, it)));
        pairs.map(|(one, other)| (one.clone(), other.clone())).collect()
    }
}

fn key(sides: [&Matrix; 2], both: Both) -> Key {
    let class = |side: usize| both[side].and_then(|it| sides[side].field.of[it.place()]);
    let own = |side: usize| -> &[Addresses] {
        both[side].map_or(&[], |it| sides[side].field.own[it.place()].as_slice())
    };
    let [before, now] = [own(0), own(1)];
    let mut told = Vec::new();
    for (i, one) in (0u32..).zip(before) {
        for (j, other) in (0u32..).zip(now) {
            if !one.and(other).is_empty() {
                told.push(([Some(i), Some(j)], None));
            }
        }
    }
    // Addresses that a port has in one network only are told by themselves.
    let mut alone = |some: &[Addresses], others: &[Addresses], side: usize| {
        for (i, one) in (0u32..).zip(some) {
            let rest = others.iter().fold(one.clone(), |rest, it| rest.minus(it));
            if !rest.is_empty() && both[1 - side].is_some() {
                let mut place = [None, None];
                place[side] = Some(i);
                told.push((place, Some(rest)));
            }
        }
    };
    alone(before, now, 0);
    alone(now, before, 1);
    ([class(0), class(1)], told)
}

/// Ports of a list in a few words.
pub fn in_words(ports: &[String]) -> String {
    match ports {
        [first, second, more @ ..] if more.len() > 1 => {
            alloc::format!("{first}, {second} and {} more", more.len())
        }
        few => few.join(", "),
    }
}

/// A line of the table that people read: ordinary packets that arrive.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Reached<'a> {
    /// Who sends.
    pub from: &'a Ports,
    /// Who gets it.
    pub to: &'a Ports,
    /// What: protocols and ports.
    pub what: String,
    /// The rule at the sender's port.
    pub leaves_by: String,
    /// The rule at the receiver's port.
    pub enters_by: String,
    /// Whether the hash of each packet decides if it gets there.
    pub by_hash: bool,
}

impl Matrix {
    /// Who reaches whom with ordinary packets, those between own addresses: a line for each pair of
    /// classes and pair of rules.
    pub fn reached_rows(&self) -> Vec<Reached<'_>> {
        let mut cells: BTreeMap<u32, Said> = BTreeMap::new();
        let (mut words, mut rows) = (Words::new(), Vec::new());
        let ports = self.ports();
        for (i, from) in ports.iter().enumerate() {
            for (j, to) in ports.iter().enumerate() {
                let number = self.field.table[i * ports.len() + j];
                let said = cells.entry(number).or_insert_with(|| self.said(number, &mut words));
                for ((leaves_by, enters_by, by_hash), families) in &*said {
                    for what in of_families(families) {
                        rows.push(Reached {
                            from,
                            to,
                            what,
                            leaves_by: leaves_by.clone(),
                            enters_by: enters_by.clone(),
                            by_hash: *by_hash,
                        });
                    }
                }
            }
        }
        rows
    }
}

/// Of ordinary packets that arrive: by which rules, and whether the hash decides, what.
type Said = BTreeMap<(String, String, bool), BTreeMap<Family, BTreeSet<String>>>;

/// What atoms are in words: by what becomes of them, and which.
type Words = BTreeMap<(u32, usize), String>;

impl Matrix {
    fn said(&self, cell: u32, words: &mut Words) -> Said {
        let mut said = Said::new();
        for line in &self.field.cells[cell as usize] {
            let (true, Some(family)) = (self.field.is_ordinary(line), line.family) else {
                continue;
            };
            for (i, (fate, atoms)) in self.field.fates[line.fates as usize].iter().enumerate() {
                let Fate::Arrive(from, to) = fate else { continue };
                let word = words
                    .entry((line.fates, i))
                    .or_insert_with(|| self.field.atoms.words(family, atoms));
                let key = (self.rule(*from), self.rule(*to), line.is_chosen);
                let of_family = said.entry(key).or_default().entry(family).or_default();
                of_family.insert(word.clone());
            }
        }
        said
    }
}

/// What is asked for, in words: of both families once, if they are alike.
fn of_families(families: &BTreeMap<Family, BTreeSet<String>>) -> Vec<String> {
    let words = |all: &BTreeSet<String>| {
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        all.join("; ")
    };
    match (families.get(&Family::V4), families.get(&Family::V6)) {
        (Some(v4), Some(v6)) if v4 != v6 => {
            alloc::vec![
                alloc::format!("IPv4: {}", words(v4)),
                alloc::format!("IPv6: {}", words(v6))
            ]
        }
        (one, other) => one.or(other).map(words).into_iter().collect(),
    }
}

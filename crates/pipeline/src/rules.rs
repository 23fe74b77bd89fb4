//! What rules say of a packet at a port.
//!
//! ```text
//! a level's rules, the highest priority first ─ none ─▶ does the level isolate? ─ no ─▶ the next
//!     │                        │                                                         │
//!   allow, drop, reject       pass ─▶ the next level                      the switch's default
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use image::{Condition, Domain, Group, Policy, Rules};
use logical::objects::{AddressRange, Direction, Identity, PortRange, Tier};
use logical::topology::{Service, Verdict};
use packet::Tuple;
use units::Mac;

use crate::members::{Members, members};

/// What rules ask of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the frame carries.
    pub ethertype: u16,
    /// Who sends the frame.
    pub source_mac: Mac,
    /// Who gets it.
    pub destination_mac: Mac,
    /// The two ends, if it is IP.
    pub tuple: Option<Tuple>,
    /// The ICMP type and code, if it is that.
    pub icmp: Option<(u8, u8)>,
    /// The port that it came from. `None`: that is not known.
    pub sender: Option<&'a Identity>,
    /// The groups of that port.
    pub origin: Option<&'a BTreeSet<u32>>,
    /// The groups of the port that it is about to go to, if that is decided.
    pub target: Option<&'a BTreeSet<u32>>,
    /// Whether defaults do not speak of it.
    pub is_control: bool,
}

/// Somebody that conditions speak of.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Peer {
    groups: Vec<u32>,
    sets: Vec<u32>,
    prefixes: Vec<AddressRange>,
    except: Vec<AddressRange>,
}

/// A condition whose peers are numbers.
#[derive(Clone, Debug)]
struct One {
    ethertype: Option<u16>,
    source_macs: Vec<Mac>,
    destination_macs: Vec<Mac>,
    source: Option<u32>,
    destination: Option<u32>,
    services: Vec<Service>,
}

impl One {
    /// Whether it says what kind of packet it speaks of.
    fn names_kind(&self) -> bool {
        self.ethertype.is_some() || !self.services.is_empty()
    }
}

/// The conditions of a part. Each is known by a number: the place of all that has to hold.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    all: Vec<Vec<One>>,
    peers: Vec<Peer>,
    peer_numbers: BTreeMap<Peer, u32>,
    group_numbers: BTreeMap<Group, u32>,
    groups: Vec<Members>,
    set_numbers: BTreeMap<Identity, u32>,
    sets: Vec<Vec<AddressRange>>,
    /// The numbers of rules' conditions: by the place in memory of their policy's rules, and their
    /// own there.
    of_rules: BTreeMap<(usize, usize), u32>,
}

impl Conditions {
    /// The groups and sets of a part, and no condition yet.
    pub fn new(part: &Domain) -> Self {
        let mut made = Self::default();
        for (number, (group, members)) in (0..).zip(members(part)) {
            made.group_numbers.insert(group.clone(), number);
            made.groups.push(members);
        }
        for (set, range) in part.addresses.keys() {
            let next = made.sets.len() as u32;
            let number = *made.set_numbers.entry(set.clone()).or_insert(next);
            if number == next {
                made.sets.push(Vec::new());
            }
            made.sets[number as usize].push(*range);
        }
        made
    }

    /// The groups that a port is in.
    pub fn groups_of(&self, port: &Identity) -> BTreeSet<u32> {
        let all = (0..).zip(&self.groups);
        all.filter(|(_, members)| members.ports.contains(port)).map(|(number, _)| number).collect()
    }

    /// The number of conditions that all have to hold.
    pub fn add(&mut self, conditions: &[Condition]) -> u32 {
        let all = conditions.iter().map(|it| self.one(it)).collect();
        self.all.push(all);
        self.all.len() as u32 - 1
    }

    /// The number of a rule's conditions: one for all ports that the rule holds for.
    fn of_rule(&mut self, rules: &Rules, place: usize) -> u32 {
        let key = (rules.as_ptr() as usize, place);
        if let Some(number) = self.of_rules.get(&key) {
            return *number;
        }
        let number = self.add(&rules[place].conditions);
        self.of_rules.insert(key, number);
        number
    }

    fn one(&mut self, it: &Condition) -> One {
        One {
            ethertype: it.ethertype.map(|it| it.0),
            source_macs: it.source_macs.clone(),
            destination_macs: it.destination_macs.clone(),
            source: it.source.as_ref().map(|it| self.peer(it)),
            destination: it.destination.as_ref().map(|it| self.peer(it)),
            services: it.services.clone(),
        }
    }

    fn peer(&mut self, it: &image::Peer) -> u32 {
        let groups = it.groups.iter().filter_map(|it| self.group_numbers.get(it).copied());
        let sets = it.sets.iter().filter_map(|it| self.set_numbers.get(it).copied());
        let peer = Peer {
            groups: groups.collect(),
            sets: sets.collect(),
            prefixes: it.prefixes.clone(),
            except: it.except.clone(),
        };
        let next = self.peers.len() as u32;
        let number = *self.peer_numbers.entry(peer.clone()).or_insert(next);
        if number == next {
            self.peers.push(peer);
        }
        number
    }

    /// Whether conditions hold.
    pub fn hold(&self, number: u32, subject: &Subject<'_>) -> bool {
        self.all[number as usize].iter().all(|it| self.holds(it, subject))
    }

    /// Whether any of the conditions says what kind of packet it speaks of.
    pub fn name_kind(&self, number: u32) -> bool {
        self.all[number as usize].iter().any(One::names_kind)
    }

    fn holds(&self, it: &One, subject: &Subject<'_>) -> bool {
        let ends = subject.tuple;
        let end = |peer: Option<u32>, at: Option<IpAddr>, groups: Option<&BTreeSet<u32>>| {
            peer.is_none_or(|peer| self.is_among(peer, at, groups))
        };
        let one_of = |listed: &[Mac], mac| listed.is_empty() || listed.contains(&mac);
        it.ethertype.is_none_or(|it| it == subject.ethertype)
            && one_of(&it.source_macs, subject.source_mac)
            && one_of(&it.destination_macs, subject.destination_mac)
            && end(it.source, ends.map(|it| it.source.0), subject.origin)
            && end(it.destination, ends.map(|it| it.destination.0), subject.target)
            && (it.services.is_empty() || it.services.iter().any(|it| asks_for(it, subject)))
    }

    /// Whether somebody is among a peer: by its port if that is known, by its address otherwise.
    fn is_among(&self, peer: u32, address: Option<IpAddr>, groups: Option<&BTreeSet<u32>>) -> bool {
        let Some(address) = address else { return false };
        let peer = &self.peers[peer as usize];
        let within = |ranges: &[AddressRange]| ranges.iter().any(|it| it.contains(address));
        peer.groups.iter().any(|group| match groups {
            Some(groups) => groups.contains(group),
            None => self.groups[*group as usize].addresses.contains(&address),
        }) || ((within(&peer.prefixes)
            || peer.sets.iter().any(|set| within(&self.sets[*set as usize])))
            && !within(&peer.except))
    }
}

fn asks_for(it: &Service, subject: &Subject<'_>) -> bool {
    let Some(ends) = subject.tuple else { return false };
    let one_of = |ranges: &[PortRange], port| {
        ranges.is_empty() || ranges.iter().any(|range| range.contains(port))
    };
    let icmp = |wanted: Option<u8>, is: Option<u8>| wanted.is_none() || wanted == is;
    it.protocol.0 == ends.protocol
        && one_of(&it.ports, ends.destination.1)
        && one_of(&it.source_ports, ends.source.1)
        && icmp(it.icmp_type, subject.icmp.map(|(kind, _)| kind))
        && icmp(it.icmp_code, subject.icmp.map(|(_, code)| code))
}

/// A rule by its policy.
#[derive(Clone, Debug)]
pub struct RuleAt {
    policy: Identity,
    rules: Rules,
    place: usize,
    condition: u32,
}

/// A rule as it is told: its policy, and its name there.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RuleName {
    /// The policy.
    pub policy: Identity,
    /// The rule's name in it.
    pub rule: logical::objects::Name,
}

impl core::fmt::Display for RuleName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.policy, self.rule)
    }
}

impl RuleAt {
    fn rule(&self) -> &image::Rule {
        &self.rules[self.place]
    }

    fn name(&self) -> RuleName {
        RuleName { policy: self.policy.clone(), rule: self.rule().name.clone() }
    }
}

/// Rules that decide together.
#[derive(Clone, Debug, Default)]
struct Level {
    isolates: bool,
    rules: Vec<RuleAt>,
}

/// What rules say of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// It goes on; `tracked`: and so do its connection's replies.
    Allow { tracked: bool, by: Option<RuleName> },
    /// It is refused.
    Drop(Option<RuleName>),
    /// It is refused, and the sender is told.
    Reject(Option<RuleName>),
}

/// The other direction.
pub const fn opposite(way: Direction) -> Direction {
    match way {
        Direction::FromPort => Direction::ToPort,
        Direction::ToPort => Direction::FromPort,
    }
}

/// All that decides about a port's packets of a direction.
#[derive(Clone, Debug)]
pub struct List {
    levels: Vec<Level>,
    allows: bool,
    /// Whether what a default allows has its answers: the other direction lets few pass.
    tracks: bool,
}

impl List {
    /// The rules of a direction, of all policies that hold for a port.
    pub fn new<'a>(
        way: Direction,
        policies: impl Iterator<Item = (&'a Identity, &'a Policy)>,
        allows: bool,
        conditions: &mut Conditions,
    ) -> Self {
        let policies: Vec<_> = policies.collect();
        let other = opposite(way);
        let tracks = policies.iter().any(|(_, it)| it.isolates.contains(&other));
        type Order<'a> = (u16, &'a Identity);
        let mut levels: BTreeMap<(Tier, u8), BTreeMap<Order<'_>, &Policy>> = BTreeMap::new();
        for (id, policy) in policies {
            let level = levels.entry((policy.tier, policy.level)).or_default();
            level.insert((policy.order, id), policy);
        }
        let levels = levels.into_values().map(|policies| {
            let mut rules = Vec::new();
            for ((order, id), policy) in &policies {
                for (place, rule) in policy.rules.iter().enumerate() {
                    if rule.direction == way {
                        let condition = conditions.of_rule(&policy.rules, place);
                        let rules_of = policy.rules.clone();
                        let at =
                            RuleAt { policy: (*id).clone(), rules: rules_of, place, condition };
                        rules.push((*order, Reverse(rule.priority), at));
                    }
                }
            }
            // Equal ones stay in the order of policies' names, and of their declaration.
            rules.sort_by_key(|(order, priority, _)| (*order, *priority));
            Level {
                isolates: policies.values().any(|it| it.isolates.contains(&way)),
                rules: rules.into_iter().map(|(.., rule)| rule).collect(),
            }
        });
        Self { levels: levels.collect(), allows, tracks }
    }

    /// Asks every rule.
    pub fn ask(&self, conditions: &Conditions, subject: &Subject<'_>) -> Ruling {
        for level in &self.levels {
            let first = level.rules.iter().find(|rule| {
                (!subject.is_control || conditions.name_kind(rule.condition))
                    && conditions.hold(rule.condition, subject)
            });
            let Some(rule) = first else {
                if level.isolates && !subject.is_control {
                    return Ruling::Drop(None);
                }
                continue;
            };
            let by = Some(rule.name());
            match rule.rule().verdict {
                Verdict::Allow { stateful } => return Ruling::Allow { tracked: stateful, by },
                Verdict::Drop => return Ruling::Drop(by),
                Verdict::Reject => return Ruling::Reject(by),
                Verdict::Pass => {}
            }
        }
        match self.allows || subject.is_control {
            true => Ruling::Allow { tracked: self.tracks, by: None },
            false => Ruling::Drop(None),
        }
    }
}

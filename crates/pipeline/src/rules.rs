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

use classifier::class::ClassId;
use classifier::decisions::{self, Facts};
use image::{Policy, Rules};
use logical::objects::{Direction, Identity, Log, Meter, Name, Tier};
use logical::topology::Verdict;
use packet::Tuple;
use units::Mac;

use crate::conditions::Conditions;
use crate::places::RuleAt;
use crate::ports::{Ports, ports_of};

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
    /// The class of that port's groups.
    pub origin: Option<ClassId>,
    /// The class of the groups of the port that it is about to go to, if that is decided.
    pub target: Option<ClassId>,
    /// Whether defaults do not speak of it.
    pub is_control: bool,
}

/// The first of an ordered list of conditions that hold.
#[derive(Clone, Debug)]
pub struct Ordered {
    list: decisions::List,
    /// The ports on which that depends.
    pub ports: Ports,
}

impl Ordered {
    /// Of one level, whose conditions depend on such ports.
    pub fn new(rules: Vec<decisions::Rule>, ports: Ports) -> Self {
        Self { list: decisions::List::new(&[rules]), ports }
    }

    /// The place of the first.
    pub fn first(&self, conditions: &Conditions, subject: &Subject<'_>) -> Option<usize> {
        first(&self.list, conditions, subject)
    }
}

/// The place of the first rule that holds and does not pass.
fn first(list: &decisions::List, conditions: &Conditions, subject: &Subject<'_>) -> Option<usize> {
    if list.is_empty() {
        return None;
    }
    let services = conditions.services(subject.tuple, subject.icmp);
    let end = |at: Option<IpAddr>, groups| conditions.end(at, groups);
    let facts = Facts {
        ethertype: subject.ethertype,
        is_control: subject.is_control,
        source: end(subject.tuple.map(|it| it.source.0), subject.origin),
        destination: end(subject.tuple.map(|it| it.destination.0), subject.target),
        source_mac: conditions.mac(subject.source_mac),
        destination_mac: conditions.mac(subject.destination_mac),
        // Nothing is remembered by its number.
        service: classifier::class::Class { id: ClassId::NONE, sets: &services },
    };
    list.place(&facts).map(|rule| rule as usize)
}

/// A rule of a list.
#[derive(Clone, Debug)]
struct Listed {
    at: RuleAt,
    rules: Rules,
    place: usize,
}

/// A rule as it is told: its policy, and its name there.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RuleName {
    /// The policy.
    pub policy: Identity,
    /// The rule's name in it.
    pub rule: Name,
}

impl core::fmt::Display for RuleName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.policy, self.rule)
    }
}

impl Listed {
    fn rule(&self) -> &image::Rule {
        &self.rules[self.place]
    }
}

/// What rules say of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// It goes on; `tracked`: and so do its connection's replies.
    Allow { tracked: bool, by: Option<RuleAt> },
    /// It is refused.
    Drop(Option<RuleAt>),
    /// It is refused, and the sender is told.
    Reject(Option<RuleAt>),
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
    /// All levels, one behind the other. One that isolates ends with a rule that all packets are
    /// of, but for control packets.
    levels: decisions::List,
    /// The rules at their places there. `None`: isolation.
    rules: Vec<Option<Listed>>,
    allows: bool,
    /// Whether what a default allows has its answers: the other direction lets few pass.
    tracks: bool,
    /// The ports on which it depends which rule is the first.
    ports: Ports,
}

impl List {
    /// The rules of a direction, of all policies that hold for a port.
    pub fn new<'a>(
        way: Direction,
        policies: impl Iterator<Item = (&'a Identity, &'a Policy)>,
        allows: bool,
        numbers: &Numbers,
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
        let (mut all, mut indexed) = (Vec::new(), Vec::new());
        for policies in levels.into_values() {
            let mut rules = Vec::new();
            for ((order, id), policy) in &policies {
                for (place, rule) in policy.rules.iter().enumerate() {
                    if rule.direction == way {
                        let rules_of = policy.rules.clone();
                        let at = numbers.of(id, rule);
                        let at = Listed { at, rules: rules_of, place };
                        rules.push((*order, Reverse(rule.priority), at));
                    }
                }
            }
            // Equal ones stay in the order of policies' names, and of their declaration.
            rules.sort_by_key(|(order, priority, _)| (*order, *priority));
            let mut level: Vec<_> =
                rules.iter().map(|(.., at)| conditions.rule(at.rule())).collect();
            all.extend(rules.into_iter().map(|(.., at)| Some(at)));
            if policies.values().any(|it| it.isolates.contains(&way)) {
                level.push(decisions::Rule::default());
                all.push(None);
            }
            indexed.push(level);
        }
        let conditions = all.iter().flatten().flat_map(|it| &it.rule().conditions);
        let ports = conditions.map(ports_of).max().unwrap_or_default();
        Self { levels: decisions::List::new(&indexed), rules: all, allows, tracks, ports }
    }

    /// The ports on which it depends what is said.
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// Asks every rule.
    pub fn ask(&self, conditions: &Conditions, subject: &Subject<'_>) -> Ruling {
        let Some(place) = first(&self.levels, conditions, subject) else {
            return match self.allows || subject.is_control {
                true => Ruling::Allow { tracked: self.tracks, by: None },
                false => Ruling::Drop(None),
            };
        };
        let Some(rule) = &self.rules[place] else { return Ruling::Drop(None) };
        let by = Some(rule.at);
        match rule.rule().verdict {
            Verdict::Allow { stateful } => Ruling::Allow { tracked: stateful, by },
            Verdict::Reject => Ruling::Reject(by),
            // A rule that passes is never the first that does not.
            Verdict::Drop | Verdict::Pass => Ruling::Drop(by),
        }
    }
}

/// A rule of a part, as it is told of.
#[derive(Clone, Debug)]
pub struct NamedRule {
    /// Its name.
    pub name: RuleName,
    /// Which way the packets go that it speaks of.
    pub direction: Direction,
    /// What it says of them.
    pub verdict: Verdict,
    /// How its packets are logged, if they are, and by which meter.
    pub log: Option<(Log, Option<Meter>)>,
}

/// All rules of a part, each at a place of its own. One that was there before has the place that it
/// had: whoever remembers that still means the same rule.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    places: BTreeMap<RuleName, RuleAt>,
    /// Those too that nobody has any more.
    rules: Vec<NamedRule>,
}

impl Numbers {
    /// Of policies, where others were before.
    pub fn new<'a>(
        policies: impl Iterator<Item = (&'a Identity, &'a Policy)>,
        meter: impl Fn(&Name) -> Option<Meter>,
        before: Option<&Self>,
    ) -> Self {
        let named = |(policy, it): (&Identity, &Policy)| {
            let rule = |rule: &image::Rule| NamedRule {
                name: RuleName { policy: policy.clone(), rule: rule.name.clone() },
                direction: rule.direction,
                verdict: rule.verdict,
                log: rule.log.clone().map(|log| {
                    let meter = log.meter.as_ref().and_then(&meter);
                    (log, meter)
                }),
            };
            it.rules.iter().map(rule).collect::<Vec<_>>()
        };
        let all: Vec<_> = policies.flat_map(named).collect();
        let old = |name: &RuleName| before.and_then(|it| it.at(name));
        let mut rules = before.map_or_else(Vec::new, |it| it.rules.clone());
        let kept: BTreeSet<_> = all.iter().filter_map(|it| old(&it.name)).collect();
        let mut free = (0..rules.len() as u32).map(RuleAt).filter(|at| !kept.contains(at));
        let mut places = BTreeMap::new();
        let mut new = Vec::new();
        for rule in all {
            match old(&rule.name).or_else(|| free.next()) {
                Some(at) => {
                    places.insert(rule.name.clone(), at);
                    rules[at.at()] = rule;
                }
                None => new.push(rule),
            }
        }
        for rule in new {
            places.insert(rule.name.clone(), RuleAt(rules.len() as u32));
            rules.push(rule);
        }
        Self { places, rules }
    }

    /// The place of a rule.
    pub fn at(&self, name: &RuleName) -> Option<RuleAt> {
        self.places.get(name).copied()
    }

    /// The place of a rule of a policy.
    fn of(&self, policy: &Identity, rule: &image::Rule) -> RuleAt {
        let name = RuleName { policy: policy.clone(), rule: rule.name.clone() };
        self.at(&name).expect("each rule of a part has its place")
    }

    /// A rule.
    pub fn get(&self, at: RuleAt) -> &NamedRule {
        &self.rules[at.at()]
    }

    /// How many places there are.
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// All rules, by name.
    pub fn all(&self) -> impl Iterator<Item = (RuleAt, &NamedRule)> {
        self.places.values().map(|at| (*at, self.get(*at)))
    }
}

/// Which lists are the same: of a direction, policies and default.
pub type ListKey<'a> = (bool, &'a BTreeSet<Identity>, bool);

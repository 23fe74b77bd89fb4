//! What rules say of a packet at a port, and what its connection does.
//!
//! ```text
//! a level's rules, the highest priority first ─ none ─▶ does the level isolate? ─ no ─▶ the next
//!     │                        │                                                         │
//!   allow, drop, reject       pass ─▶ the next level                      the switch's default
//! ```
//!
//! Levels are those of the operator's first tier, then the tenant's, then those of the last tier.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use logical::objects::{AllowDrop, Direction, Ethertype, Identity};
use logical::topology::{Match, Peer, Policy, PortIndex, Rule, Service, Topology, Verdict};
use packet::{Fields, Ip, Tuple};
use units::{Instant, Mac};
use wire::ip::protocol;

use crate::decision::Reason;
use crate::rule::RuleId;
use crate::state::{Change, Connection, Phase, State, Subject, What, Whose};

/// What rules say of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// It goes on; `tracked`: and so do its connection's replies.
    Allow { tracked: bool, by: Option<RuleId> },
    /// It is refused.
    Drop(Option<RuleId>),
    /// It is refused, and the sender is told.
    Reject(Option<RuleId>),
}

/// Asks every rule that holds for a port.
pub fn ask(topology: &Topology, port: PortIndex, way: Direction, subject: &Subject) -> Ruling {
    let own = &topology[port];
    let policies = topology.policies().map(|(_, policy)| policy);
    let mut policies: Vec<&Policy> = match own.is_machine() {
        true => policies.filter(|policy| policy.ports.contains(&port)).collect(),
        false => Vec::new(),
    };
    let level = |policy: &&Policy| (policy.tier, policy.level);
    policies.sort_by_key(level);
    for policies in policies.chunk_by(|one, next| level(one) == level(next)) {
        let rules = policies.iter().flat_map(|it| it.rules.iter().map(move |rule| (*it, rule)));
        let mut rules: Vec<(&Policy, &Rule)> = rules.collect();
        // Equal ones stay in the order of policies' names, and of their declaration.
        rules.sort_by_key(|(policy, rule)| (policy.order, Reverse(rule.priority)));
        let first = rules.iter().find(|(_, rule)| {
            let conditions = &rule.conditions;
            let names_kind =
                conditions.iter().any(|it| it.ethertype.is_some() || !it.services.is_empty());
            rule.direction == way
                && (!subject.is_control || names_kind)
                && conditions.iter().all(|it| holds(topology, it, subject))
        });
        let Some((policy, rule)) = first else {
            let isolates = policies.iter().any(|it| it.isolates.contains(&way));
            if !subject.is_control && isolates {
                return Ruling::Drop(None);
            }
            continue;
        };
        let by = Some(RuleId { policy: policy.id.clone(), rule: rule.name.clone() });
        match rule.verdict {
            Verdict::Allow { stateful } => return Ruling::Allow { tracked: stateful, by },
            Verdict::Drop => return Ruling::Drop(by),
            Verdict::Reject => return Ruling::Reject(by),
            Verdict::Pass => {}
        }
    }
    let default = topology[own.switch].default_action;
    let default = match way {
        Direction::FromPort => default.from_port,
        Direction::ToPort => default.to_port,
    };
    // Who lets few in and everybody out has the answers to what it asks, and the other way round.
    let is_isolated_behind = policies.iter().any(|it| it.isolates.contains(&opposite(way)));
    match default {
        AllowDrop::Drop if !subject.is_control && own.is_machine() => Ruling::Drop(None),
        _ => Ruling::Allow { tracked: is_isolated_behind, by: None },
    }
}

/// Whether all that a match says is so.
pub fn holds(topology: &Topology, it: &Match, subject: &Subject) -> bool {
    let ends = subject.tuple;
    let end = |peer: &Option<Peer>, at: Option<IpAddr>, port: Option<&Identity>| {
        peer.as_ref().is_none_or(|peer| is_among(topology, peer, at, port))
    };
    it.ethertype.is_none_or(|Ethertype(number)| number == subject.ethertype)
        && one_of_macs(&it.source_macs, subject.source_mac)
        && one_of_macs(&it.destination_macs, subject.destination_mac)
        && end(&it.source, ends.map(|it| it.source.0), subject.origin.as_ref())
        && end(&it.destination, ends.map(|it| it.destination.0), subject.target.as_ref())
        && (it.services.is_empty() || it.services.iter().any(|it| asks_for(it, subject)))
}

fn one_of_macs(listed: &[Mac], mac: Mac) -> bool {
    listed.is_empty() || listed.contains(&mac)
}

/// Whether somebody is among a peer: by its port if that is known, by its address otherwise.
fn is_among(
    topology: &Topology,
    peer: &Peer,
    address: Option<IpAddr>,
    port: Option<&Identity>,
) -> bool {
    let Some(address) = address else { return false };
    let by_port = topology.ports_of(peer).map(|index| &topology[index]).any(|it| match port {
        Some(port) => it.id == *port,
        None => it.addresses.contains(&address),
    });
    let is_named = || topology.addresses_of(peer).any(|range| range.contains(address));
    by_port || (is_named() && !peer.except.iter().any(|range| range.contains(address)))
}

fn asks_for(it: &Service, subject: &Subject) -> bool {
    let Some(ends) = subject.tuple else { return false };
    let one_of = |ranges: &[logical::objects::PortRange], port| {
        ranges.is_empty() || ranges.iter().any(|range| range.contains(port))
    };
    let icmp = |wanted: Option<u8>, is: Option<u8>| wanted.is_none() || wanted == is;
    it.protocol.0 == ends.protocol
        && one_of(&it.ports, ends.destination.1)
        && one_of(&it.source_ports, ends.source.1)
        && icmp(it.icmp_type, subject.icmp.map(|(kind, _)| kind))
        && icmp(it.icmp_code, subject.icmp.map(|(_, code)| code))
}

/// What becomes of a packet at a port.
#[derive(Clone, Debug, PartialEq)]
pub enum Passage {
    /// It goes on.
    Pass { by: Option<RuleId>, what: &'static str, changes: Vec<Change> },
    /// It is refused.
    Refuse { reason: Reason, by: Option<RuleId>, changes: Vec<Change> },
}

impl Passage {
    fn pass(by: Option<RuleId>, what: &'static str) -> Self {
        Self::Pass { by, what, changes: Vec::new() }
    }

    fn refuse(reason: Reason, by: Option<RuleId>) -> Self {
        Self::Refuse { reason, by, changes: Vec::new() }
    }
}

/// A port that a packet passes, and when.
pub struct Gate<'a> {
    pub topology: &'a Topology,
    pub state: &'a State,
    pub now: Instant,
    pub port: PortIndex,
    pub way: Direction,
    /// Whose connections are asked for.
    pub whose: Whose,
}

impl Gate<'_> {
    /// Rules and connections together.
    pub fn pass(&self, fields: &Fields, subject: &Subject) -> Passage {
        let ruling = ask(self.topology, self.port, self.way, subject);
        let is_tracked =
            self.topology[self.port].is_machine() && !subject.is_control && fields.is_unicast();
        let (Some(ip), Some(tuple)) = (fields.ip.filter(|_| is_tracked), subject.tuple) else {
            return Self::untracked(ruling);
        };
        if ip.is_error() {
            return self.error(&ip, ruling);
        }
        // Who asks is answered, and does not answer.
        let answers = ip.icmp.and_then(|icmp| match icmp.kind {
            8 | 128 => Some(false),
            0 | 129 => Some(true),
            _ => None,
        });
        let known = self.state.connection(&self.whose, tuple, answers, self.now);
        let known = known.filter(|(it, _)| !(it.phase == Phase::Closed && ip.begins()));
        match known {
            Some((connection, false)) => self.request(connection, &ip, ruling),
            Some((connection, true)) => self.reply(connection, &ip, ruling),
            None => self.first(&ip, subject, ruling),
        }
    }

    /// What keeps no connections.
    fn untracked(ruling: Ruling) -> Passage {
        match ruling {
            Ruling::Allow { by, .. } => Passage::pass(by, "allowed"),
            Ruling::Drop(by) => Passage::refuse(Reason::Policy, by),
            Ruling::Reject(by) => Passage::refuse(Reason::Rejected, by),
        }
    }

    /// What is known about who opened a connection, asked again now.
    fn still(&self, connection: &Connection) -> Ruling {
        let now = ask(self.topology, self.port, connection.opened, &connection.subject);
        match now {
            Ruling::Drop(_) | Ruling::Reject(_) if self.persists(connection) => {
                Ruling::Allow { tracked: true, by: connection.by.clone() }
            }
            now => now,
        }
    }

    /// Whether the rule that admitted a connection is still there, and keeps what it admitted.
    fn persists(&self, connection: &Connection) -> bool {
        let Some(by) = &connection.by else { return false };
        let policy = self.topology.policies().find(|(_, it)| it.id == by.policy);
        policy.is_some_and(|(_, policy)| {
            policy.persist
                && policy.ports.contains(&self.port)
                && policy.rules.iter().any(|rule| rule.name == by.rule)
        })
    }

    /// An error about a packet of a connection is allowed as the connection is.
    fn error(&self, ip: &Ip, ruling: Ruling) -> Passage {
        let quoted = ip.icmp.and_then(|icmp| icmp.quoted);
        let answers = |it: Tuple| {
            let is_echo = [protocol::ICMP, protocol::ICMPV6].contains(&it.protocol);
            is_echo.then(|| ip.icmp.is_some_and(|it| it.quotes_answer))
        };
        let known =
            quoted.and_then(|it| self.state.connection(&self.whose, it, answers(it), self.now));
        if let Some((connection, is_reply)) = known {
            // The error goes back to who sent what it quotes.
            let sent = if is_reply { opposite(connection.opened) } else { connection.opened };
            if sent != self.way {
                match self.still(connection) {
                    Ruling::Allow { tracked: true, by } => {
                        return Passage::pass(by, "related to a connection");
                    }
                    Ruling::Allow { tracked: false, .. } => {}
                    Ruling::Drop(by) | Ruling::Reject(by) => {
                        return Passage::refuse(Reason::Revoked, by);
                    }
                }
            }
        }
        match ruling {
            Ruling::Allow { tracked: true, by: Some(by) } => {
                Passage::refuse(Reason::Untracked, Some(by))
            }
            ruling => Self::untracked(ruling),
        }
    }

    /// A packet the way that the first went.
    fn request(&self, connection: &Connection, ip: &Ip, ruling: Ruling) -> Passage {
        let by = match ruling {
            Ruling::Allow { tracked: false, by } => return Passage::pass(by, "allowed"),
            Ruling::Allow { tracked: true, by } => by,
            Ruling::Drop(_) | Ruling::Reject(_) if self.persists(connection) => {
                connection.by.clone()
            }
            Ruling::Drop(by) => return Passage::refuse(Reason::Policy, by),
            Ruling::Reject(by) => {
                // The sender is told; the connection is no more.
                let gone = self.keep(connection, None);
                return Passage::Refuse { reason: Reason::Rejected, by, changes: gone };
            }
        };
        // What a default allows it allows whatever the connection is.
        if by.is_none() && !connection.takes(ip, payload(ip), false) {
            return Passage::pass(None, "allowed");
        }
        self.go_on(connection, ip, false, by)
    }

    /// A packet the other way: as the connection's first packet would be now.
    fn reply(&self, connection: &Connection, ip: &Ip, ruling: Ruling) -> Passage {
        match self.still(connection) {
            Ruling::Allow { tracked: true, by } => self.go_on(connection, ip, true, by),
            Ruling::Allow { tracked: false, .. } => Self::untracked(ruling),
            Ruling::Drop(by) | Ruling::Reject(by) => Passage::refuse(Reason::Revoked, by),
        }
    }

    fn go_on(
        &self,
        connection: &Connection,
        ip: &Ip,
        is_reply: bool,
        by: Option<RuleId>,
    ) -> Passage {
        let payload = payload(ip);
        if !connection.takes(ip, payload, is_reply) {
            return Passage::refuse(Reason::Untracked, by);
        }
        let what = if is_reply { "reply of a connection" } else { "of a connection" };
        if connection.is_of_an_older(ip, payload, is_reply) {
            return Passage::pass(by, what);
        }
        let next = connection.after(ip, payload, is_reply, self.now);
        Passage::Pass { by, what, changes: self.keep(connection, Some(next)) }
    }

    fn keep(&self, connection: &Connection, next: Option<Connection>) -> Vec<Change> {
        let tuple = connection.subject.tuple;
        let change =
            |tuple| Change(What::Connection(self.whose.clone(), tuple, next.map(Box::new)));
        tuple.map(change).into_iter().collect()
    }

    /// A packet of no connection.
    fn first(&self, ip: &Ip, subject: &Subject, ruling: Ruling) -> Passage {
        let Ruling::Allow { tracked: true, by } = ruling else { return Self::untracked(ruling) };
        match (ip.begins(), &by) {
            (true, _) => {}
            (false, Some(_)) => return Passage::refuse(Reason::Untracked, by),
            (false, None) => return Passage::pass(None, "allowed"),
        }
        let mut changes = Vec::new();
        let most = self.topology[self.port].connections.map(|it| it as usize);
        if most.is_some_and(|most| self.state.of_port(&self.whose, self.now).count() >= most) {
            // The oldest of its own that nobody has answered makes room.
            let half_open = self.state.of_port(&self.whose, self.now);
            let half_open = half_open.filter(|(_, it)| it.phase == Phase::Asked);
            let Some((oldest, _)) = half_open.min_by_key(|(_, it)| it.until) else {
                return Passage::refuse(Reason::ConnectionsFull, by);
            };
            changes.push(Change(What::Connection(self.whose.clone(), oldest, None)));
        }
        let connection = Connection::new(self.way, subject.clone(), by.clone());
        let connection = connection.after(ip, payload(ip), false, self.now);
        changes.extend(self.keep(&connection.clone(), Some(connection)));
        Passage::Pass { by, what: "first of a connection", changes }
    }
}

const fn opposite(way: Direction) -> Direction {
    match way {
        Direction::FromPort => Direction::ToPort,
        Direction::ToPort => Direction::FromPort,
    }
}

/// A TCP segment's payload, in bytes.
fn payload(ip: &Ip) -> u32 {
    let body = ip.layout.end - ip.layout.transport;
    let header = match (ip.tuple.protocol, ip.tcp) {
        (protocol::TCP, Some(header)) => header.len(),
        _ => body,
    };
    u32::try_from(body.saturating_sub(header)).unwrap_or(0)
}

//! What a port lets pass: its rules, and the connections that they admitted.

use alloc::vec::Vec;

use classifier::class::ClassId;
use conntrack::{Hit, Packet, Verdict, Way};
use logical::objects::{Direction, Identity};
use packet::{Fields, Ip, Tuple};
use units::{Instant, Mac};
use wire::ip::{Fragment, protocol};

use crate::change::Change;
use crate::flow::{Gated, Said};
use crate::net::{Net, Own, Port};
use crate::outcome::{How, Reason, Ruled};
use crate::places::RuleAt;
use crate::ports::Ports;
use crate::rules::{RuleName, Ruling, Subject, opposite};
use crate::state::State;

/// A port of this host that a packet passes, and when.
pub struct Gate<'a> {
    pub net: &'a Net,
    pub state: &'a State,
    pub now: Instant,
    pub port: &'a Port,
    /// The class of the groups that it is in.
    pub groups: ClassId,
    pub own: &'a Own,
    pub way: Direction,
}

/// What lets a packet pass.
pub struct Passed {
    /// The rule, if one did.
    pub by: Option<RuleAt>,
    /// What it is to the port.
    pub what: &'static str,
    /// What is so of all packets of its flow, if it is of one.
    pub gated: Option<Gated>,
    /// What is to be remembered.
    pub changes: Vec<Change>,
}

/// What refuses it.
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// The rule, if one did.
    pub by: Option<RuleAt>,
    /// What is to be remembered.
    pub changes: Vec<Change>,
}

/// What a packet is to its port that may be the first of its kind.
const ALLOWED: &str = "allowed";
const FIRST: &str = "first of a connection";

impl Passed {
    /// What the rule says of the packet, if one does.
    pub fn ruled(&self) -> Option<Ruled> {
        let how = match self.what {
            ALLOWED | FIRST => How::First,
            _ => How::Following,
        };
        self.by.map(|rule| Ruled { rule, how })
    }
}

impl Refused {
    /// What the rule says of the packet, if one does.
    pub fn ruled(&self) -> Option<Ruled> {
        self.by.map(|rule| Ruled { rule, how: How::Refused(self.reason) })
    }
}

type Passage = Result<Passed, Refused>;

fn pass(by: Option<RuleAt>, what: &'static str) -> Passage {
    Ok(Passed { by, what, gated: None, changes: Vec::new() })
}

fn refuse(reason: Reason, by: Option<RuleAt>) -> Passage {
    Err(Refused { reason, by, changes: Vec::new() })
}

/// What keeps no connections.
fn untracked(ruling: Ruling) -> Passage {
    match ruling {
        Ruling::Allow { by, .. } => pass(by, ALLOWED),
        Ruling::Drop(by) => refuse(Reason::Policy, by),
        Ruling::Reject(by) => refuse(Reason::Rejected, by),
    }
}

/// A connection that a packet is of.
struct Known {
    hit: Hit,
    /// Which way its first packet went.
    opened: Direction,
    /// The port that it came from, if it was about to get here.
    origin: Option<Identity>,
    /// That packet's ends.
    ends: Tuple,
    /// The rule that admitted it.
    by: Option<RuleName>,
}

impl Gate<'_> {
    /// The ends of a packet as rules see them: a later fragment has its first's. Of a packet whose
    /// fragments contradict each other there are none. And what is to be remembered of a fragment.
    pub fn ends(&self, fields: &Fields) -> (Result<Option<Tuple>, Reason>, Option<Change>) {
        let Some(ip) = fields.ip else { return (Ok(None), None) };
        let place = (self.port.id.clone(), self.way);
        let (ends, change) = self.state.fragments.ends(self.now, &place, &ip);
        (ends.map(Some), change)
    }

    /// Rules and connections together. Later fragments follow the first one's fate and change
    /// nothing.
    pub fn pass(&self, fields: &Fields, frame: &[u8], subject: &Subject<'_>) -> Passage {
        let mut gated = None;
        let mut passage = self.ask(fields, frame, subject, &mut gated);
        let is_later = fields.ip.is_some_and(|ip| ip.layout.fragment == Fragment::Later);
        if let Ok(passed) = &mut passage {
            // A line is written for the first packet of each flow.
            let logs = passed.by.is_some_and(|by| self.net.rules().get(by).log.is_some());
            let ports = if logs { Ports::Both } else { self.own.list(self.way).ports() };
            passed.gated = gated.map(|it| it.by(passed.by, ports));
            if is_later {
                passed.changes.clear();
            }
        }
        passage
    }

    fn ask(
        &self,
        fields: &Fields,
        frame: &[u8],
        subject: &Subject<'_>,
        gated: &mut Option<Gated>,
    ) -> Passage {
        let ruling = self.own.list(self.way).ask(&self.net.conditions, subject);
        let said = Said::from(&ruling);
        let is_tracked = self.port.is_machine() && !subject.is_control && fields.is_unicast();
        let (Some(ip), Some(ends)) = (fields.ip.filter(|_| is_tracked), subject.tuple) else {
            *gated = Some(Gated::alone(said));
            return untracked(ruling);
        };
        let (Some(zone), Some(packet)) =
            (self.state.zone(&self.port.id), self.packet(&ip, frame, ends))
        else {
            return untracked(ruling);
        };
        let gated = gated.insert(Gated { zone: Some(zone), ..Gated::alone(said) });
        match self.state.table.lookup(zone, &packet, self.now) {
            Verdict::Related(hit) => {
                let known = self.known(hit);
                // It goes back to who sent what it quotes.
                let goes = match hit.way {
                    Way::Original => known.opened,
                    Way::Reply => opposite(known.opened),
                };
                if goes != self.way {
                    return Self::alone(ruling);
                }
                match self.still(&known, fields) {
                    Ruling::Allow { tracked: true, by } => pass(by, "related to a connection"),
                    Ruling::Allow { tracked: false, .. } => Self::alone(ruling),
                    Ruling::Drop(by) | Ruling::Reject(by) => refuse(Reason::Revoked, by),
                }
            }
            _ if ip.is_error() => Self::alone(ruling),
            Verdict::Request(hit) => {
                gated.connection = Some((hit.id, hit.way));
                self.request(&self.known(hit), &packet, ruling)
            }
            Verdict::Reply(hit) => {
                let known = self.known(hit);
                let still = self.still(&known, fields);
                gated.connection = Some((hit.id, hit.way));
                gated.replies = Some((hit.mark, hit.stamp.rule, Said::from(&still)));
                Self::reply(&known, still, &packet, ruling)
            }
            Verdict::New => self.first(packet, subject, ruling),
            Verdict::Invalid { hit: Some(hit), .. } => {
                self.misfit(&self.known(hit), fields, ruling)
            }
            Verdict::Invalid { hit: None, .. } | Verdict::Untracked => Self::alone(ruling),
        }
    }

    /// As connections see it: a later fragment is of the flow of its first.
    fn packet(&self, ip: &Ip, frame: &[u8], ends: Tuple) -> Option<Packet> {
        match ip.layout.fragment {
            Fragment::Later => {
                let tuple = conntrack::Tuple::new(ends.protocol, ends.source, ends.destination)?;
                Some(Packet::part_of(tuple))
            }
            _ => Packet::read(frame, &ip.layout),
        }
    }

    /// What is of no connection, and cannot begin one. What a default allows it allows all the
    /// same.
    fn alone(ruling: Ruling) -> Passage {
        match ruling {
            Ruling::Allow { tracked: true, by: Some(by) } => refuse(Reason::Untracked, Some(by)),
            ruling => untracked(ruling),
        }
    }

    fn known(&self, hit: Hit) -> Known {
        let note = self.state.note(&hit);
        let ends = self.state.table.get(hit.id, self.now).map(|it| it.original);
        let tuple = ends.map(|it| Tuple {
            protocol: it.protocol(),
            source: it.source(),
            destination: it.destination(),
        });
        let nobody = (core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
        let none = Tuple { protocol: 0, source: nobody, destination: nobody };
        Known {
            hit,
            opened: note.opened,
            origin: note.origin.cloned(),
            ends: tuple.unwrap_or(none),
            by: note.rule.cloned(),
        }
    }

    /// What rules say now of a connection's first packet. Its Ethernet addresses are those of the
    /// packet at hand.
    fn still(&self, known: &Known, fields: &Fields) -> Ruling {
        let macs: [Mac; 2] = match known.opened == self.way {
            true => [fields.source, fields.destination],
            false => [fields.destination, fields.source],
        };
        let icmp = match known.ends.protocol {
            protocol::ICMP => Some((8, 0)),
            protocol::ICMPV6 => Some((128, 0)),
            _ => None,
        };
        let ethertype = match known.ends.source.0.is_ipv4() {
            true => wire::ethernet::ethertype::IPV4,
            false => wire::ethernet::ethertype::IPV6,
        };
        let (origin, target) = match known.opened {
            Direction::FromPort => (Some(self.groups), None),
            Direction::ToPort => {
                (known.origin.as_ref().map(|it| self.net.groups_of(it)), Some(self.groups))
            }
        };
        let subject = Subject {
            ethertype,
            source_mac: macs[0],
            destination_mac: macs[1],
            tuple: Some(known.ends),
            icmp,
            sender: None,
            origin,
            target,
            is_control: false,
        };
        match self.own.list(known.opened).ask(&self.net.conditions, &subject) {
            refusing @ (Ruling::Drop(_) | Ruling::Reject(_)) => match self.persists(known) {
                Some(by) => Ruling::Allow { tracked: true, by: Some(by) },
                None => refusing,
            },
            ruling => ruling,
        }
    }

    /// The rule that admitted a connection, if it is still there and keeps what it admitted.
    fn persists(&self, known: &Known) -> Option<RuleAt> {
        known.by.as_ref().and_then(|by| self.own.keeps(by))
    }

    /// A packet the way that the first went.
    fn request(&self, known: &Known, packet: &Packet, ruling: Ruling) -> Passage {
        let by = match ruling {
            Ruling::Allow { tracked: false, by } => return pass(by, ALLOWED),
            Ruling::Allow { tracked: true, by } => by,
            Ruling::Drop(_) | Ruling::Reject(_) if let Some(by) = self.persists(known) => Some(by),
            Ruling::Drop(by) => return refuse(Reason::Policy, by),
            Ruling::Reject(by) => {
                // The sender is told; the connection is no more.
                let changes = alloc::vec![Change::End(known.hit.id)];
                return Err(Refused { reason: Reason::Rejected, by, changes });
            }
        };
        let changes = alloc::vec![Change::Advance(known.hit.change(packet))];
        Ok(Passed { by, what: "of a connection", gated: None, changes })
    }

    /// A packet the other way: as the connection's first packet would be now.
    fn reply(known: &Known, still: Ruling, packet: &Packet, ruling: Ruling) -> Passage {
        match still {
            Ruling::Allow { tracked: true, by } => {
                let changes = alloc::vec![Change::Advance(known.hit.change(packet))];
                Ok(Passed { by, what: "reply of a connection", gated: None, changes })
            }
            Ruling::Allow { tracked: false, .. } => untracked(ruling),
            Ruling::Drop(by) | Ruling::Reject(by) => refuse(Reason::Revoked, by),
        }
    }

    /// A packet of a connection's flow that the connection does not take.
    fn misfit(&self, known: &Known, fields: &Fields, ruling: Ruling) -> Passage {
        match (known.hit.way, ruling) {
            (Way::Original, Ruling::Drop(_) | Ruling::Reject(_))
                if let Some(by) = self.persists(known) =>
            {
                refuse(Reason::Untracked, Some(by))
            }
            (Way::Original, ruling) => Self::alone(ruling),
            (Way::Reply, ruling) => match self.still(known, fields) {
                Ruling::Allow { tracked: true, by } => refuse(Reason::Untracked, by),
                Ruling::Allow { tracked: false, .. } => untracked(ruling),
                Ruling::Drop(by) | Ruling::Reject(by) => refuse(Reason::Revoked, by),
            },
        }
    }

    /// A packet that can begin a connection.
    fn first(&self, packet: Packet, subject: &Subject<'_>, ruling: Ruling) -> Passage {
        let Ruling::Allow { tracked: true, by } = ruling else { return untracked(ruling) };
        let Some(zone) = self.state.zone(&self.port.id) else { return pass(by, ALLOWED) };
        if self.state.table.room(zone).is_err() {
            return refuse(Reason::ConnectionsFull, by);
        }
        let begin = Change::Begin {
            zone,
            packet,
            opened: self.way,
            origin: subject.sender.cloned().filter(|_| self.way == Direction::ToPort),
            rule: by.map(|at| self.net.rule(at).clone()),
        };
        let changes = alloc::vec![begin];
        Ok(Passed { by, what: FIRST, gated: None, changes })
    }
}

//! Flows whose ends a router, or a load balancer, has changed: each is a connection of a zone of
//! its own, whose two tuples are not each other's reverse.
//!
//! What passes here is translated if its flow is known, whatever it says: whether a segment is of
//! its connection is for its ends to judge.

use core::net::IpAddr;

use conntrack::{Begin, Connection, Hit, Id, Kind, Packet, Stamp, Verdict, Way, Zone};
use logical::objects::PortRange;
use packet::{Ip, Tuple};
use units::Instant;
use wire::ip::protocol;

use crate::change::Change;
use crate::outcome::Reason;
use crate::state::State;

/// How many ports are tried for a flow whose own is taken.
const TRIES: usize = 512;

/// The flows of a place that translates.
#[derive(Clone, Copy)]
pub struct Flows<'a> {
    pub state: &'a State,
    pub now: Instant,
    /// `None`: it has none here.
    pub zone: Option<Zone>,
}

/// A flow that is known.
pub struct Known {
    hit: Hit,
    connection: Connection,
    /// The other ends of a packet of it.
    pub other: Tuple,
}

fn told(it: conntrack::Tuple) -> Tuple {
    Tuple { protocol: it.protocol(), source: it.source(), destination: it.destination() }
}

fn kept(it: Tuple) -> Option<conntrack::Tuple> {
    conntrack::Tuple::new(it.protocol, it.source, it.destination)
}

impl Known {
    /// The connection that it is, and which way the packet goes in it.
    pub const fn connection(&self) -> (Id, Way) {
        (self.hit.id, self.hit.way)
    }

    /// Whether packets go as its first one went.
    fn is_request(&self) -> bool {
        self.hit.way == Way::Original
    }

    /// Whether who asked is who serves.
    fn is_own(&self) -> bool {
        let behind = told(self.connection.reply);
        behind.source.0 == told(self.connection.original).source.0
    }
}

impl Flows<'_> {
    /// The flow of a packet with these ends.
    pub fn known(&self, tuple: Tuple) -> Option<Known> {
        let packet = Packet::part_of(kept(tuple)?);
        let (Verdict::Request(hit) | Verdict::Reply(hit) | Verdict::Invalid { hit: Some(hit), .. }) =
            self.state.table.lookup(self.zone?, &packet, self.now)
        else {
            return None;
        };
        let connection = self.state.table.get(hit.id, self.now)?;
        Some(Known { hit, connection, other: told(connection.translated(hit.way)) })
    }

    /// The flow of an answer of who serves itself.
    pub fn own_answer(&self, tuple: Tuple) -> Option<Known> {
        self.known(tuple).filter(|it| !it.is_request() && it.is_own())
    }

    /// What an error quotes, and its own ends, where it goes on: quoted, source, destination.
    pub fn error(&self, quoted: Tuple, source: IpAddr) -> Option<(Tuple, IpAddr, IpAddr)> {
        // It goes against what it quotes.
        let known = self.known(quoted.reversed())?;
        let (before, behind) =
            (told(known.connection.original), told(known.connection.reply).reversed());
        let swap = |is: IpAddr, to: IpAddr| if source == is { to } else { source };
        Some(match known.is_request() {
            false => (before, swap(behind.destination.0, before.destination.0), before.source.0),
            true => {
                (behind.reversed(), swap(before.source.0, behind.source.0), behind.destination.0)
            }
        })
    }

    /// What a packet is to its flow.
    pub fn kind(frame: &[u8], ip: &Ip) -> Kind {
        match ip.tuple.protocol {
            protocol::TCP => Packet::read(frame, &ip.layout).map_or(Kind::Other, |it| it.kind),
            protocol::ICMP | protocol::ICMPV6 if ip.begins() => Kind::Ask,
            protocol::ICMP | protocol::ICMPV6 => Kind::Answer,
            _ => Kind::Datagram,
        }
    }

    /// A packet of a known flow has passed.
    pub fn renew(&self, known: &Known, tuple: Tuple, frame: &[u8], ip: &Ip) -> Option<Change> {
        let packet = Packet { tuple: kept(tuple)?, kind: Self::kind(frame, ip) };
        let (id, way) = known.connection();
        let goes_on = || self.state.table.recall(id, way, &packet.kind, self.now).is_some();
        // One that was over may begin again.
        match known.is_request() && !goes_on() {
            true => self.keep(tuple, known.other, frame, ip),
            false => Some(Change::Advance(known.hit.change(&packet))),
        }
    }

    /// A flow is remembered by its first packet, which has these ends before and behind.
    pub fn keep(&self, before: Tuple, behind: Tuple, frame: &[u8], ip: &Ip) -> Option<Change> {
        let packet = Packet { tuple: kept(before)?, kind: Self::kind(frame, ip) };
        let begin = Begin::new(self.zone?, packet, Stamp::default());
        Some(Change::Translate(Begin { reply: kept(behind.reversed())?, ..begin }))
    }

    fn is_free(&self, behind: Tuple) -> bool {
        let Some(reply) = kept(behind.reversed()) else { return false };
        self.zone.is_none_or(|zone| self.state.table.is_free(zone, &reply, self.now))
    }

    /// A flow's ends behind, such that no other flow has them: with its own port, or with the next
    /// that is free of a range. A declared range holds for its own port, too.
    pub fn free(&self, behind: Tuple, ports: Option<PortRange>) -> Result<Tuple, Reason> {
        let own = behind.source.1;
        let is_echo = matches!(behind.protocol, protocol::ICMP | protocol::ICMPV6);
        let with = |port| Tuple {
            source: (behind.source.0, port),
            // An echo has one number for both ends.
            destination: (behind.destination.0, if is_echo { port } else { behind.destination.1 }),
            ..behind
        };
        if ports.is_none() && self.is_free(behind) {
            return Ok(behind);
        }
        if own == 0 {
            return if self.is_free(behind) { Ok(behind) } else { Err(Reason::NatFull) };
        }
        let PortRange { first, last } = ports.unwrap_or(PortRange { first: 1024, last: u16::MAX });
        let own = own.clamp(first, last);
        let all = (own..=last).chain(first..own).take(TRIES);
        all.map(with).find(|it| self.is_free(*it)).ok_or(Reason::NatFull)
    }
}

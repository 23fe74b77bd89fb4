//! Flows whose packets fare alike: what was decided of one holds for the others.
//!
//! ```text
//! packet ─▶ Head ─▶ key ─▶ what its caller remembers: a Way, a Gated
//!            │                                   │
//!            └── length, hops, checksum, control bits: looked at in each packet
//! ```
//!
//! A flow is TCP or UDP between two machines' addresses, by its Ethernet addresses and its ends.
//! Flows that differ in ports on which nothing depends can be remembered as one ([`Ports`]).
//! Everything else that the walks look at is in each packet: how long it is, through how many
//! routers it may still go, whether its header's checksum is right, and what it is to its
//! connection. Fragments, options, tags, questions to the network's own services and all other
//! protocols are of no flow: they are decided one by one.

use alloc::vec::Vec;

use conntrack::{Change, Hit, Id, Kind, Packet, Table, Verdict, Way as Goes, Zone};
use packet::rewrite::{self, NewEnds};
use units::{Dscp, Instant, Mac};
use wire::checksum::Sum;
use wire::ethernet::ethertype;
use wire::ip::{Fragment, Layout, Version, protocol};

use crate::neighbours::Via;
use crate::places::{PortAt, RuleAt};
use crate::ports::Ports;
use crate::rules::Ruling;

/// What a flow is known by, as few words as tell: the caller's own first one, addresses and ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Key {
    /// Over IPv4.
    V4([u64; 4]),
    /// Over IPv6.
    V6([u64; 7]),
}

/// A flow of TCP, in its key's first word.
const TCP: u64 = 1 << 63;

/// A key of flows that fare alike whatever their ports are, in its first word.
const SHARED: u64 = 1 << 62;

/// Where a key has the source's port, in its third word.
const SOURCE_PORT: u64 = 0xffff << 32;

/// Where it has the destination's.
const DESTINATION_PORT: u64 = 0xffff << 48;

/// Ports of UDP at which networks themselves serve, names and addresses, and at which machines are
/// told their addresses.
const SERVED: [u16; 5] = [53, 67, 68, 546, 547];

/// Ethernet's header without tags.
const NETWORK: usize = 14;

/// A frame's first bytes, all headers that are looked at among them, and how long all of it is.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The first bytes, or all.
    pub bytes: &'a [u8],
    /// How many bytes the frame has.
    pub len: usize,
}

impl<'a> From<&'a [u8]> for Start<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, len: bytes.len() }
    }
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What its flow is known by.
    pub key: Key,
    carried: u8,
    ttl: u8,
    /// Where the packet ends.
    end: usize,
}

#[inline(always)]
fn word(head: &[u8; 42], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
const fn half(head: &[u8; 42], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

impl Head {
    /// Reads a frame that comes from a place of at most 62 bits, by which its flow is told from
    /// others. `None` if it is of no flow, or too little of it is there.
    #[inline(always)]
    pub fn of(place: u64, Start { bytes: frame, len }: Start<'_>) -> Option<Self> {
        // Ethernet's header, IPv4's, and UDP's, or as much of IPv6's.
        let head: &[u8; 42] = frame.first_chunk()?;
        let first = word(head, 0);
        let length = usize::from(half(head, 16));
        let (version, carried, ttl, transport, end, ports) = match (half(head, 12), head[14]) {
            // Neither options nor fragments.
            (ethertype::IPV4, 0x45) if half(head, 20) & 0xbfff == 0 => {
                let (carried, ttl, ports) = (head[23], head[22], word(head, 34));
                (Version::V4, carried, ttl, NETWORK + 20, NETWORK + length, ports)
            }
            (ethertype::IPV6, 0x60..0x70) => {
                let length = usize::from(half(head, 18));
                let (carried, ttl) = (head[20], head[21]);
                let ports = u64::from_le_bytes(*frame.get(54..)?.first_chunk()?);
                (Version::V6, carried, ttl, NETWORK + 40, NETWORK + 40 + length, ports)
            }
            _ => return None,
        };
        if end > len || first & 1 != 0 {
            return None;
        }
        match carried {
            protocol::UDP if end >= transport + 8 => {
                if SERVED.contains(&u16::from_be_bytes([(ports >> 16) as u8, (ports >> 24) as u8]))
                {
                    return None;
                }
            }
            protocol::TCP if end >= transport + 20 => {
                // A header that is longer than the packet is malformed.
                let header = usize::from(frame.get(transport + 12)? >> 4) * 4;
                if header < 20 || transport + header > end {
                    return None;
                }
            }
            _ => return None,
        }
        let place = if carried == protocol::TCP { place | TCP } else { place };
        // The rest of the source's address, and the ports.
        let second = word(head, 8) & 0xffff_ffff | ports << 32;
        let key = match version {
            Version::V4 => Key::V4([place, first, second, word(head, NETWORK + 12)]),
            Version::V6 => {
                let addresses: &[u8; 32] = frame.get(NETWORK + 8..)?.first_chunk()?;
                let mut key = [place, first, second, 0, 0, 0, 0];
                for (word, bytes) in key[3..].iter_mut().zip(addresses.as_chunks().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
                Key::V6(key)
            }
        };
        Some(Self { key, carried, ttl, end })
    }

    /// What all flows are known by that fare as this one does, if they depend on these ports.
    #[inline(always)]
    pub const fn key_by(&self, ports: Ports) -> Key {
        let mut key = self.key;
        let (Key::V4([place, _, third, ..]) | Key::V6([place, _, third, ..])) = &mut key;
        match ports {
            Ports::Both => return key,
            Ports::Destination => *third &= !SOURCE_PORT,
            // Told from those of the port 0 by a source that has all bits.
            Ports::None => *third = (*third & !DESTINATION_PORT) | SOURCE_PORT,
        }
        *place |= SHARED;
        key
    }

    #[inline]
    const fn layout(&self) -> Layout {
        let Self { key, carried, end, .. } = *self;
        let (version, header) = match key {
            Key::V4(_) => (Version::V4, 20),
            Key::V6(_) => (Version::V6, 40),
        };
        let (network, transport, fragment) = (NETWORK, NETWORK + header, Fragment::Whole);
        Layout { version, network, transport, end, protocol: carried, fragment }
    }

    /// What it is to the connection that its flow is of.
    #[inline]
    fn kind(frame: Start<'_>) -> Option<Kind> {
        let head: &[u8; 24] = frame.bytes.first_chunk()?;
        let carried = if head[14] >> 4 == 4 { head[23] } else { head[20] };
        match carried {
            protocol::UDP => Some(Kind::Datagram),
            _ => Kind::segment(frame.bytes, &Self::of(0, frame)?.layout()),
        }
    }

    /// What it is to connections.
    #[inline]
    pub fn packet(&self, frame: &[u8]) -> Option<Packet> {
        Packet::read(frame, &self.layout())
    }
}

/// What rules say of a flow's packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    /// They pass, and no connection is begun by them.
    Allow,
    /// They pass, and so do their connection's replies.
    Track,
    /// They do not.
    Refuse,
}

impl From<&Ruling> for Said {
    fn from(ruling: &Ruling) -> Self {
        match ruling {
            Ruling::Allow { tracked: false, .. } => Self::Allow,
            Ruling::Allow { tracked: true, .. } => Self::Track,
            Ruling::Drop(_) | Ruling::Reject(_) => Self::Refuse,
        }
    }
}

/// What a port's rules say of a flow's packets, one of which has passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gated {
    /// Whose connections they may be of. `None`: none is kept of such packets.
    pub(crate) zone: Option<Zone>,
    /// What the rules of their own direction say.
    pub(crate) said: Said,
    /// The rule that let the one pass, if one did: of the connection, where it was a reply.
    pub(crate) rule: Option<RuleAt>,
    /// What the others' say, where they are replies: of connections with this mark, which this
    /// rule admitted.
    pub(crate) replies: Option<(u32, u32, Said)>,
    /// The connection that the one was of, and which way it went.
    pub(crate) connection: Option<(Id, Goes)>,
    /// The ports on which this depends.
    pub(crate) ports: Ports,
}

impl Gated {
    /// Of packets of which no connections are kept.
    pub(crate) const fn alone(said: Said) -> Self {
        let ports = Ports::Both;
        Self { zone: None, said, rule: None, replies: None, connection: None, ports }
    }

    /// By a rule, or none. `ports`: what that depends on; connections depend on both.
    pub(crate) fn by(self, rule: Option<RuleAt>, ports: Ports) -> Self {
        let begins = self.zone.is_some() && self.said != Said::Allow;
        let is_of_one = self.connection.is_some() || self.replies.is_some();
        let ports = if begins || is_of_one { Ports::Both } else { ports };
        Self { rule, ports, ..self }
    }

    /// The ports on which this depends.
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// Whether its own rules let them pass, whatever they are to connections.
    pub const fn allows(&self) -> bool {
        matches!(self.said, Said::Allow | Said::Track)
    }

    /// Whether they pass, and connections are nothing to them, until a zone without connections
    /// gets one.
    pub(crate) fn passes_alone(&self, table: &Table) -> bool {
        self.allows() && self.is_alone(table)
    }

    /// Whether connections are nothing to them: none is kept, or none is there and none begun.
    #[inline(always)]
    fn is_alone(&self, table: &Table) -> bool {
        self.zone.is_none_or(|zone| self.said == Said::Allow && table.zone_len(zone) == 0)
    }

    /// Whether one more of them passes. What it changes is put to the advances.
    #[inline(always)]
    pub(crate) fn again(
        &self,
        table: &Table,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<Change>,
    ) -> Passes {
        match self.is_alone(table) {
            true if self.allows() => Passes::Yes,
            true => Passes::Unknown,
            false => self.follows(table, frame, now, advances).unwrap_or(Passes::Unknown),
        }
    }

    /// The same of packets that are of connections, or can be.
    fn follows(
        &self,
        table: &Table,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<Change>,
    ) -> Option<Passes> {
        if let Some((id, way)) = self.connection
            && let Some(kind) = Head::kind(frame)
            && let Some(hit) = table.recall(id, way, &kind, now)
        {
            self.is_of(&hit, kind, advances)?;
            return Some(Passes::Yes);
        }
        let packet = Head::of(0, frame)?.packet(frame.bytes)?;
        match table.lookup(self.zone?, &packet, now) {
            Verdict::Request(hit) | Verdict::Reply(hit) => {
                self.is_of(&hit, packet.kind, advances)?;
                Some(Passes::By(Connection((hit.id, hit.way))))
            }
            Verdict::New | Verdict::Untracked | Verdict::Invalid { hit: None, .. } => {
                (self.said == Said::Allow).then_some(Passes::Yes)
            }
            Verdict::Related(_) | Verdict::Invalid { .. } => None,
        }
    }

    /// Lets a packet of a connection pass, if rules do.
    #[inline]
    fn is_of(&self, hit: &Hit, kind: Kind, advances: &mut Vec<Change>) -> Option<()> {
        let said = match hit.way {
            Goes::Original => self.said,
            Goes::Reply => {
                let (mark, rule, said) = self.replies?;
                // What its rule lets pass for itself alone, its own direction's have to, too.
                let is_it = (mark, rule) == (hit.mark, hit.stamp.rule)
                    && (said != Said::Allow || self.allows());
                is_it.then_some(said)?
            }
        };
        match said {
            Said::Track => advances.push(Change::Advance { id: hit.id, way: hit.way, kind }),
            Said::Allow => {}
            Said::Refuse => return None,
        }
        Some(())
    }

    /// The rule that lets them pass, if one does.
    pub const fn rule(&self) -> Option<RuleAt> {
        self.rule
    }

    /// Its packets are of this connection, so that it is found sooner.
    pub const fn note(&mut self, connection: Connection) {
        self.connection = Some(connection.0);
    }
}

/// A connection, and which way a flow's packets go in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Connection((Id, Goes));

/// Whether one more packet of a flow passes a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passes {
    /// It does.
    Yes,
    /// It does: by a connection that is to be [noted](Gated::note).
    By(Connection),
    /// Rules are to be asked.
    Unknown,
}

impl Passes {
    /// Whether rules are to be asked.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// Which way a flow's packets take from their sender's port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Way {
    /// The port that they are for.
    pub to: PortAt,
    /// What their sender's port says of them.
    pub gate: Gated,
    /// The addresses that they get there with, through how many routers, and how long they may be,
    /// from their IP header on.
    routed: Option<Routed>,
    /// What a router makes of their ends.
    translated: Option<Translated>,
    /// How they are marked.
    dscp: Option<Dscp>,
    /// The ports on which this depends.
    ports: Ports,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Routed {
    destination: Mac,
    source: Mac,
    hops: u8,
    mtu: u16,
}

impl Way {
    /// Whether a packet takes it: one that is `excess` bytes longer than the longest that it is cut
    /// into. What does not is to be decided by itself.
    #[inline]
    pub fn takes(&self, head: &Head, frame: &[u8], excess: usize) -> bool {
        self.routed.is_none_or(|routed| routed.takes(head, frame, excess))
            && (self.translated.is_none() || NewEnds::reach(&head.layout()) <= frame.len())
    }

    /// The ports on which it depends.
    #[inline]
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// Whether a router on it translates.
    #[inline]
    pub const fn translates(&self) -> bool {
        self.translated.is_some()
    }

    /// Whether its source is translated: nobody behind can tell which port packets came from.
    #[inline]
    pub fn hides_origin(&self) -> bool {
        self.translated.is_some_and(|it| it.hides_origin)
    }

    /// Whether the router that translates would still make the same of a packet's ends.
    #[inline]
    pub(crate) fn leads(&self, table: &Table, head: &Head, frame: Start<'_>, now: Instant) -> bool {
        self.translated.is_none_or(|it| it.holds(table, head, frame, now))
    }

    /// The same of a packet that is about to leave: what it changes is put to the advances.
    #[inline]
    pub(crate) fn again(
        &self,
        table: &Table,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<Change>,
    ) -> bool {
        self.translated.is_none_or(|it| it.again(table, frame, now, advances).is_some())
    }

    /// Whether packets arrive as they were sent.
    #[inline]
    pub const fn changes_nothing(&self) -> bool {
        self.routed.is_none() && self.dscp.is_none()
    }

    /// Makes a packet what it is when it gets there.
    pub fn rewrite(&self, head: &Head, frame: &mut [u8]) {
        if let Some(dscp) = self.dscp {
            rewrite::set_dscp(frame, &head.layout(), dscp);
        }
        if let Some(translated) = self.translated {
            translated.ends.set(frame, &head.layout());
        }
        if let Some(routed) = self.routed {
            rewrite::take_hops(frame, &head.layout(), routed.hops);
            rewrite::set_macs(frame, routed.destination, routed.source);
        }
    }
}

impl Routed {
    fn takes(&self, head: &Head, frame: &[u8], excess: usize) -> bool {
        let Layout { version, network, transport, end, .. } = head.layout();
        let is_right = match version {
            Version::V4 => {
                frame.get(network..transport).is_some_and(|header| Sum::of(header).checksum() == 0)
            }
            Version::V6 => true,
        };
        is_right && head.ttl > self.hops && end - network <= usize::from(self.mtu) + excess
    }
}

/// What a router makes of a flow's ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Translated {
    /// Whose flows they are.
    pub zone: Zone,
    /// The one that packets are of, and which way they go in it. `None`: they are translated by
    /// addresses alone, or not at all, as long as no flow has their ends.
    pub connection: Option<(Id, Goes)>,
    /// What they are behind the router.
    pub ends: NewEnds,
    /// Whether their source is another there.
    pub hides_origin: bool,
}

impl Translated {
    #[inline]
    fn holds(&self, table: &Table, head: &Head, frame: Start<'_>, now: Instant) -> bool {
        match self.connection {
            Some((id, _)) => table.has(id, now),
            None => {
                let is_free = |it: Packet| table.is_free(self.zone, &it.tuple, now);
                table.zone_len(self.zone) == 0 || head.packet(frame.bytes).is_some_and(is_free)
            }
        }
    }

    #[inline]
    fn again(
        &self,
        table: &Table,
        frame: Start<'_>,
        now: Instant,
        advances: &mut Vec<Change>,
    ) -> Option<()> {
        let Some((id, way)) = self.connection else {
            return self.holds(table, &Head::of(0, frame)?, frame, now).then_some(());
        };
        let kind = Head::kind(frame)?;
        table.recall(id, way, &kind, now)?;
        advances.push(Change::Advance { id, way, kind });
        Some(())
    }
}

/// A way as a walk finds it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    gate: Option<Gated>,
    to: Option<PortAt>,
    routed: Option<Routed>,
    translated: Option<Translated>,
    dscp: Option<Dscp>,
    ports: Ports,
    via: Option<Via>,
}

impl Found {
    /// The sender's port has let it pass, and marked it.
    pub fn passed(&mut self, gate: Option<Gated>, dscp: Option<Dscp>) {
        (self.gate, self.dscp) = (gate, dscp);
        self.depends_on(gate.map_or(Ports::Both, |it| it.ports));
    }

    /// It would be another one if these ports were others.
    pub fn depends_on(&mut self, ports: Ports) {
        self.ports = self.ports.max(ports);
    }

    /// A router has sent it on.
    pub fn routed(&mut self, destination: Mac, source: Mac, mtu: Option<u16>) {
        let (hops, before) = self.routed.map_or((0, u16::MAX), |it| (it.hops, it.mtu));
        let mtu = mtu.unwrap_or(u16::MAX).min(before);
        self.routed = Some(Routed { destination, source, hops: hops + 1, mtu });
    }

    /// A router that translates has sent it on. Only one on a way is remembered: what two make of a
    /// packet is decided one by one.
    pub fn translated(&mut self, by: Option<Translated>) {
        if by.is_none() || self.translated.is_some() {
            self.forget();
        }
        self.depends_on(Ports::Both);
        self.translated = by;
    }

    /// A router hands it to a neighbour that nobody declares.
    pub fn goes_via(&mut self, via: Via) {
        self.via = Some(via);
    }

    /// The neighbour that nobody declares to which a router hands it.
    pub const fn via(&self) -> Option<Via> {
        self.via
    }

    /// The one port that it is for.
    pub fn is_for(&mut self, to: PortAt) {
        self.to = Some(to);
    }

    /// It was decided by more than its flow.
    pub fn forget(&mut self) {
        self.gate = None;
    }

    /// The whole way, if it is one that others can take.
    pub fn way(self) -> Option<Way> {
        let Self { gate, to, routed, translated, dscp, ports, via: _ } = self;
        Some(Way { to: to?, gate: gate?, routed, translated, dscp, ports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of UDP over IPv4.
    fn datagram(port: u16) -> Vec<u8> {
        let mut frame = alloc::vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(9000_u16.to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    fn key(frame: &[u8]) -> Option<Key> {
        Head::of(7, frame.into()).map(|head| head.key)
    }

    #[test]
    fn a_key_has_all_that_ways_depend_on_and_nothing_else() {
        let frame = datagram(443);
        let known = key(&frame).unwrap();
        for at in 0..frame.len() {
            let mut other = frame.clone();
            other[at] ^= 0x08;
            let differs = key(&other) != Some(known);
            // Class, identification, hops, the checksum, and the rest of UDP's header.
            let may_differ = matches!(at, 15 | 18..20 | 22 | 24..26 | 38..42);
            assert_eq!(differs, !may_differ, "byte {at}");
        }
    }

    #[test]
    fn what_is_decided_one_by_one_is_of_no_flow() {
        let changed = |at: usize, byte: u8| {
            let mut frame = datagram(443);
            frame[at] = byte;
            key(&frame)
        };
        assert!(changed(0, 2).is_some());
        let all = [
            (0, 3, "for many"),
            (13, 1, "no IP"),
            (14, 0x46, "options"),
            (20, 0x20, "a first fragment"),
            (21, 1, "a later fragment"),
            (17, 29, "longer than it is"),
            (17, 27, "no whole header"),
            (23, 1, "ICMP"),
        ];
        for (at, byte, why) in all {
            assert_eq!(changed(at, byte), None, "{why}");
        }
        for port in SERVED {
            assert_eq!(key(&datagram(port)), None);
        }
        let frame = datagram(443);
        for len in 0..frame.len() {
            assert_eq!(key(&frame[..len]), None);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            cases: 2000,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..Default::default()
        })]

        /// Other ends that are made ready once are written as those of one packet are.
        #[test]
        fn a_flows_other_ends_are_those_of_each_of_its_packets(
            [a, b, c, d] in proptest::array::uniform4(0_u32..),
            [e, f, g, h] in proptest::array::uniform4(0_u16..),
            (sum, rest) in (0_u16..4, proptest::collection::vec(0_u8..=255, 12..40)),
            six in proptest::bool::ANY,
            tcp in proptest::bool::ANY,
        ) {
            let address = |last: u32| match six {
                true => core::net::Ipv6Addr::from(0xfd << 120 | u128::from(last)).into(),
                false => core::net::IpAddr::from(last.to_be_bytes()),
            };
            let carried = if tcp { protocol::TCP } else { protocol::UDP };
            let tuple = |from: u32, to: u32, source, destination| packet::Tuple {
                protocol: carried,
                source: (address(from), source),
                destination: (address(to), destination),
            };
            let (before, behind) = (tuple(a, b, e, f), tuple(c, d, g, h));
            let [ports, others] = [e, f].map(u16::to_be_bytes);
            let mut body = [&ports[..], &others, &[0; 4], &rest].concat();
            body[12] = 0x50;
            let len = (body.len() as u16).to_be_bytes();
            body[4..6].copy_from_slice(&len);
            body.resize(body.len().max(20), 0);
            let ends = (before.source.0, before.destination.0);
            let frame = wire::whole::packet((Mac([2; 6]), Mac([4; 6])), ends, carried, &body);
            let mut frame = frame.expect("a short packet");
            let fields = packet::Fields::of(&frame);
            let ip = fields.and_then(|it| it.ip).expect("it is IP");
            let place = ip.layout.transport + if tcp { 16 } else { 6 };
            if sum < 3 {
                // None, or a wrong one.
                frame[place..place + 2].copy_from_slice(&[0_u16, 0xffff, 7][usize::from(sum)].to_be_bytes());
            }
            let mut expected = frame.clone();
            rewrite::set_tuple(&mut expected, &ip, behind);
            let reach = NewEnds::reach(&ip.layout);
            NewEnds::new(ip.tuple, behind).set(&mut frame[..reach], &ip.layout);
            proptest::prop_assert_eq!(&frame, &expected);
        }

        /// Whatever is sent: what is of a flow is a whole packet, and its key has its ends.
        #[test]
        fn what_is_of_a_flow_is_a_packet_that_walks_can_read(
            changes in proptest::collection::vec((0_usize..70, 0_u8..=255), 0..4),
            (cut, grown) in (0_usize..100, 0_usize..30),
            six in proptest::bool::ANY,
            tcp in proptest::bool::ANY,
        ) {
            let mut frame = datagram(443);
            if six {
                let mut header = alloc::vec![0x60, 0, 0, 0, 0, 8, 17, 64];
                header.extend([0xfd; 31]);
                header.push(1);
                frame.splice(14..34, header);
                frame[13] = 0xdd;
                frame[12] = 0x86;
            }
            frame.extend(core::iter::repeat_n(0x50, grown));
            if tcp {
                let (at, length) = if six { (20, 19) } else { (23, 17) };
                frame[at] = 6;
                frame[length] += grown as u8;
            }
            for (at, byte) in changes {
                frame.get_mut(at).into_iter().for_each(|it| *it = byte);
            }
            frame.truncate(frame.len() - cut.saturating_sub(60).min(frame.len()));
            let head = Head::of(7, frame[..].into());
            for shown in [62, 67, 96] {
                let bytes = &frame[..frame.len().min(shown)];
                let some = Head::of(7, Start { bytes, len: frame.len() });
                let same = some.map(|it| it.key) == head.map(|it| it.key);
                proptest::prop_assert!(same || some.is_none() && shown < 67, "by {shown} bytes");
            }
            if let Some(head) = head {
                let fields = packet::Fields::of(&frame).expect("a packet");
                let ip = fields.ip.expect("it is IP");
                proptest::prop_assert_eq!(head.layout(), ip.layout);
                proptest::prop_assert_eq!(head.ttl, ip.ttl);
                proptest::prop_assert!(ip.piece.is_none() && !fields.source.0.is_empty());
                let seen = head.packet(&frame).expect("connections can read it").tuple;
                let ends = [ip.tuple.source, ip.tuple.destination];
                if seen.source().0.is_ipv4() == ends[0].0.is_ipv4() {
                    proptest::prop_assert_eq!([seen.source(), seen.destination()], ends);
                }
            }
        }
    }
}

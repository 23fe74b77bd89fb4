//! What is known of the packets before: connections, translations, fragments.
//!
//! A connection is a port's: it is known by the first packet that the port sent, or was about to
//! get. Whether it is allowed is not kept. The rules are asked again, for that first packet.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::{Direction, Identity};
use packet::fragments::Pieces;
use packet::groups::{Listener, Told};
use packet::{Ip, MOST_LEARNED, Tuple};
use units::{Instant, Mac, Span};
use wire::ip::protocol;
use wire::tcp;

use crate::neighbours::{About, Neighbour, Neighbours};
use crate::rule::RuleId;

/// What rules ask of a packet. Of a connection, its first packet's is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subject {
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
    /// The port that it came from; `None` from the outside, or once its source was translated.
    pub origin: Option<Identity>,
    /// The port that it is about to go to, if that is decided.
    pub target: Option<Identity>,
    /// Whether defaults do not speak of it.
    pub is_control: bool,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Nothing has come back.
    Asked,
    /// Something has.
    Answered,
    /// One end has sent its last (TCP's FIN).
    Closing,
    /// Both have, or one has reset it: a new one may take its place.
    Closed,
}

impl Phase {
    /// A word for it.
    const fn name(self) -> &'static str {
        match self {
            Self::Asked => "new",
            Self::Answered => "established",
            Self::Closing => "closing",
            Self::Closed => "closed",
        }
    }
}

/// What an end of a TCP connection has said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// The sequence number that comes next from it.
    pub next: u32,
    /// What it has acknowledged.
    pub acknowledged: Option<u32>,
    /// Whether it has sent its last.
    pub finished: bool,
}

/// A connection of a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// Which way its first packet went.
    pub opened: Direction,
    /// That packet.
    pub subject: Subject,
    /// The rule that allowed it.
    pub by: Option<RuleId>,
    /// How far it is.
    pub phase: Phase,
    /// Of TCP: who opened it, and who answers.
    pub ends: [End; 2],
    /// When it is forgotten.
    pub until: Instant,
}

impl Connection {
    /// What its first packet makes of it.
    pub fn new(opened: Direction, subject: Subject, by: Option<RuleId>) -> Self {
        let phase = Phase::Asked;
        Self { opened, subject, by, phase, ends: Default::default(), until: Instant::ZERO }
    }

    /// Whether a packet can be of it now. `is_reply`: it comes from who answers.
    pub fn takes(&self, ip: &Ip, payload: u32, is_reply: bool) -> bool {
        let Some(header) = ip.tcp else { return true };
        let [own, other] = self.sides(is_reply);
        let sets = |flag| header.flags.contains(flag);
        if !is_reply && self.phase == Phase::Asked {
            // Until the other side has answered there is nothing to acknowledge.
            return sets(tcp::Flags::SYN) || sets(tcp::Flags::RST);
        }
        if is_reply && self.phase == Phase::Asked {
            // RFC 9293 §3.10.7.3: a reset has to acknowledge what was asked.
            let acknowledges = header.acknowledgment.get() == other.next;
            return sets(tcp::Flags::SYN)
                || (sets(tcp::Flags::RST) && acknowledges)
                || self.is_of_an_older(ip, payload, is_reply);
        }
        if sets(tcp::Flags::RST) {
            // RFC 5961 §3.2. Windows may be scaled by up to 2^14.
            let ahead = |from: u32| header.sequence.get().wrapping_sub(from) <= 0xffff << 14;
            return other.acknowledged.map_or(header.sequence.get() == own.next, ahead);
        }
        true
    }

    /// Whether who is asked has an older connection still, and says so: it is answered with a reset
    /// (RFC 9293 §3.5.1, figure 9). Of this connection it tells nothing.
    pub fn is_of_an_older(&self, ip: &Ip, payload: u32, is_reply: bool) -> bool {
        let told = tcp::Flags::SYN | tcp::Flags::RST | tcp::Flags::FIN | tcp::Flags::ACK;
        let says = |header: tcp::Header| header.flags.0 & told.0 == tcp::Flags::ACK.0;
        is_reply && self.phase == Phase::Asked && payload == 0 && ip.tcp.is_some_and(says)
    }

    /// The ends as they stand to a packet: its sender's, and the other.
    const fn sides(&self, is_reply: bool) -> [End; 2] {
        let [opener, other] = self.ends;
        if is_reply { [other, opener] } else { [opener, other] }
    }

    /// The connection after a packet of it.
    pub fn after(&self, ip: &Ip, payload: u32, is_reply: bool, now: Instant) -> Self {
        let mut next = self.clone();
        if is_reply && self.phase == Phase::Asked {
            next.phase = Phase::Answered;
        }
        if let Some(header) = ip.tcp {
            let side = usize::from(is_reply);
            let sets = |flag| header.flags.contains(flag);
            let counts = u32::from(sets(tcp::Flags::SYN)) + u32::from(sets(tcp::Flags::FIN));
            let sequence = header.sequence.get();
            let [own, other] = self.sides(is_reply);
            if !sets(tcp::Flags::RST) {
                let end = sequence.wrapping_add(payload).wrapping_add(counts);
                let is_later = end.wrapping_sub(own.next) < 1 << 31;
                if is_later || sets(tcp::Flags::SYN) {
                    next.ends[side].next = end;
                }
                if sets(tcp::Flags::ACK) {
                    next.ends[side].acknowledged = Some(header.acknowledgment.get());
                }
                next.ends[side].finished |= sets(tcp::Flags::FIN);
                next.phase = match next.ends.map(|end| end.finished) {
                    [true, true] => Phase::Closed,
                    [false, false] => next.phase,
                    _ => Phase::Closing,
                };
            } else if sequence == own.next
                || other.acknowledged == Some(sequence)
                || self.phase == Phase::Asked
            {
                // Only the exact number resets; others are for the receiver to question.
                next.phase = Phase::Closed;
            }
        }
        next.until = now + next.patience(ip.tuple);
        next
    }

    /// How long it is remembered without a packet.
    fn patience(&self, tuple: Tuple) -> Span {
        let is_names = tuple.source.1 == 53 || tuple.destination.1 == 53;
        let seconds = match (tuple.protocol, self.phase) {
            (protocol::TCP, Phase::Answered) => 432_000,
            (protocol::TCP, _) => 120,
            (_, Phase::Answered) if !is_names => 180,
            _ => 30,
        };
        Span::from_secs(seconds)
    }
}

/// A flow whose ends a router, or a load balancer, has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Translation {
    /// The ends of its packets before.
    pub before: Tuple,
    /// The ends of its packets behind.
    pub behind: Tuple,
    /// When it is forgotten.
    pub until: Instant,
}

/// Whose memory it is: a port's or a router's; of a port that each host has, which host's.
pub type Whose = (Identity, Option<Identity>);

/// Which packet a fragment is of: by the port that sees it, and which way.
pub type FragmentOf = (Whose, Direction, u32, IpAddr, IpAddr, u8);

/// Whose meter it is: a port's answers, or a Meter's or port's lines, of a rule if not of all.
pub type MeterOf = (Identity, Option<RuleId>);

/// Where a flow came into a router: by which of its ports, from which neighbour.
pub type Path = (Identity, IpAddr);

/// What is known of the packets before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    connections: BTreeMap<(Whose, Tuple), Connection>,
    translations: BTreeMap<Whose, Vec<Translation>>,
    fragments: BTreeMap<FragmentOf, (Pieces, Instant)>,
    /// Where Ethernet addresses are, in the order in which they were learned.
    learned: Vec<((Identity, Mac), Identity)>,
    listeners: BTreeMap<Whose, Listener>,
    paths: BTreeMap<(Identity, Tuple), (Path, Instant)>,
    meters: BTreeMap<MeterOf, Instant>,
    down: Down,
    pub(crate) neighbours: Neighbours,
}

/// Backends that health checks have found down, by load balancer: their addresses and ports.
pub type Down = BTreeMap<Identity, BTreeSet<(IpAddr, u16)>>;

/// What a frame changes once it has left.
#[derive(Clone, Debug, PartialEq)]
pub struct Change(pub(crate) What);

impl Change {
    /// Whether somebody may come in by it who may not without.
    pub(crate) const fn grants(&self) -> bool {
        matches!(self.0, What::Connection(_, _, Some(_)) | What::Translation(..))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A port has this connection; `None`: no longer.
    Connection(Whose, Tuple, Option<Box<Connection>>),
    /// A router, or a load balancer for a port, translates this flow.
    Translation(Whose, Translation),
    /// So much of a packet has come in fragments.
    Fragment(FragmentOf, Pieces, Instant),
    /// A packet's fragments make room for another's.
    FragmentsGone(FragmentOf),
    /// An Ethernet address of a switch is behind a port.
    Learned(Identity, Mac, Identity),
    /// A port's machine tells of groups.
    Overheard(Whose, Told),
    /// A router's flow came in there.
    Path(Identity, Tuple, Path, Instant),
    /// A meter has nothing to give before.
    Metered(MeterOf, Instant),
    /// Something about a neighbour of a router.
    Neighbour(Neighbour, About),
}

impl State {
    /// These backends are down from now on, and all others up. Connections stay where they are.
    pub fn set_down(&mut self, down: Down) {
        self.down = down;
    }

    /// Whether a backend of a load balancer is down.
    pub(crate) fn is_down(&self, balancer: &Identity, backend: (IpAddr, u16)) -> bool {
        self.down.get(balancer).is_some_and(|down| down.contains(&backend))
    }

    /// Makes the changes of a frame that has left.
    pub fn commit(&mut self, changes: &[Change], now: Instant) {
        for Change(what) in changes.iter().cloned() {
            match what {
                What::Connection(port, tuple, Some(connection)) => {
                    let known = self.connections.get(&(port.clone(), tuple));
                    // A frame that comes back to its own sender's port begins its connection once.
                    let is_twice = known.is_some_and(|it| {
                        it.opened != connection.opened
                            && it.phase == Phase::Asked
                            && it.until == connection.until
                    });
                    if is_twice {
                        continue;
                    }
                    self.connections.insert((port, tuple), *connection);
                }
                What::Connection(port, tuple, None) => {
                    self.connections.remove(&(port, tuple));
                }
                What::Translation(place, translation) => {
                    let all = self.translations.entry(place).or_default();
                    all.retain(|it| it.before != translation.before);
                    all.push(translation);
                }
                What::Fragment(of, pieces, until) => {
                    self.fragments.insert(of, (pieces, until));
                }
                What::FragmentsGone(of) => {
                    self.fragments.remove(&of);
                }
                What::Learned(switch, mac, port) => self.learn((switch, mac), port),
                What::Overheard(port, told) => self.listeners.entry(port).or_default().hear(told),
                What::Path(router, tuple, path, until) => {
                    self.paths.insert((router, tuple), (path, until));
                }
                What::Metered(of, until) => {
                    self.meters.insert(of, until);
                }
                What::Neighbour(neighbour, about) => {
                    self.neighbours.note(neighbour, about, now);
                }
            }
        }
    }

    fn learn(&mut self, address: (Identity, Mac), port: Identity) {
        if self.learned.iter().any(|(it, at)| *it == address && *at == port) {
            return;
        }
        self.learned.retain(|(it, _)| *it != address);
        let own = || self.learned.iter().enumerate().filter(|(_, (_, at))| *at == port);
        if own().count() >= MOST_LEARNED
            && let Some((first, _)) = own().next()
        {
            self.learned.remove(first);
        }
        self.learned.push((address, port));
    }

    /// Forgets the connections, the packets in fragments, the groups, and the addresses behind
    /// them, of ports that are there no longer.
    pub fn retain(&mut self, is_there: impl Fn(&Identity) -> bool) {
        self.connections.retain(|(port, _), _| is_there(&port.0));
        self.fragments.retain(|(port, ..), _| is_there(&port.0));
        self.listeners.retain(|port, _| is_there(&port.0));
        self.learned.retain(|(_, port)| is_there(port));
    }

    /// When something is to be done about neighbours of routers.
    pub fn neighbours_due(&self) -> Option<Instant> {
        self.neighbours.due()
    }

    /// How many connections a port has.
    pub fn connections(&self, port: &Identity, now: Instant) -> usize {
        self.of(port, now).count()
    }

    /// A port's connections, on all hosts that have it: the ends of each one's first packet, and
    /// how far it is, in a word.
    pub fn of(&self, port: &Identity, now: Instant) -> impl Iterator<Item = (Tuple, &'static str)> {
        let all = self.connections.iter().filter(move |(((it, _), _), _)| it == port);
        let all = all.map(|((_, tuple), it)| (*tuple, it)).filter(move |(_, it)| it.until > now);
        all.map(|(tuple, it)| (tuple, it.phase.name()))
    }

    pub(crate) fn of_port(
        &self,
        port: &Whose,
        now: Instant,
    ) -> impl Iterator<Item = (Tuple, &Connection)> {
        let own = self.connections.iter().filter(move |((it, _), _)| it == port);
        own.map(|((_, tuple), it)| (*tuple, it)).filter(move |(_, it)| it.until > now)
    }

    /// A port's connection of a flow, and whether the flow goes the other way. Of an echo only one
    /// of the two can be, by what the packet is: `Some(true)`, an answer.
    pub(crate) fn connection(
        &self,
        port: &Whose,
        tuple: Tuple,
        answers: Option<bool>,
        now: Instant,
    ) -> Option<(&Connection, bool)> {
        let find = |tuple| {
            self.connections.get(&(port.clone(), tuple)).filter(|it: &&Connection| it.until > now)
        };
        let own = || find(tuple).map(|it| (it, false));
        let others = || find(tuple.reversed()).map(|it| (it, true));
        match answers {
            None => own().or_else(others),
            Some(false) => own(),
            Some(true) => others(),
        }
    }

    pub(crate) fn translations(
        &self,
        place: &Whose,
        now: Instant,
    ) -> impl Iterator<Item = &Translation> {
        self.translations.get(place).into_iter().flatten().filter(move |it| it.until > now)
    }

    /// What is known of a packet that comes in fragments, and until when.
    pub(crate) fn fragment(&self, of: &FragmentOf, now: Instant) -> Option<&(Pieces, Instant)> {
        self.fragments.get(of).filter(|(_, until)| *until > now)
    }

    /// What is known of packets in fragments that pass the place of one, as it does.
    pub(crate) fn fragments(
        &self,
        (place, way, ..): &FragmentOf,
        now: Instant,
    ) -> impl Iterator<Item = (&FragmentOf, &(Pieces, Instant))> {
        let own = self.fragments.iter().filter(move |(it, _)| it.0 == *place && it.1 == *way);
        own.filter(move |(_, (_, until))| *until > now)
    }

    /// Whether a port's machine listens to a group.
    pub(crate) fn wants(&self, port: &Whose, group: IpAddr) -> bool {
        self.listeners.get(port).is_some_and(|it| it.wants(group))
    }

    /// Where a flow came into a router.
    pub(crate) fn path(&self, router: &Identity, tuple: Tuple, now: Instant) -> Option<&Path> {
        let found = self.paths.get(&(router.clone(), tuple));
        found.filter(|(_, until)| *until > now).map(|(path, _)| path)
    }

    /// How far a meter is used up.
    pub(crate) fn metered(&self, of: &MeterOf) -> Option<Instant> {
        self.meters.get(of).copied()
    }

    pub(crate) fn learned(&self, switch: &Identity, mac: Mac) -> Option<&Identity> {
        let found = self.learned.iter().find(|((at, it), _)| at == switch && *it == mac);
        found.map(|(_, port)| port)
    }
}

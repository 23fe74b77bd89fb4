//! The walk of a frame: from its port, through switches and routers, to whoever gets it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use logical::objects::{Broadcast, Direction, Identity, UnknownUnicast};
use logical::topology::{
    Attachment, Link, NodeIndex, Port, PortIndex, RouterPortIndex, SwitchIndex, Topology,
};
use packet::answer::{self, Error};
use packet::relay::Back;
use packet::{Fields, Ip, Tuple, rewrite};
use units::{Class, Instant, Mac, Span};
use wire::ip::{Fragment, Version, protocol};
use wire::{arp, ethernet, neighbor};
use zerocopy::IntoBytes;

use crate::decision::{Copy, Decision, Reason, Refusal, Step};
use crate::nat::Place;
use crate::policy::{Gate, Passage};
use crate::relay;
use crate::route::{self, Way};
use crate::rule::RuleId;
use crate::security;
use crate::service;
use crate::state::{Change, FragmentOf, State, Subject, What};

/// Through how many routers a packet may go.
const MOST_ROUTERS: usize = 16;

/// How long a packet's ends are remembered for its later fragments.
const FRAGMENTS: Span = Span::from_secs(5);

/// A frame at its port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The port whose machine sends it.
    pub port: PortIndex,
    /// The host where that is, for ports that are the same on each.
    pub node: Option<NodeIndex>,
    /// The frame, with no more to be done by a card: checksums are there.
    pub frame: &'a [u8],
}

/// Decides what becomes of a frame. Nothing changes by that but what is returned.
pub fn decide(topology: &Topology, state: &State, now: Instant, arrival: Arrival<'_>) -> Decision {
    let mut walk = Walk {
        topology,
        state,
        now,
        origin: arrival.port,
        node: arrival.node.or(topology[arrival.port].node),
        sent: arrival.frame.to_vec(),
        decision: Decision::default(),
    };
    if let Err(stop) = walk.arrive(arrival.port, arrival.frame) {
        walk.refuse(*stop, None);
    }
    if walk.decision.delivered.is_empty() {
        walk.undo(0);
    }
    walk.decision
}

/// Why, where and by whom a frame goes no further.
type Stop = Box<Refusal>;

/// A frame underway.
#[derive(Clone)]
struct Underway {
    frame: Vec<u8>,
    fields: Fields,
    subject: Subject,
    /// How many routers it has come through.
    routers: usize,
    /// Whether the network itself sends it on to a machine: defaults do not speak of it.
    is_networks: bool,
}

struct Walk<'a> {
    topology: &'a Topology,
    state: &'a State,
    now: Instant,
    origin: PortIndex,
    node: Option<NodeIndex>,
    /// The frame as its sender wrote it, without a child's tag: what answers are about.
    sent: Vec<u8>,
    decision: Decision,
}

impl Walk<'_> {
    fn step(&mut self, at: &Identity, stage: &'static str, by: Option<String>, what: &str) {
        self.decision.trace.push(Step { at: at.clone(), stage, by, what: what.to_string() });
    }

    fn stop(reason: Reason, at: &Identity) -> Stop {
        Box::new(Refusal { reason, at: at.clone(), by: None, to: None })
    }

    fn refuse(&mut self, stop: Refusal, to: Option<PortIndex>) {
        let Refusal { reason, at, by, .. } = stop;
        let what = alloc::format!("refused: {}", reason.name());
        self.step(&at, "verdict", by.as_ref().map(RuleId::to_string), &what);
        self.decision.refused.push(Refusal { reason, at, by, to });
    }

    /// Of a frame that is refused in the end, what was to be remembered since then lets nobody in.
    fn undo(&mut self, from: usize) {
        let mut place = 0;
        self.decision.changes.retain(|change| {
            place += 1;
            place <= from || !change.grants()
        });
    }

    /// Something goes back to the sender, past all rules.
    fn answer(&mut self, frame: Option<Vec<u8>>) {
        let Some(frame) = frame else { return };
        let copy = self.wrap(self.origin, frame);
        self.decision.answers.push(copy);
    }

    /// A frame as a port's machine gets it: a child's with its tag.
    fn wrap(&self, port: PortIndex, frame: Vec<u8>) -> Copy {
        match self.topology[port].attachment {
            Attachment::Child { vlan, .. } => {
                let tag = ethernet::Tag { class: Class::default(), vlan };
                Copy { port, frame: ethernet::tagged(&frame, tag) }
            }
            _ => Copy { port, frame },
        }
    }

    /// From the port to its switch.
    fn arrive(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), Stop> {
        let topology = self.topology;
        let (port, frame) = self.admit(port, frame)?;
        let own = &topology[port];
        self.origin = port;
        self.sent = frame.clone();
        let malformed = || Self::stop(Reason::Malformed, &own.id);
        let fields = Fields::of(&frame).ok_or_else(malformed)?;
        if fields.source.is_multicast() || fields.source == Mac([0; 6]) {
            return Err(malformed());
        }
        security::check_source(own, &fields, &frame)
            .map_err(|reason| Self::stop(reason, &own.id))?;
        self.step(&own.id, "port security", None, "its own addresses");
        self.learn(own, &fields)?;
        let origin = match own.attachment {
            Attachment::Provider | Attachment::L2Gateway { .. } => None,
            _ => Some(own.id.clone()),
        };
        let subject = self.subject(port, Direction::FromPort, &fields, origin)?;
        let mut under = Underway { frame, fields, subject, routers: 0, is_networks: false };
        self.gate(port, Direction::FromPort, &under)?;
        self.balance(port, &mut under)?;
        self.forward(own.switch, Some(port), under)
    }

    /// Whether a port sends at all, and which of its children it is.
    fn admit(&self, port: PortIndex, frame: &[u8]) -> Result<(PortIndex, Vec<u8>), Stop> {
        let own = &self.topology[port];
        let stop = |reason| Err(Self::stop(reason, &own.id));
        let Some((header, _)) = ethernet::Header::parse(frame) else {
            return stop(Reason::Malformed);
        };
        let is_tagged = matches!(
            header.ethertype.get(),
            ethernet::ethertype::VLAN | ethernet::ethertype::SERVICE_VLAN
        );
        let (port, frame) = if is_tagged {
            let Some((tag, inner)) = ethernet::untagged(frame) else {
                return stop(Reason::Malformed);
            };
            let vlan = tag.vlan;
            let parent = match own.attachment {
                Attachment::Child { parent, .. } => parent,
                _ => port,
            };
            let is_it = |it: &Port| it.attachment == Attachment::Child { parent, vlan };
            let Some((child, _)) = self.topology.ports().find(|(_, it)| is_it(it)) else {
                return stop(Reason::Vlan);
            };
            (child, inner)
        } else {
            (port, frame.to_vec())
        };
        let own = &self.topology[port];
        if !own.enabled || !self.topology[own.switch].enabled {
            return Err(Self::stop(Reason::Disabled, &own.id));
        }
        Ok((port, frame))
    }

    /// An address that nobody declared is behind the port that it comes from.
    fn learn(&mut self, port: &Port, fields: &Fields) -> Result<(), Stop> {
        let switch = &self.topology[port.switch];
        if !switch.mac_learning || !port.unknown || fields.source == port.mac {
            return Ok(());
        }
        if self.owner(port.switch, fields.source).is_some() {
            return Err(Self::stop(Reason::Spoofed, &port.id));
        }
        let learned = What::Learned(switch.id.clone(), fields.source, port.id.clone());
        self.decision.changes.push(Change(learned));
        Ok(())
    }

    /// What rules ask of a packet at a port. A later fragment has its first's ports.
    fn subject(
        &mut self,
        port: PortIndex,
        way: Direction,
        fields: &Fields,
        origin: Option<Identity>,
    ) -> Result<Subject, Stop> {
        let own = &self.topology[port].id;
        let mut tuple = fields.ip.map(|ip| ip.tuple);
        if let (Some(ip), Some(ends)) = (fields.ip, tuple) {
            let of: FragmentOf = (
                own.clone(),
                way,
                ip.identification,
                ends.source.0,
                ends.destination.0,
                ends.protocol,
            );
            match ip.layout.fragment {
                Fragment::Whole => {}
                Fragment::First => {
                    let until = self.now + FRAGMENTS;
                    self.decision.changes.push(Change(What::Fragment(of, ends, until)));
                }
                Fragment::Later => {
                    let known = self.state.fragment(&of, self.now);
                    tuple = Some(known.ok_or_else(|| Self::stop(Reason::Fragment, own))?);
                }
            }
        }
        Ok(Subject {
            ethertype: fields.ethertype,
            source_mac: fields.source,
            destination_mac: fields.destination,
            tuple,
            icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
            origin,
            target: (way == Direction::ToPort).then(|| own.clone()),
            is_control: fields.is_control(),
        })
    }

    /// Rules and connections of a port.
    fn gate(&mut self, port: PortIndex, way: Direction, under: &Underway) -> Result<(), Stop> {
        let gate = Gate { topology: self.topology, state: self.state, now: self.now, port, way };
        let stage = match way {
            Direction::FromPort => "from-port rules",
            Direction::ToPort => "to-port rules",
        };
        let id = &self.topology[port].id;
        // Later fragments follow the first one's fate and change nothing.
        let is_later = under.fields.ip.is_some_and(|ip| ip.layout.fragment == Fragment::Later);
        match gate.pass(&under.fields, &under.subject) {
            Passage::Pass { by, what, changes } => {
                self.step(id, stage, by.map(|by| by.to_string()), what);
                self.decision.changes.extend(changes.into_iter().filter(|_| !is_later));
                Ok(())
            }
            Passage::Refuse { reason, by, changes } => {
                self.decision.changes.extend(changes);
                if reason == Reason::Rejected {
                    self.answer(answer::reject(&self.sent));
                }
                Err(Box::new(Refusal { reason, at: id.clone(), by, to: None }))
            }
        }
    }

    /// Load balancers of the sender's switch.
    fn balance(&mut self, port: PortIndex, under: &mut Underway) -> Result<(), Stop> {
        let (topology, own) = (self.topology, &self.topology[port]);
        let Some(ip) = under.fields.ip.filter(|ip| ip.layout.fragment == Fragment::Whole) else {
            return Ok(());
        };
        let place = Place { topology, state: self.state, now: self.now, id: &own.id };
        if let Some(back) = place.own_answer(ip.tuple) {
            // Who serves itself has asked the address, and the address answers.
            self.decision.changes.extend(place.renew(ip.tuple));
            rewrite::set_tuple(&mut under.frame, &ip, back);
            under.subject.tuple = Some(back);
            self.step(&own.id, "load balancer", None, "back to who asked");
            return self.read_again(under, own);
        }
        for (_, balancer) in topology.balancers() {
            if !balancer.switches.contains(&own.switch) {
                continue;
            }
            let Some(chosen) = place.balance(balancer, ip.tuple) else { continue };
            let known = place.known(ip.tuple);
            let chosen = match (known, chosen) {
                (Some(known), _) => known,
                (None, Ok(_)) if !ip.begins() => {
                    return Err(Self::stop(Reason::Untracked, &balancer.id));
                }
                (None, Ok(chosen)) => chosen,
                (None, Err(reason)) => {
                    if balancer.reject {
                        self.answer(answer::reject(&self.sent));
                    }
                    return Err(Self::stop(reason, &balancer.id));
                }
            };
            self.decision.changes.push(place.keep(ip.tuple, chosen));
            rewrite::set_tuple(&mut under.frame, &ip, chosen);
            under.subject.tuple = Some(chosen);
            let what = alloc::format!("to {}", chosen.destination.0);
            self.step(&balancer.id, "load balancer", None, &what);
            return self.read_again(under, own);
        }
        Ok(())
    }

    /// The fields of a frame that was rewritten.
    fn read_again(&self, under: &mut Underway, at: &Port) -> Result<(), Stop> {
        let fields = Fields::of(&under.frame);
        under.fields = fields.ok_or_else(|| Self::stop(Reason::Malformed, &at.id))?;
        Ok(())
    }

    /// Who declares an Ethernet address in a switch.
    fn owner(&self, switch: SwitchIndex, mac: Mac) -> Option<PortIndex> {
        let ports = self.topology[switch].ports.iter();
        let is_translations = |port: &Port| match port.attachment {
            Attachment::Router(router) => self.has_external(router, mac),
            _ => false,
        };
        let is_its = |port: &Port| port.mac == mac || is_translations(port);
        ports.copied().find(|port| is_its(&self.topology[*port]))
    }

    /// Whether a translation of a router has an Ethernet address of its own on a port's link.
    fn has_external(&self, port: RouterPortIndex, mac: Mac) -> bool {
        let port = &self.topology[port];
        let nats = self.topology[port.router].nats.iter().map(|nat| &self.topology[*nat]);
        let mut nats = nats.filter(|nat| nat.external_mac == Some(mac));
        nats.any(|nat| port.reaches(nat.external.first()))
    }

    /// Whether a port can get frames here: a `local` one only on the sender's host.
    fn is_here(&self, port: PortIndex) -> bool {
        let is_local = |port: PortIndex| self.topology[port].attachment == Attachment::Local;
        let elsewhere = |node: Option<NodeIndex>| node.is_some() && node != self.node;
        let from_local = is_local(self.origin) && elsewhere(self.topology[port].node);
        self.topology[port].enabled && !from_local
    }

    /// In a switch: answers what it can, and finds out who gets the frame.
    fn forward(
        &mut self,
        switch: SwitchIndex,
        from: Option<PortIndex>,
        under: Underway,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let own = &topology[switch];
        let to = under.fields.destination;
        if let Some(port) = from {
            self.serve(port, &under)?;
        }
        if to.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && to.0[5] <= 0x0f {
            return Err(Self::stop(Reason::Reserved, &own.id));
        }
        if !to.is_multicast() {
            if let Some(frame) = from.and_then(|port| self.own_server(port, &under)) {
                self.step(&own.id, "neighbour answer", None, "the network's own server");
                self.answer(Some(frame));
                return Err(Self::stop(Reason::Answered, &own.id));
            }
            let port = match self.owner(switch, to) {
                Some(port) => port,
                None => match self.learned(switch, to) {
                    Some(port) => port,
                    None => return self.flood_unknown(switch, from, under),
                },
            };
            if Some(port) == from {
                return Err(Self::stop(Reason::Hairpin, &own.id));
            }
            self.step(&own.id, "destination", None, &topology[port].id.to_string());
            return match topology[port].attachment {
                Attachment::Router(_) if !topology[port].enabled => {
                    Err(Self::stop(Reason::Disabled, &topology[port].id))
                }
                Attachment::Router(router) => self.enter(router, under),
                _ => self.leave(port, under),
            };
        }
        if let Some(asked) = question(&under) {
            match self.responder(switch, from, asked, &under) {
                Answer::Made(frame) => {
                    self.step(&own.id, "neighbour answer", None, &asked.to_string());
                    self.answer(Some(frame));
                    return Err(Self::stop(Reason::Answered, &own.id));
                }
                Answer::Router => return Err(Self::stop(Reason::Unknown, &own.id)),
                Answer::None => {}
            }
        }
        if self.relay(switch, &under) {
            return Ok(());
        }
        if to == Mac::BROADCAST && own.broadcast == Broadcast::Suppressed {
            return Err(Self::stop(Reason::Unknown, &own.id));
        }
        self.step(&own.id, "destination", None, "everybody");
        let is_machine =
            |port: &PortIndex| !matches!(topology[*port].attachment, Attachment::Router(_));
        let others = own.ports.iter().copied().filter(|port| Some(*port) != from);
        self.copies(others.filter(is_machine).collect(), under);
        Ok(())
    }

    /// What the network itself serves to a machine at its port.
    fn serve(&mut self, port: PortIndex, under: &Underway) -> Result<(), Stop> {
        let own = &self.topology[port];
        let served = service::serve(self.topology, port, &under.fields, &under.frame);
        let Some(served) = served else { return Ok(()) };
        let what = if served.answers.is_empty() { "heard" } else { "answered" };
        self.step(&own.id, served.stage, served.by, what);
        served.answers.into_iter().for_each(|frame| self.answer(Some(frame)));
        Err(Self::stop(Reason::Answered, &own.id))
    }

    /// Routers hand a machine's DHCP to servers elsewhere. Whether any does.
    fn relay(&mut self, switch: SwitchIndex, under: &Underway) -> bool {
        let topology = self.topology;
        let mut is_relayed = false;
        for at in &topology[switch].ports {
            let Attachment::Router(index) = topology[*at].attachment else { continue };
            let port = &topology[index];
            let is_up = topology[*at].enabled && port.enabled && topology[port.router].enabled;
            let requests = match is_up && under.routers == 0 {
                true => relay::requests(port, &under.fields, &under.frame),
                false => Vec::new(),
            };
            for frame in requests {
                let Some(fields) = Fields::of(&frame) else { continue };
                let Some(ends) = fields.ip.map(|ip| ip.tuple) else { continue };
                is_relayed = true;
                self.step(&port.id, "DHCP relay", None, &ends.destination.0.to_string());
                let subject = Subject {
                    ethertype: fields.ethertype,
                    source_mac: fields.source,
                    destination_mac: fields.destination,
                    tuple: Some(ends),
                    origin: None,
                    is_control: false,
                    ..under.subject.clone()
                };
                let is_networks = false;
                let made = Underway { frame, fields, subject, routers: 0, is_networks };
                let changes = self.decision.changes.len();
                if let Err(stop) = self.route(index, made, ends, ends, None) {
                    self.undo(changes);
                    self.refuse(*stop, None);
                }
            }
        }
        is_relayed
    }

    /// A server's answer to a router goes on to the machine that it is for.
    fn relay_back(
        &mut self,
        (port, switch, back): (RouterPortIndex, SwitchIndex, Back<'_>),
        under: &Underway,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let own = &topology[port];
        self.step(&own.id, "DHCP relay", None, "back to who asked");
        let mut machines = topology[switch].ports.iter().copied();
        let to = machines.find(|it| back.is_for(topology[*it].mac, &topology[*it].addresses));
        let to = to.ok_or_else(|| Self::stop(Reason::Unknown, &topology[switch].id))?;
        let malformed = || Self::stop(Reason::Malformed, &own.id);
        let frame = back.frame(own.mac, topology[to].mac).ok_or_else(malformed)?;
        let fields = Fields::of(&frame).ok_or_else(malformed)?;
        let subject = Subject { origin: None, ..under.subject.clone() };
        let routers = under.routers + 1;
        self.leave(to, Underway { frame, fields, subject, routers, is_networks: true })
    }

    fn learned(&self, switch: SwitchIndex, mac: Mac) -> Option<PortIndex> {
        let id = self.state.learned(&self.topology[switch].id, mac)?;
        let ports = self.topology[switch].ports.iter().copied();
        ports.into_iter().find(|port| {
            let port = &self.topology[*port];
            port.id == *id && port.unknown
        })
    }

    fn flood_unknown(
        &mut self,
        switch: SwitchIndex,
        from: Option<PortIndex>,
        under: Underway,
    ) -> Result<(), Stop> {
        let own = &self.topology[switch];
        let others = own.ports.iter().copied().filter(|port| Some(*port) != from);
        let takes = |port: &PortIndex| {
            let port = &self.topology[*port];
            port.unknown || port.attachment == Attachment::Provider
        };
        let to: Vec<_> = others.filter(takes).collect();
        if own.unknown_unicast == UnknownUnicast::Drop || to.is_empty() {
            return Err(Self::stop(Reason::Unknown, &own.id));
        }
        self.step(&own.id, "destination", None, "nobody's: all that take unknown addresses");
        self.copies(to, under);
        Ok(())
    }

    /// A copy for each, which each may refuse by itself.
    fn copies(&mut self, to: Vec<PortIndex>, under: Underway) {
        for port in to {
            let changes = self.decision.changes.len();
            if self.is_here(port)
                && let Err(stop) = self.leave(port, under.clone())
            {
                self.undo(changes);
                self.refuse(*stop, Some(port));
            }
        }
    }

    /// Who answers for an address that is asked for.
    fn responder(
        &self,
        switch: SwitchIndex,
        from: Option<PortIndex>,
        asked: IpAddr,
        under: &Underway,
    ) -> Answer {
        let topology = self.topology;
        let own = &topology[switch];
        let answer = |mac: Mac, is_router: bool| match asked {
            IpAddr::V4(_) => {
                arp::Request::parse(&under.frame).map(|it| it.answer(mac).as_bytes().to_vec())
            }
            IpAddr::V6(_) => neighbor::Solicitation::parse(&under.frame)
                .map(|it| it.answer(mac, is_router).as_bytes().to_vec()),
        };
        let made = |frame: Option<Vec<u8>>| frame.map_or(Answer::None, Answer::Made);
        for port in own.ports.iter().copied().filter(|port| Some(*port) != from) {
            let it = &self.topology[port];
            if let Attachment::Router(index) = it.attachment {
                let router = &self.topology[index];
                let is_up = router.enabled && self.topology[router.router].enabled && it.enabled;
                let is_v6_own = asked == IpAddr::V6(neighbor::link_local(router.mac));
                let own = (router.has(asked) || is_v6_own).then_some(router.mac);
                if let Some(mac) = own.or_else(|| route::external_mac(topology, index, asked)) {
                    return if is_up { made(answer(mac, true)) } else { Answer::Router };
                }
            } else if it.addresses.contains(&asked)
                && it.enabled
                && !it.unknown
                && self.is_here(port)
            {
                return made(answer(it.mac, false));
            }
        }
        // The network's own server has the address that it says it has.
        let profile = from.and_then(|port| self.topology[port].dhcp4);
        let profile = profile.and_then(|it| self.topology[it].v4.as_ref());
        if let Some(profile) = profile.filter(|it| IpAddr::V4(it.server_id) == asked) {
            return made(answer(profile.server_mac, false));
        }
        Answer::None
    }

    /// What the network's own DHCP server says when it alone is asked for its address: whoever
    /// knows it asks again so (RFC 1122 §2.3.2.1).
    fn own_server(&self, port: PortIndex, under: &Underway) -> Option<Vec<u8>> {
        let profile = self.topology[self.topology[port].dhcp4?].v4.as_ref()?;
        let asked = arp::Request::parse(&under.frame)?;
        let is_it = under.fields.destination == profile.server_mac
            && asked.target == profile.server_id
            && asked.sender.1 != asked.target;
        is_it.then(|| asked.answer(profile.server_mac).as_bytes().to_vec())
    }

    /// From a switch to a port: what it may be sent, and what its rules say.
    fn leave(&mut self, port: PortIndex, mut under: Underway) -> Result<(), Stop> {
        let own = &self.topology[port];
        if !self.is_here(port) {
            return Err(Self::stop(Reason::Disabled, &own.id));
        }
        self.unbalance(port, &mut under)?;
        let origin = under.subject.origin.clone();
        under.subject = self.subject(port, Direction::ToPort, &under.fields, origin)?;
        under.subject.is_control |= under.is_networks;
        self.gate(port, Direction::ToPort, &under)?;
        security::check_destination(own, &under.fields)
            .map_err(|reason| Self::stop(reason, &own.id))?;
        self.step(&own.id, "verdict", None, "delivered");
        let copy = self.wrap(port, under.frame);
        self.decision.delivered.push(copy);
        Ok(())
    }

    /// What comes back to a client of a load balancer comes from its address.
    fn unbalance(&mut self, port: PortIndex, under: &mut Underway) -> Result<(), Stop> {
        let own = &self.topology[port];
        let Some(ip) = under.fields.ip else { return Ok(()) };
        let place =
            Place { topology: self.topology, state: self.state, now: self.now, id: &own.id };
        if ip.is_error() {
            let quoted = ip.icmp.and_then(|icmp| icmp.quoted);
            let changed = quoted.and_then(|it| place.error(it, ip.tuple.source.0));
            if let Some((quoted, source, destination)) = changed {
                rewrite::set_quoted(&mut under.frame, &ip, quoted, source, destination);
                return self.read_again(under, own);
            }
            return Ok(());
        }
        let is_reply = |known: &Tuple| known.destination.0 == ip.tuple.destination.0;
        let Some(known) = place.known(ip.tuple).filter(is_reply) else { return Ok(()) };
        self.decision.changes.extend(place.renew(ip.tuple));
        rewrite::set_tuple(&mut under.frame, &ip, known);
        self.step(&own.id, "load balancer", None, "back from its address");
        self.read_again(under, own)
    }

    /// Into a router.
    fn enter(&mut self, port: RouterPortIndex, mut under: Underway) -> Result<(), Stop> {
        let topology = self.topology;
        let (own, router) = (&topology[port], &topology[topology[port].router]);
        let stop = |reason| Self::stop(reason, &router.id);
        if !own.enabled || !router.enabled {
            return Err(stop(Reason::Disabled));
        }
        if under.routers == MOST_ROUTERS {
            return Err(stop(Reason::Loop));
        }
        let to = under.fields.destination;
        if to != own.mac && !self.has_external(port, to) {
            return Err(stop(Reason::NotForRouter));
        }
        if let Some(asked) = question(&under) {
            return self.answer_unicast(port, asked, &under);
        }
        let Some(ip) = under.fields.ip else { return Err(stop(Reason::NotForRouter)) };
        sane(topology, port, &ip, &under.frame).map_err(stop)?;

        let place = Place { topology, state: self.state, now: self.now, id: &router.id };
        if ip.is_error()
            && let Some(quoted) = ip.icmp.and_then(|icmp| icmp.quoted)
        {
            let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
            let changed = place
                .error(quoted, source)
                .or_else(|| place.floating_error(router, quoted, source, destination));
            if let Some((quoted, source, destination)) = changed {
                rewrite::set_quoted(&mut under.frame, &ip, quoted, source, destination);
                under.fields = Fields::of(&under.frame).ok_or_else(|| stop(Reason::Malformed))?;
                self.step(&router.id, "translation", None, "an error about a translated packet");
                let ends = under.fields.ip.map(|ip| ip.tuple);
                let Some(ends) = ends else { return Err(stop(Reason::Malformed)) };
                return self.route(port, under, ends, ends, None);
            }
        }
        let before = under.subject.tuple.unwrap_or(ip.tuple);
        let mut inside = place.enter(router, &ip, before, &under.subject).map_err(|reason| {
            if reason == Reason::NoBackend {
                self.answer_if_rejecting(before);
            }
            Self::stop(reason, &router.id)
        })?;
        // Later fragments take the way of the first: their flow is known by now, or needs none.
        let is_later = ip.layout.fragment == Fragment::Later;
        inside.is_tracked &= !is_later;
        if let Some(by) = &inside.by {
            let what = alloc::format!("to {}", inside.tuple.destination.0);
            self.step(&router.id, "destination translation", Some(by.clone()), &what);
        }
        let to = inside.tuple.destination.0;
        let is_link = to == IpAddr::V6(neighbor::link_local(own.mac));
        let is_own = is_link || router.ports.iter().any(|it| topology[*it].has(to));
        if is_own {
            if let Some(back) = relay::reply(topology, router, &under.fields, &under.frame) {
                return self.relay_back(back, &under);
            }
            self.step(&router.id, "own packets", None, "for the router itself");
            let from = (own.mac, before.destination.0);
            self.answer(answer::to_self(&self.sent, from));
            return Err(stop(Reason::ToRouter));
        }
        self.route(port, under, before, inside.tuple, Some(inside))
    }

    fn answer_if_rejecting(&mut self, tuple: Tuple) {
        let is_it = |vip: IpAddr| vip == tuple.destination.0;
        if self.topology.balancers().any(|(_, it)| is_it(it.vip) && it.reject) {
            self.answer(answer::reject(&self.sent));
        }
    }

    /// A question to a router alone for one of its addresses (RFC 4861 §7.3.3).
    fn answer_unicast(
        &mut self,
        port: RouterPortIndex,
        asked: IpAddr,
        under: &Underway,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let own = &topology[port];
        let is_own = own.has(asked) || asked == IpAddr::V6(neighbor::link_local(own.mac));
        let mac = is_own.then_some(own.mac).or_else(|| route::external_mac(topology, port, asked));
        let mac = mac.ok_or_else(|| Self::stop(Reason::NotForRouter, &own.id))?;
        let frame = match asked {
            IpAddr::V4(_) => {
                arp::Request::parse(&under.frame).map(|it| it.answer(mac).as_bytes().to_vec())
            }
            IpAddr::V6(_) => neighbor::Solicitation::parse(&under.frame)
                .map(|it| it.answer(mac, true).as_bytes().to_vec()),
        };
        self.answer(frame);
        Err(Self::stop(Reason::Answered, &own.id))
    }

    /// Through a router: how far it may still go, where, how long it may be, and to whom.
    fn route(
        &mut self,
        port: RouterPortIndex,
        mut under: Underway,
        before: Tuple,
        now: Tuple,
        inside: Option<crate::nat::Inside>,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let (own, router) = (&topology[port], &topology[topology[port].router]);
        let stop = |reason| Self::stop(reason, &router.id);
        let Some(ip) = under.fields.ip else { return Err(stop(Reason::Malformed)) };
        let sender = before.source.0;
        let from = route::own_address(topology, port, sender).map(|it| (own.mac, it));
        if ip.ttl <= 1 {
            self.tell(Error::TimeToLive, from);
            return Err(stop(Reason::TimeToLive));
        }
        let (way, by) = route::find(topology, router, now, &under.subject);
        let hop = match way {
            Way::To(hop) => hop,
            Way::Discard { reject } => {
                self.step(&router.id, "routes", by, "discarded");
                if reject {
                    self.tell(Error::NoHost, from);
                }
                return Err(stop(Reason::Discarded));
            }
            Way::Drop => {
                self.step(&router.id, "route policies", by, "dropped");
                return Err(stop(Reason::Policy));
            }
            Way::None => {
                self.tell(Error::NoRoute, from);
                return Err(stop(Reason::NoRoute));
            }
        };
        let out = &topology[hop.out];
        let what = alloc::format!("by {} to {}", out.id, hop.address);
        self.step(&router.id, "routes", by, &what);
        if let Some(mtu) = out.mtu.filter(|mtu| ip.length() > usize::from(*mtu)) {
            self.tell(Error::TooLong(mtu), from);
            return Err(stop(Reason::TooLong));
        }
        let mac = match out.link {
            Link::Peer(peer) => Some(topology[peer].mac),
            link => route::switch_of(topology, link)
                .and_then(|switch| route::neighbour(topology, switch, hop.address)),
        };
        let Some(mac) = mac else {
            self.tell(Error::NoHost, from);
            return Err(stop(Reason::Unresolved));
        };
        let mut own_mac = out.mac;
        if let Some(inside) = inside {
            let place = Place { topology, state: self.state, now: self.now, id: &router.id };
            let ways = [port, hop.out];
            let (behind, by, changes) =
                place.leave(router, ways, before, &inside, &ip, &under.subject).map_err(stop)?;
            let is_later = ip.layout.fragment == Fragment::Later;
            self.decision.changes.extend(changes.into_iter().filter(|_| !is_later));
            if behind.source != before.source {
                let what = alloc::format!("from {}", behind.source.0);
                self.step(&router.id, "source translation", by, &what);
                // Whoever sees it from here on cannot tell whose it was.
                under.subject.origin = None;
                own_mac =
                    route::external_mac(topology, hop.out, behind.source.0).unwrap_or(own_mac);
            }
            if behind != before {
                rewrite::set_tuple(&mut under.frame, &ip, behind);
            }
        }
        let Some(ip) = Fields::of(&under.frame).and_then(|fields| fields.ip) else {
            return Err(stop(Reason::Malformed));
        };
        rewrite::take_hop(&mut under.frame, &ip);
        rewrite::set_macs(&mut under.frame, mac, own_mac);
        under.fields = Fields::of(&under.frame).ok_or_else(|| stop(Reason::Malformed))?;
        under.subject.tuple = under.fields.ip.map(|ip| match ip.layout.fragment {
            Fragment::Later => under.subject.tuple.unwrap_or(ip.tuple),
            _ => ip.tuple,
        });
        // The next router's policies see the frame as it gets there.
        under.subject.source_mac = under.fields.source;
        under.subject.destination_mac = under.fields.destination;
        under.routers += 1;
        match out.link {
            Link::Peer(peer) => self.enter(peer, under),
            Link::Switch(at) if topology[at].enabled && topology[topology[at].switch].enabled => {
                self.forward(topology[at].switch, Some(at), under)
            }
            Link::Switch(_) | Link::Nowhere => Err(stop(Reason::Disabled)),
        }
    }

    /// The sender is told of an error, by a router of that address.
    fn tell(&mut self, error: Error, from: Option<(Mac, IpAddr)>) {
        // The sender's own frame names the router that it knows.
        let first = Fields::of(&self.sent).map(|fields| fields.destination);
        let told = from
            .zip(first)
            .and_then(|((_, address), mac)| answer::error(&self.sent, error, (mac, address)));
        self.answer(told);
    }
}

/// Who answers a question for an address.
enum Answer {
    /// This.
    Made(Vec<u8>),
    /// A router that is switched off: nobody else is asked.
    Router,
    /// Nobody here.
    None,
}

/// The address that a frame asks for, if it is a question for one.
fn question(under: &Underway) -> Option<IpAddr> {
    if under.fields.ethertype == ethernet::ethertype::ARP {
        let request = arp::Request::parse(&under.frame)?;
        // An announcement asks nobody (RFC 5227 §2.3).
        return (request.sender.1 != request.target).then_some(request.target.into());
    }
    let asked = neighbor::Solicitation::parse(&under.frame)?.target;
    Some(IpAddr::V6(asked)).filter(|_| asked != Ipv6Addr::UNSPECIFIED)
}

/// What no router forwards (RFC 1812 §5.3.7, RFC 4291 §2.5).
fn sane(topology: &Topology, port: RouterPortIndex, ip: &Ip, frame: &[u8]) -> Result<(), Reason> {
    let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
    let router = &topology[topology[port].router];
    let is_own = router.ports.iter().any(|it| topology[*it].has(source));
    let is_nobody = source.is_unspecified() || source.is_loopback() || source.is_multicast();
    if is_nobody || is_own || matches!(source, IpAddr::V4(it) if it.is_broadcast()) {
        return Err(Reason::Martian);
    }
    if ip.layout.version == Version::V4 {
        let header = &frame[ip.layout.network..ip.layout.transport];
        if wire::checksum::Sum::of(header).checksum() != 0 {
            return Err(Reason::Malformed);
        }
    }
    let stays = match destination {
        IpAddr::V4(to) => {
            to.is_loopback() || to.is_multicast() || to.octets()[0] == 0 || to.octets()[0] >= 240
        }
        IpAddr::V6(to) => {
            let is_own = to == neighbor::link_local(topology[port].mac);
            to.is_loopback() || to.is_multicast() || (to.is_unicast_link_local() && !is_own)
        }
    };
    let is_link = matches!(source, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_to_link = matches!(destination, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_to_self = topology[port].has(destination) || is_to_link;
    if stays || (is_link && !is_to_self) || ip.tuple.protocol == protocol::IGMP {
        return Err(Reason::NotForRouter);
    }
    Ok(())
}

//! The walk of a frame at its sender's host: from its port, through switches and routers, to the
//! port that it is for.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use logical::objects::{Broadcast, Direction, Identity, Multicast, UnknownUnicast};
use packet::answer::{self, Error};
use packet::relay::{self, Back};
use packet::rewrite::{self, NewEnds};
use packet::{BALANCER, Fields, Ip, Tuple, groups};
use units::{Class, Instant, Mac};
use wire::ip::{Fragment, Version, protocol};
use wire::{arp, ethernet, neighbor};
use zerocopy::IntoBytes;

use crate::flow::{Found, Gated, Head, Translated};
use crate::flows::Known;
use crate::gate::{Gate, Passed, Refused};
use crate::guard::Guard;
use crate::net::{Leads, Net, Port, Role, Router};
use crate::onward::Onward;
use crate::outcome::{Copy, Reason, Refusal, Sent, Step, Told};
use crate::places::{PortAt, RouterAt, RouterPortAt, RuleAt, SwitchAt};
use crate::route::{Missing, Next, Way};
use crate::rules::{RuleName, Subject};
use crate::service::{self, Served};
use crate::state::State;
use crate::translate::{Inside, Outside};

/// Through how many routers a packet may go.
const MOST_ROUTERS: u8 = 16;

/// Why, where and by whom a frame goes no further.
pub type Stop = Box<Refusal>;

/// A frame underway.
#[derive(Clone)]
pub struct Underway {
    pub frame: Vec<u8>,
    pub fields: Fields,
    /// The ends as rules see them: a later fragment has its first's.
    pub tuple: Option<Tuple>,
    /// The port that it came from. `None`: from outside.
    pub origin: Option<PortAt>,
    pub routers: u8,
    pub is_networks: bool,
}

impl Underway {
    /// The same with another frame: what it says is read again.
    pub fn with(self, frame: Vec<u8>) -> Option<Self> {
        let fields = Fields::of(&frame)?;
        Some(Self { frame, fields, ..self })
    }
}

pub struct Walk<'a> {
    pub net: &'a Net,
    pub state: &'a State,
    pub now: Instant,
    /// The sender's port. `None`: its sender is another host's, or none.
    pub port: Option<PortAt>,
    /// The frame as its sender wrote it, without a child's tag: what answers are about.
    pub sent: Vec<u8>,
    /// How much longer it is than the longest packet that it is cut into later.
    pub excess: usize,
    /// Whether it is told how it came to what is decided.
    pub tells: bool,
    /// The way that all packets of its flow take.
    pub found: Found,
    /// Whether the frame says of a neighbour of a router where it is, and that is told.
    pub was_heard: bool,
    pub done: Sent,
}

impl Net {
    /// Decides what becomes of a frame that a machine of this host sends. Nothing changes by that.
    pub fn send(&self, state: &State, now: Instant, port: PortAt, frame: &[u8]) -> Sent {
        self.walk((state, now), port, frame, (0, true))
    }

    /// The same, and it is not told how it came to that. A frame that a card, or a far kernel, cuts
    /// into packets later is `excess` bytes longer than the longest of these, which has to fit
    /// where the frame goes.
    pub fn send_large(
        &self,
        state: &State,
        now: Instant,
        port: PortAt,
        frame: &[u8],
        excess: usize,
    ) -> Sent {
        self.walk((state, now), port, frame, (excess, false))
    }

    fn walk(
        &self,
        (state, now): (&State, Instant),
        port: PortAt,
        frame: &[u8],
        (excess, tells): (usize, bool),
    ) -> Sent {
        let (sent, found, done) = (Vec::new(), Found::default(), Sent::default());
        let from = Some(port);
        let was_heard = false;
        let mut walk =
            Walk { net: self, state, now, port: from, sent, excess, tells, found, was_heard, done };
        if let Err(stop) = walk.begin(port, frame) {
            walk.refuse(*stop);
        }
        if Head::of(0, frame.into()).is_some() {
            walk.done.way = walk.found.way().filter(|_| walk.done.refused.is_empty());
            walk.done.via = walk.found.via();
        }
        walk.done
    }

    /// What a machine is told of its frame that the far host rejects.
    pub fn rejected(&self, port: PortAt, frame: &[u8]) -> Option<Copy> {
        self.tell(port, frame, Told::Rejected)
    }

    pub(crate) fn stop(reason: Reason, at: &Identity) -> Stop {
        Box::new(Refusal { reason, at: at.clone(), by: None, to: None })
    }

    /// Whether a port sends at all, and which of its children it is.
    pub(crate) fn admit(&self, at: PortAt, frame: &[u8]) -> Result<(PortAt, Vec<u8>), Stop> {
        let port = &self.ports[at.at()];
        let stop = |reason| Self::stop(reason, &port.id);
        let (header, _) = ethernet::Header::parse(frame).ok_or_else(|| stop(Reason::Malformed))?;
        let is_tagged = matches!(
            header.ethertype.get(),
            ethernet::ethertype::VLAN | ethernet::ethertype::SERVICE_VLAN
        );
        let (at, frame) = match is_tagged {
            false => (at, frame.to_vec()),
            true => {
                let untagged = ethernet::untagged(frame);
                let (tag, inner) = untagged.ok_or_else(|| stop(Reason::Malformed))?;
                let own = port.own.as_ref();
                let parent = own.and_then(|own| own.parent).map_or(at, |(parent, _)| parent);
                let children = self.ports[parent.at()].own.as_ref().map(|own| &own.children);
                let child = children.and_then(|children| children.get(&tag.vlan)).copied();
                (child.ok_or_else(|| stop(Reason::Vlan))?, inner)
            }
        };
        let port = &self.ports[at.at()];
        let is_on = port.station.enabled && self.switches[port.switch.at()].row.enabled;
        if is_on { Ok((at, frame)) } else { Err(Self::stop(Reason::Disabled, &port.id)) }
    }

    /// A frame as a port's machine gets it: a child's with its tag.
    pub(crate) fn wrap(&self, port: PortAt, frame: Vec<u8>) -> Copy {
        let own = self.ports[port.at()].own.as_ref();
        match own.and_then(|own| own.parent) {
            Some((_, vlan)) => {
                let tag = ethernet::Tag { class: Class::default(), vlan };
                Copy { port, frame: ethernet::tagged(&frame, tag) }
            }
            None => Copy { port, frame },
        }
    }
}

impl Walk<'_> {
    /// Tells a step, if steps are told.
    pub fn step(&mut self, step: impl FnOnce() -> Step) {
        if self.tells {
            self.done.trace.push(step());
        }
    }

    pub fn refuse(&mut self, stop: Refusal) {
        self.step(|| {
            let by = stop.by.as_ref().map(RuleName::to_string);
            let what = alloc::format!("refused: {}", stop.reason.name());
            Step::new(&stop.at, "verdict", by, what)
        });
        self.done.refused.push(stop);
    }

    /// Something goes back to the sender, past all rules.
    fn answer(&mut self, frame: Option<Vec<u8>>) {
        let copy = frame.zip(self.port).map(|(frame, port)| self.net.wrap(port, frame));
        self.done.answers.extend(copy);
    }

    fn begin(&mut self, at: PortAt, frame: &[u8]) -> Result<(), Stop> {
        let net = self.net;
        let (at, frame) = net.admit(at, frame)?;
        let port = &net.ports[at.at()];
        let Some(own) = &port.own else { return Err(Net::stop(Reason::Disabled, &port.id)) };
        self.port = Some(at);
        self.sent.clone_from(&frame);
        let malformed = || Net::stop(Reason::Malformed, &port.id);
        let fields = Fields::of(&frame).ok_or_else(malformed)?;
        if fields.source.is_multicast() || fields.source == Mac([0; 6]) {
            return Err(malformed());
        }
        if let Some(guard) = Guard::new(&own.row, &port.station).filter(|_| port.is_machine()) {
            guard.check_sent(&fields, &frame).map_err(|it| Net::stop(it, &port.id))?;
        }
        self.step(|| Step::new(&port.id, "port security", None, "its own addresses"));
        self.learn(at, fields.source)?;
        let has_learned = !self.done.changes.is_empty();
        let origin = (!port.is_outside()).then_some(at);
        let (state, now, way) = (self.state, self.now, Direction::FromPort);
        let gate = Gate { net, state, now, port, groups: net.groups[at.at()], own, way };
        let (tuple, change) = gate.ends(&fields);
        self.done.changes.extend(change);
        let tuple = tuple.map_err(|it| Net::stop(it, &port.id))?;
        let mut under = Underway { frame, fields, tuple, origin, routers: 0, is_networks: false };
        let gated = self.gate(&gate, &under)?.filter(|_| !has_learned && origin.is_some());
        self.found.passed(gated, own.dscp.as_ref().map(|(_, dscp)| *dscp));
        self.overhear(port, &under);
        self.hear(at, &under);
        if let (Some((profile, dscp)), Some(ip)) = (&own.dscp, under.fields.ip) {
            rewrite::set_dscp(&mut under.frame, &ip.layout, *dscp);
            self.step(|| {
                let (by, what) = (profile.to_string(), alloc::format!("marked {}", dscp.number()));
                Step::new(&port.id, "QoS", Some(by), what)
            });
        }
        self.balance(port, &mut under)?;
        self.forward(port.switch, Some(at), under)
    }

    /// An address that nobody declared is behind the port that it comes from.
    fn learn(&mut self, at: PortAt, mac: Mac) -> Result<(), Stop> {
        let port = &self.net.ports[at.at()];
        let switch = &self.net.switches[port.switch.at()];
        if !switch.row.mac_learning || !port.station.unknown || mac == port.station.mac {
            return Ok(());
        }
        if self.net.owner(port.switch, mac).is_some() {
            return Err(Net::stop(Reason::Spoofed, &port.id));
        }
        let learned = crate::Change::Learned(switch.id.clone(), mac, port.id.clone());
        self.done.changes.push(learned);
        Ok(())
    }

    /// What a machine tells of the groups that it listens to, where that decides who gets them.
    fn overhear(&mut self, port: &Port, under: &Underway) {
        let switch = &self.net.switches[port.switch.at()].row;
        if switch.multicast == Multicast::Snoop && port.is_machine() {
            let told = groups::overhear(&under.fields, &under.frame).into_iter();
            let told = told.map(|it| crate::Change::Overheard(port.id.clone(), it));
            self.done.changes.extend(told);
        }
    }

    /// The rules and connections of the sender's port.
    fn gate(&mut self, gate: &Gate<'_>, under: &Underway) -> Result<Option<Gated>, Stop> {
        let subject = self.net.subject(under);
        let id = &gate.port.id;
        let passage = gate.pass(&under.fields, &under.frame, &subject);
        self.done.ruled = passage.as_ref().map_or_else(Refused::ruled, Passed::ruled);
        match passage {
            Ok(Passed { by, what, gated, changes }) => {
                let name = |by: RuleAt| self.net.rule(by).to_string();
                self.step(|| Step::new(id, "from-port rules", by.map(name), what));
                self.done.changes.extend(changes);
                Ok(gated)
            }
            Err(Refused { reason, by, changes }) => {
                self.done.changes.extend(changes);
                if reason == Reason::Rejected {
                    self.answer(answer::reject(&self.sent));
                }
                let by = by.map(|it| self.net.rule(it).clone());
                Err(Box::new(Refusal { reason, at: id.clone(), by, to: None }))
            }
        }
    }

    /// In a switch: answers what it can, and finds out who gets the frame.
    fn forward(
        &mut self,
        switch: SwitchAt,
        from: Option<PortAt>,
        under: Underway,
    ) -> Result<(), Stop> {
        let net = self.net;
        let own = &net.switches[switch.at()];
        let to = under.fields.destination;
        if let Some(at) = from {
            self.serve(at, &under)?;
        }
        if to.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && to.0[5] <= 0x0f {
            return Err(Net::stop(Reason::Reserved, &own.id));
        }
        if !to.is_multicast() {
            let asked = from.and_then(|at| {
                self.own_server(at, &under).or_else(|| self.own_balancer(switch, &under))
            });
            if let Some(frame) = asked {
                self.step(|| {
                    Step::new(&own.id, "neighbour answer", None, "the network's own server")
                });
                self.answer(Some(frame));
                return Err(Net::stop(Reason::Answered, &own.id));
            }
            let owner = net.owner(switch, to);
            if owner.is_none() {
                self.found.forget();
            }
            let Some(at) = owner.or_else(|| self.learned(switch, to)) else {
                return self.flood_unknown(switch, from, under);
            };
            if Some(at) == from {
                return Err(Net::stop(Reason::Hairpin, &own.id));
            }
            let port = &net.ports[at.at()];
            self.step(|| Step::new(&own.id, "destination", None, port.id.to_string()));
            return match port.role {
                Role::Router(_) if !port.station.enabled => {
                    Err(Net::stop(Reason::Disabled, &port.id))
                }
                Role::Router(router) => self.enter(router, under),
                _ => {
                    self.found.is_for(at);
                    self.deliver(at, &under)
                }
            };
        }
        if let Some(asked) = question(&under) {
            match self.responder(switch, from, asked, &under) {
                Answer::Made(frame) => {
                    self.step(|| Step::new(&own.id, "neighbour answer", None, asked.to_string()));
                    self.answer(Some(frame));
                    return Err(Net::stop(Reason::Answered, &own.id));
                }
                Answer::Router => return Err(Net::stop(Reason::Unknown, &own.id)),
                Answer::None => {}
            }
        }
        if self.relay(switch, &under) {
            return Ok(());
        }
        if to == Mac::BROADCAST && own.row.broadcast == Broadcast::Suppressed {
            return Err(Net::stop(Reason::Unknown, &own.id));
        }
        self.step(|| Step::new(&own.id, "destination", None, "everybody"));
        for at in own.ports.iter().copied().filter(|at| Some(*at) != from) {
            if !matches!(net.ports[at.at()].role, Role::Router(_)) {
                self.copy(at, &under);
            }
        }
        Ok(())
    }

    /// What the network itself serves to a machine at its port.
    fn serve(&mut self, at: PortAt, under: &Underway) -> Result<(), Stop> {
        let port = &self.net.ports[at.at()];
        let served = service::serve(self.net, at, &under.fields, &under.frame);
        let Some(Served { answers, stage, by }) = served else { return Ok(()) };
        let what = if answers.is_empty() { "heard" } else { "answered" };
        self.step(|| Step::new(&port.id, stage, by, what));
        answers.into_iter().for_each(|frame| self.answer(Some(frame)));
        Err(Net::stop(Reason::Answered, &port.id))
    }

    /// Routers hand a machine's DHCP to servers elsewhere. Whether any does.
    fn relay(&mut self, switch: SwitchAt, under: &Underway) -> bool {
        let net = self.net;
        let mut is_relayed = false;
        for (at, router) in net.routers_on(switch) {
            if under.routers > 0 || !net.is_up(at, router) {
                continue;
            }
            let port = &net.router_ports[router.at()];
            let servers = port.row.dhcp_relay.iter().flat_map(|it| it.servers.iter().copied());
            for server in servers.collect::<Vec<_>>() {
                let (mac, addresses) = (port.row.mac, &port.row.addresses);
                let made = relay::request(mac, addresses, server, &under.fields, &under.frame);
                let made = made.and_then(|frame| under.clone().with(frame));
                let Some((mut made, ip)) = made.and_then(|it| Some((it.clone(), it.fields.ip?)))
                else {
                    continue;
                };
                is_relayed = true;
                self.step(|| Step::new(&port.id, "DHCP relay", None, server.to_string()));
                (made.tuple, made.origin) = (Some(ip.tuple), None);
                if let Err(stop) = self.through(router, made, ip, ip.tuple, None) {
                    self.refuse(*stop);
                }
            }
        }
        is_relayed
    }

    /// A server's answer to a router goes on to the machine that it is for: from the router's port
    /// that is asked for it, if it is one that asks such servers.
    fn relay_back(
        &mut self,
        router: RouterAt,
        back: Back<'_>,
        under: &Underway,
    ) -> Option<Result<(), Stop>> {
        let net = self.net;
        let router = &net.routers[router.at()];
        let has = |at: &RouterPortAt| {
            let port = &net.router_ports[at.at()];
            port.row.enabled && port.has(back.router)
        };
        let port = &net.router_ports[router.ports.iter().copied().find(has)?.at()];
        let Leads::Switch(at) = port.leads else { return None };
        if !port.row.dhcp_relay.as_ref()?.servers.contains(&back.server) {
            return None;
        }
        self.step(|| Step::new(&port.id, "DHCP relay", None, "back to who asked"));
        let switch = &net.switches[net.ports[at.at()].switch.at()];
        let mut machines = switch.ports.iter().copied();
        let to = machines.find(|at| {
            let station = &net.ports[at.at()].station;
            back.is_for(station.mac, &station.addresses)
        });
        let Some(to) = to else { return Some(Err(Net::stop(Reason::Unknown, &switch.id))) };
        let frame = back.frame(port.row.mac, net.ports[to.at()].station.mac);
        let made = frame.and_then(|frame| under.clone().with(frame));
        let Some(made) = made else { return Some(Err(Net::stop(Reason::Malformed, &port.id))) };
        Some(self.deliver(to, &Underway { origin: None, is_networks: true, ..made }))
    }

    fn learned(&self, switch: SwitchAt, mac: Mac) -> Option<PortAt> {
        let name = self.state.learned(&self.net.switches[switch.at()].id, mac)?;
        let at = self.net.port(name)?;
        let port = &self.net.ports[at.at()];
        (port.switch == switch && port.station.unknown).then_some(at)
    }

    fn flood_unknown(
        &mut self,
        switch: SwitchAt,
        from: Option<PortAt>,
        under: Underway,
    ) -> Result<(), Stop> {
        let own = &self.net.switches[switch.at()];
        let takes = |at: &PortAt| {
            let port = &self.net.ports[at.at()];
            Some(*at) != from && (port.station.unknown || port.role == Role::Provider)
        };
        let to: Vec<_> = own.ports.iter().copied().filter(takes).collect();
        if own.row.unknown_unicast == UnknownUnicast::Drop || to.is_empty() {
            return Err(Net::stop(Reason::Unknown, &own.id));
        }
        self.step(|| {
            Step::new(&own.id, "destination", None, "nobody's: all that take unknown addresses")
        });
        to.into_iter().for_each(|at| self.copy(at, &under));
        Ok(())
    }

    /// One of several copies: who is switched off gets none.
    fn copy(&mut self, at: PortAt, under: &Underway) {
        if self.net.ports[at.at()].station.enabled && self.is_here(at) {
            self.onward(at, under);
        }
    }

    /// To one alone.
    fn deliver(&mut self, at: PortAt, under: &Underway) -> Result<(), Stop> {
        if !self.is_here(at) {
            return Err(Net::stop(Reason::Disabled, &self.net.ports[at.at()].id));
        }
        self.onward(at, under);
        Ok(())
    }

    /// Whether a port can get the sender's frames: those of a port that each host has stay on the
    /// host that they are sent at.
    fn is_here(&self, at: PortAt) -> bool {
        let from = self.port.map(|at| self.net.ports[at.at()].role);
        from != Some(Role::Local) || self.net.ports[at.at()].own.is_some()
    }

    fn onward(&mut self, at: PortAt, under: &Underway) {
        let name = |at: PortAt| self.net.ports[at.at()].id.clone();
        self.done.onward.push(Onward {
            to: name(at),
            origin: under.origin.map(name),
            is_networks: under.is_networks,
            routers: under.routers,
            frame: under.frame.clone(),
        });
    }

    /// Who answers for an address that is asked for.
    fn responder(
        &self,
        switch: SwitchAt,
        from: Option<PortAt>,
        asked: IpAddr,
        under: &Underway,
    ) -> Answer {
        let net = self.net;
        let made =
            |mac, is_router| told(&under.frame, mac, is_router).map_or(Answer::None, Answer::Made);
        let mut owners: Vec<PortAt> = net.switches[switch.at()].may_answer(asked).collect();
        let translated =
            net.routers_on(switch).filter(|it| net.external_mac(it.1, asked).is_some());
        owners.extend(translated.map(|(at, _)| at));
        owners.sort();
        for at in owners.into_iter().filter(|at| Some(*at) != from) {
            let port = &net.ports[at.at()];
            if let Role::Router(router) = port.role {
                if let Some(mac) = net.answers_for(router, asked) {
                    return if net.is_up(at, router) { made(mac, true) } else { Answer::Router };
                }
            } else if port.station.addresses.contains(&asked)
                && port.station.enabled
                && !port.station.unknown
                && self.is_here(at)
            {
                return made(port.station.mac, false);
            }
        }
        // The network's own server has the address that it says it has.
        let own = from.and_then(|at| net.ports[at.at()].own.as_ref());
        let profile = own.and_then(|own| own.dhcp4.as_ref()?.v4.as_ref());
        let is_machine = from.is_some_and(|at| net.ports[at.at()].is_machine());
        match profile.filter(|it| IpAddr::V4(it.server_id) == asked) {
            Some(profile) => made(profile.server_mac, false),
            None if is_machine && net.balances(switch, asked) => made(BALANCER, false),
            None => Answer::None,
        }
    }

    /// What the network's own DHCP server says when it alone is asked for its address.
    fn own_server(&self, at: PortAt, under: &Underway) -> Option<Vec<u8>> {
        let own = self.net.ports[at.at()].own.as_ref()?;
        let profile = own.dhcp4.as_ref()?.v4.as_ref()?;
        let asked = arp::Request::parse(&under.frame)?;
        let is_it = under.fields.destination == profile.server_mac
            && asked.target == profile.server_id
            && asked.sender.1 != asked.target;
        is_it.then(|| asked.answer(profile.server_mac).as_bytes().to_vec())
    }

    /// What a load balancer of the switch says when it alone is asked for its address.
    fn own_balancer(&self, switch: SwitchAt, under: &Underway) -> Option<Vec<u8>> {
        let asked = question(under).filter(|_| under.fields.destination == BALANCER)?;
        let is_it = self.net.balances(switch, asked);
        is_it.then(|| told(&under.frame, BALANCER, false)).flatten()
    }

    /// Into a router.
    fn enter(&mut self, at: RouterPortAt, under: Underway) -> Result<(), Stop> {
        let net = self.net;
        let port = &net.router_ports[at.at()];
        let router = &net.routers[port.router.at()];
        if router.is_symmetric || router.is_elsewhere() {
            self.found.forget();
        }
        let stop = |reason| Net::stop(reason, &router.id);
        if !port.row.enabled || !router.row.enabled {
            return Err(stop(Reason::Disabled));
        }
        if under.routers >= MOST_ROUTERS {
            return Err(stop(Reason::Loop));
        }
        let to = under.fields.destination;
        if to != port.row.mac && !net.has_external(at, to) {
            return Err(stop(Reason::NotForRouter));
        }
        if let Some(asked) = question(&under) {
            let mac = net.answers_for(at, asked);
            let mac = mac.ok_or_else(|| Net::stop(Reason::NotForRouter, &port.id))?;
            self.answer(told(&under.frame, mac, true));
            return Err(Net::stop(Reason::Answered, &port.id));
        }
        if self.was_heard {
            return Err(Net::stop(Reason::Answered, &port.id));
        }
        let Some(ip) = under.fields.ip else { return Err(stop(Reason::NotForRouter)) };
        self.check(at, &ip, &under.frame).map_err(stop)?;
        if router.is_elsewhere() {
            self.step(|| {
                Step::new(&router.id, "gateway", None, "on at the host where it keeps its flows")
            });
            let onward = self.for_router(at, &under);
            self.done.onward.push(onward);
            return Ok(());
        }
        self.translate(at, under, ip)
    }

    /// In a router: its translations, and what is for itself.
    pub fn translate(&mut self, at: RouterPortAt, mut under: Underway, ip: Ip) -> Result<(), Stop> {
        let net = self.net;
        let port = &net.router_ports[at.at()];
        let router = &net.routers[port.router.at()];
        let stop = |reason| Net::stop(reason, &router.id);
        if let Some(ends) = self.translate_error(router, &mut under, &ip)? {
            let ip = under.fields.ip.ok_or_else(|| stop(Reason::Malformed))?;
            return self.through(at, under, ip, ends, None);
        }
        let before = under.tuple.unwrap_or(ip.tuple);
        let flows = self.flows(&router.id);
        let inside = net.translate_in(router, flows, &ip, before, &net.subject(&under));
        let mut inside = inside.map_err(|reason| {
            let mut balancers = net.balancers.iter().map(|(_, it)| it);
            if reason == Reason::NoBackend
                && balancers.any(|it| it.vip == before.destination.0 && it.reject)
            {
                self.tell_sender(Told::Rejected);
            }
            stop(reason)
        })?;
        // Later fragments take the way of the first: their flow is known by now, or needs none.
        inside.is_tracked &= ip.layout.fragment != Fragment::Later;
        if let Some(by) = &inside.by {
            self.step(|| {
                let what = alloc::format!("to {}", inside.tuple.destination.0);
                Step::new(&router.id, "destination translation", Some(by.clone()), what)
            });
        }
        let to = inside.tuple.destination.0;
        let is_link = to == IpAddr::V6(neighbor::link_local(port.row.mac));
        if is_link || router.ports.iter().any(|it| net.router_ports[it.at()].has(to)) {
            if let Some(back) = Back::parse(&under.fields, &under.frame)
                && let Some(done) = self.relay_back(port.router, back, &under)
            {
                return done;
            }
            self.step(|| Step::new(&router.id, "own packets", None, "for the router itself"));
            self.tell_sender(Told::ToRouter(port.row.mac, before.destination.0));
            return Err(stop(Reason::ToRouter));
        }
        self.through(at, under, ip, before, Some(inside))
    }

    /// What no router forwards (RFC 1812 §5.3.7, RFC 4291 §2.5).
    fn check(&self, at: RouterPortAt, ip: &Ip, frame: &[u8]) -> Result<(), Reason> {
        let port = &self.net.router_ports[at.at()];
        let router = &self.net.routers[port.router.at()];
        let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
        let is_own = router.ports.iter().any(|it| self.net.router_ports[it.at()].has(source));
        let is_everybody = matches!(source, IpAddr::V4(it) if it.is_broadcast());
        let is_nobody = source.is_unspecified() || source.is_loopback() || source.is_multicast();
        if is_own || is_everybody || is_nobody {
            return Err(Reason::Martian);
        }
        let header = &frame[ip.layout.network..ip.layout.transport];
        let is_v4 = ip.layout.version == Version::V4;
        if is_v4 && wire::checksum::Sum::of(header).checksum() != 0 {
            return Err(Reason::Malformed);
        }
        let is_link = |it: IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
        let own_link = IpAddr::V6(neighbor::link_local(port.row.mac));
        let stays = match destination {
            IpAddr::V4(to) => {
                let first = to.octets()[0];
                to.is_loopback() || to.is_multicast() || first == 0 || first >= 240
            }
            IpAddr::V6(to) => {
                to.is_loopback()
                    || to.is_multicast()
                    || (is_link(destination) && destination != own_link)
            }
        };
        let is_to_self = port.has(destination) || is_link(destination);
        let stays = stays || (is_link(source) && !is_to_self);
        match stays || ip.tuple.protocol == protocol::IGMP {
            true => Err(Reason::NotForRouter),
            false => Ok(()),
        }
    }

    /// Through a router: how far it may still go, where, how long it may be, and to whom.
    fn through(
        &mut self,
        at: RouterPortAt,
        under: Underway,
        ip: Ip,
        before: Tuple,
        inside: Option<Inside>,
    ) -> Result<(), Stop> {
        let net = self.net;
        let port = &net.router_ports[at.at()];
        let router = &net.routers[port.router.at()];
        let stop = |reason| Net::stop(reason, &router.id);
        let ends = inside.as_ref().map_or(before, |it| it.tuple);
        let from = port.address_like(before.source.0);
        if ip.ttl <= 1 {
            self.tell(Error::TimeToLive, from);
            return Err(stop(Reason::TimeToLive));
        }
        let back = self.way_back(router, ends);
        let (way, by, ports) = net.route(router, ends, &net.subject(&under), back);
        self.found.depends_on(ports);
        let (address, out) = match way {
            Way::To(address, out) => (address, out),
            Way::Discard { reject } => {
                self.step(|| Step::new(&router.id, "routes", by.told(), "discarded"));
                if reject {
                    self.tell(Error::NoHost, from);
                }
                return Err(stop(Reason::Discarded));
            }
            Way::Drop => {
                self.step(|| Step::new(&router.id, "route policies", by.told(), "dropped"));
                return Err(stop(Reason::Policy));
            }
            Way::None => {
                self.tell(Error::NoRoute, from);
                return Err(stop(Reason::NoRoute));
            }
        };
        let its = &net.router_ports[out.at()];
        self.step(|| {
            let what = alloc::format!("by {} to {address}", its.id);
            Step::new(&router.id, "routes", by.told(), what)
        });
        if let Some(mtu) = its.row.mtu.filter(|mtu| ip.length() > usize::from(*mtu) + self.excess) {
            self.tell(Error::TooLong(mtu), from);
            return Err(stop(Reason::TooLong));
        }
        self.note_way(at, [before, ends], under.fields.source);
        let next = self.next(at, (out, address), &under, inside.is_none());
        let Next { mac, behind } = match next {
            Ok(next) => next,
            Err(Missing::Elsewhere) => {
                self.step(|| {
                    Step::new(&router.id, "gateway", None, "on at the host that asks neighbours")
                });
                let onward = self.for_router(at, &under);
                self.done.onward.push(onward);
                return Ok(());
            }
            Err(Missing::Held) => return Err(stop(Reason::Held)),
            Err(Missing::Unresolved) => {
                self.tell(Error::NoHost, from);
                return Err(stop(Reason::Unresolved));
            }
        };
        let (routers, tuple) = (under.routers + 1, under.tuple);
        let (mut frame, mut own_mac, mut origin) = (under.frame.clone(), its.row.mac, under.origin);
        if router.translates() && inside.is_none() {
            self.found.forget();
        }
        if let Some(inside) = inside.filter(|_| router.translates()) {
            let flows = self.flows(&router.id);
            let packet = (&frame[..], &ip);
            let subject = net.subject(&under);
            let made = net.translate_out(router, flows, [at, out], &inside, packet, &subject);
            let Outside { tuple: behind, by, change, stays } = made.map_err(stop)?;
            let is_later = ip.layout.fragment == Fragment::Later;
            self.done.changes.extend(change.filter(|_| !is_later));
            self.found.translated(flows.zone.filter(|_| stays).map(|zone| Translated {
                zone,
                connection: inside.known.as_ref().map(Known::connection),
                ends: NewEnds::new(before, behind),
                hides_origin: behind.source != before.source,
            }));
            if behind.source != before.source {
                self.step(|| {
                    let what = alloc::format!("from {}", behind.source.0);
                    Step::new(&router.id, "source translation", by, what)
                });
                // Whoever sees it from here on cannot tell whose it was.
                origin = None;
                own_mac = net.external_mac(out, behind.source.0).unwrap_or(own_mac);
            }
            if behind != before {
                rewrite::set_tuple(&mut frame, &ip, behind);
            }
        }
        rewrite::take_hops(&mut frame, &ip.layout, 1);
        rewrite::set_macs(&mut frame, mac, own_mac);
        self.found.routed(mac, own_mac, its.row.mtu);
        let mut under = under.with(frame).ok_or_else(|| stop(Reason::Malformed))?;
        (under.routers, under.origin) = (routers, origin);
        under.tuple = under.fields.ip.map(|ip| match ip.layout.fragment {
            Fragment::Later => tuple.unwrap_or(ip.tuple),
            _ => ip.tuple,
        });
        match its.leads {
            Leads::Peer(peer) => self.enter(peer, under),
            Leads::Switch(at) => {
                let port = &net.ports[at.at()];
                let is_on = port.station.enabled && net.switches[port.switch.at()].row.enabled;
                match (is_on, behind) {
                    (true, None) => self.forward(port.switch, Some(at), under),
                    (true, Some(to)) => {
                        self.step(|| {
                            let (id, to) =
                                (&net.switches[port.switch.at()].id, &net.ports[to.at()].id);
                            Step::new(id, "destination", None, to.to_string())
                        });
                        self.found.is_for(to);
                        self.deliver(to, &under)
                    }
                    (false, _) => Err(stop(Reason::Disabled)),
                }
            }
            Leads::Nowhere => Err(stop(Reason::Disabled)),
        }
    }

    /// Where the flow that this one answers came into a router.
    fn way_back(&self, router: &Router, tuple: Tuple) -> Option<(IpAddr, RouterPortAt)> {
        if !router.is_symmetric {
            return None;
        }
        let (out, address) = self.state.path(&router.id, tuple.reversed(), self.now)?;
        Some((*address, self.net.router_port(out)?))
    }

    /// A flow whose answers have several ways is remembered by the one that it came: by its ends as
    /// they were, and as they are once its destination is translated.
    fn note_way(&mut self, at: RouterPortAt, ends: [Tuple; 2], from: Mac) {
        let net = self.net;
        let port = &net.router_ports[at.at()];
        let router = &net.routers[port.router.at()];
        if !router.is_symmetric {
            return;
        }
        for tuple in ends.iter().take(if ends[0] == ends[1] { 1 } else { 2 }) {
            if let Some(address) = net.came_from(router, *tuple, (at, from)) {
                let path = (port.id.clone(), address);
                self.done.changes.push(crate::Change::Path(router.id.clone(), *tuple, path));
            }
        }
    }

    /// The sender is told of an error, by a router of that address.
    fn tell(&mut self, error: Error, from: Option<IpAddr>) {
        from.into_iter().for_each(|from| self.tell_sender(Told::Error(error, from)));
    }
}

impl Net {
    /// What rules ask of a frame whose port is not decided yet.
    pub(crate) fn subject(&self, under: &Underway) -> Subject<'_> {
        let fields = &under.fields;
        Subject {
            ethertype: fields.ethertype,
            source_mac: fields.source,
            destination_mac: fields.destination,
            tuple: under.tuple,
            icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
            sender: under.origin.map(|at| &self.ports[at.at()].id),
            origin: under.origin.map(|at| self.groups[at.at()]),
            target: None,
            is_control: fields.is_control(),
        }
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

/// What answers a question for an address.
fn told(frame: &[u8], mac: Mac, is_router: bool) -> Option<Vec<u8>> {
    if let Some(request) = arp::Request::parse(frame) {
        return Some(request.answer(mac).as_bytes().to_vec());
    }
    neighbor::Solicitation::parse(frame).map(|it| it.answer(mac, is_router).as_bytes().to_vec())
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

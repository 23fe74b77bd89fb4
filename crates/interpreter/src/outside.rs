//! What routers do about neighbours that nobody declares: they ask, listen, hold, and go on.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::topology::{
    Attachment, Hop, Link, Port, PortIndex, RouterPortIndex, SwitchIndex, Topology,
};
use packet::neighbours::{self, Claim, MOST_HELD_EACH};
use packet::{Fields, rewrite};
use units::{Instant, Mac};
use wire::neighbor;

use crate::decision::{Decision, Reason};
use crate::neighbours::{About, Due, Entry, Held, Neighbour, Phase};
use crate::route;
use crate::state::{Change, State, Subject, What};
use crate::walk::{Underway, Walk};

/// Whom a packet is handed to: its Ethernet address, and, if nobody declares it, its port.
pub type Next = (Mac, Option<PortIndex>);

/// Asks the neighbours that are to be asked, and has go on what is held no longer. What that
/// changes is changed.
pub fn attend(topology: &Topology, state: &mut State, now: Instant) -> Vec<Decision> {
    let mut all = Vec::new();
    for due in state.neighbours.take_due(now) {
        let decision = match due {
            Due::Ask(neighbour, to) => ask(topology, state, now, &neighbour, to),
            Due::GoOn(held) => go_on(topology, state, now, held),
        };
        state.commit(&decision.changes, now);
        all.push(decision);
    }
    all
}

/// Whether somebody may be behind a port whom nobody declares.
fn leads_outside(port: &Port) -> bool {
    port.unknown || matches!(port.attachment, Attachment::Provider | Attachment::L2Gateway { .. })
}

/// The switch behind a router's port.
fn switch_behind(topology: &Topology, port: RouterPortIndex) -> Option<SwitchIndex> {
    match topology[port].link {
        Link::Switch(at) => Some(topology[at].switch),
        Link::Peer(_) | Link::Nowhere => None,
    }
}

/// The ports of a switch behind which somebody may be whom nobody declares.
fn outside(topology: &Topology, switch: SwitchIndex) -> impl Iterator<Item = PortIndex> {
    let ports = topology[switch].ports.iter().copied();
    ports.filter(|it| leads_outside(&topology[*it]))
}

/// Frames go out of each port behind which somebody may be.
fn ask(
    topology: &Topology,
    state: &State,
    now: Instant,
    (_, port, address): &Neighbour,
    to: Option<Mac>,
) -> Decision {
    let mut walk = resumed(topology, state, now, None, Vec::new());
    let found = topology.router_ports().find(|(_, it)| it.id == *port);
    let Some((index, own)) = found else { return walk.decision };
    let Link::Switch(at) = own.link else { return walk.decision };
    let is_up = own.enabled && topology[own.router].enabled && topology[at].enabled;
    let frame = neighbours::asked_from(&own.addresses, own.mac, *address)
        .and_then(|from| neighbours::question((own.mac, from), *address, to));
    let Some((frame, switch)) = frame.filter(|_| is_up).zip(switch_behind(topology, index)) else {
        return walk.decision;
    };
    for port in outside(topology, switch).filter(|it| topology[*it].enabled) {
        walk.hand(port, frame.clone(), 1);
    }
    walk.decision
}

/// What was held goes into its router once more.
fn go_on(topology: &Topology, state: &State, now: Instant, held: Held) -> Decision {
    let origin = held.origin.as_ref().filter(|_| !held.is_networks);
    let origin = origin.and_then(|name| topology.ports().find(|(_, it)| it.id == *name));
    let origin = origin.map(|(index, _)| index);
    let mut walk = resumed(topology, state, now, origin, held.frame.clone());
    let found = topology.router_ports().find(|(_, it)| it.id == held.port);
    let Some((port, fields)) = found.map(|it| it.0).zip(Fields::of(&held.frame)) else {
        return walk.decision;
    };
    let Held { frame, origin, tuple, routers, is_networks, .. } = held;
    let subject = Subject { tuple, origin, ..subject(&fields) };
    let under = Underway { frame, fields, subject, routers, is_networks };
    if let Err(stop) = walk.enter(port, under) {
        walk.refuse(*stop, None);
    }
    if walk.decision.delivered.is_empty() && !walk.is_held() {
        walk.undo(0);
    }
    walk.decision
}

/// A walk that no machine begins. `origin`: who is told if it does not get far.
fn resumed<'a>(
    topology: &'a Topology,
    state: &'a State,
    now: Instant,
    origin: Option<PortIndex>,
    sent: Vec<u8>,
) -> Walk<'a> {
    let decision = Decision::default();
    Walk {
        topology,
        state,
        now,
        origin,
        node: None,
        sent,
        is_resumed: true,
        was_heard: false,
        decision,
    }
}

impl Walk<'_> {
    /// Whether a packet waits.
    pub fn is_held(&self) -> bool {
        self.decision.refused.iter().any(|it| it.reason == Reason::Held)
    }

    /// A frame of the network's own for a port, if that lets it in.
    pub fn hand(&mut self, port: PortIndex, frame: Vec<u8>, routers: usize) {
        let Some(fields) = Fields::of(&frame) else { return };
        let subject = subject(&fields);
        let under = Underway { frame, fields, subject, routers, is_networks: true };
        let changes = self.decision.changes.len();
        if let Err(stop) = self.leave(port, under) {
            self.undo(changes);
            self.refuse(*stop, Some(port));
        }
    }

    /// The sender of a packet that went on is told something, by its own port.
    pub fn answer_late(&mut self, mut frame: Vec<u8>) {
        // Nobody is told that it rejects what it is told.
        let (Some(to), Some(fields)) = (self.origin.take(), Fields::of(&frame)) else { return };
        rewrite::set_macs(&mut frame, self.topology[to].mac, fields.source);
        self.hand(to, frame, 0);
    }

    /// The neighbour that a packet goes to. `is_whole`: the packet is as it came to the router.
    pub fn next(
        &mut self,
        port: RouterPortIndex,
        hop: Hop,
        under: &Underway,
        is_whole: bool,
    ) -> Result<Next, Reason> {
        let topology = self.topology;
        if let Some(mac) = route::next(topology, hop) {
            return Ok((mac, None));
        }
        let (out, router) = (&topology[hop.out], &topology[topology[hop.out].router].id);
        let from = neighbours::asked_from(&out.addresses, out.mac, hop.address);
        let switch = switch_behind(topology, hop.out).filter(|_| from.is_some());
        if switch.is_none_or(|it| outside(topology, it).next().is_none()) {
            return Err(Reason::Unresolved);
        }
        let neighbour = (router.clone(), out.id.clone(), hop.address);
        let (neighbours, by) = (&self.state.neighbours, &under.subject.origin);
        let mut known = neighbours.get(&neighbour);
        if let Some(Entry { phase, seen: Some((mac, behind)), is_needed, until, .. }) = known {
            let behind = topology.ports().find(|(_, it)| it.id == *behind);
            if let Some((at, _)) =
                behind.filter(|(_, it)| leads_outside(it) && Some(it.switch) == switch)
            {
                if !is_needed || *phase == Phase::Reachable && *until <= self.now {
                    self.about(&neighbour, About::Needed(by.clone(), None));
                }
                return Ok((*mac, Some(at)));
            }
            self.about(&neighbour, About::Lost);
            known = None;
        }
        let has_room = match known {
            Some(Entry { phase: Phase::Silent, .. }) => return Err(Reason::Unresolved),
            Some(it) => it.held.len() < MOST_HELD_EACH && neighbours.may_hold(router, by),
            None => neighbours.has_room(router, by),
        };
        let held = (has_room && is_whole).then(|| Held {
            port: topology[port].id.clone(),
            frame: under.frame.clone(),
            origin: under.subject.origin.clone(),
            tuple: under.subject.tuple,
            routers: under.routers,
            is_networks: under.is_networks,
        });
        let reason = if held.is_some() { Reason::Held } else { Reason::Unresolved };
        self.about(&neighbour, About::Needed(by.clone(), held));
        Err(reason)
    }

    fn about(&mut self, neighbour: &Neighbour, about: About) {
        self.decision.changes.push(Change(What::Neighbour(neighbour.clone(), about)));
    }

    /// What a frame from outside says of neighbours is told to the routers of its switch.
    pub fn hear(&mut self, at: PortIndex, under: &Underway) {
        let topology = self.topology;
        let switch = topology[at].switch;
        if !leads_outside(&topology[at]) {
            return;
        }
        let Some(claim) = neighbours::claim(&under.frame) else { return };
        for port in &topology[switch].ports {
            let Attachment::Router(index) = topology[*port].attachment else { continue };
            let (own, router) = (&topology[index], &topology[topology[index].router]);
            let is_up = own.enabled && router.enabled && topology[*port].enabled;
            // Who asks another is of no concern.
            let asks = claim.asks.filter(|it| *it != claim.address);
            let is_for_it = asks.is_none_or(|it| is_own(topology, index, it));
            if !is_up || !is_for_it || !self.believes(index, at, &claim) {
                continue;
            }
            self.was_heard = true;
            let neighbour = (router.id.clone(), own.id.clone(), claim.address);
            if asks.is_some() || self.state.neighbours.get(&neighbour).is_some() {
                self.step(&router.id, "neighbour learn", None, &claim.address.to_string());
                let heard = About::Heard((claim.mac, topology[at].id.clone()), claim.overrides);
                self.decision.changes.push(Change(What::Neighbour(neighbour, heard)));
            }
        }
    }

    /// Only of addresses of the router's own subnets, which nobody declares.
    fn believes(&self, router: RouterPortIndex, at: PortIndex, claim: &Claim) -> bool {
        let topology = self.topology;
        let (own, switch) = (&topology[router], topology[at].switch);
        let is_routers = |port: &PortIndex| match topology[*port].attachment {
            Attachment::Router(it) => is_own(topology, it, claim.address),
            _ => false,
        };
        neighbours::asked_from(&own.addresses, own.mac, claim.address).is_some()
            && route::neighbour(topology, &topology[switch], claim.address).is_none()
            && !topology[switch].ports.iter().any(is_routers)
            && self.owner(switch, claim.mac).is_none_or(|it| it == at)
    }
}

/// Whether a router's port answers for an address.
fn is_own(topology: &Topology, port: RouterPortIndex, address: IpAddr) -> bool {
    let own = &topology[port];
    own.has(address)
        || address == IpAddr::V6(neighbor::link_local(own.mac))
        || route::external_mac(topology, port, address).is_some()
}

/// What rules ask of a packet of which nothing else is known.
fn subject(fields: &Fields) -> Subject {
    Subject {
        ethertype: fields.ethertype,
        source_mac: fields.source,
        destination_mac: fields.destination,
        tuple: fields.ip.map(|ip| ip.tuple),
        icmp: fields.ip.and_then(|ip| ip.icmp).map(|icmp| (icmp.kind, icmp.code)),
        origin: None,
        target: None,
        is_control: fields.is_control(),
    }
}

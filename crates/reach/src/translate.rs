//! What routers and load balancers make of classes of packets: the interpreter's translations, with
//! sets in place of one packet's ends.
//!
//! Nothing is known of packets before, so each is the first of its flow. Where a hash chooses, each
//! choice is followed.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use interpreter::Reason;
use logical::objects::{NatKind, PortRange};
use logical::topology::{
    BalancerIndex, Link, Nat, NatIndex, Router, RouterPort, RouterPortIndex, SwitchIndex, Topology,
};

use crate::addresses::Addresses;
use crate::flow::{Entered, Flow};
use crate::space::PortMap;
use crate::walk::Walk;

/// The ports that sources get which are translated with no ports named.
const DYNAMIC: PortRange = PortRange { first: 1024, last: u16::MAX };

impl Walk<'_, '_> {
    /// A class that a balancer is meant for, for each who serves.
    fn balance(&mut self, index: BalancerIndex, hit: Flow, made: &mut Vec<Flow>) {
        let it = &self.space.topology[index];
        let at = it.id.to_string();
        let first = self.space.atoms.first().clone();
        let [hit, strange] = hit.asking(self.space, &first);
        self.stop(strange, Reason::Untracked, at.clone(), None);
        let backends: Vec<_> = it.backends.iter().filter(|it| it.weight > 0).collect();
        if backends.is_empty() {
            return self.stop(hit, Reason::NoBackend, at, None);
        }
        for backend in &backends {
            let mut flow = hit.clone();
            flow.is_chosen |= backends.len() > 1;
            flow.to = flow.to.to_one(backend.address);
            if let Some(port) = backend.port {
                flow.ports = self.space.with_ports(flow.ports, PortMap::Destination(port));
            }
            flow.path.push(it.id.to_string());
            let own = Addresses::of(flow.family, [backend.address.into()]);
            // Who asks for itself has to see the address answer, not itself.
            if it.hairpin_snat {
                let mut itself = flow.from(&own);
                itself.from = itself.from.to_one(it.vip);
                made.extend(self.by_classes(itself));
                flow = flow.not_from(&own);
            }
            made.push(flow);
        }
        made.retain(|it| !it.is_empty());
    }

    /// The packets that a balancer is meant for, and the others.
    fn balanced(&self, index: BalancerIndex, flow: &Flow) -> (Flow, Vec<Flow>) {
        let it = &self.space.topology[index];
        let vip = Addresses::of(flow.family, [it.vip.into()]);
        let [hit, rest] = flow.to(&vip).asking(self.space, self.space.of_balancer(index));
        (hit, alloc::vec![rest, flow.not_to(&vip)])
    }

    /// What comes into a switch from a port of it, past its load balancers.
    pub fn balance_in(&mut self, switch: SwitchIndex, flow: Flow) -> Vec<Flow> {
        let topology = self.space.topology;
        let (mut left, mut made) = (alloc::vec![flow], Vec::new());
        for (balancer, _) in topology.balancers().filter(|it| it.1.switches.contains(&switch)) {
            for flow in core::mem::take(&mut left) {
                let (hit, rest) = self.balanced(balancer, &flow);
                left.extend(rest);
                self.balance(balancer, hit, &mut made);
            }
            left.retain(|it| !it.is_empty());
        }
        left.extend(made);
        left
    }

    /// A class whose sources have changed, by the classes that rules tell apart.
    fn by_classes(&self, flow: Flow) -> Vec<Flow> {
        if flow.is_empty() {
            return Vec::new();
        }
        let parts = self.space.classes.split(&flow.from.now());
        let parts = parts.into_iter().map(|(class, part)| {
            let mut flow = flow.from(&part);
            flow.source.class = class;
            flow
        });
        parts.filter(|it| !it.is_empty()).collect()
    }

    /// What a router is about to route: destinations first.
    pub fn translate_destinations(&mut self, entered: &Entered, flow: Flow) -> Vec<Flow> {
        let topology = self.space.topology;
        let index = topology[entered.port].router;
        let router = &topology[index];
        let at = router.id.to_string();
        let (mut left, mut made) = (alloc::vec![flow], Vec::new());
        for (balancer, _) in topology.balancers().filter(|it| it.1.routers.contains(&index)) {
            for flow in core::mem::take(&mut left) {
                let (hit, rest) = self.balanced(balancer, &flow);
                left.extend(rest);
                self.balance(balancer, hit, &mut made);
            }
            left.retain(|it| !it.is_empty());
        }
        for number in &router.nats {
            let nat = &topology[*number];
            if nat.kind == NatKind::Snat {
                continue;
            }
            for flow in core::mem::take(&mut left) {
                let external = Addresses::of(flow.family, [nat.external]);
                left.push(flow.not_to(&external));
                let hit = flow.to(&external);
                let Some(hit) = self.spoken_of(*number, entered, hit, true, &mut left) else {
                    continue;
                };
                let [mut hit, rest] = hit.asking(self.space, self.space.of_external(*number));
                left.push(rest);
                if nat.kind == NatKind::Dnat {
                    let first = self.space.atoms.first().clone();
                    let [first, strange] = hit.asking(self.space, &first);
                    self.stop(strange, Reason::Untracked, at.clone(), None);
                    hit = first;
                    hit.to = hit.to.to_one(nat.logical.first());
                    if let Some(port) = nat.port {
                        hit.ports = self.space.with_ports(hit.ports, PortMap::Destination(port));
                    }
                } else {
                    hit.to = hit.to.shifted(nat.external, nat.logical);
                }
                hit.path.push(nat.id.to_string());
                made.push(hit);
            }
            left.retain(|it| !it.is_empty());
        }
        left.extend(made);
        left.retain(|it| !it.is_empty());
        left
    }

    /// Those of a class that a translation is meant for; the others are left. `is_entering`: the
    /// end that it does not translate is the source.
    fn spoken_of(
        &mut self,
        index: NatIndex,
        entered: &Entered,
        flow: Flow,
        is_entering: bool,
        left: &mut Vec<Flow>,
    ) -> Option<Flow> {
        let topology = self.space.topology;
        let nat = &topology[index];
        let family = flow.family;
        let some = |sets| Addresses::of(family, topology.addresses_in(sets));
        let mut others = Addresses::all(family).minus(&some(&nat.exempt));
        if !nat.only_for.is_empty() {
            others = others.and(&some(&nat.only_for));
        }
        let (mut hit, rest) = match is_entering {
            true => (flow.from(&others), flow.not_from(&others)),
            false => (flow.to(&others), flow.not_to(&others)),
        };
        left.push(rest);
        if let Some(atoms) = self.space.of_protocol(index).cloned() {
            let [meant, rest] = hit.asking(self.space, &atoms);
            left.push(rest);
            hit = meant;
        }
        if let Some(condition) = self.space.of_nat(index).cloned() {
            let before = entered.before(&hit);
            let (meant, rest) = self.meant(entered.port, &condition, before);
            left.extend(rest.into_iter().map(|it| Entered::after(it, &hit)));
            hit = Entered::after(meant?, &hit);
        }
        Some(hit)
    }

    /// What a router is about to send: sources last.
    pub fn translate_sources(
        &mut self,
        entered: &Entered,
        out: RouterPortIndex,
        flow: Flow,
    ) -> Vec<Flow> {
        let topology = self.space.topology;
        let router = &topology[topology[entered.port].router];
        let at = router.id.to_string();
        let before = entered.before(&flow).to.now();
        let is_translated = flow.to.now() != before;
        let (mut left, mut made) = (alloc::vec![flow], Vec::new());
        for number in &router.nats {
            let nat = &topology[*number];
            let [from, to] = [entered.port, out].map(|it| is_outside(topology, router, nat, it));
            // Inside, only what came for an external address has its source translated, too.
            let is_inside = !from && !to && is_translated;
            if nat.kind == NatKind::Dnat || !(to || is_inside) {
                continue;
            }
            for flow in core::mem::take(&mut left) {
                let logical = Addresses::of(flow.family, [nat.logical]);
                left.push(flow.not_from(&logical));
                let hit = flow.from(&logical);
                let Some(mut hit) = self.spoken_of(*number, entered, hit, false, &mut left) else {
                    continue;
                };
                if nat.kind == NatKind::Floating {
                    hit.from = hit.from.shifted(nat.logical, nat.external);
                } else {
                    let first = self.space.atoms.first().clone();
                    let [first, strange] = hit.asking(self.space, &first);
                    self.stop(strange, Reason::Untracked, at.clone(), None);
                    hit = first;
                    hit.from = match nat.external.first() == nat.external.last() {
                        true => hit.from.to_one(nat.external.first()),
                        false => hit.from.to_any(Addresses::of(hit.family, [nat.external])),
                    };
                    let ports = PortMap::Source(nat.external_ports.unwrap_or(DYNAMIC));
                    hit.ports = self.space.with_ports(hit.ports, ports);
                }
                hit.path.push(nat.id.to_string());
                made.push(hit);
            }
            left.retain(|it| !it.is_empty());
        }
        // To a machine on the link that it came from: its answer would take the short way.
        if is_translated && entered.port == out {
            for flow in core::mem::take(&mut left) {
                left.extend(self.hairpin(entered, out, flow));
            }
        }
        let changed = made.into_iter().chain(left).flat_map(|mut flow| {
            if flow.from.map == entered.from {
                return alloc::vec![flow];
            }
            // Whoever sees it from here on cannot tell whose it was.
            flow.source.who = None;
            self.by_classes(flow)
        });
        let mut all: Vec<Flow> = changed.collect();
        all.retain(|it| !it.is_empty());
        all
    }

    /// Each address that was asked for becomes the source of what is for it.
    fn hairpin(&mut self, entered: &Entered, out: RouterPortIndex, flow: Flow) -> Vec<Flow> {
        let topology = self.space.topology;
        let Link::Switch(at) = topology[out].link else { return alloc::vec![flow] };
        let switch = topology[at].switch.place();
        let taken = self.routers.taken[switch][flow.family as usize].clone();
        let mut made = alloc::vec![flow.not_to(&taken)];
        let own = flow.to(&taken);
        for range in own.to.was.ranges() {
            for place in 0..=range.place(range.last()) {
                let Some(was) = range.at(place) else { break };
                let mut one = own.clone();
                one.to.was = Addresses::of(flow.family, [was.into()]);
                let Some(external) = entered.before(&one).to.now().first() else { continue };
                one.from = one.from.to_one(external);
                one.ports = self.space.with_ports(one.ports, PortMap::Source(DYNAMIC));
                made.push(one);
            }
        }
        made
    }
}

/// Whether a router's port leads outside, as a translation sees it: one on gateways or to a
/// provider's network; if the router has none such, one that reaches the external address.
fn is_outside(topology: &Topology, router: &Router, nat: &Nat, index: RouterPortIndex) -> bool {
    let leads = |port: &RouterPort| {
        let is_provider = match port.link {
            Link::Switch(at) => topology[topology[at].switch].provider.is_some(),
            Link::Peer(_) | Link::Nowhere => false,
        };
        !port.gateway.is_empty() || is_provider
    };
    let ports = || router.ports.iter().map(|it| &topology[*it]);
    let own = &topology[index];
    if ports().any(leads) {
        return leads(own);
    }
    let reaches = |port: &RouterPort| port.reaches(nat.external.first());
    if ports().any(reaches) {
        return reaches(own);
    }
    !own.reaches(nat.logical.first())
}

/// What a translation or a balancer is called where it is asked for.
pub fn unable(topology: &Topology) -> Option<String> {
    let mut nats = topology.nats().map(|(_, it)| it);
    nats.find(|it| it.external_mac.is_some()).map(|it| it.id.to_string())
}

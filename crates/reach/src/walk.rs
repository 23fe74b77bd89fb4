//! The walk of a class of packets through routers, to all whom it may come to.
//!
//! It is the interpreter's walk, with sets in place of one packet's addresses: where a router
//! treats some of them differently, the class is cut there, and each part goes its own way.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::Reason;
use logical::objects::AddressRange;
use logical::topology::{
    Attachment, Link, Port, PortIndex, RouteDecision, RouterPortIndex, SwitchIndex, Topology,
};

use crate::addresses::{Addresses, Family, unspecified};
use crate::ends::Ends;
use crate::flow::{Entered, Flow};
use crate::routes::{Next, Table, Turn, chosen, sane_destinations, sane_sources};
use crate::security::{destinations, link_locals};
use crate::space::{Condition, End, Space, Subject};

/// Through how many routers a packet may go.
const MOST_ROUTERS: usize = 16;

/// A class of packets in front of a port, before its rules.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The port.
    pub port: PortIndex,
    /// The packets; `mac`: of who sent them last.
    pub flow: Flow,
    /// The group of the port's own addresses that they are for, if they are for one alone.
    pub own: Option<u32>,
}

/// A class of packets that goes no further.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The packets.
    pub flow: Flow,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub at: String,
    /// By which route.
    pub by: Option<String>,
}

/// Where classes of packets came to.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    pub arrivals: Vec<Arrival>,
    pub stops: Vec<Stop>,
}

/// A port's own addresses of one group: the port, the group, the addresses.
type Target = (PortIndex, u32, Addresses);

/// What walks need to know besides the topology.
#[derive(Debug)]
pub struct Routers {
    tables: Vec<Table>,
    /// Of each switch, whom packets are followed to.
    targets: Vec<Vec<Target>>,
    /// Of each switch, all addresses that somebody has there.
    pub taken: Vec<[Addresses; 2]>,
    /// Of each switch, those of its ports that are no routers'.
    machines: Vec<[Addresses; 2]>,
    pub macs: Vec<u32>,
}

/// The addresses that a router answers for at a port: its own, and those outside of translations
/// and balancers that the port reaches.
fn answered(topology: &Topology, port: RouterPortIndex, family: Family) -> Addresses {
    let own = &topology[port];
    let addresses = own.addresses.iter().map(|it| AddressRange::from(it.address));
    let near = Addresses::of(family, own.addresses.iter().map(|it| AddressRange::from(*it)));
    let nats = topology[own.router].nats.iter().map(|it| topology[*it].external);
    let balancers = topology.balancers().map(|(_, it)| it);
    let balancers = balancers.filter(|it| it.routers.contains(&own.router));
    let outside = nats.chain(balancers.map(|it| AddressRange::from(it.vip)));
    let outside = Addresses::of(family, outside).and(&near);
    Addresses::of(family, addresses).or(&outside)
}

impl Routers {
    /// Follows packets to the first two ports of each class.
    pub fn new(space: &mut Space<'_>, ends: &Ends) -> Self {
        let topology = space.topology;
        let mut targets: Vec<Vec<Target>> = topology.switches().map(|_| Vec::new()).collect();
        for class in &ends.classes {
            for port in class.ports.iter().take(2) {
                let own = (0u32..).zip(&class.own).filter(|(_, own)| !own.is_link_local);
                let own = own.map(|(group, _)| (*port, group, ends.addresses(space, *port, group)));
                targets[topology[*port].switch.place()].extend(own);
            }
        }
        let of_switches = |own: fn(&Topology, &Port, Family) -> Addresses| {
            let all = topology.switches().map(|(_, switch)| {
                Family::BOTH.map(|family| {
                    let ports = switch.ports.iter().map(|it| own(topology, &topology[*it], family));
                    ports.fold(Addresses::none(family), |all, it| all.or(&it))
                })
            });
            all.collect::<Vec<_>>()
        };
        let machines = of_switches(|_, port, family| {
            Addresses::of(family, port.addresses.iter().map(|it| AddressRange::from(*it)))
        });
        let of_routers = of_switches(|topology, port, family| match port.attachment {
            Attachment::Router(to) => answered(topology, to, family),
            _ => Addresses::none(family),
        });
        let both = |(own, others): (&[Addresses; 2], &[Addresses; 2])| {
            [own[0].or(&others[0]), own[1].or(&others[1])]
        };
        let taken = machines.iter().zip(&of_routers).map(both).collect();
        let macs = topology.router_ports().map(|(_, it)| space.mac(it.mac)).collect();
        let tables = topology.routers().map(|(_, it)| Table::new(topology, it)).collect();
        Self { tables, targets, taken, machines, macs }
    }

    /// A class of packets in a switch, past its load balancers.
    pub fn balance(&mut self, space: &mut Space<'_>, switch: SwitchIndex, flow: Flow) -> Vec<Flow> {
        let mut walk = Walk { routers: self, space, walked: Walked::default() };
        walk.balance_in(switch, flow)
    }

    /// Follows a class of packets from where a router's port is on a switch.
    pub fn walk(&mut self, space: &mut Space<'_>, at: PortIndex, flow: Flow) -> Walked {
        let Attachment::Router(port) = space.topology[at].attachment else {
            return Walked::default();
        };
        let mut walk = Walk { routers: self, space, walked: Walked::default() };
        walk.arrive(at, port, flow);
        walk.walked
    }
}

pub struct Walk<'a, 'b> {
    pub routers: &'a mut Routers,
    pub space: &'a mut Space<'b>,
    pub walked: Walked,
}

impl Walk<'_, '_> {
    pub fn stop(&mut self, flow: Flow, reason: Reason, at: String, by: Option<String>) {
        if !flow.is_empty() {
            self.walked.stops.push(Stop { flow, reason, at, by });
        }
    }

    /// From a switch into a router.
    fn arrive(&mut self, at: PortIndex, port: RouterPortIndex, flow: Flow) {
        let own = &self.space.topology[at];
        match own.enabled {
            true => self.enter(port, flow),
            false => self.stop(flow, Reason::Disabled, own.id.to_string(), None),
        }
    }

    /// Into a router.
    fn enter(&mut self, port: RouterPortIndex, mut flow: Flow) {
        let topology = self.space.topology;
        let own = &topology[port];
        let router = &topology[own.router];
        let at = router.id.to_string();
        if flow.is_empty() {
            return;
        }
        if !own.enabled || !router.enabled {
            return self.stop(flow, Reason::Disabled, at, None);
        }
        if flow.routers == MOST_ROUTERS {
            return self.stop(flow, Reason::Loop, at, None);
        }
        let sources = sane_sources(topology, router, flow.family);
        self.stop(flow.not_from(&sources), Reason::Martian, at.clone(), None);
        flow = flow.from(&sources);
        let sane = sane_destinations(topology, port, flow.family);
        self.stop(flow.not_to(&sane), Reason::NotForRouter, at.clone(), None);
        flow = flow.to(&sane);
        // Addresses of links alone reach the router itself alone.
        let links = Addresses::of(flow.family, [link_locals()]);
        let ranges = own.addresses.iter().map(|it| AddressRange::from(it.address));
        let itself = Addresses::of(flow.family, ranges).or(&links);
        let of_link = flow.from(&links);
        self.stop(of_link.not_to(&itself), Reason::NotForRouter, at.clone(), None);
        for flow in [of_link.to(&itself), flow.not_from(&links)] {
            let entered = Entered::new(port, &flow);
            for flow in self.translate_destinations(&entered, flow) {
                self.inside(&entered, flow);
            }
        }
    }

    /// In a router, towards destinations as they are now.
    fn inside(&mut self, entered: &Entered, mut flow: Flow) {
        let topology = self.space.topology;
        let port = entered.port;
        let index = topology[port].router;
        let router = &topology[index];
        let at = router.id.to_string();
        let ports = router.ports.iter().flat_map(|it| &topology[*it].addresses);
        let own = Addresses::of(flow.family, ports.map(|it| AddressRange::from(it.address)));
        self.stop(flow.to(&own), Reason::ToRouter, at.clone(), None);
        flow = flow.not_to(&own);

        let mut left = alloc::vec![flow];
        for (i, policy) in router.policies.iter().enumerate() {
            let condition = self.space.policies[index.place()][i].clone();
            let by = format!("{} policy {}", router.id, policy.name);
            let mut next = Vec::new();
            for flow in left {
                let family = flow.family;
                let (hit, rest) = self.meant(port, &condition, flow);
                next.extend(rest);
                let Some(hit) = hit else { continue };
                match &policy.decision {
                    RouteDecision::Drop => {
                        self.stop(hit, Reason::Policy, at.clone(), Some(by.clone()));
                    }
                    RouteDecision::Allow => self.by_routes(entered, hit),
                    RouteDecision::Reroute(hops) => {
                        let next = hops.iter().filter(|it| topology[it.out].enabled);
                        let next = next.copied().map(Next::Via);
                        let none = unspecified(family);
                        let turn = chosen(router, next, none, by.clone());
                        self.turn(entered, hit, turn);
                    }
                }
            }
            next.retain(|flow| !flow.is_empty());
            left = next;
        }
        for flow in left {
            self.by_routes(entered, flow);
        }
    }

    /// Which of a class a condition holds for, at a router's port, and which not.
    pub fn meant(
        &mut self,
        port: RouterPortIndex,
        condition: &Condition,
        flow: Flow,
    ) -> (Option<Flow>, Vec<Flow>) {
        let subject = Subject {
            family: Some(flow.family),
            mac: flow.mac,
            to_mac: self.routers.macs[port.place()],
            source: flow.source,
            destination: End { class: 0, who: None },
        };
        let meant = condition.destinations.iter().fold(Addresses::all(flow.family), |all, peer| {
            all.and(&self.space.addresses_of(*peer, flow.family))
        });
        if !self.space.has_source(condition, &subject) || meant.is_empty() {
            return (None, alloc::vec![flow]);
        }
        let [hit, rest] = flow.to(&meant).asking(self.space, &condition.atoms);
        (Some(hit), alloc::vec![rest, flow.not_to(&meant)])
    }

    fn by_routes(&mut self, entered: &Entered, flow: Flow) {
        if flow.is_empty() {
            return;
        }
        let topology = self.space.topology;
        let index = topology[entered.port].router;
        let table = &mut self.routers.tables[index.place()];
        let turns = table.turns(topology, &topology[index], &flow.from.now(), &flow.to.now());
        for (from, to, turn) in turns {
            self.turn(entered, flow.from(&from).to(&to), turn);
        }
    }

    fn turn(&mut self, entered: &Entered, flow: Flow, turn: Turn) {
        let topology = self.space.topology;
        let router = &topology[topology[entered.port].router];
        if flow.is_empty() {
            return;
        }
        let (next, by) = match turn {
            Turn::Refuse(reason, by) => return self.stop(flow, reason, router.id.to_string(), by),
            Turn::Go(next, by) => (next, by),
        };
        for one in &next {
            let mut flow = flow.clone();
            flow.is_chosen |= next.len() > 1;
            flow.path.push(by.clone());
            let (Next::Owner(out) | Next::Via(logical::topology::Hop { out, .. })) = *one;
            for flow in self.translate_sources(entered, out, flow) {
                match one {
                    Next::Owner(out) => match topology[*out].link {
                        Link::Peer(_) => self.hand(*out, None, flow),
                        Link::Switch(at) => self.reach_owners(*out, topology[at].switch, flow),
                        Link::Nowhere => {
                            self.stop(flow, Reason::Unresolved, router.id.to_string(), None);
                        }
                    },
                    Next::Via(hop) => self.hand(hop.out, Some(hop.address), flow),
                }
            }
        }
    }

    /// Out of a router's port, to whoever has a packet's destination there.
    fn reach_owners(&mut self, out: RouterPortIndex, switch: SwitchIndex, flow: Flow) {
        let topology = self.space.topology;
        let router = &topology[topology[out].router];
        let taken = self.routers.taken[switch.place()][flow.family as usize].clone();
        self.stop(flow.not_to(&taken), Reason::Unresolved, router.id.to_string(), None);
        let now = flow.to.now();
        let targets: Vec<_> = self.routers.targets[switch.place()]
            .iter()
            .map(|(port, group, own)| (*port, *group, now.and(own)))
            .filter(|(.., own)| !own.is_empty())
            .collect();
        for (port, group, own) in targets {
            self.leave(out, port, Some(group), flow.to(&own));
        }
        let machines = self.routers.machines[switch.place()][flow.family as usize].clone();
        let mut left = flow.not_to(&machines);
        for at in &topology[switch].ports {
            let Attachment::Router(to) = topology[*at].attachment else { continue };
            let own = answered(topology, to, flow.family);
            let flow = left.to(&own);
            left = left.not_to(&own);
            if !flow.is_empty() {
                self.reach_router(out, *at, to, flow);
            }
        }
    }

    /// Out of a router's port, to a neighbour or the peer.
    fn hand(&mut self, out: RouterPortIndex, neighbour: Option<IpAddr>, flow: Flow) {
        let topology = self.space.topology;
        let at = topology[topology[out].router].id.to_string();
        match topology[out].link {
            Link::Peer(peer) => {
                if let Some(flow) = self.sent(out, flow) {
                    self.enter(peer, flow);
                }
            }
            Link::Nowhere => self.stop(flow, Reason::Unresolved, at, None),
            Link::Switch(own) => {
                let ports = topology[topology[own].switch].ports.iter().copied();
                let has = |it: &PortIndex| {
                    neighbour.is_some_and(|n| topology[*it].addresses.contains(&n))
                };
                if let Some(port) = ports.clone().find(has) {
                    return self.leave(out, port, None, flow);
                }
                let router = ports.clone().find_map(|it| match topology[it].attachment {
                    Attachment::Router(to) => {
                        let own = answered(topology, to, flow.family);
                        neighbour.is_some_and(|n| own.contains(n)).then_some((it, to))
                    }
                    _ => None,
                });
                match router {
                    Some((at, to)) => self.reach_router(out, at, to, flow),
                    None => self.stop(flow, Reason::Unresolved, at, None),
                }
            }
        }
    }

    fn reach_router(
        &mut self,
        out: RouterPortIndex,
        at: PortIndex,
        to: RouterPortIndex,
        flow: Flow,
    ) {
        let topology = self.space.topology;
        let name = topology[topology[out].router].id.to_string();
        if topology[out].link == Link::Switch(at) {
            return self.stop(flow, Reason::Hairpin, name, None);
        }
        if let Some(flow) = self.sent(out, flow) {
            self.arrive(at, to, flow);
        }
    }

    /// What a router sends: from its own Ethernet address, if what is behind its port is up.
    fn sent(&mut self, out: RouterPortIndex, mut flow: Flow) -> Option<Flow> {
        let topology = self.space.topology;
        let is_up = match topology[out].link {
            Link::Switch(at) => topology[at].enabled && topology[topology[at].switch].enabled,
            Link::Peer(_) => true,
            Link::Nowhere => false,
        };
        if !is_up {
            let at = topology[topology[out].router].id.to_string();
            self.stop(flow, Reason::Disabled, at, None);
            return None;
        }
        flow.routers += 1;
        flow.mac = self.routers.macs[out.place()];
        Some(flow)
    }

    /// Out of a router's port, to a port of the switch.
    fn leave(&mut self, out: RouterPortIndex, port: PortIndex, own: Option<u32>, flow: Flow) {
        let Some(mut flow) = self.sent(out, flow) else { return };
        let topology = self.space.topology;
        let at = topology[port].id.to_string();
        if !topology[port].enabled {
            return self.stop(flow, Reason::Disabled, at, None);
        }
        let takes = destinations(&topology[port], flow.family);
        self.stop(flow.not_to(&takes), Reason::NotItsAddress, at, None);
        flow = flow.to(&takes);
        if !flow.is_empty() {
            self.walked.arrivals.push(Arrival { port, flow, own });
        }
    }
}

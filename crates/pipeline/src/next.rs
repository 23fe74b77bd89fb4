//! Whom a router hands a packet to: a neighbour that somebody declares, or one outside, that it
//! asks for. And what is heard of those outside.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use packet::neighbours::{self, Claim};
use units::{Class, Mac};

use crate::change::Change;
use crate::neighbours::{About, Held, Known, Neighbour, Via};
use crate::net::{Leads, Net, Port, Router, RouterPort};
use crate::onward::Onward;
use crate::outcome::Step;
use crate::places::{PortAt, RouterPortAt, SwitchAt};
use crate::route::{Missing, Next};
use crate::send::{Underway, Walk};

impl Walk<'_> {
    /// The neighbour that a packet goes to. `is_derived`: the packet is not as it came to the
    /// router.
    pub fn next(
        &mut self,
        at: RouterPortAt,
        (out, address): (RouterPortAt, IpAddr),
        under: &Underway,
        is_derived: bool,
    ) -> Result<Next, Missing> {
        let net = self.net;
        if let Some(mac) = net.neighbour(out, address) {
            return Ok(Next { mac, behind: None });
        }
        if !net.may_be_outside(out, address) {
            return Err(Missing::Unresolved);
        }
        let its = &net.router_ports[out.at()];
        let router = &net.routers[its.router.at()];
        if router.is_away {
            self.found.forget();
            return Err(if is_derived { Missing::Unresolved } else { Missing::Elsewhere });
        }
        let neighbours = &self.state.neighbours;
        let neighbour = (its.id.clone(), address);
        let by = under.origin.map(|at| &net.ports[at.at()].id);
        let mut known = neighbours.get(&router.id, &neighbour, by);
        if let Known::At(mac, behind) = known {
            let behind = net.port(behind).filter(|at| net.is_behind(out, *at));
            if behind.is_some() {
                if neighbours.is_news(&router.id, &neighbour, self.now) {
                    self.about(router, &neighbour, About::Needed(by.cloned(), None));
                }
                self.found.goes_via(Via::of(&neighbour));
                return Ok(Next { mac, behind });
            }
            self.about(router, &neighbour, About::Lost);
            known = Known::Nothing { has_room: neighbours.has_room(&router.id, by) };
        }
        self.found.forget();
        // One packet that becomes several is not held: it may be as large as they are together.
        let held = match known {
            Known::Nothing { has_room: true } if !is_derived && self.excess == 0 => {
                Some(Held { onward: self.for_router(at, under), class: Class::default() })
            }
            Known::Nothing { .. } => None,
            Known::At(..) | Known::Silent => return Err(Missing::Unresolved),
        };
        let missing = if held.is_some() { Missing::Held } else { Missing::Unresolved };
        self.about(router, &neighbour, About::Needed(by.cloned(), held));
        Err(missing)
    }

    fn about(&mut self, router: &Router, neighbour: &Neighbour, about: About) {
        let change = Change::Neighbour(router.id.clone(), neighbour.clone(), about);
        self.done.changes.push(change);
    }

    /// A frame as it goes on to a router, by this port of it.
    pub fn for_router(&self, at: RouterPortAt, under: &Underway) -> Onward {
        let net = self.net;
        Onward {
            to: net.router_ports[at.at()].id.clone(),
            origin: under.origin.map(|at| net.ports[at.at()].id.clone()),
            is_networks: under.is_networks,
            routers: under.routers,
            frame: under.frame.clone(),
        }
    }

    /// What a frame from outside says of neighbours is told to the routers of its switch.
    pub fn hear(&mut self, at: PortAt, under: &Underway) {
        let net = self.net;
        let port = &net.ports[at.at()];
        if !port.leads_outside() {
            return;
        }
        let Some(claim) = neighbours::claim(&under.frame) else { return };
        for (place, router) in net.routers_on(port.switch) {
            if !net.is_up(place, router)
                || !net.concerns(router, &claim)
                || !net.believes(router, at, &claim)
            {
                continue;
            }
            let its = &net.router_ports[router.at()];
            self.was_heard = true;
            if net.routers[its.router.at()].is_away {
                let onward = self.for_router(router, under);
                self.done.onward.push(Onward { origin: Some(port.id.clone()), ..onward });
                // What is for the router alone costs what any packet for it does.
                let is_for_many = under.frame.first().is_some_and(|byte| byte & 1 == 1);
                self.done.announced += usize::from(is_for_many);
            } else {
                self.note(router, at, &claim);
            }
        }
    }

    /// Whether a frame that another host hands to a router says of a neighbour where it is.
    pub fn hear_from(&mut self, router: RouterPortAt, onward: &Onward) -> bool {
        let net = self.net;
        let from = onward.origin.as_ref().and_then(|it| net.port(it));
        let from = from.filter(|at| net.ports[at.at()].leads_outside());
        let Some((at, claim)) = from.zip(neighbours::claim(&onward.frame)) else { return false };
        if net.concerns(router, &claim) && net.believes(router, at, &claim) {
            self.note(router, at, &claim);
        }
        true
    }

    /// Notes where a neighbour of a router is, if that is of use: if the router has asked for it,
    /// or is asked by it (RFC 826, "Packet Reception"; RFC 4861 §7.2.3, §7.2.5).
    fn note(&mut self, router: RouterPortAt, at: PortAt, claim: &Claim) {
        let net = self.net;
        let its = &net.router_ports[router.at()];
        let id = &net.routers[its.router.at()].id;
        let neighbour: Neighbour = (its.id.clone(), claim.address);
        let asks = claim.asks.filter(|it| *it != claim.address).is_some();
        if !asks && !self.state.neighbours.has(id, &neighbour) {
            return;
        }
        self.step(|| Step::new(id, "neighbour learn", None, claim.address.to_string()));
        let seen = (claim.mac, net.ports[at.at()].id.clone());
        let heard = About::Heard { seen, overrides: claim.overrides };
        self.done.changes.push(Change::Neighbour(id.clone(), neighbour, heard));
    }
}

impl Net {
    /// Whether a router's port leads where somebody may be whom nobody declares.
    pub(crate) fn leads_outside(&self, at: RouterPortAt) -> bool {
        self.switch_behind(at).is_some_and(|it| self.switches[it.at()].leads_outside)
    }

    fn switch_behind(&self, at: RouterPortAt) -> Option<SwitchAt> {
        match self.router_ports[at.at()].leads {
            Leads::Switch(at) => Some(self.ports[at.at()].switch),
            Leads::Peer(_) | Leads::Nowhere => None,
        }
    }

    /// Whether a router asks for a neighbour that nobody declares: one of the port's own subnets,
    /// or of its link, if there is room for any outside.
    fn may_be_outside(&self, out: RouterPortAt, address: IpAddr) -> bool {
        let row = &self.router_ports[out.at()].row;
        let from = neighbours::asked_from(&row.addresses, row.mac, address);
        self.leads_outside(out) && from.is_some()
    }

    /// Whether a neighbour that nobody declares may be behind a port, for a router's port.
    fn is_behind(&self, router: RouterPortAt, at: PortAt) -> bool {
        let port = &self.ports[at.at()];
        port.leads_outside() && self.switch_behind(router) == Some(port.switch)
    }

    /// Whether what a frame says is for a router: it asks that, or asks nobody else.
    fn concerns(&self, router: RouterPortAt, claim: &Claim) -> bool {
        let is_own = |it| it == claim.address || self.answers_for(router, it).is_some();
        claim.asks.is_none_or(is_own)
    }

    /// Whether a router believes a frame from a port outside: it speaks of an address of the
    /// router's port's own subnets that nobody declares, and of an Ethernet address that no other
    /// port does.
    fn believes(&self, router: RouterPortAt, at: PortAt, claim: &Claim) -> bool {
        let switch = self.ports[at.at()].switch;
        let mut routers = self.routers_on(switch);
        let owner = self.owner(switch, claim.mac);
        let own = &self.router_ports[router.at()].row;
        self.switch_behind(router) == Some(switch)
            && neighbours::asked_from(&own.addresses, own.mac, claim.address).is_some()
            && self.neighbour_on(switch, claim.address).is_none()
            && routers.all(|(_, it)| self.answers_for(it, claim.address).is_none())
            && owner.is_none_or(|owner| owner == at)
    }

    /// The ports of its switch that a question of a router's port goes out of: those behind which
    /// somebody may be whom nobody declares.
    fn asked_behind(&self, router: RouterPortAt) -> impl Iterator<Item = &Port> {
        let switch = self.switch_behind(router).map(|it| &self.switches[it.at()]);
        let all = switch.into_iter().flat_map(|it| &it.ports).map(|at| &self.ports[at.at()]);
        all.filter(|port| port.leads_outside() && port.station.enabled)
    }

    /// Out of how many ports a question for a neighbour of a router goes.
    pub fn asked_ports(&self, (port, _): &Neighbour) -> usize {
        self.router_port(port).map_or(0, |at| self.asked_behind(at).count())
    }

    /// The frames that ask for a neighbour of a router, for some of those
    /// [ports](Self::asked_ports). `to`: where it was.
    pub fn ask(
        &self,
        (port, address): &Neighbour,
        to: Option<Mac>,
        ports: Range<usize>,
    ) -> Vec<Onward> {
        let asks = || {
            let at = self.router_port(port)?;
            let RouterPort { row, leads: Leads::Switch(own), .. } = &self.router_ports[at.at()]
            else {
                return None;
            };
            let from = neighbours::asked_from(&row.addresses, row.mac, *address)?;
            let frame = neighbours::question((row.mac, from), *address, to);
            Some((at, frame.filter(|_| self.is_up(*own, at))?))
        };
        let Some((at, frame)) = asks() else { return Vec::new() };
        let onward = |to: &Port| Onward {
            to: to.id.clone(),
            origin: None,
            is_networks: true,
            routers: 1,
            frame: frame.clone(),
        };
        self.asked_behind(at).skip(ports.start).take(ports.len()).map(onward).collect()
    }
}

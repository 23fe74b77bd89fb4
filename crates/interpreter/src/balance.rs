//! Load balancers on a frame's way: of the sender's switch, and back to their client.

use core::net::IpAddr;

use logical::topology::{Port, PortIndex, SwitchIndex};
use packet::{Tuple, answer, rewrite};
use units::Mac;
use wire::ip::Fragment;

use crate::decision::Reason;
use crate::nat::Place;
use crate::walk::{Stop, Underway, Walk};
use crate::{route, service};

impl Walk<'_> {
    /// Whether a load balancer of a switch has an address.
    pub fn balances(&self, switch: SwitchIndex, address: IpAddr) -> bool {
        let mut all = self.topology.balancers();
        all.any(|(_, it)| it.vip == address && it.switches.contains(&switch))
    }

    /// Whom a frame for a load balancer itself goes to: who serves, if it is another machine of the
    /// switch; a router that knows the way, if not.
    fn onward_of(&self, own: &Port, to: IpAddr) -> Option<Mac> {
        let neighbour = route::neighbour(self.topology, &self.topology[own.switch], to);
        let router = || service::routers(self.topology, own.switch).next().map(|it| it.mac);
        neighbour.filter(|mac| *mac != own.mac).or_else(router)
    }

    /// Load balancers of the sender's switch.
    pub fn balance(&mut self, port: PortIndex, under: &mut Underway) -> Result<(), Stop> {
        let (topology, own) = (self.topology, &self.topology[port]);
        let Some(ip) = under.fields.ip.filter(|ip| ip.layout.fragment == Fragment::Whole) else {
            return Ok(());
        };
        let whose = self.whose(port);
        let place = Place { topology, state: self.state, now: self.now, whose: &whose };
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
                (None, Ok(chosen)) => {
                    let free = place.free(chosen, None);
                    free.map_err(|reason| Self::stop(reason, &balancer.id))?
                }
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
            if under.fields.destination == packet::BALANCER {
                let next = self.onward_of(own, chosen.destination.0);
                let next = next.ok_or_else(|| Self::stop(Reason::Unresolved, &balancer.id))?;
                rewrite::set_macs(&mut under.frame, next, under.fields.source);
                under.subject.destination_mac = next;
            }
            let what = alloc::format!("to {}", chosen.destination.0);
            self.step(&balancer.id, "load balancer", None, &what);
            return self.read_again(under, own);
        }
        Ok(())
    }

    /// What comes back to a client of a load balancer comes from its address.
    pub fn unbalance(&mut self, port: PortIndex, under: &mut Underway) -> Result<(), Stop> {
        let own = &self.topology[port];
        let Some(ip) = under.fields.ip else { return Ok(()) };
        let (topology, whose) = (self.topology, self.whose(port));
        let place = Place { topology, state: self.state, now: self.now, whose: &whose };
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

    pub fn answer_if_rejecting(&mut self, tuple: Tuple) {
        let is_it = |vip: IpAddr| vip == tuple.destination.0;
        if self.topology.balancers().any(|(_, it)| is_it(it.vip) && it.reject) {
            self.answer(answer::reject(&self.sent));
        }
    }
}

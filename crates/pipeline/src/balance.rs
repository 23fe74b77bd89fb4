//! Load balancers of switches. They are at the host of the client, which both directions pass.

use alloc::vec::Vec;
use core::net::IpAddr;

use packet::{BALANCER, Fields, Ip, Tuple, rewrite};
use units::{Instant, Mac};
use wire::ip::Fragment;

use crate::backends;
use crate::change::Change;
use crate::flows::Flows;
use crate::net::{Net, Port};
use crate::outcome::{Reason, Step, Told};
use crate::places::SwitchAt;
use crate::receive::Tell;
use crate::send::{Stop, Underway, Walk};
use crate::state::State;

impl Walk<'_> {
    /// Load balancers of the sender's switch.
    pub fn balance(&mut self, port: &Port, under: &mut Underway) -> Result<(), Stop> {
        let net = self.net;
        let switch = &net.switches[port.switch.at()];
        let ip = under.fields.ip.filter(|ip| ip.layout.fragment == Fragment::Whole);
        let Some(ip) = ip.filter(|_| !switch.balancers.is_empty()) else { return Ok(()) };
        self.found.forget();
        let flows = self.flows(&port.id);
        if let Some(back) = flows.own_answer(ip.tuple) {
            // Who serves itself has asked the address, and the address answers.
            self.done.changes.extend(flows.renew(&back, ip.tuple, &under.frame, &ip));
            self.step(|| Step::new(&port.id, "load balancer", None, "back to who asked"));
            return set(under, &ip, back.other, port);
        }
        for own @ (id, balancer) in switch.balancers.iter().map(|it| &net.balancers[*it]) {
            let Some(chosen) = backends::choose(own, &self.state.down, ip.tuple) else { continue };
            let (chosen, change) = match (flows.known(ip.tuple), chosen) {
                (Some(known), _) => (known.other, flows.renew(&known, ip.tuple, &under.frame, &ip)),
                (None, Ok(_)) if !ip.begins() => return Err(Net::stop(Reason::Untracked, id)),
                (None, Ok(chosen)) => {
                    let free = flows.free(chosen, None);
                    let chosen = free.map_err(|reason| Net::stop(reason, id))?;
                    (chosen, flows.keep(ip.tuple, chosen, &under.frame, &ip))
                }
                (None, Err(reason)) => {
                    if balancer.reject {
                        self.tell_sender(Told::Rejected);
                    }
                    return Err(Net::stop(reason, id));
                }
            };
            self.done.changes.extend(change);
            if under.fields.destination == BALANCER {
                let next = net.onward_of(port, chosen.destination.0);
                let next = next.ok_or_else(|| Net::stop(Reason::Unresolved, id))?;
                rewrite::set_macs(&mut under.frame, next, under.fields.source);
            }
            self.step(|| {
                let what = alloc::format!("to {}", chosen.destination.0);
                Step::new(id, "load balancer", None, what)
            });
            return set(under, &ip, chosen, port);
        }
        Ok(())
    }
}

/// Gives a packet other ends.
fn set(under: &mut Underway, ip: &Ip, to: Tuple, port: &Port) -> Result<(), Stop> {
    rewrite::set_tuple(&mut under.frame, ip, to);
    under.tuple = Some(to);
    let fields = Fields::of(&under.frame);
    under.fields = fields.ok_or_else(|| Net::stop(Reason::Malformed, &port.id))?;
    Ok(())
}

impl Net {
    /// Whether a load balancer of a switch has an address.
    pub(crate) fn balances(&self, switch: SwitchAt, address: IpAddr) -> bool {
        let own = self.switches[switch.at()].balancers.iter();
        own.map(|it| &self.balancers[*it].1).any(|it| it.vip == address)
    }

    /// Whom a frame for a load balancer itself goes to: who serves, if it is another machine of the
    /// switch; a router that knows the way, if not.
    fn onward_of(&self, own: &Port, to: IpAddr) -> Option<Mac> {
        let neighbour = self.neighbour_on(own.switch, to);
        let mut routers = self.routers_on(own.switch);
        let mut router = || routers.find(|(at, router)| self.is_up(*at, *router));
        let router = || router().map(|(_, router)| self.router_ports[router.at()].row.mac);
        neighbour.filter(|mac| *mac != own.station.mac).or_else(router)
    }

    /// What comes back to a client of a load balancer comes from its address: the frame then, and
    /// what is to be remembered. `None`: it is nothing such.
    pub(crate) fn unbalance(
        &self,
        (state, now): (&State, Instant),
        port: &Port,
        frame: &[u8],
        ip: &Ip,
        tell: Tell<'_>,
    ) -> Option<(Vec<u8>, Option<Change>)> {
        let flows = Flows { state, now, zone: Some(state.translating(&port.id)?) };
        let mut made = frame.to_vec();
        if ip.is_error() {
            let quoted = ip.icmp?.quoted?;
            let (quoted, source, destination) = flows.error(quoted, ip.tuple.source.0)?;
            rewrite::set_quoted(&mut made, ip, quoted, source, destination);
            return Some((made, None));
        }
        let known = flows.known(ip.tuple)?;
        if known.other.destination.0 != ip.tuple.destination.0 {
            return None;
        }
        rewrite::set_tuple(&mut made, ip, known.other);
        tell(&|| Step::new(&port.id, "load balancer", None, "back from its address"));
        Some((made, flows.renew(&known, ip.tuple, frame, ip)))
    }
}

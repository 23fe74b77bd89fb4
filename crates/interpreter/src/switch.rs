//! A frame in a switch: who is answered, who gets it, and what that port lets in.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use logical::objects::{Broadcast, Direction, Multicast, UnknownUnicast};
use logical::topology::{Attachment, Port, PortIndex, RouterPortIndex, SwitchIndex};
use packet::groups;
use units::Mac;
use wire::{arp, ethernet, neighbor};
use zerocopy::IntoBytes;

use crate::decision::Reason;
use crate::walk::{Stop, Underway, Walk};
use crate::{route, security, service};

impl Walk<'_> {
    /// In a switch: answers what it can, and finds out who gets the frame.
    pub fn forward(
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
            let asked = from.and_then(|port| {
                self.own_server(port, &under).or_else(|| self.own_balancer(switch, &under))
            });
            if let Some(frame) = asked {
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

    /// Who declares an Ethernet address in a switch.
    pub fn owner(&self, switch: SwitchIndex, mac: Mac) -> Option<PortIndex> {
        let ports = self.topology[switch].ports.iter();
        let is_translations = |port: &Port| match port.attachment {
            Attachment::Router(router) => self.has_external(router, mac),
            _ => false,
        };
        let is_its = |port: &Port| port.mac == mac || is_translations(port);
        ports.copied().find(|port| is_its(&self.topology[*port]))
    }

    /// Whether a translation of a router has an Ethernet address of its own on a port's link.
    pub fn has_external(&self, port: RouterPortIndex, mac: Mac) -> bool {
        let port = &self.topology[port];
        let nats = self.topology[port.router].nats.iter().map(|nat| &self.topology[*nat]);
        let mut nats = nats.filter(|nat| nat.external_mac == Some(mac));
        nats.any(|nat| port.reaches(nat.external.first()))
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
        let answer = |mac: Mac, is_router: bool| told(&under.frame, mac, is_router);
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
        let is_machine = from.is_some_and(|port| topology[port].is_machine());
        if is_machine && self.balances(switch, asked) {
            return made(answer(packet::BALANCER, false));
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

    /// What a load balancer of the switch says when it alone is asked for its address.
    fn own_balancer(&self, switch: SwitchIndex, under: &Underway) -> Option<Vec<u8>> {
        let asked = question(under).filter(|_| under.fields.destination == packet::BALANCER)?;
        let is_it = self.balances(switch, asked);
        is_it.then(|| told(&under.frame, packet::BALANCER, false)).flatten()
    }

    /// From a switch to a port: what it may be sent, and what its rules say.
    pub fn leave(&mut self, port: PortIndex, mut under: Underway) -> Result<(), Stop> {
        let own = &self.topology[port];
        if !self.is_here(port) {
            return Err(Self::stop(Reason::Disabled, &own.id));
        }
        if let Some(group) = groups::of_listeners(&under.fields)
            && self.topology[own.switch].multicast == Multicast::Snoop
            && own.is_machine()
            && !self.state.wants(&self.whose(port), group)
        {
            return Err(Self::stop(Reason::NotJoined, &own.id));
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
pub fn told(frame: &[u8], mac: Mac, is_router: bool) -> Option<Vec<u8>> {
    if let Some(request) = arp::Request::parse(frame) {
        return Some(request.answer(mac).as_bytes().to_vec());
    }
    neighbor::Solicitation::parse(frame).map(|it| it.answer(mac, is_router).as_bytes().to_vec())
}

/// The address that a frame asks for, if it is a question for one.
pub fn question(under: &Underway) -> Option<IpAddr> {
    if under.fields.ethertype == ethernet::ethertype::ARP {
        let request = arp::Request::parse(&under.frame)?;
        // An announcement asks nobody (RFC 5227 §2.3).
        return (request.sender.1 != request.target).then_some(request.target.into());
    }
    let asked = neighbor::Solicitation::parse(&under.frame)?.target;
    Some(IpAddr::V6(asked)).filter(|_| asked != Ipv6Addr::UNSPECIFIED)
}

//! Which other ends a flow gets: translations of routers, and load balancers.
//!
//! A flow has its ends before a router and behind it. Destinations change first, so that routes are
//! asked for where the packet really goes; sources change last. A floating address is translated
//! packet by packet, except between two machines inside: the answer has to come back through the
//! router.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::{Affinity, NatKind, PortRange};
use logical::topology::{
    Backend, Balancer, Link, Nat, Router, RouterPort, RouterPortIndex, Topology,
};
use packet::{Ip, Tuple, address_hash, flow_hash};
use units::{Instant, Span};
use wire::ip::protocol;

use crate::decision::Reason;
use crate::policy::holds;
use crate::state::{Change, State, Subject, Translation, What, Whose};

/// How many ports are tried for a flow whose own is taken.
const TRIES: usize = 512;

/// How long a flow's ends are remembered without a packet.
pub fn patience(tuple: Tuple) -> Span {
    Span::from_secs(if tuple.protocol == protocol::TCP { 432_000 } else { 180 })
}

/// Where a flow's ends are kept: a router's, or those of a load balancer for a port.
pub struct Place<'a> {
    pub topology: &'a Topology,
    pub state: &'a State,
    pub now: Instant,
    pub whose: &'a Whose,
}

/// A flow's destination, once it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Inside {
    /// The ends now.
    pub tuple: Tuple,
    /// Whether the flow was known: its source is right, too.
    pub is_settled: bool,
    /// What changed the destination.
    pub by: Option<String>,
    /// Whether its packets are of a connection.
    pub is_tracked: bool,
}

/// Of backends the one that a number means, each as often as its weight says, and the number
/// without what that took of it.
fn weighted(backends: &[Backend], number: u64) -> Option<(&Backend, u64)> {
    let sum =
        |backends: &[Backend]| -> u64 { backends.iter().map(|it| u64::from(it.weight)).sum() };
    let all = sum(backends);
    let place = number.checked_rem(all)?;
    let chosen = (1..).find(|count| place < sum(&backends[..*count]))?;
    Some((&backends[chosen - 1], number / all))
}

impl Place<'_> {
    /// The ends of a flow that is known, the other way as well.
    pub fn known(&self, tuple: Tuple) -> Option<Tuple> {
        let mut all = self.state.translations(self.whose, self.now);
        all.find_map(|it| match tuple {
            _ if it.before == tuple => Some(it.behind),
            _ if it.behind.reversed() == tuple => Some(it.before.reversed()),
            _ => None,
        })
    }

    /// The ends of an answer of who serves itself, as who asked is to see it.
    pub fn own_answer(&self, tuple: Tuple) -> Option<Tuple> {
        let mut all = self.state.translations(self.whose, self.now);
        let is_own = |it: &Translation| it.behind.destination.0 == it.before.source.0;
        let found = all.find(|it| it.behind.reversed() == tuple && is_own(it))?;
        Some(found.before.reversed())
    }

    /// The flow is remembered.
    pub fn keep(&self, before: Tuple, behind: Tuple) -> Change {
        let until = self.now + patience(before);
        Change(What::Translation(self.whose.clone(), Translation { before, behind, until }))
    }

    /// Of a flow that is known, its translation again, so that it is not forgotten.
    pub fn renew(&self, tuple: Tuple) -> Option<Change> {
        let is_it = |it: &&Translation| it.before == tuple || it.behind.reversed() == tuple;
        let found = self.state.translations(self.whose, self.now).find(is_it)?;
        Some(self.keep(found.before, found.behind))
    }

    /// What an error quotes, and its own ends, where it goes on: quoted, source, destination.
    pub fn error(&self, quoted: Tuple, source: IpAddr) -> Option<(Tuple, IpAddr, IpAddr)> {
        let swap = |is: IpAddr, to: IpAddr| if source == is { to } else { source };
        self.state.translations(self.whose, self.now).find_map(|it| {
            let (before, behind) = (it.before, it.behind);
            if behind == quoted {
                let source = swap(behind.destination.0, before.destination.0);
                return Some((before, source, before.source.0));
            }
            if before.reversed() == quoted {
                let source = swap(before.source.0, behind.source.0);
                return Some((behind.reversed(), source, behind.destination.0));
            }
            None
        })
    }

    /// Chooses who serves, of those behind an address. `None` if it is not that address. Whoever is
    /// down is chosen as if it was up, and only what it was chosen for is chosen for anew.
    pub fn balance(&self, it: &Balancer, tuple: Tuple) -> Option<Result<Tuple, Reason>> {
        let (address, port) = tuple.destination;
        let is_it = it.vip == address
            && it.protocol.0 == tuple.protocol
            && it.port.is_none_or(|it| it == port);
        if !is_it {
            return None;
        }
        let number = match it.affinity {
            Affinity::None => flow_hash(tuple),
            Affinity::ClientIp => address_hash(tuple.source.0),
        };
        let ends = |it: &Backend| (it.address, it.port.unwrap_or(port));
        let is_up = |backend: &Backend| !self.state.is_down(&it.id, ends(backend));
        let up: Vec<_> = it.backends.iter().copied().filter(is_up).collect();
        let chosen = match weighted(&it.backends, number) {
            Some((chosen, rest)) if !is_up(chosen) => weighted(&up, rest),
            chosen => chosen,
        };
        let Some((chosen, _)) = chosen else { return Some(Err(Reason::NoBackend)) };
        let destination = ends(chosen);
        // Who asks for itself has to see the address answer, not itself.
        let is_own = chosen.address == tuple.source.0 && it.hairpin_snat;
        let source = if is_own { (it.vip, tuple.source.1) } else { tuple.source };
        Some(Ok(Tuple { source, destination, ..tuple }))
    }

    /// The ends of a flow that a router is about to route: its destination translated.
    pub fn enter(
        &self,
        router: &Router,
        ip: &Ip,
        tuple: Tuple,
        subject: &Subject,
    ) -> Result<Inside, Reason> {
        if let Some(known) = self.known(tuple) {
            let by = Some("a known flow".to_string());
            return Ok(Inside { tuple: known, is_settled: true, by, is_tracked: true });
        }
        for (_, balancer) in self.topology.balancers() {
            let is_here = balancer.routers.iter().any(|it| self.topology[*it].id == router.id);
            let Some(chosen) = self.balance(balancer, tuple).filter(|_| is_here) else { continue };
            if !ip.begins() {
                return Err(Reason::Untracked);
            }
            let by = Some(balancer.id.to_string());
            return Ok(Inside { tuple: chosen?, is_settled: false, by, is_tracked: true });
        }
        for index in &router.nats {
            let nat = &self.topology[*index];
            let (address, port) = tuple.destination;
            if nat.kind == NatKind::Snat
                || !nat.external.contains(address)
                || !self.speaks_of(nat, tuple, tuple.source.0, subject)
                || !nat.external_ports.is_none_or(|ports| ports.contains(port))
            {
                continue;
            }
            let place = nat.external.place(address);
            let inside = match nat.kind {
                NatKind::Floating => nat.logical.at(place),
                _ => Some(nat.logical.first()),
            };
            let Some(inside) = inside else { continue };
            let is_tracked = nat.kind == NatKind::Dnat;
            if is_tracked && !ip.begins() {
                return Err(Reason::Untracked);
            }
            let destination = (inside, nat.port.unwrap_or(port));
            let tuple = Tuple { destination, ..tuple };
            let by = Some(nat.id.to_string());
            return Ok(Inside { tuple, is_settled: false, by, is_tracked });
        }
        Ok(Inside { tuple, is_settled: false, by: None, is_tracked: false })
    }

    /// Whether a translation is meant for a packet. `other`: the end that it does not translate.
    fn speaks_of(&self, nat: &Nat, tuple: Tuple, other: IpAddr, subject: &Subject) -> bool {
        let within = |sets| self.topology.addresses_in(sets).any(|it| it.contains(other));
        nat.protocol.is_none_or(|it| it.0 == tuple.protocol)
            && !within(&nat.exempt)
            && (nat.only_for.is_empty() || within(&nat.only_for))
            && nat.matches.as_ref().is_none_or(|it| holds(self.topology, it, subject))
    }

    /// Whether a router's port leads outside, as a translation sees it: one on gateways or to a
    /// provider's network; if the router has none such, one that reaches the external address.
    fn is_outside(&self, router: &Router, nat: &Nat, index: RouterPortIndex) -> bool {
        let leads = |port: &RouterPort| {
            let is_provider = match port.link {
                Link::Switch(at) => self.topology[self.topology[at].switch].provider.is_some(),
                Link::Peer(_) | Link::Nowhere => false,
            };
            !port.gateway.is_empty() || is_provider
        };
        let ports = || router.ports.iter().map(|it| &self.topology[*it]);
        let own = &self.topology[index];
        if ports().any(leads) {
            return leads(own);
        }
        let reaches = |port: &RouterPort| port.reaches(nat.external.first());
        if ports().any(reaches) {
            return reaches(own);
        }
        !own.reaches(nat.logical.first())
    }

    /// The ends of a flow that a router is about to send: its source translated. `before`: its ends
    /// when it came.
    pub fn leave(
        &self,
        router: &Router,
        ways: [RouterPortIndex; 2],
        before: Tuple,
        inside: &Inside,
        ip: &Ip,
        subject: &Subject,
    ) -> Result<(Tuple, Option<String>, Vec<Change>), Reason> {
        let now = inside.tuple;
        if inside.is_settled {
            let renewed = self.renew(before).into_iter().collect();
            return Ok((now, None, renewed));
        }
        let is_translated = now.destination != before.destination;
        let mut behind = now;
        let (mut by, mut is_tracked, mut is_chosen) = (None, inside.is_tracked, false);
        for index in &router.nats {
            let nat = &self.topology[*index];
            let [from, to] = ways.map(|way| self.is_outside(router, nat, way));
            // Inside, only what came for an external address has its source translated, too.
            let is_inside = !from && !to && is_translated;
            if nat.kind == NatKind::Dnat
                || !nat.logical.contains(now.source.0)
                || !self.speaks_of(nat, now, now.destination.0, subject)
                || !(to || is_inside)
            {
                continue;
            }
            by = Some(nat.id.to_string());
            if nat.kind == NatKind::Floating {
                let place = nat.logical.place(now.source.0);
                behind.source.0 = nat.external.at(place).unwrap_or(now.source.0);
                is_tracked |= is_inside;
                break;
            }
            if !ip.begins() {
                return Err(Reason::Untracked);
            }
            let size = nat.external.place(nat.external.last()).saturating_add(1);
            let place = u128::from(address_hash(now.source.0)) % size.max(1);
            behind.source.0 = nat.external.at(place).unwrap_or(nat.external.first());
            behind = self.free(behind, nat.external_ports)?;
            (is_tracked, is_chosen) = (true, true);
            break;
        }
        // To a machine on the link that it came from: its answer would take the short way.
        if by.is_none() && is_translated && ways[0] == ways[1] {
            behind.source.0 = before.destination.0;
            by = Some("hairpin".to_string());
            is_tracked = true;
        }
        // A floating address that is reached from inside is a connection, whoever asks.
        is_tracked |= is_translated && by.is_none() && !self.came_from_outside(router, ways[0]);
        if !is_tracked || behind == before || !ip.begins() {
            return Ok((behind, by, Vec::new()));
        }
        if !is_chosen {
            behind = self.free(behind, None)?;
        }
        Ok((behind, by, alloc::vec![self.keep(before, behind)]))
    }

    fn came_from_outside(&self, router: &Router, way: RouterPortIndex) -> bool {
        router.nats.iter().any(|nat| self.is_outside(router, &self.topology[*nat], way))
    }

    /// Whether no other flow has these ends behind, or their reverse before.
    fn is_free(&self, behind: Tuple) -> bool {
        let mut all = self.state.translations(self.whose, self.now);
        all.all(|it| it.behind != behind && it.before.reversed() != behind)
    }

    /// A flow's ends behind, such that no other flow has them: with its own port, or with the next
    /// that is free of a range. A declared range holds for its own port, too.
    pub fn free(&self, behind: Tuple, ports: Option<PortRange>) -> Result<Tuple, Reason> {
        let own = behind.source.1;
        let is_echo = matches!(behind.protocol, protocol::ICMP | protocol::ICMPV6);
        let with = |port| Tuple {
            source: (behind.source.0, port),
            // An echo has one number for both ends.
            destination: (behind.destination.0, if is_echo { port } else { behind.destination.1 }),
            ..behind
        };
        if ports.is_none() && self.is_free(behind) {
            return Ok(behind);
        }
        if own == 0 {
            return if self.is_free(behind) { Ok(behind) } else { Err(Reason::NatFull) };
        }
        let PortRange { first, last } = ports.unwrap_or(PortRange { first: 1024, last: u16::MAX });
        let own = own.clamp(first, last);
        let all = (own..=last).chain(first..own).take(TRIES);
        all.map(with).find(|it| self.is_free(*it)).ok_or(Reason::NatFull)
    }

    /// Errors about packets of floating addresses, which are not kept.
    pub fn floating_error(
        &self,
        router: &Router,
        quoted: Tuple,
        source: IpAddr,
        destination: IpAddr,
    ) -> Option<(Tuple, IpAddr, IpAddr)> {
        for index in &router.nats {
            let nat = &self.topology[*index];
            if nat.kind != NatKind::Floating {
                continue;
            }
            let inside = |address| {
                let place = nat.external.place(address);
                nat.external.contains(address).then(|| nat.logical.at(place)).flatten()
            };
            let outside = |address| {
                let place = nat.logical.place(address);
                nat.logical.contains(address).then(|| nat.external.at(place)).flatten()
            };
            if let Some(own) = inside(quoted.source.0).filter(|_| destination == quoted.source.0) {
                let quoted = Tuple { source: (own, quoted.source.1), ..quoted };
                return Some((quoted, source, own));
            }
            if let Some(external) = outside(quoted.destination.0) {
                let source = if source == quoted.destination.0 { external } else { source };
                let quoted = Tuple { destination: (external, quoted.destination.1), ..quoted };
                return Some((quoted, source, destination));
            }
        }
        None
    }
}

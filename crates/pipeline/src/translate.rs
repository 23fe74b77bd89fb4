//! What routers translate. Destinations change first, so that routes are asked for where the packet
//! really goes; sources change last.
//!
//! A router that keeps flows has them at one host, by which all its packets pass: its gateway's.
//! Every other host hands packets for it to that one.

use alloc::string::{String, ToString};
use core::net::IpAddr;

use conntrack::Kind;
use image::Nat;
use logical::objects::{AddressRange, NatKind};
use packet::{Ip, Tuple, address_hash};
use units::Mac;
use wire::neighbor::link_local;

use crate::backends;
use crate::change::Change;
use crate::flows::{Flows, Known};
use crate::nat::Translation;
use crate::net::{Leads, Net, Router, RouterPort};
use crate::outcome::Reason;
use crate::places::{PortAt, RouterPortAt, SwitchAt};
use crate::rules::Subject;

/// A flow's destination, once it is known.
pub struct Inside {
    /// The ends when it came.
    pub before: Tuple,
    /// The ends now.
    pub tuple: Tuple,
    /// The flow, if it was known: its source is right, too.
    pub known: Option<Known>,
    /// What changed the destination.
    pub by: Option<String>,
    /// Whether its packets are of a connection.
    pub is_tracked: bool,
}

/// A flow's ends as a router sends it on.
pub struct Outside {
    /// The ends then.
    pub tuple: Tuple,
    /// What changed the source.
    pub by: Option<String>,
    /// What is to be remembered.
    pub change: Option<Change>,
    /// Whether all its packets have these, as long as its flow is known; or, if it is of none, as
    /// long as it is of none.
    pub stays: bool,
}

impl RouterPort {
    /// Whether an address is on its link.
    fn reaches(&self, address: IpAddr) -> bool {
        self.row.addresses.iter().any(|it| AddressRange::from(*it).contains(address))
    }
}

impl Net {
    /// The Ethernet address at which a router's port has an external address, if it has it.
    pub(crate) fn external_mac(&self, at: RouterPortAt, address: IpAddr) -> Option<Mac> {
        let port = &self.router_ports[at.at()];
        let router = &self.routers[port.router.at()];
        if !router.translates() || !port.reaches(address) {
            return None;
        }
        let nat = router.nats.iter().find(|nat| nat.row.external.contains(address));
        let mut balancers = router.balancers.iter().map(|it| &self.balancers[*it].1);
        nat.map(|nat| nat.row.external_mac.unwrap_or(port.row.mac))
            .or_else(|| balancers.any(|it| it.vip == address).then_some(port.row.mac))
    }

    /// The Ethernet address by which a router's port answers for an address; `None` if it does not.
    pub(crate) fn answers_for(&self, at: RouterPortAt, asked: IpAddr) -> Option<Mac> {
        let port = &self.router_ports[at.at()];
        let is_own = port.has(asked) || asked == IpAddr::V6(link_local(port.row.mac));
        is_own.then_some(port.row.mac).or_else(|| self.external_mac(at, asked))
    }

    /// Whether a translation of a router has an Ethernet address of its own on a port's link.
    pub(crate) fn has_external(&self, at: RouterPortAt, mac: Mac) -> bool {
        let port = &self.router_ports[at.at()];
        let mut nats = self.routers[port.router.at()].nats.iter();
        nats.any(|nat| nat.row.external_mac == Some(mac) && port.reaches(nat.row.external.first()))
    }

    /// Who has an Ethernet address in a switch because of a translation.
    pub(crate) fn external_owner(&self, switch: SwitchAt, mac: Mac) -> Option<PortAt> {
        let mut routers = self.routers_on(switch);
        routers.find(|(_, router)| self.has_external(*router, mac)).map(|(at, _)| at)
    }

    /// Whether a translation is meant for a packet. `other`: the end that it does not translate.
    fn speaks_of(
        &self,
        nat: &Translation,
        tuple: Tuple,
        other: IpAddr,
        subject: &Subject<'_>,
    ) -> bool {
        let within = |sets: &[AddressRange]| sets.iter().any(|it| it.contains(other));
        nat.row.protocol.is_none_or(|it| it.0 == tuple.protocol)
            && !within(&nat.exempt)
            && (nat.row.only_for.is_empty() || within(&nat.only_for))
            && nat.condition.as_ref().is_none_or(|it| it.first(&self.conditions, subject).is_some())
    }

    /// The ends of a flow that a router is about to route: its destination translated.
    pub(crate) fn translate_in(
        &self,
        router: &Router,
        flows: Flows<'_>,
        ip: &Ip,
        tuple: Tuple,
        subject: &Subject<'_>,
    ) -> Result<Inside, Reason> {
        let before = tuple;
        let plain = Inside { before, tuple, known: None, by: None, is_tracked: false };
        if !router.translates() {
            return Ok(plain);
        }
        if let Some(known) = flows.known(tuple) {
            let by = Some("a known flow".to_string());
            return Ok(Inside {
                before,
                tuple: known.other,
                known: Some(known),
                by,
                is_tracked: true,
            });
        }
        for own @ (id, _) in router.balancers.iter().map(|it| &self.balancers[*it]) {
            let Some(chosen) = backends::choose(own, &flows.state.down, tuple) else { continue };
            if !ip.begins() {
                return Err(Reason::Untracked);
            }
            let (tuple, by) = (chosen?, Some(id.to_string()));
            return Ok(Inside { before, tuple, known: None, by, is_tracked: true });
        }
        for nat in &router.nats {
            let (address, port) = tuple.destination;
            let row = &nat.row;
            if row.kind == NatKind::Snat
                || !row.external.contains(address)
                || !self.speaks_of(nat, tuple, tuple.source.0, subject)
                || !row.external_ports.is_none_or(|ports| ports.contains(port))
            {
                continue;
            }
            let inside = match row.kind {
                NatKind::Floating => row.logical.at(row.external.place(address)),
                _ => Some(row.logical.first()),
            };
            let Some(inside) = inside else { continue };
            let is_tracked = row.kind == NatKind::Dnat;
            if is_tracked && !ip.begins() {
                return Err(Reason::Untracked);
            }
            let tuple = Tuple { destination: (inside, row.port.unwrap_or(port)), ..tuple };
            return Ok(Inside {
                before,
                tuple,
                known: None,
                by: Some(nat.id.to_string()),
                is_tracked,
            });
        }
        Ok(plain)
    }

    /// Whether a router's port leads outside, as a translation sees it: one on gateways or to a
    /// provider's network; if the router has none such, one that reaches the external address.
    fn is_outside(&self, router: &Router, nat: &Nat, at: RouterPortAt) -> bool {
        let leads = |port: &RouterPort| {
            let is_provider = match port.leads {
                Leads::Switch(at) => {
                    self.switches[self.ports[at.at()].switch.at()].row.provider.is_some()
                }
                Leads::Peer(_) | Leads::Nowhere => false,
            };
            !port.row.gateway.is_empty() || is_provider
        };
        let ports = || router.ports.iter().map(|it| &self.router_ports[it.at()]);
        let own = &self.router_ports[at.at()];
        if ports().any(leads) {
            return leads(own);
        }
        let reaches = |port: &RouterPort| port.reaches(nat.external.first());
        if ports().any(reaches) {
            return reaches(own);
        }
        !own.reaches(nat.logical.first())
    }

    /// The ends of a flow that a router is about to send: its source translated.
    pub(crate) fn translate_out(
        &self,
        router: &Router,
        flows: Flows<'_>,
        ways: [RouterPortAt; 2],
        inside: &Inside,
        (frame, ip): (&[u8], &Ip),
        subject: &Subject<'_>,
    ) -> Result<Outside, Reason> {
        let (before, now) = (inside.before, inside.tuple);
        if let Some(known) = &inside.known {
            let change = flows.renew(known, before, frame, ip);
            // What no connection follows changes nothing, whatever it says.
            let stays = Flows::kind(frame, ip) != Kind::Other;
            return Ok(Outside { tuple: now, by: None, change, stays });
        }
        let is_translated = now.destination != before.destination;
        let mut behind = now;
        let (mut by, mut is_tracked, mut is_chosen) = (None, inside.is_tracked, false);
        for nat in &router.nats {
            let row = &nat.row;
            let [from, to] = ways.map(|way| self.is_outside(router, row, way));
            // Inside, only what came for an external address has its source translated, too.
            let is_inside = !from && !to && is_translated;
            if row.kind == NatKind::Dnat
                || !row.logical.contains(now.source.0)
                || !self.speaks_of(nat, now, now.destination.0, subject)
                || !(to || is_inside)
            {
                continue;
            }
            by = Some(nat.id.to_string());
            if row.kind == NatKind::Floating {
                let place = row.logical.place(now.source.0);
                behind.source.0 = row.external.at(place).unwrap_or(now.source.0);
                is_tracked |= is_inside;
                break;
            }
            if !ip.begins() {
                return Err(Reason::Untracked);
            }
            let size = row.external.place(row.external.last()).saturating_add(1);
            let place = u128::from(address_hash(now.source.0)) % size.max(1);
            behind.source.0 = row.external.at(place).unwrap_or(row.external.first());
            behind = flows.free(behind, row.external_ports)?;
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
        let came_from_outside =
            || router.nats.iter().any(|nat| self.is_outside(router, &nat.row, ways[0]));
        is_tracked |= is_translated && by.is_none() && !came_from_outside();
        if !is_tracked || behind == before || !ip.begins() {
            return Ok(Outside { tuple: behind, by, change: None, stays: !is_tracked });
        }
        if !is_chosen {
            behind = flows.free(behind, None)?;
        }
        let change = flows.keep(before, behind, frame, ip);
        Ok(Outside { tuple: behind, by, change, stays: false })
    }

    /// Errors about packets of floating addresses, which are not kept.
    pub(crate) fn floating_error(
        router: &Router,
        quoted: Tuple,
        source: IpAddr,
        destination: IpAddr,
    ) -> Option<(Tuple, IpAddr, IpAddr)> {
        let nats = router.nats.iter().map(|nat| &nat.row);
        for nat in nats.filter(|nat| nat.kind == NatKind::Floating) {
            let over = |from: AddressRange, to: AddressRange, address| {
                from.contains(address).then(|| to.at(from.place(address))).flatten()
            };
            let own = over(nat.external, nat.logical, quoted.source.0);
            if let Some(own) = own.filter(|_| destination == quoted.source.0) {
                let quoted = Tuple { source: (own, quoted.source.1), ..quoted };
                return Some((quoted, source, own));
            }
            if let Some(external) = over(nat.logical, nat.external, quoted.destination.0) {
                let source = if source == quoted.destination.0 { external } else { source };
                let quoted = Tuple { destination: (external, quoted.destination.1), ..quoted };
                return Some((quoted, source, destination));
            }
        }
        None
    }
}

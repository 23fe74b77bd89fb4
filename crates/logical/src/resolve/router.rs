//! Routers: their ports, what those lead to, and the neighbours that routes name.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use super::names::{NOWHERE, Names};
use super::policy::matches;
use crate::fault::Fault;
use crate::objects::{
    self, AddressRange, Identity, Kind, LogicalRouter, Name, NextHop, Object, Reference,
    RoutePolicyAction,
};
use crate::report::Report;
use crate::topology::{
    Attachment, Hop, Link, Match, MeterIndex, Nat, NatIndex, NodeIndex, Route, RouteDecision,
    RoutePolicy, Router, RouterIndex, RouterPort, RouterPortIndex, Target, Topology,
};

/// Makes the routers, their ports and what they translate.
pub fn routers(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    topology.router_ports = names.each(faults, |id, object, report| match object {
        Object::RouterPort(it) => Some(port(id, &it.spec, names, report)),
        _ => None,
    });
    link(topology, names, faults);
    let mut routers = names.each(faults, |id, object, report| match object {
        Object::LogicalRouter(it) => Some(router(id, &it.spec, names, report)),
        _ => None,
    });
    for (index, port) in topology.router_ports() {
        routers.get_mut(port.router.0 as usize).into_iter().for_each(|it| it.ports.push(index));
    }
    check_prefixes(topology, &routers, names, faults);
    for ((identity, place, object), router) in names.of(Kind::LogicalRouter).zip(&mut routers) {
        let Object::LogicalRouter(it) = object else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        let ports: Vec<_> = router.ports.iter().map(|it| (*it, &topology[*it])).collect();
        let neighbours = Neighbours { ports: &ports, tenant: identity.tenant.as_ref(), names };
        let routes = it.spec.routes.iter().enumerate();
        router.routes = routes
            .map(|(i, it)| route(it, &format!("/spec/routes/{i}"), &neighbours, &mut report))
            .collect();
    }
    topology.routers = routers;
}

fn port(
    id: Identity,
    it: &objects::RouterPort,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> RouterPort {
    let router =
        names.find(Kind::LogicalRouter, id.tenant.as_ref(), &it.router, "/spec/router", report);
    let mut nodes: Vec<_> = it.gateway.iter().flat_map(|it| &it.nodes).enumerate().collect();
    nodes.sort_by_key(|(_, node)| Reverse(node.priority));
    let node = |(i, node): (usize, &objects::GatewayNode), report: &mut Report<'_>| {
        let path = format!("/spec/gateway/nodes/{i}/node");
        names.named(Kind::TransportNode, &node.node, path, report).map(NodeIndex)
    };
    RouterPort {
        router: RouterIndex(router.unwrap_or(NOWHERE)),
        mac: it.mac,
        addresses: it.addresses.clone(),
        link: Link::Nowhere,
        mtu: it.mtu,
        enabled: it.enabled,
        ra6: it.ra6.clone(),
        dhcp_relay: it.dhcp_relay.clone(),
        gateway: nodes.into_iter().filter_map(|each| node(each, report)).collect(),
        id,
    }
}

fn router(id: Identity, it: &LogicalRouter, names: &Names<'_>, report: &mut Report<'_>) -> Router {
    if let Some(gateway) = &it.gateway {
        names.named(Kind::Gateway, gateway, "/spec/gateway", report);
    }
    let copp = it.copp.as_ref();
    let copp = copp.and_then(|meter| names.named(Kind::Meter, meter, "/spec/copp", report));
    Router {
        enabled: it.enabled,
        gateway: it.gateway.clone(),
        routes: Vec::new(),
        policies: Vec::new(),
        ecmp: it.ecmp,
        copp: copp.map(MeterIndex),
        ports: Vec::new(),
        nats: Vec::new(),
        id,
    }
}

/// Says of each router's port what it leads to: the switch whose port stands for it, or its peer.
fn link(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut links: BTreeMap<u32, (Link, Identity)> = BTreeMap::new();
    let named = names.of(Kind::LogicalPort).zip(topology.ports());
    for ((identity, place, _), (index, port)) in named {
        let Attachment::Router(to) = port.attachment else { continue };
        if to.0 == NOWHERE {
            continue;
        }
        let found = links.insert(to.0, (Link::Switch(index), identity.clone()));
        if let Some((_, other)) = found {
            let name = identity.to_string();
            let message =
                format!("{other} stands for it already: a router's port leads to one switch");
            Report { index: place, object: &name, faults }.say("/spec/router/routerPort", message);
        }
    }
    let mut peers = BTreeMap::new();
    for (own, (identity, place, object)) in (0u32..).zip(names.of(Kind::RouterPort)) {
        let Object::RouterPort(it) = object else { continue };
        let Some(reference) = &it.spec.peer else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        let tenant = identity.tenant.as_ref();
        let path = "/spec/peer";
        let Some(peer) = names.find(Kind::RouterPort, tenant, reference, path, &mut report) else {
            continue;
        };
        if peer == own {
            report.say(path, "it cannot be its own peer: name another router's port");
        }
        if let Some((_, port)) = links.get(&own) {
            report.say(path, format!("{port} leads to a switch already: take one of the two out"));
        }
        peers.insert(own, (peer, place, name));
    }
    for (own, (peer, place, name)) in &peers {
        if peers.get(peer).is_none_or(|(back, ..)| back != own) {
            let message = "its peer does not name this one: add `peer` there, too";
            Report { index: *place, object: name, faults }.say("/spec/peer", message);
        }
    }
    for (index, port) in (0u32..).zip(&mut topology.router_ports) {
        if let Some((link, _)) = links.get(&index) {
            port.link = *link;
        } else if let Some((peer, ..)) = peers.get(&index) {
            port.link = Link::Peer(RouterPortIndex(*peer));
        }
    }
    // A port of a switch that stands for a router's port has that one's addresses; and a router's
    // port sends no longer packets than its switch carries.
    for (index, port) in (0u32..).zip(&mut topology.router_ports) {
        let Some((Link::Switch(at), _)) = links.get(&index) else { continue };
        let stands = &mut topology.ports[at.0 as usize];
        stands.mac = port.mac;
        stands.addresses = Vec::new();
        let mtu = topology.switches.get(stands.switch.0 as usize).and_then(|it| it.mtu);
        port.mtu = [port.mtu, mtu].into_iter().flatten().min();
    }
}

/// Prefixes of one router's ports are apart, but for single addresses.
fn check_prefixes(
    topology: &Topology,
    routers: &[Router],
    names: &Names<'_>,
    faults: &mut Vec<Fault>,
) {
    let places: Vec<_> = names.of(Kind::RouterPort).map(|(_, place, _)| place).collect();
    for router in routers {
        let mut seen: Vec<(AddressRange, &Identity)> = Vec::new();
        for index in &router.ports {
            let port = &topology[*index];
            for (i, address) in port.addresses.iter().enumerate() {
                let is_single = address.length == if address.address.is_ipv4() { 32 } else { 128 };
                let range = AddressRange::from(*address);
                let other =
                    seen.iter().find(|(other, id)| range.overlaps(*other) && **id != port.id);
                if let Some((other, id)) = other.filter(|_| !is_single) {
                    let name = port.id.to_string();
                    let message = format!("{address} overlaps {other} of {id}: make them apart");
                    let place = places[index.0 as usize];
                    Report { index: place, object: &name, faults }
                        .say(format!("/spec/addresses/{i}"), message);
                }
                if !is_single {
                    seen.push((range, &port.id));
                }
            }
        }
    }
}

/// Who a router's neighbours can be.
struct Neighbours<'a> {
    ports: &'a [(RouterPortIndex, &'a RouterPort)],
    tenant: Option<&'a Name>,
    names: &'a Names<'a>,
}

impl Neighbours<'_> {
    /// A next hop and the port towards it.
    fn hop(
        &self,
        address: IpAddr,
        via: Option<&Reference>,
        onlink: bool,
        path: &str,
        field: &str,
        report: &mut Report<'_>,
    ) -> Option<Hop> {
        if let Some(via) = via {
            let path = format!("{path}/via");
            let found = self.names.find(Kind::RouterPort, self.tenant, via, &path, report)?;
            let Some((out, port)) = self.ports.iter().find(|(index, _)| index.0 == found) else {
                report.say(path, format!("{via} is another router's port: name one of this one's"));
                return None;
            };
            if onlink || port.reaches(address) {
                return Some(Hop { address, out: *out });
            }
            let message =
                format!("{address} is in no prefix of {via}: write one that is, or `onlink: true`");
            report.say(format!("{path}/{field}"), message);
            return None;
        }
        let towards = self.ports.iter().find(|(_, port)| port.reaches(address));
        if towards.is_none() {
            let message =
                format!("{address} is in no prefix of the router's ports: write one that is");
            report.say(format!("{path}/{field}"), message);
        }
        let own = towards.filter(|(_, port)| port.has(address));
        if own.is_some() {
            report.say(
                format!("{path}/{field}"),
                format!("{address} is the router itself: write a neighbour's"),
            );
        }
        towards.map(|(out, _)| Hop { address, out: *out })
    }

    fn hops(&self, hops: &[NextHop], path: &str, report: &mut Report<'_>) -> Vec<Hop> {
        let hop = |(i, it): (usize, &NextHop)| {
            let path = format!("{path}/{i}");
            self.hop(it.next_hop, it.via.as_ref(), false, &path, "nextHop", report)
        };
        hops.iter().enumerate().filter_map(hop).collect()
    }
}

fn route(
    it: &objects::Route,
    path: &str,
    neighbours: &Neighbours<'_>,
    report: &mut Report<'_>,
) -> Route {
    let target = match it.next_hop {
        _ if it.discard => Target::Discard { reject: it.reject },
        Some(address) => {
            let via = it.via.as_ref();
            let hop = neighbours.hop(address, via, it.onlink, path, "nextHop", report);
            Target::Hops { hops: hop.into_iter().collect(), symmetric: it.symmetric }
        }
        None => {
            let hops = neighbours.hops(&it.ecmp, &format!("{path}/ecmp"), report);
            Target::Hops { hops, symmetric: it.symmetric }
        }
    };
    Route {
        prefix: it.prefix,
        source: it.source,
        distance: it.distance.unwrap_or(1),
        target,
        monitored: it.monitor.is_some_and(|it| it.bfd),
    }
}

/// Adds what speaks of packets: route policies and translations. Groups are known by now.
pub fn match_packets(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut all = Vec::new();
    for ((identity, place, object), router) in names.of(Kind::LogicalRouter).zip(&topology.routers)
    {
        let Object::LogicalRouter(it) = object else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        let ports: Vec<_> = router.ports.iter().map(|it| (*it, &topology[*it])).collect();
        let tenant = identity.tenant.as_ref();
        let neighbours = Neighbours { ports: &ports, tenant, names };
        let mut policies: Vec<_> = it.spec.policies.iter().enumerate().collect();
        policies.sort_by_key(|(_, policy)| Reverse(policy.priority));
        let policy = |(i, policy): (usize, &objects::RoutePolicy)| {
            let path = format!("/spec/policies/{i}");
            let decision = match &policy.action {
                RoutePolicyAction::Allow => RouteDecision::Allow,
                RoutePolicyAction::Drop => RouteDecision::Drop,
                RoutePolicyAction::Reroute(it) => {
                    let path = format!("{path}/action/reroute/nextHops");
                    RouteDecision::Reroute(neighbours.hops(&it.next_hops, &path, &mut report))
                }
            };
            let at = format!("{path}/match");
            let matches = matches(&policy.matches, &at, tenant, topology, names, &mut report);
            let (name, priority) = (policy.name.clone(), policy.priority);
            RoutePolicy { name, priority, matches, decision }
        };
        all.push(policies.into_iter().map(policy).collect());
    }
    topology.routers.iter_mut().zip(all).for_each(|(router, it)| router.policies = it);
    let nats = names.each(faults, |id, object, report| match object {
        Object::Nat(it) => Some(nat(id, &it.spec, topology, names, report)),
        _ => None,
    });
    let mut order: Vec<_> = (0..).map(NatIndex).zip(&nats).collect();
    order.sort_by_key(|(_, nat)| nat.rank());
    for (index, nat) in order {
        let router = topology.routers.get_mut(nat.router.0 as usize);
        router.into_iter().for_each(|it| it.nats.push(index));
    }
    topology.nats = nats;
}

fn nat(
    id: Identity,
    it: &objects::Nat,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Nat {
    let tenant = id.tenant.as_ref();
    let router = names.find(Kind::LogicalRouter, tenant, &it.router, "/spec/router", report);
    let pools = names.of(Kind::ExternalPool).filter_map(|(_, _, object)| match object {
        Object::ExternalPool(pool) => Some(&pool.spec),
        _ => None,
    });
    let is_granted = pools
        .filter(|pool| tenant.is_some_and(|tenant| pool.tenants.contains(tenant)))
        .any(|pool| pool.prefixes.iter().any(|range| range.covers(it.external)));
    if !is_granted {
        let message = format!(
            "no ExternalPool grants {} to the tenant: write one that is granted, or have a pool's \
             `tenants` say it",
            it.external
        );
        report.say("/spec/external", message);
    }
    let mut sets = |field: &str, references: &[Reference]| {
        super::policy::sets(references, &format!("/spec/{field}"), tenant, names, report)
    };
    let (exempt, only_for) = (sets("exempt", &it.exempt), sets("onlyFor", &it.only_for));
    let matched = it.matches.as_ref();
    let matched: Option<Match> =
        matched.map(|one| matches(one, "/spec/match", tenant, topology, names, report));
    Nat {
        router: RouterIndex(router.unwrap_or(NOWHERE)),
        kind: it.kind,
        priority: it.priority,
        external: it.external,
        logical: it.logical,
        port: it.port,
        external_ports: it.external_ports,
        protocol: it.protocol,
        external_mac: it.external_mac,
        at: it.at,
        exempt,
        only_for,
        matches: matched,
        stateless: it.stateless,
        id,
    }
}

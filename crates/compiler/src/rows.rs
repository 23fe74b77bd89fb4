//! The rows of each domain.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use image::{
    Backend, Balancer, Domain, Group, Link, Nat, Policy, Port, RouteDecision, RouteKey,
    RoutePolicy, RoutePolicyKey, Router, RouterPort, RoutesAs, Rule, Rules as Interned, Station,
    StationRole, Switch, Target,
};
use logical::objects::{AddressRange, Identity, Kind, Name};
use logical::topology::{self, Attachment, Match, PolicyIndex, PortIndex, SetIndex};
use logical::{Domains, Topology};
use units::Prefix;

use crate::conditions::{condition, groups, sets};

/// Puts rows into domains.
pub struct Rows<'a> {
    topology: &'a Topology,
    domains: &'a Domains<'a>,
    made: BTreeMap<&'a Identity, Domain>,
    /// The sets whose addresses a domain has.
    sets: BTreeSet<(&'a Identity, SetIndex)>,
    /// The policies of each port.
    policies: BTreeMap<PortIndex, Vec<PolicyIndex>>,
}

/// A network by its first address.
fn network(prefix: Prefix) -> Prefix {
    Prefix { address: AddressRange::from(prefix).first(), length: prefix.length }
}

impl<'a> Rows<'a> {
    pub fn new(topology: &'a Topology, domains: &'a Domains<'a>) -> Self {
        let mut policies: BTreeMap<PortIndex, Vec<PolicyIndex>> = BTreeMap::new();
        for (index, policy) in topology.policies() {
            for port in &policy.ports {
                policies.entry(*port).or_default().push(index);
            }
        }
        Self { topology, domains, made: BTreeMap::new(), sets: BTreeSet::new(), policies }
    }

    pub fn put_all(&mut self) {
        self.switches();
        self.ports();
        self.policies();
        self.routers();
        self.router_ports();
        self.nats();
        self.balancers();
    }

    pub fn finish(self) -> BTreeMap<Identity, Domain> {
        self.made.into_iter().map(|(name, domain)| (name.clone(), domain)).collect()
    }

    fn domain(&mut self, name: &'a Identity) -> &mut Domain {
        self.made.entry(name).or_default()
    }

    fn domain_of(&self, port: PortIndex) -> &'a Identity {
        self.domains.of_switch(self.topology[port].switch)
    }

    fn switches(&mut self) {
        let topology = self.topology;
        for (index, it) in topology.switches() {
            let zones: Vec<_> = it.dns.iter().map(|zone| &topology[*zone]).collect();
            let domain = self.domain(self.domains.of_switch(index));
            for zone in &zones {
                domain.zones.insert(zone.id.clone(), (*zone).clone());
            }
            let row = Switch {
                enabled: it.enabled,
                subnets: it.subnets.clone(),
                mtu: it.mtu,
                unknown_unicast: it.unknown_unicast,
                mac_learning: it.mac_learning,
                multicast: it.multicast,
                broadcast: it.broadcast,
                default_action: it.default_action,
                provider: it.provider.clone(),
                zones: zones.iter().map(|zone| zone.id.clone()).collect(),
            };
            domain.switches.insert(it.id.clone(), row);
        }
    }

    fn ports(&mut self) {
        let topology = self.topology;
        for (index, it) in topology.ports() {
            let switch = &topology[it.switch].id;
            let role = match &it.attachment {
                Attachment::Vif | Attachment::Child { .. } => StationRole::Machine,
                Attachment::Local => StationRole::Local,
                Attachment::Router(port) => StationRole::Router(topology[*port].id.clone()),
                Attachment::Provider => StationRole::Provider,
                Attachment::L2Gateway { gateway, vlan } => {
                    StationRole::Gateway { gateway: gateway.clone(), vlan: *vlan }
                }
            };
            let station = Station {
                role,
                mac: it.mac,
                addresses: it.addresses.clone(),
                unknown: it.unknown,
                enabled: it.enabled,
            };
            let policies = self.policies.get(&index).into_iter().flatten();
            let policies = policies.map(|policy| topology[*policy].id.clone()).collect();
            let domain = self.domain(self.domain_of(index));
            domain.stations.insert((switch.clone(), it.id.clone()), station);
            if matches!(it.attachment, Attachment::Router(_)) {
                continue;
            }
            let mut profile = |index: Option<topology::ProfileIndex>| {
                let profile = &topology[index?];
                domain.profiles.insert(profile.id.clone(), profile.clone());
                Some(profile.id.clone())
            };
            let (dhcp4, dhcp6) = (profile(it.dhcp4), profile(it.dhcp6));
            let qos = it.qos.map(|qos| &topology[qos]);
            domain.qos.extend(qos.map(|qos| (qos.id.clone(), qos.profile)));
            if let Some(name) = &it.id.tenant
                && let Some(terms) = topology.terms_of(name)
            {
                let tenant = Identity { kind: Kind::Tenant, tenant: None, name: name.clone() };
                domain.terms.insert(tenant, terms);
            }
            let parent = match it.attachment {
                Attachment::Child { parent, vlan } => Some((topology[parent].id.clone(), vlan)),
                _ => None,
            };
            let row = Port {
                switch: switch.clone(),
                parent,
                security: it.security,
                allowed: it.allowed.clone(),
                dhcp4,
                dhcp6,
                class: it.class,
                qos: qos.map(|qos| qos.id.clone()),
                start: it.start,
                connections: it.connections,
                policies,
            };
            domain.ports.insert(it.id.clone(), row);
        }
    }

    /// A domain has a policy that holds for one of its ports.
    fn policies(&mut self) {
        let topology = self.topology;
        // Rules by the names in them, so that only few are looked at for the same.
        let mut interned: BTreeMap<Vec<&Name>, Vec<Interned>> = BTreeMap::new();
        for (_, it) in topology.policies() {
            let domains: BTreeSet<_> = it.ports.iter().map(|port| self.domain_of(*port)).collect();
            if domains.is_empty() {
                continue;
            }
            let rules: Vec<Rule> = it.rules.iter().map(|it| rule(topology, it)).collect();
            let alike =
                interned.entry(it.rules.iter().map(|rule| &rule.name).collect()).or_default();
            let known = alike.iter().find(|known| ***known == *rules).cloned();
            let rules = known.unwrap_or_else(|| {
                let rules: Interned = Arc::from(rules);
                alike.push(rules.clone());
                rules
            });
            for domain in domains {
                for rule in &it.rules {
                    rule.conditions.iter().for_each(|it| self.spoken_of(domain, it));
                    self.meter(domain, rule.log.as_ref().and_then(|log| log.meter.as_ref()));
                }
                let row = Policy {
                    tier: it.tier,
                    level: it.level,
                    order: it.order,
                    persist: it.persist,
                    isolates: it.isolates.clone(),
                    rules: rules.clone(),
                };
                self.domain(domain).policies.insert(it.id.clone(), row);
            }
        }
    }

    /// A domain has the members of the groups and sets that its conditions speak of.
    fn spoken_of(&mut self, domain: &'a Identity, it: &Match) {
        let topology = self.topology;
        for (group, ports) in groups(topology, it) {
            for port in ports {
                let port = &topology[port];
                let key: (Group, Identity) = (group.clone(), port.id.clone());
                self.domain(domain).members.insert(key, port.addresses.clone());
            }
        }
        for peer in it.source.iter().chain(&it.destination) {
            self.set_of(domain, &peer.sets);
        }
    }

    fn set_of(&mut self, domain: &'a Identity, sets: &BTreeSet<SetIndex>) {
        let topology = self.topology;
        for set in sets.iter().copied() {
            if self.sets.insert((domain, set)) {
                let set = &topology[set];
                let rows = set.addresses.iter().map(|it| ((set.id.clone(), *it), ()));
                self.domain(domain).addresses.extend(rows);
            }
        }
    }

    fn meter(&mut self, domain: &'a Identity, name: Option<&Name>) {
        let topology = self.topology;
        let Some(name) = name else { return };
        let id = Identity { kind: Kind::Meter, tenant: None, name: name.clone() };
        let found = topology.meters().find(|(_, it)| it.id == id);
        self.domain(domain).meters.extend(found.map(|(_, it)| (id, it.meter)));
    }

    fn routers(&mut self) {
        let topology = self.topology;
        for (index, it) in topology.routers() {
            let name = self.domains.of_router(index);
            let copp = it.copp.map(|meter| &topology[meter]);
            let domain = self.domain(name);
            domain.meters.extend(copp.map(|it| (it.id.clone(), it.meter)));
            let row = Router {
                enabled: it.enabled,
                gateway: it.gateway.clone(),
                ecmp: it.ecmp,
                copp: copp.map(|it| it.id.clone()),
            };
            domain.routers.insert(it.id.clone(), row);
            for route in &it.routes {
                let targets: Vec<_> = match &route.target {
                    topology::Target::Discard { reject } => {
                        alloc::vec![Target::Discard { reject: *reject }]
                    }
                    topology::Target::Hops { hops, .. } => {
                        let hop = |hop: &topology::Hop| Target::Hop {
                            address: hop.address,
                            out: topology[hop.out].id.clone(),
                        };
                        hops.iter().map(hop).collect()
                    }
                };
                let symmetric =
                    matches!(route.target, topology::Target::Hops { symmetric: true, .. });
                for target in targets {
                    let key = RouteKey {
                        router: it.id.clone(),
                        prefix: network(route.prefix),
                        source: route.source.map(network),
                        distance: route.distance,
                        target,
                    };
                    // Said twice, a route is what it is said to be anywhere.
                    let row = domain.routes.entry(key).or_default();
                    row.symmetric |= symmetric;
                    row.monitored |= route.monitored;
                }
            }
            let mut places: BTreeMap<u16, u16> = BTreeMap::new();
            for policy in &it.policies {
                let place = places.entry(policy.priority).or_default();
                let key = RoutePolicyKey {
                    router: it.id.clone(),
                    priority: Reverse(policy.priority),
                    place: *place,
                    name: policy.name.clone(),
                };
                *place += 1;
                let decision = match &policy.decision {
                    topology::RouteDecision::Allow => RouteDecision::Allow,
                    topology::RouteDecision::Drop => RouteDecision::Drop,
                    topology::RouteDecision::Reroute(hops) => {
                        let hop = |hop: &topology::Hop| (hop.address, topology[hop.out].id.clone());
                        RouteDecision::Reroute(hops.iter().map(hop).collect())
                    }
                };
                let condition = condition(topology, &policy.matches);
                self.domain(name).route_policies.insert(key, RoutePolicy { condition, decision });
                self.spoken_of(name, &policy.matches);
            }
        }
    }

    fn router_ports(&mut self) {
        let topology = self.topology;
        for (_, it) in topology.router_ports() {
            let router = &topology[it.router].id;
            let domain = self.domain(self.domains.of_router(it.router));
            let link = match it.link {
                topology::Link::Switch(at) => Link::Switch {
                    switch: topology[topology[at].switch].id.clone(),
                    port: topology[at].id.clone(),
                },
                topology::Link::Peer(peer) => Link::Peer(topology[peer].id.clone()),
                topology::Link::Nowhere => Link::Nowhere,
            };
            for prefix in it.addresses.iter().filter(|_| it.enabled) {
                let key = RouteKey {
                    router: router.clone(),
                    prefix: network(*prefix),
                    source: None,
                    distance: 0,
                    target: Target::Connected { out: it.id.clone() },
                };
                domain.routes.insert(key, RoutesAs::default());
            }
            let row = RouterPort {
                router: router.clone(),
                mac: it.mac,
                addresses: it.addresses.clone(),
                link,
                mtu: it.mtu,
                enabled: it.enabled,
                ra6: it.ra6.clone(),
                dhcp_relay: it.dhcp_relay.clone(),
                gateway: it.gateway.iter().map(|node| topology[*node].id.clone()).collect(),
            };
            domain.router_ports.insert(it.id.clone(), row);
        }
    }

    fn nats(&mut self) {
        let topology = self.topology;
        for (_, it) in topology.nats() {
            let name = self.domains.of_router(it.router);
            let row = Nat {
                router: topology[it.router].id.clone(),
                kind: it.kind,
                priority: it.priority,
                external: it.external,
                logical: it.logical,
                port: it.port,
                external_ports: it.external_ports,
                protocol: it.protocol,
                external_mac: it.external_mac,
                at: it.at,
                exempt: sets(topology, &it.exempt),
                only_for: sets(topology, &it.only_for),
                condition: it.matches.as_ref().map(|it| condition(topology, it)),
                stateless: it.stateless,
            };
            self.domain(name).nats.insert(it.id.clone(), row);
            it.matches.iter().for_each(|it| self.spoken_of(name, it));
            self.set_of(name, &it.exempt);
            self.set_of(name, &it.only_for);
        }
    }

    /// A domain has a balancer that is at one of its switches or routers, and knows of no others.
    fn balancers(&mut self) {
        let topology = self.topology;
        for (_, it) in topology.balancers() {
            let switches = it
                .switches
                .iter()
                .map(|index| (self.domains.of_switch(*index), Some(&topology[*index].id), None));
            let routers = it
                .routers
                .iter()
                .map(|index| (self.domains.of_router(*index), None, Some(&topology[*index].id)));
            let places: Vec<_> = switches.chain(routers).collect();
            for (name, switch, router) in places {
                let row = self.domain(name).balancers.entry(it.id.clone());
                let row = row.or_insert_with(|| balancer(topology, it));
                row.switches.extend(switch.cloned());
                row.routers.extend(router.cloned());
            }
        }
    }
}

fn rule(topology: &Topology, it: &topology::Rule) -> Rule {
    Rule {
        name: it.name.clone(),
        direction: it.direction,
        verdict: it.verdict,
        priority: it.priority,
        conditions: it.conditions.iter().map(|it| condition(topology, it)).collect(),
        log: it.log.clone(),
        sample: it.sample,
    }
}

fn balancer(topology: &Topology, it: &topology::Balancer) -> Balancer {
    let backend = |it: &topology::Backend| Backend {
        logical_port: it.logical_port.map(|port| topology[port].id.clone()),
        address: it.address,
        port: it.port,
        weight: it.weight,
    };
    Balancer {
        vip: it.vip,
        port: it.port,
        protocol: it.protocol,
        backends: it.backends.iter().map(backend).collect(),
        affinity: it.affinity,
        reject: it.reject,
        health_check: it.health_check,
        hairpin_snat: it.hairpin_snat,
        switches: BTreeSet::new(),
        routers: BTreeSet::new(),
    }
}

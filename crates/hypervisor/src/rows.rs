//! Rows of the image, of the tuples that say what they are made of.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use image::{
    Backend, Balancer, Domain, Link, Nat, Policy, Port, RouteDecision, RouteKey, RoutePolicy,
    RoutePolicyKey, Router, RouterPort, RoutesAs, Rule, Rules, Station, StationRole, Switch,
    Target,
};
use logical::Object;
use logical::objects::{
    self, Direction, Established, Identity, Kind, LoadBalancer, LogicalPort, Name,
    RoutePolicyAction,
};
use logical::topology::{Profile, TenantTerms};
use nlog::{Change, Datum, Tuple, Values};
use units::Mac;

use crate::facts::{MONITORED, SYMMETRIC, Tables};
use crate::objects::Objects;
use crate::speech::Writer;
use crate::text;

/// A tuple to be read, whose first column is a domain.
#[derive(Clone, Copy)]
pub struct Made<'a> {
    values: &'a Values,
    tuple: Tuple<'a>,
}

impl<'a> Made<'a> {
    fn text(self, column: usize) -> &'a str {
        match self.values.datum(self.tuple.value(column)) {
            Datum::Text(text) => text,
            other => panic!("{other} is no text"),
        }
    }

    fn number(self, column: usize) -> u64 {
        match self.values.datum(self.tuple.value(column)) {
            Datum::Int(number) => number,
            other => panic!("{other} is no number"),
        }
    }

    fn set(self, column: usize) -> Vec<Datum<'a>> {
        match self.values.datum(self.tuple.value(column)) {
            Datum::Set(members) => members,
            other => panic!("{other} is no set"),
        }
    }

    /// Names in a set; the empty one, which keeps it from being empty, is none.
    fn texts(self, column: usize) -> impl Iterator<Item = &'a str> {
        let texts = self.set(column).into_iter().filter_map(|it| match it {
            Datum::Text(text) => Some(text),
            _ => None,
        });
        texts.filter(|it| !it.is_empty())
    }

    fn id(self, column: usize) -> Identity {
        text::identity(self.text(column))
    }

    fn optional(self, column: usize) -> Option<Identity> {
        Some(self.text(column)).filter(|it| !it.is_empty()).map(text::identity)
    }

    fn ids(self, column: usize) -> BTreeSet<Identity> {
        self.texts(column).map(text::identity).collect()
    }
}

/// Rows of a table that are made anew, or are gone, by domain and key.
pub type Rows<K, R> = BTreeMap<(Identity, K), Option<R>>;

/// Makes rows of what changed.
pub struct Maker<'a> {
    pub change: &'a Change,
    pub values: &'a Values,
    pub tables: &'a Tables,
    pub objects: &'a Objects,
}

impl<'a> Maker<'a> {
    fn rows<K: Ord, R>(
        &self,
        table: &str,
        key: impl Fn(Made<'a>) -> K,
        mut row: impl FnMut(Made<'a>, &K) -> R,
    ) -> Rows<K, R> {
        let table = self.tables.get(table);
        let made = |tuple| Made { values: self.values, tuple };
        let place = |tuple: Made<'a>| (tuple.id(0), key(tuple));
        let mut rows: Rows<K, R> =
            self.change.vanished(table).map(|it| (place(made(it)), None)).collect();
        for tuple in self.change.appeared(table).map(made) {
            let place = place(tuple);
            let row = row(tuple, &place.1);
            rows.insert(place, Some(row));
        }
        rows
    }

    /// Rows that an object of the key's name makes.
    fn of_objects<R>(
        &self,
        table: &str,
        mut row: impl FnMut(Made<'a>, &'a Object) -> R,
    ) -> Rows<Identity, R> {
        self.rows(table, |it| it.id(1), |it, id| row(it, self.object(id)))
    }

    /// How many more ports PortGroups have; fewer are less than none.
    pub fn resized(&self) -> BTreeMap<Identity, isize> {
        let table = self.tables.get("in_group");
        let group = |tuple| Made { values: self.values, tuple }.text(1);
        let mut by = BTreeMap::<&str, isize>::new();
        self.change.vanished(table).for_each(|it| *by.entry(group(it)).or_default() -= 1);
        self.change.appeared(table).for_each(|it| *by.entry(group(it)).or_default() += 1);
        let named = by.into_iter().filter(|(_, by)| *by != 0);
        let named = named.filter_map(|(group, by)| match text::read_group(group) {
            image::Group::Named(id) => Some((id, by)),
            image::Group::Port(_) | image::Group::Selected { .. } => None,
        });
        named.collect()
    }

    fn object(&self, id: &Identity) -> &'a Object {
        let (object, _) = self.objects.get(id).expect("rules speak of objects that there are");
        object
    }

    pub fn switches(&self) -> Rows<Identity, Switch> {
        self.of_objects("switch_row", |_, object| {
            let Object::LogicalSwitch(it) = object else { panic!("{object:?} is no switch") };
            let tenant = it.metadata.tenant.as_ref();
            let it = &it.spec;
            Switch {
                enabled: it.enabled,
                subnets: it.subnets.clone(),
                mtu: it.mtu,
                unknown_unicast: it.unknown_unicast,
                mac_learning: it.mac_learning,
                multicast: it.multicast,
                broadcast: it.broadcast,
                default_action: it.default_action,
                provider: it.provider.clone(),
                zones: it.dns.iter().map(|it| text::meant(Kind::DnsZone, tenant, it)).collect(),
            }
        })
    }

    fn port(&self, id: &Identity) -> &'a LogicalPort {
        match self.object(id) {
            Object::LogicalPort(it) => &it.spec,
            other => panic!("{other:?} is no port"),
        }
    }

    pub fn stations(&self) -> Rows<(Identity, Identity), Station> {
        let key = |it: Made<'a>| (it.id(1), it.id(2));
        self.rows("station_row", key, |made, (_, id)| {
            let it = self.port(id);
            let role = match (&it.router, &it.l2gateway) {
                (Some(to), _) => {
                    let tenant = id.tenant.as_ref();
                    StationRole::Router(text::meant(Kind::RouterPort, tenant, &to.router_port))
                }
                (_, Some(to)) => {
                    StationRole::Gateway { gateway: to.gateway.clone(), vlan: to.vlan }
                }
                _ if it.provider.is_some() => StationRole::Provider,
                _ if it.local.is_some() => StationRole::Local,
                _ => StationRole::Machine,
            };
            // A router's addresses are its own port's.
            let addresses = if it.router.is_some() { Vec::new() } else { it.addresses.clone() };
            Station {
                role,
                mac: text::read(made.text(4)),
                addresses,
                unknown: it.unknown,
                enabled: it.enabled,
            }
        })
    }

    pub fn ports(&self) -> Rows<Identity, Port> {
        let key = |it: Made<'a>| it.id(1);
        self.rows("port_row", key, |made, id| {
            let (it, tenant) = (self.port(id), id.tenant.as_ref());
            let parent = it
                .child
                .as_ref()
                .map(|child| (text::meant(Kind::LogicalPort, tenant, &child.parent), child.vlan));
            let profile = |it: &Option<objects::Reference>| {
                it.as_ref().map(|it| text::meant(Kind::DhcpProfile, tenant, it))
            };
            let mac: Mac = text::read(made.text(3));
            let connections = made.number(5).checked_sub(1);
            Port {
                switch: text::meant(Kind::LogicalSwitch, tenant, &it.switch),
                parent,
                security: it.security.mode,
                allowed: logical::allowed(it, mac),
                dhcp4: profile(&it.dhcp4),
                dhcp6: profile(&it.dhcp6),
                class: it.class,
                qos: made.optional(4),
                start: it.start,
                connections: connections.map(|it| u32::try_from(it).expect("it was 32 bits")),
                policies: made.ids(6),
            }
        })
    }

    pub fn policies(&self, known: &mut Known) -> Rows<Identity, Policy> {
        // A policy of the operator's may be in many domains.
        let mut made_now: BTreeMap<Identity, Rules> = BTreeMap::new();
        self.rows(
            "policy_row",
            |it| it.id(1),
            |made, id| {
                let Object::Policy(it) = self.object(id) else { panic!("{id} is no policy") };
                let it = &it.spec;
                let rules = made_now.entry(id.clone()).or_insert_with(|| {
                    let writer = self.writer(id, made.ids(4));
                    known.keep(writer.rules(&it.rules))
                });
                let isolates = match (&it.default_action, it.directions.as_slice()) {
                    (None, _) => BTreeSet::new(),
                    (Some(_), []) => [Direction::FromPort, Direction::ToPort].into(),
                    (Some(_), directions) => directions.iter().copied().collect(),
                };
                Policy {
                    tier: it.tier,
                    level: it.level,
                    order: it.order,
                    persist: it.established == Established::Persist,
                    isolates,
                    rules: rules.clone(),
                }
            },
        )
    }

    fn writer<'i>(&self, id: &'i Identity, sets: BTreeSet<Identity>) -> Writer<'i>
    where
        'a: 'i,
    {
        Writer { tenant: id.tenant.as_ref(), sets, objects: self.objects }
    }

    pub fn members(&self) -> Rows<(image::Group, Identity), Vec<core::net::IpAddr>> {
        let key = |it: Made<'a>| (text::read_group(it.text(1)), it.id(2));
        self.rows("member_row", key, |made, _| text::read_addresses(made.text(3)))
    }

    pub fn addresses(&self) -> Rows<(Identity, objects::AddressRange), ()> {
        let key = |it: Made<'a>| (it.id(1), text::read(it.text(2)));
        self.rows("address_row", key, |_, _| ())
    }

    pub fn routers(&self) -> Rows<Identity, Router> {
        self.of_objects("router_row", |_, object| {
            let Object::LogicalRouter(it) = object else { panic!("{object:?} is no router") };
            let it = &it.spec;
            Router {
                enabled: it.enabled,
                gateway: it.gateway.clone(),
                ecmp: it.ecmp,
                copp: it.copp.as_ref().map(|name| text::operators(Kind::Meter, name)),
            }
        })
    }

    pub fn router_ports(&self) -> Rows<Identity, RouterPort> {
        self.of_objects("router_port_row", |made, object| {
            let Object::RouterPort(it) = object else { panic!("{object:?} is no router's port") };
            let tenant = it.metadata.tenant.as_ref();
            let it = &it.spec;
            let link = match (made.optional(3), &it.peer) {
                (Some(port), _) => Link::Switch { switch: made.id(4), port },
                (None, Some(peer)) => Link::Peer(text::meant(Kind::RouterPort, tenant, peer)),
                (None, None) => Link::Nowhere,
            };
            let carried = u16::try_from(made.number(5)).ok().filter(|mtu| *mtu > 0);
            let mut nodes: Vec<_> = it.gateway.iter().flat_map(|it| &it.nodes).collect();
            nodes.sort_by_key(|node| Reverse(node.priority));
            let node = |it: &objects::GatewayNode| text::operators(Kind::TransportNode, &it.node);
            RouterPort {
                router: text::meant(Kind::LogicalRouter, tenant, &it.router),
                mac: it.mac,
                addresses: it.addresses.clone(),
                link,
                mtu: [it.mtu, carried].into_iter().flatten().min(),
                enabled: it.enabled,
                ra6: it.ra6.clone(),
                dhcp_relay: it.dhcp_relay.clone(),
                gateway: nodes.into_iter().map(node).collect(),
            }
        })
    }

    pub fn routes(&self) -> Rows<RouteKey, RoutesAs> {
        let key = |it: Made<'a>| {
            let (prefix, source, distance) = text::read_destination(it.text(2));
            let (router, target) = (it.id(1), text::read_target(it.text(3)));
            RouteKey { router, prefix, source, distance, target }
        };
        self.rows("route_row", key, |made, _| {
            let flags = made.set(4).into_iter().fold(0, |flags, it| match it {
                Datum::Int(more) => flags | more,
                _ => flags,
            });
            RoutesAs { symmetric: flags & SYMMETRIC != 0, monitored: flags & MONITORED != 0 }
        })
    }

    /// All of a router's at once. `before` are those of a router of a domain until now.
    pub fn route_policies(
        &self,
        before: impl Fn(&Identity, &Identity) -> Vec<RoutePolicyKey>,
    ) -> Rows<RoutePolicyKey, RoutePolicy> {
        let routers = self.rows(
            "route_policies_row",
            |it| it.id(1),
            |made, id| {
                let Object::LogicalRouter(it) = self.object(id) else {
                    panic!("{id} is no router")
                };
                let hops = made.texts(5).filter_map(|it| match text::read_target(it) {
                    Target::Hop { address, out } => Some((address, out)),
                    _ => None,
                });
                let hops: BTreeMap<_, _> = hops.collect();
                let writer = self.writer(id, made.ids(4));
                let mut policies: Vec<_> = it.spec.policies.iter().collect();
                policies.sort_by_key(|policy| Reverse(policy.priority));
                let mut places: BTreeMap<u16, u16> = BTreeMap::new();
                let row = |it: &objects::RoutePolicy| {
                    let next = places.entry(it.priority).or_default();
                    let (place, name) = (*next, it.name.clone());
                    *next += 1;
                    let priority = Reverse(it.priority);
                    let key = RoutePolicyKey { router: id.clone(), priority, place, name };
                    let hop = |it: &objects::NextHop| {
                        let via = it.via.as_ref();
                        let via =
                            via.map(|it| text::meant(Kind::RouterPort, id.tenant.as_ref(), it));
                        Some((it.next_hop, via.or_else(|| hops.get(&it.next_hop).cloned())?))
                    };
                    let decision = match &it.action {
                        RoutePolicyAction::Allow => RouteDecision::Allow,
                        RoutePolicyAction::Drop => RouteDecision::Drop,
                        RoutePolicyAction::Reroute(it) => {
                            RouteDecision::Reroute(it.next_hops.iter().filter_map(hop).collect())
                        }
                    };
                    (key, RoutePolicy { condition: writer.condition(&it.matches), decision })
                };
                policies.into_iter().map(row).collect::<Vec<_>>()
            },
        );
        let mut rows = Rows::new();
        for ((domain, router), policies) in routers {
            let gone = before(&domain, &router).into_iter();
            rows.extend(gone.map(|key| ((domain.clone(), key), None)));
            let made = policies.into_iter().flatten();
            rows.extend(made.map(|(key, row)| ((domain.clone(), key), Some(row))));
        }
        rows
    }

    pub fn nats(&self) -> Rows<Identity, Nat> {
        self.rows(
            "nat_row",
            |it| it.id(1),
            |made, id| {
                let Object::Nat(it) = self.object(id) else { panic!("{id} is no translation") };
                let it = &it.spec;
                let writer = self.writer(id, made.ids(4));
                Nat {
                    router: text::meant(Kind::LogicalRouter, id.tenant.as_ref(), &it.router),
                    kind: it.kind,
                    priority: it.priority,
                    external: it.external,
                    logical: it.logical,
                    port: it.port,
                    external_ports: it.external_ports,
                    protocol: it.protocol,
                    external_mac: it.external_mac,
                    at: it.at,
                    exempt: writer.sets(&it.exempt),
                    only_for: writer.sets(&it.only_for),
                    condition: it.matches.as_ref().map(|it| writer.condition(it)),
                    stateless: it.stateless,
                }
            },
        )
    }

    pub fn balancers(&self) -> Rows<Identity, Balancer> {
        self.of_objects("balancer_row", |made, object| {
            let Object::LoadBalancer(it) = object else { panic!("{object:?} is no balancer") };
            let tenant = it.metadata.tenant.as_ref();
            let of_kind = |kind| made.ids(3).into_iter().filter(|it| it.kind == kind).collect();
            let it = &it.spec;
            Balancer {
                vip: it.vip,
                port: it.port,
                protocol: it.protocol,
                backends: self.backends(tenant, it),
                affinity: it.affinity,
                reject: it.reject,
                health_check: it.health_check,
                hairpin_snat: it.hairpin_snat,
                switches: of_kind(Kind::LogicalSwitch),
                routers: of_kind(Kind::LogicalRouter),
            }
        })
    }

    fn backends(&self, tenant: Option<&Name>, it: &LoadBalancer) -> Vec<Backend> {
        let each = it.backends.iter().filter_map(|backend| {
            let port = backend.logical_port.as_ref();
            let port = port.map(|port| text::meant(Kind::LogicalPort, tenant, port));
            let own = port.as_ref().and_then(|port| {
                let mut addresses = self.port(port).addresses.iter();
                addresses.find(|address| address.is_ipv4() == it.vip.is_ipv4()).copied()
            });
            Some(Backend {
                logical_port: port,
                address: backend.ip.or(own)?,
                port: backend.port,
                weight: backend.weight.unwrap_or(1),
            })
        });
        each.collect()
    }

    pub fn zones(&self) -> Rows<Identity, logical::topology::Zone> {
        self.of_objects("zone_row", |_, object| {
            let Object::DnsZone(it) = object else { panic!("{object:?} is no zone") };
            logical::zone(object.identity(), &it.spec)
        })
    }

    pub fn profiles(&self) -> Rows<Identity, Profile> {
        self.of_objects("profile_row", |_, object| {
            let Object::DhcpProfile(it) = object else { panic!("{object:?} is no profile") };
            let (v4, v6) = (it.spec.v4.clone(), it.spec.v6.clone());
            Profile { id: object.identity(), v4, v6 }
        })
    }

    pub fn qos(&self) -> Rows<Identity, objects::QosProfile> {
        self.of_objects("qos_row", |_, object| {
            let Object::QosProfile(it) = object else { panic!("{object:?} is no QoS profile") };
            it.spec
        })
    }

    pub fn meters(&self) -> Rows<Identity, objects::Meter> {
        self.of_objects("meter_row", |_, object| {
            let Object::Meter(it) = object else { panic!("{object:?} is no meter") };
            it.spec
        })
    }

    pub fn terms(&self) -> Rows<Identity, TenantTerms> {
        self.of_objects("terms_row", |_, object| {
            let Object::Tenant(it) = object else { panic!("{object:?} is no tenant") };
            TenantTerms::declared(&it.spec).expect("the rules have those that declare some")
        })
    }
}

/// The rules of all policies, those with the same content once.
#[derive(Default)]
pub struct Known {
    /// By the names in them, so that only few are looked at for the same.
    rules: BTreeMap<Vec<Name>, Vec<Rules>>,
    /// How many there may be before those that nobody has any more are looked for.
    most: usize,
}

impl Known {
    fn keep(&mut self, rules: Vec<Rule>) -> Rules {
        if self.rules.len() >= self.most {
            self.rules.retain(|_, alike| {
                alike.retain(|rules| Arc::strong_count(rules) > 1);
                !alike.is_empty()
            });
            self.most = 2 * self.rules.len() + 64;
        }
        let names = rules.iter().map(|rule| rule.name.clone()).collect();
        let alike = self.rules.entry(names).or_default();
        let known = alike.iter().find(|known| ***known == *rules).cloned();
        known.unwrap_or_else(|| {
            let rules: Rules = rules.into();
            alike.push(rules.clone());
            rules
        })
    }
}

/// The keys of a router's policies in a domain.
pub fn policies_of(domain: &Domain, router: &Identity) -> Vec<RoutePolicyKey> {
    let keys = domain.route_policies.keys();
    keys.filter(|key| key.router == *router).cloned().collect()
}

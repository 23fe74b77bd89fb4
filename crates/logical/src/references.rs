//! Whom an object speaks of.

use alloc::vec::Vec;

use crate::objects::{Identity, Kind, Match, Name, Object, Owner, Peer, Reference, ServiceChoice};
use crate::objects::{RoutePolicyAction, Rule};

/// Everybody whom an object may mean by what it says, in the order in which it says so, whether
/// they are there or not. Where the operator's is meant if the tenant has none of that name, that
/// is both of them. What is chosen by labels, and what switches and routers have in them, is not
/// said.
pub fn references(object: &Object) -> Vec<Identity> {
    let metadata = object.metadata();
    let mut it = Speaker { tenant: metadata.tenant.as_ref(), meant: Vec::new() };
    it.names(Kind::Tenant, &metadata.tenant);
    match object {
        Object::Tenant(tenant) => {
            it.names(Kind::ProviderNetwork, &tenant.spec.allow_provider);
            it.names(Kind::Tenant, &tenant.spec.shared_with);
        }
        Object::LogicalSwitch(switch) => {
            it.refers(Kind::DnsZone, &switch.spec.dns);
            it.refers(Kind::QosProfile, &switch.spec.qos);
            it.names(Kind::ProviderNetwork, switch.spec.provider.iter().map(|it| &it.network));
        }
        Object::LogicalPort(port) => {
            let port = &port.spec;
            it.refers(Kind::LogicalSwitch, [&port.switch]);
            it.refers(Kind::RouterPort, port.router.iter().map(|it| &it.router_port));
            it.refers(Kind::LogicalPort, port.child.iter().map(|it| &it.parent));
            it.names(Kind::Gateway, port.l2gateway.iter().map(|it| &it.gateway));
            it.refers(Kind::DhcpProfile, port.dhcp4.iter().chain(&port.dhcp6));
            it.refers(Kind::QosProfile, &port.qos);
            it.names(Kind::TransportNode, &port.node);
        }
        Object::LogicalRouter(router) => {
            let router = &router.spec;
            it.names(Kind::Gateway, &router.gateway);
            it.names(Kind::Meter, &router.copp);
            let hops = router.routes.iter().flat_map(|it| &it.ecmp);
            let ways = router.routes.iter().filter_map(|it| it.via.as_ref());
            it.refers(Kind::RouterPort, ways.chain(hops.filter_map(|it| it.via.as_ref())));
            for policy in &router.policies {
                it.matches(&policy.matches);
                if let RoutePolicyAction::Reroute(to) = &policy.action {
                    let ways = to.next_hops.iter().filter_map(|it| it.via.as_ref());
                    it.refers(Kind::RouterPort, ways);
                }
            }
        }
        Object::RouterPort(port) => {
            it.refers(Kind::LogicalRouter, [&port.spec.router]);
            it.refers(Kind::RouterPort, &port.spec.peer);
            let nodes = port.spec.gateway.iter().flat_map(|it| &it.nodes);
            it.names(Kind::TransportNode, nodes.map(|it| &it.node));
        }
        Object::Nat(nat) => {
            it.refers(Kind::LogicalRouter, [&nat.spec.router]);
            it.refers(Kind::AddressSet, nat.spec.exempt.iter().chain(&nat.spec.only_for));
            nat.spec.matches.iter().for_each(|one| it.matches(one));
        }
        Object::ExternalPool(pool) => {
            it.names(Kind::Tenant, &pool.spec.tenants);
            it.names(Kind::ProviderNetwork, &pool.spec.provider);
            it.names(Kind::Gateway, &pool.spec.gateway);
        }
        Object::Policy(policy) => {
            let to = &policy.spec.applies_to;
            it.refers(Kind::LogicalPort, &to.ports);
            it.refers(Kind::PortGroup, &to.groups);
            it.refers(Kind::LogicalSwitch, &to.switches);
            policy.spec.rules.iter().for_each(|rule| it.rule(rule));
        }
        Object::PortGroup(group) => {
            it.refers(Kind::LogicalPort, &group.spec.ports);
            it.refers(Kind::PortGroup, &group.spec.include);
        }
        Object::LoadBalancer(balancer) => {
            let backends = balancer.spec.backends.iter();
            it.refers(Kind::LogicalPort, backends.filter_map(|it| it.logical_port.as_ref()));
            let places = balancer.spec.attach.iter();
            it.refers(Kind::LogicalSwitch, places.clone().filter_map(|it| it.switch.as_ref()));
            it.refers(Kind::LogicalRouter, places.filter_map(|it| it.router.as_ref()));
        }
        Object::TransportNode(node) => it.names(Kind::ProviderNetwork, node.spec.providers.keys()),
        Object::ProviderNetwork(network) => it.names(Kind::Tenant, &network.spec.shared_with),
        Object::Gateway(gateway) => {
            it.names(Kind::TransportNode, gateway.spec.nodes.iter().map(|it| &it.node));
        }
        Object::Binding(binding) => {
            let binding = &binding.spec;
            it.refers(Kind::LogicalPort, [&binding.port]);
            it.names(Kind::TransportNode, [&binding.node]);
            it.names(Kind::TransportNode, binding.migration.iter().map(|it| &it.to));
        }
        Object::AddressSet(_)
        | Object::Service(_)
        | Object::DhcpProfile(_)
        | Object::DnsZone(_)
        | Object::QosProfile(_)
        | Object::Meter(_) => {}
    }
    it.meant
}

/// Who speaks, and whom it has meant so far.
struct Speaker<'a> {
    tenant: Option<&'a Name>,
    meant: Vec<Identity>,
}

impl Speaker<'_> {
    /// The operator's objects of these names.
    fn names<'n>(&mut self, kind: Kind, names: impl IntoIterator<Item = &'n Name>) {
        let named = |name: &Name| Identity { kind, tenant: None, name: name.clone() };
        self.meant.extend(names.into_iter().map(named));
    }

    fn refers<'r>(&mut self, kind: Kind, references: impl IntoIterator<Item = &'r Reference>) {
        for Reference { tenant: other, name } in references {
            // Whether it shares is for that tenant to say.
            self.names(Kind::Tenant, other);
            let tenant = other.as_ref().or(self.tenant);
            let tenant = tenant.filter(|_| kind.owner() != Owner::Operator).cloned();
            let is_either = other.is_none() && kind.owner() == Owner::Either;
            let own = Identity { kind, tenant, name: name.clone() };
            if is_either && own.tenant.is_some() {
                self.meant.push(Identity { tenant: None, ..own.clone() });
            }
            self.meant.push(own);
        }
    }

    fn rule(&mut self, rule: &Rule) {
        rule.peer.iter().for_each(|peer| self.peer(peer));
        self.services(&rule.services);
        rule.matches.iter().for_each(|one| self.matches(one));
        self.names(Kind::Meter, rule.log.iter().filter_map(|it| it.meter.as_ref()));
    }

    fn matches(&mut self, one: &Match) {
        [&one.source, &one.destination].into_iter().flatten().for_each(|peer| self.peer(peer));
        self.services(&one.services);
    }

    fn peer(&mut self, peer: &Peer) {
        self.refers(Kind::LogicalPort, &peer.ports);
        self.refers(Kind::PortGroup, &peer.groups);
        self.refers(Kind::AddressSet, &peer.sets);
    }

    fn services(&mut self, choices: &[ServiceChoice]) {
        let named = choices.iter().filter_map(|it| match it {
            ServiceChoice::Named(reference) => Some(reference),
            ServiceChoice::Inline(_) => None,
        });
        self.refers(Kind::Service, named);
    }
}

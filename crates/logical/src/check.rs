//! What one object says of itself that cannot stand: bounds, contradictions, addresses that are
//! none. What it says of others is [`resolve`](crate::resolve)'s.

mod network;
mod operator;
mod policy;
mod router;

use alloc::format;

use crate::objects::{Object, Owner, Tier};
use crate::report::Report;

/// Tells of all that one object says of itself that cannot stand.
pub fn check(object: &Object, report: &mut Report<'_>) {
    let metadata = object.metadata();
    match (object.kind().owner(), &metadata.tenant) {
        (Owner::Tenant, None) => {
            report.say("/metadata", "`tenant` is missing: say whose it is, as `tenant: shop`");
        }
        (Owner::Operator, Some(_)) => {
            report.say("/metadata/tenant", "only the operator has such objects: take it out");
        }
        _ => {}
    }
    if metadata.display_name.as_ref().is_some_and(|name| name.chars().count() > 255) {
        report.say("/metadata/displayName", "this is too long: write at most 255 characters");
    }
    match object {
        Object::Tenant(it) => operator::tenant(&it.spec, report),
        Object::LogicalSwitch(it) => network::switch(&it.spec, report),
        Object::LogicalPort(it) => network::port(&it.spec, report),
        Object::LogicalRouter(it) => router::router(&it.spec, report),
        Object::RouterPort(it) => router::port(&it.spec, report),
        Object::Nat(it) => router::nat(&it.spec, report),
        Object::ExternalPool(it) => operator::pool(&it.spec, report),
        Object::Policy(it) => {
            let is_tenants = it.spec.tier == Tier::Tenant;
            if is_tenants != metadata.tenant.is_some() {
                let whose = if is_tenants { "a tenant's" } else { "the operator's" };
                report.say("/spec/tier", format!("this tier has {whose} policies only"));
            }
            policy::policy(&it.spec, report);
        }
        Object::PortGroup(it) => policy::group(&it.spec, report),
        Object::AddressSet(it) => report.most("/spec/addresses", &it.spec.addresses, 100_000),
        Object::Service(it) => {
            let service = &it.spec;
            policy::ports(service.protocol, &service.ports, &service.source_ports, "/spec", report);
        }
        Object::DhcpProfile(it) => network::dhcp(&it.spec, report),
        Object::DnsZone(it) => network::zone(&it.spec, report),
        Object::LoadBalancer(it) => network::balancer(&it.spec, report),
        Object::QosProfile(it) => report.rates(it.spec.guarantee, it.spec.limit),
        Object::Meter(it) => operator::meter(&it.spec, report),
        Object::TransportNode(it) => operator::node(&it.spec, report),
        Object::ProviderNetwork(it) => operator::provider(&it.spec, report),
        Object::Gateway(it) => operator::gateway(&it.spec, report),
        Object::Binding(it) => operator::binding(&it.spec, report),
    }
}

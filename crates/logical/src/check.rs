//! What one object says of itself that cannot stand: bounds, contradictions, addresses that are
//! none. What it says of others is [`resolve`](crate::resolve)'s.

mod network;
mod operator;
mod policy;
mod router;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::objects::{Object, Owner, Tier};
use crate::report::Report;

/// The most bytes of an object's annotations, names and values together.
const ANNOTATIONS_BYTES: usize = 256 << 10;

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
    labels(&metadata.labels, report);
    let annotations = metadata.annotations.iter();
    let bytes: usize = annotations.map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ANNOTATIONS_BYTES {
        let message =
            format!("these have {bytes} bytes together: write at most {ANNOTATIONS_BYTES}");
        report.say("/metadata/annotations", message);
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

/// Labels can be written in selectors, which have signs between them.
fn labels(labels: &BTreeMap<String, String>, report: &mut Report<'_>) {
    let is_word = |word: &str, signs: &[u8]| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || signs.contains(&byte);
        let ends = [word.bytes().next(), word.bytes().next_back()];
        word.bytes().all(is_inner) && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
    };
    for (label, value) in labels {
        // A prefix that is a domain's name says whose label it is.
        let (prefix, name) = label.split_once('/').unwrap_or(("x", label));
        let is_prefix = (1..=253).contains(&prefix.len()) && is_word(prefix, b"-.");
        let is_name = (1..=63).contains(&name.len()) && is_word(name, b"-_.");
        let is_value = value.len() <= 63 && is_word(value, b"-_.");
        if !(is_prefix && is_name && is_value) {
            let message = format!(
                "`{label}: {value}` is no label: write letters and digits, with `-`, `_` and `.` between them, at most 63"
            );
            report.say("/metadata/labels", message);
        }
    }
}

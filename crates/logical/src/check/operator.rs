//! What operators declare.

use alloc::format;

use super::router;
use crate::objects::{
    Binding, ExternalPool, Gateway, Meter, ProviderNetwork, Tenant, TransportNode,
};
use crate::report::Report;

pub fn tenant(it: &Tenant, report: &mut Report<'_>) {
    report.rates(it.guarantee, it.limit);
}

pub fn pool(it: &ExternalPool, report: &mut Report<'_>) {
    if it.prefixes.is_empty() {
        report.say("/spec/prefixes", "it has no addresses: add some, as 198.51.100.0/24");
    }
    for (i, range) in it.prefixes.iter().enumerate() {
        let other = it.prefixes[..i].iter().find(|other| range.overlaps(**other));
        if let Some(other) = other {
            report
                .say(format!("/spec/prefixes/{i}"), format!("{range} overlaps {other}: keep one"));
        }
    }
}

pub fn meter(it: &Meter, report: &mut Report<'_>) {
    if it.rate == 0 {
        report.say("/spec/rate", "0 lets nothing through: write 1 or more");
    }
    if it.burst == Some(0) {
        report.say("/spec/burst", "0 lets nothing through: write 1 or more");
    }
}

pub fn node(it: &TransportNode, report: &mut Report<'_>) {
    if it.vteps.is_empty() {
        report.say("/spec/vteps", "no other node can reach it: add its tunnel address");
    }
    report.most("/spec/vteps", &it.vteps, 8);
    for (i, vtep) in it.vteps.iter().enumerate() {
        report.host(format!("/spec/vteps/{i}"), *vtep);
    }
    if let Some(mtu) = it.uplink_mtu {
        report.within("/spec/uplinkMtu", mtu, 1280..=u16::MAX);
    }
}

pub fn provider(it: &ProviderNetwork, report: &mut Report<'_>) {
    report.mtu("/spec/mtu", it.mtu);
    for (i, [first, last]) in it.vlan_ranges.iter().enumerate() {
        if !(1 <= *first && first <= last && *last <= 4094) {
            let message =
                format!("[{first}, {last}] is no range of VLANs: write one within [1, 4094]");
            report.say(format!("/spec/vlanRanges/{i}"), message);
        }
    }
}

pub fn gateway(it: &Gateway, report: &mut Report<'_>) {
    if it.nodes.is_empty() {
        report.say("/spec/nodes", "there is no node: add one, as { node: gw1, priority: 10 }");
    }
    let nodes = it.nodes.iter().enumerate();
    report.once(nodes.map(|(i, it)| (format!("/spec/nodes/{i}/node"), &it.node)));
    for (i, address) in it.addresses.iter().enumerate() {
        report.host(format!("/spec/addresses/{i}"), address.address);
    }
    for (i, route) in it.routes.iter().enumerate() {
        router::route(route, &format!("/spec/routes/{i}"), 16, report);
    }
}

pub fn binding(it: &Binding, report: &mut Report<'_>) {
    if it.port.tenant.is_none() {
        report.say("/spec/port", format!("say whose port `{}` is, as shop/{0}", it.port.name));
    }
}

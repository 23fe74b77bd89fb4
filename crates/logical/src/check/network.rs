//! Switches, ports, and what the network answers.

use alloc::format;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use units::Span;

use crate::objects::{
    AddressRange, DhcpProfile, DnsZone, HealthCheck, LoadBalancer, LogicalPort, LogicalSwitch,
    MacChoice, Protocol,
};
use crate::report::Report;

/// How often, and for how long, backends may be asked.
const CHECKS: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(3600);

pub fn switch(it: &LogicalSwitch, report: &mut Report<'_>) {
    report.most("/spec/subnets", &it.subnets, 16);
    report.mtu("/spec/mtu", it.mtu);
    for (i, subnet) in it.subnets.iter().enumerate() {
        report.network(format!("/spec/subnets/{i}"), *subnet);
        let range = AddressRange::from(*subnet);
        let other = it.subnets[..i].iter().find(|other| range.overlaps((**other).into()));
        if let Some(other) = other {
            let message =
                format!("{subnet} overlaps {other}: keep one of them, or make them apart");
            report.say(format!("/spec/subnets/{i}"), message);
        }
    }
    if let Some(provider) = &it.provider {
        report.within("/spec/provider/vlan", provider.vlan, 0..=4094);
    }
}

pub fn port(it: &LogicalPort, report: &mut Report<'_>) {
    let stands = [
        ("vif", it.vif.is_some()),
        ("router", it.router.is_some()),
        ("provider", it.provider.is_some()),
        ("local", it.local.is_some()),
        ("child", it.child.is_some()),
        ("l2gateway", it.l2gateway.is_some()),
    ];
    let mut stands = stands.iter().filter(|(_, is)| *is);
    match (stands.next(), stands.next()) {
        (None, _) => report.say(
            "/spec",
            "what it stands for is missing: add one of vif, router, provider, local, child and \
             l2gateway, as `vif: {}`",
        ),
        (Some((first, _)), Some((second, _))) => {
            report.say(format!("/spec/{second}"), format!("it is `{first}` already: keep one"));
        }
        _ => {}
    }
    if let MacChoice::Fixed(mac) = it.mac {
        report.mac("/spec/mac", mac);
    }
    report.most("/spec/addresses", &it.addresses, 64);
    for (i, address) in it.addresses.iter().enumerate() {
        report.host(format!("/spec/addresses/{i}"), *address);
    }
    if it.router.is_some() {
        let own = [
            ("mac", it.mac != MacChoice::Dynamic),
            ("addresses", !it.addresses.is_empty()),
            ("security", it.security != Default::default()),
        ];
        for (field, _) in own.iter().filter(|(_, said)| *said) {
            let message = "the RouterPort says this of a router's port: take it out here";
            report.say(format!("/spec/{field}"), message);
        }
    }
    for (i, allowed) in it.security.allowed.iter().enumerate() {
        if let Some(mac) = allowed.mac {
            report.mac(&format!("/spec/security/allowed/{i}/mac"), mac);
        }
    }
    if !it.security.own && it.security.allowed.is_empty() {
        let message = "nothing is allowed: add `allowed`, or take `own: false` out";
        report.say("/spec/security/own", message);
    }
    if let Some(child) = &it.child {
        report.within("/spec/child/vlan", child.vlan, 1..=4094);
    }
    if let Some(gateway) = &it.l2gateway {
        report.within("/spec/l2gateway/vlan", gateway.vlan, 0..=4094);
    }
}

pub fn dhcp(it: &DhcpProfile, report: &mut Report<'_>) {
    if it.v4.is_none() && it.v6.is_none() {
        report.say("/spec", "it tells nobody anything: add `v4` or `v6`");
    }
    if let Some(v4) = &it.v4 {
        report.host("/spec/v4/serverId", v4.server_id.into());
        report.mac("/spec/v4/serverMac", v4.server_mac);
        lease("/spec/v4/lease", v4.lease, report);
        for (i, route) in v4.classless_routes.iter().enumerate() {
            let path = format!("/spec/v4/classlessRoutes/{i}/prefix");
            match route.prefix.address {
                IpAddr::V4(_) => report.network(path, route.prefix),
                IpAddr::V6(_) => report.say(path, "DHCP tells IPv4 routes: write an IPv4 prefix"),
            }
        }
        for code in v4.raw.keys() {
            // Options that say what the message is, and those that stand for nothing (RFC 2132).
            if matches!(code, 0 | 50..=55 | 61 | 255) {
                let message = format!("option {code} is the switch's own: take it out");
                report.say(format!("/spec/v4/raw/{code}"), message);
            }
        }
    }
    if let Some(v6) = &it.v6 {
        report.mac("/spec/v6/serverDuidMac", v6.server_duid_mac);
        v6.lease.into_iter().for_each(|it| lease("/spec/v6/lease", it, report));
    }
}

fn lease(path: &str, lease: Span, report: &mut Report<'_>) {
    let least = Span::from_secs(60);
    if lease < least {
        report.say(path, format!("{lease} is too short: write {least} or more"));
    }
}

/// Whether a text is a domain's name (RFC 1035 §2.3.4), with letters, digits, hyphens, underscores.
fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
    name.len() <= 253 && name.split('.').all(is_label)
}

pub fn zone(it: &DnsZone, report: &mut Report<'_>) {
    for (name, values) in &it.records {
        let path = format!("/spec/records/{}", tree::escape(name));
        if !is_domain(name) {
            report.say(&path, format!("`{name}` is no name: write one as web.shop.internal"));
        }
        for (i, value) in values.iter().enumerate() {
            if value.parse::<IpAddr>().is_err() && !is_domain(value) {
                let message = format!("`{value}` is neither an address nor a name: write one");
                report.say(format!("{path}/{i}"), message);
            }
        }
    }
    if let Some(ttl) = it.ttl {
        report.within("/spec/ttl", ttl, 0..=604_800);
    }
}

pub fn balancer(it: &LoadBalancer, report: &mut Report<'_>) {
    report.host("/spec/vip", it.vip);
    if !it.protocol.has_ports() && it.port.is_some() {
        report.say("/spec/port", format!("{} has no ports: take it out", it.protocol));
    }
    if let Some(check) = &it.health_check {
        health(it, check, report);
    }
    for (i, backend) in it.backends.iter().enumerate() {
        let path = format!("/spec/backends/{i}");
        match (&backend.logical_port, backend.ip) {
            (None, None) => report.say(path, "who serves is missing: add `logicalPort` or `ip`"),
            (Some(_), Some(_)) => {
                report.say(path, "`logicalPort` and `ip` are both there: keep one")
            }
            (None, Some(ip)) => {
                report.host(format!("{path}/ip"), ip);
                if ip.is_ipv4() != it.vip.is_ipv4() {
                    let message = format!("{ip} is of another family than {}: keep to one", it.vip);
                    report.say(format!("{path}/ip"), message);
                }
            }
            (Some(_), None) => {}
        }
    }
    if it.attach.is_empty() {
        report.say("/spec/attach", "it is nowhere: add a switch or a router, as { switch: web }");
    }
    for (i, attachment) in it.attach.iter().enumerate() {
        if attachment.switch.is_some() == attachment.router.is_some() {
            report.say(format!("/spec/attach/{i}"), "write exactly one of `switch` and `router`");
        }
    }
}

fn health(it: &LoadBalancer, check: &HealthCheck, report: &mut Report<'_>) {
    let path = "/spec/healthCheck";
    if it.protocol != Protocol::TCP {
        let message =
            format!("it opens TCP connections, and {} has none: take it out", it.protocol);
        report.say(path, message);
    } else if it.port.is_none() && it.backends.iter().any(|it| it.port.is_none()) {
        let message = "which port it asks is missing: add `port`, or one to each backend";
        report.say(path, message);
    }
    report.within("/spec/healthCheck/interval", check.interval, CHECKS);
    report.within("/spec/healthCheck/timeout", check.timeout, CHECKS);
    if check.timeout > check.interval {
        let message = format!("{} is longer than `interval`, {}", check.timeout, check.interval);
        report.say(format!("{path}/timeout"), message);
    }
    report.within("/spec/healthCheck/failures", check.failures, 1..=100);
    report.within("/spec/healthCheck/successes", check.successes, 1..=100);
}

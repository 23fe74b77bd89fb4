//! Switches and their ports: who is where, and whose each address is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use units::{Mac, Prefix, hash};

use super::names::{NOWHERE, Names};
use crate::fault::Fault;
use crate::objects::{
    AddressRange, Identity, Kind, LogicalPort, LogicalSwitch, MacChoice, Metadata, Object,
    Reference, SecurityMode,
};
use crate::report::Report;
use crate::topology::{
    Allowed, Attachment, Link, NodeIndex, Port, PortIndex, ProfileIndex, QosIndex, RouterPortIndex,
    Switch, SwitchIndex, Topology, ZoneIndex,
};

/// Makes the switches, and the ports in them.
pub fn switches_and_ports(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    topology.switches = names.each(faults, |id, object, report| match object {
        Object::LogicalSwitch(it) => Some(switch(id, &it.spec, names, report)),
        _ => None,
    });
    let mut qos = Vec::new();
    names.each(faults, |id, object, report| {
        let Object::LogicalSwitch(it) = object else { return None };
        qos.push(it.spec.qos.as_ref().and_then(|profile| {
            names.find(Kind::QosProfile, id.tenant.as_ref(), profile, "/spec/qos", report)
        }));
        None::<()>
    });
    topology.ports = names.each(faults, |id, object, report| match object {
        Object::LogicalPort(it) => Some(port(id, &it.metadata, &it.spec, names, &qos, report)),
        _ => None,
    });
    give_macs(&mut topology.ports);
    for (index, port) in (0..).map(PortIndex).zip(&topology.ports) {
        if let Some(switch) = topology.switches.get_mut(port.switch.0 as usize) {
            switch.ports.push(index);
        }
    }
}

fn switch(id: Identity, it: &LogicalSwitch, names: &Names<'_>, report: &mut Report<'_>) -> Switch {
    let tenant = id.tenant.as_ref();
    if let Some(provider) = &it.provider {
        let path = "/spec/provider/network";
        names.named(Kind::ProviderNetwork, &provider.network, path, report);
        let allowed = tenant
            .and_then(|it| names.tenant(it))
            .is_none_or(|it| it.allow_provider.contains(&provider.network));
        if !allowed {
            let message = format!(
                "its tenant may not join {}: have `allowProvider` of the tenant say it",
                provider.network
            );
            report.say(path, message);
        }
    }
    let zone = |(i, zone): (usize, &Reference), report: &mut Report<'_>| {
        names.find(Kind::DnsZone, tenant, zone, format!("/spec/dns/{i}"), report).map(ZoneIndex)
    };
    Switch {
        subnets: it.subnets.clone(),
        mtu: it.mtu,
        unknown_unicast: it.unknown_unicast,
        mac_learning: it.mac_learning,
        multicast: it.multicast,
        broadcast: it.broadcast,
        default_action: it.default_action,
        dns: it.dns.iter().enumerate().filter_map(|each| zone(each, report)).collect(),
        provider: it.provider.clone(),
        enabled: it.enabled,
        ports: Vec::new(),
        id,
    }
}

fn port(
    id: Identity,
    metadata: &Metadata,
    it: &LogicalPort,
    names: &Names<'_>,
    qos: &[Option<u32>],
    report: &mut Report<'_>,
) -> Port {
    let tenant = id.tenant.as_ref();
    let mut find =
        |kind, reference: &Reference, path: &str| names.find(kind, tenant, reference, path, report);
    let switch = find(Kind::LogicalSwitch, &it.switch, "/spec/switch").unwrap_or(NOWHERE);
    let attachment = if let Some(router) = &it.router {
        let port = find(Kind::RouterPort, &router.router_port, "/spec/router/routerPort");
        Attachment::Router(RouterPortIndex(port.unwrap_or(NOWHERE)))
    } else if let Some(child) = &it.child {
        let parent = find(Kind::LogicalPort, &child.parent, "/spec/child/parent");
        Attachment::Child { parent: PortIndex(parent.unwrap_or(NOWHERE)), vlan: child.vlan }
    } else if let Some(l2) = &it.l2gateway {
        names.named(Kind::Gateway, &l2.gateway, "/spec/l2gateway/gateway", report);
        Attachment::L2Gateway { gateway: l2.gateway.clone(), vlan: l2.vlan }
    } else if it.provider.is_some() {
        Attachment::Provider
    } else if it.local.is_some() {
        Attachment::Local
    } else {
        Attachment::Vif
    };
    let profile = |field: &str, reference: &Option<Reference>, report: &mut Report<'_>| {
        let reference = reference.as_ref()?;
        let path = format!("/spec/{field}");
        let found = names.object(Kind::DhcpProfile, tenant, reference, &path, report)?;
        let Object::DhcpProfile(found) = found else { return None };
        let is_told = match field {
            "dhcp4" => found.spec.v4.is_some(),
            _ => found.spec.v6.is_some(),
        };
        if !is_told {
            let message = format!("{reference} says nothing of this family: add it there");
            report.say(&path, message);
        }
        names.find(Kind::DhcpProfile, tenant, reference, &path, report).map(ProfileIndex)
    };
    let (dhcp4, dhcp6) = (profile("dhcp4", &it.dhcp4, report), profile("dhcp6", &it.dhcp6, report));
    let own_qos = it.qos.as_ref();
    let own_qos =
        own_qos.and_then(|qos| names.find(Kind::QosProfile, tenant, qos, "/spec/qos", report));
    let switchs_qos = qos.get(switch as usize).copied().flatten();
    let nodes = names.all(Kind::TransportNode, &it.node, "/spec/node", report);
    let connections = tenant.and_then(|it| names.tenant(it));
    let mac = match it.mac {
        MacChoice::Fixed(mac) => mac,
        MacChoice::Dynamic => Mac([0; 6]),
    };
    Port {
        labels: metadata.labels.clone(),
        switch: SwitchIndex(switch),
        attachment,
        mac,
        addresses: it.addresses.clone(),
        unknown: it.unknown,
        security: it.security.mode,
        allowed: allowed(it, mac),
        dhcp4,
        dhcp6,
        class: it.class,
        qos: own_qos.or(switchs_qos).map(QosIndex),
        start: it.start,
        enabled: it.enabled,
        nodes: nodes.into_iter().map(NodeIndex).collect(),
        node: None,
        connections: connections.and_then(|it| it.quota.connections_per_port),
        id,
    }
}

/// What a port's machine may name as its own: its addresses unless that is said otherwise, and what
/// is allowed besides. Entries without an Ethernet address of their own have the port's, which may
/// still have to be given.
pub fn allowed(it: &LogicalPort, mac: Mac) -> Vec<Allowed> {
    if it.security.mode == SecurityMode::Off || it.router.is_some() {
        return Vec::new();
    }
    let mut all = Vec::new();
    if it.security.own {
        let own = it.addresses.iter().map(|address| AddressRange::from(*address)).collect();
        let addresses = (it.security.mode == SecurityMode::Strict).then_some(own);
        all.push(Allowed { mac, addresses, broadcasts: Vec::new() });
    }
    for entry in &it.security.allowed {
        let range = |prefix: &Prefix| match AddressRange::from(*prefix) {
            network if network.first() == prefix.address => network,
            _ => AddressRange::from(prefix.address),
        };
        let broadcast = |prefix: &Prefix| -> Option<Ipv4Addr> {
            let network = AddressRange::from(*prefix);
            match network.last() {
                IpAddr::V4(last) if network.first() != prefix.address => Some(last),
                _ => None,
            }
        };
        let addresses: Vec<_> = entry.prefixes.iter().map(range).collect();
        let is_any = addresses.is_empty() || it.security.mode == SecurityMode::Mac;
        all.push(Allowed {
            mac: entry.mac.unwrap_or(mac),
            addresses: (!is_any).then_some(addresses),
            broadcasts: entry.prefixes.iter().filter_map(broadcast).collect(),
        });
    }
    all
}

/// Gives Ethernet addresses to ports that have none: made of their names, so that a port keeps its
/// own while others come and go. Where two names make one address, the later counts on.
fn give_macs(ports: &mut [Port]) {
    let mut taken: BTreeSet<(SwitchIndex, Mac)> =
        ports.iter().map(|port| (port.switch, port.mac)).collect();
    for port in ports {
        if port.mac != Mac([0; 6]) || matches!(port.attachment, Attachment::Router(_)) {
            continue;
        }
        let mut number = hash::fnv1a_32(port.id.to_string().as_bytes());
        while !taken.insert((port.switch, Mac::local(number))) {
            number = number.wrapping_add(1);
        }
        let given = Mac::local(number);
        port.mac = given;
        for entry in port.allowed.iter_mut().filter(|entry| entry.mac == Mac([0; 6])) {
            entry.mac = given;
        }
    }
}

/// Checks what ports of a switch may not share, and where their addresses lie.
pub fn check_switches(topology: &Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut macs: BTreeMap<(SwitchIndex, Mac), &Identity> = BTreeMap::new();
    let mut addresses: BTreeMap<(SwitchIndex, IpAddr), &Identity> = BTreeMap::new();
    let mut children: BTreeMap<(PortIndex, u16), &Identity> = BTreeMap::new();
    // Routers' addresses first: a machine that takes one of them is what is at fault.
    for (_, router_port) in topology.router_ports() {
        let Link::Switch(port) = router_port.link else { continue };
        let Some(port) = topology.ports.get(port.0 as usize) else { continue };
        macs.entry((port.switch, router_port.mac)).or_insert(&router_port.id);
        for address in &router_port.addresses {
            addresses.entry((port.switch, address.address)).or_insert(&router_port.id);
        }
    }
    let declared = names.of(Kind::LogicalPort).zip(&topology.ports);
    for ((identity, place, object), port) in declared {
        let Object::LogicalPort(it) = object else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        if let Attachment::Child { parent, vlan } = port.attachment
            && let Some(declared) = topology.ports.get(parent.0 as usize)
        {
            if let Some(other) = children.insert((parent, vlan), &port.id) {
                let message =
                    format!("VLAN {vlan} of its parent is {other}'s already: take another");
                report.say("/spec/child/vlan", message);
            }
            if declared.attachment != Attachment::Vif {
                report.say("/spec/child/parent", "only a `vif` has children: name one");
            }
        }
        // Ports whose switches are not there share none.
        let Some(switch) = topology.switches.get(port.switch.0 as usize) else { continue };
        if let MacChoice::Fixed(mac) = it.spec.mac {
            if let Some(owner) = macs.get(&(port.switch, mac)) {
                report.say("/spec/mac", format!("{mac} is {owner}'s already: each has its own"));
            }
            macs.entry((port.switch, mac)).or_insert(&port.id);
        }
        for (i, address) in port.addresses.iter().enumerate() {
            let path = format!("/spec/addresses/{i}");
            if let Some(owner) = addresses.get(&(port.switch, *address)) {
                report.say(&path, format!("{address} is {owner}'s already: each has its own"));
            }
            addresses.entry((port.switch, *address)).or_insert(&port.id);
            check_place(*address, &switch.subnets, it.spec.allow_outside, &path, &mut report);
        }
        if port.attachment == Attachment::Provider && switch.provider.is_none() {
            report.say("/spec/provider", "its switch has no `provider`: add one there");
        }
    }
}

/// An address lies inside a subnet, and is neither its first nor its broadcast address.
fn check_place(
    address: IpAddr,
    subnets: &[Prefix],
    allow_outside: bool,
    path: &str,
    report: &mut Report<'_>,
) {
    let subnet = subnets.iter().find(|it| AddressRange::from(**it).contains(address));
    let Some(subnet) = subnet else {
        if !allow_outside && !subnets.is_empty() {
            let listed: Vec<_> = subnets.iter().map(ToString::to_string).collect();
            let message = format!(
                "{address} is outside the switch's subnets, {}: write one inside, or `allowOutside: true`",
                listed.join(" and ")
            );
            report.say(path, message);
        }
        return;
    };
    let range = AddressRange::from(*subnet);
    let is_wide = address.is_ipv4() && subnet.length < 31;
    if is_wide && (range.first() == address || range.last() == address) {
        report
            .say(path, format!("{address} is {subnet} itself, or everybody in it: write another"));
    }
}

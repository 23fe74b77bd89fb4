//! A case's topology as the objects of logical networks.
//!
//! ```text
//! acl ───▶ a Policy of one rule: its tier, its priority
//! netpol ▶ a Policy that isolates; its namespaces' ports by name
//! router ▶ LogicalRouter, RouterPorts, the switches' ports that lead there, Nats
//! ```
//!
//! Everything is of one tenant. Names of cases may have letters that objects' names have not.

mod policy;
mod router;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use interpreter::Down;
use logical::Topology;
use logical::topology::PortIndex;
use serde_json::{Value, json};

use crate::network::{AllowDrop, Dhcp, Network, Port, Security, Switch, Unknown, Zone};

/// The tenant that all is of.
const TENANT: &str = "t";

/// A topology, and which of its ports is which of the case's.
#[derive(Clone, Debug)]
pub struct Declared {
    /// What executions decide by.
    pub topology: Topology,
    /// The same as a file of objects.
    pub text: String,
    /// Which backends of load balancers health checks find down.
    pub down: Down,
    ports: Vec<(String, PortIndex)>,
}

impl Declared {
    /// The port of a name.
    pub fn port(&self, name: &str) -> Option<PortIndex> {
        self.ports.iter().find(|(it, _)| it == name).map(|(_, index)| *index)
    }

    /// The name of a port of a machine.
    pub fn name(&self, port: PortIndex) -> Option<&str> {
        self.ports.iter().find(|(_, it)| *it == port).map(|(name, _)| name.as_str())
    }
}

/// A name as objects have it: other letters become hyphens.
pub fn plain(name: &str) -> String {
    let letter = |it: char| match it.to_ascii_lowercase() {
        it if it.is_ascii_alphanumeric() => it,
        _ => '-',
    };
    let plain: String = name.chars().map(letter).collect();
    match plain.trim_matches('-') {
        "" => "x".to_string(),
        plain => plain.chars().take(60).collect(),
    }
}

/// Objects as they are gathered.
struct Objects<'a> {
    network: &'a Network,
    list: Vec<Value>,
}

/// Declares a network: its topology, or all that is wrong with it.
pub fn declare(network: &Network) -> Result<Declared, String> {
    let mut objects = Objects { network, list: Vec::new() };
    let tenant = match network.connections {
        Some(most) => json!({ "quota": { "connectionsPerPort": most } }),
        None => json!({}),
    };
    objects.operator("Tenant", TENANT, tenant);
    for (i, host) in network.hosts.iter().enumerate() {
        let vtep = format!("192.0.2.{}", i % 250 + 1);
        objects.operator("TransportNode", &plain(host), json!({ "vteps": [vtep] }));
    }
    for (name, switch) in &network.switches {
        let mut spec = switch_spec(switch);
        let is_there = |zone: &Zone| zone.at.is_empty() || zone.at.contains(name);
        let zones = network.dns.iter().filter(|(_, zone)| is_there(zone));
        spec["dns"] = zones.map(|(name, _)| json!(plain(name))).collect();
        objects.tenants("LogicalSwitch", &plain(name), spec);
    }
    for (name, zone) in &network.dns {
        let unknown = |at: &&String| !network.switches.contains_key(*at);
        if let Some(at) = zone.at.iter().find(unknown) {
            return Err(format!("no switch is called `{at}`"));
        }
        objects.tenants("DnsZone", &plain(name), zone_spec(zone));
    }
    for (name, profile) in &network.dhcp {
        let spec = profile_spec(profile)?;
        objects.tenants("DhcpProfile", &plain(name), spec);
    }
    let marks: BTreeSet<u8> = network.ports.values().filter_map(|it| it.dscp).collect();
    for mark in marks {
        objects.operator("QosProfile", &format!("dscp-{mark}"), json!({ "dscp": mark }));
    }
    for (name, port) in &network.ports {
        objects.port(name, port)?;
    }
    objects.routers()?;
    for (name, ports) in &network.groups {
        let ports: Vec<_> = ports.iter().map(|it| plain(it)).collect();
        objects.tenants("PortGroup", &plain(name), json!({ "ports": ports }));
    }
    for (name, members) in &network.sets {
        let addresses: Vec<_> = members.iter().filter(|it| !is_mac(it)).collect();
        objects.tenants("AddressSet", &plain(name), json!({ "addresses": addresses }));
    }
    objects.policies()?;
    objects.balancers()?;

    let text = Value::Array(objects.list).to_string();
    let topology = logical::load(&text).map_err(|faults| {
        let told: Vec<_> =
            faults.iter().map(|it| format!("{} {}: {}", it.object, it.path, it.message)).collect();
        told.join("; ")
    })?;
    let ports = network.ports.keys();
    let find = |name: &String| Some((name.clone(), topology.port(TENANT, &plain(name))?));
    let ports = ports.filter_map(find).collect();
    let down = down(network, &topology)?;
    Ok(Declared { topology, text, down, ports })
}

/// The backends that are down, by the objects' names.
fn down(network: &Network, topology: &Topology) -> Result<Down, String> {
    let mut down = Down::new();
    for it in &network.lbs {
        let name = plain(&it.name);
        let balancer = topology.balancers().find(|(_, it)| it.id.name.as_str() == name);
        let Some((_, balancer)) = balancer else { continue };
        for word in it.down.iter().flatten() {
            let (address, port) = address_and_port(word);
            let ends = address.parse().ok().zip(port.or(balancer.port));
            let ends = ends.ok_or_else(|| format!("`{word}` is no backend: write ADDRESS:PORT"))?;
            down.entry(balancer.id.clone()).or_default().insert(ends);
        }
    }
    Ok(down)
}

impl Objects<'_> {
    fn operator(&mut self, kind: &str, name: &str, spec: Value) {
        self.list.push(json!({ "kind": kind, "metadata": { "name": name }, "spec": spec }));
    }

    fn tenants(&mut self, kind: &str, name: &str, spec: Value) {
        let metadata = json!({ "name": name, "tenant": TENANT });
        self.list.push(json!({ "kind": kind, "metadata": metadata, "spec": spec }));
    }

    fn port(&mut self, name: &str, port: &Port) -> Result<(), String> {
        let mut spec = json!({
            "switch": plain(&port.switch),
            "addresses": port.ips,
            "allowOutside": true,
            "unknown": port.unknown,
            "enabled": port.enabled,
            "security": security(port),
        });
        let kind = match (&port.child_of, port.local) {
            (Some(parent), _) => {
                let vlan =
                    port.tag.ok_or_else(|| format!("port {name} has no `tag`: write one"))?;
                ("child", json!({ "parent": plain(parent), "vlan": vlan }))
            }
            (None, true) => ("local", json!({})),
            (None, false) => ("vif", json!({})),
        };
        spec[kind.0] = kind.1;
        if let Some(mac) = port.mac {
            spec["mac"] = json!(mac.to_string());
        }
        for (field, profile) in [("dhcp4", &port.dhcp), ("dhcp6", &port.dhcp6)] {
            if let Some(profile) = profile {
                spec[field] = json!(plain(profile));
            }
        }
        if let Some(mark) = port.dscp {
            spec["qos"] = json!(format!("dscp-{mark}"));
        }
        let metadata = json!({ "name": plain(name), "tenant": TENANT, "labels": port.labels });
        self.list.push(json!({ "kind": "LogicalPort", "metadata": metadata, "spec": spec }));
        // A port behind another's tag is where that is.
        let parent = port.child_of.as_ref().and_then(|it| self.network.ports.get(it));
        let at = port.at.as_ref().or_else(|| parent?.at.as_ref()).filter(|_| !port.local);
        if let Some(host) = at {
            let port = format!("{TENANT}/{}", plain(name));
            self.operator("Binding", &plain(name), json!({ "port": port, "node": plain(host) }));
        }
        Ok(())
    }

    fn balancers(&mut self) -> Result<(), String> {
        let network = self.network;
        for it in &network.lbs {
            let (vip, port) = address_and_port(&it.vip);
            let port = it.port.or(port);
            let backends: Vec<Value> =
                it.backends.iter().map(|it| backend(network, it)).collect::<Result<_, _>>()?;
            let of = |names: &BTreeSet<&String>, field: &str| -> Vec<Value> {
                names.iter().map(|name| json!({ field: plain(name) })).collect()
            };
            let named = it.at.iter().chain(&it.switches).chain(&it.routers);
            let (mut switches, mut routers) = (BTreeSet::new(), BTreeSet::new());
            for name in named {
                match (network.switches.contains_key(name), network.routers.contains_key(name)) {
                    (true, _) => switches.insert(name),
                    (_, true) => routers.insert(name),
                    _ => return Err(format!("no switch or router is called `{name}`")),
                };
            }
            if switches.is_empty() && routers.is_empty() {
                switches.extend(network.switches.keys());
            }
            let attach = [of(&switches, "switch"), of(&routers, "router")].concat();
            let proto = it.proto.as_ref().map_or_else(|| "tcp".to_string(), ToString::to_string);
            let mut spec = json!({
                "vip": vip, "protocol": proto, "backends": backends, "attach": attach,
                "reject": it.reject, "hairpinSnat": it.hairpin.unwrap_or(true),
            });
            if let Some(port) = port {
                spec["port"] = json!(port);
            }
            if it.affinity.is_some() {
                spec["affinity"] = json!("clientIp");
            }
            if it.down.is_some() {
                spec["healthCheck"] =
                    json!({ "interval": "1s", "timeout": "1s", "failures": 2, "successes": 1 });
            }
            self.tenants("LoadBalancer", &plain(&it.name), spec);
        }
        Ok(())
    }
}

fn backend(network: &Network, it: &crate::network::Backend) -> Result<Value, String> {
    use crate::network::{Backend, Word};

    let of_port = |name: &str| -> Result<Value, String> {
        match network.ports.contains_key(name) {
            true => Ok(json!({ "logicalPort": plain(name) })),
            false => Err(format!("no port is called `{name}`")),
        }
    };
    Ok(match it {
        Backend::Word(word) => {
            let (name, number) = word.rsplit_once(':').unwrap_or((word, ""));
            match network.ports.contains_key(name) {
                true => {
                    let mut spec = of_port(name)?;
                    if let Ok(number) = number.parse::<u16>() {
                        spec["port"] = json!(number);
                    }
                    spec
                }
                false => {
                    let (ip, port) = address_and_port(word);
                    let mut spec = json!({ "ip": ip });
                    if let Some(port) = port {
                        spec["port"] = json!(port);
                    }
                    spec
                }
            }
        }
        Backend::Full { ip, port, lport, dport, weight } => {
            let (name, number) = match (lport, port) {
                (Some(name), port) => (Some(name), port.as_ref()),
                (None, Some(Word::Text(name))) => (Some(name), None),
                (None, port) => (None, port.as_ref()),
            };
            let mut spec = match name {
                Some(name) => of_port(name)?,
                None => json!({}),
            };
            // Who is named serves at its own address.
            if let Some(ip) = ip.filter(|_| name.is_none()) {
                spec["ip"] = json!(ip);
            }
            if let Some(number) = dport.map(u64::from).or(match number {
                Some(Word::Number(number)) => Some(*number),
                _ => None,
            }) {
                spec["port"] = json!(number);
            }
            if let Some(weight) = weight {
                spec["weight"] = json!(weight);
            }
            spec
        }
    })
}

/// `10.0.0.1:80` or `[fd00::1]:80`, or an address alone.
fn address_and_port(word: &str) -> (String, Option<u16>) {
    if let Some((address, port)) = word.strip_prefix('[').and_then(|it| it.split_once("]:")) {
        return (address.to_string(), port.parse().ok());
    }
    match word.split_once(':') {
        Some((address, port)) if !port.contains(':') && address.contains('.') => {
            (address.to_string(), port.parse().ok())
        }
        _ => (word.to_string(), None),
    }
}

fn switch_spec(it: &Switch) -> Value {
    let action = |it: AllowDrop| if it == AllowDrop::Drop { "drop" } else { "allow" };
    let mut spec = json!({
        "unknownUnicast": if matches!(it.unknown, Unknown::Flood) { "flood" } else { "drop" },
        "macLearning": it.learn,
        "multicast": if it.snoop { "snoop" } else { "flood" },
        "defaultAction": { "fromPort": action(it.default.from), "toPort": action(it.default.to) },
        "enabled": it.enabled,
        "subnets": it.subnets.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if let Some(mtu) = it.mtu {
        spec["mtu"] = json!(mtu);
    }
    spec
}

fn zone_spec(it: &Zone) -> Value {
    let records: BTreeMap<&String, &Vec<String>> =
        it.records.iter().map(|(name, words)| (name, &words.0)).collect();
    let mut spec = json!({ "records": records, "forward": it.forward.unwrap_or(true) });
    if let Some(ttl) = it.ttl {
        spec["ttl"] = json!(ttl);
    }
    spec
}

fn profile_spec(it: &Dhcp) -> Result<Value, String> {
    let mac = it.mac.map_or_else(|| "02:ff:ff:ff:ff:01".to_string(), |mac| mac.to_string());
    let server = it.server.or(it.router);
    let is_v6 = server.map_or_else(|| it.dns.iter().any(|it| it.is_ipv6()), |it| it.is_ipv6());
    if is_v6 || server.is_none() {
        let mode = if it.is_stateless { "stateless" } else { "stateful" };
        return Ok(json!({ "v6": { "serverDuidMac": mac, "dns": it.dns, "mode": mode } }));
    }
    let lease = format!("{}s", it.lease.unwrap_or(3600));
    let mut v4 = json!({ "serverId": server, "serverMac": mac, "lease": lease, "dns": it.dns });
    if let Some(router) = it.router {
        v4["router"] = json!(router);
    }
    if let Some(mtu) = it.mtu {
        v4["mtu"] = json!(mtu);
    }
    if let Some(domain) = &it.domain {
        v4["domain"] = json!(domain);
    }
    Ok(json!({ "v4": v4 }))
}

fn security(port: &Port) -> Value {
    let Security::Only(entries) = &port.security else { return json!({ "mode": "off" }) };
    let entries: Vec<Value> = entries
        .iter()
        .map(|it| {
            let mac = it.mac.or(port.mac);
            let mut entry =
                json!({ "prefixes": it.ips.iter().map(|it| prefix(it)).collect::<Vec<_>>() });
            if let Some(mac) = mac {
                entry["mac"] = json!(mac.to_string());
            }
            entry
        })
        .collect();
    json!({ "mode": "strict", "own": false, "allowed": entries })
}

/// An address as the prefix that it alone is in.
fn prefix(word: &str) -> String {
    match (word.contains('/'), word.contains(':')) {
        (true, _) => word.to_string(),
        (false, false) => format!("{word}/32"),
        (false, true) => format!("{word}/128"),
    }
}

/// Whether a word is an Ethernet address.
pub fn is_mac(word: &str) -> bool {
    word.parse::<units::Mac>().is_ok()
}

//! Rules about packets, and Kubernetes' network policies.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::{Objects, is_mac, plain, prefix};
use crate::network::{
    Acl, Do, End, InOut, Match, NetPeer, NetPort, NetRule, Netpol, Network, Way, Word,
};

/// Protocols that have ports, for rules that name ports alone.
const WITH_PORTS: [&str; 3] = ["tcp", "udp", "sctp"];

impl Objects<'_> {
    pub(super) fn policies(&mut self) -> Result<(), String> {
        let network = self.network;
        for (i, acl) in network.acls.iter().enumerate() {
            self.acl(i, acl)?;
        }
        for (i, it) in network.netpols.iter().enumerate() {
            self.netpol(i, it)?;
        }
        Ok(())
    }

    fn acl(&mut self, place: usize, it: &Acl) -> Result<(), String> {
        let name = plain(&it.holds_for);
        let applies_to = if self.network.groups.contains_key(&it.holds_for) {
            json!({ "groups": [name] })
        } else if self.network.switches.contains_key(&it.holds_for) {
            json!({ "switches": [name] })
        } else if self.network.ports.contains_key(&it.holds_for) {
            json!({ "ports": [name] })
        } else {
            return Err(format!(
                "rule {} is for `{}`, which is no switch, group or port",
                it.name, it.holds_for
            ));
        };
        let (action, stateful) = match it.action {
            Do::Allow => ("allow", false),
            Do::Track => ("allow", true),
            Do::Drop => ("drop", false),
            Do::Reject => ("reject", false),
            Do::Pass => ("pass", false),
        };
        let direction = if it.dir == Way::From { "fromPort" } else { "toPort" };
        let rules: Vec<Value> = match_spec(self.network, &it.matches)?
            .into_iter()
            .enumerate()
            .map(|(i, matches)| {
                json!({
                    "name": format!("r{i}"), "direction": direction, "action": action,
                    "stateful": stateful, "priority": it.prio, "match": matches,
                })
            })
            .collect();
        let spec = json!({
            "level": it.tier, "appliesTo": applies_to, "rules": rules,
            "established": if it.keep { "persist" } else { "revalidate" },
        });
        // Equal priorities decide in the order of declaration.
        self.tenants("Policy", &format!("a{place:04}-{}", plain(&it.name)), spec);
        Ok(())
    }

    fn netpol(&mut self, place: usize, it: &Netpol) -> Result<(), String> {
        let network = self.network;
        let own = it.namespace.as_deref();
        let selected: Vec<_> = network
            .ports
            .iter()
            .filter(|(_, port)| namespace(port) == own && it.select.selects(&port.labels))
            .map(|(name, _)| plain(name))
            .collect();
        if selected.is_empty() {
            return Ok(());
        }
        let types = match it.types.is_empty() {
            false => it.types.clone(),
            true if it.egress.is_empty() => alloc::vec![InOut::In],
            true => alloc::vec![InOut::In, InOut::Out],
        };
        let mut rules = Vec::new();
        for way in &types {
            let (listed, direction) = match way {
                InOut::In => (&it.ingress, "toPort"),
                InOut::Out => (&it.egress, "fromPort"),
            };
            for rule in listed {
                let name = format!("r{}", rules.len());
                let mut spec = json!({
                    "name": name, "direction": direction, "action": "allow", "stateful": true,
                });
                let mut matches = json!({});
                let (peers, end) = match way {
                    InOut::In => (&rule.from, "source"),
                    InOut::Out => (&rule.to, "destination"),
                };
                if let Some(services) = services(rule)? {
                    matches["services"] = services;
                }
                match peers.as_deref() {
                    None | Some([]) => {
                        spec["match"] = matches;
                        rules.push(spec);
                    }
                    Some(peers) => {
                        for peer in peers {
                            let mut spec = spec.clone();
                            let mut matches = matches.clone();
                            matches[end] = self.peer(own, peer);
                            spec["name"] = json!(format!("r{}", rules.len()));
                            spec["match"] = matches;
                            rules.push(spec);
                        }
                    }
                }
            }
        }
        let directions: Vec<_> =
            types.iter().map(|it| if *it == InOut::In { "toPort" } else { "fromPort" }).collect();
        let spec = json!({
            "level": 3, "appliesTo": { "ports": selected }, "defaultAction": "drop",
            "directions": directions, "rules": rules,
        });
        self.tenants("Policy", &format!("n{place:04}-{}", plain(&it.name)), spec);
        Ok(())
    }

    fn peer(&self, own: Option<&str>, it: &NetPeer) -> Value {
        if let Some(cidr) = &it.cidr {
            let except: Vec<_> = it.except.iter().map(ToString::to_string).collect();
            return json!({ "prefixes": [cidr.to_string()], "except": except });
        }
        let ports: Vec<_> = self
            .network
            .ports
            .iter()
            .filter(|(_, port)| {
                let is_there = match &it.namespaces {
                    Some(wanted) => wanted.selects(&self.namespace_labels(namespace(port))),
                    None => namespace(port) == own,
                };
                is_there && it.pods.as_ref().is_none_or(|wanted| wanted.selects(&port.labels))
            })
            .map(|(name, _)| plain(name))
            .collect();
        json!({ "ports": ports })
    }

    /// A namespace's labels, its name among them as Kubernetes has it.
    fn namespace_labels(&self, name: Option<&str>) -> BTreeMap<String, String> {
        let Some(name) = name else { return BTreeMap::new() };
        let mut labels = self.network.namespaces.get(name).cloned().unwrap_or_default();
        for key in ["kubernetes.io/metadata.name", "name", "namespace"] {
            labels.entry(key.to_string()).or_insert_with(|| name.to_string());
        }
        labels
    }
}

/// The namespace of a port.
fn namespace(port: &crate::network::Port) -> Option<&str> {
    let by_label = || port.labels.get("namespace").or_else(|| port.labels.get("ns"));
    port.namespace.as_deref().or_else(|| by_label().map(String::as_str))
}

/// What a rule's ports are as services. `None`: all.
fn services(rule: &NetRule) -> Result<Option<Value>, String> {
    let Some(ports) = rule.ports.as_ref().filter(|it| !it.is_empty()) else { return Ok(None) };
    let one = |it: &NetPort| {
        let mut service = json!({ "protocol": it.proto.to_string().to_lowercase() });
        if let Some(port) = &it.port {
            let range = match it.end {
                Some(end) => format!("{port}-{end}"),
                None => port.to_string(),
            };
            service["ports"] = json!([range]);
        }
        service
    };
    Ok(Some(json!(ports.iter().map(one).collect::<Vec<_>>())))
}

/// A match as objects have it; more than one where Ethernet addresses and others are mixed.
pub fn match_spec(network: &Network, it: &Match) -> Result<Vec<Value>, String> {
    let mut spec = json!({});
    if let Some(eth) = &it.eth {
        spec["ethertype"] = match eth {
            Word::Number(number) => json!(number),
            Word::Text(text) => json!(text),
        };
    }
    for (field, macs) in [("sourceMacs", &it.smac), ("destinationMacs", &it.dmac)] {
        let macs = expand(network, macs)?;
        if !macs.is_empty() {
            spec[field] = json!(macs);
        }
    }
    let mut specs = alloc::vec![spec];
    for (field, by_mac, ends) in
        [("source", "sourceMacs", &it.src), ("destination", "destinationMacs", &it.dst)]
    {
        let Some(ends) = ends else { continue };
        let peer = peer(network, ends)?;
        let macs: Vec<_> = expand(network, ends)?.into_iter().filter(|it| is_mac(it)).collect();
        let mut next = Vec::new();
        for spec in specs {
            if !macs.is_empty() {
                let mut spec = spec.clone();
                spec[by_mac] = json!(macs);
                next.push(spec);
            }
            if macs.is_empty() || ends.iter().any(|it| !only_macs(network, it)) {
                let mut spec = spec;
                spec[field] = peer.clone();
                next.push(spec);
            }
        }
        specs = next;
    }
    let services = rule_services(it);
    for spec in &mut specs {
        if !services.is_empty() {
            spec["services"] = json!(services);
        }
    }
    Ok(specs)
}

fn rule_services(it: &Match) -> Vec<Value> {
    let has_ports = !it.sport.is_empty() || !it.dport.is_empty();
    let protocols: Vec<String> = match &it.proto {
        Some(proto) => alloc::vec![proto.to_string().to_lowercase()],
        None if has_ports => WITH_PORTS.map(ToString::to_string).to_vec(),
        None if it.icmp_type.is_some() => alloc::vec!["icmp".into(), "icmp6".into()],
        None => Vec::new(),
    };
    let ranges = |words: &[Word]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    protocols
        .into_iter()
        .map(|protocol| {
            let protocol = protocol.parse::<u8>().map_or(json!(protocol), |number| json!(number));
            let mut service = json!({
                "protocol": protocol, "ports": ranges(&it.dport), "sourcePorts": ranges(&it.sport),
            });
            if let Some(kind) = it.icmp_type {
                service["icmpType"] = json!(kind);
            }
            if let Some(code) = it.icmp_code {
                service["icmpCode"] = json!(code);
            }
            service
        })
        .collect()
}

/// Whoever is at an end, by addresses and ports.
fn peer(network: &Network, ends: &[End]) -> Result<Value, String> {
    let (mut prefixes, mut sets, mut groups, mut ports) = (vec(), vec(), vec(), vec());
    for end in ends {
        match end {
            End::Address(word) if is_mac(word) => {}
            End::Address(word) => prefixes.push(network_of(word)),
            End::Set { set } => {
                known(network.sets.contains_key(set), "set", set)?;
                sets.push(plain(set));
            }
            End::Group { group } => {
                known(network.groups.contains_key(group), "group", group)?;
                groups.push(plain(group));
            }
            End::Port { port } => {
                known(network.ports.contains_key(port), "port", port)?;
                ports.push(plain(port));
            }
        }
    }
    Ok(json!({ "prefixes": prefixes, "sets": sets, "groups": groups, "ports": ports }))
}

const fn vec() -> Vec<String> {
    Vec::new()
}

fn known(is: bool, kind: &str, name: &str) -> Result<(), String> {
    if is { Ok(()) } else { Err(format!("no {kind} is called `{name}`")) }
}

fn only_macs(network: &Network, end: &End) -> bool {
    match end {
        End::Address(word) => is_mac(word),
        End::Set { set } => network
            .sets
            .get(set)
            .is_some_and(|it| !it.is_empty() && it.iter().all(|word| is_mac(word))),
        _ => false,
    }
}

/// The words that ends stand for, sets written out.
fn expand(network: &Network, ends: &[End]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for end in ends {
        match end {
            End::Address(word) => words.push(word.clone()),
            End::Set { set } => {
                let members = network.sets.get(set);
                known(members.is_some(), "set", set)?;
                words.extend(members.into_iter().flatten().cloned());
            }
            End::Port { .. } | End::Group { .. } => {}
        }
    }
    Ok(words)
}

/// A prefix without host bits, as a match has it.
fn network_of(word: &str) -> String {
    let prefix = prefix(word);
    let Ok(parsed) = prefix.parse::<units::Prefix>() else { return prefix };
    let first = logical::objects::AddressRange::from(parsed).first();
    format!("{first}/{}", parsed.length)
}

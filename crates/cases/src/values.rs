//! Words that stand for values of a topology: `@a1.mac`, `@r1.lan.ip6`.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::IpAddr;

use tree::{Node, Value};
use units::{Mac, hash};
use wire::neighbor::link_local;

/// Gives ports and routers' ports without an Ethernet address one that is made of their names.
pub fn give_macs(topology: &mut Node) {
    let give = |node: &mut Node, name: &str| {
        let Value::Map(entries) = &mut node.value else { return };
        if !entries.iter().any(|(key, _)| key.text == "mac") {
            let mac = Mac::local(hash::fnv1a_32(name.as_bytes())).to_string();
            let key = tree::Key { at: node.at, text: "mac".into() };
            entries.push((key, Node { at: node.at, value: Value::Text(mac) }));
        }
    };
    let Value::Map(kinds) = &mut topology.value else { return };
    for (kind, node) in kinds {
        let Value::Map(entries) = &mut node.value else { continue };
        for (name, node) in entries {
            match kind.text.as_str() {
                "ports" => give(node, &name.text),
                "routers" => {
                    let Value::Map(fields) = &mut node.value else { continue };
                    for (_, legs) in fields.iter_mut().filter(|(it, _)| it.text == "ports") {
                        let Value::Map(legs) = &mut legs.value else { continue };
                        for (leg, node) in legs {
                            give(node, &format!("{}.{}", name.text, leg.text));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// The port, or the router's port, of a name as `a1`, `a1@h1` or `r1.lan`.
pub fn place<'a>(topology: &'a Node, name: &str) -> Option<&'a Node> {
    let name = name.split('@').next().unwrap_or(name);
    match name.split_once('.') {
        None => topology.get("ports")?.get(name),
        Some((router, leg)) => topology.get("routers")?.get(router)?.get("ports")?.get(leg),
    }
}

/// The Ethernet address of a place.
pub fn mac(node: &Node) -> Option<Mac> {
    node.get("mac")?.text()?.parse().ok()
}

/// The addresses of a place, without their prefixes' lengths.
pub fn addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let items = match node.get("ips").map(|it| &it.value) {
        Some(Value::List(items)) => items.iter().filter_map(|(_, it)| it.text()).collect(),
        Some(Value::Text(text)) => alloc::vec![text.as_str()],
        _ => alloc::vec::Vec::new(),
    };
    items.into_iter().filter_map(|text| text.split('/').next()?.parse().ok())
}

/// What a word that begins with `@` stands for.
fn value(topology: &Node, word: &str) -> Result<String, String> {
    let unknown = || format!("`{word}` stands for nothing: write @a1.mac, @a1.ip or @r1.lan.ip6");
    let (name, field) = word[1..].rsplit_once('.').ok_or_else(unknown)?;
    let node = place(topology, name).ok_or_else(unknown)?;
    let found = match field {
        "mac" => mac(node).map(|it| it.to_string()),
        "ip" | "ip4" => addresses(node).find(IpAddr::is_ipv4).map(|it| it.to_string()),
        "ip6" => addresses(node).find(IpAddr::is_ipv6).map(|it| it.to_string()),
        "ll" => mac(node).map(|it| link_local(it).to_string()),
        _ => None,
    };
    found.ok_or_else(unknown)
}

/// Writes values in place of every word that stands for one, in a tree.
pub fn resolve(topology: &Node, node: &mut Node) -> Result<(), String> {
    match &mut node.value {
        Value::Text(text) if text.starts_with('@') && text.len() > 1 => {
            *text = value(topology, text)?;
        }
        Value::List(items) => {
            for (_, item) in items {
                resolve(topology, item)?;
            }
        }
        Value::Map(entries) => {
            for (_, node) in entries {
                resolve(topology, node)?;
            }
        }
        _ => {}
    }
    Ok(())
}

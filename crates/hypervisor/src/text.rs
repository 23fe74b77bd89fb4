//! Names and what else rules compare, as texts: two are equal if they mean the same.
//!
//! Rules read nothing in a text but whether it is equal to another, and which of two router ports
//! comes first. `explain` shows them, so they are legible.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::IpAddr;
use core::str::FromStr;

use image::{Group, Target};
use logical::Kind;
use logical::objects::{Identity, Name, Operator, Owner, Reference, Requirement, Selector};
use units::Prefix;

/// An object's name. Texts of one kind have the order of identities, for a space is less than
/// whatever names have.
pub fn name(id: &Identity) -> String {
    let tenant = id.tenant.as_ref().map_or("", Name::as_str);
    format!("{} {tenant} {}", id.kind, id.name)
}

/// Whose name it is.
pub fn identity(text: &str) -> Identity {
    let mut words = text.splitn(3, ' ');
    let mut word = || words.next().expect("a name is three words");
    let kind = read(word());
    let tenant = Some(word()).filter(|it| !it.is_empty()).map(read);
    Identity { kind, tenant, name: read(word()) }
}

/// Reads what was written here.
pub fn read<T: FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("`{word}` was written by this crate"))
}

/// Who is meant by a reference in an object of a tenant, or of the operator.
pub fn meant(kind: Kind, from: Option<&Name>, reference: &Reference) -> Identity {
    let tenant = reference.tenant.as_ref().or(from);
    let tenant = tenant.filter(|_| kind.owner() != Owner::Operator).cloned();
    Identity { kind, tenant, name: reference.name.clone() }
}

/// The same of a kind that the operator has, too: who is meant, and who else if that one is not
/// there.
pub fn either(kind: Kind, from: Option<&Name>, reference: &Reference) -> [Identity; 2] {
    let own = meant(kind, from, reference);
    let tenant = own.tenant.clone().filter(|_| reference.tenant.is_some());
    [own.clone(), Identity { tenant, ..own }]
}

/// An object of the operator's.
pub fn operators(kind: Kind, name: &Name) -> Identity {
    Identity { kind, tenant: None, name: name.clone() }
}

/// Any words as one.
fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for word in words {
        write!(text, "{}:{word}", word.len()).expect("a String takes everything");
    }
    text
}

fn split(mut text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    while let Some((length, rest)) = text.split_once(':') {
        let (word, rest) = rest.split_at(read(length));
        words.push(word);
        text = rest;
    }
    words
}

/// A label.
pub fn label(key: &str, value: &str) -> String {
    join([key, value].into_iter())
}

/// The labels of a port.
pub fn labels(labels: &BTreeMap<String, String>) -> String {
    join(labels.iter().flat_map(|(key, value)| [&key[..], &value[..]]))
}

pub fn read_labels(text: &str) -> BTreeMap<String, String> {
    let words = split(text);
    words.chunks(2).map(|pair| (pair[0].to_string(), pair[1].to_string())).collect()
}

pub fn selector(it: &Selector) -> String {
    let labels = labels(&it.match_labels);
    let requirements = it.match_expressions.iter().map(|it| {
        let operator = match it.operator {
            Operator::In => "in",
            Operator::NotIn => "not in",
            Operator::Exists => "exists",
        };
        join([&it.key[..], operator].into_iter().chain(it.values.iter().map(|it| &it[..])))
    });
    let requirements: Vec<_> = requirements.collect();
    join([&labels[..]].into_iter().chain(requirements.iter().map(|it| &it[..])))
}

pub fn read_selector(text: &str) -> Selector {
    let words = split(text);
    let requirement = |text: &&str| {
        let words = split(text);
        let operator = match words[1] {
            "in" => Operator::In,
            "not in" => Operator::NotIn,
            _ => Operator::Exists,
        };
        let values = words[2..].iter().map(ToString::to_string).collect();
        Requirement { key: words[0].to_string(), operator, values }
    };
    Selector {
        match_labels: read_labels(words[0]),
        match_expressions: words[1..].iter().map(requirement).collect(),
    }
}

/// One label that ports need to be selected, or none.
pub fn asked(it: &Selector) -> String {
    it.match_labels.first_key_value().map(|(key, value)| label(key, value)).unwrap_or_default()
}

/// What begins the names of groups that are selected.
const SELECTED: &str = "Selected";

pub fn group(it: &Group) -> String {
    match it {
        Group::Port(id) | Group::Named(id) => name(id),
        Group::Selected { tenant, selector } => {
            format!("{SELECTED} {} {}", tenant_name(tenant.as_ref()), self::selector(selector))
        }
    }
}

pub fn read_group(text: &str) -> Group {
    let mut words = text.splitn(3, ' ');
    if words.next() == Some(SELECTED) {
        let mut word = || words.next().unwrap_or_default();
        let tenant = Some(word()).filter(|it| !it.is_empty()).map(read);
        return Group::Selected { tenant, selector: read_selector(word()) };
    }
    match identity(text) {
        id if id.kind == Kind::LogicalPort => Group::Port(id),
        id => Group::Named(id),
    }
}

/// A tenant's name; the operator has none.
pub fn tenant_name(tenant: Option<&Name>) -> &str {
    tenant.map_or("", Name::as_str)
}

pub fn addresses(addresses: &[IpAddr]) -> String {
    let words: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    words.join(" ")
}

pub fn read_addresses(text: &str) -> Vec<IpAddr> {
    text.split(' ').filter(|it| !it.is_empty()).map(read).collect()
}

/// Where a route leads: its prefix, whose packets, and its distance.
pub fn destination(prefix: Prefix, source: Option<Prefix>, distance: u8) -> String {
    match source {
        Some(source) => format!("{prefix} {distance} {source}"),
        None => format!("{prefix} {distance}"),
    }
}

pub fn read_destination(text: &str) -> (Prefix, Option<Prefix>, u8) {
    let words: Vec<_> = text.split(' ').collect();
    (read(words[0]), words.get(2).map(|it| read(it)), read(words[1]))
}

pub fn target(it: &Target) -> String {
    match it {
        Target::Discard { reject: false } => "discard".into(),
        Target::Discard { reject: true } => "reject".into(),
        Target::Connected { out } => format!("connected {}", name(out)),
        Target::Hop { address, out } => hop(&address.to_string(), &name(out)),
    }
}

/// A neighbour, and the port towards it.
pub fn hop(address: &str, out: &str) -> String {
    format!("{address} {out}")
}

pub fn read_target(text: &str) -> Target {
    match text.split_once(' ') {
        None => Target::Discard { reject: text == "reject" },
        Some(("connected", out)) => Target::Connected { out: identity(out) },
        Some((address, out)) => Target::Hop { address: read(address), out: identity(out) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
        proptest::collection::btree_map(".{0,5}", ".{0,5}", 0..4)
    }

    proptest! {
        #[test]
        fn selectors_are_read_as_they_were_written(
            match_labels in words(),
            expressions in proptest::collection::vec((".{0,4}", 0..3, proptest::collection::vec(".{0,4}", 0..3)), 0..3),
            tenant in proptest::option::of("[a-z]{1,4}"),
        ) {
            let requirement = |(key, operator, values)| {
                let operator = [Operator::In, Operator::NotIn, Operator::Exists][operator as usize];
                Requirement { key, operator, values }
            };
            let match_expressions = expressions.into_iter().map(requirement).collect();
            let selector = Selector { match_labels, match_expressions };
            prop_assert_eq!(read_labels(&labels(&selector.match_labels)), selector.match_labels.clone());
            let tenant = tenant.map(|it| read(&it));
            let it = Group::Selected { tenant, selector };
            prop_assert_eq!(read_group(&group(&it)), it);
        }

        /// The first router's port by its text is the first by its name.
        #[test]
        fn names_are_read_as_they_were_written_and_have_their_order(all in proptest::collection::vec(("[a-]{1,3}a", "[b-]{1,3}b"), 2)) {
            let ids: Vec<_> = all.iter().map(|(tenant, own)| {
                let [tenant, own] = [tenant, own].map(|it| read(&alloc::format!("a{it}")));
                Identity { kind: Kind::RouterPort, tenant: Some(tenant), name: own }
            }).collect();
            prop_assert_eq!(name(&ids[0]).cmp(&name(&ids[1])), ids[0].cmp(&ids[1]));
            prop_assert_eq!(identity(&name(&ids[0])), ids[0].clone());
        }
    }
}

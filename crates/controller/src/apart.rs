//! Hosts tell apart all that they send to: no two objects of a store have one label.
//!
//! A host may have ports of any domains, so it is not enough that a domain has each label once, as
//! [`logical::resolve`] sees to. A store may have two from before this was asked: they stay, and
//! each may be changed.

use std::collections::{BTreeMap, BTreeSet};

use logical::objects::{Identity, Name};
use logical::{Fault, Source};

use crate::objects::Objects;

/// The objects of a write whose names come to labels that others have. A tenant is told of none
/// but its own.
pub fn alike(
    objects: &Objects,
    said: &Source,
    gone: &BTreeSet<Identity>,
    tenant: Option<&Name>,
) -> Vec<Fault> {
    let (mut faults, mut first) = (Vec::new(), BTreeMap::<u32, Identity>::new());
    for (index, object) in said.objects.iter().enumerate() {
        let (Some(label), identity) = (logical::label_of(object), object.identity()) else {
            continue;
        };
        let is_other = |it: &&Identity| **it != identity && !gone.contains(*it);
        let said_before = first.get(&label).filter(|it| **it != identity);
        let other = said_before.or_else(|| objects.with_number(label).find(is_other));
        let had_it = objects.get(&identity).and_then(logical::label_of).is_some();
        if let Some(other) = other.filter(|_| !had_it) {
            let path = "/metadata/name";
            faults.push(Fault {
                index: Some(index),
                object: identity.to_string(),
                path: path.into(),
                message: sentence(other, tenant),
                position: said.locate(index, path),
            });
        }
        first.entry(label).or_insert(identity);
    }
    faults
}

fn sentence(other: &Identity, tenant: Option<&Name>) -> String {
    let is_known = tenant.is_none() || other.tenant.as_ref() == tenant;
    let other = if is_known { other.to_string() } else { "something of another tenant".into() };
    format!(
        "its name has the same label as that of {other}, so hosts could not tell them apart: give it another name"
    )
}

/// All that is wrong, each once.
pub fn joined(mut faults: Vec<Fault>, alike: Vec<Fault>) -> Vec<Fault> {
    for fault in alike {
        if faults.iter().all(|it| (&it.object, &it.path) != (&fault.object, &fault.path)) {
            faults.push(fault);
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(tenant: &str, name: &str) -> String {
        format!(
            "- {{kind: LogicalPort, metadata: {{tenant: {tenant}, name: {name}}}, spec: {{switch: s, vif: {{}}}}}}\n"
        )
    }

    fn read(text: &str) -> Source {
        let read = logical::read(text);
        assert!(read.faults.is_empty(), "{:?}", read.faults);
        read
    }

    fn named(text: &str) -> Objects {
        read(text).objects.into_iter().map(|it| (it.identity(), it)).collect()
    }

    /// The objects that are told of, and whether the other is named.
    fn told(
        there: &Objects,
        said: &str,
        gone: &[&str],
        tenant: Option<&str>,
    ) -> Vec<(String, bool)> {
        let gone = gone.iter().map(|it| it.parse().unwrap()).collect();
        let tenant = tenant.map(|it| it.parse().unwrap());
        let faults = alike(there, &read(said), &gone, tenant.as_ref());
        assert!(faults.iter().all(|it| it.position.is_some()), "{faults:?}");
        let is_named = |it: &Fault| it.message.contains("LogicalPort/");
        faults.iter().map(|it| (it.object.clone(), is_named(it))).collect()
    }

    #[test]
    fn two_names_of_a_store_never_come_to_one_label() {
        let [shop, bank] = [port("shop", "p1668"), port("bank", "p10966")];
        let mut there = named(&shop);
        let wrong = |is_named| vec![("LogicalPort/bank/p10966".to_owned(), is_named)];
        assert_eq!(told(&there, &bank, &[], None), wrong(true));
        assert_eq!(
            told(&there, &bank, &[], Some("bank")),
            wrong(false),
            "whose it is it knows not"
        );
        assert_eq!(told(&Objects::default(), &(shop.clone() + &bank), &[], None), wrong(true));
        assert!(told(&there, &bank, &["LogicalPort/shop/p1668"], None).is_empty());
        assert!(told(&there, &(shop.clone() + &port("bank", "p1")), &[], None).is_empty());
        // What has no label is alike to nobody.
        let leads = bank.replace("vif: {}", "router: {routerPort: r}");
        assert!(told(&there, &leads, &[], None).is_empty());
        // Two that are there stay, and one that has gone is in nobody's way.
        there.insert("LogicalPort/bank/p10966".parse().unwrap(), read(&bank).objects.remove(0));
        assert!(told(&there, &(bank.clone() + &shop), &[], None).is_empty());
        for it in ["LogicalPort/bank/p10966", "LogicalPort/shop/p1668"] {
            there.remove(&it.parse().unwrap());
        }
        assert!(told(&there, &bank, &[], None).is_empty());
        // One that leads to a router has none until it is a machine's.
        there.insert("LogicalPort/bank/p10966".parse().unwrap(), read(&leads).objects.remove(0));
        assert!(told(&there, &shop, &[], None).is_empty());
        there.insert("LogicalPort/shop/p1668".parse().unwrap(), read(&shop).objects.remove(0));
        assert_eq!(told(&there, &bank, &[], None), wrong(true));
    }
}

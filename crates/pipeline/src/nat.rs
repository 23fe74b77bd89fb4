//! A router's translations, made ready.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use image::{Domain, Nat};
use logical::objects::{AddressRange, Identity};

use crate::conditions::Conditions;
use crate::ports::ports_of;
use crate::rules::Ordered;

/// A translation, ready to be asked.
#[derive(Clone, Debug)]
pub struct Translation {
    pub id: Identity,
    pub row: Nat,
    pub condition: Option<Ordered>,
    pub exempt: Vec<AddressRange>,
    pub only_for: Vec<AddressRange>,
}

/// The translations of a router, the first that decides first.
pub fn translations(part: &Domain, router: &Identity, all: &mut Conditions) -> Vec<Translation> {
    let nats = part.nats.iter().filter(|(_, it)| it.router == *router);
    let addresses = |sets: &BTreeSet<Identity>| {
        let all = part.addresses.keys().filter(|(set, _)| sets.contains(set));
        all.map(|(_, range)| *range).collect()
    };
    let mut made: Vec<_> = nats
        .map(|(id, row)| Translation {
            id: id.clone(),
            row: row.clone(),
            condition: row
                .condition
                .as_ref()
                .map(|it| Ordered::new([all.alone(it)].to_vec(), ports_of(it))),
            exempt: addresses(&row.exempt),
            only_for: addresses(&row.only_for),
        })
        .collect();
    made.sort_by_key(|it| {
        let inside = it.row.logical.place(it.row.logical.last());
        (Reverse(it.row.priority), inside, it.row.external_ports.is_none())
    });
    made
}

//! Deletions that take along what needs what is gone.

use std::collections::BTreeSet;

use logical::objects::{Identity, Kind, Name, Object};

use crate::nearby;
use crate::objects::{Objects, meant};

/// How often it is looked who needs what is gone. Nobody else writes meanwhile.
const ROUNDS: usize = 32;

/// Adds to what is to be gone all that cannot stand without it, and without that in turn, as long
/// as it is of the same owner. What is another's stays, and is in the way. `false`: that needs more
/// rounds than are made.
///
/// An object that cannot stand is one that `logical` finds fault with once the others are gone.
/// Only those that depend on what is gone are looked at, with whom they speak of.
pub fn spread(objects: &Objects, gone: &mut BTreeSet<Identity>) -> bool {
    let owners: BTreeSet<_> = gone.iter().map(owner).collect();
    let mut new = gone.clone();
    let mut asked: BTreeSet<Identity> = BTreeSet::new();
    for _ in 0..ROUNDS {
        let dependents = new.iter().flat_map(|it| dependents(objects, it));
        asked.extend(dependents.filter(|it| owners.contains(&owner(it))));
        asked.retain(|it| !gone.contains(it));
        new = nearby::faulty(objects, &asked, gone);
        if new.is_empty() {
            return true;
        }
        gone.extend(new.iter().cloned());
    }
    false
}

/// Those that may not stand without an object: who speaks of it, and of a router's port the router,
/// whose routes lead by it.
fn dependents(objects: &Objects, gone: &Identity) -> Vec<Identity> {
    let mut found: Vec<_> = objects.all_speaking_of(gone).cloned().collect();
    if let Some(Object::RouterPort(port)) = objects.get(gone) {
        let tenant = port.metadata.tenant.as_ref();
        found.push(meant(Kind::LogicalRouter, tenant, &port.spec.router));
    }
    found
}

/// Whose an object is: a Tenant is the tenant's itself here, which goes with it.
fn owner(of: &Identity) -> Option<Name> {
    match of.kind {
        Kind::Tenant => Some(of.name.clone()),
        _ => of.tenant.clone(),
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;
    use worlds::{CORNERS, World};

    use super::*;

    fn read(text: &str) -> Objects {
        let read = logical::read(text);
        assert!(read.faults.is_empty(), "{:#?}", read.faults);
        read.objects.into_iter().map(|it| (it.identity(), it)).collect()
    }

    /// Those that are there without what is gone.
    fn left(objects: &Objects, gone: &BTreeSet<Identity>) -> Vec<Object> {
        let left = objects.iter().filter(|(it, _)| !gone.contains(it));
        left.map(|(_, object)| object.clone()).collect()
    }

    /// The same by all objects, as often as it takes.
    fn slow(objects: &Objects, gone: &mut BTreeSet<Identity>) {
        let owners: BTreeSet<_> = gone.iter().map(owner).collect();
        loop {
            let Err(faults) = logical::resolve(&left(objects, gone)) else { return };
            let faulty = faults.iter().filter_map(|it| it.object.parse::<Identity>().ok());
            let before = gone.len();
            gone.extend(faulty.filter(|it| owners.contains(&owner(it))));
            if gone.len() == before {
                return;
            }
        }
    }

    #[test]
    fn what_goes_is_no_more_than_by_all_objects_and_the_rest_stands_as_then() {
        let rng = &mut Rng::new(1);
        let mut worlds: Vec<_> = (0..10).map(|it| World::new(it).spread(2, rng).text).collect();
        worlds.push(CORNERS.into());
        for world in worlds {
            let objects = read(&world);
            for (identity, _) in objects.iter() {
                let mut gone = BTreeSet::from([identity.clone()]);
                let mut most = gone.clone();
                slow(&objects, &mut most);
                assert!(spread(&objects, &mut gone), "{identity}");
                assert!(gone.is_subset(&most), "{identity}: {gone:#?} of {most:#?}\nin {world}");
                let stands = [&gone, &most].map(|it| logical::resolve(&left(&objects, it)).is_ok());
                assert_eq!(stands[0], stands[1], "{identity}: {gone:#?} of {most:#?}\nin {world}");
            }
        }
    }

    #[test]
    fn rounds_are_bounded() {
        let group = |name: usize, spec: &str| {
            format!("- {{kind: PortGroup, metadata: {{name: g{name}, tenant: t}}, spec: {spec}}}\n")
        };
        // Deeper than groups may be: each is needed by the next, so each takes a round.
        let chain = |length: usize| {
            let rest = (1..length).map(|it| group(it, &format!("{{include: [g{}]}}", it - 1)));
            let tenant = "- {kind: Tenant, metadata: {name: t}, spec: {}}\n".to_owned();
            read(&[tenant, group(0, "{}")].into_iter().chain(rest).collect::<String>())
        };
        let first = || BTreeSet::from(["PortGroup/t/g0".parse::<Identity>().unwrap()]);
        let mut gone = first();
        assert!(spread(&chain(ROUNDS), &mut gone));
        assert_eq!(gone.len(), ROUNDS);
        assert!(!spread(&chain(2 * ROUNDS), &mut first()));
    }
}

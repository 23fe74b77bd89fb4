//! What a name leads to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Display;

use crate::fault::Fault;
use crate::objects::{Identity, Kind, Name, Object, Owner, Reference, Tenant};
use crate::report::Report;

/// The place of what is named and is not there: no list is so long.
pub const NOWHERE: u32 = u32::MAX;

/// Every object by its name.
pub struct Names<'a> {
    objects: &'a [&'a Object],
    /// Of each kind, in order: the objects.
    by_kind: BTreeMap<Kind, BTreeMap<Identity, Entry>>,
    broken: &'a BTreeSet<Identity>,
}

/// Where an object is.
#[derive(Clone, Copy)]
struct Entry {
    /// Its place in its kind's order.
    order: u32,
    /// Its place among all objects, as they were declared.
    place: usize,
}

impl<'a> Names<'a> {
    pub fn new(
        objects: &'a [&'a Object],
        first: &BTreeMap<Identity, usize>,
        broken: &'a BTreeSet<Identity>,
    ) -> Self {
        let mut by_kind: BTreeMap<Kind, BTreeMap<Identity, Entry>> = BTreeMap::new();
        // They come in order, so each is its kind's last so far.
        for (identity, place) in first {
            let listed = by_kind.entry(identity.kind).or_default();
            let order = u32::try_from(listed.len()).expect("memory ends before 2^32 objects");
            listed.insert(identity.clone(), Entry { order, place: *place });
        }
        Self { objects, by_kind, broken }
    }

    /// The objects of a kind in their order, each with who it is and its place.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (&Identity, usize, &'a Object)> {
        let listed = self.by_kind.get(&kind).into_iter().flatten();
        listed.map(|(identity, entry)| (identity, entry.place, self.objects[entry.place]))
    }

    /// Makes something of every object that `make` takes, in order.
    pub fn each<T>(
        &self,
        faults: &mut Vec<Fault>,
        mut make: impl FnMut(Identity, &'a Object, &mut Report<'_>) -> Option<T>,
    ) -> Vec<T> {
        let mut made = Vec::new();
        for (identity, Entry { place, .. }) in self.by_kind.values().flatten() {
            let name = identity.to_string();
            let mut report = Report { index: *place, object: &name, faults };
            made.extend(make(identity.clone(), self.objects[*place], &mut report));
        }
        made
    }

    /// A tenant, by name.
    pub fn tenant(&self, name: &Name) -> Option<&'a Tenant> {
        let id = Identity { kind: Kind::Tenant, tenant: None, name: name.clone() };
        match self.objects[self.by_kind.get(&Kind::Tenant)?.get(&id)?.place] {
            Object::Tenant(it) => Some(&it.spec),
            _ => None,
        }
    }

    /// Every tenant that is named exists, and has no more than its quota.
    pub fn check_tenants(&self, faults: &mut Vec<Fault>) {
        let mut counts: BTreeMap<(&Name, Kind), u32> = BTreeMap::new();
        for (identity, Entry { place, .. }) in self.by_kind.values().flatten() {
            let name = identity.to_string();
            let mut report = Report { index: *place, object: &name, faults };
            if let Object::Tenant(it) = self.objects[*place] {
                self.all(
                    Kind::ProviderNetwork,
                    &it.spec.allow_provider,
                    "/spec/allowProvider",
                    &mut report,
                );
                self.all(Kind::Tenant, &it.spec.shared_with, "/spec/sharedWith", &mut report);
            }
            let Some(tenant) = &identity.tenant else { continue };
            self.named(Kind::Tenant, tenant, "/metadata/tenant", &mut report);
            let Some(quota) = self.tenant(tenant).map(|it| it.quota) else { continue };
            let Some((more, most, field)) = quota.counts(self.objects[*place]) else { continue };
            let count = counts.entry((tenant, identity.kind)).or_default();
            *count = count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            if let Some(most) = most.filter(|most| *count > *most) {
                let message = format!(
                    "tenant `{tenant}` may have {most} by `quota.{field}`, and this makes {count}"
                );
                report.say("", message);
            }
        }
    }

    /// The place in its kind's order of what an operator's name leads to.
    pub fn named(
        &self,
        kind: Kind,
        name: &Name,
        path: impl Display,
        report: &mut Report<'_>,
    ) -> Option<u32> {
        self.look_up(&Identity { kind, tenant: None, name: name.clone() }, path, report)
    }

    /// Complains of every name that leads to nothing.
    pub fn all(&self, kind: Kind, names: &[Name], path: &str, report: &mut Report<'_>) -> Vec<u32> {
        let each = names.iter().enumerate();
        each.filter_map(|(i, name)| self.named(kind, name, format!("{path}/{i}"), report)).collect()
    }

    /// The place in its kind's order of what a tenant's object refers to.
    pub fn find(
        &self,
        kind: Kind,
        from: Option<&Name>,
        reference: &Reference,
        path: impl Display,
        report: &mut Report<'_>,
    ) -> Option<u32> {
        self.look_up(&self.meant(kind, from, reference, &path, report)?, path, report)
    }

    /// What a tenant's object refers to.
    pub fn object(
        &self,
        kind: Kind,
        from: Option<&Name>,
        reference: &Reference,
        path: impl Display,
        report: &mut Report<'_>,
    ) -> Option<&'a Object> {
        let meant = self.meant(kind, from, reference, &path, report)?;
        self.look_up(&meant, path, report)?;
        Some(self.objects[self.by_kind[&kind][&meant].place])
    }

    /// Who is meant: of the same tenant, of one that shares, or the operator's.
    fn meant(
        &self,
        kind: Kind,
        from: Option<&Name>,
        reference: &Reference,
        path: impl Display,
        report: &mut Report<'_>,
    ) -> Option<Identity> {
        let Reference { tenant, name } = reference;
        if let (Some(tenant), Some(from)) = (tenant, from)
            && tenant != from
            && !self.tenant(tenant).is_some_and(|it| it.shared_with.contains(from))
        {
            let message = format!(
                "tenant `{tenant}` shares nothing with `{from}`: name one of `{from}`'s own, or \
                 have `sharedWith` of `{tenant}` say `{from}`"
            );
            report.say(path, message);
            return None;
        }
        let tenant = tenant.as_ref().or(from).filter(|_| kind.owner() != Owner::Operator);
        let own = Identity { kind, tenant: tenant.cloned(), name: name.clone() };
        let operators = Identity { tenant: None, ..own.clone() };
        let is_operators = reference.tenant.is_none() && kind.owner() == Owner::Either;
        Some(if is_operators && !self.knows(&own) { operators } else { own })
    }

    fn knows(&self, identity: &Identity) -> bool {
        self.by_kind.get(&identity.kind).is_some_and(|it| it.contains_key(identity))
            || self.broken.contains(identity)
    }

    fn look_up(
        &self,
        identity: &Identity,
        path: impl Display,
        report: &mut Report<'_>,
    ) -> Option<u32> {
        let listed = self.by_kind.get(&identity.kind);
        let entry = listed.and_then(|listed| listed.get(identity));
        if entry.is_none() && !self.broken.contains(identity) {
            let of_tenant = |it: &&Identity| it.tenant == identity.tenant;
            let known: Vec<_> =
                listed.into_iter().flat_map(|it| it.keys()).filter(of_tenant).collect();
            let known: Vec<_> = known.iter().map(|it| it.name.as_str()).collect();
            let Identity { kind, name, .. } = identity;
            let near = model::mistake::unknown(name.as_str(), &known);
            let near = near.split_once("did you mean ").map(|(_, near)| near.trim_end_matches('?'));
            let message = match near {
                Some(near) => format!("there is no {identity}: did you mean {near}?"),
                None => {
                    format!("there is no {identity}: declare it, or name a {kind} that there is")
                }
            };
            report.say(path, message);
        }
        entry.map(|entry| entry.order)
    }
}

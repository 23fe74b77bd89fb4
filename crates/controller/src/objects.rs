//! The objects that there are, and who speaks of whom.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use logical::objects::{Declared, Identity, Kind, Name, Object, PortGroup, Reference};

/// Objects by name, by whom they speak of, and by their labels.
#[derive(Debug, Default, PartialEq)]
pub struct Objects {
    all: BTreeMap<Identity, Arc<Object>>,
    /// Whoever is spoken of, with each who does; `None` is before all of these.
    spoken_of: BTreeSet<(Identity, Option<Identity>)>,
    /// Labels' hashes, with each object that has such a label. Few labels share a hash; who looks
    /// for one looks at it.
    labelled: BTreeSet<(u64, Option<Identity>)>,
}

impl Objects {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Identity, &Object)> + Clone {
        self.all.iter().map(|(identity, object)| (identity, &**object))
    }

    /// All of them, by name, to be kept elsewhere as well.
    pub fn shared(&self) -> &BTreeMap<Identity, Arc<Object>> {
        &self.all
    }

    /// The object of a name.
    pub fn get(&self, identity: &Identity) -> Option<&Object> {
        self.all.get(identity).map(|it| &**it)
    }

    /// The objects of a kind that a tenant has, or the operator.
    pub fn of<'a>(
        &'a self,
        kind: Kind,
        tenant: Option<&'a Name>,
    ) -> impl Iterator<Item = (&'a Identity, &'a Object)> {
        // No name is less than this.
        let name = "0".parse().expect("it is a name");
        let first = Identity { kind, tenant: tenant.cloned(), name };
        let rest = self.all.range(first..).map(|(identity, object)| (identity, &**object));
        rest.take_while(move |(it, _)| it.kind == kind && it.tenant.as_ref() == tenant)
    }

    /// The objects that have a label of this value.
    pub fn with_label<'a>(
        &'a self,
        label: &'a str,
        value: &'a str,
    ) -> impl Iterator<Item = (&'a Identity, &'a Object)> {
        let hash = hash(label, value);
        let rest = self.labelled.range((hash, None)..).take_while(move |(it, _)| *it == hash);
        rest.filter_map(|(_, identity)| identity.as_ref()).filter_map(move |identity| {
            let object = self.get(identity)?;
            let has = object.metadata().labels.get(label).is_some_and(|it| it == value);
            has.then_some((identity, object))
        })
    }

    /// Those of a kind who speak of an object, whether that is there or not.
    pub fn speaking_of<'a>(
        &'a self,
        identity: &'a Identity,
        kind: Kind,
    ) -> impl Iterator<Item = &'a Identity> {
        self.all_speaking_of(identity).filter(move |it| it.kind == kind)
    }

    /// All who speak of an object, whether that is there or not.
    pub fn all_speaking_of<'a>(
        &'a self,
        identity: &'a Identity,
    ) -> impl Iterator<Item = &'a Identity> {
        let rest = self.spoken_of.range((identity.clone(), None)..);
        rest.take_while(move |(it, _)| it == identity).filter_map(|(_, by)| by.as_ref())
    }

    /// Puts an object in the place of what has its name.
    pub fn insert(&mut self, identity: Identity, object: impl Into<Arc<Object>>) {
        let object = object.into();
        let before = self.all.insert(identity.clone(), Arc::clone(&object));
        self.differs(&identity, before.as_deref(), Some(&object));
    }

    /// Takes the object of a name away.
    pub fn remove(&mut self, identity: &Identity) {
        let before = self.all.remove(identity);
        self.differs(identity, before.as_deref(), None);
    }

    /// Keeps once what is the same as in others.
    pub fn share(&mut self, others: &Self) {
        for (identity, object) in &mut self.all {
            let other = others.all.get(identity);
            if let Some(other) = other.filter(|it| ***it == **object) {
                *object = Arc::clone(other);
            }
        }
    }

    /// Has the other orders follow.
    fn differs(&mut self, by: &Identity, before: Option<&Object>, after: Option<&Object>) {
        let (gone, come) = differing(before, after);
        for it in gone {
            self.spoken_of.remove(&(it, Some(by.clone())));
        }
        self.spoken_of.extend(come.into_iter().map(|it| (it, Some(by.clone()))));
        let [old, new] = [before, after].map(|it| it.map(|it| &it.metadata().labels));
        if old != new {
            for (label, value) in old.into_iter().flatten() {
                self.labelled.remove(&(hash(label, value), Some(by.clone())));
            }
            let labels = new.into_iter().flatten();
            self.labelled.extend(labels.map(|(it, value)| (hash(it, value), Some(by.clone()))));
        }
    }
}

/// A label and its value as a number.
fn hash(label: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (label, value).hash(&mut hasher);
    hasher.finish()
}

/// Many at once: trees that are made of what is in order have no room that nobody needs.
impl<O: Into<Arc<Object>>> FromIterator<(Identity, O)> for Objects {
    fn from_iter<T: IntoIterator<Item = (Identity, O)>>(objects: T) -> Self {
        let objects = objects.into_iter().map(|(identity, object)| (identity, object.into()));
        let all: BTreeMap<Identity, Arc<Object>> = objects.collect();
        let spoken = |(by, object): (&Identity, &Arc<Object>)| {
            let by = by.clone();
            logical::references(object).into_iter().map(move |it| (it, Some(by.clone())))
        };
        let labelled = |(by, object): (&Identity, &Arc<Object>)| {
            let labels = object.metadata().labels.iter();
            let each = labels.map(|(label, value)| (hash(label, value), Some(by.clone())));
            each.collect::<Vec<_>>()
        };
        let spoken_of = all.iter().flat_map(spoken).collect();
        let labelled = all.iter().flat_map(labelled).collect();
        Self { all, spoken_of, labelled }
    }
}

/// Whom an object no longer speaks of, and of whom else it does now. A group of many ports that has
/// one more costs little more than to compare its ports.
fn differing(before: Option<&Object>, after: Option<&Object>) -> (Vec<Identity>, Vec<Identity>) {
    let said = |it: Option<&Object>| it.map(logical::references).unwrap_or_default();
    let apart = before.zip(after).and_then(|(before, after)| apart(before, after));
    let (mut before, after) = match &apart {
        Some(it) => (said(Some(&it.before)), said(Some(&it.after))),
        None => (said(before), said(after)),
    };
    let (start, end) = common(&before, &after);
    let gone = before.drain(start..before.len() - end);
    let come = after[start..after.len() - end].to_vec();
    let mut gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        let after: HashSet<_> = after.iter().collect();
        gone.retain(|it| !after.contains(it));
    }
    if let Some(Apart { tenant, same, .. }) = &apart {
        let means = |Reference { tenant: other, name }: &Reference, it: &Identity| match it.kind {
            Kind::LogicalPort => {
                it.name == *name && it.tenant.as_ref() == other.as_ref().or(*tenant)
            }
            Kind::Tenant => Some(&it.name) == other.as_ref(),
            _ => false,
        };
        gone.retain(|gone| !same.iter().copied().flatten().any(|it| means(it, gone)));
    }
    (gone, come)
}

/// The most ports of a group that are looked for among those that stay.
const FEW: usize = 16;

/// Two groups of one name without the ports that both have first and last.
struct Apart<'a> {
    before: Object,
    after: Object,
    /// Whose they are.
    tenant: Option<&'a Name>,
    /// Those ports.
    same: [&'a [Reference]; 2],
}

/// Two groups of which few ports differ.
fn apart<'a>(before: &'a Object, after: &'a Object) -> Option<Apart<'a>> {
    let (Object::PortGroup(old), Object::PortGroup(new)) = (before, after) else { return None };
    let (start, end) = common(&old.spec.ports, &new.spec.ports);
    let of = |group: &Declared<PortGroup>| {
        let ports = group.spec.ports[start..group.spec.ports.len() - end].to_vec();
        let spec = PortGroup { ports, include: group.spec.include.clone(), selector: None };
        Object::PortGroup(Declared::new(group.metadata.clone(), spec))
    };
    let ports = &old.spec.ports;
    let (first, last) = (&ports[..start], &ports[ports.len() - end..]);
    (ports.len() - start - end <= FEW).then(|| Apart {
        before: of(old),
        after: of(new),
        tenant: new.metadata.tenant.as_ref(),
        same: [first, last],
    })
}

/// Who is meant by a reference in an object of a tenant, of a kind that only tenants have.
pub fn meant(kind: Kind, from: Option<&Name>, reference: &Reference) -> Identity {
    let tenant = reference.tenant.as_ref().or(from).cloned();
    Identity { kind, tenant, name: reference.name.clone() }
}

/// How many elements are the same at the beginning of two lists, and how many of the others at
/// their end.
pub fn common<T: PartialEq>(one: &[T], other: &[T]) -> (usize, usize) {
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (one[start..].iter().rev(), other[start..].iter().rev());
    (start, one.zip(other).take_while(|(a, b)| a == b).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(ports: &[&str], include: &[&str]) -> Object {
        let text = format!(
            "{{kind: PortGroup, metadata: {{name: g, tenant: t}}, spec: {{ports: {ports:?}, include: {include:?}}}}}"
        );
        let read = logical::read(&text);
        assert!(read.faults.is_empty(), "{:?}", read.faults);
        read.objects.into_iter().next().unwrap()
    }

    /// What is kept as objects change is what is made of all of them anew.
    #[test]
    fn who_speaks_of_whom_follows_groups_that_change() {
        let lists: [&[&str]; 9] = [
            &[],
            &["a"],
            &["a", "b", "c"],
            &["a", "c"],
            &["a", "b", "a"],
            &["a", "b", "t/a"],
            &["u/a", "b", "u/c"],
            &["u/a", "b"],
            &["b", "u/a", "a"],
        ];
        for before in lists {
            for after in lists {
                let [before, after] = [group(before, &["h"]), group(after, &["i", "h"])];
                let identity = before.identity();
                let mut objects: Objects = [(identity.clone(), before)].into_iter().collect();
                objects.insert(identity.clone(), after.clone());
                let anew: Objects = [(identity.clone(), after.clone())].into_iter().collect();
                assert_eq!(objects, anew, "{after:?}");
                objects.remove(&identity);
                assert_eq!(objects, Objects::default());
            }
        }
    }

    #[test]
    fn objects_are_found_by_their_labels() {
        let text = "
- {kind: Tenant, metadata: {name: a, labels: {app: shop, tier: web}}, spec: {}}
- {kind: Tenant, metadata: {name: b, labels: {app: shop}}, spec: {}}
- {kind: Tenant, metadata: {name: c, labels: {app: bank}}, spec: {}}
- {kind: Tenant, metadata: {name: d}, spec: {}}
";
        let all = logical::read(text).objects.into_iter().map(|it| (it.identity(), it));
        let mut objects: Objects = all.collect();
        let found = |objects: &Objects, label, value| -> Vec<String> {
            objects.with_label(label, value).map(|(it, _)| it.name.to_string()).collect()
        };
        assert_eq!(found(&objects, "app", "shop"), ["a", "b"]);
        assert_eq!(found(&objects, "tier", "web"), ["a"]);
        assert!(found(&objects, "app", "").is_empty() && found(&objects, "", "shop").is_empty());
        let [a, b]: [Identity; 2] = ["Tenant/a", "Tenant/b"].map(|it| it.parse().unwrap());
        let mut other = objects.get(&a).unwrap().clone();
        other.metadata_mut().labels.insert("app".into(), "bank".into());
        objects.insert(a, other);
        objects.remove(&b);
        assert_eq!(found(&objects, "app", "bank"), ["a", "c"]);
        assert!(found(&objects, "app", "shop").is_empty());
        assert_eq!(found(&objects, "tier", "web"), ["a"]);
    }
}

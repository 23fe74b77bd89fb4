//! The objects that there are, and who speaks of whom.

use std::collections::{BTreeMap, BTreeSet, HashSet, btree_map};

use logical::objects::{Identity, Kind, Name, Object, Reference};

/// Objects by name, and by whom they speak of.
#[derive(Debug, Default, PartialEq)]
pub struct Objects {
    all: BTreeMap<Identity, Object>,
    /// Whoever is spoken of, with each who does; `None` is before all of these.
    spoken_of: BTreeSet<(Identity, Option<Identity>)>,
}

impl Objects {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by name.
    pub fn iter(&self) -> btree_map::Iter<'_, Identity, Object> {
        self.all.iter()
    }

    /// The object of a name.
    pub fn get(&self, identity: &Identity) -> Option<&Object> {
        self.all.get(identity)
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
        let rest = self.all.range(first..);
        rest.take_while(move |(it, _)| it.kind == kind && it.tenant.as_ref() == tenant)
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
    pub fn insert(&mut self, identity: Identity, object: Object) {
        let (before, after) = (self.all.get(&identity), Some(&object));
        let (gone, come) = differing(before, after);
        self.speaks(&identity, gone, come);
        self.all.insert(identity, object);
    }

    /// Takes the object of a name away.
    pub fn remove(&mut self, identity: &Identity) {
        let (gone, come) = differing(self.all.get(identity), None);
        self.speaks(identity, gone, come);
        self.all.remove(identity);
    }

    fn speaks(&mut self, by: &Identity, gone: Vec<Identity>, come: Vec<Identity>) {
        for it in gone {
            self.spoken_of.remove(&(it, Some(by.clone())));
        }
        self.spoken_of.extend(come.into_iter().map(|it| (it, Some(by.clone()))));
    }
}

impl FromIterator<(Identity, Object)> for Objects {
    fn from_iter<T: IntoIterator<Item = (Identity, Object)>>(objects: T) -> Self {
        let mut all = Self::default();
        objects.into_iter().for_each(|(identity, object)| all.insert(identity, object));
        all
    }
}

/// Whom an object no longer speaks of, and of whom else it does now. A group of many ports that has
/// one more costs little more than to read it.
fn differing(before: Option<&Object>, after: Option<&Object>) -> (Vec<Identity>, Vec<Identity>) {
    let said = |it: Option<&Object>| it.map(logical::references).unwrap_or_default();
    let (mut before, after) = (said(before), said(after));
    let (start, end) = common(&before, &after);
    let gone = before.drain(start..before.len() - end);
    let come = after[start..after.len() - end].to_vec();
    let mut gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        let after: HashSet<_> = after.iter().collect();
        gone.retain(|it| !after.contains(it));
    }
    (gone, come)
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

//! All objects: what there is, and how it is changed.
//!
//! ```text
//! write ─conditions─▶ with all others ─resolve─▶ transaction ─store─▶ revision
//!           │                            │                    │
//!           └─ stale                     └─ faults            └─ as it was, or there as a whole
//! ```
//!
//! One write at a time is checked and committed. A write that stands is checked with the objects
//! near it ([`nearby`]); what is wrong with one that does not, all objects say.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use logical::objects::{Identity, Kind, Name, Object};
use logical::{Fault, LABELS, Source, is_labelled};
use serde::{Deserialize, Serialize};
use store::{CommitError, Condition, Entry, Key, Revision, Store, StoreError, Transaction};

use crate::cascade;
use crate::identity::{since_1970, uuid};
use crate::nearby;
use crate::numbering::{Numbering, UsedUp};
use crate::objects::Objects;
use crate::outcome::{Applied, AppliedChange, AppliedObject, Done};
use crate::place;
use crate::view;

/// How many revisions of history are kept.
const KEPT: u64 = 10_000;

/// How many more there may be before the oldest are forgotten.
const SLACK: u64 = 1_000;

/// How long the outcome of a write that has a key is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// How many of a writer are remembered, and in how many bytes.
const MOST_REMEMBERED: Tally = Tally { count: 10_000, bytes: 16 << 20 };

/// Where those outcomes are in the store.
const OUTCOMES: &str = "i/";

/// The most that is asked of the store at once.
const STEP: usize = 1_000;

/// The same, of outcomes: one has up to a megabyte or two.
const OUTCOMES_STEP: usize = 50;

/// What is said of what is where a label is to be.
const NO_LABEL: &str = "no label";

/// All objects.
#[derive(Debug)]
pub struct Catalog {
    store: Store,
    present: Mutex<Present>,
    untold: Mutex<Untold>,
}

/// Objects that revisions have put of which nobody was told yet: who computes takes them, so that
/// they are read once and kept once.
type Untold = BTreeMap<Identity, (Revision, Arc<Object>)>;

/// The objects of the newest revision that writes know of.
#[derive(Debug)]
struct Present {
    revision: Revision,
    objects: Objects,
    /// Where agents have ports that nobody has bound.
    found: BTreeMap<Identity, Name>,
    /// Who gives labels to those that come.
    numbering: Numbering,
    /// How much is remembered of each writer's writes that have keys.
    remembered: BTreeMap<String, Tally>,
}

/// How much is remembered of a writer's writes that have keys.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: usize,
    bytes: usize,
}

/// What is to be changed at once.
#[derive(Debug, Default)]
pub struct Write {
    /// Objects that are to be there.
    pub source: Source,
    /// Objects that are to be gone.
    pub deletes: Vec<Identity>,
    /// Whether all of the same owner goes with them that needs them.
    pub cascade: bool,
    /// What has to be so for anything to be changed.
    pub guards: Vec<(Identity, Guard)>,
    /// Whether nothing is changed, and only said what would be.
    pub is_dry: bool,
    /// A label and its value: objects that have it and are not in `source` are to be gone.
    pub prune: Option<(String, String)>,
    /// What makes this write the same as an earlier one.
    pub once: Option<Once>,
    /// The tenant that writes. `None`: the operator, who knows everything.
    pub tenant: Option<Tenancy>,
}

/// A tenant from its making to its end. Another of the same name is another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tenancy {
    /// Its name.
    pub name: Name,
    /// What no other has.
    pub uid: String,
    /// The revision from which on it has been there.
    pub since: Revision,
}

/// What has to be so of an object for a write to be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Guard {
    /// It is there, for there to be something that can be changed.
    Known,
    /// It is there.
    There,
    /// It is there, as one of these revisions wrote it.
    At(Vec<u64>),
    /// It is not there.
    Absent,
    /// It is not there, or the writer had to say which revision of it he knows.
    New,
}

/// What makes two writes the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Once {
    /// The writer, whose keys are not another's.
    pub writer: String,
    /// The writer's word for it.
    pub key: String,
    /// Of all that he asked for.
    pub digest: String,
}

/// What is remembered of a write that has a key.
#[derive(Serialize, Deserialize)]
struct Outcome {
    digest: String,
    /// Seconds since 1970.
    at: u64,
    applied: Applied,
}

/// Why a write changes nothing.
#[derive(Debug)]
pub enum Refused {
    /// There is no such object.
    Unknown(Identity),
    /// The object is not as the writer says. It is this now, if it is there.
    Stale(Identity, Option<Box<Object>>),
    /// The object is there, and the writer has not said which revision of it he knows.
    Unguarded(Identity),
    /// The objects cannot stand.
    Faults(Vec<Fault>),
    /// Others need what would be gone.
    Needed(Vec<Fault>),
    /// What would go with what is deleted goes on for too long.
    TooFar,
    /// It cannot stand beside what others have, which the writer does not know.
    InTheWay,
    /// The key was of another write.
    Reused,
    /// As many keys of the writer are remembered as can be.
    Full,
    /// As many objects were created that hosts send to as there can be.
    UsedUp(UsedUp),
    /// The writer is let in no more.
    Gone,
    /// The store does not take it.
    Store(CommitError),
}

impl From<UsedUp> for Refused {
    fn from(error: UsedUp) -> Self {
        Self::UsedUp(error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl From<CommitError> for Refused {
    fn from(error: CommitError) -> Self {
        Self::Store(error)
    }
}

/// Why the objects of a store cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something in it is no object.
    #[error("{key} in the store is no object ({why}): it was written by another version, run that")]
    NoObject {
        /// Where it is.
        key: Key,
        /// What it is instead.
        why: String,
    },
    /// Its objects have no labels yet, and cannot be given any.
    #[error("objects of an older version cannot be given the numbers by which hosts mean them")]
    Unlabelled(#[source] CommitError),
    /// The same.
    #[error(transparent)]
    UsedUp(#[from] UsedUp),
}

impl Catalog {
    /// The objects of a store. Those that an older version has kept are given labels.
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn open(store: Store) -> Result<Self, OpenError> {
        let mut present = Present::read(&store)?;
        if let Some(transaction) = present.label(&store)? {
            present.revision = store.commit(transaction).map_err(OpenError::Unlabelled)?;
        }
        Ok(Self { store, present: Mutex::new(present), untold: Mutex::default() })
    }

    /// Where they are kept, for those who read.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// All objects, and the revision that they are of.
    pub fn objects(&self) -> (Revision, BTreeMap<Identity, Arc<Object>>) {
        let present = self.lock();
        (present.revision, present.objects.shared().clone())
    }

    /// The same without their names, in the order of these: writes wait for less.
    pub fn all(&self) -> (Revision, Vec<Arc<Object>>) {
        let present = self.lock();
        (present.revision, present.objects.shared().values().map(Arc::clone).collect())
    }

    /// The numbers by which hosts mean objects, as of a revision.
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn labels(&self, at: Revision) -> Result<BTreeMap<Identity, u32>, OpenError> {
        let mut labels = BTreeMap::new();
        each(&self.store, place::LABELS, STEP, Some(at), |Entry { key, value, .. }| {
            if let Some((of, Some(label))) = read_label(&key, Some(&value))? {
                labels.insert(of, label);
            }
            Ok(())
        })?;
        Ok(labels)
    }

    /// The object of a name.
    pub fn object(&self, identity: &Identity) -> Option<Arc<Object>> {
        self.lock().objects.shared().get(identity).map(Arc::clone)
    }

    /// Where agents have ports that nobody has bound.
    pub fn found(&self) -> BTreeMap<Identity, Name> {
        self.lock().found.clone()
    }

    /// The node where an agent has a port that nobody has bound.
    pub fn found_at(&self, port: &Identity) -> Option<Name> {
        self.lock().found.get(port).cloned()
    }

    /// Keeps where agents have ports that nobody has bound.
    pub fn find(&self, found: BTreeMap<Identity, Option<Name>>) -> Result<(), CommitError> {
        let mut transaction = Transaction::new();
        for (port, node) in &found {
            let key = place::found_key(port);
            match node {
                Some(node) => transaction.put(key, node.as_str().into()),
                None => transaction.delete(key),
            }
        }
        let mut present = self.lock();
        self.commit(&mut present, transaction)?;
        for (port, node) in found {
            match node {
                Some(node) => drop(present.found.insert(port, node)),
                None => drop(present.found.remove(&port)),
            }
        }
        Ok(())
    }

    /// Which object a change of the store is of, and what it is since.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoObject`]
    pub fn edited(
        &self,
        change: &store::Change,
    ) -> Result<(Identity, Option<Arc<Object>>), OpenError> {
        let identity = place::identity(&change.key).filter(|_| change.entry.is_some());
        if let Some(identity) = identity
            && let btree_map::Entry::Occupied(it) = self.untold().entry(identity)
            && it.get().0 == change.revision
        {
            let (identity, (_, object)) = it.remove_entry();
            return Ok((identity, Some(object)));
        }
        let value = change.entry.as_ref().map(|it| &it.value[..]);
        let (identity, object) = read_change(&change.key, value)?;
        Ok((identity, object.map(Arc::new)))
    }

    /// Who computes has taken all up to a revision.
    pub fn was_told(&self, revision: Revision) {
        self.untold().retain(|_, (of, _)| *of > revision);
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant of a name, if there is one.
    pub fn tenancy(&self, name: &Name) -> Result<Option<Tenancy>, OpenError> {
        let Some(entry) = self.store.get(&place::key(&tenant(name)), None)? else {
            return Ok(None);
        };
        let (_, object) = read_change(&entry.key, Some(&entry.value))?;
        let uid = object.and_then(|it| it.metadata().uid.clone());
        Ok(uid.map(|uid| Tenancy { name: name.clone(), uid, since: entry.created }))
    }

    /// Does a write: all of it, or nothing. It is committed only if its writer is still let in, and
    /// still is who it was.
    pub fn write(
        &self,
        write: Write,
        now: SystemTime,
        is_admitted: impl Fn() -> bool,
    ) -> Result<Done, Refused> {
        let mut present = self.lock();
        // It may have waited for long: nothing is told to whom nothing is told any more.
        if !is_admitted() || write.tenant.as_ref().is_some_and(|it| !present.has(it)) {
            return Err(Refused::Gone);
        }
        if let Some(once) = &write.once
            && let Some(applied) = self.remembered(once)?
        {
            return Ok(Done { applied, is_repeated: true });
        }
        let next = Revision(present.revision.0 + 1);
        let Write { mut source, mut deletes, cascade, guards, is_dry, prune, once, tenant } = write;
        for (identity, guard) in guards {
            check(&present, identity, guard, tenant.is_some())?;
        }
        let named: BTreeSet<_> = source.objects.iter().map(Object::identity).collect();
        if let Some((label, value)) = &prune {
            let own = tenant.as_ref().map(|it| &it.name);
            let is_own = |it: &Object| own.is_none() || it.metadata().tenant.as_ref() == own;
            let alike = present.objects.with_label(label, value);
            let left = alike.filter(|(id, it)| is_own(it) && !named.contains(id));
            deletes.extend(left.map(|(identity, _)| identity.clone()));
            source.faults.extend(without_label(&source.objects, label, value));
        }
        let mut gone: BTreeSet<_> = deletes.into_iter().collect();
        if cascade && !cascade::spread(&present.objects, &mut gone) {
            return Err(Refused::TooFar);
        }
        let is_left = |id: &Identity| !named.contains(id) && !gone.contains(id);
        let others = || present.objects.iter().filter(|(id, _)| is_left(id));
        let only_deletes = source.objects.is_empty() && source.faults.is_empty();
        let refused = |faults| match only_deletes {
            true => Refused::Needed(faults),
            false => Refused::Faults(faults),
        };
        let said = tenant.as_ref().map(|tenant| {
            let mut said = source.clone();
            said.objects.iter_mut().for_each(view::hide);
            source.faults.extend(kept(&mut source.objects, &present.objects));
            said.faults.clone_from(&source.faults);
            (&tenant.name, said)
        });
        let is_read = source.faults.is_empty();
        let objects = if is_read && nearby::stands(&present.objects, &source.objects, &gone) {
            source.objects
        } else {
            let objects = source.objects.clone();
            let all = others().map(|(_, object)| object.clone()).collect();
            if let Err(faults) = source.resolve_beside(all) {
                // Whether it stands say all objects; why it does not, those that the tenant knows.
                let faults = match said {
                    Some((tenant, said)) => view::told(tenant, said, others()),
                    None => faults,
                };
                return Err(if faults.is_empty() { Refused::InTheWay } else { refused(faults) });
            }
            objects
        };

        let mut changes: BTreeMap<Identity, (AppliedChange, Option<Arc<Object>>)> = BTreeMap::new();
        for object in objects {
            let before = present.objects.get(&object.identity());
            let (change, object) = stamped(object, before, next, now);
            changes.insert(object.identity(), (change, Some(Arc::new(object))));
        }
        let known = gone.into_iter().filter(|it| present.objects.get(it).is_some());
        changes.extend(known.map(|it| (it, (AppliedChange::Deleted, None))));

        let mut transaction = Transaction::new().when(Condition::Unchanged(present.revision));
        let changed = || changes.iter().filter(|(_, (it, _))| *it != AppliedChange::Unchanged);
        let is_same = changed().next().is_none();
        let told = |(identity, (change, _)): (&Identity, &(AppliedChange, _))| AppliedObject {
            object: identity.to_string(),
            change: *change,
        };
        let revision = if is_dry || is_same { present.revision } else { next };
        let applied = Applied { revision: revision.0, objects: changes.iter().map(told).collect() };
        let done = |applied| Done { applied, is_repeated: false };
        if is_dry || (is_same && once.is_none()) {
            return Ok(done(applied));
        }
        let mut numbering = present.numbering.clone();
        for (identity, (change, object)) in changed() {
            match object {
                Some(object) => transaction.put(place::key(identity), json(&**object)),
                None => transaction.delete(place::key(identity)),
            }
            match change {
                _ if !is_labelled(identity.kind) => {}
                AppliedChange::Created => numbering.give(identity, &mut transaction)?,
                AppliedChange::Deleted => transaction.delete(place::label_key(identity)),
                _ => {}
            }
        }
        let mut remembered = None;
        if let Some(once) = once {
            let at = since_1970(now).as_secs();
            let outcome = Outcome { digest: once.digest.clone(), at, applied: applied.clone() };
            let outcome = json(&outcome);
            let tally = present.tally(&once.writer).with(outcome.len());
            if !tally.fits() {
                return Err(Refused::Full);
            }
            transaction.put(outcome_key(&once), outcome);
            remembered = Some((once.writer, tally));
        }
        if !is_admitted() {
            return Err(Refused::Gone);
        }
        // Who computes hears of the commit before it has ended here, and waits for what it has put.
        let mut untold = self.untold();
        self.commit(&mut present, transaction)?;
        // Only what is committed: another write may have this revision instead.
        let put = changed().filter_map(|(identity, (_, object))| {
            Some((identity.clone(), (next, Arc::clone(object.as_ref()?))))
        });
        untold.extend(put);
        drop(untold);
        present.numbering = numbering;
        present.remembered.extend(remembered);
        for (identity, (_, object)) in changes {
            match object {
                Some(object) => present.objects.insert(identity, object),
                None => present.objects.remove(&identity),
            }
        }
        Ok(done(applied))
    }

    /// Forgets history and outcomes that are too old.
    pub fn forget(&self, now: SystemTime) -> Result<(), CommitError> {
        let goal = Revision(self.store.revision().0.saturating_sub(KEPT));
        if self.store.oldest()?.0 + SLACK < goal.0 {
            self.store.compact(goal)?;
        }
        let since = since_1970(now).saturating_sub(REMEMBERED).as_secs();
        let is_old = |entry: &Entry| {
            let outcome: Result<Outcome, _> = serde_json::from_slice(&entry.value);
            outcome.is_ok_and(|it| it.at < since)
        };
        let mut after = None;
        loop {
            let mut page = self.store.list(OUTCOMES, after.as_ref(), OUTCOMES_STEP, None)?;
            after = page.entries.last().map(|it| it.key.clone());
            page.entries.retain(is_old);
            self.forget_outcomes(page.entries)?;
            if !page.has_more {
                return Ok(());
            }
        }
    }

    fn forget_outcomes(&self, old: Vec<Entry>) -> Result<(), CommitError> {
        if old.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new();
        for entry in &old {
            transaction.delete(entry.key.clone());
        }
        let mut present = self.lock();
        self.commit(&mut present, transaction)?;
        for entry in old {
            let writer = writer(&entry.key).to_owned();
            let tally = present.tally(&writer).without(entry.value.len());
            match tally.count {
                0 => drop(present.remembered.remove(&writer)),
                _ => drop(present.remembered.insert(writer, tally)),
            }
        }
        Ok(())
    }

    /// Commits what was made of the objects that are present.
    fn commit(&self, present: &mut Present, transaction: Transaction) -> Result<(), CommitError> {
        match self.store.commit(transaction) {
            Ok(revision) => {
                present.revision = revision;
                Ok(())
            }
            // Nothing is written.
            Err(error @ CommitError::TooLarge { .. }) => Err(error),
            Err(error) => {
                // It may have been committed nevertheless, or others are there.
                if let Ok(mut read) = Present::read(&self.store) {
                    read.objects.share(&present.objects);
                    *present = read;
                }
                Err(error)
            }
        }
    }

    /// What became of a write that was the same.
    fn remembered(&self, once: &Once) -> Result<Option<Applied>, Refused> {
        let Some(entry) = self.store.get(&outcome_key(once), None)? else { return Ok(None) };
        match serde_json::from_slice::<Outcome>(&entry.value) {
            Ok(outcome) if outcome.digest == once.digest => Ok(Some(outcome.applied)),
            _ => Err(Refused::Reused),
        }
    }

    /// Who panicked with the lock had not changed anything: that is done last.
    fn lock(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    fn read(store: &Store) -> Result<Self, OpenError> {
        let (revision, objects) = read_objects(store)?;
        let (found, remembered) = Default::default();
        let last = store.get(&place::last_label(), None)?;
        let numbering = Numbering::new(store.uid(), last.as_ref().map(|it| &it.value[..]));
        let no_label = || OpenError::NoObject { key: place::last_label(), why: NO_LABEL.into() };
        let numbering = numbering.ok_or_else(no_label)?;
        let mut present = Self { revision, objects, found, numbering, remembered };
        each(store, place::FOUND, STEP, None, |Entry { key, value, .. }| {
            if let Some((port, Some(node))) = read_found(&key, Some(&value))? {
                present.found.insert(port, node);
            }
            Ok(())
        })?;
        each(store, OUTCOMES, OUTCOMES_STEP, None, |entry| {
            let writer = writer(&entry.key).to_owned();
            let tally = present.tally(&writer).with(entry.value.len());
            present.remembered.insert(writer, tally);
            Ok(())
        })?;
        Ok(present)
    }

    /// What gives labels to those that have none, if there are such.
    fn label(&mut self, store: &Store) -> Result<Option<Transaction>, OpenError> {
        let all = self.objects.iter().map(|(identity, _)| identity);
        let mut without: BTreeSet<_> = all.filter(|it| is_labelled(it.kind)).collect();
        each(store, place::LABELS, STEP, None, |Entry { key, .. }| {
            if let Some(labelled) = place::labelled(&key) {
                without.remove(&labelled);
            }
            Ok(())
        })?;
        let mut transaction = Transaction::new();
        for identity in &without {
            self.numbering.give(identity, &mut transaction)?;
        }
        Ok((!without.is_empty()).then_some(transaction))
    }

    /// Whether a tenant is there, and not another of its name.
    fn has(&self, tenancy: &Tenancy) -> bool {
        is_still(self.objects.get(&tenant(&tenancy.name)), tenancy)
    }

    fn tally(&self, writer: &str) -> Tally {
        self.remembered.get(writer).copied().unwrap_or_default()
    }
}

impl Tally {
    fn with(self, bytes: usize) -> Self {
        Self { count: self.count + 1, bytes: self.bytes + bytes }
    }

    fn without(self, bytes: usize) -> Self {
        Self { count: self.count.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }

    fn fits(self) -> bool {
        self.count <= MOST_REMEMBERED.count && self.bytes <= MOST_REMEMBERED.bytes
    }
}

fn tenant(name: &Name) -> Identity {
    Identity { kind: Kind::Tenant, tenant: None, name: name.clone() }
}

/// Whether the tenant that was found by its name is the one that was there.
fn is_still(found: Option<&Object>, tenancy: &Tenancy) -> bool {
    found.is_some_and(|it| it.metadata().uid.as_ref() == Some(&tenancy.uid))
}

/// Whether a tenant is among objects, and not another of its name.
pub fn has(objects: &BTreeMap<Identity, Arc<Object>>, tenancy: &Tenancy) -> bool {
    is_still(objects.get(&tenant(&tenancy.name)).map(|it| &**it), tenancy)
}

/// All objects of a store, at its newest revision.
fn read_objects(store: &Store) -> Result<(Revision, Objects), OpenError> {
    let mut objects = Vec::new();
    let revision = each(store, place::ALL, STEP, None, |Entry { key, value, .. }| {
        if let (identity, Some(object)) = read_change(&key, Some(&value))? {
            objects.push((identity, Arc::new(object)));
        }
        Ok(())
    })?;
    Ok((revision, objects.into_iter().collect()))
}

/// Of which port a key of the store says where it was found, if of one, and the node.
pub fn read_found(
    key: &Key,
    value: Option<&[u8]>,
) -> Result<Option<(Identity, Option<Name>)>, OpenError> {
    let Some(port) = place::found(key) else { return Ok(None) };
    let node = |value| str::from_utf8(value).ok()?.parse::<Name>().ok();
    let no_node = || OpenError::NoObject { key: key.clone(), why: "no node's name".into() };
    let node = value.map(|value| node(value).ok_or_else(no_node)).transpose()?;
    Ok(Some((port, node)))
}

/// Whose label a key of the store is, if it is one, and the label.
pub fn read_label(
    key: &Key,
    value: Option<&[u8]>,
) -> Result<Option<(Identity, Option<u32>)>, OpenError> {
    let Some(of) = place::labelled(key) else { return Ok(None) };
    let label = |value| str::from_utf8(value).ok()?.parse().ok();
    let label = |value| label(value).filter(|it| LABELS.contains(it));
    let no_label = || OpenError::NoObject { key: key.clone(), why: NO_LABEL.into() };
    Ok(Some((of, value.map(|value| label(value).ok_or_else(no_label)).transpose()?)))
}

/// Which object a key of the store is, and what it is there.
fn read_change(key: &Key, value: Option<&[u8]>) -> Result<(Identity, Option<Object>), OpenError> {
    let no_object = |why| OpenError::NoObject { key: key.clone(), why };
    let identity = place::identity(key).ok_or_else(|| no_object("no such kind".into()))?;
    let object = value.map(|value| read(identity.kind, value)).transpose();
    Ok((identity, object.map_err(|error| no_object(error.to_string()))?))
}

/// Of an object as it is kept, what its tenant may see.
pub fn shown(key: &Key, value: &[u8]) -> Result<Option<Object>, OpenError> {
    let (_, mut object) = read_change(key, Some(value))?;
    object.iter_mut().for_each(view::hide);
    Ok(object)
}

/// Hands over everything with a prefix, now or at a revision: so many at once are in memory.
fn each(
    store: &Store,
    prefix: &str,
    step: usize,
    mut at: Option<Revision>,
    mut take: impl FnMut(Entry) -> Result<(), OpenError>,
) -> Result<Revision, OpenError> {
    let mut after = None;
    loop {
        let page = store.list(prefix, after.as_ref(), step, at)?;
        (after, at) = (page.entries.last().map(|it| it.key.clone()), Some(page.revision));
        page.entries.into_iter().try_for_each(&mut take)?;
        if !page.has_more {
            return Ok(page.revision);
        }
    }
}

/// Reads an object as it is kept.
fn read(kind: Kind, json: &[u8]) -> Result<Object, serde_json::Error> {
    let mut value: serde_json::Value = serde_json::from_slice(json)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
    }
    Object::read(kind, value)
}

fn check(
    present: &Present,
    identity: Identity,
    guard: Guard,
    is_tenants: bool,
) -> Result<(), Refused> {
    let found = present.objects.get(&identity);
    let revision = found.and_then(|it| it.metadata().revision);
    let holds = match guard {
        Guard::Known if found.is_none() => return Err(Refused::Unknown(identity)),
        Guard::New if found.is_some() => return Err(Refused::Unguarded(identity)),
        Guard::Known | Guard::New => true,
        Guard::There => found.is_some(),
        Guard::At(revisions) => revision.is_some_and(|it| revisions.contains(&it)),
        Guard::Absent => found.is_none(),
    };
    if holds {
        return Ok(());
    }
    let mut current = found.cloned();
    if is_tenants {
        current.iter_mut().for_each(view::hide);
    }
    Err(Refused::Stale(identity, current.map(Box::new)))
}

/// Has a tenant's objects keep what the operator has said of them, and tells what is not the
/// tenant's to say.
fn kept(objects: &mut [Object], present: &Objects) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, object) in objects.iter_mut().enumerate() {
        let identity = object.identity();
        for (path, message) in view::keep(object, present.get(&identity)) {
            faults.push(Fault {
                index: Some(index),
                object: identity.to_string(),
                path: path.into(),
                message: message.into(),
                position: None,
            });
        }
    }
    faults
}

/// Objects that the next write of the same set would not find again.
fn without_label(objects: &[Object], label: &str, value: &str) -> Vec<Fault> {
    let without = objects
        .iter()
        .enumerate()
        .filter(|(_, it)| it.metadata().labels.get(label).is_none_or(|it| it != value));
    let fault = |(index, object): (usize, &Object)| Fault {
        index: Some(index),
        object: object.identity().to_string(),
        path: "/metadata/labels".into(),
        message: format!("objects that are pruned by a label have it: write `{label}: {value}`"),
        position: None,
    };
    without.map(fault).collect()
}

/// An object with what the controller writes of it.
fn stamped(
    mut object: Object,
    before: Option<&Object>,
    revision: Revision,
    now: SystemTime,
) -> (AppliedChange, Object) {
    let metadata = object.metadata_mut();
    let Some(before) = before else {
        metadata.uid = Some(uuid(now));
        metadata.created_at = Some(figures::utc(since_1970(now).as_secs()));
        metadata.generation = Some(1);
        metadata.revision = Some(revision.0);
        return (AppliedChange::Created, object);
    };
    let was = before.metadata();
    metadata.uid.clone_from(&was.uid);
    metadata.created_at.clone_from(&was.created_at);
    (metadata.generation, metadata.revision) = (was.generation, was.revision);
    if object == *before {
        return (AppliedChange::Unchanged, object);
    }
    let is_declared_so = object.declares_as(before);
    let metadata = object.metadata_mut();
    metadata.revision = Some(revision.0);
    if !is_declared_so {
        metadata.generation = was.generation.map(|it| it + 1);
    }
    (AppliedChange::Updated, object)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("objects and outcomes have text as keys")
}

fn outcome_key(once: &Once) -> Key {
    Key::new(format!("{OUTCOMES}{}/{}", once.writer, once.key))
        .expect("routes bound it to a digest and 128 printable characters")
}

/// Whose write an outcome is of.
fn writer(outcome: &Key) -> &str {
    let words = outcome.as_str().strip_prefix(OUTCOMES).unwrap_or_default();
    words.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;

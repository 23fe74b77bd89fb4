//! Revisions, conditions and history, over a home.
//!
//! A transaction becomes one revision: each key's new version, a list of what was changed, and last
//! the number of the revision, which makes all of it visible. What fits into one batch is written
//! at once. Else the versions go ahead in batches of their own: they have a revision that is not
//! there yet, so nobody reads them. If their transaction is not completed they are swept away
//! before the next one, or when the store is opened.
//!
//! Every batch expects the fence that this store has taken. Who opens a home, and who cannot know
//! what became of a batch of its own, takes the next fence: older batches that are still under way
//! then do nothing.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::home::{Batch, Home, HomeError, Limits, View, Written};
use crate::key::{Key, Revision};
use crate::layout::{self, Version};
use crate::transaction::{Condition, Conflict, Transaction};

/// How many keys are asked of a home at a time.
const STEP: usize = 256;

/// The most bytes of values in an answer that is not the first value alone.
const ANSWER_BYTES: usize = 8 << 20;

/// How many changes are looked through for those with a prefix before an answer is given.
const LOOKED_THROUGH: usize = 4_096;

/// Values by key, with revisions and history.
#[derive(Debug)]
pub struct Store {
    home: Box<dyn Home>,
    uid: String,
    writer: Mutex<Writer>,
    revision: watch::Sender<Revision>,
}

/// What only one commit at a time may use.
#[derive(Debug)]
struct Writer {
    fence: u64,
    /// Whether an earlier batch may have been written of which nothing is known, or that nobody may
    /// see.
    is_unsure: bool,
}

/// A key with its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision from which on the key has been there.
    pub created: Revision,
    /// The revision that gave it this value.
    pub modified: Revision,
}

/// Some entries, in the order of their keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// The revision that they are of.
    pub revision: Revision,
    /// They.
    pub entries: Vec<Entry>,
    /// Whether there are more behind the last.
    pub has_more: bool,
}

/// How far somebody has read changes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Cursor {
    revision: Revision,
    place: u32,
}

impl Cursor {
    /// Behind all changes of a revision.
    pub const fn behind(revision: Revision) -> Self {
        Self { revision, place: u32::MAX }
    }
}

/// A change of one key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The revision that made it.
    pub revision: Revision,
    /// The key.
    pub key: Key,
    /// What it has been since. `None`: it was removed.
    pub entry: Option<Entry>,
}

/// Some changes, in their order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changes {
    /// They.
    pub changes: Vec<Change>,
    /// Behind the last that was looked at.
    pub next: Cursor,
    /// The revision up to which these are all, if they are.
    pub complete: Option<Revision>,
}

/// Why a store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The home fails.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// That revision's history is gone.
    #[error("revision {asked} is compacted, the oldest is {oldest}: read what is there now")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// The oldest that can be asked for.
        oldest: Revision,
    },
    /// There has been no such revision.
    #[error("there is no revision {asked} yet, the newest is {newest}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest.
        newest: Revision,
    },
    /// Another version of this program wrote it.
    #[error("the store has format {0:?}, and this program knows format 1: run one that wrote it")]
    Format(String),
    /// What the home returns was never written there.
    #[error(
        "the store is damaged ({0}): put a backup in its place, then run `zovn controller restored`"
    )]
    Damaged(&'static str),
    /// Another process has opened the home since.
    #[error("another process writes this store: end one of the two")]
    Fenced,
}

/// Why a transaction is not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A condition does not hold. Nothing is written.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A value is larger than its home takes. Nothing is written.
    #[error("the value of {key} has {bytes} bytes, more than the {most} that a value may have")]
    TooLarge {
        /// The key.
        key: Key,
        /// How large its value is.
        bytes: usize,
        /// How large one may be.
        most: usize,
    },
    /// The store cannot be read or written. After [`StoreError::Home`] the transaction may be there
    /// as a whole, or not at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Opens the store in a home, or makes one there. From now on no earlier store can write there.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: the home fails, or holds something else.
    pub fn open(home: Box<dyn Home>) -> Result<Self, StoreError> {
        let fresh = {
            let view = home.read()?;
            match view.get(layout::FORMAT)? {
                None => true,
                Some(format) if format == layout::THIS_FORMAT => false,
                Some(format) => {
                    return Err(StoreError::Format(String::from_utf8_lossy(&format).into_owned()));
                }
            }
        };
        if fresh {
            let writes = vec![
                (layout::FORMAT.to_vec(), Some(layout::THIS_FORMAT.to_vec())),
                (layout::UID.to_vec(), Some(random_uid().into_bytes())),
            ];
            // If another was faster, its is as good.
            let _ = home.write(&Batch { expect: vec![(layout::FORMAT.to_vec(), None)], writes })?;
        }
        let view = home.read()?;
        let uid = view.get(layout::UID)?.and_then(|uid| String::from_utf8(uid).ok());
        let uid = uid.ok_or(StoreError::Damaged("it has no uid"))?;
        let fence = number(&*view, layout::FENCE)?;
        let revision = Revision(number(&*view, layout::REVISION)?);
        drop(view);
        let mut writer = Writer { fence, is_unsure: true };
        take_over(&*home, &mut writer)?;
        Ok(Self { home, uid, writer: Mutex::new(writer), revision: watch::Sender::new(revision) })
    }

    /// Which store this is: another has another uid, also one with the same content.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Gives this store another uid: its revisions are not those of the store that it was copied
    /// from. What it holds stays.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. After [`StoreError::Home`] it has one of both uids: open it again.
    pub fn renew(self) -> Result<Self, StoreError> {
        let uid = random_uid();
        let writes = vec![(layout::UID.to_vec(), Some(uid.clone().into_bytes()))];
        write(&*self.home, self.fence(), Batch { expect: Vec::new(), writes })?;
        Ok(Self { uid, ..self })
    }

    /// Who of those that have opened this store this is: whoever opens it later has a greater one.
    pub fn fence(&self) -> u64 {
        self.lock().fence
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Tells of each new revision.
    pub fn subscribe(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    /// The oldest revision that can be asked for.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn oldest(&self) -> Result<Revision, StoreError> {
        Ok(Revision(number(&*self.home.read()?, layout::COMPACTED)?))
    }

    /// What a key is, now or at a revision.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn get(&self, key: &Key, at: Option<Revision>) -> Result<Option<Entry>, StoreError> {
        let view = self.home.read()?;
        let at = readable(&*view, at)?;
        Ok(newest(&*view, key, at)?.and_then(|(modified, version)| entry(key, modified, version)))
    }

    /// The entries whose keys begin with `prefix`, behind `after`, now or at a revision: at most
    /// `limit`, or some megabytes.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&Key>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, StoreError> {
        let view = self.home.read()?;
        let revision = readable(&*view, at)?;
        let mut page = Page { revision, entries: Vec::new(), has_more: false };
        let mut bytes = 0;
        let end = layout::versions_end(prefix);
        let mut from =
            layout::versions_from(prefix).max(after.map_or_else(Vec::new, layout::versions_after));
        // The last key's newest version so far: a later one may follow.
        let mut last: Option<Entry> = None;
        loop {
            let pairs = if from < end { view.range(&from..&end, STEP)? } else { Vec::new() };
            for (at, version) in &pairs {
                let (key, modified) =
                    layout::version_of(at).ok_or(StoreError::Damaged("a version has no key"))?;
                if last.as_ref().is_some_and(|last| last.key != key)
                    && let Some(done) = last.take()
                {
                    bytes += done.value.len();
                    if !page.take(done, limit, bytes) {
                        return Ok(page);
                    }
                }
                if modified <= revision {
                    last = entry(&key, modified, decoded(version)?);
                }
            }
            let Some((at, _)) = pairs.last().filter(|_| pairs.len() == STEP) else { break };
            from = [at, [0].as_slice()].concat();
        }
        if let Some(done) = last {
            bytes += done.value.len();
            page.take(done, limit, bytes);
        }
        Ok(page)
    }

    /// The changes behind a cursor of keys that begin with `prefix`: at most `limit`, or some
    /// megabytes.
    ///
    /// A reader that was away for too long is told by [`StoreError::Compacted`] to begin anew.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn changes(
        &self,
        behind: Cursor,
        prefix: &str,
        limit: usize,
    ) -> Result<Changes, StoreError> {
        let view = self.home.read()?;
        readable(&*view, Some(behind.revision))?;
        let newest = Revision(number(&*view, layout::REVISION)?);
        let end = layout::change(newest.next(), 0);
        let mut told = Changes { changes: Vec::new(), next: behind, complete: None };
        let (mut bytes, mut looked_through) = (0, 0);
        loop {
            let from =
                [&layout::change(told.next.revision, told.next.place), [0].as_slice()].concat();
            let pairs = if from < end { view.range(&from..&end, STEP)? } else { Vec::new() };
            for pair in &pairs {
                let (revision, place, key) =
                    layout::change_of(pair).ok_or(StoreError::Damaged("a change has no key"))?;
                if told.changes.len() >= limit || bytes >= ANSWER_BYTES {
                    return Ok(told);
                }
                if key.as_str().starts_with(prefix) {
                    let version = view.get(&layout::version(&key, revision))?;
                    let version = version.ok_or(StoreError::Damaged("a change has no version"))?;
                    let entry = entry(&key, revision, decoded(&version)?);
                    bytes += entry.as_ref().map_or(0, |entry| entry.value.len());
                    told.changes.push(Change { revision, key, entry });
                }
                told.next = Cursor { revision, place };
            }
            looked_through += pairs.len();
            if pairs.len() < STEP {
                told.next = Cursor::behind(newest);
                told.complete = Some(newest);
                return Ok(told);
            }
            if looked_through >= LOOKED_THROUGH {
                return Ok(told);
            }
        }
    }

    /// Commits a transaction: returns the revision from which on it is there. If it changes
    /// nothing, that is the newest one.
    ///
    /// # Errors
    ///
    /// [`CommitError`]
    pub fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let mut writer = self.lock();
        let writer = &mut *writer;
        if writer.is_unsure {
            take_over(&*self.home, writer)?;
        }
        let view = self.home.read().map_err(StoreError::from)?;
        let revision = Revision(number(&*view, layout::REVISION)?);
        // It may be from a commit whose end we have not seen.
        self.tell(revision);
        for condition in transaction.conditions {
            check(&*view, revision, condition)?;
        }
        let next = revision.next();
        let changes = versions(&*view, next, transaction.writes)?;
        drop(view);
        if changes.is_empty() {
            return Ok(revision);
        }
        let batches = batches(self.home.limits(), revision, changes)?;
        // Not known to be there, and not to be seen by the next one, until all is written.
        writer.is_unsure = true;
        for batch in batches {
            write(&*self.home, writer.fence, batch)?;
        }
        writer.is_unsure = false;
        self.tell(next);
        Ok(next)
    }

    /// Forgets the history before a revision, of which nobody can ask any more.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn compact(&self, before: Revision) -> Result<(), StoreError> {
        let before = {
            let writer = self.lock();
            let view = self.home.read()?;
            let newest = Revision(number(&*view, layout::REVISION)?);
            let oldest = Revision(number(&*view, layout::COMPACTED)?);
            let before = before.min(newest).max(oldest);
            let writes = vec![(layout::COMPACTED.to_vec(), Some(layout::number(before.0)))];
            write(&*self.home, writer.fence, Batch { expect: Vec::new(), writes })?;
            before
        };
        // Commits go on in between.
        while self.compact_some(before)? {}
        Ok(())
    }

    /// Forgets some of what is before a revision. Whether there is more.
    fn compact_some(&self, before: Revision) -> Result<bool, StoreError> {
        let writer = self.lock();
        let most = self.home.limits().writes;
        let view = self.home.read()?;
        let (from, end) = (layout::change(Revision(0), 0), layout::change(before.next(), 0));
        let pairs = view.range(&from..&end, STEP)?;
        let mut gone = BTreeSet::new();
        for pair in &pairs {
            let (revision, _, key) =
                layout::change_of(pair).ok_or(StoreError::Damaged("a change has no key"))?;
            // What this change took the place of; and a removal takes the place of itself.
            let own = layout::version(&key, revision);
            let older = view.range(&layout::version(&key, Revision(0))..&own, STEP)?;
            let mut with = BTreeSet::from([pair.0.clone()]);
            with.extend(older.into_iter().map(|(at, _)| at));
            if view.get(&own)?.is_some_and(|it| Version::decode(&it) == Some(Version::Removed)) {
                with.insert(own);
            }
            if !gone.is_empty() && gone.len() + with.len() > most {
                break;
            }
            gone.extend(with);
        }
        drop(view);
        let is_done = gone.is_empty();
        remove(&*self.home, writer.fence, gone)?;
        Ok(!is_done)
    }

    /// Somebody who panicked with the lock has left nothing half done that is not swept away.
    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, revision: Revision) {
        self.revision.send_if_modified(|known| std::mem::replace(known, revision) != revision);
    }
}

impl Page {
    /// Takes one more entry, unless the page is full.
    fn take(&mut self, entry: Entry, limit: usize, bytes: usize) -> bool {
        let is_full =
            self.entries.len() >= limit || (!self.entries.is_empty() && bytes > ANSWER_BYTES);
        self.has_more = is_full;
        if !is_full {
            self.entries.push(entry);
        }
        !is_full
    }
}

/// Takes the next fence, and removes what a transaction has left that was not completed.
fn take_over(home: &dyn Home, writer: &mut Writer) -> Result<(), StoreError> {
    let next = writer.fence + 1;
    let found = home.read()?.get(layout::FENCE)?;
    let known = found.as_deref().map_or(Some(0), layout::number_of);
    if known != Some(writer.fence) {
        return Err(StoreError::Fenced);
    }
    let writes = vec![(layout::FENCE.to_vec(), Some(layout::number(next)))];
    let batch = Batch { expect: vec![(layout::FENCE.to_vec(), found)], writes };
    if home.write(&batch)? == Written::Unexpected {
        return Err(StoreError::Fenced);
    }
    writer.fence = next;
    loop {
        let view = home.read()?;
        let revision = Revision(number(&*view, layout::REVISION)?);
        let (from, end) =
            (layout::change(revision.next(), 0), layout::change(Revision(u64::MAX), 0));
        let pairs = view.range(&from..&end, (home.limits().writes / 2).clamp(1, STEP))?;
        let mut gone = BTreeSet::new();
        for pair in &pairs {
            let (revision, _, key) =
                layout::change_of(pair).ok_or(StoreError::Damaged("a change has no key"))?;
            gone.extend([pair.0.clone(), layout::version(&key, revision)]);
        }
        drop(view);
        if gone.is_empty() {
            writer.is_unsure = false;
            return Ok(());
        }
        remove(home, writer.fence, gone)?;
    }
}

fn remove(home: &dyn Home, fence: u64, keys: BTreeSet<Vec<u8>>) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    let writes = keys.into_iter().map(|key| (key, None)).collect();
    write(home, fence, Batch { expect: Vec::new(), writes })
}

/// Writes a batch, unless another has opened the home since.
fn write(home: &dyn Home, fence: u64, mut batch: Batch) -> Result<(), StoreError> {
    batch.expect.push((layout::FENCE.to_vec(), Some(layout::number(fence))));
    match home.write(&batch)? {
        Written::Done => Ok(()),
        Written::Unexpected => Err(StoreError::Fenced),
    }
}

/// The revision to read at, if its history is there.
fn readable(view: &dyn View, at: Option<Revision>) -> Result<Revision, StoreError> {
    let newest = Revision(number(view, layout::REVISION)?);
    let asked = at.unwrap_or(newest);
    let oldest = Revision(number(view, layout::COMPACTED)?);
    if asked < oldest {
        return Err(StoreError::Compacted { asked, oldest });
    }
    if asked > newest {
        return Err(StoreError::Future { asked, newest });
    }
    Ok(asked)
}

/// What a key was made last, up to a revision.
fn newest(
    view: &dyn View,
    key: &Key,
    at: Revision,
) -> Result<Option<(Revision, Version)>, StoreError> {
    let (from, end) = (layout::version(key, Revision(0)), layout::version(key, at.next()));
    let Some((at, version)) = view.last(&from..&end)? else { return Ok(None) };
    let (_, revision) =
        layout::version_of(&at).ok_or(StoreError::Damaged("a version has no key"))?;
    Ok(Some((revision, decoded(&version)?)))
}

fn entry(key: &Key, modified: Revision, version: Version) -> Option<Entry> {
    match version {
        Version::Removed => None,
        Version::Value { created, value } => {
            Some(Entry { key: key.clone(), value, created, modified })
        }
    }
}

fn decoded(version: &[u8]) -> Result<Version, StoreError> {
    Version::decode(version).ok_or(StoreError::Damaged("a version cannot be read"))
}

/// A number that is 0 if nobody wrote it.
fn number(view: &dyn View, key: &[u8]) -> Result<u64, StoreError> {
    let Some(bytes) = view.get(key)? else { return Ok(0) };
    layout::number_of(&bytes).ok_or(StoreError::Damaged("a number cannot be read"))
}

fn check(view: &dyn View, revision: Revision, condition: Condition) -> Result<(), CommitError> {
    let written = |key| -> Result<_, StoreError> {
        let newest = newest(view, key, revision)?;
        Ok(newest.filter(|(_, version)| *version != Version::Removed).map(|(at, _)| at))
    };
    let (found, wanted) = match &condition {
        Condition::Unchanged(since) => (Some(revision), Some(*since)),
        Condition::Absent(key) => (written(key)?, None),
        Condition::Written(key, at) => (written(key)?, Some(*at)),
    };
    if found == wanted { Ok(()) } else { Err(Conflict { condition, found }.into()) }
}

/// What each key is made. What is absent and removed once more is not changed.
fn versions(
    view: &dyn View,
    revision: Revision,
    writes: impl IntoIterator<Item = (Key, Option<Vec<u8>>)>,
) -> Result<Vec<(Key, Version)>, StoreError> {
    let mut versions = Vec::new();
    for (key, value) in writes {
        let created = match newest(view, &key, revision)? {
            Some((_, Version::Value { created, .. })) => Some(created),
            _ => None,
        };
        match value {
            Some(value) => {
                let created = created.unwrap_or(revision);
                versions.push((key, Version::Value { created, value }));
            }
            None if created.is_some() => versions.push((key, Version::Removed)),
            None => {}
        }
    }
    Ok(versions)
}

/// The batches of a transaction. The last makes all of them visible.
fn batches(
    limits: Limits,
    revision: Revision,
    changes: Vec<(Key, Version)>,
) -> Result<Vec<Batch>, CommitError> {
    let next = revision.next();
    let last = (layout::REVISION.to_vec(), Some(layout::number(next.0)));
    // As much as every batch has room for beside that.
    let most = Limits { writes: limits.writes - 1, bytes: limits.bytes - size(&last) };
    let mut batches = vec![Batch::default()];
    let mut bytes = 0;
    for (place, (key, version)) in (0..).zip(changes) {
        // A version and its change are in one batch, so that whoever sweeps finds both or none.
        let change = (layout::change(next, place), Some(key.as_str().as_bytes().to_vec()));
        let version = (layout::version(&key, next), Some(version.encode()));
        let more = size(&change) + size(&version);
        if more > most.bytes {
            return Err(CommitError::TooLarge { key, bytes: more, most: most.bytes });
        }
        let batch = batches.last().expect("there is one from the beginning");
        if batch.writes.len() + 2 > most.writes || bytes + more > most.bytes {
            batches.push(Batch::default());
            bytes = 0;
        }
        bytes += more;
        let batch = batches.last_mut().expect("there is one from the beginning");
        batch.writes.extend([change, version]);
    }
    let batch = batches.last_mut().expect("there is one from the beginning");
    let known = (revision.0 > 0).then(|| layout::number(revision.0));
    batch.expect.push((layout::REVISION.to_vec(), known));
    batch.writes.push(last);
    Ok(batches)
}

fn size((key, value): &(Vec<u8>, Option<Vec<u8>>)) -> usize {
    key.len() + value.as_ref().map_or(0, Vec::len)
}

/// 128 random bits as 32 digits.
fn random_uid() -> String {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    // The kernel interrupts no request of up to 256 bytes, once it has any randomness.
    assert_eq!(got, Ok(bytes.len()), "the kernel gives no random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

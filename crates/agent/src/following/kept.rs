//! What a controller has said, kept for the next agent: it executes that before any controller
//! answers.
//!
//! Each domain is a file of its own in a folder, of records:
//!
//! ```text
//! line of JSON │ all rows │ line of JSON │ changes │ line of JSON │ changes
//! ```
//!
//! Changes are as they come from the controller, and are appended until they are as much as the
//! rows; then all rows are written anew, aside, and renamed. A record is read only if it is whole,
//! and all rows up to it come to the digest that its line has: what is behind one that does not was
//! being written when the host lost its power. Beside the domains' files is one that has the number
//! of the last session. A thread of its own writes all of these: nobody waits for a disk.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use model::Generation;
use replica::{Delta, Digest, Fence, Map, Name, Store};
use serde::{Deserialize, Serialize};

use super::rows::{Followed, Rows};

/// The end of the files' names.
const END: &str = ".domain";

/// The file that has the number of the last session.
const LAST: &str = "session";

/// The line of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    /// Of this file's form.
    version: u32,
    /// Whose copy it is.
    node: String,
    store: String,
    fence: u64,
    domain: String,
    generation: Generation,
    /// Of all rows.
    digest: String,
    /// How many bytes are behind the line.
    bytes: usize,
}

/// What makes a generation of the one that was kept before.
#[derive(Debug)]
struct Record {
    head: Head,
    changes: Vec<u8>,
}

/// What each file is to have, with its line as a controller would write it. One generation of each,
/// however many wait for the disk.
type Newest = Arc<Mutex<BTreeMap<PathBuf, (Head, Followed)>>>;

/// What this agent has written of a file.
#[derive(Debug)]
struct Written {
    /// Its last line.
    last: Head,
    /// How many bytes may be added before all rows are written anew: as many as these took.
    room: usize,
}

/// The version of files that this agent writes and reads.
const VERSION: u32 = 2;

/// What was kept.
#[derive(Debug, Default)]
pub struct Found {
    /// Whose generations they are; `None`: nothing is there.
    pub whose: Option<(Store, Fence)>,
    /// The rows as bytes; generation 0: of another store than the newest.
    pub copies: Vec<(Name, Generation, Map)>,
    pub rows: Rows,
    /// When the newest of them was written.
    pub newest: Option<SystemTime>,
}

/// Keeps domains in a folder.
#[derive(Debug)]
pub struct Keeper {
    folder: PathBuf,
    node: String,
    newest: Newest,
    jobs: Sender<Job>,
    /// The number of the last session; 0: none is known.
    last: u64,
}

/// What its thread is to do.
#[derive(Debug)]
enum Job {
    /// A file's domain has another generation.
    Keep(PathBuf, Record),
    /// A file is to be gone.
    Forget(PathBuf),
    /// A session has this number.
    Number(PathBuf, u64),
    /// Somebody waits for what was to be done before.
    Settle(Sender<Infallible>),
}

impl Keeper {
    /// In a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or the thread.
    pub fn new(folder: &Path, node: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (jobs, inbox) = channel();
        let newest = Newest::default();
        let to_write = Arc::clone(&newest);
        let thread = thread::Builder::new().name("zovn-keeper".into());
        thread.spawn(move || keep(&inbox, &to_write))?;
        let last = fs::read_to_string(folder.join(LAST)).ok();
        let last = last.and_then(|it| it.trim().parse().ok()).unwrap_or_default();
        Ok(Self { folder: folder.into(), node: node.into(), newest, jobs, last })
    }

    /// The number of a session that begins now, by the host's clock: greater than that of any
    /// before, also if the clock was set back.
    pub fn number(&mut self, clock: u64) -> u64 {
        self.last = clock.max(self.last.saturating_add(1));
        let _ = self.jobs.send(Job::Number(self.folder.join(LAST), self.last));
        self.last
    }

    /// What the agent before has left.
    pub fn found(&self) -> Found {
        let (mut all, mut newest_at) = (Vec::new(), None);
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            if !path.to_str().is_some_and(|it| it.ends_with(END)) {
                continue;
            }
            match read(&path, &self.node) {
                Ok(read) => {
                    let written = file.metadata().and_then(|it| it.modified());
                    newest_at = newest_at.max(written.ok());
                    all.push(read);
                }
                Err(why) => {
                    tracing::error!(path = %path.display(), why, "a domain is not executed before a controller answers");
                }
            }
        }
        // Files of a store that was followed before may not have been written anew.
        let newest = all.iter().max_by_key(|(head, ..)| (head.fence, head.generation));
        let Some(whose) = newest.and_then(|(head, ..)| head.whose()) else {
            return Found::default();
        };
        let mut found = Found { whose: Some(whose), newest: newest_at, ..Found::default() };
        for (head, map, delta) in all {
            let name = Name::from(head.domain.as_str());
            let is_its = head.whose().is_some_and(|(store, _)| store == whose.0);
            let generation = if is_its { head.generation } else { Generation(0) };
            match found.rows.with(&name, head.generation, &delta, &Default::default()) {
                Ok(rows) => found.rows = rows,
                Err(why) => {
                    tracing::error!(domain = %name, why, "a domain is not executed before a controller answers");
                    continue;
                }
            }
            found.copies.push((name, generation, map));
        }
        found
    }

    /// Keeps a domain as it is now, soon: what it was before, but for these changes. `digest`: of
    /// all rows.
    pub fn keep(
        &self,
        (store, fence): (Store, Fence),
        name: &Name,
        domain: &Followed,
        (changes, digest): (&Delta, Digest),
    ) {
        let changes = changes.encode();
        let head = Head {
            version: VERSION,
            node: self.node.clone(),
            store: format!("{:032x}", store.0),
            fence: fence.0,
            domain: name.to_string(),
            generation: domain.generation,
            digest: digest.to_string(),
            bytes: changes.len(),
        };
        let path = self.path(name);
        lock(&self.newest).insert(path.clone(), (head.clone(), domain.clone()));
        let _ = self.jobs.send(Job::Keep(path, Record { head, changes }));
    }

    /// Keeps a domain no more.
    pub fn forget(&self, name: &Name) {
        let path = self.path(name);
        lock(&self.newest).remove(&path);
        let _ = self.jobs.send(Job::Forget(path));
    }

    /// Returns when the files are what they are to be.
    pub fn settle(&self) {
        let (done, settled) = channel();
        let _ = self.jobs.send(Job::Settle(done));
        let _ = settled.recv();
    }

    fn path(&self, name: &Name) -> PathBuf {
        // Names have letters, digits and dashes.
        self.folder.join(name.replace('/', ",") + END)
    }
}

impl Head {
    /// Puts a record behind others.
    fn put(&self, body: &[u8], records: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *records, self)?;
        records.push(b'\n');
        records.extend_from_slice(body);
        Ok(())
    }

    fn whose(&self) -> Option<(Store, Fence)> {
        Some((Store(u128::from_str_radix(&self.store, 16).ok()?), Fence(self.fence)))
    }
}

fn lock(newest: &Newest) -> MutexGuard<'_, BTreeMap<PathBuf, (Head, Followed)>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes what is to be kept.
fn keep(inbox: &Receiver<Job>, newest: &Newest) {
    let mut written: BTreeMap<PathBuf, Written> = BTreeMap::new();
    while let Ok(first) = inbox.recv() {
        let (mut files, mut waiting) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for job in [first].into_iter().chain(inbox.try_iter()) {
            match job {
                Job::Keep(path, record) => files.entry(path).or_default().push(record),
                Job::Forget(path) => {
                    written.remove(&path);
                    files.insert(path, Vec::new());
                }
                Job::Number(path, number) => {
                    if let Err(error) = replace(&path, number.to_string().as_bytes()) {
                        tracing::warn!(path = %path.display(), %error, "if the clock is set back, the next agent may have to wait for its controller");
                    }
                }
                Job::Settle(done) => waiting.push(done),
            }
        }
        for (path, records) in files {
            let added = add(&path, &records, written.remove(&path));
            // It may be newer than these records, or to be gone by now.
            let domain = lock(newest).get(&path).cloned();
            let done = match (added, domain) {
                (Some(added), Some(_)) => Ok(Some(added)),
                (None, Some((head, domain))) => write(&path, &head, &domain).map(Some),
                (_, None) => match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(None),
                },
            };
            match done {
                Ok(now) => written.extend(now.map(|now| (path, now))),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "the next agent will not know of this domain");
                }
            }
        }
        drop(waiting);
    }
}

/// Adds records to a file. `None`: all rows are to be written anew.
fn add(path: &Path, records: &[Record], before: Option<Written>) -> Option<Written> {
    let Written { mut last, room } = before?;
    let mut bytes = Vec::new();
    for Record { head, changes } in records {
        if head.store != last.store {
            return None;
        }
        // All rows were written of a generation that is as new.
        let is_there = head.generation == last.generation && head.digest == last.digest;
        if head.generation < last.generation || is_there {
            continue;
        }
        head.put(changes, &mut bytes).ok()?;
        last = head.clone();
    }
    let room = room.checked_sub(bytes.len())?;
    let mut file = File::options().append(true).open(path).ok()?;
    file.write_all(&bytes).and_then(|()| file.sync_data()).ok()?;
    Some(Written { last, room })
}

/// Writes a file anew.
fn write(path: &Path, head: &Head, domain: &Followed) -> io::Result<Written> {
    let delta = domain.encode();
    let body = delta.encode();
    let mut rows = Map::default();
    rows.apply(delta);
    let digest = rows.digest().to_string();
    // A controller of another version may write the same rows otherwise. Its changes' digests are
    // of its own, so nobody could read what was added to these.
    let is_as_told = digest == head.digest;
    let mut bytes = Vec::new();
    let last = Head { digest, bytes: body.len(), ..head.clone() };
    last.put(&body, &mut bytes)?;
    replace(path, &bytes)?;
    Ok(Written { last, room: if is_as_told { bytes.len() } else { 0 } })
}

/// Writes a file aside, then has it take the place of what is there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("new");
    let mut file = File::create(&aside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(aside, path)?;
    // Else the name may be the file of before, or none, once the host's power is back.
    File::open(path.parent().expect("it is in a folder"))?.sync_all()
}

/// What a file has, if that is this node's, up to the first record that is not whole: the last
/// line, and all rows.
fn read(path: &Path, node: &str) -> Result<(Head, Map, Delta), String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let mut rest = &bytes[..];
    let (mut newest, mut delta) = record(&mut rest)?;
    if newest.node != node {
        return Err(format!("it is node {}'s", newest.node));
    }
    let mut rows = Map::default();
    rows.apply(delta.clone());
    if rows.digest().to_string() != newest.digest {
        return Err("its rows are not those that were written".into());
    }
    while let Ok((head, changes)) = record(&mut rest) {
        let of = |it: &Head| (it.node.clone(), it.store.clone(), it.domain.clone());
        if of(&head) != of(&newest) || rows.digest_after(&changes).to_string() != head.digest {
            break;
        }
        delta.then(&changes);
        rows.apply(changes);
        newest = head;
    }
    Ok((newest, rows, delta))
}

/// Takes a record from the front.
fn record(rest: &mut &[u8]) -> Result<(Head, Delta), String> {
    let end = rest.iter().position(|it| *it == b'\n').ok_or("it ends before its line does")?;
    let line = rest.split_off(..=end).unwrap_or_default();
    let head: Head = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if head.version != VERSION {
        return Err(format!("it is of version {}", head.version));
    }
    let body = rest.split_off(..head.bytes).ok_or("it ends before its rows do")?;
    let delta = Delta::decode(body).map_err(|error| error.to_string())?;
    Ok((head, delta))
}

#[cfg(test)]
mod tests {
    use image::Told;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const WHOSE: (Store, Fence) = (Store(3), Fence(2));

    fn shop() -> (Name, Followed) {
        let read = logical::read(include_str!("../../../../examples/shop.yaml"));
        let (name, rows) = compiler::compile(&read.resolve().unwrap()).pop_first().unwrap();
        let shop = Followed {
            generation: Generation(7),
            name: name.clone(),
            labels: rows.labelled().cloned().zip(1..).collect(),
            rows: rows.into(),
            sites: [(name.clone(), vec![[192, 0, 2, 1].into()])].into_iter().collect(),
        };
        (name.to_string().as_str().into(), shop)
    }

    /// Where an agent of node h1 keeps a domain.
    struct Folder {
        folder: tempfile::TempDir,
        keeper: Keeper,
        name: Name,
        domain: Followed,
        rows: Map,
    }

    impl Folder {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let keeper = Keeper::new(folder.path(), "h1").unwrap();
            let (name, domain) = shop();
            let all = domain.encode();
            let mut new = Self { folder, keeper, name, domain, rows: Map::default() };
            new.say(WHOSE, &all);
            new.keeper.settle();
            new
        }

        /// Has a generation be kept that differs so from the one before.
        fn say(&mut self, whose: (Store, Fence), changes: &Delta) {
            let digest = self.rows.digest_after(changes);
            self.rows.apply(changes.clone());
            self.keeper.keep(whose, &self.name, &self.domain, (changes, digest));
        }

        /// Keeps the next generation, where its router is elsewhere.
        fn next(&mut self, whose: (Store, Fence), host: u8) {
            self.say_next(whose, host);
            self.keeper.settle();
        }

        fn say_next(&mut self, whose: (Store, Fence), host: u8) {
            let before = self.rows.clone();
            self.domain.generation.0 += 1;
            let site = vec![[192, 0, 2, host].into()];
            self.domain.sites.insert(self.domain.name.clone(), site);
            let mut all = Map::default();
            all.apply(self.domain.encode());
            self.say(whose, &before.diff(&all));
        }

        fn path(&self) -> PathBuf {
            self.keeper.path(&self.name)
        }
    }

    /// A folder where an agent of node h1 has kept a domain, and the path of that.
    fn kept() -> (tempfile::TempDir, PathBuf) {
        let new = Folder::new();
        let path = new.path();
        (new.folder, path)
    }

    fn found(folder: &tempfile::TempDir, node: &str) -> Found {
        Keeper::new(folder.path(), node).unwrap().found()
    }

    #[test]
    fn the_next_agent_has_what_was_kept_and_another_nodes_has_not() {
        let (folder, path) = kept();
        let Found { whose, copies, rows, newest } = found(&folder, "h1");
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(newest, Some(written));
        assert_eq!((whose, rows.newest(), copies.len()), (Some(WHOSE), Generation(7), 1));
        assert_eq!(rows.executed().0.len(), 1);
        assert!(found(&folder, "h2").copies.is_empty());
    }

    #[test]
    fn a_file_that_is_damaged_is_not_executed() {
        let (folder, path) = kept();
        let whole = fs::read(&path).unwrap();
        let step = whole.len() / 50;
        for at in (0..whole.len()).step_by(step) {
            let mut other = whole.clone();
            other[at] ^= 1;
            for damaged in [&whole[..at], &other] {
                fs::write(&path, damaged).unwrap();
                let Found { copies, rows, .. } = found(&folder, "h1");
                // Where a bit is of the first line, it may be of what says whose the rows are.
                let is_of_head = damaged.len() == whole.len() && at < head(&whole);
                assert!(copies.is_empty() || is_of_head, "{at} of {}", whole.len());
                assert_eq!(copies.is_empty(), rows.executed().0.is_empty());
            }
        }
    }

    /// The length of a file's first line.
    fn head(file: &[u8]) -> usize {
        file.iter().position(|it| *it == b'\n').unwrap()
    }

    #[test]
    fn each_session_has_a_greater_number_than_those_before_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        // The numbers of an agent's sessions.
        let numbers = |clocks: &[u64]| {
            let mut keeper = Keeper::new(folder.path(), "h1").unwrap();
            let numbers: Vec<_> = clocks.iter().map(|clock| keeper.number(*clock)).collect();
            keeper.settle();
            assert!(keeper.found().copies.is_empty());
            numbers
        };
        assert_eq!(numbers(&[1_000, 5, 2_000]), [1_000, 1_001, 2_000]);
        assert_eq!(numbers(&[7]), [2_001]);
        assert_eq!(numbers(&[9_000]), [9_000]);
        // What cannot be read is none.
        fs::write(folder.path().join(LAST), "9\n\u{1}").unwrap();
        assert_eq!(numbers(&[7]), [7]);
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let (folder, path) = kept();
        let keeper = Keeper::new(folder.path(), "h1").unwrap();
        let name = keeper.found().copies[0].0.clone();
        keeper.forget(&name);
        keeper.settle();
        assert!(!path.exists());
        assert!(keeper.found().copies.is_empty() && keeper.found().rows.executed().0.is_empty());
    }

    #[test]
    fn a_generation_costs_its_changes_until_they_are_as_much_as_all_rows() {
        let mut folder = Folder::new();
        let len = |folder: &Folder| fs::metadata(folder.path()).unwrap().len();
        let all = len(&folder);
        let mut before = all;
        let mut anew = 0;
        for generation in 0..100u8 {
            folder.next(WHOSE, 1 + generation % 2);
            let now = len(&folder);
            assert!(now < 2 * all + all / 10, "{now} bytes of {all}");
            assert!(now < before || now - before < all / 4, "{now} after {before} of {all}");
            anew += u32::from(now < before);
            before = now;
            let Found { copies, rows, .. } = found(&folder.folder, "h1");
            let (_, at, copy) = &copies[0];
            assert_eq!((*at, copy), (folder.domain.generation, &folder.rows));
            let read = rows.domain(&folder.name).unwrap();
            assert_eq!((&read.rows, &read.sites), (&folder.domain.rows, &folder.domain.sites));
            assert_eq!(read.labels, folder.domain.labels);
        }
        assert!((1..50).contains(&anew), "{anew} times");
    }

    /// Another store's generations are none of these.
    #[test]
    fn what_another_store_says_is_not_added() {
        let mut folder = Folder::new();
        folder.next((Store(4), Fence(2)), 3);
        let text = fs::read(folder.path()).unwrap();
        let mut rest = &text[..];
        assert!(record(&mut rest).is_ok() && rest.is_empty(), "it is written anew");
        assert_eq!(found(&folder.folder, "h1").whose, Some((Store(4), Fence(2))));
    }

    #[test]
    fn what_waits_for_a_disk_is_one_generation_of_a_domain() {
        let mut folder = Folder::new();
        // Another store's is written anew, aside: that stands still until somebody reads there.
        let aside = folder.path().with_extension("new");
        mknodat(CWD, &aside, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (0..50).for_each(|host| folder.say_next((Store(4), Fence(2)), host));
        // It is here, to be kept, and being written.
        assert!(Arc::strong_count(&folder.domain.rows) <= 3);
        let away = folder.folder.path().join("away");
        fs::rename(&aside, &away).unwrap();
        let reader = File::options().read(true).write(true).open(away).unwrap();
        // What could not be written aside is with the next one.
        folder.next((Store(4), Fence(2)), 50);
        drop(reader);
        let (_, generation, rows) = found(&folder.folder, "h1").copies.remove(0);
        assert_eq!((generation, &rows), (folder.domain.generation, &folder.rows));
    }

    #[test]
    fn changes_of_rows_that_a_controller_writes_otherwise_are_kept_too() {
        let mut folder = Folder::new();
        // What this version does not write stands for what it writes otherwise.
        let otherwise: Delta = [(Arc::from([255]), Some(Arc::from([1])))].into_iter().collect();
        folder.rows.apply(otherwise);
        let whose = (Store(4), Fence(1));
        for host in 2..5u8 {
            let (router, site) = (folder.domain.name.clone(), vec![[192, 0, 2, host].into()]);
            folder.domain.generation.0 += 1;
            folder.domain.sites.insert(router.clone(), site.clone());
            let (key, row) = Told::Site(router, Some(site)).encode();
            folder.say(whose, &[(key.into(), row.map(Into::into))].into_iter().collect());
            folder.keeper.settle();
            let Found { copies, rows, .. } = found(&folder.folder, "h1");
            assert_eq!(copies[0].1, folder.domain.generation);
            assert_eq!(rows.domain(&folder.name).unwrap().sites, folder.domain.sites);
        }
    }

    #[test]
    fn what_was_being_written_is_as_if_it_had_not_been_said() {
        let mut folder = Folder::new();
        let before = (folder.domain.generation, folder.rows.clone());
        let end = fs::metadata(folder.path()).unwrap().len() as usize;
        folder.next(WHOSE, 2);
        let whole = fs::read(folder.path()).unwrap();
        let head = end + head(&whole[end..]);
        for at in end..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            for damaged in [&whole[..at], &other] {
                fs::write(folder.path(), damaged).unwrap();
                let (_, generation, rows) = found(&folder.folder, "h1").copies.remove(0);
                // Where a bit is of the line, it may be of the generation.
                let is_of_head = damaged.len() == whole.len() && at < head;
                assert!((generation, &rows) == (before.0, &before.1) || is_of_head, "{at}");
            }
        }
    }
}

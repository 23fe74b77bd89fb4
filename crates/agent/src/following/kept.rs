//! What a controller has said, kept for the next agent: it executes that before any controller
//! answers.
//!
//! Each domain is a file of its own in a folder: a line of JSON, then its rows as they come from
//! the controller. It is written aside and renamed, on a thread of its own, and read only if its
//! rows come to the digest that the line has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::SystemTime;

use model::Generation;
use replica::{Delta, Fence, Map, Name, Store};
use serde::{Deserialize, Serialize};

use super::rows::{Followed, Rows};

/// The end of the files' names.
const END: &str = ".domain";

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Of this file's form.
    version: u32,
    /// Whose copy it is.
    node: String,
    store: String,
    fence: u64,
    domain: String,
    generation: Generation,
    /// Of the rows.
    digest: String,
}

/// The version of files that this agent writes and reads.
const VERSION: u32 = 1;

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
    jobs: Sender<Job>,
}

/// What its thread is to do.
#[derive(Debug)]
enum Job {
    /// A file is to be so: a domain, or gone.
    File(PathBuf, Option<(Head, Followed)>),
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
        thread::Builder::new().name("zovn-keeper".into()).spawn(move || keep(&inbox))?;
        Ok(Self { folder: folder.into(), node: node.into(), jobs })
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

    /// Keeps a domain as it is now, soon.
    pub fn keep(&self, (store, fence): (Store, Fence), name: &Name, domain: &Followed) {
        let head = Head {
            version: VERSION,
            node: self.node.clone(),
            store: format!("{:032x}", store.0),
            fence: fence.0,
            domain: name.to_string(),
            generation: domain.generation,
            digest: String::new(),
        };
        let _ = self.jobs.send(Job::File(self.path(name), Some((head, domain.clone()))));
    }

    /// Keeps a domain no more.
    pub fn forget(&self, name: &Name) {
        let _ = self.jobs.send(Job::File(self.path(name), None));
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
    fn whose(&self) -> Option<(Store, Fence)> {
        Some((Store(u128::from_str_radix(&self.store, 16).ok()?), Fence(self.fence)))
    }
}

/// Writes what is to be kept, the newest of each alone.
fn keep(inbox: &Receiver<Job>) {
    while let Ok(first) = inbox.recv() {
        let (mut newest, mut waiting) = (BTreeMap::new(), Vec::new());
        for job in [first].into_iter().chain(inbox.try_iter()) {
            match job {
                Job::File(path, domain) => drop(newest.insert(path, domain)),
                Job::Settle(done) => waiting.push(done),
            }
        }
        for (path, domain) in newest {
            let done = match domain {
                Some((head, domain)) => write(&path, head, &domain),
                None => fs::remove_file(&path),
            };
            match done {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::error!(path = %path.display(), %error, "the next agent will not know of this domain");
                }
                _ => {}
            }
        }
        drop(waiting);
    }
}

fn write(path: &Path, mut head: Head, domain: &Followed) -> io::Result<()> {
    let delta = domain.encode();
    let body = delta.encode();
    let mut rows = Map::default();
    rows.apply(delta);
    head.digest = format!("{:032x}", rows.digest().0);
    let aside = path.with_extension("new");
    let mut file = File::create(&aside)?;
    file.write_all(&serde_json::to_vec(&head)?)?;
    file.write_all(b"\n")?;
    file.write_all(&body)?;
    file.sync_data()?;
    fs::rename(aside, path)?;
    // Else the name may be the file of before, or none, once the host's power is back.
    File::open(path.parent().expect("it is in a folder"))?.sync_all()
}

/// What a file has, if that is this node's and whole.
fn read(path: &Path, node: &str) -> Result<(Head, Map, Delta), String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let end = bytes.iter().position(|it| *it == b'\n').ok_or("it has no first line")?;
    let head: Head = serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
    if head.version != VERSION {
        return Err(format!("it is of version {}", head.version));
    }
    if head.node != node {
        return Err(format!("it is node {}'s", head.node));
    }
    let delta = Delta::decode(&bytes[end + 1..]).map_err(|error| error.to_string())?;
    let mut rows = Map::default();
    rows.apply(delta.clone());
    if format!("{:032x}", rows.digest().0) != head.digest {
        return Err("its rows are not those that were written".into());
    }
    Ok((head, rows, delta))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: (Store, Fence) = (Store(3), Fence(2));

    /// A folder where an agent of node h1 has kept a domain, and the path of that.
    fn kept() -> (tempfile::TempDir, PathBuf) {
        let read = logical::read(include_str!("../../../../examples/shop.yaml"));
        let (name, rows) = compiler::compile(&read.resolve().unwrap()).pop_first().unwrap();
        let shop = Followed {
            generation: Generation(7),
            name: name.clone(),
            rows: rows.into(),
            sites: [(name.clone(), vec![[192, 0, 2, 1].into()])].into_iter().collect(),
        };
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::new(folder.path(), "h1").unwrap();
        let name = Name::from(name.to_string());
        keeper.keep(WHOSE, &name, &shop);
        let path = keeper.path(&name);
        keeper.settle();
        (folder, path)
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
    fn what_is_forgotten_is_gone() {
        let (folder, path) = kept();
        let keeper = Keeper::new(folder.path(), "h1").unwrap();
        let name = keeper.found().copies[0].0.clone();
        keeper.forget(&name);
        keeper.settle();
        assert!(!path.exists());
        assert!(keeper.found().copies.is_empty() && keeper.found().rows.executed().0.is_empty());
    }
}

//! Where this machine's labs are written down, so that any `zovn` finds, enters and removes them.
//!
//! ```text
//! /run/zovn/lab/
//! └── 7c1e/              a lab's id; its namespaces are zovn-7c1e-switch, zovn-7c1e-ENDPOINT, …
//!     ├── lab.json       what it is
//!     ├── owner          the process that will remove it, while one means to
//!     ├── processes/     the switch's programs, and what runs inside by `zovn lab exec`
//!     ├── hugepages      how many huge pages were added to the machine's
//!     └── …              the switch's own files and logs
//! ```
//!
//! Everything of a lab is found by its id alone: its directory and its namespaces' names. So a lab
//! whose maker was killed half-way through is removed like any other.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::netlink::Netlink;
use kernel::netns::{self, Namespace};
use serde::{Deserialize, Serialize};

use crate::hosts;
use crate::hugepages::give_back;
use crate::process::{Process, identity};
use crate::{Endpoint, LabError, LabSpec};

/// Where a lab's processes are written down.
pub(crate) const PROCESSES: &str = "processes";

/// Where a lab's huge pages are written down.
pub(crate) const HUGEPAGES: &str = "hugepages";

/// What a process is called that is not the switch's.
pub(crate) const GUEST: &str = "guest";

/// How long a lab's switches may still deliver when the lab is removed. Their receivers go as well.
const DRAIN: Duration = Duration::from_secs(1);

/// A place for labs: a directory, and a prefix for their namespaces' names.
#[derive(Clone, Debug)]
pub struct Home {
    directory: PathBuf,
    prefix: String,
}

/// A lab as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The lab's id: four hexadecimal digits.
    pub id: String,
    /// What it was asked to be.
    #[serde(flatten)]
    pub spec: LabSpec,
    /// What its endpoints are.
    pub resolved: Vec<Endpoint>,
}

/// A lab that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The lab's id.
    pub id: String,
    /// How it is.
    pub state: State,
    /// What it is; nothing if whoever made it was killed before writing it down.
    pub record: Option<Record>,
}

/// How a lab is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It stays until it is taken down.
    Up,
    /// A process made it for itself and will remove it.
    InUse,
    /// One of its switch's programs has ended.
    Broken,
    /// The process that made it was killed.
    LeftOver,
}

impl Home {
    /// This machine's: `/run/zovn/lab`, and namespaces that begin with `zovn-`.
    pub fn system() -> Self {
        Self::new("/run/zovn/lab", "zovn")
    }

    /// Another place, of which nobody else knows: for tests.
    pub fn new(directory: impl Into<PathBuf>, prefix: impl Into<String>) -> Self {
        Self { directory: directory.into(), prefix: prefix.into() }
    }

    /// Every lab here, by id.
    ///
    /// # Errors
    ///
    /// [`LabError::File`] if the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Found>, LabError> {
        Ok(self.ids()?.into_iter().map(|id| self.look(id)).collect())
    }

    /// The lab of this id or, if it is the only one so called, of this name.
    ///
    /// # Errors
    ///
    /// [`LabError::Unknown`], [`LabError::Ambiguous`].
    pub fn find(&self, word: &str) -> Result<Found, LabError> {
        let labs = self.list()?;
        if let Some(found) = labs.iter().find(|lab| lab.id == word) {
            return Ok(found.clone());
        }
        let mut named = labs.into_iter().filter(|lab| lab.name() == Some(word));
        let found = named.next().ok_or_else(|| LabError::Unknown(word.to_owned()))?;
        let others: Vec<_> = named.map(|lab| lab.id).collect();
        if others.is_empty() {
            return Ok(found);
        }
        Err(LabError::Ambiguous {
            name: word.to_owned(),
            ids: format!("{}, {}", found.id, others.join(", ")),
        })
    }

    /// Removes everything that belongs to the lab of this id, whatever there is of it.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed; the others are.
    pub fn remove(&self, id: &str) -> Result<(), LabError> {
        let directory = self.directory_of(id);
        let mut outcome = Ok(());
        let processes = Process::recorded(&directory.join(PROCESSES));
        // All drain at the same time: one whose peer has gone holds what is for it until its time
        // is over.
        let until = Instant::now() + DRAIN;
        processes.iter().for_each(|(_, process)| process.ask());
        for (_, process) in processes {
            let patience = until.saturating_duration_since(Instant::now());
            // An agent that is asked again drains no longer, and leaves nothing behind either.
            let ended = match process.ends_within(patience) {
                Ok(false) => process.stop(Duration::from_secs(8)),
                ended => ended.map(drop),
            };
            outcome = outcome.and(ended.map_err(LabError::kernel("end a lab's process")));
        }
        let namespaces = self.namespaces(id)?;
        outcome = outcome.and(evacuate(&namespaces));
        for netns in namespaces {
            outcome = outcome.and(delete(&netns));
        }
        outcome = outcome.and(give_back(&directory.join(HUGEPAGES)));
        // The record goes last: what could not be removed is found again.
        if outcome.is_ok() {
            match fs::remove_dir_all(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LabError::file(&directory)(error));
                }
                _ => {}
            }
        }
        outcome
    }

    /// Opens the books for a new lab that belongs to this process, and says what it is.
    pub(crate) fn enroll(&self, spec: &LabSpec) -> Result<Record, LabError> {
        let id = self.open_books(&spec.name)?;
        let written = self.write_down(&id, spec);
        if written.is_err() {
            let _ = fs::remove_dir_all(self.directory_of(&id));
        }
        written
    }

    /// Opens the books for something new that belongs to this process: from here on it can be found
    /// and removed by the id that this returns.
    pub(crate) fn open_books(&self, name: &str) -> Result<String, LabError> {
        fs::create_dir_all(&self.directory).map_err(LabError::file(&self.directory))?;
        let taken = self.ids()?;
        let id = loop {
            let id = format!("{:04x}", RandomState::new().hash_one(name) & 0xffff);
            if taken.contains(&id) {
                continue;
            }
            // Making the directory is what takes the id.
            match fs::create_dir(self.directory_of(&id)) {
                Ok(()) => break id,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LabError::file(&self.directory_of(&id))(error)),
            }
        };
        let directory = self.directory_of(&id);
        let write = || {
            let owner = Process::ourselves().ok_or(io::ErrorKind::NotFound)?;
            fs::write(directory.join("owner"), serde_json::to_vec(&owner)?)?;
            fs::create_dir(directory.join(PROCESSES))
        };
        if let Err(error) = write() {
            let _ = fs::remove_dir_all(&directory);
            return Err(LabError::file(&directory)(error));
        }
        Ok(id)
    }

    fn write_down(&self, id: &str, spec: &LabSpec) -> Result<Record, LabError> {
        let directory = self.directory_of(id);
        let resolved = spec.resolve(&format!("{}-{id}", self.prefix))?;
        let record = Record { id: id.to_owned(), spec: spec.clone(), resolved };
        let write = || fs::write(directory.join("lab.json"), serde_json::to_vec_pretty(&record)?);
        write().map_err(LabError::file(&directory))?;
        Ok(record)
    }

    /// Nobody owns the lab from now on: it stays until it is taken down.
    pub(crate) fn disown(&self, id: &str) -> Result<(), LabError> {
        let owner = self.directory_of(id).join("owner");
        fs::remove_file(&owner).map_err(LabError::file(&owner))
    }

    pub(crate) fn directory_of(&self, id: &str) -> PathBuf {
        self.directory.join(id)
    }

    /// The namespace of the switch under test.
    pub(crate) fn switch_netns(&self, id: &str) -> String {
        format!("{}-{id}-switch", self.prefix)
    }

    /// The namespace of a host, by its number from 0.
    pub(crate) fn host_netns(&self, id: &str, host: u32) -> String {
        format!("{}-{id}-host{}", self.prefix, host + 1)
    }

    /// The namespace of the controller's host.
    pub(crate) fn controller_netns(&self, id: &str) -> String {
        format!("{}-{id}-{}", self.prefix, hosts::CONTROLLER)
    }

    /// The namespace of a rack's machine, by its number from 0.
    pub(crate) fn machine_netns(&self, id: &str, machine: usize) -> String {
        format!("{}-{id}-machine{}", self.prefix, machine + 1)
    }

    /// The ids of all labs of which there is a directory or a namespace.
    fn ids(&self) -> Result<BTreeSet<String>, LabError> {
        let ours = |name: &str| {
            let id =
                name.strip_prefix(&self.prefix)?.strip_prefix('-')?.get(..5)?.strip_suffix('-')?;
            is_id(id).then(|| id.to_owned())
        };
        let mut ids: BTreeSet<_> =
            names(&self.directory)?.into_iter().filter(|name| is_id(name)).collect();
        ids.extend(Namespace::list()?.iter().filter_map(|name| ours(name)));
        Ok(ids)
    }

    fn namespaces(&self, id: &str) -> Result<Vec<String>, LabError> {
        let ours = format!("{}-{id}-", self.prefix);
        let mut names = Namespace::list()?;
        names.retain(|name| name.starts_with(&ours));
        Ok(names)
    }

    fn look(&self, id: String) -> Found {
        let directory = self.directory_of(&id);
        let read = |name| fs::read(directory.join(name)).ok();
        let record = read("lab.json").and_then(|json| serde_json::from_slice(&json).ok());
        let owner = read("owner").map(|json| serde_json::from_slice::<Process>(&json));
        let ended = |(what, process): &(String, Process)| what != GUEST && !process.is_alive();
        let state = match owner {
            Some(Ok(owner)) if owner.is_alive() => State::InUse,
            Some(_) => State::LeftOver,
            None if record.is_none() => State::LeftOver,
            None if Process::recorded(&directory.join(PROCESSES)).iter().any(ended) => {
                State::Broken
            }
            None => State::Up,
        };
        Found { id, state, record }
    }
}

impl Found {
    /// The lab's name, if it got as far as being written down.
    pub fn name(&self) -> Option<&str> {
        self.record.as_ref().map(|record| record.spec.name.as_str())
    }
}

/// Deletes a namespace with its devices: a program that somebody left inside would keep both alive
/// otherwise.
fn delete(netns: &str) -> Result<(), LabError> {
    // What cannot be entered has no devices: whoever made the name was killed before there was a
    // namespace behind it.
    let namespace = theirs(netns).and_then(|_| Namespace::open(netns).ok());
    if let Some(mut netlink) = namespace.and_then(|namespace| Netlink::open_in(&namespace).ok()) {
        for link in netlink.links().unwrap_or_default() {
            // The loopback stays, and a device's other end may have gone before it.
            let _ = netlink.delete_link(&link.name);
        }
    }
    Ok(Namespace::delete(netns)?)
}

/// Ends whoever is in these namespaces, written down or not.
fn evacuate(names: &[String]) -> Result<(), LabError> {
    let namespaces: BTreeSet<_> = names.iter().filter_map(|name| theirs(name)).collect();
    // One that is being ended may have started another.
    for _ in 0..3 {
        for process in Process::all() {
            if process.network().is_some_and(|network| namespaces.contains(&network)) {
                let patience = Duration::from_secs(2);
                process
                    .stop(patience)
                    .map_err(LabError::kernel("end a process in a lab's namespace"))?;
            }
        }
    }
    Ok(())
}

/// What is called by this name, unless that is the namespace in which we are, or the host's:
/// somebody gave it a second name then.
fn theirs(netns: &str) -> Option<(u64, u64)> {
    let homes = ["/proc/self/ns/net", "/proc/1/ns/net"].map(|home| identity(Path::new(home)));
    identity(&Path::new(netns::DIRECTORY).join(netns)).filter(|one| !homes.contains(&Some(*one)))
}

fn is_id(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The names in a directory; none if there is no such directory.
fn names(directory: &Path) -> Result<Vec<String>, LabError> {
    match fs::read_dir(directory) {
        Ok(entries) => {
            Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(LabError::file(directory)(error)),
    }
}

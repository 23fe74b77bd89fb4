//! Ports that were attached through the API, kept for the next agent.
//!
//! The journal is a file of JSON beside the API's socket: /run/zovn/agent.sock.ports.json. Each
//! change writes it aside and renames it, so that whoever reads it, after whatever end, reads a
//! whole one. It lies where containers' namespaces have their names, on a file system that is empty
//! after the host restarts, as those are gone then.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Attachment, PortName, PortSpec};
use serde::{Deserialize, Serialize};

/// What is kept, and where.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    entries: Mutex<BTreeMap<PortName, Entry>>,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    port: PortSpec,
    /// The number of its namespace, if that was given by a process: the process's number may be
    /// another's by the time that this is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<u64>,
}

impl Journal {
    /// The journal beside this socket, with what the agent before has left in it. One that cannot
    /// be read is set aside, and told of.
    pub fn open(socket: &Path) -> Self {
        let mut path = socket.as_os_str().to_owned();
        path.push(".ports.json");
        let path = PathBuf::from(path);
        let entries = match read(&path) {
            Ok(entries) => entries,
            Err(error) => {
                let aside = path.with_extension("unreadable");
                tracing::error!(path = %path.display(), %error, aside = %aside.display(), "ports that were attached through the API are not attached again");
                let _ = fs::rename(&path, aside);
                Vec::new()
            }
        };
        let entries = entries.into_iter().filter(Entry::is_its_namespace);
        let entries = entries.map(|entry| (entry.port.name.clone(), entry)).collect();
        Self { path, entries: Mutex::new(entries) }
    }

    /// The ports that are kept, by name.
    pub fn ports(&self) -> Vec<PortSpec> {
        self.lock().values().map(|entry| entry.port.clone()).collect()
    }

    /// Keeps a port, in place of what was kept of its name.
    pub fn keep(&self, port: PortSpec) {
        let entry = Entry { namespace: namespace(&port), port };
        self.change(|entries| drop(entries.insert(entry.port.name.clone(), entry)));
    }

    /// Keeps a port as it is after a change, if it is kept.
    pub fn update(&self, name: &PortName, change: impl FnOnce(&PortSpec) -> PortSpec) {
        self.change(|entries| {
            if let Some(entry) = entries.get_mut(name) {
                entry.port = change(&entry.port);
            }
        });
    }

    /// Keeps a port no more.
    pub fn forget(&self, name: &PortName) {
        self.change(|entries| drop(entries.remove(name)));
    }

    /// Keeps nothing: no agent comes that is to go on.
    pub fn clear(&self) {
        self.change(BTreeMap::clear);
    }

    /// Changes what is kept, and then the file.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<PortName, Entry>)) {
        let mut entries = self.lock();
        change(&mut entries);
        if let Err(error) = write(&self.path, entries.values()) {
            tracing::error!(path = %self.path.display(), %error, "the next agent will not know of this change of ports");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PortName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Whether its container's namespace is still the one that was meant, if that can be another.
    fn is_its_namespace(&self) -> bool {
        self.namespace.is_none() || self.namespace == namespace(&self.port)
    }
}

/// The number of a port's namespace, if it is given by a process.
fn namespace(port: &PortSpec) -> Option<u64> {
    let Attachment::Container { netns, .. } = &port.attach else { return None };
    let by_process = netns.starts_with("/proc/");
    by_process.then(|| fs::metadata(netns).map_or(0, |namespace| namespace.ino()))
}

fn read(path: &Path) -> io::Result<Vec<Entry>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Without ports there is no file.
fn write<'a>(path: &Path, entries: impl ExactSizeIterator<Item = &'a Entry>) -> io::Result<()> {
    if entries.len() == 0 {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let aside = path.with_extension("new");
    fs::write(&aside, serde_json::to_vec_pretty(&Vec::from_iter(entries))?)?;
    fs::rename(aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, netns: &str) -> PortSpec {
        let attach =
            serde_json::json!({ "kind": "container", "netns": netns, "interface": "eth0" });
        PortSpec::new(PortName(name.into()), serde_json::from_value(attach).unwrap())
    }

    #[test]
    fn what_is_kept_is_there_for_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let journal = Journal::open(&socket);
        assert!(journal.ports().is_empty());
        ["a", "b", "c"].into_iter().for_each(|name| journal.keep(port(name, name)));
        journal.forget(&PortName("b".into()));
        journal.update(&PortName("c".into()), |port| PortSpec { quota: Some(7), ..port.clone() });
        let kept = Journal::open(&socket).ports();
        let names: Vec<_> = kept.iter().map(|port| port.name.0.as_str()).collect();
        assert_eq!((names, kept[1].quota), (vec!["a", "c"], Some(7)));
        journal.clear();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of it");
    }

    #[test]
    fn what_cannot_be_read_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let path = folder.path().join("agent.sock.ports.json");
        fs::write(&path, "[{").unwrap();
        assert!(Journal::open(&socket).ports().is_empty());
        assert!(!path.exists());
        assert_eq!(fs::read(path.with_extension("unreadable")).unwrap(), b"[{");
    }

    #[test]
    fn a_process_that_is_another_by_now_is_not_taken_for_the_container() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let own = "/proc/self/ns/net";
        Journal::open(&socket).keep(port("a", own));
        assert_eq!(Journal::open(&socket).ports().len(), 1);
        let path = folder.path().join("agent.sock.ports.json");
        let number = fs::metadata(own).unwrap().ino().to_string();
        let text = fs::read_to_string(&path).unwrap().replace(&number, "1");
        fs::write(path, text).unwrap();
        assert!(Journal::open(&socket).ports().is_empty());
    }
}

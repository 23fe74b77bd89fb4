//! Who has written what: a line of JSON for each write, in the controller's folder.
//!
//! ```text
//! {"at":"2026-11-28T17:40:01Z","who":"alice","role":"tenant-admin","tenant":"shop",
//!  "from":"127.0.0.1:40112","action":"PUT","object":"LogicalPort/shop/web-1","status":200,
//!  "revision":812,"changed":1,"changes":[{"object":"LogicalPort/shop/web-1","change":"updated"}]}
//! ```
//!
//! A write is recorded on the thread that commits it, so a client that hangs up keeps nothing out.
//! What is refused is recorded with its status. No line has a token, a key of a request, or what an
//! object has in it. The files are bounded; the oldest lines are given up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use axum::http::StatusCode;
use logical::objects::Identity;
use serde::Serialize;

use crate::access::{Principal, Role};
use crate::identity::since_1970;
use crate::outcome::{Applied, AppliedChange, AppliedObject};

/// The file that is written to. Older ones have a number behind it: the greater, the older.
const FILE: &str = "audit.jsonl";

/// How long a file becomes.
const LONGEST_BYTES: u64 = 64 << 20;

/// How many older files are kept.
const KEPT: u32 = 4;

/// The most objects that a line names.
const NAMED: usize = 100;

/// The files.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    longest_bytes: u64,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl Audit {
    /// Goes on with the file of a folder.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::bounded(folder, LONGEST_BYTES)
    }

    fn bounded(folder: &Path, longest_bytes: u64) -> io::Result<Self> {
        let path = folder.join(FILE);
        let open = Mutex::new(Open::new(&path)?);
        Ok(Self { path, longest_bytes, open })
    }

    /// Appends a line.
    fn append(&self, line: &Line<'_>) {
        let mut text = serde_json::to_vec(line).expect("a line's keys are text");
        text.push(b'\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.write(&mut open, &text) {
            tracing::error!(%error, path = %self.path.display(), "a write is not recorded");
        }
    }

    fn write(&self, open: &mut Open, text: &[u8]) -> io::Result<()> {
        if open.bytes > 0 && open.bytes + text.len() as u64 > self.longest_bytes {
            // The new file is there before an old one is given up: what fails costs no line.
            let new = self.path.with_added_extension("new");
            let next = Open::new(&new)?;
            let older = |age: u32| self.path.with_added_extension(age.to_string());
            // Somebody may have taken it away.
            if self.path.exists() {
                for age in (1..KEPT).rev().filter(|it| older(*it).exists()) {
                    fs::rename(older(age), older(age + 1))?;
                }
                fs::rename(&self.path, older(1))?;
            }
            fs::rename(&new, &self.path)?;
            *open = next;
        }
        open.file.write_all(text)?;
        open.bytes += text.len() as u64;
        Ok(())
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// A request that writes, of which one line is recorded.
#[derive(Debug)]
pub struct Record {
    audit: Arc<Audit>,
    who: Principal,
    from: Option<Peer>,
    action: String,
    object: OnceLock<String>,
    is_done: AtomicBool,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    who: &'a str,
    #[serde(flatten)]
    role: &'a Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<SocketAddr>,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a String>,
    status: u16,
    #[serde(flatten)]
    written: Option<Written<'a>>,
}

/// What a write has changed.
#[derive(Serialize)]
struct Written<'a> {
    revision: u64,
    changed: usize,
    changes: Vec<&'a AppliedObject>,
}

impl Record {
    /// A request of somebody's, by its method.
    pub fn new(audit: Arc<Audit>, who: Principal, from: Option<Peer>, action: &str) -> Self {
        let (object, is_done) = (OnceLock::new(), AtomicBool::new(false));
        Self { audit, who, from, action: action.into(), object, is_done }
    }

    /// The request is of one object.
    pub fn is_of(&self, identity: &Identity) {
        self.object.get_or_init(|| identity.to_string());
    }

    /// Nothing of the request is to be recorded.
    pub fn leave_out(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }

    /// The write was done.
    pub fn applied(&self, applied: &Applied) {
        let changed = applied.objects.iter().filter(|it| it.change != AppliedChange::Unchanged);
        let (revision, count) = (applied.revision, changed.clone().count());
        let changes = changed.take(NAMED).collect();
        self.tell(StatusCode::OK, Some(Written { revision, changed: count, changes }));
    }

    /// Nothing was done, or that is not known.
    pub fn refused(&self, status: StatusCode) {
        self.tell(status, None);
    }

    /// Records what became of the request, the first time.
    fn tell(&self, status: StatusCode, written: Option<Written<'_>>) {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        self.audit.append(&Line {
            at: figures::utc(since_1970(SystemTime::now()).as_secs()),
            who: &self.who.name,
            role: &self.who.role,
            from: self.from.map(|Peer(address)| address),
            action: &self.action,
            object: self.object.get(),
            status: status.as_u16(),
            written,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_bounded_and_the_oldest_lines_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let line = |audit: &Arc<Audit>, action: &str| {
            let who = Principal::new("me", Role::Admin);
            Record::new(Arc::clone(audit), who, None, action).refused(StatusCode::CONFLICT);
        };
        let open = |longest| Arc::new(Audit::bounded(folder.path(), longest).unwrap());
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        line(&open(LONGEST_BYTES), "0");
        let length = read(FILE).len() as u64;
        // Two lines a file, also for who opens it anew.
        let audit = open(2 * length);
        for action in 1..=9 {
            line(&audit, &action.to_string());
        }
        line(&open(2 * length), "A");
        let actions = |name: &str| -> Vec<String> {
            let lines = read(name);
            let lines = lines.lines().map(serde_json::from_str::<serde_json::Value>);
            lines.map(|it| it.unwrap()["action"].as_str().unwrap().to_owned()).collect()
        };
        let files = [FILE, "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.4"];
        let found = files.map(|it| actions(it).concat());
        assert_eq!(found, ["A", "89", "67", "45", "23"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), files.len());
    }
}

//! Who has written what: a line of JSON for each write, in the controller's folder.
//!
//! ```text
//! {"at":"2026-11-28T17:40:01Z","who":"alice","role":"tenant-admin","tenant":"shop",
//!  "from":"127.0.0.1:40112","action":"PUT","object":"LogicalPort/shop/web-1","status":200,
//!  "revision":812,"changed":1,"changes":[{"object":"LogicalPort/shop/web-1","change":"updated"}]}
//! ```
//!
//! A write is recorded on the thread that commits it, so a client that hangs up keeps nothing out.
//! What is refused is recorded with its status, in files of its own: who is refused often makes no
//! line of a write go. No line has a token, a key of a request, or what an object has in it. The
//! files are bounded; the oldest lines are given up.

mod newest;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use axum::http::StatusCode;
use logical::objects::Identity;
use rustix::fs::{OFlags, Uid, fchown};
use rustix::process::getuid;
use serde::Serialize;

pub use self::newest::Newest;
use crate::access::{Principal, Role};
use crate::identity::since_1970;
use crate::outcome::{AppliedChange, AppliedObject, Done};

/// Where writes are recorded. Older files have a number behind it: the greater, the older.
const WRITES: &str = "audit.jsonl";

/// Where those are recorded that were refused.
const REFUSALS: &str = "audit-refused.jsonl";

/// How long a file becomes.
const LONGEST_BYTES: u64 = 64 << 20;

/// How many older files are kept.
const KEPT: u32 = 4;

/// The most objects that a line names.
const NAMED: usize = 100;

/// The files.
#[derive(Debug)]
pub struct Audit {
    writes: Lines,
    refusals: Lines,
}

/// A file, and the older ones of its name.
#[derive(Debug)]
struct Lines {
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
    /// Goes on with the files of a folder.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::bounded(folder, LONGEST_BYTES)
    }

    fn bounded(folder: &Path, longest_bytes: u64) -> io::Result<Self> {
        let lines = |name| Lines::open(folder.join(name), longest_bytes);
        Ok(Self { writes: lines(WRITES)?, refusals: lines(REFUSALS)? })
    }

    /// Where a request with this answer is recorded. After an error of the controller's it may have
    /// been done.
    fn lines(&self, status: StatusCode) -> &Lines {
        if status.is_client_error() { &self.refusals } else { &self.writes }
    }
}

impl Lines {
    fn open(path: PathBuf, longest_bytes: u64) -> io::Result<Self> {
        let open = Mutex::new(Open::new(&path)?);
        Ok(Self { path, longest_bytes, open })
    }

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
            match self.rotate() {
                Ok(next) => *open = next,
                // The open file has the line, longer than a file is to be.
                Err(error) => {
                    tracing::error!(%error, path = %self.path.display(), "no new file is begun");
                }
            }
        }
        open.file.write_all(text)?;
        open.bytes += text.len() as u64;
        Ok(())
    }

    /// Begins a new file, and gives the oldest up.
    fn rotate(&self) -> io::Result<Open> {
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
        Ok(next)
    }
}

/// A line about what a user of the host has done to the folder.
#[derive(Serialize)]
struct LocalLine<'a> {
    at: String,
    who: String,
    action: &'a str,
    object: &'a str,
    /// What a token or a certificate's name admits, which was made or revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<&'a Role>,
    /// The revision that the store is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
}

/// Records in a controller's folder that `Token/alice` or `Certificate/alice` was made or revoked
/// there.
///
/// # Errors
///
/// It cannot be written.
pub fn record_grant(folder: &Path, action: &str, object: &str, grants: &Role) -> io::Result<()> {
    record_local(folder, (action, object), Some(grants), None)
}

/// Records in a controller's folder that its store was put back from a backup, of this revision.
///
/// # Errors
///
/// It cannot be written.
pub fn record_restored(folder: &Path, revision: u64) -> io::Result<()> {
    record_local(folder, ("restored", "Store"), None, Some(revision))
}

fn record_local(
    folder: &Path,
    (action, object): (&str, &str),
    grants: Option<&Role>,
    revision: Option<u64>,
) -> io::Result<()> {
    let mut file = Open::new(&folder.join(WRITES))?.file;
    // Root makes it for the folder's owner, who may have put another's file in its place.
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        let problem = format!("{WRITES} is no file of this folder alone: take it away");
        return Err(io::Error::other(problem));
    }
    fchown(&file, Some(Uid::from_raw(fs::metadata(folder)?.uid())), None)?;
    let mut text = serde_json::to_vec(&LocalLine {
        at: figures::utc(since_1970(SystemTime::now()).as_secs()),
        who: format!("uid {}", getuid().as_raw()),
        action,
        object,
        grants,
        revision,
    })?;
    text.push(b'\n');
    file.write_all(&text)
}

impl Open {
    /// Opens or makes a file. A symbolic link is not followed: the folder may be another user's.
    fn new(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path)?;
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
    /// It was done before, by a request with the same key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
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

    /// The write was done, now or before.
    pub fn done(&self, Done { applied, is_repeated }: &Done) {
        let is_changed =
            |it: &&AppliedObject| !is_repeated && it.change != AppliedChange::Unchanged;
        let changes = applied.objects.iter().filter(is_changed);
        let (changed, changes) = (changes.clone().count(), changes.take(NAMED).collect());
        let (revision, repeated) = (applied.revision, *is_repeated);
        self.tell(StatusCode::OK, Some(Written { revision, repeated, changed, changes }));
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
        self.audit.lines(status).append(&Line {
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
        let line = |audit: &Arc<Audit>, action: &str, status| {
            let who = Principal::new("me", Role::Admin);
            Record::new(Arc::clone(audit), who, None, action).refused(status);
        };
        let refuse = |audit: &Arc<Audit>, action: &str| line(audit, action, StatusCode::CONFLICT);
        let open = |longest| Arc::new(Audit::bounded(folder.path(), longest).unwrap());
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        refuse(&open(LONGEST_BYTES), "0");
        let length = read(REFUSALS).len() as u64;
        // Two lines a file, also for who opens it anew.
        let audit = open(2 * length);
        // Whether this one was done is not known.
        line(&audit, "W", StatusCode::SERVICE_UNAVAILABLE);
        for action in 1..=9 {
            refuse(&audit, &action.to_string());
        }
        refuse(&open(2 * length), "A");
        let actions = |name: &str| -> String {
            let lines = read(name);
            let lines = lines.lines().map(serde_json::from_str::<serde_json::Value>);
            lines.map(|it| it.unwrap()["action"].as_str().unwrap().to_owned()).collect()
        };
        let found = ["", ".1", ".2", ".3", ".4"].map(|age| actions(&format!("{REFUSALS}{age}")));
        assert_eq!(found, ["A", "89", "67", "45", "23"]);
        assert_eq!(actions(WRITES), "W");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), found.len() + 1);
    }

    #[test]
    fn a_line_is_kept_also_where_no_new_file_can_be_begun() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Arc::new(Audit::bounded(folder.path(), 1).unwrap());
        fs::create_dir(folder.path().join(format!("{WRITES}.new"))).unwrap();
        for action in ["1", "2", "3"] {
            let who = Principal::new("me", Role::Admin);
            Record::new(Arc::clone(&audit), who, None, action).refused(StatusCode::BAD_GATEWAY);
        }
        let text = fs::read_to_string(folder.path().join(WRITES)).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_token_is_recorded_in_no_file_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join(WRITES), folder.path().join("other"));
        let record = || record_grant(folder.path(), "create", "Token/me", &Role::Admin);
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        record().unwrap_err();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        record().unwrap_err();
        assert_eq!(fs::read(&other).unwrap(), b"");
        fs::remove_file(&path).unwrap();
        record().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}

//! A process that writes is killed with SIGKILL: what it was told is there is there, and nothing is
//! there by half.
//!
//! This program is both: called with a folder it is the process that writes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{Embedded, Key, Revision, Store, Transaction};

/// How many keys each transaction writes: several MiB of them, so that a kill comes in between.
const KEYS: usize = 64;

/// How often a process is killed.
const ROUNDS: usize = 8;

fn main() {
    match std::env::args().nth(1) {
        Some(folder) if Path::new(&folder).is_absolute() => write(Path::new(&folder)),
        // What test runners pass on: flags, and names of tests.
        _ => (0..ROUNDS).for_each(kill),
    }
}

fn open(folder: &Path) -> Store {
    Store::open(Box::new(Embedded::open(folder).unwrap())).unwrap()
}

/// Writes one transaction after another, and says which are done.
fn write(folder: &Path) {
    let store = open(folder);
    loop {
        let next = store.revision().0 + 1;
        let mut transaction = Transaction::new();
        for place in 0..KEYS {
            let key = Key::new(format!("{place:03}")).unwrap();
            transaction.put(key, next.to_be_bytes().repeat(1024));
        }
        let Revision(done) = store.commit(transaction).unwrap();
        // Nobody listens any more: then nobody kills.
        if writeln!(std::io::stdout().lock(), "{done}").is_err() {
            return;
        }
    }
}

fn kill(round: usize) {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut acknowledged = 0;
    // The same folder, several times: a store that was killed is opened and killed again.
    for times in 1..=3 {
        let mut child =
            Command::new(&program).arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..times + round {
            acknowledged = told.next().unwrap().unwrap().parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died.
        for line in told.map_while(Result::ok) {
            acknowledged = line.parse().unwrap_or(acknowledged);
        }
        let store = open(folder.path());
        let Revision(found) = store.revision();
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{found}, {acknowledged}");
        let page = store.list("", None, usize::MAX, None).unwrap();
        assert_eq!(page.entries.len(), KEYS);
        for entry in page.entries {
            assert_eq!((entry.modified, entry.created), (Revision(found), Revision(1)));
            assert_eq!(entry.value, found.to_be_bytes().repeat(1024), "{}", entry.key);
        }
    }
}

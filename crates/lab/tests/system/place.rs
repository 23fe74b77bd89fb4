//! What tests of labs share.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::netns::Namespace;
use lab::Home;

/// A home of the test's own, which leaves nothing behind even if the test fails.
pub struct Place {
    pub home: Home,
    pub prefix: String,
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("zovn-t-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        Self { home: Home::new(directory.path(), &prefix), prefix, directory }
    }

    pub fn namespaces(&self) -> Vec<String> {
        let mut names = Namespace::list().unwrap();
        names.retain(|name| name.starts_with(&self.prefix));
        names
    }

    pub fn assert_empty(&self) {
        assert_eq!(self.namespaces(), [""; 0]);
        assert_eq!(std::fs::read_dir(self.directory.path()).unwrap().count(), 0);
    }
}

/// Starts this test's program again as the process that makes something in `place` and is to be
/// killed: by that test of it.
pub fn start_maker(place: &Place, test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("ZOVN_TEST_PLACE", format!("{} {}", place.directory.path().display(), place.prefix))
        .spawn()
        .unwrap()
}

impl Drop for Place {
    fn drop(&mut self) {
        for found in self.home.list().unwrap_or_default() {
            let _ = self.home.remove(&found.id);
        }
    }
}

//! Huge pages for the programs of a run, given back when it ends.
//!
//! DPDK's switches and their front-ends share memory of huge pages, of which a machine has none
//! until somebody asks. What is asked for here is added to what is there already, and written down
//! first: so it is given back by whoever finds the note, even if the process that asked was killed
//! in the middle.
//!
//! They are given back once nobody uses them. The kernel would take pages that are in use too, each
//! as it is let go; but one that is let go in the very moment in which the pool shrinks stays:
//! free, and beyond the pool's size (seen on Linux 6.18, with programs that were ending).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::LabError;

/// Bytes of a huge page.
pub const HUGEPAGE_BYTES: u64 = 2 << 20;

/// What the kernel says of the pages of that size (Linux,
/// Documentation/admin-guide/mm/hugetlbpage.rst).
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// How many there are, and how many of those only until they are let go.
const ALL: &str = "nr_hugepages";
const SURPLUS: &str = "surplus_hugepages";

/// How long the kernel may take to gather pages, and programs to let go of them.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before looking at the pool again.
const TICK: Duration = Duration::from_millis(20);

/// Huge pages that are there until this value is dropped.
#[derive(Debug)]
pub struct Hugepages {
    note: PathBuf,
}

/// What is written down of a reservation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Note {
    /// So many are being added to a pool of `base`, or taken from it: how many are there now, only
    /// the pool knows.
    Changing { base: u64, pages: u64 },
    /// So many were added.
    Added { pages: u64 },
}

impl Hugepages {
    /// Adds `pages` huge pages to the machine's pool and writes down in the file `note` that they
    /// are to be given back. Returns once they are there.
    ///
    /// # Errors
    ///
    /// [`LabError::Hugepages`] if the kernel cannot gather as many, [`LabError::Interrupted`],
    /// [`LabError::File`]; none are kept then.
    pub fn reserve(note: &Path, pages: u64, interrupted: &AtomicBool) -> Result<Self, LabError> {
        // Leaving early gives back what there is, once the pool is let go: it is dropped after
        // that.
        let reserved = Self { note: note.to_owned() };
        let pool = Pool::lock()?;
        let base = pool.size()?;
        Note::Changing { base, pages }.write(note)?;
        let begun = Instant::now();
        loop {
            pool.resize(base + pages)?;
            let got = pool.size()?.saturating_sub(base);
            if got >= pages {
                Note::Added { pages }.write(note)?;
                return Ok(reserved);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if begun.elapsed() > PATIENCE {
                return Err(LabError::Hugepages { wanted: pages, got });
            }
            thread::sleep(TICK);
        }
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        // Nobody is left to tell; the note stays, and whoever finds it tries again.
        let _ = give_back(&self.note);
    }
}

/// Gives back what the file `note` says was reserved, if there is such a file, and removes it.
pub(crate) fn give_back(note: &Path) -> Result<(), LabError> {
    if !note.exists() {
        return Ok(());
    }
    let pool = Pool::lock()?;
    let written = match fs::read(note) {
        // Somebody else did it while we waited.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        written => written.map_err(LabError::file(note))?,
    };
    let read = serde_json::from_slice::<Note>(&written).map_err(io::Error::from);
    let owed = read.map_err(LabError::file(note))?;
    let begun = Instant::now();
    let (size, pages) = loop {
        let size = pool.size()?;
        let pages = owed.owes(size);
        // Those that somebody keeps using go when they are let go.
        if pool.unused()? >= pages || begun.elapsed() >= PATIENCE {
            break (size, pages);
        }
        thread::sleep(TICK);
    };
    // So that whoever comes after us does not give them back a second time.
    Note::Changing { base: size - pages, pages }.write(note)?;
    pool.resize(size - pages)?;
    fs::remove_file(note).map_err(LabError::file(note))
}

impl Note {
    /// How many of a pool's pages are to be given back.
    fn owes(self, size: u64) -> u64 {
        match self {
            Self::Changing { base, pages } => size.saturating_sub(base).min(pages),
            Self::Added { pages } => pages.min(size),
        }
    }

    /// Replaces the file as a whole, so that nobody finds half of it.
    fn write(self, note: &Path) -> Result<(), LabError> {
        let write = || {
            let draft = note.with_extension("draft");
            fs::write(&draft, serde_json::to_vec(&self)?)?;
            fs::rename(draft, note)
        };
        write().map_err(LabError::file(note))
    }
}

/// The machine's pool; whoever holds it is alone with it.
struct Pool(File);

impl Pool {
    fn lock() -> Result<Self, LabError> {
        let all = of_pool(ALL);
        let file = File::options().write(true).open(&all).map_err(LabError::file(&all))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| LabError::file(&all)(error.into()))?;
        Ok(Self(file))
    }

    /// How many pages the machine keeps. Those that it only has until they are let go (its surplus)
    /// are not among them.
    fn size(&self) -> Result<u64, LabError> {
        loop {
            let surplus = read(SURPLUS)?;
            let all = read(ALL)?;
            // Else some were let go in between.
            if read(SURPLUS)? == surplus {
                return Ok(all.saturating_sub(surplus));
            }
        }
    }

    /// How many pages nobody uses or has been promised.
    fn unused(&self) -> Result<u64, LabError> {
        Ok(read("free_hugepages")?.saturating_sub(read("resv_hugepages")?))
    }

    /// Asks for so many pages; the kernel does what it can.
    fn resize(&self, pages: u64) -> Result<(), LabError> {
        self.0.write_all_at(pages.to_string().as_bytes(), 0).map_err(LabError::file(&of_pool(ALL)))
    }
}

fn of_pool(name: &str) -> PathBuf {
    Path::new(POOL).join(name)
}

/// What one of the pool's files says.
fn read(name: &str) -> Result<u64, LabError> {
    let file = of_pool(name);
    let read =
        fs::read_to_string(&file).and_then(|text| text.trim().parse().map_err(io::Error::other));
    read.map_err(LabError::file(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_owes_what_was_added_and_no_more() {
        let changing = Note::Changing { base: 100, pages: 512 };
        assert_eq!(
            [100, 300, 612, 1000, 50].map(|size| changing.owes(size)),
            [0, 200, 512, 512, 0]
        );
        let added = Note::Added { pages: 512 };
        assert_eq!([612, 512, 3].map(|size| added.owes(size)), [512, 512, 3]);
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hugepages");
        for note in [Note::Changing { base: 7, pages: 3 }, Note::Added { pages: 3 }] {
            note.write(&file).unwrap();
            assert_eq!(serde_json::from_slice::<Note>(&fs::read(&file).unwrap()).unwrap(), note);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

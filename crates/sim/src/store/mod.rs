//! A folder of results, which several processes may fill at once and which is read as a whole.
//!
//! ```text
//! out/sweep.json              what is swept: its digest, its axes, how many cells there are
//! out/cell-000000.parquet     a row for each query and flow that counts
//! out/cell-000000.csv         the same, if that was asked for
//! out/cell-000000.pcapng      what a link has carried, if the scenario wants that
//! out/cell-000000.samples.parquet, and .csv          what was seen of queues, likewise
//! out/cell-000000.json        the cell's result and scenario; it comes last, so a cell that has it is complete
//! ```
//!
//! A file appears with all that it will ever hold: it is written under another name, which begins
//! with a dot, and then renamed. Whoever is killed leaves complete cells behind, and cells that are
//! not there. The same plan and version write the same bytes, so that it does not matter who writes
//! a cell, or who wrote `sweep.json` first.
//!
//! The store knows nothing of threads, progress or signals.

mod row;
mod table;

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use self::row::{Look, Rows};
use self::table::Told;
use crate::capture::Sink;
use crate::outcome::Outcome;
use crate::result::CellResult;
use crate::samples::{Sample, Samples};
use crate::scenario::{Cell, Output, Plan, Scenario};

/// The version that writes, and that reads.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const SWEEP: &str = "sweep.json";

/// What ends the names of files: of frames, and of what was seen of queues.
const PCAPNG: &str = "pcapng";
const SAMPLES: &str = "samples.parquet";
const SAMPLES_CSV: &str = "samples.csv";

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    sweep: Sweep,
}

/// What a folder's results are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The version that simulated.
    pub zovn: String,
    /// What people call the scenario.
    pub scenario: String,
    /// What it shows, and what to expect.
    pub description: String,
    /// [`Plan::digest`], in hexadecimal.
    pub digest: String,
    /// Each axis with the labels of its values.
    pub axes: Vec<(String, Vec<String>)>,
    /// How often each combination runs.
    pub repeat: u32,
    /// How many cells there are.
    pub cells: u64,
}

impl Sweep {
    /// The label of each axis' value in cell number `index`.
    pub fn labels(&self, index: u64) -> Vec<String> {
        let mut rest = index / u64::from(self.repeat.max(1));
        let mut labels = Vec::with_capacity(self.axes.len());
        for (_, all) in self.axes.iter().rev() {
            let count = all.len().max(1) as u64;
            labels.push(all.get((rest % count) as usize).cloned().unwrap_or_default());
            rest /= count;
        }
        labels.reverse();
        labels
    }

    /// What cell number `index` is called by those who have not seen it.
    pub fn name(&self, index: u64) -> String {
        let axes = self.axes.iter().zip(self.labels(index));
        let mut words: Vec<String> =
            axes.map(|((name, _), label)| format!("{name}={label}")).collect();
        if self.repeat > 1 {
            words.push(format!(
                "repetition {} of {}",
                index % u64::from(self.repeat) + 1,
                self.repeat
            ));
        }
        if words.is_empty() {
            format!("cell {index}")
        } else {
            format!("cell {index} ({})", words.join(", "))
        }
    }
}

/// Which kind of rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Queries, and rounds.
    Query,
    /// Flows.
    Flow,
}

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was to be done to it.
        what: &'static str,
        /// The file, or the folder.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
    /// No sweep was written there.
    #[error("{} has no results of a sweep: there is no {SWEEP} in it", .0.display())]
    Empty(PathBuf),
    /// There are results of something else.
    #[error(
        "{} is of another sweep ({theirs}, not {ours}): write into another folder, or take out the files that do not \
         belong together", path.display()
    )]
    OtherSweep {
        /// The file that says so.
        path: PathBuf,
        /// What it is of: a digest, with a name perhaps.
        theirs: String,
        /// What it should be of.
        ours: String,
    },
    /// There are results of another version.
    #[error(
        "{} was made by zovn {theirs}, this is {VERSION}: results of two versions are not comparable, so go on with \
         that one, or write into another folder", path.display()
    )]
    OtherVersion {
        /// The file that says so.
        path: PathBuf,
        /// The version.
        theirs: String,
    },
    /// A file is not what was written.
    #[error("{} is damaged: {why}; delete it, and sweep again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a cell's JSON file says.
#[derive(Serialize, Deserialize)]
struct CellFile {
    zovn: String,
    /// The sweep's digest.
    sweep: String,
    result: CellResult,
    scenario: Scenario,
}

impl Store {
    /// Makes the folder one for `plan`'s results, if it is not yet.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or has results of another sweep or version.
    pub fn create(folder: &Path, plan: &Plan) -> Result<Self, StoreError> {
        let summary = plan.summary();
        let sweep = Sweep {
            zovn: VERSION.to_owned(),
            scenario: summary.name,
            description: summary.description,
            digest: format!("{:016x}", plan.digest()),
            axes: summary.axes,
            repeat: summary.repeat,
            cells: summary.cells,
        };
        let store = Self { folder: folder.to_owned(), sweep };
        fs::create_dir_all(folder).map_err(|source| failed("make the folder", folder, source))?;
        let path = folder.join(SWEEP);
        if !path.exists() {
            store.put(SWEEP, Once::First, |out| out.write_all(&json(&store.sweep)))?;
        }
        let theirs = Self::open(folder)?.sweep;
        if theirs.digest != store.sweep.digest {
            let named = |it: &Sweep| format!("`{}`, {}", it.scenario, it.digest);
            let (theirs, ours) = (named(&theirs), named(&store.sweep));
            return Err(StoreError::OtherSweep { path, theirs, ours });
        }
        Ok(store)
    }

    /// Opens a folder that has results.
    ///
    /// # Errors
    ///
    /// If it has none, or those of another version.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(SWEEP);
        let sweep: Sweep = read(&path)?.ok_or_else(|| StoreError::Empty(folder.to_owned()))?;
        if sweep.zovn != VERSION {
            return Err(StoreError::OtherVersion { path, theirs: sweep.zovn });
        }
        let counts = sweep.axes.iter().map(|(_, labels)| labels.len() as u64);
        let cells = counts.fold(u64::from(sweep.repeat), u64::saturating_mul);
        if cells == 0 || sweep.cells != cells {
            let why = format!("{} cells are not what its axes and repetitions make", sweep.cells);
            return Err(StoreError::Damaged { path, why });
        }
        Ok(Self { folder: folder.to_owned(), sweep })
    }

    /// What the results are of.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// The result of cell number `index`, if it is there.
    ///
    /// # Errors
    ///
    /// If its file cannot be read, or is of another sweep or version.
    pub fn result(&self, index: u64) -> Result<Option<CellResult>, StoreError> {
        let path = self.folder.join(name(index, "json"));
        let Some(file) = read::<CellFile>(&path)? else { return Ok(None) };
        if file.zovn != VERSION {
            return Err(StoreError::OtherVersion { path, theirs: file.zovn });
        }
        if file.sweep != self.sweep.digest {
            return Err(StoreError::OtherSweep {
                path,
                theirs: file.sweep,
                ours: self.sweep.digest.clone(),
            });
        }
        let told = format!("{:016x}", file.scenario.digest());
        if file.result.cell != index || file.result.scenario != told {
            let why = format!(
                "cell {} with scenario {} is not what its name and content say",
                file.result.cell, told
            );
            return Err(StoreError::Damaged { path, why });
        }
        Ok(Some(file.result))
    }

    /// Whether all files of a cell are there that its scenario wants, its CSV too if that is
    /// wanted.
    pub fn is_complete(&self, cell: &Cell, csv: bool) -> bool {
        let has = |extension| self.folder.join(name(cell.index, extension)).exists();
        let Output { pcapng, samples, .. } = &cell.scenario.output;
        let wanted = [
            ("json", true),
            ("parquet", true),
            ("csv", csv),
            (PCAPNG, pcapng.is_some()),
            (SAMPLES, samples.is_some()),
            (SAMPLES_CSV, samples.is_some() && csv),
        ];
        wanted.into_iter().all(|(extension, is_wanted)| !is_wanted || has(extension))
    }

    /// A file for the frames of a cell, which are written as the cell runs.
    ///
    /// # Errors
    ///
    /// If there cannot be one.
    pub fn listen(&self, cell: &Cell) -> Result<(Sink, Pending), StoreError> {
        let name = name(cell.index, PCAPNG);
        let path = self.folder.join(&name);
        let file = self.begin(&name).and_then(|file| Ok((file.reopen()?, file)));
        match file {
            Ok((sink, file)) => Ok((Box::new(sink), Pending { file, path })),
            Err(error) => Err(failed("write", &path, error)),
        }
    }

    /// Writes all files of a cell.
    ///
    /// # Errors
    ///
    /// If one cannot be written. Then the cell is not complete.
    pub fn write(
        &self,
        cell: &Cell,
        outcome: &Outcome,
        result: &CellResult,
        samples: Option<&Samples>,
        csv: bool,
    ) -> Result<(), StoreError> {
        let rows = Rows::new(cell, outcome);
        let facts = [
            ("zovn", VERSION.to_owned()),
            ("name", result.name.clone()),
            ("seed", result.seed.to_string()),
            ("scenario", result.scenario.clone()),
            ("sweep", self.sweep.digest.clone()),
        ];
        let index = cell.index;
        self.table(&facts, ["parquet", "csv"].map(|it| name(index, it)), csv, || rows.iter())?;
        if let Some(samples) = samples {
            let looks = || samples.iter().map(|sample| Look { cell: index, sample });
            self.table(&facts, [SAMPLES, SAMPLES_CSV].map(|it| name(index, it)), csv, looks)?;
        }
        let file = CellFile {
            zovn: VERSION.to_owned(),
            sweep: self.sweep.digest.clone(),
            result: result.clone(),
            scenario: cell.scenario.clone(),
        };
        self.put(&name(cell.index, "json"), Once::Last, |out| out.write_all(&json(&file)))
    }

    /// Writes rows as Parquet into the first of two files and, if that is wanted, as CSV into the
    /// second.
    fn table<R: Told, I: Iterator<Item = R>>(
        &self,
        facts: &[(&str, String)],
        [parquet, comma]: [String; 2],
        csv: bool,
        rows: impl Fn() -> I,
    ) -> Result<(), StoreError> {
        self.put(&parquet, Once::Last, |file| {
            table::write_parquet(file, facts, rows()).map_err(io::Error::other)
        })?;
        if csv {
            self.put(&comma, Once::Last, |file| table::write_csv(BufWriter::new(file), rows()))?;
        }
        Ok(())
    }

    /// The completion times of a cell's rows of one kind, in nanoseconds, in the order in which
    /// they ended.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub fn times(&self, index: u64, kind: Kind) -> Result<Vec<u64>, StoreError> {
        let path = self.folder.join(name(index, "parquet"));
        let file = File::open(&path).map_err(|source| failed("read", &path, source))?;
        let kind = match kind {
            Kind::Query => row::QUERY,
            Kind::Flow => row::FLOW,
        };
        table::read_times(file, kind)
            .map_err(|error| StoreError::Damaged { path, why: error.to_string() })
    }

    /// Tells what was seen of a cell's queues, in the order of time; nothing if that was not
    /// wanted.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub fn samples(&self, index: u64, tell: impl FnMut(Sample<'_>)) -> Result<(), StoreError> {
        let path = self.folder.join(name(index, SAMPLES));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed("read", &path, error)),
        };
        table::read_samples(file, tell)
            .map_err(|error| StoreError::Damaged { path, why: error.to_string() })
    }

    /// Writes a file as a whole, or not at all.
    fn put(
        &self,
        name: &str,
        once: Once,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        let put = || {
            let mut file = self.begin(name)?;
            write(file.as_file_mut())?;
            end(file, &path, once)
        };
        put().map_err(|source| failed("write", &path, source))
    }

    /// A file that has another name until it is whole.
    fn begin(&self, name: &str) -> io::Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder)
    }
}

/// A file of a cell that is not whole yet. It is gone if nobody keeps it.
#[derive(Debug)]
pub struct Pending {
    file: NamedTempFile,
    path: PathBuf,
}

impl Pending {
    /// Gives the file its name, if all of it was `written`.
    ///
    /// # Errors
    ///
    /// If it was not, or the file cannot be had under its name.
    pub fn keep(self, written: io::Result<()>) -> Result<(), StoreError> {
        let Self { file, path } = self;
        written
            .and_then(|()| end(file, &path, Once::Last))
            .map_err(|source| failed("write", &path, source))
    }
}

/// Gives a file that is whole its name.
fn end(file: NamedTempFile, path: &Path, once: Once) -> io::Result<()> {
    file.as_file().sync_all()?;
    match once {
        Once::Last => file.persist(path).map(drop).map_err(|error| error.error),
        Once::First => match file.persist_noclobber(path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            _ => Ok(()),
        },
    }
}

/// Which of several writers of a file is to be believed.
#[derive(Clone, Copy)]
enum Once {
    First,
    Last,
}

/// What a file of cell number `index` is called.
fn name(index: u64, extension: &str) -> String {
    format!("cell-{index:06}.{extension}")
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File { what, path: path.to_owned(), source }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("results have words for keys");
    text.push(b'\n');
    text
}

/// What a JSON file says; none if there is no such file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, error)),
    };
    let value = serde_json::from_slice(&text);
    value
        .map(Some)
        .map_err(|error| StoreError::Damaged { path: path.to_owned(), why: error.to_string() })
}

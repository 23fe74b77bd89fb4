//! How a command ends: its figures on stdout, its page in a file, its verdict as an exit code.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use measure::{MeasureError, Readable, readable};

pub use zovn_agent::{Outcome, USAGE, sentence};

use crate::signals;

/// Where a report page will be written. It is opened before anything is measured: what cannot be
/// written is known then.
pub struct PageFile {
    path: PathBuf,
    file: File,
}

impl PageFile {
    /// Opens the file, and leaves what is in it until there is something better.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        match File::options().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
        }
    }

    /// Writes the page of `all`, made by the command line that runs.
    pub fn write(self, title: &str, lead: &str, all: &[&dyn Readable]) -> Result<(), String> {
        self.put(&readable::page(title, lead, &command_line(), all))
    }

    /// Writes a page in the place of what is there.
    pub fn put(mut self, page: &str) -> Result<(), String> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(page.as_bytes()));
        written.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// Prints one JSON object.
pub fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, value)?;
    writeln!(stdout)?;
    stdout.flush()
}

/// 1 if anything was not as promised; what it was is told on stderr.
pub fn verdict(all: &[&dyn Readable]) -> ExitCode {
    let broken: Vec<String> = all.iter().flat_map(|made| made.broken()).collect();
    for sentence in &broken {
        eprintln!("zovn: {sentence}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How an experiment ends that was not made.
pub fn unmade(error: MeasureError) -> Outcome {
    match error {
        MeasureError::Interrupted => Ok(ExitCode::from(signals::INTERRUPTED)),
        MeasureError::Config(what) => {
            eprintln!("zovn: {what}");
            Ok(ExitCode::from(USAGE))
        }
        error => Err(Box::<dyn Error + Send + Sync>::from(error)),
    }
}

/// The command line as it was given.
pub fn command_line() -> String {
    let quoted = std::env::args().skip(1).map(|word| {
        let plain =
            word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.,:/=".contains(&byte));
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    std::iter::once("zovn".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

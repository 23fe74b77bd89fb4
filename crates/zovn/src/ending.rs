//! How a command ends: its figures on stdout, its page in a file, its verdict as an exit code.

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use measure::{MeasureError, Readable, readable};
use tempfile::NamedTempFile;

pub use zovn_agent::{Outcome, USAGE, sentence};

use crate::signals;

/// Where a report page will be written. A file beside it is made before anything is measured: what
/// cannot be written is known then. It takes the place of what is there when it is whole.
pub struct PageFile {
    path: PathBuf,
    aside: NamedTempFile,
}

impl PageFile {
    /// Makes the file beside, and leaves what is at `path` until there is something better.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let wrong = |error: io::Error| format!("cannot write {}: {error}", path.display());
        // What a page takes the place of is a file: no folder, and not /dev/null or a pipe.
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => return Err(wrong(io::ErrorKind::IsADirectory.into())),
            Ok(there) if !there.is_file() => {
                return Err(format!("cannot write {}: name a file, not a device", path.display()));
            }
            _ => {}
        }
        // It takes the place of what a link leads to, not of the link.
        let target = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let aside = tempfile::Builder::new()
            .prefix(".zovn-page-")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(wrong)?;
        Ok(Self { path: target, aside })
    }

    /// Writes the page of `all`, made by the command line that runs.
    pub fn write(self, title: &str, lead: &str, all: &[&dyn Readable]) -> Result<(), String> {
        self.put(&readable::page(title, lead, &command_line(), all))
    }

    /// Writes a page in the place of what is there.
    pub fn put(self, page: &str) -> Result<(), String> {
        let Self { path, mut aside } = self;
        let wrong = |error: io::Error| format!("cannot write {}: {error}", path.display());
        aside.write_all(page.as_bytes()).map_err(wrong)?;
        aside.persist(&path).map_err(|error| wrong(error.error))?;
        Ok(())
    }
}

/// Prints one JSON object.
pub fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, value)?;
    writeln!(stdout)?;
    stdout.flush()
}

/// Prints something as JSON, or as a table.
pub fn show(
    value: &impl serde::Serialize,
    json: bool,
    table: impl FnOnce() -> String,
) -> io::Result<()> {
    if json { print_json(value) } else { writeln!(io::stdout(), "{}", table()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_the_place_of_the_one_before_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        fs::write(&path, "before").unwrap();
        let link = folder.path().join("link.html");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let read = || fs::read_to_string(&path).unwrap();
        let page = PageFile::open(link).unwrap();
        assert_eq!(read(), "before");
        page.put("after").unwrap();
        assert_eq!(read(), "after");
        // One that is not made leaves what is there, and nothing beside it.
        drop(PageFile::open(path.clone()).unwrap());
        assert_eq!((read().as_str(), fs::read_dir(folder.path()).unwrap().count()), ("after", 2));
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let device = Path::new("/dev/null").to_owned();
        for path in [folder.path().join("none/page.html"), folder.path().into(), device] {
            assert!(PageFile::open(path.clone()).is_err(), "{}", path.display());
        }
    }
}

//! The switch's own programs: started inside its namespace, logged into the lab's directory,
//! written down.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernel::spawn;

use crate::LabError;
use crate::process::Process;
use crate::site::Ground;

/// How long a program may take to become ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// The priority of a switch's programs: what Debian's own scripts give Open vSwitch, and zovn's
/// agent its thread.
const NICE: i32 = -10;

/// A program that was started and outlives us.
#[derive(Debug)]
pub(crate) struct Program {
    what: &'static str,
    process: Option<Process>,
    log: PathBuf,
}

impl Program {
    /// Starts a program inside the switch's namespace. It stays when this process ends, and a
    /// terminal's Ctrl-C does not reach it.
    pub(crate) fn start(
        ground: &Ground<'_>,
        what: &'static str,
        mut command: Command,
    ) -> Result<Self, LabError> {
        command.stdin(Stdio::null());
        Self::spawn(ground, what, command).map(|(program, _)| program)
    }

    /// The same for a program that is told over its standard input what to do: it ends with whoever
    /// holds the other end.
    pub(crate) fn start_told(
        ground: &Ground<'_>,
        what: &'static str,
        mut command: Command,
    ) -> Result<(Self, ChildStdin), LabError> {
        command.stdin(Stdio::piped());
        let (program, input) = Self::spawn(ground, what, command)?;
        Ok((program, input.expect("it was asked for")))
    }

    fn spawn(
        ground: &Ground<'_>,
        what: &'static str,
        mut command: Command,
    ) -> Result<(Self, Option<ChildStdin>), LabError> {
        let log = ground.directory.join(format!("{what}.log"));
        let file = File::create(&log).map_err(LabError::file(&log))?;
        let copy = file.try_clone().map_err(LabError::file(&log))?;
        spawn::inside(&mut command, crate::site::open(&ground.switch.path().to_string_lossy())?);
        command.stdout(file).stderr(copy).process_group(0);
        let mut child = command.spawn().map_err(LabError::kernel(format!("start {what}")))?;
        // One that has ended already is not there to be recorded; waiting for it will tell.
        let process = Process::of(child.id());
        let book = &ground.processes;
        process
            .map_or(Ok(()), |process| process.record(book, what))
            .map_err(LabError::file(book))?;
        Ok((Self { what, process, log }, child.stdin.take()))
    }

    /// Waits until the program is ready for its users.
    pub(crate) fn wait_until(
        &self,
        ground: &Ground<'_>,
        mut ready: impl FnMut() -> Result<bool, LabError>,
    ) -> Result<(), LabError> {
        let begun = Instant::now();
        while !ready()? {
            ground.check_interrupted()?;
            if !self.process.is_some_and(Process::is_alive) {
                return Err(self.failed(self.last_words()));
            }
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(LabError::Late {
                    program: self.what.into(),
                    seconds,
                    said: self.last_words(),
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it. Returns once it is gone.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.process.map_or(Ok(()), |process| process.stop(Duration::from_secs(5)))
    }

    /// All that it has said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Puts the program before what it said.
    pub(crate) fn failed(&self, said: String) -> LabError {
        LabError::Program { program: self.what.into(), said }
    }

    fn last_words(&self) -> String {
        last_line(&self.said())
    }
}

/// A command for whose program every frame waits: it goes first, as zovn's thread does.
pub(crate) fn first(program: &Path) -> Command {
    let ours = rustix::process::getpriority_process(None).unwrap_or(0);
    let mut command = Command::new("nice");
    // `nice` adds to what we run at.
    command.arg("-n").arg((NICE - ours).to_string()).arg(program);
    command
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::kernel(format!("run {program}")))?;
    if !status.success() {
        return Err(LabError::Program {
            program,
            said: error_of(&String::from_utf8_lossy(&stderr)),
        });
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Where a program is installed: in PATH, or where administration programs are, which not every
/// PATH names.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places =
        env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

/// What a program that failed said of it: the last line, but for one that quotes below its error
/// what it did not understand, as nft does.
fn error_of(text: &str) -> String {
    let marked = text.lines().rev().find_map(|line| line.split_once(" Error: "));
    marked.map_or_else(|| last_line(text), |(_, error)| error.to_owned())
}

fn last_line(text: &str) -> String {
    text.trim_end().lines().last().unwrap_or("it said nothing").to_owned()
}

/// The program that tells the kernel what to filter.
///
/// # Errors
///
/// [`LabError::Missing`]
pub fn nft() -> Result<PathBuf, LabError> {
    find("nft").ok_or(LabError::Missing { program: "nft", package: "nftables" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_below_an_error_is_not_the_error() {
        let nft = "rules:4:3-10: Error: Could not process rule: Protocol error\n  ct state new drop\n  ^^^^^^^^\n";
        assert_eq!(error_of(nft), "Could not process rule: Protocol error");
        assert_eq!(
            error_of("one\nRTNETLINK answers: File exists\n"),
            "RTNETLINK answers: File exists"
        );
    }
}

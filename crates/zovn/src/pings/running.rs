//! What changes something while a matrix is asked: a shell command, which runs no longer than we
//! do, or work on a thread of ours.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is to change something.
pub enum Change<'a> {
    /// A command line of the shell.
    Command(&'a str),
    /// Work, which says whether it did what it was to. It ends by itself, and soon.
    Work(Box<dyn FnOnce() -> bool + Send>),
}

/// What is changing something.
pub enum Running {
    Command(Shell),
    Work(Option<JoinHandle<bool>>),
}

impl Running {
    /// Begins a change.
    pub fn start(change: Change<'_>) -> io::Result<Self> {
        match change {
            Change::Command(line) => Shell::start(line).map(Self::Command),
            Change::Work(work) => {
                let begun = thread::Builder::new().name("change".into()).spawn(work)?;
                Ok(Self::Work(Some(begun)))
            }
        }
    }

    /// Its exit code if it has ended: of work 0 or 1; `Some(None)` if a signal has ended it, or a
    /// panic.
    pub fn ended(&mut self) -> io::Result<Option<Option<i32>>> {
        match self {
            Self::Command(shell) => shell.ended(),
            Self::Work(work) => {
                let work = work.take_if(|it| it.is_finished());
                Ok(work.map(|it| it.join().ok().map(|is_done| i32::from(!is_done))))
            }
        }
    }
}

/// A command that runs, with all that it has started; dropped, it is ended.
pub struct Shell(Child);

impl Shell {
    /// Starts a command line. What it says goes to stderr.
    fn start(line: &str) -> io::Result<Self> {
        let said = io::stderr().as_fd().try_clone_to_owned()?;
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(said).process_group(0);
        command.spawn().map(Self)
    }

    /// Its exit code if it has ended: `Some(None)` if a signal has ended it.
    fn ended(&mut self) -> io::Result<Option<Option<i32>>> {
        Ok(self.0.try_wait()?.map(|status| status.code()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0);
        let begun = Instant::now();
        // What the shell has started is in its group, and may go on when the shell has ended. All
        // may have ended by now, which is all that is wanted.
        let _ = kill_process_group(group, Signal::TERM);
        while begun.elapsed() < PATIENCE {
            let is_running = matches!(self.0.try_wait(), Ok(None));
            if !is_running && test_kill_process_group(group).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_what_it_has_started_end_with_us() {
        let running = || Shell::start("sleep 60 & sleep 60").unwrap();
        assert_eq!(running().ended().unwrap(), None);
        is_gone_with(running());
        let mut ended = Shell::start("sleep 60 & exit 3").unwrap();
        within_patience(|| ended.ended().unwrap().is_some());
        assert_eq!(ended.ended().unwrap(), Some(Some(3)));
        is_gone_with(ended);
    }

    #[track_caller]
    fn is_gone_with(running: Shell) {
        let group = Pid::from_child(&running.0);
        test_kill_process_group(group).unwrap();
        drop(running);
        within_patience(|| test_kill_process_group(group).is_err());
    }

    #[test]
    fn work_says_how_it_ended_once_it_has() {
        let (go_on, told_to) = std::sync::mpsc::channel::<bool>();
        let work = move || told_to.recv().unwrap();
        let mut running = Running::start(Change::Work(Box::new(work))).unwrap();
        assert_eq!(running.ended().unwrap(), None);
        go_on.send(true).unwrap();
        let mut code = None;
        within_patience(|| {
            code = running.ended().unwrap();
            code.is_some()
        });
        assert_eq!(code, Some(Some(0)));
        for (panics, expected) in [(false, Some(1)), (true, None)] {
            let fails = move || {
                assert!(!panics, "as it must");
                false
            };
            let mut running = Running::start(Change::Work(Box::new(fails))).unwrap();
            let mut code = None;
            within_patience(|| {
                code = running.ended().unwrap();
                code.is_some()
            });
            assert_eq!(code, Some(expected));
        }
    }

    #[track_caller]
    fn within_patience(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE * 5, "it is never so");
            thread::yield_now();
        }
    }
}

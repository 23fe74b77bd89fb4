//! A shell command that runs beside us, and no longer than we do.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A command that runs, with all that it has started; dropped, it is ended.
pub struct Running(Child);

impl Running {
    /// Starts a command line of the shell. What it says goes to stderr.
    pub fn start(line: &str) -> io::Result<Self> {
        let said = io::stderr().as_fd().try_clone_to_owned()?;
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(said).process_group(0);
        command.spawn().map(Self)
    }

    /// Its exit code if it has ended: `Some(None)` if a signal has ended it.
    pub fn ended(&mut self) -> io::Result<Option<Option<i32>>> {
        Ok(self.0.try_wait()?.map(|status| status.code()))
    }
}

impl Drop for Running {
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
        let running = || Running::start("sleep 60 & sleep 60").unwrap();
        assert_eq!(running().ended().unwrap(), None);
        is_gone_with(running());
        let mut ended = Running::start("sleep 60 & exit 3").unwrap();
        within_patience(|| ended.ended().unwrap().is_some());
        assert_eq!(ended.ended().unwrap(), Some(Some(3)));
        is_gone_with(ended);
    }

    #[track_caller]
    fn is_gone_with(running: Running) {
        let group = Pid::from_child(&running.0);
        test_kill_process_group(group).unwrap();
        drop(running);
        within_patience(|| test_kill_process_group(group).is_err());
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

//! Processes that belong to a lab, told apart from later ones that happen to get the same number.
//!
//! A process is its number and the time at which it started; both are written down when it starts,
//! so that another `zovn` can end it, and no other process, even if the one that started it is long
//! gone.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pid: u32,
    /// Clock ticks after boot (proc(5), /proc/pid/stat, field 22).
    started: u64,
}

impl Process {
    /// The process that has this number now, if one does and still runs.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::look(pid).and_then(|(process, runs)| runs.then_some(process))
    }

    /// The process that has this number, and whether it still runs: one that has ended has it until
    /// it is reaped.
    fn look(pid: u32) -> Option<(Self, bool)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Field 2 is the program's name in parentheses and may hold anything; field 3 follows the
        // last of them.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let runs = !matches!(fields.next()?, "Z" | "X");
        Some((Self { pid, started: fields.nth(18)?.parse().ok()? }, runs))
    }

    /// Every process that runs.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of(entry.file_name().to_str()?.parse().ok()?))
    }

    /// The network namespace that it is in.
    pub(crate) fn network(self) -> Option<(u64, u64)> {
        identity(Path::new(&format!("/proc/{}/ns/net", self.pid)))
    }

    /// The folder of its threads.
    pub(crate) fn tasks(self) -> PathBuf {
        format!("/proc/{}/task", self.pid).into()
    }

    /// This process.
    pub(crate) fn ourselves() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Asks it to end.
    pub(crate) fn ask(self) {
        // It may be gone by now, which is all we want.
        let _ = self.handle().map(|handle| pidfd_send_signal(&handle, Signal::TERM));
    }

    /// Asks it to end, and ends it after `patience`. Returns once it is gone.
    pub(crate) fn stop(self, patience: Duration) -> io::Result<()> {
        self.ask();
        if self.ends_within(patience)? {
            return Ok(());
        }
        let _ = self.handle().map(|handle| pidfd_send_signal(&handle, Signal::KILL));
        if self.ends_within(Duration::from_secs(10))? {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("process {} does not end", self.pid)))
    }

    /// Whether it is gone after `patience` at the latest.
    pub(crate) fn ends_within(self, patience: Duration) -> io::Result<bool> {
        let Some(handle) = self.handle() else { return Ok(true) };
        let patience = Timespec::try_from(patience).expect("a few seconds fit");
        let mut ended = [PollFd::new(&handle, PollFlags::IN)];
        if poll(&mut ended, Some(&patience))? == 0 {
            return Ok(false);
        }
        // Ours to reap if we started it.
        let _ = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED);
        Ok(true)
    }

    /// Writes it down in `directory` under what it is.
    pub(crate) fn record(self, directory: &Path, what: &str) -> io::Result<()> {
        fs::write(directory.join(format!("{what}.{}", self.pid)), serde_json::to_vec(&self)?)
    }

    /// Those that are written down in `directory`, each behind what it is.
    pub(crate) fn recorded(directory: &Path) -> Vec<(String, Self)> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let process = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            Some((name.rsplit_once('.')?.0.to_owned(), process))
        };
        entries.flatten().filter_map(read).collect()
    }

    /// A handle on this very process, if it is not reaped.
    fn handle(self) -> Option<OwnedFd> {
        let handle =
            pidfd_open(Pid::from_raw(i32::try_from(self.pid).ok()?)?, PidfdFlags::empty()).ok()?;
        // Looked at after the handle was opened: the handle is the process's whose start time this
        // is.
        Self::look(self.pid).is_some_and(|(process, _)| process == self).then_some(handle)
    }
}

/// What tells one namespace's file from every other: its device and its number there.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_process_that_was_meant_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let other = Process { started: process.started + 1, ..process };
        other.stop(Duration::from_secs(5)).unwrap();
        assert!(process.is_alive());
        process.stop(Duration::from_secs(5)).unwrap();
        assert!(!process.is_alive());
        assert!(child.wait().is_err(), "it was reaped with its end");
    }

    #[test]
    fn one_that_has_ended_is_reaped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        child.kill().unwrap();
        while process.is_alive() {
            std::thread::yield_now();
        }
        process.stop(Duration::from_secs(5)).unwrap();
        assert!(child.wait().is_err());
    }

    #[test]
    fn what_was_written_down_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let me = Process::ourselves().unwrap();
        me.record(directory.path(), "ovs-vswitchd").unwrap();
        assert_eq!(Process::recorded(directory.path()), [("ovs-vswitchd".to_owned(), me)]);
        assert!(me.is_alive());
    }
}

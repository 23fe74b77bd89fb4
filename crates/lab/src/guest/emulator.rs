//! QEMU: a process that ends with whoever started it, and what it says.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel::spawn;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};

use crate::guest::GuestError;
use crate::process::Process;

/// How many of its lines an error shows: a kernel's panic with its trace.
const LINES: usize = 60;

/// How long it may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// A guest's machine. Dropped, it is switched off.
pub(super) struct Emulator {
    process: Option<Process>,
    keeper: Option<JoinHandle<()>>,
    log: File,
    sockets: Vec<PathBuf>,
}

impl Emulator {
    /// Starts it. Its stderr is kept; `sockets` are removed at its end.
    pub(super) fn start(mut command: Command, sockets: Vec<PathBuf>) -> Result<Self, GuestError> {
        let log = memfd_create("console", MemfdFlags::CLOEXEC)
            .map_err(GuestError::system("keep a console"))?;
        // QEMU has it open twice.
        fcntl_setfl(&log, OFlags::APPEND).map_err(GuestError::system("keep a console"))?;
        let log = File::from(log);
        command.stderr(log.try_clone().map_err(GuestError::system("keep a console"))?);
        // A terminal's Ctrl-C is for us: we end it.
        command.process_group(0);
        let (tell, told) = mpsc::channel();
        // It dies with the thread that started it: this one, which has nothing else to do, and not
        // the caller's.
        let keeper = thread::spawn(move || {
            let started = spawn::dies_with_parent(&mut command).spawn();
            // And with it our copies of QEMU's ends of its channels: the other ends notice when it
            // ends.
            drop(command);
            match started {
                Ok(mut child) => {
                    let _ = tell.send(Ok(Process::of(child.id())));
                    let _ = child.wait();
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let process =
            told.recv().expect("the keeper tells").map_err(GuestError::system("start QEMU"))?;
        Ok(Self { process, keeper: Some(keeper), log, sockets })
    }

    /// The end of what the guest's kernel, its programs that write to the console, and QEMU said.
    pub(super) fn last_words(&self) -> String {
        let mut said = vec![0; self.log.metadata().map_or(0, |metadata| metadata.len() as usize)];
        // What cannot be read is not missed: this is for an error's reader.
        let _ = self.log.read_exact_at(&mut said, 0);
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<_> =
            said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(process) = self.process {
            // One that cannot be ended dies with us.
            let _ = process.stop(PATIENCE);
        }
        let _ = self.keeper.take().map(JoinHandle::join);
        for socket in &self.sockets {
            // QEMU may have removed it.
            let _ = fs::remove_file(socket);
        }
    }
}

//! The guest's side of the channel: starts programs, passes on what they say, tells how they end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::guest::protocol::{Kind, Message};

/// The first port of the guest's only virtio serial device.
const CHANNEL: &str = "/dev/vport0p1";

/// How much of a program's output is passed on at once: what the channel's driver takes in one
/// piece.
const PIECE: usize = 32 << 10;

/// Serves the host until it hangs up: what a guest's agent does, all its life.
///
/// # Errors
///
/// The channel is not there, or is closed.
pub fn serve() -> io::Result<()> {
    let port = File::options().read(true).write(true).open(CHANNEL)?;
    let host = Host(Mutex::new(port.try_clone()?));
    host.say(0, Kind::Ready, [])?;
    let programs = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        loop {
            let Message { program, kind, bytes } = Message::read(&port)?;
            match kind {
                Kind::Start => match start(&bytes) {
                    Ok(mut child) => {
                        let (input, inputs) = mpsc::channel();
                        lock(&programs)
                            .insert(program, Program { pid: pid(&child), input: Some(input) });
                        let mut stdin = child.stdin.take().expect("its stdin is a pipe");
                        // A program may read late, or never: nobody else waits for it.
                        scope.spawn(move || {
                            inputs.iter().try_for_each(|bytes: Vec<u8>| stdin.write_all(&bytes))
                        });
                        let (host, programs) = (&host, &programs);
                        scope.spawn(move || host.follow(program, child, programs));
                    }
                    Err(error) => host.say(program, Kind::Refused, error.to_string())?,
                },
                Kind::Input => {
                    if let Some(program) = lock(&programs).get_mut(&program) {
                        program.read(bytes);
                    }
                }
                Kind::Kill => {
                    if let Some(program) = lock(&programs).get(&program) {
                        let _ = kill_process_group(program.pid, Signal::KILL);
                    }
                }
                Kind::Ready | Kind::Output | Kind::Error | Kind::Ended | Kind::Refused => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    })
}

/// A program that runs.
struct Program {
    /// Its process and its group. While it is listed here it is not reaped, so nobody else has this
    /// number.
    pid: Pid,
    /// While it is there, its stdin is open.
    input: Option<Sender<Vec<u8>>>,
}

impl Program {
    /// Gives it more to read; nothing is the end of it.
    fn read(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.input = None;
        } else if let Some(input) = &self.input {
            // It may have closed its stdin.
            let _ = input.send(bytes);
        }
    }
}

/// The host at the other end.
struct Host(Mutex<File>);

impl Host {
    fn say(&self, program: u32, kind: Kind, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        Message::new(program, kind, bytes).write(&*lock(&self.0))
    }

    /// Passes on what a program says, until its end.
    fn follow(&self, program: u32, mut child: Child, programs: &Mutex<BTreeMap<u32, Program>>) {
        let stderr = child.stderr.take();
        thread::scope(|scope| {
            scope.spawn(|| self.pass(program, Kind::Error, stderr));
            self.pass(program, Kind::Output, child.stdout.take());
        });
        // It keeps its number until it is no longer listed.
        let _ = waitid(WaitId::Pid(pid(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        lock(programs).remove(&program);
        // Nobody is left to tell if the channel is closed.
        let _ = match child.wait() {
            Ok(status) => self.say(program, Kind::Ended, status.into_raw().to_le_bytes()),
            Err(error) => self.say(program, Kind::Refused, error.to_string()),
        };
    }

    fn pass(&self, program: u32, kind: Kind, pipe: Option<impl Read>) {
        let mut pipe = pipe.expect("its output is a pipe");
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            if self.say(program, kind, &piece[..length]).is_err() {
                return;
            }
        }
    }
}

fn start(arguments: &[u8]) -> io::Result<Child> {
    let mut arguments = arguments.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let program = arguments.next().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// What is behind a lock here is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

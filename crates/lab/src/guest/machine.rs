//! A guest that runs, and the programs that run in it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::LabError;
use crate::guest::control::{Control, End, Told, Vain};
use crate::guest::emulator::Emulator;
use crate::guest::qmp::{Qmp, QmpError};
use crate::guest::{GuestError, GuestSpec, Image};
use crate::program::find;

/// A guest that has booted. Dropped, it is switched off, and its sockets are gone; so it is if this
/// process is killed.
pub struct Guest {
    machine: Machine,
    qmp: Mutex<Qmp>,
}

/// A guest that boots: see [`Guest::start`].
pub struct Booting {
    machine: Machine,
    qmp: UnixStream,
}

/// A program in a guest. Dropped, it is ended, along with those that it has started itself.
pub struct Running<'a> {
    machine: &'a Machine,
    number: u32,
    what: String,
    /// How much of its stdout was read line by line.
    read: usize,
}

struct Machine {
    spec: GuestSpec,
    // Before the channel, which ends with it.
    emulator: Emulator,
    control: Control,
}

impl Guest {
    /// Boots a guest, and returns once its agent serves and its interfaces have their addresses.
    ///
    /// # Errors
    ///
    /// [`GuestError`], with the end of what its console said; nothing of it is left then.
    pub fn boot(image: &Image, spec: GuestSpec) -> Result<Self, GuestError> {
        Self::start(image, spec)?.ready()
    }

    /// Begins to boot a guest: several boot at once.
    ///
    /// # Errors
    ///
    /// [`GuestError::Lab`] if QEMU is not installed, [`GuestError::System`] if it cannot be
    /// started.
    pub fn start(image: &Image, spec: GuestSpec) -> Result<Booting, GuestError> {
        let (agent, its_agent) =
            UnixStream::pair().map_err(GuestError::system("make a channel"))?;
        let (qmp, its_qmp) = UnixStream::pair().map_err(GuestError::system("make a channel"))?;
        qmp.set_read_timeout(Some(spec.patience)).map_err(GuestError::system("make a channel"))?;
        let program = "qemu-system-x86_64";
        let mut command = Command::new(
            find(program).ok_or(LabError::Missing { program, package: "qemu-system-x86" })?,
        );
        command
            .args(spec.arguments(image))
            .stdin(OwnedFd::from(its_agent))
            .stdout(OwnedFd::from(its_qmp));
        let emulator = Emulator::start(command, spec.listens().map(Into::into).collect())?;
        let control = Control::new(agent).map_err(GuestError::system("listen to a guest"))?;
        Ok(Booting { machine: Machine { spec, emulator, control }, qmp })
    }

    /// Runs a program to its end, with nothing to read.
    ///
    /// # Errors
    ///
    /// [`GuestError`] if it does not start or end. How it ended, and whether well, is in the
    /// output.
    pub fn run<A: AsRef<OsStr>>(&self, command: &[A]) -> Result<Output, GuestError> {
        self.machine.run(command)
    }

    /// Starts a program. What it is to read is written by [`Running::write`].
    ///
    /// # Panics
    ///
    /// If its arguments are longer than a mebibyte.
    pub fn spawn<A: AsRef<OsStr>>(&self, command: &[A]) -> Running<'_> {
        self.machine.spawn(command)
    }

    /// Stalls the guest: none of its processors moves, and its memory stays.
    ///
    /// # Errors
    ///
    /// [`GuestError`]: QEMU does not answer, or does not want to.
    pub fn pause(&self) -> Result<(), GuestError> {
        self.qmp("stop", json!({})).map(drop)
    }

    /// Lets a paused guest go on.
    ///
    /// # Errors
    ///
    /// As [`Guest::pause`].
    pub fn resume(&self) -> Result<(), GuestError> {
        self.qmp("cont", json!({})).map(drop)
    }

    /// Pulls an interface, by its number, out of the guest, and returns when the guest has let it
    /// go. Its switch stays connected: only its queues end.
    ///
    /// # Errors
    ///
    /// As [`Guest::pause`]; [`GuestError::Late`] if the guest does not let go.
    pub fn unplug(&self, nic: usize) -> Result<(), GuestError> {
        let id = format!("nic{nic}");
        self.qmp("device_del", json!({ "id": id }))?;
        let mut qmp = self.qmp.lock().unwrap_or_else(PoisonError::into_inner);
        while qmp
            .event("DEVICE_DELETED")
            .map_err(|error| self.machine.unmoved("device_del", error))?["device"]
            != *id
        {}
        Ok(())
    }

    /// Has QEMU do anything else that it can (its QMP reference), and returns what it returns.
    ///
    /// # Errors
    ///
    /// As [`Guest::pause`].
    pub fn qmp(&self, command: &str, arguments: Value) -> Result<Value, GuestError> {
        let mut qmp = self.qmp.lock().unwrap_or_else(PoisonError::into_inner);
        qmp.execute(command, arguments).map_err(|error| self.machine.unmoved(command, error))
    }
}

impl Booting {
    /// Waits until the guest's agent serves, and gives its interfaces their addresses.
    ///
    /// # Errors
    ///
    /// As [`Guest::boot`].
    pub fn ready(self) -> Result<Guest, GuestError> {
        let Self { machine, qmp } = self;
        machine.wait("boot", |told| told.is_ready.then_some(()))?;
        let qmp = Qmp::open(qmp).map_err(|error| machine.unmoved("qmp_capabilities", error))?;
        for (number, nic) in machine.spec.nics.iter().enumerate() {
            let device = format!("eth{number}");
            for address in &nic.addresses {
                machine.succeed(&["ip", "address", "add", &address.to_string(), "dev", &device])?;
            }
            machine.succeed(&["ip", "link", "set", &device, "up"])?;
        }
        Ok(Guest { machine, qmp: Mutex::new(qmp) })
    }
}

impl Running<'_> {
    /// Gives it something to read.
    pub fn write(&self, bytes: &[u8]) {
        self.machine.control.input(self.number, bytes);
    }

    /// Lets it read the end of its stdin, once it has read the rest.
    pub fn end_input(&self) {
        self.machine.control.end_input(self.number);
    }

    /// The next line that it writes to stdout, without its end; nothing if it has ended before one
    /// was complete.
    ///
    /// # Errors
    ///
    /// [`GuestError`] if neither comes.
    pub fn line(&mut self) -> Result<Option<String>, GuestError> {
        let (number, read) = (self.number, self.read);
        let line = self.machine.wait(&format!("say a line by `{}`", self.what), |told| {
            let said = told.of(number);
            let new = &said.stdout[read..];
            match new.iter().position(|byte| *byte == b'\n') {
                Some(end) => Some(Some(new[..end].to_vec())),
                None => said.end.is_some().then_some(None),
            }
        })?;
        Ok(line.map(|line| {
            self.read += line.len() + 1;
            String::from_utf8_lossy(&line).into_owned()
        }))
    }

    /// Waits for its end and that of whoever else has its stdout or stderr, and returns all that
    /// was said there.
    ///
    /// # Errors
    ///
    /// [`GuestError`] if it did not start or does not end.
    pub fn output(self) -> Result<Output, GuestError> {
        let number = self.number;
        let (end, stdout, stderr) = self.machine.wait(&format!("end `{}`", self.what), |told| {
            let said = told.of(number);
            let end = said.end.take()?;
            Some((end, std::mem::take(&mut said.stdout), std::mem::take(&mut said.stderr)))
        })?;
        match end {
            End::Ended(status) => Ok(Output { status, stdout, stderr }),
            End::Refused(said) => Err(self.machine.failed(self.what.clone(), said)),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.machine.control.forget(self.number);
    }
}

impl Machine {
    fn spawn<A: AsRef<OsStr>>(&self, command: &[A]) -> Running<'_> {
        let words: Vec<_> = command.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        Running {
            machine: self,
            number: self.control.start(command),
            what: words.join(" "),
            read: 0,
        }
    }

    fn run<A: AsRef<OsStr>>(&self, command: &[A]) -> Result<Output, GuestError> {
        let running = self.spawn(command);
        running.end_input();
        running.output()
    }

    /// Runs a program that must succeed.
    fn succeed(&self, command: &[&str]) -> Result<(), GuestError> {
        let Output { status, stderr, .. } = self.run(command)?;
        if status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&stderr).trim_end().to_owned();
        Err(self.failed(command.join(" "), said))
    }

    fn wait<T>(
        &self,
        what: &str,
        look: impl FnMut(&mut Told) -> Option<T>,
    ) -> Result<T, GuestError> {
        self.control.wait(self.spec.patience, look).map_err(|vain| match vain {
            Vain::Gone => self.gone(),
            Vain::Late => self.late(what),
        })
    }

    fn failed(&self, program: String, said: String) -> GuestError {
        GuestError::Program { guest: self.spec.name.clone(), program, said }
    }

    fn gone(&self) -> GuestError {
        GuestError::Ended { guest: self.spec.name.clone(), console: self.emulator.last_words() }
    }

    fn late(&self, what: &str) -> GuestError {
        GuestError::Late {
            guest: self.spec.name.clone(),
            what: what.to_owned(),
            seconds: self.spec.patience.as_secs(),
            console: self.emulator.last_words(),
        }
    }

    /// Why QEMU did not do what it was told.
    fn unmoved(&self, command: &str, error: QmpError) -> GuestError {
        match error {
            QmpError::Refused(said) => GuestError::Refused {
                guest: self.spec.name.clone(),
                command: command.to_owned(),
                said,
            },
            QmpError::Io(error) if error.kind() == io::ErrorKind::WouldBlock => self.late(command),
            QmpError::Io(_) => self.gone(),
        }
    }
}

//! The host's side of the channel: what a guest's programs have said so far, and how they ended.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::guest::protocol::{Kind, Message};

/// How much of a program's input goes in one message.
const PIECE: usize = 32 << 10;

/// A guest's channel.
pub(super) struct Control {
    sending: Mutex<UnixStream>,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// What the guest has told.
#[derive(Default)]
pub(super) struct Told {
    /// The agent serves.
    pub(super) is_ready: bool,
    /// Nothing more will come.
    pub(super) is_gone: bool,
    last: u32,
    programs: BTreeMap<u32, Said>,
}

/// What a program has said.
#[derive(Default)]
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) end: Option<End>,
}

/// How a program came to its end.
pub(super) enum End {
    Ended(ExitStatus),
    /// It never began.
    Refused(String),
}

/// Why waiting was in vain.
pub(super) enum Vain {
    Gone,
    Late,
}

#[derive(Default)]
struct Shared {
    told: Mutex<Told>,
    changed: Condvar,
}

impl Control {
    /// Listens until the guest hangs up.
    pub(super) fn new(channel: UnixStream) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (receiving, teller) = (channel.try_clone()?, Arc::clone(&shared));
        let listener = thread::spawn(move || {
            while let Ok(message) = Message::read(&receiving) {
                teller.tell(|told| told.note(message));
            }
            teller.tell(|told| told.is_gone = true);
        });
        Ok(Self { sending: Mutex::new(channel), shared, listener: Some(listener) })
    }

    /// Waits until `look` finds in what was told what the caller waits for.
    pub(super) fn wait<T>(
        &self,
        patience: Duration,
        mut look: impl FnMut(&mut Told) -> Option<T>,
    ) -> Result<T, Vain> {
        let end = Instant::now() + patience;
        let mut told = self.shared.lock();
        loop {
            if let Some(found) = look(&mut told) {
                return Ok(found);
            }
            if told.is_gone {
                return Err(Vain::Gone);
            }
            let left = end.checked_duration_since(Instant::now()).ok_or(Vain::Late)?;
            told = self
                .shared
                .changed
                .wait_timeout(told, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Has a program started, whose number is returned. If the guest is gone, whoever waits for the
    /// program is told.
    pub(super) fn start<A: AsRef<OsStr>>(&self, command: &[A]) -> u32 {
        let mut told = self.shared.lock();
        told.last += 1;
        let program = told.last;
        told.programs.insert(program, Said::default());
        drop(told);
        let arguments: Vec<_> =
            command.iter().map(|argument| argument.as_ref().as_bytes()).collect();
        self.send(&Message::new(program, Kind::Start, arguments.join(&0)));
        program
    }

    /// Gives a program more to read.
    pub(super) fn input(&self, program: u32, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.send(&Message::new(program, Kind::Input, piece));
        }
    }

    /// Lets a program read the end of its stdin.
    pub(super) fn end_input(&self, program: u32) {
        self.send(&Message::new(program, Kind::Input, []));
    }

    /// Forgets a program, and ends it if it still runs.
    pub(super) fn forget(&self, program: u32) {
        let said = self.shared.lock().programs.remove(&program);
        if said.is_some_and(|said| said.end.is_none()) {
            self.send(&Message::new(program, Kind::Kill, []));
        }
    }

    fn send(&self, message: &Message) {
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        // A guest that is gone is noticed by the listener.
        let _ = message.write(&*sending);
    }
}

impl Drop for Control {
    /// Waits for the listener, which hears that the emulator has ended: drop it before.
    fn drop(&mut self) {
        let _ = self.listener.take().map(JoinHandle::join);
    }
}

impl Told {
    /// What a program has said; it is there until it is forgotten.
    pub(super) fn of(&mut self, program: u32) -> &mut Said {
        self.programs.get_mut(&program).expect("a program is waited for until it is forgotten")
    }

    fn note(&mut self, message: Message) {
        let Message { program, kind, bytes } = message;
        self.is_ready |= kind == Kind::Ready;
        // One that was forgotten may have gone on for a while.
        let Some(said) = self.programs.get_mut(&program) else { return };
        match kind {
            Kind::Output => said.stdout.extend(bytes),
            Kind::Error => said.stderr.extend(bytes),
            Kind::Ended => {
                let status = bytes.try_into().map(i32::from_le_bytes);
                said.end = status.ok().map(|status| End::Ended(ExitStatus::from_raw(status)));
            }
            Kind::Refused => {
                said.end = Some(End::Refused(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Kind::Ready | Kind::Start | Kind::Input | Kind::Kill => {}
        }
    }
}

impl Shared {
    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Nobody leaves it half-changed.
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

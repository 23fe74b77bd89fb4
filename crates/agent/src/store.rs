//! What outlives an agent: descriptors that the service manager keeps for the next one
//! (sd_notify(3), `FDSTORE=1`).
//!
//! ```text
//!   Host ─keep, forget─▶ (thread) ─datagrams─▶ service manager ─LISTEN_FDS─▶ the next agent's Store
//! ```
//!
//! A manager that does not listen for a while keeps nobody waiting but the thread that speaks to
//! it.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use kernel::inherited;
use model::PortName;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use vhost::handover::Handover;

/// How long the service manager may leave a word unread.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager's store of descriptors. By default there is none: nothing is kept.
#[derive(Debug, Default)]
pub struct Store {
    inherited: Vec<(String, OwnedFd)>,
    speaker: Option<Speaker>,
}

/// Says to the manager what is to be said, and ends with whoever has it, when all of it was said.
#[derive(Debug)]
struct Speaker {
    words: Option<Sender<(String, Option<OwnedFd>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// The store of the manager that started this process, if one did, with what the agent before
    /// has left there.
    pub fn open() -> Self {
        let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        match Speaker::start(&address) {
            Ok(speaker) => Self { inherited: inherited::descriptors(), speaker: Some(speaker) },
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be spoken to: it keeps nothing for the next agent");
                Self::default()
            }
        }
    }

    /// What the agent before has left, by the names that it is kept by; once.
    pub(crate) fn inherited(&mut self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut self.inherited)
    }

    /// A place where a port can leave what the next agent needs, if anybody keeps it.
    pub(crate) fn handover(&self, port: &PortName) -> Option<Handover> {
        let speaker = self.speaker.as_ref()?;
        let made = Handover::new().and_then(|made| Ok((made.as_fd().try_clone_to_owned()?, made)));
        match made {
            Ok((kept, handover)) => {
                // In the place of one that could not be inherited.
                self.forget(&name(port));
                speaker.say(format!("FDSTORE=1\nFDNAME={}\n", name(port)), Some(kept));
                Some(handover)
            }
            Err(error) => {
                tracing::warn!(%port, %error, "nothing is left to the next agent: raise the limit on open files");
                None
            }
        }
    }

    /// Has the manager forget what it keeps by this name.
    pub(crate) fn forget(&self, name: &str) {
        if let Some(speaker) = &self.speaker {
            speaker.say(format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), None);
        }
    }
}

/// By what name a port's [`Handover`] is kept: the manager has colons between names.
pub(crate) fn name(port: &PortName) -> String {
    port.0.replace('%', "%25").replace(':', "%3a")
}

impl Speaker {
    fn start(address: &OsStr) -> io::Result<Self> {
        let to = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
            path => SocketAddrUnix::new(path)?,
        };
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        // A manager that does not listen stops nobody from ending.
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        let (words, to_say) = mpsc::channel();
        let speak = move || speak(&socket, &to, &to_say);
        let thread = std::thread::Builder::new().name("zovn-store".into()).spawn(speak)?;
        Ok(Self { words: Some(words), thread: Some(thread) })
    }

    fn say(&self, words: String, fd: Option<OwnedFd>) {
        let sent = self.words.as_ref().map(|to| to.send((words, fd)));
        debug_assert!(matches!(sent, Some(Ok(()))), "the thread lives as long as we do");
    }
}

/// When all has been said.
impl Drop for Speaker {
    fn drop(&mut self) {
        self.words = None;
        self.thread.take().map(JoinHandle::join);
    }
}

fn speak(socket: &OwnedFd, to: &SocketAddrUnix, to_say: &Receiver<(String, Option<OwnedFd>)>) {
    for (words, fd) in to_say {
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(
            fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)),
            "room for one"
        );
        let words = [IoSlice::new(words.as_bytes())];
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg_addr(socket, to, &words, &mut control, SendFlags::NOSIGNAL)
        });
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager keeps nothing for the next agent");
        }
    }
}

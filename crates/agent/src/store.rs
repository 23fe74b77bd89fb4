//! Descriptors that outlive an agent: the service manager keeps them for the next one
//! (sd_notify(3), `FDSTORE=1`).
//!
//! ```text
//!   Host ─keep, forget─▶ (thread) ─datagrams─▶ service manager ─LISTEN_FDS─▶ the next agent's Store
//! ```
//!
//! Only the thread that sends to the manager waits if the manager does not respond.

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

/// How long to wait for the service manager to read a message.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager's store of descriptors. The default is no store: nothing is kept.
#[derive(Debug, Default)]
pub struct Store {
    inherited: Vec<(String, OwnedFd)>,
    speaker: Option<Speaker>,
}

/// Sends messages to the manager in a thread. Dropping this waits until all were sent.
#[derive(Debug)]
struct Speaker {
    words: Option<Sender<(String, Option<OwnedFd>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// The store of the service manager that started this process, if any, with what the previous
    /// agent has left there.
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

    /// Takes what the previous agent has left, by name.
    pub(crate) fn inherited(&mut self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut self.inherited)
    }

    /// Where a port can leave what the next agent needs; `None` if there is no store.
    pub(crate) fn handover(&self, port: &PortName) -> Option<Handover> {
        let speaker = self.speaker.as_ref()?;
        let made = Handover::new().and_then(|made| Ok((made.as_fd().try_clone_to_owned()?, made)));
        match made {
            Ok((kept, handover)) => {
                // Replaces one that could not be inherited.
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

    /// Removes what the manager keeps by this name.
    pub(crate) fn forget(&self, name: &str) {
        if let Some(speaker) = &self.speaker {
            speaker.say(format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), None);
        }
    }
}

/// The name by which a port's [`Handover`] is kept. The manager separates names by colons.
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
        // A manager that does not respond must not keep the agent from ending.
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

/// When all messages were sent.
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

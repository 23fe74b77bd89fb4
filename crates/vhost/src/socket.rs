//! The Unix socket: messages whole, with their descriptors, without ever waiting.
//!
//! ```text
//!   Listener ─accept─▶ Connection ─receive─▶ header, payload, descriptors
//!   connect ─────────▶            ◀──send──  bytes, descriptor
//! ```
//!
//! A message is read no further than its header says, so that the descriptors that arrive are its
//! own. Whatever the other side does, every descriptor it sent is either handed on or closed, and
//! none survives an `exec`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::message::{Bytes, HEADER_LEN, Header, MAX_FDS, MAX_PAYLOAD, MessageError};

/// How long to wait before another try, after [`connect`] failed or its connection ended.
pub const RETRY: Duration = Duration::from_secs(1);

/// How many connections may wait to be accepted.
const BACKLOG: usize = 8;

/// Who may connect to a socket of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Our own user: mode 0600.
    Owner,
    /// Our group as well: mode 0660.
    Group,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {source}{hint}", path.display())]
pub struct SocketError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
    hint: &'static str,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// What came is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// More descriptors than any message has.
    #[error(
        "cannot read a message: more than {MAX_FDS} descriptors came with it; use another peer"
    )]
    Descriptors,
    /// It ended in the middle of a message.
    #[error(
        "cannot read a message: its sender closed the connection in the middle of it; connect again"
    )]
    Cut,
    /// The kernel gave up.
    #[error("cannot {operation} the connection: {source}; connect again")]
    Broken {
        /// What was tried, as a verb phrase.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A socket that front-ends connect to. Its file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// The file's device and number: somebody may have put another one in its place. `None`: it
    /// stays.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Makes a socket there. One that a dead process left is replaced.
    ///
    /// # Errors
    ///
    /// [`SocketError`]: somebody listens there, there is a file of another kind, or we may not.
    pub fn bind(path: &Path, access: Access) -> Result<Self, SocketError> {
        let because = because("listen on", path);
        let address = SocketAddrUnix::new(path).map_err(&because)?;
        clear(path, &address).map_err(&because)?;
        let mode = match access {
            Access::Owner => 0o600,
            Access::Group => 0o660,
        };
        let socket = socket().map_err(&because)?;
        // The file is made with the socket's own mode (unix(7)), less the umask: at no time may
        // others connect.
        rustix::fs::fchmod(&socket, mode.into()).map_err(&because)?;
        rustix::net::bind(&socket, &address).map_err(&because)?;
        let metadata = || {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
            std::fs::symlink_metadata(path)
        };
        let listening = rustix::net::listen(&socket, BACKLOG as i32)
            .map_err(io::Error::from)
            .and_then(|()| metadata());
        match listening {
            Ok(metadata) => {
                Ok(Self { socket, path: path.into(), file: Some((metadata.dev(), metadata.ino())) })
            }
            Err(source) => {
                let _ = std::fs::remove_file(path);
                Err(SocketError { operation: "listen on", path: path.into(), source, hint: "" })
            }
        }
    }

    /// Goes on listening where somebody [left](Self::leave) this socket and its file.
    ///
    /// # Errors
    ///
    /// [`SocketError`]: the file is gone.
    pub fn inherited(socket: OwnedFd, path: &Path) -> Result<Self, SocketError> {
        match std::fs::symlink_metadata(path) {
            Ok(there) => {
                Ok(Self { socket, path: path.into(), file: Some((there.dev(), there.ino())) })
            }
            Err(source) => {
                Err(SocketError { operation: "listen on", path: path.into(), source, hint: "" })
            }
        }
    }

    /// Listens no longer, and leaves the file to whoever has a duplicate of the socket.
    pub fn leave(mut self) {
        self.file = None;
    }

    /// The next front-end that has connected, if one has.
    ///
    /// # Errors
    ///
    /// [`SocketError`]: the process has too many files open, for instance.
    pub fn accept(&self) -> Result<Option<Connection>, SocketError> {
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Connection::new(socket))),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(error) => Err(because("accept a connection to", &self.path)(error)),
        }
    }

    /// Closes connections that wait to be accepted, since a port has one front-end at a time.
    /// Returns how many.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn turn_away(&self) -> Result<usize, SocketError> {
        let mut turned_away = 0;
        while turned_away < BACKLOG && self.accept()?.is_some() {
            turned_away += 1;
        }
        Ok(turned_away)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Readable when somebody has connected.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let there = std::fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| Some((there.dev(), there.ino())) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to a front-end that listens there. If it does not yet, try again after [`RETRY`].
///
/// # Errors
///
/// [`SocketError`]: nobody listens, or we may not.
pub fn connect(path: &Path) -> Result<Connection, SocketError> {
    let because = because("connect to", path);
    let address = SocketAddrUnix::new(path).map_err(&because)?;
    let socket = socket().map_err(&because)?;
    rustix::net::connect(&socket, &address).map_err(because)?;
    Ok(Connection::new(socket))
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes the socket that a dead process left there.
fn clear(path: &Path, address: &SocketAddrUnix) -> Result<(), Errno> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(Errno::EXIST),
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    match rustix::net::connect(&socket()?, address) {
        Err(Errno::CONNREFUSED) => {
            let removed = std::fs::remove_file(path);
            removed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
        Err(Errno::NOENT) => Ok(()),
        // Somebody took the connection, or has too many waiting.
        Ok(()) | Err(Errno::AGAIN) => Err(Errno::ADDRINUSE),
        Err(error) => Err(error),
    }
}

fn because(operation: &'static str, path: &Path) -> impl Fn(Errno) -> SocketError {
    move |error| SocketError {
        operation,
        path: path.into(),
        source: error.into(),
        hint: match error {
            Errno::ADDRINUSE => "; another process listens there: choose another path",
            Errno::EXIST => "; it is no socket: choose another path",
            Errno::NAMETOOLONG | Errno::INVAL => "; a socket's path has 107 bytes at most",
            Errno::ACCESS | Errno::PERM => "; give this user the right to",
            Errno::NOENT => "; make its directory, or start who listens there",
            Errno::CONNREFUSED => "; start who listens there",
            Errno::MFILE | Errno::NFILE => "; raise the limit on open files",
            _ => "",
        },
    }
}

/// A message that has arrived whole.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its header.
    pub header: Header,
    /// What followed.
    pub payload: &'a [u8],
    /// The descriptors that came with it, at most [`MAX_FDS`].
    pub fds: Vec<OwnedFd>,
}

/// What a connection holds.
#[derive(Debug)]
pub enum Received<'a> {
    /// A message.
    Message(Frame<'a>),
    /// Nothing more for now: wait for an event.
    Nothing,
    /// It was closed by the other side, after a whole message.
    Closed,
}

/// A connection to the other side.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// The message that is arriving: so much of it is here.
    len: usize,
    bytes: [u8; HEADER_LEN + MAX_PAYLOAD],
    fds: Vec<OwnedFd>,
    leaving: Option<Leaving>,
}

/// A message that the socket did not take whole yet.
#[derive(Debug)]
struct Leaving {
    bytes: Bytes,
    sent: usize,
    /// Those go with the first byte.
    fds: Vec<OwnedFd>,
}

impl Connection {
    /// A connection over a socket that does not block.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, len: 0, bytes: [0; _], fds: Vec::new(), leaving: None }
    }

    /// The next message. While one of ours has not left, there is none: so a peer that does not
    /// read its replies is not served further.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]: the connection is of no use any more.
    pub fn receive(&mut self) -> Result<Received<'_>, ConnectionError> {
        if !self.flush()? {
            return Ok(Received::Nothing);
        }
        let header = loop {
            let header = self.bytes[..self.len].first_chunk().map(Header::parse).transpose()?;
            let end = HEADER_LEN + header.map_or(0, |header| header.payload_len());
            match header {
                Some(header) if self.len == end => break header,
                _ => {}
            }
            match self.read(end)? {
                Read::Some => {}
                Read::Nothing => return Ok(Received::Nothing),
                Read::End if self.len == 0 => return Ok(Received::Closed),
                Read::End => return Err(ConnectionError::Cut),
            }
        };
        let payload = &self.bytes[HEADER_LEN..std::mem::take(&mut self.len)];
        Ok(Received::Message(Frame { header, payload, fds: std::mem::take(&mut self.fds) }))
    }

    /// Reads up to `end` of the message that is arriving.
    fn read(&mut self, end: usize) -> Result<Read, ConnectionError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut self.bytes[self.len..end])];
        let received =
            rustix::net::recvmsg(&self.socket, into, &mut control, RecvFlags::CMSG_CLOEXEC);
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Read::Nothing),
            Err(Errno::CONNRESET) => return Ok(Read::End),
            Err(error) => {
                return Err(ConnectionError::Broken { operation: "read", source: error.into() });
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || self.fds.len() > MAX_FDS {
            return Err(ConnectionError::Descriptors);
        }
        self.len += received.bytes;
        Ok(if received.bytes == 0 { Read::End } else { Read::Some })
    }

    /// Sends a message with descriptors. What the socket does not take at once leaves with
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]: the connection is of no use any more.
    ///
    /// # Panics
    ///
    /// If the message before has not left yet.
    pub fn send(&mut self, bytes: Bytes, fds: Vec<OwnedFd>) -> Result<(), ConnectionError> {
        assert!(self.leaving.is_none(), "one message at a time");
        self.leaving = Some(Leaving { bytes, sent: 0, fds });
        self.flush().map(drop)
    }

    /// Whether no message is here or has left in part only: whoever has the socket has the
    /// connection.
    pub fn is_between_messages(&self) -> bool {
        self.len == 0 && self.fds.is_empty() && self.leaving.is_none()
    }

    /// Whether a message of ours has not left yet: wait until the socket can be written to, and not
    /// until it can be read.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Sends what has not left yet. Returns whether all has; if not, wait until the socket can be
    /// written to.
    ///
    /// # Errors
    ///
    /// [`ConnectionError`]: the connection is of no use any more.
    pub fn flush(&mut self) -> Result<bool, ConnectionError> {
        while let Some(leaving) = &mut self.leaving {
            let rest = &leaving.bytes.as_ref()[leaving.sent..];
            let fds: Vec<_> = leaving.fds.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                assert!(
                    control.push(SendAncillaryMessage::ScmRights(&fds)),
                    "{} descriptors",
                    fds.len()
                );
            }
            let sent = rustix::net::sendmsg(
                &self.socket,
                &[IoSlice::new(rest)],
                &mut control,
                SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(sent) if sent == rest.len() => self.leaving = None,
                Ok(sent) => {
                    leaving.sent += sent;
                    leaving.fds.clear();
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(ConnectionError::Broken {
                        operation: "write to",
                        source: error.into(),
                    });
                }
            }
        }
        Ok(true)
    }
}

enum Read {
    Some,
    Nothing,
    End,
}

/// Readable when a message may have arrived.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

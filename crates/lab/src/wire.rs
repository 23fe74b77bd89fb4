//! A machine's end of its interface, for frames as they are.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::netlink::Netlink;
use kernel::netns::Namespace;
use kernel::packet;
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use crate::{INTERFACE, LabError};

/// How many bytes of what has come wait until they are taken, as the kernel counts them.
const ROOM: usize = 8 << 20;

/// A machine's end of its interface.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// The end of the interface that an agent has made in a namespace.
    pub(crate) fn at(namespace: &Namespace) -> Result<Self, LabError> {
        let link = Netlink::open_in(namespace)?.index(INTERFACE)?;
        let opened = namespace.run(|| {
            let socket = packet::tap(link)?;
            sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)?;
            Ok(socket)
        })?;
        Ok(Self { socket: opened.map_err(LabError::kernel("open a machine's interface"))? })
    }

    /// Sends a frame, as it is.
    ///
    /// # Errors
    ///
    /// What the kernel says, as that it is too long.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        whole(frame, rustix::net::send(&self.socket, frame, SendFlags::empty())?)
    }

    /// Sends a frame if the interface has room for it now; whether it had.
    ///
    /// # Errors
    ///
    /// What the kernel says, as that the interface is gone.
    pub fn offer(&self, frame: &[u8]) -> io::Result<bool> {
        match rustix::net::send(&self.socket, frame, SendFlags::DONTWAIT) {
            Ok(len) => whole(frame, len).map(|()| true),
            // A queue that drops says that it has none (netdevice's ENOBUFS).
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The next frame that has come in, as it was on the wire.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        packet::receive(&self.socket)
    }

    /// How many frames have come in for which there was no room, since this was asked last.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn missed(&self) -> io::Result<u32> {
        packet::missed(&self.socket)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether all of a frame was sent.
fn whole(frame: &[u8], len: usize) -> io::Result<()> {
    if len == frame.len() {
        return Ok(());
    }
    Err(io::Error::other(format!("{len} of {} bytes were sent", frame.len())))
}

//! Sockets of both ends, and what bounds both.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt as known;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with};

/// All hops that a packet can have left.
pub const ALL: u8 = 255;

/// The longest payload that is sent or received whole, in bytes; of a longer one that comes, so
/// many are seen.
pub const LONGEST: usize = 64;

/// How many datagrams go through one system call at most.
pub const BATCH: usize = 64;

/// What a socket may hold, in bytes of the kernel's count: some thousand small datagrams each way.
const BUFFER: usize = 4 << 20;

/// A socket at an address, with room for a burst.
pub fn open(
    address: SocketAddr,
    kind: SocketType,
    protocol: Protocol,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, Some(protocol))?;
    // Beyond the system's bound takes CAP_NET_ADMIN; without, a burst may be too large for what
    // there is.
    known::set_socket_recv_buffer_size_force(&socket, BUFFER)
        .or_else(|_| known::set_socket_recv_buffer_size(&socket, BUFFER))?;
    known::set_socket_send_buffer_size_force(&socket, BUFFER)
        .or_else(|_| known::set_socket_send_buffer_size(&socket, BUFFER))?;
    prepare(&socket)?;
    bind(&socket, &address)?;
    Ok(socket)
}

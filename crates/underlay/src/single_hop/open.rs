//! Opens sockets; limits of sending and receiving.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt as known;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with};

/// The highest TTL.
pub const ALL: u8 = 255;

/// The longest payload in bytes. Received payloads that are longer are cut.
pub const LONGEST: usize = 64;

/// The most datagrams in one system call.
pub const BATCH: usize = 64;

/// The size of a socket's buffers, in bytes as the kernel counts them: about a thousand small
/// datagrams.
const BUFFER: usize = 4 << 20;

/// Opens a socket at an address, with buffers for a burst.
pub fn open(
    address: SocketAddr,
    kind: SocketType,
    protocol: Protocol,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, Some(protocol))?;
    // Exceeding the system's limit takes CAP_NET_ADMIN. Without it the buffers are smaller.
    known::set_socket_recv_buffer_size_force(&socket, BUFFER)
        .or_else(|_| known::set_socket_recv_buffer_size(&socket, BUFFER))?;
    known::set_socket_send_buffer_size_force(&socket, BUFFER)
        .or_else(|_| known::set_socket_send_buffer_size(&socket, BUFFER))?;
    prepare(&socket)?;
    bind(&socket, &address)?;
    Ok(socket)
}

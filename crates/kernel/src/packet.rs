//! Sockets for whole frames (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::sockopt;

/// A socket that sends frames through one device, by its index, and receives those that announce
/// `protocol`; 0: none. It takes CAP_NET_RAW.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "rustix does not know packet sockets' addresses")]
pub fn socket(link: u32, protocol: u16) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; its descriptor, if it gives one, is nobody else's.
    let socket = unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(io::Error::last_os_error()),
            socket => OwnedFd::from_raw_fd(socket),
        }
    };
    // SAFETY: all zeros are a valid sockaddr_ll, a struct of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = link as i32;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: bind reads as many bytes as it is told of an address that lives on this frame.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Has each frame that a socket sends begin with what the kernel or the card is to do to it: the
/// first [`OFFLOAD`] bytes of virtio_net's header.
pub fn set_offload(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)
}

/// The length of that header in bytes: without the count of buffers.
pub const OFFLOAD: usize = 10;

/// Has what a socket sends overtake whatever else waits at its device, where the queueing
/// discipline knows priorities: 6 is interactive to all of Linux's (tc-prio(8)), and the highest
/// that takes no privilege.
///
/// # Errors
///
/// What the kernel says.
pub fn hurry(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, 6)
}

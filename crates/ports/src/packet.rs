//! Sockets for whole frames (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A socket that sends frames through one device, by its index, and receives those that announce `protocol`; 0: none. It
/// takes CAP_NET_RAW.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "no library of ours knows packet sockets' addresses")]
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

/// Has what a socket sends overtake whatever else waits at its device, where the queueing discipline knows priorities:
/// 6 is interactive to all of Linux's (tc-prio(8)), and the highest that takes no privilege.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "no library of ours knows SO_PRIORITY")]
pub fn hurry(socket: &OwnedFd) -> io::Result<()> {
    let priority: libc::c_int = 6;
    let len = size_of_val(&priority) as libc::socklen_t;
    // SAFETY: SO_PRIORITY reads one int, which lives on this frame.
    let answer = unsafe {
        let value = (&raw const priority).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PRIORITY, value, len)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

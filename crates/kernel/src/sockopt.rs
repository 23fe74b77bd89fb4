//! Options of sockets that `rustix` does not know.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option whose value is an int (setsockopt(2)).
pub fn set(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    #[expect(unsafe_code, reason = "rustix does not know these options")]
    // SAFETY: the kernel reads as many bytes as it is told of a value that lives on this frame.
    let answer = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, value, len)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has a socket receive only what a program of classic BPF (Linux, networking/filter) lets pass.
pub fn filter(socket: &impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let len = size_of_val(&program) as libc::socklen_t;
    #[expect(unsafe_code, reason = "rustix does not know this option")]
    // SAFETY: the kernel copies the program, which lives as long as this call, and writes to none
    // of it.
    let answer = unsafe {
        let (socket, value) = (socket.as_fd().as_raw_fd(), (&raw const program).cast());
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, len)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

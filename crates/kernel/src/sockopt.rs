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
    set_value(socket, level, name, &value)
}

/// Sets an option whose value is a struct of integers.
pub(crate) fn set_value<T: Copy>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of_val(value) as libc::socklen_t;
    #[expect(unsafe_code, reason = "rustix does not know these options")]
    // SAFETY: the kernel reads as many bytes as it is told of a value that is borrowed.
    let answer = unsafe {
        let value = (&raw const *value).cast();
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, value, len)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an option is whose value is two numbers.
pub(crate) fn get_pair(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; 2]> {
    let mut value = [0; 2];
    let mut len = size_of_val(&value) as libc::socklen_t;
    #[expect(unsafe_code, reason = "rustix does not know these options")]
    // SAFETY: the kernel writes at most as many bytes as it is told to an array on this frame.
    let answer = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, value, &raw mut len)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
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

//! What TCP did about losses, connection by connection (linux/tcp.h, `struct tcp_info`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What a connection sent again since it began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Resent {
    /// Segments.
    pub segments: u32,
    /// Retransmission timers that fired; none if this kernel does not tell (Linux does since 6.7).
    pub timeouts: Option<u16>,
}

/// Asks the kernel what a connection has sent again.
///
/// # Errors
///
/// What the kernel answered: the socket is none of TCP's.
pub fn resent(stream: &impl AsFd) -> io::Result<Resent> {
    // SAFETY: all zeros are a valid tcp_info, a struct of integers.
    #[expect(unsafe_code, reason = "the kernel fills it in")]
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    let socket = stream.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes, which are the struct's, and how many they
    // were.
    #[expect(unsafe_code, reason = "rustix does not know TCP_INFO")]
    let answer = unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(socket, level, name, (&raw mut info).cast(), &raw mut len)
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // A kernel writes as much of the struct as it knows.
    let told = len as usize > std::mem::offset_of!(libc::tcp_info, tcpi_total_rto);
    Ok(Resent { segments: info.tcpi_total_retrans, timeouts: told.then_some(info.tcpi_total_rto) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn an_untroubled_connection_sent_nothing_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let resent = resent(&stream).unwrap();
        assert_eq!((resent.segments, resent.timeouts.unwrap_or(0)), (0, 0));
    }

    #[test]
    fn other_sockets_have_nothing_to_tell() {
        assert!(resent(&UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}

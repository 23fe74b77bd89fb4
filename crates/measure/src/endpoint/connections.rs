//! TCP connections without a word in them: one program opens them, the other accepts each and
//! closes it at once, and the first closes it, too, when it has heard of that.
//!
//! The side that closes first keeps what is left of a connection for a minute (RFC 9293 §3.6.1).
//! Here that is the listener, so the other never runs out of ports.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use units::Span;

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::nanos;

/// How long a connection may take until it counts as lost: a handshake's second try is a second
/// after its first (RFC 6298 §2), its third two more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a program that accepts may not look whether it is to end.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens connections for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpConnect {
    /// Who accepts them.
    pub to: SocketAddr,
    /// How many are open at a time, each with a thread of its own.
    pub at_once: u32,
    /// For how long.
    pub duration: Span,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpConnected {
    /// How long each took from its beginning to its end, in nanoseconds.
    pub times_ns: Vec<u64>,
    /// Those that came to no end.
    pub lost: u64,
    /// From the first one's beginning to the last one's end, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Accepts connections until its parent wants the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpAccept {
    /// The port to listen on, on every address.
    pub port: u16,
}

/// What was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpAccepted {
    /// Connections.
    pub accepted: u64,
}

/// Opens connections until the time is over, and waits for the end of each.
pub fn connect(role: &TcpConnect, control: &Control) -> Result<TcpConnected, EndpointError> {
    control.ready();
    let begin = Instant::now();
    let end = begin + Duration::from(role.duration);
    let all: Vec<_> = std::thread::scope(|scope| {
        let one = || open_until(role.to, end);
        let threads: Vec<_> = (0..role.at_once).map(|_| scope.spawn(one)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|opened| opened.expect("whoever opens connections does not panic")).collect()
    });
    let elapsed_ns = nanos(begin.elapsed());
    let mut report = TcpConnected { elapsed_ns, ..TcpConnected::default() };
    for opened in all {
        let TcpConnected { times_ns, lost, .. } = opened.doing("open a connection")?;
        report.times_ns.extend(times_ns);
        report.lost += lost;
    }
    Ok(report)
}

/// One after the other.
fn open_until(to: SocketAddr, end: Instant) -> io::Result<TcpConnected> {
    let mut report = TcpConnected::default();
    loop {
        let begin = Instant::now();
        if begin >= end {
            return Ok(report);
        }
        match open(to) {
            Ok(()) => report.times_ns.push(nanos(begin.elapsed())),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::ConnectionReset
                ) =>
            {
                report.lost += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Opens one, and closes it once the other side has.
fn open(to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::other("it said something")),
    }
}

/// Accepts connections and closes them.
pub fn accept(role: &TcpAccept, control: &Control) -> Result<TcpAccepted, EndpointError> {
    let listener =
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, role.port)).doing("open a listening socket")?;
    listener.set_nonblocking(true).doing("make the listening socket non-blocking")?;
    let mut report = TcpAccepted::default();
    control.ready();
    while !control.finishing() {
        match listener.accept() {
            Ok(_) => report.accepted += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&GLANCE)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error).doing("wait for a connection"),
                }
            }
            Err(error) => return Err(error).doing("accept a connection"),
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_comes_to_its_end_and_nobody_who_listens_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            listener
        });
        let end = Instant::now() + Duration::from_secs(60);
        assert!(open(to).is_ok());
        drop(server.join().unwrap());
        // Nobody listens any more: that is no loss.
        assert_eq!(open_until(to, end).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(open_until(to, Instant::now()).unwrap(), TcpConnected::default());
    }
}

//! Many UDP sockets of one program. Those that nobody reads are full after a datagram or two, and
//! stay so.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, bind, recv, socket, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::GLANCE;

/// Descriptors that a program has besides these sockets.
const OTHERS: u64 = 64;

/// What a socket that nobody reads may hold, in bytes: the kernel makes it as little as it allows.
const ROOM: usize = 1;

/// How long a program that reads may not look whether it is to end.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sockets {
    /// The first one's port, on every address.
    pub port: u16,
    /// How many there are.
    pub count: u16,
    /// All are on that one port, where each broadcast is for all of them. Otherwise each has the
    /// next port.
    pub on_one_port: bool,
    /// Whether they are read.
    pub are_read: bool,
}

/// What came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketsRead {
    /// Datagrams that were read, each as often as it was.
    pub received: u64,
}

/// Holds the sockets until the parent wants the end.
pub fn hold(role: &Sockets, control: &Control) -> Result<SocketsRead, EndpointError> {
    let mut files = getrlimit(Resource::Nofile);
    let needed = u64::from(role.count) + OTHERS;
    if files.current.is_some_and(|current| current < needed) {
        files.current = Some(needed);
        files.maximum = files.maximum.map(|maximum| maximum.max(needed));
        setrlimit(Resource::Nofile, files).doing("raise the limit of open files")?;
    }
    let sockets =
        (0..role.count).map(|number| open(role, number)).collect::<Result<Vec<_>, _>>()?;
    control.ready();
    let mut report = SocketsRead::default();
    if !role.are_read {
        while !control.finishes_within(GLANCE) {}
        return Ok(report);
    }
    while !control.finishing() {
        report.received += read(&sockets).doing("read sockets")?;
    }
    Ok(report)
}

fn open(role: &Sockets, number: u16) -> Result<OwnedFd, EndpointError> {
    let port = if role.on_one_port { Some(role.port) } else { role.port.checked_add(number) };
    let port = port.ok_or_else(|| {
        EndpointError::Role(format!("{} sockets from port {} are too many", role.count, role.port))
    })?;
    let opened = socket(AddressFamily::INET, SocketType::DGRAM, None).and_then(|socket| {
        sockopt::set_socket_reuseaddr(&socket, role.on_one_port)?;
        if !role.are_read {
            sockopt::set_socket_recv_buffer_size(&socket, ROOM)?;
        }
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
        Ok(socket)
    });
    opened.doing("open one of many sockets")
}

/// Reads all that is there, but waits no longer than a glance for it.
fn read(sockets: &[OwnedFd]) -> Result<u64, Errno> {
    let mut waiting: Vec<_> =
        sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    match poll(&mut waiting, Some(&WAIT)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let mut count = 0;
    let has_some = |(_, polled): &(&OwnedFd, &PollFd<'_>)| !polled.revents().is_empty();
    for (socket, _) in sockets.iter().zip(&waiting).filter(has_some) {
        while recv(socket, &mut [0; 2048], RecvFlags::DONTWAIT).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}

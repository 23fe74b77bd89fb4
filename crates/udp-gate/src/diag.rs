//! Lists UDP sockets by sock_diag(7). It needs neither privileges nor BPF, but a system call each
//! time.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use wire::room;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::teller::Watched;

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_SKMEMINFO` and `INET_DIAG_SKV6ONLY`
const MEMORY: u16 = 7;
const V6_ONLY: u16 = 11;

/// The index of the loopback interface. A socket that is bound to it receives nothing from outside.
const LOOPBACK: u32 = 1;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Diag {
    socket: Socket,
    answer: Vec<u8>,
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Request {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family: u8,
    protocol: u8,
    /// A bit for each requested attribute.
    extensions: u8,
    padding: u8,
    states: u32,
    id: [u8; 48],
}

/// The beginning of `struct inet_diag_msg`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    family: u8,
    state: u8,
    timer: u8,
    retransmissions: u8,
    local_port: U16,
    remote_port: U16,
    local: [u8; 16],
    remote: [u8; 16],
    device: [u8; 4],
    cookie: [u8; 8],
    rest: [u8; 20],
}

const _: () = assert!(size_of::<Request>() == 16 + 56 && size_of::<Entry>() == 72);

impl Diag {
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, answer: Vec::with_capacity(64 << 10) })
    }

    /// Appends the namespace's UDP sockets that can receive from outside.
    pub fn list(&mut self, sockets: &mut Vec<Watched>) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.list_family(family as u8, sockets)?;
        }
        Ok(())
    }

    fn list_family(&mut self, family: u8, sockets: &mut Vec<Watched>) -> io::Result<()> {
        let request = Request {
            len: size_of::<Request>() as u32,
            kind: BY_FAMILY,
            flags: NLM_F_REQUEST | NLM_F_DUMP,
            sequence: family.into(),
            port: 0,
            family,
            protocol: libc::IPPROTO_UDP as u8,
            extensions: 1 << (MEMORY - 1),
            padding: 0,
            states: u32::MAX,
            id: [0; 48],
        };
        self.socket.send(request.as_bytes(), 0)?;
        loop {
            self.answer.clear();
            self.socket.recv(&mut self.answer, 0)?;
            let mut rest = &self.answer[..];
            while let Ok(message) = NetlinkBuffer::new_checked(rest) {
                match message.message_type() {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let code = message
                            .payload()
                            .first_chunk()
                            .map_or(-libc::EPROTO, |c| i32::from_ne_bytes(*c));
                        return Err(io::Error::from_raw_os_error(-code));
                    }
                    _ => sockets.extend(read(message.payload())),
                }
                // Messages are aligned to four bytes (NLMSG_ALIGNTO).
                rest =
                    rest.get(message.length().next_multiple_of(4) as usize..).unwrap_or_default();
            }
        }
    }
}

/// Parses one socket; `None` if it cannot receive from outside.
fn read(message: &[u8]) -> Option<Watched> {
    let (entry, attributes) = Entry::ref_from_prefix(message).ok()?;
    let v6 = i32::from(entry.family) == libc::AF_INET6;
    if u32::from_ne_bytes(entry.device) == LOOPBACK || entry.local_port.get() == 0 {
        return None;
    }
    let (mut memory, mut v6_only) = (None, false);
    for attribute in NlasIterator::new(attributes).flatten() {
        match attribute.kind() {
            // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF come first.
            MEMORY => {
                memory =
                    <[u32; 2]>::read_from_prefix(attribute.value()).ok().map(|(memory, _)| memory)
            }
            V6_ONLY => v6_only = attribute.value() == [1],
            _ => {}
        }
    }
    let [occupied, limit] = memory?;
    let address = |bytes: [u8; 16]| match bytes {
        [a, b, c, d, ..] if !v6 => Ipv4Addr::new(a, b, c, d).to_ipv6_mapped(),
        bytes => Ipv6Addr::from(bytes),
    };
    let socket = room::Socket {
        local: address(entry.local),
        remote: address(entry.remote),
        remote_port: entry.remote_port.get(),
        v6,
        v6_only,
        occupied,
        limit,
    };
    Some(Watched { port: entry.local_port.get(), socket })
}

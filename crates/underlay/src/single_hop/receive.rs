//! What neighbours say.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::net::{SocketType, ipproto};

use super::{BATCH, LONGEST, open};
use kernel::sockopt;

/// Room for what the kernel tells of a datagram: of IPv6 a hop limit and an address, each behind its header (cmsg(3)).
const CONTROL: usize = 96;

/// Where a control message's content begins, and a multiple of which they are long (CMSG_ALIGN).
const WORD: usize = size_of::<usize>();

/// A datagram that has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received<'a> {
    /// From whom.
    pub source: IpAddr,
    /// To which address of ours.
    pub destination: IpAddr,
    /// How many hops it had left.
    pub hops: u8,
    /// What it says; of more than [`LONGEST`](super::LONGEST) bytes the first.
    pub payload: &'a [u8],
}

/// Receives the datagrams for one port, at one address of ours or at all of a family.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    places: Box<[Place; BATCH]>,
}

/// Where the kernel puts a datagram and what it tells of it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Place {
    control: Aligned,
    /// Of IPv4 or of IPv6: the larger one.
    source: libc::sockaddr_in6,
    payload: [u8; LONGEST],
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Aligned([u8; CONTROL]);

impl Receiver {
    /// A receiver at `address`; if that is unspecified, at all of its family.
    ///
    /// # Errors
    ///
    /// What the kernel says: the address is none of ours, or somebody else has the port there.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let options = match address {
            SocketAddr::V4(_) => {
                [(libc::IPPROTO_IP, libc::IP_RECVTTL), (libc::IPPROTO_IP, libc::IP_PKTINFO)].as_slice()
            }
            SocketAddr::V6(_) => &[
                (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            ],
        };
        let socket = open(address, SocketType::DGRAM, ipproto::UDP, |socket| {
            options.iter().try_for_each(|&(level, name)| sockopt::set(socket, level, name, 1))
        })?;
        // SAFETY: all zeros are a valid sockaddr_in6, a struct of integers.
        #[expect(unsafe_code, reason = "the kernel fills it in")]
        let source = unsafe { std::mem::zeroed() };
        let place = Place { control: Aligned([0; CONTROL]), source, payload: [0; LONGEST] };
        Ok(Self { socket, places: Box::new([place; BATCH]) })
    }

    /// Takes a batch of datagrams, in the order in which they came, if any have. Whether there may be more.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn receive(&mut self, mut arrived: impl FnMut(Received<'_>)) -> io::Result<bool> {
        // SAFETY: all zeros are valid mmsghdrs and iovecs, structs of integers and null pointers.
        #[expect(unsafe_code, reason = "the C library may have fields of its own in them")]
        let (mut messages, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
            unsafe { std::mem::zeroed() };
        for ((message, place), part) in messages.iter_mut().zip(self.places.iter_mut()).zip(&mut parts) {
            part.iov_base = place.payload.as_mut_ptr().cast();
            part.iov_len = LONGEST;
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut place.source).cast();
            header.msg_namelen = size_of_val(&place.source) as libc::socklen_t;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut place.control).cast();
            header.msg_controllen = CONTROL;
        }
        #[expect(unsafe_code, reason = "no library of ours knows recvmmsg")]
        // SAFETY: each message names parts of a place of its own, with their lengths; all of them live until the kernel is
        // done, and nobody else looks at them meanwhile.
        let count = unsafe {
            let (messages, flags) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT);
            libc::recvmmsg(self.socket.as_raw_fd(), messages, BATCH as libc::c_uint, flags, ptr::null_mut())
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(false) } else { Err(error) };
        };
        for (place, message) in self.places.iter().zip(&messages[..count]) {
            let told = &place.control.0[..message.msg_hdr.msg_controllen.min(CONTROL)];
            // The kernel was asked to tell, and there was room for it.
            let Some((destination, hops)) = tell(told) else { continue };
            let payload = &place.payload[..LONGEST.min(message.msg_len as usize)];
            arrived(Received { source: place.source(), destination, hops, payload });
        }
        Ok(count == BATCH)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Place {
    fn source(&self) -> IpAddr {
        if i32::from(self.source.sin6_family) == libc::AF_INET6 {
            return IpAddr::from(self.source.sin6_addr.s6_addr);
        }
        // A sockaddr_in has its address where a sockaddr_in6 has its flow's label, as bytes of the network.
        IpAddr::from(self.source.sin6_flowinfo.to_ne_bytes())
    }
}

/// What control messages tell: to whom a datagram was, and how many hops it had left.
fn tell(control: &[u8]) -> Option<(IpAddr, u8)> {
    let (mut destination, mut hops) = (None, None);
    for (level, kind, content) in messages(control) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                hops = u8::try_from(i32::from_ne_bytes(*content.first_chunk()?)).ok();
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // struct in_pktinfo: the interface, our address there, and the one that the packet names.
                let named: [u8; 4] = *content.get(8..)?.first_chunk()?;
                destination = Some(Ipv4Addr::from(named).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let named: [u8; 16] = *content.first_chunk()?;
                destination = Some(Ipv6Addr::from(named).into());
            }
            _ => {}
        }
    }
    Some((destination?, hops?))
}

/// The control messages in `bytes`: level, type and content of each (cmsg(3)).
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk::<WORD>()?;
        let (level, rest) = rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let len = usize::from_ne_bytes(*len);
        let content = bytes.get(WORD + 8..len)?;
        bytes = bytes.get(len.next_multiple_of(WORD)..).unwrap_or(&[]);
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), content))
    })
}

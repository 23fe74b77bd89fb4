//! Receives datagrams from neighbours.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt,
};
use rustix::net::{SocketType, ipproto};

use super::open::{BATCH, LONGEST, open};
use crate::address::socket_address;

/// A received datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received<'a> {
    /// The source.
    pub source: IpAddr,
    /// The destination, an address of ours.
    pub destination: IpAddr,
    /// Its TTL, or hop limit.
    pub hops: u8,
    /// The payload, cut to [`LONGEST`](super::LONGEST) bytes.
    pub payload: &'a [u8],
}

/// Receives datagrams for one port, at one address of ours or at all of a family.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    payloads: Box<[[u8; LONGEST]; BATCH]>,
}

impl Receiver {
    /// Opens a receiver at `address`; if that is unspecified, at all addresses of its family.
    ///
    /// # Errors
    ///
    /// The kernel's error: the address is not ours, or the port is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = open(address, SocketType::DGRAM, ipproto::UDP, |socket| {
            match address {
                SocketAddr::V4(_) => {
                    setsockopt(socket, sockopt::Ipv4RecvTtl, &true)?;
                    setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
                }
                SocketAddr::V6(_) => {
                    setsockopt(socket, sockopt::Ipv6V6Only, &true)?;
                    setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true)?;
                    setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
                }
            }
            Ok(())
        })?;
        Ok(Self { socket, payloads: Box::new([[0; LONGEST]; BATCH]) })
    }

    /// Receives a batch of datagrams in order. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn receive(&mut self, mut arrived: impl FnMut(Received<'_>)) -> io::Result<bool> {
        // Made anew for each call: the kernel overwrites the lengths, which would limit the next
        // call.
        let control = cmsg_space!(libc::c_int, libc::in6_pktinfo);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(control));
        let mut slices = self.payloads.each_mut().map(|payload| [IoSliceMut::new(payload)]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages =
            match recvmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None) {
                Ok(messages) => messages,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
        let mut count = 0;
        for message in messages {
            count += 1;
            // The socket option asks the kernel for it, and there is room.
            let told = message.cmsgs().ok().and_then(tell);
            let source = message.address.as_ref().and_then(socket_address);
            let (Some((destination, hops)), Some(source)) = (told, source) else { continue };
            let payload = message.iovs().next().unwrap_or(&[]);
            arrived(Received { source: source.ip(), destination, hops, payload });
        }
        Ok(count == BATCH)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads a datagram's destination and TTL from its control messages.
fn tell(messages: impl Iterator<Item = ControlMessageOwned>) -> Option<(IpAddr, u8)> {
    let (mut destination, mut hops) = (None, None);
    for message in messages {
        match message {
            ControlMessageOwned::Ipv4Ttl(left) | ControlMessageOwned::Ipv6HopLimit(left) => {
                hops = u8::try_from(left).ok();
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                // The packet's destination, in network byte order.
                destination = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            _ => {}
        }
    }
    Some((destination?, hops?))
}

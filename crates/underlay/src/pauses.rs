//! Receives and sends pause frames on a link: PFC (802.1Qbb) and PAUSE (802.3 annex 31B).
//!
//! Pause frames are not forwarded and reach no other socket, so a packet socket of their own
//! receives them. Many network cards consume them: those must be configured to obey pauses
//! themselves, and no pause frames are seen here.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use units::{ClassMap, Mac};
use wire::{ethernet, pause, pfc};
use zerocopy::IntoBytes;

use kernel::netlink::Netlink;
use kernel::packet;

/// The pause frames of the interface that has a host's tunnel address.
#[derive(Debug)]
pub struct PauseSocket {
    socket: OwnedFd,
    source: Mac,
}

impl PauseSocket {
    /// Opens a socket on the interface with this address.
    ///
    /// # Errors
    ///
    /// The kernel's error; [`io::ErrorKind::AddrNotAvailable`] if no interface has the address.
    pub fn open(address: IpAddr) -> io::Result<Self> {
        let has = |interface: &nix::ifaddrs::InterfaceAddress| {
            let storage = interface.address?;
            let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        };
        let interface = getifaddrs()?.find(|interface| has(interface) == Some(address));
        let interface = interface.ok_or(io::ErrorKind::AddrNotAvailable)?.interface_name;
        let link = Netlink::open().and_then(|mut netlink| netlink.link(&interface));
        let link = link.map_err(io::Error::other)?;
        let socket = packet::socket(link.index, ethernet::ethertype::MAC_CONTROL)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let source =
            link.mac.ok_or_else(|| io::Error::other("the interface has no Ethernet address"))?;
        Ok(Self { socket, source })
    }

    /// Receives a pause frame: for how long each class is paused, in quanta of 512 bit times.
    /// Classes that it does not name are unchanged.
    pub fn receive(&self, mut told: impl FnMut(&ClassMap<Option<u16>>)) {
        let mut frame = [0; 128];
        while let Ok((len, _)) = recv(&self.socket, &mut frame, RecvFlags::DONTWAIT) {
            let frame = &frame[..len.min(128)];
            if let Some(pfc) = pfc::Frame::parse(frame) {
                told(&pfc.told());
            } else if let Some(pause) = pause::Frame::parse(frame) {
                told(&ClassMap::from_fn(|_| Some(pause.quanta.get())));
            }
        }
    }

    /// Sends a pause frame. Returns whether the kernel has accepted it.
    pub fn send(&self, told: &ClassMap<Option<u16>>) -> bool {
        send(&self.socket, pfc::Frame::new(self.source, told).as_bytes(), SendFlags::DONTWAIT)
            .is_ok()
    }
}

/// Readable when a pause frame has arrived.
impl AsFd for PauseSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_without_an_interface_has_no_link() {
        let error = PauseSocket::open(Ipv4Addr::new(192, 0, 2, 200).into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}

//! Addresses as the kernel tells them.

use std::net::SocketAddr;

use nix::sys::socket::SockaddrStorage;

/// An address of IPv4 or IPv6; `None` if it is of another family.
pub fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::new(v4.ip().into(), v4.port()));
    }
    address.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port()))
}

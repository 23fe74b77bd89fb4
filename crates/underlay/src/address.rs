//! Conversion of the kernel's socket addresses.

use std::net::SocketAddr;

use nix::sys::socket::SockaddrStorage;

/// The IPv4 or IPv6 address; `None` for another family.
pub fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::new(v4.ip().into(), v4.port()));
    }
    address.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port()))
}

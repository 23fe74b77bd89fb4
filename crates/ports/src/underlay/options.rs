//! What the kernel is told of our sockets.

use std::io;
use std::net::UdpSocket;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ip_recvtos, set_ipv6_mtu_discover,
    set_ipv6_recvtclass, set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force,
};

/// Nothing waits, and nothing is cut into fragments (RFC 8926 §4.3.1): what does not fit is an error.
pub fn set(socket: &UdpSocket, is_v6: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match is_v6 {
        false => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?,
        true => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?,
    }
    Ok(())
}

/// Datagrams of a flow come joined, and with their traffic class; as many bytes may wait, however few others may have.
pub fn set_receiving(socket: &UdpSocket, is_v6: bool, buffer: usize) -> io::Result<()> {
    setsockopt(socket, sockopt::UdpGroSegment, &true)?;
    set_socket_recv_buffer_size_force(socket, buffer)?;
    match is_v6 {
        false => set_ip_recvtos(socket, true)?,
        true => set_ipv6_recvtclass(socket, true)?,
    }
    Ok(())
}

/// So many bytes may be underway, however few others may have.
pub fn set_sending(socket: &UdpSocket, buffer: usize) -> io::Result<()> {
    Ok(set_socket_send_buffer_size_force(socket, buffer)?)
}

//! Opens sockets and sets their options.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGroSegment;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover,
    set_ip_recvtos, set_ip_ttl, set_ipv6_mtu_discover, set_ipv6_recvtclass, set_ipv6_unicast_hops,
    set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force,
};
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType, getsockname, socket_with,
};
use wire::ip::protocol;
use wire::stt;

use super::transport::Transport;
use kernel::sockopt;

/// The send buffer of a socket, in bytes as the kernel counts them.
pub const SEND_BUFFER: usize = 4 << 20;

/// Opens a socket of this kind at an address.
pub fn bind(address: SocketAddr, transport: Transport) -> io::Result<OwnedFd> {
    let protocol = match transport {
        Transport::Udp(_) => return Ok(UdpSocket::bind(address)?.into()),
        Transport::Ip(protocol) => protocol,
        Transport::Stt { .. } => protocol::TCP,
    };
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let protocol = RawProtocol::new(protocol.into()).map(Protocol::from_raw);
    let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    if let Transport::Stt { .. } = transport {
        hear_port(&socket, address.is_ipv6())?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Attaches a filter to a raw socket that passes only segments to our port.
fn hear_port(socket: &OwnedFd, is_v6: bool) -> io::Result<()> {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
    };

    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let ours = [
        step(BPF_JMP | BPF_JEQ | BPF_K, 1, stt::PORT.into()),
        step(BPF_RET | BPF_K, 0, u32::MAX),
        step(BPF_RET | BPF_K, 0, 0),
    ];
    // The filter sees the IP header with IPv4, but not with IPv6. The destination port is behind
    // the source port.
    let port = if is_v6 {
        vec![step(BPF_LD | BPF_H | BPF_ABS, 0, 2)]
    } else {
        vec![step(BPF_LDX | BPF_B | BPF_MSH, 0, 0), step(BPF_LD | BPF_H | BPF_IND, 0, 2)]
    };
    sockopt::filter(socket, &[port, ours.to_vec()].concat())
}

/// Makes a socket non-blocking, sets its TTL, and forbids fragments (RFC 8926 §4.3.1): a datagram
/// that is too long is an error.
pub fn set(socket: &OwnedFd, is_v6: bool, ttl: u8) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    match is_v6 {
        false => {
            set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?;
            set_ip_ttl(socket, ttl.into())?;
        }
        true => {
            set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?;
            set_ipv6_unicast_hops(socket, Some(ttl))?;
            // No flow label: fabrics shall tell flows apart by their ports alone, because labels
            // differ between the sockets that send a flow.
            sockopt::set(socket, libc::IPPROTO_IPV6, libc::IPV6_AUTOFLOWLABEL, 0)?;
        }
    }
    Ok(())
}

/// Sets up receiving: datagrams of a flow are joined, with their traffic class. The buffer may
/// exceed the system's limit.
pub fn set_receiving(
    socket: &OwnedFd,
    is_v6: bool,
    transport: Transport,
    buffer: usize,
) -> io::Result<()> {
    if let Transport::Udp(_) = transport {
        setsockopt(socket, UdpGroSegment, &true)?;
    }
    set_socket_recv_buffer_size_force(socket, buffer)?;
    match is_v6 {
        false => set_ip_recvtos(socket, true)?,
        true => set_ipv6_recvtclass(socket, true)?,
    }
    Ok(())
}

/// Sets the size of the send buffer, which may exceed the system's limit.
pub fn set_sending(socket: &OwnedFd, buffer: usize) -> io::Result<()> {
    Ok(set_socket_send_buffer_size_force(socket, buffer)?)
}

/// The local port of a socket; 0 if it has none.
pub fn port(socket: &OwnedFd) -> u16 {
    let address = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
    address.map_or(0, |address| address.port())
}

/// The path MTU in bytes; if it is not known, the minimum that every link carries (RFC 791 §3.1,
/// RFC 8200 §5).
pub fn mtu_or_least(own: IpAddr, far: IpAddr) -> u16 {
    mtu(own, far).unwrap_or(if far.is_ipv4() { 576 } else { 1280 })
}

/// The path MTU in bytes (IP_MTU, ip(7)).
pub fn mtu(own: IpAddr, far: IpAddr) -> io::Result<u16> {
    let socket = UdpSocket::bind(SocketAddr::new(own, 0))?;
    // Connecting only selects a route; nothing is sent. The port does not matter.
    socket.connect(SocketAddr::new(far, 1))?;
    let mtu = if far.is_ipv4() { ip_mtu(&socket)? } else { ipv6_mtu(&socket)? };
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

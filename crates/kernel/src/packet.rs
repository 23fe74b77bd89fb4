//! Sockets for whole frames (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::sockopt;

/// A socket that sends frames through one device, by its index, and receives those that announce
/// `protocol`; 0: none. It takes CAP_NET_RAW.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "rustix does not know packet sockets' addresses")]
pub fn socket(link: u32, protocol: u16) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; its descriptor, if it gives one, is nobody else's.
    let socket = unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(io::Error::last_os_error()),
            socket => OwnedFd::from_raw_fd(socket),
        }
    };
    // SAFETY: all zeros are a valid sockaddr_ll, a struct of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = link as i32;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: bind reads as many bytes as it is told of an address that lives on this frame.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// A socket for all frames that come in by a device, by its index, and none that go out there. It
/// takes CAP_NET_RAW.
///
/// # Errors
///
/// What the kernel says.
pub fn tap(link: u32) -> io::Result<OwnedFd> {
    let socket = socket(link, libc::ETH_P_ALL as u16)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    Ok(socket)
}

/// Receives a frame of a [`tap`] as it was on the wire, if one has come: Linux takes the outermost
/// 802.1Q tag off, and tells it beside.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "rustix does not know this control message")]
pub fn receive(socket: &impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let mut frame = vec![0; LARGEST];
    // Aligned as a control message's header has to be.
    let mut control = [0_u64; 8];
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: all zeros are a valid msghdr: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the kernel writes as many bytes as it is told to buffers that live on this frame.
    let answer =
        unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if answer < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    frame.truncate(answer as usize);
    let mut told = None;
    // SAFETY: the kernel filled in `message`, whose control buffer lives on this frame; the macros
    // stay within it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(header) = next.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                let data = libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>();
                told = Some(data.read_unaligned());
            }
            next = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    if let Some(told) = told.filter(|it| it.tp_status & libc::TP_STATUS_VLAN_VALID != 0)
        && frame.len() >= ADDRESSES
    {
        let kind = match told.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => libc::ETH_P_8021Q as u16,
            _ => told.tp_vlan_tpid,
        };
        let tag = [kind, told.tp_vlan_tci].map(u16::to_be_bytes).concat();
        frame.splice(ADDRESSES..ADDRESSES, tag);
    }
    Ok(Some(frame))
}

/// Two Ethernet addresses: behind them is a tag.
const ADDRESSES: usize = 12;

/// The longest frame of any device.
const LARGEST: usize = 1 << 16;

/// Has each frame that a socket sends begin with what the kernel or the card is to do to it: the
/// first [`OFFLOAD`] bytes of virtio_net's header.
pub fn set_offload(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)
}

/// The length of that header in bytes: without the count of buffers.
pub const OFFLOAD: usize = 10;

/// Has what a socket sends overtake whatever else waits at its device, where the queueing
/// discipline knows priorities: 6 is interactive to all of Linux's (tc-prio(8)), and the highest
/// that takes no privilege.
///
/// # Errors
///
/// What the kernel says.
pub fn hurry(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, 6)
}

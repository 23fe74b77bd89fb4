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
pub fn socket(link: u32, protocol: u16) -> io::Result<OwnedFd> {
    let socket = open()?;
    bind(&socket, link, protocol)?;
    Ok(socket)
}

/// A socket that receives nothing yet.
#[expect(unsafe_code, reason = "rustix has no protocol 0 of packet sockets")]
fn open() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; its descriptor, if it gives one, is nobody else's.
    unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) {
            -1 => Err(io::Error::last_os_error()),
            socket => Ok(OwnedFd::from_raw_fd(socket)),
        }
    }
}

#[expect(unsafe_code, reason = "rustix does not know packet sockets' addresses")]
fn bind(socket: &OwnedFd, link: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeros are a valid sockaddr_ll, a struct of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = link as i32;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: bind reads as many bytes as it is told of an address that lives on this frame.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

/// A socket that is a device's other end: it receives all frames that come in by the device,
/// whoever they are for, none that go out there, and what it is given goes out as it is; of a VLAN
/// those alone that come with its 802.1Q tag, and of VLAN 0 those without one. Each frame has its
/// [`OFFLOAD`] before it, both ways. It does not block. What is received waits in a buffer
/// of so many bytes, as the kernel counts them. It takes CAP_NET_RAW and CAP_NET_ADMIN.
///
/// # Errors
///
/// What the kernel says.
pub fn device(link: u32, vlan: Option<u16>, receive_buffer: usize) -> io::Result<OwnedFd> {
    let socket = open()?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    set_offload(&socket)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, receive_buffer)?;
    if let Some(vlan) = vlan {
        sockopt::filter(&socket, &of_vlan(vlan))?;
    }
    let everything = libc::packet_mreq {
        mr_ifindex: link as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sockopt::set_value(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything)?;
    bind(&socket, link, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// The filter that lets frames of a VLAN pass, which is told beside them as [`Received::tag`] is.
fn of_vlan(vlan: u16) -> [libc::sock_filter; 9] {
    let step = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |what: libc::c_int| {
        step(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            (libc::SKF_AD_OFF + what).cast_unsigned(),
            0,
            0,
        )
    };
    let equals = |value, jt, jf| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, jt, jf);
    let give = |bytes| step(libc::BPF_RET | libc::BPF_K, bytes, 0, 0);
    // Without a tag a frame is in VLAN 0, and so it is with one that names 0 (802.1Q §6.9).
    let without = if vlan == 0 { 5 } else { 6 };
    [
        load(libc::SKF_AD_VLAN_TAG_PRESENT),
        equals(0, without, 0),
        load(libc::SKF_AD_VLAN_TPID),
        equals(libc::ETH_P_8021Q as u32, 0, 4),
        load(libc::SKF_AD_VLAN_TAG),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xfff, 0, 0),
        equals(vlan.into(), 0, 1),
        give(u32::MAX),
        give(0),
    ]
}

/// How many frames a socket had no room for since this was asked last.
///
/// # Errors
///
/// What the kernel says.
pub fn missed(socket: &impl AsFd) -> io::Result<u32> {
    // struct tpacket_stats: how many there were, and how many of them it had no room for.
    let [_, missed] = sockopt::get_pair(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(missed)
}

/// How many bytes of what a socket has sent are still on their way to the wire, as the kernel
/// counts them.
///
/// # Errors
///
/// What the kernel says.
#[expect(unsafe_code, reason = "rustix does not know this request")]
pub fn unsent(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes a number to one that lives on this frame. The request is SIOCOUTQ
    // of packet(7), by its other name.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(bytes.max(0).cast_unsigned() as usize)
    }
}

/// The most frames that are received by one system call.
pub const BATCH: usize = 32;

/// A frame that was received into a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its length in bytes. What is more than its buffer has room for is lost.
    pub len: usize,
    /// What is left to do to it.
    pub offload: [u8; OFFLOAD],
    /// The outermost 802.1Q tag, which Linux has taken off: it was behind the addresses.
    pub tag: Option<[u8; 4]>,
}

/// Receives frames of a [`device`], at most [`BATCH`], each into a buffer of its own, and tells
/// `each` of them in order. Returns how many there were; 0 if none has come.
///
/// # Errors
///
/// What the kernel says, if it says so of the first.
#[expect(unsafe_code, reason = "rustix has no recvmmsg")]
pub fn receive_batch<'a>(
    socket: &impl AsFd,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    mut each: impl FnMut(Received),
) -> io::Result<usize> {
    let mut offloads = [[0_u8; OFFLOAD]; BATCH];
    let mut controls = [Control::default(); BATCH];
    // SAFETY: all zeros are valid iovecs and mmsghdrs: null pointers and no lengths.
    let (mut parts, mut messages): ([[libc::iovec; 2]; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { std::mem::zeroed() };
    let mut count = 0;
    let places = offloads.iter_mut().zip(&mut controls).zip(parts.iter_mut().zip(&mut messages));
    for (((offload, control), (parts, message)), buffer) in places.zip(buffers) {
        let piece = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        *parts = [piece(offload), piece(buffer)];
        message.msg_hdr.msg_iov = parts.as_mut_ptr();
        message.msg_hdr.msg_iovlen = parts.len();
        message.msg_hdr.msg_control = (&raw mut *control).cast();
        message.msg_hdr.msg_controllen = size_of_val(control);
        count += 1;
    }
    // With MSG_TRUNC the kernel returns whole lengths.
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes to the first `count` messages and to the buffers that they tell of:
    // arrays on this frame, and slices that are borrowed until this returns.
    let answer = unsafe {
        libc::recvmmsg(socket, messages.as_mut_ptr(), count, flags, std::ptr::null_mut())
    };
    if answer < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
    }
    for (message, offload) in messages.iter().zip(offloads).take(answer as usize) {
        // SAFETY: the kernel has filled it in, and its control buffer lives on this frame.
        let tag = unsafe { tag(&message.msg_hdr) };
        each(Received { len: (message.msg_len as usize).saturating_sub(OFFLOAD), offload, tag });
    }
    Ok(answer as usize)
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
    let mut control = Control::default();
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: all zeros are a valid msghdr: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the kernel writes as many bytes as it is told to buffers that live on this frame.
    let answer =
        unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if answer < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    frame.truncate(answer as usize);
    // SAFETY: the kernel filled in `message`, whose control buffer lives on this frame.
    let tag = unsafe { tag(&message) };
    if let Some(tag) = tag
        && frame.len() >= ADDRESSES
    {
        frame.splice(ADDRESSES..ADDRESSES, tag);
    }
    Ok(Some(frame))
}

/// Room for the one control message that comes with a frame, aligned as its header has to be.
type Control = [u64; 8];

/// The tag that the kernel has taken off a frame.
///
/// # Safety
///
/// The kernel has filled in the message, and its control buffer is there.
#[expect(unsafe_code, reason = "control messages are found by pointer")]
unsafe fn tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    let mut told = None;
    // SAFETY: as the caller promises; the macros stay within the control buffer.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = next.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                let data = libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>();
                told = Some(data.read_unaligned());
            }
            next = libc::CMSG_NXTHDR(message, header);
        }
    }
    let told = told.filter(|it| it.tp_status & libc::TP_STATUS_VLAN_VALID != 0)?;
    let kind = match told.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => told.tp_vlan_tpid,
    };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), told.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

/// Two Ethernet addresses: behind them is a tag.
const ADDRESSES: usize = 12;

/// The longest frame of any device.
const LARGEST: usize = 1 << 16;

/// Has each frame of a socket begin with what is left to do to it, by the kernel or the card if it
/// is sent: the first [`OFFLOAD`] bytes of virtio_net's header.
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

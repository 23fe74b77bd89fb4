//! A device's offloads (ethtool(8), `ethtool -K`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};

use crate::netns::Namespace;

/// Join packets of a flow that come in (ETHTOOL_SGRO).
const JOIN: u32 = 0x2c;

/// Cut large packets of TCP that go out (ETHTOOL_STSO).
const CUT: u32 = 0x1f;

/// The offloads that let a sender hand over, and a receiver be given, what no wire would carry: unfinished checksums
/// and packets larger than the MTU. Their numbers are those of the request that sets each (linux/ethtool.h).
const SET: [u32; 5] = [
    JOIN, 0x24, // ETHTOOL_SGSO
    CUT, 0x19, // ETHTOOL_SSG
    0x17, // ETHTOOL_STXCSUM
];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes a device send and deliver only frames that a wire would carry: of its MTU and with finished checksums.
///
/// # Errors
///
/// What the kernel answered; the namespace cannot be entered, there is no such device, or it cannot do without.
pub fn switch_offload_off(namespace: &Namespace, device: &str) -> io::Result<()> {
    let socket = socket(namespace)?;
    SET.into_iter().try_for_each(|command| set(&socket, device, command, false))
}

/// Makes a veth pair's end one of a pair of network cards that cut nothing: the kernel cuts TCP's packets before it, and joins those
/// that come in. Both ends have to be: none joins what comes from one that could have cut (veth_skb_is_eligible_for_gro).
///
/// # Errors
///
/// What the kernel answered; the namespace cannot be entered, or there is no such device.
pub fn leave_cutting_to_kernel(namespace: &Namespace, device: &str) -> io::Result<()> {
    let socket = socket(namespace)?;
    set(&socket, device, CUT, false)?;
    set(&socket, device, JOIN, true)
}

fn socket(namespace: &Namespace) -> io::Result<OwnedFd> {
    let open = || rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    Ok(namespace.run(open).map_err(io::Error::other)??)
}

fn set(socket: &OwnedFd, device: &str, command: u32, on: bool) -> io::Result<()> {
    let mut value = Value { command, data: on.into() };
    let mut name = [0; libc::IFNAMSIZ];
    if device.len() >= name.len() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for (place, byte) in name.iter_mut().zip(device.bytes()) {
        *place = byte.cast_signed();
    }
    let request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut value).cast() },
    };
    // SAFETY: SIOCETHTOOL reads an ifreq whose data points to an ethtool_value for these requests; both live on this
    // frame until the call returns, and the kernel keeps neither.
    #[expect(unsafe_code, reason = "ethtool is an ioctl")]
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw const request) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_is_an_error() {
        let here = Namespace::current().unwrap();
        assert!(switch_offload_off(&here, "zovn-t-none").is_err());
        assert!(leave_cutting_to_kernel(&here, "zovn-t-none").is_err());
        assert!(switch_offload_off(&here, "a-name-that-is-too-long").is_err());
    }
}

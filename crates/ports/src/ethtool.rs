//! A device's offloads (ethtool(8), `ethtool -K`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};

use crate::netns::Namespace;

/// Has a device put packets of a flow together that came apart (ETHTOOL_SGRO, linux/ethtool.h).
const JOIN: u32 = 0x2c;

/// The offloads that let a sender hand over, and a receiver be given, what no wire would carry: unfinished checksums
/// and packets larger than the MTU. Their numbers are those of the request that sets each (linux/ethtool.h).
const SET: [u32; 5] = [
    JOIN, 0x24, // ETHTOOL_SGSO
    0x1f, // ETHTOOL_STSO
    0x19, // ETHTOOL_SSG
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

/// Has the kernel put packets of a flow together where a device received them (GRO), as it does by itself for network cards.
///
/// # Errors
///
/// What the kernel answered; the namespace cannot be entered, or there is no such device.
pub fn switch_joining_on(namespace: &Namespace, device: &str) -> io::Result<()> {
    set(&socket(namespace)?, device, JOIN, true)
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
        assert!(switch_joining_on(&here, "zovn-t-none").is_err());
        assert!(switch_offload_off(&here, "a-name-that-is-too-long").is_err());
    }
}

//! A device's offloads (ethtool(8), `ethtool -K`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};
use units::Rate;
use zerocopy::IntoBytes;

use crate::netns::Namespace;

/// Join packets of a flow that come in (ETHTOOL_SGRO).
const JOIN: u32 = 0x2c;

/// Cut large packets of TCP that go out (ETHTOOL_STSO).
const CUT: u32 = 0x1f;

/// The offloads that let a sender hand over, and a receiver be given, what no wire would carry:
/// unfinished checksums and packets larger than the MTU. Their numbers are those of the request
/// that sets each (linux/ethtool.h).
const SET: [u32; 5] = [
    JOIN, 0x24, // ETHTOOL_SGSO
    CUT, 0x19, // ETHTOOL_SSG
    0x17, // ETHTOOL_STXCSUM
];

/// Makes a device send and deliver only frames that a wire would carry: of its MTU and with
/// finished checksums.
///
/// # Errors
///
/// What the kernel answered; the namespace cannot be entered, there is no such device, or it cannot
/// do without.
pub fn switch_offload_off(namespace: &Namespace, device: &str) -> io::Result<()> {
    let socket = socket(namespace)?;
    SET.into_iter().try_for_each(|command| set(&socket, device, command, false))
}

/// Makes a veth pair's end one of a pair of network cards that cut nothing: the kernel cuts TCP's
/// packets before it, and joins those that come in. Both ends have to be: none joins what comes
/// from one that could have cut (veth_skb_is_eligible_for_gro).
///
/// # Errors
///
/// What the kernel answered; the namespace cannot be entered, or there is no such device.
pub fn leave_cutting_to_kernel(namespace: &Namespace, device: &str) -> io::Result<()> {
    let socket = socket(namespace)?;
    set(&socket, device, CUT, false)?;
    set(&socket, device, JOIN, true)
}

/// Asks devices which features of theirs are on.
#[derive(Debug)]
pub struct Cutting {
    socket: OwnedFd,
    /// The numbers of those that cut large segments of TCP behind a tunnel's headers, and complete
    /// both checksums: each kernel has its own.
    wanted: Vec<usize>,
}

/// The features that it takes (`ethtool -k`).
const CUT_TUNNELS: [&str; 3] =
    ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp_tnl-csum-segmentation"];

/// ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GFEATURES, and ETH_SS_FEATURES.
const COUNT_NAMES: u32 = 0x37;
const NAMES: u32 = 0x1b;
const FEATURES: u32 = 0x3a;
const OF_FEATURES: u32 = 4;

/// ETHTOOL_GDRVINFO and ETHTOOL_GSET.
const GET_DRIVER: u32 = 3;
const GET_SETTINGS: u32 = 1;

/// A speed that is not known, in Mb/s (SPEED_UNKNOWN).
const UNKNOWN: u64 = 0xffff_ffff;

/// The length of a name (ETH_GSTRING_LEN).
const NAME: usize = 32;

impl Cutting {
    /// Learns the numbers from any device.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or it does not know these features.
    pub fn open(device: &str) -> io::Result<Self> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        // ethtool_sset_info: a bit for each set in 64, and the length of each.
        let sets = (1_u64 << OF_FEATURES).to_ne_bytes();
        let mut counts = [[COUNT_NAMES, 0].as_bytes(), &sets, &[0; 4]].concat();
        ask(&socket, device, &mut counts)?;
        let count =
            u32::from_ne_bytes(counts[16..].try_into().expect("a count has four bytes")) as usize;
        let mut names = vec![0; 12 + count * NAME];
        names[..12].copy_from_slice([NAMES, OF_FEATURES, count as u32].as_bytes());
        ask(&socket, device, &mut names)?;
        let names: Vec<_> = names[12..].chunks(NAME).collect();
        let is = |name: &[u8], wanted: &str| {
            name.split(|byte| *byte == 0).next() == Some(wanted.as_bytes())
        };
        let place = |wanted: &&str| names.iter().position(|name| is(name, wanted));
        let wanted = CUT_TUNNELS.iter().map(place).collect::<Option<_>>();
        Ok(Self { socket, wanted: wanted.ok_or(io::ErrorKind::Unsupported)? })
    }

    /// Whether all of them are on.
    ///
    /// # Errors
    ///
    /// What the kernel answered, among others if there is no such device.
    pub fn is_on(&self, device: &str) -> io::Result<bool> {
        let blocks = self.wanted.iter().max().map_or(0, |last| last / 32 + 1);
        // ethtool_gfeatures: of each block of 32 what there may be, what is wanted, what is on, and
        // what never changes.
        let mut answer = vec![0_u32; 2 + 4 * blocks];
        answer[..2].copy_from_slice(&[FEATURES, blocks as u32]);
        ask(&self.socket, device, answer.as_mut_bytes())?;
        let on = |feature: usize| answer[2 + 4 * (feature / 32) + 2] & 1 << (feature % 32) != 0;
        Ok(self.wanted.iter().all(|feature| on(*feature)))
    }
}

/// How fast a device of this namespace is. `None` if it does not say, or if it has no speed: TAP
/// devices and veth pairs say 10 Gb/s, whatever they carry.
///
/// # Errors
///
/// What the kernel answered, among others if there is no such device.
pub fn speed(device: &str) -> io::Result<Option<Rate>> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // ethtool_drvinfo: the driver's name is behind the command.
    let mut driver = [0_u32; 49];
    driver[0] = GET_DRIVER;
    let mut settings = [0_u32; 11];
    settings[0] = GET_SETTINGS;
    for request in [&mut driver[..], &mut settings] {
        match ask(&socket, device, request.as_mut_bytes()) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            answer => answer?,
        }
    }
    let driver = driver[1..9].as_bytes().split(|byte| *byte == 0).next();
    if driver.is_some_and(|driver| [&b"tun"[..], b"veth"].contains(&driver)) {
        return Ok(None);
    }
    // ethtool_cmd: the lower half of the speed is behind three words, the upper one behind seven.
    let half = |word: u32| {
        let [first, second, ..] = word.to_ne_bytes();
        u64::from(u16::from_ne_bytes([first, second]))
    };
    let mbit = half(settings[3]) | half(settings[7]) << 16;
    let mbit = Some(mbit).filter(|mbit| *mbit != UNKNOWN);
    Ok(mbit.and_then(|mbit| Rate::from_bits_per_sec(mbit * 1_000_000)))
}

fn socket(namespace: &Namespace) -> io::Result<OwnedFd> {
    let open = || rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    Ok(namespace.run(open).map_err(io::Error::other)??)
}

fn set(socket: &OwnedFd, device: &str, command: u32, on: bool) -> io::Result<()> {
    // ethtool_value.
    ask(socket, device, [command, on.into()].as_mut_bytes())
}

/// Has the kernel do what a request begins with, and write its answer there, which has room for it.
fn ask(socket: &OwnedFd, device: &str, request: &mut [u8]) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    if device.len() >= name.len() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for (place, byte) in name.iter_mut().zip(device.bytes()) {
        *place = byte.cast_signed();
    }
    let request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: request.as_mut_ptr().cast() },
    };
    // SAFETY: SIOCETHTOOL reads an ifreq, and where that points to it reads and writes what these
    // requests are said to have, which each caller has room for: how many features there are, a
    // running kernel does not change. Both live until the call returns, and the kernel keeps
    // neither.
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
        assert!(speed("zovn-t-none").is_err());
    }

    #[test]
    fn what_is_no_wire_has_no_speed() {
        assert_eq!(speed("lo").unwrap(), None);
        if !needs::root() {
            return;
        }
        let [one, _] = crate::joined::two().unwrap();
        assert_eq!(one.run(|| speed(crate::joined::INTERFACE)).unwrap().unwrap(), None);
    }
}

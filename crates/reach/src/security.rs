//! What a port's machine may name as its own, and what it may be sent, as sets of addresses.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::objects::{AddressRange, SecurityMode};
use logical::topology::{Allowed, Port};
use units::Mac;

use crate::addresses::{Addresses, Family, unspecified};

/// The link-local address that an Ethernet address makes (RFC 4291 §2.5.1, appendix A).
pub fn link_local(mac: Mac) -> IpAddr {
    let [a, b, c, d, e, f] = mac.0;
    let word = |high, low| u16::from_be_bytes([high, low]);
    let words = [0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)];
    Ipv6Addr::from(words).into()
}

/// A prefix as a range. Both are of one family.
pub fn prefix(address: IpAddr, length: u8) -> AddressRange {
    units::Prefix { address, length }.into()
}

/// Addresses of links alone.
pub fn link_locals() -> AddressRange {
    prefix(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).into(), 10)
}

/// Addresses of groups.
pub fn groups(family: Family) -> AddressRange {
    match family {
        Family::V4 => prefix(Ipv4Addr::new(224, 0, 0, 0).into(), 4),
        Family::V6 => prefix(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into(), 8),
    }
}

/// Whether nothing of what a machine names is checked.
pub fn is_open(port: &Port) -> bool {
    port.security == SecurityMode::Off || !port.is_machine()
}

/// Whether a port's machine may name its own addresses and nothing else.
pub fn is_plain(port: &Port) -> bool {
    let [Allowed { mac, addresses: Some(ranges), broadcasts }] = port.allowed.as_slice() else {
        return false;
    };
    let own = port.addresses.iter().map(|it| AddressRange::from(*it));
    *mac == port.mac && broadcasts.is_empty() && ranges.iter().copied().eq(own)
}

/// Whether a port's machine may name any address, with its own Ethernet address.
pub fn is_free(port: &Port) -> bool {
    let only = |it: &Allowed| it.mac == port.mac && it.addresses.is_none();
    port.allowed.len() == 1 && port.allowed.iter().all(only)
}

fn owned(port: &Port, mac: Mac, family: Family) -> Addresses {
    let mut all = Vec::new();
    for entry in port.allowed.iter().filter(|it| it.mac == mac) {
        match &entry.addresses {
            None => return Addresses::all(family),
            Some(ranges) => all.extend(ranges.iter().copied().chain([link_local(mac).into()])),
        }
    }
    Addresses::of(family, all)
}

/// The addresses that a machine may send from, with an Ethernet address of its.
pub fn sources(port: &Port, mac: Mac, family: Family) -> Addresses {
    if is_open(port) {
        return Addresses::all(family);
    }
    let nobody = Addresses::of(family, [unspecified(family).into()]);
    owned(port, mac, family).minus(&nobody)
}

/// Whether a port's machine has an Ethernet address.
pub fn has_mac(port: &Port, mac: Mac) -> bool {
    is_open(port) || port.allowed.iter().any(|it| it.mac == mac)
}

/// Whether a port takes frames to its own Ethernet address at all.
pub fn takes_own(port: &Port) -> bool {
    has_mac(port, port.mac) || port.unknown
}

/// The addresses that a port may be sent to, by frames to its own Ethernet address.
pub fn destinations(port: &Port, family: Family) -> Addresses {
    if !takes_own(port) {
        return Addresses::none(family);
    }
    if is_open(port) || !has_mac(port, port.mac) {
        return Addresses::all(family);
    }
    let for_many = match family {
        Family::V4 => {
            let broadcasts = port.allowed.iter().flat_map(|it| &it.broadcasts);
            let all = broadcasts.copied().chain([Ipv4Addr::BROADCAST]);
            all.map(|it| IpAddr::from(it).into()).chain([groups(family)]).collect()
        }
        Family::V6 => alloc::vec![link_locals(), groups(family)],
    };
    owned(port, port.mac, family).or(&Addresses::of(family, for_many))
}

//! Routers' advertisements (RFC 4861 §4.2), to the machine that asks for one.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use logical::objects::{AddressRange, Preference, Ra6, RaMode};
use units::{Mac, Prefix};
use wire::ip::protocol;
use wire::neighbor::{ALL_NODES, HOP_LIMIT, group_mac, link_local};

use crate::dhcp4::search;
use crate::emit;
use crate::fields::Fields;

const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;

/// For how long prefixes are valid and preferred (RFC 4861 §6.2.1).
const LIFETIMES: [u32; 2] = [2_592_000, 604_800];

/// A router's interface that advertises.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses, each with its network's prefix.
    pub addresses: &'a [Prefix],
    /// The longest IP packet of its link, if it is declared.
    pub mtu: Option<u16>,
    /// What it advertises.
    pub ra6: &'a Ra6,
}

/// Whether a frame asks routers for advertisements (§6.1.1).
pub fn is_asked(fields: &Fields, frame: &[u8]) -> bool {
    fields.ip.is_some_and(|ip| {
        let is_it = ip.icmp.is_some_and(|it| (it.kind, it.code) == (SOLICITATION, 0));
        let body = frame.get(ip.layout.transport..ip.layout.end).unwrap_or_default();
        let is_right = ip.layout.pseudo_header(frame, body.len()) + wire::checksum::Sum::of(body);
        let is_v6 = ip.tuple.protocol == protocol::ICMPV6;
        is_v6 && is_it && ip.ttl == HOP_LIMIT && is_right.checksum() == 0
    })
}

/// What a router's port answers. `None`: nothing.
pub fn answer(port: Interface<'_>, fields: &Fields) -> Option<Vec<u8>> {
    let asker = fields.ip?.tuple.source.0;
    if port.ra6.mode == RaMode::Off || !asker.is_ipv6() {
        return None;
    }
    // Who has no address yet is told as everybody is (§6.2.6), but is the only one who gets it.
    let to = match asker.is_unspecified() {
        true => (group_mac(ALL_NODES), ALL_NODES.into()),
        false => (fields.source, asker),
    };
    let from = (port.mac, link_local(port.mac).into());
    emit::packet(to, from, protocol::ICMP, message(port))
}

fn message(port: Interface<'_>) -> Vec<u8> {
    let ra = port.ra6;
    let is_managed = ra.mode == RaMode::Stateful;
    let has_more = matches!(ra.mode, RaMode::Stateful | RaMode::Stateless);
    let preference = match ra.preference {
        Preference::Low => 0b11,
        Preference::Medium => 0,
        Preference::High => 0b01,
    };
    let flags = u8::from(is_managed) << 7 | u8::from(has_more) << 6 | preference << 3;
    let most = ra.max_interval.map_or(600, |it| it.as_nanos() / 1_000_000_000);
    let lifetime = u16::try_from(most.saturating_mul(3)).unwrap_or(u16::MAX).min(9000);
    let mut message = alloc::vec![ADVERTISEMENT, 0, 0, 0, 64, flags];
    message.extend(lifetime.to_be_bytes());
    // How long neighbours count as reachable, and are asked again: as each sees fit.
    message.extend([0; 8]);
    message.extend([1, 1]);
    message.extend(port.mac.0);
    if let Some(mtu) = ra.mtu.or(port.mtu) {
        message.extend([5, 1, 0, 0]);
        message.extend(u32::from(mtu).to_be_bytes());
    }
    let own = port.addresses.iter().filter(|_| ra.prefixes.is_empty());
    for prefix in own.chain(&ra.prefixes) {
        let IpAddr::V6(first) = AddressRange::from(*prefix).first() else { continue };
        if !first.is_unicast_link_local() {
            message.extend([3, 4, prefix.length, 0x80 | u8::from(!is_managed) << 6]);
            LIFETIMES.iter().for_each(|it| message.extend(it.to_be_bytes()));
            message.extend([0; 4]);
            message.extend(first.octets());
        }
    }
    put_resolvers(&mut message, port, u32::from(lifetime));
    message
}

/// Who resolves names, and which are searched (RFC 8106 §5).
fn put_resolvers(message: &mut Vec<u8>, port: Interface<'_>, lifetime: u32) {
    let servers = port.ra6.rdnss.iter().filter_map(|it| match it {
        IpAddr::V6(it) => Some(Ipv6Addr::octets(it)),
        IpAddr::V4(_) => None,
    });
    let servers: Vec<u8> = servers.flatten().collect();
    let mut names = search(&port.ra6.dnssl);
    names.resize(names.len().next_multiple_of(8), 0);
    for (kind, value) in [(25, servers), (31, names)] {
        let units = u8::try_from(1 + value.len() / 8).unwrap_or(0);
        if !value.is_empty() && units > 0 {
            message.extend([kind, units, 0, 0]);
            message.extend(lifetime.to_be_bytes());
            message.extend(value);
        }
    }
}

//! What hosts say of the groups that they are in: IGMP (RFC 1112, 2236 and 3376) and MLD (RFC 2710
//! and 3810), as far as a switch needs it (RFC 4541): groups by their Ethernet addresses, of which
//! 32 IPv4 groups share one, and no sources.
//!
//! Checksums are verified, since a damaged report would speak of another group. Nothing is told of
//! the groups that every host on a link is to hear, or that neighbor discovery uses: 224.0.0.0/24,
//! ff02::1 and solicited nodes' (RFC 4541 §2.1.2, §3).

use core::net::{Ipv4Addr, Ipv6Addr};

use units::Mac;

use crate::checksum::Sum;
use crate::ethernet;
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::neighbor::{ALL_NODES, group_mac};

/// What is told of groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Told {
    /// The sender is in the group with this Ethernet address, whatever the source.
    Joins(Mac),
    /// It is in it for some sources.
    Includes(Mac),
    /// It is in it for some sources more than before.
    Allows(Mac),
    /// It is in it for some sources fewer than before. Who was in it for these alone has left.
    Blocks(Mac),
    /// It is in it no more.
    Leaves(Mac),
    /// A router asks everybody who is in which group of one IP.
    Query(Version),
}

/// The Ethernet address of an IPv4 group (RFC 1112 §6.4).
pub const fn group_mac_v4(group: Ipv4Addr) -> Mac {
    let [_, b, c, d] = group.octets();
    Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// Reads what a frame says of groups, if anything; `told` hears of each.
pub fn read(frame: &[u8], mut told: impl FnMut(Told)) {
    let Some(layout) = Layout::of(frame).filter(|it| it.fragment == Fragment::Whole) else {
        return;
    };
    let message = &frame[layout.transport..layout.end];
    let told = |it| match it {
        // Only those who hear it can answer.
        Told::Query(_) if !is_for_all_nodes(frame) => {}
        it => told(it),
    };
    // From the link itself: no router passes either on (RFC 2236 §2, RFC 3810 §5).
    match layout.version {
        Version::V4 => {
            let is_igmp = layout.protocol == protocol::IGMP && frame[layout.network + 8] == 1;
            if is_igmp && Sum::of(message).checksum() == 0 {
                read_igmp(message, told);
            }
        }
        Version::V6 => {
            let is_icmp = layout.protocol == protocol::ICMPV6 && frame[layout.network + 7] == 1;
            let sum = layout.pseudo_header(frame, message.len()) + Sum::of(message);
            if is_icmp && sum.checksum() == 0 {
                read_mld(message, told);
            }
        }
    }
}

fn read_igmp(message: &[u8], mut told: impl FnMut(Told)) {
    let Some(([kind, _, _, _, a, b, c, d], records)) = message.split_first_chunk() else { return };
    let group = v4(Ipv4Addr::new(*a, *b, *c, *d));
    match kind {
        // A question about one group is none about the others.
        0x11 if [*a, *b, *c, *d] == [0; 4] => told(Told::Query(Version::V4)),
        0x12 | 0x16 => group.into_iter().for_each(|group| told(Told::Joins(group))),
        0x17 => group.into_iter().for_each(|group| told(Told::Leaves(group))),
        // Of a report of version 3, the number of records is where others have the group.
        0x22 => read_records(u16::from_be_bytes([*c, *d]), records, told, |octets| {
            v4(Ipv4Addr::from(*octets))
        }),
        _ => {}
    }
}

fn read_mld(message: &[u8], mut told: impl FnMut(Told)) {
    let Some(([kind, _, _, _, _, _, c, d], rest)) = message.split_first_chunk() else { return };
    let named = || rest.first_chunk::<16>().map(|group| Ipv6Addr::from(*group));
    let group = || v6(named()?);
    match kind {
        130 if named() == Some(Ipv6Addr::UNSPECIFIED) => told(Told::Query(Version::V6)),
        131 => group().into_iter().for_each(|group| told(Told::Joins(group))),
        132 => group().into_iter().for_each(|group| told(Told::Leaves(group))),
        143 => read_records(u16::from_be_bytes([*c, *d]), rest, told, |octets| {
            v6(Ipv6Addr::from(*octets))
        }),
        _ => {}
    }
}

/// Reads group records (RFC 3376 §4.2.4, RFC 3810 §5.2.4), whose addresses have `LEN` bytes.
fn read_records<const LEN: usize>(
    number: u16,
    mut records: &[u8],
    mut told: impl FnMut(Told),
    group: impl Fn(&[u8; LEN]) -> Option<Mac>,
) {
    for _ in 0..number {
        let Some(([kind, words, high, low], rest)) = records.split_first_chunk() else { return };
        let Some((address, rest)) = rest.split_first_chunk::<LEN>() else { return };
        let sources = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(next) = rest.get(sources * LEN + usize::from(*words) * 4..) else { return };
        if let Some(group) = group(address) {
            match (kind, sources) {
                // Nothing but some sources' is listened to: of none it is nothing.
                (1 | 3, 0) => told(Told::Leaves(group)),
                (1 | 3, _) => told(Told::Includes(group)),
                // Everything but some sources' is.
                (2 | 4, _) => told(Told::Joins(group)),
                // Who is in a group for some sources says no more than this (RFC 3376 §5.1).
                (5, _) => told(Told::Allows(group)),
                (6, _) => told(Told::Blocks(group)),
                _ => {}
            }
        }
        records = next;
    }
}

/// Whether a frame is for the group that every host is in: 224.0.0.1 or ff02::1.
fn is_for_all_nodes(frame: &[u8]) -> bool {
    let all = [group_mac_v4(Ipv4Addr::new(224, 0, 0, 1)), group_mac(ALL_NODES)];
    ethernet::peek(frame).is_some_and(|peek| all.contains(&peek.destination()))
}

/// The Ethernet address of a group that a host may ask for.
fn v4(group: Ipv4Addr) -> Option<Mac> {
    let is_control = matches!(group.octets(), [224, 0, 0, _]);
    (group.is_multicast() && !is_control).then(|| group_mac_v4(group))
}

fn v6(group: Ipv6Addr) -> Option<Mac> {
    let is_solicited_node =
        matches!(group.segments(), [0xff02, 0, 0, 0, 0, 1, high, _] if high >= 0xff00);
    let is_control = group == ALL_NODES || is_solicited_node;
    (group.is_multicast() && !is_control).then(|| group_mac(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::ethertype;
    use crate::{ipv4, ipv6};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    const V4: Ipv4Addr = Ipv4Addr::new(239, 129, 2, 3);
    const V6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0x12, 0x3456);
    const V4_MAC: Mac = Mac([0x01, 0, 0x5e, 0x01, 2, 3]);
    const V6_MAC: Mac = Mac([0x33, 0x33, 0, 0x12, 0x34, 0x56]);

    fn told(frame: &[u8]) -> Vec<Told> {
        let mut all = Vec::new();
        read(frame, |told| all.push(told));
        all
    }

    /// A frame with an IGMP message, its checksum still zero.
    fn igmp(mut message: Vec<u8>) -> Vec<u8> {
        let sum = Sum::of(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut ip =
            ipv4::Header::new(Ipv4Addr::new(10, 0, 0, 1), V4, protocol::IGMP, message.len())
                .unwrap();
        ip.ttl = 1;
        let ethernet = ethernet::Header::new(V4_MAC, Mac::local(1), ethertype::IPV4);
        [ethernet.as_bytes(), ip.as_bytes(), &message].concat()
    }

    /// The same with an MLD message, behind the option that hosts put before it (router alert).
    fn mld(mut message: Vec<u8>) -> Vec<u8> {
        let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let mut ip = ipv6::Header::new(from, V6, 0, 8 + message.len()).unwrap();
        ip.hop_limit = 1;
        let addresses = [ip.source, ip.destination];
        let sum = crate::checksum::pseudo_header(
            addresses.as_flattened(),
            protocol::ICMPV6,
            message.len(),
        ) + Sum::of(&message);
        message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
        let ethernet = ethernet::Header::new(V6_MAC, Mac::local(1), ethertype::IPV6);
        let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
        [ethernet.as_bytes(), ip.as_bytes(), &alert, &message].concat()
    }

    /// A report of records, each a kind, how many sources, and a group.
    fn v3(records: &[(u8, u16, Ipv4Addr)]) -> Vec<u8> {
        let mut message = vec![0x22, 0, 0, 0, 0, 0, 0, records.len() as u8];
        for (kind, sources, group) in records {
            message.extend([*kind, 0]);
            message.extend(sources.to_be_bytes());
            message.extend(group.octets());
            message.extend(vec![9; usize::from(*sources) * 4]);
        }
        igmp(message)
    }

    #[test]
    fn every_version_of_igmp_tells_who_comes_and_goes() {
        let simple = |kind| told(&igmp([&[kind, 0, 0, 0][..], &V4.octets()].concat()));
        assert_eq!(simple(0x12), [Told::Joins(V4_MAC)]);
        assert_eq!(simple(0x16), [Told::Joins(V4_MAC)]);
        assert_eq!(simple(0x17), [Told::Leaves(V4_MAC)]);
        assert_eq!(simple(0x11), [], "it asks about one group");
        let other = Ipv4Addr::new(232, 1, 1, 1);
        let expected = [
            Told::Leaves(V4_MAC),
            Told::Joins(V4_MAC),
            Told::Leaves(V4_MAC),
            Told::Joins(V4_MAC),
            Told::Includes(V4_MAC),
            Told::Blocks(V4_MAC),
            Told::Allows(group_mac_v4(other)),
        ];
        let records =
            [(1, 0, V4), (2, 0, V4), (3, 0, V4), (4, 1, V4), (3, 1, V4), (6, 2, V4), (5, 2, other)];
        assert_eq!(told(&v3(&records)), expected);
    }

    #[test]
    fn both_versions_of_mld_tell_who_comes_and_goes() {
        let simple = |kind| told(&mld([&[kind, 0, 0, 0, 0, 0, 0, 0][..], &V6.octets()].concat()));
        assert_eq!(simple(131), [Told::Joins(V6_MAC)]);
        assert_eq!(simple(132), [Told::Leaves(V6_MAC)]);
        assert_eq!(simple(130), [], "it asks about one group");
        let mut report = vec![143, 0, 0, 0, 0, 0, 0, 2];
        for (kind, group) in [(4, V6), (3, ALL_NODES)] {
            report.extend([kind, 0, 0, 0]);
            report.extend(group.octets());
        }
        assert_eq!(told(&mld(report)), [Told::Joins(V6_MAC)]);
    }

    #[test]
    fn a_router_asks_everybody_or_nobody() {
        let mut igmp = igmp(vec![0x11, 0, 0, 0, 0, 0, 0, 0]);
        let mut mld = mld([&[130, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat());
        assert_eq!((told(&igmp), told(&mld)), (vec![], vec![]), "for a group that nobody hears");
        igmp[..6].copy_from_slice(&[0x01, 0, 0x5e, 0, 0, 1]);
        mld[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(told(&igmp), [Told::Query(Version::V4)]);
        assert_eq!(told(&mld), [Told::Query(Version::V6)]);
    }

    #[test]
    fn of_what_every_host_is_to_hear_nothing_is_told() {
        assert!(told(&v3(&[(4, 0, Ipv4Addr::new(224, 0, 0, 251))])).is_empty());
        let node = crate::neighbor::solicited_node(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7));
        assert_eq!((v6(node), v6(ALL_NODES), v6(V6)), (None, None, Some(V6_MAC)));
        assert_eq!((v4(Ipv4Addr::new(10, 0, 0, 1)), v4(V4)), (None, Some(V4_MAC)));
    }

    #[test]
    fn what_is_damaged_cut_short_or_from_beyond_the_link_says_nothing() {
        let good = v3(&[(4, 0, V4)]);
        assert_eq!(told(&good).len(), 1);
        for at in [22, 34, 43, 49] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(told(&bad).is_empty(), "byte {at}");
        }
        // Two records are announced, of which one is there.
        let mut message = good[34..].to_vec();
        (message[2], message[3], message[7]) = (0, 0, 2);
        assert_eq!(told(&igmp(message)), [Told::Joins(V4_MAC)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(message in prop::collection::vec(any::<u8>(), 4..80), is_v4: bool, kind in 0usize..8) {
            let mut message = message;
            message[0] = [0x11, 0x12, 0x16, 0x17, 0x22, 130, 131, 143][kind];
            (message[2], message[3]) = (0, 0);
            let _ = told(&if is_v4 { igmp(message) } else { mld(message) });
        }
    }
}

//! Whole frames with a packet: made, their checksums made right, and held against what is there.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use units::Mac;
use zerocopy::IntoBytes;

use crate::checksum::Sum;
use crate::ethernet::{self, ethertype};
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::{ipv4, ipv6};

/// A frame with a packet and all its checksums. `None` if its ends are of two families, or it is
/// too long.
pub fn packet(
    macs: (Mac, Mac),
    ends: (IpAddr, IpAddr),
    carried: u8,
    body: &[u8],
) -> Option<Vec<u8>> {
    let (kind, header) = match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = ipv4::Header::new(from, to, carried, body.len())?;
            (ethertype::IPV4, header.as_bytes().to_vec())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = ipv6::Header::new(from, to, carried, body.len())?;
            (ethertype::IPV6, header.as_bytes().to_vec())
        }
        _ => return None,
    };
    let mut frame = ethernet::Header::new(macs.1, macs.0, kind).as_bytes().to_vec();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    seal(&mut frame);
    Some(frame)
}

/// Where a packet's transport checksum is, and whether it covers addresses.
const fn place(carried: u8) -> Option<(usize, bool)> {
    match carried {
        protocol::TCP => Some((16, true)),
        protocol::UDP => Some((6, true)),
        protocol::ICMP => Some((2, false)),
        protocol::ICMPV6 => Some((2, true)),
        protocol::IGMP => Some((2, false)),
        _ => None,
    }
}

/// The transport checksum's place, and what it covers, if the packet is whole.
fn covered(frame: &[u8], layout: &Layout) -> Option<(usize, Range<usize>, Sum)> {
    let (at, covers) = place(layout.protocol).filter(|_| layout.fragment == Fragment::Whole)?;
    let body = layout.transport..layout.end;
    frame.get(layout.transport + at..layout.transport + at + 2)?;
    let pseudo = match covers {
        true => layout.pseudo_header(frame, body.len()),
        false => Sum::default(),
    };
    Some((layout.transport + at, body, pseudo))
}

/// Makes every checksum of a frame right. Fragments keep what they have behind IP's header.
pub fn seal(frame: &mut [u8]) {
    let Some(layout) = Layout::of(frame) else { return };
    if layout.version == Version::V4 {
        let header = layout.network..layout.transport;
        frame[layout.network + 10..layout.network + 12].fill(0);
        let sum = Sum::of(&frame[header]).checksum();
        frame[layout.network + 10..layout.network + 12].copy_from_slice(&sum.to_be_bytes());
    }
    if let Some((at, body, pseudo)) = covered(frame, &layout) {
        frame[at..at + 2].fill(0);
        let sum = pseudo + Sum::of(&frame[body]);
        let sum = match layout.protocol {
            protocol::UDP => sum.transport_checksum(),
            _ => sum.checksum(),
        };
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Which checksum of a frame is wrong, in a sentence's end. `None`: none.
pub fn fault(frame: &[u8]) -> Option<&'static str> {
    let layout = Layout::of(frame)?;
    let header = &frame[layout.network..layout.transport];
    if layout.version == Version::V4 && Sum::of(header).checksum() != 0 {
        return Some("the IP header's checksum is wrong");
    }
    let (at, body, pseudo) = covered(frame, &layout)?;
    let is_absent = layout.protocol == protocol::UDP && frame[at..at + 2] == [0, 0];
    if is_absent && layout.version == Version::V4 {
        return None;
    }
    let sum = (pseudo + Sum::of(&frame[body])).checksum();
    (sum != 0 || is_absent).then_some("the transport checksum is wrong")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const MACS: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));

    fn ends(is_v4: bool) -> (IpAddr, IpAddr) {
        let [from, to] = if is_v4 { ["10.0.0.1", "10.0.0.2"] } else { ["fd00::1", "fd00::2"] };
        (from.parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn a_datagram_over_ipv6_without_a_checksum_is_at_fault_and_over_ipv4_is_not() {
        for is_v4 in [true, false] {
            let body = [0, 7, 0, 9, 0, 8, 0, 0];
            let mut frame = packet(MACS, ends(is_v4), protocol::UDP, &body).unwrap();
            assert_eq!(fault(&frame), None);
            let at = frame.len() - 2;
            frame[at..].fill(0);
            assert_eq!(fault(&frame).is_none(), is_v4);
        }
        assert_eq!(packet(MACS, (ends(true).0, ends(false).1), protocol::UDP, &[]), None);
    }

    proptest! {
        #[test]
        fn what_is_made_has_right_checksums_and_a_changed_byte_shows(
            is_v4: bool,
            carried in prop::sample::select(vec![protocol::TCP, protocol::ICMPV6, protocol::IGMP]),
            body in prop::collection::vec(any::<u8>(), 20..80),
            place: prop::sample::Index,
            change in 1..=u8::MAX,
        ) {
            let mut frame = packet(MACS, ends(is_v4), carried, &body).unwrap();
            prop_assert_eq!(fault(&frame), None);
            let first = frame.len() - body.len();
            frame[first + place.index(body.len())] ^= change;
            prop_assert!(fault(&frame).is_some());
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), v4: bool) {
            if let Some(kind) = bytes.get_mut(12..15) {
                kind.copy_from_slice(&if v4 { [8, 0, 0x45] } else { [0x86, 0xdd, 0x60] });
            }
            let _ = fault(&bytes);
            seal(&mut bytes);
            prop_assert_eq!(fault(&bytes), None);
        }
    }
}

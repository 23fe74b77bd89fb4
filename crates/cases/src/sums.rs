//! Checksums of whole frames: made, and held against what is there.

use core::ops::Range;

use wire::Layout;
use wire::checksum::Sum;
use wire::ip::{Fragment, Version, protocol};

use crate::layers::word;

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

/// Makes every checksum of a frame right.
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

/// Which checksum of a frame is wrong.
pub fn fault(frame: &[u8]) -> Option<&'static str> {
    let layout = Layout::of(frame)?;
    let header = &frame[layout.network..layout.transport];
    if layout.version == Version::V4 && Sum::of(header).checksum() != 0 {
        return Some("the IP header's checksum is wrong");
    }
    let (at, body, pseudo) = covered(frame, &layout)?;
    let is_absent = layout.protocol == protocol::UDP && word(frame, at) == Some(0);
    if is_absent && layout.version == Version::V4 {
        return None;
    }
    let sum = (pseudo + Sum::of(&frame[body])).checksum();
    (sum != 0 || is_absent).then_some("the transport checksum is wrong")
}

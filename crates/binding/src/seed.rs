//! Checksums that are left to receivers. Until one is complete, its field has the sum of the
//! addresses alone, so where a router, or a load balancer, has given a packet others, it has to
//! have theirs.

use core::ops::Range;

use wire::PartialChecksum;
use wire::checksum::Sum;
use wire::ip::{Layout, Version};

/// A packet's addresses, both. `len`: how long its frame is, whose headers are there.
fn addresses(head: &[u8], len: usize) -> Option<Range<usize>> {
    let Layout { version, network, .. } = Layout::of_head(head, len)?;
    let (at, len) = match version {
        Version::V4 => (network + 12, 8),
        Version::V6 => (network + 8, 32),
    };
    (at + len <= head.len()).then_some(at..at + len)
}

/// Has a frame whose checksum is not complete leave with the sum of the addresses that it leaves
/// with: all of it, or as much of its beginning as there is of what was sent, which had `len`
/// bytes. `partial`: of the frame as it was sent. `None`: there is none, or it lies elsewhere.
pub fn reseed(
    (sent, len): (&[u8], usize),
    leaves: &mut [u8],
    partial: Option<PartialChecksum>,
) -> Option<()> {
    let place = usize::from(partial?.start) + usize::from(partial?.offset);
    let other = (len + leaves.len()).checked_sub(sent.len())?;
    let (old, new) = (sent.get(addresses(sent, len)?)?, addresses(leaves, other)?);
    let seed = u16::from_be_bytes(*sent.get(place..)?.first_chunk()?);
    // RFC 1624 §3, of a sum and not of its complement.
    let sum = Sum::word(seed) + Sum::word(Sum::of(old).checksum()) + Sum::of(&leaves[new]);
    // What lies behind the headers has moved with them.
    let place = (place + leaves.len()).checked_sub(sent.len())?;
    leaves.get_mut(place..)?.first_chunk_mut()?.clone_from(&(!sum.checksum()).to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A datagram from an address to 10.0.0.2 whose checksum is left to its receiver.
    fn datagram(from: [u8; 4]) -> Vec<u8> {
        let mut frame =
            [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &[0x45, 0, 0, 32]].concat();
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        frame.extend(from);
        frame.extend([10, 0, 0, 2]);
        frame.extend([0, 9, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
        let sum = wire::checksum::pseudo_header(&frame[26..34], 17, 12);
        frame[40..42].copy_from_slice(&(!sum.checksum()).to_be_bytes());
        frame
    }

    #[test]
    fn what_is_left_to_do_comes_to_the_right_checksum_behind_other_addresses() {
        let partial = PartialChecksum { start: 34, offset: 6 };
        for from in [[10, 0, 0, 1], [203, 0, 113, 9], [255, 255, 255, 254]] {
            let sent = datagram([10, 0, 0, 1]);
            let expected = datagram(from);
            let mut leaves = expected.clone();
            // Whoever rewrote it may have changed the field as if it were complete.
            leaves[40..42].fill(0x5a);
            reseed((&sent, sent.len()), &mut leaves, Some(partial)).unwrap();
            let complete = |frame: &[u8]| {
                let mut frame = frame.to_vec();
                partial.complete(&mut frame);
                frame
            };
            assert_eq!(complete(&leaves), complete(&expected));
            assert_eq!(reseed((&sent, sent.len()), &mut leaves, None), None);
        }
    }
}

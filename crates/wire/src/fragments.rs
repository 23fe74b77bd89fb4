//! Fragmentation: an IPv4 packet that is longer than a link carries is cut as a router does it (RFC
//! 791 §2.3, §3.2), and its receiver joins the fragments.
//!
//! ```text
//! │ headers │ payload . . . . . . . . . . . . . . │      offset and "more fragments" advance; behind the first
//!      ╱╲         ╱ 8 · n ╲ 8 · n   ╲ rest ╲             fragment, options that are not copied become no-ops
//! │ headers │ payload │ headers │ payload │ …
//! ```

use zerocopy::FromBytes;
use zerocopy::network_endian::U16;

use crate::checksum::Sum;
use crate::ip::{Layout, Version};
use crate::ipv4;

/// An option that does nothing, and the end of options (RFC 791 §3.1).
const NO_OPERATION: u8 = 1;
const END_OF_OPTIONS: u8 = 0;

/// The bit of an option's type that has it in every fragment.
const COPIED: u8 = 0x80;

/// The fragments of the IPv4 packet in `frame`, each in a frame of at most `most` bytes. Padding
/// behind the packet is left out. Nothing may be left to do for the frame.
///
/// `None` if there is no such packet or it must not be fragmented, if not even 8 bytes of it fit,
/// or if it is a fragment that lies beyond the longest packet's end.
pub fn fragments(frame: &[u8], most: usize) -> Option<Fragments<'_>> {
    let layout = Layout::of(frame).filter(|layout| layout.version == Version::V4)?;
    let (header, _) = ipv4::Header::ref_from_prefix(&frame[layout.network..]).ok()?;
    let room = most.checked_sub(layout.transport)?;
    let end = usize::from(header.offset()) + (layout.end - layout.network);
    let may_go = !header.dont_fragment() && room >= 8 && end <= usize::from(u16::MAX);
    may_go.then_some(Fragments { frame, layout, room, next: Some(0) })
}

/// An iterator over the fragments of a packet; see [`fragments`].
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    frame: &'a [u8],
    layout: Layout,
    /// The longest payload, in bytes. That of each but the last is a multiple of 8.
    room: usize,
    /// Where the next one's payload begins in the packet's.
    next: Option<usize>,
}

impl<'a> Iterator for Fragments<'a> {
    type Item = FragmentFrame<'a>;

    fn next(&mut self) -> Option<FragmentFrame<'a>> {
        let Self { frame, layout, room, next } = *self;
        let begin = next?;
        let rest = &frame[layout.transport + begin..layout.end];
        let is_last = rest.len() <= room;
        let payload = if is_last { rest } else { &rest[..room & !7] };
        self.next = (!is_last).then_some(begin + payload.len());
        Some(FragmentFrame { headers: &frame[..layout.transport], layout, payload, begin, is_last })
    }
}

/// A fragment in its frame, not written anywhere yet.
#[derive(Clone, Copy, Debug)]
pub struct FragmentFrame<'a> {
    /// The packet's headers, Ethernet to IPv4.
    headers: &'a [u8],
    layout: Layout,
    payload: &'a [u8],
    /// Where the payload begins in the packet's.
    begin: usize,
    is_last: bool,
}

impl FragmentFrame<'_> {
    /// The frame's length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a frame has headers")]
    pub fn len(&self) -> usize {
        self.headers.len() + self.payload.len()
    }

    /// Writes the frame to the beginning of `buffer` and returns it; `None` if it has no room
    /// there.
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let Self { headers, layout, payload, begin, is_last } = self;
        let out = buffer.get_mut(..self.len())?;
        let (to, behind) = out.split_at_mut(headers.len());
        to.copy_from_slice(headers);
        behind.copy_from_slice(payload);
        let packet = &mut to[layout.network..];
        let len = packet.len() + payload.len();
        let (header, options) = ipv4::Header::mut_from_prefix(packet).ok()?;
        header.total_len = U16::new(len as u16);
        header.advance(*begin as u16, !is_last);
        header.checksum = U16::ZERO;
        if *begin > 0 {
            leave_copied(options);
        }
        let checksum = Sum::of(packet).checksum();
        packet[ipv4::Header::CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum.to_be_bytes());
        Some(out)
    }
}

/// Replaces the options that are not for every fragment, so that the header keeps its length (as
/// Linux does: `ip_options_fragment`).
fn leave_copied(options: &mut [u8]) {
    let mut rest = options;
    while let [kind, ..] = *rest {
        let len = match (kind, rest.get(1)) {
            (END_OF_OPTIONS, _) => return,
            (NO_OPERATION, _) => 1,
            (_, Some(len)) => usize::from(*len),
            (_, None) => return,
        };
        // One that contradicts itself stays as its sender made it.
        if len == 0 || kind > NO_OPERATION && len < 2 || len > rest.len() {
            return;
        }
        let (option, behind) = rest.split_at_mut(len);
        if kind & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use proptest::prelude::*;
    use units::Mac;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::ethernet::{self, ethertype};
    use crate::ip::{Fragment, protocol};

    /// A no-op, a route to record (3 bytes, not copied), a stream's number (4 bytes, copied), and
    /// what makes it words.
    const OPTIONS: [u8; 12] = [1, 7, 3, 4, 0x88, 4, 2, 1, 7, 3, 4, 0];
    const COPIED_OPTIONS: [u8; 12] = [1, 1, 1, 1, 0x88, 4, 2, 1, 1, 1, 1, 0];

    /// A frame whose packet has these options and this payload.
    fn frame(is_tagged: bool, options: &[u8], payload: &[u8], flags_and_offset: u16) -> Vec<u8> {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let len = options.len() + payload.len();
        let mut ip = ipv4::Header::new(from, to, protocol::UDP, len).unwrap().as_bytes().to_vec();
        ip[0] += options.len() as u8 / 4;
        ip[4..6].copy_from_slice(&77u16.to_be_bytes());
        ip[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        ip.extend(options);
        ip[10..12].fill(0);
        let checksum = Sum::of(&ip).checksum();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let kind = if is_tagged { ethertype::VLAN } else { ethertype::IPV4 };
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), kind);
        let tag: &[u8] = if is_tagged { &[0x60, 42, 8, 0] } else { &[] };
        [ethernet.as_bytes(), tag, &ip, payload].concat()
    }

    fn cut(frame: &[u8], most: usize) -> Vec<Vec<u8>> {
        let write = |fragment: FragmentFrame<'_>| {
            assert!(fragment.len() <= most);
            assert!(fragment.write(&mut vec![0; fragment.len() - 1]).is_none());
            fragment.write(&mut vec![0xaa; fragment.len() + 7]).unwrap().to_vec()
        };
        fragments(frame, most).unwrap().map(write).collect()
    }

    /// The payload that fragments bring, at their places, and whether more of it is elsewhere.
    fn joined(frames: &[Vec<u8>]) -> (BTreeMap<usize, u8>, bool) {
        let (mut bytes, mut more) = (BTreeMap::new(), true);
        for frame in frames {
            let layout = Layout::of(frame).unwrap();
            assert_eq!(layout.end, frame.len());
            assert_eq!(Sum::of(&frame[layout.network..layout.transport]).checksum(), 0);
            let (header, _) = ipv4::Header::ref_from_prefix(&frame[layout.network..]).unwrap();
            assert_eq!(header.id.get(), 77);
            let at = usize::from(header.offset());
            bytes.extend((at..).zip(frame[layout.transport..].iter().copied()));
            more &= !header.part().last;
        }
        (bytes, more)
    }

    proptest! {
        #[test]
        fn fragments_carry_the_packet_and_nothing_else(
            is_tagged: bool,
            has_options: bool,
            payload in prop::collection::vec(any::<u8>(), 1..5000),
            room in 8..2000_usize,
            again in 8..300_usize,
            place in prop_oneof![Just(0), 1..7000_u16],
            more: bool,
        ) {
            let options: &[u8] = if has_options { &OPTIONS } else { &[] };
            let frame = frame(is_tagged, options, &payload, place | if more { 0x2000 } else { 0 });
            let headers = frame.len() - payload.len();
            let padded = [&frame[..], &[0xee; 5]].concat();
            let parts = cut(&padded, headers + room);
            let full = payload.len().saturating_sub(room).div_ceil(room & !7);
            prop_assert_eq!(parts.len(), full + 1);
            for (number, part) in parts.iter().enumerate() {
                let expected = if number > 0 && has_options { &COPIED_OPTIONS } else { options };
                prop_assert_eq!(&part[headers - options.len()..headers], expected);
                prop_assert_eq!(&part[..headers - options.len() - 20], &frame[..headers - options.len() - 20]);
            }
            let begin = 8 * usize::from(place);
            let whole: BTreeMap<_, _> = (begin..).zip(payload.iter().copied()).collect();
            prop_assert_eq!(joined(&parts), (whole.clone(), more));
            // The next router's links may be narrower still.
            let parts: Vec<_> = parts.iter().flat_map(|part| cut(part, headers + again)).collect();
            prop_assert_eq!(joined(&parts), (whole, more));
        }
    }

    #[test]
    fn what_fits_stays_whole() {
        let frame = frame(false, &[], &[7; 100], 0);
        assert_eq!(cut(&frame, frame.len()), [&frame[..]]);
        let empty = self::frame(false, &[], &[], 0);
        assert_eq!(
            cut(&[&empty[..], &[0; 2000]].concat(), 1500),
            [&empty[..]],
            "padding is too long"
        );
        let parts = cut(&frame, frame.len() - 1);
        let kinds: Vec<_> = parts.iter().map(|part| Layout::of(part).unwrap().fragment).collect();
        assert_eq!(kinds, [Fragment::First, Fragment::Later]);
    }

    #[test]
    fn what_must_not_or_cannot_be_cut_is_left_alone() {
        let whole = frame(false, &[], &[7; 100], 0);
        assert!(fragments(&whole, 34 + 7).is_none(), "no room for 8 bytes");
        assert!(fragments(&frame(false, &[], &[7; 100], 0x4000), 60).is_none(), "don't fragment");
        assert!(fragments(&frame(false, &[], &[7; 100], 8191), 60).is_none(), "beyond the end");
        assert!(fragments(&whole[..60], 60).is_none(), "cut short");
        let v6 = [&whole[..12], &[0x86, 0xdd], &[0x60; 100][..]].concat();
        assert!(fragments(&v6, 60).is_none());
    }

    #[test]
    fn options_that_contradict_themselves_stay_as_they_are() {
        for options in [[7, 0, 1, 1], [7, 1, 1, 1], [7, 5, 1, 1], [1, 1, 1, 7]] {
            let mut left = options;
            leave_copied(&mut left);
            assert_eq!(left, options);
        }
    }
}

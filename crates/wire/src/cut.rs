//! What a card makes of a large segment of TCP on its way, and how its receiver has it again.
//!
//! ```text
//! │ headers │ payload . . . . . . . . . . . . . . │
//!      ╲╱         ╱ size    ╱ size               ╱ rest
//! │ headers │ payload │ headers │ payload │ headers │ payl │      each with a copy of what its tunnel has before the frame
//! ```
//!
//! Unlike [`Join`](crate::Join), which finds out what follows what, this is told where the large
//! segment began and how long it was.

use zerocopy::FromBytes;
use zerocopy::network_endian::U16;

use crate::checksum::Sum;
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::stt::Segment;
use crate::tcp::{self, Flags};
use crate::{Offload, PartialChecksum, SegmentKind, ipv4, ipv6};

pub(crate) const FOUND: &str = "a layout's headers are there";

/// What a frame brings of the large one of `len` bytes that it was cut from, the number of whose
/// first byte of TCP ends with these bits: with the first, the headers; `None` if it was not.
/// Others of the same `id` bring the rest.
pub fn segment(frame: &[u8], id: u32, sequence: u16, len: usize) -> Option<Segment<'_>> {
    let layout = Layout::of(frame)?;
    let is_plain = layout.protocol == protocol::TCP
        && layout.fragment == Fragment::Whole
        && layout.end == frame.len();
    let tcp = tcp::Segment::parse(frame.get(layout.transport..)?).filter(|_| is_plain)?;
    let begin = usize::from((tcp.header.sequence.get() as u16).wrapping_sub(sequence));
    let header_len = frame.len() - tcp.payload.len();
    let (offset, payload) = if begin == 0 { (0, frame) } else { (header_len + begin, tcp.payload) };
    let fits = offset + payload.len() <= len && len <= usize::from(u16::MAX);
    (fits && !tcp.payload.is_empty()).then_some(Segment { id, frame_len: len, offset, payload })
}

/// What is left to do for a large segment that may be cut into others with `size` bytes of payload,
/// or that begins with the headers of the first of these. `None` if it is none.
pub fn offload(frame: &[u8], size: u16) -> Option<Offload> {
    let layout = Layout::of(frame).filter(|layout| layout.protocol == protocol::TCP)?;
    left(frame, &layout, size)
}

/// The same, of a TCP packet that this layout was found by.
pub(crate) fn left(frame: &[u8], layout: &Layout, size: u16) -> Option<Offload> {
    let (tcp, _) = tcp::Header::ref_from_prefix(frame.get(layout.transport..)?).ok()?;
    let kind = match layout.version {
        Version::V4 => SegmentKind::Tcp4,
        Version::V6 => SegmentKind::Tcp6,
    };
    let start = u16::try_from(layout.transport).ok()?;
    let header_len = u16::try_from(layout.transport + tcp.len()).ok()?;
    let segment = crate::Segment { kind, ecn: tcp.flags.contains(Flags::CWR), header_len, size };
    let checksum = PartialChecksum { start, offset: tcp::Header::CHECKSUM_OFFSET };
    Some(Offload { checksum: Some(checksum), segment: Some(segment), data_valid: false })
}

/// Makes the headers of the first segment those of the large one that the frame is again, whose
/// last one had these flags, too: its checksum is left to complete. `None` if there is no TCP in
/// it.
pub fn restore(frame: &mut [u8], flags: Flags) -> Option<()> {
    let layout = Layout::of(frame).filter(|layout| layout.protocol == protocol::TCP)?;
    let (tcp, _) = tcp::Header::ref_from_prefix(frame.get(layout.transport..)?).ok()?;
    let flags = tcp.flags | flags;
    enlarge(frame, &layout, flags);
    Some(())
}

/// Has the headers of a TCP packet, which this layout was found by, say that it ends where the
/// frame does.
pub(crate) fn enlarge(frame: &mut [u8], layout: &Layout, flags: Flags) {
    let Layout { version, network, transport, .. } = *layout;
    let packet_len = frame.len() - network;
    match version {
        Version::V4 => {
            let header = &mut frame[network..transport];
            let (ip, _) = ipv4::Header::mut_from_prefix(header).expect(FOUND);
            (ip.total_len, ip.checksum) = (U16::new(packet_len as u16), U16::ZERO);
            let checksum = Sum::of(header).checksum();
            let (ip, _) = ipv4::Header::mut_from_prefix(header).expect(FOUND);
            ip.checksum = U16::new(checksum);
        }
        Version::V6 => {
            let (ip, _) = ipv6::Header::mut_from_prefix(&mut frame[network..]).expect(FOUND);
            ip.payload_len = U16::new((packet_len - ipv6::Header::LEN) as u16);
        }
    }
    // As a stack leaves it: the field holds the pseudo-header's sum, not its complement.
    let partial = !layout.pseudo_header(frame, frame.len() - transport).checksum();
    let (tcp, _) = tcp::Header::mut_from_prefix(&mut frame[transport..]).expect(FOUND);
    (tcp.flags, tcp.checksum) = (flags, U16::new(partial));
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;
    use units::{Instant, Mac};
    use zerocopy::IntoBytes;

    use super::*;
    use crate::ethernet::{self, ethertype};
    use crate::segments;
    use crate::stt::Reassembly;

    /// Where large segments begin.
    const SEQUENCE: u32 = u32::MAX - 1000;

    /// A large segment, and what is left to do for it.
    pub(crate) fn large(
        version: Version,
        flags: Flags,
        size: u16,
        payload: &[u8],
    ) -> (Vec<u8>, Offload) {
        let tcp = tcp::Header::new(1, 2, SEQUENCE, flags).with_options(12).unwrap();
        let segment = [tcp.as_bytes(), &[1; 12], payload].concat();
        let (kind, ethertype, ip) = match version {
            Version::V4 => {
                let ip =
                    ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, 6, segment.len());
                (SegmentKind::Tcp4, ethertype::IPV4, ip.unwrap().as_bytes().to_vec())
            }
            Version::V6 => {
                let ip =
                    ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 6, segment.len());
                (SegmentKind::Tcp6, ethertype::IPV6, ip.unwrap().as_bytes().to_vec())
            }
        };
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
        let transport = 14 + ip.len();
        let mut frame = [ethernet.as_bytes(), &ip, &segment].concat();
        restore(&mut frame, flags).unwrap();
        let segment = crate::Segment {
            kind,
            ecn: flags.contains(Flags::CWR),
            header_len: transport as u16 + 32,
            size,
        };
        let checksum = Some(PartialChecksum { start: transport as u16, offset: 16 });
        (frame, Offload { checksum, segment: Some(segment), data_valid: false })
    }

    fn larges() -> impl Strategy<Value = (Vec<u8>, Offload)> {
        let version = prop_oneof![Just(Version::V4), Just(Version::V6)];
        (version, any::<u8>(), 1..1500_u16, prop::collection::vec(any::<u8>(), 1..9000)).prop_map(
            |(version, flags, size, payload)| large(version, Flags(flags), size, &payload),
        )
    }

    /// What a card makes of it.
    pub(crate) fn cut(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
        let write = |piece: crate::Piece<'_>| {
            let mut bytes = alloc::vec![0; piece.len()];
            piece.write(&mut bytes).unwrap();
            bytes
        };
        segments(frame, offload).unwrap().map(write).collect()
    }

    proptest! {
        #[test]
        fn what_was_cut_is_had_again(
            (frame, offload) in larges(),
            order: prop::sample::Index,
            lost in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let flags = Flags(frame[usize::from(offload.checksum.unwrap().start) + 13] & (Flags::PSH | Flags::FIN).0);
            let size = offload.segment.unwrap().size;
            let mut pieces = cut(&frame, offload);
            let count = pieces.len();
            pieces.rotate_left(order.index(count));
            let lost = lost.map(|lost| pieces.remove(lost.index(count)));
            let mut reassembly = Reassembly::new(1);
            let mut had = None;
            for piece in &pieces {
                let segment = segment(piece, 7, SEQUENCE as u16, frame.len()).unwrap();
                prop_assert_eq!(had, None);
                let joined = reassembly.take((), &segment, false, Instant::ZERO).unwrap();
                had = joined.map(|joined| joined.bytes.to_vec());
            }
            prop_assert_eq!(had.is_none(), lost.is_some());
            let Some(mut had) = had else { return Ok(()) };
            prop_assert_eq!(super::offload(&had, size), Some(offload));
            restore(&mut had, flags).unwrap();
            prop_assert_eq!(&had, &frame);
            prop_assert_eq!(super::offload(&had, size), Some(offload));
        }

        #[test]
        fn what_lies_is_refused_or_inside(
            (frame, offload) in larges(),
            (byte, by) in (any::<prop::sample::Index>(), any::<u8>()),
            short: prop::sample::Index,
            len in 0..70_000_usize,
            sequence in prop_oneof![Just(SEQUENCE as u16), Just(SEQUENCE as u16 + 100), any::<u16>()],
        ) {
            for mut piece in cut(&frame, offload) {
                let place = byte.index(piece.len());
                piece[place] ^= by;
                for piece in [&piece[..], &piece[..short.index(piece.len())]] {
                    if let Some(segment) = segment(piece, 0, sequence, len) {
                        prop_assert!(!segment.payload.is_empty() && segment.offset + segment.payload.len() <= len);
                        prop_assert!(len <= usize::from(u16::MAX));
                    }
                }
                let _ = super::offload(&piece, 1);
                let _ = restore(&mut piece, Flags(by));
            }
        }
    }
}

//! Segmentation in software: what a receiver without the offload is given instead of one large
//! frame.
//!
//! ```text
//! │ headers │ payload . . . . . . . . . . . . . . │      TCP: sequence and IPv4 id advance; CWR stays with the
//!      ╱╲         ╱ size  ╲ size    ╲ rest ╲             first segment, FIN and PSH with the last
//! │ headers │ payload │ headers │ payload │ …            UDP: equal datagrams
//! ```
//!
//! It cuts as Linux does (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`).

use zerocopy::FromBytes;
use zerocopy::network_endian::{U16, U32};

use crate::checksum::Sum;
use crate::ip::{Layout, Version, protocol};
use crate::offload::locate;
use crate::tcp::Flags;
use crate::{Offload, OffloadError, PartialChecksum, Segment, SegmentKind, ipv4, ipv6, tcp, udp};

/// The frames that `frame` stands for once all that `offload` left undone is done.
///
/// Without segments to cut that is one frame, its checksum complete. An error means that the frame
/// is not what `offload` says, which [`Offload::parse`] would have told.
pub fn segments(frame: &[u8], offload: Offload) -> Result<Segments<'_>, OffloadError> {
    let cut = match (offload.segment, offload.checksum) {
        (Some(segment), checksum) => Some(Cut::new(frame, checksum, segment)?),
        (None, Some(partial)) => partial.check(frame.len()).map(|()| None)?,
        (None, None) => None,
    };
    let count = cut.as_ref().map_or(1, Cut::count);
    Ok(Segments { plan: Plan { frame, offload, cut, count }, next: 0 })
}

/// An iterator over the segments of a frame; see [`segments`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    plan: Plan<'a>,
    next: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let index = self.next;
        if index == self.plan.count {
            return None;
        }
        self.next += 1;
        Some(Piece { plan: self.plan, index })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.plan.count - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Segments<'_> {}

/// One segment, not written anywhere yet.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    plan: Plan<'a>,
    index: usize,
}

impl Piece<'_> {
    /// The segment's length in bytes, headers included.
    #[expect(clippy::len_without_is_empty, reason = "a segment has headers")]
    pub fn len(&self) -> usize {
        match &self.plan.cut {
            Some(cut) => cut.header_len + cut.payload(self.plan.frame, self.index).len(),
            None => self.plan.frame.len(),
        }
    }

    /// Writes the segment, a frame with nothing left to do, to the beginning of `buffer` and
    /// returns it; `None` if it has no room there.
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let Plan { frame, offload, cut, count } = &self.plan;
        let out = buffer.get_mut(..self.len())?;
        match cut {
            Some(cut) => {
                let (headers, payload) = out.split_at_mut(cut.header_len);
                headers.copy_from_slice(&frame[..cut.header_len]);
                payload.copy_from_slice(cut.payload(frame, self.index));
                cut.amend(out, self.index, self.index + 1 == *count);
            }
            None => {
                out.copy_from_slice(frame);
                if let Some(partial) = offload.checksum {
                    partial.complete(out);
                }
            }
        }
        Some(out)
    }
}

/// What becomes of a frame: `count` segments, or itself if there is nothing to cut.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    frame: &'a [u8],
    offload: Offload,
    cut: Option<Cut>,
    count: usize,
}

/// How one frame is cut; found valid for that frame.
#[derive(Clone, Copy, Debug)]
struct Cut {
    layout: Layout,
    header_len: usize,
    checksum_offset: usize,
    payload_len: usize,
    size: usize,
}

impl Cut {
    fn new(
        frame: &[u8],
        checksum: Option<PartialChecksum>,
        Segment { kind, size, .. }: Segment,
    ) -> Result<Self, OffloadError> {
        let located = locate(kind, checksum, frame, frame.len()).filter(|_| size > 0);
        let (layout, header_len) = located.ok_or(OffloadError::OtherKind(kind))?;
        let checksum_offset = match kind {
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => tcp::Header::CHECKSUM_OFFSET,
            SegmentKind::Udp => udp::Header::CHECKSUM_OFFSET,
        };
        Ok(Self {
            layout,
            header_len,
            checksum_offset: usize::from(checksum_offset),
            payload_len: frame.len() - header_len,
            size: usize::from(size),
        })
    }

    fn count(&self) -> usize {
        self.payload_len.div_ceil(self.size).max(1)
    }

    fn payload<'a>(&self, frame: &'a [u8], index: usize) -> &'a [u8] {
        frame[self.header_len..].chunks(self.size).nth(index).unwrap_or_default()
    }

    /// Makes `segment`, which begins with a copy of the large frame's headers, the one at `index`.
    fn amend(&self, segment: &mut [u8], index: usize, last: bool) {
        let Layout { version, network, transport, protocol, .. } = self.layout;
        let transport_len = segment.len() - transport;
        let pseudo_header = self.layout.pseudo_header(segment, transport_len);
        let (headers, behind) = segment.split_at_mut(transport);
        match version {
            Version::V4 => amend_ipv4(&mut headers[network..], transport_len, index),
            Version::V6 => {
                let ip = ipv6::Header::mut_from_prefix(&mut headers[network..]);
                let (ip, extensions) = ip.expect(FOUND);
                ip.payload_len = U16::new((extensions.len() + transport_len) as u16);
            }
        }
        match protocol {
            protocol::TCP => amend_tcp(behind, index, self.size, last),
            _ => amend_udp(behind),
        }
        let checksum = (pseudo_header + Sum::of(behind)).transport_checksum();
        behind[self.checksum_offset..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
}

const FOUND: &str = "the layout found this header whole, and segments begin with a copy of it";

fn amend_ipv4(header: &mut [u8], transport_len: usize, index: usize) {
    let len = header.len();
    let (ip, _options) = ipv4::Header::mut_from_prefix(header).expect(FOUND);
    ip.total_len = U16::new((len + transport_len) as u16);
    ip.id = U16::new(ip.id.get().wrapping_add(index as u16));
    ip.checksum = U16::ZERO;
    let checksum = Sum::of(header).checksum();
    header[ipv4::Header::CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum.to_be_bytes());
}

/// Leaves the checksum field at zero.
fn amend_tcp(segment: &mut [u8], index: usize, size: usize, last: bool) {
    let (tcp, _data) = tcp::Header::mut_from_prefix(segment).expect(FOUND);
    tcp.sequence = U32::new(tcp.sequence.get().wrapping_add((index * size) as u32));
    if index > 0 {
        tcp.flags = tcp.flags.without(Flags::CWR);
    }
    if !last {
        tcp.flags = tcp.flags.without(Flags::FIN | Flags::PSH);
    }
    tcp.checksum = U16::ZERO;
}

/// Leaves the checksum field at zero.
fn amend_udp(datagram: &mut [u8]) {
    let len = datagram.len() as u16;
    let (udp, _data) = udp::Header::mut_from_prefix(datagram).expect(FOUND);
    udp.len = U16::new(len);
    udp.checksum = U16::ZERO;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{self, Tag, TagHeader, ethertype};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use units::{Class, Mac};
    use zerocopy::IntoBytes;

    /// A large frame as a kernel would hand it over.
    #[derive(Clone, Debug)]
    struct Large {
        kind: SegmentKind,
        version: Version,
        tagged: bool,
        flags: u8,
        sequence: u32,
        id: u16,
        options: usize,
        size: u16,
        payload: Vec<u8>,
    }

    impl Large {
        fn build(&self) -> (Vec<u8>, Offload) {
            let transport = self.transport();
            let ethertype = match self.version {
                Version::V4 => ethertype::IPV4,
                Version::V6 => ethertype::IPV6,
            };
            let first = if self.tagged { ethertype::VLAN } else { ethertype };
            let mut frame =
                ethernet::Header::new(Mac::local(1), Mac::local(2), first).as_bytes().to_vec();
            if self.tagged {
                let tci = Tag { class: Class::from_low_bits(3), vlan: 42 }.tci();
                frame.extend_from_slice(
                    TagHeader { tci: U16::new(tci), ethertype: U16::new(ethertype) }.as_bytes(),
                );
            }
            let protocol =
                if self.kind == SegmentKind::Udp { protocol::UDP } else { protocol::TCP };
            match self.version {
                Version::V4 => {
                    let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
                    let mut ip = ipv4::Header::new(from, to, protocol, transport.len()).unwrap();
                    ip.id = U16::new(self.id);
                    ip.checksum = U16::ZERO;
                    ip.checksum = U16::new(Sum::of(ip.as_bytes()).checksum());
                    frame.extend_from_slice(ip.as_bytes());
                }
                Version::V6 => {
                    let (from, to) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
                    let ip = ipv6::Header::new(from, to, protocol, transport.len()).unwrap();
                    frame.extend_from_slice(ip.as_bytes());
                }
            }
            let start = frame.len() as u16;
            frame.extend_from_slice(&transport);
            let (header_len, offset) = match self.kind {
                SegmentKind::Udp => (8, 6),
                _ => (20 + self.options as u16, 16),
            };
            let segment = Segment {
                kind: self.kind,
                ecn: false,
                header_len: start + header_len,
                size: self.size,
            };
            let checksum = Some(PartialChecksum { start, offset });
            (frame, Offload { checksum, segment: Some(segment), data_valid: false })
        }

        fn transport(&self) -> Vec<u8> {
            if self.kind == SegmentKind::Udp {
                let header = udp::Header::new(1, 2, self.payload.len()).unwrap();
                return [header.as_bytes(), &self.payload].concat();
            }
            let header = tcp::Header::new(1, 2, self.sequence, Flags(self.flags));
            let header = header.with_options(self.options).unwrap();
            [header.as_bytes(), &vec![1; self.options], &self.payload].concat()
        }
    }

    fn large() -> impl Strategy<Value = Large> {
        let kind = prop_oneof![
            Just((SegmentKind::Tcp4, Version::V4)),
            Just((SegmentKind::Tcp6, Version::V6)),
            Just((SegmentKind::Udp, Version::V4)),
            Just((SegmentKind::Udp, Version::V6)),
        ];
        let numbers = (any::<u8>(), any::<u32>(), any::<u16>(), 0usize..=10);
        let payload = prop::collection::vec(any::<u8>(), 0..5000);
        (kind, any::<bool>(), numbers, 1u16..2000, payload).prop_map(
            |((kind, version), tagged, (flags, sequence, id, words), size, payload)| Large {
                kind,
                version,
                tagged,
                flags,
                sequence,
                id,
                options: words * 4,
                size,
                payload,
            },
        )
    }

    fn cut(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
        let write = |piece: Piece<'_>| {
            let mut buffer = vec![0xaa; piece.len() + 7];
            piece.write(&mut buffer).expect("the buffer has room").to_vec()
        };
        segments(frame, offload).unwrap().map(write).collect()
    }

    /// The transport's bytes, once all lengths and checksums were found right.
    fn verified(frame: &[u8]) -> &[u8] {
        let layout = Layout::of(frame).expect("a segment is a whole packet");
        assert_eq!(layout.end, frame.len());
        if layout.version == Version::V4 {
            assert_eq!(
                Sum::of(&frame[layout.network..layout.transport]).checksum(),
                0,
                "IPv4 checksum"
            );
        }
        let transport = &frame[layout.transport..];
        let sum = layout.pseudo_header(frame, transport.len()) + Sum::of(transport);
        assert_eq!(sum.checksum(), 0, "transport checksum");
        transport
    }

    proptest! {
        #[test]
        fn segments_carry_the_frame_and_nothing_else(large in large()) {
            let (frame, offload) = large.build();
            prop_assert_eq!(Offload::parse(&offload.emit(), &frame), Ok(offload));
            // Its headers say the same, if they are told how long it is.
            let headers = usize::from(offload.segment.unwrap().header_len);
            let parse_head = |len| Offload::parse_head(&offload.emit(), &frame[..headers], len);
            prop_assert_eq!(parse_head(frame.len()), Ok(offload));
            prop_assert!(parse_head(frame.len() + 1).is_err() && parse_head(headers - 1).is_err());
            prop_assert_eq!(
                udp::Packet::parse_head(&frame[..headers], frame.len(), offload),
                udp::Packet::parse(&frame, offload)
            );
            let pieces = cut(&frame, offload);
            prop_assert_eq!(pieces.len(), crate::wire_frames(frame.len(), offload));
            prop_assert_eq!(
                pieces.iter().map(Vec::len).sum::<usize>(), crate::wire_bytes(frame.len(), offload),
            );

            let mut payload = Vec::new();
            for (i, piece) in pieces.iter().enumerate() {
                let (first, last) = (i == 0, i + 1 == pieces.len());
                let transport = verified(piece);
                let carried = if large.kind == SegmentKind::Udp {
                    let (header, carried) = udp::Header::parse(transport).unwrap();
                    prop_assert_eq!(usize::from(header.len.get()), transport.len());
                    carried
                } else {
                    let segment = tcp::Segment::parse(transport).unwrap();
                    let sequence = large.sequence.wrapping_add(payload.len() as u32);
                    prop_assert_eq!(segment.header.sequence.get(), sequence);
                    let mut flags = Flags(large.flags);
                    if !first { flags = flags.without(Flags::CWR) }
                    if !last { flags = flags.without(Flags::FIN | Flags::PSH) }
                    prop_assert_eq!(segment.header.flags, flags);
                    segment.payload
                };
                let layout = Layout::of(piece).unwrap();
                if layout.version == Version::V4 {
                    let ip = ipv4::Packet::parse(&piece[layout.network..]).unwrap();
                    prop_assert_eq!(ip.header.id.get(), large.id.wrapping_add(i as u16));
                }
                prop_assert!(last || carried.len() == usize::from(large.size));
                payload.extend_from_slice(carried);
            }
            prop_assert_eq!(payload, large.payload);
        }

        #[test]
        fn without_segments_only_the_checksum_is_completed(large in large()) {
            let (frame, offload) = large.build();
            let layout = Layout::of(&frame).unwrap();
            // As a stack leaves it: the field holds the pseudo-header's sum, not its complement.
            let mut frame = frame;
            let partial = !layout.pseudo_header(&frame, frame.len() - layout.transport).checksum();
            let at = layout.transport + usize::from(offload.checksum.unwrap().offset);
            frame[at..at + 2].copy_from_slice(&partial.to_be_bytes());
            prop_assert_eq!(PartialChecksum::left_in(&frame, &layout), offload.checksum);

            let pieces = cut(&frame, Offload { segment: None, ..offload });
            prop_assert_eq!(pieces.len(), 1);
            verified(&pieces[0]);
            // One that is complete, and looks left to do by chance, stays as it is.
            let offload = Offload { checksum: offload.checksum, ..Offload::NONE };
            let at_ends = |pieces: &[Vec<u8>]| pieces[0][at..at + 2].to_vec();
            if PartialChecksum::left_in(&pieces[0], &layout).is_some() {
                prop_assert_eq!(at_ends(&cut(&pieces[0], offload)), at_ends(&pieces));
            }
        }
    }

    fn sample() -> (Vec<u8>, Offload) {
        Large {
            kind: SegmentKind::Tcp4,
            version: Version::V4,
            tagged: false,
            flags: 0x18,
            sequence: 1,
            id: 1,
            options: 12,
            size: 1448,
            payload: vec![7; 60_000],
        }
        .build()
    }

    #[test]
    fn a_large_frame_is_paid_for_as_the_wire_would_carry_it() {
        let (frame, offload) = sample();
        assert_eq!(crate::wire_frames(frame.len(), offload), 42); // ⌈60,000 / 1448⌉
        assert_eq!(crate::wire_bytes(frame.len(), offload), 60_000 + 42 * 66);
        assert_eq!(crate::wire_bytes(60, Offload::NONE), 60);
    }

    #[test]
    fn a_buffer_without_room_gets_nothing() {
        let (frame, offload) = sample();
        let piece = segments(&frame, offload).unwrap().next().unwrap();
        assert_eq!(piece.len(), 1514);
        assert!(piece.write(&mut [0; 1513]).is_none());
    }

    #[test]
    fn a_header_that_does_not_fit_its_frame_is_told() {
        let (frame, good) = sample();
        let (segment, partial) = (good.segment.unwrap(), good.checksum.unwrap());
        let with = |segment| Offload { segment: Some(segment), ..good };
        for bad in [
            with(Segment { kind: SegmentKind::Tcp6, ..segment }),
            with(Segment { kind: SegmentKind::Udp, ..segment }),
            with(Segment { size: 0, ..segment }),
            Offload { checksum: None, ..good },
            Offload { checksum: Some(PartialChecksum { start: 33, ..partial }), ..good },
            Offload { checksum: Some(PartialChecksum { offset: 6, ..partial }), ..good },
        ] {
            let kind = bad.segment.unwrap().kind;
            assert_eq!(segments(&frame, bad).unwrap_err(), OffloadError::OtherKind(kind));
            assert_eq!(Offload::parse(&bad.emit(), &frame), Err(OffloadError::OtherKind(kind)));
        }
        assert!(Offload::parse(&good.emit(), &frame[..frame.len() - 1]).is_err(), "cut short");
    }
}

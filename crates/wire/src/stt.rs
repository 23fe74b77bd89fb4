//! STT, stateless transport tunneling (draft-davie-stt-08): a frame of a virtual network behind a
//! header that looks like TCP's, so that network cards cut a large one into segments and join them
//! again as they do for TCP.
//!
//! ```text
//! │ STT header │ frame . . . . . . . . . . . . . . . . . . . . │      length in all: up to 65,535 bytes
//!       ╱              ╲                                ╲
//! │ tcp │ bytes from 0 │ tcp │ bytes from offset │ tcp │ rest │      sequence = length << 16 | offset,
//!                                                                   acknowledgment = packet id, the same in all
//! ```
//!
//! There is no connection, and nothing is sent again: a frame of which a segment is lost is lost.
//! [`Reassembly`] waits for those that may still come.

mod reassembly;

use core::num::NonZeroUsize;

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{Sum, pseudo_header};
use crate::ethernet::Tag;
use crate::ip::{Layout, Version, protocol};
use crate::{Offload, OffloadError, PartialChecksum, SegmentKind, tcp, udp};

pub use reassembly::{Joined, Reassembly, Refusal};

/// The TCP port of a tunnel's end (draft-davie-stt-08 §5, IANA's registry).
pub const PORT: u16 = 7471;

/// The header before a frame: 18 bytes (draft-davie-stt-08 §3.1).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// "Version": 0.
    version: u8,
    /// [`VERIFIED`] to [`TCP`]; the other bits are 0 when sent, ignored when received.
    flags: u8,
    /// "L4 offset": where the frame's transport header begins, in bytes from the end of this
    /// header.
    transport: u8,
    /// "Reserved": 0 when sent, ignored when received.
    reserved: u8,
    /// "Max. Segment Size": into what the frame is to be cut in the end; 0: it is not.
    segment_size: U16,
    /// "PCP", 3 bits; "V", which says that this counts; "VLAN ID", 12 bits.
    tag: U16,
    /// "Context ID": whose frame it is, and whatever else the tunnel's ends have agreed on.
    pub context: U64,
    /// "Padding": it aligns the frame's IP header to 4 bytes.
    padding: U16,
}

/// "Checksum verified": the frame's transport checksum is right.
const VERIFIED: u8 = 0x01;
/// "Checksum partial": the frame's transport checksum covers the pseudo-header only. Never together
/// with [`VERIFIED`].
const PARTIAL: u8 = 0x02;
/// "IP version": the frame carries IPv4, else IPv6.
const IPV4: u8 = 0x04;
/// "TCP payload": the frame carries TCP.
const TCP: u8 = 0x08;

/// "V" within the tag.
const HAS_TAG: u16 = 0x1000;

impl Header {
    /// The header's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The header of a frame in `context`, of which all that `offload` says is still to be done.
    /// `tag` is one that the frame had, or would have, and has not in its bytes.
    ///
    /// `None` if STT cannot say that, so that it must be done first
    /// ([`segments`](crate::segments)): UDP to cut, or a checksum that is not TCP's or UDP's, or
    /// begins later than 255 bytes into the frame.
    pub fn new(context: u64, tag: Option<Tag>, frame: &[u8], offload: Offload) -> Option<Self> {
        let mut header = Self {
            version: 0,
            flags: if offload.data_valid { VERIFIED } else { 0 },
            transport: 0,
            reserved: 0,
            segment_size: U16::ZERO,
            tag: U16::new(tag.map_or(0, |tag| tag.tci() | HAS_TAG)),
            context: U64::new(context),
            padding: U16::ZERO,
        };
        if let Some(partial) = offload.checksum {
            let layout = Layout::of(frame)?;
            header.flags = PARTIAL
                | if layout.version == Version::V4 { IPV4 } else { 0 }
                | if layout.protocol == protocol::TCP { TCP } else { 0 };
            header.transport = u8::try_from(layout.transport).ok()?;
            if partial != header.partial()
                || !matches!(layout.protocol, protocol::TCP | protocol::UDP)
            {
                return None;
            }
        }
        if let Some(segment) = offload.segment {
            header.segment_size.set(segment.size);
            if header.flags & PARTIAL == 0 || header.segment_kind() != Some(segment.kind) {
                return None;
            }
        }
        Some(header)
    }

    /// The header and the frame that `bytes`, all segments joined, are; `None` if they are too
    /// short or of another version.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (header, frame) = Self::ref_from_prefix(bytes).ok()?;
        (header.version == 0).then_some((header, frame))
    }

    /// The VLAN tag that the frame has besides those in its bytes; `None` if it has none.
    pub fn tag(&self) -> Option<Tag> {
        let tag = self.tag.get();
        // Its bit in a tag's control information is drop eligibility, which a tag does not keep.
        (tag & HAS_TAG != 0).then_some(Tag::from_tci(tag))
    }

    /// What is left to do for the frame, checked against it: afterwards it can be trusted.
    ///
    /// # Errors
    ///
    /// The frame is not what the header says.
    pub fn offload(&self, frame: &[u8]) -> Result<Offload, OffloadError> {
        let checksum = (self.flags & PARTIAL != 0).then(|| self.partial());
        let size = self.segment_size.get();
        let mut segment = None;
        if size > 0 {
            // Of UDP there is no telling whether datagrams are meant or fragments of one.
            let kind = self.segment_kind().ok_or(OffloadError::OtherKind(SegmentKind::Udp))?;
            // A large frame says itself whether its stream uses congestion notification.
            let header = frame.get(usize::from(self.transport)..).unwrap_or_default();
            let header = tcp::Header::ref_from_prefix(header).ok();
            let ecn = header.is_some_and(|(header, _)| header.flags.contains(tcp::Flags::CWR));
            segment = Some(crate::Segment { kind, ecn, header_len: 0, size });
        }
        let offload = Offload { checksum, segment, data_valid: self.flags & VERIFIED != 0 };
        Offload::parse(&offload.emit(), frame)
    }

    /// The checksum that is partial, if one is.
    fn partial(&self) -> PartialChecksum {
        let is_tcp = self.flags & TCP != 0;
        let offset =
            if is_tcp { tcp::Header::CHECKSUM_OFFSET } else { udp::Header::CHECKSUM_OFFSET };
        PartialChecksum { start: self.transport.into(), offset }
    }

    /// What the frame may be cut into: TCP alone.
    fn segment_kind(&self) -> Option<SegmentKind> {
        let kind = if self.flags & IPV4 != 0 { SegmentKind::Tcp4 } else { SegmentKind::Tcp6 };
        (self.flags & TCP != 0).then_some(kind)
    }
}

/// A frame behind its header, to be sent in segments.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: Header,
    frame: &'a [u8],
    id: u32,
}

impl<'a> Frame<'a> {
    /// The longest frame that fits behind its header, in bytes.
    pub const LONGEST: usize = u16::MAX as usize - Header::LEN;

    /// `frame` behind `header`; `None` if it is longer than [`LONGEST`](Self::LONGEST). No other
    /// frame between the same two addresses may have the same `id` as long as segments of this one
    /// may be on their way.
    pub fn new(header: Header, frame: &'a [u8], id: u32) -> Option<Self> {
        (frame.len() <= Self::LONGEST).then_some(Self { header, frame, id })
    }

    /// The segments that carry it, each of `most` bytes of it at most.
    pub fn pieces(self, most: NonZeroUsize) -> impl ExactSizeIterator<Item = Piece<'a>> {
        let (len, most) = (self.len(), most.get());
        (0..len.div_ceil(most)).map(move |index| {
            let offset = index * most;
            Piece { frame: self, offset, len: most.min(len - offset) }
        })
    }

    /// Header and frame, in bytes.
    fn len(&self) -> usize {
        Header::LEN + self.frame.len()
    }
}

/// A segment that is not written anywhere yet.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    frame: Frame<'a>,
    /// Where its bytes begin: 0 is the STT header's first.
    pub offset: usize,
    /// How many bytes of header and frame it carries.
    pub len: usize,
}

impl Piece<'_> {
    /// The length in bytes of what [`write`](Self::write) writes: an IP packet's payload.
    pub const fn packet_len(&self) -> usize {
        tcp::Header::LEN + self.len
    }

    /// Writes TCP's header and the bytes, which an IP packet carries between `addresses` as they
    /// lie in its header (see [`pseudo_header`]), to the beginning of `buffer` and returns them;
    /// `None` if they have no room there.
    ///
    /// `source_port` is best the same for all frames of a flow, and another for others, so that
    /// flows spread over ways (draft-davie-stt-08 §3.2).
    pub fn write<'b>(
        &self,
        source_port: u16,
        addresses: &[u8],
        buffer: &'b mut [u8],
    ) -> Option<&'b mut [u8]> {
        let packet = buffer.get_mut(..self.packet_len())?;
        let mut header = segment_header(source_port, self.frame.len(), self.offset, self.frame.id);
        let (head, payload) = packet.split_at_mut(tcp::Header::LEN);
        let begin = self.offset.min(Header::LEN);
        let (before, behind) = payload.split_at_mut(self.len.min(Header::LEN - begin));
        before.copy_from_slice(&self.frame.header.as_bytes()[begin..][..before.len()]);
        let begin = self.offset.saturating_sub(Header::LEN);
        behind.copy_from_slice(&self.frame.frame[begin..][..behind.len()]);
        let sum =
            pseudo_header(addresses, protocol::TCP, self.packet_len()) + Sum::of(header.as_bytes());
        header.checksum.set((sum + Sum::of(payload)).checksum());
        head.copy_from_slice(header.as_bytes());
        Some(packet)
    }
}

/// TCP's header, but for its checksum, of the segment that carries the bytes from `offset` on of a
/// frame and its header, which have `frame_len` bytes, less than 65,536 (draft-davie-stt-08 §3.2).
/// See [`Piece::write`] for the port, and [`Frame::new`] for `id`.
pub const fn segment_header(
    source_port: u16,
    frame_len: usize,
    offset: usize,
    id: u32,
) -> tcp::Header {
    let sequence = (frame_len << 16 | offset) as u32;
    let mut header = tcp::Header::new(source_port, PORT, sequence, tcp::Flags::ACK);
    header.acknowledgment = U32::new(id);
    header.window = U16::new(u16::MAX);
    header
}

/// A segment that has arrived, whose bytes lie inside its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment<'a> {
    /// Of which frame it is, among those between the same two addresses.
    pub id: u32,
    /// The length of that frame and its header, in bytes.
    pub frame_len: usize,
    /// Where its bytes begin: 0 is the STT header's first.
    pub offset: usize,
    /// Its bytes: at least one.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// What a TCP segment to [`PORT`] says (draft-davie-stt-08 §3.2); `None` if it is empty, or
    /// contradicts itself.
    pub fn parse(segment: &tcp::Segment<'a>) -> Option<Self> {
        let sequence = segment.header.sequence.get();
        let id = segment.header.acknowledgment.get();
        let (frame_len, offset) = ((sequence >> 16) as usize, (sequence & 0xffff) as usize);
        let payload = segment.payload;
        let is_inside = offset + payload.len() <= frame_len && frame_len >= Header::LEN;
        (is_inside && !payload.is_empty()).then_some(Self { id, frame_len, offset, payload })
    }

    /// Whether it is all of its frame.
    pub const fn is_whole(&self) -> bool {
        self.payload.len() == self.frame_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{self, ethertype};
    use crate::{ipv4, ipv6};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use units::{Class, Mac};

    const ADDRESSES: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

    proptest! {
        #[test]
        fn segments_carry_the_frame_and_nothing_else(
            frame: Vec<u8>, context: u64, id: u32, tag in proptest::option::of((0u8..8, 0u16..4096)),
            most in 1usize..200,
        ) {
            let tag = tag.map(|(pcp, vlan)| Tag { class: Class::from_low_bits(pcp), vlan });
            let header = Header::new(context, tag, &frame, Offload::NONE).unwrap();
            let pieces = Frame::new(header, &frame, id).unwrap().pieces(NonZeroUsize::new(most).unwrap());
            let mut joined = Vec::new();
            for piece in pieces {
                let mut buffer = vec![0; piece.packet_len()];
                prop_assert!(piece.write(1000, &ADDRESSES, &mut buffer[1..]).is_none());
                let bytes = piece.write(1000, &ADDRESSES, &mut buffer).unwrap();
                let sum = pseudo_header(&ADDRESSES, protocol::TCP, bytes.len()) + Sum::of(bytes);
                prop_assert_eq!(sum.checksum(), 0);
                let tcp = tcp::Segment::parse(bytes).unwrap();
                prop_assert_eq!(tcp.header.destination.get(), PORT);
                let segment = Segment::parse(&tcp).unwrap();
                let place = (segment.id, segment.frame_len, segment.offset);
                prop_assert_eq!(place, (id, Header::LEN + frame.len(), joined.len()));
                prop_assert!(segment.payload.len() <= most);
                prop_assert_eq!(segment.is_whole(), most >= segment.frame_len);
                joined.extend(segment.payload);
            }
            let read = Header::parse(&joined).unwrap();
            prop_assert_eq!(read, (&header, &frame[..]));
            prop_assert_eq!((read.0.context.get(), read.0.tag()), (context, tag));
            prop_assert_eq!(read.0.offload(&frame), Ok(Offload::NONE));
        }
    }

    #[test]
    fn it_is_laid_out_as_the_draft_has_it() {
        let tag = Tag { class: Class::from_low_bits(5), vlan: 0x123 };
        let header = Header::new(0x0102_0304_0506_0708, Some(tag), &[], Offload::NONE).unwrap();
        let expected = [0, 0, 0, 0, 0, 0, 0xb1, 0x23, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0];
        assert_eq!(header.as_bytes(), expected);
        let mut other = expected;
        other[0] = 1;
        assert_eq!(Header::parse(&other), None);
        assert_eq!(Header::parse(&expected[..17]), None);
    }

    #[test]
    fn a_frame_has_64_kilobytes_with_its_header() {
        let header = Header::new(7, None, &[], Offload::NONE).unwrap();
        let bytes = vec![0; Frame::LONGEST + 1];
        assert!(Frame::new(header, &bytes, 0).is_none());
        let frame = Frame::new(header, &bytes[1..], 0).unwrap();
        let last = frame.pieces(NonZeroUsize::new(1448).unwrap()).last().unwrap();
        assert_eq!((last.offset, last.offset + last.len), (45 * 1448, 65_535));
    }

    /// A frame of 3000 bytes of payload over TCP or UDP, with all that can be left undone.
    fn large(version: Version, protocol: u8) -> (Vec<u8>, Offload) {
        let transport = match protocol {
            protocol::TCP => tcp::Header::new(1, 2, 3, tcp::Flags::CWR).as_bytes().to_vec(),
            _ => udp::Header::new(1, 2, 3000).unwrap().as_bytes().to_vec(),
        };
        let len = transport.len() + 3000;
        let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let (ethertype, ip, kind) = match version {
            Version::V4 => {
                let ip = ipv4::Header::new(v4, v4, protocol, len).unwrap();
                (ethertype::IPV4, ip.as_bytes().to_vec(), SegmentKind::Tcp4)
            }
            Version::V6 => {
                let ip = ipv6::Header::new(v6, v6, protocol, len).unwrap();
                (ethertype::IPV6, ip.as_bytes().to_vec(), SegmentKind::Tcp6)
            }
        };
        let (kind, offset) =
            if protocol == protocol::TCP { (kind, 16) } else { (SegmentKind::Udp, 6) };
        let start = 14 + ip.len();
        let header_len = (start + transport.len()) as u16;
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
        let offload = Offload {
            checksum: Some(PartialChecksum { start: start as u16, offset }),
            segment: Some(crate::Segment {
                kind,
                ecn: protocol == protocol::TCP,
                header_len,
                size: 1000,
            }),
            data_valid: false,
        };
        ([ethernet.as_bytes(), &ip, &transport, &[0; 3000]].concat(), offload)
    }

    #[test]
    fn what_is_left_to_do_is_told_and_read() {
        for (version, flags) in [(Version::V4, 0x0e), (Version::V6, 0x0a)] {
            let (frame, offload) = large(version, protocol::TCP);
            let header = Header::new(7, None, &frame, offload).unwrap();
            assert_eq!((header.flags, header.segment_size.get()), (flags, 1000));
            assert_eq!(header.offload(&frame), Ok(offload));

            let (frame, offload) = large(version, protocol::UDP);
            assert_eq!(Header::new(7, None, &frame, offload), None, "UDP to cut");
            let offload = Offload { segment: None, ..offload };
            let header = Header::new(7, None, &frame, offload).unwrap();
            assert_eq!(header.flags, flags & !0x08);
            assert_eq!(header.offload(&frame), Ok(offload));
        }
        let valid = Offload { data_valid: true, ..Offload::NONE };
        assert_eq!(Header::new(7, None, &[], valid).unwrap().offload(&[]), Ok(valid));
    }

    #[test]
    fn what_stt_cannot_say_must_be_done_first() {
        let (frame, offload) = large(Version::V4, protocol::TCP);
        let uncovered = Offload { checksum: None, ..offload };
        assert_eq!(
            Header::new(7, None, &frame, uncovered),
            None,
            "a large frame of whole checksums"
        );
        let elsewhere = PartialChecksum { start: 14, offset: 10 };
        let elsewhere = Offload { checksum: Some(elsewhere), segment: None, ..offload };
        assert_eq!(Header::new(7, None, &frame, elsewhere), None, "another checksum");
    }

    #[test]
    fn a_header_that_does_not_fit_its_frame_is_told() {
        let (frame, offload) = large(Version::V4, protocol::TCP);
        let header = Header::new(7, None, &frame, offload).unwrap();
        assert!(header.offload(&frame[..40]).is_err(), "cut short");
        assert!(Header { transport: 200, ..header }.offload(&frame).is_err(), "elsewhere");
        assert!(Header { flags: PARTIAL | TCP, ..header }.offload(&frame).is_err(), "IPv6");
        assert!(Header { flags: PARTIAL | IPV4, ..header }.offload(&frame).is_err(), "UDP");
        assert!(
            Header { flags: VERIFIED, ..header }.offload(&frame).is_err(),
            "no partial checksum"
        );
    }

    #[test]
    fn a_segment_that_contradicts_itself_is_none() {
        let parse = |sequence, payload: &[u8]| {
            let header = tcp::Header::new(1, PORT, sequence, tcp::Flags::ACK);
            let bytes = [header.as_bytes(), payload].concat();
            Segment::parse(&tcp::Segment::parse(&bytes).unwrap()).is_some()
        };
        assert!(parse(20 << 16 | 10, &[0; 10]));
        assert!(!parse(20 << 16 | 11, &[0; 10]), "past its frame's end");
        assert!(!parse(17 << 16, &[0; 10]), "a frame shorter than its header");
        assert!(!parse(20 << 16 | 10, &[]), "empty");
        assert!(!parse(u32::MAX, &[0; 10]), "past the longest frame's end");
    }
}

//! What the receiver of a frame still has to do: checksum and segmentation offload.
//!
//! Between two virtual devices a TCP stack need neither sum its bytes nor cut its stream: it hands
//! over one large frame and says what it left undone, in the header that virtio_net gives every
//! frame (virtio 1.2 §5.1.6). Linux's TAP speaks it too.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::checksum::Sum;
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::{tcp, udp};

/// What is left to do for a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Offload {
    /// A checksum to complete.
    pub checksum: Option<PartialChecksum>,
    /// Segments to cut.
    pub segment: Option<Segment>,
    /// The checksums were verified already: nothing needs to look again.
    pub data_valid: bool,
}

/// A transport checksum whose field holds the pseudo-header's sum only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartialChecksum {
    /// Where summing begins, in bytes from the frame's first: the transport header.
    pub start: u16,
    /// Where the field lies, in bytes from `start`.
    pub offset: u16,
}

/// How to cut a large frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// What it is a large frame of.
    pub kind: SegmentKind,
    /// The TCP stream uses explicit congestion notification.
    pub ecn: bool,
    /// Every segment begins with a copy of the frame's first `header_len` bytes: exactly its
    /// headers, Ethernet to transport.
    pub header_len: u16,
    /// Each segment's payload in bytes; the last may be shorter.
    pub size: u16,
}

/// What a large frame is cut into.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SegmentKind {
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams over either.
    Udp,
}

/// Why a frame cannot be what its offload header says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OffloadError {
    /// A kind of segmentation we never offered, such as UFO.
    #[error("cannot segment by type {0:#04x}: offer the sender TSO4, TSO6 and USO only")]
    UnknownKind(u8),
    /// The checksum to complete is not in the frame.
    #[error(
        "cannot complete a checksum at {start} + {offset} of {len} bytes: the sender's header is wrong"
    )]
    ChecksumOutside {
        /// Where summing would begin.
        start: u16,
        /// Where the field would lie from there.
        offset: u16,
        /// The frame's length.
        len: usize,
    },
    /// The frame to segment is not of that kind, or its segment size is 0, or its checksum is not
    /// left to complete.
    #[error("cannot cut {0:?} segments from a frame that is none: the sender's header is wrong")]
    OtherKind(SegmentKind),
}

/// The 12 bytes of `struct virtio_net_hdr_v1`, little-endian as virtio 1.x has them.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: U16,
    gso_size: U16,
    csum_start: U16,
    csum_offset: U16,
    num_buffers: U16,
}

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl Offload {
    /// Nothing is left to do.
    pub const NONE: Self = Self { checksum: None, segment: None, data_valid: false };

    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<VirtioHeader>();

    /// What `header` says of `frame`, checked against it: afterwards it can be trusted.
    ///
    /// A sender's `hdr_len` is but a hint (§5.1.6.2); here it becomes exact. A large frame must be
    /// an unfragmented packet of its kind that fills the frame, with its checksum left to complete,
    /// as §5.1.6.2.1 demands.
    #[inline]
    pub fn parse(header: &[u8; Self::LEN], frame: &[u8]) -> Result<Self, OffloadError> {
        Self::parse_head(header, frame, frame.len())
    }

    /// As [`parse`](Self::parse), of a frame of `len` bytes of which only the first are at hand:
    /// all its headers.
    #[inline]
    pub fn parse_head(
        header: &[u8; Self::LEN],
        head: &[u8],
        len: usize,
    ) -> Result<Self, OffloadError> {
        let header: VirtioHeader = transmute!(*header);
        let mut offload = Self { data_valid: header.flags & DATA_VALID != 0, ..Self::NONE };
        if header.flags & NEEDS_CSUM != 0 {
            let partial = PartialChecksum {
                start: header.csum_start.get(),
                offset: header.csum_offset.get(),
            };
            partial.check(len)?;
            offload.checksum = Some(partial);
        }
        if header.gso_type != GSO_NONE {
            offload.segment = Some(parse_segment(&header, offload.checksum, head, len)?);
        }
        Ok(offload)
    }

    /// Moves what is left to do with a frame's headers, whose places are changed so.
    #[inline]
    pub fn shift(&mut self, by: impl Fn(u16) -> u16) {
        self.checksum.iter_mut().for_each(|checksum| checksum.start = by(checksum.start));
        self.segment.iter_mut().for_each(|segment| segment.header_len = by(segment.header_len));
    }

    /// The header that says this.
    ///
    /// It counts one buffer, as one does to a driver that merges none (§5.1.6.4.1).
    #[inline]
    pub fn emit(self) -> [u8; Self::LEN] {
        let (needs_csum, partial) = match self.checksum {
            Some(partial) => (NEEDS_CSUM, partial),
            None => (0, PartialChecksum { start: 0, offset: 0 }),
        };
        let (gso_type, hdr_len, gso_size) = match self.segment {
            Some(segment) => (segment.gso_type(), segment.header_len, segment.size),
            None => (GSO_NONE, 0, 0),
        };
        transmute!(VirtioHeader {
            flags: needs_csum | if self.data_valid { DATA_VALID } else { 0 },
            gso_type,
            hdr_len: U16::new(hdr_len),
            gso_size: U16::new(gso_size),
            csum_start: U16::new(partial.start),
            csum_offset: U16::new(partial.offset),
            num_buffers: U16::new(1),
        })
    }
}

impl PartialChecksum {
    /// What is left to do for a frame that says nothing of it: a kernel that sends by a virtual
    /// device leaves the checksum of TCP or UDP to whoever needs it, with the pseudo-header's sum
    /// in its place (Linux: CHECKSUM_PARTIAL). `layout` was found in the frame.
    ///
    /// A right checksum may be that sum by chance. Nothing is lost by that: to complete it gives it
    /// again.
    #[inline]
    pub fn left_in(frame: &[u8], layout: &Layout) -> Option<Self> {
        let offset = match layout.protocol {
            protocol::TCP => tcp::Header::CHECKSUM_OFFSET,
            protocol::UDP => udp::Header::CHECKSUM_OFFSET,
            _ => return None,
        };
        if layout.fragment != Fragment::Whole || layout.end != frame.len() {
            return None;
        }
        let field = frame.get(layout.transport + usize::from(offset)..)?.first_chunk::<2>()?;
        let sum = layout.pseudo_header(frame, frame.len() - layout.transport);
        let start = u16::try_from(layout.transport).ok()?;
        (u16::from_be_bytes(*field) == !sum.checksum()).then_some(Self { start, offset })
    }

    pub(crate) fn check(self, len: usize) -> Result<(), OffloadError> {
        let Self { start, offset } = self;
        if usize::from(start) + usize::from(offset) + 2 > len {
            return Err(OffloadError::ChecksumOutside { start, offset, len });
        }
        Ok(())
    }

    /// Completes the checksum of a frame.
    ///
    /// # Panics
    ///
    /// If it is of a frame that has no such place: what was parsed has.
    pub fn complete(self, frame: &mut [u8]) {
        let covered = &mut frame[usize::from(self.start)..];
        let checksum = Sum::of(covered).transport_checksum();
        covered[usize::from(self.offset)..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Segment {
    fn gso_type(self) -> u8 {
        let kind = match self.kind {
            SegmentKind::Tcp4 => GSO_TCPV4,
            SegmentKind::Tcp6 => GSO_TCPV6,
            SegmentKind::Udp => GSO_UDP_L4,
        };
        kind | if self.ecn { GSO_ECN } else { 0 }
    }
}

fn parse_segment(
    header: &VirtioHeader,
    checksum: Option<PartialChecksum>,
    head: &[u8],
    len: usize,
) -> Result<Segment, OffloadError> {
    let kind = match header.gso_type & !GSO_ECN {
        GSO_TCPV4 => SegmentKind::Tcp4,
        GSO_TCPV6 => SegmentKind::Tcp6,
        GSO_UDP_L4 => SegmentKind::Udp,
        _ => return Err(OffloadError::UnknownKind(header.gso_type)),
    };
    let size = header.gso_size.get();
    let header_len =
        locate(kind, checksum, head, len).map(|(_, header_len)| u16::try_from(header_len));
    match header_len {
        Some(Ok(header_len)) if size > 0 => {
            Ok(Segment { kind, ecn: header.gso_type & GSO_ECN != 0, header_len, size })
        }
        _ => Err(OffloadError::OtherKind(kind)),
    }
}

/// Where the parts of a large frame lie, and how long its headers are; `None` if it is none of that
/// kind.
pub(crate) fn locate(
    kind: SegmentKind,
    checksum: Option<PartialChecksum>,
    head: &[u8],
    len: usize,
) -> Option<(Layout, usize)> {
    let layout = Layout::of_head(head, len)?;
    let transport = head.get(layout.transport..layout.end.min(head.len()))?;
    let (header_len, checksum_offset) = match (kind, layout.version, layout.protocol) {
        (SegmentKind::Tcp4, Version::V4, protocol::TCP)
        | (SegmentKind::Tcp6, Version::V6, protocol::TCP) => {
            (tcp::Segment::parse(transport)?.header.len(), tcp::Header::CHECKSUM_OFFSET)
        }
        (SegmentKind::Udp, _, protocol::UDP) => {
            let (header, _) = udp::Header::ref_from_prefix(transport).ok()?;
            let whole = udp::Header::LEN..=layout.end - layout.transport;
            whole.contains(&usize::from(header.len.get())).then_some(())?;
            (udp::Header::LEN, udp::Header::CHECKSUM_OFFSET)
        }
        _ => return None,
    };
    let partial = checksum?;
    let complete = layout.fragment == Fragment::Whole
        && layout.end == len
        && usize::from(partial.start) == layout.transport
        && partial.offset == checksum_offset;
    complete.then_some((layout, layout.transport + header_len))
}

/// How many frames on a wire a frame of `len` bytes stands for: one, or as many as it is cut into.
#[inline]
pub fn wire_frames(len: usize, offload: Offload) -> usize {
    match offload.segment {
        Some(Segment { header_len, size, .. }) if size > 0 => {
            len.saturating_sub(usize::from(header_len)).div_ceil(usize::from(size)).max(1)
        }
        _ => 1,
    }
}

/// How many bytes on a wire a frame of `len` bytes stands for at most, if nothing but its length
/// and its offload header is believed.
///
/// The sender's queueing discipline looks no closer, and counts large frames that nobody can cut as
/// well.
pub fn claimed_bytes(header: &[u8; Offload::LEN], len: usize) -> usize {
    /// An Ethernet header with a tag, and an IP header with all its options.
    const NETWORK: u16 = 18 + 60;
    /// A TCP header with all its options.
    const TRANSPORT: u16 = 60;
    let header: VirtioHeader = transmute!(*header);
    let size = usize::from(header.gso_size.get());
    if header.gso_type == GSO_NONE || size == 0 {
        return len;
    }
    let header_len = usize::from(header.csum_start.get().max(NETWORK)) + usize::from(TRANSPORT);
    len + (len.div_ceil(size).max(1) - 1) * header_len
}

/// How many bytes on a wire a frame of `len` bytes stands for: every segment repeats the headers.
///
/// Linux's queueing disciplines count the same way (`qdisc_pkt_len_init`), so that a rate means the
/// same to both.
#[inline]
pub fn wire_bytes(len: usize, offload: Offload) -> usize {
    match offload.segment {
        Some(segment) => len + (wire_frames(len, offload) - 1) * usize::from(segment.header_len),
        None => len,
    }
}

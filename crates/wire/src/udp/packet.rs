//! Which socket a frame is for.

use core::net::Ipv6Addr;

use zerocopy::FromBytes;

use super::Header;
use crate::ip::{Fragment, Layout, Part, protocol};
use crate::{Offload, SegmentKind};

/// A frame that carries UDP, as far as it concerns sockets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet {
    /// From whom; an IPv4 address is mapped, ::ffff:a.b.c.d.
    pub source: Ipv6Addr,
    /// To whom, likewise.
    pub destination: Ipv6Addr,
    /// Of which datagram it is a fragment; `None`: of none.
    pub part: Option<Part>,
    /// What its UDP header says; `None` of a later fragment, which has none.
    pub datagram: Option<Datagram>,
}

/// A datagram, several that are still to be cut, or one in fragments: on the wire, some pieces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// How many datagrams, or fragments of one, there are in all.
    pub pieces: usize,
    /// How long a frame each of them is at most, in bytes.
    pub piece_len: usize,
}

/// What a fragment carries at least, in bytes, if others follow: every host takes packets of 576
/// bytes whole (RFC 791 §3.1). Of smaller ones a datagram is taken to have fewer than it has, since
/// otherwise a short frame could stand for as many as it likes.
pub const LEAST_FRAGMENT: usize = 552;

impl Packet {
    /// What a frame carries; `None` if that is nothing that a UDP socket could get. It is none
    /// either if it is a fragment and cannot be told of which datagram.
    #[inline]
    pub fn parse(frame: &[u8], offload: Offload) -> Option<Self> {
        Self::parse_head(frame, frame.len(), offload)
    }

    /// As [`parse`](Self::parse), of a frame of `len` bytes of which only the first are at hand:
    /// all its headers.
    #[inline]
    pub fn parse_head(frame: &[u8], len: usize, offload: Offload) -> Option<Self> {
        let layout = Layout::of_head(frame, len)?;
        if layout.protocol != protocol::UDP {
            return None;
        }
        let (source, destination) = layout.addresses(frame);
        let mut packet = Self { source, destination, part: None, datagram: None };
        if layout.fragment != Fragment::Whole {
            packet.part = Some(layout.part(frame)?);
        }
        if layout.fragment != Fragment::Later {
            packet.datagram = Some(Datagram::parse(frame, len, &layout, offload)?);
        }
        Some(packet)
    }
}

impl Datagram {
    #[inline]
    fn parse(frame: &[u8], frame_len: usize, layout: &Layout, offload: Offload) -> Option<Self> {
        let transport_len = layout.end - layout.transport;
        let (header, _) = Header::ref_from_prefix(frame.get(layout.transport..)?).ok()?;
        let len = usize::from(header.len.get());
        if len < Header::LEN || transport_len < Header::LEN {
            return None;
        }
        let (pieces, piece_len) = match (layout.fragment, offload.segment) {
            (Fragment::Whole, _) if len > transport_len => return None,
            (Fragment::Whole, Some(segment))
                if segment.kind == SegmentKind::Udp && segment.size > 0 =>
            {
                let size = usize::from(segment.size);
                (
                    (transport_len - Header::LEN).div_ceil(size),
                    layout.transport + Header::LEN + size,
                )
            }
            (Fragment::Whole, _) => (1, frame_len),
            _ => (len.div_ceil(transport_len.max(LEAST_FRAGMENT)), frame_len),
        };
        Some(Self {
            source_port: header.source.get(),
            destination_port: header.destination.get(),
            pieces: pieces.max(1),
            piece_len,
        })
    }
}

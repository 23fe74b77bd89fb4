//! What fuzzing attacks: each function takes any bytes and must not panic.
//!
//! The fuzz targets feed them what libFuzzer finds; `crates/wire/tests/it/fuzz.rs` includes this
//! file and feeds them from property tests, so that they hold on every machine that has no fuzzer.

mod tunnels;

use wire::checksum::{Sum, pseudo_header};
use wire::ip::{Fragment, Version, protocol};
use wire::{
    Layout, Offload, cut, ethernet, ipv4, ipv6, pause, pfc, room, segments, tcp, udp, vxlan,
};
use zerocopy::{FromBytes, IntoBytes};

pub use tunnels::reassemble;

/// Reads `bytes` as every header there is.
pub fn parse(bytes: &[u8]) {
    let peek = ethernet::peek(bytes);
    if let Some(peek) = peek {
        let (header, _) =
            ethernet::Header::parse(bytes).expect("what can be peeked at has a header");
        assert_eq!(header.destination, peek.destination().0);
        assert_eq!(header.source, peek.source().0);
    }
    if let Some(packet) = ipv4::Packet::parse(bytes) {
        let len = ipv4::Header::LEN + packet.options.len() + packet.payload.len();
        assert_eq!(len, usize::from(packet.header.total_len.get()));
    }
    if let Some(packet) = ipv6::Packet::parse(bytes) {
        let len = packet.extensions.len() + packet.payload.len();
        assert_eq!(len, usize::from(packet.header.payload_len.get()));
    }
    if let Some(segment) = tcp::Segment::parse(bytes) {
        assert_eq!(segment.header.len(), tcp::Header::LEN + segment.options.len());
        assert!(tcp::options::parse(segment.options).count() <= segment.options.len());
    }
    assert!(tcp::options::parse(bytes).count() <= bytes.len());
    if let Some(pause) = pfc::Frame::parse(bytes) {
        assert_eq!(pause.header.ethertype.get(), ethernet::ethertype::MAC_CONTROL);
    }
    if pause::Frame::parse(bytes).is_some() {
        assert_eq!(pfc::Frame::parse(bytes), None);
    }
    let tcp = Layout::of(bytes)
        .and_then(|layout| tcp::Header::ref_from_prefix(bytes.get(layout.transport..)?).ok());
    for before in [0, 1, 1400, 60_000] {
        let Some((header, _)) = tcp else { break };
        let (sequence, len) =
            ((header.sequence.get() as u16).wrapping_sub(before), 2 * bytes.len());
        if let Some(segment) = cut::segment(bytes, 7, sequence, len) {
            assert!(!segment.payload.is_empty() && segment.offset + segment.payload.len() <= len);
        }
    }
    let mut frame = bytes.to_vec();
    assert_eq!(
        cut::offload(bytes, 1).is_some(),
        cut::restore(&mut frame, tcp::Flags::PSH).is_some()
    );
    if let Ok(message) = room::Message::parse(bytes) {
        assert!(peek.is_some_and(|peek| room::may_be(peek.destination())));
        let told: usize = message.groups().map(|group| 4 + 44 * group.sockets().len()).sum();
        let asked = 8 * message.wants().count();
        assert!(60 + told + asked <= bytes.len() && (told == 0 || asked == 0));
    }
    if let Some((header, frame)) = vxlan::Header::parse(bytes) {
        assert_eq!(vxlan::Header::LEN + frame.len(), bytes.len());
        assert!(header.vni().is_none_or(|vni| vni < 1 << 24));
    }
    if let Some((header, payload)) = udp::Header::parse(bytes) {
        assert_eq!(usize::from(header.len.get()), udp::Header::LEN + payload.len());
    }
    if let Some(layout) = Layout::of(bytes) {
        assert!(peek.is_some());
        assert!(layout.network < layout.transport && layout.transport <= layout.end);
        assert!(layout.end <= bytes.len());
    }
    if let Some(packet) = udp::Packet::parse(bytes, Offload::NONE) {
        let layout = Layout::of(bytes).expect("it is a packet");
        assert_eq!(
            (packet.part.is_some(), packet.datagram.is_some()),
            match layout.fragment {
                Fragment::Whole => (false, true),
                Fragment::First => (true, true),
                Fragment::Later => (true, false),
            }
        );
        if let Some(datagram) = packet.datagram {
            assert!((1..=65_535usize.div_ceil(udp::LEAST_FRAGMENT)).contains(&datagram.pieces));
            assert!(packet.part.is_some() || datagram.pieces == 1);
            assert_eq!(datagram.piece_len, bytes.len());
        }
    }
    for most in [0, 42, 63, 100] {
        fragment(bytes, most);
    }
    tunnels::parse(bytes);
    tunnels::answer(bytes);
}

/// Cuts the packet in `bytes`, if it may be cut, into fragments that fit.
fn fragment(bytes: &[u8], most: usize) {
    let Some(fragments) = wire::fragments(bytes, most) else { return };
    let layout = Layout::of(bytes).expect("it is a packet");
    let mut buffer = vec![0; bytes.len()];
    let mut payload = Vec::new();
    for fragment in fragments {
        let written = fragment.write(&mut buffer).expect("a fragment is no longer than its frame");
        assert!(written.len() == fragment.len() && written.len() <= most);
        let part = Layout::of(written).expect("a fragment is a packet");
        assert_eq!((part.transport, part.end), (layout.transport, written.len()));
        payload.extend_from_slice(&written[part.transport..]);
    }
    assert_eq!(payload, bytes[layout.transport..layout.end]);
}

/// Reads `bytes` as an offload header and its frame.
pub fn offload(bytes: &[u8]) {
    let Some((header, frame)) = bytes.split_first_chunk() else { return };
    let Ok(offload) = Offload::parse(header, frame) else { return };
    assert_eq!(Offload::parse(&offload.emit(), frame), Ok(offload), "what was checked stays right");
    let stands_for = wire::wire_bytes(frame.len(), offload);
    assert!(frame.len() <= stands_for && stands_for <= wire::claimed_bytes(header, frame.len()));
    finish(frame, offload);
}

/// Builds a large frame as `bytes` say, damages its headers as they say, and cuts it.
pub fn segment(bytes: &[u8]) {
    let Some((&[kind, size, tagged, options, at, flip], payload)) = bytes.split_first_chunk()
    else {
        return;
    };
    let (mut header, mut frame) =
        large_frame(kind, tagged & 1 == 1, usize::from(options % 11) * 4, payload);
    header[4..6].copy_from_slice(&(u16::from(size) * 8).to_le_bytes());
    let at = usize::from(at) % frame.len();
    frame[at] ^= flip;
    if let Ok(offload) = Offload::parse(&header, &frame) {
        assert!(
            wire::wire_bytes(frame.len(), offload) <= wire::claimed_bytes(&header, frame.len())
        );
        finish(&frame, offload);
    }
}

/// Cuts `frame` and verifies every piece.
fn finish(frame: &[u8], offload: Offload) {
    let pieces = segments(frame, offload).expect("it was checked");
    assert_eq!(pieces.len(), wire::wire_frames(frame.len(), offload));
    if let Some(datagram) = udp::Packet::parse(frame, offload).and_then(|packet| packet.datagram)
        && offload.segment.is_some()
    {
        assert_eq!(datagram.pieces, pieces.len());
        assert!(pieces.clone().all(|piece| piece.len() <= datagram.piece_len));
    }
    let mut total = 0;
    let mut buffer = vec![0; frame.len()];
    for piece in pieces {
        let written = piece.write(&mut buffer).expect("a segment is no longer than its frame");
        assert_eq!(written.len(), piece.len());
        total += written.len();
        if offload.segment.is_some() {
            verify(written);
        }
    }
    assert_eq!(total, wire::wire_bytes(frame.len(), offload));
}

/// Asserts that a frame is one whole packet with right lengths and checksums.
fn verify(frame: &[u8]) {
    let layout = Layout::of(frame).expect("a segment is a packet");
    assert_eq!((layout.end, layout.fragment), (frame.len(), Fragment::Whole));
    let (header, transport) = frame[layout.network..].split_at(layout.transport - layout.network);
    let addresses = match layout.version {
        Version::V4 => {
            assert_eq!(Sum::of(header).checksum(), 0, "IPv4 checksum");
            &header[12..20]
        }
        Version::V6 => &header[8..40],
    };
    let pseudo_header = match layout.protocol {
        protocol::ICMP => Sum::default(),
        protocol => pseudo_header(addresses, protocol, transport.len()),
    };
    let sum = pseudo_header + Sum::of(transport);
    assert_eq!(sum.checksum(), 0, "transport checksum");
    if layout.protocol == protocol::UDP {
        let (_, payload) = udp::Header::parse(transport).expect("a datagram's length is right");
        assert_eq!(udp::Header::LEN + payload.len(), transport.len());
    }
}

/// A well-formed frame of one of the four kinds that can be cut, and its offload header without a
/// segment size.
fn large_frame(
    kind: u8,
    tagged: bool,
    options: usize,
    payload: &[u8],
) -> ([u8; Offload::LEN], Vec<u8>) {
    use ethernet::ethertype;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use units::Mac;

    let payload = &payload[..payload.len().min(60_000)];
    let (is_tcp, is_v4) = (kind & 1 == 1, kind & 2 == 2);
    let (gso_type, protocol) = match (is_tcp, is_v4) {
        (true, true) => (1, protocol::TCP),
        (true, false) => (4, protocol::TCP),
        (false, _) => (5, protocol::UDP),
    };
    let transport = if is_tcp {
        let header = tcp::Header::new(1, 2, u32::MAX, tcp::Flags(0xff)).with_options(options);
        [header.expect("at most 40 bytes of options").as_bytes(), &vec![1; options], payload]
            .concat()
    } else {
        let header = udp::Header::new(1, 2, payload.len()).expect("60,000 bytes fit");
        [header.as_bytes(), payload].concat()
    };
    let (ethertype, ip) = if is_v4 {
        let header =
            ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol, transport.len());
        (ethertype::IPV4, header.expect("61,000 bytes fit").as_bytes().to_vec())
    } else {
        let header =
            ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, protocol, transport.len());
        (ethertype::IPV6, header.expect("61,000 bytes fit").as_bytes().to_vec())
    };
    let first = if tagged { ethertype::VLAN } else { ethertype };
    let mut frame = ethernet::Header::new(Mac::local(1), Mac::local(2), first).as_bytes().to_vec();
    if tagged {
        frame.extend([0, 1]);
        frame.extend(ethertype.to_be_bytes());
    }
    frame.extend(ip);
    let start = frame.len() as u8;
    frame.extend(transport);
    let checksum_offset = if is_tcp { 16 } else { 6 };
    ([1, gso_type, 0, 0, 0, 0, start, 0, checksum_offset, 0, 0, 0], frame)
}

//! What attacks the headers of tunnels, the joining of their segments, and what is answered.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use units::{Instant, Mac, Span};
use wire::{Offload, arp, bfd, geneve, gre, icmp, membership, neighbor, stt, tcp};
use zerocopy::IntoBytes;

use super::verify;

/// Reads `bytes` as the headers of tunnels, and of what watches over them.
pub fn parse(bytes: &[u8]) {
    if let Some(packet) = geneve::Packet::parse(bytes) {
        let options: usize = packet.options.map(|option| 4 + option.data.len()).sum();
        assert_eq!(geneve::Header::LEN + options + packet.payload.len(), bytes.len());
        let has_critical = { packet.options }.any(|option| option.is_critical());
        assert_eq!(packet.unknown_critical(|_, _| false).is_some(), has_critical);
        // What was read can be written again.
        let mut draft = geneve::Draft::new(packet.header.vni()).expect("it has 24 bits");
        assert!({ packet.options }.all(|option| draft.add(option)));
        assert_eq!(draft.parts()[1].len(), options);
    }
    if let Some((header, payload)) = gre::Header::parse(bytes) {
        let mut buffer = [0; gre::Header::LONGEST];
        let written = header.write(&mut buffer).expect("the longest header fits");
        assert_eq!(written.len() + payload.len(), bytes.len());
        assert_eq!(gre::Header::parse(written), Some((header, &[][..])));
        assert!(gre::VirtualSubnet::of(&header).is_none_or(|subnet| subnet.vsid() < 1 << 24));
    }
    if let Some((header, frame)) = stt::Header::parse(bytes)
        && let Ok(offload) = header.offload(frame)
    {
        assert_eq!(Offload::parse(&offload.emit(), frame), Ok(offload));
    }
    if let Some(segment) =
        tcp::Segment::parse(bytes).and_then(|segment| stt::Segment::parse(&segment))
    {
        assert!(
            !segment.payload.is_empty()
                && segment.offset + segment.payload.len() <= segment.frame_len
        );
    }
    if let Some(packet) = bfd::Packet::parse(bytes) {
        let len = bfd::Header::LEN + packet.authentication.map_or(0, <[u8]>::len);
        assert!(len <= bytes.len() && packet.header.detect_multiplier != 0);
    }
}

/// Reads `bytes` as a frame that is answered, and verifies the answer.
pub fn answer(bytes: &[u8]) {
    const ROUTER: Mac = Mac::local(7);
    if let Some(request) = arp::Request::parse(bytes) {
        let answer = request.answer(ROUTER);
        let answer = arp::Packet::parse(answer.as_bytes()).expect("an answer is ARP");
        assert_eq!(
            (answer.sender_protocol, answer.target),
            (request.target.octets(), request.sender.0.0)
        );
    }
    if let Some(question) = neighbor::Solicitation::parse(bytes) {
        let answer = question.answer(ROUTER, false);
        let answer = neighbor::Advertisement::parse(answer.as_bytes()).expect("an answer is valid");
        assert_eq!((answer.target, answer.mac), (question.target, Some(ROUTER)));
    }
    neighbor::Advertisement::parse(bytes);
    neighbor::claim(bytes);
    membership::read(bytes, |_| ());
    let mut buffer = [0; icmp::LONGEST_FRAME];
    let about = |bytes: &[u8], buffer: &mut [u8]| {
        let v4 = icmp::fragmentation_needed(bytes, 1400, (ROUTER, Ipv4Addr::LOCALHOST), buffer);
        let len = v4.map(|answer| answer.len());
        len.or_else(|| {
            icmp::packet_too_big(bytes, 1400, (ROUTER, Ipv6Addr::LOCALHOST), buffer)
                .map(|answer| answer.len())
        })
    };
    if let Some(len) = about(bytes, &mut buffer) {
        verify(&buffer[..len]);
        assert_eq!(
            about(&buffer[..len], &mut [0; icmp::LONGEST_FRAME]),
            None,
            "an answer about an answer"
        );
    }
}

/// Has segments joined that arrive as `bytes` say, four bytes a segment, while time passes: a frame
/// is whole when all its bytes have arrived since it was begun, and no sooner; and what is held is
/// bounded.
pub fn reassemble(bytes: &[u8]) {
    const PLACES: usize = 3;
    let frame: Vec<u8> = (0..200).collect();
    let mut reassembly = stt::Reassembly::new(PLACES);
    let mut model: BTreeMap<(u8, u32), (Instant, bool, Vec<bool>)> = BTreeMap::new();
    let mut now = Instant::ZERO;
    for &[who, offset, len, wait] in bytes.as_chunks().0 {
        now += Span::from_nanos(wait.into());
        let due = model.extract_if(.., |_, (deadline, ..)| *deadline <= now).count();
        assert_eq!(reassembly.expire(now), due);
        assert_eq!(
            reassembly.next_deadline(),
            model.values().map(|(deadline, ..)| *deadline).min()
        );

        let (peer, id) = (who & 1, u32::from(who >> 1 & 3));
        let frame_len = 100 + 20 * id as usize;
        let offset = usize::from(offset) % frame_len;
        let len = 1 + usize::from(len) % (frame_len - offset);
        let segment = stt::Segment { id, frame_len, offset, payload: &frame[offset..offset + len] };
        let deadline = now + Span::from_nanos(500);
        let is_marked = who & 8 != 0;
        let taken = reassembly.take(peer, &segment, is_marked, deadline);
        let joined = |is_marked| stt::Joined { bytes: &frame[..frame_len], is_marked };
        if segment.is_whole() {
            assert_eq!(taken, Ok(Some(joined(is_marked))));
            continue;
        }
        if !model.contains_key(&(peer, id)) && model.len() == PLACES {
            assert_eq!(taken, Err(stt::Refusal::Full(PLACES)));
            continue;
        }
        let (_, was_marked, arrived) =
            model.entry((peer, id)).or_insert_with(|| (deadline, false, vec![false; frame_len]));
        *was_marked |= is_marked;
        arrived[offset..offset + len].fill(true);
        let is_whole = arrived.iter().all(|is| *is);
        assert_eq!(taken, Ok(is_whole.then_some(joined(*was_marked))));
        if is_whole {
            model.remove(&(peer, id));
        }
    }
}

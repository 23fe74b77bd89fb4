//! What attacks the packets that carry frames between hosts.
//!
//! The fuzz target feeds it what libFuzzer finds, `crates/tunnel/tests/it/fuzz.rs` what property
//! tests do.

use std::net::{Ipv4Addr, Ipv6Addr};

use tunnel::message::Message;
use tunnel::outer::{Checksum, Encapsulation, Inner, LONGEST, Received, Refusal, Tunnel, segment};
use units::{Class, Mac};
use wire::checksum::{Sum, pseudo_header};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{Layout, Offload, geneve, ipv4, ipv6, stt, tcp, udp, vxlan};
use zerocopy::IntoBytes;

/// Reads `bytes` as they are, and as what is behind IP's header, or UDP's or TCP's with right
/// checksums.
pub fn parse(bytes: &[u8]) {
    let _ = read(bytes, Checksum::Absent);
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let is_v6 = kind & 1 == 1;
    let (protocol, header) = match kind >> 1 & 3 {
        0 => (protocol::GRE, Vec::new()),
        1 => {
            let header = stt::segment_header(50_000, rest.len() & 0xffff, 0, 7);
            (protocol::TCP, header.as_bytes().to_vec())
        }
        which => {
            let port = if which == 2 { geneve::PORT } else { vxlan::PORT };
            let Some(header) = udp::Header::new(50_000, port, rest.len()) else { return };
            (protocol::UDP, header.as_bytes().to_vec())
        }
    };
    let Some(packet) = packet(is_v6, protocol, &[&header, rest].concat()) else { return };
    apart(&packet);
    match read(&packet, Checksum::Computed) {
        Ok(again) => {
            assert_eq!(
                read(&again, Checksum::Computed).as_deref(),
                Ok(&again[..]),
                "writing is settled"
            )
        }
        Err(refusal) => {
            assert!(!matches!(
                refusal,
                Refusal::NotIp | Refusal::BadChecksum | Refusal::MissingChecksum
            ))
        }
    }
}

/// What is read of a packet's payload alone is what is read of the packet.
fn apart(packet: &[u8]) {
    let Some(layout) = Layout::of(packet) else { return };
    let whole = Received::parse(packet, Checksum::Computed);
    let (payload, class) = (&packet[layout.transport..layout.end], layout.traffic_class(packet));
    let Ok(expected) = whole else { return };
    let vteps = expected.vteps;
    let payload = match expected.encapsulation {
        Encapsulation::Stt => segment(vteps, payload).expect("it was read before").payload,
        Encapsulation::Nvgre => payload,
        Encapsulation::Geneve | Encapsulation::Vxlan => {
            udp::Header::parse(payload).expect("it was read before").1
        }
    };
    let class = class.expect("it is a packet");
    let read = Received::of_datagram(expected.encapsulation, vteps, class, payload);
    let read = read.expect("it was read before");
    assert_eq!(payload[read.frame.clone()], packet[expected.frame.clone()]);
    assert_eq!(Received { frame: expected.frame.clone(), ..read }, expected);
}

/// A frame with a packet that carries `payload`, whose checksum, if it is TCP or UDP, is put in.
fn packet(is_v6: bool, protocol: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let v4 =
        || ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol, payload.len());
    let v6 =
        || ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, protocol, payload.len());
    let (ethertype, ip, addresses) = if is_v6 {
        (ethertype::IPV6, v6()?.as_bytes().to_vec(), 8..40)
    } else {
        (ethertype::IPV4, v4()?.as_bytes().to_vec(), 12..20)
    };
    let place = match protocol {
        protocol::UDP => Some(udp::Header::CHECKSUM_OFFSET),
        protocol::TCP => Some(tcp::Header::CHECKSUM_OFFSET),
        _ => None,
    };
    let mut payload = payload.to_vec();
    if let Some(at) = place.map(usize::from) {
        let sum = pseudo_header(&ip[addresses], protocol, payload.len()) + Sum::of(&payload);
        payload[at..at + 2].copy_from_slice(&sum.transport_checksum().to_be_bytes());
    }
    let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
    Some([ethernet.as_bytes(), &ip, &payload].concat())
}

/// What was read of a packet keeps what it promises. Returns a packet that says the same, as the
/// far end would write it.
fn read(bytes: &[u8], over_ipv6: Checksum) -> Result<Vec<u8>, Refusal> {
    let received = Received::parse(bytes, over_ipv6)?;
    let frame = &bytes[received.frame.clone()];
    assert!(received.is_control || frame.len() >= ethernet::Header::LEN);
    assert!(received.vni.number() < 1 << 24);
    let is_geneve = received.encapsulation == Encapsulation::Geneve;
    assert!(is_geneve || !received.is_control && received.options.count() == 0);
    let _ = Message::parse(received.options);
    if let Some(traffic_class) = received.remark {
        let mut frame = frame.to_vec();
        let layout = Layout::of(&frame).expect("only a packet is marked");
        assert_ne!(layout.traffic_class(&frame), Some(traffic_class));
        layout.set_traffic_class(&mut frame, traffic_class).expect("it has one");
        assert_eq!(layout.traffic_class(&frame), Some(traffic_class));
    }
    let tunnel = Tunnel {
        encapsulation: received.encapsulation,
        vteps: received.vteps.reversed(),
        vni: received.vni,
        source: Mac::local(1),
        destination: Mac::local(2),
        vlan: None,
        ttl: 64,
        checksum: Checksum::Computed,
        underlay_mtu: u16::MAX,
    };
    let mut draft = tunnel.geneve();
    if received.is_control {
        draft = draft.for_control(0);
    }
    assert!({ received.options }.all(|option| draft.add(option)), "what was read can be written");
    let inner = Inner {
        len: frame.len(),
        flow: 7,
        traffic_class: received.traffic_class,
        class: Class::default(),
        geneve: is_geneve.then_some(&draft),
        id: 7,
    };
    let mut buffer = [0; LONGEST];
    // Only STT's TCP may have had options, and only IP that is not ours: what is written is no
    // longer.
    let header =
        tunnel.write(&inner, || Sum::of(frame), &mut buffer).expect("it was as long before");
    let again = [header, frame].concat();
    let read = Received::parse(&again, Checksum::Computed).expect("it is our own");
    assert!(received.options.eq(read.options));
    // Reserved bits of options are not written, nor what was left to do for a frame.
    let mut expected =
        Received { frame: header.len()..again.len(), options: read.options, ..received };
    if expected.encapsulation == Encapsulation::Stt {
        (expected.tag, expected.offload) = (None, Offload::NONE);
    }
    assert_eq!(read, expected);
    Ok(again)
}

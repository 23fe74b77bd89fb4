//! What goes around a frame, read by somebody else: tshark dissects a packet of every encapsulation
//! over both families.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use needs::tshark::{Kind, kind};
use tunnel::outer::{Checksum, Encapsulation, Inner, LONGEST, Tunnel, Vni, Vteps};
use tunnel::{Data, Stream, Tag, message::Ends};
use units::{Class, Mac};
use wire::checksum::Sum;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{flow, ipv4, udp};
use zerocopy::IntoBytes;

const V4: Vteps =
    Vteps::V4 { local: Ipv4Addr::new(192, 0, 2, 1), remote: Ipv4Addr::new(192, 0, 2, 2) };
const V6: Vteps = Vteps::V6 {
    local: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    remote: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

/// A datagram between two guests, of expedited forwarding and ECT(0).
fn frame() -> Vec<u8> {
    let carried = b"carried";
    let udp = udp::Header::new(4000, 9, carried.len()).unwrap();
    let [from, to] = [1, 2].map(|host| Ipv4Addr::new(10, 0, 0, host));
    let ip = ipv4::Header::new(from, to, protocol::UDP, udp::Header::LEN + carried.len()).unwrap();
    let ip = ip.with_traffic_class(46 << 2 | 0b10);
    let ethernet = ethernet::Header::new(Mac::local(4), Mac::local(3), ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), carried].concat()
}

fn carried(
    encapsulation: Encapsulation,
    vteps: Vteps,
    checksum: Checksum,
    found: &'static [(&'static str, &'static str)],
) -> Kind {
    let tunnel = Tunnel {
        encapsulation,
        vteps,
        vni: Vni::new(0x12_3456).unwrap(),
        source: Mac::local(1),
        destination: Mac::local(2),
        vlan: Some(291),
        ttl: 17,
        checksum,
        underlay_mtu: 1500,
    };
    let mut draft = tunnel.geneve();
    let [from, to] = [7, 9].map(Tag);
    let stream = Stream { label: 3, class: Class::from_low_bits(5) };
    let frame = frame();
    let len = NonZeroU16::new(frame.len() as u16).unwrap();
    assert!(Data::whole(Ends { from, to }, 1, stream, 0, len).write(&mut draft));
    let inner = Inner {
        len: frame.len(),
        flow: flow::hash(&frame, frame.len()),
        traffic_class: 46 << 2 | 0b10,
        class: stream.class,
        geneve: (encapsulation == Encapsulation::Geneve).then_some(&draft),
        id: 8,
    };
    let mut buffer = [0; LONGEST];
    let header = tunnel.write(&inner, || Sum::of(&frame), &mut buffer).unwrap();
    kind([header, &frame].concat(), found)
}

#[test]
fn tshark_reads_whole_packets() {
    use Checksum::{Absent, Computed};
    use Encapsulation::{Geneve, Nvgre, Stt, Vxlan};

    // Fields that are there twice are the outer packet's and the inner one's. 1 is a checksum that
    // is right, 3 one that is not there.
    let kinds = [
        carried(
            Geneve,
            V4,
            Computed,
            &[
                ("vlan.id", "291"),
                ("vlan.priority", "5"),
                ("ip.ttl", "17,64"),
                ("ip.dsfield.dscp", "46,46"),
                ("ip.dsfield.ecn", "2,2"),
                ("ip.flags.df", "1,1"),
                ("ip.checksum.status", "1,1"),
                ("udp.checksum.status", "1,3"),
                ("geneve.vni", "0x123456"),
                ("geneve.flags.critical", "1"),
                ("geneve.option.class", "0xff5a"),
                ("udp.dstport", "6081,9"),
            ],
        ),
        carried(
            Geneve,
            V6,
            Computed,
            &[
                ("ipv6.hlim", "17"),
                ("ipv6.tclass.dscp", "46"),
                ("ipv6.tclass.ecn", "2"),
                ("udp.checksum.status", "1,3"),
                ("geneve.vni", "0x123456"),
                ("udp.dstport", "6081,9"),
            ],
        ),
        carried(
            Vxlan,
            V4,
            Absent,
            &[
                ("udp.checksum.status", "3,3"),
                ("vxlan.vni", "1193046"),
                ("udp.dstport", "4789,9"),
                ("ip.ttl", "17,64"),
            ],
        ),
        carried(Vxlan, V6, Computed, &[("udp.checksum.status", "1,3"), ("vxlan.vni", "1193046")]),
        carried(Nvgre, V4, Absent, &[("ip.proto", "47,17"), ("udp.dstport", "9")]),
        carried(Nvgre, V6, Absent, &[("ipv6.nxt", "47"), ("udp.dstport", "9")]),
        carried(
            Stt,
            V4,
            Absent,
            &[
                ("stt.context_id", "0x0000000000123456"),
                ("stt.pkt_id", "0x00000008"),
                ("udp.dstport", "9"),
            ],
        ),
        carried(Stt, V6, Absent, &[("ipv6.nxt", "6"), ("tcp.dstport", "7471")]),
    ];
    needs::tshark::read(
        &kinds,
        &["ip.check_checksum", "udp.check_checksum", "ip.try_heuristic_first"],
    );
    // STT's own dissector (Wireshark 4.0) takes every right checksum for a wrong one, so TCP's has
    // to tell.
    let fields = ["tcp.dstport", "tcp.checksum.status"];
    let Some(lines) = needs::tshark::run(&kinds[6..], &["tcp.check_checksum"], &fields) else {
        return;
    };
    assert_eq!(lines, [["7471", "1"]; 2]);
}

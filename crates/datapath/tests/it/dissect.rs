//! What is answered, read by somebody else: tshark dissects an answer of every kind, finds nothing
//! wrong with it, and the numbers that were put in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::{Answer, Directory, LONGEST_ANSWER, answer};
use model::{Member, NetworkName, NetworkSpec};
use needs::tshark::kind;
use units::Mac;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{Offload, arp, checksum, ipv4, ipv6, neighbor, udp};
use zerocopy::IntoBytes;

const MACS: [Mac; 2] = [Mac::local(1), Mac::local(2)];
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)];

/// What the first of two machines, one here and one elsewhere, is answered.
fn reply(frame: &[u8]) -> Vec<u8> {
    let hosts: [IpAddr; 2] = [1, 2].map(|host| Ipv4Addr::new(192, 0, 2, host).into());
    let member = |i: usize| {
        let addresses = vec![V4[i].into(), V6[i].into()];
        Member { mac: MACS[i], addresses, vtep: hosts[i].into(), label: 1 }
    };
    let name = NetworkName("blue".into());
    let network = NetworkSpec::new(name, 7, vec![member(0), member(1)]);
    let directory = Directory::new(&[network], &hosts[0].into()).unwrap();
    let mut buffer = [0; LONGEST_ANSWER];
    match answer(directory.network(7).unwrap(), 1400, frame, &Offload::NONE, &mut buffer) {
        Answer::Reply(reply) => reply.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A datagram of 2,000 bytes from the first machine to the second.
fn long(is_v6: bool) -> Vec<u8> {
    let payload = [0; 2000];
    let mut header = udp::Header::new(4000, 9, payload.len()).unwrap();
    let len = udp::Header::LEN + payload.len();
    let (ethertype, ip, addresses) = if is_v6 {
        let ip = ipv6::Header::new(V6[0], V6[1], protocol::UDP, len).unwrap();
        (ethertype::IPV6, ip.as_bytes().to_vec(), 8..40)
    } else {
        let ip = ipv4::Header::new(V4[0], V4[1], protocol::UDP, len).unwrap();
        (ethertype::IPV4, ip.as_bytes().to_vec(), 12..20)
    };
    let sum = checksum::pseudo_header(&ip[addresses], protocol::UDP, len)
        + checksum::Sum::of(header.as_bytes());
    header.checksum.set(sum.transport_checksum());
    let ethernet = ethernet::Header::new(MACS[1], MACS[0], ethertype);
    [ethernet.as_bytes(), &ip, header.as_bytes(), &payload].concat()
}

#[test]
fn tshark_reads_what_is_answered() {
    let kinds = [
        kind(
            reply(arp::Frame::request((MACS[0], V4[0]), V4[1]).as_bytes()),
            &[
                ("arp.opcode", "2"),
                ("arp.src.hw_mac", "02:00:00:00:00:02"),
                ("arp.src.proto_ipv4", "10.0.0.2"),
                ("arp.dst.hw_mac", "02:00:00:00:00:01"),
                ("eth.dst", "02:00:00:00:00:01"),
            ],
        ),
        kind(
            reply(neighbor::Frame::solicitation((MACS[0], V6[0]), V6[1]).as_bytes()),
            &[
                ("icmpv6.type", "136"),
                ("icmpv6.nd.na.target_address", "fd00::2"),
                ("icmpv6.nd.na.flag.s", "1"),
                ("icmpv6.nd.na.flag.r", "0"),
                ("icmpv6.opt.linkaddr", "02:00:00:00:00:02"),
                ("icmpv6.checksum.status", "1"),
                ("ipv6.hlim", "255"),
            ],
        ),
        // What is there twice is the answer's own and the quoted packet's.
        kind(
            reply(&long(false)),
            &[
                ("icmp.type", "3"),
                ("icmp.code", "4"),
                ("icmp.mtu", "1400"),
                ("icmp.checksum.status", "1"),
                ("ip.src", "10.0.0.2,10.0.0.1"),
                ("ip.dst", "10.0.0.1,10.0.0.2"),
                ("ip.checksum.status", "1,1"),
                ("eth.dst", "02:00:00:00:00:01"),
            ],
        ),
        kind(
            reply(&long(true)),
            &[
                ("icmpv6.type", "2"),
                ("icmpv6.mtu", "1400"),
                ("icmpv6.checksum.status", "1"),
                ("ipv6.src", "fd00::2,fd00::1"),
                ("ipv6.dst", "fd00::1,fd00::2"),
                ("eth.dst", "02:00:00:00:00:01"),
            ],
        ),
    ];
    needs::tshark::read(&kinds, &["ip.check_checksum"]);
}

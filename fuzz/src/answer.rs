//! What attacks the answers of a switch in the stead of far machines.
//!
//! The fuzz target feeds it what libFuzzer finds, `crates/datapath/tests/it/fuzz.rs` what property
//! tests do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use datapath::{Answer, Directory, LONGEST_ANSWER, VirtualNetwork, answer, is_question};
use model::{Member, NetworkName, NetworkSpec};
use units::Mac;
use wire::checksum::Sum;
use wire::ip::{Fragment, Version, protocol};
use wire::{Layout, Offload, arp, ethernet, neighbor};

const VNI: u32 = 7;

/// A network whose machines have addresses that are often found in what is fed: 02:02:02:02:02:02
/// is elsewhere, and 02:00:00:00:00:01 here.
fn directory() -> Directory {
    let here = IpAddr::from([192, 0, 2, 1]);
    let v6 = |octet| Ipv6Addr::from([octet; 16]).into();
    let member = |mac, addresses: [IpAddr; 2], vtep: IpAddr, label| Member {
        mac,
        addresses: addresses.into(),
        vtep: vtep.into(),
        label,
    };
    let there = IpAddr::from([192, 0, 2, 2]);
    let members = vec![
        member(Mac([2; 6]), [Ipv4Addr::new(2, 2, 2, 2).into(), v6(2)], there, 1),
        member(Mac::local(1), [Ipv4Addr::new(10, 0, 0, 1).into(), v6(0xfd)], here, 1),
    ];
    let network = NetworkSpec::new(NetworkName("attacked".into()), VNI, members);
    Directory::new(&[network], &here.into()).expect("it can stand")
}

/// The frame with the checksum of its ICMPv6 message put in, if it carries one.
fn summed(frame: &[u8]) -> Option<Vec<u8>> {
    let layout = Layout::of(frame).filter(|layout| layout.protocol == protocol::ICMPV6)?;
    let mut frame = frame.to_vec();
    let len = layout.end - layout.transport;
    let pseudo = layout.pseudo_header(&frame, len);
    let message = &mut frame[layout.transport..layout.end];
    message.get_mut(2..4)?.fill(0);
    let checksum = (pseudo + Sum::of(message)).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    Some(frame)
}

/// Reads `bytes` as an MTU, an offload header and its frame, has that answered, and verifies the
/// answer.
pub fn attack(bytes: &[u8]) {
    let Some((mtu, bytes)) = bytes.split_first_chunk() else { return };
    let Some((header, frame)) = bytes.split_first_chunk() else { return };
    let mtu = 68 + u16::from_be_bytes(*mtu) % 9000;
    static DIRECTORY: LazyLock<Directory> = LazyLock::new(directory);
    let network = DIRECTORY.network(VNI).expect("it is there");
    verify(network, mtu, frame, &Offload::NONE);
    if let Some(frame) = summed(frame) {
        verify(network, mtu, &frame, &Offload::NONE);
    }
    if let Ok(offload) = Offload::parse(header, frame) {
        verify(network, mtu, frame, &offload);
    }
}

fn verify(network: &VirtualNetwork, mtu: u16, frame: &[u8], offload: &Offload) {
    let mut buffer = [0; LONGEST_ANSWER];
    let answered = answer(network, mtu, frame, offload, &mut buffer);
    let head = &frame[..frame.len().min(32)];
    assert!(answered == Answer::Pass || is_question(mtu, head, frame.len(), offload));
    let Answer::Reply(reply) = answered else { return };
    let mut again = [0; LONGEST_ANSWER];
    let again = answer(network, mtu, reply, &Offload::NONE, &mut again);
    assert_eq!(again, Answer::Pass, "an answer to an answer");
    let from = ethernet::peek(reply).expect("a reply is a frame").source();
    if let Some(packet) = arp::Packet::parse(reply) {
        let owner = network.owner(Ipv4Addr::from(packet.sender_protocol).into());
        assert_eq!((owner, packet.sender), (Some(from), from.0));
    } else if let Some(told) = neighbor::Advertisement::parse(reply) {
        assert_eq!((network.owner(told.target.into()), told.mac), (Some(from), Some(from)));
    } else {
        assert!(frame.len() > usize::from(mtu));
        let layout = Layout::of(reply).expect("it is a packet");
        assert_eq!((layout.end, layout.fragment), (reply.len(), Fragment::Whole));
        let icmp = &reply[layout.transport..];
        let pseudo = match layout.version {
            Version::V4 => Sum::default(),
            Version::V6 => layout.pseudo_header(reply, icmp.len()),
        };
        assert_eq!((pseudo + Sum::of(icmp)).checksum(), 0, "ICMP checksum");
        let (asked, told) = (Layout::of(frame).expect("it was a packet"), layout.addresses(reply));
        assert_eq!(asked.addresses(frame), (told.1, told.0));
    }
}

//! What a port is told at once, by the switch, in the stead of machines that may be elsewhere.
//!
//! Who asks for an address is told by the directory who has it: by ARP (RFC 826) and by neighbor
//! discovery (RFC 4861 §7.2). A probe whether an address is free (RFC 5227 §2.1.1, RFC 4862 §5.4)
//! is answered if another machine has it. An address that nobody has stays unanswered, and nobody
//! else is asked. Who sends a packet that is too long for tunnels is told the length that is not
//! (RFC 1191 §4, RFC 4443 §3.2), as if its destination said so.

use core::net::IpAddr;

use units::Mac;
use wire::ip::{Version, protocol};
use wire::{Layout, Offload, Segment, arp, ethernet, icmp, neighbor};
use zerocopy::{Immutable, IntoBytes};

use crate::directory::{Place, VirtualNetwork};

/// No reply is a longer frame than this, in bytes.
pub const LONGEST_ANSWER: usize = icmp::LONGEST_FRAME;

/// What becomes of a frame that a port has sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer<'b> {
    /// There is nothing to answer: it goes on to where it is for.
    Pass,
    /// This frame goes back to the port, and its own goes no further.
    Reply(&'b [u8]),
    /// Nobody is there to answer: it goes no further.
    Silence,
}

/// Whether there may be an answer to a frame of `len` bytes, of which the first are at hand: at
/// least its Ethernet header. Where this is false, [`answer`] says [`Answer::Pass`]; it is for
/// every frame, and takes a few instructions.
#[inline]
pub fn is_question(mtu: u16, head: &[u8], len: usize, offload: &Offload) -> bool {
    let Some((header, packet)) = ethernet::Header::parse(head) else { return false };
    match header.ethertype.get() {
        ethernet::ethertype::ARP => true,
        // Messages behind extension headers are none (see `wire::neighbor`).
        ethernet::ethertype::IPV6 if packet.get(6).is_none_or(|next| *next == protocol::ICMPV6) => {
            true
        }
        _ => longest(len, offload) > ethernet::Header::LEN + usize::from(mtu),
    }
}

/// What a switch answers to `frame`, all of it, which one of its ports in `network` has sent;
/// `offload` is what it left undone. `mtu` is the network's, in bytes of IP packet behind an
/// Ethernet header without a tag.
///
/// An IPv4 packet that is too long and may be fragmented passes, and so do those that no ICMP
/// error may be about (RFC 1122 §3.2.2, RFC 4443 §2.4 (e)): the tunnel carries them in parts,
/// fragments what may be fragmented, or refuses them. To machines on this host packets may be as
/// long as their ports carry. Of an `mtu` below [`icmp::LEAST_MTU_V6`] no sender of IPv6 is told,
/// since none would obey. Questions behind a VLAN tag pass: the directory knows no VLANs.
///
/// How often a port is answered is for the caller to limit (RFC 4443 §2.4 (f)).
pub fn answer<'b>(
    network: &VirtualNetwork,
    mtu: u16,
    frame: &[u8],
    offload: &Offload,
    buffer: &'b mut [u8; LONGEST_ANSWER],
) -> Answer<'b> {
    if !is_question(mtu, frame, frame.len(), offload) {
        return Answer::Pass;
    }
    if let Some(request) = arp::Request::parse(frame) {
        return resolve(
            network,
            frame,
            (request.sender, request.target),
            |mac| request.answer(mac),
            buffer,
        );
    }
    if let Some(question) = neighbor::Solicitation::parse(frame) {
        let asks = (question.sender, question.target);
        return resolve(network, frame, asks, |mac| question.answer(mac, false), buffer);
    }
    too_long(network, mtu, frame, offload, buffer).map_or(Answer::Pass, Answer::Reply)
}

/// Answers the question of a sender for a target as `answer` does in the name of an Ethernet
/// address, if it is ours to answer.
fn resolve<'b, A: Into<IpAddr> + Copy + Eq, F: IntoBytes + Immutable>(
    network: &VirtualNetwork,
    frame: &[u8],
    (sender, target): ((Mac, A), A),
    answer: impl FnOnce(Mac) -> F,
    buffer: &'b mut [u8],
) -> Answer<'b> {
    let Some(owner) = network.owner(target.into()) else { return Answer::Silence };
    if owner == sender.0 {
        // Its announcement is for those who have known another owner (RFC 5227 §2.3). Its probe
        // only another owner would answer.
        return if sender.1 == target { Answer::Pass } else { Answer::Silence };
    }
    if ethernet::peek(frame).is_some_and(|peek| peek.destination() == owner) {
        // Whether it is still there only the owner can say (RFC 1122 §2.3.2.1, RFC 4861 §7.3).
        return Answer::Pass;
    }
    let told = answer(owner);
    let reply = &mut buffer[..size_of::<F>()];
    reply.copy_from_slice(told.as_bytes());
    Answer::Reply(reply)
}

/// Tells the sender of a packet for another host that it is too long, if it is and may be told.
fn too_long<'b>(
    network: &VirtualNetwork,
    mtu: u16,
    frame: &[u8],
    offload: &Offload,
    buffer: &'b mut [u8],
) -> Option<&'b [u8]> {
    let to = ethernet::peek(frame)?.destination();
    let Some(Place::There { .. }) = network.place(to) else { return None };
    let layout = Layout::of(frame)?;
    // A tag takes its bytes from the packet: tunnels carry whole frames.
    let most = (ethernet::Header::LEN + usize::from(mtu)).checked_sub(layout.network)?;
    if longest(layout.end, offload) <= layout.network + most {
        return None;
    }
    let (_, destination) = layout.addresses(frame);
    let told = match layout.version {
        Version::V4 => {
            let from = (to, destination.to_ipv4_mapped()?);
            icmp::fragmentation_needed(frame, most as u16, from, buffer)
        }
        // From a group nobody sends.
        Version::V6 if destination.is_multicast() => None,
        Version::V6 => icmp::packet_too_big(frame, most as u32, (to, destination), buffer),
    };
    told.map(|told| &*told)
}

/// The length in bytes of the longest frame that becomes of one of `len` bytes.
#[inline]
fn longest(len: usize, offload: &Offload) -> usize {
    match offload.segment {
        Some(Segment { header_len, size, .. }) => {
            len.min(usize::from(header_len) + usize::from(size))
        }
        None => len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use model::{Member, NetworkName, NetworkSpec};
    use proptest::prelude::*;
    use wire::checksum::{Sum, pseudo_header};
    use wire::ethernet::ethertype;
    use wire::icmp::{FragmentationNeeded, PacketTooBig};
    use wire::{SegmentKind, ipv4, ipv6};

    const MTU: u16 = 1400;
    /// Here, here, there, and a stranger.
    const MACS: [Mac; 4] = [Mac::local(1), Mac::local(2), Mac::local(3), Mac::local(4)];
    const V4: [Ipv4Addr; 4] = [
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 0, 0, 2),
        Ipv4Addr::new(10, 0, 0, 3),
        Ipv4Addr::new(10, 0, 0, 4),
    ];
    const V6: [Ipv6Addr; 4] = [
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 4),
    ];

    fn directory() -> Directory {
        let hosts: [IpAddr; 2] =
            [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()];
        let member = |i: usize, host: usize| Member {
            mac: MACS[i],
            addresses: vec![V4[i].into(), V6[i].into()],
            vtep: hosts[host].into(),
            label: i as u32 + 1,
        };
        let members = vec![member(0, 0), member(1, 0), member(2, 1)];
        let name = NetworkName("blue".into());
        Directory::new(&[NetworkSpec::new(name, 7, members)], &hosts[0].into()).unwrap()
    }

    /// What is answered; the law of `is_question` holds of every frame that is asked about.
    fn answer_to(mtu: u16, frame: &[u8], offload: &Offload) -> Answer<'static> {
        let directory = directory();
        let buffer = vec![0; LONGEST_ANSWER].leak().try_into().unwrap();
        let answer = answer(directory.network(7).unwrap(), mtu, frame, offload, buffer);
        for head in [&frame[..frame.len().min(32)], frame] {
            assert!(answer == Answer::Pass || is_question(mtu, head, frame.len(), offload));
        }
        answer
    }

    fn asked(frame: &[u8]) -> Answer<'static> {
        answer_to(MTU, frame, &Offload::NONE)
    }

    fn request(sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Answer<'static> {
        asked(arp::Frame::request(sender, target).as_bytes())
    }

    fn solicit(sender: (Mac, Ipv6Addr), target: Ipv6Addr) -> Answer<'static> {
        asked(neighbor::Frame::solicitation(sender, target).as_bytes())
    }

    /// Asks whether an address is free (RFC 4862 §5.4.2): a solicitation from nobody, without an
    /// option.
    fn probe(mac: Mac, target: Ipv6Addr) -> Answer<'static> {
        let frame = neighbor::Frame::solicitation((mac, Ipv6Addr::UNSPECIFIED), target);
        let mut frame = frame.as_bytes()[..78].to_vec();
        frame[19] = 24;
        frame[56..58].fill(0);
        let sum = pseudo_header(&frame[22..54], protocol::ICMPV6, 24) + Sum::of(&frame[54..]);
        frame[56..58].copy_from_slice(&sum.checksum().to_be_bytes());
        asked(&frame)
    }

    /// A packet of so many bytes from the first machine.
    fn packet(to: Mac, destination: IpAddr, len: usize) -> Vec<u8> {
        let (ethertype, mut ip) = match destination {
            IpAddr::V4(v4) => {
                let header =
                    ipv4::Header::new(V4[0], v4, protocol::UDP, len - ipv4::Header::LEN).unwrap();
                (ethertype::IPV4, header.as_bytes().to_vec())
            }
            IpAddr::V6(v6) => {
                let header =
                    ipv6::Header::new(V6[0], v6, protocol::UDP, len - ipv6::Header::LEN).unwrap();
                (ethertype::IPV6, header.as_bytes().to_vec())
            }
        };
        ip.resize(len, 0);
        [ethernet::Header::new(to, MACS[0], ethertype).as_bytes(), &ip].concat()
    }

    /// The MTU that is told, by whom.
    fn told(answer: Answer<'_>) -> Option<(u32, Ipv6Addr)> {
        let Answer::Reply(frame) = answer else { return None };
        let layout = Layout::of(frame).unwrap();
        let icmp = &frame[layout.transport..];
        let mtu = match layout.version {
            Version::V4 => FragmentationNeeded::parse(icmp)?.0.mtu.get().into(),
            Version::V6 => PacketTooBig::parse(icmp)?.0.mtu.get(),
        };
        assert_eq!(ethernet::peek(frame).map(|peek| peek.destination()), Some(MACS[0]));
        Some((mtu, layout.addresses(frame).0))
    }

    #[test]
    fn who_asks_for_a_member_is_told_wherever_it_is() {
        for i in [1, 2] {
            let Answer::Reply(frame) = request((MACS[0], V4[0]), V4[i]) else {
                panic!("a member is known")
            };
            let packet = arp::Packet::parse(frame).unwrap();
            assert_eq!((packet.operation.get(), packet.sender), (arp::operation::REPLY, MACS[i].0));
            assert_eq!(Ipv4Addr::from(packet.sender_protocol), V4[i]);
            let Answer::Reply(frame) = solicit((MACS[0], V6[0]), V6[i]) else {
                panic!("a member is known")
            };
            let told = neighbor::Advertisement::parse(frame).unwrap();
            assert_eq!((told.target, told.mac, told.is_solicited), (V6[i], Some(MACS[i]), true));
        }
        assert_eq!(request((MACS[0], V4[0]), V4[3]), Answer::Silence);
        assert_eq!(solicit((MACS[0], V6[0]), V6[3]), Answer::Silence);
    }

    #[test]
    fn a_probe_is_answered_if_another_has_the_address() {
        assert!(matches!(request((MACS[0], Ipv4Addr::UNSPECIFIED), V4[2]), Answer::Reply(_)));
        assert!(matches!(probe(MACS[0], V6[2]), Answer::Reply(_)));
        assert_eq!(request((MACS[0], Ipv4Addr::UNSPECIFIED), V4[0]), Answer::Silence, "one's own");
        assert_eq!(probe(MACS[0], V6[0]), Answer::Silence, "one's own");
        assert_eq!(request((MACS[0], Ipv4Addr::UNSPECIFIED), V4[3]), Answer::Silence, "nobody's");
        assert_eq!(probe(MACS[0], V6[3]), Answer::Silence, "nobody's");
    }

    #[test]
    fn an_announcement_goes_on_if_it_is_true() {
        assert_eq!(request((MACS[0], V4[0]), V4[0]), Answer::Pass);
        assert!(matches!(request((MACS[0], V4[2]), V4[2]), Answer::Reply(_)), "its owner objects");
        assert_eq!(request((MACS[0], V4[3]), V4[3]), Answer::Silence, "nobody's");
    }

    #[test]
    fn whether_a_neighbor_is_still_there_is_for_the_neighbor_to_say() {
        for (mut frame, mac, passes) in [
            (arp::Frame::request((MACS[0], V4[0]), V4[2]).as_bytes().to_vec(), MACS[2], true),
            (arp::Frame::request((MACS[0], V4[0]), V4[2]).as_bytes().to_vec(), MACS[1], false),
            (
                neighbor::Frame::solicitation((MACS[0], V6[0]), V6[2]).as_bytes().to_vec(),
                MACS[2],
                true,
            ),
            (
                neighbor::Frame::solicitation((MACS[0], V6[0]), V6[2]).as_bytes().to_vec(),
                MACS[1],
                false,
            ),
        ] {
            frame[..6].copy_from_slice(&mac.0);
            assert_eq!(asked(&frame) == Answer::Pass, passes);
        }
    }

    #[test]
    fn what_answers_already_is_not_answered() {
        let request =
            arp::Request::parse(arp::Frame::request((MACS[0], V4[0]), V4[2]).as_bytes()).unwrap();
        assert_eq!(asked(request.answer(MACS[2]).as_bytes()), Answer::Pass);
        let question = neighbor::Frame::solicitation((MACS[0], V6[0]), V6[2]);
        let question = neighbor::Solicitation::parse(question.as_bytes()).unwrap();
        assert_eq!(asked(question.answer(MACS[2], false).as_bytes()), Answer::Pass);
        assert_eq!(asked(&[]), Answer::Pass);
    }

    proptest! {
        #[test]
        fn a_packet_is_too_long_if_a_tunnel_cannot_carry_it(mtu in 1280u16..9000, len in 60usize..10_000, is_v4: bool) {
            let destination = if is_v4 { IpAddr::V4(V4[2]) } else { IpAddr::V6(V6[2]) };
            let answer = answer_to(mtu, &packet(MACS[2], destination, len), &Offload::NONE);
            let expected = (len > usize::from(mtu)).then(|| match destination {
                IpAddr::V4(v4) => (mtu.into(), v4.to_ipv6_mapped()),
                IpAddr::V6(v6) => (mtu.into(), v6),
            });
            prop_assert_eq!(told(answer), expected);
            prop_assert!(expected.is_some() || answer == Answer::Pass);
        }

        #[test]
        fn segments_are_too_long_if_one_of_them_is(len in 100usize..5000, header_len in 54u16..80, size in 1u16..3000) {
            let frame = packet(MACS[2], V4[2].into(), len);
            let segment = Segment { kind: SegmentKind::Tcp4, ecn: false, header_len, size };
            let answer = answer_to(MTU, &frame, &Offload { segment: Some(segment), ..Offload::NONE });
            let longest = frame.len().min(usize::from(header_len + size));
            prop_assert_eq!(told(answer).is_some(), longest > 14 + usize::from(MTU));
        }
    }

    #[test]
    fn a_tag_takes_its_bytes_from_the_packet() {
        let tagged = |len| {
            let mut frame = packet(MACS[2], V4[2].into(), len);
            frame.splice(12..12, [0x81, 0, 0, 7]);
            told(asked(&frame)).map(|(mtu, _)| mtu)
        };
        assert_eq!((tagged(1396), tagged(1397)), (None, Some(1396)));
    }

    #[test]
    fn a_packet_that_stays_here_or_goes_to_many_is_not_too_long() {
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        for (to, destination, why) in [
            (MACS[1], IpAddr::V4(V4[1]), "a machine here"),
            (MACS[3], IpAddr::V4(V4[3]), "a stranger"),
            (Mac::BROADCAST, IpAddr::V4(Ipv4Addr::BROADCAST), "everyone"),
            (neighbor::group_mac(group), IpAddr::V6(group), "a group"),
            (MACS[2], IpAddr::V6(group), "a group, sent to one machine"),
        ] {
            assert_eq!(asked(&packet(to, destination, 1500)), Answer::Pass, "{why}");
        }
        let mut may_be_cut = packet(MACS[2], V4[2].into(), 1500);
        may_be_cut[20] = 0;
        assert_eq!(asked(&may_be_cut), Answer::Pass);
        // The frame is longer than the packet in it.
        let padded = [&packet(MACS[2], V4[2].into(), 1400)[..], &[0; 9]].concat();
        assert_eq!(asked(&padded), Answer::Pass);
    }
}

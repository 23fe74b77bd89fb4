//! What routers ask of neighbours that nobody declares, and what frames say of them: ARP (RFC 826)
//! and neighbor discovery (RFC 4861). Also how often a router asks, and how much it remembers.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::{Mac, Prefix, Span};
use wire::neighbor::{self, Advertisement, Solicitation};
use wire::{arp, ethernet};
use zerocopy::IntoBytes;

use crate::rewrite;

/// How long after a question the next one is asked (RFC 4861 §10, `RETRANS_TIMER`; RFC 1122
/// §2.3.2.1).
pub const ASK_AGAIN: Span = Span::from_secs(1);
/// How many questions are asked in vain (RFC 4861 §10, `MAX_MULTICAST_SOLICIT`).
pub const MOST_QUESTIONS: u8 = 3;
/// How long a neighbour is taken for reachable after it was heard (RFC 4861 §10,
/// `REACHABLE_TIME`).
pub const REACHABLE: Span = Span::from_secs(30);
/// How much longer one is remembered that nobody needs.
pub const STALE: Span = Span::from_secs(60);
/// For how long nobody is asked again who has not answered.
pub const SILENT: Span = Span::from_secs(5);

/// How many neighbours a router remembers that were heard. One more, and one that no packet was for
/// is forgotten, or else the one that was heard longest ago; but none that packets are for gives
/// way to one that no packet was for.
pub const MOST_SEEN: usize = 1024;
/// How many it asks, or has asked in vain, at once. For one more, the one that was asked in vain
/// first is forgotten; if all are being asked, it does not ask.
pub const MOST_ASKED: usize = 256;
/// How many it asks at once for packets of one port: who scans a subnet leaves room for others.
pub const MOST_ASKED_EACH: usize = 64;
/// How many packets a router holds, how many for one neighbour, and how many of one port.
pub const MOST_HELD: usize = 64;
/// See [`MOST_HELD`].
pub const MOST_HELD_EACH: usize = 3;
/// See [`MOST_HELD`].
pub const MOST_HELD_OF_ONE: usize = 16;

/// How many copies of questions the routers of a host send at once: a question goes out of each
/// port that its neighbour may be behind.
pub const MOST_COPIES: usize = 64;

/// The address from which a router asks for one of a neighbour, by a port that has these. `None`:
/// no single machine of the port's own subnets, or of its link, has that.
pub fn asked_from(own: &[Prefix], mac: Mac, address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V6(it) if it.is_unicast_link_local() => {
            let is_v6 = own.iter().any(|it| it.address.is_ipv6());
            is_v6.then(|| neighbor::link_local(mac).into())
        }
        _ => own.iter().find(|it| is_one_of(**it, address)).map(|it| it.address),
    }
}

/// Whether an address is a machine's of a subnet: neither the subnet's own nor that of all in it
/// (RFC 1812 §4.2.3.1, RFC 4291 §2.6.1; a subnet of two has neither, RFC 3021).
fn is_one_of(subnet: Prefix, address: IpAddr) -> bool {
    let (own, asked, bits) = match (subnet.address, address) {
        (IpAddr::V4(own), IpAddr::V4(asked)) => {
            (u128::from(own.to_bits()), u128::from(asked.to_bits()), 32)
        }
        (IpAddr::V6(own), IpAddr::V6(asked)) => (own.to_bits(), asked.to_bits(), 128),
        _ => return false,
    };
    let rest = bits - u32::from(subnet.length);
    let hosts = 1_u128.checked_shl(rest).map_or(u128::MAX, |it| it - 1);
    let is_all = bits == 32 && asked & hosts == hosts;
    own & !hosts == asked & !hosts && (rest < 2 || !(asked & hosts == 0 || is_all))
}

/// What a frame says of its sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The address that it has.
    pub address: IpAddr,
    /// Where it has that.
    pub mac: Mac,
    /// The address that it asks for, if it is a question.
    pub asks: Option<IpAddr>,
    /// Whether it counts more than what was known before (RFC 4861 §4.4, the override flag).
    pub overrides: bool,
}

/// What a frame says of an address of its sender. `None`: nothing, or it speaks of another Ethernet
/// address than its own.
pub fn claim(frame: &[u8]) -> Option<Claim> {
    let (header, _) = ethernet::Header::parse(frame)?;
    let sender = Mac(header.source);
    let (address, mac, asks, overrides) = if let Some(packet) = arp::Packet::parse(frame) {
        let address = IpAddr::from(packet.sender_protocol);
        let asks = match packet.operation.get() {
            // Who asks for its own address announces it (RFC 5227 §2.3).
            arp::operation::REQUEST => {
                Some(packet.target_protocol.into()).filter(|it| *it != address)
            }
            arp::operation::REPLY => None,
            _ => return None,
        };
        (address, Mac(packet.sender), asks, true)
    } else if let Some(asked) = Solicitation::parse(frame) {
        let (mac, address) = asked.sender;
        (address.into(), mac, Some(asked.target.into()), true)
    } else {
        let told = Advertisement::parse(frame)?;
        (told.target.into(), told.mac.unwrap_or(sender), None, told.overrides)
    };
    let is_one = mac == sender && !mac.is_multicast() && mac != Mac([0; 6]);
    (is_one && !address.is_unspecified()).then_some(Claim { address, mac, asks, overrides })
}

/// The question of a router for a neighbour's address: to everybody, or to the neighbour alone
/// where it was (RFC 1122 §2.3.2.1 (2), RFC 4861 §7.3.3). `None`: the router has no address that
/// it could ask from.
pub fn question(sender: (Mac, IpAddr), target: IpAddr, to: Option<Mac>) -> Option<Vec<u8>> {
    let mut frame = match (sender.1, target) {
        (IpAddr::V4(own), IpAddr::V4(target)) => {
            arp::Frame::request((sender.0, own), target).as_bytes().to_vec()
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => {
            neighbor::Frame::solicitation((sender.0, own), target).as_bytes().to_vec()
        }
        _ => return None,
    };
    if let Some(to) = to {
        rewrite::set_macs(&mut frame, to, sender.0);
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    #[test]
    fn who_asks_and_who_answers_says_where_it_is() {
        for [own, other] in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            let [own, other]: [IpAddr; 2] = [own, other].map(|it| it.parse().unwrap());
            let asked = question((ROUTER, own), other, None).unwrap();
            let told = Claim { address: own, mac: ROUTER, asks: Some(other), overrides: true };
            assert_eq!(claim(&asked), Some(told));
            let answer = match Solicitation::parse(&asked) {
                Some(asked) => asked.answer(OTHER, false).as_bytes().to_vec(),
                None => arp::Request::parse(&asked).unwrap().answer(OTHER).as_bytes().to_vec(),
            };
            let told = Claim { address: other, mac: OTHER, asks: None, overrides: true };
            assert_eq!(claim(&answer), Some(told));
            // Nobody speaks for another's Ethernet address.
            let mut other = answer;
            other[11] ^= 1;
            assert_eq!(claim(&other), None);
        }
    }

    #[test]
    fn who_is_asked_for_is_one_machine_of_a_subnet() {
        let from = |own: &str, address: &str| {
            asked_from(&[own.parse().unwrap()], ROUTER, address.parse().unwrap())
        };
        for (own, address, is_asked) in [
            ("10.0.0.1/24", "10.0.0.2", true),
            ("10.0.0.1/24", "10.0.1.2", false),
            ("10.0.0.1/24", "10.0.0.0", false),
            ("10.0.0.1/24", "10.0.0.255", false),
            ("10.0.0.0/31", "10.0.0.1", true),
            ("10.0.0.1/24", "fd00::2", false),
            ("fd00::1/64", "fd00::ff:ffff:ffff:ffff:ffff", false),
            ("fd00::1/64", "fd00::ffff:ffff:ffff:ffff", true),
            ("fd00::1/64", "fd00::", false),
            ("::1/0", "fd00::5", true),
        ] {
            assert_eq!(from(own, address).is_some(), is_asked, "{own} {address}");
        }
        let link = IpAddr::from(neighbor::link_local(ROUTER));
        assert_eq!(from("fd00::1/64", "fe80::5"), Some(link));
        assert_eq!(from("10.0.0.1/24", "fe80::5"), None);
    }

    #[test]
    fn a_question_to_one_alone_is_to_that() {
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
        let asked = question((ROUTER, addresses[0]), addresses[1], Some(OTHER)).unwrap();
        assert_eq!((&asked[..6], &asked[6..12]), (&OTHER.0[..], &ROUTER.0[..]));
        let mixed = question((ROUTER, addresses[0]), "fd00::2".parse().unwrap(), None);
        assert_eq!(mixed, None);
    }

    /// Frames that are nearly questions and answers: some bytes are others, and the end is missing.
    #[test]
    fn what_is_read_of_any_frame_is_of_one_machine_that_sent_it() {
        let [own, other]: [[IpAddr; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]]
            .map(|all| all.map(|it| it.parse().unwrap()));
        let mut whole: Vec<Vec<u8>> = Vec::new();
        for (own, other) in own.into_iter().zip(other) {
            let asked = question((ROUTER, own), other, None).unwrap();
            whole.push(match Solicitation::parse(&asked) {
                Some(asked) => asked.answer(OTHER, false).as_bytes().to_vec(),
                None => arp::Request::parse(&asked).unwrap().answer(OTHER).as_bytes().to_vec(),
            });
            whole.push(asked);
        }
        let mut random = Rng::new(826);
        let mut read = 0;
        for frame in whole.iter().cycle().take(200_000) {
            let mut frame = frame.clone();
            for _ in 0..random.below(4) {
                let at = random.below(frame.len() as u64) as usize;
                frame[at] = [0, 0xff, random.next_u64() as u8][random.below(3) as usize];
            }
            if random.below(2) == 0 {
                frame.truncate(random.below(1 + frame.len() as u64) as usize);
            }
            let Some(said) = claim(&frame) else { continue };
            read += 1;
            assert_eq!(frame[6..12], said.mac.0, "{frame:02x?}");
            assert!(!said.mac.is_multicast() && said.mac != Mac([0; 6]), "{frame:02x?}");
            assert!(!said.address.is_unspecified(), "{frame:02x?}");
        }
        assert!(read > 10_000, "{read} frames said something");
    }
}

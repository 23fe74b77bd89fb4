//! Whether a frame contradicts what is declared of its network's machines.
//!
//! A machine may not speak for another: not from its Ethernet address, which [`Datapath`] compares,
//! and not from its IP addresses, nor say of one of those that it has it. What is declared of
//! nobody contradicts nothing: a machine may have further addresses, and a router sends packets
//! from anywhere.
//!
//! [`Datapath`]: crate::Datapath

use core::net::IpAddr;

use units::Mac;
use wire::ethernet::ethertype;
use wire::ip::protocol;
use wire::neighbor::Claim;
use wire::{arp, ethernet, neighbor};

use crate::VirtualNetwork;

/// Who is behind a port: the Ethernet addresses that are declared of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Behind(alloc::vec::Vec<Mac>);

impl Behind {
    /// Those with these addresses.
    pub fn new(macs: impl IntoIterator<Item = Mac>) -> Self {
        Self(macs.into_iter().collect())
    }

    /// Whether a machine that is declared has this address, and is not behind the port.
    fn contradicts(&self, network: &VirtualNetwork, address: IpAddr) -> bool {
        network.owner(address).is_some_and(|owner| !self.0.contains(&owner))
    }

    /// The same of an Ethernet address.
    fn contradicts_mac(&self, network: &VirtualNetwork, mac: Mac) -> bool {
        network.place(mac).is_some() && !self.0.contains(&mac)
    }
}

/// What there is to compare of a frame whose first bytes show that there is nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sender {
    /// The sources of an IPv4 packet.
    V4(Mac, [u8; 4]),
    /// The sources of an IPv6 packet that carries TCP or UDP.
    V6(Mac, [u8; 16]),
    /// The source of what is neither IP nor ARP.
    Other(Mac),
}

impl Sender {
    /// The sender of a frame of which the first bytes are at hand; `None` if the frame has to be
    /// looked at as a whole.
    #[inline]
    pub fn of(head: &[u8]) -> Option<Self> {
        let (header, packet) = ethernet::Header::parse(head)?;
        let mac = Mac(header.source);
        match header.ethertype.get() {
            ethertype::IPV4 => Some(Self::V4(mac, *v4_source(packet)?)),
            ethertype::IPV6 => match packet.get(6)? {
                &(protocol::TCP | protocol::UDP) => Some(Self::V6(mac, *v6_source(packet)?)),
                _ => None,
            },
            ethertype::ARP | ethertype::VLAN | ethertype::SERVICE_VLAN | ..=LONGEST => None,
            _ => Some(Self::Other(mac)),
        }
    }

    fn is_spoofed(self, network: &VirtualNetwork, behind: &Behind) -> bool {
        let (mac, ip) = match self {
            Self::V4(mac, ip) => (mac, Some(ip.into())),
            Self::V6(mac, ip) => (mac, Some(ip.into())),
            Self::Other(mac) => (mac, None),
        };
        behind.contradicts_mac(network, mac) || ip.is_some_and(|ip| behind.contradicts(network, ip))
    }
}

/// Whether a frame that came from `behind` a port speaks for a machine that is not there: its
/// source, or what it says by ARP (RFC 826) or neighbor discovery (RFC 4861). Of `frame`
/// everything is at hand. What might speak for another and cannot be read is taken to do so.
///
/// Frames of a VLAN are compared by their Ethernet address alone, as IP addresses are declared of
/// none; a tag that names none hides nothing.
pub fn is_spoofed(network: &VirtualNetwork, behind: &Behind, frame: &[u8]) -> bool {
    if let Some(sender) = Sender::of(frame) {
        return sender.is_spoofed(network, behind);
    }
    // It is refused as malformed.
    let Some(peek) = ethernet::peek(frame) else { return false };
    if behind.contradicts_mac(network, peek.source()) {
        return true;
    }
    let is_of_a_vlan = peek.tag().is_some_and(|tag| tag.vlan != 0);
    !is_of_a_vlan && speaks_for_another(network, behind, frame).unwrap_or(true)
}

/// Whether what a frame of no VLAN carries speaks for a machine that is not there; `None` if that
/// cannot be read.
fn speaks_for_another(network: &VirtualNetwork, behind: &Behind, frame: &[u8]) -> Option<bool> {
    let (ethertype, packet) = payload(frame)?;
    Some(match ethertype {
        ethertype::ARP => {
            let arp = arp::Packet::read(packet)?;
            behind.contradicts_mac(network, Mac(arp.sender))
                || behind.contradicts(network, IpAddr::from(arp.sender_protocol))
        }
        ethertype::IPV4 => behind.contradicts(network, (*v4_source(packet)?).into()),
        ethertype::IPV6 => {
            behind.contradicts(network, (*v6_source(packet)?).into())
                || match neighbor::claim(packet) {
                    Claim::Nothing => false,
                    Claim::Of(target, mac) => {
                        behind.contradicts(network, target.into())
                            || mac.is_some_and(|mac| behind.contradicts_mac(network, mac))
                    }
                    Claim::Unreadable => return None,
                }
        }
        // A third tag.
        ethertype::VLAN | ethertype::SERVICE_VLAN => return None,
        _ => false,
    })
}

/// What a frame carries behind at most two tags and, where it has a length in place of an
/// EtherType, behind the header that names one (RFC 1042).
fn payload(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (ethertype, at) = ethernet::payload(frame)?;
    let rest = frame.get(at..)?;
    match *rest {
        [0xaa, 0xaa, 3, 0, 0, 0, high, low, ref packet @ ..] if ethertype <= LONGEST => {
            Some((u16::from_be_bytes([high, low]), packet))
        }
        _ => Some((ethertype, rest)),
    }
}

/// Up to this an EtherType is a length (802.3 §3.2.6).
const LONGEST: u16 = 1500;

/// Where an IPv4 packet comes from, whatever else it says.
#[inline]
fn v4_source(packet: &[u8]) -> Option<&[u8; 4]> {
    packet.get(12..)?.first_chunk()
}

/// The same of an IPv6 packet.
#[inline]
fn v6_source(packet: &[u8]) -> Option<&[u8; 16]> {
    packet.get(8..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};

    use model::{NetworkName, NetworkSpec};
    use wire::{ipv4, ipv6};
    use zerocopy::IntoBytes;

    use super::*;
    use crate::Directory;

    /// Behind the port, another on this host, one on another host, and one that nobody declared.
    const MACS: [Mac; 4] = [Mac::local(1), Mac::local(2), Mac::local(3), Mac::local(4)];
    const US: usize = 0;
    const NOBODY: usize = 3;

    fn v4(machine: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, machine as u8 + 1)
    }

    fn v6(machine: usize) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, machine as u16 + 1)
    }

    fn is_spoofed(frame: &[u8]) -> bool {
        let hosts: [IpAddr; 2] = [1, 2].map(|host| Ipv4Addr::new(192, 0, 2, host).into());
        let member = |machine: usize| model::Member {
            mac: MACS[machine],
            addresses: vec![v4(machine).into(), v6(machine).into()],
            vtep: hosts[usize::from(machine == 2)].into(),
            label: machine as u32 + 1,
        };
        let members = vec![member(0), member(1), member(2)];
        let spec = NetworkSpec::new(NetworkName("blue".into()), 7, members);
        let directory = Directory::new(&[spec], &hosts[0].into()).unwrap();
        let network = directory.network(7).unwrap();
        let behind = Behind::new(network.behind(1));
        super::is_spoofed(network, &behind, frame)
    }

    /// A packet to somebody, from an Ethernet address and an IP address.
    fn packet(mac: usize, ip: usize, is_v4: bool) -> Vec<u8> {
        let (ethertype, header) = match is_v4 {
            true => {
                let ip = ipv4::Header::new(v4(ip), v4(1), protocol::UDP, 8).unwrap();
                (ethertype::IPV4, ip.as_bytes().to_vec())
            }
            false => {
                let ip = ipv6::Header::new(v6(ip), v6(1), protocol::UDP, 8).unwrap();
                (ethertype::IPV6, ip.as_bytes().to_vec())
            }
        };
        let ethernet = ethernet::Header::new(MACS[1], MACS[mac], ethertype);
        [ethernet.as_bytes(), &header, &[0; 8]].concat()
    }

    /// The same frame behind a tag of this VLAN.
    fn tagged(frame: &[u8], vlan: u8) -> Vec<u8> {
        let mut tagged = frame.to_vec();
        tagged.splice(12..12, [0x81, 0, 0, vlan]);
        tagged
    }

    /// Says that an address is at a machine's Ethernet address, from its own: an answer by ARP and
    /// one by neighbor discovery.
    fn claims(mac: usize, address: usize) -> [Vec<u8>; 2] {
        let asks = (MACS[1], v4(1));
        let asked = arp::Frame::request(asks, v4(address));
        let arp = arp::Request::parse(asked.as_bytes()).unwrap().answer(MACS[mac]);
        let asked = neighbor::Frame::solicitation((MACS[1], v6(1)), v6(address));
        let told = neighbor::Solicitation::parse(asked.as_bytes()).unwrap();
        let mut told = told.answer(MACS[mac], false).as_bytes().to_vec();
        // From an address that nobody declares, as a machine's own on the link is.
        told[22..38].copy_from_slice(&Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9).octets());
        [arp.as_bytes().to_vec(), told]
    }

    #[test]
    fn who_speaks_for_another_is_found_out() {
        for other in [1, 2] {
            for frame in claims(US, other) {
                assert!(is_spoofed(&frame), "its address");
                assert!(is_spoofed(&tagged(&frame, 0)), "behind a tag of no VLAN");
                assert!(!is_spoofed(&tagged(&frame, 7)), "in a VLAN nothing is declared");
            }
            for is_v4 in [true, false] {
                assert!(is_spoofed(&packet(US, other, is_v4)), "from its address");
                assert!(is_spoofed(&packet(other, US, is_v4)), "from its Ethernet address");
                assert!(is_spoofed(&tagged(&packet(other, US, is_v4), 7)));
            }
            // By ARP, a question tells as well; and an answer may name another than it comes from.
            let asks = arp::Frame::request((MACS[US], v4(other)), v4(1));
            assert!(is_spoofed(asks.as_bytes()));
            let mut answer = claims(US, US)[0].clone();
            answer[22..28].copy_from_slice(&MACS[other].0);
            assert!(is_spoofed(&answer));
        }
    }

    #[test]
    fn who_speaks_for_itself_or_for_nobody_is_not() {
        for address in [US, NOBODY] {
            for frame in claims(US, address) {
                assert!(!is_spoofed(&frame));
            }
            for is_v4 in [true, false] {
                assert!(!is_spoofed(&packet(US, address, is_v4)));
                assert!(!is_spoofed(&packet(NOBODY, address, is_v4)), "a machine behind it");
            }
        }
        let probe = arp::Frame::request((MACS[US], Ipv4Addr::UNSPECIFIED), v4(2));
        assert!(!is_spoofed(probe.as_bytes()), "it only asks");
        assert!(!is_spoofed(&[]) && !is_spoofed(&[8; 20]));
    }

    /// The same IPv6 packet with an extension header of eight bytes before the rest.
    fn behind_options(frame: &[u8], times: usize) -> Vec<u8> {
        const OPTIONS: u8 = 60;
        let mut frame = frame.to_vec();
        for _ in 0..times {
            let next = core::mem::replace(&mut frame[20], OPTIONS);
            frame.splice(54..54, [next, 0, 1, 4, 0, 0, 0, 0]);
            frame[19] += 8;
        }
        frame
    }

    #[test]
    fn what_is_malformed_hides_no_source() {
        for other in [1, 2] {
            let (mut long, mut long_v6) = (packet(US, other, true), packet(US, other, false));
            (long[16], long_v6[18]) = (9, 9);
            let mut short = packet(US, other, true);
            short[14] = 0x40;
            let routed = {
                let mut frame = behind_options(&packet(US, other, false), 1);
                (frame[20], frame[57]) = (43, 1);
                frame
            };
            for frame in
                [long, long_v6, short, routed, behind_options(&packet(US, other, false), 9)]
            {
                assert!(is_spoofed(&frame), "{frame:x?}");
            }
        }
    }

    #[test]
    fn what_might_speak_for_another_and_cannot_be_read_is_taken_to() {
        let [arp, told] = claims(US, 1);
        for tags in 0..5 {
            let behind = (0..tags).fold(arp.clone(), |frame, _| tagged(&frame, 0));
            assert!(is_spoofed(&behind), "{tags} tags");
        }
        for headers in 0..12 {
            assert!(is_spoofed(&behind_options(&told, headers)), "{headers} extension headers");
        }
        // IEEE 802's kind of hardware, which Linux takes for Ethernet's.
        let mut of_802 = arp.clone();
        of_802[15] = 6;
        assert!(is_spoofed(&of_802));
        // Behind a length and the header that names its EtherType (RFC 1042).
        let mut named = arp.clone();
        named.splice(12..12, [0, 36, 0xaa, 0xaa, 3, 0, 0, 0]);
        assert!(is_spoofed(&named));
        let mut redirect = told.clone();
        redirect[54] = 137;
        redirect.splice(78..78, v6(1).octets());
        redirect[19] += 16;
        assert!(is_spoofed(&redirect));
        // The first fragment of a claim that shows nothing but its kind.
        let mut part = behind_options(&told[..54 + 8], 1);
        (part[20], part[56], part[57], part[19]) = (44, 0, 1, 16);
        assert!(is_spoofed(&part));
        // Nobody believes a claim from beyond the link.
        let mut far = behind_options(&told, 9);
        far[21] = 64;
        assert!(!is_spoofed(&far));
    }

    #[test]
    fn a_sender_is_all_there_is_to_compare() {
        for frame in [packet(US, US, true), packet(US, US, false)] {
            assert!(Sender::of(&frame).is_some());
            assert_ne!(Sender::of(&frame), Sender::of(&packet(1, US, frame[14] >> 4 == 4)));
            assert_eq!(Sender::of(&tagged(&frame, 0)), None);
        }
        for whole in claims(US, US) {
            assert_eq!(Sender::of(&whole), None);
        }
        let other = ethernet::Header::new(MACS[1], MACS[2], ethertype::EXPERIMENTAL);
        assert!(is_spoofed(other.as_bytes()), "it is no IP, and from another's Ethernet address");
    }
}

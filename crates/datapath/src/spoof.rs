//! Whether a frame contradicts what is declared of its network's machines.
//!
//! A machine may not speak for another: not from its Ethernet address, which [`Datapath`] compares,
//! and not from its IP addresses, nor say of one of those that it has it. What is declared of
//! nobody contradicts nothing: a machine may have further addresses, and a router sends packets
//! from anywhere.
//!
//! [`Datapath`]: crate::Datapath

use core::net::{IpAddr, Ipv4Addr};

use units::Mac;
use wire::ip::Version;
use wire::{Layout, arp, ethernet, neighbor};

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

/// Whether a frame that came from `behind` a port speaks for a machine that is not there: its
/// source, or what it says by ARP (RFC 826) or neighbor discovery (RFC 4861). Of `frame`
/// everything is at hand.
///
/// Frames of a VLAN are not looked at, as what is declared is not of one; a tag that names none
/// hides nothing.
pub fn is_spoofed(network: &VirtualNetwork, behind: &Behind, frame: &[u8]) -> bool {
    let Some(peek) = ethernet::peek(frame) else { return false };
    if behind.contradicts_mac(network, peek.source()) {
        return true;
    }
    if peek.tag().is_some_and(|tag| tag.vlan != 0) {
        return false;
    }
    if let Some(arp) = arp::Packet::behind_tags(frame) {
        return behind.contradicts_mac(network, Mac(arp.sender))
            || behind.contradicts(network, Ipv4Addr::from(arp.sender_protocol).into());
    }
    let Some(source) = source(frame) else { return false };
    if behind.contradicts(network, source) {
        return true;
    }
    let Some((target, mac)) = neighbor::claim(frame) else { return false };
    behind.contradicts(network, target.into())
        || mac.is_some_and(|mac| behind.contradicts_mac(network, mac))
}

/// The IP address that a frame's packet comes from.
fn source(frame: &[u8]) -> Option<IpAddr> {
    let layout = Layout::of(frame)?;
    let (source, _) = layout.addresses(frame);
    Some(match layout.version {
        Version::V4 => source.to_ipv4_mapped()?.into(),
        Version::V6 => source.into(),
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    use model::{NetworkName, NetworkSpec};
    use wire::ethernet::ethertype;
    use wire::ip::protocol;
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
        let spec = NetworkSpec { name: NetworkName("blue".into()), vni: 7, members };
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
        assert!(!is_spoofed(&[]) && !is_spoofed(&[2; 20]));
    }
}

//! ARP (RFC 826): which Ethernet address has an IPv4 address.
//!
//! Of frames with a VLAN tag nothing is read: whoever knows the VLAN takes the tag off first.

use core::net::Ipv4Addr;

use units::Mac;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::{self, ethertype};

/// What [`Packet::operation`] may say (RFC 826, RFC 903).
pub mod operation {
    /// Who has the target's protocol address?
    pub const REQUEST: u16 = 1;
    /// The sender has it.
    pub const REPLY: u16 = 2;
    /// Which protocol address does the target have (RFC 903)?
    pub const REVERSE_REQUEST: u16 = 3;
}

/// What ARP says about Ethernet and IPv4: 28 bytes (RFC 826, "Packet format").
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Packet {
    /// `ar$hrd`: 1, Ethernet.
    hardware: U16,
    /// `ar$pro`: the EtherType of IPv4.
    protocol: U16,
    /// `ar$hln` and `ar$pln`: bytes of a hardware and of a protocol address.
    lengths: [u8; 2],
    /// `ar$op`: one of [`operation`].
    pub operation: U16,
    /// `ar$sha`: the sender's hardware address.
    pub sender: [u8; 6],
    /// `ar$spa`: the sender's protocol address; 0 if it has none yet (RFC 5227 §1.1).
    pub sender_protocol: [u8; 4],
    /// `ar$tha`: the target's hardware address; of a request it says nothing.
    pub target: [u8; 6],
    /// `ar$tpa`: the target's protocol address.
    pub target_protocol: [u8; 4],
}

impl Packet {
    /// What says `operation` of two machines, each a hardware and a protocol address.
    pub const fn new(operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Self {
        Self {
            hardware: U16::new(1),
            protocol: U16::new(ethertype::IPV4),
            lengths: [6, 4],
            operation: U16::new(operation),
            sender: sender.0.0,
            sender_protocol: sender.1.octets(),
            target: target.0.0,
            target_protocol: target.1.octets(),
        }
    }

    /// The packet in a frame; `None` if that is not ARP, of other kinds of addresses, or cut short.
    pub fn parse(frame: &[u8]) -> Option<&Self> {
        let (header, rest) = ethernet::Header::parse(frame)?;
        Self::read(rest).filter(|_| header.ethertype.get() == ethertype::ARP)
    }

    /// The same behind at most two VLAN tags.
    pub fn behind_tags(frame: &[u8]) -> Option<&Self> {
        let (ethertype, at) = ethernet::payload(frame)?;
        Self::read(&frame[at..]).filter(|_| ethertype == ethertype::ARP)
    }

    /// The packet that these bytes begin with; `None` if it is of other kinds of addresses, or cut
    /// short.
    pub fn read(bytes: &[u8]) -> Option<&Self> {
        let (packet, _) = Self::ref_from_prefix(bytes).ok()?;
        let kinds = (packet.hardware.get(), packet.protocol.get(), packet.lengths);
        (kinds == (1, ethertype::IPV4, [6, 4])).then_some(packet)
    }
}

/// A whole frame of the least length, 60 bytes (802.3 §4A.4.2, without the check sequence).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Frame {
    header: ethernet::Header,
    packet: Packet,
    padding: [u8; 18],
}

const _: () = assert!(size_of::<Frame>() == 60);

impl Frame {
    pub(crate) const fn new(header: ethernet::Header, packet: Packet) -> Self {
        Self { header, packet, padding: [0; 18] }
    }

    /// What asks everyone for the Ethernet address of `target`.
    pub const fn request(sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Self {
        let packet = Packet::new(operation::REQUEST, sender, (Mac([0; 6]), target));
        Self::new(ethernet::Header::new(Mac::BROADCAST, sender.0, ethertype::ARP), packet)
    }
}

/// A request, as far as an answer depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The Ethernet and IPv4 address of who asks. The latter is 0 of a probe whether an address is
    /// free (RFC 5227 §2.1.1), and [`target`](Self::target) of an announcement, which awaits no
    /// answer (§2.3).
    pub sender: (Mac, Ipv4Addr),
    /// The address that is asked for.
    pub target: Ipv4Addr,
}

impl Request {
    /// The request in a frame; `None` if that is none, or if the sender says that it is a group.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let packet = Packet::parse(frame)?;
        let sender = Mac(packet.sender);
        let is_request = packet.operation.get() == operation::REQUEST && !sender.is_multicast();
        is_request.then_some(Self {
            sender: (sender, packet.sender_protocol.into()),
            target: packet.target_protocol.into(),
        })
    }

    /// The answer that `mac` has the address (RFC 826, "Packet reception").
    pub const fn answer(&self, mac: Mac) -> Frame {
        let packet = Packet::new(operation::REPLY, (mac, self.target), self.sender);
        Frame::new(ethernet::Header::new(self.sender.0, mac, ethertype::ARP), packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASKS: (Mac, Ipv4Addr) = (Mac::local(1), Ipv4Addr::new(10, 0, 0, 1));
    const ASKED: (Mac, Ipv4Addr) = (Mac::local(2), Ipv4Addr::new(10, 0, 0, 2));

    proptest! {
        #[test]
        fn parse_undoes_emit(sender: u32, addresses: [[u8; 4]; 2], has: u32) {
            let request =
                Request { sender: (Mac::local(sender), addresses[0].into()), target: addresses[1].into() };
            let frame = Frame::request(request.sender, request.target);
            prop_assert_eq!(Request::parse(frame.as_bytes()), Some(request));
            let answer = request.answer(Mac::local(has));
            prop_assert_eq!(Packet::parse(answer.as_bytes()), Some(&answer.packet));
            prop_assert_eq!(Request::parse(answer.as_bytes()), None);
        }
    }

    #[test]
    fn an_answer_is_laid_out_as_the_standard_has_it() {
        // Without the padding, as a virtual interface may hand it over.
        let request = Request::parse(&Frame::request(ASKS, ASKED.1).as_bytes()[..42]).unwrap();
        let expected = [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6][..],
            &[0, 1, 8, 0, 6, 4, 0, 2],
            &[2, 0, 0, 0, 0, 2, 10, 0, 0, 2],
            &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1],
            &[0; 18],
        ];
        assert_eq!(request.answer(ASKED.0).as_bytes(), expected.concat());
    }

    #[test]
    fn what_cannot_be_answered_is_none() {
        let good = Frame::request(ASKS, ASKED.1);
        let good = good.as_bytes();
        assert!(Request::parse(good).is_some());
        assert!(Request::parse(&good[..41]).is_none(), "cut short");
        let wrong = [
            (13, 0x35, "reverse ARP"),
            (15, 6, "IEEE 802 networks"),
            (17, 1, "another protocol"),
            (18, 8, "EUI-64"),
            (19, 16, "IPv6"),
            (21, 2, "a reply"),
            (22, 3, "a group asks"),
        ];
        for (at, byte, why) in wrong {
            let mut bad = good.to_vec();
            bad[at] = byte;
            assert!(Request::parse(&bad).is_none(), "{why}");
        }
    }
}

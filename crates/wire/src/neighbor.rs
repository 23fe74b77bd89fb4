//! IPv6 neighbor discovery (RFC 4861), as far as it is ARP's counterpart: which Ethernet address
//! has an IPv6 address.
//!
//! Nothing is read of frames with a VLAN tag, nor of messages behind extension headers, which no
//! machine sends and which RFC 6980 §5 forbids of fragments. Checksums are verified here, since an
//! answer to a damaged question would spread what is wrong.

use core::net::Ipv6Addr;

use units::Mac;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{Sum, pseudo_header};
use crate::ethernet::{self, ethertype};
use crate::ip::{Fragment, protocol};
use crate::ipv6;

/// The hop limit of every message: one from beyond the link would have less (RFC 4861 §3.1).
pub const HOP_LIMIT: u8 = 255;

/// Every node on the link (RFC 4291 §2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group that whoever has `address` is in (RFC 4291 §2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, (b as u16) << 8 | c as u16)
}

/// The Ethernet address of an IPv6 group (RFC 2464 §7).
pub const fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The link-local address that an Ethernet address makes (RFC 4291 §2.5.1, appendix A).
pub const fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from_octets([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// What begins a message, and all of it but its options (RFC 4861 §4.3, §4.4): 24 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
struct Header {
    /// [`SOLICITATION`] or [`ADVERTISEMENT`].
    kind: u8,
    /// 0.
    code: u8,
    checksum: U16,
    /// Of an advertisement: [`ROUTER`], [`SOLICITED`], [`OVERRIDE`].
    flags: u8,
    reserved: [u8; 3],
    target: [u8; 16],
}

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// What an option with the Ethernet address of the sender says first, its kind (RFC 4861 §4.6.1).
/// Its length in units of 8 bytes follows, which is 1, and then the address (RFC 2464 §6).
const SOURCE_ADDRESS: u8 = 1;
/// The same of the target's.
const TARGET_ADDRESS: u8 = 2;

/// A whole frame with a message and the one option that is written here: 86 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Frame {
    ethernet: ethernet::Header,
    ip: ipv6::Header,
    header: Header,
    option: [u8; 8],
}

impl Frame {
    const PAYLOAD_LEN: usize = size_of::<Header>() + 8;

    /// The message between `ends`, of whom each has an Ethernet and an IPv6 address, source first.
    fn new(
        ends: [(Mac, Ipv6Addr); 2],
        kind: u8,
        flags: u8,
        target: Ipv6Addr,
        option: (u8, Mac),
    ) -> Self {
        let [source, destination] = ends;
        let Mac([a, b, c, d, e, f]) = option.1;
        let ip = ipv6::Header::new(source.1, destination.1, protocol::ICMPV6, Self::PAYLOAD_LEN);
        let mut frame = Self {
            ethernet: ethernet::Header::new(destination.0, source.0, ethertype::IPV6),
            ip: ipv6::Header { hop_limit: HOP_LIMIT, ..ip.expect("32 bytes are not too many") },
            header: Header {
                kind,
                code: 0,
                checksum: U16::ZERO,
                flags,
                reserved: [0; 3],
                target: target.octets(),
            },
            option: [option.0, 1, a, b, c, d, e, f],
        };
        let sum = Sum::of(frame.header.as_bytes()) + Sum::of(&frame.option);
        frame.header.checksum.set((sum + addresses_sum(&frame.ip, Self::PAYLOAD_LEN)).checksum());
        frame
    }

    /// What asks for the Ethernet address of `target`, where that is not known (RFC 4861 §7.2.2).
    pub fn solicitation(sender: (Mac, Ipv6Addr), target: Ipv6Addr) -> Self {
        let group = solicited_node(target);
        let ends = [sender, (group_mac(group), group)];
        Self::new(ends, SOLICITATION, 0, target, (SOURCE_ADDRESS, sender.0))
    }
}

/// What an ICMPv6 checksum covers of the IPv6 header (RFC 4443 §2.3).
fn addresses_sum(ip: &ipv6::Header, len: usize) -> Sum {
    let addresses = [ip.source, ip.destination];
    pseudo_header(addresses.as_flattened(), protocol::ICMPV6, len)
}

/// A message of either kind that is valid, whatever its kind.
struct Message<'a> {
    ethernet: &'a ethernet::Header,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    header: &'a Header,
    /// The Ethernet address in the option that is asked for.
    address: Option<Mac>,
}

impl<'a> Message<'a> {
    /// The message of a kind that a frame carries, with what an option of another kind says; `None`
    /// if that is not what §7.1.1 and §7.1.2 have in common.
    fn parse(frame: &'a [u8], kind: u8, option: u8) -> Option<Self> {
        let (ethernet, rest) = ethernet::Header::parse(frame)?;
        if ethernet.ethertype.get() != ethertype::IPV6 {
            return None;
        }
        let packet = ipv6::Packet::parse(rest)?;
        let (header, options) = Header::ref_from_prefix(packet.payload).ok()?;
        let (source, destination) = (packet.header.source.into(), packet.header.destination.into());
        let target = Ipv6Addr::from(header.target);
        let is_valid = packet.extensions.is_empty()
            && packet.protocol == protocol::ICMPV6
            && (header.kind, header.code) == (kind, 0)
            && packet.header.hop_limit == HOP_LIMIT
            && !target.is_multicast();
        if !is_valid {
            return None;
        }
        let address = link_address(options, option)?;
        let sum = addresses_sum(packet.header, packet.payload.len()) + Sum::of(packet.payload);
        (sum.checksum() == 0).then_some(Self { ethernet, source, destination, header, address })
    }
}

/// What the first option of this kind says, `Some(None)` if there is none; `None` if an option has
/// no length or is cut short.
fn link_address(mut options: &[u8], kind: u8) -> Option<Option<Mac>> {
    let mut found = None;
    while let [this, units, ..] = *options {
        let len = usize::from(units) * 8;
        let (option, rest) = options.split_at_checked(len).filter(|_| len > 0)?;
        if this == kind && found.is_none() {
            // Another length is another kind of link.
            found = option.as_array().map(|[_, _, mac @ ..]: &[u8; 8]| Mac(*mac));
        }
        options = rest;
    }
    options.is_empty().then_some(found)
}

/// A question for an address (RFC 4861 §4.3), as far as an answer depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Solicitation {
    /// The Ethernet and IPv6 address of who asks. The latter is `::` of a probe whether an address
    /// is free (RFC 4862 §5.4.2).
    pub sender: (Mac, Ipv6Addr),
    /// The address that is asked for.
    pub target: Ipv6Addr,
}

impl Solicitation {
    /// The question in a frame; `None` if that is none or is not valid (RFC 4861 §7.1.1).
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let message = Message::parse(frame, SOLICITATION, SOURCE_ADDRESS)?;
        let is_probe = message.source.is_unspecified();
        let target = message.header.target.into();
        if is_probe && (message.address.is_some() || message.destination != solicited_node(target))
        {
            return None;
        }
        let mac = message.address.unwrap_or(Mac(message.ethernet.source));
        let is_one = !mac.is_multicast() && !message.source.is_multicast();
        is_one.then_some(Self { sender: (mac, message.source), target })
    }

    /// The answer that `mac`, which is a router or not, has the address (RFC 4861 §7.2.4). It
    /// overrides what was known before, so it is for an address of one machine, not for anycast.
    pub fn answer(&self, mac: Mac, is_router: bool) -> Frame {
        let (flags, destination) = if self.sender.1.is_unspecified() {
            (OVERRIDE, (group_mac(ALL_NODES), ALL_NODES))
        } else {
            (OVERRIDE | SOLICITED, self.sender)
        };
        let flags = if is_router { flags | ROUTER } else { flags };
        let ends = [(mac, self.target), destination];
        Frame::new(ends, ADVERTISEMENT, flags, self.target, (TARGET_ADDRESS, mac))
    }
}

/// What is told of an address (RFC 4861 §4.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Advertisement {
    /// The address.
    pub target: Ipv6Addr,
    /// The Ethernet address that has it; `None` where a question to one machine made it plain.
    pub mac: Option<Mac>,
    /// It is a router's.
    pub is_router: bool,
    /// It was asked for.
    pub is_solicited: bool,
    /// It counts more than what was known before.
    pub overrides: bool,
}

/// What a packet may have its receivers believe of somebody's address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claim {
    /// Nothing.
    Nothing,
    /// That this address is at that Ethernet address; at the frame's own source if it names none.
    Of(Ipv6Addr, Option<Mac>),
    /// It may be a claim, but cannot be read.
    Unreadable,
}

/// What an IPv6 packet claims by an advertisement (RFC 4861 §4.4) or a redirect (§4.5). Checksums
/// are not verified, and extension headers hide nothing. All of the packet must be at hand.
pub fn claim(packet: &[u8]) -> Claim {
    let Ok((ip, _)) = ipv6::Header::ref_from_prefix(packet) else { return Claim::Unreadable };
    // No receiver believes what may have come from beyond the link (RFC 4861 §7.1.2, §8.1).
    if ip.hop_limit != HOP_LIMIT {
        return Claim::Nothing;
    }
    let Some(packet) = ipv6::Packet::parse(packet) else { return Claim::Unreadable };
    let kind = packet
        .payload
        .first()
        .filter(|_| packet.protocol == protocol::ICMPV6 && packet.fragment != Fragment::Later);
    let behind_target = match kind {
        Some(&ADVERTISEMENT) => 0,
        // The address that packets are redirected for.
        Some(&REDIRECT) => size_of::<Ipv6Addr>(),
        _ => return Claim::Nothing,
    };
    let Ok((header, rest)) = Header::ref_from_prefix(packet.payload) else {
        return Claim::Unreadable;
    };
    let options = rest.get(behind_target..).unwrap_or_default();
    Claim::Of(header.target.into(), link_address(options, TARGET_ADDRESS).flatten())
}

impl Advertisement {
    /// What a frame tells; `None` if that is nothing of the kind or is not valid (RFC 4861 §7.1.2).
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let message = Message::parse(frame, ADVERTISEMENT, TARGET_ADDRESS)?;
        let flag = |flag| message.header.flags & flag != 0;
        let is_valid = !(message.destination.is_multicast() && flag(SOLICITED));
        is_valid.then_some(Self {
            target: message.header.target.into(),
            mac: message.address,
            is_router: flag(ROUTER),
            is_solicited: flag(SOLICITED),
            overrides: flag(OVERRIDE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const ASKS: (Mac, Ipv6Addr) = (Mac::local(1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
    const ASKED: (Mac, Ipv6Addr) =
        (Mac::local(2), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456));

    /// The frame with its message changed and, like its length, its checksum made right again.
    fn changed(frame: &Frame, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = frame.as_bytes().to_vec();
        change(&mut bytes);
        let len = bytes.len() - 54;
        bytes[18..20].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[56..58].fill(0);
        let sum = pseudo_header(&bytes[22..54], protocol::ICMPV6, len) + Sum::of(&bytes[54..]);
        bytes[56..58].copy_from_slice(&sum.checksum().to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(sender: u32, has: u32, addresses: [u64; 2], is_router: bool) {
            let [from, target] =
                addresses.map(|low| Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(low)));
            let asked = Solicitation { sender: (Mac::local(sender), from), target };
            let frame = Frame::solicitation(asked.sender, target);
            prop_assert_eq!(Solicitation::parse(frame.as_bytes()), Some(asked));
            prop_assert_eq!(Advertisement::parse(frame.as_bytes()), None);
            let mac = Mac::local(has);
            let told =
                Advertisement { target, mac: Some(mac), is_router, is_solicited: true, overrides: true };
            prop_assert_eq!(Advertisement::parse(asked.answer(mac, is_router).as_bytes()), Some(told));
        }

        #[test]
        fn what_is_damaged_is_none(at in 14usize..86, bit in 0u8..8) {
            let mut bytes = Frame::solicitation(ASKS, ASKED.1).as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            // The flow label and traffic class mean nothing, and are in no checksum.
            prop_assert!(Solicitation::parse(&bytes).is_none() || at < 18);
            prop_assert!(Solicitation::parse(&bytes[..at]).is_none());
        }
    }

    #[test]
    fn a_claim_is_seen_behind_extensions() {
        let asked = Solicitation { sender: ASKS, target: ASKED.1 };
        let told = asked.answer(ASKED.0, false);
        let packet = &told.as_bytes()[14..];
        let claimed = Claim::Of(ASKED.1, Some(ASKED.0));
        assert_eq!(claim(packet), claimed);
        assert_eq!(claim(&Frame::solicitation(ASKS, ASKED.1).as_bytes()[14..]), Claim::Nothing);
        let behind = |extensions: &[[u8; 8]]| {
            let mut hidden = packet.to_vec();
            hidden.splice(40..40, extensions.as_flattened().iter().copied());
            (hidden[6], hidden[5]) = (60, hidden[5] + extensions.len() as u8 * 8);
            hidden
        };
        let (more, last) = ([60, 0, 1, 4, 0, 0, 0, 0], [protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(claim(&behind(&[more, last])), claimed);
        let mut too_many = behind(&[&[more; ipv6::MAX_EXTENSIONS][..], &[last]].concat());
        assert_eq!(claim(&too_many), Claim::Unreadable);
        too_many[7] -= 1;
        assert_eq!(claim(&too_many), Claim::Nothing, "it may be from beyond the link");
        for cut in 0..packet.len() {
            assert_ne!(claim(&packet[..cut]), claimed);
        }
    }

    #[test]
    fn a_question_goes_to_the_group_of_its_target() {
        let frame = Frame::solicitation(ASKS, ASKED.1);
        assert_eq!(frame.ethernet.destination, [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let group: Ipv6Addr = "ff02::1:ff12:3456".parse().unwrap();
        assert_eq!((Ipv6Addr::from(frame.ip.destination), frame.ip.hop_limit), (group, 255));
        let message = [&[135, 0][..], frame.header.checksum.as_bytes(), &[0; 4]].concat();
        assert_eq!(frame.as_bytes()[54..62], message);
        assert_eq!(frame.as_bytes()[78..], [1, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_probe_is_answered_to_everyone() {
        let frame = Frame::solicitation((ASKS.0, Ipv6Addr::UNSPECIFIED), ASKED.1);
        assert!(Solicitation::parse(frame.as_bytes()).is_none(), "a probe gives no address");
        let probe = changed(&frame, |bytes| bytes.truncate(78));
        let probe = Solicitation::parse(&probe).unwrap();
        let answer = probe.answer(ASKED.0, true);
        assert_eq!(answer.ethernet.destination, [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(Ipv6Addr::from(answer.ip.destination), ALL_NODES);
        let told = Advertisement::parse(answer.as_bytes()).unwrap();
        assert_eq!((told.is_solicited, told.is_router), (false, true));
    }

    #[test]
    fn options_are_walked_and_those_of_others_passed_over() {
        let frame = Frame::solicitation(ASKS, ASKED.1);
        let with = |options: &[u8]| {
            let bytes = changed(&frame, |bytes| {
                bytes.truncate(78);
                bytes.extend(options);
            });
            Solicitation::parse(&bytes).map(|asked| asked.sender.0)
        };
        let nonce = [14, 1, 0, 0, 0, 0, 0, 0];
        let address = [1, 1, 2, 0, 0, 0, 0, 9];
        assert_eq!(with(&[nonce, address].concat()), Some(Mac::local(9)));
        assert_eq!(with(&nonce), Some(ASKS.0), "the frame's own address");
        assert_eq!(
            with(&[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Some(ASKS.0),
            "another link's"
        );
        assert_eq!(with(&[14, 0, 0, 0, 0, 0, 0, 0]), None, "no length");
        assert_eq!(with(&address[..6]), None, "cut short");
        assert_eq!(with(&[14]), None, "cut shorter");
        assert_eq!(with(&[1, 1, 3, 0, 0, 0, 0, 9]), None, "a group");
    }

    #[test]
    fn what_is_not_valid_is_none() {
        let asked = Frame::solicitation(ASKS, ASKED.1);
        let told = Solicitation { sender: ASKS, target: ASKED.1 }.answer(ASKED.0, false);
        let parses = |frame: &Frame, at: usize, byte| {
            let bytes = changed(frame, |bytes| bytes[at] = byte);
            Solicitation::parse(&bytes).is_some() || Advertisement::parse(&bytes).is_some()
        };
        for frame in [&asked, &told] {
            assert!(parses(frame, 21, 255));
            assert!(!parses(frame, 21, 254), "from beyond the link");
            assert!(!parses(frame, 20, 59), "another protocol");
            assert!(!parses(frame, 13, 0), "another EtherType");
            assert!(!parses(frame, 55, 1), "another code");
            assert!(!parses(frame, 62, 0xff), "the target is a group");
        }
        assert!(!parses(&asked, 22, 0xff), "a group asks");
        assert!(!parses(&told, 38, 0xff), "an answer that everyone asked for");
    }
}

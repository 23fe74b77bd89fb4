//! What a frame says, as rules and connections ask for it.

use core::net::{IpAddr, Ipv6Addr};

use units::{Mac, hash};
use wire::ip::{Fragment, Layout, Version, protocol};
use wire::{ethernet, ipv4, ipv6, tcp};
use zerocopy::FromBytes;

/// The two ends of a flow. ICMP's questions have their identifier in place of both ports.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tuple {
    /// What the packet carries (IANA's number).
    pub protocol: u8,
    /// Who sends it.
    pub source: (IpAddr, u16),
    /// Who gets it.
    pub destination: (IpAddr, u16),
}

impl Tuple {
    /// The other way.
    pub const fn reversed(self) -> Self {
        Self { protocol: self.protocol, source: self.destination, destination: self.source }
    }
}

/// A number of an address, to choose by: the same wherever it is asked.
pub fn address_hash(address: IpAddr) -> u64 {
    hash::splitmix64(hash::fnv1a_64(&octets(address)))
}

/// A number of a flow, to choose by: the same wherever it is asked.
pub fn flow_hash(tuple: Tuple) -> u64 {
    let Tuple { protocol, source, destination } = tuple;
    let mut bytes = [0; 37];
    bytes[..16].copy_from_slice(&octets(source.0));
    bytes[16..32].copy_from_slice(&octets(destination.0));
    bytes[32..34].copy_from_slice(&source.1.to_be_bytes());
    bytes[34..36].copy_from_slice(&destination.1.to_be_bytes());
    bytes[36] = protocol;
    hash::splitmix64(hash::fnv1a_64(&bytes))
}

/// An address, IPv4's mapped into IPv6.
const fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
        IpAddr::V6(it) => it.octets(),
    }
}

/// An ICMP message, as far as anything depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Icmp {
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The flow of the packet that it quotes, if it is an error that quotes one.
    pub quoted: Option<Tuple>,
    /// Whether what it quotes is itself an answer to an echo request.
    pub quotes_answer: bool,
}

/// The bytes of its packet that a fragment brings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// The first one's place.
    pub from: usize,
    /// The place behind the last one.
    pub end: usize,
    /// Whether no more come behind.
    pub is_last: bool,
}

/// An IP packet's fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ip {
    /// Where its parts lie in the frame.
    pub layout: Layout,
    /// Its ends. A later fragment has no ports: they are 0.
    pub tuple: Tuple,
    /// How many more routers it may pass.
    pub ttl: u8,
    /// Of a fragment, which packet it is of.
    pub identification: u32,
    /// Of a fragment, what it brings of that.
    pub piece: Option<Piece>,
    /// Whether no router may cut it.
    pub dont_fragment: bool,
    /// The ICMP message that it is.
    pub icmp: Option<Icmp>,
    /// The TCP header that it has.
    pub tcp: Option<tcp::Header>,
}

impl Ip {
    /// How long the packet is, in bytes, without Ethernet's header.
    pub const fn length(&self) -> usize {
        self.layout.end - self.layout.network
    }

    /// Whether it is an error about another packet (RFC 792; RFC 4443 §2.1).
    pub const fn is_error(&self) -> bool {
        match (self.layout.version, self.icmp) {
            (Version::V4, Some(icmp)) => matches!(icmp.kind, 3 | 4 | 5 | 11 | 12),
            (Version::V6, Some(icmp)) => icmp.kind < 128,
            _ => false,
        }
    }

    /// Whether it can be the first packet of a connection.
    pub fn begins(&self) -> bool {
        let echo = match self.layout.version {
            Version::V4 => 8,
            Version::V6 => 128,
        };
        match (self.tcp, self.icmp) {
            (Some(tcp), _) => {
                let kinds = tcp::Flags::SYN | tcp::Flags::ACK | tcp::Flags::RST | tcp::Flags::FIN;
                tcp.flags.0 & kinds.0 == tcp::Flags::SYN.0
            }
            (_, Some(icmp)) => icmp.kind == echo,
            _ => true,
        }
    }
}

/// A frame's fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fields {
    /// Who sends it.
    pub source: Mac,
    /// Who gets it.
    pub destination: Mac,
    /// What it carries.
    pub ethertype: u16,
    /// The packet, if it is IP.
    pub ip: Option<Ip>,
}

impl Fields {
    /// Reads a frame without tags. `None` if it is too short, or says that it carries IP and does
    /// not.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (header, _) = ethernet::Header::parse(frame)?;
        let ethertype = header.ethertype.get();
        let is_ip = matches!(ethertype, ethernet::ethertype::IPV4 | ethernet::ethertype::IPV6);
        let ip = if is_ip { Some(ip(frame)?) } else { None };
        Some(Self {
            source: Mac(header.source),
            destination: Mac(header.destination),
            ethertype,
            ip,
        })
    }

    /// Whether it goes from one to another one, by its Ethernet addresses and its IP addresses: no
    /// connection is kept of anything else.
    pub fn is_unicast(&self) -> bool {
        let is_one = |address: IpAddr| match address {
            IpAddr::V4(it) => !it.is_multicast() && !it.is_broadcast() && it.octets()[0] != 0,
            IpAddr::V6(it) => {
                !it.is_multicast() && !it.is_unspecified() && it.to_ipv4_mapped().is_none()
            }
        };
        let ends = self.ip.map(|ip| [ip.tuple.source.0, ip.tuple.destination.0]);
        let are_two = |ends: [IpAddr; 2]| ends[0] != ends[1] && ends.into_iter().all(is_one);
        !self.destination.is_multicast() && ends.is_some_and(are_two)
    }

    /// Whether it is what makes the network work: ARP, neighbour discovery, group membership, and
    /// machines' questions for addresses. Defaults do not speak of it.
    pub fn is_control(&self) -> bool {
        let Some(ip) = self.ip else { return self.ethertype == ethernet::ethertype::ARP };
        let (from, to) = (ip.tuple.source.1, ip.tuple.destination.1);
        match (ip.layout.version, ip.tuple.protocol) {
            (_, protocol::IGMP) => true,
            (Version::V6, protocol::ICMPV6) => {
                ip.icmp.is_some_and(|it| matches!(it.kind, 130..=137 | 143))
            }
            (Version::V4, protocol::UDP) => (from, to) == (68, 67),
            (Version::V6, protocol::UDP) => (from, to) == (546, 547),
            _ => false,
        }
    }
}

/// An address as people write it: IPv4's are mapped where layouts tell them.
pub fn address(version: Version, mapped: Ipv6Addr) -> IpAddr {
    match version {
        Version::V4 => mapped.to_ipv4_mapped().map_or(mapped.into(), IpAddr::V4),
        Version::V6 => mapped.into(),
    }
}

fn ip(frame: &[u8]) -> Option<Ip> {
    let layout = Layout::of(frame)?;
    let (source, destination) = layout.addresses(frame);
    let (source, destination) =
        (address(layout.version, source), address(layout.version, destination));
    let packet = frame.get(layout.network..layout.end)?;
    let (ttl, part, dont_fragment) = match layout.version {
        Version::V4 => {
            let (header, _) = ipv4::Header::ref_from_prefix(packet).ok()?;
            (header.ttl, Some(header.part()), header.dont_fragment())
        }
        Version::V6 => {
            let packet = ipv6::Packet::parse(packet)?;
            (packet.header.hop_limit, packet.part(), true)
        }
    };
    let body = frame.get(layout.transport..layout.end)?;
    let is_here = layout.fragment != Fragment::Later;
    let from = if is_here { 0 } else { offset(frame, &layout)? };
    if !is_here && layout.protocol == protocol::TCP && from < tcp::Header::LEN {
        return None;
    }
    let identification = part.map_or(0, |part| part.identification);
    let piece = (layout.fragment != Fragment::Whole).then(|| Piece {
        from,
        end: from + body.len(),
        is_last: part.is_none_or(|part| part.last),
    });
    let (ports, icmp) = match is_here {
        true => transport(layout.version, layout.protocol, body)?,
        false => ((0, 0), None),
    };
    let tcp = match layout.protocol {
        protocol::TCP if is_here => {
            let (header, _) = tcp::Header::ref_from_prefix(body).ok()?;
            let whole = layout.fragment != Fragment::Whole || tcp::Segment::parse(body).is_some();
            Some(*header).filter(|_| whole).map(Some)?
        }
        _ => None,
    };
    let tuple = Tuple {
        protocol: layout.protocol,
        source: (source, ports.0),
        destination: (destination, ports.1),
    };
    Some(Ip { layout, tuple, ttl, identification, piece, dont_fragment, icmp, tcp })
}

/// Where a later fragment's bytes lie in its packet. One that lies over the header of TCP would
/// have a receiver see other flags than the first fragment showed (RFC 1858 §4).
fn offset(frame: &[u8], layout: &Layout) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?)));
    Some(match layout.version {
        Version::V4 => (word(layout.network + 6)? & 0x1fff) * 8,
        // The fragment's header is the last before what it carries.
        Version::V6 => word(layout.transport.checked_sub(6)?)? & !7,
    })
}

/// The ports, or what stands for them, and the ICMP message. `None` if the header is cut short.
fn transport(version: Version, carried: u8, body: &[u8]) -> Option<((u16, u16), Option<Icmp>)> {
    let word = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    let is_icmp = matches!(
        (version, carried),
        (Version::V4, protocol::ICMP) | (Version::V6, protocol::ICMPV6)
    );
    Some(match carried {
        protocol::TCP | protocol::UDP | 132 => {
            // A first fragment with less than eight bytes tells too little to decide by.
            body.get(..8)?;
            ((word(0)?, word(2)?), None)
        }
        _ if is_icmp => {
            let [kind, code, ..] = *body.get(..8)?.as_array::<8>()?;
            let is_echo = match version {
                Version::V4 => matches!(kind, 0 | 8),
                Version::V6 => matches!(kind, 128 | 129),
            };
            let id = if is_echo { word(4)? } else { 0 };
            let is_error = match version {
                Version::V4 => matches!(kind, 3 | 4 | 5 | 11 | 12),
                Version::V6 => kind < 128,
            };
            let quoted = if is_error { quoted(version, &body[8..]) } else { None };
            let quotes_answer = quoted.is_some_and(|(_, kind)| matches!(kind, Some(0 | 129)));
            let quoted = quoted.map(|(tuple, _)| tuple);
            ((id, id), Some(Icmp { kind, code, quoted, quotes_answer }))
        }
        _ => ((0, 0), None),
    })
}

/// Where a quoted packet's transport header begins, and what it is. Its lengths may lie, and its
/// end may be missing, so only what is there is looked at.
pub fn quoted_layout(version: Version, quote: &[u8]) -> Option<(usize, u8)> {
    match version {
        Version::V4 => {
            let (header, _) = ipv4::Header::ref_from_prefix(quote).ok()?;
            let is_first = header.offset() == 0 && quote.first().is_some_and(|it| it >> 4 == 4);
            (is_first && header.len() >= ipv4::Header::LEN)
                .then_some((header.len(), header.protocol))
        }
        Version::V6 => {
            let (header, _) = ipv6::Header::ref_from_prefix(quote).ok()?;
            Some((ipv6::Header::LEN, header.next_header))
        }
    }
}

/// The flow of a quoted packet, and its ICMP type if it is that.
fn quoted(version: Version, quote: &[u8]) -> Option<(Tuple, Option<u8>)> {
    let (at, carried) = quoted_layout(version, quote)?;
    let (source, destination): (IpAddr, IpAddr) = match version {
        Version::V4 => {
            let (header, _) = ipv4::Header::ref_from_prefix(quote).ok()?;
            (IpAddr::from(header.source), IpAddr::from(header.destination))
        }
        Version::V6 => {
            let (header, _) = ipv6::Header::ref_from_prefix(quote).ok()?;
            (IpAddr::from(header.source), IpAddr::from(header.destination))
        }
    };
    let body = quote.get(at..at.checked_add(8)?)?;
    let (ports, icmp) = transport(version, carried, body)?;
    let tuple =
        Tuple { protocol: carried, source: (source, ports.0), destination: (destination, ports.1) };
    Some((tuple, icmp.map(|it| it.kind)))
}

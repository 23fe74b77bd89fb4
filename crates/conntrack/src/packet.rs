//! What a packet says, as far as connections depend on it.

use wire::ip::{Fragment, Layout, Version, protocol};
use wire::tcp::{self, Flags, options};
use wire::{ipv4, ipv6};
use zerocopy::FromBytes;

use crate::tuple::{self, Tuple};

/// SCTP's number (RFC 9260). Its ports lie where UDP's do.
const SCTP: u8 = 132;

/// A packet, as far as connections depend on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet {
    /// Its ends. Of an ICMP error: those of packets that go as the error does, of the flow that it
    /// is about.
    pub tuple: Tuple,
    /// What it is to a connection.
    pub kind: Kind,
}

/// What a packet is to a connection.
// With a tag of its own: one in a niche of the segment takes more to read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment.
    Tcp(Segment),
    /// UDP, or another protocol without connections of its own that we know.
    Datagram,
    /// An echo request.
    Ask,
    /// An echo reply.
    Answer,
    /// A later fragment: whose it is is told by its packet's first.
    Part,
    /// An ICMP error about a packet of the flow.
    Error,
    /// An ICMP error that quotes too little, or goes to somebody else than who sent what it quotes.
    Stray,
    /// What keeps no connection: neighbour discovery, group membership, questions for addresses,
    /// what is for many.
    Other,
}

/// A TCP segment's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The number of its first byte.
    pub sequence: u32,
    /// The number that its sender expects next.
    pub acknowledgment: u32,
    /// Its data, in bytes.
    pub len: u32,
    /// How much its sender takes, unscaled.
    pub window: u16,
    /// Its control bits.
    pub flags: Flags,
    /// By how many bits windows of its sender are to be shifted (RFC 7323 §2), where it begins a
    /// connection.
    pub scale: Option<u8>,
    /// Whether there is more of it in other fragments.
    pub is_part: bool,
}

impl Segment {
    /// How many sequence numbers it uses up.
    #[inline]
    pub(crate) const fn counts(&self) -> u32 {
        let syn = self.flags.contains(Flags::SYN) as u32;
        let fin = self.flags.contains(Flags::FIN) as u32;
        self.len + syn + fin
    }

    /// The number behind its last.
    #[inline]
    pub(crate) const fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.counts())
    }
}

impl Packet {
    /// Reads a frame, behind at most two VLAN tags. `None` if it carries no IP, or says what cannot
    /// be.
    pub fn of(frame: &[u8]) -> Option<Self> {
        Self::read(frame, &Layout::of(frame)?)
    }

    /// Reads the packet of a frame whose parts are known. `head`: the frame, or as much of it as
    /// has all headers.
    #[inline]
    pub fn read(head: &[u8], layout: &Layout) -> Option<Self> {
        let end = layout.end.min(head.len());
        let body = head.get(layout.transport..end)?;
        let (carried, is_later) = (layout.protocol, layout.fragment == Fragment::Later);
        let (ports, kind) = match carried {
            _ if is_later => (0, Kind::Part),
            protocol::TCP => segment(body, layout)?,
            protocol::UDP | SCTP => {
                let ports = both_ports(body)?;
                let is_setup = carried == protocol::UDP && asks_for_address(layout.version, ports);
                (ports, if is_setup { Kind::Other } else { Kind::Datagram })
            }
            protocol::ICMP if layout.version == Version::V4 => icmp(body, 8, 0)?,
            protocol::ICMPV6 if layout.version == Version::V6 => icmp(body, 128, 129)?,
            protocol::IGMP => (0, Kind::Other),
            _ => (0, Kind::Datagram),
        };
        let tuple = match layout.version {
            Version::V4 => {
                let (header, _) =
                    ipv4::Header::ref_from_prefix(head.get(layout.network..)?).ok()?;
                Tuple::of_v4(carried, header.source, header.destination, ports)
            }
            Version::V6 => {
                let (header, _) =
                    ipv6::Header::ref_from_prefix(head.get(layout.network..)?).ok()?;
                Tuple::of_v6(carried, header.source, header.destination, ports)
            }
        };
        let kind = match is_for_one(head, layout) {
            true => kind,
            false => Kind::Other,
        };
        if kind != Kind::Error {
            return Some(Self { tuple, kind });
        }
        // An error goes back to who sent what it quotes: as replies do.
        let about = body.get(8..).and_then(|quote| quoted(layout.version, quote));
        let about = about.map(|it| it.reversed());
        Some(match about.filter(|it| it.ends_at(&tuple)) {
            Some(about) => Self { tuple: about, kind },
            None => Self { tuple, kind: Kind::Stray },
        })
    }

    /// A later fragment of a packet with these ends.
    pub const fn part_of(tuple: Tuple) -> Self {
        Self { tuple, kind: Kind::Part }
    }

    /// Whether it can begin a connection.
    #[inline]
    pub fn begins(&self) -> bool {
        match &self.kind {
            Kind::Tcp(segment) => is_first(segment.flags),
            Kind::Part => self.tuple.protocol() != protocol::TCP,
            Kind::Datagram | Kind::Ask => true,
            Kind::Answer | Kind::Error | Kind::Stray | Kind::Other => false,
        }
    }
}

/// Whether a segment with these flags asks for a connection.
#[inline]
pub const fn is_first(flags: Flags) -> bool {
    let kinds = Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0 | Flags::FIN.0;
    flags.0 & kinds == Flags::SYN.0
}

#[inline]
fn both_ports(body: &[u8]) -> Option<u32> {
    // A first fragment with less than eight bytes tells too little to decide by (RFC 1858 §3).
    let [a, b, c, d, ..] = *body.first_chunk::<8>()?;
    Some(u32::from_be_bytes([a, b, c, d]))
}

/// DHCP's questions (RFC 2131 §4.1, RFC 8415 §7.2).
const fn asks_for_address(version: Version, ports: u32) -> bool {
    match version {
        Version::V4 => ports == tuple::ports(68, 67),
        Version::V6 => ports == tuple::ports(546, 547),
    }
}

impl Kind {
    /// Reads the TCP segment of a frame whose parts are known.
    #[inline]
    pub fn segment(head: &[u8], layout: &Layout) -> Option<Self> {
        let body = head.get(layout.transport..layout.end.min(head.len()))?;
        segment(body, layout).map(|(_, kind)| kind)
    }
}

#[inline]
fn segment(body: &[u8], layout: &Layout) -> Option<(u32, Kind)> {
    let (header, _) = tcp::Header::ref_from_prefix(body).ok()?;
    let len = (layout.end - layout.transport).checked_sub(header.len())?;
    let options = body.get(tcp::Header::LEN..header.len())?;
    let scale = match header.flags.contains(Flags::SYN) {
        true => options::parse(options).find_map(|it| match it {
            options::Choice::WindowScale(bits) => Some(bits),
            _ => None,
        }),
        false => None,
    };
    let segment = Segment {
        sequence: header.sequence.get(),
        acknowledgment: header.acknowledgment.get(),
        len: len as u32, // an IP packet is shorter than 2^17
        window: header.window.get(),
        flags: header.flags,
        scale,
        is_part: layout.fragment != Fragment::Whole,
    };
    Some((tuple::ports(header.source.get(), header.destination.get()), Kind::Tcp(segment)))
}

/// A message of ICMP: `ask` and `answer` are its version's types of echo.
fn icmp(body: &[u8], ask: u8, answer: u8) -> Option<(u32, Kind)> {
    let [kind, .., high, low, _, _] = *body.first_chunk::<8>()?;
    let id = u16::from_be_bytes([high, low]);
    let is_error = match ask {
        8 => matches!(kind, 3 | 4 | 5 | 11 | 12), // RFC 792
        _ => kind < 128,                          // RFC 4443 §2.1
    };
    Some(match kind {
        _ if kind == ask => (tuple::ports(id, 0), Kind::Ask),
        _ if kind == answer => (tuple::ports(0, id), Kind::Answer),
        _ if is_error => (0, Kind::Error),
        _ => (0, Kind::Other),
    })
}

/// Whether both ends are one machine's each. An IPv6 packet with IPv4-mapped addresses belongs on
/// no wire (RFC 4942 §2.2), and would pass for an IPv4 one here.
#[inline]
fn is_for_one(head: &[u8], layout: &Layout) -> bool {
    let Some(addresses) = head.get(layout.address_range()) else { return false };
    match (layout.version, addresses) {
        // From nobody, 0.0.0.0/8; or for many, 224.0.0.0/4 and 255.255.255.255.
        (Version::V4, &[from, _, _, _, to, b, c, d]) => {
            !(from == 0 || from >> 4 == 14 || to >> 4 == 14 || [to, b, c, d] == [255; 4])
        }
        (Version::V6, addresses) => {
            let Some((from, to)) = addresses.split_at_checked(16) else { return false };
            let is_odd = |it: &[u8]| it[0] == 0 && it[..10] == [0; 10] && it[10..12] == [0xff; 2];
            let is_nobody = from[0] == 0 && from == [0; 16];
            !(is_nobody || from[0] == 0xff || to[0] == 0xff || is_odd(from) || is_odd(to))
        }
        _ => false,
    }
}

/// The ends of a packet that an ICMP error quotes. Its lengths may lie, and its end may be missing,
/// so only what is there is looked at. `None` if it is a later fragment or an error itself.
fn quoted(version: Version, quote: &[u8]) -> Option<Tuple> {
    match version {
        Version::V4 => {
            let (header, _) = ipv4::Header::ref_from_prefix(quote).ok()?;
            let is_whole = header.offset() == 0 && header.len() >= ipv4::Header::LEN;
            let is_it = is_whole && quote.first().is_some_and(|it| it >> 4 == 4);
            let body = quote.get(header.len()..).filter(|_| is_it)?;
            let ports = quoted_ports(header.protocol, protocol::ICMP, [8, 0], body)?;
            Some(Tuple::of_v4(header.protocol, header.source, header.destination, ports))
        }
        Version::V6 => {
            let (header, body) = ipv6::Header::ref_from_prefix(quote).ok()?;
            let carried = header.next_header;
            let ports = quoted_ports(carried, protocol::ICMPV6, [128, 129], body)?;
            Some(Tuple::of_v6(carried, header.source, header.destination, ports))
        }
    }
}

fn quoted_ports(carried: u8, icmp: u8, [ask, answer]: [u8; 2], body: &[u8]) -> Option<u32> {
    if !matches!(carried, protocol::TCP | protocol::UDP | SCTP) && carried != icmp {
        return Some(0);
    }
    let [kind, .., high, low, _, _] = *body.first_chunk::<8>()?;
    if carried != icmp {
        return both_ports(body);
    }
    let id = u16::from_be_bytes([high, low]);
    match kind {
        _ if kind == ask => Some(tuple::ports(id, 0)),
        _ if kind == answer => Some(tuple::ports(0, id)),
        _ => None,
    }
}

//! Parses received packets and finds their frames.

use core::net::Ipv6Addr;
use core::ops::Range;

use wire::checksum::Sum;
use wire::ecn::{Alarm, Ecn};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::{Fragment, Version, protocol};
use wire::{Layout, Offload, PartialChecksum, geneve, gre, stt, tcp, udp, vxlan};

use super::{Checksum, Encapsulation, Vni, Vteps};
use crate::message::{Message, OPTION_CLASS, PART};

/// A packet of a tunnel. Whether this host has such a tunnel is for the caller to check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received<'a> {
    /// How the frame is carried.
    pub encapsulation: Encapsulation,
    /// The addresses of both ends. The local end is the packet's destination.
    pub vteps: Vteps,
    /// Its virtual network.
    pub vni: Vni,
    /// Geneve's options; empty for other encapsulations.
    pub options: geneve::Options<'a>,
    /// Whether it is a control packet for this end (Geneve's O bit). It carries no frame to
    /// forward.
    pub is_control: bool,
    /// Whether it carries a part of a frame. The fields about frames do not apply to parts.
    pub is_part: bool,
    /// The range of the frame, or of a control packet's payload, in the received bytes.
    pub frame: Range<usize>,
    /// The frame's VLAN tag that STT carries in its own header.
    pub tag: Option<Tag>,
    /// The offloads that remain to be done: what STT says, and a checksum that a kernel left to the
    /// receiver without saying so ([`PartialChecksum::left_in`]).
    pub offload: Offload,
    /// The outer packet's traffic class, with the fabric's congestion mark ([`Ecn::of`]).
    pub traffic_class: u8,
    /// The traffic class to set in the inner packet ([`Layout::set_traffic_class`]); `None` to
    /// leave it.
    pub remark: Option<u8>,
    /// The ECN fields of the outer and inner packet form a combination that no correct network
    /// makes (RFC 6040 §4.2).
    pub alarm: Option<Alarm>,
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Refusal {
    /// It is not an IP packet, or is malformed.
    NotIp,
    /// It is a fragment. Tunnels do not fragment (RFC 7348 §4.3, RFC 7637 §4.4): the underlay's MTU
    /// is known.
    Fragment,
    /// Its port or protocol is not a tunnel's.
    UnknownProtocol,
    /// A checksum is wrong.
    BadChecksum,
    /// It has no checksum although it came over IPv6 (RFC 8200 §8.1).
    MissingChecksum,
    /// The tunnel header is truncated, has an unknown version, or contradicts itself.
    Malformed,
    /// It does not carry an Ethernet frame.
    NotEthernet,
    /// The header has no VNI, or an invalid one.
    InvalidVni,
    /// It has an unknown critical option (RFC 8926 §3.5).
    CriticalOption,
    /// It is an STT segment of a larger frame; [`stt::Reassembly`] joins those.
    Segment,
    /// The frame is shorter than an Ethernet header.
    Runt,
    /// The fabric marked it, and the inner packet does not support ECN (RFC 6040 §4.2).
    Congested,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::NotIp,
        Self::Fragment,
        Self::UnknownProtocol,
        Self::BadChecksum,
        Self::MissingChecksum,
        Self::Malformed,
        Self::NotEthernet,
        Self::InvalidVni,
        Self::CriticalOption,
        Self::Segment,
        Self::Runt,
        Self::Congested,
    ];

    /// Its name in statuses and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::Fragment => "fragment",
            Self::UnknownProtocol => "unknown_protocol",
            Self::BadChecksum => "bad_checksum",
            Self::MissingChecksum => "missing_checksum",
            Self::Malformed => "malformed",
            Self::NotEthernet => "not_ethernet",
            Self::InvalidVni => "invalid_vni",
            Self::CriticalOption => "critical_option",
            Self::Segment => "segment",
            Self::Runt => "runt",
            Self::Congested => "congested",
        }
    }
}

/// A parsed tunnel header, and the frame behind it.
struct Shim<'a> {
    encapsulation: Encapsulation,
    vni: Option<u32>,
    options: geneve::Options<'a>,
    is_control: bool,
    is_part: bool,
    tag: Option<Tag>,
    offload: Offload,
    frame: &'a [u8],
}

impl<'a> Shim<'a> {
    fn new(encapsulation: Encapsulation, vni: Option<u32>, frame: &'a [u8]) -> Self {
        let (options, offload) = (geneve::Options::default(), Offload::NONE);
        Self {
            encapsulation,
            vni,
            options,
            is_control: false,
            is_part: false,
            tag: None,
            offload,
            frame,
        }
    }
}

impl<'a> Received<'a> {
    /// Parses a packet from its Ethernet header on. `over_ipv6` says whether datagrams over IPv6
    /// need a checksum. A checksum that is present is always verified.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn parse(bytes: &'a [u8], over_ipv6: Checksum) -> Result<Self, Refusal> {
        let layout = Layout::of(bytes).ok_or(Refusal::NotIp)?;
        let traffic_class = layout.traffic_class(bytes).ok_or(Refusal::NotIp)?;
        if layout.version == Version::V4
            && Sum::of(&bytes[layout.network..layout.transport]).checksum() != 0
        {
            return Err(Refusal::BadChecksum);
        }
        if layout.fragment != Fragment::Whole {
            return Err(Refusal::Fragment);
        }
        let payload = &bytes[layout.transport..layout.end];
        let sum = |segment: &[u8]| layout.pseudo_header(bytes, segment.len()) + Sum::of(segment);
        let (shim, end) = match layout.protocol {
            protocol::UDP => {
                let (header, behind) = udp::Header::parse(payload).ok_or(Refusal::Malformed)?;
                let datagram = &payload[..udp::Header::LEN + behind.len()];
                let read = match header.destination.get() {
                    geneve::PORT => geneve,
                    vxlan::PORT => vxlan,
                    _ => return Err(Refusal::UnknownProtocol),
                };
                let needs_checksum =
                    layout.version == Version::V6 && over_ipv6 == Checksum::Computed;
                match header.checksum.get() {
                    0 if needs_checksum => return Err(Refusal::MissingChecksum),
                    0 => {}
                    _ if sum(datagram).checksum() != 0 => return Err(Refusal::BadChecksum),
                    _ => {}
                }
                (read(behind)?, layout.transport + datagram.len())
            }
            protocol::TCP => {
                let segment = tcp::Segment::parse(payload).ok_or(Refusal::Malformed)?;
                if segment.header.destination.get() != stt::PORT {
                    return Err(Refusal::UnknownProtocol);
                }
                if sum(payload).checksum() != 0 {
                    return Err(Refusal::BadChecksum);
                }
                let segment = stt::Segment::parse(&segment).ok_or(Refusal::Malformed)?;
                if !segment.is_whole() {
                    return Err(Refusal::Segment);
                }
                (stt(segment.payload)?, layout.end)
            }
            protocol::GRE => (nvgre(payload)?, layout.end),
            _ => return Err(Refusal::UnknownProtocol),
        };
        Self::of(shim, vteps(&layout, bytes), traffic_class, end)
    }

    /// Parses a payload whose outer headers were removed: a Geneve or VXLAN datagram's payload, a
    /// GRE packet behind the IP header, or an STT frame with its header, joined from its
    /// [segments](segment). The range of the frame is relative to the payload.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn of_datagram(
        encapsulation: Encapsulation,
        vteps: Vteps,
        traffic_class: u8,
        payload: &'a [u8],
    ) -> Result<Self, Refusal> {
        let shim = match encapsulation {
            Encapsulation::Geneve => geneve(payload)?,
            Encapsulation::Vxlan => vxlan(payload)?,
            Encapsulation::Nvgre => nvgre(payload)?,
            Encapsulation::Stt => stt(payload)?,
        };
        Self::of(shim, vteps, traffic_class, payload.len())
    }

    /// Completes a packet whose frame ends at `end`.
    fn of(shim: Shim<'a>, vteps: Vteps, traffic_class: u8, end: usize) -> Result<Self, Refusal> {
        let vni = shim.vni.and_then(Vni::new).ok_or(Refusal::InvalidVni)?;
        let is_frame = !shim.is_control && !shim.is_part;
        if is_frame && shim.frame.len() < ethernet::Header::LEN {
            return Err(Refusal::Runt);
        }
        let is_sessions = || shim.options.clone().any(|option| option.class == OPTION_CLASS);
        let inner = if is_frame { Layout::of(shim.frame) } else { None };
        let marked = inner.map(|inner| mark(&inner, shim.frame, Ecn::of(traffic_class)));
        let (remark, alarm) = match marked {
            None => (None, None),
            // Packets of a session are exempt: the session reacts to marks itself.
            Some(Err(Refusal::Congested)) if is_sessions() => (None, None),
            Some(marked) => marked?,
        };
        // A session, and STT, say themselves what is left to do.
        let is_silent = shim.encapsulation != Encapsulation::Stt && !is_sessions();
        let left = inner.filter(|_| is_silent);
        let checksum = left.and_then(|inner| PartialChecksum::left_in(shim.frame, &inner));
        let Shim { encapsulation, options, is_control, is_part, tag, offload, .. } = shim;
        let offload = Offload { checksum: checksum.or(offload.checksum), ..offload };
        let frame = end - shim.frame.len()..end;
        Ok(Self {
            encapsulation,
            vteps,
            vni,
            options,
            is_control,
            is_part,
            frame,
            tag,
            offload,
            traffic_class,
            remark,
            alarm,
        })
    }
}

/// Combines the inner packet's ECN field with the outer one. Returns the inner packet's new traffic
/// class, if it changes.
fn mark(layout: &Layout, frame: &[u8], outer: Ecn) -> Result<(Option<u8>, Option<Alarm>), Refusal> {
    let Some(inner) = layout.traffic_class(frame) else { return Ok((None, None)) };
    let verdict = Ecn::of(inner).inner(outer);
    let marked = verdict.ecn.ok_or(Refusal::Congested)?.within(inner);
    Ok(((marked != inner).then_some(marked), verdict.alarm))
}

fn vteps(layout: &Layout, bytes: &[u8]) -> Vteps {
    let (source, destination) = layout.addresses(bytes);
    let v4 = |address: Ipv6Addr| address.to_ipv4_mapped().expect("an IPv4 address is mapped");
    match layout.version {
        Version::V4 => Vteps::V4 { local: v4(destination), remote: v4(source) },
        Version::V6 => Vteps::V6 { local: destination, remote: source },
    }
}

fn geneve(bytes: &[u8]) -> Result<Shim<'_>, Refusal> {
    let packet = geneve::Packet::parse(bytes).ok_or(Refusal::Malformed)?;
    let is_known = |class, kind| class == OPTION_CLASS && Message::knows(kind);
    if packet.unknown_critical(is_known).is_some() {
        return Err(Refusal::CriticalOption);
    }
    let is_control = packet.header.is_control();
    let is_part = match packet.header.protocol.get() {
        _ if is_control => false,
        ethertype::BRIDGED => false,
        PART => true,
        _ => return Err(Refusal::NotEthernet),
    };
    let shim = Shim::new(Encapsulation::Geneve, Some(packet.header.vni()), packet.payload);
    Ok(Shim { options: packet.options, is_control, is_part, ..shim })
}

fn vxlan(bytes: &[u8]) -> Result<Shim<'_>, Refusal> {
    let (header, frame) = vxlan::Header::parse(bytes).ok_or(Refusal::Malformed)?;
    Ok(Shim::new(Encapsulation::Vxlan, header.vni(), frame))
}

/// Parses an STT segment behind the IP header of a packet between these two ends. The checksum is
/// not verified if it [`is_partial`]: then the kernel has joined the segment from others that it
/// verified, or the packet never left the host.
///
/// # Errors
///
/// [`Refusal`].
pub fn segment(vteps: Vteps, bytes: &[u8]) -> Result<stt::Segment<'_>, Refusal> {
    let tcp = tcp::Segment::parse(bytes).ok_or(Refusal::Malformed)?;
    if tcp.header.destination.get() != stt::PORT {
        return Err(Refusal::UnknownProtocol);
    }
    let sum = || vteps.pseudo_header(protocol::TCP, bytes.len()) + Sum::of(bytes);
    if !is_partial(vteps, bytes) && sum().checksum() != 0 {
        return Err(Refusal::BadChecksum);
    }
    stt::Segment::parse(&tcp).ok_or(Refusal::Malformed)
}

/// Whether the checksum of a segment covers the pseudo-header alone, because the sending network
/// card was to complete it (Linux: CHECKSUM_PARTIAL).
pub fn is_partial(vteps: Vteps, segment: &[u8]) -> bool {
    let sum = vteps.pseudo_header(protocol::TCP, segment.len());
    tcp::Segment::parse(segment).is_some_and(|tcp| tcp.header.checksum.get() == !sum.checksum())
}

fn stt(bytes: &[u8]) -> Result<Shim<'_>, Refusal> {
    let (header, frame) = stt::Header::parse(bytes).ok_or(Refusal::Malformed)?;
    let offload = header.offload(frame).map_err(|_| Refusal::Malformed)?;
    // By convention of both ends the lowest 24 bits are the VNI, and the others 0.
    let vni = u32::try_from(header.context.get()).ok();
    Ok(Shim { tag: header.tag(), offload, ..Shim::new(Encapsulation::Stt, vni, frame) })
}

fn nvgre(bytes: &[u8]) -> Result<Shim<'_>, Refusal> {
    let (header, frame) = gre::Header::parse(bytes).ok_or(Refusal::Malformed)?;
    if header.protocol != ethertype::BRIDGED {
        return Err(Refusal::NotEthernet);
    }
    let subnet = gre::VirtualSubnet::of(&header);
    Ok(Shim::new(Encapsulation::Nvgre, subnet.map(|subnet| subnet.vsid()), frame))
}

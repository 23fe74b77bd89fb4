//! Finding the frame in what has arrived.

use core::net::Ipv6Addr;
use core::ops::Range;

use wire::checksum::Sum;
use wire::ecn::{Alarm, Ecn};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::{Fragment, Version, protocol};
use wire::{Layout, Offload, geneve, gre, stt, tcp, udp, vxlan};

use super::{Checksum, Encapsulation, Vni, Vteps};
use crate::message::{Message, OPTION_CLASS, PART};

/// A packet of a tunnel. Whether there is such a tunnel here is its receiver's to know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received<'a> {
    /// How the frame is carried.
    pub encapsulation: Encapsulation,
    /// Between whom; the packet's destination is the local end.
    pub vteps: Vteps,
    /// Whose it is.
    pub vni: Vni,
    /// Geneve's options; of others, none.
    pub options: geneve::Options<'a>,
    /// It is from the far end itself, for this end itself (Geneve's O bit): there is no frame to
    /// forward.
    pub is_control: bool,
    /// It carries a part of a frame: all that is said of frames here is not said of it.
    pub is_part: bool,
    /// Where the frame lies in what has arrived, or what a control packet carries.
    pub frame: Range<usize>,
    /// A tag that the frame has besides those in its bytes (STT).
    pub tag: Option<Tag>,
    /// What is left to do for the frame (STT).
    pub offload: Offload,
    /// The outer packet's traffic class; [`Ecn::of`] it says what the fabric marked.
    pub traffic_class: u8,
    /// The traffic class that the inner packet is to go on with ([`Layout::set_traffic_class`]);
    /// `None`: it stays as it is.
    pub remark: Option<u8>,
    /// The two packets' ECN fields are not what a network makes of what a tunnel begins with (RFC
    /// 6040 §4.2).
    pub alarm: Option<Alarm>,
}

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Refusal {
    /// It is no IP packet, or a malformed one.
    NotIp,
    /// It is a fragment: no tunnel fragments (RFC 7348 §4.3, RFC 7637 §4.4), as the underlay's MTU
    /// is known.
    Fragment,
    /// It is for no tunnel's port, and of no tunnel's protocol.
    UnknownProtocol,
    /// A checksum is wrong.
    BadChecksum,
    /// It has no checksum, and would need one over IPv6 (RFC 8200 §8.1).
    MissingChecksum,
    /// The tunnel's header is cut short, of an unknown version, or contradicts itself.
    Malformed,
    /// It carries something else than a frame.
    NotEthernet,
    /// The header does not say whose it is, or says a number that no network has.
    InvalidVni,
    /// It has a critical option that is not known here (RFC 8926 §3.5).
    CriticalOption,
    /// It is a part of a frame, for [`stt::Reassembly`] to join.
    Segment,
    /// The frame is shorter than its header.
    Runt,
    /// The fabric marked it for congestion, and the packet in it cannot say so (RFC 6040 §4.2).
    Congested,
}

impl Refusal {
    /// All there are.
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

/// What the tunnel's header says.
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
    /// Reads what has arrived, from Ethernet's header on. `over_ipv6` says whether a datagram over
    /// IPv6 needs a checksum; one that is there has to be right in any case.
    ///
    /// # Errors
    ///
    /// It is not to be taken.
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

    /// Reads what a datagram to the port of Geneve or VXLAN carries, or what is in GRE's packet
    /// behind IP's header, of a packet with this traffic class between these two; or STT's header
    /// and the frame, of which all [segments](segment) have come. The frame's place is counted from
    /// the payload's first byte.
    ///
    /// # Errors
    ///
    /// It is not to be taken.
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

    /// A packet with this between Ethernet's header and its end.
    fn of(shim: Shim<'a>, vteps: Vteps, traffic_class: u8, end: usize) -> Result<Self, Refusal> {
        let vni = shim.vni.and_then(Vni::new).ok_or(Refusal::InvalidVni)?;
        let is_frame = !shim.is_control && !shim.is_part;
        if is_frame && shim.frame.len() < ethernet::Header::LEN {
            return Err(Refusal::Runt);
        }
        // A session reacts to marks itself, whatever the transport in it understands.
        let is_sessions = || shim.options.clone().any(|option| option.class == OPTION_CLASS);
        let (remark, alarm) = match is_frame.then(|| mark(shim.frame, Ecn::of(traffic_class))) {
            None => (None, None),
            Some(Err(Refusal::Congested)) if is_sessions() => (None, None),
            Some(marked) => marked?,
        };
        let Shim { encapsulation, options, is_control, is_part, tag, offload, .. } = shim;
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

/// What becomes of the traffic class of the packet in a frame, as it arrived with this outer field;
/// what carries no packet has nothing to say it in, and needs nothing said.
fn mark(frame: &[u8], outer: Ecn) -> Result<(Option<u8>, Option<Alarm>), Refusal> {
    let Some(inner) = Layout::of(frame).and_then(|layout| layout.traffic_class(frame)) else {
        return Ok((None, None));
    };
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

/// Reads the segment of STT that a packet between these two carries behind IP's header. A checksum
/// that [`is_partial`] is none to look at: the kernel has joined the segment of others with right
/// ones, or it was on no wire.
///
/// # Errors
///
/// It is not to be taken.
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

/// Whether the checksum of a segment between these two is the pseudo-header's sum alone, and left
/// to complete to whoever puts it on a wire (Linux: CHECKSUM_PARTIAL).
pub fn is_partial(vteps: Vteps, segment: &[u8]) -> bool {
    let sum = vteps.pseudo_header(protocol::TCP, segment.len());
    tcp::Segment::parse(segment).is_some_and(|tcp| tcp.header.checksum.get() == !sum.checksum())
}

fn stt(bytes: &[u8]) -> Result<Shim<'_>, Refusal> {
    let (header, frame) = stt::Header::parse(bytes).ok_or(Refusal::Malformed)?;
    let offload = header.offload(frame).map_err(|_| Refusal::Malformed)?;
    // The ends have agreed on it: the lowest 24 bits are the network, and the others are 0.
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

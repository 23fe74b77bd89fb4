//! Writes outer headers.

use units::Class;
use wire::checksum::{Sum, pseudo_header};
use wire::ecn::Ecn;
use wire::ethernet::{self, Tag, TagHeader, ethertype};
use wire::ip::{Version, protocol};
use wire::{Offload, flow, geneve, gre, ipv4, ipv6, stt, tcp, udp, vxlan};
use zerocopy::IntoBytes;

use super::{Checksum, Encapsulation, LONGEST, NVGRE_LEN, Tunnel, Vteps};

/// A frame to encapsulate.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// Its length in bytes.
    pub len: usize,
    /// The hash of its flow ([`wire::flow::hash`]).
    pub flow: u32,
    /// The traffic class of its packet; 0 if it carries no IP packet.
    pub traffic_class: u8,
    /// Its class, for the outer tag.
    pub class: Class,
    /// The Geneve header, if it has options or is a control packet's ([`Tunnel::geneve`]). `None`:
    /// a header without options.
    pub geneve: Option<&'a geneve::Draft>,
    /// STT's frame identifier, unique among recent frames between the same two ends
    /// ([`stt::Frame::new`]).
    pub id: u32,
}

/// Why headers cannot be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// The packet exceeds the underlay's MTU.
    #[error(
        "a packet of {len} bytes was not sent: the underlay carries {most}, so use an inner MTU that fits"
    )]
    TooLong {
        /// The outer packet's length in bytes.
        len: usize,
        /// The underlay's MTU in bytes.
        most: u16,
    },
    /// The Geneve header has another network's number, or the encapsulation is not Geneve.
    #[error(
        "a packet was not sent: its Geneve header is not of this tunnel, so make it by `Tunnel::geneve`"
    )]
    OtherHeader,
}

impl Tunnel {
    /// The Geneve header of this tunnel's frames. Options can be added to it.
    pub const fn geneve(&self) -> geneve::Draft {
        geneve::Draft::new(self.vni.number()).expect("it has 24 bits")
    }

    /// Writes the headers before a frame, from Ethernet's on, to the beginning of `buffer`, and
    /// returns them. The frame's bytes are to follow. `sum` returns their checksum sum; it is
    /// called only if a checksum covers them.
    ///
    /// # Errors
    ///
    /// The packet exceeds the underlay's MTU, or `inner.geneve` is not this tunnel's.
    pub fn write<'b>(
        &self,
        inner: &Inner<'_>,
        sum: impl FnOnce() -> Sum,
        buffer: &'b mut [u8; LONGEST],
    ) -> Result<&'b [u8], WriteError> {
        let plain;
        let [fixed, options] = match (self.encapsulation, inner.geneve) {
            (Encapsulation::Geneve, Some(draft)) if draft.header().vni() == self.vni.number() => {
                draft.parts()
            }
            (Encapsulation::Geneve, None) => {
                plain = self.geneve();
                plain.parts()
            }
            (_, None) => [&[][..]; 2],
            _ => return Err(WriteError::OtherHeader),
        };
        let overhead = self.encapsulation.overhead(self.vteps.version(), options.len());
        let packet_len = inner.len.saturating_add(overhead);
        if packet_len > usize::from(self.underlay_mtu) {
            return Err(WriteError::TooLong { len: packet_len, most: self.underlay_mtu });
        }

        let mut out = Writer { buffer, len: 0 };
        let transport_len = self.put_network(inner, packet_len, &mut out);
        let transport = out.len;
        let source_port = flow::source_port(inner.flow);
        let udp = |port| {
            let payload_len = transport_len - udp::Header::LEN;
            udp::Header::new(source_port, port, payload_len).expect("it is shorter than its packet")
        };
        let vni = self.vni.number();
        match self.encapsulation {
            Encapsulation::Geneve => {
                out.put(udp(geneve::PORT).as_bytes());
                out.put(fixed);
                out.put(options);
            }
            Encapsulation::Vxlan => {
                out.put(udp(vxlan::PORT).as_bytes());
                out.put(vxlan::Header::new(vni).expect("it has 24 bits").as_bytes());
            }
            Encapsulation::Stt => {
                let frame_len = stt::Header::LEN + inner.len;
                out.put(stt::segment_header(source_port, frame_len, 0, inner.id).as_bytes());
                let shim = stt::Header::new(vni.into(), None, &[], Offload::NONE);
                out.put(shim.expect("nothing is left to do").as_bytes());
            }
            Encapsulation::Nvgre => {
                let subnet =
                    gre::VirtualSubnet::new(vni, (inner.flow >> 24) as u8).expect("it has 24 bits");
                let mut shim = [0; NVGRE_LEN];
                out.put(subnet.header().write(&mut shim).expect("a key is all it has"));
            }
        }
        Ok(self.complete(out, transport, transport_len, sum))
    }

    /// Writes the headers of a datagram between this tunnel's ends whose headers the kernel writes
    /// or has removed, as captures show them. `ports` are its source and destination. For STT and
    /// NVGRE the payload is everything behind the IP header. `None` if the packet would exceed
    /// 65,535 bytes.
    pub fn write_around<'b>(
        &self,
        ports: [u16; 2],
        traffic_class: u8,
        payload: &[u8],
        buffer: &'b mut [u8; LONGEST],
    ) -> Option<&'b [u8]> {
        let [source, destination] = ports;
        let datagram = match self.protocol() {
            protocol::UDP => Some(udp::Header::new(source, destination, payload.len())?),
            _ => None,
        };
        let datagram = datagram.as_ref().map_or(&[][..], IntoBytes::as_bytes);
        let ip = match self.vteps.version() {
            Version::V4 => ipv4::Header::LEN,
            Version::V6 => ipv6::Header::LEN,
        };
        let packet_len = ip + datagram.len() + payload.len();
        u16::try_from(packet_len).ok()?;
        let class = Class::default();
        let inner =
            Inner { len: payload.len(), flow: 0, traffic_class, class, geneve: None, id: 0 };
        let mut out = Writer { buffer, len: 0 };
        let transport_len = self.put_network(&inner, packet_len, &mut out);
        let transport = out.len;
        if datagram.is_empty() {
            return Some(&out.buffer[..out.len]);
        }
        out.put(datagram);
        Some(self.complete(out, transport, transport_len, || Sum::of(payload)))
    }

    /// Writes the link and network headers of a packet of `packet_len` bytes. Returns the length of
    /// the rest.
    fn put_network(&self, inner: &Inner<'_>, packet_len: usize, out: &mut Writer<'_>) -> usize {
        self.put_link(inner.class, out);
        let network = out.len;
        self.put_ip(inner, packet_len, out);
        packet_len - (out.len - network)
    }

    /// Completes the transport header with its checksum, if it has one, and returns all headers.
    fn complete<'b>(
        &self,
        out: Writer<'b>,
        transport: usize,
        transport_len: usize,
        sum: impl FnOnce() -> Sum,
    ) -> &'b [u8] {
        let header = &mut out.buffer[..out.len];
        if let Some(at) = self.checksum_offset() {
            // The headers have an even length, so their sum can be added to the frame's.
            let sum = self.vteps.pseudo_header(self.protocol(), transport_len)
                + Sum::of(&header[transport..])
                + sum();
            let place = transport + usize::from(at);
            header[place..place + 2].copy_from_slice(&sum.transport_checksum().to_be_bytes());
        }
        header
    }

    fn put_link(&self, class: Class, out: &mut Writer<'_>) {
        let network = match self.vteps.version() {
            Version::V4 => ethertype::IPV4,
            Version::V6 => ethertype::IPV6,
        };
        let outermost = if self.vlan.is_some() { ethertype::VLAN } else { network };
        out.put(ethernet::Header::new(self.destination, self.source, outermost).as_bytes());
        if let Some(vlan) = self.vlan {
            let tci = Tag { class, vlan }.tci();
            out.put(TagHeader { tci: tci.into(), ethertype: network.into() }.as_bytes());
        }
    }

    fn put_ip(&self, inner: &Inner<'_>, packet_len: usize, out: &mut Writer<'_>) {
        const FITS: &str = "it is no longer than the underlay's MTU";
        let traffic_class = Ecn::of(inner.traffic_class).outer().within(inner.traffic_class);
        match self.vteps {
            Vteps::V4 { local, remote } => {
                let payload_len = packet_len - ipv4::Header::LEN;
                let mut ip =
                    ipv4::Header::new(local, remote, self.protocol(), payload_len).expect(FITS);
                (ip.traffic_class, ip.ttl, ip.checksum) = (traffic_class, self.ttl, 0.into());
                ip.checksum.set(Sum::of(ip.as_bytes()).checksum());
                out.put(ip.as_bytes());
            }
            Vteps::V6 { local, remote } => {
                let payload_len = packet_len - ipv6::Header::LEN;
                let mut ip =
                    ipv6::Header::new(local, remote, self.protocol(), payload_len).expect(FITS);
                ip.set_traffic_class(traffic_class);
                ip.hop_limit = self.ttl;
                // RFC 6438 §3: the flow label, 20 bits of the flow's hash.
                ip.version_class_flow.set(ip.version_class_flow.get() | inner.flow >> 12);
                out.put(ip.as_bytes());
            }
        }
    }

    const fn protocol(&self) -> u8 {
        match self.encapsulation {
            Encapsulation::Geneve | Encapsulation::Vxlan => protocol::UDP,
            Encapsulation::Stt => protocol::TCP,
            Encapsulation::Nvgre => protocol::GRE,
        }
    }

    /// The offset of the checksum in the transport header; `None` if there is none to compute.
    fn checksum_offset(&self) -> Option<u16> {
        match (self.protocol(), self.checksum) {
            (protocol::UDP, Checksum::Computed) => Some(udp::Header::CHECKSUM_OFFSET),
            (protocol::TCP, _) => Some(tcp::Header::CHECKSUM_OFFSET),
            _ => None,
        }
    }
}

impl Vteps {
    /// The checksum sum of the pseudo-header of a packet between the two ends.
    pub(super) fn pseudo_header(self, protocol: u8, transport_len: usize) -> Sum {
        let sum = |addresses: &[u8]| pseudo_header(addresses, protocol, transport_len);
        match self {
            Self::V4 { local, remote } => sum([local.octets(), remote.octets()].as_flattened()),
            Self::V6 { local, remote } => sum([local.octets(), remote.octets()].as_flattened()),
        }
    }
}

/// Appends headers to a buffer.
struct Writer<'b> {
    buffer: &'b mut [u8; LONGEST],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

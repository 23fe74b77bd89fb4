//! The headers of a frame as a machine's kernel, and its server's VXLAN device, would write them.
//!
//! ```text
//! ┌──────────┬──────┬─────┬───────┬──────────┬──────┬─────────┐
//! │ ethernet │ ipv4 │ udp │ vxlan │ ethernet │ ipv4 │ tcp udp │   payload: counted, not carried
//! └──────────┴──────┴─────┴───────┴──────────┴──────┴─────────┘
//!   hosts, where frames have that much     machines
//!   around a machine's packet
//! ```
//!
//! Sums are those of a payload of zeros.

use std::net::Ipv4Addr;

use tcp::Segment;
use units::{Class, ClassMap, Mac};
use wire::checksum::{Sum, pseudo_header};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::tcp::options::{Block, Choice, Options};
use wire::{ipv4, pfc, udp, vxlan};
use zerocopy::IntoBytes;

use crate::host::Hosts;
use crate::packet::{Load, Packet, Report};
use crate::scenario::Scenario;
use crate::stack::Stack;

/// What lies around a machine's frame in a tunnel.
const TUNNEL: usize =
    ethernet::Header::LEN + ipv4::Header::LEN + udp::Header::LEN + vxlan::Header::LEN;

/// All headers of a frame that has all options.
pub(super) const LONGEST: u32 = (TUNNEL + ethernet::Header::LEN + ipv4::Header::LEN + 60) as u32;

/// The check sequence of a frame, which is never written.
const CHECK_SEQUENCE: u32 = 4;

/// The paper's encapsulation (figure 4): a tunnel, and the check sequence.
const ENCAPSULATED: u64 = TUNNEL as u64 + CHECK_SEQUENCE as u64;

/// The network of all machines.
const VNI: u32 = 1;

/// ECN's two bits (RFC 3168 §5).
const CAPABLE: u8 = 0b10;
const MARKED: u8 = 0b11;

/// Where ports begin whose numbers tell connections apart (RFC 6335 §6), how many there are, and
/// where those begin that are connected to.
const FIRST_PORT: u32 = 49_152;
const PORTS: u32 = 16_384;
const FIRST_SERVICE: u32 = 32_768;

/// How headers are written.
pub(super) struct Headers {
    /// Whether frames have a tunnel around them.
    encapsulated: bool,
}

/// From whom to whom, twice: machines, and their hosts.
struct Ends {
    machines: [u32; 2],
    hosts: [u32; 2],
}

impl Headers {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let network = &scenario.virtual_network;
        let longest = network.mtu as usize + TUNNEL;
        Self {
            encapsulated: network.encapsulation.0 >= ENCAPSULATED
                && longest <= usize::from(u16::MAX),
        }
    }

    /// A frame's headers, and its length without check sequence.
    pub(super) fn of(
        &self,
        packet: &Packet,
        class: Class,
        stack: &Stack,
        hosts: &Hosts,
    ) -> (Vec<u8>, u32) {
        let machines = [stack.sender(&packet.load), hosts.machine(packet.target())];
        let ends = Ends { machines, hosts: machines.map(|machine| hosts.host_of(machine)) };
        let capable = if packet.ecn_capable { CAPABLE } else { 0 };
        // A queue marks the outermost header (RFC 6040).
        let outer = if packet.marked { MARKED } else { capable };
        // A class selector (RFC 2474 §4.2.2) says which priority this is.
        let classes = [outer, capable].map(|ecn| class.pcp() << 5 | ecn);
        let mut out = Vec::with_capacity(LONGEST as usize);
        let end = if self.encapsulated {
            let inner = inner(&ends, classes[1], &packet.load);
            let len = inner.0.len() + inner.1;
            tunnel(&mut out, &ends, classes[0], packet.hash, len);
            out.extend(inner.0);
            TUNNEL + len
        } else {
            let (bytes, payload) = inner(&ends, classes[0], &packet.load);
            out = bytes;
            out.len() + payload
        };
        // What the scenario has around a packet besides counts; and what these headers say is
        // there.
        let len = packet.bytes.saturating_sub(CHECK_SEQUENCE).max(end as u32);
        (out, len)
    }
}

/// A frame of PFC.
pub(super) fn pause(from: u32, told: &ClassMap<Option<u16>>) -> Vec<u8> {
    pfc::Frame::new(host_mac(from), told).as_bytes().to_vec()
}

/// A tunnel's headers, before a frame of `len` bytes.
fn tunnel(out: &mut Vec<u8>, ends: &Ends, traffic_class: u8, hash: u32, len: usize) {
    let [source, destination] = ends.hosts.map(host_mac);
    let header = ethernet::Header::new(destination, source, ethertype::IPV4);
    out.extend(header.as_bytes());
    let len = vxlan::Header::LEN + len;
    out.extend(
        ip(ends.hosts.map(host_ip), traffic_class, protocol::UDP, udp::Header::LEN + len)
            .as_bytes(),
    );
    // A flow has a source port of its own, by which equal paths are chosen (RFC 7348 §5), and no
    // sum.
    let port = FIRST_PORT + hash % PORTS;
    out.extend(
        udp::Header::new(port as u16, vxlan::PORT, len).expect("it fits into a packet").as_bytes(),
    );
    out.extend(vxlan::Header::new(VNI).expect("it has 24 bits").as_bytes());
}

/// A machine's headers, and the length of the payload behind them.
fn inner(ends: &Ends, traffic_class: u8, load: &Load) -> (Vec<u8>, usize) {
    let addresses = ends.machines.map(machine_ip);
    let (protocol, transport, payload) = match load {
        Load::Segment { end, segment } => {
            // Connections are numbered by twos: the side that opened it has the even number.
            let (client, service) = ports(end / 2);
            let ports = if end % 2 == 1 { [client, service] } else { [service, client] };
            (protocol::TCP, tcp_header(addresses, ports, segment), segment.len)
        }
        Load::Datagram { flow, bytes } => {
            let (client, service) = ports(*flow);
            (protocol::UDP, udp_header(addresses, [client, service], *bytes), *bytes)
        }
        // As datagrams without payload: their numbers are counted, not carried.
        Load::Report { report: Report { way, .. }, .. }
        | Load::Ask { way, .. }
        | Load::Notice { way, .. } => {
            let (client, service) = ports(*way);
            (protocol::UDP, udp_header(addresses, [client, service], 0), 0)
        }
    };
    let [source, destination] = ends.machines.map(Mac::local);
    let mut out = ethernet::Header::new(destination, source, ethertype::IPV4).as_bytes().to_vec();
    let payload = usize::from(payload);
    out.extend(ip(addresses, traffic_class, protocol, transport.len() + payload).as_bytes());
    out.extend(transport);
    (out, payload)
}

fn ip(
    [source, destination]: [Ipv4Addr; 2],
    traffic_class: u8,
    protocol: u8,
    len: usize,
) -> ipv4::Header {
    let header = ipv4::Header::new(source, destination, protocol, len)
        .expect("a checked scenario's packets fit");
    header.with_traffic_class(traffic_class)
}

/// A segment's header and options.
fn tcp_header(
    addresses: [Ipv4Addr; 2],
    [source, destination]: [u16; 2],
    segment: &Segment,
) -> Vec<u8> {
    let options = options(segment).expect("an endpoint's options fit");
    let options = options.as_bytes();
    let mut header = wire::tcp::Header::new(source, destination, segment.seq, segment.flags)
        .with_options(options.len())
        .expect("options are laid out in words");
    header.acknowledgment = segment.ack.into();
    header.window = segment.window.into();
    let len = header.len() + usize::from(segment.len);
    let sum = pseudo(addresses, protocol::TCP, len) + Sum::of(header.as_bytes()) + Sum::of(options);
    header.checksum = sum.checksum().into();
    [header.as_bytes(), options].concat()
}

/// A segment's options, laid out as [`Segment::header_bytes`] counts them.
fn options(segment: &Segment) -> Option<Options> {
    let stamps = segment.timestamps.map(|it| Choice::Timestamps { value: it.value, echo: it.echo });
    let mut options = Options::NONE;
    let mut put = |choices: &[Choice<'_>]| {
        options = choices.iter().try_fold(options, |options, choice| options.with(*choice))?;
        Some(())
    };
    if let Some(syn) = segment.syn {
        put(&[Choice::MaxSegment(syn.mss)])?;
        match (syn.sack_permitted, stamps) {
            (true, Some(stamps)) => put(&[Choice::SackPermitted, stamps])?,
            (true, None) => put(&[Choice::Nop, Choice::Nop, Choice::SackPermitted])?,
            (false, Some(stamps)) => put(&[Choice::Nop, Choice::Nop, stamps])?,
            (false, None) => {}
        }
        if let Some(bits) = syn.window_scale {
            put(&[Choice::Nop, Choice::WindowScale(bits)])?;
        }
        return Some(options);
    }
    if let Some(stamps) = stamps {
        put(&[Choice::Nop, Choice::Nop, stamps])?;
    }
    let block = |&(start, end): &(u32, u32)| Block { start: start.into(), end: end.into() };
    let blocks: Vec<Block> = segment.sack.as_slice().iter().map(block).collect();
    if !blocks.is_empty() {
        put(&[Choice::Nop, Choice::Nop, Choice::Sack(&blocks)])?;
    }
    Some(options)
}

fn udp_header(addresses: [Ipv4Addr; 2], [source, destination]: [u16; 2], bytes: u16) -> Vec<u8> {
    let bytes = usize::from(bytes);
    let mut header =
        udp::Header::new(source, destination, bytes).expect("a datagram fits into a packet");
    let sum =
        pseudo(addresses, protocol::UDP, udp::Header::LEN + bytes) + Sum::of(header.as_bytes());
    header.checksum = sum.transport_checksum().into();
    header.as_bytes().to_vec()
}

fn pseudo([source, destination]: [Ipv4Addr; 2], protocol: u8, len: usize) -> Sum {
    pseudo_header([source.octets(), destination.octets()].as_flattened(), protocol, len)
}

/// The ports of connection or flow number `number`: two that exist at once have no two in common.
fn ports(number: u32) -> (u16, u16) {
    let (client, service) = (FIRST_PORT + number % PORTS, FIRST_SERVICE + number / PORTS % PORTS);
    (client as u16, service as u16)
}

/// 10.0.0.1 is the first machine.
fn machine_ip(machine: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + machine)
}

/// 172.16.0.1 is the first host.
fn host_ip(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(172, 16, 0, 1).to_bits() + host)
}

/// A node's address, which no machine has.
fn host_mac(node: u32) -> Mac {
    Mac::local(1 << 31 | node)
}

#[cfg(test)]
mod tests {
    use tcp::{Flags, SackBlocks, SynOptions, Timestamps};

    use super::*;

    fn blank() -> Segment {
        Segment {
            seq: 7,
            ack: 9,
            window: 100,
            len: 0,
            flags: Flags::ACK,
            ecn_capable: false,
            syn: None,
            timestamps: None,
            sack: SackBlocks::default(),
        }
    }

    #[test]
    fn options_are_as_long_as_endpoints_count_them() {
        let stamps = Timestamps { value: 3, echo: 4 };
        let mut sack = SackBlocks::default();
        for count in 0..=3 {
            for timestamps in [None, Some(stamps)] {
                let segment = Segment { timestamps, sack, ..blank() };
                assert_eq!(
                    tcp_header(ADDRESSES, [1, 2], &segment).len() as u32,
                    segment.header_bytes()
                );
            }
            sack.push(count * 10, count * 10 + 5);
        }
        for which in 0..8 {
            let syn = SynOptions {
                mss: 1400,
                window_scale: (which & 1 != 0).then_some(7),
                sack_permitted: which & 2 != 0,
            };
            let timestamps = (which & 4 != 0).then_some(stamps);
            let segment = Segment { syn: Some(syn), timestamps, flags: Flags::SYN, ..blank() };
            assert_eq!(
                tcp_header(ADDRESSES, [1, 2], &segment).len() as u32,
                segment.header_bytes(),
                "{which}"
            );
        }
    }

    const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    #[test]
    fn sums_are_those_of_zeros() {
        let segment = Segment { len: 1001, ..blank() };
        let mut bytes = tcp_header(ADDRESSES, [1, 2], &segment);
        bytes.resize(bytes.len() + 1001, 0);
        assert_eq!((pseudo(ADDRESSES, protocol::TCP, bytes.len()) + Sum::of(&bytes)).checksum(), 0);
        let mut bytes = udp_header(ADDRESSES, [1, 2], 333);
        bytes.resize(bytes.len() + 333, 0);
        assert_eq!((pseudo(ADDRESSES, protocol::UDP, bytes.len()) + Sum::of(&bytes)).checksum(), 0);
    }
}

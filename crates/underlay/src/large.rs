//! Large segments in a tunnel that are sent whole, and cut by the network card.
//!
//! With UDP_SEGMENT the kernel cuts one large datagram into several, but each must contain its own
//! tunnel header. Network cards can cut the inner TCP segment and repeat the tunnel's headers
//! before each piece (`tx-udp_tnl-csum-segmentation`, ethtool(8)). Sockets cannot ask for that; TAP
//! devices can (TUN_F_UDP_TUNNEL_GSO_CSUM, since Linux 6.17):
//!
//! ```text
//!   datagram, and how to cut the frame in it ──▶ TAP device ──▶ the host, as a router ──▶ card ══▶
//! ```
//!
//! The host forwards these packets like any others: its routes, neighbours, filters and IPsec
//! apply. The device disappears when this value is dropped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use wire::checksum::pseudo_header;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{Offload, PartialChecksum, Segment, ipv6, udp};
use zerocopy::IntoBytes;

use super::around::{Ip, addresses};
use super::marking::Marking;
use super::options;
use kernel::ethtool::Cutting;
use kernel::netlink::{LinkChange, Netlink};
use kernel::tun::Device;

/// How the network card is to cut a large segment behind its tunnel headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cut {
    /// The inner frame's offloads, among them how it is cut.
    pub offload: Offload,
    /// The offset of the frame in the datagram, in bytes.
    pub frame: u16,
    /// The offset of the packet in the frame, in bytes.
    pub packet: u16,
}

impl Cut {
    /// How many packets a datagram of `len` bytes becomes, and how many bytes they have together:
    /// each has the headers that the first has.
    pub(crate) fn packets(&self, len: usize) -> (usize, usize) {
        let Some(segment) = self.offload.segment else { return (1, len) };
        let headers = usize::from(self.frame) + usize::from(segment.header_len);
        let payload = len.saturating_sub(headers);
        let packets = payload.div_ceil(usize::from(segment.size).max(1)).max(1);
        (packets, payload + packets * headers)
    }
}

/// The pattern of the device's name. The kernel replaces `%d` by a number, because each address has
/// a device of its own.
const NAME: &str = "zovn-up%d";

/// The length of `struct virtio_net_hdr_v1_hash_tunnel`.
const HEADER: usize = 24;

/// The most bytes before a datagram: the virtio header, and the headers of Ethernet, IPv6 and UDP.
const AROUND: usize = HEADER + ethernet::Header::LEN + ipv6::Header::LEN + udp::Header::LEN;

/// VIRTIO_NET_HDR_F_UDP_TUNNEL_CSUM: complete the outer checksum in each segment.
const SUM_OUTER: u8 = 8;

/// VIRTIO_NET_HDR_GSO_UDP_TUNNEL_IPV4 and _IPV6.
const OVER: [u8; 2] = [0x20, 0x40];

/// How long the [`Fate`] of large datagrams to a host is cached.
const TRUSTED: Duration = Duration::from_secs(1);

/// The interval between attempts to make a device.
const RETRY: Duration = Duration::from_secs(60);

/// What happens to large datagrams on the path to a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// They arrive whole, because the host is this one.
    Whole,
    /// The network card cuts them.
    Cut,
    /// They would be lost, for this reason.
    Lost(String),
}

/// Sends large datagrams, and knows where they can be sent. It belongs to the network namespace in
/// which it was made, and must be used there.
#[derive(Debug)]
pub struct Larges {
    local: IpAddr,
    ttl: u8,
    fates: BTreeMap<IpAddr, (Instant, Fate)>,
    /// The device, or why there is none. It is made when the first datagram is large.
    sender: Result<Sender, String>,
    /// When to try again to make one.
    retry_at: Option<Instant>,
}

/// A TAP device for packets from one address of this host, and what tells which network cards cut
/// them.
#[derive(Debug)]
struct Sender {
    device: Device,
    ethernet: ethernet::Header,
    netlink: Netlink,
    cutting: Cutting,
}

impl Sender {
    /// # Errors
    ///
    /// The kernel's error, for example because it is too old.
    fn open(local: IpAddr) -> io::Result<Self> {
        let (device, name) = Device::open(NAME, HEADER)?;
        device.take_tunnels()?;
        let set = |family, key, value| {
            fs::write(format!("/proc/sys/net/{family}/conf/{name}/{key}"), value)
        };
        let kind = if local.is_ipv4() {
            // Accept packets from an address of this host.
            [("forwarding", "1"), ("accept_local", "1"), ("rp_filter", "0")]
                .into_iter()
                .try_for_each(|(key, value)| set("ipv4", key, value))?;
            // The host itself is to send nothing on it. There may be no IPv6.
            let _ = set("ipv6", "addr_gen_mode", "1");
            ethertype::IPV4
        } else {
            set("ipv6", "addr_gen_mode", "1")?;
            set("ipv6", "force_forwarding", "1")?;
            ethertype::IPV6
        };
        let mut netlink = Netlink::open().map_err(io::Error::other)?;
        let up = LinkChange { up: Some(true), ..LinkChange::default() };
        netlink.change_link(&name, up).map_err(io::Error::other)?;
        let mac =
            netlink.link(&name).map_err(io::Error::other)?.mac.ok_or(io::ErrorKind::NotFound)?;
        let cutting = Cutting::open(&name)?;
        Ok(Self { device, ethernet: ethernet::Header::new(mac, mac, kind), netlink, cutting })
    }

    /// Whether the network card on the path to a host cuts large datagrams; if not, why.
    fn cuts(&mut self, [local, to]: [IpAddr; 2]) -> Result<(), String> {
        let hop = self.netlink.next_hop(local, to).map_err(|error| error.to_string())?;
        let hop = hop.ok_or_else(|| format!("the route to {to} is not a plain one"))?;
        let name = self.netlink.link_at(hop.link).map_err(|error| error.to_string())?.name;
        match self.cutting.is_on(&name) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{name} does not cut what tunnels carry (ethtool -k {name})")),
            Err(error) => {
                Err(format!("{name} does not say whether it cuts what tunnels carry: {error}"))
            }
        }
    }
}

impl Larges {
    /// For datagrams from an address of this host, with this TTL.
    pub fn new(local: IpAddr, ttl: u8) -> Self {
        Self {
            local,
            ttl,
            fates: BTreeMap::new(),
            sender: Err("none was needed".into()),
            retry_at: None,
        }
    }

    /// What happens to large datagrams on the path to a host.
    pub fn fate(&mut self, to: IpAddr) -> &Fate {
        let now = Instant::now();
        if self.fates.get(&to).is_none_or(|(until, _)| *until <= now) {
            let fate = self.ask(to);
            self.fates.insert(to, (now + TRUSTED, fate));
        }
        &self.fates[&to].1
    }

    /// The result when [`fate`](Self::fate) was last called.
    pub fn known(&self, to: IpAddr) -> Option<&Fate> {
        self.fates.get(&to).map(|(_, fate)| fate)
    }

    fn ask(&mut self, to: IpAddr) -> Fate {
        let local = self.local;
        if options::mtu(local, to).is_ok_and(|mtu| mtu == u16::MAX) {
            return Fate::Whole;
        }
        let now = Instant::now();
        if self.sender.is_err() && self.retry_at.is_none_or(|at| at <= now) {
            self.sender = Sender::open(local).map_err(|error| {
                format!("there is no device for them, which takes Linux 6.17: {error}")
            });
            self.retry_at = Some(now + RETRY);
        }
        let cuts = match &mut self.sender {
            Ok(sender) => sender.cuts([local, to]),
            Err(why) => Err(why.clone()),
        };
        cuts.map_or_else(Fate::Lost, |()| Fate::Cut)
    }

    /// Sends the concatenation of these parts as one datagram, from our port to a port of the
    /// receiver.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn send(
        &mut self,
        ports: [u16; 2],
        to: IpAddr,
        marking: Marking,
        parts: [&[u8]; 3],
        cut: Cut,
    ) -> io::Result<()> {
        let Ok(Sender { device, ethernet, .. }) = &self.sender else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut around = [0; AROUND];
        let (header, headers) = around.split_at_mut(HEADER);
        ethernet.write_to_prefix(headers).expect("there is room");
        let len = udp::Header::LEN + parts.iter().map(|part| part.len()).sum::<usize>();
        let ip = Ip {
            ends: [self.local, to],
            // Forwarding by the host itself takes one hop.
            ttl: self.ttl.saturating_add(1),
            traffic_class: marking.traffic_class,
            protocol: protocol::UDP,
            flow: 0,
            len,
        };
        let outer = ethernet::Header::LEN + ip.put(&mut headers[ethernet::Header::LEN..]);
        let sum = pseudo_header(addresses(self.local, to, &mut [0; 32]), protocol::UDP, len);
        let udp = udp::Header {
            source: ports[0].into(),
            destination: ports[1].into(),
            len: (len as u16).into(),
            checksum: (!sum.checksum()).into(),
        };
        udp.write_to_prefix(&mut headers[outer..]).expect("there is room");
        let before = outer + udp::Header::LEN;
        header.copy_from_slice(&said(cut, outer, before, to.is_ipv6()));
        let [first, second, third] = parts.map(IoSlice::new);
        let outcome =
            device.write_slices(&[IoSlice::new(&around[..HEADER + before]), first, second, third]);
        match &outcome {
            // If the device was removed or set down, make another one at once.
            Ok(()) => self.retry_at = None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.sender = Err(format!("the kernel does not take them: {error}"));
                self.fates.clear();
            }
        }
        outcome
    }
}

/// The virtio header of a packet whose UDP header begins at `outer` and ends at `before` (`struct
/// virtio_net_hdr_v1_hash_tunnel`).
fn said(cut: Cut, outer: usize, before: usize, is_v6: bool) -> [u8; HEADER] {
    let Cut { offload, frame, packet } = cut;
    let before = before as u16 + frame;
    let checksum = offload.checksum.map(|sum| PartialChecksum { start: sum.start + before, ..sum });
    let segment = offload.segment.map(|it| Segment { header_len: it.header_len + before, ..it });
    let mut said = [0; HEADER];
    said[..Offload::LEN].copy_from_slice(&Offload { checksum, segment, data_valid: false }.emit());
    said[0] |= SUM_OUTER;
    said[1] |= OVER[usize::from(is_v6)];
    said[HEADER - 4..HEADER - 2].copy_from_slice(&(outer as u16).to_le_bytes());
    said[HEADER - 2..].copy_from_slice(&(before + packet).to_le_bytes());
    said
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use units::{Class, Mac, Prefix};
    use wire::ip::Version;
    use wire::stt::Reassembly;
    use wire::tcp::{self, Flags};
    use wire::{geneve, ipv4};
    use zerocopy::FromBytes;

    use super::super::{Counters, Len, Marking, Received, Transport, Underlay};
    use super::*;
    use kernel::ethtool;
    use kernel::joined::{self, INTERFACE};
    use kernel::netns::Namespace;

    const MARKING: Marking = Marking { traffic_class: 0b1010_0010, class: Class::from_low_bits(5) };

    /// A Geneve packet with a large segment, and how to cut it.
    fn packet(version: Version) -> (Vec<u8>, Cut) {
        let tcp = tcp::Header::new(1, 2, 77, Flags::ACK | Flags::PSH);
        let payload: Vec<_> = (0..50_000_u32).map(|at| (at ^ at >> 8) as u8).collect();
        let len = tcp::Header::LEN + payload.len();
        let (kind, ip) = match version {
            Version::V4 => {
                let [from, to] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from);
                let ip = ipv4::Header::new(from, to, protocol::TCP, len).unwrap();
                (ethertype::IPV4, ip.as_bytes().to_vec())
            }
            Version::V6 => {
                let ip = ipv6::Header::new(
                    Ipv6Addr::LOCALHOST,
                    Ipv6Addr::UNSPECIFIED,
                    protocol::TCP,
                    len,
                );
                (ethertype::IPV6, ip.unwrap().as_bytes().to_vec())
            }
        };
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), kind);
        let mut frame = [ethernet.as_bytes(), &ip, tcp.as_bytes(), &payload].concat();
        wire::cut::restore(&mut frame, Flags(0)).unwrap();
        let draft = geneve::Draft::new(7).unwrap();
        let offload = wire::cut::offload(&frame, 1200).unwrap();
        let cut = Cut {
            offload,
            frame: geneve::Header::LEN as u16,
            packet: ethernet::Header::LEN as u16,
        };
        ([draft.parts()[0], &frame].concat(), cut)
    }

    /// Sends the datagram. Returns the received frames, as they lie behind Geneve's header.
    fn carry(
        host: &Namespace,
        [near, far]: &mut [Underlay; 2],
        [from, to]: [IpAddr; 2],
        (bytes, cut): &(Vec<u8>, Cut),
        count: usize,
    ) -> Vec<Vec<u8>> {
        assert!(host.run(|| near.carries_large(to)).unwrap());
        let (header, frame) = bytes.split_at(cut.frame.into());
        near.send_large(to, 3, MARKING, *cut, [header, &[], frame]);
        assert!(host.run(|| near.flush()).unwrap());
        let mut came = Vec::new();
        let until = Instant::now() + Duration::from_secs(10);
        while came.len() < count && Instant::now() < until {
            far.receive(|Received { from: sender, ports: [_, port], traffic_class, payload }| {
                assert_eq!((sender, port, traffic_class), (from, 6081, 0b1010_0010));
                came.push(geneve::Packet::parse(payload).unwrap().payload.to_vec());
            });
        }
        assert_eq!([near.counters(), far.counters()], [&Counters::default(); 2]);
        came
    }

    /// Has what waits before it go first, and what is to be told of wait for that. What was told.
    fn carry_told(
        host: &Namespace,
        [near, far]: &mut [Underlay; 2],
        [_, to]: [IpAddr; 2],
        (bytes, cut): &(Vec<u8>, Cut),
    ) -> Vec<Vec<u8>> {
        let draft = geneve::Draft::new(8).unwrap();
        let header = draft.parts()[0];
        let large = |near: &mut Underlay| near.send_large(to, 3, MARKING, *cut, [&[], bytes, &[]]);
        let small = |near: &mut Underlay| {
            near.send(to, 3, MARKING, Len::Exactly(header.len()), |into| {
                into.copy_from_slice(header)
            });
        };
        small(near);
        large(near);
        assert_eq!(near.queued(), 0, "nothing waits that nobody is told of");
        let mut told = Vec::new();
        host.run(|| near.flush_telling(|sent| told.push(sent.payload.to_vec()))).unwrap();
        large(near);
        assert_eq!((near.queued(), told.len()), (1, 0));
        host.run(|| near.flush_telling(|sent| told.push(sent.payload.to_vec()))).unwrap();
        assert!(near.flush());
        small(near);
        large(near);
        assert_eq!(near.queued(), 0, "nobody is told any more");
        let mut came = Vec::new();
        let until = Instant::now() + Duration::from_secs(10);
        while came.len() < 5 && Instant::now() < until {
            far.receive(|received| came.push(received.payload.len()));
        }
        assert_eq!(came, [header.len(), bytes.len(), bytes.len(), header.len(), bytes.len()]);
        told
    }

    /// Caches [`Fate::Cut`] for a host, for this long.
    fn trust(underlay: &mut Underlay, to: IpAddr, long: Duration) {
        let fates = &mut underlay.exits.larges.as_mut().unwrap().fates;
        fates.insert(to, (Instant::now() + long, Fate::Cut));
    }

    #[test]
    fn a_large_segment_arrives_whole_or_can_be_joined_again() {
        if !needs::root() {
            return;
        }
        let pairs = [["192.0.2.1", "192.0.2.2"], ["fd00::1", "fd00::2"]];
        let all = pairs
            .iter()
            .flat_map(|ends| [Version::V4, Version::V6].map(|version| (*ends, version)));
        for (ends, version) in all {
            let ends: [IpAddr; 2] = ends.map(|address| address.parse().unwrap());
            let hosts = joined::two().unwrap();
            for (host, address) in hosts.iter().zip(ends) {
                let length = if address.is_ipv4() { 24 } else { 64 };
                joined::give_address(host, INTERFACE, Prefix { address, length }).unwrap();
            }
            let open = |at: usize| {
                let open = || Underlay::open(ends[at], Transport::Udp(6081), 9).unwrap();
                hosts[at].run(open).unwrap()
            };
            let mut underlays = [open(0), open(1)];
            let packet = packet(version);
            let (bytes, cut) = &packet;
            let frame = &bytes[usize::from(cut.frame)..];
            assert_eq!(carry(&hosts[0], &mut underlays, ends, &packet, 1), [frame]);
            assert_eq!(carry_told(&hosts[0], &mut underlays, ends, &packet), [&bytes[..]]);

            // The device has lost this offload, so the kernel cuts before it.
            ethtool::switch_offload_off(&hosts[0], INTERFACE).unwrap();
            trust(&mut underlays[0], ends[1], Duration::from_secs(600));
            let pieces =
                carry(&hosts[0], &mut underlays, ends, &packet, 50_000_usize.div_ceil(1200));
            let mut reassembly = Reassembly::new(1);
            let mut had = None;
            let tcp = usize::from(cut.offload.checksum.unwrap().start);
            for piece in &pieces {
                let (tcp, _) = tcp::Header::ref_from_prefix(&piece[tcp..]).unwrap();
                let is_last = std::ptr::eq(piece, pieces.last().unwrap());
                assert_eq!(tcp.flags.contains(Flags::PSH), is_last);
                let segment = wire::cut::segment(piece, 0, 77, frame.len()).unwrap();
                let joined = reassembly.take((), &segment, false, units::Instant::ZERO).unwrap();
                had = joined.map(|joined| joined.bytes.to_vec());
            }
            let mut had = had.unwrap();
            wire::cut::restore(&mut had, Flags::PSH).unwrap();
            assert_eq!(had, frame);

            trust(&mut underlays[0], ends[1], Duration::ZERO);
            assert!(!hosts[0].run(|| underlays[0].carries_large(ends[1])).unwrap(), "it is seen");
            let why =
                format!("{INTERFACE} does not cut what tunnels carry (ethtool -k {INTERFACE})");
            assert_eq!(underlays[0].large_fate(ends[1]), Some(Fate::Lost(why)));
        }
    }

    #[test]
    fn large_datagrams_to_the_own_host_arrive_whole() {
        if !needs::root() {
            return;
        }
        let host = joined::alone().unwrap();
        let ends = [1, 2].map(|number| IpAddr::from([127, 0, 0, number]));
        let open = |address| {
            host.run(|| Underlay::open(address, Transport::Udp(6081), 9).unwrap()).unwrap()
        };
        let mut underlays = ends.map(open);
        let packet = packet(Version::V4);
        let frame = &packet.0[usize::from(packet.1.frame)..];
        assert_eq!(carry(&host, &mut underlays, ends, &packet, 1), [frame]);
        assert!(
            underlays[0].exits.larges.as_ref().unwrap().retry_at.is_none(),
            "it takes no device"
        );
    }
}

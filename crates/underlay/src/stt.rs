//! Sends and receives frames as TCP-like segments (STT, draft-davie-stt-08).
//!
//! ```text
//!               ┌ next hop known ─▶ packet socket: one send a frame, the kernel or the card cuts (TSO) ┐
//!   datagram ──▶│                                                                                      ├══▶
//!   (a frame)   └ not known ──────▶ cut here ─▶ raw IP socket: the kernel finds the next hop           ┘
//! ```
//!
//! A raw IP socket receives the segments, which the kernel may have joined (GRO);
//! [`wire::stt::Reassembly`] joins the rest. A TCP socket listens at the port, so that the kernel
//! does not answer segments with a reset. It never receives anything.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, SockaddrStorage, sendmsg};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::checksum::pseudo_header;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::stt::{Frame, Header, PORT, segment_header};
use wire::{Offload, PartialChecksum, Segment, SegmentKind, flow, ipv4, ipv6, tcp};
use zerocopy::{FromBytes, IntoBytes};

use super::around::{Ip, addresses};
use super::batch::{self, Batch};
use super::marking::Marker;
use super::options::{self, SEND_BUFFER};
use kernel::netlink::Netlink;
use kernel::{packet, sockopt};

/// The longest datagram in bytes: a frame with its STT header.
pub const LONGEST: usize = batch::LONGEST - tcp::Header::LEN;

/// How long a next hop is cached: as long as the kernel takes to ask a neighbour again (RFC 4861
/// §10, RETRANS_TIMER).
const TRUSTED: Duration = Duration::from_secs(1);

/// The interval between queries for an unknown next hop.
const RETRY: Duration = Duration::from_millis(100);

/// The path MTU to a host to which nothing was sent yet, in bytes.
const MTU: u16 = 1500;

/// The most bytes before the TCP header: the virtio header, and the headers of Ethernet and IPv6.
const AROUND: usize = packet::OFFLOAD + ethernet::Header::LEN + ipv6::Header::LEN;

/// Sends frames, and keeps the kernel from answering received segments. It belongs to the network
/// namespace in which it was opened, and must be used there.
#[derive(Debug)]
pub struct Stt {
    local: IpAddr,
    ttl: u8,
    mtu: Option<u16>,
    /// The send buffer of its sockets, in bytes as the kernel counts them.
    send_buffer: usize,
    /// Listens at the port and receives nothing.
    _guard: OwnedFd,
    netlink: Netlink,
    routes: BTreeMap<IpAddr, Route>,
    /// By interface index.
    links: BTreeMap<u32, (OwnedFd, Marker)>,
    /// The identifier of the next frame.
    id: u32,
    /// How many bytes of the frame that is being cut were sent.
    cut: usize,
}

/// The route to a far host.
#[derive(Clone, Copy, Debug)]
struct Route {
    /// When the cached route expires.
    until: Instant,
    /// The path MTU in bytes.
    mtu: u16,
    /// The interface index, and the headers before a packet there. `None` if the next hop is
    /// unknown: then the kernel routes the packet.
    hop: Option<(u32, ethernet::Header)>,
}

impl Stt {
    /// Opens the port at an address of this host. Packets have this TTL, and are at most `mtu`
    /// bytes long, or as long as the path MTU that the kernel knows.
    pub fn open(local: IpAddr, ttl: u8, mtu: Option<u16>) -> io::Result<Self> {
        // A random start, so that late segments of an earlier agent are not joined with ours.
        let id = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u32);
        Ok(Self {
            local,
            ttl,
            mtu,
            send_buffer: SEND_BUFFER,
            _guard: guard(SocketAddr::new(local, PORT))?,
            netlink: Netlink::open().map_err(io::Error::other)?,
            routes: BTreeMap::new(),
            links: BTreeMap::new(),
            id,
            cut: 0,
        })
    }

    /// Sets the size of its sockets' send buffers. Called before anything is sent.
    pub fn set_send_buffer(&mut self, bytes: usize) {
        self.send_buffer = bytes;
    }

    /// How many packets so many bytes of a datagram to this host become, a TCP header in each.
    pub fn packets(&self, to: IpAddr, bytes: usize) -> usize {
        let known = || Some(self.routes.get(&to)?.mtu);
        let mtu = self.mtu.or_else(known).unwrap_or(MTU);
        let ip = if to.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        bytes.div_ceil(usize::from(mtu).saturating_sub(ip + tcp::Header::LEN).max(1))
    }

    /// Prepares a datagram of a flow behind a TCP header with a partial checksum. `write` writes
    /// the datagram.
    pub fn write(
        &mut self,
        to: IpAddr,
        flow: u32,
        bytes: &mut [u8],
        write: impl FnOnce(&mut [u8]),
    ) {
        let len = bytes.len();
        let (head, datagram) = bytes.split_at_mut(tcp::Header::LEN);
        let mut header = segment_header(flow::source_port(flow), datagram.len(), 0, self.id);
        self.id = self.id.wrapping_add(1);
        let sum = pseudo_header(addresses(self.local, to, &mut [0; 32]), protocol::TCP, len);
        header.checksum.set(!sum.checksum());
        head.copy_from_slice(header.as_bytes());
        write(datagram);
    }

    /// Sends the prepared datagram. If there was no room for some segments, the next call continues
    /// with those.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn send(&mut self, raw: &OwnedFd, marker: &mut Marker, batch: &Batch) -> io::Result<()> {
        let route = self.route(batch.to);
        if let Some((link, header)) = route.hop
            && self.cut == 0
        {
            match self.send_whole(link, &header, route.mtu, batch) {
                Err(error) if !is_congestion(&error) => {
                    // The interface may be gone. The kernel may know another route.
                    self.links.remove(&link);
                    self.routes.remove(&batch.to);
                }
                outcome => return outcome,
            }
        }
        let outcome = self.send_cut(raw, marker, route.mtu, batch);
        if !outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.cut = 0;
        }
        outcome
    }

    /// Sends the frame whole. The kernel or the network card cuts it.
    fn send_whole(
        &mut self,
        link: u32,
        ethernet: &ethernet::Header,
        mtu: u16,
        batch: &Batch,
    ) -> io::Result<()> {
        let (link, marker) = self.links.get_mut(&link).ok_or(io::ErrorKind::NotFound)?;
        marker.prioritize(link, batch.marking)?;
        let mut around = [0; AROUND];
        let (offload, headers) = around.split_at_mut(packet::OFFLOAD);
        ethernet.write_to_prefix(headers).expect("there is room");
        let ip = Ip {
            ends: [self.local, batch.to],
            ttl: self.ttl,
            traffic_class: batch.marking.traffic_class,
            protocol: protocol::TCP,
            flow: ports(batch.bytes())[0],
            len: batch.bytes().len(),
        };
        let ip_len = ip.put(&mut headers[ethernet::Header::LEN..]);
        let start = ethernet::Header::LEN + ip_len;
        let most = usize::from(mtu).saturating_sub(ip_len + tcp::Header::LEN);
        let segment = Segment {
            kind: if batch.to.is_ipv4() { SegmentKind::Tcp4 } else { SegmentKind::Tcp6 },
            ecn: false,
            header_len: (start + tcp::Header::LEN) as u16,
            size: most as u16,
        };
        let left = Offload {
            checksum: Some(PartialChecksum {
                start: start as u16,
                offset: tcp::Header::CHECKSUM_OFFSET,
            }),
            segment: (batch.bytes().len() - tcp::Header::LEN > most).then_some(segment),
            data_valid: false,
        };
        offload.copy_from_slice(&left.emit()[..packet::OFFLOAD]);
        let parts = [IoSlice::new(&around[..packet::OFFLOAD + start]), IoSlice::new(batch.bytes())];
        sendmsg::<()>(link.as_raw_fd(), &parts, &[], MsgFlags::MSG_DONTWAIT, None)?;
        Ok(())
    }

    /// Cuts the frame into segments and sends those.
    fn send_cut(
        &mut self,
        raw: &OwnedFd,
        marker: &mut Marker,
        mtu: u16,
        batch: &Batch,
    ) -> io::Result<()> {
        let (head, datagram) = batch.bytes().split_at(tcp::Header::LEN);
        let tcp = tcp::Header::ref_from_bytes(head).expect("it was written so");
        let (header, frame) = Header::parse(datagram).ok_or(io::ErrorKind::InvalidInput)?;
        let frame =
            Frame::new(*header, frame, tcp.acknowledgment.get()).expect("a datagram has its bound");
        let ip = if batch.to.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let most = usize::from(mtu).saturating_sub(ip + tcp::Header::LEN);
        let most = NonZeroUsize::new(most).ok_or(io::ErrorKind::InvalidInput)?;
        let mut buffer = [0; 32];
        let addresses = addresses(self.local, batch.to, &mut buffer);
        marker.mark(raw, batch.to.is_ipv6(), batch.marking)?;
        let to = SockaddrStorage::from(SocketAddr::new(batch.to, 0));
        let mut segment = vec![0; tcp::Header::LEN + most.get()];
        for piece in frame.pieces(most) {
            let end = piece.offset + piece.packet_len() - tcp::Header::LEN;
            if end <= self.cut {
                continue;
            }
            let bytes =
                piece.write(tcp.source.get(), addresses, &mut segment).expect("it has room");
            let parts = [IoSlice::new(bytes)];
            sendmsg(raw.as_raw_fd(), &parts, &[], MsgFlags::MSG_DONTWAIT, Some(&to))?;
            self.cut = end;
        }
        Ok(())
    }

    /// Returns the cached route to a host, or asks the kernel.
    fn route(&mut self, to: IpAddr) -> Route {
        let now = Instant::now();
        if let Some(route) = self.routes.get(&to).filter(|route| now < route.until) {
            return *route;
        }
        let mtu = self.mtu.unwrap_or_else(|| options::mtu_or_least(self.local, to));
        let hop = self.hop(to);
        let route = Route { until: now + if hop.is_some() { TRUSTED } else { RETRY }, mtu, hop };
        self.routes.insert(to, route);
        route
    }

    fn hop(&mut self, to: IpAddr) -> Option<(u32, ethernet::Header)> {
        let Self { local, netlink, links, send_buffer, .. } = self;
        let hop = netlink.next_hop(*local, to).ok()??;
        let mac = netlink.neighbour(hop).ok()??;
        let source = netlink.link_at(hop.link).ok()?.mac?;
        if let Entry::Vacant(place) = links.entry(hop.link) {
            place.insert((link(hop.link, *send_buffer).ok()?, Marker::default()));
        }
        let kind = if to.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 };
        Some((hop.link, ethernet::Header::new(mac, source, kind)))
    }
}

/// Whether an error is temporary: the send buffer is full, or the queueing discipline has dropped
/// the packet.
fn is_congestion(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// The ports of a segment; 0 if it is truncated.
pub fn ports(segment: &[u8]) -> [u16; 2] {
    let ports = tcp::Header::ref_from_prefix(segment).ok();
    ports.map_or([0; 2], |(header, _)| [header.source.get(), header.destination.get()])
}

/// Opens a listening socket that a filter keeps from receiving segments. So the kernel answers no
/// segment; without a listener it would reset the connection (RFC 9293 §3.5.2).
fn guard(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let nothing =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    sockopt::filter(&socket, &[nothing])?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, 1)?;
    Ok(socket)
}

/// Opens a socket that sends large packets through an interface.
fn link(index: u32, send_buffer: usize) -> io::Result<OwnedFd> {
    let socket = packet::socket(index, 0)?;
    packet::set_offload(&socket)?;
    options::set_sending(&socket, send_buffer)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use units::{Class, Prefix};
    use wire::checksum::Sum;
    use wire::stt::{self, Reassembly};

    use super::*;
    use crate::Len;
    use crate::{Counters, Marking, Transport, Underlay};
    use kernel::joined::{self, INTERFACE};
    use kernel::netlink::LinkChange;
    use kernel::netns::Namespace;

    const MTU: u16 = 1400;

    const MARKING: Marking = Marking { traffic_class: 0b1010_0010, class: Class::from_low_bits(5) };

    /// Two hosts on a cable, and their sockets.
    fn hosts(ends: [IpAddr; 2]) -> ([Namespace; 2], [Underlay; 2]) {
        let hosts = joined::two().unwrap();
        for (host, address) in hosts.iter().zip(ends) {
            let length = if address.is_ipv4() { 24 } else { 64 };
            joined::give_address(host, INTERFACE, Prefix { address, length }).unwrap();
        }
        let open = |at: usize| {
            let open = || Underlay::open(ends[at], Transport::Stt { mtu: Some(MTU) }, 9).unwrap();
            hosts[at].run(open).unwrap()
        };
        let underlays = [open(0), open(1)];
        (hosts, underlays)
    }

    fn stt(underlay: &mut Underlay) -> &mut Stt {
        underlay.exits.stt.as_mut().unwrap()
    }

    /// Sends frames of these lengths and checks that they arrive unchanged. Returns the number of
    /// received segments.
    fn carry(
        host: &Namespace,
        [near, far]: &mut [Underlay; 2],
        [from, to]: [IpAddr; 2],
        lens: &[usize],
    ) -> usize {
        let header = Header::new(7, None, &[], Offload::NONE).unwrap();
        for (number, len) in (1..).zip(lens) {
            near.send(to, number << 18, MARKING, Len::Exactly(*len), |bytes| {
                let (head, frame) = bytes.split_at_mut(Header::LEN);
                head.copy_from_slice(header.as_bytes());
                frame.fill(number as u8);
            });
        }
        let mut reassembly = Reassembly::new(4);
        let (mut segments, mut came) = (0, Vec::new());
        while came.len() < lens.len() {
            host.run(|| near.flush()).unwrap();
            far.receive(|received| {
                segments += 1;
                assert_eq!((received.from, received.traffic_class), (from, 0b1010_0010));
                let number = came.len() as u16 + 1;
                assert_eq!(received.ports, [49_152 + number, PORT]);
                let tcp = tcp::Segment::parse(received.payload).unwrap();
                let sum =
                    pseudo_header(addresses(from, to, &mut [0; 32]), 6, received.payload.len());
                let is_partial = tcp.header.checksum.get() == !sum.checksum();
                assert!(is_partial || (sum + Sum::of(received.payload)).checksum() == 0);
                let segment = stt::Segment::parse(&tcp).unwrap();
                let joined = reassembly.take((), &segment, false, units::Instant::ZERO).unwrap();
                came.extend(joined.map(|joined| {
                    let (head, frame) = Header::parse(joined.bytes).unwrap();
                    assert_eq!(*head, header);
                    assert!(frame.iter().all(|byte| u16::from(*byte) == number));
                    joined.bytes.len()
                }));
            });
        }
        assert_eq!(came, lens);
        assert_eq!([near.counters(), far.counters()], [&Counters::default(); 2]);
        segments
    }

    /// The number of resets that the kernel has sent (RFC 4022, tcpOutRsts).
    fn resets(host: &Namespace) -> u64 {
        let told = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let told = host.run(told).unwrap();
        let [names, values] =
            told.lines().filter(|line| line.starts_with("Tcp:")).collect::<Vec<_>>()[..]
        else {
            panic!("{told}");
        };
        let place = names.split(' ').position(|name| name == "OutRsts").unwrap();
        values.split(' ').nth(place).unwrap().parse().unwrap()
    }

    #[test]
    fn frames_arrive_as_they_were_sent_wherever_they_are_cut_and_joined() {
        if !needs::root() {
            return;
        }
        let lens = [18, 19, 1000, 1361, 5000, 60_000];
        for ends in [["192.0.2.1", "192.0.2.2"], ["fd00::1", "fd00::2"]] {
            let ends = ends.map(|address| address.parse().unwrap());
            let (hosts, mut underlays) = hosts(ends);
            // The next hop is unknown.
            let until = Instant::now() + Duration::from_secs(3600);
            stt(&mut underlays[0]).routes.insert(ends[1], Route { until, mtu: MTU, hop: None });
            let cut = carry(&hosts[0], &mut underlays, ends, &lens);
            let most = if ends[0].is_ipv4() { 1360 } else { 1340 };
            assert_eq!(cut, lens.iter().map(|len| len.div_ceil(most)).sum::<usize>());

            stt(&mut underlays[0]).routes.clear();
            while hosts[0].run(|| stt(&mut underlays[0]).route(ends[1])).unwrap().hop.is_none() {
                stt(&mut underlays[0]).routes.clear();
            }
            let whole = carry(&hosts[0], &mut underlays, ends, &lens);
            assert_eq!(whole, lens.len(), "a cable takes large packets whole");
            carry(&hosts[0], &mut underlays, ends, &[LONGEST]);

            assert_eq!(resets(&hosts[1]), 0, "the kernel leaves them alone");

            // An interface that is down is not used any more.
            let down = LinkChange { up: Some(false), ..LinkChange::default() };
            Netlink::open_in(&hosts[0]).unwrap().change_link(INTERFACE, down).unwrap();
            underlays[0].send(ends[1], 0, MARKING, Len::Exactly(100), |bytes| bytes.fill(0));
            assert!(hosts[0].run(|| underlays[0].flush()).unwrap());
            assert_eq!(underlays[0].counters().unsent, 1);
            assert!(stt(&mut underlays[0]).routes.is_empty());
        }
    }

    #[test]
    fn an_address_can_be_opened_once() {
        if !needs::root() {
            return;
        }
        let at = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 6));
        let host = joined::alone().unwrap();
        let open = || Underlay::open(at, Transport::Stt { mtu: None }, 64);
        let _first = host.run(open).unwrap().unwrap();
        let error = host.run(open).unwrap().err().unwrap().to_string();
        assert!(error.contains("7471") && error.contains("another tunnel has its port"), "{error}");
    }
}

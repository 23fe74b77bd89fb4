//! The UDP gate against a real kernel: sockets in a namespace of their own, behind a TAP port.
//!
//! What a flood does is written out frame by frame here, so that it is known to the byte what a
//! socket should get.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kernel::netlink::{PATIENCE, await_addresses};
use kernel::netns::Namespace;
use port::{FrameView, Port, Taken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit, setrlimit};
use tap::{TapConfig, TapPort};
use udp_gate::{Share, SocketState, UdpGate, UnseenStatus, Verdict};
use units::Mac;
use wire::checksum::{Sum, pseudo_header};
use wire::{Offload, PartialChecksum, Segment, SegmentKind};

const HERE: [IpAddr; 2] = [v4(2), v6(2)];
const PEER: [IpAddr; 2] = [v4(1), v6(1)];

/// No test takes so long, unless a wake-up is lost.
const LONG: Duration = Duration::from_secs(20);

const fn v4(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, host))
}

const fn v6(host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host))
}

/// A container at a port of ours, and the gate before it.
struct World {
    name: String,
    namespace: Namespace,
    inode: u64,
    port: TapPort,
    gate: UdpGate,
}

impl World {
    /// A container; `before` runs inside before the gate is there.
    fn new<T>(name: &str, before: impl FnOnce(&Namespace) -> T) -> (Self, T) {
        let name = format!("zovn-t-{name}-{}", std::process::id());
        let namespace = Namespace::create(&name).unwrap();
        let guard = Named(name.clone());
        let mut config = TapConfig::new(&*name, "eth0", Mac::local(2));
        config.mtu = 65_521;
        config.addresses = vec!["10.9.0.2/24".parse().unwrap(), "fd09::2/64".parse().unwrap()];
        let port = TapPort::attach(&config).unwrap();
        let deadline = Instant::now() + PATIENCE;
        await_addresses(&namespace, &config.interface, config.addresses, deadline).unwrap();
        let before = before(&namespace);
        let mut gate = UdpGate::load().unwrap();
        let inode = gate.serve(Namespace::open(&name).unwrap()).unwrap();
        std::mem::forget(guard);
        (Self { name, namespace, inode, port, gate }, before)
    }

    fn bind(&self, address: &str, buffer: usize) -> UdpSocket {
        bind(&self.namespace, address, buffer)
    }

    fn verdict(&mut self, frame: &Frame) -> Verdict {
        self.gate.verdict(self.inode, &frame.view())
    }

    /// Transmits a frame if it may go.
    fn offer(&mut self, frame: &Frame) -> bool {
        if matches!(self.verdict(frame), Verdict::Hold(..)) {
            return false;
        }
        assert_eq!(self.port.transmit(&frame.view()).unwrap(), Taken::Yes);
        self.port.flush().unwrap();
        self.gate.passed();
        true
    }

    /// Transmits a frame as soon as it may go; tells whether it had to wait.
    fn send(&mut self, frame: &Frame) -> bool {
        let mut waited = false;
        while !self.offer(frame) {
            waited = true;
            self.sleep();
        }
        waited
    }

    /// Sleeps until a held flow may go.
    fn sleep(&mut self) {
        // After a tick, held flows are to be asked about again first.
        if !self.gate.tick() && self.gate.arm() != Some(Duration::ZERO) {
            assert!(self.bell_rings(LONG), "no wake-up: {:?}", self.sockets());
            self.gate.drain();
        }
    }

    /// Whether nothing that is held may go.
    fn may_sleep(&mut self) -> bool {
        self.gate.tick();
        self.gate.arm() != Some(Duration::ZERO)
    }

    fn bell_rings(&self, wait: Duration) -> bool {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.gate, PollFlags::IN)], Some(&wait)).unwrap() == 1
    }

    /// Sends until the socket is full; returns how many went.
    fn fill(&mut self, frame: impl Fn(u64) -> Frame) -> u64 {
        (0..1_000_000).find(|number| !self.offer(&frame(*number))).expect("a buffer has an end")
    }

    fn sockets(&self) -> Vec<SocketState> {
        self.gate.sockets().filter(|socket| socket.namespace == self.inode).collect()
    }

    fn socket(&self, port: u16) -> SocketState {
        self.sockets().into_iter().find(|socket| socket.local.port() == port).unwrap()
    }

    /// Datagrams that the container's kernel dropped for want of room.
    fn lost(&self) -> u64 {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let (four, six) =
            self.namespace.run(|| (read("snmp").unwrap(), read("snmp6").unwrap())).unwrap();
        let mut lines = four.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let four = names
            .split(' ')
            .zip(values.split(' '))
            .find(|(name, _)| *name == "RcvbufErrors")
            .unwrap()
            .1;
        let six = six.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors")).unwrap();
        four.parse::<u64>().unwrap() + six.trim().parse::<u64>().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(Named(std::mem::take(&mut self.name)));
    }
}

struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = Namespace::delete(&self.0);
    }
}

fn bind(namespace: &Namespace, address: &str, buffer: usize) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    if buffer > 0 {
        sockopt::set_socket_recv_buffer_size(&socket, buffer).unwrap();
    }
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// A frame from the peer.
struct Frame {
    bytes: Vec<u8>,
    offload: Offload,
}

impl Frame {
    /// A datagram to one of our ports, its number in the first 8 bytes of `len`.
    fn new(version: usize, ports: (u16, u16), number: u64, len: usize) -> Self {
        Self::to(HERE[version], PEER[version], Mac::local(2), ports, number, len)
    }

    fn to(to: IpAddr, from: IpAddr, mac: Mac, ports: (u16, u16), number: u64, len: usize) -> Self {
        let mut payload = vec![0; len];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let udp = wire::udp::Header::new(ports.0, ports.1, len).unwrap();
        let mut udp = [bytes(&udp), payload].concat();
        let (ip, ethertype, addresses) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = wire::ipv4::Header::new(from, to, 17, udp.len()).unwrap();
                (bytes(&ip), wire::ethernet::ethertype::IPV4, [from.octets(), to.octets()].concat())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = wire::ipv6::Header::new(from, to, 17, udp.len()).unwrap();
                (bytes(&ip), wire::ethernet::ethertype::IPV6, [from.octets(), to.octets()].concat())
            }
            _ => unreachable!("one version at a time"),
        };
        // The field holds the pseudo-header's sum, and the kernel completes it.
        let sum = !pseudo_header(&addresses, 17, udp.len()).checksum();
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let ethernet = wire::ethernet::Header::new(mac, Mac::local(1), ethertype);
        let checksum = Some(PartialChecksum { start: (14 + ip.len()) as u16, offset: 6 });
        let bytes = [bytes(&ethernet), ip, udp].concat();
        Self { bytes, offload: Offload { checksum, ..Offload::NONE } }
    }

    /// A frame that stands for datagrams of `size` bytes.
    fn cut_into(mut self, size: u16) -> Self {
        let header_len = self.offload.checksum.unwrap().start + 8;
        self.offload.segment =
            Some(Segment { kind: SegmentKind::Udp, ecn: false, header_len, size });
        self
    }

    /// The same IPv4 datagram in fragments, with this identification.
    fn fragments(&self, identification: u16, size: usize) -> Vec<Self> {
        let (head, mut udp) = (&self.bytes[..34], self.bytes[34..].to_vec());
        udp[6..8].fill(0); // No checksum.
        let count = udp.len().div_ceil(size);
        udp.chunks(size)
            .enumerate()
            .map(|(i, chunk)| {
                let mut bytes = [head, chunk].concat();
                let more = if i + 1 < count { 0x2000 } else { 0 };
                bytes[16..18].copy_from_slice(&(20 + chunk.len() as u16).to_be_bytes());
                bytes[18..20].copy_from_slice(&identification.to_be_bytes());
                bytes[20..22].copy_from_slice(&((i * size / 8) as u16 | more).to_be_bytes());
                bytes[24..26].fill(0);
                let sum = Sum::of(&bytes[14..34]).checksum();
                bytes[24..26].copy_from_slice(&sum.to_be_bytes());
                Self { bytes, offload: Offload::NONE }
            })
            .collect()
    }

    fn view(&self) -> FrameView<'_> {
        FrameView::noted(&self.bytes, &self.offload)
    }
}

fn bytes<T: zerocopy::IntoBytes + zerocopy::Immutable>(header: &T) -> Vec<u8> {
    header.as_bytes().to_vec()
}

/// The number of the next datagram.
fn read(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 65_536];
    let len = socket.recv(&mut buffer).unwrap();
    assert!(len >= 8);
    u64::from_be_bytes(buffer[..8].try_into().unwrap())
}

/// Reads until there is nothing.
fn read_all(socket: &UdpSocket) -> u64 {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 65_536];
    let count = std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count();
    socket.set_nonblocking(false).unwrap();
    count as u64
}

/// A flood of 20,000 datagrams against a reader that does some work for each.
fn flood(name: &str, address: &str, buffer: usize, version: usize, connect: bool) {
    const COUNT: u64 = 20_000;
    let (mut world, ()) = World::new(name, |_| ());
    let socket = world.bind(address, buffer);
    if connect {
        socket.connect(SocketAddr::new(PEER[version], 7000)).unwrap();
    }
    let waited = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for number in 0..COUNT {
                assert_eq!(read(&socket), number, "a gap");
                (0..200).for_each(|_| std::hint::spin_loop());
            }
        });
        let waited = (0..COUNT)
            .filter(|number| {
                world.send(&Frame::new(
                    version,
                    (7000, 5000),
                    *number,
                    8 + (*number % 1400) as usize,
                ))
            })
            .count();
        reader.join().unwrap();
        waited
    });
    assert!(waited > 0, "the reader was never too slow");
    assert_eq!((world.lost(), world.socket(5000).lost), (0, 0));
    assert_eq!(world.socket(5000).queued, COUNT);
    assert_eq!(world.socket(5000).occupied_bytes, 0);
}

#[test]
fn a_slow_reader_loses_nothing_on_an_address() {
    flood("ug-four", "10.9.0.2:5000", 20_000, 0, false);
}

#[test]
fn a_slow_reader_loses_nothing_over_ipv6() {
    flood("ug-six", "[fd09::2]:5000", 20_000, 1, false);
}

#[test]
fn a_slow_reader_loses_nothing_on_any_address() {
    flood("ug-any", "0.0.0.0:5000", 20_000, 0, false);
}

#[test]
fn a_slow_reader_loses_nothing_on_any_address_of_both_versions() {
    flood("ug-both", "[::]:5000", 20_000, 0, false);
}

#[test]
fn a_slow_reader_loses_nothing_when_connected() {
    flood("ug-conn", "[fd09::2]:5000", 20_000, 1, true);
}

#[test]
fn the_smallest_buffer_takes_one_at_a_time() {
    flood("ug-small", "10.9.0.2:5000", 1, 0, false);
}

#[test]
fn a_large_buffer_is_filled_before_anybody_waits() {
    let (mut world, ()) = World::new("ug-large", |_| ());
    let socket = world.bind("10.9.0.2:5000", 100_000);
    let went = world.fill(|number| Frame::new(0, (7000, 5000), number, 1400));
    let state = world.socket(5000);
    assert!(state.limit_bytes - state.occupied_bytes < 6000, "{state:?}");
    assert_eq!((read_all(&socket), world.lost()), (went, 0));
}

#[test]
fn a_frame_is_never_charged_more_than_expected() {
    let (mut world, ()) = World::new("ug-charge", |_| ());
    let socket = world.bind("10.9.0.2:5000", 100_000);
    let lens = (8..3000).chain((3000..65_400).step_by(61));
    for len in lens {
        let frame = Frame::new(0, (7000, 5000), 0, len);
        assert!(world.offer(&frame));
        let charged = world.socket(5000).occupied_bytes as usize;
        assert!(charged <= 2 * frame.bytes.len() + 1280, "{len} bytes of payload took {charged}");
        read(&socket);
    }
    assert_eq!(world.lost(), 0);
}

#[test]
fn a_full_socket_does_not_hold_flows_of_others() {
    let (mut world, ()) = World::new("ug-two", |_| ());
    let full = world.bind("10.9.0.2:5000", 5000);
    let other = world.bind("10.9.0.2:5001", 5000);
    let connected = world.bind("10.9.0.2:5002", 5000);
    connected.connect(SocketAddr::new(PEER[0], 7000)).unwrap();

    world.fill(|number| Frame::new(0, (7000, 5000), number, 100));
    let held = world.verdict(&Frame::new(0, (7000, 5000), 0, 100));
    assert_eq!(held, world.verdict(&Frame::new(0, (7001, 5000), 0, 100)), "one socket, one fate");
    for number in 0..100 {
        assert!(world.offer(&Frame::new(0, (7000, 5001), number, 100)));
        assert_eq!(read(&other), number);
        assert!(
            world.offer(&Frame::new(1, (7000, 5000), number, 100)),
            "nobody listens: the kernel says so"
        );
    }
    world.fill(|number| Frame::new(0, (7000, 5002), number, 100));
    assert!(world.offer(&Frame::new(0, (7001, 5002), 0, 100)), "connected to another");
    drop(full);
    assert_eq!(world.lost(), 0);
}

#[test]
fn a_socket_closed_while_full_frees_its_slot_and_wakes_who_waits() {
    let (mut world, ()) = World::new("ug-close", |_| ());
    let frame = Frame::new(0, (7000, 5000), 0, 100);
    let socket = world.bind("10.9.0.2:5000", 5000);
    world.fill(|number| Frame::new(0, (7000, 5000), number, 100));
    assert!(world.may_sleep());
    assert!(!world.bell_rings(Duration::ZERO));
    drop(socket);
    assert!(world.bell_rings(LONG));
    world.gate.drain();
    assert!(world.offer(&frame), "nobody listens any more");
    assert!(world.sockets().is_empty());

    for round in 0..3 {
        let socket = world.bind("10.9.0.2:5000", 5000);
        let went = world.fill(|number| Frame::new(0, (7000, 5000), number, 100));
        assert!(went > 1, "round {round}");
        assert_eq!(read_all(&socket), went);
        assert!(world.offer(&frame));
    }
    assert_eq!(world.lost(), 0);
}

#[test]
fn the_bell_rings_once_there_is_room_and_only_if_it_is_asked_for() {
    let (mut world, ()) = World::new("ug-bell", |_| ());
    let frame = Frame::new(0, (7000, 5000), 0, 100);
    let socket = world.bind("10.9.0.2:5000", 5000);
    assert_eq!(world.gate.arm(), None, "nobody waits");
    let went = world.fill(|number| Frame::new(0, (7000, 5000), number, 100));
    assert_eq!(read_all(&socket), went);
    assert!(!world.bell_rings(Duration::ZERO), "nobody asked");
    assert_eq!(world.gate.arm(), Some(Duration::ZERO), "it may go already");
    assert!(world.offer(&frame));
    world.fill(|_| Frame::new(0, (7000, 5000), 0, 100));
    assert!(world.may_sleep());
    read_all(&socket);
    assert!(world.bell_rings(LONG));
    world.gate.drain();
    assert!(!world.bell_rings(Duration::ZERO));
    assert!(world.offer(&frame));
}

#[test]
fn room_without_an_event_is_found() {
    let (mut world, ()) = World::new("ug-unseen", |_| ());
    let socket = world.bind("10.9.0.2:5000", 5000);
    let frame = Frame::new(0, (7000, 5000), 0, 100);
    world.fill(|_| Frame::new(0, (7000, 5000), 0, 100));
    assert!(world.may_sleep());
    sockopt::set_socket_recv_buffer_size(&socket, 100_000).unwrap();
    assert!(!world.offer(&frame) && !world.bell_rings(Duration::ZERO));
    let begun = Instant::now();
    loop {
        let wait = world.gate.arm().unwrap();
        if world.bell_rings(wait) {
            break;
        }
        assert!(begun.elapsed() < LONG && !world.offer(&frame));
    }
    world.gate.drain();
    assert!(world.offer(&frame));
}

#[test]
fn sockets_that_are_older_than_the_gate_are_known() {
    let (mut world, socket) = World::new("ug-old", |namespace| {
        let socket = bind(namespace, "10.9.0.2:5000", 5000);
        let neighbour = namespace.run(|| UdpSocket::bind("10.9.0.2:0")).unwrap().unwrap();
        // As full as it gets.
        for _ in 0..100 {
            neighbour.send_to(&[0; 100], "10.9.0.2:5000").unwrap();
        }
        socket
    });
    let before = world.lost();
    let frame = Frame::new(0, (7000, 5000), 1, 100);
    assert!(!world.offer(&frame));
    read_all(&socket);
    assert!(world.offer(&frame));
    assert_eq!((read(&socket), world.lost()), (1, before));
}

#[test]
fn a_namespace_that_is_not_served_has_no_sockets() {
    let (mut world, ()) = World::new("ug-free", |_| ());
    let inode = world.inode;
    world.gate.unserve(inode);
    let _socket = world.bind("10.9.0.2:5000", 5000);
    (0..100).for_each(|number| assert!(world.offer(&Frame::new(0, (7000, 5000), number, 100))));
    assert!(world.sockets().is_empty());
    assert!(world.lost() > 0, "what the gate is there to prevent");
}

#[test]
fn a_thousand_sockets_are_told_apart() {
    let (mut world, ()) = World::new("ug-many", |_| ());
    for round in 0..3 {
        let sockets: Vec<_> =
            (0..1000).map(|i| world.bind(&format!("10.9.0.2:{}", 10_000 + i), 3000)).collect();
        for i in (0..1000).step_by(2) {
            world.fill(|number| Frame::new(0, (7000, 10_000 + i), number, 100));
        }
        for i in 0..1000 {
            assert_eq!(
                world.offer(&Frame::new(0, (7000, 10_000 + i), 0, 100)),
                i % 2 == 1,
                "round {round}: {i}"
            );
        }
        assert_eq!(world.sockets().len(), 1000);
        drop(sockets);
        assert!(world.sockets().is_empty());
    }
    let share = world.gate.share(world.inode).unwrap();
    assert_eq!((world.lost(), share), (0, Share { watched: 0, untracked: 0, lost: 0 }));
}

#[test]
fn a_namespace_gets_its_share_of_the_slots_and_no_more() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let (mut world, sockets) = World::new("ug-share", |namespace| {
        (0..4100)
            .map(|i| bind(namespace, &format!("10.9.0.2:{}", 10_000 + i), 0))
            .collect::<Vec<_>>()
    });
    let share = world.gate.share(world.inode).unwrap();
    assert_eq!(share, Share { watched: 4096, untracked: 4, lost: 0 });
    drop(sockets);
    assert_eq!(world.gate.share(world.inode).unwrap().watched, 0);
    let _socket = world.bind("10.9.0.2:5000", 5000);
    world.fill(|number| Frame::new(0, (7000, 5000), number, 100));
    assert_eq!(world.lost(), 0);
}

#[test]
fn what_a_namespace_loses_is_counted() {
    let (world, ()) = World::new("ug-lost", |_| ());
    let _socket = world.bind("10.9.0.2:5000", 5000);
    let neighbour = world.bind("10.9.0.2:0", 0);
    (0..100).for_each(|_| assert_eq!(neighbour.send_to(&[0; 100], "10.9.0.2:5000").unwrap(), 100));
    let lost = world.lost();
    assert!(lost > 0);
    assert_eq!(world.gate.share(world.inode).unwrap().lost, lost);
}

#[test]
fn a_frame_of_many_datagrams_waits_for_room_for_all() {
    let (mut world, ()) = World::new("ug-gso", |_| ());
    let socket = world.bind("10.9.0.2:5000", 100_000);
    // 20 datagrams of 1,000 bytes.
    let frame = |number| Frame::new(0, (7000, 5000), number, 20_000).cut_into(1000);
    let mut datagrams = 0;
    for _ in 0..50 {
        let went = world.fill(frame);
        assert!(went > 0);
        datagrams += 20 * went;
        assert_eq!(read_all(&socket), 20 * went);
    }
    assert_eq!((world.lost(), world.socket(5000).queued), (0, datagrams));
}

#[test]
fn fragments_of_many_datagrams_find_their_places() {
    let (mut world, ()) = World::new("ug-frag", |_| ());
    let socket = world.bind("10.9.0.2:5000", 60_000);
    let mut received = 0;
    for round in 0..20 {
        // Eight senders' fragments, one of each in turn: a place is taken long before it is filled.
        let senders = Cell::new(0);
        let mut queues: Vec<_> = (0..8u16)
            .map(|sender| {
                let from = v4(100 + sender as u8);
                let whole = Frame::to(HERE[0], from, Mac::local(2), (7000, 5000), 0, 8000);
                whole.fragments(round, 1480).into_iter()
            })
            .map(|queue| queue.peekable())
            .filter_map(|mut queue| {
                // The first fragments decide who may go.
                let goes = world.offer(queue.peek().unwrap());
                queue.next();
                goes.then(|| senders.set(senders.get() + 1)).map(|()| queue)
            })
            .collect();
        assert!((1..8).contains(&senders.get()), "{} found a place", senders.get());
        while !queues.is_empty() {
            queues.retain_mut(|queue| {
                let Some(fragment) = queue.next() else { return false };
                assert!(matches!(world.verdict(&fragment), Verdict::Go(_)));
                assert!(world.offer(&fragment));
                true
            });
        }
        let read = read_all(&socket);
        assert_eq!(read, senders.get());
        received += read;
    }
    assert_eq!((world.lost(), world.socket(5000).queued), (0, received));
}

#[test]
fn later_fragments_wait_only_for_their_first_one() {
    let (mut world, ()) = World::new("ug-later", |_| ());
    let socket = world.bind("10.9.0.2:5000", 20_000);
    let from = |host| Frame::to(HERE[0], v4(host), Mac::local(2), (7000, 5000), host.into(), 8000);
    let [one, other] = [from(101), from(102)].map(|whole| whole.fragments(7, 1480));
    assert!(world.offer(&one[0]));
    let Verdict::Hold(flow, _) = world.verdict(&other[0]) else {
        panic!("there is no room for two")
    };
    assert!(matches!(world.verdict(&other[1]), Verdict::Hold(own, _) if own != flow));
    for fragment in &one[1..] {
        assert!(matches!(world.verdict(fragment), Verdict::Go(own) if own != flow));
        assert!(world.offer(fragment));
    }
    assert_eq!(read(&socket), 101);
    assert!(other.iter().all(|fragment| world.offer(fragment)));
    assert_eq!((read(&socket), world.lost()), (102, 0));
}

#[test]
fn a_tiny_fragment_of_the_largest_datagram_leaves_others_room() {
    let (mut world, ()) = World::new("ug-tiny", |_| ());
    let socket = world.bind("10.9.0.2:5000", 0);
    let whole = Frame::new(0, (7001, 5000), 0, 65_000);
    assert!(world.offer(&whole.fragments(7, 8)[0]));
    for number in 0..1000 {
        assert!(world.offer(&Frame::new(0, (7000, 5000), number, 1400)));
        assert_eq!(read(&socket), number);
    }
    assert_eq!(world.lost(), 0);
}

#[test]
fn every_receiver_of_a_group_must_have_room() {
    let (mut world, ()) = World::new("ug-group", |_| ());
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let sockets: Vec<_> = (0..2)
        .map(|_| {
            let socket = world
                .namespace
                .run(|| reusable(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5000))))
                .unwrap();
            sockopt::set_socket_recv_buffer_size(&socket, 5000).unwrap();
            socket.join_multicast_v4(&group, &Ipv4Addr::new(10, 9, 0, 2)).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            socket
        })
        .collect();
    let mac = Mac([1, 0, 0x5e, 1, 2, 3]);
    let frame = |number| Frame::to(group.into(), PEER[0], mac, (7000, 5000), number, 100);
    let went = world.fill(frame);
    assert!(went > 1);
    assert_eq!(read_all(&sockets[0]), went);
    assert!(!world.offer(&frame(0)), "one has room, the other has none");
    assert_eq!(read_all(&sockets[1]), went);
    assert!(world.offer(&frame(0)));
    assert_eq!(world.lost(), 0);
}

#[test]
fn a_group_that_shares_a_port_is_held_together() {
    let (mut world, ()) = World::new("ug-reuse", |_| ());
    let address = SocketAddr::new(HERE[0], 5000);
    let sockets: Vec<_> =
        (0..4).map(|_| world.namespace.run(|| reusable(address)).unwrap()).collect();
    for socket in &sockets {
        sockopt::set_socket_recv_buffer_size(socket, 5000).unwrap();
    }
    let mut sent = 0;
    for source in 7000..7100 {
        sent += world.fill(|number| Frame::new(0, (source, 5000), number, 100));
        if source % 3 == 0 {
            sent -= sockets.iter().map(read_all).sum::<u64>();
        }
    }
    assert_eq!(sockets.iter().map(read_all).sum::<u64>(), sent);
    assert_eq!(world.lost(), 0);
}

/// A socket that shares its port with others like it.
fn reusable(address: SocketAddr) -> UdpSocket {
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket(family, rustix::net::SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(socket.as_fd(), &address).unwrap();
    socket.into()
}

/// Calls a program in a namespace.
fn ip(namespace: &Namespace, words: &str) {
    let run = || Command::new("ip").args(words.split(' ')).output().unwrap();
    let output = namespace.run(run).unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
}

/// Datagrams to a tunnel's port are unwrapped there, and end at a socket of another address.
#[test]
fn what_ends_a_tunnel_in_the_container_is_counted_and_told_of() {
    for is_older in [true, false] {
        let tunnel = |namespace: &Namespace| {
            ip(
                namespace,
                "link add vx0 type vxlan id 7 local 10.9.0.2 remote 10.9.0.1 dstport 4789",
            );
            ip(namespace, "link set vx0 up");
        };
        let (mut world, ()) = World::new("ug-tunnel", |namespace| {
            if is_older {
                tunnel(namespace);
            }
        });
        if !is_older {
            tunnel(&world.namespace);
        }
        let deadline = Instant::now() + LONG;
        let mut count = 0;
        while world.gate.unseen(world.inode).datagrams == 0 {
            assert!(Instant::now() < deadline);
            assert!(world.offer(&Frame::new(0, (7000, 4789), count, 100)));
            world.gate.tick();
            count += 1;
            thread::sleep(Duration::from_millis(10));
        }
        let last = Some(SocketAddr::new(HERE[0], 4789));
        assert_eq!(world.gate.unseen(world.inode), UnseenStatus { datagrams: 1, last });
    }
}

/// A container's interface has a second one beside it, which is in a namespace of its own.
#[test]
fn what_the_container_leads_on_is_counted_and_told_of() {
    let (mut world, ()) = World::new("ug-led", |_| ());
    let inner = format!("{}-inner", world.name);
    let within = Namespace::create(&inner).unwrap();
    let _guard = Named(inner.clone());
    let (mac, address) = (Mac::local(3), v4(3));
    ip(
        &world.namespace,
        &format!("link add mv0 link eth0 address {mac} netns {inner} type macvlan mode bridge"),
    );
    ip(&within, &format!("address add {address}/24 dev mv0"));
    ip(&within, "link set mv0 up");
    let (seen, led) = (world.bind("10.9.0.2:5000", 0), bind(&within, "10.9.0.3:5000", 0));
    let mut count = 0;
    let deadline = Instant::now() + LONG;
    while world.gate.unseen(world.inode).datagrams == 0 {
        assert!(Instant::now() < deadline);
        assert!(world.offer(&Frame::new(0, (7000, 5000), count, 8)));
        assert!(world.offer(&Frame::to(address, PEER[0], mac, (7000, 5000), count, 8)));
        assert_eq!((read(&seen), read(&led)), (count, count));
        world.gate.tick();
        count += 1;
        thread::sleep(Duration::from_millis(10));
    }
    assert!(count > 10, "the first ones of a flow are no news");
    let last = Some(SocketAddr::new(address, 5000));
    assert_eq!(world.gate.unseen(world.inode), UnseenStatus { datagrams: 1, last });
}

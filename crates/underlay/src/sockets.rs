//! The sockets of one host's tunnels, and their send queues.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmsg,
};

use units::{Instant, Rate};
use wire::udp;

use super::address::socket_address;
use super::batch::{Batch, LONGEST, Len, Queue};
use super::large::{Cut, Fate, Larges};
use super::marking::{Marker, Marking};
use super::options::{self, SEND_BUFFER};
use super::pace::{Pace, Turn};
use super::stt::{self, Stt};
use super::transport::Transport;

/// The number of source ports over which flows are spread, so that a fabric with several paths can
/// use them (RFC 8926 §3.3).
const SENDERS: usize = 8;

/// A frame of up to this length is sent by one system call, even when it is cut into datagrams with
/// headers of their own.
pub const AT_ONCE: u32 = 63_000;

/// The number of joined packets that one system call receives.
const RECEIVED_AT_ONCE: usize = 16;

/// The length of a TCP header.
const TCP: usize = wire::tcp::Header::LEN;

/// The longest packet that the kernel makes by joining.
const JOINED: usize = 64 << 10;

/// The size of the receive buffer, in bytes as the kernel counts them.
const RECEIVE_BUFFER: usize = 64 << 20;

/// The most bytes that are sent before the next flush. Sending takes time in which nothing is
/// received.
const MOST_AHEAD: usize = 256 << 10;

/// Why large segments leave in parts at a link of a lower rate.
const TOO_SLOW: &str = "at `rate`, below 21gbit, others would wait too long for a whole one";

/// Why a host's sockets cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {address}, this host's tunnel address: {source}{hint}")]
pub struct OpenError {
    operation: &'static str,
    address: SocketAddr,
    source: io::Error,
    hint: &'static str,
}

/// The sockets of one host's tunnels.
pub struct Underlay {
    listener: OwnedFd,
    address: IpAddr,
    senders: Vec<Sender>,
    transport: Transport,
    pub(super) exits: Exits,
    /// Keeps to the link's rate, if that is declared.
    pace: Option<Pace>,
    /// The last flush reported sent datagrams, and so will the next: nothing is sent in between.
    tells: bool,
    /// The buffers that packets are received into.
    staging: Box<[u8]>,
}

/// The other ways to send datagrams, and the counters.
pub(super) struct Exits {
    port: u16,
    pub(super) stt: Option<Stt>,
    /// `None` if the transport does not support it.
    pub(super) larges: Option<Larges>,
    counters: Counters,
}

struct Sender {
    socket: OwnedFd,
    /// Its port, if the transport has ports.
    from: u16,
    marker: Marker,
    queue: Queue,
    /// How many bytes were sent since the last flush, without waiting for the next.
    ahead: usize,
}

/// Counters of errors.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Datagrams that the kernel refused.
    pub unsent: u64,
    /// The error of the last of them.
    pub last_error: Option<String>,
}

/// A received datagram.
#[derive(Debug)]
pub struct Received<'a> {
    /// The source address.
    pub from: IpAddr,
    /// Source and destination port, if the transport has ports.
    pub ports: [u16; 2],
    /// The traffic class of its packet: DSCP and ECN.
    pub traffic_class: u8,
    /// The payload, which may be decrypted in place.
    pub payload: &'a mut [u8],
}

/// A datagram that the kernel has accepted.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The destination address.
    pub to: IpAddr,
    /// Source and destination port, if the transport has ports.
    pub ports: [u16; 2],
    /// The traffic class of its packet: DSCP and ECN.
    pub traffic_class: u8,
    /// The payload.
    pub payload: &'a [u8],
}

/// A received packet in the buffers.
struct Joined {
    from: Option<SocketAddr>,
    traffic_class: u8,
    len: usize,
    /// The length of the datagrams that it was joined from. The last may be shorter.
    stride: usize,
}

impl Underlay {
    /// Opens the tunnels' port or protocol at an address of this host. Sent packets have this TTL.
    ///
    /// # Errors
    ///
    /// [`OpenError`], usually because the address is not this host's, or another process has the
    /// port.
    pub fn open(address: IpAddr, transport: Transport, ttl: u8) -> Result<Self, OpenError> {
        let because = |operation, address: SocketAddr| {
            move |source: io::Error| OpenError {
                operation,
                address,
                hint: hint_for(&source),
                source,
            }
        };
        let bind = |port| {
            let at = SocketAddr::new(address, port);
            let socket = options::bind(at, transport).map_err(because("bind to", at))?;
            options::set(&socket, address.is_ipv6(), ttl)
                .map_err(because("set up a socket at", at))?;
            Ok(socket)
        };
        let (port, senders) = match transport {
            Transport::Udp(port) => (port, SENDERS),
            // Without ports, flows need no separate sockets. With STT each packet has its own
            // source port.
            Transport::Ip(_) | Transport::Stt { .. } => (0, 1),
        };
        let at = SocketAddr::new(address, port);
        let stt = match transport {
            Transport::Stt { mtu } => {
                let at = SocketAddr::new(address, transport.port());
                Some(Stt::open(address, ttl, mtu).map_err(because("listen at", at))?)
            }
            _ => None,
        };
        let larges = matches!(transport, Transport::Udp(_)).then(|| Larges::new(address, ttl));
        let listener = bind(port)?;
        options::set_receiving(&listener, address.is_ipv6(), transport, RECEIVE_BUFFER)
            .map_err(because("receive at", at))?;
        let senders = (0..senders).map(|_| {
            let socket = match transport {
                Transport::Udp(_) => bind(0)?,
                // Another raw socket would receive a copy of every packet.
                _ => listener.try_clone().map_err(because("send from", at))?,
            };
            options::set_sending(&socket, SEND_BUFFER).map_err(because("send from", at))?;
            let from = options::port(&socket);
            let queue = Queue::new(matches!(transport, Transport::Udp(_)));
            Ok(Sender { socket, from, marker: Marker::default(), queue, ahead: 0 })
        });
        let senders = senders.collect::<Result<_, _>>()?;
        let exits = Exits { port: transport.port(), stt, larges, counters: Counters::default() };
        let staging = vec![0; RECEIVED_AT_ONCE * JOINED].into_boxed_slice();
        Ok(Self { listener, address, senders, transport, exits, pace: None, tells: false, staging })
    }

    /// Declares the link's rate, before anything is sent: what is sent is to be kept to it by
    /// whoever asks [`ready_at`](Self::ready_at), and little waits below.
    ///
    /// # Errors
    ///
    /// [`OpenError`]
    pub fn set_rate(&mut self, link: Rate) -> Result<(), OpenError> {
        let pace = Pace::new(link);
        let buffer = pace.send_buffer();
        for Sender { socket, queue, .. } in &mut self.senders {
            options::set_sending(socket, buffer).map_err(|source| OpenError {
                operation: "set up a socket at",
                address: SocketAddr::new(self.address, self.transport.port()),
                source,
                hint: "",
            })?;
            queue.bound(buffer, pace.batch());
        }
        self.exits.stt.iter_mut().for_each(|stt| stt.set_send_buffer(buffer));
        self.pace = Some(pace);
        Ok(())
    }

    /// It is `now`, until this is called again.
    pub fn set_now(&mut self, now: Instant) {
        self.pace.iter_mut().for_each(|pace| pace.set_now(now));
    }

    /// When the link's rate lets the next datagram go; in the past if it does now, or if no rate is
    /// declared.
    pub fn ready_at(&self, turn: Turn) -> Instant {
        self.pace.as_ref().map_or(Instant::ZERO, |pace| pace.ready_at(turn))
    }

    /// Whether the link's rate, if one is declared, lets the next datagram go now.
    pub fn is_ready(&self, turn: Turn) -> bool {
        self.pace.as_ref().is_none_or(|pace| pace.is_ready(turn))
    }

    /// The rate that is kept, and how many bytes were sent as the link counts them, if a rate is
    /// declared.
    pub fn paced(&self) -> Option<(Rate, u64)> {
        self.pace.as_ref().map(|pace| (pace.rate(), pace.sent_bytes()))
    }

    /// The path MTU to a host in bytes, as far as the kernel knows, else the interface's MTU.
    /// `None` if there is no route.
    pub fn mtu_to(&self, far: IpAddr) -> Option<u16> {
        options::mtu(self.address, far).ok()
    }

    /// Counters of errors.
    pub fn counters(&self) -> &Counters {
        &self.exits.counters
    }

    /// The sockets with waiting datagrams. Each is writable when the kernel has room.
    pub fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waiting = self.senders.iter().filter(|sender| !sender.queue.is_empty());
        waiting.map(|sender| sender.socket.as_fd())
    }

    /// The number of queued datagrams.
    pub fn queued(&self) -> usize {
        self.senders.iter().map(|sender| sender.queue.datagrams()).sum()
    }

    /// Whether a datagram of `flow` can be queued now: its queue has room, and not too much was
    /// sent since the last [`flush`](Self::flush).
    pub fn has_room(&self, flow: u32) -> bool {
        self.senders[wire::flow::place(flow, self.senders.len())].has_room()
    }

    /// Whether a datagram of any flow can be queued now.
    pub fn has_room_for_all(&self) -> bool {
        self.senders.iter().all(Sender::has_room)
    }

    /// Queues a datagram of `len` bytes, which `write` writes. The next [`flush`](Self::flush)
    /// sends it, behind earlier ones of its flow.
    ///
    /// # Panics
    ///
    /// If it has more than [`LONGEST`] bytes.
    pub fn send(
        &mut self,
        to: IpAddr,
        flow: u32,
        marking: Marking,
        len: Len,
        write: impl FnOnce(&mut [u8]),
    ) {
        let place = wire::flow::place(flow, self.senders.len());
        let queue = &mut self.senders[place].queue;
        let (Len::Exactly(bytes) | Len::AtLeast(bytes)) = len;
        if let Some(pace) = &mut self.pace {
            match (&self.exits.stt, self.transport) {
                (Some(stt), _) => pace.charge(to, TCP, stt.packets(to, bytes), bytes),
                (None, Transport::Udp(_)) => pace.charge_datagram(to, bytes),
                (None, _) => pace.charge(to, 0, 1, bytes),
            }
        }
        match &mut self.exits.stt {
            None => queue.push(to, marking, len, write),
            Some(stt) => {
                let len = Len::Exactly(TCP + bytes);
                queue.push(to, marking, len, |bytes| stt.write(to, flow, bytes, write));
            }
        }
    }

    /// Whether [large](Self::send_large) datagrams reach a host, cut by a network card or whole.
    pub fn carries_large(&mut self, to: IpAddr) -> bool {
        let takes = self.pace.as_ref().is_none_or(Pace::takes_large);
        takes
            && self
                .exits
                .larges
                .as_mut()
                .is_some_and(|larges| !matches!(larges.fate(to), Fate::Lost(_)))
    }

    /// The fate of [large](Self::send_large) datagrams to a host, as
    /// [`carries_large`](Self::carries_large) last found it.
    pub fn large_fate(&self, to: IpAddr) -> Option<Fate> {
        let larges = self.exits.larges.as_ref()?;
        match &self.pace {
            Some(pace) if !pace.takes_large() => Some(Fate::Lost(TOO_SLOW.into())),
            _ => larges.known(to).cloned(),
        }
    }

    /// As [`send`](Self::send), for a datagram that the network card cuts: the concatenation of
    /// these parts. It is lost unless the host [can be reached so](Self::carries_large). If sent
    /// datagrams are not reported, it is sent at once without a copy, behind the waiting ones.
    ///
    /// # Panics
    ///
    /// If it has more than [`LONGEST`] bytes.
    pub fn send_large(
        &mut self,
        to: IpAddr,
        flow: u32,
        marking: Marking,
        cut: Cut,
        parts: [&[u8]; 3],
    ) {
        let Self { senders, exits, pace, tells, .. } = self;
        let place = wire::flow::place(flow, senders.len());
        let sender = &mut senders[place];
        let len = parts.iter().map(|part| part.len()).sum();
        assert!(len <= LONGEST, "a datagram of {len} bytes was to be sent");
        if let Some(pace) = pace {
            let (packets, bytes) = cut.packets(len);
            pace.charge(to, udp::Header::LEN, packets, bytes);
        }
        let is_cut =
            exits.larges.as_ref().is_some_and(|larges| larges.known(to) != Some(&Fate::Whole));
        if is_cut
            && !*tells
            && sender.flush(exits, |_, _| {})
            && let Some(larges) = &mut exits.larges
        {
            let outcome = larges.send([sender.from, exits.port], to, marking, parts, cut);
            if exits.counters.are_done(1, outcome) {
                sender.ahead += len;
                return;
            }
        }
        sender.queue.push_large(to, marking, len, is_cut.then_some(cut), |mut into| {
            for part in parts {
                into.split_off_mut(..part.len()).expect("there is room").copy_from_slice(part);
            }
        });
    }

    /// Sends queued datagrams as far as the kernel has room. Returns whether that was all. Ends the
    /// reports of [`flush_telling`](Self::flush_telling).
    pub fn flush(&mut self) -> bool {
        self.tells = false;
        self.flush_with(|_, _| {})
    }

    /// As [`flush`](Self::flush), and reports each datagram that the kernel has accepted to `sent`.
    /// From then on datagrams are sent only by flushes, until [`flush`](Self::flush) is called.
    pub fn flush_telling(&mut self, mut sent: impl FnMut(Sent<'_>)) -> bool {
        self.tells = true;
        let transport = self.transport;
        self.flush_with(|from, batch| {
            let (to, traffic_class) = (batch.to, batch.marking.traffic_class);
            for payload in batch.bytes().chunks(batch.segment().into()) {
                let ports = ports(transport, from, payload);
                sent(Sent { to, ports, traffic_class, payload });
            }
        })
    }

    #[inline]
    fn flush_with(&mut self, mut sent: impl FnMut(u16, &Batch)) -> bool {
        let Self { senders, exits, .. } = self;
        senders.iter_mut().fold(true, |all, sender| {
            sender.ahead = 0;
            sender.flush(exits, &mut sent) & all
        })
    }

    /// Receives up to some hundreds of datagrams. Returns whether there may be more, also after an
    /// error, which is recorded ([`Counters::last_error`]).
    pub fn receive(&mut self, mut arrived: impl FnMut(Received<'_>)) -> bool {
        let Self { listener, staging, transport, address, exits, .. } = self;
        // Raw IPv4 sockets receive the IP header, too (raw(7)).
        let has_header = !matches!(transport, Transport::Udp(_)) && address.is_ipv4();
        let joined = match receive(listener, staging) {
            Ok(joined) => joined,
            Err(error) => {
                exits.counters.last_error = Some(format!("cannot receive: {error}"));
                return true;
            }
        };
        for (Joined { from, traffic_class, len, stride }, bytes) in
            joined.iter().zip(staging.chunks_mut(JOINED))
        {
            let Some(from) = *from else { continue };
            for payload in bytes[..*len].chunks_mut(*stride) {
                let header_len = if has_header {
                    payload.first().map_or(0, |first| 4 * usize::from(first & 0xf))
                } else {
                    0
                };
                let Some(payload) = payload.get_mut(header_len..) else { continue };
                let (from, ports) = (from.ip(), ports(*transport, from.port(), payload));
                arrived(Received { from, ports, traffic_class: *traffic_class, payload });
            }
        }
        joined.len() == RECEIVED_AT_ONCE
    }
}

impl Sender {
    /// Whether another datagram can be queued now.
    fn has_room(&self) -> bool {
        self.queue.has_room() && self.ahead < MOST_AHEAD
    }

    /// Sends waiting batches as far as the kernel has room, and reports each accepted one to
    /// `sent`. Returns whether that was all.
    #[inline]
    fn flush(&mut self, exits: &mut Exits, mut sent: impl FnMut(u16, &Batch)) -> bool {
        let Self { socket, from, marker, queue, .. } = self;
        let Exits { port, stt, larges, counters } = exits;
        queue.drain(|batch| {
            let outcome = match (batch.cut, &mut *stt, &mut *larges) {
                (Some(cut), _, Some(larges)) => {
                    let parts = [batch.bytes(), &[], &[]];
                    larges.send([*from, *port], batch.to, batch.marking, parts, cut)
                }
                (_, Some(stt), _) => stt.send(socket, marker, batch),
                _ => send(socket, marker, *port, batch),
            };
            if outcome.is_ok() {
                sent(*from, batch);
            }
            counters.are_done(batch.datagrams(), outcome)
        })
    }
}

impl Counters {
    /// Whether these datagrams are done: accepted or refused. They are not if the kernel has no
    /// room.
    fn are_done(&mut self, datagrams: usize, outcome: io::Result<()>) -> bool {
        match outcome {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                self.unsent += datagrams as u64;
                self.last_error = Some(error.to_string());
                true
            }
        }
    }
}

/// Readable when datagrams have arrived.
impl AsFd for Underlay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn send(socket: &OwnedFd, marker: &mut Marker, port: u16, batch: &Batch) -> io::Result<()> {
    marker.mark(socket, batch.to.is_ipv6(), batch.marking)?;
    let segment = batch.segment();
    let messages = [ControlMessage::UdpGsoSegments(&segment)];
    let messages = if batch.datagrams() > 1 { &messages[..] } else { &[] };
    let to = SockaddrStorage::from(SocketAddr::new(batch.to, port));
    let bytes = [IoSlice::new(batch.bytes())];
    sendmsg(socket.as_raw_fd(), &bytes, messages, MsgFlags::MSG_DONTWAIT, Some(&to))?;
    Ok(())
}

fn receive(socket: &OwnedFd, staging: &mut [u8]) -> io::Result<Vec<Joined>> {
    // Made anew for each call: the kernel overwrites the lengths, which would limit the next call.
    let mut headers =
        MultiHeaders::<SockaddrStorage>::preallocate(RECEIVED_AT_ONCE, Some(cmsg_space!(i32, i32)));
    let mut slices: Vec<_> =
        staging.chunks_mut(JOINED).map(|bytes| [IoSliceMut::new(bytes)]).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    let messages = match recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)
    {
        Ok(messages) => messages,
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let joined = messages.map(|message| {
        let (mut traffic_class, mut stride) = (0, 0);
        for said in message.cmsgs().into_iter().flatten() {
            match said {
                ControlMessageOwned::Ipv4Tos(tos) => traffic_class = tos,
                ControlMessageOwned::Ipv6TClass(class) => traffic_class = class as u8,
                ControlMessageOwned::UdpGroSegments(size) => stride = size as usize,
                _ => {}
            }
        }
        let from = message.address.as_ref().and_then(socket_address);
        let stride = if stride == 0 { message.bytes.max(1) } else { stride };
        Joined { from, traffic_class, len: message.bytes, stride }
    });
    Ok(joined.collect())
}

/// The ports of a packet with this payload; the socket tells the source.
fn ports(transport: Transport, from: u16, payload: &[u8]) -> [u16; 2] {
    match transport {
        Transport::Stt { .. } => stt::ports(payload),
        _ => [from, transport.port()],
    }
}

fn hint_for(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrNotAvailable => "; give the address to an interface of this host first",
        io::ErrorKind::AddrInUse => "; another tunnel has its port: end it, or use another address",
        io::ErrorKind::PermissionDenied => "; run as root",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use nix::sys::socket::{getsockopt, sockopt};
    use units::Class;

    use super::*;

    /// A marking of class 0.
    fn best_effort(traffic_class: u8) -> Marking {
        Marking { traffic_class, class: Class::default() }
    }

    #[test]
    fn datagrams_of_a_flow_come_in_order_with_their_traffic_class() {
        if !needs::root() {
            return;
        }
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        // Loopback has only one IPv6 address, so there each host talks to itself.
        for [from, to] in [[v4(1), v4(2)], [Ipv6Addr::LOCALHOST.into(); 2]] {
            let port = 20_000 + std::process::id() as u16 % 10_000;
            let mut far = Underlay::open(to, Transport::Udp(port), 64).unwrap();
            let mut own =
                (from != to).then(|| Underlay::open(from, Transport::Udp(port), 64).unwrap());
            let lens = [1000, 1000, 1000, 400, 1200, 1200, 1, 9000];
            // What one system call leaves in the buffers does not affect the next.
            let sender = own.as_mut().unwrap_or(&mut far);
            sender.send(to, 7, best_effort(0), Len::Exactly(10), |_| {});
            assert!(sender.flush());
            let mut is_there = false;
            while !is_there {
                far.receive(|_| is_there = true);
            }
            for (number, len) in (0..).zip(lens) {
                let sender = own.as_mut().unwrap_or(&mut far);
                assert!(sender.has_room(7));
                let class = if number < 4 { 0 } else { 0b1010_0010 };
                sender
                    .send(to, 7, best_effort(class), Len::Exactly(len), |bytes| bytes.fill(number));
            }
            let sender = own.as_mut().unwrap_or(&mut far);
            assert_eq!(sender.waiting().count(), 1, "one flow goes by one socket");
            assert_eq!(sender.queued(), lens.len());
            assert!(sender.flush());
            assert_eq!((sender.waiting().count(), sender.queued()), (0, 0));
            let mut came = Vec::new();
            while came.len() < lens.len() {
                far.receive(|received| {
                    assert_eq!(received.from, from);
                    let is_first = received.payload[0] < 4;
                    assert_eq!(received.traffic_class, if is_first { 0 } else { 0b1010_0010 });
                    came.push((received.payload[0], received.payload.len()));
                });
            }
            assert!(came.into_iter().eq((0..).zip(lens)));
            assert_eq!(far.counters(), &Counters::default());
        }
    }

    #[test]
    fn packets_have_their_class_as_priority_whatever_their_code_point() {
        if !needs::root() {
            return;
        }
        for local in [Ipv4Addr::new(127, 0, 0, 7).into(), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let port = 40_000 + std::process::id() as u16 % 10_000;
            let mut underlay = Underlay::open(local, Transport::Udp(port), 64).unwrap();
            let place = wire::flow::place(7, SENDERS);
            // Linux maps some code points to other priorities.
            for (traffic_class, class) in
                [(0, 0), (0xb8, 0), (0xb8, 5), (0x0a, 5), (0x0a, 7), (0, 7), (0, 0)]
            {
                let marking = Marking { traffic_class, class: Class::from_low_bits(class) };
                underlay.send(local, 7, marking, Len::Exactly(100), |bytes| bytes.fill(1));
                assert!(underlay.flush());
                let priority =
                    getsockopt(&underlay.senders[place].socket, sockopt::Priority).unwrap();
                assert_eq!(priority, i32::from(class));
                let mut came = None;
                while came.is_none() {
                    underlay.receive(|received| came = Some(received.traffic_class));
                }
                assert_eq!(came, Some(traffic_class));
            }
            assert_eq!(underlay.counters(), &Counters::default());
        }
    }

    #[test]
    fn another_ip_protocol_arrives_without_its_ip_header() {
        if !needs::root() {
            return;
        }
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        for [from, to] in [[v4(4), v4(5)], [Ipv6Addr::LOCALHOST.into(); 2]] {
            // A protocol number for experiments (RFC 3692).
            let open = |address| Underlay::open(address, Transport::Ip(253), 64).unwrap();
            let mut far = open(to);
            let mut own = (from != to).then(|| open(from));
            let sender = own.as_mut().unwrap_or(&mut far);
            for number in 0..3 {
                let marking = best_effort(0b1010_0010);
                sender.send(to, 7, marking, Len::Exactly(100), |bytes| bytes.fill(number));
            }
            assert!(sender.flush());
            let mut came = Vec::new();
            while came.len() < 3 {
                far.receive(|received| {
                    assert_eq!((received.from, received.traffic_class), (from, 0b1010_0010));
                    assert_eq!(received.payload.len(), 100);
                    came.push(received.payload[99]);
                });
            }
            assert_eq!(came, [0, 1, 2]);
        }
    }

    #[test]
    fn a_datagram_that_is_too_long_is_counted_and_delays_nothing() {
        if !needs::root() {
            return;
        }
        let local = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
        let port = 30_000 + std::process::id() as u16 % 10_000;
        let mut underlay = Underlay::open(local, Transport::Udp(port), 64).unwrap();
        // There is no route.
        let (nowhere, marking) = (IpAddr::V4(Ipv4Addr::BROADCAST), best_effort(0));
        underlay.send(nowhere, 0, marking, Len::Exactly(100), |bytes| bytes.fill(1));
        underlay.send(local, 0, marking, Len::Exactly(100), |bytes| bytes.fill(2));
        assert!(underlay.flush());
        assert_eq!(underlay.counters().unsent, 1);
        let mut came = 0;
        while came == 0 {
            underlay.receive(|received| came += usize::from(received.payload == [2; 100]));
        }
        let error = Underlay::open(local, Transport::Udp(port), 64).err().unwrap().to_string();
        assert!(error.contains("end it, or use another address"), "{error}");
        assert_eq!(underlay.mtu_to(local), Some(u16::MAX), "loopback's is 65,536");
    }
}

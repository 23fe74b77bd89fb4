//! Hosts that have a key in common, and somebody in the underlay who does not.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kernel::netlink::Netlink;
use kernel::netns::Namespace;
use kernel::packet;
use model::{PeerStatus, TunnelMode};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Signal;
use tunnel::message::{Hello, Message, VERSION};
use tunnel::{Incarnation, Unsolicited};
use units::{ClassSet, Mac, Rng};
use wire::checksum::Sum;
use wire::geneve::{self, Draft};
use wire::ip::protocol;
use wire::{ethernet, ipv4, udp};
use zerocopy::IntoBytes;

use super::numbered::{Tally, exchange, send};
use super::world::{Machine, Plan, World};
use crate::common::until;

const ONE: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(1, "blue", 2);

/// Keys as `openssl rand -base64 32` makes them.
const OLD: &str = "mJ2ZV8bB1k0r5oVnJ2l6Zk3b0xq0k3yqg2m2bVq7c1E=";
const NEW: &str = "4vJ7m1n0sQ2hYp8xkqk5dB6Hc3r9w1u2t4y6i8o0p2A=";

/// Where a frame with a sealed packet has the packet's number, 24 bits (docs/protocol.md).
const NUMBER: Range<usize> = 42 + 41..42 + 44;

/// Every frame that comes in or goes out there, as the protocol of a packet socket.
const ALL: u16 = 3;

fn plan(mode: TunnelMode) -> Plan {
    Plan { key: Some((mode, OLD.into())), ..Plan::new(&[ONE, OTHER]).patient() }
}

fn peer(world: &World, host: usize) -> PeerStatus {
    world.status(host).uplink.unwrap().peers.remove(0)
}

/// A socket for whole frames of a host's uplink.
fn uplink(host: &Namespace, protocol: u16) -> OwnedFd {
    let link = Netlink::open_in(host).unwrap().index("eth0").unwrap();
    host.run(|| packet::socket(link, protocol)).unwrap().unwrap()
}

/// The frames that a socket has received.
fn received(socket: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut frame = vec![0; 70_000];
    loop {
        match rustix::net::recv(socket, &mut frame, RecvFlags::DONTWAIT) {
            Ok((len, _)) => frames.push(frame[..len].to_vec()),
            Err(Errno::AGAIN) => return frames,
            Err(error) => panic!("{error}"),
        }
    }
}

fn all_goes_through(mode: TunnelMode) {
    let mut world = World::new(plan(mode));
    world.ping(ONE, OTHER.v4());
    world.ping(OTHER, ONE.v6());
    let connection = world.connect(ONE, OTHER, 7);
    exchange(&connection, 1_000_000);
    let receiver = world.udp(OTHER, 9);
    let wire = uplink(&world.hosts[1], ALL);
    let text = b"what nobody on the way is to read";
    world.udp(ONE, 0).send_to(text, OTHER.at(9)).unwrap();
    let mut datagram = [0; 100];
    let len = receiver.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..len], text);
    let is_readable =
        received(&wire).iter().any(|frame| frame.windows(text.len()).any(|part| part == text));
    assert_eq!(is_readable, mode == TunnelMode::Integrity);
    // Whoever begins anew makes new keys.
    world.end(0, Signal::KILL);
    world.start(0);
    exchange(&connection, 1_000_000);
    for host in 0..2 {
        let uplink = world.status(host).uplink.unwrap();
        assert_eq!(uplink.protection.map(|protection| protection.mode), Some(mode));
        assert!(uplink.notes.is_empty(), "{:?}", uplink.notes);
        assert!(uplink.peers[0].channel.as_ref().unwrap().is_open);
    }
    until(|| world.status(0).ledger.held == 0);
    world.assert_balanced();
}

#[test]
fn authenticated_tunnels_carry_all() {
    all_goes_through(TunnelMode::Integrity);
}

#[test]
fn encrypted_tunnels_carry_all_and_nobody_reads_it() {
    all_goes_through(TunnelMode::Encrypt);
}

#[test]
fn keys_are_replaced_while_frames_flow() {
    let world = World::new(plan(TunnelMode::Encrypt));
    let connection = world.connect(ONE, OTHER, 7);
    let done = AtomicBool::new(false);
    let used = |host| peer(&world, host).channel.unwrap().pre_shared_key.unwrap();
    let first = used(0);
    thread::scope(|scope| {
        let over = needs::Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                exchange(&connection, 100_000);
            }
        });
        // Each host accepts both before any uses the new one.
        for keys in [format!("{OLD}\n{NEW}\n"), format!("{NEW}\n{OLD}\n"), NEW.into()] {
            for host in 0..2 {
                world.set_key(host, &keys);
                let accepted = keys.lines().count();
                let count = || world.status(host).uplink.unwrap().protection.unwrap().keys.len();
                until(|| count() == accepted);
            }
        }
        until(|| (0..2).all(|host| used(host) != first));
        drop(over);
    });
    assert_eq!(used(0), used(1));
    exchange(&connection, 100_000);
    assert_eq!(peer(&world, 0).session.unwrap().resets, 0);
    world.assert_balanced();
}

#[test]
fn hosts_without_a_key_in_common_carry_nothing_and_say_why() {
    let mut world = World::new(plan(TunnelMode::Encrypt));
    world.ping(ONE, OTHER.v4());
    world.end(1, Signal::TERM);
    world.set_key(1, NEW);
    world.start(1);
    let [one, other] = [(ONE, 0), (OTHER, 7)].map(|(machine, port)| world.udp(machine, port));
    one.send_to(b"held", OTHER.at(7)).unwrap();
    let refused = |reason: &str| {
        let count = |host| peer(&world, host).refused.get(reason).copied().unwrap_or(0);
        count(0) + count(1)
    };
    until(|| refused("other_key") > 0);
    assert!((0..2).any(|host| !peer(&world, host).channel.unwrap().is_open));
    // What was held goes on once they have one.
    world.set_key(1, OLD);
    let mut datagram = [0; 10];
    let len = other.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..len], b"held");
}

/// Somebody in the underlay, who sends from host 1's address to host 0.
struct Attacker {
    rng: Rng,
    socket: OwnedFd,
    addresses: [u8; ethernet::Header::LEN],
    /// What he has seen on its way, if he sees that.
    seen: Option<(OwnedFd, Vec<Vec<u8>>)>,
}

impl Attacker {
    fn new(world: &World, sees: bool) -> Self {
        let [to, from] = [0, 1].map(|host| Mac::local(0xf0_0000 + host).0);
        let addresses = [&to[..], &from, &[8, 0]].concat().try_into().unwrap();
        let seen = sees.then(|| (uplink(&world.hosts[0], ALL), Vec::new()));
        Self { rng: Rng::new(7), socket: uplink(&world.hosts[1], 0), addresses, seen }
    }

    /// A datagram from host 1 to host 0. Its checksum is left out (RFC 768).
    fn datagram(&self, world: &World, port: u16, payload: &[u8]) -> Vec<u8> {
        let [to, from] = [0, 1].map(|host| match world.vtep(host) {
            std::net::IpAddr::V4(address) => address,
            other => panic!("{other}"),
        });
        let header = udp::Header::new(50_000, port, payload.len()).unwrap();
        let ip = ipv4::Header::new(from, to, protocol::UDP, udp::Header::LEN + payload.len());
        let mut ip = ip.unwrap();
        // As a neighbour's.
        ip.ttl = 255;
        ip.checksum = 0.into();
        ip.checksum = Sum::of(ip.as_bytes()).checksum().into();
        [&self.addresses, ip.as_bytes(), header.as_bytes(), payload].concat()
    }

    fn forged_hello(&mut self, world: &World) -> Vec<u8> {
        let mut random = || Incarnation::random(&mut self.rng);
        let (from, to) = (random(), random());
        let to = (from.0.get() % 2 == 0).then_some(to);
        let unsolicited = Unsolicited { bytes: 1 << 20, unlimited: ClassSet::ALL };
        let versions = [VERSION; 2];
        let hello = Hello { from, to, versions, reliable: ClassSet::NONE, unsolicited };
        let mut draft = Draft::new(0).unwrap().for_control(0);
        assert!(Message::Hello(hello).write(&mut draft));
        self.datagram(world, geneve::PORT, &draft.parts().concat())
    }

    /// A BFD packet that takes the session down (RFC 5880 §4.1), of whatever session it is.
    fn forged_bfd(&mut self, world: &World) -> Vec<u8> {
        use wire::bfd::{Diagnostic, Flags, Header, PORT, State};
        let mine = self.rng.next_u64() as u32 | 1;
        let mut header = Header::new(State::AdminDown, Diagnostic::NONE, Flags::default(), mine);
        header.your_discriminator = (self.rng.next_u64() as u32 | 1).into();
        self.datagram(world, PORT, header.as_bytes())
    }

    /// What he saw, again or with a bit changed.
    fn repeated(&mut self) -> Option<Vec<u8>> {
        let (socket, frames) = self.seen.as_mut()?;
        frames.extend(received(socket).into_iter().filter(|frame| {
            // Of IPv4 and UDP, and short enough to be sent again.
            let is_udp = frame.len() > 42 && frame[12..14] == [8, 0] && frame[23] == 17;
            is_udp && frame.len() <= 1600 && frame[6..12] == self.addresses[6..12]
        }));
        let most = frames.len();
        if most > 5000 {
            frames.drain(..most - 5000);
        }
        let at = self.rng.below(frames.len().max(1) as u64) as usize;
        let mut frame = frames.get(at)?.clone();
        if self.rng.below(2) == 0 {
            // Every other time it is the packet's number that changes: of one whose number has
            // come, the rest is not looked at.
            let (from, len) = match self.rng.below(2) {
                0 if frame.len() >= NUMBER.end => (NUMBER.start, NUMBER.len()),
                _ => (42, frame.len() - 42),
            };
            let at = from + self.rng.below(len as u64) as usize;
            frame[at] ^= 1 << self.rng.below(8);
            frame[40..42].fill(0);
        }
        Some(frame)
    }

    fn attack(&mut self, world: &World) {
        let frame = match self.rng.below(4) {
            0 => self.forged_hello(world),
            1 => self.forged_bfd(world),
            2 => {
                let junk: Vec<_> =
                    (0..self.rng.below(200)).map(|_| self.rng.next_u64() as u8).collect();
                self.datagram(world, geneve::PORT, &junk)
            }
            _ => match self.repeated() {
                Some(frame) => frame,
                None => return,
            },
        };
        match rustix::net::send(&self.socket, &frame, SendFlags::empty()) {
            Ok(_) | Err(Errno::NOBUFS) => {}
            Err(error) => panic!("{error}: {frame:02x?}"),
        }
    }
}

/// Frames flow while somebody attacks: none is lost, none comes twice, and no session ends.
fn no_attack_does_anything(key: Option<TunnelMode>, sees: bool, packets: u32) {
    const COUNT: u32 = 3000;
    let plan = match key {
        Some(mode) => plan(mode),
        None => Plan::new(&[ONE, OTHER]).patient(),
    };
    let world = World::new(plan);
    world.ping(ONE, OTHER.v4());
    let mut attacker = Attacker::new(&world, sees);
    let connection = world.connect(OTHER, ONE, 7);
    let [sender, receiver] = [(OTHER, 0), (ONE, 9)].map(|(machine, port)| world.udp(machine, port));
    let mut tally = Tally::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = needs::Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                exchange(&connection, 50_000);
            }
        });
        scope.spawn(|| send(&sender, ONE.at(9), 0, 0..COUNT, 1000));
        scope.spawn(|| tally.take_all(&receiver, 1, COUNT));
        (0..packets).for_each(|_| attacker.attack(&world));
        // On a busy machine, most of that may have found the host's socket full, or nothing to
        // repeat.
        until(|| {
            (0..100).for_each(|_| attacker.attack(&world));
            let refused = peer(&world, 0).refused;
            !sees || ["replayed", "bad_tag"].iter().all(|reason| refused.contains_key(*reason))
        });
        drop(over);
    });
    assert_eq!(tally.again, 0);
    for host in 0..2 {
        let peer = peer(&world, host);
        assert_eq!(peer.session.unwrap().resets, 0, "host {host}");
        // Who finds no processor is not heard for a while, and both are told so.
        let is_late = |bfd: &model::BfdStatus| {
            let both = [&bfd.diagnostic, &bfd.remote_diagnostic];
            both.iter().any(|it| *it == "detection_time_expired")
        };
        let mut sessions = peer.paths.iter().flat_map(|path| &path.bfd);
        let all = sessions.all(|bfd| bfd.state == model::BfdState::Up || is_late(bfd));
        assert!(all, "{:?}", peer.paths);
    }
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
}

#[test]
fn who_sees_nothing_ends_no_session() {
    no_attack_does_anything(None, false, 20_000);
}

#[test]
fn who_sees_all_neither_ends_nor_joins_an_authenticated_session() {
    no_attack_does_anything(Some(TunnelMode::Integrity), true, 20_000);
}

#[test]
fn who_sees_all_neither_ends_nor_joins_an_encrypted_session() {
    no_attack_does_anything(Some(TunnelMode::Encrypt), true, 20_000);
}

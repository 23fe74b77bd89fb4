//! Virtual machines with several pairs of rings, and with packed ones.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use model::{AgentSettings, Attachment, PortState, SocketMode};
use port::Span;
use units::Mac;
use vhost::features::{Features, ProtocolFeatures};
use vhost::front::{FrontConfig, FrontEnd};
use vhost::socket::connect;
use vhost::virtio::driver::Driver;
use vhost::virtio::{Descriptor, Parts};
use vhost::vring::{Base, Turn};
use wire::ethernet::Header;
use zerocopy::IntoBytes;

use super::cards::{LEN, Machine, RING};
use super::host::Host;
use crate::common::until;

const PAIRS: usize = 2;
const FLOWS: u64 = 16;
const COUNT: u64 = 10_000;

const HEADER: usize = 12;
const BUFFER: usize = 2048;

/// The driver's side of a ring, each of whose descriptors has a buffer of its own.
trait Queue {
    /// The buffers that the device is done with, by their numbers, and how many bytes it wrote.
    fn used(&mut self) -> Vec<(u16, u32)>;
    fn give(&mut self, number: u16, len: u32);
    fn publish(&mut self);
}

impl Queue for Driver {
    fn used(&mut self) -> Vec<(u16, u32)> {
        let mut used = Vec::new();
        self.collect(|_, number, len| used.push((number, len)));
        used
    }

    fn give(&mut self, number: u16, len: u32) {
        Driver::give(self, number, Some(len));
    }

    fn publish(&mut self) {
        Driver::publish(self);
    }
}

/// A packed ring (VIRTIO 1.2 §2.8), in memory that its front-end has mapped longer than it lives.
struct Packed {
    descriptors: NonNull<u8>,
    address: u64,
    flags: u16,
    available: Turn,
    used: Turn,
}

const NEW: Turn = Turn { index: 0, wrap: true };

const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;

impl Packed {
    fn place(&self, turn: Turn, offset: usize) -> NonNull<u8> {
        // SAFETY: turns stay below the ring's size, and a descriptor has 16 bytes.
        #[expect(unsafe_code, reason = "a ring is reached by pointer")]
        unsafe {
            self.descriptors.add(16 * usize::from(turn.index) + offset)
        }
    }

    fn state(&self, turn: Turn) -> &AtomicU16 {
        // SAFETY: two aligned bytes of the ring, which both sides write at once.
        #[expect(unsafe_code, reason = "a ring is reached by pointer")]
        unsafe {
            AtomicU16::from_ptr(self.place(turn, 14).cast().as_ptr())
        }
    }
}

fn step(turn: &mut Turn) {
    turn.index += 1;
    if turn.index == RING {
        *turn = Turn { index: 0, wrap: !turn.wrap };
    }
}

impl Queue for Packed {
    fn used(&mut self) -> Vec<(u16, u32)> {
        let mut used = Vec::new();
        let both = |wrap| if wrap { AVAILABLE | USED } else { 0 };
        while self.state(self.used).load(Acquire) & (AVAILABLE | USED) == both(self.used.wrap) {
            // SAFETY: the descriptor is ours again: its number and its length lie before its state.
            #[expect(unsafe_code, reason = "a ring is reached by pointer")]
            used.push(unsafe {
                (self.place(self.used, 12).cast().read(), self.place(self.used, 8).cast().read())
            });
            step(&mut self.used);
        }
        used
    }

    fn give(&mut self, number: u16, len: u32) {
        let address = self.address + u64::from(number) * BUFFER as u64;
        // SAFETY: the descriptor is ours until its state says otherwise.
        #[expect(unsafe_code, reason = "a ring is reached by pointer")]
        unsafe {
            self.place(self.available, 0).cast().write(address);
            self.place(self.available, 8).cast().write(len);
            self.place(self.available, 12).cast().write(number);
        }
        let state = if self.available.wrap { AVAILABLE } else { USED };
        self.state(self.available).store(self.flags | state, Release);
        step(&mut self.available);
    }

    fn publish(&mut self) {}
}

/// A guest with several pairs of rings.
struct Guest {
    rings: Vec<Box<dyn Queue>>,
    buffers: Vec<Span>,
    /// Of each pair, the buffers to send by that are free.
    free: Vec<Vec<u16>>,
    // After those who use its memory.
    front: FrontEnd,
}

impl Guest {
    fn new(packed: bool) -> Self {
        let features =
            Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES, Features::MQ]);
        let front = FrontEnd::new(FrontConfig {
            features: if packed {
                Features::of(&[features, Features::RING_PACKED])
            } else {
                features
            },
            protocol: ProtocolFeatures::of(&[ProtocolFeatures::REPLY_ACK, ProtocolFeatures::MQ]),
            queue_pairs: PAIRS as u8,
            queue_size: RING,
            buffers: (2 * PAIRS * usize::from(RING) * BUFFER) as u64,
            huge: false,
            timeout: Duration::from_secs(60),
        });
        let front = front.unwrap();
        let at = |offset| {
            let (bytes, address) = front.memory(offset).unwrap();
            // SAFETY: the front-end has it mapped, and goes last.
            #[expect(unsafe_code, reason = "a guest's memory is shared")]
            let span = unsafe { Span::new(bytes.start, bytes.len) };
            (span, address)
        };
        let len = usize::from(RING) * BUFFER;
        let mut buffers = Vec::new();
        let mut ring = |ring: usize| -> Box<dyn Queue> {
            let (all, address) = at(front.buffers() + (ring * len) as u64);
            let writable = ring.is_multiple_of(2);
            buffers.push(all.split(len).0);
            let [descriptors, used, available] =
                front.rings()[ring].offsets.map(|offset| at(offset).0);
            if packed {
                let flags = if writable { Descriptor::WRITE } else { 0 };
                let descriptors = descriptors.start();
                return Box::new(Packed { descriptors, address, flags, available: NEW, used: NEW });
            }
            let parts = Parts::new([descriptors, available, used], RING, false).unwrap();
            Box::new(Driver::new(parts, all.split(len).0, RING, address, writable))
        };
        let rings = (0..2 * PAIRS).map(&mut ring).collect();
        let mut guest = Self { rings, buffers, free: vec![(0..RING).collect(); PAIRS], front };
        for pair in 0..PAIRS {
            (0..RING).for_each(|number| guest.rings[2 * pair].give(number, BUFFER as u32));
            guest.publish(2 * pair);
        }
        guest
    }

    fn publish(&mut self, ring: usize) {
        self.rings[ring].publish();
        rustix::io::write(&self.front.rings()[ring].kick, &1_u64.to_ne_bytes()).unwrap();
    }

    /// The frame in a buffer.
    fn frame(&self, ring: usize, number: u16) -> Span {
        self.buffers[ring].split(usize::from(number) * BUFFER + HEADER).1
    }

    /// The numbers of those frames that have come by one pair.
    fn take(&mut self, pair: usize, came: &mut Vec<u64>) {
        for (number, len) in self.rings[2 * pair].used() {
            let mut bytes = [0; 8];
            self.frame(2 * pair, number).split(20).1.read(&mut bytes);
            assert_eq!(len as usize, HEADER + LEN);
            came.push(u64::from_le_bytes(bytes));
            self.rings[2 * pair].give(number, BUFFER as u32);
        }
        self.publish(2 * pair);
    }

    /// Sends frames by one pair, each with the next number of its own, as far as there is room.
    fn send(&mut self, pair: usize, header: &Header, next: &mut u64) {
        let ring = 2 * pair + 1;
        self.free[pair].extend(self.rings[ring].used().into_iter().map(|(number, _)| number));
        while *next < COUNT
            && let Some(number) = self.free[pair].pop()
        {
            let frame = self.frame(ring, number);
            frame.write(header.as_bytes());
            frame.split(20).1.write(&next.to_le_bytes());
            self.rings[ring].give(number, (HEADER + LEN) as u32);
            *next += PAIRS as u64;
        }
        self.publish(ring);
    }
}

/// A machine with several pairs gets each flow by one of them, whole and in order, and sends by
/// all.
fn frames_go_by_every_pair(packed: bool) {
    let mut host = Host::new();
    let mut a = Machine::new(&host, 1);
    let mac = Mac::local(2);
    let mut port = host.machine("vm2", SocketMode::Listen, Some(mac));
    if let Attachment::VhostUser { queues, .. } = &mut port.attach {
        *queues = PAIRS as u8;
    }
    let client = host.start(AgentSettings::default(), vec![a.port(&host), port]);
    a.plug();
    let mut guest = Guest::new(packed);
    guest.front.connect(connect(&host.path("vm2")).unwrap()).unwrap();
    let base = if packed { Base::Packed { available: NEW, used: NEW } } else { Base::Split(0) };
    guest.front.start(&[base; 2 * PAIRS]).unwrap();
    assert!(client.status().unwrap().ports.iter().all(|port| port.state == PortState::Up));

    a.sends_to(mac);
    let mut next = 0;
    let mut came = [const { Vec::new() }; PAIRS];
    until(|| {
        a.nic.send((COUNT - next).min(64) as usize, |_, frame| {
            frame.write(6, &Mac::local(100 + (next % FLOWS) as u32).0);
            frame.write(20, &next.to_le_bytes());
            next += 1;
        });
        a.nic.publish();
        came.iter_mut().enumerate().for_each(|(pair, came)| guest.take(pair, came));
        came.iter().map(Vec::len).sum::<usize>() == COUNT as usize
    });
    for flow in 0..FLOWS {
        let of =
            |came: &[u64]| came.iter().copied().filter(|n| n % FLOWS == flow).collect::<Vec<_>>();
        let by: Vec<_> = came.iter().map(|came| of(came)).filter(|came| !came.is_empty()).collect();
        assert!(
            by.len() == 1 && by[0].iter().copied().eq((flow..COUNT).step_by(FLOWS as usize)),
            "{flow}"
        );
    }
    assert!(came.iter().all(|came| !came.is_empty()), "both have some");

    let header = Header::new(a.mac, mac, 0x88b5);
    let (mut next, mut came) = ([0, 1], Vec::new());
    until(|| {
        next.iter_mut().enumerate().for_each(|(pair, next)| guest.send(pair, &header, next));
        a.take(64, &mut came);
        came.len() == COUNT as usize
    });
    for pair in 0..PAIRS as u64 {
        let its = came.iter().copied().filter(|n| n % PAIRS as u64 == pair);
        assert!(its.eq((pair..COUNT).step_by(PAIRS)));
    }
    assert!(client.status().unwrap().balanced);
}

#[test]
fn frames_go_by_every_pair_of_split_rings() {
    frames_go_by_every_pair(false);
}

#[test]
fn frames_go_by_every_pair_of_packed_rings() {
    frames_go_by_every_pair(true);
}

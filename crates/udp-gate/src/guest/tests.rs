use std::collections::VecDeque;
use std::net::Ipv4Addr;

use units::Rng;
use zerocopy::IntoBytes;

use super::*;
use crate::{Heard, Teller, Watched};
use wire::room::Socket;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PAGE: u32 = 4096;

/// A datagram from port 7000.
fn frame(port: u16, len: usize) -> Vec<u8> {
    let udp = wire::udp::Header::new(7000, port, len).unwrap();
    let ip = wire::ipv4::Header::new(PEER, HERE, wire::ip::protocol::UDP, 8 + len).unwrap();
    let ipv4 = wire::ethernet::ethertype::IPV4;
    let ethernet = wire::ethernet::Header::new(Mac::local(2), Mac::local(1), ipv4);
    [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &vec![0; len]].concat()
}

fn socket(limit: u32) -> Socket {
    let local = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();
    Socket { local, remote: local, remote_port: 0, v6: false, v6_only: false, occupied: 0, limit }
}

/// A socket in the guest's kernel, and what its datagrams are charged.
struct Buffer {
    socket: Socket,
    /// What is in it, and whether it was watched.
    queue: VecDeque<(u32, bool)>,
}

enum Coming {
    /// `is_watched`: the gate let this go when it was on, and knew what is in the socket.
    Datagram {
        port: u16,
        charged: u32,
        is_watched: bool,
    },
    Ask(Vec<u8>),
}

/// A gate, a guest, and all that is on its way between them.
struct World {
    gate: GuestGate,
    teller: Teller,
    now: Instant,
    ring: VecDeque<Coming>,
    up: VecDeque<Vec<u8>>,
    buffers: Vec<(u16, Buffer)>,
    /// Datagrams that nobody wanted, and those that were read.
    unheard: u64,
    read: u64,
    /// Of those that found no room: those that were watched, and the others.
    lost: u64,
    unwatched: u64,
    lives: u32,
    session: u64,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            gate: GuestGate::new(now, NonZeroU32::MIN),
            teller: Teller::new(Mac::local(2), 1, PAGE),
            now,
            ring: VecDeque::new(),
            up: VecDeque::new(),
            buffers: Vec::new(),
            unheard: 0,
            read: 0,
            lost: 0,
            unwatched: 0,
            lives: 1,
            session: 1,
        }
    }

    /// The switch ends, and another begins.
    fn begin_switch(&mut self) {
        self.lives += 1;
        self.gate = GuestGate::new(self.now, NonZeroU32::new(self.lives).unwrap());
    }

    /// The guest's program ends, and another begins.
    fn begin_program(&mut self) {
        self.lives += 1;
        self.session = self.lives.into();
        self.teller = Teller::new(Mac::local(2), self.session, PAGE);
    }

    /// So does the guest, with sockets of these sizes.
    fn begin_guest(&mut self, mut limit: impl FnMut() -> u32) {
        self.begin_program();
        let coming =
            self.ring.drain(..).filter(|coming| matches!(coming, Coming::Datagram { .. })).count();
        self.read += coming as u64;
        for (_, Buffer { socket, queue }) in &mut self.buffers {
            self.read += queue.drain(..).count() as u64;
            (socket.occupied, socket.limit) = (0, limit());
        }
    }

    fn open(&mut self, port: u16, limit: u32) {
        self.buffers.push((port, Buffer { socket: socket(limit), queue: VecDeque::new() }));
        self.buffers.sort_by_key(|(port, _)| *port);
    }

    /// Offers a datagram to the gate, and puts it on its way if it may go. Its charge is any that
    /// the guest's kernel may come to.
    fn offer(&mut self, port: u16, len: usize, charged: impl FnOnce(u32) -> u32) -> bool {
        let frame = frame(port, len);
        if matches!(self.gate.verdict(&FrameView::plain(&frame)), Verdict::Hold(..)) {
            return false;
        }
        let most = charge(frame.len(), PAGE) as u32;
        // Of a program that has begun anew it knows once it has heard it.
        let is_met = self.gate.guest.is_some_and(|guest| guest.session == self.session);
        let is_watched =
            self.gate.is_on() && is_met && (self.is_told_of(port) || !self.has_unwatched(port));
        self.ring.push_back(Coming::Datagram { port, charged: charged(most), is_watched });
        self.gate.passed();
        true
    }

    fn is_told_of(&self, port: u16) -> bool {
        self.gate.ports.get(&port).is_some_and(|port| port.sockets.is_some())
    }

    /// Whether there is something in the port's socket, or on its way there, that was not watched.
    fn has_unwatched(&self, port: u16) -> bool {
        let here =
            self.buffers.iter().filter(|(at, _)| *at == port).flat_map(|(_, buffer)| &buffer.queue);
        let coming = self.ring.iter().filter_map(|coming| match coming {
            Coming::Datagram { port: to, is_watched, .. } => Some((*to, *is_watched)),
            Coming::Ask(_) => None,
        });
        here.map(|(_, is_watched)| (port, *is_watched)).chain(coming).any(|of| of == (port, false))
    }

    /// The gate says what it has to say.
    fn ask(&mut self) {
        if let Some(draft) = self.gate.ask() {
            self.ring.push_back(Coming::Ask(draft.frame().to_vec()));
            self.gate.asked(self.now);
        }
    }

    /// The guest's kernel takes the next frame off its ring, by its own rule
    /// (`__udp_enqueue_schedule_skb`).
    fn arrive(&mut self) -> bool {
        match self.ring.pop_front() {
            None => return false,
            Some(Coming::Ask(frame)) => _ = self.teller.hear(&frame),
            Some(Coming::Datagram { port, charged, is_watched }) => {
                let buffer = self.buffers.iter_mut().find(|(there, _)| *there == port);
                match buffer.map(|(_, buffer)| buffer) {
                    None => self.unheard += 1,
                    Some(Buffer { socket, .. })
                        if socket.occupied > 0 && socket.occupied + charged > socket.limit =>
                    {
                        match is_watched {
                            true => self.lost += 1,
                            false => self.unwatched += 1,
                        }
                    }
                    Some(buffer) => {
                        buffer.socket.occupied += charged;
                        buffer.queue.push_back((charged, is_watched));
                    }
                }
            }
        }
        true
    }

    /// The guest's program has its turn.
    fn tell(&mut self) {
        let watched =
            |(port, buffer): &(u16, Buffer)| Watched { port: *port, socket: buffer.socket };
        let sockets: Vec<_> = self.buffers.iter().map(watched).collect();
        let up = &mut self.up;
        self.teller.tell(&sockets, 0, |frame| up.push_back(frame.to_vec()));
    }

    fn hello(&mut self) {
        let hello = self.teller.hello(0);
        self.up.push_back(hello.frame().to_vec());
    }

    /// A message of the guest's arrives.
    fn hear(&mut self) -> bool {
        let Some(frame) = self.up.pop_front() else { return false };
        self.gate.hear(self.now, &frame);
        true
    }

    fn read(&mut self, place: usize) {
        if let Some((_, Buffer { socket, queue })) = self.buffers.get_mut(place)
            && let Some((charged, _)) = queue.pop_front()
        {
            socket.occupied -= charged;
            self.read += 1;
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.gate.tick(self.now);
    }

    /// Everything that was said is heard and answered.
    fn settle(&mut self) {
        self.ask();
        while self.arrive() {}
        self.tell();
        while self.hear() {}
    }

    /// The guest's program has begun to speak, and is heard.
    fn meet(&mut self) {
        self.hello();
        self.hear();
        self.settle();
        assert!(self.gate.is_on());
    }
}

#[test]
fn before_the_first_message_everything_may_go() {
    let mut world = World::new();
    assert!((0..1000).all(|_| world.offer(53, 100, |most| most)));
    assert!(world.gate.ask().is_none() && world.gate.wait().is_none());
}

#[test]
fn one_datagram_is_sent_at_a_time_until_its_socket_is_known() {
    let mut world = World::new();
    world.meet();
    world.open(53, 212_992);
    assert!(world.offer(53, 100, |most| most));
    assert!(!world.offer(53, 100, |most| most));
    assert!(world.offer(54, 100, |most| most), "another port");
    world.settle();
    let went = (0..1000).take_while(|_| world.offer(53, 100, |most| most)).count();
    // 5,376 bytes each, of 212,992, and one is there already.
    assert_eq!(went, 38);
    world.settle();
    assert!(!world.offer(53, 100, |most| most), "it is full");
    world.settle();
    assert_eq!(world.lost, 0);
    for _ in 0..8 {
        world.read(0);
        world.tell();
        assert!(!world.hear(), "a quarter of the buffer is to be free");
    }
    (0..3).for_each(|_| world.read(0));
    world.tell();
    assert!(world.hear() && world.offer(53, 100, |most| most));
}

#[test]
fn without_a_listener_a_limited_amount_may_be_in_flight() {
    let mut world = World::new();
    world.meet();
    assert!(world.offer(53, 1400, |most| most) && !world.offer(53, 1400, |most| most));
    world.settle();
    let went = (0..1000).take_while(|_| world.offer(53, 1400, |most| most)).count();
    assert_eq!(went, 12, "5,376 bytes each, of 65,536");
    // A socket that is opened now has room for them, and is known once it is told of.
    world.open(53, 131_072);
    world.settle();
    let went = (0..1000).take_while(|_| world.offer(53, 1400, |most| most)).count();
    world.settle();
    assert_eq!((went, world.lost), (12, 0));
}

#[test]
fn flows_are_released_after_a_program_has_died_and_at_once_when_it_ends() {
    let mut world = World::new();
    world.open(53, 5000);
    world.meet();
    let fill = |world: &mut World| while world.offer(53, 100, |most| most) {};
    fill(&mut world);
    assert_eq!(world.gate.wait(), Some(RETRY));
    world.pass(SILENCE);
    assert!(!world.offer(53, 100, |most| most) && world.gate.notes().is_empty());
    world.pass(RETRY);
    assert!(world.offer(53, 100, |most| most));
    assert_eq!(world.gate.notes().len(), 1);

    let mut world = World::new();
    world.open(53, 5000);
    world.meet();
    fill(&mut world);
    let bye = world.teller.bye();
    world.gate.hear(world.now, bye.frame());
    assert!(world.offer(53, 100, |most| most) && world.gate.notes().is_empty());
}

#[test]
fn a_restarted_program_is_distinguished_from_the_earlier_one() {
    let mut world = World::new();
    world.open(53, 20_000);
    world.meet();
    assert!(world.offer(53, 100, |most| most));
    let late = world.teller.hello(0);
    world.teller = Teller::new(Mac::local(2), 2, PAGE);
    world.hello();
    world.hear();
    world.gate.hear(world.now, Teller::new(Mac::local(2), 1, PAGE).bye().frame());
    assert!(!world.offer(53, 100, |most| most), "what was on its way still is");
    world.settle();
    world.settle();
    assert!(world.offer(53, 100, |most| most));
    // The other's Hello, had it been late, would only cost a round.
    world.gate.hear(world.now, late.frame());
    world.hello();
    while world.hear() {}
    assert!(!world.offer(53, 100, |most| most));
    world.settle();
    world.settle();
    while world.offer(53, 100, |most| most) {}
    world.settle();
    assert!(world.gate.is_on() && !world.offer(53, 100, |most| most));
    assert_eq!(world.lost, 0);
    world.read(0);
    world.tell();
    world.hear();
    assert!(world.offer(53, 100, |most| most));
}

#[test]
fn reports_of_an_ended_program_are_ignored() {
    let mut world = World::new();
    world.open(53, 20_000);
    world.meet();
    assert!(world.offer(53, 1400, |most| most) && !world.offer(53, 1400, |most| most));
    let hello = world.teller.hello(0);
    world.ask();
    while world.arrive() {}
    world.tell();
    let told = world.up.pop_back().unwrap();
    world.begin_program();
    world.hello();
    world.hear();
    world.settle();
    world.settle();
    while world.offer(53, 1400, |most| most) {}
    world.settle();
    world.gate.hear(world.now, hello.frame());
    world.gate.hear(world.now, &told);
    assert!(!world.offer(53, 1400, |most| most), "it is full");
}

#[test]
fn a_restarted_switch_is_distinguished_from_the_earlier_one() {
    let mut world = World::new();
    world.open(53, 212_992);
    world.meet();
    for _ in 0..20 {
        world.hello();
        world.hear();
        world.settle();
    }
    world.begin_switch();
    world.hello();
    world.hear();
    world.ask();
    // It has heard twenty, of another.
    world.hello();
    world.hear();
    assert!(!world.gate.is_on());
    world.settle();
    assert!(world.gate.is_on() && !world.teller.is_on());
    assert!(world.offer(53, 1400, |most| most) && !world.offer(53, 1400, |most| most));
    world.settle();
    let went = (0..1000).take_while(|_| world.offer(53, 1400, |most| most)).count();
    world.settle();
    assert_eq!((went, world.lost), (38, 0));
}

#[test]
fn the_program_knows_exactly_when_it_is_heard() {
    let mut world = World::new();
    world.hello();
    world.hear();
    world.ask();
    world.arrive();
    assert!(!world.gate.is_on() && !world.teller.is_on());
    world.tell();
    world.hello();
    let mut behind = world.up.pop_back();
    world.hear();
    assert!(world.gate.is_on() && !world.teller.is_on());
    world.up.extend(behind.take());
    world.hear();
    world.ask();
    world.arrive();
    assert!(world.teller.is_on());
}

#[test]
fn another_protocol_version_is_reported() {
    let mut world = World::new();
    let mut hello = Teller::new(Mac::local(2), 7, PAGE).hello(0).frame().to_vec();
    hello[18] = 9;
    world.gate.hear(world.now, &hello);
    assert!(world.gate.notes()[0].contains("version 9"));
    // It is told of our version, once for each time.
    let answer = world.gate.ask().unwrap();
    assert_eq!(answer.frame()[18], wire::room::VERSION);
    world.gate.asked(world.now);
    world.gate.hear(world.now, &hello);
    assert!(world.gate.ask().is_none(), "not twice a second");
    world.pass(ROUND);
    world.gate.hear(world.now, &hello);
    assert!(world.gate.ask().is_some());
    world.gate.asked(world.now);
    // One of this version takes its place, and the other takes leave.
    world.meet();
    assert_eq!(world.teller.hear(answer.frame()), Heard::Nothing);
    world.gate.hear(world.now, &hello);
    world.ask();
    world.hello();
    world.hear();
    assert!(world.gate.is_on() && world.gate.notes().is_empty());
}

/// Hellos go on, but no Ask arrives.
fn deafen(world: &mut World) {
    for _ in 0..SILENCE.as_secs() + 2 {
        world.pass(Duration::from_secs(1));
        world.hello();
        world.hear();
        world.ask();
        world.ring.clear();
    }
}

#[test]
fn a_program_that_receives_no_asks_does_not_hold_flows_for_ever() {
    let mut world = World::new();
    world.open(53, 212_992);
    world.meet();
    deafen(&mut world);
    assert!(!world.gate.is_on() && world.gate.notes()[0].contains("0x88b5"));
    assert!((0..1000).all(|_| world.offer(53, 100, |most| most)));
    // Nor does its successor.
    let mut world = World::new();
    world.open(53, 212_992);
    world.meet();
    world.begin_program();
    deafen(&mut world);
    assert!((0..1000).all(|_| world.offer(53, 100, |most| most)));
    assert_eq!(world.gate.notes().len(), 1);
    world.meet();
    assert!(world.gate.is_on() && world.gate.notes().is_empty());
}

#[test]
fn a_program_that_receives_asks_stays_on() {
    let mut world = World::new();
    world.meet();
    for _ in 0..100 {
        world.hello();
        world.hear();
        world.pass(Duration::from_secs(1));
        world.settle();
        assert!(world.gate.is_on());
    }
}

#[test]
fn reports_before_the_gate_is_on_are_not_used() {
    let mut world = World::new();
    world.open(53, 20_000);
    world.meet();
    assert!(world.offer(53, 1400, |most| most) && !world.offer(53, 1400, |most| most));
    world.hello();
    world.ask();
    while world.arrive() {}
    world.tell();
    let (hello, told) = (world.up.pop_front().unwrap(), world.up.pop_front().unwrap());
    // The gate parts from it, and what it lets go then is in no books.
    let bye = world.teller.bye();
    world.gate.hear(world.now, bye.frame());
    assert!(world.offer(53, 1400, |most| most));
    world.gate.hear(world.now, &hello);
    assert!(world.offer(53, 1400, |most| most));
    world.gate.hear(world.now, &told);
    world.hello();
    world.hear();
    world.settle();
    // There is room for three, and they are there.
    assert!(world.gate.is_on() && !world.offer(53, 1400, |most| most));
}

#[test]
fn a_program_that_was_silent_for_long_must_be_heard_again() {
    let mut world = World::new();
    world.meet();
    world.hello();
    world.hear();
    world.settle();
    assert!(world.teller.is_on());
    world.pass(SILENCE + RETRY);
    world.hello();
    world.hear();
    world.ask();
    world.arrive();
    assert!(!world.gate.is_on() && !world.teller.is_on());
}

#[test]
fn a_sender_to_every_port_takes_no_more_than_its_place() {
    let mut world = World::new();
    world.meet();
    let went = (1..=u16::MAX).filter(|port| world.offer(*port, 100, |most| most)).count();
    assert_eq!((went, world.gate.ports.len()), (MOST_PORTS, MOST_PORTS));
    world.settle();
    assert!(world.offer(u16::MAX, 100, |most| most), "what has arrived is forgotten");
    assert!(world.gate.ports.len() < MOST_PORTS);
}

#[test]
fn before_it_is_on_it_holds_no_flow() {
    let mut world = World::new();
    world.hello();
    world.hear();
    world.ask();
    assert!((1..=u16::MAX).all(|port| world.offer(port, 100, |most| most)));
    // This Ask was before most of them.
    world.arrive();
    world.tell();
    world.hear();
    assert!(!world.gate.is_on());
    world.settle();
    world.settle();
    assert!(world.gate.is_on() && world.gate.ports.len() <= MOST_PORTS);
}

/// Whatever is lost, late or doubled between guest and switch, whoever begins anew, and however
/// slow anybody is: once the gate is on, no socket loses anything that it lets go, and nobody waits
/// for ever.
#[test]
fn no_order_of_events_loses_a_datagram_or_stalls() {
    let mut held = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        world.meet();
        let ports = 1 + rng.below(4) as u16;
        for port in 0..ports {
            world.open(port, 2304 + rng.below(60_000) as u32);
        }
        let (mut offered, mut went) = (0, 0);
        for _ in 0..3000 {
            match rng.below(16) {
                0..6 => {
                    let (port, len) = (rng.below(ports.into()) as u16, rng.below(1472) as usize);
                    offered += 1;
                    let charged = |most: u32| 768 + rng.below(u64::from(most) - 767) as u32;
                    went += u64::from(world.offer(port, len, charged));
                }
                6 => world.ask(),
                7 | 8 => (0..rng.below(20)).for_each(|_| _ = world.arrive()),
                9 => world.tell(),
                10 => _ = world.hear(),
                // Lost, doubled, late.
                11 => drop(world.up.pop_front()),
                12 => world.up.extend(world.up.front().cloned()),
                13 => world.up.rotate_left(usize::from(world.up.len() > 1)),
                14 => world.pass(Duration::from_micros(rng.below(3000))),
                _ => (0..rng.below(8)).for_each(|_| world.read(rng.below(ports.into()) as usize)),
            }
            match rng.below(3000) {
                0..6 => world.hello(),
                6 => world.begin_switch(),
                7 => world.begin_program(),
                8 => world.pass(SILENCE + RETRY),
                9 => world.begin_guest(|| 2304 + rng.below(60_000) as u32),
                10 => {
                    let bye = world.teller.bye();
                    world.up.push_back(bye.frame().to_vec());
                }
                _ => {}
            }
            assert_eq!(world.lost, 0, "seed {seed}");
            let there = world.read + waiting(&world) + on_way(&world) + world.unwatched;
            assert_eq!(went, there, "seed {seed}");
        }
        held += offered - went;
        // Once messages arrive, every port's turn comes.
        for port in 0..ports {
            let mut rounds = 0;
            while !world.offer(port, 1400, |most| most) {
                world.pass(RETRY);
                world.hello();
                world.settle();
                (0..ports.into()).for_each(|place| world.read(place));
                rounds += 1;
                assert!(rounds < 200, "seed {seed}: port {port} waits for ever");
            }
        }
        for _ in 0..2 {
            world.pass(RETRY);
            world.hello();
            world.settle();
            while world.hear() {}
            world.settle();
        }
        assert!(world.lost == 0 && world.gate.is_on() && world.teller.is_on(), "seed {seed}");
    }
    assert!(held > 100_000, "{held}");

    fn waiting(world: &World) -> u64 {
        world.buffers.iter().map(|(_, buffer)| buffer.queue.len() as u64).sum()
    }

    fn on_way(world: &World) -> u64 {
        world.ring.iter().filter(|coming| matches!(coming, Coming::Datagram { .. })).count() as u64
    }
}

#[test]
fn an_ask_of_another_session_is_not_answered() {
    let mut world = World::new();
    world.meet();
    let mut other = Teller::new(Mac::local(2), 9, PAGE);
    world.hello();
    world.hear();
    let ask = world.gate.ask().unwrap();
    assert_eq!(other.hear(ask.frame()), Heard::Nothing);
    assert_eq!(world.teller.hear(ask.frame()), Heard::Asked);
    assert_eq!(world.teller.hear(ask.frame()), Heard::Nothing, "twice");
}

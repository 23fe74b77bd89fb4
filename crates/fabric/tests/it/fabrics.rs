//! Two leaves with two hosts each, and two spines between them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fabric::{Config, Delivery, Fabrics, Place, PortConfig, Route, Sent};
use lossless::ClassKind;
use units::{Bytes, Class, Instant, Mac};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::ipv4;
use zerocopy::IntoBytes;

use crate::world::{LONGEST, config, mac};

const HOSTS: usize = 4;
const CLASS: Class = Class::from_low_bits(0);

/// A frame of a host: of which flow, and which of its.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Frame {
    from: usize,
    flow: u16,
    number: u32,
}

struct World {
    fabrics: Fabrics<Frame>,
    now: Instant,
    /// By host, what it is to send, the last first.
    queues: [Vec<(Frame, Vec<u8>)>; HOSTS],
    received: Vec<(Instant, usize, Frame)>,
    released: Vec<Frame>,
}

/// Switches 0 and 1 are the leaves, whose ports 0 and 1 lead to hosts and 2 and 3 to the spines,
/// which are switches 2 and 3.
fn place(switch: usize, port: usize) -> Place {
    Place { switch, port }
}

impl World {
    fn new(kind: ClassKind, alter: impl Fn(&mut Config)) -> Self {
        let route = |host: usize, ports: &[usize]| Route { mac: mac(host), ports: ports.to_vec() };
        let switch = |trunks: &[bool], routes: Vec<Route>| {
            let mut config = Config { routes, ..config(trunks.len(), kind) };
            let set = |(port, trunk): (&mut PortConfig, &bool)| port.trunk = *trunk;
            config.ports.iter_mut().zip(trunks).for_each(set);
            alter(&mut config);
            config
        };
        let leaf = |leaf: usize| {
            let way = |host: usize| match host / 2 == leaf {
                true => route(host, &[host % 2]),
                false => route(host, &[2, 3]),
            };
            switch(&[false, false, true, true], (0..HOSTS).map(way).collect())
        };
        let spine =
            || switch(&[true, true], (0..HOSTS).map(|host| route(host, &[host / 2])).collect());
        let hosts = (0..HOSTS).map(|host| place(host / 2, host % 2)).collect();
        let cables =
            [0, 1].map(|leaf| [0, 1].map(|spine| [place(leaf, 2 + spine), place(2 + spine, leaf)]));
        let configs = [leaf(0), leaf(1), spine(), spine()];
        let fabrics = Fabrics::new(&configs, hosts, &cables.concat()).unwrap();
        let (received, released) = (Vec::new(), Vec::new());
        Self { fabrics, now: Instant::ZERO, queues: Default::default(), received, released }
    }

    /// Has a host send frames of a flow, the longest that there are.
    fn queue(&mut self, from: usize, to: Mac, flow: u16, count: u32) {
        let header = ethernet::Header::new(to, mac(from), ethertype::IPV4);
        let ip = ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol::UDP, 1480)
            .unwrap();
        let head = [header.as_bytes(), ip.as_bytes(), &flow.to_be_bytes(), &[0; 62]].concat();
        let frames = (0..count).map(|number| (Frame { from, flow, number }, head.clone()));
        self.queues[from].splice(0..0, frames.rev());
    }

    /// Lets everything happen. Hosts obey no pauses: they are held back by their credit.
    fn run(&mut self) {
        loop {
            self.fabrics.run(self.now);
            let Self { fabrics, now, received, .. } = self;
            fabrics.deliver(*now, |host, delivery| {
                if let Delivery::Frame { from, handle, .. } = delivery {
                    assert_eq!(from, handle.from);
                    received.push((*now, host, handle));
                }
                true
            });
            let mut free_at = None;
            for host in 0..HOSTS {
                while self.fabrics.has_room(host)
                    && let Some((handle, head)) = self.queues[host].last()
                {
                    if self.fabrics.host_free_at(host) > self.now {
                        free_at =
                            free_at.into_iter().chain([self.fabrics.host_free_at(host)]).min();
                        break;
                    }
                    let len = LONGEST as usize;
                    let sent = Sent { handle: *handle, head, len, frames: 1, bytes: LONGEST };
                    self.fabrics.send(self.now, host, sent);
                    self.queues[host].pop();
                }
            }
            self.released.extend(self.fabrics.released().map(|released| {
                assert_eq!(released.port, released.handle.from);
                released.handle
            }));
            assert!(self.fabrics.balances());
            match [free_at, self.fabrics.deadline()].into_iter().flatten().min() {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
    }

    /// How many frames left by a port.
    fn sent(&self, switch: usize, port: usize) -> u64 {
        self.fabrics.counters(place(switch, port), CLASS).sent.frames
    }
}

#[test]
fn a_frame_is_sent_once_by_each_link_of_its_way() {
    for (to, links) in [(1, 2), (2, 4), (3, 4)] {
        let mut world = World::new(ClassKind::Lossy, |_| {});
        world.queue(0, mac(to), 1, 1);
        world.run();
        // The longest frame with check sequence, preamble and gap at 10 Gb/s, to the nanosecond;
        // then the delay.
        let link = u64::from(LONGEST + 24) * 8 / 10 + 500;
        let [(at, host, _)] = world.received[..] else { panic!("{:?}", world.received) };
        assert_eq!((at, host), (Instant::from_nanos(links * link), to));
        assert_eq!(world.released.len(), 1);
    }
}

#[test]
fn flows_are_spread_over_the_spines_and_stay_in_order() {
    let mut world = World::new(ClassKind::Lossless, |_| {});
    (0..64).for_each(|flow| world.queue(0, mac(2), flow, 4));
    world.run();
    assert_eq!(world.received.len(), 256);
    for spine in [2, 3] {
        assert!((64..=192).contains(&world.sent(0, spine)), "{} by {spine}", world.sent(0, spine));
        assert_eq!(world.sent(0, spine) % 4, 0, "a flow has one way");
    }
    let mut next = BTreeMap::<u16, u32>::new();
    for (_, host, frame) in world.received {
        let next = next.entry(frame.flow).or_default();
        assert_eq!((host, frame.number), (2, *next));
        *next += 1;
    }
}

#[test]
fn an_incast_over_the_spines_pauses_from_switch_to_switch_and_loses_nothing() {
    let mut world = World::new(ClassKind::Lossless, |config| {
        config.ports.iter_mut().for_each(|port| port.buffer.bytes = Bytes(30_000));
    });
    for from in [0, 1, 3] {
        (0..8).for_each(|flow| world.queue(from, mac(2), flow, 50));
    }
    world.run();
    assert_eq!(world.received.len(), 3 * 8 * 50);
    assert!(world.received.iter().all(|(_, host, _)| *host == 2));
    // The far leaf pauses both spines, and they the near leaf.
    for (switch, port) in [(1, 2), (1, 3), (2, 0), (3, 0)] {
        let counters = world.fabrics.counters(place(switch, port), CLASS);
        assert!(counters.pauses_sent > 0, "switch {switch}, port {port}: {counters:?}");
    }
    world.released.sort_unstable();
    world.released.dedup();
    assert_eq!(world.released.len(), 3 * 8 * 50, "each is released once");
}

#[test]
fn lossy_switches_drop_what_finds_no_room_and_release_all() {
    let mut world = World::new(ClassKind::Lossy, |config| {
        config.ports.iter_mut().for_each(|port| port.buffer.bytes = Bytes(10_000));
    });
    for from in [0, 1, 3] {
        (0..8).for_each(|flow| world.queue(from, mac(2), flow, 50));
    }
    world.run();
    assert!(world.received.len() < 3 * 8 * 50);
    world.released.sort_unstable();
    world.released.dedup();
    assert_eq!(world.released.len(), 3 * 8 * 50);
}

#[test]
fn what_is_for_nobody_that_is_declared_stays_at_its_leaf() {
    for to in [Mac::BROADCAST, mac(77)] {
        let mut world = World::new(ClassKind::Lossy, |_| {});
        world.queue(0, to, 1, 1);
        world.run();
        let hosts: Vec<_> = world.received.iter().map(|(_, host, _)| *host).collect();
        assert_eq!((hosts, world.released.len()), (vec![1], 1));
    }
}

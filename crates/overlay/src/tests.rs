//! The overlay of a host in a plane: far hosts that come and go, and what they send.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use datapath::{Declared, Directory, Network};
use lossless::{PortConfig, PortId, Settings};
use model::{BfdStatus, Member, NetworkName, NetworkSpec, Uplink, VtepList};
use plane::{NoGate, NoResponder, Plane};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use proptest::collection::vec;
use proptest::prelude::*;
use tunnel::message::{Ends, Message, VERSION};
use tunnel::outer::{Encapsulation, Received, Vteps};
use tunnel::{Data, Hello, Incarnation, Stream, Unsolicited};
use units::{Class, ClassSet, Instant, Mac, Rng, Span};
use wire::ethernet::{self, ethertype};
use wire::geneve::Draft;
use zerocopy::IntoBytes;

use crate::{Delta, Monitor, Overlay, Topology};

const LEN: u16 = 60;

/// This host, as networks know it. Its socket is bound to another address.
const VTEP: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

/// Watches nothing.
struct Blind;

impl Monitor for Blind {
    fn watch(&mut self, _: &[IpAddr]) {}

    fn set_keys(&mut self, _: &Arc<seal::Keys>) {}

    fn events(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn each(&self, _: &mut dyn FnMut(IpAddr, Option<bool>)) {}

    fn status(&self, _: IpAddr) -> Option<BfdStatus> {
        None
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where this host's socket is: an address that no other test has.
fn here(place: u8) -> IpAddr {
    let [.., id] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 14, place, id).into()
}

/// A far host, as networks know it: an address for benchmarks (RFC 2544).
fn far(host: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc612_0000 + host + 1).into()
}

/// Where datagrams to it go instead: nobody is there.
fn nowhere(far: IpAddr) -> IpAddr {
    let IpAddr::V4(far) = far else { panic!("all are of one family") };
    Ipv4Addr::from_bits(0x7f10_0000 | far.to_bits() & 0xffff).into()
}

fn member(number: u32, vtep: IpAddr, label: u32) -> Member {
    Member { mac: Mac::local(number), addresses: Vec::new(), vtep: vtep.into(), label }
}

/// The incarnation with which a session of this seed begins.
fn incarnation(seed: u64) -> Incarnation {
    Incarnation::random(&mut Rng::new(seed))
}

/// A switch with one port, whose machine has number 1, in network 1.
struct World {
    here: IpAddr,
    now: Instant,
    plane: Plane<MemoryPort, Overlay>,
    topology: Topology,
    port: PortId,
    end: MemoryEnd,
}

impl World {
    fn new(place: u8, uplink: impl FnOnce(Uplink) -> Uplink) -> Self {
        let here = here(place);
        let now = Instant::ZERO + Span::from_millis(1);
        let settings = Settings::default();
        let mut plane =
            Plane::with_stages(settings, datapath::Settings::default(), NoResponder, NoGate);
        let uplink = uplink(Uplink { bfd: None, ..Uplink::new(VtepList::from(here)) });
        let monitor = |_, _| Box::new(Blind) as Box<dyn Monitor>;
        let overlay = Overlay::new(&uplink, None, || 1, &settings, monitor).unwrap();
        plane.attach_uplink(now, overlay, PortConfig::default()).unwrap();
        let (device, end) = pair(MemoryConfig { slots: 64, slot_size: 1600 });
        let forwarding = datapath::PortConfig { network: network(1), ..Default::default() };
        let port = plane.attach(now, device, PortConfig::default(), forwarding).unwrap();
        plane.datapath_mut().pin(port, Mac::local(1), 0);
        Self { here, now, plane, topology: Topology::default(), port, end }
    }

    /// Networks with these VNIs have machine 1 here, and these machines on these far hosts.
    fn declare(&mut self, networks: &[(u32, &[(u32, u32)])]) -> Delta {
        self.declare_at(networks, |vtep| nowhere(vtep.first()).into())
    }

    /// The same, with far hosts at these addresses in truth.
    fn declare_at(
        &mut self,
        networks: &[(u32, &[(u32, u32)])],
        real: impl Fn(&VtepList) -> VtepList,
    ) -> Delta {
        let spec = |(vni, machines): &(u32, &[(u32, u32)])| {
            let others = machines
                .iter()
                .map(|(machine, host)| member(*machine, far(*host), vni << 16 | machine));
            let own = member(1, VTEP.into(), *vni);
            let members = std::iter::once(own).chain(others).collect();
            NetworkSpec::new(NetworkName(vni.to_string()), *vni, members)
        };
        let specs: Vec<_> = networks.iter().map(spec).collect();
        let directory = Directory::new(&specs, &VtepList::from(IpAddr::from(VTEP))).unwrap();
        let delta = self.topology.advance(&directory);
        let numbered = |(name, declared): &(NetworkName, Option<Arc<Declared>>)| {
            (network(name.0.parse().unwrap()), declared.clone())
        };
        let networks: Vec<_> = delta.networks.iter().map(numbered).collect();
        let (overlay, _) = self.plane.peers_mut().unwrap();
        let hosts: Vec<_> = delta.hosts.iter().map(|(peer, vtep)| (*peer, real(vtep))).collect();
        overlay.follow(self.now, &delta.gone, &hosts, &networks);
        for (network, declared) in networks {
            self.plane.datapath_mut().declare(network, declared);
        }
        self.plane.handle_peer_events(self.now);
        delta
    }

    fn turn(&mut self) {
        self.plane.turn(self.now);
        let (overlay, _) = self.plane.peers_mut().unwrap();
        overlay.flush(self.now, None);
        self.plane.switch().audit().unwrap();
    }

    /// What a far host says arrives, and a frame behind it if it is of one.
    fn hear(&mut self, host: u32, vni: u32, message: &Message) {
        let draft = Draft::new(vni).unwrap();
        let header = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype::IPV4);
        let frame = [header.as_bytes(), &[0; LEN as usize - 14]].concat();
        let (mut draft, frame) = match message {
            Message::Data(..) => (draft, &frame[..]),
            _ => (draft.for_control(0), &[][..]),
        };
        assert!(message.write(&mut draft));
        let packet = [draft.parts()[0], draft.parts()[1], frame].concat();
        let vteps = Vteps::new(self.here, nowhere(far(host))).unwrap();
        let received = Received::of_datagram(Encapsulation::Geneve, vteps, 0, &packet).unwrap();
        let now = self.now;
        let (Overlay { table, shared, senders, .. }, _) = self.plane.peers_mut().unwrap();
        let peer = senders[&nowhere(far(host))];
        table.touch(peer).unwrap().handle(now, shared, &received, &packet);
        table.note_arrivals(peer);
    }

    /// A far host that retransmits nothing has begun, and knows us.
    fn greet(&mut self, host: u32) {
        let [from, to] = [2, 1].map(incarnation);
        let unsolicited = Unsolicited { bytes: 3000, unlimited: ClassSet::NONE };
        let versions = [VERSION; 2];
        let hello = Hello { from, to: Some(to), versions, reliable: ClassSet::NONE, unsolicited };
        self.hear(host, 1, &Message::Hello(hello));
    }

    /// Data of a far host's stream from this offset on.
    fn hear_data(&mut self, host: u32, vni: u32, offset: u32) {
        let [from, to] = [2, 1].map(|seed| incarnation(seed).tag());
        let stream = Stream { label: vni, class: Class::from_low_bits(0) };
        let len = NonZeroU16::new(LEN).unwrap();
        let data = Data::whole(Ends { from, to }, 1, stream, offset, len);
        self.hear(host, vni, &Message::Data(data, None));
    }

    /// The machine here sends a frame to another, or to all.
    fn send(&mut self, to: Mac) {
        assert!(self.try_send(to, 60), "there is room");
    }

    /// The same of this length. `false` if there is no room for it.
    fn try_send(&mut self, to: Mac, len: usize) -> bool {
        let header = ethernet::Header::new(to, Mac::local(1), ethertype::IPV4);
        let frame = [header.as_bytes(), &vec![0; len - 14]].concat();
        self.plane.mark_rx_ready(self.port.index());
        self.end.send(&frame).is_ok()
    }

    fn held(&self) -> u64 {
        self.plane.switch().total().held
    }

    fn refused(&self) -> u64 {
        self.plane.switch().total().refusals().map(|(_, count)| count).sum()
    }
}

fn network(number: u32) -> Network {
    Network::new(number as u16).unwrap()
}

/// Only the classes that are not retransmitted arrive so.
fn unreliable(uplink: Uplink) -> Uplink {
    Uplink { retransmit: ClassSet::NONE, ..uplink }
}

#[test]
fn a_frame_that_waited_in_vain_is_delivered_although_nothing_more_arrives() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(1, unreliable);
    world.declare(&[(1, &[(2, 0)])]);
    world.greet(0);
    // The frame before it is lost.
    world.hear_data(0, 1, LEN.into());
    world.turn();
    let until = world.now + Span::from_millis(100);
    while let Some(due) = world.plane.peer_deadline().filter(|due| *due < until) {
        world.now = world.now.max(due);
        world.plane.handle_peer_timeouts(world.now);
        world.turn();
    }
    assert_eq!(world.plane.switch().total().accepted, 1);
}

#[test]
fn what_is_held_for_a_host_that_is_gone_is_refused_and_the_rest_stays() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(2, |uplink| uplink);
    world.declare(&[(1, &[(2, 0), (3, 1)])]);
    // Neither host has answered: all waits. The broadcast waits for both.
    [Mac::local(2), Mac::local(3), Mac::BROADCAST].into_iter().for_each(|to| world.send(to));
    world.turn();
    world.turn();
    assert_eq!((world.held(), world.refused()), (3, 0));
    world.declare(&[(1, &[(3, 1)])]);
    assert_eq!((world.held(), world.refused()), (2, 1), "the broadcast still waits for one");
    // Another host gets the number, and nothing of the one before.
    let delta = world.declare(&[(1, &[(3, 1), (4, 2)])]);
    let [(peer, _)] = &delta.hosts[..] else { panic!("{delta:?}") };
    assert_eq!(peer.index(), 0);
    let uplink = world.plane.uplink().unwrap();
    assert!(world.plane.switch().group_account(uplink, 0).is_none());
    world.turn();
    assert_eq!(world.held(), 2);
}

#[test]
fn what_came_for_a_network_that_is_gone_reaches_no_other_with_its_number() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(3, unreliable);
    world.declare(&[(1, &[(2, 0)])]);
    world.greet(0);
    world.hear_data(0, 1, 0);
    // It was not polled yet. The network goes, and comes again as another with the same number.
    let other: &[(u32, u32)] = &[(2, 0)];
    world.declare(&[(9, other)]);
    world.declare(&[(1, other), (9, other)]);
    world.turn();
    assert_eq!((world.held(), world.refused()), (0, 1));
    assert_eq!(world.end.receive(10, |_| {}), 0);
}

#[test]
fn a_host_that_does_not_answer_is_stalled_until_it_does() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(4, |uplink| uplink);
    world.declare(&[(1, &[(2, 0), (3, 1)])]);
    world.send(Mac::local(2));
    world.turn();
    assert_eq!((world.held(), world.refused()), (1, 0));
    world.now += Settings::default().stall_after;
    world.plane.tick(world.now);
    world.turn();
    assert_eq!((world.held(), world.refused()), (0, 1), "the stall time is over");
    // Others are refused at once, and other hosts' frames wait as before.
    [Mac::local(2), Mac::local(3)].into_iter().for_each(|to| world.send(to));
    world.turn();
    assert_eq!((world.held(), world.refused()), (1, 2));
    // It answers.
    world.greet(0);
    world.hear_data(0, 1, 0);
    world.turn();
    world.send(Mac::local(2));
    world.turn();
    assert_eq!((world.held(), world.refused()), (2, 2));
}

#[test]
fn thousands_of_idle_hosts_are_visited_by_no_turn() {
    if !needs::root() {
        return;
    }
    let mut world = World::new(5, |uplink| uplink);
    let members: Vec<_> = (0..4096).map(|host| (host + 2, host)).collect();
    let delta = world.declare(&[(1, &members)]);
    assert_eq!(delta.hosts.len(), 4096);
    // Each is told of us, as the kernel has room.
    let is_any_touched = |world: &World| world.plane.peers().unwrap().table.is_any_touched();
    let turns = (0..1000).take_while(|_| {
        world.turn();
        is_any_touched(&world)
    });
    assert!(turns.count() < 1000 && !is_any_touched(&world));
    world.send(Mac::local(77));
    world.turn();
    let declared = world.declare(&[(1, &members[1..])]);
    assert_eq!((declared.gone.len(), declared.hosts.len()), (1, 0));
}

/// Two hosts that talk over loopback, each with a thread that sleeps as the agent's does: until its
/// next deadline, or for half a millisecond while the kernel has no room, and never with something
/// left to do.
struct Pair {
    hosts: [World; 2],
    now: Instant,
}

impl Pair {
    fn new(place: u8, uplink: impl Fn(Uplink) -> Uplink) -> Self {
        let mut hosts = [place, place + 1].map(|place| World::new(place, &uplink));
        let addresses = [hosts[0].here, hosts[1].here];
        for (number, world) in hosts.iter_mut().enumerate() {
            // Machine 1 is here and machine 2 there, by the names of each.
            world.declare_at(&[(1, &[(2, 0)])], |_| addresses[1 - number].into());
        }
        Self { now: hosts[0].now, hosts }
    }

    /// All that there is to do now, on both hosts, and what falls due until something moves or this
    /// time has come. Returns whether anything is left to wait for.
    fn run(&mut self, until: Instant) {
        while self.now < until {
            let mut sleeps = Some(until);
            for world in &mut self.hosts {
                world.now = self.now;
                let wakes = world.turn_as_a_thread();
                sleeps = sleeps.into_iter().chain(wakes).min();
            }
            // What is late is due now.
            let next = sleeps.unwrap_or(until);
            self.now = next.max(self.now + Span::from_micros(20));
        }
    }
}

impl World {
    /// One turn. Returns when the thread wakes although nothing arrives; `None` if never.
    fn turn_as_a_thread(&mut self) -> Option<Instant> {
        let now = self.now;
        let (overlay, _) = self.plane.peers_mut().unwrap();
        overlay.links_mut().iter_mut().for_each(crate::Link::mark_rx_ready);
        let received = overlay.receive(now, None);
        self.plane.handle_peer_timeouts(now);
        self.plane.tick(now);
        let moved = self.plane.turn(now);
        let (overlay, _) = self.plane.peers_mut().unwrap();
        overlay.flush(now, None);
        let has_events = overlay.has_events();
        self.plane.switch().audit().unwrap();
        if received || moved || has_events {
            return Some(now);
        }
        let retry = self.plane.is_any_tx_blocked().then(|| now + Span::from_micros(500));
        let due = self.plane.peer_deadline();
        retry.into_iter().chain(due).chain(self.plane.switch().deadline(now)).min()
    }

    fn trunk(&mut self) -> &mut crate::trunk::Trunk {
        let (Overlay { table, .. }, _) = self.plane.peers_mut().unwrap();
        let peer = table.peers()[0];
        table.touch(peer).unwrap()
    }
}

/// What happens to a host that sends.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Frames of this length, of machine 1 for machine 2.
    Send(usize, u32),
    /// The link pauses these classes.
    Pause(u8),
    /// The path works, or does not.
    Path(bool),
    /// Time goes by, in microseconds.
    Wait(u64),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        4 => (60..1500_usize, 1..40_u32).prop_map(|(len, count)| Trouble::Send(len, count)),
        1 => prop_oneof![Just(0_u8), Just(0xff), Just(1)].prop_map(Trouble::Pause),
        1 => any::<bool>().prop_map(Trouble::Path),
        3 => (0..20_000_u64).prop_map(Trouble::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever holds frames back for a while, they arrive once it is over, without anything else
    /// that wakes the threads.
    #[test]
    fn what_had_to_wait_goes_on_by_itself(
        reliable: bool, credit: bool, troubles in vec(trouble(), 1..30),
    ) {
        if !needs::root() {
            return Ok(());
        }
        let classes = |all: bool| if all { ClassSet::ALL } else { ClassSet::NONE };
        let uplink = |uplink| Uplink { retransmit: classes(reliable), credit: classes(credit), ..uplink };
        let mut pair = Pair::new(20, uplink);
        let mut sent = 0_u64;
        for trouble in troubles {
            let [sender, _] = &mut pair.hosts;
            match trouble {
                Trouble::Send(len, count) => {
                    sent += (0..count).filter(|_| sender.try_send(Mac::local(2), len)).count() as u64;
                }
                Trouble::Pause(classes) => drop(sender.trunk().pause(classes)),
                Trouble::Path(works) => {
                    let now = sender.now;
                    let trunk = sender.trunk();
                    trunk.found(0, Some(works));
                    trunk.settle(now);
                }
                Trouble::Wait(micros) => {
                    let until = pair.now + Span::from_micros(micros);
                    pair.run(until);
                }
            }
        }
        let [sender, _] = &mut pair.hosts;
        let now = sender.now;
        sender.trunk().pause(0);
        sender.trunk().found(0, Some(true));
        sender.trunk().settle(now);
        let until = pair.now + Span::from_secs(3);
        pair.run(until);
        let [sender, receiver] = &mut pair.hosts;
        prop_assert_eq!((sender.held(), sender.refused()), (0, 0));
        let arrived = receiver.plane.switch().total().accepted;
        prop_assert_eq!(arrived, sent, "of a session nothing is lost on loopback");
        prop_assert!(sender.turn_as_a_thread().is_none_or(|at| at > until), "idle threads sleep");
    }
}

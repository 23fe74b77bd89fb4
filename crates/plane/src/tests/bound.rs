//! Ports of logical networks: the switch delivers what the interpreter says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binding::{Networks, Places};
use datapath::Peer;
use image::Domain;
use interpreter::Arrival;
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use lossless::{PortConfig, PortId, Settings};
use pipeline::Net;
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair, turned};
use units::{Instant, Mac, Rng, Span};
use wire::{Offload, ethernet};
use worlds::{Options, World};
use zerocopy::IntoBytes;

mod health;
mod moves;
mod neighbours;
mod ports;

use super::cable::{Cables, between};
use crate::{NoGate, NoResponder, Plane};

pub const MEMORY: MemoryConfig = MemoryConfig { slots: 64, slot_size: 4096 };

/// Ports that rules and networks speak of, and some others.
const PORTS: [u16; 12] = [0, 53, 67, 68, 80, 85, 443, 546, 547, 999, 1000, 8080];

/// Memory for so many flows.
fn settings(flows: u32) -> binding::Settings {
    let (timeouts, key) = (conntrack::Timeouts::default(), [1, 2]);
    let connections =
        conntrack::Settings { connections: 4096, zones: 64, tenants: 8, timeouts, key };
    binding::Settings { connections, flows, secret: [3, 4] }
}

/// Hosts that together have all ports of their networks.
pub struct Hosts {
    pub planes: Vec<Plane<MemoryPort, Cables, NoResponder, NoGate>>,
    pub ends: BTreeMap<Identity, End>,
    /// Ports that are attached where others do not reach them: they are about to come, or have
    /// left.
    beside: Vec<(Identity, End)>,
    /// Whether routers keep their flows at none of them.
    pub homeless: bool,
    generation: u64,
    /// By host: its part of each domain, as it was made last.
    parts: Vec<BTreeMap<Identity, (Domain, Arc<Net>)>>,
    changes: u64,
}

/// A port, the host that has it, and the other end of it.
pub struct End {
    pub host: usize,
    port: PortId,
    pub machine: MemoryEnd,
}

impl Hosts {
    /// So many hosts, each with some of the ports, which have so much memory. A child is where its
    /// parent is.
    pub fn new(topology: &Topology, hosts: usize, memory: MemoryConfig) -> Self {
        Self::remembering(4096, topology, hosts, memory)
    }

    /// The same, and each remembers so many flows.
    fn remembering(flows: u32, topology: &Topology, hosts: usize, memory: MemoryConfig) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let plane = |cables: Cables| {
            let mut plane = Plane::with_stages(
                Settings::default(),
                datapath::Settings::default(),
                NoResponder,
                NoGate,
            );
            plane.attach_uplink(now, cables, PortConfig::default()).unwrap();
            plane.set_logical(Networks::new(&settings(flows), now));
            let (switched, forwarding) = (PortConfig::default(), datapath::PortConfig::default());
            let turn = plane.attach(now, turned(MEMORY), switched, forwarding).unwrap();
            plane.bind_turn(turn);
            plane
        };
        let planes = between(hosts).into_iter().map(plane).collect();
        let (ends, beside) = (BTreeMap::new(), Vec::new());
        let (generation, changes, homeless) = (0, 0, false);
        let parts = vec![BTreeMap::new(); hosts];
        let mut new = Self { planes, ends, beside, homeless, generation, parts, changes };
        let are_parents = |it: &(PortIndex, &logical::topology::Port)| {
            !matches!(it.1.attachment, Attachment::Child { .. })
        };
        for (number, (_, port)) in topology.ports().filter(are_parents).enumerate() {
            let end = new.attach(now, number % hosts, &port.id, memory);
            new.ends.insert(port.id.clone(), end);
        }
        new.realize(topology);
        new
    }

    /// Attaches a port to a host, with so much memory.
    fn attach(&mut self, now: Instant, host: usize, name: &Identity, memory: MemoryConfig) -> End {
        let (device, machine) = pair(memory);
        let (switched, forwarding) = (PortConfig::default(), datapath::PortConfig::default());
        let port = self.planes[host].attach(now, device, switched, forwarding).unwrap();
        self.planes[host].bind(port, name.clone());
        End { host, port, machine }
    }

    /// Has all hosts decide by what is declared.
    pub fn realize(&mut self, topology: &Topology) {
        (0..self.planes.len()).for_each(|host| self.realize_at(host, topology));
    }

    /// Has one host decide by what is declared, and know where ports are.
    fn realize_at(&mut self, host: usize, topology: &Topology) {
        self.generation += 1;
        let host_of = |name: &Identity| {
            let (_, port) = topology.ports().find(|(_, port)| port.id == *name)?;
            let at = match port.attachment {
                Attachment::Child { parent, .. } => &topology[parent].id,
                _ => name,
            };
            Some(self.ends.get(at)?.host)
        };
        let mut names: Vec<_> = topology.ports().map(|(_, port)| port.id.clone()).collect();
        names.extend(topology.router_ports().map(|(_, port)| port.id.clone()));
        // Each router translates at one host.
        let hosts = self.planes.len();
        let routers: Vec<_> = topology.routers().map(|(_, router)| router.id.clone()).collect();
        let is_homeless = self.homeless;
        let home = |router: &Identity| {
            let place = routers.iter().position(|it| it == router);
            place.map(|it| if is_homeless { usize::MAX } else { it % hosts })
        };
        let home_of = |name: &Identity| {
            let (_, port) = topology.router_ports().find(|(_, port)| port.id == *name)?;
            home(&topology[port.router].id)
        };
        let host_of = |name: &Identity| host_of(name).or_else(|| home_of(name));
        let checked = topology.balancers().filter(|(_, it)| it.health_check.is_some());
        let checked: Vec<_> = checked.map(|(_, it)| it.id.clone()).collect();
        let all_names = [names.clone(), checked.clone()].concat();
        let plane = &mut self.planes[host];
        let mut places = Places::new(all_names.iter().cloned().zip(1..)).unwrap();
        for balancer in &checked {
            let others = (0..hosts).filter(|it| *it != host);
            let others = others.filter_map(|it| Peer::new(it as u32)).collect();
            places.choose_at(balancer, others);
        }
        for name in &names {
            let there = host_of(name).filter(|it| *it != host);
            places.place(name, there.and_then(|it| Peer::new(it as u32)));
        }
        let is_here = |it: &Identity| host_of(it).or_else(|| home(it)) == Some(host);
        let all = names.iter().chain(&routers);
        let is_beside =
            |it: &Identity| self.beside.iter().any(|(name, at)| name == it && at.host == host);
        let own: BTreeSet<_> = all.filter(|it| is_here(it) || is_beside(it)).cloned().collect();
        let mut nets = Vec::new();
        for (name, domain) in compiler::compile(topology) {
            let rows = domain.part(&own);
            self.changes += 1;
            let before = self.parts[host].get(&name).map(|(rows, net)| (rows, &**net));
            let net = Net::changed(&rows, self.changes, before).with_routers(is_here);
            let net = Arc::new(net);
            self.parts[host].insert(name, (rows, net.clone()));
            nets.push(net);
        }
        let logical = plane.logical_mut().unwrap();
        logical.realize(self.generation, nets);
        logical.locate(Arc::new(places));
        plane.relocate(Instant::from_nanos(1_000_000_000));
    }

    /// A port is at another host from now on, where it is attached beside.
    fn go(&mut self, name: &Identity, host: usize) {
        let is_it = |(it, end): &(Identity, End)| it == name && end.host == host;
        let place = self.beside.iter().position(is_it).unwrap();
        let (_, new) = self.beside.swap_remove(place);
        let old = self.ends.insert(name.clone(), new).unwrap();
        self.beside.push((name.clone(), old));
    }

    pub fn offer(&mut self, from: &Identity, frame: &[u8]) {
        let End { host, machine, .. } = self.ends.get_mut(from).unwrap();
        machine.send(frame).unwrap();
        self.planes[*host].mark_all_rx_ready();
    }

    /// Turns until nothing moves.
    fn settle(&mut self, now: Instant) {
        let mut moved = true;
        while moved {
            moved = false;
            for plane in &mut self.planes {
                plane.mark_all_rx_ready();
                moved |= plane.turn(now);
            }
        }
    }

    /// Turns until nothing moves. What each port's machine has got by then, in no order.
    pub fn turn(&mut self, now: Instant) -> Vec<(Identity, Vec<u8>)> {
        self.settle(now);
        let mut got = Vec::new();
        for (name, end) in &mut self.ends {
            end.machine.receive(64, |frame| got.push((name.clone(), frame.bytes.to_vec())));
        }
        got.sort();
        got
    }

    /// How many frames were decided as those of their flows before.
    pub fn known(&self) -> u64 {
        self.planes.iter().map(|plane| plane.logical().unwrap().decided().known).sum()
    }

    fn held(&self) -> u64 {
        self.planes.iter().map(|plane| plane.switch().total().held).sum()
    }

    fn assert_balanced(&self) {
        let defects = self.planes.iter().filter_map(|it| it.switch().audit().err());
        assert_eq!(defects.collect::<Vec<_>>(), []);
        assert_eq!(self.held(), 0);
    }
}

/// What machines get of a frame, and what its sender is answered, as the interpreter says.
#[derive(Debug)]
struct Expected {
    delivered: Vec<(Identity, Vec<u8>)>,
    answers: Vec<(Identity, Vec<u8>)>,
}

impl Expected {
    /// All of it, in no order.
    fn concat_sorted(self) -> Vec<(Identity, Vec<u8>)> {
        let mut all = [self.delivered, self.answers].concat();
        all.sort();
        all
    }

    /// Whether this is what they got, but for answers. What a router at another host tells, the
    /// rules of its sender's port may refuse; and a flow that is translated there, and refused by
    /// whom it is for, is known there all the same.
    fn are_in(&self, seen: &[(Identity, Vec<u8>)], from: &Identity) -> bool {
        let mut rest = seen.to_vec();
        let mut take = |it| Some(rest.remove(rest.iter().position(|other| other == it)?));
        let are_delivered = self.delivered.iter().all(|it| take(it).is_some());
        are_delivered && rest.iter().all(|(to, _)| to == from)
    }
}

fn expected(
    topology: &Topology,
    state: &mut interpreter::State,
    now: Instant,
    port: PortIndex,
    frame: &[u8],
) -> Expected {
    let decision = interpreter::decide(topology, state, now, Arrival { port, node: None, frame });
    state.commit(&decision.changes, now);
    // A child's frames are its parent's.
    let at = |it: &interpreter::Copy| match topology[it.port].attachment {
        Attachment::Child { parent, .. } => topology[parent].id.clone(),
        _ => topology[it.port].id.clone(),
    };
    let all = |them: &[interpreter::Copy]| -> Vec<_> {
        them.iter().map(|it| (at(it), it.frame.clone())).collect()
    };
    Expected { delivered: all(&decision.delivered), answers: all(&decision.answers) }
}

/// Frames in a world. How many were delivered, and how many got to nobody.
fn agree(seed: u64, options: Options, hosts: usize, patience: u32) -> Counts {
    let world = World::with(seed, options);
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut all = Hosts::new(&world.topology, hosts, MEMORY);
    let mut state = interpreter::State::default();
    let mut rng = Rng::new(seed);
    let mut got: Vec<(PortIndex, Vec<u8>)> = Vec::new();
    let mut sent: Vec<(PortIndex, Vec<u8>)> = Vec::new();
    let mut counts = Counts::default();
    for number in 0..if hosts == 1 { 120 } else { 60 } {
        if hosts == 1 && number % 40 == 39 {
            // The same once more, as if something had changed.
            all.realize(&world.topology);
        }
        let reply = (!got.is_empty() && rng.below(2) == 0).then(|| {
            let (port, frame) = &got[rng.below(got.len() as u64) as usize];
            world.reply(frame, &mut rng).map(|frame| (*port, frame))
        });
        // Half are of a flow that is known.
        let again = (!sent.is_empty() && hosts == 1 && rng.below(2) == 0)
            .then(|| sent[rng.below(sent.len().min(6) as u64) as usize].clone());
        let (port, frame) = again.or(reply.flatten()).unwrap_or_else(|| {
            let is_aimed = options.translations && rng.below(3) == 0;
            let sent = if is_aimed { world.aimed(&mut rng) } else { world.frame(&mut rng) };
            (sent.port, sent.frame)
        });
        let from = &world.topology[port];
        // A port that each host has reaches none of the others.
        let is_alone = from.attachment == Attachment::Local && hosts > 1;
        if !all.ends.contains_key(&from.id) || is_alone {
            continue;
        }
        now += Span::from_millis(10);
        let expected = expected(&world.topology, &mut state, now, port, &frame);
        for plane in &mut all.planes {
            plane.peers_mut().unwrap().0.patience = patience;
        }
        all.offer(&from.id, &frame);
        let seen = all.turn(now);
        let told = || format!("{seed}: from {}: {frame:02x?}\n{}", from.id, world.text);
        match hosts > 1 && options.translations {
            false => assert_eq!(seen, expected.concat_sorted(), "{}", told()),
            true => assert!(
                expected.are_in(&seen, &from.id),
                "{seen:02x?}\n{expected:02x?}\n{}",
                told()
            ),
        }
        if !seen.is_empty() {
            sent.insert(0, (port, frame.clone()));
        }
        counts.delivered += seen.len();
        counts.refused += usize::from(seen.is_empty());
        for (name, frame) in seen {
            let found = world.topology.ports().find(|(_, it)| it.id == name);
            got.extend(found.map(|(index, _)| (index, frame)));
        }
    }
    all.assert_balanced();
    counts.known = all.known();
    counts
}

/// What became of frames.
#[derive(Debug, Default)]
struct Counts {
    delivered: usize,
    refused: usize,
    known: u64,
    /// Known, and got with other ends.
    translated: usize,
    /// Known, and with ports that nobody had sent.
    shared: usize,
}

fn sum(all: impl Iterator<Item = Counts>) -> Counts {
    all.fold(Counts::default(), |sum, it| Counts {
        delivered: sum.delivered + it.delivered,
        refused: sum.refused + it.refused,
        known: sum.known + it.known,
        translated: sum.translated + it.translated,
        shared: sum.shared + it.shared,
    })
}

/// Who remembers flows and who does not deliver the same, while networks change.
fn remembering_changes_nothing(seed: u64, options: Options, hosts: usize) -> Counts {
    let mut world = World::with(seed, options);
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut all = [64, 0].map(|it| Hosts::remembering(it, &world.topology, hosts, MEMORY));
    let mut rng = Rng::new(seed);
    let mut known: Vec<(Identity, Vec<u8>)> = Vec::new();
    let mut flows = BTreeSet::new();
    let mut counts = Counts::default();
    let often = if options.translations { 30 } else { 10 };
    for number in 0..150 {
        if number % often == often - 1 {
            // Ports are attached once: what is new in the world has none.
            world = world.edited(&mut rng);
            all.iter_mut().for_each(|it| it.realize(&world.topology));
        }
        let again = (!known.is_empty() && rng.below(4) != 0).then(|| {
            let (port, mut frame) = known[rng.below(known.len().min(8) as u64) as usize].clone();
            // What differs from frame to frame: lengths, hops, checksums, control bits.
            let at = 14 + rng.below(frame.len() as u64 - 14) as usize;
            if rng.below(3) == 0 {
                frame[at] ^= 1 << rng.below(8);
            }
            // Flows may be known that have nothing but other ports.
            let transport = wire::ip::Layout::of(&frame).map_or(0, |it| it.transport);
            let at = transport + 2 * rng.below(2) as usize;
            let other = PORTS[rng.below(PORTS.len() as u64) as usize];
            if !options.translations
                && rng.below(3) == 0
                && let Some(port) = frame.get_mut(at..at + 2).filter(|_| transport > 0)
            {
                port.copy_from_slice(&other.to_be_bytes());
            }
            (port, frame)
        });
        let (from, frame) = again.unwrap_or_else(|| {
            let is_aimed = options.translations && rng.below(3) != 0;
            let sent = if is_aimed { world.aimed(&mut rng) } else { world.frame(&mut rng) };
            (world.topology[sent.port].id.clone(), sent.frame)
        });
        if !all[0].ends.contains_key(&from) {
            continue;
        }
        // Now and then for so long that some connections are over.
        let is_long = options.translations && rng.below(20) == 0;
        now += if is_long { Span::from_secs(rng.below(300)) } else { Span::from_millis(10) };
        let before = all[0].known();
        let [seen, expected] = all.each_mut().map(|hosts| {
            hosts.offer(&from, &frame);
            hosts.turn(now)
        });
        assert_eq!(seen, expected, "{seed}: from {from}: {frame:02x?}\n{}", world.text);
        counts.delivered += seen.len();
        counts.refused += usize::from(seen.is_empty());
        let is_translated = seen.iter().any(|(_, it)| ends(it) != ends(&frame));
        let is_known = all[0].known() > before;
        counts.translated += usize::from(is_translated && is_known);
        let is_new = flows.insert((from.clone(), ends(&frame).map(<[u8]>::to_vec)));
        counts.shared += usize::from(is_new && is_known);
        let [connections, others] =
            all.each_ref().map(|it| it.planes.iter().map(connections).collect::<Vec<_>>());
        assert_eq!(connections, others, "{seed}: from {from}: {frame:02x?}\n{}", world.text);
        let is_of_a_flow = |frame: &[u8]| pipeline::Head::of(0, frame.into()).is_some();
        if !seen.is_empty() && is_of_a_flow(&frame) {
            known.insert(0, (from, frame));
        }
        for (port, frame) in seen {
            let reply = world.reply(&frame, &mut rng).filter(|reply| is_of_a_flow(reply));
            let place = if options.translations { 0 } else { known.len() };
            known.splice(place..place, reply.map(|reply| (port, reply)));
        }
    }
    all.iter().for_each(Hosts::assert_balanced);
    counts.known = all[0].known();
    counts
}

/// How many connections a host follows.
fn connections(plane: &Plane<MemoryPort, Cables, NoResponder, NoGate>) -> usize {
    plane.logical().unwrap().connections()
}

/// A packet's addresses and what stands where ports do.
fn ends(frame: &[u8]) -> Option<&[u8]> {
    let layout = wire::ip::Layout::of(frame)?;
    frame.get(layout.address_range().start..layout.transport + 4)
}

#[test]
fn what_is_known_of_flows_is_what_would_be_decided_anew() {
    let stateful = |seed: u64| Options { stateful: !seed.is_multiple_of(3), ..OPTIONS };
    let sum = sum((0..120)
        .map(|seed| remembering_changes_nothing(seed, stateful(seed), 1 + seed as usize % 2)));
    assert!(sum.delivered > 3000 && sum.refused > 1000 && sum.known > 2000, "{sum:?}");
    assert!(sum.shared > 100, "{sum:?}");
}

/// The same through routers that translate.
#[test]
fn what_is_known_of_translated_flows_is_what_would_be_decided_anew() {
    let options = |seed: u64| Options {
        stateful: !seed.is_multiple_of(3),
        translations: true,
        stray: seed.is_multiple_of(2),
        ..OPTIONS
    };
    let sum = sum((0..200)
        .map(|seed| remembering_changes_nothing(seed, options(seed), 1 + seed as usize % 2)));
    assert!(sum.delivered > 5000 && sum.known > 1000 && sum.translated > 300, "{sum:?}");
}

const OPTIONS: Options = Options {
    stateful: true,
    translations: false,
    learning: false,
    relay: true,
    stray: false,
    strangers: false,
};

#[test]
fn the_switch_delivers_what_the_interpreter_says() {
    let sum = sum((0..150).map(|seed| agree(seed, OPTIONS, 1, u32::MAX)));
    assert!(sum.delivered > 3000 && sum.refused > 1000 && sum.known > 500, "{sum:?}");
}

/// Half of what leaves has to wait once for its far host.
#[test]
fn switches_together_deliver_what_the_interpreter_says() {
    let sum =
        sum((0..150).map(|seed| agree(seed, OPTIONS, 2 + seed as usize % 2, seed as u32 % 2)));
    assert!(sum.delivered > 1500 && sum.refused > 500, "{sum:?}");
}

/// Routers translate at one host each, to which others hand what is for them.
#[test]
fn translated_frames_are_delivered_as_the_interpreter_says() {
    let options = Options { translations: true, ..OPTIONS };
    let here = sum((0..150).map(|seed| agree(seed, options, 1, u32::MAX)));
    assert!(here.delivered > 1500 && here.refused > 500, "{here:?}");
    let there = (0..300).map(|seed| agree(seed, options, 2 + seed as usize % 2, seed as u32 % 2));
    let there = sum(there);
    assert!(there.delivered > 1500 && there.refused > 500, "{there:?}");
}

/// Two machines of one switch.
const TWO: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
";

/// What `a` may not send to `b` any longer.
const RULE: &str = "
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [a]}, rules: [{name: r, direction: fromPort, action: drop, services: [{protocol: udp}]}]}}
";

/// A datagram from `a` to `b`.
fn datagram() -> Vec<u8> {
    datagram_of(9, 9)
}

/// The same, from a port to another.
fn datagram_of(source: u16, destination: u16) -> Vec<u8> {
    let ip = wire::ipv4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 8).unwrap();
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let ethernet = ethernet::Header::new(mac(2), mac(1), ethernet::ethertype::IPV4);
    let ports = [source, destination].map(u16::to_be_bytes).concat();
    [ethernet.as_bytes(), ip.as_bytes(), &ports, &[0, 8, 0, 0]].concat()
}

#[test]
fn a_frame_that_waits_is_decided_by_the_generation_of_when_it_leaves() {
    let now = Instant::from_nanos(1_000_000_000);
    let topology = |text: &str| logical::load(text).unwrap();
    let memory = MemoryConfig { slots: 4, slot_size: 4096 };
    let mut host = Hosts::new(&topology(TWO), 1, memory);
    let [a, b]: [Identity; 2] = host.ends.keys().cloned().collect::<Vec<_>>().try_into().unwrap();
    let frame = datagram();
    (0..4).for_each(|_| host.offer(&a, &frame));
    host.settle(now);
    let receiver = &mut host.ends.get_mut(&b).unwrap().machine;
    assert_eq!(receiver.receive(1, |_| {}), 1, "and three buffers are still full");
    (0..2).for_each(|_| host.offer(&a, &frame));
    host.settle(now);
    assert_eq!(host.held(), 1, "it waits for room");
    host.realize(&topology(&[TWO, RULE].concat()));
    assert_eq!(host.turn(now).len(), 4, "as many as had left before");
    assert_eq!(host.turn(now), Vec::new(), "and what waited has not left after");
    let id = host.ends[&a].port;
    let refused: Vec<_> = host.planes[0].logical().unwrap().refused(id).collect();
    assert_eq!(refused, [(pipeline::Reason::Policy, 1)]);
    host.realize(&topology(TWO));
    host.offer(&a, &frame);
    assert_eq!(host.turn(now), [(b.clone(), frame.clone())]);
    host.assert_balanced();
}

#[test]
fn a_port_of_which_no_generation_knows_sends_and_gets_nothing() {
    let now = Instant::from_nanos(1_000_000_000);
    let all = logical::load(TWO).unwrap();
    for hosts in 1..3 {
        let mut host = Hosts::new(&all, hosts, MEMORY);
        let a = host.ends.keys().next().unwrap().clone();
        let frame = datagram();
        let without_b = TWO.lines().filter(|line| !line.contains("name: b")).collect::<Vec<_>>();
        host.realize(&logical::load(&without_b.join("\n")).unwrap());
        host.offer(&a, &frame);
        assert_eq!(host.turn(now), Vec::new());
        for plane in &mut host.planes {
            plane.logical_mut().unwrap().realize(9, Vec::new());
        }
        host.offer(&a, &frame);
        assert_eq!(host.turn(now), Vec::new());
        host.realize(&all);
        host.offer(&a, &frame);
        assert_eq!(host.turn(now).len(), 1);
        host.assert_balanced();
    }
}

/// Connections to `b` are followed.
const FOLLOWED: &str = "
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [{name: in, direction: toPort, action: allow}]}}
";

#[test]
fn a_port_that_is_attached_at_two_hosts_is_where_it_is_bound() {
    let now = Instant::from_nanos(1_000_000_000);
    let all = logical::load(&[TWO, FOLLOWED].concat()).unwrap();
    let mut hosts = Hosts::new(&all, 2, MEMORY);
    let [a, b]: [Identity; 2] = hosts.ends.keys().cloned().collect::<Vec<_>>().try_into().unwrap();
    let frame = datagram();
    let connections = |hosts: &Hosts, host: usize| {
        hosts.planes[host].logical().unwrap().followed(&b, None, now).count()
    };
    hosts.offer(&a, &frame);
    assert_eq!(hosts.turn(now), [(b.clone(), frame.clone())]);
    assert_eq!(connections(&hosts, 1), 1);
    // It is prepared where its sender is, whose flow is known by now.
    let prepared = hosts.attach(now, 0, &b, MEMORY);
    hosts.beside.push((b.clone(), prepared));
    hosts.realize(&all);
    assert!(!hosts.planes[0].logical().unwrap().is_here(&b));
    hosts.offer(&a, &frame);
    assert_eq!(hosts.turn(now), [(b.clone(), frame.clone())]);
    let handed = hosts.planes[1].logical().unwrap().hand_over(&b, now).unwrap();
    let taken = hosts.planes[0].logical_mut().unwrap().take_over(&b, &handed, now);
    assert_eq!((taken, connections(&hosts, 0)), (Some(Ok(0)), 1));
    // It moves.
    hosts.go(&b, 0);
    hosts.realize(&all);
    hosts.offer(&a, &frame);
    assert_eq!(hosts.turn(now), [(b.clone(), frame)]);
    let left = &mut hosts.beside[0].1.machine;
    assert_eq!(left.receive(1, |_| {}), 0, "where it was it gets nothing");
    hosts.assert_balanced();
}

/// `a` may speak to all and be spoken to by none, and nobody may speak to `b`.
const CLOSED: &str = "
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [a]}, rules: [{name: out, direction: fromPort, action: allow}, {name: in, direction: toPort, action: drop}]}}
- {kind: Policy, metadata: {name: q, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [{name: in, direction: toPort, action: drop}]}}
";

#[test]
fn a_frame_that_a_far_host_drops_opens_nothing() {
    let now = Instant::from_nanos(1_000_000_000);
    let closed = logical::load(&[TWO, CLOSED].concat()).unwrap();
    let open = logical::load(&[TWO, &CLOSED.lines().take(2).collect::<String>()].concat()).unwrap();
    let mut hosts = Hosts::new(&closed, 2, MEMORY);
    let [a, b]: [Identity; 2] = hosts.ends.keys().cloned().collect::<Vec<_>>().try_into().unwrap();
    let answer = {
        let ip = wire::ipv4::Header::new([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), 17, 8);
        let mac = |last| Mac([2, 0, 0, 0, 0, last]);
        let ethernet = ethernet::Header::new(mac(1), mac(2), ethernet::ethertype::IPV4);
        [ethernet.as_bytes(), ip.unwrap().as_bytes(), &[0, 9, 0, 9, 0, 8, 0, 0]].concat()
    };
    for _ in 0..3 {
        hosts.offer(&a, &datagram());
        assert_eq!(hosts.turn(now), []);
        assert_eq!(hosts.planes[0].logical().unwrap().connections(), 0);
        hosts.offer(&b, &answer);
        assert_eq!(hosts.turn(now), []);
    }
    hosts.realize(&open);
    hosts.offer(&a, &datagram());
    assert_eq!(hosts.turn(now), [(b.clone(), datagram())]);
    hosts.offer(&b, &answer);
    assert_eq!(hosts.turn(now), [(a.clone(), answer.clone())]);
    // It is not taken back if only a later one is refused.
    hosts.realize(&closed);
    hosts.offer(&a, &datagram());
    assert_eq!(hosts.turn(now), []);
    hosts.realize(&open);
    hosts.offer(&b, &answer);
    assert_eq!(hosts.turn(now), [(a, answer)]);
    hosts.assert_balanced();
}

/// Two switches and a router between them, whose port at the second carries 1500 bytes, and names.
pub const ROUTED: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: DnsZone, metadata: {name: z, tenant: t}, spec: {records: {b.t: [10.0.1.2]}}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24], dns: [z]}}
- {kind: LogicalSwitch, metadata: {name: u, tenant: t}, spec: {subnets: [10.0.1.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: u, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.1.2]}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: rs, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:00', addresses: [10.0.0.254/24]}}
- {kind: RouterPort, metadata: {name: ru, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:01', addresses: [10.0.1.254/24], mtu: 1500}}
- {kind: LogicalPort, metadata: {name: sr, tenant: t}, spec: {switch: s, router: {routerPort: rs}}}
- {kind: LogicalPort, metadata: {name: ur, tenant: t}, spec: {switch: u, router: {routerPort: ru}}}
";

/// A packet from `a` to the router's Ethernet address.
fn to_router(protocol: u8, to: [u8; 4], body: &[u8]) -> Vec<u8> {
    let ip = wire::ipv4::Header::new([10, 0, 0, 1].into(), to.into(), protocol, body.len());
    let (to, from) = (Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 0, 1]));
    let ethernet = ethernet::Header::new(to, from, ethernet::ethertype::IPV4);
    [ethernet.as_bytes(), ip.unwrap().as_bytes(), body].concat()
}

/// 3900 bytes of TCP from `a`'s port 9 to `b`'s, the first, and what is left to do with them: to be
/// cut into segments with so many bytes, and their checksums.
fn large(size: u16) -> (Vec<u8>, Offload) {
    // With five words of header.
    let header = [0, 9, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0];
    let mut frame = to_router(6, [10, 0, 1, 2], &[&header[..], &[7; 3900]].concat());
    let sum = wire::checksum::pseudo_header(&frame[26..34], 6, 3920);
    frame[50..52].copy_from_slice(&(!sum.checksum()).to_be_bytes());
    let checksum = Some(wire::PartialChecksum { start: 34, offset: 16 });
    let kind = wire::SegmentKind::Tcp4;
    let segment = Some(wire::Segment { kind, ecn: false, header_len: 54, size });
    (frame, Offload { checksum, segment, data_valid: false })
}

#[test]
fn a_large_frame_fits_where_its_segments_do() {
    let now = Instant::from_nanos(1_000_000_000);
    let topology = logical::load(ROUTED).unwrap();
    let mut host = Hosts::new(&topology, 1, MEMORY);
    let [a, b] = ["a", "b"]
        .map(|name| host.ends.keys().find(|port| port.name.as_str() == name).unwrap().clone());
    let mut send = |size| {
        let (frame, note) = large(size);
        let end = &mut host.ends.get_mut(&a).unwrap().machine;
        end.send_frame(port::FrameView::noted(&frame, &note)).unwrap();
        host.planes[0].mark_all_rx_ready();
        host.turn(now).into_iter().map(|(to, _)| to).collect::<Vec<_>>()
    };
    assert_eq!(send(1460), [b], "40 bytes of headers and 1460 are 1500");
    assert_eq!(send(1461), std::slice::from_ref(&a), "its sender is told");
    let refused: Vec<_> = host.planes[0].logical().unwrap().refused(host.ends[&a].port).collect();
    assert_eq!(refused, [(pipeline::Reason::TooLong, 1)]);
    host.assert_balanced();
}

#[test]
fn a_large_frame_is_translated_at_another_host() {
    let now = Instant::from_nanos(1_000_000_000);
    let translated = "
- {kind: ExternalPool, metadata: {name: p}, spec: {prefixes: [10.0.1.0/24], tenants: [t]}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.0.1.100, logical: 10.0.0.0/24}}
- {kind: LogicalPort, metadata: {name: '0', tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:05', addresses: [10.0.0.5]}}
";
    // A port that does nothing is the first, so that `a` is not where the router is.
    let topology = logical::load(&[ROUTED, translated].concat()).unwrap();
    let mut hosts = Hosts::new(&topology, 2, MEMORY);
    let [a, b] = ["a", "b"]
        .map(|name| hosts.ends.keys().find(|port| port.name.as_str() == name).unwrap().clone());
    assert_eq!((hosts.ends[&a].host, hosts.ends[&b].host), (1, 0), "`b` and the router at one");
    for _ in 0..2 {
        let (frame, note) = large(1460);
        let end = &mut hosts.ends.get_mut(&a).unwrap().machine;
        end.send_frame(port::FrameView::noted(&frame, &note)).unwrap();
        hosts.settle(now);
        let mut got = Vec::new();
        let end = &mut hosts.ends.get_mut(&b).unwrap().machine;
        end.receive(9, |view| got.push((view.bytes.to_vec(), view.offload())));
        let [(frame, left)] = &got[..] else { panic!("{} frames", got.len()) };
        assert_eq!(*left, note);
        assert_eq!(frame[26..34], [10, 0, 1, 100, 10, 0, 1, 2]);
        let sum = wire::checksum::pseudo_header(&frame[26..34], 6, 3920);
        assert_eq!(frame[50..52], (!sum.checksum()).to_be_bytes(), "left to who cuts it");
    }
    hosts.assert_balanced();
}

#[test]
fn a_question_whose_checksum_is_left_to_its_receiver_is_answered() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut host = Hosts::new(&logical::load(ROUTED).unwrap(), 1, MEMORY);
    let a = host.ends.keys().find(|port| port.name.as_str() == "a").unwrap().clone();
    let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01b\x01t\0\0\x01\0\x01";
    let len = (8 + question.len()) as u8;
    let mut frame =
        to_router(17, [10, 0, 0, 254], &[&[0x80, 0, 0, 53, 0, len, 0, 0][..], question].concat());
    let sum = wire::checksum::pseudo_header(&frame[26..34], 17, len.into());
    frame[40..42].copy_from_slice(&(!sum.checksum()).to_be_bytes());
    let checksum = Some(wire::PartialChecksum { start: 34, offset: 6 });
    let note = Offload { checksum, segment: None, data_valid: false };
    let end = &mut host.ends.get_mut(&a).unwrap().machine;
    end.send_frame(port::FrameView::noted(&frame, &note)).unwrap();
    host.planes[0].mark_all_rx_ready();
    let got = host.turn(now);
    assert!(got.len() == 1 && got[0].0 == a && got[0].1.ends_with(&[10, 0, 1, 2]), "{got:02x?}");
}

#[test]
fn a_change_of_one_ports_rules_forgets_no_others_flows() {
    let now = Instant::from_nanos(1_000_000_000);
    let other = "
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
";
    let rule = |port: &str, action: &str| {
        format!("
- {{kind: Policy, metadata: {{name: p-{port}, tenant: t}}, spec: {{appliesTo: {{ports: [{port}]}}, rules: [{{name: r, direction: toPort, action: {action}, stateful: false}}]}}}}
")
    };
    let all = |rules: &[String]| logical::load(&[TWO, other, &rules.concat()].concat()).unwrap();
    let mut host = Hosts::new(&all(&[]), 1, MEMORY);
    let a = host.ends.keys().next().unwrap().clone();
    let frame = datagram();
    let send = |host: &mut Hosts| {
        let anew = |host: &Hosts| host.planes[0].logical().unwrap().decided().anew;
        let before = anew(host);
        host.offer(&a, &frame);
        (host.turn(now).len(), anew(host) - before)
    };
    assert_eq!(send(&mut host), (1, 1));
    assert_eq!(send(&mut host), (1, 0));
    host.realize(&all(&[rule("c", "drop")]));
    assert_eq!(send(&mut host), (1, 0), "c's rules are not asked");
    host.realize(&all(&[rule("c", "drop"), rule("b", "allow")]));
    assert_eq!(send(&mut host), (1, 1), "b's are");
    assert_eq!(send(&mut host), (1, 0));
    host.realize(&all(&[rule("b", "drop")]));
    assert_eq!(send(&mut host), (0, 1));
    host.realize(&logical::load(TWO).unwrap());
    assert_eq!(send(&mut host), (1, 1));
}

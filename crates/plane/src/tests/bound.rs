//! Ports of logical networks: the switch delivers what the interpreter says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binding::Networks;
use interpreter::Arrival;
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use lossless::{PortConfig, PortId, Settings};
use pipeline::Net;
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use units::{Instant, Mac, Rng, Span};
use wire::ethernet;
use worlds::{Options, World};
use zerocopy::IntoBytes;

use crate::{NoGate, NoPeers, NoResponder, Plane};

const MEMORY: MemoryConfig = MemoryConfig { slots: 64, slot_size: 4096 };

fn settings() -> binding::Settings {
    let timeouts = conntrack::Timeouts::default();
    binding::Settings { connections: 4096, zones: 64, tenants: 8, timeouts, key: [1, 2] }
}

/// A host with all ports of its networks.
struct Host {
    plane: Plane<MemoryPort, NoPeers, NoResponder, NoGate>,
    ends: BTreeMap<Identity, (PortId, MemoryEnd)>,
    generation: u64,
}

impl Host {
    fn new(topology: &Topology, now: Instant) -> Self {
        Self::with(topology, now, MEMORY)
    }

    /// A host whose ports have so much memory.
    fn with(topology: &Topology, now: Instant, memory: MemoryConfig) -> Self {
        let plane = Plane::new(Settings::default(), datapath::Settings::default());
        let mut host = Self { plane, ends: BTreeMap::new(), generation: 0 };
        host.plane.set_logical(Networks::new(&settings(), now));
        for (_, port) in topology.ports() {
            host.attach(&port.id, now, memory);
        }
        host.realize(topology);
        host
    }

    fn attach(&mut self, name: &Identity, now: Instant, memory: MemoryConfig) {
        let (device, end) = pair(memory);
        let attached =
            self.plane.attach(now, device, PortConfig::default(), datapath::PortConfig::default());
        let id = attached.unwrap();
        self.plane.bind(id, name.clone());
        self.ends.insert(name.clone(), (id, end));
    }

    fn realize(&mut self, topology: &Topology) {
        let own: BTreeSet<_> = self.ends.keys().cloned().collect();
        let nets = compiler::compile(topology).into_values();
        let nets = nets.map(|domain| Arc::new(Net::new(&domain.part(&own)))).collect();
        self.generation += 1;
        self.plane.logical_mut().unwrap().realize(self.generation, nets);
    }

    fn offer(&mut self, from: &Identity, frame: &[u8]) {
        self.ends.get_mut(from).unwrap().1.send(frame).unwrap();
        self.plane.mark_all_rx_ready();
    }

    /// Turns until nothing moves. What each port's machine has got by then, in no order.
    fn turn(&mut self, now: Instant) -> Vec<(Identity, Vec<u8>)> {
        while self.plane.turn(now) {}
        let mut got = Vec::new();
        for (name, (_, end)) in &mut self.ends {
            end.receive(64, |frame| got.push((name.clone(), frame.bytes.to_vec())));
        }
        got.sort();
        got
    }

    fn assert_balanced(&mut self) {
        assert_eq!(self.plane.switch().audit().err(), None);
    }
}

/// What machines get of a frame, as the interpreter says, in no order.
fn expected(
    topology: &Topology,
    state: &mut interpreter::State,
    now: Instant,
    port: PortIndex,
    frame: &[u8],
) -> Vec<(Identity, Vec<u8>)> {
    let decision = interpreter::decide(topology, state, now, Arrival { port, node: None, frame });
    state.commit(&decision.changes);
    let all = decision.delivered.iter().chain(&decision.answers);
    // A child's frames are its parent's.
    let at = |it: &interpreter::Copy| match topology[it.port].attachment {
        Attachment::Child { parent, .. } => topology[parent].id.clone(),
        _ => topology[it.port].id.clone(),
    };
    let mut all: Vec<_> = all.map(|it| (at(it), it.frame.clone())).collect();
    all.sort();
    all
}

#[test]
fn the_switch_delivers_what_the_interpreter_says() {
    let options =
        Options { stateful: true, translations: false, learning: false, relay: true, stray: false };
    let (mut delivered, mut refused) = (0, 0);
    for seed in 0..150 {
        let world = World::with(seed, options);
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut host = Host::new(&world.topology, now);
        let mut state = interpreter::State::default();
        let mut rng = Rng::new(seed);
        let mut got: Vec<(PortIndex, Vec<u8>)> = Vec::new();
        for _ in 0..60 {
            let reply = match got.is_empty() || rng.below(2) == 0 {
                true => None,
                false => {
                    let place = rng.below(got.len() as u64) as usize;
                    let (port, frame) = &got[place];
                    world.reply(frame, &mut rng).map(|frame| (*port, frame))
                }
            };
            let (port, frame) = reply.unwrap_or_else(|| {
                let sent = world.frame(&mut rng);
                (sent.port, sent.frame)
            });
            let from = &world.topology[port];
            let is_short = frame.len() < 14;
            if matches!(from.attachment, Attachment::Child { .. }) || is_short {
                continue;
            }
            now += Span::from_millis(10);
            let expected = expected(&world.topology, &mut state, now, port, &frame);
            host.offer(&from.id, &frame);
            let seen = host.turn(now);
            assert_eq!(seen, expected, "{seed}: from {}: {frame:02x?}\n{}", from.id, world.text);
            delivered += seen.len();
            refused += usize::from(seen.is_empty());
            for (name, frame) in seen {
                let found = world.topology.ports().find(|(_, it)| it.id == name);
                got.extend(found.map(|(index, _)| (index, frame)));
            }
        }
        host.assert_balanced();
    }
    assert!(delivered > 1500 && refused > 500, "{delivered} {refused}");
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
    let ip = wire::ipv4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 8).unwrap();
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let ethernet = ethernet::Header::new(mac(2), mac(1), ethernet::ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), &[0, 9, 0, 9, 0, 8, 0, 0]].concat()
}

#[test]
fn a_frame_that_waits_is_decided_by_the_generation_of_when_it_leaves() {
    let now = Instant::from_nanos(1_000_000_000);
    let topology = |text: &str| logical::load(text).unwrap();
    let mut host = Host::with(&topology(TWO), now, MemoryConfig { slots: 4, slot_size: 4096 });
    let [a, b]: [Identity; 2] = host.ends.keys().cloned().collect::<Vec<_>>().try_into().unwrap();
    let frame = datagram();
    for _ in 0..4 {
        host.offer(&a, &frame);
    }
    while host.plane.turn(now) {}
    let receiver = &mut host.ends.get_mut(&b).unwrap().1;
    assert_eq!(receiver.receive(1, |_| {}), 1, "and three buffers are still full");
    host.offer(&a, &frame);
    host.offer(&a, &frame);
    while host.plane.turn(now) {}
    let held = |host: &Host| host.plane.switch().total().held;
    assert!(held(&host) > 0, "it waits for room");
    host.realize(&topology(&[TWO, RULE].concat()));
    assert_eq!(host.turn(now).len(), 4, "as many as had left before");
    assert_eq!(host.turn(now), Vec::new(), "and what waited has not left after");
    assert_eq!(held(&host), 0);
    let (id, _) = host.ends[&a];
    let refused: Vec<_> = host.plane.logical().unwrap().refused(id).collect();
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
    let mut host = Host::new(&all, now);
    let a = host.ends.keys().next().unwrap().clone();
    let frame = datagram();
    let without_b = TWO.lines().filter(|line| !line.contains("name: b")).collect::<Vec<_>>();
    host.realize(&logical::load(&without_b.join("\n")).unwrap());
    host.offer(&a, &frame);
    assert_eq!(host.turn(now), Vec::new());
    host.plane.logical_mut().unwrap().realize(9, Vec::new());
    host.offer(&a, &frame);
    assert_eq!(host.turn(now), Vec::new());
    host.realize(&all);
    host.offer(&a, &frame);
    assert_eq!(host.turn(now).len(), 1);
    host.assert_balanced();
}

//! How many instructions a frame of a logical network costs, beside one of a network without
//! policy, and whether that is still as few as it was.
//!
//! `cargo bench -p plane --bench instructions`. Frames of 64 bytes go from one port in memory to
//! another, through queues, and are decided when they come and when they leave; who sends and gets
//! them counts.
//!
//! - `plain`: a network of Ethernet addresses. `l2`: a logical switch.
//! - `acl N`: so many rules at the receiver's port that keep no connections; the last allows.
//!   `stateful N`: it keeps them, and they are there.
//! - `routed N`: through a router to another switch, with so many rules. `nat N`: one that has
//!   their source translated.
//! - `first N`: each frame is its flow's first. `begin N`: of a connection that is allowed.
//!
//! The second number is how many flows take turns.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;

use binding::Networks;
use logical::objects::{AddressRange, PortRange};
use lossless::{PortConfig, Settings};
use pipeline::Net;
use plane::{NoGate, NoPeers, NoResponder, Plane};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use units::{Instant, Mac};
use wire::ethernet::{self, ethertype};
use zerocopy::IntoBytes;

const CASES: [callgrind::Case<'_>; 12] = [
    ("plain 0 1", 598.0),
    ("l2 0 1", 936.0),
    ("l2 0 1000", 947.0),
    ("acl 10 1000", 958.0),
    ("acl 10000 1000", 966.0),
    ("acl 1000 100000", 1048.0),
    ("stateful 1000 1000", 1536.0),
    ("routed 10 1000", 1479.0),
    ("nat 10 1000", 1920.0),
    ("first 10 1", 16470.0),
    ("first 10000 1", 21215.0),
    ("begin 1000 1", 19930.0),
];

const BURST: usize = 64;

fn main() -> ExitCode {
    callgrind::main("frame", &CASES, 8_000, |case, frames| {
        let mut words = case.split(' ');
        let kind = words.next().expect("a case has a name");
        let mut number = || words.next().and_then(|it| it.parse().ok()).expect("two numbers");
        let (rules, flows) = (number(), number());
        let mut world = World::new(kind, rules);
        let mut carried = 0;
        // Each flow's first frames are of no interest, unless they are all that is.
        let (warm_up, flows) = match kind {
            "first" | "begin" => (BURST as u32, u32::MAX),
            _ => (2 * flows.max(BURST as u32), flows),
        };
        let mut flow = 0;
        while carried < u64::from(warm_up) + frames {
            carried += world.round(flow, flows);
            flow = (flow + BURST as u32) % flows;
        }
        carried
    })
}

/// Two machines, and what their network's objects are.
struct World {
    plane: Plane<MemoryPort, NoPeers, NoResponder, NoGate>,
    sender: MemoryEnd,
    receiver: MemoryEnd,
    frame: Vec<u8>,
    now: u64,
}

const SWITCHED: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/16]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
";

const NEAR: &str = "
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
";

const ROUTED: &str = "
- {kind: LogicalSwitch, metadata: {name: u, tenant: t}, spec: {subnets: [10.1.0.0/16]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: u, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.1.0.2]}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: rs, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:00', addresses: [10.0.255.254/16]}}
- {kind: RouterPort, metadata: {name: ru, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:01', addresses: [10.1.255.254/16]}}
- {kind: LogicalPort, metadata: {name: sr, tenant: t}, spec: {switch: s, router: {routerPort: rs}}}
- {kind: LogicalPort, metadata: {name: ur, tenant: t}, spec: {switch: u, router: {routerPort: ru}}}
";

/// Has the router translate the source of what goes to `u`.
const TRANSLATED: &str = "
- {kind: ExternalPool, metadata: {name: pool}, spec: {prefixes: [10.1.0.0/16], tenants: [t]}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 10.1.0.100, logical: 10.0.0.0/16}}
";

/// What decides about `b`: a rule that is written again and again, and one that allows.
const POLICY: &str = "
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [
  {name: r, direction: toPort, action: drop, peer: {prefixes: [192.168.0.0/32]}, services: [{protocol: udp, ports: [1000]}]},
  {name: last, direction: toPort, action: allow, stateful: STATEFUL, services: [{protocol: udp}]}]}}
";

/// Has a policy as many rules, each about another source and port; the last allows.
fn write_out(policy: &mut image::Policy, rules: u32) {
    let [template, last] = &policy.rules[..] else { panic!("a policy of two rules") };
    let other = |number: u32| {
        let mut rule = template.clone();
        rule.name = format!("r{number}").parse().expect("a name");
        let condition = rule.conditions.first_mut().expect("it has one");
        let source = IpAddr::from(Ipv4Addr::from(0xc0a8_0000 + number));
        let port = (1000 + number % 500) as u16;
        condition.source.as_mut().expect("it names sources").prefixes =
            vec![AddressRange::new(source, source).expect("one address")];
        condition.services[0].ports = vec![PortRange { first: port, last: port }];
        rule
    };
    policy.rules = (1..rules).map(other).chain([last.clone()]).collect();
}

impl World {
    fn new(kind: &str, rules: u32) -> Self {
        let (switched, now) = (Settings::default(), Instant::from_nanos(1_000_000_000));
        let mut plane =
            Plane::with_stages(switched, datapath::Settings::default(), NoResponder, NoGate);
        let mut attach = || {
            let (device, end) = pair(MemoryConfig { slots: 256, slot_size: 2048 });
            let permits = PortConfig { permits: plane::PERMITS, ..PortConfig::default() };
            let id = plane.attach(now, device, permits, datapath::PortConfig::default());
            (id.expect("two ports"), end)
        };
        let [(a, sender), (b, receiver)] = [attach(), attach()];
        let is_routed = matches!(kind, "routed" | "nat");
        let to = Mac([2, 0, 0, 0, u8::from(is_routed), if is_routed { 0 } else { 2 }]);
        match kind {
            "plain" => {
                plane.datapath_mut().pin(a, Mac([2, 0, 0, 0, 0, 1]), 0);
                plane.datapath_mut().pin(b, to, 0);
            }
            _ => {
                let there = match kind {
                    "routed" => ROUTED.to_string(),
                    "nat" => [ROUTED, TRANSLATED].concat(),
                    _ => NEAR.to_string(),
                };
                let stateful = matches!(kind, "stateful" | "begin").to_string();
                let policy =
                    if rules == 0 { String::new() } else { POLICY.replace("STATEFUL", &stateful) };
                let text = [SWITCHED, &there, &policy].concat();
                let topology = logical::load(&text).expect("objects that can stand");
                let timeouts = conntrack::Timeouts::default();
                let (connections, zones, tenants, key) = (1 << 17, 16, 4, [1, 2]);
                let connections =
                    conntrack::Settings { connections, zones, tenants, timeouts, key };
                let settings = binding::Settings {
                    connections,
                    flows: if std::env::var("WALK").is_ok() { 0 } else { 1 << 17 },
                    secret: [1, 2],
                };
                plane.set_logical(Networks::new(&settings, now));
                let name = |name: &str| {
                    let mut ports = topology.ports().map(|(_, port)| &port.id);
                    ports.find(|id| id.name.as_str() == name).expect("it is declared").clone()
                };
                plane.bind(a, name("a"));
                plane.bind(b, name("b"));
                let own = [name("a"), name("b")].into();
                let nets = compiler::compile(&topology).into_values().map(|domain| {
                    let mut rows = domain.part(&own);
                    rows.policies.values_mut().for_each(|it| write_out(it, rules));
                    Arc::new(Net::new(&rows))
                });
                let nets = nets.collect();
                plane.logical_mut().expect("they are set").realize(1, nets);
            }
        }
        let far = if is_routed { [10, 1, 0, 2] } else { [10, 0, 0, 2] };
        let ip = wire::ipv4::Header::new([10, 0, 0, 1].into(), far.into(), 17, 30)
            .expect("a short packet");
        let ethernet = ethernet::Header::new(to, Mac([2, 0, 0, 0, 0, 1]), ethertype::IPV4);
        let frame = [ethernet.as_bytes(), ip.as_bytes(), &[0; 30]].concat();
        Self { plane, sender, receiver, frame, now: 1_000_000_000 }
    }

    /// A burst of flows from one on, each of which has another two ports: the first ones to another
    /// destination, at which rules look.
    fn round(&mut self, first: u32, flows: u32) -> u64 {
        for number in 0..BURST as u32 {
            let flow = (first + number) % flows;
            let (source, destination) = (0x2000 + flow / 0x4000, 0x3000 + flow % 0x4000);
            self.frame[34..38].copy_from_slice(&(source << 16 | destination).to_be_bytes());
            self.sender.send(&self.frame).expect("there is room for a burst");
        }
        self.now += 10_000;
        self.plane.mark_all_rx_ready();
        while self.plane.turn(Instant::from_nanos(self.now)) {}
        let mut got = 0;
        self.receiver.receive(2 * BURST, |_| got += 1);
        assert_eq!(got, BURST, "nothing is lost");
        got as u64
    }
}

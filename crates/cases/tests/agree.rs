//! Hosts together decide as the interpreter does, in random worlds: a million frames.

use std::collections::BTreeMap;
use std::fmt::Display;

use cases::{Got, Hosts};
use interpreter::Arrival;
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, NodeIndex, Port, PortIndex, RouterIndex};
use pipeline::{Down, Refusal};
use units::{Instant, Mac, Rng, Span};
use wire::whole;
use worlds::{Options, World};

/// What became of a frame, as both tell it, in no order.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Fate {
    delivered: Vec<(String, Vec<u8>)>,
    answers: Vec<(String, Vec<u8>)>,
    refused: Vec<String>,
}

impl Fate {
    fn sorted(mut self) -> Self {
        self.delivered.sort();
        self.answers.sort();
        self.refused.sort();
        self
    }
}

/// What hosts say of a frame that one of them is sent.
fn executed(
    hosts: &mut Hosts,
    now: Instant,
    port: &Identity,
    host: Option<&str>,
    frame: &[u8],
) -> (Fate, Vec<pipeline::Step>) {
    let seen = hosts.send(now, port, host, frame).unwrap_or_else(|| panic!("nobody has {port}"));
    let name = |it: Got| (it.port.to_string(), it.frame);
    let told = |it: &Refusal| {
        let by = it.by.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} at {} by {by}", it.reason.name(), it.at)
    };
    let fate = Fate {
        delivered: seen.delivered.into_iter().map(name).collect(),
        answers: seen.answers.into_iter().map(name).collect(),
        refused: seen.refused.iter().map(told).collect(),
    };
    (fate.sorted(), seen.trace)
}

/// What the interpreter says of a frame.
fn interpreted(
    topology: &Topology,
    state: &mut interpreter::State,
    now: Instant,
    (port, node): (PortIndex, Option<NodeIndex>),
    frame: &[u8],
) -> (Fate, Vec<interpreter::Step>) {
    let decision = interpreter::decide(topology, state, now, Arrival { port, node, frame });
    state.commit(&decision.changes, now);
    let name = |it: &interpreter::Copy| (topology[it.port].id.to_string(), it.frame.clone());
    let told = |it: &interpreter::Refusal| {
        let by = it.by.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} at {} by {by}", it.reason.name(), it.at)
    };
    let fate = Fate {
        delivered: decision.delivered.iter().map(name).collect(),
        answers: decision.answers.iter().map(name).collect(),
        refused: decision.refused.iter().map(told).collect(),
    };
    (fate.sorted(), decision.trace)
}

/// What routers do about their neighbours by now, as hosts say it.
fn attended(hosts: &mut Hosts, now: Instant) -> (Vec<Fate>, Vec<pipeline::Step>) {
    let (mut fates, mut trace) = (Vec::new(), Vec::new());
    while hosts.due().is_some_and(|due| due <= now) {
        for seen in hosts.attend(now) {
            trace.extend(seen.trace);
            let delivered = seen.delivered.into_iter().map(|it| (it.port.to_string(), it.frame));
            let refused =
                seen.refused.iter().map(|it| format!("{} at {}", it.reason.name(), it.at));
            let (delivered, refused) = (delivered.collect(), refused.collect());
            fates.push(Fate { delivered, refused, answers: Vec::new() }.sorted());
        }
    }
    (fates, trace)
}

/// The same, as the interpreter says it.
fn expected_of_neighbours(
    topology: &Topology,
    state: &mut interpreter::State,
    now: Instant,
) -> (Vec<Fate>, Vec<interpreter::Step>) {
    let (mut fates, mut trace) = (Vec::new(), Vec::new());
    while state.neighbours_due().is_some_and(|due| due <= now) {
        for seen in interpreter::attend(topology, state, now) {
            trace.extend(seen.trace);
            let name =
                |it: &interpreter::Copy| (topology[it.port].id.to_string(), it.frame.clone());
            let refused =
                seen.refused.iter().map(|it| format!("{} at {}", it.reason.name(), it.at));
            let (delivered, refused) =
                (seen.delivered.iter().map(name).collect(), refused.collect());
            let answers = seen.answers.iter().map(name).collect();
            fates.push(Fate { delivered, refused, answers }.sorted());
        }
    }
    (fates, trace)
}

/// A trace, a line for each step.
fn lines(steps: &[impl Display]) -> String {
    steps.iter().map(|it| format!("{it}\n")).collect()
}

/// What may be sent in a world: something new, or an answer to what somebody got.
struct Traffic<'a> {
    world: &'a World,
    rng: Rng,
    got: Vec<(PortIndex, Vec<u8>)>,
}

impl Traffic<'_> {
    fn next(&mut self) -> (PortIndex, Vec<u8>) {
        if !self.got.is_empty() && self.rng.below(2) == 0 {
            let place = self.rng.below(self.got.len() as u64) as usize;
            let (port, frame) = &self.got[place];
            if let Some(reply) = self.world.reply(frame, &mut self.rng) {
                return (*port, reply);
            }
        }
        let is_aimed = self.world.options.translations && self.rng.below(3) == 0;
        let sent = match is_aimed {
            true => self.world.aimed(&mut self.rng),
            false => self.world.frame(&mut self.rng),
        };
        (sent.port, sent.frame)
    }
}

/// How often something was so of frames.
#[derive(Clone, Debug, Default)]
struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    const WORDS: [&'static str; 25] = [
        "verdict: delivered",
        "neighbour answer",
        "answered",
        "refused: policy",
        "refused: rejected",
        "DHCP relay",
        "first of a connection",
        "rules: of a connection",
        "reply of a connection",
        "related to a connection",
        "route policies",
        "refused: untracked",
        "refused: fragment",
        "refused: not_joined",
        "refused: held",
        "refused: unresolved",
        "neighbour learn",
        "QoS: marked",
        "destination translation",
        "source translation",
        "load balancer: back",
        "refused: no_backend",
        "back as its flow came",
        "a known flow",
        "an error about a translated packet",
    ];

    fn count(&mut self, steps: &[pipeline::Step]) {
        let trace = lines(steps);
        for word in Self::WORDS.into_iter().filter(|word| trace.contains(word)) {
            *self.0.entry(word).or_default() += 1;
        }
    }
}

fn nodes(topology: &Topology) -> Vec<(NodeIndex, String)> {
    topology.nodes().map(|(index, it)| (index, it.id.to_string())).collect()
}

/// Where ports are, and where routers keep their flows.
struct Spread {
    nodes: Vec<(NodeIndex, String)>,
    ports: BTreeMap<PortIndex, String>,
    routers: BTreeMap<RouterIndex, String>,
    /// What is about to move.
    moving: Option<(Place, String)>,
}

#[derive(Clone, Copy)]
enum Place {
    Port(PortIndex),
    Router(RouterIndex),
}

impl Spread {
    fn new(topology: &Topology) -> Self {
        let nodes = nodes(topology);
        let first = || nodes[0].1.clone();
        let ports = topology.ports().map(|(index, port)| {
            (index, port.node.map_or_else(first, |node| topology[node].id.to_string()))
        });
        let ports = ports.collect();
        let routers = topology
            .routers()
            .map(|(index, router)| (index, nodes[router.ports.len() % nodes.len()].1.clone()));
        let routers = routers.collect();
        Self { nodes, ports, routers, moving: None }
    }

    fn realize(&self, topology: &Topology, all: &mut Hosts) {
        let nodes = self.nodes.iter().map(|it| it.1.clone());
        let host_of = |port: PortIndex| self.ports[&port].clone();
        all.realize(topology, nodes, host_of, |router| self.routers[&router].clone());
    }

    /// A port, or a router's flows, are about to move; or have moved, if something was about to.
    fn go_on(&mut self, topology: &Topology, all: &mut Hosts, rng: &mut Rng) {
        match self.moving.take() {
            Some((Place::Port(port), to)) => drop(self.ports.insert(port, to)),
            Some((Place::Router(router), to)) => drop(self.routers.insert(router, to)),
            None => {
                let to = self.nodes[rng.below(self.nodes.len() as u64) as usize].1.clone();
                let ports = self.ports.keys().map(|it| Place::Port(*it));
                let places: Vec<_> =
                    ports.chain(self.routers.keys().map(|it| Place::Router(*it))).collect();
                let place = places[rng.below(places.len() as u64) as usize];
                let name = match place {
                    Place::Port(port) => &topology[port].id,
                    Place::Router(router) => &topology[router].id,
                };
                all.expect(name, &to);
                self.moving = Some((place, to));
            }
        }
        self.realize(topology, all);
    }
}

/// Some backends of load balancers, each as likely as not.
fn some_down(topology: &Topology, rng: &mut Rng) -> Down {
    let mut down = Down::new();
    for (_, balancer) in topology.balancers() {
        for backend in &balancer.backends {
            let port = backend.port.or(balancer.port).unwrap_or(80);
            if rng.below(2) == 0 {
                let own = down.entry(balancer.id.clone()).or_default();
                own.insert((backend.address, port));
            }
        }
    }
    down
}

/// Frames in a world, decided by both.
fn agree(
    seed: u64,
    options: Options,
    (hosts, moves): (usize, bool),
    frames: usize,
    mut counts: Option<&mut Counts>,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut world = World::with(seed, options);
    let is_local = |port: &Port| port.attachment == Attachment::Local;
    if hosts > 1 && world.topology.ports().any(|(_, port)| is_local(port)) {
        // A port that each host has is at none of them to a router that translates elsewhere.
        world = World::with(seed, Options { translations: false, ..options });
    }
    let moves = moves && !world.topology.ports().any(|(_, port)| is_local(port));
    let world = world.spread(hosts, &mut rng);
    let topology = &world.topology;
    let mut spread = Spread::new(topology);
    let nodes = spread.nodes.clone();
    let mut all = Hosts::default();
    spread.realize(topology, &mut all);
    let mut state = interpreter::State::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut traffic = Traffic { world: &world, rng, got: Vec::new() };
    for _ in 0..frames {
        let (index, frame) = traffic.next();
        // Often no time passes, and sometimes so much that all is forgotten: how long something is
        // remembered to the second is nobody's promise.
        now += Span::from_secs(if traffic.rng.below(40) == 0 { 864_000 } else { 0 });
        if options.strangers {
            now += Span::from_millis([0, 0, 0, 400, 1000, 7000][traffic.rng.below(6) as usize]);
        }
        assert!(all.expire(now));
        if moves && traffic.rng.below(8) == 0 {
            spread.go_on(topology, &mut all, &mut traffic.rng);
        }
        if traffic.rng.below(8) == 0 {
            let down = some_down(topology, &mut traffic.rng);
            all.set_down(&down);
            state.set_down(down);
        }
        let port = &topology[index].id;
        // What each host has is at one of them this time; all else, an uplink's port too, is where
        // it is said to be.
        let (node, host) = &nodes[traffic.rng.below(nodes.len() as u64) as usize];
        let own = all.host_of(port).unwrap_or(host);
        let node = nodes.iter().find(|it| it.1 == own).map_or(*node, |it| it.0);
        let (expected, trace) = interpreted(topology, &mut state, now, (index, Some(node)), &frame);
        let (seen, own_trace) = executed(&mut all, now, port, Some(host), &frame);
        // A frame that routers bring back to its own sender's port passes that twice, once each
        // way. Of which of the two a connection is kept there is not decided alike.
        if own_trace.iter().any(|it| it.stage == "destination" && it.what == port.to_string()) {
            return Ok(());
        }
        if seen != expected {
            return Err(format!(
                "{}\n{seed:?}\nfrom {port}: {frame:02x?}\ninterpreter: {expected:02x?}\n{}\n\
                 pipeline: {seen:02x?}\n{}",
                world.text,
                lines(&trace),
                lines(&own_trace)
            ));
        }
        if let Some(counts) = &mut counts {
            counts.count(&own_trace);
        }
        let (expected, trace) = expected_of_neighbours(topology, &mut state, now);
        let (late, own_trace) = attended(&mut all, now);
        // Hosts do it one after the other, the interpreter router by router.
        let all_of = |fates: &[Fate]| {
            let mut all = fates.to_vec();
            all.sort();
            all
        };
        if all_of(&late) != all_of(&expected) {
            return Err(format!(
                "{}\n{seed:?}\nneighbours: {frame:02x?}\ninterpreter: {expected:02x?}\n{}\n\
                 pipeline: {late:02x?}\n{}",
                world.text,
                lines(&trace),
                lines(&own_trace)
            ));
        }
        if let Some(counts) = &mut counts {
            counts.count(&own_trace);
        }
        let late = late.into_iter().filter(|_| options.strangers).flat_map(|it| it.delivered);
        for (name, frame) in seen.delivered.into_iter().chain(late) {
            let mut ports = world.topology.ports();
            let found = ports.find(|(_, it)| it.id.to_string() == name);
            traffic.got.extend(found.map(|(index, _)| (index, frame)));
        }
    }
    Ok(())
}

const BASE: Options = Options {
    stateful: true,
    translations: true,
    learning: true,
    relay: true,
    stray: false,
    strangers: false,
};

#[test]
fn what_is_sent_in_random_worlds_meets_every_end() {
    let mut counts = Counts::default();
    for seed in 0..3000 {
        let seen = agree(seed, BASE, (1, false), 100, Some(&mut counts));
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for word in Counts::WORDS.into_iter().filter(|it| *it != "neighbour learn") {
        assert!(counts.0.get(word).is_some_and(|it| *it > 20), "{word}: {counts:?}");
    }
}

#[test]
fn hosts_together_decide_as_the_interpreter_does() {
    let options = Options { learning: false, ..BASE };
    for seed in 0..4000 {
        let hosts = 2 + seed as usize % 3;
        let seen = agree(seed, options, (hosts, false), 100, None);
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Ports that move take their connections along, and routers the flows that they keep.
#[test]
fn who_moves_goes_on_as_if_nothing_had_happened() {
    let mut counts = Counts::default();
    let options = Options { learning: false, ..BASE };
    for seed in 0..2000 {
        let hosts = 2 + seed as usize % 3;
        let seen = agree(seed, options, (hosts, true), 100, Some(&mut counts));
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for word in ["rules: of a connection", "reply of a connection", "a known flow"] {
        assert!(counts.0.get(word).is_some_and(|it| *it > 20), "{word}: {counts:?}");
    }
}

/// Routers ask for neighbours that nobody declares, hold what is for them, and give up, alike: with
/// translations and without, at one host and at several.
#[test]
fn routers_find_strangers_alike() {
    let mut counts = Counts::default();
    for seed in 0..3000 {
        let translations = seed % 2 == 0;
        let options = Options {
            stateful: false,
            translations,
            learning: seed % 4 < 2,
            strangers: true,
            ..BASE
        };
        let hosts = if options.learning { 1 } else { 1 + seed as usize % 3 };
        let seen = agree(seed, options, (hosts, false), 100, Some(&mut counts));
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for word in ["refused: held", "neighbour learn", "refused: unresolved", "source translation"] {
        assert!(counts.0.get(word).is_some_and(|it| *it > 100), "{word}: {counts:?}");
    }
}

/// Without connections, segments out of the blue are decided the same, too.
#[test]
fn stateless_rules_decide_whatever_is_sent() {
    let options = Options { stateful: false, stray: true, ..BASE };
    for seed in 0..4000 {
        let seen = agree(seed, options, (1, false), 100, None);
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Whatever a network says of itself, it says as often as the interpreter does.
#[test]
fn who_asks_too_often_is_answered_alike() {
    let (mut given, mut withheld) = (0, 0);
    for seed in 0..200 {
        let options = Options { translations: seed % 2 == 0, learning: false, ..BASE };
        let mut rng = Rng::new(seed);
        let world = World::with(seed, options);
        if world.topology.ports().any(|(_, port)| port.attachment == Attachment::Local) {
            continue;
        }
        let world = world.spread(1 + seed as usize % 3, &mut rng);
        let topology = &world.topology;
        let mut all = Hosts::default();
        Spread::new(topology).realize(topology, &mut all);
        let mut state = interpreter::State::default();
        let mut now = Instant::from_nanos(1_000_000_000);
        for _ in 0..20 {
            let sent = world.frame(&mut rng);
            let port = &topology[sent.port].id;
            let often = if rng.below(4) == 0 { 400 } else { 1 };
            for _ in 0..often {
                now += Span::from_micros(rng.below(1000));
                let at = (sent.port, None);
                let (expected, trace) = interpreted(topology, &mut state, now, at, &sent.frame);
                let (seen, _) = executed(&mut all, now, port, None, &sent.frame);
                assert!(
                    seen == expected,
                    "{}\n{seed}: from {port}\n{seen:02x?}\n{expected:02x?}\n{}",
                    world.text,
                    lines(&trace)
                );
                given += expected.answers.len();
                let is_withheld = |it: &&interpreter::Step| it.what.contains("answered too often");
                withheld += trace.iter().filter(is_withheld).count();
            }
        }
    }
    assert!(given > 10_000 && withheld > 1_000, "{given} {withheld}");
}

/// Two hosts; `b` is at the second. Anybody may be behind `x` and `y`.
const PAIR: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: TransportNode, metadata: {name: h0}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.2]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24], macLearning: true, unknownUnicast: flood}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
- {kind: LogicalPort, metadata: {name: x, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3], unknown: true, security: {mode: 'off'}}}
- {kind: LogicalPort, metadata: {name: y, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:04', addresses: [10.0.0.4], unknown: true, security: {mode: 'off'}}}
- {kind: Binding, metadata: {name: a}, spec: {port: t/a, node: h0}}
- {kind: Binding, metadata: {name: b}, spec: {port: t/b, node: h1}}
- {kind: Binding, metadata: {name: x}, spec: {port: t/x, node: h0}}
- {kind: Binding, metadata: {name: y}, spec: {port: t/y, node: h0}}
";

/// Both executions of [`PAIR`].
struct Pair {
    topology: Topology,
    state: interpreter::State,
    hosts: Hosts,
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        let topology = logical::load(PAIR).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let mut hosts = Hosts::default();
        Spread::new(&topology).realize(&topology, &mut hosts);
        let (state, now) = (interpreter::State::default(), Instant::from_nanos(1_000_000_000));
        Self { topology, state, hosts, now }
    }

    /// What both say of a frame.
    fn send(&mut self, from: &str, frame: &[u8]) -> Fate {
        let port = self.topology.port("t", from).unwrap();
        let name = &self.topology[port].id;
        let (expected, trace) =
            interpreted(&self.topology, &mut self.state, self.now, (port, None), frame);
        let (seen, _) = executed(&mut self.hosts, self.now, name, None, frame);
        assert_eq!(seen, expected, "from {name}: {frame:02x?}\n{}", lines(&trace));
        seen
    }
}

const fn mac(last: u16) -> Mac {
    let [high, low] = last.to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}

/// A third of a packet of 48 bytes.
fn third(from: u8, number: u16, place: u16) -> Vec<u8> {
    let ends = ([10, 0, 0, from].into(), [10, 0, 0, 2].into());
    let carried = wire::ip::protocol::UDP;
    let mut frame = whole::packet((mac(from.into()), mac(2)), ends, carried, &[7; 16]).unwrap();
    let more = if place < 2 { 0x2000 } else { 0 };
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    frame[20..22].copy_from_slice(&(more | (place * 2)).to_be_bytes());
    whole::seal(&mut frame);
    frame
}

/// Who sends no more of its packets than their first fragments has room for few; who sends all of
/// them, for as many as it likes.
#[test]
fn packets_in_fragments_find_room_alike() {
    let (mut whole, mut full) = (0, 0);
    for seed in 0..20 {
        let (mut rng, mut pair) = (Rng::new(seed), Pair::new());
        for number in 0..1000 {
            pair.now += Span::from_micros(rng.below(20_000));
            if rng.below(50) == 0 {
                pair.hosts.expire(pair.now);
            }
            let is_whole = rng.below(if seed % 2 == 0 { 2 } else { 30 }) > 0;
            let number = if rng.below(8) == 0 { rng.below(1000) as u16 } else { number };
            let from = [1, 3][rng.below(2) as usize];
            let name = if from == 1 { "a" } else { "x" };
            for place in 0..if is_whole { 3 } else { 1 } {
                let fate = pair.send(name, &third(from, number, place));
                whole += usize::from(place == 2 && !fate.delivered.is_empty());
                full += fate.refused.iter().filter(|it| it.contains("fragments_full")).count();
            }
        }
    }
    assert!(whole > 5_000 && full > 1_000, "{whole} {full}");
}

#[test]
fn addresses_that_are_learned_make_room_alike() {
    let mut pair = Pair::new();
    let frame = |from: u16, to: u16| {
        let ends = ([10, 0, 0, 3].into(), [10, 0, 0, 2].into());
        whole::packet((mac(from), mac(to)), ends, 17, &[0; 8]).unwrap()
    };
    let behind = |last: u16| 100 + last;
    let most = packet::MOST_LEARNED as u16;
    for last in 0..=most {
        pair.send("x", &frame(behind(last), 2));
    }
    let mut reached = |last| {
        let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 3].into());
        let sent = whole::packet((mac(1), mac(behind(last))), ends, 17, &[0; 8]).unwrap();
        pair.send("a", &sent).delivered.len()
    };
    // What is forgotten is sent to both that take unknown addresses.
    assert_eq!([0, 1, most].map(&mut reached), [2, 1, 1]);
}

/// A host follows connections of no more than 16 tenants here.
#[test]
fn tenants_that_go_leave_room_for_others() {
    let policy = "- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [b]}, \
                  rules: [{name: all, direction: toPort, action: allow}]}}\n";
    let text = [PAIR, policy].concat();
    let mut hosts = Hosts::default();
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let frame = whole::packet((mac(1), mac(2)), ends, 17, &[0, 1, 0, 2, 0, 8, 0, 0]).unwrap();
    for number in 0..40 {
        let name = format!("t{number}");
        let text = text.replace("tenant: t}", &format!("tenant: {name}}}"));
        let text = text.replace("{name: t}", &format!("{{name: {name}}}"));
        let text = text.replace("port: t/", &format!("port: {name}/"));
        let topology = logical::load(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
        Spread::new(&topology).realize(&topology, &mut hosts);
        let port = |it| &topology[topology.port(&name, it).unwrap()].id;
        let now = Instant::from_nanos(1_000_000_000);
        let (fate, trace) = executed(&mut hosts, now, port("a"), None, &frame);
        assert_eq!(fate.delivered.len(), 1, "{}", lines(&trace));
        assert_eq!(hosts.connections(port("b"), now).len(), 1, "{}", lines(&trace));
    }
}

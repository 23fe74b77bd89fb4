//! What a host's trace says is what the interpreter says: verdict, object and rule of each step, in
//! random worlds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binding::{Hits, Leaves, MachineFrame, Networks, Settings, Trace, Verdict};
use conntrack::Timeouts;
use interpreter::{Arrival, Decision, State, decide};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use lossless::{Destination, PortConfig, PortId, Switch};
use pipeline::Net;
use units::{Class, Instant, Rng};
use worlds::{Options, World};

/// All rows of a topology, made ready.
fn nets(topology: &Topology) -> Vec<Arc<Net>> {
    let own: BTreeSet<Identity> = topology.ports().map(|(_, port)| port.id.clone()).collect();
    let domains = compiler::compile(topology);
    domains.values().map(|domain| Arc::new(Net::new(&domain.part(&own)))).collect()
}

/// A host that has all machines' ports.
fn host(topology: &Topology, now: Instant) -> Networks {
    let connections = conntrack::Settings {
        connections: 1024,
        zones: 64,
        tenants: 8,
        timeouts: Timeouts::default(),
        key: [1, 2],
    };
    let settings = Settings { connections, flows: 1024, secret: [3, 4] };
    let mut networks = Networks::new(&settings, now);
    networks.realize(7, nets(topology));
    let mut switch = Switch::<u8>::new(lossless::Settings::default());
    for (_, port) in topology.ports() {
        if !matches!(port.attachment, Attachment::Child { .. }) {
            let id = switch.attach(now, PortConfig::default()).unwrap();
            networks.bind(id, port.id.clone());
        }
    }
    networks
}

/// What a trace says: its steps, who gets the frame, who is answered, and what is refused, each in
/// no order.
type Told = [Vec<String>; 4];

fn sorted(mut told: Told) -> Told {
    told.iter_mut().for_each(|it| it.sort());
    told
}

fn by_host(trace: &Trace) -> Told {
    assert_eq!(trace.generation, 7);
    assert!(trace.sent.is_empty());
    let refused = |it: &pipeline::Refusal| {
        let by = it.by.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} at {} by {by}", it.reason.name(), it.at)
    };
    sorted([
        trace.steps.iter().map(ToString::to_string).collect(),
        trace.delivered.iter().map(ToString::to_string).collect(),
        trace.answered.iter().map(ToString::to_string).collect(),
        trace.refused.iter().map(refused).collect(),
    ])
}

fn by_interpreter(topology: &Topology, now: Instant, port: PortIndex, frame: &[u8]) -> Told {
    let arrival = Arrival { port, node: None, frame };
    let decision: Decision = decide(topology, &State::default(), now, arrival);
    let name = |copy: &interpreter::Copy| topology[copy.port].id.to_string();
    let refused = |it: &interpreter::Refusal| {
        let by = it.by.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} at {} by {by}", it.reason.name(), it.at)
    };
    sorted([
        decision.trace.iter().map(ToString::to_string).collect(),
        decision.delivered.iter().map(name).collect(),
        decision.answers.iter().map(name).collect(),
        decision.refused.iter().map(refused).collect(),
    ])
}

#[test]
fn a_host_traces_as_the_interpreter_does() {
    let options = Options {
        stateful: true,
        translations: false,
        learning: true,
        relay: true,
        stray: true,
        strangers: false,
    };
    let now = Instant::from_nanos(1_000_000_000);
    let (mut traced, mut rules) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let world = World::with(seed, options);
        let topology = &world.topology;
        let host = host(topology, now);
        for _ in 0..40 {
            let sent = world.frame(&mut rng);
            let port = &topology[sent.port].id;
            let Some(trace) = host.trace(now, port, &sent.frame) else { continue };
            let own = by_host(&trace);
            let expected = by_interpreter(topology, now, sent.port, &sent.frame);
            let (text, frame) = (&world.text, &sent.frame);
            assert_eq!(own, expected, "{text}\n{seed}: from {port}: {frame:02x?}");
            traced += 1;
            rules += usize::from(own[0].iter().any(|step| step.contains(", by Policy/")));
        }
    }
    assert!(traced > 10_000 && rules > 1_000, "{traced} {rules}");
}

/// The rules that let a frame pass, or refuse it, as a trace names them.
fn rules(trace: &Trace) -> Vec<String> {
    let by_rule = |step: &pipeline::Step| {
        let is_refused = step.stage == "verdict" && step.what.starts_with("refused");
        (step.stage.ends_with("-port rules") || is_refused).then(|| step.by.clone()).flatten()
    };
    let mut rules: Vec<_> = trace.steps.iter().filter_map(by_rule).collect();
    rules.sort();
    rules
}

/// How often each rule has decided.
fn hits(host: &Networks) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (_, rule, Hits { admitted, refused }) in host.hits().all() {
        *all.entry(rule.name.to_string()).or_default() += admitted.frames + refused.frames;
    }
    all
}

#[test]
fn a_frame_counts_once_at_each_of_its_rules_however_often_it_is_decided() {
    let options = Options {
        stateful: true,
        translations: false,
        learning: false,
        relay: false,
        stray: true,
        strangers: false,
    };
    let now = Instant::from_nanos(1_000_000_000);
    let (mut counted, mut again) = (0, 0);
    for seed in 0..900 {
        let mut rng = Rng::new(seed);
        let world = World::with(seed, options);
        let topology = &world.topology;
        let mut host = host(topology, now);
        let ports: BTreeMap<_, _> = topology.ports().map(|(_, port)| &port.id).zip(0..).collect();
        for _ in 0..20 {
            let sent = world.frame(&mut rng);
            let port = &topology[sent.port];
            let Some(from) = ports.get(&port.id).and_then(|it| PortId::new(*it)) else { continue };
            if host.name(from).is_none_or(|(name, _)| *name != port.id) {
                continue;
            }
            // The second is decided as the first was.
            for _ in 0..2 {
                let Some(trace) = host.trace(now, &port.id, &sent.frame) else { continue };
                if trace.delivered.len() + trace.refused.len() != 1 {
                    continue;
                }
                let mut expected = hits(&host);
                for rule in rules(&trace) {
                    *expected.get_mut(&rule).unwrap() += 1;
                    counted += 1;
                }
                let bytes = &sent.frame;
                let (len, partial) = (bytes.len(), None);
                let frame = MachineFrame { from, slot: Some(1), bytes, len, excess: 0, partial };
                let whole = || &bytes[..];
                let to = match host.send(now, Class::default(), &frame) {
                    Verdict::Forward(Destination::One(to)) => Some(to),
                    Verdict::Forward(_) => panic!("it is for one"),
                    Verdict::Taken | Verdict::Refuse(_) => None,
                };
                if let Some(to) = to {
                    let refused = matches!(host.leave(now, to, &frame, whole), Leaves::Refused(_));
                    if !refused {
                        // It waits, and is decided once more.
                        host.leave(now, to, &frame, whole);
                        host.left(now);
                    }
                }
                again += usize::from(host.decided().known > 0);
                assert_eq!(hits(&host), expected, "{}\n{seed}: {:02x?}", world.text, sent.frame);
            }
        }
        // Another generation of the same rules goes on counting.
        let before = hits(&host);
        host.realize(8, nets(topology));
        assert_eq!(hits(&host), before);
        host.realize(9, Vec::new());
        assert!(hits(&host).is_empty());
        let totals = host.hits().totals();
        let frames = totals.values().map(|it| it.admitted.frames + it.refused.frames);
        assert_eq!(frames.sum::<u64>(), before.values().sum::<u64>());
    }
    assert!(counted > 900 && again > 100, "{counted} {again}");
}

/// Answers that a port was given and was not, when it sends a frame so often at once.
#[test]
fn a_port_that_asks_too_much_is_answered_as_often_as_the_interpreter_answers_it() {
    let options = Options {
        stateful: false,
        translations: false,
        learning: false,
        relay: true,
        stray: true,
        strangers: false,
    };
    let now = Instant::from_nanos(1_000_000_000);
    let mut limited = 0;
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let world = World::with(seed, options);
        let topology = &world.topology;
        let (mut host, mut state) = (host(topology, now), State::default());
        let sent = world.frame(&mut rng);
        let name = &topology[sent.port].id;
        let mut ports = (0..64).filter_map(PortId::new);
        let is_it = |port: &PortId| host.name(*port).is_some_and(|(bound, _)| bound == name);
        let Some(from) = ports.find(is_it) else { continue };
        let trace = host.trace(now, name, &sent.frame).unwrap();
        if trace.delivered.len() + trace.refused.len() != 1 {
            continue;
        }
        let (mut given, mut withheld) = (0, 0);
        for _ in 0..300 {
            let arrival = Arrival { port: sent.port, node: None, frame: &sent.frame };
            let decision = decide(topology, &state, now, arrival);
            state.commit(&decision.changes, now);
            given += decision.answers.len() as u64;
            let is_it = |it: &&interpreter::Step| it.what == "none: it was answered too often";
            withheld += decision.trace.iter().filter(is_it).count() as u64;
            let bytes = &sent.frame[..];
            let (slot, len) = (None, bytes.len());
            let frame = MachineFrame { from, slot, bytes, len, excess: 0, partial: None };
            if let Verdict::Forward(Destination::One(to)) = host.send(now, Class::default(), &frame)
                && let Leaves::As(_) | Leaves::AsItIs = host.leave(now, to, &frame, || bytes)
            {
                host.left(now);
            }
            host.poll_transmit(|_, _| true);
        }
        if given + withheld > 0 {
            let (world, frame) = (&world.text, &sent.frame);
            assert_eq!(host.answered(), (given, withheld), "{world}\n{seed}: {frame:02x?}");
            limited += withheld;
        }
    }
    assert!(limited > 100, "{limited}");
}

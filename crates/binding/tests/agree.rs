//! What a host's trace says is what the interpreter says: verdict, object and rule of each step, in
//! random worlds.

use std::collections::BTreeSet;
use std::sync::Arc;

use binding::{Networks, Settings, Trace};
use conntrack::Timeouts;
use interpreter::{Arrival, Decision, State, decide};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use lossless::{PortConfig, Switch};
use pipeline::Net;
use units::{Instant, Rng};
use worlds::{Options, World};

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
    let own: BTreeSet<Identity> = topology.ports().map(|(_, port)| port.id.clone()).collect();
    let domains = compiler::compile(topology);
    let nets = domains.values().map(|domain| Arc::new(Net::new(&domain.part(&own))));
    networks.realize(7, nets.collect());
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
    let options =
        Options { stateful: true, translations: false, learning: true, relay: true, stray: true };
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

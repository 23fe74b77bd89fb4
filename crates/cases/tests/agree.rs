//! Hosts together decide as the interpreter does, in random worlds: a million frames.

use std::collections::{BTreeMap, BTreeSet};

use interpreter::Arrival;
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use units::{Instant, Rng, Span};
use worlds::{Options, World};

use conntrack::{Settings, Timeouts};
use pipeline::{Copy, Net, Reason, Refusal, State};

/// A host: its part of each domain, by the domain's name, and what it knows of frames before.
struct Host {
    nets: BTreeMap<Identity, Net>,
    state: State,
}

impl Host {
    fn new() -> Self {
        let settings = Settings {
            connections: 4096,
            zones: 64,
            tenants: 8,
            timeouts: Timeouts::default(),
            key: [1, 2],
        };
        Self { nets: BTreeMap::new(), state: State::new(&settings, Instant::ZERO) }
    }
}

/// Hosts that together have all ports.
struct Hosts {
    all: Vec<Host>,
    /// The host of each port, and its domain.
    places: BTreeMap<Identity, (usize, Identity)>,
}

/// What became of a frame, as both tell it, in no order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
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

impl Hosts {
    /// So many hosts, each with some of the ports. Children are where their parents are.
    fn new(topology: &Topology, hosts: usize, rng: &mut Rng) -> Self {
        let mut of_port: BTreeMap<PortIndex, usize> = BTreeMap::new();
        for (index, _) in topology.ports() {
            of_port.insert(index, rng.below(hosts as u64) as usize);
        }
        for (index, port) in topology.ports() {
            if let Attachment::Child { parent, .. } = port.attachment {
                of_port.insert(index, of_port[&parent]);
            }
        }
        let domains = compiler::compile(topology);
        let mut made =
            Self { all: (0..hosts).map(|_| Host::new()).collect(), places: BTreeMap::new() };
        for (index, port) in topology.ports() {
            let has = |it: &&Identity| domains[*it].ports.contains_key(&port.id);
            if let Some(domain) = domains.keys().find(has) {
                made.places.insert(port.id.clone(), (of_port[&index], domain.clone()));
            }
        }
        for (name, domain) in &domains {
            for (number, host) in made.all.iter_mut().enumerate() {
                let own = made.places.iter().filter(|(_, at)| at.0 == number);
                let own: BTreeSet<_> = own.map(|(port, _)| port.clone()).collect();
                let net = Net::new(&domain.part(&own));
                host.state.adopt(&net);
                host.nets.insert(name.clone(), net);
            }
        }
        made
    }

    fn send(&mut self, port: &Identity, now: Instant, frame: &[u8]) -> (Fate, String) {
        let (from, domain) = self.places[port].clone();
        let host = &self.all[from];
        let net = &host.nets[&domain];
        let at = net.port(port).unwrap();
        let name = |net: &Net, copy: &Copy| (net.name(copy.port).to_string(), copy.frame.clone());
        let sent = net.send(&host.state, now, at, frame);
        let mut fate = Fate {
            answers: sent.answers.iter().map(|it| name(net, it)).collect(),
            ..Fate::default()
        };
        let told = |it: &Refusal| {
            let by = it.by.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} at {} by {by}", it.reason.name(), it.at)
        };
        fate.refused.extend(sent.refused.iter().map(told));
        let mut trace: String = sent.trace.iter().map(|it| format!("{it}\n")).collect();
        let mut changes = Vec::new();
        for onward in &sent.onward {
            let to = self.places[&onward.to].0;
            let far = &self.all[to].nets[&domain];
            let received = far.receive(&self.all[to].state, now, onward);
            trace.extend(received.trace.iter().map(|it| format!("{it}\n")));
            match &received.fate {
                Ok(copy) => fate.delivered.push(name(far, copy)),
                Err(refusal) => {
                    fate.refused.push(told(refusal));
                    if refusal.reason == Reason::Rejected {
                        fate.answers.extend(net.rejected(at, frame).map(|it| name(net, &it)));
                    }
                }
            }
            changes.push((to, received.changes));
        }
        let mut own = sent.changes;
        own.retain(|change| !fate.delivered.is_empty() || !change.grants());
        changes.insert(0, (from, own));
        for (host, changes) in changes {
            self.all[host].state.commit(&changes, now);
        }
        (fate.sorted(), trace)
    }
}

/// What the interpreter says of a frame.
fn interpreted(
    topology: &Topology,
    state: &mut interpreter::State,
    now: Instant,
    port: PortIndex,
    frame: &[u8],
) -> (Fate, String) {
    let decision = interpreter::decide(topology, state, now, Arrival { port, node: None, frame });
    state.commit(&decision.changes);
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
    let trace = decision.trace.iter().map(|it| format!("{it}\n")).collect();
    (fate.sorted(), trace)
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
        let sent = self.world.frame(&mut self.rng);
        (sent.port, sent.frame)
    }
}

/// How often something was so of frames.
#[derive(Clone, Debug, Default)]
struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    const WORDS: [&'static str; 15] = [
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
        "QoS: marked",
    ];

    fn count(&mut self, trace: &str) {
        for word in Self::WORDS.into_iter().filter(|word| trace.contains(word)) {
            *self.0.entry(word).or_default() += 1;
        }
    }
}

/// Frames in a world, decided by both.
fn agree(
    seed: u64,
    options: Options,
    hosts: usize,
    frames: usize,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let world = World::with(seed, options);
    let mut all = Hosts::new(&world.topology, hosts, &mut rng);
    let mut state = interpreter::State::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut traffic = Traffic { world: &world, rng, got: Vec::new() };
    for _ in 0..frames {
        let (index, frame) = traffic.next();
        // Often no time passes, and sometimes so much that all is forgotten: how long something is
        // remembered to the second is nobody's promise.
        now += Span::from_secs(if traffic.rng.below(40) == 0 { 864_000 } else { 0 });
        all.all.iter_mut().for_each(|host| assert!(host.state.expire(now, u32::MAX)));
        let (expected, trace) = interpreted(&world.topology, &mut state, now, index, &frame);
        let port = &world.topology[index].id;
        let (seen, own_trace) = all.send(port, now, &frame);
        // A frame that routers bring back to its own sender's port passes that twice, once each
        // way. Of which of the two a connection is kept there is not decided alike.
        if own_trace.contains(&format!("destination: {port}\n")) {
            return Ok(());
        }
        if seen != expected {
            return Err(format!(
                "{}\n{seed:?}\nfrom {port}: {frame:02x?}\ninterpreter: {expected:02x?}\n{trace}\n\
                 pipeline: {seen:02x?}\n{own_trace}",
                world.text
            ));
        }
        counts.count(&own_trace);
        for (name, frame) in seen.delivered {
            let mut ports = world.topology.ports();
            let found = ports.find(|(_, it)| it.id.to_string() == name);
            traffic.got.extend(found.map(|(index, _)| (index, frame)));
        }
    }
    Ok(())
}

const BASE: Options =
    Options { stateful: true, translations: false, learning: true, relay: true, stray: false };

#[test]
fn what_is_sent_in_random_worlds_meets_every_end() {
    let mut counts = Counts::default();
    for seed in 0..2000 {
        let seen = agree(seed, BASE, 1, 100, &mut counts);
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for word in Counts::WORDS {
        assert!(counts.0.get(word).is_some_and(|it| *it > 50), "{word}: {counts:?}");
    }
}

#[test]
fn hosts_together_decide_as_the_interpreter_does() {
    let options = Options { learning: false, ..BASE };
    for seed in 0..4000 {
        let hosts = 2 + seed as usize % 3;
        let seen = agree(seed, options, hosts, 100, &mut Counts::default());
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Without connections, segments out of the blue are decided the same, too.
#[test]
fn stateless_rules_decide_whatever_is_sent() {
    let options = Options { stateful: false, stray: true, ..BASE };
    for seed in 0..4000 {
        let seen = agree(seed, options, 1, 100, &mut Counts::default());
        seen.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

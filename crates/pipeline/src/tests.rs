//! Hosts together decide as the interpreter does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use interpreter::Arrival;
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, PortIndex};
use proptest::prelude::*;
use units::{Instant, Rng, Span};
use worlds::{Options, World};

use crate::{Copy, Net, Reason, State};

/// A host: its part of each domain, by the domain's name, and what it knows of frames before.
#[derive(Default)]
struct Host {
    nets: BTreeMap<Identity, Net>,
    state: State,
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
            Self { all: (0..hosts).map(|_| Host::default()).collect(), places: BTreeMap::new() };
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
                host.nets.insert(name.clone(), Net::new(&domain.part(&own)));
            }
        }
        made
    }

    fn send(&mut self, port: &Identity, now: Instant, frame: &[u8]) -> (Fate, String) {
        let (from, domain) = self.places[port].clone();
        let host = &self.all[from];
        let net = &host.nets[&domain];
        let at = net.port(port).unwrap();
        let name =
            |net: &Net, copy: &Copy| (net.ports[copy.port.at()].id.to_string(), copy.frame.clone());
        let sent = net.send(&host.state, now, at, frame);
        let mut fate = Fate {
            answers: sent.answers.iter().map(|it| name(net, it)).collect(),
            ..Fate::default()
        };
        let told = |it: &crate::Refusal| {
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
        self.all[from].state.commit(&sent.changes);
        for (host, changes) in changes {
            self.all[host].state.commit(&changes);
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

/// Frames in a world, decided by both. How many were delivered, answered, refused,
/// handed to a far server or back.
fn agree(seed: u64, options: Options, hosts: usize, frames: usize) -> Result<[usize; 4], String> {
    let mut rng = Rng::new(seed);
    let world = World::with(seed, options);
    let mut all = Hosts::new(&world.topology, hosts, &mut rng);
    let mut state = interpreter::State::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut counts = [0; 4];
    for _ in 0..frames {
        let sent = world.frame(&mut rng);
        now += Span::from_secs(rng.below(3));
        let (expected, trace) =
            interpreted(&world.topology, &mut state, now, sent.port, &sent.frame);
        let port = &world.topology[sent.port].id;
        let (seen, own_trace) = all.send(port, now, &sent.frame);
        if seen != expected {
            return Err(format!(
                "{}\n{:?}\nfrom {port}: {:02x?}\ninterpreter: {expected:02x?}\n{trace}\npipeline: {seen:02x?}\n{own_trace}",
                world.text, seed, sent.frame
            ));
        }
        counts[0] += usize::from(!seen.delivered.is_empty());
        counts[1] += usize::from(!seen.answers.is_empty());
        counts[2] += usize::from(!seen.refused.is_empty());
        counts[3] += usize::from(own_trace.contains("DHCP relay"));
    }
    Ok(counts)
}

const STATELESS: Options =
    Options { stateful: false, translations: false, learning: true, relay: true };

#[test]
fn what_is_sent_in_random_worlds_meets_every_end() {
    let mut counts = [0; 4];
    for seed in 0..500 {
        let seen = agree(seed, STATELESS, 1, 100).unwrap_or_else(|wrong| panic!("{wrong}"));
        counts.iter_mut().zip(seen).for_each(|(all, one)| *all += one);
    }
    assert!(counts.iter().all(|it| *it > 50), "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn hosts_together_decide_as_the_interpreter_does(seed: u64, hosts in 2..5usize) {
        let options = Options { learning: false, ..STATELESS };
        if let Err(wrong) = agree(seed, options, hosts, 100) {
            prop_assert!(false, "{}", wrong);
        }
    }
}

//! The interpreter is asked of random packets in random networks: it must agree with the class that
//! each packet falls into.

mod changes;
mod proofs;
mod random;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use interpreter::{Arrival, Decision, Reason, State, decide};
use logical::topology::{PortIndex, Topology};
use units::{Instant, Rng};
use worlds::{Options, World};

use crate::field::Fate;
use crate::matrix::{Matrix, matrix};
use random::{Sent, packet};

/// Whether the interpreter says why a packet stops. It waits for a neighbour that nobody declares,
/// who may not be there.
fn is_said(says: Reason, reason: Reason) -> bool {
    says == reason || (says, reason) == (Reason::Held, Reason::Unresolved)
}

fn ask(topology: &Topology, port: PortIndex, frame: &[u8]) -> Decision {
    decide(topology, &State::default(), Instant::ZERO, Arrival { port, node: None, frame })
}

/// What the interpreter says of a packet between two ports, in the words of fates.
fn told(
    decision: &Decision,
    topology: &Topology,
    from: PortIndex,
    to: PortIndex,
) -> Option<String> {
    let by = |stage: &str, at: PortIndex| {
        let id = &topology[at].id;
        let mut steps = decision.trace.iter().rev();
        let last = steps.find(|it| it.stage == stage && it.at == *id);
        last.map(|it| it.by.clone().unwrap_or("default".into()))
    };
    if decision.delivered.iter().any(|it| it.port == to) {
        let first = by("from-port rules", from).unwrap_or_default();
        let second = by("to-port rules", to).unwrap_or_default();
        return Some(format!("reached, by {first} and {second}"));
    }
    None
}

/// What worlds have here: what is relayed depends on what is asked.
const OPTIONS: Options = Options { relay: false, ..Options::ALL };

/// Stages of translations.
const STAGES: [&str; 3] = ["destination translation", "source translation", "load balancer"];

fn agree(matrix: &Matrix, world: &World, sent: &Sent, counts: &mut [usize; 3]) {
    let topology = &world.topology;
    let frame = sent.packet.frame();
    let decision = ask(topology, sent.port, &frame);
    let trace: String = decision.trace.iter().map(|it| format!("{it}\n")).collect();
    let is_stage = |stage: &str| decision.trace.iter().any(|it| it.stage == stage);
    if !decision.delivered.is_empty() {
        for (count, stage) in counts.iter_mut().zip(STAGES) {
            *count += usize::from(is_stage(stage));
        }
    }
    if matrix.field.atoms.find(sent.packet.asks()).is_none() {
        return;
    }
    for (to, port) in topology.ports() {
        if to == sent.port || matrix.class(to).is_none() {
            continue;
        }
        let found = matrix.field.fares(topology, [sent.port, to], &sent.packet);
        let context = || format!("{}\n{sent:?}\nto {}\n{trace}\n{found:#?}", world.text, port.id);
        let reached: Vec<_> =
            found.iter().filter(|(_, it)| matches!(it, Fate::Arrive(..))).collect();
        let certain = || found.iter().filter(|(line, _)| !line.is_chosen);
        match told(&decision, topology, sent.port, to) {
            Some(said) => {
                assert!(!reached.is_empty(), "it arrives: {}", context());
                let is_some = |it: &&Fate| matrix.outcome(it).to_string() == said;
                assert!(found.iter().any(|(_, it)| is_some(it)), "{said}: {}", context());
                for (_, fate) in certain() {
                    assert_eq!(matrix.outcome(fate).to_string(), said, "{}", context());
                }
            }
            None => {
                let is_chosen = reached.iter().all(|(line, _)| line.is_chosen);
                assert!(is_chosen, "it does not arrive: {}", context());
                for (_, fate) in certain() {
                    let (reason, by) = match fate {
                        Fate::AtSender(reason, by) | Fate::AtReceiver(reason, by) => (*reason, *by),
                        _ => continue,
                    };
                    let rule = by.map(|it| matrix.field.names[it as usize].clone());
                    let is_told = decision
                        .refused
                        .iter()
                        .any(|it| is_said(it.reason, reason) && it.by == rule);
                    assert!(is_told, "{reason:?} {rule:?}: {}", context());
                }
            }
        }
    }
}

#[test]
fn every_packet_fares_as_its_class_does() {
    let mut counts = [0; 3];
    for seed in 0..1000 {
        let world = World::with(seed, OPTIONS);
        let matrix = matrix(&world.topology).unwrap();
        let mut rng = Rng::new(seed ^ 1);
        for _ in 0..150 {
            agree(&matrix, &world, &packet(&world.topology, &mut rng), &mut counts);
        }
    }
    assert!(counts.iter().all(|it| *it > 30), "{counts:?}");
}

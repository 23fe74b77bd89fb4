//! What becomes of a packet, and why: steps and ends, the objects that decide, what to change.
//!
//! ```text
//! port, frame ─interpreter─▶ decision ─┬─▶ trace: steps, ends
//!                                      └─▶ objects, remedy
//! ```

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use interpreter::{Arrival, Copy, Decision, Refusal, State, Step, decide};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::PortIndex;
use model::{PacketEnds, PacketOutcome, PacketRefused, PacketStep, PacketTrace};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use units::Instant;

use crate::remedy::{Remedy, remedy};

/// What becomes of a packet, and why. Objects are named by kind, tenant and name.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Its steps, and its ends.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub trace: PacketTrace,
    /// The objects that decide, in the order in which it comes to them.
    pub objects: Vec<String>,
    /// What to change for it to go on, if it is refused and an object decides that.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub remedy: Option<Remedy>,
}

/// Explains what becomes of a frame that a port's machine sends, and of nothing before it.
pub fn explain(topology: &Topology, port: PortIndex, frame: &[u8]) -> Explanation {
    let arrival = Arrival { port, node: topology[port].node, frame };
    let decision = decide(topology, &State::default(), Instant::ZERO, arrival);
    let mut seen = BTreeSet::new();
    let by = |it: &Step| -> Vec<Identity> {
        it.by.iter().flat_map(|by| by.split(' ').filter_map(named)).collect()
    };
    let of_step = |it: &Step| [vec![it.at.clone()], by(it)].concat();
    let all = decision.trace.iter().flat_map(of_step);
    let objects = all.map(|it| it.to_string()).filter(|it| seen.insert(it.clone())).collect();
    let found = decision.refused.iter().find_map(|it| remedy(topology, port, it));
    let trace = told(topology, decision);
    let remedy = found.filter(|_| trace.outcome == PacketOutcome::Refused);
    Explanation { trace, objects, remedy }
}

/// The object that a word of a step names, if it names one. A rule's word names its policy.
pub fn named(word: &str) -> Option<Identity> {
    let word = word.trim_end_matches([',', ';', ':']);
    let rule = word.starts_with("Policy/").then(|| word.rsplit_once('/')).flatten();
    rule.map_or(word, |(policy, _)| policy).parse().ok()
}

/// What was decided, as it is told.
fn told(topology: &Topology, decision: Decision) -> PacketTrace {
    let name = |copy: &Copy| topology[copy.port].id.to_string();
    let refused = |it: &Refusal| PacketRefused {
        reason: it.reason.name().into(),
        at: it.at.to_string(),
        by: it.by.as_ref().map(ToString::to_string),
    };
    let ends = PacketEnds {
        delivered: decision.delivered.iter().map(name).collect(),
        sent: Vec::new(),
        answered: decision.answers.iter().map(name).collect(),
        refused: decision.refused.iter().map(refused).collect(),
    };
    let step = |it: Step| PacketStep {
        at: it.at.to_string(),
        stage: it.stage.into(),
        what: it.what,
        by: it.by,
    };
    PacketTrace::new(ends, decision.trace.into_iter().map(step).collect())
}

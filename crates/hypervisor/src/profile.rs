//! What rules cost for some networks.

use alloc::sync::Arc;
use alloc::vec::Vec;

use logical::Object;
use nlog::{Fault, RuleCounters};

use crate::{Edit, Hypervisor};

/// What was counted.
pub struct Profile {
    /// What each rule did, in the order of the files.
    pub rules: Vec<RuleProfile>,
    /// How many edits there were, each of one object.
    pub edits: u64,
    /// How many tuples there are.
    pub tuples: usize,
    /// The bytes that they and their values take.
    pub bytes: usize,
    /// How many parts of recursive tables were computed anew.
    pub recomputed: u64,
}

/// What a rule did.
pub struct RuleProfile {
    /// The rule's place, and the table that it derives.
    pub rule: Fault,
    /// When all objects came at once.
    pub cold: RuleCounters,
    /// In all edits together.
    pub edits: RuleCounters,
}

/// Has all objects come at once. Then takes objects away and puts them back, one at a time: at most
/// so many, evenly spread, of those that the others can be without.
///
/// # Panics
///
/// If the objects are not right together: [`logical::resolve`] tells why.
pub fn profile(objects: &[Object], most: usize) -> Profile {
    let mut hypervisor = Hypervisor::new(0);
    hypervisor.commit(1, objects.iter().cloned().map(Arc::new).map(Edit::put));
    let cold: Vec<RuleCounters> = hypervisor.rules().map(|(_, counters)| counters).collect();
    let mut revision = 1;
    let step = objects.len().div_ceil(most.max(1)).max(1);
    for (at, object) in objects.iter().enumerate().step_by(step) {
        let others = [&objects[..at], &objects[at + 1..]].concat();
        if logical::resolve(&others).is_err() {
            continue;
        }
        let gone = Edit::remove(object.identity());
        for edit in [gone, Edit::put(Arc::new(object.clone()))] {
            revision += 1;
            hypervisor.commit(revision, [edit]);
        }
    }
    let rules = hypervisor.rules().zip(cold).map(|((rule, after), cold)| {
        let edits = after.since(cold);
        RuleProfile { rule, cold, edits }
    });
    let rules = rules.collect();
    let (tuples, bytes) = hypervisor.size();
    let recomputed = hypervisor.counters().recomputed;
    Profile { rules, edits: revision - 1, tuples, bytes, recomputed }
}

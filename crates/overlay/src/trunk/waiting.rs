//! Flows that wait until a window, the link or the kernel takes more, by lane.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use lossless::Flow;
use tunnel::Lane;

/// How many flows of a lane go on at once.
const AT_ONCE: usize = 16;

/// The flows that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<Lane, Waits>);

/// Those of one lane. There is one at least.
#[derive(Debug)]
struct Waits {
    flows: BTreeSet<Flow>,
    /// The one that went on last.
    last: Flow,
    /// Something has happened by which they may be able to go on.
    has_changed: bool,
    /// More of them follow, unless one of those that went on has to wait again.
    has_more: bool,
}

impl Waiting {
    /// A flow has to wait. If that is because its lane's window `is_closed`, others of the lane
    /// need not be asked.
    pub(super) fn insert(&mut self, lane: Lane, flow: Flow, is_closed: bool) {
        let waits = self.0.entry(lane).or_insert_with(|| Waits {
            flows: BTreeSet::new(),
            last: Flow(u64::MAX),
            has_changed: false,
            has_more: false,
        });
        waits.flows.insert(flow);
        waits.has_more &= !is_closed;
    }

    /// Nobody waits.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether nobody does.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a lane that has flows here is such a one.
    pub(super) fn is_any(&self, is_one: impl Fn(Lane) -> bool) -> bool {
        self.0.keys().any(|lane| is_one(*lane))
    }

    /// Something has happened by which all may be able to go on.
    pub(super) fn note_change(&mut self) {
        self.0.values_mut().for_each(|waits| waits.has_changed = true);
    }

    /// Whether some of an open lane may be able to go on.
    pub(super) fn may_go_on(&self, is_open: impl Fn(Lane) -> bool) -> bool {
        let mut lanes = self.0.iter().filter(|(_, waits)| waits.has_changed || waits.has_more);
        lanes.any(|(lane, _)| is_open(*lane))
    }

    /// Takes out some flows of each open lane that may be able to go on: those to which `may_go`
    /// says no go on waiting. The others follow.
    pub(super) fn go_on(
        &mut self,
        is_open: impl Fn(Lane) -> bool,
        may_go: impl Fn(Flow) -> bool,
    ) -> Vec<Flow> {
        let mut all = Vec::new();
        self.0.retain(|lane, waits| {
            if (waits.has_changed || waits.has_more) && is_open(*lane) {
                waits.go_on(&may_go, &mut all);
            }
            !waits.flows.is_empty()
        });
        all
    }
}

impl Waits {
    fn go_on(&mut self, may_go: &impl Fn(Flow) -> bool, all: &mut Vec<Flow>) {
        self.has_changed = false;
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let later = self.flows.range(after);
        let earlier = self.flows.range(..=self.last);
        let mut next = later.chain(earlier).copied().filter(|flow| may_go(*flow));
        let begun = all.len();
        all.extend(next.by_ref().take(AT_ONCE));
        self.has_more = next.next().is_some();
        for flow in &all[begun..] {
            self.flows.remove(flow);
            self.last = *flow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: Flow) -> bool {
        true
    }

    #[test]
    fn a_closed_lane_holds_back_nobody_elses_flows() {
        let mut waiting = Waiting::default();
        for flow in 0..40 {
            waiting.insert(Lane(1), Flow(flow), true);
            waiting.insert(Lane(2), Flow(100 + flow), true);
        }
        assert!(waiting.go_on(|_| true, all).is_empty(), "nothing has happened");
        waiting.note_change();
        let first = waiting.go_on(|lane| lane == Lane(2), all);
        assert_eq!(first, (100..116).map(Flow).collect::<Vec<_>>());
        // One of them has to wait again: the others are not asked until something happens.
        assert!(waiting.may_go_on(|lane| lane == Lane(2)));
        waiting.insert(Lane(2), Flow(100), true);
        assert!(!waiting.may_go_on(|lane| lane == Lane(2)));
        // And what happened while it was closed counts for the first.
        let next = waiting.go_on(|lane| lane == Lane(1), all);
        assert_eq!(next, (0..16).map(Flow).collect::<Vec<_>>());
    }

    #[test]
    fn each_flow_has_its_turn_and_paused_ones_go_on_waiting() {
        let mut waiting = Waiting::default();
        (0..20).for_each(|flow| waiting.insert(Lane(0), Flow(flow), false));
        waiting.note_change();
        let is_even = |flow: Flow| flow.0.is_multiple_of(2);
        let mut gone = Vec::new();
        while waiting.may_go_on(|_| true) {
            gone.extend(waiting.go_on(|_| true, is_even));
        }
        assert_eq!(gone, (0..20).step_by(2).map(Flow).collect::<Vec<_>>());
        assert!(!waiting.is_empty());
        waiting.note_change();
        assert_eq!(waiting.go_on(|_| true, all).len(), 10);
        assert!(waiting.is_empty());
    }
}

//! What advice of moves keeps from one run to the next, so that no machine goes back and forth.
//!
//! ```text
//!   where machines were ─┐
//!   where they are ──────┴▶ who moved ─▶ who rests, and who may not go back
//!   hosts above the goal ─▶ for how many runs in a row
//! ```
//!
//! A move is what was seen to be one: a machine less on one host, and one of the same entry more on
//! another. So it does not matter who moved it, nor whether what was advised was done.

use std::collections::BTreeMap;

use placement::{Move, Watch};
use serde::{Deserialize, Serialize};
use units::{Instant, Span};

use crate::plan::Plan;

/// Once so many machines have moved, those that moved before are forgotten.
const MOST_MOVED: u64 = 10_000;

/// What earlier runs saw. Hosts and machines are named, so plans may change meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Moves, the oldest first.
    moves: Vec<Moved>,
    /// For how many runs in a row hosts have been above the goal; others are not.
    above: BTreeMap<String, u32>,
    /// Where machines were at the last run.
    placement: BTreeMap<String, BTreeMap<String, u32>>,
}

/// Machines of an entry that went from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moved {
    /// When that was seen, in seconds since the origin of time.
    at: u64,
    vm: String,
    from: String,
    to: String,
    count: u32,
}

/// Why a text is no history.
#[derive(Debug, thiserror::Error)]
#[error("it is no history of moves; remove it, and the next run begins a new one")]
pub struct HistoryError(#[from] serde_json::Error);

impl History {
    /// Reads what [`text`](Self::text) has written.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] says where it is damaged.
    pub fn read(text: &str) -> Result<Self, HistoryError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The history as a file has it.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers are JSON") + "\n"
    }

    /// Notes where machines are now, and forgets moves that are older than `keep`.
    pub(crate) fn note(&mut self, plan: &Plan, now: Instant, keep: Span) {
        let placed = plan.hosts().zip(&plan.placement.hosts).filter(|(_, it)| !it.is_empty());
        let placement = placed.map(|(name, it)| (name.to_owned(), plan.named(it))).collect();
        let before = std::mem::replace(&mut self.placement, placement);
        let now_secs = secs(now);
        for it in &mut self.moves {
            // A clock that was set back would have them rest until it is there again.
            it.at = it.at.min(now_secs);
        }
        self.moves.extend(moved(&before, &self.placement, now_secs));
        self.moves.retain(|it| now.since(instant(it.at)) < keep);
        let mut machines = 0;
        let newest = self.moves.iter().rev().take_while(|it| {
            let is_kept = machines < MOST_MOVED;
            machines += u64::from(it.count);
            is_kept
        });
        let forgotten = self.moves.len() - newest.count();
        self.moves.drain(..forgotten);
    }

    /// Counts for how many runs in a row hosts have been above the goal, and returns those that
    /// have been for `dwell`. `low` has an estimate for each host.
    pub(crate) fn watch(&mut self, plan: &Plan, low: &[f64], dwell: u32) -> Vec<usize> {
        let before = plan.hosts().map(|name| self.above.get(name).copied().unwrap_or(0));
        let mut watch = Watch::new(before.collect(), dwell);
        let overloaded = watch.observe(low, plan.epsilon);
        let above = plan.hosts().zip(watch.above()).filter(|(_, runs)| **runs > 0);
        self.above = above.map(|(name, runs)| (name.to_owned(), *runs)).collect();
        overloaded
    }

    /// For how many runs in a row a host has been above the goal.
    pub(crate) fn runs_above(&self, host: &str) -> u32 {
        self.above.get(host).copied().unwrap_or(0)
    }

    /// The moves by places in the plan's lists. What the plan does not have any more is left out.
    /// Of machines that went on or are gone one move stays, so that none goes back.
    pub(crate) fn moves(&self, plan: &Plan) -> placement::History {
        let hosts: BTreeMap<&str, usize> =
            plan.hosts().enumerate().map(|(place, name)| (name, place)).collect();
        let class = |vm: &str| plan.vms.iter().position(|it| it.name == vm);
        let mut moves = placement::History::default();
        for Moved { at, vm, from, to, count } in &self.moves {
            let places = (class(vm), hosts.get(from.as_str()), hosts.get(to.as_str()));
            if let (Some(class), Some(&from), Some(&to)) = places {
                let there = plan.placement.hosts[to].count(class);
                for _ in 0..(*count).min(there.max(1)) {
                    moves.note(instant(*at), Move { class, from, to });
                }
            }
        }
        moves
    }
}

/// What went where. Machines of an entry are alike, so any of those that are missing may be any of
/// those that came; what is missing everywhere is gone, and what nobody misses is new.
fn moved(
    before: &BTreeMap<String, BTreeMap<String, u32>>,
    after: &BTreeMap<String, BTreeMap<String, u32>>,
    at: u64,
) -> Vec<Moved> {
    // Of each entry: how many are missing on a host, and how many came.
    let mut changes: BTreeMap<&str, [Vec<(&str, u32)>; 2]> = BTreeMap::new();
    for (way, (one, other)) in [(before, after), (after, before)].into_iter().enumerate() {
        for (host, machines) in one {
            for (vm, count) in machines {
                let there = other.get(host).and_then(|it| it.get(vm)).copied().unwrap_or(0);
                if *count > there {
                    changes.entry(vm).or_default()[way].push((host.as_str(), count - there));
                }
            }
        }
    }
    let mut moves = Vec::new();
    for (vm, [mut missing, came]) in changes {
        for (to, mut wanted) in came {
            while let Some((from, left)) = missing.last_mut().filter(|_| wanted > 0) {
                let count = wanted.min(*left);
                let [vm, from, to] = [vm, *from, to].map(str::to_owned);
                moves.push(Moved { at, vm, from, to, count });
                wanted -= count;
                *left -= count;
                if *left == 0 {
                    missing.pop();
                }
            }
        }
    }
    moves
}

fn secs(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000_000
}

fn instant(secs: u64) -> Instant {
    Instant::ZERO + Span::from_nanos(secs.saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const KEEP: Span = Span::from_secs(3600);

    fn plan(placement: &str) -> Plan {
        let text = format!(
            "\
goal: {{epsilon: 0.01}}
types: {{r: {{cores: 80, memory: 256gib, switch: [{{carries: 1gbit}}]}}}}
hosts: {{h: {{type: r, count: 3}}}}
models: {{web: {{rate: 1mbit}}}}
vms:
  web: {{count: 20000, model: web, cores: 0, memory: 1b}}
  db: {{count: 5, model: web, cores: 1, memory: 1gib}}
placement: {placement}
"
        );
        Plan::of_text(Path::new("p.yaml"), &text).unwrap()
    }

    fn at(secs: u64) -> Instant {
        instant(secs)
    }

    fn told(history: &History) -> Vec<String> {
        let told = |it: &Moved| format!("{} {} {} {}>{}", it.at, it.count, it.vm, it.from, it.to);
        history.moves.iter().map(told).collect()
    }

    #[test]
    fn a_move_is_a_machine_less_here_and_one_more_there() {
        let mut history = History::default();
        history.note(&plan("{h-1: {web: 5, db: 2}, h-2: {web: 1}}"), at(100), KEEP);
        assert_eq!(told(&history), [""; 0], "the first run knows of no move");
        // Two web go to two hosts; one db is gone.
        let after = plan("{h-1: {web: 3, db: 1}, h-2: {web: 2}, h-3: {web: 1}}");
        history.note(&after, at(700), KEEP);
        assert_eq!(told(&history), ["700 1 web h-1>h-2", "700 1 web h-1>h-3"]);
        // Two db are new; nothing else changed.
        let new = plan("{h-1: {web: 3, db: 1}, h-2: {web: 2, db: 2}, h-3: {web: 1}}");
        history.note(&new, at(1300), KEEP);
        assert_eq!(told(&history).len(), 2);
        let mut moves = placement::History::default();
        moves.note(at(700), Move { class: 0, from: 0, to: 1 });
        moves.note(at(700), Move { class: 0, from: 0, to: 2 });
        assert_eq!(history.moves(&new), moves);

        assert_eq!(History::read(&history.text()).unwrap(), history);
        // Whatever number a file has, there are no more machines than there are.
        history.moves[0].count = u32::MAX;
        let mut most = placement::History::default();
        for to in [1, 1, 2] {
            most.note(at(700), Move { class: 0, from: 0, to });
        }
        assert_eq!(history.moves(&new), most);
        history.note(&new, at(700 + 3600), KEEP);
        assert_eq!(told(&history), [""; 0], "it is long ago");
    }

    #[test]
    fn a_history_is_bounded_and_a_clock_that_was_set_back_does_not_stop_it() {
        let mut history = History::default();
        history.note(&plan("{h-1: {web: 6000}, h-2: {web: 6000}}"), at(5000), KEEP);
        history.note(&plan("{h-2: {web: 6000}, h-3: {web: 6000}}"), at(5001), KEEP);
        history.note(&plan("{h-1: {web: 6000}, h-3: {web: 6000}}"), at(5002), KEEP);
        history.note(&plan("{h-1: {web: 6000}, h-2: {web: 6000}}"), at(5003), KEEP);
        assert_eq!(told(&history), ["5002 6000 web h-2>h-1", "5003 6000 web h-3>h-2"]);
        history.note(&plan("{h-1: {web: 6000}, h-2: {web: 6000}}"), at(10), KEEP);
        assert_eq!(told(&history), ["10 6000 web h-2>h-1", "10 6000 web h-3>h-2"]);
    }

    #[test]
    fn a_host_counts_after_so_many_runs_in_a_row() {
        let plan = plan("{}");
        let mut history = History::default();
        let mut seen = Vec::new();
        for low in [[0.02, 0.02, 0.0], [0.02, 0.0, 0.0], [0.02, 0.02, 0.0]] {
            // Each run reads what the one before has written.
            history = History::read(&history.text()).unwrap();
            seen.push(history.watch(&plan, &low, 3));
        }
        assert_eq!(seen, [vec![], vec![], vec![0]]);
        assert_eq!(["h-1", "h-2", "h-3"].map(|it| history.runs_above(it)), [3, 1, 0]);
    }

    #[test]
    fn what_is_damaged_is_told_with_its_place() {
        for text in
            ["", "{\"moves\": [", "{\"moves\": [], \"above\": {}, \"placement\": {}, \"x\": 1}"]
        {
            let error = History::read(text).unwrap_err();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(" at line 1 column "), "{cause}");
        }
    }
}

//! What logical networks have decided, as tables: rules' hits, and the last refusals.

use model::{FrameCount, LastRefusal, PortName, PortStatus, RuleHits};
use serde::Serialize;

use crate::table::{headed, text};

/// A line for each rule.
pub fn rules(rules: &[RuleHits]) -> String {
    let mut table =
        headed(["rule", "direction", "action", "admitted", "bytes", "refused", "bytes"]);
    for RuleHits { policy, rule, direction, action, admitted, refused } in rules {
        let FrameCount { frames, bytes } = admitted;
        table.add_row([
            format!("{policy}/{rule}"),
            direction.clone(),
            action.clone(),
            frames.to_string(),
            bytes.to_string(),
            refused.frames.to_string(),
            refused.bytes.to_string(),
        ]);
    }
    text(table)
}

/// A frame that was refused, and the port that it came from or was for.
#[derive(Debug, Serialize)]
pub struct Refusal {
    port: PortName,
    #[serde(flatten)]
    refusal: LastRefusal,
}

/// The last refusals of all ports, the last one first.
pub fn refusals(ports: Vec<PortStatus>) -> Vec<Refusal> {
    let of = |port: PortStatus| {
        let name = port.name;
        let last = port.logical_state.map(|it| it.last_refusals).unwrap_or_default();
        last.into_iter().map(move |refusal| Refusal { port: name.clone(), refusal })
    };
    let mut all: Vec<_> = ports.into_iter().flat_map(of).collect();
    all.sort_by_key(|it| it.refusal.ago);
    all
}

/// A line for each.
pub fn refusals_table(all: &[Refusal]) -> String {
    let mut table = headed(["ago", "port", "reason", "flow", "at", "by", "generation"]);
    for Refusal { port, refusal } in all {
        let or_dash = |word: &Option<String>| word.clone().unwrap_or_else(|| "–".into());
        table.add_row([
            refusal.ago.to_string(),
            port.to_string(),
            refusal.reason.clone(),
            or_dash(&refusal.flow),
            or_dash(&refusal.at),
            or_dash(&refusal.by),
            refusal.generation.to_string(),
        ]);
    }
    text(table)
}

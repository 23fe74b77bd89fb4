//! Deadlocks: ports that are paused, and that nothing that still moves can let go.
//!
//! ```text
//!   port ─▶ input ─▶ output, paused ─▶ input ─▶ output, paused ─▶ …
//!    ▲                                                           │
//!    └───────────────────────────────────────────────────────────┘
//! ```
//!
//! A port is let go once its peer's input holds little enough. So what lies in outputs that can
//! send counts as gone; whom that lets go can send too; and who is left when that lets nobody go
//! any more will never move. Hosts take whatever comes, sooner or later.

use super::Fabric;
use crate::graph::Graph;
use crate::packet::Packets;
use crate::scenario::Buffer;
use crate::time::Time;

/// A lane of a port that may be stuck.
struct Suspect {
    port: u32,
    lane: u8,
    /// The places of its peer's switch where what came by it lies, each with its bytes.
    waits: Vec<(usize, u64)>,
}

impl Fabric {
    /// Ports in a circle, each of which waits for the next and has since `since`; if there are any.
    pub(crate) fn deadlock(
        &self,
        packets: &Packets,
        graph: &Graph,
        since: Time,
    ) -> Option<Vec<u32>> {
        let mut suspects = self.suspects(packets, graph, since);
        let mut stuck = vec![false; self.lanes.len()];
        loop {
            stuck.fill(false);
            for it in &suspects {
                stuck[self.place(it.port, it.lane)] = true;
            }
            let before = suspects.len();
            suspects.retain(|it| !self.will_go_on(graph, it, &stuck));
            if suspects.len() == before {
                break;
            }
        }
        let next = |it: &Suspect| {
            let (place, _) = it.waits.iter().find(|(place, _)| stuck[*place])?;
            suspects.iter().position(|other| self.place(other.port, other.lane) == *place)
        };
        let mut way = Vec::new();
        let mut at = (!suspects.is_empty()).then_some(0);
        while let Some(number) = at {
            if let Some(first) = way.iter().position(|other| *other == number) {
                return Some(
                    way[first..].iter().map(|number: &usize| suspects[*number].port).collect(),
                );
            }
            way.push(number);
            at = next(&suspects[number]);
        }
        None
    }

    /// Lanes of ports that have waited, paused by a switch, since `since` or longer.
    fn suspects(&self, packets: &Packets, graph: &Graph, since: Time) -> Vec<Suspect> {
        let places = (0..self.ports.len() as u32)
            .flat_map(|port| (0..self.rules.lanes.len() as u8).map(move |lane| (port, lane)));
        let waiting = places.filter(|&(port, lane)| self.is_waiting(port, lane, since));
        waiting
            .map(|(port, lane)| {
                let input = self.ports[port as usize].peer;
                let outputs = graph.ports[self.node(input) as usize].clone();
                let waits = outputs.map(|output| {
                    let place = self.place(output, lane);
                    let by_flow = self.backpressure.iter().flat_map(|it| it.iter(packets, place));
                    let waiting = self.lanes[place].queue.iter(packets).chain(by_flow);
                    let came = waiting.filter(|it| packets[*it].input == input);
                    (place, came.map(|it| u64::from(packets[it].bytes)).sum())
                });
                Suspect { port, lane, waits: waits.filter(|(_, bytes)| *bytes > 0).collect() }
            })
            .collect()
    }

    fn is_waiting(&self, port: u32, lane: u8, since: Time) -> bool {
        let (it, place) = (&self.ports[port as usize], self.place(port, lane));
        let is_paused = it.paused & 1 << lane != 0 && self.lanes[self.place(it.peer, lane)].pausing;
        let is_old = self.rest[place].paused_since <= since;
        is_paused && is_old && self.waiting_at(place) > 0 && self.node(it.peer) >= self.hosts
    }

    /// Whether a suspect is let go once everything has left that is not stuck.
    fn will_go_on(&self, graph: &Graph, it: &Suspect, stuck: &[bool]) -> bool {
        let input = self.ports[it.port as usize].peer;
        let place = self.place(input, it.lane);
        let held: u64 =
            it.waits.iter().filter(|(place, _)| stuck[*place]).map(|(_, bytes)| bytes).sum();
        let xoff = match self.rules.buffer {
            Buffer::Shared { alpha, .. } => {
                let node = self.node(input) as usize;
                let ports = graph.ports[node].clone();
                let lanes = self.rules.lanes.len();
                let places = ports.start as usize * lanes..ports.end as usize * lanes;
                let used: u64 =
                    places.filter(|place| stuck[*place]).map(|it| self.waiting_at(it)).sum();
                (self.shared[node].saturating_sub(used) as f64 * alpha) as u64
            }
            _ => u64::MAX,
        };
        held <= xoff.min(self.lanes[place].xoff).saturating_sub(self.rest[place].hysteresis)
    }
}

//! Backpressure Flow Control (BFC; Goyal, Shah, Zhao, Nikolaidis, Alizadeh and Anderson, NSDI
//! 2022): switches pause flows, hop by hop, where PFC pauses classes.
//!
//! ```text
//!  switch before            this switch
//!  queue of a flow ──link──▶ input ───▶ queue of the flow: long ─▶ …
//!        ▲                     │                    │
//!        └── filter, by link ──┴── paused flows ◀───┘
//! ```
//!
//! Outputs have [queues by flow](super::flows). An input tells its peer of paused flows by a
//! [filter](super::filter), in a frame of its own that goes before all but PFC. It does so whenever
//! something has changed, but no sooner than τ after the last time; the paper's switches send one
//! each τ, changed or not, which is the same where links lose nothing. A host's NIC obeys as a
//! switch does: it has a queue for each flow.
//!
//! What a queue may hold is (HRTT + τ) · rate / queues that may send. HRTT is the time from a pause
//! that is told now to its effect here: the link both ways, the frame that the peer has begun, the
//! filter's own, and the peer's response as with PFC. τ is half of it.
//!
//! PFC remains beneath, and promises that nothing is lost. What moves frames and filters is
//! `fabric::pausing`.

use std::collections::VecDeque;

use super::filter::{FILTER_FRAME, Filter, Pauses};
use super::flows::{Flows, Paused};
use crate::graph::{End, Graph};
use crate::packet::{Handle, Packets};
use crate::scenario::Scenario;
use crate::time::{Pace, Time};

/// Backpressure in the whole network.
#[derive(Debug)]
pub(super) struct Backpressure {
    /// By port and lane; none at hosts and of lanes that are not controlled.
    pub outputs: Vec<Option<Box<Flows>>>,
    inputs: Vec<Option<Box<Input>>>,
    /// By port: HRTT + τ and τ of its link.
    pub horizons: Vec<Time>,
    pub gaps: Vec<Time>,
    /// Flows that are let go, for a moment.
    pub resumed: Vec<Paused>,
}

/// One lane of a switch's input: what its peer is told.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub pauses: Pauses,
    /// When the peer may be told next, and whether an event says so.
    pub next_at: Time,
    pub is_awaited: bool,
    /// What it was told and does not obey yet.
    pub under_way: VecDeque<Filter>,
}

impl Backpressure {
    /// The network's, of which some lanes are controlled.
    pub(super) fn new(scenario: &Scenario, graph: &Graph, controlled: &[bool]) -> Self {
        let longest = scenario.longest_frame();
        let places = || {
            let lanes = controlled.iter().copied();
            let of = move |end: &End| {
                let (is_switch, pace) = (end.node >= graph.hosts, Pace::of(end.link.rate));
                lanes.clone().map(move |controls| (is_switch && controls).then_some(pace))
            };
            graph.ends.iter().flat_map(of)
        };
        let queues = scenario.fabric.flow_queues;
        let trip = |end: &End| {
            let (pace, delay) = (Pace::of(end.link.rate), Time::from(end.link.delay));
            let on_wire = |bytes: u64| {
                pace.time_for(u32::try_from(bytes + end.link.overhead.0).unwrap_or(u32::MAX))
            };
            let frames = on_wire(longest) + on_wire(FILTER_FRAME.into());
            let response = u32::try_from(scenario.fabric.pfc.response.0).unwrap_or(u32::MAX);
            delay + delay + frames + pace.time_for(response)
        };
        let gaps: Vec<Time> =
            graph.ends.iter().map(|end| Time::from_picos(trip(end).as_picos() / 2)).collect();
        Self {
            outputs: places()
                .map(|pace| pace.map(|pace| Box::new(Flows::new(queues, pace, longest))))
                .collect(),
            inputs: places().map(|pace| pace.map(|_| Box::default())).collect(),
            horizons: graph.ends.iter().zip(&gaps).map(|(end, gap)| trip(end) + *gap).collect(),
            gaps,
            resumed: Vec::new(),
        }
    }

    /// What a switch's input tells its peer of.
    ///
    /// # Panics
    ///
    /// If the place is a host's, or its lane is not controlled.
    pub(super) fn input(&mut self, place: usize) -> &mut Input {
        self.inputs[place].as_mut().expect("a switch's port")
    }

    /// Bytes that wait at a place by flow.
    pub(super) fn bytes(&self, place: usize) -> u64 {
        self.outputs[place].as_ref().map_or(0, |it| it.bytes())
    }

    /// Frames that wait at a place by flow.
    pub(super) fn iter<'a>(
        &'a self,
        packets: &'a Packets,
        place: usize,
    ) -> impl Iterator<Item = Handle> {
        self.outputs[place].iter().flat_map(|it| it.iter(packets))
    }

    /// Frames that wait anywhere by flow.
    pub(super) fn held(&self, packets: &Packets) -> u64 {
        self.outputs.iter().flatten().map(|it| it.iter(packets).count() as u64).sum()
    }
}

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
//! PFC remains beneath, and promises that nothing is lost.

use std::collections::VecDeque;

use super::filter::{FILTER_FRAME, Filter, FlowId, Pauses};
use super::flows::{Flows, Paused};
use super::{FILTERS, Fabric};
use crate::clock::{Clock, Event, Maker};
use crate::events::EventList;
use crate::graph::{End, Graph};
use crate::packet::{Handle, Packets};
use crate::scenario::Scenario;
use crate::time::{Pace, Time};

/// Backpressure in the whole network.
#[derive(Debug)]
pub(super) struct Backpressure {
    /// By port and lane; none at hosts and of lanes that are not controlled.
    outputs: Vec<Option<Box<Flows>>>,
    inputs: Vec<Option<Box<Input>>>,
    /// By port: HRTT + τ and τ of its link.
    horizons: Vec<Time>,
    gaps: Vec<Time>,
    /// Flows that are let go, for a moment.
    resumed: Vec<Paused>,
}

/// One lane of a switch's input: what its peer is told.
#[derive(Debug, Default)]
struct Input {
    pauses: Pauses,
    /// When the peer may be told next, and whether an event says so.
    next_at: Time,
    is_awaited: bool,
    /// What it was told and does not obey yet.
    under_way: VecDeque<Filter>,
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

impl Fabric {
    fn backpressure(&mut self) -> &mut Backpressure {
        self.backpressure.as_mut().expect("flows are paused here")
    }

    /// Whether a frame of a flow may go by what waits at an output.
    #[inline]
    pub(super) fn is_clear(&self, port: u32, lane: u8, hash: u32) -> bool {
        let Some(backpressure) = &self.backpressure else { return true };
        let output = &backpressure.outputs[self.place(port, lane)];
        output.as_ref().is_none_or(|it| it.is_clear(FlowId::of(hash)))
    }

    /// Bytes that wait at a place.
    #[inline]
    pub(super) fn waiting_at(&self, place: usize) -> u64 {
        self.lanes[place].queue.bytes + self.backpressure.as_ref().map_or(0, |it| it.bytes(place))
    }

    /// Has a frame wait in its flow's queue. Whether its output has such queues.
    pub(super) fn enqueue_by_flow<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        lane: u8,
        handle: Handle,
    ) -> bool {
        let place = self.place(port, lane);
        let Backpressure { outputs, horizons, .. } = self.backpressure();
        let Some(output) = &mut outputs[place] else { return false };
        let paused = output.push(packets, handle, horizons);
        if let Some(Paused { input, flow }) = paused {
            let place = self.place(input, lane);
            let it = self.backpressure().inputs[place].as_mut().expect("a switch's port");
            it.pauses.pause(flow);
            self.tell_of_flows(clock, input, lane);
        }
        self.note_ready(port, lane);
        self.start(clock, packets, port);
        true
    }

    /// Has the next frame by flow of each of these lanes at hand, for the transmitter to choose.
    pub(super) fn stage<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        ready: u8,
    ) {
        for lane in (0..8).filter(|lane| ready & 1 << lane != 0) {
            let place = self.place(port, lane);
            if !self.lanes[place].queue.is_empty() {
                continue;
            }
            let Backpressure { outputs, horizons, resumed, .. } = self.backpressure();
            let Some(output) = &mut outputs[place] else { continue };
            let Some(handle) = output.pull(packets, horizons, resumed) else { continue };
            self.lanes[place].queue.push(packets, handle);
            let mut resumed = std::mem::take(&mut self.backpressure().resumed);
            for Paused { input, flow } in resumed.drain(..) {
                let place = self.place(input, lane);
                let it = self.backpressure().inputs[place].as_mut().expect("a switch's port");
                it.pauses.resume(flow);
                self.tell_of_flows(clock, input, lane);
            }
            self.backpressure().resumed = resumed;
        }
    }

    /// Notes whether a lane of an output has something to send.
    pub(super) fn note_ready(&mut self, port: u32, lane: u8) {
        let place = self.place(port, lane);
        if let Some(output) = &self.backpressure().outputs[place] {
            let is_ready = output.is_ready() || !self.lanes[place].queue.is_empty();
            let it = &mut self.ports[port as usize];
            it.ready = it.ready & !(1 << lane) | u8::from(is_ready) << lane;
        }
    }

    /// Something has changed of which flows of an input are paused: its peer is told as soon as
    /// that may be.
    fn tell_of_flows<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, port: u32, lane: u8) {
        let (now, place, maker) = (clock.now(), self.place(port, lane), Maker(self.node(port)));
        let it = self.backpressure().inputs[place].as_mut().expect("a switch's port");
        if it.is_awaited {
            return;
        }
        it.is_awaited = true;
        if it.next_at > now {
            clock.at(it.next_at, maker, Event::Filter { port, lane });
        } else {
            self.send_filter(clock, port, lane);
        }
    }

    /// An input may tell its peer of paused flows.
    pub(crate) fn send_filter<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        port: u32,
        lane: u8,
    ) {
        self.ports[port as usize].news |= FILTERS << lane;
        self.wake(clock, port);
    }

    /// Sends a filter.
    #[cold]
    pub(super) fn transmit_filter<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        port: u32,
        lane: u8,
    ) {
        let (place, response) = (self.place(port, lane), self.rules.response);
        let it = &mut self.ports[port as usize];
        it.news &= !(FILTERS << lane);
        it.free_at = clock.now() + it.pace.time_for(FILTER_FRAME + it.overhead);
        let obeyed = it.free_at + it.delay + it.pace.time_for(response);
        clock.at(obeyed, Maker(it.node), Event::ObeyFilter { port: it.peer, lane });
        let gap = self.backpressure().gaps[port as usize];
        let it = self.backpressure().inputs[place].as_mut().expect("a switch's port");
        it.is_awaited = false;
        it.next_at = clock.now() + gap;
        let filter = it.pauses.filter();
        it.under_way.push_back(filter);
    }

    /// What a port is told of paused flows now.
    pub(crate) fn take_filter(&mut self, port: u32, lane: u8) -> Filter {
        let place = self.place(self.ports[port as usize].peer, lane);
        let it = self.backpressure().inputs[place].as_mut().expect("a switch has sent it");
        it.under_way.pop_front().expect("a filter has an event")
    }

    /// A switch's output obeys what it is told of paused flows.
    pub(crate) fn obey_filter<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        lane: u8,
    ) {
        let (filter, place) = (self.take_filter(port, lane), self.place(port, lane));
        if let Some(output) = &mut self.backpressure().outputs[place] {
            output.obey(packets, filter);
        }
        self.note_ready(port, lane);
        self.start(clock, packets, port);
    }
}

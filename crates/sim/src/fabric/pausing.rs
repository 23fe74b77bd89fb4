//! What ports do where flows are paused: frames wait [by flow](super::flows), and filters come and
//! go.

use super::backpressure::Backpressure;
use super::filter::{FILTER_FRAME, Filter, FlowId};
use super::flows::Paused;
use super::{FILTERS, Fabric};
use crate::clock::{Clock, Event, Maker};
use crate::events::EventList;
use crate::packet::{Handle, Packets};

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
            let it = self.backpressure().input(place);
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
                let it = self.backpressure().input(place);
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
        let it = self.backpressure().input(place);
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
        let it = self.backpressure().input(place);
        it.is_awaited = false;
        it.next_at = clock.now() + gap;
        let filter = it.pauses.filter();
        it.under_way.push_back(filter);
    }

    /// What a port is told of paused flows now.
    pub(crate) fn take_filter(&mut self, port: u32, lane: u8) -> Filter {
        let place = self.place(self.ports[port as usize].peer, lane);
        let it = self.backpressure().input(place);
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

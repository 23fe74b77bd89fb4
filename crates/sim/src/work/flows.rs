//! Background traffic: flows to destinations drawn one by one.

use traffic::Distribution;

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Flow as Row;
use crate::scenario::{self, Transport};
use crate::stack::{Heard, Pour};
use crate::time::Time;

use super::context::{Common, Context, Place, begin, drawn};

#[derive(Debug)]
pub(super) struct Flows {
    sources: Vec<u32>,
    destinations: Vec<u32>,
    transport: Transport,
    sizes: Distribution,
    /// None if there are no flows.
    gaps: Option<Distribution>,
    closed: bool,
    datagram: u16,
    gap: Time,
    active: Vec<Row>,
    free: Vec<u32>,
    /// Flows that are over, and of which something is lost.
    broken: u64,
}

impl Flows {
    pub(super) fn new(place: &Place<'_>, it: &scenario::Flows) -> Self {
        let datagram = place.datagram();
        Self {
            sources: place.machines(&it.sources),
            destinations: place.machines(&it.destinations),
            transport: it.transport,
            sizes: it.sizes(place.scenario).expect("a checked scenario's flows have sizes"),
            gaps: it.gaps(place.scenario),
            closed: it.closed,
            datagram,
            gap: place.gap(it.rate, datagram),
            active: Vec::new(),
            free: Vec::new(),
            broken: 0,
        }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        for source in 0..self.sources.len() as u32 {
            self.pause(common, with, source);
        }
    }

    fn pause<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        source: u32,
    ) {
        if let Some(gaps) = &self.gaps {
            let gap = drawn(gaps.sample(&mut common.rng));
            common.after(with, gap, source);
        }
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        source: u32,
    ) {
        let from = self.sources[source as usize];
        let to = loop {
            let to = self.destinations[common.rng.below(self.destinations.len() as u64) as usize];
            if to != from {
                break to;
            }
        };
        let bytes = self.sizes.sample_whole(&mut common.rng).max(1);
        let row = Row {
            workload: common.number,
            from,
            to,
            bytes,
            begun: with.clock.now(),
            ended: Time::NEVER,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.active[number as usize] = row;
                number
            }
            None => {
                self.active.push(row);
                self.active.len() as u32 - 1
            }
        };
        let note = common.note(0, number, source);
        let (lane, datagram, gap) = (common.lane, self.datagram, self.gap);
        let flow =
            Pour { from, to, lane, datagram, gap, bytes: Some(bytes), stop: common.stop, note };
        begin(common, with, self.transport, flow);
        if !self.closed {
            self.pause(common, with, source);
        }
    }

    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        Heard { note, .. }: Heard,
    ) {
        let row = self.active[note.about as usize];
        if note.lost {
            self.broken += 1;
        } else {
            with.record.flow(Row { ended: with.clock.now(), ..row });
        }
        self.free.push(note.about);
        if self.closed {
            self.pause(common, with, note.from);
        }
    }

    /// Flows that were begun and have not arrived.
    pub(super) fn unfinished(&self) -> u64 {
        (self.active.len() - self.free.len()) as u64 + self.broken
    }
}

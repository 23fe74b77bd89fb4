//! Permutations of flows with an end.

use units::Rng;

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Flow as Row;
use crate::scenario::{Permutation, Transport};
use crate::stack::{Heard, Pour};
use crate::time::Time;

use super::context::{Common, Context, Place, begin};

#[derive(Debug)]
pub(super) struct Steady {
    pairs: Vec<(u32, u32)>,
    transport: Transport,
    /// What each sends.
    bytes: u64,
    datagram: u16,
    gap: Time,
    done: u64,
}

impl Steady {
    pub(super) fn new(
        pairs: Vec<(u32, u32)>,
        transport: Transport,
        bytes: u64,
        place: &Place<'_>,
    ) -> Self {
        let datagram = place.datagram();
        let gap = place.gap(None, datagram);
        Self { pairs, transport, bytes, datagram, gap, done: 0 }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        for pair in 0..self.pairs.len() as u32 {
            common.after(with, Time::ZERO, pair);
        }
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        pair: u32,
    ) {
        let (from, to) = self.pairs[pair as usize];
        let note = common.note(0, pair, from);
        let (lane, datagram, gap, bytes) = (common.lane, self.datagram, self.gap, Some(self.bytes));
        let flow = Pour { from, to, lane, datagram, gap, bytes, stop: common.stop, note };
        begin(common, with, self.transport, flow);
    }

    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        Heard { note, .. }: Heard,
    ) {
        if note.lost {
            return;
        }
        self.done += 1;
        let (from, to) = self.pairs[note.about as usize];
        with.record.flow(Row {
            workload: common.number,
            from,
            to,
            bytes: self.bytes,
            begun: common.start,
            ended: with.clock.now(),
        });
    }

    /// Flows that have not arrived.
    pub(super) fn unfinished(&self) -> u64 {
        self.pairs.len() as u64 - self.done
    }
}

/// To whom each sends: the one so many places on, or one that is drawn.
pub(super) fn pairs(place: &Place<'_>, it: &Permutation, rng: &mut Rng) -> Vec<(u32, u32)> {
    let all = place.machines(&it.vms);
    let count = all.len();
    let partner: Vec<usize> = match it.stride {
        Some(stride) => (0..count).map(|n| (n + stride as usize) % count).collect(),
        None => cycle(count, rng),
    };
    all.iter().zip(partner).map(|(from, to)| (*from, all[to])).collect()
}

/// A permutation of one cycle, so that nobody sends to itself (Sattolo 1986).
fn cycle(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, rng.below(place as u64) as usize);
    }
    order
}

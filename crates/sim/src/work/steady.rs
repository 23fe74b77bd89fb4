//! Flows between given machines that go on: permutations and streams.

use units::Rng;

use crate::clock::Event;
use crate::events::EventList;
use crate::record::Flow as Row;
use crate::scenario::{Permutation, Stream, Transport};
use crate::stack::Pour;
use crate::time::{Pace, Time};

use super::{Common, Context, Heard, Place, begin};

/// What a TCP flow without end writes at a time, and how many such it has under way: more than any window.
const CHUNK: u64 = 256 << 10;
const CHUNKS: u32 = 32;

#[derive(Debug)]
pub(super) struct Steady {
    pairs: Vec<(u32, u32)>,
    transport: Transport,
    /// What each sends; without end if absent.
    bytes: Option<u64>,
    datagram: u16,
    gap: Time,
    /// TCP at a rate: from one write of a datagram's length to the next.
    paced: Option<Time>,
    begun: Time,
    done: u64,
}

impl Steady {
    pub(super) fn permutation(place: &Place<'_>, it: &Permutation, rng: &mut Rng) -> Self {
        let all = place.machines(&it.vms);
        let count = all.len();
        let partner: Vec<usize> = match it.stride {
            Some(stride) => (0..count).map(|n| (n + stride as usize) % count).collect(),
            None => cycle(count, rng),
        };
        let pairs = all.iter().zip(partner).map(|(from, to)| (*from, all[to])).collect();
        Self::new(pairs, it.transport, it.bytes.map(|bytes| bytes.0), place.datagram(), place)
    }

    pub(super) fn stream(place: &Place<'_>, it: &Stream) -> Self {
        let (sources, destinations) = (place.machines(&it.source), place.machines(&it.destination));
        let pairs = sources.into_iter().zip(destinations.into_iter().cycle()).collect();
        let datagram = it.datagram.map_or_else(|| place.datagram(), |bytes| bytes.0 as u16);
        let steady = Self::new(pairs, it.transport, None, datagram, place);
        let gap = place.gap(it.rate, datagram);
        let paced = it.rate.map(|rate| Pace::of(rate).time_for(datagram.into()));
        Self { gap, paced, ..steady }
    }

    fn new(
        pairs: Vec<(u32, u32)>,
        transport: Transport,
        bytes: Option<u64>,
        datagram: u16,
        place: &Place<'_>,
    ) -> Self {
        let gap = place.gap(None, datagram);
        Self { pairs, transport, bytes, datagram, gap, paced: None, begun: Time::ZERO, done: 0 }
    }

    pub(super) fn start<L: EventList<Event>>(&mut self, common: &mut Common, with: &mut Context<'_, L>) {
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
        self.begun = common.start;
        match (self.transport, self.bytes, self.paced) {
            (Transport::Tcp, None, Some(gap)) => {
                common.tell(with, from, to, self.datagram.into(), note);
                common.after(with, gap, pair);
            }
            (Transport::Tcp, None, None) => {
                for _ in 0..CHUNKS {
                    common.tell(with, from, to, CHUNK, note);
                }
            }
            _ => {
                let (lane, datagram, gap) = (common.lane, self.datagram, self.gap);
                let flow = Pour { from, to, lane, datagram, gap, bytes: self.bytes, stop: common.stop, note };
                begin(common, with, self.transport, flow);
            }
        }
    }

    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        Heard { note, .. }: Heard,
    ) {
        let (from, to) = self.pairs[note.about as usize];
        let now = with.clock.now();
        match (self.transport, self.bytes, self.paced) {
            (Transport::Tcp, None, None) if now <= common.stop => common.tell(with, from, to, CHUNK, note),
            (Transport::Tcp, None, _) => {}
            _ if note.lost => {}
            (_, bytes, _) => {
                self.done += 1;
                let bytes = bytes.unwrap_or(0);
                with.record.flow(Row {
                    workload: common.number,
                    from,
                    to,
                    bytes,
                    begun: self.begun,
                    ended: now,
                });
            }
        }
    }

    /// Flows with an end that have not arrived.
    pub(super) fn unfinished(&self) -> u64 {
        if self.bytes.is_some() { self.pairs.len() as u64 - self.done } else { 0 }
    }
}

/// A permutation of one cycle, so that nobody sends to itself (Sattolo 1986).
fn cycle(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, rng.below(place as u64) as usize);
    }
    order
}

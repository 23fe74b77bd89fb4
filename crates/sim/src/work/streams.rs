//! Streams, and permutations until they stop.

use crate::clock::Event;
use crate::events::EventList;
use crate::scenario::{Stream, Transport};
use crate::stack::{Heard, Pour};
use crate::time::{Pace, Time};

use super::context::{Common, Context, Place};
use super::counted::Counted;

/// What TCP without a rate writes at a time.
const CHUNK: u64 = 256 << 10;

/// How much TCP has under way at most, as the buffer of a socket takes: more than twice what a
/// profile's window is.
const BUFFER: u64 = 32 * CHUNK;

#[derive(Debug)]
pub(super) struct Streams {
    counted: Counted,
    transport: Transport,
    datagram: u16,
    /// From one datagram to the next.
    gap: Time,
    /// TCP at a rate: from one write of a datagram's length to the next.
    paced: Option<Time>,
}

impl Streams {
    pub(super) fn new(pairs: Vec<(u32, u32)>, transport: Transport, place: &Place<'_>) -> Self {
        let datagram = place.datagram();
        Self {
            counted: Counted::new(pairs, transport),
            transport,
            datagram,
            gap: place.gap(None, datagram),
            paced: None,
        }
    }

    pub(super) fn of(place: &Place<'_>, it: &Stream) -> Self {
        let (sources, destinations) = (place.machines(&it.source), place.machines(&it.destination));
        let pairs = sources.into_iter().zip(destinations.into_iter().cycle()).collect();
        let datagram = it.datagram.map_or_else(|| place.datagram(), |bytes| bytes.0 as u16);
        Self {
            datagram,
            gap: place.gap(it.rate, datagram),
            paced: it.rate.map(|rate| Pace::of(rate).time_for(datagram.into())),
            ..Self::new(pairs, it.transport, place)
        }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        for pair in 0..self.counted.pairs.len() as u32 {
            common.after(with, Time::ZERO, pair);
        }
        self.counted.start(common, with);
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        what: u32,
    ) {
        if !self.counted.go_on(common, with, what) {
            self.send(common, with, what);
        }
    }

    /// A pair begins, or its next write is due.
    fn send<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        place: u32,
    ) {
        let pair = &mut self.counted.pairs[place as usize];
        let note = common.note(0, place, pair.from);
        match (self.transport, self.paced) {
            (Transport::Tcp, Some(gap)) => {
                let line =
                    *pair.carrier.get_or_insert_with(|| common.line(with, pair.from, pair.to));
                // What is due, and after a stall what was due and found no room.
                let elapsed = (with.clock.now() - common.start).as_picos();
                let due = (elapsed / gap.as_picos() + 1) * u64::from(self.datagram);
                let room = with.stack.arrived(line) + BUFFER;
                with.stack.fill(with.clock, with.packets, with.hosts, line, due.min(room));
                common.after(with, gap, place);
            }
            (Transport::Tcp, None) => {
                let line = common.line(with, pair.from, pair.to);
                pair.carrier = Some(line);
                for _ in 0..BUFFER / CHUNK {
                    with.stack.write(with.clock, with.packets, with.hosts, line, CHUNK, note);
                }
            }
            (Transport::Udp, _) => {
                let Self { datagram, gap, .. } = *self;
                let pour = Pour {
                    from: pair.from,
                    to: pair.to,
                    lane: common.lane,
                    datagram,
                    gap,
                    bytes: None,
                    stop: common.stop,
                    note,
                };
                pair.carrier = Some(with.stack.pour(with.clock, with.hosts, pour));
            }
        }
    }

    /// A chunk has arrived: the next is written.
    pub(super) fn hear<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        Heard { note, .. }: Heard,
    ) {
        if with.clock.now() <= common.stop
            && let Some(line) = self.counted.pairs[note.about as usize].carrier
        {
            with.stack.write(with.clock, with.packets, with.hosts, line, CHUNK, note);
        }
    }

    /// Tells what has arrived until now, unless that was told.
    pub(super) fn tell<L>(&mut self, common: &Common, with: &mut Context<'_, L>, now: Time) {
        self.counted.tell(common, with, now);
    }
}

//! What a virtual switch carries, and whose turn it is where that is less than what comes.

use crate::clock::{Clock, Event, Maker};
use crate::events::EventList;
use crate::scenario::{Capacity, VirtualNetwork};
use crate::time::{Pace, Time};

/// A virtual switch's processor: frames wait with their senders until it has time for them.
///
/// Two limits are two clocks. A frame is carried when both have come, and sets each forward by what
/// it costs there.
#[derive(Debug)]
pub(crate) struct Processor {
    /// What a frame costs; nothing if any number is carried.
    per_frame: Time,
    /// What its bytes cost; nothing if any number is carried.
    pace: Option<Pace>,
    /// What is around a machine's packet, which costs nothing.
    encapsulation: u32,
    frames_at: Time,
    bits_at: Time,
    /// Whether an event says when there is time again.
    is_armed: bool,
    /// Whose frame is looked for first: a machine's by its place, or what has come by the link,
    /// behind the last machine.
    turn: usize,
}

impl Processor {
    /// The processor of a server's switch; none if it carries whatever comes.
    pub(crate) fn new(network: &VirtualNetwork, server: u32) -> Option<Self> {
        let has_it = |it: &Capacity| it.servers.is_none_or(|servers| server < servers);
        let Capacity { frames, bits, .. } = network.capacity.filter(has_it)?;
        Some(Self {
            per_frame: frames
                .map_or(Time::ZERO, |frames| Time::from_picos(1_000_000_000_000 / frames)),
            pace: bits.map(Pace::of),
            encapsulation: network.encapsulation.0 as u32,
            frames_at: Time::ZERO,
            bits_at: Time::ZERO,
            is_armed: false,
            turn: 0,
        })
    }

    /// Whether there is time for a frame now. If not, an event says when there is.
    pub(crate) fn is_free<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        number: u32,
    ) -> bool {
        let at = self.frames_at.max(self.bits_at);
        let is_free = at <= clock.now();
        if !is_free && !std::mem::replace(&mut self.is_armed, true) {
            clock.at(at, Maker(number), Event::Carry { host: number });
        }
        is_free
    }

    /// A frame of so many bytes is carried.
    pub(crate) fn carry(&mut self, now: Time, bytes: u32) {
        self.frames_at = self.frames_at.max(now) + self.per_frame;
        if let Some(pace) = self.pace {
            let packet = bytes.saturating_sub(self.encapsulation);
            self.bits_at = self.bits_at.max(now) + pace.time_for(packet);
        }
    }

    /// Its event has come.
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Whose frame is looked for now, of so many places; the next one's is next.
    pub(crate) fn next_turn(&mut self, places: usize) -> usize {
        let turn = self.turn;
        self.turn = (turn + 1) % places;
        turn
    }
}

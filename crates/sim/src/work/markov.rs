//! Sources that move between states, each with a rate.

use demand::Model;
use traffic::Distribution;
use units::{Rng, hash};

use crate::clock::Event;
use crate::events::EventList;
use crate::scenario::{self, Transport, UDP_HEADERS};
use crate::stack::Pour;
use crate::time::{Pace, Time};

use super::context::{Common, Context, Place, drawn};
use super::counted::Counted;

/// Losses that are no further apart than a source takes for so many packets are of one overload.
const BRIDGE: u64 = 32;

#[derive(Debug)]
pub(super) struct Markov {
    counted: Counted,
    model: Model,
    /// By state: from one packet to the next, and how long the state lasts; no packets where a rate
    /// is 0.
    states: Vec<(Option<Time>, Distribution)>,
    /// One for each source, or one for all that move together.
    chains: Vec<Chain>,
    sources: Vec<Source>,
    /// The length of a packet, and what of it is payload.
    packet: u32,
    datagram: u16,
    /// How much payload waits at a source at most: less than a packet's more has no room.
    room: u64,
    /// From one packet to the next of a source that has some waiting: twice as fast as it ever
    /// makes them.
    hurry: Time,
}

/// A state, and what is drawn of the next. What becomes of packets changes neither: so it is the
/// same where another switch carries them.
#[derive(Debug)]
struct Chain {
    state: usize,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    /// When its next packet is made; never in a state without any. Events of other times are of
    /// before, and not heeded.
    due: Time,
    /// What is still to be made of that packet, as a share of it, if it is never.
    rest: f64,
}

impl Markov {
    pub(super) fn new(place: &Place<'_>, it: &scenario::Markov, rng: &mut Rng) -> Self {
        let (from, to) = (place.machines(&it.sources), place.machines(&it.destinations));
        let pairs: Vec<_> = from.into_iter().zip(to.into_iter().cycle()).collect();
        let model = it.model().expect("a checked scenario's states are a model");
        let mtu = place.scenario.virtual_network.mtu;
        let packet = it.frame.map_or(mtu, |bytes| bytes.0 as u32);
        let gap = |level: &scenario::Level| level.0.map(|rate| Pace::of(rate).time_for(packet));
        let gaps: Vec<Option<Time>> = it.rates.iter().map(gap).collect();
        let hold = |state: &demand::State| Distribution::Exponential {
            mean: state.hold.as_nanos() as f64,
        };
        let least = gaps.iter().flatten().copied().min().unwrap_or(Time::NEVER);
        let seeds: Vec<u64> = match &it.together {
            // All workloads with this word draw the same.
            Some(word) => vec![place.scenario.run.seed ^ hash::fnv1a_64(word.as_bytes())],
            None => pairs.iter().map(|_| rng.next_u64()).collect(),
        };
        let chain = |seed: u64| {
            let mut rng = Rng::new(seed);
            Chain { state: drawn_of(&mut rng, model.shares().iter().copied()), rng }
        };
        let source = |_: &(u32, u32)| Source {
            due: Time::NEVER,
            // Sources do not begin in step.
            rest: rng.unit_f64(),
        };
        Self {
            chains: seeds.into_iter().map(chain).collect(),
            sources: pairs.iter().map(source).collect(),
            counted: Counted::new(pairs, Transport::Udp),
            states: gaps.iter().copied().zip(model.states().iter().map(hold)).collect(),
            packet,
            datagram: (packet - UDP_HEADERS) as u16,
            room: it.queue.0 / u64::from(packet) * u64::from(packet - UDP_HEADERS),
            hurry: Time::from_picos(least.as_picos() / 2),
            model,
        }
    }

    pub(super) fn start<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
    ) {
        for chain in 0..self.chains.len() as u32 {
            common.after(with, Time::ZERO, jump_of(chain));
        }
        self.counted.start(common, with);
    }

    pub(super) fn go_on<L: EventList<Event>>(
        &mut self,
        common: &mut Common,
        with: &mut Context<'_, L>,
        what: u32,
    ) {
        if self.counted.go_on(common, with, what) {
            return;
        }
        let number = (what >> 1) as usize;
        if what & 1 == 1 {
            self.change(common, with, number);
        } else if self.sources[number].due == with.clock.now() {
            self.make(common, with, number);
        }
    }

    /// A chain begins, or a state is over.
    fn change<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        number: usize,
    ) {
        let Chain { state, rng } = &mut self.chains[number];
        let before = self.states[*state].0;
        let begins = with.clock.now() == common.start;
        if !begins {
            let (from, count) = (*state, self.model.states().len());
            *state = drawn_of(rng, (0..count).map(|to| self.model.jump(from, to)));
        }
        let hold = drawn(self.states[*state].1.sample(rng));
        let after = self.states[*state].0;
        if self.states.len() > 1 {
            // In the beginning nothing else happens at this time: it would begin once more.
            common.after(with, hold.max(Time::from_picos(1)), jump_of(number as u32));
        }
        let together = if self.chains.len() == self.sources.len() {
            number..number + 1
        } else {
            0..self.sources.len()
        };
        for place in together {
            if begins {
                self.open(common, with, place);
            }
            self.turn(common, with, place, [before.filter(|_| !begins), after]);
        }
    }

    fn open<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        place: usize,
    ) {
        let pair = &mut self.counted.pairs[place];
        let pour = Pour {
            from: pair.from,
            to: pair.to,
            lane: common.lane,
            datagram: self.datagram,
            gap: self.hurry,
            bytes: Some(0),
            stop: common.stop,
            note: common.note(0, place as u32, pair.from),
        };
        pair.carrier = Some(with.stack.open_source(with.hosts, pour));
    }

    /// A source makes packets at another rate from now on. What it has made of one stays made.
    fn turn<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        place: usize,
        [before, after]: [Option<Time>; 2],
    ) {
        let now = with.clock.now();
        let source = &mut self.sources[place];
        if let Some(gap) = before {
            source.rest = (source.due.max(now) - now).as_picos() as f64 / gap.as_picos() as f64;
        }
        source.due = after.map_or(Time::NEVER, |gap| {
            now + Time::from_picos((source.rest * gap.as_picos() as f64) as u64)
        });
        self.wait(common, with, place);
    }

    /// A packet is made.
    fn make<L: EventList<Event>>(
        &mut self,
        common: &Common,
        with: &mut Context<'_, L>,
        place: usize,
    ) {
        let (now, bytes) = (with.clock.now(), u64::from(self.packet));
        // All that move together have the only chain.
        let state = self.chains[place.min(self.chains.len() - 1)].state;
        let gap = self.states[state].0.expect("it makes packets");
        let flow = self.counted.pairs[place].carrier.expect("its chain has begun");
        with.record.excess().make(now, bytes);
        if with.stack.queued(flow) < self.room {
            with.stack.feed(with.clock, with.hosts, flow);
        } else {
            let bridge = Time::from_picos(BRIDGE * gap.as_picos());
            with.record.excess().lose(now, bytes, bridge);
        }
        self.sources[place].due = now + gap;
        self.wait(common, with, place);
    }

    /// Sees to a source again when its next packet is due.
    fn wait<L: EventList<Event>>(&self, common: &Common, with: &mut Context<'_, L>, place: usize) {
        let due = self.sources[place].due;
        if due < Time::NEVER {
            common.after(with, due - with.clock.now(), (place as u32) << 1);
        }
    }

    /// The run ends.
    pub(super) fn end<L>(&mut self, common: &Common, with: &mut Context<'_, L>, now: Time) {
        self.counted.tell(common, with, now);
        with.record.excess().close(now);
    }
}

fn jump_of(chain: u32) -> u32 {
    chain << 1 | 1
}

/// One of several, by their probabilities.
fn drawn_of(rng: &mut Rng, shares: impl Iterator<Item = f64>) -> usize {
    let quantile = rng.unit_f64();
    let mut below = 0.0;
    let mut last = 0;
    for (place, share) in shares.enumerate().filter(|(_, share)| *share > 0.0) {
        below += share;
        // What rounding leaves is the last one's.
        last = place;
        if quantile < below {
            break;
        }
    }
    last
}

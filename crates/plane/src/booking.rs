//! What each network has had of the switch's thread.
//!
//! ```text
//!  turn: │control│ port 3 │ port 7 │ far hosts │ port 7 │ port 3 │control│
//!        └───────┴────────┴────────┴───────────┴────────┴────────┴───────▶ ticks
//! ```
//!
//! The counter is read where a visit ends and the next begins, never for a frame. Ticks of a visit
//! are its port's, and so its network's. Those of visits to far hosts are shared by the networks
//! of the frames that arrived or left in that turn, in proportion; what was nobody's is control's.

use datapath::Network;
use lossless::PortId;
use units::{Span, Ticks};

/// What somebody has had of the thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadUse {
    /// The time of all visits.
    pub used: Span,
    /// The longest visit, of those that are not forgotten.
    pub longest: Span,
    /// Frames that were delivered of its senders, or came for it from far hosts.
    pub frames: u64,
}

/// Whose the time was since the last booking, if it was no port's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// Frames from far hosts.
    Arrivals,
    /// Frames for far hosts.
    Departures,
    /// What is nobody's alone.
    Control,
    /// Nobody's: the thread slept.
    Sleep,
}

/// Ticks, and the most of them in one visit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    ticks: u64,
    longest: u64,
}

impl Spent {
    #[inline(always)]
    fn add(&mut self, visit: u64) {
        self.ticks = self.ticks.wrapping_add(visit);
        self.longest = self.longest.max(visit);
    }

    fn merge(&mut self, other: Self) {
        self.ticks = self.ticks.wrapping_add(other.ticks);
        self.longest = self.longest.max(other.longest);
    }
}

/// What a network has had that is no attached port's: of far hosts, and by ports that are gone.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    spent: Spent,
    frames: u64,
}

/// Frames from or for far hosts in this turn, and the ticks that they took.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ticks: u64,
    /// By network number.
    counts: Vec<u32>,
    /// The networks whose count is not zero.
    counted: Vec<Network>,
    frames: u32,
}

impl Tally {
    /// One more frame of a network.
    #[inline]
    pub(crate) fn note(&mut self, network: Network) {
        let place = usize::from(network.number());
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        if self.counts[place] == 0 {
            self.counted.push(network);
        }
        self.counts[place] += 1;
        self.frames += 1;
    }
}

/// The books of the thread's time.
#[derive(Debug)]
pub(crate) struct Booking<T> {
    counter: T,
    /// Nanoseconds in 2³² ticks.
    pace: u64,
    /// How many ticks the visit that began last may take, if that is looked at.
    bound: u64,
    /// Until when all is booked.
    until: u64,
    /// By port number.
    ports: Vec<Spent>,
    /// By network number.
    rests: Vec<Rest>,
    control: Spent,
    /// What visits to far hosts took, and for how many frames.
    far: (u64, u64),
    /// Control's time of this turn, which does not count if nothing came of it.
    spins: u64,
    pub(crate) arrivals: Tally,
    pub(crate) departures: Tally,
}

impl<T: Ticks> Default for Booking<T> {
    fn default() -> Self {
        let counter = T::default();
        let pace = (1_000_000_000 << 32) / u128::from(counter.per_second().max(1));
        Self {
            pace: u64::try_from(pace).unwrap_or(u64::MAX),
            bound: u64::MAX,
            until: counter.now(),
            counter,
            ports: Vec::new(),
            rests: Vec::new(),
            control: Spent::default(),
            far: (0, 0),
            spins: 0,
            arrivals: Tally::default(),
            departures: Tally::default(),
        }
    }
}

impl<T: Ticks> Booking<T> {
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.counter.now()
    }

    /// How long so many ticks are.
    #[inline]
    pub(crate) fn span(&self, ticks: u64) -> Span {
        self.converter()(ticks)
    }

    /// The same, for whoever has borrowed this.
    pub(crate) fn converter(&self) -> impl Fn(u64) -> Span + use<T> {
        let pace = self.pace;
        move |ticks| Span::from_nanos(((u128::from(ticks) * u128::from(pace)) >> 32) as u64)
    }

    /// How many ticks are in this time.
    #[inline]
    pub(crate) fn ticks(&self, span: Span) -> u64 {
        ((u128::from(span.as_nanos()) << 32) / u128::from(self.pace)) as u64
    }

    /// Visits may take so many ticks from now on, or as many as they like.
    #[inline]
    pub(crate) fn bound(&mut self, most: Option<u64>) {
        self.bound = most.unwrap_or(u64::MAX);
    }

    /// Whether visits may take only so long.
    #[inline]
    pub(crate) fn is_bounded(&self) -> bool {
        self.bound != u64::MAX
    }

    /// Whether the visit that began when the last one was booked has taken what it may.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_bounded() && self.counter.now().wrapping_sub(self.until) >= self.bound
    }

    /// When the last visit was booked.
    #[inline]
    pub(crate) fn booked_at(&self) -> u64 {
        self.until
    }

    /// The time since the last booking, which is booked with this.
    #[inline(always)]
    fn lap(&mut self) -> u64 {
        let now = self.counter.now();
        now.wrapping_sub(std::mem::replace(&mut self.until, now))
    }

    /// A visit to a port has ended.
    #[inline(always)]
    pub(crate) fn visited(&mut self, id: PortId) {
        let visit = self.lap();
        self.ports[id.index()].add(visit);
    }

    /// Work has ended that was no port's.
    pub(crate) fn worked(&mut self, work: Work) {
        let visit = self.lap();
        match work {
            Work::Arrivals => self.arrivals.ticks += visit,
            Work::Departures => self.departures.ticks += visit,
            Work::Control => self.spins += visit,
            Work::Sleep => {}
        }
    }

    /// A turn has ended, which moved something or did not. Tells what networks have had of the
    /// visits to far hosts, in ticks.
    pub(crate) fn settle(&mut self, moved: bool, mut had: impl FnMut(Network, u64)) {
        let spins = std::mem::take(&mut self.spins);
        if moved {
            self.control.add(spins);
        }
        let Self { arrivals, departures, rests, control, far, .. } = self;
        for (tally, is_arrival) in [(arrivals, true), (departures, false)] {
            let ticks = std::mem::take(&mut tally.ticks);
            let frames = u64::from(std::mem::take(&mut tally.frames));
            if frames == 0 {
                if moved {
                    control.add(ticks);
                }
                continue;
            }
            *far = (far.0.wrapping_add(ticks), far.1 + frames);
            let Tally { counts, counted, .. } = tally;
            for network in counted.drain(..) {
                let place = usize::from(network.number());
                let count = u64::from(std::mem::take(&mut counts[place]));
                let rest = reach(rests, place);
                let part = (u128::from(ticks) * u128::from(count) / u128::from(frames)) as u64;
                rest.spent.ticks = rest.spent.ticks.wrapping_add(part);
                had(network, part);
                rest.frames += if is_arrival { count } else { 0 };
            }
        }
    }

    /// A port was attached under this number.
    pub(crate) fn open(&mut self, id: PortId) {
        *reach(&mut self.ports, id.index()) = Spent::default();
    }

    /// A port of this network is gone, of whose frames so many were delivered.
    pub(crate) fn close(&mut self, id: PortId, network: Network, delivered: u64) {
        let spent = std::mem::take(&mut self.ports[id.index()]);
        let rest = reach(&mut self.rests, usize::from(network.number()));
        rest.spent.merge(spent);
        rest.frames += delivered;
    }

    /// A network is gone, and its number may soon be another's.
    pub(crate) fn forget(&mut self, network: Network) {
        if let Some(rest) = self.rests.get_mut(usize::from(network.number())) {
            *rest = Rest::default();
        }
    }

    /// Longest visits are those of later times.
    pub(crate) fn forget_longest(&mut self) {
        let Self { ports, rests, control, .. } = self;
        let rests = rests.iter_mut().map(|rest| &mut rest.spent);
        ports.iter_mut().chain(rests).chain([control]).for_each(|spent| spent.longest = 0);
    }

    /// What visits to far hosts took, and for how many frames.
    pub(crate) fn far(&self) -> (Span, u64) {
        (self.span(self.far.0), self.far.1)
    }

    /// What control has had.
    pub(crate) fn control(&self) -> ThreadUse {
        self.told(self.control, 0)
    }

    /// What each network has had, by number, if these are the attached ports, with their networks
    /// and the frames that were delivered of them.
    pub(crate) fn networks(
        &self,
        ports: impl Iterator<Item = (PortId, Network, u64)>,
    ) -> Vec<ThreadUse> {
        let mut all = self.rests.clone();
        for (id, network, delivered) in ports {
            let rest = reach(&mut all, usize::from(network.number()));
            rest.spent.merge(self.ports[id.index()]);
            rest.frames += delivered;
        }
        all.into_iter().map(|Rest { spent, frames }| self.told(spent, frames)).collect()
    }

    /// What a port has had.
    pub(crate) fn port(&self, id: PortId) -> Span {
        self.span(self.ports[id.index()].ticks)
    }

    fn told(&self, Spent { ticks, longest }: Spent, frames: u64) -> ThreadUse {
        ThreadUse { used: self.span(ticks), longest: self.span(longest), frames }
    }
}

/// A place, which is made if it is not there.
fn reach<V: Clone + Default>(all: &mut Vec<V>, place: usize) -> &mut V {
    if place >= all.len() {
        all.resize(place + 1, V::default());
    }
    &mut all[place]
}

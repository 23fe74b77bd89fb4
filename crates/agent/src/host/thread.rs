//! What networks are promised of the switch's thread, and what they and others have had of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::num::NonZeroU16;

use admission::Promise;
use datapath::Network;
use model::{NetworkName, NetworkShare, ThreadStatus, ThreadUse};
use plane::ThreadTerms;
use units::{Instant, Span};

use super::attached::Attached;
use super::bound::owner;
use super::device::Device;
use super::host_plane::HostPlane;
use super::numbers::Numbers;
use crate::networks::FrameCost;

const SECOND: Span = Span::from_secs(1);

/// For how long a longest visit is told of, and as long again.
const LONG: Span = Span::from_secs(10);

/// The part of each second that guarantees may add up to, whatever frames turn out to cost.
const MOST: Span = Span::from_millis(850);

/// What networks have of the thread.
pub(super) struct ThreadShares {
    /// By name, what is declared.
    shares: BTreeMap<NetworkName, NetworkShare>,
    promise: Promise,
    frame: FrameCost,
    costs: [Cost; 3],
    /// The terms that are in force, by network number, if the thread is shared.
    terms: Option<Vec<ThreadTerms>>,
    /// At the beginning and the end of the last second that was watched.
    samples: [Sample; 2],
    /// The longest visits before the last time that they were forgotten, and when that was.
    longest: Sample,
}

/// What all had at one moment.
#[derive(Default)]
struct Sample {
    at: Instant,
    /// By network number.
    networks: Vec<plane::ThreadUse>,
    control: plane::ThreadUse,
}

impl Sample {
    fn take(at: Instant, plane: &HostPlane) -> Self {
        Self { at, networks: plane.thread_use(), control: plane.control_use() }
    }

    fn of(&self, whose: Option<Network>) -> plane::ThreadUse {
        match whose {
            None => self.control,
            Some(network) => {
                self.networks.get(usize::from(network.number())).copied().unwrap_or_default()
            }
        }
    }
}

/// What frames of a kind of port cost.
struct Cost {
    /// What they are taken to cost until enough were seen.
    start: Span,
    /// Time and frames until the last second.
    before: (Span, u64),
    /// What one cost on average in seconds in which there were many, the last of those.
    seconds: VecDeque<Span>,
}

/// The kinds of ports.
#[derive(Clone, Copy)]
enum Kind {
    Container,
    Machine,
    Far,
}

/// How many frames are many: visits were not for one frame alone then.
const MANY: u64 = 5_000;

/// From so many seconds on they are believed, and so many are remembered.
const SECONDS: (usize, usize) = (8, 64);

impl Cost {
    const fn new(start: Span) -> Self {
        Self { start, before: (Span::ZERO, 0), seconds: VecDeque::new() }
    }

    /// So much time was used and so many frames were moved until now.
    fn note(&mut self, used: Span, frames: u64) {
        let before = mem::replace(&mut self.before, (used, frames));
        // Where a port has gone there are less than before.
        if let (Some(used), Some(frames @ MANY..)) =
            (used.as_nanos().checked_sub(before.0.as_nanos()), frames.checked_sub(before.1))
        {
            self.seconds.push_front(Span::from_nanos(used / frames));
            self.seconds.truncate(SECONDS.1);
        }
    }

    /// What half of those seconds were below.
    fn median(&self) -> Span {
        if self.seconds.len() < SECONDS.0 {
            return self.start;
        }
        let mut sorted: Vec<_> = self.seconds.iter().copied().collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}

impl ThreadShares {
    pub(super) fn new(frame: FrameCost) -> Self {
        Self {
            shares: BTreeMap::new(),
            promise: Promise::default(),
            frame,
            // As measured of 64 bytes on a machine of 2020, with what they cost both ports.
            costs: [Span::from_micros(3), Span::from_nanos(150), Span::from_micros(2)]
                .map(Cost::new),
            terms: None,
            samples: Default::default(),
            longest: Sample::default(),
        }
    }

    /// Networks have these terms from now on: together they are promised so much.
    pub(super) fn set(&mut self, shares: BTreeMap<NetworkName, NetworkShare>, promise: Promise) {
        (self.shares, self.promise) = (shares, promise);
    }

    /// Has terms hold for the networks that have a port here.
    pub(super) fn enforce(
        &mut self,
        plane: &mut HostPlane,
        numbers: &Numbers,
        attached: &[Attached],
    ) {
        let here: BTreeSet<_> = attached.iter().filter_map(|it| owner(&it.spec)).collect();
        let here = || numbers.iter().filter(|(name, _)| here.contains(name));
        let frame = self.frame.get();
        let min = |share: &NetworkShare| {
            Span::from_nanos(u64::from(share.min_packets.unwrap_or(0)) * frame.as_nanos())
        };
        let share = |name| self.shares.get(name).copied().unwrap_or_default();
        let sum: u64 = here().map(|(name, _)| min(&share(name)).as_nanos()).sum();
        // What a frame to a container costs is the container's doing: so one network could take all
        // of the thread from another. Frames of machines cost little, whatever they do.
        let are_dear =
            || attached.iter().any(|it| !matches!(plane.device(it.id), Device::Vhost(_)));
        let owners: BTreeSet<_> = attached.iter().map(|it| owner(&it.spec)).collect();
        let is_shared = sum > 0 || owners.len() > 1 && are_dear();
        let mut terms = Vec::new();
        for (name, network) in here() {
            let share = share(name);
            let place = usize::from(network.number());
            if place >= terms.len() {
                terms.resize(place + 1, ThreadTerms::default());
            }
            // Frames may have become dearer since they were promised.
            let fits = u128::from(MOST.as_nanos().min(sum)) * u128::from(min(&share).as_nanos());
            let min = Span::from_nanos((fits / u128::from(sum.max(1))) as u64);
            let hundredths = u16::try_from(min.as_nanos() / 10_000_000).unwrap_or(u16::MAX);
            let weight = NonZeroU16::new(share.weight.unwrap_or(hundredths));
            terms[place] = ThreadTerms { min, weight: weight.unwrap_or(NonZeroU16::MIN) };
        }
        let terms = is_shared.then_some(terms);
        if terms != self.terms {
            plane.share_thread(terms.clone());
            self.terms = terms;
        }
    }

    /// Once a second: what everybody has had in it, and what frames cost. Whether terms are to be
    /// [enforced](Self::enforce) anew, as they cost otherwise.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        plane: &mut HostPlane,
        attached: &[Attached],
    ) -> bool {
        if now.since(self.samples[1].at) < SECOND {
            return false;
        }
        let sample = Sample::take(now, plane);
        self.samples.rotate_left(1);
        self.samples[1] = sample;
        if now.since(self.longest.at) >= LONG {
            self.longest = Sample::take(now, plane);
            plane.forget_longest();
        }
        let dearest = self.dearest(plane, attached);
        let before = self.frame.get();
        // A little more or less is no news.
        let is_news = before.as_nanos().abs_diff(dearest.as_nanos()) > before.as_nanos() / 20;
        if is_news {
            self.frame.set(dearest);
        }
        is_news
    }

    /// What a frame costs by the dearest kind of port that is there.
    fn dearest(&mut self, plane: &HostPlane, attached: &[Attached]) -> Span {
        let mut sums = [(Span::ZERO, 0); 3];
        let mut are_there = [false, false, plane.uplink().is_some()];
        for port in attached {
            let kind = match plane.device(port.id) {
                Device::Tap(_) | Device::Nic(_) | Device::Turn(_) | Device::Away => Kind::Container,
                Device::Vhost(_) => Kind::Machine,
            };
            let sum = &mut sums[kind as usize];
            sum.0 += plane.port_use(port.id);
            sum.1 += plane.frames_moved(port.id);
            are_there[kind as usize] = true;
        }
        // Each frame went by two ports.
        for kind in [Kind::Container, Kind::Machine] {
            sums[kind as usize].1 /= 2;
        }
        sums[Kind::Far as usize] = plane.far_use();
        for (cost, (used, frames)) in self.costs.iter_mut().zip(sums) {
            cost.note(used, frames);
        }
        let there = self.costs.iter().zip(are_there).filter(|(_, is_there)| *is_there);
        let dearest = there.map(|(cost, _)| cost.median()).max();
        dearest.unwrap_or(self.costs[Kind::Container as usize].start)
    }

    /// The thread at this moment.
    pub(super) fn now<'a>(&'a self, now: Instant, plane: &HostPlane) -> ThreadNow<'a> {
        ThreadNow {
            shares: self,
            uses: Sample::take(now, plane),
            shared: plane.is_thread_shared(),
            short: plane.thread_short(),
        }
    }
}

/// The thread at one moment.
pub(super) struct ThreadNow<'a> {
    shares: &'a ThreadShares,
    uses: Sample,
    shared: bool,
    short: Span,
}

impl ThreadNow<'_> {
    /// What was promised of it, and what was no network's.
    pub(super) fn status(&self) -> ThreadStatus {
        ThreadStatus {
            shared: self.shared,
            promised: self.shares.promise.thread,
            frame: self.shares.frame.get(),
            short: self.short,
            control: self.told(None),
            others: self.told(Some(Network::default())),
        }
    }

    /// What a network has had.
    pub(super) fn of(&self, network: Network, name: &NetworkName) -> ThreadUse {
        let min_packets = self.shares.shares.get(name).and_then(|share| share.min_packets);
        ThreadUse { min_packets, ..self.told(Some(network)) }
    }

    /// What a network has had; control, if it is none's.
    fn told(&self, whose: Option<Network>) -> ThreadUse {
        let Self { shares: ThreadShares { samples: [before, last], longest, .. }, uses, .. } = self;
        let used = uses.of(whose);
        let (from, to) = match uses.at.since(last.at) >= SECOND {
            true => (last, uses),
            false => (before, last),
        };
        let ns = u128::from(to.at.since(from.at).as_nanos().max(1));
        let per_second = |value: fn(plane::ThreadUse) -> u64| {
            let grown = value(to.of(whose)).saturating_sub(value(from.of(whose)));
            u64::try_from(u128::from(grown) * 1_000_000_000 / ns).unwrap_or(u64::MAX)
        };
        ThreadUse {
            min_packets: None,
            used_ns: used.used.as_nanos(),
            used_ns_per_second: per_second(|it| it.used.as_nanos()),
            frames: used.frames,
            frames_per_second: per_second(|it| it.frames),
            longest_visit_us: used
                .longest
                .max(longest.of(whose).longest)
                .as_nanos()
                .div_ceil(1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frames_cost_is_believed_once_many_were_seen() {
        let mut cost = Cost::new(Span::from_micros(3));
        let (mut used, mut frames) = (Span::ZERO, 0);
        let mut second = |cost: &mut Cost, many, each| {
            frames += many;
            used += Span::from_nanos(many * each);
            cost.note(used, frames);
        };
        (0..100).for_each(|_| second(&mut cost, 100, 50_000));
        assert_eq!(cost.median(), Span::from_micros(3), "few come one by one");
        (0..7).for_each(|_| second(&mut cost, 10_000, 2_000));
        assert_eq!(cost.median(), Span::from_micros(3));
        (0..5).for_each(|_| second(&mut cost, 10_000, 9_000));
        assert_eq!(cost.median(), Span::from_micros(2));
        (0..64).for_each(|_| second(&mut cost, 10_000, 4_000));
        assert_eq!((cost.median(), cost.seconds.len()), (Span::from_micros(4), 64));
        // A port has gone.
        cost.note(Span::ZERO, 0);
        cost.note(Span::from_micros(1), 10_000);
        assert_eq!(cost.median(), Span::from_micros(4));
    }
}

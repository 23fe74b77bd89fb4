//! By which of several ways to a host frames go.
//!
//! Ways that work are better than those of which nobody knows, and by one that was found cut nothing goes. Among those that are
//! alike a number chooses, by the highest random weight (Thaler and Ravishankar, 1998): a way that is cut moves nothing but what
//! went by it, and takes nothing else when it is back.
//!
//! A session goes by one way at a time, chosen by the pair of hosts: packets that overtake each other look lost. Both hosts choose
//! the same. Frames without a session are spread by their flows.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use underlay::Underlay;
use units::Instant;

use super::{Liveness, Trunk, way_to};

/// A way to a far host: from an address of ours to one of its.
#[derive(Clone)]
pub struct Way {
    /// Where packets are sent from.
    pub underlay: Rc<RefCell<Underlay>>,
    /// Where to.
    pub far: IpAddr,
}

/// All ways to a far host, by the uplinks that they begin at; there is one at least.
pub struct Ways(Vec<(Way, Liveness)>);

impl Ways {
    /// Ways of which nothing is known.
    pub fn new(ways: Vec<Way>) -> Self {
        Self(ways.into_iter().map(|way| (way, Liveness::default())).collect())
    }

    /// The way at this place.
    pub fn get(&self, place: usize) -> &Way {
        &self.0[place].0
    }

    /// Where the way is that this number chooses.
    pub fn of(&self, number: u32) -> usize {
        choose(self.0.iter().map(|(_, liveness)| *liveness), number)
    }

    /// Whether the far host may begin anew by any: it does not have to speak BFD.
    pub fn begin_anew(&mut self) {
        self.0.iter_mut().for_each(|(_, liveness)| *liveness = liveness.begun_anew());
    }

    /// That of the best.
    fn liveness(&self) -> Liveness {
        self.0.iter().map(|(_, liveness)| *liveness).max().unwrap_or_default()
    }
}

/// Of the best places, the one that weighs most for a number.
fn choose(livenesses: impl ExactSizeIterator<Item = Liveness>, number: u32) -> usize {
    if livenesses.len() == 1 {
        return 0;
    }
    let weighed = livenesses.enumerate().map(|(place, liveness)| ((liveness, weight(number, place)), place));
    weighed.max().map_or(0, |(_, place)| place)
}

/// What a place weighs for a number: as good as random, and always the same.
fn weight(number: u32, place: usize) -> u64 {
    // SplitMix64's finalizer (Steele, Lea and Flood, 2014).
    let mixed = u64::from(number) << 32 | place as u64;
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number for two hosts, the same whichever of them asks.
pub fn pair([one, other]: [IpAddr; 2]) -> u32 {
    way_to(one).wrapping_add(way_to(other))
}

impl Trunk {
    /// What is known of the best way there.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// The far end of each way, and whether frames go by it now.
    pub fn ways(&self) -> impl Iterator<Item = (IpAddr, bool)> {
        let is_used = |place, liveness| {
            let is_best = liveness == self.liveness && liveness != Liveness::Down;
            is_best && (self.session.is_none() || place == self.way)
        };
        let ways = self.ways.0.iter().enumerate();
        ways.map(move |(place, (way, liveness))| (way.far, is_used(place, *liveness)))
    }

    /// Has the trunk lead to the far host by these ways from now on, with payloads of datagrams of so many bytes at most, if that is
    /// known. What is known of those that it has already is kept.
    pub fn lead(&mut self, now: Instant, ways: Vec<Way>, most: Option<usize>) {
        let old = std::mem::replace(&mut self.ways, Ways::new(ways));
        for ((way, liveness), (old, known)) in self.ways.0.iter_mut().zip(old.0) {
            if way.far == old.far {
                *liveness = known;
            }
        }
        self.config.most = most.unwrap_or(self.config.most);
        let best = self.ways.of(self.config.pair);
        self.go_by(now, best, self.ways.get(best).far != self.config.far);
    }

    /// BFD has found that the way at this place works, or not: [`Liveness::found`]. [`settle`](Self::settle) has frames go by it.
    pub fn found(&mut self, place: usize, works: Option<bool>) {
        // Those that are watched may be those of before.
        if let Some((_, liveness)) = self.ways.0.get_mut(place) {
            *liveness = liveness.found(works);
        }
    }

    /// Has frames go by the best way, now that all is told that was found. What was underway by one that does not work is sent again at
    /// once.
    pub fn settle(&mut self, now: Instant) {
        let was_down = self.liveness == Liveness::Down;
        self.liveness = self.ways.liveness();
        let best = self.ways.of(self.config.pair);
        let (_, left) = self.ways.0[self.way];
        if self.liveness != Liveness::Down && (was_down || best != self.way) {
            self.go_by(now, best, was_down || left != Liveness::Up);
        }
    }

    /// Has the session go by a way. What is underway may not come, if `is_cut`.
    fn go_by(&mut self, now: Instant, place: usize, is_cut: bool) {
        let Way { underlay, far } = self.ways.get(place).clone();
        (self.way, self.underlay, self.config.far) = (place, underlay, far);
        if let Some(session) = self.session.as_mut().filter(|_| is_cut) {
            session.change_path(now);
        }
    }

    /// The classes, a bit each, of which nothing may be sent, if `silent` says it of the uplink at each place: those of the session's
    /// way, or of any that frames without a session may go by.
    pub fn silence(&self, silent: impl Fn(usize) -> u8) -> u8 {
        let used = self.ways().enumerate().filter(|(_, (_, is_used))| *is_used);
        used.fold(0, |classes, (place, _)| classes | silent(place))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tunnel::outer::Encapsulation;
    use tunnel::{Incarnation, SessionConfig};
    use underlay::Transport;

    use super::*;
    use crate::pump::trunk::TrunkConfig;
    use crate::pump::trunk::tests::session;

    fn liveness() -> impl Strategy<Value = Liveness> {
        prop_oneof![Just(Liveness::Down), Just(Liveness::Unknown), Just(Liveness::Up)]
    }

    proptest! {
        #[test]
        fn the_best_is_chosen_and_a_cut_moves_nothing_else(
            mut ways in vec(liveness(), 1..8), number: u32, changed: proptest::sample::Index,
        ) {
            let chosen = |ways: &[Liveness]| choose(ways.iter().copied(), number);
            let before = chosen(&ways);
            prop_assert_eq!(Some(ways[before]), ways.iter().copied().max());
            // One that is cut, and was not chosen, changes nothing; nor does its coming back.
            let place = changed.index(ways.len());
            let was = std::mem::replace(&mut ways[place], Liveness::Down);
            prop_assert!(place == before || chosen(&ways) == before);
            ways[place] = was;
            prop_assert_eq!(chosen(&ways), before);
        }

        #[test]
        fn two_hosts_choose_alike(one: [u8; 4], other: [u8; 16]) {
            let (one, other) = (IpAddr::from(one), IpAddr::from(other));
            prop_assert_eq!(pair([one, other]), pair([other, one]));
        }
    }

    const NOW: Instant = Instant::ZERO;

    /// A way to this place of a far host.
    fn way(place: u8) -> Way {
        let underlay = Underlay::open([127, 0, 0, 1].into(), Transport::Udp(0), 64).unwrap();
        Way { underlay: Rc::new(RefCell::new(underlay)), far: [192, 0, place, 2].into() }
    }

    /// A trunk with two ways, both of which work.
    fn trunk(session: Option<SessionConfig>) -> Trunk {
        let host = IpAddr::from([192, 0, 0, 2]);
        let (encapsulation, life) = (Encapsulation::Geneve, Incarnation(std::num::NonZeroU32::MIN));
        let config = TrunkConfig {
            host,
            far: host,
            pair: 1,
            encapsulation,
            session,
            life,
            most: 1400,
            dscp: None,
            obeys_pauses: false,
        };
        let mut trunk = Trunk::new(NOW, config, vec![way(0), way(1)]);
        [0, 1].into_iter().for_each(|place| trunk.found(place, Some(true)));
        trunk.settle(NOW);
        trunk
    }

    fn used(trunk: &Trunk) -> Vec<usize> {
        let used = trunk.ways().enumerate().filter(|(_, (_, is_used))| *is_used);
        used.map(|(place, _)| place).collect()
    }

    /// The uplinks, a bit each, whose silence the trunk obeys.
    fn obeyed(trunk: &Trunk) -> u8 {
        trunk.silence(|place| 1 << place)
    }

    #[test]
    fn a_session_goes_by_one_way_and_obeys_the_silence_of_that_alone() {
        if !needs::root() {
            return;
        }
        let mut trunk = trunk(Some(session()));
        let [first] = used(&trunk)[..] else { panic!("it goes by one") };
        assert_eq!(obeyed(&trunk), 1 << first);
        trunk.found(first, Some(false));
        trunk.settle(NOW);
        assert_eq!((used(&trunk), obeyed(&trunk)), (vec![1 - first], 2 >> first));
        trunk.found(1 - first, Some(false));
        trunk.settle(NOW);
        assert_eq!((used(&trunk), obeyed(&trunk), trunk.liveness()), (vec![], 0, Liveness::Down));
        trunk.found(first, Some(true));
        trunk.settle(NOW);
        assert_eq!((used(&trunk), trunk.liveness()), (vec![first], Liveness::Up));
    }

    #[test]
    fn frames_without_a_session_go_by_all_ways_that_work_and_obey_the_silence_of_each() {
        if !needs::root() {
            return;
        }
        let mut trunk = trunk(None);
        assert_eq!((used(&trunk), obeyed(&trunk)), (vec![0, 1], 0b11));
        trunk.found(0, Some(false));
        trunk.settle(NOW);
        assert_eq!((used(&trunk), obeyed(&trunk)), (vec![1], 0b10));
    }

    #[test]
    fn what_is_known_of_a_way_is_kept_when_others_are_declared() {
        if !needs::root() {
            return;
        }
        let mut trunk = trunk(Some(session()));
        let [first] = used(&trunk)[..] else { panic!("it goes by one") };
        trunk.found(first, Some(false));
        trunk.lead(NOW, vec![way(0), way(1), way(2)], Some(1300));
        trunk.settle(NOW);
        assert_eq!(used(&trunk), [1 - first], "of the third nothing is known");
        trunk.lead(NOW, vec![way(3)], None);
        trunk.settle(NOW);
        assert_eq!((used(&trunk), trunk.liveness()), (vec![0], Liveness::Unknown));
    }

    #[test]
    fn pairs_of_hosts_are_spread_over_their_ways() {
        let mut counts = [0; 4];
        for host in 0..=u8::MAX {
            let hosts = [[192, 0, 2, 1], [192, 0, 2, host]].map(IpAddr::from);
            counts[choose([Liveness::Up; 4].into_iter(), pair(hosts))] += 1;
        }
        assert!(counts.iter().all(|count| (40..90).contains(count)), "{counts:?}");
    }
}

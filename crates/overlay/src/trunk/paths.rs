//! Which of several paths to a host frames take.
//!
//! A path that works is better than one of unknown state, and nothing goes by a path that was found
//! down. Among equals a number decides, by the highest random weight (Thaler and Ravishankar,
//! 1998): a path that goes down moves only what went by it, and takes nothing else when it comes
//! back.
//!
//! A session uses one path at a time, because packets that overtake each other look lost. The pair
//! of hosts decides which, so that both choose the same. Frames without a session are spread by
//! their flows.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use underlay::Underlay;

use super::config::host_hash;
use super::liveness::Liveness;

/// A path to a far host: from an address of this host to one of its.
#[derive(Clone)]
pub struct Path {
    /// Sends packets from this host's address.
    pub underlay: Rc<RefCell<Underlay>>,
    /// The far host's address.
    pub far: IpAddr,
}

/// All paths to a far host, in the order of the uplinks at which they begin. There is at least one.
pub struct Paths(pub(super) Vec<(Path, Liveness)>);

impl Paths {
    /// Paths of unknown state.
    pub fn new(paths: Vec<Path>) -> Self {
        Self(paths.into_iter().map(|path| (path, Liveness::default())).collect())
    }

    /// The path at this place.
    pub fn get(&self, place: usize) -> &Path {
        &self.0[place].0
    }

    /// The place of the path that this number chooses.
    pub fn of(&self, number: u32) -> usize {
        choose(self.0.iter().map(|(_, liveness)| *liveness), number)
    }

    /// The far host has restarted, perhaps without BFD: no path counts as down any more.
    pub fn begin_anew(&mut self) {
        self.0.iter_mut().for_each(|(_, liveness)| *liveness = liveness.begun_anew());
    }

    /// The state of the best path.
    pub(super) fn liveness(&self) -> Liveness {
        self.0.iter().map(|(_, liveness)| *liveness).max().unwrap_or_default()
    }
}

/// Of the best places, the one that weighs most for a number.
fn choose(livenesses: impl ExactSizeIterator<Item = Liveness>, number: u32) -> usize {
    if livenesses.len() == 1 {
        return 0;
    }
    let weighed =
        livenesses.enumerate().map(|(place, liveness)| ((liveness, weight(number, place)), place));
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
    host_hash(one).wrapping_add(host_hash(other))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn liveness() -> impl Strategy<Value = Liveness> {
        prop_oneof![Just(Liveness::Down), Just(Liveness::Unknown), Just(Liveness::Up)]
    }

    proptest! {
        #[test]
        fn the_best_is_chosen_and_a_cut_moves_nothing_else(
            mut paths in vec(liveness(), 1..8), number: u32, changed: proptest::sample::Index,
        ) {
            let chosen = |paths: &[Liveness]| choose(paths.iter().copied(), number);
            let before = chosen(&paths);
            prop_assert_eq!(Some(paths[before]), paths.iter().copied().max());
            // One that is cut, and was not chosen, changes nothing; nor does its coming back.
            let place = changed.index(paths.len());
            let was = std::mem::replace(&mut paths[place], Liveness::Down);
            prop_assert!(place == before || chosen(&paths) == before);
            paths[place] = was;
            prop_assert_eq!(chosen(&paths), before);
        }

        #[test]
        fn two_hosts_choose_alike(one: [u8; 4], other: [u8; 16]) {
            let (one, other) = (IpAddr::from(one), IpAddr::from(other));
            prop_assert_eq!(pair([one, other]), pair([other, one]));
        }
    }

    #[test]
    fn pairs_of_hosts_are_spread_over_their_paths() {
        let mut counts = [0; 4];
        for host in 0..=u8::MAX {
            let hosts = [[192, 0, 2, 1], [192, 0, 2, host]].map(IpAddr::from);
            counts[choose([Liveness::Up; 4].into_iter(), pair(hosts))] += 1;
        }
        assert!(counts.iter().all(|count| (40..90).contains(count)), "{counts:?}");
    }
}

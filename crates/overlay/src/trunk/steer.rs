//! Has a trunk use the paths that work.

use std::net::IpAddr;

use units::Instant;

use super::liveness::Liveness;
use super::paths::{Path, Paths};
use super::state::Trunk;

impl Trunk {
    /// The state of the best path.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// The far end of each path, and whether frames use it now.
    pub fn paths(&self) -> impl Iterator<Item = (IpAddr, bool)> {
        let is_used = |place, liveness| {
            let is_best = liveness == self.liveness && liveness != Liveness::Down;
            is_best && (self.session.is_none() || place == self.path)
        };
        let paths = self.paths.0.iter().enumerate();
        paths.map(move |(place, (path, liveness))| (path.far, is_used(place, *liveness)))
    }

    /// Replaces the paths to the far host, and the longest payload of a datagram, in bytes, if that
    /// is known. What is known of a path that stays is kept.
    pub fn set_paths(&mut self, now: Instant, paths: Vec<Path>, most: Option<usize>) {
        let old = std::mem::replace(&mut self.paths, Paths::new(paths));
        for ((path, liveness), (old, known)) in self.paths.0.iter_mut().zip(old.0) {
            if path.far == old.far {
                *liveness = known;
            }
        }
        self.has_changed = true;
        self.config.most = most.unwrap_or(self.config.most);
        let best = self.paths.of(self.config.pair);
        self.use_path(now, best, self.paths.get(best).far != self.config.far);
    }

    /// BFD has found that the path at this place works, or not. Takes effect
    /// by [`settle`](Self::settle). Returns whether that is news.
    pub fn found(&mut self, place: usize, works: Option<bool>) -> bool {
        // BFD may still report on paths that were replaced.
        let Some((_, liveness)) = self.paths.0.get_mut(place) else { return false };
        let found = liveness.found(works);
        std::mem::replace(liveness, found) != found
    }

    /// Switches to the best path, once all findings are in. What was in flight by a path that does
    /// not work is retransmitted at once.
    pub fn settle(&mut self, now: Instant) -> bool {
        self.has_changed = true;
        let was_down = self.liveness == Liveness::Down;
        self.liveness = self.paths.liveness();
        let best = self.paths.of(self.config.pair);
        let (_, left) = self.paths.0[self.path];
        if self.liveness != Liveness::Down && (was_down || best != self.path) {
            let before = self.path;
            self.use_path(now, best, was_down || left != Liveness::Up);
            return best != before;
        }
        false
    }

    /// Has the session use a path. What is in flight may not arrive, if `is_cut`.
    fn use_path(&mut self, now: Instant, place: usize, is_cut: bool) {
        let Path { underlay, far } = self.paths.get(place).clone();
        (self.path, self.underlay, self.config.far) = (place, underlay, far);
        if let Some(session) = self.session.as_mut().filter(|_| is_cut) {
            session.change_path(now);
        }
    }

    /// The bit mask of classes of which nothing may be sent, if `paused` gives that of the uplink
    /// at each place: those of the session's path, or of any path that frames without a session may
    /// use.
    pub fn paused_by(&self, paused: impl Fn(usize) -> u8) -> u8 {
        let used = self.paths().enumerate().filter(|(_, (_, is_used))| *is_used);
        used.fold(0, |classes, (place, _)| classes | paused(place))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use datapath::Peer;
    use tunnel::SessionConfig;
    use tunnel::outer::Encapsulation;
    use underlay::{Transport, Underlay};

    use super::*;
    use crate::slots::Owner;
    use crate::trunk::TrunkConfig;
    use crate::trunk::tests::session;

    const NOW: Instant = Instant::ZERO;

    /// A path to this place of a far host.
    fn path(place: u8) -> Path {
        let underlay = Underlay::open([127, 0, 0, 1].into(), Transport::Udp(0), 64).unwrap();
        Path { underlay: Rc::new(RefCell::new(underlay)), far: [192, 0, place, 2].into() }
    }

    /// A trunk with two paths, both of which work.
    fn trunk(session: Option<SessionConfig>) -> Trunk {
        let host = IpAddr::from([192, 0, 0, 2]);
        let config = TrunkConfig {
            host,
            far: host,
            pair: 1,
            encapsulation: Encapsulation::Geneve,
            session,
            seed: 1,
            most: 1400,
            dscp: None,
            obeys_pauses: false,
        };
        let owner = Owner { peer: Peer::new(0).unwrap(), serial: 1 };
        let mut trunk = Trunk::new(NOW, owner, config, None, vec![path(0), path(1)]);
        assert!([0, 1].into_iter().all(|place| trunk.found(place, Some(true))));
        trunk.settle(NOW);
        trunk
    }

    fn used(trunk: &Trunk) -> Vec<usize> {
        let used = trunk.paths().enumerate().filter(|(_, (_, is_used))| *is_used);
        used.map(|(place, _)| place).collect()
    }

    /// The uplinks, a bit each, whose pauses the trunk obeys.
    fn obeyed(trunk: &Trunk) -> u8 {
        trunk.paused_by(|place| 1 << place)
    }

    #[test]
    fn a_session_uses_one_path_and_obeys_the_pauses_of_that_alone() {
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
    fn frames_without_a_session_use_all_paths_that_work_and_obey_the_pauses_of_each() {
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
    fn what_is_known_of_a_path_is_kept_when_others_are_declared() {
        if !needs::root() {
            return;
        }
        let mut trunk = trunk(Some(session()));
        let [first] = used(&trunk)[..] else { panic!("it goes by one") };
        trunk.found(first, Some(false));
        trunk.set_paths(NOW, vec![path(0), path(1), path(2)], Some(1300));
        trunk.settle(NOW);
        assert_eq!(used(&trunk), [1 - first], "of the third nothing is known");
        trunk.set_paths(NOW, vec![path(3)], None);
        trunk.settle(NOW);
        assert_eq!((used(&trunk), trunk.liveness()), (vec![0], Liveness::Unknown));
    }
}

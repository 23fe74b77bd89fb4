//! By which neighbours flows came into routers whose routes lead back the same way.
//!
//! A router of which any route is symmetric is at one host, as those that translate are: so that
//! host sees both directions. How long a flow is remembered is how long a translation is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::Identity;
use packet::Tuple;
use units::{Instant, Span};
use wire::ip::protocol;

/// Of how many flows a router remembers where they came from. One more, and that which would be
/// forgotten first is.
const MOST: usize = 1 << 14;

/// A router's port, and a neighbour behind it.
pub type Path = (Identity, IpAddr);

/// How long it is remembered where a flow came from, without a packet.
fn patience(tuple: Tuple) -> Span {
    Span::from_secs(if tuple.protocol == protocol::TCP { 432_000 } else { 180 })
}

/// The flows of routers.
#[derive(Clone, Debug, Default)]
pub struct Paths(BTreeMap<Identity, Flows>);

#[derive(Clone, Debug, Default)]
struct Flows {
    paths: BTreeMap<Tuple, (Path, Instant)>,
    /// The same by when they are forgotten.
    ends: BTreeSet<(Instant, Tuple)>,
}

impl Paths {
    /// Where a flow of a router came from.
    pub fn get(&self, router: &Identity, tuple: Tuple, now: Instant) -> Option<&Path> {
        let (path, until) = self.0.get(router)?.paths.get(&tuple)?;
        (*until > now).then_some(path)
    }

    /// A packet of a flow has come from there.
    pub fn note(&mut self, router: &Identity, tuple: Tuple, path: Path, now: Instant) {
        if !self.0.contains_key(router) {
            self.0.insert(router.clone(), Flows::default());
        }
        let Some(Flows { paths, ends }) = self.0.get_mut(router) else { return };
        let until = now + patience(tuple);
        if let Some((_, before)) = paths.insert(tuple, (path, until)) {
            ends.remove(&(before, tuple));
        }
        ends.insert((until, tuple));
        if ends.len() > MOST
            && let Some((_, first)) = ends.pop_first()
        {
            paths.remove(&first);
        }
    }

    /// All flows of a router: which, from where, and until when that is known.
    pub fn of(&self, router: &Identity) -> Vec<(Tuple, Path, Instant)> {
        let all = self.0.get(router).into_iter().flat_map(|it| &it.paths);
        all.map(|(flow, (path, until))| (*flow, path.clone(), *until)).collect()
    }

    /// These are all flows of a router.
    pub fn replace(
        &mut self,
        router: &Identity,
        all: impl Iterator<Item = (Tuple, Path, Instant)>,
    ) {
        self.0.remove(router);
        let mut flows = Flows::default();
        for (flow, path, until) in all.take(MOST) {
            if let Some((_, before)) = flows.paths.insert(flow, (path, until)) {
                flows.ends.remove(&(before, flow));
            }
            flows.ends.insert((until, flow));
        }
        if !flows.paths.is_empty() {
            self.0.insert(router.clone(), flows);
        }
    }

    /// Forgets flows of which no packet has come for long.
    pub fn expire(&mut self, now: Instant) {
        for Flows { paths, ends } in self.0.values_mut() {
            while ends.first().is_some_and(|(until, _)| *until <= now)
                && let Some((_, flow)) = ends.pop_first()
            {
                paths.remove(&flow);
            }
        }
        self.0.retain(|_, flows| !flows.paths.is_empty());
    }

    /// Forgets flows of routers that are here no longer.
    pub fn retain(&mut self, mut is_here: impl FnMut(&Identity) -> bool) {
        self.0.retain(|router, _| is_here(router));
    }
}

#[cfg(test)]
mod tests {
    use logical::objects::Kind;

    use super::*;

    fn named(kind: Kind, name: &str) -> Identity {
        Identity { kind, tenant: None, name: name.parse().unwrap() }
    }

    fn flow(number: u32) -> Tuple {
        let address = |it: u32| (IpAddr::from(it.to_be_bytes()), 53);
        Tuple { protocol: protocol::UDP, source: address(number), destination: address(0) }
    }

    #[test]
    fn a_router_forgets_first_what_was_silent_longest_and_nothing_of_others() {
        let mut paths = Paths::default();
        let (r, s) = (named(Kind::LogicalRouter, "r"), named(Kind::LogicalRouter, "s"));
        let path = |it: u8| (named(Kind::RouterPort, "out"), IpAddr::from([10, 0, 0, it]));
        let begin = Instant::from_nanos(1);
        let at = |number: u32| begin + Span::from_millis(number.into());
        paths.note(&s, flow(0), path(9), begin);
        for number in 0..MOST as u32 {
            paths.note(&r, flow(number), path(1), at(number));
        }
        let now = at(MOST as u32);
        // The first comes again, from elsewhere, so the second is the eldest.
        paths.note(&r, flow(0), path(2), now);
        paths.note(&r, flow(MOST as u32), path(1), now);
        assert_eq!(paths.get(&r, flow(0), now), Some(&path(2)));
        assert_eq!(paths.get(&r, flow(1), now), None);
        assert_eq!(paths.get(&r, flow(2), now), Some(&path(1)));
        assert_eq!(paths.get(&s, flow(0), now), Some(&path(9)));
        let later = now + Span::from_secs(180);
        assert_eq!(paths.get(&r, flow(0), later), None);
        paths.expire(later);
        assert!(paths.0.is_empty());
    }
}

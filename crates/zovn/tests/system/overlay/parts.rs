//! The parts that two networks have of the first host's uplink while both send as much as they can.

use model::{NetworkShareStatus, SharingStatus};

use super::world::World;
use crate::common::until;

/// How the first host's uplink is shared.
pub fn sharing(world: &World) -> SharingStatus {
    world.status(0).uplink.unwrap().sharing.expect("the uplink has a rate")
}

/// What a network has had of the first host's uplink.
pub fn had(world: &World, network: &str) -> NetworkShareStatus {
    let networks = sharing(world).networks;
    networks.into_iter().find(|it| it.network.0 == network).expect("it is declared")
}

/// The part of what both send that the first of two networks has: the median of five spans.
pub fn part(world: &World, networks: [&str; 2]) -> f64 {
    // Not evidence: a span in which one network's senders found no processor and left it to others.
    let spans = std::iter::repeat_with(|| once(world, networks)).take(60);
    let mut parts: Vec<f64> = spans.flatten().take(5).collect();
    assert_eq!(parts.len(), 5, "senders of both networks had a processor in so many spans of 60");
    parts.sort_unstable_by(f64::total_cmp);
    parts[2]
}

/// The same of a span of a fifth of a second, at a hundred megabits, if both networks had frames
/// to send nearly all the time.
fn once(world: &World, networks: [&str; 2]) -> Option<f64> {
    let both = || networks.map(|network| had(world, network));
    let sent = |both: &[NetworkShareStatus; 2]| both.each_ref().map(|it| it.sent_bytes);
    let before = both();
    let mut after = before.clone();
    until(|| {
        after = both();
        sent(&after).iter().sum::<u64>() > sent(&before).iter().sum::<u64>() + 2_500_000
    });
    let [first, second] = [0, 1].map(|at| (sent(&after)[at] - sent(&before)[at]) as f64);
    let backlogged =
        [0, 1].map(|at| after[at].backlogged.as_nanos() - before[at].backlogged.as_nanos());
    let [less, more] = [backlogged.iter().min()?, backlogged.iter().max()?];
    (less * 20 > more * 19).then_some(first / (first + second))
}

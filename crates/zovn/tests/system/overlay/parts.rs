//! What some have of the first host's uplink while all send as much as they can.

use model::{AgentStatus, NetworkShareStatus, SharingStatus};

use super::world::World;
use crate::common::until;

/// What one had of the uplink in a span.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The part of what was sent.
    pub of_all: f64,
    /// In megabits a second of the host's own time.
    pub mbits: f64,
}

impl Part {
    /// Of what all have been sent by two moments, in bytes, that of the first; and these moments in
    /// nanoseconds.
    pub fn of_first(sent: [&[u64]; 2], at: [u64; 2]) -> Part {
        let [before, after] = sent;
        let all = (after.iter().sum::<u64>() - before.iter().sum::<u64>()) as f64;
        let own = (after[0] - before[0]) as f64;
        Part { of_all: own / all, mbits: own * 8e3 / (at[1] - at[0]) as f64 }
    }

    /// Whether it is kept to 20 of 99 megabits. Where the switch found no processor, the uplink had
    /// less to share, and that is a larger part of it.
    pub fn is_20_of_99_at_most(self) -> bool {
        self.of_all > 0.17 && self.mbits < 23.0
    }
}

/// How the first host's uplink is shared.
pub fn sharing(world: &World) -> SharingStatus {
    shared(world.status(0))
}

/// How the host of this status has its uplink shared.
pub fn shared(status: AgentStatus) -> SharingStatus {
    status.uplink.unwrap().sharing.expect("the uplink has a rate")
}

/// What a network has had of the first host's uplink.
pub fn had(world: &World, network: &str) -> NetworkShareStatus {
    of_network(sharing(world), network)
}

/// What a network has had of it.
pub fn of_network(sharing: SharingStatus, network: &str) -> NetworkShareStatus {
    let mut networks = sharing.networks.into_iter();
    networks.find(|it| it.network.0 == network).expect("it is declared")
}

/// The median of five spans.
pub fn median(once: impl FnMut() -> Option<Part>) -> Part {
    // Not evidence: a span in which a sender found no processor and left its part to others.
    let mut parts: Vec<Part> = std::iter::repeat_with(once).take(60).flatten().take(5).collect();
    assert_eq!(parts.len(), 5, "all senders had a processor in so many spans of 60");
    parts.sort_unstable_by(|a, b| a.of_all.total_cmp(&b.of_all));
    parts[2]
}

/// What the first of two networks has.
pub fn of_networks(world: &World, networks: [&str; 2]) -> Part {
    median(|| once(world, networks))
}

/// The same of a span of a fifth of a second, at a hundred megabits, if both networks had frames
/// to send nearly all the time.
fn once(world: &World, networks: [&str; 2]) -> Option<Part> {
    // When, and by network how much it was sent and for how many nanoseconds it had frames.
    let look = || {
        let status = world.status(0);
        let (at, sharing) = (status.uptime_ns, shared(status));
        let both = networks.map(|network| of_network(sharing.clone(), network));
        (at, both.each_ref().map(|it| it.sent_bytes), both.map(|it| it.backlogged.as_nanos()))
    };
    let (began, before, had_before) = look();
    let (mut ended, mut after, mut had_after) = (began, before, had_before);
    until(|| {
        (ended, after, had_after) = look();
        after.iter().sum::<u64>() > before.iter().sum::<u64>() + 2_500_000
    });
    let spans = [0, 1].map(|at| had_after[at] - had_before[at]);
    let [less, more] = [spans.iter().min()?, spans.iter().max()?];
    let part = Part::of_first([&before, &after], [began, ended]);
    (less * 20 > more * 19).then_some(part)
}

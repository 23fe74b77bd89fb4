//! What a switch lost, by its own books and by what the endpoints' interfaces counted.

use std::ops::AddAssign;

use lab::{Counters, DeviceCounters, Lab, LabError};
use model::{AgentStatus, LedgerStatus};

/// What a switch lost, and whether its books hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Losses {
    /// Frames that left one endpoint and reached none.
    pub lost: u64,
    /// Whether the switch's own account holds; none where it keeps none.
    pub balanced: Option<bool>,
    /// Frames that the switch between hosts dropped; none where there is none. What hosts sent
    /// again was not lost.
    pub dropped_between_hosts: Option<u64>,
}

impl Losses {
    /// What the lab counted between `before` and `after`, both of them settled.
    pub fn between(before: &Counters, after: &Counters) -> Self {
        let balanced = |agent: &AgentStatus| agent.balanced && agent.ledger.balances();
        Self {
            lost: lost(before, after),
            balanced: after.agents.iter().map(balanced).reduce(|one, other| one && other),
            dropped_between_hosts: after
                .dropped_between_hosts()
                .map(|count| count - before.dropped_between_hosts().unwrap_or(0)),
        }
    }
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.balanced = both_hold(self.balanced, other.balanced);
        let dropped = [self.dropped_between_hosts, other.dropped_between_hosts];
        self.dropped_between_hosts = dropped.into_iter().flatten().reduce(|one, other| one + other);
    }
}

/// Whether two accounts hold, as far as they are kept.
pub fn both_hold(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    one.into_iter().chain(other).reduce(|one, other| one && other)
}

/// The lab's counters once nothing moves: the endpoints' and the ports' are read until they stay.
///
/// Not for ever: behind a lossy switch TCP may take minutes to close what nobody waits for any
/// more. The few frames of that are counted or not; a lossless switch leaves none.
pub fn settled(lab: &Lab) -> Result<Counters, LabError> {
    const READS: usize = 20;
    let mut counters = lab.counters()?;
    for _ in 0..READS {
        let again = lab.counters()?;
        let stay = (&again.endpoints, &again.ports) == (&counters.endpoints, &counters.ports);
        counters = again;
        if stay {
            break;
        }
    }
    Ok(counters)
}

/// Adds one lab's account to another's.
pub fn sum_ledgers(sum: &mut LedgerStatus, other: LedgerStatus) {
    sum.accepted += other.accepted;
    sum.delivered += other.delivered;
    sum.held += other.held;
    for (reason, count) in other.refused {
        *sum.refused.entry(reason).or_default() += count;
    }
}

/// Frames lost between two looks: what the switch's books say, or what went in and reached no
/// endpoint's interface, whichever is more. A large segment may go in whole and come out in pieces,
/// which hides losses from the interfaces, but not from the books of one switch; and two switches
/// may make one frame of several. So it is by their bytes that some are found missing between
/// switches: how many is then a guess, and one at least.
fn lost(before: &Counters, after: &Counters) -> u64 {
    let grown = |count: fn(&Counters) -> u64| count(after).saturating_sub(count(before));
    let at_endpoints = grown(|counters| {
        counters.endpoints.values().map(|one| one.device.tx_dropped + one.queue.dropped).sum()
    });
    let received =
        grown(|counters| counters.endpoints.values().map(|one| one.device.rx_packets).sum());
    let missing = if after.agents.is_empty() {
        grown(taken).saturating_sub(received)
    } else {
        let came = grown(|counters| ports(counters, |port| port.rx_bytes));
        let left = grown(|counters| ports(counters, |port| port.tx_bytes));
        let handed = grown(|counters| ports(counters, |port| port.tx_packets));
        let least = u64::from(held(after) == 0);
        let between = if left < came { grown(taken).saturating_sub(handed).max(least) } else { 0 };
        between + handed.saturating_sub(received)
    };
    at_endpoints + grown(unaccounted).max(missing)
}

/// What is counted at all endpoints' ports together. Agents count bytes as wires have them.
fn ports(counters: &Counters, count: fn(&DeviceCounters) -> u64) -> u64 {
    counters.ports.values().map(|port| count(&port.device)).sum()
}

/// What by the switches' own books came in and neither went out nor waits.
fn unaccounted(counters: &Counters) -> u64 {
    if counters.agents.is_empty() {
        return counters
            .ports
            .values()
            .map(|port| port.device.tx_dropped + port.queue.dropped)
            .sum();
    }
    let missing = |AgentStatus { ledger, .. }: &AgentStatus| {
        ledger.accepted.saturating_sub(ledger.delivered + ledger.held).max(ledger.refused_total())
    };
    counters.agents.iter().map(missing).sum()
}

/// What the switches have to pass on. The interfaces of an agent's endpoints also sent what only
/// wakes their queues, and count for themselves what they dropped: there it is what agents took
/// from endpoints. What one agent holds may be what another took.
fn taken(counters: &Counters) -> u64 {
    match counters.handled {
        Some(handled) if !counters.agents.is_empty() => handled.saturating_sub(held(counters)),
        _ => counters.endpoints.values().map(|one| one.device.tx_packets).sum(),
    }
}

/// Frames that wait in agents.
fn held(counters: &Counters) -> u64 {
    counters.agents.iter().map(|agent| agent.ledger.held).sum()
}

#[cfg(test)]
mod tests {
    use lab::physical::{ClassReport, FabricReport, Tally};
    use model::GateStatus;

    use super::*;
    use crate::points::tests::counters;

    #[test]
    fn what_was_counted_before_does_not_count() {
        let before = counters(10, 10, 10, 10, None);
        let losses = Losses::between(&before, &counters(50, 50, 45, 45, None));
        assert_eq!(losses, Losses { lost: 5, ..Losses::default() });
    }

    #[test]
    fn what_a_device_drops_was_not_dropped_by_its_queue() {
        let mut after = counters(50, 50, 50, 50, None);
        let port = after.ports.get_mut("rx").unwrap();
        (port.device.tx_dropped, port.queue.dropped) = (3, 4);
        assert_eq!(Losses::between(&Counters::default(), &after).lost, 7);
    }

    #[test]
    fn what_is_dropped_between_hosts_is_counted_from_before() {
        let counters = |frames| {
            let dropped = [("full".to_owned(), Tally { frames, bytes: frames * 1514 })].into();
            let classes = [(0, ClassReport { dropped, ..ClassReport::default() })].into();
            let fabric =
                FabricReport { balanced: true, ports: [("host1".to_owned(), classes)].into() };
            Counters { fabric: Some(fabric), ..Counters::default() }
        };
        let mut losses = Losses::between(&counters(3), &counters(10));
        assert_eq!((losses.lost, losses.dropped_between_hosts), (0, Some(7)));
        losses += Losses::between(&counters(10), &counters(11));
        assert_eq!(losses.dropped_between_hosts, Some(8));
    }

    fn agent(ledger: LedgerStatus, balanced: bool) -> AgentStatus {
        let (version, ports, networks) = (String::new(), Vec::new(), Vec::new());
        let udp_gate = GateStatus::On;
        AgentStatus {
            version,
            uptime_ns: 0,
            busy_ns: 0,
            turns: 0,
            empty_turns: 0,
            thread: model::ThreadStatus::default(),
            udp_gate,
            ports,
            networks,
            ledger,
            balanced,
            logical: None,
            uplink: None,
        }
    }

    #[test]
    fn an_agents_books_are_not_believed_alone() {
        let lost = |rx, delivered, refused| {
            // More is sent than the agent takes: what wakes the queues is not for anybody.
            let mut after = counters(60, 50, delivered, rx, Some(50));
            let refused = [("full".to_owned(), refused)].into();
            after.agents =
                vec![agent(LedgerStatus { accepted: 50, delivered, refused, held: 0 }, true)];
            let losses = Losses::between(&Counters::default(), &after);
            (losses.lost, losses.balanced)
        };
        assert_eq!(lost(50, 50, 0), (0, Some(true)));
        assert_eq!(lost(45, 45, 5), (5, Some(true)));
        // It says that it delivered what the receivers' interfaces never saw.
        assert_eq!(lost(45, 50, 0), (5, Some(true)));
        // It says neither that it delivered them nor that it refused them.
        assert_eq!(lost(50, 47, 0), (3, Some(false)));
    }

    #[test]
    fn what_two_switches_join_is_not_lost() {
        let lost = |frames, bytes| {
            let mut after = counters(50, 50, frames, frames, Some(50));
            for (name, [rx_bytes, tx_bytes]) in [("tx1", [5000, 0]), ("rx", [0, bytes])] {
                let device = &mut after.ports.get_mut(name).unwrap().device;
                (device.rx_bytes, device.tx_bytes) = (rx_bytes, tx_bytes);
            }
            let books = |accepted| LedgerStatus {
                accepted,
                delivered: accepted,
                ..LedgerStatus::default()
            };
            after.agents = [50, frames].map(|accepted| agent(books(accepted), true)).into();
            Losses::between(&Counters::default(), &after).lost
        };
        assert_eq!(lost(49, 5000), 0);
        assert_eq!([lost(49, 4900), lost(45, 4900)], [1, 5]);
        // Of large segments, most pieces came.
        assert_eq!(lost(400, 4900), 1);
    }

    #[test]
    fn books_that_once_did_not_hold_do_not_hold() {
        let mut sum = Losses::default();
        for balanced in [None, Some(true), Some(false), Some(true)] {
            sum += Losses { lost: 1, balanced, ..Losses::default() };
        }
        assert_eq!((sum.lost, sum.balanced, sum.dropped_between_hosts), (4, Some(false), None));
    }
}

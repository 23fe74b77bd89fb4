//! The six measurement points of zOVN's figure 1, from the counters of sockets, devices and switch.
//!
//! ```text
//!    sender                         switch                        receiver
//!   (1) socket ─▶ (2) vNIC ───▶ (3) in ─ … ─ (4) out ───▶ (5) vNIC ─▶ (6) socket
//! ```

use std::ops::AddAssign;

use lab::{Counters, Lab, LabError};
use model::{AgentStatus, LedgerStatus};
use serde::{Deserialize, Serialize};

/// How many frames were seen at each point.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct SeenAt {
    /// (1) Frames that the senders' sockets accepted.
    pub sender_socket: u64,
    /// (2) Frames that left the senders' interfaces.
    pub sender_vnic: u64,
    /// (3) Frames that the switch took from the senders.
    pub switch_in: u64,
    /// (4) Frames that the switch gave to the receiver.
    pub switch_out: u64,
    /// (5) Frames that the receiver's interface took.
    pub receiver_vnic: u64,
    /// (6) Frames that the receiving program read.
    pub receiver_socket: u64,
}

/// How many frames were lost on the way to each point: seen at the point before it, and not at it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LostAt {
    /// (1) Always 0: what a socket does not accept was not sent.
    pub sender_socket: u64,
    /// (2) In the sender's stack or queueing discipline.
    pub sender_vnic: u64,
    /// (3) Between the sender's interface and the switch.
    pub switch_in: u64,
    /// (4) In the switch, its queues included.
    pub switch_out: u64,
    /// (5) Between the switch and the receiver's interface.
    pub receiver_vnic: u64,
    /// (6) In the receiver's stack, at its full socket.
    pub receiver_socket: u64,
}

impl SeenAt {
    /// What programs and lab counted between `before` and `after`.
    ///
    /// `sockets` are the frames that all senders sent and that the program in endpoint `receiver` read. Nothing but
    /// those frames may have been under way, but for what a port itself adds to wake its switch: so no point is said
    /// to have seen more than the point before it, nor less than what was read in the end.
    pub fn between(sockets: (u64, u64), receiver: &str, before: &Counters, after: &Counters) -> Self {
        let (sent, read) = sockets;
        let senders = |counters: &Counters, point: fn(&Counters, &str) -> u64| -> u64 {
            let names = counters.endpoints.keys().filter(|name| *name != receiver);
            names.map(|name| point(counters, name)).sum()
        };
        let vnic_out = |counters: &Counters| {
            senders(counters, |counters, name| counters.endpoints[name].device.tx_packets)
        };
        let switch_in = |counters: &Counters| {
            counters.handled.unwrap_or_else(|| {
                senders(counters, |counters, name| {
                    counters.ports.get(name).map_or(0, |port| port.device.rx_packets)
                })
            })
        };
        let switch_out =
            |counters: &Counters| counters.ports.get(receiver).map_or(0, |port| port.device.tx_packets);
        let vnic_in = |counters: &Counters| {
            counters.endpoints.get(receiver).map_or(0, |endpoint| endpoint.device.rx_packets)
        };
        let grown = |point: &dyn Fn(&Counters) -> u64, most: u64| {
            point(after).saturating_sub(point(before)).min(most).max(read.min(most))
        };
        let sender_vnic = grown(&vnic_out, sent);
        let switch_in = grown(&switch_in, sender_vnic);
        let switch_out = grown(&switch_out, switch_in);
        let receiver_vnic = grown(&vnic_in, switch_out);
        Self { sender_socket: sent, sender_vnic, switch_in, switch_out, receiver_vnic, receiver_socket: read }
    }

    /// Where the frames went that did not come.
    pub fn lost_at(&self) -> LostAt {
        LostAt {
            sender_socket: 0,
            sender_vnic: self.sender_socket.saturating_sub(self.sender_vnic),
            switch_in: self.sender_vnic.saturating_sub(self.switch_in),
            switch_out: self.switch_in.saturating_sub(self.switch_out),
            receiver_vnic: self.switch_out.saturating_sub(self.receiver_vnic),
            receiver_socket: self.receiver_vnic.saturating_sub(self.receiver_socket),
        }
    }
}

impl AddAssign for SeenAt {
    fn add_assign(&mut self, other: Self) {
        self.sender_socket += other.sender_socket;
        self.sender_vnic += other.sender_vnic;
        self.switch_in += other.switch_in;
        self.switch_out += other.switch_out;
        self.receiver_vnic += other.receiver_vnic;
        self.receiver_socket += other.receiver_socket;
    }
}

/// What a switch lost, and whether its books hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Losses {
    /// Frames that left one endpoint and reached none.
    pub lost: u64,
    /// Whether the switch's own account holds; none where it keeps none.
    pub balanced: Option<bool>,
}

impl Losses {
    /// What the lab counted between `before` and `after`, both of them settled.
    pub fn between(before: &Counters, after: &Counters) -> Self {
        let balanced = |agent: &AgentStatus| agent.balanced && agent.ledger.balances();
        Self { lost: lost(before, after), balanced: after.agent.as_ref().map(balanced) }
    }
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.balanced = both_hold(self.balanced, other.balanced);
    }
}

/// Whether two accounts hold, as far as they are kept.
pub fn both_hold(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    one.into_iter().chain(other).reduce(|one, other| one && other)
}

/// The lab's counters once nothing moves: the endpoints' and the ports' are read until they stay.
///
/// Not for ever: behind a lossy switch TCP may take minutes to close what nobody waits for any more. The few frames
/// of that are counted or not; a lossless switch leaves none.
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

/// Frames lost between two looks: what the switch's books say, or what went in and reached no endpoint's interface,
/// whichever is more. A large segment may go in whole and come out in pieces, which hides a loss from the interfaces but
/// not from the books.
fn lost(before: &Counters, after: &Counters) -> u64 {
    let grown = |count: fn(&Counters) -> u64| count(after).saturating_sub(count(before));
    let at_endpoints = grown(|counters| {
        counters.endpoints.values().map(|one| one.device.tx_dropped + one.queue.dropped).sum()
    });
    let received = grown(|counters| counters.endpoints.values().map(|one| one.device.rx_packets).sum());
    at_endpoints + grown(unaccounted).max(grown(taken).saturating_sub(received))
}

/// What by the switch's own books came in and neither went out nor waits.
fn unaccounted(counters: &Counters) -> u64 {
    match &counters.agent {
        Some(AgentStatus { ledger, .. }) => {
            ledger.accepted.saturating_sub(ledger.delivered + ledger.held).max(ledger.refused_total())
        }
        None => counters.ports.values().map(|port| port.device.tx_dropped + port.queue.dropped).sum(),
    }
}

/// What the switch has to pass on. The interfaces of an agent's endpoints also sent what only wakes their queues, and
/// count for themselves what they dropped: there it is what the agent took.
fn taken(counters: &Counters) -> u64 {
    match &counters.agent {
        Some(AgentStatus { ledger, .. }) => ledger.accepted.saturating_sub(ledger.held),
        None => counters.endpoints.values().map(|one| one.device.tx_packets).sum(),
    }
}

impl LostAt {
    /// Each point's word and its losses, in the order of the way.
    pub fn points(&self) -> [(&'static str, u64); 6] {
        [
            ("sender socket", self.sender_socket),
            ("sender vNIC", self.sender_vnic),
            ("switch in", self.switch_in),
            ("switch out", self.switch_out),
            ("receiver vNIC", self.receiver_vnic),
            ("receiver socket", self.receiver_socket),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.points().iter().map(|(_, lost)| lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{DeviceCounters, EndpointCounters, PortCounters};

    fn counters(tx: u64, port_in: u64, port_out: u64, rx: u64, handled: Option<u64>) -> Counters {
        let device = |rx_packets, tx_packets| DeviceCounters { rx_packets, tx_packets, ..Default::default() };
        let endpoint = |device| EndpointCounters { device, ..Default::default() };
        let port = |device| PortCounters { device, ..Default::default() };
        Counters {
            endpoints: [("rx".into(), endpoint(device(rx, 0))), ("tx1".into(), endpoint(device(0, tx)))]
                .into(),
            ports: [("rx".into(), port(device(0, port_out))), ("tx1".into(), port(device(port_in, 0)))]
                .into(),
            handled,
            agent: None,
        }
    }

    #[test]
    fn every_lost_frame_is_lost_at_one_point() {
        let after = counters(95, 95, 60, 60, Some(90));
        let seen = SeenAt::between((100, 20), "rx", &Counters::default(), &after);
        let lost = seen.lost_at().points().map(|(_, lost)| lost);
        assert_eq!(lost, [0, 5, 5, 30, 0, 40]);
        assert_eq!(seen.lost_at().total(), 80);
    }

    #[test]
    fn frames_that_a_port_adds_are_no_negative_losses() {
        let after = counters(140, 140, 100, 100, None);
        let seen = SeenAt::between((100, 100), "rx", &Counters::default(), &after);
        assert_eq!(seen.lost_at(), LostAt::default());
    }

    #[test]
    fn what_was_counted_before_does_not_count() {
        let before = counters(10, 10, 10, 10, None);
        let losses = Losses::between(&before, &counters(50, 50, 45, 45, None));
        assert_eq!(losses, Losses { lost: 5, balanced: None });
    }

    #[test]
    fn what_a_device_drops_was_not_dropped_by_its_queue() {
        let mut after = counters(50, 50, 50, 50, None);
        let port = after.ports.get_mut("rx").unwrap();
        (port.device.tx_dropped, port.queue.dropped) = (3, 4);
        assert_eq!(Losses::between(&Counters::default(), &after).lost, 7);
    }

    fn agent(ledger: LedgerStatus, balanced: bool) -> Option<AgentStatus> {
        let (version, ports) = (String::new(), Vec::new());
        Some(AgentStatus { version, uptime_ns: 0, busy_ns: 0, ports, ledger, balanced })
    }

    #[test]
    fn an_agents_books_are_not_believed_alone() {
        let lost = |rx, delivered, refused| {
            // More is sent than the agent takes: what wakes the queues is not for anybody.
            let mut after = counters(60, 50, 45, rx, Some(50));
            let refused = [("full".to_owned(), refused)].into();
            after.agent = agent(LedgerStatus { accepted: 50, delivered, refused, held: 0 }, true);
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
    fn books_that_once_did_not_hold_do_not_hold() {
        let mut sum = Losses::default();
        for balanced in [None, Some(true), Some(false), Some(true)] {
            sum += Losses { lost: 1, balanced };
        }
        assert_eq!(sum, Losses { lost: 4, balanced: Some(false) });
    }
}

//! The six measurement points of zOVN's figure 1, from the counters of sockets, devices and switch.
//!
//! ```text
//!    sender                         switch                        receiver
//!   (1) socket ─▶ (2) vNIC ───▶ (3) in ─ … ─ (4) out ───▶ (5) vNIC ─▶ (6) socket
//! ```

use std::ops::AddAssign;

use lab::Counters;
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
    /// `sockets` are the frames that all senders sent and that the programs in the endpoints
    /// `receivers` read. Nothing but those frames may have been under way, but for what a port
    /// itself adds to wake its switch: so no point is said to have seen more than the point before
    /// it, nor less than what was read in the end.
    pub fn between(
        sockets: (u64, u64),
        receivers: &[&str],
        before: &Counters,
        after: &Counters,
    ) -> Self {
        let (sent, read) = sockets;
        let senders = |counters: &Counters, point: fn(&Counters, &str) -> u64| -> u64 {
            let names = counters.endpoints.keys().filter(|it| !receivers.contains(&it.as_str()));
            names.map(|name| point(counters, name)).sum()
        };
        let all_receivers =
            |point: &dyn Fn(&str) -> u64| -> u64 { receivers.iter().map(|name| point(name)).sum() };
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
        let switch_out = |counters: &Counters| {
            let port =
                |name: &str| counters.ports.get(name).map_or(0, |port| port.device.tx_packets);
            all_receivers(&port)
        };
        let vnic_in = |counters: &Counters| {
            let vnic =
                |name: &str| counters.endpoints.get(name).map_or(0, |it| it.device.rx_packets);
            all_receivers(&vnic)
        };
        let grown = |point: &dyn Fn(&Counters) -> u64, most: u64| {
            point(after).saturating_sub(point(before)).min(most).max(read.min(most))
        };
        let sender_vnic = grown(&vnic_out, sent);
        let switch_in = grown(&switch_in, sender_vnic);
        let switch_out = grown(&switch_out, switch_in);
        let receiver_vnic = grown(&vnic_in, switch_out);
        Self {
            sender_socket: sent,
            sender_vnic,
            switch_in,
            switch_out,
            receiver_vnic,
            receiver_socket: read,
        }
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
pub(crate) mod tests {
    use super::*;
    use lab::{DeviceCounters, EndpointCounters, PortCounters};

    pub(crate) fn counters(
        tx: u64,
        port_in: u64,
        port_out: u64,
        rx: u64,
        handled: Option<u64>,
    ) -> Counters {
        let device = |rx_packets, tx_packets| DeviceCounters {
            rx_packets,
            tx_packets,
            ..Default::default()
        };
        let endpoint = |device| EndpointCounters { device, ..Default::default() };
        let port = |device| PortCounters { device, ..Default::default() };
        Counters {
            endpoints: [
                ("rx".into(), endpoint(device(rx, 0))),
                ("tx1".into(), endpoint(device(0, tx))),
            ]
            .into(),
            ports: [
                ("rx".into(), port(device(0, port_out))),
                ("tx1".into(), port(device(port_in, 0))),
            ]
            .into(),
            handled,
            ..Counters::default()
        }
    }

    #[test]
    fn every_lost_frame_is_lost_at_one_point() {
        let after = counters(95, 95, 60, 60, Some(90));
        let seen = SeenAt::between((100, 20), &["rx"], &Counters::default(), &after);
        let lost = seen.lost_at().points().map(|(_, lost)| lost);
        assert_eq!(lost, [0, 5, 5, 30, 0, 40]);
        assert_eq!(seen.lost_at().total(), 80);
    }

    #[test]
    fn frames_that_a_port_adds_are_no_negative_losses() {
        let after = counters(140, 140, 100, 100, None);
        let seen = SeenAt::between((100, 100), &["rx"], &Counters::default(), &after);
        assert_eq!(seen.lost_at(), LostAt::default());
    }
}

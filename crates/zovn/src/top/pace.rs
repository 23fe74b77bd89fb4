//! What happened between two statuses of one agent.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use clap::ValueEnum;
use model::{
    AgentStatus, NetworkName, NetworkShareStatus, NetworkStatus, PeerStatus, PortName, PortStatus,
};
use units::Rate;

/// The latest status, and how fast things went since the one before.
#[derive(Debug)]
pub struct Pace {
    status: AgentStatus,
    rates: BTreeMap<PortName, Rates>,
    networks: BTreeMap<NetworkName, NetworkRates>,
    peers: BTreeMap<IpAddr, PeerRates>,
    busy_share: f64,
}

/// A port's pace: per second, or as a share of the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Frames that came in.
    pub in_frames: f64,
    /// Bits that came in.
    pub in_bits: f64,
    /// Frames that went out.
    pub out_frames: f64,
    /// Bits that went out.
    pub out_bits: f64,
    /// How much of the time the sender was held back, 0 to 1.
    pub paused_share: f64,
    /// Frames refused, from it or for it.
    pub refused: f64,
}

/// A network on this host: what its ports do, and what it has of the uplink.
#[derive(Clone, Debug, Default)]
pub struct NetworkPace {
    /// Its ports that are attached.
    pub ports: u32,
    /// Frames from its machines and for them that are held.
    pub held: u64,
    /// The least and the highest rate at which it sends by the uplink.
    pub bounds: [Option<Rate>; 2],
    /// The part of the switch's thread that it has had in the last seconds, 0 to 1.
    pub thread_share: f64,
    /// How fast things went.
    pub rates: NetworkRates,
    /// The network that the uplink sent most of meanwhile, and that one's part of what was sent of
    /// others, 0 to 1. `None` if it did not wait for others.
    pub waits_for: Option<(NetworkName, f64)>,
}

/// A network's pace: per second, or as a share of the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkRates {
    /// Bits that came in from its machines.
    pub in_bits: f64,
    /// Bits that went out to its machines.
    pub out_bits: f64,
    /// Bits that the uplink sent of it.
    pub sent_bits: f64,
    /// How much of the time the uplink sent others' frames while it had some, 0 to 1.
    pub waited_share: f64,
}

/// A peer's pace, per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerRates {
    /// Bits that came.
    pub in_bits: f64,
    /// Bits that went.
    pub out_bits: f64,
    /// Frames sent again.
    pub retransmitted: f64,
}

/// Which ports come first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Sort {
    /// By name.
    #[default]
    Name,
    /// The fastest sender.
    In,
    /// The fastest receiver.
    Out,
    /// The longest queue towards a receiver.
    Waiting,
    /// The sender that is held back most.
    Paused,
    /// The most refusals.
    Refused,
}

impl Sort {
    /// The order that a key asks for.
    pub fn from_key(letter: char) -> Option<Self> {
        Some(match letter {
            'n' => Self::Name,
            'i' => Self::In,
            'o' => Self::Out,
            'w' => Self::Waiting,
            'p' => Self::Paused,
            'r' => Self::Refused,
            _ => return None,
        })
    }
}

impl Pace {
    /// A first status: nothing is known of pace yet.
    pub fn of(status: AgentStatus) -> Self {
        Self {
            status,
            rates: BTreeMap::new(),
            networks: BTreeMap::new(),
            peers: BTreeMap::new(),
            busy_share: 0.0,
        }
    }

    /// The next status. If the agent, or a port, began anew in between, its pace begins anew too.
    pub fn advance(&mut self, status: AgentStatus) {
        let before = std::mem::replace(&mut self.status, status);
        self.rates.clear();
        self.networks.clear();
        self.peers.clear();
        self.busy_share = 0.0;
        let Some(ns) = self.status.uptime_ns.checked_sub(before.uptime_ns).filter(|ns| *ns > 0)
        else {
            return;
        };
        self.busy_share = self.status.busy_ns.saturating_sub(before.busy_ns) as f64 / ns as f64;
        let [former, latest] = [&before, &self.status].map(networks);
        self.networks = latest
            .into_iter()
            .filter_map(|(name, now)| {
                Some((name.clone(), NetworkRates::between(*former.get(name)?, now, ns)?))
            })
            .collect();
        let peers = before.uplink.iter().flat_map(|uplink| &uplink.peers);
        let peers: BTreeMap<_, _> = peers.map(|peer| (peer.vtep, peer)).collect();
        for peer in self.status.uplink.iter().flat_map(|uplink| &uplink.peers) {
            let rates =
                peers.get(&peer.vtep).and_then(|before| PeerRates::between(before, peer, ns));
            self.peers.extend(rates.map(|rates| (peer.vtep, rates)));
        }
        let before: BTreeMap<_, _> = before.ports.iter().map(|port| (&port.name, port)).collect();
        for port in &self.status.ports {
            if let Some(rates) =
                before.get(&port.name).and_then(|before| Rates::between(before, port, ns))
            {
                self.rates.insert(port.name.clone(), rates);
            }
        }
    }

    /// The latest status.
    pub fn status(&self) -> &AgentStatus {
        &self.status
    }

    /// How much of the time the switch's thread worked, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.busy_share
    }

    /// Every host that tunnels lead to with its pace, by address.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = (&PeerStatus, PeerRates)> {
        let peers = self.status.uplink.as_ref().map_or(&[][..], |uplink| &uplink.peers);
        peers.iter().map(|peer| (peer, self.peers.get(&peer.vtep).copied().unwrap_or_default()))
    }

    /// Every network that has or had a port here or something of the uplink, by name.
    pub fn networks(&self) -> BTreeMap<&NetworkName, NetworkPace> {
        let rates = |name: &NetworkName| self.networks.get(name).copied().unwrap_or_default();
        let networks = networks(&self.status);
        let sent: f64 = networks.keys().map(|name| rates(name).sent_bits).sum();
        // The two that were sent most: the first of them that is another.
        let mut most: Vec<_> = networks.keys().map(|name| (*name, rates(name).sent_bits)).collect();
        most.sort_by(|a, b| b.1.total_cmp(&a.1));
        most.truncate(2);
        let pace = |(name, (status, share)): (&NetworkName, Both<'_>)| {
            let rates = rates(name);
            let others = sent - rates.sent_bits;
            let first = most.iter().find(|(other, _)| *other != name);
            NetworkPace {
                ports: status.map_or(0, |it| it.ports),
                held: status.map_or(0, |it| it.ingress.held + it.egress.held),
                bounds: share.map_or([None; 2], |it| [it.min, it.max]),
                thread_share: status
                    .map_or(0.0, |it| (it.thread.used_ns_per_second as f64 / 1e9).min(1.0)),
                rates,
                waits_for: first
                    .filter(|_| rates.waited_share > 0.0 && others > 0.0)
                    .map(|(other, bits)| ((*other).clone(), bits / others)),
            }
        };
        networks.iter().map(|(name, both)| (*name, pace((name, *both)))).collect()
    }

    /// Every port with its pace, in order.
    pub fn ports(&self, sort: Sort) -> Vec<(&PortStatus, Rates)> {
        let rates = |port: &PortStatus| self.rates.get(&port.name).copied().unwrap_or_default();
        let mut ports: Vec<_> = self.status.ports.iter().map(|port| (port, rates(port))).collect();
        // Fractions of frames a second do not matter here, so that rates can be compared as whole
        // numbers.
        ports.sort_by_key(|(port, rates)| {
            let most = match sort {
                Sort::Name => 0,
                Sort::In => rates.in_bits as u64,
                Sort::Out => rates.out_bits as u64,
                Sort::Waiting => port.egress.total.held,
                Sort::Paused => (rates.paused_share * 1e6) as u64,
                Sort::Refused => refused(port),
            };
            (Reverse(most), &port.name)
        });
        ports
    }
}

/// Frames refused, from a port or for it.
pub fn refused(port: &PortStatus) -> u64 {
    port.ingress.total.refused_total() + port.egress.total.refused_total()
}

impl Rates {
    /// `None` if the port was attached anew in between.
    fn between(before: &PortStatus, after: &PortStatus, ns: u64) -> Option<Self> {
        let per_second = |before, after| per_second(before, after, ns);
        Some(Self {
            in_frames: per_second(before.ingress.total.accepted, after.ingress.total.accepted)?,
            in_bits: per_second(before.ingress_bytes, after.ingress_bytes)? * 8.0,
            out_frames: per_second(before.egress.total.delivered, after.egress.total.delivered)?,
            out_bits: per_second(before.egress_bytes, after.egress_bytes)? * 8.0,
            paused_share: (per_second(before.paused.as_nanos(), after.paused.as_nanos())? / 1e9)
                .min(1.0),
            refused: per_second(refused(before), refused(after))?,
        })
    }
}

/// What a status tells of a network.
type Both<'a> = (Option<&'a NetworkStatus>, Option<&'a NetworkShareStatus>);

/// What a status tells of each network.
fn networks(status: &AgentStatus) -> BTreeMap<&NetworkName, Both<'_>> {
    let mut networks: BTreeMap<&NetworkName, Both<'_>> = BTreeMap::new();
    for it in &status.networks {
        networks.entry(&it.name).or_default().0 = Some(it);
    }
    let sharing = status.uplink.iter().filter_map(|uplink| uplink.sharing.as_ref());
    for it in sharing.flat_map(|sharing| &sharing.networks) {
        networks.entry(&it.network).or_default().1 = Some(it);
    }
    networks
}

impl NetworkRates {
    /// `None` if the network came anew in between.
    fn between(before: Both<'_>, after: Both<'_>, ns: u64) -> Option<Self> {
        let mut rates = Self::default();
        if let (Some(before), Some(after)) = (before.0, after.0) {
            rates.in_bits = per_second(before.ingress_bytes, after.ingress_bytes, ns)? * 8.0;
            rates.out_bits = per_second(before.egress_bytes, after.egress_bytes, ns)? * 8.0;
        }
        if let (Some(before), Some(after)) = (before.1, after.1) {
            rates.sent_bits = per_second(before.sent_bytes, after.sent_bytes, ns)? * 8.0;
            let waited = per_second(before.waited.as_nanos(), after.waited.as_nanos(), ns)?;
            rates.waited_share = (waited / 1e9).min(1.0);
        }
        Some(rates)
    }
}

impl PeerRates {
    /// `None` if the peer was met anew in between.
    fn between(before: &PeerStatus, after: &PeerStatus, ns: u64) -> Option<Self> {
        let retransmitted =
            |peer: &PeerStatus| peer.session.as_ref().map_or(0, |session| session.retransmitted);
        Some(Self {
            in_bits: per_second(before.ingress_bytes, after.ingress_bytes, ns)? * 8.0,
            out_bits: per_second(before.egress_bytes, after.egress_bytes, ns)? * 8.0,
            retransmitted: per_second(retransmitted(before), retransmitted(after), ns)?,
        })
    }
}

/// How fast a count grew in so many nanoseconds; `None` if it began anew.
fn per_second(before: u64, after: u64, ns: u64) -> Option<f64> {
    Some(after.checked_sub(before)? as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use model::{GateStatus, LedgerStatus, ThreadStatus, ThreadUse};
    use units::Span;

    use super::*;

    #[test]
    fn a_networks_part_of_the_thread_is_its_time_in_a_second() {
        let name = NetworkName("blue".into());
        let thread = ThreadUse { used_ns_per_second: 250_000_000, ..ThreadUse::default() };
        let network = NetworkStatus {
            name: name.clone(),
            ports: 1,
            ingress: LedgerStatus::default(),
            egress: LedgerStatus::default(),
            ingress_bytes: 0,
            egress_bytes: 0,
            paused: Span::ZERO,
            memory_bytes: 0,
            thread,
        };
        let pace = Pace::of(AgentStatus {
            version: "1".into(),
            uptime_ns: 1,
            busy_ns: 1,
            turns: 1,
            empty_turns: 0,
            thread: ThreadStatus::default(),
            udp_gate: GateStatus::On,
            ports: Vec::new(),
            networks: vec![network],
            logical: None,
            uplink: None,
            ledger: LedgerStatus::default(),
            balanced: true,
        });
        assert_eq!(pace.networks()[&name].thread_share, 0.25);
    }
}

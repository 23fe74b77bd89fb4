//! What a tunnel costs (Koponen et al., NSDI 2014, table 1): TCP between two hosts, and the
//! processors' time for it.
//!
//! The hosts are joined by a cable. It takes large packets whole, as network cards with all their
//! offloads do, or has them cut, as cards do that have none. What is compared is what hosts do to
//! put frames into tunnels and take them out again.

use std::fmt;
use std::str::FromStr;

use lab::{Cable, Counters, DeviceCounters, HostsSpec, LabSpec, PhysicalSpec, SwitchKind};
use model::{Encapsulation, TunnelMode};
use serde::{Deserialize, Serialize};
use units::Span;

use crate::losses::{Losses, settled};
use crate::site::{quiet_endpoint, raise};
use crate::streams::{Streamed, Streams};
use crate::{Bench, Environment, MeasureError, Measurement, check_congestion};

const SENDER: &str = "tx";
const RECEIVER: &str = "rx";

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What to compare.
    pub tunnels: Vec<Tunnel>,
    /// What becomes of large packets between the hosts.
    pub cable: Cable,
    /// Numbers of streams, one after the other.
    pub streams: Vec<u32>,
    /// How long each run lasts, in each round.
    pub duration: Span,
    /// TCP's congestion control.
    pub tcp: String,
    /// How often each tunnel has its turn.
    pub rounds: u32,
}

/// How frames get from one host to the other.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tunnel {
    /// zovn, and both endpoints at one switch: no tunnel at all.
    None,
    /// zovn, and frames cross from one host to the other as they are.
    NoneTwoHosts,
    /// zovn by Geneve, with credit and repair: nothing is lost.
    Geneve,
    /// zovn by Geneve, without either: as plain as the others.
    GenevePlain,
    /// The same, and all packets are authenticated.
    GeneveIntegrity,
    /// The same, and all packets are encrypted.
    GeneveEncrypt,
    /// zovn by VXLAN.
    Vxlan,
    /// zovn by NVGRE.
    Nvgre,
    /// zovn by STT.
    Stt,
    /// The kernel's bridge and VXLAN device.
    KernelVxlan,
    /// The same over WireGuard: the kernel's if it has one, or else `wireguard-go`.
    WireguardVxlan,
    /// Open vSwitch in user space, by VXLAN.
    OvsVxlan,
}

/// The MTU of the cable, in bytes: room for packets of 1500, and for what any of these puts around
/// them.
const CABLE_MTU: u32 = 1640;

impl Tunnel {
    /// All there are, in the order in which tables show them.
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::NoneTwoHosts,
        Self::Geneve,
        Self::GenevePlain,
        Self::GeneveIntegrity,
        Self::GeneveEncrypt,
        Self::Vxlan,
        Self::Nvgre,
        Self::Stt,
        Self::KernelVxlan,
        Self::WireguardVxlan,
        Self::OvsVxlan,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoneTwoHosts => "none-two-hosts",
            Self::Geneve => "geneve",
            Self::GenevePlain => "geneve-plain",
            Self::GeneveIntegrity => "geneve-integrity",
            Self::GeneveEncrypt => "geneve-encrypt",
            Self::Vxlan => "vxlan",
            Self::Nvgre => "nvgre",
            Self::Stt => "stt",
            Self::KernelVxlan => "kernel-vxlan",
            Self::WireguardVxlan => "wireguard-vxlan",
            Self::OvsVxlan => "ovs-vxlan",
        }
    }

    /// Whether nothing may be lost.
    pub const fn is_lossless(self) -> bool {
        matches!(self, Self::None) || self.is_session()
    }

    const fn is_session(self) -> bool {
        matches!(self, Self::Geneve | Self::GeneveIntegrity | Self::GeneveEncrypt)
    }

    const fn key(self) -> Option<TunnelMode> {
        match self {
            Self::GeneveIntegrity => Some(TunnelMode::Integrity),
            Self::GeneveEncrypt | Self::WireguardVxlan => Some(TunnelMode::Encrypt),
            _ => None,
        }
    }

    const fn switch(self) -> SwitchKind {
        match self {
            Self::KernelVxlan | Self::WireguardVxlan => SwitchKind::Bridge,
            Self::OvsVxlan => SwitchKind::Ovs,
            _ => SwitchKind::Zovn,
        }
    }

    fn lab(self, cable: Cable) -> Result<LabSpec, MeasureError> {
        let switch = self.switch();
        let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), switch);
        for (number, name) in (1..).zip([SENDER, RECEIVER]) {
            spec.endpoints.push(quiet_endpoint(name.into(), number)?);
        }
        let is_session = self.is_session();
        spec.hosts = (self != Self::None).then(|| HostsSpec {
            tunnels: self != Self::NoneTwoHosts,
            encapsulation: match self {
                Self::Vxlan | Self::KernelVxlan | Self::WireguardVxlan | Self::OvsVxlan => {
                    Encapsulation::Vxlan
                }
                Self::Nvgre => Encapsulation::Nvgre,
                Self::Stt => Encapsulation::Stt,
                _ => Encapsulation::Geneve,
            },
            retransmit: is_session.into(),
            credit: is_session.into(),
            key: self.key(),
            physical: PhysicalSpec {
                cable: Some(cable),
                mtu: CABLE_MTU,
                ..PhysicalSpec::default()
            },
            ..HostsSpec::new(2)
        });
        Ok(spec)
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Tunnel {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|tunnel| tunnel.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("`{text}` is no tunnel: write one of {words}"))
        })
    }
}

/// What a tunnel carried and cost, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The tunnel.
    pub tunnel: Tunnel,
    /// How many streams.
    pub streams: u32,
    /// Payload that arrived, in 10⁹ bits a second; none if nothing did.
    pub gbps: Option<f64>,
    /// Time that all processors were busy, for everything on both hosts and in both endpoints, in
    /// seconds for 10⁹ bytes.
    pub cpu_s_per_gb: Option<f64>,
    /// The same turned round: payload for a second of a processor's time, in 10⁹ bits.
    pub gbit_per_cpu_s: Option<f64>,
    /// How much of that the first tunnel of the table has, for as many streams.
    pub of_first: Option<f64>,
    /// How long a packet was that the sender's host put on the cable, in bytes and on average; none
    /// without a cable.
    pub bytes_per_packet: Option<f64>,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Frames that the switches lost.
    pub lost: u64,
    /// Whether the switches' own accounts held; none where they keep none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Cost>;

#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    bytes: u64,
    elapsed_ns: u64,
    busy_ns: u64,
    retransmits: u64,
    losses: Losses,
    /// What the sender's host put on the cable.
    crossed_packets: u64,
    crossed_bytes: u64,
}

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let runs: Vec<_> = config
        .streams
        .iter()
        .flat_map(|streams| config.tunnels.iter().map(move |tunnel| (*tunnel, *streams)))
        .collect();
    let mut sums = vec![Carried::default(); runs.len()];
    bench.progress.begin(runs.len() * config.rounds as usize);
    for _ in 0..config.rounds {
        for ((tunnel, streams), sum) in runs.iter().zip(&mut sums) {
            let plural = if *streams == 1 { "" } else { "s" };
            bench.step(&format!("{tunnel}, {streams} stream{plural}"))?;
            let carried = carry(bench, *tunnel, *streams, &config)?;
            sum.bytes += carried.bytes;
            sum.elapsed_ns += carried.elapsed_ns;
            sum.busy_ns += carried.busy_ns;
            sum.retransmits += carried.retransmits;
            sum.losses += carried.losses;
            sum.crossed_packets += carried.crossed_packets;
            sum.crossed_bytes += carried.crossed_bytes;
        }
    }
    let results = conclude(runs.into_iter().zip(sums));
    Ok(Measurement::new("tunnel", environment, config, results))
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let wrong = |what: &str| Err(MeasureError::Config(what.into()));
    if config.tunnels.is_empty()
        || config.streams.is_empty()
        || config.rounds == 0
        || config.duration == Span::ZERO
    {
        return wrong(
            "a measurement of tunnels needs a tunnel, a number of streams, a round and some time",
        );
    }
    if config.streams.contains(&0) {
        return wrong("no streams carry nothing: ask for 1 or more");
    }
    // Before the first rounds rather than after.
    config.tunnels.iter().try_for_each(|tunnel| tunnel.switch().check())?;
    check_congestion(&config.tcp)
}

fn carry(
    bench: &Bench<'_>,
    tunnel: Tunnel,
    streams: u32,
    config: &Config,
) -> Result<Carried, MeasureError> {
    let lab = raise(bench, &tunnel.lab(config.cable)?)?;
    let before = settled(&lab)?;
    let senders = vec![SENDER.to_owned(); streams as usize];
    let streams = Streams {
        senders: &senders,
        receivers: &[RECEIVER],
        congestion: &config.tcp,
        duration: config.duration,
        part: None,
    };
    let Streamed { received, repairs, busy_ns, .. } = streams.run(bench, &lab)?;
    let after = settled(&lab)?;
    let losses = Losses::between(&before, &after);
    let crossed = |count: fn(&DeviceCounters) -> u64| {
        let of = |counters: &Counters| counters.cable.first().map_or(0, count);
        of(&after).saturating_sub(of(&before))
    };
    Ok(Carried {
        bytes: received.bytes,
        elapsed_ns: received.elapsed_ns,
        busy_ns,
        retransmits: repairs.retransmits,
        losses,
        crossed_packets: crossed(|end| end.tx_packets),
        crossed_bytes: crossed(|end| end.tx_bytes),
    })
}

fn conclude(runs: impl Iterator<Item = ((Tunnel, u32), Carried)>) -> Vec<Cost> {
    let mut results: Vec<Cost> = Vec::new();
    for ((tunnel, streams), carried) in runs {
        let Carried { bytes, elapsed_ns, busy_ns, retransmits, losses, .. } = carried;
        let over = |one: u64, other: u64| (one > 0 && other > 0).then(|| one as f64 / other as f64);
        let gbit_per_cpu_s = over(bytes, busy_ns).map(|bytes| bytes * 8.0);
        let first =
            results.iter().find(|one| one.streams == streams).and_then(|one| one.gbit_per_cpu_s);
        results.push(Cost {
            tunnel,
            streams,
            gbps: over(bytes, elapsed_ns).map(|bytes| bytes * 8.0),
            cpu_s_per_gb: over(busy_ns, bytes),
            gbit_per_cpu_s,
            of_first: gbit_per_cpu_s.zip(first).map(|(one, first)| one / first),
            bytes_per_packet: over(carried.crossed_bytes, carried.crossed_packets),
            retransmits,
            lost: losses.lost,
            balanced: losses.balanced,
        });
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunnel_has_its_word_and_its_lab() {
        for tunnel in Tunnel::ALL {
            assert_eq!(tunnel.to_string().parse::<Tunnel>().unwrap(), tunnel);
            let lab = tunnel.lab(Cable::Cut).unwrap();
            assert_eq!(lab.hosts.is_some(), tunnel != Tunnel::None);
            lab.resolve("zovn-7c1e").unwrap();
        }
        assert!(
            "carrier-pigeon".parse::<Tunnel>().unwrap_err().to_string().contains("kernel-vxlan")
        );
    }

    #[test]
    fn a_cost_is_busy_time_over_what_arrived() {
        let carried = |bytes, busy_ns| Carried {
            bytes,
            elapsed_ns: 1_000_000_000,
            busy_ns,
            ..Carried::default()
        };
        let runs = [
            ((Tunnel::None, 1), carried(2_000_000_000, 1_000_000_000)),
            ((Tunnel::Geneve, 1), carried(1_000_000_000, 1_000_000_000)),
            ((Tunnel::Vxlan, 1), Carried::default()),
        ];
        let [none, geneve, nothing] = &conclude(runs.into_iter())[..] else {
            panic!("a result for each")
        };
        assert_eq!((none.gbps, none.cpu_s_per_gb, none.of_first), (Some(16.0), Some(0.5), None));
        assert_eq!((geneve.gbit_per_cpu_s, geneve.of_first), (Some(8.0), Some(0.5)));
        assert_eq!((nothing.gbps, nothing.cpu_s_per_gb, nothing.of_first), (None, None, None));
    }
}

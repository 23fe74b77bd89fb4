//! How much a switch carries: between containers, or between ports in its own memory.

use forwarding::{ClassKind, Flows, MemoryRun, Threads, memory_throughput};
use lab::{LabSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use units::Span;

use crate::flood::{self, Flood, RECEIVER, sender};
use crate::loss::check_size;
use crate::losses::{Losses, both_hold, settled};
use crate::site::{quiet_endpoint, raise};
use crate::streams::{Streamed, Streams};
use crate::{
    Bench, Environment, MeasureError, Measurement, check_congestion, check_switches, is_lossless,
};

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// What frames enter and leave by.
    pub ports: Ports,
    /// Bytes a frame, Ethernet header included, without checksum.
    pub sizes: Vec<u32>,
    /// How many senders; one receiver takes all.
    pub flows: u32,
    /// How long each run lasts, in each round.
    pub duration: Span,
    /// TCP's congestion control, for the streams between containers.
    pub tcp: String,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What frames enter and leave by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ports {
    /// Interfaces in containers, with the kernel's sockets behind them.
    Container,
    /// Rings in the switch's own process, with nothing behind them: the switch alone.
    Memory,
}

/// What is carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Frames between memory ports.
    Frames,
    /// UDP datagrams, one `sendto` each.
    Udp,
    /// A TCP stream with whatever offload the switch can take.
    Tcp,
}

/// What one switch carried, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The switch.
    pub switch: SwitchKind,
    /// What frames entered and left by.
    pub ports: Ports,
    /// What was carried.
    pub load: Load,
    /// Bytes a frame; of a stream, the largest frame on a link without offload.
    pub size: u32,
    /// How many senders.
    pub flows: u32,
    /// Frames that arrived, in 10⁶ a second; none of a stream, whose segments have no one size.
    pub mfps: Option<f64>,
    /// What arrived, in 10⁹ bits a second: whole frames, or a stream's payload; none if that was
    /// less than two frames.
    pub gbps: Option<f64>,
    /// Frames that did not arrive; of a stream, those that the switch lost.
    pub lost: u64,
    /// Frames that arrived again.
    pub duplicates: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Ticks of the time stamp counter inside the switch's turns per frame that arrived, where they
    /// can be told.
    pub cycles_per_frame: Option<f64>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps
    /// none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Throughput>;

/// What was carried in one run.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// Frames that arrived; 0 of a stream.
    frames: u64,
    /// Bytes that arrived.
    bytes: u64,
    /// Frames that did not arrive.
    lost: u64,
    /// Frames that arrived again.
    duplicates: u64,
    /// Segments that were sent again.
    retransmits: u64,
    /// From the first arrival to the last, in nanoseconds.
    elapsed_ns: u64,
    /// Ticks of the time stamp counter that the switch spent, where they can be told.
    cycles: Option<u64>,
    /// Whether the switch's own account held, where it keeps one.
    balanced: Option<bool>,
}

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut loads = Vec::new();
    for switch in &config.switches {
        match config.ports {
            Ports::Memory => {
                loads.extend(config.sizes.iter().map(|size| (*switch, Load::Frames, *size)))
            }
            Ports::Container => {
                loads.push((*switch, Load::Tcp, 1514));
                loads.extend(config.sizes.iter().map(|size| (*switch, Load::Udp, *size)));
            }
        }
    }
    let mut sums = vec![Carried::default(); loads.len()];
    bench.progress.begin(loads.len() * config.rounds as usize);
    for _ in 0..config.rounds {
        for ((switch, load, size), sum) in loads.iter().zip(&mut sums) {
            let (flows, plural) = (config.flows, if config.flows == 1 { "" } else { "s" });
            bench.step(&format!("{switch}: {load:?}, {size} B, {flows} flow{plural}"))?;
            let carried = match load {
                Load::Frames => memory(bench, *switch, *size, &config)?,
                Load::Udp => udp(bench, *switch, *size, &config)?,
                Load::Tcp => tcp(bench, *switch, &config)?,
            };
            sum.add(carried);
        }
    }
    let told = loads
        .iter()
        .zip(sums)
        .map(|((switch, load, size), sum)| sum.told(*switch, *load, *size, &config));
    let results = told.collect();
    Ok(Measurement::new("throughput", environment, config, results))
}

fn check(config: &Config) -> Result<(), MeasureError> {
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    let wrong = |what: String| Err(MeasureError::Config(what));
    if config.flows == 0
        || config.rounds == 0
        || config.duration == Span::ZERO
        || config.sizes.is_empty()
    {
        return wrong(
            "a measurement of throughput needs a size, a flow, a round and some time".into(),
        );
    }
    let peer = config
        .switches
        .iter()
        .find(|switch| !matches!(switch, SwitchKind::Zovn | SwitchKind::ZovnLossy));
    if let (Ports::Memory, Some(peer)) = (config.ports, peer) {
        return wrong(format!("`{peer}` has no ports in memory: choose among zovn and zovn-lossy"));
    }
    if config.ports == Ports::Container {
        check_congestion(&config.tcp)?;
    }
    config
        .sizes
        .iter()
        .filter(|_| config.ports == Ports::Container)
        .try_for_each(|size| check_size(*size))
}

/// Carries frames between ports in memory, with one thread: so the switch's own cycles can be told.
/// Between two pieces the user may stop it.
fn memory(
    bench: &Bench<'_>,
    switch: SwitchKind,
    size: u32,
    config: &Config,
) -> Result<Carried, MeasureError> {
    const PIECE_NS: u64 = 1_000_000_000;
    let kind = if is_lossless(switch) { ClassKind::Lossless } else { ClassKind::Lossy };
    let flows = if config.flows == 1 { Flows::Pairs(1) } else { Flows::Incast(config.flows) };
    let mut sum = Carried::default();
    let mut left_ns = config.duration.as_nanos();
    while left_ns > 0 {
        bench.go_on()?;
        let piece_ns = left_ns.min(PIECE_NS);
        let duration = Span::from_nanos(piece_ns);
        let run = MemoryRun { kind, size, flows, threads: Threads::One, duration };
        let carried =
            memory_throughput(&run).map_err(|error| MeasureError::Config(error.to_string()))?;
        sum.add(Carried {
            frames: carried.frames,
            bytes: carried.bytes,
            lost: carried.lost,
            elapsed_ns: carried.elapsed.as_nanos(),
            cycles: carried.switch.map(|switch| switch.cycles),
            ..Carried::default()
        });
        left_ns -= piece_ns;
    }
    Ok(sum)
}

fn udp(
    bench: &Bench<'_>,
    switch: SwitchKind,
    size: u32,
    config: &Config,
) -> Result<Carried, MeasureError> {
    let lab = flood::lab(bench, switch, config.flows)?;
    let flood = Flood { duration: config.duration, size, rate: None, pace: None };
    let flooded = flood.run(bench, &lab, config.flows)?;
    let received = &flooded.received;
    Ok(Carried {
        frames: received.received,
        bytes: received.received * u64::from(size),
        lost: flooded.seen.sender_socket.saturating_sub(received.received),
        duplicates: received.duplicates,
        elapsed_ns: received.elapsed_ns,
        balanced: flooded.losses.balanced,
        ..Carried::default()
    })
}

fn tcp(bench: &Bench<'_>, switch: SwitchKind, config: &Config) -> Result<Carried, MeasureError> {
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), switch);
    let names = std::iter::once(RECEIVER.to_owned()).chain((1..=config.flows).map(sender));
    for (number, name) in (1..).zip(names) {
        spec.endpoints.push(quiet_endpoint(name, number)?);
    }
    let lab = raise(bench, &spec)?;
    let before = settled(&lab)?;
    let senders: Vec<_> = (1..=config.flows).map(sender).collect();
    let streams = Streams {
        senders: &senders,
        receivers: &[RECEIVER],
        congestion: &config.tcp,
        duration: config.duration,
        part: None,
    };
    let Streamed { received, repairs, .. } = streams.run(bench, &lab)?;
    let losses = Losses::between(&before, &settled(&lab)?);
    Ok(Carried {
        frames: 0,
        bytes: received.bytes,
        lost: losses.lost,
        retransmits: repairs.retransmits,
        elapsed_ns: received.elapsed_ns,
        balanced: losses.balanced,
        ..Carried::default()
    })
}

impl Carried {
    /// One more round.
    fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.retransmits += other.retransmits;
        self.elapsed_ns += other.elapsed_ns;
        self.balanced = both_hold(self.balanced, other.balanced);
        self.cycles = other.cycles.map(|cycles| self.cycles.unwrap_or(0) + cycles);
    }

    fn told(self, switch: SwitchKind, load: Load, size: u32, config: &Config) -> Throughput {
        // Per nanosecond: so 10⁹ of them are one a second.
        let per_ns =
            |count: u64| (self.elapsed_ns > 0).then(|| count as f64 / self.elapsed_ns as f64);
        Throughput {
            switch,
            ports: config.ports,
            load,
            size,
            flows: config.flows,
            mfps: per_ns(self.frames).filter(|_| load != Load::Tcp).map(|fpns| fpns * 1e3),
            gbps: per_ns(self.bytes).map(|bytes| bytes * 8.0),
            lost: self.lost,
            duplicates: self.duplicates,
            retransmits: self.retransmits,
            balanced: self.balanced,
            cycles_per_frame: self.cycles.map(|cycles| cycles as f64 / self.frames.max(1) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn config() -> Config {
        Config {
            switches: vec![SwitchKind::Zovn, SwitchKind::ZovnLossy],
            ports: Ports::Memory,
            sizes: vec![64],
            flows: 1,
            duration: Span::from_millis(5),
            tcp: "cubic".into(),
            rounds: 2,
        }
    }

    #[test]
    fn rounds_of_memory_ports_are_merged() {
        let stop = AtomicBool::new(false);
        let bench = Bench { program: "unused".into(), stop: &stop, progress: &() };
        let report = run(&bench, config()).unwrap();
        let [zovn, lossy] = &report.results[..] else { panic!("a result for each switch") };
        assert_eq!((zovn.lost, zovn.load, zovn.balanced), (0, Load::Frames, None));
        for one in [zovn, lossy] {
            // 64 bytes are 512 bits.
            let (mfps, gbps) = (one.mfps.unwrap(), one.gbps.unwrap());
            assert!(mfps > 0.0 && (gbps - mfps * 0.512).abs() < 1e-9, "{one:?}");
        }
    }

    #[test]
    fn two_rounds_count_as_one() {
        let round = Carried {
            frames: 10,
            bytes: 640,
            elapsed_ns: 1000,
            cycles: Some(50),
            ..Carried::default()
        };
        let mut sum = round;
        sum.add(round);
        let told = sum.told(SwitchKind::Zovn, Load::Frames, 64, &config());
        assert_eq!(
            (told.mfps, told.gbps, told.cycles_per_frame),
            (Some(10.0), Some(5.12), Some(5.0))
        );
    }

    #[test]
    fn memory_ports_stop_when_the_user_wants_no_more() {
        let stop = AtomicBool::new(true);
        let bench = Bench { program: "unused".into(), stop: &stop, progress: &() };
        assert!(matches!(
            memory(&bench, SwitchKind::Zovn, 64, &config()),
            Err(MeasureError::Interrupted)
        ));
    }

    #[test]
    fn peers_have_no_ports_in_memory() {
        let peers = Config { switches: vec![SwitchKind::Bridge], ..config() };
        assert!(check(&peers).unwrap_err().to_string().contains("bridge"));
        assert!(check(&config()).is_ok());
    }
}

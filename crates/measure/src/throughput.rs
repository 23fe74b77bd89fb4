//! How much a switch carries: between containers, or between ports in its own memory.

use std::time::Duration;

use lab::{LabSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use units::Span;

use crate::endpoint::{Order, Repairs, Role, TcpReceive, TcpReceived, TcpSend, TcpSent};
use crate::fleet::Program;
use crate::flood::{self, Flood, RECEIVER, address, quiet_endpoint, raise, sender};
use crate::loss::check_size;
use crate::points::{Losses, both_hold, settled};
use crate::{Bench, Environment, MeasureError, Measurement, check_switches};

const PORT: u16 = 5004;

/// How long a program may take to report after its time.
const PATIENCE: Duration = Duration::from_secs(60);

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
    /// What arrived, in 10⁹ bits a second: whole frames, or a stream's payload; none if that was less than two frames.
    pub gbps: Option<f64>,
    /// Frames that did not arrive; of a stream, those that the switch lost.
    pub lost: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Processor cycles that the switch spent on a frame, where they can be told.
    pub cycles_per_frame: Option<f64>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Throughput>;

/// What carries frames between ports in memory: the switch's own benchmark, which the caller brings.
pub type MemoryDriver<'a> = &'a dyn Fn(&MemoryRun) -> Result<Carried, String>;

/// One run between memory ports.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRun {
    /// `zovn` or `zovn-lossy`.
    pub switch: SwitchKind,
    /// Bytes a frame.
    pub size: u32,
    /// How many senders.
    pub flows: u32,
    /// How long.
    pub duration: Span,
}

/// What was carried in one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// Frames that arrived; 0 of a stream.
    pub frames: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// From the first arrival to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor cycles that the switch spent, where they can be told.
    pub cycles: Option<u64>,
    /// Whether the switch's own account held, where it keeps one.
    pub balanced: Option<bool>,
}

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, memory: MemoryDriver<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut loads = Vec::new();
    for switch in &config.switches {
        match config.ports {
            Ports::Memory => loads.extend(config.sizes.iter().map(|size| (*switch, Load::Frames, *size))),
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
            bench.step(&format!("{switch}: {load:?}, {size} B, {} flows", config.flows))?;
            let carried = match load {
                Load::Frames => {
                    let Config { flows, duration, .. } = config;
                    memory(&MemoryRun { switch: *switch, size: *size, flows, duration })
                        .map_err(MeasureError::Config)?
                }
                Load::Udp => udp(bench, *switch, *size, &config)?,
                Load::Tcp => tcp(bench, *switch, &config)?,
            };
            sum.add(carried);
        }
    }
    let told =
        loads.iter().zip(sums).map(|((switch, load, size), sum)| sum.told(*switch, *load, *size, &config));
    let results = told.collect();
    Ok(Measurement::new("throughput", environment, config, results))
}

fn check(config: &Config) -> Result<(), MeasureError> {
    check_switches(&config.switches)?;
    let wrong = |what: String| Err(MeasureError::Config(what));
    if config.flows == 0 || config.rounds == 0 || config.duration == Span::ZERO || config.sizes.is_empty() {
        return wrong("a measurement of throughput needs a size, a flow, a round and some time".into());
    }
    let peer =
        config.switches.iter().find(|switch| !matches!(switch, SwitchKind::Zovn | SwitchKind::ZovnLossy));
    if let (Ports::Memory, Some(peer)) = (config.ports, peer) {
        return wrong(format!("`{peer}` has no ports in memory: choose among zovn and zovn-lossy"));
    }
    config.sizes.iter().filter(|_| config.ports == Ports::Container).try_for_each(|size| check_size(*size))
}

fn udp(bench: &Bench<'_>, switch: SwitchKind, size: u32, config: &Config) -> Result<Carried, MeasureError> {
    let lab = flood::lab(bench, switch, config.flows)?;
    let flood = Flood { duration: config.duration, size, rate: None, pace: None };
    let flooded = flood.run(bench, &lab, config.flows)?;
    let received = &flooded.received;
    Ok(Carried {
        frames: received.received,
        bytes: received.received * u64::from(size),
        lost: flooded.seen.sender_socket.saturating_sub(received.received),
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
    let congestion = config.tcp.clone();
    let role = TcpReceive { port: PORT, flows: config.flows, congestion: congestion.clone() };
    let mut receiver = Program::start(bench, &lab, RECEIVER, &Role::TcpReceive(role))?;
    receiver.ready(bench)?;
    let mut senders = Vec::new();
    for number in 1..=config.flows {
        let to = address(&lab, RECEIVER, PORT)?;
        let role = TcpSend { to, congestion: congestion.clone(), duration: config.duration };
        senders.push(Program::start(bench, &lab, &sender(number), &Role::TcpSend(role))?);
    }
    for program in &mut senders {
        program.ready(bench)?;
    }
    senders.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
    let mut repairs = Repairs::default();
    for program in &mut senders {
        let sent: TcpSent = program.report(bench, PATIENCE + config.duration.into())?;
        repairs += sent.repairs;
    }
    let received: TcpReceived = receiver.report(bench, PATIENCE)?;
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
        self.retransmits += other.retransmits;
        self.elapsed_ns += other.elapsed_ns;
        self.balanced = both_hold(self.balanced, other.balanced);
        self.cycles = other.cycles.map(|cycles| self.cycles.unwrap_or(0) + cycles);
    }

    fn told(self, switch: SwitchKind, load: Load, size: u32, config: &Config) -> Throughput {
        // Per nanosecond: so 10⁹ of them are one a second.
        let per_ns = |count: u64| (self.elapsed_ns > 0).then(|| count as f64 / self.elapsed_ns as f64);
        Throughput {
            switch,
            ports: config.ports,
            load,
            size,
            flows: config.flows,
            mfps: per_ns(self.frames).filter(|_| load != Load::Tcp).map(|fpns| fpns * 1e3),
            gbps: per_ns(self.bytes).map(|bytes| bytes * 8.0),
            lost: self.lost,
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
            duration: Span::from_secs(1),
            tcp: "cubic".into(),
            rounds: 2,
        }
    }

    #[test]
    fn rounds_of_memory_ports_are_merged() {
        let stop = AtomicBool::new(false);
        let bench = Bench { program: "unused".into(), stop: &stop, progress: &() };
        let carry = |run: &MemoryRun| {
            let frames = if run.switch == SwitchKind::Zovn { 20_000_000 } else { 40_000_000 };
            let bytes = frames * u64::from(run.size);
            Ok(Carried {
                frames,
                bytes,
                elapsed_ns: 1_000_000_000,
                cycles: Some(2 * frames),
                ..Carried::default()
            })
        };
        let report = run(&bench, &carry, config()).unwrap();
        let told: Vec<_> =
            report.results.iter().map(|one| (one.switch, one.mfps, one.cycles_per_frame)).collect();
        let expected =
            [(SwitchKind::Zovn, Some(20.0), Some(2.0)), (SwitchKind::ZovnLossy, Some(40.0), Some(2.0))];
        assert_eq!(told, expected);
        assert_eq!(report.results[0].gbps, Some(10.24));
    }

    #[test]
    fn peers_have_no_ports_in_memory() {
        let peers = Config { switches: vec![SwitchKind::Bridge], ..config() };
        assert!(check(&peers).unwrap_err().to_string().contains("bridge"));
        assert!(check(&config()).is_ok());
    }
}

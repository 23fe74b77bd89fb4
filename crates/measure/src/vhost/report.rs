//! How the experiment is made, and what is told of it.

use lab::SwitchKind;
use serde::{Deserialize, Serialize};
use units::Span;

use crate::Measurement;

/// At which shares of the rate without loss delays are told.
pub(super) const SHARES: [f64; 3] = [0.1, 0.5, 0.9];

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// What frames enter and leave by.
    pub ports: Ports,
    /// Bytes a frame, Ethernet header included, without checksum.
    pub sizes: Vec<u32>,
    /// How many flows all senders have together; each has one at least.
    pub flows: Vec<u16>,
    /// How many machines send to the one that receives.
    pub senders: Vec<u16>,
    /// How long each run lasts at least, in each round.
    pub duration: Span,
    /// How many frames each run has at least.
    pub frames: u64,
    /// The receiver takes one frame where it could take so many.
    pub slow_receiver: Option<u32>,
    /// Each load is carried a second time, beside a machine that is sent one in 16 buffers and
    /// takes nothing.
    pub stalled: bool,
    /// The share of its time for which somebody else wants the switch's core, if anybody does.
    pub disturb: Option<f64>,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What frames enter and leave by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ports {
    /// Rings in the memory of virtual machines.
    #[default]
    VhostUser,
}

/// What one switch carried of one load. Rates and times are medians of the rounds; counts are sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The switch.
    pub switch: SwitchKind,
    /// What frames entered and left by.
    pub ports: Ports,
    /// Bytes a frame.
    pub size: u32,
    /// How many flows all senders had together.
    pub flows: u16,
    /// How many machines sent.
    pub senders: u16,
    /// One in 16 of their buffers was for one more machine, which took nothing. Whatever is told is
    /// of the others, but for what the switch dropped, and its cycles.
    pub stalled: bool,
    /// Frames that arrived, in 10⁶ a second.
    pub mfps: f64,
    /// The same in the worst round and in the best.
    pub mfps_range: [f64; 2],
    /// What arrived, in 10⁹ bits a second.
    pub gbps: f64,
    /// Frames that the switch took from its senders.
    pub sent: u64,
    /// Different frames that arrived.
    pub received: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Frames that arrived again.
    pub duplicates: u64,
    /// Frames that arrived after a later one of their flow.
    pub out_of_order: u64,
    /// What the switch itself says it dropped.
    pub dropped: Dropped,
    /// Ticks of the time stamp counter that the switch was busy for each frame that it took.
    pub cycles_per_frame: Option<f64>,
    /// The share of its time in which the generator had something to do: near 1 it is what bounds
    /// the rate.
    pub generator_busy: f64,
    /// A cache line's round trip between the switch's core and the machines', in nanoseconds.
    pub round_trip_ns: Option<f64>,
    /// Frames that the switch took in a turn that found some.
    pub frames_per_turn: Option<f64>,
    /// The share of the switch's turns that found none.
    pub empty_turns: Option<f64>,
    /// Each round by itself: the hypervisor may move a core from one to the next.
    pub rounds: Vec<RoundFigures>,
    /// Frames that a slow receiver took, in 10⁶ a second.
    pub receiver_mfps: Option<f64>,
    /// The rate at which the switch lost none, in 10⁶ a second; none if there was no such rate.
    pub lossless_mfps: Option<f64>,
    /// How long frames were on their way.
    pub latency: Vec<Latency>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps
    /// none.
    pub balanced: Option<bool>,
}

/// What one round found. As of [`Throughput`], where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundFigures {
    /// Frames that arrived, in 10⁶ a second.
    pub mfps: f64,
    /// A cache line's round trip, just before.
    pub round_trip_ns: Option<f64>,
    /// Ticks a frame.
    pub cycles_per_frame: Option<f64>,
    /// Frames a turn.
    pub frames_per_turn: Option<f64>,
    /// The share of empty turns.
    pub empty_turns: Option<f64>,
    /// The generator's busy share.
    pub generator_busy: f64,
    /// How long 99 % of the frames were on their way at half of the rate without loss, in
    /// microseconds.
    pub p99_us: Option<f64>,
}

/// Frames that a switch counted as dropped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// Where they came in.
    pub ingress: u64,
    /// Where they were to go out.
    pub egress: u64,
}

/// How long frames were on their way, from being put into the sender's ring to being seen in the
/// receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The share of the rate without loss that was sent.
    pub load: f64,
    /// That, in 10⁶ frames a second.
    pub mfps: f64,
    /// Half of the frames took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 % of them.
    pub p99_us: f64,
    /// 99.9 % of them.
    pub p999_us: f64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Throughput>;

impl Config {
    /// Whether there is a stalled receiver each time that a load is carried: one after the other,
    /// as a machine's speed changes within minutes.
    pub fn times(&self) -> &'static [bool] {
        if self.stalled { &[false, true] } else { &[false] }
    }
}

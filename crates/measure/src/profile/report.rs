//! How the experiment is made, and what is told of it.

use lab::SwitchKind;
use serde::{Deserialize, Serialize};
use units::Span;

use super::cases::{Load, Tunnel, Underlay, Way, is_lossless};
use super::processors::{Bound, Busy};
use crate::Measurement;
use crate::stats::Quartiles;

/// TCP's congestion control.
pub const CONGESTION: &str = "cubic";

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// Where frames go.
    pub ways: Vec<Way>,
    /// What is put around them on the link. What a switch has no tunnel for is left out.
    pub tunnels: Vec<Tunnel>,
    /// How many other hosts frames go to by the link, one number after the other. Switches of which
    /// a lab joins two hosts alone are measured with one.
    pub far: Vec<u32>,
    /// How many processors switches, senders and receivers have together, one number after the
    /// other.
    pub cores: Vec<u32>,
    /// What is carried.
    pub loads: Vec<Load>,
    /// Bytes a frame, Ethernet header included, without checksum; of UDP frames.
    pub sizes: Vec<u32>,
    /// How many senders, or streams; one for each far host at least.
    pub senders: u32,
    /// How long each run lasts.
    pub duration: Span,
    /// How often each case has its turn.
    pub rounds: u32,
}

/// What one switch carries of one load on one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The switch.
    pub switch: SwitchKind,
    /// Where frames went.
    pub way: Way,
    /// What was around them on the link.
    pub tunnel: Tunnel,
    /// How many other hosts they went to; none within the host.
    pub far: u32,
    /// What was between hosts; none within the host.
    pub underlay: Option<Underlay>,
    /// How many processors switches, senders and receivers had together.
    pub cores: u32,
    /// What was carried.
    pub load: Load,
    /// Whether large segments and unfinished checksums reached the switch.
    pub offload: bool,
    /// Bytes a frame that passed the switch; of streams the mean.
    pub size: u32,
    /// Frames a second that were carried while at most 5 % were lost: the most of each round.
    pub fps: Quartiles,
    /// The same in 10⁹ bits of frames a second.
    pub gbps: Quartiles,
    /// What could do no more, in most rounds.
    pub bound_by: Bound,
    /// Whether the switch may carry more: it was not what could do no more.
    pub at_least: bool,
    /// Who ran for how much of the time while senders sent what they could: the median of each
    /// figure over all rounds.
    pub busy: Busy,
    /// The processors' time that the switch's threads took over a frame, in nanoseconds, where most
    /// were carried; none of a bridge, which has no threads.
    pub switch_ns_per_frame: Option<f64>,
    /// What was carried of what was sent, step by step; none of streams, which send what they can.
    pub curve: Vec<Step>,
    /// Frames that did not arrive, all rounds and steps together; of streams, those that switches
    /// lost.
    pub lost: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Whether the switches' own accounts held; none where they keep none.
    pub balanced: Option<bool>,
}

/// A rate, and what was carried of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What all senders together aimed at, in frames a second; none if as much as they could.
    pub target_fps: Option<f64>,
    /// What they sent, in the median round.
    pub sent_fps: f64,
    /// What arrived, in frames a second.
    pub carried_fps: Quartiles,
    /// The share of what was sent that did not arrive, in the median round.
    pub loss_ratio: f64,
}

/// The whole experiment, and the file that plans read.
pub type Report = Measurement<Config, Entry>;

impl Entry {
    /// Whether nothing may be lost.
    pub fn is_lossless(&self) -> bool {
        is_lossless(self.switch, self.way, self.tunnel)
    }
}

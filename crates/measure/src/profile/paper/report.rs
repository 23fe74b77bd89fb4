//! How the paper's measurement is repeated, and what is told of it.

use lab::SwitchKind;
use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

use super::super::cases::{Tunnel, Way, is_lossless};
use super::super::processors::{Bound, Busy};
use crate::Measurement;
use crate::stats::Boxplot;

/// Streams are told by parts of this length, if there are so many of them.
const PART: Span = Span::from_secs(1);
const PARTS: u64 = 20;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// Where frames go; in the paper from host to host alone.
    pub ways: Vec<Way>,
    /// What is put around them on the link. What a switch has no tunnel for is left out.
    pub tunnels: Vec<Tunnel>,
    /// Whether endpoints hand over large segments, to switches that take them.
    pub offload: bool,
    /// How many streams at the same time.
    pub streams: u32,
    /// How long they are.
    pub duration: Span,
    /// The sizes of files.
    pub downloads: Vec<Bytes>,
    /// How often each is downloaded.
    pub rounds: u32,
}

impl Config {
    /// The parts of the time by which streams are told: seconds, or twentieths of a short time.
    pub(super) fn part(&self) -> Span {
        PART.min(Span::from_nanos((self.duration.as_nanos() / PARTS).max(1)))
    }
}

/// What is carried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// TCP streams that last for a time, all together (figure 4).
    Streams,
    /// A file at a time, each by a connection of its own (figures 7 and 8).
    Download,
}

/// What one switch carried of streams, or of files of one size, on one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The switch.
    pub switch: SwitchKind,
    /// Where frames went.
    pub way: Way,
    /// What was around them on the link.
    pub tunnel: Tunnel,
    /// Whether large segments and unfinished checksums reached the switch.
    pub offload: bool,
    /// What was carried.
    pub load: Transfer,
    /// Bytes of a file; none of streams.
    pub bytes: Option<u64>,
    /// Payload in 10⁹ bits a second: of all streams in each part of the time, or of each download
    /// from before its connection was opened to its end.
    pub gbps: Boxplot,
    /// What could do no more: while streams lasted, or in most downloads.
    pub bound_by: Bound,
    /// Whether the switch may carry more: it was not what could do no more.
    pub at_least: bool,
    /// Who ran for how much of the time: of downloads the median of each figure.
    pub busy: Busy,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Frames that switches lost.
    pub lost: u64,
    /// Whether the switches' own accounts held; none where they keep none.
    pub balanced: Option<bool>,
}

impl Carried {
    /// Whether nothing may be lost.
    pub fn is_lossless(&self) -> bool {
        is_lossless(self.switch, self.way, self.tunnel)
    }
}

/// The whole experiment.
pub type Report = Measurement<Config, Carried>;

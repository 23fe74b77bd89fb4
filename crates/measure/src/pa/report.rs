//! What is told of the experiment, and under which conditions it was found.

use std::fmt;
use std::str::FromStr;

use lab::{EndpointSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use traffic::TimesUs;
use units::Span;

use super::flow_control::FlowControl;
use crate::{MeasureError, is_lossless};

/// What is compared: a switch or, on a testbed, where flow control is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The switch.
    pub switch: SwitchKind,
    /// Where flow control is on; none where there is but one switch.
    pub flow_control: Option<FlowControl>,
}

/// Flows beside the queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundFlows {
    /// What their sizes are called.
    pub name: String,
    /// The cumulative distribution of their sizes: bytes and probability.
    pub sizes: Vec<(f64, f64)>,
    /// The mean pause of an endpoint between two flows; pauses are exponential.
    pub gap: Span,
}

/// How the endpoints' TCP repairs losses.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Era {
    /// As when the paper was written: no tail loss probe, no RACK, no selective acknowledgement, an
    /// initial window of 3 segments (RFC 3390; RFC 6928's 10 was new).
    #[serde(rename = "2013")]
    Paper,
    /// As this kernel does by itself.
    #[serde(rename = "today")]
    Today,
}

/// One subject, one congestion control, one era, one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// TCP's congestion control.
    pub tcp: String,
    /// How TCP repairs losses.
    pub era: Era,
    /// What each worker answers, in full segments.
    pub response_segments: u64,
    /// The same in bytes.
    pub response_bytes: u64,
    /// Queries that were completed.
    pub queries: u64,
    /// How long they took, in microseconds: from just before the first request to the last byte.
    pub fct_us: TimesUs,
    /// What they would take if the aggregator's port never rested: all frames of all responses over
    /// its rate.
    pub ideal_us: Option<f64>,
    /// Segments that were sent again on the queries' connections, handshakes aside.
    pub retransmits: u64,
    /// Retransmission timers that fired there; none if the kernel does not tell (Linux does since
    /// 6.7).
    pub timeouts: Option<u64>,
    /// Frames that left an endpoint and reached none.
    pub lost: u64,
    /// Frames that the switch between hosts dropped, which hosts may have sent again; none where
    /// there is no such switch.
    pub dropped_between_hosts: Option<u64>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps
    /// none.
    pub balanced: Option<bool>,
    /// How many times sooner than with the baseline.
    pub gain_over: Option<Gain>,
    /// Background flows that were completed meanwhile.
    pub background_flows: u64,
    /// Completion times that 0, 1, 2, … 100 % of the queries did not exceed, in microseconds.
    pub percentiles_us: Vec<f64>,
}

/// A comparison with the baseline under the same conditions: its time over ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The baseline.
    #[serde(flatten)]
    pub over: Subject,
    /// Of the means.
    pub mean: f64,
    /// Of the medians.
    pub p50: f64,
    /// Of the 99th percentiles.
    pub p99: f64,
}

impl Subject {
    /// Whether it promises to lose nothing.
    pub fn is_lossless(&self) -> bool {
        self.flow_control.map_or(is_lossless(self.switch), FlowControl::is_lossless)
    }
}

impl From<SwitchKind> for Subject {
    fn from(switch: SwitchKind) -> Self {
        Self { switch, flow_control: None }
    }
}

impl From<FlowControl> for Subject {
    fn from(flow_control: FlowControl) -> Self {
        Self { switch: flow_control.switch(), flow_control: Some(flow_control) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flow_control {
            Some(flow_control) => flow_control.fmt(f),
            None => self.switch.fmt(f),
        }
    }
}

impl Era {
    pub(super) fn apply(self, endpoint: &mut EndpointSpec) {
        let mut set = |name: &str, value: &str| {
            endpoint.sysctls.insert(format!("net.ipv4.{name}"), value.into());
        };
        // What one run learned of a path is not the next one's business.
        set("tcp_no_metrics_save", "1");
        if self == Self::Paper {
            set("tcp_early_retrans", "0");
            set("tcp_recovery", "0");
            set("tcp_sack", "0");
            endpoint.initcwnd = Some(3);
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Paper => "2013",
            Self::Today => "today",
        })
    }
}

impl FromStr for Era {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        match text {
            "2013" => Ok(Self::Paper),
            "today" => Ok(Self::Today),
            _ => Err(MeasureError::Config(format!(
                "`{text}` is no era of TCP: write 2013, today or both"
            ))),
        }
    }
}

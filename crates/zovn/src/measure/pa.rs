//! `zovn measure pa`, as it is asked for.

use std::str::FromStr;

use lab::{LabSpec, SwitchKind};
use measure::MeasureError;
use measure::pa::{self, BackgroundFlows, Era, FlowControl, Testbed};
use traffic::{Cdf, Known};
use units::{Rate, Span};

use super::common::{CONTAINERS, Common};

/// What is asked, of whom, and where.
#[derive(clap::Args)]
pub struct PaArgs {
    #[command(flatten)]
    pub common: Common,
    /// How many workers answer each query.
    #[arg(long, default_value_t = 31)]
    workers: u32,
    /// How many aggregators ask, each for itself and all at the same time.
    #[arg(long, default_value_t = 1)]
    aggregators: u32,
    /// What each worker answers, in full segments (1448 B).
    #[arg(long, value_delimiter = ',', default_value = "2,4,16,64")]
    sizes: Vec<u64>,
    /// Queries of each aggregator.
    #[arg(long, default_value_t = 500)]
    queries: u64,
    /// TCP's congestion control: cubic, reno, bbr.
    #[arg(long, value_delimiter = ',', default_value = "cubic")]
    tcp: Vec<String>,
    /// How TCP repairs losses: as this kernel does, or as in 2013 (no tail loss probe, RACK or
    /// selective acknowledgement; an initial window of 3 segments).
    #[arg(long, value_name = "2013|today|both", default_value = "today")]
    tcp_era: Eras,
    /// Make it between hosts: on testbed1 or testbed2 of the zOVN paper, or on those of a lab file
    /// that has hosts (docs/lab.md). Compared is what flow control does.
    #[arg(long, value_name = "TESTBED", conflicts_with_all = ["switches", "baseline", "rate", "buffer"])]
    lab: Option<String>,
    /// With --lab: where flow control is on, in the virtual network and in the physical one (L:
    /// lossy, Z: zero loss); and whether hosts send again what the physical one dropped. The others
    /// are compared with LL, or with the first.
    #[arg(
        long = "flow-control",
        value_name = "LL|LZ|ZL|ZZ|ZL+retransmit",
        value_delimiter = ',',
        default_value = "LL,LZ,ZL,ZZ,ZL+retransmit",
        requires = "lab"
    )]
    flow_controls: Vec<FlowControl>,
    /// Every port's rate towards its endpoint, or none.
    #[arg(long, default_value = "1gbit")]
    rate: Bound<Rate>,
    /// How many frames wait for a port at most, or none for the switch's own choice.
    #[arg(long, value_name = "FRAMES", default_value = "32")]
    buffer: Bound<u32>,
    /// Cut every segment at its endpoint, so that the switch sees frames of the MTU only (with Open
    /// vSwitch always).
    #[arg(long)]
    no_offload: bool,
    /// The pause between a completed query and the next.
    #[arg(long, default_value = "0s")]
    think: Span,
    /// Flows beside the queries, with sizes of web-search (if nothing is named), data-mining,
    /// hadoop, storage or a file of `bytes probability` lines.
    #[arg(long, value_name = "DISTRIBUTION", num_args = 0..=1, default_missing_value = "web-search")]
    background: Option<String>,
    /// The mean pause of each endpoint between two such flows.
    #[arg(long, value_name = "SPAN", default_value = "100ms")]
    background_gap: Span,
    /// The switch that the others are compared with; the first one if left out.
    #[arg(long, value_name = "SWITCH")]
    baseline: Option<SwitchKind>,
    /// How often each switch has its turn; the queries are shared among the rounds.
    #[arg(long, default_value_t = 2)]
    rounds: u32,
}

impl PaArgs {
    /// The same as the experiment is told.
    pub fn config(&self) -> Result<pa::Config, MeasureError> {
        let testbed = self.lab.as_ref().map(|word| self.testbed(word)).transpose()?;
        let mut switches = self.common.switches(&CONTAINERS);
        let (mut rate, mut buffer, mut offload) = (self.rate.0, self.buffer.0, true);
        if let Some(testbed) = &testbed {
            switches = testbed.flow_controls.iter().map(|it| it.switch()).collect();
            switches.sort();
            switches.dedup();
            // What a testbed's machines have is its file's to say; the one that asks stands for
            // all.
            let asking = testbed.lab.endpoints.first();
            (rate, buffer) = asking.map_or((None, None), |asking| (asking.rate, asking.buffer));
            offload = testbed.lab.offload;
        }
        let background = match &self.background {
            None => None,
            Some(name) => {
                let sizes = match name.parse::<Known>() {
                    Ok(known) => known.points().to_vec(),
                    Err(unknown) => {
                        let text = std::fs::read_to_string(name).map_err(|error| {
                            let what =
                                format!("{unknown}, or name a file; `{name}` is none: {error}");
                            MeasureError::Config(what)
                        })?;
                        let cdf = Cdf::parse(&text)
                            .map_err(|error| MeasureError::Config(error.to_string()))?;
                        cdf.points().to_vec()
                    }
                };
                Some(BackgroundFlows { name: name.clone(), sizes, gap: self.background_gap })
            }
        };
        Ok(pa::Config {
            workers: self.workers,
            aggregators: self.aggregators,
            sizes: self.sizes.clone(),
            queries: self.queries,
            tcp: self.tcp.clone(),
            eras: self.tcp_era.0.clone(),
            rate,
            buffer,
            offload: offload && !self.no_offload,
            think: self.think,
            background,
            baseline: self.baseline.unwrap_or(switches[0]),
            switches,
            rounds: self.rounds,
            testbed,
        })
    }

    fn testbed(&self, word: &str) -> Result<Testbed, MeasureError> {
        let flow_controls = self.flow_controls.clone();
        let none =
            flow_controls.iter().find(|it| **it == FlowControl::NONE).or(flow_controls.first());
        let baseline = none.copied().unwrap_or(FlowControl::NONE);
        Ok(Testbed { lab: LabSpec::find(word)?, flow_controls, baseline })
    }
}

/// An era, or both.
#[derive(Clone)]
struct Eras(Vec<Era>);

impl FromStr for Eras {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        match text {
            "both" => Ok(Self(vec![Era::Paper, Era::Today])),
            era => Ok(Self(vec![era.parse()?])),
        }
    }
}

/// A bound, or the word `none`.
#[derive(Clone, Copy)]
struct Bound<T>(Option<T>);

impl<T: FromStr> FromStr for Bound<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|bound| Self(Some(bound))) }
    }
}

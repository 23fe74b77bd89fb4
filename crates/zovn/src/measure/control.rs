//! `zovn measure control`: its flags.

use measure::control::{self, Config};

use super::common::Output;
use crate::ending::Outcome;

#[derive(clap::Args)]
pub struct ControlArgs {
    #[command(flatten)]
    output: Output,
    /// How many hosts, with 21 ports each: 10 to 10,000.
    #[arg(long, default_value_t = 3_000)]
    hosts: u32,
    /// What chance begins with: the same number has the same ports at the same hosts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often each change is made; the median is told.
    #[arg(long, default_value_t = 21)]
    rounds: u32,
    /// Encrypt all connections (TLS 1.3): agents have certificates, and who declares has a token.
    #[arg(long)]
    tls: bool,
    /// A tenth of it: --hosts 300.
    #[arg(long, conflicts_with = "hosts")]
    quick: bool,
}

impl ControlArgs {
    /// Makes the experiment.
    pub fn run(self) -> Outcome {
        let hosts = if self.quick { 300 } else { self.hosts };
        let config = Config { hosts, seed: self.seed, rounds: self.rounds, tls: self.tls };
        self.output.make(|bench| control::run(bench, config))
    }
}

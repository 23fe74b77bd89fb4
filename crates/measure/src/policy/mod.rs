//! What policy costs: frames between two virtual machines, or two containers, through a logical
//! switch, through rules, through connection tracking, through a router, through its translations.
//!
//! ```text
//!   machines:    a ── vhost-user ──▶ zovn, or Open vSwitch with DPDK ── vhost-user ──▶ b
//!                └────────────────────── Ends, one core ─────────────────────────────┘
//!   containers:  a's program ── TAP ──▶ zovn ── TAP ──▶ b's program
//!                a's program ── veth ─▶ the kernel's bridge, nftables ── veth ─▶ b's program
//! ```
//!
//! All switches are told the same (`rules.rs`, `nft.rs`), and `b` has the rules. All have their
//! turn at a path, then at the next, and all of that round after round.

mod accept;
mod bridge;
mod cases;
mod containers;
mod ends;
mod frames;
mod generation;
mod machines;
mod nft;
mod report;
mod rounds;
mod rules;
mod segments;

use self::cases::{What, check, loads, paths};
use self::rounds::Round;
use crate::{Bench, Environment, MeasureError, Measurement};

pub use report::{Config, Delay, Load, Policed, Ports, Report, Through};

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut all: Vec<_> = paths(&config)
        .into_iter()
        .map(|path| {
            let loads = loads(&config, &path).into_iter().map(|what| (what, Vec::new()));
            (path, loads.collect::<Vec<(What, Vec<Round>)>>())
        })
        .filter(|(_, loads)| !loads.is_empty())
        .collect();
    let steps: usize = all.iter().map(|(_, loads)| loads.len()).sum();
    bench.progress.begin(steps * config.rounds as usize);
    let carry = match config.ports {
        Ports::VhostUser => machines::carry,
        Ports::Container => containers::carry,
    };
    for round in 0..config.rounds {
        for (path, loads) in &mut all {
            // What a switch carries first it carries a few percent faster: each load has its turn
            // at that.
            let first = round as usize % loads.len();
            loads.rotate_left(first);
            carry(bench, path, loads, &config)?;
            loads.rotate_right(first);
        }
    }
    let results = all
        .iter()
        .flat_map(|(path, loads)| {
            loads.iter().map(|(what, rounds)| rounds::told(path, *what, rounds))
        })
        .collect();
    Ok(Measurement::new("policy", environment, config, results))
}

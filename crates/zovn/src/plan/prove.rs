//! `zovn plan prove`: the risk of a placement once more, in another way.

use clap::ValueEnum;
use figures::count;
use planner::proof::{Drawn, by_monte_carlo};

use super::files::Files;
use super::words::{ending, hosts};
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Find the risk of the placement once more in another way, and compare.
///
/// Exit code 1 if a host's two figures contradict each other.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// In which way.
    #[arg(long, value_enum)]
    by: Way,
    /// How often states are drawn, for each host that differs from others.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = within(1000..=u64::MAX))]
    draws: u64,
    /// The seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// States of all machines are drawn, and what they ask for is added up.
    MonteCarlo,
}

/// Compares, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let drawn = match args.by {
            Way::MonteCarlo => by_monte_carlo(plan, args.draws, args.seed),
        };
        show(&drawn, args.json, || table(&drawn, args.draws))?;
        Ok(ending(drawn.iter().all(|it| it.agrees)))
    })
}

fn table(drawn: &[Drawn], draws: u64) -> String {
    let mut table = headed(["hosts", "computed", "drawn", "by the draws at most", "agree"]);
    for it in drawn {
        table.add_row([
            hosts(&it.hosts),
            it.computed.to_string(),
            figures::percent(it.drawn),
            it.interval.to_string(),
            if it.agrees { "yes" } else { "no" }.to_owned(),
        ]);
    }
    format!("{}\n\n{} draws each", text(table), count(draws))
}

//! `zovn guest` by itself, for virtual machines that have no use for the rest of zovn.

use std::process::ExitCode;

use clap::Parser;

/// Tell the switch what room this machine's UDP sockets have.
#[derive(Parser)]
#[command(name = "zovn-guest", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: guest::Args,
}

fn main() -> ExitCode {
    guest::run(&Cli::parse().args).unwrap_or_else(|error| {
        eprintln!("zovn-guest: {error}");
        ExitCode::FAILURE
    })
}

//! `zovn-agent`: what `zovn agent` is, and nothing else.

use std::process::ExitCode;

use clap::Parser;
use zovn_agent::{Args, USAGE, is_usage, run, sentence};

/// A host's switch alone.
#[derive(Parser)]
#[command(name = "zovn-agent", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn main() -> ExitCode {
    run(Cli::parse().args).unwrap_or_else(|error| {
        eprintln!("zovn-agent: {}", sentence(error.as_ref()));
        if is_usage(error.as_ref()) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
    })
}

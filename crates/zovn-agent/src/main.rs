//! `zovn-agent`: what `zovn agent` is, and nothing else.

use std::process::ExitCode;

use clap::Parser;
use zovn_agent::{Args, VERSION, end, is_usage, run};

/// A host's switch alone.
#[derive(Parser)]
#[command(name = "zovn-agent", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn main() -> ExitCode {
    let outcome = run(Cli::parse().args);
    outcome.unwrap_or_else(|error| end("zovn-agent", error.as_ref(), is_usage(error.as_ref())))
}

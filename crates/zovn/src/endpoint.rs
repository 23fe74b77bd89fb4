//! `zovn endpoint`: a program inside a lab's namespace, started and driven by `zovn measure`.

use std::process::ExitCode;

use crate::ending::Outcome;

/// What the program does.
#[derive(clap::Args)]
pub struct Args {
    /// The role, as JSON.
    role: String,
}

/// Plays the role. What went wrong is told to the parent, as the last line on stdout.
pub fn run(args: Args) -> Outcome {
    let code: ExitCode = measure::endpoint::run(&args.role);
    Ok(code)
}

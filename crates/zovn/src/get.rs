//! `zovn get`: what an agent has been told.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use api::Client;
use clap::Subcommand;

use crate::ending::{Outcome, print_json};
use crate::networks;

const EXAMPLES: &str = "\
Examples:
  zovn get networks                          a line for each member
  zovn get networks | grep 10.0.0.7          where that machine is";

/// Show what an agent has been told.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The virtual networks, and where each of their members is.
    Networks(Source),
}

#[derive(clap::Args)]
struct Source {
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = api::DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// Shows what an agent has.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Networks(Source { socket, json }) => {
            let status = Client::new(socket)?.networks()?;
            show(&status, json, || networks::table(&status))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints it as JSON, or as a table.
fn show(
    value: &impl serde::Serialize,
    json: bool,
    table: impl FnOnce() -> String,
) -> io::Result<()> {
    if json { print_json(value) } else { writeln!(io::stdout(), "{}", table()) }
}

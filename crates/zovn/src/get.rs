//! `zovn get`: what an agent has been told.

use std::path::PathBuf;
use std::process::ExitCode;

use api::Client;
use clap::Subcommand;

use crate::ending::{Outcome, show};
use crate::{networks, ports};

const EXAMPLES: &str = "\
Examples:
  zovn get ports                             a line for each port
  zovn get ports --json | jq -r '.[].name'   their names, for scripts
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
    /// The ports, what they are attached to, and their settings.
    Ports(Source),
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
        What::Ports(Source { socket, json }) => {
            let ports = Client::new(socket)?.ports()?;
            show(&ports, json, || ports::table(&ports))?;
        }
        What::Networks(Source { socket, json }) => {
            let status = Client::new(socket)?.networks()?;
            show(&status, json, || networks::table(&status))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `zovn get`: what an agent has been told.

use std::process::ExitCode;

use clap::Subcommand;

use crate::client::AnswerArgs;
use crate::ending::Outcome;
use crate::{logical, networks, ports};

const EXAMPLES: &str = "\
Examples:
  zovn get ports                             a line for each port
  zovn get ports --json | jq -r '.[].name'   their names, for scripts
  zovn get networks                          a line for each member
  zovn get networks | grep 10.0.0.7          where that machine is
  zovn get logical                           a line for each port of logical networks";

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
    Ports(AnswerArgs),
    /// The virtual networks, where each of their members is, and what terms they have.
    Networks(AnswerArgs),
    /// The logical networks: their machines' ports, which of them are here, what was refused and
    /// why, and all objects.
    Logical(AnswerArgs),
}

/// Shows what an agent has.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Ports(answer) => {
            let ports = answer.client()?.ports()?;
            answer.show(&ports, || ports::table(&ports))?;
        }
        What::Networks(answer) => {
            let status = answer.client()?.networks()?;
            answer.show(&status, || networks::table(&status))?;
        }
        What::Logical(answer) => {
            let status = answer.client()?.logical()?;
            answer.show(&status, || logical::table(&status))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

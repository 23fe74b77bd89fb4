//! `zovn delete`: takes away what an agent has been told.

use clap::Subcommand;

use crate::ending::Outcome;
use crate::networks;

const EXAMPLES: &str = "\
Examples:
  zovn delete network blue                   the agent keeps the others
  zovn delete network blue --dry-run         only say whether it can be removed

`zovn detach` takes a port away.";

/// Remove a virtual network from an agent; the others stay.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Network(networks::DeleteArgs),
}

/// Removes what is named.
pub fn run(args: Args) -> Outcome {
    let What::Network(args) = args.what;
    networks::delete(args)
}

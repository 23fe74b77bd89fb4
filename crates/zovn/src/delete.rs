//! `zovn delete`: takes away what an agent has been told, or a controller keeps.

use clap::Subcommand;

use crate::ending::Outcome;
use crate::{networks, objects};

const EXAMPLES: &str = "\
Examples:
  zovn delete network blue                   the agent keeps the others
  zovn delete network blue --dry-run         only say whether it can be removed
  zovn delete object LogicalPort/shop/web-1  the controller of `zovn context use` keeps the others
  zovn delete object LogicalSwitch/shop/web --cascade --dry-run
                                             what would go with it, as it needs it

`zovn detach` takes a port away.";

/// Remove a virtual network from an agent, or an object from a controller; the others stay.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Network(networks::DeleteArgs),
    Object(objects::delete::Args),
}

/// Removes what is named.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Network(args) => networks::delete(args),
        What::Object(args) => objects::delete::run(&args),
    }
}

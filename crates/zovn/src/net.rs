//! `zovn net`: logical networks as files, with nothing running.

mod check;
mod files;
mod packet;
mod test;
mod trace;

use clap::Subcommand;

use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn net check examples/shop.yaml                all faults at once, with line and column
  zovn net trace examples/shop.yaml --from web-1 --to 10.0.2.1 --tcp 5432
  zovn net trace examples/shop.yaml --from web-1 --to db-1 --udp 53 --json
  zovn net test cases/*.yaml                       what networks must do, case by case
  zovn net test cases/acl-stateful.yaml --case only-what-was-asked-comes-back --json

docs/net.md shows each; docs/cases.md says how cases are written.";

/// Check, trace and test logical networks that are files.
///
/// Nothing has to run, and root is not needed.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Trace(trace::Args),
    Test(test::Args),
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Check(args) => check::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Test(args) => test::run(&args),
    }
}

//! `zovn net`: logical networks as files, with nothing running.

mod check;
pub mod files;
mod matrix;
mod on_lab;
pub mod packet;
mod prove;
mod test;
pub mod trace;

use clap::Subcommand;

use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn net check examples/shop.yaml                all faults at once, with line and column
  zovn net trace examples/shop.yaml --from web-1 --to 10.0.2.1 --tcp 5432
  zovn net trace examples/shop.yaml --from web-1 --to db-1 --udp 53 --json
  zovn net matrix examples/shop.yaml               who reaches whom, by which rule
  zovn net matrix new.yaml --base old.yaml --html reach.html
  zovn net prove examples/shop.yaml 'group web-servers reaches port db-1 by tcp 5432'
  zovn net prove examples/shop.yaml 'outside never reaches switch db'
  zovn net test cases/*.yaml                       what networks must do, case by case
  zovn net test cases/acl-stateful.yaml --case only-what-was-asked-comes-back --json
  zovn net test cases/*.yaml --on interpreter,pipeline,lab

docs/net.md shows each; docs/cases.md says how cases are written.";

/// Check, trace, test and prove logical networks that are files.
///
/// Nothing has to run, and root is needed only to test on real hosts (`zovn net test --on lab`).
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
    Matrix(matrix::Args),
    Prove(prove::Args),
    Test(test::Args),
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Check(args) => check::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Matrix(args) => matrix::run(args),
        Command::Prove(args) => prove::run(&args),
        Command::Test(args) => test::run(&args),
    }
}

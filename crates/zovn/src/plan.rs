//! `zovn plan`: how many machines hosts carry, with a probability.

mod bench;
mod buy;
mod check;
mod experiment;
mod files;
mod fit;
mod migrate;
mod page;
mod place;
mod prove;
mod risk;
mod serve;
mod why;
mod words;

use clap::Subcommand;

use crate::ending::Outcome;

const EXAMPLES: &str = "\
Examples:
  zovn plan check examples/plan/plan.yaml                all faults at once, with line and column
  zovn plan fit examples/plan/db.csv --out models.yaml   states of a trace, and why not to trust them
  zovn plan fit --prometheus http://127.0.0.1:9090 --query zovn_port_bytes_total --packets zovn_accepted_frames_total --by instance,port --from SECONDS --out models.yaml
  zovn plan fit web.csv db.csv --busy --utc-offset +02:00 --out models.yaml
  zovn plan place examples/plan/plan.yaml --out placement.yaml
  zovn plan place examples/plan/plan.yaml --algorithm network-aware
  zovn plan risk examples/plan/plan.yaml --with placement.yaml
  zovn plan why examples/plan/plan.yaml backup b-1 --with examples/plan/today.yaml
  zovn plan why examples/plan/plan.yaml backup --with examples/plan/today.yaml
  zovn plan move examples/plan/plan.yaml --with examples/plan/today.yaml
  zovn plan move plan.yaml --with today.yaml --history moves.json        again and again, by cron
  zovn plan buy examples/plan/plan.yaml --html offers.html
  zovn plan prove examples/plan/plan.yaml --by monte-carlo --with placement.yaml
  zovn plan prove examples/plan/plan.yaml --by sim --with placement.yaml   each host, frame by frame
  zovn plan prove here.yaml --by lab --with placement.yaml    a host's machines at a real switch
  zovn plan prove here.yaml --by lab --mixes 40               a profile, held against demands
  zovn plan serve -c examples/plan/plan.yaml --with examples/plan/today.yaml --with examples/plan/serve.yaml
  zovn plan bench

docs/planning.md goes from traces to a purchase; docs/planner.md says what the figures mean.";

/// Plan how many machines hosts carry before their switches are asked for too much.
///
/// Nothing has to run, and nothing is measured: a file says what switches carry and what machines
/// ask for. Only `prove --by lab` has a switch run, on this machine.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Fit(Box<fit::Args>),
    Place(place::Args),
    Risk(risk::Args),
    Why(why::Args),
    Move(migrate::Args),
    Buy(buy::Args),
    Prove(prove::Args),
    Serve(serve::Args),
    Bench(bench::Args),
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Check(args) => check::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Risk(args) => risk::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Move(args) => migrate::run(&args),
        Command::Buy(args) => buy::run(&args),
        Command::Prove(args) => prove::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Bench(args) => bench::run(&args),
    }
}

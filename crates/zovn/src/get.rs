//! `zovn get`: what an agent has been told, or a controller keeps.

use std::cmp::Reverse;
use std::process::ExitCode;

use clap::Subcommand;
use model::PortName;

use crate::client::AnswerArgs;
use crate::ending::Outcome;
use crate::{logical, networks, objects, ports, seen};

const EXAMPLES: &str = "\
Examples:
  zovn get ports                             a line for each port
  zovn get ports --json | jq -r '.[].name'   their names, for scripts
  zovn get networks                          a line for each member
  zovn get networks | grep 10.0.0.7          where that machine is
  zovn get logical                           a line for each port of logical networks
  zovn get rules                             which rules admit and refuse how much
  zovn get rules --port shop/db-1 --json | jq -r '.[] | select(.refused.frames > 0).rule'
  zovn get connections --port shop/web-1     which connections are followed, and how far they are
  zovn get backends                          which backends of load balancers serve
  zovn get neighbours                        where routers have found whom nobody declares
  zovn get refusals                          what was refused last, and by which rule
  zovn get objects logical-ports             what the controller of `zovn context use` keeps
  zovn get objects LogicalPort/shop/web-1 --context prod
  zovn get objects --tenant shop --yaml >shop.yaml          as a file that `zovn apply -f` takes";

/// Show what an agent has been told, or a controller keeps.
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
    /// The rules of logical networks: what each has admitted and refused on this host, the busiest
    /// first.
    Rules(RulesArgs),
    /// The connections of logical ports of this host: their ends, how far they are, which rule
    /// admitted them, and for how long they are remembered.
    Connections(ConnectionsArgs),
    /// The last frames that logical networks have refused: when, why, by which rule of which
    /// generation; the last one first.
    Refusals(AnswerArgs),
    /// The backends of load balancers with health checks: which are up, and which this host checks.
    Backends(AnswerArgs),
    /// The neighbours of this host's routers that nobody declares: where each was heard, and how
    /// many packets wait for it.
    Neighbours(AnswerArgs),
    /// The objects of a kind that a controller keeps, or one of them.
    Objects(objects::get::Args),
}

/// Which rules.
#[derive(clap::Args)]
struct RulesArgs {
    /// Only those that hold for this port: the host's, or the logical one, as `shop/web-1`.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Which connections.
#[derive(clap::Args)]
struct ConnectionsArgs {
    /// Only those of this port: the host's, or the logical one, as `shop/web-1`.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Shows what an agent has.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Objects(args) => return objects::get::run(&args),
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
        What::Rules(RulesArgs { port, answer }) => {
            let mut rules = answer.client()?.rules(port.map(PortName).as_ref())?;
            rules.sort_by_key(|it| Reverse(it.admitted.frames + it.refused.frames));
            answer.show(&rules, || seen::rules(&rules))?;
        }
        What::Connections(ConnectionsArgs { port, answer }) => {
            let client = answer.client()?;
            let all = seen::connections(&client, port.map(PortName))?;
            answer.show(&all, || seen::connections_table(&all))?;
        }
        What::Refusals(answer) => {
            let all = seen::refusals(answer.client()?.ports()?);
            answer.show(&all, || seen::refusals_table(&all))?;
        }
        What::Backends(answer) => {
            let logical = answer.client()?.status()?.logical;
            let all = logical.map(|it| it.backends).unwrap_or_default();
            answer.show(&all, || seen::backends(&all))?;
        }
        What::Neighbours(answer) => {
            let logical = answer.client()?.status()?.logical;
            let all = logical.map(|it| it.neighbours).unwrap_or_default();
            answer.show(&all, || seen::neighbours(&all))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

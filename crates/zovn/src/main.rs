//! One binary: flags in, a shell out.
//!
//! Every command is a module with its flags (`Args`) and a `run` that does the work and says how it
//! ended. What went wrong is told here, in one sentence on stderr:
//!
//! ```text
//! argv ─▶ clap ─▶ command ─▶ 0  done
//!           │        ├─────▶ 1  failed: `zovn: what: why: and why that`
//!           └────────┴─────▶ 2  not understood: usage
//! ```
//!
//! A reader that closes our stdout early (`zovn top --json | head -1`) has had enough: that is no
//! failure.

mod capture;
mod client;
mod completion;
mod container;
mod context;
mod controller;
mod delete;
mod demo;
mod ending;
mod endpoint;
mod explain;
mod fabric;
mod get;
mod handover;
mod lab;
mod logical;
mod manual;
mod measure;
mod memory;
mod net;
mod networks;
mod nlog;
mod number;
mod objects;
mod pings;
mod plan;
mod ports;
mod progress;
mod seen;
mod signals;
mod sim;
mod table;
mod top;
mod trace;

use std::error::Error;
use std::process::ExitCode;

use ::lab::LabError;
use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

/// A zero-loss virtual switch for containers, and what measures it against its peers.
#[derive(Parser)]
#[command(name = "zovn", version = zovn_agent::VERSION, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    // A command that is not described here is described, at more length, by its flags.
    #[command(after_long_help = zovn_agent::EXAMPLES)]
    Agent(zovn_agent::Args),
    Top(top::Args),
    Attach(Box<ports::AttachArgs>),
    Set(ports::SetArgs),
    Detach(ports::DetachArgs),
    HandOver(handover::HandOverArgs),
    TakeOver(handover::TakeOverArgs),
    Apply(networks::ApplyArgs),
    Delete(delete::Args),
    Get(get::Args),
    Describe(objects::describe::Args),
    Diff(objects::diff::Args),
    Wait(objects::wait::Args),
    Watch(objects::watch::Args),
    Whoami(objects::whoami::Args),
    Context(context::Args),
    Capture(capture::Args),
    Trace(trace::Args),
    Explain(Box<explain::Args>),
    Controller(controller::Args),
    Guest(guest::Args),
    Lab(lab::Args),
    Measure(measure::Args),
    Sim(sim::Args),
    Net(net::Args),
    Nlog(nlog::Args),
    Plan(plan::Args),
    Demo(demo::Args),
    Completion(manual::CompletionArgs),
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// A program inside a lab's namespace, driven by its parent.
    #[command(hide = true)]
    Endpoint(endpoint::Args),
    #[command(hide = true)]
    Fabric(fabric::Args),
}

fn main() -> ExitCode {
    if completion::answered(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let outcome = match Cli::parse().command {
        Command::Agent(args) => zovn_agent::run(args),
        Command::Top(args) => top::run(args),
        Command::Attach(args) => ports::attach(*args),
        Command::Set(args) => ports::set(args),
        Command::Detach(args) => ports::detach(args),
        Command::HandOver(args) => handover::hand_over(args),
        Command::TakeOver(args) => handover::take_over(args),
        Command::Apply(args) => networks::apply(args),
        Command::Delete(args) => delete::run(args),
        Command::Get(args) => get::run(args),
        Command::Describe(args) => objects::describe::run(&args),
        Command::Diff(args) => objects::diff::run(&args),
        Command::Wait(args) => objects::wait::run(&args),
        Command::Watch(args) => objects::watch::run(&args),
        Command::Whoami(args) => objects::whoami::run(&args),
        Command::Context(args) => context::run(args),
        Command::Capture(args) => capture::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Controller(args) => controller::run(args),
        Command::Guest(args) => guest::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Measure(args) => measure::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Net(args) => net::run(args),
        Command::Nlog(args) => nlog::run(&args),
        Command::Plan(args) => plan::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completion(args) => manual::completion(args),
        Command::Man(args) => manual::man(args, Cli::command()),
        Command::Endpoint(args) => endpoint::run(args),
        Command::Fabric(args) => fabric::run(args),
    };
    outcome
        .unwrap_or_else(|error| zovn_agent::end("zovn", error.as_ref(), is_usage(error.as_ref())))
}

/// Whether what was asked for cannot be: a file says it, as flags might.
fn is_usage(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(LabError::Toml { .. } | LabError::Spec { .. }))
        || error.is::<objects::WrongFiles>()
        || zovn_agent::is_usage(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_are_of_the_types_of_their_fields() {
        for line in [
            "capture --snap 60 --count 5",
            "set web --class 3 --quota 5 --egress 5 --ingress 5",
            "sim bench --queries 5 --rounds 2",
            "sim run a.toml --seed 1 --threads 2",
            "trace --port web --to 10.0.0.2 --class 3 --vlan 7 --size 100",
        ] {
            let words = std::iter::once("zovn").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }
}

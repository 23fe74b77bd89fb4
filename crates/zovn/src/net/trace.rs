//! `zovn net trace`: what becomes of a packet in a network that is a file.

use std::path::PathBuf;
use std::process::ExitCode;

use interpreter::{Arrival, Decision, Refusal, State, Step, decide};
use logical::Topology;
use model::{PacketEnds, PacketOutcome, PacketRefused, PacketStep, PacketTrace};
use units::Instant;

use super::files::{complain, load};
use super::packet::Words;
use crate::ending::{Outcome, USAGE, show};
use crate::table::{bare, text};

/// The exit code if the packet would be refused.
const REFUSED: u8 = 3;

/// Tell what becomes of a packet, step by step: the object, the rule, the rewrite, the verdict.
///
/// The packet is the first of a connection, as the machine would send it. Exit code 0 if somebody
/// gets it or the network answers it, 3 if it is refused, 2 if the file is wrong, 1 if it cannot be
/// read.
#[derive(clap::Args)]
pub struct Args {
    /// The network's files (YAML or JSON); `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    packet: Words,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What was decided, as it is told.
fn report(topology: &Topology, decision: Decision) -> PacketTrace {
    let name = |copy: &interpreter::Copy| topology[copy.port].id.to_string();
    let refused = |it: &Refusal| PacketRefused {
        reason: it.reason.name().into(),
        at: it.at.to_string(),
        by: it.by.as_ref().map(ToString::to_string),
    };
    let ends = PacketEnds {
        delivered: decision.delivered.iter().map(name).collect(),
        sent: Vec::new(),
        answered: decision.answers.iter().map(name).collect(),
        refused: decision.refused.iter().map(refused).collect(),
    };
    let step = |it: Step| PacketStep {
        at: it.at.to_string(),
        stage: it.stage.into(),
        what: it.what,
        by: it.by,
    };
    PacketTrace::new(ends, decision.trace.into_iter().map(step).collect())
}

/// A line for each step, and the end.
pub fn told(trace: &PacketTrace) -> String {
    let mut table = bare();
    for step in &trace.steps {
        let by = step.by.as_deref().unwrap_or_default();
        table.add_row([step.at.as_str(), &step.stage, &step.what, by]);
    }
    format!("{}\n{}", text(table), trace.verdict())
}

/// The exit code: whether it would be refused.
pub fn exit(trace: &PacketTrace) -> ExitCode {
    match trace.outcome {
        PacketOutcome::Refused => ExitCode::from(REFUSED),
        _ => ExitCode::SUCCESS,
    }
}

/// Traces, and tells.
pub fn run(args: &Args) -> Outcome {
    let topology = match load(&args.files)? {
        Ok(topology) => topology,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let (from, frame) = args.packet.frame(&topology)?;
    let node = topology[from].node;
    let arrival = Arrival { port: from, node, frame: &frame };
    let decision = decide(&topology, &State::default(), Instant::ZERO, arrival);
    let report = report(&topology, decision);
    show(&report, args.json, || told(&report))?;
    Ok(exit(&report))
}

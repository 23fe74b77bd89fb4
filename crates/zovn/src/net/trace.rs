//! `zovn net trace`: what becomes of a packet in a network that is a file.

use std::path::PathBuf;
use std::process::ExitCode;

use model::{PacketOutcome, PacketTrace};

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
    let (from, frame) = args.packet.question().frame(&topology)?;
    let trace = reach::explain(&topology, from, &frame).trace;
    show(&trace, args.json, || told(&trace))?;
    Ok(exit(&trace))
}

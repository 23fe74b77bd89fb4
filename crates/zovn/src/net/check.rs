//! `zovn net check`: all that is wrong with a network's files.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use logical::{Fault, Topology};
use serde::Serialize;

use super::files::{complain, load};
use crate::ending::{Outcome, USAGE, print_json};

/// Tell all that is wrong with a network's files at once.
///
/// Several files are one network. Exit code 0 if all of it is right, 2 if not, 1 if a file cannot
/// be read.
#[derive(clap::Args)]
pub struct Args {
    /// The files (YAML or JSON); `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Verdict<'a> {
    /// How many objects there are of each kind; none if anything is wrong.
    objects: Option<Counts>,
    /// What is wrong.
    faults: Vec<Told<'a>>,
}

#[derive(Serialize)]
struct Counts {
    switches: usize,
    ports: usize,
    routers: usize,
    policies: usize,
}

impl Counts {
    fn of(topology: &Topology) -> Self {
        Self {
            switches: topology.switches().count(),
            ports: topology.ports().count(),
            routers: topology.routers().count(),
            policies: topology.policies().count(),
        }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    object: &'a str,
    path: &'a str,
    message: &'a str,
}

impl<'a> Told<'a> {
    fn of((file, fault): &'a (String, Fault)) -> Self {
        Self {
            file,
            line: fault.position.map(|it| it.line),
            column: fault.position.map(|it| it.column),
            object: &fault.object,
            path: &fault.path,
            message: &fault.message,
        }
    }
}

/// Checks, and tells.
pub fn run(args: &Args) -> Outcome {
    let loaded = load(&args.files)?;
    let (objects, faults) = match &loaded {
        Ok(topology) => (Some(Counts::of(topology)), &[][..]),
        Err(faults) => (None, faults.as_slice()),
    };
    if args.json {
        print_json(&Verdict { objects, faults: faults.iter().map(Told::of).collect() })?;
    } else if let Some(Counts { switches, ports, routers, policies }) = objects {
        let names: Vec<_> = args.files.iter().map(|it| it.display().to_string()).collect();
        writeln!(
            io::stdout(),
            "{}: {}, {}, {}, {}: all of it is right",
            names.join(", "),
            counted(switches, "switch", "switches"),
            counted(ports, "port", "ports"),
            counted(routers, "router", "routers"),
            counted(policies, "policy", "policies"),
        )?;
    } else {
        complain(faults)?;
    }
    Ok(if loaded.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(USAGE) })
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

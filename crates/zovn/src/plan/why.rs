//! `zovn plan why`: why a machine does not go to a host.

use planner::reasons::{Everywhere, Reasons, everywhere, reasons};

use super::files::Files;
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, show};

/// Tell why one more machine does not go to a host, and what would have to change; without a host,
/// count the reasons of all.
///
/// The machine is one more than those of the placement. Exit code 1 if it does not fit.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// The machine, by its entry in `vms`.
    vm: String,
    /// The host.
    host: Option<String>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let vm = plan.vm(&args.vm)?;
        match &args.host {
            Some(host) => {
                let reasons = reasons(plan, vm, plan.host(host)?);
                show(&reasons, args.json, || sentences(&args.vm, &reasons))?;
                Ok(ending(reasons.fits))
            }
            None => {
                let all = everywhere(plan, vm);
                show(&all, args.json, || counted(&args.vm, &all))?;
                Ok(ending(!all.takes.is_empty()))
            }
        }
    })
}

fn sentences(vm: &str, reasons: &Reasons) -> String {
    let Reasons { host, before, after, .. } = reasons;
    let verdict = if reasons.fits { "takes" } else { "does not take" };
    let mut told = format!("{host} {verdict} one more {vm}");
    if !reasons.machines.is_empty() {
        told += &format!(" beside {}", machines(&reasons.machines));
    }
    told += &format!("\noverload: {before} of the time as it is, {after} with it");
    for it in reasons.costs.iter().take(1).chain(&reasons.refusals).chain(&reasons.remedies) {
        told += &format!("\n{it}");
    }
    told
}

fn counted(vm: &str, all: &Everywhere) -> String {
    let mut told = match all.takes.len() {
        0 => format!("no host takes one more {vm}"),
        1 => format!("1 host takes one more {vm}: {}", all.takes[0]),
        some => format!("{some} hosts take one more {vm}: {}", hosts(&all.takes)),
    };
    for (reason, hosts) in [
        ("too few cores", all.cores),
        ("too little memory", all.memory),
        ("it is to be apart from what is there", all.apart),
        ("they would be asked for too much", all.overload),
    ] {
        if hosts > 0 {
            told += &format!("\nrefused by {hosts}: {reason}");
        }
    }
    if let Some(nearest) = &all.nearest {
        told += &format!("\n\nnearest: {}", sentences(vm, nearest));
    }
    told
}

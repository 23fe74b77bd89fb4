//! `zovn plan move`: which machines to move.

use figures::{Unit, si};
use planner::advice::{Moves, Terms, moves};
use units::{Rate, Span};

use super::files::Files;
use super::words::ending;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Advise which machines leave hosts that are asked for too much, in an order in which no other
/// host ever is.
///
/// Exit code 1 if a host is above the goal. Where no move pays, none is advised.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// For how long a move has to pay.
    #[arg(long, value_name = "TIME", default_value = "60min")]
    horizon: Span,
    /// The part of the goal that hosts are to have after a move, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = within(1..=100u8))]
    aim: u8,
    /// The most moves.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = within(1..=100_000u32))]
    most: u32,
    /// What one migration is given.
    #[arg(long, value_name = "RATE", default_value = "1gbit")]
    rate: Rate,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Advises, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let terms = Terms {
            horizon: args.horizon,
            aim_percent: args.aim,
            most: args.most as usize,
            rate: args.rate,
        };
        let moves = moves(plan, terms);
        show(&moves, args.json, || table(&moves))?;
        Ok(ending(moves.overloaded.is_empty()))
    })
}

fn table(moves: &Moves) -> String {
    if moves.overloaded.is_empty() {
        return "no host is above the goal".into();
    }
    // Less than a nanosecond is what sums of shares are rounded by.
    let secs = |secs: f64| si(if secs < 1e-9 { 0.0 } else { secs }, Unit::SECONDS);
    let mut told = format!("above the goal: {}\n", moves.overloaded.join(", "));
    told += &format!("if all stay: {} of overload\n", secs(moves.stay_secs));
    if moves.steps.is_empty() {
        return told + "no move helps: all stay";
    }
    if !moves.pays {
        told += "moving costs more than it helps: all stay. It would be:\n";
    }
    let mut table = headed(["move", "from", "to", "takes", "overload meanwhile"]);
    for it in &moves.steps {
        let [takes, cost] = [it.takes_secs, it.cost_secs].map(secs);
        table.add_row([it.vm.clone(), it.from.clone(), it.to.clone(), takes, cost]);
    }
    told + &format!("after the moves: {}\n\n{}", secs(moves.go_secs), text(table))
}

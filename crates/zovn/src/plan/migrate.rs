//! `zovn plan move`: which machines to move.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use figures::{Unit, si};
use planner::advice::{Moves, Terms, moves};
use planner::history::History;
use tempfile::NamedTempFile;
use units::{Instant, Rate, Span};

use super::files::Files;
use super::words::ending;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Advise which machines leave hosts that are asked for too much, in an order in which no other
/// host ever is.
///
/// Exit code 1 if a host is above the goal. Where no move pays, none is advised. With --history it
/// may be run again and again, and machines are not sent back and forth.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// For how long a move has to pay; so long no machine goes back.
    #[arg(long, value_name = "TIME", default_value = "60min")]
    horizon: Span,
    /// What runs have seen is kept in this file, which the first makes.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// How long a machine stays where it came to [default: 30min].
    #[arg(long, value_name = "TIME", requires = "history")]
    cooldown: Option<Span>,
    /// For how many runs in a row a host has to be above the goal before machines leave it
    /// [default: 3].
    #[arg(long, value_name = "N", requires = "history", value_parser = within(1..=1000u32))]
    dwell: Option<u32>,
    /// The part of the goal that hosts are to have after a move, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = within(1..=100u8))]
    aim: u8,
    /// The most moves.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = within(1..=100_000u32))]
    most: u32,
    /// What one migration is given.
    #[arg(long, value_name = "RATE", default_value = "1gbit")]
    rate: Rate,
    /// Migrations go through hosts' switches, and count there as well as on cards.
    #[arg(long)]
    through_switch: bool,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Advises, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let is_kept = args.history.is_some();
        let dwell = if is_kept { args.dwell.unwrap_or(3) } else { 1 };
        let terms = Terms {
            horizon: args.horizon,
            cooldown: args.cooldown.unwrap_or(Span::from_secs(30 * 60)),
            dwell,
            aim_percent: args.aim,
            most: args.most as usize,
            rate: args.rate,
            through_switch: args.through_switch,
        };
        let mut history = args.history.as_deref().map_or(Ok(History::default()), read)?;
        let moves = moves(plan, terms, &mut history, now());
        // Advice that the next run does not know of may be undone by it.
        if let Some(path) = &args.history {
            write(path, &history)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        show(&moves, args.json, || table(&moves, dwell))?;
        Ok(ending(moves.overloaded.is_empty() && moves.waiting.is_empty()))
    })
}

/// The time since 1970.
fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The history that a file has; none, if there is no file yet.
fn read(path: &Path) -> Result<History, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(History::default()),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    History::read(&text).map_err(|error| {
        let cause = error.source().map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{}: {error}{cause}", path.display())
    })
}

/// Writes all, or leaves what is there.
fn write(path: &Path, history: &History) -> io::Result<()> {
    // It takes the place of what a link leads to, not of the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(history.text().as_bytes())?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

fn table(moves: &Moves, dwell: u32) -> String {
    let mut told = String::new();
    if !moves.unsure.is_empty() {
        told += &format!(
            "above the goal only if machines send more than their traces prove: {}\n",
            moves.unsure.join(", ")
        );
    }
    for it in &moves.waiting {
        told += &format!("above the goal for {} of {dwell} runs in a row: {}\n", it.runs, it.host);
    }
    if moves.overloaded.is_empty() {
        return told
            + if moves.waiting.is_empty() { "no host is above the goal" } else { "all stay" };
    }
    // Less than a nanosecond is what sums of shares are rounded by.
    let secs = |secs: f64| si(if secs < 1e-9 { 0.0 } else { secs }, Unit::SECONDS);
    told += &format!("above the goal: {}\n", moves.overloaded.join(", "));
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

//! `zovn sim report`: what a sweep has found, as a page, a table or JSON.

mod figures;
mod heat;
mod page;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use sim::Store;
use sim::store::Sweep;

use self::figures::{Figures, Line};
use super::{bare, text};
use crate::ending::{Outcome, PageFile, print_json};

/// How many missing cells are told by name.
const MOST_MISSING: usize = 10;

/// What to report, and where to.
#[derive(clap::Args)]
pub struct Args {
    /// The folder that `zovn sim sweep` has written.
    folder: PathBuf,
    /// Write a page: one HTML file that fetches nothing.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a folder, and tells what is in it.
pub fn run(args: Args) -> Outcome {
    let store = Store::open(&args.folder)?;
    let figures = Figures::read(&store)?;
    if figures.cells.is_empty() {
        let folder = args.folder.display();
        return Err(format!("no cell of the sweep in {folder} is done: sweep into it again").into());
    }
    if let Some(path) = args.html {
        PageFile::open(path)?.put(&page::page(store.sweep(), &figures))?;
    }
    if args.json {
        print_json(&Report::new(store.sweep(), &figures))?;
    } else {
        print(store.sweep(), &figures)?;
    }
    let missing = &figures.missing;
    for name in missing.iter().take(MOST_MISSING) {
        eprintln!("zovn: {name} is missing");
    }
    if let more @ 1.. = missing.len().saturating_sub(MOST_MISSING) {
        eprintln!("zovn: and {more} more; sweep into {} again", args.folder.display());
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `report --json` says.
#[derive(Serialize)]
struct Report<'a> {
    zovn: &'a str,
    experiment: &'a str,
    config: Config<'a>,
    missing: &'a [String],
    results: &'a [Line],
}

#[derive(Serialize)]
struct Config<'a> {
    scenario: &'a str,
    digest: &'a str,
    /// What the times are of: `query` or `flow`.
    of: &'a str,
}

impl<'a> Report<'a> {
    fn new(sweep: &'a Sweep, figures: &'a Figures) -> Self {
        Self {
            zovn: &sweep.zovn,
            experiment: "sim-report",
            config: Config { scenario: &sweep.scenario, digest: &sweep.digest, of: figures.of() },
            missing: &figures.missing,
            results: &figures.lines,
        }
    }
}

fn print(sweep: &Sweep, figures: &Figures) -> io::Result<()> {
    let mut table = bare();
    let axes = sweep.axes.iter().map(|(name, _)| name.as_str());
    let heads = [
        figures.plural(),
        "mean",
        "p5",
        "p50",
        "p95",
        "p99",
        "max",
        "gain",
        "resent",
        "timeouts",
        "lost",
        "unfinished",
    ];
    table.set_header(axes.chain(heads));
    for line in &figures.lines {
        let ms =
            |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.3} ms", us / 1e3));
        let times = line.completion.fct_us;
        let labels = sweep.axes.iter().map(|(name, _)| line.values[name].clone());
        let told = [
            line.samples.to_string(),
            ms(times.map(|it| it.mean)),
            ms(line.completion.fct_p5_us),
            ms(times.map(|it| it.p50)),
            ms(times.map(|it| it.p95)),
            ms(times.map(|it| it.p99)),
            ms(times.map(|it| it.max)),
            line.gain.map_or_else(|| "-".to_owned(), |gain| format!("{gain:.2}")),
            line.retransmits.to_string(),
            line.timeouts.to_string(),
            (line.lost_virtual + line.lost_physical).to_string(),
            line.unfinished.to_string(),
        ];
        table.add_row(labels.chain(told));
    }
    writeln!(io::stdout(), "{}\n\n{}", sweep.scenario, text(table))
}

//! `zovn net matrix`: who reaches whom in a network, by which rule, and what changed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use logical::Topology;
use measure::page::{Page, Table};
use reach::{Change, Matrix, Outcome as Ruled, Ports, Reached, in_words};
use serde::Serialize;

use super::files::{complain, load};
use crate::ending::{Outcome, PageFile, USAGE, command_line, print_json};
use crate::table::{headed, text};

const EXAMPLES: &str = "\
Examples:
  zovn net matrix examples/shop.yaml
  zovn net matrix examples/shop.yaml --html reach.html
  zovn net matrix new.yaml --base old.yaml         what is reached now and was not, and the reverse
  zovn net matrix examples/shop.yaml --all         also refused packets and others' addresses
  zovn net matrix examples/shop.yaml --json | jq '.matrix.ports'";

/// Tell who reaches whom, with what, and by which rules, for all packets.
///
/// Ports that every rule and route treats alike are one line. Packets are the first of connections,
/// between the machines' own addresses; what comes back needs no rule. Exit code 0 if it is told, 2
/// if a file is wrong, 1 if one cannot be read.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The network's file (YAML or JSON); `-` is stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tell what changed against this file.
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Also tell what is refused and why, and packets with others' addresses.
    #[arg(long)]
    all: bool,
    /// Write a page: one HTML file that fetches nothing.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Tell it as JSON: classes of ports, cells, and for each pair of classes its cell.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Report<'a> {
    matrix: &'a Matrix,
    /// What changed, with `--base`.
    changes: Option<&'a [Change]>,
}

/// Looks, and tells.
pub fn run(args: Args) -> Outcome {
    let (Some(topology), base) = (read(&args.file)?, args.base.as_deref().map(read)) else {
        return Ok(ExitCode::from(USAGE));
    };
    let base = match base.transpose()? {
        Some(None) => return Ok(ExitCode::from(USAGE)),
        Some(Some(topology)) => Some(reach::matrix(&topology)?),
        None => None,
    };
    let page = args.html.map(PageFile::open).transpose()?;
    let matrix = reach::matrix(&topology)?;
    let changes = base.as_ref().map(|base| matrix.changes(base));
    let told = Told { matrix: &matrix, changes: changes.as_deref(), all: args.all };
    if args.json {
        print_json(&Report { matrix: &matrix, changes: changes.as_deref() })?;
    } else if page.is_none() {
        writeln!(io::stdout(), "{}", told.text())?;
    }
    page.map(|it| it.put(&told.page(&args.file, args.base.as_deref()))).transpose()?;
    Ok(ExitCode::SUCCESS)
}

/// The topology of a file. `None`: it is wrong, and that is told.
fn read(path: &Path) -> Result<Option<Topology>, Box<dyn std::error::Error + Send + Sync>> {
    match load(&[path.to_owned()])? {
        Ok(topology) => Ok(Some(topology)),
        Err(faults) => {
            complain(&faults)?;
            Ok(None)
        }
    }
}

/// What is told of a network.
struct Told<'a> {
    matrix: &'a Matrix,
    changes: Option<&'a [Change]>,
    all: bool,
}

/// Rows of words under heads.
struct Rows<const N: usize> {
    heads: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Rows<N> {
    fn text(self) -> String {
        let mut table = headed(self.heads);
        for row in self.rows {
            table.add_row(row);
        }
        text(table)
    }

    fn table(self) -> Table {
        self.rows.into_iter().fold(Table::new(self.heads), Table::row)
    }
}

impl Told<'_> {
    /// Who reaches whom with ordinary packets.
    fn reached(&self) -> Rows<5> {
        let row = |it: Reached<'_>| {
            let what = if it.by_hash { format!("{} (by hash)", it.what) } else { it.what };
            [in_words(&it.from.ports), in_words(&it.to.ports), what, it.leaves_by, it.enters_by]
        };
        Rows {
            heads: ["from", "to", "what", "leaves by", "enters by"],
            rows: self.matrix.reached_rows().into_iter().map(row).collect(),
        }
    }

    /// Everything.
    fn everything(&self) -> Rows<7> {
        let row = |it: reach::Row<'_>| {
            let entry = it.entry;
            [
                in_words(&it.from.ports),
                in_words(&it.to.ports),
                entry.path.to_string(),
                entry.source.to_string(),
                entry.destination.to_string(),
                entry.services.to_string(),
                entry.outcome.to_string(),
            ]
        };
        Rows {
            heads: ["from", "to", "path", "sources", "destinations", "what", "outcome"],
            rows: self.matrix.rows().map(row).collect(),
        }
    }

    fn classes(&self) -> Rows<3> {
        let row = |it: &Ports| {
            let outside = if it.outside { " (outside)" } else { "" };
            let all = it.ports.join(", ");
            [in_words(&it.ports), format!("{}{outside}", it.switch), all]
        };
        Rows {
            heads: ["ports", "switch", "all of them"],
            rows: self.matrix.ports().iter().map(row).collect(),
        }
    }

    /// What changed; how many changes of packets with others' addresses are left out.
    fn changed(&self, changes: &[Change]) -> (Rows<5>, usize) {
        let row = |it: &Change| {
            let mut what = it.services.to_string();
            if !it.is_ordinary() {
                what = format!("{what}, from {} to {}", it.source, it.destination);
            }
            let by = match &it.by {
                Ruled::Reached { from, to } => format!("{from} and {to}"),
                other => other.to_string(),
            };
            let sign = if it.now { "now reached" } else { "no longer" };
            [sign.to_owned(), in_words(&it.from), in_words(&it.to), what, by]
        };
        let shown = changes.iter().filter(|it| self.all || it.is_ordinary());
        let rows: Vec<_> = shown.map(row).collect();
        let left_out = changes.len() - rows.len();
        (Rows { heads: ["change", "from", "to", "what", "by"], rows }, left_out)
    }

    fn text(&self) -> String {
        let mut parts = Vec::new();
        match self.changes {
            Some(changes) => {
                let (rows, left_out) = self.changed(changes);
                parts.push(match rows.rows.is_empty() {
                    true => "what is reached is the same".to_owned(),
                    false => rows.text(),
                });
                if left_out > 0 {
                    parts.push(left_out_sentence(left_out));
                }
            }
            None if self.all => parts.push(self.everything().text()),
            None => parts.push(match self.reached() {
                Rows { rows, .. } if rows.is_empty() => "nobody reaches anybody".to_owned(),
                rows => rows.text(),
            }),
        }
        parts.join("\n\n")
    }

    fn page(&self, file: &Path, base: Option<&Path>) -> String {
        let mut page = Page::new(format!("Who reaches whom in {}", file.display())).lead(
            "For all packets that begin something, between the machines' own addresses. Ports that \
             every rule and route treats alike are one line.",
        );
        if let (Some(changes), Some(base)) = (self.changes, base) {
            let (rows, left_out) = self.changed(changes);
            let none = "What is reached is the same.";
            let said = if rows.rows.is_empty() { none } else { "" };
            page = page.section(format!("Changes against {}", base.display()), said);
            if !rows.rows.is_empty() {
                page = page.table(rows.table());
            }
            if left_out > 0 {
                page = page.note(left_out_sentence(left_out));
            }
        }
        page = page.section("Who reaches whom", "Whatever is not listed does not get there.");
        page = page.table(self.reached().table());
        if self.all {
            page = page.section("All packets", "Also those that are refused, and by whom.");
            page = page.table(self.everything().table());
        }
        page.section("Ports", "Those of a line are treated alike.")
            .table(self.classes().table())
            .section("Again", "This command makes the page again:")
            .command(command_line())
            .render()
    }
}

fn left_out_sentence(count: usize) -> String {
    let changes = if count == 1 { "change" } else { "changes" };
    format!("{count} {changes} of packets with others' addresses: --all shows them")
}

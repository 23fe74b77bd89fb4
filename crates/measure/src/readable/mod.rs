//! Measurements as people read them: a table for the terminal, a page to keep.

mod adversary;
mod bfd;
mod control;
mod isolation;
mod loss;
mod machines;
mod pa;
mod paper;
mod paths;
mod policy;
mod profile;
mod ramp;
mod throughput;
mod tunnel;
mod vhost;

use std::fmt::Display;

use comfy_table::{CellAlignment, Table as Text, presets};

use crate::page::{Chart, Page, Table};
use crate::{Environment, SwitchKind, is_lossless};

/// What was measured, in words, rows and charts.
pub trait Readable {
    /// What was measured, in a few words.
    fn title(&self) -> String;
    /// Under which conditions, in a sentence.
    fn conditions(&self) -> String;
    /// The figures.
    fn rows(&self) -> Rows;
    /// What to know when reading the figures, in sentences.
    fn remarks(&self) -> Vec<String>;
    /// The charts.
    fn charts(&self) -> Vec<Chart>;
    /// Promises that were not kept, in sentences: a lossless switch that lost a frame, a query that
    /// was not answered.
    fn broken(&self) -> Vec<String>;
    /// Where it was measured.
    fn environment(&self) -> &Environment;
}

/// A table of words: the first column names its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet, under these heads.
    pub fn new(heads: impl IntoIterator<Item = &'static str>) -> Self {
        Self { heads: heads.into_iter().collect(), rows: Vec::new() }
    }

    /// One more, with a cell for each head.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The rows for a terminal: names to the left, figures to the right.
    pub fn text(&self) -> String {
        let mut text = Text::new();
        text.load_style(presets::NOTHING).set_header(&self.heads);
        for row in &self.rows {
            text.add_row(row);
        }
        for (number, column) in text.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if number > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.trim_fmt()
    }

    fn table(&self) -> Table {
        self.rows.iter().fold(Table::new(self.heads.iter().copied()), |table, row| {
            table.row(row.iter().cloned())
        })
    }
}

/// The measurement for a terminal, with what was not as promised at its end.
pub fn text(what: &dyn Readable) -> String {
    let mut lines =
        vec![what.title(), what.conditions(), String::new(), what.rows().text(), String::new()];
    lines.extend(what.remarks());
    lines.extend(what.broken().into_iter().map(|sentence| format!("NOT AS PROMISED: {sentence}")));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// One self-contained page of one measurement or several, made by `command`.
pub fn page(title: &str, lead: &str, command: &str, all: &[&dyn Readable]) -> String {
    let mut page = Page::new(title).lead(lead);
    for what in all {
        page = page.section(what.title(), what.conditions());
        page = what
            .broken()
            .into_iter()
            .fold(page, |page, broken| page.text(format!("Not as promised: {broken}")));
        page = what.charts().into_iter().fold(page, Page::chart);
        page = page.table(what.rows().table());
        page = what.remarks().into_iter().fold(page, Page::note);
    }
    let Some(first) = all.first() else { return page.render() };
    page.section("Again", "This command makes the measurement again:")
        .command(command)
        .section("Environment", "")
        .facts(facts(first.environment()))
        .render()
}

fn facts(environment: &Environment) -> Vec<(String, String)> {
    let Environment { date, kernel, cpu, cores, governor, load_1min, memory_mib, ovs, sysctls } =
        environment;
    let mut facts = vec![
        ("zovn".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("date".to_owned(), date.clone()),
        ("kernel".to_owned(), kernel.clone()),
        ("processor".to_owned(), format!("{cpu}, {cores} cores")),
    ];
    let mut known = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)))
    };
    known("governor", governor.clone());
    known("load before", load_1min.map(|load| format!("{load:.2}")));
    known("memory", memory_mib.map(|mib| format!("{mib} MiB")));
    known("Open vSwitch", ovs.clone());
    facts.extend(sysctls.iter().map(|(name, value)| (name.clone(), value.clone())));
    facts
}

/// A time in microseconds as people read it.
fn us(value: f64) -> String {
    crate::page::si(value / 1e6, crate::page::Unit::SECONDS)
}

/// `1 sender`, `2 senders`.
pub(crate) fn many(count: u64, what: &str) -> String {
    format!("{} {what}{}", crate::page::count(count), if count == 1 { "" } else { "s" })
}

/// What is said of a switch whose own account does not hold.
fn unbalanced(switch: impl Display, balanced: Option<bool>) -> Option<String> {
    (balanced == Some(false)).then(|| format!("the ledger of {switch} does not balance."))
}

/// What is said of a lossless switch that delivered frames more than once.
fn repeated(switch: SwitchKind, duplicates: u64) -> Option<String> {
    let repeats = is_lossless(switch) && duplicates > 0;
    repeats.then(|| format!("{switch} delivered {} twice.", many(duplicates, "frame")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_account_that_does_not_hold_is_broken() {
        let said = |balanced| unbalanced(SwitchKind::ZovnLossy, balanced);
        assert_eq!([None, Some(true)].map(said), [None, None]);
        assert_eq!(said(Some(false)).unwrap(), "the ledger of zovn-lossy does not balance.");
    }

    #[test]
    fn a_lossless_switch_delivers_once() {
        assert_eq!(repeated(SwitchKind::Zovn, 2).unwrap(), "zovn delivered 2 frames twice.");
        assert_eq!((repeated(SwitchKind::Zovn, 0), repeated(SwitchKind::Bridge, 2)), (None, None));
    }

    #[test]
    fn a_table_lines_its_figures_up() {
        let mut rows = Rows::new(["switch", "lost"]);
        rows.row(["bridge".to_owned(), "1,234".to_owned()]);
        rows.row(["zovn".to_owned(), "0".to_owned()]);
        assert_eq!(rows.text(), "switch   lost\nbridge  1,234\nzovn        0");
    }
}

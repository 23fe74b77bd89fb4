//! Heat maps: how long queues were, and who was paused, over the time of a run.

use std::collections::BTreeMap;

use figures::Unit;
use measure::page::{self, Axis, Page};
use sim::store::StoreError;
use sim::{CellResult, Store};

/// How many columns a map has: more would be narrower than can be seen.
const COLUMNS: usize = 240;

/// How many rows a map has, and how many cells have maps.
const MOST_ROWS: usize = 32;
const MOST_CELLS: usize = 8;

/// What was seen of a cell's queues.
pub struct Heat {
    name: String,
    /// Until when anything waited, in seconds.
    end_s: f64,
    /// The most bytes.
    queues: Rows,
    /// For how much of the time.
    pauses: Rows,
}

/// By port, and class if there are several: column by column.
type Rows = BTreeMap<String, Vec<f64>>;

impl Heat {
    /// Reads what was seen in a cell; none if nobody looked, or nothing ever waited.
    pub fn read(store: &Store, cell: &CellResult) -> Result<Option<Self>, StoreError> {
        let mut end_ns = 0;
        store.samples(cell.cell, |it| end_ns = end_ns.max(it.start_ns + it.span_ns))?;
        if end_ns == 0 {
            return Ok(None);
        }
        let column_ns = end_ns as f64 / COLUMNS as f64;
        let has_classes = cell.classes.len() > 1;
        let (mut queues, mut pauses) = (Rows::new(), Rows::new());
        store.samples(cell.cell, |it| {
            let name =
                if has_classes { format!("{} {}", it.port, it.class) } else { it.port.to_owned() };
            let (from, to) =
                (it.start_ns as f64 / column_ns, (it.start_ns + it.span_ns) as f64 / column_ns);
            let touched =
                || (from as usize..to.ceil() as usize).take_while(|column| *column < COLUMNS);
            if it.queue_bytes > 0 {
                let row = queues.entry(name.clone()).or_insert_with(|| vec![0.0; COLUMNS]);
                touched().for_each(|column| row[column] = row[column].max(it.queue_bytes as f64));
            }
            if it.paused > 0.0 {
                let row = pauses.entry(name).or_insert_with(|| vec![0.0; COLUMNS]);
                for column in touched() {
                    let shared = to.min(column as f64 + 1.0) - from.max(column as f64);
                    row[column] += it.paused * shared;
                }
            }
        })?;
        Ok(Some(Self { name: cell.name.clone(), end_s: end_ns as f64 / 1e9, queues, pauses }))
    }
}

/// The most of all ports that lead from one tier to another, or of all machines of a role: a port's
/// name without numbers.
fn by_tier(rows: &Rows) -> Rows {
    let mut tiers = Rows::new();
    for (name, row) in rows {
        let (port, class) = name.split_once(' ').unwrap_or((name, ""));
        // A machine's role may have digits of its own.
        let port = match port.split_once('@') {
            Some((role, _)) => role.to_owned(),
            None => port.replace(|digit: char| digit.is_ascii_digit(), ""),
        };
        let tier = tiers
            .entry(format!("{port} {class}").trim_end().to_owned())
            .or_insert_with(|| vec![0.0; COLUMNS]);
        tier.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(*value));
    }
    tiers
}

/// Adds the maps of these cells to a page.
pub fn maps(mut page: Page, all: &[Heat]) -> Page {
    if all.is_empty() {
        return page;
    }
    page = page.section(
        "Queues and pauses",
        format!(
            "Where frames waited, and who was not allowed to send, in the first run of each combination; the {MOST_ROWS} \
             ports with most of it, these first. `a-b` sends from a to b; `a@3/0` is what a virtual switch has for that \
             machine, and `server3` what it has for its NIC."
        ),
    );
    for heat in all.iter().take(MOST_CELLS) {
        let kinds = [
            ("Queues", &heat.queues, "longest queue", Unit::BYTES),
            ("Pauses", &heat.pauses, "paused", Unit::SHARE),
        ];
        for (what, rows, label, unit) in kinds.into_iter().filter(|(_, rows, ..)| !rows.is_empty())
        {
            let values = || Axis::linear(label, unit);
            if rows.len() > MOST_ROWS {
                let title = format!("{what}, {}: the most of each tier", heat.name);
                page = page.chart(map(title, heat, &by_tier(rows), values()));
            }
            let title = format!(
                "{what}, {}: {} of {} ports with any",
                heat.name,
                rows.len().min(MOST_ROWS),
                rows.len()
            );
            page = page.chart(map(title, heat, rows, values()));
        }
    }
    match all.len().saturating_sub(MOST_CELLS) {
        0 => page,
        more => page.note(format!(
            "{more} more combinations have been looked at; their tables are in the folder."
        )),
    }
}

fn map(title: String, heat: &Heat, rows: &Rows, values: Axis) -> page::Heat {
    let mut rows: Vec<(&String, &Vec<f64>)> = rows.iter().collect();
    let total = |row: &[f64]| row.iter().sum::<f64>();
    rows.sort_by(|a, b| total(b.1).total_cmp(&total(a.1)));
    rows.truncate(MOST_ROWS);
    let chart = page::Heat::new(title, Axis::linear("time", Unit::SECONDS), values, heat.end_s);
    let edge = |column: usize| heat.end_s * column as f64 / COLUMNS as f64;
    rows.into_iter().fold(chart, |chart, (name, row)| {
        chart.row(name, row.iter().enumerate().map(|(at, value)| (edge(at), edge(at + 1), *value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_the_most_of_its_ports() {
        let row = |first: f64| [vec![first], vec![1.0; COLUMNS - 1]].concat();
        let names = [
            "tor0-core1",
            "tor11-core3",
            "core1-tor0",
            "vm-2@3/0 back",
            "vm-2@17/1 back",
            "server3 back",
        ];
        let rows = Rows::from_iter(
            names.into_iter().zip(2u8..).map(|(name, first)| (name.to_owned(), row(first.into()))),
        );
        let tiers: Vec<(String, f64)> =
            by_tier(&rows).into_iter().map(|(name, row)| (name, row[0])).collect();
        let expected =
            [("core-tor", 4.0), ("server back", 7.0), ("tor-core", 3.0), ("vm-2 back", 6.0)];
        assert_eq!(tiers, expected.map(|(name, most)| (name.to_owned(), most)));
    }
}

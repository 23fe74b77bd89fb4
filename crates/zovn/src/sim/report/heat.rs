//! Heat maps: how long queues were, and who was paused, over the time of a run.

use std::collections::BTreeMap;

use measure::page::{self, Axis, Page, Unit};
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
            let name = if has_classes { format!("{} {}", it.port, it.class) } else { it.port.to_owned() };
            let (from, to) = (it.start_ns as f64 / column_ns, (it.start_ns + it.span_ns) as f64 / column_ns);
            let touched = || (from as usize..to.ceil() as usize).take_while(|column| *column < COLUMNS);
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
        let queues = Axis::linear("longest queue", Unit::BYTES);
        page = page.chart(map("Queues", heat, &heat.queues, queues));
        if !heat.pauses.is_empty() {
            page = page.chart(map("Pauses", heat, &heat.pauses, Axis::linear("paused", Unit::SHARE)));
        }
    }
    match all.len().saturating_sub(MOST_CELLS) {
        0 => page,
        more => page
            .note(format!("{more} more combinations have been looked at; their tables are in the folder.")),
    }
}

fn map(what: &str, heat: &Heat, rows: &Rows, values: Axis) -> page::Heat {
    let mut rows: Vec<(&String, &Vec<f64>)> = rows.iter().collect();
    let all = rows.len();
    let total = |row: &[f64]| row.iter().sum::<f64>();
    rows.sort_by(|a, b| total(b.1).total_cmp(&total(a.1)));
    rows.truncate(MOST_ROWS);
    let title = format!("{what}, {}: {} of {all} ports with any", heat.name, rows.len());
    let chart = page::Heat::new(title, Axis::linear("time", Unit::SECONDS), values, heat.end_s);
    let edge = |column: usize| heat.end_s * column as f64 / COLUMNS as f64;
    rows.into_iter().fold(chart, |chart, (name, row)| {
        chart.row(name, row.iter().enumerate().map(|(at, value)| (edge(at), edge(at + 1), *value)))
    })
}

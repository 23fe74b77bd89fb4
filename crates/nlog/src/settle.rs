//! Settles a table: what was told of its tuples becomes tuples that come and go.
//!
//! A tuple has the number of its derivations. What was told is added up, so that a derivation that
//! came and went in one batch is nothing. Only where the number leaves zero or comes back to it
//! does the table change, and only that is told to the rules that read it.

use alloc::vec::Vec;

use crate::aggregate;
use crate::evaluate::{Cause, Failure};
use crate::sort::{consolidate, sort};
use crate::state::{Readers, State};
use crate::syntax::Role;

/// Why a batch is refused. Rows are in primary orders.
#[derive(Debug)]
pub(crate) enum Stop {
    Failure(Failure),
    /// Inserted, but it is there.
    Present {
        table: usize,
        row: Vec<u32>,
    },
    /// Deleted, but it is not there.
    Absent {
        table: usize,
        row: Vec<u32>,
    },
    /// Two tuples have its key.
    Key {
        table: usize,
        row: Vec<u32>,
    },
    /// A sum of this rule is no number.
    Sum {
        rule: usize,
    },
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Settles a table of a stratum that is not recursive.
pub(crate) fn settle(state: &mut State, table: usize) -> Result<(), Stop> {
    let rows = added_up(state, table);
    if rows.is_empty() {
        return Ok(());
    }
    state.counters.touched += 1;
    let changes = changes(state, table, &rows)?;
    flip(state, table, &changes)?;
    check_key(state, table, &changes)
}

/// Settles a table that has no tuples, as all that are computed after it.
pub(crate) fn settle_cold(state: &mut State, table: usize) -> Result<(), Stop> {
    let rules = state.program.tables[table].rules.clone();
    for rule in &rules {
        state.derive_all(*rule)?;
    }
    let rows = added_up(state, table);
    let width = state.width(table);
    let is_aggregate = rules.iter().any(|rule| state.program.rules[*rule].aggregate.is_some());
    let rows = if is_aggregate { changes(state, table, &rows)? } else { rows };
    let stride = width + 1;
    if state.program.tables[table].role == Role::Input
        && let Some(row) = rows.chunks_exact(stride).find(|row| row[width] != 1)
    {
        let (count, row) = (row[width].cast_signed(), row[..width].into());
        return Err(if count > 0 {
            Stop::Present { table, row }
        } else {
            Stop::Absent { table, row }
        });
    }
    state.counters.touched += u64::from(!rows.is_empty());
    state.counters.flips += (rows.len() / stride) as u64;
    state.space.load(table, &rows, stride, &mut state.spare);
    note_outputs(state, table, &rows);
    check_key(state, table, &rows)
}

/// What was told of a table's tuples, in order, each row once with the sum of its numbers.
fn added_up(state: &mut State, table: usize) -> Vec<u32> {
    let mut rows = core::mem::take(&mut state.pending[table]);
    let stride = state.told_width(table) + 1;
    sort(&mut rows, stride, stride - 1, &mut state.spare);
    consolidate(&mut rows, stride);
    rows
}

/// The tuples that come and go, as rows with the number that they have then: 0 if they go. Numbers
/// that only change are written at once.
fn changes(state: &mut State, table: usize, rows: &[u32]) -> Result<Vec<u32>, Stop> {
    let own = &state.program.tables[table];
    if let Some(rule) = own.rules.first().copied()
        && let Some(aggregate) = state.program.rules[rule].aggregate
    {
        return aggregate::changes(state, table, rule, aggregate.summary, rows)
            .ok_or(Stop::Sum { rule });
    }
    let (width, is_input) = (own.columns.len(), own.role == Role::Input);
    let mut changes = Vec::new();
    for row in rows.chunks_exact(width + 1) {
        let (key, change) = (&row[..width], row[width].cast_signed());
        let before = state.store(table).get(key).map_or(0, |payload| payload[0]);
        if is_input && change > 0 && (before, change) != (0, 1) {
            return Err(Stop::Present { table, row: key.into() });
        }
        if is_input && change < 0 && (before, change) != (1, -1) {
            return Err(Stop::Absent { table, row: key.into() });
        }
        let after = before.checked_add_signed(change);
        let after = after.expect("a derivation comes before it goes, and there are below 2^32");
        if before == 0 || after == 0 {
            changes.extend_from_slice(key);
            changes.push(after);
        } else {
            state.space.set(table, key, &[after]);
        }
    }
    Ok(changes)
}

/// Makes tuples come and go, and asks the rules that read the table.
fn flip(state: &mut State, table: usize, changes: &[u32]) -> Result<(), Stop> {
    let width = state.width(table);
    let one_by_one = state.one_by_one[table];
    let rows = changes.chunks_exact(width + 1).map(|row| {
        let cause = if row[width] == 0 { Cause::Vanishes } else { Cause::Appears };
        (&row[..width], cause, row[width])
    });
    for (key, cause, number) in rows.clone() {
        // A tuple that goes is there until its readers have been asked.
        if cause == Cause::Appears {
            state.space.insert(table, key, &[number]);
        }
        if one_by_one {
            state.ask(table, Readers::All, core::iter::once((key, cause)))?;
        }
        if cause == Cause::Vanishes {
            state.space.remove(table, key);
        }
        state.counters.flips += 1;
    }
    if !one_by_one {
        state.ask(table, Readers::All, rows.map(|(key, cause, _)| (key, cause)))?;
    }
    note_outputs(state, table, changes);
    Ok(())
}

/// Notes which tuples of an output came and went.
pub(crate) fn note_outputs(state: &mut State, table: usize, changes: &[u32]) {
    if state.program.tables[table].role != Role::Output {
        return;
    }
    let width = state.width(table);
    let told = &mut state.told[table];
    for row in changes.chunks_exact(width + 1) {
        let to = if row[width] == 0 { &mut told.vanished } else { &mut told.appeared };
        to.extend_from_slice(&row[..width]);
    }
}

/// Whether no two tuples have one key, after these came.
fn check_key(state: &State, table: usize, changes: &[u32]) -> Result<(), Stop> {
    let Some((order, places)) = &state.keys[table] else { return Ok(()) };
    let width = state.width(table);
    for row in changes.chunks_exact(width + 1).filter(|row| row[width] != 0) {
        let key: Vec<u32> = places.iter().map(|place| row[*place]).collect();
        if state.store(table).tree(*order).range(&key).nth(1).is_some() {
            return Err(Stop::Key { table, row: row[..width].into() });
        }
    }
    Ok(())
}

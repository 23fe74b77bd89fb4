//! Settles a recursive stratum: DRed with counts apart (Hu, Motik and Horrocks, "Optimised
//! maintenance of datalog materialisations", AAAI 2018).
//!
//! Tuples that derive from each other may go on supporting each other when nothing else does, so
//! that a number of derivations does not tell whether a tuple has to go. Two numbers are kept: of
//! derivations from other strata only (the base), and of those that use the own stratum.
//!
//! ```text
//!   1. delete too much   a tuple that lost a derivation and has no base goes, for now; what
//!                        follows from it loses a derivation each
//!   2. put back          what went, and still has a derivation from what is left, comes back, as
//!                        does what is new; what follows from it gains a derivation each
//! ```
//!
//! Only what is different at the end is told to other strata.
//!
//! The first step may delete far more than has to go. It is counted for each part of the stratum
//! (the value of the column that all derivations keep). When more of a part has gone than is left,
//! the rest is deleted, too, and the part is computed anew from its base; [`Counters::recomputed`]
//! says how often.
//!
//! [`Counters::recomputed`]: crate::Counters::recomputed

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::evaluate::Cause;
use crate::plan::Step;
use crate::settle::{Stop, note_outputs};
use crate::state::{BASE, RECURSIVE, Readers, State};
use crate::tree::Tree;

/// Deleted tuples of a part before anybody asks how many are left. Tests have small parts.
const FEW: usize = if cfg!(test) { 1 } else { 64 };

/// Settles a stratum. `cold`: no other stratum has looked at this one yet, so none is told.
pub(crate) fn settle(state: &mut State, stratum: usize, cold: bool) -> Result<(), Stop> {
    let tables = state.program.strata[stratum].tables.clone();
    if tables.iter().all(|table| state.pending[*table].is_empty()) {
        return Ok(());
    }
    state.counters.touched += tables.len() as u64;
    let partition = state.program.strata[stratum].partition.clone();
    let partition = partition.expect("a recursive stratum has a partition");
    let parts = tables.iter().zip(&partition).map(|(table, column)| Part {
        table: *table,
        place: state.plans.orders[*table][0]
            .iter()
            .position(|it| usize::from(*it) == *column)
            .unwrap_or_default(),
        limbo: Tree::new(state.width(*table), 2),
        touched: Tree::new(state.width(*table), 1),
    });
    let parts = parts.collect();
    let mut work = Work { parts, suspects: Vec::new(), ready: Vec::new(), gone: BTreeMap::new() };
    work.delete(state)?;
    work.put_back(state)?;
    work.tell(state, cold)
}

/// What is under way of one table.
struct Part {
    table: usize,
    /// Where in a row the column is that all derivations keep.
    place: usize,
    /// Tuples that are not present and have derivations, with both numbers.
    limbo: Tree,
    /// Tuples that came or went, with 1 if they were present at first.
    touched: Tree,
}

struct Work {
    parts: Vec<Part>,
    /// Tuples that lost a derivation and have no base, each with the index of its table's part.
    suspects: Vec<(usize, Vec<u32>)>,
    /// Tuples in limbo that gained a derivation.
    ready: Vec<(usize, Vec<u32>)>,
    /// By the value that derivations keep: how many tuples went, and at how many to look again.
    gone: BTreeMap<u32, (usize, usize)>,
}

impl Work {
    /// Takes in what was told of the stratum's tables.
    fn absorb(&mut self, state: &mut State) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            let told = core::mem::take(&mut state.pending[part.table]);
            let width = part.limbo.width();
            for row in told.chunks_exact(width + 1) {
                let (key, change) = (&row[..width], row[width].cast_signed());
                if let Some(payload) = state.store(part.table).get(key) {
                    let numbers = add([payload[0], payload[1]], change);
                    state.space.set(part.table, key, &numbers);
                    if change < 0 && numbers[0] == 0 {
                        self.suspects.push((index, key.into()));
                    }
                    continue;
                }
                match part.limbo.get(key) {
                    Some(payload) => {
                        let numbers = add([payload[0], payload[1]], change);
                        part.limbo.set(key, &numbers);
                    }
                    None => part.limbo.insert(&[key, &add([0, 0], change)].concat()),
                }
                if change > 0 {
                    self.ready.push((index, key.into()));
                }
            }
        }
    }

    /// The first step.
    fn delete(&mut self, state: &mut State) -> Result<(), Stop> {
        loop {
            self.absorb(state);
            let Some((index, key)) = self.suspects.pop() else { return Ok(()) };
            let part = &self.parts[index];
            let base = state.store(part.table).get(&key).map(|payload| payload[0]);
            if base != Some(0) {
                continue;
            }
            let word = key[part.place];
            state.ask(part.table, Readers::Own, core::iter::once((&key[..], Cause::Vanishes)))?;
            self.take_out(state, index, &key);
            let (gone, limit) = self.gone.entry(word).or_insert((0, FEW));
            *gone += 1;
            if *gone >= *limit {
                let gone = *gone;
                let left: usize = self
                    .parts
                    .iter()
                    .map(|part| state.store(part.table).part(part.place, word).len())
                    .sum();
                self.gone.insert(word, (gone, 2 * gone));
                if gone > left {
                    self.compute_anew(state, word)?;
                }
            }
        }
    }

    /// From the present to limbo.
    fn take_out(&mut self, state: &mut State, index: usize, key: &[u32]) {
        let part = &mut self.parts[index];
        let payload = state.store(part.table).get(key).expect("what is taken out is present");
        part.limbo.insert(&[key, payload].concat());
        if part.touched.get(key).is_none() {
            part.touched.insert(&[key, &[1]].concat());
        }
        state.space.remove(part.table, key);
    }

    /// Deletes what is left of a part, and begins it again with its base.
    fn compute_anew(&mut self, state: &mut State, word: u32) -> Result<(), Stop> {
        state.counters.recomputed += 1;
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            for key in state.store(part.table).part(part.place, word) {
                self.take_out(state, index, &key);
            }
        }
        self.absorb(state);
        for part in &mut self.parts {
            let width = part.limbo.width();
            let own = part.limbo.range(&[]).filter(|row| row[part.place] == word);
            let own: Vec<Vec<u32>> = own.map(|row| row[..width].into()).collect();
            own.iter().for_each(|key| part.limbo.remove(key));
        }
        for part in &self.parts {
            for rule in state.program.tables[part.table].rules.clone() {
                state.derive_part(rule, word)?;
            }
        }
        Ok(())
    }

    /// The second step.
    fn put_back(&mut self, state: &mut State) -> Result<(), Stop> {
        self.ready.clear();
        for (index, part) in self.parts.iter().enumerate() {
            let width = part.limbo.width();
            self.ready.extend(part.limbo.range(&[]).map(|row| (index, row[..width].to_vec())));
        }
        while let Some((index, key)) = self.ready.pop() {
            let part = &mut self.parts[index];
            let Some(&[base, recursive]) = part.limbo.get(&key) else { continue };
            if base + recursive == 0 {
                continue;
            }
            part.limbo.remove(&key);
            if part.touched.get(&key).is_none() {
                part.touched.insert(&[&key[..], &[0]].concat());
            }
            state.space.insert(part.table, &key, &[base, recursive]);
            state.ask(part.table, Readers::Own, core::iter::once((&key[..], Cause::Appears)))?;
            self.absorb(state);
        }
        Ok(())
    }

    /// Tells others what is different now.
    fn tell(&self, state: &mut State, cold: bool) -> Result<(), Stop> {
        let mut changes: Vec<(usize, Vec<u32>)> = Vec::new();
        for part in &self.parts {
            let width = part.touched.width();
            let mut rows = Vec::new();
            for row in part.touched.range(&[]) {
                let (key, was_present) = (&row[..width], row[width] == 1);
                let is_present = state.store(part.table).get(key).is_some();
                if was_present != is_present {
                    rows.extend_from_slice(key);
                    rows.push(u32::from(is_present));
                }
            }
            state.counters.flips += (rows.len() / (width + 1)) as u64;
            note_outputs(state, part.table, &rows);
            changes.push((part.table, rows));
        }
        if cold {
            return Ok(());
        }
        if changes.iter().any(|(table, _)| reads_again(state, *table)) {
            return replay(state, &changes);
        }
        for (table, rows) in &changes {
            state.ask(*table, Readers::Other, causes(state.width(*table), rows))?;
        }
        Ok(())
    }
}

/// Both numbers of a tuple, after a derivation came or went.
fn add([base, recursive]: [u32; 2], change: i32) -> [u32; 2] {
    let sum = |number: u32, change: i32| {
        number.checked_add_signed(change).expect("a derivation comes before it goes")
    };
    match change.abs() {
        BASE => [sum(base, change), recursive],
        _ => [base, sum(recursive, change / RECURSIVE)],
    }
}

fn causes(width: usize, rows: &[u32]) -> impl Iterator<Item = (&[u32], Cause)> + Clone {
    rows.chunks_exact(width + 1).map(move |row| {
        let cause = if row[width] == 0 { Cause::Vanishes } else { Cause::Appears };
        (&row[..width], cause)
    })
}

/// Whether a rule of another stratum that reads the table reads its stratum again, so that it has
/// to see it change tuple by tuple.
fn reads_again(state: &State, table: usize) -> bool {
    let tables = &state.program.tables;
    let stratum = tables[table].stratum;
    state.plans.changes[table].iter().any(|plan| {
        let is_own = tables[state.program.rules[plan.rule].head].stratum == stratum;
        let again = plan.steps.iter().any(|step| match step {
            Step::Search { table, .. } | Step::Absent { table, .. } => {
                tables[*table].stratum == stratum
            }
            Step::Call { .. } => false,
        });
        !is_own && (again || plan.others.is_some())
    })
}

/// Takes the changes back and makes them again, one after another, for readers that look at each
/// with the others still as they were.
fn replay(state: &mut State, changes: &[(usize, Vec<u32>)]) -> Result<(), Stop> {
    let mut numbers = Vec::new();
    for (table, rows) in changes {
        for (key, cause) in causes(state.width(*table), rows) {
            match cause {
                Cause::Vanishes => state.space.insert(*table, key, &[0, 0]),
                _ => {
                    let payload = state.store(*table).get(key).expect("it has appeared");
                    numbers.push([payload[0], payload[1]]);
                    state.space.remove(*table, key);
                }
            }
        }
    }
    let mut numbers = numbers.into_iter();
    for (table, rows) in changes {
        for (key, cause) in causes(state.width(*table), rows) {
            if cause == Cause::Appears {
                let payload = numbers.next().expect("each that appeared was noted");
                state.space.insert(*table, key, &payload);
            }
            state.ask(*table, Readers::Other, core::iter::once((key, cause)))?;
            if cause == Cause::Vanishes {
                state.space.remove(*table, key);
            }
        }
    }
    Ok(())
}

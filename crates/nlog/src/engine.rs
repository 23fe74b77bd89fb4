//! The engine: batches of input tuples in, batches of output tuples out.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::counters::{Counters, RuleCounters};
use crate::explain::{Explanation, explain};
use crate::kinds::Kind;
use crate::layout::{Layout, TableId, Tuple};
use crate::library::Library;
use crate::program::{Callee, Program};
use crate::recursion;
use crate::settle::{self, Stop};
use crate::source::Fault;
use crate::state::{State, Told};
use crate::sweep::sweep;
use crate::syntax::Role;
use crate::values::{Value, Values};

/// Tuples to insert into input tables and to delete from them, all at once.
///
/// The order does not matter: what is inserted and deleted in one batch stays as it is.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    edits: Vec<Edit>,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct Edit {
    table: TableId,
    number: i32,
    end: usize,
}

impl Batch {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a tuple, which must not be there.
    pub fn insert(&mut self, table: TableId, tuple: &[Value]) {
        self.edit(table, tuple, 1);
    }

    /// Deletes a tuple, which must be there.
    pub fn delete(&mut self, table: TableId, tuple: &[Value]) {
        self.edit(table, tuple, -1);
    }

    /// How many tuples are inserted and deleted.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    fn edit(&mut self, table: TableId, tuple: &[Value], number: i32) {
        self.values.extend_from_slice(tuple);
        self.edits.push(Edit { table, number, end: self.values.len() });
    }

    fn edits(&self) -> impl Iterator<Item = (TableId, i32, &[Value])> {
        let mut start = 0;
        self.edits.iter().map(move |edit| {
            let tuple = &self.values[start..edit.end];
            start = edit.end;
            (edit.table, edit.number, tuple)
        })
    }
}

/// Why a batch was refused. Nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A tuple was inserted that is there already, or is inserted twice.
    Present(String),
    /// A tuple was deleted that is not there.
    Absent(String),
    /// A tuple has the key of another.
    Key(String),
    /// A function or a sum could not be computed, at this place in the rules.
    Failed(Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(tuple) => write!(f, "{tuple} is there already: do not insert it again"),
            Self::Absent(tuple) => write!(f, "{tuple} is not there: do not delete it"),
            Self::Key(tuple) => write!(f, "{tuple} has the key of another: delete that first"),
            Self::Failed(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}

/// What a batch changed in the output tables.
#[derive(Clone, Debug)]
pub struct Change {
    revision: u64,
    layouts: Arc<[Layout]>,
    tables: Vec<(TableId, Told)>,
}

impl Change {
    /// The revision that the batch was committed with.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The tables that changed, in the order of their declarations.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|(table, _)| *table)
    }

    /// The tuples that came, in no order that means something.
    pub fn appeared(&self, table: TableId) -> impl ExactSizeIterator<Item = Tuple<'_>> {
        self.tuples(table, |told| &told.appeared)
    }

    /// The tuples that went.
    pub fn vanished(&self, table: TableId) -> impl ExactSizeIterator<Item = Tuple<'_>> {
        self.tuples(table, |told| &told.vanished)
    }

    fn tuples<'a>(
        &'a self,
        table: TableId,
        rows: impl Fn(&'a Told) -> &'a [u32],
    ) -> impl ExactSizeIterator<Item = Tuple<'a>> {
        let layout = &self.layouts[table.index()];
        let told = self.tables.iter().find(|(it, _)| *it == table);
        let rows = told.map_or(&[][..], |(_, told)| rows(told));
        rows.chunks_exact(layout.kinds.len()).map(|row| Tuple::new(layout, row))
    }
}

/// A program with its tuples.
pub struct Engine {
    state: State,
    layouts: Arc<[Layout]>,
    revision: u64,
}

impl Engine {
    /// An engine without tuples. `values` are those that its values are made of.
    ///
    /// # Errors
    ///
    /// The declared functions that the library lacks.
    pub fn new(program: Program, mut library: Library, values: Values) -> Result<Self, Vec<Fault>> {
        let (mut functions, mut faults) = (Vec::new(), Vec::new());
        for function in &program.functions {
            match library.take(&function.name) {
                Some(implementation) => functions.push(implementation),
                None => {
                    let message = format!("{} is in no library: add it", function.name);
                    faults.push(program.fault(function.spot, message));
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let state = State::new(program, functions, values);
        let tables = state.program.tables.iter().zip(&state.plans.orders);
        let layouts = tables.map(|(table, orders)| Layout::new(table, &orders[0])).collect();
        Ok(Self { state, layouts, revision: 0 })
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        let tables = &self.state.program.tables;
        tables.iter().position(|table| table.name == name).map(|index| TableId(index as u32))
    }

    /// All tables, in the order of their declarations.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        (0..self.layouts.len() as u32).map(TableId)
    }

    /// A table's name.
    pub fn name(&self, table: TableId) -> &str {
        &self.layouts[table.index()].name
    }

    /// The kinds of a table's columns.
    pub fn kinds(&self, table: TableId) -> &[Kind] {
        &self.layouts[table.index()].kinds
    }

    /// Whence a table's tuples come, and where they go.
    pub fn role(&self, table: TableId) -> Role {
        self.state.program.tables[table.index()].role
    }

    /// The values, to read them.
    pub fn values(&self) -> &Values {
        &self.state.values
    }

    /// The values, to make new ones.
    pub fn values_mut(&mut self) -> &mut Values {
        &mut self.state.values
    }

    /// The revision of the last batch that was committed; 0 before the first.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A table's tuples.
    pub fn tuples(&self, table: TableId) -> impl Iterator<Item = Tuple<'_>> {
        let layout = &self.layouts[table.index()];
        let width = layout.kinds.len();
        let rows = self.state.store(table.index()).tree(0).range(&[]);
        rows.map(move |row| Tuple::new(layout, &row[..width]))
    }

    /// How many tuples a table has.
    pub fn len(&self, table: TableId) -> usize {
        self.state.store(table.index()).len()
    }

    /// By how many derivations a tuple is there: 0 if it is not.
    ///
    /// An input's tuples have one. Those of `min`, `max` and `set` have one; of `count` and `sum`,
    /// the number of solutions that are summarized.
    ///
    /// # Panics
    ///
    /// If the values do not fit the table's columns.
    pub fn derivations(&self, table: TableId, tuple: &[Value]) -> u64 {
        let mut row = Vec::new();
        self.layouts[table.index()].extend(&mut row, tuple);
        let numbers = self.state.store(table.index()).get(&row).unwrap_or_default();
        numbers.iter().map(|number| u64::from(*number)).sum()
    }

    /// Why a tuple is there; `None` if it is not.
    ///
    /// Rules are searched from their heads by the orders that changes need, so that a rule may have
    /// to look at a whole table: this is for people who ask, not for every tuple.
    ///
    /// # Errors
    ///
    /// A function failed that once succeeded.
    ///
    /// # Panics
    ///
    /// If the values do not fit the table's columns.
    pub fn explain(
        &mut self,
        table: TableId,
        tuple: &[Value],
    ) -> Result<Option<Explanation>, Refusal> {
        let mut row = Vec::new();
        self.layouts[table.index()].extend(&mut row, tuple);
        let explained = explain(&mut self.state, &self.layouts, table.index(), &row);
        explained.map_err(|failure| self.refusal(Stop::Failure(failure)))
    }

    /// The bytes that tuples and their indexes have taken. Kept values come on top
    /// ([`Values::kept`]).
    pub fn bytes(&self) -> usize {
        self.state.space.bytes()
    }

    /// What the engine has done.
    pub fn counters(&self) -> Counters {
        self.state.counters
    }

    /// What each rule has done, with the place of the rule.
    pub fn rules(&self) -> impl Iterator<Item = (Fault, RuleCounters)> {
        let program = &self.state.program;
        program.rules.iter().zip(&self.state.rules).map(|(rule, counters)| {
            (program.fault(rule.spot, program.tables[rule.head].name.clone()), *counters)
        })
    }

    /// Does a batch, whole or not at all. `revision` is the store's, greater than any before.
    ///
    /// Values that are in no tuple and not in the batch may be forgotten: those of an earlier
    /// change, too.
    ///
    /// # Errors
    ///
    /// The batch contradicts the tables, or a function failed: then the tables are as before.
    ///
    /// # Panics
    ///
    /// If the revision does not go up, or a tuple does not fit its table or that is no input.
    pub fn commit(&mut self, revision: u64, batch: &Batch) -> Result<Change, Refusal> {
        assert!(revision > self.revision, "revision {revision} follows {}", self.revision);
        if self.state.values.is_full() {
            sweep(&mut self.state, &self.layouts, &batch.values);
            self.state.counters.swept += 1;
        }
        let was_empty = self.state.space.is_empty();
        match self.attempt(revision, batch, was_empty) {
            Ok(change) => {
                self.state.space.commit();
                self.state.counters.commits += 1;
                self.revision = revision;
                Ok(change)
            }
            Err(stop) => {
                self.undo(was_empty);
                Err(self.refusal(stop))
            }
        }
    }

    /// What a batch would change: it is done and undone.
    ///
    /// # Errors
    ///
    /// As [`Engine::commit`].
    ///
    /// # Panics
    ///
    /// If a tuple does not fit its table, or that is no input.
    pub fn preview(&mut self, batch: &Batch) -> Result<Change, Refusal> {
        let was_empty = self.state.space.is_empty();
        let attempted = self.attempt(self.revision, batch, was_empty);
        self.undo(was_empty);
        attempted.map_err(|stop| self.refusal(stop))
    }

    fn attempt(&mut self, revision: u64, batch: &Batch, cold: bool) -> Result<Change, Stop> {
        let state = &mut self.state;
        (state.counters.touched, state.counters.flips) = (0, 0);
        for (table, number, tuple) in batch.edits() {
            let (index, layout) = (table.index(), &self.layouts[table.index()]);
            assert_eq!(state.program.tables[index].role, Role::Input, "{}", layout.name);
            layout.extend(&mut state.pending[index], tuple);
            state.pending[index].push(number.cast_unsigned());
            state.mark(index);
        }
        if cold {
            for stratum in 0..state.program.strata.len() {
                settle_cold(state, stratum)?;
            }
            state.forget_marks();
        } else {
            while let Some(stratum) = state.next_stratum() {
                let is_recursive = state.program.strata[stratum].partition.is_some();
                if is_recursive {
                    recursion::settle(state, stratum, false)?;
                } else {
                    settle::settle(state, state.program.strata[stratum].tables[0])?;
                }
            }
        }
        let told = state.told.iter_mut().enumerate();
        let changed = told.filter(|(_, it)| !it.appeared.is_empty() || !it.vanished.is_empty());
        let taken = changed.map(|(table, told)| (TableId(table as u32), core::mem::take(told)));
        Ok(Change { revision, layouts: self.layouts.clone(), tables: taken.collect() })
    }

    fn undo(&mut self, was_empty: bool) {
        self.state.abandon();
        self.state.counters.undone += 1;
        if was_empty {
            self.state.clear();
        } else {
            self.state.space.undo();
        }
    }

    fn refusal(&self, stop: Stop) -> Refusal {
        let program = &self.state.program;
        let show = |table: usize, row: &[u32]| {
            Tuple::new(&self.layouts[table], row).show(&self.state.values)
        };
        match stop {
            Stop::Present { table, row } => Refusal::Present(show(table, &row)),
            Stop::Absent { table, row } => Refusal::Absent(show(table, &row)),
            Stop::Key { table, row } => Refusal::Key(show(table, &row)),
            Stop::Sum { rule } => {
                let message = String::from("a sum is no number from 0 to 2^64 - 1");
                Refusal::Failed(program.fault(program.rules[rule].spot, message))
            }
            Stop::Failure(failure) => {
                let name = match failure.callee {
                    Callee::Builtin(builtin) => builtin.name(),
                    Callee::Declared(function) => &program.functions[function].name,
                };
                let message = format!("{name} failed: {}", failure.message);
                Refusal::Failed(program.fault(program.rules[failure.rule].spot, message))
            }
        }
    }
}

fn settle_cold(state: &mut State, stratum: usize) -> Result<(), Stop> {
    let tables = state.program.strata[stratum].tables.clone();
    if state.program.strata[stratum].partition.is_none() {
        return settle::settle_cold(state, tables[0]);
    }
    for table in tables {
        for rule in state.program.tables[table].rules.clone() {
            if !state.program.rules[rule].is_recursive {
                state.derive_all(rule)?;
            }
        }
    }
    recursion::settle(state, stratum, true)
}

//! Runs plans.

use alloc::string::{String, ToString};
use core::cmp::Ordering;

use crate::counters::RuleCounters;
use crate::library::{Answer, Call, Functions};
use crate::plan::{Cell, Plan, Step, View};
use crate::program::{Builtin, Callee, MAX_COLUMNS, MAX_SLOTS, Program, Slot};
use crate::store::Store;
use crate::tree::{Cursor, Tree};
use crate::values::Values;

/// Why the tuple that a plan begins with is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// It has come: the store has it already.
    Appears,
    /// It is about to go: the store has it still.
    Vanishes,
    /// It is there: all conditions see the store as it is.
    Stands,
}

/// A function that could not compute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub rule: usize,
    pub callee: Callee,
    pub message: String,
}

/// What plans need to run.
pub(crate) struct Machine<'a> {
    pub program: &'a Program,
    pub stores: &'a [Store],
    pub functions: &'a Functions,
    /// The words of each rule's constants.
    pub constants: &'a [alloc::vec::Vec<(Slot, u32)>],
    pub values: &'a mut Values,
    /// Where the searches of all plans' steps ended.
    pub hints: &'a mut [Cursor],
    pub counters: &'a mut [RuleCounters],
}

/// One run: what is bound so far.
struct Run<'r, 'a> {
    machine: &'r mut Machine<'a>,
    plan: &'r Plan,
    /// The tuple that a step must not see again, and when.
    seed: &'r [u32],
    cause: Cause,
    slots: [u32; MAX_SLOTS],
}

impl Machine<'_> {
    /// Finds all solutions of a plan that begin with this row, and tells the sink the slots of
    /// each.
    pub fn run(
        &mut self,
        plan: &Plan,
        seed: &[u32],
        cause: Cause,
        sink: &mut impl FnMut(&[u32]),
    ) -> Result<(), Failure> {
        let mut run = Run { machine: self, plan, seed, cause, slots: [0; MAX_SLOTS] };
        for (slot, word) in &run.machine.constants[plan.rule] {
            run.slots[usize::from(*slot)] = *word;
        }
        run.machine.counters[plan.rule].runs += 1;
        if !fill(&plan.cells, seed, &mut run.slots) || run.others_say_the_same() {
            return Ok(());
        }
        run.step(0, sink)
    }
}

impl Run<'_, '_> {
    /// For a negated condition with `_`: whether what it asks for neither came nor went, because
    /// there are other rows of that kind.
    fn others_say_the_same(&mut self) -> bool {
        let Some((order, prefix)) = &self.plan.others else { return false };
        let Some(table) = self.plan.changed(self.machine.program) else { return false };
        let mut words = [0; MAX_COLUMNS];
        let prefix = self.prefix(prefix, &mut words);
        let store = &self.machine.stores[table];
        self.machine.counters[self.plan.rule].probes += 1;
        store.tree(*order).range(prefix).any(|row| !store.is_same(*order, row, self.seed))
    }

    fn step(&mut self, at: usize, sink: &mut impl FnMut(&[u32])) -> Result<(), Failure> {
        let Some(step) = self.plan.steps.get(at) else {
            self.machine.counters[self.plan.rule].derivations += 1;
            sink(&self.slots);
            return Ok(());
        };
        match step {
            Step::Search { table, order, prefix, rest, view } => {
                let store = &self.machine.stores[*table];
                let tree = store.tree(*order);
                let mut words = [0; MAX_COLUMNS];
                let prefix = self.prefix(prefix, &mut words);
                let mut cursor = self.seek(tree, at, prefix);
                let skips = self.skips(*view);
                while let Some(row) = tree.row(cursor)
                    && row.starts_with(prefix)
                {
                    cursor = tree.after(cursor);
                    self.machine.counters[self.plan.rule].rows += 1;
                    if skips && store.is_same(*order, row, self.seed) {
                        continue;
                    }
                    if fill(rest, &row[prefix.len()..], &mut self.slots) {
                        self.step(at + 1, sink)?;
                    }
                }
                Ok(())
            }
            Step::Absent { table, order, prefix, view } => {
                let store = &self.machine.stores[*table];
                let tree = store.tree(*order);
                let mut words = [0; MAX_COLUMNS];
                let prefix = self.prefix(prefix, &mut words);
                let mut cursor = self.seek(tree, at, prefix);
                let skips = self.skips(*view);
                while let Some(row) = tree.row(cursor)
                    && row.starts_with(prefix)
                {
                    if !skips || !store.is_same(*order, row, self.seed) {
                        return Ok(());
                    }
                    cursor = tree.after(cursor);
                }
                self.step(at + 1, sink)
            }
            Step::Call { callee, inputs, outputs } => {
                let mut words = [0; MAX_COLUMNS];
                let inputs = self.prefix(inputs, &mut words);
                let mut row = [0; MAX_COLUMNS];
                if self.call(*callee, inputs, &mut row)? == Answer::Nothing
                    || !fill(outputs, &row, &mut self.slots)
                {
                    return Ok(());
                }
                self.step(at + 1, sink)
            }
        }
    }

    fn prefix<'w>(&self, slots: &[Slot], words: &'w mut [u32; MAX_COLUMNS]) -> &'w [u32] {
        for (word, slot) in words.iter_mut().zip(slots) {
            *word = self.slots[usize::from(*slot)];
        }
        &words[..slots.len()]
    }

    fn seek(&mut self, tree: &Tree, at: usize, prefix: &[u32]) -> Cursor {
        self.machine.counters[self.plan.rule].probes += 1;
        let hint = &mut self.machine.hints[self.plan.hints + at];
        *hint = tree.seek_near(*hint, prefix);
        *hint
    }

    /// Whether the tuple that changes is in the store, but not in what a step sees.
    fn skips(&self, view: View) -> bool {
        match view {
            View::Only => false,
            View::New => self.cause == Cause::Vanishes,
            View::Old => self.cause == Cause::Appears,
        }
    }

    fn call(
        &mut self,
        callee: Callee,
        inputs: &[u32],
        row: &mut [u32; MAX_COLUMNS],
    ) -> Result<Answer, Failure> {
        self.machine.counters[self.plan.rule].calls += 1;
        let answer = match callee {
            Callee::Builtin(builtin) => self.builtin(builtin, inputs, row),
            Callee::Declared(index) => {
                let function = &self.machine.program.functions[index];
                let mut call = Call {
                    values: self.machine.values,
                    inputs: &function.inputs,
                    outputs: &function.outputs,
                    given: inputs,
                    row: [0; MAX_COLUMNS],
                    len: 0,
                };
                let answer = (self.machine.functions[index])(&mut call);
                if answer == Ok(Answer::Row) {
                    assert_eq!(call.len, function.outputs.len(), "outputs of {}", function.name);
                    *row = call.row;
                }
                answer
            }
        };
        answer.map_err(|message| Failure { rule: self.plan.rule, callee, message })
    }

    fn builtin(
        &mut self,
        builtin: Builtin,
        inputs: &[u32],
        row: &mut [u32; MAX_COLUMNS],
    ) -> Result<Answer, String> {
        let values = &mut self.machine.values;
        let (one, other) = (inputs[0], inputs[1]);
        let numbers = |values: &Values| (values.int_of(one), values.int_of(other));
        let holds = match builtin {
            Builtin::Equal => one == other,
            Builtin::NotEqual => one != other,
            Builtin::Less | Builtin::LessOrEqual => {
                let (one, other) = numbers(values);
                match one.cmp(&other) {
                    Ordering::Less => true,
                    Ordering::Equal => builtin == Builtin::LessOrEqual,
                    Ordering::Greater => false,
                }
            }
            Builtin::Add | Builtin::Subtract => {
                let (one, other) = numbers(values);
                let result = match builtin {
                    Builtin::Add => one.checked_add(other),
                    _ => one.checked_sub(other),
                };
                let Some(result) = result else {
                    return Err("the result is no number from 0 to 2^64 - 1".to_string());
                };
                row[0] = values.int_word(result);
                true
            }
        };
        Ok(if holds { Answer::Row } else { Answer::Nothing })
    }
}

/// Binds and checks slots by a row's columns. Whether all checks hold.
fn fill(cells: &[Cell], row: &[u32], slots: &mut [u32; MAX_SLOTS]) -> bool {
    for (cell, word) in cells.iter().zip(row) {
        match cell {
            Cell::Any => {}
            Cell::Bind(slot) => slots[usize::from(*slot)] = *word,
            Cell::Check(slot) if slots[usize::from(*slot)] == *word => {}
            Cell::Check(_) => return false,
        }
    }
    true
}

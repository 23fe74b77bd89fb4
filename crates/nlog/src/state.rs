//! All that an engine knows, and what every way of settling a table needs.

use alloc::vec;
use alloc::vec::Vec;

use crate::counters::{Counters, RuleCounters};
use crate::evaluate::{Cause, Failure, Machine};
use crate::library::Functions;
use crate::plan::{Plan, Plans};
use crate::program::{Program, Slot, Summary};
use crate::sort::{consolidate, sort};
use crate::space::Space;
use crate::store::Store;
use crate::syntax::Constant;
use crate::tree::{Cursor, Tree};
use crate::values::Values;

pub(crate) struct State {
    pub program: Program,
    pub plans: Plans,
    pub space: Space,
    pub functions: Functions,
    pub values: Values,
    pub rules: Vec<RuleCounters>,
    pub counters: Counters,
    /// By table: what was told of its tuples and has not been looked at, rows each with a number.
    pub pending: Vec<Vec<u32>>,
    /// By table: whether a change of it has to be looked at tuple by tuple.
    pub one_by_one: Vec<bool>,
    /// By table: if it has a key, an order that begins with it, and where in a row it is.
    pub keys: Vec<Option<(usize, Vec<usize>)>>,
    /// By output table: which tuples came and went in this batch.
    pub told: Vec<Told>,
    /// Memory for sorting.
    pub spare: Vec<u32>,
    dirty: Dirty,
    constants: Vec<Vec<(Slot, u32)>>,
    hints: Vec<Cursor>,
}

/// Rows of an output table.
#[derive(Clone, Default, Debug)]
pub(crate) struct Told {
    pub appeared: Vec<u32>,
    pub vanished: Vec<u32>,
}

/// What a derivation adds to the number of its tuple. In recursive strata, derivations from other
/// strata and from the own one are told apart.
pub(crate) const BASE: i32 = 1;
pub(crate) const RECURSIVE: i32 = 2;

/// Words that are told of a table before those of the same tuple are added up.
const MANY: usize = 1 << 24;

/// Which rules to ask about a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readers {
    All,
    /// Those whose heads are in the stratum of the table that changes.
    Own,
    /// The others.
    Other,
}

impl State {
    pub fn new(program: Program, functions: Functions, mut values: Values) -> Self {
        let plans = Plans::of(&program);
        let mut constants = Vec::new();
        for rule in &program.rules {
            let mut words = Vec::new();
            for (slot, info) in (0..).zip(&rule.slots) {
                match &info.constant {
                    None => {}
                    Some(Constant::Bool(it)) => words.push((slot, u32::from(*it))),
                    Some(Constant::Int(it)) => words.push((slot, values.int_word(*it))),
                    Some(Constant::Text(it)) => words.push((slot, values.text(it).word)),
                }
            }
            constants.push(words);
        }
        let tables = program.tables.len();
        let one_by_one = plans.changes.iter().map(|plans| plans.iter().any(Plan::sees_own_table));
        let keys = program.tables.iter().zip(&plans.orders);
        let keys = keys.map(|(table, orders)| key(&table.key, orders)).collect();
        Self {
            keys,
            space: space(&program, &plans),
            functions,
            values,
            rules: vec![RuleCounters::default(); program.rules.len()],
            counters: Counters::default(),
            pending: vec![Vec::new(); tables],
            one_by_one: one_by_one.collect(),
            told: vec![Told::default(); tables],
            spare: Vec::new(),
            dirty: Dirty(vec![0; program.strata.len().div_ceil(64)]),
            constants,
            hints: vec![Tree::NOWHERE; plans.hints],
            program,
            plans,
        }
    }

    /// How many columns a table has.
    pub fn width(&self, table: usize) -> usize {
        self.program.tables[table].columns.len()
    }

    /// How many words of a row are told of a table, beside the number.
    pub fn told_width(&self, table: usize) -> usize {
        let rule = self.program.tables[table].rules.first();
        rule.map_or(self.width(table), |rule| self.plans.tells[*rule].len())
    }

    pub fn store(&self, table: usize) -> &Store {
        &self.space.stores()[table]
    }

    /// The words of each rule's constants.
    pub fn constants(&self) -> &[Vec<(Slot, u32)>] {
        &self.constants
    }

    /// Has the table's stratum looked at.
    pub fn mark(&mut self, table: usize) {
        self.dirty.mark(self.program.tables[table].stratum);
    }

    /// The first stratum to be looked at.
    pub fn next_stratum(&mut self) -> Option<usize> {
        self.dirty.next()
    }

    /// Asks the rules that read a table what follows from a change of it. `change` says which rows,
    /// of so many words of which the key comes first, and why.
    pub fn ask<'r>(
        &mut self,
        table: usize,
        readers: Readers,
        rows: impl Iterator<Item = (&'r [u32], Cause)> + Clone,
    ) -> Result<(), Failure> {
        let (mut machine, plans, pending, dirty) = self.machine();
        let program = machine.program;
        let stratum = program.tables[table].stratum;
        for plan in &plans.changes[table] {
            let head = program.rules[plan.rule].head;
            let is_own = program.tables[head].stratum == stratum;
            let is_asked = match readers {
                Readers::All => true,
                Readers::Own => is_own,
                Readers::Other => !is_own,
            };
            if !is_asked {
                continue;
            }
            for (row, cause) in rows.clone() {
                let comes = (cause == Cause::Appears) != plan.is_negated;
                tell(&mut machine, plans, plan, row, cause, comes, &mut pending[head])?;
            }
            if !pending[head].is_empty() {
                dirty.mark(program.tables[head].stratum);
            }
        }
        Ok(())
    }

    /// Tells all derivations by a rule whose body stands: from all tuples of the table that is the
    /// best to begin with.
    pub fn derive_all(&mut self, rule: usize) -> Result<(), Failure> {
        let head = &self.program.tables[self.program.rules[rule].head];
        let is_recursive = self.program.strata[head.stratum].partition.is_some();
        let mut spare = core::mem::take(&mut self.spare);
        let done = self.derive(rule, !is_recursive, &mut spare);
        self.spare = spare;
        done
    }

    /// `adds_up`: what many derivations have in common is told once, with their number, to have
    /// room.
    fn derive(&mut self, rule: usize, adds_up: bool, spare: &mut Vec<u32>) -> Result<(), Failure> {
        let (mut machine, plans, pending, _) = self.machine();
        let own = &machine.program.rules[rule];
        let tables = own.body.iter().filter_map(|atom| atom.table());
        let candidates =
            tables.flat_map(|table| plans.changes[table].iter().map(move |it| (table, it)));
        let best = candidates
            .filter(|(_, plan)| plan.rule == rule && !plan.is_negated)
            .min_by_key(|(table, plan)| (plan.whole, machine.stores[*table].len()));
        let (table, plan) = best.expect("every rule reads a table");
        let tree = machine.stores[table].tree(0);
        let stride = plans.tells[rule].len() + 1;
        let pending = &mut pending[own.head];
        let mut limit = MANY;
        for row in tree.range(&[]) {
            let row = &row[..tree.width()];
            tell(&mut machine, plans, plan, row, Cause::Stands, true, pending)?;
            if pending.len() > limit && adds_up {
                sort(pending, stride, stride - 1, spare);
                consolidate(pending, stride);
                limit = limit.max(2 * pending.len());
            }
        }
        Ok(())
    }

    /// Tells all derivations by a rule of a part of a recursive stratum.
    pub fn derive_part(&mut self, rule: usize, key: u32) -> Result<(), Failure> {
        let (mut machine, plans, pending, _) = self.machine();
        let Some(plan) = &plans.parts[rule] else { return Ok(()) };
        // Only the key's column is looked at, wherever the primary order has it.
        let row = [key; crate::program::MAX_COLUMNS];
        let row = &row[..plan.cells.len()];
        let head = machine.program.rules[rule].head;
        tell(&mut machine, plans, plan, row, Cause::Stands, true, &mut pending[head])
    }

    pub fn machine(&mut self) -> (Machine<'_>, &Plans, &mut [Vec<u32>], &mut Dirty) {
        let machine = Machine {
            program: &self.program,
            stores: self.space.stores(),
            functions: &self.functions,
            constants: &self.constants,
            values: &mut self.values,
            hints: &mut self.hints,
            counters: &mut self.rules,
        };
        (machine, &self.plans, &mut self.pending, &mut self.dirty)
    }

    /// Has no stratum looked at.
    pub fn forget_marks(&mut self) {
        self.dirty.0.fill(0);
    }

    /// Forgets what was told and not looked at.
    pub fn abandon(&mut self) {
        self.pending.iter_mut().for_each(Vec::clear);
        self.forget_marks();
        self.told.iter_mut().for_each(|told| *told = Told::default());
    }

    /// No tuples, as at first.
    pub fn clear(&mut self) {
        self.space = space(&self.program, &self.plans);
    }
}

/// Runs a plan and appends what it derives, with what that adds to the number of the tuple.
fn tell(
    machine: &mut Machine<'_>,
    plans: &Plans,
    plan: &Plan,
    row: &[u32],
    cause: Cause,
    comes: bool,
    pending: &mut Vec<u32>,
) -> Result<(), Failure> {
    let unit = if machine.program.rules[plan.rule].is_recursive { RECURSIVE } else { BASE };
    let number = if comes { unit } else { -unit }.cast_unsigned();
    let tells = &plans.tells[plan.rule];
    machine.run(plan, row, cause, &mut |slots| {
        pending.extend(tells.iter().map(|slot| slots[usize::from(*slot)]));
        pending.push(number);
    })
}

/// An order that begins with a key's columns, and where in a primary row they are.
fn key(key: &[usize], orders: &[Vec<u8>]) -> Option<(usize, Vec<usize>)> {
    let is_first = |order: &Vec<u8>| {
        order[..key.len()].iter().all(|column| key.contains(&usize::from(*column)))
    };
    let order = orders.iter().position(is_first).filter(|_| !key.is_empty())?;
    let places = orders[order][..key.len()].iter();
    let places = places.map(|column| orders[0].iter().position(|it| it == column));
    Some((order, places.collect::<Option<_>>()?))
}

fn space(program: &Program, plans: &Plans) -> Space {
    let stores = program.tables.iter().zip(&plans.orders).map(|(table, orders)| {
        let is_recursive = program.strata[table.stratum].partition.is_some();
        Store::new(orders, if is_recursive { 2 } else { 1 })
    });
    let members = program.tables.iter().map(|table| {
        let aggregate = table.rules.first().and_then(|rule| program.rules[*rule].aggregate)?;
        let has_members = !matches!(aggregate.summary, Summary::Count | Summary::Sum);
        has_members.then(|| Tree::new(table.columns.len(), 1))
    });
    Space::new(stores.collect(), members.collect())
}

/// Strata to be looked at, a bit each.
pub(crate) struct Dirty(Vec<u64>);

impl Dirty {
    fn mark(&mut self, stratum: usize) {
        self.0[stratum / 64] |= 1 << (stratum % 64);
    }

    fn next(&mut self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        let bit = self.0[word].trailing_zeros() as usize;
        self.0[word] &= self.0[word] - 1;
        Some(64 * word + bit)
    }
}

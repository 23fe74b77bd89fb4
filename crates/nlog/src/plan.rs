//! How a change of one table becomes changes of others.
//!
//! For a rule `h :- a, b, c` and a change of `b`, a plan says in which order `a` and `c` are
//! searched and by which columns. It binds the variables that the changed tuple has, then looks up
//! condition by condition, each time by what is bound, and ends with a tuple of `h`:
//!
//! ```text
//!   changed tuple of b ─▶ bind ─▶ search a ─▶ bind ─▶ search c ─▶ call f ─▶ tuple of h
//! ```
//!
//! Plans are made in two rounds. The first chooses the order of conditions, from which follows by
//! which columns each table is searched, and so its orders ([`cover`]). The second writes the steps
//! for these orders.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::orders::{Columns, all, cover};
use crate::program::{Atom, Callee, Program, Rule, Slot, Sort};

/// What to do with a column of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    /// Nothing.
    Any,
    /// The variable takes this value.
    Bind(Slot),
    /// The row is left out if the slot has another value.
    Check(Slot),
}

/// Which state of a table a step sees, if the table is the one that changes: the condition comes
/// before the changed one in the rule, or after it.
///
/// A change of a table that is read several times is a change of each of these conditions, one
/// after another: those before it have changed, those after it have not. So no derivation is
/// counted twice, and none is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Another table, or the changed condition is the only one.
    Only,
    /// As after the change.
    New,
    /// As before the change.
    Old,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// For each row that begins with these values.
    Search { table: usize, order: usize, prefix: Vec<Slot>, rest: Vec<Cell>, view: View },
    /// Only if there is no row that begins with these values.
    Absent { table: usize, order: usize, prefix: Vec<Slot>, view: View },
    /// For the function's result, if it has one.
    Call { callee: Callee, inputs: Vec<Slot>, outputs: Vec<Cell> },
}

/// What a plan begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seed {
    /// A tuple of the table of a condition, by its index in the body.
    Atom(usize),
    /// A tuple of the head, as far as it is no aggregate.
    Head,
    /// The value of the column of the head that parts the stratum.
    Part(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub rule: usize,
    pub seed: Seed,
    /// Of the tuple that the plan begins with.
    pub cells: Vec<Cell>,
    /// For a negated condition with `_`: how to find whether other rows say the same.
    pub others: Option<(usize, Vec<Slot>)>,
    pub is_negated: bool,
    pub steps: Vec<Step>,
    /// How many searches must look at a whole table.
    pub whole: usize,
    /// The index of the first step's hint: where its last search ended.
    pub hints: usize,
}

impl Plan {
    /// Whether what follows depends on other tuples of the table that changes.
    pub fn sees_own_table(&self) -> bool {
        self.others.is_some()
            || self.steps.iter().any(|step| match step {
                Step::Search { view, .. } | Step::Absent { view, .. } => *view != View::Only,
                Step::Call { .. } => false,
            })
    }

    /// The table that changes, for plans that begin with a change.
    pub fn changed(&self, program: &Program) -> Option<usize> {
        match self.seed {
            Seed::Atom(at) => program.rules[self.rule].body[at].table(),
            Seed::Head | Seed::Part(_) => None,
        }
    }
}

/// A table's orders: of each, the columns in their order.
pub(crate) type Orders = Vec<Vec<u8>>;

/// All plans of a program. Columns are those of the primary orders.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    pub orders: Vec<Orders>,
    /// By the table that changes.
    pub changes: Vec<Vec<Plan>>,
    /// By rule: from a tuple of the head to what it follows from.
    pub reasons: Vec<Plan>,
    /// By rule: the slots of what it tells its head's table. That is a tuple; of an aggregate, the
    /// group and then the argument, if it has one.
    pub tells: Vec<Vec<Slot>>,
    /// By rule, if its head is of a recursive stratum and it is not recursive itself: all of a
    /// part.
    pub parts: Vec<Option<Plan>>,
    /// How many steps all plans have.
    pub hints: usize,
}

impl Plans {
    pub fn of(program: &Program) -> Self {
        let mut searches: Vec<BTreeSet<Columns>> =
            program.tables.iter().map(|_| BTreeSet::new()).collect();
        for (table, searches) in program.tables.iter().zip(&mut searches) {
            searches.insert(table.key.iter().map(|column| 1 << column).sum());
        }
        for stratum in &program.strata {
            let columns = stratum.tables.iter().zip(stratum.partition.iter().flatten());
            for (table, column) in columns {
                searches[*table].insert(1 << column);
            }
        }
        let mut drafts = Vec::new();
        for (index, rule) in program.rules.iter().enumerate() {
            if let Some(aggregate) = rule.aggregate {
                let columns = all(rule.terms.len()) & !(1 << aggregate.column);
                searches[rule.head].insert(columns);
            }
            let mut draft = |seed| {
                let order = conditions(program, rule, seed);
                search(rule, seed, &order, &mut searches);
                drafts.push((index, seed, order));
            };
            for at in (0..rule.body.len()).filter(|at| rule.body[*at].table().is_some()) {
                draft(Seed::Atom(at));
            }
            let stratum = &program.strata[program.tables[rule.head].stratum];
            if let Some(partition) = &stratum.partition
                && !rule.is_recursive
            {
                let at = stratum.tables.iter().position(|it| *it == rule.head);
                draft(Seed::Part(partition[at.unwrap_or_default()]));
            }
        }
        let orders = program.tables.iter().zip(&searches).map(|(table, searches)| {
            let aggregate = table.rules.first().and_then(|rule| program.rules[*rule].aggregate);
            cover(table.columns.len(), searches, aggregate.map(|it| it.column))
        });
        let orders = orders.collect();
        Self::with_orders(program, orders, drafts)
    }

    fn with_orders(
        program: &Program,
        orders: Vec<Orders>,
        drafts: Vec<(usize, Seed, Vec<usize>)>,
    ) -> Self {
        let writer = Writer { program, orders: &orders };
        let mut changes: Vec<Vec<Plan>> = program.tables.iter().map(|_| Vec::new()).collect();
        let mut parts: Vec<Option<Plan>> = program.rules.iter().map(|_| None).collect();
        for (rule, seed, conditions) in drafts {
            let plan = writer.plan(rule, seed, &conditions);
            match seed {
                Seed::Atom(at) => {
                    let table = program.rules[rule].body[at].table();
                    changes[table.expect("only conditions on tables begin plans")].push(plan);
                }
                Seed::Part(_) => parts[rule] = Some(plan),
                Seed::Head => {}
            }
        }
        let reasons = (0..program.rules.len()).map(|rule| {
            let conditions = conditions(program, &program.rules[rule], Seed::Head);
            writer.plan(rule, Seed::Head, &conditions)
        });
        let mut reasons: Vec<Plan> = reasons.collect();
        let mut hints = 0;
        let all = changes.iter_mut().flatten().chain(parts.iter_mut().flatten());
        for plan in all.chain(&mut reasons) {
            plan.hints = hints;
            hints += plan.steps.len();
        }
        let tells = program.rules.iter().map(|rule| {
            let order = orders[rule.head][0].iter().map(|it| usize::from(*it));
            order.filter_map(|column| rule.terms[column]).collect()
        });
        let tells = tells.collect();
        Self { orders, changes, reasons, tells, parts, hints }
    }
}

/// Slots, a bit each.
type Slots = u64;

fn slots(terms: &[Option<Slot>]) -> Slots {
    terms.iter().flatten().fold(0, |slots, slot| slots | 1 << slot)
}

/// What is bound before the first step: constants, and what the seed has.
fn bound(rule: &Rule, seed: Seed) -> Slots {
    let constants = (0..).zip(&rule.slots).filter(|(_, info)| info.constant.is_some());
    let constants = constants.fold(0, |slots, (slot, _)| slots | 1 << slot);
    constants
        | match seed {
            Seed::Atom(at) => slots(&rule.body[at].terms),
            Seed::Head => rule
                .terms
                .iter()
                .enumerate()
                .filter(|(at, _)| rule.aggregate.is_none_or(|it| it.column != *at))
                .fold(0, |bound, (_, term)| bound | slots(&[*term])),
            Seed::Part(column) => slots(&rule.terms[column..=column]),
        }
}

/// The columns of a condition whose values are known.
fn known(atom: &Atom, bound: Slots) -> Columns {
    let is_known = |term: &Option<Slot>| term.is_some_and(|slot| bound >> slot & 1 == 1);
    let known = (0..).zip(&atom.terms).filter(|(_, term)| is_known(term));
    known.fold(0, |columns, (column, _)| columns | 1 << column)
}

/// The conditions in the order in which they are looked at: always one that asks for the least.
fn conditions(program: &Program, rule: &Rule, seed: Seed) -> Vec<usize> {
    let mut bound = bound(rule, seed);
    let mut left: Vec<usize> = (0..rule.body.len()).filter(|at| seed != Seed::Atom(*at)).collect();
    let mut order = Vec::new();
    while let Some(next) = (0..left.len()).min_by_key(|at| rank(program, rule, &left, *at, bound)) {
        let at = left.remove(next);
        bound |= slots(&rule.body[at].terms);
        order.push(at);
    }
    order
}

/// How soon a condition is to be looked at: the least first, then the first.
fn rank(
    program: &Program,
    rule: &Rule,
    left: &[usize],
    at: usize,
    bound: Slots,
) -> (u8, usize, usize) {
    /// For what cannot be looked at yet.
    const NEVER: (u8, usize, usize) = (u8::MAX, 0, 0);
    let atom = &rule.body[left[at]];
    let unbound = slots(&atom.terms) & !bound;
    match atom.sort {
        Sort::Call(_, inputs) => {
            let is_ready = slots(&atom.terms[..inputs]) & !bound == 0;
            let outputs = slots(&atom.terms[inputs..]);
            let helps = || {
                let others = left.iter().map(|it| &rule.body[*it]);
                others.filter(|it| it.table().is_some()).any(|it| slots(&it.terms) & outputs != 0)
            };
            match () {
                () if !is_ready => NEVER,
                () if unbound == 0 => (0, 0, 0),
                () if helps() => (3, 0, 0),
                // A result that only the head needs is computed last, for what is left then.
                () => (6, 0, 0),
            }
        }
        Sort::Absent(_) if unbound != 0 => NEVER,
        Sort::Absent(_) => (1, 0, 0),
        Sort::Table(table) => {
            let known = known(atom, bound);
            let free = atom.terms.len() - known.count_ones() as usize;
            let key = &program.tables[table].key;
            let has_key = !key.is_empty() && key.iter().all(|it| known >> it & 1 == 1);
            match () {
                () if free == 0 => (1, 0, 0),
                () if has_key => (2, free, 0),
                () if known != 0 => (4, usize::MAX - known.count_ones() as usize, free),
                () => (5, free, 0),
            }
        }
    }
}

/// Adds the columns by which tables are searched.
fn search(rule: &Rule, seed: Seed, order: &[usize], searches: &mut [BTreeSet<Columns>]) {
    let mut bound = bound(rule, seed);
    if let Seed::Atom(at) = seed
        && let Sort::Absent(table) = rule.body[at].sort
    {
        searches[table].insert(known(&rule.body[at], bound));
    }
    for at in order {
        let atom = &rule.body[*at];
        if let Some(table) = atom.table() {
            searches[table].insert(known(atom, bound));
        }
        bound |= slots(&atom.terms);
    }
}

/// Writes plans for orders that are chosen.
struct Writer<'w> {
    program: &'w Program,
    orders: &'w [Orders],
}

impl Writer<'_> {
    fn plan(&self, rule: usize, seed: Seed, conditions: &[usize]) -> Plan {
        let own = &self.program.rules[rule];
        let constants = (0..).zip(&own.slots).filter(|(_, info)| info.constant.is_some());
        let mut bound = constants.fold(0, |slots, (slot, _)| slots | 1 << slot);
        let (table, terms) = match seed {
            Seed::Atom(at) => {
                (own.body[at].table().unwrap_or(own.head), own.body[at].terms.clone())
            }
            Seed::Head | Seed::Part(_) => {
                let is_given = |column: usize| match seed {
                    Seed::Part(part) => column == part,
                    _ => own.aggregate.is_none_or(|it| it.column != column),
                };
                let given = |(at, term): (usize, &Option<Slot>)| term.filter(|_| is_given(at));
                (own.head, own.terms.iter().enumerate().map(given).collect())
            }
        };
        let primary = &self.orders[table][0];
        let cells = primary.iter().map(|it| cell(terms[usize::from(*it)], &mut bound)).collect();
        let (mut others, mut is_negated) = (None, false);
        if let Seed::Atom(at) = seed
            && let Sort::Absent(table) = own.body[at].sort
        {
            is_negated = true;
            if own.body[at].terms.contains(&None) {
                let (order, prefix) = self.search(table, &own.body[at], bound);
                others = Some((order, prefix));
            }
        }
        let mut steps = Vec::new();
        let mut whole = 0;
        for at in conditions {
            let step = self.step(own, seed, *at, &mut bound);
            if let Step::Search { prefix, .. } = &step {
                whole += usize::from(prefix.is_empty());
            }
            steps.push(step);
        }
        Plan { rule, seed, cells, others, is_negated, steps, whole, hints: 0 }
    }

    fn step(&self, rule: &Rule, seed: Seed, at: usize, bound: &mut Slots) -> Step {
        let atom = &rule.body[at];
        let view =
            match seed {
                Seed::Atom(changed) if rule.body[changed].table() == atom.table() => {
                    if at < changed { View::New } else { View::Old }
                }
                _ => View::Only,
            };
        match atom.sort {
            Sort::Table(table) => {
                let (order, prefix) = self.search(table, atom, *bound);
                let rest = self.orders[table][order][prefix.len()..].iter();
                let rest = rest.map(|it| cell(atom.terms[usize::from(*it)], bound)).collect();
                Step::Search { table, order, prefix, rest, view }
            }
            Sort::Absent(table) => {
                let (order, prefix) = self.search(table, atom, *bound);
                Step::Absent { table, order, prefix, view }
            }
            Sort::Call(callee, inputs) => {
                let (inputs, outputs) = atom.terms.split_at(inputs);
                let inputs = inputs.iter().flatten().copied().collect();
                let outputs = outputs.iter().map(|term| cell(*term, bound)).collect();
                Step::Call { callee, inputs, outputs }
            }
        }
    }

    /// The order that begins with the most columns whose values are known, and those.
    fn search(&self, table: usize, atom: &Atom, bound: Slots) -> (usize, Vec<Slot>) {
        let known = known(atom, bound);
        let prefix = |order: &Vec<u8>| -> Vec<Slot> {
            let columns = order.iter().take_while(|it| known >> **it & 1 == 1);
            columns.filter_map(|it| atom.terms[usize::from(*it)]).collect()
        };
        let prefixes = self.orders[table].iter().map(prefix).enumerate();
        let longest = prefixes.max_by_key(|(at, prefix)| (prefix.len(), core::cmp::Reverse(*at)));
        longest.unwrap_or_default()
    }
}

/// What is to be done with a term, which is bound afterwards.
fn cell(term: Option<Slot>, bound: &mut Slots) -> Cell {
    let Some(slot) = term else { return Cell::Any };
    let is_bound = *bound >> slot & 1 == 1;
    *bound |= 1 << slot;
    if is_bound { Cell::Check(slot) } else { Cell::Bind(slot) }
}

//! Rules as a dataflow of `differential-dataflow`, which is incremental as the engine is, in a way
//! that has nothing in common with it: changes with times flow through joins that keep both sides.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use differential_dataflow::VecCollection;
use differential_dataflow::input::Input;
use differential_dataflow::operators::iterate::Variable;
use timely::dataflow::operators::probe;
use timely::order::Product;

use super::{Plain, Table};
use crate::kinds::{Kind, Scalar};
use crate::program::{Aggregate, Atom, Builtin, Callee, Program, Rule, Slot, Sort, Summary};
use crate::syntax::Constant;

/// A value as dataflows take it: a number, or texts. Values of one kind have their order.
type Word = (u64, Vec<String>);

/// Values of a tuple, or of a rule's slots, of which some are not known yet.
type Row = Vec<Option<Word>>;

/// A batch, and a round of recursion in it. Operators are compiled for each type of rows and of
/// times that they have, which takes long, so all of them have these.
type Time = Product<u64, u64>;
type Rows<'s> = VecCollection<'s, Time, Row, isize>;
type Pairs<'s> = VecCollection<'s, Time, (Row, Row), isize>;

/// What a stratum gives to others.
type Given<'s> = VecCollection<'s, u64, Row, isize>;

/// An edit of an input: the table, the tuple, and whether it comes.
pub(crate) type Edit = (usize, Vec<Plain>, bool);

/// All tables after each of the batches, with the numbers of derivations.
pub(crate) fn run(program: &Program, batches: &[Vec<Edit>]) -> Vec<Vec<Table>> {
    let (program, batches) = (program.clone(), batches.to_vec());
    timely::execute_directly(move |worker| {
        let known: Rc<RefCell<Vec<BTreeMap<Row, isize>>>> =
            Rc::new(RefCell::new(vec![BTreeMap::new(); program.tables.len()]));
        let handle = probe::Handle::new();
        let mut inputs = worker.dataflow::<u64, _, _>(|scope| {
            let mut inputs = BTreeMap::new();
            let (mut counted, mut tables) = (BTreeMap::new(), BTreeMap::new());
            for stratum in &program.strata {
                if let [table] = stratum.tables[..]
                    && program.tables[table].rules.is_empty()
                {
                    let (input, rows) = scope.new_collection::<Row, isize>();
                    inputs.insert(table, input);
                    tables.insert(table, rows.clone());
                    counted.insert(table, rows);
                    continue;
                }
                let made: Vec<[Given<'_>; 2]> = scope.iterative::<u64, _, _>(|inner| {
                    let mut within: BTreeMap<usize, Rows<'_>> = BTreeMap::new();
                    for (table, rows) in &tables {
                        let rows: &Given<'_> = rows;
                        within.insert(*table, rows.clone().enter(inner));
                    }
                    // Nothing reads them of a stratum that is not recursive.
                    let mut variables = Vec::new();
                    for table in &stratum.tables {
                        let (variable, rows) = Variable::new(inner, Product::new(0, 1));
                        within.insert(*table, rows);
                        variables.push(variable);
                    }
                    let made = stratum.tables.iter().map(|it| derive(&program, *it, &within));
                    let made = made.collect::<Vec<_>>().into_iter().zip(variables);
                    let made = made.map(|(rows, variable)| {
                        let once = rows.clone().distinct();
                        variable.set(once.clone());
                        [rows, once].map(|rows| rows.leave(scope))
                    });
                    made.collect()
                });
                for (table, [rows, once]) in stratum.tables.iter().zip(made) {
                    tables.insert(*table, once);
                    counted.insert(*table, rows);
                }
            }
            for (table, rows) in counted {
                let known = known.clone();
                let note = move |(row, _, change): &(Row, u64, isize)| {
                    *known.borrow_mut()[table].entry(row.clone()).or_default() += change;
                };
                rows.inspect(note).probe_with(&handle);
            }
            inputs
        });
        let mut after = Vec::new();
        for (time, batch) in (1..).zip(batches) {
            for (table, tuple, comes) in batch {
                let change = if comes { 1 } else { -1 };
                let input = inputs.get_mut(&table).expect("edits are of inputs");
                input.update(tuple.iter().map(|it| Some(word(it))).collect(), change);
            }
            for input in inputs.values_mut() {
                input.advance_to(time);
                input.flush();
            }
            worker.step_while(|| handle.less_than(&time));
            let tables = known.borrow();
            let tables = tables.iter().zip(&program.tables);
            let tables = tables.map(|(rows, table)| {
                let kinds: Vec<Kind> = table.columns.iter().map(|it| it.ty.kind).collect();
                let rows = rows.iter().filter(|(_, number)| **number != 0);
                let plain = |(row, number): (&Row, &isize)| {
                    let row = row.iter().flatten().zip(&kinds);
                    let row = row.map(|(word, kind)| plain(word, *kind));
                    (row.collect(), number.unsigned_abs() as u64)
                };
                rows.map(plain).collect()
            });
            after.push(tables.collect());
        }
        after
    })
}

fn word(plain: &Plain) -> Word {
    match plain {
        Plain::Int(it) => (*it, Vec::new()),
        Plain::Text(it) => (0, vec![it.clone()]),
        other => panic!("random programs have no {other:?}"),
    }
}

fn plain(word: &Word, kind: Kind) -> Plain {
    match kind {
        Kind::One(Scalar::Int) => Plain::Int(word.0),
        Kind::One(_) => Plain::Text(word.1[0].clone()),
        Kind::Set(_) => Plain::Set(word.1.iter().cloned().map(Plain::Text).collect()),
    }
}

/// What the rules of a table derive, as often as they do.
fn derive<'s>(program: &Program, table: usize, tables: &BTreeMap<usize, Rows<'s>>) -> Rows<'s> {
    let rules = program.tables[table].rules.iter().map(|rule| &program.rules[*rule]);
    let heads = rules.map(|rule| {
        let (found, terms) = (solutions(rule, tables), rule.terms.clone());
        match rule.aggregate {
            Some(aggregate) => summarize(found, terms, aggregate),
            None => found.map(move |slots| {
                let value = |term: &Option<Slot>| slots[usize::from(term.expect("a head"))].clone();
                terms.iter().map(value).collect()
            }),
        }
    });
    heads.reduce(Rows::concat).expect("the table has rules")
}

fn summarize<'s>(
    found: Rows<'s>,
    terms: Vec<Option<Slot>>,
    Aggregate { summary, column }: Aggregate,
) -> Rows<'s> {
    let groups: Pairs<'s> = found.map(move |slots| {
        let value = |term: &Option<Slot>| term.and_then(|it| slots[usize::from(it)].clone());
        let mut row: Row = terms.iter().map(value).collect();
        let argument = row.remove(column);
        (row, vec![argument])
    });
    let summaries: Pairs<'s> = groups.reduce(move |_, members, output| {
        let words = || members.iter().filter_map(|(row, times)| Some((row[0].as_ref()?, *times)));
        let number: isize = members.iter().map(|(_, number)| *number).sum();
        // Members are in order, each once.
        let (word, times) = match summary {
            Summary::Count => ((number.unsigned_abs() as u64, Vec::new()), number),
            Summary::Sum => {
                let parts = words().map(|(word, times)| word.0 * times.unsigned_abs() as u64);
                ((parts.sum(), Vec::new()), number)
            }
            Summary::Min => (words().next().expect("a group has members").0.clone(), 1),
            Summary::Max => (words().next_back().expect("a group has members").0.clone(), 1),
            Summary::Set => ((0, words().map(|(word, _)| word.1[0].clone()).collect()), 1),
        };
        output.push((vec![Some(word)], times));
    });
    summaries.map(move |(mut row, mut value)| {
        row.insert(column, value.remove(0));
        row
    })
}

fn solutions<'s>(rule: &Rule, tables: &BTreeMap<usize, Rows<'s>>) -> Rows<'s> {
    let constant = |it: &Constant| match it {
        Constant::Int(it) => (*it, Vec::new()),
        Constant::Text(it) => (0, vec![it.clone()]),
        Constant::Bool(_) => panic!("random programs have no bools"),
    };
    let first: Row = rule.slots.iter().map(|it| it.constant.as_ref().map(constant)).collect();
    let is_bound = |slot: &Slot| first[usize::from(*slot)].is_some();
    let mut bound: BTreeSet<Slot> = (0..first.len() as Slot).filter(is_bound).collect();
    let mut found: Option<Rows<'s>> = None;
    for atom in &rule.body {
        let (Sort::Table(table), terms) = (atom.sort, atom.terms.clone()) else { continue };
        let rows = tables[&table].clone();
        let known = known(atom, &bound);
        bound.extend(atom.terms.iter().flatten());
        found = Some(match found {
            None => {
                let first = first.clone();
                rows.flat_map(move |row| matched(&first, &terms, &row))
            }
            Some(found) => by_slots(found, &known)
                .join_map(by_columns(rows, &known), move |_, slots, row| {
                    matched(slots, &terms, row)
                })
                .flat_map(|it| it),
        });
    }
    let mut found = found.expect("every rule reads a table");
    let mut calls: Vec<&Atom> = rule.body.iter().collect();
    calls.retain(|atom| matches!(atom.sort, Sort::Call(..)));
    while !calls.is_empty() {
        let is_ready = |it: &&Atom| it.terms[..2].iter().flatten().all(|it| bound.contains(it));
        let atom = calls.remove(calls.iter().position(is_ready).expect("calls can be ordered"));
        bound.extend(atom.terms.iter().flatten());
        let Sort::Call(Callee::Builtin(builtin), _) = atom.sort else { panic!("no function") };
        let terms = atom.terms.clone();
        found = found.flat_map(move |slots| {
            let input = |at: usize| slots[usize::from(terms[at].unwrap())].clone().unwrap();
            matched(&slots, &terms, &called(builtin, input(0), input(1))?)
        });
    }
    for atom in &rule.body {
        let Sort::Absent(table) = atom.sort else { continue };
        let known = known(atom, &bound);
        let there = by_columns(tables[&table].clone(), &known).map(|(key, _)| key).distinct();
        found = by_slots(found, &known).antijoin(there).map(|(_, slots)| slots);
    }
    found
}

/// The columns of a condition whose values are known, each with its slot.
fn known(atom: &Atom, bound: &BTreeSet<Slot>) -> Vec<(usize, usize)> {
    let terms = atom.terms.iter().enumerate();
    let known = terms.filter_map(|(column, term)| Some((column, (*term)?)));
    known.filter(|(_, it)| bound.contains(it)).map(|(at, it)| (at, usize::from(it))).collect()
}

fn by_slots<'s>(found: Rows<'s>, known: &[(usize, usize)]) -> Pairs<'s> {
    let known = known.to_vec();
    found.map(move |slots| (known.iter().map(|(_, at)| slots[*at].clone()).collect(), slots))
}

fn by_columns<'s>(rows: Rows<'s>, known: &[(usize, usize)]) -> Pairs<'s> {
    let known = known.to_vec();
    rows.map(move |row| (known.iter().map(|(column, _)| row[*column].clone()).collect(), row))
}

fn called(builtin: Builtin, one: Word, other: Word) -> Option<Row> {
    let (is_so, result) = match builtin {
        Builtin::Equal => (one == other, None),
        Builtin::NotEqual => (one != other, None),
        Builtin::Less => (one < other, None),
        Builtin::LessOrEqual => (one <= other, None),
        Builtin::Add => (true, Some((one.0 + other.0, Vec::new()))),
        Builtin::Subtract => (true, Some((one.0 - other.0, Vec::new()))),
    };
    let known = [Some(one), Some(other)];
    is_so.then(|| known.into_iter().chain(result.map(Some)).collect())
}

/// The slots with what a row binds, if it agrees.
fn matched(slots: &[Option<Word>], terms: &[Option<Slot>], row: &[Option<Word>]) -> Option<Row> {
    let mut slots = slots.to_vec();
    for (term, value) in terms.iter().zip(row) {
        let Some(slot) = term else { continue };
        let known = &mut slots[usize::from(*slot)];
        if known.is_none() {
            known.clone_from(value);
        }
        if known != value {
            return None;
        }
    }
    Some(slots)
}

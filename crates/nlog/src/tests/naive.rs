//! Rules evaluated as they read: all solutions of all bodies, from nothing, each time.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::{Plain, Table};
use crate::program::{Builtin, Callee, Program, Rule, Sort, Summary};
use crate::syntax::Constant;

/// All tables, given the inputs.
pub(crate) fn evaluate(program: &Program, inputs: &[Table]) -> Vec<Table> {
    let mut tables = inputs.to_vec();
    for stratum in &program.strata {
        if stratum.partition.is_some() {
            // Sets until nothing is new; the numbers of derivations are those of the last round.
            loop {
                let next: Vec<Table> =
                    stratum.tables.iter().map(|table| derive(program, *table, &tables)).collect();
                let is_stable = stratum
                    .tables
                    .iter()
                    .zip(&next)
                    .all(|(table, next)| next.keys().eq(tables[*table].keys()));
                for (table, next) in stratum.tables.iter().zip(next) {
                    tables[*table] = next;
                }
                if is_stable {
                    break;
                }
            }
        } else {
            let table = stratum.tables[0];
            if !program.tables[table].rules.is_empty() {
                tables[table] = derive(program, table, &tables);
            }
        }
    }
    tables
}

fn derive(program: &Program, table: usize, tables: &[Table]) -> Table {
    let mut derived = Table::new();
    for rule in &program.tables[table].rules {
        let rule = &program.rules[*rule];
        let heads = solutions(rule, tables).into_iter().map(|slots| {
            let column = |term: &Option<u8>| term.map(|slot| slots[usize::from(slot)].clone());
            rule.terms.iter().map(|term| column(term).flatten()).collect::<Vec<_>>()
        });
        match rule.aggregate {
            None => {
                for head in heads {
                    let head: Option<Vec<Plain>> = head.into_iter().collect();
                    *derived.entry(head.expect("heads are bound")).or_default() += 1;
                }
            }
            Some(aggregate) => {
                let mut groups: BTreeMap<Vec<Plain>, Vec<Option<Plain>>> = BTreeMap::new();
                for mut head in heads {
                    let argument = head.remove(aggregate.column);
                    let group: Option<Vec<Plain>> = head.into_iter().collect();
                    groups.entry(group.expect("groups are bound")).or_default().push(argument);
                }
                for (mut group, arguments) in groups {
                    let number = arguments.len() as u64;
                    let members: BTreeSet<Plain> = arguments.iter().flatten().cloned().collect();
                    let (value, number) = match aggregate.summary {
                        Summary::Count => (Plain::Int(number), number),
                        Summary::Sum => {
                            let numbers = arguments.iter().flatten().map(int);
                            (Plain::Int(numbers.sum()), number)
                        }
                        Summary::Min => (members.first().unwrap().clone(), 1),
                        Summary::Max => (members.last().unwrap().clone(), 1),
                        Summary::Set => (Plain::Set(members.into_iter().collect()), 1),
                    };
                    group.insert(aggregate.column, value);
                    derived.insert(group, number);
                }
            }
        }
    }
    derived
}

fn int(value: &Plain) -> u64 {
    let Plain::Int(number) = value else { panic!("{value:?} is no number") };
    *number
}

type Slots = Vec<Option<Plain>>;

fn solutions(rule: &Rule, tables: &[Table]) -> Vec<Slots> {
    let constant = |constant: &Constant| match constant {
        Constant::Bool(it) => Plain::Bool(*it),
        Constant::Int(it) => Plain::Int(*it),
        Constant::Text(it) => Plain::Text(it.to_owned()),
    };
    let first: Slots = rule.slots.iter().map(|info| info.constant.as_ref().map(constant)).collect();
    let mut found = vec![first];
    for atom in &rule.body {
        if let Sort::Table(table) = atom.sort {
            let tuples = || tables[table].keys();
            let extend =
                |slots: Slots| tuples().filter_map(move |it| matched(&slots, &atom.terms, it));
            found = found.into_iter().flat_map(extend).collect();
        }
    }
    let mut calls: Vec<_> =
        rule.body.iter().filter(|atom| matches!(atom.sort, Sort::Call(..))).collect();
    while !calls.is_empty() && !found.is_empty() {
        let is_ready = |it: &&crate::program::Atom| {
            it.terms[..2].iter().flatten().all(|slot| found[0][usize::from(*slot)].is_some())
        };
        let next = calls.iter().position(is_ready).expect("calls can be ordered");
        let atom = calls.remove(next);
        let Sort::Call(Callee::Builtin(builtin), _) = atom.sort else { panic!("no function") };
        found = found
            .into_iter()
            .filter_map(|slots| {
                let input =
                    |at: usize| slots[usize::from(atom.terms[at].unwrap())].clone().unwrap();
                let row = builtin_row(builtin, input(0), input(1))?;
                matched(&slots, &atom.terms, &row)
            })
            .collect();
    }
    for atom in &rule.body {
        if let Sort::Absent(table) = atom.sort {
            found.retain(|slots| {
                !tables[table].keys().any(|it| matched(slots, &atom.terms, it).is_some())
            });
        }
    }
    found
}

fn builtin_row(builtin: Builtin, one: Plain, other: Plain) -> Option<Vec<Plain>> {
    let result = match builtin {
        Builtin::Equal => return (one == other).then(|| vec![one, other]),
        Builtin::NotEqual => return (one != other).then(|| vec![one, other]),
        Builtin::Less => return (int(&one) < int(&other)).then(|| vec![one, other]),
        Builtin::LessOrEqual => return (int(&one) <= int(&other)).then(|| vec![one, other]),
        Builtin::Add => int(&one) + int(&other),
        Builtin::Subtract => int(&one) - int(&other),
    };
    Some(vec![one, other, Plain::Int(result)])
}

/// The slots with what a tuple binds, if it agrees.
fn matched(slots: &Slots, terms: &[Option<u8>], tuple: &[Plain]) -> Option<Slots> {
    let mut slots = slots.clone();
    for (term, value) in terms.iter().zip(tuple) {
        let Some(slot) = term else { continue };
        match &mut slots[usize::from(*slot)] {
            Some(known) if known == value => {}
            Some(_) => return None,
            empty => *empty = Some(value.clone()),
        }
    }
    Some(slots)
}

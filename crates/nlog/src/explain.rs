//! Why a tuple is there.
//!
//! Nothing is stored for this: the rules of its table are asked for a body that stands, by the
//! orders that there are anyway, and so on down to the inputs. In a recursive stratum a tuple must
//! not end up explained by itself. There, all derivations that can matter are collected first, and
//! tuples count as explained in rounds, each by what was explained before.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::evaluate::{Cause, Failure};
use crate::layout::{Layout, TableId, Tuple};
use crate::program::{Callee, Rule, Slot, Sort, Summary};
use crate::source::Fault;
use crate::state::State;
use crate::syntax::Role;
use crate::values::{Value, Values};

/// Solutions of a summary that are told; of the others, how many there are.
const TOLD: usize = 8;

/// Why a tuple is there: facts, each of which names those it follows from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The first is the tuple that was asked about.
    pub facts: Vec<Fact>,
}

/// A tuple of an explanation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The tuple's table.
    pub table: TableId,
    /// The tuple.
    pub tuple: Vec<Value>,
    /// The tuple as rules write it.
    pub shown: String,
    /// Why it is there.
    pub reason: Reason,
}

/// Why a fact holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It was inserted.
    Input,
    /// It follows from a rule.
    Rule {
        /// The rule's place, and the table it derives as the message.
        place: Fault,
        /// What the rule asks for.
        conditions: Vec<Condition>,
        /// Of a summary: solutions beside those of the conditions.
        more: usize,
    },
}

/// What a rule asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// A tuple, by its index in [`Explanation::facts`].
    Fact(usize),
    /// Something else that holds, as rules write it: that there is no such tuple, or what a
    /// function says.
    Holds(String),
}

impl Explanation {
    /// The explanation as a tree, a line a condition. A fact that was explained above is not
    /// explained again.
    pub fn show(&self) -> String {
        let mut shown = String::new();
        let mut is_done = alloc::vec![false; self.facts.len()];
        let mut next = alloc::vec![(0, Condition::Fact(0))];
        while let Some((depth, condition)) = next.pop() {
            let indent = 2 * depth;
            let line = match condition {
                Condition::Holds(what) => format!("{:indent$}{what}", ""),
                Condition::Fact(index) => {
                    let fact = &self.facts[index];
                    let is_again = core::mem::replace(&mut is_done[index], true);
                    let mut line = format!("{:indent$}{}", "", fact.shown);
                    match &fact.reason {
                        Reason::Input => {}
                        Reason::Rule { .. } if is_again => line.push_str(", as above"),
                        Reason::Rule { place, conditions, more } => {
                            let Fault { file, line: number, .. } = place;
                            write!(line, "  by {file}:{number}").expect("a String takes all");
                            if *more > 0 {
                                let more = format!("and {more} more");
                                next.push((depth + 1, Condition::Holds(more)));
                            }
                            let inner = conditions.iter().rev();
                            next.extend(inner.map(|it| (depth + 1, it.clone())));
                        }
                    }
                    line
                }
            };
            shown.push_str(&line);
            shown.push('\n');
        }
        shown
    }
}

/// Explains a row, if it is there.
pub(crate) fn explain(
    state: &mut State,
    layouts: &[Layout],
    table: usize,
    row: &[u32],
) -> Result<Option<Explanation>, Failure> {
    if state.store(table).get(row).is_none() {
        return Ok(None);
    }
    let (known, explained) = (BTreeMap::new(), BTreeMap::new());
    let mut explainer = Explainer { state, layouts, facts: Vec::new(), known, explained };
    explainer.fact((table, row.into()));
    let mut at = 0;
    while at < explainer.facts.len() {
        let (node, _) = &explainer.facts[at];
        let node = node.clone();
        if explainer.facts[at].1.is_none() {
            explainer.find(node)?;
        }
        at += 1;
    }
    Ok(Some(explainer.done()))
}

/// A table and a row of it.
type Node = (usize, Vec<u32>);

/// A rule with a solution of its body: the slots, and the rows of the conditions on tables.
#[derive(Clone)]
struct Derivation {
    rule: usize,
    slots: Vec<u32>,
    rows: Vec<Node>,
}

/// Derivations that explain a row, which are several for a summary.
struct Why {
    derivations: Vec<Derivation>,
    more: usize,
}

struct Explainer<'e> {
    state: &'e mut State,
    layouts: &'e [Layout],
    facts: Vec<(Node, Option<Why>)>,
    known: BTreeMap<Node, usize>,
    /// The derivations of rows of recursive strata, none of which leads back to its own row.
    explained: BTreeMap<Node, Derivation>,
}

impl Explainer<'_> {
    /// The index of a row's fact.
    fn fact(&mut self, node: Node) -> usize {
        let next = self.facts.len();
        let index = *self.known.entry(node.clone()).or_insert(next);
        if index == next {
            self.facts.push((node, None));
        }
        index
    }

    /// Finds why a row is there, and has what that follows from looked at, too.
    fn find(&mut self, node: Node) -> Result<(), Failure> {
        let table = &self.state.program.tables[node.0];
        if table.role == Role::Input {
            return Ok(());
        }
        if self.state.program.strata[table.stratum].partition.is_some() {
            return self.find_recursive(node);
        }
        let aggregate =
            table.rules.first().and_then(|rule| self.state.program.rules[*rule].aggregate);
        let mut derivations = self.derivations(&node)?;
        let mut more = 0;
        match aggregate.map(|it| it.summary) {
            None => derivations.truncate(1),
            Some(Summary::Min | Summary::Max) => {
                let own = self.state.plans.tells[derivations[0].rule].last().copied();
                let value = node.1.last().copied();
                derivations.retain(|it| own.map(|slot| it.slots[usize::from(slot)]) == value);
                derivations.truncate(1);
            }
            Some(Summary::Count | Summary::Sum | Summary::Set) => {
                more = derivations.len().saturating_sub(TOLD);
                derivations.truncate(TOLD);
            }
        }
        self.note(&node, Why { derivations, more });
        Ok(())
    }

    /// Finds explanations of a row of a recursive stratum and of all that it needs.
    fn find_recursive(&mut self, first: Node) -> Result<(), Failure> {
        if self.note_recursive(&first) {
            return Ok(());
        }
        let stratum = self.state.program.tables[first.0].stratum;
        let mut all: BTreeMap<Node, Vec<Derivation>> = BTreeMap::new();
        let mut next = alloc::vec![first.clone()];
        while let Some(node) = next.pop() {
            if all.contains_key(&node) {
                continue;
            }
            let derivations = self.derivations(&node)?;
            let rows = derivations.iter().flat_map(|it| &it.rows);
            next.extend(rows.filter(|(table, _)| self.is_of(stratum, *table)).cloned());
            all.insert(node, derivations);
        }
        let mut explained: BTreeMap<Node, Derivation> = BTreeMap::new();
        loop {
            let is_explained =
                |row: &Node| !self.is_of(stratum, row.0) || explained.contains_key(row);
            let round = all.iter().filter(|(node, _)| !explained.contains_key(*node));
            let round = round.filter_map(|(node, derivations)| {
                let found = derivations.iter().find(|it| it.rows.iter().all(is_explained))?;
                Some((node.clone(), found.clone()))
            });
            let round: Vec<_> = round.collect();
            if round.is_empty() {
                break;
            }
            explained.extend(round);
        }
        self.explained.extend(explained);
        self.note_recursive(&first);
        Ok(())
    }

    /// Whether the row's derivation was found together with another's.
    fn note_recursive(&mut self, node: &Node) -> bool {
        let Some(derivation) = self.explained.get(node) else { return false };
        let derivations = alloc::vec![derivation.clone()];
        self.note(node, Why { derivations, more: 0 });
        true
    }

    fn is_of(&self, stratum: usize, table: usize) -> bool {
        self.state.program.tables[table].stratum == stratum
    }

    fn note(&mut self, node: &Node, why: Why) {
        let at = self.fact(node.clone());
        for derivation in &why.derivations {
            for row in &derivation.rows {
                self.fact(row.clone());
            }
        }
        self.facts[at].1 = Some(why);
    }

    /// All derivations of a row; of a summary, all solutions of its group.
    fn derivations(&mut self, node: &Node) -> Result<Vec<Derivation>, Failure> {
        let mut derivations = Vec::new();
        for index in self.state.program.tables[node.0].rules.clone() {
            let mut solutions: Vec<Vec<u32>> = Vec::new();
            let (mut machine, plans, _, _) = self.state.machine();
            let count = machine.program.rules[index].slots.len();
            machine.run(&plans.reasons[index], &node.1, Cause::Stands, &mut |slots| {
                solutions.push(slots[..count].into());
            })?;
            let rule = &self.state.program.rules[index];
            for slots in solutions {
                let tables = rule.body.iter().filter_map(|atom| match atom.sort {
                    Sort::Table(table) => Some((table, &atom.terms)),
                    _ => None,
                });
                let rows = tables.filter_map(|(table, terms)| self.row(table, terms, &slots));
                derivations.push(Derivation { rule: index, rows: rows.collect(), slots });
            }
        }
        Ok(derivations)
    }

    /// A row of a table with these values, the first if there are several because of `_`.
    fn row(&self, table: usize, terms: &[Option<Slot>], slots: &[u32]) -> Option<Node> {
        let order = self.state.plans.orders[table][0].iter();
        let wanted: Vec<Option<u32>> = order
            .map(|column| terms[usize::from(*column)].map(|slot| slots[usize::from(slot)]))
            .collect();
        let prefix: Vec<u32> = wanted.iter().map_while(|word| *word).collect();
        let mut rows = self.state.store(table).tree(0).range(&prefix);
        let row = rows.find(|row| {
            row.iter().zip(&wanted).all(|(word, wanted)| wanted.is_none_or(|it| it == *word))
        })?;
        Some((table, row[..wanted.len()].into()))
    }

    fn done(self) -> Explanation {
        let values = &self.state.values;
        let facts = self.facts.iter().map(|((table, row), why)| {
            let tuple = Tuple::new(&self.layouts[*table], row);
            let reason = match why {
                None => Reason::Input,
                Some(why) => {
                    let first = why.derivations.first().map_or(0, |it| it.rule);
                    let rule = &self.state.program.rules[first];
                    let name = self.layouts[rule.head].name.clone();
                    let place = self.state.program.fault(rule.spot, name);
                    let conditions = why.derivations.iter().flat_map(|it| self.conditions(it));
                    Reason::Rule { place, conditions: conditions.collect(), more: why.more }
                }
            };
            Fact {
                table: TableId(*table as u32),
                tuple: tuple.values().collect(),
                shown: tuple.show(values),
                reason,
            }
        });
        Explanation { facts: facts.collect() }
    }

    fn conditions(&self, derivation: &Derivation) -> Vec<Condition> {
        let rule = &self.state.program.rules[derivation.rule];
        let facts = derivation.rows.iter().filter_map(|row| self.known.get(row));
        let mut conditions: Vec<Condition> = facts.map(|it| Condition::Fact(*it)).collect();
        for atom in &rule.body {
            let (negation, name) = match atom.sort {
                Sort::Table(_) => continue,
                Sort::Absent(table) => ("not ", &self.layouts[table].name[..]),
                Sort::Call(Callee::Builtin(builtin), _) => ("", builtin.name()),
                Sort::Call(Callee::Declared(index), _) => {
                    ("", &self.state.program.functions[index].name[..])
                }
            };
            let terms = atom.terms.iter().map(|term| match term {
                None => String::from("_"),
                Some(slot) => shown(rule, *slot, &derivation.slots, &self.state.values),
            });
            let terms: Vec<String> = terms.collect();
            conditions.push(Condition::Holds(format!("{negation}{name}({})", terms.join(", "))));
        }
        conditions
    }
}

fn shown(rule: &Rule, slot: Slot, slots: &[u32], values: &Values) -> String {
    let slot = usize::from(slot);
    let value = Value { kind: rule.slots[slot].ty.kind, word: slots[slot] };
    format!("{}", values.datum(value))
}

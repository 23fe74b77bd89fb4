//! Random programs under random edits, against the naive evaluator.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use proptest::prelude::*;

use super::{Plain, Table, dataflow, engine, naive, plain, tables};
use crate::program::{Atom, Rule, Sort};
use crate::{Batch, Change, Engine, Program, Role, TableId, Value};

/// Chooses, by SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A table of a random program: its name, and of each column whether it is a number.
type Shape = (String, Vec<bool>);

/// A random program, and its text.
fn random_program(dice: &mut Dice, derived: usize) -> (String, Program) {
    let mut shapes: Vec<Shape> = Vec::new();
    let mut text = String::from("type t = text;\n");
    for (name, columns) in [("i0", "tt"), ("i1", "tt"), ("i2", "tn"), ("i3", "t"), ("i4", "tnt")] {
        declare(&mut text, "input", name, columns, &mut shapes);
    }
    for index in 0..derived {
        let before = (text.len(), shapes.len());
        // What is written at random may have faults; then something else is written.
        loop {
            let name = format!("d{index}");
            if dice.one_in(4) {
                aggregate(dice, &name, &mut text, &mut shapes);
            } else {
                derive(dice, &name, &mut text, &mut shapes);
            }
            if Program::parse(&[("random", &text)]).is_ok() {
                break;
            }
            text.truncate(before.0);
            shapes.truncate(before.1);
        }
    }
    let program = super::program(&text);
    (text, program)
}

const ROLES: [&str; 2] = ["table", "output"];

/// A table that summarizes.
fn aggregate(dice: &mut Dice, name: &str, text: &mut String, shapes: &mut Vec<Shape>) {
    let aggregates = ["count()", "sum(n0)", "min(n0)", "max(n0)", "min(v0)", "max(v1)", "set(v1)"];
    let (aggregate, columns) = (*dice.of(&aggregates), 1 + dice.below(2));
    let ty = match aggregate {
        "min(v0)" | "max(v1)" => "t",
        "set(v1)" => "set t",
        _ => "int",
    };
    let body = body(dice, shapes, None);
    // Where the aggregate is among the columns must not matter.
    let at = dice.below(columns + 1);
    let mut declared: Vec<String> = (0..columns).map(|it| format!("c{it}: t")).collect();
    declared.insert(at, format!("it: {ty}"));
    let mut head: Vec<&str> = (0..columns).map(|_| *dice.of(&VARIABLES)).collect();
    head.insert(at, aggregate);
    writeln!(text, "{} {name}({});", dice.of(&ROLES), declared.join(", ")).unwrap();
    write_rule(text, name, &head, body);
    // Others can read it if what it has are texts and numbers.
    if ty != "set t" {
        let mut shape = alloc::vec![false; columns];
        shape.insert(at, ty == "int");
        shapes.push((name.to_string(), shape));
    }
}

/// A table that one rule or several derive.
fn derive(dice: &mut Dice, name: &str, text: &mut String, shapes: &mut Vec<Shape>) {
    let columns = *dice.of(&["t", "tt", "ttt", "tn", "tt"]);
    let role = *dice.of(&ROLES);
    declare(text, role, name, columns, shapes);
    let shape = shapes.pop().unwrap();
    let recursive = dice.one_in(2) && !columns.contains('n');
    for rule in 0..1 + dice.below(2) + usize::from(recursive) {
        let own = (recursive && rule > 0).then_some(&shape);
        let body = body(dice, shapes, own);
        let head: Vec<&str> = (0..)
            .zip(&shape.1)
            .map(|(column, is_number)| match (*is_number, column) {
                (true, _) => *dice.of(&NUMBERS),
                // What parts a recursive stratum.
                (false, 0) if recursive => "v0",
                _ => *dice.of(&VARIABLES),
            })
            .collect();
        write_rule(text, name, &head, body);
    }
    shapes.push(shape);
}

const VARIABLES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const NUMBERS: [&str; 3] = ["n0", "n1", "n2"];

fn declare(text: &mut String, role: &str, name: &str, columns: &str, shapes: &mut Vec<Shape>) {
    let shape: Vec<bool> = columns.chars().map(|it| it == 'n').collect();
    let types = shape.iter().enumerate();
    let types: Vec<String> =
        types.map(|(at, it)| format!("c{at}: {}", if *it { "int" } else { "t" })).collect();
    writeln!(text, "{role} {name}({});", types.join(", ")).unwrap();
    shapes.push((name.to_string(), shape));
}

/// Conditions: a name and its terms each.
fn body(dice: &mut Dice, shapes: &[Shape], own: Option<&Shape>) -> Vec<(String, Vec<String>)> {
    let mut body = Vec::new();
    for condition in 0..1 + dice.below(3) {
        let shape = match own {
            Some(own) if condition == 0 || dice.one_in(3) => own,
            _ => dice.of(shapes),
        };
        let is_own = own.is_some_and(|own| core::ptr::eq(own, shape));
        let terms = (0..).zip(&shape.1).map(|(column, is_number)| match (*is_number, column) {
            (true, _) if dice.one_in(5) => String::from("1"),
            (true, _) => dice.of(&NUMBERS).to_string(),
            (false, 0) if is_own => String::from("v0"),
            (false, _) if dice.one_in(8) => String::from("\"b\""),
            (false, _) => dice.of(&VARIABLES).to_string(),
        });
        body.push((shape.0.clone(), terms.collect()));
    }
    if dice.one_in(3) {
        let shape = dice.of(shapes);
        let terms = shape.1.iter().map(|is_number| match is_number {
            _ if dice.one_in(3) => String::from("_"),
            true => dice.of(&NUMBERS).to_string(),
            false => dice.of(&VARIABLES).to_string(),
        });
        body.push((format!("not {}", shape.0), terms.collect()));
    }
    if dice.one_in(3) {
        let (name, terms) = *dice.of(&[
            ("not_equal", ["v0", "v1", ""]),
            ("equal", ["v1", "v2", ""]),
            ("less", ["n0", "n1", ""]),
            ("less_or_equal", ["n0", "2", ""]),
            ("add", ["n0", "1", "n1"]),
            ("add", ["n0", "n1", "n2"]),
        ]);
        let terms = terms.into_iter().filter(|term| !term.is_empty());
        body.push((name.to_string(), terms.map(ToString::to_string).collect()));
    }
    body
}

/// Writes a rule with `_` for variables that are used once.
fn write_rule(text: &mut String, name: &str, head: &[&str], mut body: Vec<(String, Vec<String>)>) {
    let is_variable = |term: &str| VARIABLES.contains(&term) || NUMBERS.contains(&term);
    let used = |term: &str| {
        let in_head = head.iter().filter(|it| it.contains(term)).count();
        in_head + body.iter().flat_map(|(_, terms)| terms).filter(|it| *it == term).count()
    };
    let once: BTreeSet<&str> =
        VARIABLES.into_iter().chain(NUMBERS).filter(|it| used(it) == 1).collect();
    for term in body.iter_mut().flat_map(|(_, terms)| terms) {
        if is_variable(term) && once.contains(&term[..]) {
            *term = String::from("_");
        }
    }
    let body: Vec<String> =
        body.iter().map(|(name, terms)| format!("{name}({})", terms.join(", "))).collect();
    writeln!(text, "{name}({}) :- {};", head.join(", "), body.join(", ")).unwrap();
}

/// A tuple to insert if it is not there, else to delete.
fn toggle(dice: &mut Dice, program: &Program, inputs: &mut [Table]) -> (usize, Vec<Plain>, bool) {
    let of_inputs: Vec<usize> = (0..program.tables.len())
        .filter(|table| program.tables[*table].role == Role::Input)
        .collect();
    let table = *dice.of(&of_inputs);
    let texts = ["a", "b", "c", "d"];
    let columns = program.tables[table].columns.iter();
    let tuple: Vec<Plain> = columns
        .map(|column| match column.ty.name.as_str() {
            // Numbers that are kept among those that are not.
            "int" => Plain::Int([0, 1, 2, 1 << 40][dice.below(4)]),
            _ => Plain::Text(dice.of(&texts).to_string()),
        })
        .collect();
    let comes = inputs[table].remove(&tuple).is_none();
    if comes {
        inputs[table].insert(tuple.clone(), 1);
    }
    (table, tuple, comes)
}

/// A batch, at whose commit all values are forgotten that may be.
fn batch(engine: &mut Engine, edits: &[(usize, Vec<Plain>, bool)]) -> Batch {
    engine.values_mut().be_full();
    let mut batch = Batch::new();
    for (table, tuple, comes) in edits {
        let tuple: Vec<Value> =
            tuple.iter().map(|plain| plain.value(engine.values_mut())).collect();
        let table = TableId(*table as u32);
        if *comes { batch.insert(table, &tuple) } else { batch.delete(table, &tuple) }
    }
    batch
}

/// The outputs after a change, from those before.
fn apply(engine: &Engine, change: &Change, before: &[Table]) -> Vec<BTreeSet<Vec<Plain>>> {
    let mut sets: Vec<BTreeSet<Vec<Plain>>> =
        before.iter().map(|table| table.keys().cloned().collect()).collect();
    for table in change.tables() {
        let set = &mut sets[table.index()];
        for tuple in change.vanished(table) {
            assert!(set.remove(&plain(engine, tuple)), "what vanishes was there");
        }
        for tuple in change.appeared(table) {
            assert!(set.insert(plain(engine, tuple)), "what appears was not there");
        }
    }
    sets
}

fn check_outputs(engine: &Engine, change: &Change, before: &[Table], after: &[Table]) {
    let outputs = apply(engine, change, before);
    for table in engine.tables().filter(|table| engine.role(*table) == Role::Output) {
        let expected: BTreeSet<Vec<Plain>> = after[table.index()].keys().cloned().collect();
        assert_eq!(outputs[table.index()], expected, "what was told of {}", engine.name(table));
    }
}

fn compare(text: &str, found: &[Table], expected: &[Table]) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "table {at} of\n{text}");
    }
}

proptest! {
    /// After every batch all tables are what the rules say, with the numbers of derivations; what
    /// was told of outputs is the difference; a preview says the same and changes nothing; and a
    /// cold start from the same inputs gives the same.
    #[test]
    fn the_engine_does_what_the_rules_say(seed in any::<u64>(), derived in 1..6_usize, batches in 1..10_usize) {
        let mut dice = Dice(seed);
        let (text, program) = random_program(&mut dice, derived);
        let mut engine = engine(program.clone());
        let mut inputs: Vec<Table> = program.tables.iter().map(|_| Table::new()).collect();
        let mut before = tables(&engine);
        for revision in 1..=batches as u64 {
            let most = *dice.of(&[1, 3, 20]);
            let edits: Vec<_> =
                (0..=dice.below(most)).map(|_| toggle(&mut dice, &program, &mut inputs)).collect();
            let batch = batch(&mut engine, &edits);
            let preview = engine.preview(&batch).expect("edits are valid");
            compare(&text, &tables(&engine), &before);
            let after = naive::evaluate(&program, &inputs);
            check_outputs(&engine, &preview, &before, &after);
            let change = engine.commit(revision, &batch).expect("edits are valid");
            prop_assert_eq!(change.revision(), revision);
            prop_assert_eq!(engine.counters().swept, revision);
            compare(&text, &tables(&engine), &after);
            check_outputs(&engine, &change, &before, &after);
            before = after;
        }
        let mut cold = super::engine(program);
        let all = inputs.iter().enumerate();
        let all: Vec<_> =
            all.flat_map(|(table, it)| it.keys().map(move |it| (table, it.clone(), true))).collect();
        let batch = self::batch(&mut cold, &all);
        let change = cold.commit(1, &batch).expect("inputs are valid");
        compare(&text, &tables(&cold), &before);
        let nothing: Vec<Table> = before.iter().map(|_| Table::new()).collect();
        check_outputs(&cold, &change, &nothing, &before);
        // And all back to nothing.
        let all: Vec<_> = all.into_iter().map(|(table, tuple, _)| (table, tuple, false)).collect();
        let batch = self::batch(&mut cold, &all);
        cold.commit(2, &batch).expect("inputs are there");
        compare(&text, &tables(&cold), &nothing);
    }
}

proptest! {
    /// The engine and a dataflow of the same rules find the same, batch after batch.
    #[test]
    fn the_engine_does_what_a_dataflow_does(seed in any::<u64>(), derived in 1..6_usize) {
        let mut dice = Dice(seed);
        let (text, program) = random_program(&mut dice, derived);
        let mut inputs: Vec<Table> = program.tables.iter().map(|_| Table::new()).collect();
        let mut edits = |many| (0..many).map(|_| toggle(&mut dice, &program, &mut inputs)).collect();
        let batches: Vec<Vec<_>> = [20, 1, 3, 20, 1].map(&mut edits).into();
        let expected = dataflow::run(&program, &batches);
        let mut engine = engine(program);
        for ((revision, edits), expected) in (1..).zip(&batches).zip(&expected) {
            let batch = batch(&mut engine, edits);
            engine.commit(revision, &batch).expect("edits are valid");
            compare(&text, &tables(&engine), expected);
        }
    }
}

#[test]
fn random_programs_have_all_kinds_of_rules() {
    let mut dice = Dice(1);
    let (mut recursive, mut negated, mut aggregates) = (0, 0, 0);
    for _ in 0..100 {
        let (_, program) = random_program(&mut dice, 3);
        let has = |it: &dyn Fn(&Rule) -> bool| program.rules.iter().any(it);
        let is_absent = |it: &Atom| matches!(it.sort, Sort::Absent(_));
        recursive += usize::from(has(&|rule| rule.is_recursive));
        aggregates += usize::from(has(&|rule| rule.aggregate.is_some()));
        negated += usize::from(has(&|rule| rule.body.iter().any(is_absent)));
    }
    let all = (recursive, negated, aggregates);
    assert!(recursive > 20 && negated > 20 && aggregates > 20, "{all:?}");
}

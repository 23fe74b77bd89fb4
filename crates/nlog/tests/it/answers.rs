//! What engines answer: changes, refusals, and what they leave behind.

use nlog::{Answer, Batch, Datum, Engine, Library, Program, Refusal, Values};

const RULES: &str = "\
input port(name: text, rate: int) key(name);
output total(rate: int);
output half(name: text, rate: int);
function halve(rate: int) -> (half: int);
total(sum(rate)) :- port(_, rate);
half(name, half) :- port(name, rate), halve(rate, half);
";

/// Halves even numbers, has nothing to say of 1, and fails at other odd ones.
fn library() -> Library {
    Library::new().with("halve", |call| match call.int(0) {
        1 => Ok(Answer::Nothing),
        odd if odd % 2 == 1 => Err(format!("{odd} is odd")),
        even => {
            let half = call.values().int(even / 2);
            call.give(half);
            Ok(Answer::Row)
        }
    })
}

fn engine() -> Engine {
    let program = Program::parse(&[("rules", RULES)]).unwrap();
    Engine::new(program, library(), Values::new(1)).unwrap()
}

fn batch(engine: &mut Engine, inserted: &[(&str, u64)], deleted: &[(&str, u64)]) -> Batch {
    let mut batch = Batch::new();
    let port = engine.table("port").unwrap();
    for (name, rate) in inserted {
        let values = engine.values_mut();
        let tuple = [values.text(name), values.int(*rate)];
        batch.insert(port, &tuple);
    }
    for (name, rate) in deleted {
        let values = engine.values_mut();
        let tuple = [values.text(name), values.int(*rate)];
        batch.delete(port, &tuple);
    }
    batch
}

/// All tuples of all tables.
fn all(engine: &Engine) -> Vec<String> {
    let tuples = engine.tables().flat_map(|table| engine.tuples(table));
    tuples.map(|tuple| tuple.show(engine.values())).collect()
}

#[test]
fn a_refused_batch_leaves_everything_as_it_was() {
    let mut engine = engine();
    let first = batch(&mut engine, &[("a", 10), ("b", 1), ("c", u64::MAX - 21)], &[]);
    engine.commit(1, &first).unwrap();
    let before = all(&engine);
    for (inserted, deleted, expected) in [
        (vec![("a", 10)], vec![], "port(\"a\", 10) is there already: do not insert it again"),
        (
            vec![("d", 2), ("d", 2)],
            vec![],
            "port(\"d\", 2) is there already: do not insert it again",
        ),
        (vec![], vec![("a", 11)], "port(\"a\", 11) is not there: do not delete it"),
        (vec![("a", 12)], vec![], "port(\"a\", 12) has the key of another: delete that first"),
        (vec![("d", 7)], vec![], "rules:6:1: halve failed: 7 is odd"),
        (vec![("d", 30)], vec![], "rules:5:1: a sum is no number from 0 to 2^64 - 1"),
    ] {
        let batch = batch(&mut engine, &inserted, &deleted);
        let refusal = engine.commit(2, &batch).unwrap_err();
        assert_eq!(refusal.to_string(), expected);
        assert_eq!(all(&engine), before);
        assert_eq!(engine.revision(), 1);
    }
    assert_eq!((engine.counters().commits, engine.counters().undone), (1, 6));
    // Both at once are one change of a port.
    let batch = batch(&mut engine, &[("a", 12)], &[("a", 10)]);
    let change = engine.commit(2, &batch).unwrap();
    assert_eq!(change.tables().count(), 2);
}

#[test]
fn a_refused_cold_start_leaves_nothing() {
    let mut engine = engine();
    let first = batch(&mut engine, &[("a", 10), ("b", 3)], &[]);
    assert!(matches!(engine.commit(1, &first), Err(Refusal::Failed(_))));
    assert_eq!(all(&engine), [""; 0]);
    let second = batch(&mut engine, &[("a", 10), ("a", 12)], &[]);
    assert!(matches!(engine.commit(1, &second), Err(Refusal::Key(_))));
    let third = batch(&mut engine, &[("a", 10)], &[]);
    engine.commit(1, &third).unwrap();
    assert_eq!(all(&engine), ["port(\"a\", 10)", "total(10)", "half(\"a\", 5)"]);
}

#[test]
fn what_comes_and_goes_in_one_batch_is_nothing() {
    let mut engine = engine();
    let first = batch(&mut engine, &[("a", 10)], &[]);
    engine.commit(1, &first).unwrap();
    let second = batch(&mut engine, &[("a", 10), ("b", 2)], &[("b", 2), ("a", 10)]);
    let change = engine.commit(2, &second).unwrap();
    assert_eq!(change.tables().count(), 0);
    assert_eq!(engine.counters().touched, 0);
}

#[test]
fn a_value_is_read_by_its_column() {
    let mut engine = engine();
    let first = batch(&mut engine, &[("a", 10)], &[]);
    let change = engine.commit(1, &first).unwrap();
    let half = engine.table("half").unwrap();
    let tuple = change.appeared(half).next().unwrap();
    assert_eq!(engine.values().datum(tuple.value(0)), Datum::Text("a"));
    assert_eq!(engine.values().datum(tuple.value(1)), Datum::Int(5));
}

#[test]
fn a_function_that_no_library_has_is_named() {
    let program = Program::parse(&[("rules", RULES)]).unwrap();
    let faults = Engine::new(program, Library::new(), Values::new(1)).err().unwrap();
    assert_eq!(faults[0].to_string(), "rules:4:10: halve is in no library: add it");
}

#[test]
fn names_that_come_and_go_for_ever_take_no_memory() {
    let mut engine = engine();
    let first = batch(&mut engine, &[("one that stays", 1 << 40)], &[]);
    engine.commit(1, &first).unwrap();
    let mut most = 0;
    let mut last: Option<String> = None;
    for revision in 2..50_000 {
        let name = format!("a name of number {revision}");
        let gone = last.iter().map(|it| (&it[..], 2)).collect::<Vec<_>>();
        let next = batch(&mut engine, &[(&name, 2)], &gone);
        let change = engine.commit(revision, &next).unwrap();
        let half = engine.table("half").unwrap();
        for tuple in change.vanished(half) {
            let expected = format!("half({:?}, 1)", last.as_ref().unwrap());
            assert_eq!(tuple.show(engine.values()), expected);
        }
        last = Some(name);
        most = most.max(engine.values().kept().0);
    }
    assert!(most < 5000, "{most} values were kept at a time");
    assert!(engine.counters().swept > 5);
    let stays = String::from("port(\"one that stays\", 1099511627776)");
    assert!(all(&engine).contains(&stays), "{:?}", all(&engine));
}

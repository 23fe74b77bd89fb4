//! Why a tuple is there.

use nlog::{Batch, Engine, Library, Program, Value, Values};

fn engine(rules: &str, facts: &[(&str, &[&str])]) -> Engine {
    let program = Program::parse(&[("rules", rules)]).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut engine = Engine::new(program, Library::new(), Values::new(1)).unwrap();
    let mut batch = Batch::new();
    for (table, tuple) in facts {
        let tuple = texts(&mut engine, tuple);
        batch.insert(engine.table(table).unwrap(), &tuple);
    }
    engine.commit(1, &batch).unwrap();
    engine
}

fn texts(engine: &mut Engine, tuple: &[&str]) -> Vec<Value> {
    tuple.iter().map(|text| engine.values_mut().text(text)).collect()
}

fn shown(engine: &mut Engine, table: &str, tuple: &[&str]) -> Option<String> {
    let tuple = texts(engine, tuple);
    let table = engine.table(table).unwrap();
    Some(engine.explain(table, &tuple).unwrap()?.show())
}

const REACH: &str = "\
input edge(from: text, to: text);
input down(node: text);
table reach(from: text, to: text);
output good(from: text, to: text);
reach(a, b) :- edge(a, b);
reach(a, c) :- reach(a, b), edge(b, c);
good(a, b) :- reach(a, b), not down(b), not_equal(a, b);
";

#[test]
fn a_tuple_is_explained_down_to_inputs() {
    let facts: [(&str, &[&str]); 3] =
        [("edge", &["a", "b"]), ("edge", &["b", "c"]), ("down", &["b"])];
    let mut engine = engine(REACH, &facts);
    let expected = r#"good("a", "c")  by rules:7
  reach("a", "c")  by rules:6
    reach("a", "b")  by rules:5
      edge("a", "b")
    edge("b", "c")
  not down("c")
  not_equal("a", "c")
"#;
    assert_eq!(shown(&mut engine, "good", &["a", "c"]).as_deref(), Some(expected));
    assert_eq!(shown(&mut engine, "good", &["a", "b"]), None);
    assert_eq!(shown(&mut engine, "down", &["b"]).as_deref(), Some("down(\"b\")\n"));
}

#[test]
fn nothing_explains_itself() {
    let facts: [(&str, &[&str]); 3] =
        [("edge", &["a", "b"]), ("edge", &["b", "c"]), ("edge", &["c", "b"])];
    let mut engine = engine(REACH, &facts);
    let expected = r#"reach("a", "b")  by rules:5
  edge("a", "b")
"#;
    assert_eq!(shown(&mut engine, "reach", &["a", "b"]).as_deref(), Some(expected));
    let expected = r#"reach("b", "b")  by rules:6
  reach("b", "c")  by rules:5
    edge("b", "c")
  edge("c", "b")
"#;
    assert_eq!(shown(&mut engine, "reach", &["b", "b"]).as_deref(), Some(expected));
}

#[test]
fn a_summary_is_explained_by_some_of_its_solutions() {
    let rules = "\
input edge(from: text, to: text);
output degree(from: text, nodes: int);
output first(from: text, to: text);
degree(a, count()) :- edge(a, _);
first(a, min(b)) :- edge(a, b);
";
    let names: Vec<String> = (0..20).map(|it| format!("n{it:02}")).collect();
    let tuples: Vec<[&str; 2]> = names.iter().map(|name| ["a", name]).collect();
    let facts: Vec<(&str, &[&str])> = tuples.iter().map(|it| ("edge", &it[..])).collect();
    let mut engine = engine(rules, &facts);
    let tuple = [engine.values_mut().text("a"), engine.values_mut().int(20)];
    let degree = engine.table("degree").unwrap();
    let shown_degree = engine.explain(degree, &tuple).unwrap().unwrap().show();
    assert!(shown_degree.starts_with("degree(\"a\", 20)  by rules:4\n  edge(\"a\", "));
    assert!(shown_degree.ends_with("\n  and 12 more\n"), "{shown_degree}");
    let expected = "first(\"a\", \"n00\")  by rules:5\n  edge(\"a\", \"n00\")\n";
    assert_eq!(shown(&mut engine, "first", &["a", "n00"]).as_deref(), Some(expected));
}

//! What is wrong with rules is said at its place, with what to do.

use nlog::Program;

const TABLES: &str = "\
type port = text;
type vlan = int;
input a(x: port, y: vlan);
input b(x: port);
table c(x: port, y: vlan);
output d(x: port);
function f(x: port) -> (y: vlan);
";

/// The faults of rules that stand behind the tables, from line 8 on.
fn faults(rules: &str) -> Vec<String> {
    match Program::parse(&[("f", &format!("{TABLES}{rules}"))]) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn good_rules_have_none() {
    let rules = "
        c(x, y) :- a(x, y), not b(x), less(y, 4096);  # a comment
        c(x, z) :- b(x), f(x, y), add(y, 1, z);
        d(\"web\") :- c(_, 7);
    ";
    assert_eq!(faults(rules), [""; 0]);
}

#[test]
fn each_fault_is_at_its_place() {
    for (rule, expected) in [
        ("d(x) :- e(x);", "f:8:9: nothing is called e: declare a table or a function"),
        ("d(x) :- a(x);", "f:8:9: a has 2 columns: 1 are given"),
        ("a(x, y) :- c(x, y);", "f:8:1: a is an input: derive into another table"),
        ("f(x, y) :- c(x, y);", "f:8:1: f is a function: derive into a table"),
        ("d(y) :- a(_, y);", "f:8:3: y is of type vlan, and port is wanted: use another variable"),
        ("d(x) :- a(x, \"1\");", "f:8:14: this is of type text, and vlan is wanted: change it"),
        ("d(x) :- a(x, y);", "f:8:14: y is used once: write _, or correct the name"),
        ("d(x) :- a(_, _);", "f:8:1: x has no value: use it in a table of the body"),
        ("d(x) :- b(x), not a(x, y);", "f:8:19: y has no value: use it in a table of the body"),
        ("d(_) :- b(_);", "f:8:3: a head needs this value: write a variable"),
        ("d(x) :- b(x), f(_, 7);", "f:8:17: a function needs this value: write a variable"),
        (
            "d(x) :- b(x), less(x, \"b\");",
            "f:8:15: less takes numbers, not port: compare or \
          compute something else",
        ),
        (
            "d(\"x\") :- less(1, 2);",
            "f:8:1: nothing makes this rule begin: read a table in its \
          body",
        ),
        (
            "d(x) :- b(x), not f(x, 1);",
            "f:8:19: functions cannot be negated: use one that says \
          the opposite",
        ),
        (
            "c(x, count(x)) :- b(x);",
            "f:8:6: this is no aggregate: write count(), sum(x), min(x), \
          max(x) or set(x)",
        ),
        ("c(x, sum(x)) :- b(x);", "f:8:6: the column is of type vlan: sum gives a number"),
        ("c(count(), count()) :- b(_);", "f:8:3: the column is of type port: count gives a number"),
        ("d(x) :- b(x), not d(x);", "f:8:19: d depends on d: it cannot be negated here"),
        (
            "c(x, count()) :- b(x); c(x, y) :- a(x, y);",
            "f:8:1: an aggregate is its table's one \
          rule: c has more",
        ),
        ("c(x, count()) :- c(x, _);", "f:8:1: c depends on itself: it cannot be an aggregate"),
        (
            "c(x, z) :- c(x, y), add(y, 1, z);",
            "f:8:21: z is computed in each round of a \
          recursion, which might never end: derive it by another rule",
        ),
        (
            "d(y) :- d(x), a(x, z), a(y, z);",
            "f:8:1: no column of d is kept by its recursion: add \
          one, as the tenant or the domain, to the head and to every recursive condition",
        ),
        ("type port = int;", "f:8:6: there is a type port already: rename this one"),
        ("type x = float;", "f:8:10: float is no base type: use bool, int, text, bytes or id"),
        ("input b(x: int);", "f:8:7: line 4 has a b already: rename this one"),
        ("input less(x: int);", "f:8:7: every program has a less already: rename this one"),
        ("input e(x: int, x: int);", "f:8:17: there is a column x already: rename this"),
        ("input e(x: int) key(y);", "f:8:21: the table has no column y: correct it"),
        ("table e(x: int) key(x);", "f:8:21: only input tables have keys: remove this one"),
        ("input e(x: name);", "f:8:12: no type is called name: declare it by type"),
        ("d(x) : b(x);", "f:8:6: found :: write :- and what the head follows from"),
        ("d(x) :- b(x)", "f:8:13: found the end of the file: write ; or , after a condition"),
        (
            "tabel e(x: int);",
            "f:8:1: tabel begins no item: write type, input, table, output, \
          function or a rule",
        ),
        ("d() :- b(x);", "f:8:3: found ): write a variable, _, a number or a text"),
    ] {
        assert_eq!(faults(rule).first().map(String::as_str), Some(expected), "{rule}");
    }
}

#[test]
fn faults_of_all_files_are_told_at_once() {
    let files =
        [("one", "input a(x: t);\ntype t = text; d(x) :- a(x);"), ("two", "input a(y: int);\n;")];
    let told: Vec<String> =
        Program::parse(&files).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "one:2:16: nothing is called d: declare a table or a function",
            "two:1:7: line 1 has a a already: rename this one",
            "two:2:1: found ;: write an item",
        ]
    );
}

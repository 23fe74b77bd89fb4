//! Every case that is shipped holds on the interpreter.

use std::fs;
use std::path::Path;

use cases::{File, OnInterpreter, Outcome, run};

#[test]
fn every_shipped_case_holds_on_the_interpreter() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut failed = Vec::new();
    let mut passed = 0;
    for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "yaml")) {
        let text = fs::read_to_string(path).unwrap();
        let file = File::read(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        for case in &file.cases {
            let report = run(&file, case, &mut OnInterpreter::new());
            match report.outcome {
                Outcome::Passed => passed += 1,
                _ => failed.push(report),
            }
        }
    }
    assert!(failed.is_empty(), "{passed} passed, {} did not: {failed:#?}", failed.len());
}

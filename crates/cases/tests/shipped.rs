//! Every case that is shipped holds on all that executes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cases::{File, OnInterpreter, OnPipeline, Outcome, run};

/// The files that are shipped.
fn shipped() -> Vec<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let paths = paths.iter().filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        File::read(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()))
    };
    paths.map(read).collect()
}

#[test]
fn every_shipped_case_says_what_it_follows() {
    let mut names = BTreeSet::new();
    for file in shipped() {
        for case in &file.cases {
            let of_ours = case.note.as_ref().is_some_and(|it| it.starts_with("ours: "));
            assert!(case.source.is_some() || of_ours, "{} has no source", case.name);
            let is_new = names.insert((file.category.clone(), case.name.clone()));
            assert!(is_new, "two cases are {}", case.name);
        }
    }
    assert!(names.len() >= 350, "{} cases", names.len());
}

#[test]
fn every_shipped_case_holds_on_the_interpreter() {
    let mut failed = Vec::new();
    let mut passed = 0;
    for file in shipped() {
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

/// None needs what the pipeline cannot; none differs.
#[test]
fn every_shipped_case_holds_on_the_pipeline() {
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    for file in shipped() {
        for case in &file.cases {
            let report = run(&file, case, &mut OnPipeline::new());
            match report.outcome {
                Outcome::Passed => passed += 1,
                Outcome::Skipped => skipped += 1,
                Outcome::Failed => failed.push(report),
            }
        }
    }
    let failures = failed.len();
    assert!(
        failed.is_empty(),
        "{passed} passed, {skipped} skipped, {failures} failed: {failed:#?}"
    );
    assert!(passed >= 420 && skipped == 0, "{passed} passed, {skipped} skipped");
}

/// Runs the one case of a small file.
fn outcome(steps: &str) -> (Outcome, String) {
    let text = format!(
        "format: zovn-semantics/1\ncategory: own\ntopologies:\n  t:\n    hosts: [h]\n    \
         switches: {{s: {{}}}}\n    ports: {{a: {{switch: s, at: h, ips: [10.0.0.1]}}, b: {{switch: s, at: h, ips: [10.0.0.2]}}}}\n\
         cases:\n- {{name: c, topology: t, steps: [{steps}]}}\n"
    );
    let file = File::read(&text).unwrap();
    let report = run(&file, &file.cases[0], &mut OnInterpreter::new());
    (report.outcome, [report.expected, report.seen].into_iter().flatten().collect())
}

#[test]
fn a_mistake_in_a_step_is_no_expectation_that_holds() {
    assert_eq!(outcome("{open: {from: a, to: b}, expect: {result: open}}").0, Outcome::Passed);
    for (steps, told) in [
        ("{open: {from: a, to: b, dprt: 22}, expect: {result: open}}", "`dprt` is not known here"),
        ("{send: {from: a, to: b}, expect: {delivr: {b: same}}}", "`delivr` is not known here"),
        ("{open: {from: a, to: b}, expect: {reslt: open}}", "reslt open"),
        ("{sned: {from: a}}", "`sned` is no step"),
        ("{send: {from: a, to: b, ip.tttl: 3}}", "no frame has a field `ip.tttl`"),
        ("{send: {from: a, to: b}, expect: {deliver: {}}}", "b got"),
    ] {
        let (outcome, seen) = outcome(steps);
        assert_eq!(outcome, Outcome::Failed, "{steps}");
        assert!(seen.contains(told), "{steps}: {seen}");
    }
}

#[test]
fn a_case_of_which_a_step_was_left_out_has_not_passed() {
    let left_out = "{ping: {from: a, to: b}, needs: [teleport], expect: {reply: true}}";
    assert_eq!(outcome(left_out), (Outcome::Skipped, "needs teleport".into()));
    let wrong = format!("{left_out}, {{ping: {{from: a, to: b}}, expect: {{reply: none}}}}");
    assert_eq!(outcome(&wrong).0, Outcome::Failed);
}

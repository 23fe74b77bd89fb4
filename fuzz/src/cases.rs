//! Attacks the reader of cases, and the interpreter with whatever cases it lets through.

use cases::{File, OnInterpreter, Outcome, run};

/// How many cases of a file are run.
const MOST: usize = 4;

/// Reads `bytes` as a file of cases, and runs the first few.
pub fn attack(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match File::read(&text) {
        Ok(file) => {
            for case in file.cases.iter().take(MOST) {
                let report = run(&file, case, &mut OnInterpreter::new());
                assert_eq!(report.step.is_some(), report.outcome == Outcome::Failed);
            }
        }
        Err(error) => assert!(error.at.line >= 1 && !error.message.is_empty()),
    }
}

//! Tells which rules the networks of a file cost what.
//!
//! `cargo run -p hypervisor --example profile FILE [OBJECTS]`: at most so many objects are taken
//! away and put back, 200 unless given.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it reads a file")]
#![allow(clippy::print_stdout, reason = "it prints what it counted")]

use std::cmp::Reverse;
use std::error::Error;

use hypervisor::profile::{Profile, profile};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("name a file of logical networks")?;
    let most = args.next().map_or(Ok(200), |it| it.parse())?;
    let source = logical::read(&std::fs::read_to_string(&file)?);
    let objects = source.objects.clone();
    if let Err(faults) = source.resolve() {
        let faults: Vec<_> = faults.iter().map(|fault| format!("{file}:{fault}")).collect();
        return Err(faults.join("\n").into());
    }
    let Profile { mut rules, edits, tuples, bytes } = profile(&objects, most);
    println!("{} objects, {tuples} tuples of {bytes} bytes; of {edits} edits:", objects.len());
    println!(
        "{:<26} {:<18} {:>7} {:>8} {:>7} {:>7} {:>9} {:>7}",
        "RULE", "TABLE", "ASKED", "SEARCHES", "ROWS", "CALLS", "SOLUTIONS", "AT ONCE"
    );
    rules.retain(|it| it.edits.runs > 0);
    rules.sort_by_key(|it| Reverse(it.edits.probes + it.edits.rows));
    for it in rules {
        let (place, of) = (format!("{}:{}", it.rule.file, it.rule.line), it.edits);
        println!(
            "{place:<26} {:<18} {:>7} {:>8} {:>7} {:>7} {:>9} {:>7}",
            it.rule.message,
            of.runs,
            of.probes,
            of.rows,
            of.calls,
            of.derivations,
            it.cold.derivations
        );
    }
    Ok(())
}

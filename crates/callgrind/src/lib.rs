//! Benchmarks that count instructions instead of time.
//!
//! Time varies with whatever else the machine does; the number of instructions hardly does. Each
//! case runs under valgrind's callgrind twice, with much work and with half of it, and their
//! difference is what the work alone costs.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::io;
use std::process::{Command, ExitCode};
use std::thread;

/// What is counted, and how many instructions a unit of its work may cost: as many as when it was
/// last improved.
pub type Case<'a> = (&'a str, f64);

/// The `main` of a benchmark: counts each case, and fails if one costs a tenth more than its bound
/// says.
///
/// `work` does so much of a case, from `much` on, and returns how many units that were. It is
/// called in a process of its own, which is this program once more.
pub fn main(
    unit: &str,
    cases: &[Case<'_>],
    much: u64,
    work: impl Fn(&str, u64) -> u64,
) -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, case, amount] = &args[..]
        && flag == WORK
    {
        println!("{}", work(case, amount.parse().expect("the number that `run` wrote")));
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: install valgrind (Debian's package of that name) to count them");
        return ExitCode::FAILURE;
    }
    let mut worst = ExitCode::SUCCESS;
    for (case, bound) in cases {
        match count(case, much) {
            Ok(cost) if cost <= 1.1 * bound => {
                println!("{case:18} {cost:7.1} instructions per {unit}")
            }
            Ok(cost) => {
                println!(
                    "{case:18} {cost:7.1} instructions per {unit}: more than {bound} and a tenth"
                );
                worst = ExitCode::FAILURE;
            }
            Err(error) => {
                println!("{case}: cannot count: {error}");
                worst = ExitCode::FAILURE;
            }
        }
    }
    worst
}

const WORK: &str = "--work";

/// Instructions a unit. Both runs at once: what they count does not depend on what else runs.
fn count(case: &str, much: u64) -> io::Result<f64> {
    let (less, more) = thread::scope(|scope| {
        let less = scope.spawn(|| run(case, much));
        let more = run(case, 2 * much);
        (less.join().expect("counting does not panic"), more)
    });
    let (less, more) = (less?, more?);
    Ok((more.0 - less.0) as f64 / (more.1 - less.1) as f64)
}

/// Instructions, and units.
fn run(case: &str, amount: u64) -> io::Result<(u64, u64)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([WORK, case, &amount.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let instructions = collected.and_then(|(_, count)| count.trim().parse().ok());
    let units = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    instructions.zip(units).ok_or_else(|| io::Error::other(said.into_owned()))
}

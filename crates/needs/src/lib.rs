//! What tests need of the machine that they run on.
//!
//! A test that needs a program asks for it first, and returns if the answer is no. Where everything
//! has to run, as in `make test`, a missing need is a failure that names what to install. Elsewhere
//! it is a line on standard error that begins with `skipped: ` and names the test. The line is not
//! captured with the test's output, and whoever runs the tests (`tools/test`) counts these lines.
//!
//! Only tests and benchmarks depend on this crate.

mod over;
pub mod tshark;

use std::env;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

pub use over::Over;

/// The environment variable that says what becomes of tests whose needs are not met: `all` makes
/// them fail.
pub const TESTS: &str = "ZOVN_TESTS";

/// The environment variable that names zovn's program, for tests of crates that do not build it.
pub const ZOVN: &str = "ZOVN";

/// Whether the program of a Debian package is here, in `PATH` or where administration programs are.
///
/// # Panics
///
/// It is not here, and all tests have to run.
pub fn program(name: &str, package: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here = env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/lib/frr"].map(PathBuf::from))
        .any(|place| place.join(name).is_file());
    is_here
        || missing(format_args!(
            "{name} is not installed: apt-get install {package}, or ./dependencies"
        ))
}

/// Whether this process may change the network, as root may.
///
/// # Panics
///
/// It may not, and all tests have to run.
pub fn root() -> bool {
    // The effective user, of four (proc(5), `/proc/PID/status`).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    users.split_whitespace().nth(1) == Some("0") || missing("this takes root")
}

/// Whether this file was made; `how` is the command that makes it.
///
/// # Panics
///
/// It was not, and all tests have to run.
pub fn file(file: &Path, how: &str) -> bool {
    file.exists() || missing(format_args!("{} is not there: {how}", file.display()))
}

/// Whether a check of something that a test needs went well; the error says what to install.
///
/// # Panics
///
/// It did not, and all tests have to run.
pub fn checked<E: Display>(check: Result<(), E>) -> bool {
    match check {
        Ok(()) => true,
        Err(error) => missing(error),
    }
}

/// Where zovn's program is: [`ZOVN`] names it.
///
/// # Panics
///
/// It is not named, and all tests have to run.
pub fn zovn() -> Option<PathBuf> {
    let named = env::var_os(ZOVN);
    if named.is_none() {
        missing("no program is named: cargo build && ZOVN=$PWD/target/debug/zovn cargo test …");
    }
    named.map(PathBuf::from)
}

/// Whether something is here that takes more than a test should ask of everybody, so that
/// `dependencies` does not install it, or that the network did not give. Where it is not, the test
/// is counted as skipped and is no failure, even where all tests have to run.
pub fn optional(is_here: bool, how: impl Display) -> bool {
    if !is_here {
        skipped(how);
    }
    is_here
}

/// Whether a test has what it fetches from the network, or may fetch it. It may where all tests
/// have to run: elsewhere nobody expects that of a test.
pub fn fetched(is_here: bool, what: impl Display) -> bool {
    let has = is_here || have_all_to_run();
    if !has {
        skipped(format_args!("{what} was not fetched yet: make test"));
    }
    has
}

/// Says that a test found out nothing because the machine was too busy. It is counted as skipped
/// and is no failure: nothing is missing that could be installed.
pub fn too_busy(what: impl Display) {
    skipped(format_args!("the machine is too busy to tell {what}"));
}

fn missing(why: impl Display) -> bool {
    assert!(!have_all_to_run(), "{why}");
    skipped(why);
    false
}

fn have_all_to_run() -> bool {
    env::var_os(TESTS).is_some_and(|which| which == "all")
}

/// One write, so that lines of several threads do not mix. The test harness captures what
/// `eprintln` writes, but not this.
fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

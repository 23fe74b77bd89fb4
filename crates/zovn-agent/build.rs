//! Tells the programs which commit they are built of, for `--version`, and of which day that is,
//! for pages of the manual.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=ZOVN_COMMIT");
    println!("cargo::rustc-env=ZOVN_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    // Where no commit is known it is none: a build of the same sources is the same.
    let day = || git(&["show", "--no-patch", "--format=%cs", "HEAD"]);
    let day = is_release().then(day).flatten().unwrap_or_else(|| "1970-01-01".into());
    println!("cargo::rustc-env=ZOVN_DAY={day}");
}

/// The commit: what a packager says, or what Git does. Builds for developers have none, so that a
/// commit has nothing built anew.
fn commit() -> Option<String> {
    if let Ok(commit) = env::var("ZOVN_COMMIT") {
        return Some(commit);
    }
    if !is_release() {
        return Some("development".into());
    }
    // The file that each commit and each checkout adds a line to.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    // A tree that differs from its commit says so. What is built is what lies in crates.
    let crates = Path::new("..").canonicalize().ok()?;
    println!("cargo::rerun-if-changed={}", crates.display());
    // Sources within another project's repository are not of its commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    (crates.parent() == Some(Path::new(&top))).then_some(())?;
    git(&["describe", "--always", "--exclude=*", "--dirty", "--abbrev=12"])
}

fn is_release() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

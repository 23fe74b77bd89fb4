//! Cases of what networks must do, on real hosts: an agent each, and machines that are raw frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::netns::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::until;

/// How many cases need what hosts cannot do yet, or more time than a test has.
const SKIPPED: usize = 14;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases")
}

fn test(files: impl IntoIterator<Item = PathBuf>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["net", "test", "--on", "lab", "--json"]).args(files);
    command
}

#[test]
fn hosts_do_what_cases_say() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "yaml")).collect();
    files.sort();
    let output = test(files).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let reports: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&told);
    let count = |outcome| {
        let mut all = BTreeMap::<&str, usize>::new();
        for report in reports.iter().filter(|it| it["outcome"] == outcome) {
            *all.entry(report["category"].as_str().unwrap()).or_default() += 1;
        }
        all
    };
    let failed: Vec<_> = reports.iter().filter(|it| it["outcome"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let skipped = count("skipped");
    assert!(skipped.values().sum::<usize>() <= SKIPPED, "{skipped:?}");
}

#[test]
fn who_interrupts_them_finds_nothing_left() {
    let all = ["acl-stateful", "l2", "routing", "netpol"];
    let all = all.map(|file| folder().join(file).with_extension("yaml"));
    let mut child = test(all).spawn().unwrap();
    // The lab's directory is called as its namespaces, and says whose it is.
    let mut id = None;
    until(|| {
        id = fs::read_dir("/run/zovn/lab").into_iter().flatten().flatten().find_map(|lab| {
            let owner: Value =
                serde_json::from_slice(&fs::read(lab.path().join("owner")).ok()?).ok()?;
            (owner["pid"] == child.id()).then(|| lab.file_name().into_string().ok())?
        });
        id.is_some() || child.try_wait().unwrap().is_some()
    });
    let own = format!("zovn-{}-", id.expect("it ended before it began"));
    let count = || Namespace::list().unwrap().iter().filter(|it| it.starts_with(&own)).count();
    // A bridge, a host, a machine.
    until(|| count() >= 3);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(count(), 0);
}

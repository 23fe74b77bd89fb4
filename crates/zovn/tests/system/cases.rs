//! Cases of what networks must do, on real hosts: an agent each, and machines that are raw frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use kernel::netns::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::until;

/// A frame that is dropped at a far host has begun a connection at its sender's: nobody tells that.
const KNOWN: &str = "a-syn-that-is-refused-opens-nothing-however-often-it-comes";

fn test(files: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["net", "test", "--on", "lab", "--json"]);
    command.args(files.iter().map(|file| folder.join(format!("{file}.yaml"))));
    command
}

#[test]
fn hosts_do_what_cases_say() {
    // What others of a category show once more is left to the interpreter and the pipeline.
    let files = [
        "acl-keep",
        "acl-reject",
        "acl-stateful",
        "acl-tiers",
        "arp-nd",
        "chains",
        "child",
        "dhcp",
        "dns",
        "fragments",
        "groups",
        "ipv6",
        "l2",
        "lb",
        "mtu",
        "nat",
        "netpol",
        "related",
        "reroute",
        "routing",
        "security",
        "tenants",
    ];
    let output = test(&files).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let reports: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&told);
    let is_failure = |it: &&Value| it["outcome"] == "failed" && it["case"] != KNOWN;
    let failed: Vec<_> = reports.iter().filter(is_failure).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let mut passed = BTreeMap::<&str, usize>::new();
    for report in reports.iter().filter(|it| it["outcome"] == "passed") {
        *passed.entry(report["category"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(passed.len(), files.len(), "a category of which nothing ran: {passed:?}");
}

#[test]
fn who_interrupts_them_finds_nothing_left() {
    let mut child = test(&["acl-stateful", "l2", "routing", "netpol"]).spawn().unwrap();
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

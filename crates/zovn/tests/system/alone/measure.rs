//! `zovn measure` as a user meets it: on real labs, read back from its JSON.

mod control;
mod demo;
mod ending;
mod isolation;
mod loss;
mod machines;
mod pa;
mod paths;
mod policy;
mod profile;
mod throughput;
mod tunnel;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output};

use serde_json::Value;

fn zovn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).arg("measure").args(arguments).output().unwrap()
}

/// The one object on stdout, and the exit code.
fn measured(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = zovn(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let object =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (object, output.status.code())
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has(object: &Value, wanted: &[&str]) {
    let keys = keys(object);
    let missing: Vec<_> = wanted.iter().filter(|key| !keys.contains(**key)).collect();
    assert!(missing.is_empty(), "{missing:?} missing among {keys:?}");
}

/// A measurement that is ended when the test is.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The labs of this name, by id.
fn labs_called(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/zovn/lab") else { return Vec::new() };
    let id = |entry: fs::DirEntry| {
        let record: Value =
            serde_json::from_slice(&fs::read(entry.path().join("lab.json")).ok()?).ok()?;
        (record["name"] == name).then(|| entry.file_name().into_string().unwrap())
    };
    entries.flatten().filter_map(id).collect()
}

/// Huge pages that the machine keeps, for whomever. One test at a time may count them.
fn huge_pages() -> u64 {
    let size =
        fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap();
    size.trim().parse().unwrap()
}

/// Whoever measures virtual machines needs the same core as the next.
fn machine() -> std::sync::MutexGuard<'static, ()> {
    static MACHINE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    MACHINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The rigs of virtual machines that are up.
fn rigs() -> usize {
    let Ok(entries) = fs::read_dir("/run/zovn/lab") else { return 0 };
    entries.flatten().filter(|entry| entry.path().join("hugepages").exists()).count()
}

//! `zovn measure` as a user meets it: on real labs, read back from its JSON.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn zovn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).arg("measure").args(arguments).output().unwrap()
}

/// The one object on stdout, and the exit code.
fn measured(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = zovn(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
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

const FLOOD: [&str; 6] = ["--duration", "700ms", "--receiver-rate", "2000", "--senders", "2"];

#[test]
fn a_flooded_bridge_loses_and_says_where() {
    let (object, code) = measured(&[&["loss", "--switch", "bridge"], &FLOOD[..]].concat());
    assert_eq!(code, Some(0));
    has(&object, &["zovn", "experiment", "environment", "config", "results"]);
    assert_eq!(object["experiment"], "loss");
    let result = &object["results"][0];
    let figures =
        ["switch", "sent", "received", "lost", "loss_ratio", "lost_at", "duration_s", "rx_gbps", "ledger"];
    has(result, &figures);
    let points =
        ["sender_socket", "sender_vnic", "switch_in", "switch_out", "receiver_vnic", "receiver_socket"];
    assert_eq!(keys(&result["lost_at"]), points.into());
    let lost = result["lost"].as_u64().unwrap();
    let placed: u64 = points.iter().map(|point| result["lost_at"][point].as_u64().unwrap()).sum();
    assert!(lost > 0);
    assert_eq!(placed, lost);
}

#[test]
fn a_flooded_zovn_loses_nothing() {
    let (object, code) = measured(&[&["loss", "--switch", "zovn"], &FLOOD[..]].concat());
    let result = &object["results"][0];
    assert_eq!((result["lost"].as_u64(), code), (Some(0), Some(0)), "{result:#}");
    assert!(result["received"].as_u64().unwrap() > 0);
    let ledger = &result["ledger"];
    assert_eq!(ledger["accepted"], ledger["delivered"]);
}

#[test]
fn queries_are_answered_and_compared() {
    let arguments =
        ["pa", "--switch", "bridge", "--workers", "4", "--sizes", "2", "--queries", "5", "--rounds", "1"];
    let (object, code) = measured(&[&arguments[..], &["--tcp-era", "both", "--rate", "100mbit"]].concat());
    assert_eq!(code, Some(0));
    let results = object["results"].as_array().unwrap();
    let eras: Vec<_> = results.iter().map(|result| result["era"].as_str().unwrap()).collect();
    assert_eq!(eras, ["2013", "today"]);
    for result in results {
        has(
            result,
            &["switch", "tcp", "response_bytes", "queries", "fct_us", "retransmits", "timeouts", "lost"],
        );
        has(&result["fct_us"], &["mean", "p50", "p95", "p99", "p999", "max"]);
        assert_eq!(result["queries"], 5);
        // 4 × 2 frames of 1514 bytes at 100 Mb/s: no query is faster than its port.
        assert!(result["fct_us"]["p50"].as_f64().unwrap() > 0.9 * result["ideal_us"].as_f64().unwrap());
    }
}

#[test]
fn what_cannot_be_is_a_matter_of_usage() {
    for arguments in [
        &["loss", "--switch", "bridge", "--size", "9000"][..],
        &["pa", "--switch", "bridge", "--baseline", "ovs"],
        &["ramp", "--switch", "bridge,bridge"],
        &["throughput", "--ports", "memory", "--switch", "bridge"],
        &["loss", "--switch", "brigde"],
    ] {
        let output = zovn(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
    }
}

/// A measurement that is ended when the test is.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupted_measurement_leaves_no_program_behind() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["measure", "loss", "--switch", "bridge", "--duration", "60s"]);
    let mut running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let pid = running.0.id();
    let children = || {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut programs = children();
    while programs.len() < 3 {
        assert!(running.0.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::yield_now();
        programs = children();
    }
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    assert!(programs.iter().all(|program| !fs::exists(format!("/proc/{program}")).unwrap()));
}

//! `zovn sim` as a user meets it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn sim(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_zovn")).arg("sim").args(arguments).current_dir(root).output().unwrap()
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

#[test]
fn every_shipped_scenario_can_be_simulated() {
    for entry in std::fs::read_dir(shipped("")).unwrap() {
        let path = entry.unwrap().path();
        let output = sim(&["check", path.to_str().unwrap()]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{path:?}");
        assert!(said.starts_with(path.file_stem().unwrap().to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_shipped_scenario_is_told_at_a_glance() {
    let output = sim(&["check", "scenarios/zovn-fig12.toml"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for fact in [
        "zovn-fig12",
        "256, with links of 2.560 Tb/s",
        "768: 1 hla, 1 mla, 1 worker",
        "16 tor",
        "36",
        "LL, LZ, ZL, ZZ",
    ] {
        assert!(said.contains(fact), "{fact} is missing in\n{said}");
    }
    let output = sim(&["check", "scenarios/zovn-fig12.toml", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (object["summary"]["cells"].as_u64(), object["summary"]["vms"].as_u64()),
        (Some(36), Some(768))
    );
    assert_eq!(object["faults"], Value::Array(Vec::new()));
}

#[test]
fn a_mistake_has_a_place_and_exit_code_2_and_a_missing_file_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, "version = 1\nname = \"wrong\"\n[topology]\nkind = \"star\"\nserver = 3\n")
        .unwrap();
    let file = file.to_str().unwrap();
    let output = sim(&["check", file]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("wrong.toml, line 5, column 1: `topology.server`"), "{said}");
    assert!(said.contains("did you mean `servers`?"), "{said}");
    let output = sim(&["check", file, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["faults"][0]["line"].as_u64(), output.status.code()), (Some(5), Some(2)));

    for arguments in [&["check", "/nowhere.toml"][..], &["check", "/nowhere.toml", "--json"]] {
        let output = sim(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.starts_with("zovn: cannot read /nowhere.toml: "), "{said}");
    }
}

#[test]
fn each_mistake_has_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    let right = std::fs::read_to_string(shipped("incast.toml")).unwrap();
    std::fs::write(&file, right.replace("servers = 33", "servers = 0").replace("60s", "0s")).unwrap();
    let output = sim(&["check", file.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 2), "{said}");
    assert!(said.lines().all(|line| line.starts_with(&format!("zovn: {}, line ", file.display()))), "{said}");
}

#[test]
fn a_run_says_the_same_bytes_whatever_the_number_of_threads() {
    let run =
        |threads: &str| sim(&["run", "scenarios/incast.toml", "--seed", "7", "--threads", threads, "--json"]);
    let [one, two] = ["1", "2"].map(run);
    assert_eq!(one.status.code(), Some(0), "{}", String::from_utf8_lossy(&one.stderr));
    assert_eq!(String::from_utf8(one.stdout.clone()), String::from_utf8(two.stdout));
    let object: Value = serde_json::from_slice(&one.stdout).unwrap();
    let results = object["results"].as_array().unwrap();
    assert_eq!((object["experiment"].as_str(), object["config"]["seed"].as_u64()), (Some("sim"), Some(7)));
    let lost = |result: &Value| result["classes"]["default"]["lost_physical"].as_u64().unwrap();
    assert!(lost(&results[0]) > 0 && lost(&results[1]) == 0, "{results:?}");
    assert!(results.iter().all(|result| result["queries"] == 100 && result["ending"] == "done"));
}

#[test]
fn a_run_prints_a_line_each_and_a_deadlock_is_exit_code_1() {
    let output = sim(&["run", "scenarios/pfc-deadlock.toml"]);
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        table.contains("topology.routing=clockwise") && table.contains("topology.routing=line"),
        "{table}"
    );
    assert!(said.contains("a deadlock: switch") && said.contains("wait for each other"), "{said}");
}

#[test]
fn a_bench_tells_how_fast_it_is() {
    let output = sim(&["bench", "--queries", "5", "--rounds", "1", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = &object["results"][0];
    for name in ["packet_hops_per_cpu_s", "events_per_cpu_s", "rss_bytes"] {
        assert!(figures[name].as_f64().unwrap() > 1000.0, "{name}: {figures}");
    }
    assert_eq!((output.status.code(), figures["queries"].as_u64()), (Some(0), Some(5)));
}

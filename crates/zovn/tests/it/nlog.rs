//! `zovn nlog`: what it tells of rules, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn nlog(words: &[&str]) -> Output {
    let (zovn, root) = (env!("CARGO_BIN_EXE_zovn"), Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut command = Command::new(zovn);
    command.arg("nlog").args(words).current_dir(root.join("../..")).output().unwrap()
}

#[test]
fn a_profile_tells_what_rules_cost() {
    let told = nlog(&["profile", "examples/shop.yaml"]);
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("rules/switches.nlog") && text.contains("port_row"), "{text}");
    let told = nlog(&["profile", "examples/shop.yaml", "--objects", "1", "--json"]);
    let report: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(report["edits"].as_u64().unwrap() <= 2, "{report}");
    let rules = report["rules"].as_array().unwrap();
    let is_station = |it: &&Value| it["table"] == "station_row";
    let stations = rules.iter().filter(is_station);
    let solutions = stations.map(|it| it["cold"]["solutions"].as_u64().unwrap()).sum::<u64>();
    assert!(solutions > 3, "{rules:?}");
}

#[test]
fn a_wrong_file_is_complained_of() {
    assert_eq!(nlog(&["profile", "README.md"]).status.code(), Some(2));
    assert_eq!(nlog(&["profile", "there/is/none.yaml"]).status.code(), Some(1));
}

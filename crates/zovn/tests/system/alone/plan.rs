//! `zovn plan prove --by lab`: a plan's host and its switch's profile against a real switch.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

fn zovn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).args(words).output().unwrap()
}

/// A short profile of this machine, as `host.json`. It is measured once.
fn profile(folder: &Path) {
    static PROFILE: OnceLock<Vec<u8>> = OnceLock::new();
    let case = ["measure", "profile", "--switch", "zovn", "--tunnels", "geneve"];
    let size = ["--loads", "frames", "--sizes", "512", "--duration", "200ms", "--rounds", "1"];
    let profile = PROFILE.get_or_init(|| {
        let output = zovn(&[&case[..], &size, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        output.stdout
    });
    fs::write(folder.join("host.json"), profile).unwrap();
}

/// Three machines that send little, partly to another host, as `plan.yaml`.
const PLAN: &str = "\
goal: {epsilon: 0.001}
types:
  small:
    cores: 8
    memory: 16gib
    switch: [{cores: 1, profile: {file: host.json, switch: zovn, tunnel: geneve}}]
hosts:
  h: {type: small}
models:
  steady: {rate: 2mbit, frame: 512b, remote: 0}
  bursts: {on: 4mbit, on_for: 2s, off_for: 6s, frame: 512b, remote: 0.5}
vms:
  steady: {count: 2, model: steady, cores: 1, memory: 1gib}
  bursts: {count: 1, model: bursts, cores: 1, memory: 1gib}
placement:
  h: {steady: 2, bursts: 1}
";

/// The exit code, and the result.
fn json(words: &[&str]) -> (Option<i32>, Value) {
    let output = zovn(&[&["plan", "prove"], words, &["--by", "lab", "--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let told = serde_json::from_slice(&output.stdout);
    let mut told: Value = told.unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((&told["experiment"], &told["config"]["by"]), (&"plan-prove".into(), &"lab".into()));
    (output.status.code(), told["results"][0].take())
}

const VERDICTS: [&str; 3] = ["fits", "does-not-fit", "open"];

#[test]
fn a_host_and_a_profile_are_held_against_a_real_switch() {
    let folder = tempfile::tempdir().unwrap();
    profile(folder.path());
    let file = folder.path().join("plan.yaml");
    fs::write(&file, PLAN).unwrap();
    let file = file.to_str().unwrap();

    // Machines that send little are never too much, and all of it arrives.
    let page = folder.path().join("host.html");
    let (code, out) = json(&[file, "--seconds", "1", "--html", page.to_str().unwrap()]);
    assert_eq!(code, Some(i32::from(out["agrees"] != true)), "{out:#}");
    let host = &out;
    assert_eq!((&host["hosts"][0], &host["lost"]), (&"h".into(), &0.into()), "{out:#}");
    assert_eq!(
        (&host["predicted"], &host["asked"]["high"]),
        (&"fits".into(), &0.0.into()),
        "{out:#}"
    );
    assert_eq!((&host["balanced"], &host["duplicates"]), (&true.into(), &0.into()), "{out:#}");
    assert!(VERDICTS.iter().any(|it| host["seen"] == *it), "{out:#}");
    // What little was asked for is carried, unless the lab could not ask for it.
    assert!(host["agrees"] != true || host["seen"] == "fits", "{out:#}");
    assert_eq!(host["failed"], 0.0, "{out:#}");
    let fps = |it: &Value, key: &str| it[key].as_f64().unwrap();
    assert!(fps(host, "carried_fps") > 0.0 && fps(host, "asked_fps") > 900.0, "{out:#}");
    assert!(fs::read_to_string(page).unwrap().contains("Share of time with too much"));

    // The first asks for half of what the switch carries, the second for more than that; of the
    // next two by the link it is the same.
    let (code, out) = json(&[file, "--mixes", "4", "--seconds", "1", "--seed", "9"]);
    assert_eq!(code, Some(i32::from(out["is_met"] != true)), "{out:#}");
    let mixes = out["mixes"].as_array().unwrap();
    let predicted: Vec<&str> = mixes.iter().filter_map(|it| it["predicted"].as_str()).collect();
    assert_eq!(predicted, ["fits", "does-not-fit", "fits", "does-not-fit"]);
    for (number, mix) in mixes.iter().enumerate() {
        assert_eq!((&mix["lost"], &mix["duplicates"]), (&0.into(), &0.into()), "{mix:#}");
        assert_eq!(mix["balanced"], true, "{mix:#}");
        assert_eq!(mix["is_far"], number >= 2, "{mix:#}");
        assert_eq!(mix["demands"].as_array().unwrap().len(), 2, "{mix:#}");
        assert!(VERDICTS.iter().any(|it| mix["seen"] == *it), "{mix:#}");
        assert!(fps(mix, "carried_fps") > 0.0 && fps(mix, "expected_fps") > 0.0, "{mix:#}");
    }
    assert!(fps(&mixes[0], "load") < 0.51, "{out:#}");
    assert_ne!(mixes[0]["seen"], "does-not-fit", "{out:#}");
    // Nothing is proven by too few, or by wrong ones.
    let count = |of: &dyn Fn(&Value) -> bool| mixes.iter().filter(|it| of(it)).count();
    let judged = count(&|it| it["seen"] != "open");
    let right = count(&|it| it["seen"] == it["predicted"]);
    assert_eq!((&out["judged"], &out["right"]), (&judged.into(), &right.into()), "{out:#}");
    let is_near =
        |it: &Value| (fps(it, "carried_fps") / fps(it, "expected_fps") - 1.0).abs() <= 0.1;
    let near = count(&|it| it["seen"] != "open" && is_near(it));
    assert_eq!(out["near_curve"], near, "{out:#}");
    let enough = ["fits", "does-not-fit"]
        .iter()
        .all(|kind| count(&|it| it["predicted"] == *kind && it["seen"] != "open") >= 1);
    assert_eq!(out["is_enough"], enough, "{out:#}");
    assert_eq!(out["is_met"], enough && right == judged && near == judged, "{out:#}");
}

#[test]
fn a_profile_of_another_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    profile(folder.path());
    let path = folder.path().join("host.json");
    let mut there: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    there["environment"]["cores"] = 4096.into();
    fs::write(&path, there.to_string()).unwrap();
    let file = folder.path().join("plan.yaml");
    fs::write(&file, PLAN).unwrap();
    let output = zovn(&["plan", "prove", file.to_str().unwrap(), "--by", "lab", "--mixes", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("was measured on another machine") && said.contains("4096 cores"),
        "{said}"
    );
}

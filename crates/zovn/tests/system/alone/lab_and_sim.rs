//! The same queries on real kernels and in the simulator, from one scenario: what holds on a busy
//! machine too. `tools/lab/compare` has the figures.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const QUERIES: &str = "8";

/// The results of an experiment of ours.
fn results(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_zovn")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let object: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    object["results"].as_array().unwrap().clone()
}

/// What is compared, of one side with one switch.
#[derive(Debug)]
struct Side {
    mean_us: f64,
    median_us: f64,
    lost: u64,
    retransmits: u64,
    /// None on kernels that do not tell.
    timeouts: Option<u64>,
}

impl Side {
    fn new(result: &Value, lost: &Value) -> Self {
        let time = |name: &str| result["fct_us"][name].as_f64().unwrap();
        let count = |value: &Value| value.as_u64().unwrap();
        Self {
            mean_us: time("mean"),
            median_us: time("p50"),
            lost: count(lost),
            retransmits: count(&result["retransmits"]),
            timeouts: result["timeouts"].as_u64(),
        }
    }
}

/// The shipped scenario, without its sweep.
fn scenario() -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab.toml");
    let text = std::fs::read_to_string(shipped).unwrap();
    let text = text.split_once("[sweep]").unwrap().0;
    assert!(text.contains("\nqueries = 30\n"), "{text}");
    text.replace("\nqueries = 30\n", &format!("\nqueries = {QUERIES}\n"))
}

/// Answers of 64 segments, behind a lossy switch and behind a lossless one.
fn lab() -> [Side; 2] {
    let table: toml::Table = scenario().parse().unwrap();
    let network = &table["virtual"];
    let workers = format!("--workers={}", network["vms"]["worker"]);
    let rate = format!("--rate={}", network["rate"].as_str().unwrap());
    let egress: u32 = network["egress"].as_str().unwrap().trim_end_matches('b').parse().unwrap();
    let buffer = format!("--buffer={}", egress / 1514);
    let ports = [&workers[..], &rate, &buffer];
    let rest =
        ["--switch=bridge,zovn", "--sizes=64", "--tcp=cubic", "--rounds=1", "--queries", QUERIES];
    let results = results(&[&["measure", "pa", "--json"], &ports[..], &rest].concat());
    [0, 1].map(|place| Side::new(&results[place], &results[place]["lost"]))
}

/// The same.
fn simulated() -> [Side; 2] {
    let axes =
        "workload.queries.reply = [\"92672b\"]\nflow_control.virtual = [\"lossy\", \"lossless\"]\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    std::fs::write(&file, format!("{}[sweep]\n{axes}", scenario())).unwrap();
    let results = results(&["sim", "run", "--json", file.to_str().unwrap()]);
    [0, 1].map(|place| {
        Side::new(&results[place], &results[place]["classes"]["default"]["lost_virtual"])
    })
}

#[test]
fn the_simulator_tells_of_a_lab_what_the_lab_does() {
    let [lab, simulated] = [lab(), simulated()];
    for [lossy, lossless] in [&lab, &simulated] {
        assert_eq!(lossless.lost, 0, "{lossless:?}");
        assert!(lossy.lost > 0 && lossy.retransmits > 0 && lossy.timeouts != Some(0), "{lossy:?}");
        assert!(lossy.mean_us > lossless.mean_us, "{lossy:?} {lossless:?}");
    }
    // Twice, either way: a busy machine takes its time.
    for (lab, simulated) in lab.iter().zip(&simulated) {
        let ratio = simulated.median_us / lab.median_us;
        assert!((0.5..2.0).contains(&ratio), "{lab:?} {simulated:?}");
    }
}

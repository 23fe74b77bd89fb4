//! What a folder of results promises.

use std::fs;
use std::path::Path;

use sim::scenario::Plan;
use sim::store::{Kind, StoreError};
use sim::{CellResult, Outcome, Store};

/// Queries beside flows of both transports, on two switches.
const TINY: &str = r#"
version = 1
name = "tiny"
[run]
duration = "5ms"
warmup = "1ms"
[topology]
kind = "dumbbell"
left = 2
right = 2
[topology.bottleneck]
rate = "5gbit"
[virtual]
vms = { a = 1, b = 2 }
[workload.queries]
kind = "partition-aggregate"
aggregators = "a"
workers = "b"
request = "1kb"
reply = "5kb"
gap = "200us"
[workload.tcp]
kind = "flows"
sizes = "exponential(20kb)"
load = 0.2
[workload.udp]
kind = "flows"
transport = "udp"
sizes = "exponential(20kb)"
load = 0.1
[sweep]
repeat = 2
tcp.control = ["reno", "cubic"]
"#;

fn plan(text: &str) -> Plan {
    Plan::parse(text).unwrap_or_else(|faults| panic!("{}", faults[0]))
}

/// Runs and writes cell number `index`.
fn write(store: &Store, plan: &Plan, index: u64) -> (Outcome, CellResult) {
    let cell = plan.cell(index);
    let outcome = sim::run(&cell.scenario, |_| true);
    let result = CellResult::new(&cell, &outcome);
    store.write(&cell, &outcome, &result, true).unwrap();
    (outcome, result)
}

fn lines(folder: &Path, name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn rows_agree_with_their_result() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(TINY));
    let store = Store::create(folder.path(), &plan).unwrap();
    let (outcome, result) = write(&store, &plan, 1);
    assert!(result.queries > 10 && result.flows > 100, "{result:?}");
    assert_eq!(store.result(1).unwrap().as_ref(), Some(&result));

    let table = lines(folder.path(), "cell-000001.csv");
    let place = |name: &str| table[0].iter().position(|head| head == name).unwrap();
    let [kind, fct, bytes, slowdown] = ["kind", "fct_ns", "bytes", "slowdown"].map(place);
    let of = |wanted: &str| table[1..].iter().filter(|row| row[kind] == wanted).collect::<Vec<_>>();
    let (queries, flows) = (of("query"), of("flow"));
    assert_eq!((queries.len() as u64, flows.len() as u64), (result.queries, result.flows));
    assert!(table.iter().all(|row| row.len() == table[0].len()), "every row is as long as the heads");
    assert_eq!(flows.iter().map(|row| row[bytes].parse::<u64>().unwrap()).sum::<u64>(), result.flow_bytes);
    let times =
        |rows: &[&Vec<String>]| rows.iter().map(|row| row[fct].parse::<u64>().unwrap()).collect::<Vec<_>>();
    let mean = times(&queries).iter().sum::<u64>() as f64 / queries.len() as f64 / 1e3;
    assert!((mean - result.fct_us.unwrap().mean).abs() < 1e-9, "{mean}");
    for row in &flows {
        assert!(row[slowdown].parse::<f64>().unwrap() >= 1.0, "no flow is faster than alone: {row:?}");
    }

    // Parquet says the same, and nobody is called what a scenario does not know.
    assert_eq!(store.times(1, Kind::Query).unwrap(), times(&queries));
    assert_eq!(store.times(1, Kind::Flow).unwrap(), times(&flows));
    let named =
        |number: u32| format!("{}@{}/{}", ["a", "b", "b"][number as usize % 3], number / 3, number % 3 / 2);
    for (row, flow) in flows.iter().zip(outcome.record.flows()) {
        assert_eq!([&row[place("from")], &row[place("to")]], [&named(flow.from), &named(flow.to)]);
    }
}

#[test]
fn rows_that_nobody_wants_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&TINY.replace("[sweep]", "[output]\nflows = false\n[sweep]"));
    let store = Store::create(folder.path(), &plan).unwrap();
    let (_, result) = write(&store, &plan, 0);
    assert!(result.flows > 0 && store.times(0, Kind::Flow).unwrap().is_empty());
    assert_eq!(lines(folder.path(), "cell-000000.csv").len() as u64, 1 + result.queries);
}

#[test]
fn the_same_cell_is_the_same_bytes() {
    let plan = plan(TINY);
    let written = || {
        let folder = tempfile::tempdir().unwrap();
        write(&Store::create(folder.path(), &plan).unwrap(), &plan, 3);
        let names = ["sweep.json", "cell-000003.json", "cell-000003.parquet", "cell-000003.csv"];
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names.len(), "and nothing else is left");
        names.map(|name| fs::read(folder.path().join(name)).unwrap())
    };
    assert_eq!(written(), written());
}

#[test]
fn results_of_different_things_do_not_mix() {
    let (folder, tiny) = (tempfile::tempdir().unwrap(), plan(TINY));
    let store = Store::create(folder.path(), &tiny).unwrap();
    write(&store, &tiny, 0);
    for other in [
        TINY.replace("repeat = 2", "repeat = 3"),
        TINY.replace("5kb", "6kb"),
        TINY.replace(r#""reno", "cubic""#, r#""cubic", "reno""#),
    ] {
        let error = Store::create(folder.path(), &plan(&other)).unwrap_err();
        assert!(matches!(error, StoreError::OtherSweep { .. }), "{error}");
    }
    let error = Store::create(folder.path(), &tiny.clone().with_seed(2)).unwrap_err();
    assert!(error.to_string().contains("write into another folder"), "{error}");
    // What is only told otherwise is the same sweep.
    Store::create(folder.path(), &plan(&TINY.replace("\"tiny\"", "\"small\""))).unwrap();

    // A cell that was put into the folder of another sweep.
    let (elsewhere, other) = (tempfile::tempdir().unwrap(), plan(&TINY.replace("5kb", "6kb")));
    let store = Store::create(elsewhere.path(), &other).unwrap();
    let cell = "cell-000000.json";
    fs::copy(folder.path().join(cell), elsewhere.path().join(cell)).unwrap();
    let error = store.result(0).unwrap_err();
    assert!(matches!(error, StoreError::OtherSweep { .. }), "{error}");
    fs::write(elsewhere.path().join(cell), "{").unwrap();
    assert!(matches!(store.result(0), Err(StoreError::Damaged { .. })));
    assert!(matches!(store.result(1), Ok(None)));

    let sweep = fs::read_to_string(folder.path().join("sweep.json")).unwrap();
    fs::write(folder.path().join("sweep.json"), sweep.replace("\"cells\": 4", "\"cells\": 5")).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Damaged { .. })));
    let old = sweep.replace(&format!("\"zovn\": \"{}\"", sim::store::VERSION), "\"zovn\": \"0.0.1\"");
    fs::write(folder.path().join("sweep.json"), old).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::OtherVersion { .. }), "{error}");
    assert!(matches!(Store::open(Path::new("/nowhere")), Err(StoreError::Empty(_))));
}

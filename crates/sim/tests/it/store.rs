//! What a folder of results promises.

use std::fs;
use std::path::Path;

use sim::scenario::Plan;
use sim::store::{Kind, StoreError};
use sim::{CellResult, Instruments, Outcome, Store};

/// Queries beside flows of both transports and a stream, on two switches.
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
[workload.stream]
kind = "stream"
source = "a@0"
destination = "a@3"
rate = "100mbit"
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
    store.write(&cell, &outcome, &result, None, true).unwrap();
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
    let (queries, flows, streams) = (of("query"), of("flow"), of("stream"));
    assert_eq!((queries.len() as u64, flows.len() as u64), (result.queries, result.flows));
    assert_eq!(
        (streams.len() as u64, result.streams, table.len() - 1),
        (1, 1, queries.len() + flows.len() + 1)
    );
    let stream = ["from", "to", "bytes", "start_ns", "end_ns", "slowdown"]
        .map(|name| &streams[0][place(name)]);
    assert_eq!(
        stream,
        ["a@0/0", "a@3/0", &result.stream_bytes.to_string(), "1000000", "5000000", ""]
    );
    // 4 ms at 100 Mb/s.
    assert!(result.stream_bytes.abs_diff(50_000) < 3000, "{}", result.stream_bytes);
    assert!(
        table.iter().all(|row| row.len() == table[0].len()),
        "every row is as long as the heads"
    );
    assert_eq!(
        flows.iter().map(|row| row[bytes].parse::<u64>().unwrap()).sum::<u64>(),
        result.flow_bytes
    );
    let times = |rows: &[&Vec<String>]| {
        rows.iter().map(|row| row[fct].parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let mean = times(&queries).iter().sum::<u64>() as f64 / queries.len() as f64 / 1e3;
    assert!((mean - result.completion.fct_us.unwrap().mean).abs() < 1e-9, "{mean}");
    for row in &flows {
        assert!(
            row[slowdown].parse::<f64>().unwrap() >= 1.0,
            "no flow is faster than alone: {row:?}"
        );
    }

    // Parquet says the same, and nobody is called what a scenario does not know.
    assert_eq!(store.times(1, Kind::Query).unwrap(), times(&queries));
    assert_eq!(store.times(1, Kind::Flow).unwrap(), times(&flows));
    let named = |number: u32| {
        format!("{}@{}/{}", ["a", "b", "b"][number as usize % 3], number / 3, number % 3 / 2)
    };
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
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            names.len(),
            "and nothing else is left"
        );
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
    fs::write(folder.path().join("sweep.json"), sweep.replace("\"cells\": 4", "\"cells\": 5"))
        .unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Damaged { .. })));
    let old =
        sweep.replace(&format!("\"zovn\": \"{}\"", sim::store::VERSION), "\"zovn\": \"0.0.1\"");
    fs::write(folder.path().join("sweep.json"), old).unwrap();
    let error = Store::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::OtherVersion { .. }), "{error}");
    assert!(matches!(Store::open(Path::new("/nowhere")), Err(StoreError::Empty(_))));
}

/// A star in which everybody sends to the first server, and two runs of it: as often as each, and
/// as the memory allows.
#[test]
fn samples_tell_how_long_queues_were_and_who_was_paused() {
    let text = r#"
version = 1
name = "samples"
[run]
duration = "20ms"
[topology]
kind = "star"
servers = 4
[workload.burst]
kind = "stream"
source = "vm@1-3"
destination = "vm@0"
transport = "udp"
stop = "10ms"
[output]
samples = "SAMPLES"
"#;
    let seen = |every: &str| {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&text.replace("SAMPLES", every));
        let (store, cell) = (Store::create(folder.path(), &plan).unwrap(), plan.cell(0));
        let instruments = Instruments { samples: true, ..Instruments::default() };
        let (outcome, seen) = sim::run_seen(&cell.scenario, instruments, &mut |_| true);
        let plain = sim::run(&cell.scenario, |_| true);
        assert_eq!(
            (plain.events, plain.time),
            (outcome.events, outcome.time),
            "looking changes nothing"
        );
        let result = CellResult::new(&cell, &outcome);
        assert!(!store.is_complete(&cell, true));
        store.write(&cell, &outcome, &result, seen.samples.as_ref(), true).unwrap();
        assert!(store.is_complete(&cell, true));
        let mut rows = Vec::new();
        let told = |it: sim::Sample<'_>| {
            assert_eq!(it.class, "default");
            rows.push((it.port.to_owned(), it.start_ns, it.span_ns, it.queue_bytes, it.paused));
        };
        store.samples(0, told).unwrap();
        let table = lines(folder.path(), "cell-000000.samples.csv");
        assert_eq!(
            table[0],
            ["cell", "start_ns", "span_ns", "port", "class", "queue_bytes", "paused"]
        );
        assert_eq!(table.len(), rows.len() + 1);
        (rows, outcome)
    };
    let (fine, outcome) = seen("10us");
    assert!(
        fine.iter().all(|row| row.2 == 10_000 && row.1 % 10_000 == 0 && row.1 < 20_000_000),
        "each look alone"
    );
    // The output to the first server is what all wait for, until a while after they have stopped.
    let neck: Vec<_> = fine.iter().filter(|row| row.0 == "switch0-server0").collect();
    assert!(neck.len() > 950 && neck.iter().all(|row| row.4 == 0.0), "{}", neck.len());
    // Senders are paused for two thirds of their time: as often as the network has booked.
    let paused: f64 =
        fine.iter().filter(|row| row.0.ends_with("-switch0")).map(|row| row.4 * 1e-5).sum();
    let booked = outcome.classes[0].paused.as_secs_f64();
    assert!(
        booked > 0.015 && (paused / booked - 1.0).abs() < 0.05,
        "{paused} s seen, {booked} s booked"
    );
    // What they have waits in their virtual switches, which hold the machines back.
    assert!(fine.iter().any(|row| row.0 == "server2" && row.3 > 200_000 && row.4 == 1.0));
    assert!(fine.iter().any(|row| row.0 == "vm@2/0" && row.4 == 1.0));

    // 20,000 looks of 1 µs are more than there are stretches: 16 become one, and what they say
    // together stays.
    let (coarse, _) = seen("1us");
    assert!(coarse.iter().all(|row| row.2 == 16_000 && row.1 % 16_000 == 0));
    let most = |rows: &[(String, u64, u64, u64, f64)]| rows.iter().map(|row| row.3).max();
    assert!(most(&coarse) >= most(&fine));
    let again: f64 =
        coarse.iter().filter(|row| row.0.ends_with("-switch0")).map(|row| row.4 * 16e-6).sum();
    assert!((again / booked - 1.0).abs() < 0.02, "{again} s seen, {booked} s booked");
}

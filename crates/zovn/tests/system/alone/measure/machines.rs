//! Virtual machines at switches, of which each has a core and huge pages.

use std::fs;
use std::io::BufRead;
use std::process::{Command, Stdio};

use lab::SwitchKind;
use serde_json::Value;

use super::{Running, has, huge_pages, machine, measured, rigs};

const SHORT: [&str; 6] = ["throughput", "--ports", "vhost-user", "--duration", "100ms", "--rounds"];

#[test]
fn virtual_machines_send_through_zovn_and_its_peer() {
    let (_machine, before) = (machine(), huge_pages());
    let mut switches = vec!["zovn"];
    if needs::checked(SwitchKind::Testpmd.check()) {
        switches.push("testpmd");
    }
    let (list, directory) = (switches.join(","), tempfile::tempdir().unwrap());
    let report = directory.path().join("report.html");
    let arguments = ["1", "--switch", &list, "--sizes", "64,1500", "--flows", "100"];
    let (object, code) =
        measured(&[&SHORT[..], &arguments, &["--report", report.to_str().unwrap()]].concat());
    let results = object["results"].as_array().unwrap();
    assert_eq!(code, Some(0), "{results:#?}");
    assert_eq!(results.len(), 2 * switches.len());
    for result in results {
        has(
            result,
            &[
                "switch",
                "ports",
                "size",
                "flows",
                "mfps",
                "gbps",
                "lost",
                "cycles_per_frame",
                "latency",
            ],
        );
        assert_eq!((&result["ports"], &result["flows"]), (&"vhost-user".into(), &100.into()));
        let number = |field: &str| result[field].as_f64().unwrap();
        assert!(number("mfps") > 0.0 && number("cycles_per_frame") > 0.0, "{result:#}");
        assert_eq!(number("sent"), number("received") + number("lost"));
        let bits = number("mfps") * number("size") * 8e-3;
        assert!((number("gbps") - bits).abs() < 1e-9);
        assert_eq!((number("duplicates"), number("out_of_order")), (0.0, 0.0), "{result:#}");
        for latency in result["latency"].as_array().unwrap() {
            let [p50, p99] = ["p50_us", "p99_us"].map(|field| latency[field].as_f64().unwrap());
            assert!(0.0 < p50 && p50 <= p99, "{result:#}");
        }
    }
    let zovn = &results[0];
    assert_eq!((&zovn["lost"], &zovn["balanced"]), (&0.into(), &true.into()));
    assert_eq!(zovn["latency"].as_array().unwrap().len(), 3);
    assert!(fs::read_to_string(report).unwrap().contains("Frames: 100 flows, 1 sender"));
    assert!(huge_pages() <= before && rigs() == 0);
}

#[test]
fn a_machine_that_is_promised_frames_has_them_beside_floods() {
    let (_machine, before) = (machine(), huge_pages());
    let case =
        ["isolation", "--ports", "vhost-user", "--adversary", "packets,churn", "--tenants", "2"];
    let times = ["--switch", "zovn", "--min-packets", "20000", "--rounds", "1"];
    let times = [&times[..], &["--tb", "300ms", "--lead", "200ms", "--gap", "200ms"]].concat();
    let (object, code) = measured(&[&case[..], &times].concat());
    assert_eq!((&object["experiment"], code), (&"machines".into(), Some(0)), "{object:#}");
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        has(result, &["goodput", "most", "least_of_guarantee", "others_held", "thread"]);
        assert_eq!((&result["lost"], &result["balanced"]), (&0.into(), &true.into()));
        assert!(result["thread"]["others"].as_f64().unwrap() > 0.0, "{result:#}");
    }
    assert!(results[1]["changes"]["made"].as_u64().unwrap() > 0, "{results:#?}");
    assert!(huge_pages() <= before && rigs() == 0);
}

#[test]
fn a_slow_machine_holds_its_senders_back_and_loses_nothing() {
    let (_machine, before) = (machine(), huge_pages());
    let arguments =
        ["1", "--switch", "zovn", "--sizes", "64", "--senders", "2", "--slow-receiver", "20"];
    let (object, code) = measured(&[&SHORT[..], &arguments, &["--frames", "20000"]].concat());
    let result = &object["results"][0];
    assert_eq!(code, Some(0), "{result:#}");
    let number = |field: &str| result[field].as_f64().unwrap();
    assert!(number("sent") >= 20_000.0 && number("lost") == 0.0, "{result:#}");
    assert!(number("mfps") <= 1.1 * number("receiver_mfps"), "{result:#}");
    assert!(huge_pages() <= before && rigs() == 0);
}

#[test]
fn machines_send_large_segments_whole_and_beside_a_stalled_receiver() {
    let (_machine, before) = (machine(), huge_pages());
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.html");
    let arguments = ["1", "--switch", "zovn", "--sizes", "64,65549", "--senders", "2", "--stalled"];
    let (object, code) =
        measured(&[&SHORT[..], &arguments, &["--report", report.to_str().unwrap()]].concat());
    let results = object["results"].as_array().unwrap();
    assert_eq!(code, Some(0), "{results:#?}");
    let load = |result: &Value| Some((result["size"].as_u64()?, result["stalled"].as_bool()?));
    let loads: Vec<_> = results.iter().map(|result| load(result).unwrap()).collect();
    assert_eq!(loads, [(64, false), (64, true), (65_549, false), (65_549, true)]);
    for result in results {
        // A frame that was cut on its way would be none of those that were sent.
        assert!(result["received"].as_u64().unwrap() > 0, "{result:#}");
        let figures =
            ["lost", "duplicates", "out_of_order"].map(|field| result[field].as_u64().unwrap());
        assert_eq!((figures, &result["balanced"]), ([0; 3], &true.into()), "{result:#}");
        assert_eq!(result["latency"].as_array().unwrap().len(), 3);
    }
    let page = fs::read_to_string(report).unwrap();
    for words in
        ["zovn beside a stalled receiver", "of its rate without that (65549 B, 1 flow, 2 senders"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(huge_pages() <= before && rigs() == 0);
}

#[test]
fn an_interrupted_measurement_of_virtual_machines_leaves_nothing() {
    let (_machine, before) = (machine(), huge_pages());
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args([
        "measure",
        "throughput",
        "--ports",
        "vhost-user",
        "--switch",
        "zovn",
        "--duration",
        "60s",
    ]);
    let mut running =
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let stderr = running.0.stderr.take().unwrap();
    std::io::BufReader::new(stderr).read_line(&mut line).unwrap();
    assert_eq!(rigs(), 1, "{line}");
    assert!(
        Command::new("kill")
            .args(["-INT", &running.0.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(running.0.wait().unwrap().code(), Some(130), "{line}");
    assert!(huge_pages() <= before && rigs() == 0);
}

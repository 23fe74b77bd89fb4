//! Partition-Aggregate, at one switch and between hosts.

use std::fs;

use serde_json::Value;

use super::{has, measured};

#[test]
fn queries_are_answered_and_compared() {
    let arguments = [
        "pa",
        "--switch",
        "bridge",
        "--workers",
        "4",
        "--sizes",
        "2",
        "--queries",
        "5",
        "--rounds",
        "1",
    ];
    let (object, code) =
        measured(&[&arguments[..], &["--tcp-era", "both", "--rate", "100mbit"]].concat());
    assert_eq!(code, Some(0));
    let results = object["results"].as_array().unwrap();
    let eras: Vec<_> = results.iter().map(|result| result["era"].as_str().unwrap()).collect();
    assert_eq!(eras, ["2013", "today"]);
    for result in results {
        has(
            result,
            &[
                "switch",
                "tcp",
                "response_bytes",
                "queries",
                "fct_us",
                "retransmits",
                "timeouts",
                "lost",
            ],
        );
        has(&result["fct_us"], &["mean", "p50", "p95", "p99", "p999", "max"]);
        assert_eq!(result["queries"], 5);
        // 4 × 2 frames of 1514 bytes at 100 Mb/s: no query is faster than its port, whose bucket
        // has tokens for two of them.
        assert!(
            result["fct_us"]["p50"].as_f64().unwrap() > 0.7 * result["ideal_us"].as_f64().unwrap()
        );
    }
}

#[test]
fn two_aggregators_ask_zovn_beside_background_flows() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.html");
    let arguments = [
        &["pa", "--switch", "bridge,zovn", "--workers", "4", "--aggregators", "2", "--sizes", "2"]
            [..],
        &["--queries", "5", "--rounds", "1", "--rate", "100mbit", "--background", "hadoop"],
        &["--background-gap", "20ms", "--think", "50ms", "--report", report.to_str().unwrap()],
    ];
    let (object, code) = measured(&arguments.concat());
    let [bridge, zovn] = &object["results"].as_array().unwrap()[..] else { panic!("two results") };
    assert_eq!(code, Some(0), "{zovn:#}");
    for result in [bridge, zovn] {
        assert_eq!(result["queries"], 10);
        assert!(result["background_flows"].as_u64().unwrap() > 0, "{result:#}");
        assert!(result["retransmits"].is_u64());
    }
    assert_eq!(
        (&zovn["lost"], &zovn["balanced"], &bridge["balanced"]),
        (&0.into(), &true.into(), &Value::Null)
    );
    assert!(zovn["gain_over"]["mean"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(report).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("zovn measure pa --switch bridge,zovn")
    );
}

#[test]
fn flow_control_between_hosts_is_compared() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("lab.toml");
    // Two frames wait at a port: answers of four segments from three workers do not fit.
    let text = "name = \"two\"\nswitch = \"zovn\"\noffload = false\n[hosts]\ncount = 2\n[[endpoint]]\nname = \"vm\"\n\
                count = 4\nrate = \"20mbit\"\nbuffer = 2\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let experiment = ["pa", "--lab", file, "--flow-control", "LL,ZZ,ZL+retransmit"];
    let size = ["--workers", "3", "--sizes", "4", "--queries", "3", "--rounds", "1"];
    let (object, code) = measured(&[&experiment[..], &size[..]].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let [none, zero_loss, repaired] = &object["results"].as_array().unwrap()[..] else {
        panic!("{object:#}")
    };
    assert_eq!(none["flow_control"], "virtual=lossy physical=lossy retransmit=off");
    assert!(none["lost"].as_u64().unwrap() > 0, "{none:#}");
    for (result, physical) in
        [(zero_loss, "lossless retransmit=off"), (repaired, "lossy retransmit=on")]
    {
        assert_eq!(result["flow_control"], format!("virtual=lossless physical={physical}"));
        let figures = (&result["lost"], &result["queries"], &result["balanced"]);
        assert_eq!(figures, (&0.into(), &3.into(), &true.into()), "{result:#}");
        assert!(result["dropped_between_hosts"].is_u64());
        assert_eq!(result["gain_over"]["flow_control"], none["flow_control"]);
    }
}

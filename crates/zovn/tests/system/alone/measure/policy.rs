//! Policy, between virtual machines and between containers.

use std::fs;

use lab::SwitchKind;
use serde_json::Value;

use super::{has, huge_pages, machine, measured, rigs};

#[test]
fn policy_is_measured_on_both_switches_by_the_same_rules() {
    let (_machine, before) = (machine(), huge_pages());
    let mut switches = vec!["zovn"];
    if needs::checked(SwitchKind::OvsDpdk.check()) {
        switches.push("ovs-dpdk");
    }
    let (list, directory) = (switches.join(","), tempfile::tempdir().unwrap());
    let report = directory.path().join("report.html");
    let case = ["policy", "--switch", &list, "--rules", "12", "--flows", "100"];
    let times = ["--duration", "100ms", "--rounds", "1", "--connections", "2000"];
    let page = ["--report", report.to_str().unwrap()];
    let (object, code) = measured(&[&case[..], &times, &page].concat());
    let results = object["results"].as_array().unwrap();
    assert_eq!((&object["experiment"], code), (&"policy".into(), Some(0)), "{results:#?}");
    let of = |through: &str, load: &str| {
        let is_it = |one: &&Value| one["through"] == through && one["load"] == load;
        results.iter().filter(is_it).count()
    };
    for through in ["plain", "l2", "acl", "stateful", "routed", "nat"] {
        let both = [of(through, "flows"), of(through, "accept")];
        assert_eq!(both, [switches.len(); 2], "{through}");
    }
    let others = [of("stateful", "connect"), of("nat", "connect"), of("acl", "first")];
    assert_eq!(others, [switches.len(); 3]);
    for result in results {
        has(result, &["rules", "flows", "mfps_range", "cycles_per_frame", "generator_busy"]);
        let number = |field: &str| result[field].as_u64().unwrap();
        assert!(number("received") > 0, "{result:#}");
        assert_eq!(number("sent"), number("received") + number("lost"), "{result:#}");
        assert_eq!((number("duplicates"), number("out_of_order")), (0, 0), "{result:#}");
        if result["switch"] == "zovn" {
            assert_eq!((&result["lost"], &result["balanced"]), (&0.into(), &true.into()));
        }
        match result["load"].as_str().unwrap() {
            "connect" => assert_eq!((number("sent"), &result["flows"]), (2000, &Value::Null)),
            "accept" => assert!(result["mfps"].as_f64().unwrap() > 0.0, "{result:#}"),
            "first" => assert!(result["known"]["p50_us"].as_f64().unwrap() > 0.0, "{result:#}"),
            _ => {}
        }
        assert!(result["latency"]["p50_us"].as_f64().unwrap() > 0.0, "{result:#}");
    }
    let page = fs::read_to_string(report).unwrap();
    for words in ["Frames: 100 flows", "New connections", "First packets of flows"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(huge_pages() <= before && rigs() == 0);
}

#[test]
fn policy_is_measured_between_containers_by_the_same_rules() {
    let mut switches = vec!["zovn"];
    if needs::checked(lab::nft().map(drop)) {
        switches.push("bridge");
    }
    let list = switches.join(",");
    let case = ["policy", "--ports", "container", "--switch", &list, "--rules", "12"];
    let times = ["--flows", "1,60000", "--duration", "200ms", "--rounds", "1"];
    let (object, code) = measured(&[&case[..], &times].concat());
    let results = object["results"].as_array().unwrap();
    assert_eq!((&object["config"]["ports"], code), (&"container".into(), Some(0)), "{results:#?}");
    // Six paths, two numbers of flows and connections.
    assert_eq!(results.len(), switches.len() * 6 * 3);
    for result in results {
        has(result, &["rules", "cpu_ns_per_frame", "latency", "remark"]);
        let number = |field: &str| result[field].as_u64().unwrap();
        if result["switch"] == "bridge" && number("sent") == 0 {
            assert!(result["remark"].as_str().unwrap().contains("This kernel"), "{result:#}");
            continue;
        }
        assert!(number("received") > 0, "{result:#}");
        assert!(result["latency"]["p50_us"].as_f64().unwrap() > 0.0, "{result:#}");
        if result["switch"] == "zovn" {
            assert_eq!((&result["lost"], &result["balanced"]), (&0.into(), &true.into()));
        }
    }
}

//! Virtual networks that share a port, an uplink or a downlink.

use lab::SwitchKind;
use serde_json::Value;

use super::{machine, measured};

#[test]
fn a_burst_breaches_a_deep_bucket_and_no_shallow_one() {
    let mut switches = "bridge,bridge-htb,bridge-bucket,bridge-sender,zovn-lossy,zovn".to_owned();
    if needs::checked(SwitchKind::Ovs.check()) {
        switches += ",ovs-meter,ovs-htb";
    }
    // Slow enough that a busy machine sends in time. The second sends at another rate than the
    // first: at the same one, a full queue may refuse frames of one alone, by when they come.
    let size = ["--rate", "20mbit", "--lead", "200ms", "--gap", "200ms", "--rounds", "1"];
    let case = ["isolation", "--switch", &switches, "--sets", "P1", "--tb", "1s", "--bursts", "1"];
    let (object, code) = measured(&[&case[..], &size[..]].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), switches.split(',').count());
    for result in results {
        let peer = result["peer"].as_str().unwrap();
        let is_zovn = peer.starts_with("zovn");
        assert_eq!(result["balanced"].as_bool(), is_zovn.then_some(true), "{result:#}");
        assert!(result["sent"].as_u64().unwrap() > 500, "{result:#}");
        // Half at least of what the second may send.
        assert!(result["received"][1].as_f64().unwrap() > 1e6, "{result:#}");
        let figure = |name: &str| result[name].as_f64().unwrap();
        let lost = result["pa1"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
        match peer {
            // Both together are 1.105 of the port: 173 frames too many, and there is room for 64.
            "bridge" | "bridge-bucket" | "zovn-lossy" => assert!(lost > 0, "{result:#}"),
            // The second may send less than a quarter of what it sends.
            "bridge-htb" | "ovs-htb" | "ovs-meter" | "bridge-sender" => {
                assert!(figure("p2") > 0.5, "{result:#}");
            }
            _ => assert_eq!((lost, figure("p2")), (0, 0.0), "{result:#}"),
        }
    }
}

#[test]
fn two_networks_meet_at_an_uplink_and_at_a_downlink() {
    let switches = "bridge,zovn-lossy,zovn-unshared,zovn-max,zovn,zovn-granted";
    let case = ["isolation", "--at", "uplink,downlink", "--switch", switches];
    let size = ["--sets", "P4", "--rate", "20mbit", "--tb", "400ms", "--bursts", "1"];
    let rest = ["--lead", "200ms", "--gap", "200ms", "--rounds", "1"];
    let (object, code) = measured(&[&case[..], &size, &rest].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    let cases: Vec<_> = results
        .iter()
        .map(|one| (one["at"].as_str().unwrap(), one["peer"].as_str().unwrap()))
        .collect();
    let expected = [
        ("uplink", "bridge"),
        ("uplink", "zovn-lossy"),
        ("uplink", "zovn-unshared"),
        ("uplink", "zovn-max"),
        ("uplink", "zovn"),
        // The kernel's bridge joins two hosts, and no three.
        ("downlink", "zovn-lossy"),
        ("downlink", "zovn-unshared"),
        ("downlink", "zovn-max"),
        ("downlink", "zovn"),
        ("downlink", "zovn-granted"),
    ];
    assert_eq!(cases, expected);
    for one in results {
        assert!(one["sent"].as_u64().unwrap() > 500, "{one:#}");
        let came = one["received"].as_array().unwrap();
        assert!(came.iter().all(|bits| bits.as_f64().unwrap() > 1e6), "{one:#}");
        if one["peer"].as_str().unwrap().starts_with("zovn") && one["peer"] != "zovn-lossy" {
            assert_eq!((&one["p1"], &one["p2"]), (&0.0.into(), &0.0.into()), "{one:#}");
        }
        // What the second may send in P4 is a tenth of the link.
        if one["peer"] == "zovn-max" {
            assert!(came[1].as_f64().unwrap() < 3e6, "{one:#}");
        }
    }
}

#[test]
fn both_fabrics_are_compared() {
    let case = ["isolation", "--at", "uplink", "--promise", "lossy,lossless", "--switch", "zovn"];
    let size = ["--sets", "P4", "--rate", "20mbit", "--tb", "400ms", "--bursts", "1"];
    let rest = ["--lead", "200ms", "--gap", "200ms", "--rounds", "1"];
    let (object, code) = measured(&[&case[..], &size, &rest].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    let promises: Vec<_> = results.iter().map(|one| one["promise"].as_str().unwrap()).collect();
    assert_eq!(promises, ["lossy", "lossless"]);
    for one in results {
        assert_eq!((&one["p1"], &one["p2"]), (&0.0.into(), &0.0.into()), "{one:#}");
        let exceeded = one["exceeded"]["alone"].as_array().unwrap();
        assert!(exceeded.len() > 5 && exceeded[0][1] == 0.9, "{one:#}");
    }
}

#[test]
fn adversaries_take_nothing_of_a_guarantee() {
    let case = ["isolation", "--adversary", "bytes,tcp", "--tenants", "2", "--switch", "zovn"];
    let size = ["--rate", "20mbit", "--tb", "400ms", "--lead", "300ms", "--gap", "300ms"];
    let (object, code) = measured(&[&case[..], &size, &["--rounds", "1"]].concat());
    assert_eq!(code, Some(0), "{object:#}");
    assert_eq!(object["experiment"], "adversary");
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for one in results {
        assert_eq!((&one["lost"], &one["balanced"]), (&0.into(), &true.into()), "{one:#}");
        // A busy machine holds frames up for longer than networks may.
        assert!(one["goodput"].as_f64().unwrap() > 0.9, "{one:#}");
        assert!(one["others"].as_f64().unwrap() > 1e7, "{one:#}");
    }
}

#[test]
fn neither_tags_nor_changes_of_networks_take_anything_of_a_guarantee() {
    let case = ["isolation", "--adversary", "priority,churn", "--tenants", "2", "--switch", "zovn"];
    let size = ["--rate", "20mbit", "--tb", "400ms", "--lead", "300ms", "--gap", "300ms"];
    let (object, code) = measured(&[&case[..], &size, &["--rounds", "1"]].concat());
    assert_eq!(code, Some(0), "{object:#}");
    let [priority, churn] = &object["results"].as_array().unwrap()[..] else {
        panic!("{object:#}")
    };
    for one in [priority, churn] {
        assert_eq!((&one["at"], &one["promise"]), (&"uplink".into(), &"lossless".into()));
        assert_eq!((&one["lost"], &one["balanced"]), (&0.into(), &true.into()), "{one:#}");
        assert!(one["others"].as_f64().unwrap() > 1e7, "{one:#}");
    }
    assert!(priority["changes"].is_null(), "{priority:#}");
    let changes = &churn["changes"];
    assert!(changes["made"].as_u64().unwrap() > 4, "{churn:#}");
    assert_eq!(changes["refused"], 0, "{churn:#}");
}

#[test]
fn victims_of_each_kind_are_told_of() {
    let _machine = machine();
    for victim in ["request", "tcp"] {
        let case = ["isolation", "--adversary", "bytes", "--tenants", "1", "--switch", "zovn"];
        let times = ["--victim", victim, "--rate", "50mbit", "--rounds", "1", "--tb", "300ms"];
        let more = ["--lead", "300ms", "--gap", "300ms"];
        let (object, _) = measured(&[&case[..], &times, &more].concat());
        let result = &object["results"][0];
        assert_eq!((&result["victim"], &result["lost"]), (&victim.into(), &0.into()));
        assert!(result["goodput"].as_f64().unwrap() > 0.0, "{result:#}");
        assert!(result["thread"]["victim"].as_f64().unwrap() > 0.0, "{result:#}");
    }
}

//! `zovn measure` as a user meets it: on real labs, read back from its JSON.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use std::process::{Child, Command, Output, Stdio};

use lab::SwitchKind;
use serde_json::Value;

fn zovn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).arg("measure").args(arguments).output().unwrap()
}

/// The one object on stdout, and the exit code.
fn measured(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = zovn(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let object =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (object, output.status.code())
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has(object: &Value, wanted: &[&str]) {
    let keys = keys(object);
    let missing: Vec<_> = wanted.iter().filter(|key| !keys.contains(**key)).collect();
    assert!(missing.is_empty(), "{missing:?} missing among {keys:?}");
}

const FLOOD: [&str; 6] = ["--duration", "700ms", "--receiver-rate", "2000", "--senders", "2"];

#[test]
fn a_flooded_bridge_loses_and_says_where() {
    let (object, code) = measured(&[&["loss", "--switch", "bridge"], &FLOOD[..]].concat());
    assert_eq!(code, Some(0));
    has(&object, &["zovn", "experiment", "environment", "config", "results"]);
    assert_eq!(object["experiment"], "loss");
    let result = &object["results"][0];
    let figures = [
        "switch",
        "sent",
        "received",
        "lost",
        "loss_ratio",
        "lost_at",
        "duration_s",
        "rx_gbps",
        "ledger",
    ];
    has(result, &figures);
    let points = [
        "sender_socket",
        "sender_vnic",
        "switch_in",
        "switch_out",
        "receiver_vnic",
        "receiver_socket",
    ];
    assert_eq!(keys(&result["lost_at"]), points.into());
    let lost = result["lost"].as_u64().unwrap();
    let placed: u64 = points.iter().map(|point| result["lost_at"][point].as_u64().unwrap()).sum();
    assert!(lost > 0);
    assert_eq!(placed, lost);
}

#[test]
fn a_flooded_zovn_loses_nothing() {
    let (object, code) = measured(&[&["loss", "--switch", "zovn"], &FLOOD[..]].concat());
    let result = &object["results"][0];
    assert_eq!((result["lost"].as_u64(), code), (Some(0), Some(0)), "{result:#}");
    assert!(result["received"].as_u64().unwrap() > 0);
    let ledger = &result["ledger"];
    assert_eq!(ledger["accepted"], ledger["delivered"]);
}

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
fn paths_are_monitored_and_cuts_detected() {
    let arguments =
        ["bfd", "--sessions", "300", "--interval", "200ms", "--duration", "1s", "--rounds", "1"];
    let (object, code) = measured(&arguments);
    assert_eq!(code, Some(0), "{object:#}");
    assert_eq!(object["config"]["sessions"], 300);
    let result = &object["results"][0];
    has(result, &["up_s", "cpu_percent", "failed", "detection_max_ms"]);
    assert_eq!((result["lost"].as_u64(), result["detected"].as_u64()), (Some(0), Some(10)));
    // 300 every 200 ms, and up to a quarter sooner for jitter.
    for rate in ["sent_pps", "received_pps"] {
        assert!(result[rate].as_f64().unwrap() > 1000.0, "{result:#}");
    }
    // The last packet went up to an interval before the cut, and two more are missed.
    assert!(result["detection_median_ms"].as_f64().unwrap() > 150.0, "{result:#}");
}

#[test]
fn frames_continue_on_another_path_when_theirs_is_cut() {
    let (object, code) = measured(&["paths", "--cuts", "2", "--rate", "500"]);
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        has(result, &["switched_ms", "far_switched_ms", "outage_ms", "sent", "lost", "duplicates"]);
        assert_eq!((result["lost"].as_u64(), result["duplicates"].as_u64()), (Some(0), Some(0)));
        assert_eq!(result["balanced"], true);
        // The last packet went up to an interval before the cut, and two more are missed.
        assert!(result["switched_ms"].as_f64().unwrap() > 150.0, "{result:#}");
        assert!(result["outage_ms"].as_f64().unwrap() > 100.0, "{result:#}");
    }
}

#[test]
fn a_controller_has_every_agent_execute_what_is_declared() {
    let (object, code) = measured(&["control", "--hosts", "30", "--rounds", "3"]);
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    let phases: Vec<_> = results.iter().map(|it| it["phase"].as_str().unwrap()).collect();
    let all = [
        "declare",
        "compute",
        "cold",
        "restart",
        "add",
        "delete",
        "move",
        "member",
        "group",
        "reconnect",
    ];
    assert_eq!(phases, all);
    for result in results {
        has(result, &["seconds", "cpu_s", "rss_bytes", "tuples", "flows", "wakes", "pings_wrong"]);
        assert_eq!(result["pings_wrong"], 0, "{result:#}");
        let (phase, asked) = (result["phase"].as_str().unwrap(), result["pings"].as_u64().unwrap());
        assert_eq!(asked > 0, !["declare", "compute"].contains(&phase), "{result:#}");
        // Each of 630 ports is some rows, once they are computed.
        let rows = result["flows"].as_u64().unwrap();
        assert!(phase == "declare" || rows > 3 * 630, "{result:#}");
    }
    let wakes = |phase: &str| {
        let at = phases.iter().position(|it| *it == phase).unwrap();
        results[at]["wakes"].as_f64().unwrap()
    };
    assert!(wakes("move") < 30.0, "only hosts of the switch are woken: {}", wakes("move"));
}

#[test]
fn tunnels_are_compared() {
    // An Ethernet header and the cable's MTU.
    const LONGEST_CUT: f64 = 1654.0;
    let mut tunnels =
        "none,none-two-hosts,geneve,geneve-plain,geneve-integrity,geneve-encrypt,vxlan,nvgre,stt,kernel-vxlan"
            .to_owned();
    if needs::checked(lab::check_wireguard()) {
        tunnels += ",wireguard-vxlan";
    }
    if needs::checked(SwitchKind::Ovs.check()) {
        tunnels += ",ovs-vxlan";
    }
    for (cable, streams) in [("whole", "1"), ("cut", "2")] {
        let size = ["--streams", streams, "--duration", "200ms", "--rounds", "1"];
        let (object, code) =
            measured(&[&["tunnel", "--tunnels", &tunnels, "--cable", cable], &size[..]].concat());
        assert_eq!((code, &object["config"]["cable"]), (Some(0), &cable.into()), "{object:#}");
        let results = object["results"].as_array().unwrap();
        assert_eq!(results.len(), tunnels.split(',').count());
        for result in results {
            assert!(
                result["gbps"].as_f64().unwrap() > 0.0
                    && result["cpu_s_per_gb"].as_f64().unwrap() > 0.0
            );
            let tunnel = result["tunnel"].as_str().unwrap();
            let has_books = !matches!(tunnel, "kernel-vxlan" | "wireguard-vxlan" | "ovs-vxlan");
            assert_eq!(result["balanced"].as_bool(), has_books.then_some(true), "{result:#}");
            if matches!(tunnel, "none" | "geneve" | "geneve-integrity" | "geneve-encrypt") {
                assert_eq!(result["lost"], 0, "{result:#}");
            }
            let has_cable = tunnel != "none";
            // Of these no tunnel lets large packets through.
            let is_cut =
                cable == "cut" || matches!(tunnel, "nvgre" | "wireguard-vxlan" | "ovs-vxlan");
            let bytes = result["bytes_per_packet"].as_f64();
            assert_eq!(
                bytes.map(|bytes| bytes <= LONGEST_CUT),
                has_cable.then_some(is_cut),
                "{result:#}"
            );
        }
    }
}

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

#[test]
fn what_cannot_be_is_a_matter_of_usage() {
    for arguments in [
        &["loss", "--switch", "bridge", "--size", "9000"][..],
        &["pa", "--switch", "bridge", "--baseline", "ovs"],
        &["ramp", "--switch", "bridge,bridge"],
        &["throughput", "--ports", "memory", "--switch", "bridge"],
        &["throughput", "--ports", "vhost-user", "--switch", "bridge"],
        &["throughput", "--ports", "vhost-user", "--switch", "testpmd", "--senders", "2"],
        &["throughput", "--ports", "vhost-user", "--switch", "zovn", "--sizes", "65550"],
        &["throughput", "--ports", "vhost-user", "--switch", "testpmd", "--stalled"],
        &["throughput", "--ports", "container", "--switch", "testpmd"],
        &["throughput", "--slow-receiver", "20"],
        &["throughput", "--stalled"],
        &["throughput", "--flows", "1,2"],
        &["pa", "--switch", "bridge", "--background", "nosuch"],
        &["pa", "--switch", "bridge", "--tcp", "nosuch"],
        &["pa", "--flow-control", "ZZ"],
        &["pa", "--lab", "testbed1", "--flow-control", "LL+retransmit"],
        &["pa", "--lab", "testbed1", "--flow-control", "LL,LL"],
        &["pa", "--lab", "testbed1", "--switch", "zovn"],
        &["pa", "--lab", "testbed1", "--workers", "32"],
        &["ramp", "--switch", "bridge", "--step", "1", "--to", "18446744073709551615"],
        &["loss", "--switch", "brigde"],
        &["tunnel", "--cable", "half"],
        &["isolation", "--adversary", "nothing"],
        &["isolation", "--ports", "vhost-user"],
        &["isolation", "--ports", "vhost-user", "--adversary", "parked"],
        &["isolation", "--ports", "vhost-user", "--adversary", "bytes", "--switch", "bridge"],
        &["isolation", "--adversary", "bytes", "--victim", "nothing"],
        &["isolation", "--adversary", "incast", "--at", "uplink"],
        &["isolation", "--adversary", "bytes", "--switch", "bridge-htb"],
        &["isolation", "--adversary", "churn", "--rate", "2mbit"],
        &["isolation", "--adversary", "bytes", "--tenants", "0"],
        &["isolation", "--adversary", "bytes", "--tb", "10ms"],
        &["isolation", "--promise", "lossles"],
        &["isolation", "--at", "uplink", "--switch", "bridge", "--promise", "lossless"],
        &["bfd", "--sessions", "0"],
        &["bfd", "--sessions", "16385"],
        &["bfd", "--interval", "0s"],
        &["bfd", "--duration", "0s"],
        &["paths", "--cuts", "0"],
        &["paths", "--rate", "0"],
        &["profile", "--sizes", "9000"],
        &["profile", "--rounds", "0"],
        &["profile", "--tunnels", "gre"],
        &["profile", "--switch", "zovn-lossy", "--ways", "link", "--tunnels", "none"],
    ] {
        let output = zovn(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
    }
}

/// A measurement that is ended when the test is.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The labs that the process `pid` has made, by id.
fn labs_of(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/zovn/lab") else { return Vec::new() };
    let id = |entry: fs::DirEntry| {
        let record: Value =
            serde_json::from_slice(&fs::read(entry.path().join("lab.json")).ok()?).ok()?;
        (record["name"] == format!("measure-{pid}"))
            .then(|| entry.file_name().into_string().unwrap())
    };
    entries.flatten().filter_map(id).collect()
}

/// `signals` are sent one right behind the other.
fn an_interrupted_measurement_leaves_nothing(switch: &str, signals: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["measure", "loss", "--switch", switch, "--duration", "60s"]);
    let mut running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let pid = running.0.id();
    let children = || {
        let text =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut programs = children();
    while programs.len() < 3 {
        assert!(running.0.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::yield_now();
        programs = children();
    }
    let [lab] = &labs_of(pid)[..] else { panic!("one lab at a time") };
    let prefix = format!("zovn-{lab}-");
    let namespaces = || {
        let mut names = kernel::netns::Namespace::list().unwrap();
        names.retain(|name| name.starts_with(&prefix));
        names
    };
    assert_eq!(namespaces().len(), 4);
    for signal in signals {
        assert!(Command::new("kill").args([*signal, &pid.to_string()]).status().unwrap().success());
    }
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    assert!(programs.iter().all(|program| !fs::exists(format!("/proc/{program}")).unwrap()));
    assert_eq!(namespaces(), [""; 0]);
    assert!(!fs::exists(format!("/run/zovn/lab/{lab}")).unwrap());
}

#[test]
fn an_interrupted_measurement_of_a_bridge_leaves_nothing() {
    an_interrupted_measurement_leaves_nothing("bridge", &["-INT"]);
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    an_interrupted_measurement_leaves_nothing("bridge", &["-INT", "-INT"]);
}

#[test]
fn a_measurement_of_zovn_whose_terminal_is_gone_leaves_nothing() {
    an_interrupted_measurement_leaves_nothing("zovn", &["-HUP"]);
}

#[test]
fn a_later_signal_does_not_wait() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(["measure", "throughput", "--ports", "memory", "--duration", "60s"]);
    let mut running =
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let stderr = running.0.stderr.take().unwrap();
    std::io::BufReader::new(stderr).read_line(&mut line).unwrap();
    let pid = running.0.id().to_string();
    // The first may be seen before a later one comes: then it ends by itself, which is as good.
    while running.0.try_wait().unwrap().is_none() {
        Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status().unwrap();
    }
    assert_eq!(running.0.wait().unwrap().code(), Some(130), "{line}");
}

#[test]
fn a_ramp_rises_step_by_step() {
    let arguments = [
        "ramp",
        "--switch",
        "bridge",
        "--senders",
        "2",
        "--step",
        "200",
        "--to",
        "500",
        "--duration",
        "500ms",
    ];
    let (object, code) = measured(&arguments);
    let result = &object["results"][0];
    assert_eq!(code, Some(0), "{result:#}");
    has(result, &["switch", "saturation_fps", "saturated", "generator_limited", "balanced"]);
    let steps = result["steps"].as_array().unwrap();
    let targets: Vec<_> = steps.iter().map(|step| step["target_fps"].as_f64().unwrap()).collect();
    assert_eq!(targets, [400.0, 800.0]);
    for step in steps {
        has(
            step,
            &[
                "sent_fps",
                "sender_blocked",
                "rx_fps",
                "rx_gbps",
                "sent",
                "received",
                "lost",
                "loss_ratio",
            ],
        );
        assert!(step["received"].as_u64().unwrap() > 0);
    }
}

#[test]
fn containers_pass_a_stream_and_frames() {
    let arguments = [
        "throughput",
        "--switch",
        "zovn",
        "--sizes",
        "200",
        "--duration",
        "300ms",
        "--rounds",
        "1",
    ];
    let (object, code) = measured(&arguments);
    let results = object["results"].as_array().unwrap();
    assert_eq!(code, Some(0), "{results:#?}");
    let loads: Vec<_> = results.iter().map(|result| result["load"].as_str().unwrap()).collect();
    assert_eq!(loads, ["tcp", "udp"]);
    for result in results {
        assert!(result["gbps"].as_f64().unwrap() > 0.0);
        assert_eq!((&result["lost"], &result["balanced"]), (&0.into(), &true.into()));
    }
}

#[test]
fn ports_in_memory_need_no_choice_of_switch() {
    let arguments =
        ["throughput", "--ports", "memory", "--sizes", "64", "--duration", "20ms", "--rounds", "1"];
    let (object, code) = measured(&arguments);
    assert_eq!(code, Some(0));
    let switches: Vec<_> = object["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["switch"].as_str().unwrap())
        .collect();
    assert_eq!(switches, ["zovn-lossy", "zovn"]);
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
fn a_page_that_cannot_be_written_is_known_before_anything_is_measured() {
    let output = zovn(&[
        "loss",
        "--switch",
        "bridge",
        "--duration",
        "60s",
        "--report",
        "/proc/none/report.html",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cannot write /proc/none/report.html")
    );
}

#[test]
fn a_short_demo_tells_both_chapters() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_zovn")).args(["demo", "--short"]).output().unwrap();
    let (told, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{said}");
    for words in
        ["1. A flood", "2. A question to 4 workers", "TCP as in 2013", "TCP of today", "zovn-lossy"]
    {
        assert!(told.contains(words), "{words} missing in\n{told}");
    }
}

/// Huge pages that the machine keeps, for whomever. One test at a time may count them.
fn huge_pages() -> u64 {
    let size =
        fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap();
    size.trim().parse().unwrap()
}

/// Whoever measures virtual machines needs the same core as the next.
fn machine() -> std::sync::MutexGuard<'static, ()> {
    static MACHINE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    MACHINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The rigs of virtual machines that are up.
fn rigs() -> usize {
    let Ok(entries) = fs::read_dir("/run/zovn/lab") else { return 0 };
    entries.flatten().filter(|entry| entry.path().join("hugepages").exists()).count()
}

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

/// One size, short: what is told of it holds together, whatever else the machine does.
#[test]
fn a_profile_says_what_switches_carry_and_what_bounds_it() {
    let mut switches = "bridge,zovn".to_owned();
    if needs::checked(SwitchKind::Ovs.check()) {
        switches += ",ovs";
    }
    let size = ["--sizes", "512", "--senders", "1", "--duration", "200ms", "--rounds", "1"];
    let (object, code) = measured(
        &[&["profile", "--switch", &switches, "--tunnels", "none,geneve"], &size[..]].concat(),
    );
    assert_eq!((code, &object["experiment"]), (Some(0), &"profile".into()), "{object:#}");
    let results = object["results"].as_array().unwrap();
    // Two ways, zovn with a tunnel as well; of each a size and two kinds of streams, of ovs one.
    let entries = |it: &str| results.iter().filter(|one| one["switch"] == it).count();
    let expected = [6, 9, if switches.ends_with("ovs") { 4 } else { 0 }];
    assert_eq!(["bridge", "zovn", "ovs"].map(entries), expected);
    for one in results {
        has(one, &["way", "tunnel", "load", "offload", "size", "bound_by", "at_least", "busy"]);
        let figure = |name: &str, of: &str| one[name][of].as_f64().unwrap();
        let (fps, gbps) = (figure("fps", "median"), figure("gbps", "median"));
        assert!(fps > 100.0, "{one:#}");
        assert_eq!(figure("fps", "min"), figure("fps", "max"), "one round: {one:#}");
        let size = one["size"].as_f64().unwrap();
        assert!((gbps * 1e9 / 8.0 / fps / size - 1.0).abs() < 0.01, "{one:#}");
        assert_eq!(one["busy"]["switch"].is_null(), one["switch"] == "bridge");
        assert_eq!(one["switch_ns_per_frame"].is_null(), one["switch"] == "bridge");
        assert_eq!(one["at_least"], one["bound_by"] != "switch");
        let is_stream = one["load"] == "stream";
        assert_eq!(one["curve"].as_array().unwrap().len(), if is_stream { 0 } else { 7 });
        // A large segment is several frames of the MTU, and nothing else is larger than one.
        let is_large = size > 1600.0;
        assert_eq!(is_large, one["offload"] == true, "{one:#}");
    }
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

//! Measurements that do not come to their end: refused, interrupted, or with no place to write to.

use std::fs;
use std::io::BufRead;
use std::process::{Command, Stdio};

use super::{Running, labs_called, zovn};

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
        &["profile", "--tunnels", "stt"],
        &["profile", "--far", "3", "--senders", "2"],
        &["profile", "--far", "0"],
        &["profile", "--cores", "100000"],
        &["profile", "--downloads", "1mb"],
        &["profile", "--paper", "--cores", "1"],
        &["profile", "--paper", "--downloads", "0b"],
        &["profile", "--paper", "--switch", "bridge", "--tunnels", "gre"],
        &["profile", "--switch", "zovn-lossy", "--ways", "link", "--tunnels", "none"],
    ] {
        let output = zovn(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
    }
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

/// `signals` are sent one right behind the other.
fn an_interrupted_measurement_leaves_nothing(switch: &str, signals: &[&str]) {
    // Who runs tests by nohup has all that they start ignore that the terminal is gone.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_zovn")]);
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
    let [lab] = &labs_called(&format!("measure-{pid}"))[..] else { panic!("one lab at a time") };
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

//! What is packaged for a controller fits it: the unit that systemd starts it by, and what
//! Prometheus and Grafana ask of its metrics.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// What metrics of a controller begin with.
const PREFIX: &str = "zovn_controller_";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The value of a line `KEY=VALUE`.
fn value<'t>(text: &'t str, key: &str) -> &'t str {
    let of_line = |line: &'t str| line.strip_prefix(key)?.strip_prefix('=');
    text.lines().find_map(of_line).unwrap()
}

#[test]
fn the_controllers_unit_exposes_little() {
    if !needs::program("systemd-analyze", "systemd") {
        return;
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold=15"]);
    let output = analyze.arg(root().join("packaging/zovn-controller.service")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A controller that ends with its guard.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with(PREFIX)).collect()
}

#[test]
fn the_controllers_unit_starts_it_and_its_metrics_are_those_that_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let systemd = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let is_told = |what: &str| {
        let mut buffer = [0; 256];
        let len = systemd.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).lines().any(|line| line == what)
    };
    // As systemd would, but for the folder and the ports.
    let (unit, flags) =
        (text("packaging/zovn-controller.service"), text("examples/controller.env"));
    let start = value(&unit, "ExecStart").strip_prefix("/usr/bin/zovn ").unwrap();
    let start = start.replace("$FLAGS", value(&flags, "FLAGS")).replace(":6642", ":0");
    let data = folder.path().join("data");
    let start = start.replace("/var/lib/zovn/controller", data.to_str().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
    command.args(start.split_whitespace()).args(["--listen", "127.0.0.1:0"]);
    command.args(["--agents", "127.0.0.1:0", "--log-format", "json"]).stderr(Stdio::piped());
    command.env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut controller = Running(command.spawn().unwrap());
    assert!(is_told("READY=1"));

    let mut log = BufReader::new(controller.0.stderr.take().unwrap()).lines();
    let address = log.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["fields"]["metrics"].as_str().map(ToOwned::to_owned)
    });
    let mut stream = TcpStream::connect(address.unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: c\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let samples: Vec<_> = page.lines().filter(|line| line.starts_with(PREFIX)).collect();
    let samples = samples.join("\n");
    let there = metrics(&samples);
    for file in ["packaging/zovn-alerts.yml", "packaging/zovn-dashboard.json"] {
        let text = text(file);
        let asked = metrics(&text);
        assert!(!asked.is_empty() && asked.is_subset(&there), "{file}: {asked:?} of {there:?}");
    }
    let documented = text("docs/controller.md");
    for metric in there {
        let name = metric.strip_prefix(PREFIX).unwrap();
        assert!(documented.contains(&format!("`{name}`")), "docs/controller.md: {name}");
    }

    kill_process(Pid::from_child(&controller.0), Signal::TERM).unwrap();
    assert!(is_told("STOPPING=1"));
    assert!(controller.0.wait().unwrap().success());
}

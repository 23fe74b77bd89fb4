//! `zovn lab ping-matrix` on two hosts: what is right, what a host does wrong, and what is wrong
//! for a while.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use lab::{Home, State};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::until;

const SHOP: &str = include_str!("../../../../examples/shop.yaml");
const LAB: &str = include_str!("../../../../examples/lab/shop.toml");
const CONTROLLED: &str = include_str!("../../../../examples/lab/controlled.toml");
const HOSTS: &str = include_str!("../../../../examples/shop-hosts.yaml");

/// Where the lab's hosts and ports are, for files that one of its agents is told alone.
const PLACES: &str = "
---
- {kind: TransportNode, metadata: {name: host1}, spec: {vteps: [192.168.0.1]}}
- {kind: TransportNode, metadata: {name: host2}, spec: {vteps: [192.168.0.2]}}
- {kind: Binding, metadata: {name: web-1}, spec: {port: shop/web-1, node: host1}}
- {kind: Binding, metadata: {name: web-2}, spec: {port: shop/web-2, node: host2}}
- {kind: Binding, metadata: {name: db-1}, spec: {port: shop/db-1, node: host2}}
";

/// Flags where all is right: an answer that is late is right, too. Rounds in which something is
/// wrong last as long.
const PATIENT: [&str; 2] = ["--wait", "10s"];

/// The example's lab, under a name of its own.
struct Place {
    name: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self::of(LAB, "shop")
    }

    /// A lab of this file, where it is called so.
    fn of(lab: &str, called: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = Self {
            name: format!("pings-{}-{number}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        };
        let named =
            lab.replace(&format!("name = \"{called}\""), &format!("name = \"{}\"", place.name));
        place.file("lab.toml", &named);
        place.file("shop.yaml", SHOP);
        place
    }

    /// The same, up, and told the example's networks.
    fn up() -> Self {
        let place = Self::new();
        let [lab, shop] = ["lab.toml", "shop.yaml"].map(|it| place.path(it));
        said(zovn(&["lab", "up", &lab]));
        said(zovn(&["lab", "declare", &place.name, &shop]));
        place
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Tells one host's agent something else than the others'.
    fn tell(&self, host: &str, text: &str) {
        let file = self.file("told.yaml", &(text.trim_end().to_owned() + PLACES));
        let socket = format!("{}/{host}/agent.sock", self.home());
        said(zovn(&["apply", "-f", &file, "--socket", &socket]));
    }

    /// The exit code, and the report.
    fn matrix(&self, flags: &[&str]) -> (Option<i32>, Value) {
        let shop = self.path("shop.yaml");
        let words = ["lab", "ping-matrix", &self.name, &shop, "--json"];
        reported(zovn(&[&words[..], flags].concat()))
    }

    /// The same while a command runs and after it, if all is right.
    fn matrix_while(&self, command: &str, flags: &[&str]) -> (Option<i32>, Value) {
        self.matrix(&[&["--while", command][..], flags, &PATIENT].concat())
    }

    /// The example's lab with a controller, up, and told the example's networks by it; and a
    /// context for the controller.
    fn controlled() -> Self {
        let place = Self::of(CONTROLLED, "controlled");
        let [lab, shop] = ["lab.toml", "shop.yaml"].map(|it| place.path(it));
        said(zovn(&["lab", "up", &lab]));
        // Whoever declares it by the lab returns when all is executed.
        said(zovn(&["lab", "declare", &place.name, &shop]));
        place.client("context set lab --server http://127.0.0.1:6640");
        place
    }

    /// How a shell runs the program with these words where the controller is.
    fn beside_controller(&self, words: &str) -> String {
        let (config, program) = (self.folder.path().display(), env!("CARGO_BIN_EXE_zovn"));
        let name = &self.name;
        format!(
            "XDG_CONFIG_HOME={config} {program} lab exec {name} controller -- {program} {words}"
        )
    }

    /// What a client beside the controller says.
    fn client(&self, words: &str) -> String {
        said(Command::new("sh").args(["-c", &self.beside_controller(words)]).output().unwrap())
    }

    /// The folder of the lab.
    fn home(&self) -> String {
        format!("/run/zovn/lab/{}", Home::system().find(&self.name).unwrap().id)
    }

    fn is_there(&self) -> bool {
        Home::system().list().unwrap().iter().any(|lab| lab.name() == Some(&self.name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_there() {
            zovn(&["lab", "down", &self.name]);
        }
    }
}

fn zovn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zovn")).args(words).output().unwrap()
}

#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn reported(output: Output) -> (Option<i32>, Value) {
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), report)
}

/// Which answers are wrong, each with its host: `web-1 to db-1 by tcp 5432 at host2: nobody`.
fn wrong(report: &Value) -> Vec<String> {
    let word = |it: &Value| it.as_str().unwrap().trim_start_matches("shop/").to_owned();
    let line = |it: &Value| {
        let [from, to, asks, host] = ["from", "to", "asks", "host"].map(|key| word(&it[key]));
        let seen: Vec<_> = it["seen"].as_array().unwrap().iter().map(word).collect();
        let seen = if seen.is_empty() { "nobody".to_owned() } else { seen.join(" and ") };
        format!("{from} to {to} by {asks} at {host}: {seen}")
    };
    let mut lines: Vec<_> = report["wrong"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_lab_that_is_brought_up_for_it_is_as_intended_and_goes() {
    let place = Place::new();
    let [lab, shop] = ["lab.toml", "shop.yaml"].map(|it| place.path(it));
    let words = ["lab", "ping-matrix", &lab, &shop, "--json"];
    let (code, report) = reported(zovn(&[&words[..], &PATIENT].concat()));
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    assert_eq!(report["services"], serde_json::json!(["echo", "tcp 1", "tcp 5432"]));
    let figures = ["machines", "pairs", "rounds", "packets", "late", "strange", "pings_wrong"];
    let figures = figures.map(|it| report[it].as_u64().unwrap());
    assert_eq!(figures, [3, 6, 1, 18, 0, 0, 0]);
    assert!(!place.is_there());
}

#[test]
fn a_host_that_was_told_something_else_is_named() {
    let place = Place::up();
    assert_eq!(place.matrix(&PATIENT).0, Some(0));
    // The receiver's host refuses what it must let pass, and lets pass what it must refuse.
    place.tell("host2", &SHOP.replace("ports: [5432]", "ports: [1]"));
    let (code, report) = place.matrix(&[]);
    let [lets, refuses] = ["tcp 1 at host2: db-1", "tcp 5432 at host2: nobody"];
    let both = |what| ["web-1", "web-2"].map(|from| format!("{from} to db-1 by {what}"));
    let mut expected = [both(lets), both(refuses)].concat();
    expected.sort();
    assert_eq!((code, wrong(&report)), (Some(1), expected), "{report}");
    // The sender's host refuses it.
    place.tell("host2", SHOP);
    let closed = "subnets: [10.0.1.0/24]\n  defaultAction: {fromPort: drop}";
    place.tell("host1", &SHOP.replace("subnets: [10.0.1.0/24]", closed));
    let (code, report) = place.matrix(&[]);
    let all = ["db-1 by tcp 5432", "web-2 by echo", "web-2 by tcp 1", "web-2 by tcp 5432"];
    let expected: Vec<_> = all.iter().map(|it| format!("web-1 to {it} at host1: nobody")).collect();
    assert_eq!((code, wrong(&report)), (Some(1), expected), "{report}");
    let text = String::from_utf8(
        zovn(&["lab", "ping-matrix", &place.name, &place.path("shop.yaml")]).stdout,
    );
    let text = text.unwrap();
    assert!(text.contains("refused there: policy at LogicalPort/shop/web-1"), "{text}");
    assert!(text.ends_with("4 not as intended\n"), "{text}");
}

#[test]
fn what_is_wrong_for_a_while_is_told_with_its_time() {
    let place = Place::up();
    let program = env!("CARGO_BIN_EXE_zovn");
    let shop = place.path("shop.yaml");
    let new = place.file("new.yaml", &SHOP.replace("ports: [5432]", "ports: [1]"));
    let declare = |file: &str| format!("{program} lab declare {} {file}", place.name);
    // Nobody has declared that it changes: both of what the new one allows and forbids are wrong.
    let change = format!("sleep 0.1; {}; sleep 2; {}", declare(&new), declare(&shop));
    let (code, report) = place.matrix(&["--while", &change]);
    let lines = wrong(&report);
    let both = |what: &str| ["web-1", "web-2"].map(|from| format!("{from} to db-1 by {what}"));
    for line in [both("tcp 1 at host2: db-1"), both("tcp 5432 at host2: nobody")].concat() {
        assert!(lines.contains(&line), "{line}: {report}");
    }
    assert_eq!(code, Some(1));
    let command = &report["command"];
    let time = |of: &Value, what: &str| of[what].as_f64().unwrap();
    for entry in report["wrong"].as_array().unwrap() {
        assert!(time(entry, "first_s") > time(command, "began_s") + 0.1, "{entry}");
        assert!(time(entry, "last_s") < time(command, "settled_s") + 0.1, "{entry} {command}");
    }
    // One that is declared is right at any moment.
    let (code, report) = place.matrix_while(&declare(&new), &["--after", &new]);
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    assert!(report["rounds"].as_u64().unwrap() > 2 && report["command"]["code"] == 0, "{report}");
    // A change that does not come is found.
    let (code, report) = place.matrix(&["--while", "true", "--settle", "300ms"]);
    assert_eq!(code, Some(1));
    assert!(report["command"]["settled_s"].is_null(), "{report}");
}

#[test]
fn agents_of_a_lab_follow_its_controller_which_is_asked_where_it_is() {
    let place = Place::controlled();
    let (code, report) = place.matrix(&PATIENT);
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    assert_eq!(report["packets"], 18, "{report}");

    // A client beside the controller has it as any other controller, and finds the same objects.
    let (shop, hosts) = (place.path("shop.yaml"), place.file("hosts.yaml", HOSTS));
    let same = place.client(&format!("apply -f {shop} {hosts} --json"));
    let same: Value = serde_json::from_str(&same).unwrap();
    let changes: Vec<_> =
        same["objects"].as_array().unwrap().iter().map(|it| &it["change"]).collect();
    assert!(changes.len() == 19 && changes.iter().all(|it| **it == "unchanged"), "{same}");

    // What it changes holds on all hosts; packets see nothing between.
    let new = place.file("new.yaml", &SHOP.replace("ports: [5432]", "ports: [1]"));
    let change = place.beside_controller(&format!("apply -f {new} --wait"));
    let (code, report) = place.matrix_while(&change, &["--after", &new]);
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    assert!(report["command"]["settled_s"].is_number(), "{report}");

    said(zovn(&["lab", "down", &place.name]));
    assert!(!place.is_there());
}

/// A port in the same networks that no machine has, and that rules of the others' are for.
const SPARE: &str = "
- kind: LogicalPort
  metadata: {name: spare, tenant: shop, labels: {app: web}}
  spec: {switch: web, vif: {}, addresses: [10.0.1.9]}
- {kind: Binding, metadata: {name: spare}, spec: {port: shop/spare, node: host1}}
";

#[test]
fn packets_go_as_intended_while_ports_come_move_and_go() {
    let place = Place::controlled();
    let here = place.file("here.yaml", SPARE);
    let there = place.file("there.yaml", &SPARE.replace("node: host1", "node: host2"));
    let steps = [
        &format!("apply -f {here} --wait"),
        &format!("apply -f {there} --wait"),
        "delete object Binding/spare",
        "delete object LogicalPort/shop/spare",
    ];
    let steps = steps.map(|words| place.beside_controller(words));
    let change = format!("set -e; for round in 1 2 3; do {}; done >&2", steps.join("; "));
    let (code, report) = place.matrix_while(&change, &[]);
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    assert_eq!(report["command"]["code"], 0, "{report}");
    assert!(report["rounds"].as_u64().unwrap() > 2, "{report}");
    let left = place.client("get objects logical-ports --tenant shop");
    assert!(!left.contains("spare"), "{left}");
}

#[test]
fn packets_go_as_intended_while_the_controller_is_killed_and_starts_again() {
    let place = Place::controlled();
    let home = place.home();
    let mut processes = fs::read_dir(format!("{home}/processes")).unwrap();
    let number = processes.find_map(|it| {
        it.unwrap().file_name().to_str()?.strip_prefix("controller.").map(ToOwned::to_owned)
    });
    let number = number.unwrap();
    let data = format!("{home}/controller/data");
    let starts = format!("controller --open --agents 192.168.0.3:6641 --data {data}");
    let starts = place.beside_controller(&starts);
    let new = place.file("new.yaml", &SHOP.replace("ports: [5432]", "ports: [1]"));
    let apply = place.beside_controller(&format!("apply -f {new} --wait"));
    // The next has the folder as soon as the first is gone, and answers when it has computed all.
    let change = format!(
        "kill -9 {number}; (until {starts}; do :; done) 2>/dev/null & until {apply}; do :; done >/dev/null 2>&1"
    );
    let (code, report) = place.matrix_while(&change, &["--after", &new]);
    assert_eq!((code, wrong(&report)), (Some(0), Vec::new()), "{report}");
    // What was declared after its end is in force, so agents follow the one that has come.
    assert!(report["command"]["settled_s"].is_number(), "{report}");
}

#[test]
fn ctrl_c_leaves_nothing_and_what_is_wrong_is_told_before() {
    let place = Place::new();
    let [lab, shop] = ["lab.toml", "shop.yaml"].map(|it| place.path(it));
    let mark = place.path("runs");
    let command = format!("touch {mark}; sleep 60");
    let mut child = Command::new(env!("CARGO_BIN_EXE_zovn"))
        .args(["lab", "ping-matrix", &lab, &shop, "--while", &command])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| Path::new(&mark).exists());
    let found = Home::system().find(&place.name).unwrap();
    assert_eq!(found.state, State::InUse);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.is_there());

    let broken = place.file("broken.yaml", "kind: Nothing\n");
    assert_eq!(zovn(&["lab", "ping-matrix", &lab, &broken]).status.code(), Some(2));
    let none = zovn(&["lab", "ping-matrix", "no-such-lab", &shop]);
    assert_eq!(none.status.code(), Some(1));
    let told = String::from_utf8(none.stderr).unwrap();
    assert!(told.contains("no lab is called `no-such-lab`"), "{told}");
}

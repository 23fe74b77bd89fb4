//! The demo.

use std::fs;
use std::io::BufRead;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Running, labs_called};

#[test]
fn a_short_demo_tells_all_chapters() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let demo = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        let output = command.args(["demo", "--short"]).args(flags).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}\n{said}");
        told
    };
    let told = demo(&["--report", page.to_str().unwrap()]);
    for words in [
        "1. A tenant's network",
        "19 objects; both hosts execute them",
        "all as intended",
        "TCP 1 from shop/web-1 to shop/db-1: 0 of ",
        " packets arrive; refused by Policy/shop/db-in/nothing-else (zovn explain port)",
        "to port 5433, while packets go on; both hosts execute it",
        "after that all packets are as it says",
        "2. A flood",
        "3. A question to 4 workers",
        "TCP as in 2013",
        "TCP of today",
        "zovn-lossy",
    ] {
        assert!(told.contains(words), "{words} missing in\n{told}");
    }
    let page = fs::read_to_string(page).unwrap();
    for words in ["A tenant's network, through a controller", "Policy/shop/db-in/nothing-else"] {
        assert!(page.contains(words), "{words} is not on the page");
    }

    let told: Value = serde_json::from_str(&demo(&["--json"])).unwrap();
    let chapters = told["results"].as_array().unwrap();
    let names: Vec<_> = chapters.iter().map(|it| it["experiment"].as_str().unwrap()).collect();
    assert_eq!(names, ["network", "loss", "pa"]);
    let found = &chapters[0]["results"][0];
    let matrix = &found["matrix"];
    let figures = ["machines", "pairs", "pings_wrong", "strange"].map(|it| matrix[it].as_u64());
    assert_eq!(figures, [3, 6, 0, 0].map(Some), "{found}");
    assert_eq!(matrix["services"], serde_json::json!(["echo", "tcp 1", "tcp 5432", "tcp 5433"]));
    // At least once before, during and after the change.
    let [rounds, packets] = ["rounds", "packets"].map(|it| matrix[it].as_u64().unwrap());
    assert!(rounds >= 3 && packets >= rounds * 24, "{found}");
    assert_eq!(found["objects"], 19);
    // One of them in each round, and what became of them is what the controller says.
    let forbidden = &found["forbidden"];
    assert_eq!((&forbidden["tcp"], &forbidden["packets"]), (&1.into(), &rounds.into()), "{found}");
    assert_eq!((&forbidden["arrived"], &forbidden["is_refused"]), (&0.into(), &true.into()));
    assert_eq!(forbidden["by"], "Policy/shop/db-in/nothing-else");
    let change = &found["change"];
    assert!(change["revision"].as_u64() > found["revision"].as_u64(), "{found}");
    assert!(change["settled_ms"].is_number(), "{found}");
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    for step in [
        "a tenant's network, declared at the controller",
        "packets between all machines, while a policy changes",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["demo", "--short"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let pid = running.0.id();
        // Held until the end: it goes on to say what it does.
        let mut said = std::io::BufReader::new(running.0.stderr.take().unwrap()).lines();
        let begun = said.by_ref().any(|line| line.unwrap().contains(step));
        assert!(begun, "it ended before it came to: {step}");
        // Two hosts, three machines, the physical switch and the controller.
        let [lab] = &labs_called(&format!("demo-{pid}"))[..] else { panic!("no lab at: {step}") };
        let prefix = format!("zovn-{lab}-");
        let namespaces = || {
            let mut names = kernel::netns::Namespace::list().unwrap();
            names.retain(|name| name.starts_with(&prefix));
            names
        };
        assert_eq!(namespaces().len(), 7, "{step}");
        assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
        assert_eq!(running.0.wait().unwrap().code(), Some(130), "{step}");
        assert_eq!(namespaces(), [""; 0], "{step}");
        assert!(!fs::exists(format!("/run/zovn/lab/{lab}")).unwrap(), "{step}");
        drop(said);
    }
}

//! Nova's filter and weigher ask.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::desk::{Desk, PLAN, Server};

const HOSTS: &str = "/v1/plan/hosts";

fn asked(uuid: &str, model: &str, hosts: &[&str]) -> Value {
    json!({
        "spec": {
            "instance_uuid": uuid,
            "flavor": {"vcpus": 2, "memory_mb": 4096, "extra_specs": {"zovn:model": model}},
        },
        "hosts": hosts,
        "weights": {"n1": 1.0},
    })
}

#[test]
fn all_hosts_are_judged_at_once() {
    let server = Server::start(PLAN);
    let answer = server.json(HOSTS, &asked("u", "web", &["n1", "n2", "n3", "n4", "n5"]));
    assert_eq!(answer["hosts"], json!(["n2", "n3", "n4"]));
    assert_eq!(answer["reasons"]["n1"], "zovn: P(overflow) 1.17e-3 > 1e-3");
    assert_eq!(answer["reasons"]["n5"], "zovn: the plan has no such host");
    let weight = |host: &str| answer["weights"][host].as_f64().unwrap();
    assert!(weight("n4") > weight("n2") && weight("n2") > weight("n3"), "{answer}");
    assert_eq!((weight("n3"), answer["weights"].as_object().unwrap().len()), (0.0, 3));
    // A flavor need not say anything of the network.
    let mut plain = asked("u", "", &["n1", "n4"]);
    plain["spec"]["flavor"]["extra_specs"] = Value::Null;
    assert_eq!(server.json(HOSTS, &plain)["hosts"], json!(["n4"]));
    assert!(server.metrics().contains("zovn_plan_unlisted_models_total 0\n"));
    server.json(HOSTS, &asked("u", "wbe", &["n4"]));
    assert!(server.metrics().contains("zovn_plan_unlisted_models_total 1\n"));
}

#[test]
fn a_server_is_assumed_if_that_is_said_or_one_host_is_left() {
    let server = Server::start(&PLAN.replace("default: web", "default: web, prefer: pack"));
    let both = ["n2", "n4"];
    assert_eq!(server.json(HOSTS, &asked("u", "loud", &["n4"]))["hosts"], json!(["n4"]));
    assert!(server.metrics().contains("zovn_plan_assumed_machines 1"));
    let mut first = asked("u", "web", &both);
    first["assume"] = true.into();
    // Packed: the one that has less left is preferred.
    let weights = &server.json(HOSTS, &first)["weights"];
    assert!(weights["n2"].as_f64() > weights["n4"].as_f64(), "{weights}");
    assert!(server.metrics().contains("zovn_plan_assumed_machines 1"));
    // Of hosts that are alike, the one that is assumed alone weighs most.
    let alike = Server::start(&PLAN.replace("  n2: {web: 20}\n", ""));
    let mut equal = asked("u", "web", &both);
    let weights = &alike.json(HOSTS, &equal)["weights"];
    assert_eq!(weights["n2"], weights["n4"]);
    equal["assume"] = true.into();
    let weights = &alike.json(HOSTS, &equal)["weights"];
    assert!(weights["n2"].as_f64() > weights["n4"].as_f64(), "{weights}");
    let (status, detail) = server.refused(HOSTS, r#"{"spec": {}, "hosts": []}"#);
    assert!(status == 400 && detail.contains("missing field `flavor`"), "{detail}");
}

#[test]
fn novas_own_classes_filter_and_weigh_by_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nova");
    // Debian's package, if somebody has installed it: it brings 200 others.
    let debian = Path::new("/usr/lib/python3/dist-packages/nova/scheduler/filters");
    let python = if debian.is_dir() {
        "/usr/bin/python3".into()
    } else {
        let python = place.join("environment/bin/python");
        if !needs::program("python3", "python3-venv") || !needs::fetched(python.exists(), "Nova") {
            return;
        }
        let mut venv = Command::new(source.join("../../tools/venv"));
        venv.arg(place.join("environment")).arg(source.join("tests/it/nova.txt"));
        let made = venv.output().unwrap();
        let why = String::from_utf8_lossy(&made.stdout);
        let why = format!("Nova cannot be installed: {}", why.trim());
        if !needs::optional(made.status.success(), why) {
            return;
        }
        python
    };
    let desk = Desk::open();
    let mut command = Command::new(python);
    // What Python compiles is not left beside the sources.
    command.arg("-X").arg(format!("pycache_prefix={}", place.join("compiled").display()));
    command.args(["-W", "ignore", "test_zovn_nova.py"]).args(desk.arguments());
    let output = command.current_dir(source.join("../../packaging/nova")).output().unwrap();
    let [out, error] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success() && out.contains("zovn_nova: passed"), "{out}\n{error}");
}

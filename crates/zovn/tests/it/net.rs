//! `zovn net`: what it tells of files, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

fn net(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let zovn = env!("CARGO_BIN_EXE_zovn");
    Command::new(zovn).arg("net").args(words).current_dir(root).output().unwrap()
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_network_is_checked_whole() {
    let (code, out, _) = told(&net(&["check", "examples/shop.yaml"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("2 switches, 5 ports, 1 router, 1 policy"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.yaml");
    let text = "kind: LogicalSwich\n---\nkind: Tenant\nmetadata: {name: a}\nspec: {quota: 7}\n";
    std::fs::write(&broken, text).unwrap();
    let name = broken.to_str().unwrap();
    // Lines are those of each file, also behind another.
    let (code, _, error) = told(&net(&["check", "examples/shop.yaml", name]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(&format!("{name}:1:7: ")), "{error}");
    assert!(error.contains(&format!("{name}:5:15: ")), "{error}");
    let (code, out, _) = told(&net(&["check", "--json", name]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, out["faults"].as_array().unwrap().len()), (Some(2), 2));
    let (code, _, error) = told(&net(&["check", "/nowhere.yaml"]));
    assert_eq!(code, Some(1));
    assert!(error.starts_with("zovn: cannot read /nowhere.yaml"), "{error}");
}

#[test]
fn a_trace_names_the_rule_that_decided() {
    let trace = |to: &str, port: &str| {
        let words = ["trace", "examples/shop.yaml", "--from", "web-1", "--to", to, "--tcp", port];
        told(&net(&words))
    };
    let (code, out, _) = trace("10.0.2.1", "5432");
    assert_eq!(code, Some(0));
    assert!(out.contains("Policy/shop/db-in/from-web"), "{out}");
    assert!(out.ends_with("delivered to LogicalPort/shop/db-1\n"), "{out}");
    let (code, out, _) = trace("db-1", "80");
    assert_eq!(code, Some(3));
    assert!(out.contains("by Policy/shop/db-in/nothing-else; its sender is told"), "{out}");
    let (code, _, error) = trace("nobody", "80");
    assert_eq!(code, Some(1));
    assert!(error.contains("no port is called `nobody`: there are db-1"), "{error}");
}

#[test]
fn cases_fail_by_the_step_that_is_not_as_expected() {
    let (code, out, _) = told(&net(&["test", "cases/acl-stateful.yaml", "--json"]));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0));
    assert!(out.as_array().unwrap().iter().all(|it| it["outcome"] == "passed"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/acl-stateful.yaml"),
    );
    std::fs::write(&file, text.unwrap().replacen("result: silent", "result: open", 1)).unwrap();
    let (code, _, error) = told(&net(&["test", file.to_str().unwrap()]));
    assert_eq!(code, Some(1));
    assert!(error.contains("expected: result open"), "{error}");
    assert!(error.contains("seen: result silent"), "{error}");
    assert!(error.contains("failed on the interpreter step 2"), "{error}");
}

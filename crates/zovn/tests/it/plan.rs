//! `zovn plan` as a user meets it: every command, on the example.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PLAN: &str = "examples/plan/plan.yaml";
const TODAY: [&str; 2] = ["--with", "examples/plan/today.yaml"];

/// The exit code, stdout and stderr.
fn plan(words: &[&str]) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let zovn = env!("CARGO_BIN_EXE_zovn");
    let output = Command::new(zovn).arg("plan").args(words).current_dir(root).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The exit code, and what is told as JSON.
fn json(words: &[&str]) -> (Option<i32>, Value) {
    let (code, out, error) = plan(&[words, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{words:?}: {out}{error}")))
}

#[test]
fn a_plan_is_checked_whole() {
    let (code, out, _) = plan(&["check", PLAN]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("74 machines, 16 hosts, "), "{out}");
    // A model that is fitted comes with the reasons not to trust it.
    assert!(out.contains("\ndb: 1 gaps, 130 s in all, are left out"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.yaml");
    std::fs::write(&broken, "goal: {epsilon: 3}\nvms:\n  web: {modle: web}\n").unwrap();
    let name = broken.to_str().unwrap();
    let (code, _, error) = plan(&["check", name]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(&format!("{name}:1:17: /goal/epsilon: ")), "{error}");
    assert!(error.contains(&format!("{name}:3:9: /vms/web/modle: ")), "{error}");
    assert_eq!(plan(&["risk", name]).0, Some(2));
    let (code, out) = json(&["check", name]);
    assert_eq!((code, out["plan"].is_null()), (Some(2), true));
    assert_eq!(out["faults"][0]["line"].as_u64(), Some(1));
    let (code, _, error) = plan(&["check", "/nowhere.yaml"]);
    assert_eq!(code, Some(1));
    assert!(error.starts_with("zovn: cannot read /nowhere.yaml: "), "{error}");
}

#[test]
fn a_trace_is_fitted_and_a_plan_uses_the_fit() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models.yaml");
    let models = models.to_str().unwrap();
    let (code, out, error) = plan(&["fit", "examples/plan/db.csv", "--out", models]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("independent samples, and a goal this strict needs 3000"), "{out}");
    let (_, told) = json(&["fit", "examples/plan/db.csv"]);
    let shares = told[0]["states"].as_array().unwrap().iter().map(|it| it["share"].as_f64());
    assert!((shares.map(Option::unwrap).sum::<f64>() - 1.0).abs() < 1e-9, "{told}");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(PLAN)).unwrap();
    // The same plan, which leaves the model `db` to another file.
    let without = text.replacen("  db:  ", "  other:  ", 1).replace("trace: db.csv", "rate: 1mbit");
    let own = folder.path().join("plan.yaml");
    let own = own.to_str().unwrap();
    std::fs::write(own, without).unwrap();
    let told = plan(&["check", own]);
    assert_eq!(told.0, Some(2), "{told:?}");
    let told = plan(&["check", own, "--with", models]);
    assert_eq!(told.0, Some(0), "{told:?}");
    assert_eq!(plan(&["fit", "/nowhere.csv"]).0, Some(1));
}

#[test]
fn machines_are_placed_within_the_goal_and_another_way_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let placement = folder.path().join("placement.yaml");
    let placement = placement.to_str().unwrap();
    let (code, out, error) = plan(&["place", PLAN, "--out", placement]);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.contains(" of 16 hosts"), "{out}");
    let with = ["--with", placement];
    let (code, out, _) = plan(&[&["risk", PLAN], &with[..]].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("hosts in use are within the goal, 0.1 % of the time"), "{out}");
    let (code, out) =
        json(&[&["prove", PLAN, "--by", "monte-carlo", "--draws", "20000"], &with[..]].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.as_array().unwrap().iter().all(|it| it["agrees"] == true), "{out}");
    let (code, out, _) = plan(&[&["move", PLAN], &with[..]].concat());
    assert_eq!((code, out.as_str()), (Some(0), "no host is above the goal\n"));

    // The same seed places the same.
    let [one, other] = [json(&["place", PLAN]), json(&["place", PLAN])];
    assert_eq!(one, other);
    assert!(one.1["least_cost"].as_u64() <= one.1["cost"].as_u64(), "{}", one.1);
}

#[test]
fn a_host_that_is_asked_for_too_much_is_told_explained_and_relieved() {
    let (code, out, _) = plan(&[&["risk", PLAN], &TODAY[..]].concat());
    assert_eq!(code, Some(1));
    assert!(out.contains("2 of 15 hosts in use are above the goal") && out.contains("\nb-1: "));
    let (code, out, _) = plan(&[&["why", PLAN, "backup", "b-1"], &TODAY[..]].concat());
    assert_eq!(code, Some(1));
    assert!(out.starts_with("b-1 does not take one more backup beside 5 backup, 3 web\n"), "{out}");
    assert!(out.contains("switch: asked for more than 1.6 Gbit/s"), "{out}");
    let (code, out) = json(&[&["why", PLAN, "backup"], &TODAY[..]].concat());
    assert_eq!((code, out["overload"].as_u64()), (Some(0), Some(2)), "{out}");
    let (code, out) = json(&[&["move", PLAN], &TODAY[..]].concat());
    assert_eq!((code, out["pays"].as_bool()), (Some(1), Some(true)), "{out}");
    let steps = out["steps"].as_array().unwrap();
    assert!(steps.iter().any(|it| it["from"] == "b-1" && it["vm"] == "backup"), "{out}");
    let secs = |key: &str| out[key].as_f64().unwrap();
    assert!(secs("go_secs") < secs("stay_secs") / 100.0, "{out}");

    let (code, _, error) = plan(&["why", PLAN, "bakcup", "b-1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("did you mean `backup`?"), "{error}");
}

#[test]
fn what_to_buy_has_every_type_and_what_it_runs_out_of() {
    let (code, out) = json(&["buy", PLAN]);
    let offers = out.as_array().unwrap();
    assert_eq!((code, offers.len()), (Some(0), 4), "{out}");
    let price = |it: &Value| it["price"].as_u64().unwrap();
    assert!(offers.windows(2).all(|pair| price(&pair[0]) <= price(&pair[1])), "{out}");
    let (_, out, _) = plan(&["buy", PLAN]);
    assert!(out.contains("large with 4 switch cores"), "{out}");
}

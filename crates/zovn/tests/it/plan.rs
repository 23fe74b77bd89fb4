//! `zovn plan` as a user meets it: every command, on the example.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

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
    assert!(out.contains("\ndb: 1 gap of 130 s is left out"), "{out}");
    // Nothing is taken for what nobody says.
    assert!(!out.contains(" taken to "), "{out}");
    let (code, out, _) = plan(&["check", "examples/plan/bursts.yaml"]);
    assert_eq!(code, Some(0));
    for taken in ["frames are taken to have 1500 bytes", "half of the traffic is taken to be sent"]
    {
        assert!(out.contains(&format!("\nstore: {taken}")), "{out}");
    }

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
    let row = out.lines().find(|it| it.starts_with("db ")).unwrap();
    assert!(row.contains(" 10 s ") && row.contains(" 1500 B "), "{out}");
    let (_, told) = json(&["fit", "examples/plan/db.csv"]);
    assert!(told["periods"] == serde_json::json!([]) && told["together"].is_null(), "{told}");
    assert_eq!(told["traces"][0]["frame"], 1500);
    let shares =
        told["traces"][0]["states"].as_array().unwrap().iter().map(|it| it["share"].as_f64());
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

    // Of a rate alone neither is known. Counters of another name are found by their flags.
    let [rate, counters] = [
        &["--rate", "sent_bytes", "--unit", "b"][..],
        &["--received", "sent_bytes", "--received-packets", "sent_packets"],
    ]
    .map(|flags| json(&[&["fit", "examples/plan/db.csv"], flags].concat()).1["traces"][0].clone());
    assert!(rate["frame"].is_null() && rate["sends"].is_null(), "{rate}");
    assert_eq!(counters["frame"], 1500, "{counters}");
    let doubts = rate["doubts"].to_string();
    assert!(doubts.contains("frames are taken to have 1500 bytes"), "{doubts}");
    assert!(doubts.contains("half of the traffic is taken to be sent"), "{doubts}");
    let mean_high = |confidence| {
        let words = ["fit", "examples/plan/db.csv", "--confidence", confidence];
        json(&words).1["traces"][0]["mean_high"].as_f64().unwrap()
    };
    assert_eq!(
        mean_high("0.95"),
        json(&["fit", "examples/plan/db.csv"]).1["traces"][0]["mean_high"]
    );
    assert!(mean_high("0.6") < mean_high("0.95") && mean_high("0.95") < mean_high("0.99"));
    for wrong in ["0.4", "1", "95 %"] {
        let words = ["fit", "examples/plan/db.csv", "--confidence", wrong];
        assert_eq!(plan(&words).0, Some(2), "{wrong}");
    }
    let both = ["fit", "examples/plan/db.csv", "--rate", "sent_bytes", "--sent-packets", "time"];
    assert_eq!(plan(&both).0, Some(2));
}

/// A Monday's midnight, by UTC: the fifth of January 2026.
const MONDAY: u64 = 1_767_571_200;

/// Writes a trace of two weeks, a row each ten minutes: 1 Mbit/s, but on weekdays from 9 to 17 h,
/// UTC, now 60 Mbit/s and now 100. The columns are a time in such ticks, and kbit a second.
fn office(path: &Path, seed: u64, ticks_a_second: u64) -> String {
    let (mut text, mut state) = ("time,kbit\n".to_owned(), seed);
    for row in 0..2016 {
        let hour = row / 6;
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let is_office = hour % 168 < 120 && (9..17).contains(&(hour % 24));
        let rate = match (is_office, state >> 63) {
            (false, _) => 1_000,
            (true, 0) => 60_000,
            (true, _) => 100_000,
        };
        text += &format!("{},{rate}\n", (MONDAY + 600 * row) * ticks_a_second);
    }
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn classes_of_hours_are_fitted_each_and_machines_together_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a", 1), ("b", 2)]
        .map(|(name, seed)| office(&folder.path().join(format!("{name}.csv")), seed, 1));
    let whole = ["fit", &a, &b, "--rate", "kbit", "--unit", "kbit"];
    let (code, told) = json(&whole);
    assert_eq!(code, Some(0), "{told}");
    // Both are busy at the same hours.
    assert_eq!(told["together"]["is_dependent"], true, "{told}");
    let mean = |told: &Value| told["traces"][0]["mean"].as_f64().unwrap();
    assert!((mean(&told) / 20e6 - 1.0).abs() < 0.05, "{told}");
    let (_, out, _) = plan(&whole);
    assert!(out.contains(" times as much as theirs: divide hours (`--busy`), "), "{out}");

    let models = folder.path().join("models.yaml");
    let models = models.to_str().unwrap();
    let busy = [&whole[..], &["--busy", "--out", models]].concat();
    let (code, told) = json(&busy);
    let periods = &told["periods"];
    assert_eq!(
        (code, &periods[0]["together"]["is_dependent"]),
        (Some(0), &Value::Bool(false)),
        "{told}"
    );
    assert_eq!(periods[0]["weekdays"], serde_json::json!([[9, 17]]));
    let names = [&periods[0]["name"], &periods[1]["name"], &told["traces"][1]["period"]];
    assert_eq!(names, ["busy", "rest", "rest"]);
    let hours = [&periods[0]["hours_a_week"], &periods[1]["hours_a_week"]];
    assert_eq!(hours, [40, 128]);
    let samples = [&told["traces"][0]["samples"], &told["traces"][1]["samples"]];
    // The last row has no next one.
    assert_eq!(samples, [480, 1535]);
    assert!((mean(&told) / 80e6 - 1.0).abs() < 0.05, "{told}");
    let sentence = "busy: weekdays 09:00 to 17:00 (UTC), 40 of 168 hours, when";
    let written = std::fs::read_to_string(models).unwrap();
    assert!(written.starts_with(&format!("# {sentence}")), "{written}");
    // A plan has them as they were written.
    let own = folder.path().join("plan.yaml");
    let own = own.to_str().unwrap();
    let text = "\
goal: {epsilon: 0.01}
types: {r: {cores: 8, memory: 8gib, switch: [{carries: 150mbit}]}}
hosts: {h: {type: r, count: 2}}
vms: {a: {model: a, cores: 1, memory: 1gib}, b: {model: b, cores: 1, memory: 1gib}}
placement: {h-1: {a: 1, b: 1}}
";
    std::fs::write(own, text).unwrap();
    let (code, out, error) = plan(&["risk", own, "--with", models]);
    assert_eq!(code, Some(1), "{error}");
    assert!(out.contains("switch, busy") && out.contains("switch, rest"), "{out}");
    let prove = ["prove", own, "--with", models, "--by", "monte-carlo"];
    let (code, _, error) = plan(&prove);
    assert!(code == Some(2) && error.contains("say one of busy, rest by --period"), "{error}");
    let (code, _, error) = plan(&[&prove[..], &["--period", "night"]].concat());
    assert!(code == Some(2) && error.contains("no class of hours has this name"), "{error}");
    let (code, out, _) = plan(&[&prove[..], &["--period", "busy", "--json"]].concat());
    let proven: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &proven["config"]["period"]), (Some(0), &serde_json::json!("busy")));
    let (_, out, _) = plan(&["check", own, "--with", models]);
    assert!(out.contains("a, busy") && out.contains("b, rest"), "{out}");
    let (_, out, _) = plan(&[&busy[..], &["--utc-offset", "-08:00"]].concat());
    let west = sentence.replace("09:00 to 17:00 (UTC)", "01:00 to 09:00 (UTC-08:00)");
    assert!(out.contains(&west), "{out}");
    assert_eq!(plan(&[&whole[..], &["--utc-offset", "+01:00"]].concat()).0, Some(2));
    assert_eq!(plan(&[&whole[..], &["--busy=1"]].concat()).0, Some(2));
}

#[test]
fn a_trace_in_milliseconds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = office(&folder.path().join("t.csv"), 1, 1000);
    let (code, _, error) = plan(&["fit", &trace, "--rate", "kbit"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("row 1: `time` is beyond the year 2200, and looks like milliseconds"),
        "{error}"
    );
    let file = folder.path().join("p.yaml");
    let text = "goal: {epsilon: 0.001}\nmodels:\n  web: {trace: t.csv, columns: {rate: kbit, unit: kbit}}\n";
    std::fs::write(&file, text).unwrap();
    let (code, _, error) = plan(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("/models/web/trace: ") && error.contains("milliseconds"), "{error}");
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
    assert_eq!((code, &out["experiment"]), (Some(0), &"plan-prove".into()), "{out}");
    let config = serde_json::json!({
        "period": null, "by": "monte-carlo", "draws": 20_000, "seed": 1
    });
    assert_eq!(out["config"], config);
    assert!(out["results"].as_array().unwrap().iter().all(|it| it["agrees"] == true), "{out}");
    let (code, out, _) = plan(&[&["move", PLAN], &with[..]].concat());
    assert_eq!((code, out.as_str()), (Some(0), "no host is above the goal\n"));

    // The same seed places the same.
    let [one, other] = [json(&["place", PLAN]), json(&["place", PLAN])];
    assert_eq!(one, other);
    assert!(one.1["least_cost"].as_u64() <= one.1["cost"].as_u64(), "{}", one.1);
}

#[test]
fn pages_have_charts_of_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let draws = ["--by", "monte-carlo", "--draws", "1000"];
    for (words, charts) in [
        ([&["risk", PLAN], &TODAY[..]].concat(), &["Overload of hosts", "the goal"][..]),
        (
            vec!["fit", "examples/plan/db.csv"],
            &["Time in which db asks", ">trace<", "1 gap of 130 s is left out"],
        ),
        (vec!["place", PLAN], &["What it costs: hosts", "at least", "Overload of hosts"]),
        (
            vec!["buy", PLAN],
            &[
                "Price against watts",
                "Price against free cores",
                "price a machine",
                "small with 2 switch cores",
                "network ignored",
            ],
        ),
        ([&["prove", PLAN], &TODAY[..], &draws[..]].concat(), &["Overload of hosts", "drawn"]),
    ] {
        let (code, out, error) = plan(&[&words[..], &["--html", page]].concat());
        assert!(code.is_some_and(|it| it < 2) && error.is_empty(), "{words:?}: {out}{error}");
        let html = std::fs::read_to_string(page).unwrap();
        assert!(html.starts_with("<!DOCTYPE html>"), "{words:?}");
        let missing: Vec<_> = charts.iter().filter(|it| !html.contains(**it)).collect();
        assert!(missing.is_empty(), "{words:?}: {missing:?}");
        assert!(html.contains(&format!("zovn plan {}", words[0])), "{words:?}");
        std::fs::remove_file(page).unwrap();
    }
    let nowhere = folder.path().join("none/page.html");
    let (code, out, error) = plan(&["buy", PLAN, "--html", nowhere.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("cannot write "), "{error}");
}

/// The example for this machine, in a folder.
fn here(folder: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = folder.join("here.yaml");
    std::fs::copy(root.join("examples/plan/here.yaml"), &file).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A profile for it, as `zovn measure profile` writes it.
fn profile_here(folder: &Path) {
    let entry = |way: &str, tunnel: &str, size: u32, fps: f64| {
        serde_json::json!({
            "switch": "zovn", "way": way, "tunnel": tunnel, "load": "frames", "offload": false,
            "size": size, "fps": {"q1": fps, "median": fps}, "bound_by": "switch",
            "at_least": false,
        })
    };
    let results = [
        entry("host", "none", 64, 200e3),
        entry("host", "none", 1514, 100e3),
        entry("link", "geneve", 64, 80e3),
        entry("link", "geneve", 1514, 50e3),
    ];
    let profile = serde_json::json!({"experiment": "profile", "results": results});
    std::fs::write(folder.join("here.json"), profile.to_string()).unwrap();
}

#[test]
fn a_plan_of_profiled_hosts_is_placed_by_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = here(folder.path());
    // Without the profile it says which one is missing.
    let (code, _, error) = plan(&["check", &file]);
    assert_eq!((code, error.contains("here.json")), (Some(2), true), "{error}");
    profile_here(folder.path());
    let placed = |algorithm| json(&["place", &file, "--algorithm", algorithm]);
    let (code, by_risk) = placed("risk");
    assert_eq!((code, &by_risk["above_goal"]), (Some(0), &0.into()), "{by_risk}");
    let (code, by_averages) = placed("network-aware");
    assert_eq!(code, Some(1), "{by_averages}");
    let used = |it: &Value| it["hosts_used"].as_u64().unwrap();
    assert!(used(&by_averages) < used(&by_risk), "{by_averages} {by_risk}");
}

#[test]
fn a_profiled_host_is_simulated_if_its_machines_cost_its_switch_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = here(folder.path());
    profile_here(folder.path());
    let with = folder.path().join("placement.yaml");
    let prove = |placement: &str| {
        std::fs::write(&with, format!("placement: {{a-1: {placement}}}\n")).unwrap();
        let few = ["--frames", "1000000", "--runs", "8", "--json"];
        let words = ["prove", &file, "--by", "sim", "--with", with.to_str().unwrap()];
        plan(&[&words[..], &few].concat())
    };
    // They are asked for more than the profile's 94,700 frames of 900 bytes in some of the time.
    let (code, out, error) = prove("{web: 16}");
    assert_eq!(code, Some(0), "{out}{error}");
    let out: Value = serde_json::from_str(&out).unwrap();
    let seen = out["results"][0]["seen"]["mean"].as_f64().unwrap();
    let computed = out["results"][0]["computed"]["high"].as_f64().unwrap();
    assert!(seen > 0.2 * computed && computed > 0.01, "{out}");
    // Those of a backup are longer, and more of them leave the host.
    let (code, out, error) = prove("{web: 4, backup: 1}");
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    let why = "frames of the machines of a-1 take its switch different times by its profile";
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_lab_wants_a_switch_that_was_measured_here() {
    let lab = [&["prove", PLAN, "--by", "lab"], &TODAY[..]].concat();
    for words in [lab.clone(), [&lab[..], &["--mixes", "2"]].concat()] {
        let (code, out, error) = plan(&words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains("its switch carries was not measured here"), "{error}");
    }
    let (code, _, error) = plan(&[&lab[..], &["--host", "b-9"]].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("no host has this name: "), "{error}");
    let (code, _, error) = plan(&["prove", PLAN, "--by", "lab"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no host has machines"), "{error}");
}

#[test]
fn flags_of_another_way_to_prove_are_refused() {
    for (way, words, why) in [
        ("sim", &["--mixes", "2"][..], "--mixes is of `--by lab`"),
        ("monte-carlo", &["--burst", "2000"], "--burst is of `--by sim` and `--by lab`"),
        ("lab", &["--draws", "2000"], "--draws is of `--by monte-carlo`"),
        ("lab", &["--frames", "20000"], "--frames is of `--by sim`"),
        ("lab", &["--runs", "2"], "--runs is of `--by sim`"),
        ("lab", &["--most", "2"], "--most is of `--by sim`"),
        ("lab", &["--scenarios", "here"], "--scenarios is of `--by sim`"),
        ("lab", &["--mixes", "2", "--burst", "2000"], "--mixes are constant"),
        ("lab", &["--burst", "999"], "raise --burst to 1000"),
    ] {
        let (code, out, error) = plan(&[&["prove", PLAN, "--by", way], words].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_simulated_host_sees_the_overload_that_was_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let scenarios = folder.path().to_str().unwrap();
    let few = ["--frames", "400000", "--burst", "100", "--runs", "8", "--most", "1"];
    let words = [&["prove", PLAN, "--by", "sim", "--scenarios", scenarios], &few[..], &TODAY[..]];
    let (code, out) = json(&words.concat());
    assert_eq!(code, Some(0), "{out}");
    let config = serde_json::json!({
        "period": null, "by": "sim", "frames": 400_000, "burst": 100, "runs": 8, "seed": 1, "most": 1
    });
    assert_eq!(out["config"], config);
    let host = &out["results"][0];
    assert_eq!((&host["hosts"][0], &host["agrees"]), (&"b-1".into(), &true.into()), "{out}");
    // Five backups start at once, 4.76 % of the time: some runs have seen that.
    let seen = host["seen"]["mean"].as_f64().unwrap();
    assert!((0.005..0.2).contains(&seen), "{out}");
    // The scenario is one that the simulator reads.
    let file = folder.path().join("b-1.toml");
    let checked =
        Command::new(env!("CARGO_BIN_EXE_zovn")).args(["sim", "check"]).arg(file).output();
    assert_eq!(checked.unwrap().status.code(), Some(0));
}

#[test]
fn averages_fail_on_simulated_hosts_and_risk_holds_on_fewer_than_peaks_need() {
    let bursts = "examples/plan/bursts.yaml";
    let folder = tempfile::tempdir().unwrap();
    let proven = |algorithm: &str| {
        let file = folder.path().join(algorithm);
        let file = file.to_str().unwrap();
        let (_, placed) = json(&["place", bursts, "--algorithm", algorithm, "--out", file]);
        let few = ["--frames", "2000000", "--runs", "8", "--most", "1"];
        let words = ["prove", bursts, "--by", "sim", "--with", file];
        let (code, out) = json(&[&words[..], &few].concat());
        assert_eq!(code, Some(0), "{algorithm}: {out}");
        (placed["hosts_used"].as_u64().unwrap(), out["results"][0].clone())
    };
    let [averages, risk, peaks] = ["network-aware", "risk", "peaks"].map(proven);
    assert!(averages.0 < risk.0 && risk.0 <= 8, "{} {}", averages.0, risk.0);
    assert!(2 * risk.0 < peaks.0, "{} {}", risk.0, peaks.0);
    let seen =
        |it: &Value, what: &str| ["mean", "error"].map(|figure| it[what][figure].as_f64().unwrap());
    // Figure 9 fills hosts to their mean, so they lose what is computed.
    let computed = averages.1["computed_traffic"].as_f64().unwrap();
    let [mean, error] = seen(&averages.1, "seen_traffic");
    assert!(computed > 0.05 && error < 0.1 * computed, "{}", averages.1);
    assert!((mean - computed).abs() < 0.1 * computed + 3.0 * error, "{}", averages.1);
    let [mean, error] = seen(&risk.1, "seen");
    assert!(mean <= 0.001 + 3.0 * error, "{}", risk.1);
    assert_eq!(seen(&peaks.1, "seen_traffic")[0], 0.0, "{}", peaks.1);
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
    assert!(out.contains("\nswitch: one backup costs ") && out.contains(" of 1.6 Gbit/s"), "{out}");
    let (code, out) = json(&[&["why", PLAN, "backup"], &TODAY[..]].concat());
    assert_eq!((code, out["overload"].as_u64()), (Some(0), Some(2)), "{out}");
    let (code, out) = json(&[&["move", PLAN], &TODAY[..]].concat());
    assert_eq!((code, out["pays"].as_bool()), (Some(1), Some(true)), "{out}");
    let steps = out["steps"].as_array().unwrap();
    assert!(steps.iter().any(|it| it["from"] == "b-1" && it["vm"] == "backup"), "{out}");
    let secs = |key: &str| out[key].as_f64().unwrap();
    assert!(secs("go_secs") < secs("stay_secs") / 100.0, "{out}");
    // An hour in which all five backups are on for 30 s of 630 s; `b-2` is above by a margin alone.
    assert!((secs("stay_secs") - 3600.0 * 30.0 / 630.0).abs() < 1.0, "{out}");
    assert_eq!(out["unsure"], serde_json::json!(["b-2"]));

    let (code, _, error) = plan(&["why", PLAN, "bakcup", "b-1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("did you mean `backup`?"), "{error}");
}

#[test]
fn moves_are_advised_run_after_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (history, placement) = (path("moves.json"), path("placement.yaml"));
    let words = [&["move", PLAN, "--history", &history], &TODAY[..]].concat();
    // A host has to be above the goal for three runs.
    let (code, out, error) = plan(&words);
    assert_eq!(code, Some(1), "{out}{error}");
    assert!(out.contains("above the goal for 1 of 3 runs in a row: b-1"), "{out}");
    let (code, out) = json(&words);
    assert_eq!((code, out["steps"].as_array().map(Vec::len)), (Some(1), Some(0)), "{out}");
    assert_eq!(out["waiting"][0], serde_json::json!({"host": "b-1", "runs": 2}));
    let (_, out) = json(&words);
    let steps = out["steps"].as_array().unwrap();
    assert!(out["overloaded"][0] == "b-1" && !steps.is_empty(), "{out}");

    // Somebody does that, and the next run sees who moved and where.
    let kept =
        || -> Value { serde_json::from_str(&std::fs::read_to_string(&history).unwrap()).unwrap() };
    let mut placed = kept()["placement"].clone();
    for step in steps {
        let vm = step["vm"].as_str().unwrap();
        for (end, change) in [("from", -1), ("to", 1)] {
            let machines = &mut placed[step[end].as_str().unwrap()];
            machines[vm] = (machines[vm].as_i64().unwrap_or(0) + change).into();
        }
    }
    let placed = placed.to_string().replace("\":", "\": ");
    std::fs::write(&placement, format!("placement: {placed}\n")).unwrap();
    let after = ["move", PLAN, "--with", &placement, "--history", &history];
    let (code, out, error) = plan(&after);
    assert_eq!(code, Some(0), "{out}{error}");
    let moved: Option<u64> =
        kept()["moves"].as_array().unwrap().iter().map(|it| it["count"].as_u64()).sum();
    assert_eq!(moved, Some(steps.len() as u64));

    // What is damaged is not taken for a beginning, and stays as it is.
    std::fs::write(&history, "{\"moves\": [").unwrap();
    let (code, out, error) = plan(&after);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("moves.json: it is no history of moves; remove it"), "{error}");
    assert_eq!(std::fs::read_to_string(&history).unwrap(), "{\"moves\": [");
    let nowhere = path("none/moves.json");
    let (code, out, error) = plan(&["move", PLAN, "--history", &nowhere]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("cannot write "), "{error}");
    assert_eq!(plan(&["move", PLAN, "--dwell", "2"]).0, Some(2));
}

#[test]
fn how_good_a_placement_is_and_what_the_paper_counts_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.yaml");
    let text = "\
goal: {epsilon: 0.001}
types: {r: {cores: 64, memory: 64gib, switch: [{carries: 1gbit, tunnels: 4}]}}
hosts: {h: {type: r, count: 4}}
models: {web: {rate: 300mbit}}
vms: {web: {count: 6, model: web, cores: 1, memory: 1gib}}
";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let (code, out) = json(&["place", file, "--algorithm", "exact"]);
    assert_eq!((code, &out["cost"], &out["is_optimal"]), (Some(0), &2.into(), &true.into()));
    // Three fit a host, so none is worth more than a third of it.
    let price = out["prices"]["web"].as_f64().unwrap();
    assert!(price * 3.0 <= 1.0 + 1e-6 && price * 6.0 > 1.0, "{out}");
    let (_, out, _) = plan(&["place", file, "--algorithm", "network-aware"]);
    assert!(out.contains("as printed in the paper, it counts 0 machines for the first"), "{out}");

    // One host is cheap. The bound takes any number of it, and the search knows better.
    let text = "\
goal: {epsilon: 0.001, least: price}
types:
  r: {cores: 64, memory: 64gib, price: 1, switch: [{carries: 1gbit}]}
  s: {cores: 64, memory: 64gib, price: 10, switch: [{carries: 1gbit}]}
hosts: {h: {type: r, rack: a}, i: {type: s, rack: b, count: 2}}
models: {web: {rate: 600mbit}}
vms: {web: {count: 2, model: web, cores: 1, memory: 1gib}}
";
    let exact = |text: &str, steps: &str| {
        std::fs::write(file, text).unwrap();
        plan(&["place", file, "--algorithm", "exact", "--steps", steps]).1
    };
    assert!(exact(text, "20000").contains("2 of 3 hosts for 11; less is impossible\n"));
    let few = exact(text, "1");
    assert!(few.contains("not known to be the cheapest: raise --steps\n"), "{few}");
    let racks = exact(&text.replace("memory: 1gib}", "memory: 1gib, apart: rack}"), "20000");
    assert!(racks.contains("not known to be the cheapest: machines apart by racks"), "{racks}");
}

#[test]
fn what_to_buy_has_every_type_and_what_it_runs_out_of() {
    let (code, out) = json(&["buy", PLAN]);
    let offers = out.as_array().unwrap();
    assert_eq!((code, offers.len()), (Some(0), 4), "{out}");
    let price = |it: &Value| it["price"].as_u64().unwrap();
    assert!(offers.windows(2).all(|pair| price(&pair[0]) <= price(&pair[1])), "{out}");
    let (_, out, _) = plan(&["buy", PLAN]);
    assert!(out.contains("large with 4 switch cores") && out.contains("price a machine"), "{out}");
    assert!(!out.contains("watts are not compared"), "{out}");

    // A type that says no watts is not the best in watts.
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(PLAN)).unwrap().replace("    watts: 420\n", "");
    let text = text.replace("trace: db.csv", "rate: 1mbit");
    let [file, page] = ["plan.yaml", "page.html"].map(|name| folder.path().join(name));
    std::fs::write(&file, text).unwrap();
    let (code, out, error) =
        plan(&["buy", file.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{error}");
    let unknown = "watts are not compared, as `watts` is missing in the types of: large with ";
    assert!(out.contains(unknown), "{out}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("watts are not compared") && !page.contains("Price against watts"));
}

/// A plan that is served; the program ends with its guard.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(words: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zovn"));
        command.args(["plan", "serve", "--listen", &address.to_string()]).args(words);
        let child = command.current_dir(root).stderr(Stdio::null()).spawn().unwrap();
        Self { child, address }
    }

    /// The body of an answer, once there is one.
    fn ask(&self, request: &str, body: &str) -> String {
        let length = body.len();
        let request = format!("{request} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}");
        loop {
            let mut answer = String::new();
            let asked = TcpStream::connect(self.address).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            });
            match answer.split_once("\r\n\r\n") {
                Some((_, body)) if asked.is_ok() => return body.to_owned(),
                _ => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The hosts that take one more web server.
    fn takes(&self) -> Value {
        let body =
            r#"{"spec": {"flavor": {"vcpus": 2, "memory_mb": 4096}}, "hosts": ["b-1", "b-8"]}"#;
        serde_json::from_str(&self.ask("POST /v1/plan/hosts", body)).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

#[test]
fn a_plan_is_served_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let today = folder.path().join("today.yaml");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("examples/plan/today.yaml"), &today).unwrap();
    let words =
        ["-c", PLAN, "--with", today.to_str().unwrap(), "--with", "examples/plan/serve.yaml"];
    let mut served = Served::start(&words);
    let answer = served.takes();
    assert_eq!(answer["hosts"], serde_json::json!(["b-8"]), "{answer}");
    assert!(answer["reasons"]["b-1"].as_str().unwrap().contains("P(overflow) 4."), "{answer}");
    let page = served.ask("GET /metrics", "");
    assert!(page.contains("zovn_plan_overflow_probability{host=\"b-1\"} 0.04"), "{page}");

    // What is wrong is not served.
    std::fs::write(&today, "placement: {b-9: {}}\n").unwrap();
    served.signal(Signal::HUP);
    assert_eq!(served.takes()["hosts"], serde_json::json!(["b-8"]));
    std::fs::write(&today, "placement: {}\n").unwrap();
    served.signal(Signal::HUP);
    while served.takes()["hosts"] != serde_json::json!(["b-1", "b-8"]) {
        sleep(Duration::from_millis(20));
    }
    served.signal(Signal::TERM);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));

    let (code, _, error) = plan(&["serve", "-c", PLAN, "--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("nothing is encrypted") && error.contains("`--plain`"), "{error}");
    let encrypted = ["--tls-certificate", "/nowhere/own.pem", "--tls-key", "/nowhere/own.key"];
    let serve = ["serve", "-c", PLAN, "--listen", "0.0.0.0:0"];
    // What is encrypted is still asked by whoever reaches it.
    let (code, _, error) = plan(&[&serve[..], &encrypted].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("nobody is asked") && error.contains("`--clients-ca`"), "{error}");
    for allowed in [&["--open"][..], &["--clients-ca", "/nowhere/ca.pem"]] {
        let (code, _, error) = plan(&[&serve[..], &encrypted, allowed].concat());
        assert_eq!(code, Some(1));
        assert!(error.contains("cannot read /nowhere/"), "{error}");
    }
    for words in [&["--clients-ca", "ca.pem"][..], &["--open"], &["--plain"]] {
        // Certificates of clients go with one's own, and what is encrypted is not plain.
        let own: &[&str] = if words[0] == "--plain" { &encrypted } else { &[] };
        assert_eq!(plan(&[&serve[..], own, words].concat()).0, Some(2), "{words:?}");
    }
    let models = "examples/plan/serve.yaml";
    assert_eq!(plan(&["serve", "-c", models]).0, Some(2));
}

#[test]
fn speed_is_told_with_its_goals() {
    let words = ["bench", "--hosts", "30", "--samples", "500", "--questions", "3"];
    let (_, told) = json(&words);
    assert_eq!((&told["experiment"], &told["config"]["hosts"]), (&"plan-bench".into(), &30.into()));
    let told = &told["results"][0];
    let figures = told["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 9, "{told}");
    assert!(figures.iter().all(|it| it["value"].as_f64() > Some(0.0)), "{told}");
    let hosts: Vec<_> = figures.iter().filter(|it| it["unit"] == "ratio").collect();
    assert!(hosts.len() == 1 && hosts[0]["goal"] == 1.05, "{told}");
    assert!(told["memory"].as_u64() > Some(0));
}

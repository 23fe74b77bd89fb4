//! Plans that are read, and the faults of those that are not.

use super::*;

fn told(texts: &[(&str, &str)]) -> Vec<String> {
    let texts: Vec<_> =
        texts.iter().map(|(name, text)| (Path::new(*name), (*text).to_owned())).collect();
    plan(&texts).unwrap_err().iter().map(ToString::to_string).collect()
}

const RIGHT: &str = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 8, memory: 32gib, nic: 10gbit, switch: [{carries: 2gbit}, {cores: 2, carries: 4gbit}]}
hosts:
  h: {type: r, count: 2, switch_cores: 2}
models:
  web: {on: 100mbit, on_for: 1s, off_for: 9s, frame: 1000b, sends: 0.25}
vms:
  web: {count: 3, model: web, cores: 2, memory: 4gib}
";

#[test]
fn names_become_places_and_words_amounts() {
    let plan = plan(&[(Path::new("p.yaml"), RIGHT.into())]).unwrap();
    let problem = plan.problem();
    assert_eq!(plan.hosts().collect::<Vec<_>>(), ["h-1", "h-2"]);
    // Of the type's two switches only the one that hosts have is a type of the problem.
    assert_eq!((problem.types.len(), problem.types[0].cores), (1, 6));
    let peaks: Vec<u64> = problem.classes[0].loads[0].iter().map(|it| it.peak()).collect();
    // A frame of 1000 bytes takes 24 more on the wire; a quarter is sent.
    assert_eq!(peaks, [100_000_000, 25_600_000, 76_800_000]);
    assert!((problem.classes[0].loads[0][0].mean() - 1e7).abs() < 1.0);
    assert_eq!(plan.market().unwrap_err(), "type r has no price: add one");
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let text = "\
goal: {epsilon: 2}
types:
  r: {cores: 8, memory: 32gib, nic: 10, switch: [{cores: 9, carries: 2gbit}, {cores: 1}]}
  s: {cores: 8, memory: 1gib}
hosts:
  h: {type: t}
  i: {type: s, count: 0}
models:
  web: {on: 100mbit, on_for: 1s}
  db: {rates: [1mbit, 0], hold: [1s, 1s], jump: [[0, 1], [1, 1]]}
  far: {trace: none.csv}
vms:
  web: {count: 3, model: wbe, cores: 2, memory: 4gib, cluster: shop}
  db: {model: db, cores: 1, memory: 1gib, apart: room}
placement:
  h: {web: 4, db: 1, cache: 1}
";
    let told = told(&[("p.yaml", text)]);
    let expected = [
        "p.yaml:1:17: /goal/epsilon: a share of time lies between 0 and 1",
        "p.yaml:3:37: /types/r/nic: `10` is not a rate",
        "p.yaml:3:58: /types/r/switch/0/cores: the host has 8 cores",
        "p.yaml:3:78: /types/r/switch/1: say what this switch carries",
        "p.yaml:4:6: /types/s: nothing limits this host's network",
        "p.yaml:6:13: /hosts/h/type: no type has this name: `t` is not known here",
        "p.yaml:7:23: /hosts/i/count: write a number from 1",
        "p.yaml:9:8: /models/web: a model is one of",
        "p.yaml:10:7: /models/db: state 1 jumps to itself",
        "p.yaml:13:26: /vms/web/model: no model has this name",
        "p.yaml:13:64: /vms/web/cluster: there is no cluster `shop`, nor any other",
        "p.yaml:14:50: /vms/db/apart: `room` is not known here",
        "p.yaml:16:6: /placement/h: no host has this name",
        "p.yaml:16:12: /placement/h/web: there are 3 of `web`, and more are placed",
        "p.yaml:16:29: /placement/h/cache: no machine has this name",
    ];
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}\nis not\n{expected}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

const DIVIDED: &str = "\
goal: {epsilon: 0.001, periods: mean}
periods: {busy: 42, rest: 126}
types:
  r: {cores: 8, memory: 32gib, nic: 10gbit, switch: [{carries: 2gbit}]}
hosts:
  h: {type: r, count: 2}
models:
  web:
    periods:
      rest: {rate: 1mbit}
      busy: {on: 100mbit, on_for: 1s, off_for: 9s}
  db: {rate: 5mbit}
vms:
  web: {count: 3, model: web, cores: 2, memory: 4gib}
  db: {model: db, cores: 2, memory: 4gib}
";

#[test]
fn each_class_of_hours_has_limits_of_its_own() {
    let plan = plan(&[(Path::new("p.yaml"), DIVIDED.into())]).unwrap();
    let problem = plan.problem();
    assert_eq!(problem.goal.periods, placement::Periods::Mean(vec![0.25, 0.75]));
    let names: Vec<&str> = plan.kind_of(0).limits.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names[..4], ["switch, busy", "card, out, busy", "card, in, busy", "switch, rest"]);
    let periods: Vec<usize> = problem.types[0].limits.iter().map(|it| it.period).collect();
    assert_eq!(periods, [0, 0, 0, 1, 1, 1]);
    let peaks = |class: usize| {
        let loads = &problem.classes[class].loads[0];
        [loads[0].peak(), loads[3].peak()]
    };
    assert_eq!([peaks(0), peaks(1)], [[100_000_000, 1_000_000], [5_000_000; 2]]);
    let rest = plan.of_period(plan.period("rest").unwrap()).problem();
    assert_eq!((rest.types[0].limits.len(), rest.classes[0].loads[0][0].peak()), (3, 1_000_000));
    assert_eq!(rest.goal.periods, placement::Periods::Mean(vec![1.0]));
    assert!(plan.period("night").is_err());
}

#[test]
fn classes_of_hours_that_do_not_fit_are_told() {
    for (one, other, expected) in [
        ("rest: 126", "rest: 100", "2:10: /periods: a week has 168 hours, and these are 142"),
        ("rest: 126", "rest: 126, never: 0", "/periods/never: a class of hours has an hour"),
        ("      rest: {rate: 1mbit}\n", "", "/models/web/periods: `rest` is missing: say what"),
        ("      rest: {", "      night: {", "no class of hours has this name: `night`"),
        ("periods: {busy: 42, rest: 126}\n", "", "there is no class of hours `rest`, nor any"),
        ("  web:\n", "  web:\n    rate: 1mbit\n", "classes of hours say the rates: take one"),
        ("  db: {", "  db: {periods: {busy: {}}, ", "classes of hours say the rates: take one"),
    ] {
        let told = told(&[("p.yaml", &DIVIDED.replacen(one, other, 1))]);
        assert!(told.iter().any(|it| it.contains(expected)), "{expected}: {told:#?}");
    }
    // What is wrong is not missing as well.
    let told = told(&[("p.yaml", &DIVIDED.replace("rest: {rate: 1mbit}", "rest: 1mbit"))]);
    assert!(told.len() == 1 && told[0].contains("/models/web/periods/rest: "), "{told:#?}");
}

#[test]
fn hosts_say_their_rack_where_something_depends_on_it() {
    let apart = RIGHT.replace("memory: 4gib}", "memory: 4gib, apart: rack}");
    assert_eq!(
        told(&[("p.yaml", &apart)]),
        ["p.yaml:5:6: /hosts/h: `rack` is missing: `web` is to be apart by racks"]
    );
    let cluster = RIGHT.replace("memory: 4gib}", "memory: 4gib, cluster: shop}")
        + "clusters: {shop: {hose: 1gbit}}\n";
    let [fault] = &told(&[("p.yaml", &cluster)])[..] else { panic!("one fault") };
    assert!(fault.contains("`rack` is missing: what cluster `shop` may send"), "{fault}");
    for text in [apart, cluster] {
        let text = text.replace("count: 2, ", "count: 2, rack: a, ");
        plan(&[(Path::new("p.yaml"), text)]).unwrap();
    }
}

#[test]
fn files_are_one_plan_and_a_name_is_in_one_of_them() {
    let more = "models:\n  web: {rate: 1mbit}\n  db: {rate: 1mbit}\n";
    let told = told(&[("p.yaml", RIGHT), ("m.yaml", more)]);
    assert_eq!(told, ["m.yaml:2:8: /models/web: p.yaml has `web`, too: keep one"]);
    assert_eq!(
        self::told(&[("p.yaml", "")]),
        ["p.yaml:1:1: `goal` is missing: add `goal: {epsilon: 0.001}`"]
    );
    assert_eq!(self::told(&[("p.yaml", "goal: [")]).len(), 1);
}

/// A profile of what 64 and 1514 bytes of zovn take within the host and by Geneve.
fn profile(folder: &Path) {
    let entry = |way, tunnel, size, q1| {
        serde_json::json!({
            "switch": "zovn", "way": way, "tunnel": tunnel, "load": "frames", "offload": false,
            "size": size, "fps": {"q1": q1, "median": q1}, "bound_by": "switch", "at_least": false,
        })
    };
    let results = [
        entry("host", "none", 64, 200e3),
        entry("host", "none", 1514, 100e3),
        entry("link", "geneve", 64, 50e3),
        entry("link", "geneve", 1514, 25e3),
    ];
    let profile = serde_json::json!({"experiment": "profile", "results": results});
    fs::write(folder.join("host.json"), profile.to_string()).unwrap();
}

#[test]
fn a_profile_is_a_limit_of_the_switchs_time() {
    let folder = tempfile::tempdir().unwrap();
    profile(folder.path());
    let file = folder.path().join("p.yaml");
    let switch = "{cores: 1, profile: {file: host.json, switch: zovn, tunnel: geneve}}";
    let text = RIGHT
        .replace("{carries: 2gbit}", switch)
        .replace("switch_cores: 2", "switch_cores: 1")
        .replace("frame: 1000b", "frame: 1514b, remote: 0.5");
    let plan = Plan::of_text(&file, &text).unwrap();
    let peaks =
        || -> Vec<u64> { plan.problem().classes[0].loads[0].iter().map(|it| it.peak()).collect() };
    // 100 Mb/s are 8257 frames of 1514 bytes; half take 10 µs, half 40 µs.
    let time = peaks()[0];
    assert_eq!(plan.problem().types[0].limits[0].capacity, WHOLE_TIME);
    assert!((time as f64 / (1e8 / 8.0 / 1514.0 * 25e-6 * 1e9) - 1.0).abs() < 1e-6, "{time}");
    let kind = plan.kind_of(0);
    assert_eq!((kind.limits[0].name.as_str(), kind.doubts().len()), ("switch, time", 0));
    assert_eq!(Carried::Time.amount(time as f64), "20.6 %");
}

#[test]
fn frames_are_as_long_on_the_wire_as_the_profiles_tunnel_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |switch: &str, tunnel: &str| {
        let entry = |way, tunnel: &str| {
            serde_json::json!({
                "switch": switch, "way": way, "tunnel": tunnel, "load": "frames",
                "offload": false, "size": 1000, "fps": {"q1": 1e6, "median": 1e6},
                "bound_by": "switch", "at_least": false,
            })
        };
        let results = [entry("host", "none"), entry("link", tunnel)];
        let profile = serde_json::json!({"experiment": "profile", "results": results});
        fs::write(folder.path().join("host.json"), profile.to_string()).unwrap();
    };
    let plan = |switch: &str, tunnel: &str, overhead: &str| {
        write(switch, tunnel);
        let of_profile =
            format!("{{profile: {{file: host.json, switch: {switch}, tunnel: {tunnel}}}}}");
        let text = RIGHT
            .replace("{carries: 2gbit}, {cores: 2, carries: 4gbit}", &of_profile)
            .replace(", switch_cores: 2", "")
            .replace("nic: 10gbit", &format!("nic: 10gbit{overhead}"));
        Plan::of_text(&folder.path().join("p.yaml"), &text)
    };
    // 100 Mbit/s of frames of 1000 bytes, a quarter of which is sent.
    for (switch, tunnel, overhead, out) in [
        ("zovn", "geneve", "", 27_550_000),
        ("zovn-lossy", "geneve", "", 26_850_000),
        ("ovs", "vxlan", "", 26_850_000),
        ("ovs", "gre", "", 26_650_000),
        ("zovn", "none", "", 25_600_000),
        ("zovn", "geneve", ", overhead: 74b", 26_850_000),
        ("ovs", "stt", ", overhead: 98b", 27_450_000),
    ] {
        let problem = plan(switch, tunnel, overhead).unwrap().problem();
        let peaks: Vec<u64> = problem.classes[0].loads[0].iter().map(|it| it.peak()).collect();
        let [_, sent, received] = peaks[..] else { panic!("{peaks:?}") };
        let is_near = sent.abs_diff(out) <= 1 && received.abs_diff(3 * out) <= 1;
        assert!(is_near, "{switch} {tunnel}{overhead}: {peaks:?}");
    }
    let PlanError::Faults(faults) = plan("ovs", "stt", "").unwrap_err() else {
        panic!("the plan's file was read")
    };
    let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
    assert_eq!(fault.path, "/types/r/switch/0/profile/tunnel");
    assert!(fault.message.starts_with("what `stt` puts around frames is not known"), "{fault}");
}

#[test]
fn a_profile_that_says_nothing_of_a_switch_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    profile(folder.path());
    let file = folder.path().join("p.yaml");
    let told = |switch: &str| {
        let text = RIGHT.replace("{carries: 2gbit}", switch);
        let PlanError::Faults(faults) = Plan::of_text(&file, &text).unwrap_err() else {
            panic!("the plan's file was read")
        };
        let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
        (fault.line, fault.path.clone(), fault.message.clone())
    };
    for (switch, field, word) in [
        ("{profile: {file: far.json, switch: zovn}}", "profile/file", "cannot read"),
        ("{profile: {file: host.json, switch: ovs}}", "profile/switch", "it has zovn"),
        ("{profile: {file: host.json, switch: zovn}}", "profile", "it has geneve"),
        (
            "{profile: {file: host.json, switch: zovn, tunnel: vxlan}}",
            "profile/tunnel",
            "it has geneve",
        ),
        (
            "{cores: 3, profile: {file: host.json, switch: zovn, tunnel: geneve}}",
            "cores",
            "one core",
        ),
    ] {
        let (line, path, message) = told(switch);
        assert_eq!((line, path), (3, format!("/types/r/switch/0/{field}")), "{message}");
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_trace_that_cannot_be_read_has_its_place() {
    let text = RIGHT.replace("on: 100mbit, on_for: 1s, off_for: 9s", "trace: none.csv");
    let told = told(&[("/nowhere/p.yaml", &text)]);
    let expected = "/nowhere/p.yaml:7:16: /models/web/trace: cannot read /nowhere/none.csv: ";
    assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
}

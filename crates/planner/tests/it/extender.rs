//! Kubernetes' scheduler asks.

mod go;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::desk::{PLAN, Server, read_plan};

/// What `encoding/json` of Go makes of `extender/v1` 0.37: its keys are checked to the letter.
const ARGS: &str = include_str!("filter-args.json");
const FILTERED: &str = include_str!("filter-result.json");
const FILTERED_READ: &str = include_str!("filter-result-read.json");
const PRIORITIZED: &str = include_str!("prioritize-result.json");

const FILTER: &str = "/k8s/filter";
const PRIORITIZE: &str = "/k8s/prioritize";

/// A question about a pod, whose containers request nothing.
fn args(uid: &str, model: &str, nodes: &[&str]) -> Value {
    json!({
        "Pod": {
            "metadata": {"name": uid, "uid": uid, "annotations": {"zovn/model": model}},
            "spec": {"containers": [{"name": "c", "resources": {}}]},
        },
        "NodeNames": nodes,
    })
}

#[test]
fn the_messages_are_to_the_letter_what_the_scheduler_reads() {
    let server = Server::start(PLAN);
    assert_eq!(server.post(FILTER, ARGS), FILTERED.trim());
    assert_eq!(server.post(PRIORITIZE, ARGS), PRIORITIZED.trim());
}

#[test]
fn taking_pods_away_may_help_where_an_agent_was_read() {
    // Nobody is at the address of the other agent.
    let plan = read_plan().replace("agents: {", "agents: {n3: \"127.0.0.1:1\", ");
    let server = Server::start(&plan);
    server.has_read("n1");
    assert_eq!(server.post(FILTER, ARGS), FILTERED_READ.trim());
    for (requests, why, may_help) in [
        (json!({"cpu": "50"}), "zovn: needs 50 cores, ", true),
        (json!({"memory": "200Gi"}), "zovn: needs 215 GB of memory, ", true),
        // More than all of the host.
        (json!({"cpu": "65"}), "zovn: needs 65 cores, ", false),
        (json!({"memory": "257Gi"}), "zovn: needs 276 GB of memory, ", false),
    ] {
        let mut asked = args("a", "web", &["n1", "n2", "n3"]);
        asked["Pod"]["spec"]["containers"][0]["resources"] = json!({"requests": requests});
        let answer = server.json(FILTER, &asked);
        let is = |fate: &str, node: &str, why: &str| {
            let reason = answer[fate][node].as_str();
            assert!(reason.is_some_and(|it| it.starts_with(why)), "{node}: {answer}");
        };
        is(if may_help { "FailedNodes" } else { "FailedAndUnresolvableNodes" }, "n1", why);
        is("FailedAndUnresolvableNodes", "n2", why);
        is("FailedAndUnresolvableNodes", "n3", "zovn: its agent was not read yet");
        let failed = answer["FailedNodes"].as_object().unwrap().len();
        assert_eq!(failed, usize::from(may_help), "{answer}");
    }
}

#[test]
fn keys_are_read_whatever_their_case_and_nodes_given_back_as_they_came() {
    let server = Server::start(PLAN);
    let node = |name: &str| json!({"metadata": {"name": name, "labels": {"z": "1"}}, "status": {}});
    let asked = json!({
        "pod": args("a", "web", &[])["Pod"],
        "nodes": {"metadata": {}, "items": [node("n1"), node("n2"), node("n4")]},
        "nodeNAMES": null,
        "other": [1, {"a": 2}],
    });
    let answer = server.json(FILTER, &asked);
    assert_eq!(answer["Nodes"]["items"], json!([node("n2"), node("n4")]));
    assert!(
        answer["NodeNames"].is_null() && answer["FailedAndUnresolvableNodes"]["n1"].is_string(),
        "{answer}"
    );
}

#[test]
fn a_pod_needs_what_the_scheduler_counts() {
    let server = Server::start(PLAN);
    let reason = |spec: Value| {
        let mut asked = args("a", "web", &["n3"]);
        asked["Pod"]["spec"] = spec;
        let answer = server.json(FILTER, &asked);
        answer["FailedAndUnresolvableNodes"]["n3"].as_str().unwrap_or_default().to_owned()
    };
    let needs = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}});
    // Two cores are left beside the switch's, and 4 GiB.
    assert_eq!(reason(json!({"containers": [needs("1500m"), needs("0.5")]})), "");
    assert_eq!(
        reason(json!({"containers": [needs("1500m"), needs("501m")]})),
        "zovn: needs 2.001 cores, 2 are left beside the switch's"
    );
    // What runs first runs alone, but for sidecars.
    let first = |first: Value| json!({"initContainers": first, "containers": [needs("1")]});
    assert_eq!(reason(first(json!([needs("2"), needs("2")]))), "");
    assert!(reason(first(json!([needs("3")]))).contains("needs 3 cores"));
    let mut sidecar = needs("500m");
    sidecar["restartPolicy"] = "Always".into();
    assert!(reason(first(json!([sidecar, needs("1800m")]))).contains("needs 2.3 cores"));
    assert!(reason(first(json!([sidecar, sidecar, sidecar]))).contains("needs 2.5 cores"));
    let overhead = json!({"containers": [needs("2")], "overhead": {"cpu": "250m"}});
    assert!(reason(overhead).contains("needs 2.25 cores"));
    let whole = json!({"containers": [needs("2")], "resources": {"requests": {"cpu": "4"}}});
    assert!(reason(whole).contains("needs 4 cores"));
    assert!(
        reason(json!({"containers": [needs("1"), {"resources": {"requests": {"memory": "5Gi"}}}]}))
            .contains("of memory")
    );
    // Other resources are others' business.
    let other =
        json!({"resources": {"requests": {"example.com/gpu": "many"}, "limits": {"cpu": "9"}}});
    assert_eq!(reason(json!({"containers": [other], "initContainers": null})), "");
}

#[test]
fn an_annotation_is_believed_only_for_models_that_are_listed() {
    let server = Server::start(PLAN);
    let passes = |model: &str| {
        let answer = server.json(FILTER, &args("a", model, &["n1", "n2", "n4"]));
        answer["NodeNames"].as_array().unwrap().len()
    };
    // `secret` would ask for nothing; who says it is taken for the default.
    assert_eq!([passes("web"), passes("loud"), passes("secret"), passes("")], [2, 1, 2, 2]);
    let mut asked = args("a", "", &["n1", "n2", "n4"]);
    asked["Pod"]["metadata"]["annotations"] = Value::Null;
    assert_eq!(server.json(FILTER, &asked)["NodeNames"], json!(["n2", "n4"]));
    // Who says so is counted; who says nothing is not.
    let page = server.metrics();
    assert!(page.contains("zovn_plan_unlisted_models_total 1\n"), "{page}");
    server.json(PRIORITIZE, &args("b", "wbe", &["n2", "n4"]));
    let page = server.metrics();
    assert!(page.contains("zovn_plan_unlisted_models_total 2\n"), "{page}");
}

#[test]
fn what_was_answered_counts_until_it_is_seen() {
    let server = Server::start(PLAN);
    let nodes = ["n2", "n4"];
    // A pod that leaves little goes to the empty node, and the next is not sent there.
    let best = server.json(PRIORITIZE, &args("a", "loud", &nodes));
    assert_eq!(best, json!([{"Host": "n2", "Score": 0}, {"Host": "n4", "Score": 1}]));
    let next = server.json(FILTER, &args("b", "loud", &nodes));
    assert_eq!(next["NodeNames"], json!([]), "{next}");
    // The first is asked about again: it is not in its own way. With one node left it is there.
    let again = server.json(FILTER, &args("a", "loud", &nodes));
    assert_eq!(again["NodeNames"], json!(["n4"]));
    assert!(server.metrics().contains("zovn_plan_assumed_machines 1"));
    assert_eq!(server.json(FILTER, &args("b", "loud", &["n4"]))["NodeNames"], json!([]));
    let page = server.metrics();
    for line in [
        "zovn_plan_goal_ratio 0.001",
        "zovn_plan_answer_seconds_count{verb=\"filter\"} 3",
        "zovn_plan_answer_seconds_count{verb=\"prioritize\"} 1",
        "zovn_plan_answer_seconds_count{verb=\"hosts\"} 0",
        "zovn_plan_refused_hosts_total{reason=\"overload\"} 4",
        "zovn_plan_refused_hosts_total{reason=\"cores\"} 0",
        "zovn_plan_malformed_questions_total 0",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    // What is assumed counts in what is shown.
    let before = server.overflow("n2");
    assert_eq!(server.json(FILTER, &args("c", "web", &["n2"]))["NodeNames"], json!(["n2"]));
    assert!(server.overflow("n2") > before && before > 0.0, "{before}");
}

#[test]
fn the_node_that_is_assumed_alone_has_the_highest_score() {
    let server = Server::start(&PLAN.replace("  n2: {web: 20}\n", ""));
    let scores = server.json(PRIORITIZE, &args("a", "web", &["n4", "n1", "n2"]));
    let [n4, n2] = [0, 2].map(|place: usize| scores[place]["Score"].as_i64().unwrap());
    assert!(n4 > n2 && n2 > 0, "{scores}");
    assert_eq!(scores[1], json!({"Host": "n1", "Score": 0}));
    // One that has nearly nothing left is above those that have nothing.
    let scores = server.json(PRIORITIZE, &args("b", "loud", &["n3", "n1"]));
    assert_eq!(scores, json!([{"Host": "n3", "Score": 1}, {"Host": "n1", "Score": 0}]));
}

#[test]
fn what_is_longer_than_any_question_is_refused() {
    let server = Server::start(PLAN);
    let refused = |asked: &Value, sentence: &str| {
        let (status, detail) = server.refused(FILTER, &asked.to_string());
        assert!(status == 400 && detail.contains(sentence), "{status} {detail}");
    };
    let with = |count: usize| {
        let mut asked = args("a", "web", &["n4"]);
        asked["Pod"]["spec"]["containers"] = vec![json!({}); count].into();
        asked
    };
    assert_eq!(server.json(FILTER, &with(1000))["NodeNames"], json!(["n4"]));
    refused(&with(1001), "expected a list of at most 1000 containers");
    let mut first = args("a", "web", &["n4"]);
    first["Pod"]["spec"]["initContainers"] = vec![json!({}); 1001].into();
    refused(&first, "expected a list of at most 1000 containers");
    refused(&args("a", "web", &["n4"; 20_001]), "expected a list of at most 20000 names");
    let mut nodes = args("a", "web", &[]);
    nodes["Nodes"]["items"] = vec![json!({"metadata": {"name": "n4"}}); 20_001].into();
    refused(&nodes, "expected a list of at most 20000 nodes");
    refused(&args("a", "web", &[&"x".repeat(300)]), "a name has 300 bytes");
}

#[test]
fn who_stalls_is_told_and_keeps_nobody_out() {
    let server = Server::start(PLAN);
    // As many as there may be connections.
    let stalled: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let head = format!("POST {FILTER} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{{");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    for mut stream in stalled {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("the body has not come within 5 s"), "{answer}");
    }
    assert!(server.metrics().contains("zovn_plan_malformed_questions_total 8"));
}

#[test]
fn an_assumption_ends_without_a_question() {
    let server = Server::start(&PLAN.replace("default: web", "default: web, assume: 1s"));
    assert_eq!(server.json(FILTER, &args("a", "loud", &["n4"]))["NodeNames"], json!(["n4"]));
    let page = || server.metrics();
    let none = "zovn_plan_assumed_machines 0";
    assert!((0..600).any(|_| {
        sleep(Duration::from_millis(50));
        page().contains(none)
    }));
}

#[test]
fn what_is_not_understood_is_refused_with_a_sentence() {
    let server = Server::start(PLAN);
    for (body, sentence) in [
        ("", "EOF while parsing"),
        ("[]", "an object with `Pod`, and `NodeNames` or `Nodes`"),
        ("{}", "missing field `Pod`"),
        (r#"{"Pod": {"metadata": {}, "spec": {}}}"#, "one of `NodeNames` and `Nodes` is needed"),
        (r#"{"Pod": {"spec": {}}, "NodeNames": []}"#, "missing field `metadata`"),
        (
            r#"{"Pod": {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"cpu": "5q"}}}]}}}"#,
            "invalid value: string \"5q\", expected a quantity as",
        ),
        (r#"{"Nodes": {"items": [{}]}}"#, "missing field `metadata`"),
    ] {
        let (status, detail) = server.refused(FILTER, body);
        assert!(status == 400 && detail.contains(sentence), "{body}: {status} {detail}");
        assert!(detail.starts_with("the question is not understood: "), "{detail}");
    }
    let long = args(&"x".repeat(300), "web", &["n1"]).to_string();
    let (status, detail) = server.refused(FILTER, &long);
    assert!(status == 400 && detail.contains("a name has 300 bytes"), "{detail}");
    assert_eq!(server.refused("/k8s/bind", "").0, 404);
    assert_eq!(server.ask("GET", FILTER, b"").0, 405);
    assert_eq!(server.ask("POST", FILTER, &vec![b' '; 5 << 20]).0, 413);
    let page = server.metrics();
    assert!(page.contains("zovn_plan_malformed_questions_total 9"), "{page}");
}

#[test]
fn whatever_is_asked_is_answered_or_refused() {
    let server = Server::start(PLAN);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let change = (0..ARGS.len(), any::<u8>(), any::<bool>());
    let changes = prop::collection::vec(change, 1..4);
    runner
        .run(&changes, |changes| {
            let mut body = ARGS.as_bytes().to_vec();
            for (place, byte, cut) in changes {
                let place = place % body.len();
                if cut { body.truncate(place.max(1)) } else { body[place] = byte }
            }
            for path in [FILTER, PRIORITIZE, "/v1/plan/hosts"] {
                let status = server.ask("POST", path, &body).0;
                prop_assert!(matches!(status, 200 | 400), "{}", status);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(server.ask("POST", FILTER, ARGS.as_bytes()).0, 200);
}

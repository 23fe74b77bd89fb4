//! A controller and thousands of agents.

use super::{has, measured};

#[test]
fn a_controller_has_every_agent_execute_what_is_declared() {
    let (object, code) = measured(&["control", "--hosts", "30", "--rounds", "3"]);
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    let phases: Vec<_> = results.iter().map(|it| it["phase"].as_str().unwrap()).collect();
    let all = [
        "declare",
        "compute",
        "cold",
        "restart",
        "add",
        "delete",
        "move",
        "member",
        "group",
        "reconnect",
    ];
    assert_eq!(phases, all);
    for result in results {
        has(result, &["goals", "missed", "served_s", "tuples_a_flow", "bytes_a_tuple"]);
        has(result, &["seconds", "cpu_s", "rss_bytes", "tuples", "flows", "wakes", "pings_wrong"]);
        for figure in ["pings_wrong", "pings_wrong_during", "refusals"] {
            assert_eq!(result[figure], 0, "{result:#}");
        }
        let (phase, asked) = (result["phase"].as_str().unwrap(), result["pings"].as_u64().unwrap());
        assert_eq!(asked > 0, !["declare", "compute"].contains(&phase), "{result:#}");
        let asked = result["pings_during"].as_u64().unwrap();
        assert_eq!(asked > 0, !["declare", "compute", "cold"].contains(&phase), "{result:#}");
        // Each of 630 ports is some rows, once they are computed.
        let rows = result["flows"].as_u64().unwrap();
        assert!(phase == "declare" || rows > 3 * 630, "{result:#}");
    }
    let figure = |phase: &str, figure: &str| {
        let at = phases.iter().position(|it| *it == phase).unwrap();
        results[at][figure].as_f64().unwrap()
    };
    let bytes = figure("compute", "bytes_a_tuple");
    assert!((8.0..1000.0).contains(&bytes), "{bytes}");
    assert!(figure("restart", "served_s") <= figure("restart", "seconds"));
    for phase in ["cold", "restart"] {
        let at = phases.iter().position(|it| *it == phase).unwrap();
        let moments = results[at]["over_time"].as_array().unwrap();
        let [first, .., last] = &moments[..] else { panic!("{moments:?}") };
        assert_eq!((&first["agents"], &last["agents"]), (&0.into(), &30.into()), "{phase}");
        // Whoever has lost its controller goes on with what it has.
        let is_told = first["rows"].as_u64().unwrap() > 0;
        assert_eq!(is_told, phase == "restart", "{first:#}");
        assert!(last["rows"].as_u64().unwrap() > 3 * 630, "{last:#}");
    }
    assert_eq!(figure("member", "rows_a_host"), 1.0, "one entry a host");
    for phase in ["add", "delete", "move", "member", "group"] {
        let at = phases.iter().position(|it| *it == phase).unwrap();
        let goal = results[at]["goals"]["wakes"].as_f64().unwrap();
        let wakes = figure(phase, "wakes");
        assert!(wakes > 0.0 && wakes <= goal, "{phase} wakes {wakes} of {goal} whom it concerns");
    }
}

#[test]
fn agents_that_prove_who_they_are_over_tls_are_measured_as_well() {
    let (object, code) = measured(&["control", "--hosts", "10", "--rounds", "1", "--tls"]);
    assert_eq!((code, &object["config"]["tls"]), (Some(0), &true.into()), "{object:#}");
    assert_eq!(object["results"].as_array().unwrap().len(), 10, "{object:#}");
}

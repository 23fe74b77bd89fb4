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
        has(result, &["goal_s", "missed"]);
        has(result, &["seconds", "cpu_s", "rss_bytes", "tuples", "flows", "wakes", "pings_wrong"]);
        assert_eq!(result["pings_wrong"], 0, "{result:#}");
        let (phase, asked) = (result["phase"].as_str().unwrap(), result["pings"].as_u64().unwrap());
        assert_eq!(asked > 0, !["declare", "compute"].contains(&phase), "{result:#}");
        // Each of 630 ports is some rows, once they are computed.
        let rows = result["flows"].as_u64().unwrap();
        assert!(phase == "declare" || rows > 3 * 630, "{result:#}");
    }
    let wakes = |phase: &str| {
        let at = phases.iter().position(|it| *it == phase).unwrap();
        results[at]["wakes"].as_f64().unwrap()
    };
    assert!(wakes("move") < 30.0, "only hosts of the switch are woken: {}", wakes("move"));
}

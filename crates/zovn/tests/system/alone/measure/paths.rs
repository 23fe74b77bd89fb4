//! Paths between hosts: watched, cut, and gone round.

use super::{has, measured};

#[test]
fn paths_are_monitored_and_cuts_detected() {
    let arguments =
        ["bfd", "--sessions", "300", "--interval", "200ms", "--duration", "1s", "--rounds", "1"];
    let (object, code) = measured(&arguments);
    assert_eq!(code, Some(0), "{object:#}");
    assert_eq!(object["config"]["sessions"], 300);
    let result = &object["results"][0];
    has(result, &["up_s", "cpu_percent", "failed", "detection_max_ms"]);
    assert_eq!((result["lost"].as_u64(), result["detected"].as_u64()), (Some(0), Some(10)));
    // 300 every 200 ms, and up to a quarter sooner for jitter.
    for rate in ["sent_pps", "received_pps"] {
        assert!(result[rate].as_f64().unwrap() > 1000.0, "{result:#}");
    }
    // The last packet went up to an interval before the cut, and two more are missed.
    assert!(result["detection_median_ms"].as_f64().unwrap() > 150.0, "{result:#}");
}

#[test]
fn frames_continue_on_another_path_when_theirs_is_cut() {
    let (object, code) = measured(&["paths", "--cuts", "2", "--rate", "500"]);
    assert_eq!(code, Some(0), "{object:#}");
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        has(result, &["switched_ms", "far_switched_ms", "outage_ms", "sent", "lost", "duplicates"]);
        assert_eq!((result["lost"].as_u64(), result["duplicates"].as_u64()), (Some(0), Some(0)));
        assert_eq!(result["balanced"], true);
        // The last packet went up to an interval before the cut, and two more are missed.
        assert!(result["switched_ms"].as_f64().unwrap() > 150.0, "{result:#}");
        assert!(result["outage_ms"].as_f64().unwrap() > 100.0, "{result:#}");
    }
}

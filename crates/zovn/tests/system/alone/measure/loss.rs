//! Floods: what is lost of them, and where; and from which rate on.

use super::{has, keys, measured};

const FLOOD: [&str; 6] = ["--duration", "700ms", "--receiver-rate", "2000", "--senders", "2"];

#[test]
fn a_flooded_bridge_loses_and_says_where() {
    let (object, code) = measured(&[&["loss", "--switch", "bridge"], &FLOOD[..]].concat());
    assert_eq!(code, Some(0));
    has(&object, &["zovn", "experiment", "environment", "config", "results"]);
    assert_eq!(object["experiment"], "loss");
    let result = &object["results"][0];
    let figures = [
        "switch",
        "sent",
        "received",
        "lost",
        "loss_ratio",
        "lost_at",
        "duration_s",
        "rx_gbps",
        "ledger",
    ];
    has(result, &figures);
    let points = [
        "sender_socket",
        "sender_vnic",
        "switch_in",
        "switch_out",
        "receiver_vnic",
        "receiver_socket",
    ];
    assert_eq!(keys(&result["lost_at"]), points.into());
    let lost = result["lost"].as_u64().unwrap();
    let placed: u64 = points.iter().map(|point| result["lost_at"][point].as_u64().unwrap()).sum();
    assert!(lost > 0);
    assert_eq!(placed, lost);
}

#[test]
fn a_flooded_zovn_loses_nothing() {
    let (object, code) = measured(&[&["loss", "--switch", "zovn"], &FLOOD[..]].concat());
    let result = &object["results"][0];
    assert_eq!((result["lost"].as_u64(), code), (Some(0), Some(0)), "{result:#}");
    assert!(result["received"].as_u64().unwrap() > 0);
    let ledger = &result["ledger"];
    assert_eq!(ledger["accepted"], ledger["delivered"]);
}

#[test]
fn a_ramp_rises_step_by_step() {
    let arguments = [
        "ramp",
        "--switch",
        "bridge",
        "--senders",
        "2",
        "--step",
        "200",
        "--to",
        "500",
        "--duration",
        "500ms",
    ];
    let (object, code) = measured(&arguments);
    let result = &object["results"][0];
    assert_eq!(code, Some(0), "{result:#}");
    has(result, &["switch", "saturation_fps", "saturated", "generator_limited", "balanced"]);
    let steps = result["steps"].as_array().unwrap();
    let targets: Vec<_> = steps.iter().map(|step| step["target_fps"].as_f64().unwrap()).collect();
    assert_eq!(targets, [400.0, 800.0]);
    for step in steps {
        has(
            step,
            &[
                "sent_fps",
                "sender_blocked",
                "rx_fps",
                "rx_gbps",
                "sent",
                "received",
                "lost",
                "loss_ratio",
            ],
        );
        assert!(step["received"].as_u64().unwrap() > 0);
    }
}

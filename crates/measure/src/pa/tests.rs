//! What is found out, compared and refused, without a lab.

use lab::SwitchKind;
use traffic::Samples;
use units::{Rate, Span};

use super::*;
use crate::Readable;
use crate::losses::Losses;

fn config() -> Config {
    Config {
        switches: vec![SwitchKind::Bridge, SwitchKind::Zovn],
        workers: 31,
        aggregators: 1,
        sizes: vec![4],
        queries: 10,
        tcp: vec!["cubic".into()],
        eras: vec![Era::Today],
        rate: Some(Rate::from_gbit(1)),
        buffer: Some(32),
        offload: false,
        think: Span::ZERO,
        background: None,
        baseline: SwitchKind::Bridge,
        rounds: 1,
        testbed: None,
    }
}

fn run_of(switch: SwitchKind, fct_ms: u64) -> Run {
    let mut run = Run::new(switch.into(), "cubic", Era::Today, 4);
    run.fct_ns.extend([fct_ms * 1_000_000; 10]);
    run
}

#[test]
fn the_gain_is_the_baselines_time_over_ours() {
    let runs = vec![run_of(SwitchKind::Bridge, 30), run_of(SwitchKind::Zovn, 2)];
    let [bridge, zovn] = &conclude(runs, &config())[..] else { panic!("two results") };
    assert_eq!(bridge.gain_over, None);
    let gain = zovn.gain_over.unwrap();
    assert_eq!((gain.over, gain.mean, gain.p99), (SwitchKind::Bridge.into(), 15.0, 15.0));
}

#[test]
fn a_query_that_was_not_answered_is_told_and_not_compared() {
    let mut bridge = run_of(SwitchKind::Bridge, 30);
    bridge.fct_ns = Samples::default();
    bridge.fct_ns.extend([1; 7]);
    let runs = vec![bridge, Run::new(SwitchKind::Zovn.into(), "cubic", Era::Today, 4)];
    let results = conclude(runs, &config());
    assert_eq!((results[0].queries, results[1].gain_over), (7, None));
    let report = Measurement::new("pa", Environment::default(), config(), results);
    let broken = report.broken();
    assert!(
        broken[0].contains("bridge") && broken[0].contains("completed 7 of 10 queries"),
        "{broken:?}"
    );
    assert!(broken[1].contains("completed 0 of 10 queries"), "{broken:?}");
}

#[test]
fn the_ideal_is_frames_over_rate() {
    let [zovn] = &conclude(vec![run_of(SwitchKind::Zovn, 2)], &config())[..] else {
        panic!("one result")
    };
    // 31 × 4 frames of 1514 bytes at 8 ns a byte.
    assert_eq!(zovn.ideal_us, Some(1501.888));
    assert_eq!(zovn.response_bytes, 5792);
    assert_eq!(zovn.percentiles_us.len(), 101);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    if !needs::root() {
        return;
    }
    let wrong = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        check(&config).is_err()
    };
    assert!(check(&config()).is_ok());
    assert!(wrong(|config| config.baseline = SwitchKind::Ovs));
    assert!(wrong(|config| config.workers = 0));
    assert!(wrong(|config| config.sizes = vec![0]));
    assert!(wrong(|config| config.sizes = vec![u64::MAX / 1000]));
    assert!(wrong(|config| config.tcp = vec!["nosuch".into()]));
    assert!(wrong(|config| config.switches = vec![SwitchKind::Zovn, SwitchKind::Zovn]));
    assert!(wrong(|config| config.eras = vec![]));
}

#[test]
fn flow_controls_are_compared_on_a_testbed() {
    if !needs::root() {
        return;
    }
    let testbed = super::testbed::tests::testbed("testbed1");
    let config = Config { testbed: Some(testbed), ..config() };
    check(&config).unwrap();
    let zero_loss: FlowControl = "ZZ".parse().unwrap();
    let run_of = |flow_control: FlowControl, fct_ms: u64, lost| {
        let mut run = Run::new(flow_control.into(), "cubic", Era::Today, 4);
        run.fct_ns.extend([fct_ms * 1_000_000; 10]);
        run.losses = Losses { lost, ..Losses::default() };
        run
    };
    let results =
        conclude(vec![run_of(FlowControl::NONE, 300, 7), run_of(zero_loss, 20, 1)], &config);
    let gain = results[1].gain_over.unwrap();
    assert_eq!((gain.over, gain.mean), (FlowControl::NONE.into(), 15.0));
    let json = serde_json::to_value(&results[1]).unwrap();
    assert_eq!(json["flow_control"], "virtual=lossless physical=lossless retransmit=off");
    assert_eq!(json["gain_over"]["flow_control"], "virtual=lossy physical=lossy retransmit=off");
    assert_eq!(serde_json::from_value::<Completion>(json).unwrap(), results[1]);
    let report = Measurement::new("pa", Environment::default(), config, results);
    // What promised nothing may lose.
    assert_eq!(report.broken().len(), 1);
    assert!(report.broken()[0].contains("physical=lossless retransmit=off with 4 segments"));
}

//! Traces that Prometheus has.

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use demand::FitSettings;
use planner::prometheus::{Query, QueryError, Values, traces};
use units::Span;

/// When the traces begin.
const BEGIN: u64 = 1_750_000_000;

/// How many seconds they have: more points than Prometheus answers at once, at one a second.
const SECONDS: u64 = 24_000;

/// A Prometheus that has two machines' counters, a reading each five seconds. It ends with its
/// guard.
struct Running {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start() -> Option<Self> {
        let is_here = ["prometheus", "promtool"].map(|it| needs::program(it, "prometheus"));
        if is_here != [true; 2] {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [text, data, file] = ["metrics", "data", "p.yml"].map(|it| folder.path().join(it));
        fs::write(&text, counters()).unwrap();
        fs::write(&file, "").unwrap();
        let mut made = Command::new("promtool");
        made.args(["tsdb", "create-blocks-from", "openmetrics"]).args([&text, &data]);
        assert!(made.stdout(Stdio::null()).status().unwrap().success());
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = free();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--storage.tsdb.retention.time=100y", "--log.level=error"])
            .spawn()
            .unwrap();
        Some(Self { child, address, _folder: folder })
    }

    fn query(&self, expression: &str, values: Values, step_secs: u64) -> Query {
        Query {
            address: format!("http://{}/", self.address).parse().unwrap(),
            expression: expression.into(),
            by: Vec::new(),
            packets: None,
            paused: None,
            values,
            from: BEGIN,
            to: BEGIN + SECONDS - 5,
            step: Span::from_secs(step_secs),
        }
    }
}

/// Machine `a` sends 80 Mbit/s for 25 of each 100 seconds, `b` 8 Mbit/s always, and was restarted.
fn counters() -> String {
    let mut text = "# TYPE bytes counter\n".to_owned();
    let mut frames = "# TYPE frames counter\n".to_owned();
    let mut paused = "# TYPE zovn_sender_paused_seconds counter\n".to_owned();
    for vm in ["a", "b"] {
        let (mut bytes, rate) = (0u64, if vm == "a" { 10_000_000 } else { 1_000_000 });
        for second in (0..SECONDS).step_by(5) {
            let _ =
                writeln!(text, "bytes_total{{vm=\"{vm}\",job=\"x\"}} {bytes} {}", BEGIN + second);
            // 800 bytes each.
            let at = BEGIN + second;
            let _ = writeln!(frames, "frames_total{{vm=\"{vm}\"}} {} {at}", bytes / 800);
            // `a` for a quarter of the time, `b` never.
            let secs = if vm == "a" { second as f64 / 4.0 } else { 0.0 };
            let name = "zovn_sender_paused_seconds_total";
            let _ = writeln!(paused, "{name}{{vm=\"{vm}\"}} {secs} {at}");
            if vm == "b" && second == 12_000 {
                bytes = 0;
            }
            bytes += if vm == "b" || second % 100 < 25 { 5 * rate } else { 0 };
        }
    }
    text + &frames + &paused + "# EOF\n"
}

/// Asks until Prometheus is there.
fn fitted(query: &Query) -> Result<Vec<planner::fitted::Told>, QueryError> {
    let settings = FitSettings::default();
    loop {
        match traces(query) {
            Ok(all) => {
                return Ok(all.traces.into_iter().map(|it| it.fit(&settings).told()).collect());
            }
            // It is starting, and listens before it is ready.
            Err(QueryError::Web(_) | QueryError::Status { .. }) => sleep(Duration::from_millis(50)),
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn counters_become_a_trace_for_each_machine() {
    let Some(prometheus) = Running::start() else { return };
    let told = fitted(&prometheus.query("bytes_total", Values::Bytes, 5)).unwrap();
    let names: Vec<_> = told.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let [a, b] = &told[..] else { panic!("{told:?}") };
    assert_eq!((a.samples, a.peak, a.step_secs), (4799, 80_000_000, 5.0));
    assert!((a.mean / 20e6 - 1.0).abs() < 0.01, "{}", a.mean);
    // The reading after the restart is no rate.
    assert_eq!((b.samples, b.peak), (4798, 8_000_000));
    assert!(b.doubts.iter().any(|it| it.contains("the counter goes back once")), "{b:?}");
    let is_about_samples = |it: &String| it.contains("repeat them");
    assert!(!a.doubts.iter().any(is_about_samples));

    // More points than are answered at once; and closer than the samples, which is told.
    let told = fitted(&prometheus.query("bytes_total{vm=\"a\"}", Values::Bytes, 1)).unwrap();
    assert_eq!((told[0].name.as_str(), told[0].samples), ("bytes_total", 23_995));
    assert!(told[0].doubts.iter().any(is_about_samples), "{:?}", told[0].doubts);
    assert!((told[0].mean / 20e6 - 1.0).abs() < 0.01);
}

#[test]
fn counters_are_added_up_by_labels() {
    let Some(prometheus) = Running::start() else { return };
    let mut query = prometheus.query("bytes_total", Values::Bytes, 5);
    query.by = vec!["job".into()];
    let told = fitted(&query).unwrap();
    assert_eq!(told[0].frame, None);
    let [x] = &told[..] else { panic!("{told:?}") };
    assert!((x.mean / 28e6 - 1.0).abs() < 0.01, "{}", x.mean);
    assert_eq!(x.samples, 4798);
    assert!(x.doubts.iter().any(|it| it.contains("the counter goes back once")), "{x:?}");
}

#[test]
fn frames_and_pauses_are_asked_for_beside_bytes() {
    let Some(prometheus) = Running::start() else { return };
    let mut query = prometheus.query("bytes_total", Values::Bytes, 5);
    (query.by, query.packets) = (vec!["vm".into()], Some("frames_total".into()));
    let told = fitted(&query).unwrap();
    assert_eq!(told.iter().map(|it| it.frame).collect::<Vec<_>>(), [Some(800); 2]);
    // An expression about ports of zovn has their pauses asked for, too.
    query.expression = "bytes_total or zovn_port_bytes_total".into();
    let told = fitted(&query).unwrap();
    let doubt = "its sender was paused for 25 % of the time";
    let is_told = |doubts: &[String]| doubts.iter().any(|it| it.starts_with(doubt));
    assert_eq!(told.iter().map(|it| is_told(&it.doubts)).collect::<Vec<_>>(), [true, false]);
    query.packets = Some("packets_total".into());
    let error = fitted(&query).unwrap_err().to_string();
    assert!(error.starts_with("`packets_total` has no series in that time: "), "{error}");
}

#[test]
fn averages_are_told_to_be_averages() {
    let Some(prometheus) = Running::start() else { return };
    let rate = "8 * rate(bytes_total{vm=\"a\"}[50s])";
    let told = fitted(&prometheus.query(rate, Values::Rate, 5)).unwrap();
    assert_eq!(told[0].name, "series");
    assert!((told[0].mean / 20e6 - 1.0).abs() < 0.05, "{}", told[0].mean);
    // An average over 50 seconds has no peak of 80 Mbit/s.
    assert!(told[0].peak < 60_000_000, "{}", told[0].peak);
    for doubt in
        ["rate(…[50s]) is an average over 50s", "it is not known how far apart samples are"]
    {
        assert!(told[0].doubts.iter().any(|it| it.starts_with(doubt)), "{told:?}");
    }
}

#[test]
fn what_prometheus_refuses_or_does_not_have_is_told() {
    let Some(prometheus) = Running::start() else { return };
    let wrong = |expression| fitted(&prometheus.query(expression, Values::Bytes, 5)).unwrap_err();
    let refused = wrong("bytes_total{").to_string();
    assert!(
        refused.contains("refuses the query: ") && refused.contains("parse error"),
        "{refused}"
    );
    assert!(matches!(wrong("nothing_total"), QueryError::Nothing { .. }));
    let mut query = prometheus.query("bytes_total", Values::Bytes, 5);
    query.to = BEGIN - 1;
    assert!(matches!(fitted(&query), Err(QueryError::Time { .. })));
    query.to = u64::MAX;
    assert!(matches!(fitted(&query), Err(QueryError::TooMuch { .. })));
    let nobody = Path::new("127.0.0.1:1").display().to_string();
    query.address = nobody.parse().unwrap();
    query.to = BEGIN + 100;
    let error = traces(&query).unwrap_err();
    assert!(matches!(error, QueryError::Web(_)), "{error}");
}

//! Traces out of Prometheus: one for each series that an expression has.
//!
//! Prometheus answers at most 11,000 points of a series at once, so a longer time is asked for
//! piece by piece.

mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use demand::{Series, SeriesError};
use serde::Deserialize;
use serde::de::Error as _;
use tokio::runtime::Builder;
use units::{Instant, Span};

use crate::fitted::{Traced, held_back};
use crate::trace::of_rates;
use crate::web::{self, Address, WebError};

pub use members::Values;

use members::{Labels, Member, Row, Way, frame, paused_share, rows, sends};

/// What is asked of Prometheus.
#[derive(Clone, Debug)]
pub struct Query {
    /// Where it is.
    pub address: Address,
    /// The expression, in PromQL.
    pub expression: String,
    /// Series with the same values of these labels are added up to a trace; none, and each series
    /// is one.
    pub by: Vec<String>,
    /// Frames of the same series, by the labels `by`: a counter, or as many a second, as the
    /// expression's own values are.
    pub packets: Option<String>,
    /// The seconds for which senders of the same series were paused, by the labels `by`: a counter.
    /// If not said, that of zovn's ports, if the expression is about them.
    pub paused: Option<String>,
    /// What its values are.
    pub values: Values,
    /// The first and the last second, since 1970.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// The time between points.
    pub step: Span,
}

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no answer.
    #[error("cannot ask Prometheus")]
    Web(#[from] WebError),
    /// The answer is no answer.
    #[error("{address} does not answer as Prometheus does: see that the address is right")]
    Foreign {
        /// Where.
        address: Address,
        /// Why.
        source: serde_json::Error,
    },
    /// It answers with another status, and says nothing.
    #[error("{address} answers with {status}: see that Prometheus has started, and the address")]
    Status {
        /// Where.
        address: Address,
        /// What it answers with.
        status: StatusCode,
    },
    /// Prometheus refuses the question.
    #[error("Prometheus at {address} refuses the query: {message}")]
    Refused {
        /// Where.
        address: Address,
        /// What it says.
        message: String,
    },
    /// The expression has no series then.
    #[error("`{expression}` has no series in that time: look at it in Prometheus first")]
    Nothing {
        /// The expression.
        expression: String,
    },
    /// No series has a label by which they are to be added up, so all would be one.
    #[error(
        "no series of the query has the label `{label}` (labels: {}): correct `--by`",
        known.join(", ")
    )]
    Label {
        /// The label.
        label: String,
        /// Those that some series have.
        known: Vec<String>,
    },
    /// It is too much at once.
    #[error(
        "{points} points are too many, of {most}: take a longer step, a shorter time or fewer series"
    )]
    TooMuch {
        /// How many points there would be, or are.
        points: u64,
        /// How many there may be.
        most: u64,
    },
    /// The time ends before it begins, or has no step.
    #[error(
        "a time from {from} to {to} has no two points of {step}: correct `--from`, `--to` or `--step`"
    )]
    Time {
        /// When it begins.
        from: u64,
        /// When it ends.
        to: u64,
        /// Its step.
        step: Span,
    },
    /// The runtime cannot be made.
    #[error("cannot ask Prometheus: raise the limit on open files")]
    Runtime(#[source] std::io::Error),
    /// No series is a trace.
    #[error("no series of the query is a trace, as {name}: take a longer time or a shorter step")]
    Series {
        /// The name of the last.
        name: String,
        /// Why not.
        source: SeriesError,
    },
}

/// Points of a series that are asked for at once: Prometheus' limit is 11,000.
const POINTS: u64 = 10_000;

/// Points that are asked for first: how many series there are is not known then.
const FIRST_POINTS: u64 = 100;

/// Points of all series together that are asked for at once: a point has some 30 bytes.
const PIECE_POINTS: u64 = 2_000_000;

/// More points than this are not kept.
const MOST_POINTS: u64 = 50_000_000;

/// The longest answer.
const ANSWER_LIMIT_BYTES: usize = 256 << 20;

/// How long an answer is waited for: Prometheus itself gives up after two minutes.
const PATIENCE: Duration = Duration::from_secs(150);

/// What counts the bytes of zovn's ports, and the seconds for which their senders were paused.
const PORT_BYTES: &str = "zovn_port_bytes_total";
const PORT_PAUSED: &str = "zovn_sender_paused_seconds_total";

/// How far back single samples are looked at, to see how far apart they are.
const LOOK_BACK: &str = "1h";

/// Traces of series, and those that are none.
#[derive(Debug, Default)]
pub struct Traces {
    /// Traces.
    pub traces: Vec<Traced>,
    /// Names of series that are no traces, and why not.
    pub left_out: Vec<(String, SeriesError)>,
}

/// Makes a trace of each series.
///
/// # Errors
///
/// [`QueryError`]
pub fn traces(query: &Query) -> Result<Traces, QueryError> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(QueryError::Runtime)?;
    let (sampled, beside, scraped) = runtime.block_on(async {
        let sampled = fetch(query, &query.expression).await?;
        let mut beside = Beside::default();
        if let Some(packets) = &query.packets {
            beside.packets = fetch(query, packets).await?;
        }
        if let Some(paused) = &query.paused {
            beside.paused = fetch(query, paused).await?;
        } else if query.is_of_ports() && !query.by.is_empty() {
            // Nobody has asked for it: where it is missing that is told, and all else stays.
            beside.paused = fetch(query, PORT_PAUSED).await.unwrap_or_default();
        }
        // An expression that is no plain selector has no single samples: nothing is known then.
        Ok::<_, QueryError>((sampled, beside, scraped_every(query).await.unwrap_or(None)))
    })?;
    trace_each(query, sampled, beside, &doubts(query, scraped))
}

/// What is known of the same machines beside their bytes.
#[derive(Default)]
struct Beside {
    packets: Sampled,
    paused: Sampled,
}

impl Query {
    /// Whether it is about ports of zovn's agents.
    fn is_of_ports(&self) -> bool {
        self.expression.contains(PORT_BYTES)
    }
}

/// Makes a trace of each series, or group of them, that is one. What came or went may have too few
/// points.
fn trace_each(
    query: &Query,
    sampled: Sampled,
    beside: Beside,
    doubts: &[String],
) -> Result<Traces, QueryError> {
    let groups = groups(query, sampled)?;
    let of = |sampled: Sampled| {
        if sampled.is_empty() { Ok(Groups::new()) } else { self::groups(query, sampled) }
    };
    let (packets, paused) = (of(beside.packets)?, of(beside.paused)?);
    let names = names(groups.keys());
    let mut all = Traces::default();
    for ((labels, members), name) in groups.into_iter().zip(names) {
        let points = rows(&members);
        let times = times(query, &points)?;
        match series(query, &times, &points) {
            Ok(series) => {
                let sends = sends(query.values, &members, &points);
                let frame = packets.get(&labels).and_then(|it| frame(query.values, &members, it));
                let share = paused.get(&labels).and_then(|it| paused_share(it));
                let mut doubts = doubts.to_vec();
                doubts.extend(match share {
                    Some(share) => held_back(share),
                    None if query.paused.is_some() || query.is_of_ports() => Some(UNKNOWN.into()),
                    None => None,
                });
                all.traces.push(Traced { name, series, sends, frame, doubts });
            }
            Err(source) => all.left_out.push((name, source)),
        }
    }
    match all.left_out.pop() {
        Some((name, source)) if all.traces.is_empty() => Err(QueryError::Series { name, source }),
        last => {
            all.left_out.extend(last);
            Ok(all)
        }
    }
}

/// A series' labels, and its points.
type Sampled = BTreeMap<Labels, Vec<(f64, f64)>>;

/// Series that are added up, by the labels that they have in common.
type Groups = BTreeMap<Labels, Vec<Member>>;

fn groups(query: &Query, sampled: Sampled) -> Result<Groups, QueryError> {
    let by = &query.by;
    let is_known = |label: &&String| sampled.keys().any(|labels| labels.contains_key(*label));
    let unknown = by.iter().find(|label| !is_known(label));
    if let Some(label) = unknown {
        let known: BTreeSet<String> = sampled.into_keys().flat_map(BTreeMap::into_keys).collect();
        let known = known.into_iter().collect();
        return Err(QueryError::Label { label: label.clone(), known });
    }
    let mut groups = Groups::new();
    for (mut labels, points) in sampled {
        let way = Way::of(&query.expression, &labels);
        if !by.is_empty() {
            labels.retain(|label, _| by.contains(label));
        }
        groups.entry(labels).or_default().push(Member { way, points });
    }
    Ok(groups)
}

/// What is told of a trace of which pauses are asked for, and not known.
const UNKNOWN: &str = "it is not known whether its sender was paused, as no series with the same \
    labels counts that (`--by`, `--paused`): if it was, it asks for more than the trace tells";

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<OneSeries>,
}

#[derive(Deserialize)]
struct OneSeries {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// All points of an expression, piece by piece.
async fn fetch(query: &Query, expression: &str) -> Result<Sampled, QueryError> {
    let Query { from, to, step, .. } = *query;
    let step_ms = step.as_nanos() / 1_000_000;
    if step_ms == 0 || to.saturating_sub(from).saturating_mul(1000) < step_ms {
        return Err(QueryError::Time { from, to, step });
    }
    let (mut at, end) = (from.saturating_mul(1000), to.saturating_mul(1000));
    let too_much = |points| QueryError::TooMuch { points, most: MOST_POINTS };
    let each = (end - at) / step_ms + 1;
    if each > MOST_POINTS {
        return Err(too_much(each));
    }
    let mut sampled = Sampled::new();
    let (mut points, mut piece) = (0, FIRST_POINTS);
    while at <= end {
        let last = end.min(at.saturating_add((piece - 1) * step_ms));
        let secs = |ms: u64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let path = format!(
            "/api/v1/query_range?query={}&start={}&end={}&step={}",
            escaped(expression),
            secs(at),
            secs(last),
            secs(step_ms)
        );
        for OneSeries { metric, values } in ask(query, &path).await?.result {
            points += values.len() as u64;
            let all = sampled.entry(metric).or_default();
            // What is no number is missing.
            let numbers = values.iter().filter_map(|(at, value)| Some((*at, value.parse().ok()?)));
            all.extend(numbers.filter(|it: &(f64, f64)| it.1.is_finite() && it.1 >= 0.0));
        }
        if points > MOST_POINTS {
            return Err(too_much(points));
        }
        let Some(next) = last.checked_add(step_ms) else { break };
        at = next;
        piece = piece_of(sampled.len());
    }
    if sampled.is_empty() {
        return Err(QueryError::Nothing { expression: expression.to_owned() });
    }
    Ok(sampled)
}

/// How many points of so many series are asked for at once.
fn piece_of(series: usize) -> u64 {
    (PIECE_POINTS / (series as u64).max(1)).clamp(1, POINTS)
}

/// How far apart the samples are of which points are made: the median of the last hour.
async fn scraped_every(query: &Query) -> Result<Option<Span>, QueryError> {
    let expression = escaped(&format!("{}[{LOOK_BACK}]", query.expression));
    let path = format!("/api/v1/query?query={expression}&time={}", query.to);
    let mut apart: Vec<u64> = Vec::new();
    for OneSeries { values, .. } in ask(query, &path).await?.result {
        apart.extend(values.windows(2).map(|pair| ((pair[1].0 - pair[0].0) * 1e3) as u64));
    }
    apart.sort_unstable();
    let Some(ms) = apart.get(apart.len() / 2) else { return Ok(None) };
    let apart = ms.checked_mul(1_000_000).ok_or_else(|| foreign(query))?;
    Ok(Some(Span::from_nanos(apart)))
}

async fn ask(query: &Query, path: &str) -> Result<Data, QueryError> {
    let address = || query.address.clone();
    let (status, body) = web::get(&query.address, path, ANSWER_LIMIT_BYTES, PATIENCE).await?;
    // A query that is refused has another status, too, and a sentence in its body.
    let answer: Answer = serde_json::from_slice(&body).map_err(|source| match status {
        StatusCode::OK => QueryError::Foreign { address: address(), source },
        status => QueryError::Status { address: address(), status },
    })?;
    match answer.data {
        Some(data) if answer.status == "success" => Ok(data),
        _ => Err(QueryError::Refused { address: address(), message: answer.error }),
    }
}

/// An expression in an address (RFC 3986, section 2.1).
fn escaped(expression: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    expression.bytes().map(escaped).collect()
}

/// What stands for an answer with numbers that nobody has.
fn foreign(query: &Query) -> QueryError {
    let source = serde_json::Error::custom("a time is beyond what a clock has");
    QueryError::Foreign { address: query.address.clone(), source }
}

/// When points were. Prometheus' clock ticks in milliseconds.
fn times(query: &Query, points: &[Row]) -> Result<Vec<Instant>, QueryError> {
    let time = |(at, _): &Row| {
        let millis = (at.max(0.0) * 1e3).round() as u64;
        millis.checked_mul(1_000_000).map(Instant::from_nanos).ok_or_else(|| foreign(query))
    };
    points.iter().map(time).collect()
}

fn series(query: &Query, times: &[Instant], points: &[Row]) -> Result<Series, SeriesError> {
    let values = points.iter().map(|it| &it.1);
    match query.values {
        Values::Bytes => {
            let whole = |row: &Vec<f64>| row.iter().map(|it| *it as u64).collect();
            let counters: Vec<Vec<u64>> = values.map(whole).collect();
            Series::from_counters(times, &counters, 8)
        }
        Values::Rate => {
            let rates: Vec<f64> = values.map(|row| row.iter().sum()).collect();
            of_rates(times, &rates)
        }
    }
}

/// Names of series: the values of those labels by which they differ.
fn names<'a>(all: impl Iterator<Item = &'a Labels> + Clone) -> Vec<String> {
    let keys: BTreeSet<&String> = all.clone().flat_map(BTreeMap::keys).collect();
    let differs = |key: &&&String| {
        let values: BTreeSet<_> = all.clone().map(|labels| labels.get(**key)).collect();
        values.len() > 1
    };
    let keys: Vec<_> = keys.iter().filter(differs).collect();
    let name = |labels: &Labels| {
        let values: Vec<_> =
            keys.iter().filter_map(|key| labels.get(**key)).map(String::as_str).collect();
        match &values[..] {
            [] => labels.get("__name__").cloned().unwrap_or_else(|| "series".into()),
            values => values.join("/"),
        }
    };
    let mut names: Vec<String> = all.clone().map(name).collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    if distinct.len() < names.len() {
        // Joined, two are alike: all that is said of them tells them apart.
        let whole = |labels: &Labels| {
            let labels: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
            labels.join(",")
        };
        names = all.map(whole).collect();
    }
    names
}

/// Why not to trust points of an expression, beside what a fit itself says.
fn doubts(query: &Query, scraped: Option<Span>) -> Vec<String> {
    let mut doubts = Vec::new();
    let step = query.step;
    match scraped {
        Some(scraped) if scraped > step => doubts.push(format!(
            "samples are {scraped} apart, so points every {step} repeat them: take a step of {scraped} or a multiple"
        )),
        Some(_) => {}
        None => doubts.push(
            "it is not known how far apart samples are: take a step that is the time between scrapes, or a multiple".into(),
        ),
    }
    if query.values == Values::Bytes && is_sum(&query.expression) {
        doubts.push(
            "of a sum, a counter that begins anew is not seen while others grow: ask for the counters themselves, and add them up by labels (`--by`)".into(),
        );
    }
    for (function, window) in windows(&query.expression) {
        doubts.push(format!(
            "{function}(…[{window}]) is an average over {window}: what is shorter is not seen; ask for the counter itself, if its samples are closer"
        ));
    }
    doubts
}

/// Functions of an expression that take a window, and their windows.
fn windows(expression: &str) -> Vec<(String, String)> {
    let expression = without_strings(expression);
    let mut windows = Vec::new();
    for (at, _) in expression.match_indices('[') {
        let Some(window) = expression[at + 1..].split([']', ':']).next() else { continue };
        // The innermost parenthesis that is open there is the function's.
        let mut depth = 0;
        let open = expression[..at].char_indices().rev().find(|(_, it)| {
            match it {
                ')' => depth += 1,
                '(' if depth == 0 => return true,
                '(' => depth -= 1,
                _ => {}
            }
            false
        });
        let Some((open, _)) = open else { continue };
        let before = expression[..open].trim_end();
        let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let begin = before.rfind(|it| !is_word(it)).map_or(0, |it| it + 1);
        let averages = ["rate", "irate", "increase", "avg_over_time", "deriv", "delta"];
        if averages.contains(&&before[begin..]) {
            windows.push((before[begin..].to_owned(), window.trim().to_owned()));
        }
    }
    windows
}

/// Whether an expression adds up counters.
fn is_sum(expression: &str) -> bool {
    let plain = without_strings(expression);
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    plain.contains('+') || plain.split(|it| !is_word(it)).any(|word| word == "sum")
}

/// An expression without what is between quotes.
fn without_strings(expression: &str) -> String {
    let (mut plain, mut quote, mut is_escaped) = (String::new(), None, false);
    for it in expression.chars() {
        match quote {
            None => {
                plain.push(it);
                quote = ['"', '\'', '`'].contains(&it).then_some(it);
            }
            Some(_) if is_escaped => is_escaped = false,
            // Between backticks nothing is escaped.
            Some(end) if it == '\\' && end != '`' => is_escaped = true,
            Some(end) if it == end => quote = None,
            Some(_) => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use demand::Fault;

    fn query(expression: &str) -> Query {
        Query {
            address: "a:1".parse().unwrap(),
            expression: expression.into(),
            by: Vec::new(),
            packets: None,
            paused: None,
            values: Values::Bytes,
            from: 0,
            to: 1,
            step: Span::from_secs(15),
        }
    }

    #[test]
    fn windows_are_averages_and_steps_below_the_samples_repeat_them() {
        let windows = |expression| {
            let all = windows(expression).into_iter();
            all.map(|(function, window)| format!("{function} {window}")).collect::<Vec<_>>()
        };
        assert_eq!(windows("sum by (vm) (rate(a{b=\"(\\\"\"}[5m])) * 8"), ["rate 5m"]);
        let two = "irate(x[1m]) + max_over_time(rate(y[2m])[1h:])";
        assert_eq!(windows(two), ["irate 1m", "rate 2m"]);
        for none in ["", "[", "a[5m]", "(a[5m])", "🦀[5m", "rate", "a{b=\"[\"}"] {
            assert!(windows(none).is_empty(), "{none}");
        }
        let told = doubts(&query("a"), Some(Span::from_secs(60)));
        assert_eq!(
            told,
            [
                "samples are 1min apart, so points every 15s repeat them: take a step of 1min or a multiple"
            ]
        );
        assert!(doubts(&query("a"), Some(Span::from_secs(15))).is_empty());
        let told = doubts(&query("sum by (b) (a)"), Some(Span::from_secs(15)));
        assert!(told.len() == 1 && told[0].starts_with("of a sum, "), "{told:?}");
        for (expression, adds) in [("a{b=\"+\"}", false), ("sum_total", false), ("a + b", true)] {
            assert_eq!(is_sum(expression), adds, "{expression}");
        }
        let told = doubts(&query("a"), None);
        assert!(told[0].starts_with("it is not known how far apart samples are"), "{told:?}");
    }

    #[test]
    fn a_series_that_is_no_trace_is_left_out() {
        let vm = |name: &str| BTreeMap::from([("vm".to_owned(), name.to_owned())]);
        let points = |count: u32| (0..count).map(|at| (f64::from(15 * at), f64::from(at) * 1e6));
        let short = Sampled::from([(vm("short"), points(2).collect())]);
        let mut both = short.clone();
        both.insert(vm("long"), points(500).collect());
        let told = trace_each(&query("a"), both, Beside::default(), &["old".into()]).unwrap();
        assert_eq!(told.traces.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["long"]);
        assert_eq!(told.traces[0].doubts, ["old"]);
        assert_eq!(told.left_out, [("short".to_owned(), SeriesError::Short { samples: 1 })]);
        let error = trace_each(&query("a"), short.clone(), Beside::default(), &[]).unwrap_err();
        assert!(matches!(error, QueryError::Series { .. }), "{error}");
        // No clock has such a time.
        let late = Sampled::from([(vm("late"), vec![(1e300, 1.0)])]);
        let error = trace_each(&query("a"), late, Beside::default(), &[]).unwrap_err();
        assert!(matches!(error, QueryError::Foreign { .. }), "{error}");
    }

    #[test]
    fn series_are_added_up_by_labels() {
        let way = |vm: &str, way: &str| {
            BTreeMap::from([("vm", vm), ("way", way)].map(|(a, b)| (a.to_owned(), b.to_owned())))
        };
        // The counter of what was sent begins anew, but together they have grown.
        let sent = [(0, 1000), (15, 1015), (30, 0), (45, 15), (60, 30), (75, 45)];
        let received = [(0, 0), (15, 15), (30, 2000), (45, 2015), (75, 2015), (90, 9)];
        let points = |all: [(u32, u32); 6]| {
            all.map(|(at, value)| (f64::from(at), f64::from(value))).to_vec()
        };
        let sampled = Sampled::from([
            (way("a", "in"), points(sent)),
            (way("a", "out"), points(received)),
            (way("b", "in"), points(sent)),
        ]);
        let query = Query { by: vec!["vm".into()], ..query("bytes_total") };
        let told = trace_each(&query, sampled.clone(), Beside::default(), &[]).unwrap();
        let [a, b] = &told.traces[..] else { panic!("{told:?}") };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        assert_eq!(a.series.rates().collect::<Vec<_>>(), [16, 16]);
        // Only one of them has a point at 60.
        let faults =
            [Fault::Gaps { count: 1, missing: Span::from_secs(30) }, Fault::Resets { count: 1 }];
        assert_eq!(a.series.faults(), faults);
        assert_eq!(b.series.rates().collect::<Vec<_>>(), [8; 4]);
        let rates = Query { values: Values::Rate, ..query };
        let told = trace_each(&rates, sampled.clone(), Beside::default(), &[]).unwrap();
        assert_eq!(told.traces[0].series.rates().collect::<Vec<_>>(), [1000, 1030, 2000]);
        // Without a label that is mistyped, all would be one trace.
        let mistyped = Query { by: vec!["vm".into(), "wya".into()], ..rates };
        let error = trace_each(&mistyped, sampled, Beside::default(), &[]).unwrap_err().to_string();
        let told = "no series of the query has the label `wya` (labels: vm, way): correct `--by`";
        assert_eq!(error, told);
    }

    #[test]
    fn what_is_sent_and_frames_are_those_that_series_say() {
        let labels = |all: &[(&str, &str)]| -> Labels {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        // Bytes a step, and the frames that they are in.
        let of_vm = |way: &str, class: &str, each: u32| {
            let labels = labels(&[("vm", "a"), ("direction", way), ("class", class)]);
            let points = (0..5).map(|at| (f64::from(15 * at), f64::from(at * each)));
            (labels, points.collect::<Vec<_>>())
        };
        let bytes = Sampled::from([of_vm("tx", "", 9000), of_vm("rx", "", 3000)]);
        let frames = [of_vm("tx", "0", 10), of_vm("tx", "1", 5), of_vm("rx", "0", 5)];
        let told = |query: &Query, bytes: &Sampled, frames: &[(Labels, Vec<(f64, f64)>)]| {
            let packets = frames.iter().cloned().collect();
            let beside = Beside { packets, ..Beside::default() };
            let told = trace_each(query, bytes.clone(), beside, &[]).unwrap();
            (told.traces[0].sends, told.traces[0].frame)
        };
        let counters = Query { by: vec!["vm".into()], ..query("bytes_total") };
        assert_eq!(told(&counters, &bytes, &frames), (Some(0.75), Some(600)));
        assert_eq!(told(&counters, &bytes, &[]), (Some(0.75), None));
        // Frames of one direction alone say nothing of both.
        assert_eq!(told(&counters, &bytes, &frames[..2]), (Some(0.75), None));
        let unknown = Sampled::from([of_vm("out", "", 9000), of_vm("in", "", 3000)]);
        assert_eq!(told(&counters, &unknown, &[of_vm("all", "0", 20)]), (None, Some(600)));
        // Values of rates: each point counts, of bits a second.
        let rates = Query { values: Values::Rate, ..counters };
        assert_eq!(told(&rates, &bytes, &frames), (Some(0.75), Some(75)));
        let other = labels(&[("host", "b")]);
        let packets = Sampled::from([(other, Vec::new())]);
        let error = trace_each(&rates, bytes, Beside { packets, ..Beside::default() }, &[]);
        assert!(matches!(error, Err(QueryError::Label { .. })), "{error:?}");
    }

    #[test]
    fn traces_of_paused_senders_are_doubted() {
        let labels = |vm: &str| BTreeMap::from([("vm".to_owned(), vm.to_owned())]);
        let counted = |vm: &str, each: f64| {
            let points = (0..5).map(|at| (f64::from(15 * at), f64::from(at) * each));
            (labels(vm), points.collect::<Vec<_>>())
        };
        let bytes = || Sampled::from(["a", "b", "c"].map(|vm| counted(vm, 1e6)));
        let told = |query: &Query, paused: Sampled| {
            let beside = Beside { paused, ..Beside::default() };
            let all = trace_each(query, bytes(), beside, &[]).unwrap();
            all.traces.iter().map(|it| it.doubts.concat()).collect::<Vec<_>>()
        };
        let by = |expression| Query { by: vec!["vm".into()], ..query(expression) };
        let paused = Sampled::from([counted("a", 1.5), counted("b", 0.1)]);
        let [a, b, c] = &told(&by(PORT_BYTES), paused)[..] else { panic!("three") };
        assert!(a.starts_with("its sender was paused for 10 % of the time"), "{a}");
        assert_eq!((b.as_str(), c.as_str()), ("", UNKNOWN));
        // Of others nobody knows, unless it is asked for.
        assert_eq!(told(&by("bytes_total"), Sampled::new()), ["", "", ""]);
        assert_eq!(told(&by(PORT_BYTES), Sampled::new()), [UNKNOWN; 3]);
        let asked = Query { paused: Some("waits".into()), ..by("bytes_total") };
        assert_eq!(told(&asked, Sampled::from([counted("a", 0.0)])), ["", UNKNOWN, UNKNOWN]);
    }

    #[test]
    fn the_more_series_the_shorter_are_pieces() {
        assert_eq!([0, 1, 200].map(piece_of), [10_000; 3]);
        assert_eq!([1000, 100_000, 9_000_000].map(piece_of), [2000, 20, 1]);
    }

    #[test]
    fn series_are_named_by_what_tells_them_apart() {
        let sampled = |series: &[&[(&str, &str)]]| -> Sampled {
            let labels = |it: &&[(&str, &str)]| {
                it.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
            };
            series.iter().map(|it| (labels(it), Vec::new())).collect()
        };
        assert_eq!(names(sampled(&[&[("__name__", "bytes"), ("vm", "a")]]).keys()), ["bytes"]);
        assert_eq!(names(sampled(&[&[]]).keys()), ["series"]);
        let two =
            sampled(&[&[("job", "x"), ("vm", "a")], &[("job", "x"), ("vm", "b"), ("if", "0")]]);
        assert_eq!(names(two.keys()), ["0/b", "a"]);
        let alike = sampled(&[&[("a", "1/2"), ("b", "3")], &[("a", "1"), ("b", "2/3")]]);
        assert_eq!(names(alike.keys()), ["a=\"1\",b=\"2/3\"", "a=\"1/2\",b=\"3\""]);
        assert_eq!(escaped("a{b=\"ä\"}"), "a%7Bb%3D%22%C3%A4%22%7D");
    }
}

//! `zovn plan fit`: models of traces.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use demand::{FitSettings, SeriesError};
use figures::{Unit, percent, si};
use planner::fitted::{Fitted, Told, Traced, read_trace};
use planner::hours::{UtcOffset, divide};
use planner::prometheus::{Query, Traces, Values, traces};
use planner::together::Sum;
use planner::told::ToldFits;
use planner::written::models_file;
use planner::{Address, Columns, Counted, TraceError};
use units::Span;

use super::page::{Html, of_fits, put};
use super::words::share;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Fit models to traces, and tell why not to trust them.
///
/// A trace is CSV with a header, or Parquet: a time in seconds, and counters of bytes or a rate. Or
/// it is a series that Prometheus has: a counter of bytes, or with `--bits-per-sec` a rate. Where
/// frames are counted, too, and directions told apart, the model says how large frames are and how
/// much is sent; otherwise what a plan takes for it is told. A series that has too few points for a
/// model, since it came or went, is left out and named on stderr; if that is all of them, the exit
/// code is 1. Gaps, counters that go back and repeated rows are left out of a trace, and told below
/// the table. Of several traces with the same times it tells whether machines are as independent as
/// a plan takes them for. Exit code 0 with doubts, too: they are for you to judge.
#[derive(clap::Args)]
pub struct Args {
    /// The traces.
    #[arg(required_unless_present = "prometheus", value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    asked: Asked,
    /// Write the models into this file, to be given to others by `--with`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The share of time that is planned for: a trace is to be long enough for it.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    epsilon: f64,
    /// How sure it is to be that the mean one plans with is no less than the machine's, of which
    /// the trace shows a part.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// The most states.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = within(1..=16u8))]
    states: u8,
    /// The column that has the time, in seconds [default: time].
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// The column that counts what was sent [default: sent_bytes].
    #[arg(long, value_name = "COLUMN")]
    sent: Option<String>,
    /// The column that counts what was received [default: received_bytes].
    #[arg(long, value_name = "COLUMN")]
    received: Option<String>,
    /// The column that counts the frames which were sent [default: sent_packets].
    #[arg(long, value_name = "COLUMN")]
    sent_packets: Option<String>,
    /// The column that counts the frames which were received [default: received_packets].
    #[arg(long, value_name = "COLUMN")]
    received_packets: Option<String>,
    /// The column that counts the seconds for which its sender was paused [default:
    /// paused_seconds].
    #[arg(long, value_name = "COLUMN")]
    paused_seconds: Option<String>,
    /// A column with a rate, in place of counters.
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with_all = ["sent", "received", "sent_packets", "received_packets"]
    )]
    rate: Option<String>,
    /// What columns count, or the rate a second: b, kb, kib, mb or mib of bytes, or bit, kbit or
    /// mbit [default: b of counters, bit of a rate].
    #[arg(long, value_name = "UNIT", conflicts_with = "prometheus")]
    unit: Option<Counted>,
    /// Fit busy hours of the week and others each by themselves. Hours of weekdays and of weekends
    /// are divided into so many classes by what all traces together ask for, 2 if no number is
    /// said. Times have to be since 1970.
    #[arg(
        long,
        value_name = "CLASSES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = within(2..=8u8)
    )]
    busy: Option<u8>,
    /// How far clocks are ahead of UTC where people live, as +02:00 or -08:00 [default: +00:00].
    #[arg(long, value_name = "OFFSET", requires = "busy", allow_hyphen_values = true)]
    utc_offset: Option<UtcOffset>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

/// What Prometheus is asked.
#[derive(clap::Args)]
struct Asked {
    /// Have traces from Prometheus, a trace for each series of the query, or for each group `--by`.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "traces",
        requires = "query",
        requires = "from"
    )]
    prometheus: Option<Address>,
    /// The query: a counter of bytes, in PromQL.
    #[arg(long, value_name = "PROMQL", requires = "prometheus")]
    query: Option<String>,
    /// Add up series that have the same values of these labels, each counter by itself. A sum in
    /// PromQL hides a counter that begins anew.
    #[arg(long, value_name = "LABELS", requires = "query", value_delimiter = ',')]
    by: Vec<String>,
    /// Another query: a counter of frames, added up by the same labels, from which with the first
    /// comes how large frames are. With `--bits-per-sec` it is frames a second.
    #[arg(long, value_name = "PROMQL", requires = "by")]
    packets: Option<String>,
    /// Another query: a counter of the seconds for which senders were paused, added up by the same
    /// labels [default: zovn_sender_paused_seconds_total, of a query of zovn_port_bytes_total].
    #[arg(long, value_name = "PROMQL", requires = "by")]
    paused: Option<String>,
    /// The query's values are bits a second, not a counter.
    #[arg(long, requires = "query")]
    bits_per_sec: bool,
    /// When traces begin, in seconds since 1970, as `date -d '7 days ago' +%s` says.
    #[arg(long, value_name = "SECONDS", requires = "prometheus")]
    from: Option<u64>,
    /// When they end [default: now].
    #[arg(long, value_name = "SECONDS", requires = "prometheus")]
    to: Option<u64>,
    /// The time between points: that between Prometheus' scrapes, or a multiple of it.
    #[arg(long, value_name = "TIME", default_value = "15s")]
    step: Span,
}

impl Asked {
    /// The query, if Prometheus is to be asked.
    fn query(&self) -> Option<Query> {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        Some(Query {
            address: self.prometheus.clone()?,
            expression: self.query.clone()?,
            by: self.by.clone(),
            packets: self.packets.clone(),
            paused: self.paused.clone(),
            values: if self.bits_per_sec { Values::Rate } else { Values::Bytes },
            from: self.from?,
            to: self.to.unwrap_or_else(now),
            step: self.step,
        })
    }
}

/// Fits, and tells.
pub fn run(args: &Args) -> Outcome {
    let page = args.html.open()?;
    let columns = Columns {
        time: args.time.clone(),
        sent: args.sent.clone(),
        received: args.received.clone(),
        sent_packets: args.sent_packets.clone(),
        received_packets: args.received_packets.clone(),
        paused: args.paused_seconds.clone(),
        rate: args.rate.clone(),
        unit: args.unit,
    };
    let settings = FitSettings {
        epsilon: args.epsilon,
        most_states: args.states.into(),
        confidence: args.confidence,
        ..FitSettings::default()
    };
    let asked = args.asked.query().map(|it| traces(&it)).transpose()?;
    let Traces { traces, left_out } = asked.unwrap_or_default();
    name_left_out(left_out);
    let files = args.traces.iter().map(|it| read_trace(it, &columns));
    let all = traces.into_iter().map(Ok).chain(files);
    // Without hours to be found first, one trace at a time is in memory.
    let mut periods = Vec::new();
    let all: Box<dyn Iterator<Item = Result<Vec<Traced>, TraceError>>> = match args.busy {
        None => Box::new(all.map(|traced| Ok(vec![traced?]))),
        Some(classes) => {
            let all = all.collect::<Result<_, _>>()?;
            let offset = args.utc_offset.unwrap_or_default();
            let divided = divide(all, classes.into(), offset)?;
            name_left_out(divided.left_out);
            periods = divided.periods;
            let traces = divided.traces;
            Box::new(traces.into_iter().map(Ok))
        }
    };
    // Of each trace a fit for each class of hours, and of each class the sum of traces.
    let mut fits: Vec<Vec<Fitted>> = Vec::new();
    let mut sums: Vec<Sum> = Vec::new();
    for traces in all {
        let traces = traces?;
        sums.resize_with(traces.len(), Sum::default);
        sums.iter_mut().zip(&traces).for_each(|(sum, it)| sum.push(&it.series));
        fits.push(traces.into_iter().map(|it| it.fit(&settings)).collect());
    }
    let mut together = sums.iter().enumerate().map(|(class, sum)| {
        let of_class: Vec<&Fitted> = fits.iter().map(|it| &it[class]).collect();
        sum.compare(&of_class, args.epsilon)
    });
    for (period, found) in periods.iter_mut().zip(&mut together) {
        period.together = found;
    }
    let told = |of_trace: &Vec<Fitted>| {
        let names = periods.iter().map(|it| Some(it.name.clone())).chain([None]);
        let told = of_trace.iter().zip(names).map(|(it, period)| Told { period, ..it.told() });
        told.collect::<Vec<_>>()
    };
    let told = ToldFits {
        traces: fits.iter().flat_map(told).collect(),
        together: together.next().flatten(),
        periods,
    };
    if let Some(out) = &args.out {
        fs::write(out, models_file(&fits, &told.periods, &told.remarks()))
            .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    }
    put(page, || of_fits(&told))?;
    show(&told, args.json, || table(&told))?;
    Ok(ExitCode::SUCCESS)
}

/// Means are those of 200 drawn traces: beyond 0.99 these say no more.
fn confidence(word: &str) -> Result<f64, String> {
    let confidence = word.parse().ok().filter(|it| (0.5..=0.99).contains(it));
    confidence.ok_or_else(|| "write a share from 0.5 to 0.99, as 0.95".to_owned())
}

fn name_left_out(left_out: Vec<(String, SeriesError)>) {
    for (name, why) in left_out {
        eprintln!("{name} is left out: {why}");
    }
}

fn table(fits: &ToldFits) -> String {
    let mut table = headed([
        "trace",
        "samples",
        "each",
        "independent",
        "mean",
        "at most",
        "frame",
        "sends",
        "states",
        "share of time",
    ]);
    let rate = |rate: f64| si(rate, Unit::BITS_PER_SEC);
    let unknown = || "unknown".to_owned();
    for it in &fits.traces {
        let states: Vec<_> = it.states.iter().map(|it| rate(it.rate as f64)).collect();
        let shares: Vec<_> = it.states.iter().map(|it| percent(it.share)).collect();
        table.add_row([
            it.title(),
            it.samples.to_string(),
            si(it.step_secs, Unit::SECONDS),
            format!("{:.0}", it.effective_samples),
            rate(it.mean),
            rate(it.mean_high),
            it.frame.map_or_else(unknown, |bytes| format!("{bytes} B")),
            it.sends.map_or_else(unknown, percent),
            states.join(", "),
            shares.join(", "),
        ]);
    }
    let mut told = text(table);
    for it in fits.remarks() {
        told += &format!("\n{it}");
    }
    for it in &fits.traces {
        for doubt in &it.doubts {
            told += &format!("\n{}: {doubt}", it.title());
        }
    }
    told
}

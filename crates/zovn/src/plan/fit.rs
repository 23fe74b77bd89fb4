//! `zovn plan fit`: models of traces.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use demand::FitSettings;
use figures::{Unit, percent, si};
use planner::fitted::{Told, fit_trace, models_file};
use planner::prometheus::{Fits, Query, Values, fit_query};
use planner::{Address, Columns};
use units::Span;

use super::page::{Html, of_fits, put};
use super::words::share;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Fit models to traces, and tell why not to trust them.
///
/// A trace is CSV with a header, or Parquet: a time in seconds, and counters of bytes or a rate. Or
/// it is a series that Prometheus has: a counter of bytes, or with `--bits-per-sec` a rate. A
/// series that has too few points for a model, since it came or went, is left out and named on
/// stderr; if that is all of them, the exit code is 1. Gaps, counters that go back and repeated
/// rows are left out of a trace, and told below the table. Exit code 0 with doubts, too: they are
/// for you to judge.
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
    /// The most states.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = within(1..=16u8))]
    states: u8,
    /// The column that has the time, in seconds [default: time].
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// The column that counts bytes sent [default: sent_bytes].
    #[arg(long, value_name = "COLUMN")]
    sent: Option<String>,
    /// The column that counts bytes received [default: received_bytes].
    #[arg(long, value_name = "COLUMN")]
    received: Option<String>,
    /// A column of bits a second, in place of counters.
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["sent", "received"])]
    rate: Option<String>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

/// What Prometheus is asked.
#[derive(clap::Args)]
struct Asked {
    /// Have traces from Prometheus, a trace for each series of the query.
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
        rate: args.rate.clone(),
    };
    let settings = FitSettings {
        epsilon: args.epsilon,
        most_states: args.states.into(),
        ..FitSettings::default()
    };
    let Fits { mut fits, left_out } = match args.asked.query() {
        Some(query) => fit_query(&query, &settings)?,
        None => Fits::default(),
    };
    for (name, why) in left_out {
        eprintln!("series {name} is left out: {why}");
    }
    for trace in &args.traces {
        fits.push(fit_trace(trace, &columns, &settings)?);
    }
    if let Some(out) = &args.out {
        fs::write(out, models_file(&fits))
            .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    }
    let told: Vec<Told> = fits.iter().map(|it| it.told()).collect();
    put(page, || of_fits(&told))?;
    show(&told, args.json, || table(&told))?;
    Ok(ExitCode::SUCCESS)
}

fn table(fits: &[Told]) -> String {
    let mut table =
        headed(["trace", "samples", "independent", "mean", "at most", "states", "share of time"]);
    let rate = |rate: f64| si(rate, Unit::BITS_PER_SEC);
    for it in fits {
        let states: Vec<_> = it.states.iter().map(|it| rate(it.rate as f64)).collect();
        let shares: Vec<_> = it.states.iter().map(|it| percent(it.share)).collect();
        table.add_row([
            it.name.clone(),
            it.samples.to_string(),
            format!("{:.0}", it.effective_samples),
            rate(it.mean),
            rate(it.mean_high),
            states.join(", "),
            shares.join(", "),
        ]);
    }
    let mut told = text(table);
    for it in fits {
        for doubt in &it.doubts {
            told += &format!("\n{}: {doubt}", it.name);
        }
    }
    told
}

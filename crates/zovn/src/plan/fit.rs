//! `zovn plan fit`: models of traces.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use demand::FitSettings;
use figures::{Unit, percent, si};
use planner::Columns;
use planner::fitted::{Told, fit_trace, models_file};

use super::words::share;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Fit models to traces, and tell why not to trust them.
///
/// A trace is CSV with a header, or Parquet: a time in seconds, and counters of bytes or a rate.
/// Exit code 0 with doubts, too: they are for you to judge.
#[derive(clap::Args)]
pub struct Args {
    /// The traces.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
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
}

/// Fits, and tells.
pub fn run(args: &Args) -> Outcome {
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
    let mut fits = Vec::new();
    for trace in &args.traces {
        fits.push(fit_trace(trace, &columns, &settings)?);
    }
    if let Some(out) = &args.out {
        fs::write(out, models_file(&fits))
            .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    }
    let told: Vec<Told> = fits.iter().map(|it| it.told()).collect();
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

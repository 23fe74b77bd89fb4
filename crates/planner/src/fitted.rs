//! A trace and the model that was fitted to it, with the reasons not to trust it.

use std::path::Path;

use demand::{Fit, FitSettings, Series, fit};
use figures::percent;
use serde::Serialize;
use units::Span;

use crate::columns::Columns;
use crate::file::FULL_FRAME;
use crate::trace::{Trace, TraceError, read};

/// A trace, to which a model can be fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// The name of the trace's file without its ending, or of a series.
    pub name: String,
    /// Bits a second, both directions together.
    pub series: Series,
    /// The share that was sent, if the trace tells directions apart.
    pub sends: Option<f64>,
    /// The mean bytes of a frame, if the trace counts frames.
    pub frame: Option<u64>,
    /// Reasons not to trust it that are not in it.
    pub doubts: Vec<String>,
}

impl Traced {
    /// Fits a model.
    pub fn fit(self, settings: &FitSettings) -> Fitted {
        let Self { name, series, sends, frame, doubts } = self;
        let faults = series.faults().iter().map(ToString::to_string);
        Fitted {
            traced: quantiles(series.rates().collect()),
            samples: series.samples().len(),
            step: series.step(),
            faults: doubts.into_iter().chain(faults).collect(),
            sends,
            frame,
            fit: fit(&series, settings),
            name,
        }
    }
}

/// A fit of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The name of the trace's file without its ending.
    pub name: String,
    /// How many samples it has.
    pub samples: usize,
    /// The time between them.
    pub step: Span,
    /// What was left out of it.
    pub faults: Vec<String>,
    /// The share that was sent, if the trace tells directions apart.
    pub sends: Option<f64>,
    /// The mean bytes of a frame, if the trace counts frames.
    pub frame: Option<u64>,
    /// Rates of the trace, from the highest down, and the share of its samples that have each or
    /// more.
    traced: Vec<Reached>,
    /// The fit.
    pub fit: Fit,
}

/// A rate, and for how much of the time it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// Bits a second.
    pub rate: u64,
    /// The share of time.
    pub share: f64,
}

/// Rates at equal shares of samples, from the highest down, and at the last sample that has each.
fn quantiles(mut rates: Vec<u64>) -> Vec<Reached> {
    const MOST: usize = 100;
    rates.sort_unstable_by(|one, other| other.cmp(one));
    let mut reached: Vec<Reached> = Vec::new();
    for place in (0..rates.len()).step_by(rates.len().div_ceil(MOST).max(1)) {
        let rate = rates[place];
        if reached.last().is_none_or(|it| it.rate > rate) {
            let samples = rates.partition_point(|it| *it >= rate);
            reached.push(Reached { rate, share: samples as f64 / rates.len() as f64 });
        }
    }
    reached
}

/// Reads a trace.
///
/// # Errors
///
/// [`TraceError`] says why the file is no trace.
pub fn read_trace(path: &Path, columns: &Columns) -> Result<Traced, TraceError> {
    let Trace { series, sends, frame, paused } = read(path, columns)?;
    let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let doubts = paused.and_then(held_back).into_iter().collect();
    Ok(Traced { name, series, sends, frame, doubts })
}

/// Reads a trace and fits a model to it.
///
/// # Errors
///
/// [`TraceError`] says why the file is no trace.
pub fn fit_trace(
    path: &Path,
    columns: &Columns,
    settings: &FitSettings,
) -> Result<Fitted, TraceError> {
    Ok(read_trace(path, columns)?.fit(settings))
}

/// What is told of a fit. Rates are bits a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// The trace.
    pub name: String,
    /// The class of hours, if these are divided.
    pub period: Option<String>,
    /// How many samples it has, and how many independent ones they are worth.
    pub samples: usize,
    /// See `samples`.
    pub effective_samples: f64,
    /// Seconds between samples.
    pub step_secs: f64,
    /// The mean rate: as it is in the trace, and the most it may be.
    pub mean: f64,
    /// See `mean`; one plans with this one.
    pub mean_high: f64,
    /// The highest rate of the model.
    pub peak: u64,
    /// The share that was sent, and the mean bytes of a frame, if the trace says them.
    pub sends: Option<f64>,
    /// See `sends`.
    pub frame: Option<u64>,
    /// States of the model that one plans with.
    pub states: Vec<ToldState>,
    /// Rates of the trace itself, from the highest down, and for how much of the time it has each
    /// or more.
    pub traced: Vec<Reached>,
    /// Why not to trust it, and what was left out: a sentence each.
    pub doubts: Vec<String>,
}

/// What is told of a state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldState {
    /// Bits a second.
    pub rate: u64,
    /// The share of time in it.
    pub share: f64,
    /// The mean seconds of a stay.
    pub hold_secs: f64,
}

impl Told {
    /// The trace, and the class of hours if these are divided.
    pub fn title(&self) -> String {
        match &self.period {
            None => self.name.clone(),
            Some(period) => format!("{}, {period}", self.name),
        }
    }
}

impl Fitted {
    /// Reasons not to trust the fit, and what was left out of the trace.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let doubts = self.fit.doubts.iter().map(ToString::to_string);
        self.faults.iter().cloned().chain(doubts).collect()
    }

    /// What is told of it.
    pub fn told(&self) -> Told {
        let model = self.fit.careful();
        let states = model.states().iter().zip(model.shares()).map(|(state, share)| ToldState {
            rate: state.rate,
            share: *share,
            hold_secs: state.hold.as_secs_f64(),
        });
        Told {
            name: self.name.clone(),
            period: None,
            samples: self.samples,
            effective_samples: self.fit.effective_samples,
            step_secs: self.step.as_secs_f64(),
            mean: self.fit.mean.value,
            mean_high: self.fit.mean.high,
            peak: model.source().peak(),
            sends: self.sends,
            frame: self.frame,
            states: states.collect(),
            traced: self.traced.clone(),
            doubts: self.doubts().into_iter().chain(taken(self.frame, self.sends)).collect(),
        }
    }
}

/// A sender that is paused for a longer share of time asks for more than its trace tells.
const MOST_PAUSED: f64 = 0.01;

/// What is told of a trace whose sender was paused for a share of its time.
pub(crate) fn held_back(paused: f64) -> Option<String> {
    (paused > MOST_PAUSED).then(|| {
        format!(
            "its sender was paused for {} of the time: it asks for more than the trace tells, so \
             trace it where its switch and its receivers have room",
            percent(paused)
        )
    })
}

/// What a plan takes for what nobody says, a sentence each.
pub(crate) fn taken(frame: Option<u64>, sends: Option<f64>) -> Vec<String> {
    let frame = frame.is_none().then(|| {
        format!(
            "frames are taken to have {FULL_FRAME} bytes, as nothing says how many they have: \
             smaller ones take a switch more (`frame`, or a count of packets in the trace)"
        )
    });
    let sends = sends.is_none().then(|| {
        "half of the traffic is taken to be sent, as nothing says how much is: a card carries less \
         if one direction has more (`sends`, or counters of both directions in the trace)"
            .to_owned()
    });
    frame.into_iter().chain(sends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::fs;

    use units::Instant;

    #[test]
    fn a_traces_own_rates_are_told_beside_the_model() {
        let reached = |rates: &[u64]| -> Vec<(u64, f64)> {
            quantiles(rates.to_vec()).iter().map(|it| (it.rate, it.share)).collect()
        };
        assert_eq!(reached(&[5, 0, 9, 0]), [(9, 0.25), (5, 0.5), (0, 1.0)]);
        assert_eq!(reached(&[7; 1000]), [(7, 1.0)]);
        let all = reached(&(0..1000).collect::<Vec<_>>());
        assert_eq!((all.len(), all[0], all[50]), (100, (999, 0.001), (499, 0.501)));
        let rates: Vec<u64> =
            (0..2000).map(|it| if it % 20 < 5 { 80_000_000 } else { 0 }).collect();
        let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &rates).unwrap();
        let traced =
            Traced { name: "db".into(), series, sends: None, frame: None, doubts: Vec::new() };
        let told = traced.fit(&FitSettings::default()).told();
        assert_eq!((told.traced.len(), told.traced[0].rate), (2, 80_000_000));
        assert!((told.traced[0].share - 0.25).abs() < 1e-3, "{told:?}");
    }

    #[test]
    fn a_trace_of_a_paused_sender_is_doubted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.csv");
        let doubts = |paused: f64| {
            let mut text = "time,sent_bytes,paused_seconds\n".to_owned();
            for row in 0..200 {
                let _ = writeln!(text, "{row},{},{}", 1000 * row, f64::from(row) * paused);
            }
            fs::write(&path, text).unwrap();
            let fitted = fit_trace(&path, &Columns::default(), &FitSettings::default()).unwrap();
            fitted.told().doubts
        };
        let told = doubts(0.125);
        assert!(told[0].starts_with("its sender was paused for 12.5 % of the time"), "{told:?}");
        let told = doubts(0.009);
        assert!(!told.iter().any(|it| it.contains("paused")), "{told:?}");
    }
}

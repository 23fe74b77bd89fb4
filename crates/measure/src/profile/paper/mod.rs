//! The paper's own measurement (Sarker et al., ICN 2016, §III): TCP streams for minutes (figure 4),
//! and downloads of a small file and of a large one, over and over (figures 7 and 8).
//!
//! ```text
//!   1. a trial      each case once: that it works, and how long all of it takes
//!   2. streams      each case once, for the whole duration; told by parts of that time
//!   3. downloads    each case has its turn (A B C A B C), with some downloads of each size
//! ```
//!
//! As in a [profile](super), no delay is added.

mod report;
mod schedule;
mod transfers;

use std::time::Instant;

use lab::{Lab, SwitchKind};
use units::{Bytes, Span};

pub use self::report::{Carried, Config, Report, Transfer};

use self::schedule::{Estimate, Step, Work, steps, words};
use self::transfers::Samples;
use super::all;
use super::cases::{Case, Choice};
use super::confined::available;
use super::report::CONGESTION;
use crate::readable::many;
use crate::site::raise;
use crate::{Bench, Environment, MeasureError, Measurement, check_congestion, check_switches};

/// A case, and what was found of it.
struct Found {
    case: Case,
    /// Whether endpoints hand large segments over.
    offload: bool,
    streams: Samples,
    /// Those of each size.
    downloads: Vec<Samples>,
}

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    let cases = check(&config)?;
    let environment = Environment::look();
    let mut all: Vec<Found> = cases.into_iter().map(|case| Found::new(case, &config)).collect();
    bench.progress.begin(all.len());
    let mut estimates = Vec::new();
    for found in &all {
        bench.step(&format!("{}: a trial", found.case))?;
        estimates.push(found.trial(bench, &config)?);
    }
    let steps = steps(&estimates, &config);
    let whole: f64 = steps.iter().map(|step| step.seconds).sum();
    let plan = plan(&config, all.len());
    bench.progress.tell(&format!("{plan}: about {} in all", words(whole)));
    bench.progress.begin(steps.iter().map(Step::weight).sum());
    let mut passed = 0.0;
    for step in &steps {
        let found = &mut all[step.case];
        let doing = step.work.doing(&config);
        let at = format!("{} of about {}", words(passed), words(whole));
        bench.long_step(&format!("{}: {doing} ({at})", found.case), step.weight())?;
        found.make(bench, &config, step.work)?;
        passed += step.seconds;
    }
    let results = all.iter().flat_map(|found| found.told(&config)).collect();
    Ok(Measurement::new("paper", environment, config, results))
}

fn check(config: &Config) -> Result<Vec<Case>, MeasureError> {
    let wrong = |what: &str| Err(MeasureError::Config(what.into()));
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    if config.streams == 0 || config.rounds == 0 || config.duration == Span::ZERO {
        return wrong("the paper's measurement needs a stream, a round and some time");
    }
    if config.downloads.is_empty() || config.downloads.contains(&Bytes(0)) {
        return wrong("downloads need a size of a byte at least: write `--downloads 10mb,5gb`");
    }
    check_congestion(CONGESTION)?;
    let Config { switches, ways, tunnels, .. } = config;
    all(&Choice { switches, ways, tunnels, far: &[1], cores: &[available()] })
}

/// What is going to be done, in words.
fn plan(config: &Config, cases: usize) -> String {
    let sizes: Vec<_> = config.downloads.iter().map(ToString::to_string).collect();
    let Config { streams, duration, rounds, .. } = config;
    format!(
        "{}, each {} for {duration} and {} of {}",
        many(cases as u64, "case"),
        many((*streams).into(), "TCP stream"),
        many((*rounds).into(), "download"),
        sizes.join(" and of ")
    )
}

impl Found {
    fn new(case: Case, config: &Config) -> Self {
        let downloads = config.downloads.iter().map(|_| Samples::default()).collect();
        let offload = config.offload && case.takes_segments();
        Self { case, offload, streams: Samples::default(), downloads }
    }

    fn raise(&self, bench: &Bench<'_>) -> Result<Lab, MeasureError> {
        raise(bench, &self.case.lab(1, self.offload)?)
    }

    /// Downloads the smallest file once.
    fn trial(&self, bench: &Bench<'_>, config: &Config) -> Result<Estimate, MeasureError> {
        let size = config.downloads.iter().min().copied().unwrap_or(Bytes(1));
        let begin = Instant::now();
        let mut samples = Samples::default();
        let lab = self.raise(bench)?;
        samples.download(bench, &lab, size, 1)?;
        lab.down()?;
        let bits_per_s = samples.gbps.iter().sum::<f64>() * 1e9;
        Ok(Estimate::of(begin.elapsed().as_secs_f64(), size, bits_per_s))
    }

    fn make(&mut self, bench: &Bench<'_>, config: &Config, work: Work) -> Result<(), MeasureError> {
        let lab = self.raise(bench)?;
        match work {
            Work::Streams => self.streams.stream(bench, &lab, config),
            Work::Downloads { count, .. } => {
                let mut sizes = config.downloads.iter().zip(&mut self.downloads);
                sizes.try_for_each(|(size, samples)| samples.download(bench, &lab, *size, count))
            }
        }
    }

    fn told(&self, config: &Config) -> Vec<Carried> {
        let told =
            |load, bytes, samples: &Samples| samples.told(&self.case, self.offload, load, bytes);
        let streams = told(Transfer::Streams, None, &self.streams);
        let sizes = config.downloads.iter().zip(&self.downloads);
        let downloads =
            sizes.map(|(size, samples)| told(Transfer::Download, Some(size.0), samples));
        std::iter::once(streams).chain(downloads).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tunnel, Way};
    use super::*;

    fn config() -> Config {
        Config {
            switches: vec![SwitchKind::Bridge, SwitchKind::Zovn],
            ways: vec![Way::Link],
            tunnels: Tunnel::PAPER.into(),
            offload: true,
            streams: 4,
            duration: Span::from_secs(300),
            downloads: vec![Bytes(10_000_000), Bytes(5_000_000_000)],
            rounds: 50,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_measured() {
        // A bridge has no GRE.
        assert_eq!(check(&config()).unwrap().len(), 2 + 3);
        for (config, word) in [
            (Config { streams: 0, ..config() }, "a stream"),
            (Config { duration: Span::ZERO, ..config() }, "some time"),
            (Config { downloads: Vec::new(), ..config() }, "--downloads"),
            (Config { downloads: vec![Bytes(0)], ..config() }, "--downloads"),
            (Config { tunnels: vec![Tunnel::Gre], ..config() }, "`bridge` has none"),
        ] {
            let error = check(&config).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_plan_is_told() {
        let told = "5 cases, each 4 TCP streams for 5min and 50 downloads of 10mb and of 5gb";
        assert_eq!(plan(&config(), 5), told);
    }
}

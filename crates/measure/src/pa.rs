//! Partition-Aggregate, two-tier (zOVN §5.1 and §5.2, figures 7 and 10): an aggregator asks all
//! workers at once, all answer at once into its one port, and the query is complete with the last
//! byte.
//!
//! Either all of them are around one switch, and switches are compared; or they are on the hosts of
//! a [`Testbed`] (zOVN §5.3, figures 10 and 11), and it is compared where [flow
//! control](FlowControl) is on.

mod cast;
mod config;
mod flow_control;
mod report;
mod run;
mod testbed;

use crate::{Bench, Environment, MeasureError, Measurement};

pub use config::{Config, SEGMENT};
pub use flow_control::FlowControl;
pub use report::{BackgroundFlows, Completion, Era, Gain, Subject};
pub use testbed::Testbed;

use config::check;
use run::Run;

/// The whole experiment.
pub type Report = Measurement<Config, Completion>;

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut runs = Vec::new();
    for (subject, era) in config.labs() {
        for tcp in &config.tcp {
            for segments in &config.sizes {
                runs.push(Run::new(subject, tcp, era, *segments));
            }
        }
    }
    let cast = config.cast()?;
    let rounds = u64::from(config.rounds).min(config.queries);
    bench.progress.begin(runs.len() * rounds as usize);
    for round in 0..rounds {
        // The rounds' queries add up to those that were asked for.
        let queries = config.queries / rounds + u64::from(round < config.queries % rounds);
        for (subject, era) in config.labs() {
            bench.go_on()?;
            let lab = config.lab(bench, subject, era)?;
            for run in runs.iter_mut().filter(|run| (run.subject, run.era) == (subject, era)) {
                bench.step(&format!(
                    "{subject}: {} × {} segments, {}, {era}",
                    config.workers, run.segments, run.tcp
                ))?;
                run.round(bench, &lab, &config, &cast, queries)?;
            }
        }
    }
    let results = conclude(runs, &config);
    Ok(Measurement::new("pa", environment, config, results))
}

/// Each run's figures, compared with the baseline's under the same conditions.
fn conclude(runs: Vec<Run>, config: &Config) -> Vec<Completion> {
    let baseline = config.baseline();
    let mut results: Vec<Completion> = runs.into_iter().map(|run| run.conclude(config)).collect();
    let baselines: Vec<Completion> =
        results.iter().filter(|result| result.subject == baseline).cloned().collect();
    let compared = |result: &&mut Completion| result.subject != baseline && result.queries > 0;
    for result in results.iter_mut().filter(compared) {
        let same = |other: &&Completion| {
            (&other.tcp, other.era, other.response_bytes)
                == (&result.tcp, result.era, result.response_bytes)
        };
        result.gain_over = baselines.iter().find(same).map(|other| Gain {
            over: baseline,
            mean: other.fct_us.mean / result.fct_us.mean,
            p50: other.fct_us.p50 / result.fct_us.p50,
            p99: other.fct_us.p99 / result.fct_us.p99,
        });
    }
    results
}

#[cfg(test)]
mod tests;

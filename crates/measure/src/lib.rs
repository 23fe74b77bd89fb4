//! Measurements: loss, ramp, Partition-Aggregate, throughput and isolation, on zovn and on its
//! peers; what BFD costs; and profiles of switches, which plans read.
//!
//! ```text
//!   Config ─▶ experiment ──▶ Measurement ──▶ JSON, table, page
//!               │   ▲
//!          lab: one switch     endpoint programs in its namespaces
//! ```
//!
//! Each experiment is a module: its `Config`, its `run`, what it found. An experiment that compares
//! switches goes round them (A B C A B C) and merges each one's rounds, so that a machine whose
//! load drifts drifts for all.
//!
//! Nothing here prints or exits. Progress is told to a [`Progress`]; whoever wants to stop says so
//! through [`Bench::stop`], and whatever runs in namespaces is gone when the experiment returns.

pub mod bfd;
pub mod control;
pub mod endpoint;
mod environment;
mod error;
mod fleet;
mod flood;
pub mod isolation;
pub mod loss;
mod losses;
pub mod pa;
pub mod page;
pub mod paths;
mod points;
pub mod policy;
pub mod profile;
pub mod ramp;
pub mod readable;
mod site;
mod stats;
mod streams;
pub mod throughput;
pub mod tunnel;
pub mod vhost;
mod words;

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

pub use environment::Environment;
pub use error::MeasureError;
pub use lab::SwitchKind;
pub use points::{LostAt, SeenAt};
pub use readable::Readable;
pub use traffic::TimesUs;

/// What an experiment needs of the world.
pub struct Bench<'a> {
    /// The program that plays the endpoints' roles when it is called with `endpoint ROLE`.
    pub program: PathBuf,
    /// Set once the experiment must come to an end.
    pub stop: &'a AtomicBool,
    /// Who is told how far the experiment is.
    pub progress: &'a dyn Progress,
}

/// Who is told how far an experiment is.
pub trait Progress {
    /// The experiment has this many steps.
    fn begin(&self, steps: usize);
    /// The next step begins.
    fn step(&self, doing: &str);
    /// The next step begins, and takes about as long as so many others, for which it counts.
    fn long_step(&self, doing: &str, steps: usize) {
        let _ = steps;
        self.step(doing);
    }
    /// Something that people want to know before the next step begins.
    fn tell(&self, what: &str) {
        let _ = what;
    }
}

/// Nobody.
impl Progress for () {
    fn begin(&self, _steps: usize) {}
    fn step(&self, _doing: &str) {}
}

/// One experiment, made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement<C, R> {
    /// The version that measured.
    pub zovn: String,
    /// Which experiment: `loss`, `ramp`, `pa`, `throughput`, `tunnel`, `isolation`, `adversary`,
    /// `machines`, `bfd`, `paths`, `policy`, `profile`, `paper`, `control`, `network`, `demo`.
    pub experiment: String,
    /// Where.
    pub environment: Environment,
    /// How.
    pub config: C,
    /// What was found.
    pub results: Vec<R>,
}

impl Bench<'_> {
    /// Whether to go on.
    fn go_on(&self) -> Result<(), MeasureError> {
        if self.stop.load(Ordering::Relaxed) { Err(MeasureError::Interrupted) } else { Ok(()) }
    }

    /// Begins the next step, unless the user wants no more.
    fn step(&self, doing: &str) -> Result<(), MeasureError> {
        self.go_on()?;
        self.progress.step(doing);
        Ok(())
    }

    /// Begins the next step, which counts for so many, unless the user wants no more.
    fn long_step(&self, doing: &str, steps: usize) -> Result<(), MeasureError> {
        self.go_on()?;
        self.progress.long_step(doing, steps);
        Ok(())
    }

    /// Gives each case its turn, and so often, one after the other (A B C A B C). A turn adds what
    /// it found to what was found of its case before.
    fn rounds<C: Display, F>(
        &self,
        rounds: u32,
        cases: &mut [(C, F)],
        mut turn: impl FnMut(&C, &mut F) -> Result<(), MeasureError>,
    ) -> Result<(), MeasureError> {
        self.progress.begin(cases.len() * rounds as usize);
        for _ in 0..rounds {
            for (case, found) in &mut *cases {
                self.step(&case.to_string())?;
                turn(case, found)?;
            }
        }
        Ok(())
    }
}

impl<C, R> Measurement<C, R> {
    fn new(experiment: &str, environment: Environment, config: C, results: Vec<R>) -> Self {
        Self {
            zovn: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: experiment.to_owned(),
            environment,
            config,
            results,
        }
    }
}

/// Whether a switch promises to lose nothing.
pub fn is_lossless(switch: SwitchKind) -> bool {
    switch == SwitchKind::Zovn
}

/// Refuses what this kernel's TCP does not know, before any lab is up.
fn check_congestion(name: &str) -> Result<(), MeasureError> {
    use rustix::net::{AddressFamily, SocketType, socket, sockopt};
    let known = socket(AddressFamily::INET, SocketType::STREAM, None)
        .and_then(|socket| sockopt::set_tcp_congestion(&socket, name));
    known.map_err(|error| {
        MeasureError::Config(format!(
            "TCP's congestion control `{name}` cannot be used: {error}; this kernel knows those of \
             net.ipv4.tcp_available_congestion_control, and those of its modules"
        ))
    })
}

/// Refuses what no experiment can do, before any switch has been measured: only these switches
/// stand between such endpoints.
fn check_switches(
    switches: &[SwitchKind],
    able: &[SwitchKind],
    endpoints: &str,
) -> Result<(), MeasureError> {
    if let Some(other) = switches.iter().find(|switch| !able.contains(switch)) {
        let able: Vec<_> = able.iter().map(ToString::to_string).collect();
        let able = able.join(", ");
        return Err(MeasureError::Config(format!(
            "`{other}` has no ports for {endpoints}: choose among {able}"
        )));
    }
    let twice =
        switches.iter().enumerate().any(|(place, switch)| switches[..place].contains(switch));
    if switches.is_empty() || twice {
        return Err(MeasureError::Config("name at least one switch, and each once".into()));
    }
    switches.iter().try_for_each(|switch| Ok(switch.check()?))
}

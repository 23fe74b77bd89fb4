//! What reads well and still cannot be simulated.
//!
//! Each rule complains about one field, and says what to write instead. A rule that needs others'
//! outcome (a server's number needs a topology) is not asked when those complained.

mod networks;
mod workloads;

use model::ClassKind;
use model::mistake::unknown;
use traffic::{Cdf, CdfError};
use units::Span;

use super::fault::Complaint;
use super::plan::MOST_SEED;
use super::words::is_name;
use super::{Arrivals, Control, Scenario, Topology, Transport, VERSION, Vms};

const MOST_SERVERS: u64 = 100_000;
const MOST_VMS: u64 = 1_000_000;
const MOST_CABLES: u64 = 1_000_000;
/// Pairs of machines that a workload may connect.
const MOST_PAIRS: u64 = 10_000_000;
/// No message and no buffer is larger: 1 TiB.
const MOST_BYTES: u64 = 1 << 40;
/// No run is longer.
const LONGEST: Span = Span::from_secs(200 * 24 * 3600);
const MOST_POINTS: usize = 10_000;
const MOST_WORKLOADS: usize = 1_000;

impl Scenario {
    /// Everything that cannot be simulated; nothing if it can.
    pub(super) fn complaints(&self) -> Vec<Complaint> {
        let mut check = Check { scenario: self, found: Vec::new() };
        check.header();
        check.run();
        check.distributions();
        check.classes();
        check.topology();
        check.links();
        check.virtual_network();
        if check.found.is_empty() {
            check.fabric();
            check.tcp();
            check.grants();
            check.workloads();
            check.output();
        }
        check.found
    }
}

/// A scenario under examination, and what was found.
struct Check<'s> {
    scenario: &'s Scenario,
    found: Vec<Complaint>,
}

impl Check<'_> {
    fn complain(&mut self, path: &str, what: impl Into<String>) {
        self.found.push(Complaint::at(path, what));
    }

    fn ensure(&mut self, holds: bool, path: &str, what: impl Into<String>) {
        if !holds {
            self.complain(path, what);
        }
    }

    fn header(&mut self) {
        let it = self.scenario;
        let what =
            format!("this program reads version {VERSION} of the schema: a sweep cannot vary it");
        self.ensure(it.version == VERSION, "version", what);
        let is_title =
            (1..=100).contains(&it.name.chars().count()) && !it.name.contains(char::is_control);
        self.ensure(is_title, "name", "a scenario's name is one line of 1 to 100 characters");
        let sections = [
            ("class", it.classes.keys().collect::<Vec<_>>()),
            ("network", it.networks.keys().collect()),
            ("distribution", it.distributions.keys().collect()),
            ("workload", it.workloads.keys().collect()),
            ("virtual.vms", it.virtual_network.vms.keys().collect()),
        ];
        for (section, names) in sections {
            for name in names.into_iter().filter(|name| !is_name(name)) {
                let what = format!(
                    "`{name}` is no name: write lowercase letters, digits, `-` and `_`, a letter first"
                );
                let path = section.split('.').chain([name.as_str()]).map(str::to_owned).collect();
                self.found.push(Complaint { path, what, key: true });
            }
        }
    }

    fn run(&mut self) {
        let it = self.scenario;
        let run = it.run;
        self.ensure(
            run.seed <= MOST_SEED,
            "run.seed",
            "a seed is at most 2^62: write a smaller one",
        );
        self.ensure(
            run.duration != Some(Span::ZERO),
            "run.duration",
            "nothing can happen in no time: raise it",
        );
        self.ensure(
            run.duration.is_none_or(|most| most <= LONGEST),
            "run.duration",
            "time counts in picoseconds, which last for 200 days: lower it",
        );
        self.ensure(
            run.time_limit != Some(Span::ZERO),
            "run.time_limit",
            "nothing can happen in no time: raise it",
        );
        self.ensure(
            run.queries != Some(0),
            "run.queries",
            "a run has at least one query: raise it, or leave it out",
        );
        self.ensure(
            run.precision.is_none_or(|share| share > 0.0 && share < 1.0),
            "run.precision",
            "the share of the mean by which it may be wrong lies between 0 and 1: 0.05 is usual",
        );
        let ends = run.duration.unwrap_or(Span::from_nanos(u64::MAX));
        self.ensure(
            run.warmup < ends || ends == Span::ZERO,
            "run.warmup",
            "the run would end before anything counts: lower it, or raise `duration`",
        );
        if let (None, Some(name)) = (run.duration, it.endless()) {
            self.complain(
                "run",
                format!("workload `{name}` never ends, nor would the run: add `duration`"),
            );
        }
        let Some(wanted) = run.queries else { return };
        let mut counts = it.workloads.values().map(|workload| workload.kind.queries());
        // `None` is a workload with as many as there is time for.
        let most = counts.try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)));
        if let Some(most) = most.filter(|most| *most < wanted) {
            let what =
                format!("all workloads together have {most}: lower it, or give a workload more");
            self.complain("run.queries", what);
        }
    }

    fn distributions(&mut self) {
        for (name, points) in &self.scenario.distributions {
            let path = format!("distribution.{name}.points");
            if points.points.len() > MOST_POINTS {
                self.complain(
                    &path,
                    format!("a distribution has at most {MOST_POINTS} points: leave some out"),
                );
                continue;
            }
            match Cdf::new(&points.points) {
                Err(CdfError::End { end }) => {
                    self.complain(
                        &path,
                        format!("the last share is {end}: it is 1, of all samples"),
                    );
                }
                Err(error) => self.complain(&path, error.to_string()),
                Ok(cdf) => {
                    let mean = cdf.mean();
                    self.ensure(
                        mean > 0.0 && mean.is_finite(),
                        &path,
                        "its mean is 0, or beyond counting: write values above 0",
                    );
                }
            }
        }
    }

    fn output(&mut self) {
        let output = &self.scenario.output;
        self.ensure(
            output.samples.is_none_or(|every| every >= Span::from_micros(1)),
            "output.samples",
            "queues are looked at no more often than each microsecond: raise it",
        );
        if let Some(what) = output.pcapng.and_then(|link| self.scenario.topology.lacks(link)) {
            self.complain("output.pcapng", what);
        }
    }
}

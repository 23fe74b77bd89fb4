//! What is counted of answers, and the page on which Prometheus reads it.

use std::fmt::Error;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::exchange::Question;
use super::refusals::{Refusals, Refused};

/// The word of a question.
fn word(question: Question) -> &'static str {
    match question {
        Question::Filter => "filter",
        Question::Prioritize => "prioritize",
        Question::Hosts => "hosts",
    }
}

/// The upper ends of the classes that times are counted in, in seconds.
const TIMES: [f64; 8] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2, 1.0];

type Labels = Vec<(&'static str, String)>;

/// What is counted.
#[derive(Clone, Debug)]
pub struct Counts {
    answered: Family<Labels, Histogram, fn() -> Histogram>,
    malformed: Counter,
    unlisted: Counter,
    refused: Family<Labels, Counter>,
    scrapes: Family<Labels, Counter>,
}

impl Default for Counts {
    /// Each is there from the beginning, so that the first one is an increase.
    fn default() -> Self {
        let counts = Self {
            answered: Family::new_with_constructor(|| Histogram::new(TIMES)),
            malformed: Counter::default(),
            unlisted: Counter::default(),
            refused: Family::default(),
            scrapes: Family::default(),
        };
        for question in [Question::Filter, Question::Prioritize, Question::Hosts] {
            drop(counts.answered.get_or_create(&vec![("verb", word(question).into())]));
        }
        for reason in Refused::WORDS {
            drop(counts.refused.get_or_create(&vec![("reason", reason.into())]));
        }
        for outcome in ["read", "failed"] {
            drop(counts.scrapes.get_or_create(&vec![("outcome", outcome.into())]));
        }
        counts
    }
}

impl Counts {
    /// A question was answered in so long.
    pub fn answered(&self, question: Question, took: Duration) {
        let labels = vec![("verb", word(question).into())];
        self.answered.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A question was not understood.
    pub fn malformed(&self) {
        self.malformed.inc();
    }

    /// A machine says that it has a model that the plan does not list.
    pub fn unlisted(&self) {
        self.unlisted.inc();
    }

    /// Hosts were refused.
    pub fn refused(&self, refusals: &Refusals) {
        for (reason, hosts) in Refused::WORDS.iter().zip(refusals.by_reason()).filter(|it| it.1 > 0)
        {
            self.refused.get_or_create(&vec![("reason", (*reason).into())]).inc_by(hosts);
        }
    }

    /// An agent's metrics were read, or could not be.
    pub fn scraped(&self, is_read: bool) {
        let outcome = if is_read { "read" } else { "failed" };
        self.scrapes.get_or_create(&vec![("outcome", outcome.into())]).inc();
    }
}

/// What hosts are asked for, as it is now.
#[derive(Debug, Default)]
pub struct Seen {
    /// The share of time in which each host is asked for too much, as the plan says.
    pub overloads: Vec<(String, f64)>,
    /// The share of time in which senders were paused, as agents say.
    pub paused: Vec<(String, f64)>,
    /// How long each agent has not been read.
    pub silences: Vec<(String, Duration)>,
    /// What the first of these may be.
    pub goal: f64,
    /// Machines that are assumed.
    pub assumed: usize,
}

/// The page that says it all.
///
/// # Errors
///
/// It cannot be written.
pub fn page(counts: &Counts, seen: &Seen) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("zovn_plan");
    let by_host = |values: &[(String, f64)]| {
        let family: Family<Labels, Gauge<f64, AtomicU64>> = Family::default();
        for (host, value) in values {
            family.get_or_create(&vec![("host", host.clone())]).set(*value);
        }
        family
    };
    registry.register(
        "overflow_probability",
        "The share of time in which a host is asked for too much, by the plan and what is assumed",
        by_host(&seen.overloads),
    );
    registry.register(
        "observed_paused_ratio",
        "The share of time in which a host's most paused sender was paused, as its agent says",
        by_host(&seen.paused),
    );
    let silences = seen.silences.iter().map(|(host, it)| (host.clone(), it.as_secs_f64()));
    registry.register_with_unit(
        "agent_silence",
        "The time since a host's agent was read, or since it was to be read for the first time",
        Unit::Seconds,
        by_host(&silences.collect::<Vec<_>>()),
    );
    registry.register("goal_ratio", "What that may be", ConstGauge::new(seen.goal));
    registry.register(
        "assumed_machines",
        "Machines that count as placed because a scheduler was told so lately",
        ConstGauge::new(seen.assumed as i64),
    );
    let Counts { answered, malformed, unlisted, refused, scrapes } = counts.clone();
    registry.register_with_unit(
        "answer",
        "The time from a question to its answer",
        Unit::Seconds,
        answered,
    );
    registry.register("malformed_questions", "Questions that were not understood", malformed);
    registry.register(
        "unlisted_models",
        "Questions about machines that say a model which the plan does not list",
        unlisted,
    );
    registry.register("refused_hosts", "Hosts that did not take a machine", refused);
    registry.register("agent_scrapes", "How often agents' metrics were read", scrapes);
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const RULES: &str = include_str!("../../../../packaging/zovn-alerts.yml");

    const DASHBOARD: &str = include_str!("../../../../packaging/zovn-dashboard.json");

    #[test]
    fn every_metric_and_label_of_the_alert_rules_and_the_dashboard_is_exported() {
        let share = || vec![("h".to_owned(), 0.5)];
        let silences = vec![("h".to_owned(), Duration::from_secs(15))];
        let seen = Seen { overloads: share(), paused: share(), silences, goal: 0.001, assumed: 0 };
        let page = page(&Counts::default(), &seen).unwrap();
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        for (text, least) in [(RULES, 4), (DASHBOARD, 3)] {
            let named: BTreeSet<_> = text
                .match_indices("zovn_plan_")
                .map(|(at, _)| text[at..].split(|c| !is_part(c)).next().unwrap())
                .collect();
            assert!(named.len() >= least, "{named:?}");
            for metric in named {
                assert!(page.lines().any(|it| it.starts_with(metric)), "{metric} is not in {page}");
            }
        }
        let silence = "zovn_plan_agent_silence_seconds{host=\"h\"} 15.0";
        assert!(page.contains(silence), "{silence} is not in {page}");
        assert!(RULES.contains("$labels.host"));
    }
}

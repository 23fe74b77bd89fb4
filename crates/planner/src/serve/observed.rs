//! How long senders of each host were really paused, as its agent's metrics say: what the plan's
//! probability is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::task::{JoinSet, spawn_blocking};

use super::counts::Counts;
use crate::web::{self, Address};

/// The counter of an agent, one for each sender.
const PAUSED: &str = "zovn_sender_paused_seconds_total{";

/// The longest page of an agent that is read.
const PAGE_LIMIT_BYTES: usize = 1 << 20;

/// More senders of a host are not looked at.
const MOST_SENDERS: usize = 4096;

/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many agents are read at once.
const AT_ONCE: usize = 32;

/// What is known of hosts. Clones are of one memory.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Mutex<BTreeMap<String, Host>>>);

#[derive(Debug)]
struct Host {
    read: Instant,
    /// Seconds by sender.
    paused: BTreeMap<String, f64>,
    /// The share of the most paused sender, between the last two readings.
    share: Option<f64>,
}

impl Observed {
    /// Reads agents once.
    pub async fn read(&self, agents: Vec<(String, Address)>, counts: &Counts) {
        let named: BTreeSet<&str> = agents.iter().map(|(name, _)| name.as_str()).collect();
        self.hosts().retain(|host, _| named.contains(host.as_str()));
        let mut reading = JoinSet::new();
        for (host, address) in agents {
            if reading.len() >= AT_ONCE {
                reading.join_next().await;
            }
            let (observed, counts) = (self.clone(), counts.clone());
            reading.spawn(async move {
                let answer = web::get(&address, "/metrics", PAGE_LIMIT_BYTES, PATIENCE).await;
                let now = Instant::now();
                // Questions are not to wait until pages are looked through.
                let paused = match answer {
                    Ok((StatusCode::OK, page)) => {
                        let look = move || std::str::from_utf8(&page).ok().map(paused);
                        spawn_blocking(look).await.unwrap_or(None)
                    }
                    _ => None,
                };
                counts.scraped(paused.is_some());
                match paused {
                    Some(paused) => observed.note(host, now, paused),
                    None => {
                        tracing::debug!(host, %address, "cannot read the agent's metrics");
                        observed.hosts().remove(&host);
                    }
                }
            });
        }
        while reading.join_next().await.is_some() {}
    }

    /// The share of time in which each host's most paused sender was paused.
    pub fn shares(&self) -> Vec<(String, f64)> {
        let share = |(host, it): (&String, &Host)| Some((host.clone(), it.share?));
        self.hosts().iter().filter_map(share).collect()
    }

    fn note(&self, host: String, now: Instant, paused: BTreeMap<String, f64>) {
        let mut hosts = self.hosts();
        let share = hosts.get(&host).and_then(|before| {
            let took = now.duration_since(before.read).as_secs_f64();
            // A counter that went back has begun anew.
            let more = paused.iter().filter_map(|(sender, secs)| {
                Some(secs - before.paused.get(sender)?).filter(|it| *it >= 0.0)
            });
            let most = more.fold(0.0, f64::max);
            (took > 0.0).then(|| (most / took).min(1.0))
        });
        hosts.insert(host, Host { read: now, paused, share });
    }

    fn hosts(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Host>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// How long each sender was paused, by its labels.
fn paused(page: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        let (labels, rest) = line.strip_prefix(PAUSED)?.rsplit_once('}')?;
        let secs: f64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((labels.to_owned(), secs)).filter(|it| it.1.is_finite())
    };
    page.lines().filter_map(sample).take(MOST_SENDERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_paused_sender_counts_between_two_readings() {
        let page = "# TYPE zovn_sender_paused_seconds counter\n\
                    zovn_sender_paused_seconds_total{port=\"a}\"} 1.5\n\
                    zovn_sender_paused_seconds_total{port=\"b\"} 7 1700000000\n\
                    zovn_sender_paused_seconds_total{port=\"c\"} NaN\nother{} 1\n";
        let first = paused(page);
        assert_eq!(first.values().copied().collect::<Vec<_>>(), [1.5, 7.0]);
        let many: String = (0..5000).map(|port| format!("{PAUSED}port=\"{port}\"}} 1\n")).collect();
        assert_eq!(paused(&many).len(), MOST_SENDERS);
        let (observed, begun) = (Observed::default(), Instant::now());
        observed.note("h".into(), begun, first.clone());
        assert!(observed.shares().is_empty());
        // `b` was restarted, `a` was paused for 3 of 10 seconds.
        let mut second = first;
        second.insert("port=\"a}\"".into(), 4.5);
        second.insert("port=\"b\"".into(), 0.5);
        second.insert("port=\"new\"".into(), 100.0);
        observed.note("h".into(), begun + Duration::from_secs(10), second);
        let shares = observed.shares();
        assert!(shares[0].0 == "h" && (shares[0].1 - 0.3).abs() < 1e-9, "{shares:?}");
    }
}

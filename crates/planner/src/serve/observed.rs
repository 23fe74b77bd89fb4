//! What agents' metrics say of each host: how long its senders were really paused, which the plan's
//! probability is held against, and which machines it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::task::{JoinSet, spawn_blocking};

use super::counts::Counts;
use super::ports::machines;
use crate::plan::Plan;
use crate::web::{self, Address};

/// The counter of an agent, one for each sender.
const PAUSED: &str = "zovn_sender_paused_seconds_total{";

/// The longest page of an agent that is read: each port and each host that tunnels lead to has some
/// 6 kB, and there may be a thousand and thousands.
const PAGE_LIMIT_BYTES: usize = 32 << 20;

/// More senders of a host are not looked at.
const MOST_SENDERS: usize = 4096;

/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many agents are read at once: few enough for their pages to be kept.
const AT_ONCE: usize = 16;

/// What is known of hosts. Clones are of one memory.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    hosts: BTreeMap<String, Host>,
    /// Those whose agent could not be read the last time.
    silent: BTreeSet<String>,
}

#[derive(Debug)]
struct Host {
    read: Instant,
    /// Seconds by sender: each port is one.
    paused: BTreeMap<String, f64>,
    /// The share of the most paused sender, between the last two readings.
    share: Option<f64>,
}

impl Observed {
    /// Reads agents once.
    pub async fn read(&self, agents: Vec<(String, Address)>, counts: &Counts) {
        let named: BTreeSet<&str> = agents.iter().map(|(name, _)| name.as_str()).collect();
        {
            let mut known = self.known();
            known.hosts.retain(|host, _| named.contains(host.as_str()));
            known.silent.retain(|host| named.contains(host.as_str()));
        }
        let mut reading = JoinSet::new();
        for (host, address) in agents {
            if reading.len() >= AT_ONCE {
                reading.join_next().await;
            }
            let (observed, counts) = (self.clone(), counts.clone());
            reading.spawn(async move {
                let read = read(&address).await;
                let now = Instant::now();
                counts.scraped(read.is_ok());
                match read {
                    Ok(paused) => observed.note(host, now, paused),
                    Err(why) => observed.miss(&host, &address, &why),
                }
            });
        }
        while reading.join_next().await.is_some() {}
    }

    /// The share of time in which each host's most paused sender was paused.
    pub fn shares(&self) -> Vec<(String, f64)> {
        let share = |(host, it): (&String, &Host)| Some((host.clone(), it.share?));
        self.known().hosts.iter().filter_map(share).collect()
    }

    /// The names of each host's ports, as its agent has last said them.
    pub fn ports(&self) -> Vec<(String, Vec<String>)> {
        let names = |it: &Host| it.paused.keys().filter_map(|it| port_of(it)).collect();
        self.known().hosts.iter().map(|(host, it)| (host.clone(), names(it))).collect()
    }

    /// Has a plan say where machines are as agents do, if it says which ports they are. Where no
    /// agent has been read, they are where the plan says.
    pub fn place(&self, plan: &mut Plan) {
        if plan.serve.ports.is_empty() {
            return;
        }
        let ports: BTreeMap<_, _> = self.ports().into_iter().collect();
        for (host, _) in &plan.serve.agents {
            if let Some(ports) = ports.get(&plan.names(&[*host])[0]) {
                let ports = ports.iter().map(String::as_str);
                plan.placement.hosts[*host] = machines(&plan.serve.ports, ports);
            }
        }
    }

    /// An agent was not read. Its host has the machines that it had.
    fn miss(&self, host: &str, address: &Address, why: &str) {
        let mut known = self.known();
        if let Some(known) = known.hosts.get_mut(host) {
            known.share = None;
        }
        if known.silent.insert(host.to_owned()) {
            tracing::warn!(host, %address, why, "cannot read the agent's metrics");
        }
    }

    fn note(&self, host: String, now: Instant, paused: BTreeMap<String, f64>) {
        let mut known = self.known();
        if known.silent.remove(&host) {
            tracing::info!(host, "the agent's metrics are read again");
        }
        let hosts = &mut known.hosts;
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// How long each sender of an agent was paused, by its labels; or why that is not known.
async fn read(address: &Address) -> Result<BTreeMap<String, f64>, String> {
    let (status, page) = web::get(address, "/metrics", PAGE_LIMIT_BYTES, PATIENCE)
        .await
        .map_err(|error| error.to_string())?;
    if status != StatusCode::OK {
        return Err(format!("it answers with {status}"));
    }
    // Questions are not to wait until pages are looked through.
    let look = move || std::str::from_utf8(&page).ok().map(paused);
    let paused = spawn_blocking(look).await.unwrap_or(None);
    paused.ok_or_else(|| "its answer is no text".to_owned())
}

/// The name of a port, by its labels. Names have nothing that would be escaped.
fn port_of(labels: &str) -> Option<String> {
    Some(labels.strip_prefix("port=\"")?.strip_suffix('"')?.to_owned())
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
        // Who is not read has no share, and the ports that he had.
        observed.miss("h", &"127.0.0.1:9".parse().unwrap(), "it is not there");
        assert!(observed.shares().is_empty());
        let ports = ["a}", "b", "new"].map(str::to_owned).to_vec();
        assert_eq!(observed.ports(), [("h".to_owned(), ports)]);
    }

    #[test]
    fn machines_are_where_agents_say() {
        let text = "\
goal: {epsilon: 0.001}
types:
  r: {cores: 8, memory: 32gib, switch: [{carries: 1gbit}]}
hosts: {a: {type: r}, b: {type: r}, c: {type: r}}
models: {web: {rate: 1mbit}}
vms:
  web: {count: 9, model: web, cores: 1, memory: 1gib}
  db: {count: 9, model: web, cores: 1, memory: 1gib}
placement: {a: {web: 1}, b: {web: 2}, c: {web: 3}}
serve:
  agents: {a: \"127.0.0.1:1\", b: \"127.0.0.1:2\"}
  ports: {\"web-*\": web, \"db-*\": db}
";
        let plan = Plan::of_text(std::path::Path::new("p.yaml"), text).unwrap();
        let observed = Observed::default();
        let port = |name: &str| (format!("port=\"{name}\""), 0.0);
        let ports = BTreeMap::from(["web-7", "db-1", "db-2", "uplink"].map(port));
        // Nobody has said that `c` has an agent, and that of `b` was not read.
        for host in ["a", "c"] {
            observed.note(host.into(), Instant::now(), ports.clone());
        }
        let mut placed = plan.clone();
        observed.place(&mut placed);
        assert_eq!(placed.placement.hosts[0], placement::Pattern::new([(0, 1), (1, 2)]));
        assert_eq!(placed.placement.hosts[1..], plan.placement.hosts[1..]);
        let mut as_written = plan.clone();
        as_written.serve.ports.clear();
        observed.place(&mut as_written);
        assert_eq!(as_written.placement, plan.placement);
    }
}

//! What agents' metrics say of each host: how long its senders were really paused, which the plan's
//! probability is held against, and which machines it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use model::MOST_PORTS;
use placement::Pattern;
use tokio::task::{JoinSet, spawn_blocking};

use super::counts::Counts;
use super::ports::{Ports, machines};
use crate::plan::Plan;
use crate::web::{self, Address};

/// The counter of an agent, one for each port. Without ports it has none.
const PAUSED: &str = "zovn_sender_paused_seconds_total{";

/// The number of an agent's ports. Nobody else has it.
const PORTS: &str = "zovn_ports";

/// The longest page of an agent that is read: each port and each host that tunnels lead to has some
/// 6 kB, and there may be a thousand and thousands.
const PAGE_LIMIT_BYTES: usize = 32 << 20;

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
    /// When each host's agent was read the last time; or was to be for the first time, if it has
    /// never been read.
    heard: BTreeMap<String, Instant>,
    /// Those whose agent could not be read the last time.
    silent: BTreeSet<String>,
}

#[derive(Debug)]
struct Host {
    read: Instant,
    /// Seconds by the name of the port.
    paused: BTreeMap<String, f64>,
    ports: Ports,
    /// The share of the most paused sender, between the last two readings.
    share: Option<f64>,
}

impl Observed {
    /// Reads agents once. Ports count until they have been missing for `keep`.
    pub async fn read(&self, agents: Vec<(String, Address)>, keep: Duration, counts: &Counts) {
        let named: BTreeSet<&str> = agents.iter().map(|(name, _)| name.as_str()).collect();
        {
            let mut known = self.known();
            known.hosts.retain(|host, _| named.contains(host.as_str()));
            known.silent.retain(|host| named.contains(host.as_str()));
            known.heard.retain(|host, _| named.contains(host.as_str()));
            let now = Instant::now();
            for host in named {
                known.heard.entry(host.to_owned()).or_insert(now);
            }
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
                    Ok(paused) => observed.note(host, now, paused, keep),
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

    /// How long each agent has not been read.
    pub fn silences(&self, now: Instant) -> Vec<(String, Duration)> {
        let silence = |(host, heard): (&String, &Instant)| {
            (host.clone(), now.saturating_duration_since(*heard))
        };
        self.known().heard.iter().map(silence).collect()
    }

    /// Which machines the hosts of a plan have by their agents, by place, if the plan says which
    /// ports they are. Hosts whose agent has not been read are not among these.
    pub fn machines(&self, plan: &Plan) -> Vec<(usize, Pattern)> {
        if plan.serve.ports.is_empty() {
            return Vec::new();
        }
        let known = self.known();
        let of_host = |(host, _): &(usize, Address)| {
            let ports = &known.hosts.get(&plan.names(&[*host])[0])?.ports;
            Some((*host, machines(&plan.serve.ports, ports.names())))
        };
        plan.serve.agents.iter().filter_map(of_host).collect()
    }

    /// Has a plan say where machines are as agents do. Where no agent has been read, they are where
    /// the plan says.
    pub fn place(&self, plan: &mut Plan) {
        for (host, machines) in self.machines(plan) {
            plan.placement.hosts[host] = machines;
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

    fn note(&self, host: String, now: Instant, paused: BTreeMap<String, f64>, keep: Duration) {
        let mut known = self.known();
        known.heard.insert(host.clone(), now);
        if known.silent.remove(&host) {
            tracing::info!(host, "the agent's metrics are read again");
        }
        let hosts = &mut known.hosts;
        let share = hosts.get(&host).and_then(|before| {
            let took = now.duration_since(before.read).as_secs_f64();
            // A counter that went back has begun anew.
            let more = paused.iter().filter_map(|(sender, secs)| {
                Some(secs - before.paused.get(sender)?).filter(|it| *it >= 0.0 && it.is_finite())
            });
            let most = more.fold(0.0, f64::max);
            (took > 0.0).then(|| (most / took).min(1.0))
        });
        let mut ports = hosts.remove(&host).map(|it| it.ports).unwrap_or_default();
        ports.see(now, paused.keys().cloned(), keep);
        hosts.insert(host, Host { read: now, paused, ports, share });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// How long each sender of an agent was paused, by the name of its port; or why that is not known.
async fn read(address: &Address) -> Result<BTreeMap<String, f64>, String> {
    let (status, page) = web::get(address, "/metrics", PAGE_LIMIT_BYTES, PATIENCE)
        .await
        .map_err(|error| error.to_string())?;
    if status != StatusCode::OK {
        return Err(format!("it answers with {status}"));
    }
    // Questions are not to wait until pages are looked through.
    let look = move || {
        let page = std::str::from_utf8(&page).map_err(|_| "its answer is no text".to_owned())?;
        paused(page)
    };
    let looked = spawn_blocking(look).await;
    looked.unwrap_or_else(|error| Err(format!("its answer cannot be looked through: {error}")))
}

/// How long each sender was paused, by the name of its port; or why the page does not say it: then
/// nothing is known of the host, which may have machines.
fn paused(page: &str) -> Result<BTreeMap<String, f64>, String> {
    let count = |line: &str| {
        let rest = line.strip_prefix(PORTS)?;
        // A sample without labels may have empty braces.
        let value = rest.strip_prefix("{}").unwrap_or(rest).strip_prefix(' ')?;
        value.split_whitespace().next()?.parse::<usize>().ok()
    };
    let Some(count) = page.lines().find_map(count) else {
        let why = "its page is not an agent's: see that the address is the agent's `metrics`";
        return Err(why.into());
    };
    if count > MOST_PORTS {
        return Err(format!(
            "its page has {count} ports, and {MOST_PORTS} are the most of an agent"
        ));
    }
    // Names have nothing that would be escaped.
    let sample = |line: &str| {
        let (name, rest) = line.strip_prefix("port=\"")?.rsplit_once("\"}")?;
        let secs: f64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), secs))
    };
    let lines = page.lines().filter_map(|line| line.strip_prefix(PAUSED)).take(MOST_PORTS + 1);
    let paused: BTreeMap<_, _> = lines.filter_map(sample).collect();
    match paused.len() == count {
        true => Ok(paused),
        false => Err(format!("its page says that it has {count} ports, and has {}", paused.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    /// Each sender with how long it was paused.
    fn senders<const N: usize>(all: [(&str, f64); N]) -> BTreeMap<String, f64> {
        all.map(|(name, secs)| (name.to_owned(), secs)).into()
    }

    #[test]
    fn the_most_paused_sender_counts_between_two_readings() {
        let (observed, begun) = (Observed::default(), Instant::now());
        let first = senders([("a}", 1.5), ("b", 7.0), ("c", f64::NAN), ("d", 0.0)]);
        observed.note("h".into(), begun, first, KEEP);
        assert!(observed.shares().is_empty());
        // `b` was restarted, `a}` was paused for 3 of 10 seconds.
        let second = [("a}", 4.5), ("b", 0.5), ("c", 1.0), ("d", f64::INFINITY), ("new", 100.0)];
        observed.note("h".into(), begun + Duration::from_secs(10), senders(second), KEEP);
        let shares = observed.shares();
        assert!(shares[0].0 == "h" && (shares[0].1 - 0.3).abs() < 1e-9, "{shares:?}");
        // Who is not read has no share.
        observed.miss("h", &"127.0.0.1:9".parse().unwrap(), "it is not there");
        assert!(observed.shares().is_empty());
        let silences = observed.silences(begun + Duration::from_secs(25));
        assert_eq!(silences, [("h".to_owned(), Duration::from_secs(15))]);
    }

    #[test]
    fn an_agent_that_was_never_read_is_silent_since_it_was_to_be() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let observed = Observed::default();
        let nobody: Address = "127.0.0.1:1".parse().unwrap();
        let agents = || vec![("h".to_owned(), nobody.clone())];
        let counts = Counts::default();
        runtime.block_on(observed.read(agents(), KEEP, &counts));
        let begun = Instant::now();
        runtime.block_on(observed.read(agents(), KEEP, &counts));
        let silences = observed.silences(begun + Duration::from_secs(9));
        assert!(silences.len() == 1 && silences[0].0 == "h", "{silences:?}");
        assert!(silences[0].1 >= Duration::from_secs(9), "{silences:?}");
        runtime.block_on(observed.read(Vec::new(), KEEP, &counts));
        assert!(observed.silences(begun).is_empty());
    }

    #[test]
    fn a_page_says_all_ports_or_is_an_error() {
        let page = "# TYPE zovn_ports gauge\n\
                    zovn_ports{} 3\n\
                    # TYPE zovn_sender_paused_seconds counter\n\
                    zovn_sender_paused_seconds_total{port=\"a}\"} 1.5\n\
                    zovn_sender_paused_seconds_total{port=\"b\"} 7 1700000000\n\
                    zovn_sender_paused_seconds_total{port=\"c\"} NaN\nother{} 1\n";
        let names: Vec<_> = paused(page).unwrap().into_keys().collect();
        assert_eq!(names, ["a}", "b", "c"]);
        // An agent without ports has no sample of theirs.
        assert_eq!(paused("zovn_uptime_seconds 1.0\nzovn_ports 0\n# EOF\n"), Ok(BTreeMap::new()));
        let many: String = (0..=MOST_PORTS)
            .map(|port| format!("{PAUSED}port=\"{port}\"}} 1\n"))
            .chain([format!("zovn_ports {}\n", MOST_PORTS + 1)])
            .collect();
        for (page, word) in [
            ("", "not an agent's"),
            ("welcome", "not an agent's"),
            ("# TYPE node_load1 gauge\nnode_load1 0.5\n", "not an agent's"),
            ("zovn_ports many\n", "not an agent's"),
            ("zovn_ports 2\n", "has 2 ports, and has 0"),
            (page.replace("{port=\"b\"} 7", "{port=\"b\"} x").as_str(), "has 3 ports, and has 2"),
            (page.replace("zovn_ports{} 3", "zovn_ports{} 2").as_str(), "has 2 ports, and has 3"),
            ("zovn_ports_total 0\n", "not an agent's"),
            (many.as_str(), "are the most"),
        ] {
            let why = paused(page).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }

    const PLAN: &str = "\
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

    #[test]
    fn machines_are_where_agents_say() {
        let plan = Plan::of_text(std::path::Path::new("p.yaml"), PLAN).unwrap();
        let observed = Observed::default();
        let ports = ["web-7", "db-1", "db-2", "uplink"].map(|name| (name, 0.0));
        // `c` has no agent any more: its reading began before the plan was read again. That of `b`
        // was not read.
        for host in ["a", "c"] {
            observed.note(host.into(), Instant::now(), senders(ports), KEEP);
        }
        let machines = Pattern::new([(0, 1), (1, 2)]);
        assert_eq!(observed.machines(&plan), [(0, machines.clone())]);
        let mut placed = plan.clone();
        observed.place(&mut placed);
        assert_eq!(placed.placement.hosts[0], machines);
        assert_eq!(placed.placement.hosts[1..], plan.placement.hosts[1..]);
        let mut as_written = plan.clone();
        as_written.serve.ports.clear();
        observed.place(&mut as_written);
        assert_eq!(as_written.placement, plan.placement);
    }

    #[test]
    fn a_page_without_ports_does_not_empty_a_host_at_once() {
        let plan = Plan::of_text(std::path::Path::new("p.yaml"), PLAN).unwrap();
        let (observed, begun) = (Observed::default(), Instant::now());
        let read = |secs: u64, ports: BTreeMap<String, f64>| {
            observed.note("a".into(), begun + Duration::from_secs(secs), ports, KEEP);
            observed.machines(&plan)[0].1.clone()
        };
        let (both, one) = (Pattern::new([(0, 2)]), Pattern::new([(0, 1)]));
        let all = || senders([("web-1", 0.0), ("web-2", 0.0)]);
        assert_eq!(read(0, all()), both);
        // The agent has started again, after a while, and has its ports later.
        assert_eq!(read(600, senders([])), both);
        assert_eq!(read(615, senders([("web-2", 0.0)])), both);
        assert_eq!(read(630, all()), both);
        // One is gone for good.
        assert_eq!(read(645, senders([("web-2", 0.0)])), both);
        assert_eq!(read(704, senders([("web-2", 0.0)])), both);
        assert_eq!(read(705, senders([("web-2", 0.0)])), one);
    }
}

//! What it costs to watch the paths to thousands of hosts, and how soon a cut is noticed (RFC 5880,
//! RFC 5881).
//!
//! ```text
//!   namespace: one host                      namespace: all the others
//!   agent's BFD, 10.0.0.1 ──────cable────── 10.0.0.2 ── 10.64.0.1, 10.64.0.2, … agent's BFD
//! ```
//!
//! Both ends are what the agent runs, a thread each. The namespaces have no names, so they are gone
//! with the experiment.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use agent::bfd::{Bfd, Counts, MOST, Path, Settings};
use kernel::clock::now;
use kernel::joined::{self, INTERFACE, LOOPBACK};
use kernel::netlink::{LinkChange, Netlink, Route};
use kernel::netns::Namespace;
use serde::{Deserialize, Serialize};
use tunnel::bfd::Interval;
use units::{Prefix, Span};

use crate::stats::median;
use crate::{Bench, Environment, MeasureError, Measurement};

/// The hosts at both ends of the cable.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The first of the other hosts, and the length of their network's prefix: room for all that one
/// can watch.
const OTHERS: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);
const OTHERS_LENGTH: u8 = 17;

/// How long sessions may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long they have then to agree upon their intervals: a few seconds' polls.
const SETTLING: Duration = Duration::from_secs(3);

/// How many paths are cut.
pub(crate) const CUT: u32 = 10;

/// How long a cut may remain unnoticed.
const OVERSIGHT: Duration = Duration::from_secs(5);

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How many paths are watched.
    pub sessions: u32,
    /// The time between two packets of a session, each way, before jitter comes off.
    pub interval: Span,
    /// How long each round counts.
    pub duration: Span,
    /// How often all of it is done.
    pub rounds: u32,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// How long it took until all sessions were up, in seconds.
    pub up_s: f64,
    /// How long a processor worked for one end's thread, in percent of the time.
    pub cpu_percent: f64,
    /// Packets a second that one end sent.
    pub sent_pps: f64,
    /// Packets a second that it received.
    pub received_pps: f64,
    /// Packets that it refused or the kernel did not send, all the while.
    pub failed: u64,
    /// Sessions that were not up throughout.
    pub lost: u32,
    /// Of sessions that were cut, every 100 ms with a multiplier of 3: how many noticed it.
    pub detected: u32,
    /// The time from the cut to that, in milliseconds: the median of these sessions; none if none
    /// did.
    pub detection_median_ms: Option<f64>,
    /// The longest.
    pub detection_max_ms: Option<f64>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Watched>;

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    let most = MOST as u32;
    if !(1..=most).contains(&config.sessions) {
        return Err(MeasureError::Config(format!(
            "one end watches 1 to {most} paths: ask for as many"
        )));
    }
    if config.duration == Span::ZERO || config.rounds == 0 {
        return Err(MeasureError::Config("watching takes a round and some time".into()));
    }
    let interval = Interval::new(config.interval).ok_or_else(|| {
        MeasureError::Config(
            "BFD's packets say intervals of 1us to 71min: give one of these".into(),
        )
    })?;
    let environment = Environment::look();
    bench.progress.begin(2 * config.rounds as usize);
    let mut results = Vec::new();
    for round in 1..=config.rounds {
        bench.step(&format!(
            "round {round}: {} paths, every {}",
            config.sessions, config.interval
        ))?;
        let load = load(bench, config.sessions, interval, config.duration)?;
        bench.step(&format!("round {round}: a cut"))?;
        let mut delays = cut(bench)?;
        delays.sort_by(f64::total_cmp);
        results.push(Watched {
            detected: delays.len() as u32,
            detection_median_ms: median(delays.iter().copied()),
            detection_max_ms: delays.last().copied(),
            ..load
        });
    }
    Ok(Measurement::new("bfd", environment, config, results))
}

/// Watches many paths for some time. What a cut did is left empty.
fn load(
    bench: &Bench<'_>,
    sessions: u32,
    interval: Interval,
    duration: Span,
) -> Result<Watched, MeasureError> {
    let ends = Ends::start(sessions, interval)?;
    let up_s = ends.come_up(bench)?.as_secs_f64();
    wait(bench, SETTLING)?;
    let (begun, began, before) = (now(), Instant::now(), ends.near.counts());
    wait(bench, duration.into())?;
    let (elapsed, after) = (began.elapsed().as_secs_f64(), ends.near.counts());
    let per_second = |count: fn(&Counts) -> u64| (count(&after) - count(&before)) as f64 / elapsed;
    let health = ends.near.paths().zip(ends.far.paths());
    let is_kept = |health: agent::bfd::Health| health.is_up() && health.since <= begun;
    let kept = health.filter(|((_, near), (_, far))| is_kept(*near) && is_kept(*far)).count();
    Ok(Watched {
        up_s,
        cpu_percent: 100.0 * (after.busy.as_secs_f64() - before.busy.as_secs_f64()) / elapsed,
        sent_pps: per_second(|counts| counts.sent),
        received_pps: per_second(|counts| counts.taken),
        failed: after.refused() + after.unsent - before.refused() - before.unsent,
        lost: sessions - kept as u32,
        detected: 0,
        detection_median_ms: None,
        detection_max_ms: None,
    })
}

/// Cuts paths that are up, and returns how long each took to be noticed, in milliseconds.
fn cut(bench: &Bench<'_>) -> Result<Vec<f64>, MeasureError> {
    let ends = Ends::start(CUT, Settings::INTERVAL)?;
    ends.come_up(bench)?;
    wait(bench, SETTLING)?;
    let cut = now();
    let down = LinkChange { up: Some(false), ..Default::default() };
    netlink(&ends.far_host)?.change_link(INTERFACE, down).map_err(joined::JoinError::from)?;
    let begun = Instant::now();
    while begun.elapsed() < OVERSIGHT && ends.near.paths().any(|(_, health)| health.is_up()) {
        wait(bench, Duration::from_millis(10))?;
    }
    let noticed = ends.near.paths().filter(|(_, health)| !health.is_up());
    Ok(noticed.map(|(_, health)| health.since.since(cut).as_secs_f64() * 1e3).collect())
}

/// Both ends, and the namespace that holds the far one.
struct Ends {
    near: Bfd,
    far: Bfd,
    far_host: Namespace,
    begun: Instant,
}

impl Ends {
    fn start(sessions: u32, interval: Interval) -> Result<Self, MeasureError> {
        let [near_host, far_host] = joined::two()?;
        let others = Prefix { address: OTHERS.into(), length: OTHERS_LENGTH };
        for (host, interface, prefix) in [
            (&near_host, INTERFACE, Prefix { address: NEAR.into(), length: 30 }),
            (&far_host, INTERFACE, Prefix { address: FAR.into(), length: 30 }),
            (&far_host, LOOPBACK, others),
        ] {
            joined::give_address(host, interface, prefix)?;
        }
        let mut netlink = netlink(&near_host)?;
        let link = netlink.index(INTERFACE).map_err(joined::JoinError::from)?;
        let network = Ipv4Addr::from(u32::from(OTHERS) & !(u32::MAX >> OTHERS_LENGTH));
        let to = Prefix { address: network.into(), length: OTHERS_LENGTH };
        let route = Route { to, via: Some(FAR.into()), link, initial_window: None };
        netlink.add_route(route).map_err(joined::JoinError::from)?;

        let start = |host: &Namespace, address: Ipv4Addr| -> Result<Bfd, MeasureError> {
            let settings = Settings { interval, ..Settings::new(address.into()) };
            let seed = RandomState::new().hash_one(address);
            let started =
                host.run(|| Bfd::start(settings, seed)).map_err(joined::JoinError::from)?;
            Ok(started?)
        };
        let begun = Instant::now();
        let (mut near, mut far) =
            (start(&near_host, NEAR)?, start(&far_host, Ipv4Addr::UNSPECIFIED)?);
        let others =
            (0..sessions).map(|host| IpAddr::from(Ipv4Addr::from(u32::from(OTHERS) + host)));
        far.set_paths(others.clone().map(|local| Path { local, remote: NEAR.into() }))?;
        near.set_paths(others.map(|remote| Path { local: NEAR.into(), remote }))?;
        Ok(Self { near, far, far_host, begun })
    }

    /// Waits until all sessions are up at both ends, and returns how long that took since they were
    /// started.
    fn come_up(&self, bench: &Bench<'_>) -> Result<Duration, MeasureError> {
        let waiting = || {
            let paths = self.near.paths().chain(self.far.paths());
            paths.filter(|(_, health)| !health.is_up()).count()
        };
        while waiting() > 0 {
            if self.begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(MeasureError::NotUp { seconds, ends: waiting() });
            }
            wait(bench, Duration::from_millis(10))?;
        }
        Ok(self.begun.elapsed())
    }
}

fn netlink(host: &Namespace) -> Result<Netlink, MeasureError> {
    Ok(Netlink::open_in(host).map_err(joined::JoinError::from)?)
}

/// Waits, unless the user wants no more.
fn wait(bench: &Bench<'_>, time: Duration) -> Result<(), MeasureError> {
    let until = Instant::now() + time;
    loop {
        bench.go_on()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

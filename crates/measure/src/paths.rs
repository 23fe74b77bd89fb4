//! How soon frames go on by another path when theirs is cut, and that none is lost on it (Koponen
//! et al., NSDI 2014, §4.1).
//!
//! ```text
//!   host 2 ───── path 1, of which the far end is pulled out ─────▶ host 1
//!   sender └──── path 2 ─────────────────────────────────────────┘ receiver
//! ```
//!
//! Both hosts watch both paths by BFD, every 100 ms with a multiplier of 3. Nobody tells them of
//! the cut.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Cable, HostsSpec, Lab, LabSpec, PhysicalSpec, SwitchKind};
use model::{BfdState, PathStatus};
use serde::{Deserialize, Serialize};
use units::Span;

use crate::flood::{Flood, RECEIVER, sender};
use crate::site::{quiet_endpoint, raise};
use crate::{Bench, Environment, MeasureError, Measurement};

/// The receiver's host and the sender's, by their numbers.
const FAR: u32 = 0;
const NEAR: u32 = 1;

/// How many paths there are.
const PATHS: u32 = 2;

/// How long datagrams are sent around each cut, and how long before it.
const DURATION: Span = Span::from_secs(2);
const BEFORE: Duration = Duration::from_millis(500);

/// By how much later each cut comes than the one before it: so they fall anywhere between two of
/// BFD's packets.
const LATER: Duration = Duration::from_millis(37);
const INTERVAL: Duration = Duration::from_millis(100);

/// How often hosts are asked by which path frames go.
const GLANCE: Duration = Duration::from_millis(1);

/// How long a cut may remain unnoticed, and how long hosts may take to find that all paths work.
const OVERSIGHT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a frame.
const SIZE: u32 = 1000;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How often a path is cut.
    pub cuts: u32,
    /// Datagrams a second.
    pub rate: u32,
}

/// One cut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switched {
    /// The time until the sender's host sent by the other path, in milliseconds; none if it did
    /// not.
    pub switched_ms: Option<f64>,
    /// The same of the receiver's host.
    pub far_switched_ms: Option<f64>,
    /// The longest time in which no datagram came to the receiver, in milliseconds.
    pub outage_ms: f64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Those that did not come.
    pub lost: u64,
    /// Those that came twice.
    pub duplicates: u64,
    /// Whether the switches' own accounts held.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Switched>;

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    if config.cuts == 0 || config.rate == 0 {
        return Err(MeasureError::Config(
            "paths are measured by a cut and a datagram a second at least".into(),
        ));
    }
    let environment = Environment::look();
    let lab = raise(bench, &lab()?)?;
    let mut cases = [("a cut", Vec::new())];
    bench.rounds(config.cuts, &mut cases, |_, results| {
        let (path, number) = (settle(bench, &lab)?, results.len() as u32);
        results.push(cut_once(bench, &lab, path, number, config.rate)?);
        Ok(lab.plug(FAR, path, true)?)
    })?;
    let [(_, results)] = cases;
    Ok(Measurement::new("paths", environment, config, results))
}

/// Two hosts with two paths between them, and an endpoint on each.
fn lab() -> Result<LabSpec, MeasureError> {
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), SwitchKind::Zovn);
    for (number, name) in (1..).zip([RECEIVER.into(), sender(1)]) {
        spec.endpoints.push(quiet_endpoint(name, number)?);
    }
    let physical = PhysicalSpec { cable: Some(Cable::Whole), ..PhysicalSpec::default() };
    spec.hosts = Some(HostsSpec { uplinks: PATHS, physical, ..HostsSpec::new(2) });
    Ok(spec)
}

/// Waits until both hosts find that all paths work: the path by which the frames go then.
fn settle(bench: &Bench<'_>, lab: &Lab) -> Result<u32, MeasureError> {
    let began = Instant::now();
    loop {
        bench.go_on()?;
        let all = [paths(lab, NEAR)?, paths(lab, FAR)?];
        let is_up =
            |path: &PathStatus| path.bfd.as_ref().is_some_and(|bfd| bfd.state == BfdState::Up);
        if let [Some(near), Some(far)] = [used(&all[0]), used(&all[1])]
            && near == far
            && all.iter().all(|paths| paths.len() == PATHS as usize && paths.iter().all(is_up))
        {
            return Ok(near);
        }
        if began.elapsed() > PATIENCE {
            let ends = all.iter().flatten().filter(|path| !is_up(path)).count();
            return Err(MeasureError::NotUp { seconds: PATIENCE.as_secs(), ends });
        }
        sleep(10 * GLANCE);
    }
}

/// Cuts a path while datagrams go by it.
fn cut_once(
    bench: &Bench<'_>,
    lab: &Lab,
    path: u32,
    number: u32,
    rate: u32,
) -> Result<Switched, MeasureError> {
    let rate = Some(f64::from(rate));
    let flood = Flood { duration: DURATION, size: SIZE, rate, pace: None };
    let later = Duration::from_nanos(((LATER * number).as_nanos() % INTERVAL.as_nanos()) as u64);
    let (flooded, [near, far]) = flood.run_while(bench, lab, 1, || {
        sleep(BEFORE + later);
        let cut = Instant::now();
        lab.plug(FAR, path, false)?;
        let mut switched = [None; 2];
        while switched.contains(&None) && cut.elapsed() < OVERSIGHT {
            bench.go_on()?;
            for (host, at) in [NEAR, FAR].into_iter().zip(&mut switched) {
                if at.is_none() && used(&paths(lab, host)?).is_some_and(|other| other != path) {
                    *at = Some(cut.elapsed().as_secs_f64() * 1e3);
                }
            }
            sleep(GLANCE);
        }
        Ok(switched)
    })?;
    let (sent, received) = (flooded.sent.iter().map(|sent| sent.sent).sum(), &flooded.received);
    Ok(Switched {
        switched_ms: near,
        far_switched_ms: far,
        outage_ms: received.longest_silence_ns as f64 / 1e6,
        sent,
        lost: sent.saturating_sub(received.received),
        duplicates: received.duplicates,
        balanced: flooded.losses.balanced,
    })
}

/// What a host says of the paths to the other.
fn paths(lab: &Lab, host: u32) -> Result<Vec<PathStatus>, MeasureError> {
    let status = lab.agent_of(host)?.status().map_err(lab::LabError::from)?;
    Ok(status
        .uplink
        .into_iter()
        .flat_map(|uplink| uplink.peers)
        .flat_map(|peer| peer.paths)
        .collect())
}

/// The path by which frames go.
fn used(paths: &[PathStatus]) -> Option<u32> {
    (0..).zip(paths).find(|(_, path)| path.is_active).map(|(place, _)| place)
}

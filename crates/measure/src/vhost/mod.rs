//! How much a switch carries between virtual machines, and how long a frame is on its way.
//!
//! ```text
//!   senders ── vhost-user ──▶ switch ── vhost-user ──▶ receiver
//!      └──────────────── Ends, one core ─────────────────┘       the switch has another
//! ```
//!
//! Switches take turns, round after round, and what is told is the median of the rounds. In each, a
//! switch first carries all that the senders can give it. Then frames are paced, at shares of the
//! rate at which it lost none: how long each takes is told of those, since a queue that is always
//! full tells of nothing but its length.

pub mod arrivals;
mod cases;
pub mod clock;
pub mod delays;
mod disturber;
pub mod ends;
pub(crate) mod foremost;
pub mod frames;
mod report;
pub mod round_trip;
mod rounds;
pub mod sink;
pub(crate) mod switch;
pub mod watch;

use std::time::Duration;

use lab::vhost::{Port, Rig};
use lab::{HUGEPAGE_BYTES, Home, LabError, SwitchKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_getaffinity};
use units::Mac;
use vhost::front::FrontError;
use vhost::nic::{Nic, NicConfig};
use vhost::socket::{Access, Listener, SocketError};

use crate::site::unmade;
use crate::{Bench, Environment, MeasureError, Measurement};
use cases::{Case, cases, check};
use disturber::Disturber;
use ends::{Ends, Load, Traffic, card};
use frames::Flow;
use report::SHARES;
use round_trip::round_trip_ns;
use rounds::{Round, Timed};
use sink::Carried;
use switch::Switch;
use watch::Broken;

pub use report::{Config, Dropped, Latency, Ports, Report, RoundFigures, Throughput};

/// How long a load is on a switch before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long a switch may take to connect to its front-ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the rate without loss is looked for, in shares of what a switch carried.
const LADDER: [f64; 7] = [0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1];

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let cases = cases(&config);
    let mut rounds = vec![Vec::new(); cases.len()];
    bench.progress.begin(cases.len() * config.rounds as usize);
    for round in 0..config.rounds {
        let mut rounds = rounds.iter_mut();
        for cases in cases.chunk_by(Case::goes_with) {
            let mut loads: Vec<_> = cases.iter().zip(rounds.by_ref().take(cases.len())).collect();
            // What a switch carries first it carries a few percent faster: each load has its turn
            // at that.
            let first = round as usize % loads.len();
            loads.rotate_left(first);
            carry(bench, loads, &config)?;
        }
    }
    let results = cases.iter().zip(rounds).map(|(case, rounds)| rounds::told(*case, &rounds));
    let results = results.collect();
    Ok(Measurement::new("throughput", environment, config, results))
}

/// Brings one switch up and has it carry these, one after the other, each with its rounds.
fn carry(
    bench: &Bench<'_>,
    loads: Vec<(&Case, &mut Vec<Round>)>,
    config: &Config,
) -> Result<(), MeasureError> {
    let Case { switch: kind, senders, .. } = *loads[0].0;
    let frames = loads[0].0.kind();
    let count = u32::from(senders) + 1 + u32::from(config.stalled);
    let cards = u64::from(count) * (card(frames).bytes().div_ceil(HUGEPAGE_BYTES) + 1);
    let pages = Switch::pages(kind, count as usize) + cards;
    let cores = cores();
    let rig = Rig::up(&Home::system(), cores[0], pages, bench.stop).map_err(unmade)?;
    let ports = rig.ports(count);
    // Front-ends listen: this is the way that all switches know.
    let listeners = ports.iter().map(|port| Listener::bind(&port.socket, Access::Owner));
    let listeners = listeners.collect::<Result<Vec<_>, SocketError>>()?;
    let mut switch = Switch::up(kind, &rig, &ports, frames).map_err(unmade)?;
    let mut cards = meet(bench, kind, &card(frames), &listeners, &mut switch)?.into_iter();
    let from = cards.by_ref().take(senders.into()).collect();
    let receiver = cards.next().expect("there is one more");
    let mut ends = Ends::new(from, receiver, cards.next());
    let disturber = config.disturb.map(|share| Disturber::start(cores[0], share)).transpose();
    let disturber = disturber.map_err(MeasureError::Disturber)?;
    for (case, rounds) in loads {
        bench.step(&doing(case, config))?;
        let round_trip_ns = round_trip_ns(ends.clock(), cores);
        let round = one(bench, case, config, &ports, &mut ends, &mut switch)?;
        rounds.push(Round { round_trip_ns, ..round });
    }
    drop(disturber);
    // Its connections end before it does.
    drop(ends);
    drop(switch);
    rig.down().map_err(unmade)
}

/// Waits for the switch to connect to its front-ends.
pub(crate) fn meet(
    bench: &Bench<'_>,
    kind: SwitchKind,
    config: &NicConfig,
    listeners: &[Listener],
    switch: &mut Switch<'_>,
) -> Result<Vec<Nic>, MeasureError> {
    let begun = std::time::Instant::now();
    let go_on = || -> Result<(), MeasureError> {
        bench.go_on()?;
        if begun.elapsed() > PATIENCE {
            let said = "it did not connect to its front-ends".to_owned();
            return Err(LabError::Late {
                program: kind.to_string(),
                seconds: PATIENCE.as_secs(),
                said,
            }
            .into());
        }
        Ok(())
    };
    let mut cards = Vec::new();
    for listener in listeners {
        let mut card = Nic::new(config)?;
        loop {
            let Some(connection) = listener.accept()? else {
                go_on()?;
                let glance = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
                // Whatever ends the wait, the next look tells.
                let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&glance));
                continue;
            };
            match card.connect(connection) {
                Ok(()) => break,
                // One that is not ready yet connects again a second later.
                Err(FrontError::Refused(..) | FrontError::Closed(_)) => go_on()?,
                Err(error) => return Err(error.into()),
            }
        }
        cards.push(card);
    }
    while !switch.is_connected().map_err(unmade)? {
        go_on()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(cards)
}

/// Carries one case, once.
fn one(
    bench: &Bench<'_>,
    case: &Case,
    config: &Config,
    ports: &[Port],
    ends: &mut Ends,
    switch: &mut Switch<'_>,
) -> Result<Round, MeasureError> {
    let each = (case.flows / case.senders).max(1);
    let (ports, stalled) = ports.split_at(usize::from(case.senders) + 1);
    let stalled = stalled.first().filter(|_| case.stalled).map(|port| port.mac);
    let traffic = Traffic { size: case.size, flows: each, stalled };
    ends.prepare(traffic, |sender, number| flow(ports, sender, number), bench.stop)?;
    let duration = Duration::from(config.duration);
    let mut load = |load: Load| ends.run(&load, bench.stop);
    load(Load { duration: WARM_UP, ..Load::default() })?;
    let mut taken = None;
    if let Some(times) = config.slow_receiver {
        let free = load(Load { duration, ..Load::default() })?;
        taken = Some(free.rate() / f64::from(times));
    }
    let clock = ends.clock();
    let before = switch.account(clock).map_err(unmade)?;
    let carried =
        ends.run(&Load { duration, taken, frames: config.frames, offered: None }, bench.stop)?;
    let account = switch.account(clock).map_err(unmade)?.since(&before);
    let mut round = Round::new(carried, account, taken);
    if taken.is_none() {
        time(bench, case, duration, ends, &mut round)?;
    }
    Ok(round)
}

/// Looks for the rate without loss, and times frames at shares of it.
fn time(
    bench: &Bench<'_>,
    case: &Case,
    duration: Duration,
    ends: &mut Ends,
    round: &mut Round,
) -> Result<(), Broken> {
    let clock = ends.clock();
    let mut paced = |rate: f64, duration: Duration| {
        let offered = Some(rate / f64::from(case.senders));
        ends.run(&Load { offered, duration, ..Load::default() }, bench.stop)
    };
    let most = round.carried.rate();
    let is_lossless = |carried: &Carried| carried.sent == carried.received;
    round.lossless = is_lossless(&round.carried).then_some(most);
    // A machine that others use takes a core away now and then: each rung has two tries.
    for share in LADDER.into_iter().flat_map(|share| [share; 2]) {
        if round.lossless.is_none() && is_lossless(&paced(share * most, duration / 4)?) {
            round.lossless = Some(share * most);
        }
    }
    for share in SHARES.into_iter().filter(|_| round.lossless.is_some()) {
        let carried = paced(share * round.lossless.unwrap_or(most), duration / 3)?;
        round.timed.extend(Timed::of(share, &carried, clock));
    }
    Ok(())
}

/// Flow `number` of a sender's. The first is between the machines' own addresses; the others' are
/// learned.
fn flow(ports: &[Port], sender: u16, number: u16) -> Flow {
    let (receiver, senders) = ports.split_last().expect("there are two");
    let other = |side: u32| Mac::local(side << 20 | u32::from(sender) << 12 | u32::from(number));
    let (from, to) = match number {
        0 => (senders[usize::from(sender)].mac, receiver.mac),
        _ => (other(1), other(2)),
    };
    Flow { number, sender, from, to }
}

fn doing(case: &Case, config: &Config) -> String {
    let Case { switch, senders, size, flows, stalled } = case;
    let slow = config
        .slow_receiver
        .map_or(String::new(), |times| format!(", a receiver slowed to 1/{times}"));
    let stalled = if *stalled { ", beside a stalled receiver" } else { "" };
    format!("{switch}: {size} B, {flows} flows, {senders} to 1{slow}{stalled}")
}

/// The first cores that we may use: the switch's and that of the [`Ends`], who keep off the
/// switch's. Where there is one only, both have it.
pub(crate) fn cores() -> [usize; 2] {
    let allowed = sched_getaffinity(None).ok();
    let allowed =
        allowed.iter().flat_map(|cores| (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)));
    let mut allowed = allowed.take(2);
    let first = allowed.next().unwrap_or(0);
    [first, allowed.next().unwrap_or(first)]
}

impl From<Broken> for MeasureError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Interrupted => Self::Interrupted,
            Broken::Stuck => Self::Stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_differ_by_both_addresses() {
        let port = |number: u32| Port {
            name: format!("p{number}"),
            mac: Mac::local(number + 1),
            socket: "".into(),
            network: None,
        };
        let ports: Vec<_> = (0..3).map(port).collect();
        let mut seen = std::collections::BTreeSet::new();
        for sender in 0..2 {
            assert_eq!(flow(&ports, sender, 0).to, ports[2].mac);
            for number in 0..512 {
                let Flow { from, to, .. } = flow(&ports, sender, number);
                assert!(seen.insert(from.0), "{from}");
                // The receiver's own is that of each sender's first flow.
                assert!(number == 0 || seen.insert(to.0), "{to}");
            }
        }
    }
}

//! What policy costs: frames between two virtual machines through a logical switch, through rules,
//! through connection tracking, through a router.
//!
//! ```text
//!   a ── vhost-user ──▶ zovn, or Open vSwitch with DPDK ── vhost-user ──▶ b, who has rules
//!   └────────────────────── Ends, one core ──────────────────────────────┘   the switch has another
//! ```
//!
//! Both switches are told the same (`rules.rs`). All switches have their turn at a path,
//! then at the next, and all of that round after round.

mod accept;
mod cases;
mod ends;
mod frames;
mod report;
mod rounds;
mod rules;
mod segments;

use std::time::{Duration, Instant};

use lab::vhost::{OvsDpdk, Port, Rig, Tenants, Zovn};
use lab::{HUGEPAGE_BYTES, Home, LabError, SwitchKind};
use vhost::nic::Nic;
use vhost::socket::{Access, Listener, SocketError};

use self::cases::{Path, What, check, loads, paths};
use self::ends::{Ends, Flows, Load as Put, Until};
use self::frames::Pair;
use self::rounds::Round;
use crate::site::unmade;
use crate::vhost::ends::card;
use crate::vhost::frames::Kind;
use crate::vhost::round_trip::round_trip_ns;
use crate::vhost::switch::Switch;
use crate::vhost::{cores, meet};
use crate::{Bench, Environment, MeasureError, Measurement};

pub use report::{Config, Delay, Load, Policed, Report, Through};

/// How long a load is on a switch before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// At which pace, in frames a second, flows are made known.
const ACQUAINTANCE: f64 = 200_000.0;

/// How often those are made known of which a frame was lost.
const TRIES: u32 = 3;

/// At which pace, in frames a second, first packets come: nothing waits for the one before.
const FIRST: f64 = 20_000.0;

/// How many connections of TCP are open at a time.
const WINDOW: u64 = 256;

/// How long a switch may take to have a generation at its ports.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut all: Vec<_> = paths(&config)
        .into_iter()
        .map(|path| {
            let loads = loads(&config, &path).into_iter().map(|what| (what, Vec::new()));
            (path, loads.collect::<Vec<(What, Vec<Round>)>>())
        })
        .filter(|(_, loads)| !loads.is_empty())
        .collect();
    let steps: usize = all.iter().map(|(_, loads)| loads.len()).sum();
    bench.progress.begin(steps * config.rounds as usize);
    for round in 0..config.rounds {
        for (path, loads) in &mut all {
            carry(bench, path, loads, round, &config)?;
        }
    }
    let results = all
        .iter()
        .flat_map(|(path, loads)| {
            loads.iter().map(|(what, rounds)| rounds::told(path, *what, rounds))
        })
        .collect();
    Ok(Measurement::new("policy", environment, config, results))
}

/// Brings one switch up and has it carry these, one after the other, each with its rounds.
fn carry(
    bench: &Bench<'_>,
    path: &Path,
    loads: &mut [(What, Vec<Round>)],
    round: u32,
    config: &Config,
) -> Result<(), MeasureError> {
    let config_of_cards = card(Kind::Datagram);
    let cards = 2 * (config_of_cards.bytes().div_ceil(HUGEPAGE_BYTES) + 1);
    let pages = Switch::pages(path.switch, 2) + cards;
    let cores = cores();
    let rig = Rig::up(&Home::system(), cores[0], pages, bench.stop).map_err(unmade)?;
    let ports = rig.ports(2);
    let pair = rules::pair(path.through, [ports[0].mac, ports[1].mac]);
    // Front-ends listen: this is the way that both switches know.
    let listeners = ports.iter().map(|port| Listener::bind(&port.socket, Access::Owner));
    let listeners = listeners.collect::<Result<Vec<_>, SocketError>>()?;
    let mut switch = up(path, &rig, &ports, &pair, config).map_err(unmade)?;
    let met = meet(bench, path.switch, &config_of_cards, &listeners, &mut switch)?;
    await_generation(bench, path, &switch)?;
    let met: [Nic; 2] = met.try_into().expect("there are two ports");
    let mut ends = Ends::new(met, pair, config.size);
    // What a switch carries first it carries a few percent faster: each load has its turn at that.
    let first = round as usize % loads.len();
    loads.rotate_left(first);
    for (what, rounds) in loads.iter_mut() {
        bench.step(&format!("{path}: {what}"))?;
        let round_trip_ns = round_trip_ns(ends.clock(), cores);
        let round = one(bench, path, *what, config, &mut ends, &mut switch)?;
        rounds.push(Round { round_trip_ns, ..round });
    }
    loads.rotate_right(first);
    // Its connections end before it does.
    drop(ends);
    drop(switch);
    rig.down().map_err(unmade)
}

/// Starts a switch that is told what frames pass.
fn up<'a>(
    path: &Path,
    rig: &'a Rig<'_>,
    ports: &[Port],
    pair: &Pair,
    config: &Config,
) -> Result<Switch<'a>, LabError> {
    let Path { switch, through, rules } = *path;
    match switch {
        SwitchKind::OvsDpdk => {
            let switch = OvsDpdk::up(rig, ports, false)?;
            if let Some(flows) = rules::open_flow(through, rules, pair) {
                switch.flows(&flows)?;
            }
            Ok(Switch::OvsDpdk(switch))
        }
        _ if through == Through::Plain => Zovn::up(rig, ports, true).map(Switch::Zovn),
        _ => {
            let flows: u32 = config.flows.iter().sum();
            let names = rules::PORTS.map(|name| name.parse().expect("a logical port's name"));
            let tenants = Tenants {
                ports: &names,
                objects: &logical::read(&rules::objects(through, rules, pair)).objects,
                // Of all runs together, and some of those that are looked for meanwhile.
                connections: (2 * (2 * config.connections + flows)).max(LEAST_CONNECTIONS),
            };
            Zovn::of_tenants(rig, ports, &tenants).map(Switch::Zovn)
        }
    }
}

/// What an agent has if nobody says how many.
const LEAST_CONNECTIONS: u32 = 262_144;

/// Waits until a generation decides about frames of both ports.
fn await_generation(
    bench: &Bench<'_>,
    path: &Path,
    switch: &Switch<'_>,
) -> Result<(), MeasureError> {
    let Switch::Zovn(switch) = switch else { return Ok(()) };
    let begun = Instant::now();
    loop {
        let ports = switch.status().map_err(unmade)?.ports;
        let is_realized = |port: &model::PortStatus| {
            port.logical_state.as_ref().is_some_and(|state| state.realized.is_some())
        };
        if path.through == Through::Plain || ports.iter().all(is_realized) {
            return Ok(());
        }
        bench.go_on()?;
        if begun.elapsed() > PATIENCE {
            let said = "its ports are of no generation".to_owned();
            let (program, seconds) = (path.switch.to_string(), PATIENCE.as_secs());
            return Err(LabError::Late { program, seconds, said }.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Carries one load, once.
fn one(
    bench: &Bench<'_>,
    path: &Path,
    what: What,
    config: &Config,
    ends: &mut Ends,
    switch: &mut Switch<'_>,
) -> Result<Round, MeasureError> {
    let duration = Duration::from(config.duration);
    let clock = ends.clock();
    if what == What::Accept {
        let before = switch.account(clock).map_err(unmade)?;
        let carried = accept::accept(ends, config.connections.into(), WINDOW, bench.stop)?;
        let account = switch.account(clock).map_err(unmade)?.since(&before);
        return Ok(Round { carried, account, round_trip_ns: None, latency: None, known: None });
    }
    let mut put = |load: Put| ends.run(load, bench.stop);
    let of = |flows, offered, until| Put { from: 0, flows, offered, until };
    let paced = |flows, rate| of(flows, Some(rate), Until::Time(duration / 2));
    let all = match what {
        What::Flows(flows) => {
            let flows = acquaint(path, flows, &mut put)?;
            put(of(flows, None, Until::Time(WARM_UP)))?;
            of(flows, None, Until::Time(duration))
        }
        What::Connect | What::Accept => {
            of(Flows::New, None, Until::Frames(config.connections.into()))
        }
        What::First => {
            acquaint(path, 1, &mut put)?;
            paced(Flows::New, FIRST)
        }
    };
    let before = switch.account(clock).map_err(unmade)?;
    let carried = put(all)?;
    let account = switch.account(clock).map_err(unmade)?.since(&before);
    let delay = Delay::of(&carried, clock);
    let (latency, known) = match what {
        What::Flows(_) => {
            let half = put(paced(all.flows, carried.rate() / 2.0))?;
            (Delay::of(&half, clock), None)
        }
        What::First => (delay, Delay::of(&put(paced(Flows::Turns(1), FIRST))?, clock)),
        What::Connect | What::Accept => (None, None),
    };
    Ok(Round { carried, account, round_trip_ns: None, latency, known })
}

/// Makes flows known to the switch, and where there are connections has them answered.
fn acquaint(
    path: &Path,
    flows: u32,
    put: &mut impl FnMut(Put) -> Result<crate::vhost::sink::Carried, crate::vhost::run::Broken>,
) -> Result<Flows, MeasureError> {
    let turns = Flows::Turns(flows);
    let answered = path.through == Through::Stateful;
    for from in [0, 1] {
        // Who receives shows where it is, at least.
        let frames = if from == 0 || answered { flows.max(64) } else { 64 };
        let load = Put {
            from,
            flows: turns,
            offered: Some(ACQUAINTANCE),
            until: Until::Frames(frames.into()),
        };
        for _ in 0..TRIES {
            let carried = put(load)?;
            if carried.received == carried.sent {
                break;
            }
        }
    }
    Ok(turns)
}

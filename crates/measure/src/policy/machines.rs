//! Between two virtual machines.

use std::time::Duration;

use lab::vhost::{OvsDpdk, Port, Rig, Tenants, Zovn};
use lab::{HUGEPAGE_BYTES, Home, LabError, SwitchKind};
use vhost::nic::Nic;
use vhost::socket::{Access, Listener, SocketError};

use super::accept::accept;
use super::cases::{Path, What};
use super::ends::{Ends, Flows, Load as Put, Until};
use super::frames::Pair;
use super::generation::await_generation;
use super::report::{Config, Delay, Through};
use super::rounds::Round;
use super::rules;
use crate::site::unmade;
use crate::vhost::ends::card;
use crate::vhost::frames::Kind;
use crate::vhost::round_trip::round_trip_ns;
use crate::vhost::sink::Carried;
use crate::vhost::switch::Switch;
use crate::vhost::watch::Broken;
use crate::vhost::{cores, meet};
use crate::{Bench, MeasureError};

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

/// How many are opened one after the other: how long each takes is told of these.
const ALONE: u64 = 10_000;

/// What an agent has if nobody says how many.
const LEAST_CONNECTIONS: u32 = 262_144;

/// Brings one switch up and has it carry these, one after the other, each with its rounds.
pub fn carry(
    bench: &Bench<'_>,
    path: &Path,
    loads: &mut [(What, Vec<Round>)],
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
    if let (Switch::Zovn(switch), true) = (&switch, path.through != Through::Plain) {
        await_generation(bench, switch.client())?;
    }
    let met: [Nic; 2] = met.try_into().expect("there are two ports");
    let mut ends = Ends::new(met, pair, config.size);
    for (what, rounds) in loads.iter_mut() {
        bench.step(&format!("{path}: {what}"))?;
        let round_trip_ns = round_trip_ns(ends.clock(), cores);
        let round = one(bench, path, *what, config, &mut ends, &mut switch)?;
        rounds.push(Round { round_trip_ns, ..round });
    }
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
                connections: (2 * (3 * config.connections + flows)).max(LEAST_CONNECTIONS),
            };
            Zovn::of_tenants(rig, ports, &tenants).map(Switch::Zovn)
        }
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
        let carried = accept(ends, config.connections.into(), WINDOW, bench.stop)?;
        let account = switch.account(clock).map_err(unmade)?.since(&before);
        let alone = accept(ends, ALONE.min(config.connections.into()), 1, bench.stop)?;
        let latency = Delay::of(&alone, clock);
        return Ok(Round { latency, ..Round::new(carried, account) });
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
    let half = carried.rate() / 2.0;
    let (latency, known) = match what {
        What::Flows(_) => (put(paced(all.flows, half))?, None),
        What::Connect | What::Accept => {
            let frames = u64::from(config.connections) / 2;
            (put(of(all.flows, Some(half), Until::Frames(frames)))?, None)
        }
        What::First => (carried.clone(), Some(put(paced(Flows::Turns(1), FIRST))?)),
    };
    let latency = Delay::of(&latency, clock);
    let known = known.and_then(|known| Delay::of(&known, clock));
    Ok(Round { latency, known, ..Round::new(carried, account) })
}

/// Makes flows known to the switch, and where there are connections has them answered.
fn acquaint(
    path: &Path,
    flows: u32,
    put: &mut impl FnMut(Put) -> Result<Carried, Broken>,
) -> Result<Flows, MeasureError> {
    let turns = Flows::Turns(flows);
    let answered = path.through.keeps_connections();
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

//! Between two containers: small programs in their namespaces, and what they and the kernel count.

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use lab::{Lab, LabSpec, SwitchKind};
use serde::de::DeserializeOwned;
use units::{Mac, Prefix, Span};

use super::bridge::{self, Made};
use super::cases::{Path, What};
use super::frames::Pair;
use super::generation::await_generation;
use super::nft::PORTS;
use super::report::{Config, Delay, Through};
use super::rounds::Round;
use super::rules;
use crate::endpoint::{
    Order, RawSend, Role, SMALLEST_TIMED_FRAME, Target, TcpAccept, TcpAccepted, TcpConnect,
    TcpConnected, TimedReceive, TimedReceived, TimedSend, TimedSent, Timetable, UdpReceive,
    UdpReceived, UdpSent,
};
use crate::environment::busy_ns;
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, settled};
use crate::site::{quiet_endpoint, raise};
use crate::vhost::clock::Clock;
use crate::vhost::delays::Delays;
use crate::vhost::sink::Carried;
use crate::vhost::switch::Account;
use crate::{Bench, MeasureError};

/// The first ports of both: where the second listens, and from where the first sends.
const LISTENS: u16 = 5001;
const SENDS: u16 = 10_000;

/// How many ports the first sends from; for more flows the second listens on two.
const SOURCES: u32 = 50_000;

/// How long a load is on a switch before it is measured.
const WARM_UP: Span = Span::from_millis(500);

/// Frames a second that nobody keeps up with.
const FLOOD: f64 = 1e9;

/// At which pace, in frames a second, flows are answered.
const ANSWERS: f64 = 100_000.0;

/// At which pace, in frames a second, it is told how long each is on its way.
const TIMED: f64 = 5000.0;

/// How many connections of TCP are open at a time.
const AT_ONCE: u32 = 8;

/// Times are in nanoseconds here.
const CLOCK: Clock = Clock { rate: 1e9 };

/// How long a program may take to report after its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where loads are put on a switch.
struct Place<'a> {
    bench: &'a Bench<'a>,
    lab: Lab,
    pair: Pair,
    size: u32,
}

/// What a load's sender and receivers told, and what it took.
struct Told<S, R> {
    sent: S,
    received: Vec<R>,
    cpu_ns: u64,
    balanced: Option<bool>,
}

/// Brings one switch up and has it carry these, one after the other, each with its rounds.
pub fn carry(
    bench: &Bench<'_>,
    path: &Path,
    loads: &mut [(What, Vec<Round>)],
    config: &Config,
) -> Result<(), MeasureError> {
    let pair = rules::pair(path.through, [Mac::local(1), Mac::local(2)]);
    let lab = raise(bench, &spec(path, &pair)?)?;
    let made = prepare(bench, path, &lab, &pair)?;
    let place = Place { bench, lab, pair, size: config.size };
    for (what, rounds) in loads.iter_mut() {
        bench.step(&format!("{path}: {what}"))?;
        let remark = match &made {
            Made::Asked => None,
            Made::Otherwise(how) => Some(how.clone()),
            Made::Nothing(why) => {
                let none = carried(0, 0, 0.0, Delays::default());
                let remark = Some(why.clone());
                rounds.push(Round { remark, ..Round::new(none, Account::default()) });
                continue;
            }
        };
        let round = match what {
            What::Flows(flows) => place.flows(*flows, path.through, config.duration)?,
            _ => place.connections(config.duration)?,
        };
        rounds.push(Round { remark, ..round });
    }
    Ok(place.lab.down()?)
}

/// Two endpoints around a switch.
fn spec(path: &Path, pair: &Pair) -> Result<LabSpec, MeasureError> {
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), path.switch);
    spec.offload = false;
    for ((number, name), place) in (1..).zip(PORTS).zip(0..) {
        let mut endpoint = quiet_endpoint(name.to_owned(), number)?;
        endpoint.mac = Some(pair.macs[place]);
        endpoint.addresses = vec![Prefix { address: pair.addresses[place].into(), length: 16 }];
        if path.switch == SwitchKind::Zovn && path.through != Through::Plain {
            endpoint.logical = Some(rules::PORTS[place].parse().expect("a logical port's name"));
        }
        spec.endpoints.push(endpoint);
    }
    Ok(spec)
}

/// Tells the switch, and the endpoints, what frames are to pass.
fn prepare(bench: &Bench<'_>, path: &Path, lab: &Lab, pair: &Pair) -> Result<Made, MeasureError> {
    if path.through.is_routed() {
        for (name, gateway) in PORTS.into_iter().zip(rules::GATEWAY) {
            let gateway = gateway.to_string();
            lab.run_in(name, "ip", &["route", "add", "default", "via", &gateway])?;
        }
    }
    if path.switch == SwitchKind::Bridge {
        return Ok(bridge::make(lab, path, pair)?);
    }
    if path.through != Through::Plain {
        let objects = rules::objects(path.through, path.rules, pair);
        lab.declare(&logical::read(&objects).objects, bench.stop)?;
        await_generation(bench, &lab.agent()?)?;
    }
    Ok(Made::Asked)
}

impl Place<'_> {
    /// Known flows, as many frames as the switch takes; then how long those of one take.
    fn flows(&self, flows: u32, through: Through, duration: Span) -> Result<Round, MeasureError> {
        let listeners = if flows > SOURCES { 2 } else { 1 };
        let sources = (flows / listeners) as u16;
        let listeners = listeners as u16;
        self.flood(listeners, sources, WARM_UP)?;
        if through.keeps_connections() {
            self.answer(listeners, sources)?;
        }
        let Told { sent, received, cpu_ns, balanced } = self.flood(listeners, sources, duration)?;
        let sum = |one: fn(&UdpReceived) -> u64| received.iter().map(one).sum::<u64>();
        let elapsed = received.iter().map(|one| one.elapsed_ns).max().unwrap_or(0);
        let carried = Carried {
            duplicates: sum(|one| one.duplicates),
            out_of_order: sum(|one| one.out_of_order),
            busy: 1.0 - sent.blocked_ns as f64 / sent.elapsed_ns.max(1) as f64,
            ..carried(sent.sent, sum(|one| one.received), elapsed as f64 / 1e9, Delays::default())
        };
        let account = Account { balanced, ..Account::default() };
        let (cpu_ns, latency) = (Some(cpu_ns), self.latency(duration)?);
        Ok(Round { cpu_ns, latency, ..Round::new(carried, account) })
    }

    /// TCP connections, as many as there can be; then how long one takes that is alone.
    fn connections(&self, duration: Span) -> Result<Round, MeasureError> {
        let open = |at_once, duration| {
            let to = SocketAddr::from((self.pair.known_by[1], LISTENS));
            let connect = Role::TcpConnect(TcpConnect { to, at_once, duration });
            let accept = Role::TcpAccept(TcpAccept { port: LISTENS });
            self.run::<TcpConnected, TcpAccepted>(
                [PORTS[0], PORTS[1]],
                connect,
                vec![accept],
                duration,
            )
        };
        let told = |connected: &TcpConnected| {
            let mut delays = Delays::default();
            connected.times_ns.iter().for_each(|time| delays.book(*time));
            let closed = connected.times_ns.len() as u64;
            carried(closed + connected.lost, closed, connected.elapsed_ns as f64 / 1e9, delays)
        };
        let Told { sent, cpu_ns, balanced, .. } = open(AT_ONCE, duration)?;
        let alone = open(1, Span::from_nanos(duration.as_nanos() / 2))?;
        let account = Account { balanced, ..Account::default() };
        let latency = Delay::of(&told(&alone.sent), CLOCK);
        Ok(Round { cpu_ns: Some(cpu_ns), latency, ..Round::new(told(&sent), account) })
    }

    /// Frames of so many flows, frame by frame by turns.
    fn flood(
        &self,
        listeners: u16,
        sources: u16,
        duration: Span,
    ) -> Result<Told<UdpSent, UdpReceived>, MeasureError> {
        let ports = LISTENS..LISTENS + listeners;
        let send = Role::RawSend(RawSend {
            to: ports.clone().map(|port| self.target(1, port)).collect(),
            sources,
            ..self.raw(0, SENDS, FLOOD, duration)
        });
        let receive = |port| Role::UdpReceive(UdpReceive { port, senders: 1, pace: None });
        self.run(PORTS, send, ports.map(receive).collect(), duration)
    }

    /// Has the second answer each flow: so its connection is established. Nobody listens.
    fn answer(&self, listeners: u16, sources: u16) -> Result<(), MeasureError> {
        let seconds = 1.5 * f64::from(sources) / ANSWERS;
        let duration = Span::from_nanos((seconds * 1e9) as u64).max(Span::from_millis(10));
        for port in LISTENS..LISTENS + listeners {
            let send = Role::RawSend(RawSend {
                to: vec![self.target(0, SENDS)],
                ports: sources,
                ..self.raw(1, port, ANSWERS, duration)
            });
            let [a, b] = PORTS;
            self.run::<UdpSent, UdpReceived>([b, a], send, Vec::new(), duration)?;
        }
        Ok(())
    }

    /// How long frames of one flow are on their way, at a pace at which none waits for another.
    fn latency(&self, duration: Span) -> Result<Option<Delay>, MeasureError> {
        let to = SocketAddr::from((self.pair.known_by[1], LISTENS));
        let (size, gap) = (self.size.max(SMALLEST_TIMED_FRAME), Span::ZERO);
        let timetable = Timetable { rate: TIMED, lead: gap, bursts: 1, burst: duration, gap };
        let send = Role::TimedSend(TimedSend { to, sender: 0, size, timetable });
        let receive = Role::TimedReceive(TimedReceive { port: LISTENS, senders: 1 });
        let told = self.run::<TimedSent, TimedReceived>(PORTS, send, vec![receive], duration)?;
        let mut delays = Delays::default();
        let came = told.received.iter().flat_map(|one| one.delays_ns.iter().flatten().flatten());
        came.clone().for_each(|ns| delays.book((*ns).into()));
        let received = came.count() as u64;
        Ok(Delay::of(&carried(told.sent.sent, received, duration.as_secs_f64(), delays), CLOCK))
    }

    /// Runs one program at the first endpoint to its end, and others at the second, which are
    /// ready before and told to end after.
    fn run<S: DeserializeOwned, R: DeserializeOwned>(
        &self,
        [from, at]: [&str; 2],
        sender: Role,
        receivers: Vec<Role>,
        duration: Span,
    ) -> Result<Told<S, R>, MeasureError> {
        let Self { bench, lab, .. } = self;
        let start = |endpoint, role: &Role| Program::start(bench, lab, endpoint, role);
        let receivers = receivers.iter().map(|role| start(at, role));
        let mut receivers = receivers.collect::<Result<Vec<_>, _>>()?;
        start_all(bench, &mut receivers)?;
        let mut sender = start(from, &sender)?;
        sender.ready(bench)?;
        let (before, busy) = (settled(lab)?, busy_ns()?);
        sender.tell(Order::Start)?;
        let sent = sender.report(bench, PATIENCE + Duration::from(duration))?;
        let cpu_ns = busy_ns()?.saturating_sub(busy);
        finish_all(&mut receivers)?;
        let received = receivers.iter_mut().map(|program| program.report(bench, PATIENCE));
        let received = received.collect::<Result<_, _>>()?;
        let balanced = Losses::between(&before, &settled(lab)?).balanced;
        Ok(Told { sent, received, cpu_ns, balanced })
    }

    fn raw(&self, place: usize, port: u16, rate: f64, duration: Span) -> RawSend {
        RawSend {
            from: Target {
                mac: self.pair.macs[place],
                address: SocketAddrV4::new(self.pair.addresses[place], port),
            },
            to: Vec::new(),
            ports: 1,
            sources: 1,
            tags: Vec::new(),
            dscp: 0,
            sender: 0,
            size: self.size,
            rate,
            duration,
        }
    }

    /// One of the two, as the other reaches it.
    fn target(&self, place: usize, port: u16) -> Target {
        let address = SocketAddrV4::new(self.pair.known_by[place], port);
        Target { mac: self.pair.next[1 - place], address }
    }
}

/// What came of so many frames.
fn carried(sent: u64, received: u64, seconds: f64, delays: Delays) -> Carried {
    Carried {
        sent,
        to_stalled: 0,
        received,
        in_time: received,
        duplicates: 0,
        out_of_order: 0,
        strangers: 0,
        seconds,
        busy: 0.0,
        delays,
    }
}

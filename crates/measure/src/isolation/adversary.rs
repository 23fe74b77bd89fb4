//! Networks that do their worst, beside one that keeps to its guarantee.
//!
//! ```text
//!   victim       ── 0.95 of its minimum, all the time ──▶ ┐
//!                                                         ├─ uplink of rate c ──▶ second host
//!   adversaries  ── as much as they can, for a while ───▶ ┘
//! ```
//!
//! All send from one host, whose uplink is where they meet. What the victim's frames take, and how
//! many of them come, is compared with the same run before the adversaries begin and behind them.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use lab::{LabSpec, NetworkTerms};
use model::{NetworkName, NetworkShare};
use serde::{Deserialize, Serialize};
use traffic::{Samples, TimesUs};
use units::{Rate, Span};

use super::meeting::{Meeting, join};
use super::peer::{FRAME, Peer, Terms};
use super::tally::{Siege, besieged};
use super::{PATIENCE, PORT, Set};
use crate::endpoint::{
    Order, Role, TcpReceive, TcpReceived, TcpSend, TcpSent, TimedReceive, TimedReceived, TimedSend,
    TimedSent, Timetable, UdpReceive, UdpReceived, UdpSend, UdpSent, monotonic_ns,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, both_hold, settled};
use crate::site::{address, quiet_endpoint, raise};
use crate::{Bench, Environment, MeasureError, Measurement};

/// The victim's minimum, of the link's rate.
const GUARANTEE: f64 = 0.2;

/// What the victim sends, of its minimum.
const SENT: f64 = 0.95;

/// What adversaries send together, of the link's rate, where nothing holds them back.
const LOAD: f64 = 2.0;

/// The same of short frames, of which processors carry fewer.
const SHORT_LOAD: f64 = 1.25;

/// A short frame, and what it takes of a link with all that is put around it, in bytes.
const SHORT: u32 = 64;
const SHORT_ON_LINK: u32 = SHORT + 102;

/// How many senders the one network of [`Adversary::Flows`] has.
const FLOWS: u32 = 16;

/// How many streams each network of [`Adversary::Tcp`] has.
const STREAMS: u32 = 4;

/// EyeQ's adversary: the link's rate for 5 ms, and silence for 15 ms (NSDI 2013, §5.2).
const ON: Span = Span::from_millis(5);
const OFF: Span = Span::from_millis(15);

/// What the victim's network and its endpoints are called.
const VICTIM: &str = "victim";
const WITNESS: &str = "witness";

/// What other networks do.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adversary {
    /// Long UDP frames, twice as many as the link carries.
    Bytes,
    /// Frames of 64 bytes, a quarter more than the link carries.
    Packets,
    /// As `bytes`, by sixteen senders in one network.
    Flows,
    /// Long UDP frames at the link's rate for 5 ms of 20, in each network.
    OnOff,
    /// A TCP stream in each network, in large segments.
    Gso,
    /// Four TCP streams in each network, in frames of the MTU.
    Tcp,
}

impl Adversary {
    /// All there are, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Bytes, Self::Packets, Self::Flows, Self::OnOff, Self::Gso, Self::Tcp];

    const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Flows => "flows",
            Self::OnOff => "onoff",
            Self::Gso => "gso",
            Self::Tcp => "tcp",
        }
    }

    /// How many networks there are, and how many senders each has.
    const fn parties(self, tenants: u32) -> (u32, u32) {
        match self {
            Self::Flows => (1, FLOWS),
            _ => (tenants, 1),
        }
    }

    /// How many streams a sender has, if it sends by TCP.
    const fn streams(self) -> Option<u32> {
        match self {
            Self::Gso => Some(1),
            Self::Tcp => Some(STREAMS),
            _ => None,
        }
    }

    /// Bytes of its UDP frames.
    const fn size(self) -> u32 {
        match self {
            Self::Packets => SHORT,
            _ => FRAME,
        }
    }
}

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub peers: Vec<Peer>,
    /// What other networks do.
    pub adversaries: Vec<Adversary>,
    /// How many other networks there are.
    pub tenants: u32,
    /// c: the rate of the link, in bits of long frames.
    pub rate: Rate,
    /// How long the victim is alone at first.
    pub lead: Span,
    /// How long the others send.
    pub lasts: Span,
    /// How long the victim is alone behind them.
    pub rest: Span,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What became of the victim beside one adversary, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    /// The switch.
    pub peer: Peer,
    /// What other networks did.
    pub adversary: Adversary,
    /// Frames that the victim sent.
    pub sent: u64,
    /// How many of them were lost.
    pub lost: u64,
    /// The least share of the victim's frames of 50 ms that came within 50 ms, beside the others.
    pub least_goodput: f64,
    /// The share of all its frames beside the others that did.
    pub goodput: f64,
    /// How long its frames took when it was alone.
    pub alone: TimesUs,
    /// How long they took beside the others.
    pub beside: TimesUs,
    /// What came of the others, in bits a second: of UDP frames, of TCP streams their payload.
    pub others: f64,
    /// The largest share of a processor that the victim's programs took.
    pub generator_busy: f64,
    /// How many parts of 10 ms do not count, as the victim did not run when it should have.
    pub marked: u64,
    /// The victim's frames that came again.
    pub duplicates: u64,
    /// Whether the switch's own account held; none where it keeps none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, Victim>;

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut cases: Vec<(Case, Found)> =
        cases(&config).map(|case| (case, Found::default())).collect();
    bench.rounds(config.rounds, &mut cases, |case, found| {
        found.add(one_run(bench, &config, *case)?);
        Ok(())
    })?;
    let results = cases.into_iter().map(|(case, found)| found.conclude(case)).collect();
    Ok(Measurement::new("adversary", environment, config, results))
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Case {
    adversary: Adversary,
    peer: Peer,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.peer, self.adversary)
    }
}

/// All cases; switches take turns.
fn cases(config: &Config) -> impl Iterator<Item = Case> {
    config.adversaries.iter().flat_map(|adversary| {
        config.peers.iter().map(|peer| Case { adversary: *adversary, peer: *peer })
    })
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let Config { peers, adversaries, tenants, lead, lasts, rest, rounds, .. } = config;
    let least = Span::from_millis(200);
    let short = [lead, lasts, rest].into_iter().any(|span| *span < least);
    if peers.is_empty() || adversaries.is_empty() || *rounds == 0 || short {
        let what = "adversaries need a switch that joins hosts, a round, and 200 ms at least for --lead, --tb and --gap";
        return Err(MeasureError::Config(what.into()));
    }
    if !(1..=MOST_TENANTS).contains(tenants) {
        return Err(MeasureError::Config(format!(
            "{tenants} tenants: make it 1 to {MOST_TENANTS}"
        )));
    }
    Ok(())
}

/// More than two processors can play.
const MOST_TENANTS: u32 = 64;

/// What all rounds of a case found.
#[derive(Default)]
struct Found {
    alone: Samples,
    beside: Samples,
    sent: u64,
    lost: u64,
    due: u64,
    in_time: u64,
    least: Option<f64>,
    /// The others' rates, round by round.
    others: Vec<f64>,
    busy: f64,
    marked: u64,
    duplicates: u64,
    balanced: Option<bool>,
}

/// What one run gave.
struct Made {
    siege: Siege,
    others: f64,
    busy: f64,
    duplicates: u64,
    losses: Losses,
}

fn one_run(
    bench: &Bench<'_>,
    config: &Config,
    Case { adversary, peer }: Case,
) -> Result<Made, MeasureError> {
    let lab = raise(bench, &lab(peer, adversary, config)?)?;
    let (networks, senders) = adversary.parties(config.tenants);
    let receive = |role: &Role, name: &str| Program::start(bench, &lab, name, role);
    let mut witness =
        [receive(&Role::TimedReceive(TimedReceive { port: PORT, senders: 1 }), WITNESS)?];
    let takes = match adversary.streams() {
        Some(streams) => Role::TcpReceive(TcpReceive {
            port: PORT,
            flows: streams,
            congestion: CONGESTION.into(),
        }),
        None => Role::UdpReceive(UdpReceive { port: PORT, senders, pace: None }),
    };
    let names = (0..networks).map(receiver);
    let mut receivers =
        names.map(|name| receive(&takes, &name)).collect::<Result<Vec<_>, MeasureError>>()?;
    start_all(bench, &mut witness)?;
    start_all(bench, &mut receivers)?;

    let timetable = timetable(config);
    let to = address(&lab, WITNESS, PORT)?;
    let role = Role::TimedSend(TimedSend { to, sender: 0, size: FRAME, timetable });
    let mut victim = Program::start(bench, &lab, VICTIM, &role)?;
    let mut others = Vec::new();
    for network in 0..networks {
        let to = address(&lab, &receiver(network), PORT)?;
        for number in 0..senders {
            for _ in 0..adversary.streams().unwrap_or(1) {
                let role = adversary.role(to, number, networks * senders, config);
                others.push(Program::start(bench, &lab, &sender(network, number), &role)?);
            }
        }
    }
    victim.ready(bench)?;
    others.iter_mut().try_for_each(|program| program.ready(bench))?;
    let before = settled(&lab)?;
    victim.tell(Order::Start)?;
    thread::sleep(Duration::from(config.lead));
    let begun = monotonic_ns();
    others.iter_mut().try_for_each(|program| program.tell(Order::Start))?;

    let whole = Duration::from(config.lead + config.lasts + config.rest);
    let sent: TimedSent = victim.report(bench, whole + PATIENCE)?;
    for program in &mut others {
        adversary.hear(bench, program)?;
    }
    finish_all(&mut witness)?;
    // A receiver of streams ends with them.
    if adversary.streams().is_none() {
        finish_all(&mut receivers)?;
    }
    let received: TimedReceived = witness[0].report(bench, PATIENCE)?;
    let mut rate = 0.0;
    for program in &mut receivers {
        rate += adversary.came(bench, program)?;
    }
    let losses = Losses::between(&before, &settled(&lab)?);
    let from = begun.saturating_sub(sent.begin_ns);
    let siege = besieged(&timetable, &sent, &received, from..from + config.lasts.as_nanos());
    lab.down()?;
    let (busy, duplicates) = (sent.busy.max(received.busy), received.duplicates);
    Ok(Made { siege, others: rate, busy, duplicates, losses })
}

/// TCP's congestion control.
const CONGESTION: &str = "cubic";

impl Adversary {
    /// What one of `senders` does, `number` being its own among those that send to one receiver.
    fn role(self, to: std::net::SocketAddr, number: u32, senders: u32, config: &Config) -> Role {
        let Config { rate, lasts, .. } = *config;
        let frames = |bytes: u32| rate.bits_per_sec() as f64 / f64::from(8 * bytes);
        let udp = |each: f64| {
            let (size, rate) = (self.size(), Some(each));
            Role::UdpSend(UdpSend { to, sender: number, size, rate, duration: lasts })
        };
        match self {
            Self::Bytes | Self::Flows => udp(LOAD * frames(FRAME) / f64::from(senders)),
            Self::Packets => udp(SHORT_LOAD * frames(SHORT_ON_LINK) / f64::from(senders)),
            Self::OnOff => {
                let bursts = lasts.as_nanos() / (ON + OFF).as_nanos();
                let timetable = Timetable {
                    rate: frames(FRAME),
                    lead: Span::ZERO,
                    bursts: u32::try_from(bursts).unwrap_or(u32::MAX).max(1),
                    burst: ON,
                    gap: OFF,
                };
                Role::TimedSend(TimedSend { to, sender: number, size: FRAME, timetable })
            }
            Self::Gso | Self::Tcp => {
                Role::TcpSend(TcpSend { to, congestion: CONGESTION.into(), duration: lasts })
            }
        }
    }

    /// Waits until a sender is done.
    fn hear(self, bench: &Bench<'_>, sender: &mut Program) -> Result<(), MeasureError> {
        match self {
            Self::Bytes | Self::Packets | Self::Flows => {
                sender.report::<UdpSent>(bench, PATIENCE).map(drop)
            }
            Self::OnOff => sender.report::<TimedSent>(bench, PATIENCE).map(drop),
            Self::Gso | Self::Tcp => sender.report::<TcpSent>(bench, PATIENCE).map(drop),
        }
    }

    /// The rate at which a receiver took what came, in bits a second.
    fn came(self, bench: &Bench<'_>, receiver: &mut Program) -> Result<f64, MeasureError> {
        let (bytes, ns) = match self.streams() {
            Some(_) => {
                let TcpReceived { bytes, elapsed_ns } = receiver.report(bench, PATIENCE)?;
                (bytes, elapsed_ns)
            }
            None => {
                let UdpReceived { received, elapsed_ns, .. } = receiver.report(bench, PATIENCE)?;
                (received * u64::from(self.size()), elapsed_ns)
            }
        };
        Ok(8e9 * bytes as f64 / ns.max(1) as f64)
    }
}

/// The names of endpoints of the other networks.
fn sender(network: u32, number: u32) -> String {
    format!("tx{}-{}", network + 1, number + 1)
}

fn receiver(network: u32) -> String {
    format!("rx{}", network + 1)
}

fn network_name(network: u32) -> String {
    format!("other{}", network + 1)
}

/// All senders on one host, all receivers on another.
fn lab(peer: Peer, adversary: Adversary, config: &Config) -> Result<LabSpec, MeasureError> {
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), peer.switch());
    spec.offload = adversary == Adversary::Gso;
    let (networks, senders) = adversary.parties(config.tenants);
    let mut places = vec![(VICTIM.to_owned(), 1, VICTIM.to_owned())];
    for network in 0..networks {
        places
            .extend((0..senders).map(|number| (sender(network, number), 1, network_name(network))));
    }
    places.push((WITNESS.to_owned(), 2, VICTIM.to_owned()));
    places.extend((0..networks).map(|network| (receiver(network), 2, network_name(network))));
    for (number, (name, ..)) in (1..).zip(&places) {
        spec.endpoints.push(quiet_endpoint(name.clone(), number)?);
    }
    let places = places.iter().map(|(_, host, network)| (*host, &network[..]));
    let link = join(&mut spec, peer, places, config.rate);
    if peer.terms() != Terms::None {
        let min = Some(Set::of(GUARANTEE, link));
        let share = NetworkShare { min, ..NetworkShare::default() };
        spec.networks = vec![NetworkTerms { name: NetworkName(VICTIM.into()), share }];
    }
    Ok(spec)
}

/// When the victim sends: all the time.
fn timetable(config: &Config) -> Timetable {
    let bits = SENT * GUARANTEE * config.rate.bits_per_sec() as f64;
    Timetable {
        rate: bits / f64::from(8 * FRAME),
        lead: Span::ZERO,
        bursts: 1,
        burst: config.lead + config.lasts + config.rest,
        gap: Span::ZERO,
    }
}

impl Found {
    fn add(&mut self, made: Made) {
        let Made { siege, others, busy, duplicates, losses } = made;
        self.alone.extend(siege.alone_ns);
        self.beside.extend(siege.beside_ns);
        self.sent += siege.sent;
        self.lost += siege.lost;
        self.due += siege.due;
        self.in_time += siege.in_time;
        self.least = self.least.into_iter().chain(siege.least).reduce(f64::min);
        self.marked += siege.marked;
        self.others.push(others);
        self.busy = self.busy.max(busy);
        self.duplicates += duplicates;
        self.balanced = both_hold(self.balanced, losses.balanced);
    }

    fn conclude(mut self, Case { adversary, peer }: Case) -> Victim {
        Victim {
            peer,
            adversary,
            sent: self.sent,
            lost: self.lost,
            least_goodput: self.least.unwrap_or(0.0),
            goodput: self.in_time as f64 / self.due.max(1) as f64,
            alone: self.alone.times_us(),
            beside: self.beside.times_us(),
            others: self.others.iter().sum::<f64>() / self.others.len().max(1) as f64,
            generator_busy: self.busy,
            marked: self.marked,
            duplicates: self.duplicates,
            balanced: self.balanced,
        }
    }
}

impl Peer {
    /// Those of `peers` that an adversary can be beside: that join hosts, and differ there.
    pub fn with_uplinks(peers: &[Self]) -> Vec<Self> {
        let has = |peer: &&Self| Meeting::Uplink.has(**peer) && **peer != Self::ZovnMax;
        peers.iter().filter(has).copied().collect()
    }
}

impl fmt::Display for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Adversary {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL.into_iter().find(|adversary| adversary.word() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            MeasureError::Config(format!("no network does `{text}`: write one of {words}"))
        })
    }
}

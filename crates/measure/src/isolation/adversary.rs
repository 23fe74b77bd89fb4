//! Networks that do their worst, beside one that keeps to its guarantee.
//!
//! ```text
//!   victim       ── 0.95 of its minimum, all the time ──▶ ┐
//!                                                         ├─ where they meet ──▶ receivers
//!   adversaries  ── as much as they can, for a while ───▶ ┘
//! ```
//!
//! They meet at a link of rate c, which is a host's uplink or the link to a host, or at a switch
//! alone. What the victim's frames take, and how many of them come, is compared with the same run
//! before the adversaries begin and behind them.

mod cast;
mod churn;
mod kind;
mod victim;

use std::fmt;
use std::thread;
use std::time::Duration;

use lab::Counters;
use model::ClassKind;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use traffic::{Samples, TimesUs};
use units::{Rate, Span};

pub(super) use self::cast::{EXPEDITED, HIGHEST, network_name};
use self::cast::{Part, Scene, VICTIM};
pub use self::churn::Changes;
pub use self::kind::Adversary;
pub(super) use self::kind::Parties;
use self::kind::Takes;
pub use self::victim::Sends;
use self::victim::{Outcome, Pair, Plan};
use super::meeting::{Meeting, promises};
use super::peer::{Peer, Terms};
use super::spent::{Sample, Spent};
use super::tally::WINDOW;
use super::{PATIENCE, PORT};
use crate::endpoint::{Order, Role, TcpReceived, UdpReceived, monotonic_ns};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, both_hold, settled};
use crate::site::raise;
use crate::{Bench, Environment, MeasureError, Measurement};

/// Below this a share of the link is less than any network may be promised.
const LEAST_CHURNED: Rate = Rate::from_bits_per_sec(20_000_000).unwrap();

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub peers: Vec<Peer>,
    /// What other networks do.
    pub adversaries: Vec<Adversary>,
    /// What the victim sends.
    pub victim: Sends,
    /// Where they meet the victim; each where it does most harm if empty.
    pub at: Vec<Meeting>,
    /// What the fabric between hosts promises; what suits each switch if empty.
    pub promises: Vec<ClassKind>,
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
    /// What the victim sent.
    pub victim: Sends,
    /// What other networks did.
    pub adversary: Adversary,
    /// Where they met.
    pub at: Meeting,
    /// What the fabric between hosts promised, where there is one.
    pub promise: Option<ClassKind>,
    /// Frames that the victim sent.
    pub sent: u64,
    /// How many of them were lost.
    pub lost: u64,
    /// The least share of the victim's frames of 50 ms that came within 50 ms, beside the others.
    pub least_goodput: f64,
    /// The share of all its frames beside the others that did. Of a stream both are the share that
    /// it had of its guarantee.
    pub goodput: f64,
    /// From when on a stream had 0.95 of its guarantee until the others ended, in milliseconds
    /// after they began: the longest of the rounds; none if it had not.
    pub regained_ms: Option<f64>,
    /// The same of every 50 ms of the first round; none where it did not run when it should have.
    pub course: Vec<Option<f64>>,
    /// How long its frames took when it was alone.
    pub alone: TimesUs,
    /// How long they took beside the others.
    pub beside: TimesUs,
    /// What came of the others, in bits a second: of UDP frames, of TCP streams their payload;
    /// where many sockets are open for one frame or none is read, what interfaces took.
    pub others: f64,
    /// What was changed meanwhile, if anything.
    pub changes: Option<Changes>,
    /// What networks had of the thread of the switch that they share, beside one another: the one
    /// that sends to the uplink, or receives by the downlink.
    pub thread: Option<Spent>,
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
    let victim = config.victim;
    let results = cases.into_iter().map(|(case, found)| found.conclude(case, victim)).collect();
    Ok(Measurement::new("adversary", environment, config, results))
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Case {
    adversary: Adversary,
    at: Meeting,
    promise: Option<ClassKind>,
    peer: Peer,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.peer, self.at, self.adversary)
    }
}

/// All cases; switches take turns.
fn cases(config: &Config) -> impl Iterator<Item = Case> {
    config.adversaries.iter().flat_map(move |adversary| {
        places(config, *adversary).into_iter().flat_map(move |at| {
            let peers = config.peers.iter().filter(move |peer| adversary.stands(at, **peer));
            peers.flat_map(move |peer| {
                let case = move |promise| Case { adversary: *adversary, at, promise, peer: *peer };
                promises(at, *peer, &config.promises).into_iter().map(case)
            })
        })
    })
}

/// Where an adversary is met.
fn places(config: &Config, adversary: Adversary) -> Vec<Meeting> {
    if config.at.is_empty() { vec![adversary.usual()] } else { config.at.clone() }
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let Config { peers, adversaries, tenants, lead, lasts, rest, rounds, .. } = config;
    let least = Span::from_millis(200);
    let short = [lead, lasts, rest].into_iter().any(|span| *span < least);
    if peers.is_empty() || adversaries.is_empty() || *rounds == 0 || short {
        let what =
            "adversaries need a switch, a round, and 200 ms at least for --lead, --tb and --gap";
        return Err(MeasureError::Config(what.into()));
    }
    if !(1..=MOST_TENANTS).contains(tenants) {
        return Err(MeasureError::Config(format!(
            "{tenants} tenants: make it 1 to {MOST_TENANTS}"
        )));
    }
    if adversaries.contains(&Adversary::Churn) && config.rate < LEAST_CHURNED {
        return Err(MeasureError::Config(format!(
            "`churn` gives networks hundredths of the link: make --rate {LEAST_CHURNED} at least"
        )));
    }
    for adversary in adversaries {
        for at in places(config, *adversary) {
            check_place(config, *adversary, at)?;
        }
    }
    Ok(())
}

/// Refuses an adversary where it is not met, or where none of the switches stands.
fn check_place(config: &Config, adversary: Adversary, at: Meeting) -> Result<(), MeasureError> {
    if !adversary.meets(at) {
        return Err(MeasureError::Config(format!(
            "`{adversary}` is not met at the {at}: leave out --at, or write {}",
            words(Meeting::ALL.into_iter().filter(|at| adversary.meets(*at)))
        )));
    }
    let is_made = |peer: &Peer| {
        adversary.stands(at, *peer) && !promises(at, *peer, &config.promises).is_empty()
    };
    if !config.peers.iter().any(is_made) {
        return Err(MeasureError::Config(format!(
            "none of these switches stands between `{adversary}` and a victim at the {at}: add one of {}",
            words(Peer::ALL.into_iter().filter(is_made))
        )));
    }
    Ok(())
}

fn words(all: impl Iterator<Item = impl fmt::Display>) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

/// More than two processors can play.
const MOST_TENANTS: u32 = 64;

/// What all rounds of a case found.
#[derive(Default)]
struct Found {
    regained: Option<Span>,
    /// In a round a stream was not again what it was promised.
    has_starved: bool,
    spent: Vec<Spent>,
    alone: Samples,
    beside: Samples,
    sent: u64,
    lost: u64,
    due: u64,
    in_time: u64,
    least: Option<f64>,
    course: Vec<Option<f64>>,
    /// The others' rates, round by round.
    others: Vec<f64>,
    changes: Option<Changes>,
    busy: f64,
    marked: u64,
    duplicates: u64,
    balanced: Option<bool>,
}

/// What one run gave.
struct Made {
    outcome: Outcome,
    others: f64,
    changes: Option<Changes>,
    spent: Option<Spent>,
    losses: Losses,
}

fn one_run(
    bench: &Bench<'_>,
    config: &Config,
    Case { adversary, at, promise, peer }: Case,
) -> Result<Made, MeasureError> {
    let Config { tenants, rate, lasts, .. } = *config;
    let scene = Scene { adversary, at, peer, promise, tenants, rate, lasts, port: PORT };
    let (spec, link) = scene.lab()?;
    let lab = raise(bench, &spec)?;
    let start = |Part { endpoint, role }: &Part| Program::start(bench, &lab, endpoint, role);
    let takers: Vec<Part> = scene.takers().collect();
    let mut receivers = takers.iter().map(start).collect::<Result<Vec<_>, MeasureError>>()?;
    start_all(bench, &mut receivers)?;
    let times = [config.lead, config.lasts, config.rest];
    let plan = Plan { sends: config.victim, rate, times };
    let mut victim = Pair::start(bench, &lab, plan)?;
    let senders = scene.senders(&lab)?;
    let mut others = senders.iter().map(start).collect::<Result<Vec<_>, MeasureError>>()?;
    others.iter_mut().try_for_each(|program| program.ready(bench))?;
    let before = settled(&lab)?;
    victim.begin()?;
    thread::sleep(Duration::from(config.lead));
    let sample = || -> Result<Option<Sample>, MeasureError> {
        let host = spec.hosts.as_ref().map_or(0, |hosts| hosts.count.saturating_sub(1));
        let host = if at == Meeting::Downlink { host } else { 0 };
        if !peer.is_zovn() {
            return Ok(None);
        }
        let status = lab.agent_of(host)?.status().map_err(lab::LabError::from)?;
        Ok(Some(Sample::of(&status, VICTIM)))
    };
    let before_them = sample()?;
    let begun = monotonic_ns();
    others.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
    let changes = (adversary == Adversary::Churn).then(|| {
        let agent = lab.agent_of(0)?;
        let terms = |share| churn::terms(share, (peer.terms() != Terms::None).then_some(link));
        Changes::make(bench.stop, &agent, lasts.into(), tenants, terms)
    });
    let changes = changes.transpose()?;

    let over = Duration::from(lasts).saturating_sub(Duration::from_nanos(monotonic_ns() - begun));
    thread::sleep(over);
    let spent = before_them.zip(sample()?).map(|(before, after)| after.since(&before));
    let outcome = victim.end(bench, begun)?;
    for program in &mut others {
        program.report::<IgnoredAny>(bench, PATIENCE)?;
    }
    // A receiver of streams ends with them.
    if !matches!(adversary.takes(0), Takes::Streams(_)) {
        finish_all(&mut receivers)?;
    }
    let mut came = None;
    for (taker, program) in takers.iter().zip(&mut receivers) {
        let rate = read(bench, &taker.role, adversary.size(), program)?;
        came = came.into_iter().chain(rate).reduce(|one: f64, other| one + other);
    }
    let after = settled(&lab)?;
    let losses = Losses::between(&before, &after);
    let taken = || taken(scene.receivers(), &before, &after) as f64 * 8.0 / lasts.as_secs_f64();
    lab.down()?;
    Ok(Made { outcome, others: came.unwrap_or_else(taken), changes, spent, losses })
}

/// The rate at which a receiver read what came, in bits a second; none if it reads nothing.
fn read(
    bench: &Bench<'_>,
    role: &Role,
    size: u32,
    receiver: &mut Program,
) -> Result<Option<f64>, MeasureError> {
    let (bytes, ns) = match role {
        Role::TcpReceive(_) => {
            let TcpReceived { bytes, elapsed_ns, .. } = receiver.report(bench, PATIENCE)?;
            (bytes, elapsed_ns)
        }
        Role::UdpReceive(_) => {
            let UdpReceived { received, elapsed_ns, .. } = receiver.report(bench, PATIENCE)?;
            (received * u64::from(size), elapsed_ns)
        }
        _ => {
            receiver.report::<IgnoredAny>(bench, PATIENCE)?;
            return Ok(None);
        }
    };
    Ok(Some(8e9 * bytes as f64 / ns.max(1) as f64))
}

/// Bytes that interfaces of these endpoints took between two looks.
fn taken(endpoints: impl Iterator<Item = String>, before: &Counters, after: &Counters) -> u64 {
    let bytes = |counters: &Counters, name: &str| {
        counters.endpoints.get(name).map_or(0, |one| one.device.rx_bytes)
    };
    endpoints.map(|name| bytes(after, &name).saturating_sub(bytes(before, &name))).sum()
}

impl Found {
    fn add(&mut self, made: Made) {
        let Made { outcome, others, changes, spent, losses } = made;
        let Outcome { siege, regained, busy, duplicates } = outcome;
        self.has_starved |= regained.is_none();
        self.regained = self.regained.max(regained);
        self.spent.extend(spent);
        self.alone.extend(siege.alone_ns);
        self.beside.extend(siege.beside_ns);
        self.sent += siege.sent;
        self.lost += siege.lost;
        self.due += siege.due;
        self.in_time += siege.in_time;
        let windows = siege.windows.iter().copied().flatten();
        self.least = self.least.into_iter().chain(windows).reduce(f64::min);
        if self.course.is_empty() {
            self.course = siege.windows;
        }
        self.marked += siege.marked;
        self.others.push(others);
        if let Some(changes) = changes {
            self.changes.get_or_insert_default().add(changes);
        }
        self.busy = self.busy.max(busy);
        self.duplicates += duplicates;
        self.balanced = both_hold(self.balanced, losses.balanced);
    }

    fn conclude(mut self, Case { adversary, at, promise, peer }: Case, victim: Sends) -> Victim {
        Victim {
            peer,
            victim,
            adversary,
            at,
            promise,
            sent: self.sent,
            lost: self.lost,
            least_goodput: self.least.unwrap_or(0.0),
            goodput: self.in_time as f64 / self.due.max(1) as f64,
            regained_ms: self
                .regained
                .filter(|_| !self.has_starved)
                .map(|span| span.as_secs_f64() * 1e3),
            course: self.course,
            alone: self.alone.times_us(),
            beside: self.beside.times_us(),
            others: self.others.iter().sum::<f64>() / self.others.len().max(1) as f64,
            changes: self.changes,
            thread: Spent::of_rounds(&self.spent),
            generator_busy: self.busy,
            marked: self.marked,
            duplicates: self.duplicates,
            balanced: self.balanced,
        }
    }
}

impl Victim {
    /// The time of a part of [`course`](Self::course), in seconds.
    pub const WINDOW_S: f64 = WINDOW as f64 / 1e9;

    /// Whether the switch was told of a minimum that it keeps where they met.
    pub fn has_minimum(&self) -> bool {
        self.at == Meeting::Uplink && self.peer.terms() != Terms::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(adversary: Adversary) -> Config {
        Config {
            peers: Peer::ALL.into(),
            adversaries: vec![adversary],
            victim: Sends::Cbr,
            at: Vec::new(),
            promises: Vec::new(),
            tenants: 8,
            rate: Rate::from_bits_per_sec(100_000_000).unwrap(),
            lead: Span::from_secs(1),
            lasts: Span::from_secs(1),
            rest: Span::from_secs(1),
            rounds: 1,
        }
    }

    #[test]
    fn each_adversary_meets_the_victim_where_it_does_most_harm() {
        let told = |adversary| {
            check(&config(adversary)).unwrap();
            let cases: Vec<_> =
                cases(&config(adversary)).map(|case| (case.at, case.peer)).collect();
            cases
        };
        let zovn = [Peer::ZovnLossyUnshared, Peer::ZovnLossy, Peer::ZovnUnshared, Peer::Zovn];
        assert_eq!(told(Adversary::Churn), zovn.map(|peer| (Meeting::Uplink, peer)));
        // What arrives is another matter where it is granted.
        let granted = zovn.into_iter().chain([Peer::ZovnGranted]);
        let granted: Vec<_> = granted.map(|peer| (Meeting::Downlink, peer)).collect();
        assert_eq!(told(Adversary::Incast), granted);
        let switches = [Peer::Bridge, Peer::ZovnLossy, Peer::Zovn];
        assert_eq!(told(Adversary::Parked), switches.map(|peer| (Meeting::Port, peer)));
    }

    #[test]
    fn what_cannot_be_is_said_with_what_to_write_instead() {
        let refused = |adversary, change: fn(&mut Config)| {
            let mut config = config(adversary);
            change(&mut config);
            check(&config).unwrap_err().to_string()
        };
        for (adversary, change, said) in [
            (
                Adversary::Incast,
                (|config| config.at = vec![Meeting::Uplink]) as fn(&mut Config),
                "`incast` is not met at the uplink: leave out --at, or write downlink",
            ),
            (
                Adversary::Bytes,
                |config| config.peers = vec![Peer::BridgeHtb],
                "none of these switches stands between `bytes` and a victim at the uplink: add one of bridge, \
                 zovn-lossy-unshared, zovn-lossy, zovn-unshared, zovn",
            ),
            (
                Adversary::Churn,
                |config| config.rate = Rate::from_bits_per_sec(2_000_000).unwrap(),
                "`churn` gives networks hundredths of the link: make --rate 20mbit at least",
            ),
            (Adversary::Bytes, |config| config.tenants = 0, "0 tenants: make it 1 to 64"),
        ] {
            assert_eq!(refused(adversary, change), said);
        }
    }

    #[test]
    fn both_fabrics_are_compared_if_that_is_asked_for() {
        let mut config = config(Adversary::Bytes);
        config.peers = vec![Peer::Bridge, Peer::Zovn];
        config.promises = vec![ClassKind::Lossy, ClassKind::Lossless];
        let told: Vec<_> = cases(&config).map(|case| (case.peer, case.promise)).collect();
        // Nobody pauses a kernel's tunnel.
        let lossy = Some(ClassKind::Lossy);
        let expected =
            [(Peer::Bridge, lossy), (Peer::Zovn, lossy), (Peer::Zovn, Some(ClassKind::Lossless))];
        assert_eq!(told, expected);
    }
}

//! Networks of virtual machines that do their worst, beside one that is promised frames.
//!
//! ```text
//!   victim   ── 0.95 of its min_packets ──▶ ┐                ┌─▶ witness
//!                                           ├─ one switch ───┤
//!   others   ── as much as it takes ──────▶ ┘                └─▶ receivers
//! ```
//!
//! There is no link between them: what all share is the switch's thread, on a core of its own.
//! Ports are vhost-user, so no kernel is on a frame's way. The victim's frames have 64 bytes. It is
//! alone first, then beside the others, then beside them with as much as the switch takes of it,
//! which tells what it could have, and alone again.

mod cast;
mod ends;
mod watch;

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use lab::vhost::{Port, Rig};
use lab::{HUGEPAGE_BYTES, Home, LabError};
use model::{NetworkName, NetworkShare};
use serde::{Deserialize, Serialize};
use traffic::TimesUs;
use units::{Rate, Span};

use self::cast::{Scene, VICTIM};
use self::ends::{Ends, Load, Told};
use super::adversary::{Adversary, Changes, Parties};
use super::peer::{Peer, Terms};
use super::spent::{Sample, Spent};
use super::tally::WINDOW;
use crate::losses::both_hold;
use crate::site::unmade;
use crate::vhost::clock::Clock;
use crate::vhost::delays::Delays;
use crate::vhost::ends::card;
use crate::vhost::frames::{Kind, SMALLEST};
use crate::vhost::switch::Switch;
use crate::vhost::{cores, meet};
use crate::{Bench, Environment, MeasureError, Measurement, stats};
use ::vhost::socket::{Access, Listener, SocketError};

/// What the victim sends, of its guarantee.
const SENT: f64 = 0.95;

/// What others may send together where ports are policed, of the victim's guarantee: that is a
/// fifth of all.
const OTHERS: f64 = 4.0;

/// How long a load is on a switch before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long an agent may take to see what frames cost.
const PATIENCE: Duration = Duration::from_secs(10);

/// A machine's frame costs less than this, a container's more.
const CHEAP: Span = Span::from_micros(1);

/// More ports than one core serves.
const MOST_TENANTS: u32 = 16;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub peers: Vec<Peer>,
    /// What other networks do.
    pub adversaries: Vec<Adversary>,
    /// How many other networks there are.
    pub tenants: u32,
    /// The frames a second that the victim is promised.
    pub min_packets: u32,
    /// How long the victim is alone at first.
    pub lead: Span,
    /// How long the others send, each time.
    pub lasts: Span,
    /// How long the victim is alone behind them.
    pub rest: Span,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What became of the victim beside one adversary: medians of the rounds, and sums of counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VictimMachine {
    /// The switch.
    pub peer: Peer,
    /// What other networks did.
    pub adversary: Adversary,
    /// Frames that the victim sent.
    pub sent: u64,
    /// How many of them were lost.
    pub lost: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// The share of its frames beside the others that came within 50 ms of when they were due.
    pub goodput: f64,
    /// The least of 50 ms.
    pub least_goodput: f64,
    /// What came of it a second when it sent all that the switch took of it.
    pub most: f64,
    /// The least of that in 50 ms, as a share of its guarantee.
    pub least_of_guarantee: f64,
    /// How long its frames took when it was alone, from when they were due.
    pub alone: TimesUs,
    /// How long they took beside the others.
    pub beside: TimesUs,
    /// What came of the others, in frames a second.
    pub others: f64,
    /// The same in bits a second.
    pub others_bits: f64,
    /// How often a ring of theirs had no room for as much as it was to take: near 1 the switch is
    /// what bounds them, near 0 the generator.
    pub others_held: f64,
    /// What was changed meanwhile, if anything.
    pub changes: Option<Changes>,
    /// What networks had of the switch's thread beside one another, if it tells.
    pub thread: Option<Spent>,
    /// The share of the victim's frames whose time does not count, as the generator was away.
    pub marked: f64,
    /// Whether the switch's own account held; none where it keeps none.
    pub balanced: Option<bool>,
}

/// The whole experiment.
pub type Report = Measurement<Config, VictimMachine>;

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut cases: Vec<(Case, Vec<Made>)> = cases(&config).map(|case| (case, Vec::new())).collect();
    bench.rounds(config.rounds, &mut cases, |case, rounds| {
        rounds.push(one_run(bench, &config, *case)?);
        Ok(())
    })?;
    let results = cases.into_iter().map(|(case, rounds)| told(case, &config, &rounds)).collect();
    Ok(Measurement::new("machines", environment, config, results))
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Case {
    adversary: Adversary,
    peer: Peer,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.adversary)
    }
}

/// All cases; switches take turns.
fn cases(config: &Config) -> impl Iterator<Item = Case> {
    config.adversaries.iter().flat_map(move |adversary| {
        let peers = config.peers.iter().filter(move |peer| stands(*adversary, **peer));
        peers.map(|peer| Case { adversary: *adversary, peer: *peer })
    })
}

/// Whether a switch stands between machines of the adversary and of the victim.
fn stands(adversary: Adversary, peer: Peer) -> bool {
    // Open vSwitch has no agent to tell of networks that come and go.
    let knows = adversary != Adversary::Churn || peer.is_zovn();
    peer.has_rings() && adversary.has_rings() && knows
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let Config { peers, adversaries, tenants, lead, lasts, rest, rounds, min_packets } = config;
    let wrong = |what: String| Err(MeasureError::Config(what));
    let least = Span::from_millis(200);
    let short = [lead, lasts, rest].into_iter().any(|span| *span < least);
    if peers.is_empty() || adversaries.is_empty() || *rounds == 0 || short {
        return wrong(
            "adversaries need a switch, a round, and 200 ms at least for --lead, --tb and --gap"
                .into(),
        );
    }
    if !(1..=MOST_TENANTS).contains(tenants) {
        return wrong(format!(
            "{tenants} tenants of virtual machines: make it 1 to {MOST_TENANTS}"
        ));
    }
    if !(1_000..=4_000_000).contains(min_packets) {
        return wrong(format!(
            "a promise of {min_packets} frames a second is not what we can time: make --min-packets 1000 to 4000000"
        ));
    }
    for adversary in adversaries {
        if !adversary.has_rings() {
            let able = Adversary::ALL.into_iter().filter(|it| it.has_rings());
            return wrong(format!(
                "`{adversary}` is not met between virtual machines: write {}",
                words(able)
            ));
        }
        if !peers.iter().any(|peer| stands(*adversary, *peer)) {
            let able = Peer::ALL.into_iter().filter(|peer| stands(*adversary, *peer));
            return wrong(format!(
                "none of these switches stands between `{adversary}` and a victim that are virtual machines: add one of {}",
                words(able)
            ));
        }
    }
    for peer in peers.iter().filter(|peer| peer.has_rings()) {
        peer.switch().check()?;
    }
    Ok(())
}

fn words(all: impl Iterator<Item = impl fmt::Display>) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

/// What one run gave.
struct Made {
    alone: Delays,
    beside: Told,
    most: Told,
    /// Of all loads.
    sent: u64,
    received: u64,
    duplicates: u64,
    changes: Option<Changes>,
    thread: Option<Spent>,
    balanced: Option<bool>,
    clock: Clock,
}

fn one_run(
    bench: &Bench<'_>,
    config: &Config,
    Case { adversary, peer }: Case,
) -> Result<Made, MeasureError> {
    let scene = Scene { adversary, tenants: config.tenants };
    let Parties { networks, senders, receivers } = scene.parties();
    let owners = scene.owners();
    let kind = peer.switch();
    let cards = owners.len() as u64 * (card(Kind::Datagram).bytes().div_ceil(HUGEPAGE_BYTES) + 1);
    let pages = Switch::pages(kind, owners.len()) + cards;
    let rig = Rig::up(&Home::system(), cores()[0], pages, bench.stop).map_err(unmade)?;
    let mut ports = rig.ports(owners.len() as u32);
    for (port, owner) in ports.iter_mut().zip(&owners) {
        port.network = Some(NetworkName(owner.clone()));
    }
    let listeners = ports.iter().map(|port| Listener::bind(&port.socket, Access::Owner));
    let listeners = listeners.collect::<Result<Vec<_>, SocketError>>()?;
    let mut switch = Switch::up(kind, &rig, &ports, Kind::Datagram).map_err(unmade)?;
    let nics = meet(bench, kind, &card(Kind::Datagram), &listeners, &mut switch)?;
    let senders = (networks * senders) as usize;
    let mut nics = nics.into_iter();
    let mut next = |count: usize| nics.by_ref().take(count).collect::<Vec<_>>();
    let [victim, witness] = [(); 2].map(|()| next(1).pop().expect("there are two of the victim"));
    let (from, to) = (next(senders), next((networks * receivers) as usize));
    let its = [ports[0].mac, ports[1].mac];
    let mut ends = Ends::new(victim, witness, from, to, its, |number| scene.frame(&ports, number));
    let (_, others) = ports.split_at(2);
    promise(bench, &switch, peer, config.min_packets, &others[..senders])?;
    let made = besiege(bench, config, Case { adversary, peer }, &mut ends, &mut switch)?;
    // Its connections end before it does.
    drop(ends);
    drop(switch);
    rig.down().map_err(unmade)?;
    Ok(made)
}

/// Puts all loads on a switch, one after the other.
fn besiege(
    bench: &Bench<'_>,
    config: &Config,
    Case { adversary, peer }: Case,
    ends: &mut Ends,
    switch: &mut Switch<'_>,
) -> Result<Made, MeasureError> {
    let rate = SENT * f64::from(config.min_packets);
    let beside = Load { victim: Some(rate), others: true, lasts: config.lasts.into() };
    let alone = |lasts: Span| Load { others: false, lasts: lasts.into(), ..beside };
    let clock = ends.clock();
    ends.run(&Load { lasts: WARM_UP, ..beside }, bench.stop)?;
    let mut loads = vec![ends.run(&alone(config.lead), bench.stop)?];
    let before = sample(switch)?;
    let churned = adversary == Adversary::Churn;
    let shares = |share: f64| match peer.terms() {
        Terms::None => {
            NetworkShare { weight: Some((share * 1000.0) as u16), ..NetworkShare::default() }
        }
        // The victim has a fifth of the whole.
        _ => NetworkShare {
            min_packets: Some((share * (1.0 + OTHERS) * f64::from(config.min_packets)) as u32),
            ..NetworkShare::default()
        },
    };
    let (told, changes) = thread::scope(|scope| {
        let client = match switch {
            Switch::Zovn(zovn) if churned => Some(zovn.client()),
            _ => None,
        };
        let lasts = Duration::from(config.lasts);
        let churn = client.map(|client| {
            let (stop, tenants) = (bench.stop, config.tenants);
            scope.spawn(move || Changes::make(stop, client, lasts, tenants, shares))
        });
        let told = ends.run(&beside, bench.stop);
        (told, churn.map(|churn| churn.join().expect("it does not panic")))
    });
    let (beside_told, changes) = (told?, changes.transpose()?);
    let thread = before.zip(sample(switch)?).map(|(before, after)| after.since(&before));
    let most = ends.run(&Load { victim: None, ..beside }, bench.stop)?;
    loads.push(ends.run(&alone(config.rest), bench.stop)?);
    let mut delays = Delays::default();
    loads.iter().for_each(|told| delays.add(&told.seen.delays));
    loads.extend([beside_told.clone(), most.clone()]);
    let sum = |of: fn(&Told) -> u64| loads.iter().map(of).sum();
    Ok(Made {
        alone: delays,
        sent: sum(|told| told.sent),
        received: sum(|told| told.seen.received),
        duplicates: sum(|told| told.seen.duplicates),
        beside: beside_told,
        most,
        changes,
        thread,
        balanced: switch.account(clock).map_err(unmade)?.balanced,
        clock,
    })
}

/// What networks have had of the switch's thread by now, if it tells.
fn sample(switch: &Switch<'_>) -> Result<Option<Sample>, MeasureError> {
    match switch {
        Switch::Zovn(zovn) => Ok(Some(Sample::of(&zovn.status().map_err(unmade)?, VICTIM))),
        Switch::OvsDpdk(_) | Switch::Testpmd(_) => Ok(None),
    }
}

/// Tells a switch what the victim is promised, or what each of the others' senders may send.
fn promise(
    bench: &Bench<'_>,
    switch: &Switch<'_>,
    peer: Peer,
    min_packets: u32,
    senders: &[Port],
) -> Result<(), MeasureError> {
    match switch {
        Switch::Zovn(zovn) if peer.terms() != Terms::None => {
            // At first an agent takes a frame to cost what a container's does.
            let begun = Instant::now();
            while zovn.status().map_err(unmade)?.thread.frame > CHEAP {
                bench.go_on()?;
                if begun.elapsed() > PATIENCE {
                    let said = "it did not see what a frame costs".to_owned();
                    let (program, seconds) = (peer.to_string(), PATIENCE.as_secs());
                    return Err(LabError::Late { program, seconds, said }.into());
                }
                thread::sleep(Duration::from_millis(100));
            }
            let share = NetworkShare { min_packets: Some(min_packets), ..NetworkShare::default() };
            zovn.share(&NetworkName(VICTIM.into()), share).map_err(unmade)
        }
        Switch::OvsDpdk(ovs) if peer == Peer::OvsDpdk => {
            let all = OTHERS * f64::from(min_packets) * f64::from(8 * (SMALLEST - 14));
            let each = Rate::from_bits_per_sec((all / senders.len().max(1) as f64) as u64);
            let each = each.ok_or_else(|| MeasureError::Config("too many senders".into()))?;
            senders.iter().try_for_each(|port| ovs.police(port, each)).map_err(unmade)
        }
        _ => Ok(()),
    }
}

/// What is told of a case.
fn told(Case { adversary, peer }: Case, config: &Config, rounds: &[Made]) -> VictimMachine {
    let median = |of: &dyn Fn(&Made) -> f64| stats::median(rounds.iter().map(of)).unwrap_or(0.0);
    let sum = |of: fn(&Made) -> u64| rounds.iter().map(of).sum::<u64>();
    let least = |of: &dyn Fn(&Made) -> f64| rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let guaranteed = f64::from(config.min_packets) * WINDOW as f64 / 1e9;
    let windows = |made: &Made| {
        let seen = &made.beside.seen;
        let shares = seen.in_time.iter().zip(&seen.due).map(|(came, due)| share(*came, *due));
        shares.fold(f64::INFINITY, f64::min)
    };
    let guarantees = |made: &Made| {
        let came = made.most.seen.came.iter().map(|came| *came as f64 / guaranteed);
        came.fold(f64::INFINITY, f64::min)
    };
    let mut changes = None;
    for made in rounds.iter().filter_map(|made| made.changes.clone()) {
        changes.get_or_insert_with(Changes::default).add(made);
    }
    let times = |of: &dyn Fn(&Made) -> &Delays| {
        let all: Vec<_> = rounds.iter().map(|made| times_us(of(made), made.clock)).collect();
        let median = |of: fn(&TimesUs) -> f64| stats::median(all.iter().map(of)).unwrap_or(0.0);
        TimesUs {
            mean: median(|one| one.mean),
            p50: median(|one| one.p50),
            p95: median(|one| one.p95),
            p99: median(|one| one.p99),
            p999: median(|one| one.p999),
            max: all.iter().map(|one| one.max).fold(0.0, f64::max),
        }
    };
    let others = |made: &Made, count: u64| count as f64 / made.beside.seconds;
    let (sent, received) = (sum(|made| made.sent), sum(|made| made.received));
    let spent: Vec<_> = rounds.iter().filter_map(|made| made.thread).collect();
    let seen = |of: fn(&Made) -> (u64, u64)| {
        let (part, all) = rounds.iter().map(of).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        share(part, all)
    };
    VictimMachine {
        peer,
        adversary,
        sent,
        lost: sent.saturating_sub(received),
        duplicates: sum(|made| made.duplicates),
        goodput: seen(|made| {
            let seen = &made.beside.seen;
            (seen.in_time.iter().sum(), seen.due.iter().sum())
        }),
        least_goodput: least(&windows),
        most: median(&|made| made.most.seen.received as f64 / made.most.seconds),
        least_of_guarantee: least(&guarantees),
        alone: times(&|made| &made.alone),
        beside: times(&|made| &made.beside.seen.delays),
        others: median(&|made| others(made, made.beside.others.frames)),
        others_bits: median(&|made| 8.0 * others(made, made.beside.others.bytes)),
        others_held: median(&|made| share(made.beside.others.held, made.beside.others.tries)),
        changes,
        thread: Spent::of_rounds(&spent),
        marked: seen(|made| (made.beside.seen.marked, made.beside.seen.received)),
        balanced: rounds.iter().fold(None, |all, made| both_hold(all, made.balanced)),
    }
}

fn times_us(delays: &Delays, clock: Clock) -> TimesUs {
    let us = |ticks: f64| ticks * 1e6 / clock.rate;
    let quantile = |share| us(delays.quantile(share).unwrap_or(0) as f64);
    TimesUs {
        mean: us(delays.mean().unwrap_or(0.0)),
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: quantile(1.0),
    }
}

impl VictimMachine {
    /// Whether the switch was told of a guarantee that it keeps.
    pub fn has_guarantee(&self) -> bool {
        self.peer.is_zovn() && self.peer.terms() != Terms::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            peers: Peer::ALL.into(),
            adversaries: vec![Adversary::Packets],
            tenants: 8,
            min_packets: 1_000_000,
            lead: Span::from_secs(1),
            lasts: Span::from_secs(1),
            rest: Span::from_secs(1),
            rounds: 1,
        }
    }

    #[test]
    fn switches_that_machines_plug_into_are_compared() {
        let peers = |adversary| {
            let config = Config { adversaries: vec![adversary], ..config() };
            cases(&config).map(|case| case.peer).collect::<Vec<_>>()
        };
        let zovn = [Peer::ZovnLossyUnshared, Peer::ZovnLossy, Peer::ZovnUnshared, Peer::Zovn];
        assert_eq!(peers(Adversary::Churn), zovn);
        let all = [&[Peer::OvsDpdkUnshared, Peer::OvsDpdk][..], &zovn].concat();
        assert_eq!(peers(Adversary::Packets), all);
        assert_eq!(peers(Adversary::Parked), []);
    }

    #[test]
    fn what_cannot_be_is_said_with_what_to_write_instead() {
        let refused = |change: fn(&mut Config)| {
            let mut config = config();
            config.peers = vec![Peer::Zovn];
            change(&mut config);
            check(&config).unwrap_err().to_string()
        };
        for (change, said) in [
            (
                (|config| config.adversaries = vec![Adversary::Parked]) as fn(&mut Config),
                "`parked` is not met between virtual machines: write bytes, packets, priority, incast, broadcast, churn",
            ),
            (
                |config| config.peers = vec![Peer::Bridge],
                "none of these switches stands between `packets` and a victim that are virtual machines: add one of \
                 ovs-dpdk-unshared, ovs-dpdk, zovn-lossy-unshared, zovn-lossy, zovn-unshared, zovn",
            ),
            (|config| config.tenants = 17, "17 tenants of virtual machines: make it 1 to 16"),
            (
                |config| config.min_packets = 0,
                "a promise of 0 frames a second is not what we can time: make --min-packets 1000 to 4000000",
            ),
        ] {
            assert_eq!(refused(change), said);
        }
    }
}

//! `zovn plan prove`: the risk of a placement once more, in another way.

mod lab;
mod scenario;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use figures::{count, percent};
use measure::page::Page;
use planner::Plan;
use planner::proof::{Drawn, by_monte_carlo};
use serde::Serialize;

use self::lab::{Ask, told};
use self::scenario::Scale;
use self::simulated::{Estimate, Found, Simulated, simulated};
use super::experiment::Experiment;
use super::files::Files;
use super::page::{Html, Twice, put, with_compared};
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, USAGE, show, unmade};
use crate::number::within;
use crate::signals::INTERRUPTED;
use crate::table::{headed, text};

/// Find the risk of the placement once more in another way, and compare.
///
/// By `monte-carlo`, states of all machines are drawn and added up. By `sim`, each host is
/// simulated frame by frame, with the real switch, which carries as much as the plan says: what
/// machines make beyond that is lost, and counted. Holding times are shortened, all by one factor,
/// so that what is rare in days is seen in seconds. By `lab`, which needs root and a profile of a
/// switch that was measured on this machine, a host's machines are containers at that switch: what
/// was drawn of their models is sent, and how long they are held back is told. With `--mixes`
/// constant demands of 50 % to 150 % of what the switch carries are sent instead, and it is told
/// how many were rightly said to fit or not to.
///
/// Exit code 1 if a host's two figures contradict each other. By `sim` they do if, beyond three
/// standard errors, more is seen than is computed by a tenth; or if more than 1 % of traffic is
/// computed to be too much, and less than half of that is seen.
///
/// By `lab`, too, if nothing is proven: unless what was predicted was seen, machines were held back
/// for as long as they asked for too much, but for a fifth of that and two hundredths of all time,
/// four fifths of what was expected was carried, no frame was lost or came again, and the switch's
/// own accounts hold. Of `--mixes`, unless half of those that fit and of those that do not could be
/// asked for, 95 % of them are right, and as many carried what the profile's curve says, within a
/// tenth; what a switch promises to carry without loss may not be lost nor come again.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// In which way.
    #[arg(long, value_enum)]
    by: Way,
    /// By `monte-carlo`: how often states are drawn, for each host that differs from others
    /// [default: 100000].
    #[arg(long, value_name = "N", value_parser = within(1000..=u64::MAX))]
    draws: Option<u64>,
    /// By `sim`: how many frames a host's runs have together, about [default: 20000000].
    #[arg(long, value_name = "N", value_parser = within(10_000..=u64::MAX))]
    frames: Option<u64>,
    /// By `sim` and `lab`: how many frames a machine's visit to a state has, on average. The more,
    /// the less the buffers count, and the fewer visits there are [default: 200; by `lab` 2000, and
    /// 1000 at least].
    #[arg(long, value_name = "N", value_parser = within(10..=1_000_000u64))]
    burst: Option<u64>,
    /// By `sim`: how many runs each host has, from whose differences errors are told [default: 16].
    #[arg(long, value_name = "N", value_parser = within(2..=1000u32))]
    runs: Option<u32>,
    /// By `sim`: how many hosts that differ are simulated, the riskiest first [default: 16].
    #[arg(long, value_name = "N", value_parser = within(1..=10_000u32))]
    most: Option<u32>,
    /// By `sim`: write each host's scenario into this folder, for `zovn sim`.
    #[arg(long, value_name = "FOLDER")]
    scenarios: Option<PathBuf>,
    /// By `lab`: the host whose machines send [default: the one with the greatest risk].
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// By `lab`: how many seconds they send [default: 20; 1 for each of `--mixes`].
    #[arg(long, value_name = "N", value_parser = within(1..=3600u32))]
    seconds: Option<u32>,
    /// By `lab`: send so many mixes of constant demands, in place of a host's machines. Half of
    /// them ask for less than the switch carries and half for more, by a tenth at least.
    #[arg(long, value_name = "N", value_parser = within(1..=10_000u32))]
    mixes: Option<u32>,
    /// The class of hours, which has to be said if the plan divides hours.
    #[arg(long, value_name = "NAME")]
    period: Option<String>,
    /// The seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum Way {
    /// States of all machines are drawn, and what they ask for is added up.
    MonteCarlo,
    /// Hosts are simulated frame by frame, with the real switch.
    Sim,
    /// A host's machines are containers at a real switch on this machine.
    Lab,
}

/// How it was proven.
#[derive(Serialize)]
struct Config<'a> {
    /// The class of hours that was asked for.
    period: Option<&'a str>,
    #[serde(flatten)]
    scope: Scope<'a>,
}

/// What was drawn, simulated or sent.
#[derive(Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
enum Scope<'a> {
    MonteCarlo {
        draws: u64,
        seed: u64,
    },
    Sim {
        #[serde(flatten)]
        scale: Scale,
        most: usize,
    },
    Lab {
        /// The one that was asked for.
        host: Option<&'a str>,
        secs: u32,
        /// Mixes have none.
        burst: Option<u64>,
        mixes: Option<u32>,
        seed: u64,
    },
}

fn proven<'a, R>(
    args: &'a Args,
    scope: Scope<'a>,
    results: &'a [R],
) -> Experiment<'a, Config<'a>, R> {
    let period = args.period.as_deref();
    Experiment::new("plan-prove", Config { period, scope }, results)
}

/// Overload that begins and ends sooner than a lab's senders catch up is not seen there: visits are
/// to last longer.
const LEAST_BURST: u64 = 1000;

impl Way {
    /// As one asks for it.
    fn flag(self) -> &'static str {
        match self {
            Self::MonteCarlo => "`--by monte-carlo`",
            Self::Sim => "`--by sim`",
            Self::Lab => "`--by lab`",
        }
    }
}

impl Args {
    /// Why these flags do not go together, if they do not.
    fn misused(&self) -> Option<String> {
        let (by_draws, by_sim, by_lab) = (&[Way::MonteCarlo][..], &[Way::Sim][..], &[Way::Lab][..]);
        let flags = [
            ("--draws", self.draws.is_some(), by_draws),
            ("--frames", self.frames.is_some(), by_sim),
            ("--burst", self.burst.is_some(), &[Way::Sim, Way::Lab]),
            ("--runs", self.runs.is_some(), by_sim),
            ("--most", self.most.is_some(), by_sim),
            ("--scenarios", self.scenarios.is_some(), by_sim),
            ("--host", self.host.is_some(), by_lab),
            ("--seconds", self.seconds.is_some(), by_lab),
            ("--mixes", self.mixes.is_some(), by_lab),
        ];
        let misplaced =
            flags.iter().find(|(_, is_said, ways)| *is_said && !ways.contains(&self.by));
        if let Some((flag, _, ways)) = misplaced {
            let ways: Vec<&str> = ways.iter().map(|way| way.flag()).collect();
            return Some(format!("{flag} is of {}: leave it out", ways.join(" and ")));
        }
        match self.burst {
            Some(_) if self.mixes.is_some() => {
                Some("--mixes are constant and have no --burst: leave one of them out".into())
            }
            Some(burst) if self.by == Way::Lab && burst < LEAST_BURST => Some(format!(
                "visits of {burst} frames are too short for a lab to see them: raise --burst to {LEAST_BURST}"
            )),
            _ => None,
        }
    }
}

/// Compares, and tells.
pub fn run(args: &Args) -> Outcome {
    if let Some(why) = args.misused() {
        eprintln!("zovn: {why}");
        return Ok(ExitCode::from(USAGE));
    }
    args.files.then_on_hosts(|plan| {
        let period = match (&args.period, &plan.periods[..]) {
            (Some(name), _) => plan.period(name),
            (None, [_]) => Ok(0),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|it| it.name.as_str()).collect();
                Err(format!("the plan divides hours: say one of {} by --period", names.join(", ")))
            }
        };
        let period = match period {
            Ok(period) => period,
            Err(why) => {
                eprintln!("zovn: {why}");
                return Ok(ExitCode::from(USAGE));
            }
        };
        let plan = &plan.of_period(period);
        match args.by {
            Way::MonteCarlo => monte_carlo(args, plan),
            Way::Sim => by_sim(args, plan),
            Way::Lab => by_lab(args, plan),
        }
    })
}

fn monte_carlo(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let draws = args.draws.unwrap_or(100_000);
    let drawn = by_monte_carlo(plan, draws, args.seed);
    put(page, || drawn_page(&drawn))?;
    let scope = Scope::MonteCarlo { draws, seed: args.seed };
    show(&proven(args, scope, &drawn), args.json, || drawn_table(&drawn, draws))?;
    Ok(ending(drawn.iter().all(|it| it.agrees)))
}

fn by_lab(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let ask = Ask {
        host: args.host.as_deref(),
        secs: args.seconds.unwrap_or(if args.mixes.is_some() { 1 } else { 20 }),
        burst: args.burst.unwrap_or(2000),
        seed: args.seed,
    };
    let Ask { host, secs, burst, seed } = ask;
    let mixes = args.mixes;
    let burst = mixes.is_none().then_some(burst);
    let scope = Scope::Lab { host, secs, burst, mixes, seed };
    match mixes {
        Some(count) => match lab::mixed(plan, count, ask)? {
            Ok(all) => {
                put(page, || told::mixes_page(&all))?;
                show(&proven(args, scope, &[&all]), args.json, || told::mixes_table(&all))?;
                Ok(ending(all.is_met))
            }
            Err(error) => unmade(error),
        },
        None => match lab::host(plan, ask)? {
            Ok(host) => {
                put(page, || told::host_page(&host))?;
                show(&proven(args, scope, &[&host]), args.json, || told::host_table(&host))?;
                Ok(ending(host.agrees))
            }
            Err(error) => unmade(error),
        },
    }
}

fn by_sim(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let scale = Scale {
        frames: args.frames.unwrap_or(20_000_000),
        burst: args.burst.unwrap_or(200),
        runs: args.runs.unwrap_or(16),
        seed: args.seed,
    };
    let most = args.most.unwrap_or(16) as usize;
    let found = simulated(plan, scale, most, args.scenarios.as_deref())?;
    if found.is_stopped {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    put(page, || simulated_page(&found))?;
    let told = proven(args, Scope::Sim { scale, most }, &found.hosts);
    show(&told, args.json, || simulated_table(&found, scale))?;
    Ok(ending(found.hosts.iter().all(|it| it.agrees)))
}

fn drawn_table(drawn: &[Drawn], draws: u64) -> String {
    let mut table = headed(["hosts", "computed", "drawn", "by the draws at most", "agree"]);
    for it in drawn {
        table.add_row([
            hosts(&it.hosts),
            it.computed.to_string(),
            percent(it.drawn),
            it.interval.to_string(),
            yes(it.agrees),
        ]);
    }
    format!("{}\n\n{} draws each", text(table), count(draws))
}

fn simulated_table(found: &Found, scale: Scale) -> String {
    let mut table = headed([
        "hosts",
        "machines",
        "computed",
        "seen",
        "traffic computed",
        "traffic seen",
        "episodes",
        "agree",
    ]);
    let told = |it: Estimate| format!("{} ± {}", percent(it.mean), percent(it.error));
    for it in &found.hosts {
        table.add_row([
            hosts(&it.hosts),
            machines(&it.machines),
            it.computed.to_string(),
            told(it.seen),
            percent(it.computed_traffic),
            told(it.seen_traffic),
            it.episodes.to_string(),
            yes(it.agrees),
        ]);
    }
    let mut said = format!(
        "{}\n\n{} runs of each host, about {} frames together; ± is a standard error",
        text(table),
        scale.runs,
        count(scale.frames)
    );
    if found.hosts.len() < found.kinds {
        said += &format!(
            "\nthe {} riskiest of {} hosts that differ: `--most` has more simulated",
            found.hosts.len(),
            found.kinds
        );
    }
    said
}

fn drawn_page(drawn: &[Drawn]) -> Page {
    let rows = drawn.iter().map(|it| Twice {
        names: hosts(&it.hosts),
        computed: it.computed.high,
        other: (it.drawn, [it.interval.low, it.interval.high]),
    });
    let page = Page::new("Overload, computed and drawn").lead(
        "The share of time in which each host is asked for too much, as it is computed, and the \
         share of draws; whiskers have 99.9 %.",
    );
    with_compared(page, "Overload of hosts", "drawn", rows.collect())
}

fn simulated_page(found: &Found) -> Page {
    let rows = |of: fn(&Simulated) -> (f64, Estimate)| -> Vec<Twice> {
        let rows = found.hosts.iter().map(|it| {
            let (computed, Estimate { mean, error }) = of(it);
            Twice { names: hosts(&it.hosts), computed, other: (mean, [mean - error, mean + error]) }
        });
        rows.collect()
    };
    let time = rows(|it| (it.computed.high, it.seen));
    let traffic = rows(|it| (it.computed_traffic, it.seen_traffic));
    let page = Page::new("Overload, computed and simulated").lead(
        "What was computed of each host, and what its simulated machines saw at a switch that \
         carries as much as the plan says; whiskers are a standard error.",
    );
    let page = with_compared(page, "Overload of hosts", "simulated", time);
    with_compared(page, "Traffic that is too much", "simulated", traffic)
}

fn yes(agrees: bool) -> String {
    if agrees { "yes" } else { "no" }.to_owned()
}

//! A plan's host in a lab on this machine: its machines are containers at a real switch, and what
//! becomes of what they ask for is held against what was predicted by the switch's profile.

mod switch;
pub mod told;

use std::collections::BTreeMap;

use figures::percent;
use measure::MeasureError;
use measure::endpoint::Visit;
use measure::profile::trial::{Machine, Observed, Trial, Verdict, run};
use measure::profile::{Way, is_lossless};
use planner::course::{Course, asked_and_carried, course, pieces, share_above};
use planner::mixes::{MARGIN, Mix, mixes};
use planner::stage::{Profiled, Stage, stages};
use planner::{Plan, Share};
use serde::Serialize;
use units::{Rng, Span};

use self::switch::{Switch, Unmade};
use crate::plan::words::hosts;
use crate::progress;

/// What is asked of a lab.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The host; the one with the greatest risk if absent.
    pub host: Option<&'a str>,
    /// How long machines send, in seconds.
    pub secs: u32,
    /// How many frames a machine's visit to a state has, on average.
    pub burst: u64,
    /// What is drawn.
    pub seed: u64,
}

/// A host as the lab had it.
#[derive(Clone, Debug, Serialize)]
pub struct HostSeen {
    /// The hosts that are like it.
    pub hosts: Vec<String>,
    /// What each has.
    pub machines: BTreeMap<String, u32>,
    /// How long machines sent, in seconds.
    pub secs: u32,
    /// By how much holding times were shorter than the plan's.
    pub faster: f64,
    /// The share of time in which more of the switch's time is asked for than there is, as it is
    /// computed.
    pub computed: Share,
    /// The share of the run in which machines asked for more than 110 %, and than 90 %, of the
    /// switch's time, by what was drawn for them.
    pub asked: Share,
    /// What that says, and what was seen.
    pub predicted: Verdict,
    /// See `predicted`.
    pub seen: Verdict,
    /// What the switch should have carried of what was drawn, in frames a second.
    pub expected_fps: f64,
    /// What became of it.
    #[serde(flatten)]
    pub observed: Observed,
    /// Whether what was predicted was seen: machines were held back for as long as they asked for
    /// too much, but for a fifth and two hundredths of the time, at least four fifths of what was
    /// expected was carried, and the switch kept its promise. What is open agrees with nothing.
    pub agrees: bool,
}

/// A mix as the lab had it.
#[derive(Clone, Debug, Serialize)]
pub struct MixSeen {
    /// What was asked for.
    #[serde(flatten)]
    pub mix: Mix,
    /// What its load says, and what was seen.
    pub predicted: Verdict,
    /// See `predicted`.
    pub seen: Verdict,
    /// What the profile's curve says that is carried, in frames a second.
    pub expected_fps: f64,
    /// What became of it.
    #[serde(flatten)]
    pub observed: Observed,
}

/// All mixes.
#[derive(Clone, Debug, Serialize)]
pub struct MixesSeen {
    /// How many of them the lab could ask for.
    pub judged: usize,
    /// How many of those were predicted right.
    pub right: usize,
    /// How many of those carried as much as the profile's curve says, within a tenth.
    pub near_curve: usize,
    /// Frames that were lost where the switch promises to lose none.
    pub lost: u64,
    /// Frames that came again there.
    pub duplicates: u64,
    /// Of how many mixes there the switches' own accounts did not hold.
    pub unbalanced: usize,
    /// Whether enough of them were judged: half of those that fit, and of those that do not.
    pub is_enough: bool,
    /// Whether the goal is met: enough were judged, 95 % of those are right, as many carried what
    /// the curve says, and where the switch promises to lose nothing it kept its promise.
    pub is_met: bool,
    /// All of them.
    pub mixes: Vec<MixSeen>,
}

/// A run of some seconds says nothing of smaller shares of time.
pub const RESOLUTION: f64 = 0.01;

/// By how much of itself, and of all time, what is seen may differ from what was asked for.
const RELATIVE: f64 = 0.2;
const ABSOLUTE: f64 = 0.02;

/// So many mixes are to be predicted right, and to carry what the profile's curve says.
const GOAL: f64 = 0.95;

/// So much may what is carried differ from that.
const NEAR_CURVE: f64 = 0.1;

/// What the socket of a planned host's machine holds, in bytes: a few frames, so that machines are
/// held back when too much is asked for, and not when large buffers are full.
const ROOM: u32 = 16 << 10;

const NO_PROFILE: &str = "what its switch carries was not measured here, and a lab is on this machine: run `zovn \
                          measure profile --json` and name that file by `profile` in place of `carries` and `frames`";

/// Has a host's machines send in a lab.
pub fn host(plan: &Plan, ask: Ask<'_>) -> Result<Result<HostSeen, MeasureError>, Unmade> {
    let stage = stage(plan, ask.host)?;
    let Some(profiled) = &stage.profile else {
        return Err(format!("{}: {NO_PROFILE}", stage.hosts[0]).into());
    };
    let switch = Switch::of(&profiled.measured)?;
    let is_far = stage.actors.iter().any(|it| it.remote > 0.0);
    let way = if is_far { Way::Link } else { Way::Host };
    if !is_lossless(switch.kind, way, switch.tunnel) {
        return Err(format!(
            "{} loses frames where zovn holds senders back, so that nobody sees when it is asked for too much: \
             ask with `--mixes`",
            switch.kind
        )
        .into());
    }
    let drawn = Drawn::of(&stage, ask);
    let trial = Trial { name: hosts(&stage.hosts), machines: drawn.machines };
    let setup = switch.setup(Some(ROOM));
    let made = progress::show(|bench| run(bench, &setup, std::slice::from_ref(&trial)))?;
    let observed = match made {
        Ok(observed) => observed.into_iter().next().unwrap_or_default(),
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(seen(stage, &drawn.wanted, plan.epsilon, observed)))
}

/// The host that was asked for, or the riskiest.
fn stage(plan: &Plan, name: Option<&str>) -> Result<Stage, Unmade> {
    let risk = |it: &Stage| it.profile.as_ref().map_or(-1.0, |Profiled { time, .. }| time.high);
    let stages = stages(plan);
    let found = match name {
        Some(name) => {
            plan.host(name)?;
            stages.into_iter().find(|it| it.hosts.iter().any(|host| host == name)).ok_or_else(|| {
                format!("{name} has no machines: name a host that has, or add a placement by `--with`")
            })?
        }
        None => stages
            .into_iter()
            .max_by(|one, other| risk(one).total_cmp(&risk(other)))
            .ok_or("no host has machines: add a placement by `--with`")?,
    };
    if found.frames_per_sec() == 0.0 {
        return Err(format!("machines of {} send nothing", found.hosts[0]).into());
    }
    Ok(found)
}

/// What was drawn for a host's machines.
struct Drawn {
    machines: Vec<Machine>,
    wanted: Wanted,
}

/// What that asks for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    secs: u32,
    faster: f64,
    asked: Share,
    expected_fps: f64,
}

impl Drawn {
    fn of(stage: &Stage, ask: Ask<'_>) -> Self {
        let lasts = Span::from_secs(ask.secs.into());
        let faster = stage.faster(ask.burst);
        let mut seeds = Rng::new(ask.seed);
        let mut groups: BTreeMap<usize, u64> = BTreeMap::new();
        let mut machines = Vec::new();
        let mut courses: Vec<(Course, f64, f64)> = Vec::new();
        for actor in &stage.actors {
            let bits = 8.0 * actor.frame as f64;
            for _ in 0..actor.count {
                // Those that move together go through the same states.
                let own = seeds.next_u64();
                let seed = actor.together.map_or(own, |it| *groups.entry(it).or_insert(own));
                let course = course(&actor.model, faster, lasts, &mut Rng::new(seed));
                let visits = course.iter();
                let visits =
                    visits.map(|(rate, lasts)| Visit { rate: *rate as f64 / bits, lasts: *lasts });
                let frame = u32::try_from(actor.frame).unwrap_or(u32::MAX);
                machines.push(Machine { frame, far: actor.remote, visits: visits.collect() });
                courses.push((course, bits, actor.frame_secs));
            }
        }
        let courses: Vec<_> =
            courses.iter().map(|(course, bits, secs)| (course, *bits, *secs)).collect();
        let pieces = pieces(&courses);
        let asked = Share {
            low: share_above(&pieces, 1.0 + MARGIN),
            high: share_above(&pieces, 1.0 - MARGIN),
        };
        let (_, expected_fps) = asked_and_carried(&pieces);
        Self { machines, wanted: Wanted { secs: ask.secs, faster, asked, expected_fps } }
    }
}

fn seen(stage: Stage, wanted: &Wanted, epsilon: f64, observed: Observed) -> HostSeen {
    let Wanted { secs, faster, asked, expected_fps } = *wanted;
    let (predicted, seen, agrees) = judged(wanted, epsilon, &observed);
    HostSeen {
        hosts: stage.hosts,
        machines: stage.machines,
        secs,
        faster,
        computed: stage.profile.map_or(stage.time, |it| it.time),
        asked,
        predicted,
        seen,
        expected_fps,
        observed,
        agrees,
    }
}

/// What is predicted of a demand that asks for too much in so much of the time, what was seen, and
/// whether that agrees.
fn judged(wanted: &Wanted, epsilon: f64, observed: &Observed) -> (Verdict, Verdict, bool) {
    let Wanted { asked, expected_fps, .. } = *wanted;
    let limit = epsilon.max(RESOLUTION);
    let predicted = match asked {
        Share { high, .. } if high <= limit => Verdict::Fits,
        Share { low, .. } if low > limit => Verdict::DoesNotFit,
        _ => Verdict::Open,
    };
    let fell_short = observed.verdict() == Verdict::Open;
    let seen = match observed.held {
        _ if fell_short => Verdict::Open,
        held if held <= limit => Verdict::Fits,
        _ => Verdict::DoesNotFit,
    };
    let is_no_more = observed.held <= (1.0 + RELATIVE) * asked.high + ABSOLUTE;
    let is_no_less = observed.held >= (1.0 - RELATIVE) * asked.low - ABSOLUTE;
    let is_carried = observed.carried_fps >= (1.0 - RELATIVE) * expected_fps;
    // A prediction that is open has no contrary; what was seen to be open tells nothing.
    let is_contrary = predicted != Verdict::Open && seen != predicted;
    let is_told = seen != Verdict::Open && !is_contrary;
    let agrees = is_told && observed.is_whole() && is_carried && is_no_more && is_no_less;
    (predicted, seen, agrees)
}

/// Has mixes of constant demands sent in a lab.
pub fn mixed(
    plan: &Plan,
    count: u32,
    ask: Ask<'_>,
) -> Result<Result<MixesSeen, MeasureError>, Unmade> {
    let host = match ask.host {
        Some(name) => plan.host(name)?,
        None => (0..plan.hosts().len())
            .find(|host| plan.kind_of(*host).measured().is_some())
            .unwrap_or(0),
    };
    let Some(measured) = plan.kind_of(host).measured() else {
        let name = plan.hosts().nth(host).unwrap_or_default();
        return Err(format!("{name}: {NO_PROFILE}").into());
    };
    let switch = Switch::of(measured)?;
    let senders = switch.profile.config.senders;
    let mixes = mixes(plan, host, count, senders, ask.seed).unwrap_or_default();
    let lasts = Span::from_secs(ask.secs.into());
    let trials: Vec<Trial> =
        (1..).zip(&mixes).map(|(number, mix)| trial(number, mix, lasts)).collect();
    let setup = switch.setup(None);
    let observed = match progress::show(|bench| run(bench, &setup, &trials))? {
        Ok(observed) => observed,
        Err(error) => return Ok(Err(error)),
    };
    let mixes = mixes.into_iter().zip(observed).map(|(mix, observed)| MixSeen {
        predicted: if mix.fits() { Verdict::Fits } else { Verdict::DoesNotFit },
        seen: observed.verdict(),
        expected_fps: switch.expected_fps(&mix),
        mix,
        observed,
    });
    let promises = |it: &MixSeen| {
        let way = if it.mix.is_far { Way::Link } else { Way::Host };
        is_lossless(switch.kind, way, switch.tunnel)
    };
    Ok(Ok(MixesSeen::of(mixes.collect(), promises)))
}

fn trial(number: u32, mix: &Mix, lasts: Span) -> Trial {
    let machines = mix.demands.iter().map(|it| Machine {
        frame: it.frame,
        far: if mix.is_far { 1.0 } else { 0.0 },
        visits: vec![Visit { rate: it.frames_per_sec, lasts }],
    });
    Trial {
        name: format!("mix {number}: {} of the switch's time", percent(mix.load)),
        machines: machines.collect(),
    }
}

impl HostSeen {
    /// What was carried over what should have been.
    pub fn ratio(&self) -> f64 {
        self.observed.carried_fps / self.expected_fps
    }
}

impl MixSeen {
    /// What was carried over what the profile's curve says.
    pub fn ratio(&self) -> f64 {
        self.observed.carried_fps / self.expected_fps
    }

    fn is_near_curve(&self) -> bool {
        (self.ratio() - 1.0).abs() <= NEAR_CURVE
    }
}

impl MixesSeen {
    fn of(mixes: Vec<MixSeen>, promises: impl Fn(&MixSeen) -> bool) -> Self {
        let judged = || mixes.iter().filter(|it| it.seen != Verdict::Open);
        let count = judged().count();
        let right = judged().filter(|it| it.seen == it.predicted).count();
        let near_curve = judged().filter(|it| it.is_near_curve()).count();
        let promised = || mixes.iter().filter(|it| promises(it)).map(|it| &it.observed);
        // Those that ask for more are the first that a lab falls short of.
        let is_enough = [Verdict::Fits, Verdict::DoesNotFit].into_iter().all(|kind| {
            let judged = judged().filter(|it| it.predicted == kind).count();
            2 * judged >= mixes.iter().filter(|it| it.predicted == kind).count()
        });
        let is_goal = |of: usize| count > 0 && of as f64 >= GOAL * count as f64;
        Self {
            judged: count,
            right,
            near_curve,
            lost: promised().map(|it| it.lost).sum(),
            duplicates: promised().map(|it| it.duplicates).sum(),
            unbalanced: promised().filter(|it| it.balanced == Some(false)).count(),
            is_enough,
            is_met: is_enough
                && is_goal(right)
                && is_goal(near_curve)
                && promised().all(Observed::is_whole),
            mixes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(held: f64) -> Observed {
        Observed { asked_fps: 100.0, carried_fps: 90.0, left_out: 0.1, held, ..Observed::default() }
    }

    /// What should be carried is all of it.
    fn wanted(low: f64, high: f64) -> Wanted {
        Wanted { secs: 1, faster: 1.0, asked: Share { low, high }, expected_fps: 100.0 }
    }

    #[test]
    fn a_host_agrees_if_senders_are_held_back_as_long_as_too_much_was_asked_for() {
        let of = |low, high, held| judged(&wanted(low, high), 0.001, &observed(held));
        let (fits, not, open) = (Verdict::Fits, Verdict::DoesNotFit, Verdict::Open);
        assert_eq!(of(0.0, 0.0, 0.0), (fits, fits, true));
        assert_eq!(of(0.0, 0.0, 0.5), (fits, not, false));
        // Near enough, but the contrary of what was predicted.
        assert_eq!(of(0.0, 0.01, 0.03), (fits, not, false));
        assert_eq!(of(0.02, 0.02, 0.01), (not, fits, false));
        assert_eq!(of(0.3, 0.4, 0.35), (not, not, true));
        assert_eq!(of(0.3, 0.4, 0.0), (not, fits, false));
        assert_eq!(of(0.3, 0.4, 0.49), (not, not, true));
        // Nearly all of the time the switch has just what it carries.
        assert_eq!(of(0.0, 1.0, 0.02), (open, not, true));
        // A goal that is larger than what a run can tell counts as it is.
        assert_eq!(judged(&wanted(0.05, 0.05), 0.1, &observed(0.06)), (fits, fits, true));
    }

    #[test]
    fn a_host_that_loses_or_whose_machines_fall_short_is_no_proof() {
        let agrees = |it: &Observed| judged(&wanted(0.3, 0.4), 0.001, it).2;
        let fine = observed(0.35);
        assert!(agrees(&fine) && agrees(&Observed { balanced: Some(true), ..fine }));
        assert!(!agrees(&Observed { lost: 1, ..fine }));
        assert!(!agrees(&Observed { duplicates: 1, ..fine }));
        assert!(!agrees(&Observed { balanced: Some(false), ..fine }));
        // Four fifths of what was expected is enough, and less is not.
        assert!(agrees(&Observed { carried_fps: 80.0, ..fine }));
        assert!(!agrees(&Observed { carried_fps: 79.0, ..fine }));
        let late = Observed { late: 0.5, left_out: 0.0, ..observed(0.35) };
        let (fits, not, open) = (Verdict::Fits, Verdict::DoesNotFit, Verdict::Open);
        assert_eq!(judged(&wanted(0.3, 0.4), 0.001, &late), (not, open, false));
        assert!(!agrees(&Observed { held: 0.9, ..late }));
        // Nobody was held back, as nothing was asked for.
        let late = Observed { late: 0.5, ..observed(0.0) };
        assert_eq!(judged(&wanted(0.0, 0.0), 0.001, &late), (fits, open, false));
        let failed = Observed { failed: 1.0, carried_fps: 0.0, ..observed(0.0) };
        assert_eq!(judged(&wanted(0.0, 0.0), 0.001, &failed), (fits, open, false));
        let silent = Wanted { expected_fps: 0.0, ..wanted(0.0, 0.0) };
        assert_eq!(judged(&silent, 0.001, &Observed::default()), (fits, open, false));
    }

    fn mix(load: f64, seen: Verdict, carried_fps: f64) -> MixSeen {
        MixSeen {
            mix: Mix { load, is_far: false, demands: Vec::new() },
            predicted: if load < 1.0 { Verdict::Fits } else { Verdict::DoesNotFit },
            seen,
            expected_fps: 100.0,
            observed: Observed { carried_fps, ..Observed::default() },
        }
    }

    #[test]
    fn mixes_that_could_not_be_asked_for_are_not_judged() {
        let three = vec![
            mix(0.6, Verdict::Fits, 100.0),
            mix(1.2, Verdict::DoesNotFit, 109.0),
            mix(1.3, Verdict::Open, 50.0),
        ];
        let all = MixesSeen::of(three.clone(), |_| true);
        assert_eq!((all.judged, all.right, all.near_curve, all.is_met), (2, 2, 2, true));
        let wrong = MixesSeen::of(vec![mix(0.6, Verdict::DoesNotFit, 85.0)], |_| true);
        assert_eq!((wrong.judged, wrong.right, wrong.near_curve, wrong.is_met), (1, 0, 0, false));
        // Nothing judged is nothing proven.
        assert!(!MixesSeen::of(vec![mix(0.6, Verdict::Open, 1.0)], |_| true).is_met);
        // What is lost counts where none is to be.
        let mut lossy = three.clone();
        lossy[1].observed.lost = 7;
        assert!(MixesSeen::of(lossy.clone(), |_| false).is_met);
        let broken = MixesSeen::of(lossy, |it| it.mix.load > 1.0);
        assert_eq!((broken.lost, broken.is_met), (7, false));
        // So does what comes again, or does not balance.
        let mut doubled = three.clone();
        doubled[0].observed.duplicates = 3;
        let doubled = MixesSeen::of(doubled, |_| true);
        assert_eq!((doubled.duplicates, doubled.is_met), (3, false));
        let mut unbalanced = three;
        unbalanced[0].observed.balanced = Some(false);
        let unbalanced = MixesSeen::of(unbalanced, |_| true);
        assert_eq!((unbalanced.unbalanced, unbalanced.is_met), (1, false));
    }

    #[test]
    fn nineteen_of_twenty_mixes_have_to_carry_what_the_curve_says() {
        let of = |near: usize, carried_fps: f64| {
            let all = (0..20).map(|it| {
                let carried = if it < near { 100.0 } else { carried_fps };
                match it % 2 {
                    0 => mix(0.6, Verdict::Fits, carried),
                    _ => mix(1.2, Verdict::DoesNotFit, carried),
                }
            });
            let all = MixesSeen::of(all.collect(), |_| true);
            assert_eq!((all.judged, all.right), (20, 20));
            (all.near_curve, all.is_met)
        };
        assert_eq!(of(19, 111.0), (19, true));
        assert_eq!(of(18, 111.0), (18, false));
        assert_eq!(of(18, 89.0), (18, false));
        assert_eq!(of(18, 91.0), (20, true));
    }

    #[test]
    fn half_of_the_mixes_of_each_kind_have_to_be_judged() {
        let of = |fits: usize, too_much: usize| {
            let seen = |number: usize, judged: usize, seen| {
                if number < judged { seen } else { Verdict::Open }
            };
            let less = (0..20).map(|it| mix(0.6, seen(it, fits, Verdict::Fits), 100.0));
            let more = (0..20).map(|it| mix(1.2, seen(it, too_much, Verdict::DoesNotFit), 109.0));
            let all = MixesSeen::of(less.chain(more).collect(), |_| true);
            assert_eq!((all.judged, all.right), (fits + too_much, fits + too_much));
            assert_eq!(all.is_enough, all.is_met);
            all.is_met
        };
        assert!(of(20, 20) && of(10, 10));
        assert!(!of(1, 0) && !of(20, 9) && !of(9, 20));
    }
}

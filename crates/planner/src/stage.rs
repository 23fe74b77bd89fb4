//! Hosts of a placement as a simulator or a lab needs them: what is carried, and who sends how
//! much.
//!
//! Names and units are left behind. A machine's rate is split by where its frames go, so that each
//! limit of the host has what the plan says that it has.

use std::collections::BTreeMap;

use demand::{Model, Source, State};
use placement::{Pattern, risks};
use units::Span;

use crate::plan::{Alike, Carried, Kind, Plan};
use crate::profile::Measured;
use crate::share::Share;

/// A host, and what is predicted of it.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The hosts that are like this one, by name.
    pub hosts: Vec<String>,
    /// What each has.
    pub machines: BTreeMap<String, u32>,
    /// Bits a second that its switch carries; any number if absent.
    pub bits: Option<u64>,
    /// Frames a second that its switch carries; any number if absent.
    pub frames: Option<u64>,
    /// What its switch carries is a profile, by the time that each frame takes.
    pub profile: Option<Profiled>,
    /// Bits a second that its card carries in each direction; any number if absent.
    pub card: Option<u64>,
    /// Bytes that a frame has more on the wire.
    pub overhead: u64,
    /// Who sends.
    pub actors: Vec<Actor>,
    /// The share of time in which more is asked for than is carried, of all limits together.
    pub time: Share,
    /// The share of traffic that is more, at most: the sum of what it is for each limit.
    pub traffic: f64,
}

/// A switch whose profile says what it carries.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// The profile.
    pub measured: Measured,
    /// The share of time in which more of its time is asked for than there is.
    pub time: Share,
}

/// Machines that are alike.
#[derive(Clone, Debug)]
pub struct Actor {
    /// How many.
    pub count: u32,
    /// What each asks for in both directions, in bits a second.
    pub model: Model,
    /// The mean length of a frame, in bytes.
    pub frame: u64,
    /// The share that a machine sends; the rest it receives.
    pub sends: f64,
    /// The share that leaves the host or comes to it.
    pub remote: f64,
    /// The seconds that a frame takes the switch, as the median round of its profile has them; 0 if
    /// there is no profile.
    pub frame_secs: f64,
    /// The same as one plans with it.
    pub planned_secs: f64,
    /// A number that machines have in common which are in the same state at all times; their
    /// models have the same holding times and jumps.
    pub together: Option<usize>,
}

impl Stage {
    /// How many frames its machines make a second, on average.
    pub fn frames_per_sec(&self) -> f64 {
        self.sum(|it| it.model.source().mean() / (8.0 * it.frame as f64))
    }

    /// By how much holding times have to be shorter for visits to states to have so many frames on
    /// average; 1 if they have no more than that.
    pub fn faster(&self, frames_a_visit: u64) -> f64 {
        let visits_per_sec = self.sum(|it| {
            let states = it.model.states().iter().zip(it.model.shares());
            let leaves = states.map(|(state, share)| share / state.hold.as_secs_f64());
            if it.model.states().len() == 1 { 0.0 } else { leaves.sum() }
        });
        if visits_per_sec == 0.0 {
            return 1.0;
        }
        (self.frames_per_sec() / visits_per_sec / frames_a_visit as f64).max(1.0)
    }

    /// Frames and bits a second that its switch carries of these machines; any number if absent.
    /// A profile says such a number if all their frames take the same time, or all their bits.
    ///
    /// None if neither do: then what is carried depends on who sends.
    pub fn capacity(&self) -> Option<(Option<u64>, Option<u64>)> {
        let Self { frames, bits, .. } = *self;
        if self.profile.is_none() {
            return Some((frames, bits));
        }
        let of_time = |secs: f64| (1.0 / secs).round() as u64;
        let least = |limit: Option<u64>, timed| Some(limit.unwrap_or(u64::MAX).min(timed));
        let a_frame = self.actors.iter().map(|it| it.planned_secs);
        let a_bit = self.actors.iter().map(|it| it.planned_secs / (8.0 * it.frame as f64));
        match (same(a_frame), same(a_bit)) {
            (Some(secs), _) => Some((least(frames, of_time(secs)), bits)),
            (None, Some(secs)) => Some((frames, least(bits, of_time(secs)))),
            (None, None) => None,
        }
    }

    /// How many machines it has.
    pub fn count(&self) -> u32 {
        self.actors.iter().map(|it| it.count).sum()
    }

    fn sum(&self, of: impl Fn(&Actor) -> f64) -> f64 {
        self.actors.iter().map(|it| f64::from(it.count) * of(it)).sum()
    }
}

/// The largest of some numbers, if they are the same.
fn same(all: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let most = all.clone().fold(0.0, f64::max);
    all.into_iter().all(|it| it >= (1.0 - NEARLY) * most).then_some(most)
}

/// Times that differ by less are the same.
const NEARLY: f64 = 1e-3;

/// The hosts of the plan's placement that are in use, those that are alike once.
///
/// # Panics
///
/// If the plan has several classes of hours: take it [of one](Plan::of_period).
pub fn stages(plan: &Plan) -> Vec<Stage> {
    assert_eq!(plan.periods.len(), 1, "machines are in one class of hours at a time");
    let problem = plan.problem();
    let risks = risks(&problem, &plan.placement);
    let stage = |alike: Alike| {
        let host = alike.hosts[0];
        let (kind, risk) = (plan.kind_of(host), &risks[host]);
        let carries = |what| kind.limits.iter().find(|it| it.carried == what).map(|it| it.amount);
        let timed = kind.limits.iter().position(|it| it.carried == Carried::Time);
        let profile = kind.costs.as_ref().zip(timed).map(|(costs, limit)| Profiled {
            measured: costs.measured.clone(),
            time: risk.limits[limit].time.into(),
        });
        Stage {
            hosts: plan.names(&alike.hosts),
            machines: plan.named(&alike.pattern),
            bits: carries(Carried::Bits),
            frames: carries(Carried::Frames),
            profile,
            card: carries(Carried::Out),
            overhead: kind.overhead,
            actors: actors(plan, kind, &alike.pattern),
            time: risk.overload.into(),
            traffic: risk.limits.iter().map(|it| it.traffic.high).sum::<f64>().min(1.0),
        }
    };
    plan.alike(&plan.placement).into_iter().map(stage).collect()
}

fn actors(plan: &Plan, kind: &Kind, pattern: &Pattern) -> Vec<Actor> {
    // Of each group that moves together: its models.
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (class, _) in pattern.iter() {
        let model = plan.vms[class].it.model;
        if let Some(group) = plan.models[model].it.together {
            let models = groups.entry(group).or_default();
            if !models.contains(&model) {
                models.push(model);
            }
        }
    }
    let model_of = |model: usize| {
        let load = &plan.models[model].it;
        let group = load.together.map(|group| &groups[&group][..]);
        match group {
            None | Some([_]) => load.models[0].clone(),
            Some(models) => {
                let all: Vec<Model> =
                    models.iter().map(|it| plan.models[*it].it.models[0].clone()).collect();
                let place = models.iter().position(|it| *it == model).expect("it is of its group");
                in_step(&all).swap_remove(place)
            }
        }
    };
    let actor = |(class, count): (usize, u32)| {
        let model = plan.vms[class].it.model;
        let load = &plan.models[model].it;
        Actor {
            count,
            model: model_of(model),
            frame: load.frame,
            sends: load.sends,
            remote: load.remote,
            frame_secs: kind
                .costs
                .as_ref()
                .map_or(0.0, |costs| costs.typical.secs(load.frame as f64, load.remote)),
            planned_secs: kind.frame_secs(load.frame as f64, load.remote),
            together: load.together,
        }
    };
    pattern.iter().map(actor).collect()
}

/// Models that move together as models with the same states, holding times and jumps: each is at
/// the rate that it exceeds for the same share of time ([`Source::together`]). What follows a state
/// is drawn anew, so shares of time are right and what follows what is not.
fn in_step(models: &[Model]) -> Vec<Model> {
    let sources: Vec<Source> = models.iter().map(Model::source).collect();
    // Where some source goes on to its next rate, by rising share of time.
    let mut ends: Vec<f64> = Vec::new();
    for source in &sources {
        let mut below = 0.0;
        ends.extend(source.shares().iter().map(|(_, share)| {
            below += share;
            below
        }));
    }
    ends.sort_by(f64::total_cmp);
    ends.dedup_by(|later, earlier| *later - *earlier < ROUNDING);
    *ends.last_mut().expect("a source has a share") = 1.0;
    let shares: Vec<f64> =
        ends.iter().scan(0.0, |before, end| Some(end - std::mem::replace(before, *end))).collect();
    let hold = models[0].states().iter().map(|it| it.hold).min().expect("a model has states");
    let rate_at = |source: &Source, quantile: f64| {
        let mut below = 0.0;
        let rate = source.shares().iter().find(|(_, share)| {
            below += share;
            quantile < below
        });
        rate.map_or(source.peak(), |(rate, _)| *rate)
    };
    let count = shares.len();
    let jump = |from: usize| {
        let to = |to: usize| if to == from { 0.0 } else { shares[to] / (1.0 - shares[from]) };
        if count == 1 { vec![0.0] } else { (0..count).map(to).collect() }
    };
    let jumps: Vec<Vec<f64>> = (0..count).map(jump).collect();
    let model = |source: &Source| {
        let state = |place: usize| {
            let stays = if count == 1 { 1.0 } else { 1.0 - shares[place] };
            let ns = hold.as_nanos() as f64 / stays;
            let rate = rate_at(source, ends[place] - shares[place] / 2.0);
            State { rate, hold: Span::from_nanos(ns as u64) }
        };
        Model::new((0..count).map(state).collect(), &jumps).expect("each state follows each other")
    };
    sources.iter().map(model).collect()
}

/// Shares of time that differ by less are equal, but for rounding.
const ROUNDING: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn a_profile_is_a_number_of_frames_or_bits_where_machines_cost_alike() {
        let machine = |frame: u64, secs: f64| Actor {
            count: 1,
            model: Model::on_off(100, Span::from_secs(1), Span::from_secs(1)).unwrap(),
            frame,
            sends: 0.5,
            remote: 0.0,
            frame_secs: secs / 2.0,
            planned_secs: secs,
            together: None,
        };
        let share = Share { low: 0.0, high: 0.0 };
        let measured = Measured { file: "a".into(), switch: "zovn".into(), tunnel: "none".into() };
        let mut stage = Stage {
            hosts: Vec::new(),
            machines: BTreeMap::new(),
            bits: Some(900_000),
            frames: None,
            profile: Some(Profiled { measured, time: share }),
            card: None,
            overhead: 0,
            actors: Vec::new(),
            time: share,
            traffic: 0.0,
        };
        let mut of = |actors: &[Actor]| {
            stage.actors = actors.to_vec();
            stage.capacity()
        };
        let (small, large) = (machine(125, 0.002), machine(250, 0.004));
        assert_eq!(of(slice::from_ref(&small)), Some((Some(500), Some(900_000))));
        assert_eq!(of(&[small.clone(), machine(250, 0.002)]), Some((Some(500), Some(900_000))));
        // Twice as much for twice as many bits; what is said by bits holds beside it.
        assert_eq!(of(&[small.clone(), large]), Some((None, Some(500_000))));
        assert_eq!(of(&[machine(500, 0.002), machine(1000, 0.004)]), Some((None, Some(900_000))));
        assert_eq!(of(&[small, machine(250, 0.003)]), None);
        stage.profile = None;
        assert_eq!(stage.capacity(), Some((None, Some(900_000))));
    }

    #[test]
    fn models_that_move_together_keep_their_shares_of_time_and_are_high_at_once() {
        let secs = Span::from_secs;
        let backup = Model::on_off(100, secs(30), secs(90)).unwrap();
        let copy = Model::on_off(30, secs(10), secs(10)).unwrap();
        let both = in_step(&[backup.clone(), copy.clone()]);
        for (model, before) in both.iter().zip([&backup, &copy]) {
            let (now, then) = (model.source(), before.source());
            for ((rate, share), (same, before)) in now.shares().iter().zip(then.shares()) {
                assert_eq!(rate, same);
                assert!((share - before).abs() < 1e-9, "{share} {before}");
            }
        }
        let rates = |model: &Model| model.states().iter().map(|it| it.rate).collect::<Vec<_>>();
        assert_eq!([rates(&both[0]), rates(&both[1])], [[0, 0, 100], [0, 30, 30]]);
        let holds = |model: &Model| model.states().iter().map(|it| it.hold).collect::<Vec<_>>();
        assert_eq!(holds(&both[0]), holds(&both[1]));
    }
}

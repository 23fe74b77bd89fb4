//! Which machines to move when a host is asked for too much, in which order, and whether to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use demand::{Source, Verdict};
use units::{Instant, Span};

use crate::judge::Judge;
use crate::pack::Racks;
use crate::pattern::{Pattern, Placement};
use crate::problem::Problem;
use crate::room::Room;
use crate::tables::Tables;

/// Tells a host that is overloaded from one that was for a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    dwell: u32,
    above: Vec<u32>,
}

impl Watch {
    /// A host counts once it was above the goal for `dwell` windows in a row. `above` is for how
    /// many each host has been already.
    pub fn new(above: Vec<u32>, dwell: u32) -> Self {
        Self { dwell, above }
    }

    /// For how many windows in a row each host has been above the goal.
    pub fn above(&self) -> &[u32] {
        &self.above
    }

    /// Takes a window's estimates of each host's share of time, by the lower end of their brackets,
    /// and returns the hosts that count as overloaded.
    ///
    /// # Panics
    ///
    /// If there is not one estimate for each host.
    pub fn observe(&mut self, low: &[f64], epsilon: f64) -> Vec<usize> {
        assert_eq!(low.len(), self.above.len(), "an estimate for each host");
        for (above, low) in self.above.iter_mut().zip(low) {
            *above = if *low > epsilon { above.saturating_add(1) } else { 0 };
        }
        (0..low.len()).filter(|host| self.above[*host] >= self.dwell).collect()
    }
}

/// Moves that were made: who moved rests for a while, and nobody goes back soon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(Vec<(Instant, Move)>);

impl History {
    /// Notes a move.
    pub fn note(&mut self, at: Instant, it: Move) {
        self.0.push((at, it));
    }

    fn recent(&self, now: Instant, age: Span) -> impl Iterator<Item = &Move> {
        self.0.iter().filter(move |(at, _)| now.since(*at) < age).map(|(_, it)| it)
    }
}

/// What moves are weighed by.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveSettings {
    /// For how long a move has to pay.
    pub horizon: Span,
    /// How long a machine stays where it was moved to.
    pub cooldown: Span,
    /// The part of ε that hosts are to have after a move, so that they do not soon need another.
    pub aim: f64,
    /// The most moves.
    pub most: usize,
    /// What one migration is given, in bits a second.
    pub rate: u64,
    /// How fast each class changes its memory, in bits a second.
    pub dirty: Vec<u64>,
    /// What a running migration is to each limit of each host type: `flow[kind][limit]`.
    pub flow: Vec<Vec<u64>>,
}

/// One machine to another host.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Move {
    /// Its class.
    pub class: usize,
    /// Where it is.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
}

/// A move, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The move.
    pub it: Move,
    /// How long it takes.
    pub takes: Span,
    /// How many seconds of overload it costs while it takes place.
    pub cost_secs: f64,
}

/// What to do, in this order, one at a time. No step is a choice too, and is one where nothing
/// pays.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The moves.
    pub steps: Vec<Step>,
    /// Seconds of overload within the horizon if all stay, on the hosts that were asked about.
    pub stay_secs: f64,
    /// The same after the moves, together with what these cost.
    pub go_secs: f64,
}

/// Which machines leave these hosts. At no time any other host is above the goal, and all that take
/// one end at `aim` of it. Where no host has room as it is, one of its machines goes to a third
/// host first.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`], or the settings do not name every class and
/// limit.
pub fn advise(
    problem: &Problem,
    placement: &Placement,
    overloaded: &[usize],
    history: &History,
    now: Instant,
    settings: &MoveSettings,
) -> Advice {
    assert_eq!(settings.dirty.len(), problem.classes.len(), "a rate for each class");
    // Whoever takes a machine is to stay within a part of the goal.
    let mut aimed = problem.clone();
    aimed.goal.epsilon *= settings.aim;
    let (tables, aimed_tables) = (Tables::new(problem), Tables::new(&aimed));
    let mut movers = Movers {
        judge: Judge::new(&tables),
        aimed: Judge::new(&aimed_tables),
        settings,
        racks: Racks::of(problem, placement),
        placement: placement.clone(),
        resting: history.recent(now, settings.cooldown).copied().collect(),
        left: history.recent(now, settings.horizon).copied().collect(),
        overloads: BTreeMap::new(),
    };
    let horizon = settings.horizon.as_secs_f64();
    let sum = |movers: &mut Movers<'_>| -> f64 {
        overloaded.iter().map(|host| movers.overload(*host) * horizon).sum()
    };
    let stay_secs = sum(&mut movers);
    let mut steps: Vec<Step> = Vec::new();
    let mut hosts = overloaded.to_vec();
    hosts.sort_by(|a, b| movers.overload(*b).total_cmp(&movers.overload(*a)).then(a.cmp(b)));
    for host in hosts {
        while movers.overload(host) > aimed.goal.epsilon {
            let Some(found) = movers.relief(host) else { break };
            if steps.len() + found.len() > settings.most {
                break;
            }
            for step in &found {
                movers.go(step.it);
            }
            steps.extend(found);
        }
    }
    let costs: f64 = steps.iter().map(|it| it.cost_secs).sum();
    let go_secs = sum(&mut movers) + costs;
    Advice { steps, stay_secs, go_secs }
}

struct Movers<'a> {
    judge: Judge<'a>,
    /// Holds hosts to the part of the goal that is aimed at.
    aimed: Judge<'a>,
    settings: &'a MoveSettings,
    racks: Racks,
    placement: Placement,
    /// Moves whose machines rest.
    resting: Vec<Move>,
    /// Moves that are not to be undone.
    left: Vec<Move>,
    overloads: BTreeMap<(usize, Pattern), f64>,
}

impl Movers<'_> {
    fn problem(&self) -> &Problem {
        self.judge.tables.problem
    }

    fn room(&self, host: usize) -> Room<'_> {
        let kind = self.problem().hosts[host].kind;
        Room::with(self.judge.tables, kind, &self.placement.hosts[host])
    }

    /// The share of time in which a host is asked for too much, by the upper end.
    fn overload(&mut self, host: usize) -> f64 {
        let key = (self.problem().hosts[host].kind, self.placement.hosts[host].clone());
        if let Some(overload) = self.overloads.get(&key) {
            return *overload;
        }
        let overload = self.room(host).overload(0.0).high;
        self.overloads.insert(key, overload);
        overload
    }

    /// The same while a migration is under way.
    fn overload_during(&self, host: usize) -> f64 {
        let kind = self.problem().hosts[host].kind;
        let mut room = self.room(host);
        let limits = 0..self.problem().types[kind].limits.len();
        let flow = limits.zip(&self.settings.flow[kind]).map(|(limit, flow)| {
            let load = room.load(limit);
            load.overload_with(&load.grid().bin(&Source::constant(*flow)))
        });
        self.judge.tables.joined(kind, flow).high
    }

    fn go(&mut self, it: Move) {
        let Move { class, from, to } = it;
        self.placement.hosts[from].remove(class);
        self.placement.hosts[to].add(class, 1);
        let problem = self.judge.tables.problem;
        self.racks.remove(problem, class, from);
        self.racks.put(problem, class, to);
        self.resting.push(it);
        self.left.push(it);
    }

    /// How long a machine of a class takes: its memory at the rate that is left beside what it
    /// changes meanwhile. `None` if it changes memory faster than that.
    fn takes(&self, class: usize) -> Option<Span> {
        let rate =
            self.settings.rate.checked_sub(self.settings.dirty[class]).filter(|it| *it > 0)?;
        let bits = u128::from(self.problem().classes[class].memory) * 8;
        let ns = (bits * 1_000_000_000).div_ceil(rate.into());
        Some(Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Whether some machine of this class on the host has not just come.
    fn is_rested(&self, class: usize, host: usize) -> bool {
        let came = self.resting.iter().filter(|it| it.class == class && it.to == host).count();
        self.placement.hosts[host].count(class) as usize > came
    }

    /// Whether a machine may go to a host: there is room by what is aimed at, even while it comes,
    /// and none of its class has left there.
    fn takes_in(&mut self, class: usize, host: usize, without: Option<usize>) -> bool {
        let problem = self.judge.tables.problem;
        let kind = problem.hosts[host].kind;
        let is_back = self.left.iter().any(|it| it.class == class && it.from == host);
        if is_back || self.racks.refuse(problem, class, host) {
            return false;
        }
        let pattern = &self.placement.hosts[host];
        let pattern = without.map_or_else(|| pattern.clone(), |other| pattern.without(other));
        let mut room = Room::with(self.aimed.tables, kind, &pattern);
        self.aimed.accepts(&mut room, class)
            && self.judge.verdict(kind, &pattern) == Verdict::Within
            && self.overload_during(host) <= problem.goal.epsilon
    }

    /// The step that moves a machine, with what it costs.
    fn step(&mut self, it: Move) -> Option<Step> {
        let takes = self.takes(it.class)?;
        let mut cost_secs = 0.0;
        for host in [it.from, it.to] {
            let more = self.overload_during(host) - self.overload(host);
            cost_secs += more * takes.as_secs_f64();
        }
        Some(Step { it, takes, cost_secs })
    }

    /// The moves that save most seconds of overload, less what they cost: of one machine to a host
    /// that has some, or of two if none has room, or to an empty host.
    fn relief(&mut self, host: usize) -> Option<Vec<Step>> {
        let classes: Vec<usize> = self.placement.hosts[host]
            .iter()
            .map(|(class, _)| class)
            .filter(|class| self.is_rested(*class, host) && self.takes(*class).is_some())
            .collect();
        let (empty, used): (Vec<usize>, Vec<usize>) =
            self.targets(host).into_iter().partition(|it| self.placement.hosts[*it].is_empty());
        let mut exchanges = Vec::new();
        let direct = self.direct(host, &classes, &used);
        if direct.is_empty() {
            for class in &classes {
                for between in &used {
                    let it = Move { class: *class, from: host, to: *between };
                    let aside = self.aside(*class, host, *between, &used);
                    exchanges.extend(aside.into_iter().map(|aside| vec![aside, it]));
                }
            }
        }
        self.best(direct).or_else(|| self.best(exchanges)).or_else(|| {
            let direct = self.direct(host, &classes, &empty);
            self.best(direct)
        })
    }

    /// Moves of one machine of these classes to one of these hosts.
    fn direct(&mut self, host: usize, classes: &[usize], to: &[usize]) -> Vec<Vec<Move>> {
        let mut moves = Vec::new();
        for class in classes {
            for to in to {
                if self.takes_in(*class, *to, None) {
                    moves.push(vec![Move { class: *class, from: host, to: *to }]);
                }
            }
        }
        moves
    }

    /// The moves that save most, if any do.
    fn best(&mut self, all: Vec<Vec<Move>>) -> Option<Vec<Step>> {
        let mut best: Option<(f64, Vec<Step>)> = None;
        for moves in all {
            let Some((saved, steps)) = self.tried(&moves) else { continue };
            if saved > best.as_ref().map_or(0.0, |(most, _)| *most) {
                best = Some((saved, steps));
            }
        }
        best.map(|(_, steps)| steps)
    }

    /// Moves of a machine from the host between to a third one that make room for the first.
    fn aside(&mut self, class: usize, host: usize, between: usize, to: &[usize]) -> Vec<Move> {
        let others: Vec<usize> =
            self.placement.hosts[between].iter().map(|(other, _)| other).collect();
        let mut moves = Vec::new();
        for other in others {
            let is_useful = other != class
                && self.is_rested(other, between)
                && self.takes(other).is_some()
                && self.takes_in(class, between, Some(other));
            if is_useful {
                let third = to.iter().copied().find(|third| {
                    *third != host && *third != between && self.takes_in(other, *third, None)
                });
                moves.extend(third.map(|to| Move { class: other, from: between, to }));
            }
        }
        moves
    }

    /// One host of each pattern there is, empty ones included, of those that the same classes may
    /// not go back to.
    fn targets(&self, besides: usize) -> Vec<usize> {
        let mut left: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for it in &self.left {
            left.entry(it.from).or_default().insert(it.class);
        }
        let mut alike = BTreeMap::new();
        for (host, pattern) in self.placement.hosts.iter().enumerate() {
            if host != besides {
                let it = self.problem().hosts[host];
                let key = (it.kind, self.rack_of(host), left.get(&host), pattern);
                alike.entry(key).or_insert(host);
            }
        }
        alike.into_values().collect()
    }

    /// The rack of a host, where racks make a difference.
    fn rack_of(&self, host: usize) -> usize {
        let is_apart = self.problem().classes.iter().any(|it| it.apart.is_some());
        if is_apart { self.problem().hosts[host].rack } else { 0 }
    }

    /// How many seconds of overload moves save over the horizon, and their steps.
    fn tried(&mut self, moves: &[Move]) -> Option<(f64, Vec<Step>)> {
        let kept =
            (self.placement.clone(), self.racks.clone(), self.resting.len(), self.left.len());
        let mut hosts: Vec<usize> = moves.iter().flat_map(|it| [it.from, it.to]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let sum = |movers: &mut Self| -> f64 { hosts.iter().map(|it| movers.overload(*it)).sum() };
        let before = sum(self);
        let mut steps = Vec::new();
        for it in moves {
            let Some(step) = self.step(*it) else { break };
            steps.push(step);
            self.go(*it);
        }
        let after = sum(self);
        self.placement = kept.0;
        self.racks = kept.1;
        self.resting.truncate(kept.2);
        self.left.truncate(kept.3);
        let cost: f64 = steps.iter().map(|it| it.cost_secs).sum();
        let saved = (before - after) * self.settings.horizon.as_secs_f64() - cost;
        (steps.len() == moves.len()).then_some((saved, steps))
    }
}

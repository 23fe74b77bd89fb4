//! A placement made better by moves: fewer hosts, then a smaller worst overload.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use demand::Bracket;

use crate::judge::Judge;
use crate::pack::Racks;
use crate::pattern::{Pattern, Placement};
use crate::problem::Problem;
use crate::room::Room;
use crate::tables::Tables;

/// Improves a placement as far as so many steps get: empties hosts, the emptiest first, by moves
/// and by exchanges with a third host; then lowers the worst overload without using more hosts. A
/// step asks whether one machine fits one host. No host gets above the goal.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`], or the placement is not of it.
pub fn improve(problem: &Problem, placement: &Placement, steps: u64) -> Placement {
    let tables = Tables::new(problem);
    let mut search = Search::new(&tables, placement, steps);
    search.empty_hosts();
    search.balance();
    search.placement
}

/// Hosts that have the same type and the same machines.
type Alike = (usize, Pattern);

struct Search<'a> {
    judge: Judge<'a>,
    placement: Placement,
    hosts: BTreeMap<Alike, BTreeSet<usize>>,
    racks: Racks,
    /// Hosts that were asked about, filled once.
    rooms: BTreeMap<Alike, Room<'a>>,
    steps_left: u64,
}

/// More rooms than this are not kept.
const MOST_ROOMS: usize = 1024;

impl<'a> Search<'a> {
    fn new(tables: &'a Tables<'a>, placement: &Placement, steps: u64) -> Self {
        let mut hosts: BTreeMap<Alike, BTreeSet<usize>> = BTreeMap::new();
        for (host, pattern) in placement.hosts.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let kind = tables.problem.hosts[host].kind;
            hosts.entry((kind, pattern.clone())).or_default().insert(host);
        }
        Self {
            judge: Judge::new(tables),
            placement: placement.clone(),
            hosts,
            racks: Racks::of(tables.problem, placement),
            rooms: BTreeMap::new(),
            steps_left: steps,
        }
    }

    fn problem(&self) -> &'a Problem {
        self.judge.tables.problem
    }

    fn alike(&self, host: usize) -> Alike {
        (self.problem().hosts[host].kind, self.placement.hosts[host].clone())
    }

    /// What part of a host of this type one machine of a class takes.
    fn size(&self, kind: usize, class: usize) -> f64 {
        self.judge.tables.kinds[kind].sizes[class].iter().copied().fold(0.0, f64::max)
    }

    fn fullness(&self, (kind, pattern): &Alike) -> f64 {
        pattern.iter().map(|(class, count)| self.size(*kind, class) * f64::from(count)).sum()
    }

    fn room(&mut self, alike: &Alike) -> &mut Room<'a> {
        if self.rooms.len() >= MOST_ROOMS {
            self.rooms.clear();
        }
        let tables = self.judge.tables;
        self.rooms.entry(alike.clone()).or_insert_with(|| Room::with(tables, alike.0, &alike.1))
    }

    fn overload(&mut self, alike: &Alike) -> Bracket {
        self.room(alike).overload(0.0)
    }

    fn fits(&mut self, alike: &Alike, class: usize) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.room(alike);
        let room = self.rooms.get_mut(alike).expect("it was just filled");
        self.judge.accepts(room, class)
    }

    /// Moves a machine, or takes such a move back.
    fn shift(&mut self, class: usize, from: usize, to: usize) {
        let problem = self.problem();
        for host in [from, to] {
            let alike = self.alike(host);
            let hosts = self.hosts.get_mut(&alike);
            if let Some(hosts) = hosts {
                hosts.remove(&host);
                if hosts.is_empty() {
                    self.hosts.remove(&alike);
                }
            }
        }
        self.placement.hosts[from].remove(class);
        self.racks.remove(problem, class, from);
        self.placement.hosts[to].add(class, 1);
        self.racks.put(problem, class, to);
        for host in [from, to] {
            if !self.placement.hosts[host].is_empty() {
                let alike = self.alike(host);
                self.hosts.entry(alike).or_default().insert(host);
            }
        }
    }

    /// A used host that takes a machine, beside those that are given; the fullest.
    fn target(&mut self, class: usize, besides: &[usize]) -> Option<usize> {
        let mut alike: Vec<(f64, Alike)> =
            self.hosts.keys().map(|it| (self.fullness(it), it.clone())).collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (_, alike) in alike {
            if self.steps_left == 0 {
                return None;
            }
            if self.fits(&alike, class)
                && let Some(host) = self.free(&alike, class, besides)
            {
                return Some(host);
            }
        }
        None
    }

    /// One of these hosts that is not excluded, and whose rack does not refuse the machine.
    fn free(&self, alike: &Alike, class: usize, besides: &[usize]) -> Option<usize> {
        let problem = self.problem();
        let mut hosts = self.hosts.get(alike)?.iter().copied();
        hosts.find(|host| !besides.contains(host) && !self.racks.refuse(problem, class, *host))
    }

    fn empty_hosts(&mut self) {
        let mut stuck: BTreeSet<Alike> = BTreeSet::new();
        while self.steps_left > 0 {
            let problem = self.problem();
            let for_cost = |search: &Self, alike: &Alike| {
                search.fullness(alike) / problem.types[alike.0].cost as f64
            };
            let emptiest = self
                .hosts
                .keys()
                .filter(|alike| !stuck.contains(*alike))
                .map(|alike| (for_cost(self, alike), alike))
                .reduce(|least, it| if it.0 < least.0 { it } else { least });
            let Some((_, alike)) = emptiest else { return };
            let alike = alike.clone();
            let host = *self.hosts[&alike].first().expect("no list of hosts is empty");
            if self.empty(host) {
                stuck.clear();
            } else {
                stuck.insert(alike);
            }
        }
    }

    /// Puts all machines of a host elsewhere, or leaves everything as it was.
    fn empty(&mut self, host: usize) -> bool {
        let (kind, pattern) = self.alike(host);
        let mut machines: Vec<usize> = pattern
            .iter()
            .flat_map(|(class, count)| core::iter::repeat_n(class, count as usize))
            .collect();
        machines.sort_by(|a, b| self.size(kind, *b).total_cmp(&self.size(kind, *a)).then(a.cmp(b)));
        let mut done: Vec<(usize, usize, usize)> = Vec::new();
        for class in machines {
            let to = self.target(class, &[host]);
            let moves = match to {
                Some(to) => Some([Some((class, host, to)), None]),
                None => self.exchange(class, host).map(|moves| moves.map(Some)),
            };
            let Some(moves) = moves else {
                for (class, from, to) in done.into_iter().rev() {
                    self.shift(class, to, from);
                }
                return false;
            };
            for (class, from, to) in moves.into_iter().flatten() {
                self.shift(class, from, to);
                done.push((class, from, to));
            }
        }
        true
    }

    /// A smaller machine of another host that goes to a third one, so that this machine takes its
    /// place.
    fn exchange(&mut self, class: usize, host: usize) -> Option<[(usize, usize, usize); 2]> {
        let all: Vec<Alike> = self.hosts.keys().cloned().collect();
        for (kind, pattern) in all {
            for (other, _) in pattern.iter() {
                if self.steps_left == 0 {
                    return None;
                }
                if self.size(kind, other) >= self.size(kind, class) {
                    continue;
                }
                let Some(between) = self.free(&(kind, pattern.clone()), class, &[host]) else {
                    continue;
                };
                if !self.fits(&(kind, pattern.without(other)), class) {
                    continue;
                }
                let Some(to) = self.target(other, &[host, between]) else { continue };
                return Some([(other, between, to), (class, host, between)]);
            }
        }
        None
    }

    /// Moves machines from the host that is overloaded for longest to where the worse of both is
    /// better than that.
    fn balance(&mut self) {
        while self.steps_left > 0 {
            let all: Vec<Alike> = self.hosts.keys().cloned().collect();
            let mut known: Vec<(f64, Alike)> =
                all.into_iter().map(|alike| (self.overload(&alike).high, alike)).collect();
            known.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            let Some((worst, from)) = known.pop().filter(|(worst, _)| *worst > 0.0) else { return };
            let Some((class, from, to)) = self.relief(worst, &from, &known) else { return };
            self.shift(class, from, to);
        }
    }

    fn relief(
        &mut self,
        worst: f64,
        from: &Alike,
        others: &[(f64, Alike)],
    ) -> Option<(usize, usize, usize)> {
        let host = *self.hosts[from].first()?;
        for (_, to) in others {
            for (class, _) in from.1.iter() {
                if self.steps_left == 0 {
                    return None;
                }
                // Nothing is won by less than a hundredth, and it would go on for long.
                if self.fits(to, class)
                    && self.room(to).overload_with(class, 0.0).high < 0.99 * worst
                    && let Some(to) = self.free(to, class, &[host])
                {
                    return Some((class, host, to));
                }
            }
        }
        None
    }
}

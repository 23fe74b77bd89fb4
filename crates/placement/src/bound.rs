//! What no placement can cost less than, with a proof.
//!
//! Give each machine a price such that no pattern that fits a host is worth more than that host
//! costs. Then all machines together are worth no more than any set of hosts that holds them (the
//! dual of Gilmore and Gomory's program, 1961). The prices are the certificate: whoever has them
//! needs only ask what the most valuable pattern is worth, and divide if that is more than a host
//! costs (Farley, 1990).

use alloc::vec::Vec;

use demand::Grid;

use crate::judge::Judge;
use crate::pattern::Pattern;
use crate::pricing;
use crate::problem::{Class, HostType, Problem};
use crate::simplex::Master;
use crate::tables::{EXACT_CELLS, Tables};

/// Prices that prove a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The price of one machine of each class. Of those that [`lower_bound`] finds, no pattern that
    /// fits a host is worth more than it.
    pub prices: Vec<f64>,
    /// No placement of all machines costs less.
    pub bound: u64,
}

/// How much work a bound may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BoundSettings {
    /// How often prices are improved.
    pub rounds: u32,
    /// How many machines are put into patterns to prove what prices are worth, for each host type,
    /// before the rest is only bounded; and a tenth of that to improve them, each time.
    pub steps: u64,
}

impl Default for BoundSettings {
    fn default() -> Self {
        Self { rounds: 400, steps: 20_000 }
    }
}

/// A cost below which all machines cannot be placed, whatever number of hosts of each type there
/// are.
///
/// Machines that fit no host even alone are not counted. What is to be apart by rack counts as
/// apart by host; machines that differ in their group only count as alike.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`].
pub fn lower_bound(problem: &Problem, settings: BoundSettings) -> Certificate {
    let relaxed = Relaxed::new(problem);
    let tables = Tables::new(&relaxed.problem);
    let mut judge = Judge::new(&tables);
    // Where cores or memory are all that binds, their own prices prove most, and at once.
    let cores = by_need(&relaxed.problem, |it| it.cores.into(), |it| it.cores.into());
    let memory = by_need(&relaxed.problem, |it| it.memory as f64, |it| it.memory as f64);
    let found = prices(&mut judge, settings);
    let (bound, prices) = [found, cores, memory]
        .into_iter()
        .map(|prices| {
            let Proven { bound, over } = proven(&mut judge, &prices, settings.steps);
            let prices: Vec<f64> = prices.into_iter().map(|it| it / over).collect();
            (bound, prices)
        })
        .reduce(|best, it| if it.0 > best.0 { it } else { best })
        .expect("there are three");
    Certificate { prices: relaxed.of_class.iter().map(|row| prices[*row]).collect(), bound }
}

/// What machines are worth if only one need has a price: as much as hosts at least cost for it.
fn by_need(problem: &Problem, need: fn(&Class) -> f64, have: fn(&HostType) -> f64) -> Vec<f64> {
    let for_one = |host: &HostType| host.cost as f64 / have(host).max(f64::MIN_POSITIVE);
    let price = problem.types.iter().map(for_one).reduce(f64::min).unwrap_or(0.0);
    let fits = |class: &Class| problem.types.iter().any(|host| need(class) <= have(host));
    let worth = |class: &Class| if fits(class) { need(class) * price } else { 0.0 };
    problem.classes.iter().map(worth).collect()
}

impl Certificate {
    /// The bound that these prices prove, found without what found them: what the most valuable
    /// pattern of each host type is worth, by a search of its own.
    ///
    /// Fewer `steps` prove less, never too much.
    pub fn proves(&self, problem: &Problem, steps: u64) -> u64 {
        assert_eq!(self.prices.len(), problem.classes.len(), "a price for each class");
        let relaxed = Relaxed::new(problem);
        let tables = Tables::new(&relaxed.problem);
        // Machines that count as alike have the least of their prices.
        let mut prices = alloc::vec![f64::INFINITY; relaxed.problem.classes.len()];
        for (row, price) in relaxed.of_class.iter().zip(&self.prices) {
            prices[*row] = prices[*row].min(price.max(0.0));
        }
        proven(&mut Judge::new(&tables), &prices, steps).bound
    }
}

/// The problem without what the bound does not use: classes that are alike are one, and loads are
/// rounded down to whole steps, so that each sum is computed once and exactly.
struct Relaxed {
    problem: Problem,
    /// Which of its classes each class became.
    of_class: Vec<usize>,
}

impl Relaxed {
    fn new(problem: &Problem) -> Self {
        let mut rows: Vec<Class> = Vec::new();
        let mut of_class = Vec::with_capacity(problem.classes.len());
        for class in &problem.classes {
            let bare = Class { apart: None, cluster: None, ..class.clone() };
            let is_alike = |row: &Class| Class { count: row.count, ..bare.clone() } == *row;
            let row = rows.iter().position(|row| row.together.is_none() && is_alike(row));
            let row = row.unwrap_or_else(|| {
                rows.push(Class { count: 0, ..bare });
                rows.len() - 1
            });
            rows[row].count += class.count;
            of_class.push(row);
        }
        // A class that is alone in its row keeps what it is apart from.
        for (row, it) in rows.iter_mut().enumerate() {
            let mut members = of_class.iter().zip(&problem.classes).filter(|(of, _)| **of == row);
            if let (Some((_, class)), None) = (members.next(), members.next()) {
                it.apart = class.apart;
            }
        }
        for (kind, host) in problem.types.iter().enumerate() {
            for (limit, it) in host.limits.iter().enumerate() {
                let loads = rows.iter().map(|row| &row.loads[kind][limit]);
                let step = Grid::fitting(it.capacity, loads, EXACT_CELLS, EXACT_CELLS).step();
                for row in &mut rows {
                    let load = &mut row.loads[kind][limit];
                    *load = load.map(|rate| rate / step * step);
                }
            }
        }
        Self { problem: Problem { classes: rows, ..problem.clone() }, of_class }
    }
}

/// Prices of the linear program, as far as so many rounds get.
fn prices(judge: &mut Judge<'_>, settings: BoundSettings) -> Vec<f64> {
    let problem = judge.tables.problem;
    let kinds = problem.types.len();
    let rows = problem.classes.len();
    let mut prices = alloc::vec![0.0; rows];
    // Each class alone, on the host type on which one of it costs least.
    let single: Vec<Option<(f64, f64)>> = (0..rows)
        .map(|row| {
            let mut alone = alloc::vec![0.0; rows];
            alone[row] = 1.0;
            let on = |kind: usize| {
                let (value, _) = pricing::greedy(judge, kind, &alone);
                let cost = problem.types[kind].cost as f64;
                (value > 0.0).then_some((value, cost))
            };
            let fitting = (0..kinds).filter_map(on);
            fitting.reduce(|best, it| if it.1 / it.0 < best.1 / best.0 { it } else { best })
        })
        .collect();
    let placed: Vec<usize> =
        (0..rows).filter(|row| single[*row].is_some() && problem.classes[*row].count > 0).collect();
    if placed.is_empty() {
        return prices;
    }
    let needs: Vec<f64> = placed.iter().map(|row| problem.classes[*row].count.into()).collect();
    let starts: Vec<(f64, f64)> = placed.iter().filter_map(|row| single[*row]).collect();
    let mut master = Master::new(&needs, &starts);
    for _ in 0..settings.rounds {
        let found = master.prices();
        for (row, price) in placed.iter().zip(&found) {
            prices[*row] = price.max(0.0);
        }
        // A machine more than is needed is free, and so no price is below zero.
        if let Some(row) = found.iter().position(|price| *price < -1e-9) {
            let mut surplus = alloc::vec![0.0; placed.len()];
            surplus[row] = -1.0;
            if master.enter(&surplus, 0.0) {
                continue;
            }
            break;
        }
        let mut entered = false;
        for kind in 0..kinds {
            let cost = problem.types[kind].cost as f64;
            let enough = cost * (1.0 + 1e-6);
            let mut found = pricing::greedy(judge, kind, &prices);
            if found.0 <= enough {
                (found, _) = pricing::search(judge, kind, &prices, enough, settings.steps / 10);
            }
            if found.0 > enough {
                entered |= master.enter(&column(&placed, &found.1), cost);
                break;
            }
        }
        if !entered {
            break;
        }
    }
    prices
}

fn column(placed: &[usize], pattern: &Pattern) -> Vec<f64> {
    placed.iter().map(|row| f64::from(pattern.count(*row))).collect()
}

/// What prices prove.
struct Proven {
    bound: u64,
    /// How many times what its host costs the dearest pattern is worth at most; 1 or more.
    over: f64,
}

fn proven(judge: &mut Judge<'_>, prices: &[f64], steps: u64) -> Proven {
    let problem = judge.tables.problem;
    let over = (0..problem.types.len()).fold(1.0f64, |over, kind| {
        let cost = problem.types[kind].cost as f64;
        over.max(at_most(judge, kind, prices, cost, steps) / cost)
    });
    let worth: f64 =
        prices.iter().zip(&problem.classes).map(|(price, it)| price * f64::from(it.count)).sum();
    // Sums of a few dozen prices are exact to far better than this.
    let bound = worth / over * (1.0 - 1e-9);
    Proven { bound: libm::ceil(bound - 1e-9) as u64, over }
}

/// What no pattern is worth more than, at least `cost`: a search is done with what is worth less
/// than it aims at, so it aims lower as long as it gets to its end.
fn at_most(judge: &mut Judge<'_>, kind: usize, prices: &[f64], cost: f64, steps: u64) -> f64 {
    let mut proven = f64::INFINITY;
    for slack in [2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007, 0.003, 0.0] {
        let aim = cost * (1.0 + slack);
        if aim >= proven {
            continue;
        }
        let (_, at_most) = pricing::search(judge, kind, prices, aim, steps);
        proven = proven.min(at_most);
        if at_most > aim {
            break;
        }
    }
    proven.max(cost)
}

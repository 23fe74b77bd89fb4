//! The algorithms of the paper (Sarker et al., ICN 2016), to hold others against.
//!
//! As they are printed they count machines of one list on one server, and neither decides what it
//! is meant to: figure 1 compares variables that are never assigned, figure 9 a bandwidth with a
//! number of tunnels. As they are meant they fill hosts one after another in the order of the list,
//! and the first machine that does not fit ends a host.

use crate::pattern::{Pattern, Placement};
use crate::problem::{HostType, Problem};

/// What figure 9 knows of a switch beside the limits of its host type.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tunnels {
    /// How many tunnels it has, if that is bounded. The figure takes each machine for one.
    pub most: Option<u32>,
}

/// Figure 1 as printed: how many machines of the list it counts. `currentMemory` and
/// `currentCoresUsed` keep their first value, taken as zero, so nothing is ever refused.
pub fn simple_count_as_printed(list: &[usize]) -> usize {
    list.len()
}

/// Figure 9 as printed: how many machines of the list it counts for a host of this type. A machine
/// whose peak, in the limit's unit, is above the number of tunnels ends it, which is every machine
/// that sends; cores and memory are compared as in figure 1.
///
/// A host whose tunnels are not bounded has so many that no peak is above.
pub fn network_aware_as_printed(
    problem: &Problem,
    kind: usize,
    list: &[usize],
    tunnels: Tunnels,
) -> usize {
    let most = tunnels.most.map_or(u64::MAX, u64::from);
    let limits = &problem.types[kind].limits;
    let mut sums = alloc::vec![0.0; limits.len()];
    for (count, class) in list.iter().enumerate() {
        let loads = &problem.classes[*class].loads[kind];
        sums.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load.mean());
        let is_above = sums.iter().zip(limits).any(|(sum, it)| *sum > it.capacity as f64);
        if loads.iter().any(|load| load.peak() > most) || is_above || count as u64 >= most {
            return count;
        }
    }
    list.len()
}

/// Figure 1 as meant: cores and memory, machines in the order of the list, classes by their places.
pub fn simple_count(problem: &Problem, list: &[usize]) -> Placement {
    next_fit(problem, list, |_, _, _| true)
}

/// Figure 9 as meant: as figure 1, and on each limit no peak above it and no more than it on
/// average, and no more machines than tunnels, which are told for each host type.
///
/// Averages that sum to the limit are above it for half of the time. This is what the figure says,
/// and what [`place`](crate::place) is held against.
///
/// # Panics
///
/// If there are not tunnels for each host type.
pub fn network_aware(problem: &Problem, list: &[usize], tunnels: &[Tunnels]) -> Placement {
    assert_eq!(tunnels.len(), problem.types.len(), "tunnels for each host type");
    next_fit(problem, list, |kind, pattern, class| {
        let most = tunnels[kind].most.unwrap_or(u32::MAX);
        let fits_limit = |(limit, it): (usize, &crate::problem::Limit)| {
            let load = |class: usize| &problem.classes[class].loads[kind][limit];
            let here = pattern.iter().map(|(class, count)| f64::from(count) * load(class).mean());
            load(class).peak() <= it.capacity
                && here.sum::<f64>() + load(class).mean() <= it.capacity as f64
        };
        pattern.machines() < most && problem.types[kind].limits.iter().enumerate().all(fits_limit)
    })
}

/// Peaks reserved: as figure 1, and the sum of peaks within each limit. Nothing ever exceeds.
pub fn peaks_reserved(problem: &Problem, list: &[usize]) -> Placement {
    next_fit(problem, list, |kind, pattern, class| {
        problem.types[kind].limits.iter().enumerate().all(|(limit, it)| {
            let peak = |class: usize| problem.classes[class].loads[kind][limit].peak();
            let here =
                pattern.iter().map(|(class, count)| peak(class).saturating_mul(count.into()));
            here.fold(peak(class), u64::saturating_add) <= it.capacity
        })
    })
}

/// Hosts one after another, machines in order. A machine that does not fit an empty host is left
/// out, instead of ending everything.
fn next_fit(
    problem: &Problem,
    list: &[usize],
    fits: impl Fn(usize, &Pattern, usize) -> bool,
) -> Placement {
    let mut placement = Placement::empty(problem);
    let mut host = 0;
    let mut machines = list.iter();
    let mut machine = machines.next();
    while let (Some(&class), Some(it)) = (machine, problem.hosts.get(host)) {
        let pattern = &mut placement.hosts[host];
        if has_room(problem, &problem.types[it.kind], pattern, class)
            && fits(it.kind, pattern, class)
        {
            pattern.add(class, 1);
            machine = machines.next();
        } else if pattern.is_empty() {
            machine = machines.next();
        } else {
            host += 1;
        }
    }
    placement
}

fn has_room(problem: &Problem, host: &HostType, pattern: &Pattern, class: usize) -> bool {
    let all = pattern.iter().chain([(class, 1)]);
    let (cores, memory) = all.fold((0u64, 0u64), |(cores, memory), (class, count)| {
        let it = &problem.classes[class];
        (
            cores + u64::from(it.cores) * u64::from(count),
            memory.saturating_add(it.memory.saturating_mul(count.into())),
        )
    });
    cores <= host.cores.into() && memory <= host.memory
}

//! What clusters send between racks, and exchanges that make it less.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use units::Rng;

use crate::pattern::Placement;
use crate::problem::{Apart, Domain, Problem};

/// What the links of all racks have to carry for clusters, in bits a second: in the hose model,
/// min(m, N − m) times the hose for a rack that has m of a cluster's N machines.
pub fn rack_traffic(problem: &Problem, placement: &Placement) -> u64 {
    Members::new(problem, placement).traffic()
}

/// Exchanges machines that need the same and belong to different clusters between racks, in so many
/// tries, and keeps what lowers [`rack_traffic`]. Hosts have as much load as before.
///
/// # Panics
///
/// If the placement is not of the problem.
pub fn gather(problem: &Problem, placement: &Placement, tries: u64, seed: u64) -> Placement {
    let mut rng = Rng::new(seed);
    let mut placement = placement.clone();
    let mut members = Members::new(problem, &placement);
    let mut of_rack: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (host, it) in problem.hosts.iter().enumerate() {
        of_rack.entry(it.rack).or_default().push(host);
    }
    let alike = |a: usize, b: usize| {
        let (a, b) = (&problem.classes[a], &problem.classes[b]);
        let needs = |it: &crate::problem::Class| (it.cores, it.memory, it.together);
        needs(a) == needs(b) && a.loads == b.loads && a.cluster != b.cluster
    };
    let used: Vec<usize> =
        (0..placement.hosts.len()).filter(|host| !placement.hosts[*host].is_empty()).collect();
    for _ in 0..if used.is_empty() { 0 } else { tries } {
        let from = used[rng.below(used.len() as u64) as usize];
        let here: Vec<usize> = placement.hosts[from].iter().map(|(class, _)| class).collect();
        let class = here[rng.below(here.len() as u64) as usize];
        let Some(cluster) = problem.classes[class].cluster else { continue };
        let rack = problem.hosts[from].rack;
        let Some(other_rack) = members.largest_rack(cluster, rack) else { continue };
        let hosts = &of_rack[&other_rack];
        let to = hosts[rng.below(hosts.len() as u64) as usize];
        let partner =
            placement.hosts[to].iter().map(|(class, _)| class).find(|it| alike(class, *it));
        let Some(partner) = partner else { continue };
        let before = members.traffic_of(class, partner);
        members.exchange(class, rack, partner, other_rack);
        if members.traffic_of(class, partner) < before {
            let kept = placement.clone();
            placement.hosts[from].remove(class);
            placement.hosts[to].remove(partner);
            placement.hosts[from].add(partner, 1);
            placement.hosts[to].add(class, 1);
            let both = [&of_rack[&rack], hosts];
            if both.iter().all(|hosts| are_apart(problem, &placement, hosts)) {
                continue;
            }
            placement = kept;
        }
        members.exchange(class, other_rack, partner, rack);
    }
    placement
}

/// Whether nothing on these hosts of one rack is to be apart.
fn are_apart(problem: &Problem, placement: &Placement, hosts: &[usize]) -> bool {
    let mut seen = Vec::new();
    for host in hosts {
        for (class, count) in placement.hosts[*host].iter() {
            if let Some(Apart { group, domain }) = problem.classes[class].apart {
                let place = (group, (domain == Domain::Host).then_some(*host));
                if count > 1 || seen.contains(&place) {
                    return false;
                }
                seen.push(place);
            }
        }
    }
    true
}

/// How many machines of each cluster are in each rack.
struct Members<'a> {
    problem: &'a Problem,
    of_cluster: Vec<BTreeMap<usize, u64>>,
}

impl<'a> Members<'a> {
    fn new(problem: &'a Problem, placement: &Placement) -> Self {
        let mut of_cluster = vec![BTreeMap::new(); problem.clusters.len()];
        for (host, pattern) in placement.hosts.iter().enumerate() {
            for (class, count) in pattern.iter() {
                if let Some(cluster) = problem.classes[class].cluster {
                    *of_cluster[cluster].entry(problem.hosts[host].rack).or_default() +=
                        u64::from(count);
                }
            }
        }
        Self { problem, of_cluster }
    }

    fn traffic(&self) -> u64 {
        (0..self.of_cluster.len()).map(|cluster| self.of(cluster)).sum()
    }

    fn of(&self, cluster: usize) -> u64 {
        let racks = &self.of_cluster[cluster];
        let all: u64 = racks.values().sum();
        let cut: u64 = racks.values().map(|here| (*here).min(all - here)).sum();
        cut * self.problem.clusters[cluster].hose
    }

    /// Of the clusters of two classes.
    fn traffic_of(&self, one: usize, other: usize) -> u64 {
        [one, other]
            .iter()
            .filter_map(|it| self.problem.classes[*it].cluster)
            .map(|it| self.of(it))
            .sum()
    }

    /// The rack, beside this one, that has most of a cluster.
    fn largest_rack(&self, cluster: usize, besides: usize) -> Option<usize> {
        let racks = self.of_cluster[cluster].iter().filter(|(rack, _)| **rack != besides);
        racks.max_by_key(|(rack, here)| (**here, core::cmp::Reverse(**rack))).map(|(rack, _)| *rack)
    }

    fn exchange(&mut self, one: usize, rack: usize, other: usize, other_rack: usize) {
        for (class, from, to) in [(one, rack, other_rack), (other, other_rack, rack)] {
            if let Some(cluster) = self.problem.classes[class].cluster {
                let racks = &mut self.of_cluster[cluster];
                let here = racks.get_mut(&from).expect("a machine is in the rack");
                *here -= 1;
                if *here == 0 {
                    racks.remove(&from);
                }
                *racks.entry(to).or_default() += 1;
            }
        }
    }
}

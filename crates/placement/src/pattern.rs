//! What is on hosts.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::problem::Problem;

/// The machines of one host: how many of each class.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pattern(BTreeMap<usize, u32>);

impl Pattern {
    /// So many machines of each class.
    pub fn new(counts: impl IntoIterator<Item = (usize, u32)>) -> Self {
        let mut pattern = Self::default();
        counts.into_iter().for_each(|(class, count)| pattern.add(class, count));
        pattern
    }

    /// How many machines of a class there are.
    pub fn count(&self, class: usize) -> u32 {
        self.0.get(&class).copied().unwrap_or(0)
    }

    /// The classes that have machines here, and how many, by rising class.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.0.iter().map(|(class, count)| (*class, *count))
    }

    /// How many machines there are.
    pub fn machines(&self) -> u32 {
        self.0.values().sum()
    }

    /// Whether there is no machine.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of its machines are in the other, too.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.iter().all(|(class, count)| other.count(class) >= count)
    }

    /// Adds machines of a class.
    pub fn add(&mut self, class: usize, count: u32) {
        if count > 0 {
            *self.0.entry(class).or_default() += count;
        }
    }

    /// Takes one machine of a class away.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn remove(&mut self, class: usize) {
        let count = self.0.get_mut(&class).expect("a machine of this class is here");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&class);
        }
    }

    /// The pattern with one machine more.
    #[must_use]
    pub fn with(&self, class: usize) -> Self {
        let mut pattern = self.clone();
        pattern.add(class, 1);
        pattern
    }

    /// The pattern with one machine less, which has to be there.
    #[must_use]
    pub fn without(&self, class: usize) -> Self {
        let mut pattern = self.clone();
        pattern.remove(class);
        pattern
    }
}

/// Which machines are on which host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Placement {
    /// The machines of each host, in the order of [`Problem::hosts`].
    pub hosts: Vec<Pattern>,
}

impl Placement {
    /// No machine anywhere.
    pub fn empty(problem: &Problem) -> Self {
        Self { hosts: vec![Pattern::default(); problem.hosts.len()] }
    }

    /// How many hosts have machines.
    pub fn hosts_used(&self) -> usize {
        self.hosts.iter().filter(|it| !it.is_empty()).count()
    }

    /// What the hosts that have machines cost together.
    pub fn cost(&self, problem: &Problem) -> u64 {
        let used = self.hosts.iter().zip(&problem.hosts).filter(|(it, _)| !it.is_empty());
        used.map(|(_, host)| problem.types[host.kind].cost).sum()
    }

    /// How many machines of each class are on no host.
    ///
    /// # Panics
    ///
    /// If there are more on hosts than there are.
    pub fn unplaced(&self, problem: &Problem) -> Vec<u32> {
        let mut left: Vec<u32> = problem.classes.iter().map(|it| it.count).collect();
        for (class, count) in self.hosts.iter().flat_map(Pattern::iter) {
            left[class] = left[class]
                .checked_sub(count)
                .unwrap_or_else(|| panic!("more machines of class {class} are placed than are"));
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_equal_if_the_same_machines_are_there() {
        let pattern = Pattern::new([(3, 1), (1, 2), (2, 0)]);
        assert_eq!(pattern.with(0).without(0), pattern);
        assert_eq!((pattern.machines(), pattern.count(1), pattern.count(2)), (3, 2, 0));
        assert!(pattern.without(3).without(1).without(1).is_empty());
    }
}

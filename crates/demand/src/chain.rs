//! A trace as visits to states.

use alloc::vec;
use alloc::vec::Vec;

/// A visit to a state: which, and for how many samples.
pub(crate) type Visit = (u8, u32);

/// How often a sequence of states goes from each to each, and how long it stays.
pub(crate) struct Chain {
    /// How many states there are.
    pub count: usize,
    /// Samples in each state.
    pub samples: Vec<u64>,
    /// The visits, in order; the last is followed by the first.
    pub visits: Vec<Visit>,
}

impl Chain {
    /// Reads a sequence as a circle: its first sample follows its last. Then every visit has an
    /// end, each state is left as often as it is entered, and the share of time that a model of
    /// these visits has in a state is exactly that of the sequence.
    pub fn of(sequence: &[u8], count: usize) -> Self {
        let mut samples = vec![0; count];
        let mut visits: Vec<Visit> = Vec::new();
        for &state in sequence {
            samples[usize::from(state)] += 1;
            match visits.last_mut() {
                Some((last, length)) if *last == state => *length += 1,
                _ => visits.push((state, 1)),
            }
        }
        if visits.len() > 1 && visits[0].0 == visits[visits.len() - 1].0 {
            let (_, length) = visits.pop().expect("there are two");
            visits[0].1 += length;
        }
        Self { count, samples, visits }
    }

    /// Pairs of visits that follow one another: from, to.
    pub fn jumps(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let next = self.visits.iter().cycle().skip(1);
        let pairs = self.visits.iter().zip(next).filter(|(from, to)| from.0 != to.0);
        pairs.map(|(from, to)| (usize::from(from.0), usize::from(to.0)))
    }

    /// The visits, without those that may be no more than a passage: a single sample between a
    /// lower and a higher state is also what a machine leaves that changed from one to the other
    /// within the step.
    pub fn stays(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        let count = self.visits.len();
        let at = move |place: usize| self.visits[place % count].0;
        let is_passage = move |place: usize| {
            let (before, here, after) = (at(place + count - 1), at(place), at(place + 1));
            self.visits[place].1 == 1
                && ((before < here && here < after) || (before > here && here > after))
        };
        (0..count).filter(move |place| !is_passage(*place)).map(move |place| usize::from(at(place)))
    }

    /// How long the visits to a state are, in samples.
    pub fn lengths(&self, state: usize) -> impl Iterator<Item = u32> + '_ {
        self.visits.iter().filter(move |it| usize::from(it.0) == state).map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_visit_is_followed_by_the_first() {
        let chain = Chain::of(&[0, 0, 1, 2, 2, 2, 1], 3);
        assert_eq!(chain.visits, [(0, 2), (1, 1), (2, 3), (1, 1)]);
        assert_eq!(chain.jumps().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 1), (1, 0)]);
        assert_eq!(chain.samples, [2, 2, 3]);
        assert_eq!(chain.lengths(1).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_single_sample_between_two_states_may_be_a_passage() {
        let chain = Chain::of(&[0, 0, 1, 2, 2, 1, 1, 0, 1], 3);
        assert_eq!(chain.stays().collect::<Vec<_>>(), [0, 2, 1, 0, 1]);
    }

    #[test]
    fn a_visit_that_goes_over_the_end_is_one() {
        let chain = Chain::of(&[1, 0, 0, 1, 1], 2);
        assert_eq!(chain.visits, [(1, 3), (0, 2)]);
        assert_eq!(chain.stays().collect::<Vec<_>>(), [1, 0]);
        assert_eq!(Chain::of(&[0, 0], 1).jumps().count(), 0);
    }
}

//! Whose turn it is, of the ways of one class of a host.
//!
//! ```text
//!   machines: │ 0 │ 2 │ 1 │      a frame each, in turn
//!               │
//!               └▶ ways: │ 7 │ 3 │ 9 │      so many bytes each, in turn
//! ```
//!
//! A machine waits for a frame of each other one, whatever their windows. Its own messages go one
//! after the other, as far as a turn allows: if they took turns of a frame, all of them would be
//! complete when the last one is.

use std::collections::{BTreeMap, VecDeque};

/// Ways that have a frame that may leave, as far as is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// Those that have such a way, in turn.
    machines: VecDeque<u32>,
    ways: BTreeMap<u32, VecDeque<u32>>,
}

/// Where a way lines up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// Its turn is not over.
    First,
    /// It has had its turn, or comes anew.
    Last,
}

impl Turns {
    /// A way of a machine lines up.
    pub(crate) fn push(&mut self, machine: u32, way: u32, place: Place) {
        let ways = self.ways.entry(machine).or_default();
        if ways.is_empty() {
            self.machines.push_back(machine);
        }
        match place {
            Place::First => ways.push_front(way),
            Place::Last => ways.push_back(way),
        }
    }

    /// Takes out the way whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let machine = *self.machines.front()?;
        let ways = self.ways.get_mut(&machine).expect("a machine in turn has ways");
        let way = ways.pop_front();
        if ways.is_empty() {
            self.machines.pop_front();
        }
        way
    }

    /// A frame of a machine has left: it is another one's turn.
    pub(crate) fn pass(&mut self, machine: u32) {
        if self.machines.front() == Some(&machine) {
            self.machines.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_take_turns_whatever_the_number_of_their_ways() {
        let mut turns = Turns::default();
        for way in [10, 11, 12] {
            turns.push(1, way, Place::Last);
        }
        turns.push(2, 20, Place::Last);
        let mut order = Vec::new();
        for _ in 0..6 {
            let way = turns.pop().unwrap();
            order.push(way);
            // Each has more, and the turn of none of the first machine's is over.
            let place = if way < 20 { Place::First } else { Place::Last };
            turns.push(way / 10, way, place);
            turns.pass(way / 10);
        }
        assert_eq!(order, [10, 20, 10, 20, 10, 20]);
        assert_eq!([0; 2].map(|_| turns.pop()), [Some(10), Some(11)]);
    }
}

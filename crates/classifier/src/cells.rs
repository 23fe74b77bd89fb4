//! What remembered decisions depend on, and whether that has changed since.
//!
//! A cell stands for something that can change by itself: a port's policy, where a port is, the
//! addresses of one class. It keeps the time of its last change, counted in changes of all cells.
//! A decision keeps the time when it began and the cells that it looked at; it is true as long as
//! none of these has changed since. So a change of one cell forgets what depends on that cell and
//! nothing else, at once, and without going through what is remembered.

use alloc::vec::Vec;

/// Something that can change by itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct CellId(pub u32);

/// When each cell has changed last.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    changed: Vec<u64>,
    /// How many changes there have been.
    now: u64,
}

impl Cells {
    /// With so many cells. None has ever changed.
    pub fn new(cells: u32) -> Self {
        Self { changed: alloc::vec![0; cells as usize], now: 0 }
    }

    /// One more cell.
    pub fn add(&mut self) -> CellId {
        // What was decided before it was there is not true of it.
        self.now += 1;
        self.changed.push(self.now);
        CellId(u32::try_from(self.changed.len() - 1).expect("there are fewer than 2^32 cells"))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.changed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Has a cell change. Nothing that depends on it is true any longer.
    pub fn change(&mut self, cell: CellId) {
        self.now += 1;
        if let Some(changed) = self.changed.get_mut(cell.0 as usize) {
            *changed = self.now;
        }
    }

    /// How many changes there have been. As long as that stays, all that is true remains so.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Something has changed that no decision depends on, but what was worked out of one does.
    pub const fn tick(&mut self) {
        self.now += 1;
    }

    /// Whether nothing that a decision depends on has changed.
    #[inline]
    pub fn hold(&self, depends: &Depends) -> bool {
        depends.since == self.now || self.still_hold(depends)
    }

    fn still_hold(&self, depends: &Depends) -> bool {
        let is_old = |cell: &CellId| {
            self.changed.get(cell.0 as usize).is_some_and(|changed| *changed <= depends.since)
        };
        match depends.cells.get(..depends.len as usize) {
            Some(cells) => cells.iter().all(is_old),
            // More than there is room for: all of them.
            None => false,
        }
    }
}

/// How many cells a decision can name.
const MOST: usize = 7;

/// The cells that a decision depends on, and since when.
///
/// One that looks at more than seven cells depends on all there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Depends {
    since: u64,
    cells: [CellId; MOST],
    /// More than [`MOST`]: too many to be named.
    len: u32,
}

impl Depends {
    /// On nothing so far, of a decision that begins now.
    pub fn now(cells: &Cells) -> Self {
        Self { since: cells.now, ..Self::NOTHING }
    }

    /// On nothing, for ever.
    pub const NOTHING: Self = Self { since: 0, cells: [CellId(0); MOST], len: 0 };

    /// On a cell, too.
    pub fn on(&mut self, cell: CellId) {
        let len = self.len as usize;
        let Some(named) = self.cells.get(..len) else { return };
        if named.contains(&cell) {
            return;
        }
        if let Some(place) = self.cells.get_mut(len) {
            *place = cell;
        }
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_decision_holds_until_one_of_its_cells_changes(
            on in prop::collection::vec(0_u32..12, 0..12),
            changes in prop::collection::vec(0_u32..12, 0..6),
        ) {
            let mut cells = Cells::new(12);
            cells.change(CellId(3));
            let mut depends = Depends::now(&cells);
            on.iter().for_each(|cell| depends.on(CellId(*cell)));
            prop_assert!(cells.hold(&depends));
            changes.iter().for_each(|cell| cells.change(CellId(*cell)));
            let mut distinct = on.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let has_changed = match distinct.len() <= MOST {
                true => changes.iter().any(|cell| on.contains(cell)),
                false => !changes.is_empty(),
            };
            prop_assert_eq!(cells.hold(&depends), !has_changed);
        }
    }

    #[test]
    fn a_cell_that_does_not_exist_has_always_changed() {
        let mut cells = Cells::default();
        let mut depends = Depends::now(&cells);
        depends.on(CellId(0));
        cells.add();
        assert!(!cells.hold(&depends));
        assert!(cells.hold(&Depends::NOTHING));
    }
}

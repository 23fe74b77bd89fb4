//! A linear program by columns: the cheapest mix of patterns that places every machine.
//!
//! Revised simplex with an explicit inverse, for a few dozen rows. What it finds is not trusted:
//! its prices are the beginning of a proof that is checked by itself.

use alloc::vec;
use alloc::vec::Vec;

/// The least Σ cost · x such that Σ column · x = need, x ≥ 0, by columns that are offered one by
/// one.
pub(crate) struct Master {
    rows: usize,
    /// The inverse of the basis, row by row.
    inverse: Vec<f64>,
    /// How much of each column in the basis is used.
    used: Vec<f64>,
    costs: Vec<f64>,
}

/// What is smaller is zero, but for rounding.
const TINY: f64 = 1e-9;

impl Master {
    /// Begins with a column for each row that has `most` of it and nothing else, at a cost.
    pub fn new(needs: &[f64], single: &[(f64, f64)]) -> Self {
        let rows = needs.len();
        let mut inverse = vec![0.0; rows * rows];
        let mut used = vec![0.0; rows];
        for (row, (most, _)) in single.iter().enumerate() {
            inverse[row * rows + row] = 1.0 / most;
            // A little more than is needed, different for each row, so that no two columns leave
            // the basis at once and it never goes round in a circle.
            used[row] = (needs[row] + 1e-6 * (1.0 + row as f64)) / most;
        }
        Self { rows, inverse, used, costs: single.iter().map(|(_, cost)| *cost).collect() }
    }

    /// What one more of each row would cost: the dual prices.
    pub fn prices(&self) -> Vec<f64> {
        let price = |row: usize| {
            (0..self.rows)
                .map(|basis| self.costs[basis] * self.inverse[basis * self.rows + row])
                .sum()
        };
        (0..self.rows).map(price).collect()
    }

    /// Takes a column into the basis, in place of the one that is used up first. `false` if it
    /// cannot be used.
    pub fn enter(&mut self, column: &[f64], cost: f64) -> bool {
        let rows = self.rows;
        let row = |basis: usize| &self.inverse[basis * rows..(basis + 1) * rows];
        let replaced: Vec<f64> = (0..rows)
            .map(|basis| row(basis).iter().zip(column).map(|(a, b)| a * b).sum())
            .collect();
        let leaving = (0..rows)
            .filter(|basis| replaced[*basis] > TINY)
            .map(|basis| (self.used[basis] / replaced[basis], basis))
            .reduce(|least, it| if it.0 < least.0 { it } else { least });
        let Some((amount, leaving)) = leaving else { return false };
        let pivot: Vec<f64> = row(leaving).iter().map(|it| it / replaced[leaving]).collect();
        for basis in (0..rows).filter(|basis| *basis != leaving) {
            let factor = replaced[basis];
            self.used[basis] = (self.used[basis] - factor * amount).max(0.0);
            let row = &mut self.inverse[basis * rows..(basis + 1) * rows];
            row.iter_mut().zip(&pivot).for_each(|(it, pivot)| *it -= factor * pivot);
        }
        self.inverse[leaving * rows..(leaving + 1) * rows].copy_from_slice(&pivot);
        self.used[leaving] = amount;
        self.costs[leaving] = cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rolls_are_cut_with_the_least_waste() {
        // Rolls of 10; 20 pieces of 3 and 30 of 4. Singles: 3 and 2 a roll. (2, 1) fills a roll.
        let needs = [20.0, 30.0];
        let mut master = Master::new(&needs, &[(3.0, 1.0), (2.0, 1.0)]);
        let bound = |master: &Master| -> f64 {
            master.prices().iter().zip(needs).map(|(price, need)| price * need).sum()
        };
        assert!((bound(&master) - (20.0 / 3.0 + 15.0)).abs() < 1e-9);
        assert!(master.enter(&[2.0, 1.0], 1.0));
        assert!((bound(&master) - 20.0).abs() < 1e-9);
        let prices = master.prices();
        assert!((prices[0] - 0.25).abs() < 1e-9 && (prices[1] - 0.5).abs() < 1e-9);
    }
}

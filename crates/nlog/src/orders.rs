//! The fewest orders of a table's columns that serve all searches.
//!
//! A search knows a set of columns. A tree serves it if its order of columns begins with them; so
//! one order serves a chain of sets, each within the next. The fewest chains that cover all sets
//! are found by matching each set with one that contains it (Subotić et al., "Automatic index
//! selection for large-scale Datalog computation", VLDB 2018).

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::program::MAX_COLUMNS;

/// Columns, a bit each.
pub(crate) type Columns = u16;

/// The columns of each order. The first is the table's primary order. It ends with column `last`,
/// if that is given: all other columns are searched for then.
pub(crate) fn cover(
    columns: usize,
    searches: &BTreeSet<Columns>,
    last: Option<usize>,
) -> Vec<Vec<u8>> {
    let all = all(columns);
    let mut sets: Vec<Columns> = searches.iter().copied().filter(|set| *set != 0).collect();
    if !sets.contains(&all) {
        sets.push(all);
    }
    // Smaller sets first, so that a chain is followed by going up.
    sets.sort_by_key(|set| (set.count_ones(), *set));
    let is_within = |one: usize, other: usize| one < other && sets[one] & !sets[other] == 0;
    // `above[s]` follows s in its chain, `below[s]` comes before it.
    let (mut above, mut below) = (vec![None; sets.len()], vec![None; sets.len()]);
    for set in 0..sets.len() {
        let mut tried = vec![false; sets.len()];
        augment(set, &is_within, &mut above, &mut below, &mut tried);
    }
    let starts = (0..sets.len()).filter(|set| below[*set].is_none());
    let chains = starts.map(|start| {
        core::iter::successors(Some(start), |set| above[*set]).map(|set| sets[set]).collect()
    });
    let chains: Vec<Vec<Columns>> = chains.collect();
    let mut orders: Vec<Vec<u8>> = chains.iter().map(|chain| order(columns, chain)).collect();
    let ends_well = |order: &Vec<u8>| match last {
        Some(last) => order.last().copied().map(usize::from) == Some(last),
        None => true,
    };
    orders.sort_by_key(|order| !ends_well(order));
    orders
}

pub(crate) fn all(columns: usize) -> Columns {
    Columns::MAX >> (MAX_COLUMNS - columns)
}

/// Finds a set above this one, moving others if need be (Kuhn's algorithm).
fn augment(
    set: usize,
    is_within: &impl Fn(usize, usize) -> bool,
    above: &mut [Option<usize>],
    below: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for other in 0..above.len() {
        if !is_within(set, other) || core::mem::replace(&mut tried[other], true) {
            continue;
        }
        let is_free = match below[other] {
            None => true,
            Some(rival) => augment(rival, is_within, above, below, tried),
        };
        if is_free {
            (above[set], below[other]) = (Some(other), Some(set));
            return true;
        }
    }
    false
}

/// The columns in the order in which a chain takes them up; the rest follows.
fn order(columns: usize, chain: &[Columns]) -> Vec<u8> {
    let mut order: Vec<u8> = Vec::new();
    for set in chain.iter().copied().chain([all(columns)]) {
        let taken = order.clone();
        order.extend((0..columns as u8).filter(|it| set >> it & 1 == 1 && !taken.contains(it)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_of_searches_shares_an_order() {
        let searches = [0b0100, 0b0110, 0b1111, 0b0001].into();
        assert_eq!(cover(4, &searches, None), [vec![0, 1, 2, 3], vec![2, 1, 0, 3]]);
        assert_eq!(cover(3, &BTreeSet::new(), None), [vec![0, 1, 2]]);
    }

    proptest! {
        /// Every search is served, and there are as many orders as sets of which none is within
        /// another, at most: no fewer would do (Dilworth).
        #[test]
        fn orders_serve_all_searches_and_are_the_fewest(
            searches in proptest::collection::btree_set(1..64_u16, 0..12),
        ) {
            let orders = cover(6, &searches, None);
            for order in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            }
            for search in &searches {
                let prefix = |order: &Vec<u8>| -> Columns {
                    order[..search.count_ones() as usize].iter().map(|it| 1 << it).sum()
                };
                prop_assert!(orders.iter().any(|order| prefix(order) == *search));
            }
            let sets: Vec<u16> = searches.iter().copied().chain([63]).collect();
            let apart = |one: u16, other: u16| one & !other != 0 && other & !one != 0;
            let widest = (0..1_u32 << sets.len()).filter_map(|chosen| {
                let chosen: Vec<u16> =
                    (0..sets.len()).filter(|it| chosen >> it & 1 == 1).map(|it| sets[it]).collect();
                let is_antichain = (0..chosen.len())
                    .all(|at| chosen[..at].iter().all(|other| apart(*other, chosen[at])));
                is_antichain.then_some(chosen.len())
            });
            prop_assert_eq!(orders.len(), widest.max().unwrap_or(1));
        }
    }
}

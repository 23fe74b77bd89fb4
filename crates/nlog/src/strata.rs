//! Which tables are computed before which.
//!
//! Tables that derive from each other are a stratum (a strongly connected component, by Tarjan's
//! algorithm); a stratum comes after all that it reads. Negation and aggregates need what they read
//! complete, so they may not read their own stratum. A recursive stratum needs a partition, so that
//! a part of it can be computed anew by itself, and it terminates because all its values come from
//! tables.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::program::{Rule, Sort, Stratum, Table};
use crate::source::Faults;

/// Finds the strata, and tells each table and each rule of its own.
pub(crate) fn stratify(
    tables: &mut [Table],
    rules: &mut [Rule],
    faults: &mut Faults,
) -> Vec<Stratum> {
    let mut reads = vec![BTreeSet::new(); tables.len()];
    for rule in rules.iter() {
        reads[rule.head].extend(rule.body.iter().filter_map(|atom| atom.table()));
    }
    let components = components(&reads);
    for (stratum, component) in components.iter().enumerate() {
        for table in component {
            tables[*table].stratum = stratum;
        }
    }
    for (index, rule) in rules.iter_mut().enumerate() {
        tables[rule.head].rules.push(index);
        let own = |table: usize| tables[table].stratum == tables[rule.head].stratum;
        rule.is_recursive = rule.body.iter().filter_map(|atom| atom.table()).any(own);
        for atom in &rule.body {
            if let Sort::Absent(table) = atom.sort
                && own(table)
            {
                let (name, head) = (&tables[table].name, &tables[rule.head].name);
                let message = format!("{name} depends on {head}: it cannot be negated here");
                faults.add(atom.spot, message);
            }
        }
    }
    for table in tables.iter() {
        check_table(table, rules, faults);
    }
    let strata = components.into_iter().map(|component| {
        let own = rules.iter().filter(|rule| component.contains(&rule.head));
        let recursive: Vec<&Rule> = own.filter(|rule| rule.is_recursive).collect();
        let partition =
            (!recursive.is_empty()).then(|| partition(&component, &recursive, tables, faults));
        Stratum { tables: component, partition }
    });
    strata.collect()
}

/// What holds for all rules of a table together.
fn check_table(table: &Table, rules: &[Rule], faults: &mut Faults) {
    for index in &table.rules {
        let rule = &rules[*index];
        if rule.aggregate.is_some() && table.rules.len() > 1 {
            let message = format!("an aggregate is its table's one rule: {} has more", table.name);
            faults.add(rule.spot, message);
        }
        if !rule.is_recursive {
            continue;
        }
        if rule.aggregate.is_some() {
            let message = format!("{} depends on itself: it cannot be an aggregate", table.name);
            faults.add(rule.spot, message);
        }
        for atom in &rule.body {
            let Sort::Call(_, inputs) = atom.sort else { continue };
            let outputs = atom.terms[inputs..].iter().flatten();
            if let Some(slot) = outputs.into_iter().find(|slot| rule.terms.contains(&Some(**slot)))
            {
                let name = &rule.slots[usize::from(*slot)].name;
                let message = format!(
                    "{name} is computed in each round of a recursion, which might never end: \
                     derive it by another rule"
                );
                faults.add(atom.spot, message);
            }
        }
    }
}

/// A column of each table of the component that all its recursive rules keep.
fn partition(
    component: &[usize],
    rules: &[&Rule],
    tables: &[Table],
    faults: &mut Faults,
) -> Vec<usize> {
    let mut chosen = vec![0; component.len()];
    if choose(component, rules, tables, &mut chosen, 0, &mut { MAX_CHOICES }) {
        return chosen;
    }
    let name = &tables[component[0]].name;
    let message = format!(
        "no column of {name} is kept by its recursion: add one, as the tenant or the domain, to \
         the head and to every recursive condition"
    );
    faults.add(rules[0].spot, message);
    chosen
}

/// How many choices of columns are tried. Real strata need no more than a choice for each column.
const MAX_CHOICES: u32 = 10_000;

/// Tries all columns of the tables from `at` on.
fn choose(
    component: &[usize],
    rules: &[&Rule],
    tables: &[Table],
    chosen: &mut Vec<usize>,
    at: usize,
    left: &mut u32,
) -> bool {
    let Some(table) = component.get(at) else { return true };
    (0..tables[*table].columns.len()).any(|column| {
        let Some(fewer) = left.checked_sub(1) else { return false };
        (*left, chosen[at]) = (fewer, column);
        let known = &component[..=at];
        let is_kept = rules.iter().all(|rule| keeps(rule, known, component, chosen));
        is_kept && choose(component, rules, tables, chosen, at + 1, left)
    })
}

/// Whether the rule's head and its recursive conditions have one variable in the chosen columns, as
/// far as columns are chosen.
fn keeps(rule: &Rule, known: &[usize], component: &[usize], chosen: &[usize]) -> bool {
    let column = |table: usize| Some(chosen[known.iter().position(|it| *it == table)?]);
    let head = column(rule.head).map(|column| rule.terms[column]);
    let recursive =
        rule.body.iter().filter(|it| it.table().is_some_and(|it| component.contains(&it)));
    let mut kept = head
        .into_iter()
        .chain(recursive.filter_map(|atom| Some(atom.terms[column(atom.table()?)?])));
    match kept.next() {
        None => true,
        Some(None) => false,
        Some(first) => kept.all(|it| it == first),
    }
}

/// The strongly connected components, each after all that its members read.
fn components(reads: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut components = Vec::new();
    let mut index = vec![UNSEEN; reads.len()];
    let mut low = vec![0; reads.len()];
    let mut is_open = vec![false; reads.len()];
    let (mut open, mut next) = (Vec::new(), 0);
    for root in 0..reads.len() {
        if index[root] != UNSEEN {
            continue;
        }
        // The path that is being walked, each node with what is left to look at.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut entered = Some(root);
        loop {
            if let Some(node) = entered.take() {
                (index[node], low[node]) = (next, next);
                next += 1;
                open.push(node);
                is_open[node] = true;
                path.push((node, reads[node].iter().rev().copied().collect()));
            }
            let Some((node, left)) = path.last_mut() else { break };
            let node = *node;
            if let Some(read) = left.pop() {
                if index[read] == UNSEEN {
                    entered = Some(read);
                } else if is_open[read] {
                    low[node] = low[node].min(index[read]);
                }
                continue;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                low[*above] = low[*above].min(low[node]);
            }
            if low[node] == index[node] {
                let start = open.iter().position(|it| *it == node).unwrap_or_default();
                let mut component = open.split_off(start);
                for member in &component {
                    is_open[*member] = false;
                }
                component.sort_unstable();
                components.push(component);
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_after_what_they_read() {
        let reads: [&[usize]; 6] = [&[1], &[2], &[1, 3], &[], &[0, 4], &[]];
        let reads: Vec<BTreeSet<usize>> =
            reads.iter().map(|it| it.iter().copied().collect()).collect();
        assert_eq!(components(&reads), [vec![3], vec![1, 2], vec![0], vec![4], vec![5]]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let reads: Vec<BTreeSet<usize>> =
            (0..200_000).map(|it| BTreeSet::from([(it + 1) % 200_000])).collect();
        assert_eq!(components(&reads).len(), 1);
    }
}

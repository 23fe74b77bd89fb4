//! Columns that summarize groups.
//!
//! What is told to such a table are the solutions of its rule's body: the group and, but for
//! `count`, the argument. The table has a row a group. A count or a sum follows from the one
//! before, so that nothing else is kept; the number of the row is how many solutions there are. For
//! a minimum, a maximum and a set the members of each group are kept. A minimum or a maximum that
//! goes is replaced by a search of its group; a set is written anew whenever it changes.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::kinds::Kind;
use crate::program::Summary;
use crate::state::State;

/// What a group has: the summary, and the number of its row.
type Group = Option<(u32, u32)>;

/// The rows that come and go, each with its number, or 0 if it goes. `None` if a sum is too large.
pub(crate) fn changes(
    state: &mut State,
    table: usize,
    rule: usize,
    summary: Summary,
    rows: &[u32],
) -> Option<Vec<u32>> {
    let width = state.width(table) - 1;
    let stride = state.told_width(table) + 1;
    let mut changes = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let group = &rest[..width];
        let same = rest.chunks_exact(stride).take_while(|row| row.starts_with(group)).count();
        let (told, after) = rest.split_at(same * stride);
        rest = after;
        let old =
            state.store(table).tree(0).range(group).next().map(|row| (row[width], row[width + 1]));
        let new = match summary {
            Summary::Count => count(state, old, told),
            Summary::Sum => sum(state, old, told, stride)?,
            Summary::Min | Summary::Max | Summary::Set => {
                let rows = told.chunks_exact(stride);
                let gone = count_members(state, table, rows);
                members(state, table, rule, summary, group, old, &gone)
            }
        };
        match (old, new) {
            (Some(old), Some(new)) if old.0 == new.0 => {
                if old != new {
                    state.space.set(table, &[group, &[old.0]].concat(), &[new.1]);
                }
            }
            _ => {
                for (value, number) in old.map(|(value, _)| (value, 0)).into_iter().chain(new) {
                    changes.extend_from_slice(group);
                    changes.extend([value, number]);
                }
            }
        }
    }
    Some(changes)
}

fn count(state: &mut State, old: Group, told: &[u32]) -> Group {
    let change = told[told.len() - 1].cast_signed();
    let number = solutions(old, change);
    (number > 0).then(|| (state.values.int_word(number.into()), number))
}

/// `Err` would say no more than `None`: the sum is no number.
fn sum(state: &mut State, old: Group, told: &[u32], stride: usize) -> Option<Group> {
    let (mut sum, mut change) = (old.map_or(0, |(sum, _)| state.values.int_of(sum).into()), 0_i32);
    for row in told.chunks_exact(stride) {
        let number = row[stride - 1].cast_signed();
        // 2^31 solutions of below 2^64 each come nowhere near the ends of 128 bits.
        sum += i128::from(state.values.int_of(row[stride - 2])) * i128::from(number);
        change += number;
    }
    let number = solutions(old, change);
    if number == 0 {
        return Some(None);
    }
    let sum = u64::try_from(sum).ok()?;
    Some(Some((state.values.int_word(sum), number)))
}

fn solutions(old: Group, change: i32) -> u32 {
    let old = old.map_or(0, |(_, number)| number);
    old.checked_add_signed(change).expect("a solution comes before it goes, and are below 2^32")
}

/// What became of a group's members.
#[derive(Default)]
struct Changed {
    appeared: Vec<u32>,
    vanished: Vec<u32>,
}

fn count_members<'r>(
    state: &mut State,
    table: usize,
    rows: impl Iterator<Item = &'r [u32]>,
) -> Changed {
    let mut changed = Changed::default();
    for row in rows {
        let (key, number) = row.split_at(row.len() - 1);
        match state.space.count(table, key, number[0].cast_signed()) {
            (0, _) => changed.appeared.push(key[key.len() - 1]),
            (_, 0) => changed.vanished.push(key[key.len() - 1]),
            _ => {}
        }
    }
    changed
}

/// The summary of a group's members.
fn members(
    state: &mut State,
    table: usize,
    rule: usize,
    summary: Summary,
    group: &[u32],
    old: Group,
    changed: &Changed,
) -> Group {
    if changed.appeared.is_empty() && changed.vanished.is_empty() {
        return old;
    }
    let members = state.space.members(table).expect("the table has members");
    let mut all = members.range(group).map(|row| row[group.len()]).peekable();
    all.peek()?;
    if summary == Summary::Set {
        return Some((state.values.set_word(all), 1));
    }
    let head = &state.program.tables[table];
    let column = state.program.rules[rule].aggregate.map_or(0, |it| it.column);
    let Kind::One(scalar) = head.columns[column].ty.kind else { return None };
    let values = &state.values;
    let first = if summary == Summary::Min { Ordering::Less } else { Ordering::Greater };
    let better =
        |one: u32, other: u32| if values.order(scalar, other, one) == first { other } else { one };
    let best = match old {
        Some((old, _)) if !changed.vanished.contains(&old) => {
            changed.appeared.iter().copied().fold(old, better)
        }
        _ => all.reduce(better)?,
    };
    Some((best, 1))
}

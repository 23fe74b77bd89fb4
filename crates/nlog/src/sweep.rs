//! Looks for values that nobody needs any more.
//!
//! Needed is what is in a tuple, in a group that is summarized, in a rule, in the batch that is to
//! be done, or in a set that is needed. All of that is looked at, which costs about what a search
//! of all tables does; it is done when so many new values have come that it costs little of each.

use alloc::vec;
use alloc::vec::Vec;

use crate::kinds::{Kind, Scalar};
use crate::layout::Layout;
use crate::state::State;
use crate::syntax::Constant;
use crate::values::{Value, Values};

/// Forgets the values that nothing needs, beside those that are given.
pub(crate) fn sweep(state: &mut State, layouts: &[Layout], given: &[Value]) {
    let mut needed = Needed { values: &state.values, places: vec![false; state.values.places()] };
    given.iter().for_each(|value| needed.add(value.kind, value.word));
    for (rule, words) in state.program.rules.iter().zip(state.constants()) {
        for (slot, word) in words {
            let scalar = match &rule.slots[usize::from(*slot)].constant {
                Some(Constant::Text(_)) => Scalar::Text,
                Some(Constant::Int(_)) => Scalar::Int,
                Some(Constant::Bool(_)) | None => Scalar::Bool,
            };
            needed.add(Kind::One(scalar), *word);
        }
    }
    for (table, layout) in layouts.iter().enumerate() {
        // Kinds as rows have them.
        let kinds: Vec<Kind> = layout.row_kinds();
        for row in state.store(table).tree(0).range(&[]) {
            kinds.iter().zip(row).for_each(|(kind, word)| needed.add(*kind, *word));
        }
        let Some(members) = state.space.members(table) else { continue };
        // Groups are in the table, too; here their members are behind them.
        let last = kinds.len() - 1;
        let kind = match kinds[last] {
            Kind::One(scalar) | Kind::Set(scalar) => Kind::One(scalar),
        };
        members.range(&[]).for_each(|row| needed.add(kind, row[last]));
    }
    let places = needed.places;
    state.values.forget(&places);
}

struct Needed<'a> {
    values: &'a Values,
    /// By the place of a kept value: whether it is needed.
    places: Vec<bool>,
}

impl Needed<'_> {
    fn add(&mut self, kind: Kind, word: u32) {
        let Some(place) = Values::place(kind, word) else { return };
        let is_new = !core::mem::replace(&mut self.places[place], true);
        if let Kind::Set(scalar) = kind
            && is_new
        {
            let members = self.values.members(word);
            members.for_each(|word| self.add(Kind::One(scalar), word));
        }
    }
}

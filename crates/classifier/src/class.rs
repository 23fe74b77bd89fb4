//! Sets of which something is a member, as one number.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// A set of addresses, a group of ports, a service: whatever a rule can name. Whoever makes the
/// rules numbers them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetId(pub u32);

/// A class: the exact set of sets that something is in. A number is never used again for another,
/// so whatever is remembered by it stays true.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClassId(u64);

impl ClassId {
    /// Of what is in no set.
    pub const NONE: Self = Self(0);

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A class and its sets, in ascending order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Class<'a> {
    /// Its number.
    pub id: ClassId,
    /// Its sets.
    pub sets: &'a [SetId],
}

/// Gives each set of sets its number, for as long as somebody holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    ids: BTreeMap<Arc<[SetId]>, ClassId>,
    held: BTreeMap<ClassId, Held>,
    last: u64,
}

#[derive(Clone, Debug)]
struct Held {
    sets: Arc<[SetId]>,
    by: u32,
}

impl Interner {
    /// The number of sets in ascending order, which is held once more.
    pub(crate) fn hold(&mut self, sets: &[SetId]) -> ClassId {
        debug_assert!(sets.is_sorted_by(|one, next| one < next));
        if sets.is_empty() {
            return ClassId::NONE;
        }
        if let Some(id) = self.ids.get(sets).copied() {
            self.again(id);
            return id;
        }
        self.last += 1;
        let id = ClassId(self.last);
        let sets: Arc<[SetId]> = sets.into();
        self.ids.insert(sets.clone(), id);
        self.held.insert(id, Held { sets, by: 1 });
        id
    }

    /// Holds a number that somebody holds already.
    pub(crate) fn again(&mut self, id: ClassId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.by += 1;
        }
    }

    /// Gives one hold back. With the last its number is gone for ever.
    pub(crate) fn release(&mut self, id: ClassId) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.by -= 1;
        if held.by == 0 {
            let sets = held.sets.clone();
            self.held.remove(&id);
            self.ids.remove(&sets);
        }
    }

    /// The sets of a number. None of one that nobody holds.
    pub(crate) fn class(&self, id: ClassId) -> Class<'_> {
        match self.held.get(&id) {
            Some(held) => Class { id, sets: &held.sets },
            None => Class::default(),
        }
    }

    /// How many numbers are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

//! Of which sets an address is a member, as one number: its class.
//!
//! ```text
//! web:   10.0.0.0/24           10.0.0.7 is in {web, slow}
//! slow:  10.0.0.4-10.0.0.7     10.0.0.9 is in {web}
//! ```
//!
//! A member is an entry of a trie (a range: one for each of the prefixes that make it up). Each
//! entry keeps the class of the addresses for which it is the longest, so a lookup is one walk. A
//! change touches the entries within the member, and the classes of no other address.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::block::{Block, Key};
use crate::class::{Class, ClassId, Interner, SetId};
use crate::prefixes::Prefixes;

/// The sets of IPv4 and IPv6 addresses.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    v4: Prefixes<u32, Entry>,
    v6: Prefixes<u128, Entry>,
    interner: Interner,
}

/// What is known of a prefix.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The sets that have exactly this prefix, and how often: ranges of one set may overlap.
    own: Vec<(SetId, u32)>,
    /// The class of its addresses that have no longer prefix.
    class: ClassId,
}

impl Entry {
    fn place(&self, set: SetId) -> Result<usize, usize> {
        self.own.binary_search_by_key(&set, |(set, _)| *set)
    }
}

/// Addresses of one family, from the first to the last of them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Member {
    /// IPv4 addresses.
    V4(u32, u32),
    /// IPv6 addresses.
    V6(u128, u128),
}

impl Member {
    /// From one address to another. `None` if they are of two families, or in the wrong order.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
                Some(Self::V4(first.to_bits(), last.to_bits()))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
                Some(Self::V6(first.to_bits(), last.to_bits()))
            }
            _ => None,
        }
    }
}

/// The class of an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClassOf<'a> {
    /// The class.
    pub class: Class<'a>,
    /// All addresses that agree in so many leading bits are of this class.
    pub bits: u8,
}

impl Classes {
    /// Makes addresses members of a set. `left` is told of each class that addresses were in and
    /// are no longer in: what was decided of it may not be true of them.
    ///
    /// A member that is added twice is there until it is removed twice.
    pub fn add(&mut self, set: SetId, member: Member, left: impl FnMut(ClassId)) {
        let mut change = Change { set, interner: &mut self.interner, left };
        match member {
            Member::V4(first, last) => {
                Block::cover(first, last).for_each(|block| change.add(&mut self.v4, block));
            }
            Member::V6(first, last) => {
                Block::cover(first, last).for_each(|block| change.add(&mut self.v6, block));
            }
        }
    }

    /// Takes a member out of a set again, exactly as it was added. Returns whether it was there; if
    /// not, nothing has changed.
    pub fn remove(&mut self, set: SetId, member: Member, left: impl FnMut(ClassId)) -> bool {
        let mut change = Change { set, interner: &mut self.interner, left };
        match member {
            Member::V4(first, last) => {
                let mut blocks = Block::cover(first, last);
                let is_there = blocks.all(|block| is_there(&self.v4, set, block));
                if is_there {
                    let blocks = Block::cover(first, last);
                    blocks.for_each(|block| change.remove(&mut self.v4, block));
                }
                is_there
            }
            Member::V6(first, last) => {
                let mut blocks = Block::cover(first, last);
                let is_there = blocks.all(|block| is_there(&self.v6, set, block));
                if is_there {
                    let blocks = Block::cover(first, last);
                    blocks.for_each(|block| change.remove(&mut self.v6, block));
                }
                is_there
            }
        }
    }

    /// The class of an address.
    pub fn class_of(&self, address: IpAddr) -> ClassOf<'_> {
        match address {
            IpAddr::V4(address) => self.class_of_v4(address.to_bits()),
            IpAddr::V6(address) => self.class_of_v6(address.to_bits()),
        }
    }

    /// The class of an IPv4 address.
    pub fn class_of_v4(&self, address: u32) -> ClassOf<'_> {
        self.found(self.v4.lookup(address))
    }

    /// The class of an IPv6 address.
    pub fn class_of_v6(&self, address: u128) -> ClassOf<'_> {
        self.found(self.v6.lookup(address))
    }

    fn found(&self, found: crate::prefixes::Found<&Entry>) -> ClassOf<'_> {
        let class = found.longest.map_or(ClassId::NONE, |(_, entry)| entry.class);
        ClassOf { class: self.interner.class(class), bits: found.bits }
    }

    /// The class of whatever is in exactly these sets, in any order: of a port and its groups, for
    /// instance. It is held until it is [released](Self::release).
    pub fn hold(&mut self, sets: &[SetId]) -> ClassId {
        let mut sets = Vec::from(sets);
        sets.sort_unstable();
        sets.dedup();
        self.interner.hold(&sets)
    }

    /// Gives a class that is held back.
    pub fn release(&mut self, id: ClassId) {
        self.interner.release(id);
    }

    /// A class and its sets. No sets if nothing is of that class.
    pub fn class(&self, id: ClassId) -> Class<'_> {
        self.interner.class(id)
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.interner.len()
    }

    /// Whether there is none but that of what is in no set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many prefixes are kept.
    pub fn entries(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

fn is_there<K: Key>(trie: &Prefixes<K, Entry>, set: SetId, block: Block<K>) -> bool {
    trie.get(block).is_some_and(|entry| entry.place(set).is_ok())
}

/// A change of one set.
struct Change<'a, F> {
    set: SetId,
    interner: &'a mut Interner,
    left: F,
}

impl<F: FnMut(ClassId)> Change<'_, F> {
    fn add<K: Key>(&mut self, trie: &mut Prefixes<K, Entry>, block: Block<K>) {
        if trie.get(block).is_none() {
            let class = trie.above(block).map_or(ClassId::NONE, |above| above.class);
            self.interner.again(class);
            trie.insert(block, Entry { own: Vec::new(), class });
        }
        let entry = trie.get_mut(block).expect("it was just made");
        match entry.place(self.set) {
            Ok(place) => entry.own[place].1 += 1,
            Err(place) => {
                entry.own.insert(place, (self.set, 1));
                self.reclass(trie, block, true);
            }
        }
    }

    fn remove<K: Key>(&mut self, trie: &mut Prefixes<K, Entry>, block: Block<K>) {
        let Some(entry) = trie.get_mut(block) else { return };
        let Ok(place) = entry.place(self.set) else { return };
        entry.own[place].1 -= 1;
        if entry.own[place].1 > 0 {
            return;
        }
        entry.own.remove(place);
        let is_empty = entry.own.is_empty();
        let above = trie.above(block).map_or(ClassId::NONE, |above| above.class);
        if self.interner.class(above).sets.binary_search(&self.set).is_err() {
            self.reclass(trie, block, false);
        }
        if is_empty && let Some(gone) = trie.remove(block) {
            self.interner.release(gone.class);
        }
    }

    /// Has the classes within a prefix include the set, or not, up to those prefixes in it that
    /// have it of their own.
    fn reclass<K: Key>(&mut self, trie: &mut Prefixes<K, Entry>, block: Block<K>, is_in: bool) {
        // Many entries of few classes: each class is changed once.
        let mut changed: BTreeMap<ClassId, ClassId> = BTreeMap::new();
        let Self { set, interner, left } = self;
        let mut is_first = true;
        trie.update(block, |entry| {
            let has_own = !core::mem::take(&mut is_first) && entry.place(*set).is_ok();
            let old = entry.class;
            let sets = interner.class(old).sets;
            let place = sets.binary_search(set);
            if has_own || place.is_ok() == is_in {
                return false;
            }
            entry.class = match changed.get(&old) {
                Some(new) => {
                    interner.again(*new);
                    *new
                }
                None => {
                    let mut sets = Vec::from(sets);
                    match place {
                        Ok(place) => drop(sets.remove(place)),
                        Err(place) => sets.insert(place, *set),
                    }
                    let new = interner.hold(&sets);
                    changed.insert(old, new);
                    left(old);
                    new
                }
            };
            interner.release(old);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SETS: u32 = 6;

    fn member() -> impl Strategy<Value = Member> {
        let narrow =
            (0_u32..64, 0_u32..4).prop_map(|(first, more)| Member::V4(first, first + more));
        let wide = (any::<u32>(), any::<u32>()).prop_map(|(a, b)| Member::V4(a.min(b), a.max(b)));
        let v6 = (0_u128..64, 0_u128..64).prop_map(|(a, b)| Member::V6(a.min(b), a.max(b)));
        prop_oneof![4 => narrow, 1 => wide, 1 => v6, 1 => Just(Member::V4(0, u32::MAX))]
    }

    fn contains(member: Member, address: u32) -> (bool, bool) {
        match member {
            Member::V4(first, last) => (first <= address && address <= last, false),
            Member::V6(first, last) => {
                let address = u128::from(address);
                (false, first <= address && address <= last)
            }
        }
    }

    proptest! {
        #[test]
        fn a_class_is_exactly_the_sets_of_an_address(
            changes in prop::collection::vec((0..SETS, member(), 0_usize..100), 1..40),
            others in prop::collection::vec(any::<u32>(), 10),
        ) {
            let mut classes = Classes::default();
            let mut all: Vec<(SetId, Member)> = Vec::new();
            let addresses: Vec<u32> = (0..70).chain(others).collect();
            for (set, member, which) in changes {
                let before: Vec<_> =
                    addresses.iter().map(|it| classes.class_of_v4(*it).class.id).collect();
                let mut left = BTreeSet::new();
                match which {
                    // What is there is removed; what is not is refused.
                    0..40 if !all.is_empty() => {
                        let (set, member) = all.swap_remove(which % all.len());
                        let removed = classes.remove(set, member, |it| left.extend([it]));
                        prop_assert!(removed);
                    }
                    _ => {
                        classes.add(SetId(set), member, |it| left.extend([it]));
                        all.push((SetId(set), member));
                    }
                }
                let was_there = classes.remove(SetId(SETS), member, |_| {});
                prop_assert!(!was_there);
                for (address, before) in addresses.iter().zip(before) {
                    let (v4, v6) = (
                        classes.class_of_v4(*address),
                        classes.class_of_v6(u128::from(*address)),
                    );
                    let sets = |is: fn((bool, bool)) -> bool| -> Vec<SetId> {
                        let mine = all.iter().filter(|(_, it)| is(contains(*it, *address)));
                        let mine: BTreeSet<SetId> = mine.map(|(set, _)| *set).collect();
                        mine.into_iter().collect()
                    };
                    prop_assert_eq!(v4.class.sets, &sets(|it| it.0)[..]);
                    prop_assert_eq!(v6.class.sets, &sets(|it| it.1)[..]);
                    // Who is of another class now has left one that was told.
                    prop_assert!(v4.class.id == before || left.contains(&before));
                    for other in &addresses {
                        if Block::new(*address, v4.bits).unwrap().contains(*other) {
                            prop_assert_eq!(classes.class_of_v4(*other).class, v4.class);
                        }
                    }
                }
            }
            for (set, member) in all {
                let was_there = classes.remove(set, member, |_| {});
                prop_assert!(was_there);
            }
            prop_assert_eq!((classes.len(), classes.entries()), (0, 0));
        }
    }

    #[test]
    fn a_hundred_sets_of_many_members_take_an_entry_a_member() {
        let mut classes = Classes::default();
        for address in 0..10_000 {
            classes.add(SetId(address % 100), Member::V4(address * 7, address * 7), |_| {});
        }
        assert_eq!((classes.len(), classes.entries()), (100, 10_000));
        let (mut left, before) = (Vec::new(), classes.class_of_v4(70).class.id);
        classes.add(SetId(3), Member::V4(7, 7), |it| left.push(it));
        assert_eq!(left, [classes.class_of_v4(707).class.id]);
        assert_eq!(classes.class_of_v4(7).class.sets, [SetId(1), SetId(3)]);
        assert_eq!(classes.class_of_v4(70).class.id, before);
    }

    #[test]
    fn a_port_and_an_address_in_the_same_sets_are_of_one_class() {
        let mut classes = Classes::default();
        let id = classes.hold(&[SetId(2), SetId(1), SetId(2)]);
        classes.add(SetId(1), Member::V6(0, u128::MAX), |_| {});
        classes.add(SetId(2), Member::V6(5, 5), |_| {});
        assert_eq!(classes.class_of_v6(5).class.id, id);
        classes.release(id);
        assert_eq!(classes.class(id).sets, [SetId(1), SetId(2)]);
        assert!(classes.remove(SetId(2), Member::V6(5, 5), |_| {}));
        assert_eq!(classes.class(id), Class::default());
    }
}

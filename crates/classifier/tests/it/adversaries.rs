//! What strangers can make a switch remember.

use classifier::block::Block;
use classifier::cells::{Cells, Depends};
use classifier::class::SetId;
use classifier::classes::{Classes, Member};
use classifier::megaflows::Megaflows;
use classifier::prefixes::Prefixes;

use crate::world::KEY;

/// A trie with a prefix of each length makes a mask of each length, for the source and for the
/// destination: the worst that two addresses can do.
#[test]
fn a_tuple_space_explosion_meets_bounds() {
    let mut prefixes = Prefixes::default();
    for len in 1..=32 {
        prefixes.insert(Block::new(1_u32 << (32 - len), len).unwrap(), len);
    }
    let cells = Cells::default();
    let mut flows = Megaflows::new(32, 4096, KEY);
    let bits = |address| u64::from(u32::MAX.checked_shl(32 - u32::from(address)).unwrap_or(0));
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..20 {
        for source in 0..32_u32 {
            for destination in 0..32_u32 {
                let (one, other) = (1 << source, 1 << destination);
                let mask = [one, other].map(|it| bits(prefixes.lookup(it).bits));
                seen.insert(mask);
                let key = [u64::from(one), u64::from(other)];
                if flows.find(&cells, &key).is_none() {
                    flows.insert(&cells, &key, &mask, round, Depends::now(&cells));
                }
                assert!(flows.masks() <= 32 && flows.len() <= 4096);
            }
        }
    }
    assert!(seen.len() > 900, "there was an explosion of {} masks", seen.len());
}

/// Members of many sets take memory as there are members, and not as there are combinations.
#[test]
fn nested_and_overlapping_members_do_not_multiply() {
    let mut classes = Classes::default();
    for set in 0..100_u32 {
        // Each is within the one before.
        let (first, last) = (set * 1000, 1_000_000 - set * 1000);
        classes.add(SetId(set), Member::V4(first, last), |_| {});
    }
    assert!(classes.entries() <= 100 * 40 && classes.len() <= 200);
    for set in 0..100_u32 {
        let (first, last) = (set * 1000, 1_000_000 - set * 1000);
        assert!(classes.remove(SetId(set), Member::V4(first, last), |_| {}));
    }
    assert_eq!((classes.entries(), classes.len()), (0, 0));
}

//! What strangers can make a switch remember.

use classifier::class::SetId;
use classifier::classes::{Classes, Member};

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

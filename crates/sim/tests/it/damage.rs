//! The fuzzer's attack on a sweep's folder, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/store.rs"]
mod attack;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_damaged_folder_is_read_or_refused(
        which in 0u8..4,
        at in any::<[u8; 2]>(),
        how in 0u8..3,
        bytes in prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 0..200)],
    ) {
        attack::damage(&[&[which, at[0], at[1], how], &bytes[..]].concat());
    }
}

#[test]
fn a_column_that_begins_before_its_file_is_refused() {
    attack::damage(&[2, 192, 249, 2, 103]);
}

//! The fuzzer's attacks, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/seal.rs"]
mod attacks;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_channel_survives_any_packets(bytes in vec(any::<u8>(), 0..200)) {
        attacks::attack(&bytes);
    }
}

//! The fuzzer's attack, fed from a property test.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../../fuzz/src/virtio_rings.rs"]
mod virtio_rings;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_card_survives_any_guest(bytes in vec(any::<u8>(), 0..2_000)) {
        virtio_rings::attack(&bytes);
    }
}

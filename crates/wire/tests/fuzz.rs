//! The fuzzers' attacks, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../fuzz/src/lib.rs"]
mod attacks;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn parse_survives_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        attacks::parse(&bytes);
    }

    #[test]
    fn parse_survives_almost_frames(
        ethertype in prop_oneof![Just([8, 0]), Just([0x86, 0xdd]), Just([0x81, 0]), Just([0x88, 0xa8])],
        first in prop_oneof![Just(0x45), Just(0x46), Just(0x60), any::<u8>()],
        bytes in vec(prop_oneof![any::<u8>(), Just(0), Just(44), Just(60)], 0..200),
    ) {
        attacks::parse(&[&[2; 12], &ethertype[..], &[first], &bytes].concat());
    }

    #[test]
    fn parse_survives_almost_messages_of_guests(kind in 0u8..5, bytes in vec(any::<u8>(), 0..200)) {
        let head = [&wire::room::DESTINATION.0[..], &[2; 6], &[0x88, 0xb5], b"zovn", &[1, kind]].concat();
        attacks::parse(&[&head, &bytes[..]].concat());
        // As few groups or ports as may well be there.
        let rest = [&head, &[0; 36][..], &[0, bytes.len() as u8 % 5, 0, 0], &bytes].concat();
        attacks::parse(&rest);
    }

    #[test]
    fn offload_survives_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        attacks::offload(&bytes);
    }

    #[test]
    fn segment_survives_damaged_frames(bytes in vec(any::<u8>(), 0..3_000)) {
        attacks::segment(&bytes);
    }
}

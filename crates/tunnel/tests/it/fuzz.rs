//! The fuzzers' attacks, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/outer.rs"]
mod attacks;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn parse_survives_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        attacks::parse(&bytes);
    }

    #[test]
    fn parse_survives_almost_packets(
        is_v6: bool, options in 0_u8..6, control in prop::sample::select(vec![0, 0x80]),
        class in any::<u8>(), bytes in vec(any::<u8>(), 0..100),
    ) {
        let ip = [8, 0, 0x45, class, 0, bytes.len() as u8 + 20, 0, 0, 0, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let frame = [&[2; 12], &ip[..], &bytes].concat();
        let geneve = [options, control, 0x65, 0x58, 0, 0, 7, 0];
        for (kind, shim) in [(0, &[0x20, 0, 0x65, 0x58, 0, 0, 7, 0][..]), (1, &[0; 18]), (2, &geneve), (3, &[8, 0, 0, 0, 0, 0, 7, 0])] {
            attacks::parse(&[&[kind << 1 | u8::from(is_v6)], shim, &frame].concat());
        }
        let data = [&[0xff, 0x5a, 0x82, 6, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0; 15], &[class]].concat();
        let report = [0xff, 0x5a, 0x83, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, class, 0, 0, 0, 7];
        for (words, report) in [(7, &[][..]), (12, &report)] {
            let geneve = [words, 0x40, 0x65, 0x58, 0, 0, 7, 0];
            attacks::parse(&[&[2 << 1 | u8::from(is_v6)], &geneve[..], &data[..], report, &frame].concat());
        }
    }
}

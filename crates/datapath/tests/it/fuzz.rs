//! The fuzzer's attack, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/answer.rs"]
mod attacks;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn answers_survive_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        attacks::attack(&bytes);
    }

    #[test]
    fn answers_survive_almost_questions(
        to in prop_oneof![Just([2; 6]), Just([0xff; 6]), Just([0x33; 6])],
        mtu in prop_oneof![Just([0, 0]), Just([4, 188]), any::<[u8; 2]>()],
        protocol in prop_oneof![Just(1), Just(6), Just(17), Just(58)],
        flags in prop_oneof![Just(0x40), any::<u8>()],
        bytes in vec(prop_oneof![Just(2), any::<u8>()], 40..2_000),
    ) {
        let header = [&mtu[..], &[0; 12], &to, &[2, 0, 0, 0, 0, 1]].concat();
        attacks::attack(&[&header[..], &[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1], &bytes].concat());
        // Packets as long as they say, between machines of the network.
        let v4 = [&[0x45, 0][..], &(20 + bytes.len() as u16).to_be_bytes(), &[0, 0, flags, 0, 64, protocol, 0, 0]];
        let addresses = [10, 0, 0, 1, 2, 2, 2, 2];
        attacks::attack(&[&header[..], &[8, 0], &v4.concat(), &addresses, &bytes].concat());
        let v6 = [&[0x60, 0, 0, 0][..], &(bytes.len() as u16).to_be_bytes(), &[protocol, 255], &[0xfd; 16], &[2; 16]];
        let v6 = [&header[..], &[0x86, 0xdd], &v6.concat()].concat();
        attacks::attack(&[&v6[..], &bytes].concat());
        // A question for a machine's address, with what may be options.
        attacks::attack(&[&v6[..], &[135, 0, 0, 0, 0, 0, 0, 0], &[2; 16], &[1, 1, 2, 0, 0, 0, 0, 1], &bytes[32..]].concat());
    }
}

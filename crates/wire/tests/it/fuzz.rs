//! The fuzzers' attacks, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/lib.rs"]
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
        let head = [&wire::room::DESTINATION.0[..], &[2; 6], &[0x88, 0xb5], b"zovn", &[wire::room::VERSION, kind]].concat();
        attacks::parse(&[&head, &bytes[..]].concat());
        // As few groups or ports as may well be there.
        let rest = [&head, &[0; 36][..], &[0, bytes.len() as u8 % 5, 0, 0], &bytes].concat();
        attacks::parse(&rest);
    }

    #[test]
    fn parse_survives_almost_packets_of_tunnels(
        geneve in 0u8..64, gre in any::<u16>(), bfd in 20u8..40, bytes in vec(any::<u8>(), 0..200),
    ) {
        attacks::parse(&[&[geneve, 0x40, 0x65, 0x58], &bytes[..]].concat());
        attacks::parse(&[&(gre & 0xb0f0).to_be_bytes()[..], &[0x65, 0x58], &bytes].concat());
        attacks::parse(&[&[0x20, 0x44, 3, bfd, 0, 0, 0, 1][..], &bytes].concat());
    }

    #[test]
    fn answers_survive_almost_questions(
        kind in 133u8..138, protocol in prop_oneof![Just(1), Just(6), Just(17), Just(58)],
        bytes in vec(any::<u8>(), 40..2_000),
    ) {
        let addresses = [&[2; 12], &[8, 6][..]].concat();
        attacks::parse(&[&addresses[..], &[0, 1, 8, 0, 6, 4, 0, 1], &bytes].concat());
        // IPv4 that must not be fragmented, and IPv6, each as long as it says.
        let len = (bytes.len() as u16).to_be_bytes();
        let v4 = [&[0x45, 0][..], &(20 + bytes.len() as u16 - 8).to_be_bytes(), &[0, 0, 0x40, 0, 64, protocol, 0, 0]];
        attacks::parse(&[&[2; 12], &[8, 0][..], &v4.concat(), &bytes].concat());
        let v6 = [&[0x60, 0, 0, 0][..], &len, &[protocol, 255], &[0xfd; 32], &[kind, 0]];
        attacks::parse(&[&[2; 12], &[0x86, 0xdd][..], &v6.concat(), &bytes].concat());
    }

    #[test]
    fn reassembly_survives_any_order(bytes in vec(any::<u8>(), 0..2_000)) {
        attacks::reassemble(&bytes);
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

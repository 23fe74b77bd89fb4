//! The fuzzers' attacks, fed from property tests.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../../../fuzz/src/vhost_message.rs"]
mod vhost_message;
#[path = "../../../../../fuzz/src/vhost_session.rs"]
mod vhost_session;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_message_survives_any_bytes(
        fds in 0..9_u8,
        request in 0..45_u32,
        flags in prop_oneof![Just(1_u32), Just(5), Just(9)],
        payload in vec(any::<u8>(), 0..300),
    ) {
        let header = [request, flags, payload.len() as u32].map(u32::to_ne_bytes).concat();
        vhost_message::attack(&[&[fds], &header[..], &payload].concat());
    }

    #[test]
    fn a_session_survives_any_front_end(bytes in vec(any::<u8>(), 0..600)) {
        vhost_session::attack(&bytes);
    }
}

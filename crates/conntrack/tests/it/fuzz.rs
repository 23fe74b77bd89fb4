//! What the fuzz target does, from property tests: so that it holds where there is no fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/src/connections.rs"]
mod connections;

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        connections::attack(&bytes);
    }

    #[test]
    fn nor_do_bytes_that_are_nearly_frames(
        heads in prop::collection::vec(0..6_usize, 1..8),
        bytes in prop::collection::vec(any::<u8>(), 400),
        flips in prop::collection::vec((0..400_usize, any::<u8>()), 0..12),
    ) {
        let mut all = bytes;
        for (at, head) in heads.into_iter().enumerate() {
            let frame = connections::FRAMES[head];
            let place = at * 48;
            all[place] = 47;
            all[place + 1..place + 1 + frame.len().min(47)].copy_from_slice(&frame[..frame.len().min(47)]);
        }
        for (at, by) in flips {
            all[at] ^= by;
        }
        connections::attack(&all);
    }
}

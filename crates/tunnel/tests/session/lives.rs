//! An end that begins anew, and who is believed to be one.

use super::*;

#[test]
fn what_is_taken_of_an_earlier_life_is_no_credit_of_a_later_one() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, false);
    // The sender begins anew, and sends a frame with the same place.
    ends[0] = Session::new(ms(2), config(), life(5));
    (2..5).for_each(|now| talk(ms(now), &mut ends));
    carry(ms(5), &mut ends, 1, 100, false);
    for (from, kept) in [(life(1), 1), (life(5), 0)] {
        ends[1].took(stream(1), from, 0);
        (6..9).for_each(|now| talk(ms(now), &mut ends));
        assert_eq!(ends[0].kept(), kept, "after {from:?}'s was taken");
    }
}

#[test]
fn a_frame_that_is_taken_twice_counts_once() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, true);
    carry(ms(1), &mut ends, 1, 100, false);
    ends[1].took(stream(1), life(1), 0);
    talk(ms(1), &mut ends);
    assert_eq!(ends[0].kept(), 1);
}

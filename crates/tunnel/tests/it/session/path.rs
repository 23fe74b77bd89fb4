//! A session changes to another path when its path was cut.

use super::*;

/// Lets an end send everything into a cut path. Returns the number of frames among it.
fn send_into_cut(now: Instant, end: &mut End) -> usize {
    end.handle_timeout(now, |_| panic!());
    let mut frames = 0;
    while end.retransmit(now).is_some() {
        frames += 1;
    }
    while end.poll_transmit(now).is_some() {}
    frames
}

proptest! {
    #[test]
    fn frames_lost_in_a_cut_are_sent_at_once_on_another_path(streams in 1u32..5, frames in 1u32..8, cut in 2u64..2000) {
        let mut ends = pair(ms(1), config());
        for label in 0..streams {
            for frame in 0..frames {
                prop_assert_eq!(ends[0].admit(LANE, stream(label), bytes(300), false), Admission::Go);
                ends[0].send(ms(1), stream(label), bytes(300), label * 100 + frame);
            }
        }
        let probes: usize = (2..cut).map(|now| send_into_cut(ms(now), &mut ends[0])).sum();
        prop_assert!(probes <= 20, "{} probes", probes);
        ends[0].change_path(ms(cut));
        prop_assert_eq!(ends[0].path().in_flight, 0);
        let mut consumed = 0;
        // No time passes: the session waits neither for a timeout nor for the window.
        while let Some((frame, data)) = ends[0].retransmit(ms(cut)) {
            prop_assert!(frame.is_some());
            for (stream, epoch, offset) in arrive(ms(cut), &mut ends[1], &data) {
                consumed += 1;
                ends[1].consumed(stream, epoch, offset);
            }
        }
        prop_assert_eq!(consumed, streams * frames);
        talk(ms(cut), &mut ends);
        prop_assert_eq!((ends[0].outstanding(), ends[0].path().in_flight), (0, 0));
        prop_assert_eq!(ends[1].counters().duplicates, 0);
    }
}

#[test]
fn a_hello_lost_in_a_cut_is_sent_at_once_on_another_path() {
    let mut ends = [1, 2].map(|number| Session::new(ms(1), config(), Rng::new(number)));
    for now in (1..500).map(ms) {
        send_into_cut(now, &mut ends[0]);
    }
    ends[0].change_path(ms(500));
    talk(ms(500), &mut ends);
    assert!(ends.iter().all(Session::is_established));
    // An established session sends no HELLO.
    ends[0].change_path(ms(501));
    assert!(matches!(ends[0].poll_transmit(ms(501)), Some(Message::Report(_))));
}

#[test]
fn frames_delivered_before_the_cut_are_not_delivered_twice() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 1000, true);
    ends[0].change_path(ms(2));
    let (frame, data) = ends[0].retransmit(ms(2)).unwrap();
    assert!(frame.is_some());
    assert_eq!(arrive(ms(2), &mut ends[1], &data), []);
    talk(ms(2), &mut ends);
    assert_eq!((ends[0].outstanding(), ends[1].counters().duplicates), (0, 1));
    assert_eq!((ends[0].counters().lost, ends[0].retransmit(ms(2))), (1, None));
}

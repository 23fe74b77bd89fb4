//! A far end of which nothing is heard, and what is given up because of that.

use super::*;

/// An end says what it has to say, and nobody hears it.
fn mutter(now: Instant, end: &mut End) {
    end.handle_timeout(now, |_| panic!());
    while end.retransmit(now).is_some() {}
    while end.poll_transmit(now).is_some() {}
}

#[test]
fn silence_begins_when_an_answer_is_owed_and_ends_with_anything_heard() {
    let mut ends = pair(ms(1), config());
    mutter(ms(5), &mut ends[0]);
    assert_eq!(ends[0].unanswered_since(), None, "nothing is owed");
    // Once for a frame, and once for credit.
    for begin in [10, 5000] {
        match begin {
            10 => carry(ms(begin), &mut ends, 1, 100, false),
            _ => assert_eq!(
                ends[0].admit(LANE, stream(2), bytes(60_000), false),
                Admission::NoCredit
            ),
        }
        for now in (begin..begin + 3000).step_by(10) {
            mutter(ms(now), &mut ends[0]);
            assert_eq!(ends[0].unanswered_since(), Some(ms(begin)));
        }
        ends[0].handle_report(ms(begin + 3000), &report(), |_, _| panic!());
        assert_eq!(ends[0].unanswered_since(), None);
    }
    // One that hears us answers, whatever it has to say.
    let now = ms(9000);
    mutter(now, &mut ends[0]);
    assert_eq!(ends[0].unanswered_since(), Some(now));
    for now in (9001..9060).map(ms) {
        talk(now, &mut ends);
    }
    assert!(ends[0].unanswered_since().is_none_or(|since| since > now));
}

#[test]
fn who_refuses_a_stream_is_not_silent() {
    let mut ends = pair_of(ms(1), [config(), SessionConfig { max_streams: 0, ..config() }]);
    carry(ms(1), &mut ends, 1, 100, false);
    let mut longest = Span::ZERO;
    for now in (1..1000).map(ms) {
        talk(now, &mut ends);
        longest =
            longest.max(ends[0].unanswered_since().map_or(Span::ZERO, |since| now.since(since)));
    }
    assert!(longest <= Span::from_millis(51), "silent for {longest:?}");
}

#[test]
fn what_was_given_up_is_told_of_without_its_frames() {
    let mut ends = pair(ms(1), config());
    for label in [1, 2] {
        for frame in 0..3 {
            assert_eq!(ends[0].admit(LANE, stream(label), bytes(100), false), Admission::Go);
            ends[0].send(ms(1), stream(label), bytes(100), 10 * label + frame);
        }
    }
    let mut given_up = Vec::new();
    ends[0].abandon(Some(stream(1)), |frame| given_up.push(frame));
    assert_eq!(given_up, [10, 11, 12]);
    ends[0].abandon(None, |frame| given_up.push(frame));
    assert_eq!(given_up, [10, 11, 12, 20, 21, 22]);
    ends[0].abandon(None, |_| panic!("each comes back once"));
    assert_eq!(ends[0].outstanding(), 6);
    // The far end is heard again.
    let mut gaps = Vec::new();
    for now in (10..2000).map(ms) {
        ends[0].handle_timeout(now, |_| panic!());
        while let Some((frame, data)) = ends[0].retransmit(now) {
            assert_eq!(frame, None);
            ends[1]
                .handle_data(now, &data, false, Payload::Placeholder, |arrival| gaps.push(arrival));
        }
        talk(now, &mut ends);
    }
    assert!(gaps.len() == 6 && gaps.iter().all(|arrival| matches!(arrival, Arrival::Gap { .. })));
    assert_eq!((ends[0].outstanding(), ends[0].unanswered_since()), (0, None));
    carry(ms(2000), &mut ends, 1, 100, true);
}

/// What is in the fabric, and its repetitions, come late, at once or a while after the window has
/// collapsed: all, all but the first, or the last alone.
#[test]
fn who_stood_still_has_the_window_of_before_and_a_fabric_that_lost_something_has_not() {
    for (frames, later) in [(1, 0), (1, 300), (3, 0), (3, 300)] {
        for lost in ["nothing", "the first", "all but the last"] {
            let mut ends = wide();
            let before = ends[0].path().congestion_window;
            let send = |frame| {
                assert_eq!(ends[0].admit(LANE, stream(1), bytes(100), false), Admission::Go);
                ends[0].send(ms(2), stream(1), bytes(100), frame)
            };
            let mut underway: Vec<_> = (0..frames).map(send).collect();
            let (mut now, mut left) = (ms(2), later);
            while ends[0].path().congestion_window == before || left > 0 {
                left -= u64::from(ends[0].path().congestion_window < before);
                now += Span::from_millis(1);
                ends[0].handle_timeout(now, |_| panic!());
                underway
                    .extend(std::iter::from_fn(|| ends[0].retransmit(now)).map(|(_, data)| data));
            }
            assert!(underway.len() > 2);
            let come = match lost {
                "nothing" => &underway[..],
                "the first" => &underway[1..],
                _ => &underway[underway.len() - 1..],
            };
            come.iter().for_each(|data| {
                arrive(now, &mut ends[1], data);
            });
            talk(now, &mut ends);
            let after = ends[0].path().congestion_window;
            assert_eq!(
                after == before,
                lost == "nothing",
                "{lost} of {frames}, {later} later: {before}, {after}"
            );
        }
    }
}

//! A sender that repairs nothing: what is late is waited for, and what is lost for no longer than
//! that.

use super::*;

/// Two ends of which neither repairs, and what the first sends at 1 ms: frames of 100 bytes, and no
/// more has credit.
fn sent(frames: u32) -> ([End; 2], Vec<Data>) {
    let mut ends = pair(
        ms(1),
        SessionConfig { reliable: ClassSet::NONE, unsolicited: 100 * frames, ..config() },
    );
    let data = (0..frames).map(|_| {
        assert_eq!(ends[0].admit(LANE, stream(1), bytes(100), false), Admission::Go);
        ends[0].send(ms(1), stream(1), bytes(100), 0)
    });
    let data = data.collect();
    (ends, data)
}

/// Where the frames begin that an end hands on when time has come for that.
fn overdue(now: Instant, end: &mut End) -> Vec<u64> {
    let mut delivered = Vec::new();
    end.handle_timeout(now, |arrival| {
        if let Arrival::Deliver { offset, .. } = arrival {
            delivered.push(offset);
        }
    });
    delivered
}

#[test]
fn a_question_may_overtake_what_was_sent_before_it() {
    let (mut ends, data) = sent(30);
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(100), false), Admission::NoCredit);
    (1..9).for_each(|now| talk(ms(now), &mut ends));
    let delivered = data.iter().map(|data| arrive(ms(9), &mut ends[1], data).len());
    assert_eq!(delivered.sum::<usize>(), 30);
    assert_eq!(ends[1].counters().unrecovered, 0);
}

#[test]
fn a_stream_whose_last_frames_are_lost_goes_on() {
    // As many as may wait at the receiver.
    let (mut ends, data) = sent(1000);
    assert_eq!(arrive(ms(1), &mut ends[1], &data[0]).len(), 1);
    let epoch = ends[1].epoch();
    ends[1].consumed(stream(1), epoch, 0);
    let (mut now, mut gaps) = (ms(1), Vec::new());
    talk(now, &mut ends);
    while ends[0].admit(LANE, stream(1), bytes(1000), false) != Admission::Go {
        now += Span::from_millis(1);
        for end in &mut ends {
            end.handle_timeout(now, |arrival| gaps.push(arrival));
        }
        talk(now, &mut ends);
        assert!(now < ms(100), "it stands still");
    }
    assert_eq!(gaps, [Arrival::Gap { stream: stream(1) }]);
    assert_eq!(ends[1].counters().unrecovered, 99_900);
}

#[test]
fn what_is_behind_a_lost_frame_waits_for_a_while() {
    let (mut ends, data) = sent(6);
    for place in [2, 4, 5] {
        assert!(arrive(ms(1), &mut ends[1], &data[place]).is_empty());
    }
    // 0 is late, 1 and 3 are lost.
    assert_eq!(arrive(ms(2), &mut ends[1], &data[0]).len(), 1);
    talk(ms(2), &mut ends);
    let due = ends[1].deadline().unwrap();
    assert!(overdue(ms(10), &mut ends[1]).is_empty());
    // What was known to be sent at first is waited for no longer; the rest is, from now on.
    assert_eq!(overdue(due, &mut ends[1]), [200]);
    let due = ends[1].deadline().unwrap();
    assert_eq!(overdue(due, &mut ends[1]), [400, 500]);
    assert_eq!((ends[1].counters().unrecovered, ends[1].deadline()), (200, None));
    // Whoever comes now comes too late.
    assert!(arrive(due, &mut ends[1], &data[1]).is_empty());
    assert_eq!(ends[1].counters().duplicates, 1);
}

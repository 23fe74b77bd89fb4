//! An end that begins anew, and who is believed to be one.

use tunnel::message::OLDEST;
use tunnel::{Hello, Unsolicited};

use super::*;

pub fn hello(from: u64, to: Option<u64>) -> Hello {
    let unsolicited = Unsolicited { bytes: 3000, unlimited: ClassSet::NONE };
    Hello {
        from: incarnation(from),
        to: to.map(incarnation),
        versions: [VERSION; 2],
        reliable: ClassSet::ALL,
        unsolicited,
    }
}

/// The HELLOs that an end sends now: from which incarnation to which.
fn hellos(end: &mut End, now: Instant) -> Vec<(Incarnation, Incarnation)> {
    let said = core::iter::from_fn(|| end.poll_transmit(now));
    let hellos = said.filter_map(|message| match message {
        Message::Hello(Hello { from, to, .. }) => Some((from, to?)),
        _ => None,
    });
    hellos.collect()
}

#[test]
fn who_has_not_heard_us_ends_no_session() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, false);
    let [me, peer, other] = [1, 2, 9].map(incarnation);
    // Whoever it is may show that it has received this.
    let mut next = me;
    for (at, to) in [(2, None), (4, Some(1)), (6, None)] {
        ends[0].handle_hello(ms(at), &hello(9, to), |_| panic!());
        let said = hellos(&mut ends[0], ms(at));
        assert!(matches!(said[..], [(from, to)] if from != me && to == other), "{said:?}");
        next = said[0].0;
    }
    // It speaks to somebody else.
    ends[0].handle_hello(ms(7), &hello(9, Some(7)), |_| panic!());
    assert_eq!(hellos(&mut ends[0], ms(7)), [(me, peer)]);
    carry(ms(8), &mut ends, 1, 100, false);
    assert_eq!((ends[0].counters().resets, ends[0].outstanding()), (0, 2));
    let epoch = ends[1].epoch();
    [0, 100].into_iter().for_each(|offset| ends[1].consumed(stream(1), epoch, offset));
    talk(ms(9), &mut ends);
    assert_eq!(ends[0].outstanding(), 0);
    // Who names the next incarnation was told it. Then it is the next no more.
    let shows_itself = |from| Hello { to: Some(next), ..hello(from, None) };
    ends[0].handle_hello(ms(10), &shows_itself(9), |_| ());
    assert_eq!((ends[0].counters().resets, ends[0].incarnation()), (1, next));
    ends[0].handle_hello(ms(11), &shows_itself(10), |_| panic!());
    assert_eq!(ends[0].counters().resets, 1);
}

/// Two ends that know each other do not meet anew, whatever is forged by somebody who sees nothing
/// of what they say.
#[test]
fn forged_hellos_make_no_two_ends_meet_anew() {
    let mut ends = pair(ms(1), config());
    for at in 2..200 {
        for (place, from) in [(0, 2), (1, 1), (0, at), (1, at), (0, 1), (1, 2)] {
            for to in [None, Some(at), Some(7)] {
                ends[place].handle_hello(ms(at), &hello(from, to), |_| panic!());
            }
        }
        talk(ms(at), &mut ends);
    }
    assert_eq!(ends.each_ref().map(|end| end.counters().resets), [0, 0]);
    carry(ms(200), &mut ends, 1, 100, true);
}

#[test]
fn a_stray_hello_before_the_first_locks_nobody_out() {
    let mut ends = [1, 2].map(|number| Session::new(ms(1), config(), Rng::new(number)));
    ends.iter_mut().for_each(|end| end.handle_hello(ms(1), &hello(1 << 30, None), |_| panic!()));
    (1..4).for_each(|now| talk(ms(now), &mut ends));
    carry(ms(4), &mut ends, 1, 100, true);
}

#[test]
fn who_begins_anew_is_met_within_two_round_trips() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, false);
    ends[0] = Session::new(ms(100), config(), Rng::new(5));
    for trip in 0..4 {
        let now = ms(100) + Span::from_micros(10 * trip);
        let said = ends
            .each_mut()
            .map(|end| core::iter::from_fn(|| end.poll_transmit(now)).collect::<Vec<_>>());
        said[0].iter().for_each(|message| hear(now, &mut ends[1], message));
        said[1].iter().for_each(|message| hear(now, &mut ends[0], message));
    }
    // 5 is to ask first.
    let admitted = ends.each_mut().map(|end| end.admit(LANE, stream(1), bytes(100), false));
    assert_eq!(admitted, [Admission::NoCredit, Admission::Go]);
}

#[test]
fn nobody_sends_before_it_is_known() {
    let mut end: End = Session::new(ms(1), config(), Rng::new(1));
    end.handle_hello(ms(1), &hello(2, Some(1)), |_| panic!());
    assert_eq!(
        end.admit(LANE, stream(1), bytes(100), false),
        Admission::NoSession,
        "2 may not have heard of 1"
    );
    end.handle_report(ms(1), &report(), |_, _| panic!());
    assert_eq!(end.admit(LANE, stream(1), bytes(100), false), Admission::Go);
}

#[test]
fn who_is_alone_speaks_ever_less_often_until_somebody_else_does() {
    let mut end: End = Session::new(ms(1), config(), Rng::new(1));
    let mut pauses = Vec::new();
    let mut now = ms(1);
    for _ in 0..9 {
        while end.poll_transmit(now).is_some() {}
        let next = end.deadline().unwrap();
        pauses.push(next.since(now).as_nanos() / 1_000_000);
        now = next;
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    let heard = now + Span::from_millis(100);
    while end.poll_transmit(now).is_some() {}
    end.handle_hello(heard, &hello(4, None), |_| panic!());
    assert_eq!(hellos(&mut end, heard), [(incarnation(1), incarnation(4))]);
    assert_eq!(end.deadline().unwrap().since(heard), Span::from_millis(10));
}

#[test]
fn what_is_taken_of_an_earlier_life_is_no_credit_of_a_later_one() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, false);
    let first = ends[1].epoch();
    // The sender begins anew, and sends a frame with the same place.
    ends[0] = Session::new(ms(2), config(), Rng::new(5));
    ask(2, &mut ends, 1);
    carry(ms(7), &mut ends, 1, 100, false);
    for (epoch, kept) in [(first, 1), (ends[1].epoch(), 0)] {
        ends[1].consumed(stream(1), epoch, 0);
        (8..12).for_each(|now| talk(ms(now), &mut ends));
        assert_eq!(ends[0].outstanding(), kept, "after {epoch:?}'s was consumed");
    }
}

#[test]
fn a_frame_that_is_taken_twice_counts_once() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 100, true);
    carry(ms(1), &mut ends, 1, 100, false);
    let epoch = ends[1].epoch();
    ends[1].consumed(stream(1), epoch, 0);
    talk(ms(1), &mut ends);
    assert_eq!(ends[0].outstanding(), 1);
}

#[test]
fn all_lives_of_a_sender_share_one_window() {
    let config = SessionConfig { unsolicited: 30_000, max_frames: 1000, ..config() };
    let mut ends = pair(ms(1), config);
    // What waits for the receiver: of which incarnation, and where it begins.
    let mut waiting = Vec::new();
    for number in 5..9 {
        let begin = number * 100;
        for now in (begin..begin + 50).map(ms) {
            talk(now, &mut ends);
            while ends[0].admit(LANE, stream(1), bytes(1000), false) == Admission::Go {
                let data = ends[0].send(now, stream(1), bytes(1000), 0);
                waiting.extend(arrive(now, &mut ends[1], &data));
                talk(now, &mut ends);
            }
        }
        assert_eq!(
            (waiting.len(), ends[1].counters().credit_exceeded),
            (100, 0),
            "all that fits waits, and no more"
        );
        waiting
            .drain(..30)
            .for_each(|(stream, from, offset)| ends[1].consumed(stream, from, offset));
        ends[0] = Session::new(ms(begin + 60), config, Rng::new(number));
    }
}

#[test]
fn who_speaks_none_of_our_versions_is_not_heard() {
    for (versions, is_heard) in [
        ([VERSION; 2], true),
        ([OLDEST; 2], true),
        ([OLDEST - 1, VERSION + 1], true),
        ([OLDEST - 1; 2], false),
        ([VERSION + 1; 2], false),
        ([VERSION + 1, OLDEST - 1], false),
        ([VERSION, OLDEST], false),
    ] {
        let mut end = End::new(ms(1), config(), Rng::new(1));
        end.handle_hello(ms(1), &Hello { versions, ..hello(2, Some(1)) }, |_| ());
        assert_eq!(end.reliable() == ClassSet::ALL, is_heard, "{versions:?}");
    }
}

//! Frames that a receiver gives back, and those that it cannot judge yet.

use std::net::Ipv6Addr;

use tunnel::message::{MAX_RETURNS, OLDEST, WITH_CONTEXT};
use tunnel::{Answer, Return};

use super::*;

/// The first end sends frames of 100 bytes, which are delivered at the other.
fn send(now: Instant, ends: &mut [End; 2], frames: std::ops::Range<u32>) -> Vec<(Epoch, u64)> {
    let [from, to] = ends;
    let mut delivered = Vec::new();
    for frame in frames {
        assert_eq!(from.admit(LANE, stream(1), bytes(100), false), Admission::Go);
        let data = from.send(now, stream(1), bytes(100), frame);
        delivered
            .extend(arrive(now, to, &data).into_iter().map(|(_, epoch, offset)| (epoch, offset)));
    }
    delivered
}

/// They talk until nobody has anything to say. What the first end's frames have come to, in order;
/// of those that are sent again, whether a frame goes with them.
fn settle(now: Instant, ends: &mut [End; 2]) -> (Vec<(u32, Option<Answer>)>, Vec<bool>) {
    let (mut ended, mut again) = (Vec::new(), Vec::new());
    let mut now = now;
    for _ in 0..20 {
        now += Span::from_micros(100);
        while let Some(Message::Report(report)) = ends[1].poll_transmit(now) {
            ends[0].handle_report(now, &report, |frame, answer| ended.push((frame, answer)));
        }
        while let Some((frame, data)) = ends[0].retransmit(now) {
            again.push(frame.is_some());
            let brought = frame.map_or(Payload::Placeholder, Payload::Frame);
            ends[1].handle_data(now, &data, false, brought, |_| ());
        }
        while let Some(Message::Report(report)) = ends[0].poll_transmit(now) {
            ends[1].handle_report(now, &report, |_, _| panic!("it sends nothing"));
        }
    }
    (ended, again)
}

#[test]
fn what_is_given_back_is_its_senders_again_in_order() {
    let mut ends = pair(ms(1), config());
    assert_eq!(ends[0].version(), Some(WITH_CONTEXT));
    let delivered = send(ms(1), &mut ends, 0..6);
    // The first is taken, the third too; the others are not.
    for (number, (epoch, offset)) in delivered.into_iter().enumerate() {
        match number {
            0 | 2 => ends[1].consumed(stream(1), epoch, offset),
            1 => ends[1].give_back(stream(1), epoch, offset, Answer::Refused(7)),
            _ => ends[1].give_back(stream(1), epoch, offset, Answer::Gone),
        }
    }
    let (ended, again) = settle(ms(1), &mut ends);
    let [refused, gone] = [Answer::Refused(7), Answer::Gone].map(Some);
    assert_eq!(ended, [(0, None), (1, refused), (2, None), (3, gone), (4, gone), (5, gone)]);
    assert_eq!(again, [false; 4], "their positions are confirmed, and nothing else is sent");
    assert_eq!((ends[0].outstanding(), ends[1].counters().given_back), (0, 4));
}

#[test]
fn what_is_given_back_is_told_until_its_sender_has_heard() {
    let mut ends = pair(ms(1), config());
    let [(epoch, offset)] = send(ms(1), &mut ends, 0..1)[..] else { panic!() };
    ends[1].give_back(stream(1), epoch, offset, Answer::Gone);
    let told = |message: Option<Message>| match message {
        Some(Message::Report(report)) => report.returns,
        _ => Vec::new(),
    };
    let once = [Return { stream: stream(1), from: 0, until: 100, answer: Answer::Gone }];
    assert_eq!(told(ends[1].poll_transmit(ms(1))), once, "and it is lost");
    assert_eq!(told(ends[1].poll_transmit(ms(1))), []);
    let mut heard = Vec::new();
    for now in (2..200).map(ms) {
        while let Some(Message::Report(report)) = ends[0].poll_transmit(now) {
            ends[1].handle_report(now, &report, |_, _| ());
            while let Some(Message::Report(report)) = ends[1].poll_transmit(now) {
                ends[0].handle_report(now, &report, |frame, answer| heard.push((frame, answer)));
            }
        }
    }
    assert_eq!(heard, [(0, Some(Answer::Gone))], "and it is told once");
    // Nothing that was sent before that confirms it.
    assert_eq!(ends[0].outstanding(), 1);
    settle(ms(201), &mut ends);
    assert_eq!(ends[0].outstanding(), 0);
}

#[test]
fn what_is_behind_a_frame_that_moved_is_given_back_until_its_sender_begins_anew() {
    let mut ends = pair(ms(1), config());
    let moved = Answer::Moved { host: Ipv6Addr::UNSPECIFIED.into(), label: 1 };
    let [(epoch, first), (_, second)] = send(ms(1), &mut ends, 0..2)[..] else { panic!() };
    assert_eq!(ends[1].behind_moved(stream(1), epoch, false), None);
    ends[1].give_back(stream(1), epoch, first, moved);
    assert_eq!(ends[1].behind_moved(stream(2), epoch, false), None, "others are not behind it");
    assert_eq!(ends[1].behind_moved(stream(1), epoch, false), Some(moved));
    ends[1].give_back(stream(1), epoch, second, moved);
    settle(ms(1), &mut ends);
    // Its sender has them again. What it sends now may still be behind one that it has not.
    assert_eq!(ends[1].behind_moved(stream(1), epoch, false), Some(moved));
    assert_eq!(ends[1].behind_moved(stream(1), epoch, true), None);
    assert_eq!(ends[1].behind_moved(stream(1), epoch, false), None);
}

#[test]
fn a_report_tells_of_a_bounded_number_of_streams() {
    let mut ends = pair(ms(1), config());
    for label in 0..5 {
        let [from, to] = &mut ends;
        assert_eq!(from.admit(LANE, stream(label), bytes(100), false), Admission::Go);
        let data = from.send(ms(1), stream(label), bytes(100), label);
        for (stream, epoch, offset) in arrive(ms(1), to, &data) {
            to.give_back(stream, epoch, offset, Answer::Gone);
        }
    }
    while let Some(Message::Report(report)) = ends[1].poll_transmit(ms(1)) {
        assert!(report.returns.len() <= MAX_RETURNS && report.window_probes.is_empty());
        ends[0].handle_report(ms(1), &report, |_, _| ());
    }
    settle(ms(1), &mut ends);
    assert_eq!(ends[0].outstanding(), 0);
}

#[test]
fn who_does_not_know_returns_is_told_that_they_are_consumed() {
    let mut ends = [1, 2].map(|number| End::new(ms(1), config(), Rng::new(number)));
    while let Some((place, message)) =
        (0..2).find_map(|place| Some((place, ends[place].poll_transmit(ms(1))?)))
    {
        let message = match message {
            // The first is of the version before.
            Message::Hello(hello) if place == 0 => {
                assert_eq!(hello.versions, [OLDEST, VERSION]);
                Message::Hello(tunnel::Hello { versions: [OLDEST; 2], ..hello })
            }
            other => other,
        };
        hear(ms(1), &mut ends[1 - place], &message);
    }
    assert_eq!((ends[1].version(), ends[1].carries_contexts()), (Some(OLDEST), Some(false)));
    let [(epoch, offset)] = send(ms(1), &mut ends, 0..1)[..] else { panic!() };
    ends[1].give_back(stream(1), epoch, offset, Answer::Gone);
    assert_eq!(settle(ms(1), &mut ends), (vec![(0, None)], vec![]));
}

#[test]
fn what_comes_early_waits_with_its_sender_until_more_is_known() {
    let mut ends = pair(ms(1), config());
    let [from, to] = &mut ends;
    for frame in 0..3 {
        assert_eq!(from.admit(LANE, stream(1), bytes(100), false), Admission::Go);
        let data = from.send(ms(1), stream(1), bytes(100), frame);
        let brought = if frame == 0 { Payload::NotYet } else { Payload::Frame(frame) };
        to.handle_data(ms(1), &data, false, brought, |arrival| {
            assert!(matches!(arrival, Arrival::Release(_)), "nothing goes before it");
        });
    }
    assert!(to.is_any_early());
    assert_eq!((to.counters().not_yet, to.counters().nacked), (1, 2));
    // Memory is not what it waits for.
    to.memory_available(stream(1));
    let Some(Message::Report(report)) = to.poll_transmit(ms(1)) else { panic!("it is told") };
    assert!(report.nacks[0].is_early);
    from.handle_report(ms(1), &report, |_, _| panic!("nobody has it"));
    assert!(from.retransmit(ms(1)).is_none());
    to.look_again();
    assert!(!to.is_any_early());
    let Some(Message::Report(report)) = to.poll_transmit(ms(1)) else { panic!("it is told") };
    from.handle_report(ms(1), &report, |_, _| panic!("nobody has it"));
    let mut delivered = Vec::new();
    while let Some((Some(frame), data)) = from.retransmit(ms(1)) {
        to.handle_data(ms(1), &data, false, Payload::Frame(frame), |arrival| {
            let Arrival::Deliver { frame, .. } = arrival else { panic!("it is delivered") };
            delivered.push(frame);
        });
    }
    assert_eq!(delivered, [0, 1, 2]);
}

#[test]
fn what_was_given_back_to_an_earlier_incarnation_takes_no_window() {
    let mut ends = pair(ms(1), config());
    for (epoch, offset) in send(ms(1), &mut ends, 0..30) {
        ends[1].give_back(stream(1), epoch, offset, Answer::Gone);
    }
    ends[0] = Session::new(ms(2), config(), Rng::new(3));
    ask(2, &mut ends, 1);
    let window = u64::from(config().stream_window);
    assert_eq!(ends[0].outlook(LANE, stream(1), bytes(100)), (Admission::Go, window));
}

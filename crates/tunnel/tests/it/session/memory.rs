//! Frames for which their receiver has no memory.

use super::*;

const LEN: u16 = 100;

/// The first end sends so many frames, of which the second has memory for some, and takes none.
fn fill(ends: &mut [End; 2], frames: u64, kept: u64) {
    for number in 0..frames {
        assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
        let data = ends[0].send(ms(1), stream(1), bytes(LEN), number as u32);
        let brought = if number < kept { Payload::Frame(0) } else { Payload::NoMemory };
        ends[1].handle_data(ms(1), &data, false, brought, |_| ());
    }
    assert_eq!(ends[1].counters().nacked, frames - kept);
}

/// What the second end reports now.
fn reports(ends: &mut [End; 2]) -> Vec<Message> {
    std::iter::from_fn(|| ends[1].poll_transmit(ms(1))).collect()
}

fn consumed(ends: &mut [End; 2], offset: u64) {
    let epoch = ends[1].epoch();
    ends[1].consumed(stream(1), epoch, offset);
}

#[test]
fn what_was_turned_away_is_no_loss_and_comes_again_once_it_is_invited() {
    let mut ends = pair(ms(1), config());
    let window = ends[0].path().congestion_window;
    fill(&mut ends, 10, 4);
    talk(ms(1), &mut ends);
    assert!(ends[1].is_nacking(stream(1)) && ends[0].retransmit(ms(1)).is_none());
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::NoCredit);
    assert_eq!(
        ends[0].admit(LANE, stream(2), bytes(LEN), false),
        Admission::Go,
        "others are as they were"
    );
    (0..4).for_each(|number| consumed(&mut ends, number * u64::from(LEN)));
    ends[1].memory_available(stream(1));
    talk(ms(1), &mut ends);
    let retransmitted: Vec<_> =
        std::iter::from_fn(|| ends[0].retransmit(ms(1))).map(|(frame, _)| frame).collect();
    assert!(retransmitted.into_iter().eq((4..10).map(Some)));
    assert_eq!(ends[0].counters().lost, 0);
    assert!(ends[0].path().congestion_window >= window);
}

#[test]
fn what_has_come_since_is_not_sent_again_for_a_report_that_comes_twice() {
    let mut ends = pair(ms(1), config());
    fill(&mut ends, 1, 0);
    ends[1].memory_available(stream(1));
    let advertised = reports(&mut ends);
    advertised.iter().for_each(|message| hear(ms(1), &mut ends[0], message));
    let (_, data) = ends[0].retransmit(ms(1)).unwrap();
    arrive(ms(1), &mut ends[1], &data);
    talk(ms(1), &mut ends);
    advertised.iter().for_each(|message| hear(ms(1), &mut ends[0], message));
    assert!(ends[0].retransmit(ms(1)).is_none());
}

#[test]
fn a_report_that_comes_late_takes_no_credit_back() {
    let mut ends = pair(ms(1), config());
    fill(&mut ends, 2, 1);
    let advertised = reports(&mut ends);
    ends[1].memory_available(stream(1));
    consumed(&mut ends, 0);
    talk(ms(1), &mut ends);
    let (_, data) = ends[0].retransmit(ms(1)).unwrap();
    arrive(ms(1), &mut ends[1], &data);
    consumed(&mut ends, LEN.into());
    talk(ms(1), &mut ends);
    assert_eq!(ends[0].outstanding(), 0);
    advertised.iter().for_each(|message| hear(ms(1), &mut ends[0], message));
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
}

#[test]
fn what_comes_late_and_is_turned_away_by_an_again_that_was_heard_comes_again() {
    let mut ends = pair(ms(1), config());
    let send = |number| {
        assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
        ends[0].send(ms(1), stream(1), bytes(LEN), number)
    };
    let sent: Vec<_> = (0..5).map(send).collect();
    let nack = |end: &mut End, data| end.handle_data(ms(1), data, false, Payload::NoMemory, |_| ());
    [0, 1, 3, 4].iter().for_each(|number| nack(&mut ends[1], &sent[*number]));
    talk(ms(1), &mut ends);
    ends[1].memory_available(stream(1));
    talk(ms(1), &mut ends);
    let retransmitted = |end: &mut End| {
        std::iter::from_fn(|| end.retransmit(ms(1))).map(|(frame, _)| frame.unwrap()).collect()
    };
    let first: Vec<_> = retransmitted(&mut ends[0]);
    assert_eq!(first, [0, 1, 3, 4]);
    nack(&mut ends[1], &sent[2]);
    talk(ms(1), &mut ends);
    ends[1].memory_available(stream(1));
    talk(ms(1), &mut ends);
    let late: Vec<_> = retransmitted(&mut ends[0]);
    assert_eq!(late, [2]);
}

#[test]
fn a_report_that_comes_twice_takes_no_credit_back() {
    let mut ends = pair(ms(1), config());
    fill(&mut ends, 2, 0);
    let advertised = reports(&mut ends);
    advertised.iter().for_each(|message| hear(ms(1), &mut ends[0], message));
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::NoCredit);
    ends[1].memory_available(stream(1));
    talk(ms(1), &mut ends);
    while let Some((_, data)) = ends[0].retransmit(ms(1)) {
        arrive(ms(1), &mut ends[1], &data);
    }
    talk(ms(1), &mut ends);
    assert_eq!(
        (ends[0].outstanding(), ends[0].admit(LANE, stream(1), bytes(LEN), false)),
        (2, Admission::Go)
    );
    advertised.iter().for_each(|message| hear(ms(1), &mut ends[0], message));
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
}

#[test]
fn a_stream_that_stands_still_is_asked_after_ever_less_often_though_some_of_it_is_to_come_again() {
    let mut ends = pair(ms(1), config());
    fill(&mut ends, 10, 2);
    consumed(&mut ends, 0);
    ends[1].memory_available(stream(1));
    talk(ms(1), &mut ends);
    // Its window is two frames now, and an eighth of one.
    let (_, data) = ends[0].retransmit(ms(1)).unwrap();
    arrive(ms(1), &mut ends[1], &data);
    talk(ms(1), &mut ends);
    assert!(ends[0].retransmit(ms(1)).is_none());
    let mut asked = 0;
    for now in (2..1002).map(ms) {
        while let Some(message) = ends[0].poll_transmit(now) {
            asked += 1;
            hear(now, &mut ends[1], &message);
        }
        while let Some(message) = ends[1].poll_transmit(now) {
            hear(now, &mut ends[0], &message);
        }
    }
    // 1 ms, 2, 4, and so on, and then every 50.
    assert!((20..=26).contains(&asked), "{asked}");
}

#[test]
fn what_came_early_and_had_to_go_comes_again_too() {
    let mut ends = pair(ms(1), config());
    let sent: Vec<_> = (0..3)
        .map(|number| {
            assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
            ends[0].send(ms(1), stream(1), bytes(LEN), number)
        })
        .collect();
    arrive(ms(1), &mut ends[1], &sent[0]);
    arrive(ms(1), &mut ends[1], &sent[2]);
    let mut freed = 0;
    ends[1].handle_data(ms(1), &sent[1], false, Payload::NoMemory, |arrival| {
        freed += u32::from(matches!(arrival, Arrival::Release(_)));
    });
    assert_eq!(freed, 1, "it has overtaken what there is no memory for");
    talk(ms(1), &mut ends);
    ends[1].memory_available(stream(1));
    consumed(&mut ends, 0);
    talk(ms(1), &mut ends);
    let retransmitted: Vec<_> =
        std::iter::from_fn(|| ends[0].retransmit(ms(1))).map(|(frame, _)| frame).collect();
    assert_eq!(retransmitted, [Some(1), Some(2)]);
}

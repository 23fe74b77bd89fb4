//! What the fabric delivers long after it was sent.

use super::*;

/// The numbers of a stream's bytes and of packets are sent by their low 32 bits. By the time that a
/// copy of a frame comes, they begin anew.
fn come_again(reliable: bool) {
    let mut ends = pair(
        ms(1),
        SessionConfig { reliable: reliable.into(), stream_window: 1 << 20, ..config() },
    );
    let mut first = None;
    let mut bytes_sent = 0;
    while bytes_sent < 1_u64 << 32 {
        let len = (1 << 32) - bytes_sent;
        let len = bytes(u16::try_from(len).unwrap_or(u16::MAX));
        while ends[0].admit(LANE, stream(1), len, false) != Admission::Go {
            (1..4).for_each(|now| talk(ms(now), &mut ends));
        }
        let data = ends[0].send(ms(1), stream(1), len, 0);
        for (stream, epoch, offset) in arrive(ms(1), &mut ends[1], &data) {
            ends[1].consumed(stream, epoch, offset);
        }
        talk(ms(1), &mut ends);
        first = first.or(Some(data));
        bytes_sent += u64::from(len.get());
    }
    assert!(arrive(ms(1), &mut ends[1], &first.unwrap()).is_empty());
    assert_eq!(ends[1].counters().duplicates, 1);
    carry(ms(1), &mut ends, 1, 100, true);
}

#[test]
fn a_copy_that_is_late_by_all_that_an_offset_can_tell_is_none_of_a_new_frame() {
    come_again(true);
    come_again(false);
}

/// A far end's numbers are what packets say of themselves, and a fabric may garble one.
fn garble(reliable: bool, ahead: u32) {
    let mut ends = pair(ms(1), SessionConfig { reliable: reliable.into(), ..config() });
    let mut delivered = 0;
    for place in 0..100 {
        let now = ms(10 + place);
        assert_eq!(
            ends[0].admit(LANE, stream(1), bytes(1000), false),
            Admission::Go,
            "after {place} frames"
        );
        let mut data = ends[0].send(now, stream(1), bytes(1000), 0);
        if place == 50 {
            data.number = data.number.wrapping_add(ahead);
        }
        let mut underway = vec![data];
        while let Some(data) = underway.pop() {
            for (stream, epoch, offset) in arrive(now, &mut ends[1], &data) {
                ends[1].consumed(stream, epoch, offset);
                delivered += 1;
            }
            talk(now, &mut ends);
            ends[0].handle_timeout(now, |_| panic!());
            underway.extend(ends[0].retransmit(now).map(|(_, data)| data));
        }
    }
    assert_eq!((delivered, ends[0].outstanding(), ends[0].path().in_flight), (100, 0, 0));
}

#[test]
fn a_garbled_number_holds_nobody_up() {
    for ahead in [1 << 14, 1 << 16, 1 << 30, 1 << 31] {
        garble(true, ahead);
        garble(false, ahead);
    }
}

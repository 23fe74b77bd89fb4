//! Classes that overtake each other, as a fabric with a queue for each has them.

use super::*;

const SLOW: Stream = Stream { label: 1, class: Class::from_low_bits(0) };
const FAST: Stream = Stream { label: 1, class: Class::from_low_bits(3) };

fn send(now: Instant, end: &mut End, stream: Stream) -> Data {
    assert_eq!(end.admit(LANE, stream, bytes(100), false), Admission::Go);
    end.send(now, stream, bytes(100), 0)
}

/// A frame comes, is taken, and that is told.
fn bring(now: Instant, ends: &mut [End; 2], data: &Data) {
    for (stream, epoch, offset) in arrive(now, &mut ends[1], data) {
        ends[1].consumed(stream, epoch, offset);
    }
    talk(now, ends);
}

#[test]
fn a_class_that_is_held_back_is_not_lost_for_being_overtaken_by_another() {
    let mut ends = pair(ms(1), config());
    let data = send(ms(1), &mut ends[0], SLOW);
    bring(ms(1), &mut ends, &data);
    let held: Vec<_> = (0..2).map(|_| send(ms(2), &mut ends[0], SLOW)).collect();
    let window = ends[0].path().congestion_window;
    for _ in 0..10 {
        let data = send(ms(2), &mut ends[0], FAST);
        bring(ms(2), &mut ends, &data);
    }
    assert!(ends[0].retransmit(ms(2)).is_none());
    held.iter().for_each(|data| bring(ms(2), &mut ends, data));
    assert_eq!(
        (ends[0].counters().lost, ends[0].counters().retransmitted, ends[0].outstanding()),
        (0, 0, 0)
    );
    assert!(ends[0].path().congestion_window >= window);
}

/// Others of its class would show that it is lost, and there are none.
#[test]
fn the_last_of_a_class_is_sent_again_however_much_another_sends() {
    let mut ends = pair(ms(1), config());
    let data = send(ms(1), &mut ends[0], SLOW);
    bring(ms(1), &mut ends, &data);
    send(ms(2), &mut ends[0], SLOW);
    for now in (2..100).map(ms) {
        let data = send(now, &mut ends[0], FAST);
        bring(now, &mut ends, &data);
        ends[0].handle_timeout(now, |_| panic!());
        while let Some((_, data)) = ends[0].retransmit(now) {
            bring(now, &mut ends, &data);
        }
    }
    assert_eq!((ends[0].counters().retransmitted, ends[0].outstanding()), (1, 0));
}

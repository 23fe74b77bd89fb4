//! What goes as one large datagram, and again in parts.

use super::*;

const LEN: u16 = 20_000;

/// What a datagram carries, and the rest.
fn divide(frame: u32, len: NonZeroU16) -> Option<[(u32, NonZeroU16); 2]> {
    (len.get() > 1500).then(|| [(frame, bytes(1250)), (frame, bytes(len.get() - 1250))])
}

/// What is to be sent again at this time, in parts.
fn again(now: Instant, end: &mut End) -> Vec<Data> {
    end.handle_timeout(now, |_| panic!("nothing has come"));
    std::iter::from_fn(|| end.retransmit_divided(now, divide)).map(|(_, data)| data).collect()
}

#[test]
fn it_has_to_be_little_of_the_window() {
    let mut ends = pair(ms(1), config());
    assert!(!ends[0].may_send_large(ms(1), LANE, bytes(LEN)));
    ends = wide();
    assert!(ends[0].may_send_large(ms(1), LANE, bytes(LEN)));
    assert!(!ends[0].may_send_large(ms(1), LANE, NonZeroU16::MAX));
}

/// Who hears nothing asks, and sends nothing again before it knows that something is missing.
#[test]
fn who_answers_late_is_sent_nothing_twice() {
    for comes in [false, true] {
        let mut ends = wide();
        assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
        let whole = ends[0].send_large(ms(2), stream(1), bytes(LEN), 1);
        let due = ends[0].deadline().unwrap();
        let [probe] = again(due, &mut ends[0])[..] else { panic!("one probe is due") };
        assert_eq!((probe.offset, probe.len), (whole.offset - 1, bytes(1)));
        assert!(ends[0].may_send_large(due, LANE, bytes(LEN)));
        if comes {
            let brought = Payload::Frame(u32::from(LEN));
            ends[1].handle_data(due, &whole, false, brought, |_| {});
        }
        ends[1].handle_data(due, &probe, false, Payload::Placeholder, |_| {});
        talk(due, &mut ends);
        assert_eq!(again(due, &mut ends[0]).is_empty(), comes);
        // A pause begins with what is lost.
        assert_eq!(ends[0].may_send_large(due, LANE, bytes(LEN)), comes);
        let counters = [0, 1].map(|end| ends[end].counters());
        assert_eq!(counters[0].retransmitted > 0, !comes);
        assert_eq!(counters[1].duplicates, 0);
    }
}

/// Of a stream of which nothing was consumed there is no position to ask by.
#[test]
fn who_has_had_nothing_is_sent_it_again() {
    let mut ends = pair(ms(1), SessionConfig { unsolicited: 64 << 10, ..config() });
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(9000), false), Admission::Go);
    let whole = ends[0].send_large(ms(2), stream(1), bytes(9000), 1);
    let due = ends[0].deadline().unwrap();
    let parts = again(due, &mut ends[0]);
    assert_eq!((parts[0].offset, parts[0].len), (whole.offset, bytes(1250)));
    assert!(ends[0].is_large_paused(due));
    // It was only late.
    ends[1].handle_data(due, &whole, false, Payload::Frame(9000), |_| {});
    talk(due, &mut ends);
    assert!(!ends[0].is_large_paused(due));
}

/// What came whole when some of its parts had come is of no use to its receiver, whoever
/// acknowledges it.
#[test]
fn all_of_it_comes_once_however_much_of_it_came_before() {
    for parts in 0..17 {
        let mut ends = wide();
        assert_eq!(ends[0].admit(LANE, stream(1), bytes(LEN), false), Admission::Go);
        let whole = ends[0].send_large(ms(2), stream(1), bytes(LEN), 1);
        let mut next = whole.offset;
        // So many parts come, then all of it; the others of them are lost.
        let mut first = Some(parts);
        for now in (3..300).map(ms) {
            let mut underway = again(now, &mut ends[0]);
            if !underway.is_empty()
                && let Some(parts) = first.take()
            {
                underway.truncate(parts);
                underway.push(whole);
            }
            for data in underway {
                let mut came = Vec::new();
                let brought = Payload::Frame(data.len.get().into());
                ends[1].handle_data(now, &data, false, brought, |arrival| {
                    if let Arrival::Deliver { stream, from, offset, frame: len } = arrival {
                        assert_eq!(offset as u32, next, "each byte once");
                        next += len;
                        came.push((stream, from, offset));
                    }
                });
                came.into_iter()
                    .for_each(|(stream, from, offset)| ends[1].consumed(stream, from, offset));
            }
            talk(now, &mut ends);
        }
        assert_eq!(
            (ends[0].outstanding(), next),
            (0, whole.offset + u32::from(LEN)),
            "behind {parts} parts"
        );
    }
}

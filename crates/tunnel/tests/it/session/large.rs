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
    assert!(!ends[0].may_send_large(ms(1), bytes(LEN)));
    ends = wide();
    assert!(ends[0].may_send_large(ms(1), bytes(LEN)));
    assert!(!ends[0].may_send_large(ms(1), NonZeroU16::MAX));
}

/// A pause begins as nothing is heard, and ends as that was only late.
#[test]
fn who_answers_late_is_sent_others_at_once() {
    for comes in [false, true] {
        let mut ends = wide();
        assert_eq!(ends[0].admit(stream(1), bytes(LEN), false), Admission::Go);
        let whole = ends[0].send_large(ms(2), stream(1), bytes(LEN), 1);
        let due = ends[0].deadline().unwrap();
        let probe = again(due, &mut ends[0]).remove(0);
        assert!(!ends[0].may_send_large(due, bytes(LEN)));
        let what = if comes { whole } else { probe };
        ends[1].handle_data(due, &what, false, Payload::Frame(what.len.get().into()), |_| {});
        talk(due, &mut ends);
        assert_eq!(ends[0].may_send_large(due, bytes(LEN)), comes);
    }
}

/// What came whole when some of its parts had come is of no use to its receiver, whoever
/// acknowledges it.
#[test]
fn all_of_it_comes_once_however_much_of_it_came_before() {
    for parts in 0..17 {
        let mut ends = wide();
        assert_eq!(ends[0].admit(stream(1), bytes(LEN), false), Admission::Go);
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

//! Streams of several networks: each has its own window to the same host.

use super::*;

/// Bytes that each lane may send now, whose stream has the lane's number. All of them arrive, but
/// for those that are lost, and are consumed at once; the sender hears of it.
fn round(
    ends: &mut [End; 2],
    now: Instant,
    lanes: &[u16],
    mut fate: impl FnMut(u16, u64) -> (bool, bool),
) -> Vec<u64> {
    let mut sent = vec![0; lanes.len()];
    let mut under_way = Vec::new();
    let mut goes_on = true;
    while std::mem::take(&mut goes_on) {
        for (place, lane) in lanes.iter().enumerate() {
            let to = stream((*lane).into());
            if ends[0].admit(Lane(*lane), to, bytes(1000), false) == Admission::Go {
                let data = ends[0].send(now, to, bytes(1000), 0);
                under_way.push((*lane, sent[place], data));
                sent[place] += 1000;
                goes_on = true;
            }
        }
    }
    let later = now + Span::from_micros(50);
    for (lane, at, data) in under_way {
        let (is_marked, is_lost) = fate(lane, at);
        if is_lost {
            continue;
        }
        let mut delivered = Vec::new();
        ends[1].handle_data(later, &data, is_marked, Payload::Frame(0), |arrival| {
            if let Arrival::Deliver { stream, from, offset, .. } = arrival {
                delivered.push((stream, from, offset));
            }
        });
        delivered.into_iter().for_each(|(at, from, offset)| ends[1].consumed(at, from, offset));
        // A report for every few packets, as between real hosts.
        if at % 4000 == 0 {
            talk(later, ends);
        }
    }
    talk(later, ends);
    sent
}

fn wide() -> [End; 2] {
    let config = SessionConfig {
        unsolicited: 1 << 20,
        stream_window: 1 << 20,
        max_in_flight: 1 << 20,
        max_frames: 10_000,
        ..config()
    };
    pair(ms(0), config)
}

#[test]
fn whose_packets_are_marked_sends_less_and_nobody_else() {
    let mut ends = wide();
    let mut last = Vec::new();
    for number in 1..40 {
        last = round(&mut ends, ms(number), &[1, 2, 3], |lane, _| (lane == 2, false));
    }
    assert!(last[0] > 300_000 && last[2] > 300_000, "{last:?}");
    assert!((1000..=3000).contains(&last[1]), "{last:?}");
    assert_eq!(ends[0].path().in_flight, 0);
}

#[test]
fn whose_packets_are_lost_sends_less_and_nobody_else() {
    let mut ends = wide();
    let mut last = Vec::new();
    for number in 1..40 {
        let now = ms(number);
        last = round(&mut ends, now, &[1, 2], |lane, at| (false, lane == 1 && at % 8000 == 3000));
        for step in 0..4 {
            let now = now + Span::from_micros(200 * (step + 1));
            ends[0].handle_timeout(now, |_| ());
            while let Some((_, data)) = ends[0].retransmit(now) {
                for (at, from, offset) in arrive(now, &mut ends[1], &data) {
                    ends[1].consumed(at, from, offset);
                }
            }
            talk(now, &mut ends);
        }
    }
    assert!(last[1] > 300_000, "{last:?}");
    assert!(last[0] < 20_000, "{last:?}");
    assert_eq!((ends[0].path().in_flight, ends[0].outstanding()), (0, 0));
}

#[test]
fn what_is_to_be_sent_again_of_one_lane_delays_no_other() {
    let mut ends = wide();
    // All of one lane is lost, and its window is closed by it.
    let sent = round(&mut ends, ms(1), &[1], |_, _| (false, true));
    assert_eq!(sent, [15_000]);
    assert_eq!(ends[0].admit(Lane(1), stream(1), bytes(1000), false), Admission::NoWindow);
    assert!(!ends[0].is_open(Lane(1)) && ends[0].is_open(Lane(2)));
    let sent = round(&mut ends, ms(2), &[2], |_, _| (false, false));
    assert_eq!(sent, [15_000]);
}

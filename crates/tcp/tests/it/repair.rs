//! What is lost is sent again, at the right time and no more often than that: exact sequences of
//! segments.
//!
//! A round trip takes 10 ms, and a full segment has a thousand bytes. In the strings a segment is
//! `<ms since the beginning>:<number>`, with `+` if it was sent before and `!` if it is dropped.

use tcp::{Config, Control, Profile};
use units::{Instant, Span};

use crate::world::{Channel, DELAY, Departure, Side, World, choosy, dropping, steady};

fn config(profile: Profile) -> Config {
    let config = Config { control: Control::Reno, ..profile.config() };
    // Timestamps take twelve.
    Config { mss: 1012, ..config }
}

/// Sends so many segments, of which those with these numbers, counted from 1 and over all
/// transmissions, are dropped.
fn send(config: &Config, segments: u64, dropped: &[usize]) -> (World, String) {
    let mut world = World::established(config, dropping(DELAY, dropped));
    let start = world.now;
    world.client.write(1000 * segments);
    world.settle();
    assert_eq!(world.server().delivered(), 1000 * segments);
    let data = world.data(start);
    (world, data)
}

#[test]
fn three_duplicates_bring_back_a_segment() {
    // RACK, where nothing was ever overtaken, waits for no more than that; SACK and NewReno
    // neither. Two of the duplicates let something new go (RFC 3042).
    let (world, data) = send(&config(Profile::Linux), 20, &[4]);
    assert_eq!(
        data,
        "0:0 0:1 0:2 0:3! 0:4 0:5 0:6 0:7 0:8 0:9 10:10 10:11 10:12 10:13 10:14 10:15 10:16 10:17 10:3+ 10:18 20:19"
    );
    let stats = world.client.stats();
    // Ten, and three for the first three acknowledgements; half of that.
    assert_eq!((stats.fast_recoveries, stats.timeouts, stats.ssthresh), (1, 0, Some(6)));

    let (world, data) = send(&config(Profile::FreeBsd9), 20, &[4]);
    assert_eq!(
        data,
        "0:0 0:1 0:2 10:3! 10:4 10:5 10:6 20:7 20:8 20:9 20:10 20:11 20:3+ 30:12 30:13 30:14 40:15 40:16 40:17 \
         50:18 50:19"
    );
    assert_eq!(world.client.stats().fast_recoveries, 1);

    let (world, data) = send(&config(Profile::Linux2013), 20, &[4]);
    assert_eq!(
        data,
        "0:0 0:1 0:2 10:3! 10:4 10:5 10:6 10:7 10:8 20:9 20:10 20:3+ 30:11 30:12 30:13 40:14 40:15 40:16 40:17 \
         50:18 50:19"
    );
    let stats = world.client.stats();
    assert_eq!((stats.fast_recoveries, stats.timeouts, stats.ssthresh), (1, 0, Some(3)));
}

#[test]
fn a_burst_is_repaired_in_a_round_trip_with_sack_and_one_by_one_without() {
    let (world, data) = send(&config(Profile::Linux), 20, &[3, 4, 5, 6]);
    assert_eq!(
        data,
        "0:0 0:1 0:2! 0:3! 0:4! 0:5! 0:6 0:7 0:8 0:9 10:10 10:11 10:12 10:13 10:14 10:15 10:2+ 20:3+ 20:4+ 20:5+ \
         20:16 20:17 20:18 30:19"
    );
    assert_eq!((world.client.stats().fast_recoveries, world.client.stats().retransmitted), (1, 4));

    let (world, data) = send(&config(Profile::Linux2013), 20, &[3, 4, 5, 6]);
    assert_eq!(
        data,
        "0:0 0:1 0:2! 10:3! 10:4! 10:5! 10:6 20:7 30:8 40:2+ 50:3+ 60:4+ 70:5+ 80:9 80:10 90:11 90:12 90:13 100:14 \
         100:15 100:16 100:17 110:18 110:19"
    );
    assert_eq!((world.client.stats().fast_recoveries, world.client.stats().retransmitted), (1, 4));
}

#[test]
fn a_lost_copy_is_noticed_by_rack_and_by_nobody_else() {
    // Segment 18 left after the copy, and arrived.
    let (world, data) = send(&config(Profile::Linux), 20, &[4, 19]);
    assert!(data.ends_with(" 10:17 10:3+! 10:18 20:19 20:3+"), "{data}");
    assert_eq!(world.client.stats().timeouts, 0);

    // Without RACK there is a rescue retransmission of the last (RFC 6675 §4), and then the
    // timeout: 230 ms from the copy.
    let (world, data) = send(&config(Profile::FreeBsd9), 20, &[4, 13]);
    assert!(data.contains(" 20:11 20:3+! 30:12 "), "{data}");
    assert!(data.ends_with(" 60:18 60:19 70:19+ 250:3+"), "{data}");
    assert_eq!(world.client.stats().timeouts, 1);

    // Duplicates keep new data flowing; 210 ms from the copy.
    let (world, data) = send(&config(Profile::Linux2013), 20, &[4, 12]);
    assert!(data.contains(" 20:10 20:3+! 30:11 30:12 40:13 "), "{data}");
    assert!(data.ends_with(" 60:18 70:19 230:3+"), "{data}");
    assert_eq!(world.client.stats().timeouts, 1);
}

#[test]
fn a_probe_finds_a_lost_tail_in_two_round_trips_and_two_ticks() {
    let (world, data) = send(&config(Profile::Linux), 10, &[8, 9, 10]);
    assert_eq!(data, "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7! 0:8! 0:9! 38:9+ 48:7+ 58:8+");
    let stats = world.client.stats();
    assert_eq!((stats.tail_probes, stats.timeouts, stats.fast_recoveries), (1, 0, 1));
    // Its acknowledgement might be delayed, so one segment alone waits as long as the timeout
    // would; but the window stays.
    let (world, data) = send(&config(Profile::Linux), 10, &[10]);
    assert_eq!(data, "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8 0:9! 220:9+");
    let stats = world.client.stats();
    assert_eq!((stats.tail_probes, stats.timeouts, stats.cwnd), (1, 0, 20));
}

#[test]
fn a_probe_that_repairs_a_loss_halves_the_window_and_one_that_is_lost_leaves_it_to_the_timeout() {
    let (mut world, _) = send(&config(Profile::Linux), 10, &[10]);
    // What is acknowledged beyond the probe tells that nothing came twice (RFC 8985 §7.4). Of
    // twenty, half of what was not used for a timeout had gone before.
    world.client.write(1000);
    world.settle();
    let stats = world.client.stats();
    assert_eq!((stats.cwnd, stats.ssthresh, stats.fast_recoveries), (7, Some(7), 0), "{stats:?}");

    let (world, data) = send(&config(Profile::Linux), 10, &[8, 9, 10, 11]);
    assert!(data.ends_with(" 0:9! 38:9+! 248:7+ 258:8+ 258:9+"), "{data}");
    assert_eq!((world.client.stats().tail_probes, world.client.stats().timeouts), (1, 1));
}

#[test]
fn a_flight_after_a_repaired_one_has_a_probe_of_its_own() {
    // The probe is the 11th to be sent, two repairs follow, and of the next flight all three are
    // lost.
    let (mut world, data) = send(&config(Profile::Linux), 10, &[8, 9, 10, 14, 15, 16]);
    assert!(data.ends_with(" 38:9+ 48:7+ 58:8+"), "{data}");
    world.client.write(3000);
    world.settle();
    let stats = world.client.stats();
    assert_eq!((stats.tail_probes, stats.timeouts, stats.fast_recoveries), (2, 0, 2), "{stats:?}");
}

#[test]
fn too_few_duplicates_are_enough_after_a_while() {
    // A round trip, a quarter of one for reordering, and two ticks. No probe is sent then.
    let (world, data) = send(&config(Profile::Linux), 3, &[1]);
    assert_eq!(data, "0:0! 0:1 0:2 20:0+");
    let stats = world.client.stats();
    assert_eq!((stats.fast_recoveries, stats.tail_probes, stats.timeouts), (1, 0, 0));
    // Without RACK only the timeout helps.
    assert_eq!(send(&config(Profile::Linux2013), 3, &[1]).1, "0:0! 0:1 0:2 210:0+");
}

#[test]
fn a_copy_tells_nothing_about_the_round_trip() {
    // Karn: what waited behind the gap took no 20 ms, but nobody knows.
    let config =
        Config { mss: 1000, timestamps: None, quick_acks: 255, ..config(Profile::Linux2013) };
    let (world, _) = send(&config, 20, &[4]);
    let srtt = world.client.stats().srtt.unwrap();
    assert!(srtt < Span::from_micros(10_200), "{srtt}");
}

#[test]
fn without_probes_a_lost_tail_takes_a_timeout() {
    let (world, data) = send(&config(Profile::Linux2013), 10, &[8, 9, 10]);
    assert_eq!(data, "0:0 0:1 0:2 10:3 10:4 10:5 10:6 10:7! 10:8! 20:9! 230:7+ 240:8+ 240:9+");
    assert_eq!((world.client.stats().timeouts, world.client.stats().ssthresh), (1, Some(5)));
}

#[test]
fn a_timeout_takes_200_ms_above_the_round_trip_or_230_ms_in_all() {
    for (profile, ms) in
        [(Profile::Linux2013, 210), (Profile::FreeBsd9, 230), (Profile::Linux, 210)]
    {
        let world = &send(&config(profile), 1, &[1]).0;
        let times: Vec<Instant> =
            world.sent_by(Side::Client).filter(|it| it.number > 0).map(|it| it.at).collect();
        assert_eq!(times.len(), 2);
        assert_eq!(times[1].since(times[0]), Span::from_millis(ms), "{profile}");
    }
    // In a datacenter there is nothing but the minimum.
    for (profile, us) in [(Profile::Linux2013, 200_020), (Profile::FreeBsd9, 230_000)] {
        let mut world = World::established(&config(profile), dropping(Span::from_micros(10), &[1]));
        let start = world.now;
        world.client.write(1000);
        world.settle();
        let last = world.sent_by(Side::Client).last().unwrap();
        assert_eq!(last.at.since(start), Span::from_micros(us), "{profile}");
    }
}

#[test]
fn timeouts_double_and_a_round_trip_ends_that() {
    for (profile, gaps) in
        [(Profile::Linux2013, [210, 420, 840, 1680]), (Profile::FreeBsd9, [230, 260, 320, 440])]
    {
        let config = config(profile);
        let (world, data) = send(&config, 1, &[1, 2, 3, 4]);
        let mut at = 0;
        let expected: Vec<String> = gaps
            .iter()
            .enumerate()
            .map(|(index, gap)| {
                at += gap;
                format!("{at}:0+{}", if index < 3 { "!" } else { "" })
            })
            .collect();
        assert_eq!(data, format!("0:0! {}", expected.join(" ")), "{profile}");
        assert_eq!(world.client.stats().timeouts, 4);
        // The other side's timestamp says which of them arrived.
        let stats = world.client.stats();
        assert!(stats.rto < Span::from_millis(400), "{stats:?}");
    }
}

#[test]
fn lost_acknowledgements_cost_nothing_as_long_as_one_arrives() {
    for profile in [Profile::Linux, Profile::Linux2013] {
        let mut world = World::established(&config(profile), steady(DELAY));
        let mut count = 0;
        world.set_channel(choosy(DELAY, move |departure| {
            count += usize::from(departure.from == Side::Server);
            departure.from == Side::Client || count % 3 == 0
        }));
        world.client.write(9_000);
        world.settle();
        let stats = world.client.stats();
        assert_eq!((stats.retransmitted, stats.timeouts), (0, 0), "{profile}: {stats:?}");
        assert_eq!(stats.cwnd, u32::from(config(profile).initial_window) + 9);
    }
}

#[test]
fn a_lost_syn_is_sent_again_after_one_second_and_three() {
    let syns = |config: &Config, from: Side, lost: usize| {
        let mut count = 0;
        let channel = choosy(DELAY, move |departure| {
            let is_syn = departure.from == from && departure.segment.syn.is_some();
            count += usize::from(is_syn);
            !is_syn || count > lost
        });
        let mut world = World::new(config, channel);
        let start = world.now;
        world.client.write(1000);
        world.settle();
        let is_syn = |it: &&Departure| it.segment.syn.is_some();
        let at: Vec<u64> = world
            .sent_by(from)
            .filter(is_syn)
            .map(|it| it.at.since(start).as_nanos() / 1_000_000)
            .collect();
        (at, world.client.stats())
    };
    let (at, stats) = syns(&config(Profile::Linux), Side::Client, 2);
    assert_eq!(at, [0, 1000, 3000]);
    assert_eq!(stats.timeouts, 2);
    // RFC 6928 §2: one segment, and one for its acknowledgement.
    assert_eq!(stats.cwnd, 2);
    // One lost SYN leaves the window alone.
    assert_eq!(syns(&config(Profile::Linux), Side::Client, 1).1.cwnd, 10);
    // The client asks again too, and every SYN is answered.
    assert_eq!(syns(&config(Profile::Linux), Side::Server, 1).0[..2], [5, 1005]);
    assert_eq!(syns(&config(Profile::FreeBsd9), Side::Client, 1).0, [0, 3000]);
}

/// Every segment of the client, from `first` on and up to `last`, takes so much longer.
fn late(first: usize, last: usize, extra: Span) -> Channel {
    let mut inner = steady(DELAY);
    Box::new(move |departure| {
        let mut passage = inner(departure);
        if departure.from == Side::Client && (first..=last).contains(&departure.number) {
            passage[0].0 += extra;
        }
        passage
    })
}

/// What the client sends arrives, but not before this.
fn stalled_until(open: Instant) -> Channel {
    let mut inner = steady(DELAY);
    Box::new(move |departure| {
        let mut passage = inner(departure);
        if departure.from == Side::Client {
            passage[0].0 = passage[0].0.max(open.since(departure.at));
        }
        passage
    })
}

#[test]
fn a_timeout_that_was_not_needed_is_taken_back() {
    // Nothing arrives for 290 ms, and then everything.
    for (profile, undo) in
        [(Profile::Linux, true), (Profile::Linux2013, true), (Profile::Linux2013, false)]
    {
        let config = Config { undo, ..config(profile) };
        let mut world = World::established(&config, steady(DELAY));
        world.set_channel(stalled_until(world.now + Span::from_millis(290)));
        let initial = u32::from(config.initial_window);
        world.client.write(1000 * u64::from(initial));
        world.settle();
        let stats = world.client.stats();
        assert_eq!((stats.timeouts, stats.spurious), (1, u32::from(undo)), "{profile}: {stats:?}");
        assert!(!undo || stats.cwnd >= initial, "{profile}: {stats:?}");
        assert_eq!(stats.ssthresh.is_none(), undo, "{profile}: {stats:?}");
    }
}

#[test]
fn a_recovery_that_was_not_needed_is_taken_back_and_teaches_patience() {
    // One segment is overtaken by all the others. FreeBSD's second copy is a rescue retransmission.
    for (profile, retransmitted) in
        [(Profile::Linux, 1), (Profile::Linux2013, 1), (Profile::FreeBsd9, 2)]
    {
        for undo in [false, true] {
            let config = Config { initial_window: 10, undo, ..config(profile) };
            let mut world = World::established(&config, late(4, 4, Span::from_millis(5)));
            world.client.write(10_000);
            world.settle();
            let stats = world.client.stats();
            assert_eq!(stats.retransmitted, retransmitted, "{profile}: {stats:?}");
            assert_eq!(
                (stats.fast_recoveries, stats.spurious),
                (1, u32::from(undo)),
                "{profile}: {stats:?}"
            );
            assert_eq!(stats.cwnd >= 10, undo, "{profile}: {stats:?}");
            if profile != Profile::Linux || !undo {
                continue;
            }
            // Once bitten, RACK waits a quarter of the shortest round trip.
            world.set_channel(late(13, 13, Span::from_millis(2)));
            world.client.write(6_000);
            world.settle();
            assert_eq!(
                world.client.stats().retransmitted,
                retransmitted,
                "{:?}",
                world.client.stats()
            );
        }
    }
}

#[test]
fn a_duplicate_is_reported_and_forgiven_without_timestamps() {
    let config =
        Config { mss: 1000, timestamps: None, initial_window: 10, ..config(Profile::Linux) };
    let mut world = World::established(&config, late(4, 4, Span::from_millis(5)));
    world.client.write(10_000);
    world.settle();
    world.run_for(Span::from_millis(100));
    let stats = world.client.stats();
    assert_eq!(
        (stats.retransmitted, stats.fast_recoveries, stats.spurious),
        (1, 1, 1),
        "{stats:?}"
    );
    let reports = world.sent_by(Side::Server).filter(|it| {
        let blocks = it.segment.sack.as_slice();
        blocks.first().is_some_and(|block| block.1.wrapping_sub(it.segment.ack) as i32 <= 0)
    });
    assert_eq!(reports.count(), 1);
}

#[test]
fn duplicates_of_what_was_sent_before_a_timeout_start_no_recovery() {
    // RFC 6582 §3.2, step 1. Nothing arrives for 290 ms, so that much is sent twice, and nobody can
    // tell.
    let config =
        Config { mss: 1000, timestamps: None, initial_window: 10, ..config(Profile::Linux2013) };
    let mut world = World::established(&config, steady(DELAY));
    world.set_channel(stalled_until(world.now + Span::from_millis(290)));
    world.client.write(40_000);
    world.settle();
    let stats = world.client.stats();
    assert_eq!((stats.timeouts, stats.fast_recoveries), (1, 0), "{stats:?}");
    assert!(stats.retransmitted > 3, "{stats:?}");
}

#[test]
fn timeouts_without_progress_halve_once() {
    // RFC 5681 §3.1: the threshold is of what was in flight before the first of them. Nothing
    // passes, and then neither do two copies of the first segment.
    let config = Config { initial_window: 10, ..config(Profile::Linux2013) };
    let lost: Vec<usize> = (1..=12).collect();
    let stats = send(&config, 10, &lost).0.client.stats();
    assert_eq!((stats.timeouts, stats.ssthresh), (3, Some(5)), "{stats:?}");
}

#[test]
fn a_window_that_has_fallen_too_far_is_refilled_by_two_for_each_that_arrives() {
    let config = Config { initial_window: 20, ..config(Profile::Linux) };
    let lost: Vec<usize> = (1..=14).collect();
    let (world, data) = send(&config, 40, &lost);
    // RFC 6937 §3.1, far below the threshold of ten. Of six reports the first two let something new
    // go (RFC 3042), and the others one copy each. A round trip later there are two more such
    // reports, and four that move the stream on: those let two go.
    let sent_at = |ms: &str| data.split(' ').filter(|it| it.starts_with(ms)).count();
    assert_eq!([sent_at("0:"), sent_at("10:"), sent_at("20:")], [20, 6, 10], "{data}");
    assert_eq!(world.client.stats().ssthresh, Some(10));
}

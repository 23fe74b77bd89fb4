//! How an endpoint opens and closes, what it offers and acknowledges, and how it hears of
//! congestion.

use tcp::{Config, Control, Endpoint, Flags, Nagle, Profile, Segment, State};
use units::{Instant, Span};

use crate::world::{Channel, DELAY, Departure, Side, World, choosy, dropping, steady};

/// Segments of a thousand bytes, and Reno.
fn config() -> Config {
    Config {
        mss: 1012,
        control: Control::Reno,
        time_wait: Span::from_secs(1),
        ..Profile::Linux.config()
    }
}

fn ms(departure: &Departure, start: Instant) -> u64 {
    departure.at.since(start).as_nanos() / 1_000_000
}

/// `<ms>:<length><flags>` of what one side has sent.
fn story(world: &World, side: Side, start: Instant) -> String {
    let word = |it: &Departure| {
        let names = [
            (Flags::SYN, "S"),
            (Flags::FIN, "F"),
            (Flags::RST, "R"),
            (Flags::ECE, "E"),
            (Flags::CWR, "C"),
        ];
        let flags: String = names
            .iter()
            .filter(|(flag, _)| it.segment.flags.contains(*flag))
            .map(|(_, name)| *name)
            .collect();
        format!("{}:{}{flags}", ms(it, start), it.segment.len)
    };
    world.sent_by(side).map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_handshake_agrees_on_what_both_understand() {
    let plain =
        Config { sack: false, timestamps: None, mss: 500, receive_buffer: 30_000, ..config() };
    let cases = [
        (config(), config(), 1000, true),
        (config(), plain, 500, false),
        (plain, config(), 500, false),
    ];
    for (client, server, payload, rich) in cases {
        let mut world = World::between(&client, &server, [1, 2], steady(DELAY));
        world.client.write(5_000);
        world.settle();
        let data: Vec<&Segment> =
            world.sent_by(Side::Client).map(|it| &it.segment).filter(|it| it.len > 0).collect();
        assert_eq!(data.len(), 5_000 / payload);
        assert!(
            data.iter().all(|it| it.timestamps.is_some() == rich && usize::from(it.len) == payload)
        );
        let answer = world.sent_by(Side::Server).next().unwrap().segment.syn.unwrap();
        assert_eq!(answer.sack_permitted, rich);
    }
}

#[test]
fn one_closes_then_the_other() {
    let mut world = World::established(&config(), steady(DELAY));
    let start = world.now;
    world.client.write(2500);
    world.client.close();
    assert_eq!((world.client.state(), world.client.write(1)), (State::FinWait1, 0));
    world.run_for(Span::from_millis(20));
    assert_eq!((world.client.state(), world.server().state()), (State::FinWait2, State::CloseWait));
    assert!(world.server().peer_closed() && !world.client.peer_closed());
    // The other may still talk.
    world.server().write(500);
    world.server().close();
    world.run_for(Span::from_millis(20));
    assert_eq!((world.client.state(), world.server().state()), (State::TimeWait, State::Closed));
    assert_eq!(world.client.delivered(), 500);
    assert_eq!(story(&world, Side::Client, start), "0:1000 0:1000 0:500F 25:0");
    world.run_for(Span::from_secs(2));
    assert_eq!(world.client.state(), State::Closed);
    assert!(!world.client.was_reset() && !world.server().was_reset());
    assert_eq!(world.client.next_deadline(), None);
}

#[test]
fn both_close_at_once() {
    let mut world = World::established(&config(), steady(DELAY));
    world.client.close();
    world.server().close();
    world.run_for(Span::from_millis(7));
    assert_eq!((world.client.state(), world.server().state()), (State::Closing, State::Closing));
    world.run_for(Span::from_millis(10));
    assert_eq!((world.client.state(), world.server().state()), (State::TimeWait, State::TimeWait));
    world.run_for(Span::from_secs(2));
    assert!(world.client.is_closed() && world.server().is_closed());
}

#[test]
fn both_open_at_once() {
    let (mut a, mut b) = (Endpoint::connect(&config(), 10), Endpoint::connect(&config(), u32::MAX));
    let mut now = Instant::from_nanos(1);
    a.write(100);
    for _ in 0..4 {
        let said = [&mut a, &mut b]
            .map(|end| std::iter::from_fn(|| end.poll_transmit(now)).collect::<Vec<_>>());
        now += DELAY;
        said[0].iter().for_each(|segment| b.handle(now, segment, false));
        said[1].iter().for_each(|segment| a.handle(now, segment, false));
    }
    assert!(a.is_established() && b.is_established());
    assert_eq!(b.delivered(), 100);
}

#[test]
fn a_lost_end_is_sent_again_and_answered_again() {
    // The first FIN of each side is lost, and the last acknowledgement.
    let (mut fins, mut lasts) = ([0, 0], 0);
    let mut world = World::established(&config(), steady(DELAY));
    world.set_channel(choosy(DELAY, move |it| {
        let fin = it.segment.flags.contains(Flags::FIN);
        fins[it.from as usize] += usize::from(fin);
        let is_last = it.from == Side::Client && !fin && fins[1] > 1;
        lasts += usize::from(is_last);
        !(fin && fins[it.from as usize] == 1 || is_last && lasts == 1)
    }));
    world.client.close();
    world.run_until(|world| world.server().peer_closed());
    world.server().close();
    world.run_until(|world| world.server().is_closed());
    assert_eq!(world.client.state(), State::TimeWait);
    assert!(!world.server().was_reset());
    assert_eq!(world.server().stats().retransmitted, 2);
}

#[test]
fn who_gives_up_resets_the_other() {
    let mut world = World::established(&config(), steady(DELAY));
    world.client.write(5_000);
    world.run_for(Span::from_millis(7));
    world.client.abort();
    assert!(world.client.is_closed() && world.client.was_reset());
    world.run_for(Span::from_millis(50));
    assert!(world.server().is_closed() && world.server().was_reset());
    // A stray segment meets a reset, and a reset nothing.
    let stray = Segment { ack: 77, ..world.sent_by(Side::Server).last().unwrap().segment };
    let now = world.now;
    world.client.handle(now, &stray, false);
    let reset = world.client.poll_transmit(now).unwrap();
    assert_eq!((reset.seq, reset.flags), (77, Flags::RST));
    world.server().handle(now, &reset, false);
    assert_eq!(world.server().poll_transmit(now), None);
}

#[test]
fn a_reset_that_is_only_near_is_asked_about() {
    // RFC 5961 §3
    let mut world = World::established(&config(), steady(DELAY));
    let now = world.now;
    world.client.write(100);
    let data = world.client.poll_transmit(now).unwrap();
    let forged = Segment { seq: data.ack.wrapping_add(5), flags: Flags::RST, len: 0, ..data };
    world.client.handle(now, &forged, false);
    assert!(world.client.is_established());
    let challenge = world.client.poll_transmit(now).unwrap();
    assert_eq!((challenge.len, challenge.flags), (0, Flags::ACK));
    world.client.handle(now, &Segment { seq: data.ack, ..forged }, false);
    assert!(world.client.was_reset());
}

#[test]
fn every_second_segment_is_acknowledged_and_a_single_one_after_a_while() {
    let config = Config { quick_acks: 0, initial_window: 10, ..config() };
    let mut world = World::established(&config, steady(DELAY));
    let start = world.now;
    world.client.write(5_000);
    world.settle();
    assert_eq!(story(&world, Side::Server, start), "5:0 5:0 45:0");
    // Quick ones are quick, until they are used up.
    let config = Config { quick_acks: 3, ..config };
    let mut world = World::established(&config, steady(DELAY));
    let start = world.now;
    world.client.write(6_000);
    world.settle();
    assert_eq!(story(&world, Side::Server, start), "5:0 5:0 5:0 5:0 45:0");
}

#[test]
fn an_acknowledgement_of_many_segments_is_one_of_the_quick_ones() {
    let config = Config { quick_acks: 3, initial_window: 10, ..config() };
    let mut world = World::established(&config, dropping(DELAY, &[1]));
    world.client.write(10_000);
    world.settle();
    // What filled the gap acknowledged all ten, and two more are quick.
    let start = world.now;
    world.client.write(1_000);
    world.settle();
    assert!(world.now.since(start) < Span::from_millis(20));
}

#[test]
fn reports_of_a_gap_keep_each_other_company_once_it_is_known() {
    let config = Config { quick_acks: 0, initial_window: 40, ..config() };
    let reports = |sack_delay| {
        // On this link a segment takes 10 µs, and a twentieth of the round trip is half a
        // millisecond.
        let mut world = World::established(&Config { sack_delay, ..config }, dropping(DELAY, &[1]));
        world.client.write(40_000);
        world.settle();
        let reports =
            world.sent_by(Side::Server).filter(|it| !it.segment.sack.as_slice().is_empty());
        reports.count()
    };
    assert_eq!(reports(Span::ZERO), 39);
    assert_eq!(reports(Span::from_millis(1)), 4);
    // 36 in 360 µs: the first begins a wait of 100 µs, and so does the one that follows it.
    assert_eq!(reports(Span::from_micros(100)), 7);
}

#[test]
fn who_answers_lets_acknowledgements_travel_along() {
    let mut world = World::established(&config(), steady(DELAY));
    for _ in 0..5 {
        let up = world.server().delivered() + 100;
        world.client.write(100);
        world.run_until(|world| world.server().delivered() == up);
        world.server().write(100);
        world.run_until(|world| world.client.delivered() == up);
    }
    world.settle();
    // The first of each side are acknowledged at once, and the last answer alone.
    let bare = |world: &World, side| world.sent_by(side).filter(|it| it.segment.len == 0).count();
    assert_eq!((bare(&world, Side::Client), bare(&world, Side::Server)), (2, 1));
}

#[test]
fn who_stops_answering_acknowledges_at_once_again() {
    let mut world = World::established(&config(), steady(DELAY));
    world.client.write(100);
    world.run_until(|world| world.server().delivered() == 100);
    world.server().write(100);
    world.run_for(Span::from_millis(100));
    world.log.clear();
    let start = world.now;
    for _ in 0..2 {
        world.client.write(100);
        world.run_for(Span::from_millis(100));
    }
    assert_eq!(story(&world, Side::Server, start), "45:0 105:0");
}

#[test]
fn the_stamp_that_is_echoed_is_of_what_was_acknowledged() {
    // RFC 7323 §4.3: what lies beyond a gap does not count.
    let mut world = World::established(&config(), steady(DELAY));
    world.client.write(1000);
    world.settle();
    let (now, last) = (world.now, world.sent_by(Side::Client).last().unwrap().segment);
    let stamps = |value| last.timestamps.map(|it| tcp::Timestamps { value, ..it });
    let value = last.timestamps.unwrap().value;
    let beyond =
        Segment { seq: last.seq.wrapping_add(2000), timestamps: stamps(value + 7), ..last };
    world.server().handle(now, &beyond, false);
    assert_eq!(world.server().poll_transmit(now).unwrap().timestamps.unwrap().echo, value);
    let next = Segment { seq: last.seq.wrapping_add(1000), timestamps: stamps(value + 9), ..last };
    world.server().handle(now, &next, false);
    assert_eq!(world.server().poll_transmit(now).unwrap().timestamps.unwrap().echo, value + 9);
}

#[test]
fn small_writes_wait_as_nagle_says() {
    let sent = |nagle| {
        let config = Config { nagle, quick_acks: 0, rack_tlp: false, ..config() };
        let mut world = World::established(&config, steady(DELAY));
        let start = world.now;
        for bytes in [1500, 200, 300] {
            world.client.write(bytes);
            world.flush();
        }
        world.settle();
        story(&world, Side::Client, start)
    };
    assert_eq!(sent(Nagle::Off), "0:1000 0:500 0:200 0:300");
    assert_eq!(sent(Nagle::Minshall), "0:1000 0:500 10:500");
    // The rest of a message waits as well.
    assert_eq!(sent(Nagle::Classic), "0:1000 0:1000");
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let config = Config { receive_buffer: 3_000, auto_read: false, ..config() };
    let mut world = World::established(&config, steady(DELAY));
    let start = world.now;
    world.client.write(5_000);
    world.run_for(Span::from_secs(2));
    assert_eq!((world.server().delivered(), world.server().unread()), (3_000, 3_000));
    // Probes carry nothing and back off: 210 ms, then 420 and 840 after what they were answered.
    assert_eq!(story(&world, Side::Client, start), "0:1000 0:1000 0:1000 220:0 650:0 1500:0");
    // The application reads, but the news is lost.
    world.set_channel(choosy(DELAY, |it| it.from == Side::Client));
    world.server().read(3_000);
    world.run_for(Span::from_millis(500));
    world.set_channel(steady(DELAY));
    world.settle();
    assert_eq!(world.server().delivered(), 5_000);
    assert_eq!(world.client.stats().timeouts, 0);
}

#[test]
fn a_sliver_of_a_window_is_used_only_when_nothing_better_comes() {
    let config = Config { receive_buffer: 2_500, auto_read: false, ..config() };
    let mut world = World::established(&config, steady(DELAY));
    let start = world.now;
    world.client.write(5_000);
    world.run_for(Span::from_millis(300));
    assert_eq!(story(&world, Side::Client, start), "0:1000 0:1000 220:500");
}

#[test]
fn what_is_beyond_the_window_is_not_taken() {
    let config = Config { receive_buffer: 3_000, auto_read: false, ..config() };
    let mut world = World::established(&config, steady(DELAY));
    world.client.write(2_000);
    world.settle();
    let (now, last) = (world.now, world.sent_by(Side::Client).last().unwrap().segment);
    let bold = Segment { seq: last.seq.wrapping_add(1000), len: 5_000, ..last };
    world.server().handle(now, &bold, false);
    assert_eq!(world.server().delivered(), 3_000);
    world.server().handle(now, &Segment { seq: bold.seq.wrapping_add(5_000), ..bold }, false);
    assert_eq!(world.server().poll_transmit(now).unwrap().sack.as_slice(), []);
    assert_eq!(world.server().delivered(), 3_000);
}

#[test]
fn a_window_opens_by_no_slivers() {
    let config = Config { receive_buffer: 3_000, auto_read: false, ..config() };
    let mut world = World::established(&config, steady(DELAY));
    world.client.write(10_000);
    world.run_for(Span::from_millis(50));
    let before = world.sent_by(Side::Server).count();
    for _ in 0..9 {
        world.server().read(100);
        world.flush();
    }
    assert_eq!(world.sent_by(Side::Server).count(), before);
    world.server().read(100);
    world.flush();
    assert_eq!(world.sent_by(Side::Server).count(), before + 1);
    world.run_for(Span::from_millis(20));
    assert_eq!(world.server().delivered(), 4_000);
}

/// Marks the client's segments with these numbers.
fn marking(numbers: &'static [usize]) -> Channel {
    let mut inner = steady(DELAY);
    Box::new(move |it| {
        let mut passage = inner(it);
        passage[0].1 =
            it.from == Side::Client && it.segment.ecn_capable && numbers.contains(&it.number);
        passage
    })
}

#[test]
fn a_mark_is_echoed_until_it_was_heard_and_halves_the_window_once() {
    let config = Config { ecn: true, ..config() };
    let mut world = World::established(&config, marking(&[2, 3]));
    let start = world.now;
    world.client.write(20_000);
    world.settle();
    let stats = world.client.stats();
    assert_eq!((stats.retransmitted, stats.ssthresh), (0, Some(5)), "{stats:?}");
    let told: Vec<_> =
        world.sent_by(Side::Client).filter(|it| it.segment.flags.contains(Flags::CWR)).collect();
    assert_eq!(told.len(), 1);
    let server = story(&world, Side::Server, start);
    assert!(server.starts_with("5:0 5:0E 5:0E 5:0E 5:0E 5:0E 5:0E 5:0E 5:0E 5:0E "), "{server}");
    assert!(!server.ends_with('E'), "{server}");
}

#[test]
fn a_loss_behind_a_mark_is_repaired_all_the_same() {
    for profile in [Profile::Linux, Profile::Linux2013, Profile::FreeBsd9] {
        let config = Config { ecn: true, mss: 1012, initial_window: 10, ..profile.config() };
        let mut world = World::established(&config, steady(DELAY));
        let mut inner = marking(&[2]);
        world.set_channel(Box::new(move |it| if it.number == 6 { vec![] } else { inner(it) }));
        world.client.write(20_000);
        world.settle();
        let stats = world.client.stats();
        assert_eq!((stats.timeouts, stats.fast_recoveries), (0, 1), "{profile}: {stats:?}");
        // What is sent again, and what only acknowledges, is not to be marked (RFC 3168 §6.1.4,
        // §6.1.5).
        let again = world.sent_by(Side::Client).filter(|it| it.segment.len > 0).skip(10);
        let again: Vec<_> = again.filter(|it| !it.segment.ecn_capable).collect();
        assert_eq!(again.len(), 1);
        assert!(world.sent_by(Side::Server).all(|it| !it.segment.ecn_capable));
        // One reduction for both.
        let least = if config.control == Control::Cubic { 7 } else { 5 };
        assert_eq!(stats.ssthresh, Some(least), "{profile}: {stats:?}");
    }
}

#[test]
fn dctcp_echoes_mark_by_mark_and_falls_by_their_share() {
    let config = Config { control: Control::Dctcp, quick_acks: 0, ..config() };
    let mut world = World::established(&config, marking(&[3, 4, 5, 8]));
    let start = world.now;
    world.client.write(10_000);
    world.settle();
    // Two by two; where the mark changes, what was waiting is acknowledged as it was.
    assert_eq!(story(&world, Side::Server, start), "5:0 5:0E 5:0E 5:0 5:0 5:0E 5:0 45:0");
    assert!(world.sent_by(Side::Client).all(|it| it.segment.ecn_capable));
    assert_eq!(world.client.stats().retransmitted, 0);
    assert!(world.client.stats().ssthresh.is_some());
}

#[test]
fn a_pause_brings_slow_start_back() {
    let run = |slow_start_after_idle| {
        let config = Config { slow_start_after_idle, ..config() };
        let mut world = World::established(&config, steady(DELAY));
        world.client.write(200_000);
        world.settle();
        let before = world.client.stats().cwnd;
        world.run_for(Span::from_secs(10));
        world.client.write(1000);
        world.flush();
        (before, world.client.stats().cwnd)
    };
    let (before, after) = run(true);
    assert!(before > 100 && after == 10, "{before} {after}");
    let (before, after) = run(false);
    assert_eq!(before, after);
}

#[test]
fn delayed_duplicates_of_an_earlier_stamp_are_refused() {
    // RFC 7323 §5: the number fits after a wrap, the stamp tells.
    let mut world = World::established(&config(), steady(DELAY));
    world.client.write(1000);
    world.settle();
    let old = world.sent_by(Side::Client).find(|it| it.segment.len > 0).unwrap().segment;
    world.run_for(Span::from_millis(100));
    world.client.write(1000);
    world.settle();
    let now = world.now;
    let stray = Segment { seq: old.seq.wrapping_add(2000), ..old };
    world.server().handle(now, &stray, false);
    assert_eq!(world.server().delivered(), 2000);
    let answer = world.server().poll_transmit(now).unwrap();
    assert_eq!((answer.len, answer.ack), (0, old.seq.wrapping_add(2000)));
}

#[test]
fn a_stamp_of_long_ago_refuses_nothing() {
    // RFC 7323 §5.5. After 25 days a clock of milliseconds has gone more than half round, and seems
    // to have gone back.
    let mut world = World::established(&config(), steady(DELAY));
    world.client.write(1000);
    world.settle();
    world.run_for(Span::from_secs(25 * 86_400));
    world.client.write(1000);
    world.run_for(Span::from_secs(1));
    assert_eq!(world.server().delivered(), 2000);
    assert_eq!(world.client.stats().retransmitted, 0);
}

#[test]
fn the_window_that_a_syn_offers_is_not_shifted() {
    // RFC 7323 §2.2. No more than 65,535 bytes leave before the first acknowledgement, which can
    // offer more.
    let config = Config { initial_window: 100, ..config() };
    let mut world = World::new(&config, steady(DELAY));
    world.client.write(100_000);
    world.run_until(|world| world.client.is_established());
    let start = world.now;
    world.run_for(Span::from_millis(5));
    let first: u64 = world
        .sent_by(Side::Client)
        .filter(|it| it.at == start)
        .map(|it| u64::from(it.segment.len))
        .sum();
    assert_eq!(first, 65_000);
}

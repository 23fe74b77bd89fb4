//! One end of a session as its owner sees it, step by step.

mod incarnations;
mod lanes;
mod large;
mod late;
mod memory;
mod overtaking;
mod path;
mod piggyback;
mod returns;
mod silence;
mod unreliable;

use std::num::NonZeroU16;

use proptest::prelude::*;
use tunnel::message::{CreditGrant, Ends, Message, VERSION, WindowProbe};
use tunnel::{
    Admission, Arrival, Data, Epoch, Incarnation, Lane, Payload, Report, Session, SessionConfig,
    Stream,
};
use units::{Class, ClassSet, Instant, Rng, Span};

type End = Session<u32, u32>;

/// The lane of all streams where that does not matter.
const LANE: Lane = Lane(0);

fn config() -> SessionConfig {
    SessionConfig {
        unsolicited: 3000,
        is_granted: false,
        stream_window: 100_000,
        max_in_flight: 200_000,
        max_frames: 100,
        max_streams: 8,
        datagram: 1500,
        reliable: ClassSet::ALL,
        credit: ClassSet::ALL,
    }
}

/// The incarnation with which an end of this seed begins.
fn incarnation(seed: u64) -> Incarnation {
    Incarnation::random(&mut Rng::new(seed))
}

fn stream(label: u32) -> Stream {
    Stream { label, class: Class::from_low_bits(0) }
}

fn bytes(len: u16) -> NonZeroU16 {
    NonZeroU16::new(len).unwrap()
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// An end hears something.
fn hear(now: Instant, end: &mut End, message: &Message) {
    match message {
        Message::Hello(hello) => end.handle_hello(now, hello, |_| ()),
        Message::Report(report) => end.handle_report(now, report, |_, _| ()),
        Message::Data(..) => unreachable!("it comes with a frame"),
    }
}

/// Whatever they have to say now, they say to each other.
fn talk(now: Instant, ends: &mut [End; 2]) {
    while let Some((place, message)) =
        (0..2).find_map(|place| Some((place, ends[place].poll_transmit(now)?)))
    {
        hear(now, &mut ends[1 - place], &message);
    }
}

/// Whoever begins anew may send nothing unasked: the first end asks after a stream.
fn ask(from: u64, ends: &mut [End; 2], label: u32) {
    (from..from + 2).for_each(|now| talk(ms(now), ends));
    assert_eq!(ends[0].admit(LANE, stream(label), bytes(100), false), Admission::NoCredit);
    (from + 2..from + 5).for_each(|now| talk(ms(now), ends));
}

/// A report of the second end, in its first incarnation, that tells nothing.
fn report() -> Report {
    let ends = Ends { from: incarnation(2).tag(), to: incarnation(1).tag() };
    Report {
        ends,
        marked: 0,
        came: Vec::new(),
        marks: Vec::new(),
        grants: Vec::new(),
        nacks: Vec::new(),
        window_probes: Vec::new(),
        returns: Vec::new(),
    }
}

/// Two ends that know each other.
fn pair(now: Instant, config: SessionConfig) -> [End; 2] {
    pair_of(now, [config; 2])
}

fn pair_of(now: Instant, [one, other]: [SessionConfig; 2]) -> [End; 2] {
    let mut ends =
        [(one, 1), (other, 2)].map(|(config, number)| Session::new(now, config, Rng::new(number)));
    talk(now, &mut ends);
    ends
}

/// A frame comes to an end. What is handed on.
fn arrive(now: Instant, end: &mut End, data: &Data) -> Vec<(Stream, Epoch, u64)> {
    let mut delivered = Vec::new();
    end.handle_data(now, data, false, Payload::Frame(0), |arrival| {
        if let Arrival::Deliver { stream, from, offset, .. } = arrival {
            delivered.push((stream, from, offset));
        }
    });
    delivered
}

/// A frame goes from the first end to the second, which takes it or not.
fn carry(now: Instant, [from, to]: &mut [End; 2], label: u32, len: u16, is_taken: bool) {
    assert_eq!(from.admit(LANE, stream(label), bytes(len), false), Admission::Go);
    let data = from.send(now, stream(label), bytes(len), 0);
    for (stream, epoch, offset) in arrive(now, to, &data) {
        if is_taken {
            to.consumed(stream, epoch, offset);
        }
    }
}

/// Two ends of which the first has sent enough before to have a wide window.
fn wide() -> [End; 2] {
    let mut ends = pair(ms(1), config());
    for _ in 0..10 {
        while ends[0].admit(LANE, stream(1), bytes(1500), false) == Admission::Go {
            carry(ms(1), &mut ends, 1, 1500, true);
        }
        talk(ms(1), &mut ends);
    }
    ends
}

#[test]
fn what_a_new_life_has_not_granted_holds_up_no_other_stream() {
    let config = SessionConfig { unsolicited: 10_000, ..config() };
    let mut ends = pair(ms(1), config);
    carry(ms(1), &mut ends, 1, 9000, true);
    talk(ms(1), &mut ends);
    for _ in 0..10 {
        carry(ms(1), &mut ends, 1, 9000, false);
        talk(ms(1), &mut ends);
    }
    // The receiver begins anew, and grants less than is kept for it.
    ends[1] = Session::new(ms(2), SessionConfig { stream_window: 70_000, ..config }, Rng::new(3));
    for now in (2..9).map(ms) {
        talk(now, &mut ends);
        while let Some((_, data)) = ends[0].retransmit(now) {
            arrive(now, &mut ends[1], &data);
            talk(now, &mut ends);
        }
    }
    assert_eq!(ends[0].outstanding(), 10);
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(1000), false), Admission::NoCredit);
    assert_eq!(ends[0].admit(LANE, stream(2), bytes(1000), false), Admission::Go);
}

#[test]
fn a_stream_begins_with_any_frame() {
    let mut ends = pair(ms(1), SessionConfig { unsolicited: 0, stream_window: 0, ..config() });
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(u16::MAX), false), Admission::NoCredit);
    (1..4).for_each(|now| talk(ms(now), &mut ends));
    carry(ms(4), &mut ends, 1, u16::MAX, true);
}

#[test]
fn a_quiet_stream_is_asked_after_beside_a_busy_one() {
    let mut ends = pair(ms(1), config());
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(5000), false), Admission::NoCredit);
    for us in (1000..4000).step_by(100) {
        let now = Instant::ZERO + Span::from_micros(us);
        carry(now, &mut ends, 2, 1000, true);
        talk(now, &mut ends);
    }
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(5000), false), Admission::Go);
}

#[test]
fn a_receiver_that_stands_still_is_asked_ever_less_often() {
    let mut ends = pair(ms(1), config());
    carry(ms(1), &mut ends, 1, 1000, false);
    let mut window_probes = 0;
    for now in (1..1001).map(ms) {
        while let Some(message) = ends[0].poll_transmit(now) {
            let Message::Report(report) = message else { continue };
            window_probes += report.window_probes.len();
            ends[1].handle_report(now, &report, |_, _| ());
            talk(now, &mut ends);
        }
    }
    assert!((10..40).contains(&window_probes), "{window_probes} questions in a second");
}

#[test]
fn streams_beyond_the_most_are_refused() {
    let mut ends = pair_of(ms(1), [config(), SessionConfig { max_streams: 2, ..config() }]);
    let delivered = [1, 2, 3, 1].map(|label| {
        assert_eq!(ends[0].admit(LANE, stream(label), bytes(100), false), Admission::Go);
        let data = ends[0].send(ms(1), stream(label), bytes(100), 0);
        arrive(ms(1), &mut ends[1], &data).len()
    });
    assert_eq!(delivered, [1, 1, 0, 1]);
    assert_eq!(ends[1].counters().too_many_streams, 1);
    // A question after it is refused, too, and a new incarnation of the sender may use other
    // streams.
    (1..4).for_each(|now| talk(ms(now), &mut ends));
    assert!(ends[1].counters().too_many_streams > 1);
    ends[0] = Session::new(ms(5), config(), Rng::new(4));
    ask(5, &mut ends, 3);
    carry(ms(10), &mut ends, 3, 100, true);
    assert_eq!(ends[0].counters().too_many_streams, 0);
}

#[test]
fn streams_that_nobody_needs_are_forgotten_for_others() {
    let mut ends = pair(ms(1), SessionConfig { max_streams: 2, ..config() });
    let mut now = ms(1);
    let first = ends[1].epoch();
    // Its receiver takes it at last.
    carry(now, &mut ends, 1, 100, false);
    for label in 2..20 {
        let begun = now;
        while ends[0].admit(LANE, stream(label), bytes(100), false) != Admission::Go {
            now += Span::from_millis(1);
            ends.iter_mut().for_each(|end| end.handle_timeout(now, |_| panic!()));
            // What is kept comes again.
            while let Some((frame, data)) = ends[0].retransmit(now) {
                assert_eq!((frame, data.stream), (Some(0), stream(1)));
                assert_eq!(arrive(now, &mut ends[1], &data).len(), 1);
            }
            talk(now, &mut ends);
            assert!(now.since(begun) < Span::from_millis(100), "stream {label} stands still");
        }
        carry(now, &mut ends, label, 100, true);
        talk(now, &mut ends);
        assert_eq!(ends[0].outstanding(), 1);
    }
    assert_eq!((ends[1].counters().resets, ends[1].counters().too_many_streams), (17, 0));
    let epoch = ends[1].epoch();
    assert!(epoch > first);
    ends[1].consumed(stream(1), epoch, 0);
    talk(now, &mut ends);
    assert_eq!(ends[0].outstanding(), 0);
}

#[test]
fn who_asks_for_less_than_was_refused_waits_no_more() {
    let mut ends = pair(ms(1), config());
    talk(ms(2), &mut ends);
    let [mut end, _] = ends;
    assert_eq!(end.admit(LANE, stream(1), bytes(5000), false), Admission::NoCredit);
    assert_eq!(end.admit(LANE, stream(1), bytes(100), false), Admission::Go);
    let grants = vec![CreditGrant { stream: stream(1), consumed: 0, limit: 3000 }];
    let report = Report { grants, ..report() };
    end.handle_report(ms(3), &report, |_, _| panic!());
    assert_eq!(end.poll_transmit(ms(3)), None);
    assert_eq!(end.deadline(), None, "there is nothing to ask after");
}

#[test]
fn an_old_count_of_marks_counts_as_none() {
    let mut ends = pair(ms(1), config());
    let report = |marked, number| Report { marked, came: vec![[number; 2]], ..report() };
    let mut window = Vec::new();
    for (number, marked) in [(0, 3), (1, 2), (2, 3)] {
        carry(ms(1), &mut ends, 1, 100, false);
        ends[0].handle_report(ms(2), &report(marked, number), |_, _| ());
        window.push(ends[0].path().congestion_window);
    }
    assert!(window[0] < 15_000, "marks shrink the window");
    assert_eq!(window[1..], [window[0]; 2]);
    assert_eq!(ends[0].counters().ecn_marked, 1, "no more than packets that came");
}

#[test]
fn a_long_range_is_told_by_its_end() {
    let mut ends = pair(ms(1), config());
    let mut advertised = Vec::new();
    for number in 0..70_000_u32 {
        carry(ms(1), &mut ends, 1, 1, true);
        let Some(Message::Report(report)) = ends[1].poll_transmit(ms(1)) else { continue };
        ends[0].handle_report(ms(1), &report, |_, _| ());
        if number >= 69_999 {
            advertised = report.came;
        }
    }
    assert_eq!(advertised, [[69_999 - 65_535, 69_999]]);
}

#[test]
fn silence_costs_no_memory() {
    let [mut end, _] = pair(ms(1), config());
    for _ in 0..2 {
        assert_eq!(end.admit(LANE, stream(1), bytes(1000), false), Admission::Go);
        end.send(ms(1), stream(1), bytes(1000), 0);
    }
    for _ in 0..1000 {
        let now = end.deadline().unwrap();
        end.handle_timeout(now, |_| panic!());
        while end.retransmit(now).is_some() {}
        while end.poll_transmit(now).is_some() {}
    }
    assert!(end.counters().retransmitted > 10);
    let in_flight = end.path().in_flight;
    assert!(in_flight <= 3000, "{in_flight} bytes of two frames");
}

#[test]
fn a_stream_leaves_as_many_frames_for_others_as_it_keeps() {
    let mut ends = pair(ms(1), config());
    let now = ms(1);
    let mut kept = 0;
    while ends[0].admit(LANE, stream(1), bytes(10), false) == Admission::Go {
        carry(now, &mut ends, 1, 10, false);
        talk(now, &mut ends);
        kept += 1;
    }
    assert_eq!(kept, 50);
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(10), false), Admission::NoCredit);
    assert_eq!(
        ends[0].admit(LANE, stream(1), bytes(10), true),
        Admission::Go,
        "what is begun is ended"
    );
    carry(now, &mut ends, 2, 10, true);
    // What its receiver takes at last, it may follow up.
    (2..5).map(ms).for_each(|now| talk(now, &mut ends));
    let epoch = ends[1].epoch();
    (0..50).for_each(|place| ends[1].consumed(stream(1), epoch, 10 * place));
    talk(ms(5), &mut ends);
    assert_eq!(ends[0].admit(LANE, stream(1), bytes(10), false), Admission::Go);
}

proptest! {
    #[test]
    fn a_stream_goes_on_beside_any_number_that_stand_still(
        stalled in 0_u32..63, max_frames in 1_usize..200, lens in prop::collection::vec(1_u16..1500, 1..50),
    ) {
        let mut ends = pair(ms(1), SessionConfig { unsolicited: 50_000, max_frames, max_streams: 64, ..config() });
        for label in 0..stalled {
            while ends[0].admit(LANE, stream(label), bytes(10), false) == Admission::Go {
                carry(ms(1), &mut ends, label, 10, false);
                talk(ms(1), &mut ends);
            }
        }
        prop_assert!(ends[0].outstanding() <= max_frames + 4 * stalled as usize);
        for (now, len) in (2..).map(ms).zip(lens) {
            carry(now, &mut ends, stalled, len, true);
            talk(now, &mut ends);
        }
    }
}

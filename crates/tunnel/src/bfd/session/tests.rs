use alloc::vec::Vec;
use core::num::NonZeroU8;

use proptest::prelude::*;
use units::Rng;
use zerocopy::IntoBytes;

use super::super::Interval;
use super::*;
use State::{AdminDown, Down, Init, Up};

const OURS: u32 = 7;
const THEIRS: u32 = 9;

fn config(desired_ms: u64, required_ms: u64, multiplier: u8) -> Config {
    let [desired_min_tx, required_min_rx] =
        [desired_ms, required_ms].map(|ms| Interval::new(Span::from_millis(ms)).unwrap());
    let multiplier = NonZeroU8::new(multiplier).unwrap();
    Config { desired_min_tx, required_min_rx, multiplier, is_passive: false }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// A session; each test plays its far end.
struct End {
    session: Session,
    rng: Rng,
    /// The far end's desired and required intervals, in milliseconds, and its multiplier.
    wishes: (u32, u32, u8),
}

impl End {
    fn new(config: Config) -> Self {
        let session = Session::new(config, NonZeroU32::new(OURS).unwrap());
        Self { session, rng: Rng::new(1), wishes: (300, 300, 3) }
    }

    /// An end that is up at 0 ms, and whose first Poll was answered.
    fn up(config: Config) -> Self {
        let mut end = Self::new(config);
        end.hear(0, Init);
        assert_eq!(end.said(0).len(), 1);
        end.hear_with(0, Up, Flags { is_final: true, ..Flags::default() });
        assert_eq!((end.session.state, end.session.poll), (Up, Poll::Done));
        end
    }

    fn hear(&mut self, ms: u64, state: State) -> Option<Change> {
        self.hear_with(ms, state, Flags::default())
    }

    fn hear_with(&mut self, ms: u64, state: State, flags: Flags) -> Option<Change> {
        let (desired, required, multiplier) = self.wishes;
        let mut header = Header::new(state, Diagnostic::NONE, flags, THEIRS);
        header.your_discriminator.set(OURS);
        header.detect_multiplier = multiplier;
        header.desired_min_tx.set(desired * 1000);
        header.required_min_rx.set(required * 1000);
        self.session.handle(at(ms), &Packet { header: &header, authentication: None }).unwrap()
    }

    /// Everything that the session puts out by a time.
    fn does(&mut self, ms: u64) -> impl Iterator<Item = Output> {
        let Self { session, rng, .. } = self;
        core::iter::from_fn(move || session.poll(at(ms), rng))
    }

    /// The packets that the session sends by a time, at which its state must not change.
    fn said(&mut self, ms: u64) -> Vec<Header> {
        let sent = |output| match output {
            Output::Send(header) => header,
            Output::Changed(change) => panic!("{change:?}"),
        };
        self.does(ms).map(sent).collect()
    }

    fn next_ms(&self) -> u64 {
        self.session.deadline().unwrap().as_nanos().div_ceil(1_000_000)
    }
}

#[test]
fn it_fits_a_cache_line() {
    assert!(size_of::<Session>() <= 64);
    assert!(size_of::<Option<Session>>() <= 64);
}

#[test]
fn every_transition_of_the_diagram_happens_and_no_other() {
    // §6.2. No packet ends AdminDown (§6.8.6).
    let expected = [
        (Down, [Down, Init, Up, Down]),
        (Init, [Down, Init, Up, Up]),
        (Up, [Down, Down, Up, Up]),
        (AdminDown, [AdminDown; 4]),
    ];
    for (from, outcomes) in expected {
        for (heard, to) in [AdminDown, Down, Init, Up].into_iter().zip(outcomes) {
            let mut end = End::new(config(300, 300, 3));
            match from {
                Down => {}
                Init => drop(end.hear(0, Down)),
                Up => drop(end.hear(0, Init)),
                AdminDown => drop(end.session.hold_down(Diagnostic::ADMINISTRATIVELY_DOWN)),
            }
            assert_eq!(end.session.state(), from);
            let change = end.hear(1, heard);
            assert_eq!(end.session.state(), to, "{from:?} hears {heard:?}");
            assert_eq!(
                change.map(|change| (change.from.state, change.to.state)),
                (from != to).then_some((from, to))
            );
            if matches!(from, Init | Up) && to == Down {
                assert_eq!(end.session.status().diagnostic, Diagnostic::NEIGHBOR_SIGNALED_DOWN);
            }
        }
        // Silence of the far end.
        let mut end = End::new(config(300, 300, 3));
        match from {
            Init => drop(end.hear(0, Down)),
            Up => drop(end.hear(0, Init)),
            _ => continue,
        }
        end.said(0);
        let expired = end.does(900).find_map(|output| match output {
            Output::Changed(change) => Some(change.to),
            Output::Send(_) => None,
        });
        let expired = expired.unwrap();
        assert_eq!((expired.state, expired.diagnostic), (Down, Diagnostic::DETECTION_TIME_EXPIRED));
    }
}

#[test]
fn a_session_comes_up_in_three_packets_and_polls_its_intervals() {
    let mut end = End::new(config(300, 200, 5));
    let [down] = end.said(0)[..] else { panic!() };
    assert_eq!((down.state(), down.your_discriminator.get(), down.detect_multiplier), (Down, 0, 5));
    // While not up, at least a second.
    assert_eq!((down.desired_min_tx.get(), down.required_min_rx.get()), (1_000_000, 200_000));
    end.hear(10, Down);
    let [init] = end.said(10)[..] else { panic!() };
    assert_eq!((init.state(), init.your_discriminator.get()), (Init, THEIRS));
    end.hear(20, Up);
    let [up] = end.said(20)[..] else { panic!() };
    assert_eq!((up.state(), up.desired_min_tx.get(), up.flags().poll), (Up, 300_000, true));
    // Its periodic packets carry a Poll until a Final arrives.
    let next = end.next_ms();
    assert!((20 + 225..=20 + 300).contains(&next), "{next}");
    assert!(end.said(next - 1).is_empty());
    assert!(end.said(next)[0].flags().poll);
    end.hear_with(next + 1, Up, Flags { is_final: true, ..Flags::default() });
    assert!(end.said(next + 1).is_empty());
    let next = end.next_ms();
    assert!(!end.said(next)[0].flags().poll);
}

#[test]
fn a_poll_is_answered_at_once_whatever_the_state_and_never_with_a_poll() {
    let poll = Flags { poll: true, ..Flags::default() };
    for state in [Down, Init, Up] {
        let mut end = End::new(config(300, 300, 3));
        end.said(0);
        end.hear_with(1, state, poll);
        let said = end.said(1);
        assert_eq!(said.len(), 1, "{state:?}");
        assert_eq!((said[0].flags().is_final, said[0].flags().poll), (true, false));
    }
    let mut end = End::new(config(300, 300, 3));
    end.said(0);
    end.session.hold_down(Diagnostic::ADMINISTRATIVELY_DOWN);
    end.said(0);
    end.hear_with(1, Up, poll);
    assert!(end.said(1).is_empty(), "held down, it discards");
}

#[test]
fn answering_polls_does_not_delay_periodic_packets() {
    let mut end = End::up(config(300, 300, 3));
    let next = end.next_ms();
    for ms in 0..next {
        end.hear_with(ms, Up, Flags { poll: true, ..Flags::default() });
        assert!(end.said(ms).iter().all(|header| header.flags().is_final));
    }
    assert_eq!(end.said(next).len(), 1);
}

#[test]
fn a_longer_interval_takes_effect_when_the_far_end_has_confirmed_it() {
    let mut end = End::up(config(300, 300, 3));
    end.session.configure(config(900, 300, 3));
    assert_eq!(end.session.interval(), Span::from_millis(300));
    let next = end.next_ms();
    let [asks] = end.said(next)[..] else { panic!() };
    assert_eq!((asks.flags().poll, asks.desired_min_tx.get()), (true, 900_000));
    assert_eq!(end.session.interval(), Span::from_millis(300));
    // The interval changes again before the Final, which confirms the old one.
    end.session.configure(config(800, 300, 3));
    end.hear_with(next + 1, Up, Flags { is_final: true, ..Flags::default() });
    assert_eq!(end.session.interval(), Span::from_millis(300));
    let next = end.next_ms();
    assert!(end.said(next)[0].flags().poll);
    end.hear_with(next + 1, Up, Flags { is_final: true, ..Flags::default() });
    assert_eq!(end.session.interval(), Span::from_millis(800));
    // A shorter interval takes effect at once.
    end.session.configure(config(400, 300, 3));
    assert_eq!(end.session.interval(), Span::from_millis(400));
}

#[test]
fn a_final_without_a_poll_confirms_nothing() {
    let mut end = End::up(config(300, 300, 3));
    end.session.configure(config(900, 300, 3));
    end.hear_with(1, Up, Flags { is_final: true, ..Flags::default() });
    assert_eq!(end.session.interval(), Span::from_millis(300));
}

#[test]
fn a_shorter_detection_time_takes_effect_when_the_far_end_has_confirmed_it() {
    let mut end = End::up(config(300, 600, 3));
    assert_eq!(end.session.detection_time(), Some(Span::from_millis(1800)));
    end.session.configure(config(300, 100, 3));
    assert_eq!(end.session.detection_time(), Some(Span::from_millis(1800)));
    let next = end.next_ms();
    end.said(next);
    end.hear_with(next, Up, Flags { is_final: true, ..Flags::default() });
    // The far end's desired interval is 300 ms.
    assert_eq!(end.session.detection_time(), Some(Span::from_millis(900)));
    end.session.configure(config(300, 1000, 3));
    assert_eq!(end.session.detection_time(), Some(Span::from_millis(3000)));
}

#[test]
fn the_slower_end_determines_the_interval() {
    let mut end = End::up(config(100, 100, 3));
    assert_eq!(end.session.interval(), Span::from_millis(300));
    // When the far end supports a shorter interval, the next packet is not later than that.
    end.wishes.1 = 50;
    end.hear(90, Up);
    assert_eq!(end.session.interval(), Span::from_millis(100));
    assert!(end.next_ms() <= 100);
}

#[test]
fn a_far_end_in_demand_mode_receives_only_polls() {
    let demand = Flags { demand: true, ..Flags::default() };
    let mut end = End::up(config(300, 300, 3));
    end.hear_with(1, Up, demand);
    assert_eq!(end.next_ms(), 1 + 900, "nothing but detection");
    // A Poll is sent at once, and repeated until it is answered.
    end.session.configure(config(400, 300, 3));
    assert!(end.said(500)[0].flags().poll);
    end.hear_with(700, Up, demand);
    let next = end.next_ms();
    assert!(end.said(next)[0].flags().poll);
    end.hear_with(next, Up, Flags { is_final: true, ..demand });
    assert_eq!(end.next_ms(), next + 900);
    // A diagnostic about concatenated paths is confirmed, too.
    assert!(end.session.tell(Diagnostic::CONCATENATED_PATH_DOWN).is_some());
    assert_eq!(end.session.state(), Up);
    let [told] = end.said(next)[..] else { panic!() };
    assert_eq!((told.diagnostic(), told.flags().poll), (Diagnostic::CONCATENATED_PATH_DOWN, true));
    // When the far end goes down, periodic packets resume.
    end.hear_with(next + 1, Down, demand);
    assert_eq!(end.said(next + 1).len(), 1);
    assert!(end.next_ms() <= next + 1 + 1000);
}

#[test]
fn a_far_end_that_wants_no_periodic_packets_receives_changes() {
    let mut end = End::up(config(300, 300, 3));
    end.wishes.1 = 0;
    end.hear(1, Up);
    assert_eq!(end.next_ms(), 901);
    end.session.fail(Diagnostic::FORWARDING_PLANE_RESET);
    let [down] = end.said(1)[..] else { panic!() };
    assert_eq!((down.state(), down.diagnostic()), (Down, Diagnostic::FORWARDING_PLANE_RESET));
}

#[test]
fn a_passive_end_sends_nothing_before_it_has_received_a_packet() {
    let mut end = End::new(Config { is_passive: true, ..config(300, 300, 3) });
    assert_eq!(end.session.deadline(), None);
    assert!(end.said(10_000).is_empty());
    end.hear(10_000, Down);
    assert_eq!(end.said(10_000)[0].state(), Init);
}

#[test]
fn a_session_that_is_held_down_sends_admin_down_until_it_is_released() {
    let mut end = End::up(config(300, 300, 3));
    assert!(end.session.hold_down(Diagnostic::ADMINISTRATIVELY_DOWN).is_some());
    let [held] = end.said(1)[..] else { panic!() };
    assert_eq!((held.state(), held.diagnostic()), (AdminDown, Diagnostic::ADMINISTRATIVELY_DOWN));
    // An expired detection time does not change the state, but the far end's discriminator is
    // forgotten.
    let said = end.said(5_000);
    assert_eq!((said.len(), said[0].your_discriminator.get()), (1, 0));
    assert!(end.session.release().is_some());
    assert_eq!(end.said(5_000)[0].state(), Down);
    end.hear(5_001, Down);
    end.hear(5_002, Up);
    assert_eq!(end.session.status().diagnostic, Diagnostic::NONE);
}

#[test]
fn a_packet_for_another_session_changes_nothing() {
    let mut end = End::new(config(300, 300, 3));
    let mut header = Header::new(Down, Diagnostic::NONE, Flags::default(), THEIRS);
    let authenticated = Packet { header: &header.clone(), authentication: Some(&[1, 3, 0]) };
    assert_eq!(end.session.handle(at(0), &authenticated), Err(Refusal::Authenticated));
    header.your_discriminator.set(OURS + 1);
    let other = Packet { header: &header, authentication: None };
    assert_eq!(end.session.handle(at(0), &other), Err(Refusal::UnknownSession));
    assert_eq!((end.session.detection_time(), end.session.state()), (None, Down));
}

proptest! {
    #[test]
    fn jitter_is_up_to_a_quarter_and_at_least_a_tenth_with_a_multiplier_of_1(
        seed: u64, ms in 1_u64..100_000, multiplier in 1_u8..4,
    ) {
        let mut end = End::up(config(ms, 1, multiplier));
        end.wishes.1 = 1;
        end.hear(0, Up);
        end.rng = Rng::new(seed);
        let interval = end.session.interval();
        prop_assert_eq!(interval, Span::from_millis(ms));
        let mut now = end.session.transmit_at().unwrap();
        for _ in 0..50 {
            // The far end is heard.
            end.session.heard_at = now;
            prop_assert!(matches!(end.session.poll(now, &mut end.rng), Some(Output::Send(_))));
            prop_assert_eq!(end.session.poll(now, &mut end.rng), None);
            let next = end.session.transmit_at().unwrap();
            let waits = next.since(now).as_secs_f64() / interval.as_secs_f64();
            prop_assert!((0.75..=if multiplier == 1 { 0.9 } else { 1.0 }).contains(&waits), "{}", waits);
            now = next;
        }
    }

    #[test]
    fn any_packets_are_handled_without_panic_or_endless_output(
        seed: u64,
        packets in prop::collection::vec((any::<[u8; 24]>(), 0_u64..2_000_000), 0..60),
        config in (1_u64..2_000_000, 1_u64..2_000_000, 1_u8.., any::<bool>()),
    ) {
        let (desired, required, multiplier, is_passive) = config;
        let [desired_min_tx, required_min_rx] =
            [desired, required].map(|us| Interval::new(Span::from_micros(us)).unwrap());
        let multiplier = NonZeroU8::new(multiplier).unwrap();
        let config = Config { desired_min_tx, required_min_rx, multiplier, is_passive };
        let mut session = Session::new(config, NonZeroU32::new(OURS).unwrap());
        let (mut now, mut rng) = (at(0), Rng::new(seed));
        for (mut bytes, us) in packets {
            now += Span::from_micros(us);
            bytes[0] = bytes[0] & 0x1f | 0x20;
            bytes[1] &= !0x05;
            bytes[3] = 24;
            bytes[8..12].copy_from_slice(&OURS.to_be_bytes());
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert!(session.handle(now, &packet).is_ok());
            }
            for calls in 0.. {
                prop_assert!(calls < 4, "it never returns `None`");
                match session.poll(now, &mut rng) {
                    Some(Output::Send(header)) => prop_assert!(Packet::parse(header.as_bytes()).is_some()),
                    Some(Output::Changed(change)) => prop_assert_ne!(change.from, change.to),
                    None => break,
                }
            }
            prop_assert!(session.deadline().is_none_or(|at| at > now));
        }
    }
}

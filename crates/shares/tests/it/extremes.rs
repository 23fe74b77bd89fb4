//! Whatever is asked, in whatever order: there is an answer, and never an endless loop.

use std::num::{NonZeroU16, NonZeroU32};

use proptest::prelude::*;
use shares::{Bits, Bound, Cost, Frames, Holder, Settings, Shares, Terms};
use units::{Instant, Rate, Span};

/// Any number, and those at both ends often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..5,
        (u64::MAX - 5)..=u64::MAX,
        (0u32..64).prop_map(|bits| 1 << bits),
        1_000u64..2_000_000,
    ]
}

fn small() -> impl Strategy<Value = u32> {
    number().prop_map(|number| number as u32)
}

fn bound() -> impl Strategy<Value = Bound> {
    let bits = (number(), small())
        .prop_map(|(rate, burst)| Rate::from_bits_per_sec(rate).map(|rate| Bits { rate, burst }));
    let frames = (small(), small()).prop_map(|(rate, burst)| {
        NonZeroU32::new(rate).map(|per_second| Frames { per_second, burst })
    });
    (bits, frames).prop_map(|(bits, frames)| Bound { bits, frames })
}

fn terms() -> impl Strategy<Value = Terms> {
    (bound(), bound(), small()).prop_map(|(min, max, weight)| Terms {
        min,
        max,
        weight: NonZeroU16::new(weight as u16).unwrap_or(NonZeroU16::MIN),
    })
}

fn cost() -> impl Strategy<Value = Cost> {
    (small(), small()).prop_map(|(bytes, frames)| Cost { bytes, frames })
}

fn settings() -> impl Strategy<Value = Settings> {
    (number(), number(), cost(), small()).prop_map(|(resolution, window, batch, frame_bytes)| {
        Settings {
            resolution: Span::from_nanos(resolution),
            window: Span::from_nanos(window),
            batch,
            frame_bytes,
        }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Terms),
    Remove(usize),
    Set(usize, Terms),
    Wake(usize, Cost),
    Rest(usize),
    Hold(usize, u64),
    /// Asks, and tells that so much was taken.
    Serve(Cost, Option<Cost>),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0usize..8;
    prop_oneof![
        1 => terms().prop_map(Step::Add),
        1 => place.clone().prop_map(Step::Remove),
        1 => (place.clone(), terms()).prop_map(|(place, terms)| Step::Set(place, terms)),
        4 => (place.clone(), cost()).prop_map(|(place, head)| Step::Wake(place, head)),
        1 => place.clone().prop_map(Step::Rest),
        1 => (place, number()).prop_map(|(place, until)| Step::Hold(place, until)),
        6 => (cost(), prop::option::of(cost())).prop_map(|(cost, next)| Step::Serve(cost, next)),
        3 => number().prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn there_is_an_answer_to_everything(
        settings in settings(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut shares = Shares::new(settings);
        let mut now = Instant::ZERO;
        let mut holders: Vec<Holder> = Vec::new();
        let mut waiting = std::collections::BTreeSet::new();
        let pick = |holders: &[Holder], place: usize| {
            (!holders.is_empty()).then(|| place % holders.len())
        };
        for step in steps {
            match step {
                Step::Add(terms) => holders.push(shares.add(terms)),
                Step::Remove(place) => {
                    if let Some(place) = pick(&holders, place) {
                        let holder = holders.swap_remove(place);
                        shares.remove(holder);
                        waiting.remove(&holder);
                    }
                }
                Step::Set(place, terms) => {
                    if let Some(place) = pick(&holders, place) {
                        shares.set(now, holders[place], terms);
                    }
                }
                Step::Wake(place, head) => {
                    if let Some(place) = pick(&holders, place) {
                        shares.wake(now, holders[place], head);
                        waiting.insert(holders[place]);
                    }
                }
                Step::Rest(place) => {
                    if let Some(place) = pick(&holders, place) {
                        shares.rest(holders[place]);
                        waiting.remove(&holders[place]);
                    }
                }
                Step::Hold(place, until) => {
                    if let Some(place) = pick(&holders, place) {
                        shares.hold(now, holders[place], Instant::from_nanos(until));
                    }
                }
                Step::Serve(cost, next) => {
                    let first = shares.next(now);
                    prop_assert_eq!(&first, &shares.next(now));
                    if let Some(turn) = first {
                        prop_assert!(waiting.contains(&turn.holder()));
                        if next.is_none() {
                            waiting.remove(&turn.holder());
                        }
                        shares.took(now, turn, cost, next);
                    }
                }
                Step::Pass(ns) => now += Span::from_nanos(ns),
            }
            prop_assert_eq!(shares.ready_at().is_some(), !waiting.is_empty());
            prop_assert!(shares.lost() <= now.since(Instant::ZERO));
        }
    }
}

#[test]
#[should_panic(expected = "holder 0 has left")]
fn who_has_left_cannot_wake() {
    let mut shares = Shares::new(Settings::of_link(Rate::from_gbit(1), 1514));
    let holder = shares.add(Terms::default());
    shares.remove(holder);
    shares.wake(Instant::ZERO, holder, Cost::frame(64));
}

#[test]
fn who_is_held_after_a_long_rest_of_all_is_waited_for_no_shorter() {
    let rate = Rate::from_gbit(1);
    let mut shares = Shares::new(Settings::of_link(rate, 1514));
    let slow = Bound::bits(Rate::from_bits_per_sec(10_000_000).unwrap(), 1514);
    let holder = shares.add(Terms { max: slow, ..Terms::default() });
    // Nobody has asked for longer than deadlines are told apart.
    let now = Instant::from_nanos(10_000_000_000);
    let frame = Cost::frame(1514);
    shares.wake(now, holder, frame);
    let turn = shares.next(now).expect("its bucket is full");
    shares.took(now, turn, frame, Some(frame));
    assert_eq!(shares.next(now), None);
    let at = shares.ready_at().expect("it will be ready");
    assert!(at > now && at.since(now) < Span::from_millis(2), "{at:?}");
    assert!(shares.next(at).is_some());
}

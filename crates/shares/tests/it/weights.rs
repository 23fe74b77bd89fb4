//! What guarantees leave is shared by weight.

use std::num::NonZeroU16;

use proptest::prelude::*;
use shares::{Cost, Right, Settings, Shares, Terms};
use units::{Instant, Rate, Span};

use crate::world::{FRAME, Lengths, Traffic, World};

fn weight(weight: u16) -> Terms {
    Terms { weight: NonZeroU16::new(weight).unwrap(), ..Terms::default() }
}

proptest! {
    #[test]
    fn no_two_that_always_send_differ_by_more_than_a_round_and_two_turns(
        weights in prop::collection::vec((1u16..300, any::<bool>()), 2..10),
        gbit in prop::sample::select(vec![1u64, 10, 100]),
    ) {
        let rate = Rate::from_gbit(gbit);
        let settings = Settings::of_link(rate, FRAME);
        let mut world = World::new(settings, rate);
        for (part, any_length) in &weights {
            let lengths = if *any_length { Lengths::Any } else { Lengths::All(FRAME) };
            world.add(weight(*part), Traffic::Greedy, lengths);
        }
        world.run(rate.time_for(2_000 * u64::from(FRAME)));
        let turn = f64::from(settings.batch.bytes.max(FRAME) + FRAME);
        for (one, (left, _)) in weights.iter().enumerate() {
            for (other, (right, _)) in weights.iter().enumerate().skip(one + 1) {
                // What both were sent, divided by weights, in the order in which it was sent: the
                // difference of the differences is what some interval has.
                let (left, right) = (f64::from(*left), f64::from(*right));
                let sent = |place: usize, part: f64| {
                    let sent = world.senders[place].sent.iter();
                    sent.map(move |it| (it.done, f64::from(it.bytes) / part))
                };
                let mut both: Vec<_> = sent(one, left).collect();
                both.extend(sent(other, right).map(|(done, bytes)| (done, -bytes)));
                both.sort_by_key(|(done, _)| *done);
                let (mut ahead, mut least, mut most) = (0.0, 0.0f64, 0.0f64);
                for (_, bytes) in both {
                    ahead += bytes;
                    (least, most) = (least.min(ahead), most.max(ahead));
                }
                let allowed = 2.0 * 16.0 + turn / left + turn / right;
                prop_assert!(most - least <= allowed, "{} > {}", most - least, allowed);
            }
        }
    }
}

/// Who leaves after each frame and comes back at once, and who stays, are served alike.
#[test]
fn nobody_gains_by_leaving_and_coming_back() {
    let mut shares = Shares::new(Settings::of_link(Rate::from_gbit(1), FRAME));
    let frame = Cost::frame(FRAME);
    let [stays, leaves] = [1, 1].map(|part| shares.add(weight(part)));
    let mut now = Instant::from_nanos(1);
    shares.wake(now, stays, frame);
    shares.wake(now, leaves, frame);
    let mut turns = [0; 2];
    for _ in 0..1_000 {
        let turn = shares.next(now).unwrap();
        turns[turn.holder().index()] += 1;
        let leaves_now = turn.holder() == leaves;
        shares.took(now, turn, frame, (!leaves_now).then_some(frame));
        if leaves_now {
            shares.wake(now, leaves, frame);
        }
        now += Span::from_micros(12);
    }
    assert_eq!(turns, [500, 500]);
}

/// Rounds are much smaller than frames: for each frame of the light there are three of the heavy,
/// and never more in a row than one above that.
#[test]
fn light_and_heavy_alternate_by_frames() {
    let mut world = World::gigabit();
    world.add(weight(10), Traffic::Greedy, Lengths::All(FRAME));
    world.add(weight(30), Traffic::Greedy, Lengths::All(FRAME));
    world.run(Span::from_millis(10));
    let light: Vec<_> = world.senders[0].sent.iter().map(|it| it.begun).collect();
    let frame = world.rate.time_for(FRAME.into());
    for pair in light.windows(2) {
        let apart = pair[1].since(pair[0]).as_nanos() / frame.as_nanos();
        assert!((3..=4).contains(&apart), "{apart} frames after another");
    }
}

/// Where a frame costs as much as 1,454 bytes, a full one costs twice what a small one does.
#[test]
fn small_frames_are_charged_what_they_cost() {
    let settings =
        Settings { frame_bytes: FRAME - 60, ..Settings::of_link(Rate::from_gbit(1), FRAME) };
    let mut world = World::new(settings, Rate::from_gbit(1));
    world.add(weight(1), Traffic::Greedy, Lengths::All(60));
    world.add(weight(1), Traffic::Greedy, Lengths::All(FRAME));
    world.run(Span::from_millis(20));
    let [small, full] = [0, 1].map(|place| world.senders[place].sent.len() as f64);
    let exact = f64::from(2 * FRAME - 60) / f64::from(FRAME);
    assert!((small / full / exact - 1.0).abs() < 0.02, "{small} small frames, {full} full ones");
    assert!(world.senders.iter().all(|it| it.sent.iter().all(|sent| sent.right == Right::Weight)));
}

//! Whoever has a guarantee has it in every interval, whatever others do.

use std::num::{NonZeroU16, NonZeroU32};

use proptest::prelude::*;
use shares::{Bits, Bound, Cost, Frames, Settings, Shares, Terms};
use units::{Instant, Rate, Span};

use crate::fluid;
use crate::world::{FRAME, Lengths, Sender, Sent, Traffic, World};

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000).unwrap()
}

/// Objects if a sender that always had something to send was sent less, in some interval, than its
/// guarantee is worth there.
///
/// A guarantee in frames is as many full ones: it is asked of who sends such alone.
fn has_its_guarantee(place: usize, sender: &Sender, from: Instant, to: Instant, late: Span) {
    let Bound { bits: Some(Bits { rate, .. }), frames } = sender.terms.min else { return };
    if frames.is_some() && !matches!(sender.lengths, Lengths::All(FRAME)) {
        return;
    }
    let allowed = 2 * u64::from(FRAME) * 8_000_000_000;
    let allowed =
        i128::from(allowed) + i128::from(late.as_nanos()) * i128::from(rate.bits_per_sec());
    // What was sent, less what is guaranteed, since the beginning: it never falls by more.
    let (mut sent, mut highest) = (0i128, 0i128);
    let ahead = |sent: i128, at: Instant| {
        sent - i128::from(at.since(from).as_nanos()) * i128::from(rate.bits_per_sec())
    };
    for Sent { begun, done, bytes, .. } in &sender.sent {
        let before = ahead(sent, *begun);
        assert!(
            highest - before <= allowed,
            "{place} was sent {} bytes less than its guarantee until {begun:?}",
            (highest - before) / 8_000_000_000
        );
        sent += i128::from(*bytes) * 8_000_000_000;
        highest = highest.max(ahead(sent, *done));
    }
    assert!(highest - ahead(sent, to) <= allowed, "{place} at the end");
}

/// Terms of so many senders, of which the guarantees fill this much of the link, and what they do.
fn senders(filled: u64) -> impl Strategy<Value = Vec<(Terms, Traffic, Lengths)>> {
    prop::collection::vec((0u64..100, 1u16..20, 0u8..4, 0u8..8, any::<bool>(), 1u32..4), 1..14)
        .prop_map(move |drawn| {
            let whole: u64 = drawn.iter().map(|it| it.0).sum::<u64>().max(1);
            drawn
                .into_iter()
                .map(|(part, weight, max, traffic, any_length, burst)| {
                    let share = part * filled * 10 / whole;
                    let mut min = match share {
                        0 => Bound::default(),
                        mbits => Bound::bits(mbit(mbits), burst * FRAME),
                    };
                    // As many frames as its bits are, if they are full: the same for those, and
                    // fewer bits for others.
                    if weight % 3 == 0
                        && let Some(bits) = min.bits
                    {
                        let frames = bits.rate.bits_per_sec().div_ceil(u64::from(FRAME) * 8);
                        let per_second = NonZeroU32::new(frames as u32).unwrap();
                        min.frames = Some(Frames { per_second, burst });
                    }
                    let max = match max {
                        0 => Bound::bits(mbit(share + 100), 20 * FRAME),
                        _ => Bound::default(),
                    };
                    let weight = NonZeroU16::new(weight).unwrap();
                    let rate = mbit(share.max(1));
                    let traffic = match traffic {
                        0 => Traffic::OnOff(Span::from_micros(500), Span::from_micros(1_500)),
                        1 => Traffic::OnOff(Span::from_micros(200), Span::from_micros(600)),
                        2 | 3 if share > 0 => Traffic::Steady(rate.time_for(FRAME.into())),
                        4 => Traffic::Random(Span::from_micros(50)),
                        _ => Traffic::Greedy,
                    };
                    let lengths = if any_length { Lengths::Any } else { Lengths::All(FRAME) };
                    (Terms { min, max, weight }, traffic, lengths)
                })
                .collect()
        })
}

proptest! {
    #[test]
    fn nobody_is_sent_less_or_later_than_guaranteed(
        senders in (1u64..=100).prop_flat_map(senders),
        gbit in prop::sample::select(vec![1u64, 10]),
    ) {
        let rate = Rate::from_gbit(1);
        let settings = Settings::of_link(Rate::from_gbit(gbit), FRAME);
        let mut world = World::new(settings, rate);
        for (terms, traffic, lengths) in senders {
            world.add(terms, traffic, lengths);
        }
        let (start, late) = (world.now, world.lateness());
        world.run(Span::from_millis(20));
        // A maximum may hold back what came late.
        let unbounded = |sender: &Sender| sender.terms.max == Bound::default();
        for (place, sender) in world.senders.iter().enumerate() {
            match sender.traffic {
                _ if !unbounded(sender) => {}
                Traffic::Greedy => {
                    has_its_guarantee(place, sender, start, world.now, late);
                }
                // It keeps to its guarantee: each frame has gone in time.
                Traffic::Steady(_) => {
                    for sent in &sender.sent {
                        let waited = sent.done.since(sent.came);
                        prop_assert!(waited <= late, "{} waited {}, not {}", place, waited, late);
                    }
                }
                _ => {}
            }
        }
        prop_assert_eq!(world.shares.lost(), Span::ZERO);
    }

    #[test]
    fn whoever_always_sends_is_served_as_by_a_fluid_link(
        senders in (0u64..=80).prop_flat_map(senders),
    ) {
        let mut world = World::gigabit();
        for (terms, ..) in senders {
            world.add(terms, Traffic::Greedy, Lengths::All(FRAME));
        }
        // Until the bursts of the maxima are over.
        world.run(Span::from_millis(50));
        let before: Vec<_> = world.senders.iter().map(Sender::bytes).collect();
        let span = Span::from_millis(100);
        world.run(span);
        let terms: Vec<_> = world.senders.iter().map(|it| it.terms).collect();
        let rates = fluid::rates(1e9, FRAME, &terms);
        for (place, (sender, rate)) in world.senders.iter().zip(&rates).enumerate() {
            let sent = (sender.bytes() - before[place]) as f64;
            let fluid = (rate * span.as_secs_f64()) / 8.0;
            // A hundredth, and some frames.
            let allowed = fluid / 100.0 + 8.0 * f64::from(FRAME);
            prop_assert!(
                (sent - fluid).abs() <= allowed,
                "{}: {} bytes instead of {}; {:?}, {:?}", place, sent, fluid, terms, rates,
            );
        }
    }
}

#[test]
fn who_renounces_the_rest_has_its_guarantee_alone() {
    let gigabit = Rate::from_gbit(1);
    let mut shares = Shares::new(Settings::of_link(gigabit, FRAME));
    let rate = Rate::from_bits_per_sec(100_000_000).unwrap();
    let min = Bound::bits(rate, FRAME);
    let first = shares.add(Terms { min, ..Terms::default() });
    let second = shares.add(Terms::default());
    let mut now = Instant::ZERO;
    let head = Cost::frame(FRAME);
    [first, second].into_iter().for_each(|holder| shares.wake(now, holder, head));
    let mut run = |shares: &mut Shares| {
        let mut frames = [0_u64; 2];
        for _ in 0..1000 {
            let turn = shares.next(now).expect("the second always waits");
            frames[turn.holder().index()] += 1;
            shares.took(now, turn, head, Some(head));
            now += gigabit.time_for(FRAME.into());
        }
        frames[first.index()]
    };
    assert!((540..=560).contains(&run(&mut shares)), "a tenth, and half of the rest");
    shares.renounce(first);
    assert!((95..=105).contains(&run(&mut shares)), "a tenth");
    assert!(shares.due_at().is_some());
    shares.claim(first);
    assert!((540..=560).contains(&run(&mut shares)), "as before");
}

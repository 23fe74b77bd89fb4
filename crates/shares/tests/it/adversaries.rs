//! What tenants do who want more than is theirs.

use std::num::NonZeroU32;

use shares::{Bits, Bound, Cost, Excess, Holder, Right, Settings, Shares, Terms};
use units::{Instant, Rate, Rng, Span};

use crate::world::{FRAME, Lengths, Traffic, World};

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000).unwrap()
}

fn guaranteed(rate: Rate, burst: u32) -> Terms {
    Terms { min: Bound::bits(rate, burst), ..Terms::default() }
}

fn frames(per_second: u32, burst: u32) -> Bound {
    Bound::frames(NonZeroU32::new(per_second).unwrap(), burst)
}

/// How long the frames of a sender waited that came from `from` on: at the median, and at most, in
/// frames' times.
fn waits(world: &World, place: usize, from: Instant) -> (f64, f64) {
    let frame = world.rate.time_for(FRAME.into()).as_secs_f64();
    let sent = world.senders[place].sent.iter().filter(|it| it.came >= from);
    let mut waits: Vec<_> = sent.map(|it| it.done.since(it.came).as_secs_f64() / frame).collect();
    waits.sort_by(f64::total_cmp);
    (waits[waits.len() / 2], waits[waits.len() - 1])
}

/// Two frames are the physical limit: one in service, and one's own. A slot comes on top.
#[test]
fn a_conforming_frame_waits_for_the_one_in_service_beside_any_number_of_greedy_tenants() {
    for others in [7, 31, 127] {
        let mut world = World::gigabit();
        // All guarantees together are 90 % of the link.
        let rate = Rate::from_bits_per_sec(900_000_000 / (others + 1)).unwrap();
        let gap = rate.time_for(FRAME.into());
        let victim = world.add(
            guaranteed(rate, FRAME),
            Traffic::Steady(Span::from_nanos(gap.as_nanos() * 10 / 9 + 13)),
            Lengths::All(FRAME),
        );
        for _ in 0..others {
            world.add(guaranteed(rate, FRAME), Traffic::Greedy, Lengths::All(FRAME));
        }
        let start = world.now;
        world.run(Span::from_millis(200));
        // While all begin at once, they wait for one another; after that not.
        let (median, longest) = waits(&world, victim, start + Span::from_millis(20));
        assert!(median <= 1.6 && longest <= 2.1, "{others}: {median} and {longest} frames");
        let (_, at_first) = waits(&world, victim, start);
        assert!(at_first <= others as f64 + 2.1, "{others}: {at_first} frames at first");
    }
}

/// EyeQ's pattern and quicker ones: line rate for a time, then silence.
#[test]
fn bursts_of_others_are_not_seen() {
    for (on, off) in [(5_000, 15_000), (1_000, 3_000), (200, 600)] {
        let mut world = World::gigabit();
        let victim = world.add(
            guaranteed(mbit(200), FRAME),
            Traffic::Steady(mbit(190).time_for(FRAME.into())),
            Lengths::All(FRAME),
        );
        for _ in 0..8 {
            let traffic = Traffic::OnOff(Span::from_micros(on), Span::from_micros(off));
            world.add(Terms::default(), traffic, Lengths::All(FRAME));
        }
        world.run(Span::from_millis(100));
        let (_, longest) = waits(&world, victim, Instant::ZERO);
        assert!(longest <= 2.1, "{longest} frames");
    }
}

/// One network sends at its guarantee, and another more than its own, with a maximum or without.
/// The first is served from the first frame on, not once a deep bucket of the other's is empty.
#[test]
fn a_network_within_its_guarantee_is_served_from_the_first_frame_of_anothers_burst_on() {
    for (offered, limit) in [(465, 100), (465, 206), (465, 255), (640, 100), (640, 206), (640, 255)]
    {
        for bounded in [true, false] {
            let mut world = World::gigabit();
            let first = world.add(
                guaranteed(mbit(640), FRAME),
                Traffic::Steady(mbit(640).time_for(FRAME.into())),
                Lengths::All(FRAME),
            );
            let max = if bounded { Bound::bits(mbit(limit), 4 * FRAME) } else { Bound::default() };
            let second = world.add(
                Terms { max, ..guaranteed(mbit(limit), FRAME) },
                Traffic::Steady(mbit(offered).time_for(FRAME.into())),
                Lengths::All(FRAME),
            );
            let span = Span::from_millis(200);
            world.run(span);
            let (_, longest) = waits(&world, first, Instant::ZERO);
            assert!(longest <= 2.1, "{longest} frames");
            let expected = if bounded { limit } else { offered.min(360) };
            let sent = world.senders[second].bytes() as f64;
            let exact = expected as f64 * 1e6 / 8.0 * span.as_secs_f64();
            assert!((sent / exact - 1.0).abs() < 0.02, "{sent} bytes, not {exact}");
        }
    }
}

/// The link's processor passes 400,000 frames a second: of a guarantee in bits, small frames would
/// take them all.
#[test]
fn small_frames_take_no_more_than_their_guarantee_in_frames() {
    let per_frame = Span::from_nanos(2_500);
    let mut shares = Shares::new(Settings {
        frame_bytes: FRAME,
        batch: Cost::frame(FRAME),
        ..Settings::of_link(Rate::from_gbit(10), FRAME)
    });
    let min = |mbits, per_second| Bound {
        bits: Some(Bits { rate: mbit(mbits), burst: FRAME }),
        ..frames(per_second, 1)
    };
    let small = shares.add(Terms { min: min(1_000, 100_000), ..Terms::default() });
    let full = shares.add(Terms { min: min(2_000, 170_000), ..Terms::default() });
    let costs = [Cost::frame(60), Cost::frame(FRAME)];
    let mut now = Instant::from_nanos(5);
    for (holder, cost) in [small, full].into_iter().zip(costs) {
        shares.wake(now, holder, cost);
    }
    let (mut all, mut within) = ([0u32; 2], [0u32; 2]);
    for _ in 0..40_000 {
        let turn = shares.next(now).unwrap();
        let place = turn.holder().index();
        all[place] += 1;
        within[place] += u32::from(turn.right() == Right::Guarantee);
        shares.took(now, turn, costs[place], Some(costs[place]));
        now += per_frame;
    }
    // In a tenth of a second: 10,000 and 2,000 Mb/s of full frames by guarantee, and of the rest
    // alike, for a frame costs as much as its longest would.
    assert!(within[0].abs_diff(10_000) < 10, "{within:?}");
    assert!(within[1].abs_diff(16_513) < 10, "{within:?}");
    let rest = [all[0] - within[0], all[1] - within[1]];
    assert!(rest[0] < 2 * rest[1] + 10, "{rest:?}");
}

/// Nobody exceeds a maximum in frames, or in both; [`World`] looks at each frame.
#[test]
fn maxima_hold_in_frames_and_in_bits() {
    let mut world = World::gigabit();
    let both = Bound { frames: frames(20_000, 3).frames, ..Bound::bits(mbit(50), 3 * FRAME) };
    world.add(Terms { max: both, ..Terms::default() }, Traffic::Greedy, Lengths::All(100));
    world.add(Terms { max: both, ..Terms::default() }, Traffic::Greedy, Lengths::All(FRAME));
    world.add(Terms { max: both, ..Terms::default() }, Traffic::Greedy, Lengths::Any);
    // A frame is more than this bucket holds: they go one by one.
    let shallow = Bound::bits(mbit(30), 100);
    world.add(Terms { max: shallow, ..Terms::default() }, Traffic::Greedy, Lengths::All(FRAME));
    let span = Span::from_millis(100);
    world.run(span);
    assert!(world.senders[0].sent.len().abs_diff(2_000) < 40, "{}", world.senders[0].sent.len());
    let mbits = |place: usize| world.senders[place].bytes() as f64 * 8.0 / span.as_secs_f64() / 1e6;
    assert!((mbits(1) - 50.0).abs() < 1.0, "{}", mbits(1));
    assert!(mbits(3) <= 30.2 && mbits(3) > 25.0, "{}", mbits(3));
}

/// Holders come and go, and change their terms; whoever stays has its guarantee.
#[test]
fn churn_takes_nothing_from_whoever_stays() {
    let rate = Rate::from_gbit(1);
    let frame = Cost::frame(FRAME);
    let mut shares = Shares::new(Settings::of_link(rate, FRAME));
    let victim = shares.add(guaranteed(mbit(200), FRAME));
    let mut now = Instant::from_nanos(77);
    let mut rng = Rng::new(3);
    let mut others: Vec<Holder> = Vec::new();
    let gap = mbit(190).time_for(FRAME.into());
    let (mut comes, mut waits_from, mut worst, mut served) = (now, None, Span::ZERO, 0);
    for step in 0..200_000 {
        // Never more than eight of 90 Mb/s each.
        match rng.below(40) {
            0 if others.len() < 8 => {
                let holder = shares.add(guaranteed(mbit(90), FRAME));
                shares.wake(now, holder, frame);
                others.push(holder);
            }
            1 if !others.is_empty() => {
                let place = rng.below(others.len() as u64) as usize;
                shares.remove(others.swap_remove(place));
            }
            2 if !others.is_empty() => {
                let holder = others[rng.below(others.len() as u64) as usize];
                shares.set(now, holder, guaranteed(mbit(10 + rng.below(80)), FRAME));
            }
            3 if !others.is_empty() => {
                let holder = others[rng.below(others.len() as u64) as usize];
                shares.rest(holder);
                shares.wake(now, holder, frame);
            }
            _ => {}
        }
        if comes <= now {
            if waits_from.is_none() {
                shares.wake(comes, victim, frame);
                waits_from = Some(comes);
            }
            comes += gap;
        }
        match shares.next(now) {
            Some(turn) if turn.holder() == victim => {
                now += rate.time_for(FRAME.into());
                worst = worst.max(now.since(waits_from.take().expect("it waits")));
                served += 1;
                shares.took(now, turn, frame, None);
            }
            Some(turn) => {
                shares.took(now, turn, frame, Some(frame));
                now += rate.time_for(FRAME.into());
            }
            None => now = now.max(comes),
        }
        assert_eq!(shares.lost(), Span::ZERO, "step {step}");
    }
    // A burst of each that is there, and of some that came anew.
    assert!(served > 20_000 && worst < Span::from_micros(12 * 20), "{served} frames, {worst}");
}

/// Terms that change before each turn, to the same or back and forth, make room for nothing.
#[test]
fn changing_terms_forgives_nothing() {
    let frame = Cost::frame(FRAME);
    let bound = Bound { frames: frames(8_000, 4).frames, ..Bound::bits(mbit(80), 4 * FRAME) };
    for right in [Right::Guarantee, Right::Weight] {
        let terms = match right {
            Right::Guarantee => {
                [guaranteed(mbit(80), 4 * FRAME), Terms { min: bound, ..Terms::default() }]
            }
            Right::Weight => [Terms { max: bound, ..Terms::default() }; 2],
        };
        let mut shares = Shares::new(Settings::of_link(Rate::from_gbit(1), FRAME));
        let holder = shares.add(terms[0]);
        let start = Instant::from_nanos(1_000);
        let mut now = start;
        shares.wake(now, holder, frame);
        let mut sent = 0u64;
        for step in 0..8_000 {
            shares.set(now, holder, terms[step % 2]);
            if let Some(turn) = shares.next(now) {
                sent += u64::from(turn.right() == right);
                shares.took(now, turn, frame, Some(frame));
            }
            now += Span::from_micros(12);
        }
        let exact = mbit(80).bytes_in(now.since(start)) / u64::from(FRAME);
        assert!(sent <= exact + 5, "{sent} frames by {right:?}, not {exact}");
        assert!(sent >= exact * 9 / 10, "{sent} frames by {right:?}, not {exact}");
    }
}

/// Thousands of holders, each with a guarantee: every one of them has it.
#[test]
fn four_thousand_holders_each_have_their_guarantee() {
    const HOLDERS: u64 = 4_096;
    let link = Rate::from_gbit(10);
    let frame = Cost::frame(FRAME);
    let rate = Rate::from_bits_per_sec(9_000_000_000 / HOLDERS).unwrap();
    let terms = guaranteed(rate, FRAME);
    // All at once they are 5 ms: more than a calendar of microseconds can make good.
    let fine = Settings::of_link(link, FRAME);
    let late = fine.lateness(link, FRAME, &vec![terms; HOLDERS as usize]);
    assert!(matches!(late, Err(Excess::Lateness(late)) if late > Span::from_millis(4)), "{late:?}");
    let settings = Settings { window: Span::from_millis(20), ..fine };
    let late = settings.lateness(link, FRAME, &vec![terms; HOLDERS as usize]).unwrap();

    let mut shares = Shares::new(settings);
    let start = Instant::from_nanos(9);
    let mut now = start;
    for _ in 0..HOLDERS {
        let holder = shares.add(terms);
        shares.wake(now, holder, frame);
    }
    let mut sent = vec![0u64; HOLDERS as usize];
    let span = Span::from_millis(100);
    while now.since(start) < span {
        let turn = shares.next(now).unwrap();
        sent[turn.holder().index()] += 1;
        shares.took(now, turn, frame, Some(frame));
        now += link.time_for(FRAME.into());
    }
    let least = rate.bytes_in(Span::from_nanos(span.as_nanos() - late.as_nanos()));
    let least = least.saturating_sub(2 * u64::from(FRAME)) / u64::from(FRAME);
    assert!(sent.iter().all(|sent| *sent >= least), "{:?} < {least}", sent.iter().min());
    assert_eq!(shares.lost(), Span::ZERO);
}

/// A link that carries half of what is guaranteed: everybody has half, and who comes anew does not
/// wait for those that were there to be made good.
#[test]
fn guarantees_shrink_in_proportion_on_a_link_that_is_too_slow() {
    let declared = Rate::from_gbit(1);
    let mut world = World::new(Settings::of_link(declared, FRAME), mbit(500));
    for part in [600, 300] {
        world.add(guaranteed(mbit(part), FRAME), Traffic::Greedy, Lengths::All(FRAME));
    }
    world.add(Terms::default(), Traffic::Greedy, Lengths::All(FRAME));
    world.run(Span::from_secs(1));
    let sent: Vec<_> = world.senders.iter().map(|it| it.bytes() as f64).collect();
    assert!((sent[0] / sent[1] - 2.0).abs() < 0.02, "{sent:?}");
    assert!(sent[2] < 0.05 * sent[1], "{sent:?}");
    assert!(world.shares.lost() > Span::from_millis(400), "{}", world.shares.lost());

    let begin = world.now;
    let patience = world.shares.patience();
    let newcomer = world.add(guaranteed(mbit(100), FRAME), Traffic::Greedy, Lengths::All(FRAME));
    world.run(Span::from_millis(100));
    let first = world.senders[newcomer].sent[0].done.since(begin);
    assert!(first.as_nanos() < 3 * patience.as_nanos(), "{first}");
    let before = world.senders[newcomer].bytes();
    world.run(Span::from_millis(300));
    let sent = (world.senders[newcomer].bytes() - before) as f64 * 8.0 / 0.3 / 1e6;
    assert!((sent - 50.0).abs() < 1.0, "{sent} Mb/s");
}

/// A link that stands still for a second, and is then as if it had not.
#[test]
fn a_pause_of_the_link_is_made_good_to_nobody() {
    let mut world = World::gigabit();
    world.add(guaranteed(mbit(300), FRAME), Traffic::Greedy, Lengths::All(FRAME));
    world.add(Terms::default(), Traffic::Greedy, Lengths::All(FRAME));
    world.run(Span::from_millis(50));
    world.now += Span::from_secs(1);
    // Somebody comes while it stands still, and has its guarantee as soon as it goes on.
    let begin = world.now;
    let steady = Traffic::Steady(mbit(100).time_for(FRAME.into()));
    world.add(guaranteed(mbit(100), FRAME), steady, Lengths::All(FRAME));
    let before: Vec<_> = world.senders.iter().map(|it| it.bytes()).collect();
    world.run(Span::from_millis(300));
    let sent: Vec<_> =
        world.senders.iter().zip(before).map(|(it, before)| it.bytes() - before).collect();
    // 300 Mb/s and what is made good; 100 Mb/s; and each half of the other 600.
    let patience = world.shares.patience();
    let allowed = mbit(1_000).bytes_in(patience) as f64 + 10.0 * f64::from(FRAME);
    for (place, mbits) in [(0, 600), (1, 300), (2, 100)] {
        let exact = mbit(mbits).bytes_in(Span::from_millis(300)) as f64;
        assert!((sent[place] as f64 - exact).abs() < allowed, "{place}: {sent:?}");
    }
    let first = world.senders[2].sent[0].done.since(begin);
    assert!(first <= patience + Span::from_micros(50), "{first}");
}

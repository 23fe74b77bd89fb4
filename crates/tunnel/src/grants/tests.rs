//! Incasts in a model of a fabric, and laws under random events.

mod laws;
mod world;

use alloc::vec::Vec;
use core::num::NonZeroU16;

use shares::{Bound, Terms};
use units::{Rate, Span};

use self::world::{AROUND, DATAGRAM, Demand, LATENCY, ROUND_TRIP, Setting, World};
use super::{Granted, SLACK};

/// Of a gigabit.
fn min(mbit: u64) -> Terms {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000).unwrap();
    Terms { min: Bound::bits(rate, 1600), ..Terms::default() }
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// What the fabric may hold of so many senders that begin at rest.
fn most_queued(senders: u64) -> u64 {
    // It is taken for twice as long at first.
    Rate::from_gbit(1).bytes_in(ROUND_TRIP + ROUND_TRIP + SLACK)
        + senders * 2 * (u64::from(DATAGRAM) + 100)
}

/// A network with a minimum of 300 Mb/s meets many hosts of another, all greedy from the start.
fn incast(senders: usize) -> World {
    let mut world = World::new(Setting::default());
    world.grants.set_terms(world.now, 1, min(300));
    world.grants.set_terms(world.now, 2, Terms { weight: NonZeroU16::MIN, ..Terms::default() });
    world.add(1, Demand::Greedy);
    (0..senders).for_each(|_| world.add(2, Demand::Greedy));
    world
}

#[test]
fn a_minimum_holds_from_the_first_millisecond_of_an_incast_on() {
    for senders in [3, 15, 63] {
        let mut world = incast(senders);
        // What all send unasked comes first.
        world.run(ROUND_TRIP + Span::from_micros(2 * 12 * (senders as u64 + 1)));
        let began = world.delivered(1);
        for millisecond in 1..=50 {
            world.run(ms(1));
            // 300 Mb/s are 37,500 bytes in a millisecond; three frames are on their way.
            let has = world.delivered(1) - began;
            assert!(has + 4_500 >= 37_500 * millisecond, "{senders} {millisecond}: {has}");
        }
    }
}

#[test]
fn an_incast_fills_the_link_and_not_the_fabric() {
    for senders in [3, 15, 63] {
        let mut world = incast(senders);
        world.run(ms(2));
        let before = world.delivered_bytes();
        world.run(ms(50));
        let delivered = world.delivered_bytes() - before;
        assert!(delivered as f64 >= 0.95 * 50.0 * 125_000.0, "{senders}: {delivered}");
        let queued = world.most_queued;
        assert!(queued <= most_queued(senders as u64 + 1), "{senders}: {queued}");
        assert!(world.grants.sharing(world.now).is_contended);
    }
}

#[test]
fn streams_of_a_network_have_the_same() {
    let mut world = incast(15);
    world.run(ms(5));
    let before = world.senders.clone();
    world.run(ms(50));
    let each = world.senders[1..].iter().zip(&before[1..]);
    let each: Vec<u64> = each.map(|(now, before)| now.delivered - before.delivered).collect();
    let [least, most] = [each.iter().min(), each.iter().max()].map(|it| *it.unwrap());
    assert!(least * 100 >= most * 90, "{each:?}");
}

#[test]
fn who_sends_less_than_it_may_leaves_the_rest_to_others() {
    // Of 300 Mb/s that are guaranteed, 10 are used; 12 hosts send 1 Mb/s each, one all it can.
    let mut world = World::new(Setting::default());
    world.grants.set_terms(world.now, 1, min(300));
    world.add(1, Demand::Mbit(10));
    (0..12).for_each(|_| world.add(2, Demand::Mbit(1)));
    world.add(2, Demand::Greedy);
    world.run(ms(5));
    let before = world.delivered_bytes();
    world.run(ms(50));
    let delivered = world.delivered_bytes() - before;
    assert!(delivered as f64 >= 0.95 * 50.0 * 125_000.0, "{delivered}");
    assert!(world.senders[..13].iter().all(|sender| sender.longest_wait < ms(1)));
}

#[test]
fn a_sender_within_its_minimum_hardly_waits() {
    // At 240 of 300 Mb/s, beside 15 greedy hosts that begin and end every 4 ms.
    let mut world = World::new(Setting::default());
    world.grants.set_terms(world.now, 1, min(300));
    world.add(1, Demand::Mbit(240));
    (0..15).for_each(|_| world.add(2, Demand::OnOff(ms(4))));
    world.run(ms(1));
    world.senders[0].longest_wait = Span::ZERO;
    world.run(ms(60));
    assert!(
        world.senders[0].longest_wait < Span::from_micros(800),
        "{:?}",
        world.senders[0].longest_wait
    );
    assert!(world.senders[0].on_link as f64 >= 0.97 * 61.0 * 30_000.0);
}

#[test]
fn a_greedy_sender_has_what_one_within_its_minimum_leaves() {
    for (mbit, late, frame) in [(1000, 0, 1400), (100, 0, 1400), (100, 300, 1400), (100, 300, 300)]
    {
        let late = Span::from_micros(late);
        let mut world = World::new(Setting { mbit, late, ..Setting::default() });
        world.grants.set_terms(world.now, 1, min(mbit * 64 / 100));
        world.add_with(1, Demand::Mbit(mbit * 64 / 100), frame);
        world.add(2, Demand::Greedy);
        world.run(ms(10));
        let before = [1, 2].map(|network| world.delivered(network));
        world.run(ms(100));
        let had = [1, 2].map(|it| (world.delivered(it) - before[usize::from(it) - 1]) as f64);
        let [first, second] = had.map(|bytes| bytes / (125.0 * mbit as f64));
        let told = world.grants.sharing(world.now);
        assert!(
            first >= 0.63 && first + second >= 0.95,
            "{mbit} {late:?}: {first} {second} {told:?}"
        );
        assert!(world.senders[0].longest_wait < ms(1), "{:?}", world.senders[0].longest_wait);
    }
}

#[test]
fn alone_a_sender_has_almost_the_whole_link_at_once() {
    let mut world = World::new(Setting::default());
    world.add(1, Demand::Greedy);
    world.run(ms(1));
    // Two round trips at half the rate.
    assert!(world.delivered_bytes() >= 125_000 * 75 / 100, "{}", world.delivered_bytes());
    let before = world.delivered_bytes();
    world.run(ms(20));
    assert!((world.delivered_bytes() - before) as f64 >= 0.97 * 20.0 * 125_000.0);
}

#[test]
fn a_maximum_holds_whether_others_send_or_not() {
    for others in [0, 8] {
        let mut world = World::new(Setting::default());
        let rate = Rate::from_bits_per_sec(100_000_000).unwrap();
        let max = Bound::bits(rate, rate.bucket_bytes(1600));
        world.grants.set_terms(world.now, 1, Terms { max, ..Terms::default() });
        (0..4).for_each(|_| world.add(1, Demand::Greedy));
        (0..others).for_each(|_| world.add(2, Demand::Greedy));
        world.run(ms(5));
        let before = world.delivered(1);
        world.run(ms(40));
        let share = (world.delivered(1) - before) as f64 / (40.0 * 12_500.0);
        assert!((0.93..=1.05).contains(&share), "{others}: {share}");
    }
}

#[test]
fn terms_that_change_hold_at_once() {
    let mut world = incast(8);
    world.run(ms(5));
    for mbit in [600, 100, 450] {
        world.grants.set_terms(world.now, 1, min(mbit));
        world.run(ms(2));
        let before = world.delivered(1);
        world.run(ms(10));
        let share = (world.delivered(1) - before) as f64 / (10.0 * 125.0 * mbit as f64);
        assert!(share >= 0.97, "{mbit}: {share}");
    }
}

#[test]
fn what_comes_without_credit_has_its_place_beside_what_has() {
    // Half of the link is taken by a host that asks for nothing.
    let mut world = World::new(Setting { unasked: Some(500), ..Setting::default() });
    world.grants.set_terms(world.now, 1, min(300));
    world.add(1, Demand::Greedy);
    (0..8).for_each(|_| world.add(2, Demand::Greedy));
    world.run(ms(5));
    let before = world.delivered(1);
    world.most_queued = 0;
    world.run(ms(40));
    assert!((world.delivered(1) - before) as f64 >= 0.97 * 40.0 * 37_500.0);
    // Of what is in the queue, that is half.
    assert!(world.most_queued <= 2 * most_queued(9), "{}", world.most_queued);
}

#[test]
fn who_sends_short_frames_pays_for_their_headers() {
    // Two networks alike, one with frames of 100 bytes that take 200 of the link.
    let mut world = World::new(Setting::default());
    (0..3).for_each(|_| world.add(1, Demand::Greedy));
    (0..3).for_each(|_| world.add_with(2, Demand::Greedy, 100));
    world.run(ms(5));
    let before = [1, 2].map(|network| world.delivered(network));
    world.run(ms(40));
    let [long, short] =
        [1, 2].map(|network| world.delivered(network) - before[network as usize - 1]);
    assert!((0.9..=1.1).contains(&(long as f64 / short as f64)), "{long} {short}");
}

#[test]
fn nobody_waits_forever_though_reports_are_lost() {
    for seed in 0..8 {
        let mut world = World::new(Setting { lost_reports: 30, seed, ..Setting::default() });
        world.grants.set_terms(world.now, 1, min(300));
        (0..4).for_each(|_| world.add(1, Demand::Bytes(200_000)));
        (0..12).for_each(|_| world.add(2, Demand::Bytes(200_000)));
        // Without losses it takes 27 ms.
        world.run(ms(400));
        let left: Vec<_> = world.senders.iter().map(|sender| sender.delivered).collect();
        assert!(left.iter().all(|delivered| *delivered >= 200_000), "{seed}: {left:?}");
    }
}

/// A network with a minimum of 0.3 of the link, which it uses, meets greedy hosts of another.
fn beside_greedy(senders: u64, setting: Setting) -> World {
    let mut world = World::new(setting);
    world.grants.set_terms(world.now, 1, min(setting.mbit * 3 / 10));
    world.add(1, Demand::Mbit(setting.mbit * 3 / 10));
    (0..senders).for_each(|_| world.add(2, Demand::Greedy));
    world
}

#[test]
fn late_threads_take_nothing_of_a_minimum_nor_of_the_link() {
    for (mbit, stalls, senders) in [
        (100, 1, 3),
        (100, 1, 15),
        (100, 3, 15),
        (1000, 1, 1),
        (1000, 1, 15),
        (1000, 1, 63),
        (1000, 3, 3),
        (1000, 3, 15),
        (1000, 3, 63),
    ] {
        let case = (mbit, stalls, senders);
        let mut world =
            beside_greedy(senders, Setting { mbit, stalls: ms(stalls), ..Setting::default() });
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000).unwrap();
        // What all send unasked comes first.
        let unasked = (senders + 1) * 2 * u64::from(DATAGRAM + AROUND);
        let late = rate.time_for(unasked) + ms(3 * stalls + 1);
        let owed = |time: Span| rate.bytes_in(time) * 3 / 10;
        let (mut time, mut before) = (Span::ZERO, 0);
        for step in 0..700 {
            world.run(ms(1));
            time += ms(1);
            // Its sender stands still, this end does, and then one of them again.
            assert!(world.delivered(1) + owed(late) >= owed(time), "{case:?} {time:?}");
            if step == 100 {
                before = world.delivered_bytes();
            }
        }
        assert!(world.delivered(1) >= owed(time) * 98 / 100 - owed(late), "{case:?}");
        // After a tenth of a second, in which they learn how late they are.
        let used = (world.delivered_bytes() - before) as f64 / rate.bytes_in(ms(599)) as f64;
        let told = world.grants.sharing(world.now);
        assert!(used >= 0.96, "{case:?}: {used} {told:?}");
        let most = rate.bytes_in(LATENCY + SLACK) + owed(LATENCY + LATENCY) + unasked;
        assert!(world.most_queued <= most, "{case:?}: {} {most}", world.most_queued);
    }
}

#[test]
fn who_is_in_time_is_not_taken_for_late() {
    for (mbit, senders) in [(100, 3), (100, 15), (1000, 1), (1000, 15), (1000, 63)] {
        let mut world = beside_greedy(senders, Setting { mbit, ..Setting::default() });
        world.run(ms(300));
        world.most_queued = 0;
        world.run(ms(100));
        let told = world.grants.sharing(world.now);
        assert!(told.round_trip <= Span::from_micros(250), "{mbit} {senders}: {told:?}");
        // What was sent unasked has left the fabric, too.
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000).unwrap();
        let most = rate.bytes_in(told.round_trip + SLACK) + 16 * u64::from(DATAGRAM + AROUND);
        assert!(world.most_queued <= most, "{mbit} {senders}: {}", world.most_queued);
    }
}

#[test]
fn a_greedy_sender_with_a_minimum_leaves_nothing_of_it_in_the_fabric() {
    let mut world = incast(15);
    world.run(ms(100));
    world.most_queued = 0;
    world.run(ms(50));
    let most = Rate::from_gbit(1).bytes_in(ROUND_TRIP + ROUND_TRIP + SLACK);
    assert!(world.most_queued <= most, "{}", world.most_queued);
}

#[test]
fn a_number_that_means_another_network_begins_at_nothing() {
    let mut world = incast(3);
    world.run(ms(2));
    assert!(world.grants.granted(1).unwrap().guaranteed_bytes > 0);
    world.grants.forget_network(1);
    assert_eq!(world.grants.granted(1), Some(Granted::default()));
    assert!(world.grants.granted(2).unwrap().bytes > 0);
}

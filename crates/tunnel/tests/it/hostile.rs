//! Two ends and a fabric between them that does its worst: what was sent is delivered once and in
//! order, and nothing stands still once the fabric is well again.

mod world;

use proptest::prelude::*;
use units::{ClassSet, Rate, Span};
use world::{Classes, Fabric, World};

fn fabrics() -> impl Strategy<Value = Fabric> {
    let rates = (0_u32..300, 0_u32..200, 0_u32..300, 0_u32..200);
    (rates, 1_u64..400, 0_u64..2000, 0_usize..40).prop_map(
        |((lost, repeated, late, marked), delay, jitter, queue)| Fabric {
            lost,
            repeated,
            late,
            marked,
            replayed: 0,
            forged: 0,
            delay: Span::from_micros(delay),
            jitter: Span::from_micros(jitter),
            grant: 4 + queue,
        },
    )
}

fn classes() -> impl Strategy<Value = Classes> {
    any::<[u8; 2]>().prop_map(|bits| {
        let [reliable, credit] = bits.map(ClassSet::from_bits);
        Classes { reliable, credit }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_frame_comes_once_and_in_order(
        seed: u64,
        fabric in fabrics(),
        streams in 1_u32..6,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
    ) {
        let mut world = World::new(seed, fabric, streams, Classes::REPAIRED);
        world.slow(slow.map(Span::from_micros));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        world.run()?;
        world.check()?;
    }

    /// What there is no memory for comes once there is.
    #[test]
    fn memory_that_runs_out_loses_nothing(
        seed: u64,
        fabric in fabrics(),
        streams in 1_u32..6,
        frames in 1_u32..400,
        slow in 1_u64..300,
        places in 4_u32..60,
        window in prop_oneof![Just(world::WINDOW), Just(1 << 20)],
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 0..3),
    ) {
        let mut world = World::new(seed, fabric, streams, Classes::REPAIRED);
        world.widen(window);
        world.remember(places);
        world.slow(Some(Span::from_micros(slow)));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check()?;
    }

    /// Streams share the receiver's link, in which nobody stands still whatever the fabric does.
    #[test]
    fn credit_that_is_granted_comes_whatever_is_lost(
        seed: u64,
        fabric in fabrics(),
        classes in classes(),
        streams in 1_u32..8,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
        mbit in 1_u64..2000,
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 0..3),
    ) {
        let mut world = World::new(seed, fabric, streams, classes);
        world.share(Rate::from_bits_per_sec(mbit * 1_000_000).unwrap());
        world.slow(slow.map(Span::from_micros));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check_repaired()?;
    }

    /// What receivers refuse is its senders' again; what a host cannot judge yet waits.
    #[test]
    fn what_is_refused_is_its_senders_and_all_else_is_taken(
        seed: u64,
        fabric in fabrics(),
        streams in 1_u32..4,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
        refused in prop_oneof![Just(0_u32), 1..1000_u32, Just(1000)],
        known in prop::collection::vec(0_u64..20_000, 0..4),
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 0..3),
    ) {
        let mut world = World::new(seed, fabric, streams, Classes::REPAIRED);
        world.slow(slow.map(Span::from_micros));
        world.refuse(refused);
        (0..).zip(known).for_each(|(label, us)| world.know_at(label, Span::from_micros(us)));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check()?;
    }

    /// A receiver moves while frames are underway to it: each comes to one of its places, once and
    /// in order.
    #[test]
    fn who_moves_gets_each_frame_once_and_in_order(
        seed: u64,
        fabric in fabrics(),
        streams in 1_u32..4,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
        refused in prop_oneof![Just(0_u32), 1..500_u32],
        us in 0_u64..20_000,
        known in prop::option::of(0_u64..20_000),
        places in prop_oneof![Just(world::PLACES), 4_u32..60],
    ) {
        let mut world = World::new(seed, fabric, streams, Classes::REPAIRED);
        world.slow(slow.map(Span::from_micros));
        world.refuse(refused);
        world.remember(places);
        world.move_at(0, Span::from_micros(us));
        // The new place may be behind, too.
        known.into_iter().for_each(|us| world.know_at(world::MOVED, Span::from_micros(us)));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        world.run()?;
        world.check()?;
    }

    /// A receiver goes and comes back, again and again, while frames are underway to it: it gets
    /// each once and in order.
    #[test]
    fn who_is_back_gets_each_frame_once_and_in_order(
        seed: u64,
        fabric in fabrics(),
        streams in 1_u32..4,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
        away in prop::collection::vec((0_u64..3000, 0_u64..500), 1..8),
        places in prop_oneof![Just(world::PLACES), 4_u32..60],
    ) {
        let mut world = World::new(seed, fabric, streams, Classes::REPAIRED);
        world.slow(slow.map(Span::from_micros));
        world.remember(places);
        let mut at = 0;
        for (here, gone) in away {
            let [from, until] = [at + here, at + here + gone];
            world.leave_at(0, [from, until].map(Span::from_micros));
            at = until;
        }
        world.offer(0, frames);
        world.offer(1, frames / 2);
        world.run()?;
        world.check()?;
    }

    #[test]
    fn a_cut_fabric_heals(seed: u64, fabric in fabrics(), frames in 20_u32..300, cut_ms in 1_u64..3000) {
        let mut world = World::new(seed, fabric, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        world.cut_at(Span::from_millis(2), Span::from_millis(cut_ms));
        world.run()?;
        world.check()?;
    }

    #[test]
    fn what_senders_take_back_stops_nobody(seed: u64, fabric in fabrics(), frames in 20_u32..300, us in 0_u64..20_000) {
        let mut world = World::new(seed, fabric, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        world.withdraw_at(0, Span::from_micros(us));
        world.run()?;
        world.check()?;
    }

    #[test]
    fn what_is_given_up_in_a_cut_stops_nobody(
        seed: u64, fabric in fabrics(), frames in 20_u32..300, cut_ms in 1_u64..3000, ms in 0_u64..4000,
    ) {
        let mut world = World::new(seed, fabric, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        world.cut_at(Span::from_millis(2), Span::from_millis(cut_ms));
        world.abandon_at(0, Span::from_millis(ms));
        world.run()?;
        world.check()?;
    }

    #[test]
    fn an_end_that_begins_anew_loses_nothing(
        seed: u64,
        fabric in fabrics(),
        frames in 20_u32..300,
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 1..4),
    ) {
        let mut world = World::new(seed, fabric, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check()?;
    }

    /// Whoever only repeats what was sent ends no session, and has nothing delivered twice.
    #[test]
    fn replays_change_nothing(
        seed: u64,
        fabric in fabrics(),
        frames in 20_u32..300,
        replayed in 1_u32..500,
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 0..4),
    ) {
        let mut world = World::new(seed, Fabric { replayed, ..fabric }, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        let begun = restarts.len() as u64;
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check()?;
        prop_assert!((0..2).all(|end| world.counters(end).resets <= begun));
    }

    /// Whoever sees all and forges has what he likes delivered. Once he stops, all goes on.
    #[test]
    fn what_is_forged_stops_no_stream_for_good(
        seed: u64, fabric in fabrics(), frames in 20_u32..300, forged in 1_u32..300,
    ) {
        let mut world = World::new(seed, Fabric { forged, ..fabric }, 3, Classes::REPAIRED);
        world.offer(0, frames);
        world.offer(1, frames);
        world.run()?;
    }

    #[test]
    fn without_repairs_a_fabric_that_drops_nothing_needs_none(
        seed: u64,
        delay in 1_u64..400,
        streams in 1_u32..6,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
    ) {
        let delay = Span::from_micros(delay);
        let fabric = Fabric { lost: 0, repeated: 0, late: 0, marked: 0, replayed: 0, forged: 0, delay, jitter: Span::ZERO, grant: usize::MAX };
        let mut world = World::new(seed, fabric, streams, Classes::UNREPAIRED);
        world.slow(slow.map(Span::from_micros));
        world.offer(0, frames);
        world.run()?;
        world.check()?;
    }

    /// Some classes are repaired, and some have credit.
    #[test]
    fn each_class_is_as_was_said_of_it_whatever_others_are(
        seed: u64,
        fabric in fabrics(),
        classes in classes(),
        streams in 2_u32..7,
        frames in 1_u32..400,
        slow in prop::option::of(1_u64..300),
        places in prop_oneof![4_u32..60, Just(world::PLACES)],
        restarts in prop::collection::vec((0_usize..2, 0_u64..20_000), 0..3),
    ) {
        let mut world = World::new(seed, fabric, streams, classes);
        world.remember(places);
        world.slow(slow.map(Span::from_micros));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        restarts.into_iter().for_each(|(end, us)| world.restart_at(end, Span::from_micros(us)));
        world.run()?;
        world.check_repaired()?;
    }

    /// What is not repaired and only late is waited for.
    #[test]
    fn no_class_misses_what_no_fabric_drops(
        seed: u64, fabric in fabrics(), classes in classes(), frames in 1_u32..400, slow in prop::option::of(1_u64..300),
    ) {
        let fabric = Fabric { lost: 0, grant: usize::MAX, ..fabric };
        let mut world = World::new(seed, fabric, 6, classes);
        world.slow(slow.map(Span::from_micros));
        world.offer(0, frames);
        world.offer(1, frames / 2);
        world.run()?;
        world.check()?;
    }

    /// What is lost stays lost, but nobody waits for it for long, and no credit leaks away with it.
    #[test]
    fn without_repairs_losses_stop_nobody(seed: u64, fabric in fabrics(), frames in 1_u32..400) {
        let mut world = World::new(seed, fabric, 3, Classes::UNREPAIRED);
        world.offer(0, frames);
        world.run()?;
        world.check_repaired()?;
    }
}

/// A fabric that does nothing but carry.
const WELL: Fabric = Fabric {
    lost: 0,
    repeated: 0,
    late: 0,
    marked: 0,
    replayed: 0,
    forged: 0,
    delay: Span::from_micros(50),
    jitter: Span::ZERO,
    grant: usize::MAX,
};

/// A receiver stands still after so long, and an end may begin anew after that: other streams go
/// on.
fn stall(lengths: &[u16], after: Span, restarted: Option<usize>) {
    let mut world = World::new(1, WELL, 4, Classes::REPAIRED);
    world.offer_of(0, 4000, lengths);
    world.run_for(after);
    world.stall(Some(2));
    if let Some(end) = restarted {
        world.restart_at(end, Span::from_millis(2));
    }
    let before = world.last_taken(1, 2);
    assert_eq!(before.is_some(), after > Span::ZERO);
    world.run_for(Span::from_secs(2));
    for label in [0, 1, 3] {
        assert_eq!(
            world.last_taken(1, label),
            Some(999),
            "{lengths:?}, {restarted:?}: stream {label} waits for another"
        );
    }
    assert_eq!(world.last_taken(1, 2), before);
    assert!(before < Some(999));
    // It holds no more than it granted, to all incarnations of the sender.
    assert!(world.waiting(1, 2) <= world::WINDOW);
}

#[test]
fn a_receiver_that_takes_nothing_stops_its_own_stream_only() {
    for lengths in [&[60, 300, 1000, 1446][..], &[60], &[1446]] {
        for after in [Span::ZERO, Span::from_millis(1)] {
            [None, Some(0), Some(1)]
                .into_iter()
                .for_each(|restarted| stall(lengths, after, restarted));
        }
    }
}

#[test]
fn reports_go_with_frames() {
    let mut world = World::new(1, WELL, 1, Classes::REPAIRED);
    (0..2).for_each(|end| world.offer(end, 300));
    world.run().unwrap();
    world.check().unwrap();
    assert!(world.ridden > 0, "{} of {} reports", world.ridden, world.reports);
}

/// Its frames are far fewer bytes than were granted, but more than there is memory for.
#[test]
fn a_receiver_that_takes_nothing_leaves_memory_to_others() {
    let mut world = World::new(1, WELL, 4, Classes::REPAIRED);
    world.widen(1 << 20);
    world.remember(160);
    world.offer_of(0, 4000, &[60]);
    world.stall(Some(2));
    world.run_for(Span::from_secs(1));
    for label in [0, 1, 3] {
        assert_eq!(world.last_taken(1, label), Some(999), "stream {label} waits for another");
    }
    // As much as is left to all others: half of three quarters but for a sixteenth.
    assert!(world.waiting(1, 2) <= 55 * 60 && world.counters(1).nacked > 0);
    // That nobody takes it for losses leaves the window open.
    assert_eq!(world.counters(0).lost, 0);
    let (retransmitted, asked) = (world.retransmitted.clone(), world.reports);
    world.run_for(Span::from_secs(1));
    assert_eq!(
        world.retransmitted, retransmitted,
        "nobody tries a receiver that takes nothing again and again"
    );
    // Every 50 ms, one way and the other.
    assert!(world.reports - asked <= 2 * 21, "{} reports", world.reports - asked);
    world.stall(None);
    world.run().unwrap();
    world.check().unwrap();
}

/// Nobody is turned away for long by a receiver that takes what comes.
#[test]
fn a_window_is_as_narrow_as_memory() {
    let mut world = World::new(1, WELL, 1, Classes::REPAIRED);
    world.widen(1 << 20);
    world.remember(200);
    world.slow(Some(Span::from_micros(5)));
    world.offer_of(0, 10_000, &[60]);
    world.run().unwrap();
    world.check().unwrap();
    let again = world.counters(0).retransmitted;
    assert!(again < 10_000 / 2, "{again} of 10,000 frames were sent again");
}

/// What is lost is awaited by those behind it, which have taken all memory that they may have.
#[test]
fn memory_is_left_to_what_others_wait_for() {
    let fabric = Fabric { lost: 100, ..WELL };
    let mut awaited = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, fabric, 3, Classes::REPAIRED);
        world.widen(1 << 20);
        world.remember(32);
        world.offer_of(0, 600, &[60]);
        world.run().unwrap();
        world.check().unwrap();
        awaited += world.awaited;
    }
    assert!(awaited > 0);
}

/// A receiver without memory gives a frame back and narrows its window below where that frame ends:
/// its sender confirms it all the same.
#[test]
fn what_is_given_back_is_confirmed_without_credit() {
    let fabric = Fabric {
        lost: 12,
        repeated: 0,
        late: 75,
        marked: 0,
        replayed: 0,
        forged: 0,
        delay: Span::from_micros(26),
        jitter: Span::from_micros(1),
        grant: 15,
    };
    let mut world = World::new(18_431_561_093_867_180_712, fabric, 2, Classes::REPAIRED);
    world.refuse(137);
    world.remember(18);
    world.move_at(0, Span::from_micros(106));
    world.offer(0, 89);
    world.offer(1, 44);
    world.run().unwrap();
    world.check().unwrap();
}

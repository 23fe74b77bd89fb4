//! The laws of the whole.

use proptest::prelude::*;

use crate::world::{PORTS, World};

proptest! {
    #[test]
    fn a_packet_that_agrees_in_the_bits_read_is_decided_the_same(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..20 {
            let (one, other) = (world.packet(), world.packet());
            let noise = [world.rng.next_u64(), world.rng.next_u64()];
            let (rule, mask, _) = world.decide(&one);
            prop_assert_eq!(rule, world.linear(&one));
            for other in [other, noise] {
                let other = [0, 1].map(|word| one[word] & mask[word] | other[word] & !mask[word]);
                prop_assert_eq!(world.linear(&other), rule);
                prop_assert_eq!(world.decide(&other), world.decide(&one));
            }
        }
    }

    #[test]
    fn what_is_remembered_is_what_would_be_decided_anew(seed: u64) {
        live(seed);
    }
}

/// Packets come and things change. How many packets were found.
fn live(seed: u64) -> u32 {
    let mut world = World::new(seed);
    let packets: Vec<_> = (0..30).map(|_| world.packet()).collect();
    let mut found = 0;
    for _ in 0..200 {
        match world.rng.below(20) {
            0 => {
                let port = world.rng.below(PORTS);
                world.change_policy(port);
            }
            1 => world.change_set(),
            _ => {}
        }
        let packet = packets[world.rng.below(30) as usize];
        let anew = world.linear(&packet);
        if let Some(rule) = world.exact.find(&world.cells, &packet) {
            assert_eq!(*rule, anew, "seed {seed}");
            found += 1;
            continue;
        }
        let (rule, _, depends) = world.decide(&packet);
        assert_eq!(rule, anew, "seed {seed}");
        world.exact.insert(&world.cells, packet, rule, depends);
    }
    found
}

#[test]
fn much_is_found() {
    let found: u32 = (0..50).map(live).sum();
    assert!(found > 4000, "{found} of 10,000");
}

#[test]
fn a_change_of_one_port_forgets_nothing_of_others() {
    let mut world = World::new(7);
    let packets: Vec<_> = (0..60).map(|_| world.packet()).collect();
    for packet in &packets {
        let (rule, _, depends) = world.decide(packet);
        world.exact.insert(&world.cells, *packet, rule, depends);
    }
    let found = |world: &World, port: u64| {
        let of_port = packets.iter().filter(|it| it[0] >> 56 == port);
        of_port.filter(|it| world.exact.find(&world.cells, it).is_some()).count()
    };
    let before = [0, 1, 2].map(|port| found(&world, port));
    world.change_policy(1);
    assert_eq!([0, 1, 2].map(|port| found(&world, port)), [before[0], 0, before[2]]);
}

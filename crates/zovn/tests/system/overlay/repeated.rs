//! What is carried by a cable that loses nothing is carried once.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use model::SessionStatus;

use super::numbered::exchange;
use super::world::{Machine, Plan, World};

const ONE: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(1, "blue", 2);

/// How much each machine sends to the other, in bytes.
const COUNT: usize = 150_000_000;

fn session(world: &World, host: usize) -> SessionStatus {
    let uplink = world.status(host).uplink.unwrap();
    uplink.peers[0].session.clone().unwrap()
}

/// Does something while every processor has other work, too.
fn while_busy(work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        work();
        drop(over);
    });
}

#[test]
fn nothing_is_sent_twice_by_a_cable_that_loses_nothing() {
    for is_busy in [false, true] {
        let world = World::new(Plan { is_cable: true, ..Plan::new(&[ONE, OTHER]) });
        let streams = world.connect(ONE, OTHER, 7);
        match is_busy {
            false => exchange(&streams, COUNT),
            true => while_busy(|| exchange(&streams, COUNT)),
        }
        let sessions = [0, 1].map(|host| session(&world, host));
        for (one, other) in [[0, 1], [1, 0]].map(|[one, other]| (&sessions[one], &sessions[other]))
        {
            let said = format!("busy: {is_busy}, {one:?}, {other:?}");
            assert!(one.retransmitted * 1000 <= one.sent, "{said}");
            assert!(other.duplicates * 1000 <= one.sent, "{said}");
        }
        world.assert_balanced();
    }
}

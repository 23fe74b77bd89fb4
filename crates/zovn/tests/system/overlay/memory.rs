//! Memory at a receiving host: many short frames take all places that their receiver may have, long
//! before its credit ends.

use std::thread;

use units::Span;

use super::numbered::{Tally, send};
use super::world::{Machine, Plan, World};
use crate::common::until;

const STOPPED: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(0, "blue", 2);
const SENDER: Machine = Machine::new(1, "blue", 3);

const SENDERS: usize = 15;

/// One sender's own memory is less than the share of a stream at the far host, so it takes many.
const FLOODING: [Machine; SENDERS] = {
    let mut machines = [SENDER; SENDERS];
    let mut place = 0;
    while place < machines.len() {
        machines[place].number += 1 + place as u8;
        place += 1;
    }
    machines
};

/// What each of them sends: all that its socket, the two hosts' memory and the receiver's socket
/// hold, and more.
const COUNT: u32 = 2000;

/// As short as they can be, with their number.
const LEN: usize = 6;

#[test]
fn who_finds_none_is_turned_away_and_comes_again_and_others_go_on() {
    let mut plan = Plan::new(&[&[STOPPED, OTHER, SENDER], &FLOODING[..]].concat());
    plan.agent.stall_after = Span::from_secs(600);
    plan.agent.socket_stall_after = plan.agent.stall_after;
    let world = World::new(plan);
    let (stopped, other) = (world.udp(STOPPED, 7), world.udp(OTHER, 7));
    FLOODING.iter().for_each(|machine| world.ping(*machine, STOPPED.v4()));
    world.ping(SENDER, OTHER.v4());
    let session = |host| world.status(host).uplink.unwrap().peers.remove(0).session.unwrap();
    let (mut tally, mut other_tally) = (Tally::default(), Tally::default());
    thread::scope(|scope| {
        for (number, machine) in (0..).zip(FLOODING) {
            let socket = world.udp(machine, 0);
            scope.spawn(move || send(&socket, STOPPED.at(7), number, 0..COUNT, LEN));
        }
        until(|| session(0).nacked > 0);
        let socket = world.udp(SENDER, 0);
        scope.spawn(move || send(&socket, OTHER.at(7), 0, 0..COUNT, 1000));
        other_tally.take_all(&other, 1, COUNT);
        assert!(world.status(0).ledger.held > 0, "they still wait");
        tally.take_all(&stopped, SENDERS, COUNT);
    });
    assert_eq!((tally.again, other_tally.again), (0, 0));
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
    for host in 0..2 {
        let peer = world.status(host).uplink.unwrap().peers.remove(0);
        assert!(peer.refused.is_empty(), "{peer:?}");
    }
}

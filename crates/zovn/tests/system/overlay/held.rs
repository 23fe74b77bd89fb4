//! Receivers that are slow, or take nothing: who waits for them, and who does not.

use std::thread;

use model::{PortChange, RateChange};
use units::Bytes;

use super::numbered::{Tally, send, send_joined};
use super::world::{Machine, Plan, World};
use crate::common::until;

const READER: Machine = Machine::new(0, "blue", 1);
const SENDERS: [Machine; 3] =
    [Machine::new(1, "blue", 2), Machine::new(1, "blue", 3), Machine::new(2, "blue", 4)];

/// What each sender sends: more than a socket, the two hosts and credit hold.
const COUNT: u32 = 4000;

#[test]
fn senders_on_other_hosts_wait_for_a_slow_reader_and_lose_nothing() {
    senders_wait(&mut World::new(Plan::new(&[&[READER], &SENDERS[..]].concat()).patient()));
}

#[test]
fn what_a_fabric_drops_comes_once_and_in_order_all_the_same() {
    let mut plan = Plan::new(&[&[READER], &SENDERS[..]].concat()).patient();
    plan.fabric.loss = 0.01;
    plan.fabric.ports.iter_mut().for_each(|port| port.buffer.frames = 32);
    let mut world = World::new(plan);
    senders_wait(&mut world);
    let report = world.fabric();
    let dropped =
        |host: &str| report.port(host).dropped.values().map(|tally| tally.frames).sum::<u64>();
    assert!(["h1", "h2"].map(dropped).iter().all(|frames| *frames > 0), "{report:?}");
}

fn senders_wait(world: &mut World) {
    let reader = world.udp(READER, 7);
    SENDERS.iter().for_each(|machine| world.ping(*machine, READER.v4()));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        for (number, machine) in (0..).zip(SENDERS) {
            let socket = world.udp(machine, 0);
            scope.spawn(move || send(&socket, READER.at(7), number, 0..COUNT, 1000));
        }
        SENDERS.iter().for_each(|machine| world.until_held_back(*machine));
        tally.take_all(&reader, SENDERS.len(), COUNT);
    });
    assert_eq!(tally.again, 0);
    until(|| (0..3).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
    // Frames of IPv6 that machines send to nobody are refused, no others.
    let refused = |host| world.status(host).ledger.refused;
    assert_eq!(
        [refused(0), refused(1), refused(2)],
        [const { std::collections::BTreeMap::new() }; 3]
    );
}

/// Two senders of large segments, which share a stream with less credit than two of them take.
#[test]
fn a_large_segment_of_which_some_is_sent_is_followed_by_the_rest_of_it_alone() {
    let mut plan = Plan::new(&[&[READER], &SENDERS[..2]].concat()).patient();
    (plan.uplink.window, plan.uplink.unsolicited) = (Bytes(64 << 10), Bytes(0));
    let world = World::new(plan);
    let reader = world.udp(READER, 7);
    // A new interface drops what is sent by it until the kernel has noticed that it is up.
    SENDERS[..2].iter().for_each(|sender| world.ping(*sender, READER.v4()));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        for (number, machine) in (0..).zip(&SENDERS[..2]) {
            let socket = world.udp(*machine, 0);
            scope.spawn(move || send_joined(&socket, READER.at(7), number, 0..COUNT, 1000));
        }
        tally.take_all(&reader, 2, COUNT);
    });
    assert_eq!(tally.again, 0);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
}

#[test]
fn a_receiver_that_takes_nothing_stops_neither_its_host_nor_its_senders() {
    const STOPPED: Machine = Machine::new(0, "blue", 1);
    const CRAWLING: Machine = Machine::new(0, "blue", 5);
    const OTHER: Machine = Machine::new(0, "blue", 6);
    let mut plan = Plan::new(&[STOPPED, CRAWLING, OTHER, SENDERS[0], SENDERS[1]]).patient();
    plan.uplink.unsolicited = Bytes(16 << 10);
    let world = World::new(plan);
    let (_stopped, other) = (world.udp(STOPPED, 7), world.udp(OTHER, 7));
    let crawl = PortChange {
        rate: Some(RateChange::To("1kbit".parse().unwrap())),
        ..PortChange::default()
    };
    for machine in [STOPPED, CRAWLING, OTHER] {
        SENDERS[..2].iter().for_each(|sender| world.ping(*sender, machine.v4()));
    }
    world.client(0).change(&CRAWLING.port(), &crawl).unwrap();
    let sockets = [0, 1].map(|sender| world.udp(SENDERS[sender], 0));
    for (number, socket) in (0..).zip(&sockets) {
        for machine in [STOPPED, CRAWLING] {
            send(socket, machine.at(7), number, 0..250, 1000);
        }
    }
    let held = |machine| world.status_of(machine).egress.total.held;
    until(|| held(STOPPED) > 100 && held(CRAWLING) > 100);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        for (number, socket) in (0..).zip(&sockets) {
            scope.spawn(move || send(socket, OTHER.at(7), number, 0..COUNT, 1000));
        }
        tally.take_all(&other, 2, COUNT);
    });
    assert_eq!(tally.again, 0);
    assert!(held(STOPPED) > 100 && held(CRAWLING) > 100);
    world.assert_balanced();
}

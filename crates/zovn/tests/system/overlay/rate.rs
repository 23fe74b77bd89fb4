//! A declared rate of an uplink: what is sent faster waits in the switch, not below.

use std::thread;
use std::time::{Duration, Instant};

use units::Rate;

use super::numbered::{Tally, exchange, send, send_joined};
use super::world::{Machine, Plan, World};
use crate::common::until;

const NEAR: Machine = Machine::new(0, "blue", 1);
const FAR: Machine = Machine::new(1, "blue", 2);

const RATE: &str = "100mbit";

/// Datagrams of this length, and what each takes on the link at least: large segments have more of
/// them in a packet, but each brings its own headers.
const LEN: usize = 1000;
const ON_LINK: usize = LEN + 42;

const COUNT: u32 = 1500;

/// Two hosts at a gigabit fabric, of which the first keeps to a tenth.
fn plan() -> Plan {
    let mut plan = Plan::new(&[NEAR, FAR]).patient();
    plan.uplink.rate = RATE.parse().ok();
    plan
}

/// The least time that so many datagrams take, but for those that a full bucket lets go at once.
fn least(datagrams: u32) -> Duration {
    let rate: Rate = RATE.parse().unwrap();
    let bytes = u64::from(datagrams - 10) * ON_LINK as u64;
    Duration::from_nanos(rate.time_for(bytes).as_nanos())
}

/// Bytes that the first host's link was given.
fn sent_bytes(world: &World) -> u64 {
    let [shaping] = world.status(0).uplink.unwrap().shaping.try_into().unwrap();
    assert_eq!(shaping.rate.to_string(), "99mbit");
    shaping.sent_bytes
}

#[test]
fn datagrams_large_segments_and_what_is_sent_again_keep_to_the_uplinks_rate() {
    for (loss, is_joined) in [(0.0, false), (0.0, true), (0.01, false), (0.01, true)] {
        let mut plan = plan();
        plan.fabric.loss = loss;
        let world = World::new(plan);
        world.ping(NEAR, FAR.v4());
        let (near, far) = (world.udp(NEAR, 0), world.udp(FAR, 7));
        let mut tally = Tally::default();
        let (began, before) = (Instant::now(), sent_bytes(&world));
        thread::scope(|scope| {
            scope.spawn(|| match is_joined {
                false => send(&near, FAR.at(7), 0, 0..COUNT, LEN),
                true => send_joined(&near, FAR.at(7), 0, 0..COUNT, LEN as u16),
            });
            tally.take_all(&far, 1, COUNT);
        });
        let took = began.elapsed();
        assert!(took > least(COUNT), "{COUNT} datagrams within {took:?}");
        assert_eq!(tally.again, 0);
        until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
        world.assert_balanced();
        let sent = sent_bytes(&world) - before;
        assert!(sent > (COUNT as usize * ON_LINK) as u64, "{sent}");
        let line = "zovn_uplink_rate{vtep=\"192.168.0.1\"} 99000000";
        assert!(world.client(0).metrics().unwrap().contains(line));
    }
}

#[test]
fn tcp_and_datagrams_share_an_uplink_that_is_full() {
    let mut plan = plan();
    plan.fabric.loss = 0.002;
    let world = World::new(plan);
    world.ping(NEAR, FAR.v4());
    let streams = world.connect(NEAR, FAR, 80);
    let (near, far) = (world.udp(NEAR, 0), world.udp(FAR, 7));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(|| exchange(&streams, 1 << 20));
        scope.spawn(|| send(&near, FAR.at(7), 0, 0..COUNT, LEN));
        tally.take_all(&far, 1, COUNT);
    });
    assert_eq!(tally.again, 0);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
}

#[test]
fn several_uplinks_keep_to_the_rate_each() {
    let mut plan = plan().with_two_uplinks(2);
    // Without a session frames are spread by their flows over both.
    plan.uplink.retransmit = false.into();
    plan.uplink.credit = false.into();
    let world = World::new(plan);
    world.ping(NEAR, FAR.v4());
    let far = world.udp(FAR, 7);
    let mut tally = Tally::default();
    let flows: Vec<_> = (0..8).map(|_| world.udp(NEAR, 0)).collect();
    thread::scope(|scope| {
        for (sender, near) in (0..).zip(&flows) {
            scope.spawn(move || send(near, FAR.at(7), sender, 0..COUNT / 8, LEN));
        }
        tally.take_all(&far, flows.len(), COUNT / 8);
    });
    let shaping = world.status(0).uplink.unwrap().shaping;
    let sent: u64 = shaping.iter().map(|shaping| shaping.sent_bytes).sum();
    assert!(
        shaping.len() == 2 && sent > (u64::from(COUNT) - 8) * ON_LINK as u64 / 2,
        "{shaping:?}"
    );
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
}

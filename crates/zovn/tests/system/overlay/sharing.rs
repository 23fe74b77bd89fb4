//! Networks that share an uplink of a declared rate, on terms that are changed while frames flow.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use model::{NetworkShare, NetworkShareStatus, SharingStatus};

use super::parts::{Part, had, of_networks, sharing};
use super::world::{Machine, Plan, World};
use crate::common::until;

/// Two networks: of one a machine sends, of the other three do.
const BLUE: [Machine; 2] = [Machine::new(0, "blue", 1), Machine::new(1, "blue", 2)];
const RED: [Machine; 4] = [
    Machine::new(0, "red", 3),
    Machine::new(0, "red", 4),
    Machine::new(0, "red", 5),
    Machine::new(1, "red", 6),
];

/// A datagram, which takes a hundred microseconds at the uplink's rate.
const LEN: usize = 1100;

/// Gives a network of both hosts other terms.
fn set(world: &World, network: &str, share: NetworkShare) {
    for host in 0..2 {
        let networks = world.client(host).networks().unwrap().networks;
        let mut spec = networks.into_iter().find(|spec| spec.name.0 == network).unwrap();
        spec.share = share;
        world.client(host).set_network(&spec).unwrap();
    }
}

/// Takes whatever comes until the end.
fn take(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut datagram = [0; LEN];
    while !is_over.load(Ordering::Relaxed) {
        let _ = socket.recv(&mut datagram);
    }
}

/// The part that the first network has while both send as much as they can.
fn part_of_blue(world: &World) -> Part {
    of_networks(world, ["blue", "red"])
}

#[test]
fn networks_share_an_uplink_as_their_terms_say_from_when_they_are_changed() {
    let mut plan = Plan::new(&[&BLUE[..], &RED].concat());
    plan.uplink.rate = "100mbit".parse().ok();
    let world = World::new(plan);
    world.ping(BLUE[0], BLUE[1].v4());
    world.ping(RED[0], RED[3].v4());
    let receivers = [world.udp(BLUE[1], 7), world.udp(RED[3], 7)];
    let is_over = AtomicBool::new(false);
    let flood = |from: Machine, to: Machine| {
        let socket = world.udp(from, 0);
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let datagram = [from.number; LEN];
        while !is_over.load(Ordering::Relaxed) {
            // Nobody may take it at the end.
            let _ = socket.send_to(&datagram, to.at(7));
        }
    };
    let soon = Some(Duration::from_secs(1));
    receivers.iter().for_each(|socket| socket.set_read_timeout(soon).unwrap());
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        receivers.iter().for_each(|socket| drop(scope.spawn(|| take(socket, &is_over))));
        scope.spawn(|| flood(BLUE[0], BLUE[1]));
        RED[..3].iter().for_each(|from| drop(scope.spawn(|| flood(*from, RED[3]))));
        until(|| ["blue", "red"].iter().all(|network| had(&world, network).sent_bytes > 1_000_000));

        let waited = had(&world, "blue").waited;
        let part = part_of_blue(&world).of_all;
        assert!((0.45..0.55).contains(&part), "with a half each, {part}");
        // While the uplink sent 2.5 MB and more, which takes 0.2 s, it waited for half of them.
        let NetworkShareStatus { waited: now, backlogged, .. } = had(&world, "blue");
        assert!(now.as_nanos() - waited.as_nanos() > 80_000_000, "{waited} to {now}");
        assert!(backlogged > now, "{backlogged}");
        let share =
            NetworkShare { min: "60mbit".parse().ok(), weight: Some(1), ..NetworkShare::default() };
        set(&world, "blue", share);
        let part = part_of_blue(&world).of_all;
        assert!((0.75..0.95).contains(&part), "with 60 of 99 and half of the rest, {part}");
        set(&world, "blue", NetworkShare { max: "20mbit".parse().ok(), ..NetworkShare::default() });
        let limited = part_of_blue(&world);
        assert!(limited.is_20_of_99_at_most(), "{limited:?}");
        drop(over);
        // Who waits for a datagram gets one more.
        until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
        for (from, to) in [(BLUE[0], BLUE[1]), (RED[0], RED[3])] {
            world.udp(from, 0).send_to(&[0], to.at(7)).unwrap();
        }
    });
    let SharingStatus { promised_bits, networks, .. } = sharing(&world);
    assert_eq!((promised_bits, networks.len()), (0, 2));
    assert!(had(&world, "blue").guaranteed_bytes > 1_000_000);
    assert_eq!(had(&world, "red").guaranteed_bytes, 0);
    // Each network's books are those of its ports.
    let status = world.status(0);
    for (name, ports) in [("blue", 1), ("red", 3)] {
        let network = status.networks.iter().find(|it| it.name.0 == name).expect("it has ports");
        assert_eq!(network.ports, ports);
        assert!(network.ingress.balances() && network.egress.balances(), "{network:?}");
        let its = status.ports.iter().filter(|port| port.network.as_ref() == Some(&network.name));
        let accepted: u64 = its.map(|port| port.ingress.total.accepted).sum();
        assert_eq!(network.ingress.accepted, accepted);
    }
    world.assert_balanced();
}

#[test]
fn all_that_arrives_is_granted_where_that_is_declared() {
    let mut plan = Plan::new(&[&BLUE[..], &RED].concat());
    (plan.uplink.rate, plan.uplink.grants) = ("100mbit".parse().ok(), true);
    let world = World::new(plan);
    let share = NetworkShare { min: "60mbit".parse().ok(), ..NetworkShare::default() };
    set(&world, "blue", share);
    const DATAGRAMS: usize = 2000;
    thread::scope(|scope| {
        for (from, to) in [(BLUE[0], BLUE[1]), (RED[0], RED[3])] {
            let world = &world;
            world.ping(from, to.v4());
            let receiver = world.udp(to, 7);
            scope.spawn(move || {
                let mut datagram = [0; LEN];
                (0..DATAGRAMS).for_each(|_| assert_eq!(receiver.recv(&mut datagram).unwrap(), LEN));
            });
            scope.spawn(move || {
                let socket = world.udp(from, 0);
                for _ in 0..DATAGRAMS {
                    socket.send_to(&[0; LEN], to.at(7)).unwrap();
                }
            });
        }
    });
    let uplink = world.status(1).uplink.unwrap();
    assert_eq!(uplink.downlinks.len(), 1);
    let granted = |name: &str| {
        let mut networks = uplink.sharing.iter().flat_map(|sharing| &sharing.networks);
        let it = networks.find(|it| it.network.0 == name).expect("it is declared");
        (it.granted_bytes, it.granted_guaranteed_bytes)
    };
    // But for the two datagrams that may be sent unasked.
    let least = ((DATAGRAMS - 10) * LEN) as u64;
    assert!(granted("blue").0 > least && granted("red").0 > least);
    assert_eq!(granted("red").1, 0);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
}

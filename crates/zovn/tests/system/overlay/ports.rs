//! Ports of one network on one host that share what their network has of the uplink, on terms that
//! are changed while frames flow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use model::{NetworkShare, PortChange, PortShare, PortShareStatus, PortStatus};

use super::parts::{self, Part, median};
use super::world::{Machine, Plan, World};
use crate::common::until;

/// One sends one flow, two others flood, all to one machine of another host.
const QUIET: Machine = Machine::new(0, "blue", 1);
const LOUD: [Machine; 2] = [Machine::new(0, "blue", 2), Machine::new(0, "blue", 3)];
const FAR: Machine = Machine::new(1, "blue", 4);

/// A datagram, which takes a hundred microseconds at the uplink's rate.
const LEN: usize = 1100;

fn share(min: &str, max: &str) -> PortShare {
    PortShare { min: min.parse().ok(), max: max.parse().ok(), weight: None }
}

fn set(world: &World, machine: Machine, share: PortShare) -> Result<(), String> {
    let change = PortChange { share: Some(share), ..PortChange::default() };
    let changed = world.client(0).change(&machine.port(), &change);
    changed.map(drop).map_err(|error| error.to_string())
}

/// What the network's ports have had, if one of them has a share.
fn ports(world: &World) -> Vec<PortShareStatus> {
    parts::had(world, "blue").ports
}

fn of_port(ports: &[PortShareStatus], machine: Machine) -> &PortShareStatus {
    let port = ports.iter().find(|it| it.port == machine.port());
    port.expect("one of its network's has a share")
}

fn had(world: &World, machine: Machine) -> PortShareStatus {
    of_port(&ports(world), machine).clone()
}

/// What the quiet one's port has of the uplink while all send as much as they can.
fn part_of_quiet(world: &World) -> Part {
    median(|| part_of_quiet_once(world))
}

/// The same of a span of a fifth of a second, if all had frames to send whenever it was looked at.
fn part_of_quiet_once(world: &World) -> Option<Part> {
    let all = [QUIET, LOUD[0], LOUD[1]];
    let look = || {
        let status = world.status(0);
        let at = status.uptime_ns;
        let held = |port: &PortStatus| port.ingress.total.held > 0;
        let all_wait = all.iter().all(|it| {
            let port = status.ports.iter().find(|port| port.name == it.port());
            port.is_some_and(held)
        });
        let ports = parts::of_network(parts::shared(status), "blue").ports;
        let sent = all.map(|it| of_port(&ports, it).sent_bytes);
        (at, sent, all_wait)
    };
    let (began, before, mut waited) = look();
    let (mut ended, mut after) = (began, before);
    until(|| {
        let all_wait;
        (ended, after, all_wait) = look();
        waited &= all_wait;
        after.iter().sum::<u64>() > before.iter().sum::<u64>() + 2_500_000
    });
    waited.then(|| Part::of_first([&before, &after], [began, ended]))
}

#[test]
fn a_port_has_its_minimum_beside_others_of_its_network_that_flood() {
    let mut plan = Plan::new(&[QUIET, LOUD[0], LOUD[1], FAR]);
    plan.uplink.rate = "100mbit".parse().ok();
    let world = World::new(plan);
    world.ping(QUIET, FAR.v4());
    assert_eq!(ports(&world), [], "nobody has terms");

    // More than the link may be promised, and more than the network is.
    let refused = set(&world, QUIET, share("95mbit", "")).unwrap_err();
    assert!(refused.contains("of the uplink's 100mbit, and may be 94.05 %"), "{refused}");
    for host in 0..2 {
        let mut spec = world.client(host).networks().unwrap().networks.remove(0);
        spec.share = NetworkShare { min: "60mbit".parse().ok(), ..NetworkShare::default() };
        world.client(host).set_network(&spec).unwrap();
    }
    set(&world, LOUD[0], share("10mbit", "")).unwrap();
    let refused = set(&world, QUIET, share("51mbit", "")).unwrap_err();
    let sentence = "`min` of all ports of network `blue` is 61mbit, and may be 60mbit";
    assert!(refused.contains(sentence), "{refused}");
    assert_eq!(had(&world, QUIET).min, None, "nothing has changed");
    set(&world, LOUD[0], PortShare::default()).unwrap();
    assert_eq!(ports(&world), []);
    set(&world, QUIET, share("50mbit", "")).unwrap();

    let receiver = world.udp(FAR, 7);
    receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let is_over = AtomicBool::new(false);
    let flood = |from: Machine| {
        let socket = world.udp(from, 0);
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            // Nobody may take it at the end.
            let _ = socket.send_to(&[from.number; LEN], FAR.at(7));
        }
    };
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        scope.spawn(|| {
            let mut datagram = [0; LEN];
            while !is_over.load(Ordering::Relaxed) {
                let _ = receiver.recv(&mut datagram);
            }
        });
        [QUIET, LOUD[0], LOUD[1]].iter().for_each(|from| drop(scope.spawn(|| flood(*from))));
        let all_send = || ports(&world).iter().all(|port| port.sent_bytes > 200_000);
        until(|| ports(&world).len() == 3 && all_send());

        let part = part_of_quiet(&world).of_all;
        // Of 99, 50 and a third of the rest: 66. It is a larger part where the uplink has less.
        assert!((0.6..0.85).contains(&part), "with 50 of 99 and a third of the rest, {part}");
        assert!(had(&world, QUIET).guaranteed_bytes > 1_000_000);
        set(&world, QUIET, share("", "20mbit")).unwrap();
        let limited = part_of_quiet(&world);
        assert!(limited.is_20_of_99_at_most(), "{limited:?}");
        let heavy = PortShare { weight: Some(8), ..PortShare::default() };
        set(&world, QUIET, heavy).unwrap();
        let part = part_of_quiet(&world).of_all;
        assert!((0.7..0.9).contains(&part), "by weight, {part}");
        // Terms go while frames flow, and nobody is held up.
        set(&world, QUIET, PortShare::default()).unwrap();
        assert_eq!(ports(&world), []);
        let sent = || world.status_of(QUIET).ingress.total.delivered;
        let before = sent();
        until(|| sent() > before + 1_000);
        drop(over);
        // Who waits for a datagram gets one more.
        until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
        world.udp(QUIET, 0).send_to(&[0], FAR.at(7)).unwrap();
    });
    world.assert_balanced();
}

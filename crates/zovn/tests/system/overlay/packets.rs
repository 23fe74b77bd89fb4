//! Networks that share the switch's thread: one is promised frames, another sends all that it can.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use model::{AgentStatus, NetworkName, NetworkShare, ThreadStatus, ThreadUse};
use units::Span;

use super::world::{Machine, Plan, World};
use crate::common::until;

/// Two networks on one host: in one a machine sends to another, in the other three do.
const BLUE: [Machine; 2] = [Machine::new(0, "blue", 1), Machine::new(0, "blue", 2)];
const RED: [Machine; 4] = [
    Machine::new(0, "red", 3),
    Machine::new(0, "red", 4),
    Machine::new(0, "red", 5),
    Machine::new(0, "red", 6),
];

/// What `blue` is promised: what its machines, their processors and those that measure can do while
/// all the others send as well.
const PROMISED: u32 = 1_000;

fn had(world: &World, network: &str) -> ThreadUse {
    had_by(&world.status(0), network)
}

fn had_by(status: &AgentStatus, network: &str) -> ThreadUse {
    let mut networks = status.networks.iter();
    networks.find(|it| it.name.0 == network).expect("it has ports").thread.clone()
}

fn share(min_packets: u32) -> NetworkShare {
    NetworkShare { min_packets: Some(min_packets), ..NetworkShare::default() }
}

/// Takes whatever comes until the end.
fn take(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut datagram = [0; 64];
    while !is_over.load(Ordering::Relaxed) {
        let _ = socket.recv(&mut datagram);
    }
}

#[test]
fn a_network_has_the_frames_that_it_is_promised_beside_one_that_sends_all_it_can() {
    let world = World::new(Plan::new(&[&BLUE[..], &RED].concat()));
    world.ping(BLUE[0], BLUE[1].v4());
    world.ping(RED[0], RED[3].v4());
    let thread = || world.status(0).thread;
    let ThreadStatus { shared, promised, .. } = thread();
    assert!(shared && promised == Span::ZERO, "two networks with containers take turns by time");
    assert!(had(&world, "blue").used_ns > 0);

    // Whatever frames cost, so many take more than a processor.
    let blue = || {
        let networks = world.client(0).networks().unwrap().networks;
        networks.into_iter().find(|spec| spec.name == NetworkName("blue".into())).unwrap()
    };
    let before = blue();
    let mut spec = blue();
    spec.share = share(20_000_000);
    let refused = world.client(0).set_network(&spec).unwrap_err().to_string();
    assert!(refused.contains("`min_packets` of all networks takes"), "{refused}");
    assert!(refused.contains("`blue` (20000000/s): lower one of these"), "{refused}");
    assert_eq!(blue(), before, "nothing has changed");
    spec.share = share(PROMISED);
    world.client(0).set_network(&spec).unwrap();
    let ThreadStatus { promised, frame, .. } = thread();
    assert_eq!(promised.as_nanos(), u64::from(PROMISED) * frame.as_nanos());

    let receivers = [world.udp(BLUE[1], 7), world.udp(RED[3], 7)];
    let is_over = AtomicBool::new(false);
    let flood = |from: Machine, to: Machine| {
        let socket = world.udp(from, 0);
        while !is_over.load(Ordering::Relaxed) {
            socket.send_to(&[from.number], to.at(7)).unwrap();
        }
    };
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        receivers.iter().for_each(|socket| drop(scope.spawn(|| take(socket, &is_over))));
        scope.spawn(|| flood(BLUE[0], BLUE[1]));
        RED[..3].iter().for_each(|from| drop(scope.spawn(|| flood(*from, RED[3]))));
        until(|| ["blue", "red"].iter().all(|network| had(&world, network).frames > 2_000));
        // Not evidence: a span in which its machines found no processor.
        until(|| {
            let before = world.status(0);
            let mut after = before.clone();
            until(|| {
                after = world.status(0);
                after.uptime_ns > before.uptime_ns + 2_000_000_000
            });
            let [frames, seconds] = [
                (had_by(&after, "blue").frames - had_by(&before, "blue").frames) as f64,
                (after.uptime_ns - before.uptime_ns) as f64 / 1e9,
            ];
            frames >= 0.99 * f64::from(PROMISED) * seconds
        });
        let use_of_blue = had(&world, "blue");
        assert_eq!(use_of_blue.min_packets, Some(PROMISED));
        assert!(use_of_blue.frames_per_second > 0 && use_of_blue.used_ns_per_second > 0);
        assert!(use_of_blue.longest_visit_us > 0);
        // Terms go while frames flow, and nobody is held up.
        spec.share = NetworkShare::default();
        world.client(0).set_network(&spec).unwrap();
        let frames = || ["blue", "red"].map(|network| had(&world, network).frames);
        let before = frames();
        until(|| frames().iter().zip(before).all(|(after, before)| *after > before + 1_000));
        drop(over);
        // Who waits for a datagram gets one more.
        until(|| world.status(0).ledger.held == 0);
        for (from, to) in [(BLUE[0], BLUE[1]), (RED[0], RED[3])] {
            world.udp(from, 0).send_to(&[0], to.at(7)).unwrap();
        }
    });
    assert_eq!(thread().promised, Span::ZERO);
    world.assert_balanced();
}

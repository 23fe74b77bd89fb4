//! Hosts with two uplinks each, of which one is cut.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use kernel::netlink::{LinkChange, Netlink};
use lab::physical::FabricReport;
use model::{BfdState, Encapsulation, PathStatus, PeerState, PeerStatus, Uplink};
use units::{ClassSet, Span};

use super::numbered::{Tally, exchange, send};
use super::world::{Machine, Plan, World, vtep_v4};
use crate::common::until;

const NEAR: Machine = Machine::new(0, "blue", 1);
const FAR: Machine = Machine::new(1, "blue", 2);

fn world(uplink: Uplink) -> World {
    let mut plan = Plan::new(&[NEAR, FAR]).with_two_uplinks(2);
    plan.uplink = uplink;
    // However slow the machine is, nobody counts as stalled.
    plan.agent.stall_after = Span::from_secs(600);
    plan.agent.socket_stall_after = plan.agent.stall_after;
    let world = World::new(plan);
    world.ping(NEAR, FAR.v4());
    until(|| (0..2).all(|host| states(&world, host) == [BfdState::Up; 2]));
    world
}

/// What a host says of the other.
fn peer(world: &World, host: usize) -> PeerStatus {
    let [peer] = world.status(host).uplink.unwrap().peers.try_into().unwrap();
    peer
}

/// How BFD finds both paths.
fn states(world: &World, host: usize) -> [BfdState; 2] {
    let state = |path: PathStatus| path.bfd.unwrap().state;
    <[PathStatus; 2]>::try_from(peer(world, host).paths).unwrap().map(state)
}

/// By which paths frames go from a host.
fn used(world: &World, host: usize) -> Vec<usize> {
    let paths = peer(world, host).paths.into_iter().enumerate();
    paths.filter_map(|(place, path)| path.is_active.then_some(place)).collect()
}

/// Cuts a path at the far host, so that the near one's interface does not notice, or mends it.
fn plug(world: &World, place: usize, is_in: bool) {
    let change = LinkChange { up: Some(is_in), ..LinkChange::default() };
    Netlink::open_in(&world.hosts[1])
        .unwrap()
        .change_link(["eth0", "eth1"][place], change)
        .unwrap();
}

/// How many packets the physical switch has carried to the far host, by its uplinks.
fn carried(world: &mut World) -> [u64; 2] {
    let reports: [FabricReport; 2] = world.all_fabrics().try_into().unwrap();
    reports.map(|report| report.port("h1").sent.frames)
}

#[test]
fn a_connection_continues_on_another_path_when_its_own_is_cut() {
    let world = world(Uplink::new(vtep_v4(0)));
    let [one, other] = world.connect(NEAR, FAR, 7);
    let [first] = used(&world, 0)[..] else { panic!("a session goes by one path") };
    assert_eq!(used(&world, 1), [first], "both hosts choose the same");
    let (is_over, came) = (AtomicBool::new(false), AtomicU64::new(0));
    let come = |more: u64| {
        let before = came.load(Ordering::Relaxed);
        until(|| came.load(Ordering::Relaxed) > before + more);
    };
    thread::scope(|scope| {
        let over = needs::Over(&is_over);
        // As many bytes as there is time for, in order.
        let sent = scope.spawn(|| {
            let (mut stream, mut block) = (one, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(&[block.to_be_bytes(); 1000].concat()).unwrap();
                block += 1;
            }
            block
        });
        let received = scope.spawn(|| {
            let (mut stream, mut bytes, mut block) = (other, [0; 8000], 0_u64);
            while stream.read_exact(&mut bytes).is_ok() {
                assert!(bytes.chunks(8).all(|chunk| chunk == block.to_be_bytes()));
                block += 1;
                came.fetch_add(8000, Ordering::Relaxed);
            }
            block
        });
        come(1_000_000);
        plug(&world, first, false);
        until(|| (0..2).all(|host| used(&world, host) == [1 - first]));
        let peer = peer(&world, 0);
        let bfd = peer.paths[first].bfd.as_ref().unwrap();
        assert_eq!((bfd.state, &*bfd.diagnostic), (BfdState::Down, "detection_time_expired"));
        assert_eq!(peer.state, PeerState::Up);
        come(1_000_000);
        // Back on the first path, nothing is lost either.
        plug(&world, first, true);
        until(|| (0..2).all(|host| used(&world, host) == [first]));
        come(1_000_000);
        drop(over);
        assert_eq!(received.join().unwrap(), sent.join().unwrap());
    });
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
    for host in 0..2 {
        assert_eq!(peer(&world, host).egress.refused_total(), 0, "{:?}", peer(&world, host));
    }
}

#[test]
fn frames_wait_only_while_all_paths_are_cut_and_take_the_first_that_is_restored() {
    let world = world(Uplink::new(vtep_v4(0)));
    let [first] = used(&world, 0)[..] else { panic!("a session goes by one path") };
    let (near, far) = (world.udp(NEAR, 0), world.udp(FAR, 7));
    let mut tally = Tally::default();
    send(&near, FAR.at(7), 0, 0..20, 1000);
    tally.take_all(&far, 1, 20);
    [0, 1].into_iter().for_each(|place| plug(&world, place, false));
    until(|| peer(&world, 0).state == PeerState::Down);
    assert!(used(&world, 0).is_empty());
    send(&near, FAR.at(7), 0, 20..40, 1000);
    until(|| peer(&world, 0).egress.held >= 20);
    plug(&world, 1 - first, true);
    tally.take_all(&far, 1, 40);
    assert_eq!((tally.again, used(&world, 0)), (0, vec![1 - first]));
    until(|| world.status(0).ledger.held == 0);
    world.assert_balanced();
    assert_eq!(peer(&world, 0).egress.refused_total(), 0);
}

#[test]
fn uplinks_that_others_do_not_have_or_are_declared_later_change_nothing_else() {
    const SINGLE: Machine = Machine::new(2, "blue", 3);
    let world = World::new(Plan::new(&[NEAR, FAR, SINGLE]).with_two_uplinks(2));
    world.ping(NEAR, SINGLE.v4());
    world.ping(SINGLE, FAR.v4());
    let paths = |host: usize| -> Vec<usize> {
        world.status(host).uplink.unwrap().peers.iter().map(|peer| peer.paths.len()).collect()
    };
    assert_eq!([0, 1, 2].map(paths), [[2, 1], [2, 1], [1, 1]]);
    let connection = world.connect(NEAR, FAR, 7);
    let client = world.client(0);
    let all = client.networks().unwrap().networks;
    let mut fewer = all.clone();
    for member in
        fewer.iter_mut().flat_map(|network| &mut network.members).filter(|it| it.mac == FAR.mac())
    {
        member.vtep = world.vtep(1).into();
    }
    for (networks, count) in [(&fewer, 1), (&all, 2)] {
        client.set_networks(networks).unwrap();
        until(|| paths(0) == [count, 1]);
        exchange(&connection, 500_000);
    }
    let peers = world.status(0).uplink.unwrap().peers;
    assert!(peers.iter().all(|peer| peer.session.as_ref().unwrap().resets == 0), "{peers:?}");
    assert!(peers.iter().all(|peer| peer.egress.refused_total() == 0), "{peers:?}");
    world.assert_balanced();
}

#[test]
fn flows_without_a_session_are_spread_over_the_paths_that_work() {
    let mut world = world(Uplink {
        encapsulation: Encapsulation::Vxlan,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..Uplink::new(vtep_v4(0))
    });
    assert_eq!(used(&world, 0), [0, 1]);
    let far = world.udp(FAR, 7);
    // Each socket is a flow.
    let flows: Vec<_> = (0..32).map(|_| world.udp(NEAR, 0)).collect();
    let exchange = || {
        flows.iter().for_each(|flow| send(flow, FAR.at(7), 0, 0..10, 1000));
        (0..10 * flows.len()).for_each(|_| assert_eq!(far.recv(&mut [0; 1000]).unwrap(), 1000));
    };
    let before = carried(&mut world);
    exchange();
    let after = carried(&mut world);
    assert!((0..2).all(|place| after[place] >= before[place] + 40), "{before:?} {after:?}");
    plug(&world, 0, false);
    until(|| used(&world, 0) == [1]);
    exchange();
    plug(&world, 0, true);
    until(|| used(&world, 0) == [0, 1]);
    exchange();
    world.assert_balanced();
    assert_eq!(peer(&world, 0).egress.refused_total(), 0);
}

//! A host's own interface in the underlay: it goes down and up, loses its address, and gets
//! another MTU.

use kernel::joined;
use kernel::netlink::{LinkChange, Netlink};
use model::{InterfaceState, InterfaceStatus};
use units::{Prefix, Span};

use super::numbered::{Tally, send};
use super::world::{Machine, Plan, World, run, vtep_v4};
use crate::common::until;

const NEAR: Machine = Machine::new(0, "blue", 1);
const FAR: Machine = Machine::new(1, "blue", 2);

/// The only interface of the first host's uplink.
fn interface(world: &World) -> InterfaceStatus {
    let [interface] = world.status(0).uplink.unwrap().interfaces.try_into().unwrap();
    interface
}

fn change(world: &World, change: LinkChange<'_>) {
    Netlink::open_in(&world.hosts[0]).unwrap().change_link("eth0", change).unwrap();
}

/// A note of the uplink has these words.
fn notes(world: &World, words: &str) -> bool {
    world.status(0).uplink.unwrap().notes.iter().any(|note| note.contains(words))
}

#[test]
fn an_uplink_that_goes_and_comes_is_told_of_and_its_tunnels_lose_nothing() {
    let mut plan = Plan::new(&[NEAR, FAR]);
    // However slow the machine is, nobody counts as stalled.
    plan.agent.stall_after = Span::from_secs(600);
    plan.agent.socket_stall_after = plan.agent.stall_after;
    let world = World::new(plan);
    world.ping(NEAR, FAR.v4());
    let up = |is_up| LinkChange { up: Some(is_up), ..LinkChange::default() };
    let metric = |world: &World, value: &str| {
        let line = format!("zovn_uplink_up{{vtep=\"{}\"}} {value}", vtep_v4(0));
        world.client(0).metrics().unwrap().contains(&line)
    };
    let whole = InterfaceStatus {
        vtep: vtep_v4(0),
        interface: Some("eth0".into()),
        state: InterfaceState::Up,
        mtu: Some(1600),
        speed: None,
    };
    assert_eq!(interface(&world), whole);
    assert!(metric(&world, "1"));
    let (near, far) = (world.udp(NEAR, 0), world.udp(FAR, 7));
    let (mut tally, mut next) = (Tally::default(), 0);
    // Of what changes back before the log is written, nothing is told: so wait for each line.
    let told = |world: &World, line: &str, times: usize| {
        until(|| world.log(0).matches(line).count() == times);
    };
    told(&world, "the uplink is up", 1);
    let mut waits_while = |world: &World, state: InterfaceState, words: &str| {
        until(|| interface(world).state == state);
        assert!(metric(world, "0"));
        assert!(notes(world, words), "{:?}", world.status(0).uplink);
        told(world, &format!("the uplink is down: {words}"), 1);
        send(&near, FAR.at(7), 0, next..next + 20, 1000);
        next += 20;
        until(|| world.status(0).uplink.unwrap().egress.total.held >= 20);
        next
    };
    let goes_on = |world: &World, tally: &mut Tally, sent, times| {
        until(|| interface(world) == whole);
        assert!(metric(world, "1") && !notes(world, "eth0"));
        told(world, "the uplink is up", times);
        tally.take_all(&far, 1, sent);
        until(|| world.status(0).ledger.held == 0);
    };
    change(&world, up(false));
    let sent =
        waits_while(&world, InterfaceState::Down, "eth0, which has 192.168.0.1, is set down");
    change(&world, up(true));
    goes_on(&world, &mut tally, sent, 2);
    let prefix = Prefix { address: vtep_v4(0), length: 24 };
    let text = prefix.to_string();
    let deleted = run(&world.hosts[0], &["ip", "address", "delete", &text, "dev", "eth0"]);
    assert!(deleted.status.success(), "{deleted:?}");
    let sent = waits_while(&world, InterfaceState::NoAddress, "no interface has 192.168.0.1");
    joined::give_address(&world.hosts[0], "eth0", prefix).unwrap();
    goes_on(&world, &mut tally, sent, 3);
    change(&world, LinkChange { mtu: Some(1500), ..LinkChange::default() });
    until(|| interface(&world).mtu == Some(1500));
    assert!(notes(&world, "mtu of 1500"));
    told(&world, "has an mtu of 1500", 1);
    change(&world, LinkChange { mtu: Some(1600), ..LinkChange::default() });
    told(&world, "the uplink carries longer packets than before", 1);
    goes_on(&world, &mut tally, sent, 3);
    assert_eq!(tally.again, 0);
    let peers = world.status(0).uplink.unwrap().peers;
    assert!(peers.iter().all(|peer| peer.egress.refused_total() == 0), "{peers:?}");
    world.assert_balanced();
}

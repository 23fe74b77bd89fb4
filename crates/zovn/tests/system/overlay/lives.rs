//! Agents that end and begin again while others talk.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use model::{Member, NetworkName, NetworkSpec};
use rustix::process::Signal;
use units::Mac;

use super::numbered::{Tally, exchange, send};
use super::world::{Machine, Plan, World, udp};
use crate::common::until;

const SENDER: Machine = Machine::new(0, "blue", 1);
const READER: Machine = Machine::new(1, "blue", 2);

/// Numbered datagrams go on while the agent at the reader's host ends, however it does, and begins
/// again.
fn datagrams_go_on_through(signal: Signal) {
    const COUNT: u32 = 6000;
    let mut world = World::new(Plan::new(&[SENDER, READER]).patient());
    world.ping(SENDER, READER.v4());
    let connection = world.connect(SENDER, READER, 7);
    // It outlives its interface.
    let reader = udp(world.netns(READER), ([0, 0, 0, 0], 7).into());
    let sender = world.udp(SENDER, 0);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(move || send(&sender, READER.at(7), 0, 0..COUNT, 1000));
        tally.take_all(&reader, 1, 500);
        let log = world.end(1, signal);
        if signal == Signal::TERM {
            // What the reader had no room for is left to the next agent.
            assert!(log.contains("balanced=true") && log.contains("refused=0"), "{log}");
            world.until_held_back(SENDER);
        }
        world.start(1);
        tally.take_all(&reader, 1, COUNT);
    });
    // What was taken and not told of comes again where an agent had no time to tell.
    assert!(signal == Signal::KILL || tally.again == 0, "{}", tally.again);
    exchange(&connection, 1_000_000);
    until(|| world.status(0).ledger.held == 0);
    world.assert_balanced();
}

#[test]
fn a_reader_whose_agent_is_stopped_misses_nothing_and_hears_nothing_twice() {
    datagrams_go_on_through(Signal::TERM);
}

#[test]
fn a_reader_whose_agent_is_killed_misses_nothing() {
    datagrams_go_on_through(Signal::KILL);
}

#[test]
fn a_connection_outlives_the_agents_at_both_ends() {
    let mut world = World::new(Plan::new(&[SENDER, READER]));
    let connection = world.connect(SENDER, READER, 7);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = needs::Over(&done);
        scope.spawn(|| {
            // What is whole for so many rounds is whole across every end.
            while !done.load(Ordering::Relaxed) {
                exchange(&connection, 100_000);
            }
        });
        for (host, signal) in
            [(0, Signal::KILL), (1, Signal::TERM), (0, Signal::TERM), (1, Signal::KILL)]
        {
            world.end(host, signal);
            world.start(host);
            world.ping(SENDER, READER.v4());
        }
        drop(over);
    });
    world.ping(READER, SENDER.v6());
    world.assert_balanced();
}

/// Of a host that was in no network for a while, this one remembers nothing; that one remembers
/// all.
#[test]
fn a_host_that_is_declared_again_is_reached_again() {
    let world = World::new(Plan::new(&[SENDER, READER]));
    world.ping(SENDER, READER.v4());
    let client = world.client(0);
    let all = client.networks().unwrap().networks;
    let mut near = all.clone();
    near.iter_mut()
        .for_each(|network| network.members.retain(|member| member.vtep == world.vtep(0).into()));
    for _ in 0..3 {
        client.set_networks(&near).unwrap();
        client.set_networks(&all).unwrap();
        world.ping(SENDER, READER.v4());
        world.ping(READER, SENDER.v6());
    }
    world.assert_balanced();
}

/// Members and networks come and go, and whoever stays notices nothing: of many datagrams none is
/// refused or lost.
#[test]
fn what_changes_in_networks_costs_those_who_stay_no_frame() {
    const COUNT: u32 = 20_000;
    let world = World::new(Plan::new(&[SENDER, READER]).patient());
    world.ping(SENDER, READER.v4());
    let client = world.client(0);
    let all = client.networks().unwrap().networks;
    let (reader, socket) = (world.udp(READER, 7), world.udp(SENDER, 0));
    let other = |number: u8, vni: u32| {
        // Of a host that nobody has.
        let vtep = IpAddr::from([192, 0, 2, 200 + number % 5]).into();
        let label = (vni << 8) + u32::from(number) + 1;
        Member { mac: Mac::local(1000 + u32::from(number)), addresses: Vec::new(), vtep, label }
    };
    thread::scope(|scope| {
        scope.spawn(|| send(&socket, READER.at(7), 0, 0..COUNT, 300));
        scope.spawn(|| {
            for number in 0..40 {
                let mut blue = all[0].clone();
                blue.members.push(other(number, blue.vni));
                client.set_network(&blue).unwrap();
                let own = Member { vtep: world.vtep(0).into(), ..other(number, 90) };
                let members = vec![own, other(number + 50, 90)];
                let name = NetworkName("more".into());
                client.set_network(&NetworkSpec::new(name.clone(), 90, members)).unwrap();
                if number % 3 == 0 {
                    client.remove_network(&name).unwrap();
                }
            }
        });
        let mut tally = Tally::default();
        tally.take_all(&reader, 1, COUNT);
    });
    for host in 0..2 {
        let refused = world.status(host).ledger.refused_total();
        assert_eq!(refused, 0, "host {host}");
    }
    world.assert_balanced();
}

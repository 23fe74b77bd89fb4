//! A host that disappears, and comes back.

use std::thread;

use kernel::netlink::{LinkChange, Netlink};
use units::Span;

use super::numbered::{Tally, exchange, send};
use super::world::{Machine, Plan, World};
use crate::common::until;

const SENDER: Machine = Machine::new(0, "blue", 1);
const GONE: Machine = Machine::new(1, "blue", 2);
const THERE: Machine = Machine::new(2, "blue", 3);

#[test]
fn what_is_for_a_host_that_is_gone_is_held_then_refused_and_all_goes_on_when_it_is_back() {
    let mut plan = Plan::new(&[SENDER, GONE, THERE]).patient();
    plan.agent.stall_after = Span::from_secs(2);
    let world = World::new(plan);
    world.ping(SENDER, GONE.v4());
    world.ping(SENDER, THERE.v4());
    let connection = world.connect(SENDER, GONE, 7);
    let [gone, there] = [GONE, THERE].map(|machine| world.udp(machine, 7));
    let set = |up| {
        let change = LinkChange { up: Some(up), ..LinkChange::default() };
        Netlink::open_in(&world.hosts[1]).unwrap().change_link("eth0", change).unwrap();
    };
    set(false);
    let socket = world.udp(SENDER, 0);
    send(&socket, GONE.at(7), 0, 0..500, 1000);
    // Of what was underway and what waited, each frame is accounted for.
    until(|| world.refused(0, "stalled_receiver") >= 500);
    until(|| world.status(0).ledger.held == 0);
    world.assert_balanced();
    // More than the sender may have held is refused at once, and holds up nobody.
    thread::scope(|scope| {
        scope.spawn(|| send(&world.udp(SENDER, 0), GONE.at(7), 0, 0..3000, 1000));
        scope.spawn(|| send(&world.udp(SENDER, 0), THERE.at(7), 1, 0..3000, 1000));
        let mut tally = Tally::default();
        while tally.next[1] < 3000 {
            tally.take(&there);
        }
        assert_eq!(tally.again, 0);
    });
    world.assert_balanced();
    set(true);
    // Each is refused or comes: the first that comes after it is back is none of those that were
    // refused.
    until(|| {
        send(&socket, GONE.at(7), 2, 7..8, 100);
        gone.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let mut datagram = [0; 100];
        gone.recv(&mut datagram).is_ok_and(|len| len == 100 && datagram[0] == 2)
    });
    exchange(&connection, 500_000);
    world.ping(GONE, SENDER.v6());
    world.assert_balanced();
}

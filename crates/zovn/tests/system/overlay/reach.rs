//! Who hears whom: machines of one network, on whichever host, and nobody else.

use std::net::Ipv4Addr;

use kernel::netlink::Netlink;
use kernel::packet;
use rustix::net::RecvFlags;
use wire::ethernet::{self, ethertype};

use super::numbered::exchange;
use super::world::{Machine, Plan, World};

/// Two on each host; the red ones have the addresses of blue ones.
const BLUE: [Machine; 4] = [
    Machine::new(0, "blue", 1),
    Machine::new(0, "blue", 2),
    Machine::new(1, "blue", 3),
    Machine::new(1, "blue", 4),
];
const RED: [Machine; 2] = [Machine::new(0, "red", 1), Machine::new(1, "red", 3)];

fn plan() -> Plan {
    Plan::new(&[BLUE.as_slice(), &RED].concat())
}

#[test]
fn machines_on_two_hosts_are_at_one_switch() {
    are_at_one_switch(World::new(plan()));
}

#[test]
fn machines_are_at_one_switch_over_an_underlay_of_ipv6() {
    are_at_one_switch(World::new(plan().over_v6()));
}

fn are_at_one_switch(world: World) {
    let asked = BLUE[2..].iter().map(|machine| {
        let netns = world.netns(*machine);
        let link = Netlink::open_in(netns).unwrap().index("eth0").unwrap();
        netns.run(|| packet::socket(link, ethertype::ARP)).unwrap().unwrap()
    });
    let asked: Vec<_> = asked.collect();
    for (from, to) in [(BLUE[0], BLUE[2]), (BLUE[2], BLUE[1]), (RED[0], RED[1])] {
        world.ping(from, to.v4());
        world.ping(from, to.v6());
    }
    // What the switches answer, they do not ask others.
    for socket in asked {
        let mut frame = [0; 100];
        while let Ok((len, _)) = rustix::net::recv(&socket, &mut frame, RecvFlags::DONTWAIT) {
            let header = ethernet::peek(&frame[..len]).unwrap();
            assert!(!header.destination().is_multicast(), "{header:?}");
        }
    }
    exchange(&world.connect(BLUE[0], BLUE[3], 7), 1_000_000);
    exchange(&world.connect(RED[1], RED[0], 7), 1_000_000);
    a_broadcast_reaches_each_member_once(&world);
    world.assert_balanced();
}

fn a_broadcast_reaches_each_member_once(world: &World) {
    let everywhere = |machine| super::world::udp(world.netns(machine), ([0, 0, 0, 0], 6767).into());
    let [blue, red] = [BLUE.as_slice(), &RED].map(|these| these.iter().map(|it| everywhere(*it)));
    let (blue, red): (Vec<_>, Vec<_>) = (blue.collect(), red.collect());
    let say = |from, what: &[u8]| {
        let socket = world.udp(from, 6768);
        socket.set_broadcast(true).unwrap();
        socket.send_to(what, (Ipv4Addr::BROADCAST, 6767)).unwrap();
    };
    let words: [(Machine, &[u8]); 4] =
        [(BLUE[0], b"one"), (RED[1], b"two"), (BLUE[3], b"three"), (RED[0], b"four")];
    for (from, what) in words {
        say(from, what);
        // Each hears this one next, its own kernel's copy too: none came twice, and none from
        // elsewhere.
        let members = if from.network == "blue" { (&BLUE[..], &blue) } else { (&RED[..], &red) };
        for (machine, socket) in members.0.iter().zip(members.1) {
            let mut heard = [0; 16];
            let (len, sender) = socket.recv_from(&mut heard).unwrap();
            assert_eq!((&heard[..len], sender.ip()), (what, from.v4()), "{machine:?}");
        }
    }
}

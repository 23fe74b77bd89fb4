//! What is for many, and those who cannot take it, do not keep up, or send it round in circles.

use std::net::Ipv4Addr;

use model::StormLimits;
use wire::ethernet::ethertype;
use wire::membership::{self, Told, group_mac_v4};

use super::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Runs `ip` in a container.
fn ip(world: &World, place: usize, words: &str) {
    let mut command = Command::new("ip");
    command.args(["-n", &world.container(place)]).args(words.split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "ip {words}: {output:?}");
}

/// How many frames a port's egress has refused for a reason.
fn refused(client: &Client, place: usize, reason: &str) -> u64 {
    let port = client.port(&name(place)).unwrap();
    port.egress.total.refused.get(reason).copied().unwrap_or(0)
}

/// Waits, in a container, for a report of IGMP that somebody joins a group: the switch has heard it
/// by then.
fn hears_reports(world: &World, place: usize) -> impl Fn(Ipv4Addr) {
    let link = Netlink::open_in(&world.containers[place]).unwrap().index("eth0").unwrap();
    let open = || kernel::packet::socket(link, ethertype::IPV4);
    let socket = world.containers[place].run(open).unwrap().unwrap();
    move |group| {
        let mut joined = false;
        while !joined {
            let mut frame = [0; 1514];
            let len = rustix::io::read(&socket, &mut frame[..]).unwrap();
            let joins = Told::Joins(group_mac_v4(group));
            membership::read(&frame[..len], |told| joined |= told == joins);
        }
    }
}

#[test]
fn a_container_whose_interface_is_down_stops_nobody_who_broadcasts() {
    let mut world = World::new(3);
    let client = world.start(3);
    world.greet(0, 2);
    ip(&world, 2, "link set eth0 down");
    let sender = world.udp(0);
    sender.set_broadcast(true).unwrap();
    sender.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    for _ in 0..1100 {
        sender.send_to(&[0; 100], "10.9.0.255:9").expect("nobody holds it up");
    }
    drop(sender);
    let begun = Instant::now();
    world.greet(0, 1);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until(|| client.port(&name(1)).unwrap().egress.total.delivered >= 1100);
    let down = client.port(&name(2)).unwrap();
    assert!(down.egress.total.accepted < 600, "it gets no copies: {:?}", down.egress.total);
    assert_eq!(refused(&client, 1, "slow_receiver"), 0, "who keeps up misses nothing");
    ip(&world, 2, "link set eth0 up");
    world.greet(0, 2);
    assert!(balanced(&client.status().unwrap()));
}

#[test]
fn a_stream_to_a_group_waits_for_its_members_and_for_nobody_else() {
    const DATAGRAMS: usize = 2000;
    let mut world = World::new(3);
    let client = world.start(3);
    client.change(&name(2), &rate("100kbit")).unwrap();
    ip(&world, 0, "route add 224.0.0.0/4 dev eth0");
    let member = join(&world, 1, 0);
    member.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for member_s in ["none", "4mbit"] {
        let rate = match member_s {
            "none" => PortChange {
                rate: Some(RateChange::None(model::NoRate::None)),
                ..PortChange::default()
            },
            rate => super::rate(rate),
        };
        client.change(&name(1), &rate).unwrap();
        let sender = world.udp(0);
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..DATAGRAMS {
                    sender.send_to(&[0; 500], (GROUP, 9)).unwrap();
                }
            });
            for number in 0..DATAGRAMS {
                let came = member.recv(&mut [0; 500]);
                assert!(came.is_ok(), "datagram {number} at {member_s}: {came:?}");
            }
        });
        // The port that did not ask would take 87 s.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    assert!(refused(&client, 2, "slow_receiver") > 0);
    assert_eq!(refused(&client, 1, "slow_receiver"), 0);
    assert!(balanced(&client.status().unwrap()));
}

/// Has a socket of a container in the group, and waits until another container has heard of it.
fn join(world: &World, place: usize, other: usize) -> UdpSocket {
    let member = world.containers[place].run(|| UdpSocket::bind((GROUP, 9))).unwrap().unwrap();
    let heard = hears_reports(world, other);
    let own = Ipv4Addr::new(10, 9, 0, place as u8 + 1);
    world.containers[place].run(|| member.join_multicast_v4(&GROUP, &own)).unwrap().unwrap();
    heard(GROUP);
    member
}

/// What is for a group has no lane: the switch holds it.
#[test]
fn a_sender_of_large_frames_is_held_back_by_its_declared_limit() {
    let mut world = World::new(2);
    let client = world.start(0);
    for place in 0..2 {
        let mut port = world.port(place);
        port.attach = port.attach.with_mtu(9000);
        port.ingress.frames = 200;
        client.attach(&port).unwrap();
    }
    world.greet(0, 1);
    ip(&world, 0, "route add 224.0.0.0/4 dev eth0");
    let _member = join(&world, 1, 0);
    client.change(&name(1), &rate("1kbit")).unwrap();
    let from = world.udp(0);
    from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    until(|| {
        while from.send_to(&[0; 8000], (GROUP, 9)).is_ok() {}
        let port = client.port(&name(0)).unwrap();
        port.ingress.total.held == 200 && port.paused_by == Some(PausedBy::Ingress)
    });
}

#[test]
fn a_container_that_connects_two_of_its_ports_makes_no_storm_and_is_named() {
    let mut world = World::new(4);
    let client = world.start(4);
    let storm = StormLimits { broadcast: 100, multicast: 100, unknown: 100 };
    let limits = PortChange { storm: Some(storm), ..PortChange::default() };
    client.change(&name(2), &limits).unwrap();
    let attach = Attachment::Container {
        netns: world.container(2),
        interface: "eth1".into(),
        mac: None,
        addresses: Vec::new(),
        routes: Vec::new(),
        mtu: None,
        offload: true,
    };
    let second = PortName("second".into());
    client.attach(&PortSpec { storm, ..PortSpec::new(second.clone(), attach) }).unwrap();
    for words in [
        "link add br0 type bridge",
        "link set eth0 master br0",
        "link set eth1 master br0",
        "link set br0 up",
    ] {
        ip(&world, 2, words);
    }
    // A machine whose address nobody declares: it is learned wherever its frames come from.
    ip(&world, 0, "link set eth0 address 02:00:00:00:77:77");
    let sender = world.udp(0);
    sender.set_broadcast(true).unwrap();
    let limit = |port: &model::PortStatus| {
        port.ingress.total.refused.get("broadcast_limit").copied().unwrap_or(0)
    };
    until(|| {
        sender.send_to(&[0; 100], "10.9.0.255:9").unwrap();
        let ports = [name(2), second.clone()].map(|name| client.port(&name).unwrap());
        ports.iter().all(|port| {
            let is_named = |note: &String| note.starts_with("02:00:00:00:77:77 moves to and fro");
            limit(port) > 0 && port.notes.iter().any(is_named) && port.moved_addresses > 0
        })
    });
    // Of a container whose address is declared, it is said by whose ports it comes back.
    let declared = world.udp(1);
    declared.set_broadcast(true).unwrap();
    until(|| {
        declared.send_to(&[0; 100], "10.9.0.255:9").unwrap();
        let notes = client.port(&second).unwrap().notes;
        notes.iter().any(|note| note.contains(&format!("is the address of `{}`", name(1))))
    });
    drop(declared);
    let begun = Instant::now();
    world.greet(1, 3);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(balanced(&client.status().unwrap()));
}

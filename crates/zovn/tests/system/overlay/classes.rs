//! Classes of frames: in the fabric, which knows them by their tunnels' packets alone, and in a
//! session, which repairs some.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use kernel::netlink::Netlink;
use kernel::packet;
use model::{CONTROL, ClassKind, LargeSegments, NetworkShare};
use rustix::net::{SendFlags, sockopt};
use units::{Class, ClassSet, Dscp, Rate};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::protocol;
use wire::{ipv4, udp};
use zerocopy::IntoBytes;

use super::numbered::Tally;
use super::world::{Machine, Plan, World};
use crate::common::until;

const SENDER: Machine = Machine::new(0, "blue", 1);
const READER: Machine = Machine::new(1, "blue", 2);

/// The class of what is sent, which nothing but its tag tells.
const CLASS: Class = Class::from_low_bits(3);

const COUNT: u32 = 2000;

#[test]
fn a_tagged_frame_meets_its_class_in_the_fabric_and_is_paused_there_as_that() {
    let mut plan = Plan::new(&[SENDER, READER]).patient();
    let dscp = std::array::from_fn(|class| Dscp::new(8 * class as u8).unwrap());
    (plan.uplink.dscp, plan.fabric.dscp) = (Some(dscp), Some(dscp));
    plan.share = may_use(&[CLASS]);
    plan.uplink.pfc = Some(plan.fabric.ports[0].rate);
    plan.fabric.classes[CLASS.index()] = ClassKind::Lossless;
    plan.fabric.ports[1].rate = Rate::from_bits_per_sec(50_000_000).unwrap();
    let mut world = World::new(plan);
    let reader = world.udp(READER, 7);
    world.ping(SENDER, READER.v4());
    let sender = wire_of(&world);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                rustix::net::send(&sender, &frame(CLASS, 7, number), SendFlags::empty()).unwrap();
            }
        });
        tally.take_all(&reader, 1, COUNT);
    });
    assert_eq!(tally.again, 0);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
    // What a card cuts would not heed the pauses.
    let uplink = world.status(0).uplink.unwrap();
    let large = &uplink.peers[0].paths[0].large_segments;
    assert!(
        matches!(large, Some(LargeSegments::Parts { reason }) if reason.starts_with("pfc")),
        "{large:?}"
    );

    let report = world.fabric();
    let sent = &report.ports["h0"][&CLASS.pcp()];
    assert!(
        sent.received.frames >= COUNT.into() && sent.pauses_sent > 0 && sent.dropped.is_empty(),
        "{report:?}"
    );
    let pauses = &world.status(0).uplink.unwrap().pause_frames[0];
    assert!(pauses.received > 0, "{pauses:?}");
    // The ping has no tag; hellos, reports and BFD are of the class for control.
    for host in ["h0", "h1"] {
        let classes: Vec<_> =
            report.ports[host].keys().copied().filter(|class| *class != CLASS.pcp()).collect();
        assert_eq!(classes, [0, CONTROL.pcp()], "{report:?}");
    }
}

#[test]
fn no_guest_chooses_a_class_between_hosts_that_its_network_may_not_use() {
    const TOP: Class = Class::from_low_bits(7);
    // The fabric goes by code points, and nothing says which class has which: what is in frames
    // would tell, if it were shown.
    let dscp = std::array::from_fn(|class| Dscp::new(8 * class as u8).unwrap());
    for (share, expected) in
        [(NetworkShare::default(), vec![0]), (may_use(&[CLASS]), vec![0, CLASS.pcp()])]
    {
        let mut plan = Plan::new(&[SENDER, READER]);
        (plan.share, plan.fabric.dscp, plan.uplink.bfd) = (share, Some(dscp), None);
        let mut world = World::new(plan);
        let reader = world.udp(READER, 7);
        world.ping(SENDER, READER.v4());
        let sender = wire_of(&world);
        for number in 0..64 {
            let class = [TOP, CLASS][number as usize % 2];
            let bytes = marked(class, 7, number);
            rustix::net::send(&sender, &bytes, SendFlags::empty()).unwrap();
        }
        // Frames of two classes may overtake each other.
        let mut came: Vec<_> = (0..64).map(|_| next(&reader).unwrap()).collect();
        came.sort_unstable();
        assert!(came.iter().copied().eq(0..64), "{came:?}");
        until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
        let report = world.fabric();
        let received = report.ports["h0"].iter().filter(|(_, class)| class.received.frames > 0);
        let met: Vec<_> = received.map(|(class, _)| *class).collect();
        assert_eq!(met, expected, "{share:?}: {report:?}");
    }
}

#[test]
fn of_a_fabric_that_drops_one_class_is_repaired_and_another_is_not() {
    const FORGOTTEN: Class = Class::from_low_bits(1);
    let mut plan = Plan::new(&[SENDER, READER]).patient();
    plan.share = may_use(&[CLASS, FORGOTTEN]);
    plan.fabric.loss = 0.02;
    plan.uplink.retransmit = [Class::default(), CLASS].into_iter().collect();
    plan.uplink.credit = ClassSet::from_iter([FORGOTTEN]).others();
    let world = World::new(plan);
    let [reader, other] = [7, 8].map(|port| world.udp(READER, port));
    world.ping(SENDER, READER.v4());
    // It has room for all.
    sockopt::set_socket_recv_buffer_size_force(&other, 32 << 20).unwrap();
    let sender = wire_of(&world);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (number, (class, port)) in
                (0..COUNT).flat_map(|number| [(CLASS, 7), (FORGOTTEN, 8)].map(|of| (number, of)))
            {
                rustix::net::send(&sender, &frame(class, port, number), SendFlags::empty())
                    .unwrap();
            }
        });
        tally.take_all(&reader, 1, COUNT);
    });
    assert_eq!(tally.again, 0);
    let came = numbers(&other);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();
    assert!(came.is_sorted_by(|a, b| a < b), "{came:?}");
    assert!((COUNT / 2..COUNT).contains(&(came.len() as u32)), "{} came", came.len());
    let session = |host| world.status(host).uplink.unwrap().peers.remove(0).session.unwrap();
    let ([ours, theirs], count) = ([0, 1].map(session), u64::from(COUNT));
    assert!(ours.retransmitted > 0 && theirs.unrecovered_bytes > 0, "{ours:?} {theirs:?}");
    assert!(ours.sent >= 2 * count && ours.retransmitted < count, "{ours:?}");
}

/// What networks may use class 0 and these.
fn may_use(classes: &[Class]) -> NetworkShare {
    let classes = classes.iter().copied().chain([Class::default()]).collect();
    NetworkShare { classes: Some(classes), ..NetworkShare::default() }
}

/// The numbers of datagrams that come, until none has for a second. Behind one that is missing,
/// others wait up to 20 ms.
fn numbers(socket: &UdpSocket) -> Vec<u32> {
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    std::iter::from_fn(|| next(socket)).collect()
}

/// The number of the next datagram; `None` if none comes for the socket's time.
fn next(socket: &UdpSocket) -> Option<u32> {
    let mut datagram = [0; 2000];
    socket.recv(&mut datagram).ok()?;
    Some(u32::from_be_bytes(*datagram[1..].first_chunk().unwrap()))
}

/// Where the sender's frames are sent as they are.
fn wire_of(world: &World) -> OwnedFd {
    let link = Netlink::open_in(world.netns(SENDER)).unwrap().index("eth0").unwrap();
    world.netns(SENDER).run(|| packet::socket(link, 0)).unwrap().unwrap()
}

/// A datagram to a port that says its number, behind a tag that says its class.
fn frame(class: Class, port: u16, number: u32) -> Vec<u8> {
    frame_with(class, 0, port, number)
}

/// The same, of which the packet's code point says the class as well (RFC 2474 §4.2.2).
fn marked(class: Class, port: u16, number: u32) -> Vec<u8> {
    frame_with(class, class.pcp() << 5, port, number)
}

fn frame_with(class: Class, traffic_class: u8, port: u16, number: u32) -> Vec<u8> {
    let mut payload = vec![0; 1000];
    payload[1..5].copy_from_slice(&number.to_be_bytes());
    let ethernet = ethernet::Header::new(READER.mac(), SENDER.mac(), ethertype::VLAN);
    let tag = [Tag { class, vlan: 0 }.tci(), ethertype::IPV4].map(u16::to_be_bytes);
    let [from, to] = [SENDER, READER].map(|machine| match machine.v4() {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => unreachable!("it was asked for its address of IPv4"),
    });
    let ip = ipv4::Header::new(from, to, protocol::UDP, udp::Header::LEN + payload.len())
        .unwrap()
        .with_traffic_class(traffic_class);
    let udp = udp::Header::new(9, port, payload.len()).unwrap();
    [ethernet.as_bytes(), tag.as_flattened(), ip.as_bytes(), udp.as_bytes(), &payload].concat()
}

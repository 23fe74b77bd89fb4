//! Classes of frames in the fabric, which knows them by their tunnels' packets alone.

use std::thread;

use model::{CONTROL, ClassKind};
use ports::netlink::Netlink;
use ports::packet;
use rustix::net::SendFlags;
use units::{Class, Dscp, Rate};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::protocol;
use wire::{ipv4, udp};
use zerocopy::IntoBytes;

use crate::common::until;
use crate::numbered::Tally;
use crate::world::{Machine, Plan, World};

const SENDER: Machine = Machine::new(0, "blue", 1);
const READER: Machine = Machine::new(1, "blue", 2);

/// The class of what is sent, which nothing but its tag tells.
const CLASS: Class = Class::from_low_bits(3);

const COUNT: u32 = 2000;

#[test]
fn a_tagged_frame_meets_its_class_in_the_fabric_and_is_paused_there_as_that() {
    let mut plan = Plan::new(&[SENDER, READER]);
    let dscp = std::array::from_fn(|class| Dscp::new(8 * class as u8).unwrap());
    (plan.uplink.dscp, plan.fabric.dscp) = (Some(dscp), Some(dscp));
    plan.uplink.pfc = Some(plan.fabric.ports[0].rate);
    plan.fabric.classes[CLASS.index()] = ClassKind::Lossless;
    plan.fabric.ports[1].rate = Rate::from_bits_per_sec(50_000_000).unwrap();
    let mut world = World::new(plan);
    let reader = world.udp(READER, 7);
    world.ping(SENDER, READER.v4());
    let link = Netlink::open_in(world.netns(SENDER)).unwrap().index("eth0").unwrap();
    let sender = world.netns(SENDER).run(|| packet::socket(link, 0)).unwrap().unwrap();
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                rustix::net::send(&sender, &frame(number), SendFlags::empty()).unwrap();
            }
        });
        tally.take_all(&reader, 1, COUNT);
    });
    assert_eq!(tally.again, 0);
    until(|| (0..2).all(|host| world.status(host).ledger.held == 0));
    world.assert_balanced();

    let report = world.fabric();
    let sent = &report.ports["h0"][&CLASS.pcp()];
    assert!(
        sent.received.frames >= COUNT.into() && sent.pauses_sent > 0 && sent.dropped.is_empty(),
        "{report:?}"
    );
    let pauses = &world.status(0).uplink.unwrap().pauses[0];
    assert!(pauses.received > 0, "{pauses:?}");
    // The ping has no tag; hellos, reports and BFD are of the class for control.
    for host in ["h0", "h1"] {
        let classes: Vec<_> =
            report.ports[host].keys().copied().filter(|class| *class != CLASS.pcp()).collect();
        assert_eq!(classes, [0, CONTROL.pcp()], "{report:?}");
    }
}

/// A datagram that says its number, behind a tag that says its class.
fn frame(number: u32) -> Vec<u8> {
    let mut payload = vec![0; 1000];
    payload[1..5].copy_from_slice(&number.to_be_bytes());
    let ethernet = ethernet::Header::new(READER.mac(), SENDER.mac(), ethertype::VLAN);
    let tag = [Tag { class: CLASS, vlan: 0 }.tci(), ethertype::IPV4].map(u16::to_be_bytes);
    let [from, to] = [SENDER, READER].map(|machine| match machine.v4() {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => unreachable!("it was asked for its address of IPv4"),
    });
    let ip = ipv4::Header::new(from, to, protocol::UDP, udp::Header::LEN + payload.len()).unwrap();
    let udp = udp::Header::new(9, 7, payload.len()).unwrap();
    [ethernet.as_bytes(), tag.as_flattened(), ip.as_bytes(), udp.as_bytes(), &payload].concat()
}

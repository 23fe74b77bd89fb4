//! Linux at the other end of a tunnel, and a capture of what is on the wire.

use std::net::SocketAddr;

use kernel::joined;
use kernel::netlink::Netlink;
use kernel::packet;
use model::{Encapsulation, Uplink};
use needs::tshark::{self, Kind};
use rustix::net::{RecvFlags, sockopt};
use units::{ClassSet, Prefix};

use super::numbered::exchange;
use super::world::{Machine, Plan, World, connect, run, udp, vtep_v4};

const OURS: Machine = Machine::new(0, "blue", 1);
const THEIRS: Machine = Machine::new(1, "blue", 2);

/// Two hosts, one of which has no agent of ours, with tunnels that it knows.
fn plan() -> Plan {
    let mut plan = Plan::new(&[OURS, THEIRS]);
    plan.foreign = vec![1];
    plan.uplink = Uplink {
        encapsulation: Encapsulation::Vxlan,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..Uplink::new(vtep_v4(0))
    };
    plan
}

/// Gives the host without an agent the kernel's own tunnel, as the machine there.
fn give_tunnel(world: &World) {
    let far = &world.hosts[1];
    let (mac, local, remote) = (THEIRS.mac(), world.vtep(1), world.vtep(0));
    let device = format!("type vxlan id 7 dstport 4789 local {local} remote {remote} nolearning");
    for words in [
        &format!("link add tunnel address {mac} {device}"),
        "link set tunnel mtu 1400 up",
        &format!("neighbour add {} lladdr {} dev tunnel", OURS.v4(), OURS.mac()),
        &format!("neighbour add {} lladdr {} dev tunnel", OURS.v6(), OURS.mac()),
    ] {
        let words: Vec<_> = ["ip"].into_iter().chain(words.split(' ')).collect();
        let output = run(far, &words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    for (address, length) in [(THEIRS.v4(), 24), (THEIRS.v6(), 64)] {
        joined::give_address(far, "tunnel", Prefix { address, length }).unwrap();
    }
}

/// The two talk by all that there is.
fn talk(world: &World) {
    let ends = [world.netns(OURS), &world.hosts[1]];
    for (ours, theirs) in [(OURS.v4(), THEIRS.v4()), (OURS.v6(), THEIRS.v6())] {
        world.ping(OURS, theirs);
        let output = run(ends[1], &["ping", "-n", "-c", "1", "-W", "20", &ours.to_string()]);
        assert!(output.status.success(), "{output:?}");
        let [ours, theirs] = [ours, theirs].map(|address| SocketAddr::new(address, 7));
        exchange(&connect(ends, theirs), 2_000_000);
        exchange(&connect([ends[1], ends[0]], ours), 2_000_000);
        let [one, other] = [udp(ends[0], ours), udp(ends[1], theirs)];
        for len in [0, 1, 1000] {
            for (from, to, at) in [(&one, &other, theirs), (&other, &one, ours)] {
                from.send_to(&vec![7; len], at).unwrap();
                assert_eq!(to.recv(&mut [0; 2000]).unwrap(), len);
            }
        }
    }
    world.assert_balanced();
}

#[test]
fn linux_speaks_vxlan_with_us() {
    let world = World::new(plan());
    give_tunnel(&world);
    talk(&world);
}

/// A kernel leaves the checksum of a packet in a tunnel to the network card. One that is a cable to
/// another namespace, or to a virtual machine's host, computes none.
#[test]
fn checksums_that_linux_leaves_to_its_card_are_completed() {
    for v6 in [false, true] {
        let plan = Plan { is_cable: true, ..plan() };
        let world = World::new(if v6 { plan.over_v6() } else { plan });
        give_tunnel(&world);
        talk(&world);
    }
}

/// What crosses the link of host 0 from before there is an agent on host 1, while `talk` has the
/// two talk.
pub fn on_the_wire(plan: Plan, talk: impl FnOnce(&World)) -> Vec<Kind> {
    let mut world = World::new(Plan { foreign: vec![1], ..plan });
    let link = Netlink::open_in(&world.hosts[0]).unwrap().index("eth0").unwrap();
    // ETH_P_ALL: what leaves, too.
    let capture = world.hosts[0].run(|| packet::socket(link, 3)).unwrap().unwrap();
    sockopt::set_socket_recv_buffer_size_force(&capture, 64 << 20).unwrap();
    world.start(1);
    talk(&world);
    let mut kinds = Vec::new();
    let mut frame = [0; 2000];
    while let Ok((len, _)) = rustix::net::recv(&capture, &mut frame, RecvFlags::DONTWAIT) {
        // What is longer than the link carries, the kernel has joined (GRO).
        if len < frame.len() {
            kinds.push(tshark::kind(&frame[..len], &[]));
        }
    }
    assert!(kinds.len() > 500, "{}", kinds.len());
    kinds
}

#[test]
fn a_capture_of_the_underlay_is_dissected() {
    for v6 in [false, true] {
        let plan = Plan::new(&[OURS, THEIRS]);
        let mut plan = if v6 { plan.over_v6() } else { plan };
        // Some of it is sent again, and told of in ranges.
        plan.fabric.loss = 0.02;
        let kinds = on_the_wire(plan, |world| {
            world.ping(OURS, THEIRS.v4());
            world.ping(THEIRS, OURS.v6());
            exchange(&world.connect(OURS, THEIRS, 7), 500_000);
        });
        tshark::read(&kinds, &["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"]);
        let fields = ["geneve.option.type", "geneve.vni", "tcp.len"];
        if let Some(lines) = tshark::run(&kinds, &[], &fields) {
            let has =
                |word: &str| lines.iter().any(|line| line[0].split(',').any(|kind| kind == word));
            // Hellos, data, reports and rooms (docs/protocol.md). Whether anybody has to ask is
            // chance.
            for kind in ["0x81", "0x82", "0x83", "0x84"] {
                assert!(has(kind), "no option {kind} in {} packets", lines.len());
            }
        }
    }
}

//! Linux at the other end of a tunnel, and a capture of what is on the wire.

use kernel::joined;
use kernel::netlink::Netlink;
use kernel::packet;
use model::{Encapsulation, Uplink};
use needs::tshark::{self, Kind};
use rustix::net::{RecvFlags, sockopt};
use units::{ClassSet, Prefix};

use super::numbered::exchange;
use super::world::{Machine, Plan, World, connect, run, vtep_v4};

const OURS: Machine = Machine::new(0, "blue", 1);
const THEIRS: Machine = Machine::new(1, "blue", 2);

#[test]
fn linux_speaks_vxlan_with_us() {
    let mut plan = Plan::new(&[OURS, THEIRS]);
    plan.foreign = vec![1];
    plan.uplink = Uplink {
        encapsulation: Encapsulation::Vxlan,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..Uplink::new(vtep_v4(0))
    };
    let world = World::new(plan);
    let (far, mac) = (&world.hosts[1], THEIRS.mac().to_string());
    let [local, remote] = [1, 0].map(|host| world.vtep(host).to_string());
    for words in [
        &format!(
            "link add vxlan0 address {mac} type vxlan id 7 dstport 4789 local {local} nolearning"
        ),
        "link set vxlan0 mtu 1500 up",
        &format!("neighbour add {} lladdr {} dev vxlan0", OURS.v4(), OURS.mac()),
        &format!("neighbour add {} lladdr {} dev vxlan0", OURS.v6(), OURS.mac()),
    ] {
        let words: Vec<_> = ["ip"].into_iter().chain(words.split(' ')).collect();
        let output = run(far, &words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    for (address, length) in [(THEIRS.v4(), 24), (THEIRS.v6(), 64)] {
        joined::give_address(far, "vxlan0", Prefix { address, length }).unwrap();
    }
    let output = run(
        far,
        &["bridge", "fdb", "add", &OURS.mac().to_string(), "dev", "vxlan0", "dst", &remote],
    );
    assert!(output.status.success(), "{output:?}");

    world.ping(OURS, THEIRS.v4());
    world.ping(OURS, THEIRS.v6());
    let output = run(far, &["ping", "-n", "-c", "1", "-W", "20", &OURS.v4().to_string()]);
    assert!(output.status.success(), "{output:?}");
    exchange(&connect([world.netns(OURS), far], THEIRS.at(7)), 2_000_000);
    exchange(&connect([far, world.netns(OURS)], OURS.at(7)), 2_000_000);
    world.assert_balanced();
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

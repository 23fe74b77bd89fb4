//! What is too long for a tunnel.

use std::fs;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Output;

use kernel::netlink::Netlink;
use kernel::packet;
use model::{Encapsulation, Uplink};
use rustix::net::SendFlags;
use units::{ClassSet, Mac};

use super::numbered::exchange;
use super::world::{LONG, Machine, Plan, World, vtep_v4};

const ONE: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(1, "blue", 2);

/// What a tunnel over IPv4 carries of 1,500 bytes: without IPv4's header, UDP's, Geneve's with our
/// longest option, and Ethernet's.
const INNER: usize = 1500 - 20 - 8 - 8 - 32 - 14;

/// An EtherType for experiments on a link (IEEE 802, clause 9).
const EXPERIMENT: u16 = 0x88b5;

/// Two hosts whose links carry packets of 1,500 bytes.
fn plan() -> Plan {
    let mut plan = Plan::new(&[ONE, OTHER]);
    plan.fabric.ports.iter_mut().for_each(|port| port.mtu = 1500);
    plan
}

/// The same with tunnels of this kind, without a session.
fn plain(encapsulation: Encapsulation) -> Plan {
    let mut plan = plan();
    plan.uplink = Uplink {
        encapsulation,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..Uplink::new(vtep_v4(0))
    };
    plan
}

/// One echo of so many bytes of ICMP payload, with or without "don't fragment".
fn ping(world: &World, df: bool, to: std::net::IpAddr, len: usize) -> Output {
    let (len, to) = (len.to_string(), to.to_string());
    let df = if df { "do" } else { "dont" };
    world.run(ONE, &["ping", "-n", "-M", df, "-c", "1", "-W", "20", "-s", &len, &to])
}

fn assert_nothing_unfit(world: &World) {
    assert_eq!([0, 1].map(|host| world.refused(host, "unfit")), [0, 0]);
    world.assert_balanced();
}

#[test]
fn who_sends_what_is_too_long_is_told_how_long_it_may_be() {
    let world = World::new(plan());
    for (to, headers, says) in [(OTHER.v4(), 28, "mtu = "), (OTHER.v6(), 48, "mtu=")] {
        assert!(ping(&world, true, to, INNER - headers).status.success());
        let told = ping(&world, true, to, INNER - headers + 1);
        let told = String::from_utf8([told.stdout, told.stderr].concat()).unwrap();
        assert!(told.contains(&format!("{says}{INNER}")), "{told}");
    }
    exchange(&world.connect(ONE, OTHER, 7), 3_000_000);
    exchange(&world.connect(OTHER, ONE, 7), 3_000_000);
    assert_nothing_unfit(&world);
}

#[test]
fn what_may_be_fragmented_is_carried_however_long_it_is() {
    let all = [
        plan(),
        plain(Encapsulation::Geneve),
        plain(Encapsulation::Vxlan),
        plain(Encapsulation::Nvgre),
    ];
    for mut plan in all {
        if plan.uplink.encapsulation == Encapsulation::Nvgre {
            // Its lower numbers are reserved (RFC 7637 §3.2).
            plan.first_vni = 5000;
        }
        let world = World::new(plan);
        for netns in [ONE, OTHER].map(|machine| world.netns(machine)) {
            // Stacks without path MTU discovery, as of old.
            let path = "/proc/sys/net/ipv4/ip_no_pmtu_disc";
            netns.run(|| fs::write(path, "1").unwrap()).unwrap();
        }
        for len in [INNER, 4000, 60_000] {
            let output = ping(&world, false, OTHER.v4(), len);
            assert!(output.status.success(), "{len}: {output:?}");
        }
        let (from, to) = (world.udp(ONE, 7), world.udp(OTHER, 7));
        for number in 0..30_u8 {
            from.send_to(&[number; 4000], OTHER.at(7)).unwrap();
            let mut datagram = [0; 5000];
            assert_eq!(to.recv(&mut datagram).unwrap(), 4000);
            assert_eq!(datagram[..4000], [number; 4000]);
        }
        exchange(&world.connect(ONE, OTHER, 7), 500_000);
        assert_nothing_unfit(&world);
    }
}

/// What nobody may fragment, and nobody may be told about.
#[test]
fn what_cannot_be_answered_goes_in_parts() {
    let world = World::new(plan());
    let [from, to] = [ONE, OTHER].map(|machine| world.netns(machine));
    let link = |netns| Netlink::open_in(netns).unwrap().index("eth0").unwrap();

    // Multicast of IPv6.
    let group = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);
    let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 7));
    let [sender, receiver] = [from, to].map(|netns| netns.run(|| UdpSocket::bind(at)));
    let [sender, receiver] = [sender, receiver].map(|socket| socket.unwrap().unwrap());
    receiver.join_multicast_v6(&group, link(to)).unwrap();
    receiver.set_read_timeout(Some(LONG)).unwrap();
    sender.send_to(&[7; 1452], SocketAddr::from((group, 7))).unwrap();
    assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 1452);

    // No IP at all, tagged or not.
    let [sender, receiver] = [from, to]
        .map(|netns| netns.run(|| packet::socket(link(netns), EXPERIMENT)).unwrap().unwrap());
    rustix::net::sockopt::set_socket_timeout(
        &receiver,
        rustix::net::sockopt::Timeout::Recv,
        Some(LONG),
    )
    .unwrap();
    let head = [&Mac::BROADCAST.0[..], &ONE.mac().0].concat();
    for between in [&[][..], &[0x81, 0, 0x20, 0]] {
        let frame = [&head, between, &EXPERIMENT.to_be_bytes(), &[7; 1500]].concat();
        rustix::net::send(&sender, &frame, SendFlags::empty()).unwrap();
        let mut came = [0; 2000];
        let (_, len) =
            rustix::net::recv(&receiver, &mut came, rustix::net::RecvFlags::empty()).unwrap();
        assert!(len >= 1514, "{len}");
        assert!(came[..len].ends_with(&[7; 1500]));
    }
    assert_nothing_unfit(&world);
}

#[test]
fn a_port_has_the_mtu_that_its_tunnels_carry_or_says_that_its_own_is_more() {
    for (declared, mtu, says) in [(None, INNER, false), (Some(1500), 1500, true)] {
        let world = World::new(Plan { mtu: declared, ..plan() });
        let status = world.status_of(ONE);
        assert_eq!(status.mtu, mtu as u32);
        let output = world.run(ONE, &["ip", "link", "show", "eth0"]);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(&format!(" mtu {mtu} ")), "{shown}");
        let notes = status.notes.join("\n");
        assert_eq!(
            notes.contains(&format!("more than the {INNER} that tunnels carry")),
            says,
            "{notes}"
        );
        exchange(&world.connect(ONE, OTHER, 7), 1_000_000);
    }
}

#[test]
fn a_trace_tells_in_how_many_pieces_a_frame_goes() {
    for (plan, says) in [
        (plan(), "sent to 192.168.0.2 in 3 parts"),
        (plain(Encapsulation::Vxlan), "sent to 192.168.0.2 in 3 fragments"),
    ] {
        let world = World::new(plan);
        world.ping(ONE, OTHER.v4());
        let spec = |size, may_fragment| model::TraceSpec {
            port: ONE.port(),
            to: Some(OTHER.v4().to_string()),
            class: None,
            size,
            vlan: None,
            may_fragment,
            udp: None,
        };
        let verdict = |size, may| world.client(0).trace(&spec(size, may)).unwrap().verdict;
        assert_eq!(verdict(1000, true), "sent to 192.168.0.2");
        let but = "; but with its `mtu` of 1500, the machine behind `blue-1` sends no frame";
        assert!(verdict(4014, true).starts_with(&format!("{says}{but}")));
        assert!(verdict(4014, false).contains("too long for tunnels"));
    }
}

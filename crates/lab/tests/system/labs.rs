//! Labs of real namespaces: what they promise about frames, queues and leftovers.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fabric::Buffer;
use kernel::netns::Namespace;
use lab::{
    Cable, Counters, EndpointSpec, Home, HostsSpec, Lab, LabError, LabSpec, PhysicalKind,
    PhysicalSpec, State, SwitchKind, Topology,
};
use model::{ClassKind, PortStatus};
use rustix::net::sockopt;
use units::{Bytes, ClassSet, Rate};

use crate::place::{Place, start_maker};

fn up(place: &Place, spec: &LabSpec) -> Lab {
    Lab::up_unless(spec, &place.home, &AtomicBool::new(false)).unwrap()
}

fn spec(switch: SwitchKind, receiver: EndpointSpec) -> LabSpec {
    let mut spec = LabSpec::new("test", switch);
    spec.offload = false;
    spec.endpoints = vec![receiver, EndpointSpec::new("sender")];
    spec
}

/// Whether the switch can be tried on this machine. If not, the test is skipped.
fn is_here(switch: SwitchKind) -> bool {
    // The agent is a program that is not part of this crate.
    let takes_agent = matches!(switch, SwitchKind::Zovn | SwitchKind::ZovnLossy);
    (!takes_agent || needs::zovn().is_some()) && needs::checked(switch.check())
}

/// A socket inside an endpoint.
fn socket(lab: &Lab, endpoint: &str, address: impl ToString) -> UdpSocket {
    let address = address.to_string();
    let namespace = Namespace::open(&lab.endpoint(endpoint).unwrap().netns).unwrap();
    namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap()
}

/// How many frames are sent in each IP version.
const FRAMES: u64 = 50;

/// Sends frames from `sender` to `receiver`, which arrive.
fn send_in_both_versions(lab: &Lab) {
    let receiver = lab.endpoint("receiver").unwrap();
    for (to, any) in [
        (format!("{}:9000", receiver.ipv4().unwrap()), "0.0.0.0:0"),
        (format!("[{}]:9000", receiver.ipv6().unwrap()), "[::]:0"),
    ] {
        let inbox = socket(lab, "receiver", &to);
        inbox.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let outbox = socket(lab, "sender", any);
        for number in 0..FRAMES {
            outbox.send_to(&[7; 1400], &to).unwrap();
            assert_eq!(inbox.recv(&mut [0; 1500]).unwrap(), 1400, "datagram {number}");
        }
    }
}

/// Sends so many bytes by TCP from each of these, all at once, to `receiver`, which arrive.
fn stream(lab: &Lab, senders: &[&str], bytes: usize) {
    let to = (lab.endpoint("receiver").unwrap().ipv4().unwrap(), 9000);
    let inside = |endpoint: &str| Namespace::open(&lab.endpoint(endpoint).unwrap().netns).unwrap();
    let listener = inside("receiver").run(|| TcpListener::bind(to)).unwrap().unwrap();
    std::thread::scope(|scope| {
        for sender in senders {
            let mut stream = inside(sender).run(|| TcpStream::connect(to)).unwrap().unwrap();
            scope.spawn(move || stream.write_all(&vec![7; bytes]).unwrap());
        }
        for _ in senders {
            let (mut stream, _) = listener.accept().unwrap();
            scope.spawn(move || {
                assert_eq!(std::io::copy(&mut stream, &mut std::io::sink()).unwrap(), bytes as u64);
            });
        }
    });
}

/// Frames pass in both IP versions, and every counter on their way has seen them.
fn frames_pass(switch: SwitchKind) {
    let place = Place::new();
    let lab = up(&place, &spec(switch, EndpointSpec::new("receiver")));
    let before = lab.counters().unwrap();
    send_in_both_versions(&lab);
    let after = lab.counters().unwrap();
    let grown = |read: &dyn Fn(&Counters) -> u64| read(&after) - read(&before);
    assert_eq!(grown(&|c| c.endpoints["sender"].udp("OutDatagrams")), 2 * FRAMES);
    assert_eq!(grown(&|c| c.endpoints["receiver"].udp("InDatagrams")), 2 * FRAMES);
    assert_eq!(grown(&|c| c.endpoints["receiver"].udp("RcvbufErrors")), 0);
    for (place, frames) in [
        ("sender's vNIC", grown(&|c| c.endpoints["sender"].device.tx_packets)),
        ("switch in", grown(&|c| c.ports["sender"].device.rx_packets)),
        ("switch out", grown(&|c| c.ports["receiver"].device.tx_packets)),
        ("receiver's vNIC", grown(&|c| c.endpoints["receiver"].device.rx_packets)),
    ] {
        // IPv6 says hello to its multicast groups now and then.
        assert!((2 * FRAMES..2 * FRAMES + 20).contains(&frames), "{place}: {frames}");
    }
    lab.down().unwrap();
    place.assert_empty();
}

/// Frames pass from one host to the other, over a cable that has seen them.
fn frames_pass_between_hosts(switch: SwitchKind, tunnels: bool) {
    let place = Place::new();
    let mut spec = spec(switch, EndpointSpec::new("receiver"));
    // Each host has another endpoint, which has an interface of its own.
    spec.endpoints.insert(1, EndpointSpec::new("near"));
    spec.endpoints.push(EndpointSpec::new("far"));
    let physical = PhysicalSpec { cable: Some(Cable::Cut), ..PhysicalSpec::default() };
    let (retransmit, credit) = (ClassSet::NONE, ClassSet::NONE);
    spec.hosts = Some(HostsSpec { tunnels, retransmit, credit, physical, ..HostsSpec::new(2) });
    let lab = up(&place, &spec);
    let before = lab.counters().unwrap();
    send_in_both_versions(&lab);
    let after = lab.counters().unwrap();
    let crossed = after.cable[1].tx_packets - before.cable[1].tx_packets;
    assert!(crossed >= 2 * FRAMES, "{crossed} packets crossed");
    assert!(after.handled.is_none_or(|handled| handled >= 2 * FRAMES));
    lab.down().unwrap();
    place.assert_empty();
}

/// What a port's rate cannot carry waits in its queue, as many frames as that holds; the rest is
/// dropped and counted.
fn a_port_is_as_fast_and_as_deep_as_it_is_told(switch: SwitchKind) {
    const FRAME: u64 = 1514;
    // Open vSwitch's packet sockets hold some 90 frames of this size (net.core.rmem_default).
    const TRAIN: u64 = 60;
    let place = Place::new();
    let rate = |bits| Rate::from_bits_per_sec(bits);
    let mut spec = spec(switch, EndpointSpec::new("fast"));
    spec.endpoints[0].rate = rate(20_000_000);
    spec.endpoints.push(EndpointSpec {
        rate: rate(1_000_000),
        buffer: Some(8),
        ..EndpointSpec::new("slow")
    });
    let lab = up(&place, &spec);
    let outbox = socket(&lab, "sender", "0.0.0.0:0");
    // How many of a train arrive, how long that takes, and how many the queue drops.
    let send = |endpoint: &str| {
        let to = format!("{}:9000", lab.endpoint(endpoint).unwrap().ipv4().unwrap());
        let inbox = socket(&lab, endpoint, &to);
        inbox.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let before = lab.counters().unwrap().ports[endpoint].queue.dropped;
        let begun = Instant::now();
        for _ in 0..TRAIN {
            outbox.send_to(&[7; FRAME as usize - 42], &to).unwrap();
        }
        let (mut arrived, mut elapsed) = (0, Duration::ZERO);
        while inbox.recv(&mut [0; 1500]).is_ok() {
            (arrived, elapsed) = (arrived + 1, begun.elapsed());
        }
        (arrived, elapsed, lab.counters().unwrap().ports[endpoint].queue.dropped - before)
    };

    // A train that fits the queue passes, no faster than the rate. Two full frames of it may leave
    // at once.
    let (arrived, elapsed, dropped) = send("fast");
    assert_eq!((arrived, dropped), (TRAIN, 0));
    let least = spec.endpoints[0].rate.unwrap().time_for((TRAIN - 3) * FRAME);
    assert!(elapsed >= Duration::from(least), "{elapsed:?} is less than {least}");

    // Of one that does not fit, little more than the queue's length passes.
    let (arrived, _, dropped) = send("slow");
    assert!((8..TRAIN / 2).contains(&arrived), "{arrived} arrived");
    match switch {
        SwitchKind::Bridge => {
            assert!(arrived + dropped >= TRAIN, "{arrived} arrived, {dropped} were dropped")
        }
        // It gives up the rest of its batch as well, uncounted.
        _ => assert!(dropped > 0),
    }
    lab.down().unwrap();
    place.assert_empty();
}

#[test]
fn the_examples_can_be() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    let names = std::fs::read_dir(examples).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        LabSpec::read(&path).unwrap_or_else(|error| panic!("{error}")).name
    });
    assert!(names.collect::<Vec<_>>().contains(&"pair".to_owned()));
}

#[test]
fn a_bridge_passes_frames() {
    frames_pass(SwitchKind::Bridge);
}

#[test]
fn a_bridge_is_shaped() {
    a_port_is_as_fast_and_as_deep_as_it_is_told(SwitchKind::Bridge);
}

/// Connections whose first windows are two large segments of two frames each: at the queue every
/// frame takes a place.
#[test]
fn each_frame_of_a_large_segment_takes_a_place_in_a_bridges_queue() {
    const BUFFER: u32 = 8;
    const CONNECTIONS: u64 = 10;
    let place = Place::new();
    let receiver = EndpointSpec {
        rate: Rate::from_bits_per_sec(1_000_000),
        buffer: Some(BUFFER),
        ..EndpointSpec::new("receiver")
    };
    let mut spec = spec(SwitchKind::Bridge, receiver);
    spec.offload = true;
    spec.endpoints[1].initcwnd = Some(4);
    // No probe for a lost tail: nothing is sent again before its timer, which has 200 ms.
    spec.endpoints[1].sysctls = [("net.ipv4.tcp_early_retrans".into(), "0".into())].into();
    let lab = up(&place, &spec);
    let to = (lab.endpoint("receiver").unwrap().ipv4().unwrap(), 9000);
    let inside = |endpoint: &str| Namespace::open(&lab.endpoint(endpoint).unwrap().netns).unwrap();
    let _listener = inside("receiver").run(|| TcpListener::bind(to)).unwrap().unwrap();
    let connect = || (0..CONNECTIONS).map(|_| TcpStream::connect(to).unwrap()).collect::<Vec<_>>();
    let connections = inside("sender").run(connect).unwrap();
    let begun = Instant::now();
    for mut connection in connections {
        connection.write_all(&[7; 4 * 1448]).unwrap();
    }
    let dropped = lab.counters().unwrap().ports["receiver"].queue.dropped;
    // Two frames are on the wire or in the bucket, and one may leave each 12 ms.
    let left = 5 + begun.elapsed().as_millis() as u64 / 12;
    assert!(dropped + u64::from(BUFFER) + left >= 4 * CONNECTIONS, "{dropped} were dropped");
}

#[test]
fn kernels_pass_frames_between_hosts() {
    frames_pass_between_hosts(SwitchKind::Bridge, true);
}

/// Hosts of one endpoint each, joined by a bridge: the first is the receiver's.
fn bridged(switch: SwitchKind, hosts: u32, physical: PhysicalSpec) -> LabSpec {
    let mut spec = spec(switch, EndpointSpec::new("receiver"));
    spec.endpoints.extend((3..=hosts).map(|host| EndpointSpec::new(format!("sender{host}"))));
    let physical = PhysicalSpec { switch: PhysicalKind::Bridge, ..physical };
    let (retransmit, credit) = (ClassSet::NONE, ClassSet::NONE);
    spec.hosts = Some(HostsSpec { retransmit, credit, physical, ..HostsSpec::new(hosts) });
    spec
}

/// Links of so many bits a second with room for some ten frames towards each host.
fn shallow(bits: u64) -> PhysicalSpec {
    let usual = PhysicalSpec::default();
    let buffer = Buffer { bytes: Bytes(16_000), ..usual.buffer };
    PhysicalSpec { rate: Rate::from_bits_per_sec(bits).unwrap(), buffer, ..usual }
}

#[test]
fn hosts_are_joined_by_a_bridge_as_fast_as_its_links() {
    const TRAIN: u64 = 60;
    let place = Place::new();
    let rate = Rate::from_bits_per_sec(20_000_000).unwrap();
    let lab = up(
        &place,
        &bridged(SwitchKind::Bridge, 2, PhysicalSpec { rate, ..PhysicalSpec::default() }),
    );
    let before = lab.counters().unwrap();
    send_in_both_versions(&lab);
    let after = lab.counters().unwrap();
    for (what, read) in [
        ("in", (|counters| counters.links["host2"].port.device.rx_packets) as fn(&Counters) -> u64),
        ("out", |counters| counters.links["host1"].port.device.tx_packets),
    ] {
        let frames = read(&after) - read(&before);
        assert!((2 * FRAMES..2 * FRAMES + 30).contains(&frames), "{what}: {frames}");
    }

    // A train waits for its host's link, all of it.
    let to = format!("{}:9000", lab.endpoint("receiver").unwrap().ipv4().unwrap());
    let inbox = socket(&lab, "receiver", &to);
    inbox.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let outbox = socket(&lab, "sender", "0.0.0.0:0");
    let begun = Instant::now();
    for _ in 0..TRAIN {
        outbox.send_to(&[7; 1400], &to).unwrap();
    }
    for number in 0..TRAIN {
        assert_eq!(inbox.recv(&mut [0; 1500]).unwrap(), 1400, "datagram {number}");
    }
    // An IPv4 and a VXLAN packet's headers, and what is around a frame on a wire; the bucket holds
    // two or three.
    let least = rate.time_for((TRAIN - 3) * (1400 + 42 + 50 + 24));
    assert!(begun.elapsed() >= Duration::from(least), "{:?} is less than {least}", begun.elapsed());
    assert_eq!(lab.counters().unwrap().dropped_between_hosts(), Some(0));
    lab.down().unwrap();
    place.assert_empty();
}

/// Two hosts send to a third as fast as their links are: at the bridge, half of it finds no room.
#[test]
fn a_bridge_between_hosts_drops_what_its_buffer_does_not_hold() {
    const TRAIN: u64 = 200;
    if !is_here(SwitchKind::ZovnLossy) {
        return;
    }
    let place = Place::new();
    let lab = up(&place, &bridged(SwitchKind::ZovnLossy, 3, shallow(10_000_000)));
    let to = format!("{}:9000", lab.endpoint("receiver").unwrap().ipv4().unwrap());
    let inbox = socket(&lab, "receiver", &to);
    inbox.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    // All of it has room there, whenever it is read.
    sockopt::set_socket_recv_buffer_size_force(&inbox, 32 << 20).unwrap();
    let outboxes = ["sender", "sender3"].map(|sender| socket(&lab, sender, "0.0.0.0:0"));
    let (mut trains, mut arrived, mut dropped) = (0, 0, 0);
    // Hosts that find a processor one after the other do not send at once.
    while dropped == 0 && trains < 20 {
        for outbox in (0..TRAIN).flat_map(|_| &outboxes) {
            outbox.send_to(&[7; 1400], &to).unwrap();
        }
        trains += 1;
        arrived += std::iter::from_fn(|| inbox.recv(&mut [0; 1500]).ok()).count() as u64;
        dropped = lab.counters().unwrap().links["host1"].port.queue.dropped;
    }
    assert!(
        dropped > 0 && arrived + dropped >= 2 * TRAIN * trains,
        "{arrived} arrived, {dropped} were dropped"
    );
    assert!(
        arrived >= TRAIN * trains,
        "{arrived} arrived: as many as the link takes while each other sends its own"
    );
    lab.down().unwrap();
    place.assert_empty();
}

#[test]
fn a_lossless_zovn_loses_nothing_over_a_bridge_that_drops() {
    const BYTES: usize = 2_000_000;
    if !is_here(SwitchKind::Zovn) {
        return;
    }
    let place = Place::new();
    let mut spec = bridged(SwitchKind::Zovn, 3, shallow(100_000_000));
    spec.hosts = spec.hosts.map(|hosts| HostsSpec { retransmit: ClassSet::ALL, ..hosts });
    let lab = up(&place, &spec);
    stream(&lab, &["sender", "sender3"], BYTES);
    let counters = lab.counters().unwrap();
    assert!(counters.agents.iter().flat_map(|agent| &agent.ports).all(PortStatus::balances));
    lab.down().unwrap();
    place.assert_empty();
}

/// Four hosts of one endpoint each, at two leaves with two spines between them: the receiver and
/// its neighbour, and two far away.
#[test]
fn leaves_and_spines_carry_each_flow_by_one_spine_and_lose_nothing() {
    if !is_here(SwitchKind::Zovn) {
        return;
    }
    let place = Place::new();
    let mut spec = spec(SwitchKind::Zovn, EndpointSpec::new("receiver"));
    spec.endpoints.insert(1, EndpointSpec::new("near"));
    spec.endpoints.push(EndpointSpec::new("sender4"));
    // Neither credit nor repairs: what keeps frames is the physical network alone.
    let physical = PhysicalSpec {
        topology: Topology::LeafSpine,
        promise: ClassKind::Lossless,
        rate: Rate::from_bits_per_sec(100_000_000).unwrap(),
        ..PhysicalSpec::default()
    };
    let (retransmit, credit) = (ClassSet::NONE, ClassSet::NONE);
    spec.hosts = Some(HostsSpec { retransmit, credit, physical, ..HostsSpec::new(4) });
    let lab = up(&place, &spec);
    send_in_both_versions(&lab);
    let by_spines = || {
        let fabric = lab.counters().unwrap().fabric.unwrap();
        ["leaf2-spine1", "leaf2-spine2"].map(|port| fabric.port(port).sent.bytes)
    };
    let before = by_spines();
    stream(&lab, &["near"], 100_000);
    let after = by_spines();
    assert!(
        after.iter().sum::<u64>() - before.iter().sum::<u64>() < 50_000,
        "{before:?}, {after:?}"
    );

    // Many flows from far and near to one, all at once.
    let senders = ["sender", "sender4", "near"].repeat(6);
    stream(&lab, &senders, 300_000);
    let both = by_spines();
    assert!(
        both.iter().zip(after).all(|(both, after)| *both > after + 300_000),
        "{after:?}, {both:?}"
    );
    let counters = lab.counters().unwrap();
    assert_eq!(counters.dropped_between_hosts(), Some(0), "{:?}", counters.fabric);
    let fabric = counters.fabric.unwrap();
    let paused =
        ["leaf1-spine1", "leaf1-spine2", "host2"].map(|port| fabric.port(port).pauses_sent);
    assert!(fabric.balanced && paused.iter().any(|pauses| *pauses > 0), "{paused:?}");
    lab.down().unwrap();
    place.assert_empty();
}

#[test]
fn open_vswitches_pass_frames_between_hosts() {
    if is_here(SwitchKind::Ovs) {
        frames_pass_between_hosts(SwitchKind::Ovs, true);
    }
}

#[test]
fn agents_pass_frames_between_hosts_with_tunnels_and_without() {
    if is_here(SwitchKind::Zovn) {
        frames_pass_between_hosts(SwitchKind::Zovn, true);
        frames_pass_between_hosts(SwitchKind::Zovn, false);
    }
}

#[test]
fn open_vswitch_passes_frames() {
    if is_here(SwitchKind::Ovs) {
        frames_pass(SwitchKind::Ovs);
    }
}

#[test]
fn open_vswitch_goes_first_as_zovn_does() {
    if !is_here(SwitchKind::Ovs) {
        return;
    }
    let place = Place::new();
    let lab = up(&place, &spec(SwitchKind::Ovs, EndpointSpec::new("receiver")));
    let book = place.directory.path().join(lab.id()).join("processes");
    let daemons = std::fs::read_dir(book)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for daemon in daemons {
        let pid = daemon.rsplit_once('.').unwrap().1;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            // Field 19 (proc(5)); field 3 follows the name in parentheses.
            let nice = stat[stat.rfind(')').unwrap() + 1..].split_ascii_whitespace().nth(16);
            assert_eq!(nice, Some("-10"), "{daemon}: {stat}");
        }
    }
}

#[test]
fn open_vswitch_is_shaped() {
    if is_here(SwitchKind::Ovs) {
        a_port_is_as_fast_and_as_deep_as_it_is_told(SwitchKind::Ovs);
    }
}

#[test]
fn zovn_passes_frames() {
    if is_here(SwitchKind::Zovn) {
        frames_pass(SwitchKind::Zovn);
        frames_pass(SwitchKind::ZovnLossy);
    }
}

/// A sender that has all the frames of a full egress is refused like any other: it is not made to
/// wait.
#[test]
fn a_lossy_zovn_refuses_and_makes_nobody_wait() {
    if !is_here(SwitchKind::ZovnLossy) {
        return;
    }
    let place = Place::new();
    let slow =
        EndpointSpec { rate: Rate::from_bits_per_sec(1_000_000), ..EndpointSpec::new("receiver") };
    let lab = up(&place, &spec(SwitchKind::ZovnLossy, slow));
    let outbox = socket(&lab, "sender", "0.0.0.0:0");
    let to = format!("{}:9000", lab.endpoint("receiver").unwrap().ipv4().unwrap());
    let begun = Instant::now();
    for _ in 0..4000 {
        outbox.send_to(&[7; 1000], &to).unwrap();
    }
    // At the port's rate they would have taken half a minute.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(lab.counters().unwrap().ports["receiver"].queue.dropped > 0);
}

#[test]
fn endpoints_are_as_they_were_asked_to_be() {
    let place = Place::new();
    let mut spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    spec.endpoints[0].sysctls = [("net.ipv4.tcp_sack".into(), "0".into())].into();
    spec.endpoints[0].initcwnd = Some(3);
    spec.mtu = 9000;
    let lab = up(&place, &spec);
    let said = |program: &str, arguments: &[&str]| {
        let output = lab.command("receiver", program).unwrap().args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said("cat", &["/proc/sys/net/ipv4/tcp_sack"]).trim(), "0");
    assert!(
        said("ip", &["route"]).contains("10.0.0.0/24 dev eth0 proto static scope link initcwnd 3")
    );
    assert!(
        said("ip", &["neighbour"]).contains("10.0.0.2 dev eth0 lladdr 02:00:00:00:00:02 PERMANENT")
    );
    assert!(said("ip", &["link"]).contains("mtu 9000"));
}

#[test]
fn a_wrong_setting_is_named_and_nothing_stays() {
    let place = Place::new();
    let mut spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    spec.endpoints[0].sysctls = [("net.ipv4.no_such_thing".into(), "0".into())].into();
    let error = Lab::up_unless(&spec, &place.home, &AtomicBool::new(false)).unwrap_err();
    assert!(
        error.to_string().contains("`receiver`: cannot set `net.ipv4.no_such_thing`"),
        "{error}"
    );
    place.assert_empty();
}

#[test]
fn two_labs_live_side_by_side_and_one_goes_without_the_other() {
    let place = Place::new();
    let spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    let (first, second) = (up(&place, &spec), up(&place, &spec));
    assert_eq!(place.namespaces().len(), 6);
    assert!(matches!(place.home.find("test"), Err(LabError::Ambiguous { .. })));
    assert_eq!(place.home.find(first.id()).unwrap().state, State::InUse);
    drop(first);
    assert_eq!(place.namespaces().len(), 3);
    second.counters().unwrap();
    let id = second.id().to_owned();
    second.keep().unwrap();
    assert_eq!(place.home.find("test").unwrap().state, State::Up);
    let opened = Lab::open(&id, &place.home).unwrap();
    assert_eq!(opened.spec(), &spec);
    drop(opened);
    assert_eq!(place.namespaces().len(), 3, "an opened lab is somebody else's");
    place.home.remove(&id).unwrap();
    place.assert_empty();
}

#[test]
fn whoever_is_in_a_lab_ends_with_it_and_nobody_else() {
    let place = Place::new();
    let spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    let (going, staying) = (up(&place, &spec), up(&place, &spec));
    // A daemon of which nobody was told.
    let daemon = |lab: &Lab| {
        let mut shell = lab.command("sender", "sh").unwrap();
        let output =
            shell.args(["-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let [gone, stays] = [&going, &staying].map(daemon);
    // A namespace that is not the lab's, under one of its names.
    let borrowed = format!("{}-{}-borrowed", place.prefix, going.id());
    let us = std::process::id().to_string();
    assert!(
        Command::new("ip").args(["netns", "attach", &borrowed, &us]).status().unwrap().success()
    );
    going.down().unwrap();
    let runs = |pid: &str| Path::new("/proc").join(pid).join("exe").exists();
    assert!(!runs(&gone) && runs(&stays));
    staying.down().unwrap();
    assert!(!runs(&stays));
    place.assert_empty();
}

#[test]
fn a_name_without_a_namespace_is_removed() {
    let place = Place::new();
    let name = Path::new("/run/netns").join(format!("{}-7c1e-switch", place.prefix));
    // What Namespace::create leaves if it is killed half-way.
    std::fs::write(&name, "").unwrap();
    assert_eq!(place.home.list().unwrap()[0].state, State::LeftOver);
    place.home.remove("7c1e").unwrap();
    place.assert_empty();
}

#[test]
fn an_interrupted_lab_leaves_nothing() {
    let place = Place::new();
    let spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    let error = Lab::up_unless(&spec, &place.home, &AtomicBool::new(true)).unwrap_err();
    assert!(matches!(error, LabError::Interrupted));
    place.assert_empty();
}

#[test]
fn a_panic_takes_the_lab_down() {
    let place = Place::new();
    let spec = spec(SwitchKind::Bridge, EndpointSpec::new("receiver"));
    let panicked = std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let _lab = up(&place, &spec);
            panic!("on purpose");
        });
        user.join().is_err()
    });
    assert!(panicked);
    place.assert_empty();
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn be_killed() {
    let Ok(place) = std::env::var("ZOVN_TEST_PLACE") else { return };
    let (directory, prefix) = place.split_once(' ').unwrap();
    let switch = if SwitchKind::Ovs.check().is_ok() { SwitchKind::Ovs } else { SwitchKind::Bridge };
    let spec = spec(switch, EndpointSpec::new("receiver"));
    let lab =
        Lab::up_unless(&spec, &Home::new(directory, prefix), &AtomicBool::new(false)).unwrap();
    std::fs::write(Path::new(directory).join("up"), "").unwrap();
    lab.command("sender", "sleep").unwrap().arg("60").status().unwrap();
}

#[test]
fn what_a_killed_process_leaves_is_found_and_removed() {
    let place = Place::new();
    let mut maker = start_maker(&place, "labs::be_killed");
    let up = place.directory.path().join("up");
    let begun = Instant::now();
    while !up.exists()
        && begun.elapsed() < Duration::from_secs(30)
        && maker.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    maker.kill().unwrap();
    maker.wait().unwrap();
    std::fs::remove_file(up).unwrap();

    let [left] = &place.home.list().unwrap()[..] else { panic!("one lab is left") };
    assert_eq!(left.state, State::LeftOver);
    // Half of a lab is as good as a whole one: whatever there is goes.
    std::fs::remove_file(place.directory.path().join(&left.id).join("lab.json")).unwrap();
    place.home.remove(&left.id).unwrap();
    place.assert_empty();
}

//! What a container port promises, in real namespaces with the kernel's own stacks.

#[allow(dead_code, reason = "the example uses more of it")]
mod common;
mod lanes;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::{Container, Forwarder, Wire, attach, config, until};
use kernel::netlink::{Handle, LinkChange, Netlink, Prefix, Qdisc, QdiscKind, Route};
use kernel::netns::Namespace;
use tap::{Counters, Seen, TapConfig, TapPort};

/// Two containers with their ports, each configuration touched up by `change`.
fn pair(name: &str, change: impl Fn(&mut [TapConfig; 2])) -> ([Container; 2], [TapPort; 2]) {
    let containers = [Container::new(&format!("{name}-a")), Container::new(&format!("{name}-b"))];
    let mut configs = [config(&containers[0], 1), config(&containers[1], 2)];
    change(&mut configs);
    let ports = configs.map(|config| attach(&config));
    (containers, ports)
}

/// One datagram there and one back.
fn greet(from: &UdpSocket, to: &UdpSocket) {
    let mut buffer = [0; 16];
    from.send_to(b"there", to.local_addr().unwrap()).unwrap();
    let (len, back) = to.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"there");
    to.send_to(b"back", back).unwrap();
    assert_eq!(from.recv(&mut buffer).unwrap(), 4);
}

fn assert_nothing_dropped(port: &TapPort) {
    let mut inspector = port.inspector().unwrap();
    let Counters { dropped_by_device, dropped_by_queue, .. } = inspector.counters().unwrap();
    assert_eq!((dropped_by_device, dropped_by_queue), (0, 0));
    assert_eq!(inspector.look(), Seen::default());
}

#[test]
fn sessions_come_up_over_both_families() {
    let ([a, b], ports) = pair("greet", |_| {});
    let forwarder = Forwarder::start(Wire::new(ports), 0);
    greet(&a.udp("10.9.0.1:0"), &b.udp("10.9.0.2:7"));
    greet(&a.udp("[fd09::1]:0"), &b.udp("[fd09::2]:7"));
    let wire = forwarder.stop();
    wire.ports.iter().for_each(assert_nothing_dropped);
    wire.detach();
}

#[test]
fn an_interface_that_no_switch_has_made_is_left_alone() {
    let container = Container::new("foreign");
    let config = config(&container, 1);
    let name = &config.interface;
    let mut netlink = Netlink::open_in(&container.namespace).unwrap();
    let persistent_tap = || {
        let open = || kernel::tun::Device::open(name, wire::Offload::LEN).unwrap().0;
        container.namespace.run(open).unwrap().persist(true).unwrap();
    };
    let bridge = || Netlink::open_in(&container.namespace).unwrap().add_bridge(name).unwrap();
    for make in [&persistent_tap as &dyn Fn(), &bridge] {
        make();
        let before = netlink.link(name).unwrap();
        let refused = TapPort::attach(&config).err().expect("it is not ours").to_string();
        assert!(refused.contains("was not made by zovn"), "{refused}");
        let after = netlink.link(name).unwrap();
        assert_eq!((after.index, after.up, after.mac), (before.index, before.up, before.mac));
        netlink.delete_link(name).unwrap();
    }
    // Ours is, whoever left it.
    drop(attach(&config));
    assert_eq!(netlink.link(name).unwrap().alias, "zovn");
    attach(&config).detach().unwrap();
}

#[test]
fn a_flood_waits_in_its_sockets_while_the_switch_takes_its_time() {
    let ([a, b], ports) = pair("flood", |_| {});
    // Also small datagrams: they fill the ring with the most entries.
    a.knows(2);
    let target = b.udp("10.9.0.2:9");
    let forwarder = Forwarder::start(Wire::new(ports), 20_000);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let over = needs::Over(&stop);
        for size in [1470, 1470, 200] {
            let sender = a.udp("10.9.0.1:0");
            sender.connect(target.local_addr().unwrap()).unwrap();
            let (stop, sent) = (&stop, &sent);
            scope.spawn(move || {
                let bytes = vec![0; size];
                while !stop.load(Relaxed) {
                    sender.send(&bytes).unwrap();
                    sent.fetch_add(1, Relaxed);
                }
            });
        }
        // What a sender may have on the way: its send buffer, of which the smallest of these
        // packets takes 768 bytes, and its share of the ring's two credits of 256 KiB.
        let on_the_way = 3 * 212_992 / 768 + (512 << 10) / 200;
        until("20,000 frames forwarded", || {
            let forwarded = forwarder.counted(0);
            let sent = sent.load(Relaxed);
            assert!(
                sent <= forwarded + on_the_way + 64,
                "{sent} sent, {forwarded} forwarded: a sender did not block"
            );
            forwarded >= 20_000
        });
        drop(over);
        forwarder.set_pace(0);
    });
    until("every datagram that was sent is forwarded", || {
        forwarder.counted(0) == sent.load(Relaxed)
    });
    let wire = forwarder.stop();
    wire.ports.iter().for_each(assert_nothing_dropped);
    wire.detach();
}

#[test]
fn a_flood_at_full_speed_loses_nothing() {
    let ([a, b], ports) = pair("full", |_| {});
    a.knows(2);
    let target = b.udp("10.9.0.2:9");
    let forwarder = Forwarder::start(Wire::new(ports), 0);
    let sender = a.udp("10.9.0.1:0");
    sender.connect(target.local_addr().unwrap()).unwrap();
    const DATAGRAMS: u64 = 200_000;
    for _ in 0..DATAGRAMS {
        sender.send(&[0; 1470]).unwrap();
    }
    until("every datagram is forwarded", || forwarder.counted(0) == DATAGRAMS);
    let wire = forwarder.stop();
    wire.ports.iter().for_each(assert_nothing_dropped);
    wire.detach();
}

/// 32 MiB in each direction at once: every byte arrives, and nothing is sent again because it was
/// lost.
fn stream_both_ways(name: &str, change: impl Fn(&mut [TapConfig; 2])) {
    const BYTES: usize = 32 << 20;
    let (containers, ports) = pair(name, change);
    let forwarder = Forwarder::start(Wire::new(ports), 0);
    let listener = containers[1].listen("10.9.0.2:5001");
    let one = containers[0].connect("10.9.0.2:5001");
    let (other, _) = listener.accept().unwrap();
    thread::scope(|scope| {
        for (stream, seed) in [(&one, 1), (&other, 2)] {
            scope.spawn(move || write_pattern(stream, seed, BYTES));
        }
        for (stream, seed) in [(&one, 2), (&other, 1)] {
            scope.spawn(move || read_pattern(stream, seed, BYTES));
        }
    });
    let sum = |protocol, name| -> u64 {
        containers.iter().map(|container| container.counter(protocol, name)).sum()
    };
    assert_eq!(sum("Tcp", "InCsumErrors"), 0);
    // Nobody has missed a segment, or had one after a later one.
    assert_eq!(sum("TcpExt", "TCPFastRetrans"), 0);
    // Where the processors are busy, a sender's timer may be over before the answer is there (RFC
    // 8985 §7). What it sends again then has arrived before, and its receiver says so (RFC 2883).
    let had = || sum("TcpExt", "TCPDSACKOldSent") + sum("TcpExt", "TCPDSACKOfoSent");
    until("what was sent again had arrived", || sum("Tcp", "RetransSegs") <= had());
    let wire = forwarder.stop();
    wire.ports.iter().for_each(assert_nothing_dropped);
    wire.detach();
}

/// The byte at any place of a stream: a pattern that no lost, doubled or moved segment leaves
/// whole.
fn pattern(seed: usize, place: usize) -> u8 {
    ((place / 251) ^ (place * seed)) as u8
}

fn write_pattern(mut stream: impl Write, seed: usize, bytes: usize) {
    let mut chunk = vec![0; 64 << 10];
    for begin in (0..bytes).step_by(chunk.len()) {
        chunk.iter_mut().enumerate().for_each(|(place, byte)| *byte = pattern(seed, begin + place));
        stream.write_all(&chunk).unwrap();
    }
}

fn read_pattern(mut stream: impl Read, seed: usize, bytes: usize) {
    let mut chunk = vec![0; 64 << 10];
    for begin in (0..bytes).step_by(chunk.len()) {
        stream.read_exact(&mut chunk).unwrap();
        let wrong = chunk
            .iter()
            .enumerate()
            .position(|(place, byte)| *byte != pattern(seed, begin + place));
        assert_eq!(wrong, None, "after {begin} bytes");
    }
}

#[test]
fn streams_pass_whole_with_offload() {
    stream_both_ways("tcp-on", |_| {});
}

#[test]
fn streams_pass_in_wire_frames_without_offload() {
    stream_both_ways("tcp-off", |configs| {
        configs.iter_mut().for_each(|config| config.offload = false)
    });
}

#[test]
fn large_packets_are_cut_for_a_port_without_offload() {
    stream_both_ways("tcp-cut", |configs| configs[1].offload = false);
}

#[test]
fn streams_pass_at_jumbo_mtus() {
    for (mtu, offload) in [(9000, true), (9000, false), (65_521, true), (65_521, false)] {
        stream_both_ways(&format!("mtu-{mtu}-{offload}"), |configs| {
            for config in configs {
                config.mtu = mtu;
                config.offload = offload;
            }
        });
    }
}

#[test]
fn the_largest_datagrams_pass_whole_and_in_fragments() {
    for mtu in [1500, 65_521] {
        let ([a, b], ports) = pair(&format!("large-{mtu}"), |configs| {
            configs.iter_mut().for_each(|config| config.mtu = mtu);
        });
        let forwarder = Forwarder::start(Wire::new(ports), 0);
        let (from, to) = (a.udp("10.9.0.1:0"), b.udp("10.9.0.2:7"));
        let sent: Vec<u8> = (0..65_000).map(|place| pattern(3, place)).collect();
        from.send_to(&sent, to.local_addr().unwrap()).unwrap();
        let mut received = vec![0; 65_536];
        let len = to.recv(&mut received).unwrap();
        assert_eq!(received[..len], sent);
        forwarder.stop().detach();
    }
}

#[test]
fn ports_come_and_go_under_load() {
    let [a, b] = [Container::new("churn-a"), Container::new("churn-b")];
    let configs = [config(&a, 1), config(&b, 2)];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = needs::Over(&stop);
        scope.spawn(|| {
            let sender = a.udp("0.0.0.0:0");
            while !stop.load(Relaxed) {
                // Without an interface there is no route.
                let _ = sender.send_to(&[0; 1000], "10.9.0.2:9");
            }
        });
        for _ in 0..50 {
            let mut wire = Wire::new(configs.each_ref().map(attach));
            let (mut forwarded, begun) = (0, Instant::now());
            while forwarded < 500 {
                assert!(begun.elapsed() < Duration::from_secs(60), "only {forwarded} frames");
                wire.turn(32, |_, len| forwarded += usize::from(len > 1000)).unwrap();
            }
            assert_eq!(wire.ports[0].inspector().unwrap().counters().unwrap().dropped_by_device, 0);
            wire.detach();
        }
        drop(over);
    });
    for container in [&a, &b] {
        let mut netlink = Netlink::open_in(&container.namespace).unwrap();
        until("no interface is left", || {
            netlink.links().unwrap().iter().all(|link| link.name == "lo")
        });
    }
}

#[test]
fn a_stopped_switch_holds_the_container_and_goes_on_where_it_was() {
    let ([a, b], ports) = pair("stop", |_| {});
    a.knows(2);
    let target = b.udp("10.9.0.2:9");
    let mut wire = Wire::new(ports);
    let sender = a.udp("10.9.0.1:0");
    sender.connect(target.local_addr().unwrap()).unwrap();
    sender.set_nonblocking(true).unwrap();
    let (mut sent, mut forwarded) = (0, 0);
    for _ in 0..3 {
        // Nobody reads: the ring, the queue and at last the socket fill up.
        while sender.send(&[0; 1470]).is_ok() {
            sent += 1;
        }
        assert!(
            sent - forwarded > (256 << 10) / 1512,
            "there was credit for more than {}",
            sent - forwarded
        );
        until("all of it is forwarded", || {
            wire.turn(64, |_, len| forwarded += usize::from(len > 1470)).unwrap();
            forwarded == sent
        });
    }
    wire.ports.iter().for_each(assert_nothing_dropped);
    wire.detach();
}

/// Not a test of its own: what the next one kills.
#[test]
fn a_switch_to_be_killed() {
    let Ok(netns) = std::env::var("ZOVN_T_ATTACH") else { return };
    let container = Container { namespace: Namespace::open(&netns).unwrap(), name: String::new() };
    let mut config = config(&container, 1);
    config.netns = netns;
    let _port = attach(&config);
    eprintln!("attached");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_switch_leaves_the_interface_and_the_next_one_adopts_it() {
    let [a, b] = [Container::new("kill-a"), Container::new("kill-b")];
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_switch_to_be_killed", "--nocapture"])
        .env("ZOVN_T_ATTACH", &a.name)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(
        said.into_iter().any(|line| line.contains("attached")),
        "the first switch did not attach"
    );

    let mut netlink = Netlink::open_in(&a.namespace).unwrap();
    let link = netlink.index("eth0").unwrap();
    let busy = TapPort::attach(&config(&a, 1)).err().unwrap().to_string();
    assert!(busy.contains("another process has it open"), "{busy}");
    let via = Some("10.9.0.2".parse().unwrap());
    netlink.add_route(Route { to: Prefix::ALL_V4, via, link, initial_window: Some(20) }).unwrap();

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(netlink.index("eth0").unwrap(), link, "the container keeps its interface");

    let ports = [attach(&config(&a, 1)), attach(&config(&b, 2))];
    assert_eq!(netlink.index("eth0").unwrap(), link);
    // IPv6 speaks by itself, to nobody while nobody has the device open.
    let into_the_void = ports[0].inspector().unwrap().counters().unwrap().dropped_by_device;
    let forwarder = Forwarder::start(Wire::new(ports), 0);
    greet(&a.udp("10.9.0.1:0"), &b.udp("10.9.0.2:7"));
    // The route was the container's own, and is still there.
    let far = a.udp("0.0.0.0:0");
    far.connect("192.0.2.1:9").unwrap();
    assert_eq!(far.local_addr().unwrap().ip().to_string(), "10.9.0.1");
    let wire = forwarder.stop();
    assert_eq!(
        wire.ports[0].inspector().unwrap().counters().unwrap().dropped_by_device,
        into_the_void
    );
    assert_nothing_dropped(&wire.ports[1]);
    wire.detach();
    assert!(netlink.index("eth0").unwrap_err().is_not_found(), "detaching removes the interface");
}

#[test]
fn changes_to_a_containers_interface_are_reported() {
    let ([a, _b], [port, other]) = pair("notes", |_| {});
    assert_eq!(port.inspector().unwrap().look(), Seen::default());
    let mut netlink = Netlink::open_in(&a.namespace).unwrap();
    let link = netlink.index("eth0").unwrap();
    // With what is in its bucket, a container loses all that it sends.
    let mut tc = Command::new("ip");
    tc.args(["netns", "exec", &a.name, "tc", "qdisc", "del", "dev", "eth0", "parent", "7a6f:1"]);
    assert!(tc.status().unwrap().success());
    let notes = port.inspector().unwrap().look().notes.join("\n");
    assert!(notes.contains("queue was replaced"), "{notes}");
    let queue =
        Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind: QdiscKind::Fifo { packets: 10 } };
    netlink.set_qdisc(link, queue).unwrap();
    netlink
        .change_link("eth0", LinkChange { tx_queue_len: Some(10), ..LinkChange::default() })
        .unwrap();
    netlink.change_link("eth0", LinkChange { up: Some(false), ..LinkChange::default() }).unwrap();
    netlink.change_link("eth0", LinkChange { name: Some("wan"), ..LinkChange::default() }).unwrap();
    let mut inspector = port.inspector().unwrap();
    let Seen { is_down, notes } = inspector.look();
    let notes = notes.join("\n");
    for what in ["renamed to `wan`", "set down", "queue was replaced", "was lowered to 10"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
    assert!(is_down && inspector.is_reachable());
    Namespace::delete(&a.name).unwrap();
    assert!(!inspector.is_reachable());
    port.detach().unwrap();
    other.detach().unwrap();
}

#[test]
fn receive_packet_steering_is_off_and_is_reported_if_it_comes_back() {
    let container = Container::new("steered");
    let mask = || std::fs::write("/proc/sys/net/core/rps_default_mask", "1");
    container.namespace.run(mask).unwrap().unwrap();
    let port = attach(&config(&container, 1));
    assert_eq!(port.inspector().unwrap().look().notes, [""; 0]);
    let setting = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    let mut ip = Command::new("ip");
    ip.args(["netns", "exec", &container.name, "sh", "-c", &format!("echo 1 >{setting}")]);
    assert!(ip.status().unwrap().success());
    let notes = port.inspector().unwrap().look().notes.join("\n");
    assert!(notes.contains("receive packet steering was switched on"), "{notes}");
    port.detach().unwrap();
}

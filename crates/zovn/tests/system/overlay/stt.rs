//! Frames that cross the underlay as segments of what looks like TCP.

use std::io::Write;
use std::process::{Command, Stdio};

use model::{CaptureSpec, Encapsulation, Uplink};
use needs::tshark;
use units::ClassSet;
use wire::ip::protocol;
use wire::{Layout, stt, tcp};

use super::linux::on_the_wire;
use super::numbered::exchange;
use super::world::{LONG, Machine, Plan, World, vtep_v4};

const ONE: Machine = Machine::new(0, "blue", 1);
const OTHER: Machine = Machine::new(1, "blue", 2);

/// Two hosts whose links carry packets that are no longer than the machines'.
fn plan() -> Plan {
    let mut plan = Plan::new(&[ONE, OTHER]);
    plan.fabric.ports.iter_mut().for_each(|port| port.mtu = 1500);
    plan.uplink = Uplink {
        encapsulation: Encapsulation::Stt,
        retransmit: ClassSet::NONE,
        credit: ClassSet::NONE,
        ..Uplink::new(vtep_v4(0))
    };
    plan
}

#[test]
fn machines_packets_may_be_as_long_as_the_underlays() {
    for (v6, offload) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut plan = if v6 { plan().over_v6() } else { plan() };
        plan.fabric.ports.iter_mut().for_each(|port| port.offload = offload);
        let world = World::new(plan);
        for (to, headers) in [(OTHER.v4(), 28), (OTHER.v6(), 48)] {
            let (len, to) = ((1500 - headers).to_string(), to.to_string());
            let words = ["ping", "-n", "-M", "do", "-c", "1", "-W", "20", "-s", &len, &to];
            let output = world.run(ONE, &words);
            assert!(output.status.success(), "{output:?}");
        }
        exchange(&world.connect(ONE, OTHER, 7), 3_000_000);
        exchange(&world.connect(OTHER, ONE, 7), 3_000_000);
        world.assert_balanced();
        for host in 0..2 {
            let uplink = world.status(host).uplink.unwrap();
            assert_eq!(uplink.encapsulation, Encapsulation::Stt);
            assert!(uplink.refused.is_empty() && uplink.unknown_peers == 0, "{uplink:?}");
            let [peer] = &uplink.peers[..] else { panic!("{uplink:?}") };
            assert!(!peer.refused.contains_key("malformed"), "{peer:?}");
        }
    }
}

#[test]
fn a_capture_of_the_underlay_is_dissected() {
    for v6 in [false, true] {
        let plan = if v6 { plan().over_v6() } else { plan() };
        let kinds = on_the_wire(plan, |world| {
            world.ping(ONE, OTHER.v4());
            exchange(&world.connect(ONE, OTHER, 7), 500_000);
        });
        tshark::read(&kinds, &["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"]);
        // STT's own dissector (Wireshark 4.0) takes a frame for whole when less than 21 bytes of it
        // are missing: so those alone that are one segment, which have to be right.
        let whole: Vec<_> = kinds.into_iter().filter(|kind| is_whole(&kind.frame)).collect();
        assert!(whole.len() > 20, "{}", whole.len());
        let preferences = ["ip.check_checksum", "ip.try_heuristic_first"];
        tshark::read(&whole, &preferences);
        let Some(lines) = tshark::run(&whole, &preferences, &["stt.context_id"]) else { return };
        // It knows IPv4 alone.
        assert!(v6 || lines.iter().all(|line| line == &["0x0000000000000007"]), "{lines:?}");
    }
}

/// Whether a packet carries a frame in one segment.
fn is_whole(packet: &[u8]) -> bool {
    let layout = Layout::of(packet).filter(|layout| layout.protocol == protocol::TCP);
    let tcp = layout.and_then(|layout| tcp::Segment::parse(&packet[layout.transport..layout.end]));
    tcp.and_then(|tcp| stt::Segment::parse(&tcp)).is_some_and(|segment| segment.is_whole())
}

#[test]
fn zovn_captures_what_crosses_the_underlay() {
    if !tshark::is_here() {
        return;
    }
    let world = World::new(plan());
    // What is asked for once has come by.
    world.ping(ONE, OTHER.v4());
    let client = world.client(0);
    let spec = CaptureSpec { uplink: true, count: Some(2), ..CaptureSpec::default() };
    let mut stream = client.capture(&spec).unwrap();
    let mut captured = Vec::new();
    world.ping(ONE, OTHER.v4());
    while let Some(piece) = stream.next(LONG).unwrap() {
        captured.extend(piece);
    }
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r", "-", "-o", "ip.try_heuristic_first:TRUE", "-T", "fields"]);
    tshark.args(["-e", "frame.interface_name", "-e", "stt.context_id", "-e", "_ws.malformed"]);
    let child = tshark.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(&captured).unwrap();
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "uplink\t0x0000000000000007\t\n".repeat(2));
}

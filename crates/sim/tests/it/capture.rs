//! What a captured link shows, read back by the crate that reads pcapng and by our own headers.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption as Said;
use pcap_file::pcapng::{Block, PcapNgReader};
use sim::scenario::{Plan, Scenario};
use sim::{Instruments, Outcome, Seen};
use tcp::Flags;
use wire::checksum::{Sum, pseudo_header};
use wire::ip::protocol;
use wire::tcp::options::{self, Choice};
use wire::{ethernet, ipv4, pfc, tcp as segments, udp, vxlan};

fn scenario(text: &str) -> Scenario {
    Plan::parse(text).unwrap_or_else(|faults| panic!("{}", faults[0])).cell(0).scenario
}

/// Many short connections from one server to another, and datagrams the other way.
fn pair(encapsulation: &str) -> Scenario {
    scenario(&format!(
        r#"
version = 1
name = "pair"
[topology]
kind = "star"
servers = 2
[virtual]
encapsulation = "{encapsulation}"
[tcp]
slow_start_after_idle = false
[class.default]
priority = 5
[workload.tcp]
kind = "flows"
sources = "vm@0"
destinations = "vm@1"
sizes = "20kb"
gap = "200us"
arrivals = "fixed"
stop = "2ms"
[workload.udp]
kind = "flows"
transport = "udp"
sources = "vm@1"
destinations = "vm@0"
sizes = "5kb"
gap = "200us"
arrivals = "fixed"
stop = "2ms"
[output]
pcapng = "switch0-server1"
"#
    ))
}

/// A file in memory that is full after so many bytes.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, some: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.len() + some.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend(some);
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn captured(scenario: &Scenario, room: usize) -> (Outcome, Seen, Vec<u8>) {
    let disk = Disk { bytes: Arc::default(), room };
    let instruments =
        Instruments { pcapng: Some(Box::new(disk.clone())), ..Instruments::default() };
    let (outcome, seen) = sim::run_seen(scenario, instruments, &mut |_| true);
    assert_eq!(outcome.defects, [""; 0]);
    let bytes = disk.bytes.lock().unwrap().clone();
    (outcome, seen, bytes)
}

/// A frame of a file.
struct Frame {
    way: String,
    time_ns: u64,
    len: usize,
    bytes: Vec<u8>,
}

fn frames(mut file: &[u8]) -> Vec<Frame> {
    let mut reader = PcapNgReader::new(&mut file).unwrap();
    let (mut frames, mut ways) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap().0 {
            Block::InterfaceDescription(it) => {
                assert_eq!(it.ts_resolution().to_u8(), 9, "nanoseconds");
                let name = it.options.iter().find_map(|option| match option {
                    Said::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                ways.push(name.expect("every interface has a name"));
            }
            Block::EnhancedPacket(it) => frames.push(Frame {
                way: ways[it.interface_id as usize].clone(),
                time_ns: it.timestamp.as_nanos() as u64,
                len: it.original_len as usize,
                bytes: it.data.to_vec(),
            }),
            _ => {}
        }
    }
    assert!(frames.is_sorted_by_key(|frame| frame.time_ns));
    frames
}

/// Who sends to whom: addresses and ports.
type Ends = [([u8; 4], u16); 2];

/// A machine's packet.
struct Packet<'a> {
    ends: Ends,
    traffic_class: u8,
    protocol: u8,
    /// Its transport header, without payload.
    header: &'a [u8],
    payload: usize,
}

/// Reads an IPv4 packet whose payload was cut off, and its length; its sums have to be right.
fn packet(bytes: &[u8]) -> (usize, Packet<'_>) {
    let (frame, rest) = ethernet::Header::parse(bytes).unwrap();
    assert_eq!(frame.ethertype.get(), ethernet::ethertype::IPV4);
    // What is missing is zeros.
    let whole = [rest, &vec![0; 2000]].concat();
    let header = ipv4::Packet::parse(&whole).unwrap();
    let len = header.payload.len();
    let addresses = [header.header.source, header.header.destination];
    assert_eq!(Sum::of(&whole[..20]).checksum(), 0);
    let sum = pseudo_header(addresses.as_flattened(), header.header.protocol, len)
        + Sum::of(header.payload);
    let rest = &rest[20..];
    let (ports, own) = match header.header.protocol {
        protocol::TCP => {
            let it = segments::Segment::parse(rest).unwrap();
            assert_eq!(sum.checksum(), 0);
            ([it.header.source, it.header.destination], it.header.len())
        }
        _ => {
            let (it, _) = udp::Header::parse(header.payload).unwrap();
            assert!(it.checksum.get() == 0 || sum.checksum() == 0);
            ([it.source, it.destination], udp::Header::LEN)
        }
    };
    let [from, to] = ports.map(|port| port.get());
    let packet = Packet {
        ends: [(addresses[0], from), (addresses[1], to)],
        traffic_class: header.header.traffic_class,
        protocol: header.header.protocol,
        header: &rest[..own],
        payload: len - own,
    };
    (usize::from(header.header.total_len.get()), packet)
}

/// The frame in a tunnel.
fn inside(frame: &Frame) -> &[u8] {
    let (_, outer) = packet(&frame.bytes);
    assert_eq!((outer.protocol, outer.ends[1].1), (protocol::UDP, vxlan::PORT));
    let (tunnel, inner) = vxlan::Header::parse(&frame.bytes[42..]).unwrap();
    assert!(tunnel.vni().is_some());
    assert_eq!(outer.payload, frame.len - 42, "the tunnel ends with its frame");
    inner
}

#[test]
fn every_frame_of_a_link_is_there_with_its_numbers() {
    let scenario = pair("54b");
    let (outcome, seen, file) = captured(&scenario, usize::MAX);
    seen.pcapng.unwrap();
    let frames = frames(&file);
    // Between two servers each frame crosses two links.
    assert_eq!(frames.len() as u64, outcome.hops / 2);

    let (mut segments, mut datagrams, mut poured) = (0, 0, 0);
    // By who sends to whom, for one connection after the other: the number that is due, bytes of
    // payload, and which flags were seen.
    let mut sent: BTreeMap<Ends, Vec<(u32, usize, u8)>> = BTreeMap::new();
    for frame in &frames {
        let (len, packet) = packet(inside(frame));
        assert_eq!(packet.traffic_class >> 5, 5, "its priority");
        assert_eq!(frame.len, 50 + 14 + len);
        let from = packet.ends[0].0;
        let way = if from == [10, 0, 0, 1] { "switch0-server1" } else { "server1-switch0" };
        assert_eq!(frame.way, way);
        if packet.protocol == protocol::UDP {
            datagrams += 1;
            poured += packet.payload;
            continue;
        }
        segments += 1;
        let it = segments::Segment::parse(packet.header).unwrap();
        let flags = it.header.flags;
        let said: Vec<Choice<'_>> = options::parse(it.options).collect();
        assert!(said.iter().any(|choice| matches!(choice, Choice::Timestamps { .. })), "{said:?}");
        let begins = flags.contains(Flags::SYN);
        assert_eq!(said.contains(&Choice::SackPermitted), begins);
        assert_eq!(said.contains(&Choice::MaxSegment(1406)), begins, "{said:?}");
        let connections = sent.entry(packet.ends).or_default();
        if begins {
            connections.push((it.header.sequence.get(), 0, 0));
        }
        let (due, bytes, seen) = connections.last_mut().expect("a connection begins with a SYN");
        assert_eq!(it.header.sequence.get(), *due, "nothing is lost, so nothing is sent again");
        let taken = packet.payload as u32 + u32::from(flags.any(Flags::SYN | Flags::FIN));
        *due = due.wrapping_add(taken);
        *bytes += packet.payload;
        *seen |= flags.0;
    }
    assert_eq!((segments, datagrams), (outcome.segments, outcome.datagrams));
    // Each TCP flow has a connection of its own, and all its bytes were there.
    let rows = |bytes| outcome.record.flows().iter().filter(|flow| flow.bytes == bytes).count();
    let payloads = |bytes: usize| sent.values().flatten().filter(|it| it.1 == bytes).count();
    assert!(rows(20_000) > 5 && rows(5000) > 5);
    assert_eq!(
        [payloads(20_000), payloads(0)],
        [rows(20_000); 2],
        "one way has payload, the other has none"
    );
    assert_eq!(poured, 5000 * rows(5000));
    let all = Flags::SYN | Flags::FIN | Flags::ACK;
    let connections =
        sent.values().flatten().filter(|(_, _, flags)| Flags(*flags).contains(all)).count();
    assert_eq!(connections, 2 * rows(20_000));
}

#[test]
fn frames_without_a_tunnel_are_as_long_as_the_scenario_has_them() {
    let (outcome, seen, file) = captured(&pair("18b"), usize::MAX);
    seen.pcapng.unwrap();
    let frames = frames(&file);
    assert_eq!(frames.len() as u64, outcome.hops / 2);
    for frame in &frames {
        let (len, packet) = packet(&frame.bytes);
        assert_eq!(frame.len, 14 + len);
        assert_eq!(frame.bytes.len(), frame.len - packet.payload, "headers, and no payload");
    }
}

#[test]
fn pauses_are_there_when_they_came() {
    let scenario = scenario(
        r#"
version = 1
name = "paused"
[run]
duration = "20ms"
[topology]
kind = "dumbbell"
left = 1
right = 1
bottleneck.rate = "1gbit"
[class.low]
priority = 2
[workload.there]
kind = "stream"
class = "low"
source = "vm@0"
destination = "vm@1"
transport = "udp"
[output]
pcapng = "server0-switch0"
"#,
    );
    let (outcome, seen, file) = captured(&scenario, usize::MAX);
    seen.pcapng.unwrap();
    let (mut begun, mut paused, mut count) = (None, 0, 0);
    for frame in frames(&file) {
        let Some(pause) = pfc::Frame::parse(&frame.bytes) else { continue };
        assert_eq!((frame.way.as_str(), frame.len), ("switch0-server0", pfc::Frame::LEN));
        let told: Vec<_> =
            pause.told().iter().filter_map(|(class, it)| Some((class.pcp(), (*it)?))).collect();
        match told[..] {
            [(2, 0)] => paused += frame.time_ns - begun.take().expect("a pause comes first"),
            [(2, 65_535)] => begun = begun.or(Some(frame.time_ns)),
            _ => panic!("{told:?}"),
        }
        count += 1;
    }
    // The sender obeys each as late as the next, so it was paused as long as it was told; but the
    // last, which the end of the run cut short, by as much as it was late.
    let late = begun.map_or(0, |_| 10_000);
    paused += begun.map_or(0, |begun| 20_000_000 - begun);
    let really = outcome.classes[0].paused.as_nanos();
    assert!(
        count > 20 && paused.abs_diff(really) <= count + late,
        "{paused} ns told, {really} ns paused, {count} frames"
    );
}

#[test]
fn a_capture_changes_nothing_and_says_if_its_file_is_full() {
    let scenario = pair("54b");
    let plain = sim::run(&scenario, |_| true);
    for room in [usize::MAX, 5000] {
        let (outcome, seen, file) = captured(&scenario, room);
        assert_eq!(
            (outcome.events, outcome.time, outcome.segments),
            (plain.events, plain.time, plain.segments)
        );
        let said = seen.pcapng.map_err(|error| error.kind());
        assert_eq!(said, if room == 5000 { Err(io::ErrorKind::StorageFull) } else { Ok(()) });
        assert!(file.len() <= room);
    }
}

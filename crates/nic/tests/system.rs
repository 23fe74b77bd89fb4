//! What a port of an interface promises, in real namespaces with the kernel's own stack at the far
//! end of the cable.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kernel::joined::{self, INTERFACE};
use kernel::netlink::{Handle, LinkChange, Netlink, Qdisc, QdiscKind, TokenBucket};
use kernel::netns::Namespace;
use kernel::packet;
use nic::{AttachError, NicConfig, NicPort, Seen};
use port::{FrameView, Left, Port, Slot, Taken};
use units::Rate;

fn attach(here: &Namespace, change: impl FnOnce(&mut NicConfig)) -> Result<NicPort, AttachError> {
    let mut config = NicConfig { interface: INTERFACE.into(), vlan: None, mtu: 1500, slots: 256 };
    change(&mut config);
    here.run(|| NicPort::attach(&config)).unwrap()
}

/// A cable between a port and a machine that nobody here has made.
fn cable() -> (NicPort, Namespace, Namespace) {
    let [here, there] = joined::two().unwrap();
    (attach(&here, |_| {}).unwrap(), here, there)
}

fn link(namespace: &Namespace) -> (Netlink, u32) {
    let mut netlink = Netlink::open_in(namespace).unwrap();
    let link = netlink.index(INTERFACE).unwrap();
    (netlink, link)
}

fn set_up(namespace: &Namespace, up: bool) {
    let change = LinkChange { up: Some(up), ..LinkChange::default() };
    link(namespace).0.change_link(INTERFACE, change).unwrap();
}

/// The machine's own socket for frames.
fn raw(there: &Namespace) -> OwnedFd {
    let (_, link) = link(there);
    there.run(|| packet::socket(link, 0)).unwrap().unwrap()
}

fn send(wire: &OwnedFd, frame: &[u8]) {
    rustix::net::send(wire, frame, rustix::net::SendFlags::empty()).unwrap();
}

/// A type for experiments (RFC 5342 §B.2): nobody else sends such frames.
const OURS: [u8; 2] = [0x88, 0xb5];

fn frame(fill: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 9][..], &[2, 0, 0, 0, 0, 8], &OURS, &[fill; 60]].concat()
}

fn tagged(kind: [u8; 2]) -> Vec<u8> {
    let plain = frame(3);
    [&plain[..12], &kind, &[0xa0, 7], &plain[12..]].concat()
}

/// The experiment's frames that come to a port: as many as are wanted, or those of half a second.
fn receive(port: &mut NicPort, wanted: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut last, mut is_over) = (Vec::new(), Instant::now(), false);
    while frames.len() < wanted && !is_over {
        // Taken before the look: a frame may come while this thread finds no processor.
        let (before, quiet) = (frames.len(), last.elapsed());
        let mut slots = Vec::new();
        let received = port.receive(128, |slot, frame| {
            slots.push(slot);
            if frame.bytes.windows(2).skip(12).step_by(4).take(2).any(|kind| kind == OURS) {
                frames.push(frame.bytes.to_vec());
                last = Instant::now();
            }
        });
        slots.into_iter().for_each(|slot| port.release(slot));
        is_over = frames.len() == before && quiet > Duration::from_millis(500);
        if received.unwrap() == Left::Nothing {
            thread::sleep(Duration::from_millis(1));
        }
    }
    frames
}

fn transmit(port: &mut NicPort, frame: &[u8]) -> Taken {
    port.transmit(&FrameView::plain(frame)).unwrap()
}

#[test]
fn frames_for_anybody_come_as_they_are_on_the_wire_and_ours_do_not_come_back() {
    let (mut port, _here, there) = cable();
    let sent = [frame(1), tagged([0x81, 0]), tagged([0x88, 0xa8]), frame(2)];
    let wire = raw(&there);
    assert_eq!(transmit(&mut port, &frame(9)), Taken::Yes);
    sent.iter().for_each(|frame| send(&wire, frame));
    assert_eq!(receive(&mut port, 5), sent);
}

#[test]
fn frames_leave_as_they_are() {
    let (mut port, _here, there) = cable();
    let mut far = attach(&there, |_| {}).unwrap();
    let sent = [frame(1), tagged([0x81, 0]), frame(2)];
    sent.iter().for_each(|frame| assert_eq!(transmit(&mut port, frame), Taken::Yes));
    assert_eq!(receive(&mut far, 3), sent);
    assert_eq!(transmit(&mut port, &[&frame(1)[..], &[0; 1500]].concat()), Taken::Unfit);
}

#[test]
fn ports_share_an_interface_by_their_vlans() {
    let [here, there] = joined::two().unwrap();
    let of = |vlan| attach(&here, |config| config.vlan = Some(vlan)).unwrap();
    let (mut untagged, mut seven, mut eight) = (of(0), of(7), of(8));
    let wire = raw(&there);
    // With a service tag (802.1ad) a frame is in no VLAN of ours.
    for sent in [frame(1), tagged([0x81, 0]), tagged([0x88, 0xa8])] {
        send(&wire, &sent);
    }
    assert_eq!(receive(&mut untagged, 2), [frame(1)]);
    assert_eq!(receive(&mut seven, 2), [frame(3)]);
    assert!(receive(&mut eight, 1).is_empty());

    let mut far = attach(&there, |_| {}).unwrap();
    assert_eq!(transmit(&mut untagged, &frame(1)), Taken::Yes);
    assert_eq!(transmit(&mut untagged, &tagged([0x81, 0])), Taken::Unfit);
    assert_eq!(transmit(&mut seven, &frame(3)), Taken::Yes);
    let [first, second] = &receive(&mut far, 2)[..] else { panic!("both are there") };
    assert_eq!(*first, frame(1));
    assert_eq!((&second[12..16], &second[16..]), (&[0x81, 0, 0, 7][..], &frame(3)[12..]));
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_else_is_lost() {
    const SENT: u32 = 60_000;
    let (mut port, here, there) = cable();
    let wire = raw(&there);
    for number in 0..SENT {
        send(&wire, &[&frame(0)[..], &number.to_be_bytes()].concat());
    }
    let frames = receive(&mut port, SENT as usize);
    let numbers: Vec<_> = frames.iter().map(|it| it[74..].to_vec()).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "in order, and each once");
    let lost = u64::from(SENT) - frames.len() as u64;
    let Seen { missed, .. } = here.run(|| port.inspector()).unwrap().unwrap().look();
    // What the machine's kernel sends by itself may be among the missed.
    assert!(lost > 0 && (lost..lost + 16).contains(&missed), "{lost} of {missed}");
}

#[test]
fn a_frame_that_a_slow_link_has_no_room_for_stays_with_its_sender() {
    const FRAMES: usize = 3_000;
    let (mut port, here, there) = cable();
    let mut far = attach(&there, |_| {}).unwrap();
    let (mut netlink, link) = link(&here);
    let bucket = TokenBucket {
        rate: "40mbit".parse::<Rate>().unwrap(),
        burst_bytes: 3_000,
        limit_bytes: 8 << 20,
        overhead_bytes: 0,
        smallest_bytes: 0,
        largest_bytes: None,
    };
    let kind = QdiscKind::TokenBucket(bucket);
    netlink.set_qdisc(link, Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind }).unwrap();
    let long = [frame(1), vec![0; 1400]].concat();
    let (mut busy, mut got) = (0, 0);
    for _ in 0..FRAMES {
        while transmit(&mut port, &long) == Taken::Busy {
            busy += 1;
            got += receive(&mut far, 1).len();
        }
    }
    got += receive(&mut far, FRAMES - got).len();
    assert_eq!(got, FRAMES);
    assert!(busy > 0, "the link is slower than we are");
}

#[test]
fn a_port_whose_interface_is_down_is_absent_until_it_is_up() {
    let (mut port, here, there) = cable();
    let mut inspector = here.run(|| port.inspector()).unwrap().unwrap();
    assert_eq!(inspector.look(), Seen::default());
    set_up(&here, false);
    assert_eq!(transmit(&mut port, &frame(1)), Taken::Busy);
    assert!(port.is_absent());
    let seen = inspector.look();
    assert!(seen.is_down && seen.notes[0].contains("ip link set eth0 up"), "{seen:?}");
    assert!(receive(&mut port, 1).is_empty());
    set_up(&here, true);
    send(&raw(&there), &frame(2));
    assert_eq!(receive(&mut port, 1), [frame(2)]);
    assert!(!port.is_absent() && inspector.is_reachable());
    assert_eq!(transmit(&mut port, &frame(1)), Taken::Yes);

    set_up(&there, false);
    let seen = inspector.look();
    assert!(seen.is_down && seen.notes[0].contains("carrier"), "{seen:?}");
    assert_eq!(transmit(&mut port, &frame(1)), Taken::Busy, "it would be lost");
    set_up(&there, true);
    let begin = Instant::now();
    while inspector.look().is_down && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(transmit(&mut port, &frame(1)), Taken::Yes);

    set_up(&here, false);
    let renamed = LinkChange { name: Some("eth1"), ..LinkChange::default() };
    link(&here).0.change_link(INTERFACE, renamed).unwrap();
    assert!(!inspector.is_reachable());
}

/// What the kernel tells of a flap that is over leaves the port absent no longer than to the next
/// look, which is due.
#[test]
fn a_port_whose_interface_was_down_for_a_moment_is_to_be_looked_at() {
    let (mut port, here, _there) = cable();
    let mut inspector = here.run(|| port.inspector()).unwrap().unwrap();
    assert_eq!((inspector.look(), inspector.is_due()), (Seen::default(), false));
    set_up(&here, false);
    set_up(&here, true);
    // The kernel tells of it before it hands over what has come since.
    let told = port.receive(1, |_, _| panic!("it tells of the flap first"));
    assert_eq!(told.unwrap(), Left::Nothing);
    assert!(port.is_absent() && inspector.is_due());
    let begin = Instant::now();
    while inspector.look().is_down && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!port.is_absent() && !inspector.is_due());
}

/// A rule of the host's drops what is not for everybody: that is refused, and nothing behind it
/// waits for long.
#[test]
fn a_frame_that_a_rule_of_the_host_drops_is_refused_and_others_go_on() {
    if !needs::program("tc", "iproute2") {
        return;
    }
    let (mut port, here, there) = cable();
    let mut far = attach(&there, |_| {}).unwrap();
    let tc = |arguments: &str| {
        // A program is one argument.
        let (words, program) = arguments.split_once(" bytecode ").unwrap_or((arguments, ""));
        let program = if program.is_empty() { vec![] } else { vec!["bytecode", program] };
        let all = words.split(' ').chain(program);
        let run = || std::process::Command::new("tc").args(all).status();
        assert!(here.run(run).unwrap().unwrap().success(), "tc {arguments}");
    };
    tc("qdisc add dev eth0 clsact");
    // The last byte of the receiver's address is 9: it is dropped (TC_ACT_SHOT).
    tc("filter add dev eth0 egress bpf da bytecode 4,48 0 0 5,21 0 1 9,6 0 0 2,6 0 0 4294967295");
    let open = [&[0xff; 6][..], &frame(1)[6..]].concat();
    assert_eq!(transmit(&mut port, &open), Taken::Yes);
    for number in 0..20 {
        let mut busy = 0;
        let taken = loop {
            match transmit(&mut port, &frame(2)) {
                Taken::Busy => busy += 1,
                taken => break taken,
            }
            thread::sleep(Duration::from_micros(500));
        };
        assert_eq!(taken, Taken::Dropped, "{number}");
        assert!(busy > 0, "it may be a queue that is full");
        assert_eq!(transmit(&mut port, &open), Taken::Yes);
    }
    assert_eq!(receive(&mut far, 21).len(), 21);
}

#[test]
fn an_interface_that_cannot_be_a_port_is_refused_with_what_to_do() {
    let [here, there] = joined::two().unwrap();
    let complains = |change: fn(&mut NicConfig), of: &str| {
        let error = attach(&here, change).map(drop).unwrap_err();
        assert!(error.to_string().contains(of), "{error}");
        error.is_too_early()
    };
    assert!(complains(|config| config.interface = "eth7".into(), "no interface eth7"));
    assert!(!complains(|config| config.mtu = 9000, "declare `mtu = 1500`"));
    complains(|config| config.interface = "lo".into(), "no Ethernet interface");
    let (mut netlink, number) = link(&here);
    netlink.add_address(number, "192.0.2.1/24".parse().unwrap()).unwrap();
    complains(|_| {}, "eth0 has 192.0.2.1");

    let (mut netlink, number) = link(&there);
    let port = attach(&there, |_| {}).unwrap();
    let mut inspector = there.run(|| port.inspector()).unwrap().unwrap();
    netlink.add_address(number, "192.0.2.2/24".parse().unwrap()).unwrap();
    let seen = inspector.look();
    assert!(!seen.is_down && seen.notes[0].contains("eth0 has 192.0.2.2"), "{seen:?}");
    netlink.add_bridge("br0").unwrap();
    let bridge = netlink.index("br0").unwrap();
    let enslaved = LinkChange { master: Some(bridge), ..LinkChange::default() };
    netlink.change_link(INTERFACE, enslaved).unwrap();
    assert!(matches!(attach(&there, |_| {}), Err(AttachError::Enslaved(_))));
}

/// Moves what comes at one port to the other, in order, until it is told to end. Returns the
/// longest frame.
fn forward(ports: &mut [NicPort; 2], end: &AtomicBool) -> usize {
    let mut held: [VecDeque<Slot>; 2] = Default::default();
    let mut longest = 0;
    while !end.load(Ordering::Relaxed) {
        let mut is_idle = true;
        for from in [0, 1] {
            let held = &mut held[from];
            ports[from]
                .receive(32, |slot, frame| {
                    longest = longest.max(frame.len());
                    held.push_back(slot);
                })
                .unwrap();
            let [one, other] = &mut *ports;
            let (from, to) = if from == 0 { (one, other) } else { (other, one) };
            while let Some(slot) = held.front().copied() {
                is_idle = false;
                if to.transmit(&from.frame(slot)).unwrap() == Taken::Busy {
                    break;
                }
                held.pop_front();
                from.release(slot);
            }
        }
        if is_idle {
            thread::sleep(Duration::from_micros(100));
        }
    }
    longest
}

#[test]
fn a_stream_passes_in_large_segments_with_unfinished_checksums() {
    const BYTES: usize = 32 << 20;
    let (one, _near, a) = cable();
    let (other, _far, b) = cable();
    for (namespace, address) in [(&a, "10.9.0.1/24"), (&b, "10.9.0.2/24")] {
        let (mut netlink, link) = link(namespace);
        netlink.add_address(link, address.parse().unwrap()).unwrap();
    }
    let (mut ports, end) = ([one, other], AtomicBool::new(false));
    thread::scope(|scope| {
        let over = needs::Over(&end);
        let forwarder = scope.spawn(|| forward(&mut ports, &end));
        let listener = b.run(|| TcpListener::bind("10.9.0.2:7")).unwrap().unwrap();
        let server = scope.spawn(move || {
            let mut bytes = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut client = a.run(|| TcpStream::connect("10.9.0.2:7")).unwrap().unwrap();
        let bytes: Vec<u8> = (0..BYTES).map(|place| (place / 251) as u8).collect();
        client.write_all(&bytes).unwrap();
        drop(client);
        assert!(server.join().unwrap() == bytes);
        drop(over);
        assert!(forwarder.join().unwrap() > 30_000);
    });
}

//! Whole ports: a door, and what comes in there.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use port::{FrameView, Port, Taken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::Mac;
use vhost::features::ProtocolFeatures;
use vhost::front::{FrontConfig, FrontEnd};
use vhost::message::Request;
use vhost::port::{Link, Mode, VhostConfig, VhostPort};
use vhost::socket::{Access, connect};
use vhost::vring::Base;

use super::cards::{BUFFER, Guest, RING};
use super::fronts::{config, split};
use super::recorder::ask;

pub fn config_at(place: &Path) -> VhostConfig {
    VhostConfig {
        socket: place.join("socket"),
        mode: Mode::Listen(Access::Owner),
        queue_pairs: 1,
        mtu: 1500,
        frames: RING.into(),
        records: place.join("records"),
        polled: false,
    }
}

fn port(place: &Path) -> VhostPort {
    VhostPort::attach(config_at(place), None).unwrap()
}

/// A front-end with so many pairs of rings, whose buffers all have room.
pub fn front_end(queue_pairs: u8, protocol: &[ProtocolFeatures]) -> FrontEnd {
    let buffers = 2 * u64::from(RING) * BUFFER as u64;
    let protocol = ProtocolFeatures::of(protocol);
    FrontEnd::new(FrontConfig { queue_pairs, protocol, buffers, ..config(split()) }).unwrap()
}

/// Whether the port has something to do.
fn is_awake(port: &VhostPort) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&at_once)).unwrap() == 1
}

/// Wakes the port while its front-end works.
pub fn wake_while<T: Send>(port: &mut VhostPort, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            if is_awake(port) {
                port.wake();
            }
            thread::yield_now();
        }
        worker.join().unwrap()
    })
}

#[test]
fn a_front_end_that_does_not_read_its_replies_lets_its_port_sleep() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut port = port(place.path());
    let mut peer = UnixStream::connect(place.path().join("socket")).unwrap();
    peer.set_nonblocking(true).unwrap();
    let request = ask(Request::GetFeatures).emit();
    let mut asked = 0;
    // Both buffers fill up: that of the replies, and that of the requests, since no more are
    // served.
    loop {
        match peer.write(request.as_ref()) {
            Ok(written) => assert_eq!(written, request.as_ref().len()),
            Err(error) if error.kind() == ErrorKind::WouldBlock && !is_awake(&port) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                port.wake();
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        asked += 1;
    }
    assert!(!is_awake(&port), "there is nothing that it could do");
    let mut replies = 0;
    let mut reply = [0; 20];
    while replies < asked {
        match peer.read_exact(&mut reply) {
            Ok(()) => replies += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(is_awake(&port), "{replies} of {asked} replies came");
                port.wake();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_guest_that_has_moved_is_announced_in_the_place_of_a_frame() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut port = port(place.path());
    let mut front = front_end(1, &[ProtocolFeatures::REPLY_ACK, ProtocolFeatures::RARP]);
    let socket = place.path().join("socket");
    let mac = Mac::local(7);
    wake_while(&mut port, || {
        front.connect(connect(&socket).unwrap()).unwrap();
        front.start(&[Base::Split(0); 2]).unwrap();
        front.enable(true).unwrap();
        front.ask(Request::SendRarp(mac)).unwrap();
    });
    assert_eq!(port.link(), Link::Up);
    let mut guest = Guest::new(front);
    let number = guest.transmit.take().unwrap();
    guest.transmit.buffer(number).write(&[5; 100]);
    guest.transmit.give(number, Some(100));
    guest.transmit.publish();
    for len in [60, 88] {
        let mut came = Vec::new();
        port.receive(1, |slot, frame| came.push((slot, frame.len()))).unwrap();
        let [(slot, its_len)] = came[..] else { panic!("there was room for one: {came:?}") };
        assert_eq!((its_len, port.frame(slot).len()), (len, len));
        port.release(slot);
    }
}

#[test]
fn a_port_is_up_while_some_pair_goes_both_ways() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = VhostConfig { queue_pairs: 2, ..config_at(place.path()) };
    let socket = config.socket.clone();
    let mut port = VhostPort::attach(config, None).unwrap();
    let mut front = front_end(2, &[ProtocolFeatures::REPLY_ACK, ProtocolFeatures::MQ]);
    wake_while(&mut port, || {
        front.connect(connect(&socket).unwrap()).unwrap();
        front.start(&[Base::Split(0); 4]).unwrap();
    });
    assert_eq!(port.link(), Link::Up);
    wake_while(&mut port, || front.enable(false).unwrap());
    let Link::Down(why) = port.link() else { panic!("nothing goes") };
    assert!(why.ends_with("its guest's driver still has to enable its rings"), "{why}");
    let mut is_up = |index, enable| {
        wake_while(&mut port, || front.ask(Request::SetVringEnable { index, enable }).unwrap());
        port.link() == Link::Up
    };
    assert!(!is_up(1, true), "it only sends");
    assert!(!is_up(2, true), "it receives by another pair");
    assert!(is_up(3, true));
    assert!(!is_up(2, false));
    assert!(is_up(0, true));
}

#[test]
fn a_port_that_nobody_has_connected_to_tells_when_it_is_worth_another_try() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut port = port(place.path());
    assert_eq!(port.transmit(&FrameView::plain(&[7; 60])).unwrap(), Taken::Busy);
    assert_eq!(port.arm_egress().unwrap(), Some(false), "no time needs to be set");
    assert!(!is_awake(&port));
    let _peer = UnixStream::connect(place.path().join("socket")).unwrap();
    assert!(is_awake(&port));
}

#[test]
fn two_switches_do_not_record_in_one_file() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let first = port(place.path());
    let second = || {
        let socket = place.path().join("another");
        VhostPort::attach(VhostConfig { socket, ..config_at(place.path()) }, None)
    };
    let refused = second().unwrap_err().to_string();
    let file = place.path().join("records");
    assert_eq!(
        refused,
        format!(
            "another switch has {} open: give each agent a directory of its own",
            file.display()
        )
    );
    drop(first);
    second().unwrap();
}

/// Run by the test below, where a tmpfs is mounted for it that has one page.
#[test]
#[ignore = "its directory is to be full"]
fn a_guest_where_there_is_no_room() {
    let place = PathBuf::from(std::env::var_os("FULL").unwrap());
    let mut port = port(&place);
    assert_eq!(port.notes(), ["no front-end has connected yet"]);
    let mut front = front_end(1, &[ProtocolFeatures::REPLY_ACK]);
    wake_while(&mut port, || {
        front.connect(connect(&place.join("socket")).unwrap()).unwrap();
        front.start(&[Base::Split(0); 2]).unwrap();
    });
    let notes = port.notes();
    assert!(matches!(&notes[..], [one] if one.contains("cannot set memory aside")), "{notes:?}");
    let mut guest = Guest::new(front);
    let number = guest.transmit.take().unwrap();
    guest.transmit.give(number, Some(100));
    guest.transmit.publish();
    let mut came = 0;
    port.receive(1, |_, _| came += 1).unwrap();
    assert_eq!(came, 1);
}

#[test]
fn a_port_that_has_no_room_to_record_says_so_and_goes_on() {
    if !needs::root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut own = Command::new("unshare");
    let mount = "mount -t tmpfs -o size=4k none \"$FULL\" && exec \"$0\" --exact \"$1\" --ignored";
    own.args(["--mount", "sh", "-c", mount]).arg(std::env::current_exe().unwrap());
    let ran = own
        .arg("vhost::ports::a_guest_where_there_is_no_room")
        .env("FULL", place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{ran:?}");
}

//! Whole ports: a door, and what comes in there.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use ports::Port;
use ports::vhost::features::ProtocolFeatures;
use ports::vhost::front::{FrontConfig, FrontEnd};
use ports::vhost::message::Request;
use ports::vhost::port::{Link, Mode, VhostConfig, VhostPort};
use ports::vhost::socket::{Access, connect};
use ports::vhost::vring::Base;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::Mac;

use crate::cards::{BUFFER, Guest, RING};
use crate::fronts::{config, split};
use crate::recorder::ask;

fn port(place: &Path) -> VhostPort {
    VhostPort::attach(VhostConfig {
        socket: place.join("socket"),
        mode: Mode::Listen(Access::Owner),
        queue_pairs: 1,
        mtu: 1500,
        frames: RING.into(),
        records: place.join("records"),
        polled: false,
    })
    .unwrap()
}

/// Whether the port has something to do.
fn is_awake(port: &VhostPort) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&at_once)).unwrap() == 1
}

/// Wakes the port while its front-end works.
fn wake_while<T: Send>(port: &mut VhostPort, work: impl FnOnce() -> T + Send) -> T {
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
    // Both buffers fill up: that of the replies, and that of the requests, since no more are served.
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
    let config = FrontConfig {
        queue_pairs: 1,
        protocol: ProtocolFeatures::of(&[ProtocolFeatures::REPLY_ACK, ProtocolFeatures::RARP]),
        buffers: 2 * u64::from(RING) * BUFFER as u64,
        ..config(split())
    };
    let mut front = FrontEnd::new(config).unwrap();
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

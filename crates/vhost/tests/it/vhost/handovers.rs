//! What a port leaves to the next one, while somebody keeps it: its front-end sees no end.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use port::Port;
use proptest::prelude::*;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use vhost::features::{Features, ProtocolFeatures};
use vhost::front::{FrontEnd, FrontError};
use vhost::handover::Handover;
use vhost::message::{Addresses, HEADER_LEN, Message, Region, Request};
use vhost::port::{Link, Mode, VhostConfig, VhostPort};
use vhost::session::{Offer, Session};
use vhost::socket::{Access, Listener, connect};
use vhost::vring::{Base, Turn};

use super::cards::Guest;
use super::ports::{config_at, front_end, wake_while};
use super::recorder::{Recorder, ask, memfd, session, table, tell};

/// A port, and what a service manager has of it.
fn kept(config: &VhostConfig) -> (VhostPort, OwnedFd) {
    let handover = Handover::new().unwrap();
    let kept = handover.as_fd().try_clone_to_owned().unwrap();
    (VhostPort::attach(config.clone(), Some(handover)).unwrap(), kept)
}

fn leave(mut port: VhostPort) {
    port.leave();
}

/// The port after the one that left this.
fn next(config: &VhostConfig, kept: &OwnedFd) -> Option<VhostPort> {
    let left = config.is_left(kept);
    let handover = config.inherit(kept.try_clone().unwrap());
    assert_eq!(handover.is_some(), left);
    let handover = handover?;
    Some(VhostPort::attach(config.clone(), Some(handover)).unwrap())
}

fn plug(port: &mut VhostPort, place: &Path) -> FrontEnd {
    let mut front = front_end(1, &[ProtocolFeatures::REPLY_ACK]);
    wake_while(port, || {
        front.connect(connect(&place.join("socket")).unwrap()).unwrap();
        front.start(&[Base::Split(0); 2]).unwrap();
        front.enable(true).unwrap();
    });
    port.wake();
    assert_eq!(port.link(), Link::Up);
    front
}

fn is_there(port: &mut VhostPort, front: &mut FrontEnd) -> Result<(), FrontError> {
    wake_while(port, || front.ask(Request::GetFeatures).map(drop))
}

fn frames(port: &mut VhostPort) -> Vec<u32> {
    let mut came = Vec::new();
    let arrived = |_, frame: &port::FrameView<'_>| {
        let mut bytes = [0; 18];
        assert_eq!(frame.read(&mut bytes), 18);
        came.push(u32::from_le_bytes(*bytes.last_chunk().unwrap()));
    };
    port.receive(64, arrived).unwrap();
    came
}

fn send(guest: &mut Guest, number: u32) {
    let place = guest.transmit.take().unwrap();
    let frame = [&[0; 12][..], &[7; 14], &number.to_le_bytes(), &[9; 46]].concat();
    guest.transmit.buffer(place).write(&frame);
    guest.transmit.give(place, Some(frame.len() as u32));
    guest.transmit.publish();
}

#[test]
fn a_front_end_does_not_notice_that_its_port_is_another_one() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config_at(place.path());
    let (mut port, kept) = kept(&config);
    let mut guest = Guest::new(plug(&mut port, place.path()));
    for life in 0..5 {
        send(&mut guest, 2 * life);
        assert_eq!(frames(&mut port), [2 * life], "it is held when its port leaves");
        leave(port);
        // Between two ports.
        send(&mut guest, 2 * life + 1);
        let call = &guest.front.rings()[1].call;
        let _ = rustix::io::read(call, &mut [0; 8]);
        port = next(&config, &kept).unwrap();
        assert_eq!(port.link(), Link::Up);
        assert!(
            rustix::io::read(call, &mut [0; 8]).is_ok(),
            "somebody may have died before it told"
        );
        let mut came = Vec::new();
        port.receive(64, |slot, _| came.push(slot)).unwrap();
        assert_eq!(came.len(), 2, "what was held, and what was sent meanwhile");
        came.into_iter().for_each(|slot| port.release(slot));
        port.flush().unwrap();
        assert_eq!(guest.transmit.collect(|_, _, _| {}), 2);
        is_there(&mut port, &mut guest.front).unwrap();
    }
    port.detach();
    assert!(config.inherit(kept).is_none(), "nothing is left of a port that is detached");
    assert!(guest.front.ask(Request::GetFeatures).is_err());
}

#[test]
fn a_front_end_that_connects_between_two_ports_is_let_in() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config_at(place.path());
    let (port, kept) = kept(&config);
    leave(port);
    let connection = connect(&place.path().join("socket")).unwrap();
    let mut port = next(&config, &kept).unwrap();
    let mut front = front_end(1, &[]);
    wake_while(&mut port, || front.connect(connection).unwrap());
}

#[test]
fn a_connection_in_the_middle_of_a_message_ends_with_its_port() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config_at(place.path());
    let (mut port, kept) = kept(&config);
    let mut peer = UnixStream::connect(place.path().join("socket")).unwrap();
    peer.set_nonblocking(true).unwrap();
    let request = ask(Request::GetFeatures).emit();
    peer.write_all(&request.as_ref()[..HEADER_LEN - 1]).unwrap();
    port.wake();
    leave(port);
    let mut port = next(&config, &kept).unwrap();
    assert!(matches!(port.link(), Link::Down(why) if why == "no front-end has connected yet"));
    let ended = peer.write_all(&[0]).unwrap_err().kind();
    assert_eq!(ended, std::io::ErrorKind::BrokenPipe);
    plug(&mut port, place.path());
}

#[test]
fn only_the_same_port_goes_on_and_only_where_the_one_before_left_it() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config_at(place.path());
    let end = |port: VhostPort, left: bool| if left { leave(port) } else { drop(port) };
    let others: [(bool, VhostConfig); 4] = [
        (false, config.clone()),
        (true, VhostConfig { mtu: 9000, ..config.clone() }),
        (true, VhostConfig { queue_pairs: 2, ..config.clone() }),
        (true, VhostConfig { records: place.path().join("others"), ..config.clone() }),
    ];
    for (left, other) in others {
        let (mut port, kept) = kept(&config);
        let mut front = plug(&mut port, place.path());
        end(port, left);
        assert!(next(&other, &kept).is_none());
        Handover::discard(&kept);
        // Nobody listens there any more.
        leave(VhostPort::attach(config.clone(), None).unwrap());
        assert!(matches!(
            front.ask(Request::GetFeatures),
            Err(FrontError::Closed(_) | FrontError::Connection(_))
        ));
    }
    let (port, kept) = kept(&config);
    leave(port);
    std::fs::remove_file(&config.records).unwrap();
    assert!(next(&config, &kept).is_none(), "who knows where its rings stand?");
}

#[test]
fn a_port_that_looks_for_its_front_end_leaves_its_connection_too() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = VhostConfig { mode: Mode::Connect, ..config_at(place.path()) };
    let listener = Listener::bind(&config.socket, Access::Owner).unwrap();
    let (mut port, kept) = kept(&config);
    let connection = listener.accept().unwrap().unwrap();
    let mut front = front_end(1, &[ProtocolFeatures::REPLY_ACK]);
    wake_while(&mut port, || front.connect(connection).unwrap());
    leave(port);
    let mut port = next(&config, &kept).unwrap();
    is_there(&mut port, &mut front).unwrap();
    assert!(listener.accept().unwrap().is_none(), "it has not connected anew");
    front.disconnect();
    port.wake();
    leave(port);
    assert!(matches!(next(&config, &kept).unwrap().link(), Link::Down(_)));
}

/// A front-end's words in an order that makes sense, about as many rings as there may be.
fn said(packed: bool, slots: bool, rings: u8, started: u8, logs: bool) -> Vec<Message> {
    let kind = if packed { Features::RING_PACKED } else { Features::default() };
    let log = if logs { Features::LOG_ALL } else { Features::default() };
    let features = Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES, kind, log]);
    let slot =
        if slots { ProtocolFeatures::CONFIGURE_MEM_SLOTS } else { ProtocolFeatures::default() };
    let protocol =
        ProtocolFeatures::of(&[slot, ProtocolFeatures::LOG_SHMFD, ProtocolFeatures::STATUS]);
    let region = |number: u64| Region {
        guest: number << 24,
        size: 1 << 24,
        user: (1 << 40) + (number << 24),
        offset: 4096 * number,
    };
    let mut said = vec![Request::SetProtocolFeatures(protocol.0), Request::SetFeatures(features.0)];
    if slots {
        // The first one twice, as QEMU does with two queue pairs.
        said.extend([0, 0, 1].map(|number| Request::AddMemReg(region(number))));
    } else {
        said.push(table(&[region(0), region(1)]));
    }
    if logs {
        said.push(Request::SetLogBase { size: 8192, offset: 4096 });
    }
    said.push(Request::SetStatus(15));
    for index in 0..rings {
        let at = (1 << 40) + (u64::from(index) << 16);
        let log = logs.then_some(77);
        let addresses =
            Addresses { descriptors: at, used: at + 0x4000, available: at + 0x8000, log };
        let turn = |index| Turn { index, wrap: index % 2 == 0 };
        let base = if packed {
            Base::Packed { available: turn(9), used: turn(5) }
        } else {
            Base::Split(7)
        };
        said.push(Request::SetVringNum { index, size: 128 });
        said.push(Request::SetVringBase { index, base: base.emit() });
        said.push(Request::SetVringAddr { index, addresses });
        said.push(Request::SetVringCall { index, has_fd: index % 3 != 0 });
        said.push(Request::SetVringErr { index, has_fd: index % 5 == 0 });
        said.push(Request::SetVringEnable { index, enable: index % 4 != 0 });
        if index < started {
            said.push(Request::SetVringKick { index, has_fd: index % 7 != 0 });
        }
    }
    said.into_iter().map(ask).collect()
}

/// What a session says of itself.
fn told(session: &Session<Recorder>) -> Vec<Request> {
    session.retell().into_iter().map(|(request, _)| request).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_session_that_goes_through_a_handover_is_the_same(
        packed: bool, slots: bool, logs: bool, rings in 0..=255_u8, started: u8,
    ) {
        let mut first = session(128);
        for message in said(packed, slots, rings, started, logs) {
            tell(&mut first, message).unwrap();
        }
        let handover = Handover::new().unwrap();
        let kept = handover.as_fd().try_clone_to_owned().unwrap();
        let extra = [memfd(1)];
        handover.deposit("a port", &extra.each_ref().map(AsFd::as_fd), &first.retell()).unwrap();
        handover.deposit("a port", &extra.each_ref().map(AsFd::as_fd), &first.retell()).unwrap();
        handover.leave();
        let inherited = Handover::inherit(kept, "a port").unwrap().inherited().unwrap();
        prop_assert_eq!(inherited.fds.len(), 1);
        let mut second = Session::new(Offer::net(128), Recorder::default());
        for (message, fds) in inherited.requests {
            second.handle(message, fds).unwrap();
        }
        prop_assert_eq!(told(&second), told(&first));
        let runs = |session: &Session<Recorder>| -> Vec<_> {
            let rings = session.rings().running.values();
            rings.map(|it| (it.index, it.size, it.addresses, it.base, it.enabled, it.features)).collect()
        };
        prop_assert_eq!(runs(&second), runs(&first));
        prop_assert_eq!(runs(&first).len(), usize::from(rings.min(started)));
    }

    #[test]
    fn any_bytes_are_requests_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut requests = Vec::new();
        if vhost::handover::parse(&bytes, Vec::new(), &mut requests).is_some() {
            prop_assert_eq!(bytes.is_empty(), requests.is_empty());
        }
    }
}

#[test]
fn an_incomplete_deposit_is_not_inherited() {
    let kept = |change: fn(&Handover)| {
        let handover = Handover::new().unwrap();
        let kept = handover.as_fd().try_clone_to_owned().unwrap();
        let mut session = session(1);
        for message in said(false, true, 2, 2, false) {
            tell(&mut session, message).unwrap();
        }
        handover.deposit("a port", &[], &session.retell()).unwrap();
        change(&handover);
        handover.leave();
        kept
    };
    assert!(Handover::inherit(kept(|_| ()), "a port").is_some());
    assert!(Handover::inherit(kept(|_| ()), "another").is_none());
    assert!(Handover::inherit(kept(Handover::withdraw), "a port").is_none());
    let too_much = |handover: &Handover| {
        let all = vec![(Request::GetFeatures, Vec::new()); 100_000];
        handover.deposit("a port", &[], &all).unwrap_err();
    };
    assert!(Handover::inherit(kept(too_much), "a port").is_none());
    // As if it had been killed before it had sent what follows.
    let head = |following: u8| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let (put, take) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let head = [&[following], &b"a port"[..]].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [put.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        rustix::net::sendmsg(&put, &[IoSlice::new(&head)], &mut control, SendFlags::empty())
            .unwrap();
        take
    };
    assert!(Handover::is_of(head(1), "a port") && !Handover::is_of(head(1), "another"));
    assert!(Handover::inherit(head(0), "a port").is_some());
    assert!(Handover::inherit(head(1), "a port").is_none());
}

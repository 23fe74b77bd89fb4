//! Sockets, and peers that use them badly.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::FdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use vhost::backend::{Backend, Ended};
use vhost::features::Features;
use vhost::message::{Addresses, Message, Region, Request};
use vhost::session::Offer;
use vhost::socket::{Access, Connection, ConnectionError, Listener, Received, connect};

use super::recorder::{Recorder, ask, memfd, table};

fn pair() -> (UnixStream, Connection) {
    let (peer, ours) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (peer, Connection::new(ours.into()))
}

/// Sends bytes with descriptors.
fn send(peer: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    let sent = rustix::net::sendmsg(peer, &[IoSlice::new(bytes)], &mut control, SendFlags::empty());
    assert_eq!(sent, Ok(bytes.len()));
}

fn kick() -> Message {
    ask(Request::SetVringKick { index: 0, has_fd: true })
}

#[test]
fn only_permitted_users_can_connect_and_the_file_is_removed_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    for (access, mode) in [(Access::Owner, 0o600), (Access::Group, 0o660)] {
        let listener = Listener::bind(&path, access).unwrap();
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o7777, mode);
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn the_socket_of_a_dead_process_is_replaced_and_that_of_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    // A standard listener leaves its file behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(connect(&path).unwrap_err().to_string().contains("start who listens there"));

    let listener = Listener::bind(&path, Access::Owner).unwrap();
    let refused = Listener::bind(&path, Access::Owner).unwrap_err().to_string();
    assert!(refused.contains("another process listens there"), "{refused}");
    assert!(path.exists());
    assert_eq!(listener.turn_away().unwrap(), 1, "the other one looked whether anybody is there");

    // Somebody else's file in its place stays.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    drop(listener);
    let refused = Listener::bind(&path, Access::Owner).unwrap_err().to_string();
    assert!(refused.contains("no socket"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn an_address_that_cannot_be_is_told() {
    let told = |path: &str| Listener::bind(Path::new(path), Access::Owner).unwrap_err().to_string();
    assert!(told(&format!("/tmp/{}", "x".repeat(200))).contains("107 bytes"));
    assert!(told("/nonexistent/port").contains("make its directory"));
    assert!(connect(Path::new("/nonexistent/port")).is_err());
}

#[test]
fn a_second_connection_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    let listener = Listener::bind(&path, Access::Owner).unwrap();
    let mut first = UnixStream::connect(&path).unwrap();
    let mut served = listener.accept().unwrap().unwrap();
    let mut second = UnixStream::connect(&path).unwrap();
    assert_eq!(listener.turn_away().unwrap(), 1);
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    first.write_all(ask(Request::SetOwner).emit().as_ref()).unwrap();
    assert!(matches!(served.receive().unwrap(), Received::Message(_)));
}

#[test]
fn a_message_may_arrive_in_pieces_and_keeps_its_descriptors() {
    let (mut peer, mut ours) = pair();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let bytes = kick().emit();
    let (first, rest) = bytes.as_ref().split_at(1);
    send(&peer, first, &[writer.as_fd()]);
    drop(writer);
    for byte in rest {
        assert!(matches!(ours.receive().unwrap(), Received::Nothing));
        peer.write_all(&[*byte]).unwrap();
    }
    // The next message is there already, with a descriptor of its own.
    send(&peer, bytes.as_ref(), &[peer.as_fd()]);
    let Received::Message(frame) = ours.receive().unwrap() else { panic!() };
    assert_eq!(Message::parse(&frame.header, frame.payload, frame.fds.len()), Ok(kick()));
    assert!(rustix::io::fcntl_getfd(&frame.fds[0]).unwrap().contains(FdFlags::CLOEXEC));
    rustix::io::write(&frame.fds[0], b"!").unwrap();
    drop(frame);
    let mut heard = Vec::new();
    reader.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"!", "it was the pipe, and it is closed");

    let Received::Message(frame) = ours.receive().unwrap() else { panic!() };
    assert_eq!(frame.fds.len(), 1);
    drop(frame);
    drop(peer);
    assert!(matches!(ours.receive().unwrap(), Received::Closed));
}

#[test]
fn too_many_descriptors_end_the_connection_and_none_stays_open() {
    for (at_once, times) in [(9, 1), (16, 1), (4, 3)] {
        let (peer, mut ours) = pair();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let bytes = kick().emit();
        for part in 0..times {
            send(&peer, &bytes.as_ref()[part..=part], &vec![writer.as_fd(); at_once]);
        }
        drop(writer);
        let received = ours.receive();
        assert!(
            matches!(received, Err(ConnectionError::Descriptors)),
            "{at_once} at once: {received:?}"
        );
        drop(ours);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_connection_that_ends_inside_a_message_is_an_error() {
    for (len, cut) in [(0, false), (5, true), (12, true), (15, true)] {
        let (peer, mut ours) = pair();
        let (mut reader, writer) = std::io::pipe().unwrap();
        if len > 0 {
            send(&peer, &kick().emit().as_ref()[..len], &[writer.as_fd()]);
        }
        drop((peer, writer));
        let received = ours.receive();
        assert_eq!(matches!(received, Err(ConnectionError::Cut)), cut, "{received:?}");
        drop(ours);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_peer_that_does_not_read_its_replies_is_not_served_further() {
    let (mut peer, ours) = pair();
    peer.set_nonblocking(true).unwrap();
    let mut backend = Backend::new(Offer::net(1), Recorder::default());
    backend.connect(ours);
    let request = ask(Request::GetFeatures).emit();
    let mut asked = 0;
    // Both buffers fill up: that of the requests, since none is read, after that of the replies.
    loop {
        match peer.write(request.as_ref()) {
            Ok(written) => assert_eq!(written, request.as_ref().len()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
        asked += 1;
        backend.serve(|_| {}).unwrap();
    }
    let mut replies = 0;
    let mut reply = [0; 20];
    while replies < asked {
        match peer.read_exact(&mut reply) {
            Ok(()) => replies += 1,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        backend.serve(|_| {}).unwrap();
    }
    drop(peer);
    assert!(matches!(backend.serve(|_| {}), Err(Ended::Closed)));
}

#[test]
fn of_requests_that_take_long_one_is_served_at_a_time() {
    let (mut peer, ours) = pair();
    let mut backend = Backend::new(Offer::net(1), Recorder::default());
    backend.connect(ours);
    let mut serve = || {
        let is_more = backend.serve(|_| {}).unwrap();
        (is_more, backend.session().rings().running.len())
    };
    let mut say = |request| peer.write_all(ask(request).emit().as_ref()).unwrap();
    say(Request::SetFeatures(Features::VERSION_1.0));
    for index in [0, 1] {
        let addresses = Addresses { descriptors: 0, used: 0x4000, available: 0x8000, log: None };
        say(Request::SetVringNum { index, size: 256 });
        say(Request::SetVringAddr { index, addresses });
        say(Request::SetVringKick { index, has_fd: false });
    }
    assert_eq!(serve(), (false, 0), "these cost nothing");
    let memory = Region { guest: 0, size: 1 << 20, user: 0, offset: 0 };
    send(&peer, ask(table(&[memory])).emit().as_ref(), &[memfd(1 << 20).as_fd()]);
    let mut say = |request| peer.write_all(ask(request).emit().as_ref()).unwrap();
    [0, 1].into_iter().for_each(|index| say(Request::GetVringBase { index }));
    assert_eq!([(); 4].map(|()| serve()), [(true, 2), (true, 1), (true, 0), (false, 0)]);
}

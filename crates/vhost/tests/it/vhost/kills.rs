//! A switch that is killed (`kill -9`) while it has frames of a guest, and the one after it.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost::backend::{Backend, Ended};
use vhost::device::Device;
use vhost::features::ProtocolFeatures;
use vhost::front::{FrontConfig, FrontEnd};
use vhost::inflight::OwnRecords;
use vhost::session::Offer;
use vhost::socket::Connection;
use vhost::vring::Base;

use super::cards::{BUFFER, Guest, RING};
use super::fronts::{config, sockets, split, until_called};

const RECORDS: &str = "ZOVN_TEST_RECORDS";
const GIVES_BACK: &str = "ZOVN_TEST_GIVES_BACK";

/// Run by the test below in a process of its own, connected by its standard input: tells of each
/// frame that it takes, and gives every so manieth back.
#[test]
#[ignore = "it is killed"]
fn a_switch() {
    let connection = Connection::new(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let records = OwnRecords::open(Path::new(&std::env::var_os(RECORDS).unwrap()), 2).unwrap();
    let gives_back: u32 = std::env::var(GIVES_BACK).unwrap().parse().unwrap();
    let mut backend = Backend::new(Offer::net(1), Device::new(1, RING.into()).recorded(records));
    backend.connect(connection);
    loop {
        // Nothing tells of frames here but looking.
        let shortly = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        poll(
            &mut [PollFd::from_borrowed_fd(backend.connection().unwrap(), PollFlags::IN)],
            Some(&shortly),
        )
        .unwrap();
        match backend.serve(|_| {}) {
            Err(Ended::Closed) => return,
            outcome => outcome.unwrap(),
        };
        let (device, shared) = backend.session_mut().parts();
        let mut taken = Vec::new();
        let arrived = |slot, frame: &port::FrameView<'_>| {
            let mut bytes = [0; 18];
            assert_eq!(frame.read(&mut bytes), 18);
            taken.push((slot, u32::from_le_bytes(*bytes.last_chunk().unwrap())));
        };
        device.card_mut().receive(64, arrived).unwrap();
        for (slot, number) in taken {
            eprintln!("took {number}");
            if number.is_multiple_of(gives_back) {
                device.card_mut().release(slot);
            }
        }
        device.publish(shared);
    }
}

/// Such a process; killed when dropped.
struct Switch {
    process: Child,
    told: BufReader<ChildStderr>,
}

impl Switch {
    fn start(connection: OwnedFd, records: &Path, gives_back: u32) -> Self {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "vhost::kills::a_switch", "--ignored", "--nocapture"]);
        again.env(RECORDS, records).env(GIVES_BACK, gives_back.to_string());
        again.stdin(connection).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = again.spawn().unwrap();
        let told = BufReader::new(process.stderr.take().unwrap());
        Self { process, told }
    }

    /// The next so many frames that it takes.
    fn taken(&mut self, count: usize) -> Vec<u32> {
        let lines = self.told.by_ref().lines().map(|line| line.unwrap());
        let numbers = lines.filter_map(|line| line.strip_prefix("took ")?.parse().ok());
        numbers.take(count).collect()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Guest {
    fn connect(&mut self, records: &Path, gives_back: u32) -> Switch {
        let (ours, theirs) = sockets();
        let switch = Switch::start(theirs, records, gives_back);
        self.front.connect(Connection::new(ours)).unwrap();
        // As DPDK has it, also when the rings have long been used.
        self.front.start(&[Base::Split(0); 2]).unwrap();
        switch
    }

    fn send(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let buffer = self.transmit.take().unwrap();
            let frame = [&[0; 26][..], &number.to_le_bytes()].concat();
            self.transmit.buffer(buffer).write(&frame);
            self.transmit.give(buffer, Some(frame.len() as u32));
        }
        self.transmit.publish();
    }

    /// Waits until so many buffers are its own again.
    fn until_free(&mut self, count: usize) {
        while self.transmit.free() < count {
            until_called(&self.front, 1);
            rustix::io::read(&self.front.rings()[1].call, &mut [0; 8]).unwrap();
            self.transmit.collect(|_, _, _| {});
        }
        assert_eq!(self.transmit.free(), count);
    }
}

fn a_switch_is_killed(protocol: ProtocolFeatures) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let records = folder.path().join("records");
    let buffers = 2 * u64::from(RING) * BUFFER as u64;
    let config = FrontConfig { queue_pairs: 1, buffers, protocol, ..config(split()) };
    let mut guest = Guest::new(FrontEnd::new(config).unwrap());
    guest.transmit.poll(false);

    let mut first = guest.connect(&records, 3);
    guest.send(0..99);
    assert_eq!(first.taken(99), (0..99).collect::<Vec<_>>());
    guest.until_free(usize::from(RING) - 66);
    drop(first);

    guest.send(99..150);
    let mut second = guest.connect(&records, 1);
    let expected: Vec<_> = (0..99).filter(|number| number % 3 > 0).chain(99..150).collect();
    assert_eq!(second.taken(66 + 51), expected);
    guest.until_free(RING.into());
}

#[test]
fn the_next_switch_delivers_what_the_killed_one_had() {
    let protocol = Offer::net(1).protocol;
    a_switch_is_killed(protocol.without(ProtocolFeatures::INFLIGHT_SHMFD));
}

#[test]
fn and_so_it_does_where_the_front_end_keeps_the_record() {
    a_switch_is_killed(Offer::net(1).protocol);
}

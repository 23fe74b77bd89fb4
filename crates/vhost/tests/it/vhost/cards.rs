//! Two guests whose cards hand each other frames: protocol, rings and memory together.

use std::thread;

use port::Span;
use port::{FrameView, Taken};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::ftruncate;
use vhost::backend::Backend;
use vhost::device::Device;
use vhost::features::Features;
use vhost::front::{FrontConfig, FrontEnd};
use vhost::message::{Region, Request};
use vhost::session::Offer;
use vhost::virtio::Parts;
use vhost::virtio::driver::Driver;
use vhost::vring::Base;

use super::fronts::{config, socketpair, split};
use super::recorder::table;

pub const RING: u16 = 256;
pub const BUFFER: usize = 2048;

/// A guest's ends: what it receives by, and what it transmits by.
pub struct Guest {
    pub receive: Driver,
    pub transmit: Driver,
    // After those who use its memory.
    pub front: FrontEnd,
}

impl Guest {
    pub fn new(front: FrontEnd) -> Self {
        let [receive, transmit] = [(0, true), (1, false)].map(|(ring, writable)| {
            let at = |offset| {
                let (bytes, address) = front.memory(offset).unwrap();
                // SAFETY: the front-end has it mapped, and outlives the drivers.
                #[expect(unsafe_code, reason = "a guest's memory is shared")]
                let span = unsafe { Span::new(bytes.start, bytes.len) };
                (span, address)
            };
            let [descriptors, used, available] =
                front.rings()[ring].offsets.map(|offset| at(offset).0);
            let parts = Parts::new([descriptors, available, used], RING, false).unwrap();
            let len = usize::from(RING) * BUFFER;
            let (buffers, address) = at(front.buffers() + (ring * len) as u64);
            Driver::new(parts, buffers.split(len).0, RING, address, writable)
        });
        Self { receive, transmit, front }
    }
}

/// Serves a back-end while its front-end works.
pub fn serve_while<T: Send>(backend: &mut Backend<Device>, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            // The front-end's thread may end without another word: so this waits shortly, and
            // looks.
            let shortly = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            poll(
                &mut [PollFd::from_borrowed_fd(backend.connection().unwrap(), PollFlags::IN)],
                Some(&shortly),
            )
            .unwrap();
            backend.serve(|_| {}).unwrap();
        }
        worker.join().unwrap()
    })
}

pub fn plugged() -> (Backend<Device>, Guest) {
    plugged_with(split())
}

/// A guest whose driver has agreed on these features.
fn plugged_with(features: Features) -> (Backend<Device>, Guest) {
    let (ours, theirs) = socketpair();
    let mut backend = Backend::new(Offer::net(1), Device::new(1, RING.into()));
    backend.connect(ours);
    let config = FrontConfig {
        queue_pairs: 1,
        buffers: 2 * u64::from(RING) * BUFFER as u64,
        ..config(features)
    };
    let mut front = FrontEnd::new(config).unwrap();
    serve_while(&mut backend, || {
        front.connect(theirs).unwrap();
        front.start(&[Base::Split(0); 2]).unwrap();
        front.enable(true).unwrap();
    });
    (backend, Guest::new(front))
}

#[test]
fn what_one_guest_sends_another_gets_and_who_stops_has_its_buffers_back() {
    let (mut a, mut sender) = plugged();
    let (mut b, mut receiver) = plugged();
    while let Some(number) = receiver.receive.take() {
        receiver.receive.give(number, None);
    }
    receiver.receive.publish();
    let mut came = 0_u32;
    for round in 0..20 {
        for n in 0..100_u32 {
            let number = sender.transmit.take().unwrap();
            let frame =
                [&[0; 12][..], &[7; 14], &(100 * round + n).to_le_bytes(), &[9; 46]].concat();
            sender.transmit.buffer(number).write(&frame);
            sender.transmit.give(number, Some(frame.len() as u32));
        }
        sender.transmit.publish();
        let (device, shared) = a.session_mut().parts();
        let mut slots = Vec::new();
        device.card_mut().receive(100, |slot, _| slots.push(slot)).unwrap();
        assert_eq!(slots.len(), 100);
        for slot in slots {
            let (other, _) = b.session_mut().parts();
            assert_eq!(
                other.card_mut().transmit(&device.card().frame(slot), &mut ()),
                Ok(Taken::Yes)
            );
            device.card_mut().release(slot);
        }
        device.publish(shared);
        let (other, shared) = b.session_mut().parts();
        other.publish(shared);
        assert_eq!(sender.transmit.collect(|_, _, _| {}), 100);
        receiver.receive.collect(|driver, number, len| {
            let mut bytes = [0; 76];
            assert_eq!((driver.buffer(number).read(&mut bytes), len), (76, 76));
            assert_eq!(bytes[26..30], came.to_le_bytes());
            came += 1;
        });
        while let Some(number) = receiver.receive.take() {
            receiver.receive.give(number, None);
        }
        receiver.receive.publish();
    }
    assert_eq!(came, 2000);

    // Frames that are held when the sender's rings stop go on all the same.
    let number = sender.transmit.take().unwrap();
    sender.transmit.buffer(number).write(&[5; 100]);
    sender.transmit.give(number, Some(100));
    sender.transmit.publish();
    let mut slots = Vec::new();
    a.session_mut().parts().0.card_mut().receive(1, |slot, _| slots.push(slot)).unwrap();
    let bases = serve_while(&mut a, || sender.front.stop().unwrap());
    assert_eq!(bases, [Base::Split(0), Base::Split(2001)]);
    assert_eq!(sender.transmit.collect(|_, _, _| {}), 1, "it has its buffer back");
    sender.transmit.buffer(number).write(&[0; 100]);
    let mut bytes = [0; 88];
    assert_eq!(a.session_mut().parts().0.card().frame(slots[0]).read(&mut bytes), 88);
    assert_eq!(bytes, [5; 88]);
}

#[test]
fn without_merged_buffers_a_frame_has_one_chain_and_the_same_header() {
    let features = Features::of(&[Features::VERSION_1, Features::PROTOCOL_FEATURES]);
    let (mut backend, mut guest) = plugged_with(features);
    for _ in 0..2 {
        let number = guest.receive.take().unwrap();
        guest.receive.give(number, None);
    }
    guest.receive.publish();
    let (device, shared) = backend.session_mut().parts();
    let longest = [5; BUFFER - 12];
    let mut put = |frame: &[u8]| device.transmit(&FrameView::plain(frame), shared);
    assert_eq!(put(&[6; BUFFER - 11]), Ok(Taken::Unfit), "two chains would do");
    assert_eq!(put(&longest), Ok(Taken::Yes));
    device.publish(shared);
    let mut came = Vec::new();
    guest.receive.collect(|driver, number, len| {
        let mut bytes = vec![0; len as usize];
        driver.buffer(number).read(&mut bytes);
        came.push(bytes);
    });
    // VIRTIO 1.2 §5.1.6.4.1: `num_buffers` is 1.
    assert_eq!(came, [[&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], &longest[..]].concat()]);

    let number = guest.transmit.take().unwrap();
    guest.transmit.buffer(number).write(&[&[0; 12][..], &[7; 60]].concat());
    guest.transmit.give(number, Some(72));
    guest.transmit.publish();
    let mut lens = Vec::new();
    device.card_mut().receive(1, |_, frame| lens.push((frame.bytes[0], frame.len()))).unwrap();
    assert_eq!(lens, [(7, 60)]);
}

/// What there is of two frames that are held, of which the first was copied before, when their
/// memory goes: by which request, and whether its file was cut before.
fn held_when_memory_goes(request: fn(Region) -> Request, is_cut: bool) -> [Vec<u8>; 2] {
    let (mut backend, mut guest) = plugged();
    for fill in [5, 6] {
        let number = guest.transmit.take().unwrap();
        guest.transmit.buffer(number).write(&[&[0; 12][..], &[fill; 88]].concat());
        guest.transmit.give(number, Some(100));
    }
    guest.transmit.publish();
    let card = backend.session_mut().parts().0.card_mut();
    let mut slots = Vec::new();
    card.receive(2, |slot, _| slots.push(slot)).unwrap();
    card.keep(1);
    let region = backend.session().shared().memory.regions().next().unwrap();
    if is_cut {
        ftruncate(guest.front.file(), 0).unwrap();
    }
    serve_while(&mut backend, || guest.front.ask(request(region)).unwrap());
    assert_eq!(backend.session().shared().memory.regions().count(), 0);
    [0, 1].map(|place| {
        let frame = backend.session().rings().card().frame(slots[place]);
        let mut bytes = vec![0; frame.len()];
        frame.read(&mut bytes);
        bytes
    })
}

#[test]
fn frames_that_are_held_outlive_their_memory_unless_it_was_lost_before() {
    for request in [Request::RemMemReg as fn(_) -> _, |_| table(&[])] {
        assert_eq!(held_when_memory_goes(request, false), [[5; 88], [6; 88]]);
        assert_eq!(held_when_memory_goes(request, true), [vec![5; 88], Vec::new()]);
    }
}

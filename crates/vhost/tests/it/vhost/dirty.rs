//! The log of what we wrote, while a guest moves.

use std::collections::BTreeSet;

use port::{FrameView, Taken};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::features::Features;
use vhost::log::{self, PAGE};
use vhost::message::{Addresses, Request};

use super::cards::{BUFFER, Guest, plugged, serve_while};

/// All of a guest's memory.
fn bytes(guest: &Guest) -> Vec<u8> {
    let (all, _) = guest.front.memory(0).unwrap();
    let mut bytes = vec![0; all.len];
    // SAFETY: the front-end has it mapped, and nobody writes to it at the moment.
    #[expect(unsafe_code, reason = "a guest's memory is shared")]
    unsafe {
        all.start.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), all.len);
    }
    bytes
}

/// Says that everything is to be logged, or that nothing is.
fn ask_for_log(guest: &mut Guest, wanted: bool) {
    let front = &mut guest.front;
    let all = if wanted { Features::LOG_ALL } else { Features::default() };
    let features = Features::of(&[front.features().0.without(Features::LOG_ALL), all]);
    front.ask(Request::SetFeatures(features.0)).unwrap();
    for index in 0..2_u8 {
        let offsets = front.rings()[usize::from(index)].offsets;
        let [descriptors, used, available] =
            offsets.map(|offset| front.memory(offset).unwrap().0.start.as_ptr() as u64);
        let log = wanted.then(|| front.memory(offsets[1]).unwrap().1);
        let addresses = Addresses { descriptors, used, available, log };
        front.ask(Request::SetVringAddr { index, addresses }).unwrap();
    }
}

#[test]
fn exactly_the_pages_that_we_changed_are_marked() {
    let (mut backend, mut guest) = plugged();
    let (all, first) = guest.front.memory(0).unwrap();
    let size = log::len(first + all.len as u64);
    let file = memfd_create("zovn-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, size).unwrap();
    let given = file.try_clone().unwrap();
    serve_while(&mut backend, || {
        guest.front.ask_with(Request::SetLogBase { size, offset: 0 }, vec![given]).unwrap();
        ask_for_log(&mut guest, true);
    });

    let mut changed = BTreeSet::new();
    let marked = || {
        let mut bits = vec![0; size as usize];
        rustix::io::pread(&file, &mut bits, 0).unwrap();
        let is_marked = move |page: &u64| bits[(page / 8) as usize] & 1 << (page % 8) != 0;
        (0..8 * size).filter(is_marked).collect::<BTreeSet<u64>>()
    };
    let mut round = |guest: &mut Guest, len: usize| {
        // What is written there is something else.
        let number = guest.receive.take().unwrap();
        guest.receive.buffer(number).write(&[0xaa; BUFFER]);
        guest.receive.give(number, None);
        guest.receive.publish();
        let number = guest.transmit.take().unwrap();
        guest.transmit.buffer(number).write(&[1; 100]);
        guest.transmit.give(number, Some(100));
        guest.transmit.publish();

        let before = bytes(guest);
        let (device, shared) = backend.session_mut().parts();
        let frame = vec![7; len];
        assert_eq!(device.transmit(&FrameView::plain(&frame), shared), Ok(Taken::Yes));
        let mut slots = Vec::new();
        device.card_mut().receive(1, |slot, _| slots.push(slot)).unwrap();
        slots.into_iter().for_each(|slot| device.card_mut().release(slot));
        assert_eq!(device.card_mut().arm_ingress(), Ok(false));
        device.publish(shared);
        let after = bytes(guest);
        let pages = before.chunks(PAGE as usize).zip(after.chunks(PAGE as usize)).enumerate();
        let changed: BTreeSet<u64> = pages
            .filter(|(_, (before, after))| before != after)
            .map(|(page, _)| first / PAGE + page as u64)
            .collect();
        guest.receive.collect(|_, _, _| {});
        guest.transmit.collect(|_, _, _| {});
        changed
    };
    // Buffers of half a page: what is marked depends on how much of one is written.
    for len in [60, 1500, 2000, 60] {
        changed.append(&mut round(&mut guest, len));
        assert_eq!(marked(), changed);
    }
    assert!(changed.len() >= 3, "both used rings, and buffers");

    // Not wanted any more.
    serve_while(&mut backend, || ask_for_log(&mut guest, false));
    let (device, shared) = backend.session_mut().parts();
    let number = guest.receive.take().unwrap();
    guest.receive.give(number, None);
    guest.receive.publish();
    assert_eq!(device.transmit(&FrameView::plain(&[7; 60]), shared), Ok(Taken::Yes));
    device.publish(shared);
    assert_eq!(marked(), changed);
}

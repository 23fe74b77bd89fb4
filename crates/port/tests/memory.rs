//! What a port in memory promises: every frame once and in order, whoever stalls, whatever its
//! size.

use std::collections::VecDeque;
use std::thread;

use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, SendError, pair, turned};
use port::{FrameView, Left, Port, Slot, Taken};
use proptest::prelude::*;
use wire::{Offload, PartialChecksum, Segment, SegmentKind};

const CONFIG: MemoryConfig = MemoryConfig { slots: 8, slot_size: 1600 };

/// Moves what has arrived at one port to the other's receiver, as far as there is room.
fn forward(
    from: &mut MemoryPort,
    to: &mut MemoryPort,
    held: &mut VecDeque<Slot>,
    most: usize,
) -> bool {
    from.receive(most, |slot, _| held.push_back(slot)).unwrap();
    let before = held.len();
    while let Some(slot) = held.front() {
        if to.transmit(&from.frame(*slot)).unwrap() == Taken::Busy {
            break;
        }
        from.release(*slot);
        held.pop_front();
    }
    from.flush().unwrap();
    to.flush().unwrap();
    held.len() < before
}

/// The frame that carries a number: its length and its bytes follow from it.
fn frame(number: u64) -> Vec<u8> {
    let len = 8 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % 1593;
    let mut bytes = vec![number as u8; len];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn a_million_frames_cross_three_threads() {
    const FRAMES: u64 = 1_000_000;
    const CONFIG: MemoryConfig = MemoryConfig { slots: 512, slot_size: 64 };
    let (mut ingress, mut sender) = pair(CONFIG);
    let (mut egress, mut receiver) = pair(CONFIG);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0u64;
            while next < FRAMES {
                let sent = sender.send_batch((FRAMES - next).min(64) as usize, |bytes| {
                    bytes[..8].copy_from_slice(&next.to_le_bytes());
                    next += 1;
                    8 + next as usize % 57
                });
                if sent == 0 {
                    thread::yield_now();
                }
            }
        });
        scope.spawn(move || {
            let (mut held, mut done) = (VecDeque::new(), 0);
            while done < FRAMES {
                ingress.receive(64, |slot, _| held.push_back(slot)).unwrap();
                let before = done;
                while let Some(slot) = held.front() {
                    if egress.transmit(&ingress.frame(*slot)).unwrap() == Taken::Busy {
                        break;
                    }
                    ingress.release(*slot);
                    held.pop_front();
                    done += 1;
                }
                ingress.flush().unwrap();
                egress.flush().unwrap();
                if done == before {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0u64;
        while next < FRAMES {
            let came = receiver.receive(64, |frame| {
                assert_eq!(frame.bytes[..8], next.to_le_bytes());
                next += 1;
                assert_eq!(frame.bytes.len(), 8 + next as usize % 57);
            });
            if came == 0 {
                thread::yield_now();
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each step, each of the three parties does some of its work, or stalls.
    #[test]
    fn nothing_is_lost_whoever_stalls(
        steps in prop::collection::vec((0usize..12, 0usize..12, 0usize..12), 1..200),
    ) {
        let (mut ingress, mut sender) = pair(CONFIG);
        let (mut egress, mut receiver) = pair(CONFIG);
        let mut held = VecDeque::new();
        let (mut sent, mut received) = (0, 0);
        let mut take = |receiver: &mut MemoryEnd, most| receiver.receive(most, |view| {
            assert_eq!(view.bytes, frame(received));
            received += 1;
        });
        for (sends, moves, takes) in steps {
            for _ in 0..sends {
                match sender.send(&frame(sent)) {
                    Ok(()) => sent += 1,
                    Err(error) => prop_assert_eq!(error, SendError::Full),
                }
            }
            forward(&mut ingress, &mut egress, &mut held, moves);
            take(&mut receiver, takes);
        }
        while forward(&mut ingress, &mut egress, &mut held, 100) || take(&mut receiver, 100) > 0 {}
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn every_length_is_copied_whole(len in 0usize..=1600) {
        let (mut port, mut end) = pair(CONFIG);
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        prop_assert_eq!(port.transmit(&FrameView::plain(&bytes)).unwrap(), Taken::Yes);
        port.flush().unwrap();
        prop_assert_eq!(end.receive(1, |view| assert_eq!(view.bytes, bytes)), 1);
    }
}

#[test]
fn a_full_sender_keeps_its_frame_until_a_slot_is_released() {
    let (mut port, mut end) = pair(CONFIG);
    for _ in 0..CONFIG.slots {
        end.send(b"a frame").unwrap();
    }
    assert_eq!(end.send(b"one more"), Err(SendError::Full));
    let mut slots = Vec::new();
    assert_eq!(port.receive(99, |slot, _| slots.push(slot)).unwrap(), Left::Nothing);
    assert_eq!(end.send(b"one more"), Err(SendError::Full));
    port.release(slots[3]);
    assert_eq!(end.send(b"one more"), Err(SendError::Full), "not before the flush");
    port.flush().unwrap();
    end.send(b"one more").unwrap();
    assert_eq!(port.frame(slots[0]).bytes, b"a frame");
}

#[test]
fn a_receiver_that_takes_nothing_makes_its_port_busy() {
    let (mut port, mut end) = pair(CONFIG);
    let view = FrameView::plain(b"a frame");
    for _ in 0..CONFIG.slots {
        assert_eq!(port.transmit(&view).unwrap(), Taken::Yes);
    }
    assert_eq!(port.transmit(&view).unwrap(), Taken::Busy);
    port.flush().unwrap();
    assert_eq!(end.receive(1, |_| ()), 1);
    assert_eq!(port.transmit(&view).unwrap(), Taken::Yes);
}

#[test]
fn a_frame_longer_than_a_slot_is_never_taken() {
    let (mut port, mut end) = pair(CONFIG);
    let bytes = [0; 1601];
    assert_eq!(end.send(&bytes), Err(SendError::TooLong { len: 1601, slot_size: 1600 }));
    assert_eq!(port.transmit(&FrameView::plain(&bytes)).unwrap(), Taken::Unfit);
}

#[test]
fn what_is_left_to_do_travels_with_the_frame() {
    let offload =
        Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), ..Offload::NONE };
    let (mut ingress, mut sender) = pair(CONFIG);
    let (mut egress, mut receiver) = pair(CONFIG);
    sender.send_frame(FrameView::noted(&[1; 60], &offload)).unwrap();
    sender.send(&[2; 60]).unwrap();
    forward(&mut ingress, &mut egress, &mut VecDeque::new(), 9);
    let mut seen = Vec::new();
    receiver.receive(9, |view| seen.push((view.bytes[0], view.offload())));
    assert_eq!(seen, [(1, offload), (2, Offload::NONE)]);
}

#[test]
fn what_goes_around_comes_back_as_it_was_put() {
    // What a switch puts before a frame hides the headers that this is true of.
    let kind = SegmentKind::Tcp4;
    let segment = Some(Segment { kind, ecn: false, header_len: 70, size: 1460 });
    let checksum = Some(PartialChecksum { start: 50, offset: 16 });
    let offload = Offload { checksum, segment, data_valid: false };
    let mut port = turned(CONFIG);
    assert_eq!(port.transmit(&FrameView::noted(&[1; 1600], &offload)).unwrap(), Taken::Yes);
    port.flush().unwrap();
    let mut seen = Vec::new();
    port.receive(9, |_, view| seen.push((view.bytes.len(), view.offload()))).unwrap();
    assert_eq!(seen, [(1600, offload)]);
}

#[test]
fn a_frame_that_belies_its_offload_is_told_of_as_none_and_its_slot_comes_back() {
    let beyond =
        Offload { checksum: Some(PartialChecksum { start: 34, offset: 60 }), ..Offload::NONE };
    let (mut port, mut end) = pair(MemoryConfig { slots: 1, ..CONFIG });
    end.send_frame(FrameView::noted(&[1; 60], &beyond)).unwrap();
    let mut told = None;
    port.receive(9, |slot, view| told = Some((slot, view.bytes.len()))).unwrap();
    assert_eq!(told, Some((Slot(0), 0)));
    port.release(Slot(0));
    port.flush().unwrap();
    end.send(&[2; 60]).unwrap();
}

#[test]
#[should_panic = "slot 3 is not held"]
fn a_slot_cannot_be_released_twice() {
    let (mut port, mut end) = pair(CONFIG);
    end.send_batch(8, |_| 60);
    port.receive(9, |_, _| ()).unwrap();
    port.release(Slot(3));
    port.release(Slot(3));
}

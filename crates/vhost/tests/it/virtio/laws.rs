//! What holds between guests that behave.

use port::memory::{self, MemoryConfig};
use port::{FrameView, Port, Slot, Taken};
use proptest::prelude::*;
use vhost::virtio::card::Agreed;

use super::guest::{Guest, plugged, with_header};

const PLAIN: Agreed = Agreed { mergeable: false, offloads: false };
const MERGEABLE: Agreed = Agreed { mergeable: true, offloads: false };

#[test]
fn a_frame_stays_in_its_ring_until_it_is_released() {
    let mut a = plugged(8, 256, PLAIN);
    for n in 0..8 {
        a.send(&with_header(&[n; 60])).unwrap();
    }
    let mut slots = Vec::new();
    let more = a.card.receive(64, |slot, frame| {
        assert_eq!(frame.len(), 60);
        slots.push(slot);
    });
    assert_eq!((slots.len(), more), (8, Ok(true)), "all its places are taken");
    a.card.publish(&mut (), |_| {});
    assert_eq!(a.transmit.collect(|_, _, _| {}), 0);
    assert!(a.send(&[]).is_none(), "every buffer is on its way");

    // The third first: whoever waits does not hold up the others.
    a.card.release(slots[2]);
    a.card.publish(&mut (), |_| {});
    let mut back = Vec::new();
    a.transmit.collect(|_, number, _| back.push(number));
    assert_eq!(back, [2]);
    let mut bytes = [0; 60];
    assert_eq!(a.card.frame(slots[7]).read(&mut bytes), 60);
    assert_eq!(bytes, [7; 60]);
}

#[test]
fn a_receiver_without_buffers_is_busy_and_one_with_short_ones_is_unfit() {
    let mut a = plugged(2, 128, PLAIN);
    a.send(&with_header(&[1; 116])).unwrap();
    a.send(&with_header(&[2; 60])).unwrap();
    let mut slots = Vec::new();
    a.card.receive(2, |slot, _| slots.push(slot)).unwrap();
    let mut b = plugged(2, 100, PLAIN);
    let frame = a.card.frame(slots[0]);
    assert_eq!(b.card.transmit(&frame, &mut ()), Ok(Taken::Busy));
    b.post();
    assert_eq!(b.card.transmit(&frame, &mut ()), Ok(Taken::Unfit));
    assert_eq!(b.card.transmit(&a.card.frame(slots[1]), &mut ()), Ok(Taken::Yes));
    b.card.publish(&mut (), |_| {});
    let came = b.collect();
    assert_eq!(came.len(), 1);
    assert_eq!(came[0][..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(came[0][12..], [2; 60]);
}

/// What a network has looked at is delivered, whatever the guest writes there meanwhile.
#[test]
fn headers_that_are_shown_stay_as_they_were_when_the_frame_was_taken() {
    for len in [1, 14, 31, 32, 60, 63, 64, 65, 95, 96, 97, 127, 128, 129, 1500] {
        let [mut a, mut b] = [plugged(4, 2048, PLAIN), plugged(4, 2048, PLAIN)];
        a.card.show_headers();
        b.post();
        let frame: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let shown = len.min(96);
        a.send(&with_header(&frame)).unwrap();
        let mut slots = Vec::new();
        a.card.receive(64, |slot, _| slots.push(slot)).unwrap();
        a.guest.all().write(&vec![0xff; a.guest.all().len()]);
        let view = a.card.frame(slots[0]);
        assert_eq!((view.bytes, view.len()), (&frame[..shown], len));
        assert_eq!(view.rest.is_empty(), shown == len);
        assert_eq!(b.card.transmit(&view, &mut ()), Ok(Taken::Yes));
        // What a network changes is changed in our copy.
        let is_changed = a.card.rewrite(slots[0], shown - 1, &[0xee]);
        assert!(is_changed && !a.card.rewrite(slots[0], 300, &[0]));
        assert_eq!(b.card.transmit(&a.card.frame(slots[0]), &mut ()), Ok(Taken::Yes));
        a.card.keep(1);
        assert_eq!(b.card.transmit(&a.card.frame(slots[0]), &mut ()), Ok(Taken::Yes));
        b.card.publish(&mut (), |_| {});
        let mut expected = [&frame[..shown], &vec![0xff; len - shown]].concat();
        let came = b.collect();
        assert_eq!(came[0][12..], expected, "{len} bytes");
        expected[shown - 1] = 0xee;
        assert!(came[1..].iter().all(|it| it[12..] == expected), "{len} bytes");
        assert_eq!(came.len(), 3);
    }
}

#[test]
fn a_ring_that_goes_away_has_its_buffers_back_and_its_frames_go_on() {
    let mut a = plugged(4, 2048, PLAIN);
    for n in 1..=3 {
        a.send(&with_header(&[n; 1500])).unwrap();
    }
    // Nothing but a header: no frame at all.
    a.send(&[0; 12]).unwrap();
    let mut slots = Vec::new();
    a.card.receive(64, |slot, _| slots.push(slot)).unwrap();
    a.card.release(slots[0]);
    a.card.stop(1, &mut ()).unwrap();
    assert_eq!(a.transmit.collect(|_, _, _| {}), 4);
    assert_eq!(a.card.frame(slots[3]).len(), 0);
    // Whatever becomes of the memory.
    a.guest.all().write(&vec![0xff; a.guest.all().len()]);
    for (n, slot) in [(2, slots[1]), (3, slots[2])] {
        let mut bytes = [0; 1500];
        assert_eq!(a.card.frame(slot).read(&mut bytes), 1500);
        assert_eq!(bytes, [n; 1500]);
        a.card.release(slot);
    }
    assert_eq!(a.card.stop(1, &mut ()), None);
}

#[test]
fn a_ring_that_is_not_enabled_gives_nothing_and_loses_nothing() {
    let mut a = plugged(4, 256, PLAIN);
    a.post();
    a.send(&with_header(&[1; 60])).unwrap();
    a.card.enable(0, false);
    a.card.enable(1, false);
    let frame = [7; 60];
    assert_eq!(a.card.receive(64, |_, _| panic!("nothing is taken")), Ok(false));
    assert_eq!(a.card.arm_ingress(), Ok(false), "nothing that could be taken");
    assert_eq!(a.card.transmit(&FrameView::plain(&frame), &mut ()), Ok(Taken::Busy));
    a.card.enable(1, true);
    let mut came = 0;
    assert_eq!(a.card.receive(64, |_, _| came += 1), Ok(false));
    assert_eq!(came, 1);
    assert_eq!(a.card.transmit(&FrameView::plain(&frame), &mut ()), Ok(Taken::Busy));
    a.card.enable(0, true);
    assert_eq!(a.card.transmit(&FrameView::plain(&frame), &mut ()), Ok(Taken::Yes));
}

#[test]
fn a_guest_whose_frames_are_kept_can_send_others() {
    let mut a = plugged(8, 256, PLAIN);
    for n in 0..8 {
        a.send(&with_header(&[n; 60])).unwrap();
    }
    let mut slots = Vec::new();
    a.card.receive(64, |slot, _| slots.push(slot)).unwrap();
    a.card.publish(&mut (), |_| {});
    assert!(
        a.transmit.collect(|_, _, _| {}) == 0 && a.send(&[]).is_none(),
        "every buffer is on its way"
    );
    a.card.keep(3);
    a.card.publish(&mut (), |_| {});
    assert_eq!(a.transmit.collect(|_, _, _| {}), 3);
    for _ in 0..3 {
        a.send(&with_header(&[9; 60])).unwrap();
    }
    for (n, slot) in (0..).zip(&slots) {
        let mut bytes = [0; 60];
        assert_eq!(a.card.frame(*slot).read(&mut bytes), 60);
        assert_eq!(bytes, [n; 60]);
        a.card.release(*slot);
    }
    a.card.publish(&mut (), |_| {});
    assert_eq!(a.transmit.collect(|_, _, _| {}), 5, "each goes back once");
    let mut others = 0;
    a.card.receive(64, |_, _| others += 1).unwrap();
    assert_eq!(others, 3);
}

#[test]
fn frames_are_kept_in_turn_though_others_come_meanwhile() {
    let mut a = plugged(4, 256, PLAIN);
    for n in 0..3 {
        a.send(&with_header(&[n; 60])).unwrap();
    }
    let mut slots = Vec::new();
    a.card.receive(64, |slot, _| slots.push(slot)).unwrap();
    let mut kept = Vec::new();
    for _ in 0..3 {
        a.card.keep(1);
        a.card.publish(&mut (), |_| {});
        a.transmit.collect(|driver, number, _| {
            let mut frame = [0; 13];
            driver.buffer(number).read(&mut frame);
            kept.push(frame[12]);
        });
        // A place becomes free, and is taken again.
        a.card.release(slots.remove(0));
        a.send(&with_header(&[9; 60])).unwrap();
        a.card.receive(64, |_, _| {}).unwrap();
    }
    assert_eq!(kept, [0, 1, 2]);
    a.card.keep(8);
    a.card.publish(&mut (), |_| {});
    assert_eq!(a.transmit.collect(|_, _, _| {}), 3, "there are no more");
}

#[test]
fn a_guest_is_asked_for_buffers_as_long_as_there_are_none() {
    let mut a = plugged(4, 256, PLAIN);
    let frame = [7; 60];
    assert_eq!(a.card.transmit(&FrameView::plain(&frame), &mut ()), Ok(Taken::Busy));
    assert_eq!(a.card.arm_egress(), Ok(false));
    // Whatever else is looked at meanwhile.
    assert_eq!(a.card.receive(64, |_, _| {}), Ok(false));
    assert_eq!(a.card.arm_egress(), Ok(false));
    let number = a.receive.take().unwrap();
    a.receive.give(number, None);
    assert!(a.receive.publish(), "it tells of one");
    assert_eq!(a.card.transmit(&FrameView::plain(&frame), &mut ()), Ok(Taken::Yes));
    assert_eq!(a.card.receive(64, |_, _| {}), Ok(false));
    assert_eq!(a.card.arm_egress(), Ok(false));
    let number = a.receive.take().unwrap();
    a.receive.give(number, None);
    assert!(!a.receive.publish(), "nobody waits for it");
}

#[test]
fn a_port_in_memory_takes_a_guests_frame_whole() {
    let mut a = plugged(4, 2048, PLAIN);
    let bytes: Vec<u8> = (0..1500).map(|at| at as u8).collect();
    a.send(&with_header(&bytes)).unwrap();
    let (mut port, mut end) = memory::pair(MemoryConfig { slots: 4, slot_size: 2048 });
    a.card.receive(1, |_, frame| assert_eq!(port.transmit(frame).unwrap(), Taken::Yes)).unwrap();
    port.flush().unwrap();
    let mut came = Vec::new();
    end.receive(4, |frame| came.push(frame.bytes.to_vec()));
    assert_eq!(came, [bytes]);
}

#[test]
fn a_driver_is_asked_for_the_next_buffer_only_while_nobody_looks() {
    let mut guest = Guest::new(1 << 16);
    let (mut driver, mut ring) = guest.split(8, 64, false);
    let mut sends = || {
        let number = driver.take().unwrap();
        driver.give(number, Some(64));
        driver.publish()
    };
    assert!(!sends(), "we look by ourselves");
    assert_eq!(ring.wait(), Ok(true), "what is there already is not told of");
    assert!(sends());
    ring.be_silent();
    assert!(!sends());
}

/// What a guest sends: frames of these lengths.
fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![4 => 14_usize..128, 2 => 14_usize..1515, 1 => 1515_usize..9000];
    prop::collection::vec(len, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every frame arrives once, in order, as it was sent, however long the rings are, and whenever
    /// buffers are posted.
    #[test]
    fn what_one_guest_sends_another_gets(
        lengths in lengths(),
        sizes in (0_u32..7, 3_u32..9),
        buffer in 200_usize..2100,
        posts in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let mut a = plugged(1 << sizes.0, 9100, PLAIN);
        let mut b = plugged(1 << sizes.1, buffer, MERGEABLE);
        let frame = |n: usize| -> Vec<u8> { (0..lengths[n]).map(|at| (n + at) as u8).collect() };
        let capacity = (buffer << sizes.1.min(6)) - 12;
        let fits = |n: usize| lengths[n] <= capacity;
        let expected: Vec<_> = (0..lengths.len()).filter(|&n| fits(n)).map(frame).collect();
        let (mut sent, mut came, mut held) = (0, Vec::<Vec<u8>>::new(), std::collections::VecDeque::<Slot>::new());
        let mut left = 0;
        for round in 0.. {
            while sent < lengths.len() && a.send(&with_header(&frame(sent))).is_some() {
                sent += 1;
            }
            a.card.receive(16, |slot, _| held.push_back(slot)).unwrap();
            while let Some(&slot) = held.front() {
                match b.card.transmit(&a.card.frame(slot), &mut ()).unwrap() {
                    Taken::Busy => break,
                    Taken::Yes | Taken::Unfit | Taken::Dropped => a.card.release(slot),
                }
                held.pop_front();
            }
            a.card.publish(&mut (), |_| {});
            b.card.publish(&mut (), |_| {});
            a.transmit.collect(|_, _, _| {});
            for bytes in b.collect() {
                if left == 0 {
                    left = u16::from_le_bytes([bytes[10], bytes[11]]);
                    came.push(bytes[12..].to_vec());
                } else {
                    came.last_mut().unwrap().extend(bytes);
                }
                left -= 1;
            }
            if posts[round % posts.len()] || round > 500 {
                b.post();
            }
            if sent == lengths.len() && held.is_empty() && a.transmit.free() == 1 << sizes.0 {
                break;
            }
            prop_assert!(round < 5000, "nothing moves: {sent} sent, {} came", came.len());
        }
        prop_assert_eq!(left, 0);
        prop_assert_eq!(came, expected);
    }
}

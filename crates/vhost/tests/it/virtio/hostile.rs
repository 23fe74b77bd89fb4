//! Guests that write what they like into their rings.

use port::{FrameView, Taken};
use proptest::prelude::*;
use vhost::virtio::Corrupt;
use vhost::virtio::card::{Agreed, Card};
use vhost::virtio::memory::{GuestMemory, Region};
use vhost::virtio::packed::Turn;
use vhost::virtio::ring::{Base, Ring};

use super::guest::{FIRST, Guest, plugged, with_header};

const AGREED: Agreed = Agreed { mergeable: true, offloads: true };

#[test]
fn an_index_that_jumps_is_corrupt() {
    let mut a = plugged(8, 256, AGREED);
    for _ in 0..8 {
        a.send(&with_header(&[1; 60])).unwrap();
    }
    // One more than there are.
    a.transmit.give(0, None);
    a.transmit.publish();
    let outcome = a.card.receive(64, |_, _| {});
    assert_eq!(outcome, Err(Corrupt::Index { index: 9, next: 0, size: 8 }));
}

#[test]
fn a_buffer_that_is_sent_twice_is_corrupt() {
    let mut a = plugged(8, 256, AGREED);
    let number = a.send(&with_header(&[1; 60])).unwrap();
    a.transmit.give(number, None);
    a.transmit.publish();
    let mut came = 0;
    let outcome = a.card.receive(64, |_, _| came += 1);
    assert_eq!((outcome, came), (Err(Corrupt::Lent { head: number }), 1));
}

/// A ring of four descriptors, written by hand: address, length, flags, next; then what is
/// available.
fn by_hand(descriptors: &[[u64; 4]], heads: &[u16]) -> (Guest, Card) {
    let mut guest = Guest::new(1 << 16);
    let parts = guest.parts(4, false);
    for (number, [address, len, flags, next]) in descriptors.iter().enumerate() {
        let words = [*address, len | flags << 32 | next << 48].map(u64::to_le_bytes).concat();
        parts.descriptors.split(16 * number).1.write(&words);
    }
    let entries = [&[0, heads.len() as u16], heads].concat();
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    parts.driver.write(&bytes);
    let mut card = Card::new(1, 64);
    card.set_memory(guest.memory());
    card.start(1, Ring::new(parts, 4, false, Base::Split(0)), AGREED);
    (guest, card)
}

/// The lengths of the frames that arrive.
fn arrived(descriptors: &[[u64; 4]], heads: &[u16]) -> (Vec<usize>, Result<bool, Corrupt>) {
    let (_guest, mut card) = by_hand(descriptors, heads);
    let mut lens = Vec::new();
    let outcome = card.receive(64, |_, frame: &FrameView<'_>| lens.push(frame.len()));
    (lens, outcome)
}

const NEXT: u64 = 1;
const WRITE: u64 = 2;
const INDIRECT: u64 = 4;
const AT: u64 = FIRST + (1 << 15);

#[test]
fn a_chain_that_is_wrong_costs_one_frame() {
    // A frame without bytes is one that the switch refuses as malformed; the next arrives.
    let good = [AT, 112, 0, 0];
    for (what, bad) in [
        ("a loop", [AT, 100, NEXT, 0]),
        ("outside", [1, 100, 0, 0]),
        ("at the end", [FIRST + (1 << 16) - 50, 100, 0, 0]),
        ("wraps", [u64::MAX - 10, 100, 0, 0]),
        ("a link to nowhere", [AT, 100, NEXT, 77]),
        ("to be written", [AT, 100, WRITE, 0]),
        ("no table", [AT, 0, INDIRECT, 0]),
        ("a table of a half", [AT, 24, INDIRECT, 0]),
        ("a table outside", [1, 32, INDIRECT, 0]),
        ("no header", [AT, 11, 0, 0]),
        ("nothing but a header", [AT, 12, 0, 0]),
    ] {
        assert_eq!(arrived(&[bad, good], &[0, 1]), (vec![0, 100], Ok(false)), "{what}");
    }
    let long = [[FIRST, 1 << 16, NEXT, 1], [FIRST, 100, 0, 0], good];
    assert_eq!(arrived(&long, &[0, 2]), (vec![0, 100], Ok(false)), "longer than any frame");
    assert_eq!(arrived(&[good], &[4]), (vec![], Err(Corrupt::Head { head: 4, size: 4 })));
}

#[test]
fn a_frame_may_lie_in_pieces_wherever_they_are() {
    // Header and frame cut anywhere; buffers without bytes between them.
    let chain =
        [[AT, 5, NEXT, 1], [AT + 5, 0, NEXT, 2], [AT + 5, 30, NEXT, 3], [AT + 35, 77, 0, 0]];
    assert_eq!(arrived(&chain, &[0]), (vec![100], Ok(false)));
}

#[test]
fn a_header_that_lies_is_malformed() {
    let (guest, mut card) = by_hand(&[[AT, 112, 0, 0], [AT, 112, 0, 0]], &[0]);
    // A checksum far behind the frame's end.
    guest.all().split(1 << 15).1.write(&[1, 0, 0, 0, 0, 0, 200, 0, 16, 0]);
    let mut lens = Vec::new();
    card.receive(64, |_, frame: &FrameView<'_>| lens.push(frame.len())).unwrap();
    assert_eq!(lens, [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever lies in the rings: nothing panics, nobody spins, and nothing outside of the guest's
    /// memory is touched (which a sanitizer would see).
    #[test]
    fn rings_of_any_bytes_do_no_harm(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>(), 1 => 0_u8..8], 1..3000),
        packed: bool,
        events: bool,
        place in any::<[(u16, bool); 2]>(),
        frames in prop::collection::vec(14_usize..3000, 1..40),
    ) {
        let mut guest = Guest::new(1 << 14);
        let size = 16;
        let mut card = Card::new(1, 64);
        let turn = |(index, wrap): (u16, bool)| Turn { index: index % size, wrap };
        let start = if packed { Base::Packed { available: turn(place[0]), used: turn(place[1]) } } else { Base::Split(place[0].0) };
        let rings = [0, 1].map(|_| guest.parts(size, packed));
        guest.all().write(&bytes);
        // It begins at 0, so that addresses lie in it by chance.
        card.set_memory(GuestMemory::new(vec![Region { address: 0, span: guest.all() }]));
        for (index, parts) in rings.into_iter().enumerate() {
            card.start(index, Ring::new(parts, size, events, start), AGREED);
        }
        let mut sender = plugged(64, 4096, AGREED);
        let mut slots = Vec::new();
        for (n, len) in frames.iter().enumerate() {
            sender.send(&with_header(&vec![n as u8; *len]));
            sender.card.receive(1, |slot, _| slots.push(slot)).unwrap();
            let taken = card.transmit(&sender.card.frame(slots[n]), &mut ());
            prop_assert!(matches!(taken, Ok(Taken::Yes | Taken::Busy | Taken::Unfit) | Err(_)));
            let mut held = Vec::new();
            let outcome = card.receive(64, |slot, frame| held.push((slot, frame.len())));
            prop_assert!(held.len() <= 64);
            for (slot, len) in held {
                let mut copy = vec![0; len];
                prop_assert_eq!(card.frame(slot).read(&mut copy), len);
                card.release(slot);
            }
            card.publish(&mut (), |_| {});
            if taken.is_err() || outcome.is_err() {
                break;
            }
        }
        card.stop(0, &mut ());
        card.stop(1, &mut ());
    }
}

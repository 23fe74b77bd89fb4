//! What a loan promises: one user a slot, and no belief in the other side's numbers.

#![cfg(not(loom))]
#![allow(unsafe_code, reason = "a hostile lender writes to the rings behind the loan's back")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each uses memory that a `Shared` owns, as each side once"
)]

mod common;

use std::collections::BTreeSet;
use std::thread;

use proptest::prelude::*;
use rings::loan::{LoanError, MAX_SLOT_SIZE, Shape, bytes_for, format, loan};
use rings::{Borrower, Consumer, Lender, Producer};

use common::Shared;

const CASES: u32 = if cfg!(miri) { 4 } else { 256 };
const FRAMES: u64 = if cfg!(miri) { 200 } else { 300_000 };
const SHAPE: Shape = Shape { slots: 4, slot_size: 100 };
/// A ring's header, and four descriptors, in whole lines.
const RING_LEN: usize = 512 + 128;

#[test]
fn what_was_lent_is_seen_and_what_is_given_back_can_be_lent_again() {
    let (mut lender, mut borrower) = loan(SHAPE).unwrap();
    for round in 0..3u8 {
        let lent = lender.lend(10, |bytes, note| {
            bytes[..3].fill(round);
            note.fill(round + 1);
            (3, round == 1)
        });
        assert_eq!(lent, 4);
        lender.flush();
        let mut slots = Vec::new();
        let more = borrower.accept(10, |slot, bytes, note| {
            assert_eq!(bytes, [round; 3]);
            assert_eq!(note, (round == 1).then_some(&[2; 16]));
            slots.push(slot);
            true
        });
        assert!(!more);
        slots.reverse();
        for slot in slots {
            assert_eq!(borrower.get(slot).0, [round; 3]);
            borrower.give_back(slot);
        }
        borrower.flush();
        assert_eq!(lender.collect(10, |bytes, note| assert_eq!((bytes, note), (&[][..], None))), 4);
    }
    assert_eq!((lender.refused(), borrower.refused()), (0, 0));
}

#[test]
fn a_slot_that_is_not_kept_goes_back_at_once() {
    let (mut lender, mut borrower) = loan(SHAPE).unwrap();
    lender.lend(2, |_, _| (1, false));
    lender.flush();
    borrower.accept(2, |slot, _, _| slot == 1);
    borrower.flush();
    assert_eq!(lender.collect(9, |_, _| ()), 1);
    borrower.give_back(1);
}

#[test]
fn an_empty_slot_comes_back_filled() {
    let (mut lender, mut borrower) = loan(SHAPE).unwrap();
    assert!(!borrower.fill(5, |_, _| false), "nothing was lent");
    lender.lend(1, |_, _| (0, false));
    lender.flush();
    assert!(borrower.fill(5, |bytes, _| {
        bytes.copy_from_slice(b"hello");
        false
    }));
    assert_eq!(lender.collect(9, |_, _| ()), 0, "not before the flush");
    borrower.flush();
    assert_eq!(lender.collect(9, |bytes, _| assert_eq!(bytes, b"hello")), 1);
}

#[test]
#[should_panic = "slot 2 is not held"]
fn a_slot_that_is_not_held_cannot_be_read() {
    let (_, borrower) = loan(SHAPE).unwrap();
    borrower.get(2);
}

#[test]
fn an_impossible_shape_is_named() {
    for (slots, slot_size) in [(0, 64), (1, 0), (1, MAX_SLOT_SIZE + 1), (u32::MAX, 64)] {
        let shape = Shape { slots, slot_size };
        assert_eq!(loan(shape).err(), Some(LoanError::Shape(shape)));
    }
}

#[test]
fn slots_cross_threads_whole() {
    let (mut lender, mut borrower) = loan(Shape { slots: 8, slot_size: 64 }).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0u64;
            while next < FRAMES {
                lender.collect(8, |_, _| ());
                let lent = lender.lend((FRAMES - next) as usize, |bytes, _| {
                    let len = 8 + next as usize % 57;
                    bytes[..len].fill(next as u8);
                    bytes[..8].copy_from_slice(&next.to_le_bytes());
                    next += 1;
                    (len, false)
                });
                lender.flush();
                if lent == 0 {
                    thread::yield_now();
                }
            }
        });
        let (mut next, mut slots) = (0u64, Vec::new());
        while next < FRAMES {
            borrower.accept(5, |slot, bytes, _| {
                assert_eq!(bytes[..8], next.to_le_bytes());
                assert!(bytes.len() == 8 + next as usize % 57 && bytes[8..].iter().all(|b| *b == next as u8));
                next += 1;
                slots.push(slot);
                true
            });
            if slots.is_empty() {
                thread::yield_now();
            }
            slots.drain(..).for_each(|slot| borrower.give_back(slot));
            borrower.flush();
        }
        assert_eq!(borrower.refused(), 0);
    });
}

/// A loan whose one side is played by the test, word by word.
fn exposed() -> Shared {
    let shared = Shared::new(bytes_for(SHAPE).unwrap());
    unsafe { format(shared.region(), SHAPE).unwrap() };
    shared
}

#[test]
fn a_slot_that_is_given_back_twice_is_not_lent_twice() {
    let exposed = exposed();
    let mut lender = unsafe { Lender::join(exposed.region(), SHAPE).unwrap() };
    let mut taken = unsafe { Consumer::<u64>::join(exposed.part(0, RING_LEN)).unwrap() };
    let mut hostile = unsafe { Producer::<u64>::join(exposed.part(RING_LEN, RING_LEN)).unwrap() };
    let mut lend = |lender: &mut Lender| {
        lender.lend(9, |_, _| (0, false));
        lender.flush();
        taken.drain(9).collect::<Vec<_>>()
    };
    assert_eq!(lend(&mut lender), [0, 1, 2, 3]);
    hostile.push_slice(&[1, 1, 4, 1]);
    hostile.publish();
    assert_eq!(lender.collect(9, |_, _| ()), 1);
    assert_eq!(lender.refused(), 3);
    assert_eq!(lend(&mut lender), [1]);
}

#[test]
fn a_slot_that_was_never_lent_cannot_be_given_back() {
    let exposed = exposed();
    let mut lender = unsafe { Lender::join(exposed.region(), SHAPE).unwrap() };
    let mut hostile = unsafe { Producer::<u64>::join(exposed.part(RING_LEN, RING_LEN)).unwrap() };
    lender.lend(2, |_, _| (0, false));
    hostile.push_slice(&[2, 3]);
    hostile.publish();
    assert_eq!(lender.collect(9, |_, _| panic!("was not lent")), 0);
    assert_eq!((lender.refused(), lender.free(9)), (2, 2));
}

fn descriptor() -> impl Strategy<Value = u64> {
    let plausible = (0u64..6, 0u64..130, any::<bool>())
        .prop_map(|(slot, len, noted)| slot | len << 32 | u64::from(noted) << 63);
    prop_oneof![4 => plausible, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_lender_gets_refusals_and_nothing_else(
        batches in prop::collection::vec((prop::collection::vec(descriptor(), 0..5), 0usize..5, 0usize..3), 0..40),
        collects in any::<bool>(),
    ) {
        let exposed = exposed();
        let mut borrower = unsafe { Borrower::join(exposed.region(), SHAPE).unwrap() };
        let mut hostile = unsafe { Producer::<u64>::join(exposed.part(0, RING_LEN)).unwrap() };
        let mut returned = unsafe { Consumer::<u64>::join(exposed.part(RING_LEN, RING_LEN)).unwrap() };
        let (mut held, mut offered, mut back) = (Vec::new(), 0, 0);
        for (batch, release, fill) in batches {
            offered += hostile.push_slice(&batch) as u64;
            hostile.publish();
            for _ in 0..fill {
                borrower.fill(100, |bytes, _| { bytes.fill(7); true });
            }
            borrower.accept(usize::MAX, |slot, bytes, _| {
                assert!(slot < SHAPE.slots && bytes.len() <= 100);
                assert!(!held.contains(&slot), "slot {slot} has two users");
                held.push(slot);
                true
            });
            held.drain(..release.min(held.len())).for_each(|slot| borrower.give_back(slot));
            borrower.flush();
            if collects {
                back += returned.drain(usize::MAX).count() as u64;
            }
        }
        back += returned.drain(usize::MAX).count() as u64;
        prop_assert_eq!(offered, borrower.refused() + held.len() as u64 + back);
        prop_assert_eq!(borrower.corrupt(), None);
    }

    #[test]
    fn a_hostile_borrower_gets_refusals_and_nothing_else(
        batches in prop::collection::vec((0usize..5, prop::collection::vec(descriptor(), 0..5)), 0..40),
    ) {
        let exposed = exposed();
        let mut lender = unsafe { Lender::join(exposed.region(), SHAPE).unwrap() };
        let mut hostile = unsafe { Producer::<u64>::join(exposed.part(RING_LEN, RING_LEN)).unwrap() };
        let mut taken = unsafe { Consumer::<u64>::join(exposed.part(0, RING_LEN)).unwrap() };
        let (mut out, mut refused) = (BTreeSet::new(), 0);
        for (lends, batch) in batches {
            let lent = lender.lend(lends, |bytes, _| { bytes.fill(1); (bytes.len(), false) });
            prop_assert_eq!(lent, lends.min(SHAPE.slots as usize - out.len()));
            lender.flush();
            for descriptor in taken.drain(usize::MAX) {
                let slot = descriptor as u32;
                prop_assert!(slot < SHAPE.slots && out.insert(slot), "slot {slot} is lent twice");
            }
            prop_assert_eq!(hostile.push_slice(&batch), batch.len());
            hostile.publish();
            let good = batch.iter().filter(|given| len(**given) <= 100 && out.remove(&(**given as u32))).count();
            refused += (batch.len() - good) as u64;
            let came = lender.collect(usize::MAX, |bytes, _| assert!(bytes.len() <= 100));
            prop_assert_eq!((came, lender.refused()), (good, refused));
        }
        prop_assert_eq!(lender.free(usize::MAX), SHAPE.slots as usize - out.len());
        prop_assert_eq!(lender.corrupt(), None);
    }
}

/// The length that a descriptor tells of.
fn len(descriptor: u64) -> u64 {
    descriptor << 1 >> 33
}

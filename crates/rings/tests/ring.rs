//! What a ring promises: every value once, in order, whatever the other side's indices say.

#![cfg(not(loom))]
#![allow(unsafe_code, reason = "a ring in shared memory is joined by its address")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each uses memory that a `Shared` owns, as each half once"
)]

mod common;

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;
use rings::ring::{MAX_CAPACITY, bytes_for, format, ring};
use rings::{Consumer, Full, Producer, RingError};

use common::Shared;

const CASES: u32 = if cfg!(miri) { 4 } else { 256 };
const VALUES: u64 = if cfg!(miri) { 500 } else { 1_000_000 };

const TAIL: usize = 128;
const HEAD: usize = 256;

fn with_ring(capacity: u32) -> Shared {
    let shared = Shared::new(bytes_for::<u64>(capacity).unwrap());
    unsafe { format::<u64>(shared.region(), capacity).unwrap() };
    shared
}

/// Writes a word as a hostile process would.
fn poke(shared: &Shared, offset: usize, word: u32) {
    unsafe { shared.part(offset, 4).cast::<u32>().write_volatile(word) };
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    PushSlice(u8),
    Publish,
    Pop(u8),
    Drain(u8),
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(|n| Step::Push(n % 8)),
        any::<u8>().prop_map(|n| Step::PushSlice(n % 40)),
        Just(Step::Publish),
        any::<u8>().prop_map(|n| Step::Pop(n % 8)),
        any::<u8>().prop_map(|n| Step::Drain(n % 40)),
        Just(Step::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three queues tell where each value is: pushed, published, popped but not released.
    #[test]
    fn a_ring_is_a_bounded_queue(
        log_capacity in 0u32..6,
        start in prop_oneof![Just(0u32), Just(u32::MAX - 20), any::<u32>()],
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let capacity = 1u32 << log_capacity;
        let shared = with_ring(capacity);
        poke(&shared, TAIL, start);
        poke(&shared, HEAD, start);
        let mut producer = unsafe { Producer::<u64>::join(shared.region()).unwrap() };
        let mut consumer = unsafe { Consumer::<u64>::join(shared.region()).unwrap() };

        let (mut hidden, mut visible, mut popped) = (VecDeque::new(), VecDeque::new(), 0);
        let mut next = 0u64;
        for step in steps {
            let free = capacity as usize - hidden.len() - visible.len() - popped;
            match step {
                Step::Push(count) => for already in 0..usize::from(count) {
                    let expected = if already < free { hidden.push_back(next); Ok(()) } else { Err(Full(next)) };
                    prop_assert_eq!(producer.push(next), expected);
                    next += 1;
                },
                Step::PushSlice(count) => {
                    let values: Vec<u64> = (next..next + u64::from(count)).collect();
                    let taken = producer.push_slice(&values);
                    prop_assert_eq!(taken, free.min(values.len()));
                    hidden.extend(&values[..taken]);
                    next += u64::from(count);
                }
                Step::Publish => {
                    producer.publish();
                    visible.append(&mut hidden);
                }
                Step::Pop(count) => for _ in 0..count {
                    let expected = visible.pop_front();
                    popped += usize::from(expected.is_some());
                    prop_assert_eq!(consumer.pop(), expected);
                },
                Step::Drain(most) => {
                    let count = visible.len().min(most.into());
                    let expected: Vec<u64> = visible.drain(..count).collect();
                    prop_assert_eq!(consumer.drain(most.into()).collect::<Vec<_>>(), expected);
                    popped = 0;
                }
                Step::Release => {
                    consumer.release();
                    popped = 0;
                }
            }
            prop_assert_eq!(consumer.ready(1) as usize, visible.len().min(1));
        }
        prop_assert_eq!(producer.corrupt(), None);
        prop_assert_eq!(consumer.corrupt(), None);
    }

    #[test]
    fn a_hostile_producer_index_is_believed_only_if_it_could_be(
        ours in any::<u32>(), pending in 0u32..9, found in any::<u32>(), near in any::<bool>(),
    ) {
        let found = if near { ours.wrapping_add(found % 24).wrapping_sub(12) } else { found };
        let shared = with_ring(8);
        poke(&shared, HEAD, ours);
        poke(&shared, TAIL, ours.wrapping_add(pending));
        let mut consumer = unsafe { Consumer::<u64>::join(shared.region()).unwrap() };
        poke(&shared, TAIL, found);

        let ready = consumer.ready(u32::MAX);
        let possible = (pending..=8).contains(&found.wrapping_sub(ours));
        prop_assert_eq!(consumer.corrupt().is_none(), possible);
        prop_assert_eq!(ready, if possible { found.wrapping_sub(ours) } else { 0 });
        prop_assert!(std::iter::from_fn(|| consumer.pop()).count() <= 8);
        poke(&shared, TAIL, ours.wrapping_add(8));
        prop_assert!(possible || consumer.pop().is_none(), "a corrupt ring stays empty");
    }

    #[test]
    fn a_hostile_consumer_index_is_believed_only_if_it_could_be(
        ours in any::<u32>(), used in 0u32..9, found in any::<u32>(), near in any::<bool>(),
    ) {
        let found = if near { ours.wrapping_add(found % 24).wrapping_sub(12) } else { found };
        let shared = with_ring(8);
        poke(&shared, TAIL, ours);
        poke(&shared, HEAD, ours.wrapping_sub(used));
        let mut producer = unsafe { Producer::<u64>::join(shared.region()).unwrap() };
        poke(&shared, HEAD, found);

        let room = producer.room(u32::MAX);
        let possible = ours.wrapping_sub(found) <= used;
        prop_assert_eq!(producer.corrupt().is_none(), possible);
        prop_assert_eq!(room, if possible { 8 - ours.wrapping_sub(found) } else { 0 });
        prop_assert!((0..20).filter(|value| producer.push(*value).is_ok()).count() <= 8);
        poke(&shared, HEAD, ours);
        prop_assert!(possible || producer.push(0).is_err(), "a corrupt ring stays full");
    }
}

#[test]
fn values_cross_threads_once_and_in_order() {
    let (mut producer, mut consumer) = ring(64).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < VALUES {
                let end = VALUES.min(next + 1 + next % 50);
                let batch: Vec<u64> = (next..end).collect();
                let taken = producer.push_slice(&batch);
                producer.publish();
                next += taken as u64;
                if taken == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < VALUES {
            let before = next;
            for value in consumer.drain(1 + next as usize % 37) {
                assert_eq!(value, next);
                next += 1;
            }
            if next == before {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn an_impossible_capacity_is_named() {
    for capacity in [0, 3, 1000, MAX_CAPACITY + 1, 1 << 31] {
        assert_eq!(ring::<u64>(capacity).err(), Some(RingError::Capacity(capacity)));
    }
}

#[test]
fn memory_that_does_not_do_is_named() {
    let needed = bytes_for::<u64>(8).unwrap();
    let shared = Shared::new(needed + 256);
    let part = |first, len| shared.part(first, len);
    unsafe {
        assert_eq!(format::<u64>(part(0, needed - 1), 8), Err(RingError::Region { len: needed - 1, needed }));
        assert!(matches!(format::<u64>(part(64, needed), 8), Err(RingError::Alignment { .. })));
        assert_eq!(Producer::<u64>::join(part(0, needed)).err(), Some(RingError::Magic { found: 0 }));
        format::<u64>(part(0, needed), 8).unwrap();
        assert_eq!(
            Consumer::<u32>::join(shared.region()).err(),
            Some(RingError::EntrySize { found: 8, wanted: 4 })
        );
        assert!(matches!(Consumer::<u64>::join(part(0, needed - 1)), Err(RingError::Region { .. })));
        poke(&shared, HEAD, 1);
        assert!(matches!(Consumer::<u64>::join(shared.region()), Err(RingError::Corrupt(_))));
        assert!(matches!(Producer::<u64>::join(shared.region()), Err(RingError::Corrupt(_))));
        poke(&shared, 12, 1 << 20);
        assert!(matches!(Producer::<u64>::join(shared.region()), Err(RingError::Region { .. })));
        poke(&shared, 8, 7);
        assert_eq!(Producer::<u64>::join(shared.region()).err(), Some(RingError::Version { found: 7 }));
    }
}

#[test]
fn a_wake_up_is_asked_for_once_and_only_when_somebody_sleeps() {
    let (mut producer, mut consumer) = ring(4).unwrap();
    assert!(!producer.must_wake());
    assert!(consumer.may_sleep());
    producer.push(1u64).unwrap();
    producer.publish();
    assert!(producer.must_wake());
    assert!(!producer.must_wake());
    assert!(!consumer.may_sleep(), "something has arrived");
    assert!(!producer.must_wake(), "so nobody sleeps");
}

//! The hand-over and the bell under every order that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p rings --release --test loom`

#![cfg(loom)]

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use rings::Bell;
use rings::loan::{Shape, loan};
use rings::ring::ring;

#[test]
fn every_value_arrives_once_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2).unwrap();
        let sender = thread::spawn(move || {
            let mut next = 0u32;
            while next < 3 {
                let batch: Vec<u32> = (next..3).collect();
                let taken = producer.push_slice(&batch) as u32;
                producer.publish();
                next += taken;
                if taken == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < 3 {
            let before = next;
            for value in consumer.drain(2) {
                assert_eq!(value, next);
                next += 1;
            }
            if next == before {
                thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(), None);
    });
}

#[test]
fn a_slot_has_one_user_at_a_time() {
    loom::model(|| {
        let (mut lender, mut borrower) = loan(Shape { slots: 1, slot_size: 1 }).unwrap();
        let switch = thread::spawn(move || {
            let mut seen = 0;
            while seen < 2 {
                let mut slots = Vec::new();
                borrower.accept(1, |slot, bytes, _| {
                    seen += 1;
                    assert_eq!(bytes, [seen]);
                    slots.push(slot);
                    true
                });
                if slots.is_empty() {
                    thread::yield_now();
                }
                for slot in slots {
                    borrower.give_back(slot);
                }
                borrower.flush();
            }
            assert_eq!(borrower.refused(), 0);
        });
        let mut sent = 0;
        while sent < 2 {
            lender.collect(1, |_, _| ());
            let lent = lender.lend(1, |bytes, _| {
                sent += 1;
                bytes[0] = sent;
                (1, false)
            });
            lender.flush();
            if lent == 0 {
                thread::yield_now();
            }
        }
        switch.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2).unwrap();
        let doorbell = Arc::new(Notify::new());
        let ringer = doorbell.clone();
        let sender = thread::spawn(move || {
            for value in 0..2u32 {
                producer.push(value).unwrap();
                producer.publish();
                if producer.must_wake() {
                    ringer.notify();
                }
            }
        });
        let mut next = 0;
        while next < 2 {
            if consumer.may_sleep() {
                doorbell.wait();
                consumer.awake();
            }
            for value in consumer.drain(2) {
                assert_eq!(value, next);
                next += 1;
            }
        }
        sender.join().unwrap();
    });
}

/// A sleeper that does not look again, and a waker without its fence: loom finds the sleep that nobody ends.
mod controls {
    use super::*;

    #[test]
    fn the_model_holds_with_both() {
        sleep_and_wake(Look::Again, Bell::must_wake);
    }

    #[test]
    #[should_panic = "deadlock"]
    fn a_sleeper_that_does_not_look_again_sleeps_for_ever() {
        sleep_and_wake(Look::Never, Bell::must_wake);
    }

    #[test]
    #[should_panic = "deadlock"]
    fn a_waker_without_a_fence_lets_it_sleep_for_ever() {
        loom::model(|| {
            let (work, flag) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let doorbell = Arc::new(Notify::new());
            let (others_work, others_flag, ringer) = (work.clone(), flag.clone(), doorbell.clone());
            let sender = thread::spawn(move || {
                others_work.store(1, Ordering::Release);
                if others_flag.load(Ordering::Relaxed) == 1 {
                    ringer.notify();
                }
            });
            flag.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if work.load(Ordering::Acquire) == 0 {
                doorbell.wait();
            }
            sender.join().unwrap();
        });
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Look {
        Again,
        Never,
    }

    fn sleep_and_wake(look: Look, must_wake: fn(&Bell) -> bool) {
        loom::model(move || {
            let (work, bell) = (Arc::new(AtomicU32::new(0)), Arc::new(Bell::new()));
            let doorbell = Arc::new(Notify::new());
            let (others_work, others_bell, ringer) = (work.clone(), bell.clone(), doorbell.clone());
            let sender = thread::spawn(move || {
                others_work.store(1, Ordering::Release);
                if must_wake(&others_bell) {
                    ringer.notify();
                }
            });
            if work.load(Ordering::Acquire) == 0 {
                bell.announce();
                if look == Look::Never || work.load(Ordering::Acquire) == 0 {
                    doorbell.wait();
                }
                bell.withdraw();
            }
            sender.join().unwrap();
        });
    }
}

//! How far two cores are apart: how long a cache line takes from one to the other and back.
//!
//! ```text
//!   asker   ── number ──▶ answerer      one line each way, written by one core and read by the other
//!           ◀── number ──
//! ```
//!
//! A hypervisor moves virtual cores between caches, within minutes, and whatever two cores hand to
//! each other follows.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::clock::Clock;
use crate::stats::median;

/// Round trips of one try: few, so that most tries have both cores for themselves even if others
/// want them.
const TRIPS: u32 = 50;

/// The median of so many tries counts.
const TRIES: u32 = 201;

/// A number on a line of its own; two lines, as some processors fetch them in pairs.
#[repr(align(128))]
struct Line(AtomicU32);

/// What stands there of a thread that may not use its core.
const AWAY: u32 = u32::MAX;

/// A line's round trip between two cores, in nanoseconds; `None` if we may not use both.
pub fn round_trip_ns(clock: Clock, cores: [usize; 2]) -> Option<f64> {
    if cores[0] == cores[1] {
        return None;
    }
    let [there, back] = [(); 2].map(|()| Line(AtomicU32::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| answer(&there, &back, cores[0]));
        scope.spawn(|| ask(clock, &there, &back, cores[1])).join().expect("it does not panic")
    })
}

/// Sends each number back.
fn answer(there: &Line, back: &Line, core: usize) {
    if !keep_to(core) {
        back.0.store(AWAY, Release);
        return;
    }
    for number in 1..=TRIES * TRIPS {
        if !there.awaits(number) {
            return;
        }
        back.0.store(number, Release);
    }
}

/// Sends numbers, and times how long they are away.
fn ask(clock: Clock, there: &Line, back: &Line, core: usize) -> Option<f64> {
    if !keep_to(core) {
        there.0.store(AWAY, Release);
        return None;
    }
    let mut tries = Vec::new();
    for first in (0..TRIES).map(|done| done * TRIPS) {
        let began = Clock::now();
        for number in first + 1..=first + TRIPS {
            there.0.store(number, Release);
            if !back.awaits(number) {
                return None;
            }
        }
        tries.push(clock.seconds(Clock::now() - began) * 1e9 / f64::from(TRIPS));
    }
    median(tries.into_iter())
}

impl Line {
    /// Waits for a number, without a pause, which would be measured as well. Whether it comes.
    #[inline]
    fn awaits(&self, number: u32) -> bool {
        loop {
            match self.0.load(Acquire) {
                AWAY => return false,
                seen if seen == number => return true,
                _ => {}
            }
        }
    }
}

/// Keeps the calling thread on a core. Whether that is allowed.
fn keep_to(core: usize) -> bool {
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_its_time_between_two_cores_that_are_there() {
        let clock = Clock::calibrate();
        let nowhere = CpuSet::MAX_CPU - 1;
        assert_eq!(round_trip_ns(clock, [0, 0]), None);
        assert_eq!(round_trip_ns(clock, [0, nowhere]), None);
        assert_eq!(round_trip_ns(clock, [nowhere, 0]), None);
        if let Some(ns) = round_trip_ns(clock, [0, 1]) {
            assert!((5.0..1e6).contains(&ns), "{ns} ns");
        }
    }
}

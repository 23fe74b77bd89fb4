//! The other side of a split ring: a driver whose buffers are all alike, for traffic generators and
//! tests.
//!
//! Each descriptor has one buffer of its own, of one size, so nothing is ever allocated: a buffer
//! is sent, or posted to be filled, by its number.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use wire::Offload;

use super::numbers::Numbers;
use super::{Descriptor, Parts};
use port::{Span, stream};

const ENTRIES: usize = 4;

/// How many used entries a line has.
const A_LINE: usize = 8;

/// How far ahead of the buffer that goes round the processor fetches.
const FETCH: u16 = 16;

/// A split ring's driver side.
#[derive(Debug)]
pub struct Driver {
    parts: Parts,
    mask: u16,
    buffers: Box<[Span]>,
    /// Buffers that are ours.
    free: Vec<u16>,
    available: u16,
    told: u16,
    used: u16,
    /// Whether we look at the used ring by ourselves.
    polls: bool,
}

impl Driver {
    /// A new ring of as many descriptors as there are buffers, a power of two; `writable`: of those
    /// that the device writes. `address` is the guest's of the first; the others follow it in
    /// memory as in addresses.
    pub fn new(parts: Parts, buffers: Span, count: u16, address: u64, writable: bool) -> Self {
        let size = buffers.len() / usize::from(count);
        let mut rest = buffers;
        let each = (0..count).map(|number| {
            let (buffer, behind) = rest.split(size);
            rest = behind;
            let place = 16 * usize::from(number);
            let flags = if writable { Descriptor::WRITE } else { 0 };
            parts.descriptors.u64(place).store(address + u64::from(number) * size as u64, Relaxed);
            parts.descriptors.u64(place + 8).store(size as u64 | u64::from(flags) << 32, Relaxed);
            buffer
        });
        let buffers = each.collect();
        parts.driver.u32(0).store(0, Relaxed);
        parts.device.u32(0).store(0, Relaxed);
        let mut driver = Self {
            parts,
            mask: count - 1,
            buffers,
            free: (0..count).rev().collect(),
            available: 0,
            told: 0,
            used: 0,
            polls: false,
        };
        driver.poll(true);
        driver
    }

    /// Whether the device need not interrupt us.
    pub fn poll(&mut self, polls: bool) {
        self.polls = polls;
        self.parts.driver.u16(0).store(polls.into(), Relaxed);
        fence(SeqCst);
    }

    /// A buffer that is ours, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// Has those that are ours taken in the order in which they lie in memory, whatever happened
    /// before.
    pub fn sort(&mut self) {
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// How many are ours.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many there are.
    pub fn places(&self) -> u16 {
        self.mask + 1
    }

    /// How many the device has.
    pub fn lent(&self) -> usize {
        self.available.wrapping_sub(self.parts.device.u16(2).load(Acquire)).into()
    }

    /// A buffer's bytes.
    #[inline]
    pub fn buffer(&self, number: u16) -> Span {
        self.buffers[usize::from(number)]
    }

    /// Makes a buffer available; of one that the device reads, its first `len` bytes.
    #[inline]
    pub fn give(&mut self, number: u16, len: Option<u32>) {
        if let Some(len) = len {
            self.parts.descriptors.u32(16 * usize::from(number) + 8).store(len, Relaxed);
        }
        let place = self.available & self.mask;
        let entry = self.parts.driver.u16(ENTRIES + 2 * usize::from(place));
        // What stands there from the last round stays in the device's cache.
        if entry.load(Relaxed) != number {
            entry.store(number, Relaxed);
        }
        self.available = self.available.wrapping_add(1);
    }

    /// Makes at most `most` buffers that the device is done with available again, in the order in
    /// which it is. `fill` is told of each: its number, and how many bytes were written to it.
    /// Returns how many. A buffer that goes round so is never ours: until its next turn it waits in
    /// the used ring.
    #[inline]
    pub fn again(&mut self, most: usize, mut fill: impl FnMut(&Self, u16, u32)) -> usize {
        let ready = self.parts.device.u16(2).load(Acquire).wrapping_sub(self.used);
        let ready = ready.min(u16::try_from(most).unwrap_or(u16::MAX));
        (0..ready).step_by(A_LINE).for_each(|ahead| self.fetch_entry(ahead));
        (0..FETCH.min(ready)).for_each(|ahead| self.fetch(ahead));
        for left in (0..ready).rev() {
            if left >= FETCH {
                self.fetch(FETCH);
            }
            let (number, len) = self.entry(0);
            self.used = self.used.wrapping_add(1);
            fill(self, number, len);
            self.give(number, None);
        }
        ready.into()
    }

    /// The used entry that is so far ahead of the next one.
    #[inline]
    fn entry(&self, ahead: u16) -> (u16, u32) {
        let place = ENTRIES + 8 * usize::from(self.used.wrapping_add(ahead) & self.mask);
        let number = self.parts.device.u32(place).load(Relaxed) as u16 & self.mask;
        (number, self.parts.device.u32(place + 4).load(Relaxed))
    }

    /// Has the processor fetch the used entry that is so far ahead of the next one.
    #[inline]
    fn fetch_entry(&self, ahead: u16) {
        let place = ENTRIES + 8 * usize::from(self.used.wrapping_add(ahead) & self.mask);
        self.parts.device.split(place).1.fetch();
    }

    /// Has the processor fetch where the frame begins of a buffer that was used.
    #[inline]
    fn fetch(&self, ahead: u16) {
        self.buffer(self.entry(ahead).0).split(Offload::LEN).1.fetch();
    }

    /// Shows the device what was made available. Whether it wants to be notified.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.told == self.available {
            return false;
        }
        self.told = self.available;
        // What lies in the buffers is seen before the ring says so.
        stream::settle();
        self.parts.driver.u16(2).store(self.available, Release);
        fence(SeqCst);
        self.parts.device.u16(0).load(Relaxed) == 0
    }

    /// Takes back what the device has used: each buffer's number and how many bytes were written to
    /// it.
    #[inline]
    pub fn collect(&mut self, mut used: impl FnMut(&Self, u16, u32)) -> usize {
        let seen = self.parts.device.u16(2).load(Acquire);
        let count = seen.wrapping_sub(self.used);
        for _ in 0..count {
            let (number, len) = self.entry(0);
            self.used = self.used.wrapping_add(1);
            used(self, number, len);
            self.free.push(number);
        }
        count.into()
    }
}

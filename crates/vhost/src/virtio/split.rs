//! The split ring (VIRTIO 1.2 §2.7), from the device's side.
//!
//! ```text
//!   descriptors   │ address, length, flags, next │ …            the driver writes
//!   available     │ flags │ index │ head │ head │ … │ event │  the driver writes
//!   used          │ flags │ index │ id, length │ …  │ event │  we write
//! ```
//!
//! An index counts without end, modulo 2^16; its place in a ring is what is left of it modulo the
//! ring's size.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};

use super::numbers::{Entries, Numbers};
use super::{Corrupt, Descriptor, Parts};
use port::BURST;

/// VIRTQ_AVAIL_F_NO_INTERRUPT and VIRTQ_USED_F_NO_NOTIFY.
const SILENT: u16 = 1;

/// Where the two rings begin behind their flags and index.
const ENTRIES: usize = 4;

/// A descriptor, by its two words (§2.7.5).
#[inline]
pub(super) fn entry(address: u64, rest: u64) -> Descriptor {
    let [len, flags, next] = [rest, rest >> 32, rest >> 48];
    Descriptor { address, len: len as u32, flags: flags as u16, next: next as u16 }
}

/// A split ring's device side.
#[derive(Debug)]
pub struct Split {
    parts: Parts,
    /// Each an address, and then length, flags and who comes next.
    descriptors: Entries<[AtomicU64; 2]>,
    /// Heads.
    available: Entries<AtomicU16>,
    /// Heads and lengths.
    given: Entries<[AtomicU32; 2]>,
    /// Size less one: sizes are powers of two.
    mask: u16,
    /// EVENT_IDX was negotiated.
    events: bool,
    /// The index of the next available entry that is not taken, and the driver's index as last
    /// read.
    next: u16,
    seen: u16,
    /// The index of the next used entry, and that which the driver knows.
    used: u16,
    told: u16,
    /// Whether the driver may think that we want to be notified.
    wanted: bool,
}

impl Split {
    /// A ring of which nothing is taken that was not given back: where it stands, its used index
    /// says.
    ///
    /// A front-end says so too (SET_VRING_BASE), but after a back-end was lost, DPDK's says 0, and
    /// QEMU's what it reads from the same index. DPDK's own back-end goes by the index as well.
    ///
    /// `parts` are descriptors, available and used ring of `size`, a power of two, each as long and
    /// as aligned as the specification has it.
    pub fn new(parts: Parts, size: u16, events: bool) -> Self {
        let used = parts.device.u16(2).load(Relaxed);
        let mut ring = Self {
            descriptors: Entries::new(parts.descriptors, 0, size),
            available: Entries::new(parts.driver, ENTRIES, size),
            given: Entries::new(parts.device, ENTRIES, size),
            parts,
            mask: size - 1,
            events,
            next: used,
            seen: used,
            used,
            told: used,
            wanted: true,
        };
        ring.be_silent();
        ring
    }

    /// How many descriptors it has.
    pub fn size(&self) -> u16 {
        self.mask + 1
    }

    /// The index of the next used entry.
    pub fn used(&self) -> u16 {
        self.used
    }

    /// How many heads may be taken now.
    #[inline(always)]
    pub fn available(&mut self) -> Result<u16, Corrupt> {
        if self.seen == self.next {
            self.see()?;
        }
        Ok(self.seen.wrapping_sub(self.next))
    }

    /// Reads the driver's index, and has the processor fetch all the lines that so many heads lie
    /// in at once.
    #[inline(never)]
    fn see(&mut self) -> Result<(), Corrupt> {
        self.seen = self.parts.driver.u16(2).load(Acquire);
        let count = self.seen.wrapping_sub(self.next);
        if count > self.size() {
            return Err(Corrupt::Index { index: self.seen, next: self.next, size: self.size() });
        }
        self.available.fetch(self.next, count.min(BURST as u16));
        Ok(())
    }

    /// The next head. There must be one available.
    #[inline(always)]
    pub fn head(&self) -> Result<u16, Corrupt> {
        let head = self.available.at(self.next).load(Relaxed);
        if head > self.mask {
            return Err(Corrupt::Head { head, size: self.size() });
        }
        Ok(head)
    }

    /// So many heads were taken by whoever was here before, and are not given back.
    pub fn skip(&mut self, count: u16) {
        self.next = self.next.wrapping_add(count);
        self.seen = self.next;
    }

    /// How many heads the driver has made available that are not used; `None` if that are more than
    /// the ring has.
    pub fn unused(&self) -> Option<u16> {
        let unused = self.parts.driver.u16(2).load(Acquire).wrapping_sub(self.used);
        (unused <= self.size()).then_some(unused)
    }

    /// Takes so many heads.
    #[inline(always)]
    pub fn take(&mut self, count: u16) {
        self.next = self.next.wrapping_add(count);
    }

    /// Puts back the heads taken last.
    pub fn untake(&mut self, count: u16) {
        self.next = self.next.wrapping_sub(count);
        self.seen = self.next;
    }

    /// A descriptor of the table.
    #[inline(always)]
    pub fn descriptor(&self, index: u16) -> Descriptor {
        let [address, rest] = self.descriptors.at(index);
        entry(u64::from_le(address.load(Relaxed)), u64::from_le(rest.load(Relaxed)))
    }

    /// Gives a chain back, of whose buffers `len` bytes were written. The driver does not see it
    /// yet.
    #[inline(always)]
    pub fn give_back(&mut self, head: u16, len: u32) {
        let [place, written] = self.given.at(self.used);
        // A driver that takes its buffers in order has the same entries round after round. What
        // stands there already is not written: the line stays in the driver's cache.
        if place.load(Relaxed) != u32::from(head) || written.load(Relaxed) != len {
            place.store(head.into(), Relaxed);
            written.store(len, Relaxed);
        }
        self.used = self.used.wrapping_add(1);
    }

    /// Shows the driver what was given back. Whether it wants to be interrupted for it.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let told = std::mem::replace(&mut self.told, self.used);
        if told == self.used {
            return false;
        }
        // Both lines are the driver's at the moment, and it takes as long to get both as to get
        // one.
        self.parts.device.fetch_to_write(1);
        self.parts.driver.split(if self.events { self.available_end() } else { 0 }).1.fetch();
        self.parts.device.u16(2).store(self.used, Release);
        // §2.7.13.4.1: the index must be visible before the driver's wish is read, or both may miss
        // each other.
        fence(SeqCst);
        if !self.events {
            return self.parts.driver.u16(0).load(Relaxed) & SILENT == 0;
        }
        // §2.7.7.2: the driver wants it when the entry with this index is used.
        let event = self.parts.driver.u16(self.available_end()).load(Relaxed);
        self.used.wrapping_sub(event).wrapping_sub(1) < self.used.wrapping_sub(told)
    }

    /// Asks the driver to notify us of the next available entry. Whether there is one already, of
    /// which it may not.
    pub fn wait(&mut self) -> Result<bool, Corrupt> {
        if self.events {
            self.wish_for(self.next);
        } else {
            self.parts.device.u16(0).store(0, Relaxed);
        }
        self.wanted = true;
        // §2.7.10.1: the wish must be visible before the index is read.
        fence(SeqCst);
        Ok(self.available()? > 0)
    }

    /// Tells the driver that we look by ourselves. Whether it had to be told.
    #[inline(always)]
    pub fn be_silent(&mut self) -> bool {
        // With EVENT_IDX the wish is for one entry, and lies behind us once that is taken.
        let tells = std::mem::take(&mut self.wanted) && !self.events;
        if tells {
            self.parts.device.u16(0).store(SILENT, Relaxed);
        }
        tells
    }

    /// Tells the driver not to notify anybody until somebody asks it to.
    pub fn leave(&mut self) {
        if self.events {
            // §2.7.7.2: it notifies when it passes this entry. It has, even with what it is about
            // to tell of: at most a ring.
            self.wish_for(self.next.wrapping_sub(self.size() + 1));
        } else {
            self.be_silent();
        }
    }

    fn wish_for(&self, index: u16) {
        self.parts.device.u16(ENTRIES + 8 * usize::from(self.size())).store(index, Relaxed);
    }

    /// What of the used ring was written, and is not shown yet: place and length of each run of
    /// bytes.
    pub fn unshown(&self) -> [(usize, usize); 3] {
        let count = usize::from(self.used.wrapping_sub(self.told));
        let first = usize::from(self.told & self.mask);
        let before_end = count.min(usize::from(self.size()) - first);
        let behind = if count > 0 { 2 } else { 0 };
        [(2, behind), (ENTRIES + 8 * first, 8 * before_end), (ENTRIES, 8 * (count - before_end))]
    }

    /// Where in the used ring it says what we want to be told of, and how long that is.
    pub fn wish(&self) -> (usize, usize) {
        (if self.events { ENTRIES + 8 * usize::from(self.size()) } else { 0 }, 2)
    }

    /// Where the available ring's entries end: there lies the used event.
    fn available_end(&self) -> usize {
        ENTRIES + 2 * usize::from(self.size())
    }
}

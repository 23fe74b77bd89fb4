//! The packed ring (VIRTIO 1.2 §2.8), from the device's side.
//!
//! ```text
//!   descriptors      │ address, length, id, flags │ …     the driver makes some available; we write used ones over them
//!   driver's events  │ place, flags │                     when it wants to be interrupted
//!   device's events  │ place, flags │                     when we want to be notified
//! ```
//!
//! Each side goes round the ring with a wrap counter, a bit that turns with each round. A descriptor is available when
//! its AVAIL bit is the driver's counter and its USED bit is not (§2.8.1).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use super::{Corrupt, Descriptor, Parts};

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// RING_EVENT_FLAGS_ENABLE, _DISABLE and _DESC (§2.8.10).
const ENABLE: u16 = 0;
const DISABLE: u16 = 1;
const AT_PLACE: u16 = 2;

/// A descriptor and its buffer's id, by its two words (§2.8.13).
#[inline]
pub(super) fn entry(address: u64, rest: u64) -> (Descriptor, u16) {
    let [len, id, flags] = [rest, rest >> 32, rest >> 48];
    (Descriptor { address, len: len as u32, flags: flags as u16, next: 0 }, id as u16)
}

/// A place in the ring and the wrap counter there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn {
    /// Less than the ring's size.
    pub index: u16,
    /// The counter.
    pub wrap: bool,
}

impl Turn {
    /// So many descriptors further.
    #[inline]
    fn after(self, count: u16, size: u16) -> Self {
        let index = self.index + count;
        if index >= size { Self { index: index - size, wrap: !self.wrap } } else { Self { index, ..self } }
    }

    /// So many back.
    fn before(self, count: u16, size: u16) -> Self {
        match self.index.checked_sub(count) {
            Some(index) => Self { index, ..self },
            None => Self { index: self.index + size - count, wrap: !self.wrap },
        }
    }

    fn word(self) -> u16 {
        self.index | u16::from(self.wrap) << 15
    }
}

/// A packed ring's device side.
#[derive(Debug)]
pub struct Packed {
    parts: Parts,
    size: u16,
    /// EVENT_IDX was negotiated.
    events: bool,
    next: Turn,
    used: Turn,
    /// What was used and the driver was not asked about yet, in descriptors.
    fresh: u16,
    wanted: bool,
}

impl Packed {
    /// A ring that stands at these places.
    ///
    /// `parts` are descriptors, driver's and device's event structures, each as long and as aligned as the
    /// specification has it for `size` descriptors, at most 2^15; both places are in it.
    pub fn new(parts: Parts, size: u16, events: bool, next: Turn, used: Turn) -> Self {
        let mut ring = Self { parts, size, events, next, used, fresh: 0, wanted: true };
        ring.be_silent();
        ring
    }

    /// How many descriptors it has.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Where the next available descriptor is, and the next used one.
    pub fn turns(&self) -> [Turn; 2] {
        [self.next, self.used]
    }

    /// Whether the next descriptor is available.
    #[inline]
    pub fn is_available(&self) -> bool {
        let flags =
            (self.parts.descriptors.u64(16 * usize::from(self.next.index) + 8).load(Acquire) >> 48) as u16;
        (flags & AVAIL != 0) == self.next.wrap && (flags & USED != 0) != self.next.wrap
    }

    /// The descriptor that is `ahead` of the next one, and the buffer's id there. What comes behind the first of a
    /// chain is available if that is.
    #[inline]
    pub fn descriptor(&self, ahead: u16) -> (Descriptor, u16) {
        let place = 16 * usize::from(self.next.after(ahead, self.size).index);
        let words = [0, 8].map(|word| self.parts.descriptors.u64(place + word).load(Relaxed));
        entry(u64::from_le(words[0]), u64::from_le(words[1]))
    }

    /// Takes so many descriptors.
    #[inline]
    pub fn take(&mut self, count: u16) {
        self.next = self.next.after(count, self.size);
    }

    /// Puts back the descriptors taken last.
    pub fn untake(&mut self, count: u16) {
        self.next = self.next.before(count, self.size);
    }

    /// Gives a buffer back that took `count` descriptors, and of which `len` bytes were written.
    #[inline]
    pub fn give_back(&mut self, id: u16, count: u16, len: u32) {
        let place = 16 * usize::from(self.used.index) + 8;
        let flags = if self.used.wrap { AVAIL | USED } else { 0 };
        let word = u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48;
        // Length, id and flags in one: whoever sees the flags sees what they are of, and what is in the buffer.
        self.parts.descriptors.u64(place).store(word, Release);
        self.used = self.used.after(count, self.size);
        self.fresh = self.fresh.saturating_add(count);
    }

    /// Whether the driver wants to be interrupted for what was given back since the last time.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh == 0 {
            return false;
        }
        // What is used must be visible before the driver's wish is read, or both may miss each other.
        fence(SeqCst);
        let wish = self.parts.driver.u32(0).load(Relaxed);
        match (wish >> 16) as u16 {
            ENABLE => true,
            // §2.8.10: the place is that of a descriptor; it is among the `fresh` last ones, or not.
            AT_PLACE if self.events => {
                let event = Turn { index: wish as u16 & 0x7fff, wrap: wish & 0x8000 != 0 };
                let mut back = i32::from(self.used.index) - i32::from(event.index);
                if self.used.wrap != event.wrap {
                    back += i32::from(self.size);
                }
                (1..=i32::from(fresh)).contains(&back)
            }
            _ => false,
        }
    }

    /// Asks the driver to notify us of the next available descriptor. Whether there is one already.
    pub fn wait(&mut self) -> bool {
        let flags = if self.events { AT_PLACE } else { ENABLE };
        self.parts.device.u32(0).store(u32::from(self.next.word()) | u32::from(flags) << 16, Relaxed);
        self.wanted = true;
        // The wish must be visible before the descriptor is read.
        fence(SeqCst);
        self.is_available()
    }

    /// Tells the driver that we look by ourselves.
    #[inline]
    pub fn be_silent(&mut self) {
        if std::mem::take(&mut self.wanted) {
            self.parts.device.u32(0).store(u32::from(DISABLE) << 16, Relaxed);
        }
    }

    /// Whether an index and a count can be of this ring.
    pub fn check(&self, id: u16) -> Result<(), Corrupt> {
        if id >= self.size { Err(Corrupt::Head { head: id, size: self.size }) } else { Ok(()) }
    }
}

//! The packed ring (VIRTIO 1.2 §2.8), from the device's side.
//!
//! ```text
//!   descriptors      │ address, length, id, flags │ …     the driver makes some available; we write used ones over them
//!   driver's events  │ place, flags │                     when it wants to be interrupted
//!   device's events  │ place, flags │                     when we want to be notified
//! ```
//!
//! Each side goes round the ring with a wrap counter, a bit that turns with each round. A
//! descriptor is available when its AVAIL bit is the driver's counter and its USED bit is not
//! (§2.8.1).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use super::numbers::Numbers;
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
        if index >= size {
            Self { index: index - size, wrap: !self.wrap }
        } else {
            Self { index, ..self }
        }
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
    /// Descriptors that are ours, or given back and not shown to the driver: it cannot have made
    /// them available again.
    ours: u16,
    /// What was used and the driver was not asked about yet, in descriptors.
    fresh: u16,
    /// The first of those: where it goes, and what.
    first: (u16, u64),
    wanted: bool,
    /// Nobody had used the ring before.
    is_new: bool,
}

impl Packed {
    /// A ring that stands at these places.
    ///
    /// `parts` are descriptors, driver's and device's event structures, each as long and as aligned
    /// as the specification has it for `size` descriptors, at most 2^15; both places are in it.
    pub fn new(parts: Parts, size: u16, events: bool, next: Turn, used: Turn) -> Self {
        // What we ask for is never 0.
        let is_new = parts.device.u32(0).load(Relaxed) == 0;
        let mut ring = Self {
            parts,
            size,
            events,
            next,
            used,
            ours: 0,
            fresh: 0,
            first: (0, 0),
            wanted: true,
            is_new,
        };
        ring.be_silent();
        ring
    }

    /// Whether nobody had used the ring before us.
    pub fn is_new(&self) -> bool {
        self.is_new
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
        self.is_available_at(self.next)
    }

    /// Whether the descriptor at this place is available.
    #[inline]
    pub fn is_available_at(&self, place: Turn) -> bool {
        let flags = (self.word(place.index).load(Acquire) >> 48) as u16;
        (flags & AVAIL != 0) == place.wrap && (flags & USED != 0) != place.wrap
    }

    /// A descriptor's second word.
    #[inline(always)]
    fn word(&self, index: u16) -> &AtomicU64 {
        self.parts.descriptors.u64(16 * usize::from(index) + 8)
    }

    /// Whether the driver has made `count` descriptors available from this place on, whatever was
    /// used of them.
    pub fn holds(&self, used: Turn, count: u16) -> bool {
        let mut places = (0..count).map(|ahead| used.after(ahead, self.size));
        places.all(|place| {
            ((self.word(place.index).load(Relaxed) >> 48) as u16 & AVAIL != 0) == place.wrap
        })
    }

    /// From now on the next used descriptor is here, and `taken` are taken from here on.
    ///
    /// Some of those may have been used in a batch whose first was not, so that the driver has not
    /// looked at them. Nor may it when the first one is: they are made available again.
    pub fn stand_at(&mut self, used: Turn, taken: u16) {
        for place in (0..taken).map(|ahead| used.after(ahead, self.size)) {
            let flag = u64::from(USED) << 48;
            let word = self.word(place.index).load(Relaxed);
            let word = if place.wrap { word & !flag } else { word | flag };
            self.word(place.index).store(word, Relaxed);
        }
        (self.used, self.next) = (used, used.after(taken, self.size));
    }

    /// Writes a descriptor, as its driver had, to the place that is `ahead` of the next one.
    pub fn restore(&mut self, ahead: u16, descriptor: Descriptor, id: u16) {
        let Descriptor { address, len, flags, .. } = descriptor;
        let index = self.next.after(ahead, self.size).index;
        self.parts.descriptors.u64(16 * usize::from(index)).store(address, Relaxed);
        self.word(index)
            .store(u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48, Relaxed);
    }

    /// The descriptor that is `ahead` of the next one, and the buffer's id there. What comes behind
    /// the first of a chain is available if that is.
    #[inline]
    pub fn descriptor(&self, ahead: u16) -> (Descriptor, u16) {
        let place = 16 * usize::from(self.next.after(ahead, self.size).index);
        let words = [0, 8].map(|word| self.parts.descriptors.u64(place + word).load(Relaxed));
        entry(u64::from_le(words[0]), u64::from_le(words[1]))
    }

    /// So many descriptors more are ours, in a chain that begins at `head`.
    #[inline]
    pub fn lend(&mut self, head: u16, count: u16) -> Result<(), Corrupt> {
        if count > self.size - self.ours {
            return Err(Corrupt::Lent { head });
        }
        self.ours += count;
        Ok(())
    }

    /// Takes so many descriptors.
    #[inline]
    pub fn take(&mut self, count: u16) {
        self.next = self.next.after(count, self.size);
    }

    /// Puts back the descriptors taken last.
    pub fn untake(&mut self, count: u16) {
        self.ours -= count;
        self.next = self.next.before(count, self.size);
    }

    /// Gives a buffer back that took `count` descriptors, and of which `len` bytes were written.
    /// The driver does not see it yet: it looks at one after the other, and the first is written
    /// last.
    #[inline]
    pub fn give_back(&mut self, id: u16, count: u16, len: u32) {
        let index = self.used.index;
        let flags = if self.used.wrap { AVAIL | USED } else { 0 };
        let word = u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48;
        if self.fresh == 0 {
            self.first = (index, word);
        } else {
            self.word(index).store(word, Relaxed);
        }
        self.used = self.used.after(count, self.size);
        self.fresh += count;
    }

    /// Shows the driver what was given back. Whether it wants to be interrupted for it.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh == 0 {
            return false;
        }
        self.ours -= fresh;
        let (index, word) = self.first;
        // Length, id and flags in one: whoever sees the flags sees what they are of, what is in the
        // buffer, and the rest.
        self.word(index).store(word, Release);
        // What is used must be visible before the driver's wish is read, or both may miss each
        // other.
        fence(SeqCst);
        let wish = self.parts.driver.u32(0).load(Relaxed);
        match (wish >> 16) as u16 {
            ENABLE => true,
            // §2.8.10: the place is that of a descriptor; it is among the `fresh` last ones, or
            // not.
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
        // Where the flags are ENABLE, the place means nothing; but the word is not to be 0.
        let (place, flags) =
            if self.events { (self.next.word(), AT_PLACE) } else { (u16::MAX, ENABLE) };
        self.parts.device.u32(0).store(u32::from(place) | u32::from(flags) << 16, Relaxed);
        self.wanted = true;
        // The wish must be visible before the descriptor is read.
        fence(SeqCst);
        self.is_available()
    }

    /// Tells the driver that we look by ourselves. Whether it had to be told.
    #[inline]
    pub fn be_silent(&mut self) -> bool {
        let tells = std::mem::take(&mut self.wanted);
        if tells {
            self.leave();
        }
        tells
    }

    /// Tells the driver not to notify anybody until somebody asks it to.
    pub fn leave(&mut self) {
        self.parts.device.u32(0).store(u32::from(DISABLE) << 16, Relaxed);
    }

    /// What of the descriptors was written, and is not shown yet: place and length of each run of
    /// bytes. A chain of several is all in it, although only its first was written.
    pub fn unshown(&self) -> [(usize, usize); 2] {
        let count = usize::from(self.fresh);
        let first = usize::from(self.used.before(self.fresh, self.size).index);
        let before_end = count.min(usize::from(self.size) - first);
        [(16 * first, 16 * before_end), (0, 16 * (count - before_end))]
    }

    /// Whether an index and a count can be of this ring.
    pub fn check(&self, id: u16) -> Result<(), Corrupt> {
        if id >= self.size { Err(Corrupt::Head { head: id, size: self.size }) } else { Ok(()) }
    }
}

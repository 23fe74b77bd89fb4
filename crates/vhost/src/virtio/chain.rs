//! A chain of descriptors: one frame's buffers.

use zerocopy::IntoBytes;

use super::memory::GuestMemory;
use super::packed::{self, Packed};
use super::split::{self, Split};
use super::{Corrupt, Descriptor};
use port::Span;

/// How many buffers a frame may lie in. A Linux guest's has its header, a linear part and up to 17
/// pages, or 45 where it was built so.
pub const MAX_BUFFERS: usize = port::MAX_SPANS;

/// One buffer of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Its bytes.
    pub span: Span,
    /// The guest-physical address of its first.
    pub address: u64,
}

/// A chain that was taken from its ring.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What the ring knows it by.
    pub id: u16,
    /// Its buffer, if it has one only, as most have: then it is not worth to write it down.
    pub only: Option<Buffer>,
}

/// Why a chain cannot be used; it is given back as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadChain {
    /// A buffer that does not lie in the guest's memory.
    #[error("a buffer does not lie in the guest's memory")]
    Outside,
    /// A buffer that is to be written where the frame is to be read, or the other way round.
    #[error("a buffer has the wrong direction")]
    Direction,
    /// More than [`MAX_BUFFERS`].
    #[error("a chain has more than {MAX_BUFFERS} buffers")]
    Long,
    /// An indirect table that is empty, not whole, or in another one (§2.7.5.3.1).
    #[error("an indirect table cannot be one")]
    Indirect,
}

/// Where a chain is written down that has not only one buffer. It is made once and filled again and
/// again.
#[derive(Debug)]
pub struct Chain {
    /// How many descriptors it takes in the ring.
    pub descriptors: u16,
    /// What is wrong with it.
    pub bad: Option<BadChain>,
    writable: bool,
    is_packed: bool,
    buffers: [Buffer; MAX_BUFFERS],
    len: usize,
}

impl Chain {
    /// An empty chain of a split or a packed ring, to be filled with buffers that we write to, or
    /// read from.
    pub fn new(is_packed: bool, writable: bool) -> Self {
        let none = Buffer { span: Span::EMPTY, address: 0 };
        Self {
            descriptors: 0,
            bad: None,
            writable,
            is_packed,
            buffers: [none; MAX_BUFFERS],
            len: 0,
        }
    }

    /// Its buffers, if it is not bad.
    #[inline]
    pub fn buffers(&self) -> Result<&[Buffer], BadChain> {
        match self.bad {
            None => Ok(&self.buffers[..self.len]),
            Some(bad) => Err(bad),
        }
    }

    /// Reads the chain that begins at a split ring's head.
    #[inline(always)]
    pub(super) fn read_split(&mut self, ring: &Split, head: u16, memory: &GuestMemory) -> Head {
        let descriptor = ring.descriptor(head);
        let only = self.only(descriptor, memory);
        if only.is_none() {
            self.follow(descriptor, ring, memory);
        }
        Head { id: head, only }
    }

    /// The buffer of a descriptor that leads nowhere.
    #[inline(always)]
    fn only(&mut self, descriptor: Descriptor, memory: &GuestMemory) -> Option<Buffer> {
        let Descriptor { address, len, flags, .. } = descriptor;
        let ordinary = if self.writable { Descriptor::WRITE } else { 0 };
        if flags & (Descriptor::NEXT | Descriptor::WRITE | Descriptor::INDIRECT) != ordinary {
            return None;
        }
        let span = memory.find(address, len)?;
        self.descriptors = 1;
        Some(Buffer { span, address })
    }

    /// Reads the chain of a split ring that begins with this descriptor.
    #[inline(never)]
    fn follow(&mut self, mut descriptor: Descriptor, ring: &Split, memory: &GuestMemory) {
        self.begin();
        self.descriptors = 1;
        loop {
            self.add(descriptor, memory);
            if !descriptor.has(Descriptor::NEXT) {
                return;
            }
            // A loop would be longer than the ring (§2.7.5.3.1: "MUST NOT create a descriptor chain
            // longer than").
            if self.descriptors == ring.size() || descriptor.next >= ring.size() {
                self.bad = Some(BadChain::Long);
                return;
            }
            descriptor = ring.descriptor(descriptor.next);
            self.descriptors += 1;
        }
    }

    /// Reads the chain that is next in a packed ring.
    #[inline]
    pub(super) fn read_packed(
        &mut self,
        ring: &Packed,
        memory: &GuestMemory,
    ) -> Result<Head, Corrupt> {
        self.begin();
        loop {
            let (descriptor, id) = ring.descriptor(self.descriptors);
            self.descriptors += 1;
            if self.descriptors == 1
                && let Some(only) = self.only(descriptor, memory)
            {
                ring.check(id)?;
                return Ok(Head { id, only: Some(only) });
            }
            self.add(descriptor, memory);
            if !descriptor.has(Descriptor::NEXT) {
                ring.check(id)?;
                return Ok(Head { id, only: None });
            }
            // Only the last has the id: without an end the chain cannot be given back.
            if self.descriptors == ring.size() {
                return Err(Corrupt::Endless { head: ring.turns()[0].index });
            }
        }
    }

    /// Reads a chain from elsewhere, as it was when it was taken from its ring.
    pub(super) fn read_again(
        &mut self,
        descriptors: impl Iterator<Item = Descriptor>,
        memory: &GuestMemory,
    ) {
        self.begin();
        for descriptor in descriptors {
            self.descriptors += 1;
            self.add(descriptor, memory);
        }
    }

    #[inline]
    fn begin(&mut self) {
        (self.descriptors, self.bad, self.len) = (0, None, 0);
    }

    /// Becomes the same as another one of its kind.
    pub fn copy(&mut self, other: &Self) {
        self.buffers[..other.len].copy_from_slice(&other.buffers[..other.len]);
        (self.descriptors, self.bad, self.len) = (other.descriptors, other.bad, other.len);
    }

    /// Adds a descriptor of the ring.
    #[inline]
    fn add(&mut self, descriptor: Descriptor, memory: &GuestMemory) {
        if descriptor.has(Descriptor::INDIRECT) {
            self.add_table(descriptor, memory);
        } else {
            self.add_buffer(descriptor, memory);
        }
    }

    #[inline]
    fn add_buffer(&mut self, descriptor: Descriptor, memory: &GuestMemory) {
        let Descriptor { address, len, .. } = descriptor;
        if descriptor.has(Descriptor::WRITE) != self.writable {
            self.bad = Some(BadChain::Direction);
            return;
        }
        match memory.find(address, len) {
            Some(span) => self.push(Buffer { span, address }),
            None => self.add_across(address, len, memory),
        }
    }

    /// Adds a buffer that lies in several regions.
    #[cold]
    fn add_across(&mut self, address: u64, len: u32, memory: &GuestMemory) {
        let mut next = address;
        let whole = memory.find_all(address, len, |span| {
            self.push(Buffer { span, address: next });
            next = next.wrapping_add(span.len() as u64);
        });
        if !whole {
            self.bad = Some(BadChain::Outside);
        }
    }

    #[inline]
    fn push(&mut self, buffer: Buffer) {
        match self.buffers.get_mut(self.len) {
            Some(place) => {
                *place = buffer;
                self.len += 1;
            }
            None => self.bad = Some(BadChain::Long),
        }
    }

    /// Adds what an indirect table says (§2.7.5.3, §2.8.7): in a split ring's table descriptors
    /// lead to one another, in a packed ring's they follow one another. Linux and DPDK lay both out
    /// in order; where a split ring's table does not, its links are followed.
    fn add_table(&mut self, descriptor: Descriptor, memory: &GuestMemory) {
        let count = descriptor.len / 16;
        let table = memory.find(descriptor.address, descriptor.len);
        let (Some(table), true) = (table, count > 0 && descriptor.len.is_multiple_of(16)) else {
            self.bad = Some(BadChain::Indirect);
            return;
        };
        if descriptor.has(Descriptor::NEXT) {
            self.bad = Some(BadChain::Indirect);
            return;
        }
        let (is_packed, mut place) = (self.is_packed, 0);
        for _ in 0..count.min(MAX_BUFFERS as u32 + 1) {
            let mut words = [0; 2];
            table.split(16 * place as usize).1.read(words.as_mut_bytes());
            let [address, rest] = words.map(u64::from_le);
            let entry = if is_packed {
                packed::entry(address, rest).0
            } else {
                split::entry(address, rest)
            };
            if entry.has(Descriptor::INDIRECT) {
                self.bad = Some(BadChain::Indirect);
                return;
            }
            self.add_buffer(entry, memory);
            place = if is_packed { place + 1 } else { u32::from(entry.next) };
            let goes_on = if is_packed { place < count } else { entry.has(Descriptor::NEXT) };
            if !goes_on {
                return;
            }
            if place >= count {
                break;
            }
        }
        self.bad = Some(BadChain::Long);
    }
}

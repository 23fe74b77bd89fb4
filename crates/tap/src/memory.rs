//! The memory of a TAP port: many small slots, few large ones.
//!
//! A frame's length is known only after it was read. So each read is scattered over a pair of free
//! slots: the first 2 KiB into the small one, and the rest into the large one, behind room for
//! them. A small frame needs no copy. For a large one its first 2 KiB are copied.
//!
//! ```text
//!    small   │ header │ frame ………… │           a frame that fits stays here
//!    large   │ (2 KiB of room)     │ the rest … │
//! ```
//!
//! Slots are numbered: first the large ones, then the small ones, of which there may be more: see
//! [`MORE`].

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use wire::Offload;

use port::{FrameView, Pool, Slot};

use super::credit;

/// A header and a frame with an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// A header and a frame with 64 KiB of payload, or with the largest MTU, 65,521, and a tag.
pub(super) const LARGE: usize = 66 << 10;

/// How many more slots there are of each size: for all that the ring may have when something is
/// diverted, of the smallest frames that take one. What nobody uses costs address space alone.
pub(super) const MORE: u32 = 2 * credit::BURST / credit::MINIMUM as u32;
const MORE_LARGE: u32 = 2 * credit::BURST / SMALL as u32;

/// The frames of one port, each in its slot behind its 12-byte virtio header.
pub(super) struct Memory {
    small: Pool,
    large: Pool,
    /// By slot, as far as slots were ever used.
    frames: Vec<Described>,
    /// How many small slots are for every day, and how many large ones.
    usual: u32,
    usual_large: u32,
    /// Whether all large slots may be used.
    lends: bool,
    /// The slots that the next read goes to. They are taken, but have no frame yet.
    spare: Option<(u32, u32)>,
}

/// The properties of a slot's frame.
#[derive(Clone, Copy)]
struct Described {
    len: usize,
    offload: Offload,
    /// By which lane it came; 0 if by none.
    lane: u8,
}

impl Described {
    const NONE: Self = Self { len: 0, offload: Offload::NONE, lane: 0 };
}

/// The result of a read.
pub(super) enum Read {
    /// A frame. It has no bytes if it contradicts its own header.
    Frame {
        /// Its slot.
        slot: Slot,
        /// How much the token bucket has counted it as.
        charged: usize,
    },
    /// The device is empty.
    Empty,
}

impl Memory {
    /// Both numbers are raised to at least 1.
    pub fn new(small: u32, large: u32) -> Self {
        let (small, large) = (small.max(1), large.max(1));
        Self {
            small: Pool::new(small + MORE, SMALL),
            large: Pool::new(large + MORE_LARGE, LARGE),
            frames: vec![Described::NONE; (large + MORE_LARGE + small) as usize],
            usual: small,
            usual_large: large,
            lends: false,
            spare: None,
        }
    }

    /// Whether more slots than usual may be used: begins when they are needed, and ends when half
    /// of the usual ones are enough.
    #[inline]
    pub fn lend(&mut self, are_needed: bool) {
        self.lends = are_needed || self.lends && self.is_crowded();
    }

    /// Whether there are slots for the next read.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.spare.is_none() {
            let kept = if self.lends { 0 } else { MORE_LARGE as usize };
            if self.small.free() > 0 && self.large.free() > kept {
                self.spare = self.small.take().zip(self.large.take());
            }
        }
        self.spare.is_some()
    }

    /// Reads one frame from a device.
    ///
    /// # Panics
    ///
    /// If there are no slots for it.
    #[inline]
    pub fn read(&mut self, device: BorrowedFd<'_>) -> io::Result<Read> {
        let (small, large) = self.spare.expect("the caller asked for room");
        let head = self.small.bytes_mut(small);
        let whole = self.large.bytes_mut(large);
        let scattered = &mut [IoSliceMut::new(head), IoSliceMut::new(&mut whole[SMALL..])];
        let len = match rustix::io::readv(device, scattered) {
            Ok(len) => len,
            Err(rustix::io::Errno::AGAIN) => return Ok(Read::Empty),
            Err(error) => return Err(error.into()),
        };
        let (slot, bytes) = if len <= SMALL {
            (self.large.slots() as u32 + small, &head[..len])
        } else {
            whole[..SMALL].copy_from_slice(head);
            (large, &whole[..len.min(LARGE)])
        };
        let Some((header, frame)) = bytes.split_first_chunk() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (described, charged) = match Offload::parse(header, frame) {
            Ok(offload) => {
                let charged = wire::wire_bytes(frame.len(), offload);
                (Described { len: frame.len(), offload, lane: 0 }, charged)
            }
            Err(_) => (Described::NONE, wire::claimed_bytes(header, frame.len())),
        };
        if slot as usize >= self.frames.len() {
            self.frames.resize(slot as usize + 1, Described::NONE);
        }
        self.frames[slot as usize] = described;
        Ok(Read::Frame { slot: Slot(slot), charged })
    }

    /// Keeps the last read frame until it is released.
    #[inline]
    pub fn keep(&mut self, slot: Slot) {
        let Some((small, large)) = self.spare.take() else { return };
        if slot.0 == large { self.small.put(small) } else { self.large.put(large) }
    }

    /// The frame in a slot.
    #[inline]
    pub fn frame(&self, slot: Slot) -> FrameView<'_> {
        let Described { len, offload, .. } = &self.frames[slot.0 as usize];
        let bytes = match slot.0.checked_sub(self.large.slots() as u32) {
            None => self.large.bytes(slot.0),
            Some(small) => self.small.bytes(small),
        };
        FrameView::noted(&bytes[Offload::LEN..][..*len], offload)
    }

    /// Writes over some of a frame's bytes. Whether it has so many.
    pub fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        let len = self.frames[slot.0 as usize].len;
        let all = match slot.0.checked_sub(self.large.slots() as u32) {
            None => self.large.bytes_mut(slot.0),
            Some(small) => self.small.bytes_mut(small),
        };
        let place = all[Offload::LEN..][..len].get_mut(at..at + bytes.len());
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// How many small frames could be held in place of the one in a slot.
    pub fn weight(&self, slot: Slot) -> u32 {
        let is_small = slot.0 as usize >= self.large.slots();
        if is_small { 1 } else { (self.usual / self.usual_large).max(1) }
    }

    /// By which lane the frame in a slot came; 0 if by none.
    #[inline]
    pub fn lane(&self, slot: Slot) -> u8 {
        self.frames[slot.0 as usize].lane
    }

    /// Notes by which lane it came.
    pub fn note_lane(&mut self, slot: Slot, lane: u8) {
        self.frames[slot.0 as usize].lane = lane;
    }

    /// Whether more than half of the usual large slots are taken.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        (self.large.slots() - self.large.free()) * 2 > self.usual_large as usize
    }

    /// Frees a slot.
    #[inline]
    pub fn release(&mut self, slot: Slot) {
        match slot.0.checked_sub(self.large.slots() as u32) {
            None => self.large.put(slot.0),
            Some(small) => self.small.put(small),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_frame_that_belies_its_header_lies_in_its_slot_without_its_bytes() {
        let (device, container) = UnixDatagram::pair().unwrap();
        let mut memory = Memory::new(2, 1);
        // A segment size of 1,000 bytes, for an unknown kind.
        let header = [0, 9, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0];
        for len in [60, 9000] {
            container.send(&[&header[..], &vec![1; len]].concat()).unwrap();
            assert!(memory.has_room());
            let Ok(Read::Frame { slot, charged }) = memory.read(device.as_fd()) else {
                panic!("{len}")
            };
            assert!(memory.frame(slot).bytes.is_empty());
            assert!((len..len + 10 * 138).contains(&charged), "{len}: {charged}");
            memory.keep(slot);
            memory.release(slot);
        }
    }
}

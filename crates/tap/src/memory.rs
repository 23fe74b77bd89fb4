//! A TAP port's memory: many small slots, few large ones.
//!
//! How long a frame will be is known only once it was read. So each read is scattered over a pair
//! of free slots: its first 2 KiB into the small one, and the rest, if there is any, into the large
//! one behind room for them. A small frame is then where it belongs, without a copy; a large one is
//! completed by a copy of its first 2 KiB.
//!
//! ```text
//!    small   │ header │ frame ………… │           a frame that fits stays here
//!    large   │ (2 KiB of room)     │ the rest … │
//! ```
//!
//! Slots are known by one number: the small ones first, then the large ones.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use wire::Offload;

use port::{FrameView, Pool, Slot};

/// Header and frame of an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// Header and frame of 64 KiB of payload, or of the largest MTU, 65,521, with a tag.
pub(super) const LARGE: usize = 66 << 10;

/// Frames of one port, each in a slot of its own behind its 12-byte virtio header.
pub(super) struct Memory {
    small: Pool,
    large: Pool,
    frames: Box<[Described]>,
    /// Taken, but without a frame: where the next read goes.
    spare: Option<(u32, u32)>,
}

/// What is known of a slot's frame.
#[derive(Clone, Copy)]
struct Described {
    len: usize,
    offload: Offload,
}

impl Described {
    const NONE: Self = Self { len: 0, offload: Offload::NONE };
}

/// What a read found.
pub(super) enum Read {
    /// A frame; one without bytes if it contradicts its own header.
    Frame {
        /// Where it lies.
        slot: Slot,
        /// What the token bucket charged for it.
        charged: usize,
    },
    /// Nothing: the device is empty.
    Empty,
}

impl Memory {
    /// Each kind needs one slot at least.
    pub fn new(small: u32, large: u32) -> Self {
        let (small, large) = (small.max(1), large.max(1));
        Self {
            small: Pool::new(small, SMALL),
            large: Pool::new(large, LARGE),
            frames: vec![Described::NONE; (small + large) as usize].into_boxed_slice(),
            spare: None,
        }
    }

    /// Whether the next read has a place to go.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = match (self.small.free(), self.large.free()) {
                (0, _) | (_, 0) => None,
                _ => self.small.take().zip(self.large.take()),
            };
        }
        self.spare.is_some()
    }

    /// Reads one frame from a device.
    ///
    /// # Panics
    ///
    /// If there is no room.
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
            (small, &head[..len])
        } else {
            whole[..SMALL].copy_from_slice(head);
            (self.small.slots() as u32 + large, &whole[..len.min(LARGE)])
        };
        let Some((header, frame)) = bytes.split_first_chunk() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (described, charged) = match Offload::parse(header, frame) {
            Ok(offload) => {
                (Described { len: frame.len(), offload }, wire::wire_bytes(frame.len(), offload))
            }
            Err(_) => (Described::NONE, wire::claimed_bytes(header, frame.len())),
        };
        self.frames[slot as usize] = described;
        Ok(Read::Frame { slot: Slot(slot), charged })
    }

    /// Keeps the frame that was read last until it is released.
    #[inline]
    pub fn keep(&mut self, slot: Slot) {
        let Some((small, large)) = self.spare.take() else { return };
        if slot.0 == small { self.large.put(large) } else { self.small.put(small) }
    }

    /// The frame in a slot that was read to.
    #[inline]
    pub fn frame(&self, slot: Slot) -> FrameView<'_> {
        let Described { len, offload } = &self.frames[slot.0 as usize];
        let bytes = match slot.0.checked_sub(self.small.slots() as u32) {
            None => self.small.bytes(slot.0),
            Some(large) => self.large.bytes(large),
        };
        FrameView::noted(&bytes[Offload::LEN..][..*len], offload)
    }

    /// Frees a slot.
    #[inline]
    pub fn release(&mut self, slot: Slot) {
        match slot.0.checked_sub(self.small.slots() as u32) {
            None => self.small.put(slot.0),
            Some(large) => self.large.put(large),
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
        // A segment size of 1,000 bytes, for a kind that nobody knows.
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

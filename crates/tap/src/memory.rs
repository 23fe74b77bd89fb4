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
//! Slots are numbered: first the small ones, then the large ones.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use wire::Offload;

use port::{FrameView, Pool, Slot};

/// A header and a frame with an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// A header and a frame with 64 KiB of payload, or with the largest MTU, 65,521, and a tag.
pub(super) const LARGE: usize = 66 << 10;

/// The frames of one port, each in its slot behind its 12-byte virtio header.
pub(super) struct Memory {
    small: Pool,
    large: Pool,
    frames: Box<[Described]>,
    /// The slots that the next read goes to. They are taken, but have no frame yet.
    spare: Option<(u32, u32)>,
}

/// The properties of a slot's frame.
#[derive(Clone, Copy)]
struct Described {
    len: usize,
    offload: Offload,
}

impl Described {
    const NONE: Self = Self { len: 0, offload: Offload::NONE };
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
            small: Pool::new(small, SMALL),
            large: Pool::new(large, LARGE),
            frames: vec![Described::NONE; (small + large) as usize].into_boxed_slice(),
            spare: None,
        }
    }

    /// Whether there are slots for the next read.
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

    /// Keeps the last read frame until it is released.
    #[inline]
    pub fn keep(&mut self, slot: Slot) {
        let Some((small, large)) = self.spare.take() else { return };
        if slot.0 == small { self.large.put(large) } else { self.small.put(small) }
    }

    /// The frame in a slot.
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

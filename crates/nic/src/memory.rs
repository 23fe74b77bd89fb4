//! Frames from an interface, each in a buffer that fits the largest.
//!
//! Buffers that are free are received into, several with one system call; the one that was freed
//! last is taken first. A buffer begins with room for the tag that Linux has taken off:
//!
//! ```text
//!   untagged   │ (4 bytes) │ addresses │ type, packet …   as the kernel writes it
//!   tagged     │ addresses │ tag       │ type, packet …   the addresses have moved, for the tag
//! ```

use std::io;
use std::os::fd::AsFd;

use kernel::packet::{self, BATCH, Received};
use port::{FrameView, Slot};
use wire::Offload;

/// Room for a tag, a packet of 64 KiB and its headers.
const LARGEST: usize = 66 << 10;

/// The length of an 802.1Q tag in bytes.
pub(super) const TAG: usize = 4;

/// Two Ethernet addresses: behind them is a tag.
pub(super) const ADDRESSES: usize = 12;

/// The frames of one port.
pub(super) struct Memory {
    /// By slot, as far as slots were ever used; those that are free are empty.
    frames: Vec<Frame>,
    /// Free slots with their buffers.
    free: Vec<(u32, Box<[u8]>)>,
    /// How many slots there may be.
    slots: u32,
    /// Whether frames keep the tags that Linux has taken off.
    keeps_tags: bool,
}

/// A slot's frame.
struct Frame {
    buffer: Box<[u8]>,
    /// Where it begins in its buffer.
    start: usize,
    len: usize,
    offload: Offload,
}

impl Memory {
    /// The number is raised to at least 1.
    pub(super) fn new(slots: u32, keeps_tags: bool) -> Self {
        Self { frames: Vec::new(), free: Vec::new(), slots: slots.max(1), keeps_tags }
    }

    /// Whether all slots are taken.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.frames.len() == self.slots as usize
    }

    /// Receives at most `most` frames, as many as one system call does, and tells `arrived` of
    /// each. Returns how many there were; 0 if none has come.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    #[inline]
    pub(super) fn receive(
        &mut self,
        socket: &impl AsFd,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> io::Result<usize> {
        let most = most.min(BATCH);
        while self.free.len() < most && self.frames.len() < self.slots as usize {
            self.free.push((self.frames.len() as u32, vec![0; LARGEST].into()));
            self.frames.push(Frame {
                buffer: Box::default(),
                start: 0,
                len: 0,
                offload: Offload::NONE,
            });
        }
        let mut received = [None; BATCH];
        let mut places = received.iter_mut();
        let buffers = self.free.iter_mut().rev().map(|(_, buffer)| &mut buffer[TAG..]);
        let count = packet::receive_batch(socket, buffers.take(most), |it| {
            places.next().into_iter().for_each(|place| *place = Some(it));
        })?;
        for mut it in received.into_iter().flatten() {
            it.tag = it.tag.filter(|_| self.keeps_tags);
            let (slot, buffer) = self.free.pop().expect("it was received into a free buffer");
            self.frames[slot as usize] = Frame::new(buffer, it);
            let slot = Slot(slot);
            arrived(slot, &self.frame(slot));
        }
        Ok(count)
    }

    /// The frame in a slot.
    #[inline]
    pub(super) fn frame(&self, slot: Slot) -> FrameView<'_> {
        let Frame { buffer, start, len, offload } = &self.frames[slot.0 as usize];
        FrameView::noted(&buffer[*start..start + len], offload)
    }

    /// Writes over some of a frame's bytes. Whether it has so many.
    pub(super) fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        let Frame { buffer, start, len, .. } = &mut self.frames[slot.0 as usize];
        let place = buffer[*start..*start + *len].get_mut(at..at + bytes.len());
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// Frees a slot.
    ///
    /// # Panics
    ///
    /// If it is free.
    #[inline]
    pub(super) fn release(&mut self, slot: Slot) {
        let buffer = std::mem::take(&mut self.frames[slot.0 as usize].buffer);
        assert!(!buffer.is_empty(), "{slot} was freed twice");
        self.free.push((slot.0, buffer));
    }
}

impl Frame {
    /// A frame that was received into a buffer, behind room for a tag. One that contradicts its own
    /// header, or was too long, has no bytes.
    fn new(mut buffer: Box<[u8]>, received: Received) -> Self {
        let Received { mut len, offload, tag } = received;
        let has_all = len <= buffer.len() - TAG && len >= ADDRESSES;
        let mut header = [0; Offload::LEN];
        header[..packet::OFFLOAD].copy_from_slice(&offload);
        let parsed = match has_all {
            true => Offload::parse(&header, &buffer[TAG..TAG + len]).ok(),
            false => None,
        };
        let Some(mut offload) = parsed else {
            return Self { buffer, start: 0, len: 0, offload: Offload::NONE };
        };
        let mut start = TAG;
        if let Some(tag) = tag {
            buffer.copy_within(TAG..TAG + ADDRESSES, 0);
            buffer[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
            offload.shift(|at| at + TAG as u16);
            (start, len) = (0, len + TAG);
        }
        Self { buffer, start, len, offload }
    }
}

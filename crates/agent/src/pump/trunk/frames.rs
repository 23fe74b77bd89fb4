//! Frames that have come from another host: each in a slot of its own until its last receiver has it.

use lossless::Network;
use ports::{FrameView, Slot};
use rings::Pool;
use tunnel::{Life, Stream};
use units::Class;

/// Room for a frame of an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// Room for the longest frame that a datagram carries.
const LARGE: usize = 64 << 10;

/// What is known of a frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Come {
    /// Whose it is.
    pub network: Network,
    /// Its class, where the far switch says it.
    pub class: Option<Class>,
    /// What the session wants to hear of once it is taken: its stream, the far life that sent it, and where it begins.
    pub place: Option<(Stream, Life, u64)>,
    len: usize,
}

/// Slots, known by one number: the small ones first, then the large ones.
pub struct Frames {
    small: Pool,
    large: Pool,
    come: Box<[Option<Come>]>,
}

impl Frames {
    /// Memory for so many frames of either kind, which is taken as it is used.
    pub fn new(small: u32, large: u32) -> Self {
        let come = vec![None; (small + large) as usize].into_boxed_slice();
        Self { small: Pool::new(small, SMALL), large: Pool::new(large, LARGE), come }
    }

    /// Copies a frame to a free slot; `None` if there is none.
    pub fn keep(&mut self, frame: &[u8], network: Network, class: Option<Class>) -> Option<Slot> {
        let (slot, bytes) = if frame.len() <= SMALL {
            let slot = self.small.take()?;
            (slot, self.small.bytes_mut(slot))
        } else {
            let slot = self.large.take()?;
            (self.small.slots() as u32 + slot, self.large.bytes_mut(slot))
        };
        let Some(bytes) = bytes.get_mut(..frame.len()) else {
            self.put(slot);
            return None;
        };
        bytes.copy_from_slice(frame);
        self.come[slot as usize] = Some(Come { network, class, place: None, len: frame.len() });
        Some(Slot(slot))
    }

    /// What is known of the frame in a slot.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get(&self, slot: Slot) -> &Come {
        self.come[slot.0 as usize].as_ref().expect("the slot has a frame")
    }

    /// What is known of the frame in a slot, to be added to.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Come {
        self.come[slot.0 as usize].as_mut().expect("the slot has a frame")
    }

    /// The frame in a slot.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn view(&self, slot: Slot) -> FrameView<'_> {
        FrameView::plain(&self.bytes(slot)[..self.get(slot).len])
    }

    /// The frame in a slot, to be changed.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        let len = self.get(slot).len;
        let bytes = match slot.0.checked_sub(self.small.slots() as u32) {
            None => self.small.bytes_mut(slot.0),
            Some(large) => self.large.bytes_mut(large),
        };
        &mut bytes[..len]
    }

    fn bytes(&self, slot: Slot) -> &[u8] {
        match slot.0.checked_sub(self.small.slots() as u32) {
            None => self.small.bytes(slot.0),
            Some(large) => self.large.bytes(large),
        }
    }

    /// Frees a slot, and says what its frame was.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slot: Slot) -> Come {
        let come = self.come[slot.0 as usize].take().expect("the slot has a frame");
        self.put(slot.0);
        come
    }

    /// Frees the slot of a frame that nobody wants.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn free(&mut self, slot: Slot) {
        self.release(slot);
    }

    fn put(&mut self, slot: u32) {
        match slot.checked_sub(self.small.slots() as u32) {
            None => self.small.put(slot),
            Some(large) => self.large.put(large),
        }
    }
}

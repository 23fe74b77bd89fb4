//! Frames that have come from another host: each in a slot of its own until its last receiver has it.

use std::collections::VecDeque;

use lossless::Network;
use ports::{FrameView, Slot};
use rings::Pool;
use tunnel::{Life, Stream};
use units::Class;
use wire::{Join, Offload};

/// Room for a frame of an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// Room for the longest frame that a datagram carries, or that segments are joined into.
const LARGE: usize = 66 << 10;

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
    /// What is left to do for it.
    offload: Offload,
}

impl Come {
    /// Whether segments of both may be one frame.
    fn is_alike(&self, other: &Self) -> bool {
        let of = |come: &Self| (come.network, come.class, come.place.map(|(stream, life, _)| (stream, life)));
        of(self) == of(other)
    }
}

/// Slots, known by one number: the small ones first, then the large ones.
pub struct Frames {
    small: Pool,
    large: Pool,
    come: Box<[Option<Come>]>,
    /// By large slot: where those segments begin in their stream that were joined to the first one there.
    joined: Box<[Vec<u64>]>,
}

impl Frames {
    /// Memory for so many frames of either kind, which is taken as it is used.
    pub fn new(small: u32, large: u32) -> Self {
        let come = vec![None; (small + large) as usize].into_boxed_slice();
        let joined = vec![Vec::new(); large as usize].into_boxed_slice();
        Self { small: Pool::new(small, SMALL), large: Pool::new(large, LARGE), come, joined }
    }

    /// Whether less than a quarter of the small slots is free.
    pub fn is_short(&self) -> bool {
        self.small.free() < self.small.slots() / 4
    }

    /// Copies a frame, of which this is left to do, to a free slot; `None` if there is none.
    pub fn keep(
        &mut self,
        frame: &[u8],
        network: Network,
        class: Option<Class>,
        offload: Offload,
    ) -> Option<Slot> {
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
        if let Some(large) = slot.checked_sub(self.small.slots() as u32) {
            self.joined[large as usize].clear();
        }
        self.come[slot as usize] = Some(Come { network, class, place: None, len: frame.len(), offload });
        Some(Slot(slot))
    }

    /// Takes the first frame that is ready, and with it those that make one large segment of it.
    pub fn next(&mut self, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let first = ready.pop_front()?;
        self.join(first, ready).or(Some(first))
    }

    /// Joins segments to the first, in a large slot, as long as they follow; `None` if none does.
    fn join(&mut self, first: Slot, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let is_next = |frames: &Self, slot: Slot| frames.get(slot).is_alike(frames.get(first));
        // Those of large frames are many of a wire's already.
        let small = self.small.slots() as u32;
        let is_small = |slot: Slot| slot.0 < small;
        ready.front().filter(|next| is_small(first) && is_next(self, **next))?;
        let mut join = Join::begin(self.view(first).bytes)?;
        let slot = self.large.take()?;
        let come = *self.get(first);
        self.joined[slot as usize].clear();
        let mut len = come.len;
        while let Some(&next) = ready.front().filter(|next| is_next(self, **next)) {
            let Some(come_next) = self.come[next.0 as usize].filter(|_| is_small(next)) else { break };
            let [one, other] = [(first, come.len), (next, come_next.len)]
                .map(|(slot, len)| &self.small.bytes(slot.0)[..len]);
            let Some(payload) = join.follow(one, other) else { break };
            let into = self.large.bytes_mut(slot);
            if len == come.len {
                into[..len].copy_from_slice(one);
            }
            into[len..len + payload.len()].copy_from_slice(payload);
            len += payload.len();
            self.joined[slot as usize].extend(come_next.place.map(|(.., offset)| offset));
            ready.pop_front();
            self.release(next, |_| {});
        }
        if join.count() == 1 {
            self.large.put(slot);
            return None;
        }
        let offload = join.finish(&mut self.large.bytes_mut(slot)[..len]);
        self.release(first, |_| {});
        let number = self.small.slots() as u32 + slot;
        self.come[number as usize] = Some(Come { len, offload, ..come });
        Some(Slot(number))
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
        let come = self.get(slot);
        FrameView::noted(&self.bytes(slot)[..come.len], &come.offload)
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

    /// Frees a slot, and tells `taken` of each place in a stream that its frame had.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slot: Slot, mut taken: impl FnMut((Stream, Life, u64))) {
        let come = self.come[slot.0 as usize].take().expect("the slot has a frame");
        if let Some((stream, life, offset)) = come.place {
            taken((stream, life, offset));
            if let Some(large) = slot.0.checked_sub(self.small.slots() as u32) {
                self.joined[large as usize].drain(..).for_each(|offset| taken((stream, life, offset)));
            }
        }
        self.put(slot.0);
    }

    fn put(&mut self, slot: u32) {
        match slot.checked_sub(self.small.slots() as u32) {
            None => self.small.put(slot),
            Some(large) => self.large.put(large),
        }
    }
}

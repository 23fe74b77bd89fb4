//! Frames that have come from another host: each in a slot of its own until its last receiver has it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use lossless::Network;
use ports::{FrameView, Slot};
use rings::Pool;
use tunnel::{Data, Era, LONGEST, Part, Stream};
use units::{Class, ClassSet};
use wire::ecn::Ecn;
use wire::{Join, Layout, Offload};

/// Room for a frame of an MTU of 1500, with room to spare.
const SMALL: usize = 2 << 10;

/// Room for the longest frame that a datagram carries, or that is put together of parts or segments.
const LARGE: usize = LONGEST as usize;

/// Where a frame begins in its stream, as that is counted in an era.
pub type Place = (Stream, Era, u64);

/// What is known of a frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Come {
    /// Whose it is.
    pub network: Network,
    /// Its class, where the far switch says it.
    pub class: Option<Class>,
    /// What the session wants to hear of once it is taken.
    pub place: Option<Place>,
    len: usize,
    /// What is left to do for it, as its sender says, until it is whole.
    said: Option<[u8; Offload::LEN]>,
    /// What is left to do for it.
    offload: Offload,
    /// Which part of a frame it is.
    part: Part,
    /// The fabric has marked a part of it.
    is_marked: bool,
    /// The switch has it.
    is_lifted: bool,
}

impl Come {
    /// Whether segments of both may be one frame.
    fn is_alike(&self, other: &Self) -> bool {
        let of = |come: &Self| (come.network, come.class, come.place.map(|(stream, era, _)| (stream, era)));
        of(self) == of(other) && [self, other].iter().all(|come| come.offload == Offload::NONE)
    }
}

/// Where a frame lies, or a part of one, whose turn has not come.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// In a slot of its own.
    Alone(Slot),
    /// Behind the parts of its frame that came before it.
    Behind {
        /// How many bytes it has.
        len: u16,
        /// Whether others follow.
        part: Part,
        /// The fabric has marked it.
        is_marked: bool,
    },
}

/// A frame of which parts have had their turn.
#[derive(Clone, Copy, Debug)]
struct Growing {
    slot: Slot,
    /// Where in the stream its next part begins.
    end: u64,
}

/// Slots, known by one number: the small ones first, then the large ones.
pub struct Frames {
    small: Pool,
    large: Pool,
    come: Box<[Option<Come>]>,
    /// By large slot: where those parts or segments begin in their stream that were put behind the first one there.
    joined: Box<[Vec<u64>]>,
    growing: BTreeMap<Stream, Growing>,
    /// Where what was not put together began: nobody will take it.
    torn: Vec<Place>,
    /// Frames that are not what was said of them.
    malformed: u64,
}

impl Frames {
    /// Memory for so many frames of either kind, which is taken as it is used.
    pub fn new(small: u32, large: u32) -> Self {
        Self {
            small: Pool::new(small, SMALL),
            large: Pool::new(large, LARGE),
            come: vec![None; (small + large) as usize].into_boxed_slice(),
            joined: vec![Vec::new(); large as usize].into_boxed_slice(),
            growing: BTreeMap::new(),
            torn: Vec::new(),
            malformed: 0,
        }
    }

    /// Whether less than a quarter of the slots of either kind is free.
    pub fn is_short(&self) -> bool {
        [&self.small, &self.large].into_iter().any(is_short)
    }

    /// Frames that are not what was said of them.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Copies a frame, of which this is left to do, to a free slot; `None` if there is none.
    pub fn keep(
        &mut self,
        frame: &[u8],
        network: Network,
        class: Option<Class>,
        offload: Offload,
    ) -> Option<Slot> {
        let slot = self.keep_in(frame, frame.len() > SMALL, network)?;
        let come = self.get_mut(slot);
        (come.class, come.offload) = (class, offload);
        Some(slot)
    }

    /// Copies what a session has brought to a free slot, or behind the parts of its frame before it; `None` if there is no room.
    /// `is_next`: what was sent before it in its stream has had its turn.
    pub fn keep_data(
        &mut self,
        data: &Data,
        is_marked: bool,
        is_next: bool,
        bytes: &[u8],
        network: Network,
    ) -> Option<Kept> {
        if data.part.continues
            && let Some(growing) = self.growing.get(&data.stream)
            && growing.end as u32 == data.offset
        {
            let come = self.get(growing.slot);
            let (len, is_same) = (come.len, come.network == network);
            let into = self.large.bytes_mut(growing.slot.0 - self.small.slots() as u32);
            if let Some(into) = into.get_mut(len..len + bytes.len()).filter(|_| is_same) {
                into.copy_from_slice(bytes);
                return Some(Kept::Behind { len: data.len.get(), part: data.part, is_marked });
            }
        }
        let begins = data.part.more && !data.part.continues;
        let is_large = begins || bytes.len() > SMALL;
        // Whatever waits for others, there is room for those.
        if !is_next && is_short(if is_large { &self.large } else { &self.small }) {
            return None;
        }
        let slot = self.keep_in(bytes, is_large, network)?;
        let come = self.come[slot.0 as usize].as_mut().expect(GROWS);
        (come.class, come.part, come.said) = (Some(data.stream.class), data.part, data.offload);
        come.is_marked = is_marked && data.part != Part::WHOLE;
        Some(Kept::Alone(slot))
    }

    fn keep_in(&mut self, bytes: &[u8], is_large: bool, network: Network) -> Option<Slot> {
        let small = self.small.slots() as u32;
        let (slot, room) = if is_large {
            let slot = self.large.take()?;
            self.joined[slot as usize].clear();
            (small + slot, self.large.bytes_mut(slot))
        } else {
            let slot = self.small.take()?;
            (slot, self.small.bytes_mut(slot))
        };
        let Some(room) = room.get_mut(..bytes.len()) else {
            self.put(slot);
            return None;
        };
        room.copy_from_slice(bytes);
        self.come[slot as usize] = Some(Come {
            network,
            class: None,
            place: None,
            len: bytes.len(),
            said: None,
            offload: Offload::NONE,
            part: Part::WHOLE,
            is_marked: false,
            is_lifted: false,
        });
        Some(Slot(slot))
    }

    /// The turn of what was kept has come. The frame that is whole by that, if one is.
    pub fn turn(&mut self, kept: Kept, place: Place) -> Option<Slot> {
        let (stream, _, offset) = place;
        let (part, len, network) = match kept {
            Kept::Behind { len, part, .. } => (part, usize::from(len), None),
            Kept::Alone(slot) => (self.get(slot).part, self.get(slot).len, Some(self.get(slot).network)),
        };
        let grows = self.growing.get(&stream).filter(|growing| part.continues && growing.end == offset);
        let follows = grows.is_some_and(|grows| network.is_none_or(|it| it == self.get(grows.slot).network));
        if !follows {
            self.tear(stream);
        }
        let end = offset + len as u64;
        let slot = match kept {
            Kept::Alone(slot) if !part.continues => {
                self.get_mut(slot).place = Some(place);
                slot
            }
            _ if follows => {
                let slot = self.growing[&stream].slot;
                if !self.append(slot, kept, len) {
                    self.tear(stream);
                    self.torn.push(place);
                    return None;
                }
                self.joined[slot.0 as usize - self.small.slots()].push(offset);
                slot
            }
            // Its frame's first part never came.
            _ => {
                self.torn.push(place);
                self.forget(kept);
                return None;
            }
        };
        if part.more {
            self.growing.insert(stream, Growing { slot, end });
            return None;
        }
        self.growing.remove(&stream);
        self.finish(slot)
    }

    /// Makes a part the last so far of a frame that grows. `false` if there is no room for it.
    fn append(&mut self, slot: Slot, kept: Kept, len: usize) -> bool {
        let at = self.get(slot).len;
        self.get_mut(slot).is_marked |= match kept {
            Kept::Behind { is_marked, .. } => is_marked,
            Kept::Alone(part) => self.get(part).is_marked,
        };
        if let Kept::Alone(part) = kept {
            let Self { small, large, .. } = self;
            let first = small.slots() as u32;
            let has_room = at + len <= LARGE;
            if has_room {
                match part.0.checked_sub(first) {
                    None => large.bytes_mut(slot.0 - first)[at..at + len]
                        .copy_from_slice(&small.bytes(part.0)[..len]),
                    Some(part) => large.copy(part, len, slot.0 - first, at),
                }
            }
            self.forget(kept);
            if !has_room {
                return false;
            }
        }
        self.get_mut(slot).len += len;
        true
    }

    /// Whatever follows in a stream, it is not the rest of a frame that grows there.
    pub fn tear(&mut self, stream: Stream) {
        if let Some(Growing { slot, .. }) = self.growing.remove(&stream) {
            self.tear_up(slot);
        }
    }

    /// The same of all streams.
    pub fn tear_all(&mut self) {
        for Growing { slot, .. } in std::mem::take(&mut self.growing).into_values() {
            self.tear_up(slot);
        }
    }

    fn tear_up(&mut self, slot: Slot) {
        let mut torn = std::mem::take(&mut self.torn);
        self.release(slot, |place| torn.push(place));
        self.torn = torn;
    }

    /// Where what was not put together began, each once.
    pub fn torn(&mut self) -> Option<Place> {
        self.torn.pop()
    }

    /// Does what its sender has said of a frame that is whole. `None` if it cannot be so.
    fn finish(&mut self, slot: Slot) -> Option<Slot> {
        let come = *self.get(slot);
        let bytes = self.bytes_mut(slot);
        if let Some(layout) = Layout::of(bytes).filter(|_| come.is_marked)
            && let Some(class) = layout.traffic_class(bytes).filter(|class| Ecn::of(*class) != Ecn::NotEct)
        {
            // It was read from this very header.
            let _ = layout.set_traffic_class(bytes, Ecn::Ce.within(class));
        }
        let Some(said) = come.said else { return Some(slot) };
        if let Ok(offload) = Offload::parse(&said, bytes) {
            self.get_mut(slot).offload = offload;
            return Some(slot);
        }
        self.malformed += 1;
        self.tear_up(slot);
        None
    }

    /// How many frames of these classes, as a wire has them, were lifted and began in this era.
    pub fn lifted_of(&self, classes: ClassSet, era: Era) -> u64 {
        let is_of = |(stream, its_era, _): Place| its_era == era && classes.contains(stream.class);
        let lifted = (0_u32..).zip(&self.come).filter(|(_, come)| {
            come.as_ref().is_some_and(|come| come.is_lifted && come.place.is_some_and(is_of))
        });
        lifted.map(|(slot, _)| self.view(Slot(slot)).on_wire().1 as u64).sum()
    }

    /// Frees what was kept and has not had its turn.
    pub fn forget(&mut self, kept: Kept) {
        if let Kept::Alone(slot) = kept {
            self.release(slot, |_| {});
        }
    }

    /// Takes the first frame that is ready, and with it those that make one large segment of it.
    pub fn next(&mut self, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let first = ready.pop_front()?;
        let slot = self.join(first, ready).unwrap_or(first);
        self.get_mut(slot).is_lifted = true;
        Some(slot)
    }

    /// Joins segments to the first, in a large slot, as long as they follow; `None` if none does.
    fn join(&mut self, first: Slot, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let is_next = |frames: &Self, slot: Slot| frames.get(slot).is_alike(frames.get(first));
        // Those of large frames are many of a wire's already.
        let small = self.small.slots() as u32;
        let is_small = |slot: Slot| slot.0 < small;
        ready.front().filter(|next| is_small(first) && is_next(self, **next))?;
        let mut join = Join::begin(self.view(first).bytes)?;
        // They can do without.
        if is_short(&self.large) {
            return None;
        }
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
    pub fn release(&mut self, slot: Slot, mut taken: impl FnMut(Place)) {
        let come = self.come[slot.0 as usize].take().expect("the slot has a frame");
        if let Some((stream, era, offset)) = come.place {
            taken((stream, era, offset));
            if let Some(large) = slot.0.checked_sub(self.small.slots() as u32) {
                self.joined[large as usize].drain(..).for_each(|offset| taken((stream, era, offset)));
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

/// Whether less than a quarter of the slots is free.
fn is_short(pool: &Pool) -> bool {
    pool.free() < pool.slots() / 4
}

const GROWS: &str = "the slot has a frame";

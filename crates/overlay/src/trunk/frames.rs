//! Frames that have come from another host: each in a slot of its own until its last receiver has it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use datapath::Network;
use port::{FrameView, Pool, Slot};
use tunnel::quota::{Claim, Quota};
use tunnel::{Data, Epoch, MAX_FRAME_LEN, Part, Stream};
use units::{Class, ClassMap, ClassSet};
use wire::ecn::Ecn;
use wire::{Join, Layout, Offload};

/// How many bytes slots have: room for a frame of an MTU of 1500, for one of an MTU of 9000 or a middle-sized segment, and for the
/// longest frame. A frame lies in the smallest that has room for it, so that those that only the longest need are left to them.
const SIZES: [usize; 3] = [2 << 10, 16 << 10, MAX_FRAME_LEN as usize];

/// Of how many streams that found no slot it is remembered what they wanted.
const MOST_WANTED: usize = 8 << 10;

/// How many slots there are of each size.
pub type Counts = [u32; SIZES.len()];

/// Where the header that says what is left to do for a frame says how many KiB that has, rounded up: in the place of a field that
/// tells nothing here (docs/protocol.md).
const KIB: Range<usize> = 10..Offload::LEN;

/// Has the first part of a frame say how long all of it is.
pub fn say_len(said: &mut [u8; Offload::LEN], len: usize) {
    let kib = len.div_ceil(1 << 10).max(2) as u16;
    said[KIB].copy_from_slice(&kib.to_le_bytes());
}

/// How long a frame is at most, as its first part says.
fn said_len(said: [u8; Offload::LEN]) -> usize {
    match u16::from_le_bytes([said[KIB.start], said[KIB.start + 1]]) {
        0 | 1 => MAX_FRAME_LEN as usize,
        kib => (usize::from(kib) << 10).min(MAX_FRAME_LEN as usize),
    }
}

/// Where a frame begins in its stream, as that is counted in an era.
pub type Place = (Stream, Epoch, u64);

/// What is known of a frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Come {
    /// Whose it is.
    pub network: Network,
    /// Its class, where the far switch says it.
    pub class: Option<Class>,
    /// What the session wants to hear of once it is taken.
    pub place: Option<Place>,
    /// The stream that has its slot, if it is repaired.
    whose: Option<Stream>,
    len: usize,
    /// What is left to do for it, as its sender says, until it is whole.
    said: Option<[u8; Offload::LEN]>,
    /// What is left to do for it.
    offload: Offload,
    /// The fabric has marked a part of it.
    is_marked: bool,
    /// How many frames it is, as a wire has them, once the switch has it; 0 before.
    lifted: u64,
}

impl Come {
    /// Whether segments of both may be one frame.
    fn is_alike(&self, other: &Self) -> bool {
        let of = |come: &Self| (come.network, come.class, come.place.map(|(stream, era, _)| (stream, era)));
        of(self) == of(other) && [self, other].iter().all(|come| come.offload == Offload::NONE)
    }
}

/// A frame, or a part of one, whose turn has not come.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Where it lies; `None`: behind the parts of its frame that came before it.
    pub slot: Option<Slot>,
    /// How many bytes it has.
    len: u16,
    /// Which part of a frame it is.
    part: Part,
    /// The fabric has marked it.
    is_marked: bool,
}

/// A frame of which parts have had their turn.
#[derive(Clone, Copy, Debug)]
struct Growing {
    slot: Slot,
    /// Where in the stream its next part begins.
    end: u64,
}

/// Slots, known by one number: the smallest first, then the larger ones.
pub struct Frames {
    pools: [Pool; SIZES.len()],
    /// Who has their slots.
    places: [Quota; SIZES.len()],
    come: Box<[Option<Come>]>,
    /// By slot, but for the smallest ones: where those parts or segments begin in their stream that were put behind the first one there.
    joined: Box<[Vec<u64>]>,
    growing: BTreeMap<Stream, Growing>,
    /// Where what was not put together began: nobody will take it.
    torn: Vec<Place>,
    /// The era in which streams are counted now.
    era: Epoch,
    /// How many frames, as a wire has them, the switch has that began in it.
    lifted: ClassMap<u64>,
    /// Frames that are not what was said of them.
    malformed: u64,
    /// By stream that waits, of some thousands: the largest size for which it found no slot.
    wanted: BTreeMap<Stream, usize>,
}

impl Frames {
    /// Memory for so many frames of each size, which is taken as it is used.
    pub fn new(counts: Counts) -> Self {
        let slots = counts.iter().sum::<u32>();
        Self {
            pools: std::array::from_fn(|size| Pool::new(counts[size], SIZES[size])),
            places: counts.map(Quota::new),
            come: vec![None; slots as usize].into_boxed_slice(),
            joined: vec![Vec::new(); (slots - counts[0]) as usize].into_boxed_slice(),
            growing: BTreeMap::new(),
            torn: Vec::new(),
            era: Epoch::default(),
            lifted: ClassMap::default(),
            malformed: 0,
            wanted: BTreeMap::new(),
        }
    }

    /// Whether what does not come again will soon find no slot.
    pub fn is_short(&self) -> bool {
        self.places.iter().any(Quota::is_short)
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
        let slot = self.keep_in(frame, size_for(frame.len())?, Claim::Unreliable, network)?;
        let come = self.get_mut(slot);
        (come.class, come.offload) = (class, offload);
        Some(slot)
    }

    /// Copies what a session has brought to a free slot, or behind the parts of its frame before it; `None` if there is none for it.
    pub fn keep_data(
        &mut self,
        data: &Data,
        is_marked: bool,
        claim: Claim,
        bytes: &[u8],
        network: Network,
    ) -> Option<Kept> {
        let kept = |slot| Kept { slot, len: data.len.get(), part: data.part, is_marked };
        if data.part.continues
            && let Some(growing) = self.growing.get(&data.stream)
            && growing.end as u32 == data.offset
        {
            let come = self.get(growing.slot);
            let (len, is_same) = (come.len, come.network == network);
            let (size, slot) = self.find(growing.slot);
            let into = self.pools[size].bytes_mut(slot).get_mut(len..len + bytes.len());
            if let Some(into) = into.filter(|_| is_same) {
                into.copy_from_slice(bytes);
                return Some(kept(None));
            }
        }
        let slot = self.keep_in(bytes, size_of(data)?, claim, network)?;
        let come = self.get_mut(slot);
        (come.class, come.said) = (Some(data.stream.class), data.offload);
        come.is_marked = is_marked && data.part != Part::WHOLE;
        Some(kept(Some(slot)))
    }

    /// A stream waits, as this found no slot. Whoever names ever more of them is not remembered for ever.
    pub fn wait(&mut self, data: &Data) {
        if self.wanted.len() >= MOST_WANTED && !self.wanted.contains_key(&data.stream) {
            self.wanted.clear();
        }
        let wanted = self.wanted.entry(data.stream).or_default();
        *wanted = size_of(data).unwrap_or_default().max(*wanted);
    }

    /// A stream that found no slot goes on.
    pub fn go_on(&mut self, stream: Stream) {
        self.wanted.remove(&stream);
    }

    /// Whether a stream of which something was turned away may have so many slots that it is worth while to ask for more. What is put
    /// behind the beginning of a frame needs none.
    pub fn welcomes(&self, stream: Stream) -> bool {
        let wanted = self.wanted.get(&stream).map_or(&self.places[..], |size| &self.places[*size..=*size]);
        let held: u32 = self.places.iter().map(|places| places.held(stream)).sum();
        wanted.iter().all(|places| places.welcomes(stream)) || held == 1 && self.growing.contains_key(&stream)
    }

    fn keep_in(&mut self, bytes: &[u8], size: usize, claim: Claim, network: Network) -> Option<Slot> {
        let slot = self.take(size, claim)?;
        self.come[slot.0 as usize] = Some(Come {
            network,
            class: None,
            place: None,
            whose: claim.whose(),
            len: bytes.len(),
            said: None,
            offload: Offload::NONE,
            is_marked: false,
            lifted: 0,
        });
        self.bytes_mut(slot).copy_from_slice(bytes);
        Some(slot)
    }

    /// The turn of what was kept has come. The frame that is whole by that, if one is.
    pub fn turn(&mut self, kept: Kept, place: Place) -> Option<Slot> {
        let (stream, _, offset) = place;
        let part = kept.part;
        let network = kept.slot.map(|slot| self.get(slot).network);
        let grows = self.growing.get(&stream).filter(|growing| part.continues && growing.end == offset);
        let follows = grows.is_some_and(|grows| network.is_none_or(|it| it == self.get(grows.slot).network));
        if !follows {
            self.tear(stream);
        }
        let end = offset + u64::from(kept.len);
        let slot = match kept.slot {
            Some(slot) if !part.continues => {
                self.get_mut(slot).place = Some(place);
                slot
            }
            _ if follows => {
                let slot = self.growing[&stream].slot;
                if !self.append(slot, kept) {
                    self.malformed += 1;
                    self.tear(stream);
                    self.torn.push(place);
                    return None;
                }
                self.joined_mut(slot).expect(LARGER).push(offset);
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
    fn append(&mut self, slot: Slot, kept: Kept) -> bool {
        let (at, len) = (self.get(slot).len, usize::from(kept.len));
        self.get_mut(slot).is_marked |= kept.is_marked;
        if let Some(part) = kept.slot {
            let ((to, into), (from, part)) = (self.find(slot), self.find(part));
            let has_room = at + len <= SIZES[to];
            match self.pools.get_disjoint_mut([to, from]) {
                _ if !has_room => {}
                Ok([to, from]) => {
                    to.bytes_mut(into)[at..at + len].copy_from_slice(&from.bytes(part)[..len]);
                }
                Err(_) => self.pools[to].copy(part, len, into, at),
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

    /// Streams are counted anew in this era: all parts of what was not whole will come again.
    pub fn begin_era(&mut self, era: Epoch) {
        (self.era, self.lifted) = (era, ClassMap::default());
        self.wanted.clear();
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
        if let Ok(offload) = Offload::parse(&said, bytes)
            && come.len <= said_len(said)
        {
            self.get_mut(slot).offload = offload;
            return Some(slot);
        }
        self.malformed += 1;
        self.tear_up(slot);
        None
    }

    /// How many frames of these classes, as a wire has them, were lifted of those that began in this era, and not released.
    pub fn lifted_of(&self, classes: ClassSet) -> u64 {
        classes.iter().map(|class| self.lifted[class]).sum()
    }

    /// Frees what was kept and has not had its turn.
    pub fn forget(&mut self, kept: Kept) {
        if let Some(slot) = kept.slot {
            self.release(slot, |_| {});
        }
    }

    /// Takes the first frame that is ready, and with it those that make one large segment of it.
    pub fn next(&mut self, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let first = ready.pop_front()?;
        let slot = self.join(first, ready).unwrap_or(first);
        let lifted = self.view(slot).on_wire().1 as u64;
        let come = self.get_mut(slot);
        come.lifted = lifted;
        if let Some((stream, era, _)) = come.place
            && era == self.era
        {
            self.lifted[stream.class] += lifted;
        }
        Some(slot)
    }

    /// Joins segments to the first, in a larger slot, as long as they follow; `None` if none does.
    fn join(&mut self, first: Slot, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        // Those of larger frames are many of a wire's already.
        let is_next = |slot: Slot| self.find(slot).0 == 0 && self.get(slot).is_alike(self.get(first));
        ready.front().filter(|next| is_next(first) && is_next(**next))?;
        let one = self.view(first).bytes;
        let mut join = Join::begin(one)?;
        let mut header_len = 0;
        for next in ready.iter().copied().take_while(|next| is_next(*next)) {
            let other = self.view(next).bytes;
            let Some(payload) = join.follow(one, other) else { break };
            header_len = other.len() - payload.len();
        }
        let size = size_for(join.len())?.max(1);
        if join.count() == 1 {
            return None;
        }
        let claim = self.get(first).whose.map_or(Claim::Unreliable, Claim::Reliable);
        // They can do without.
        if !self.places[size].can_spare(claim) {
            return None;
        }
        let slot = self.take(size, claim)?;
        let (_, into) = self.find(slot);
        self.come[slot.0 as usize] = Some(Come { len: join.len(), ..*self.get(first) });
        let mut end = 0;
        let others = ready.drain(..usize::from(join.count()) - 1).map(|next| (next, header_len));
        for (segment, from) in std::iter::once((first, 0)).chain(others) {
            let Come { place, len, .. } = *self.get(segment);
            let (_, number) = self.find(segment);
            let [smallest, larger] = self.pools.get_disjoint_mut([0, size]).expect(LARGER);
            let bytes = &smallest.bytes(number)[from..len];
            larger.bytes_mut(into)[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
            if from > 0 {
                self.joined_mut(slot).expect(LARGER).extend(place.map(|(.., offset)| offset));
            }
            self.release(segment, |_| {});
        }
        let offload = join.finish(self.bytes_mut(slot));
        self.get_mut(slot).offload = offload;
        Some(slot)
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
        let (size, slot) = self.find(slot);
        &mut self.pools[size].bytes_mut(slot)[..len]
    }

    fn bytes(&self, slot: Slot) -> &[u8] {
        let (size, slot) = self.find(slot);
        self.pools[size].bytes(slot)
    }

    /// Frees a slot, and tells `taken` of each place in a stream that its frame had.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slot: Slot, mut taken: impl FnMut(Place)) {
        let come = self.come[slot.0 as usize].take().expect("the slot has a frame");
        if let Some((stream, era, offset)) = come.place {
            if era == self.era {
                self.lifted[stream.class] -= come.lifted;
            }
            taken((stream, era, offset));
            let joined = self.joined_mut(slot).into_iter().flat_map(|joined| joined.drain(..));
            joined.for_each(|offset| taken((stream, era, offset)));
        }
        let (size, slot) = self.find(slot);
        self.pools[size].put(slot);
        self.places[size].put(come.whose);
    }

    /// Whether nothing is kept.
    #[cfg(test)]
    pub fn is_all_free(&self) -> bool {
        let is_free =
            |(pool, places): (&Pool, &Quota)| [pool.free(), places.free() as usize] == [pool.slots(); 2];
        self.growing.is_empty() && self.torn.is_empty() && self.pools.iter().zip(&self.places).all(is_free)
    }

    /// Takes a free slot of a size, if there is one for this.
    fn take(&mut self, size: usize, claim: Claim) -> Option<Slot> {
        if !self.places[size].has_for(claim) {
            return None;
        }
        let before: usize = self.pools[..size].iter().map(Pool::slots).sum();
        let slot = Slot(before as u32 + self.pools[size].take()?);
        self.places[size].take(claim);
        self.joined_mut(slot).into_iter().for_each(Vec::clear);
        Some(slot)
    }

    /// Of which size a slot is, and which of those it is.
    fn find(&self, Slot(mut slot): Slot) -> (usize, u32) {
        for (size, pool) in self.pools.iter().enumerate() {
            match slot.checked_sub(pool.slots() as u32) {
                Some(rest) => slot = rest,
                None => return (size, slot),
            }
        }
        unreachable!("slots have numbers below their count")
    }

    /// Where those parts or segments begin that were put behind the first one in a slot; `None` if it is one of the smallest.
    fn joined_mut(&mut self, slot: Slot) -> Option<&mut Vec<u64>> {
        let place = (slot.0 as usize).checked_sub(self.pools[0].slots())?;
        Some(&mut self.joined[place])
    }
}

const LARGER: &str = "what is put together lies in a slot that is not one of the smallest";

/// The size of slot that a frame is to have which begins so; `None` if none is as large.
fn size_of(data: &Data) -> Option<usize> {
    let begins = data.part.more && !data.part.continues;
    let all = if begins { data.offload.map_or(MAX_FRAME_LEN as usize, said_len) } else { 0 };
    // In the smallest, nothing is put together.
    Some(size_for(all.max(data.len.get().into()))?.max(begins.into()))
}

/// The smallest size that has room for so many bytes; `None` if none has.
fn size_for(len: usize) -> Option<usize> {
    SIZES.iter().position(|size| len <= *size)
}

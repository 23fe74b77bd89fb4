//! Frames that have arrived from a far host, each in a slot of its own until its last receiver has
//! it.

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

/// The sizes of slots in bytes: for a frame at an MTU of 1500, for one at an MTU of 9000 or a
/// middle-sized segment, and for the longest frame. A frame lies in the smallest that fits, so that
/// large slots are left for frames that need them.
const SIZES: [usize; 3] = [2 << 10, 16 << 10, MAX_FRAME_LEN as usize];

/// For how many streams that found no slot the wanted size is remembered.
const MOST_WANTED: usize = 8 << 10;

/// The number of slots of each size.
pub type Counts = [u32; SIZES.len()];

/// Where the offload header has the frame's length in KiB, rounded up: in place of a field that is
/// unused here (docs/protocol.md).
const KIB: Range<usize> = 10..Offload::LEN;

/// Writes a frame's length into the offload header of its first part.
pub fn say_len(said: &mut [u8; Offload::LEN], len: usize) {
    let kib = len.div_ceil(1 << 10).max(2) as u16;
    said[KIB].copy_from_slice(&kib.to_le_bytes());
}

/// The greatest length of a frame, as the offload header of its first part says.
fn said_len(said: [u8; Offload::LEN]) -> usize {
    match u16::from_le_bytes([said[KIB.start], said[KIB.start + 1]]) {
        0 | 1 => MAX_FRAME_LEN as usize,
        kib => (usize::from(kib) << 10).min(MAX_FRAME_LEN as usize),
    }
}

/// Where a frame begins in its stream, in the positions of an epoch.
pub type Place = (Stream, Epoch, u64);

/// What is known of an arrived frame.
#[derive(Clone, Copy, Debug)]
pub struct Come {
    /// The network that it belongs to.
    pub network: Network,
    /// Its class, if the far switch says it.
    pub class: Option<Class>,
    /// The position that the session acknowledges once the frame is consumed.
    pub place: Option<Place>,
    /// The stream that its slot is counted for, if the stream is reliable.
    whose: Option<Stream>,
    len: usize,
    /// The sender's offload header, until the frame is whole.
    said: Option<[u8; Offload::LEN]>,
    /// Its offload.
    offload: Offload,
    /// A part of it arrived with a congestion mark (CE).
    is_marked: bool,
    /// How many frames it is, as counted on a wire, once the plane has polled it; 0 before.
    polled: u64,
}

impl Come {
    /// Whether both may be segments of one frame.
    fn is_alike(&self, other: &Self) -> bool {
        let of = |come: &Self| {
            (come.network, come.class, come.place.map(|(stream, epoch, _)| (stream, epoch)))
        };
        of(self) == of(other) && [self, other].iter().all(|come| come.offload == Offload::NONE)
    }
}

/// A frame, or a part of one, that waits for earlier ones.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its slot. `None`: it lies behind the earlier parts of its frame.
    pub slot: Option<Slot>,
    /// Its length in bytes.
    len: u16,
    /// Which part of a frame it is.
    part: Part,
    /// It arrived with a congestion mark (CE).
    is_marked: bool,
}

/// A frame whose first parts are in order, and others are missing.
#[derive(Clone, Copy, Debug)]
struct Growing {
    slot: Slot,
    /// The position of its next part in the stream.
    end: u64,
}

/// The slots, numbered from the smallest size to the largest.
pub struct Frames {
    pools: [Pool; SIZES.len()],
    /// The quotas of each size's slots.
    places: [Quota; SIZES.len()],
    /// What is known of the frames there, by size and slot. It grows with the slots that were ever
    /// taken, the lowest first: an idle host costs nothing.
    come: [Vec<Option<Come>>; SIZES.len()],
    /// For each slot but the smallest: the positions of the parts or segments behind the first one.
    joined: [Vec<Vec<u64>>; SIZES.len()],
    growing: BTreeMap<Stream, Growing>,
    /// The positions of frames that were dropped before they were whole.
    torn: Vec<Place>,
    /// The epoch of the streams' positions.
    epoch: Epoch,
    /// How many frames of this epoch the plane holds, as counted on a wire, by class.
    polled: ClassMap<u64>,
    /// Frames whose offload header contradicts them.
    malformed: u64,
    /// The largest size for which each waiting stream found no slot, for a bounded number of
    /// streams.
    wanted: BTreeMap<Stream, usize>,
}

impl Frames {
    /// Memory for so many frames of each size. Pages are touched as they are used.
    pub fn new(counts: Counts) -> Self {
        Self {
            pools: std::array::from_fn(|size| Pool::new(counts[size], SIZES[size])),
            places: counts.map(Quota::new),
            come: Default::default(),
            joined: Default::default(),
            growing: BTreeMap::new(),
            torn: Vec::new(),
            epoch: Epoch::default(),
            polled: ClassMap::default(),
            malformed: 0,
            wanted: BTreeMap::new(),
        }
    }

    /// Whether unreliable frames will soon find no slot.
    pub fn is_short(&self) -> bool {
        self.places.iter().any(Quota::is_short)
    }

    /// Frames whose offload header contradicts them.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Copies a frame with this offload to a free slot. `None` if there is none.
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

    /// Copies a session's frame or part to a free slot, or behind the earlier parts of its frame.
    /// `None` if there is no slot.
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

    /// Remembers that a stream waits because this found no slot. A bound holds against peers that
    /// name ever more streams.
    pub fn wait(&mut self, data: &Data) {
        if self.wanted.len() >= MOST_WANTED && !self.wanted.contains_key(&data.stream) {
            self.wanted.clear();
        }
        let wanted = self.wanted.entry(data.stream).or_default();
        *wanted = size_of(data).unwrap_or_default().max(*wanted);
    }

    /// Forgets that a stream waits.
    pub fn go_on(&mut self, stream: Stream) {
        self.wanted.remove(&stream);
    }

    /// Whether a stream that found no slot may have enough of them now to be asked for more. Parts
    /// behind the first part of a frame need none.
    pub fn welcomes(&self, stream: Stream) -> bool {
        let wanted =
            self.wanted.get(&stream).map_or(&self.places[..], |size| &self.places[*size..=*size]);
        let held: u32 = self.places.iter().map(|places| places.held(stream)).sum();
        wanted.iter().all(|places| places.welcomes(stream))
            || held == 1 && self.growing.contains_key(&stream)
    }

    fn keep_in(
        &mut self,
        bytes: &[u8],
        size: usize,
        claim: Claim,
        network: Network,
    ) -> Option<Slot> {
        let slot = self.take(size, claim)?;
        *self.entry(slot) = Some(Come {
            network,
            class: None,
            place: None,
            whose: claim.whose(),
            len: bytes.len(),
            said: None,
            offload: Offload::NONE,
            is_marked: false,
            polled: 0,
        });
        self.bytes_mut(slot).copy_from_slice(bytes);
        Some(slot)
    }

    /// Puts the next frame or part of a stream in order. Returns the frame that is whole by that,
    /// if any.
    pub fn turn(&mut self, kept: Kept, place: Place) -> Option<Slot> {
        let (stream, _, offset) = place;
        let part = kept.part;
        let network = kept.slot.map(|slot| self.get(slot).network);
        let grows =
            self.growing.get(&stream).filter(|growing| part.continues && growing.end == offset);
        let follows =
            grows.is_some_and(|grows| network.is_none_or(|it| it == self.get(grows.slot).network));
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
            // The first part of its frame never arrived.
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

    /// Appends a part to an incomplete frame. `false` if there is no room for it.
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

    /// Drops the incomplete frame of a stream: what follows is not its rest.
    pub fn tear(&mut self, stream: Stream) {
        if let Some(Growing { slot, .. }) = self.growing.remove(&stream) {
            self.tear_up(slot);
        }
    }

    /// Begins an epoch: all parts of incomplete frames will be sent again.
    pub fn begin_epoch(&mut self, epoch: Epoch) {
        (self.epoch, self.polled) = (epoch, ClassMap::default());
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

    /// The position of the next frame that was dropped before it was whole. Each is returned once.
    pub fn torn(&mut self) -> Option<Place> {
        self.torn.pop()
    }

    /// Applies the sender's offload header to a whole frame. `None` if it contradicts the frame.
    fn finish(&mut self, slot: Slot) -> Option<Slot> {
        let come = *self.get(slot);
        let bytes = self.bytes_mut(slot);
        if let Some(layout) = Layout::of(bytes).filter(|_| come.is_marked)
            && let Some(class) =
                layout.traffic_class(bytes).filter(|class| Ecn::of(*class) != Ecn::NotEct)
        {
            // The layout was read from this header.
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

    /// How many frames of these classes and this epoch, as counted on a wire, were polled and not
    /// released.
    pub fn polled_of(&self, classes: ClassSet) -> u64 {
        classes.iter().map(|class| self.polled[class]).sum()
    }

    /// Frees a frame or part that waited for earlier ones.
    pub fn forget(&mut self, kept: Kept) {
        if let Some(slot) = kept.slot {
            self.release(slot, |_| {});
        }
    }

    /// Polls the first frame that is ready, joined with the next ones if they make one large
    /// segment.
    pub fn next(&mut self, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let first = ready.pop_front()?;
        let slot = self.join(first, ready).unwrap_or(first);
        let polled = self.view(slot).on_wire().1 as u64;
        let come = self.get_mut(slot);
        come.polled = polled;
        if let Some((stream, epoch, _)) = come.place
            && epoch == self.epoch
        {
            self.polled[stream.class] += polled;
        }
        Some(slot)
    }

    /// Joins the segments that follow the first, in a larger slot. `None` if none does.
    fn join(&mut self, first: Slot, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        // Larger frames are large segments already.
        let is_next =
            |slot: Slot| self.find(slot).0 == 0 && self.get(slot).is_alike(self.get(first));
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
        // Without a larger slot, they stay as they are.
        if !self.places[size].can_spare(claim) {
            return None;
        }
        let slot = self.take(size, claim)?;
        let (_, into) = self.find(slot);
        *self.entry(slot) = Some(Come { len: join.len(), ..*self.get(first) });
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
        let (size, slot) = self.find(slot);
        self.come[size][slot as usize].as_ref().expect("the slot has a frame")
    }

    /// What is known of the frame in a slot, to be changed.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Come {
        self.entry(slot).as_mut().expect("the slot has a frame")
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

    /// Frees a slot, and calls `taken` with each position in a stream that its frame had.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slot: Slot, mut taken: impl FnMut(Place)) {
        let come = self.entry(slot).take().expect("the slot has a frame");
        if let Some((stream, epoch, offset)) = come.place {
            if epoch == self.epoch {
                self.polled[stream.class] -= come.polled;
            }
            taken((stream, epoch, offset));
            let joined = self.joined_mut(slot).into_iter().flat_map(|joined| joined.drain(..));
            joined.for_each(|offset| taken((stream, epoch, offset)));
        }
        let (size, slot) = self.find(slot);
        self.pools[size].put(slot);
        self.places[size].put(come.whose);
    }

    /// Whether all slots are free.
    #[cfg(test)]
    pub fn is_all_free(&self) -> bool {
        let is_free = |(pool, places): (&Pool, &Quota)| {
            [pool.free(), places.free() as usize] == [pool.slots(); 2]
        };
        self.growing.is_empty()
            && self.torn.is_empty()
            && self.pools.iter().zip(&self.places).all(is_free)
    }

    /// Takes a free slot of a size, if the quota allows it.
    fn take(&mut self, size: usize, claim: Claim) -> Option<Slot> {
        if !self.places[size].has_for(claim) {
            return None;
        }
        let before: usize = self.pools[..size].iter().map(Pool::slots).sum();
        let number = self.pools[size].take()?;
        let (slot, count) = (Slot(before as u32 + number), number as usize + 1);
        if self.come[size].len() < count {
            self.come[size].resize(count, None);
            if size > 0 {
                self.joined[size].resize(count, Vec::new());
            }
        }
        self.places[size].take(claim);
        self.joined_mut(slot).into_iter().for_each(Vec::clear);
        Some(slot)
    }

    /// The size of a slot, and its number among those.
    fn find(&self, Slot(mut slot): Slot) -> (usize, u32) {
        for (size, pool) in self.pools.iter().enumerate() {
            match slot.checked_sub(pool.slots() as u32) {
                Some(rest) => slot = rest,
                None => return (size, slot),
            }
        }
        unreachable!("slots have numbers below their count")
    }

    /// The positions of the parts or segments behind the first one in a slot. `None` if it is one
    /// of the smallest.
    fn joined_mut(&mut self, slot: Slot) -> Option<&mut Vec<u64>> {
        let (size, slot) = self.find(slot);
        (size > 0).then(|| &mut self.joined[size][slot as usize])
    }

    /// Where it is written down what is known of the frame in a slot.
    fn entry(&mut self, slot: Slot) -> &mut Option<Come> {
        let (size, slot) = self.find(slot);
        &mut self.come[size][slot as usize]
    }
}

const LARGER: &str = "what is put together lies in a slot that is not one of the smallest";

/// The size of slot for a frame with this first part. `None` if none is large enough.
fn size_of(data: &Data) -> Option<usize> {
    let begins = data.part.more && !data.part.continues;
    let all = if begins { data.offload.map_or(MAX_FRAME_LEN as usize, said_len) } else { 0 };
    // In the smallest, frames are not joined.
    Some(size_for(all.max(data.len.get().into()))?.max(begins.into()))
}

/// The smallest size that has room for so many bytes. `None` if none has.
fn size_for(len: usize) -> Option<usize> {
    SIZES.iter().position(|size| len <= *size)
}

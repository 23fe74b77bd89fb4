//! Memory for frames that have arrived from far hosts: one pool for all of them.
//!
//! Each frame lies in a slot of its own until its last receiver has it. Quotas keep a stream, a
//! network and a host from taking the memory of others.

use std::collections::HashMap;
use std::ops::Range;

use datapath::{Network, Peer};
use port::{FrameView, Pool, Slot};
use tunnel::quota::{Claim, Quota};
use tunnel::{Context, Epoch, MAX_FRAME_LEN, Stream};
use units::Class;
use wire::Offload;

/// The sizes of slots in bytes: for a frame at an MTU of 1500, for one at an MTU of 9000 or a
/// middle-sized segment, and for the longest frame. A frame lies in the smallest that fits, so that
/// large slots are left for frames that need them.
pub const SIZES: [usize; 3] = [2 << 10, 16 << 10, MAX_FRAME_LEN as usize];

/// The number of slots of each size.
pub type Counts = [u32; SIZES.len()];

/// How many arrived frames are stored at most: 64 MiB of memory for small ones, 128 MiB for
/// middle-sized ones, 132 MiB for the longest. Pages are touched as they are used.
pub const FRAMES: Counts = [32 << 10, 8 << 10, 2 << 10];

/// That memory together, in bytes.
pub const MEMORY: u64 = {
    let (mut bytes, mut size) = (0, 0);
    while size < SIZES.len() {
        bytes += SIZES[size] as u64 * FRAMES[size] as u64;
        size += 1;
    }
    bytes
};

/// The smallest size that has room for so many bytes. `None` if none has.
pub fn size_for(len: usize) -> Option<usize> {
    SIZES.iter().position(|size| len <= *size)
}

/// A far host as the owner of frames. Of all that ever were, no two are alike, although numbers of
/// hosts are used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Owner {
    /// Its number.
    pub peer: Peer,
    /// How many hosts there were before it.
    pub serial: u64,
}

/// A stream of a far host.
pub type StreamKey = (Owner, Stream);

/// Who shares memory: frames of one network, and frames of one host.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Group {
    Network(Network),
    Host(Owner),
}

fn groups(owner: Owner, network: Network) -> [Group; 2] {
    [Group::Network(network), Group::Host(owner)]
}

/// Where a frame begins in its stream, in the positions of an epoch.
pub type Place = (Stream, Epoch, u64);

/// What is known of a frame in a slot.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The host that it is from.
    pub owner: Owner,
    /// The network that it belongs to.
    pub network: Network,
    /// Its class, if the far switch says it.
    pub class: Option<Class>,
    /// The position that the session acknowledges once the frame is consumed.
    pub place: Option<Place>,
    /// The stream that its slot is counted for, if the stream is reliable.
    pub counted: Option<StreamKey>,
    /// Its length in bytes.
    pub len: usize,
    /// The sender's offload header, until the frame is whole.
    pub said: Option<[u8; Offload::LEN]>,
    /// Its offload.
    pub offload: Offload,
    /// A part of it arrived with a congestion mark (CE).
    pub is_marked: bool,
    /// How many frames it is, as counted on a wire, once the plane has polled it; 0 before.
    pub polled: u64,
    /// Its network is gone: another may have the number.
    pub is_orphan: bool,
}

impl Stored {
    /// Whether both may be segments of one frame, as far as is known of where they are from.
    pub fn is_alike(&self, other: &Self) -> bool {
        let of = |it: &Self| {
            let stream = it.place.map(|(stream, epoch, _)| (stream, epoch));
            (it.owner, it.network, it.is_orphan, it.class, stream)
        };
        of(self) == of(other)
    }
}

/// The slots, numbered from the smallest size to the largest.
pub struct Slots {
    pools: [Pool; SIZES.len()],
    /// The quotas of each size's slots.
    quotas: [Quota<StreamKey, Group>; SIZES.len()],
    /// What is known of the frames there, by size and slot. It grows with the slots that were ever
    /// taken, the lowest first.
    stored: [Vec<Option<Stored>>; SIZES.len()],
    /// For each slot but the smallest: the positions of the parts or segments behind the first one.
    joined: [Vec<Vec<u64>>; SIZES.len()],
    /// What goes with those of logical networks.
    contexts: HashMap<Slot, Context>,
}

impl Slots {
    /// Memory for so many frames of each size. Pages are touched as they are used.
    pub fn new(counts: Counts) -> Self {
        Self {
            pools: std::array::from_fn(|size| Pool::new(counts[size], SIZES[size])),
            quotas: counts.map(Quota::new),
            stored: Default::default(),
            joined: Default::default(),
            contexts: HashMap::new(),
        }
    }

    /// Whether unreliable frames will soon find no slot.
    pub fn is_short(&self) -> bool {
        self.quotas.iter().any(Quota::is_short)
    }

    /// Whether a stream that found no slot of this size in this network may have enough of them now
    /// to be asked for more; of any size, if that is not known.
    pub fn welcomes(&self, stream: StreamKey, wanted: Option<(usize, Network)>) -> bool {
        let quotas = wanted.map_or(&self.quotas[..], |(size, _)| &self.quotas[size..=size]);
        let groups = wanted.map(|(_, network)| groups(stream.0, network));
        quotas.iter().all(|quota| quota.welcomes(stream, groups))
    }

    /// Keeps this part of all slots for a network's frames, of each size alike; 0 for none.
    pub fn keep(&mut self, network: Network, bytes: u64) {
        let Self { pools, quotas, .. } = self;
        let all: u64 =
            pools.iter().zip(SIZES).map(|(pool, size)| (pool.slots() * size) as u64).sum();
        for (pool, quota) in pools.iter().zip(quotas) {
            let slots = u128::from(bytes.min(all)) * pool.slots() as u128 / u128::from(all.max(1));
            quota.keep(Group::Network(network), slots as u32);
        }
    }

    /// How many bytes the slots of a network's frames have.
    pub fn held_by(&self, network: Network) -> u64 {
        let held = |(quota, size): (&Quota<_, _>, usize)| {
            u64::from(quota.held_by(Group::Network(network))) * size as u64
        };
        self.quotas.iter().zip(SIZES).map(held).sum()
    }

    /// How many slots a stream has.
    pub fn held(&self, stream: StreamKey) -> u32 {
        self.quotas.iter().map(|quota| quota.held(stream)).sum()
    }

    /// Whether a frame like this may have a larger slot although it could do without.
    pub fn can_spare(&self, size: usize, claim: Claim<StreamKey>, frame: &Stored) -> bool {
        self.quotas[size].can_spare(claim, groups(frame.owner, frame.network))
    }

    /// Copies bytes of a host to a free slot of this size. `None` if there is none for them.
    pub fn store(
        &mut self,
        size: usize,
        owner: Owner,
        claim: Claim<StreamKey>,
        network: Network,
        bytes: &[u8],
    ) -> Option<Slot> {
        let stored = Stored {
            owner,
            network,
            class: None,
            place: None,
            counted: claim.whose(),
            len: bytes.len(),
            said: None,
            offload: Offload::NONE,
            is_marked: false,
            polled: 0,
            is_orphan: false,
        };
        let slot = self.take(size, claim, stored)?;
        self.bytes_mut(slot).copy_from_slice(bytes);
        Some(slot)
    }

    /// Takes a free slot of a size for a frame of which this is known, if the quotas allow it. Its
    /// bytes are what they were.
    pub fn take(&mut self, size: usize, claim: Claim<StreamKey>, stored: Stored) -> Option<Slot> {
        let groups = groups(stored.owner, stored.network);
        if !self.quotas[size].has_for(claim, groups) {
            return None;
        }
        let before: usize = self.pools[..size].iter().map(Pool::slots).sum();
        let number = self.pools[size].take()?;
        let (slot, count) = (Slot(before as u32 + number), number as usize + 1);
        if self.stored[size].len() < count {
            self.stored[size].resize(count, None);
            if size > 0 {
                self.joined[size].resize(count, Vec::new());
            }
        }
        self.quotas[size].take(claim, groups);
        self.stored[size][number as usize] = Some(stored);
        self.joined_mut(slot).into_iter().for_each(Vec::clear);
        Some(slot)
    }

    /// Frees a slot. Returns what was known of its frame, and the other positions that it had in
    /// its stream.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slot: Slot) -> (Stored, impl Iterator<Item = u64>) {
        let (size, number) = self.find(slot);
        self.set_context(slot, None);
        let Self { pools, quotas, stored, joined, .. } = self;
        let gone = stored[size][number as usize].take().expect("the slot has a frame");
        pools[size].put(number);
        quotas[size].put(gone.counted, groups(gone.owner, gone.network));
        let others = joined[size].get_mut(number as usize).into_iter();
        (gone, others.flat_map(|positions| positions.drain(..)))
    }

    /// Frees the slots of frames that were not polled and whose owner `is_here` no more, and marks
    /// those whose network `is_carried` no more.
    pub fn retire(
        &mut self,
        is_here: impl Fn(Owner) -> bool,
        is_carried: impl Fn(Network) -> bool,
    ) {
        let Self { pools, quotas, stored, joined, .. } = self;
        let mut before = 0;
        for (size, stored) in stored.iter_mut().enumerate() {
            for (number, place) in stored.iter_mut().enumerate() {
                let Some(frame) = place.as_mut().filter(|frame| frame.polled == 0) else {
                    continue;
                };
                frame.is_orphan |= !is_carried(frame.network);
                if is_here(frame.owner) {
                    continue;
                }
                pools[size].put(number as u32);
                quotas[size].put(frame.counted, groups(frame.owner, frame.network));
                joined[size].get_mut(number).into_iter().for_each(Vec::clear);
                *place = None;
                self.contexts.remove(&Slot((before + number) as u32));
            }
            before += pools[size].slots();
        }
    }

    /// What is known of the frame in a slot.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get(&self, slot: Slot) -> &Stored {
        let (size, slot) = self.find(slot);
        self.stored[size][slot as usize].as_ref().expect("the slot has a frame")
    }

    /// Whether any frame is a logical network's.
    #[inline]
    pub fn has_contexts(&self) -> bool {
        !self.contexts.is_empty()
    }

    /// What goes with the frame in a slot, if it is a logical network's.
    #[inline]
    pub fn context(&self, slot: Slot) -> Option<Context> {
        if self.contexts.is_empty() {
            return None;
        }
        self.contexts.get(&slot).copied()
    }

    /// The frame in a slot has this context, or none.
    #[inline]
    pub fn set_context(&mut self, slot: Slot, context: Option<Context>) {
        match context {
            Some(context) => drop(self.contexts.insert(slot, context)),
            None if self.contexts.is_empty() => {}
            None => drop(self.contexts.remove(&slot)),
        }
    }

    /// What is known of the frame in a slot, to be changed.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Stored {
        let (size, slot) = self.find(slot);
        self.stored[size][slot as usize].as_mut().expect("the slot has a frame")
    }

    /// The frame in a slot.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn view(&self, slot: Slot) -> FrameView<'_> {
        let stored = self.get(slot);
        let (size, slot) = self.find(slot);
        FrameView::noted(&self.pools[size].bytes(slot)[..stored.len], &stored.offload)
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

    /// The size of a frame's slot: a place in [`SIZES`].
    pub fn size(&self, slot: Slot) -> usize {
        self.find(slot).0
    }

    /// Writes bytes behind the frame in a slot, without making it longer. `false` if there is no
    /// room for them.
    pub fn write_behind(&mut self, slot: Slot, bytes: &[u8]) -> bool {
        let len = self.get(slot).len;
        let (size, number) = self.find(slot);
        let into = self.pools[size].bytes_mut(number).get_mut(len..len + bytes.len());
        into.is_some_and(|into| {
            into.copy_from_slice(bytes);
            true
        })
    }

    /// Appends these bytes of another slot to the frame in a slot. `false` if there is no room for
    /// them.
    pub fn append(&mut self, slot: Slot, from: Slot, bytes: Range<usize>) -> bool {
        let (at, len) = (self.get(slot).len, bytes.len());
        let ((to, into), (size, part)) = (self.find(slot), self.find(from));
        if at + len > SIZES[to] {
            return false;
        }
        match self.pools.get_disjoint_mut([to, size]) {
            Ok([to, from]) => {
                to.bytes_mut(into)[at..at + len].copy_from_slice(&from.bytes(part)[bytes]);
            }
            Err(_) => self.pools[to].copy(part, bytes, into, at),
        }
        self.get_mut(slot).len += len;
        true
    }

    /// The frame in a slot has another position in its stream: that of a part or a segment behind
    /// the first one.
    ///
    /// # Panics
    ///
    /// If the slot is one of the smallest.
    pub fn join(&mut self, slot: Slot, position: u64) {
        self.joined_mut(slot).expect("frames are not joined in the smallest slots").push(position);
    }

    /// How many slots of each size there are.
    #[cfg(test)]
    pub fn counts(&self) -> Counts {
        self.pools.each_ref().map(|pool| pool.slots() as u32)
    }

    /// Whether all slots are free.
    #[cfg(test)]
    pub fn is_all_free(&self) -> bool {
        let all = self.pools.iter().zip(&self.quotas);
        all.into_iter()
            .all(|(pool, quota)| [pool.free(), quota.free() as usize] == [pool.slots(); 2])
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = [320, 80, 20];

    #[test]
    fn memory_that_is_kept_for_a_network_is_there_when_others_have_filled_all_else() {
        let owner = Owner { peer: Peer::new(1).expect("it is a number"), serial: 1 };
        let [kept, others] = [1, 2].map(|number| Network::new(number).expect("it is a number"));
        let mut slots = Slots::new(COUNTS);
        let all: u64 =
            COUNTS.iter().zip(SIZES).map(|(count, size)| u64::from(*count) * size as u64).sum();
        slots.keep(kept, all / 2);
        let mut fill = |network, size: usize| {
            let store = || slots.store(size, owner, Claim::Unreliable, network, &[0; 60]);
            std::iter::from_fn(store).count() as u32
        };
        for (size, count) in COUNTS.into_iter().enumerate() {
            assert!(fill(others, size) <= count / 2);
            assert_eq!(fill(kept, size), count / 2, "of size {size}");
        }
        let held: u64 =
            COUNTS.iter().zip(SIZES).map(|(count, size)| u64::from(count / 2) * size as u64).sum();
        assert_eq!(slots.held_by(kept), held);
    }
}

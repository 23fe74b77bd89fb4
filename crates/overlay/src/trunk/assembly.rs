//! Frames that arrive from one far host, and are not whole or not in order yet.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use datapath::Network;
use port::Slot;
use tunnel::quota::Claim;
use tunnel::{Data, Epoch, MAX_FRAME_LEN, Part, Stream};
use units::{Class, ClassMap, ClassSet};
use wire::ecn::Ecn;
use wire::{Join, Layout, Offload};

use crate::slots::{Owner, Place, Slots, Stored, StreamKey, size_for};

/// For how many streams that found no slot the wanted size is remembered.
const MOST_WANTED: usize = 8 << 10;

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

/// The frames of one far host until they are whole and in order. They lie in slots that all hosts
/// share.
pub struct Assembly {
    owner: Owner,
    growing: BTreeMap<Stream, Growing>,
    /// The positions of frames that were dropped before they were whole.
    torn: Vec<Place>,
    /// The epoch of the streams' positions.
    epoch: Epoch,
    /// How many frames of this epoch the plane holds, as counted on a wire, by class.
    polled: ClassMap<u64>,
    /// Frames whose offload header contradicts them.
    malformed: u64,
    /// The largest size for which each waiting stream found no slot, and its network, for a bounded
    /// number of streams.
    wanted: BTreeMap<Stream, (usize, Network)>,
}

impl Assembly {
    /// Nothing has arrived from this host.
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            growing: BTreeMap::new(),
            torn: Vec::new(),
            epoch: Epoch::default(),
            polled: ClassMap::default(),
            malformed: 0,
            wanted: BTreeMap::new(),
        }
    }

    /// The host.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Frames whose offload header contradicts them.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    fn key(&self, stream: Stream) -> StreamKey {
        (self.owner, stream)
    }

    /// Copies a frame with this offload to a free slot. `None` if there is none.
    pub fn keep(
        &self,
        slots: &mut Slots,
        frame: &[u8],
        network: Network,
        class: Option<Class>,
        offload: Offload,
    ) -> Option<Slot> {
        let size = size_for(frame.len())?;
        let slot = slots.store(size, self.owner, Claim::Unreliable, network, frame)?;
        let stored = slots.get_mut(slot);
        (stored.class, stored.offload) = (class, offload);
        Some(slot)
    }

    /// Copies a session's frame or part to a free slot, or behind the earlier parts of its frame.
    /// `None` if there is no slot.
    pub fn keep_data(
        &self,
        slots: &mut Slots,
        data: &Data,
        is_marked: bool,
        claim: Claim<Stream>,
        bytes: &[u8],
        network: Network,
    ) -> Option<Kept> {
        let kept = |slot| Kept { slot, len: data.len.get(), part: data.part, is_marked };
        if data.part.continues
            && let Some(growing) = self.growing.get(&data.stream)
            && growing.end as u32 == data.offset
            && slots.get(growing.slot).network == network
            && slots.write_behind(growing.slot, bytes)
        {
            return Some(kept(None));
        }
        let claim = claim.map(|stream| self.key(stream));
        let slot = slots.store(size_of(data)?, self.owner, claim, network, bytes)?;
        let stored = slots.get_mut(slot);
        (stored.class, stored.said) = (Some(data.stream.class), data.offload);
        stored.is_marked = is_marked && data.part != Part::WHOLE;
        slots.set_context(slot, data.context);
        Some(kept(Some(slot)))
    }

    /// Remembers that a stream waits because this found no slot. A bound holds against peers that
    /// name ever more streams.
    pub fn wait(&mut self, data: &Data, network: Network) {
        if self.wanted.len() >= MOST_WANTED && !self.wanted.contains_key(&data.stream) {
            self.wanted.clear();
        }
        let size = size_of(data).unwrap_or_default();
        let wanted = self.wanted.entry(data.stream).or_insert((size, network));
        *wanted = (size.max(wanted.0), network);
    }

    /// Forgets that a stream waits.
    pub fn go_on(&mut self, stream: Stream) {
        self.wanted.remove(&stream);
    }

    /// Whether a stream that found no slot may have enough of them now to be asked for more. Parts
    /// behind the first part of a frame need none.
    pub fn welcomes(&self, slots: &Slots, stream: Stream) -> bool {
        let key = self.key(stream);
        slots.welcomes(key, self.wanted.get(&stream).copied())
            || slots.held(key) == 1 && self.growing.contains_key(&stream)
    }

    /// Puts the next frame or part of a stream in order. Returns the frame that is whole by that,
    /// if any.
    pub fn advance(&mut self, slots: &mut Slots, kept: Kept, place: Place) -> Option<Slot> {
        let (stream, _, offset) = place;
        let part = kept.part;
        let network = kept.slot.map(|slot| slots.get(slot).network);
        let grows =
            self.growing.get(&stream).filter(|growing| part.continues && growing.end == offset);
        let follows =
            grows.is_some_and(|grows| network.is_none_or(|it| it == slots.get(grows.slot).network));
        if !follows {
            self.tear(slots, stream);
        }
        let end = offset + u64::from(kept.len);
        let slot = match kept.slot {
            Some(slot) if !part.continues => {
                slots.get_mut(slot).place = Some(place);
                slot
            }
            _ if follows => {
                let slot = self.growing[&stream].slot;
                if !self.append(slots, slot, kept) {
                    self.malformed += 1;
                    self.tear(slots, stream);
                    self.torn.push(place);
                    return None;
                }
                slots.join(slot, offset);
                slot
            }
            // The first part of its frame never arrived.
            _ => {
                self.torn.push(place);
                self.forget(slots, kept);
                return None;
            }
        };
        if part.more {
            self.growing.insert(stream, Growing { slot, end });
            return None;
        }
        self.growing.remove(&stream);
        self.finish(slots, slot)
    }

    /// Appends a part to an incomplete frame. `false` if there is no room for it.
    fn append(&mut self, slots: &mut Slots, slot: Slot, kept: Kept) -> bool {
        let len = usize::from(kept.len);
        slots.get_mut(slot).is_marked |= kept.is_marked;
        let Some(part) = kept.slot else {
            slots.get_mut(slot).len += len;
            return true;
        };
        let has_room = slots.append(slot, part, 0..len);
        self.forget(slots, kept);
        has_room
    }

    /// Drops the incomplete frame of a stream: what follows is not its rest.
    pub fn tear(&mut self, slots: &mut Slots, stream: Stream) {
        if let Some(Growing { slot, .. }) = self.growing.remove(&stream) {
            self.tear_up(slots, slot);
        }
    }

    /// Begins an epoch: all parts of incomplete frames will be sent again.
    pub fn begin_epoch(&mut self, slots: &mut Slots, epoch: Epoch) {
        (self.epoch, self.polled) = (epoch, ClassMap::default());
        self.wanted.clear();
        for Growing { slot, .. } in std::mem::take(&mut self.growing).into_values() {
            self.tear_up(slots, slot);
        }
    }

    fn tear_up(&mut self, slots: &mut Slots, slot: Slot) {
        let mut torn = std::mem::take(&mut self.torn);
        self.release(slots, slot, |place| torn.push(place));
        self.torn = torn;
    }

    /// The position of the next frame that was dropped before it was whole. Each is returned once.
    pub fn torn(&mut self) -> Option<Place> {
        self.torn.pop()
    }

    /// Applies the sender's offload header to a whole frame. `None` if it contradicts the frame.
    fn finish(&mut self, slots: &mut Slots, slot: Slot) -> Option<Slot> {
        let Stored { len, said, is_marked, .. } = *slots.get(slot);
        let bytes = slots.bytes_mut(slot);
        if let Some(layout) = Layout::of(bytes).filter(|_| is_marked)
            && let Some(class) =
                layout.traffic_class(bytes).filter(|class| Ecn::of(*class) != Ecn::NotEct)
        {
            // The layout was read from this header.
            let _ = layout.set_traffic_class(bytes, Ecn::Ce.within(class));
        }
        let Some(said) = said else { return Some(slot) };
        if let Ok(offload) = Offload::parse(&said, bytes)
            && len <= said_len(said)
        {
            slots.get_mut(slot).offload = offload;
            return Some(slot);
        }
        self.malformed += 1;
        self.tear_up(slots, slot);
        None
    }

    /// How many frames of these classes and this epoch, as counted on a wire, were polled and not
    /// released.
    pub fn polled_of(&self, classes: ClassSet) -> u64 {
        classes.iter().map(|class| self.polled[class]).sum()
    }

    /// Frees a frame or part that waited for earlier ones.
    pub fn forget(&mut self, slots: &mut Slots, kept: Kept) {
        if let Some(slot) = kept.slot {
            self.release(slots, slot, |_| {});
        }
    }

    /// Polls the first frame that is ready, joined with the next ones if they make one large
    /// segment.
    pub fn next(&mut self, slots: &mut Slots, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        let first = ready.pop_front()?;
        let slot = self.join(slots, first, ready).unwrap_or(first);
        let polled = slots.view(slot).on_wire().1 as u64;
        let stored = slots.get_mut(slot);
        stored.polled = polled;
        if let Some((stream, epoch, _)) = stored.place
            && epoch == self.epoch
        {
            self.polled[stream.class] += polled;
        }
        Some(slot)
    }

    /// Joins the segments that follow the first, in a larger slot. `None` if none does.
    fn join(&mut self, slots: &mut Slots, first: Slot, ready: &mut VecDeque<Slot>) -> Option<Slot> {
        // Larger frames are large segments already.
        let is_single =
            |slot: Slot| slots.size(slot) == 0 && slots.get(slot).offload == Offload::NONE;
        if ready.is_empty() || !is_single(first) {
            return None;
        }
        let one = slots.view(first).bytes;
        let mut join = Join::begin(one)?;
        let has_contexts = slots.has_contexts();
        let is_next = |slot: Slot| {
            is_single(slot)
                && slots.get(slot).is_alike(slots.get(first))
                && (!has_contexts || slots.context(slot) == slots.context(first))
        };
        let mut header_len = 0;
        for next in ready.iter().copied().take_while(|next| is_next(*next)) {
            let other = slots.view(next).bytes;
            let Some(payload) = join.follow(one, other) else { break };
            header_len = other.len() - payload.len();
        }
        let size = size_for(join.len())?.max(1);
        if join.count() == 1 {
            return None;
        }
        let whole = Stored { len: 0, ..*slots.get(first) };
        let claim = whole.counted.map_or(Claim::Unreliable, Claim::Reliable);
        // Without a larger slot, they stay as they are.
        if !slots.can_spare(size, claim, &whole) {
            return None;
        }
        let slot = slots.take(size, claim, whole)?;
        slots.set_context(slot, slots.context(first));
        let others = ready.drain(..usize::from(join.count()) - 1).map(|next| (next, header_len));
        for (segment, from) in std::iter::once((first, 0)).chain(others) {
            let Stored { place, len, .. } = *slots.get(segment);
            let has_room = slots.append(slot, segment, from..len);
            debug_assert!(has_room, "the size is that of all of them");
            if from > 0
                && let Some((.., offset)) = place
            {
                slots.join(slot, offset);
            }
            self.release(slots, segment, |_| {});
        }
        let offload = join.finish(slots.bytes_mut(slot));
        slots.get_mut(slot).offload = offload;
        Some(slot)
    }

    /// Frees a slot, and calls `consumed` with each position in a stream that its frame had.
    ///
    /// # Panics
    ///
    /// If it had none.
    pub fn release(&mut self, slots: &mut Slots, slot: Slot, mut consumed: impl FnMut(Place)) {
        let (Stored { place, polled, .. }, others) = slots.release(slot);
        if let Some((stream, epoch, offset)) = place {
            if epoch == self.epoch {
                self.polled[stream.class] -= polled;
            }
            consumed((stream, epoch, offset));
            others.for_each(|offset| consumed((stream, epoch, offset)));
        }
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.growing.is_empty() && self.torn.is_empty()
    }
}

/// The size of slot for a frame with this first part. `None` if none is large enough.
fn size_of(data: &Data) -> Option<usize> {
    let begins = data.part.more && !data.part.continues;
    let all = if begins { data.offload.map_or(MAX_FRAME_LEN as usize, said_len) } else { 0 };
    // In the smallest, frames are not joined.
    Some(size_for(all.max(data.len.get().into()))?.max(begins.into()))
}

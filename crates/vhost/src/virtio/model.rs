//! A guest and its driver as a model, and devices that are killed between any two looks at shared
//! memory.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use super::log::Places;
use super::memory::{GuestMemory, Region};
use super::numbers::Numbers;
use super::packed::Turn;
use super::ring::{Base, Ring};
use super::{Descriptor, Parts};
use port::Span;

type Hook = Box<dyn FnMut()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Called before each look at a number that is shared, and before each change of one.
pub(super) fn step() {
    let hook = HOOK.take();
    if let Some(mut hook) = hook {
        hook();
        HOOK.set(Some(hook));
    }
}

/// Has `hook` called at each step of this thread.
pub(super) fn at_each_step(hook: Option<Hook>) {
    HOOK.set(hook);
}

struct Killed;

/// Does some work, unless it takes more than `left` steps: then it ends between two of them, as a
/// process that is killed.
pub(super) fn killed_after<T>(left: &mut u32, work: impl FnOnce() -> T) -> Option<T> {
    let steps = std::rc::Rc::new(std::cell::Cell::new(*left));
    let counted = steps.clone();
    at_each_step(Some(Box::new(move || match counted.get().checked_sub(1) {
        Some(less) => counted.set(less),
        None => resume_unwind(Box::new(Killed)),
    })));
    let outcome: Result<T, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(work));
    at_each_step(None);
    *left = steps.get();
    match outcome {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// How many descriptors a chain of the model has at most, and how many bytes each buffer.
pub(super) const PIECES: u16 = 3;
pub(super) const BUFFER: usize = 64;

/// What a frame has before its number: a virtio header and an Ethernet header.
pub(super) const BEFORE: usize = 12 + 14;

/// A guest with one ring, and the record of it.
pub(super) struct Model {
    // Never looked at: only spans of it are. No box, which would claim the bytes for itself
    // whenever it is moved.
    _bytes: Vec<u128>,
    all: Span,
    pub(super) parts: Parts,
    pub(super) record: Span,
    pub(super) size: u16,
    pub(super) packed: bool,
    pub(super) events: bool,
    writable: bool,
    buffers: Span,
    /// By id: what was made available and has not come back: its descriptors and its frame.
    pub(super) posted: BTreeMap<u16, (Vec<u16>, u32)>,
    /// Split: descriptors that are free; packed: ids.
    free: Vec<u16>,
    /// How many descriptors are free.
    room: u16,
    available: Turn,
    used: Turn,
    /// The same as indices of a split ring.
    available_index: u16,
    used_index: u16,
    /// How much was made available since the device was last told: heads of a split ring,
    /// descriptors of a packed one.
    fresh: u16,
}

const NEW: Turn = Turn { index: 0, wrap: true };

impl Model {
    pub(super) fn new(size: u16, packed: bool, events: bool, writable: bool) -> Self {
        let lens = Parts::lens(size, packed);
        let record = Ring::record_len(size, packed);
        let buffers = usize::from(size * PIECES) * BUFFER;
        let len = lens.iter().sum::<usize>() + record + buffers + 5 * 64;
        let mut bytes = vec![0_u128; len.div_ceil(16)];
        let start = NonNull::new(bytes.as_mut_ptr().cast()).unwrap();
        // SAFETY: the bytes live as long as the model, in whose tests all spans of it are used.
        #[expect(unsafe_code, reason = "a guest's memory is shared")]
        let all = unsafe { Span::new(start, len) };
        let mut rest = all;
        let mut cut = |len: usize| {
            let (span, behind) = rest.split(len.next_multiple_of(64));
            rest = behind;
            span.split(len).0
        };
        let parts = Parts::new(lens.map(&mut cut), size, packed).unwrap();
        let (record, buffers) = (cut(record), cut(buffers));
        Self {
            _bytes: bytes,
            all,
            parts,
            record,
            size,
            packed,
            events,
            writable,
            buffers,
            posted: BTreeMap::new(),
            free: (0..size).rev().collect(),
            room: size,
            available: NEW,
            used: NEW,
            available_index: 0,
            used_index: 0,
            fresh: 0,
        }
    }

    pub(super) fn memory(&self) -> GuestMemory {
        GuestMemory::new(vec![Region { address: 0, span: self.all }])
    }

    /// The ring from the device's side, as a front-end hands it over that remembers nothing.
    pub(super) fn ring(&self) -> Ring {
        let base =
            if self.packed { Base::Packed { available: NEW, used: NEW } } else { Base::Split(0) };
        Ring::new(self.parts, self.size, self.events, base)
    }

    /// A buffer and its address.
    fn buffer(&self, number: u16) -> (Span, u64) {
        let span = self.buffers.split(usize::from(number) * BUFFER).1.split(BUFFER).0;
        (span, self.address(span))
    }

    fn address(&self, span: Span) -> u64 {
        (span.start().addr().get() - self.all.start().addr().get()) as u64
    }

    /// Where its ring's parts are for the guest.
    pub(super) fn places(&self) -> Places {
        Places {
            descriptors: self.address(self.parts.descriptors),
            device: self.address(self.parts.device),
        }
    }

    /// All of its memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.all.len()];
        self.all.read(&mut bytes);
        bytes
    }

    /// Makes a frame available, in so many pieces; `false` if there is no room.
    pub(super) fn post(&mut self, pieces: u16, frame: u32) -> bool {
        if self.room < pieces || self.free.is_empty() {
            return false;
        }
        self.room -= pieces;
        let count = usize::from(pieces);
        let split = self.free.len() - if self.packed { 1 } else { count };
        let ids = self.free.split_off(split);
        let places: Vec<u16> =
            if self.packed { (0..pieces).map(|n| ids[0] * PIECES + n).collect() } else { ids };
        let id = if self.packed { places[0] / PIECES } else { places[0] };

        let bytes = [&[0; BEFORE][..], &frame.to_le_bytes()].concat();
        let cut = bytes.len().div_ceil(count);
        let pieces =
            places.iter().zip(bytes.chunks(cut)).enumerate().map(|(n, (&place, piece))| {
                let (span, address) = self.buffer(place);
                let flags = if n + 1 == count { 0 } else { Descriptor::NEXT };
                if self.writable {
                    return (address, BUFFER as u64, flags | Descriptor::WRITE);
                }
                span.write(piece);
                (address, piece.len() as u64, flags)
            });
        let descriptors: Vec<_> = pieces.collect();
        if self.packed {
            // The first one's flags come last.
            for (ahead, (address, len, flags)) in descriptors.into_iter().enumerate().rev() {
                let place = after(self.available, ahead as u16, self.size);
                let flags = flags | if place.wrap { 1 << 7 } else { 1 << 15 };
                let at = 16 * usize::from(place.index);
                self.parts.descriptors.u64(at).store(address, Relaxed);
                let word = len | u64::from(id) << 32 | u64::from(flags) << 48;
                self.parts.descriptors.u64(at + 8).store(word, Release);
            }
            self.available = after(self.available, count as u16, self.size);
            self.fresh += count as u16;
        } else {
            for (n, (address, len, flags)) in descriptors.into_iter().enumerate() {
                let at = 16 * usize::from(places[n]);
                let next = places.get(n + 1).copied().unwrap_or(0);
                self.parts.descriptors.u64(at).store(address, Relaxed);
                let word = len | u64::from(flags) << 32 | u64::from(next) << 48;
                self.parts.descriptors.u64(at + 8).store(word, Relaxed);
            }
            let at = 4 + 2 * usize::from(self.available_index % self.size);
            self.parts.driver.u16(at).store(id, Relaxed);
            self.available_index = self.available_index.wrapping_add(1);
            self.parts.driver.u16(2).store(self.available_index, Release);
            self.fresh += 1;
        }
        assert!(self.posted.insert(id, (places, frame)).is_none());
        true
    }

    /// The next chain that came back: its frame, and how many bytes were written to it.
    ///
    /// # Panics
    ///
    /// If it was not the device's to give back.
    pub(super) fn collect(&mut self) -> Option<(u32, u32)> {
        let (id, len) = if self.packed {
            let word =
                self.parts.descriptors.u64(16 * usize::from(self.used.index) + 8).load(Acquire);
            let flags = (word >> 48) as u16;
            if [flags & 1 << 7 != 0, flags & 1 << 15 != 0] != [self.used.wrap; 2] {
                return None;
            }
            ((word >> 32) as u16, word as u32)
        } else {
            if self.parts.device.u16(2).load(Acquire) == self.used_index {
                return None;
            }
            let at = 4 + 8 * usize::from(self.used_index % self.size);
            self.used_index = self.used_index.wrapping_add(1);
            (
                self.parts.device.u32(at).load(Relaxed) as u16,
                self.parts.device.u32(at + 4).load(Relaxed),
            )
        };
        let (places, frame) = self.posted.remove(&id).expect("it was not given back yet");
        self.room += places.len() as u16;
        if self.packed {
            self.used = after(self.used, places.len() as u16, self.size);
            self.free.push(id);
        } else {
            self.free.extend(places);
        }
        Some((frame, len))
    }

    /// Whether the device wants to be notified of what was made available since the last time
    /// (§2.7.13.4, §2.8.21.3).
    pub(super) fn must_kick(&mut self) -> bool {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh == 0 {
            return false;
        }
        fence(SeqCst);
        let is_among = |event: u16, new: u16| new.wrapping_sub(event).wrapping_sub(1) < fresh;
        let device = self.parts.device;
        if !self.packed && self.events {
            let event = device.u16(4 + 8 * usize::from(self.size)).load(Relaxed);
            return is_among(event, self.available_index);
        }
        if !self.packed {
            return device.u16(0).load(Relaxed) & 1 == 0;
        }
        let wish = device.u32(0).load(Relaxed);
        let (index, wrap) = (wish as u16 & 0x7fff, wish & 0x8000 != 0);
        let event = if wrap == self.available.wrap { index } else { index.wrapping_sub(self.size) };
        match wish >> 16 {
            0 => true,
            2 => is_among(event, self.available.index),
            _ => false,
        }
    }

    /// Asks to be interrupted for what is used next. Whether something is already (§2.7.7.1,
    /// §2.8.21.3.1).
    pub(super) fn ask(&mut self) -> bool {
        let driver = self.parts.driver;
        match (self.packed, self.events) {
            (false, false) => driver.u16(0).store(0, Relaxed),
            (false, true) => {
                driver.u16(4 + 2 * usize::from(self.size)).store(self.used_index, Relaxed)
            }
            (true, false) => driver.u32(0).store(0, Relaxed),
            (true, true) => {
                let place = u32::from(self.used.index) | u32::from(self.used.wrap) << 15;
                driver.u32(0).store(place | 2 << 16, Relaxed);
            }
        }
        fence(SeqCst);
        if self.packed {
            let word =
                self.parts.descriptors.u64(16 * usize::from(self.used.index) + 8).load(Acquire);
            let flags = (word >> 48) as u16;
            [flags & 1 << 7 != 0, flags & 1 << 15 != 0] == [self.used.wrap; 2]
        } else {
            self.parts.device.u16(2).load(Acquire) != self.used_index
        }
    }

    /// Asks not to be interrupted.
    pub(super) fn be_silent(&mut self) {
        match (self.packed, self.events) {
            (false, false) => self.parts.driver.u16(0).store(1, Relaxed),
            (false, true) => {}
            (true, _) => self.parts.driver.u32(0).store(1 << 16, Relaxed),
        }
    }
}

/// So many descriptors further.
fn after(turn: Turn, count: u16, size: u16) -> Turn {
    let index = turn.index + count;
    if index >= size {
        Turn { index: index - size, wrap: !turn.wrap }
    } else {
        Turn { index, ..turn }
    }
}

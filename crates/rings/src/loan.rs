//! Slots that one side lends to another, and gets back.
//!
//! ```text
//!              ┌──────── lent: slot, length ────────▶┐
//!   Lender     │  slot 0 │ slot 1 │ slot 2 │ …       │     Borrower
//!   fills, reads                                           reads, fills
//!              └◀───── given back: slot, length ─────┘
//! ```
//!
//! A slot has one user at any time: a slot that was lent is the borrower's until it was given back. Both
//! directions of a port are loans. A sender lends frames, and its slots come back empty; a receiver lends empty
//! slots, and they come back as frames.
//!
//! With each slot travel a length and, where there is something to say, a [`Note`]: what its next user must know
//! about the bytes.
//!
//! Neither side believes the other's numbers. A slot that does not exist, a length that does not fit, a slot that
//! is lent while it is still out, or one that is given back while it is not, is counted as refused and not touched.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::ptr::NonNull;

use zerocopy::{FromBytes, IntoBytes};

use crate::LINE;
use crate::heap::Heap;
use crate::pool::{CACHE_LINE, stride_lines};
use crate::ring::{self, Consumer, Corrupt, Producer, RingError};

/// How many slots a loan has, and how large they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// From 1 to [`ring::MAX_CAPACITY`].
    pub slots: u32,
    /// Bytes in a slot, from 1 to [`MAX_SLOT_SIZE`].
    pub slot_size: u32,
}

/// What one side tells the other about a slot's bytes. The loan does not look into it.
pub type Note = [u8; 16];

/// Bytes that the largest slot has.
pub const MAX_SLOT_SIZE: u32 = (1 << 24) - 1;

/// Why a loan could not be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LoanError {
    /// Slots of no size, of more than [`MAX_SLOT_SIZE`], or too many of them, or none.
    #[error("cannot lay out {} slots of {} bytes: choose 1 to 2^30 of 1 to 16777215 bytes that fit the memory", .0.slots, .0.slot_size)]
    Shape(Shape),
    /// The rings could not be made.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// How many bytes a loan of this shape takes.
///
/// # Errors
///
/// [`LoanError::Shape`].
pub fn bytes_for(shape: Shape) -> Result<usize, LoanError> {
    Ok(Plan::of(shape)?.len)
}

/// A loan inside one process, in zeroed memory of its own. All slots are the lender's at first.
///
/// # Errors
///
/// [`LoanError::Shape`].
pub fn loan(shape: Shape) -> Result<(Lender, Borrower), LoanError> {
    let heap = Heap::zeroed(bytes_for(shape)?).ok_or(LoanError::Shape(shape))?;
    // SAFETY: the block is new, so nobody else uses it; both sides keep it alive, each is made once, and both are
    // this module's, which touches a slot only while it is its own.
    unsafe {
        format(heap.region(), shape)?;
        let lender = Lender::over(heap.region(), shape, Some(&heap))?;
        Ok((lender, Borrower::over(heap.region(), shape, Some(&heap))?))
    }
}

/// Makes a loan in memory that the caller provides: all slots are the lender's.
///
/// # Errors
///
/// [`LoanError`]: the shape, the memory's length or its alignment do not do.
///
/// # Safety
///
/// The memory is initialised and valid for writes, and nobody else uses it during the call.
pub unsafe fn format(region: NonNull<[u8]>, shape: Shape) -> Result<(), LoanError> {
    let plan = Plan::of(shape)?;
    let parts = plan.split(region)?;
    // SAFETY: the caller's promise; the parts do not overlap.
    unsafe {
        ring::format::<Descriptor>(parts.lent, plan.capacity)?;
        ring::format::<Descriptor>(parts.back, plan.capacity)?;
    }
    Ok(())
}

/// The side whose slots they are.
pub struct Lender {
    slots: Slots,
    /// The first `free_len` are the slots that are neither lent nor on their way back, the one freed last on top.
    free: Box<[u32]>,
    free_len: usize,
    /// Of each slot, whether it is lent or on its way back.
    out: Box<[bool]>,
    lent: Producer<Descriptor>,
    back: Consumer<Descriptor>,
    refused: u64,
}

impl Lender {
    /// Joins a loan that was just made in shared memory, as its lender.
    ///
    /// # Errors
    ///
    /// [`LoanError`]: the memory holds no such loan.
    ///
    /// # Safety
    ///
    /// The memory stays valid for reads and writes as long as this side lives, is used as this loan only, and has
    /// no other lender. Nobody writes to a slot, or reads one that is written, but the side whose turn it is.
    /// (A process that cannot be trusted with that must not share slots; its numbers may be as wrong as they like.)
    pub unsafe fn join(region: NonNull<[u8]>, shape: Shape) -> Result<Self, LoanError> {
        // SAFETY: the caller's promise.
        unsafe { Self::over(region, shape, None) }
    }

    /// # Safety
    ///
    /// As for [`join`](Self::join); `keep`, if any, is the memory.
    unsafe fn over(region: NonNull<[u8]>, shape: Shape, keep: Option<&Arc<Heap>>) -> Result<Self, LoanError> {
        let plan = Plan::of(shape)?;
        let parts = plan.split(region)?;
        // SAFETY: the caller's promise; descriptors are integers.
        let (lent, back) = unsafe {
            (Producer::over(parts.lent, keep.cloned())?, Consumer::over(parts.back, keep.cloned())?)
        };
        let free: Box<[u32]> = (0..shape.slots).rev().collect();
        let (slots, free_len) = (Slots::over(parts.slots, shape), free.len());
        let out = vec![false; free_len].into();
        Ok(Self { slots, free, free_len, out, lent, back, refused: 0 })
    }

    /// How many of `wanted` slots can be lent now.
    #[inline]
    pub fn free(&mut self, wanted: usize) -> usize {
        // The ring has a place for every slot, but a broken borrower might not free its places.
        self.lent.room(wanted.min(self.free_len) as u32) as usize
    }

    /// Fills at most `most` free slots and lends them; the borrower sees them after [`flush`](Self::flush).
    ///
    /// `fill` gets a slot's bytes and its note, and returns the length and whether the note counts. `lend` returns
    /// how many were lent.
    ///
    /// # Panics
    ///
    /// If a length is more than a slot has.
    #[inline]
    pub fn lend(
        &mut self,
        most: usize,
        mut fill: impl FnMut(&mut [u8], &mut Note) -> (usize, bool),
    ) -> usize {
        let count = self.free(most);
        let (slots, out) = (self.slots, &mut *self.out);
        let (rest, all) = (self.free_len - count, self.free_len);
        self.free_len = rest;
        self.lent.extend(self.free[rest..all].iter().rev().map(|&slot| {
            out[slot as usize] = true;
            // SAFETY: a free slot exists and is the lender's alone: it is neither lent nor on its way back.
            let (bytes, note) = unsafe { slots.get_mut(slot, slots.slot_size as usize) };
            let (len, noted) = fill(bytes, note);
            assert!(len <= slots.slot_size as usize, "{len} bytes in a slot of {}", slots.slot_size);
            Descriptor::new(slot, len as u32, noted)
        }))
    }

    /// Takes back at most `most` slots in the order they were given back, showing each; afterwards they are free.
    ///
    /// Returns how many it took. Those refused are not among them, but count towards `most`.
    #[inline]
    pub fn collect(&mut self, most: usize, mut show: impl FnMut(&[u8], Option<&Note>)) -> usize {
        let (slots, free, out) = (self.slots, &mut *self.free, &mut *self.out);
        let before = self.free_len;
        for descriptor in self.back.drain(most) {
            let slot = descriptor.slot();
            match out.get_mut(slot as usize) {
                Some(out) if *out && descriptor.len() <= slots.slot_size => *out = false,
                _ => {
                    self.refused += 1;
                    continue;
                }
            }
            free[self.free_len] = slot;
            self.free_len += 1;
            // SAFETY: it fits, it was out, and it was given back, so it is ours alone again.
            let (bytes, note) = unsafe { slots.get(descriptor) };
            show(bytes, note);
        }
        self.free_len - before
    }

    /// Shows the borrower all that was lent.
    #[inline]
    pub fn flush(&mut self) {
        self.lent.publish();
    }

    /// How many bytes a slot has.
    pub fn slot_size(&self) -> usize {
        self.slots.slot_size as usize
    }

    /// How many descriptors were refused: of no slot, too long, or not out.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What was wrong with the borrower's ring indices, if anything was: then the loan is over.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.lent.corrupt().or(self.back.corrupt())
    }
}

/// The side that uses the slots for a while.
pub struct Borrower {
    slots: Slots,
    /// What lies in each slot that we hold.
    held: Box<[Descriptor]>,
    lent: Consumer<Descriptor>,
    back: Producer<Descriptor>,
    refused: u64,
}

impl Borrower {
    /// Joins a loan that was just made in shared memory, as its borrower.
    ///
    /// # Errors
    ///
    /// [`LoanError`]: the memory holds no such loan.
    ///
    /// # Safety
    ///
    /// As for [`Lender::join`], with no other borrower.
    pub unsafe fn join(region: NonNull<[u8]>, shape: Shape) -> Result<Self, LoanError> {
        // SAFETY: the caller's promise.
        unsafe { Self::over(region, shape, None) }
    }

    /// # Safety
    ///
    /// As for [`join`](Self::join); `keep`, if any, is the memory.
    unsafe fn over(region: NonNull<[u8]>, shape: Shape, keep: Option<&Arc<Heap>>) -> Result<Self, LoanError> {
        let plan = Plan::of(shape)?;
        let parts = plan.split(region)?;
        // SAFETY: the caller's promise; descriptors are integers.
        let (lent, back) = unsafe {
            (Consumer::over(parts.lent, keep.cloned())?, Producer::over(parts.back, keep.cloned())?)
        };
        let held = vec![Descriptor::NONE; shape.slots as usize].into_boxed_slice();
        Ok(Self { slots: Slots::over(parts.slots, shape), held, lent, back, refused: 0 })
    }

    /// Takes over at most `most` lent slots, in order, showing each.
    ///
    /// `show` returns whether it keeps the slot: then it is held until it is given back; otherwise it goes back at
    /// once. `accept` returns whether more may be waiting.
    #[inline]
    pub fn accept(&mut self, most: usize, mut show: impl FnMut(u32, &[u8], Option<&Note>) -> bool) -> bool {
        let (slots, held) = (self.slots, &mut *self.held);
        let lent = self.lent.drain(most);
        let more = lent.len() == most;
        for descriptor in lent {
            let slot = descriptor.slot();
            let place = match held.get_mut(slot as usize) {
                Some(place) if *place == Descriptor::NONE && descriptor.len() <= slots.slot_size => place,
                _ => {
                    self.refused += 1;
                    continue;
                }
            };
            // SAFETY: it fits, it was lent, and it was not held: ours alone until it is given back.
            let (bytes, note) = unsafe { slots.get(descriptor) };
            if show(slot, bytes, note) {
                *place = descriptor;
            } else if self.back.push(Descriptor::new(slot, 0, false)).is_err() {
                self.refused += 1;
            }
        }
        more
    }

    /// The bytes of a slot that is held, as long as the lender said, and its note if there is one.
    ///
    /// # Panics
    ///
    /// If the slot is not held.
    #[inline]
    pub fn get(&self, slot: u32) -> (&[u8], Option<&Note>) {
        let descriptor = self.held[slot as usize];
        assert!(descriptor != Descriptor::NONE, "slot {slot} is not held");
        // SAFETY: what is held was found to fit when it was accepted, and is ours alone.
        unsafe { self.slots.get(descriptor) }
    }

    /// Gives back a slot that is held, with nothing in it; the lender sees it after [`flush`](Self::flush).
    ///
    /// # Panics
    ///
    /// If the slot is not held.
    #[inline]
    pub fn give_back(&mut self, slot: u32) {
        let held = &mut self.held[slot as usize];
        assert!(*held != Descriptor::NONE, "slot {slot} is not held");
        *held = Descriptor::NONE;
        // The ring has a place for every slot. A lender that lends a slot again before it took it back has used up
        // another's place, and loses one.
        if self.back.push(Descriptor::new(slot, 0, false)).is_err() {
            self.refused += 1;
        }
    }

    /// Fills the next lent slot with `len` bytes and gives it back at once, if there is one; the lender sees it
    /// after [`flush`](Self::flush).
    ///
    /// `write` gets the `len` bytes and the note, and returns whether the note counts. `fill` returns whether there
    /// was a slot.
    ///
    /// # Panics
    ///
    /// If a slot has fewer bytes.
    #[inline]
    pub fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8], &mut Note) -> bool) -> bool {
        assert!(len <= self.slot_size(), "{len} bytes for a slot of {}", self.slot_size());
        let Some(slot) = self.next_fillable() else { return false };
        // SAFETY: the slot exists and has so many bytes, it was lent, and nobody holds it: ours alone until it is given
        // back.
        let (bytes, note) = unsafe { self.slots.get_mut(slot, len) };
        let noted = write(bytes, note);
        let given = self.back.push(Descriptor::new(slot, len as u32, noted));
        if given.is_err() {
            self.refused += 1;
        }
        given.is_ok()
    }

    /// Shows the lender all that was given back, and that there is room for more.
    #[inline]
    pub fn flush(&mut self) {
        self.lent.release();
        self.back.publish();
    }

    /// How many bytes a slot has.
    pub fn slot_size(&self) -> usize {
        self.slots.slot_size as usize
    }

    /// How many descriptors were refused: of no slot, too long, or already held.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What was wrong with the lender's ring indices, if anything was: then the loan is over.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.lent.corrupt().or(self.back.corrupt())
    }

    #[inline]
    fn next_fillable(&mut self) -> Option<u32> {
        loop {
            // What the lender says about the bytes does not matter: others will be there.
            let slot = self.lent.pop()?.slot();
            if self.held.get(slot as usize) == Some(&Descriptor::NONE) {
                return Some(slot);
            }
            self.refused += 1;
        }
    }
}

/// What travels through the rings: a slot (low half), a length, and whether there is a note (top bit).
#[derive(Clone, Copy, Eq, FromBytes, IntoBytes, PartialEq)]
#[repr(transparent)]
struct Descriptor(u64);

impl Descriptor {
    /// Not a descriptor: no slot is as long as this.
    const NONE: Self = Self(u64::MAX);
    const NOTED: u64 = 1 << 63;

    #[inline(always)]
    fn new(slot: u32, len: u32, noted: bool) -> Self {
        Self(u64::from(slot) | u64::from(len) << 32 | if noted { Self::NOTED } else { 0 })
    }

    #[inline(always)]
    fn slot(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    fn len(self) -> u32 {
        ((self.0 & !Self::NOTED) >> 32) as u32
    }

    #[inline(always)]
    fn noted(self) -> bool {
        self.0 & Self::NOTED != 0
    }
}

/// Where the parts of a loan lie in its memory: the ring of what was lent, the ring of what came back, the slots.
struct Plan {
    capacity: u32,
    ring_len: usize,
    len: usize,
}

struct Parts {
    lent: NonNull<[u8]>,
    back: NonNull<[u8]>,
    slots: NonNull<u8>,
}

impl Plan {
    fn of(shape: Shape) -> Result<Self, LoanError> {
        let wrong = LoanError::Shape(shape);
        if shape.slot_size == 0 || shape.slot_size > MAX_SLOT_SIZE || shape.slots == 0 {
            return Err(wrong);
        }
        // A place for every slot, so that neither side ever waits for a ring.
        let capacity = shape.slots.checked_next_power_of_two().ok_or(wrong)?;
        let ring_len = ring::bytes_for::<Descriptor>(capacity)?.next_multiple_of(LINE);
        let len = (shape.slots as usize)
            .checked_mul(stride(shape.slot_size))
            .and_then(|slots| slots.checked_add(2 * ring_len))
            .ok_or(wrong)?;
        Ok(Self { capacity, ring_len, len })
    }

    fn split(&self, region: NonNull<[u8]>) -> Result<Parts, LoanError> {
        if region.len() < self.len {
            return Err(RingError::Region { len: region.len(), needed: self.len }.into());
        }
        let base = region.cast::<u8>();
        // SAFETY: the plan's parts follow each other within its length, which the region has.
        let (back, slots) = unsafe { (base.add(self.ring_len), base.add(2 * self.ring_len)) };
        let lent = NonNull::slice_from_raw_parts(base, self.ring_len);
        Ok(Parts { lent, back: NonNull::slice_from_raw_parts(back, self.ring_len), slots })
    }
}

/// The distance of two slots in bytes: room for the bytes, and for the note behind them.
fn stride(slot_size: u32) -> usize {
    stride_lines(slot_size as usize + size_of::<Note>()) * CACHE_LINE
}

/// The slots' memory, which the rings of the same side keep alive. A loop has a copy, which no write to a slot can be
/// suspected of changing.
#[derive(Clone, Copy)]
struct Slots {
    base: NonNull<u8>,
    slot_size: u32,
    stride: usize,
}

// SAFETY: the bytes of a slot are touched by the side whose turn it is only, and turns change through the
// rings, which order what was done before with what comes after.
unsafe impl Send for Slots {}

impl Slots {
    fn over(base: NonNull<u8>, shape: Shape) -> Self {
        Self { base, slot_size: shape.slot_size, stride: stride(shape.slot_size) }
    }

    /// # Safety
    ///
    /// The slot exists, has `len` bytes, and stays this side's alone while the borrow lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "a slot is borrowed from the other side, not from this struct")]
    unsafe fn get_mut(&self, slot: u32, len: usize) -> (&mut [u8], &mut Note) {
        // SAFETY: `Plan` made room for a stride a slot, each for its bytes and a note behind them; formatted memory
        // is initialised.
        unsafe {
            let first = self.base.add(slot as usize * self.stride);
            let note = first.add(self.stride - size_of::<Note>()).cast::<Note>();
            let bytes = NonNull::slice_from_raw_parts(first, len);
            (&mut *bytes.as_ptr(), &mut *note.as_ptr())
        }
    }

    /// # Safety
    ///
    /// The descriptor fits, and nobody writes to its slot while the borrow lives.
    #[inline(always)]
    unsafe fn get(&self, descriptor: Descriptor) -> (&[u8], Option<&Note>) {
        // SAFETY: as for `get_mut`.
        unsafe {
            let first = self.base.add(descriptor.slot() as usize * self.stride);
            let note = first.add(self.stride - size_of::<Note>()).cast::<Note>();
            let bytes = NonNull::slice_from_raw_parts(first, descriptor.len() as usize);
            (bytes.as_ref(), if descriptor.noted() { Some(note.as_ref()) } else { None })
        }
    }
}

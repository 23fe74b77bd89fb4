//! A ring between one producer and one consumer.
//!
//! ```text
//!            ┌─ 0 ───────────┬─ 128 ──────┬─ 256 ──────┬─ 384 ──────┬─ 512 ──────────────────────┐
//!   memory   │ magic version │ tail       │ head       │ bell       │ entries …                  │
//!            │ capacity size │ (producer) │ (consumer) │ (both)     │ capacity × size_of::<T>()  │
//!            └───────────────┴────────────┴────────────┴────────────┴────────────────────────────┘
//! ```
//!
//! The indices count entries since the ring was made, modulo 2³²; an entry's place is its index modulo the
//! capacity. Entries from `head` up to `tail` are the consumer's, the others the producer's. Each side keeps its own
//! index and a copy of the other's, and looks at the shared one only when the copy says that it must: an entry costs
//! a few instructions, a batch one store that the other side can see.
//!
//! The other side's index is not believed but checked. One that runs backwards, or past what can be, leaves the
//! ring [`Corrupt`]: full for its producer and empty for its consumer, for ever.

use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ptr::NonNull;

use zerocopy::{FromBytes, IntoBytes};

use crate::LINE;
use crate::bell::Bell;
use crate::heap::Heap;
use crate::sync::{AtomicU32, Cell, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"zovnring");
const VERSION: u32 = 1;

#[repr(C, align(128))]
struct Line<V>(V);

#[repr(C)]
struct Header {
    shape: Line<Shape>,
    tail: Line<AtomicU32>,
    head: Line<AtomicU32>,
    bell: Line<Bell>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
#[repr(C)]
struct Shape {
    magic: u64,
    version: u32,
    capacity: u32,
    entry_size: u32,
}

/// Why a ring could not be made or joined.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RingError {
    /// The capacity is not a power of two, or is out of range.
    #[error("cannot make a ring of {0} entries: choose a power of two, at most {max}", max = MAX_CAPACITY)]
    Capacity(u32),
    /// The memory is too small for the ring that it should hold.
    #[error("cannot fit a ring into {len} bytes: provide at least {needed}")]
    Region {
        /// Bytes there are.
        len: usize,
        /// Bytes it takes.
        needed: usize,
    },
    /// The memory does not begin on a multiple of 128 bytes.
    #[error("cannot place a ring at {address:#x}: align its memory to 128 bytes")]
    Alignment {
        /// Where the memory begins.
        address: usize,
    },
    /// The memory holds no ring.
    #[error("cannot join a ring whose magic number is {found:#x}: map the memory that its maker formatted")]
    Magic {
        /// What stands in its place.
        found: u64,
    },
    /// The ring was made by another version of this code.
    #[error(
        "cannot join a ring of version {found}, only of version {VERSION}: run the same release on both sides"
    )]
    Version {
        /// The maker's version.
        found: u32,
    },
    /// The ring carries something else.
    #[error(
        "cannot join a ring of {found}-byte entries as one of {wanted}: both sides must agree on what it carries"
    )]
    EntrySize {
        /// The maker's.
        found: u32,
        /// The joiner's.
        wanted: u32,
    },
    /// The ring's indices were already impossible.
    #[error("cannot join the ring: {0}")]
    Corrupt(#[from] Corrupt),
}

/// The other side wrote an index that cannot be: it is broken or hostile.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "ring index {found} of the other side cannot follow {before} with ours at {ours}: detach it, and make a new ring"
)]
pub struct Corrupt {
    /// What it is now.
    pub found: u32,
    /// What it was when last seen.
    pub before: u32,
    /// This side's own index.
    pub ours: u32,
}

/// The ring had no place: here is the value again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Full<T>(pub T);

/// The most entries a ring can have.
pub const MAX_CAPACITY: u32 = 1 << 30;

/// How many bytes a ring of this capacity takes.
///
/// # Errors
///
/// [`RingError::Capacity`], also for a ring that no address space could hold.
pub fn bytes_for<T>(capacity: u32) -> Result<usize, RingError> {
    const { assert!(align_of::<T>() <= LINE, "entries follow the header at a multiple of 128 bytes") };
    if !capacity.is_power_of_two() || capacity > MAX_CAPACITY {
        return Err(RingError::Capacity(capacity));
    }
    (capacity as usize)
        .checked_mul(size_of::<Cell<T>>())
        .and_then(|entries| entries.checked_add(size_of::<Header>()))
        .ok_or(RingError::Capacity(capacity))
}

/// A ring inside one process, in memory of its own.
///
/// # Errors
///
/// [`RingError::Capacity`].
pub fn ring<T: Copy>(capacity: u32) -> Result<(Producer<T>, Consumer<T>), RingError> {
    let heap = Heap::zeroed(bytes_for::<T>(capacity)?).ok_or(RingError::Capacity(capacity))?;
    // SAFETY: the block is new, so nobody else uses it, and both halves keep it alive. Each half is made once.
    unsafe {
        format::<T>(heap.region(), capacity)?;
        let producer = Producer::over(heap.region(), Some(heap.clone()))?;
        Ok((producer, Consumer::over(heap.region(), Some(heap))?))
    }
}

/// Makes an empty ring in memory that the caller provides.
///
/// # Errors
///
/// [`RingError`]: the capacity, the memory's length or its alignment do not do.
///
/// # Safety
///
/// The memory is valid for writes, and nobody else uses it during the call.
pub unsafe fn format<T: Copy>(region: NonNull<[u8]>, capacity: u32) -> Result<(), RingError> {
    check_region(region, bytes_for::<T>(capacity)?)?;
    let shape = Shape { magic: MAGIC, version: VERSION, capacity, entry_size: size_of::<Cell<T>>() as u32 };
    let header = Header {
        shape: Line(shape),
        tail: Line(AtomicU32::new(0)),
        head: Line(AtomicU32::new(0)),
        bell: Line(Bell::new()),
    };
    // SAFETY: long enough and aligned, as checked; ours to write, by the contract.
    unsafe { region.cast::<Header>().write(header) };
    #[cfg(loom)]
    for index in 0..capacity as usize {
        // SAFETY: in bounds: `bytes_for` counted these places. Loom's cells must be made before they are used.
        unsafe { region.cast::<Header>().add(1).cast::<Cell<T>>().add(index).write(Cell::empty()) };
    }
    Ok(())
}

fn check_region(region: NonNull<[u8]>, needed: usize) -> Result<(), RingError> {
    if !region.cast::<u8>().addr().get().is_multiple_of(LINE) {
        return Err(RingError::Alignment { address: region.cast::<u8>().addr().get() });
    }
    if region.len() < needed {
        return Err(RingError::Region { len: region.len(), needed });
    }
    Ok(())
}

/// The half that puts values in.
pub struct Producer<T> {
    memory: Memory<T>,
    /// The next index to write; the other side knows of those before `published`.
    tail: u32,
    published: u32,
    /// The first index that is not free: a capacity from the consumer's when we last looked.
    end: u32,
    corrupt: Option<Corrupt>,
}

impl<T: Copy> Producer<T> {
    /// Joins a ring in shared memory, as its producer.
    ///
    /// # Errors
    ///
    /// [`RingError`]: the memory holds no such ring, or one whose indices cannot be.
    ///
    /// # Safety
    ///
    /// The memory stays valid for reads and writes as long as this half lives, is used as a ring only, and has no
    /// other producer. The other side may write what it likes at any time: values that it did write so are
    /// arbitrary (hence [`FromBytes`]), but nothing else is harmed.
    pub unsafe fn join(region: NonNull<[u8]>) -> Result<Self, RingError>
    where
        T: FromBytes + IntoBytes,
    {
        // SAFETY: the caller's promise.
        unsafe { Self::over(region, None) }
    }

    /// # Safety
    ///
    /// As for [`join`](Self::join), with `keep` keeping the memory alive, or `T: FromBytes`.
    pub(crate) unsafe fn over(region: NonNull<[u8]>, keep: Option<Arc<Heap>>) -> Result<Self, RingError> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Memory::<T>::over(region, keep)? };
        let tail = memory.tail().load(Ordering::Relaxed);
        let head = memory.head().load(Ordering::Acquire);
        if tail.wrapping_sub(head) > memory.capacity() {
            return Err(Corrupt { found: head, before: head, ours: tail }.into());
        }
        let end = head.wrapping_add(memory.capacity());
        Ok(Self { memory, tail, published: tail, end, corrupt: None })
    }

    /// How many entries the ring has.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.memory.capacity()
    }

    /// How many of `wanted` places are free. Those can be pushed without fail.
    #[inline]
    pub fn room(&mut self, wanted: u32) -> u32 {
        if self.known_room() < wanted {
            self.look();
        }
        self.known_room().min(wanted)
    }

    /// Puts a value in; the consumer sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// [`Full`] hands the value back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        if self.room(1) == 0 {
            return Err(Full(value));
        }
        // SAFETY: an index within a capacity from the head, not published, is the producer's.
        unsafe { self.memory.places.cell(self.tail).write(value) };
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Puts in as many values as have a place, from the first on, and returns how many.
    #[inline]
    pub fn push_slice(&mut self, values: &[T]) -> usize {
        self.extend(values.iter().copied())
    }

    /// Puts in values while there are any and they have a place, and returns how many.
    ///
    /// No value is asked for that has no place.
    #[inline]
    pub fn extend(&mut self, values: impl ExactSizeIterator<Item = T>) -> usize {
        let room = self.room(values.len().try_into().unwrap_or(u32::MAX));
        let (places, mut tail) = (self.memory.places, self.tail);
        for value in values.take(room as usize) {
            // SAFETY: as in `push`; `room` counted this place.
            unsafe { places.cell(tail).write(value) };
            tail = tail.wrapping_add(1);
        }
        let count = tail.wrapping_sub(self.tail);
        self.tail = tail;
        count as usize
    }

    /// Shows the consumer all that was pushed.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.tail {
            self.published = self.tail;
            self.memory.tail().store(self.tail, Ordering::Release);
        }
    }

    /// Whether the consumer sleeps and must be woken for what was published. Asks once for each sleep.
    pub fn must_wake(&self) -> bool {
        self.memory.bell().must_wake()
    }

    /// What was wrong with the consumer's index, if anything was: then the ring stays full.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.corrupt
    }

    #[inline]
    fn known_room(&self) -> u32 {
        self.end.wrapping_sub(self.tail)
    }

    #[inline(never)]
    fn look(&mut self) {
        if self.corrupt.is_some() {
            return;
        }
        // Acquire: the consumer has read an entry before we write over it.
        let found = self.memory.head().load(Ordering::Acquire);
        // The head moves forward only, so what is in use shrinks only; past the tail it would wrap and grow.
        let before = self.end.wrapping_sub(self.memory.capacity());
        if self.published.wrapping_sub(found) <= self.published.wrapping_sub(before) {
            self.end = found.wrapping_add(self.memory.capacity());
        } else {
            self.corrupt = Some(Corrupt { found, before, ours: self.published });
            self.end = self.tail;
        }
    }
}

/// The half that takes values out.
pub struct Consumer<T> {
    memory: Memory<T>,
    /// The next index to read; the producer knows that those before `released` are free.
    head: u32,
    released: u32,
    /// The producer's index when we last looked.
    tail: u32,
    corrupt: Option<Corrupt>,
}

impl<T: Copy> Consumer<T> {
    /// Joins a ring in shared memory, as its consumer.
    ///
    /// # Errors
    ///
    /// [`RingError`]: the memory holds no such ring, or one whose indices cannot be.
    ///
    /// # Safety
    ///
    /// As for [`Producer::join`], with no other consumer.
    pub unsafe fn join(region: NonNull<[u8]>) -> Result<Self, RingError>
    where
        T: FromBytes + IntoBytes,
    {
        // SAFETY: the caller's promise.
        unsafe { Self::over(region, None) }
    }

    /// # Safety
    ///
    /// As for [`join`](Self::join), with `keep` keeping the memory alive, or `T: FromBytes`.
    pub(crate) unsafe fn over(region: NonNull<[u8]>, keep: Option<Arc<Heap>>) -> Result<Self, RingError> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Memory::<T>::over(region, keep)? };
        let head = memory.head().load(Ordering::Relaxed);
        let tail = memory.tail().load(Ordering::Acquire);
        if tail.wrapping_sub(head) > memory.capacity() {
            return Err(Corrupt { found: tail, before: tail, ours: head }.into());
        }
        Ok(Self { memory, head, released: head, tail, corrupt: None })
    }

    /// How many of `wanted` values have arrived. Those can be popped without fail.
    #[inline]
    pub fn ready(&mut self, wanted: u32) -> u32 {
        if self.known_ready() < wanted {
            self.look();
        }
        self.known_ready().min(wanted)
    }

    /// The value `ahead` places behind the next, if we know that it has arrived. It is not taken out.
    #[inline]
    pub fn peek(&self, ahead: u32) -> Option<T> {
        if ahead >= self.known_ready() {
            return None;
        }
        // SAFETY: an index between head and tail is the consumer's, and was filled before it was published.
        Some(unsafe { self.memory.places.cell(self.head.wrapping_add(ahead)).read() })
    }

    /// Takes the next value out; its place is free after [`release`](Self::release).
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.known_ready() == 0 {
            self.look();
        }
        let value = self.peek(0)?;
        self.head = self.head.wrapping_add(1);
        Some(value)
    }

    /// Takes at most `most` values out, in order, and then frees their places. What is not asked for stays.
    #[inline]
    pub fn drain(&mut self, most: usize) -> Drain<'_, T> {
        let count = self.ready(most.try_into().unwrap_or(u32::MAX));
        let places = self.memory.places;
        Drain { places, head: self.head, end: self.head.wrapping_add(count), consumer: self }
    }

    /// Gives the producer the places of all that was popped.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.head {
            self.released = self.head;
            self.memory.head().store(self.head, Ordering::Release);
        }
    }

    /// Whether to sleep now: yes, unless something has arrived. The producer will be told to wake us.
    ///
    /// After a sleep, or when other work came up, call [`awake`](Self::awake).
    pub fn may_sleep(&mut self) -> bool {
        self.memory.bell().announce();
        let nothing = self.ready(1) == 0;
        if !nothing {
            self.awake();
        }
        nothing
    }

    /// No longer asleep, nor about to be.
    pub fn awake(&self) {
        self.memory.bell().withdraw();
    }

    /// What was wrong with the producer's index, if anything was: then the ring stays empty.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.corrupt
    }

    #[inline]
    fn known_ready(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline(never)]
    fn look(&mut self) {
        if self.corrupt.is_some() {
            return;
        }
        // Acquire: the entries before this index were written before it.
        let found = self.memory.tail().load(Ordering::Acquire);
        // The tail moves forward only, so from where we released there is ever more, up to a capacity.
        let arrived = found.wrapping_sub(self.released);
        if arrived >= self.tail.wrapping_sub(self.released) && arrived <= self.memory.capacity() {
            self.tail = found;
        } else {
            self.corrupt = Some(Corrupt { found, before: self.tail, ours: self.released });
            self.tail = self.head;
        }
    }
}

/// Values on their way out of a ring: see [`Consumer::drain`].
///
/// It keeps its index to itself until it is dropped: that is what makes a batch cheap.
pub struct Drain<'a, T: Copy> {
    consumer: &'a mut Consumer<T>,
    places: Places<T>,
    head: u32,
    end: u32,
}

impl<T: Copy> Drain<'_, T> {
    /// The value `ahead` places behind the next of this batch.
    #[inline]
    pub fn peek(&self, ahead: u32) -> Option<T> {
        if ahead >= self.end.wrapping_sub(self.head) {
            return None;
        }
        // SAFETY: `ready` counted the values up to `end`.
        Some(unsafe { self.places.cell(self.head.wrapping_add(ahead)).read() })
    }
}

impl<T: Copy> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let value = self.peek(0)?;
        self.head = self.head.wrapping_add(1);
        Some(value)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.wrapping_sub(self.head) as usize;
        (left, Some(left))
    }
}

impl<T: Copy> ExactSizeIterator for Drain<'_, T> {}

impl<T: Copy> Drop for Drain<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.consumer.head = self.head;
        self.consumer.release();
    }
}

/// One side's view of the shared memory, whose shape was checked once and is not read again.
struct Memory<T> {
    header: NonNull<Header>,
    places: Places<T>,
    _keep: Option<Arc<Heap>>,
    _values: PhantomData<T>,
}

/// Where the entries lie. A loop has a copy, which no write to an entry can be suspected of changing.
#[derive(Clone, Copy)]
struct Places<T> {
    entries: NonNull<Cell<T>>,
    mask: u32,
}

impl<T> Places<T> {
    /// The place of an index.
    #[inline(always)]
    fn cell(&self, index: u32) -> &Cell<T> {
        // SAFETY: the mask keeps it below the capacity, and the region holds so many: checked in `Memory::over`. Only
        // what keeps the region has or makes one of these.
        unsafe { self.entries.add((index & self.mask) as usize).as_ref() }
    }
}

// SAFETY: a half has its own index to itself, and the entries change hands through the atomics; so it may
// live in any thread that may have the values.
unsafe impl<T: Send> Send for Memory<T> {}

impl<T: Copy> Memory<T> {
    /// # Safety
    ///
    /// As for [`Producer::join`].
    unsafe fn over(region: NonNull<[u8]>, keep: Option<Arc<Heap>>) -> Result<Self, RingError> {
        check_region(region, size_of::<Header>())?;
        let header = region.cast::<Header>();
        // SAFETY: long enough and aligned, as checked; valid by the contract. Read once, so it cannot change between
        // the checks and the use.
        let shape = unsafe { (&raw const (*header.as_ptr()).shape.0).read_volatile() };
        let entry_size = size_of::<Cell<T>>() as u32;
        if shape.magic != MAGIC {
            return Err(RingError::Magic { found: shape.magic });
        }
        if shape.version != VERSION {
            return Err(RingError::Version { found: shape.version });
        }
        if shape.entry_size != entry_size {
            return Err(RingError::EntrySize { found: shape.entry_size, wanted: entry_size });
        }
        check_region(region, bytes_for::<T>(shape.capacity)?)?;
        // SAFETY: the region is at least a header long, so its end is inside or just behind it.
        let entries = unsafe { header.add(1) }.cast();
        let places = Places { entries, mask: shape.capacity - 1 };
        Ok(Self { header, places, _keep: keep, _values: PhantomData })
    }

    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.places.mask + 1
    }

    #[inline(always)]
    fn tail(&self) -> &AtomicU32 {
        // SAFETY: valid and initialised by the contract of `over`; of the header only the atomics are ever
        // borrowed, since the other side might write to the rest.
        unsafe { &(*self.header.as_ptr()).tail.0 }
    }

    #[inline(always)]
    fn head(&self) -> &AtomicU32 {
        // SAFETY: as for `tail`.
        unsafe { &(*self.header.as_ptr()).head.0 }
    }

    fn bell(&self) -> &Bell {
        // SAFETY: as for `tail`.
        unsafe { &(*self.header.as_ptr()).bell.0 }
    }
}

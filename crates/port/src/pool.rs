//! Frame slots of one owner.

use std::ops::Range;

use crate::arena::Arena;

/// Slots of equal size for frames, in memory that one thread has to itself.
///
/// The slot that was freed last is taken first: its lines are still in the cache. Slots are known
/// by number, and one that is not taken cannot be reached.
pub struct Pool {
    memory: Arena,
    /// How far apart slots lie, in bytes.
    stride: usize,
    slot_size: usize,
    taken: Box<[bool]>,
    /// Slots that were taken before, and are free.
    free: Vec<u32>,
    /// The first slot that never was taken: a pool that nobody uses costs nothing.
    fresh: u32,
}

const CACHE_LINE: usize = 64;

/// How far apart slots lie, in cache lines: an odd number.
///
/// A cache keeps a line in a set that its address modulo a power of two selects. Were slots 2 KiB
/// apart, the first lines of all frames would share two of the 64 sets of a 32 KiB cache; with an
/// odd distance they share none.
const fn stride_lines(slot_size: usize) -> usize {
    slot_size.div_ceil(CACHE_LINE) | 1
}

impl Pool {
    /// `slots` slots of `slot_size` bytes each, all free. Their memory is the kernel's until they
    /// are used.
    ///
    /// # Panics
    ///
    /// If no address space could hold them.
    pub fn new(slots: u32, slot_size: usize) -> Self {
        let stride = stride_lines(slot_size) * CACHE_LINE;
        let bytes = (slots as usize).checked_mul(stride).expect("a pool fits the address space");
        Self {
            memory: Arena::new(bytes),
            stride,
            slot_size,
            taken: vec![false; slots as usize].into_boxed_slice(),
            free: Vec::new(),
            fresh: 0,
        }
    }

    /// Takes a free slot; its bytes are what they were. `None` if every slot is taken.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.take_fresh()?,
        };
        self.taken[slot as usize] = true;
        Some(slot)
    }

    #[cold]
    fn take_fresh(&mut self) -> Option<u32> {
        let slot = self.fresh;
        if slot as usize == self.taken.len() {
            return None;
        }
        self.fresh += 1;
        // Room for each that was taken: freeing one allocates nothing.
        self.free.reserve(self.fresh as usize);
        Some(slot)
    }

    /// Frees a slot that was taken.
    ///
    /// # Panics
    ///
    /// If it was not: two frames would come to share it.
    #[inline]
    pub fn put(&mut self, slot: u32) {
        assert!(self.taken[slot as usize], "slot {slot} was freed twice");
        self.taken[slot as usize] = false;
        self.free.push(slot);
    }

    /// The bytes of a slot that was taken.
    ///
    /// # Panics
    ///
    /// If it was not.
    #[inline]
    pub fn bytes(&self, slot: u32) -> &[u8] {
        assert!(self.taken[slot as usize], "slot {slot} is free");
        let first = self.first(slot);
        &self.memory.bytes()[first..first + self.slot_size]
    }

    /// The bytes of a slot that was taken, to fill.
    ///
    /// # Panics
    ///
    /// If it was not.
    #[inline]
    pub fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.taken[slot as usize], "slot {slot} is free");
        let first = self.first(slot);
        &mut self.memory.bytes_mut()[first..first + self.slot_size]
    }

    /// Copies these bytes of a slot into another one, from `at` on.
    ///
    /// # Panics
    ///
    /// If either was not taken, or has fewer bytes.
    pub fn copy(&mut self, from: u32, bytes: Range<usize>, to: u32, at: usize) {
        assert!(
            self.taken[from as usize] && self.taken[to as usize],
            "slot {from} or {to} is free"
        );
        assert!(
            bytes.end <= self.slot_size && at + bytes.len() <= self.slot_size,
            "{bytes:?} lie in both slots"
        );
        let (from, to) = (self.first(from), self.first(to) + at);
        self.memory.bytes_mut().copy_within(from + bytes.start..from + bytes.end, to);
    }

    /// Where a slot is in the memory: at the beginning of a cache line.
    #[inline]
    fn first(&self, slot: u32) -> usize {
        slot as usize * self.stride
    }

    /// How many slots are free.
    pub fn free(&self) -> usize {
        self.free.len() + self.taken.len() - self.fresh as usize
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.taken.len()
    }

    /// How many bytes a slot has.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(miri))]
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn the_slot_freed_last_is_taken_first() {
        let mut pool = Pool::new(3, 100);
        let slots = [pool.take(), pool.take(), pool.take()].map(Option::unwrap);
        assert_eq!(pool.take(), None);
        pool.put(slots[1]);
        assert_eq!(pool.take(), Some(slots[1]));
    }

    #[test]
    fn slots_do_not_overlap() {
        let mut pool = Pool::new(5, 130);
        let slots: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
        for &slot in &slots {
            pool.bytes_mut(slot).fill(slot as u8);
        }
        for &slot in &slots {
            assert_eq!(pool.bytes(slot), [slot as u8; 130]);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn memory_is_taken_as_slots_are_used() {
        let before = resident();
        let mut pool = Pool::new(1 << 12, 64 << 10);
        let slot = pool.take().unwrap();
        pool.bytes_mut(slot).fill(1);
        assert!(pool.bytes(slot).as_ptr().cast::<u8>().align_offset(CACHE_LINE) == 0);
        assert!(resident() - before < 64 << 20, "of 256 MiB one slot is used");
    }

    #[test]
    #[cfg(not(miri))]
    fn what_another_pool_gave_back_is_not_taken_again_for_zeroes() {
        let pool = || Pool::new(1 << 10, 4 << 10);
        let mut used = pool();
        while let Some(slot) = used.take() {
            used.bytes_mut(slot).fill(1);
        }
        drop(used);
        let before = resident();
        let idle: Vec<_> = (0..32).map(|_| pool()).collect();
        assert!(resident() < before + (32 << 20), "of 128 MiB none is used");
        assert_eq!(idle[31].free(), 1 << 10);
    }

    #[test]
    #[should_panic = "slot 0 was freed twice"]
    fn a_slot_cannot_be_freed_twice() {
        let mut pool = Pool::new(1, 64);
        let slot = pool.take().unwrap();
        pool.put(slot);
        pool.put(slot);
    }
}

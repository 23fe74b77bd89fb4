//! Things by handles that are not given out again soon.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How many bits of a handle tell the slot.
const BITS: u32 = 20;

/// No more slots than this can be told apart.
pub const MOST: u32 = 1 << BITS;

/// A bounded slab. A handle is a slot and how often it was used before; slots that are free wait in
/// a queue, so a handle means something else only after 4,095 uses of its slot.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    items: Vec<(u32, Option<T>)>,
    free: VecDeque<u32>,
    most: u32,
}

impl<T> Slots<T> {
    /// Memory for so many.
    pub fn new(most: u32) -> Self {
        let most = most.min(MOST);
        let (items, free) =
            (Vec::with_capacity(most as usize), VecDeque::with_capacity(most as usize));
        Self { items, free, most }
    }

    /// A handle's slot.
    pub const fn slot(handle: u32) -> u32 {
        handle & (MOST - 1)
    }

    pub const fn most(&self) -> u32 {
        self.most
    }

    /// Adds one: its handle, which is never 0. `None` if there is no room.
    pub fn add(&mut self, item: T) -> Option<u32> {
        // All slots are used once before one is used again.
        let slot = if (self.items.len() as u32) < self.most {
            self.items.push((0, None));
            self.items.len() as u32 - 1
        } else {
            self.free.pop_front()?
        };
        let (life, place) = &mut self.items[slot as usize];
        *life = *life % 4095 + 1;
        *place = Some(item);
        Some(*life << BITS | slot)
    }

    #[inline]
    pub fn get(&self, handle: u32) -> Option<&T> {
        let (life, item) = self.items.get(Self::slot(handle) as usize)?;
        item.as_ref().filter(|_| *life == handle >> BITS)
    }

    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let (life, item) = self.items.get_mut(Self::slot(handle) as usize)?;
        item.as_mut().filter(|_| *life == handle >> BITS)
    }

    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let slot = Self::slot(handle);
        let (life, item) = self.items.get_mut(slot as usize)?;
        if *life != handle >> BITS {
            return None;
        }
        let gone = item.take()?;
        self.free.push_back(slot);
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_of_one_thing() {
        let mut slots = Slots::new(2);
        let a = slots.add('a').unwrap();
        let b = slots.add('b').unwrap();
        assert_eq!(slots.add('c'), None);
        assert_eq!((slots.remove(a), slots.remove(a)), (Some('a'), None));
        let mut last = a;
        for _ in 0..4094 {
            let next = slots.add('c').unwrap();
            assert_eq!((slots.get(a), slots.get(last)), (None, None));
            slots.remove(next);
            last = next;
        }
        assert_eq!((slots.get(b), slots.get(0), slots.get(u32::MAX)), (Some(&'b'), None, None));
        *slots.get_mut(b).unwrap() = 'd';
        assert_eq!(slots.remove(b), Some('d'));
    }
}

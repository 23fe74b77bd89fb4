//! What is to happen, in order.
//!
//! Events are ordered by time, then by who made them, then by how many it had made before: an order
//! that depends neither on how the list is built nor on which thread made which event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Where an event stands in the order of all events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    /// When it happens.
    pub time: Time,
    /// Its maker's number in the upper 24 bits, and how many that has made in the lower 40.
    pub order: u64,
}

impl Key {
    /// Both as one number, which is compared without a branch.
    #[inline]
    fn number(self) -> u128 {
        u128::from(self.time.as_picos()) << 64 | u128::from(self.order)
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events to come. Times that are pushed are never before the one that was popped last.
pub trait EventList<E> {
    /// Adds an event.
    fn push(&mut self, key: Key, event: E);

    /// Takes the first event out.
    fn pop(&mut self) -> Option<(Key, E)>;

    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Slots of a [`Wheel`].
const SLOTS: u64 = 1 << 12;

/// Picoseconds in a slot, as a power of two: 8.2 ns, so that a slot seldom has more than a few
/// events, and all slots cover 34 µs: more than links, switches and most stacks take, less than
/// timers.
const SLOT_BITS: u32 = 13;

/// No node.
const NIL: u32 = u32::MAX;

/// No slot.
const NEVER: u64 = u64::MAX;

/// A timing wheel (Varghese and Lauck, SOSP 1987): a list for each of the next slots of time,
/// sorted when its turn comes, and a heap for what lies beyond.
///
/// ```text
///   heads   ┌──┬──┬──┬──┬──┬──┬─        nodes: one pool, the last one freed is the next one used
///           │  │▪─┼──┼─▶event─▶event
///           └──┴──┴──┴──┴──┴──┴─
///             ▲ current: sorted, drained from its end       later: BinaryHeap
/// ```
#[derive(Debug)]
pub struct Wheel<E> {
    /// The first node of each slot's list. An array, so that every slot is known to have one.
    heads: Box<[u32; SLOTS as usize]>,
    occupied: Occupied,
    nodes: Vec<Node<E>>,
    /// The first node that is free.
    free: u32,
    /// The slot whose turn it is, counted from the beginning of time.
    slot: u64,
    /// What is left of it, the next event last.
    current: Vec<Entry<E>>,
    later: BinaryHeap<Entry<E>>,
    /// The slot of the first of those.
    later_slot: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: Key,
    event: E,
}

/// An entry in a slot's list: half a cache line and no part of another, with an event of twelve
/// bytes.
#[derive(Debug)]
#[repr(align(32))]
struct Node<E> {
    key: Key,
    event: E,
    next: u32,
}

/// The other way round: a heap's greatest is the earliest.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> Default for Wheel<E> {
    fn default() -> Self {
        Self {
            heads: Box::new([NIL; SLOTS as usize]),
            occupied: Occupied::default(),
            nodes: Vec::new(),
            free: NIL,
            slot: 0,
            current: Vec::new(),
            later: BinaryHeap::new(),
            later_slot: NEVER,
            len: 0,
        }
    }
}

#[inline]
fn slot_of(time: Time) -> u64 {
    time.as_picos() >> SLOT_BITS
}

impl<E: Copy> Wheel<E> {
    /// Links an event into a slot.
    #[inline(always)]
    fn link(&mut self, slot: u64, entry: Entry<E>) {
        let place = (slot % SLOTS) as usize;
        let next = self.heads[place];
        let Entry { key, event } = entry;
        let node = Node { key, event, next };
        let index = self.free;
        if index == NIL {
            self.heads[place] = self.nodes.len() as u32;
            self.nodes.push(node);
        } else {
            let free = &mut self.nodes[index as usize];
            self.free = free.next;
            *free = node;
            self.heads[place] = index;
        }
        // Whether it is set already is a branch that nobody predicts.
        self.occupied.insert(place);
    }

    /// Puts an event where it belongs in what is left of the current slot.
    #[inline(never)]
    fn insert(&mut self, entry: Entry<E>) {
        let place = self.current.partition_point(|other| other.key > entry.key);
        self.current.insert(place, entry);
    }

    /// Puts an event beyond the wheel: seldom enough to be a call.
    #[inline(never)]
    fn put_off(&mut self, slot: u64, entry: Entry<E>) {
        self.later.push(entry);
        self.later_slot = self.later_slot.min(slot);
    }

    /// Goes to the next slot that has events; whether there is one.
    fn advance(&mut self) -> bool {
        let at = self.slot % SLOTS;
        let wheel = match self.occupied.next(at as usize) {
            Some(place) => self.slot + ((place as u64).wrapping_sub(at) % SLOTS),
            None => NEVER,
        };
        let next = wheel.min(self.later_slot);
        if next == NEVER {
            return false;
        }
        self.slot = next;
        if wheel == next {
            let place = (next % SLOTS) as usize;
            self.occupied.remove(place);
            let mut index = std::mem::replace(&mut self.heads[place], NIL);
            while index != NIL {
                let node = &mut self.nodes[index as usize];
                self.current.push(Entry { key: node.key, event: node.event });
                let next = std::mem::replace(&mut node.next, self.free);
                self.free = std::mem::replace(&mut index, next);
            }
        }
        if self.later_slot == next {
            self.fetch_later();
        }
        // Entries compare the other way round: this puts the earliest last.
        if let [one, other] = &mut self.current[..] {
            if one.key < other.key {
                std::mem::swap(one, other);
            }
        } else if self.current.len() > 2 {
            self.current.sort_unstable();
        }
        true
    }

    /// Has what lies beyond the wheel in this slot join it.
    #[inline(never)]
    fn fetch_later(&mut self) {
        let slot_of_first =
            |later: &BinaryHeap<Entry<E>>| later.peek().map_or(NEVER, |it| slot_of(it.key.time));
        while slot_of_first(&self.later) == self.slot {
            self.current.extend(self.later.pop());
        }
        self.later_slot = slot_of_first(&self.later);
    }
}

impl<E: Copy> EventList<E> for Wheel<E> {
    // A call would take an event by its place in memory: 2 % of a simulation.
    #[inline(always)]
    fn push(&mut self, key: Key, event: E) {
        self.len += 1;
        let slot = slot_of(key.time);
        let entry = Entry { key, event };
        if slot <= self.slot {
            self.insert(entry);
        } else if slot - self.slot < SLOTS {
            self.link(slot, entry);
        } else {
            self.put_off(slot, entry);
        }
    }

    // The engine has one place where events happen.
    #[inline(always)]
    fn pop(&mut self) -> Option<(Key, E)> {
        loop {
            if let Some(Entry { key, event }) = self.current.pop() {
                self.len -= 1;
                return Some((key, event));
            }
            if !self.advance() {
                return None;
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Which slots have events: a bit each, and a bit for each 64 of those.
#[derive(Debug)]
struct Occupied {
    words: Box<[u64; Self::WORDS]>,
    summary: [u64; Self::WORDS / 64],
}

impl Default for Occupied {
    fn default() -> Self {
        Self { words: Box::new([0; Self::WORDS]), summary: [0; Self::WORDS / 64] }
    }
}

impl Occupied {
    const WORDS: usize = SLOTS as usize / 64;

    #[inline]
    fn insert(&mut self, place: usize) {
        let word = place / 64;
        self.words[word] |= 1 << (place % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    #[inline]
    fn remove(&mut self, place: usize) {
        let word = place / 64;
        self.words[word] &= !(1 << (place % 64));
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The first place after `place`, all the way round.
    #[inline]
    fn next(&self, place: usize) -> Option<usize> {
        let word = place / 64;
        // Shifted twice, since a shift by 64 is none.
        let rest = self.words[word] & (u64::MAX << (place % 64) << 1);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        self.next_word(word).map(|word| word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The first word that is not empty after `word`, all the way round and including itself.
    fn next_word(&self, word: usize) -> Option<usize> {
        let at = word / 64;
        let rest = self.summary[at] & (u64::MAX << (word % 64) << 1);
        if rest != 0 {
            return Some(at * 64 + rest.trailing_zeros() as usize);
        }
        let count = self.summary.len();
        (1..=count)
            .map(|ahead| (at + ahead) % count)
            .find(|&at| self.summary[at] != 0)
            .map(|at| at * 64 + self.summary[at].trailing_zeros() as usize)
    }
}

/// A binary heap: slower, and so simple that a [`Wheel`] can be held against it.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Heap<E>(BinaryHeap<Entry<E>>);

#[cfg(test)]
impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

#[cfg(test)]
impl<E> EventList<E> for Heap<E> {
    fn push(&mut self, key: Key, event: E) {
        self.0.push(Entry { key, event });
    }

    fn pop(&mut self) -> Option<(Key, E)> {
        self.0.pop().map(|Entry { key, event }| (key, event))
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How far ahead an event is: often in the same slot, sometimes beyond the wheel, now and then
    /// far away.
    fn ahead() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 0..1_u64 << SLOT_BITS,
            3 => 0..1_000_000_u64,
            2 => 0..4 * (SLOTS << SLOT_BITS),
            1 => Just(SLOTS << SLOT_BITS),
            1 => 0..1_u64 << 45,
        ]
    }

    proptest! {
        #[test]
        fn a_wheel_has_the_order_of_a_heap(steps in prop::collection::vec((ahead(), 0..4_u32), 1..400)) {
            let (mut wheel, mut heap) = (Wheel::default(), Heap::default());
            let mut now = 0;
            for (order, (ahead, pops)) in (0..).zip(steps) {
                let key = Key { time: Time::from_picos(now + ahead), order };
                wheel.push(key, order);
                heap.push(key, order);
                for _ in 0..pops {
                    let next = wheel.pop();
                    prop_assert_eq!(next, heap.pop());
                    prop_assert_eq!(wheel.len(), heap.len());
                    now = next.map_or(now, |(key, _)| key.time.as_picos());
                }
            }
            while let Some(next) = heap.pop() {
                prop_assert_eq!(wheel.pop(), Some(next));
            }
            prop_assert_eq!(wheel.pop(), None);
        }
    }

    #[test]
    fn the_last_slot_of_the_wheel_is_not_the_first_of_the_next_turn() {
        let mut wheel = Wheel::default();
        let at = |slot: u64| Key { time: Time::from_picos(slot << SLOT_BITS), order: 0 };
        for slot in [SLOTS, SLOTS - 1, SLOTS + 1, 1] {
            wheel.push(at(slot), slot);
        }
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, slot)| slot).collect();
        assert_eq!(order, [1, SLOTS - 1, SLOTS, SLOTS + 1]);
    }
}

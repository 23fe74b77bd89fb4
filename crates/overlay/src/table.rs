//! All trunks of a host, and which of them have something to do.
//!
//! A trunk that has nothing to do costs nothing: no turn visits it, and its deadline lies in a
//! heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use datapath::Peer;
use units::{Instant, Span};

use crate::slots::Owner;
use crate::trunk::Trunk;

/// How many frames of one host are polled before those of the next.
const RUN: u32 = 32;

/// How soon one that waits for room in the kernel is visited although something was due before.
const RETRY: Span = Span::from_micros(500);

/// A trunk, and where it waits.
struct Entry {
    trunk: Box<Trunk>,
    /// It is in the list of those to maintain.
    is_touched: bool,
    /// It is in the ring of those with arrivals.
    has_arrivals: bool,
    /// It is in the ring of those that want memory.
    wants_memory: bool,
    /// The earliest of its deadlines in the heap.
    due: Option<Instant>,
}

/// All trunks, by the numbers of their hosts.
#[derive(Default)]
pub struct Table {
    entries: Vec<Option<Entry>>,
    /// How many trunks there ever were.
    serial: u64,
    /// Those to be maintained in this turn.
    touched: Vec<Peer>,
    /// Those whose frames have arrived, in turn.
    arrivals: VecDeque<Peer>,
    /// How many frames of the first of them were polled in its turn.
    polled: u32,
    /// Those with streams that wait for memory, in turn.
    wanting: VecDeque<Peer>,
    /// Deadlines. One that is not the [earliest known](Entry::due) of its trunk is out of date.
    due: BinaryHeap<Reverse<(Instant, Peer)>>,
}

impl Table {
    /// The owner of frames of the next trunk, which is to have this number.
    pub fn next_owner(&mut self, peer: Peer) -> Owner {
        self.serial += 1;
        Owner { peer, serial: self.serial }
    }

    /// Adds a trunk under the number of its owner, which is free.
    pub fn insert(&mut self, trunk: Trunk) {
        let peer = trunk.owner().peer;
        if self.entries.len() <= peer.index() {
            self.entries.resize_with(peer.index() + 1, || None);
        }
        let trunk = Box::new(trunk);
        let entry =
            Entry { trunk, is_touched: false, has_arrivals: false, wants_memory: false, due: None };
        assert!(self.entries[peer.index()].replace(entry).is_none(), "{peer:?} is taken");
        self.touch(peer);
    }

    /// Removes a trunk. Its deadlines are passed over.
    pub fn remove(&mut self, peer: Peer) -> Option<Trunk> {
        let entry = self.entries.get_mut(peer.index())?.take()?;
        self.touched.retain(|it| *it != peer);
        self.arrivals.retain(|it| *it != peer);
        self.wanting.retain(|it| *it != peer);
        Some(*entry.trunk)
    }

    /// How many numbers there are, some of which are free.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// The trunk with this number.
    pub fn get(&self, peer: Peer) -> Option<&Trunk> {
        Some(&self.entries.get(peer.index())?.as_ref()?.trunk)
    }

    /// The trunk with this number, for a change after which there may be nothing to do.
    pub fn get_mut(&mut self, peer: Peer) -> Option<&mut Trunk> {
        Some(&mut self.entries.get_mut(peer.index())?.as_mut()?.trunk)
    }

    /// All trunks, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Trunk> {
        self.entries.iter().flatten().map(|entry| &*entry.trunk)
    }

    /// The numbers of all trunks, in order.
    pub fn peers(&self) -> Vec<Peer> {
        self.iter().map(|trunk| trunk.owner().peer).collect()
    }

    /// The trunk with this number, for whoever changes its state: it is maintained in this turn.
    pub fn touch(&mut self, peer: Peer) -> Option<&mut Trunk> {
        let entry = self.entries.get_mut(peer.index())?.as_mut()?;
        if !std::mem::replace(&mut entry.is_touched, true) {
            self.touched.push(peer);
        }
        Some(&mut entry.trunk)
    }

    /// Notes that frames may have arrived by a trunk, or found no memory.
    pub fn note_arrivals(&mut self, peer: Peer) {
        let Some(entry) = self.entries.get_mut(peer.index()).and_then(Option::as_mut) else {
            return;
        };
        if entry.trunk.wants_memory() && !std::mem::replace(&mut entry.wants_memory, true) {
            self.wanting.push_back(peer);
        }
        if entry.trunk.has_arrivals() && !std::mem::replace(&mut entry.has_arrivals, true) {
            self.arrivals.push_back(peer);
        }
    }

    /// The trunk whose turn it is to have a frame polled; it is maintained in this turn. After
    /// that, [`note_polled`](Self::note_polled) is to be called.
    pub fn next_arrival(&mut self) -> Option<&mut Trunk> {
        self.touch(*self.arrivals.front()?)
    }

    /// Notes that a frame was polled from the trunk whose turn it was.
    pub fn note_polled(&mut self) {
        self.polled += 1;
        let peer = *self.arrivals.front().expect("it has its turn");
        let entry = self.entries[peer.index()].as_mut().expect("removed trunks have no turn");
        if !entry.trunk.has_arrivals() {
            entry.has_arrivals = false;
            self.arrivals.pop_front();
            self.polled = 0;
        } else if self.polled >= RUN {
            self.arrivals.rotate_left(1);
            self.polled = 0;
        }
    }

    /// The next trunk whose streams may wait for memory, of which there is more now: it is to be
    /// told.
    pub fn next_wanting(&mut self) -> Option<&mut Trunk> {
        while let Some(peer) = self.wanting.pop_front() {
            let entry = self.entries[peer.index()].as_mut().expect("removed trunks have no turn");
            entry.wants_memory = entry.trunk.wants_memory();
            if entry.wants_memory {
                self.wanting.push_back(peer);
                return self.touch(peer);
            }
        }
        None
    }

    /// Whether a frame has arrived that was not polled.
    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Visits each trunk that was touched. Those for which `visit` returns `true` are visited again
    /// in the next turn.
    pub fn maintain(
        &mut self,
        now: Instant,
        patience: Span,
        mut visit: impl FnMut(&mut Trunk) -> bool,
    ) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.retain(|peer| {
            let Self { entries, due, .. } = self;
            let entry = entries[peer.index()].as_mut().expect("removed trunks are not listed");
            entry.is_touched = visit(&mut entry.trunk);
            // What is due is not done as long as the kernel has no room: it is tried again soon.
            let earliest = if entry.trunk.is_tx_blocked() { now + RETRY } else { Instant::ZERO };
            if let Some(at) = entry.trunk.deadline(patience).map(|at| at.max(earliest))
                && entry.due.is_none_or(|due| at < due)
            {
                entry.due = Some(at);
                due.push(Reverse((at, *peer)));
            }
            entry.is_touched
        });
        self.touched = touched;
        self.drop_outdated();
    }

    /// The trunks that are to be maintained.
    pub fn touched(&self) -> impl Iterator<Item = &Trunk> {
        self.touched.iter().filter_map(|peer| self.get(*peer))
    }

    /// Calls `visit` with each trunk that is to be maintained.
    pub fn each_touched(&mut self, mut visit: impl FnMut(&mut Trunk)) {
        let Self { entries, touched, .. } = self;
        for peer in touched {
            entries[peer.index()].iter_mut().for_each(|entry| visit(&mut entry.trunk));
        }
    }

    /// Whether a trunk is to be maintained.
    pub fn is_any_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The earliest deadline, or one that was the earliest.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The next trunk with a deadline by now. It is maintained in this turn.
    pub fn pop_due(&mut self, now: Instant, patience: Span) -> Option<&mut Trunk> {
        while let Some(Reverse((at, peer))) = self.due.peek().copied().filter(|due| due.0.0 <= now)
        {
            self.due.pop();
            let Some(entry) = self.entries.get_mut(peer.index()).and_then(Option::as_mut) else {
                continue;
            };
            if entry.due != Some(at) {
                continue;
            }
            entry.due = None;
            match entry.trunk.deadline(patience) {
                Some(at) if at <= now => return self.touch(peer),
                Some(later) => {
                    entry.due = Some(later);
                    self.due.push(Reverse((later, peer)));
                }
                None => {}
            }
        }
        None
    }

    /// Keeps deadlines that are out of date from taking memory without end.
    fn drop_outdated(&mut self) {
        let Self { entries, due, .. } = self;
        if due.len() > 4 * entries.len() + 64 {
            due.retain(|Reverse((at, peer))| {
                entries[peer.index()].as_ref().is_some_and(|entry| entry.due == Some(*at))
            });
        }
    }
}

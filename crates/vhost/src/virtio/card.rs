//! A guest's network card: its rings, and the frames that lie in its memory.
//!
//! ```text
//!   guest:  transmit rings ─take─▶ HeldFrames ─view─▶ another port's transmit
//!                          ◀─────── release
//!           receive rings  ◀─put── transmit: the one copy
//! ```
//!
//! A frame stays in the guest's transmit ring until its receiver has it, and is given back only
//! then; others that go elsewhere are given back before it. So the ring is the queue, and when it
//! is full, the guest's socket waits.
//!
//! A ring can go away while frames of it are held. Then they are copied, and the guest has its
//! buffers back.

use wire::flow;

use super::Corrupt;
use super::chain::Chain;
use super::held::HeldFrames;
use super::inbox::Inbox;
use super::log::{Places, Written};
use super::memory::GuestMemory;
use super::ring::{Base, Ring};
use port::{BURST, FrameView, Slot, Taken};

/// The rings and frames of one card.
#[derive(Debug)]
pub struct Card {
    memory: GuestMemory,
    held: HeldFrames,
    pairs: Vec<Pair>,
    /// From which pair's transmit ring frames are taken next.
    turn: usize,
    /// The pairs by whose receive rings frames can go to the guest.
    receivers: Vec<u8>,
    /// Frames that were just held and not opened yet.
    fresh: Vec<u32>,
    /// The guest was asked to tell of what it makes available.
    armed: bool,
}

/// A receive ring and a transmit ring, and whether each is enabled.
#[derive(Debug, Default)]
struct Pair {
    receive: Option<Inbox>,
    transmit: Option<Outbox>,
    enabled: [bool; 2],
}

/// The ring by which a guest transmits.
#[derive(Debug)]
struct Outbox {
    ring: Ring,
    chain: Box<Chain>,
    /// Its headers may leave something to do.
    offloads: bool,
}

/// What was negotiated of a card.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// Frames may take several chains of the receive ring (MRG_RXBUF).
    pub mergeable: bool,
    /// The guest may leave checksums and segmentation to us (CSUM, HOST_TSO).
    pub offloads: bool,
}

impl Card {
    /// A card of so many queue pairs, of which as many frames can be held.
    pub fn new(pairs: u8, frames: u32) -> Self {
        Self {
            memory: GuestMemory::default(),
            held: HeldFrames::new(frames),
            pairs: (0..pairs).map(|_| Pair::default()).collect(),
            turn: 0,
            receivers: Vec::with_capacity(pairs.into()),
            fresh: Vec::with_capacity(BURST),
            armed: false,
        }
    }

    /// What the rings' buffers lie in from now on. No ring may run.
    pub fn set_memory(&mut self, memory: GuestMemory) {
        self.memory = memory;
    }

    /// From now on ring `index` runs, enabled: a receive ring if that is even, a transmit ring if
    /// it is odd.
    pub fn start(&mut self, index: usize, ring: Ring, agreed: Agreed) {
        // Until it is told otherwise, a guest tells of everything.
        self.armed = true;
        let pair = &mut self.pairs[index / 2];
        if index.is_multiple_of(2) {
            pair.receive = Some(Inbox::new(ring, agreed.mergeable));
        } else {
            let chain = Box::new(Chain::new(ring.is_packed(), false));
            pair.transmit = Some(Outbox { ring, chain, offloads: agreed.offloads });
        }
        self.enable(index, true);
    }

    /// Whether ring `index` is to be used, while it runs. By one that is not, nothing goes to the
    /// guest, and what the guest makes available there stays until it is.
    ///
    /// vhost-user would have the latter discarded ("Ring states"). That would be a loss, so we do
    /// as DPDK's back-end, which leaves such a ring alone; guests use those rings that they have
    /// enabled, so it is no matter of theirs.
    pub fn enable(&mut self, index: usize, enabled: bool) {
        self.pairs[index / 2].enabled[index % 2] = enabled;
        self.find_receivers();
    }

    fn find_receivers(&mut self) {
        let receives = |pair: &Pair| pair.receive.is_some() && pair.enabled[0];
        self.receivers.clear();
        self.receivers.extend(
            (0..).zip(&self.pairs).filter(|(_, pair)| receives(pair)).map(|(number, _)| number),
        );
    }

    /// Whether there is a pair whose rings both run and are enabled: frames go both ways.
    pub fn has_pair(&self) -> bool {
        let goes = |pair: &Pair| {
            pair.receive.is_some() && pair.transmit.is_some() && pair.enabled == [true; 2]
        };
        self.pairs.iter().any(goes)
    }

    /// From now on ring `index` is not touched. Where it stands, if it ran: everything that was
    /// taken is given back.
    pub fn stop(&mut self, index: usize, log: &mut impl Written) -> Option<Base> {
        let pair = &mut self.pairs[index / 2];
        let mut ring = if index.is_multiple_of(2) {
            let ring = pair.receive.take()?.close();
            self.find_receivers();
            ring
        } else {
            let mut ring = pair.transmit.take()?.ring;
            self.held.keep(index as u8, &self.memory, |id| ring.give_back(id, 0));
            ring
        };
        ring.publish(log);
        Some(ring.base())
    }

    /// Before all rings stop for good: what is recorded is not given back, so that whoever comes
    /// after us takes it again. It can be looked at until it is released. The guest tells nobody of
    /// what it transmits meanwhile: there is nobody to be told.
    pub fn leave(&mut self) {
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            let Some(Outbox { ring, .. }) = &mut pair.transmit else { continue };
            ring.leave();
            if ring.is_recorded() {
                self.held.keep(2 * number as u8 + 1, &self.memory, |_| ());
            }
        }
    }

    /// Where to log what is written to ring `index` itself, if it runs and anybody does.
    pub fn log_at(&mut self, index: usize, places: Option<Places>) {
        let pair = &mut self.pairs[index / 2];
        match (index.is_multiple_of(2), &mut pair.receive, &mut pair.transmit) {
            (true, Some(inbox), _) => inbox.log_at(places),
            (false, _, Some(outbox)) => outbox.ring.log_at(places),
            _ => {}
        }
    }

    /// Takes at most `most` frames of what the guest transmits, in the order of each ring. Whether
    /// there may be more.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: the guest's rings are not to be used any more. Frames told of before are held.
    #[inline(always)]
    pub fn receive(
        &mut self,
        most: usize,
        mut arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<bool, Corrupt> {
        self.disarm();
        let mut left = most.min(self.held.room());
        let mut failed = Ok(());
        let mut offloads = false;
        for _ in 0..self.pairs.len() {
            let number = self.turn;
            self.turn = if number + 1 == self.pairs.len() { 0 } else { number + 1 };
            let Pair {
                transmit: Some(Outbox { ring, chain, offloads: has }),
                enabled: [_, true],
                ..
            } = &mut self.pairs[number]
            else {
                continue;
            };
            offloads |= *has;
            while left > 0 {
                match ring.take(&self.memory, chain) {
                    Ok(Some(head)) => {
                        self.fresh.push(self.held.hold(2 * number as u8 + 1, head, chain))
                    }
                    Ok(None) => break,
                    Err(corrupt) => {
                        failed = Err(corrupt);
                        break;
                    }
                }
                left -= 1;
            }
            if left == 0 || failed.is_err() {
                break;
            }
        }
        for &number in &self.fresh {
            self.held.open(number, offloads);
            arrived(Slot(number), &self.held.view(number));
        }
        self.fresh.clear();
        failed.map(|()| left == 0)
    }

    /// Asks the guest to tell of frames that it transmits next. Whether there is one already, of
    /// which it may not tell.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    pub fn arm_ingress(&mut self) -> Result<bool, Corrupt> {
        self.armed = true;
        let enabled = self.pairs.iter_mut().filter(|pair| pair.enabled[1]);
        let mut rings = enabled.filter_map(|pair| pair.transmit.as_mut());
        rings.try_fold(false, |ready, outbox| Ok(ready | outbox.ring.wait()?))
    }

    /// Asks the guest to tell of buffers, where there were too few for a frame. Whether there are
    /// more already.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    pub fn arm_egress(&mut self) -> Result<bool, Corrupt> {
        self.armed = true;
        let enabled = self.pairs.iter_mut().filter(|pair| pair.enabled[0]);
        let mut rings = enabled.filter_map(|pair| pair.receive.as_mut());
        rings.try_fold(false, |ready, inbox| Ok(ready | inbox.arm()?))
    }

    /// Whether as many frames are held as can be.
    pub fn is_full(&self) -> bool {
        self.held.room() == 0
    }

    /// Tells the guest that we look by ourselves again.
    #[inline]
    fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            for pair in &mut self.pairs {
                pair.transmit.iter_mut().for_each(|outbox| outbox.ring.be_silent());
                pair.receive.iter_mut().for_each(Inbox::disarm);
            }
        }
    }

    /// From now on frames are held with all their headers.
    pub fn show_headers(&mut self) {
        self.held.show_headers();
    }

    /// A frame that is held.
    #[inline(always)]
    pub fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.held.view(slot.0)
    }

    /// Writes over some of a frame's first bytes. Whether it has so many.
    pub fn rewrite(&mut self, slot: Slot, at: usize, bytes: &[u8]) -> bool {
        self.held.rewrite(slot.0, at, bytes)
    }

    /// Gives a frame's buffers back.
    #[inline(always)]
    pub fn release(&mut self, slot: Slot) {
        if let Some((ring, id)) = self.held.release(slot.0)
            && let Some(Outbox { ring, .. }) = &mut self.pairs[usize::from(ring) / 2].transmit
        {
            ring.give_back(id, 0);
        }
    }

    /// Copies at most `most` frames that are held, so that the guest has their buffers back.
    pub fn keep(&mut self, most: usize) {
        let Self { held, pairs, memory, .. } = self;
        held.keep_some(most, memory, |ring, id| {
            if let Some(Outbox { ring, .. }) = &mut pairs[usize::from(ring) / 2].transmit {
                ring.give_back(id, 0);
            }
        });
    }

    /// Hands a frame to the guest: one copy. Of several receive rings that are enabled, a flow has
    /// one, as long as they are the same.
    ///
    /// `Busy` says that this frame's ring is full. Whoever asks offers it again before the next one
    /// of its queue, so that frames for other rings wait behind it until the guest has emptied this
    /// one: rings are for the guest's processors, and do not have queues of their own in the
    /// switch.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]
    #[inline(always)]
    pub fn transmit(
        &mut self,
        frame: &FrameView<'_>,
        log: &mut impl Written,
    ) -> Result<Taken, Corrupt> {
        let pair = match self.receivers[..] {
            [] => return Ok(Taken::Busy),
            [only] => only,
            ref several => several[flow::place(flow_of(frame), several.len())],
        };
        let inbox =
            self.pairs[usize::from(pair)].receive.as_mut().expect("who receives has a ring");
        inbox.put(&self.memory, frame, log)
    }

    /// Shows the guest what it got; tells of each ring of which it wants to be interrupted.
    #[inline]
    pub fn deliver(&mut self, log: &mut impl Written, mut interrupt: impl FnMut(usize)) {
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            if let Some(inbox) = &mut pair.receive
                && inbox.publish(log)
            {
                interrupt(2 * number);
            }
        }
    }

    /// Shows the guest what it got and what it has back; tells of each ring of which it wants to be
    /// interrupted.
    #[inline]
    pub fn publish(&mut self, log: &mut impl Written, mut interrupt: impl FnMut(usize)) {
        self.deliver(log, &mut interrupt);
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            if let Some(outbox) = &mut pair.transmit
                && outbox.ring.publish(log)
            {
                interrupt(2 * number + 1);
            }
        }
    }
}

/// The number of the flow that a frame is of.
#[inline(never)]
fn flow_of(frame: &FrameView<'_>) -> u32 {
    let mut scratch = [0; flow::HEADERS];
    flow::hash(frame.first(&mut scratch), frame.len())
}

//! Slow receivers: what is for one is to wait apart from what its senders send to others, if their
//! devices can do that (see [`Port::divert`]).

use lossless::{PortId, PortSet, Switch, Waiting};
use port::{Like, Port, Slot};
use units::Instant;

use crate::line::Lines;
use crate::peers::Peers;

/// How many frames and queues a tick may look at, on average.
const LOOKED_AT_IN_A_TICK: u32 = 4096;

/// Which senders are looked at.
#[derive(Default)]
pub struct Diversions {
    /// Those that had used up half of what may be held of them, since the last tick and before it.
    crowded: PortSet,
    crowded_before: PortSet,
    /// Those of whose frames some are diverted, until none are and no more than usual is held.
    diverting: PortSet,
    /// For so many ticks nobody's frames are looked at, as there were many.
    rests: u32,
}

impl Diversions {
    /// Whether the next tick is not to be late: somebody may be held up until then.
    pub fn are_urgent(&self) -> bool {
        !self.crowded.is_empty() || !self.crowded_before.is_empty()
    }

    /// Whether devices that divert are to be [tended](Self::tend) now and then.
    pub fn are_there(&self) -> bool {
        !self.diverting.is_empty()
    }

    /// Half of what may be held of this sender is used up.
    #[inline]
    pub fn note_crowded(&mut self, id: PortId) {
        self.crowded.insert(id);
    }

    /// Some of this sender's frames are diverted.
    pub fn note_diverting(&mut self, id: PortId) {
        self.diverting.insert(id);
    }

    /// A port goes, and its number may soon be another one's.
    pub fn forget(&mut self, id: PortId) {
        self.crowded.remove(id);
        self.crowded_before.remove(id);
        self.diverting.remove(id);
    }

    /// Where a sender has used up half of what may be held of it, at this tick as at the one
    /// before: has the receiver that most of it waits for wait apart from others.
    pub fn divert_slow<P: Port, F: Peers>(
        &mut self,
        switch: &Switch<Slot>,
        lines: &mut Lines<P, F>,
        needs_flush: &mut PortSet,
    ) {
        let mut crowded = std::mem::take(&mut self.crowded);
        let before = std::mem::replace(&mut self.crowded_before, crowded);
        self.rests = self.rests.saturating_sub(1);
        for id in { crowded }.iter() {
            let line = lines[id.index()].as_mut();
            if !before.contains(id) || line.is_none_or(|line| !line.device().may_divert()) {
                crowded.remove(id);
            }
        }
        if crowded.is_empty() || self.rests > 0 {
            return;
        }
        let (waiting, looked_at) = switch.waiting_of(crowded);
        self.rests = looked_at / LOOKED_AT_IN_A_TICK;
        for Waiting { from, frames, frame } in waiting {
            let least = switch.config(from).ingress.frames.min(1024) / 16;
            let Some(line) = lines[from.index()].as_mut() else { continue };
            // Large ones are few.
            let is_most = frames >= least || line.device().is_crowded();
            if is_most && crowded.contains(from) && line.device().divert(frame, Like::Receiver) {
                crowded.remove(from);
                needs_flush.insert(from);
                self.diverting.insert(from);
            }
        }
    }

    /// Has devices that divert look after it, and lets the switch hold more of a sender while
    /// frames may come that were sent before their receiver was diverted: what is for others is
    /// behind them.
    pub fn tend<P: Port, F: Peers>(
        &mut self,
        now: Instant,
        switch: &mut Switch<Slot>,
        lines: &mut Lines<P, F>,
        needs_flush: &mut PortSet,
    ) {
        for id in { self.diverting }.iter() {
            let Some(line) = lines[id.index()].as_mut() else { continue };
            let lent = line.device().lent();
            let is_lent = switch.lend(now, id, lent.unwrap_or(0));
            if lent.is_none() && !is_lent {
                self.diverting.remove(id);
            }
            needs_flush.insert(id);
        }
    }
}

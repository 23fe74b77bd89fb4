//! The overlay as the plane's far hosts.

use datapath::{Origin, Remote};
use lossless::{Flow, PortId, Reason, Refusal};
use plane::{Arrival, Event, Leaving, Peers, Senders, Sent};
use port::{FrameView, Slot};
use tunnel::{Answer, Context};
use units::Instant;

use crate::overlay::Overlay;
use crate::shared::{Shared, origin_of};
use crate::slots::Slots;
use crate::trunk::Trunk;

/// The label that a frame with a context is for, and where it came from.
fn logical_of(slots: &Slots, slot: Slot, context: Context) -> Option<(u32, Origin)> {
    let (stream, ..) = slots.get(slot).place?;
    Some((stream.label, origin_of(context)))
}

impl Peers for Overlay {
    fn poll_arrival(&mut self) -> Option<(Slot, Arrival)> {
        let Self { table, shared: Shared { slots, .. }, .. } = self;
        loop {
            let trunk = table.next_arrival()?;
            let slot = trunk.poll_arrival(slots).expect("a trunk in the ring has arrivals");
            let context = slots.context(slot);
            if context.is_some_and(|context| context.flags.has_unknown()) {
                trunk.give_back(slots, slot, Reason::Unfit, Answer::Unsupported);
                table.note_polled();
                continue;
            }
            if let Some(context) = context
                && let Some(answer) = trunk.behind_moved(slots, slot, context)
            {
                trunk.give_back(slots, slot, Reason::Moved, answer);
                table.note_polled();
                continue;
            }
            table.note_polled();
            let stored = slots.get(slot);
            let network = (!stored.is_orphan).then_some(stored.network);
            let class = stored.class;
            let logical = context.and_then(|context| logical_of(slots, slot, context));
            return Some((slot, Arrival { network, class, logical }));
        }
    }

    fn has_arrivals(&self) -> bool {
        self.table.has_arrivals()
    }

    fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.shared.slots.view(slot)
    }

    fn logical(&self, slot: Slot) -> Option<(u32, Origin)> {
        let slots = &self.shared.slots;
        slots.context(slot).and_then(|context| logical_of(slots, slot, context))
    }

    fn release(&mut self, slot: Slot, refused: Option<Reason>) {
        let Self { table, shared: Shared { slots, .. }, .. } = self;
        let owner = slots.get(slot).owner;
        match table.touch(owner.peer).filter(|trunk| trunk.owner() == owner) {
            Some(trunk) => trunk.release(slots, slot, refused),
            // The host is gone, and has to be told nothing.
            None => drop(slots.release(slot)),
        }
        if let Some(trunk) = table.next_wanting() {
            trunk.offer_memory(slots);
        }
    }

    fn send(&mut self, now: Instant, flow: Flow, leaving: &Leaving<'_>) -> Sent {
        let (remote, _) = Remote::of_flow(flow);
        match self.table.touch(remote.peer) {
            Some(trunk) => trunk.send(now, &mut self.shared, flow, leaving),
            None => Sent::Refused(Refusal::UNFIT),
        }
    }

    fn maintain(&mut self, now: Instant, delivered: bool, senders: &impl Senders) -> bool {
        let Self { table, shared, .. } = self;
        let mut moved = false;
        table.maintain(now, shared.patience, |trunk| {
            moved |= trunk.maintain(now, shared, delivered, senders);
            trunk.needs_maintenance()
        });
        moved
    }

    fn needs_maintenance(&self) -> bool {
        self.table.is_any_touched()
    }

    fn busy_until(&self) -> Option<Instant> {
        self.links_busy_until()
    }

    fn is_tx_blocked(&self) -> bool {
        self.table.touched().any(Trunk::is_tx_blocked)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn forget_sender(&mut self, port: PortId) {
        for peer in self.table.peers() {
            if self.table.get_mut(peer).is_some_and(|trunk| trunk.forget_sender(port)) {
                self.table.touch(peer);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.table.deadline().into_iter().chain(self.shared.downlinks.due()).min()
    }

    fn handle_timeouts(&mut self, now: Instant) {
        if self.shared.downlinks.due().is_some_and(|at| at <= now) {
            self.grant(now);
        }
        let Self { table, shared, .. } = self;
        while let Some(trunk) = table.pop_due(now, shared.patience) {
            let peer = trunk.owner().peer;
            trunk.handle_timeout(now, shared);
            table.note_arrivals(peer);
        }
    }
}

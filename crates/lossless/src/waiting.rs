//! What senders have waiting, and for whom.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Reverse;

use units::Class;

use crate::cells::Queue;
use crate::flows::State;
use crate::id::PortId;
use crate::set::PortSet;
use crate::switch::Switch;

/// What one sender has waiting for one receiver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting<F> {
    /// The sender.
    pub from: PortId,
    /// How many of its frames wait.
    pub frames: u32,
    /// The handle of the last one.
    pub frame: F,
}

impl<F: Copy> Switch<F> {
    /// What these senders have waiting for each receiver, the most first, and how many frames and
    /// queues were looked at to find that: all that wait at egresses, whoever sent them. What is
    /// for several, and what is set aside, is not in it.
    pub fn waiting_of(&self, senders: PortSet) -> (Vec<Waiting<F>>, u32) {
        let (mut found, looked_at) = (Vec::new(), Cell::new(0u32));
        let mut count = |queues: &mut dyn Iterator<Item = &Queue>| {
            let mut here = BTreeMap::new();
            let queues = queues.inspect(|_| looked_at.update(|looked_at| looked_at + 1));
            for node in queues.flat_map(|queue| self.cells.iter(queue)) {
                looked_at.update(|looked_at| looked_at + 1);
                let stamp = self.cells.label(node).stamp;
                let from = PortId(stamp.ingress());
                if stamp.is_alone() && senders.contains(from) {
                    let frame = self.cells.look(node).frame;
                    let waiting = here.entry(stamp.ingress());
                    let waiting = waiting.or_insert(Waiting { from, frames: 0, frame });
                    (waiting.frames, waiting.frame) = (waiting.frames + 1, frame);
                }
            }
            found.extend(here.into_values());
        };
        for (id, port) in self.ports.iter() {
            let switched = port.egress.classes.0.iter().map(|class| &class.queue);
            let voqs = Class::all().flat_map(|class| self.waiting(id, class));
            let theirs = voqs.filter(|voq| senders.contains(voq.ingress()));
            count(&mut switched.chain(theirs.map(|voq| &voq.queue)));
            let offered = port.egress.flows.iter().filter(|(_, flow)| flow.state != State::Aside);
            offered.for_each(|(_, flow)| count(&mut flow.queues()));
            port.egress.away.values().for_each(|queue| count(&mut core::iter::once(queue)));
        }
        found.sort_by_key(|waiting| Reverse(waiting.frames));
        (found, looked_at.get())
    }
}

//! What the switch itself refuses, told frame by frame to whoever wants to see it.
//!
//! The books count refusals; who captures frames wants their bytes as well. So, while it is asked to, the switch keeps a list.
//! Its owner takes it after each visit, tick or detachment, before it gives back what was released.

use alloc::vec::Vec;
use core::mem;

use units::Instant;

use crate::cells::Node;
use crate::switch::{End, Released};
use crate::{PortId, Reason, Refusal, Switch};

/// A frame that was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused<F> {
    /// The sender's handle.
    pub frame: F,
    /// The port that it came by.
    pub ingress: PortId,
    /// The port that was to have it.
    pub egress: PortId,
    /// Why.
    pub reason: Reason,
}

impl<F: Copy> Switch<F> {
    /// Whether a list of what is refused is kept from now on. It grows until it is [taken](Self::take_refused).
    pub fn list_refused(&mut self, wanted: bool) {
        self.refused = wanted.then(Vec::new);
    }

    /// Takes the list of what was refused since it was taken last, in order: each copy of a flooded frame that was refused. What
    /// the switch's owner refused ([`Head::refuse`](crate::Head::refuse), [`Arrivals::refuse`](crate::Arrivals::refuse)) is not in
    /// it, nor what no egress was to have ([`Offered::Refused`](crate::Offered::Refused) tells of it).
    pub fn take_refused(&mut self) -> Vec<Refused<F>> {
        self.refused.as_mut().map(mem::take).unwrap_or_default()
    }

    /// One egress refuses a frame that lies in none of its queues any more.
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        egress: PortId,
        node: Node,
        refusal: Refusal,
    ) -> Option<Released<F>> {
        self.note_refusal(node, egress, refusal);
        self.finish(now, egress, node, End::Refused(refusal))
    }

    #[inline]
    fn note_refusal(&mut self, node: Node, egress: PortId, refusal: Refusal) {
        let Self { refused, cells, .. } = self;
        if let Some(refused) = refused {
            let seen = cells.look(node);
            let ingress = PortId(seen.label.stamp.ingress());
            refused.push(Refused { frame: seen.frame, ingress, egress, reason: refusal.reason() });
        }
    }
}

//! Copies for bystanders: receivers that have not asked for what is sent to everybody. They hold no
//! sender back.
//!
//! A frame that is for many is held until the last of them has it. So one receiver that takes
//! nothing would use up what its sender may have held, and with it the sender's way to everybody
//! else. Those who asked for a frame are worth that, as a single receiver is. For the others, a
//! sender's copies may take up a share of its room, and those at one receiver half of what of that
//! share is free (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking,
//! 1998). So `k` receivers that take nothing have `k` parts of `k + 2`, and two are left to those
//! who keep up.
//!
//! What is free is counted when the sender's visit begins, before any receiver had a chance to take
//! what came in it: so a burst does not count against itself.

use crate::account::Refusal;
use crate::cells::Node;
use crate::copies::{share, weight};
use crate::flows::Flow;
use crate::forward::Step;
use crate::id::PortId;
use crate::port::{Ingress, Port};
use crate::switch::Switch;

impl Ingress {
    /// What is held of the sender's copies for bystanders.
    fn copies_held(&self) -> u32 {
        self.copies.as_ref().map_or(0, |copies| copies.frames)
    }
}

impl<F: Copy> Switch<F> {
    /// How many frames of a port's sender are held for bystanders, large segments counted several
    /// times.
    #[inline]
    pub fn copies_held(&self, port: PortId) -> u32 {
        self.port(port).ingress.copies_held()
    }

    /// Where a copy for a bystander goes that would have gone on by this step: there, if there is
    /// room in its sender's share, of which so much was `standing` when the sender's visit began.
    /// It never waits for a place that its egress has not, nor uses up its sender's quota.
    pub(crate) fn copy_step(
        &self,
        step: Step,
        from: PortId,
        (to, flow): (PortId, Option<Flow>),
        bytes: u32,
        standing: u32,
    ) -> Step {
        let Port { config, ingress, .. } = self.port(from);
        let has_place = match (&step, flow) {
            (Step::Refused(_), _) => return step,
            (Step::Switched, _) => true,
            (Step::Waits, None) => false,
            (Step::Waits, Some(flow)) => {
                self.port(to).egress.flows.lane_frames(flow, from) + 1 < config.quota.get()
            }
        };
        let there = ingress.copies.as_ref().map_or(0, |it| it.at(to, flow.map(Flow::group)));
        let free = share(config).saturating_sub(standing);
        if has_place && there + weight(bytes) <= free / 2 {
            step
        } else {
            Step::Refused(Refusal::SLOW)
        }
    }

    /// A copy for a bystander is about to lie in a queue.
    pub(crate) fn begin_copy(&mut self, from: PortId, to: PortId, flow: Option<Flow>, node: Node) {
        let weight = weight(self.cells.label(node).bytes);
        let is_first = self.cells.set_spare(node);
        let copies = self.ports[from].ingress.copies.get_or_insert_default();
        *copies.at_mut(to, flow.map(Flow::group)) += weight;
        if is_first {
            copies.frames += weight;
        }
    }

    /// An egress is done with a bystander's copy, which lies in none of its queues any more.
    #[cold]
    pub(crate) fn end_copy(&mut self, from: PortId, to: PortId, group: Option<u32>, node: Node) {
        let weight = weight(self.cells.label(node).bytes);
        let is_last = self.cells.end_spare(node);
        let copies = self.ports[from].ingress.copies.as_mut().expect("who has a copy counts it");
        let at = copies.at_mut(to, group);
        *at -= weight;
        if *at == 0
            && let Some(group) = group
        {
            copies.forget(group);
        }
        if is_last {
            copies.frames -= weight;
        }
    }

    /// What is held of copies for bystanders, by sender, as the books have it and as it is counted;
    /// the first sender of which the two differ.
    pub(crate) fn wrong_copies(&self) -> Option<(PortId, u32, u32)> {
        let counted = self.cells.held_for_bystanders(weight);
        self.ports.iter().find_map(|(id, port)| {
            let booked = port.ingress.copies_held();
            let counted = counted.get(&(id.index() as u16)).copied().unwrap_or(0);
            (booked != counted).then_some((id, booked, counted))
        })
    }
}

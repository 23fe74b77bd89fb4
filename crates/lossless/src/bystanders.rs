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

use alloc::collections::BTreeMap;

use units::Class;

use crate::account::Refusal;
use crate::cells::Node;
use crate::copies::{share, weight};
use crate::flows::Flow;
use crate::forward::Step;
use crate::id::PortId;
use crate::port::{Ingress, Port};
use crate::switch::Switch;

/// What the copies of each sender weigh at an egress, or in a group behind it.
pub(crate) type Counted = BTreeMap<(PortId, Option<u32>), u32>;

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

    /// The step of a bystander's copy: `step`, if its sender's share has room, else a refusal. Of
    /// the share so much was `standing` when the sender's visit began. A copy waits behind others
    /// of its sender, but is not what reaches the sender's quota.
    pub(crate) fn copy_step(
        &self,
        step: Step,
        (from, class): (PortId, Class),
        (to, flow): (PortId, Option<Flow>),
        bytes: u32,
        standing: u32,
    ) -> Step {
        let Port { config, ingress, .. } = self.port(from);
        let before = match (&step, flow) {
            (Step::Refused(_), _) => return step,
            (Step::Switched, _) => 0,
            (Step::Waits, None) => {
                self.voqs.find(from, to, class).map_or(0, |voq| self.voqs[voq].frames)
            }
            (Step::Waits, Some(flow)) => {
                self.port(to).egress.flows.lane_frames(self.part(from, to, flow), from)
            }
        };
        let has_place = matches!(step, Step::Switched) || before + 1 < config.quota.get();
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
        self.ports[to].egress.copies += weight;
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
        self.ports[to].egress.copies -= weight;
    }

    /// A copy for a bystander lies in a queue of an egress.
    pub(crate) fn count_copy(&self, counted: &mut Counted, node: Node) {
        let label = self.cells.label(node);
        if label.stamp.is_spare() {
            let of = (PortId(label.stamp.ingress()), self.cells.group(node));
            *counted.entry(of).or_default() += weight(label.bytes);
        }
    }

    /// What is booked of copies for bystanders and cannot be so: of a sender at an egress, where so
    /// much was counted; of that egress, whose sum shows what is booked of other senders; or of the
    /// port's own sender, whose books may contradict each other. Whose it is, what is booked, and
    /// what is counted.
    pub(crate) fn wrong_copies_at(
        &self,
        egress: PortId,
        counted: &Counted,
    ) -> Option<(PortId, u32, u32)> {
        let here = counted.iter().find_map(|((sender, group), counted)| {
            let copies = self.port(*sender).ingress.copies.as_ref();
            let booked = copies.map_or(0, |copies| copies.at(egress, *group));
            (booked != *counted).then_some((*sender, booked, *counted))
        });
        let Port { ingress, egress: side, .. } = self.port(egress);
        let (booked, sum) = (side.copies, counted.values().sum());
        let sums = (booked != sum).then_some((egress, booked, sum));
        // A frame has at least one copy, and each copy is of a frame.
        let (frames, copies) = ingress.copies.as_ref().map_or((0, 0), |it| (it.frames, it.sum()));
        let own =
            (frames > copies || (frames == 0) != (copies == 0)).then_some((egress, frames, copies));
        here.or(sums).or(own)
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

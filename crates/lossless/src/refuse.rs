//! How a frame's stay ends, and what the switch itself refuses.
//!
//! The books count refusals; who captures frames wants their bytes as well. So, while it is asked
//! to, the switch keeps a list. Its owner takes it after each visit, tick or detachment, before it
//! gives back what was released.

use alloc::vec::Vec;
use core::mem;

use units::{Class, ClassMap, Instant};

use crate::account::{End, Refusal};
use crate::cells::{Finished, Label, Node, Queue};
use crate::flows::{FlowPart, State};
use crate::id::PortId;
use crate::port::{Egress, Port};
use crate::switch::{Offered, Refused, Released, Switch};

impl<F: Copy> Switch<F> {
    /// Whether a list of what is refused is kept from now on. It grows until it is
    /// [taken](Self::take_refused).
    pub fn list_refused(&mut self, wanted: bool) {
        self.refused = wanted.then(Vec::new);
    }

    /// Takes the list of what was refused since it was taken last, in order: each copy of a frame
    /// for many that was refused. What the switch's owner refused
    /// ([`Head::refuse`](crate::Head::refuse), [`Arrivals::refuse`](crate::Arrivals::refuse)) is
    /// not in it.
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
            let (egress, reason) = (Some(egress), refusal.reason());
            refused.push(Refused { frame: seen.frame, ingress, egress, reason });
        }
    }

    /// Refuses a frame that is for no other port.
    pub(crate) fn refuse_at_once(
        &mut self,
        from: PortId,
        class: Class,
        bytes: u32,
        frame: F,
        refusal: Refusal,
    ) -> Offered<F> {
        self.ports[from].ingress.classes[class].account.turn_away(bytes, refusal);
        let reason = refusal.reason();
        if let Some(refused) = &mut self.refused {
            refused.push(Refused { frame, ingress: from, egress: None, reason });
        }
        Offered::Refused(frame, reason)
    }

    /// One egress is done with a frame that lies in none of its queues any more: books it on both
    /// sides, and forgets it if no other egress wants it.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        egress: PortId,
        node: Node,
        end: End,
    ) -> Option<Released<F>> {
        let Label { stamp, bytes, .. } = self.cells.label(node);
        let (ingress, class) = (PortId(stamp.ingress()), stamp.class());
        let group = self.cells.group(node);
        if stamp.is_spare() {
            self.end_copy(ingress, egress, group, node);
        }
        let egress = &mut self.port_mut(egress).egress;
        egress.classes[class].account.end(end, bytes);
        if let Some(group) = group {
            egress.groups.account(group).end(end, bytes);
        }
        let Finished { frame, delivered } =
            self.cells.finish(node, matches!(end, End::Delivered | End::Taken))?;
        let port = self.port_mut(ingress);
        let side = &mut port.ingress.classes[class];
        let refused = match end {
            End::Refused(refusal) if !delivered => {
                side.refuse(refusal, bytes);
                Some(refusal.reason())
            }
            _ => {
                side.deliver(1, bytes.into());
                None
            }
        };
        port.ingress.resume(now, &port.config);
        Some(Released { port: ingress, frame, refused })
    }

    pub(crate) fn refuse_queue(
        &mut self,
        now: Instant,
        egress: PortId,
        queue: &mut Queue,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        while let Some(node) = self.cells.pop(queue) {
            self.refuse(now, egress, node, refusal).into_iter().for_each(&mut *released);
        }
    }

    /// Refuses everything that waits for `egress` in VOQs: its receiver will not take it.
    pub(crate) fn refuse_waiting(
        &mut self,
        now: Instant,
        egress: PortId,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        for class in Class::all() {
            while let Some(node) = self.pop_waiting(now, egress, class) {
                self.refuse(now, egress, node, refusal).into_iter().for_each(&mut *released);
            }
        }
    }

    /// Refuses everything in a part of a flow.
    pub(crate) fn refuse_flow(
        &mut self,
        now: Instant,
        egress: PortId,
        part: FlowPart,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        let Self { ports, cells, .. } = self;
        let side = &mut ports[egress].egress;
        let Some(gone) = side.flows.remove(part) else { return };
        Class::all().for_each(|class| side.note_ready(class));
        side.note_first(now, gone.sharer, cells);
        for (sender, lane) in gone.lanes() {
            let Port { config, ingress, .. } = self.port_mut(sender);
            if gone.state == State::Aside {
                ingress.take_back(now, lane.frames - lane.spares, config);
            } else if lane.frames >= config.quota.get() {
                ingress.at_quota -= 1;
                ingress.resume(now, config);
            }
            self.refuse_queue(now, egress, &mut { lane.queue }, refusal, released);
        }
    }

    /// Refuses everything for `egress`.
    pub(crate) fn empty_egress(
        &mut self,
        now: Instant,
        egress: PortId,
        refusal: Refusal,
        released: &mut impl FnMut(Released<F>),
    ) {
        self.refuse_waiting(now, egress, refusal, released);
        let mut queues: Vec<_> =
            self.port(egress).egress.classes.0.iter().map(|class| class.queue).collect();
        for part in self.port(egress).egress.flows.keys().collect::<Vec<_>>() {
            self.refuse_flow(now, egress, part, refusal, released);
        }
        queues.extend(self.port(egress).egress.away.values());
        for mut queue in queues {
            self.refuse_queue(now, egress, &mut queue, refusal, released);
        }
        let Port { config, egress, .. } = self.port_mut(egress);
        let accounts = egress.classes.0.map(|class| class.account);
        let (closed, absent, paused) = (egress.closed, egress.absent, egress.paused);
        let (groups, link) = (mem::take(&mut egress.groups), egress.link.take());
        let empty = Egress::new(config, now, ClassMap(accounts));
        *egress = Egress { closed, absent, paused, groups, link, ..empty };
    }
}

//! How a switch has owners share an egress: [`Link`] is told what could go first of each.

use shares::Terms;
use units::{Instant, Span};

use crate::account::Load;
use crate::cells::Cells;
use crate::id::PortId;
use crate::link::{Link, LinkConfig, LinkUse, Owner, Sharer};
use crate::port::{Egress, Ingress};
use crate::switch::Switch;
use crate::within::PortUse;

impl Egress {
    /// Whose turns a sender's flows have: nobody's in particular where owners do not share.
    #[inline]
    pub(crate) fn sharer(&self, sender: &Ingress) -> Sharer {
        match self.link {
            Some(_) => Sharer { owner: sender.owner, port: sender.apart },
            None => Sharer::NOBODY,
        }
    }

    /// What the first frame is that a sharer could send now.
    fn first_of<F: Copy>(&self, sharer: Sharer, cells: &Cells<F>) -> Option<Load> {
        let (_, node) = self.flows.first(sharer, self.paused)?;
        Some(cells.label(node).load())
    }

    /// Another frame of a sharer may be its first now, or none.
    pub(crate) fn note_first<F: Copy>(&mut self, now: Instant, sharer: Sharer, cells: &Cells<F>) {
        if self.link.is_some() {
            let first = self.first_of(sharer, cells);
            self.link.iter_mut().for_each(|link| link.note(now, sharer, first));
        }
    }

    /// The same of all.
    pub(crate) fn note_all_first<F: Copy>(&mut self, now: Instant, cells: &Cells<F>) {
        let Some(link) = &self.link else { return };
        for sharer in link.sharers() {
            self.note_first(now, sharer, cells);
        }
    }

    /// The frame that was handed out has left its queue.
    pub(crate) fn note_left<F: Copy>(&mut self, now: Instant, sharer: Sharer, cells: &Cells<F>) {
        if self.link.is_some() {
            let first = self.first_of(sharer, cells);
            self.link.iter_mut().for_each(|link| link.leave(now, sharer, first));
        }
    }
}

impl<F: Copy> Switch<F> {
    /// Has the owners of flows that are offered at an egress share it, each on terms of its own.
    /// Who has been given none has no guarantee, no maximum and a weight of one.
    ///
    /// # Panics
    ///
    /// If there are flows at the egress.
    pub fn share(&mut self, port: PortId, link: LinkConfig) {
        let egress = &mut self.port_mut(port).egress;
        assert!(egress.flows.is_empty(), "port {} has flows already", port.index());
        egress.link = Some(Link::new(link).into());
    }

    /// Gives an owner terms at an egress that is [shared](Self::share). What it has used up of the
    /// former ones is not forgiven.
    pub fn set_terms(&mut self, now: Instant, port: PortId, owner: Owner, terms: Terms) {
        if let Some(link) = &mut self.port_mut(port).egress.link {
            link.set_terms(now, owner, terms);
        }
    }

    /// Gives a port's sender terms of its own at an egress that is [shared](Self::share): of what
    /// is its owner's there it has turns by these, and not with other senders in each flow. `None`:
    /// it is among others again, which have no guarantee together, no maximum and a weight of one.
    /// What is held of it stays in order.
    pub fn set_port_terms(
        &mut self,
        now: Instant,
        egress: PortId,
        port: PortId,
        terms: Option<Terms>,
    ) {
        let Self { ports, cells, .. } = self;
        let ingress = &ports[port].ingress;
        let (owner, was_apart) = (ingress.owner, ingress.apart != PortId::NONE);
        if ports[egress].egress.link.is_none() || terms.is_none() && !was_apart {
            return;
        }
        let apart = if terms.is_some() { port } else { PortId::NONE };
        ports[port].ingress.apart = apart;
        let side = &mut ports[egress].egress;
        if was_apart != terms.is_some() {
            side.flows.move_sender(now, port, Sharer { owner, port: apart }, cells);
        }
        let Some(link) = &mut side.link else { return };
        let its = Sharer { owner, port };
        match terms {
            Some(terms) => {
                link.set_port_terms(now, its, terms);
                side.note_first(now, its, cells);
            }
            None => drop(link.forget_port(now, owner, port)),
        }
        side.note_first(now, Sharer::of(owner), cells);
    }

    /// What a port's sender has had by now of an egress that is [shared](Self::share), if it has
    /// terms of its own.
    pub fn port_link_use(&self, egress: PortId, port: PortId) -> Option<PortUse> {
        let owner = self.port(port).ingress.owner;
        self.port(egress).egress.link.as_ref()?.used_by_port(Sharer { owner, port })
    }

    /// So much of a sender went by an egress that is [shared](Self::share), besides its turns
    /// there: what was sent again. Frames of its owner wait for that, not others'.
    pub fn charge(&mut self, now: Instant, egress: PortId, sender: PortId, load: Load) {
        let sharer = self.port(egress).egress.sharer(&self.port(sender).ingress);
        if let Some(link) = &mut self.port_mut(egress).egress.link {
            link.charge(now, sharer, load);
        }
    }

    /// What an owner has had by now of an egress that is [shared](Self::share). `None` if that is
    /// nothing, and it has no terms.
    pub fn link_use(&self, now: Instant, port: PortId, owner: Owner) -> Option<LinkUse> {
        self.port(port).egress.link.as_ref()?.used(now, owner)
    }

    /// How long guarantees did not hold at an egress that is [shared](Self::share), because it was
    /// sent less than they add up to.
    pub fn link_short(&self, port: PortId) -> Option<Span> {
        Some(self.port(port).egress.link.as_ref()?.short())
    }

    /// Whose the frames are that a port offers from now on.
    pub fn set_owner(&mut self, port: PortId, owner: Owner) {
        self.port_mut(port).ingress.owner = owner;
    }
}

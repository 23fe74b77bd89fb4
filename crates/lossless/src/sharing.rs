//! How a switch has owners share an egress: [`Link`] is told what could go first of each.

use alloc::vec::Vec;

use shares::Terms;
use units::{Instant, Span};

use crate::account::Load;
use crate::cells::Cells;
use crate::id::PortId;
use crate::link::{Link, LinkConfig, LinkUse, Owner};
use crate::port::Egress;
use crate::switch::Switch;

impl Egress {
    /// Whose a flow is: nobody's in particular where owners do not share.
    pub(crate) fn owner_of(&self, sender: Owner) -> Owner {
        if self.link.is_some() { sender } else { Owner::default() }
    }

    /// What the first frame is that an owner could send now.
    fn first_of<F: Copy>(&self, owner: Owner, cells: &Cells<F>) -> Option<Load> {
        let (_, node) = self.flows.first(owner, self.paused)?;
        Some(cells.label(node).load())
    }

    /// Another frame of an owner may be its first now, or none.
    pub(crate) fn note_first<F: Copy>(&mut self, now: Instant, owner: Owner, cells: &Cells<F>) {
        if self.link.is_some() {
            let first = self.first_of(owner, cells);
            self.link.iter_mut().for_each(|link| link.note(now, owner, first));
        }
    }

    /// The same of all owners.
    pub(crate) fn note_all_first<F: Copy>(&mut self, now: Instant, cells: &Cells<F>) {
        let Some(link) = &self.link else { return };
        for owner in link.owners().collect::<Vec<_>>() {
            self.note_first(now, owner, cells);
        }
    }

    /// The frame that was handed out has left its queue.
    pub(crate) fn note_left<F: Copy>(&mut self, now: Instant, owner: Owner, cells: &Cells<F>) {
        if self.link.is_some() {
            let first = self.first_of(owner, cells);
            self.link.iter_mut().for_each(|link| link.leave(now, owner, first));
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

    /// So much of an owner went by an egress that is [shared](Self::share), besides its turns
    /// there: what was sent again. Its own frames wait for that, not others'.
    pub fn charge(&mut self, now: Instant, port: PortId, owner: Owner, load: Load) {
        if let Some(link) = &mut self.port_mut(port).egress.link {
            link.charge(now, owner, load);
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

//! What a switch tells of owners.

use alloc::collections::BTreeMap;

use units::Instant;

use crate::books::Books;
use crate::id::PortId;
use crate::link::Owner;
use crate::switch::Switch;

impl<F: Copy> Switch<F> {
    /// The books of every owner that has or had a port, but for one port that is of several.
    pub fn books(&self, now: Instant, shared: Option<PortId>) -> BTreeMap<Owner, Books> {
        let mut books = self.retired.owners.clone();
        for (_, port) in self.ports.iter().filter(|(id, _)| Some(*id) != shared) {
            let books = books.entry(port.ingress.owner).or_default();
            books.ports += 1;
            books.add(now, port);
        }
        books
    }

    /// An owner's number is about to mean another, which begins with empty books and without terms
    /// wherever owners [share](Self::share). It must have no port, and no frame.
    pub fn forget_owner(&mut self, owner: Owner) {
        debug_assert!(self.ports.iter().all(|(_, port)| port.ingress.owner != owner));
        if let Some(books) = self.retired.owners.remove(&owner) {
            self.retired.forgotten.merge(&books.ingress);
        }
        for id in self.attached() {
            self.port_mut(id).egress.link.iter_mut().for_each(|link| link.forget(owner));
        }
    }
}

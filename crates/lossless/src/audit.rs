//! The proof of the law, from the queues themselves.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;

use units::{Class, ClassMap};

use crate::account::Account;
use crate::bystanders::Counted;
use crate::flows::State;
use crate::id::PortId;
use crate::switch::Switch;

/// The switch breaks its word: a defect of ours.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Defect {
    /// The books do not balance.
    #[error("port {port} class {class} {side}: {account:?} but {counted} frames lie in queues")]
    Imbalance {
        /// The port's number.
        port: usize,
        /// The class.
        class: Class,
        /// `ingress` or `egress`.
        side: &'static str,
        /// The account that is wrong.
        account: Box<Account>,
        /// What really waits.
        counted: u64,
    },
    /// The books of a group of flows do not balance.
    #[error("port {port} group {group}: {account:?} but {counted} frames lie in queues")]
    Group {
        /// The port's number.
        port: usize,
        /// The group's number.
        group: u32,
        /// The account that is wrong.
        account: Box<Account>,
        /// What really waits.
        counted: u64,
    },
    /// What is held of copies for bystanders, of a sender or at an egress, is not what its books
    /// say.
    #[error("port {port}: {booked} frames are held for bystanders, and {counted} lie in queues")]
    Copies {
        /// The sender's port, or the egress's.
        port: usize,
        /// What the books say.
        booked: u32,
        /// What really waits.
        counted: u32,
    },
    /// A frame waits for an egress that has room for it.
    #[error("port {port} class {class}: a frame waits although there is room")]
    Idle {
        /// The egress's number.
        port: usize,
        /// The class.
        class: Class,
    },
    /// A frame waits for a receiver that nobody would visit, or in a flow that has no turn.
    #[error(
        "port {port}: frames wait for its receiver, or in a flow, that is not known to be visited"
    )]
    Forgotten {
        /// The egress's number.
        port: usize,
    },
}

impl<F: Copy> Switch<F> {
    /// Proves the law: counts what lies in every queue and compares it with the books, and finds
    /// nobody waiting without need.
    ///
    /// # Errors
    ///
    /// The first [`Defect`].
    pub fn audit(&self) -> Result<(), Defect> {
        let mut came = vec![ClassMap([0; Class::COUNT]); self.ports.len()];
        for label in self.cells.held() {
            came[usize::from(label.stamp.ingress())][label.stamp.class()] += 1;
        }
        for (id, port) in self.ports.iter() {
            self.audit_port(id)?;
            for class in Class::all() {
                let account = &port.ingress.classes[class].account;
                compare(id, class, "ingress", account, came[id.index()][class])?;
            }
        }
        compare_copies(self.wrong_copies())
    }

    /// Proves the law for one port: the books of both its sides balance, its egress's queues hold
    /// what the books say, and nobody waits for it without need. Takes as long as there are frames
    /// for that egress; of its ingress, no frames are counted.
    ///
    /// # Errors
    ///
    /// The first [`Defect`].
    pub fn audit_port(&self, id: PortId) -> Result<(), Defect> {
        let port = &self.ports[id];
        let index = id.index();
        let switched = port.egress.classes.0.iter().map(|class| &class.queue);
        let flows = port.egress.flows.iter().flat_map(|(_, flow)| flow.queues());
        let waiting = Class::all().flat_map(|class| self.waiting(id, class)).map(|voq| &voq.queue);
        let away = port.egress.away.values();
        let queues = switched.chain(flows).chain(away).chain(waiting);
        let (mut meant, mut copies) = (ClassMap([0; Class::COUNT]), Counted::new());
        for node in queues.flat_map(|queue| self.cells.iter(queue)) {
            meant[self.cells.label(node).stamp.class()] += 1;
            self.count_copy(&mut copies, node);
        }
        let is_forgotten = !port.egress.is_idle() && !self.pending.contains(id);
        if is_forgotten || !port.egress.flows.turns_are_of_the_ready() {
            return Err(Defect::Forgotten { port: index });
        }
        for class in Class::all() {
            let ingress = &port.ingress.classes[class].account;
            compare(id, class, "ingress", ingress, ingress.held)?;
            compare(id, class, "egress", &port.egress.classes[class].account, meant[class])?;
            let next = self.waiting(id, class).next().and_then(|voq| voq.queue.head());
            let places = &port.places[usize::from(self.settings.classes.lossy(class).is_some())];
            let side = &port.egress.classes[class];
            if next.is_some_and(|node| side.permits(places, self.cells.label(node).load())) {
                return Err(Defect::Idle { port: index, class });
            }
        }
        compare_copies(self.wrong_copies_at(id, &copies))?;
        self.audit_groups(id)
    }

    /// The same of the groups of flows behind one port.
    fn audit_groups(&self, id: PortId) -> Result<(), Defect> {
        let egress = &self.ports[id].egress;
        let offered = egress.flows.iter().filter(|(_, flow)| flow.state != State::Aside);
        let offered =
            offered.flat_map(|(part, it)| it.queues().map(move |queue| (part.flow, queue)));
        let away = egress.away.iter().map(|(flow, queue)| (*flow, queue));
        let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
        for (flow, queue) in offered.chain(away) {
            // What was set aside, or came from a class's queue, is underway for no group.
            let of_groups = self.cells.iter(queue).filter_map(|node| self.cells.group(node));
            let in_flow = of_groups.filter(|group| *group == flow.group()).count();
            *counted.entry(flow.group()).or_default() += in_flow as u64;
        }
        for (group, _) in egress.groups.iter() {
            counted.entry(group).or_default();
        }
        for (group, counted) in counted {
            let account = egress.groups.get(group).copied().unwrap_or_default();
            if !account.balances() || account.held != counted {
                let account = Box::new(account);
                return Err(Defect::Group { port: id.index(), group, account, counted });
            }
        }
        Ok(())
    }
}

/// Nothing is wrong with the books of copies, unless this is.
fn compare_copies(wrong: Option<(PortId, u32, u32)>) -> Result<(), Defect> {
    match wrong {
        Some((port, booked, counted)) => {
            Err(Defect::Copies { port: port.index(), booked, counted })
        }
        None => Ok(()),
    }
}

/// Compares an account with what was counted in queues.
fn compare(
    id: PortId,
    class: Class,
    side: &'static str,
    account: &Account,
    counted: u64,
) -> Result<(), Defect> {
    if account.balances() && account.held == counted {
        return Ok(());
    }
    Err(Defect::Imbalance { port: id.index(), class, side, account: Box::new(*account), counted })
}

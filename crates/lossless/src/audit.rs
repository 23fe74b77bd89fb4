//! The proof of the law, from the queues themselves.

use alloc::boxed::Box;
use alloc::vec;

use units::{Class, ClassMap};

use crate::account::Account;
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
    /// A frame waits for an egress that has room for it.
    #[error("port {port} class {class}: a frame waits although there is room")]
    Idle {
        /// The egress's number.
        port: usize,
        /// The class.
        class: Class,
    },
    /// A frame waits for a receiver that nobody would visit, or in a flow that has no turn.
    #[error("port {port}: frames wait for its receiver, or in a flow, that is not known to be visited")]
    Forgotten {
        /// The egress's number.
        port: usize,
    },
}

impl<F: Copy> Switch<F> {
    /// Proves the law: counts what lies in every queue and compares it with the books, and finds nobody waiting without
    /// need.
    ///
    /// # Errors
    ///
    /// The first [`Defect`].
    pub fn audit(&self) -> Result<(), Defect> {
        let mut came = vec![ClassMap([0; Class::COUNT]); self.ports.len()];
        for label in self.cells.held() {
            came[usize::from(label.stamp.ingress())][label.stamp.class()] += 1;
        }
        let mut meant = vec![ClassMap([0; Class::COUNT]); self.ports.len()];
        for (id, port) in self.ports.iter() {
            let switched = port.egress.classes.0.iter().map(|class| &class.queue);
            let flows = port.egress.flows.iter().flat_map(|(_, flow)| flow.queues());
            let waiting = Class::all().flat_map(|class| self.waiting(id, class)).map(|voq| &voq.queue);
            let away = port.egress.away.values();
            let queues = switched.chain(flows).chain(away).chain(waiting);
            for node in queues.flat_map(|queue| self.cells.iter(queue)) {
                meant[id.index()][self.cells.label(node).stamp.class()] += 1;
            }
        }
        for (id, port) in self.ports.iter() {
            let index = id.index();
            let is_forgotten = !port.egress.is_idle() && !self.pending.contains(id);
            if is_forgotten || !port.egress.flows.rings_hold_the_ready() {
                return Err(Defect::Forgotten { port: index });
            }
            for class in Class::all() {
                let sides = [
                    ("ingress", port.ingress.classes[class].account, came[index][class]),
                    ("egress", port.egress.classes[class].account, meant[index][class]),
                ];
                for (side, account, counted) in sides {
                    if !account.balances() || account.held != counted {
                        let account = Box::new(account);
                        return Err(Defect::Imbalance { port: index, class, side, account, counted });
                    }
                }
                let next = self.waiting(id, class).next().and_then(|voq| voq.queue.head());
                if next.is_some_and(|node| port.permits(class, self.cells.label(node).load())) {
                    return Err(Defect::Idle { port: index, class });
                }
            }
        }
        Ok(())
    }
}

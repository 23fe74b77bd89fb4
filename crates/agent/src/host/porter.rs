//! Makes ports' devices, and ends them, on a thread of its own: the kernel takes its time with
//! both, and no frame is to wait for that.
//!
//! ```text
//!   Host ─make, end─▶ zovn-ports ─what was made, bell─▶ Host
//! ```
//!
//! It does one thing after the other, in the order in which it was told: so a port that is attached
//! where another was detached finds nothing of that one. At the start and the end of a host, when
//! no frame flows, many threads do the same ([`all`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nic::{NicConfig, NicPort};
use port::PortError;
use tap::{TapConfig, TapPort};
use vhost::handover::Handover;
use vhost::port::{VhostConfig, VhostPort};

use super::device::Device;
use super::error::AttachError;
use super::inspector::Inspector;
use crate::bell::Bell;

/// How many devices are made or ended at once where many are: the kernel waits for all processors
/// with each (RCU), and for several of them at the same time.
const AT_ONCE: usize = 32;

/// How often it looks whether containers that were not there have come.
const RETRY: Duration = Duration::from_secs(1);

/// What a device is made of.
pub(super) enum Recipe {
    /// An interface, which may come later.
    Interface(InterfaceRecipe),
    /// A virtual machine's card, and what is left of it or can be left to the next switch.
    Machine(Box<VhostConfig>, Option<Handover>),
}

/// What a port is made of that has an interface.
#[derive(Clone)]
pub(super) enum InterfaceRecipe {
    /// A container's.
    Container(TapConfig),
    /// The host's own.
    Host(NicConfig),
}

/// A device, and what looks at its interface if it has one.
pub(super) struct Made {
    pub device: Box<Device>,
    pub inspector: Inspection,
}

/// What looks at a port's interface, if it has one; or why nobody does.
pub(super) type Inspection = Option<io::Result<Inspector>>;

/// What became of a recipe.
pub(super) type Outcome = Result<Made, AttachError>;

/// Hears how a device has ended.
pub(super) type Ended = Box<dyn FnOnce(Result<(), PortError>) + Send>;

/// Which recipe it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ticket(u64);

/// Has devices made and ended. When it is dropped, everything that was ordered has been done.
pub(super) struct Porter {
    orders: Option<Sender<Order>>,
    made: Receiver<(Ticket, Outcome)>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    tickets: u64,
}

enum Order {
    Make(Ticket, Recipe),
    Await(Ticket, InterfaceRecipe),
    Forget(Ticket),
    End(Box<Device>, Ended),
}

/// A port whose interface, or whose container, is not there.
struct Awaited {
    ticket: Ticket,
    recipe: InterfaceRecipe,
    /// Why its device could not be made when that was tried last.
    why: String,
}

impl Recipe {
    /// Makes the device.
    pub(super) fn make(self) -> Outcome {
        match self {
            Self::Interface(recipe) => recipe.make(),
            Self::Machine(config, handover) => {
                let device = VhostPort::attach(*config, handover)?;
                Ok(Made { device: Box::new(Device::Vhost(device)), inspector: None })
            }
        }
    }
}

impl InterfaceRecipe {
    fn make(&self) -> Outcome {
        let (device, inspector) = match self {
            Self::Container(config) => {
                let device = TapPort::attach(config)?;
                let inspector = device.inspector().map(Inspector::Tap);
                (Device::Tap(device), inspector.map_err(io::Error::other))
            }
            Self::Host(config) => {
                let device = NicPort::attach(config)?;
                let inspector = device.inspector().map(Inspector::Nic);
                (Device::Nic(device), inspector)
            }
        };
        Ok(Made { device: Box::new(device), inspector: Some(inspector) })
    }
}

impl Porter {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let (orders, inbox) = mpsc::channel();
        let (outbox, made) = mpsc::channel();
        let rung = bell.clone();
        let tell = move |ticket, outcome| {
            // If nobody takes it, `finish` does.
            let _ = outbox.send((ticket, outcome));
            rung.ring();
        };
        let work = move || work(&inbox, tell);
        let thread = thread::Builder::new().name("zovn-ports".into()).spawn(work)?;
        Ok(Self { orders: Some(orders), made, bell, thread: Some(thread), tickets: 0 })
    }

    /// A ticket that no other port has had.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Has a device made. [`made`](Self::made) returns it with this ticket.
    pub(super) fn make(&mut self, recipe: Recipe) -> Ticket {
        let ticket = self.ticket();
        self.order(Order::Make(ticket, recipe));
        ticket
    }

    /// Has a device made once its interface, or its container, is there. [`made`](Self::made)
    /// returns it with this ticket, and before that why it cannot be made yet, each time that
    /// changes.
    pub(super) fn make_later(&mut self, recipe: InterfaceRecipe) -> Ticket {
        let ticket = self.ticket();
        self.order(Order::Await(ticket, recipe));
        ticket
    }

    /// Has nothing more waited for. The device may have been made already.
    pub(super) fn forget(&self, ticket: Ticket) {
        self.order(Order::Forget(ticket));
    }

    /// Has a device ended for good. `ended` is called on the other thread.
    pub(super) fn end(&self, device: Box<Device>, ended: Ended) {
        self.order(Order::End(device, ended));
    }

    /// What was made since the last call, or could not be.
    pub(super) fn made(&self) -> Vec<(Ticket, Outcome)> {
        self.bell.silence();
        self.made.try_iter().collect()
    }

    /// Waits until everything that was ordered has been done, and returns what was made meanwhile.
    pub(super) fn finish(&mut self) -> Vec<Made> {
        self.stop();
        self.made.try_iter().filter_map(|(_, outcome)| outcome.ok()).collect()
    }

    fn order(&self, order: Order) {
        let is_taken = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        assert!(is_taken, "the thread lives as long as it is given orders");
    }

    fn stop(&mut self) {
        self.orders = None;
        // A panic of the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Readable when something was made, or could not be.
impl AsFd for Porter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Takes orders, and looks in between whether containers have come.
fn work(orders: &Receiver<Order>, tell: impl Fn(Ticket, Outcome)) {
    let mut awaited: Vec<Awaited> = Vec::new();
    let mut looked_at = Instant::now();
    loop {
        let order = match awaited.len() {
            0 => orders.recv().map_err(RecvTimeoutError::from),
            _ => orders.recv_timeout(RETRY.saturating_sub(looked_at.elapsed())),
        };
        match order {
            Ok(Order::Make(ticket, recipe)) => tell(ticket, recipe.make()),
            Ok(Order::Await(ticket, recipe)) => {
                awaited.push(Awaited { ticket, recipe, why: String::new() });
            }
            Ok(Order::Forget(ticket)) => awaited.retain(|port| port.ticket != ticket),
            Ok(Order::End(device, ended)) => ended(device.detach()),
            Err(RecvTimeoutError::Timeout) => {
                awaited.retain_mut(|port| match port.recipe.make() {
                    Ok(made) => {
                        tell(port.ticket, Ok(made));
                        false
                    }
                    Err(error) => {
                        let before = std::mem::replace(&mut port.why, error.to_string());
                        if port.why != before {
                            tell(port.ticket, Err(error));
                        }
                        true
                    }
                });
                looked_at = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Does the same to each of these on several threads, and returns what came of each, in order.
pub(super) fn all<T: Send, O: Send>(things: Vec<T>, work: impl Fn(T) -> O + Sync) -> Vec<O> {
    let helpers = things.len().min(AT_ONCE).saturating_sub(1);
    let (left, done) = (Mutex::new(things.into_iter().enumerate()), Mutex::new(Vec::new()));
    let help = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((place, thing)) = next else { return };
            let outcome = work(thing);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            // With fewer threads, or none, it takes longer.
            let helper = thread::Builder::new().name("zovn-ports".into());
            if helper.spawn_scoped(scope, help).is_err() {
                break;
            }
        }
        help();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_do_comes_back_in_order() {
        assert_eq!(
            all((0..500).collect(), |number: u32| 2 * number),
            Vec::from_iter((0..500).map(|n| 2 * n))
        );
        assert!(all(Vec::<u32>::new(), |number| number).is_empty());
    }
}

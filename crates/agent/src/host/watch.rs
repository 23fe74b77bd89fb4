//! What becomes of ports' interfaces, which containers and operators change, found out on a thread
//! of its own: the kernel answers under a lock that others may hold for long, and no frame is to
//! wait for that.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kernel::clock::timespec;
use kernel::netlink::Changes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use units::Span;

use super::inspector::{Inspector, Seen};
use super::porter::Ticket;
use crate::bell::Bell;

/// How long a round through all ports takes at least, and how long the kernel is left in peace
/// between two ports: others wait for its lock as well.
const ROUND: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// How long at least it is between two looks for changes of the host's interfaces.
const LEAST: Span = Span::from_millis(50);

/// Has ports looked at. The thread ends with it and the last of its [`Sight`]s.
#[derive(Debug)]
pub(super) struct Watcher {
    orders: Sender<Order>,
    vanished: Receiver<Ticket>,
    bell: Arc<Bell>,
    /// Rings when nobody is to hear of changes any more.
    end: Arc<Bell>,
}

/// A port under watch until this is dropped, and until the thread, which may be waiting for the
/// kernel, hears of it: so long it keeps the port's namespace.
#[derive(Debug)]
pub(super) struct Sight {
    seen: Shared,
    orders: Sender<Order>,
}

/// What the last look found.
type Shared = Arc<Mutex<Seen>>;

#[derive(Debug)]
enum Order {
    Watch(Watched),
    Forget(Shared),
    /// An interface of the host has changed.
    Changed,
}

/// A port under watch.
#[derive(Debug)]
struct Watched {
    ticket: Ticket,
    inspector: Inspector,
    seen: Shared,
}

impl Watcher {
    /// Starts the thread, and one that hears of changes of interfaces.
    pub(super) fn start() -> io::Result<Self> {
        let (bell, end) = (Arc::new(Bell::new()?), Arc::new(Bell::new()?));
        let (orders, inbox) = mpsc::channel();
        let changes = Changes::open().map_err(io::Error::other)?;
        let (listener, ended) = (orders.clone(), end.clone());
        thread::Builder::new()
            .name("zovn-changes".into())
            .spawn(move || listen(changes, &listener, &ended))?;
        let (outbox, vanished) = mpsc::channel();
        let rung = bell.clone();
        thread::Builder::new()
            .name("zovn-watch".into())
            .spawn(move || watch(&inbox, &outbox, &rung))?;
        Ok(Self { orders, vanished, bell, end })
    }

    /// Has the interface of the port with this ticket looked at, from now on and again and again.
    pub(super) fn watch(&self, ticket: Ticket, inspector: Inspector) -> Sight {
        let seen = Shared::default();
        let sight = Sight { seen: seen.clone(), orders: self.orders.clone() };
        // If the thread has died, nothing is seen any more; frames flow all the same.
        let _ = self.orders.send(Order::Watch(Watched { ticket, inspector, seen }));
        sight
    }

    /// The ports whose containers or interfaces were deleted since the last call.
    pub(super) fn vanished(&self) -> Vec<Ticket> {
        self.bell.silence();
        self.vanished.try_iter().collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end.ring();
    }
}

/// Readable when a container or an interface was deleted, or looks otherwise than before.
impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Sight {
    /// Whether the interface takes no frames.
    pub(super) fn is_down(&self) -> bool {
        lock(&self.seen).is_down
    }

    /// How many frames have come by the interface that the switch never had, if that is known.
    pub(super) fn missed(&self) -> Option<u64> {
        lock(&self.seen).missed
    }

    /// What the operator ought to know of the interface, in sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        // Either the thread has the other, or it is in an order on its way there.
        if Arc::strong_count(&self.seen) == 1 {
            return vec![
                "the interface is not looked at any more: restart the agent when it suits".into(),
            ];
        }
        lock(&self.seen).notes.clone()
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        // Without the thread there is nobody to forget it.
        let _ = self.orders.send(Order::Forget(self.seen.clone()));
    }
}

/// Looks at one port after the other, and takes orders in between. Tells of those whose containers
/// were deleted, at the latest a round after that, and forgets them.
fn watch(orders: &Receiver<Order>, vanished: &Sender<Ticket>, bell: &Bell) {
    // The one that was looked at last is the last.
    let mut watched: VecDeque<Watched> = VecDeque::new();
    let (mut looked_at, mut checked_at) = (Instant::now(), Instant::now());
    loop {
        let order = match watched.len() {
            0 => orders.recv().map_err(RecvTimeoutError::from),
            count => {
                let pause = (ROUND / count as u32).max(PAUSE);
                orders.recv_timeout(pause.saturating_sub(looked_at.elapsed()))
            }
        };
        match order {
            Ok(Order::Watch(port)) => watched.push_back(port),
            Ok(Order::Forget(seen)) => watched.retain(|port| !Arc::ptr_eq(&port.seen, &seen)),
            Ok(Order::Changed) => {
                let hosts = watched.iter_mut().filter(|port| port.inspector.is_of_host());
                hosts.for_each(|port| port.look(bell));
            }
            Err(RecvTimeoutError::Timeout) => {
                if checked_at.elapsed() >= ROUND {
                    checked_at = Instant::now();
                    watched.retain(|port| {
                        let is_there = port.inspector.is_reachable();
                        if !is_there {
                            // Without a host there is nobody to tell.
                            let _ = vanished.send(port.ticket);
                            bell.ring();
                        }
                        is_there
                    });
                }
                if !watched.is_empty() {
                    let due = watched.iter_mut().filter(|port| port.inspector.is_due());
                    due.for_each(|port| port.look(bell));
                    watched.rotate_left(1);
                    watched.back_mut().expect("there is one").look(bell);
                }
                looked_at = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Watched {
    /// Looks at the port's interface.
    fn look(&mut self, bell: &Bell) {
        let seen = self.inspector.look();
        let before = std::mem::replace(&mut *lock(&self.seen), seen.clone());
        if before != seen {
            bell.ring();
        }
    }
}

/// Tells of changes of the host's interfaces, until the bell rings.
fn listen(mut changes: Changes, orders: &Sender<Order>, end: &Bell) {
    let is_over = |changes: Option<&Changes>, wait: Option<Timespec>| {
        let sources = [Some(end.as_fd()), changes.map(AsFd::as_fd)].into_iter().flatten();
        let mut sources: Vec<_> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        // Where a signal interrupts it, one change more is told.
        poll(&mut sources, wait.as_ref()).is_ok() && sources[0].revents().contains(PollFlags::IN)
    };
    while !is_over(Some(&changes), None) {
        // Ports are looked at in turn all the same.
        if changes.clear().is_err() || orders.send(Order::Changed).is_err() {
            return;
        }
        if is_over(None, Some(timespec(LEAST))) {
            return;
        }
    }
}

/// Sentences are whole, whatever happened to who wrote the ones before.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

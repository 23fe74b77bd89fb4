//! What containers do to their interfaces, found out on a thread of its own: the kernel answers under a lock that others
//! may hold for long, and no frame is to wait for that.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ports::tap::Inspector;

/// How often the kernel is asked about each port, and how long it is left in peace between two: others wait for its lock
/// as well.
const ROUND: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Has ports looked at. The thread ends with it and the last of its [`Sight`]s.
#[derive(Debug)]
pub(super) struct Watcher {
    orders: Sender<Order>,
}

/// A port under watch, until this is dropped.
#[derive(Debug)]
pub(super) struct Sight {
    notes: Notes,
    orders: Sender<Order>,
}

/// What the last look found, in sentences.
type Notes = Arc<Mutex<Vec<String>>>;

enum Order {
    Watch(Inspector, Notes),
    Forget(Notes),
}

impl Watcher {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel();
        thread::Builder::new().name("zovn-watch".into()).spawn(move || watch(&inbox))?;
        Ok(Self { orders })
    }

    /// Has a port looked at, from now on and again and again.
    pub(super) fn watch(&self, inspector: Inspector) -> Sight {
        let notes = Notes::default();
        let sight = Sight { notes: notes.clone(), orders: self.orders.clone() };
        // If the thread has died, nothing is seen any more; frames flow all the same.
        let _ = self.orders.send(Order::Watch(inspector, notes));
        sight
    }
}

impl Sight {
    /// What its operator ought to know, in sentences; nothing if all is well.
    pub(super) fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        // Without the thread there is nobody to forget it.
        let _ = self.orders.send(Order::Forget(self.notes.clone()));
    }
}

/// Looks at one port after the other, and takes orders in between.
fn watch(orders: &Receiver<Order>) {
    let mut watched: Vec<(Inspector, Notes)> = Vec::new();
    let mut next = 0;
    loop {
        let order = match watched.len() {
            0 => orders.recv().map_err(RecvTimeoutError::from),
            count => orders.recv_timeout((ROUND / count as u32).max(PAUSE)),
        };
        match order {
            Ok(Order::Watch(inspector, notes)) => watched.push((inspector, notes)),
            Ok(Order::Forget(notes)) => watched.retain(|(_, others)| !Arc::ptr_eq(others, &notes)),
            Err(RecvTimeoutError::Timeout) => {
                next = (next + 1) % watched.len();
                let (inspector, notes) = &mut watched[next];
                let seen = inspector.notes();
                *lock(notes) = seen;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Sentences are whole, whatever happened to who wrote the ones before.
fn lock(notes: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

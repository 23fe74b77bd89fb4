//! What containers do to their interfaces, found out on a thread of its own: the kernel answers
//! under a lock that others may hold for long, and no frame is to wait for that.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tap::Inspector;

/// How long a round through all ports takes at least, and how long the kernel is left in peace
/// between two ports: others wait for its lock as well.
const ROUND: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Has ports looked at. The thread ends with it and the last of its [`Sight`]s.
#[derive(Debug)]
pub(super) struct Watcher {
    orders: Sender<Order>,
}

/// A port under watch until this is dropped, and until the thread, which may be waiting for the
/// kernel, hears of it: so long it keeps the port's namespace.
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
        // Either the thread has the other, or it is in an order on its way there.
        if Arc::strong_count(&self.notes) == 1 {
            return vec![
                "the interface is not looked at any more: restart the agent when it suits".into(),
            ];
        }
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
    // The one that was looked at last is the last.
    let mut watched: VecDeque<(Inspector, Notes)> = VecDeque::new();
    let mut looked_at = Instant::now();
    loop {
        let order = match watched.len() {
            0 => orders.recv().map_err(RecvTimeoutError::from),
            count => {
                let pause = (ROUND / count as u32).max(PAUSE);
                orders.recv_timeout(pause.saturating_sub(looked_at.elapsed()))
            }
        };
        match order {
            Ok(Order::Watch(inspector, notes)) => watched.push_back((inspector, notes)),
            Ok(Order::Forget(notes)) => watched.retain(|(_, others)| !Arc::ptr_eq(others, &notes)),
            Err(RecvTimeoutError::Timeout) => {
                watched.rotate_left(1);
                let (inspector, notes) =
                    watched.back_mut().expect("with nobody to look at, there is no timeout");
                let seen = inspector.notes();
                *lock(notes) = seen;
                looked_at = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Sentences are whole, whatever happened to who wrote the ones before.
fn lock(notes: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}
